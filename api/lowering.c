/* From a model to a graph on which the standard passes have run, and the request for lowering
 * it. */
#include "api/api.h"

#include <string.h>

/* The index of `name` among `n` names; NULL means the first. */
static enum ht_status method_of(const char *name, const char *of, const char *const *names, int n,
	struct ht_diags *d, int *out)
{
	char all[64];
	int at = 0;

	*out = 0;
	for (int i = 0; name && i < n; i++)
		if (!strcmp(name, names[i])) {
			*out = i;
			return HT_OK;
		}
	if (!name)
		return HT_OK;
	for (int i = 0; i < n; i++)
		at += snprintf(all + at, sizeof all - (size_t)at, "%s%s",
			i == 0       ? ""
			: i == n - 1 ? " and "
				     : ", ",
			names[i]);
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "unknown method of %s '%s'; there are %s", of,
		name, all);
}

static enum ht_status methods_of(
	const struct ht_compile_options *opt, struct ht_diags *d, struct ht_methods_asked *asked)
{
	static const char *const conv[] = { [HT_CONV_AUTO] = "auto",
		[HT_CONV_DIRECT] = "direct",
		[HT_CONV_WINOGRAD] = "winograd",
		[HT_CONV_WINOGRAD_2X2] = "winograd-2x2" };
	static const char *const block[] = {
		[HT_BLOCK_AUTO] = "auto", [HT_BLOCK_KERNELS] = "kernels", [HT_BLOCK_ROWS] = "rows"
	};
	static const char *const batch[] = {
		[HT_BATCH_AUTO] = "auto", [HT_BATCH_WHOLE] = "whole", [HT_BATCH_PARTS] = "parts"
	};
	int i, k, j;

	HT_TRY(method_of(opt->conv_method, "convolution", conv, (int)HT_COUNT(conv), d, &i));
	HT_TRY(method_of(opt->block_method, "blocks", block, (int)HT_COUNT(block), d, &k));
	HT_TRY(method_of(opt->batch_method, "batches", batch, (int)HT_COUNT(batch), d, &j));
	*asked = (struct ht_methods_asked){ (enum ht_conv_method)i, (enum ht_block_method)k,
		(enum ht_batch_method)j };
	return HT_OK;
}

enum ht_status ht_compile_options_of(
	const struct ht_compile_options *opt, struct ht_diags *d, struct ht_compile_options *out)
{
	struct ht_compile_options all = HT_COMPILE_OPTIONS_INIT;

	HT_TRY(ht_caller_options(opt, "ht_compile_options", &all, sizeof all, d));
	*out = all;
	if (out->threads < 0)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "%d threads", out->threads);
	if (!out->threads)
		out->threads = 1;
	if (!out->target)
		out->target = "host";
	return HT_OK;
}

static enum ht_status no_such_target(const char *name, struct ht_diags *d)
{
	struct ht_str names[32], near[3];
	size_t n = 0;

	for (const struct ht_target *const *i = ht_targets(); *i && n < HT_COUNT(names); i++)
		names[n++] = ht_str((*i)->name);
	if (ht_near_names(ht_str(name), names, n, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"unknown target '%s'; did you mean '%.*s'?", name, HT_STR_ARG(near[0]));
	return ht_error(
		d, HT_E_USAGE, HT_NOWHERE, "unknown target '%s'; see halftone targets", name);
}

enum ht_status ht_target_of(const struct ht_compile_options *opt, struct ht_cache *c,
	struct ht_arena *a, struct ht_diags *d, const struct ht_target **out)
{
	const struct ht_target *t = ht_target_named(opt->target);

	if (ht_target_host_refused())
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"HALFTONE_HOST: '%s' is no target (halftone targets) whose code this machine runs",
			ht_target_host_refused());
	if (!t)
		return no_such_target(opt->target, d);
	return ht_target_rated(t, opt->policy, c, a, d, out);
}

/* Runs a pipeline, unless `stop_after` ended an earlier one. */
static enum ht_status run(
	struct ht_lowering *l, const char *pipeline, const char *stop_after, bool *stopped)
{
	if (*stopped)
		return HT_OK;
	HT_TRY(ht_run_passes(l->graph, pipeline, stop_after, &l->passes));
	*stopped = stop_after && ht_pipeline_names(pipeline, stop_after);
	return HT_OK;
}

