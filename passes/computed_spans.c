/* Ranges of the elements of integer tensors, as far as the graph implies them: they bound the
 * sizes that are computed from data. */
#include "ir/infer.h"
#include "passes/computed.h"
#include "passes/rewrite.h"

#include <math.h>

/* How many nodes are looked at for one range: operands may have operands in common, so there are many ways to these. */
enum { MOST_NODES = 500 };

static const struct ht_span unknown = { 1, 0 };

static bool is_known(struct ht_span s)
{
	return s.least <= s.most;
}

static struct ht_span either(struct ht_span a, struct ht_span b)
{
	if (!is_known(a) || !is_known(b))
		return unknown;
	return (struct ht_span){ a.least < b.least ? a.least : b.least,
		a.most > b.most ? a.most : b.most };
}

static struct ht_span of_type(enum ht_dtype t)
{
	switch (t) {
	case HT_BOOL:
		return (struct ht_span){ 0, 1 };
	case HT_U8:
		return (struct ht_span){ 0, UINT8_MAX };
	case HT_I8:
		return (struct ht_span){ INT8_MIN, INT8_MAX };
	case HT_U16:
		return (struct ht_span){ 0, UINT16_MAX };
	case HT_I16:
		return (struct ht_span){ INT16_MIN, INT16_MAX };
	case HT_I32:
		return (struct ht_span){ INT32_MIN, INT32_MAX };
	case HT_I64:
		return (struct ht_span){ INT64_MIN, INT64_MAX };
	default:
		return unknown;
	}
}

static bool is_within(struct ht_span s, struct ht_span of)
{
	return s.least >= of.least && s.most <= of.most;
}

static struct ht_span of_constant(const struct ht_tensor *t)
{
	int64_t n = ht_shape_count(t->shape);
	struct ht_span s = unknown;

	for (int64_t i = 0; is_known(of_type(t->dtype)) && i < n; i++) {
		int64_t x = ht_tensor_int(t, (size_t)i);

		s = i ? either(s, (struct ht_span){ x, x }) : (struct ht_span){ x, x };
	}
	return s;
}

static struct ht_span span(const struct ht_graph *g, struct ht_value v, int *left);

static struct ht_span of_operand(
	const struct ht_graph *g, const struct ht_node *n, int32_t i, int *left)
{
	return span(g, n->in[i], left);
}

/* From the least to the largest extent of operand 0, or of its axis `axis`; from 0 to below that for indices. */
static struct ht_span of_extent(
	const struct ht_graph *g, const struct ht_node *n, int32_t axis, bool indices)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t most = 0, least = INT64_MAX;

	if (s.rank < 0)
		return unknown;
	for (int32_t i = 0; i < s.rank; i++) {
		int64_t dim = ht_dim_most(g, s.dim[i]), low = ht_dim_least(g, s.dim[i]);

		if (axis >= 0 && i != axis)
			continue;
		if (dim < 0)
			return unknown;
		most = dim > most ? dim : most;
		least = low < least ? low : least;
	}
	return (struct ht_span){ indices || least < 0 || least > most ? 0 : least,
		indices && most ? most - 1 : most };
}

static struct ht_span of_size(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t most = s.rank < 0 ? -1 : 1;

	for (int32_t i = 0; i < s.rank && most >= 0; i++) {
		int64_t dim = ht_dim_most(g, s.dim[i]);

		if (dim < 0 || __builtin_mul_overflow(most, dim, &most))
			most = -1;
	}
	return most < 0 ? unknown : (struct ht_span){ 0, most };
}

/* From 0 to the extent of the axis of operand 0 of a Shape whose number a StridedSlice takes; of all axes where it is not constant. */
static struct ht_span of_one_extent(
	const struct ht_graph *g, const struct ht_node *slice, const struct ht_node *shape)
{
	int64_t axis;
	int count;

	if (ht_attr_int(slice, "shrink_axis_mask", 0) != 1 || ht_attr_int(slice, "begin_mask", 0) ||
		ht_attr_int(slice, "new_axis_mask", 0) || ht_attr_int(slice, "ellipsis_mask", 0) ||
		!ht_const_small_ints(slice->in[1], &axis, 1, &count) || count != 1)
		axis = -1;
	return of_extent(g, shape, axis < 0 ? -1 : (int32_t)axis, false);
}

static struct ht_span sum_of(struct ht_span a, struct ht_span b)
{
	struct ht_span s;

