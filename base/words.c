/* Tensors are printed as TensorFlow summarizes them: "1 2 3...", "[1 2][3 4]". */
#include "base/words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_plain(uint64_t t)
{
	const struct ht_dtype_info *d;

	if (t >= HT_REF)
		return false;
	d = ht_dtype_info((enum ht_dtype)t);
	if (d->kind == HT_KIND_FLOAT)
		return ht_is_kernel_float((enum ht_dtype)t);
	return (d->kind == HT_KIND_INT || d->kind == HT_KIND_UINT || d->kind == HT_KIND_BOOL) &&
	       d->bytes >= 1 && d->bytes <= 8;
}

bool ht_words_fit(const struct ht_words *w, size_t args,
	uint64_t (*bytes_of)(const void *arg, size_t i), const void *arg)
{
	uint64_t bytes;

	if (!w->arg)
		return true;
	if (w->arg > args || !is_plain(w->dtype))
		return false;
	bytes = ht_dtype_info((enum ht_dtype)w->dtype)->bytes;
	for (size_t i = 0; i < w->rank; i++)
		if (w->dim[i] < 1 || __builtin_mul_overflow(bytes, (uint64_t)w->dim[i], &bytes))
			return false;
	return bytes <= bytes_of(arg, (size_t)w->arg - 1);
}

/* Prints x with `digits` significant digits, or with `all_digits` if the shorter text would be read
 * back as another number. */
static void put_float(struct ht_buf *b, double x, int digits, int all_digits)
{
	char text[64];

	snprintf(text, sizeof text, "%.*g", digits, x);
	if (all_digits < 10 ? strtof(text, NULL) != (float)x : strtod(text, NULL) != x)
		snprintf(text, sizeof text, "%.*g", all_digits, x);
	ht_puts(b, x != x ? "nan" : text);
}

static double float_at(enum ht_dtype t, const char *p)
{
	uint16_t half;
	float single;
	double x;

	if (t == HT_F64) {
		memcpy(&x, p, sizeof x);
		return x;
	}
	if (t == HT_F32) {
		memcpy(&single, p, sizeof single);
		return (double)single;
	}
	memcpy(&half, p, sizeof half);
	return (double)(t == HT_F16 ? ht_f16_to_f32(half) : ht_bf16_to_f32(half));
}

static void put_integer(struct ht_buf *b, enum ht_kind kind, size_t bytes, const char *p)
{
	int unused = 64 - 8 * (int)bytes;
	uint64_t x = 0;

	memcpy(&x, p, bytes);
	if (kind == HT_KIND_INT)
		ht_printf(b, "%" PRId64, (int64_t)(x << unused) >> unused);
	else
		ht_printf(b, "%" PRIu64, x);
}

static void put_element(struct ht_buf *b, enum ht_dtype t, const char *p)
{
	const struct ht_dtype_info *info = ht_dtype_info(t);

	if (info->kind != HT_KIND_FLOAT)
		put_integer(b, info->kind, info->bytes, p);
	else if (t == HT_F64)
		put_float(b, float_at(t, p), 15, 17);
	else
		put_float(b, float_at(t, p), 6, 9);
}

/* The number of dimensions after the first in which a row begins at element i: as many brackets
 * open there, and as many close before it. */
static int rows_at(const struct ht_words *w, uint64_t i)
{
	uint64_t row = 1;
	int n = 0;

	for (size_t k = w->rank; k-- > 1;) {
		row *= (uint64_t)w->dim[k];
		n += i % row == 0;
	}
	return n;
}

static void put_repeated(struct ht_buf *b, char c, int n)
{
	while (n-- > 0)
		ht_putc(b, c);
}

static uint64_t count_of(const struct ht_words *w)
{
	uint64_t n = 1;

	for (size_t k = 0; k < w->rank; k++)
		n *= (uint64_t)w->dim[k];
	return n;
}

static void put_elements(struct ht_buf *b, const struct ht_words *w, const char *p)
{
	size_t bytes = ht_dtype_info((enum ht_dtype)w->dtype)->bytes;
	uint64_t all = count_of(w), n = w->most < all ? w->most : all, i;
	int inner = w->rank > 1 ? (int)w->rank - 1 : 0;

	for (i = 0; i < n; i++) {
		int begins = rows_at(w, i);

		put_repeated(b, ']', i ? begins : 0);
		put_repeated(b, '[', begins);
		if (i && !begins)
			ht_putc(b, ' ');
		put_element(b, (enum ht_dtype)w->dtype, p + i * bytes);
	}
	if (n && inner && rows_at(w, n) == 0)
		ht_puts(b, "...");
	put_repeated(b, ']', n ? inner : 0);
	if (n < all)
		ht_puts(b, "...");
}

void ht_words_put(struct ht_buf *b, const struct ht_words *w, size_t n, void *const *args)
{
	for (size_t i = 0; i < n; i++) {
		ht_puts(b, w[i].text);
		if (w[i].arg)
			put_elements(b, &w[i], args[w[i].arg - 1]);
	}
}
