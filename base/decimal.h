/* decimal: floats as decimal numbers, exactly and in every locale, with the digits that printf("%g") gives.  Freestanding, as
 * base/line.h is. */
#ifndef HT_DECIMAL_H
#define HT_DECIMAL_H

#include "base/line.h"

/* A number of fixed point: limbs of 9 decimal digits, the most significant one first.  It holds every finite double and half of the
 * distance between the smallest ones, 2^-1075, exactly. */
enum {
	HT_DECIMAL_DIGITS = 9,
	HT_DECIMAL_UNIT = 1000000000,
	HT_DECIMAL_WHOLE = 35, /* limbs of the integral part */
	HT_DECIMAL_LIMBS = 35 + 120,
	HT_DECIMAL_SHIFT = 29 /* bits by which a limb is shifted at most */
};
struct ht_decimal {
	uint32_t limb[HT_DECIMAL_LIMBS];
};

/* d becomes x * 2^e; x is less than 2^53. */
HT_LINE_CALLED void ht_decimal_set(struct ht_decimal *d, uint64_t x, int e)
{
	for (int i = 0; i < HT_DECIMAL_LIMBS; i++)
		d->limb[i] = 0;
	d->limb[HT_DECIMAL_WHOLE - 1] = (uint32_t)(x % HT_DECIMAL_UNIT);
	d->limb[HT_DECIMAL_WHOLE - 2] = (uint32_t)(x / HT_DECIMAL_UNIT);
	while (e > 0) {
		int by = e < HT_DECIMAL_SHIFT ? e : HT_DECIMAL_SHIFT;
		uint64_t carry = 0;

		for (int i = HT_DECIMAL_LIMBS; i-- > 0;) {
			carry += (uint64_t)d->limb[i] << by;
			d->limb[i] = (uint32_t)(carry % HT_DECIMAL_UNIT);
			carry /= HT_DECIMAL_UNIT;
		}
		e -= by;
	}
	while (e < 0) {
		int by = -e < HT_DECIMAL_SHIFT ? -e : HT_DECIMAL_SHIFT;
		uint64_t rest = 0;

		for (int i = 0; i < HT_DECIMAL_LIMBS; i++) {
			rest = rest * HT_DECIMAL_UNIT + d->limb[i];
			d->limb[i] = (uint32_t)(rest >> by);
			rest &= (UINT64_C(1) << by) - 1;
		}
		e += by;
	}
}

/* What digit i counts in its limb; digits are numbered from the most significant one. */
HT_LINE_CALLED uint32_t ht_decimal_unit(int i)
{
	uint32_t unit = 1;

	for (int k = i % HT_DECIMAL_DIGITS; k < HT_DECIMAL_DIGITS - 1; k++)
		unit *= 10;
	return unit;
}

HT_LINE_CALLED uint32_t ht_decimal_digit(const struct ht_decimal *d, int i)
{
	return d->limb[i / HT_DECIMAL_DIGITS] / ht_decimal_unit(i) % 10;
}

/* The number of the first digit that is not 0; the number is not 0. */
HT_LINE_CALLED int ht_decimal_first(const struct ht_decimal *d)
{
	int i = 0;

	while (!ht_decimal_digit(d, i))
		i++;
	return i;
}

/* Below 0, 0 or above 0 as a is less than, equal to or greater than b. */
HT_LINE_CALLED int ht_decimal_compare(const struct ht_decimal *a, const struct ht_decimal *b)
{
	for (int i = 0; i < HT_DECIMAL_LIMBS; i++)
		if (a->limb[i] != b->limb[i])
			return a->limb[i] < b->limb[i] ? -1 : 1;
	return 0;
}

/* a becomes a - b, where a is no less than b. */
HT_LINE_CALLED void ht_decimal_subtract(struct ht_decimal *a, const struct ht_decimal *b)
{
	uint32_t borrowed = 0;

	for (int i = HT_DECIMAL_LIMBS; i-- > 0;) {
		uint32_t less = b->limb[i] + borrowed;

		borrowed = a->limb[i] < less;
		a->limb[i] += (borrowed ? HT_DECIMAL_UNIT : 0) - less;
	}
}

/* Adds 1 to digit i. */
HT_LINE_CALLED void ht_decimal_count(struct ht_decimal *d, int i)
{
	uint32_t add = ht_decimal_unit(i);

	for (int k = i / HT_DECIMAL_DIGITS; add; k--) {
		d->limb[k] += add;
		add = d->limb[k] >= HT_DECIMAL_UNIT;
		d->limb[k] -= add ? HT_DECIMAL_UNIT : 0;
	}
}

