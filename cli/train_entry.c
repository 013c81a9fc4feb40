/* An entry of a training's session: its program, and the arrays of its inputs and outputs. */
#include "cli/train.h"

#include <stdlib.h>
#include <string.h>

/* ---- the model's inputs and outputs ---- */

static size_t feeds_of(const struct cli *c, enum option o)
{
	return c->option[o].n;
}

/* The length of NAME in NAME=VALUE; 0: it is malformed. */
static size_t feed_name(const char *s)
{
	const char *equals = strchr(s, '=');

	return equals && equals[1] ? (size_t)(equals - s) : 0;
}

static enum ht_status set_inputs(struct cli *c, struct ht_model *m, const struct entry_wanted *w)
{
	size_t feeds = feeds_of(c, w->feeds), n = 0;
	char **name = must_alloc((w->data->n + feeds + 1) * sizeof *name);
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < w->data->n; i++)
		name[n++] = w->data->rows[i].name;
	for (size_t i = 0; i < feeds && st == HT_OK; i++) {
		const char *s = c->option[w->feeds].value[i];
		size_t length = feed_name(s);

		if (!length)
			st = fail(HT_E_USAGE, "--%s: '%s' is not NAME=VALUE or NAME=@FILE.npy",
				option_rows[w->feeds].name, s);
		name[n++] = strndup(s, length);
	}
	if (st == HT_OK && n)
		st = ht_model_set_inputs(m, (const char *const *)name, n, c->diags);
	for (size_t i = w->data->n; i < n; i++)
		free(name[i]);
	free(name);
	return st;
}

/* Whether rows fit an input with the shape that the graph states. */
static enum ht_status check_shape(const struct rows *r, const struct ht_value_info *v)
{
	bool fits = v->rank < 0 || v->rank == r->rank;
	char text[256];

	for (int32_t i = 1; fits && i < v->rank; i++)
		fits = v->dim[i] < 0 || v->dim[i] == r->dim[i];
	if (fits && (v->dtype == r->dtype || v->dtype == HT_INVALID))
		return HT_OK;
	return fail(HT_E_INPUT,
		"--%s %s: its rows are of another type or shape than those of input '%s', %s",
		r->option, r->spec, v->name, input_text(v, text, sizeof text));
}

/* States the shapes of a batch of rows of the data. */
static enum ht_status state_shapes(struct cli *c, struct ht_model *m, const struct entry_wanted *w)
{
	enum ht_status st = HT_OK;
	size_t input;

	for (size_t i = 0; i < w->data->n && st == HT_OK; i++) {
		struct rows *r = &w->data->rows[i];
		struct ht_value_info v;
		int64_t dim[32];

		if (!ht_model_input_named(m, r->name, &input))
			continue; /* nothing needs it, which was reported already */
		ht_model_input(m, input, &v);
		if (r->records)
			st = records_fit(c, r, &v);
		if (st == HT_OK)
			st = check_shape(r, &v);
		memcpy(dim, r->dim, sizeof dim);
		dim[0] = w->batch;
		if (st == HT_OK)
			st = ht_model_set_shape(m, r->name, r->rank, dim, c->diags);
	}
	return st;
}

/* States the shape of a feed if the graph does not: VALUE is a scalar, a file with one dimension
 * is a schedule of scalars. */
static enum ht_status state_feed(
	struct cli *c, struct ht_model *m, enum option feeds, const char *name, const char *spec)
{
	struct array said = { 0 };
	struct ht_value_info v;
	size_t input;
	enum ht_status st = HT_OK;

	if (!ht_model_input_named(m, name, &input) || !ht_model_input(m, input, &v) || v.rank >= 0)
		return HT_OK;
	if (*spec == '@')
		st = load_file(feeds, spec, &said);
	else if (strchr(spec, ':'))
		st = literal_shape(feeds, spec, &said);
	if (*spec == '@' && said.a.rank == 1)
		said.a.rank = 0;
	if (st == HT_OK)
		st = ht_model_set_shape(m, name, said.a.rank, said.shape, c->diags);
	array_free(&said);
	return st;
}

static enum ht_status state_feeds(struct cli *c, struct ht_model *m, const struct entry_wanted *w)
{
	enum ht_status st = HT_OK;
	char name[1024];

	for (size_t i = 0; i < feeds_of(c, w->feeds) && st == HT_OK; i++) {
		const char *s = c->option[w->feeds].value[i];

		snprintf(name, sizeof name, "%.*s", (int)feed_name(s), s);
		st = state_feed(c, m, w->feeds, name, s + feed_name(s) + 1);
	}
	return st;
}

