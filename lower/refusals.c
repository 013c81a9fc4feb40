/* Why a graph cannot be lowered: each root cause once, without its consequences. */
#include "lower/inside.h"

#include <string.h>

struct search {
	const struct ht_graph *g;
	const struct ht_entry *e;
	struct ht_arena *a;
	struct ht_refusals *out;
	struct ht_map *known; /* op type and reason → number of the cause + 1 */
	struct ht_map *met;   /* by name: functions that calls name, each of which is searched
			       * once */
	uint32_t *cause;      /* by node id: the cause that it is, or that blocks it; 0: it can
			       * be computed */
	bool *fed;            /* by node id: it is an input */
	uint32_t
		in_body; /* within a loop: the cause that leaves shapes of loop-carried values unknown; 0: none */
};

static void search_graph(struct search *s);

/* The common prefix of `part` and the scope of `name` ("a/b" for node "a/b/c"), in whole names. */
static struct ht_str shared_part(struct ht_str part, struct ht_str name)
{
	size_t end = 0;

	for (size_t i = 0; i <= part.n && i < name.n; i++) {
		if (name.p[i] == '/' && (i == part.n || part.p[i] == '/'))
			end = i;
		if (i < part.n && part.p[i] != name.p[i])
			break;
	}
	return (struct ht_str){ part.p, end };
}

static struct ht_str part_of(struct ht_str name)
{
	while (name.n && name.p[name.n - 1] != '/')
		name.n--;
	name.n -= name.n > 0;
	return name;
}

/* The number (from 1) of the cause: n's op type together with the reason `why`.  Adds the cause if it is new. */
static uint32_t cause_of(struct search *s, const struct ht_node *n, const char *why)
{
	struct ht_map_entry *e =
		ht_map_at(s->known, ht_str_printf(s->a, "%.*s %s", HT_STR_ARG(n->type), why));
	struct ht_refusals *r = s->out;

	if (!e->value) {
		r->item = ht_grow(s->a, r->item, r->n, &r->cap, sizeof *r->item);
		r->item[r->n++] = (struct ht_refusal){ .type = n->type,
			.first = n->name,
			.part = part_of(n->name),
			.why = why,
			.open_shape = lower_is_open_shape(why) };
		e->value = (void *)(uintptr_t)r->n;
	}
	return (uint32_t)(uintptr_t)e->value;
}

static uint32_t add_cause(struct search *s, const struct ht_node *n, const char *why)
{
	uint32_t cause = cause_of(s, n, why);
	struct ht_refusal *x = &s->out->item[cause - 1];

	x->part = shared_part(x->part, n->name);
	x->name = ht_grow(s->a, x->name, x->nodes, &x->cap, sizeof *x->name);
	x->name[x->nodes++] = n->name;
	return cause;
}

/* The first cause that blocks an operand of `n`. */
static uint32_t cause_of_operands(const struct search *s, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (s->cause[n->in[i].node->id])
			return s->cause[n->in[i].node->id];
	return 0;
}

/* Whether `n` is a cause of its own: its op has no kernel.  Unknown types, shapes and constants
 * may be consequences of an operand that cannot be computed. */
static bool is_own_cause(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return !op || op->never;
}

/* The cause of the first node in the bodies that cannot be lowered whatever its operands are; 0:
 * none.  Shapes that depend on such a node are unknown, and so are those of loop-carried values. */
static uint32_t cause_within(struct search *s, struct ht_bodies b)
{
	for (int i = 0; i < 2 && b.of[i]; i++)
		for (const struct ht_node *n = b.of[i]->body->first; n; n = n->next)
			if (is_own_cause(n) && lower_refuse(n))
				return cause_of(s, n, lower_refuse(n));
	return 0;
}

