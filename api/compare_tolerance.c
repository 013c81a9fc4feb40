/* Tolerances of a comparison: parsing and judging. */
#include "api/compare.h"

#include <math.h>
#include <string.h>

/* Bounds of max|a-b| / max|b|. float32: as much as another order of sums changes. 16 bits: 25
 * times the unit roundoff, which is enough for the outputs of most networks. */
double ht_default_tolerance(enum ht_dtype lowest)
{
	return lowest == HT_F32 || lowest == HT_F64
		       ? 1e-4
		       : 25 * ldexp(1, -1 - ht_dtype_info(lowest)->mantissa);
}

/* ---- reading ---- */

struct reading {
	struct ht_comparison *c;
	struct ht_str text, output, name, number;
	bool more;   /* ">=" */
	bool equals; /* "=": the direction that the statistic needs */
	struct ht_diags *d;
};

static enum ht_status malformed(const struct reading *r)
{
	return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
		"tolerance '%.*s' is not [OUTPUT:]STATISTIC<=X, STATISTIC>=X, METRIC-drop<=X or [OUTPUT:]X",
		HT_STR_ARG(r->text));
}

static const char *last_of(struct ht_str s, char c)
{
	for (size_t i = s.n; i-- > 0;)
		if (s.p[i] == c)
			return s.p + i;
	return NULL;
}

/* "OUTPUT:NAME" or "NAME" */
static void split_name(struct reading *r, struct ht_str both)
{
	const char *colon = last_of(both, ':');

	r->output = HT_STR("");
	r->name = both;
	if (!colon)
		return;
	r->output = (struct ht_str){ both.p, (size_t)(colon - both.p) };
	r->name = (struct ht_str){ colon + 1, both.n - r->output.n - 1 };
}

static void split(struct reading *r)
{
	const char *equals = last_of(r->text, '=');
	struct ht_str left;

	if (!equals) {
		split_name(r, r->text);
		r->number = r->name;
		r->name = HT_STR("rel");
		return;
	}
	left = (struct ht_str){ r->text.p, (size_t)(equals - r->text.p) };
	r->number = (struct ht_str){ equals + 1, r->text.n - left.n - 1 };
	r->more = ht_str_ends(left, ">");
	r->equals = !r->more && !ht_str_ends(left, "<");
	left.n -= r->more || !r->equals;
	split_name(r, left);
}

static enum ht_status read_number(struct reading *r, double *out)
{
	bool percent = ht_str_ends(r->number, "%");
	struct ht_str s = { r->number.p, r->number.n - percent };

	if (!ht_parse_double(s, out) || isnan(*out))
		return malformed(r);
	*out /= percent ? 100 : 1;
	return HT_OK;
}

static bool is_drop(const struct reading *r)
{
	const char *task = r->c->task ? ht_task_name(r->c->task) : "";
	struct ht_str name = { r->name.p, r->name.n - 5 };

	return ht_str_ends(r->name, "-drop") && ht_str_is(name, task);
}

static enum ht_status no_statistic(const struct reading *r)
{
	struct ht_str names[HT_STAT_END], near[3];

	for (size_t i = 0; i < HT_STAT_END; i++)
		names[i] = ht_str(ht_statistics[i].name);
	if (ht_str_ends(r->name, "-drop"))
		return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
			"tolerance '%.*s': --metric %.*s is not what is measured",
			HT_STR_ARG(r->text), (int)r->name.n - 5, r->name.p);
	if (ht_near_names(r->name, names, HT_STAT_END, near))
		return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
			"tolerance '%.*s': there is no statistic '%.*s'; did you mean '%.*s'?",
			HT_STR_ARG(r->text), HT_STR_ARG(r->name), HT_STR_ARG(near[0]));
	return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
		"tolerance '%.*s': there is no statistic '%.*s'", HT_STR_ARG(r->text),
		HT_STR_ARG(r->name));
}

static enum ht_status read_name(struct reading *r, enum ht_statistic *out)
{
	bool drop = is_drop(r), more;

	*out = ht_statistic_named(r->name);
	if (*out == HT_STAT_END && !drop)
		return no_statistic(r);
	more = !drop && ht_statistics[*out].more;
	if (r->equals || r->more == more)
		return HT_OK;
	return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
		"tolerance '%.*s': more of %.*s is %s, so its bound is %.*s%sX",
		HT_STR_ARG(r->text), HT_STR_ARG(r->name), more ? "better" : "worse",
		HT_STR_ARG(r->name), more ? ">=" : "<=");
}

static enum ht_status read_output(struct reading *r, struct ht_str *out)
{
	const struct ht_program *p = r->c->base.program;
	char name[512];
	size_t at;

	if (!r->output.n)
		return HT_OK;
	snprintf(name, sizeof name, "%.*s", HT_STR_ARG(r->output));
	if (r->output.n >= sizeof name || !ht_program_output_named(p, name, &at))
		return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
			"tolerance '%.*s': there is no output '%.*s'; the first is '%s'",
			HT_STR_ARG(r->text), HT_STR_ARG(r->output), p->output[0].name);
	*out = ht_str(p->output[at].name);
	return HT_OK;
}

/* A drop may have to be negative: a gain. */
static enum ht_status check_bound(const struct reading *r, const struct ht_tolerance *t)
{
	if (t->statistic == HT_STAT_END || ht_statistics[t->statistic].more || t->bound >= 0)
		return HT_OK;
	return ht_error(r->d, HT_E_USAGE, HT_NOWHERE,
		"tolerance '%.*s' never holds: %.*s is never less than 0", HT_STR_ARG(r->text),
		HT_STR_ARG(r->name));
}

