/* The functions of the library that a graph may call, directly or indirectly. */
#include "ir/calls.h"

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

void ht_add_called(const struct ht_graph *g, const struct ht_node *n, struct ht_map *called)
{
	/* An opaque node may be a call: its type is then the name of the function. */
	if (n->op == HT_OP_OPAQUE)
		call_named(g, called, n->type);
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		calls_of_value(g, called, &a->value);
}

static void calls_of_graph(
	const struct ht_graph *g, struct ht_map *called, const struct ht_graph *body)
{
	for (const struct ht_node *n = body->first; n; n = n->next)
		ht_add_called(g, n, called);
}

void ht_add_all_called(const struct ht_graph *g, struct ht_map *called)
{
	for (size_t i = 0; i < called->count; i++)
		calls_of_graph(g, called, ((struct ht_function *)called->entries[i].value)->body);
}

void ht_called_functions(const struct ht_graph *g, struct ht_arena *a, struct ht_map *called)
{
	ht_map_init(called, a);
	calls_of_graph(g->library, called, g);
	ht_add_all_called(g->library, called);
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

/* ---- recursive functions ---- */

/* A function of the library, and its callers and callees among the functions that may be
 * recursive. */
struct caller {
	struct ht_function *f;
	struct ht_map calls; /* functions, by name */
	struct called_by {
		struct caller *x;
		struct called_by *next;
	} *called_by;
	size_t callees, callers;
	bool gone; /* not recursive */
};

struct callers {
	struct ht_map of; /* by name */
	struct caller **gone;
	size_t n;
};

static void find_callers(struct callers *c, const struct ht_graph *library, struct ht_arena *a)
{
	ht_map_init(&c->of, a);
	for (struct ht_function *f = library->functions; f; f = f->next) {
		struct caller *x = HT_NEW(a, struct caller);

		x->f = f;
		ht_map_init(&x->calls, a);
		calls_of_graph(library, &x->calls, f->body);
		ht_map_at(&c->of, f->name)->value = x;
	}
	c->gone = HT_NEW_ARRAY(a, struct caller *, c->of.count);
}

static struct caller *caller_at(const struct callers *c, size_t i)
{
	return c->of.entries[i].value;
}

static struct caller *callee_of(const struct callers *c, const struct caller *x, size_t i)
{
	return ht_map_get(&c->of, x->calls.entries[i].key);
}

static void link_callers(struct callers *c, struct ht_arena *a)
{
	for (size_t i = 0; i < c->of.count; i++) {
		struct caller *x = caller_at(c, i);

		x->callees = x->calls.count;
		for (size_t k = 0; k < x->calls.count; k++) {
			struct caller *y = callee_of(c, x, k);
			struct called_by *by = HT_NEW(a, struct called_by);

			*by = (struct called_by){ x, y->called_by };
			y->called_by = by;
			y->callers++;
		}
	}
}

static void drop(struct callers *c, struct caller *x, size_t left)
{
	if (left || x->gone)
		return;
	x->gone = true;
	c->gone[c->n++] = x;
}

/* Drops functions whose callees are all not recursive, and functions that no possibly recursive
 * function calls. */
static void drop_ends(struct callers *c)
{
	for (size_t i = 0; i < c->of.count; i++) {
		drop(c, caller_at(c, i), caller_at(c, i)->callees);
		drop(c, caller_at(c, i), caller_at(c, i)->callers);
	}
	for (size_t i = 0; i < c->n; i++) {
		struct caller *x = c->gone[i];

		for (const struct called_by *by = x->called_by; by; by = by->next)
			drop(c, by->x, --by->x->callees);
		for (size_t k = 0; k < x->calls.count; k++) {
			struct caller *y = callee_of(c, x, k);

			drop(c, y, --y->callers);
		}
	}
}

bool ht_recurs(struct ht_graph *library, struct ht_function *f, struct ht_arena *a)
{
	struct callers c = { .n = 0 };

	if (f->recurs == HT_RECURS_UNKNOWN) {
		find_callers(&c, library, a);
		link_callers(&c, a);
		drop_ends(&c);
		for (size_t i = 0; i < c.of.count; i++)
			caller_at(&c, i)->f->recurs =
				caller_at(&c, i)->gone ? HT_RECURS_NO : HT_RECURS;
	}
	return f->recurs == HT_RECURS;
}
