/* Entry points: the inputs and outputs that a file or a user states. */
#include "frontend/graphdef.h"

#include <inttypes.h>
#include <string.h>

/* Parses "node" or "node:1"; false if there is no such tensor. */
bool ht_entry_value(struct ht_graph *g, struct ht_str ref, struct ht_value *out)
{
	int64_t index = 0;
	size_t colon;

	*out = (struct ht_value){ .node = ht_graph_node(g, ref) };
	if (!out->node) {
		for (colon = ref.n; colon > 0 && ref.p[colon - 1] != ':'; colon--)
			;
		if (!colon ||
			!ht_parse_int((struct ht_str){ ref.p + colon, ref.n - colon }, &index) ||
			index < 0 || index > 1000000)
			return false;
		out->node = ht_graph_node(g, (struct ht_str){ ref.p, colon - 1 });
		out->index = (int32_t)index;
	}
	if (!out->node)
		return false;
	if (out->index < out->node->outs)
		return true;
	if (ht_node_result_count(out->node) >= 0)
		return false;
	ht_node_set_outs(out->node, out->index + 1);
	return true;
}

void ht_entry_add(struct ht_graph *g, struct ht_entry *e)
{
	struct ht_entry **end = &g->entries;

	while (*end)
		end = &(*end)->next;
	*end = e;
}

static struct ht_port *add_port(
	struct ht_graph *g, struct ht_port ***end, struct ht_str name, struct ht_value v)
{
	struct ht_port *p = HT_NEW(g->arena, struct ht_port);

	p->name = name;
	p->value = v;
	**end = p;
	*end = &p->next;
	return p;
}

static bool is_input(const struct ht_node *n)
{
	return ht_is(n, HT_FED);
}

/* Whether TensorFlow left the placeholder in the graph when it converted a loop: nothing reads
 * it. */
static bool is_left_behind(const struct ht_node *n)
{
	return ht_str_starts(n->name, "unused_control_flow_input");
}

static void add_placeholders(struct ht_graph *g, struct ht_entry *e)
{
	struct ht_port **end = &e->inputs;

	for (struct ht_node *n = g->first; n; n = n->next)
		if (is_input(n) && n->outs && !is_left_behind(n))
			add_port(g, &end, n->name, ht_out(n, 0));
}

/* A signature may omit placeholders that its outputs need, such as the rate of a dropout.  Those
 * become inputs as well. */
void ht_entry_add_placeholders(struct ht_graph *g, struct ht_entry *e)
{
	struct ht_arena *a = ht_arena_within(g->arena);
	bool *needed = HT_NEW_ARRAY(a, bool, g->ids);
	bool *fed = HT_NEW_ARRAY(a, bool, g->ids);
	struct ht_node **stack = HT_NEW_ARRAY(a, struct ht_node *, g->nodes);
	struct ht_port **end = &e->inputs;
	size_t count = 0;

#define NEED(x)                                                                                    \
	do {                                                                                       \
		if (!needed[(x)->id]) {                                                            \
			needed[(x)->id] = true;                                                    \
			stack[count++] = (x);                                                      \
		}                                                                                  \
	} while (0)
	for (const struct ht_port *p = e->inputs; p; p = p->next)
		fed[p->value.node->id] = needed[p->value.node->id] =
			true; /* a fed node needs no operands */
	for (const struct ht_port *p = e->outputs; p; p = p->next)
		NEED(p->value.node);
	for (const struct ht_port *p = e->targets; p; p = p->next)
		NEED(p->value.node);
	while (count) {
		struct ht_node *n = stack[--count];

		for (int32_t i = 0; i < n->ins; i++)
			NEED(n->in[i].node);
		for (int32_t i = 0; i < n->controls; i++)
			NEED(n->control[i]);
	}
#undef NEED
	while (*end)
		end = &(*end)->next;
	for (struct ht_node *n = g->first; n; n = n->next)
		if (needed[n->id] && is_input(n) && n->outs && !fed[n->id])
			add_port(g, &end, n->name, ht_out(n, 0));
	ht_arena_release(a);
}

/* Whether a node that no other node uses is still not an output. */
static bool is_no_output(const struct ht_node *n)
{
	static const char *const types[] = { "NoOp", "Assert", "Const", "ControlTrigger", "Print",
		"PrintV2", "Placeholder", "PlaceholderV2" };

	for (size_t i = 0; i < HT_COUNT(types); i++)
		if (ht_str_is(n->type, types[i]))
			return true;
	return false;
}

/* The number of results of a node whose type is not in the op table: that of the function with
 * this name, or one. */
static int32_t results_of_opaque(const struct ht_graph *g, const struct ht_node *n)
{
	const struct ht_function *f = ht_graph_function(g, n->type);
	int32_t count = 0;

	if (!f)
		return 1;
	for (const struct ht_port *p = f->rets; p; p = p->next)
		count++;
	return count;
}

/* Whether a result is only auxiliary: the last results of batch normalisation are for its
 * gradient and have no fixed meaning; the second result of a Merge is the index of the operand
 * that it took. */
