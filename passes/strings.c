/* strings: tensors of strings become tensors of numbers, int64, which stand for strings
 * (base/strings.h).
 *
 * The pass numbers the graph's constant strings, and the graph keeps them.  In each run, strings
 * that are fed get further numbers; equal strings get equal numbers.  So all ops that move
 * elements, pass them on or compare them for equality use their kernels for int64, also in
 * branches, loops and tables.  Inputs and outputs of the entry that were strings are marked.
 *
 * If an op reads a constant as text, as Assert reads its message, the text constant stays for
 * that op besides the constant of numbers.  A graph that does anything else with strings is left
 * alone, and lowering refuses it and names the ops.
 *
 * An immutable table of strings gets a name of its own for these numbers, as entries of a session
 * share tables by name. */
#include "passes/rewrite.h"

#include <string.h>

/* Limit of elements for a constant that the file states in shortened form. */
enum { MOST_REPEATED = 1 << 24 };

struct numbering {
	struct ht_graph *g; /* the program's; its functions are visited too */
	struct ht_pass_context *c;
	struct ht_map *strings;
	struct ht_map twin; /* text constants, by address: the constants of their numbers */
	struct ht_map called;
};

static bool is_string(struct ht_value v)
{
	return v.node && v.index >= 0 && ht_type_of(v)->dtype == HT_STRING;
}

/* ---- whether numbers can replace the strings ---- */

static bool gives_strings(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (n->out[i].dtype == HT_STRING)
			return true;
	return false;
}

static bool is_text(struct ht_value v)
{
	return !is_string(v) || ht_const_text(v);
}

/* Whether all strings that it takes are constants and it returns none: it may read them as text. */
static bool takes_texts_only(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (!is_text(n->in[i]))
			return false;
	return !gives_strings(n);
}

static bool can_be_numbered(const struct ht_tensor *t)
{
	return t && ht_shape_known(t->shape) &&
	       (ht_shape_count(t->shape) <= (int64_t)t->values ||
		       ht_shape_count(t->shape) <= MOST_REPEATED);
}

static bool is_possible(const struct ht_node *n)
{
	if (ht_is(n, HT_CONSTANT))
		return !gives_strings(n) ||
		       can_be_numbered(ht_const_text(ht_out((struct ht_node *)(uintptr_t)n, 0)));
	return ht_takes_string_numbers(n) || takes_texts_only(n);
}

static bool has_strings(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (gives_strings(n) || (ht_is_table(n) && ht_attrs_have_type(n, HT_STRING)))
			return true;
	return false;
}

static bool all_possible(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (!is_possible(n))
			return false;
	return true;
}

/* Graph i of those that may have strings: the graph's functions that it may call, then the graph
 * itself; NULL at the end. */
static struct ht_graph *body_at(const struct numbering *x, size_t i)
{
	if (i > x->called.count)
		return NULL;
	return i == x->called.count ? x->g
				    : ((struct ht_function *)x->called.entries[i].value)->body;
}

static bool is_to_be_done(const struct numbering *x)
{
	bool any = false;

	for (size_t i = 0; body_at(x, i); i++)
		any |= has_strings(body_at(x, i));
	for (size_t i = 0; any && body_at(x, i); i++)
		if (!all_possible(body_at(x, i)))
			return false;
	return any;
}

/* ---- constants ---- */

static struct ht_str key_of(struct numbering *x, const struct ht_node *n)
{
	return ht_str_printf(x->c->scratch, "%p", (const void *)n);
}

/* The constant of numbers gets the name of the text constant, since an output may have that
 * name. */
static struct ht_node *numbers_of(struct numbering *x, struct ht_node *n)
{
	struct ht_graph *g = n->graph;
	struct ht_tensor *t = ht_string_numbers(ht_const_text(ht_out(n, 0)), x->strings, g->arena);
	struct ht_str name = n->name;
	struct ht_node *twin;

	twin = ht_const_sharing(g, ht_graph_free_name(g, name), HT_I64, t->shape, t->blob);
	ht_node_add_origin(twin, n);
	ht_node_rename(
		n, ht_graph_free_name(g, ht_str_printf(g->arena, "%.*s/text", HT_STR_ARG(name))));
	ht_node_rename(twin, name);
	ht_node_set_controls(twin, n->control, n->controls);
	ht_node_move(twin, n);
	return twin;
}

static struct ht_value number_value(struct numbering *x, struct ht_value v)
{
	struct ht_map_entry *e;

