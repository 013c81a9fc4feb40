#include "stats/errors.h"

#include <float.h>
#include <math.h>

#define LESS false
#define MORE true
const struct ht_statistic_row ht_statistics[HT_STAT_END] = {
#define STATISTIC(name, more, unbounded, meaning)                                                  \
	[HT_STAT_##name] = { #name, more, unbounded, meaning },
#include "stats/statistics.def"
#undef STATISTIC
};

enum ht_statistic ht_statistic_named(struct ht_str name)
{
	enum ht_statistic s = 0;

	while (s < HT_STAT_END && !ht_str_is(name, ht_statistics[s].name))
		s++;
	return s;
}

void ht_errors_init(
	struct ht_errors *e, enum ht_dtype output, enum ht_dtype low, struct ht_arena *a)
{
	*e = (struct ht_errors){ .output = output, .low = low, .cos = 1 };
	ht_spread_init(&e->abs, a);
	ht_spread_init(&e->ulp, a);
	ht_spread_init(&e->low_ulp, a);
}

/* The sums over one sample. */
struct sample {
	double most, largest, squares, own, got, dot;
};

static void count(struct ht_errors *e, double x, double y)
{
	double ax = fabs(x);

	e->of[HT_STAT_nan] += isnan(x) != 0;
	e->of[HT_STAT_reference_nan] += isnan(y) != 0;
	e->of[HT_STAT_infinite] += isinf(x) != 0;
	e->of[HT_STAT_reference_infinite] += isinf(y) != 0;
	e->of[HT_STAT_overflow] += isinf(x) && isfinite(y);
	e->of[HT_STAT_underflow] += x == 0 && y != 0 && !isnan(y);
	e->of[HT_STAT_subnormal] += ax > 0 && ax < ht_least_normal(e->output);
}

static void add_finite(struct ht_errors *e, struct sample *s, double x, double y, double d)
{
	double ay = fabs(y), normal = ht_least_normal(e->output);

	s->most = fmax(s->most, d);
	s->largest = fmax(s->largest, ay);
	s->squares += d * d;
	s->own += y * y;
	s->got += x * x;
	s->dot += x * y;
	e->sum += d;
	ht_spread_add(&e->abs, d);
	ht_spread_add(&e->ulp, d > 0 ? d / ht_spacing(e->output, y) : 0);
	ht_spread_add(&e->low_ulp, d > 0 ? d / ht_spacing(e->low, y) : 0);
	if (!(ay > 0) || ay < normal)
		return;
	e->relative++;
	e->max_rel = fmax(e->max_rel, d / ay);
	e->sum_rel += d / ay;
}

static double cosine(const struct sample *s)
{
	if (!(s->own > 0) || !(s->got > 0))
		return s->own > 0 || s->got > 0 ? 0 : 1;
	return fmax(-1, fmin(1, s->dot / (sqrt(s->own) * sqrt(s->got))));
}

static void end_sample(struct ht_errors *e, const struct sample *s)
{
	e->samples++;
	e->squares += s->squares;
	e->own_squares += s->own;
	if (!(s->most > 0))
		return;
	e->cos = fmin(e->cos, cosine(s));
	e->rel = fmax(e->rel, s->largest > 0 ? s->most / s->largest : INFINITY);
	e->rms = fmax(e->rms, s->own > 0 ? sqrt(s->squares / s->own) : INFINITY);
}

static bool same_places(const size_t *a, const size_t *b, size_t k)
{
	size_t same = 0;

	for (size_t i = 0; i < k; i++)
		for (size_t j = 0; j < k; j++)
			same += a[i] == b[j];
	return same == k;
}

static void add_rows(struct ht_errors *e, const struct ht_values *got, const struct ht_values *want)
{
	size_t k = want->row < HT_MAX_TOP ? want->row : HT_MAX_TOP, a[HT_MAX_TOP], b[HT_MAX_TOP];

	if (want->row < 2)
		return;
	for (size_t i = 0; i < want->count; i += want->row) {
		ht_largest_k(got, i, want->row, k, a);
		ht_largest_k(want, i, want->row, k, b);
		e->argmax += a[0] == b[0];
		e->top5 += same_places(a, b, k);
		e->rows++;
	}
}

void ht_errors_add(struct ht_errors *e, const struct ht_values *got, const struct ht_values *want)
{
	struct sample s = { 0 };

	for (size_t i = 0; i < want->count; i++) {
		double x = ht_value(got, i), y = ht_value(want, i);
		double d = ht_distance(got, want, i);
		count(e, x, y);
		e->elements++;
		if (!isfinite(d))
			e->unbounded = true;
		else if (isfinite(x) && isfinite(y))
			add_finite(e, &s, x, y, d);
	}
	end_sample(e, &s);
	add_rows(e, got, want);
}

static double ratio(double a, double b, double without)
{
	return b > 0 ? a / b : without;
}

static double snr(const struct ht_errors *e)
{
	if (!(e->squares > 0))
		return INFINITY;
	return e->own_squares > 0 ? 10 * log10(e->own_squares / e->squares) : -INFINITY;
}

static bool is_bounded(const struct ht_errors *e, enum ht_statistic s)
{
	return !e->unbounded || ht_statistics[s].unbounded == 0;
}

double ht_errors_get(const struct ht_errors *e, enum ht_statistic s)
{
	double n = (double)e->abs.n;

	if (!is_bounded(e, s))
		return ht_statistics[s].unbounded;
	switch (s) {
	case HT_STAT_rel:
		return e->rel;
	case HT_STAT_rms:
		return e->rms;
	case HT_STAT_cos:
		return e->cos;
	case HT_STAT_abs:
		return e->abs.most;
	case HT_STAT_mean_abs:
		return ratio(e->sum, n, 0);
	case HT_STAT_rmse:
		return sqrt(ratio(e->squares, n, 0));
	case HT_STAT_max_rel:
		return e->max_rel;
	case HT_STAT_mean_rel:
		return ratio(e->sum_rel, (double)e->relative, 0);
	case HT_STAT_snr:
		return snr(e);
	case HT_STAT_max_ulp:
		return e->ulp.most;
	case HT_STAT_p999_ulp:
		return ht_spread_quantile(&e->ulp, 0.999);
	case HT_STAT_max_low_ulp:
		return e->low_ulp.most;
	case HT_STAT_p999_low_ulp:
		return ht_spread_quantile(&e->low_ulp, 0.999);
	case HT_STAT_p50_abs:
		return ht_spread_quantile(&e->abs, 0.5);
	case HT_STAT_p90_abs:
		return ht_spread_quantile(&e->abs, 0.9);
	case HT_STAT_p99_abs:
		return ht_spread_quantile(&e->abs, 0.99);
	case HT_STAT_p999_abs:
		return ht_spread_quantile(&e->abs, 0.999);
	case HT_STAT_argmax:
		return ratio((double)e->argmax, (double)e->rows, 1);
	case HT_STAT_top5:
		return ratio((double)e->top5, (double)e->rows, 1);
	default:
		return (double)e->of[s];
	}
}
