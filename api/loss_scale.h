/* Internal: the loss scale of a session, with the rules of the vendor's loss scale managers (docs/loss-scale.md). */
#ifndef HT_API_LOSS_SCALE_H
#define HT_API_LOSS_SCALE_H

#include <halftone/train.h>

#include "base/base.h"

#define HT_LOSS_SCALE_NUMBERS 6 /* in a checkpoint */

struct ht_scaling {
	const char *loss; /* name of the output whose gradients are scaled; NULL: none */
	bool dynamic;
	bool unchecked; /* gradients are not tested for overflow, and no step is skipped */
	/* Parameters of a dynamic scale. */
	int64_t incr_every, decr_every;
	float incr_ratio, decr_ratio;
	/* Variables of programs, which read the scale and write `finite`. */
	float scale;
	uint8_t finite;
	/* Counts of steps, as in struct ht_loss_scale. */
	int64_t good, bad, steps, skipped, in_a_row;
	bool diverges;
};

/* Reads "fixed:1024", "dynamic:32768,incr-every=1000", …; s->loss is "", or NULL for "none". */
enum ht_status ht_scaling_parse(const char *text, struct ht_scaling *s, struct ht_diags *d);
/* Called after each step, which has set s->finite. */
void ht_scaling_update(struct ht_scaling *s);
void ht_scaling_numbers(const struct ht_scaling *s, int64_t out[HT_LOSS_SCALE_NUMBERS]);
/* Restores the counts and a dynamic scale; a fixed scale stays as it is. */
void ht_scaling_take(struct ht_scaling *s, const int64_t in[HT_LOSS_SCALE_NUMBERS]);

#endif
