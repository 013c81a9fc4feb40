/* Integers as sums of sizes, for pass sizes: what shapes, paddings and the bounds of slices have in common. */
#include "passes/computed_sums.h"

/* How many nodes are looked at for one integer: operands may have operands in common, so there are many ways to these. */
enum { MOST_NODES = 500 };

/* ---- sums ---- */

struct ht_sum ht_sum_number(int64_t number)
{
	return (struct ht_sum){ .known = true, .number = number };
}

static struct ht_sum of_dim(int64_t dim)
{
	if (dim >= 0)
		return ht_sum_number(dim);
	return dim == HT_DIM_UNKNOWN
		       ? (struct ht_sum){ .known = false }
		       : (struct ht_sum){
				 .known = true, .terms = 1, .dim = { dim }, .times = { 1 }
			 };
}

static void drop_term(struct ht_sum *s, int32_t i)
{
	s->terms--;
	s->dim[i] = s->dim[s->terms];
	s->times[i] = s->times[s->terms];
}

static void add_term(struct ht_sum *s, int64_t dim, int64_t times)
{
	int32_t i = 0;

	while (i < s->terms && s->dim[i] != dim)
		i++;
	if (i == HT_SUM_TERMS) {
		s->known = false;
		return;
	}
	if (i == s->terms) {
		s->dim[s->terms] = dim;
		s->times[s->terms++] = 0;
	}
	if (__builtin_add_overflow(s->times[i], times, &s->times[i]))
		s->known = false;
	else if (!s->times[i])
		drop_term(s, i);
}

/* a + b, or a - b; factors and sign are small, as each term is of one operand of a node. */
struct ht_sum ht_sum_plus(struct ht_sum a, struct ht_sum b, int64_t sign)
{
	int64_t number;

	a.known = a.known && b.known && !__builtin_mul_overflow(b.number, sign, &number) &&
		  !__builtin_add_overflow(a.number, number, &a.number);
	for (int32_t i = 0; i < b.terms && a.known; i++) {
		int64_t times;

		a.known = !__builtin_mul_overflow(b.times[i], sign, &times);
		if (a.known)
			add_term(&a, b.dim[i], times);
	}
	return a;
}

bool ht_sum_equal(struct ht_sum a, struct ht_sum b)
{
	struct ht_sum rest = ht_sum_plus(a, b, -1);

	return rest.known && !rest.terms && !rest.number;
}

bool ht_sum_is(struct ht_sum s, int64_t number)
{
	return s.known && !s.terms && s.number == number;
}

/* ---- extents and elements as sums ---- */

static struct ht_sum element(struct ht_value v, int64_t i, int *left);
static struct ht_sum extent(struct ht_value v, int32_t axis, int *left);

int32_t ht_stated_axis(const struct ht_node *n, int32_t arg, int32_t rank)
{
	int64_t axis;
	int one;

	return rank >= 0 && ht_const_small_ints(n->in[arg], &axis, 1, &one) &&
			       ht_fix_axis(&axis, rank)
		       ? (int32_t)axis
		       : -1;
}

static struct ht_sum extent_of_concat(const struct ht_node *n, int32_t axis, int *left)
{
	int32_t along = ht_stated_axis(n, n->ins - 1, ht_in_shape(n, 0).rank);
	struct ht_sum s = ht_sum_number(0);

	if (along < 0)
		return (struct ht_sum){ .known = false };
	if (along != axis)
		return extent(n->in[0], axis, left);
	for (int32_t i = 0; i + 1 < n->ins; i++)
		s = ht_sum_plus(s, extent(n->in[i], axis, left), 1);
	return s;
}

bool ht_is_plain_gather(const struct ht_node *n, int32_t *axis)
{
	if (n->op != HT_OP_GatherV2 || ht_attr_int(n, "batch_dims", 0) ||
		ht_in_shape(n, 1).rank < 0)
		return false;
	*axis = ht_stated_axis(n, 2, ht_in_shape(n, 0).rank);
	return *axis >= 0;
}

static struct ht_sum extent_of_gather(const struct ht_node *n, int32_t axis, int *left)
{
	int32_t along, rank = ht_in_shape(n, 1).rank;

	if (!ht_is_plain_gather(n, &along))
		return (struct ht_sum){ .known = false };
	if (axis < along)
		return extent(n->in[0], axis, left);
	return axis < along + rank ? extent(n->in[1], axis - along, left)
				   : extent(n->in[0], axis - rank + 1, left);
}

