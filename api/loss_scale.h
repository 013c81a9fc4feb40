/* Internal: the loss scale of a session, as the vendor's managers have it (docs/train.md). */
#ifndef HT_API_LOSS_SCALE_H
#define HT_API_LOSS_SCALE_H

#include <halftone/train.h>

#include "base/base.h"

#define HT_LOSS_SCALE_NUMBERS 6 /* of a state, as checkpoints have it */

struct ht_scaling {
	const char *loss; /* the output that is scaled; NULL: none is */
	bool dynamic;
	bool unchecked; /* nobody looks for overflow, no step is skipped */
	/* Of a dynamic scale. */
	int64_t incr_every, decr_every;
	float incr_ratio, decr_ratio;
	/* What programs read and write. */
	float scale;
	uint8_t finite;
	/* What was so far. */
	int64_t good, bad, steps, skipped, in_a_row;
	bool diverges;
};

/* "fixed:1024", "dynamic:32768,incr-every=1000", …; "none" leaves *s without a loss. */
enum ht_status ht_scaling_parse(const char *text, struct ht_scaling *s, struct ht_diags *d);
/* Behind a step, whose gradients were or were not `finite`. */
void ht_scaling_update(struct ht_scaling *s);
void ht_scaling_numbers(const struct ht_scaling *s, int64_t out[HT_LOSS_SCALE_NUMBERS]);
/* Goes on from there; a fixed scale stays as it is. */
void ht_scaling_take(struct ht_scaling *s, const int64_t in[HT_LOSS_SCALE_NUMBERS]);

#endif
