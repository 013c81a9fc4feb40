/* Library kernel edit_distance: for each row, the least number of insertions, deletions and replacements that make one sequence of another one.
 * Buffers: the number of existing rows (I64); of the first sequences the row of each element and its value (I64), in the order of rows, and
 * the number of elements (I64); the same of the second ones; then the distances (F32).  Params: the number of rows that there is memory for;
 * whether a distance is divided by the length of the second sequence: then it is 1 where there is no first one, and infinite where there is
 * no second one.  One tile. */
#include "kernel/library.h"

#include <math.h>
#include <string.h>

enum { ROWS = 0, FIRST = 1, SECOND = FIRST + 3, DISTANCES = SECOND + 3 };

/* Sequences one after the other. */
struct rows {
	const int64_t *row, *value;
	int64_t count, from, to; /* the elements of the row that is looked at */
};

static struct rows rows_of(void *const *buffers)
{
	return (struct rows){ buffers[0], buffers[1], *(const int64_t *)buffers[2], 0, 0 };
}

/* The row of the next element; INT64_MAX where all elements were taken. */
static int64_t next_row(const struct rows *x)
{
	return x->to < x->count ? x->row[x->to] : INT64_MAX;
}

/* The elements of the row, if the next one is of it; otherwise none. */
static void take_row(struct rows *x, int64_t row)
{
	x->from = x->to;
	while (x->to < x->count && x->row[x->to] == row)
		x->to++;
}

static int32_t least_of(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* The algorithm of Wagner and Fischer (1974): line[k] is the distance between the elements of `a` so far and the first k elements of `b`. */
static int32_t distance(const struct rows *a, const struct rows *b, int32_t *line)
{
	int64_t n = b->to - b->from;

	for (int64_t k = 0; k <= n; k++)
		line[k] = (int32_t)k;
	for (int64_t i = a->from; i < a->to; i++) {
		int32_t diagonal = line[0]++;

		for (int64_t k = 0; k < n; k++) {
			int32_t replaced = diagonal + (a->value[i] != b->value[b->from + k]);

			diagonal = line[k + 1];
			line[k + 1] = least_of(replaced, least_of(line[k], diagonal) + 1);
		}
	}
	return line[n];
}

size_t ht_edit_distance_scratch(const struct ht_kernel *k)
{
	return ((size_t)k->buffer[SECOND + 1].count + 1) * sizeof(int32_t);
}

static float distance_of_row(
	const struct rows *a, const struct rows *b, bool normalizes, int32_t *line)
{
	const float d = (float)distance(a, b, line);

	if (!normalizes)
		return d;
	if (b->to == b->from)
		return a->to == a->from ? 0 : (float)HT_LIBRARY_NUMBER(INFINITY);
	return d / (float)(b->to - b->from);
}

int32_t ht_library_edit_distance(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct rows a, b;
	float *to = buffers[DISTANCES];
	int64_t most = *(const int64_t *)buffers[ROWS];

	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	most = most < params[0] ? most : params[0];
	memset(to, 0, (size_t)params[0] * sizeof *to);
	a = rows_of(buffers + FIRST);
	b = rows_of(buffers + SECOND);
	while (a.to < a.count || b.to < b.count) {
		int64_t row = next_row(&a) < next_row(&b) ? next_row(&a) : next_row(&b);

		if (row < 0 || row >= most)
			return HT_FAULT_INDEX;
		take_row(&a, row);
		take_row(&b, row);
		to[row] = distance_of_row(&a, &b, params[1], scratch);
	}
	return HT_FAULT_NONE;
}
