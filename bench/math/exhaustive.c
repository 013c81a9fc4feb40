/* Errors of the compiled unary functions of F32 over all 2^32 inputs.
 *
 *   nice build/bench/math_exhaustive [--target NAME] [--results FILE] [FUNCTION …]
 *
 * The work for a function is divided into 256 parts.  After each part the results file is written
 * again, and a later call continues where the file ends.  The reference is glibc's vector library
 * in F64; libm if that differs much or the value is special, MPFR if the margin to the bound is
 * small. The differences between the references are measured first. */
#include "backend/backend.h"
#include "bench/math/reference.h"
#include "kernel/expr.h"

#include <dlfcn.h>
#include <immintrin.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PARTS = 256, BLOCK = 4096 };
static const int64_t part_inputs = (int64_t)1 << 24;
static const double bound = 2;

/* glibc's libmvec, four numbers at once; glibc's header declares these functions only for
 * compilers. */
__m256d _ZGVdN4v_exp(__m256d x), _ZGVdN4v_expm1(__m256d x), _ZGVdN4v_log(__m256d x),
	_ZGVdN4v_log1p(__m256d x), _ZGVdN4v_tanh(__m256d x), _ZGVdN4v_erf(__m256d x),
	_ZGVdN4v_sin(__m256d x), _ZGVdN4v_cos(__m256d x), _ZGVdN4v_tan(__m256d x),
	_ZGVdN4v_atan(__m256d x), _ZGVdN4v_asin(__m256d x), _ZGVdN4v_acos(__m256d x),
	_ZGVdN4v_sinh(__m256d x), _ZGVdN4v_cosh(__m256d x), _ZGVdN4v_asinh(__m256d x),
	_ZGVdN4v_acosh(__m256d x), _ZGVdN4v_atanh(__m256d x), _ZGVdN4v_erfc(__m256d x);

#define AVX2 __attribute__((target("avx2")))

AVX2 static __m256d vector_sigmoid(__m256d x)
{
	__m256d one = _mm256_set1_pd(1), e = _ZGVdN4v_exp(_mm256_sub_pd(_mm256_setzero_pd(), x));

	return _mm256_div_pd(one, _mm256_add_pd(one, e));
}

AVX2 static __m256d vector_rsqrt(__m256d x)
{
	return _mm256_div_pd(_mm256_set1_pd(1), _mm256_sqrt_pd(x));
}

typedef __m256d vector_fn(__m256d x);

static vector_fn *vector_of(enum ht_xop op)
{
	switch (op) {
	case HT_X_EXP:
		return _ZGVdN4v_exp;
	case HT_X_EXPM1:
		return _ZGVdN4v_expm1;
	case HT_X_LOG:
		return _ZGVdN4v_log;
	case HT_X_LOG1P:
		return _ZGVdN4v_log1p;
	case HT_X_TANH:
		return _ZGVdN4v_tanh;
	case HT_X_SIGMOID:
		return vector_sigmoid;
	case HT_X_ERF:
		return _ZGVdN4v_erf;
	case HT_X_SIN:
		return _ZGVdN4v_sin;
	case HT_X_COS:
		return _ZGVdN4v_cos;
	case HT_X_TAN:
		return _ZGVdN4v_tan;
	case HT_X_ATAN:
		return _ZGVdN4v_atan;
	case HT_X_ASIN:
		return _ZGVdN4v_asin;
	case HT_X_ACOS:
		return _ZGVdN4v_acos;
	case HT_X_SINH:
		return _ZGVdN4v_sinh;
	case HT_X_COSH:
		return _ZGVdN4v_cosh;
	case HT_X_ASINH:
		return _ZGVdN4v_asinh;
	case HT_X_ACOSH:
		return _ZGVdN4v_acosh;
	case HT_X_ATANH:
		return _ZGVdN4v_atanh;
	case HT_X_ERFC:
		return _ZGVdN4v_erfc;
	default:
		return vector_rsqrt;
	}
}

struct result {
	int parts;
	double error;
	uint32_t at;
	int64_t above_one; /* inputs with an error of more than 1 ulp */
};

static struct result results[HT_COUNT(functions)];

/* ---- the results file ---- */

