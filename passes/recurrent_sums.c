/* recurrent: products that a loop adds up step by step become one product behind the loop.
 *
 * The gradient of a recurrent layer's weights is a sum over the steps of products a^T b, of as many rows as a batch has.  Added up in each
 * step, the sum, which is as large as the weights, is read and written once for a few rows.  The rows of all steps, in two lists, are
 * multiplied once instead, with the same products in another order of sums.  Lists begin as zeros, so steps that do not run add nothing. */
#include "passes/carry.h"
#include "passes/recurrent.h"

/* Lists of more than so many times the elements of the sum take more memory than the time is worth. */
enum { MOST_SHARE = 16 };
enum { MOST_STEPS = 1 << 20 };

static const enum ht_fusion_id id = HT_FUSION_recurrent_sums;

/* A loop's result that is its argument plus a product. */
struct sum {
	int32_t result;
	struct ht_value before; /* the argument */
	struct ht_node *add, *product;
	struct ht_node *cast; /* of the product; NULL: none */
};

struct looked {
	struct ht_pass_context *c;
	struct ht_node *node;
	struct ht_bodies of;
	struct ht_rw outside, inside;
	struct ht_rw_within within;
	struct ht_node *next;   /* stands behind the loop; NULL: none does */
	int64_t steps;          /* at most */
	struct ht_value number; /* of the step, in the body; node NULL: there is none yet */
};

/* ---- what is summed ---- */

static bool is_float(enum ht_dtype t)
{
	return t == HT_F32 || t == HT_F64;
}

/* A product of columns of both operands, whose sums a kernel keeps in at least 32 bits. */
static bool is_product(const struct looked *x, const struct ht_node *n)
{
	return n->op == HT_OP_MatMul && ht_attr_bool(n, "transpose_a", false) &&
	       !ht_attr_bool(n, "transpose_b", false) && ht_rw_plain(&x->inside, n) &&
	       (is_float(n->out[0].dtype) || n->out[0].dtype == HT_BF16) &&
	       ht_shape_known(ht_type_of(n->in[0])->shape) &&
	       ht_shape_known(ht_type_of(n->in[1])->shape);
}

/* Finds the product that `v` is, perhaps behind a cast.  False: `v` is none, or something else uses it. */
static bool find_product(const struct looked *x, struct ht_value v, struct sum *s)
{
	struct ht_node *n = v.node;

	if (ht_rw_only_user(&x->inside, v) != s->add)
		return false;
	if (n->op == HT_OP_Cast && ht_rw_plain(&x->inside, n)) {
		s->cast = n;
		v = n->in[0];
		n = v.node;
		if (ht_rw_only_user(&x->inside, v) != s->cast)
			return false;
	}
	s->product = n;
	return is_product(x, n);
}

/* Whether the condition asks for argument i. */
static bool is_asked_for(const struct ht_function *condition, int32_t i)
{
	const struct ht_port *p = ht_port_at(condition->args, i);

	for (const struct ht_node *n = condition->body->first; n; n = n->next)
		for (int32_t k = 0; k < n->ins; k++)
			if (ht_value_eq(n->in[k], p->value))
				return true;
	return ht_value_eq(condition->rets->value, p->value);
}

/* Whether result i, `ret`, is argument `arg` plus a product, and nothing else in the loop takes the argument or the sum. */
static bool find_sum(
	const struct looked *x, int32_t i, struct ht_value arg, struct ht_value ret, struct sum *s)
{
	struct ht_node *n = ret.node;

	*s = (struct sum){ .result = i, .before = arg, .add = n };
	if (!ht_is(n, HT_ADDS) || n->ins != 2 || !is_float(n->out[0].dtype) ||
		!ht_rw_plain(&x->inside, n) || ht_rw_uses(&x->inside, ret) != 1 ||
		ht_rw_only_user(&x->inside, arg) != n || is_asked_for(x->of.of[0], i) ||
		!ht_shape_eq(ht_type_of(arg)->shape, n->out[0].shape))
		return false;
	for (int k = 0; k < 2; k++)
		if (ht_value_eq(n->in[k], arg) && find_product(x, n->in[1 - k], s))
			return ht_shape_eq(s->product->out[0].shape, n->out[0].shape);
	return false;
}

/* Whether writing and reading the rows of a step takes less time than reading and writing the sum, and the rows of all steps take not much
 * more memory than the sum. */
static bool pays(const struct looked *x, const struct sum *s)
{
	const int64_t rows = ht_type_of(s->product->in[0])->shape.dim[0],
		      *size = s->product->out[0].shape.dim;
	const double all = (double)size[0] * (double)size[1],
		     step = (double)rows * (double)(size[0] + size[1]);

	return step < all && step * (double)x->steps <= MOST_SHARE * all;
}

/* Whether sizes are open.  Such loops are left alone, since rows behind those of the run would be added, too. */
static bool has_open_sizes(const struct looked *x)
{
	for (const struct ht_port *p = x->of.of[1]->args; p; p = p->next)
		if (ht_attr_find(p->value.node, "_ends"))
			return true;
	return ht_attr_find(x->node, "_ends");
}

/* ---- what the loop carries instead ---- */

/* A carried value that begins as `first`: in the body, and its result behind the loop. */
struct carried {
	struct ht_value argument, result;
};

static struct carried carry(struct looked *x, struct ht_value first)
{
	const struct ht_type t = *ht_type_of(first);
	struct carried v;

	ht_carry_operand(&x->outside, x->node, first);
	v.result = ht_carry_result(x->node, t);
	ht_carry_argument(x->of.of[0], t);
	v.argument = ht_carry_argument(x->of.of[1], t);
	return v;
}

