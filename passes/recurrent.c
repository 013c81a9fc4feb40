/* recurrent: products of what a loop reads step by step become one product in front of the loop.
 *
 * A recurrent layer's loop gathers a row of its sequence by a counter and multiplies it by constant weights.  As no
 * step depends on another there, one product of all rows gives the same, and reads the weights once.  The
 * loop then gathers a row of the products.  Casts, reshapes, biases and other elementwise ops
 * around the product go with it.
 *
 * The loop must count from a constant to the number of rows, one by one: so each row is read once at most. */
#include "passes/outline.h"
#include "passes/rewrite.h"

#include <string.h>

enum {
	MOST_DEPTH = 16, /* of the expression in front of the loop */
	FEW_ROWS = 8     /* a product of fewer rows is bound by reading its weights */
};

struct loop {
	struct ht_pass_context *c;
	struct ht_node *node;
	struct ht_function *condition, *body;
	struct ht_rw outside, inside;
	struct ht_port **args_end[2], **rets_end;
	int64_t steps; /* at most */
};

/* ---- arguments ---- */

/* The number of the argument that `v` is; -1: it is none. */
static int32_t argument_of(const struct ht_function *f, struct ht_value v)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++)
		if (ht_value_eq(p->value, v))
			return i;
	return -1;
}

static struct ht_value result_of(const struct ht_function *f, int32_t i)
{
	const struct ht_port *p = f->rets;

	for (; i > 0; i--)
		p = p->next;
	return p->value;
}

/* The value outside of the loop of what every iteration has alike; node NULL: it changes. */
static struct ht_value unchanged(const struct loop *x, struct ht_value v)
{
	int32_t i = argument_of(x->body, v);

	if (ht_is_const(v))
		return v;
	return i >= 0 && ht_value_eq(result_of(x->body, i), v) ? x->node->in[i]
							       : (struct ht_value){ 0 };
}

static bool is_unchanged(const struct loop *x, struct ht_value v)
{
	return unchanged(x, v).node != NULL;
}

/* ---- loops that count ---- */

static bool is_one(struct ht_value v)
{
	int64_t n;
	int count;

	return ht_type_of(v)->shape.rank == 0 && ht_const_small_ints(v, &n, 1, &count) && n == 1;
}

/* Whether argument i is a counter: its first value is a constant, *from, and each iteration adds 1. */
static bool counts(const struct loop *x, int32_t i, int64_t *from)
{
	struct ht_value next, arg;
	int count;
	const struct ht_port *p = x->body->args;

	if (i < 0 || !ht_const_small_ints(x->node->in[i], from, 1, &count) || count != 1)
		return false;
	for (int32_t k = i; k > 0; k--)
		p = p->next;
	arg = p->value;
	next = result_of(x->body, i);
	if (!ht_is(next.node, HT_ADDS) || next.node->ins != 2)
		return false;
	for (int k = 0; k < 2; k++)
		if (ht_value_eq(next.node->in[k], arg) && is_one(next.node->in[1 - k]))
			return true;
	return false;
}

/* The most steps that condition `v` lets the loop do; -1: it does not say. */
static int64_t most_steps(const struct loop *x, struct ht_value v, int depth)
{
	const struct ht_node *n = v.node;
	int64_t from, to, a, b;
	int count;

	if (ht_is(n, HT_FORWARDS) && n->ins == 1 && depth)
		return most_steps(x, n->in[0], depth - 1);
	if (n->op == HT_OP_LogicalAnd && depth) {
		a = most_steps(x, n->in[0], depth - 1);
		b = most_steps(x, n->in[1], depth - 1);
		return a < 0 || (b >= 0 && b < a) ? b : a;
	}
	if (n->op != HT_OP_Less || !ht_const_small_ints(n->in[1], &to, 1, &count) || count != 1 ||
		!counts(x, argument_of(x->condition, n->in[0]), &from) || to < from)
		return -1;
	return to - from;
}

/* ---- what can be in front of the loop ---- */

static bool is_step(const struct loop *x, const struct ht_node *n)
{
	struct ht_value list =
		n->op == HT_OP_Gather ? unchanged(x, n->in[0]) : (struct ht_value){ 0 };
	int64_t from;

	if (!list.node || ht_type_of(n->in[1])->shape.rank != 0 ||
		!ht_shape_known(ht_type_of(list)->shape))
		return false;
	return ht_type_of(list)->shape.dim[0] == x->steps &&
	       counts(x, argument_of(x->body, n->in[1]), &from) && from == 0;
}

static bool is_product(const struct loop *x, const struct ht_node *n)
{
	bool rows = n->op == HT_OP_MatMul && !ht_attr_bool(n, "transpose_a", false);
	bool image =
		n->op == HT_OP_Conv2D && ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");

	return (rows || image) && is_unchanged(x, n->in[1]);
}

