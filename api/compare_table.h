/* Tables of comparisons, in columns or in Markdown. */
#ifndef HT_API_COMPARE_TABLE_H
#define HT_API_COMPARE_TABLE_H

#include "api/compare.h"

struct ht_text_table {
	struct ht_buf *b;
	struct ht_arena *a;
	bool markdown;
	struct ht_str *cell; /* by row */
	size_t cells, cap, columns;
};

void ht_text_table_head(
	struct ht_text_table *t, const char *const *name, size_t n); /* at most 12 */
void ht_text_table_cell(struct ht_text_table *t, struct ht_str s);
void ht_text_table_text(struct ht_text_table *t, const char *s);
void ht_text_table_end(struct ht_text_table *t);
/* Text between tables, where bars and angles are no marks. */
void ht_text_table_escaped(struct ht_text_table *t, struct ht_str s);

/* Three digits. */
struct ht_str ht_short_number(struct ht_arena *a, double x);
/* "42 B", "1.5 kB", "102 MB"; -1: not known. */
struct ht_str ht_bytes_text(struct ht_arena *a, int64_t bytes);

#endif
