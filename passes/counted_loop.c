/* Loops that count: what each iteration has alike, what it reads of a list, and how many there are at most. */
#include "passes/counted_loop.h"
#include "choice/impl.h"

#include <string.h>

enum { MOST_DEPTH = 16 /* of a condition */ };

/* ---- arguments ---- */

int32_t ht_counted_argument(const struct ht_function *f, struct ht_value v)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++)
		if (ht_value_eq(p->value, v))
			return i;
	return -1;
}

struct ht_value ht_counted_result(const struct ht_function *f, int32_t i)
{
	return ht_port_at(f->rets, i)->value;
}

struct ht_value ht_counted_kept(const struct ht_counted_loop *x, struct ht_value v)
{
	int32_t i = ht_counted_argument(x->body, v);

	if (ht_is_const(v))
		return v;
	return i >= 0 && ht_value_eq(ht_counted_result(x->body, i), v) ? x->node->in[i]
								       : (struct ht_value){ 0 };
}

bool ht_counted_keeps(const struct ht_counted_loop *x, struct ht_value v)
{
	return ht_counted_kept(x, v).node != NULL;
}

/* ---- loops that count ---- */

static bool is_one(struct ht_value v)
{
	int64_t n;
	int count;

	return ht_type_of(v)->shape.rank == 0 && ht_const_small_ints(v, &n, 1, &count) && n == 1;
}

bool ht_counted_counts(const struct ht_counted_loop *x, int32_t i, int64_t *from)
{
	struct ht_value next, arg;
	int count;
	const struct ht_port *p = x->body->args;

	if (i < 0 || !ht_const_small_ints(x->node->in[i], from, 1, &count) || count != 1)
		return false;
	for (int32_t k = i; k > 0; k--)
		p = p->next;
	arg = p->value;
	next = ht_counted_result(x->body, i);
	if (!ht_is(next.node, HT_ADDS) || next.node->ins != 2)
		return false;
	for (int k = 0; k < 2; k++)
		if (ht_value_eq(next.node->in[k], arg) && is_one(next.node->in[1 - k]))
			return true;
	return false;
}

/* The value of the scalar where the sizes of the run are the largest; -1: it is no product of sizes. */
static int64_t most_of_sizes(const struct ht_node *n)
{
	int64_t of[1 + HT_DIM_SIZES];

	if (n->op != HT_OP__Sizes || n->out[0].shape.rank || !ht_stated_product(n, 0, of))
		return -1;
	for (size_t i = 1; i < HT_COUNT(of); i++)
		if (of[i] && __builtin_mul_overflow(
				     of[0], ht_size_at(n->graph, (int32_t)of[i])->most, &of[0]))
			return -1;
	return of[0];
}

/* The most that the bound of a counter may be; -1: that is not known. */
static int64_t most_of(struct ht_value v)
{
	int64_t n;
	int count;

	return ht_const_small_ints(v, &n, 1, &count) && count == 1 ? n : most_of_sizes(v.node);
}

/* The most steps that condition `v` lets the loop do; -1: it does not say. */
static int64_t most_steps(const struct ht_counted_loop *x, struct ht_value v, int depth)
{
	const struct ht_node *n = v.node;
	int64_t from, to, a, b;

	if (ht_is(n, HT_FORWARDS) && n->ins == 1 && depth)
		return most_steps(x, n->in[0], depth - 1);
	if (n->op == HT_OP_LogicalAnd && depth) {
		a = most_steps(x, n->in[0], depth - 1);
		b = most_steps(x, n->in[1], depth - 1);
		return a < 0 || (b >= 0 && b < a) ? b : a;
	}
	if (n->op != HT_OP_Less ||
		!ht_counted_counts(x, ht_counted_argument(x->condition, n->in[0]), &from))
		return -1;
	to = most_of(n->in[1]);
	return to < from ? -1 : to - from;
}

/* ---- lists ---- */

bool ht_counted_reads(const struct ht_counted_loop *x, const struct ht_node *n)
{
	struct ht_value list =
		n->op == HT_OP_Gather ? ht_counted_kept(x, n->in[0]) : (struct ht_value){ 0 };
	int64_t from;

	if (!list.node || ht_type_of(n->in[1])->shape.rank != 0 ||
		!ht_shape_known(ht_type_of(list)->shape))
		return false;
	return ht_type_of(list)->shape.dim[0] == x->steps && !ht_attr_find(n, ht_mode_attribute) &&
	       ht_counted_counts(x, ht_counted_argument(x->body, n->in[1]), &from) && from == 0;
}