/* The operand that is computed step by step, where `n` does so with its elements in their places; -1: it does not. */
static int32_t stepped_operand(const struct loop *x, const struct ht_node *n)
{
	bool bias = n->op == HT_OP_BiasAdd && is_unchanged(x, n->in[1]) &&
		    ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");

	if (bias || is_product(x, n) || ht_is(n, HT_RESHAPES) ||
		(n->ins == 1 && ht_is(n, HT_ELEMENTWISE | HT_FORWARDS)))
		return 0;
	if (n->ins != 2 || !ht_is(n, HT_ELEMENTWISE))
		return -1;
	for (int32_t i = 0; i < 2; i++)
		if (is_unchanged(x, n->in[1 - i]) &&
			ht_type_of(n->in[1 - i])->shape.rank <= n->out[0].shape.rank &&
			ht_shape_eq(ht_type_of(n->in[i])->shape, n->out[0].shape))
			return i;
	return -1;
}

static bool may_leave(const struct loop *x, struct ht_value v, int depth)
{
	const struct ht_node *n = v.node;
	int32_t arg;

	if (!depth || n->outs != 1 || n->controls || !ht_shape_known(n->out[0].shape) ||
		n->out[0].shape.rank >= HT_MAX_RANK)
		return false;
	if (is_step(x, n))
		return true;
	arg = n->ins ? stepped_operand(x, n) : -1;
	return arg >= 0 && may_leave(x, n->in[arg], depth - 1);
}

/* The product nearest to `v`, which may leave; NULL: there is none. */
static const struct ht_node *product_behind(const struct loop *x, struct ht_value v)
{
	while (!is_step(x, v.node)) {
		if (is_product(x, v.node))
			return v.node;
		v = v.node->in[stepped_operand(x, v.node)];
	}
	return NULL;
}

/* A step reads `depth` rows of weights; products of all steps are written and read again instead. */
static bool pays(const struct ht_node *product)
{
	struct ht_shape w = ht_type_of(product->in[1])->shape, out = product->out[0].shape;
	int64_t columns = out.dim[out.rank - 1],
		rows = ht_shape_count(out) / (columns ? columns : 1);

	return columns && (rows < FEW_ROWS || ht_shape_count(w) / columns >= 2 * rows);
}

/* ---- in front of the loop ---- */

/* A tensor of all steps, of a shape of one. */
static struct ht_shape of_all_steps(struct loop *x, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK] = { x->steps };

	memcpy(dim + 1, s.dim, (size_t)s.rank * sizeof *dim);
	return ht_shape_make(x->outside.arena, s.rank + 1, dim);
}

/* Likewise, the steps' first dimensions being one: as products take their rows. */
static struct ht_shape of_all_rows(struct loop *x, struct ht_shape s)
{
	struct ht_shape all = ht_shape_make(x->outside.arena, s.rank, s.dim);

	((int64_t *)(uintptr_t)all.dim)[0] *= x->steps;
	return all;
}

static struct ht_value outside(struct loop *x, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);

	return t ? ht_rw_const(&x->outside, x->node, v.node->name, t->dtype, t->shape, t->blob)
		 : unchanged(x, v);
}

static struct ht_value same_op(struct loop *x, const struct ht_node *from,
	const struct ht_value *in, struct ht_shape shape)
{
	struct ht_node *n = ht_rw_node(&x->outside, x->node, from->op, from->name, in, from->ins,
		(struct ht_type){ from->out[0].dtype, shape });

	n->attrs = ht_attrs_copy(from->attrs, NULL, n->graph->arena);
	ht_node_add_origin(n, from);
	return ht_out(n, 0);
}

static struct ht_value reshape(
	struct loop *x, const struct ht_node *n, struct ht_value v, struct ht_shape to)
{
	return ht_rw_reshape(&x->outside, x->node, n->name, v, to);
}

/* `v` of all steps. */
static struct ht_value of_steps(struct loop *x, struct ht_value v)
{
	const struct ht_node *n = v.node;
	struct ht_shape all = of_all_steps(x, n->out[0].shape);
	struct ht_value in[2];
	int32_t arg;

	if (is_step(x, n))
		return unchanged(x, n->in[0]);
	arg = stepped_operand(x, n);
	in[arg] = of_steps(x, n->in[arg]);
	if (ht_is(n, HT_RESHAPES))
		return reshape(x, n, in[0], all);
	if (n->ins == 2)
		in[1 - arg] = outside(x, n->in[1 - arg]);
	if (!is_product(x, n))
		return same_op(x, n, in, all);
	in[0] = reshape(x, n, in[0], of_all_rows(x, ht_type_of(n->in[0])->shape));
	return reshape(x, n, same_op(x, n, in, of_all_rows(x, n->out[0].shape)), all);
}

