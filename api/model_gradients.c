/* Finds the tensors that a training step takes as gradients: those of its optimiser ops, and of updates in elementary ops. */
#include <halftone/train.h>

#include "api/api.h"
#include "frontend/frontend.h"
#include "passes/linear.h"
#include "passes/passes.h"

struct looking {
	struct ht_model *m;
	const char *loss, *op; /* loss NULL: updates in elementary ops are not looked at */
	struct ht_diags *d;
	struct ht_map found; /* the names of these tensors */
	struct ht_node **stack;
	bool *met; /* by node id: it was put on the stack */
	size_t depth;
	const char **name;
};

/* The index of the operand that is the gradient; -1: `n` is not an optimiser op. */
static int32_t gradient_of(const struct ht_node *n)
{
	int32_t i = ht_op_info(n->op)->effects & HT_WRITES ? ht_gradient_argument(n->op) : -1;

	return i < n->ins ? i : -1;
}

static void meet(struct looking *x, struct ht_node *n)
{
	if (x->met[n->id])
		return;
	x->met[n->id] = true;
	x->stack[x->depth++] = n;
}

static void take(struct looking *x, struct ht_value v)
{
	struct ht_arena *a = &x->m->arena;
	struct ht_str name =
		v.index ? ht_str_printf(a, "%.*s:%d", HT_STR_ARG(v.node->name), (int)v.index)
			: ht_str_copy(a, v.node->name);

	ht_map_at(&x->found, name)->value = x;
}

static void look_at(struct looking *x, const struct ht_node *n)
{
	int32_t i = gradient_of(n);

	if (i >= 0)
		take(x, n->in[i]);
	for (int32_t k = 0; k < n->ins; k++)
		meet(x, n->in[k].node);
	for (int32_t k = 0; k < n->controls; k++)
		meet(x, n->control[k]);
}

/* ---- updates in elementary ops ---- */

/* A copy of the nodes that a step needs, in which calls, branches and loops are nodes, so that all tensors of the graph can be fetched. */
static enum ht_status copy_step(
	const struct looking *x, struct ht_work *w, struct ht_diags *quiet, struct ht_graph **g)
{
	const struct ht_str names[] = { ht_str(x->loss), ht_str(x->op) };
	struct ht_pass_context c = {
		.scratch = &w->scratch, .diags = quiet, .keep_variables = true
	};
	struct ht_model probe = *x->m;
	enum ht_status st =
		ht_entry_for_outputs(x->m->graph, x->m->chosen, names, 2, quiet, &probe.entry);

	if (st == HT_OK)
		st = ht_model_copy(&probe, w, HT_OPEN_KEEP, quiet, g);
	x->m->arena = probe.arena; /* shapes were made in it */
	if (st != HT_OK)
		return st;
	c.entry = (*g)->entries;
	return ht_run_passes(
		*g, "feeds,prune,inline,branches,prune,references,functional,infer", NULL, &c);
}

static bool is_in_model(const struct looking *x, struct ht_value v)
{
	const struct ht_node *n = ht_graph_node(x->m->graph, v.node->name);

	return n && n->op == v.node->op && v.index < n->outs;
}

/* Takes all gradients, or where one is not found, none. */
static void take_elementary(struct looking *x, struct ht_graph *g, struct ht_work *w)
{
	struct ht_value *found;
	bool all;
	size_t n;

	all = ht_step_gradients(g, g->entries->outputs->value.node, &w->arena, &found, &n);
	for (size_t i = 0; i < n; i++)
		all &= is_in_model(x, found[i]);
	for (size_t i = 0; i < n && all; i++)
		take(x, found[i]);
}

struct elementary {
	struct looking *x;
	struct ht_work w;
};

static enum ht_status look_for_elementary(void *arg)
{
	struct elementary *e = arg;
	struct ht_diags quiet;
	struct ht_graph *g;

	ht_diags_init(&quiet);
	if (copy_step(e->x, &e->w, &quiet, &g) == HT_OK && g->entries->outputs)
		take_elementary(e->x, g, &e->w);
	ht_diags_release(&quiet);
	return HT_OK;
}

static enum ht_status look(void *arg)
{
	struct looking *x = arg;
	const struct ht_graph *g = x->m->graph;
	struct ht_arena *a = &x->m->arena;
	struct ht_str name = ht_str(x->op);
	struct ht_node *op;

	if (ht_str_ends(name, ":0"))
		name.n -= 2;
	op = ht_graph_node(g, name);
	if (!op)
		return ht_error(x->d, HT_E_USAGE,
			(struct ht_where){ .path = g->path, .offset = -1 },
			"the model has no op '%s'", x->op);
	ht_map_init(&x->found, a);
	x->met = HT_NEW_ARRAY(a, bool, g->ids);
	x->stack = HT_NEW_ARRAY(a, struct ht_node *, g->ids);
	meet(x, op);
	while (x->depth)
		look_at(x, x->stack[--x->depth]);
	if (x->loss) {
		struct elementary e = { .x = x };

		HT_TRY(ht_work_run(&e.w, look_for_elementary, &e, x->d));
	}
	x->name = HT_NEW_ARRAY(a, const char *, x->found.count + 1);
	for (size_t i = 0; i < x->found.count; i++)
		x->name[i] = x->found.entries[i].key.p;
	return HT_OK;
}

enum ht_status ht_model_gradients(struct ht_model *m, const char *loss, const char *op,
	struct ht_diags *d, const char *const **names, size_t *n)
{
	struct looking x = { .m = m, .loss = loss, .op = op, .d = d };
	enum ht_status st = ht_guarded(&m->unwind, look, &x, d);

	*names = st == HT_OK ? x.name : NULL;
	*n = st == HT_OK ? x.found.count : 0;
	return st;
}