	return __builtin_add_overflow(a.least, b.least, &s.least) ||
			       __builtin_add_overflow(a.most, b.most, &s.most)
		       ? unknown
		       : s;
}

static struct ht_span negated(struct ht_span a)
{
	return a.least == INT64_MIN ? unknown : (struct ht_span){ -a.most, -a.least };
}

static struct ht_span product_of(struct ht_span a, struct ht_span b)
{
	const int64_t x[2] = { a.least, a.most }, y[2] = { b.least, b.most };
	struct ht_span s = unknown;
	int64_t p;

	for (int i = 0; i < 4; i++) {
		if (__builtin_mul_overflow(x[i / 2], y[i % 2], &p))
			return unknown;
		s = i ? either(s, (struct ht_span){ p, p }) : (struct ht_span){ p, p };
	}
	return s;
}

static int64_t floor_of(int64_t a, int64_t b)
{
	return a / b - (a % b && (a < 0) != (b < 0));
}

/* The range after a division by one number. */
/* Where only the type bounds a number, a quotient of it has no other bound: memory for the type's range divided by a block would be immense. */
static struct ht_span quotient_of(struct ht_span a, struct ht_span b)
{
	struct ht_span all = of_type(HT_I32), q;
	int64_t x, y;

	if (b.least != b.most || !b.least || (b.least == -1 && a.least == INT64_MIN))
		return unknown;
	x = floor_of(a.least, b.least);
	y = floor_of(a.most, b.least);
	q = either((struct ht_span){ x, x }, (struct ht_span){ y, y });
	if (b.least > 0 && a.most >= all.most)
		q.most = a.most;
	if (b.least > 0 && a.least <= all.least)
		q.least = a.least;
	return q;
}

static struct ht_span of_two(enum ht_op op, struct ht_span a, struct ht_span b)
{
	switch (op) {
	case HT_OP_Minimum:
		if (!is_known(a) || !is_known(b))
			return unknown;
		return (struct ht_span){ a.least < b.least ? a.least : b.least,
			a.most < b.most ? a.most : b.most };
	case HT_OP_Maximum:
		if (!is_known(a) || !is_known(b))
			return unknown;
		return (struct ht_span){ a.least > b.least ? a.least : b.least,
			a.most > b.most ? a.most : b.most };
	case HT_OP_FloorMod:
		return is_known(b) && b.least > 0 ? (struct ht_span){ 0, b.most - 1 } : unknown;
	default:
		break;
	}
	if (!is_known(a) || !is_known(b))
		return unknown;
	switch (op) {
	case HT_OP_Add:
	case HT_OP_AddV2:
		return sum_of(a, b);
	case HT_OP_Sub:
		return sum_of(a, negated(b));
	case HT_OP_Mul:
		return product_of(a, b);
	case HT_OP_FloorDiv:
		return quotient_of(a, b);
	default:
		return unknown;
	}
}

static struct ht_span of_operands(const struct ht_graph *g, const struct ht_node *n, int *left)
{
	struct ht_span a = of_operand(g, n, 0, left);

	return of_two(n->op, a, of_operand(g, n, 1, left));
}

/* The range of a sum over a subset of at most so many elements. */
static struct ht_span of_sum(const struct ht_graph *g, const struct ht_node *n, int *left)
{
	struct ht_span each = of_operand(g, n, 0, left), count = of_size(g, n);

	if (!is_known(each) || !is_known(count))
		return unknown;
	return product_of(either(each, (struct ht_span){ 0, 0 }), count);
}

/* The range of a product of elements that are not below 0. */
static struct ht_span of_product(const struct ht_graph *g, const struct ht_node *n, int *left)
{
	struct ht_span each = of_operand(g, n, 0, left), count = of_size(g, n), all = { 0, 1 };

	if (!is_known(each) || !is_known(count) || each.least < 0 || count.most > 8)
		return unknown;
	for (int64_t i = 0; i < count.most && is_known(all); i++)
		all = product_of(all, (struct ht_span){ 0, each.most < 1 ? 1 : each.most });
	return all;
}

/* The union of the ranges of operands that have elements, from `first` to before `end`. */
static struct ht_span of_all(
	const struct ht_graph *g, const struct ht_node *n, int32_t first, int32_t end, int *left)
{
	struct ht_span s = unknown;
	bool some = false;

	for (int32_t i = first; i < end; i++) {
		if (ht_shape_count(ht_in_shape(n, i)) == 0)
			continue;
		s = some ? either(s, of_operand(g, n, i, left)) : of_operand(g, n, i, left);
		some = true;
	}
	return s;
}

