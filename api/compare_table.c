/* Text tables of comparisons, aligned or in Markdown, and the numbers in them. */
#include "api/compare_table.h"

#include <math.h>

/* ---- tables ---- */

enum { MOST_COLUMNS = 12 };

void ht_text_table_cell(struct ht_text_table *t, struct ht_str s)
{
	t->cell = ht_grow(t->a, t->cell, t->cells, &t->cap, sizeof *t->cell);
	t->cell[t->cells++] = s;
}

void ht_text_table_text(struct ht_text_table *t, const char *s)
{
	ht_text_table_cell(t, ht_str(s));
}

void ht_text_table_head(struct ht_text_table *t, const char *const *name, size_t n)
{
	t->columns = n;
	for (size_t i = 0; i < n; i++)
		ht_text_table_text(t, name[i]);
}

/* In Markdown a bar would end the cell; in any table a line break would end the row. */
void ht_text_table_escaped(struct ht_text_table *t, struct ht_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (t->markdown && (s.p[i] == '|' || s.p[i] == '<' || s.p[i] == '\\'))
			ht_putc(t->b, '\\');
		ht_putc(t->b, (unsigned char)s.p[i] < ' ' ? ' ' : s.p[i]);
	}
}

static void put_row(struct ht_text_table *t, size_t first, const size_t *width)
{
	for (size_t i = 0; i < t->columns; i++) {
		struct ht_str s = t->cell[first + i];

		ht_puts(t->b, t->markdown ? "| " : i ? "  " : "");
		ht_text_table_escaped(t, s);
		for (size_t k = s.n; (t->markdown || i + 1 < t->columns) && k < width[i]; k++)
			ht_putc(t->b, ' ');
		ht_puts(t->b, t->markdown ? " " : "");
	}
	ht_puts(t->b, t->markdown ? "|\n" : "\n");
}

static void put_rule(struct ht_text_table *t)
{
	for (size_t i = 0; i < t->columns; i++)
		ht_puts(t->b, "| --- ");
	ht_puts(t->b, "|\n");
}

void ht_text_table_end(struct ht_text_table *t)
{
	size_t width[MOST_COLUMNS] = { 0 };

	for (size_t i = 0; i < t->cells; i++)
		if (t->cell[i].n > width[i % t->columns])
			width[i % t->columns] = t->cell[i].n;
	for (size_t i = 0; i < t->cells; i += t->columns) {
		put_row(t, i, width);
		if (t->markdown && !i)
			put_rule(t);
	}
	ht_putc(t->b, '\n');
}

/* ---- numbers ---- */

struct ht_str ht_short_number(struct ht_arena *a, double x)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_double(&b, ht_three_digits(x, HT_DIGITS_NEAREST));
	return ht_buf_str(&b);
}

struct ht_str ht_bytes_text(struct ht_arena *a, int64_t bytes)
{
	static const char *const unit[] = { "B", "kB", "MB", "GB", "TB" };
	double x = (double)bytes;
	size_t i = 0;

	if (bytes < 0)
		return HT_STR("?");
	for (; x >= 1000 && i + 1 < HT_COUNT(unit); i++)
		x /= 1000;
	return ht_str_printf(a, "%s %s", ht_short_number(a, x).p, unit[i]);
}
