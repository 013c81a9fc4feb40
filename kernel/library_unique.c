/* Library kernel unique: the distinct slices of a tensor along an axis, in the order in which
 * they first occur.
 *
 * Buffers: x [outer, n, inner], the number of existing slices (I64), the distinct slices [outer,
 * n, inner] (only the first of these are written), for each slice the number of the equal
 * distinct slice [n], how often each distinct slice occurs [n], and their number (I64).  Params:
 * outer, n, inner, the type of x, bytes of a number in the two results before the last.  One
 * tile.  Scratch: a hash table of the distinct slices.
 *
 * Floats are compared as numbers: 0 equals -0, and NaN equals nothing. */
#include "kernel/library.h"

#include <string.h>

enum { X, ROWS, Y, WHICH, COUNTS, SIZE };

struct unique {
	int64_t outer, n, inner;
	size_t bytes; /* of an element */
	enum ht_dtype type;
	const char *x;
	int32_t *table; /* open addressing: the number of a distinct slice plus one; 0: empty */
	uint64_t places;
	int32_t *first; /* by number of a distinct slice: its first occurrence */
};

static const char *part(const struct unique *u, int64_t outer, int64_t slice)
{
	return u->x + (size_t)((outer * u->n + slice) * u->inner) * u->bytes;
}

/* The bits of an element, equal for equal numbers that are not NaN. */
static uint64_t bits_of(const struct unique *u, const char *p)
{
	uint64_t bits = 0;

	memcpy(&bits, p, u->bytes);
	return ht_is_kernel_float(u->type) && bits == UINT64_C(1) << (8 * u->bytes - 1) ? 0 : bits;
}

static bool is_nan(const struct unique *u, uint64_t bits)
{
	uint64_t sign = UINT64_C(1) << (8 * u->bytes - 1);

	return ht_is_kernel_float(u->type) && (bits & (sign - 1)) > ht_infinity_bits(u->type);
}

static uint64_t hash_of(const struct unique *u, int64_t slice)
{
	uint64_t h = 0;

	for (int64_t o = 0; o < u->outer; o++) {
		const char *p = part(u, o, slice);

		for (int64_t i = 0; i < u->inner; i++, p += u->bytes)
			h = (h ^ bits_of(u, p)) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
	}
	return h ^ h >> 32;
}

static bool are_equal(const struct unique *u, int64_t a, int64_t b)
{
	for (int64_t o = 0; o < u->outer; o++) {
		const char *p = part(u, o, a), *q = part(u, o, b);

		for (int64_t i = 0; i < u->inner; i++, p += u->bytes, q += u->bytes) {
			uint64_t bits = bits_of(u, p);

			if (bits != bits_of(u, q) || is_nan(u, bits))
				return false;
		}
	}
	return true;
}

/* The number of the equal distinct slice; a new one gets number *found, which is incremented. */
static int32_t number_of(const struct unique *u, int64_t slice, int32_t *found)
{
	uint64_t at = hash_of(u, slice) & (u->places - 1);

	for (; u->table[at]; at = (at + 1) & (u->places - 1))
		if (are_equal(u, u->first[u->table[at] - 1], slice))
			return u->table[at] - 1;
	u->first[*found] = (int32_t)slice;
	u->table[at] = ++*found;
	return *found - 1;
}

static uint64_t places_of(int64_t n)
{
	uint64_t places = 16;

	while (places < 2 * (uint64_t)n)
		places *= 2;
	return places;
}

size_t ht_unique_scratch(const struct ht_kernel *k)
{
	int64_t n = k->buffer[WHICH].count;

	return ((size_t)places_of(n) + (size_t)n) * sizeof(int32_t);
}

static void put_number(void *to, int64_t bytes, int64_t i, int64_t x)
{
	if (bytes == 4)
		((int32_t *)to)[i] = (int32_t)x;
	else
		((int64_t *)to)[i] = x;
}

static void add_one(void *to, int64_t bytes, int64_t i)
{
	if (bytes == 4)
		((int32_t *)to)[i]++;
	else
		((int64_t *)to)[i]++;
}

static void copy_distinct(const struct unique *u, int32_t found, char *y)
{
	size_t slice = (size_t)u->inner * u->bytes;

	for (int64_t o = 0; o < u->outer; o++)
		for (int32_t i = 0; i < found; i++)
			memcpy(y + (size_t)(o * u->n + i) * slice, part(u, o, u->first[i]), slice);
}

int32_t ht_library_unique(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	enum ht_dtype type = (enum ht_dtype)params[3];
	struct unique u = { .outer = params[0],
		.n = params[1],
		.inner = params[2],
		.bytes = HT_LIBRARY_BYTES(type),
		.type = type,
		.x = buffers[X],
		.table = scratch,
		.places = places_of(params[1]) };
	int64_t rows;
	int32_t found = 0;

	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	rows = *(const int64_t *)buffers[ROWS];
	u.first = u.table + u.places;
	memset(u.table, 0, (size_t)u.places * sizeof *u.table);
	memset(buffers[COUNTS], 0, (size_t)(rows * params[4]));
	for (int64_t i = 0; i < rows; i++) {
		int32_t number = number_of(&u, i, &found);

		put_number(buffers[WHICH], params[4], i, number);
		add_one(buffers[COUNTS], params[4], number);
	}
	copy_distinct(&u, found, buffers[Y]);
	*(int64_t *)buffers[SIZE] = found;
	return HT_FAULT_NONE;
}
