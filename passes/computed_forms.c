/* Writes ops whose sizes depend on data by Where, whose size the run computes, and by ops that
 * have rules for it (bounded.c):
 *
 * - DynamicPartition: each part is gathered from the places where the partition is its number.
 * - ListDiff: the elements that equal none of the second list are gathered.
 * - Range with computed limits: its length is the number of elements of a longer range, of
 *   constant length, that are below a count.
 * - Fill with a computed size: that size is the length of such a range.
 * - Concat along an open size: the operands are concatenated with their largest lengths, and
 *   the existing elements are gathered.
 * - Slices, the largest elements of rows, padding: computed_parts.c; Tile, Reshape, OneHot: computed_shapes.c; ops on
 *   sparse tensors: computed_sparse.c; on ragged ones: computed_ragged.c; Roll, Split and reversal: computed_moves.c; images: computed_images.c,
 *   computed_crop.c.
 * - UnsortedSegmentSum and its kin with a computed number of segments: the number is the length
 *   of such a range.
 * - _Padded with attribute room: the tensor is cut or padded to the room (grown.c).
 * - DynamicStitch by computed indices: data are concatenated, and scattered. */
#include "ir/infer.h"
#include "passes/computed_nodes.h"

/* ---- DynamicPartition and ListDiff ---- */

/* A partition number that is out of range stops the run: numbers are looked up in a list of the
 * parts' numbers. */
static void expand_partition(struct maker *f, struct ht_node *n)
{
	struct ht_value data = n->in[0], part;
	int32_t parts = n->outs;

	part = parts == 1 ? only_zero(f, n->in[1])
			  : gathered(f, numbers(f, HT_I32, parts), n->in[1], 0);
	part.node->out[0].shape = ht_in_shape(n, 1);
	for (int32_t i = 0; i < parts && n->graph; i++)
		if (ht_rw_uses(f->r, ht_out(n, i)))
			ht_rw_replace(f->r, ht_out(n, i),
				gathered_nd(f, data,
					where(f, binary(f, HT_OP_Equal, part,
							 whole(f, HT_I32, i)))));
}

/* The integers of the first list that the second one does not have, and where they are, if both are constants. */
static bool fold_difference(struct maker *f, struct ht_node *n)
{
	int64_t all[2][HT_MAX_RANK], out[HT_MAX_RANK], at[HT_MAX_RANK], left = 0;
	enum ht_dtype t = n->out[0].dtype, index = n->outs > 1 ? n->out[1].dtype : HT_I32;
	int count[2];

	for (int i = 0; i < 2; i++)
		if (!ht_const_small_ints(n->in[i], all[i], HT_MAX_RANK, &count[i]))
			return false;
	for (int i = 0; i < count[0]; i++) {
		bool other = true;

		for (int k = 0; k < count[1]; k++)
			other = other && all[0][i] != all[1][k];
		out[left] = all[0][i];
		at[left] = i;
		left += other;
	}
	if (ht_rw_uses(f->r, ht_out(n, 1)))
		ht_rw_replace(
			f->r, ht_out(n, 1), ht_rw_const_ints(f->r, n, n->name, index, at, left));
	if (n->graph)
		ht_rw_replace(f->r, ht_out(n, 0), ht_rw_const_ints(f->r, n, n->name, t, out, left));
	return true;
}

static void expand_difference(struct maker *f, struct ht_node *n)
{
	const int64_t last = 1;
	enum ht_dtype t = n->outs > 1 ? n->out[1].dtype : HT_I32;
	struct ht_value x = n->in[0], found, missing, at;

	if (fold_difference(f, n))
		return;
	found = binary(f, HT_OP_Equal, with_axis(f, x, 1), with_axis(f, n->in[1], 0));
	found.node->out[0].shape = open_shape(f, 2);
	missing = ht_rw_reduce(f->r, f->at, HT_OP_Any, n->name, found, &last, 1, false);
	missing = ht_rw_unary(f->r, f->at, HT_OP_LogicalNot, n->name, missing);
	at = where(f, missing);
	if (ht_rw_uses(f->r, ht_out(n, 1)))
		ht_rw_replace(
			f->r, ht_out(n, 1), ht_rw_cast(f->r, f->at, n->name, squeezed(f, at), t));
	if (n->graph)
		ht_rw_replace(f->r, ht_out(n, 0), gathered_nd(f, x, at));
}