/* Rows of a variable, one for each index. */
static struct ht_sum extent_of_rows(const struct ht_node *n, int32_t axis, int *left)
{
	return !ht_attr_int(n, "batch_dims", 0) && axis < ht_in_shape(n, 1).rank
		       ? extent(n->in[1], axis, left)
		       : (struct ht_sum){ .known = false };
}

/* The extent of a Reshape along `axis`: that of the operand where a vector becomes a vector, or else what the shape's operand states, unless that
 * is -1. */
static struct ht_sum extent_of_reshape(const struct ht_node *n, int32_t axis, int *left)
{
	struct ht_sum s;

	if (n->out[0].shape.rank == 1 && ht_in_shape(n, 0).rank == 1)
		return extent(n->in[0], 0, left);
	s = element(n->in[1], axis, left);
	s.known = s.known && (s.terms || s.number >= 0);
	return s;
}

static struct ht_sum extent_of_range(const struct ht_node *n, int *left)
{
	return ht_const_is(n->in[0], 0) && ht_const_is(n->in[2], 1)
		       ? element(n->in[1], 0, left)
		       : (struct ht_sum){ .known = false };
}

static struct ht_sum extent_of_node(struct ht_value v, int32_t axis, int *left)
{
	const struct ht_node *n = v.node;

	if (ht_is(n, HT_FORWARDS))
		return extent(n->in[v.index], axis, left);
	switch (n->op) {
	case HT_OP_ConcatV2:
		return extent_of_concat(n, axis, left);
	case HT_OP_Fill:
		return element(n->in[0], axis, left);
	case HT_OP_Reshape:
		return extent_of_reshape(n, axis, left);
	case HT_OP_Range:
		return extent_of_range(n, left);
	case HT_OP_GatherV2:
		return extent_of_gather(n, axis, left);
	case HT_OP_ResourceGather:
		return extent_of_rows(n, axis, left);
	case HT_OP_TensorScatterUpdate:
		return extent(n->in[0], axis, left);
	default:
		return (struct ht_sum){ .known = false };
	}
}

static struct ht_sum extent(struct ht_value v, int32_t axis, int *left)
{
	struct ht_shape s = ht_type_of(v)->shape;
	struct ht_sum told = of_dim(s.rank > axis ? s.dim[axis] : HT_DIM_UNKNOWN);

	if (told.known || s.rank <= axis || --*left < 0)
		return told;
	return extent_of_node(v, axis, left);
}

/* Element i of vectors side by side, as columns. */
static struct ht_sum element_of_columns(const struct ht_node *n, int64_t i, int *left)
{
	int32_t columns = n->ins - 1;

	if (ht_in_shape(n, 0).rank != 2 || ht_stated_axis(n, columns, 2) != 1)
		return (struct ht_sum){ .known = false };
	for (int32_t k = 0; k < columns; k++)
		if (ht_in_shape(n, k).rank != 2 || ht_in_shape(n, k).dim[1] != 1)
			return (struct ht_sum){ .known = false };
	return element(n->in[i % columns], i / columns, left);
}

static struct ht_sum element_of_concat(const struct ht_node *n, int64_t i, int *left)
{
	if (ht_in_shape(n, 0).rank != 1)
		return element_of_columns(n, i, left);
	for (int32_t k = 0; k + 1 < n->ins; k++) {
		int64_t count = ht_shape_count(ht_in_shape(n, k));

		if (count < 0)
			break;
		if (i < count)
			return element(n->in[k], i, left);
		i -= count;
	}
	return (struct ht_sum){ .known = false };
}

/* The one element of a vector that a slice takes. */
static struct ht_sum element_of_slice(const struct ht_node *n, int *left)
{
	int64_t begin, length = ht_shape_count(ht_in_shape(n, 0));
	int count;

	if (ht_in_shape(n, 0).rank != 1 || n->out[0].shape.rank != 0 ||
		ht_attr_int(n, "shrink_axis_mask", 0) != 1 ||
		!ht_const_small_ints(n->in[1], &begin, 1, &count) || count != 1 ||
		!ht_fix_axis(&begin, length < 0 ? 0 : (int32_t)length))
		return (struct ht_sum){ .known = false };
	return element(n->in[0], begin, left);
}

/* Element `i` of a part of a vector that begins at a constant place. */
static struct ht_sum element_of_part(const struct ht_node *n, int64_t i, int *left)
{
	int64_t begin;
	int count;

