/* Runs variants of a model on calibration samples, for budgets of error.
 *
 * A variant is a copy of the model's graph with the types of some decision; the later passes,
 * lowering and code generation are those of ht_compile().  Code is generated for the machine
 * that runs it, whatever the target is, since low precision gives the same numbers on every
 * machine. */
#include "api/api.h"

#include <math.h>
#include <string.h>

struct ht_calibrator {
	struct ht_calibration calibration;
	const struct ht_lowering *lowering; /* of the model itself */
	const struct ht_model *model;
	const struct ht_compile_options *opt;
	struct ht_arena arena; /* holds what follows; filled by the first run */
	bool begun;            /* the arena is in use */
	struct ht_array **in;  /* by sample, by input of the program; NULL: not made yet */
	size_t samples;
	double ***want; /* by sample, by output: elements */
};

/* A variant being made. */
struct variant {
	struct ht_calibrator *c;
	struct ht_graph *graph;
	bool reference;
	double *error;
	/* Not NULL: the magnitudes of these outputs, the last ones, are counted instead. */
	struct ht_magnitudes *counts;
	size_t counted;
	struct ht_program *program;
	struct ht_context *context;
	struct ht_work *w;
	struct ht_array *out;
};

static struct ht_diags *diags_of(const struct ht_calibrator *c)
{
	return c->lowering->passes.diags;
}

static const struct ht_budget *budget_of(const struct ht_calibrator *c)
{
	return &c->lowering->policy.budget;
}

/* ---- samples ---- */

/* Floats in [-1, 1); integers are 0 or 1, since they may be indices. */
static void fill_random(void *data, const struct ht_value_info *v, uint64_t seed)
{
	size_t size = ht_dtype_bytes(v->dtype), n = size ? v->bytes / size : 0;
	uint64_t state = seed;

	for (size_t i = 0; i < n; i++) {
		uint64_t r = ht_random(&state);
		float x = (float)((double)(r >> 11) * 0x1p-52 - 1);
		char *p = (char *)data + i * size;
		if (v->dtype == HT_F32)
			memcpy(p, &x, sizeof x);
		else if (v->dtype == HT_F64)
			memcpy(p, &(double){ (double)x }, sizeof(double));
		else if (ht_is_low(v->dtype))
			ht_narrow(&x, v->dtype, p, 1);
		else
			*p = (char)(r & 1); /* integers of any width: little-endian */
	}
}

static const void *default_of(const struct ht_calibrator *c, const struct ht_value_info *v)
{
	for (size_t i = 0; i < c->model->inputs; i++) {
		const struct ht_value_info *from = &c->model->input[i];
		if (from->value && !strcmp(from->name, v->name) && from->bytes == v->bytes)
			return from->value;
	}
	return NULL;
}

/* The input's default, or random numbers. */
static struct ht_array made_input(
	struct ht_calibrator *c, const struct ht_value_info *v, uint64_t seed)
{
	struct ht_array a = { NULL, v->bytes, v->dtype, v->rank,
		ht_shape_make(&c->arena, v->rank, v->dim).dim };
	const void *value = default_of(c, v);

	a.data = ht_alloc(&c->arena, v->bytes + 1);
	if (value)
		memcpy(a.data, value, v->bytes);
	else
		fill_random(a.data, v, seed);
	return a;
}

static bool is_open(const struct ht_calibrator *c, const char *name)
{
	for (size_t i = 0; i < c->model->inputs; i++) {
		const struct ht_value_info *v = &c->model->input[i];

		if (!strcmp(v->name, name))
			return v->rank > 0 && v->dim[0] < 0;
	}
	return false;
}

/* Whether a sample has rows for an input whose first dimension is open; the input has the rows
 * of one part here. */
static bool has_rows(
	const struct ht_calibrator *c, const struct ht_tensor *t, const struct ht_value_info *v)
{
	bool same = v->rank > 0 && t->shape.rank == v->rank && t->shape.dim[0] > 0 &&
		    (t->dtype == v->dtype || (t->dtype == HT_U16 && v->dtype == HT_BF16)) &&
		    v->dim[0] == HT_PART_ROWS && is_open(c, v->name);

	for (int32_t i = 1; same && i < v->rank; i++)
		same = t->shape.dim[i] == v->dim[i];
	return same;
}

