/* Which functions of the library a graph can come to call. */
#include "ir/ir.h"

static void call_named(const struct ht_graph *g, struct ht_map *called, struct ht_str name)
{
	struct ht_function *f = ht_graph_function(g, name);

	if (f)
		ht_map_at(called, f->name)->value = f;
}

static void calls_of_value(
	const struct ht_graph *g, struct ht_map *called, const struct ht_attr_value *v)
{
	if (v->kind == HT_ATTR_FUNC)
		call_named(g, called, v->func->name);
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		if (v->list.item[i].kind == HT_ATTR_FUNC)
			call_named(g, called, v->list.item[i].func->name);
}

static void calls_of_graph(
	const struct ht_graph *g, struct ht_map *called, const struct ht_graph *body)
{
	for (const struct ht_node *n = body->first; n; n = n->next) {
		/* A call may be written as a node of the function's type. */
		if (n->op == HT_OP_OPAQUE)
			call_named(g, called, n->type);
		for (const struct ht_attr *a = n->attrs; a; a = a->next)
			calls_of_value(g, called, &a->value);
	}
}

void ht_called_functions(const struct ht_graph *g, struct ht_arena *a, struct ht_map *called)
{
	ht_map_init(called, a);
	calls_of_graph(g->library, called, g);
	for (size_t i = 0; i < called->count; i++)
		calls_of_graph(
			g->library, called, ((struct ht_function *)called->entries[i].value)->body);
}

void ht_drop_uncalled(struct ht_graph *g, struct ht_arena *scratch)
{
	struct ht_function **f = &g->functions;
	struct ht_map called;

	if (!g->functions)
		return;
	ht_called_functions(g, scratch, &called);
	g->last_function = NULL;
	while (*f) {
		if (ht_map_get(&called, (*f)->name)) {
			g->last_function = *f;
			f = &(*f)->next;
		} else {
			ht_map_at(&g->function_names, (*f)->name)->value = NULL;
			*f = (*f)->next;
		}
	}
}

bool ht_calls_itself(const struct ht_function *f, struct ht_arena *a)
{
	struct ht_map called;

	ht_called_functions(f->body, a, &called);
	return ht_map_get(&called, f->name) != NULL;
}