/* ---- Range and Fill ---- */

/* Whether an extent is a product of several sizes, which no tensor can have that is not computed of others. */
static bool is_product(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	return ht_dim_is_open(g, dim) && ht_dim_most(g, dim) >= 0 && ht_size_count(&e) > 1;
}

/* Whether an extent becomes one that the run computes. */
static bool is_made(const struct ht_graph *g, int64_t dim)
{
	return dim == HT_DIM_UNKNOWN || is_product(g, dim);
}

/* The most numbers from `start` to before `limit`; -1: unknown. */
static int64_t most_numbers(struct ht_span start, struct ht_span limit, struct ht_span delta)
{
	int64_t d = delta.least, far;

	if (delta.least != delta.most || !d || d == INT64_MIN ||
		(d > 0 ? __builtin_sub_overflow(limit.most, start.least, &far)
		       : __builtin_sub_overflow(start.most, limit.least, &far)))
		return -1;
	if (d < 0)
		d = -d;
	return far <= 0 ? 0 : far / d + (far % d != 0);
}

/* `count`, which is at most *most.  If that is not known, it becomes the room for what nothing in the graph bounds; more stop the run. */
static struct ht_value bounded_count(struct maker *f, struct ht_value count, int64_t *most)
{
	if (*most >= 0 && *most <= MOST_COUNT)
		return count;
	*most = ht_default_room(f->r->g);
	return unless_below(f, count, whole(f, ht_type_of(count)->dtype, *most), count);
}

/* The length of the range: the distance divided by the step, rounded up.  `far`: the distance may be no number of 32 bits. */
static struct ht_value count_of_range(struct maker *f, const struct ht_node *n, bool up, bool far)
{
	struct ht_value in[3], back, count;

	for (int i = 0; i < 3; i++)
		in[i] = far ? wide(f, n->in[i]) : n->in[i];
	back = binary(f, HT_OP_Sub, in[0], in[1]);
	count = unary(f, HT_OP_Neg, binary(f, HT_OP_FloorDiv, back, in[2]));
	return unless_below(f, count, in[up], in[!up]);
}

static bool expand_range(struct maker *f, struct ht_node *n, bool last)
{
	enum ht_dtype t = n->out[0].dtype;
	struct ht_span span[3];
	struct ht_value x, count;
	int64_t most;
	bool up;

	if ((t != HT_I32 && t != HT_I64) || n->out[0].shape.rank != 1 ||
		(ht_dim_most(f->r->g, n->out[0].shape.dim[0]) >= 0 &&
			!is_product(f->r->g, n->out[0].shape.dim[0])))
		return false;
	for (int i = 0; i < 3; i++)
		if (!ht_span_of(f->r->g, n->in[i], &span[i]))
			return false;
	most = most_numbers(span[0], span[1], span[2]);
	if ((most < 0 || most > MOST_COUNT) &&
		(!last || span[2].least != span[2].most || !span[2].least))
		return false;
	up = span[2].least > 0;
	count = count_of_range(f, n, up, t == HT_I32 && span[!up].least < 0);
	count = bounded_count(f, count, &most);
	x = ht_rw_cast(f->r, n, n->name, squeezed(f, counted(f, count, most)), t);
	x = binary(f, HT_OP_AddV2, n->in[0], binary(f, HT_OP_Mul, x, n->in[2]));
	ht_rw_take_place(f->r, n, x);
	return true;
}

