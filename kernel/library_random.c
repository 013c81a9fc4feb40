/* Library kernels that draw random numbers, with the bits of TensorFlow's on the CPU.
 *
 * random_uniform, random_normal, random_truncated_normal, random_bits: buffers state, out;
 * params: elements, dtype. random_uniform_int: buffers state, minval, maxval, out; the same
 * params.  A state is a struct ht_philox, from which the first number is drawn.
 *
 * random_gamma: buffers state, shape parameters, out; params: elements, dtype, shape parameters.
 *
 * random_skip: buffer state, which it advances; params: blocks.  One tile. random_seed: buffers
 * seed [2], state; params: dtype of the seed. random_state: buffers key [1], counter [2 or
 * more], algorithm, state. random_key: buffers seed [2], key [1], counter [2], and optionally
 * the algorithm; params: dtype of the seed, number of results.  One tile each.
 *
 * Numbers are drawn in groups: a block of Philox gives four, or two of 8 bytes.  Truncated
 * normal numbers use as many of the 64 blocks reserved for each number as they need.  So the
 * place of a group in the stream is known, and the bits do not depend on the tiles. */
#include "kernel/library.h"
#include "kernel/philox.h"

#include <math.h>
#include <string.h>

enum { GROUPS = 1024 /* of a tile */, BLOCKS = 64 /* of a truncated normal */, AT_ONCE = 64 };
/* Of gamma-distributed numbers: numbers of a tile, tries for a number. */
enum { GAMMAS = 256, MOST_REJECTED = 100000 };

struct draw {
	enum ht_dtype dtype;
	int64_t low;
	uint64_t range; /* whole numbers are `low` plus a number below it */
};
/* Fills `out` with groups, one of each block of the numbers `r`. */
typedef void groups_fn(const struct draw *d, const uint32_t *r, int64_t groups, void *out);

static int64_t group_size(enum ht_dtype t)
{
	return ht_dtype_info(t)->bytes == 8 ? 2 : 4;
}

int64_t ht_random_tiles(enum ht_dtype t, int64_t count)
{
	int64_t tile = GROUPS * group_size(t);

	return count / tile + (count % tile != 0);
}