static bool is_fed(
	const struct cli *c, const struct ht_model *m, const struct entry_wanted *w, size_t input)
{
	char name[1024];
	size_t i;

	for (size_t k = 0; k < w->data->n; k++)
		if (ht_model_input_named(m, w->data->rows[k].name, &i) && i == input)
			return true;
	for (size_t k = 0; k < feeds_of(c, w->feeds); k++) {
		const char *s = c->option[w->feeds].value[k];

		snprintf(name, sizeof name, "%.*s", (int)feed_name(s), s);
		if (ht_model_input_named(m, name, &i) && i == input)
			return true;
	}
	return false;
}

static enum ht_status not_fed(const struct entry_wanted *w, const struct ht_value_info *v)
{
	char text[256];

	return fail(HT_E_USAGE,
		"%s: input '%s', %s, is not fed: --%s %s=@FILE.npy or --%s %s=VALUE", w->name,
		v->name, input_text(v, text, sizeof text),
		w->feeds == OPTION_FEED ? "data" : "eval", v->name, option_rows[w->feeds].name,
		v->name);
}

static enum ht_status check_fed(
	const struct cli *c, const struct ht_model *m, const struct entry_wanted *w)
{
	struct ht_value_info v;

	for (size_t i = 0; ht_model_input(m, i, &v); i++)
		if (!v.value && !is_fed(c, m, w, i))
			return not_fed(w, &v);
	return HT_OK;
}

/* ---- sources ---- */

static const struct rows *rows_named(const struct entry *e, const struct data *d, size_t input)
{
	size_t i;

	for (size_t k = 0; k < d->n; k++)
		if (ht_program_input_named(e->program, d->rows[k].name, &i) && i == input)
			return &d->rows[k];
	return NULL;
}

static const char *feed_of(
	const struct cli *c, const struct entry *e, enum option feeds, size_t input)
{
	char name[1024];
	size_t i;

	for (size_t k = feeds_of(c, feeds); k-- > 0;) {
		const char *s = c->option[feeds].value[k];

		snprintf(name, sizeof name, "%.*s", (int)feed_name(s), s);
		if (ht_program_input_named(e->program, name, &i) && i == input)
			return s + feed_name(s) + 1;
	}
	return NULL;
}

static enum ht_status check_rows(const struct rows *r, const struct ht_value_info *v, int64_t batch)
{
	char text[256];

	if (r->dtype != v->dtype)
		return fail(HT_E_INPUT, "--%s %s: the rows are %s; input '%s' is %s", r->option,
			r->spec, ht_dtype_name(r->dtype), v->name,
			input_text(v, text, sizeof text));
	if (v->bytes != r->row_bytes * (size_t)batch)
		return fail(HT_E_INPUT, "--%s %s: the rows have another shape than input '%s', %s",
			r->option, r->spec, v->name, input_text(v, text, sizeof text));
	return HT_OK;
}

/* Loads one value for every step, or one for each along the first dimension. */
static enum ht_status load_schedule(const struct entry_wanted *w, const char *spec,
	const struct ht_value_info *v, struct source *s)
{
	const struct ht_array *a = &s->value.a;
	char text[256];
	enum ht_status st = load_file(w->feeds, spec, &s->value);

	if (st != HT_OK)
		return st;
	s->schedule = a->rank == v->rank + 1;
	if (a->dtype != v->dtype || (!s->schedule && a->rank != v->rank) ||
		(v->rank && memcmp(a->dim + s->schedule, v->dim, (size_t)v->rank * sizeof *v->dim)))
		return fail(HT_E_INPUT,
			"--%s %s=%s: it has another type or shape than input '%s', %s, or one of those "
			"for each step",
			option_rows[w->feeds].name, v->name, spec, v->name,
			input_text(v, text, sizeof text));
	if (s->schedule && a->dim[0] < w->steps)
		return fail(HT_E_INPUT, "--%s %s=%s: a schedule of %lld values for %lld steps",
			option_rows[w->feeds].name, v->name, spec, (long long)a->dim[0],
			(long long)w->steps);
	return HT_OK;
}

/* For a scalar, "0.5" means "f32:0.5". */
static enum ht_status load_value(const struct entry_wanted *w, const char *spec,
	const struct ht_value_info *v, struct source *s)
{
	char *typed;
	enum ht_status st;

	if (*spec == '@')
		return load_schedule(w, spec, v, s);
	if (strchr(spec, ':') || v->rank)
		return literal_array(w->feeds, spec, v, &s->value);
	typed = must_alloc(strlen(spec) + 32);
	sprintf(typed, "%s:%s", ht_dtype_name(v->dtype), spec);
	st = literal_array(w->feeds, typed, v, &s->value);
	free(typed);
	return st;
}