/* `v`, moved behind the loop. */
static struct ht_value behind(struct looked *x, struct ht_value v)
{
	ht_node_move(v.node, x->next);
	return v;
}

/* The number of the step, from 0 on. */
static struct ht_value number_of(struct looked *x)
{
	struct ht_str name = x->node->name;
	struct ht_value one;

	if (x->number.node)
		return x->number;
	x->number = carry(x, ht_rw_scalar(&x->outside, x->node, name, HT_I32, 0)).argument;
	one = ht_rw_scalar(&x->inside, NULL, name, HT_I32, 1);
	ht_carry_return(
		x->of.of[1], ht_rw_binary(&x->inside, NULL, HT_OP_AddV2, name, x->number, one));
	return x->number;
}

static struct ht_value zeros(struct looked *x, struct ht_str name, struct ht_type t)
{
	struct ht_value in[2];
	struct ht_node *fill;

	in[0] = ht_rw_const_ints(&x->outside, x->node, name, HT_I64, t.shape.dim, t.shape.rank);
	in[1] = ht_rw_scalar(&x->outside, x->node, name, t.dtype, 0);
	fill = ht_rw_node(&x->outside, x->node, HT_OP_Fill, name, in, 2, t);
	return ht_out(fill, 0);
}

/* The rows of `v` of all steps, below each other, behind the loop. */
static struct ht_value rows_of_steps(struct looked *x, const struct sum *s, struct ht_value v)
{
	const struct ht_str name = s->product->name;
	const int64_t *one = ht_type_of(v)->shape.dim;
	int64_t row[] = { 1, one[0], one[1] }, all[] = { x->steps, one[0], one[1] },
		rows[] = { x->steps * one[0], one[1] }, index[] = { 1, 1 };
	const struct ht_type list = { ht_type_of(v)->dtype, { 3, all } };
	/* Carried before the list, so that arguments and results have one order. */
	struct ht_value number = number_of(x);
	struct carried c = carry(x, zeros(x, name, list));
	struct ht_value in[] = { c.argument, { 0 }, { 0 } };
	struct ht_node *set;

	in[1] = ht_rw_reshape(&x->inside, s->product, name, number, (struct ht_shape){ 2, index });
	in[2] = ht_rw_reshape(&x->inside, s->product, name, v, (struct ht_shape){ 3, row });
	set = ht_rw_node(&x->inside, s->product, HT_OP_TensorScatterUpdate, name, in, 3, list);
	ht_carry_return(x->of.of[1], ht_out(set, 0));
	return behind(x,
		ht_rw_reshape(&x->outside, x->node, name, c.result, (struct ht_shape){ 2, rows }));
}

/* Does with `in` behind the loop what `from` does in the body. */
static struct ht_value same_op(
	struct looked *x, const struct ht_node *from, const struct ht_value *in)
{
	struct ht_node *n =
		ht_rw_node(&x->outside, x->node, from->op, from->name, in, from->ins, from->out[0]);

	n->attrs = ht_attrs_copy(from->attrs, NULL, n->graph->arena);
	ht_node_add_origin(n, from);
	return behind(x, ht_out(n, 0));
}

static bool is_zero(struct ht_value v)
{
	return ht_const_is(v.node->op == HT_OP_Fill ? v.node->in[1] : v, 0);
}

static void leave(struct looked *x, const struct sum *s)
{
	const struct ht_value from = x->node->in[s->result];
	struct ht_value rows[] = { rows_of_steps(x, s, s->product->in[0]),
		rows_of_steps(x, s, s->product->in[1]) };
	struct ht_value all = same_op(x, s->product, rows), both[] = { from, all };

	if (s->cast)
		both[1] = all = same_op(x, s->cast, &all);
	if (!is_zero(from))
		all = same_op(x, s->add, both);
	ht_rw_replace(&x->outside, ht_out(x->node, s->result), all);
	ht_rw_replace(&x->inside, ht_out(s->add, 0), s->before);
	ht_rw_hit(&x->outside, id);
}

/* ---- loops ---- */

/* Visits the sums that were there at first: `leave` appends arguments and results. */
static bool leave_all(struct looked *x)
{
	const struct ht_port *arg = x->of.of[1]->args, *ret = x->of.of[1]->rets;
	const int32_t results = x->node->outs;
	bool any = false;
	struct sum s;

	for (int32_t i = 0; i < results; i++, arg = arg->next, ret = ret->next) {
		if (!find_sum(x, i, arg->value, ret->value, &s) || !ht_rw_on(&x->outside, id))
			continue;
		if (pays(x, &s)) {
			leave(x, &s);
			any = true;
		} else {
			ht_rw_miss(&x->outside, id, 2, s.product,
				"has rows that take as much memory as the sum");
		}
	}
	return any;
}

void ht_recurrent_sums(struct ht_node *n, struct ht_pass_context *c, const struct ht_ranges *ranges)
{
	struct looked x = { .c = c, .node = n, .next = n->next, .of = ht_control_bodies(n) };

	if (!ht_runs_own(n) || n->ins != n->outs || has_open_sizes(&x))
		return;
	x.steps = ht_range_of_trips(ranges, n).most;
	if (x.steps < 2 || x.steps > MOST_STEPS)
		return;
	ht_rw_init(&x.outside, n->graph, c);
	ht_rw_init_within(&x.inside, &x.within, x.of.of[1]->body, c);
	if (leave_all(&x))
		ht_settle_arguments(n, c);
}
