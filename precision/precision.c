/* precision: decides the dtype of each tensor by the policy, and places the casts.
 *
 * The pass builds units and columns, lets the policy narrow and settle them, and writes the
 * decision into the graph; except under policy optimal, also into the bodies of functions that
 * control flow runs.  Without a policy the graph stays unchanged.  The decisions are left in the
 * context's decisions. */
#include "precision/precision.h"

#include "passes/rewrite.h"
#include "precision/calls.h"
#include "precision/optimal/optimal.h"
#include "precision/presets/preset.h"
#include "precision/report/report.h"

enum ht_status ht_precision_prepare(struct ht_precision *p, struct ht_graph *g)
{
	p->graph = g;
	p->ret = NULL;
	ht_units_build(p);
	for (struct ht_node *n = g->first; n; n = n->next)
		ht_columns_build(p, n, &p->choice[n->id]);
	return ht_customize_apply(p);
}

void ht_precision_unseen(struct ht_precision *p)
{
	for (int set = 0; set < HT_RULE_SETS; set++)
		p->rules[set].use =
			HT_NEW_ARRAY(p->arena, struct ht_rule_use, p->policy->rules[set].n);
}

static void fit_constants(struct ht_precision *p, uint32_t ids)
{
	struct ht_fit how = { p->policy, p->diags, p->arena, p->decisions };

	ht_fit_constants(p->graph, ids, &how);
}

static void write_decision(struct ht_precision *p)
{
	const struct ht_policy_kind *kind = ht_policy_effective(p->policy);
	size_t impls = p->decisions->impls;
	uint32_t ids = p->graph->ids;

	ht_impl_decide(p, p->decisions);
	ht_precision_rewrite(p, p->decisions);
	ht_impl_apply(p->decisions, impls);
	if (kind->family->finish)
		kind->family->finish(p);
	fit_constants(p, ids);
}

/* Decides one graph: the program's, or the body of a function that control flow runs, whose
 * arguments and results keep their types unless its caller was decided together with it. */
static enum ht_status decide(struct ht_precision *p, struct ht_graph *g)
{
	const struct ht_policy_kind *kind = ht_policy_effective(p->policy);
	struct ht_precision *called =
		p->calls && g->function ? ht_calls_body(p->calls, g->function) : NULL;

	if (called) {
		write_decision(called);
		return HT_OK;
	}
	HT_TRY(ht_precision_prepare(p, g));
	if (!g->function && ht_policy_can(kind, HT_CAN_CROSS_CALLS))
		p->calls = ht_calls_new(p);
	kind->family->decide(p);
	HT_TRY(p->status);
	write_decision(p);
	return HT_OK;
}

/* Likewise by a report. */
static enum ht_status apply(
	struct ht_precision *p, struct ht_graph *g, struct ht_report_use *reported)
{
	size_t impls = p->decisions->impls;
	uint32_t ids = g->ids;

	p->graph = g;
	if (!g->function)
		p->calls = ht_calls_new(p);
	ht_units_build(p);
	p->ret = g->function ? ht_calls_stated(p->calls, g->function, true) : NULL;
	HT_TRY(ht_report_decide(p, reported));
	ht_impl_as_reported(p, &reported->report->decisions, p->decisions);
	ht_precision_rewrite(p, p->decisions);
	ht_impl_apply(p->decisions, impls);
	ht_clamp_constants(p, &reported->report->decisions.clamp);
	fit_constants(p, ids);
	return HT_OK;
}

/* ---- bodies ---- */

struct bodies {
	struct ht_graph *program;
	struct ht_function **function; /* found so far; those from `walked` on have not been
				        * visited */
	size_t n, cap, walked;
	struct ht_map seen;
	struct ht_arena *arena;
};

static void add_body(struct bodies *b, struct ht_str name)
{
	struct ht_function *f = ht_graph_function(b->program, name);

	if (!f || ht_map_get(&b->seen, name))
		return;
	ht_map_at(&b->seen, name)->value = f;
	b->function = ht_grow(b->arena, b->function, b->n, &b->cap, sizeof(struct ht_function *));
	b->function[b->n++] = f;
}

/* Adds the functions that the graph's nodes call, except those of input pipelines, which run
 * elsewhere. */
static void add_bodies(struct bodies *b, const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (const struct ht_attr *a = n->attrs;
			a && (ht_op_info(n->op)->effects & HT_CALLS); a = a->next) {
			const struct ht_attr_value *v = &a->value;
			if (v->kind == HT_ATTR_FUNC)
				add_body(b, v->func->name);
			for (size_t i = 0; v->kind == HT_ATTR_LIST &&
					   v->list.kind == HT_ATTR_FUNC && i < v->list.n;
				i++)
				add_body(b, v->list.item[i].func->name);
		}
}

