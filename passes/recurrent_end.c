/* recurrent: a loop whose last steps a mask excludes ends before them.
 *
 * A layer with a mask, or with the lengths of its sequences, computes every step and then keeps the state of each row that the mask
 * excludes.  A batch is padded to its longest sequence at least, and often to the longest that there can be.  Behind the last step that
 * counts for some row all steps keep all that the loop carries, so the loop may end there with the same results. */
#include "passes/counted_loop.h"

enum { MOST_DEPTH = 8 /* between an element of the mask and a selection */ };
/* The sum of a loop's end takes about as long as a step, and a constant of so many numbers. */
enum { MOST_STEPS = 1 << 16 };

struct masked {
	struct ht_counted_loop *x;
	struct ht_value list,
		counter; /* the mask of all steps, and what chooses its element: arguments of the body */
};

/* ---- what a step that the mask excludes keeps ---- */

/* The node that gathers the mask's element of the step, where `v` is all false if that is; NULL: it need not be. */
static const struct ht_node *element_behind(
	const struct ht_counted_loop *x, struct ht_value v, int depth)
{
	const struct ht_node *n = v.node, *found = NULL;

	if (ht_type_of(v)->dtype != HT_BOOL || !depth)
		return NULL;
	if (ht_counted_reads(x, n))
		return n;
	if (ht_is(n, HT_RESHAPES) || (ht_is(n, HT_FORWARDS) && n->ins == 1) ||
		n->op == HT_OP_BroadcastTo || n->op == HT_OP_Tile)
		return element_behind(x, n->in[0], depth - 1);
	for (int i = 0; n->op == HT_OP_LogicalAnd && i < 2 && !found; i++)
		found = element_behind(x, n->in[i], depth - 1);
	return found;
}

static struct ht_value argument(const struct ht_function *f, int32_t i)
{
	return ht_port_at(f->args, i)->value;
}

/* The mask by whose element result i is a new value or the argument; NULL: it is not so. */
static const struct ht_node *element_of(const struct ht_counted_loop *x, int32_t i)
{
	struct ht_value r = ht_counted_result(x->body, i);
	bool selects = r.node->op == HT_OP_SelectV2 || r.node->op == HT_OP_Select;

	return selects && ht_value_eq(r.node->in[2], argument(x->body, i))
		       ? element_behind(x, r.node->in[0], MOST_DEPTH)
		       : NULL;
}

static bool is_selected(const struct masked *m, int32_t i)
{
	const struct ht_node *n = element_of(m->x, i);

	return n && ht_value_eq(n->in[0], m->list) && ht_value_eq(n->in[1], m->counter);
}

/* Whether `v` is, but for its shape and its type, a result that the step keeps. */
static bool is_kept_result(const struct masked *m, struct ht_value v)
{
	while (ht_is(v.node, HT_RESHAPES | HT_CASTS) && v.node->ins)
		v = v.node->in[0];
	for (int32_t i = 0; i < m->x->node->outs; i++)
		if (ht_value_eq(ht_counted_result(m->x->body, i), v) && is_selected(m, i))
			return true;
	return false;
}

/* A list of which the same elements are set to the same values again: by a result, as the step before has set it. */
static bool is_set_again(const struct masked *m, int32_t i)
{
	const struct ht_node *n = ht_counted_result(m->x->body, i).node;

	return n->op == HT_OP_TensorScatterUpdate &&
	       ht_value_eq(n->in[0], argument(m->x->body, i)) && ht_counted_keeps(m->x, n->in[1]) &&
	       is_kept_result(m, n->in[2]);
}

/* A number of steps that nobody asks for. */
static bool is_idle_counter(const struct masked *m, int32_t i)
{
	int64_t from;

	return ht_counted_counts(m->x, i, &from) &&
	       !ht_rw_uses(&m->x->outside, ht_out(m->x->node, i));
}

static bool keeps_all(const struct masked *m)
{
	for (int32_t i = 0; i < m->x->node->outs; i++)
		if (!ht_counted_keeps(m->x, ht_counted_result(m->x->body, i)) &&
			!is_selected(m, i) && !is_set_again(m, i) && !is_idle_counter(m, i))
			return false;
	return true;
}

/* ---- whether steps may be left out ---- */

static bool has_effects(const struct ht_function *f)
{
	for (const struct ht_node *n = f->body->first; n; n = n->next)
		if (ht_op_info(n->op)->effects || ht_is(n, HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE))
			return true;
	return false;
}

static bool is_scalar(struct ht_value v, enum ht_dtype t)
{
	return ht_type_of(v)->dtype == t && ht_type_of(v)->shape.rank == 0;
}

