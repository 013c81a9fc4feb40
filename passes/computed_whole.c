/* Concatenations and paddings to a fixed length, for pass sizes.
 *
 * What data select is often filled up: by a Pad, or by a Fill behind it, with as many elements as are missing of a constant number.  As sums of
 * sizes (computed_sums.h) the extents cancel out, so the result has that number.  Its elements are gathered from the parts, which have room for
 * the most elements each.  A run in which more elements are selected than fit stops, as a Fill of less than no elements does. */
#include "passes/bounded.h"
#include "passes/computed_nodes.h"
#include "passes/computed_sums.h"

#include <string.h>

enum { MOST_PARTS = 8 };

struct part {
	struct ht_value of;
	int64_t room;           /* the most elements */
	struct ht_value extent; /* those of the run */
};

/* A result of `total` elements along an axis. */
struct filled {
	int32_t axis, parts;
	int64_t total;
	struct part part[MOST_PARTS + 1];
};

/* ---- parts ---- */

/* As many elements of one value as the result has, shaped like an operand otherwise. */
static struct ht_value fill(struct maker *f, const struct filled *x, struct ht_value value,
	const struct ht_value *dim, int32_t rank)
{
	struct ht_value dims[HT_MAX_RANK];

	memcpy(dims, dim, (size_t)rank * sizeof *dims);
	dims[x->axis] = whole(f, HT_I64, x->total);
	return node(f, HT_OP_Fill, (struct ht_value[]){ packed(f, dims, rank), value }, 2,
		ht_type_of(value)->dtype, open_shape(f, rank));
}

static void add_part(struct filled *x, struct ht_value of, int64_t room, struct ht_value elements)
{
	x->part[x->parts++] = (struct part){ of, room, elements };
}

/* A part of one value, `elements` of which are in the result. */
static void add_fill(struct maker *f, struct filled *x, struct ht_value value,
	const struct ht_value *dim, int32_t rank, struct ht_value elements)
{
	struct ht_value zero = whole(f, HT_I64, 0);

	elements = cast_to(f, elements, HT_I64);
	add_part(x, fill(f, x, value, dim, rank), x->total,
		unless_below(f, elements, elements, zero));
}

/* Operand `i`, which has some largest extent. */
static void add_operand(struct maker *f, struct filled *x, const struct ht_node *n, int32_t i)
{
	int64_t dim = ht_in_shape(n, i).dim[x->axis];

	add_part(x, dim < 0 ? padded(f, n->in[i], x->axis) : n->in[i], ht_dim_most(f->r->g, dim),
		extent(f, n, i, x->axis));
}

/* ---- the result ---- */

static struct ht_value select_of(
	struct maker *f, struct ht_value condition, struct ht_value a, struct ht_value b)
{

	return node(f, HT_OP_SelectV2, (struct ht_value[]){ condition, a, b }, 3, HT_I64,
		ht_type_of(b)->shape);
}

/* For each element of the result its place among the parts with all their room. */
static struct ht_value places(struct maker *f, const struct filled *x)
{
	struct ht_value number = numbers(f, HT_I64, x->total), start = whole(f, HT_I64, 0), end,
			place = number;
	int64_t room = 0;

	for (int32_t i = 0; i < x->parts; i++) {
		struct ht_value to = binary(f, HT_OP_AddV2, number,
			binary(f, HT_OP_Sub, whole(f, HT_I64, room), start));

		place = i ? select_of(f, binary(f, HT_OP_Less, number, start), place, to) : place;
		room += x->part[i].room;
		start = binary(f, HT_OP_AddV2, start, x->part[i].extent);
	}
	/* The sum of all extents is the total: reading it makes the run check each of them. */
	end = binary(f, HT_OP_Sub, start, whole(f, HT_I64, x->total));
	return binary(f, HT_OP_AddV2, place, end);
}

static void put_together(struct maker *f, struct ht_node *n, const struct filled *x)
{
	struct ht_value in[MOST_PARTS + 2], at = places(f, x);

	for (int32_t i = 0; i < x->parts; i++)
		in[i] = x->part[i].of;
	ht_rw_take_place(f->r, n, gathered(f, joined(f, in, x->parts, x->axis), at, x->axis));
}

static bool is_total(struct ht_sum s, int64_t *total)
{
	*total = s.number;
	return s.known && !s.terms && s.number > 0 && s.number <= INT32_MAX;
}

/* ---- concatenations ---- */

/* A Fill of as many elements as its first operand states. */
static bool is_fill(const struct ht_graph *g, const struct ht_node *n, int32_t axis)
{
	return n->op == HT_OP_Fill && n->out[0].shape.rank > axis &&
	       n->out[0].shape.rank <= HT_OPEN_RANK && ht_in_shape(n, 0).rank == 1 &&
	       ht_dim_most(g, n->out[0].shape.dim[axis]) < 0;
}