/* ---- numbers with a fraction ---- */

/* Not known: least > most. */
struct reals {
	double least, most;
};
static const struct reals no_reals = { 1, 0 };

static bool are_known(struct reals s)
{
	return s.least <= s.most;
}

static struct reals reals_of(const struct ht_graph *g, struct ht_value v, int *left);

/* In the type of the result, whose rounding keeps the order of numbers. */
static struct reals in_type(struct reals s, enum ht_dtype t)
{
	return t == HT_F32 ? (struct reals){ (float)s.least, (float)s.most } : s;
}

/* Uniform numbers from 0 to below 1. */
static struct reals drawn(enum ht_dtype t)
{
	return (struct reals){ 0, t == HT_F32 ? 1 - 0x1p-24 : 1 - 0x1p-53 };
}

/* What is no number, such as infinity times zero, makes the range unknown. */
static struct reals reals_product(struct reals a, struct reals b)
{
	const double x[] = { a.least * b.least, a.least * b.most, a.most * b.least,
		a.most * b.most };
	struct reals s = { x[0], x[0] };

	for (int i = 0; i < 4; i++) {
		if (isnan(x[i]))
			return no_reals;
		s.least = fmin(s.least, x[i]);
		s.most = fmax(s.most, x[i]);
	}
	return s;
}

/* The quotient by a number above zero. */
static struct reals reals_quotient(struct reals a, struct reals b)
{
	const double x[] = { a.least / b.least, a.least / b.most, a.most / b.least,
		a.most / b.most };

	if (b.least <= 0)
		return no_reals;
	return (struct reals){ fmin(x[0], x[1]), fmax(x[2], x[3]) };
}

static struct reals reals_of_two(const struct ht_graph *g, const struct ht_node *n, int *left)
{
	struct reals a = reals_of(g, n->in[0], left), b = reals_of(g, n->in[1], left);

	if (!are_known(a) || !are_known(b))
		return no_reals;
	switch (n->op) {
	case HT_OP_Sub:
		return (struct reals){ a.least - b.most, a.most - b.least };
	case HT_OP_Mul:
		return reals_product(a, b);
	case HT_OP_RealDiv:
		return reals_quotient(a, b);
	case HT_OP_Minimum:
		return (struct reals){ fmin(a.least, b.least), fmin(a.most, b.most) };
	case HT_OP_Maximum:
		return (struct reals){ fmax(a.least, b.least), fmax(a.most, b.most) };
	default: /* a sum */
		return (struct reals){ a.least + b.least, a.most + b.most };
	}
}

/* The range of the operand of a Cast to a float type: an integer or a float. */
static struct reals reals_of_cast(const struct ht_graph *g, struct ht_value v, int *left)
{
	struct ht_span s;

	if (ht_is_float(ht_type_of(v)->dtype))
		return reals_of(g, v, left);
	s = span(g, v, left);
	return is_known(s) ? (struct reals){ (double)s.least, (double)s.most } : no_reals;
}

/* Of an op that keeps the order of numbers. */
static struct reals reals_of_one(
	const struct ht_graph *g, const struct ht_node *n, double (*of)(double), int *left)
{
	struct reals s = reals_of(g, n->in[0], left);

	return (struct reals){ of(s.least), of(s.most) };
}

static struct reals reals_of_node(const struct ht_graph *g, struct ht_value v, int *left)
{
	const struct ht_node *n = v.node;

	if (ht_is(n, HT_FORWARDS) || ht_is(n, HT_RESHAPES))
		return reals_of(g, n->in[v.index], left);
	switch (n->op) {
	case HT_OP_RandomUniform:
	case HT_OP_StatelessRandomUniform:
	case HT_OP_StatelessRandomUniformV2:
		return drawn(n->out[0].dtype);
	case HT_OP_Cast:
		return reals_of_cast(g, n->in[0], left);
	case HT_OP_Ceil:
		return reals_of_one(g, n, ceil, left);
	case HT_OP_Floor:
		return reals_of_one(g, n, floor, left);
	case HT_OP_Rint:
	case HT_OP_Round:
		return reals_of_one(g, n, nearbyint, left);
	case HT_OP_Add:
	case HT_OP_AddV2:
	case HT_OP_Sub:
	case HT_OP_Mul:
	case HT_OP_RealDiv:
	case HT_OP_Minimum:
	case HT_OP_Maximum:
		return reals_of_two(g, n, left);
	default:
		return no_reals;
	}
}