/* Rounds to the digits in front of digit `end`: to nearest, ties to even. */
HT_LINE_CALLED void ht_decimal_round(struct ht_decimal *d, int end)
{
	uint32_t unit = ht_decimal_unit(end), next = ht_decimal_digit(d, end);
	uint32_t *limb = &d->limb[end / HT_DECIMAL_DIGITS];
	uint32_t rest = *limb % unit; /* what lies behind digit `end` */
	bool up;

	for (int i = end / HT_DECIMAL_DIGITS + 1; i < HT_DECIMAL_LIMBS; i++) {
		rest |= d->limb[i];
		d->limb[i] = 0;
	}
	*limb -= *limb % unit + next * unit;
	up = next > 5 || (next == 5 && (rest || ht_decimal_digit(d, end - 1) % 2));
	if (up)
		ht_decimal_count(d, end - 1);
}

/* The parts of a double that is neither infinite nor NaN: it is x * 2^e. */
struct ht_double_parts {
	uint64_t x;
	int e;
	int unused;     /* low bits of x that the type (double or float) does not have */
	bool is_lowest; /* x is the least number of its exponent: the next number below is half as far away as the one above */
};

HT_LINE_CALLED struct ht_double_parts ht_double_parts_of(uint64_t bits, bool single)
{
	const int least =
		single ? 1023 - 126 : 1; /* the biased exponent of the least normal number */
	int e = (int)(bits >> 52 & 2047);
	struct ht_double_parts p;

	p.x = (bits & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(e > 0) << 52;
	e = e ? e : 1;
	p.e = e - 1075;
	p.unused = single ? 29 + (e < least ? least - e : 0) : 0;
	p.is_lowest = p.x == UINT64_C(1) << 52 && e > least;
	return p;
}

/* Whether `text`, which is x rounded to some digits, is read back as the number that p describes.  `work` is overwritten. */
HT_LINE_CALLED bool ht_decimal_reads_back(struct ht_decimal *text, struct ht_decimal *x,
	const struct ht_double_parts *p, struct ht_decimal *work)
{
	int order = ht_decimal_compare(text, x);

	if (!order)
		return true;
	ht_decimal_subtract(order < 0 ? x : text, order < 0 ? text : x);
	ht_decimal_set(work, 1, p->e + p->unused - 1 - (p->is_lowest && order < 0));
	order = ht_decimal_compare(order < 0 ? x : text, work);
	return order < 0 || (!order && !(p->x >> p->unused & 1));
}

/* Writes `digits` digits from the first one on, without zeros at the end, as "%g" does. */
HT_LINE_CALLED void ht_decimal_print(struct ht_line *m, const struct ht_decimal *d, int digits)
{
	int first = ht_decimal_first(d), end = first + digits;
	int power = HT_DECIMAL_WHOLE * HT_DECIMAL_DIGITS - 1 - first;
	bool scientific = power < -4 || power >= digits;
	int point = scientific ? first : HT_DECIMAL_WHOLE * HT_DECIMAL_DIGITS - 1;

	while (end - 1 > point && !ht_decimal_digit(d, end - 1))
		end--;
	for (int i = first < point ? first : point; i < end || i <= point; i++) {
		if (i == point + 1)
			ht_line_char(m, '.');
		ht_line_char(m, (char)('0' + ht_decimal_digit(d, i)));
	}
	if (!scientific)
		return;
	ht_line_char(m, 'e');
	ht_line_char(m, power < 0 ? '-' : '+');
	power = power < 0 ? -power : power;
	if (power < 10)
		ht_line_char(m, '0');
	ht_line_uint(m, (uint64_t)power);
}

/* Writes x, which is a float if `single`, with 6 significant digits (a double: 15), or with 9 (17) if the shorter text would be read
 * back as another number. */
HT_LINE_CALLED void ht_line_float(struct ht_line *m, double x, bool single)
{
	struct ht_decimal text, exact, work;
	struct ht_double_parts p;
	uint64_t bits;
	int digits = single ? 6 : 15;

	__builtin_memcpy(&bits, &x, sizeof bits);
	if (bits << 1 > UINT64_C(2047) << 53) {
		ht_line_char(m, 'n');
		ht_line_char(m, 'a');
		ht_line_char(m, 'n');
		return;
	}
	if (bits >> 63)
		ht_line_char(m, '-');
	if (bits << 1 == UINT64_C(2047) << 53) {
		ht_line_char(m, 'i');
		ht_line_char(m, 'n');
		ht_line_char(m, 'f');
		return;
	}
	p = ht_double_parts_of(bits, single);
	if (!p.x) {
		ht_line_char(m, '0');
		return;
	}
	ht_decimal_set(&exact, p.x, p.e);
	ht_decimal_set(&text, p.x, p.e);
	ht_decimal_round(&text, ht_decimal_first(&text) + digits);
	if (!ht_decimal_reads_back(&text, &exact, &p, &work))
		digits = single ? 9 : 17;
	ht_decimal_set(&text, p.x, p.e);
	ht_decimal_round(&text, ht_decimal_first(&text) + digits);
	ht_decimal_print(m, &text, digits);
}

#endif