/* ---- the loop ---- */

static struct ht_value add_to_function(
	struct ht_function *f, struct ht_port ***end, int32_t i, struct ht_type t)
{
	struct ht_value v = ht_function_add_arg(f, end, t.dtype, i);

	v.node->out[0].shape = ht_shape_make(f->body->arena, t.shape.rank, t.shape.dim);
	ht_node_move(v.node, f->body->first);
	return v;
}

/* Passes `v` to the loop, which keeps it; the argument of the body. */
static struct ht_value pass_to_loop(struct loop *x, struct ht_value v)
{
	struct ht_node *n = x->node;
	int32_t i = n->ins;
	struct ht_value *in = HT_NEW_ARRAY(x->outside.arena, struct ht_value, (size_t)i + 1), arg;
	enum ht_dtype *t = HT_NEW_ARRAY(x->outside.arena, enum ht_dtype, (size_t)i + 1);

	memcpy(in, n->in, (size_t)i * sizeof *in);
	in[i] = v;
	ht_rw_set_ins(&x->outside, n, in, i + 1);
	ht_node_set_outs(n, i + 1);
	n->out[i] = *ht_type_of(v);
	for (int32_t k = 0; k <= i; k++)
		t[k] = n->out[k].dtype;
	ht_attr_set_types(n, "T", t, i + 1);
	ht_attr_remove(n, "output_shapes");
	add_to_function(x->condition, &x->args_end[0], i, *ht_type_of(v));
	arg = add_to_function(x->body, &x->args_end[1], i, *ht_type_of(v));
	ht_function_add_ret(x->body, &x->rets_end, arg);
	return arg;
}

static struct ht_node *step_of(const struct loop *x, struct ht_value v)
{
	while (!is_step(x, v.node))
		v = v.node->in[stepped_operand(x, v.node)];
	return v.node;
}

static void leave(struct loop *x, struct ht_node *n)
{
	struct ht_node *step = step_of(x, ht_out(n, 0)), *gather;
	struct ht_value in[] = { pass_to_loop(x, of_steps(x, ht_out(n, 0))), step->in[1] };

	gather = ht_rw_node(&x->inside, n, HT_OP_Gather, n->name, in, 2, n->out[0]);
	ht_attr_set_type(gather, "Tparams", n->out[0].dtype);
	ht_rw_copy_attr(gather, step, "Tindices");
	ht_rw_take_place(&x->inside, n, ht_out(gather, 0));
	ht_rw_hit(&x->outside, HT_FUSION_recurrent_inputs);
}

static void visit(struct loop *x, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_recurrent_inputs;
	const struct ht_node *product;

	if (n->outs != 1 || !may_leave(x, ht_out(n, 0), MOST_DEPTH))
		return;
	product = product_behind(x, ht_out(n, 0));
	if (!product)
		return;
	if (pays(product))
		leave(x, n);
	else if (product == n)
		ht_rw_miss(&x->outside, id, 2, n,
			"has so many rows a step that its products are more than its weights");
}

static struct ht_port **end_of(struct ht_port **p)
{
	while (*p)
		p = &(*p)->next;
	return p;
}

/* From the last node on: what is behind a product leaves with it. */
static void look_into(struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_bodies b = ht_control_bodies(n);
	struct ht_pass_context within = *c;
	struct ht_entry entry;
	struct loop x = { .c = c, .node = n, .condition = b.of[0], .body = b.of[1] };
	struct ht_node **all;
	size_t count;

	if (!b.of[0] || !b.of[1] || !b.of[0]->special || !b.of[1]->special || n->ins != n->outs)
		return;
	x.steps = most_steps(&x, b.of[0]->rets->value, MOST_DEPTH);
	ht_rw_init(&x.outside, n->graph, c);
	if (x.steps < 2 || !ht_rw_on(&x.outside, HT_FUSION_recurrent_inputs))
		return;
	entry = (struct ht_entry){
		.inputs = x.body->args, .outputs = x.body->rets, .targets = x.body->control_rets
	};
	within.entry = &entry;
	ht_rw_init(&x.inside, x.body->body, &within);
	x.args_end[0] = end_of(&x.condition->args);
	x.args_end[1] = end_of(&x.body->args);
	x.rets_end = end_of(&x.body->rets);
	all = ht_rw_nodes(&x.inside, &count);
	while (count-- > 0)
		if (all[count]->graph)
			visit(&x, all[count]);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_LOOPS))
			look_into(n, c);
	return HT_OK;
}

const struct ht_pass ht_pass_recurrent = {
	.name = "recurrent",
	.summary = "makes products of what a loop reads step by step one product in front of it",
	.run = run,
};