/* Makes `count` a size of the graph; false: it has no bound, or another node may still tell one. */
static bool take_size(struct maker *f, struct ht_value count, bool last, struct ht_value *size)
{
	enum ht_dtype t = ht_type_of(count)->dtype;
	int64_t most = -1;
	struct ht_span s;

	if (ht_span_of(f->r->g, count, &s) && s.most <= MOST_COUNT)
		most = s.most < 1 ? 1 : s.most;
	if (most < 0 && !last)
		return false;
	count = bounded_count(f, count, &most);
	*size = size_of(f, counted(f, count, most), t);
	return true;
}

/* ---- Fill, and numbers of segments ---- */

/* Lets each axis of operand 0 that a reshape joined of several sizes have one that the run computes. */
static bool flatten_operand(struct maker *f, struct ht_node *n)
{
	bool some = false;

	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		some = ht_flatten(f, n, 0, i) || some;
	return some;
}

/* Fill, ScatterNd and BroadcastTo: operand `shape` has the extents of the result. */
static bool expand_made(struct maker *f, struct ht_node *n, int32_t shape, bool last)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value size[HT_MAX_RANK];
	enum ht_dtype t = ht_type_of(n->in[shape])->dtype;
	bool some = false;

	if (s.rank < 1 || s.rank > HT_OPEN_RANK || ht_in_shape(n, shape).rank != 1)
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		some = some || is_made(f->r->g, s.dim[i]);
	for (int32_t i = 0; some && i < s.rank; i++) {
		size[i] = element(f, n->in[shape], i);
		if (is_made(f->r->g, s.dim[i]) &&
			!take_size(f, unless_below(f, size[i], size[i], whole(f, t, 0)), last,
				&size[i]))
			return false;
	}
	if (some)
		ht_rw_set_in(f->r, n, shape, packed(f, size, s.rank));
	return some;
}

/* BroadcastTo: an axis of one element, or a new one, becomes as long as several sizes multiplied.  False: there is none. */
static bool makes_product(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), r = n->out[0].shape;
	int32_t lead = r.rank - s.rank;

	for (int32_t i = 0; s.rank >= 0 && i < r.rank; i++)
		if (is_product(g, r.dim[i]) && (i < lead || s.dim[i - lead] == 1))
			return true;
	return false;
}

static bool expand_broadcast(struct maker *f, struct ht_node *n, bool last)
{
	if (makes_product(f->r->g, n) && (flatten_operand(f, n) || expand_made(f, n, 1, last)))
		return true;
	return ht_expand_broadcast(f, n);
}

/* Whether the number of segments becomes a size that the run computes: it is unknown, or several times a size.  Segments may be numbered in
 * any order of that product's factors. */
static bool is_computed_number(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	return is_made(g, dim) || (dim < 0 && ht_size_count(&e) == 1 && e.times > 1);
}

static bool expand_segments(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value count = n->in[2];
	enum ht_dtype t = ht_type_of(count)->dtype;

	if (s.rank < 1 || !is_computed_number(f->r->g, s.dim[0]) ||
		!take_size(f, unless_below(f, count, count, whole(f, t, 0)), last, &count))
		return false;
	ht_rw_set_in(f->r, n, 2, count);
	return true;
}

static bool expand_bins(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value count = n->in[1];
	enum ht_dtype t = ht_type_of(count)->dtype;

	if (s.rank < 1 || s.dim[s.rank - 1] != HT_DIM_UNKNOWN ||
		!take_size(f, unless_below(f, count, count, whole(f, t, 0)), last, &count))
		return false;
	ht_rw_set_in(f->r, n, 1, count);
	return true;
}

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

/* The axis along which the node puts operands of open sizes behind each other; false: it does not. */
static bool open_axis_of(const struct ht_graph *g, const struct ht_node *n, int64_t *axis)
{
	int one;

	return ht_const_small_ints(n->in[n->ins - 1], axis, 1, &one) &&
	       ht_fix_axis(axis, ht_in_shape(n, 0).rank) && joins_open(g, n, *axis);
}

