/* Attribution: sums over the elements of a tensor, which are converted to double in chunks. */
#include "api/attribute.h"
#include "stats/values.h"

#include <halftone/runtime.h>
#include <math.h>
#include <string.h>

/* Element i of a chunk is added to partial sum i % LANES, so that loops vectorise and the order of additions is fixed. */
enum { CHUNK = 1024, LANES = 8 };

/* ---- elements of one type as those of another ---- */

static const char *element(struct ht_elements e, size_t i)
{
	return (const char *)e.at + i * ht_dtype_info(e.dtype)->bytes;
}

static void floats_of(struct ht_elements e, size_t first, size_t n, float *to)
{
	double x;

	if (e.dtype == HT_F32) {
		memcpy(to, element(e, first), n * sizeof *to);
		return;
	}
	if (e.dtype != HT_F64) {
		ht_widen(element(e, first), e.dtype, to, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		memcpy(&x, element(e, first + i), sizeof x);
		to[i] = (float)x;
	}
}

static void round_floats(enum ht_dtype t, float *x, size_t n)
{
	uint16_t low[CHUNK];

	if (!ht_is_low(t))
		return;
	ht_narrow(x, t, low, n);
	ht_widen(low, t, x, n);
}

/* Elements first..first+n-1 as doubles, rounded to `t` if `t` is float16 or bfloat16. */
static void doubles_of(struct ht_elements e, enum ht_dtype t, size_t first, size_t n, double *to)
{
	float x[CHUNK];

	if (e.dtype == HT_F64 && t == HT_F64) {
		memcpy(to, element(e, first), n * sizeof *to);
		return;
	}
	floats_of(e, first, n, x);
	if (e.dtype != t)
		round_floats(t, x, n);
	for (size_t i = 0; i < n; i++)
		to[i] = (double)x[i];
}

static void put_floats(const float *x, enum ht_dtype t, char *to, size_t n)
{
	if (t == HT_F32) {
		memcpy(to, x, n * sizeof *x);
	} else if (t != HT_F64) {
		ht_narrow(x, t, to, n);
	} else {
		for (size_t i = 0; i < n; i++)
			memcpy(to + i * sizeof(double), &(double){ (double)x[i] }, sizeof(double));
	}
}

void ht_elements_convert(
	struct ht_elements from, enum ht_dtype rounded_to, enum ht_dtype to, void *out, size_t n)
{
	size_t bytes = ht_dtype_info(to)->bytes;
	float x[CHUNK];

	if (from.dtype == to && rounded_to == to) {
		memcpy(out, from.at, n * bytes);
		return;
	}
	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < CHUNK ? n - i : CHUNK;
		floats_of(from, i, m, x);
		if (from.dtype != rounded_to)
			round_floats(rounded_to, x, m);
		put_floats(x, to, (char *)out + i * bytes, m);
	}
}

/* ---- sums ---- */

struct lanes {
	double squares[LANES], most[LANES];
};

static void add_lanes(struct lanes *l, const double *x, size_t n)
{
	for (size_t i = 0; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++) {
			l->squares[k] += x[i + k] * x[i + k];
			l->most[k] = x[i + k] > l->most[k] ? x[i + k] : l->most[k];
		}
	for (size_t i = n / LANES * LANES; i < n; i++) {
		l->squares[i % LANES] += x[i] * x[i];
		l->most[i % LANES] = x[i] > l->most[i % LANES] ? x[i] : l->most[i % LANES];
	}
}

static void add_up(const struct lanes *l, double *squares, double *most)
{
	for (size_t k = 0; k < LANES; k++) {
		*squares += l->squares[k];
		*most = l->most[k] > *most ? l->most[k] : *most;
	}
}

void ht_distance_add(struct ht_distance_sum *s, struct ht_elements got, enum ht_dtype rounded_to,
	struct ht_elements want, size_t n)
{
	double a[CHUNK], b[CHUNK];
	struct lanes l = { 0 };

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < CHUNK ? n - i : CHUNK;
		doubles_of(got, rounded_to, i, m, a);
		doubles_of(want, want.dtype, i, m, b);
		for (size_t k = 0; k < m; k++)
			a[k] = ht_difference(a[k], b[k]);
		add_lanes(&l, a, m);
	}
	add_up(&l, &s->squares, &s->most);
}

void ht_reference_add(struct ht_node_error *e, struct ht_elements want, size_t n)
{
	double b[CHUNK];
	struct lanes l = { 0 };

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < CHUNK ? n - i : CHUNK;
		doubles_of(want, want.dtype, i, m, b);
		for (size_t k = 0; k < m; k++)
			b[k] = isfinite(b[k]) ? fabs(b[k]) : 0;
		add_lanes(&l, b, m);
	}
	add_up(&l, &e->squares, &e->most);
	e->elements += n;
}

void ht_exponents_add(uint64_t exponent[HT_EXPONENTS], struct ht_elements want, size_t n)
{
	double b[CHUNK];

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < CHUNK ? n - i : CHUNK;
		doubles_of(want, want.dtype, i, m, b);
		for (size_t k = 0; k < m; k++) {
			uint64_t bits;
			int at;

			if (b[k] == 0 || !isfinite(b[k]))
				continue;
			memcpy(&bits, &b[k], sizeof bits);
			at = (int)(bits >> 52 & 0x7ff) - 1023 - HT_LEAST_EXPONENT;
			exponent[at < 0 ? 0 : at >= HT_EXPONENTS ? HT_EXPONENTS - 1 : at]++;
		}
	}
}

/* ---- overflow, underflow, subnormals, NaN ---- */

void ht_numerics_add(struct ht_node_error *e, enum ht_dtype t, struct ht_elements got,
	struct ht_elements want, size_t n, size_t sample)
{
	double a[CHUNK], b[CHUNK], least = ht_least_normal(t);
	uint64_t found[HT_NUMERICS] = { 0 };

	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < CHUNK ? n - i : CHUNK;
		doubles_of(got, t, i, m, a);
		doubles_of(want, want.dtype, i, m, b);
		for (size_t k = 0; k < m; k++) {
			double x = fabs(a[k]), y = fabs(b[k]);
			found[HT_NUMERIC_OVERFLOW] +=
				(x == (double)INFINITY) & (y < (double)INFINITY);
			found[HT_NUMERIC_UNDERFLOW] += (x == 0) & (y != 0);
			found[HT_NUMERIC_SUBNORMAL] += (x != 0) & (x < least);
			found[HT_NUMERIC_NAN] += (x != x) & (y == y);
		}
	}
	for (int k = 0; k < HT_NUMERICS; k++) {
		if (found[k] && !e->count[k])
			e->sample[k] = sample;
		e->count[k] += found[k];
	}
}
