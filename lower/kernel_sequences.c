/* Ops on sequences of classes, which are library kernels: the search for the most probable ones, and their distances. */
#include "lower/index.h"
#include "lower/library.h"

/* How many beginnings of sequences one search may hold in memory.  Each takes some forty bytes. */
enum { MOST_PATHS = 1 << 28 };

static enum ht_status emit_beams(struct lower *l, struct ht_node *n)
{
	struct ht_shape s = shape_of(n, 0);
	int64_t width = ht_attr_int(n, "beam_width", 1), best = ht_attr_int(n, "top_paths", 1);
	int32_t scores = distinct_operand(l, n, 0), lengths = distinct_operand(l, n, 1),
		rows = rows_operand(l, n, 1);
	struct kernel_build k;

	library_kernel(&k, l, "ctc_beams", s.dim[1], 6);
	k.params[0] = s.dim[0];
	k.params[1] = s.dim[1];
	k.params[2] = s.dim[2];
	k.params[3] = width;
	k.params[4] = best;
	k.params[5] = ht_attr_bool(n, "merge_repeated", true);
	kb_arg(&k, scores, HT_BUFFER_IN);
	kb_arg(&k, lengths, HT_BUFFER_IN);
	kb_arg(&k, rows, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_arg(&k, dense_result(l, n, 1), HT_BUFFER_OUT);
	kb_arg(&k, plan_buffer(l, HT_PLAN_TEMP, HT_I32, 2 * width * s.dim[1]), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse_beams(const struct ht_node *n)
{
	struct ht_shape s = shape_of(n, 0);
	int64_t width = ht_attr_int(n, "beam_width", 1), best = ht_attr_int(n, "top_paths", 1);

	if (s.dim[2] < 1 || s.dim[2] > INT32_MAX)
		return "has no classes";
	if (width < 1 || best < 1 || best > width)
		return "asks for more paths than its beam is wide, or for none";
	return width > MOST_PATHS / (s.dim[0] + 2) ? "has a beam that is too wide" : NULL;
}

const struct lower_op lower_ctc_beams = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_beams,
	.refuse = refuse_beams };

static enum ht_status emit_distance(struct lower *l, struct ht_node *n)
{
	int32_t rows = rows_operand(l, n, 0);
	struct kernel_build k;

	library_kernel(&k, l, "edit_distance", 1, 2);
	k.params[0] = shape_of(n, 0).dim[0];
	k.params[1] = ht_attr_bool(n, "normalize", true);
	kb_arg(&k, rows, HT_BUFFER_IN);
	for (int i = 1; i < n->ins; i++)
		kb_arg(&k, distinct_operand(l, n, i), HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

const struct lower_op lower_edit_distance = {
	.family = FAMILY_ROOT, .alone = true, .dense = true, .emit = emit_distance
};
