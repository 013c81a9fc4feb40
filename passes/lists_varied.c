/* Lists whose elements have several sizes: `tf.map_fn` over detections, `TensorArray` with infer_shape=False, parts of a tensor.
 *
 * Elements become as long as the longest one can be, and a second list has the extents of each.  An element that is read gets its extent
 * again, so it is a tensor whose size the run computes (computed.c).  All elements one after the other are those that exist, in order.
 * Elements that are put on top of each other have to be equally long; otherwise the run stops, as in TensorFlow.  An element that was not
 * set is empty. */
#include "passes/computed_rows.h"
#include "passes/lists_beside.h"

/* What the change of one node needs: `f` makes nodes in front of it. */
struct varied {
	struct ht_beside_part *p;
	struct maker f;
	const struct ht_list *of;
	enum ht_dtype t; /* of elements */
	int32_t rank;
};

static bool is_varied(const struct ht_list *x)
{
	int64_t all = 1;

	if (x->bad || x->summed || x->grows || x->open || x->length == HT_DIM_UNKNOWN ||
		!x->varied || x->shape.rank < 1 || x->shape.rank >= HT_OPEN_RANK ||
		x->dtype <= HT_INVALID || x->dtype >= HT_REF || ht_dtype_info(x->dtype)->bytes == 0)
		return false;
	for (int32_t i = 0; i < x->shape.rank; i++) {
		bool varies = x->varied >> i & 1;

		if (varies ? x->most[i] < 1 || x->most[i] > MOST_COUNT
			   : x->shape.dim[i] == HT_DIM_UNKNOWN)
			return false;
		if (varies && __builtin_mul_overflow(all, x->most[i], &all))
			return false;
	}
	return all <= MOST_COUNT;
}

static bool varies(const struct varied *v, int32_t axis)
{
	return v->of->varied >> axis & 1;
}

/* ---- elements ---- */

/* `x`, whose axis `first` is the first one of an element, with room for the longest. */
static struct ht_value with_room_from(
	struct varied *v, struct ht_value x, int32_t from, int32_t first)
{
	for (int32_t i = from; i < v->rank; i++) {
		if (!varies(v, i))
			continue;
		x = padded(&v->f, x, first + i);
		ht_attr_set_int(x.node, "room", v->of->most[i]);
	}
	return x;
}

static struct ht_value with_room(struct varied *v, struct ht_value x, int32_t first)
{
	return with_room_from(v, x, 0, first);
}

/* The shape of each element as a constant, where the longest one counts; -1 for sizes that the run tells. */
static struct ht_value longest_shape(struct varied *v)
{
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < v->rank; i++)
		dim[i] = varies(v, i)               ? v->of->most[i]
			 : v->of->shape.dim[i] >= 0 ? v->of->shape.dim[i]
						    : -1;
	return ht_rw_const_ints(v->f.r, v->f.at, v->f.at->name, HT_I32, dim, v->rank);
}

/* Stores in `axis` those axes of an element, from its axis `from` on, whose extents differ between elements, and returns their number.
 * `first` is added to each: it is the axis of the tensor at which its elements begin. */
static int64_t varied_axes(const struct varied *v, int32_t from, int32_t first, int64_t *axis)
{
	int64_t n = 0;

	for (int32_t i = from; i < v->rank; i++)
		if (varies(v, i))
			axis[n++] = first + i;
	return n;
}

/* The extents of `x` along these axes, a vector. */
static struct ht_value extents_along(
	struct varied *v, struct ht_value x, const int64_t *axis, int64_t count)
{
	struct maker *f = &v->f;
	struct ht_value all = node(f, HT_OP_Shape, &x, 1, HT_I32, open_shape(f, 1));

	ht_attr_set_type(all.node, "out_type", HT_I32);
	return of_rank(f, gathered(f, all, wholes(f, HT_I32, axis, count), 0), 1);
}

/* A matrix [rows,extents]: for each of `rows` slices of `x`, the extents that differ between elements, from axis `from` on. */
static struct ht_value extents_of_rows(
	struct varied *v, struct ht_value x, int32_t from, int32_t first, struct ht_value rows)
{
	struct maker *f = &v->f;
	int64_t axis[HT_MAX_RANK], count = varied_axes(v, from, first, axis);
	struct ht_value size[] = { cast_to(f, rows, HT_I32), whole(f, HT_I32, count) }, in[2], all;