static bool has_room(const struct ht_graph *g, struct ht_value v, int32_t axis)
{
	struct ht_shape s = ht_type_of(v)->shape;

	return s.rank > axis && (ht_dim_most(g, s.dim[axis]) >= 0 || is_fill(g, v.node, axis));
}

static void add_fill_node(struct maker *f, struct filled *x, const struct ht_node *n)
{
	int32_t rank = n->out[0].shape.rank;
	struct ht_value dim[HT_MAX_RANK], elements = element(f, n->in[0], x->axis);

	for (int32_t i = 0; i < rank; i++)
		dim[i] = cast_to(f, element(f, n->in[0], i), HT_I64);
	add_fill(f, x, n->in[1], dim, rank, elements);
}

static bool fill_up_concat(struct maker *f, struct ht_node *n)
{
	struct filled x = { .axis = ht_stated_axis(n, n->ins - 1, ht_in_shape(n, 0).rank) };
	struct ht_sum total = ht_sum_number(0);
	bool some = false;

	if (x.axis < 0 || n->ins - 1 > MOST_PARTS)
		return false;
	for (int32_t i = 0; i + 1 < n->ins; i++) {
		if (!has_room(f->r->g, n->in[i], x.axis))
			return false;
		total = ht_sum_plus(total, ht_sum_extent(n->in[i], x.axis), 1);
		some = some || ht_in_shape(n, i).dim[x.axis] < 0;
	}
	if (!some || !is_total(total, &x.total))
		return false;
	for (int32_t i = 0; i + 1 < n->ins; i++)
		if (is_fill(f->r->g, n->in[i].node, x.axis))
			add_fill_node(f, &x, n->in[i].node);
		else
			add_operand(f, &x, n, i);
	put_together(f, n, &x);
	return true;
}

/* ---- paddings ---- */

/* The only axis that a Pad makes longer; -1: there are none or several, or it is not known. */
static int32_t padded_axis(const struct ht_node *n, int32_t rank)
{
	int32_t axis = -1;

	for (int32_t i = 0; i < rank; i++) {
		if (ht_sum_is(ht_sum_element(n, 1, 2 * (int64_t)i), 0) &&
			ht_sum_is(ht_sum_element(n, 1, 2 * (int64_t)i + 1), 0))
			continue;
		if (axis >= 0)
			return -1;
		axis = i;
	}
	return axis;
}

/* The paddings of an axis: elements 2 * axis and 2 * axis + 1 of a matrix of two columns. */
static struct ht_value padding(struct maker *f, const struct ht_node *n, int32_t i)
{
	const int64_t all = -1;
	struct ht_value flat =
		node(f, HT_OP_Reshape, (struct ht_value[]){ n->in[1], wholes(f, HT_I32, &all, 1) },
			2, ht_type_of(n->in[1])->dtype, open_shape(f, 1));

	return element(f, flat, i);
}

static bool fill_up_pad(struct maker *f, struct ht_node *n)
{
	int32_t rank = ht_in_shape(n, 0).rank;
	struct filled x = { .axis = rank > 0 && rank <= HT_OPEN_RANK ? padded_axis(n, rank) : -1 };
	struct ht_value dim[HT_MAX_RANK], value;
	struct ht_sum total;

	if (x.axis < 0 || ht_in_shape(n, 0).dim[x.axis] >= 0 ||
		ht_dim_most(f->r->g, ht_in_shape(n, 0).dim[x.axis]) < 0)
		return false;
	total = ht_sum_plus(ht_sum_element(n, 1, 2 * (int64_t)x.axis),
		ht_sum_element(n, 1, 2 * (int64_t)x.axis + 1), 1);
	total = ht_sum_plus(total, ht_sum_extent(n->in[0], x.axis), 1);
	if (!is_total(total, &x.total))
		return false;
	for (int32_t i = 0; i < rank; i++)
		dim[i] = extent(f, n, 0, i);
	value = n->ins > 2 ? n->in[2] : ht_rw_scalar(f->r, n, n->name, n->out[0].dtype, 0);
	if (!ht_sum_is(ht_sum_element(n, 1, 2 * (int64_t)x.axis), 0))
		add_fill(f, &x, value, dim, rank, padding(f, n, 2 * x.axis));
	add_operand(f, &x, n, 0);
	add_fill(f, &x, value, dim, rank, padding(f, n, 2 * x.axis + 1));
	put_together(f, n, &x);
	return true;
}

bool ht_fill_up(struct maker *f, struct ht_node *n)
{
	if (n->op == HT_OP_ConcatV2)
		return fill_up_concat(f, n);
	return (n->op == HT_OP_Pad || n->op == HT_OP_PadV2) && fill_up_pad(f, n);
}
