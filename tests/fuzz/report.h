/* Uses a report as the policy for one small graph. */
#ifndef HT_FUZZ_REPORT_H
#define HT_FUZZ_REPORT_H

#include "passes/passes.h"
#include "precision/report/report.h"

static const char report_graph[] =
	"hir 1\nentry \"\" {\n  input \"x\" = %x\n  output \"soft\" = %soft\n}\n\n"
	"%x = Placeholder() {dtype=f32, shape=shape[2,2]}\n"
	"%w = Const() {dtype=f32, value=tensor f32[2,2] {0.5, 1.0, -1.0, 2.0}}\n"
	"%dense = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}\n"
	"%relu = Relu(%dense) {T=f32}\n"
	"%log = Log(%relu) {T=f32}\n"
	"%soft = Softmax(%log) {T=f32}\n";

/* Reads `text` and applies its decisions; *out, if not NULL, is the graph with these. */
static inline enum ht_status report_apply(struct ht_arena *a, struct ht_arena *scratch,
	struct ht_str text, struct ht_diags *d, struct ht_graph **out)
{
	struct ht_parse parse = { .arena = a, .diags = d, .path = "x.json" };
	struct ht_report_data *r = HT_NEW(a, struct ht_report_data);
	struct ht_policy *policy = HT_NEW(a, struct ht_policy);
	struct ht_decisions decisions = { .arena = a, .complete = true };
	struct ht_precision_request precision = {
		.decider = { ht_precision_decide }, .policy = policy, .decisions = &decisions
	};
	struct ht_pass_context c = { .scratch = scratch,
		.diags = d,
		.target = ht_targets()[0],
		.decider = &precision.decider,
		.verify = true };
	struct ht_graph *g;

	HT_TRY(ht_report_parse(&parse, text, r));
	HT_CHECK(ht_text_parse(a, ht_str(report_graph), "graph.hir", NULL, NULL, &g) == HT_OK);
	HT_CHECK(ht_policy_init(policy, "must_keep_origin_dtype", d) == HT_OK);
	policy->report = r;
	policy->kind = ht_report_kind(r);
	c.entry = g->entries;
	precision.imported = g;
	if (out)
		*out = g;
	return ht_run_passes(g, "infer,precision", NULL, &c);
}

#endif