	in[0] = extents_along(v, x, axis, count);
	in[1] = packed(f, size, 2);
	all = node(f, HT_OP_BroadcastTo, in, 2, HT_I32, open_shape(f, 2));
	return all;
}

/* The first `count` elements along an axis. */
static struct ht_value first_of(
	struct varied *v, struct ht_value x, int32_t axis, struct ht_value count, int64_t room)
{
	count = binary(&v->f, HT_OP_Minimum, count, whole(&v->f, HT_I32, room));
	count = binary(&v->f, HT_OP_Maximum, count, whole(&v->f, HT_I32, 0));
	return gathered(&v->f, x, range_of(&v->f, count), axis);
}

/* ---- lists ---- */

static struct ht_value list_node(struct varied *v, enum ht_op op, const struct ht_value *in,
	int32_t ins, enum ht_dtype element, struct ht_type t)
{
	struct ht_value x = node(&v->f, op, in, ins, t.dtype, t.shape);

	ht_attr_set_type(x.node, "element_dtype", element);
	return x;
}

/* A list of extents. */
static struct ht_value sizes_list(
	struct varied *v, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	return list_node(v, op, in, ins, HT_I32, HT_LIST_TYPE);
}

static struct ht_value shape_of_sizes(struct varied *v)
{
	int64_t axis[HT_MAX_RANK], count = varied_axes(v, 0, 0, axis);

	return ht_rw_const_ints(v->f.r, v->f.at, v->f.at->name, HT_I32, &count, 1);
}

static struct ht_value sizes_of(struct varied *v)
{
	return ht_beside_of(v->p->x, v->f.at->in[0]);
}

static void result_has(struct varied *v, struct ht_value sizes)
{
	ht_beside_set(v->p->x, ht_out(v->f.at, 0), sizes);
}

static void make_reserve(struct varied *v)
{
	struct ht_node *n = v->f.at;
	const struct ht_value in[] = { shape_of_sizes(v), n->in[1] };
	struct ht_value sizes = sizes_list(v, HT_OP_TensorListReserve, in, 2);

	result_has(v, sizes);
	ht_rw_set_in(v->f.r, n, 0, longest_shape(v));
	ht_attr_set_type(n, "shape_type", HT_I32);
}

/* Lists of the rows of tensors. */
static void make_of_rows(struct varied *v, struct ht_value rows, struct ht_value extents)
{
	struct ht_node *n = v->f.at;
	struct ht_value in[] = { extents, shape_of_sizes(v) }, sizes;

	sizes = sizes_list(v, HT_OP_TensorListFromTensor, in, 2);
	in[0] = rows;
	in[1] = longest_shape(v);
	ht_rw_become(v->f.r, n, HT_OP_TensorListFromTensor, in, 2);
	result_has(v, sizes);
}

static void make_from_tensor(struct varied *v)
{
	struct ht_value rows = v->f.at->in[0];

	make_of_rows(
		v, with_room(v, rows, 1), extents_of_rows(v, rows, 0, 1, rows_of(&v->f, rows)));
}

/* `x`; the run stops if a length of a part is below 0 or above the number of rows, or if the lengths do not add up to that number. */
static struct ht_value unless_wrong_lengths(
	struct maker *f, struct ht_value x, struct ht_value lengths, struct ht_value rows)
{
	x = unless_one_outside(f, x, lengths, rows);
	return sum(f, x, check_equal(f, total_of(f, HT_OP_Sum, lengths), rows));
}

