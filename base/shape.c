#include "base/base.h"

#include <string.h>

struct ht_shape ht_shape_make(struct ht_arena *a, int32_t rank, const int64_t *dim)
{
	int64_t *copy;

	if (rank < 0)
		return HT_SHAPE_UNKNOWN;
	if (rank == 0)
		return HT_SHAPE_SCALAR;
	copy = HT_NEW_ARRAY(a, int64_t, (size_t)rank);
	memcpy(copy, dim, (size_t)rank * sizeof *copy);
	return (struct ht_shape){ rank, copy };
}

bool ht_shape_known(struct ht_shape s)
{
	if (s.rank < 0)
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		if (s.dim[i] < 0)
			return false;
	return true;
}

bool ht_shape_eq(struct ht_shape a, struct ht_shape b)
{
	if (a.rank != b.rank)
		return false;
	for (int32_t i = 0; i < a.rank; i++)
		if (a.dim[i] != b.dim[i])
			return false;
	return true;
}

int64_t ht_shape_count(struct ht_shape s)
{
	int64_t count = 1;

	if (!ht_shape_known(s))
		return -1;
	for (int32_t i = 0; i < s.rank; i++)
		if (!s.dim[i])
			return 0; /* whatever the product of the others, which may overflow */
	for (int32_t i = 0; i < s.rank; i++)
		if (__builtin_mul_overflow(count, s.dim[i], &count))
			return -1;
	return count;
}

void ht_shape_print(struct ht_shape s, struct ht_buf *out)
{
	if (s.rank < 0) {
		ht_puts(out, "[*]");
		return;
	}
	ht_putc(out, '[');
	for (int32_t i = 0; i < s.rank; i++) {
		if (i)
			ht_putc(out, ',');
		if (s.dim[i] >= 0)
			ht_printf(out, "%lld", (long long)s.dim[i]);
		else if (s.dim[i] == HT_DIM_UNKNOWN)
			ht_putc(out, '?');
		else
			ht_printf(out, "$%lld", (long long)(-2 - s.dim[i]));
	}
	ht_putc(out, ']');
}

int64_t ht_shape_stride(struct ht_shape s, int32_t axis)
{
	int64_t n = 1;

	for (int32_t i = axis + 1; i < s.rank; i++)
		n *= s.dim[i];
	return n;
}