/* The rows of a batch do not depend on each other, so the array repeats the sample's rows until
 * it is full. */
static struct ht_array part_of(
	struct ht_calibrator *c, const struct ht_tensor *t, const struct ht_value_info *v)
{
	struct ht_array a = { ht_alloc(&c->arena, v->bytes + 1), v->bytes, v->dtype, v->rank,
		ht_shape_make(&c->arena, v->rank, v->dim).dim };

	for (size_t at = 0, n; at < v->bytes; at += n) {
		n = v->bytes - at < t->blob->n ? v->bytes - at : t->blob->n;
		memcpy((char *)a.data + at, t->blob->p, n);
	}
	return a;
}

static struct ht_array array_of(const struct ht_tensor *t)
{
	return (struct ht_array){ (void *)(uintptr_t)t->blob->p, t->blob->n, t->dtype,
		t->shape.rank, t->shape.dim };
}

/* The array that a sample has for an input; NULL: none. */
static struct ht_tensor *find_value(const struct ht_sample *s, const char *name, size_t inputs)
{
	for (size_t i = 0; i < s->n; i++)
		if (ht_str_is(s->name[i], name) || (!s->name[i].n && s->n == 1 && inputs == 1))
			return s->value[i];
	return NULL;
}

static enum ht_status check_names(
	struct ht_calibrator *c, const struct ht_sample *s, const struct ht_program *p)
{
	size_t n = ht_program_inputs(p);

	for (size_t i = 0; i < s->n; i++) {
		bool found = !s->name[i].n && s->n == 1 && n == 1;
		for (size_t j = 0; j < n && !found; j++)
			found = ht_str_is(s->name[i], p->input[j].name);
		if (!found)
			return ht_error(diags_of(c), HT_E_INPUT, HT_NOWHERE,
				"samples: %.*s: %s'%.*s'; the model has %zu inputs, the first is '%s'",
				HT_STR_ARG(s->where),
				s->name[i].n ? "there is no input " : "which input is it for? ",
				HT_STR_ARG(s->name[i]), n, n ? p->input[0].name : "");
	}
	return HT_OK;
}

static enum ht_status given_sample(struct ht_calibrator *c, const struct ht_sample *s,
	const struct ht_program *p, struct ht_array *in)
{
	HT_TRY(check_names(c, s, p));
	for (size_t i = 0; i < ht_program_inputs(p); i++) {
		const struct ht_value_info *v = &p->input[i];
		const struct ht_tensor *t = find_value(s, v->name, ht_program_inputs(p));
		if (!t && !default_of(c, v))
			return ht_error(diags_of(c), HT_E_INPUT, HT_NOWHERE,
				"samples: %.*s has nothing for input '%s'", HT_STR_ARG(s->where),
				v->name);
		in[i] = !t                  ? made_input(c, v, 0)
			: has_rows(c, t, v) ? part_of(c, t, v)
					    : array_of(t);
		/* A U16 array may hold the bits of bfloat16. */
		if (t && t->dtype == HT_U16 && v->dtype == HT_BF16)
			in[i].dtype = HT_BF16;
	}
	return HT_OK;
}

static enum ht_status refuse_strings(struct ht_calibrator *c, const struct ht_program *p)
{
	for (size_t i = 0; i < ht_program_inputs(p); i++)
		if (p->input[i].dtype == HT_STRING)
			return ht_error(diags_of(c), HT_E_UNSUPPORTED, HT_NOWHERE,
				"samples: input '%s' is of strings, which samples do not have",
				p->input[i].name);
	return HT_OK;
}

static enum ht_status make_samples(struct ht_calibrator *c, const struct ht_program *p)
{
	const struct ht_budget *b = budget_of(c);
	uint64_t seed = b->random ? b->seed : HT_BUDGET_SEED;
	const struct ht_sample *s = b->sample;