static bool flatten_operands(struct maker *f, struct ht_node *n, int32_t args, int64_t axis)
{
	bool some = false;

	for (int32_t i = 0; i < args; i++)
		some = ht_flatten(f, n, i, axis) || some;
	return some;
}

static bool expand_concat(struct maker *f, struct ht_node *n)
{
	int32_t count = n->ins - 1;
	struct ht_value *part = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins),
			*is = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins), at;
	int64_t axis;

	if (!open_axis_of(f->r->g, n, &axis))
		return false;
	if (flatten_operands(f, n, count, axis))
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

/* A tensor gets the length that it is to have (grown.c). */
static bool expand_room(struct maker *f, struct ht_node *n)
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

/* ---- DynamicStitch ---- */

/* A vector of indices, or the rows that belong to them; false: there are several axes of unknown
 * size. */
static bool as_rows(struct maker *f, struct ht_value x, int32_t axes, struct ht_value *rows)
{
	struct ht_shape s = ht_type_of(x)->shape;
	int64_t dim[HT_MAX_RANK] = { 1 };

	*rows = axes ? x : with_axis(f, x, 0);
	if (axes < 2)
		return s.rank >= axes;
	if (!ht_shape_known(s))
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		dim[i < axes ? 0 : i - axes + 1] = (i < axes ? dim[0] : 1) * s.dim[i];
	*rows = reshaped(f, x, ht_shape_make(f->r->g->arena, s.rank - axes + 1, dim));
	return true;
}

/* The number of rows, which the largest index determines. */
static bool rows_of(struct maker *f, struct ht_value indices, struct ht_value *rows)
{
	const int64_t first = 0;
	struct ht_value last =
		ht_rw_reduce(f->r, f->at, HT_OP_Max, f->at->name, indices, &first, 1, false);

	return take_size(f, binary(f, HT_OP_AddV2, last, whole(f, HT_I32, 1)), false, rows);
}

/* Zeros of the result's shape, with so many rows. */
static bool zeros_of(
	struct maker *f, const struct ht_node *n, struct ht_value rows, struct ht_value *zeros)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value size[HT_MAX_RANK] = { rows }, in[2];

	for (int32_t i = 1; i < s.rank; i++) {
		if (s.dim[i] < 0)
			return false;
		size[i] = whole(f, HT_I32, s.dim[i]);
	}
	in[0] = packed(f, size, s.rank);
	in[1] = whole(f, n->out[0].dtype, 0);
	*zeros = node(f, HT_OP_Fill, in, 2, n->out[0].dtype, open_shape(f, s.rank));
	return true;
}

/* Whether `v` is 0, 1, …. */
static bool counts_up(struct ht_value v)
{
	const struct ht_tensor *t;
	int64_t n;

	while (ht_is(v.node, HT_RESHAPES))
		v = v.node->in[0];
	if (v.node->op == HT_OP_Range)
		return ht_const_is(v.node->in[0], 0) && ht_const_is(v.node->in[2], 1);
	t = ht_const_tensor(v);
	n = t ? ht_shape_count(t->shape) : 0;
	for (int64_t i = 0; i < n; i++)
		if (ht_tensor_int(t, (size_t)i) != i)
			return false;
	return t != NULL;
}

/* The list whose partitions are all the indices: it counts up, so each row of the result has
 * exactly one index.  NULL: there is none. */
static const struct ht_value *partitioned(const struct ht_node *n)
{
	struct ht_node *p = n->in[0].node;
	uint64_t parts = 0;

	if (p->op != HT_OP_DynamicPartition || p->outs != n->ins / 2 || p->outs >= 64 ||
		!counts_up(p->in[0]))
		return NULL;
	for (int32_t i = 0; i < p->outs; i++)
		if (n->in[i].node == p)
			parts |= UINT64_C(1) << n->in[i].index;
	return parts == (UINT64_C(1) << p->outs) - 1 ? &p->in[0] : NULL;
}

