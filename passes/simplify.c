/* simplify: algebra that is exact, for every value, NaN and the sign of zero included.
 *
 *   x*1, x/1, x-(+0), x+(-0), x^1 → x           x+0, x-0 of integers → x
 *   -(-x), relu(relu(x)), |-x|, |(|x|)|, (-x)², relu6 and relu of each other
 *   max(x,0) → Relu; min(max(x,0),6) and min(relu(x),6) → Relu6 (both give NaN for NaN)
 *   x² for Pow(x,2) (correctly rounded, where Pow may be off by one)
 *   AddN of two → AddV2; of very many → of AddN's; BiasAdd of BiasAdd stays
 *   Reshape, Squeeze, ExpandDims in a row → one Reshape
 *   reductions over axes of size 1: Max, Min, Mean → Reshape (Sum turns -0 to +0)
 *   StridedSlice, Slice of all but with other axes → Reshape
 *   reductions of a Reshape with more axes than kernels have, as gradients of repeated axes make them: without axes of size 1
 *
 * Not done: x+(+0) of floats (it turns -0 into +0), x*0, x-x, x/c as x*(1/c), and anything that
 * changes the order of roundings. */
#include "lower/refusals.h"
#include "passes/rewrite.h"

#include <math.h>

static bool is_float_type(struct ht_value v)
{
	return ht_is_float(ht_type_of(v)->dtype);
}

/* Replaces `n` by `x` if `x` has n's shape: broadcasting may have made n larger than x. */
static bool take(struct ht_rw *r, struct ht_node *n, struct ht_value x)
{
	if (n->controls || !ht_rw_same_shape(n, x))
		return false;
	if (ht_rw_is_output(r, ht_out(n, 0)) && x.node->op == HT_OP_Placeholder)
		return false;
	ht_rw_replace_node(r, n, x);
	return true;
}

/* Whether x op c = x for this constant as the right operand, or as the left one if op commutes. */
static bool is_neutral(const struct ht_node *n, struct ht_value c, bool left)
{
	double x;

	switch ((int)n->op) {
	case HT_OP_Mul:
		return ht_const_is(c, 1);
	case HT_OP_RealDiv:
	case HT_OP_Div:
		return !left && ht_const_is(c, 1);
	case HT_OP_Pow:
		return !left && is_float_type(c) && ht_const_is(c, 1);
	case HT_OP_Add:
	case HT_OP_AddV2:
		return is_float_type(c) ? ht_const_is(c, -0.0) : ht_const_is(c, 0);
	case HT_OP_Sub:
		return !left && ht_const_is(c, 0);
	case HT_OP_Minimum:
		return is_float_type(c) && ht_const_splat(c, &x) && x == INFINITY;
	case HT_OP_Maximum:
		return is_float_type(c) && ht_const_splat(c, &x) && x == -INFINITY;
	default:
		return false;
	}
}

static bool neutral_operand(struct ht_rw *r, struct ht_node *n)
{
	if (n->ins != 2)
		return false;
	return (is_neutral(n, n->in[1], false) && take(r, n, n->in[0])) ||
	       (is_neutral(n, n->in[0], true) && take(r, n, n->in[1]));
}

/* ---- one operand ---- */

static bool idempotent(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *x = n->in[0].node;

	if (n->controls || x->controls || n->ins != 1)
		return false;
	switch ((int)n->op) {
	case HT_OP_Relu:
	case HT_OP_Abs:
		if (x->op == n->op || (x->op == HT_OP_Relu6 && n->op == HT_OP_Relu))
			return take(r, n, n->in[0]);
		break;
	case HT_OP_Relu6:
		if (x->op == HT_OP_Relu6)
			return take(r, n, n->in[0]);
		if (x->op == HT_OP_Relu) {
			if (ht_rw_uses(r, n->in[0]) == 1)
				ht_rw_absorb(n, x);
			ht_rw_set_in(r, n, 0, x->in[0]);
			return true;
		}
		break;
	case HT_OP_Neg:
		if (x->op == HT_OP_Neg)
			return take(r, n, x->in[0]);
		break;
	case HT_OP_LogicalNot:
		if (x->op == HT_OP_LogicalNot)
			return take(r, n, x->in[0]);
		break;
	default:
		break;
	}
	if ((n->op == HT_OP_Abs || n->op == HT_OP_Square) &&
		(x->op == HT_OP_Neg || x->op == HT_OP_Abs)) {
		ht_rw_set_in(r, n, 0, x->in[0]);
		return true;
	}
	return false;
}

/* ---- clamps ---- */

/* If one operand of a binary node is the constant `c`, the other operand. */
static bool other_operand(const struct ht_node *n, double c, struct ht_value *x)
{
	double have;

	for (int i = 0; i < 2; i++) {
		if (ht_const_splat(n->in[i], &have) && have == c) {
			*x = n->in[1 - i];
			return true;
		}
	}
	return false;
}

/* `n` becomes op(x), and gets the origins of x. */
static void become_unary(struct ht_rw *r, struct ht_node *n, enum ht_op op, struct ht_value x)
{
	ht_rw_become(r, n, op, &x, 1);
}

