/* Attribution: sums over the elements of a tensor.
 *
 * Native loops add chunks of float32 numbers.  Their differences are rounded to float32, which is exact for numbers that
 * differ by less than a factor of 2.  A chunk with an infinity or a NaN, which makes
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

/* Sums of float32 differences by lanes, and of others. */
struct sums {
	struct ht_native_sums lanes;
	struct ht_distance_sum others;
};

static void add_float(struct sums *s, size_t lane, float d)
{
	float size = fabsf(d), *most = &s->lanes.most[lane];

	s->lanes.squares[lane] += (double)d * (double)d;
	*most = size > *most ? size : *most;
}

static void add_double(struct sums *s, double d)
{
	s->others.squares += d * d;
	s->others.most = d > s->others.most ? d : s->others.most;
}

static bool is_finite(const struct sums *s)
{
	double sum = 0;

	for (size_t k = 0; k < LANES; k++)
		sum += s->lanes.squares[k];
	return isfinite(sum);
}

static void add_up(const struct sums *s, double *squares, double *most)
{
	*squares += s->others.squares;
	*most = s->others.most > *most ? s->others.most : *most;
	for (size_t k = 0; k < LANES; k++) {
		*squares += s->lanes.squares[k];
		*most = (double)s->lanes.most[k] > *most ? (double)s->lanes.most[k] : *most;
	}
}

/* A chunk of two tensors: elements first to first+n-1.  Those of `got` are rounded to `rounded_to` first. */
struct chunk {
	struct ht_elements got, want;
	enum ht_dtype rounded_to;
	size_t first, n;
};

/* For chunks of which at least one is float64, or has an element that is not finite: differences of doubles. */
static void add_doubles(struct sums *s, const struct chunk *c)
{
	double a[CHUNK], b[CHUNK];

	ht_elements_doubles(c->got, c->rounded_to, c->first, c->n, a);
	ht_elements_doubles(c->want, c->want.dtype, c->first, c->n, b);
	for (size_t k = 0; k < c->n; k++)
		add_double(s, ht_difference(a[k], b[k]));
}

/* The elements of a chunk as float32. */
struct floats {
	const float *got, *want;
	float room[2][CHUNK];
};

/* False: the elements are float64. */
static bool as_floats(const struct chunk *c, struct floats *f)
{
	if (c->got.dtype == HT_F64 || c->want.dtype == HT_F64)
		return false;
	f->got = ht_elements_floats(c->got, c->rounded_to, c->first, c->n, f->room[0]);
	f->want = ht_elements_floats(c->want, c->want.dtype, c->first, c->n, f->room[1]);
	return true;
}

/* The functions that add floats return false if nothing was added, because elements are float64 or not finite. */
static bool add_floats(struct sums *s, const struct chunk *c)
{
	struct sums sums = *s;
	struct floats f;

	if (!as_floats(c, &f))
		return false;
	for (size_t i = (size_t)ht_native_differences(&sums.lanes, f.got, f.want, (int64_t)c->n);
		i < c->n; i++)
		add_float(&sums, i % LANES, f.got[i] - f.want[i]);
	if (!is_finite(&sums))
		return false;
	*s = sums;
	return true;
}

void ht_distance_add(struct ht_distance_sum *s, struct ht_elements got, enum ht_dtype rounded_to,
	struct ht_elements want, size_t n)
{
	struct chunk c = { got, want, rounded_to, 0, 0 };
	struct sums sums = { 0 };

	for (; c.first < n; c.first += c.n) {
		c.n = chunk_of(n - c.first);
		if (!add_floats(&sums, &c))
			add_doubles(&sums, &c);
	}
	add_up(&sums, &s->squares, &s->most);
}

static void add_finite(struct sums *s, const struct chunk *c)
{
	double b[CHUNK];

	ht_elements_doubles(c->want, c->want.dtype, c->first, c->n, b);
	for (size_t k = 0; k < c->n; k++)
		add_double(s, isfinite(b[k]) ? fabs(b[k]) : 0);
}

/* Sums of a node's own error, and those of the reference's elements. */
struct own_sums {
	struct sums own, of;
};

static bool add_own_floats(struct own_sums *s, const struct chunk *c)
{
	struct own_sums sums = *s;
	struct floats f;

	if (!as_floats(c, &f))
		return false;
	for (size_t i = (size_t)ht_native_compare(
		     &sums.own.lanes, &sums.of.lanes, f.got, f.want, (int64_t)c->n);
		i < c->n; i++) {
		add_float(&sums.own, i % LANES, f.got[i] - f.want[i]);
		add_float(&sums.of, i % LANES, f.want[i]);
	}
	if (!is_finite(&sums.own) || !is_finite(&sums.of))
		return false;
	*s = sums;
	return true;
}

void ht_own_add(struct ht_node_error *e, struct ht_elements got, struct ht_elements want, size_t n)
{
	struct chunk c = { got, want, got.dtype, 0, 0 };
	struct own_sums s = { 0 };

	for (; c.first < n; c.first += c.n) {
		c.n = chunk_of(n - c.first);
		if (add_own_floats(&s, &c))
			continue;
		add_doubles(&s.own, &c);
		add_finite(&s.of, &c);
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

static void compare_doubles(
	struct sums *s, uint64_t found[HT_NUMERICS], double least, const struct chunk *c)
{
	double a[CHUNK], b[CHUNK];

	ht_elements_doubles(c->got, c->rounded_to, c->first, c->n, a);
	ht_elements_doubles(c->want, c->want.dtype, c->first, c->n, b);
	for (size_t k = 0; k < c->n; k++)
		add_double(s, ht_difference(a[k], b[k]));
	count_doubles(found, least, a, b, c->n);
}

static bool compare_floats(
	struct sums *s, uint64_t found[HT_NUMERICS], float least, const struct chunk *c)
{
	struct ht_native_small small = { 0 };
	struct sums sums = *s;
	struct floats f;

	if (!as_floats(c, &f))
		return false;
	for (size_t i = (size_t)ht_native_errors(
		     &sums.lanes, &small, f.got, f.want, least, (int64_t)c->n);
		i < c->n; i++) {
		add_float(&sums, i % LANES, f.got[i] - f.want[i]);
		small.zeros += (f.got[i] == 0) & (f.want[i] != 0);
		small.smaller += (f.got[i] != 0) & (fabsf(f.got[i]) < least);
	}
	if (!is_finite(&sums))
		return false;
	*s = sums;
	found[HT_NUMERIC_UNDERFLOW] += small.zeros;
	found[HT_NUMERIC_SUBNORMAL] += small.smaller;
	return true;
}

void ht_error_add(struct ht_node_error *e, enum ht_dtype t, struct ht_elements got,
	struct ht_elements want, size_t n, size_t sample)
{
	struct chunk c = { got, want, got.dtype, 0, 0 };
	uint64_t found[HT_NUMERICS] = { 0 };
	double least = ht_least_normal(t);
	struct sums sums = { 0 };

	for (; c.first < n; c.first += c.n) {
		c.n = chunk_of(n - c.first);
		if (!compare_floats(&sums, found, (float)least, &c))
			compare_doubles(&sums, found, least, &c);
	}
	add_up(&sums, &e->error.squares, &e->error.most);
	for (int k = 0; k < HT_NUMERICS; k++) {
		if (found[k] && !e->count[k])
			e->sample[k] = sample;
		e->count[k] += found[k];
	}
}
