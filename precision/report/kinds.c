/* The kinds of policies that reports are. */
#include "precision/report/report.h"

/* A report of decisions after clean-ups is applied instead of deciding (report/apply.c). */
static const struct ht_policy_family applied = { 0 };
static const struct ht_policy_family painted = { .paint = ht_report_paint };
static const struct ht_policy_kind behind_cleanups = { .name = "report",
	.summary = "as a report of halftone explain --format json says",
	.family = &applied };
static const struct ht_policy_kind painting = {
	.name = "report", .summary = "as a report of a painting says", .family = &painted
};

const struct ht_policy_kind *ht_report_kind(const struct ht_report_data *r)
{
	return r->decisions.painted == HT_INVALID ? &behind_cleanups : &painting;
}

void ht_report_of_decisions(struct ht_policy *p, const struct ht_policy *policy,
	const struct ht_decisions *decisions, struct ht_arena *a)
{
	struct ht_report_data *r = HT_NEW(a, struct ht_report_data);

	r->path = "";
	r->partial = true;
	r->decisions = *decisions;
	for (int id = 0; id < HT_FUSION_END; id++)
		r->off[id] = ht_fusion_off(policy, (enum ht_fusion_id)id, a);
	ht_map_init(&r->nodes, a);
	for (size_t i = 0; i < decisions->nodes; i++)
		ht_map_at(&r->nodes, decisions->node[i].name)->value = &r->decisions.node[i];
	*p = *policy;
	p->report = r;
	p->kind = ht_report_kind(r);
}
