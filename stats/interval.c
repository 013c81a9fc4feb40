#include "stats/interval.h"

#include <math.h>

#define Z95 1.959963984540054 /* the quantile 0.975 of the normal distribution */

static const struct ht_interval none = { -INFINITY, INFINITY };

/* ---- Student's t ---- */

/* The continued fraction of the incomplete beta function, by Lentz's method (Press et al., Numerical
 * Recipes, section 6.4). */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), h;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	h = d;
	for (int m = 1; m < 1000; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double before = h;
		d = 1 / (fabs(1 + even * d) < tiny ? tiny : 1 + even * d);
		c = fabs(1 + even / c) < tiny ? tiny : 1 + even / c;
		h *= d * c;
		d = 1 / (fabs(1 + odd * d) < tiny ? tiny : 1 + odd * d);
		c = fabs(1 + odd / c) < tiny ? tiny : 1 + odd / c;
		h *= d * c;
		if (fabs(h - before) <= 1e-15 * fabs(h))
			break;
	}
	return h;
}

/* The regularised incomplete beta function. */
static double incomplete_beta(double a, double b, double x)
{
	double front;

	if (!(x > 0))
		return 0;
	if (!(x < 1))
		return 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

static double student_below(double t, double freedom)
{
	return 1 - 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double ht_student_quantile(double p, double freedom)
{
	double low = 0, high = 1;

	while (student_below(high, freedom) < p && high < 1e12)
		high *= 2;
	for (int i = 0; i < 100; i++) {
		double middle = low + (high - low) / 2;
		if (student_below(middle, freedom) < p)
			low = middle;
		else
			high = middle;
	}
	return high;
}

struct ht_interval ht_mean_interval(size_t n, double sum, double squares)
{
	double mean, half;

	if (n < 2)
		return none;
	mean = sum / (double)n;
	half = ht_student_quantile(0.975, (double)(n - 1)) *
	       sqrt(fmax(0, squares - sum * mean) / (double)(n - 1) / (double)n);
	return (struct ht_interval){ mean - half, mean + half };
}

/* ---- paired proportions ---- */

/* Tango's statistic for the hypothesis that the difference is `delta`; it falls with delta. */
static double score(double lost, double won, double n, double delta)
{
	double b = -lost - won + (2 * n - lost + won) * delta, c = -won * delta * (1 - delta);
	double q = (sqrt(fmax(0, b * b - 8 * n * c)) - b) / (4 * n);
	double variance = n * (2 * q + delta * (1 - delta));
	double distance = lost - won - n * delta;

	if (variance > 0)
		return distance / sqrt(variance);
	return distance > 0 ? INFINITY : distance < 0 ? -INFINITY : 0;
}

static double where_score_is(
	double want, double lost, double won, double n, double low, double high)
{
	for (int i = 0; i < 100; i++) {
		double middle = low + (high - low) / 2;
		if (score(lost, won, n, middle) > want)
			low = middle;
		else
			high = middle;
	}
	return low + (high - low) / 2;
}

struct ht_interval ht_paired_interval(size_t lost, size_t won, size_t n)
{
	double l = (double)lost, w = (double)won, all = (double)n, at = (l - w) / all;

	if (!n)
		return none;
	return (struct ht_interval){
		where_score_is(Z95, l, w, all, -1, at),
		where_score_is(-Z95, l, w, all, at, 1),
	};
}

/* ---- medians ---- */

bool ht_median_ranks(size_t n, size_t *low, size_t *high)
{
	double below = 0,
	       term = -(double)n * log(2); /* of the binomial distribution, as a logarithm */
	size_t k = 0;

	while (k < n / 2 && below + exp(term) <= 0.025) {
		below += exp(term);
		term += log((double)(n - k)) - log((double)(k + 1));
		k++;
	}
	if (!k)
		return false;
	*low = k - 1;
	*high = n - k;
	return true;
}

/* ---- metrics in pairs ---- */

void ht_paired_add(struct ht_paired *p, double first, double second)
{
	double d = first - second;

	p->n++;
	p->lost += first > second;
	p->won += second > first;
	p->fractions |= (first != 0 && first != 1) || (second != 0 && second != 1);
	p->first += first;
	p->second += second;
	p->drop += d;
	p->squares += d * d;
}

struct ht_interval ht_paired_drop(const struct ht_paired *p)
{
	return p->fractions ? ht_mean_interval(p->n, p->drop, p->squares)
			    : ht_paired_interval(p->lost, p->won, p->n);
}

const char *ht_paired_method(const struct ht_paired *p)
{
	return p->fractions ? "Student's t over pairs" : "Tango's score for paired proportions";
}
