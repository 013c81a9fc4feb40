/* Library kernels that sort or place elements.
 *
 * top_k: buffers in [rows, columns], values [rows, k], indices [rows, k] (I32); params: rows,
 * columns, k, dtype.  Descending; of equal elements the one with the lower index comes first.  A
 * tile is a row.
 *
 * sparse_to_dense: buffers indices [count, rank] (I32 or I64), values [count] or [1], default
 * [1], out; params: count, rank, index bytes, element bytes, values, then the rank dimensions.
 * One tile. */
#include "kernel/library.h"

#include <math.h>
#include <string.h>

/* ---- top_k ---- */

/* An integer with the order of x; NaN is the largest, so that it shows up in results. */
static int64_t key_of_float(double x)
{
	int64_t bits;

	if (isnan(x))
		return INT64_MAX;
	x += HT_LIBRARY_NUMBER(0.0); /* -0 and 0 are equal */
	memcpy(&bits, &x, sizeof bits);
	return bits < 0 ? INT64_MIN - bits : bits;
}

static int64_t key(const void *p, enum ht_dtype t, int64_t i)
{
	switch (t) {
	case HT_F32:
		return key_of_float((double)((const float *)p)[i]);
	case HT_F64:
		return key_of_float(((const double *)p)[i]);
	case HT_F16:
		return key_of_float((double)ht_f16_to_f32(((const uint16_t *)p)[i]));
	case HT_BF16:
		return key_of_float((double)ht_bf16_to_f32(((const uint16_t *)p)[i]));
	case HT_I8:
		return ((const int8_t *)p)[i];
	case HT_U8:
		return ((const uint8_t *)p)[i];
	case HT_I16:
		return ((const int16_t *)p)[i];
	case HT_U16:
		return ((const uint16_t *)p)[i];
	case HT_I32:
		return ((const int32_t *)p)[i];
	case HT_U32:
		return ((const uint32_t *)p)[i];
	case HT_I64:
		return ((const int64_t *)p)[i];
	default:
		HT_CHECK(t == HT_U64);
		return (int64_t)(((const uint64_t *)p)[i] ^ (uint64_t)INT64_MIN);
	}
}

static bool before(const void *row, enum ht_dtype t, int64_t i, int64_t j)
{
	int64_t x = key(row, t, i), y = key(row, t, j);

	return x > y || (x == y && i < j);
}

/* Inserts each element into the k best so far, which is fast for the small k of models. */
static void top_of_row(const char *row, enum ht_dtype t, int64_t columns, int64_t k, char *values,
	int32_t *indices)
{
	size_t bytes = HT_LIBRARY_BYTES(t);
	int64_t n = 0;

	for (int64_t i = 0; i < columns && k > 0; i++) {
		int64_t at = n < k ? n : k - 1;
		if (n == k && !before(row, t, i, indices[k - 1]))
			continue;
		for (; at > 0 && before(row, t, i, indices[at - 1]); at--)
			indices[at] = indices[at - 1];
		indices[at] = (int32_t)i;
		n += n < k;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(values + (size_t)i * bytes, row + (size_t)indices[i] * bytes, bytes);
}

int32_t ht_library_top_k(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	int64_t columns = params[1], k = params[2];
	enum ht_dtype t = (enum ht_dtype)params[3];
	size_t bytes = HT_LIBRARY_BYTES(t);

	(void)scratch;
	for (int64_t r = tile_begin; r < tile_end; r++)
		top_of_row((const char *)buffers[0] + (size_t)(r * columns) * bytes, t, columns, k,
			(char *)buffers[1] + (size_t)(r * k) * bytes,
			(int32_t *)buffers[2] + r * k);
	return HT_FAULT_NONE;
}

/* ---- sparse_to_dense ---- */

int32_t ht_library_sparse_to_dense(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	int64_t count = params[0], rank = params[1], total = 1;
	size_t bytes = (size_t)params[3];
	const int64_t *dim = params + 5;

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	for (int64_t i = 0; i < rank; i++)
		total *= dim[i];
	for (int64_t i = 0; i < total; i++)
		memcpy((char *)buffers[3] + (size_t)i * bytes, buffers[2], bytes);
	for (int64_t i = 0; i < count; i++) {
		int64_t offset = 0;
		for (int64_t j = 0; j < rank; j++) {
			int64_t x = params[2] == 4 ? ((const int32_t *)buffers[0])[i * rank + j]
						   : ((const int64_t *)buffers[0])[i * rank + j];
			if (x < 0 || x >= dim[j])
				return HT_FAULT_INDEX;
			offset = offset * dim[j] + x;
		}
		memcpy((char *)buffers[3] + (size_t)offset * bytes,
			(const char *)buffers[1] + (params[4] == 1 ? 0 : (size_t)i * bytes), bytes);
	}
	return HT_FAULT_NONE;
}
