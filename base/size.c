/* Numbers that depend on sizes.  They have a canonical form, so equal numbers have equal fields. */
#include "base/size_math.h"

#include <inttypes.h>
#include <string.h>

struct ht_size_expr ht_size_number(int64_t n)
{
	return (struct ht_size_expr){ .times = n < 0 ? -1 : n, .factor = 1, .divisor = 1 };
}

struct ht_size_expr ht_size_multiple(int64_t times, int32_t size)
{
	return (struct ht_size_expr){
		.times = times, .factor = 1, .divisor = 1, .size = { size + 1 }
	};
}

int ht_size_count(const struct ht_size_expr *e)
{
	int n = 0;

	while (n < HT_SIZE_FACTORS && e->size[n])
		n++;
	return n;
}

bool ht_size_is_product(const struct ht_size_expr *e)
{
	return !ht_size_is_none(e) && e->add == 0 && e->divisor == 1;
}

bool ht_size_same_sizes(const struct ht_size_expr *a, const struct ht_size_expr *b)
{
	return !memcmp(a->size, b->size, sizeof a->size);
}

/* ---- the canonical form ---- */

static int64_t greatest_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* A number: there are no sizes, or their factor is zero. */
static struct ht_size_expr constant(const struct ht_size_expr *e)
{
	int64_t n;

	if (__builtin_add_overflow(ht_size_count(e) ? 0 : e->factor, e->add, &n) ||
		__builtin_mul_overflow(e->times, ht_floor_div(n, e->divisor), &n))
		return HT_SIZE_NONE;
	return ht_size_number(n);
}

/* times * (factor * sizes + add), whose divisor is 1. */
static struct ht_size_expr undivided(struct ht_size_expr e)
{
	if (__builtin_mul_overflow(e.times, e.factor, &e.factor) ||
		__builtin_mul_overflow(e.times, e.add, &e.add))
		return HT_SIZE_NONE;
	e.times = 1;
	if (e.add == 0) {
		e.times = e.factor;
		e.factor = 1;
	}
	return e;
}

static void sort(int32_t *size, int n)
{
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && size[k] < size[k - 1]; k--) {
			int32_t other = size[k];

			size[k] = size[k - 1];
			size[k - 1] = other;
		}
}

struct ht_size_expr ht_size_canonical(struct ht_size_expr e)
{
	int n = ht_size_count(&e);
	int64_t common;

	if (ht_size_is_none(&e))
		return HT_SIZE_NONE;
	if (!n || !e.factor || !e.times)
		return constant(&e);
	sort(e.size, n);
	common = greatest_divisor(e.factor, e.divisor);
	e.factor /= common;
	e.divisor /= common;
	e.add = ht_floor_div(e.add, common);
	return e.divisor == 1 ? undivided(e) : e;
}

bool ht_size_equal(struct ht_size_expr a, struct ht_size_expr b)
{
	a = ht_size_canonical(a);
	b = ht_size_canonical(b);
	return a.times == b.times && a.factor == b.factor && a.add == b.add &&
	       a.divisor == b.divisor && ht_size_same_sizes(&a, &b);
}

/* ---- arithmetic ---- */

struct ht_size_expr ht_size_product(struct ht_size_expr a, struct ht_size_expr b)
{
	int n = ht_size_count(&a), more = ht_size_count(&b);

	if (ht_size_is_none(&a) || ht_size_is_none(&b))
		return HT_SIZE_NONE;
	if (!n && more)
		return ht_size_product(b, a);
	b = ht_size_canonical(b);
	if ((more && !ht_size_is_product(&a)) || !ht_size_is_product(&b) ||
		n + more > HT_SIZE_FACTORS || __builtin_mul_overflow(a.times, b.times, &a.times))
		return HT_SIZE_NONE;
	memcpy(a.size + n, b.size, (size_t)more * sizeof *b.size);
	return ht_size_canonical(a);
}

/* Removes a size; false: the product does not contain it. */
static bool take_out(struct ht_size_expr *e, int32_t size)
{
	int n = ht_size_count(e), i = 0;

	while (i < n && e->size[i] != size)
		i++;
	if (i == n)
		return false;
	memmove(e->size + i, e->size + i + 1, (size_t)(n - i - 1) * sizeof *e->size);
	e->size[n - 1] = 0;
	return true;
}

struct ht_size_expr ht_size_quotient(struct ht_size_expr a, struct ht_size_expr b)
{
	a = ht_size_canonical(a);
	b = ht_size_canonical(b);
	if (!ht_size_is_product(&a) || !ht_size_is_product(&b) || b.times < 1 || a.times % b.times)
		return HT_SIZE_NONE;
	a.times /= b.times;
	for (int i = 0; i < ht_size_count(&b); i++)
		if (!take_out(&a, b.size[i]))
			return HT_SIZE_NONE;
	return ht_size_canonical(a);
}

struct ht_size_expr ht_size_floor(struct ht_size_expr e, int64_t add, int64_t divisor)
{
	e = ht_size_canonical(e);
	if (ht_size_is_product(&e)) {
		e.factor = e.times;
		e.times = 1;
	}
	if (e.times != 1 || __builtin_mul_overflow(add, e.divisor, &add) ||
		__builtin_add_overflow(e.add, add, &e.add) ||
		__builtin_mul_overflow(e.divisor, divisor, &e.divisor))
		return HT_SIZE_NONE;
	return ht_size_canonical(e);
}

