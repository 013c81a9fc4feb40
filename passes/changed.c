/* Finds the variables that a graph changes, directly or through functions that its nodes run. */
#include "ir/calls.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

bool ht_changes_variable(const struct ht_node *n)
{
	return ht_op_info(n->op)->effects & HT_WRITES;
}

bool ht_takes_reference(const struct ht_node *n, int32_t i)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	return n->op != HT_OP_OPAQUE && i < info->args && info->arg[i].ref;
}

static bool runs_functions(const struct ht_node *n)
{
	return ht_is(n, HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE);
}

/* ---- whether any variable is changed ---- */

bool ht_may_be_variable(const struct ht_node *n)
{
	return ht_is(n, HT_VARIABLE) ||
	       (ht_is(n, HT_ARGUMENT) && ht_type_attr(n, "T") == HT_RESOURCE);
}

static bool takes_variable(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_may_be_variable(n->in[i].node))
			return true;
	return false;
}

static bool changes_within(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_changes_variable(n) && takes_variable(n))
			return true;
	return false;
}

bool ht_changes_any(const struct ht_graph *g)
{
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (changes_within(f->body))
			return true;
	return changes_within(g);
}

/* ---- which variables are changed ---- */

struct looking {
	struct ht_arena *arena;
	struct ht_map *changed; /* variables, by name */
	struct ht_map known;    /* functions, by name: whether they change variables */
};

static char yes, no;

static bool changes_when_run(const struct ht_function *f, struct ht_arena *a)
{
	struct ht_map called;

	if (changes_within(f->body))
		return true;
	ht_called_functions(f->body, a, &called);
	for (size_t i = 0; i < called.count; i++)
		if (changes_within(((struct ht_function *)called.entries[i].value)->body))
			return true;
	return false;
}

static bool function_changes(struct looking *x, const struct ht_function *f)
{
	struct ht_map_entry *e = ht_map_at(&x->known, f->name);

	if (!e->value)
		e->value = changes_when_run(f, x->arena) ? &yes : &no;
	return e->value == &yes;
}

/* Whether `n` may change a variable that it takes. */
static bool may_change(struct looking *x, const struct ht_node *n)
{
	struct ht_bodies b;

	if (!runs_functions(n))
		return n->op == HT_OP_OPAQUE || ht_changes_variable(n);
	b = ht_control_bodies(n);
	return (b.of[0] && function_changes(x, b.of[0])) ||
	       (b.of[1] && function_changes(x, b.of[1]));
}

/* Whether a node that changes variables may change the one that is its operand `i`: an op of the table changes those that it takes by reference
 * or by their handles. */
static bool may_be_changed(const struct ht_node *n, int32_t i)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	return n->op == HT_OP_OPAQUE || runs_functions(n) || i >= info->args || info->arg[i].ref ||
	       info->arg[i].fixed == HT_RESOURCE;
}

struct ht_node **ht_variable_handles(const struct ht_graph *g, struct ht_arena *a)
{
	struct ht_node **of = HT_NEW_ARRAY(a, struct ht_node *, g->ids);

	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_VARIABLE))
			of[n->id] = n;
		else if (ht_is(n, HT_FORWARDS | HT_ENTERS) && n->outs == 1)
			of[n->id] = of[n->in[0].node->id];
	return of;
}

/* The variable of which `v` is the handle or the reference, also within branches and loops of TensorFlow 1; NULL: none. */
static const struct ht_node *variable_behind(struct ht_value v)
{
	enum { MOST = 1 << 16 }; /* nodes of a malformed graph may be a cycle */

	for (int i = 0; i < MOST; i++) {
		const struct ht_node *n = v.node;

		if (ht_is(n, HT_VARIABLE))
			return n;
		if (!ht_is(n, HT_FORWARDS | HT_SWITCHES | HT_MERGES | HT_ENTERS) || !n->ins)
			return NULL;
		v = n->in[ht_is(n, HT_FORWARDS) && v.index < n->ins ? v.index : 0];
	}
	return NULL;
}

static void look_at(struct looking *x, const struct ht_node *n)
{
	if (!may_change(x, n))
		return;
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_node *v = may_be_changed(n, i) ? variable_behind(n->in[i]) : NULL;

		if (v)
			ht_map_at(x->changed, ht_variable_name(v))->value = &yes;
	}
}

static void look(struct looking *x, const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		look_at(x, n);
}

static void looking_init(struct looking *x, struct ht_arena *a, struct ht_map *changed)
{
	*x = (struct looking){ .arena = a, .changed = changed };
	ht_map_init(changed, a);
	ht_map_init(&x->known, a);
}

void ht_changed_variables(const struct ht_graph *g, struct ht_arena *a, struct ht_map *changed)
{
	struct looking x;

	looking_init(&x, a, changed);
	look(&x, g);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		look(&x, f->body);
}

/* ---- of the nodes that a run of some outputs runs ---- */

/* The functions that these nodes run, by name. */
static void functions_of(
	const struct ht_graph *g, const bool *runs, struct ht_arena *a, struct ht_map *called)
{
	ht_map_init(called, a);
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (runs[n->id])
			ht_add_called(g->library, n, called);
	ht_add_all_called(g->library, called);
}

static const struct ht_graph *body_of(const struct ht_map *called, size_t i)
{
	return ((struct ht_function *)called->entries[i].value)->body;
}

void ht_changed_in_run(
	const struct ht_graph *g, const bool *runs, struct ht_arena *a, struct ht_map *changed)
{
	struct looking x;
	struct ht_map called;

	looking_init(&x, a, changed);
	functions_of(g, runs, a, &called);
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (runs[n->id])
			look_at(&x, n);
	for (size_t i = 0; i < called.count; i++)
		look(&x, body_of(&called, i));
}

static bool has_variable_of(const struct ht_graph *g, const bool *runs, const struct ht_map *names)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if ((!runs || runs[n->id]) && ht_is(n, HT_VARIABLE) &&
			ht_map_get(names, ht_variable_name(n)))
			return true;
	return false;
}

bool ht_run_has_variable(
	const struct ht_graph *g, const bool *runs, struct ht_arena *a, const struct ht_map *names)
{
	struct ht_map called;
	bool has = has_variable_of(g, runs, names);

	functions_of(g, runs, a, &called);
	for (size_t i = 0; i < called.count && !has; i++)
		has = has_variable_of(body_of(&called, i), NULL, names);
	return has;
}
