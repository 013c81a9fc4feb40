/* Library kernel where: the positions of the elements that are not zero, in order.
 *
 * Buffers: in, positions [elements, rank] (I64), of which only the first are written, their
 * number (I64).  Params: elements, bytes of an element, a mask of its bits (it is zero if none
 * of them is set), rank, then the rank dimensions.  One tile. */
#include "kernel/library.h"

#include <string.h>

/* Consecutive elements of one type. */
struct row {
	const char *x;
	int64_t n;
	uint64_t mask;
};

static inline bool is_set(const struct row *r, int64_t i, size_t bytes)
{
	uint64_t bits = 0;

	memcpy(&bits, r->x + (size_t)i * bytes, bytes);
	return bits & r->mask;
}

/* Stores the last coordinates, `rank` apart, and returns their number.  It writes the next
 * coordinate before it knows whether the element counts, which needs no more room than there are
 * elements. */
static inline int64_t find(const struct row *r, size_t bytes, int64_t rank, int64_t *last)
{
	int64_t found = 0;

	for (int64_t i = 0; i < r->n; i++) {
		last[found * rank] = i;
		found += is_set(r, i, bytes);
	}
	return found;
}

/* Constant element sizes make the compiler generate a loop for each. */
static int64_t find_in_row(const struct row *r, size_t bytes, int64_t rank, int64_t *last)
{
	switch (bytes) {
	case 1:
		return rank == 1 ? find(r, 1, 1, last) : find(r, 1, rank, last);
	case 2:
		return find(r, 2, rank, last);
	case 4:
		return rank == 1 ? find(r, 4, 1, last) : find(r, 4, rank, last);
	default:
		return find(r, 8, rank, last);
	}
}

/* Advances the coordinates, except the last, to the next row. */
static void advance(int64_t *coord, const int64_t *dim, int64_t rank)
{
	for (int64_t k = rank - 2; k >= 0 && ++coord[k] == dim[k]; k--)
		coord[k] = 0;
}

int32_t ht_library_where(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	enum { MOST_RANK = 16 };
	int64_t elements = params[0], rank = params[3], columns, coord[MOST_RANK] = { 0 };
	size_t bytes = (size_t)params[1];
	int64_t *at = buffers[1], *count = buffers[2];
	struct row r = { buffers[0], 0, (uint64_t)params[2] };

	(void)scratch;
	HT_CHECK(rank >= 0 && rank <= MOST_RANK);
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	*count = 0;
	if (!rank)
		*count = is_set(&r, 0, bytes);
	columns = rank ? params[3 + rank] : 0;
	r.n = columns;
	for (int64_t i = 0; rank && i < elements; i += columns, r.x += (size_t)columns * bytes) {
		int64_t found = find_in_row(&r, bytes, rank, at + rank - 1);

		for (int64_t k = 0; k < found && rank > 1; k++)
			memcpy(at + k * rank, coord, (size_t)(rank - 1) * sizeof *coord);
		at += found * rank;
		*count += found;
		advance(coord, params + 4, rank);
	}
	return HT_FAULT_NONE;
}