	HT_TRY(refuse_strings(c, p));
	c->samples = b->samples ? b->samples : b->random ? b->random : HT_BUDGET_RANDOM;
	if (!b->samples)
		ht_note(diags_of(c), HT_NOWHERE,
			"errors are measured on %zu random samples, seed %llu", c->samples,
			(unsigned long long)seed);
	c->in = HT_NEW_ARRAY(&c->arena, struct ht_array *, c->samples);
	c->want = HT_NEW_ARRAY(&c->arena, double **, c->samples);
	for (size_t i = 0; i < c->samples; i++) {
		c->in[i] = HT_NEW_ARRAY(&c->arena, struct ht_array, ht_program_inputs(p));
		c->want[i] = HT_NEW_ARRAY(&c->arena, double *, ht_program_outputs(p));
		for (size_t j = 0; j < ht_program_inputs(p) && !b->samples; j++)
			c->in[i][j] = made_input(c, &p->input[j], (seed * 1000003 + i) * 1009 + j);
		if (b->samples)
			HT_TRY(given_sample(c, s, p, c->in[i]));
		s = s ? s->next : NULL;
	}
	return HT_OK;
}

/* Checks that every clause is about a floating-point output, or about all outputs. */
static enum ht_status check_clauses(struct ht_calibrator *c, const struct ht_program *p)
{
	const struct ht_budget *b = budget_of(c);
	size_t n = ht_program_outputs(p);
	struct ht_str *names = HT_NEW_ARRAY(&c->arena, struct ht_str, n), near[3];

	for (size_t i = 0; i < n; i++)
		names[i] = ht_str(p->output[i].name);
	for (size_t i = 0; i < b->clauses; i++) {
		struct ht_str output = b->clause[i].output;
		size_t j = 0;
		while (j < n && !ht_str_eq(output, names[j]))
			j++;
		if (!output.n || j < n)
			continue;
		if (!ht_near_names(output, names, n, near))
			near[0] = n ? names[0] : (struct ht_str){ 0 };
		return ht_error(diags_of(c), HT_E_USAGE, HT_NOWHERE,
			"budget: there is no output '%.*s'; did you mean '%.*s'?",
			HT_STR_ARG(output), HT_STR_ARG(near[0]));
	}
	return HT_OK;
}

/* ---- errors ---- */

static double element(const struct ht_array *a, size_t i)
{
	const char *p = (const char *)a->data + i * ht_dtype_bytes(a->dtype);
	float f = 0;

	switch (a->dtype) {
	case HT_F64:
		return ht_load_f64(p, 0);
	case HT_I64:
	case HT_U64:
		return (double)ht_load_i64(p, 0);
	case HT_I32:
	case HT_U32:
		return ht_load_i32(p, 0);
	case HT_I16:
	case HT_U16:
		return ht_load_i16(p, 0);
	case HT_F32:
		return ht_load_f32(p, 0);
	case HT_F16:
	case HT_BF16:
		ht_widen(p, a->dtype, &f, 1);
		return f;
	default:
		return *p;
	}
}

static double *as_doubles(const struct ht_array *a, struct ht_arena *arena, size_t *n)
{
	size_t size = ht_dtype_bytes(a->dtype);
	double *x;

	*n = size ? a->bytes / size : 0;
	x = HT_NEW_ARRAY(arena, double, *n);
	for (size_t i = 0; i < *n; i++)
		x[i] = element(a, i);
	return x;
}

static double error_of(const double *a, const double *b, size_t n, enum ht_metric metric)
{
	double most = 0, largest = 0, squares = 0, own = 0;

	for (size_t i = 0; i < n; i++) {
		double d = fabs(a[i] - b[i]);
		if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
			d = 0;
		if (!isfinite(d))
			return INFINITY;
		most = d > most ? d : most;
		squares += d * d;
		if (isfinite(b[i])) {
			largest = fabs(b[i]) > largest ? fabs(b[i]) : largest;
			own += b[i] * b[i];
		}
	}
	if (metric == HT_METRIC_ABS || !(most > 0))
		return most;
	if (metric == HT_METRIC_RMS)
		return own > 0 ? sqrt(squares / own) : INFINITY;
	return largest > 0 ? most / largest : INFINITY;
}

