/* Optional tensors that both sides of a branch give.
 *
 * TensorFlow puts a value of each side of a branch into one result, though these may have different types.  Such a result becomes two, one of
 * each side, and the other side has none.  The branch of the gradient has the same condition, so its first side reads the first one.
 */
#include "passes/carry.h"
#include "passes/optionals.h"

#include <string.h>

enum {
	MOST_NESTED = 3, /* nodes between conditions and what these are computed of */
	MOST_DEPTH = 256 /* of calls: optional tensors within each other, and bodies */
};

struct splitting {
	struct ht_pass_context *c;
	struct ht_map caller; /* the branch or loop that runs a body */
	int depth;            /* of the calls of split_uses() */
	bool odd;             /* a result cannot be split */
};

/* A value and what stands for it if the branch with condition `when` ran its second side. */
struct pair {
	struct ht_value first, second, when;
};

/* The branch or loop that runs a body. */
static struct ht_node *caller_of(const struct splitting *x, const struct ht_graph *body)
{
	const struct ht_graph *const *key = &body;

	return ht_map_get(&x->caller, (struct ht_str){ (const char *)key, sizeof *key });
}

static void note_callers(struct splitting *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++) {
			struct ht_graph **key = HT_NEW(x->c->scratch, struct ht_graph *);

			*key = b.of[k]->body;
			ht_map_at(&x->caller, (struct ht_str){ (const char *)key, sizeof *key })
				->value = n;
			note_callers(x, *key);
		}
	}
}

static int32_t place_of(const struct ht_port *p, struct ht_value v)
{
	for (int32_t i = 0; p; p = p->next, i++)
		if (ht_value_eq(p->value, v))
			return i;
	return -1;
}

static bool is_none(struct ht_value v)
{
	return ht_forwarded(v).node->op == HT_OP_OptionalNone;
}

/* One step towards where a value comes from, past at most `depth` optional tensors within each other; false: there is none. */
static bool trace_back(const struct splitting *x, struct ht_value *v, int depth)
{
	struct ht_node *n = v->node;
	struct ht_bodies b;
	int32_t at;

	if (n->op == HT_OP_OptionalGetValue && n->outs == 1) {
		struct ht_value from = n->in[0];

		while (ht_forwarded(from).node->op != HT_OP_OptionalFromValue) {
			from = ht_forwarded(from);
			if (!depth || !trace_back(x, &from, depth - 1))
				return false;
		}
		*v = ht_forwarded(from).node->in[0];
		return true;
	}
	if (ht_is(n, HT_ARGUMENT)) {
		struct ht_node *caller = caller_of(x, n->graph);

		at = n->graph->function ? place_of(n->graph->function->args, *v) : -1;
		if (!caller || at < 0 || ht_is(caller, HT_LOOPS))
			return false;
		*v = caller->in[ht_control_first(caller) + at];
		return true;
	}
	if (!ht_is(n, HT_BRANCHES) || !ht_runs_own(n))
		return false;
	b = ht_control_bodies(n);
	for (int k = 0; k < 2; k++)
		if (is_none(ht_port_at(b.of[k]->rets, v->index)->value)) {
			*v = ht_port_at(b.of[!k]->rets, v->index)->value;
			return true;
		}
	return false;
}

/* Where a value comes from: through calls of bodies, optional tensors, and the only side of a branch that has one. */
static struct ht_value origin(const struct splitting *x, struct ht_value v)
{
	do
		v = ht_forwarded(v);
	while (trace_back(x, &v, MOST_DEPTH));
	return v;
}

/* Whether two values, as origin() gives them, are surely equal: one value, equal constants, or elementwise nodes of equal operands, as
 * conditions of the branches of a Case are. */
