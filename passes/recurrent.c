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
#include "passes/recurrent.h"

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

int32_t ht_recurrent_stepped(const struct ht_counted_loop *x, const struct ht_node *n)
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
	arg = n->ins ? ht_recurrent_stepped(x, n) : -1;
	return arg >= 0 && may_leave(x, n->in[arg], depth - 1);
}

/* The product nearest to `v`, which may leave; NULL: there is none. */
static const struct ht_node *product_behind(const struct ht_counted_loop *x, struct ht_value v)
{
	while (!ht_counted_reads(x, v.node)) {
		if (is_product(x, v.node))
			return v.node;
		v = v.node->in[ht_recurrent_stepped(x, v.node)];
	}
	return NULL;
}

/* ---- nodes in front of the loop ---- */

/* What leaves a loop.  With an open number of rows, the rows of all steps would lie as far apart as the most rows do, and the product
 * would have few at a time.  The steps of each row lie side by side instead, if the first axis of a step is the rows' everywhere. */
struct leaving {
	struct ht_counted_loop *x;
	const struct ht_node *step; /* gathers the list's element */
	bool by_rows;               /* tensors are [rows, steps, ...], not [steps, rows, ...] */
};

static const struct ht_node *step_of(const struct ht_counted_loop *x, struct ht_value v)
{
	while (!ht_counted_reads(x, v.node))
		v = v.node->in[ht_recurrent_stepped(x, v.node)];
	return v.node;
}

/* The size and the indices for each of it, of axis `axis` of the list; 0 and 0: it is not open. */
static void end_of_list(const struct leaving *l, size_t axis, int64_t end[2])
{
	size_t count;
	const int64_t *ends =
		ht_attr_ints(l->step->in[0].node, "_ends", &count, l->x->outside.arena);

	end[0] = end[1] = 0;
	if (2 * axis + 1 < count)
		memcpy(end, ends + 2 * axis, 2 * sizeof *end);
}

/* Whether operand `i` of an elementwise node differs from row to row of the result. */
static bool has_rows(const struct ht_node *n, int32_t i)
{
	struct ht_shape s = ht_type_of(n->in[i])->shape;

	return s.rank == n->out[0].shape.rank && s.dim[0] != 1;
}

/* Whether the rows of the list's element are those of every tensor from it to `v`, and only they differ by row. */
static bool keeps_rows(const struct ht_counted_loop *x, struct ht_value v)
{
	const struct ht_node *n = v.node;
	struct ht_shape s = n->out[0].shape, of;
	int32_t arg;

	if (!s.rank || ht_counted_reads(x, n))
		return s.rank > 0;
	arg = ht_recurrent_stepped(x, n);
	of = ht_type_of(n->in[arg])->shape;
	if (n->ins == 2 && ht_is(n, HT_ELEMENTWISE) && has_rows(n, 1 - arg))
		return false;
	return of.rank && of.dim[0] == s.dim[0] && keeps_rows(x, n->in[arg]);
}

/* Bytes of the weights of all products of a step. */
static int64_t weights_of(const struct ht_counted_loop *x)
{
	int64_t bytes = 0;

	for (const struct ht_node *n = x->inside.g->first; n; n = n->next)
		if (is_product(x, n))
			bytes += ht_shape_count(ht_type_of(n->in[1])->shape) *
				 (int64_t)ht_dtype_info(ht_type_of(n->in[1])->dtype)->bytes;
	return bytes;
}

/* Whether `rows` rows are multiplied by a weight in twice the time in which it arrives from beyond the second level, so that the
 * processor reads ahead. */
static bool reads_ahead(const struct ht_target *t, enum ht_dtype weight, int64_t rows)
{
	const double a_cycle =
		ht_target_lanes(t) * ht_target_products(t, ht_target_multiplied(t, weight, false));

	return (double)rows / a_cycle >= 2 * (double)ht_dtype_info(weight)->bytes / t->rates->l3;
}

/* Whether a step does not wait for the weights of its products: they stay in the second level from one step to the next, or in a part of
 * the last cache from which they arrive in time. */
static bool weights_arrive(
	const struct ht_counted_loop *x, const struct ht_node *product, int64_t rows)
{
	const struct ht_target *t = x->outside.c->target;
	const int64_t bytes = t ? weights_of(x) : 0;

	return t &&
	       (bytes <= t->l2 || (bytes <= t->l3 / 4 &&
					  reads_ahead(t, ht_type_of(product->in[1])->dtype, rows)));
}

/* Whether the weights have more numbers than the products of a step, `rows` rows, which are written and read. */
static bool is_deep(const struct ht_node *product, int64_t rows)
{
	const struct ht_shape w = ht_type_of(product->in[1])->shape, out = product->out[0].shape;

	return ht_shape_count(w) / out.dim[out.rank - 1] >= 2 * rows;
}