/* Copies groups, or what of them is among the first `count` elements. */
static void put(char *out, const char *numbers, int64_t at, int64_t n, int64_t count, int64_t bytes)
{
	memcpy(out + at * bytes, numbers, (size_t)((count - at < n ? count - at : n) * bytes));
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void fill(const struct draw *d, groups_fn *groups, const void *state, int64_t count,
	char *out, int64_t tile_begin, int64_t tile_end)
{
	const int64_t size = group_size(d->dtype), bytes = (int64_t)ht_dtype_info(d->dtype)->bytes;
	const int64_t end = least(tile_end * GROUPS, ht_ceil_div(count, size));
	uint32_t r[4 * AT_ONCE];
	_Alignas(double) char numbers[16 * AT_ONCE];
	struct ht_philox p;

	memcpy(&p, state, sizeof p);
	ht_philox_skip(&p, (uint64_t)(tile_begin * GROUPS));
	for (int64_t g = tile_begin * GROUPS; g < end; g += AT_ONCE) {
		const int64_t n = least(AT_ONCE, end - g);

		ht_philox_draw(&p, r, n);
		groups(d, r, n, numbers);
		put(out, numbers, g * size, n * size, count, bytes);
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

/* Element `i` of a type that has at most 32 bits.  A call, which costs little beside the functions of Box and Muller: inline it would be in
 * the code of each kind of number. */
__attribute__((noinline)) static void put_float(enum ht_dtype t, void *out, int64_t i, float x)
{
	if (t == HT_F16)
		((uint16_t *)out)[i] = ht_f32_to_f16(x);
	else if (t == HT_BF16)
		((uint16_t *)out)[i] = ht_f32_to_bf16(x);
	else
		((float *)out)[i] = x;
}

static void uniform(const struct draw *d, const uint32_t *r, int64_t groups, void *out)
{
	if (d->dtype == HT_F32)
		ht_philox_units(r, groups, out);
	for (int64_t i = 0; i < 2 * groups && d->dtype == HT_F64; i++)
		((double *)out)[i] = unit_f64(r[2 * i], r[2 * i + 1]);
	for (int64_t i = 0; i < 4 * groups && d->dtype == HT_F16; i++)
		((uint16_t *)out)[i] = ht_f32_to_f16((float)(r[i] & 0x3ff) * 0x1p-10f);
	for (int64_t i = 0; i < 4 * groups && d->dtype == HT_BF16; i++)
		((uint16_t *)out)[i] = ht_f32_to_bf16((float)(r[i] & 0x7f) * 0x1p-7f);
}

static void uniform_int(const struct draw *d, const uint32_t *r, int64_t groups, void *out)
{
	for (int64_t i = 0; i < 2 * groups && d->dtype == HT_I64; i++)
		((uint64_t *)out)[i] = (uint64_t)d->low + whole(&r[2 * i]) % d->range;
	for (int64_t i = 0; i < 4 * groups && d->dtype == HT_I32; i++)
		((uint32_t *)out)[i] = (uint32_t)d->low + r[i] % (uint32_t)d->range;
}

static void bits(const struct draw *d, const uint32_t *r, int64_t groups, void *out)
{
	(void)d;
	memcpy(out, r,
		(size_t)groups * 4 *
			sizeof *r); /* the low half of 64 bits comes first for both sizes */
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

static void normal(const struct draw *d, const uint32_t *r, int64_t groups, void *out)
{
	float x[4];

	for (int64_t i = 0; i < groups && d->dtype == HT_F64; i++)
		two_f64(&r[4 * i], (double *)out + 2 * i);
	for (int64_t i = 0; i < groups && d->dtype != HT_F64; i++) {
		two_f32(&r[4 * i], &x[0]);
		two_f32(&r[4 * i + 2], &x[2]);
		for (int j = 0; j < 4; j++)
			put_float(d->dtype, out, 4 * i + j, x[j]);
	}
}

static void truncated_f64(struct ht_philox *p, double *out)
{
	uint32_t r[4];
	double x[2];

	for (int n = 0; n < 2;) {
		ht_philox_draw(p, r, 1);
		two_f64(r, x);
		for (int i = 0; i < 2 && n < 2; i++)
			if (fabs(x[i]) < 2)
				out[n++] = x[i];
	}
}

static void truncated_normal(enum ht_dtype t, struct ht_philox *p, void *out)
{
	uint32_t r[4];
	float x[4];

	if (t == HT_F64) {
		truncated_f64(p, out);
		return;
	}
	for (int n = 0; n < 4;) {
		ht_philox_draw(p, r, 1);
		two_f32(&r[0], &x[0]);
		two_f32(&r[2], &x[2]);
		for (int i = 0; i < 4 && n < 4; i++)
			if (fabsf(x[i]) < 2)
				put_float(t, out, n++, x[i]);
	}
}

static void fill_truncated(enum ht_dtype t, const void *state, int64_t count, char *out,
	int64_t tile_begin, int64_t tile_end)
{
	const int64_t size = group_size(t), bytes = (int64_t)ht_dtype_info(t)->bytes;
	const int64_t end = least(tile_end * GROUPS, ht_ceil_div(count, size));
	_Alignas(double) char numbers[16];

	for (int64_t g = tile_begin * GROUPS; g < end; g++) {
		struct ht_philox p;

		memcpy(&p, state, sizeof p);
		ht_philox_skip(&p, (uint64_t)(g * size * BLOCKS));
		truncated_normal(t, &p, numbers);
		put(out, numbers, g * size, size, count, bytes);
	}
}

/* ---- gamma-distributed numbers, by the method of Marsaglia and Tsang (2000), doi:10.1145/358407.358414, in float64 ---- */

/* Numbers of one element, in TensorFlow's order: the second one of a block comes first. */
struct pairs {
	double x[2];
	int left;
};

static double next_normal(struct pairs *pair, struct ht_philox *p)
{
	uint32_t r[4];

	if (!pair->left) {
		ht_philox_next(p, r);
		two_f64(r, pair->x);
		pair->left = 2;
	}
	return pair->x[--pair->left];
}

static double next_unit(struct pairs *pair, struct ht_philox *p)
{
	uint32_t r[4];

	if (!pair->left) {
		ht_philox_next(p, r);
		pair->x[0] = unit_f64(r[0], r[1]);
		pair->x[1] = unit_f64(r[2], r[3]);
		pair->left = 2;
	}
	return pair->x[--pair->left];
}

/* A cube times `d` is accepted by its normal number `x` and a uniform one; parameters below 1 are drawn for 1 more, and
 * multiplied by a power of a uniform number.  Parameters that are not positive give what TensorFlow's formula gives: 0 for 0, NaN below -2/3. */
static double gamma_of(double alpha, struct ht_philox *p)
{
	const double d = alpha + (alpha < 1 ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / sqrt(d);
	struct pairs normals = { .left = 0 }, units = { .left = 0 };

	for (int i = 0; i < MOST_REJECTED; i++) {
		const double x = next_normal(&normals, p), root = 1 + c * x, v = root * root * root;
		double u;

		if (root <= 0)
			continue;
		u = next_unit(&units, p);
		if (u < 1 - 0.0331 * (x * x) * (x * x) ||
			log(u) < 0.5 * x * x + d * (1 - v + log(v)))
			return alpha < 1 ? d * v * pow(next_unit(&units, p), 1 / alpha) : d * v;
	}
	return NAN;
}

/* A parameter of 1 gives the exponential distribution. */
static double gamma_or_exponential(double alpha, struct ht_philox *p)
{
	struct pairs units = { .left = 0 };

	return alpha < 1 || alpha > 1 ? gamma_of(alpha, p)
	       : alpha == alpha       ? -log1p(-next_unit(&units, p))
				      : alpha;
}

static double float_at(enum ht_dtype t, const void *p, int64_t i)
{
	switch (t) {
	case HT_F64:
		return ((const double *)p)[i];
	case HT_F16:
		return (double)ht_f16_to_f32(((const uint16_t *)p)[i]);
	default:
		return (double)((const float *)p)[i];
	}
}

int64_t ht_gamma_tiles(int64_t count)
{
	return ht_ceil_div(count, GAMMAS);
}

/* All numbers of one parameter come before those of the next one in the stream. */
int32_t ht_library_random_gamma(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	const enum ht_dtype t = (enum ht_dtype)params[1];
	const int64_t count = params[0], alphas = params[2], each = count / alphas;

	(void)scratch;
	for (int64_t i = tile_begin * GAMMAS; i < least(tile_end * GAMMAS, count); i++) {
		struct ht_philox p;
		double x;

		memcpy(&p, buffers[0], sizeof p);
		ht_philox_skip(&p, (uint64_t)(i % alphas * each + i / alphas) * HT_RESERVED_BLOCKS);
		x = gamma_or_exponential(float_at(t, buffers[1], i % alphas), &p);
		if (t == HT_F64)
			((double *)buffers[2])[i] = x;
		else
			put_float(t, buffers[2], i, (float)x);
	}
	return HT_FAULT_NONE;
}

/* ---- the kernels ---- */

static int32_t fill_floats(void *const *buffers, const int64_t *params, groups_fn *groups,
	int64_t tile_begin, int64_t tile_end)
{
	const struct draw d = { .dtype = (enum ht_dtype)params[1] };

	fill(&d, groups, buffers[0], params[0], buffers[1], tile_begin, tile_end);
	return HT_FAULT_NONE;
}

int32_t ht_library_random_uniform(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	return fill_floats(buffers, params, uniform, tile_begin, tile_end);
}

int32_t ht_library_random_bits(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	return fill_floats(buffers, params, bits, tile_begin, tile_end);
}

int32_t ht_library_random_normal(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	(void)scratch;
	return fill_floats(buffers, params, normal, tile_begin, tile_end);
}

int32_t ht_library_random_truncated_normal(void *const *buffers, const int64_t *params,
	int64_t tile_begin, int64_t tile_end, void *scratch)
{
	(void)scratch;
	fill_truncated(
		(enum ht_dtype)params[1], buffers[0], params[0], buffers[1], tile_begin, tile_end);
	return HT_FAULT_NONE;
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
	fill(&d, uniform_int, buffers[0], params[0], buffers[3], tile_begin, tile_end);
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