static void load(const char *path, const char *target)
{
	FILE *f = fopen(path, "r");
	char line[200], name[20], level[40];
	struct result r;

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%19s %39s %d/256 %lf ulp at 0x%" SCNx32 " above-1-ulp %" SCNd64,
			    name, level, &r.parts, &r.error, &r.at, &r.above_one) != 6 ||
			strcmp(level, target) != 0)
			continue;
		for (size_t i = 0; i < HT_COUNT(functions); i++)
			if (strcmp(functions[i].name, name) == 0)
				results[i] = r;
	}
	if (f)
		fclose(f);
}

/* Keeps the lines of other targets. */
static bool save(const char *path, const char *target)
{
	char temporary[4096], line[200], name[20], level[40];
	FILE *old = fopen(path, "r"), *f;

	snprintf(temporary, sizeof temporary, "%s.new", path);
	f = fopen(temporary, "w");
	if (!f)
		return false;
	while (old && fgets(line, sizeof line, old))
		if (sscanf(line, "%19s %39s", name, level) == 2 && strcmp(level, target) != 0)
			fputs(line, f);
	if (old)
		fclose(old);
	for (size_t i = 0; i < HT_COUNT(functions); i++)
		if (results[i].parts)
			fprintf(f,
				"%-8s %-15s %3d/256 %.6f ulp at 0x%08" PRIx32
				" above-1-ulp %" PRId64 "\n",
				functions[i].name, target, results[i].parts, results[i].error,
				results[i].at, results[i].above_one);
	return fclose(f) == 0 && rename(temporary, path) == 0;
}

/* ---- measuring ---- */

static double slow_error(const struct function *f, float x, float got)
{
	double e = ulps(got, f->libm((double)x, 0));

	return e > bound - 1e-4 ? ulps_exact(f, got, x, 0) : e;
}

/* Errors of one block; special values are computed one by one. */
AVX2 static void judge(const struct function *f, vector_fn *reference, const float *x,
	const float *got, struct result *r)
{
	const __m256d nothing = _mm256_set1_pd(-0.0);
	const __m256i least = _mm256_set1_epi64x((int64_t)(1023 - 126) << 52);
	const __m256i exponent = _mm256_set1_epi64x((int64_t)0x7ff << 52);
	const __m256i inverse = _mm256_set1_epi64x((int64_t)(2 * 1023 + 23) << 52);

	for (int i = 0; i < BLOCK; i += 4) {
		__m256d want = reference(_mm256_cvtps_pd(_mm_loadu_ps(x + i)));
		__m256d difference = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(got + i)), want);
		__m256i e = _mm256_and_si256(_mm256_castpd_si256(want), exponent);
		__m256i low = _mm256_cmpgt_epi64(least, e);
		__m256d scale, error;

		e = _mm256_blendv_epi8(e, least, low);
		scale = _mm256_castsi256_pd(_mm256_sub_epi64(inverse, e));
		error = _mm256_mul_pd(_mm256_andnot_pd(nothing, difference), scale);
		/* True unless the error is at most min(worst, 1), so also for NaN. */
		int rare = _mm256_movemask_pd(_mm256_cmp_pd(
			error, _mm256_set1_pd(r->error < 1 ? r->error : 1), _CMP_NLE_UQ));
		for (int k = 0; rare; k++, rare >>= 1) {
			double exact;

			if (!(rare & 1))
				continue;
			exact = slow_error(f, x[i + k], got[i + k]);
			r->above_one += exact > 1;
			if (exact > r->error || exact != exact) {
				r->error = exact;
				r->at = bits_of(x[i + k]);
			}
		}
	}
}

static void run_part(const struct function *f, ht_kernel_fn *fn, int part, struct result *r)
{
	static _Alignas(64) float x[BLOCK], y[BLOCK];
	vector_fn *reference = vector_of(f->op);

	for (int64_t i = 0; i < part_inputs; i += BLOCK) {
		for (int k = 0; k < BLOCK; k++)
			x[k] = float_of((uint32_t)(part * part_inputs + i + k));
		fn((void *[]){ x, y }, NULL, 0, 1, NULL);
		judge(f, reference, x, y, r);
	}
}

/* The largest distance of the vector reference from MPFR, in units of the last place of F64, on
 * inputs from the whole range. */
