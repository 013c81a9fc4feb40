/* Text tables of comparisons, aligned or in Markdown. */
#ifndef HT_API_COMPARE_TABLE_H
#define HT_API_COMPARE_TABLE_H

#include "api/compare.h"

struct ht_text_table {
	struct ht_buf *b;
	struct ht_arena *a;
	bool markdown;
	struct ht_str *cell; /* row by row, the heading first */
	size_t cells, cap, columns;
};

/* Begins a table of `n` columns, at most 12. */
void ht_text_table_head(struct ht_text_table *t, const char *const *name, size_t n);
void ht_text_table_cell(struct ht_text_table *t, struct ht_str s);
void ht_text_table_text(struct ht_text_table *t, const char *s);
void ht_text_table_end(struct ht_text_table *t);
/* Appends text; in Markdown its special characters are escaped. */
void ht_text_table_escaped(struct ht_text_table *t, struct ht_str s);

/* `x` rounded to three significant digits. */
struct ht_str ht_short_number(struct ht_arena *a, double x);
/* "42 B", "1.5 kB", "102 MB"; "?" for -1. */
struct ht_str ht_bytes_text(struct ht_arena *a, int64_t bytes);

#endif
