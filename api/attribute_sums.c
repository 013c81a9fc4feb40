/* Attribution: sums over the elements of a tensor.
 *
 * Native loops add chunks of float32 numbers.  A chunk with an infinity or a NaN, which makes
 * the sum of squares infinite or NaN, and tensors of float64 are added by a loop that knows how
 * such differences count. */
#include "api/attribute.h"
#include "kernel/native.h"
#include "stats/values.h"

#include <math.h>
#include <string.h>

enum { CHUNK = HT_ELEMENTS_CHUNK, LANES = HT_NATIVE_LANES };

static size_t chunk_of(size_t left)
{
	return left < CHUNK ? left : CHUNK;
}

/* ---- sums ---- */

static void add(struct ht_native_sums *s, size_t lane, double d)
{
	s->squares[lane] += d * d;
	s->most[lane] = d > s->most[lane] ? d : s->most[lane];
}

static void add_floats(struct ht_native_sums *s, const float *a, const float *b, size_t n)
{
	for (size_t i = (size_t)ht_native_differences(s, a, b, (int64_t)n); i < n; i++)
		add(s, i % LANES, fabs((double)a[i] - (double)b[i]));
}

static bool is_finite(const struct ht_native_sums *s)
{
	double sum = 0;

	for (size_t k = 0; k < LANES; k++)
		sum += s->squares[k];
	return isfinite(sum);
}

static void add_up(const struct ht_native_sums *l, double *squares, double *most)
{
	for (size_t k = 0; k < LANES; k++) {
		*squares += l->squares[k];
		*most = l->most[k] > *most ? l->most[k] : *most;
	}
}

/* For tensors of which at least one is float64: differences of doubles. */
static void add_doubles(struct ht_native_sums *s, struct ht_elements got, enum ht_dtype rounded_to,
	struct ht_elements want, size_t first, size_t n)
{
	double a[CHUNK], b[CHUNK];

	ht_elements_doubles(got, rounded_to, first, n, a);
	ht_elements_doubles(want, want.dtype, first, n, b);
	for (size_t k = 0; k < n; k++)
		add(s, k % LANES, ht_difference(a[k], b[k]));
}

static bool are_floats(struct ht_elements a, struct ht_elements b)
{
	return a.dtype != HT_F64 && b.dtype != HT_F64;
}

void ht_distance_add(struct ht_distance_sum *s, struct ht_elements got, enum ht_dtype rounded_to,
	struct ht_elements want, size_t n)
{
	struct ht_native_sums l = { 0 }, before;
	float a[CHUNK], b[CHUNK];

	for (size_t i = 0, m; i < n; i += m) {
		m = chunk_of(n - i);
		before = l;
		if (are_floats(got, want)) {
			add_floats(&l, ht_elements_floats(got, rounded_to, i, m, a),
				ht_elements_floats(want, want.dtype, i, m, b), m);
			if (is_finite(&l))
				continue;
		}
		l = before;
		add_doubles(&l, got, rounded_to, want, i, m);
	}
	add_up(&l, &s->squares, &s->most);
}

static void add_finite(struct ht_native_sums *s, struct ht_elements want, size_t first, size_t n)
{
	double b[CHUNK];

	ht_elements_doubles(want, want.dtype, first, n, b);
	for (size_t k = 0; k < n; k++)
		add(s, k % LANES, isfinite(b[k]) ? fabs(b[k]) : 0);
}

/* Sums of a node's own error, and those of the reference's elements. */
struct own_sums {
	struct ht_native_sums own, of;
};

/* False: an element is not finite, or one is float64; then nothing was added. */
static bool add_own_floats(
	struct own_sums *s, struct ht_elements got, struct ht_elements want, size_t first, size_t n)
{
	struct own_sums sums = *s;
	float a[CHUNK], b[CHUNK];
	const float *x, *y;

	if (!are_floats(got, want))
		return false;
	x = ht_elements_floats(got, got.dtype, first, n, a);
	y = ht_elements_floats(want, want.dtype, first, n, b);
	for (size_t i = (size_t)ht_native_compare(&sums.own, &sums.of, x, y, (int64_t)n); i < n;
		i++) {
		add(&sums.own, i % LANES, fabs((double)x[i] - (double)y[i]));
		add(&sums.of, i % LANES, fabs((double)y[i]));
	}
	if (!is_finite(&sums.own) || !is_finite(&sums.of))
		return false;
	*s = sums;
	return true;
}

void ht_own_add(struct ht_node_error *e, struct ht_elements got, struct ht_elements want, size_t n)
{
	struct own_sums s = { 0 };

	for (size_t i = 0, m; i < n; i += m) {
		m = chunk_of(n - i);
		if (add_own_floats(&s, got, want, i, m))
			continue;
		add_doubles(&s.own, got, got.dtype, want, i, m);
		add_finite(&s.of, want, i, m);
	}
	add_up(&s.own, &e->own.squares, &e->own.most);
	add_up(&s.of, &e->squares, &e->most);
	e->elements += n;
}

/* ---- exponents ---- */

static uint64_t *bin_of(uint64_t exponent[HT_EXPONENTS], int of)
{
	int at = of - HT_LEAST_EXPONENT;

	return &exponent[at < 0 ? 0 : at >= HT_EXPONENTS ? HT_EXPONENTS - 1 : at];
}

static void add_double_exponents(
	uint64_t exponent[HT_EXPONENTS], struct ht_elements want, size_t first, size_t n)
{
	double b[CHUNK];

	ht_elements_doubles(want, want.dtype, first, n, b);
	for (size_t k = 0; k < n; k++)
		if (b[k] != 0 && isfinite(b[k]))
			(*bin_of(exponent, ilogb(b[k])))++;
}

