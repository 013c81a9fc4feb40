/* Ops that move elements along axes that are open, or by what a run computes, for pass sizes.
 *
 * - ReverseV2 of several axes becomes several of one; Reverse becomes ReverseV2.
 * - UpperBound compares its results with the run's size.
 * - Split and SplitV become Slices.
 * - A reshaped Transpose whose order a condition chooses, as vectorized_map writes products, is reshaped in both orders. */
#include "passes/computed_rows.h"

enum { MOST_PARTS = 64 };

static bool is_open(const struct ht_graph *g, const struct ht_node *n, int32_t i, int64_t axis)
{
	struct ht_shape s = ht_in_shape(n, i);

	return s.rank > axis && ht_dim_size(g, s.dim[axis]);
}

static bool has_bound(const struct ht_graph *g, const struct ht_node *n, int32_t i, int64_t axis)
{
	struct ht_shape s = ht_in_shape(n, i);

	return s.rank > axis && ht_dim_most(g, s.dim[axis]) >= 0;
}

/* Axis number `i` that operand `arg` lists; -1: not known. */
static int64_t listed_axis(const struct ht_node *n, int32_t arg, int32_t rank, int32_t i)
{
	int64_t axes[HT_MAX_RANK];
	int count;

	if (!ht_const_small_ints(n->in[arg], axes, HT_MAX_RANK, &count) || i >= count ||
		!ht_fix_axis(&axes[i], rank))
		return -1;
	return axes[i];
}

/* ---- reversal ---- */

static bool expand_reverse(struct maker *f, struct ht_node *n)
{
	int64_t axes[HT_MAX_RANK], axis;
	struct ht_shape s = ht_in_shape(n, 0);
	int count = 0;
	bool some = false;

	while (n->op == HT_OP_ReverseV2 && (axis = listed_axis(n, 1, s.rank, count)) >= 0) {
		some = some || is_open(f->r->g, n, 0, axis);
		axes[count++] = axis;
	}
	if (!some || count < 2)
		return false;
	for (int i = 0; i + 1 < count; i++) {
		ht_rw_set_in(f->r, n, 0, ht_reversed(f, n->in[0], axes[i]));
		n->in[0].node->out[0].shape = s;
	}
	ht_rw_set_in(f->r, n, 1,
		ht_rw_const_ints(
			f->r, n, n->name, ht_type_of(n->in[1])->dtype, &axes[count - 1], 1));
	return true;
}

/* Operand 1 has a truth value for each axis. */
static bool expand_first_reverse(struct maker *f, struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	struct ht_value in[2] = { n->in[0] };
	int64_t axes[HT_MAX_RANK], count = 0;

	if (!t || !ht_shape_is_open(f->r->g, ht_in_shape(n, 0)))
		return false;
	for (int32_t i = 0; i < ht_shape_count(t->shape); i++)
		if (((const uint8_t *)t->blob->p)[i])
			axes[count++] = i;
	in[1] = ht_rw_const_ints(f->r, n, n->name, HT_I32, axes, count);
	ht_rw_become(f->r, n, HT_OP_ReverseV2, in, 2);
	return true;
}

/* ---- UpperBound ---- */

/* UpperBound counts the sorted numbers that are not above a value.  Numbers outside of the run's size are filled with the largest number of
 * their type, which is not above a value that is this number, so the count is cut off at the run's size. */
static bool expand_bound(struct maker *f, struct ht_node *n)
{
	struct ht_value most, v;

	if (ht_attr_find(n, "_enough") || !is_open(f->r->g, n, 0, 1))
		return false;
	most = ht_rw_cast(f->r, f->at, n->name, extent(f, n, 0, 1), n->out[0].dtype);
	ht_attr_set_bool(n, "_enough", true);
	v = binary(f, HT_OP_Minimum, ht_out(n, 0), most);
	ht_node_move(v.node, n->next);
	ht_rw_replace_behind(f->r, ht_out(n, 0), v);
	return true;
}

/* ---- Split and SplitV ---- */

static struct ht_value slice_of(struct maker *f, struct ht_value x, int64_t axis,
	struct ht_value begin, struct ht_value size)
{
	struct ht_type t = *ht_type_of(x);
	struct ht_value begins[HT_MAX_RANK], sizes[HT_MAX_RANK], in[3] = { x };

	for (int32_t i = 0; i < t.shape.rank; i++) {
		begins[i] = i == axis ? begin : whole(f, HT_I64, 0);
		sizes[i] = i == axis ? size : whole(f, HT_I64, -1);
	}
	in[1] = packed(f, begins, t.shape.rank);
	in[2] = packed(f, sizes, t.shape.rank);
	return node(f, HT_OP_Slice, in, 3, t.dtype, open_shape(f, t.shape.rank));
}

/* The sizes of parts: one that is -1 is the rest.  The run stops unless they add up to `all`. */
static void sizes_of_parts(
	struct maker *f, const struct ht_node *n, struct ht_value all, struct ht_value *size)
{
	struct ht_value total = whole(f, HT_I64, 0);
	int32_t rest = -1;
	int64_t x;

