#include "stats/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double whole(double x, enum ht_digits how)
{
	return how == HT_DIGITS_NEAREST ? rint(x) : how == HT_DIGITS_BELOW ? floor(x) : ceil(x);
}

static enum ht_digits opposite(enum ht_digits how)
{
	return how == HT_DIGITS_BELOW   ? HT_DIGITS_ABOVE
	       : how == HT_DIGITS_ABOVE ? HT_DIGITS_BELOW
					: how;
}

double ht_three_digits(double x, enum ht_digits how)
{
	double shift, r;
	int places;

	if (x == 0 || !isfinite(x))
		return x;
	if (x > 0.99 && x < 1) {
		r = 1 - ht_three_digits(1 - x, opposite(how));
		return (how == HT_DIGITS_BELOW && r > x) || (how == HT_DIGITS_ABOVE && r < x) ? x
											      : r;
	}
	places = 2 - (int)floor(log10(fabs(x)));
	/* Powers of ten up to 10^22 are exact, so a product or quotient by one is rounded once. */
	shift = pow(10, abs(places));
	r = places >= 0 ? whole(x * shift, how) / shift : whole(x / shift, how) * shift;
	if ((how == HT_DIGITS_BELOW && r > x) || (how == HT_DIGITS_ABOVE && r < x) || !isfinite(r))
		return x;
	return r;
}

bool ht_values_are_numbers(enum ht_dtype t)
{
	switch (ht_dtype_info(t)->kind) {
	case HT_KIND_FLOAT:
		return ht_is_kernel_float(t);
	case HT_KIND_INT:
	case HT_KIND_UINT:
	case HT_KIND_BOOL:
		return ht_dtype_info(t)->bytes > 0 && t != HT_I4 && t != HT_U4 && t != HT_I2 &&
		       t != HT_U2;
	case HT_KIND_COMPLEX:
		return true;
	default:
		return false;
	}
}

static double float_value(enum ht_dtype t, const void *p, int64_t i)
{
	switch (t) {
	case HT_F64:
	case HT_C128:
		return ht_load_f64(p, i);
	case HT_F16:
		return ht_f16_to_f32(ht_load_u16(p, i));
	case HT_BF16:
		return ht_bf16_to_f32(ht_load_u16(p, i));
	default:
		return ht_load_f32(p, i);
	}
}

static bool is_integer(enum ht_dtype t)
{
	enum ht_kind k = ht_dtype_info(t)->kind;

	return k == HT_KIND_INT || k == HT_KIND_UINT || k == HT_KIND_BOOL;
}

/* A little-endian integer of any width; signed ones are sign-extended. */
static uint64_t integer_bits(const struct ht_values *v, size_t i)
{
	size_t size = ht_dtype_info(v->dtype)->bytes;
	uint64_t x = 0;

	memcpy(&x, (const char *)v->data + i * size, size);
	if (ht_dtype_info(v->dtype)->kind == HT_KIND_INT && size < 8 && x >> (8 * size - 1))
		x |= UINT64_MAX << (8 * size);
	return x;
}

double ht_value(const struct ht_values *v, size_t i)
{
	if (!is_integer(v->dtype))
		return float_value(v->dtype, v->data, (int64_t)i);
	return ht_dtype_info(v->dtype)->kind == HT_KIND_INT ? (double)(int64_t)integer_bits(v, i)
							    : (double)integer_bits(v, i);
}

double ht_distance(const struct ht_values *a, const struct ht_values *b, size_t i)
{
	if (is_integer(a->dtype) && a->dtype == b->dtype &&
		integer_bits(a, i) != integer_bits(b, i))
		return fmax(1, fabs(ht_value(a, i) - ht_value(b, i)));
	return ht_difference(ht_value(a, i), ht_value(b, i));
}

double ht_spacing(enum ht_dtype t, double x)
{
	const struct ht_dtype_info *info;
	int least, exponent;

	if (t == HT_C64 || t == HT_C128)
		t = t == HT_C64 ? HT_F32 : HT_F64;
	info = ht_dtype_info(t);
	if (info->kind != HT_KIND_FLOAT)
		return 1;
	least = 2 - (1 << (info->exponent - 1));
	exponent = x != 0 ? ilogb(x) : least;
	return ldexp(1, (exponent > least ? exponent : least) - info->mantissa);
}

/* Whether x is larger; NaN is larger than any number.  So the first of equal numbers is kept. */
static bool exceeds(double x, double than)
{
	return x > than || (isnan(x) && !isnan(than));
}

size_t ht_largest(const struct ht_values *v, size_t start, size_t n)
{
	size_t at = start;
	double most = ht_value(v, start);

	for (size_t i = start + 1; i < start + n; i++) {
		double x = ht_value(v, i);
		if (!exceeds(x, most))
			continue;
		most = x;
		at = i;
	}
	return at - start;
}

void ht_largest_k(const struct ht_values *v, size_t start, size_t n, size_t k, size_t *at)
{
	double most[HT_MAX_TOP];
	size_t found = 0;

	HT_CHECK(k <= HT_MAX_TOP && k <= n);
	for (size_t i = 0; i < n; i++) {
		double x = ht_value(v, start + i);
		size_t j = found < k ? found++ : k;
		for (; j > 0 && exceeds(x, most[j - 1]); j--) {
			if (j == k)
				continue;
			most[j] = most[j - 1];
			at[j] = at[j - 1];
		}
		if (j == k)
			continue;
		most[j] = x;
		at[j] = i;
	}
}
