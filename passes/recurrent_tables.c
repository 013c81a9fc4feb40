/* recurrent: a product of what a loop gathers from a constant table becomes a row of the table's product.
 *
 *   MatMul(row of table, w) → row of MatMul(table, w)
 *
 * A layer behind an embedding multiplies the same rows again and again, in each step and each run.  The products of all rows of a small
 * table are computed once, when the program is made.  The loop then counts through the indices instead of the rows. */
#include "choice/impl.h"
#include "passes/counted_loop.h"
#include "passes/recurrent.h"

#include <string.h>

/* Of the products of a table: what a program may grow by, and what every machine's last cache holds beside other things. */
enum { MOST_BYTES = 4 << 20 };
/* What computing them takes. */
enum { MOST_PRODUCTS = 1 << 27 };
enum { MOST_DEPTH = 8 /* between the table and the product */ };

struct from_table {
	struct ht_counted_loop *x;
	struct ht_node *product, *step; /* the latter gathers the list's element */
	const struct ht_node *gather;   /* in front of the loop: rows of the table */
	const struct ht_tensor *table, *weights;
};

static int64_t last_of(struct ht_shape s)
{
	return s.rank > 0 ? s.dim[s.rank - 1] : -1;
}

/* ---- which products ---- */

static const struct ht_tensor *matrix(struct ht_value v)
{
	const struct ht_tensor *t = v.node ? ht_const_tensor(v) : NULL;

	return t && t->shape.rank == 2 && t->blob ? t : NULL;
}

/* Whether `n` rounds the product's rows to the type in which they are multiplied. */
static bool narrows(const struct from_table *t, const struct ht_node *n)
{
	return n->op == HT_OP_Cast && ht_type_of(n->in[0])->dtype == HT_F32 &&
	       n->out[0].dtype == ht_type_of(t->product->in[0])->dtype &&
	       !ht_attr_bool(n, "Truncate", false);
}

/* The node that gathers the list's element, of which `v` has the rows in their order; NULL: there is none. */
static struct ht_node *step_behind(const struct from_table *t, struct ht_value v)
{
	const int64_t depth = last_of(ht_type_of(v)->shape);

	for (int i = 0; i < MOST_DEPTH; i++, v = v.node->in[0]) {
		if (last_of(ht_type_of(v)->shape) != depth || v.node->controls)
			return NULL;
		if (ht_counted_reads(t->x, v.node))
			return v.node;
		if (!ht_is(v.node, HT_RESHAPES) && !narrows(t, v.node) &&
			!(ht_is(v.node, HT_FORWARDS) && v.node->ins == 1))
			return NULL;
	}
	return NULL;
}

static bool is_along(const struct ht_node *n, int32_t operand, int64_t axis)
{
	int64_t v;
	int count;

	return n->ins <= operand ||
	       (ht_const_small_ints(n->in[operand], &v, 1, &count) && count == 1 && v == axis);
}

static bool gathers_rows(const struct ht_node *n)
{
	return (n->op == HT_OP_Gather || n->op == HT_OP_GatherV2) && matrix(n->in[0]) &&
	       is_along(n, 2, 0) && !ht_attr_int(n, "batch_dims", 0) &&
	       !ht_attr_find(n, ht_mode_attribute); /* such as: indices out of range give zeros */
}

/* Whether `n` permutes the rows of its operand, along all axes but the last. */
static bool permutes_rows(const struct ht_node *n, int64_t *perm, int *count)
{
	return n->op == HT_OP_Transpose &&
	       ht_const_small_ints(n->in[1], perm, HT_MAX_RANK, count) && *count > 1 &&
	       perm[*count - 1] == *count - 1;
}

/* Whether `n` has each row of its operand at a place of its own, along all axes but the last. */
static bool moves_rows(const struct ht_node *n, bool open)
{
	int64_t v[HT_MAX_RANK];
	int count;

	if (n->controls || n->outs != 1 || !ht_shape_known(n->out[0].shape))
		return false;
	if (permutes_rows(n, v, &count) || (ht_is(n, HT_FORWARDS) && n->ins == 1))
		return true;
	return !open && ht_is(n, HT_RESHAPES) &&
	       last_of(ht_type_of(n->in[0])->shape) == last_of(n->out[0].shape);
}

static const struct ht_node *gather_behind(const struct from_table *t, struct ht_value list)
{
	const struct ht_graph *g = t->x->outside.g;
	const bool open = (g->library ? g->library->sizes : g->sizes) > 0;

	for (int i = 0; i < MOST_DEPTH; i++, list = list.node->in[0]) {
		if (gathers_rows(list.node) && !list.node->controls)
			return list.node;
		if (!moves_rows(list.node, open))
			return NULL;
	}
	return NULL;
}