	for (int32_t i = 0; i < n->outs; i++) {
		size[i] = entry_of(f, n->in[1], i);
		if (const_entry(n->in[1], i, &x) && x == -1 && rest < 0)
			rest = i;
		else
			total = binary(f, HT_OP_AddV2, total, size[i]);
	}
	if (rest >= 0)
		size[rest] = binary(f, HT_OP_Sub, all, total);
	else
		size[0] = binary(f, HT_OP_AddV2, size[0], check_equal(f, total, all));
}

/* Parts of equal sizes. */
static void equal_parts(
	struct maker *f, const struct ht_node *n, struct ht_value all, struct ht_value *size)
{
	struct ht_value parts = whole(f, HT_I64, n->outs),
			each = binary(f, HT_OP_FloorDiv, all, parts);

	size[0] = binary(
		f, HT_OP_AddV2, each, check_equal(f, binary(f, HT_OP_Mul, each, parts), all));
	for (int32_t i = 1; i < n->outs; i++)
		size[i] = each;
}

/* The axis that the node divides, if it is open or if the run computes sizes; -1: it is another one. */
static int64_t divided_axis(const struct ht_graph *g, const struct ht_node *n)
{
	bool equal = n->op == HT_OP_Split;
	int32_t value = equal ? 1 : 0;
	int64_t axis = listed_axis(n, equal ? 0 : 2, ht_in_shape(n, value).rank, 0);

	if (axis < 0 || n->outs < 2 || n->outs > MOST_PARTS || !has_bound(g, n, value, axis))
		return -1;
	if (!is_open(g, n, value, axis) &&
		(equal ? ht_in_shape(n, 1).dim[axis] >= 0 : ht_is_const(n->in[1])))
		return -1;
	return axis;
}

static bool expand_split(struct maker *f, struct ht_node *n)
{
	int64_t axis = divided_axis(f->r->g, n);
	int32_t value = n->op == HT_OP_Split;
	struct ht_value x, all, begin = whole(f, HT_I64, 0), size[MOST_PARTS], part[MOST_PARTS];

	if (axis < 0 ||
		(!value && ht_waits_for_shapes(f->r->g, n) && !is_open(f->r->g, n, 0, axis)))
		return false;
	x = n->in[value];
	all = extent(f, n, value, axis);
	if (value)
		equal_parts(f, n, all, size);
	else
		sizes_of_parts(f, n, all, size);
	for (int32_t i = 0; i < n->outs; i++) {
		part[i] = slice_of(f, x, axis, begin, size[i]);
		begin = binary(f, HT_OP_AddV2, begin, size[i]);
	}
	replace_results(f, n, part);
	return true;
}

/* ---- orders of axes that a condition chooses ---- */

/* The choice between two constant orders by which the operand of the Reshape is transposed; NULL: there is none. */
static const struct ht_node *chosen_order(const struct ht_node *n)
{
	const struct ht_node *t = n->in[0].node,
			     *order = t->op == HT_OP_Transpose ? t->in[1].node : NULL;

	if (!order || (order->op != HT_OP_Select && order->op != HT_OP_SelectV2) ||
		ht_in_shape(order, 0).rank != 0 || ht_in_shape(t, 0).rank < 0)
		return NULL;
	return ht_const_tensor(order->in[1]) && ht_const_tensor(order->in[2]) ? order : NULL;
}

bool ht_expand_chosen_order(struct maker *f, struct ht_node *n)
{
	const struct ht_node *order = chosen_order(n);
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value in[3];

	if (!order)
		return false;
	in[0] = order->in[0];
	for (int i = 1; i < 3; i++) {
		const struct ht_value x = n->in[0].node->in[0];
		struct ht_value v = node(f, HT_OP_Transpose, (struct ht_value[]){ x, order->in[i] },
			2, t, open_shape(f, ht_type_of(x)->shape.rank));

		in[i] = node(f, HT_OP_Reshape, (struct ht_value[]){ v, n->in[1] }, 2, t,
			n->out[0].shape);
	}
	ht_rw_take_place(f->r, n, node(f, HT_OP_SelectV2, in, 3, t, n->out[0].shape));
	return true;
}

/* ---- every node ---- */

bool ht_moves_open(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Split:
	case HT_OP_SplitV:
		return divided_axis(g, n) >= 0;
	case HT_OP_Reverse:
	case HT_OP_ReverseV2:
	case HT_OP_UpperBound:
		return ht_shape_is_open(g, ht_in_shape(n, 0));
	case HT_OP_Reshape:
		return chosen_order(n);
	default:
		return false;
	}
}

bool ht_expand_moves(struct maker *f, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Split:
	case HT_OP_SplitV:
		return expand_split(f, n);
	case HT_OP_Reverse:
		return expand_first_reverse(f, n);
	case HT_OP_ReverseV2:
		return expand_reverse(f, n);
	case HT_OP_UpperBound:
		return expand_bound(f, n);
	default:
		return false;
	}
}