static bool clamp(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value x, y;
	struct ht_node *inner;

	if (n->controls || n->ins != 2 || !ht_is_kernel_float(n->out[0].dtype))
		return false;
	if (n->op == HT_OP_Maximum && other_operand(n, 0, &x) && ht_rw_same_shape(n, x)) {
		become_unary(r, n, HT_OP_Relu, x);
		return true;
	}
	if (n->op != HT_OP_Minimum || !other_operand(n, 6, &x) || !ht_rw_same_shape(n, x))
		return false;
	inner = x.node;
	if (inner->controls || (inner->op != HT_OP_Relu && inner->op != HT_OP_Maximum))
		return false;
	y = inner->in[0];
	if (inner->op == HT_OP_Maximum && (!other_operand(inner, 0, &y) || !ht_rw_same_shape(n, y)))
		return false;
	if (ht_rw_uses(r, x) == 1)
		ht_rw_absorb(n, inner);
	become_unary(r, n, HT_OP_Relu6, y);
	return true;
}

static bool power(struct ht_rw *r, struct ht_node *n)
{
	if (n->op != HT_OP_Pow || n->controls || !ht_is_kernel_float(n->out[0].dtype) ||
		!ht_const_is(n->in[1], 2) || !ht_rw_same_shape(n, n->in[0]))
		return false;
	become_unary(r, n, HT_OP_Square, n->in[0]);
	return true;
}

static bool add_of_two(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value in[2];

	if (n->op != HT_OP_AddN || n->ins != 2 || n->controls ||
		ht_dtype_info(n->out[0].dtype)->kind == HT_KIND_OTHER)
		return false;
	in[0] = n->in[0];
	in[1] = n->in[1];
	ht_rw_become(r, n, HT_OP_AddV2, in, 2);
	return true;
}

/* A kernel has a limited number of operands: a longer sum becomes a sum of sums, in the same
 * order. */
enum { LONGEST_SUM = 32 };

static struct ht_value part_of_sum(
	struct ht_rw *r, struct ht_node *n, const struct ht_value *in, int32_t ins)
{
	return ht_out(ht_rw_node(r, n, HT_OP_AddN, n->name, in, ins, n->out[0]), 0);
}

static void split_long_sum(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value in[LONGEST_SUM];
	int32_t at = 1, count;

	if (n->op != HT_OP_AddN || n->ins <= LONGEST_SUM ||
		ht_dtype_info(n->out[0].dtype)->kind == HT_KIND_OTHER)
		return;
	in[0] = n->in[0];
	while (true) {
		for (count = 1; count < LONGEST_SUM && at < n->ins; count++)
			in[count] = n->in[at++];
		if (at == n->ins)
			break;
		in[0] = part_of_sum(r, n, in, count);
	}
	ht_rw_set_ins(r, n, in, count);
	ht_attr_set_int(n, "N", count);
}

/* ---- shapes ---- */

/* Whether a constant operand of Reshape can state the shape: at most one size may be open. */
static bool can_be_told(struct ht_shape s)
{
	int open = 0;

	for (int32_t i = 0; i < s.rank; i++)
		open += s.dim[i] == HT_DIM_UNKNOWN;
	for (int32_t i = 0; i < s.rank; i++)
		if (open && !s.dim[i])
			return false;
	return s.rank >= 0 && open <= 1;
}

/* `n` becomes a Reshape of `x` to the shape that n's result has; an open size is -1 for Reshape. */
static void become_reshape(struct ht_rw *r, struct ht_node *n, struct ht_value x)
{
	struct ht_str name = ht_str_printf(r->arena, "%.*s/shape", HT_STR_ARG(n->name));
	struct ht_shape s = n->out[0].shape;
	struct ht_value in[2] = { x, ht_rw_const_ints(r, n, name, HT_I64, s.dim, s.rank) };

	ht_rw_become(r, n, HT_OP_Reshape, in, 2);
}

static bool reshape_of_reshape(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *x;

	if (!ht_is(n, HT_RESHAPES) || n->controls || !can_be_told(n->out[0].shape))
		return false;
	x = n->in[0].node;
	if (!ht_is(x, HT_RESHAPES) || x->controls || n->in[0].index)
		return false;
	become_reshape(r, n, x->in[0]);
	return true;
}

static bool is_reduction_of_nothing(const struct ht_node *n)
{
	struct ht_shape s = ht_type_of(n->in[0])->shape;
	int64_t axis[HT_MAX_RANK];
	int count;

	if (n->op != HT_OP_Max && n->op != HT_OP_Min && n->op != HT_OP_Mean)
		return false;
	if (!ht_const_small_ints(n->in[1], axis, HT_MAX_RANK, &count) || s.rank < 0)
		return false;
	for (int i = 0; i < count; i++) {
		int64_t a = axis[i] < 0 ? axis[i] + s.rank : axis[i];

		if (a < 0 || a >= s.rank || s.dim[a] != 1)
			return false;
	}
	return true;
}

