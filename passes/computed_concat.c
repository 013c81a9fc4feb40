/* Concat along an open size: the operands are concatenated with their largest lengths, and the existing elements are gathered.  _Padded with
 * attribute room: the tensor is cut or padded to the room (grown.c). */
#include "passes/computed_nodes.h"

/* ---- concatenation ---- */

/* Whether the node concatenates along an open size, and all lengths are bounded. */
static bool joins_open(const struct ht_graph *g, const struct ht_node *n, int64_t axis)
{
	bool some = false;

	for (int32_t i = 0; i + 1 < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		if (s.rank <= axis || ht_dim_most(g, s.dim[axis]) < 0)
			return false;
		some = some || ht_dim_is_open(g, s.dim[axis]);
	}
	return some;
}

bool ht_open_axis_of(const struct ht_graph *g, const struct ht_node *n, int64_t *axis)
{
	int one;

	return ht_const_small_ints(n->in[n->ins - 1], axis, 1, &one) &&
	       ht_fix_axis(axis, ht_in_shape(n, 0).rank) && joins_open(g, n, *axis);
}

bool ht_expand_concat(struct maker *f, struct ht_node *n)
{
	int32_t count = n->ins - 1;
	struct ht_value *part = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins),
			*is = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins), at;
	int64_t axis;

	if (!ht_open_axis_of(f->r->g, n, &axis))
		return false;
	if (ht_flatten_operands(f, n, count, axis))
		return true; /* when the types are known again */
	for (int32_t i = 0; i < count; i++) {
		int64_t dim = ht_in_shape(n, i).dim[axis], most = ht_dim_most(f->r->g, dim);

		part[i] = dim < 0 ? padded(f, n->in[i], axis) : n->in[i];
		is[i] = binary(f, HT_OP_Less, numbers(f, HT_I64, most), extent(f, n, i, axis));
	}
	at = squeezed(f, where(f, joined(f, is, count, 0)));
	ht_rw_take_place(f->r, n, gathered(f, joined(f, part, count, axis), at, axis));
	return true;
}

/* ---- rooms ---- */

/* The first elements of an axis. */
static struct ht_value first_of(struct maker *f, struct ht_value x, int64_t axis, int64_t count)
{
	int64_t begin[HT_MAX_RANK] = { 0 }, end[HT_MAX_RANK] = { 0 }, step[HT_MAX_RANK];
	int64_t rank = ht_type_of(x)->shape.rank, all = (INT64_C(1) << rank) - 1;
	struct ht_value in[4] = { x }, v;

	for (int64_t i = 0; i < rank; i++)
		step[i] = 1;
	end[axis] = count;
	in[1] = wholes(f, HT_I32, begin, rank);
	in[2] = wholes(f, HT_I32, end, rank);
	in[3] = wholes(f, HT_I32, step, rank);
	v = node(f, HT_OP_StridedSlice, in, 4, ht_type_of(x)->dtype, open_shape(f, (int32_t)rank));
	ht_attr_set_int(v.node, "begin_mask", all);
	ht_attr_set_int(v.node, "end_mask", all & ~(INT64_C(1) << axis));
	return v;
}

/* So many zeros behind the elements of an axis. */
static struct ht_value with_zeros(struct maker *f, struct ht_value x, int64_t axis, int64_t count)
{
	int64_t pair[2 * HT_MAX_RANK] = { 0 };
	struct ht_shape s = ht_type_of(x)->shape;
	const int64_t dim[2] = { s.rank, 2 };
	struct ht_value in[2] = { x };

	pair[2 * axis + 1] = count;
	in[1] = reshaped(f, wholes(f, HT_I32, pair, 2 * (int64_t)s.rank),
		ht_shape_make(f->r->g->arena, 2, dim));
	return node(f, HT_OP_Pad, in, 2, ht_type_of(x)->dtype, open_shape(f, s.rank));
}

bool ht_expand_room(struct maker *f, struct ht_node *n)
{
	int64_t axis = ht_attr_int(n, "axis", 0), room = ht_attr_int(n, "room", -1), dim, most;
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_value x = n->in[0];

	if (room < 0 || !ht_fix_axis(&axis, s.rank))
		return false;
	dim = s.dim[axis];
	most = ht_dim_most(f->r->g, dim);
	if (most < 0)
		return false;
	if (ht_flatten(f, n, 0, axis))
		return true; /* when the types are known again */
	if (dim < 0) {
		x = padded(f, x, axis);
		x.node->out[0].shape = s;
	}
	if (most > room)
		x = first_of(f, x, axis, room);
	else if (most < room)
		x = with_zeros(f, x, axis, room - most);
	if (ht_value_eq(x, n->in[0]))
		ht_rw_replace_node(f->r, n, x);
	else
		ht_rw_take_place(f->r, n, x);
	return true;
}