static bool are_equal(const struct splitting *x, struct ht_value a, struct ht_value b, int nested)
{
	const struct ht_tensor *s = ht_const_tensor(a), *t = ht_const_tensor(b);

	if (ht_value_eq(a, b))
		return true;
	if (s && t)
		return s->dtype == t->dtype && ht_shape_eq(s->shape, t->shape) && s->blob &&
		       t->blob && s->blob->n == t->blob->n &&
		       !memcmp(s->blob->p, t->blob->p, s->blob->n);
	if (!nested || a.node->op != b.node->op || !ht_is(a.node, HT_ELEMENTWISE | HT_CASTS) ||
		a.node->ins != b.node->ins || ht_type_of(a)->dtype != ht_type_of(b)->dtype)
		return false;
	for (int32_t i = 0; i < a.node->ins; i++)
		if (!are_equal(x, origin(x, a.node->in[i]), origin(x, b.node->in[i]), nested - 1))
			return false;
	return true;
}

static const struct ht_type variant_type = { HT_VARIANT, { 0, NULL } };

static struct ht_value add_none(struct ht_graph *g)
{
	struct ht_node *n =
		ht_node_new(g, HT_STR("OptionalNone"), ht_graph_free_name(g, HT_STR("none")));

	ht_node_set_outs(n, 1);
	n->out[0] = variant_type;
	ht_node_move(n, g->first);
	return ht_out(n, 0);
}

static void split_uses(struct splitting *x, struct ht_graph *g, struct pair p);

/* A node that does with the second value what `n` does with the first one. */
static void split_copy(struct splitting *x, struct ht_node *n, struct pair p)
{
	struct ht_graph *g = n->graph;
	struct ht_node *copy = ht_node_new(g, n->type, ht_graph_free_name(g, n->name));

	copy->attrs = ht_attrs_copy(n->attrs, NULL, g->arena);
	ht_node_set_ins(copy, &p.second, 1);
	ht_node_set_outs(copy, 1);
	copy->out[0] = n->out[0];
	ht_node_add_origin(copy, n);
	ht_node_move(copy, n);
	split_uses(x, g, (struct pair){ ht_out(n, 0), ht_out(copy, 0), p.when });
}

static void split_argument(struct splitting *x, struct ht_node *n, int32_t at, struct pair p)
{
	const struct ht_bodies b = ht_control_bodies(n);
	bool same = are_equal(x, origin(x, n->in[0]), p.when, MOST_NESTED);
	struct ht_rw_within within;
	struct ht_rw r;

	ht_rw_init_within(&r, &within, n->graph, x->c);
	ht_carry_operand(&r, n, p.second);
	for (int k = 0; k < 2; k++) {
		struct ht_value first = ht_port_at(b.of[k]->args, at)->value;
		struct ht_value second = ht_carry_argument(b.of[k], variant_type);

		if (!same)
			split_uses(x, b.of[k]->body, (struct pair){ first, second, p.when });
		else if (k)
			ht_replace_uses(b.of[k]->body, first, second);
	}
}

static void split_use(struct splitting *x, struct ht_node *n, int32_t arg, struct pair p)
{
	if (ht_is(n, HT_FORWARDS))
		split_uses(x, n->graph, (struct pair){ ht_out(n, arg), p.second, p.when });
	else if (n->op == HT_OP_OptionalFromValue && n->ins == 1 && n->outs == 1)
		split_copy(x, n, p);
	else if (n->op == HT_OP_OptionalGetValue && n->outs == 1 && ht_is_variant(ht_out(n, 0)))
		split_copy(x, n, p);
	else if (ht_is(n, HT_BRANCHES) && ht_runs_own(n))
		split_argument(x, n, arg - ht_control_first(n), p);
	else
		x->odd = true;
}

/* Result `at` of a body, whose branch gets one more for the second value. */
static void split_result(
	struct splitting *x, const struct ht_graph *body, int32_t at, struct pair p)
{
	struct ht_node *n = caller_of(x, body);
	struct ht_bodies b;
	struct ht_value more;

	if (!n || !ht_is(n, HT_BRANCHES)) {
		x->odd = true;
		return;
	}
	b = ht_control_bodies(n);
	for (int k = 0; k < 2; k++)
		ht_carry_return(
			b.of[k], b.of[k]->body == body ? p.second : add_none(b.of[k]->body));
	more = ht_carry_result(n, variant_type);
	split_uses(x, n->graph, (struct pair){ ht_out(n, at), more, p.when });
}

