/* Calls of recursive functions that are nodes of the function's type become
 * StatefulPartitionedCall, since no pass inlines them.  The stateful op is used because the
 * function may have effects. */
#include "passes/recursion.h"

#include "passes/outline.h"

static struct ht_function *named(const struct ht_graph *library, const struct ht_node *n)
{
	return n->op == HT_OP_OPAQUE ? ht_graph_function(library, n->type) : NULL;
}

static bool any_within(struct ht_graph *library, const struct ht_graph *g, struct ht_arena *scratch)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (named(library, n) && ht_recurs(library, named(library, n), scratch))
			return true;
	return false;
}

/* The dtype from attributes only. */
static enum ht_dtype dtype_of(struct ht_value v)
{
	const struct ht_op_info *info = ht_op_info(v.node->op);
	int32_t at = 0, count;

	for (int i = 0; v.node->op != HT_OP_OPAQUE && i < info->results; i++, at += count) {
		count = ht_formal_count(v.node, &info->result[i]);
		if (v.index >= at && v.index < at + count)
			return ht_formal_dtype(v.node, &info->result[i], v.index - at);
	}
	return HT_INVALID;
}

static int32_t set_types(struct ht_node *n, const char *attr, const struct ht_port *p)
{
	enum ht_dtype *t;
	int32_t count = 0, i = 0;

	for (const struct ht_port *x = p; x; x = x->next)
		count++;
	t = HT_NEW_ARRAY(n->graph->arena, enum ht_dtype, (size_t)count + 1);
	for (; p; p = p->next)
		t[i++] = dtype_of(p->value);
	ht_attr_set_types(n, attr, t, count);
	return count;
}

/* Turns the result that the function names `v.port` into a numbered one. */
static struct ht_value by_number(const struct ht_function *f, struct ht_value v)
{
	const struct ht_port *p = f->rets;

	for (int32_t i = 0; v.port.n && p; p = p->next, i++)
		if (ht_str_eq(p->name, v.port))
			return ht_out(v.node, i);
	return v;
}

static void number_results(
	struct ht_graph *g, const struct ht_node *call, const struct ht_function *f)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++)
			if (n->in[i].node == call)
				n->in[i] = by_number(f, n->in[i]);
	for (struct ht_port *p = g->function ? g->function->rets : NULL; p; p = p->next)
		if (p->value.node == call)
			p->value = by_number(f, p->value);
}

static void change(struct ht_node *n, const struct ht_function *f)
{
	struct ht_func_ref *ref = HT_NEW(n->graph->arena, struct ht_func_ref);

	ht_attrs_own(n);
	*ref = (struct ht_func_ref){ .name = f->name, .attrs = n->attrs };
	n->attrs = NULL;
	ht_node_set_type(n, HT_STR("StatefulPartitionedCall"));
	number_results(n->graph, n, f);
	set_types(n, "Tin", f->args);
	ht_node_set_outs(n, set_types(n, "Tout", f->rets));
	*ht_attr_set(n, "f") = (struct ht_attr_value){ .kind = HT_ATTR_FUNC, .func = ref };
}

static void change_within(struct ht_graph *library, struct ht_graph *g, struct ht_arena *scratch)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_function *f = named(library, n);

		if (f && ht_recurs(library, named(library, n), scratch))
			change(n, f);
	}
}

void ht_name_recursive_calls(struct ht_graph *g, struct ht_arena *scratch)
{
	bool any = any_within(g, g, scratch);

	for (const struct ht_function *f = g->functions; f && !any; f = f->next)
		any = any_within(g, f->body, scratch);
	if (!any)
		return;
	ht_functions_own(g);
	change_within(g, g, scratch);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		change_within(g, f->body, scratch);
}
