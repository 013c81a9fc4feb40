/* recurrent: products of rows that a loop reads step by step become one product in front of the
 * loop.
 *
 * The loop of a recurrent layer gathers a row of its sequence by a counter and multiplies it by
 * constant weights.  These products do not depend on other steps, so one product of all rows
 * gives the same results and reads the weights once.  The loop then gathers a row of the
 * products.  Casts, reshapes, biases and other elementwise ops around the product move with it.
 *
 * The loop must count from a constant to the number of rows, one by one: so each row is read once at most. */
#include "passes/counted_loop.h"

#include <string.h>

enum {
	MOST_DEPTH = 16, /* of the expression that moves in front of the loop */
	FEW_ROWS = 8     /* the time of a product with fewer rows is that of reading its weights */
};

/* ---- what can be in front of the loop ---- */

static bool is_product(const struct ht_counted_loop *x, const struct ht_node *n)
{
	bool rows = n->op == HT_OP_MatMul && !ht_attr_bool(n, "transpose_a", false);
	bool image =
		n->op == HT_OP_Conv2D && ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");

	return (rows || image) && ht_counted_keeps(x, n->in[1]);
}

/* The operand that is computed step by step, where `n` does so with its elements in their places; -1: it does not. */
static int32_t stepped_operand(const struct ht_counted_loop *x, const struct ht_node *n)
{
	bool bias = n->op == HT_OP_BiasAdd && ht_counted_keeps(x, n->in[1]) &&
		    ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");

	if (bias || is_product(x, n) || ht_is(n, HT_RESHAPES) ||
		(n->ins == 1 && ht_is(n, HT_ELEMENTWISE | HT_FORWARDS)))
		return 0;
	if (n->ins != 2 || !ht_is(n, HT_ELEMENTWISE))
		return -1;
	for (int32_t i = 0; i < 2; i++)
		if (ht_counted_keeps(x, n->in[1 - i]) &&
			ht_type_of(n->in[1 - i])->shape.rank <= n->out[0].shape.rank &&
			ht_shape_eq(ht_type_of(n->in[i])->shape, n->out[0].shape))
			return i;
	return -1;
}

static bool may_leave(const struct ht_counted_loop *x, struct ht_value v, int depth)
{
	const struct ht_node *n = v.node;
	int32_t arg;

	if (!depth || n->outs != 1 || n->controls || !ht_shape_known(n->out[0].shape) ||
		n->out[0].shape.rank >= HT_MAX_RANK)
		return false;
	if (ht_counted_reads(x, n))
		return true;
	arg = n->ins ? stepped_operand(x, n) : -1;
	return arg >= 0 && may_leave(x, n->in[arg], depth - 1);
}

/* The product nearest to `v`, which may leave; NULL: there is none. */
static const struct ht_node *product_behind(const struct ht_counted_loop *x, struct ht_value v)
{
	while (!ht_counted_reads(x, v.node)) {
		if (is_product(x, v.node))
			return v.node;
		v = v.node->in[stepped_operand(x, v.node)];
	}
	return NULL;
}

/* In the loop, a step reads `depth` rows of weights; in front of it, the products of all steps
 * are written and read again instead. */
static bool pays(const struct ht_node *product)
{
	struct ht_shape w = ht_type_of(product->in[1])->shape, out = product->out[0].shape;
	int64_t columns = out.dim[out.rank - 1],
		rows = ht_shape_count(out) / (columns ? columns : 1);

	return columns && (rows < FEW_ROWS || ht_shape_count(w) / columns >= 2 * rows);
}

/* ---- nodes in front of the loop ---- */

/* A tensor of all steps, of a shape of one. */
static struct ht_shape of_all_steps(struct ht_counted_loop *x, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK] = { x->steps };

	memcpy(dim + 1, s.dim, (size_t)s.rank * sizeof *dim);
	return ht_shape_make(x->outside.arena, s.rank + 1, dim);
}

/* Likewise, the steps' first dimensions being one: as products take their rows. */
static struct ht_shape of_all_rows(struct ht_counted_loop *x, struct ht_shape s)
{
	struct ht_shape all = ht_shape_make(x->outside.arena, s.rank, s.dim);

	((int64_t *)(uintptr_t)all.dim)[0] *= x->steps;
	return all;
}

static struct ht_value outside(struct ht_counted_loop *x, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);

	return t ? ht_rw_const(&x->outside, x->node, v.node->name, t->dtype, t->shape, t->blob)
		 : ht_counted_kept(x, v);
}

static struct ht_value same_op(struct ht_counted_loop *x, const struct ht_node *from,
	const struct ht_value *in, struct ht_shape shape)
{
	struct ht_node *n = ht_rw_node(&x->outside, x->node, from->op, from->name, in, from->ins,
		(struct ht_type){ from->out[0].dtype, shape });

	n->attrs = ht_attrs_copy(from->attrs, NULL, n->graph->arena);
	ht_node_add_origin(n, from);
	return ht_out(n, 0);
}

static struct ht_value reshape(
	struct ht_counted_loop *x, const struct ht_node *n, struct ht_value v, struct ht_shape to)
{
	return ht_rw_reshape(&x->outside, x->node, n->name, v, to);
}

/* `v` of all steps. */
static struct ht_value of_steps(struct ht_counted_loop *x, struct ht_value v)
{
	const struct ht_node *n = v.node;
	struct ht_shape all = of_all_steps(x, n->out[0].shape);
	struct ht_value in[2];
	int32_t arg;

	if (ht_counted_reads(x, n))
		return ht_counted_kept(x, n->in[0]);
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

static struct ht_node *step_of(const struct ht_counted_loop *x, struct ht_value v)
{
	while (!ht_counted_reads(x, v.node))
		v = v.node->in[stepped_operand(x, v.node)];
	return v.node;
}

static void leave(struct ht_counted_loop *x, struct ht_node *n)
{
	struct ht_node *step = step_of(x, ht_out(n, 0)), *gather;
	struct ht_value in[] = { ht_counted_pass(x, of_steps(x, ht_out(n, 0))).body, step->in[1] };

	gather = ht_rw_node(&x->inside, n, HT_OP_Gather, n->name, in, 2, n->out[0]);
	ht_attr_set_type(gather, "Tparams", n->out[0].dtype);
	ht_rw_copy_attr(gather, step, "Tindices");
	ht_rw_take_place(&x->inside, n, ht_out(gather, 0));
	ht_rw_hit(&x->outside, HT_FUSION_recurrent_inputs);
}

static void visit(struct ht_counted_loop *x, struct ht_node *n)
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

/* From the last node on: what is behind a product leaves with it. */
static void look_into(struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_counted_loop x;
	struct ht_node **all;
	size_t count;

	if (!ht_counted_init(&x, n, c))
		return;
	all = ht_rw_nodes(&x.inside, &count);
	while (count-- > 0 && ht_rw_on(&x.outside, HT_FUSION_recurrent_inputs))
		if (all[count]->graph)
			visit(&x, all[count]);
	if (ht_rw_on(&x.outside, HT_FUSION_recurrent_end))
		ht_recurrent_end(&x);
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
	.summary =
		"makes products of what a loop reads step by step one product in front of it, and ends loops whose last steps a "
		"mask excludes",
	.run = run,
};