/* Whether a product of many rows, `rows` at the most, is faster in front of the loop.  In the loop, a step reads the weights; in front of
 * it, the products of all steps are written and read again instead. */
static bool leaves_with_many(
	const struct ht_counted_loop *x, const struct ht_node *product, int64_t rows)
{
	return is_deep(product, rows) && !weights_arrive(x, product, rows);
}

/* The most rows of the product in a step; 0: it has no columns. */
static int64_t rows_of(const struct ht_node *product)
{
	const struct ht_shape out = product->out[0].shape;
	const int64_t columns = out.dim[out.rank - 1];

	return columns ? ht_shape_count(out) / columns : 0;
}

/* A step of few rows waits for its weights, in whatever cache they are.  Where the number of rows is open, a run may have few. */
static bool pays(struct ht_counted_loop *x, const struct ht_node *product)
{
	const struct leaving l = { .x = x, .step = step_of(x, product->in[0]) };
	const int64_t rows = rows_of(product);
	const enum ht_recurrent_rows of = ht_recurrent_rows_of(x->node);
	int64_t end[2];

	if (!rows || rows < FEW_ROWS || of == HT_RECURRENT_FEW)
		return rows > 0;
	end_of_list(&l, 1, end);
	return leaves_with_many(x, product, rows) ||
	       (end[0] && of != HT_RECURRENT_MANY && is_deep(product, rows));
}

static struct leaving leaving_of(struct ht_counted_loop *x, struct ht_value v)
{
	struct leaving l = { .x = x, .step = step_of(x, v) };
	int64_t end[2];

	end_of_list(&l, 1, end);
	l.by_rows =
		end[0] && ht_recurrent_rows_of(x->node) != HT_RECURRENT_MANY && keeps_rows(x, v);
	return l;
}

/* A tensor of all steps, of a shape of one. */
static struct ht_shape of_all_steps(const struct leaving *l, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK] = { l->x->steps };

	memcpy(dim + 1, s.dim, (size_t)s.rank * sizeof *dim);
	if (l->by_rows) {
		dim[0] = dim[1];
		dim[1] = l->x->steps;
	}
	return ht_shape_make(l->x->outside.arena, s.rank + 1, dim);
}

/* Likewise, the steps' first dimensions being one: as products take their rows. */
static struct ht_shape of_all_rows(const struct leaving *l, struct ht_shape s)
{
	struct ht_shape all = ht_shape_make(l->x->outside.arena, s.rank, s.dim);

	((int64_t *)(uintptr_t)all.dim)[0] *= l->x->steps;
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
	const struct leaving *l, const struct ht_node *n, struct ht_value v, struct ht_shape to)
{
	return ht_rw_reshape(&l->x->outside, l->x->node, n->name, v, to);
}

static struct ht_value whole_list(const struct leaving *l)
{
	struct ht_value list = ht_counted_kept(l->x, l->step->in[0]);
	int64_t perm[HT_MAX_RANK];

	for (int32_t i = 0; i < HT_MAX_RANK; i++)
		perm[i] = i < 2 ? 1 - i : i;
	return l->by_rows ? ht_rw_transpose(&l->x->outside, l->x->node, l->step->name, list, perm)
			  : list;
}

/* `v` of all steps. */
static struct ht_value of_steps(const struct leaving *l, struct ht_value v)
{
	const struct ht_node *n = v.node;
	struct ht_shape all = of_all_steps(l, n->out[0].shape);
	struct ht_value in[2];
	int32_t arg;

	if (n == l->step)
		return whole_list(l);
	arg = ht_recurrent_stepped(l->x, n);
	in[arg] = of_steps(l, n->in[arg]);
	if (ht_is(n, HT_RESHAPES))
		return reshape(l, n, in[0], all);
	if (n->ins == 2)
		in[1 - arg] = outside(l->x, n->in[1 - arg]);
	if (!is_product(l->x, n))
		return same_op(l->x, n, in, all);
	in[0] = reshape(l, n, in[0], of_all_rows(l, ht_type_of(n->in[0])->shape));
	return reshape(l, n, same_op(l->x, n, in, of_all_rows(l, n->out[0].shape)), all);
}

/* ---- the loop ---- */

/* Gives the loop what leaves it.  Its steps end where those of the list do, and so do its rows. */
static struct ht_value pass(const struct leaving *l, struct ht_value all, bool rows)
{
	int64_t end[2 * HT_MAX_RANK] = { 0 };
	const int32_t rank = ht_type_of(all)->shape.rank;

	end_of_list(l, 0, end + (l->by_rows ? 2 : 0));
	if (rows)
		end_of_list(l, 1, end + (l->by_rows ? 0 : 2));
	return ht_counted_pass_open(l->x, all, end, end[0] || end[2] ? 2 * (size_t)rank : 0).body;
}