/* Whether the condition asks for the mask's end already. */
static bool has_end(const struct ht_counted_loop *x)
{
	const struct ht_node *n = x->condition->rets->value.node;

	return n->op == HT_OP_LogicalAnd && n->in[1].node->op == HT_OP_Less &&
	       ht_counted_argument(x->condition, n->in[1].node->in[1]) >= 0;
}

static bool find_mask(struct masked *m)
{
	for (int32_t i = 0; i < m->x->node->outs; i++) {
		const struct ht_node *n = element_of(m->x, i);

		if (!n)
			continue;
		m->list = n->in[0];
		m->counter = n->in[1];
		return true;
	}
	return false;
}

/* ---- the end ---- */

/* The mask, false for rows of an open size that the run does not have: what is there is not defined, and would lengthen the loop.  Where
 * the run computes a size, kernels that take it would have to wait. */
static struct ht_value within_sizes(struct masked *m, struct ht_value all)
{
	struct ht_rw *r = &m->x->outside;
	const struct ht_graph *g = r->g->library;
	size_t count;
	int64_t *ends = ht_attr_ints(m->list.node, "_ends", &count, r->arena);

	for (size_t i = 0; ends && 2 * i < count; i++) {
		int64_t size = ends[2 * i];

		if (!size || g->size[size - 1].by.n)
			continue;
		all = ht_rw_unary(r, m->x->node, HT_OP__Within, m->x->node->name, all);
		ht_attr_set_int(all.node, "size", size);
		ht_attr_set_int(all.node, "axis", (int64_t)i);
		ht_attr_set_int(all.node, "inner", ends[2 * i + 1]);
		ht_attr_set_str(all.node, "fill", HT_STR("zero"));
	}
	return all;
}

/* The number of steps up to the last that counts for some row, and 1 at least: the first step sets what later ones keep. */
static struct ht_value end_of(struct masked *m)
{
	struct ht_rw *r = &m->x->outside;
	struct ht_node *n = m->x->node;
	struct ht_value all = within_sizes(m, ht_counted_kept(m->x, m->list)), steps, number;
	const enum ht_dtype t = ht_type_of(m->counter)->dtype;
	int64_t axis[HT_MAX_RANK], *step = HT_NEW_ARRAY(r->arena, int64_t, (size_t)m->x->steps);

	for (int32_t i = 0; i < HT_MAX_RANK; i++)
		axis[i] = i + 1;
	for (int64_t i = 0; i < m->x->steps; i++)
		step[i] = i + 1;
	if (ht_type_of(all)->shape.rank > 1)
		all = ht_rw_reduce(r, n, HT_OP_Any, n->name, all, axis,
			ht_type_of(all)->shape.rank - 1, false);
	/* In statements of their own: the order of arguments, and so of nodes, is the compiler's. */
	steps = ht_rw_const_ints(r, n, n->name, t, step, m->x->steps);
	number = ht_rw_binary(r, n, HT_OP_Mul, n->name, ht_rw_cast(r, n, n->name, all, t), steps);
	axis[0] = 0;
	number = ht_rw_reduce(r, n, HT_OP_Max, n->name, number, axis, 1, false);
	return ht_rw_binary(
		r, n, HT_OP_Maximum, n->name, number, ht_rw_scalar(r, n, n->name, t, 1));
}

/* The condition becomes: as before, and the counter is less than `end`. */
static void add_condition(struct masked *m, struct ht_value end)
{
	struct ht_counted_loop *x = m->x;
	struct ht_rw *r = &x->asking;
	struct ht_value before = x->condition->rets->value;
	const struct ht_type type = *ht_type_of(before);
	struct ht_value less[] = { argument(x->condition, ht_counted_argument(x->body, m->counter)),
		end };
	struct ht_node *n =
		ht_rw_node(r, before.node, HT_OP_Less, before.node->name, less, 2, type);
	struct ht_value both[] = { before, ht_out(n, 0) };

	n = ht_rw_node(r, before.node, HT_OP_LogicalAnd, before.node->name, both, 2, type);
	ht_node_move(n, before.node->next);
	ht_rw_replace_behind(r, before, ht_out(n, 0));
}

void ht_recurrent_end(struct ht_counted_loop *x)
{
	struct masked m = { .x = x };

	if (x->steps > MOST_STEPS || has_end(x) || !is_scalar(x->condition->rets->value, HT_BOOL) ||
		!find_mask(&m))
		return;
	if (has_effects(x->body) || !keeps_all(&m)) {
		ht_rw_miss(&x->outside, HT_FUSION_recurrent_end, 1, x->node,
			"has results that steps change which its mask excludes");
		return;
	}
	add_condition(&m, ht_counted_pass(x, end_of(&m)).condition);
	ht_rw_hit(&x->outside, HT_FUSION_recurrent_end);
}
