/* Finds the variables that a graph changes, directly or through functions that its nodes run. */
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

/* Whether a node takes a variable, or an argument that may be one. */
static bool takes_variable(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_is(n->in[i].node, HT_VARIABLE) ||
			(ht_is(n->in[i].node, HT_ARGUMENT) &&
				ht_type_attr(n->in[i].node, "T") == HT_RESOURCE))
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

bool ht_runs_changes(const struct ht_node *n, struct ht_arena *a)
{
	const struct ht_bodies b =
		runs_functions(n) ? ht_control_bodies(n) : (struct ht_bodies){ { NULL, NULL } };

	return (b.of[0] && changes_when_run(b.of[0], a)) ||
	       (b.of[1] && changes_when_run(b.of[1], a));
}

/* Whether `n` may change a variable that it takes. */
static bool may_change(struct looking *x, const struct ht_node *n)
{
	struct ht_bodies b;

	if (!runs_functions(n))
		return ht_changes_variable(n);
	b = ht_control_bodies(n);
	return (b.of[0] && function_changes(x, b.of[0])) ||
	       (b.of[1] && function_changes(x, b.of[1]));
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

/* The variable whose handle a node takes as `v`, also where a Switch of TensorFlow 1 passes it to a branch. */
static const struct ht_node *variable_behind(struct ht_node *const *handle, struct ht_value v)
{
	while (ht_is(v.node, HT_SWITCHES) && v.node->ins)
		v = v.node->in[0];
	return handle[v.node->id];
}

static void look(struct looking *x, const struct ht_graph *g)
{
	struct ht_node **handle = ht_variable_handles(g, x->arena);

	for (const struct ht_node *n = g->first; n; n = n->next) {
		if (!may_change(x, n))
			continue;
		for (int32_t i = 0; i < n->ins; i++) {
			const struct ht_node *v = variable_behind(handle, n->in[i]);

			if (v)
				ht_map_at(x->changed, ht_variable_name(v))->value = &yes;
		}
	}
}

void ht_changed_variables(const struct ht_graph *g, struct ht_arena *a, struct ht_map *changed)
{
	struct looking x = { .arena = a, .changed = changed };

	ht_map_init(changed, a);
	ht_map_init(&x.known, a);
	look(&x, g);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		look(&x, f->body);
}
