/* Options of the Grappler policies. */
#ifndef HT_GRAPPLER_OPTIONS_H
#define HT_GRAPPLER_OPTIONS_H

#include "base/base.h"
#include "precision/grappler/tensorflow_ops.h"

/* One mode for each policy. */
enum ht_grappler_mode {
	HT_GRAPPLER_FP16,    /* as on a GPU */
	HT_GRAPPLER_BF16,    /* as with oneDNN on a CPU */
	HT_GRAPPLER_FP16_CPU /* float16 emulated in float32 */
};

enum ht_grappler_level {
	HT_LEVEL_NORMAL,
	HT_LEVEL_TENSOR_CORES_ONLY, /* fp16: only the allow list */
	HT_LEVEL_FORCE_ALL,
	HT_LEVEL_INFER_AS_DENY
};

/* Changes to the lists: bit sets over enum ht_paint_list, by row of ht_tf_ops. */
struct ht_grappler_options {
	const char *option; /* the first option that was set; NULL: none */
	enum ht_grappler_level level;
	uint8_t added[HT_TF_MAX_OPS], removed[HT_TF_MAX_OPS];
};

/* Sets an option: "allowlist_add", "inferlist_remove", …: ops separated by commas;
 * "grappler_level". HT_E_USAGE names the error. */
enum ht_status ht_grappler_option(
	struct ht_grappler_options *o, const char *key, const char *value, struct ht_diags *d);
/* The list of each row of ht_tf_ops.  An op that is on two lists is HT_E_USAGE, which names
 * them. */
enum ht_status ht_grappler_lists(const struct ht_grappler_options *o, enum ht_grappler_mode mode,
	struct ht_arena *a, struct ht_diags *d, uint8_t **list);

#endif