/* The parts of a tensor become elements of equal length: places behind the end of a part are filled with copies of the tensor's first row. */
static void make_split(struct varied *v)
{
	struct maker *f = &v->f;
	const int64_t room = v->of->most[0];
	int64_t axis[HT_MAX_RANK];
	struct ht_value tensor = f->at->in[0], lengths = f->at->in[2],
			places = numbers(f, HT_I64, room), at, inside, extents[3], begin;

	begin = unless_wrong_lengths(f, sums_before(f, lengths), lengths, rows_of(f, tensor));
	inside = of_rank(f, binary(f, HT_OP_Less, places, with_axis(f, lengths, 1)), 2);
	at = of_rank(f, sum(f, places, with_axis(f, of_rank(f, begin, 1), 1)), 2);
	at = of_rank(f, chosen(f, inside, at, whole(f, HT_I64, 0)), 2);
	extents[0] = with_axis(f, cast_to(f, lengths, HT_I32), 1);
	extents[1] = extents_of_rows(v, tensor, 1, 0, length_of(f, lengths));
	if (varied_axes(v, 1, 0, axis))
		extents[0] = joined(f, extents, 2, 1);
	tensor = padded(f, tensor, 0);
	ht_attr_set_int(tensor.node, "room", room);
	make_of_rows(v, with_room_from(v, gathered(f, tensor, at, 0), 1, 1), extents[0]);
}

static void make_set(struct varied *v)
{
	struct ht_node *n = v->f.at;
	int64_t axis[HT_MAX_RANK], count = varied_axes(v, 0, 0, axis);
	const struct ht_value in[] = { sizes_of(v), n->in[1],
		extents_along(v, n->in[2], axis, count) };

	result_has(v, sizes_list(v, HT_OP_TensorListSetItem, in, 3));
	ht_rw_set_in(v->f.r, n, 2, with_room(v, n->in[2], 0));
}

static void make_scatter(struct varied *v)
{
	struct ht_node *n = v->f.at;
	struct ht_value rows = n->in[1];
	const struct ht_value in[] = { sizes_of(v),
		extents_of_rows(v, rows, 0, 1, rows_of(&v->f, rows)), n->in[2] };

	result_has(v, sizes_list(v, HT_OP_TensorListScatterIntoExistingList, in, 3));
	ht_rw_set_in(v->f.r, n, 1, with_room(v, rows, 1));
}

/* ---- elements that are read ---- */

/* An op on the list that stands for `n`, and one on its extents. */
static struct ht_value of_both(
	struct varied *v, enum ht_op op, int32_t ins, struct ht_value *extents)
{
	struct ht_node *n = v->f.at;
	struct ht_value in[3] = { sizes_of(v) }, x;

	for (int32_t i = 1; i + 1 < ins; i++)
		in[i] = n->in[i];
	in[ins - 1] = shape_of_sizes(v);
	*extents = list_node(v, op, in, ins, HT_I32, (struct ht_type){ HT_I32, HT_SHAPE_UNKNOWN });
	in[0] = n->in[0];
	in[ins - 1] = longest_shape(v);
	x = list_node(v, op, in, ins, v->t, (struct ht_type){ v->t, HT_SHAPE_UNKNOWN });
	return x;
}

static void take_place(struct varied *v, struct ht_value x)
{
	ht_rw_take_place(v->f.r, v->f.at, x);
}

/* An element that was not set is zeros of the stated shape, if that is computed. */
static struct ht_value extent_of_one(
	struct varied *v, struct ht_value extents, int32_t k, int32_t axis)
{
	struct maker *f = &v->f;
	struct ht_value stated = f->at->in[2], x = element(f, extents, k);

	if (ht_is_const(stated) || ht_type_of(stated)->shape.rank != 1)
		return x;
	return binary(f, HT_OP_Maximum, x, cast_to(f, element(f, stated, axis), HT_I32));
}

static void make_get(struct varied *v)
{
	struct maker *f = &v->f;
	struct ht_value extents, x = of_both(v, HT_OP_TensorListGetItem, 3, &extents);
	int32_t k = 0;

	of_rank(f, extents, 1);
	for (int32_t i = 0; i < v->rank; i++)
		if (varies(v, i))
			x = first_of(v, x, i, extent_of_one(v, extents, k++, i), v->of->most[i]);
	take_place(v, x);
}

/* `x` has the elements along its first axis.  Their axes from `from` on are cut to the extent that all elements have; the run stops if
 * elements differ there. */
static struct ht_value cut(
	struct varied *v, struct ht_value x, struct ht_value extents, int32_t from)
{
	struct maker *f = &v->f;
	int32_t k = 0;