bool ht_size_checked(const struct ht_size_expr *e, const int64_t *size, int64_t *value)
{
	int64_t n = e->factor;

	for (int i = 0; i < ht_size_count(e); i++)
		if (__builtin_mul_overflow(n, size[e->size[i] - 1], &n))
			return false;
	return !ht_size_is_none(e) && !__builtin_add_overflow(n, e->add, &n) &&
	       !__builtin_mul_overflow(e->times, ht_floor_div(n, e->divisor), value);
}

/* ---- as text ---- */

/* 2 * a * b */
static void print_product(int64_t factor, const struct ht_size_expr *e, ht_size_name *name,
	const void *names, struct ht_buf *out)
{
	int n = ht_size_count(e);

	if (factor != 1 || !n)
		ht_put_int(out, factor);
	for (int i = 0; i < n; i++) {
		ht_puts(out, i || factor != 1 ? " * " : "");
		name(names, e->size[i] - 1, out);
	}
}

/* 2 * a * b + 3 */
static void print_sum(
	const struct ht_size_expr *e, ht_size_name *name, const void *names, struct ht_buf *out)
{
	print_product(e->factor, e, name, names, out);
	if (e->add)
		ht_printf(out, e->add < 0 ? " - %" PRIu64 : " + %" PRIu64,
			e->add < 0 ? -(uint64_t)e->add : (uint64_t)e->add);
}

void ht_size_print(
	const struct ht_size_expr *e, ht_size_name *name, const void *names, struct ht_buf *out)
{
	bool simple = e->factor == 1 && !e->add && ht_size_count(e) == 1;

	if (ht_size_is_product(e) && e->factor == 1) {
		print_product(e->times, e, name, names, out);
		return;
	}
	if (e->times != 1)
		ht_printf(out, "%" PRId64 " * (", e->times);
	ht_puts(out, e->divisor != 1 && !simple ? "(" : "");
	print_sum(e, name, names, out);
	ht_puts(out, e->divisor != 1 && !simple ? ")" : "");
	if (e->divisor != 1)
		ht_printf(out, " / %" PRId64, e->divisor);
	ht_puts(out, e->times != 1 ? ")" : "");
}

enum { NESTING = 8 /* more nested parentheses than any printed expression has */ };

struct reading {
	const char *p, *end;
	ht_size_number_of *number;
	const void *names;
	int depth;
};

static struct ht_size_expr read_sum(struct reading *r);

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static char next(struct reading *r)
{
	while (r->p < r->end && is_blank(*r->p))
		r->p++;
	return r->p < r->end ? *r->p : 0;
}

static bool accept(struct reading *r, char c)
{
	if (next(r) != c)
		return false;
	r->p++;
	return true;
}

static int64_t read_integer(struct reading *r)
{
	const char *at = (next(r), r->p);
	struct ht_str s = { at, 0 };
	int64_t n;

	while (at + s.n < r->end && is_digit(at[s.n]))
		s.n++;
	if (!s.n || !ht_parse_int(s, &n))
		return -1;
	r->p += s.n;
	return n;
}

static struct ht_size_expr read_name(struct reading *r)
{
	struct ht_str s = { r->p, 0 };
	int32_t size;

	while (r->p + s.n < r->end && (is_letter(r->p[s.n]) || is_digit(r->p[s.n])))
		s.n++;
	size = s.n ? r->number(r->names, s) : -1;
	if (size < 0)
		return HT_SIZE_NONE;
	r->p += s.n;
	return ht_size_multiple(1, size);
}

static struct ht_size_expr read_factor(struct reading *r)
{
	struct ht_size_expr e;

	if (is_digit(next(r)))
		return ht_size_number(read_integer(r));
	if (next(r) != '(' || r->depth == NESTING)
		return read_name(r);
	r->p++;
	r->depth++;
	e = read_sum(r);
	r->depth--;
	return ht_size_is_none(&e) || accept(r, ')') ? e : HT_SIZE_NONE;
}

static struct ht_size_expr read_product(struct reading *r)
{
	struct ht_size_expr e = read_factor(r);
	int64_t n;

	while (!ht_size_is_none(&e)) {
		if (accept(r, '*')) {
			e = ht_size_product(e, read_factor(r));
		} else if (accept(r, '/')) {
			n = read_integer(r);
			e = n > 0 ? ht_size_floor(e, 0, n) : HT_SIZE_NONE;
		} else {
			break;
		}
	}
	return e;
}

static struct ht_size_expr read_sum(struct reading *r)
{
	struct ht_size_expr e = read_product(r);

	while (!ht_size_is_none(&e) && (next(r) == '+' || next(r) == '-')) {
		bool minus = *r->p++ == '-';
		int64_t n = read_integer(r);

		e = n < 0 ? HT_SIZE_NONE : ht_size_floor(e, minus ? -n : n, 1);
	}
	return e;
}

size_t ht_size_parse(
	struct ht_str text, ht_size_number_of *number, const void *names, struct ht_size_expr *e)
{
	struct reading r = { text.p, text.p + text.n, number, names, 0 };

	*e = read_sum(&r);
	return (size_t)(r.p - text.p);
}