	if (!is_string(v) || !ht_is(v.node, HT_CONSTANT))
		return v;
	e = ht_map_at(&x->twin, key_of(x, v.node));
	if (!e->value)
		e->value = numbers_of(x, v.node);
	return ht_out(e->value, 0);
}

/* ---- nodes ---- */

static void number_part(struct numbering *x, struct ht_node *table, const char *part)
{
	const struct ht_attr *a = ht_attr_find(table, part);

	if (a && a->value.tensor->dtype == HT_STRING)
		ht_attr_set_tensor(table, part,
			ht_string_numbers(a->value.tensor, x->strings, table->graph->arena));
}

/* A mutable table outlives the run, so it has the strings themselves. */
static void mark_mutable(struct ht_node *n)
{
	ht_attr_set_bool(n, "_string_keys", ht_type_attr(n, "key_dtype") == HT_STRING);
	ht_attr_set_bool(n, "_string_values", ht_type_attr(n, "value_dtype") == HT_STRING);
}

static void number_table(struct numbering *x, struct ht_node *n)
{
	if (!ht_attrs_have_type(n, HT_STRING))
		return;
	if (ht_is_mutable_table(n)) {
		mark_mutable(n);
		return;
	}
	number_part(x, n, "_keys");
	number_part(x, n, "_values");
	ht_attr_set_bool(n, "_strings", true);
}

static void number_results(struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (n->out[i].dtype == HT_STRING)
			n->out[i].dtype = HT_I64;
}

static void number_node(struct numbering *x, struct ht_node *n)
{
	if (ht_is(n, HT_CONSTANT) || !ht_takes_string_numbers(n))
		return;
	for (int32_t i = 0; i < n->ins; i++)
		n->in[i] = number_value(x, n->in[i]);
	if (ht_is_table(n))
		number_table(x, n);
	ht_attrs_retype(n, HT_STRING, HT_I64);
	number_results(n);
}

/* Numbers differ from run to run, so buffers that are derived from such an input must not be
 * kept. */
static void number_ports(struct numbering *x, struct ht_port *p, bool of_entry)
{
	for (; p; p = p->next) {
		if (!is_string(p->value))
			continue;
		p->strings = of_entry;
		p->steady = false;
		p->value = number_value(x, p->value);
	}
}

static void number_graph(struct numbering *x, struct ht_graph *g)
{
	for (struct ht_entry *e = g->entries; e; e = e->next) {
		number_ports(x, e->inputs, true);
		number_ports(x, e->outputs, true);
	}
	if (g->function) {
		number_ports(x, g->function->args, false);
		number_ports(x, g->function->rets, false);
	}
	for (struct ht_node *n = g->first; n; n = n->next)
		number_node(x, n);
}

/* ---- names of tables ---- */

static struct ht_str mark_of(struct numbering *x)
{
	struct ht_str *all = HT_NEW_ARRAY(x->c->scratch, struct ht_str, x->strings->count);
	uint64_t *length = HT_NEW_ARRAY(x->c->scratch, uint64_t, x->strings->count);
	struct ht_hash h, lengths;

	for (size_t i = 0; i < x->strings->count; i++) {
		all[i] = x->strings->entries[i].key;
		length[i] = all[i].n;
	}
	h = ht_hash_pieces(all, x->strings->count);
	lengths = ht_hash_bytes(length, x->strings->count * sizeof *length);
	return ht_str_printf(x->c->scratch, "%016llx", (unsigned long long)(h.lo ^ lengths.lo));
}

static void name_tables(struct ht_graph *g, struct ht_str mark)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		if (!ht_is_table(n) || !ht_attr_bool(n, "_strings", false))
			continue;
		ht_attr_set_str(n, "shared_name",
			ht_str_printf(g->arena, "%.*s/%.*s", HT_STR_ARG(ht_variable_name(n)),
				HT_STR_ARG(mark)));
		ht_attr_remove(n, "_strings");
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct numbering x = { .g = g, .c = c };

	ht_called_functions(g, c->scratch, &x.called);
	if (!is_to_be_done(&x))
		return HT_OK;
	x.strings = HT_NEW(g->arena, struct ht_map);
	ht_strings_init(x.strings, g->arena);
	ht_map_init(&x.twin, c->scratch);
	for (size_t i = 0; body_at(&x, i); i++)
		number_graph(&x, body_at(&x, i));
	for (size_t i = 0; body_at(&x, i); i++)
		name_tables(body_at(&x, i), mark_of(&x));
	g->strings = x.strings;
	return HT_OK;
}

const struct ht_pass ht_pass_strings = {
	.name = "strings",
	.summary = "makes numbers of strings",
	.run = run,
};