	for (int32_t i = 0; i < v->rank; i++) {
		struct ht_value all, most, least;

		if (!varies(v, i))
			continue;
		all = column(f, extents, k++);
		if (i < from)
			continue;
		most = binary(f, HT_OP_Maximum, total_of(f, HT_OP_Max, all), whole(f, HT_I32, 0));
		least = binary(f, HT_OP_Minimum, total_of(f, HT_OP_Min, all), most);
		most = sum(f, most, cast_to(f, check_equal(f, most, least), HT_I32));
		x = first_of(v, x, i + 1, most, v->of->most[i]);
	}
	return x;
}

static void make_rows(struct varied *v, enum ht_op op, int32_t ins)
{
	struct ht_value extents, x = of_both(v, op, ins, &extents);

	of_rank(&v->f, extents, 2);
	take_place(v, cut(v, x, extents, 0));
}

/* The elements that exist, one after the other.  What is concatenated is at least as long as stated, so that elements that were not set are
 * zeros. */
static void make_concat(struct varied *v)
{
	struct maker *f = &v->f;
	struct ht_node *n = f->at;
	struct ht_value extents, x = of_both(v, HT_OP_TensorListStack, 2, &extents), lengths,
				 inside, at;
	const struct ht_tensor *none = ht_const_tensor(n->in[2]);

	of_rank(f, extents, 2);
	of_rank(f, x, v->rank + 1);
	lengths = column(f, extents, 0);
	if (!none || ht_shape_count(none->shape))
		lengths = of_rank(
			f, binary(f, HT_OP_Maximum, lengths, cast_to(f, n->in[2], HT_I32)), 1);
	inside =
		binary(f, HT_OP_Less, numbers(f, HT_I32, v->of->most[0]), with_axis(f, lengths, 1));
	at = where(f, of_rank(f, inside, 2));
	x = cut(v, x, extents, 1);
	if (ht_rw_uses(f->r, ht_out(n, 1)))
		ht_rw_replace_behind(f->r, ht_out(n, 1), cast_to(f, lengths, HT_I64));
	take_place(v, of_rank(f, gathered_nd(f, x, at), v->rank));
}

static void make_length(struct varied *v)
{
	take_place(v, ht_dim_value(v->f.r, v->f.at, v->f.at->name, HT_I32, v->of->length));
}

/* ---- graphs ---- */

static void change(struct ht_beside_part *p, struct ht_node *n)
{
	struct ht_value list = ht_makes_list(n) ? ht_out(n, 0) : n->in[0];
	struct varied v = { .p = p,
		.f = { .r = &p->r, .at = n, .name = n->name },
		.of = ht_list_of(p->x->l, list) };

	v.t = v.of->dtype;
	v.rank = v.of->shape.rank;
	switch (n->op) {
	case HT_OP_TensorListReserve:
		make_reserve(&v);
		break;
	case HT_OP_TensorListFromTensor:
		make_from_tensor(&v);
		break;
	case HT_OP_TensorListSplit:
		make_split(&v);
		break;
	case HT_OP_TensorListSetItem:
		make_set(&v);
		break;
	case HT_OP_TensorListScatterIntoExistingList:
		make_scatter(&v);
		break;
	case HT_OP_TensorListGetItem:
		make_get(&v);
		break;
	case HT_OP_TensorListGather:
		make_rows(&v, n->op, 3);
		break;
	case HT_OP_TensorListStack:
		make_rows(&v, n->op, 2);
		break;
	case HT_OP_TensorListConcatV2:
		make_concat(&v);
		break;
	case HT_OP_TensorListLength:
		make_length(&v);
		break;
	default: /* TensorListElementShape, which is refused */
		break;
	}
}

static bool has_sizes(const struct ht_beside *x, const struct ht_list *of)
{
	(void)x;
	return is_varied(of);
}

void ht_lists_split_sizes(struct ht_lists *l, struct ht_graph *g, bool *changed)
{
	struct ht_beside x = { l, .has = has_sizes, .change = change, .type = HT_LIST_TYPE };

	ht_beside_add(&x, g);
	*changed = x.n;
}
