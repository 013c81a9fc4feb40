/* Plots of each policy's cost against its loss of accuracy. */
#include "api/page.h"

#include <math.h>

double ht_page_error(const cJSON *policy)
{
	const cJSON *output;
	double most = NAN;

	cJSON_ArrayForEach(output, ht_member(policy, "outputs"))
	{
		double rel = ht_member_number(output, "rel");
		if (isnan(rel))
			return INFINITY;
		most = fmax(most, rel);
	}
	return most;
}

/* The measure on an axis of a plot: a member of a policy. */
struct measure {
	const char *name; /* of the axis */
	double (*of)(const cJSON *policy);
	const cJSON *(*interval)(const cJSON *policy); /* an object with low and high, or NULL */
};

static const cJSON *time_interval(const cJSON *policy)
{
	return ht_member(policy, "latency_ms");
}

static double time_of(const cJSON *policy)
{
	return ht_member_number(time_interval(policy), "median");
}

static double memory_of(const cJSON *policy)
{
	return ht_member_number(policy, "memory_bytes") / 1e6;
}

static const cJSON *drop_interval(const cJSON *policy)
{
	return ht_member(policy, "metric");
}

static double drop_of(const cJSON *policy)
{
	return ht_member_number(drop_interval(policy), "drop");
}

static const struct measure time_measure = { "median latency in ms", time_of, time_interval },
			    memory_measure = { "memory of the program in MB", memory_of, NULL },
			    error_measure = { "largest rel of an output", ht_page_error, NULL },
			    drop_measure = { "drop of the metric", drop_of, drop_interval };

static void bounds(const struct measure *m, const cJSON *policy, double *low, double *high)
{
	const cJSON *object = m->interval ? m->interval(policy) : NULL;

	*low = object ? ht_member_number(object, "low") : NAN;
	*high = object ? ht_member_number(object, "high") : NAN;
}

static bool passes(const cJSON *policy)
{
	return ht_str_is(ht_member_text(policy, "verdict"), "pass");
}

static struct ht_point point_of(
	const cJSON *policy, const struct measure *x, const struct measure *y, struct ht_arena *a)
{
	struct ht_str name = ht_member_text(policy, "policy");
	struct ht_point p = {
		.label = name, .x = x->of(policy), .y = y->of(policy), .good = passes(policy)
	};

	bounds(x, policy, &p.x_low, &p.x_high);
	bounds(y, policy, &p.y_low, &p.y_high);
	p.says = ht_str_printf(a, "%.*s: %s %s, %s %s", HT_STR_ARG(name), x->name,
		ht_text_number(a, p.x).p, y->name, ht_text_number(a, p.y).p);
	return p;
}

/* Whether a policy has a value for the measure: without outputs there is no error. */
static bool has(const struct measure *m, const cJSON *policy)
{
	return !ht_member(policy, "error") &&
	       (m->interval || ht_member(policy, "outputs")->child) &&
	       !(m->interval && isnan(m->of(policy)));
}

static void put_plot(struct ht_page_work *w, struct ht_buf *b, const cJSON *model,
	const struct measure *x, const struct measure *y, double mark)
{
	const cJSON *policies = ht_member(model, "policies"), *i;
	struct ht_point *point =
		HT_NEW_ARRAY(w->a, struct ht_point, (size_t)cJSON_GetArraySize(policies));
	struct ht_plot_mark own = { mark, "the model as it is" };
	struct ht_plot plot = { .title = ht_str_printf(
					w->a, "The %s against the %s.", y->name, x->name),
		.x_name = ht_str(x->name),
		.y_name = ht_str(y->name),
		.log_y = y == &error_measure,
		.point = point,
		.mark = &own,
		.marks = 1 };

	cJSON_ArrayForEach(i, policies)
	{
		if (has(y, i))
			point[plot.points++] = point_of(i, x, y, w->a);
	}
	ht_page_plot(b, &plot);
}

void ht_page_frontier(struct ht_page_work *w, const cJSON *model)
{
	double own = ht_member_number(ht_member(model, "latency_ms"), "median");
	struct ht_buf b;

	ht_buf_init(&b, w->a);
	put_plot(w, &b, model, &time_measure, &error_measure, own);
	put_plot(w, &b, model, &memory_measure, &error_measure, NAN);
	if (ht_member(model, "metric"))
		put_plot(w, &b, model, &time_measure, &drop_measure, own);
	if (!b.n)
		return;
	ht_page_fold(w->b, HT_STR("Frontier"), false);
	ht_page_paragraph(w->b,
		HT_STR("Bars are intervals; crosses exceed a tolerance; the dashed line joins the policies than "
		       "which no other is better in both."));
	ht_put_str(w->b, ht_buf_str(&b));
	ht_page_fold_end(w->b);
}