bool ht_pipeline_names(const char *pipeline, const char *pass)
{
	size_t n = strlen(pass);

	for (const char *p = pipeline; *p; p += *p == ',') {
		size_t len = strcspn(p, ",");
		const char *end = p + len;
		p += strspn(p, " \t\n");
		if ((size_t)(end - p) >= n && !strncmp(p, pass, n) &&
			strspn(p + n, " \t\n") == (size_t)(end - p) - n)
			return true;
		p = end;
	}
	return false;
}

bool ht_policy_paints(const struct ht_policy *p)
{
	return p && ht_policy_effective(p)->family->paint;
}

/* Paints the whole imported graph, or if the user chose outputs or feeds, the part that they
 * need. */
static enum ht_status paint(
	const struct ht_model *m, struct ht_lowering *l, const char *stop_after, bool *stopped)
{
	if (!ht_policy_paints(&l->policy))
		return HT_OK;
	HT_TRY(run(l, m->outputs_set || m->inputs_set ? "feeds,prune,precision" : "precision",
		stop_after, stopped));
	ht_phase_end(&l->phases, "precision");
	return HT_OK;
}

static void release_policy(void *policy)
{
	ht_policy_release(policy);
}

static enum ht_status take_policy(struct ht_lowering *l, const struct ht_compile_options *opt,
	struct ht_work *w, struct ht_diags *d)
{
	struct ht_policy *keep;

	if (opt->policy) {
		l->policy = *opt->policy;
	} else { /* `l` may be freed before `w` */
		keep = HT_NEW(&w->arena, struct ht_policy);
		HT_TRY(ht_policy_init(keep, "must_keep_origin_dtype", d));
		ht_arena_defer(&w->arena, release_policy, keep);
		l->policy = *keep;
	}
	l->policy.reads = &l->reads;
	return HT_OK;
}

static enum ht_status lower_request(struct ht_lowering *l, const struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d)
{
	l->lower = (struct ht_lower_request){
		.scratch = l->passes.scratch,
		.diags = d,
		.target = l->passes.target,
		.entry = l->passes.entry,
		.fusions = &l->fusions,
		.reads = &l->reads,
		.random_seed = l->policy.random_seed,
		.numerics = opt->numerics != 0,
		.open = { m->open[0].least, m->open[0].most },
	};
	return methods_of(opt, d, &l->lower.asked);
}

/* The target of the code, and the target whose costs decide, each with its rates. */
static enum ht_status find_targets(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_work *w, struct ht_diags *d, struct ht_lowering *l)
{
	HT_TRY(ht_target_of(opt, m->cache, &w->arena, d, &l->passes.target));
	if (!l->policy.cost_target)
		return HT_OK;
	return ht_target_rated(
		l->policy.cost_target, &l->policy, m->cache, &w->arena, d, &l->policy.cost_target);
}

static enum ht_status run_as(const struct ht_model *m, const struct ht_compile_options *opt,
	enum ht_open open, enum ht_upto upto, const char *stop_after, struct ht_work *w,
	struct ht_diags *d, struct ht_lowering *l)
{
	bool stopped = false;

