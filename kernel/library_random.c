/* Library kernels that draw random numbers, with the bits of TensorFlow's on the CPU.
 *
 * random_uniform, random_normal, random_truncated_normal, random_bits: buffers state, out;
 * params: elements, dtype. random_uniform_int: buffers state, minval, maxval, out; the same
 * params.  A state is a struct ht_philox, from which the first number is drawn.
 *
 * random_skip: buffer state, which it advances; params: blocks.  One tile. random_seed: buffers
 * seed [2], state; params: dtype of the seed. random_state: buffers key [1], counter [2 or
 * more], algorithm, state. random_key: buffers seed [2], key [1], counter [2], and optionally
 * the algorithm; params: dtype of the seed, number of results.  One tile each.
 *
 * Numbers are drawn in groups: a block of Philox gives four, or two of 8 bytes.  Truncated
 * normal numbers use as many of the 64 blocks reserved for each number as they need.  So the
 * place of a group in the stream is known, and the bits do not depend on the tiles. */
#include "base/philox.h"
#include "kernel/library.h"

#include <math.h>
#include <string.h>

enum { GROUPS = 1024 /* of a tile */, BLOCKS = 64 /* of a truncated normal */ };

struct draw {
	enum ht_dtype dtype;
	int64_t low;
	uint64_t range; /* whole numbers are `low` plus a number below it */
};
/* Fills `out` with a group. */
typedef void group_fn(const struct draw *d, struct ht_philox *p, void *out);

static int64_t group_size(enum ht_dtype t)
{
	return ht_dtype_info(t)->bytes == 8 ? 2 : 4;
}

int64_t ht_random_tiles(enum ht_dtype t, int64_t count)
{
	int64_t tile = GROUPS * group_size(t);

	return count / tile + (count % tile != 0);
}

static void fill(const struct draw *d, group_fn *group, int64_t stride, const void *state,
	int64_t count, char *out, int64_t tile_begin, int64_t tile_end)
{
	int64_t size = group_size(d->dtype), end = tile_end * GROUPS;
	int64_t bytes = (int64_t)ht_dtype_info(d->dtype)->bytes;
	char numbers[32];

	for (int64_t g = tile_begin * GROUPS; g < end && g * size < count; g++) {
		int64_t left = count - g * size;
		struct ht_philox p;

		memcpy(&p, state, sizeof p);
		ht_philox_skip(&p, (uint64_t)(g * stride));
		group(d, &p, numbers);
		memcpy(out + g * size * bytes, numbers,
			(size_t)((left < size ? left : size) * bytes));
	}
}

/* ---- from bits to numbers ---- */

/* The low bits as a fraction; as many bits as the type's significand has. */
static float unit_f32(uint32_t bits)
{
	return (float)(bits & 0x7fffff) * 0x1p-23f;
}

static double unit_f64(uint32_t high, uint32_t low)
{
	return (double)((uint64_t)(high & 0xfffff) << 32 | low) * 0x1p-52;
}

static uint64_t whole(const uint32_t *r)
{
	return r[0] | (uint64_t)r[1] << 32;
}

/* Element `i` of a type that has at most 32 bits. */
static void put_float(enum ht_dtype t, void *out, int i, float x)
{
	if (t == HT_F16)
		((uint16_t *)out)[i] = ht_f32_to_f16(x);
	else if (t == HT_BF16)
		((uint16_t *)out)[i] = ht_f32_to_bf16(x);
	else
		((float *)out)[i] = x;
}

static void uniform(const struct draw *d, struct ht_philox *p, void *out)
{
	uint32_t r[4];

	ht_philox_next(p, r);
	for (int i = 0; i < 2 && d->dtype == HT_F64; i++)
		((double *)out)[i] = unit_f64(r[2 * i], r[2 * i + 1]);
	for (int i = 0; i < 4 && d->dtype != HT_F64; i++) {
		float x = d->dtype == HT_F16    ? (float)(r[i] & 0x3ff) * 0x1p-10f
			  : d->dtype == HT_BF16 ? (float)(r[i] & 0x7f) * 0x1p-7f
						: unit_f32(r[i]);

		put_float(d->dtype, out, i, x);
	}
}

/* A call, which costs little beside a division or the functions of Box and Muller: inline it would be in the code of each kind of number. */
__attribute__((noinline)) static void draw(struct ht_philox *p, uint32_t r[4])
{
	ht_philox_next(p, r);
}

static void uniform_int(const struct draw *d, struct ht_philox *p, void *out)
{
	uint32_t r[4];

	draw(p, r);
	for (int i = 0; i < 2 && d->dtype == HT_I64; i++)
		((uint64_t *)out)[i] = (uint64_t)d->low + whole(&r[2 * i]) % d->range;
	for (int i = 0; i < 4 && d->dtype == HT_I32; i++)
		((uint32_t *)out)[i] = (uint32_t)d->low + r[i] % (uint32_t)d->range;
}

static void bits(const struct draw *d, struct ht_philox *p, void *out)
{
	uint32_t r[4];

	(void)d;
	ht_philox_next(p, r);
	memcpy(out, r, sizeof r); /* the low half of 64 bits comes first for both sizes */
}

/* ---- normal numbers, by Box and Muller, with the C library's functions, as in TensorFlow ---- */

static void two_f32(const uint32_t r[2], float x[2])
{
	const float least = 1.0e-7f;
	float u = unit_f32(r[0]), size;
	float angle = (float)(2 * 3.14159265358979323846 * (double)unit_f32(r[1]));

	size = sqrtf(-2.0f * logf(u < least ? least : u));
	sincosf(angle, &x[0], &x[1]);
	x[0] *= size;
	x[1] *= size;
}