static void compare(struct variant *v, size_t sample, size_t output)
{
	static const struct ht_budget_clause all = { .metric = HT_METRIC_REL };
	const struct ht_budget *b = budget_of(v->c);
	const char *name = v->program->output[output].name;
	size_t n;
	const double *got = as_doubles(&v->out[output], &v->w->arena, &n);

	for (size_t i = 0; i < (b->clauses ? b->clauses : 1); i++) {
		const struct ht_budget_clause *clause = b->clauses ? &b->clause[i] : &all;
		double e;
		if (clause->output.n && !ht_str_is(clause->output, name))
			continue;
		e = error_of(got, v->c->want[sample][output], n, clause->metric);
		v->error[i] = e > v->error[i] ? e : v->error[i];
	}
}

/* ---- magnitudes ---- */

static void count(const struct ht_array *x, struct ht_magnitudes *m)
{
	for (size_t i = 0; i < x->bytes / sizeof(float); i++) {
		uint32_t bits;

		memcpy(&bits, (const char *)x->data + i * sizeof bits, sizeof bits);
		if (bits & 0x7fffffff)
			m->at[bits >> 23 & 255]++;
	}
}

/* The value with which a step on samples begins; NULL: the model has none, or one of another type or shape than `like`. */
static struct ht_tensor *first_value(struct ht_calibrator *c, const struct ht_node *n,
	const struct ht_tensor *like, struct ht_arena *a)
{
	const struct ht_variable_source *source = c->lowering->passes.variables;
	struct ht_diags unwanted;
	struct ht_tensor *t = NULL;
	enum ht_status st;

	if (ht_str_is(ht_variable_name(n), HT_LOSS_SCALE)) {
		t = ht_tensor_sharing(a, HT_F32, HT_SHAPE_SCALAR, ht_blob_in(a, sizeof(float)));
		memcpy((void *)(uintptr_t)t->blob->p, &(float){ 1 }, sizeof(float));
		return t;
	}
	if (!source)
		return NULL;
	ht_diags_init(&unwanted);
	st = source->read(source->self, ht_variable_name(n), a, &unwanted, &t);
	ht_diags_release(&unwanted);
	return st == HT_OK && t->blob && t->dtype == like->dtype &&
			       ht_shape_eq(t->shape, like->shape)
		       ? t
		       : NULL;
}

/* False: some variable has no value. */
static bool give_values(struct ht_calibrator *c, struct ht_graph *g, struct ht_arena *a)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tensor *known = ht_variable_value(n);
		struct ht_tensor *t;

		if (!ht_is(n, HT_VARIABLE) || (known && known->blob))
			continue;
		t = known ? first_value(c, n, known, a) : NULL;
		if (!t)
			return false;
		ht_attr_set_str(n, "shared_name", ht_variable_name(n));
		ht_attr_set_shape(n, "shape", t->shape);
		ht_attr_set_tensor(n, "_value", t);
	}
	return true;
}

static void add_outputs(
	struct ht_graph *g, const struct ht_value *value, size_t n, struct ht_arena *a)
{
	struct ht_port **end = &g->entries->outputs;

	while (*end)
		end = &(*end)->next;
	for (size_t i = 0; i < n; i++, end = &(*end)->next) {
		*end = HT_NEW(a, struct ht_port);
		(*end)->name = ht_str_printf(a, "_HALFTONE/gradient/%zu", i);
		(*end)->value = value[i];
	}
}

/* ---- one variant ---- */

static enum ht_status build(struct variant *v)
{
	struct ht_calibrator *c = v->c;
	struct ht_pass_context passes = c->lowering->passes;
	struct ht_lower_request lower = c->lowering->lower;
	struct ht_fusions uncounted = c->lowering->fusions;
	struct ht_phases phases = { 0 };
	struct ht_plan *plan;
	struct ht_make how;

	passes.scratch = lower.scratch = &v->w->scratch;
	passes.target = lower.target = ht_target_host();
	passes.entry = lower.entry = v->graph->entries;
	passes.fusions = lower.fusions = &uncounted;
	passes.after = NULL;
	passes.verify = false;
	HT_TRY(ht_run_passes(v->graph, ht_pipeline_painted, NULL, &passes));
	HT_TRY(ht_run_passes(v->graph, ht_pipeline_layout, NULL, &passes));
	HT_TRY(ht_lower(v->graph, &lower, &v->w->arena, &plan));
	how = (struct ht_make){ c->model->cache, passes.target, c->opt->backend, c->opt->threads,
		NULL, NULL, NULL };
	HT_TRY(ht_program_build(v->program, v->graph, plan, &how, &phases, diags_of(c)));
	ht_program_link(v->program, plan);
	return HT_OK;
}

