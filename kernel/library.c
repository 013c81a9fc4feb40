/* library: the table of library kernels, and the random ones.
 *
 * random_uniform and random_normal: buffer 0 (out) F32; params: count, seed, seed2.  The numbers
 * are those of TensorFlow's first run of the op with these seeds; one tile. */
#include "kernel/library.h"
#include "kernel/philox.h"

#include <math.h>
#include <string.h>

/* The 23 low bits as the fraction of a number in [1, 2), minus one. */
static float unit(uint32_t bits)
{
	uint32_t u = (bits & 0x7fffff) | 0x3f800000;
	float f;

	memcpy(&f, &u, sizeof f);
	return f - 1;
}

static int32_t random_uniform(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct ht_philox p = ht_philox_init((uint64_t)params[1], (uint64_t)params[2]);
	float *out = buffers[0];
	uint32_t r[4];

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	for (int64_t i = 0; i < params[0]; i++) {
		if (i % 4 == 0)
			ht_philox_next(&p, r);
		out[i] = unit(r[i % 4]);
	}
	return HT_FAULT_NONE;
}

/* Box and Muller. */
static void two_normals(uint32_t x0, uint32_t x1, float *f0, float *f1)
{
	const float epsilon = 1.0e-7f;
	float u1 = unit(x0), v1 = (float)(2 * 3.14159265358979323846 * (double)unit(x1));
	float u2;

	if (u1 < epsilon)
		u1 = epsilon;
	u2 = sqrtf(-2.0f * logf(u1));
	*f0 = sinf(v1) * u2;
	*f1 = cosf(v1) * u2;
}

static int32_t random_normal(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	struct ht_philox p = ht_philox_init((uint64_t)params[1], (uint64_t)params[2]);
	float *out = buffers[0], f[4];
	uint32_t r[4];

	(void)scratch;
	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	for (int64_t i = 0; i < params[0]; i++) {
		if (i % 4 == 0) {
			ht_philox_next(&p, r);
			two_normals(r[0], r[1], &f[0], &f[1]);
			two_normals(r[2], r[3], &f[2], &f[3]);
		}
		out[i] = f[i % 4];
	}
	return HT_FAULT_NONE;
}

static const struct {
	const char *name;
	ht_kernel_fn *fn;
	size_t (*scratch)(const struct ht_kernel *k); /* NULL: none */
} library[] = {
	{ "random_normal", random_normal, NULL },
	{ "random_uniform", random_uniform, NULL },
	{ "sparse_to_dense", ht_library_sparse_to_dense, NULL },
	{ "top_k", ht_library_top_k, NULL },
};

ht_kernel_fn *ht_library_kernel(const char *name)
{
	for (size_t i = 0; i < HT_COUNT(library); i++)
		if (strcmp(name, library[i].name) == 0)
			return library[i].fn;
	return NULL;
}

size_t ht_library_scratch(const struct ht_kernel *k)
{
	for (size_t i = 0; i < HT_COUNT(library); i++)
		if (strcmp(k->library, library[i].name) == 0)
			return library[i].scratch ? library[i].scratch(k) : 0;
	return 0;
}
