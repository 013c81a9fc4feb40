/* Which options a compilation read: a key of the cache has these and no others. */
#ifndef HT_CHOICE_READS_H
#define HT_CHOICE_READS_H

#include "base/base.h"

/* The options of policies (precision/options.c), and what else a compilation may ask for. */
#define HT_READS_OF(X)                                                                             \
	X(policy) /* the mode, whatever named it, and the report that it may be */                 \
	X(allow_hf32)                                                                              \
	X(allowlist_add)                                                                           \
	X(allowlist_remove)                                                                        \
	X(batch_method)                                                                            \
	X(block_method)                                                                            \
	X(budget)                                                                                  \
	X(clearlist_add)                                                                           \
	X(clearlist_remove)                                                                        \
	X(conv_method)                                                                             \
	X(cost_table)                                                                              \
	X(cost_target)                                                                             \
	X(customize_dtypes)                                                                        \
	X(debug_dir)                                                                               \
	X(denylist_add)                                                                            \
	X(denylist_remove)                                                                         \
	X(dump_graphs)                                                                             \
	X(enable_scope_fusion_passes)                                                              \
	X(export_compile_stat)                                                                     \
	X(frontier)                                                                                \
	X(fusion_result)                                                                           \
	X(fusion_switch_file)                                                                      \
	X(graph_run_mode)                                                                          \
	X(grappler_level)                                                                          \
	X(inferlist_add)                                                                           \
	X(inferlist_remove)                                                                        \
	X(keep_dtype)                                                                              \
	X(lenient)                                                                                 \
	X(modify_mixlist)                                                                          \
	X(oo_constant_folding)                                                                     \
	X(oo_level)                                                                                \
	X(op_debug_level)                                                                          \
	X(op_precision_mode)                                                                       \
	X(op_select_implmode)                                                                      \
	X(ops_info)                                                                                \
	X(optimization_switch)                                                                     \
	X(optypelist_for_implmode)                                                                 \
	X(priced_node)                                                                             \
	X(profile)                                                                                 \
	X(samples)                                                                                 \
	X(sentinels)                                                                               \
	X(tf_random_seed)

enum ht_read {
#define X(name) HT_READ_##name,
	HT_READS_OF(X)
#undef X
		HT_READ_END
};
_Static_assert(HT_READ_END <= 64, "a bit for each");

/* A set of options. */
struct ht_reads {
	uint64_t bits; /* over enum ht_read */
};

static inline bool ht_was_read(struct ht_reads r, enum ht_read what)
{
	return r.bits >> what & 1;
}

/* `r` NULL: nobody asks. */
static inline void ht_note_read(struct ht_reads *r, enum ht_read what)
{
	if (r)
		r->bits |= UINT64_C(1) << what;
}

#endif
