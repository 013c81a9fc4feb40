/* Attribution: elements of one type as those of another, in chunks that stay in the first cache. */
#include "api/attribute.h"
#include "kernel/native.h"

#include <string.h>

static const char *element(struct ht_elements e, size_t i)
{
	return (const char *)e.at + i * ht_dtype_info(e.dtype)->bytes;
}

static void widen(const uint16_t *from, enum ht_dtype t, float *to, size_t n)
{
	int64_t i = t == HT_F16 ? ht_native_f16_to_f32(from, to, (int64_t)n)
				: ht_native_bf16_to_f32(from, to, (int64_t)n);

	for (; i < (int64_t)n; i++)
		to[i] = t == HT_F16 ? ht_f16_to_f32(from[i]) : ht_bf16_to_f32(from[i]);
}

static void narrow(const float *from, enum ht_dtype t, uint16_t *to, size_t n)
{
	int64_t i = t == HT_F16 ? ht_native_f32_to_f16(from, to, (int64_t)n)
				: ht_native_f32_to_bf16(from, to, (int64_t)n);

	for (; i < (int64_t)n; i++)
		to[i] = t == HT_F16 ? ht_f32_to_f16(from[i]) : ht_f32_to_bf16(from[i]);
}

static void floats_of_doubles(const double *from, float *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (float)from[i];
}

static void round_floats(enum ht_dtype t, const float *x, float *to, size_t n)
{
	uint16_t low[HT_ELEMENTS_CHUNK];
	size_t done = 0;

	if (t == HT_BF16)
		done = (size_t)ht_native_round_bf16(x, to, (int64_t)n);
	narrow(x + done, t, low, n - done);
	widen(low, t, to + done, n - done);
}

const float *ht_elements_floats(
	struct ht_elements e, enum ht_dtype rounded_to, size_t first, size_t n, float *room)
{
	const void *at = element(e, first);
	const float *x = room;

	HT_CHECK(n <= HT_ELEMENTS_CHUNK);
	if (e.dtype == HT_F32)
		x = at;
	else if (e.dtype == HT_F64)
		floats_of_doubles(at, room, n);
	else
		widen(at, e.dtype, room, n);
	if (e.dtype == rounded_to || !ht_is_low(rounded_to))
		return x;
	round_floats(rounded_to, x, room, n);
	return room;
}

void ht_elements_doubles(
	struct ht_elements e, enum ht_dtype rounded_to, size_t first, size_t n, double *to)
{
	float room[HT_ELEMENTS_CHUNK];
	const float *x;

	if (e.dtype == HT_F64 && rounded_to == HT_F64) {
		memcpy(to, element(e, first), n * sizeof *to);
		return;
	}
	x = ht_elements_floats(e, rounded_to, first, n, room);
	for (size_t i = 0; i < n; i++)
		to[i] = (double)x[i];
}

/* `t` is not float32. */
static void put_floats(const float *x, enum ht_dtype t, char *to, size_t n)
{
	if (t != HT_F64)
		narrow(x, t, (uint16_t *)(void *)to, n);
	else
		for (size_t i = 0; i < n; i++)
			((double *)(void *)to)[i] = (double)x[i];
}

/* Elements first to first+n-1 at `to`, as float32. */
static void put_as_f32(
	struct ht_elements from, enum ht_dtype rounded_to, size_t first, float *to, size_t n)
{
	const float *x = ht_elements_floats(from, rounded_to, first, n, to);

	if (x != to)
		memcpy(to, x, n * sizeof *x);
}

void ht_elements_convert(
	struct ht_elements from, enum ht_dtype rounded_to, enum ht_dtype to, void *out, size_t n)
{
	/* Storing rounds to `to`, so that rounding before would be the same work twice. */
	enum ht_dtype first = rounded_to == to ? from.dtype : rounded_to;
	size_t bytes = ht_dtype_info(to)->bytes;
	float room[HT_ELEMENTS_CHUNK];

	if (from.dtype == to && rounded_to == to) {
		memcpy(out, from.at, n * bytes);
		return;
	}
	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < HT_ELEMENTS_CHUNK ? n - i : HT_ELEMENTS_CHUNK;
		if (to == HT_F32)
			put_as_f32(from, first, i, (float *)out + i, m);
		else
			put_floats(ht_elements_floats(from, first, i, m, room), to,
				(char *)out + i * bytes, m);
	}
}
