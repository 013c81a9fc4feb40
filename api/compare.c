/* Comparisons: programs of a model under several policies, run on the same samples.  This file begins and ends them. */
#include "api/compare.h"

#include <stdlib.h>
#include <string.h>

void ht_comparison_free(struct ht_comparison *c)
{
	if (!c)
		return;
	ht_attribution_free(c->attribution);
	ht_program_free(c->reference);
	for (struct ht_compared *r = c->first; r; r = r->next)
		ht_compared_release(r);
	ht_compared_release(&c->base);
	ht_compared_release(&c->wide_row);
	ht_arena_release(&c->scratch);
	ht_arena_release(&c->arena);
	free(c);
}

struct ht_where ht_compared_place(const struct ht_comparison *c)
{
	return (struct ht_where){ .path = c->path.n ? c->path.p : NULL, .offset = -1 };
}

static enum ht_status check_ports(struct ht_comparison *c, struct ht_diags *d)
{
	const struct ht_program *p = c->base.program;

	for (size_t i = 0; i < ht_program_inputs(p); i++)
		if (p->input[i].dtype == HT_STRING)
			return ht_error(d, HT_E_UNSUPPORTED, ht_compared_place(c),
				"input '%s' is of strings, which samples do not have",
				p->input[i].name);
	for (size_t i = 0; i < ht_program_outputs(p); i++)
		if (!ht_values_are_numbers(p->output[i].dtype))
			return ht_error(d, HT_E_UNSUPPORTED, ht_compared_place(c),
				"output '%s' is %s, which is not compared", p->output[i].name,
				ht_dtype_name(p->output[i].dtype));
	return HT_OK;
}

static bool shares_rows(const struct ht_value_info *v, size_t n, int64_t rows)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].rank < 1 || v[i].dim[0] != rows)
			return false;
	return true;
}

static size_t rows_of(const struct ht_program *p)
{
	int64_t rows = p->inputs && p->input[0].rank > 0 ? p->input[0].dim[0] : 1;

	return rows > 1 && shares_rows(p->input, p->inputs, rows) &&
			       shares_rows(p->output, p->outputs, rows)
		       ? (size_t)rows
		       : 1;
}

/* "[OUTPUT:]METRIC" */
static enum ht_status set_task(struct ht_comparison *c, const char *text, struct ht_diags *d)
{
	const char *colon = text ? strrchr(text, ':') : NULL, *name = colon ? colon + 1 : text;
	const struct ht_value_info *v;
	char output[512];

	if (!text)
		return HT_OK;
	c->task = ht_task_named(ht_str(name));
	if (c->task == HT_TASK_NONE)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "there is no metric '%s'; there are %s",
			name, ht_task_names);
	snprintf(output, sizeof output, "%.*s", colon ? (int)(colon - text) : 0, text);
	if (colon && !ht_program_output_named(c->base.program, output, &c->task_output))
		return ht_error(d, HT_E_USAGE, ht_compared_place(c),
			"metric: there is no output '%s'", output);
	v = &c->base.program->output[c->task_output];
	if (c->task == HT_TASK_KEYPOINTS && v->rank < 3)
		return ht_error(d, HT_E_USAGE, ht_compared_place(c),
			"metric: keypoints are peaks of maps, of which output '%s' of %d dimensions has none",
			v->name, (int)v->rank);
	return HT_OK;
}

struct creation {
	struct ht_comparison *c;
	const struct ht_comparison_options *opt;
	struct ht_diags said;
	struct ht_diags *d;
};

/* Compiles the float64 variant, if it is the reference. */
static enum ht_status build_wide(struct creation *k)
{
	struct ht_comparison *c = k->c;

	if (!k->opt->reference || strcmp(k->opt->reference, "f64"))
		return HT_OK;
	c->wide = HT_NEW(&c->arena, struct ht_model);
	*c->wide = *c->model;
	c->wide->wide = true;
	c->wide_row.status = ht_compared_build(c, &c->wide_row, NULL, &k->said);
	ht_compared_tell(c, &c->wide_row, &k->said, k->d);
	return c->wide_row.status;
}

static enum ht_status create(void *arg)
{
	struct creation *k = arg;
	struct ht_comparison *c = k->c;

	ht_map_init(&c->told, &c->arena);
	c->path =
		ht_str_copy(&c->arena, ht_str(c->model->graph->path ? c->model->graph->path : ""));
	c->base.status = ht_compared_build(c, &c->base, NULL, &k->said);
	ht_compared_tell(c, &c->base, &k->said, k->d);
	HT_TRY(c->base.status);
	if (!ht_program_outputs(c->base.program))
		return ht_error(
			k->d, HT_E_USAGE, ht_compared_place(c), "there is no output to compare");
	HT_TRY(check_ports(c, k->d));
	HT_TRY(build_wide(k));
	c->rows = rows_of(c->base.program);
	c->in = HT_NEW_ARRAY(&c->arena, struct ht_array, ht_program_inputs(c->base.program));
	HT_TRY(set_task(c, k->opt->metric, k->d));
	return ht_tolerances_parse(c, k->opt->tolerance, k->opt->tolerances, k->d);
}

