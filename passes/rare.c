/* rare: ops that few models have become common ones, which have kernels, and rules for open sizes.
 *
 * - Colours: AdjustContrastv2, AdjustSaturation, AdjustHue, RGBToHSV, HSVToRGB (rare_images.c).
 * - ResizeBicubic becomes gathers of four pixels along each axis, and products with their weights; its gradient the sums of what each pixel
 *   gave (rare_images.c).
 * - ImageProjectiveTransform becomes the places in the source of all pixels, and gathers of the pixels there (rare_transform.c).
 * - CTCGreedyDecoder becomes the best classes of all steps, and those of them that are found (rare_decoder.c).
 * - ComputeAccidentalHits becomes comparisons, and those that hold are found (rare_decoder.c).
 * - CTCLoss becomes a loop over steps (ctc.c).
 * - Inverses, determinants and systems of equations become loops (matrices.c).
 *
 * The pass also changes nodes in the bodies of functions.  It leaves images and scores of other ranks alone. */
#include "passes/ctc.h"
#include "passes/matrices.h"
#include "passes/rare.h"

static ht_rare *form_of(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_AdjustContrastv2:
		return ht_rare_contrast;
	case HT_OP_AdjustSaturation:
		return ht_rare_saturation;
	case HT_OP_AdjustHue:
		return ht_rare_hue;
	case HT_OP_RGBToHSV:
		return ht_rare_to_hsv;
	case HT_OP_HSVToRGB:
		return ht_rare_to_rgb;
	case HT_OP_ResizeBicubic:
		return ht_rare_cubic;
	case HT_OP_ResizeBicubicGrad:
		return ht_rare_cubic_gradient;
	case HT_OP_ImageProjectiveTransformV2:
	case HT_OP_ImageProjectiveTransformV3:
		return ht_rare_transform;
	case HT_OP_CTCGreedyDecoder:
		return ht_rare_greedy;
	case HT_OP_ComputeAccidentalHits:
		return ht_rare_hits;
	default:
		return NULL;
	}
}

static bool wants(const struct ht_node *n)
{
	return form_of(n) || ht_has_matrices(n) || ht_is_ctc_loss(n);
}

static void change(struct ht_rw *r, struct ht_node *n)
{
	struct maker f = { .r = r, .at = n, .name = n->name };
	struct ht_aside aside;
	bool stepped = !is_replaceable(&f);

	if (stepped && !ht_rw_step_aside(r, n, &aside))
		return;
	if (ht_has_matrices(n))
		ht_write_matrices(r, n);
	else if (ht_is_ctc_loss(n))
		ht_write_ctc_loss(r, n);
	else
		form_of(n)(&f);
	if (stepped && n->graph)
		ht_rw_step_back(r, &aside);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_everywhere(g, c, wants, change);
}

const struct ht_pass ht_pass_rare = {
	.name = "rare",
	.summary = "makes common ops of rare ones",
	.run = run,
};
