/* The standard pipeline and lowering, on any graph that passes the verifier: no pass crashes or
 * leaves an invalid graph, and the result is lowered or refused. */
#include "tests/fuzz/fuzz.h"

#include "lower/lower.h"
#include "passes/passes.h"

static void show(struct ht_arena *a, const struct ht_diags *d)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	for (const struct ht_diag *i = d->first; i; i = i->next) {
		ht_diag_print(i, &b);
		ht_putc(&b, '\n');
	}
	fputs(ht_buf_str(&b).p, stderr);
}

static void check(
	struct ht_arena *a, struct ht_arena *scratch, struct ht_diags *d, struct ht_str text)
{
	const char *const pipelines[] = { ht_pipeline_cleanup, ht_pipeline_precision,
		ht_pipeline_layout };
	struct ht_pass_context c = {
		.scratch = scratch, .diags = d, .target = ht_targets()[0], .verify = true
	};
	struct ht_lower_request how = {
		.scratch = scratch, .diags = d, .target = ht_targets()[0], .random_seed = -1
	};
	struct ht_plan *plan;
	struct ht_graph *g;

	if (ht_text_parse(a, text, "fuzz.hir", NULL, d, &g) != HT_OK ||
		ht_graph_sort(g, d) != HT_OK)
		return;
	c.entry = how.entry = g->entries;
	for (size_t i = 0; i < HT_COUNT(pipelines); i++) {
		enum ht_status st = ht_run_passes(g, pipelines[i], NULL, &c);

		if (st == HT_E_INTERNAL)
			show(a, d);
		HT_CHECK(st != HT_E_INTERNAL);
		if (st != HT_OK)
			return;
	}
	if (c.entry)
		ht_lower(g, &how, a, &plan);
	HT_CHECK(ht_run_passes(g, "expand_fused,infer", NULL, &c) != HT_E_INTERNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind u;
	struct ht_arena a, scratch;
	struct ht_diags d;

	ht_diags_init(&d);
	ht_arena_init(&a, &u);
	ht_arena_init(&scratch, &u);
	if (!setjmp(u.env))
		check(&a, &scratch, &d, (struct ht_str){ (const char *)data, size });
	ht_arena_release(&scratch);
	ht_arena_release(&a);
	ht_diags_release(&d);
	return 0;
}
