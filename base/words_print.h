/* words_print: the elements in the message of a step, printed as TensorFlow summarizes tensors: "1 2 3...", "[1 2][3 4]".
 * Freestanding, as base/line.h is. */
#ifndef HT_WORDS_PRINT_H
#define HT_WORDS_PRINT_H

#include "base/decimal.h"
#include "base/half.h"
#include "base/words.h"

HT_LINE_CALLED void ht_words_print_float(struct ht_line *m, enum ht_dtype t, const char *p)
{
	uint16_t half;
	float single;
	double x;

	if (t == HT_F64) {
		__builtin_memcpy(&x, p, sizeof x);
		ht_line_float(m, x, false);
		return;
	}
	if (t == HT_F32) {
		__builtin_memcpy(&single, p, sizeof single);
	} else {
		__builtin_memcpy(&half, p, sizeof half);
		single = t == HT_F16 ? ht_f16_widened(half) : ht_bf16_widened(half);
	}
	ht_line_float(m, (double)single, true);
}

/* Of a type of integers: whether it has numbers below 0. */
HT_LINE_CALLED bool ht_words_is_signed(enum ht_dtype t)
{
	return t == HT_I64 || t == HT_I32 || t == HT_I16 || t == HT_I8 || t == HT_I4 || t == HT_I2;
}

HT_LINE_CALLED void ht_words_print_element(struct ht_line *m, enum ht_dtype t, const char *p)
{
	const unsigned bits = 8 * (unsigned)ht_element_bytes(t), unused = (64 - bits) % 64;
	uint64_t x = 0;

	if (t == HT_F32 || t == HT_F64 || t == HT_F16 || t == HT_BF16) {
		ht_words_print_float(m, t, p);
		return;
	}
	for (unsigned i = 0; i < bits; i += 8)
		x |= (uint64_t)(unsigned char)*p++ << i;
	if (ht_words_is_signed(t))
		ht_line_int(m, (int64_t)(x << unused) >> unused);
	else
		ht_line_uint(m, x);
}

/* How many brackets open in front of element i: one for each dimension behind the first of which a row begins there.  As many close
 * behind the element before it. */
HT_LINE_CALLED int ht_words_rows_at(const struct ht_words *w, uint64_t i)
{
	uint64_t row = 1;
	int n = 0;

	for (size_t k = w->rank; k-- > 1;) {
		row *= (uint64_t)w->dim[k];
		n += i % row == 0;
	}
	return n;
}

HT_LINE_CALLED void ht_words_print_many(struct ht_line *m, char c, int n)
{
	while (n-- > 0)
		ht_line_char(m, c);
}

HT_LINE_CALLED void ht_words_print_elements(
	struct ht_line *m, const struct ht_words *w, const char *p)
{
	const size_t bytes = ht_element_bytes((enum ht_dtype)w->dtype);
	int inner = w->rank > 1 ? (int)w->rank - 1 : 0;
	uint64_t all = 1, n, i;

	for (size_t k = 0; k < w->rank; k++)
		all *= (uint64_t)w->dim[k];
	n = w->most < all ? w->most : all;
	for (i = 0; i < n && m->n < m->room; i++) {
		int begins = ht_words_rows_at(w, i);

		ht_words_print_many(m, ']', i ? begins : 0);
		ht_words_print_many(m, '[', begins);
		if (i && !begins)
			ht_line_char(m, ' ');
		ht_words_print_element(m, (enum ht_dtype)w->dtype, p + i * bytes);
	}
	if (n && inner && ht_words_rows_at(w, n) == 0)
		ht_words_print_many(m, '.', 3);
	ht_words_print_many(m, ']', n ? inner : 0);
	if (n < all)
		ht_words_print_many(m, '.', 3);
}

/* Appends the text and elements of one piece; `args` are the addresses of the step's arguments.  Elements end where the message is
 * full, so `n` of the message is then less than that of the whole text, and more than `room`. */
HT_LINE_CALLED void ht_words_print(struct ht_line *m, const struct ht_words *w, void *const *args)
{
	ht_line_text(m, w->text);
	if (w->arg)
		ht_words_print_elements(m, w, args[w->arg - 1]);
}

#endif