/* Whether a slice keeps all elements, and only removes or adds axes. */
static bool is_whole_slice(const struct ht_node *n)
{
	struct ht_shape in = ht_type_of(n->in[0])->shape;
	int64_t stride[HT_MAX_RANK];
	int count;

	if (n->op != HT_OP_StridedSlice ||
		!ht_const_small_ints(n->in[3], stride, HT_MAX_RANK, &count))
		return false;
	for (int i = 0; i < count; i++)
		if (stride[i] < 1)
			return false;
	return ht_shape_known(in) && ht_shape_count(in) > 0 &&
	       ht_shape_count(in) == ht_shape_count(n->out[0].shape);
}

/* A slice that keeps all elements begins at the first one of each axis that it does not remove; what it says of the others, which a run may
 * compute, is checked. */
static bool checks_removed_axes(struct ht_node *n)
{
	int64_t mask = ht_attr_int(n, "begin_mask", 0);
	int64_t kept = ~ht_attr_int(n, "shrink_axis_mask", 0) & INT32_MAX;

	if ((mask & kept) == kept)
		return false;
	ht_attr_set_int(n, "begin_mask", mask | kept);
	return true;
}

static bool as_reshape(struct ht_rw *r, struct ht_node *n)
{
	if (n->controls || !can_be_told(n->out[0].shape) ||
		(!is_reduction_of_nothing(n) && !is_whole_slice(n)))
		return false;
	if (ht_rw_checks_index(n))
		return checks_removed_axes(n);
	if (!take(r, n, n->in[0]))
		become_reshape(r, n, n->in[0]);
	return true;
}

/* The axes that a reduction of a tensor of this shape keeps in it when axes of size 1 go, except that one axis stays to be reduced. */
struct fewer_axes {
	int64_t dim[HT_MAX_RANK], axis[HT_MAX_RANK]; /* all, and those to be reduced */
	int32_t rank, reduced;
};

static bool without_unit_axes(const struct ht_node *n, struct ht_shape s, struct fewer_axes *f)
{
	int64_t axis[HT_MAX_RANK];
	bool reduced[HT_MAX_RANK] = { false };
	int count, single = -1;

	if (!ht_const_small_ints(n->in[1], axis, HT_MAX_RANK, &count))
		return false;
	for (int i = 0; i < count; i++) {
		single = (int)(axis[i] < 0 ? axis[i] + s.rank : axis[i]);
		if (single < 0 || single >= s.rank)
			return false;
		reduced[single] = true;
	}
	for (int i = 0; i < s.rank; i++)
		single = reduced[i] && s.dim[i] != 1 ? -1 : single;
	for (int i = 0; i < s.rank; i++) {
		if (s.dim[i] == 1 && i != single)
			continue;
		if (reduced[i])
			f->axis[f->reduced++] = f->rank;
		f->dim[f->rank++] = s.dim[i];
	}
	return true;
}

static bool reduction_of_many_axes(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node *x = n->in[0].node;
	struct ht_shape s = ht_type_of(n->in[0])->shape, to;
	struct fewer_axes f = { 0 };
	struct ht_value v;

	if (!ht_is(n, HT_REDUCES) || n->controls || s.rank <= HT_LOWER_RANK ||
		!ht_is(x, HT_RESHAPES) || x->controls || !can_be_told(n->out[0].shape) ||
		!without_unit_axes(n, s, &f))
		return false;
	to = (struct ht_shape){ f.rank, f.dim };
	if (f.rank > HT_LOWER_RANK || !can_be_told(to))
		return false;
	v = ht_rw_reshape(r, n, n->name, x->in[0], to);
	v = ht_rw_reduce(r, n, n->op, n->name, v, f.axis, f.reduced, false);
	become_reshape(r, n, v);
	return true;
}

/* ---- the walk ---- */

static const struct {
	bool (*apply)(struct ht_rw *r, struct ht_node *n);
	enum ht_fusion_id id;
} rules[] = {
	{ neutral_operand, HT_FUSION_algebra },
	{ idempotent, HT_FUSION_algebra },
	{ clamp, HT_FUSION_algebra },
	{ power, HT_FUSION_algebra },
	{ add_of_two, HT_FUSION_algebra },
	{ reshape_of_reshape, HT_FUSION_reshapes },
	{ as_reshape, HT_FUSION_reshapes },
	{ reduction_of_many_axes, HT_FUSION_reshapes },
};

static bool apply(struct ht_rw *r, struct ht_node *n)
{
	for (size_t i = 0; i < HT_COUNT(rules); i++) {
		if (!ht_rw_on(r, rules[i].id) || !rules[i].apply(r, n))
			continue;
		ht_rw_hit(r, rules[i].id);
		return true;
	}
	return false;
}

static void simplify(struct ht_rw *r, struct ht_node *n)
{
	if (n->outs > 0)
		split_long_sum(r, n);
	while (n->graph && n->outs > 0 && n->ins > 0 && apply(r, n))
		;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, simplify);
}

const struct ht_pass ht_pass_simplify = {
	.name = "simplify",
	.summary = "exact algebra",
	.run = run,
};
