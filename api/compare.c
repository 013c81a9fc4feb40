/* Comparisons: programs of a model under several policies, run on the same samples. */
#include "api/compare.h"

#include <halftone/cache.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Random ops draw the same numbers under all policies. */
#define SEED 1

/* ---- making and freeing ---- */

static void release_row(struct ht_compared *r)
{
	ht_context_free(r->context);
	ht_program_free(r->program);
}

void ht_comparison_free(struct ht_comparison *c)
{
	if (!c)
		return;
	ht_attribution_free(c->attribution);
	ht_program_free(c->reference);
	for (struct ht_compared *r = c->first; r; r = r->next)
		release_row(r);
	release_row(&c->base);
	release_row(&c->wide_row);
	ht_arena_release(&c->scratch);
	ht_arena_release(&c->arena);
	free(c);
}

static struct ht_where at_model(const struct ht_comparison *c)
{
	return (struct ht_where){ .path = c->path.n ? c->path.p : NULL, .offset = -1 };
}

static bool is_told(struct ht_comparison *c, const struct ht_diag *i)
{
	struct ht_str key = ht_str_printf(
		&c->arena, "%.*s\n%.*s", HT_STR_ARG(i->where.node), HT_STR_ARG(i->text));
	struct ht_map_entry *e = ht_map_at(&c->told, key);
	bool told = e->value != NULL;

	e->value = e;
	return told;
}

/* Passes the messages of one policy to the caller, without notes that were given before.  Keeps
 * the last error. */
static void tell(struct ht_comparison *c, struct ht_compared *r, const struct ht_diags *said,
	struct ht_diags *d)
{
	for (const struct ht_diag *i = said->first; i; i = i->next) {
		if (i->severity == HT_ERROR) {
			r->why = ht_str_copy(&c->arena, i->text);
			ht_error(d, i->status, i->where, "%.*s", HT_STR_ARG(i->text));
		} else if (is_told(c, i)) {
			continue;
		} else if (i->severity == HT_WARNING) {
			ht_warn(d, i->where, "%.*s", HT_STR_ARG(i->text));
		} else {
			ht_note(d, i->where, "%.*s", HT_STR_ARG(i->text));
		}
	}
}

static void make_room(struct ht_compared *r)
{
	size_t n = ht_program_outputs(r->program);

	r->out = HT_NEW_ARRAY(r->arena, struct ht_array, n);
	r->errors = HT_NEW_ARRAY(r->arena, struct ht_errors, n);
	for (size_t i = 0; i < n; i++) {
		const struct ht_value_info *v = &r->program->output[i];
		r->out[i] = (struct ht_array){ ht_alloc(r->arena, v->bytes + 64), v->bytes,
			v->dtype, v->rank, v->dim };
		ht_errors_init(&r->errors[i], v->dtype, r->lowest, r->arena);
	}
}

/* Notes whether the cache has the compilation that follows, and if not, why. */
static void ask_cache(struct ht_comparison *c, struct ht_compared *r)
{
	struct ht_bytes said = { 0 };
	enum ht_status st;

	if (!c->model->cache || r == &c->wide_row)
		return;
	st = ht_cache_why_miss(c->model->cache, c->model, &c->compile, HT_FORMAT_TEXT, NULL, &said);
	if (st == HT_OK || st == HT_E_VERDICT)
		r->cache = ht_str_copy(&c->arena, (struct ht_str){ said.p, strcspn(said.p, "\n") });
	ht_bytes_free(&said);
}

static enum ht_status build(struct ht_comparison *c, struct ht_compared *r,
	const struct ht_policy *p, struct ht_diags *d)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	int64_t before = ht_now_ns();

	c->compile.policy = p;
	ask_cache(c, r);
	HT_TRY(ht_compile(r == &c->wide_row ? c->wide : c->model, &c->compile, d, &r->program));
	c->compile_ns += ht_now_ns() - before;
	opt.threads = c->compile.threads;
	HT_TRY(ht_context_new(r->program, &opt, d, &r->context));
	if (r->lowest == HT_INVALID && r != &c->wide_row)
		ht_compared_decisions(r, c, p);
	make_room(r);
	return HT_OK;
}

