/* Ops of which an operand says how many elements the result has, where the run computes it:
 *
 * - Range with computed limits: its length is the number of elements of a longer range, of
 *   constant length, that are below a count.
 * - Fill, ScatterNd and BroadcastTo with a computed extent: that extent is the length of such a range.
 * - UnsortedSegmentSum and its kin with a computed number of segments, and Bincount with one of bins: likewise. */
#include "passes/computed_nodes.h"

/* ---- Range and Fill ---- */

bool ht_is_product(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	return ht_dim_is_open(g, dim) && ht_dim_most(g, dim) >= 0 && ht_size_count(&e) > 1;
}

/* Whether an extent becomes one that the run computes. */
static bool is_made(const struct ht_graph *g, int64_t dim)
{
	return dim == HT_DIM_UNKNOWN || ht_is_product(g, dim);
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

bool ht_expand_range(struct maker *f, struct ht_node *n, bool last)
{
	enum ht_dtype t = n->out[0].dtype;
	struct ht_span span[3];
	struct ht_value x, count;
	int64_t most;
	bool up;

	if (!ht_is_index(t) || n->out[0].shape.rank != 1 ||
		(ht_dim_most(f->r->g, n->out[0].shape.dim[0]) >= 0 &&
			!ht_is_product(f->r->g, n->out[0].shape.dim[0])))
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

bool ht_take_size(struct maker *f, struct ht_value count, bool last, struct ht_value *size)
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

bool ht_expand_made(struct maker *f, struct ht_node *n, int32_t shape, bool last)
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
			!ht_take_size(f, unless_below(f, size[i], size[i], whole(f, t, 0)), last,
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
		if (ht_is_product(g, r.dim[i]) && (i < lead || s.dim[i - lead] == 1))
			return true;
	return false;
}

/* The most that axis `i` of a BroadcastTo can have: with the default room, if nothing bounds it. */
static int64_t room_of_axis(const struct maker *f, const struct ht_node *n, int32_t i)
{
	const int64_t most = ht_dim_most(f->r->g, n->out[0].shape.dim[i]);
	struct ht_value stated = n->in[1];
	struct ht_span s;

	if (most >= 0)
		return most;
	if (stated.node->op == HT_OP_Pack && i < stated.node->ins)
		stated = stated.node->in[i];
	if (ht_span_of(f->r->g, stated, &s) && s.most <= MOST_COUNT)
		return s.most < 1 ? 1 : s.most;
	return ht_default_room(f->r->g);
}

/* BroadcastTo: nothing but the run tells some extent of the result, as where a gradient takes the shape from a list, and there is room for all
 * that it may have. */
static bool is_of_any_extent(const struct maker *f, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), r = n->out[0].shape;
	int64_t all = 1;

	if (s.rank < 0 || s.rank > r.rank || ht_shape_is_told(r))
		return false;
	for (int32_t i = 0; i < r.rank; i++)
		if (__builtin_mul_overflow(all, room_of_axis(f, n, i), &all) || all > MOST_COUNT)
			return false;
	return true;
}

bool ht_expand_broadcast_to(struct maker *f, struct ht_node *n, bool room, bool last)
{
	if (makes_product(f->r->g, n) && (flatten_operand(f, n) || ht_expand_made(f, n, 1, room)))
		return true;
	if (last && is_of_any_extent(f, n) && ht_expand_made(f, n, 1, true))
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

bool ht_expand_segments(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value count = n->in[2];
	enum ht_dtype t = ht_type_of(count)->dtype;

	if (s.rank < 1 || !is_computed_number(f->r->g, s.dim[0]) ||
		!ht_take_size(f, unless_below(f, count, count, whole(f, t, 0)), last, &count))
		return false;
	ht_rw_set_in(f->r, n, 2, count);
	return true;
}

bool ht_expand_bins(struct maker *f, struct ht_node *n, bool last)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value count = n->in[1];
	enum ht_dtype t = ht_type_of(count)->dtype;

	if (s.rank < 1 || s.dim[s.rank - 1] != HT_DIM_UNKNOWN ||
		!ht_take_size(f, unless_below(f, count, count, whole(f, t, 0)), last, &count))
		return false;
	ht_rw_set_in(f->r, n, 1, count);
	return true;
}