static struct reals reals_of(const struct ht_graph *g, struct ht_value v, int *left)
{
	enum ht_dtype t = ht_type_of(v)->dtype;
	struct reals s;
	double x;

	if (--*left < 0 || (t != HT_F32 && t != HT_F64))
		return no_reals;
	if (ht_const_splat(v, &x))
		return (struct reals){ x, x };
	s = reals_of_node(g, v, left);
	return are_known(s) ? in_type(s, t) : no_reals;
}

static struct ht_span of_cast(const struct ht_graph *g, const struct ht_node *n, int *left)
{
	const double exact = 0x1p53; /* numbers below are exact */
	struct reals s;

	if (!ht_is_float(ht_type_of(n->in[0])->dtype))
		return of_operand(g, n, 0, left);
	s = reals_of(g, n->in[0], left);
	if (!are_known(s) || s.least <= -exact || s.most >= exact)
		return unknown;
	return (struct ht_span){ (int64_t)s.least, (int64_t)s.most };
}

/* ---- nodes ---- */

static struct ht_span of_node(const struct ht_graph *g, struct ht_value v, int *left)
{
	const struct ht_node *n = v.node;

	if (ht_is(n, HT_FORWARDS))
		return of_operand(g, n, v.index, left);
	if (ht_is(n, HT_RESHAPES | HT_GATHERS))
		return of_operand(g, n, 0, left);
	if (ht_is(n, HT_FINDS))
		return of_extent(g, n, -1, true);
	switch (n->op) {
	case HT_OP_StridedSlice:
		if (n->in[0].node->op == HT_OP_Shape)
			return of_one_extent(g, n, n->in[0].node);
		return of_operand(g, n, 0, left);
	case HT_OP_Unpack:
		if (n->in[0].node->op == HT_OP_Shape)
			return of_extent(g, n->in[0].node, v.index, false);
		return of_operand(g, n, 0, left);
	case HT_OP_Transpose:
	case HT_OP_Slice:
	case HT_OP_Tile:
	case HT_OP_BroadcastTo:
	case HT_OP_ReverseV2:
		return of_operand(g, n, 0, left);
	case HT_OP_Cast:
		return of_cast(g, n, left);
	case HT_OP_Neg: {
		struct ht_span a = of_operand(g, n, 0, left);

		return is_known(a) ? negated(a) : unknown;
	}
	case HT_OP_Pack:
		return of_all(g, n, 0, n->ins, left);
	case HT_OP_ConcatV2:
		return of_all(g, n, 0, n->ins - 1, left);
	case HT_OP_Select:
	case HT_OP_SelectV2:
	case HT_OP_ClipByValue:
		return of_all(g, n, 1, 3, left);
	case HT_OP_Shape:
		return of_extent(g, n, -1, false);
	case HT_OP_Size:
		return of_size(g, n);
	case HT_OP_Where:
		return of_extent(g, n, -1, true);
	case HT_OP_Unique:
		return v.index ? of_extent(g, n, 0, true) : of_operand(g, n, 0, left);
	case HT_OP_Sum:
		return of_sum(g, n, left);
	case HT_OP_Prod:
		return of_product(g, n, left);
	case HT_OP_Max:
	case HT_OP_Min:
		return of_operand(g, n, 0, left);
	case HT_OP_Range:
		return of_all(g, n, 0, 2, left);
	default:
		return n->ins == 2 ? of_operands(g, n, left) : unknown;
	}
}

static struct ht_span span(const struct ht_graph *g, struct ht_value v, int *left)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	struct ht_span all = of_type(ht_type_of(v)->dtype), s;

	if (t)
		return of_constant(t);
	if (--*left < 0 || !is_known(all))
		return unknown;
	s = of_node(g, v, left);
	/* What is outside of the type may have overflowed. */
	return is_known(s) && is_within(s, all) ? s : all;
}

bool ht_span_of(const struct ht_graph *g, struct ht_value v, struct ht_span *s)
{
	int left = MOST_NODES;

	*s = span(g, v, &left);
	return is_known(*s);
}
