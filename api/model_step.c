/* Checks that a training step changes a variable that its loss depends on. */
#include <halftone/train.h>

#include "api/api.h"
#include "frontend/frontend.h"
#include "passes/passes.h"

struct step {
	struct ht_model *m;
	const char *loss, *op; /* op NULL: the step is the loss alone */
	struct ht_diags *d;
	struct ht_map changed; /* the variables that the step may change, by name */
};

/* By node id: the nodes that a run of `of` runs. */
static bool *run_by(struct step *x, struct ht_node *const *of, size_t n)
{
	const struct ht_graph *g = x->m->graph;
	bool *runs = HT_NEW_ARRAY(&x->m->arena, bool, g->ids);

	for (size_t i = 0; i < n; i++)
		runs[of[i]->id] = true;
	ht_mark_operands(g, runs, true);
	return runs;
}

static enum ht_status find(struct step *x, const char *name, struct ht_node **out)
{
	struct ht_model *m = x->m;
	struct ht_str s = ht_str(name);
	struct ht_entry *e;

	HT_TRY(ht_entry_for_outputs(m->graph, m->chosen, &s, 1, x->d, &e));
	*out = (e->outputs ? e->outputs : e->targets)->value.node;
	return HT_OK;
}

static enum ht_status refuse(const struct step *x, const struct ht_node *op)
{
	const struct ht_where at = {
		.path = x->m->graph->path, .node = op->name, .op = op->type, .offset = -1
	};

	if (!x->changed.count)
		return ht_error(x->d, HT_E_USAGE, at, "a step of this changes no variable");
	return ht_error(x->d, HT_E_USAGE, at,
		"the loss '%s' does not depend on what a step of this changes: '%.*s'%s", x->loss,
		HT_STR_ARG(x->changed.entries[0].key), x->changed.count > 1 ? ", …" : "");
}

static enum ht_status check(void *arg)
{
	struct step *x = arg;
	const struct ht_graph *g = x->m->graph;
	struct ht_node *of[2];
	const bool *runs, *read;

	HT_TRY(find(x, x->loss, &of[0]));
	of[1] = of[0];
	if (x->op)
		HT_TRY(find(x, x->op, &of[1]));
	runs = run_by(x, of, 2);
	read = run_by(x, of, 1);
	ht_changed_in_run(g, runs, &x->m->arena, &x->changed);
	return ht_run_has_variable(g, read, &x->m->arena, &x->changed) ? HT_OK : refuse(x, of[1]);
}

enum ht_status ht_model_check_step(
	struct ht_model *m, const char *loss, const char *op, struct ht_diags *d)
{
	struct step x = { .m = m, .loss = loss, .op = op, .d = d };

	return ht_guarded(&m->unwind, check, &x, d);
}