static enum ht_status check_ports(struct ht_comparison *c, struct ht_diags *d)
{
	const struct ht_program *p = c->base.program;

	for (size_t i = 0; i < ht_program_inputs(p); i++)
		if (p->input[i].dtype == HT_STRING)
			return ht_error(d, HT_E_UNSUPPORTED, at_model(c),
				"input '%s' is of strings, which samples do not have",
				p->input[i].name);
	for (size_t i = 0; i < ht_program_outputs(p); i++)
		if (!ht_values_are_numbers(p->output[i].dtype))
			return ht_error(d, HT_E_UNSUPPORTED, at_model(c),
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
		return ht_error(
			d, HT_E_USAGE, at_model(c), "metric: there is no output '%s'", output);
	v = &c->base.program->output[c->task_output];
	if (c->task == HT_TASK_KEYPOINTS && v->rank < 3)
		return ht_error(d, HT_E_USAGE, at_model(c),
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
	c->wide_row.status = build(c, &c->wide_row, NULL, &k->said);
	tell(c, &c->wide_row, &k->said, k->d);
	return c->wide_row.status;
}

static enum ht_status create(void *arg)
{
	struct creation *k = arg;
	struct ht_comparison *c = k->c;

	ht_map_init(&c->told, &c->arena);
	c->path =
		ht_str_copy(&c->arena, ht_str(c->model->graph->path ? c->model->graph->path : ""));
	c->base.status = build(c, &c->base, NULL, &k->said);
	tell(c, &c->base, &k->said, k->d);
	HT_TRY(c->base.status);
	if (!ht_program_outputs(c->base.program))
		return ht_error(k->d, HT_E_USAGE, at_model(c), "there is no output to compare");
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

/* Refuses calls that need a model. */
static enum ht_status need_model(const struct ht_comparison *c, struct ht_diags *d)
{
	return c->model ? HT_OK
			: ht_error(d, HT_E_USAGE, at_model(c),
				  "the model could not be compared: %.*s", HT_STR_ARG(c->base.why));
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

/* ---- policies ---- */

struct addition {
	struct ht_comparison *c;
	const char *name;
	const struct ht_policy *policy;
	enum ht_dtype lowest; /* the lowest type of its decisions, or HT_INVALID */
	struct ht_compared *row;
	struct ht_diags said;
	struct ht_diags *d;
};

static void find_same(struct ht_comparison *c, struct ht_compared *row)
{
	for (struct ht_compared *r = c->first; r != row && !row->same; r = r->next)
		if (r->status == HT_OK && ht_hash_eq(r->decisions, row->decisions))
			row->same = r;
	if (!row->same && ht_hash_eq(c->base.decisions, row->decisions))
		row->same = &c->base;
}

static enum ht_status add(void *arg)
{
	struct addition *k = arg;
	struct ht_comparison *c = k->c;
	struct ht_compared *r = k->row = HT_NEW(&c->arena, struct ht_compared);

	r->arena = ht_arena_within(&c->arena);
	r->lowest = k->lowest;
	r->lowest_name = ht_dtype_name(k->lowest);
	r->name = ht_str_copy(&c->arena, ht_str(k->name));
	for (struct ht_compared *i = c->first; i; i = i->next)
		if (ht_str_eq(i->name, r->name))
			return ht_error(k->d, HT_E_USAGE, HT_NOWHERE, "policy '%s' is stated twice",
				k->name);
	*c->last = r;
	c->last = &r->next;
	c->policies++;
	r->status = build(c, r, k->policy, &k->said);
	if (r->status == HT_OK && k->lowest == HT_INVALID)
		find_same(c, r);
	tell(c, r, &k->said, k->d);
	return r->status;
}

static enum ht_status add_row(struct addition *k)
{
	enum ht_status st;

	ht_diags_init(&k->said);
	st = ht_guarded(&k->c->unwind, add, k, k->d);
	if (k->row && st != HT_OK)
		k->row->status = st;
	ht_diags_release(&k->said);
	return st;
}

enum ht_status ht_comparison_add(
	struct ht_comparison *c, const char *name, const struct ht_policy *p, struct ht_diags *d)
{
	struct addition k = { .c = c, .name = name, .policy = p, .d = d };

	HT_TRY(need_model(c, d));
	if (c->runs)
		return ht_error(
			d, HT_E_USAGE, HT_NOWHERE, "policy '%s' comes behind a sample", name);
	return add_row(&k);
}

static void drop_policies(struct ht_comparison *c)
{
	ht_attribution_free(c->attribution);
	c->attribution = NULL;
	for (struct ht_compared *r = c->first; r; r = r->next) {
		release_row(r);
		ht_arena_release(r->arena);
	}
	c->first = NULL;
	c->last = &c->first;
	c->policies = c->samples = c->runs = 0;
}

enum ht_status ht_comparison_try(struct ht_comparison *c, const char *name,
	const struct ht_policy *p, enum ht_dtype lowest, struct ht_diags *d)
{
	struct addition k = { .c = c, .name = name, .policy = p, .lowest = lowest, .d = d };

	drop_policies(c);
	return add_row(&k);
}

/* ---- samples ---- */

struct sample {
	struct ht_comparison *c;
	const char *where;
	const struct ht_array *in, *expected, *label;
	size_t ins, expecteds;
	struct ht_diags *d;
};

static struct ht_values values_of(const struct ht_array *a)
{
	size_t floats = a->dtype == HT_C64 || a->dtype == HT_C128 ? 2 : 1;
	struct ht_values v = { .data = a->data, .dtype = a->dtype, .row = 1 };

	v.count = a->bytes / ht_dtype_bytes(a->dtype) * floats;
	if (a->rank > 0 && a->dim[a->rank - 1] > 0 && floats == 1)
		v.row = (size_t)a->dim[a->rank - 1];
	return v;
}

/* The rows of a sample from `at` on, as many as a run takes. */
static struct ht_values part_of(struct ht_values v, size_t at, size_t rows)
{
	size_t n = v.count / rows, width = v.count ? ht_dtype_bytes(v.dtype) : 0;

	v.data = (const char *)v.data + at * n * width;
	v.count = n;
	if (v.row > n)
		v.row = n ? n : 1;
	return v;
}

/* The first element that is NaN; the number of elements: none is. */
static size_t first_nan(const struct ht_array *a)
{
	struct ht_values v = values_of(a);
	size_t k = 0;

	if (!a->data ||
		(!ht_is_float(a->dtype) && ht_dtype_info(a->dtype)->kind != HT_KIND_COMPLEX))
		return v.count;
	while (k < v.count && !isnan(ht_value(&v, k)))
		k++;
	return k;
}

static enum ht_status check_expected(const struct sample *s)
{
	const struct ht_program *p = s->c->base.program;

	if (s->expecteds != (s->c->given ? p->outputs : 0))
		return ht_error(s->d, HT_E_INPUT, HT_NOWHERE,
			"%s: %zu arrays of reference were given, %zu are needed", s->where,
			s->expecteds, s->c->given ? p->outputs : 0);
	for (size_t i = 0; i < s->expecteds; i++) {
		const struct ht_array *a = &s->expected[i];
		const struct ht_value_info *v = &p->output[i];
		struct ht_values got = values_of(a);
		bool fits = ht_values_are_numbers(a->dtype) && a->rank == v->rank;
		size_t nan;

		for (int32_t k = 0; fits && k < a->rank; k++)
			fits = a->dim[k] == v->dim[k];
		if (!fits || got.count * (v->bytes ? ht_dtype_bytes(v->dtype) : 1) < v->bytes)
			return ht_error(s->d, HT_E_INPUT, HT_NOWHERE,
				"%s: the reference of output '%s' has not the output's shape",
				s->where, v->name);
		nan = first_nan(a);
		if (nan < got.count)
			return ht_error(s->d, HT_E_INPUT, HT_NOWHERE,
				"%s: the reference of output '%s' has NaN, first at element %zu",
				s->where, v->name, nan);
	}
	return HT_OK;
}

static enum ht_status check_label(const struct sample *s)
{
	const struct ht_comparison *c = s->c;
	const struct ht_array *out = &c->base.out[c->task_output];
	struct ht_values got = values_of(out), label;
	size_t classes = got.row > 1 ? got.row : 2;

	if (!s->label)
		return c->runs && c->labelled
			       ? ht_error(s->d, HT_E_INPUT, HT_NOWHERE, "%s has no label", s->where)
			       : HT_OK;
	if (c->task == HT_TASK_NONE)
		return ht_error(s->d, HT_E_USAGE, HT_NOWHERE, "labels without a metric");
	if (!ht_values_are_numbers(s->label->dtype))
		return ht_error(s->d, HT_E_INPUT, HT_NOWHERE, "%s: labels of type %s", s->where,
			ht_dtype_name(s->label->dtype));
	label = values_of(s->label);
	if (label.count == got.count && got.row > 1)
		return HT_OK;
	if (label.count != (ht_task_has_classes(c->task) ? got.count / got.row : got.count))
		return ht_error(s->d, HT_E_INPUT, HT_NOWHERE,
			"%s: the label has %zu elements; output '%s' has %zu, in rows of %zu",
			s->where, label.count, c->base.program->output[c->task_output].name,
			got.count, got.row);
	for (size_t i = 0; ht_task_has_classes(c->task) && i < label.count; i++) {
		double x = ht_value(&label, i);
		if (!(x >= 0 && x < (double)classes) || x != floor(x))
			return ht_error(s->d, HT_E_INPUT, HT_NOWHERE,
				"%s: label %g is none of the %zu classes", s->where, x, classes);
	}
	return HT_OK;
}

static enum ht_status run(struct ht_comparison *c, struct ht_compared *r, struct ht_diags *d)
{
	int64_t before = ht_now_ns();
	enum ht_status st;

	ht_context_reset(r->context);
	ht_context_set_seed(r->context, SEED);
	st = ht_context_run(r->context, c->in, ht_program_inputs(r->program), r->out,
		ht_program_outputs(r->program), d);
	c->run_ns += ht_now_ns() - before;
	return st;
}

/* All policies have inputs and outputs of the same types: outputs keep their types. */
/* What the outputs are compared with, by output. */
static const struct ht_array *reference_of(const struct sample *s)
{
	return s->c->given ? s->expected : s->c->wide ? s->c->wide_row.out : s->c->base.out;
}

static void add_errors(const struct sample *s, struct ht_compared *r)
{
	const struct ht_array *want = reference_of(s);

	for (size_t i = 0; i < ht_program_outputs(r->program); i++) {
		struct ht_values a = values_of(&r->out[i]), b = values_of(&want[i]);
		ht_errors_add(&r->errors[i], &a, &b);
	}
}

static size_t columns_of(const struct ht_array *a)
{
	return a->rank > 1 && a->dim[a->rank - 2] > 0 ? (size_t)a->dim[a->rank - 2] : 1;
}

static void add_metric(const struct sample *s, struct ht_compared *r)
{
	struct ht_comparison *c = s->c;
	size_t at = c->task_output, columns = columns_of(&r->out[at]);
	const struct ht_array *want = &reference_of(s)[at];
	struct ht_values got = values_of(&r->out[at]), ref = values_of(want),
			 truth = s->label ? values_of(s->label) : ref;

	for (size_t i = 0; i < c->rows; i++) {
		struct ht_values a = part_of(got, i, c->rows), b = part_of(ref, i, c->rows),
				 t = part_of(truth, i, c->rows);
		ht_paired_add(&r->metric, ht_task_value(c->task, &b, &t, columns, &c->scratch),
			ht_task_value(c->task, &a, &t, columns, &c->scratch));
	}
}

static void run_policy(const struct sample *s, struct ht_compared *r)
{
	struct ht_diags said;

	if (r->status != HT_OK)
		return;
	ht_diags_init(&said);
	r->status = run(s->c, r, &said);
	tell(s->c, r, &said, s->d);
	ht_diags_release(&said);
	if (r->status != HT_OK)
		return;
	add_errors(s, r);
	if (s->c->task)
		add_metric(s, r);
}

/* Keeps the inputs, for measuring latency. */
static void keep_inputs(struct ht_comparison *c, const struct ht_array *in)
{
	for (size_t i = 0; i < ht_program_inputs(c->base.program); i++) {
		void *data = c->in[i].data ? c->in[i].data : ht_alloc(&c->arena, in[i].bytes + 64);
		if (in[i].data)
			memcpy(data, in[i].data, in[i].bytes);
		else
			memcpy(data, c->base.program->input[i].value, in[i].bytes);
		c->in[i] = (struct ht_array){ data, in[i].bytes, in[i].dtype,
			c->base.program->input[i].rank, c->base.program->input[i].dim };
	}
}

/* Warns once of each input that has NaN in a sample: outputs that it makes NaN under all policies do not differ. */
static void warn_of_nan(const struct sample *s)
{
	struct ht_comparison *c = s->c;

	for (size_t i = 0; i < s->ins; i++) {
		const char *name = c->base.program->input[i].name;
		struct ht_diag key = { .text = HT_STR("NaN"), .where = { .node = ht_str(name) } };
		size_t at = first_nan(&s->in[i]);

		if (at < values_of(&s->in[i]).count && !is_told(c, &key))
			ht_warn(s->d, HT_NOWHERE,
				"%s: input '%s' has NaN, first at element %zu: outputs that are "
				"NaN in the reference too count as equal",
				s->where, name, at);
	}
}

static enum ht_status run_wide(const struct sample *s)
{
	const struct ht_compared *r = &s->c->wide_row;

	if (!s->c->wide)
		return HT_OK;
	ht_context_reset(r->context);
	ht_context_set_seed(r->context, SEED);
	return ht_context_run(
		r->context, s->in, s->ins, r->out, ht_program_outputs(r->program), s->d);
}

static enum ht_status add_sample(void *arg)
{
	struct sample *s = arg;
	struct ht_comparison *c = s->c;
	int64_t before = ht_now_ns(), ns;

	HT_TRY(check_expected(s));
	HT_TRY(check_label(s));
	ns = ht_now_ns();
	/* ht_context_run() reports arrays that do not fit. */
	HT_TRY(ht_context_run(c->base.context, s->in, s->ins, c->base.out,
		ht_program_outputs(c->base.program), s->d));
	c->run_ns += ht_now_ns() - ns;
	warn_of_nan(s);
	HT_TRY(run_wide(s));
	keep_inputs(c, s->in);
	for (struct ht_compared *r = c->first; r; r = r->next)
		run_policy(s, r);
	ht_arena_release(&c->scratch);
	c->labelled = s->label != NULL;
	c->runs++;
	c->samples += c->rows;
	c->all_ns += ht_now_ns() - before;
	return HT_OK;
}

enum ht_status ht_comparison_sample(struct ht_comparison *c, const char *where,
	const struct ht_array *in, size_t ins, const struct ht_array *expected, size_t expecteds,
	const struct ht_array *label, struct ht_diags *d)
{
	struct sample s = { c, where ? where : "a sample", in, expected, label, ins, expecteds, d };

	HT_TRY(need_model(c, d));
	ht_context_reset(c->base.context);
	ht_context_set_seed(c->base.context, SEED);
	return ht_guarded(&c->unwind, add_sample, &s, d);
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

	HT_TRY(need_model(c, d));
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

/* ---- latency ---- */

struct timing {
	struct ht_comparison *c;
	struct ht_compared **row; /* programs that can be run, the base first */
	size_t rows, rounds;
	struct ht_diags *d;
};

static enum ht_status time_one(struct timing *t, struct ht_compared *r)
{
	int64_t before;

	HT_TRY(run(t->c, r, t->d)); /* loads its weights and arena into the caches */
	before = ht_now_ns();
	HT_TRY(run(t->c, r, t->d));
	r->ms[r->rounds++] = (double)(ht_now_ns() - before) / 1e6;
	return HT_OK;
}

static enum ht_status time_all(void *arg)
{
	struct timing *t = arg;
	struct ht_comparison *c = t->c;
	int64_t before = ht_now_ns();

	t->row = HT_NEW_ARRAY(&c->scratch, struct ht_compared *, c->policies + 1);
	t->row[t->rows++] = &c->base;
	for (struct ht_compared *r = c->first; r; r = r->next)
		if (r->status == HT_OK)
			t->row[t->rows++] = r;
	for (size_t i = 0; i < t->rows; i++) {
		double *ms = HT_NEW_ARRAY(&c->arena, double, t->row[i]->rounds + t->rounds);
		if (t->row[i]->rounds)
			memcpy(ms, t->row[i]->ms, t->row[i]->rounds * sizeof *ms);
		t->row[i]->ms = ms;
	}
	for (size_t k = 0; k < t->rounds; k++)
		for (size_t i = 0; i < t->rows; i++)
			HT_TRY(time_one(t, t->row[(i + k) % t->rows]));
	ht_arena_release(&c->scratch);
	c->all_ns += ht_now_ns() - before;
	return HT_OK;
}

enum ht_status ht_comparison_time(struct ht_comparison *c, size_t rounds, struct ht_diags *d)
{
	struct timing t = { .c = c, .rounds = rounds, .d = d };

	if (!c->runs)
		return ht_error(d, HT_E_USAGE, at_model(c), "there is no sample to measure with");
	return ht_guarded(&c->unwind, time_all, &t, d);
}

enum ht_status ht_comparison_verdict(const struct ht_comparison *c, struct ht_diags *d)
{
	struct ht_work w;
	enum ht_status st;

	if (c->model && !c->runs)
		return ht_error(d, HT_E_USAGE, at_model(c), "there are no samples");
	ht_work_init(&w);
	if (setjmp(w.unwind.env))
		st = HT_E_ENVIRONMENT;
	else
		st = ht_comparison_worst(c, &w.arena);
	ht_work_release(&w);
	return st;
}

/* ---- forms ---- */

struct printing {
	const struct ht_comparison *const *c;
	size_t n;
	enum ht_comparison_form form;
	const char *command;
	struct ht_work w;
	struct ht_bytes *out;
	struct ht_diags *d;
};

static enum ht_status print(void *arg)
{
	struct printing *p = arg;
	struct ht_buf b;

	ht_buf_init(&b, &p->w.arena);
	if (p->form == HT_COMPARISON_JSON)
		ht_comparison_json(p->c, p->n, p->command, &b);
	else if (p->form == HT_COMPARISON_JUNIT)
		ht_comparison_junit(p->c, p->n, &b);
	for (size_t i = 0; i < p->n; i++) {
		if (p->form == HT_COMPARISON_TEXT || p->form == HT_COMPARISON_MARKDOWN)
			ht_comparison_text(p->c[i], p->form == HT_COMPARISON_MARKDOWN, &b);
		else if (p->form == HT_COMPARISON_CSV)
			ht_comparison_csv(p->c[i], i == 0, &b);
		else if (p->form == HT_COMPARISON_GITHUB)
			ht_comparison_github(p->c[i], &b);
		else if (p->form == HT_COMPARISON_NODES_CSV)
			ht_nodes_csv(p->c[i], i == 0, &b);
		else if (p->form == HT_COMPARISON_NODE_DATA && !i)
			ht_nodes_data(p->c[i], &b);
	}
	return ht_bytes_of(ht_buf_str(&b), p->out);
}

enum ht_status ht_comparison_print(const struct ht_comparison *const *c, size_t n,
	enum ht_comparison_form form, const char *command, struct ht_diags *d, struct ht_bytes *out)
{
	struct printing p = {
		.c = c, .n = n, .form = form, .command = command, .out = out, .d = d
	};

	*out = (struct ht_bytes){ 0 };
	return ht_work_run(&p.w, print, &p, d);
}