static void split_uses(struct splitting *x, struct ht_graph *g, struct pair p)
{
	int32_t at = 0;

	x->odd = x->odd || x->depth == MOST_DEPTH;
	x->depth++;
	for (struct ht_node *n = g->first; n && !x->odd; n = n->next)
		for (int32_t i = 0, ins = n->ins; i < ins && !x->odd; i++)
			if (ht_value_eq(n->in[i], p.first))
				split_use(x, n, i, p);
	for (const struct ht_port *ret = g->function ? g->function->rets : NULL; ret && !x->odd;
		ret = ret->next, at++)
		if (ht_value_eq(ret->value, p.first))
			split_result(x, g, at, p);
	x->depth--;
}

static bool enters_list(
	const struct splitting *x, const struct ht_graph *g, struct ht_value v, int depth);

/* Whether a value becomes an element of a list, as in the gradient of a branch in a loop. */
static bool used_in_list(const struct splitting *x, const struct ht_node *n, int32_t arg, int depth)
{
	if (ht_is(n, HT_FORWARDS))
		return enters_list(x, n->graph,
			(struct ht_value){ .node = (struct ht_node *)(uintptr_t)n, .index = arg },
			depth);
	return n->op == HT_OP_TensorListPushBack && arg == 1;
}

static bool enters_list(
	const struct splitting *x, const struct ht_graph *g, struct ht_value v, int depth)
{
	struct ht_node *of = caller_of(x, g);
	int32_t at = g->function ? place_of(g->function->rets, v) : -1;

	if (!depth)
		return false;
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++)
			if (ht_value_eq(n->in[i], v) && used_in_list(x, n, i, depth - 1))
				return true;
	return of && at >= 0 && ht_is(of, HT_BRANCHES) &&
	       enters_list(x, of->graph, ht_out(of, at), depth - 1);
}

/* Whether both sides have a value, and these may be of different types.  `listed`: lists have elements of several sizes. */
static bool is_shared(struct ht_value a, struct ht_value b, bool listed)
{
	struct ht_node *x = ht_forwarded(a).node, *y = ht_forwarded(b).node;
	const struct ht_type *s, *t;

	if ((x->op != HT_OP_OptionalFromValue && y->op != HT_OP_OptionalFromValue) || is_none(a) ||
		is_none(b))
		return false;
	if (x->op != y->op || x->ins != 1 || y->ins != 1)
		return true;
	s = ht_type_of(x->in[0]);
	t = ht_type_of(y->in[0]);
	if (s->dtype != t->dtype || s->dtype == HT_VARIANT)
		return true;
	if (listed && s->shape.rank >= 0 && s->shape.rank == t->shape.rank)
		return false;
	return !ht_shape_is_told(s->shape) || !ht_shape_eq(s->shape, t->shape);
}

static void split_results(struct splitting *x, struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);
	int32_t outs = n->outs;

	for (int32_t i = 0; i < outs && !x->odd; i++) {
		struct ht_port *last = ht_port_at(b.of[1]->rets, i);
		struct ht_value second = last->value, first = ht_port_at(b.of[0]->rets, i)->value;

		if (is_none(first) && is_none(second))
			ht_replace_uses(n->graph, ht_out(n, i), add_none(n->graph));
		if (!ht_is_variant(ht_out(n, i)) ||
			!is_shared(
				first, second, enters_list(x, n->graph, ht_out(n, i), MOST_NESTED)))
			continue;
		last->value = add_none(b.of[1]->body);
		ht_carry_return(b.of[0], add_none(b.of[0]->body));
		ht_carry_return(b.of[1], second);
		second = ht_carry_result(n, variant_type);
		split_uses(x, n->graph, (struct pair){ ht_out(n, i), second, origin(x, n->in[0]) });
	}
}

static void split(struct splitting *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n && !x->odd; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			split(x, b.of[k]->body);
		if (ht_is(n, HT_BRANCHES) && ht_runs_own(n))
			split_results(x, n);
	}
}

bool ht_split_optionals(struct ht_graph *g, struct ht_pass_context *c)
{
	struct splitting x = { .c = c };

	ht_map_init(&x.caller, c->scratch);
	note_callers(&x, g);
	split(&x, g);
	return !x.odd;
}
