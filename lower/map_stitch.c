/* ConcatOffset and DynamicStitch, which gradients of concatenations and reductions apply to
 * shapes. */
#include "lower/index.h"

/* ---- ConcatOffset: where operand `out` begins along each axis ---- */

static int32_t pull_concat_offset(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct space scalar = space_of_coords(s, 0, NULL, NULL);
	int32_t rank = ht_xi(b, n->out[out].shape.dim[0]), begin = ht_xk(b, n->out[out].dtype, 0);
	int32_t axis = ht_xcvt(b, HT_I64, kb_pull(k, n->in[0], &scalar));

	axis = ht_xselect(b, ht_xlt(b, axis, ht_xi(b, 0)), ht_xadd(b, axis, rank), axis);
	for (int i = 0; i < out; i++)
		begin = ht_xadd(b, begin, kb_pull_arg(k, n, 1 + i, s));
	return ht_xselect(
		b, ht_xeq(b, space_coord(b, s, 0), axis), begin, ht_xk(b, n->out[out].dtype, 0));
}

const struct lower_op lower_concat_offset = { .family = FAMILY_MAP, .pull = pull_concat_offset };

/* ---- DynamicStitch, by constant indices: a choice for each row ---- */

enum { MOST_ROWS = 64 };

static int64_t count_of(const struct ht_node *n, int arg)
{
	return ht_shape_count(shape_of(n, arg));
}

/* Row `row` of the data of indices `arg`, at `s` in the other axes. */
static int32_t row_of(struct kernel_build *k, const struct ht_node *n, int arg, int64_t row,
	const struct space *s)
{
	int data = arg + n->ins / 2;
	struct ht_shape indices = shape_of(n, arg);
	int32_t x[HT_LOWER_RANK];

	for (int32_t i = indices.rank - 1; i >= 0; i--) {
		x[i] = ht_xi(&k->xb, row % indices.dim[i]);
		row /= indices.dim[i];
	}
	for (int32_t i = 1; i < s->rank; i++)
		x[indices.rank + i - 1] = space_coord(&k->xb, s, i);
	return pull_at(k, n, data, s, x);
}

static int32_t pull_stitch(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xk(b, compute_type(n->out[0].dtype), 0), row = space_coord(b, s, 0);

	(void)out;
	for (int arg = 0; arg < n->ins / 2; arg++)
		for (int64_t i = 0; i < count_of(n, arg); i++) {
			int32_t here = ht_xeq(b, row, ht_xi(b, const_int(n, arg, (size_t)i)));
			x = ht_xselect(b, here, row_of(k, n, arg, i, s), x);
		}
	return x;
}

static const char *refuse_stitch(const struct ht_node *n)
{
	int64_t rows = 0;

	for (int arg = 0; arg < n->ins / 2; arg++) {
		if (!is_const_ints(n, arg))
			return "needs constant indices";
		rows += count_of(n, arg);
		if (shape_of(n, arg + n->ins / 2).rank !=
			shape_of(n, arg).rank + n->out[0].shape.rank - 1)
			return "has data of different ranks";
	}
	return rows <= MOST_ROWS ? NULL : "puts together more than 64 rows, which has no kernel";
}

const struct lower_op lower_stitch = {
	.family = FAMILY_MAP, .pull = pull_stitch, .refuse = refuse_stitch
};

/* ---- BroadcastGradientArgs, which is folded where both shapes are known ---- */

static const char *refuse_axes(const struct ht_node *n)
{
	(void)n;
	return "needs shapes that are known at compile time (--input-shape may fix them)";
}

const struct lower_op lower_gradient_axes = { .family = FAMILY_ROOT, .refuse = refuse_axes };