static bool is_aside(const struct ht_node *n, int32_t i)
{
	return (i >= 3 && ht_is(n, HT_BATCH_NORM)) || (i == 1 && ht_is(n, HT_MERGES));
}

struct ht_entry *ht_default_entry(struct ht_graph *g)
{
	struct ht_entry *e = HT_NEW(g->arena, struct ht_entry);
	struct ht_arena *a = ht_arena_within(g->arena);
	bool *used = HT_NEW_ARRAY(a, bool, g->ids);
	const int32_t *depth = ht_control_depth(g, a);
	struct ht_port **end = &e->outputs;

	e->name = e->method = HT_STR("");
	add_placeholders(g, e);
	for (struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++)
			used[n->in[i].node->id] = true;
	for (struct ht_node *n = g->first; n; n = n->next) {
		if (ht_str_is(n->type, "_Retval") && n->ins == 1) {
			add_port(g, &end, n->name, n->in[0]);
			continue;
		}
		if (used[n->id] || depth[n->id] || is_no_output(n))
			continue;
		if (!n->outs && n->op == HT_OP_OPAQUE)
			ht_node_set_outs(n, results_of_opaque(g, n));
		for (int32_t i = 0; i < n->outs && !is_aside(n, i); i++)
			add_port(g, &end,
				i ? ht_str_printf(g->arena, "%.*s:%" PRId32, HT_STR_ARG(n->name), i)
				  : n->name,
				ht_out(n, i));
	}
	ht_arena_release(a);
	return e;
}

static struct ht_port *copy_ports(struct ht_graph *g, const struct ht_port *p)
{
	struct ht_port *first = NULL, **end = &first;

	for (; p; p = p->next)
		add_port(g, &end, p->name, p->value)->alias = p->alias;
	return first;
}

static enum ht_status asked_twice(const struct ht_graph *g, struct ht_str name, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;

	at.path = g->path;
	return ht_error(d, HT_E_USAGE, at, "output '%.*s' is asked for twice", HT_STR_ARG(name));
}

static enum ht_status no_such_output(struct ht_graph *g, struct ht_str name, struct ht_diags *d)
{
	struct ht_str *words = HT_NEW_ARRAY(g->arena, struct ht_str, g->nodes), near[3];
	struct ht_where at = HT_NOWHERE;
	size_t n = 0;
	int found;

	for (struct ht_node *x = g->first; x; x = x->next)
		words[n++] = x->name;
	found = ht_near_names(name, words, n, near);
	at.path = g->path;
	return ht_error(d, HT_E_USAGE, at, "the graph has no output '%.*s'%s%.*s%s",
		HT_STR_ARG(name), found ? "; did you mean '" : "", found ? (int)near[0].n : 0,
		found ? near[0].p : "", found ? "'?" : "");
}

static bool has_port(const struct ht_port *p, struct ht_str name)
{
	while (p && !ht_str_eq(p->name, name))
		p = p->next;
	return p != NULL;
}

/* Adds an output of the existing entry, under the name that the caller used. */
static enum ht_status add_known(struct ht_graph *g, struct ht_port ***end, const struct ht_entry *e,
	const struct ht_port *known, struct ht_str name, struct ht_diags *d)
{
	bool by_alias = ht_str_eq(known->alias, name);

	struct ht_str called = by_alias ? known->alias : known->name;

	for (const struct ht_port *p = e->outputs; p; p = p->next)
		if (ht_str_eq(p->name, called) || ht_str_eq(p->alias, called))
			return asked_twice(g, called, d);
	add_port(g, end, called, known->value)->alias = by_alias ? known->name : known->alias;
	return HT_OK;
}

enum ht_status ht_entry_for_outputs(struct ht_graph *g, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d, struct ht_entry **out)
{
	struct ht_entry *e = HT_NEW(g->arena, struct ht_entry);
	struct ht_port **end = &e->outputs, **targets = &e->targets;
	const struct ht_port *known;
	struct ht_value v;
	struct ht_node *n;
	struct ht_str name;

	e->name = e->method = HT_STR("");
	if (like)
		e->inputs = copy_ports(g, like->inputs);
	else
		add_placeholders(g, e);
	for (size_t i = 0; i < count; i++) {
		name = names[i];
		known = like ? ht_port_named(like->outputs, name) : NULL;
		if (known) {
			HT_TRY(add_known(g, &end, e, known, name, d));
			continue;
		}
		n = ht_graph_node(g, name);
		if (n && !n->outs && !ht_node_result_count(n)) {
			add_port(g, &targets, n->name, (struct ht_value){ n, -1, { 0 } });
			continue;
		}
		if (!ht_entry_value(g, name, &v))
			return no_such_output(g, name, d);
		if (ht_str_ends(name, ":0"))
			name.n -= 2;
		if (has_port(e->outputs, name))
			return asked_twice(g, name, d);
		add_port(g, &end, ht_str_copy(g->arena, name), v);
	}
	if (like)
		ht_entry_add_placeholders(g, e);
	*out = e;
	return HT_OK;
}