static bool expand_stitch(struct maker *f, struct ht_node *n)
{
	int32_t count = n->ins / 2;
	const struct ht_value *all = partitioned(n);
	struct ht_value *index = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins),
			*data = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins), in[3],
			v;

	if (n->out[0].shape.rank < 1 || n->out[0].shape.rank > HT_OPEN_RANK ||
		n->out[0].shape.dim[0] != HT_DIM_UNKNOWN)
		return false;
	for (int32_t i = 0; i < count; i++)
		if (!as_rows(f, n->in[i], ht_in_shape(n, i).rank, &index[i]) ||
			!as_rows(f, n->in[count + i], ht_in_shape(n, i).rank, &data[i]))
			return false;
	in[1] = joined(f, index, count, 0);
	if (all)
		v = size_of(f, *all, HT_I32);
	else if (!rows_of(f, in[1], &v))
		return false;
	if (!zeros_of(f, n, v, &in[0]))
		return false;
	in[1] = with_axis(f, in[1], 1);
	in[2] = joined(f, data, count, 0);
	v = node(f, HT_OP_TensorScatterUpdate, in, 3, n->out[0].dtype, n->out[0].shape);
	ht_rw_take_place(f->r, n, v);
	return true;
}

/* ---- every node ---- */

static bool reverses_product(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->op == HT_OP_ReverseV2 ? n->out[0].shape : HT_SHAPE_SCALAR;

	for (int32_t i = 0; i < s.rank; i++)
		if (is_product(g, s.dim[i]))
			return true;
	return false;
}

/* How many first axes of operand 0 such an op takes by index; 0 for other ops. */
static int64_t indexed_axes(const struct ht_node *n)
{
	struct ht_shape at;

	if (ht_axes(n) != HT_AXES_GATHERED_ND && ht_axes(n) != HT_AXES_SCATTERED_INTO)
		return 0;
	at = ht_in_shape(n, 1);
	return at.rank < 1 || at.dim[at.rank - 1] > ht_in_shape(n, 0).rank ? 0
									   : at.dim[at.rank - 1];
}

static bool indexes_product(const struct ht_graph *g, const struct ht_node *n)
{
	int64_t axes = indexed_axes(n);

	for (int64_t i = 0; i < axes; i++)
		if (is_product(g, ht_in_shape(n, 0).dim[i]))
			return true;
	return false;
}

/* Whether Equal or NotEqual compares tensors of an open size, and gives a single truth value where their shapes differ. */
static bool compares_open(const struct ht_graph *g, const struct ht_node *n)
{
	if (n->ins != 2 || n->outs != 1 || n->out[0].shape.rank >= 0 ||
		ht_attr_bool(n, "incompatible_shape_error", true))
		return false;
	return ht_in_shape(n, 0).rank >= 0 && ht_in_shape(n, 1).rank >= 0 &&
	       (ht_shape_is_open(g, ht_in_shape(n, 0)) || ht_shape_is_open(g, ht_in_shape(n, 1)));
}

/* The run stops where the shapes differ. */
static bool expect_equal_shapes(struct maker *f, struct ht_node *n)
{
	if (!compares_open(f->r->g, n))
		return false;
	ht_attr_set_bool(n, "incompatible_shape_error", true);
	return true;
}

bool ht_cuts_open(const struct ht_graph *g, const struct ht_node *n)
{
	int64_t axis;

	return (n->op == HT_OP_ConcatV2 && open_axis_of(g, n, &axis)) || ht_may_take_part(g, n) ||
	       ht_takes_open_part(g, n) || ht_reshapes_open(g, n) || ht_is_sparse_open(g, n) ||
	       ht_moves_open(g, n) || ht_is_open_image(g, n) || ht_is_open_diagonal(g, n) ||
	       ht_slides_open(g, n) || ht_ranks_open(g, n) || ht_has_open_blocks(g, n) ||
	       ht_draws_open(g, n) || reverses_product(g, n) || indexes_product(g, n) ||
	       compares_open(g, n) || ht_puts_classes_inside(g, n) || ht_is_open_training(g, n) ||
	       ht_is_tile_gradient(g, n) || ht_sums_to_shape(g, n) ||
	       (n->op == HT_OP_StridedSliceGrad && ht_slices_back(g, n));
}