static bool is_matmul(struct ht_value v)
{
	while (ht_is(v.node, HT_RESHAPES))
		v = v.node->in[0];
	return v.node->op == HT_OP_MatMul;
}

/* Whether the result is only added to another product.  In 16 bits one of the two is rounded in any case, since the kernel of the other one adds
 * it.  The sum of a product with other nodes behind it, which is rounded after these (lower/round.c), would be rounded once more. */
static bool is_added(const struct ht_counted_loop *x, struct ht_node *n)
{
	const struct ht_node *sum = ht_rw_only_user(&x->inside, ht_out(n, 0));

	return sum && (ht_is(sum, HT_ADDS) || sum->op == HT_OP_BiasAdd) && sum->ins == 2 &&
	       is_matmul(sum->in[0]) && is_matmul(sum->in[1]);
}

static bool is_product(const struct ht_counted_loop *x, struct ht_node *n)
{
	return n->op == HT_OP_MatMul && n->outs == 1 && !n->controls &&
	       !ht_attr_bool(n, "transpose_a", false) && ht_shape_known(n->out[0].shape) &&
	       (n->out[0].dtype == HT_F32 || (ht_is_low(n->out[0].dtype) && is_added(x, n)));
}

static bool find(struct from_table *t)
{
	if (!is_product(t->x, t->product))
		return false;
	t->weights = matrix(ht_counted_kept(t->x, t->product->in[1]));
	t->step = t->weights ? step_behind(t, t->product->in[0]) : NULL;
	t->gather = t->step ? gather_behind(t, ht_counted_kept(t->x, t->step->in[0])) : NULL;
	t->table = t->gather ? matrix(t->gather->in[0]) : NULL;
	if (!t->table || ht_shape_count(ht_type_of(t->gather->in[1])->shape) <= 0)
		return false;
	return t->weights->dtype == t->product->out[0].dtype &&
	       (t->table->dtype == HT_F32 || t->table->dtype == t->weights->dtype);
}

static bool is_small(const struct from_table *t)
{
	const int64_t rows = t->table->shape.dim[0],
		      numbers = rows * last_of(t->product->out[0].shape);

	return numbers <= MOST_BYTES / (int64_t)ht_dtype_info(t->weights->dtype)->bytes &&
	       numbers * t->table->shape.dim[1] <= MOST_PRODUCTS;
}

/* ---- the table's product ---- */

/* The constant that `n` computes, in its place; node NULL: it cannot be computed. */
static struct ht_value computed(const struct from_table *t, struct ht_node *n)
{
	struct ht_rw *r = &t->x->inside;
	struct ht_value v = { 0 };
	struct ht_tensor *out;

	if (ht_evaluate(n, r->arena, &out) == HT_OK)
		v = ht_rw_const(r, n, n->name, n->out[0].dtype, n->out[0].shape, out[0].blob);
	ht_rw_drop(r, n);
	return v;
}

/* The table in the type of the product, a constant of the body; node NULL: it cannot be computed. */
static struct ht_value table_of_product(const struct from_table *t)
{
	struct ht_rw *r = &t->x->inside;
	const enum ht_dtype to = t->weights->dtype;
	const struct ht_str name = t->gather->in[0].node->name;
	struct ht_value v =
		ht_rw_const(r, t->product, name, t->table->dtype, t->table->shape, t->table->blob);

	if (t->table->dtype == to)
		return v;
	return computed(t, ht_rw_cast(r, t->product, name, v, to).node);
}

/* A constant of the body; node NULL: it cannot be computed. */
static struct ht_value product_of_table(const struct from_table *t)
{
	struct ht_rw *r = &t->x->inside;
	struct ht_node *at = t->product, *n;
	const int64_t dim[] = { t->table->shape.dim[0], last_of(at->out[0].shape) };
	struct ht_value in[2] = { table_of_product(t) };

	if (!in[0].node)
		return in[0];
	in[1] = ht_rw_const(r, at, at->in[1].node->name, t->weights->dtype, t->weights->shape,
		t->weights->blob);
	n = ht_rw_node(r, at, at->op, at->name, in, 2,
		(struct ht_type){ t->weights->dtype, ht_shape_make(r->g->arena, 2, dim) });
	n->attrs = ht_attrs_copy(at->attrs, NULL, n->graph->arena);
	return computed(t, n);
}