/* Whether all that is done with `n` is to add it to a product of the step. */
static bool is_added(const struct ht_counted_loop *x, struct ht_node *n)
{
	const struct ht_node *sum = ht_rw_only_user(&x->inside, ht_out(n, 0));

	if (!sum || !ht_is(sum, HT_ADDS) || sum->ins != 2)
		return false;
	return ht_is(sum->in[sum->in[0].node == n].node, HT_MATRIX_PRODUCT | HT_CONV);
}

static void leave(struct ht_counted_loop *x, struct ht_node *n)
{
	struct leaving l = leaving_of(x, ht_out(n, 0));
	const bool rows = keeps_rows(x, ht_out(n, 0));
	struct ht_value all = pass(&l, of_steps(&l, ht_out(n, 0)), rows);
	struct ht_node *step = ht_counted_element(x, n, all, l.step, l.by_rows, n->out[0]);

	/* The kernel of the sum is that of the loop of many rows, which reads a product in this place, if the element is in memory. */
	if (ht_recurrent_rows_of(x->node) == HT_RECURRENT_FEW && is_added(x, n))
		ht_attr_set_bool(step, "_stored", true);
	ht_rw_take_place(&x->inside, n, ht_out(step, 0));
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
	if (pays(x, product))
		leave(x, n);
	else if (product == n)
		ht_rw_miss(&x->outside, id, 2, n,
			"has so many rows a step that its weights are read beside its products");
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
	if (ht_rw_on(&x.outside, HT_FUSION_recurrent_terms))
		ht_recurrent_terms(&x);
	if (ht_rw_on(&x.outside, HT_FUSION_recurrent_states))
		ht_recurrent_states(&x);
	if (ht_rw_on(&x.outside, HT_FUSION_recurrent_end))
		ht_recurrent_end(&x);
	if (ht_rw_on(&x.outside, HT_FUSION_recurrent_lists))
		ht_recurrent_lists(&x);
}

/* ---- few rows or many ---- */

/* Whether the product has few rows in some runs and many in others, with which it belongs in the loop. */
static bool turns(
	const struct leaving *l, const struct ht_node *product, struct ht_recurrent_turn *turn)
{
	const struct ht_open_size *size;
	const int64_t rows = rows_of(product);
	int64_t end[2];

	end_of_list(l, 1, end);
	if (!end[0] || !rows)
		return false;
	size = ht_size_at(l->x->node->graph, (int32_t)end[0]);
	turn->size = (int32_t)end[0];
	turn->from = (FEW_ROWS * size->most + rows - 1) / rows;
	return size->least < turn->from && turn->from <= size->most &&
	       !leaves_with_many(l->x, product, rows);
}

/* Whether copies of the loop do what it does. */
static bool is_pure(const struct ht_function *f)
{
	for (const struct ht_node *n = f->body->first; n; n = n->next)
		if ((ht_op_info(n->op)->effects && n->op != HT_OP__Sizes) || ht_computes_size(n) ||
			ht_is(n, HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE))
			return false;
	return true;
}

bool ht_recurrent_turns(
	struct ht_node *n, struct ht_pass_context *c, struct ht_recurrent_turn *turn)
{
	struct ht_counted_loop x;
	const struct ht_node *product;

	if (!ht_counted_init(&x, n, c) || ht_recurrent_rows_of(x.node) != HT_RECURRENT_ANY ||
		!is_pure(x.condition) || !is_pure(x.body))
		return false;
	for (struct ht_node *v = x.body->body->first; v; v = v->next) {
		if (v->outs != 1 || !may_leave(&x, ht_out(v, 0), MOST_DEPTH))
			continue;
		product = product_behind(&x, ht_out(v, 0));
		if (product &&
			turns(&(struct leaving){ .x = &x, .step = step_of(&x, product->in[0]) },
				product, turn))
			return true;
	}
	return false;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_ranges ranges;
	bool loops = false;

	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_LOOPS))
			ht_recurrent_tables(n, c);
	HT_TRY(ht_recurrent_divide(g, c));
	for (const struct ht_node *n = g->first; n && !loops; n = n->next)
		loops = ht_is(n, HT_LOOPS);
	if (loops)
		ht_ranges_find(&ranges, g, c->scratch, false);
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_LOOPS)) {
			ht_recurrent_sums(n, c, &ranges);
			look_into(n, c);
		}
	return HT_OK;
}

const struct ht_pass ht_pass_recurrent = {
	.name = "recurrent",
	.summary =
		"makes products of what a loop reads step by step one product in front of it, or rows of a table's product, those that it adds up one behind it, "
		"makes convolutions that a step adds to each other one, carries states in 16 bits that each step narrows, reads transposed lists where they were before, and ends loops whose last steps a mask excludes",
	.run = run,
};