static bool is_stitch(const struct ht_node *n)
{
	return n->op == HT_OP_DynamicStitch || n->op == HT_OP_ParallelDynamicStitch;
}

/* A stitch examines the node that made the partitions, so stitches are expanded first. */
static void expand_first(struct maker *f, struct ht_node *n, bool stitches)
{
	if (stitches && is_stitch(n) && partitioned(n))
		expand_stitch(f, n);
	else if (!stitches && n->op == HT_OP_DynamicPartition)
		expand_partition(f, n);
	else if (!stitches && n->op == HT_OP_ListDiff)
		expand_difference(f, n);
	else if (stitches)
		ht_expand_repeat(f, n);
}

void ht_expand_computing(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct maker f = { .r = &r };
	struct ht_rw_within within;

	ht_rw_init_within(&r, &within, g, c);
	for (int pass = 0; pass < 2; pass++) {
		size_t n;
		struct ht_node **all = ht_rw_nodes(&r, &n);

		for (size_t i = 0; i < n; i++) {
			make_at(&f, all[i]);
			if (f.at->graph && ht_rw_plain(&r, f.at))
				expand_first(&f, f.at, pass == 0);
		}
	}
}

/* Whether a node tells the shape of a tensor whose rank is not known, and so may prove to be constant. */
static bool tells_unknown_rank(const struct ht_node *n)
{
	return ht_is(n, HT_TELLS_SHAPE) && n->ins && ht_in_shape(n, 0).rank < 0;
}

/* Whether a value follows from a loop, from a list, from a rank that is not known, or if `branches` is true from a branch.  Looks at no more
 * than *left nodes that the value depends on, and subtracts those that it looked at; *left is below 0 if there are more. */
static bool follows_control(struct ht_value v, bool branches, int *left)
{
	enum ht_dtype t = ht_type_of(v)->dtype;
	bool calls = ht_op_info(v.node->op)->effects & HT_CALLS;

	if (ht_is(v.node, HT_VARIABLE))
		return false;
	if ((calls && (branches || !ht_is(v.node, HT_BRANCHES))) || t == HT_VARIANT ||
		t == HT_RESOURCE || tells_unknown_rank(v.node))
		return true;
	if (--*left < 0)
		return false;
	for (int32_t i = 0; i < v.node->ins; i++)
		if (follows_control(v.node->in[i], branches, left))
			return true;
	return false;
}

bool ht_may_follow_control(const struct ht_node *n, int32_t first)
{
	int left = 200; /* nodes to look at */

	for (int32_t i = first; i < n->ins; i++)
		if (follows_control(n->in[i], true, &left) || left < 0)
			return true;
	return false;
}

/* Whether to write a node by extents that only the run tells. */
static bool is_last(const struct maker *f, const struct ht_node *n, enum ht_expansion what)
{
	if (ht_waits_for_shapes(f->r->g, n))
		return false;
	return what == HT_EXPAND_ALL ||
	       (what == HT_EXPAND_COMPUTED && !ht_may_follow_control(n, 1));
}

/* Whether a length that nothing bounds gets the default room: not if it follows from a loop or a list, which may still tell it. */
static bool gets_room(const struct maker *f, const struct ht_node *n, enum ht_expansion what)
{
	int left = 2000; /* nodes to look at */

	for (int32_t i = 0; i < n->ins; i++)
		if (follows_control(n->in[i], false, &left))
			return false;
	return is_last(f, n, what);
}

/* Ops that number boxes, or slices of which they find the distinct ones: the numbers have to be those of the run, so an axis whose extent is
 * a product of sizes becomes one of a single size. */