enum ht_status ht_comparison_new(const struct ht_model *m, const struct ht_comparison_options *opt,
	struct ht_diags *d, struct ht_comparison **out)
{
	struct ht_comparison_options all = HT_COMPARISON_OPTIONS_INIT;
	struct ht_comparison *c;
	struct creation k;
	enum ht_status st;

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_comparison_options", &all, sizeof all, d));
	if (all.reference && strcmp(all.reference, "f32") && strcmp(all.reference, "f64") &&
		strcmp(all.reference, "given"))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no reference '%s'; there are f32, f64 and given", all.reference);
	if (ht_model_leaves_open(m))
		return ht_error(d, HT_E_USAGE,
			(struct ht_where){ .path = m->graph->path, .offset = -1 },
			"what is compared has sizes: state those of the inputs, or a batch");
	c = ht_sys_alloc(sizeof *c);
	if (!c)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&c->arena, &c->unwind);
	ht_arena_init(&c->scratch, &c->unwind);
	c->model = m;
	c->last = &c->first;
	c->given = all.reference && !strcmp(all.reference, "given");
	c->base.name = HT_STR("float32");
	c->base.arena = c->wide_row.arena = &c->arena;
	c->wide_row.name = HT_STR("float64");
	k = (struct creation){ .c = c, .opt = &all, .d = d };
	ht_diags_init(&k.said);
	st = ht_compile_options_of(all.compile, d, &c->compile);
	c->compile.numerics = 0;
	c->compile.tee = 0;
	if (st == HT_OK)
		st = ht_guarded(&c->unwind, create, &k, d);
	ht_diags_release(&k.said);
	if (st == HT_OK)
		*out = c;
	else
		ht_comparison_free(c);
	return st;
}

/* ---- a model that could not be compared ---- */

struct failure {
	struct ht_comparison *c;
	const char *model, *why;
};

static enum ht_status fill_failed(void *arg)
{
	struct failure *k = arg;

	k->c->path = ht_str_copy(&k->c->arena, ht_str(k->model ? k->model : ""));
	k->c->base.why = ht_str_copy(&k->c->arena, ht_str(k->why ? k->why : ""));
	return HT_OK;
}

enum ht_status ht_comparison_failed(const char *model, enum ht_status status, const char *why,
	struct ht_diags *d, struct ht_comparison **out)
{
	struct failure k = { .model = model, .why = why };
	enum ht_status st;

	*out = NULL;
	if (status == HT_OK || status == HT_E_VERDICT)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"a comparison that failed needs the status of an error");
	k.c = ht_sys_alloc(sizeof *k.c);
	if (!k.c)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&k.c->arena, &k.c->unwind);
	ht_arena_init(&k.c->scratch, &k.c->unwind);
	k.c->last = &k.c->first;
	k.c->compile.threads = 1;
	k.c->base.status = status;
	st = ht_guarded(&k.c->unwind, fill_failed, &k, d);
	if (st == HT_OK)
		*out = k.c;
	else
		ht_comparison_free(k.c);
	return st;
}

struct ht_str ht_compared_model(const struct ht_comparison *c, const char *otherwise)
{
	return c->path.n ? c->path : ht_str(otherwise);
}

const struct ht_program *ht_comparison_program(const struct ht_comparison *c)
{
	return c->base.program;
}

const char *ht_reference_name(const struct ht_comparison *c)
{
	return c->given ? "given" : c->wide ? "float64" : "float32";
}

size_t ht_comparison_rows(const struct ht_comparison *c)
{
	return c->rows;
}

/* ---- nodes ---- */

struct ht_attribution_of ht_comparison_attributes(struct ht_comparison *c, struct ht_compared *r)
{
	return (struct ht_attribution_of){ .model = c->model,
		.compile = &c->compile,
		.base = c->base.program,
		.row = r->program,
		.reference = &c->reference,
		.nodes = &r->nodes,
		.results = &c->arena,
		.unwind = &c->unwind };
}

enum ht_status ht_comparison_nodes(struct ht_comparison *c, const char *name,
	const struct ht_policy *p, size_t memory, struct ht_diags *d)
{
	struct ht_attribution_of of;
	struct ht_compared *row = NULL;

	HT_TRY(ht_compared_need(c, d));
	ht_attribution_free(c->attribution);
	c->attribution = NULL;
	if (!name)
		return HT_OK;
	for (struct ht_compared *r = c->first; r; r = r->next)
		if (ht_str_eq(r->name, ht_str(name)))
			row = r;
	if (!row)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no policy '%s' to compare nodes of", name);
	if (row->status != HT_OK)
		return ht_error(d, row->status, HT_NOWHERE, "policy '%s' failed: %.*s", name,
			HT_STR_ARG(row->why));
	of = ht_comparison_attributes(c, row);
	of.policy = p;
	of.memory = memory;
	return ht_attribution_new(&of, d, &c->attribution);
}

enum ht_status ht_comparison_nodes_sample(struct ht_comparison *c, const char *where,
	const struct ht_array *in, size_t ins, struct ht_diags *d)
{
	if (!c->attribution)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"ht_comparison_nodes() comes before the samples");
	return ht_attribution_sample(c->attribution, where ? where : "a sample", in, ins, d);
}