static void two_f64(const uint32_t r[4], double x[2])
{
	const double least = 1.0e-7;
	double u = unit_f64(r[0], r[1]), size;
	double angle = 2 * 3.14159265358979323846 * unit_f64(r[2], r[3]);

	size = sqrt(-2.0 * log(u < least ? least : u));
	sincos(angle, &x[0], &x[1]);
	x[0] *= size;
	x[1] *= size;
}

static void normal(const struct draw *d, struct ht_philox *p, void *out)
{
	uint32_t r[4];
	float x[4];

	draw(p, r);
	if (d->dtype == HT_F64) {
		two_f64(r, out);
		return;
	}
	two_f32(&r[0], &x[0]);
	two_f32(&r[2], &x[2]);
	for (int i = 0; i < 4; i++)
		put_float(d->dtype, out, i, x[i]);
}

static void truncated_f64(struct ht_philox *p, double *out)
{
	uint32_t r[4];
	double x[2];

	for (int n = 0; n < 2;) {
		draw(p, r);
		two_f64(r, x);
		for (int i = 0; i < 2 && n < 2; i++)
			if (fabs(x[i]) < 2)
				out[n++] = x[i];
	}
}

static void truncated_normal(const struct draw *d, struct ht_philox *p, void *out)
{
	uint32_t r[4];
	float x[4];

	if (d->dtype == HT_F64) {
		truncated_f64(p, out);
		return;
	}
	for (int n = 0; n < 4;) {
		draw(p, r);
		two_f32(&r[0], &x[0]);
		two_f32(&r[2], &x[2]);
		for (int i = 0; i < 4 && n < 4; i++)
			if (fabsf(x[i]) < 2)
				put_float(d->dtype, out, n++, x[i]);
	}
}

/* ---- the kernels ---- */

static int32_t fill_floats(void *const *buffers, const int64_t *params, group_fn *group,
	int64_t stride, int64_t tile_begin, int64_t tile_end)
{
	const struct draw d = { .dtype = (enum ht_dtype)params[1] };

	fill(&d, group, stride, buffers[0], params[0], buffers[1], tile_begin, tile_end);
	return HT_FAULT_NONE;
}

int32_t ht_library_random_uniform(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	return fill_floats(buffers, params, uniform, 1, tile_begin, tile_end);
}

int32_t ht_library_random_bits(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	return fill_floats(buffers, params, bits, 1, tile_begin, tile_end);
}

int32_t ht_library_random_normal(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	return fill_floats(buffers, params, normal, 1, tile_begin, tile_end);
}

int32_t ht_library_random_truncated_normal(void *const *buffers, const int64_t *params,
	int64_t tile_begin, int64_t tile_end, void *scratch)
{
	int64_t size = group_size((enum ht_dtype)params[1]);

	(void)scratch;
	return fill_floats(buffers, params, truncated_normal, size * BLOCKS, tile_begin, tile_end);
}

static int64_t integer(const void *p, enum ht_dtype t, int i)
{
	return t == HT_I32 ? ((const int32_t *)p)[i] : ((const int64_t *)p)[i];
}

int32_t ht_library_random_uniform_int(void *const *buffers, const int64_t *params,
	int64_t tile_begin, int64_t tile_end, void *scratch)
{
	enum ht_dtype t = (enum ht_dtype)params[1];
	int64_t low = integer(buffers[1], t, 0), high = integer(buffers[2], t, 0);
	const struct draw d = { t, low, (uint64_t)high - (uint64_t)low };

	(void)scratch;
	if (low >= high)
		return HT_FAULT_EMPTY_RANGE;
	fill(&d, uniform_int, 1, buffers[0], params[0], buffers[3], tile_begin, tile_end);
	return HT_FAULT_NONE;
}

/* ---- advancing a state ---- */

int32_t ht_library_random_skip(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	if (tile_begin < tile_end)
		ht_philox_skip(buffers[0], (uint64_t)params[0]);
	return HT_FAULT_NONE;
}

/* ---- initial states of stateless ops ---- */

static struct ht_philox of_seed(const void *seed, enum ht_dtype t)
{
	return ht_philox_stateless((uint64_t)integer(seed, t, 0), (uint64_t)integer(seed, t, 1));
}

int32_t ht_library_random_seed(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct ht_philox p = of_seed(buffers[0], (enum ht_dtype)params[0]);

	(void)scratch;
	if (tile_begin < tile_end)
		memcpy(buffers[1], &p, sizeof p);
	return HT_FAULT_NONE;
}

int32_t ht_library_random_key(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct ht_philox p = of_seed(buffers[0], (enum ht_dtype)params[0]);

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	memcpy(buffers[1], p.key, sizeof p.key);
	memcpy(buffers[2], p.counter, sizeof p.counter);
	if (params[1] == 3)
		*(int32_t *)buffers[3] = HT_PHILOX_ALGORITHM;
	return HT_FAULT_NONE;
}

int32_t ht_library_random_state(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	int32_t algorithm = *(const int32_t *)buffers[2];
	struct ht_philox p;

	(void)params;
	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	if (algorithm != HT_PHILOX_ALGORITHM && algorithm != HT_ANY_ALGORITHM)
		return HT_FAULT_RANDOM_ALGORITHM;
	memcpy(p.key, buffers[0], sizeof p.key);
	memcpy(p.counter, buffers[1], sizeof p.counter);
	memcpy(buffers[3], &p, sizeof p);
	return HT_FAULT_NONE;
}