AVX2 static double reference_error(const struct function *f)
{
	vector_fn *reference = vector_of(f->op);
	double worst = 0, v[4];
	mpfr_t x, r;

	mpfr_inits2(120, x, r, (mpfr_ptr)0);
	for (uint32_t i = 0; i < 20000; i++) {
		float in = float_of(i * 214748u + 77777u);
		double want;

		_mm256_storeu_pd(v, reference(_mm256_set1_pd((double)in)));
		mpfr_set_flt(x, in, MPFR_RNDN);
		f->exact(r, x, x);
		want = mpfr_get_d(r, MPFR_RNDN);
		if (isfinite(want) && fabs(want) > 0x1p-1000)
			worst = fmax(worst, fabs(v[0] - want) / (fabs(want) * 0x1p-52));
	}
	mpfr_clears(x, r, (mpfr_ptr)0);
	return worst;
}

/* ---- compiling ---- */

static const struct ht_backend *open_backend(void)
{
	const char *path = getenv("HALFTONE_BACKEND");
	void *so = dlopen(
		path ? path : "build/lib/halftone/halftone-backend.so", RTLD_NOW | RTLD_LOCAL);

	return so ? dlsym(so, "ht_backend") : NULL;
}

static ht_kernel_fn *compile(const struct ht_backend *backend, const struct ht_target *t,
	const struct function *f, struct ht_arena *a)
{
	struct ht_kernel_buffer buffer[2] = { { HT_BUFFER_IN, HT_F32, BLOCK },
		{ HT_BUFFER_OUT, HT_F32, BLOCK } };
	struct ht_stage stage = { .dims = 1, .vec = 0 };
	struct ht_kernel k = {
		.buffer = buffer, .buffers = 2, .args = 2, .stage = &stage, .stages = 1
	};
	const struct ht_kernel *kernel = &k;
	ht_kernel_fn **entry;
	struct ht_code *code;
	struct ht_diags d;
	struct ht_xb b;

	stage.dim[0] = (struct ht_dim){ .extent = BLOCK, .grid = -1 };
	ht_xb_init(&b, a, &stage);
	ht_xstore(&b, 1, ht_xdim(&b, 0), ht_x1(&b, f->op, ht_xload(&b, 0, HT_F32, ht_xdim(&b, 0))));
	ht_kernel_expand(&k, a);
	ht_diags_init(&d);
	if (backend->compile(
		    &kernel, 1, t, &(struct ht_code_how){ 0 }, 1, NULL, &d, &code, &entry) != HT_OK)
		entry = (ht_kernel_fn *[]){ NULL };
	ht_diags_release(&d);
	return entry[0];
}

static bool wanted(const char *name, char **names, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return count == 0;
}

static int run(const struct ht_target *t, const char *path, char **names, int count)
{
	const struct ht_backend *backend = open_backend();
	struct ht_unwind unwind;
	struct ht_arena arena;
	int bad = 0;

	if (!backend) {
		fprintf(stderr, "the backend cannot be loaded: set HALFTONE_BACKEND\n");
		return 5;
	}
	ht_arena_init(&arena, &unwind);
	load(path, t->name);
	for (size_t i = 0; i < HT_COUNT(functions); i++) {
		const struct function *f = &functions[i];
		struct result *r = &results[i];
		ht_kernel_fn *fn;
		double off;

		if (f->operands != 1 || !wanted(f->name, names, count))
			continue;
		off = reference_error(f);
		if (off > 16) { /* in units of F64, that is 2^-25 of an ulp of F32 */
			fprintf(stderr, "%s: the reference is off by %g ulp\n", f->name, off);
			return 1;
		}
		fn = compile(backend, t, f, &arena);
		if (!fn)
			return 1;
		while (r->parts < PARTS) {
			run_part(f, fn, r->parts, r);
			r->parts++;
			if (!save(path, t->name)) {
				perror(path);
				return 5;
			}
		}
		printf("%s: %.6f ulp at %a; reference within %.2f ulp of F64\n", f->name, r->error,
			(double)float_of(r->at), off);
		fflush(stdout);
		bad += !(r->error <= bound);
	}
	ht_arena_release(&arena);
	return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *target = "host", *path = "bench/math/results.txt";
	int at = 1;

	for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
		if (strcmp(argv[at], "--target") == 0)
			target = argv[at + 1];
		else if (strcmp(argv[at], "--results") == 0)
			path = argv[at + 1];
		else
			break;
	}
	if ((at < argc && argv[at][0] == '-') || !ht_target_named(target)) {
		fprintf(stderr,
			"usage: math_exhaustive [--target NAME] [--results FILE] [FUNCTION...]\n");
		return 2;
	}
	return run(ht_target_named(target), path, argv + at, argc - at);
}