static enum ht_status run_samples(struct variant *v)
{
	struct ht_program *p = v->program;
	struct ht_calibrator *c = v->c;
	size_t outs = ht_program_outputs(p), n;

	v->out = HT_NEW_ARRAY(&v->w->arena, struct ht_array, outs);
	for (size_t i = 0; i < outs; i++)
		v->out[i] = (struct ht_array){ ht_alloc(&v->w->arena, p->output[i].bytes + 64),
			p->output[i].bytes, p->output[i].dtype, p->output[i].rank,
			p->output[i].dim };
	for (size_t s = 0; s < c->samples; s++) {
		HT_TRY(ht_context_run(
			v->context, c->in[s], ht_program_inputs(p), v->out, outs, diags_of(c)));
		for (size_t i = 0; i < v->counted; i++)
			count(&v->out[outs - v->counted + i], &v->counts[i]);
		for (size_t i = 0; i < outs && !v->counts; i++)
			if (v->reference)
				c->want[s][i] = as_doubles(&v->out[i], &c->arena, &n);
			else
				compare(v, s, i);
	}
	return HT_OK;
}

static enum ht_status run_variant(void *arg)
{
	struct variant *v = arg;
	struct ht_calibrator *c = v->c;
	size_t clauses = budget_of(c)->clauses ? budget_of(c)->clauses : 1;

	HT_TRY(build(v));
	HT_TRY(ht_context_new(v->program, NULL, diags_of(c), &v->context));
	ht_context_set_seed(v->context, HT_BUDGET_SEED); /* all variants draw the same random
							  * numbers */
	if (v->reference)
		HT_TRY(check_clauses(c, v->program));
	if (!c->in)
		HT_TRY(make_samples(c, v->program));
	if (v->error)
		memset(v->error, 0, clauses * sizeof *v->error);
	return run_samples(v);
}

static enum ht_status make_and_run(struct variant *v)
{
	struct ht_calibrator *c = v->c;
	enum ht_status st;

	v->program = ht_sys_alloc(sizeof *v->program);
	if (!v->program)
		return ht_error(diags_of(c), HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	if (!c->begun)
		ht_arena_init(&c->arena, NULL);
	c->begun = true;
	c->arena.unwind = &v->w->unwind;
	ht_arena_init(&v->program->arena, &v->w->unwind);
	st = ht_work_run(v->w, run_variant, v, diags_of(c));
	ht_context_free(v->context);
	v->program->arena.unwind = NULL;
	c->arena.unwind = NULL;
	ht_program_free(v->program);
	return st;
}

static enum ht_status run(void *self, struct ht_graph *g, bool reference, double *error)
{
	struct ht_work w;
	struct variant v = { .c = self,
		.graph = g,
		.reference = reference,
		.error = reference ? NULL : error,
		.w = &w };

	return make_and_run(&v);
}

static enum ht_status magnitudes(void *self, struct ht_graph *g, const struct ht_value *value,
	size_t n, struct ht_magnitudes *out, bool *known)
{
	struct ht_work w;
	struct variant v = { .c = self, .graph = g, .counts = out, .counted = n, .w = &w };

	*known = g->entries && give_values(self, g, g->arena);
	if (!*known)
		return HT_OK;
	add_outputs(g, value, n, g->arena);
	return make_and_run(&v);
}

static void release(void *arena)
{
	ht_arena_release(arena);
}

const struct ht_calibration *ht_calibrator_new(const struct ht_model *m,
	const struct ht_lowering *l, const struct ht_compile_options *opt, struct ht_arena *a)
{
	struct ht_calibrator *c = HT_NEW(a, struct ht_calibrator);

	*c = (struct ht_calibrator){
		.calibration = { run, magnitudes, c }, .model = m, .lowering = l, .opt = opt
	};
	ht_arena_defer(a, release, &c->arena);
	return &c->calibration;
}
