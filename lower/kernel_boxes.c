/* Non-maximum suppression: a library kernel, which computes an open size unless its results are
 * padded. */
#include "lower/index.h"
#include "lower/library.h"

#include <float.h>

/* Operands of the newest version; older versions lack the last ones. */
enum { BOXES, SCORES, MOST, OVERLAP, THRESHOLD, SIGMA, OPERANDS };

/* Whether the first operand is the matrix of overlaps of all pairs of boxes. */
static bool has_overlaps(const struct ht_node *n)
{
	return n->op == HT_OP_NonMaxSuppressionWithOverlaps;
}

/* Boxes with this score or a lower one are never candidates, even without a threshold. */
static float lowest_score(enum ht_dtype t)
{
	return t == HT_F16 ? -65504.0f : -FLT_MAX;
}

/* An operand, or its default if the version has none. */
static int32_t number(struct lower *l, const struct ht_node *n, int arg)
{
	if (arg < n->ins)
		return distinct_operand(l, n, arg);
	if (arg == OVERLAP)
		return number_operand(l, n, ht_attr_float(n, "iou_threshold", 0.5f));
	return number_operand(
		l, n, arg == THRESHOLD ? lowest_score(ht_type_of(n->in[SCORES])->dtype) : 0.0f);
}

static enum ht_dtype number_type(const struct ht_node *n, int arg)
{
	return arg < n->ins ? ht_type_of(n->in[arg])->dtype : HT_F32;
}

/* The results that only some versions have: the scores of the selected boxes, and the number of
 * these boxes. */
static int32_t scores(struct lower *l, const struct ht_node *n)
{
	return n->outs > 2 ? dense_result(l, n, 1)
			   : plan_buffer(l, HT_PLAN_TEMP, ht_type_of(n->in[SCORES])->dtype,
				     ht_shape_count(n->out[0].shape));
}

static int32_t count(struct lower *l, const struct ht_node *n)
{
	return n->outs > 1 ? dense_result(l, n, n->outs - 1)
			   : plan_buffer(l, HT_PLAN_TEMP, HT_I32, 1);
}

static enum ht_status emit_boxes(struct lower *l, struct ht_node *n)
{
	int32_t operand[OPERANDS], rows = rows_operand(l, n, 0);
	struct kernel_build k;

	for (int i = 0; i < OPERANDS; i++)
		operand[i] = number(l, n, i);
	library_kernel(&k, l, "boxes", 1, 7);
	k.params[0] = ht_type_of(n->in[BOXES])->dtype;
	k.params[1] = number_type(n, OVERLAP);
	k.params[2] = number_type(n, THRESHOLD);
	k.params[3] = number_type(n, SIGMA);
	k.params[4] = ht_shape_count(shape_of(n, SCORES));
	k.params[5] = ht_shape_count(n->out[0].shape);
	k.params[6] = has_overlaps(n);
	for (int i = 0; i < OPERANDS; i++)
		kb_arg(&k, operand[i], HT_BUFFER_IN);
	kb_arg(&k, rows, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_arg(&k, scores(l, n), HT_BUFFER_OUT);
	kb_arg(&k, count(l, n), HT_BUFFER_OUT);
	finish_computing(&k, l, n);
	return HT_OK;
}

static const char *refuse_boxes(const struct ht_node *n)
{
	struct ht_shape boxes = shape_of(n, BOXES);
	int64_t scores = shape_of(n, SCORES).dim[0];

	if (has_overlaps(n))
		return boxes.rank == 2 && boxes.dim[1] == scores && boxes.dim[0] == scores
			       ? NULL
			       : "has other overlaps than one for each two scores";
	return boxes.rank == 2 && boxes.dim[1] == 4 && scores == boxes.dim[0]
		       ? NULL
		       : "has other boxes than four numbers for each score";
}

const struct lower_op lower_boxes = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_boxes,
	.refuse = refuse_boxes };

/* ---- of several classes ---- */

static enum ht_status emit_combined(struct lower *l, struct ht_node *n)
{
	struct ht_shape boxes = shape_of(n, BOXES);
	int32_t operand[] = { distinct_operand(l, n, BOXES), distinct_operand(l, n, SCORES),
		distinct_operand(l, n, MOST), distinct_operand(l, n, OVERLAP + 1),
		distinct_operand(l, n, THRESHOLD + 1) };
	struct kernel_build k;

	library_kernel(&k, l, "combined_boxes", boxes.dim[0], 5);
	k.params[0] = boxes.dim[1];
	k.params[1] = boxes.dim[2];
	k.params[2] = shape_of(n, SCORES).dim[2];
	k.params[3] = n->out[1].shape.dim[1];
	k.params[4] = ht_attr_bool(n, "clip_boxes", true);
	for (size_t i = 0; i < HT_COUNT(operand); i++)
		kb_arg(&k, operand[i], HT_BUFFER_IN);
	for (int32_t i = 0; i < n->outs; i++)
		kb_arg(&k, dense_result(l, n, i), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

const struct lower_op lower_combined_boxes = {
	.family = FAMILY_ROOT, .alone = true, .dense = true, .emit = emit_combined
};