static enum ht_status read_one(
	struct ht_comparison *c, const char *text, struct ht_diags *d, struct ht_tolerance *out)
{
	struct reading r = { .c = c, .text = ht_str(text), .d = d };

	split(&r);
	if (!r.name.n || !r.number.n)
		return malformed(&r);
	HT_TRY(read_number(&r, &out->bound));
	HT_TRY(read_name(&r, &out->statistic));
	HT_TRY(check_bound(&r, out));
	HT_TRY(read_output(&r, &out->output));
	if (out->statistic != HT_STAT_END)
		return HT_OK;
	if (out->output.n && !ht_str_is(out->output, c->base.program->output[c->task_output].name))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"tolerance '%s': the metric is of output '%s'", text,
			c->base.program->output[c->task_output].name);
	out->output = ht_str(c->base.program->output[c->task_output].name);
	return HT_OK;
}

enum ht_status ht_tolerances_parse(
	struct ht_comparison *c, const char *const *text, size_t n, struct ht_diags *d)
{
	c->tolerance = HT_NEW_ARRAY(&c->arena, struct ht_tolerance, n);
	for (; c->tolerances < n; c->tolerances++)
		HT_TRY(read_one(c, text[c->tolerances], d, &c->tolerance[c->tolerances]));
	return HT_OK;
}

/* ---- judging ---- */

static bool is_lower_bound(enum ht_statistic s)
{
	return s != HT_STAT_END && ht_statistics[s].more;
}

static struct ht_judgement judge(const struct ht_compared *r, struct ht_judgement j)
{
	bool down = is_lower_bound(j.statistic);

	j.value = j.statistic == HT_STAT_END
			  ? (r->metric.n ? r->metric.drop / (double)r->metric.n : 0)
			  : ht_errors_get(&r->errors[j.output], j.statistic);
	j.ok = down ? j.value >= j.bound : j.value <= j.bound;
	j.would_pass = ht_three_digits(j.value, down ? HT_DIGITS_BELOW : HT_DIGITS_ABOVE);
	return j;
}

static bool applies(const struct ht_tolerance *t, const struct ht_value_info *v)
{
	return !t->output.n || ht_str_is(t->output, v->name);
}

static struct ht_judgement by_default(const struct ht_compared *r, size_t output)
{
	bool exact = !ht_is_float(r->errors[output].output) &&
		     ht_dtype_info(r->errors[output].output)->kind != HT_KIND_COMPLEX;

	return (struct ht_judgement){ .output = output,
		.statistic = exact ? HT_STAT_abs : HT_STAT_rel,
		.bound = exact ? 0 : ht_default_tolerance(r->lowest),
		.by_default = true };
}

struct ht_judgement *ht_judge(
	const struct ht_comparison *c, const struct ht_compared *r, struct ht_arena *a, size_t *n)
{
	const struct ht_program *p = r->program;
	struct ht_judgement *j =
		HT_NEW_ARRAY(a, struct ht_judgement, p->outputs * (c->tolerances + 1));

	*n = 0;
	for (size_t i = 0; i < p->outputs; i++) {
		size_t before = *n;
		for (size_t k = 0; k < c->tolerances; k++)
			if (applies(&c->tolerance[k], &p->output[i]))
				j[(*n)++] = judge(r, (struct ht_judgement){ .output = i,
							     .statistic = c->tolerance[k].statistic,
							     .bound = c->tolerance[k].bound });
		if (*n == before)
			j[(*n)++] = judge(r, by_default(r, i));
	}
	return j;
}

const char *ht_judged_name(
	const struct ht_comparison *c, const struct ht_judgement *j, struct ht_arena *a)
{
	return j->statistic == HT_STAT_END ? ht_str_printf(a, "%s-drop", ht_task_name(c->task)).p
					   : ht_statistics[j->statistic].name;
}

const char *ht_judged_sign(const struct ht_judgement *j)
{
	return is_lower_bound(j->statistic) ? ">=" : "<=";
}

enum ht_status ht_compared_verdict(
	const struct ht_comparison *c, const struct ht_compared *r, struct ht_arena *a)
{
	struct ht_judgement *j;
	size_t n;

	if (r->status != HT_OK)
		return r->status;
	j = ht_judge(c, r, a, &n);
	for (size_t i = 0; i < n; i++)
		if (!j[i].ok)
			return HT_E_VERDICT;
	return HT_OK;
}

enum ht_status ht_worse_status(enum ht_status a, enum ht_status b)
{
	static const enum ht_status order[] = { HT_E_INTERNAL, HT_E_ENVIRONMENT, HT_E_LIMIT,
		HT_E_INPUT, HT_E_UNSUPPORTED, HT_E_USAGE, HT_E_VERDICT };

	for (size_t i = 0; i < HT_COUNT(order); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return HT_OK;
}

enum ht_status ht_comparison_worst(const struct ht_comparison *c, struct ht_arena *a)
{
	enum ht_status worst = c->base.status;

	for (const struct ht_compared *r = c->first; r; r = r->next)
		worst = ht_worse_status(worst, ht_compared_verdict(c, r, a));
	return worst;
}

const char *ht_verdict_word(enum ht_status st)
{
	return st == HT_OK ? "pass" : st == HT_E_VERDICT ? "fail" : "error";
}

enum ht_status ht_comparison_verdict(const struct ht_comparison *c, struct ht_diags *d)
{
	struct ht_work w;
	enum ht_status st;

	if (c->model && !c->runs)
		return ht_error(d, HT_E_USAGE, ht_compared_place(c), "there are no samples");
	ht_work_init(&w);
	if (setjmp(w.unwind.env))
		st = HT_E_ENVIRONMENT;
	else
		st = ht_comparison_worst(c, &w.arena);
	ht_work_release(&w);
	return st;
}
