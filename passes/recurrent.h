/* recurrent: parts of pass `recurrent`. */
#ifndef HT_PASSES_RECURRENT_H
#define HT_PASSES_RECURRENT_H

#include "lower/lower.h"
#include "passes/ranges.h"
#include "passes/rewrite.h"

/* recurrent_sums.c: products that loop `n` adds up step by step become one product behind the loop. */
void ht_recurrent_sums(
	struct ht_node *n, struct ht_pass_context *c, const struct ht_ranges *ranges);

/* recurrent_tables.c: products of what loop `n` gathers from a constant table become rows of the table's product. */
void ht_recurrent_tables(struct ht_node *n, struct ht_pass_context *c);

/* recurrent_rows.c: where products belong in front of a loop if a step has few rows, and in it if it has many, and the number of rows
 * is open, the loop becomes a branch of two. */
enum ht_status ht_recurrent_divide(struct ht_graph *g, struct ht_pass_context *c);

/* When a run has many rows: open size number `size` of the program (1 is the first one) is at least `from`. */
struct ht_recurrent_turn {
	int32_t size;
	int64_t from;
};
/* recurrent.c: whether products of loop `n` have few rows or many, depending on an open size. */
bool ht_recurrent_turns(
	struct ht_node *n, struct ht_pass_context *c, struct ht_recurrent_turn *turn);

#endif