static enum ht_status find_source(
	struct cli *c, struct entry *e, const struct entry_wanted *w, size_t i)
{
	struct source *s = &e->in[i];
	struct ht_value_info v;
	const char *feed;

	ht_program_input(e->program, i, &v);
	s->rows = rows_named(e, w->data, i);
	feed = feed_of(c, e, w->feeds, i);
	if (s->rows) {
		enum ht_status st = check_rows(s->rows, &v, w->batch);
		return st == HT_OK ? array_make(&s->array, v.dtype, v.rank, v.dim) : st;
	}
	if (feed) {
		enum ht_status st = load_value(w, feed, &v, s);
		return st == HT_OK ? array_make(&s->array, v.dtype, v.rank, v.dim) : st;
	}
	s->array.a = (struct ht_array){ NULL, v.bytes, v.dtype, v.rank, v.dim }; /* its default */
	return HT_OK;
}

static enum ht_status make_arrays(struct cli *c, struct entry *e, const struct entry_wanted *w)
{
	struct ht_value_info v;
	enum ht_status st = HT_OK;

	e->ins = ht_program_inputs(e->program);
	e->outs = ht_program_outputs(e->program);
	e->in = must_alloc((e->ins + 1) * sizeof *e->in);
	e->out = must_alloc((e->outs + 1) * sizeof *e->out);
	e->in_view = must_alloc((e->ins + 1) * sizeof *e->in_view);
	e->out_view = must_alloc((e->outs + 1) * sizeof *e->out_view);
	for (size_t i = 0; i < e->ins && st == HT_OK; i++) {
		st = find_source(c, e, w, i);
		e->in_view[i] = e->in[i].array.a;
		if (st == HT_OK && e->in[i].value.a.data && !e->in[i].schedule)
			memcpy(e->in_view[i].data, e->in[i].value.a.data, e->in_view[i].bytes);
	}
	for (size_t i = 0; i < e->outs && st == HT_OK; i++) {
		ht_program_output(e->program, i, &v);
		st = array_make(&e->out[i], v.dtype, v.rank, v.dim);
		e->out_view[i] = e->out[i].a;
	}
	return st;
}

/* ---- entries of an artefact ---- */

static bool is_named(const struct ht_program *p, const char *name, size_t output)
{
	size_t i;

	return ht_program_output_named(p, name, &i) && i == output;
}

/* Checks that it has the wanted outputs; a train op is not one. */
static enum ht_status check_outputs(
	const struct cli *c, const struct entry_wanted *w, const struct ht_program *p)
{
	for (size_t i = 0; i < w->outputs && w->output[i]; i++)
		if (!is_named(p, w->output[i], i))
			return fail(HT_E_USAGE, "%s: output %zu of entry '%s' is not '%s'",
				c->model, i + 1, w->stored, w->output[i]);
	return HT_OK;
}

static enum ht_status check_names(
	const struct cli *c, const struct entry_wanted *w, const struct ht_program *p)
{
	char name[1024];
	size_t at;

	for (size_t i = 0; i < w->data->n; i++)
		if (!ht_program_input_named(p, w->data->rows[i].name, &at))
			return fail(HT_E_USAGE, "%s: entry '%s' has no input '%s'", c->model,
				w->stored, w->data->rows[i].name);
	for (size_t i = 0; i < feeds_of(c, w->feeds); i++) {
		const char *s = c->option[w->feeds].value[i];

		snprintf(name, sizeof name, "%.*s", (int)feed_name(s), s);
		if (!feed_name(s) || !ht_program_input_named(p, name, &at))
			return fail(HT_E_USAGE, "--%s %s: entry '%s' has no such input",
				option_rows[w->feeds].name, s, w->stored);
	}
	return HT_OK;
}

static enum ht_status load_entry(struct cli *c, struct ht_session *s, const char *policy,
	const struct entry_wanted *w, struct entry *e)
{
	struct ht_artefact_options opt = HT_ARTEFACT_OPTIONS_INIT;
	struct ht_program *p;
	enum ht_status st = artefact_trust(c, &opt);

	opt.entry = w->stored;
	opt.policy = policy;
	opt.batch = w->batch;
	opt.target = option_on(c, OPTION_TARGET) ? option(c, OPTION_TARGET, NULL) : NULL;
	if (st == HT_OK)
		st = ht_program_load(c->model, &opt, c->diags, &p);
	if (st == HT_OK)
		st = ht_session_take(s, w->name, p, c->diags);
	if (st != HT_OK)
		return st;
	e->program = ht_session_program(s, w->name);
	st = check_outputs(c, w, e->program);
	return st == HT_OK ? check_names(c, w, e->program) : st;
}