	if (ht_in_shape(n, 0).rank != 1 || !ht_const_small_ints(n->in[1], &begin, 1, &count) ||
		count != 1 || begin < 0 || begin > INT32_MAX)
		return (struct ht_sum){ .known = false };
	return element(n->in[0], begin + i, left);
}

/* Element `i` of those that constant indices choose of a vector. */
static struct ht_sum element_of_gather(const struct ht_node *n, int64_t i, int *left)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	int32_t axis;

	if (!t || ht_in_shape(n, 0).rank != 1 || !ht_is_plain_gather(n, &axis) ||
		i >= ht_shape_count(t->shape) || ht_tensor_int(t, (size_t)i) < 0)
		return (struct ht_sum){ .known = false };
	return element(n->in[0], ht_tensor_int(t, (size_t)i), left);
}

/* The product of a vector of one element. */
static struct ht_sum element_of_product(const struct ht_node *n, int *left)
{
	return ht_in_shape(n, 0).rank == 1 && ht_in_shape(n, 0).dim[0] == 1
		       ? element(n->in[0], 0, left)
		       : (struct ht_sum){ .known = false };
}

/* Operands of one shape, packed along a new axis: for each of the axes in front of it, each operand has a block of elements. */
static struct ht_sum element_of_pack(const struct ht_node *n, int64_t i, int *left)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axis = ht_attr_int(n, "axis", 0), block = 1;

	if (!ht_shape_known(s) || !ht_fix_axis(&axis, s.rank + 1) ||
		i >= n->ins * ht_shape_count(s))
		return (struct ht_sum){ .known = false };
	for (int64_t k = axis; k < s.rank; k++)
		block *= s.dim[k];
	return element(n->in[i / block % n->ins], i / block / n->ins * block + i % block, left);
}

static struct ht_sum element_of_operand(const struct ht_node *n, int32_t arg, int64_t i, int *left)
{
	return element(n->in[arg], ht_in_shape(n, arg).rank ? i : 0, left);
}

static struct ht_sum element_of_two(const struct ht_node *n, int64_t i, int *left)
{
	struct ht_sum a = element_of_operand(n, 0, i, left);

	return ht_sum_plus(a, element_of_operand(n, 1, i, left), n->op == HT_OP_Sub ? -1 : 1);
}

static struct ht_sum element_of_node(struct ht_value v, int64_t i, int *left)
{
	const struct ht_node *n = v.node;

	if (ht_is(n, HT_FORWARDS))
		return element(n->in[v.index], i, left);
	if (ht_is(n, HT_RESHAPES))
		return element(n->in[0], i, left);
	switch (n->op) {
	case HT_OP_Cast:
		return element(n->in[0], i, left);
	case HT_OP_Shape:
	case HT_OP_ShapeN:
		return extent(n->in[v.index], (int32_t)i, left);
	case HT_OP_Size:
		return ht_in_shape(n, 0).rank == 1 ? extent(n->in[0], 0, left)
						   : (struct ht_sum){ .known = false };
	case HT_OP_Pack:
		return element_of_pack(n, i, left);
	case HT_OP_ConcatV2:
		return element_of_concat(n, i, left);
	case HT_OP_StridedSlice:
		return element_of_slice(n, left);
	case HT_OP_Slice:
		return element_of_part(n, i, left);
	case HT_OP_GatherV2:
		return element_of_gather(n, i, left);
	case HT_OP_Prod:
		return element_of_product(n, left);
	case HT_OP_Add:
	case HT_OP_AddV2:
	case HT_OP_Sub:
		return element_of_two(n, i, left);
	default:
		return (struct ht_sum){ .known = false };
	}
}

/* Element i of a tensor of integers, in the order of its memory. */
static struct ht_sum element(struct ht_value v, int64_t i, int *left)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	enum ht_dtype type = ht_type_of(v)->dtype;

	if (!ht_is_index(type))
		return (struct ht_sum){ .known = false };
	if (t)
		return i < ht_shape_count(t->shape) ? ht_sum_number(ht_tensor_int(t, (size_t)i))
						    : (struct ht_sum){ .known = false };
	return --*left >= 0 ? element_of_node(v, i, left) : (struct ht_sum){ .known = false };
}

struct ht_sum ht_sum_element(const struct ht_node *n, int32_t arg, int64_t i)
{
	int left = MOST_NODES;

	return element(n->in[arg], i, &left);
}

struct ht_sum ht_sum_extent(struct ht_value v, int32_t axis)
{
	int left = MOST_NODES;

	return extent(v, axis, &left);
}