static enum ht_status decide_bodies(
	struct ht_precision *p, struct ht_graph *program, struct ht_report_use *reported)
{
	struct bodies b = { .program = program, .arena = p->arena };

	ht_map_init(&b.seen, p->arena);
	add_bodies(&b, program);
	for (; b.walked < b.n; b.walked++) {
		struct ht_graph *body = b.function[b.walked]->body;
		HT_TRY(reported ? apply(p, body, reported) : decide(p, body));
		add_bodies(&b, body);
	}
	return HT_OK;
}

/* Decides as a report says, bodies included. */
static enum ht_status decide_again(struct ht_precision *p, struct ht_graph *g)
{
	struct ht_report_use use;

	ht_report_use_init(&use, p->policy->report, p->arena, p->diags);
	HT_TRY(apply(p, g, &use));
	HT_TRY(decide_bodies(p, g, &use));
	return ht_report_use_end(&use);
}

/* Runs a policy that paints, bodies included. */
static enum ht_status paint(const struct ht_precision_request *request, struct ht_graph *g,
	struct ht_pass_context *c, struct ht_decisions *out)
{
	const struct ht_policy *policy = request->policy;
	struct ht_fit how = { policy, c->diags, c->scratch, out };
	uint32_t ids = g->ids, *of_body;
	size_t n = 0;

	for (const struct ht_function *f = g->functions; f; f = f->next)
		n++;
	of_body = HT_NEW_ARRAY(c->scratch, uint32_t, n);
	n = 0;
	for (const struct ht_function *f = g->functions; f; f = f->next)
		of_body[n++] = f->body->ids;
	HT_TRY(ht_policy_effective(policy)->family->paint(policy, g, c, out));
	ht_fit_constants(g, ids, &how);
	n = 0;
	for (const struct ht_function *f = g->functions; f; f = f->next)
		ht_fit_constants(f->body, of_body[n++], &how);
	return HT_OK;
}

/* Samples are for budgets, and for the gradients of a training step.  A session has other entries beside the step. */
static enum ht_status check_samples(
	const struct ht_policy *policy, const struct ht_graph *g, const struct ht_pass_context *c)
{
	const struct ht_budget *b = &policy->budget;

	if (!ht_has_samples(b) || ht_budget_asked(b) || c->session || ht_changes_any(g))
		return HT_OK;
	return ht_error(c->diags, HT_E_USAGE, HT_NOWHERE,
		"samples have no effect without budget or frontier, as the graph changes no variable");
}

static enum ht_status decide_all(
	const struct ht_precision_request *request, struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_policy *policy = request->policy;
	struct ht_decisions unwanted = { .arena = c->scratch };
	struct ht_decisions *out = request->decisions ? request->decisions : &unwanted;
	struct ht_precision p = {
		.graph = g,
		.imported = request->imported ? request->imported : g,
		.arena = c->scratch,
		.diags = c->diags,
		.policy = policy,
		.target = c->target ? c->target : ht_target_host(),
		.decisions = out,
		.calibration = request->calibration,
		.loss_scale = c->scaled_loss.n ? c->loss_scale : 0,
	};
	const struct ht_policy_kind *kind = ht_policy_effective(policy);

	p.profile = ht_read(policy, HT_READ_profile)->profile;
	if (policy->report && policy->report->partial)
		return decide_again(&p, g); /* the policy was checked when the report was made */
	HT_TRY(ht_policy_check(policy, c->diags));
	HT_TRY(check_samples(policy, g, c));
	out->graph_nodes = g->nodes;
	if (kind->family->paint)
		return paint(request, g, c, out);
	ht_rules_resolve(&p);
	if (policy->report)
		return decide_again(&p, g);
	HT_TRY(decide(&p, g));
	if (ht_policy_can(kind, HT_CAN_DECIDE_BODIES))
		HT_TRY(decide_bodies(&p, g, NULL));
	p.graph = g;
	ht_rules_report(&p, out);
	return HT_OK;
}

enum ht_status ht_precision_decide(
	const struct ht_decider *self, struct ht_graph *g, struct ht_pass_context *c)
{
	const struct ht_precision_request *request = (const struct ht_precision_request *)self;
	const struct ht_policy *policy = request->policy;

	if (!policy->emulations)
		return decide_all(request, g, c);
	HT_TRY(ht_emulation_check(policy, g, c->diags));
	HT_TRY(decide_all(request, g, c));
	if (request->decisions)
		ht_emulation_note(policy, request->decisions);
	return ht_emulate(policy, g, c);
}
