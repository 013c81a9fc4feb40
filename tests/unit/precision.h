/* A graph under construction, and the objects that a decision needs. */
#ifndef HT_TEST_PRECISION_H
#define HT_TEST_PRECISION_H

#include "ir/ir.h"
#include "passes/passes.h"
#include "precision/precision.h"
#include "tests/unit/unit.h"

#include <string.h>

struct bench {
	struct ht_arena arena, scratch;
	struct ht_diags diags;
	struct ht_graph *g;
	struct ht_entry entry;
	struct ht_decisions decisions;
	/* For policy optimal; may be NULL or 0. */
	const struct ht_costs *costs;
	const struct ht_calibration *calibration; /* with it the policy has samples */
	double loss_scale;
};

static void start(struct bench *b)
{
	memset(b, 0, sizeof *b);
	ht_arena_init(&b->arena, NULL);
	ht_arena_init(&b->scratch, NULL);
	ht_diags_init(&b->diags);
	b->g = ht_graph_new(&b->arena);
	b->g->entries = &b->entry;
	b->decisions.arena = &b->arena;
}

static void end(struct bench *b)
{
	ht_diags_release(&b->diags);
	ht_arena_release(&b->scratch);
	ht_arena_release(&b->arena);
}

static void output(struct bench *b, struct ht_node *n)
{
	struct ht_port *p = HT_NEW(&b->arena, struct ht_port);

	p->name = n->name;
	p->value = ht_out(n, 0);
	p->next = b->entry.outputs;
	b->entry.outputs = p;
}

/* `target` NULL: for a policy without prices. */
static void decide(struct bench *b, const char *policy, const char *target)
{
	struct ht_policy p;
	struct ht_precision_request precision = { .decider = { ht_precision_decide },
		.policy = &p,
		.decisions = &b->decisions,
		.calibration = b->calibration };
	struct ht_pass_context c = { .scratch = &b->scratch,
		.diags = &b->diags,
		.decider = &precision.decider,
		.entry = &b->entry,
		.target = target ? ht_target_named(target) : NULL,
		.scaled_loss = b->loss_scale > 0 ? HT_STR("loss") : (struct ht_str){ 0 },
		.loss_scale = b->loss_scale,
		.verify = true };

	assert_int_equal(ht_infer_types(b->g, &b->diags), HT_OK);
	assert_int_equal(ht_policy_init(&p, policy, &b->diags), HT_OK);
	p.costs = b->costs ? b->costs : p.costs;
	p.budget.random = b->calibration != NULL;
	assert_int_equal(ht_run_passes(b->g, "precision", NULL, &c), HT_OK);
	/* The types that the decision wrote into the graph equal those that inference finds. */
	for (struct ht_node *n = b->g->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++)
			n->out[i].dtype |= HT_REF;
	assert_int_equal(ht_infer_types(b->g, &b->diags), HT_OK);
	assert_int_equal(ht_verify(b->g, &b->diags), HT_OK);
}

static enum ht_dtype attr(struct ht_node *n)
{
	return ht_attr_type(n, "T", HT_INVALID);
}

#endif
