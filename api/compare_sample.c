/* Samples of a comparison: what belongs to one is checked, all programs run on it, and their results are compared. */
#include "api/compare.h"

#include <math.h>
#include <string.h>

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
	r->status = ht_compared_run(s->c, r, &said);
	ht_compared_tell(s->c, r, &said, s->d);
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

		if (at < values_of(&s->in[i]).count && !ht_compared_told(c, &key))
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
	ht_context_set_seed(r->context, HT_COMPARED_SEED);
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

	HT_TRY(ht_compared_need(c, d));
	ht_context_reset(c->base.context);
	ht_context_set_seed(c->base.context, HT_COMPARED_SEED);
	return ht_guarded(&c->unwind, add_sample, &s, d);
}