/* Histograms by the 8 bits of float32's exponent.  There are several tables, so that an
 * increment need not wait for the one before if neighbours have equal exponents. */
enum { TABLES = 8 };

static uint32_t exponent_bits(const float *x)
{
	uint32_t bits;

	memcpy(&bits, x, sizeof bits);
	return bits >> 23 & 0xff;
}

static void count_exponents(uint32_t bin[TABLES][256], const float *x, size_t n)
{
	size_t i = 0;

	for (; i + TABLES <= n; i += TABLES)
		for (size_t k = 0; k < TABLES; k++)
			bin[k][exponent_bits(x + i + k)]++;
	for (; i < n; i++)
		bin[0][exponent_bits(x + i)]++;
}

/* Zeros and subnormal numbers share bin 0. */
static bool is_any_subnormal(const float *x, size_t n)
{
	uint32_t any = 0;

	for (size_t k = 0; k < n; k++) {
		uint32_t bits;

		memcpy(&bits, &x[k], sizeof bits);
		any |= (bits & 0x7fffffff) - 1 < 0x7fffff;
	}
	return any;
}

static void add_bins(uint64_t exponent[HT_EXPONENTS], uint32_t bin[TABLES][256])
{
	for (int k = 0; k < TABLES; k++)
		for (int i = 1; i < 255; i++)
			*bin_of(exponent, i - 127) += bin[k][i];
	memset(bin, 0, sizeof(uint32_t[TABLES][256]));
}

void ht_exponents_add(uint64_t exponent[HT_EXPONENTS], struct ht_elements want, size_t n)
{
	/* A bin has 32 bits, so it can count this many elements. */
	const size_t most = (size_t)1 << 30;
	uint32_t bin[TABLES][256] = { 0 };
	float room[CHUNK];
	const float *x;

	for (size_t i = 0, m; i < n; i += m) {
		m = chunk_of(n - i);
		if (want.dtype != HT_F64 &&
			!is_any_subnormal(x = ht_elements_floats(want, want.dtype, i, m, room), m))
			count_exponents(bin, x, m);
		else
			add_double_exponents(exponent, want, i, m);
		if (i / most != (i + m) / most)
			add_bins(exponent, bin);
	}
	add_bins(exponent, bin);
}

/* ---- errors of the policy's tensors: overflow, underflow, subnormals, NaN ---- */

static void count_doubles(
	uint64_t found[HT_NUMERICS], double least, const double *a, const double *b, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		double x = fabs(a[k]), y = fabs(b[k]);

		found[HT_NUMERIC_OVERFLOW] += (x == (double)INFINITY) & (y < (double)INFINITY);
		found[HT_NUMERIC_UNDERFLOW] += (x == 0) & (y != 0);
		found[HT_NUMERIC_SUBNORMAL] += (x != 0) & (x < least);
		found[HT_NUMERIC_NAN] += (x != x) & (y == y);
	}
}

/* The same for finite numbers. */
static void count_floats(
	uint64_t found[HT_NUMERICS], float least, const float *a, const float *b, size_t n)
{
	uint32_t zeros = 0, smaller = 0;

	for (size_t i = (size_t)ht_native_small(a, b, least, (int64_t)n, &zeros, &smaller); i < n;
		i++) {
		zeros += (a[i] == 0) & (b[i] != 0);
		smaller += (a[i] != 0) & (fabsf(a[i]) < least);
	}
	found[HT_NUMERIC_UNDERFLOW] += zeros;
	found[HT_NUMERIC_SUBNORMAL] += smaller;
}

static void compare_doubles(struct ht_native_sums *l, uint64_t found[HT_NUMERICS], double least,
	struct ht_elements got, struct ht_elements want, size_t first, size_t n)
{
	double a[CHUNK], b[CHUNK];

	ht_elements_doubles(got, got.dtype, first, n, a);
	ht_elements_doubles(want, want.dtype, first, n, b);
	for (size_t k = 0; k < n; k++)
		add(l, k % LANES, ht_difference(a[k], b[k]));
	count_doubles(found, least, a, b, n);
}

/* False: an element is not finite, or not float32; then nothing was added or counted. */
static bool compare_floats(struct ht_native_sums *l, uint64_t found[HT_NUMERICS], double least,
	struct ht_elements got, struct ht_elements want, size_t first, size_t n)
{
	struct ht_native_sums sums = *l;
	float a[CHUNK], b[CHUNK];
	const float *x, *y;

	if (!are_floats(got, want))
		return false;
	x = ht_elements_floats(got, got.dtype, first, n, a);
	y = ht_elements_floats(want, want.dtype, first, n, b);
	add_floats(&sums, x, y, n);
	if (!is_finite(&sums))
		return false;
	*l = sums;
	count_floats(found, (float)least, x, y, n);
	return true;
}

void ht_error_add(struct ht_node_error *e, enum ht_dtype t, struct ht_elements got,
	struct ht_elements want, size_t n, size_t sample)
{
	uint64_t found[HT_NUMERICS] = { 0 };
	struct ht_native_sums l = { 0 };
	double least = ht_least_normal(t);

	for (size_t i = 0, m; i < n; i += m) {
		m = chunk_of(n - i);
		if (!compare_floats(&l, found, least, got, want, i, m))
			compare_doubles(&l, found, least, got, want, i, m);
	}
	add_up(&l, &e->error.squares, &e->error.most);
	for (int k = 0; k < HT_NUMERICS; k++) {
		if (found[k] && !e->count[k])
			e->sample[k] = sample;
		e->count[k] += found[k];
	}
}