static bool flatten_listed(struct maker *f, struct ht_node *n)
{
	int64_t axis = 0;
	int one;

	if (ht_axes(n) == HT_AXES_SUPPRESSED)
		return ht_in_shape(n, 0).rank == 2 && flatten_operands(f, n, 2, 0);
	if (n->ins > 1 && !ht_const_small_ints(n->in[1], &axis, 1, &one))
		return false;
	return ht_fix_axis(&axis, ht_in_shape(n, 0).rank) && ht_flatten(f, n, 0, axis);
}

/* Indices are places in the run's tensor. */
static bool flatten_indexed(struct maker *f, struct ht_node *n)
{
	int64_t axes = indexed_axes(n);

	for (int64_t i = 0; i < axes; i++)
		if (ht_flatten(f, n, 0, i))
			return true;
	return false;
}

static bool reverse_flat(struct maker *f, struct ht_node *n)
{
	int64_t axis;
	int one;

	return n->op == HT_OP_ReverseV2 && ht_const_small_ints(n->in[1], &axis, 1, &one) &&
	       one == 1 && ht_fix_axis(&axis, ht_in_shape(n, 0).rank) && ht_flatten(f, n, 0, axis);
}

/* The first axis of an output whose extent is a product of several sizes; -1: there is none. */
static int32_t joined_axis(const struct ht_graph *g, const struct ht_port *output)
{
	struct ht_shape s = ht_type_of(output->value)->shape;

	for (int32_t i = 0; i < s.rank; i++)
		if (is_product(g, s.dim[i]))
			return i;
	return -1;
}

bool ht_joins_outputs(const struct ht_graph *g, const struct ht_entry *e)
{
	for (const struct ht_port *p = e ? e->outputs : NULL; p; p = p->next)
		if (joined_axis(g, p) >= 0)
			return true;
	return false;
}

/* Arrays of outputs have one size for each axis. */
static bool flatten_outputs(struct maker *f)
{
	bool changed = false;

	for (struct ht_port *p = f->r->c->entry->outputs; p; p = p->next) {
		int32_t axis = joined_axis(f->r->g, p);
		struct ht_node *n;

		if (axis < 0)
			continue;
		n = p->value.node;
		p->value = ht_rw_unary(f->r, n, HT_OP_Identity, n->name, p->value);
		ht_node_move(p->value.node, n->next);
		make_at(f, p->value.node);
		ht_flatten(f, f->at, 0, axis);
		f->at->out[0].shape = open_shape(f, f->at->out[0].shape.rank);
		changed = true;
	}
	return changed;
}