enum ht_status entry_load(struct cli *c, struct ht_session *s, const char *policy,
	const struct entry_wanted *w, struct entry *e)
{
	struct ht_value_info v;
	enum ht_status st;

	*e = (struct entry){ .name = w->name, .batch = w->batch };
	st = load_entry(c, s, policy, w, e);
	for (size_t i = 0; st == HT_OK && ht_program_input(e->program, i, &v); i++)
		if (rows_named(e, w->data, i) && rows_named(e, w->data, i)->records)
			st = records_fit(
				c, (struct rows *)(uintptr_t)rows_named(e, w->data, i), &v);
	if (st == HT_OK)
		st = make_arrays(c, e, w);
	for (size_t i = 0; st == HT_OK && i < e->ins; i++) {
		ht_program_input(e->program, i, &v);
		if (!v.value && !e->in_view[i].data)
			st = not_fed(w, &v);
	}
	return st;
}

enum ht_status entry_open(struct cli *c, struct ht_session *s, struct ht_model *m,
	struct ht_compile_options *opt, const struct entry_wanted *w, struct entry *e)
{
	enum ht_status st = ht_model_set_outputs(m, w->output, w->outputs, c->diags);

	*e = (struct entry){ .name = w->name, .batch = w->batch };
	if (st == HT_OK)
		st = set_inputs(c, m, w);
	if (st == HT_OK)
		st = state_shapes(c, m, w);
	if (st == HT_OK)
		st = state_feeds(c, m, w);
	if (st == HT_OK)
		st = check_fed(c, m, w);
	if (st == HT_OK)
		st = ht_session_add(s, w->name, m, opt, c->diags, &e->program);
	if (st == HT_OK)
		st = announce(c, e->program);
	return st == HT_OK ? make_arrays(c, e, w) : st;
}

/* ---- runs ---- */

static enum ht_status fill_input(
	const struct cli *c, const struct entry *e, size_t i, const int64_t *row, int64_t step)
{
	const struct source *from = &e->in[i];
	char *to = e->in_view[i].data;
	enum ht_status st = HT_OK;

	for (int64_t k = 0; k < e->batch && from->rows && st == HT_OK; k++)
		st = rows_copy(c, from->rows, row[k], to + (size_t)k * from->rows->row_bytes);
	if (!from->rows && from->schedule)
		memcpy(to, (const char *)from->value.a.data + (size_t)step * e->in_view[i].bytes,
			e->in_view[i].bytes);
	return st;
}

enum ht_status entry_run(
	struct cli *c, struct ht_session *s, struct entry *e, const int64_t *row, int64_t step)
{
	for (size_t i = 0; i < e->ins; i++) {
		enum ht_status st = fill_input(c, e, i, row, step);

		if (st != HT_OK)
			return st;
	}
	return ht_session_run(s, e->name, e->in_view, e->ins, e->out_view, e->outs, c->diags);
}

static double element(const struct ht_array *a, size_t i)
{
	float f;

	switch (a->dtype) {
	case HT_F64:
		return ((const double *)a->data)[i];
	case HT_F32:
		return (double)((const float *)a->data)[i];
	case HT_I32:
		return ((const int32_t *)a->data)[i];
	case HT_I64:
		return (double)((const int64_t *)a->data)[i];
	case HT_BOOL:
		return ((const uint8_t *)a->data)[i];
	default:
		ht_widen((const char *)a->data + 2 * i, a->dtype, &f, 1);
		return (double)f;
	}
}

double entry_squares(const struct entry *e, size_t i)
{
	const struct ht_array *a = &e->out_view[i];
	size_t n = a->bytes / ht_dtype_bytes(a->dtype);
	double sum = 0;

	for (size_t k = 0; k < n; k++)
		sum += element(a, k) * element(a, k);
	return sum;
}

double entry_mean(const struct entry *e, size_t i)
{
	const struct ht_array *a = &e->out_view[i];
	size_t n = a->bytes / ht_dtype_bytes(a->dtype);
	double sum = 0;

	for (size_t k = 0; k < n; k++)
		sum += element(a, k);
	return n ? sum / (double)n : 0;
}

void entry_close(struct entry *e)
{
	for (size_t i = 0; e->in && i < e->ins; i++) {
		array_free(&e->in[i].value);
		array_free(&e->in[i].array);
	}
	arrays_free(e->out, e->outs);
	free(e->in);
	free(e->in_view);
	free(e->out_view);
}