/* Whether `n` calls a function that was searched already, or that is being searched. */
static bool is_met(struct search *s, const struct ht_node *n, const struct ht_bodies *b)
{
	struct ht_map_entry *e;

	if (!ht_is(n, HT_CALLS_ONE))
		return false;
	e = ht_map_at(s->met, b->of[0]->name);
	if (e->value)
		return true;
	e->value = b->of[0];
	return false;
}

/* Searches the bodies of a branch, loop or call.  Returns the first cause in them, or 0. */
static uint32_t visit_bodies(struct search *s, const struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	uint32_t first = 0;

	if (is_met(s, n, &b))
		return 0;
	for (int i = 0; i < 2 && b.of[i]; i++) {
		struct ht_entry entry = { .inputs = b.of[i]->args, .outputs = b.of[i]->rets };
		struct search in = *s;

		in.g = b.of[i]->body;
		in.e = &entry;
		in.in_body = ht_is(n, HT_LOOPS | HT_CALLS_ONE) ? cause_within(s, b) : 0;
		search_graph(&in);
		for (const struct ht_node *x = in.g->first; x && !first; x = x->next)
			first = in.cause[x->id];
	}
	return first;
}

/* Whether causes are to be searched in the bodies of `n`: `n` itself can be lowered, or its unknown shapes come from its bodies. */
static bool asks_bodies(struct search *s, const struct ht_node *n, const char *why)
{
	if (!ht_is(n, HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE))
		return false;
	return !why || (lower_is_open_shape(why) && cause_within(s, ht_control_bodies(n)));
}

static void visit(struct search *s, const struct ht_node *n)
{
	const char *why = lower_refuse(n);
	uint32_t behind = cause_of_operands(s, n);

	if (why && !behind && s->in_body && s->fed[n->id] && lower_is_open_shape(why))
		behind = s->in_body;
	if (!behind && asks_bodies(s, n, why)) {
		s->cause[n->id] = visit_bodies(s, n);
		return;
	}

	if (why && (!behind || is_own_cause(n))) {
		s->cause[n->id] = add_cause(s, n, why);
	} else if (behind) {
		s->cause[n->id] = behind;
		s->out->item[behind - 1].blocks++;
	}
}

/* A placeholder that is not an input has no value. */
static void find_unfed(struct search *s)
{
	for (const struct ht_node *n = s->g->first; n; n = n->next) {
		const struct lower_op *op = lower_op_of(n);

		if (op && op->family == FAMILY_SOURCE && !ht_is(n, HT_CONSTANT) &&
			!s->cause[n->id] && !s->fed[n->id])
			s->cause[n->id] = add_cause(s, n, "is needed, but is not among the inputs");
	}
}

static void search_graph(struct search *s)
{
	s->cause = HT_NEW_ARRAY(s->a, uint32_t, s->g->ids);
	s->fed = HT_NEW_ARRAY(s->a, bool, s->g->ids);
	for (const struct ht_port *p = s->e->inputs; p; p = p->next)
		s->fed[p->value.node->id] = true;
	for (const struct ht_node *n = s->g->first; n; n = n->next)
		visit(s, n);
	find_unfed(s);
}

void ht_find_refusals(const struct ht_graph *g, const struct ht_entry *e, struct ht_arena *a,
	struct ht_refusals *out)
{
	struct ht_map known, met;
	struct search s = { .g = g, .e = e, .a = a, .out = out, .known = &known, .met = &met };

	*out = (struct ht_refusals){ 0 };
	ht_map_init(&known, a);
	ht_map_init(&met, a);
	search_graph(&s);
}

void ht_refusal_print(const struct ht_refusal *r, struct ht_buf *b)
{
	ht_printf(b, "%s (%zu node%s", r->why, r->nodes, r->nodes == 1 ? "" : "s");
	if (r->part.n)
		ht_printf(b, " in '%.*s'", HT_STR_ARG(r->part));
	if (r->blocks)
		ht_printf(b, "; %zu behind %s cannot be computed either", r->blocks,
			r->nodes == 1 ? "it" : "them");
	ht_putc(b, ')');
}