static bool expand(struct maker *f, struct ht_node *n, enum ht_expansion what)
{
	if (reverse_flat(f, n) || flatten_indexed(f, n) || expect_equal_shapes(f, n) ||
		ht_expand_sparse(f, n) || ht_expand_ragged(f, n) || ht_expand_moves(f, n) ||
		ht_expand_diagonal(f, n) || ht_expand_tile_gradient(f, n))
		return true;
	switch (n->op) {
	case HT_OP_Range:
		return ht_expand_real_range(f, n) || expand_range(f, n, gets_room(f, n, what));
	case HT_OP_Bincount:
	case HT_OP_DenseBincount:
		return expand_bins(f, n, gets_room(f, n, what)) || ht_expand_meeting(f, n);
	case HT_OP_InTopK:
	case HT_OP_InTopKV2:
		return ht_expand_meeting(f, n) || ht_expand_ranks(f, n);
	case HT_OP_LinSpace:
		return gets_room(f, n, what) && ht_expand_lin_space(f, n);
	case HT_OP_Fill:
		return expand_made(f, n, 0, gets_room(f, n, what));
	case HT_OP_ScatterNd:
		return expand_made(f, n, 2, gets_room(f, n, what)) || ht_expand_meeting(f, n);
	case HT_OP_BroadcastTo:
		return expand_broadcast(f, n, gets_room(f, n, what));
	case HT_OP_ConcatV2:
		return ht_expand_meeting(f, n) || expand_concat(f, n);
	case HT_OP_Slice:
		return ht_expand_slice(f, n, is_last(f, n, what));
	case HT_OP_StridedSlice:
		return ht_expand_strided_slice(f, n, is_last(f, n, what));
	case HT_OP_StridedSliceGrad:
		return is_last(f, n, what) && ht_expand_slice_gradient(f, n);
	case HT_OP_TopK:
	case HT_OP_TopKV2:
		return ht_expand_best(f, n, is_last(f, n, what));
	case HT_OP_Pad:
	case HT_OP_PadV2:
		return ht_expand_pad(f, n, is_last(f, n, what));
	case HT_OP_Tile:
		return ht_expand_tile(f, n, gets_room(f, n, what));
	case HT_OP_Roll:
		return ht_expand_roll(f, n);
	case HT_OP_Reshape:
		return (is_last(f, n, what) &&
			       (ht_expand_sum_to_shape(f, n) || ht_expand_chosen_order(f, n))) ||
		       ht_expand_reshape(f, n, is_last(f, n, what));
	case HT_OP_Sum:
		return is_last(f, n, what) && ht_expand_sum_to_shape(f, n);
	case HT_OP_EnsureShape:
	case HT_OP_Squeeze:
		return ht_expand_ensured(f, n);
	case HT_OP_CropAndResize:
		return ht_expand_meeting(f, n) || ht_expand_crop(f, n, gets_room(f, n, what));
	case HT_OP_OneHot:
		return ht_put_classes_last(f, n) ||
		       (is_last(f, n, what) && ht_expand_one_hot(f, n));
	case HT_OP__Padded:
		return expand_room(f, n);
	default:
		if (ht_axes(n) == HT_AXES_SUPPRESSED || ht_axes(n) == HT_AXES_DISTINCT)
			return ht_expand_meeting(f, n) || flatten_listed(f, n);
		if (ht_is(n, HT_FINDS))
			return ht_expand_extreme(f, n);
		if (ht_expand_image(f, n) || ht_expand_training(f, n) ||
			(what != HT_EXPAND_KNOWN &&
				(ht_expand_windows(f, n) || ht_expand_blocks(f, n) ||
					ht_expand_random(f, n))))
			return true;
		return (ht_axes(n) == HT_AXES_SEGMENTED
				       ? expand_segments(f, n, gets_room(f, n, what))
				       : is_stitch(n) && expand_stitch(f, n)) ||
		       ht_expand_meeting(f, n);
	}
}

/* A node with control edges.  Where sizes meet, it stays, and with it its control edges. */
static bool expand_controlled(struct maker *f, struct ht_node *n, enum ht_expansion what)
{
	struct ht_aside aside;

	if (ht_expand_meeting(f, n))
		return true;
	if (!n->graph || !ht_rw_step_aside(f->r, n, &aside))
		return false;
	if (expand(f, n, what))
		return true;
	ht_rw_step_back(f->r, &aside);
	return false;
}

bool ht_expand_computed(struct ht_graph *g, struct ht_pass_context *c, enum ht_expansion what)
{
	struct ht_rw r;
	struct maker f = { .r = &r };
	struct ht_rw_within within;
	struct ht_node **all;
	bool changed = false;
	size_t n;

	ht_rw_init_within(&r, &within, g, c);
	all = ht_rw_nodes(&r, &n);
	for (size_t i = 0; i < n; i++) {
		make_at(&f, all[i]);
		if (!f.at->graph)
			continue;
		if (is_replaceable(&f) ? expand(&f, f.at, what) : expand_controlled(&f, f.at, what))
			changed = true;
	}
	if (!g->function && !changed && what == HT_EXPAND_ALL)
		changed = flatten_outputs(&f);
	return changed;
}