/* ---- the indices ---- */

/* All but the last axis. */
static struct ht_shape rows_of(const struct from_table *t, struct ht_value v)
{
	const struct ht_shape s = ht_type_of(v)->shape;

	return ht_shape_make(t->x->outside.arena, s.rank - 1, s.dim);
}

/* The indices of the rows of `v`, in front of the loop. */
static struct ht_value indices_of(const struct from_table *t, struct ht_value v)
{
	struct ht_rw *r = &t->x->outside;
	const struct ht_node *n = v.node;
	struct ht_value of;
	int64_t perm[HT_MAX_RANK];
	int count;

	if (n == t->gather)
		return n->in[1];
	of = indices_of(t, n->in[0]);
	if (permutes_rows(n, perm, &count))
		return ht_rw_transpose(r, t->x->node, n->name, of, perm);
	return ht_is(n, HT_RESHAPES) ? ht_rw_reshape(r, t->x->node, n->name, of, rows_of(t, v))
				     : of;
}

/* Gives the loop the indices, which end where the rows do. */
static struct ht_value pass_indices(const struct from_table *t, const int64_t *ends, size_t count)
{
	const struct ht_value v = indices_of(t, ht_counted_kept(t->x, t->step->in[0]));
	const size_t own = 2 * (size_t)ht_type_of(v)->shape.rank;

	return ht_counted_pass_open(t->x, v, ends, own < count ? own : 0).body;
}

/* Tells the kernel of gather `n` which of its indices are outside of the run's sizes: it follows none of them. */
static void tell_outside(struct ht_node *n, const int64_t *ends, size_t count)
{
	int64_t within[3 * HT_MAX_RANK];
	size_t told = 0;

	/* The list's first axis has the steps, its last one the columns. */
	for (size_t i = 1; 2 * (i + 1) < count && i < HT_MAX_RANK; i++)
		if (ends[2 * i]) {
			within[told++] = (int64_t)i - 1;
			within[told++] = ends[2 * i];
			within[told++] = ends[2 * i + 1];
		}
	if (told)
		ht_attr_set_ints(n, "_within", within, told);
}

/* The step's rows of the table's product. */
static struct ht_value rows_of_step(const struct from_table *t, struct ht_value all)
{
	struct ht_rw *r = &t->x->inside;
	const struct ht_shape rows = rows_of(t, ht_out(t->step, 0));
	int64_t dim[HT_MAX_RANK];
	size_t count;
	const int64_t *ends = ht_attr_ints(t->step->in[0].node, "_ends", &count, r->arena);
	struct ht_value v;

	memcpy(dim, rows.dim, (size_t)rows.rank * sizeof *dim);
	dim[rows.rank] = last_of(ht_type_of(all)->shape);
	v = pass_indices(t, ends, ends ? count : 0);
	v = ht_out(ht_counted_element(t->x, t->product, v, t->step, 0,
			   (struct ht_type){ ht_type_of(v)->dtype, rows }),
		0);
	v = ht_out(ht_rw_node(r, t->product, HT_OP_Gather, t->product->name,
			   (struct ht_value[]){ all, v }, 2,
			   (struct ht_type){
				   ht_type_of(all)->dtype, { .rank = rows.rank + 1, .dim = dim } }),
		0);
	tell_outside(v.node, ends, ends ? count : 0);
	return ht_rw_reshape(r, t->product, t->product->name, v, t->product->out[0].shape);
}

/* Whether `n` became rows of a product. */
static bool visit(struct ht_counted_loop *x, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_recurrent_tables;
	struct from_table t = { .x = x, .product = n };
	struct ht_value all;

	if (!find(&t))
		return false;
	if (!is_small(&t)) {
		ht_rw_miss(&x->outside, id, 1, n, "has a table with larger products than 4 MiB");
		return false;
	}
	all = product_of_table(&t);
	if (!all.node)
		return false;
	ht_rw_replace_node(&x->inside, n, rows_of_step(&t, all));
	ht_rw_hit(&x->outside, id);
	return true;
}

void ht_recurrent_tables(struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_counted_loop x;
	struct ht_node **all;
	size_t count;
	bool any = false;

	if (!ht_counted_init(&x, n, c) || !ht_rw_on(&x.outside, HT_FUSION_recurrent_tables))
		return;
	all = ht_rw_nodes(&x.inside, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			any = visit(&x, all[i]) || any;
	if (any) /* The loop need not be given the rows any more. */
		ht_settle_arguments(n, c);
}