static void copy_sizes(struct ht_node *to, const struct ht_node *read, int32_t axis)
{
	int64_t open[2 * HT_MAX_RANK] = { 0 };
	size_t count;
	const int64_t *from = ht_attr_ints(read, "_open", &count, to->graph->arena);

	if (from && count >= 2) {
		memcpy(open + 2 * axis, from, 2 * sizeof *open);
		ht_attr_set_ints(to, "_open", open, 2 * ((size_t)axis + 1));
	}
	ht_rw_copy_attr(to, read, "_within");
}

struct ht_node *ht_counted_element(struct ht_counted_loop *x, struct ht_node *before,
	struct ht_value list, const struct ht_node *read, int32_t axis, struct ht_type type)
{
	struct ht_value in[] = { list, read->in[1], { 0 } };
	struct ht_node *gather;

	if (axis)
		in[2] = ht_rw_scalar(&x->inside, before, before->name, HT_I32, axis);
	gather = ht_rw_node(&x->inside, before, axis ? HT_OP_GatherV2 : HT_OP_Gather, before->name,
		in, axis ? 3 : 2, type);
	copy_sizes(gather, read, axis);
	return gather;
}

/* ---- the loop ---- */

/* Results of a loop end where its attribute _ends says, which has as many numbers for each: those of the last one follow. */
static void add_ends(struct ht_node *n, const int64_t *ends, size_t count)
{
	size_t had;
	int64_t *old = ht_attr_ints(n, "_ends", &had, n->graph->arena), *all;
	const size_t each = old ? had / (size_t)(n->outs - 1) : 0;

	if (!old)
		return;
	all = HT_NEW_ARRAY(n->graph->arena, int64_t, had + each);
	memcpy(all, old, had * sizeof *all);
	for (size_t i = 0; i < count && i < each; i++)
		all[had + i] = ends[i];
	ht_attr_set_ints(n, "_ends", all, had + each);
}

static struct ht_value add_to_function(struct ht_function *f, struct ht_port ***end, int32_t i,
	struct ht_type t, const int64_t *ends, size_t count)
{
	struct ht_value v = ht_function_add_arg(f, end, t.dtype, i);

	v.node->out[0].shape = ht_shape_make(f->body->arena, t.shape.rank, t.shape.dim);
	if (count)
		ht_attr_set_ints(v.node, "_ends", ends, count);
	ht_node_move(v.node, f->body->first);
	return v;
}

struct ht_counted_arg ht_counted_pass(struct ht_counted_loop *x, struct ht_value v)
{
	return ht_counted_pass_open(x, v, NULL, 0);
}

struct ht_counted_arg ht_counted_pass_open(
	struct ht_counted_loop *x, struct ht_value v, const int64_t *ends, size_t count)
{
	struct ht_node *n = x->node;
	int32_t i = n->ins;
	struct ht_value *in = HT_NEW_ARRAY(x->outside.arena, struct ht_value, (size_t)i + 1);
	struct ht_counted_arg arg;
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
	add_ends(n, ends, count);
	arg.condition =
		add_to_function(x->condition, &x->args_end[0], i, *ht_type_of(v), ends, count);
	arg.body = add_to_function(x->body, &x->args_end[1], i, *ht_type_of(v), ends, count);
	ht_function_add_ret(x->body, &x->rets_end, arg.body);
	return arg;
}

static struct ht_port **end_of(struct ht_port **p)
{
	while (*p)
		p = &(*p)->next;
	return p;
}

bool ht_counted_init(struct ht_counted_loop *x, struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_bodies b = ht_control_bodies(n);

	*x = (struct ht_counted_loop){ .c = c, .node = n, .condition = b.of[0], .body = b.of[1] };
	if (!b.of[0] || !b.of[1] || !b.of[0]->special || !b.of[1]->special || n->ins != n->outs)
		return false;
	x->steps = most_steps(x, b.of[0]->rets->value, MOST_DEPTH);
	if (x->steps < 2)
		return false;
	ht_rw_init(&x->outside, n->graph, c);
	ht_rw_init_within(&x->asking, &x->within[0], x->condition->body, c);
	ht_rw_init_within(&x->inside, &x->within[1], x->body->body, c);
	x->args_end[0] = end_of(&x->condition->args);
	x->args_end[1] = end_of(&x->body->args);
	x->rets_end = end_of(&x->body->rets);
	return true;
}
