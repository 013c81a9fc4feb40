/* rare: rare ops that pass rare (rare.c) writes in common ones, by file. */
#ifndef HT_PASSES_RARE_H
#define HT_PASSES_RARE_H

#include "passes/computed_rows.h"

/* Makes the nodes of which op `f->at` consists, in front of it, and lets them take its place. */
typedef void ht_rare(struct maker *f);

/* rare_images.c */
ht_rare ht_rare_contrast, ht_rare_saturation, ht_rare_hue, ht_rare_to_hsv, ht_rare_to_rgb,
	ht_rare_cubic, ht_rare_cubic_gradient;
/* rare_transform.c */
ht_rare ht_rare_transform;
/* rare_decoder.c */
ht_rare ht_rare_greedy, ht_rare_hits;

/* ---- nodes ---- */

/* Extent `axis` of an operand, as an integer of 64 bits. */
static inline struct ht_value extent_of_operand(
	struct maker *f, int32_t arg, int32_t rank, int32_t axis)
{
	struct ht_value s = shape_of(f, f->at->in[arg], HT_I64);

	s.node->out[0].shape = ht_shape_make(f->r->g->arena, 1, (const int64_t[]){ rank });
	return element(f, s, axis);
}

#endif