	memset(l, 0, sizeof *l);
	HT_TRY(ht_content_check(m, d));
	l->phases.phase[l->phases.n++] = (struct ht_phase){ "import", m->import_ns };
	ht_phase_start(&l->phases);
	if (stop_after && !ht_pass_named(ht_str(stop_after)))
		return ht_run_passes(
			m->graph, stop_after, NULL, &(struct ht_pass_context){ .diags = d });
	if (stop_after)
		HT_TRY(ht_model_check(m, w, d));
	l->decisions.arena = &w->arena;
	l->decisions.complete = upto == HT_UPTO_REPORT || upto == HT_UPTO_WRITTEN;
	HT_TRY(take_policy(l, opt, w, d));
	/* Painting changes functions too, so it needs copies of all. */
	HT_TRY((ht_policy_paints(&l->policy) ? ht_model_copy_whole : ht_model_copy)(
		m, w, open, d, &l->graph));
	l->passes = (struct ht_pass_context){
		.scratch = &w->scratch,
		.diags = d,
		.entry = l->graph->entries,
		.decider = &l->precision.decider,
		.fusions = &l->fusions,
		.variables = (upto == HT_UPTO_LOOK ? ht_variables_or_zeros : ht_variables_of)(m, w),
		.scaled_loss = ht_str(m->scaled_loss ? m->scaled_loss : ""),
		.loss_scale = m->loss_scale,
		.unchecked = m->unchecked,
		.session = m->session,
		.verify = true,
		.threads = opt->threads,
	};
	HT_TRY(find_targets(m, opt, w, d, l));
	ht_policy_fusions(&l->policy, &l->fusions, &w->arena);
	HT_TRY(ht_dump_graphs(&l->policy, w, &l->passes));
	HT_TRY(lower_request(l, m, opt, d));
	l->precision = (struct ht_precision_request){ { ht_precision_decide }, &l->policy, m->graph,
		&l->decisions, ht_calibrator_new(m, l, opt, &w->arena) };
	HT_TRY(paint(m, l, stop_after, &stopped));
	if (ht_policy_paints(&l->policy) && upto < HT_UPTO_MERGED)
		return HT_OK;
	/* Policies also decide on graphs that cannot be compiled, such as training graphs, whose
	 * variables have no values. */
	l->passes.keep_variables = upto < HT_UPTO_LAYOUT && !l->passes.variables;
	l->passes.keep_changed = upto < HT_UPTO_LAYOUT;
	l->passes.keep_computed_sizes = upto == HT_UPTO_PRECISION;
	l->passes.keep_functions = upto == HT_UPTO_PRECISION || upto == HT_UPTO_WRITTEN;
	HT_TRY(run(l, ht_pipeline_cleanup, stop_after, &stopped));
	ht_model_note_raised(m, l->graph, &w->arena, d);
	ht_phase_end(&l->phases, "cleanup");
	HT_TRY(run(l, ht_policy_paints(&l->policy) ? ht_pipeline_painted : ht_pipeline_precision,
		stop_after, &stopped));
	ht_phase_end(&l->phases, ht_policy_paints(&l->policy) ? "merge casts" : "precision");
	if (upto < HT_UPTO_LAYOUT)
		return HT_OK;
	HT_TRY(run(l, ht_pipeline_layout, stop_after, &stopped));
	ht_phase_end(&l->phases, "layout");
	if (stop_after && !stopped)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"pass '%s' is not in the standard pipeline", stop_after);
	return HT_OK;
}

/* Rows that depend on each other are computed together, so that the number of rows needs bounds as other open sizes do. */
enum ht_status ht_lowering_run(const struct ht_model *m, const struct ht_compile_options *opt,
	enum ht_open open, enum ht_upto upto, const char *stop_after, struct ht_work *w,
	struct ht_diags *d, struct ht_lowering *l)
{
	const struct ht_diags before = d ? *d : (struct ht_diags){ 0 };
	enum ht_status st = run_as(m, opt, open, upto, stop_after, w, d, l);
	bool mix = st == HT_E_UNSUPPORTED;

	if (!ht_model_has_rows(m, open))
		return st;
	if (st == HT_OK && upto == HT_UPTO_LAYOUT && !stop_after)
		mix = !ht_rows_are_apart(l->graph, l->passes.entry, &w->scratch);
	if (!mix)
		return st;
	if (d)
		ht_diags_restore(d, &before);
	ht_model_note_bounds(m, HT_OPEN_BOUNDED, &w->arena, d);
	return run_as(m, opt, HT_OPEN_BOUNDED, upto, stop_after, w, d, l);
}

enum ht_status ht_lowering_decide(const struct ht_model *m, const struct ht_compile_options *opt,
	enum ht_upto upto, struct ht_work *w, struct ht_diags *d, struct ht_lowering *l)
{
	if (ht_model_open(m, 0).stay && !m->open[0].stay)
		ht_note(d, (struct ht_where){ .path = m->graph->path, .offset = -1 },
			"the open first dimension counts as one row here");
	return ht_lowering_run(m, opt, HT_OPEN_ONE, upto, NULL, w, d, l);
}
