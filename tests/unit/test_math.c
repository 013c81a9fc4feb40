/* Functions of F32 on stratified inputs: at most 2 ulp from the exact value, with and without fused
 * multiplication and addition, by the interpreter and as code for every target that this machine
 * runs; functions of F64 on random and special inputs by the interpreter. */
#include "bench/math/reference.h"
#include "kernel/expr.h"
#include "kernel/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/backend.h"
#include "tests/unit/sanitized.h"

#if SANITIZED || !defined(__OPTIMIZE__)
enum { INPUTS = 1 << 18 };
#else
enum { INPUTS = 10 * 1000 * 1000 };
#endif
enum { BLOCK = 8192 };

static const double bound = 2;

struct subject {
	const struct function *f;
	struct ht_arena arena;
	struct ht_unwind unwind;
	struct ht_kernel k;
	struct ht_kernel_buffer buffer[3];
	struct ht_stage stage;
};

/* r[i] = f(x[i], y[i]) as a kernel of BLOCK iterations. */
static void subject_init(
	struct subject *s, const struct function *f, enum ht_dtype t, enum ht_accuracy accuracy)
{
	struct ht_xb b;
	int32_t x, y;

	memset(s, 0, sizeof *s);
	s->f = f;
	ht_arena_init(&s->arena, &s->unwind);
	for (int i = 0; i < 3; i++)
		s->buffer[i] =
			(struct ht_kernel_buffer){ i < 2 ? HT_BUFFER_IN : HT_BUFFER_OUT, t, BLOCK };
	s->k = (struct ht_kernel){
		.buffer = s->buffer, .buffers = 3, .args = 3, .stage = &s->stage, .stages = 1
	};
	s->stage = (struct ht_stage){ .dims = 1, .vec = 0 };
	s->stage.dim[0] = (struct ht_dim){ .extent = BLOCK, .grid = -1 };
	ht_xb_init(&b, &s->arena, &s->stage);
	b.accuracy = accuracy;
	x = ht_xload(&b, 0, t, ht_xdim(&b, 0));
	y = ht_xload(&b, 1, t, ht_xdim(&b, 0));
	ht_xstore(&b, 2, ht_xdim(&b, 0),
		f->operands == 1 ? ht_x1(&b, f->op, x) : ht_x2(&b, f->op, x, y));
	ht_kernel_expand(&s->k, &s->arena);
	ht_kernel_verify(&s->k);
}

/* Replaces every MULADD by MUL and ADD, as on a target without FMA. */
static void unfuse(struct subject *s)
{
	struct ht_stage old = s->stage;
	int32_t *now = HT_NEW_ARRAY(&s->arena, int32_t, (size_t)old.xs);
	struct ht_x *fresh = HT_NEW_ARRAY(&s->arena, struct ht_x, 2 * (size_t)old.xs);
	int32_t n = 0;

	for (int32_t i = 0; i < old.xs; i++) {
		struct ht_x x = old.x[i];

		x.a = x.a < 0 ? x.a : now[x.a];
		x.b = x.b < 0 ? x.b : now[x.b];
		x.c = x.c < 0 ? x.c : now[x.c];
		if (x.op == HT_X_MULADD) {
			fresh[n++] = (struct ht_x){ HT_X_MUL, x.dtype, x.a, x.b, -1, 0 };
			x = (struct ht_x){ HT_X_ADD, x.dtype, n - 1, x.c, -1, 0 };
		}
		fresh[n] = x;
		now[i] = n++;
	}
	s->stage.x = fresh;
	s->stage.xs = n;
	s->stage.store[0].offset = now[s->stage.store[0].offset];
	s->stage.store[0].value = now[s->stage.store[0].value];
	ht_kernel_verify(&s->k);
}

static uint64_t seed = 20240607;

static uint32_t draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 32);
}

struct worst {
	double error;
	float x, y, got;
};

static void judge(
	const struct subject *s, const float *x, const float *y, const float *r, struct worst *w)
{
	for (int i = 0; i < BLOCK; i++) {
		double e = ulps(r[i], s->f->libm((double)x[i], (double)y[i]));

		if (e > bound - 1e-4)
			e = ulps_exact(s->f, r[i], x[i], y[i]);
		if (e > w->error || (e != e))
			*w = (struct worst){ e, x[i], y[i], r[i] };
	}
}

static const float special[] = { 0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f,
	0x1p-126f, -0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f, 88.72283f, 88.72284f, -87.33654f,
	-103.97208f, -103.97209f, -104, 9.01f, 0.9277f, 3.92f, 0.5f, 2, 3, -2, -3, 0.99999994f,
	1.0000001f, 0x1p20f, -0x1p20f, 1048575.94f, 1.57079637f, 3.14159274f, 16367173.0f,
	0x1.4p60f, 0.41421357f, 2.41421366f, 16777216, 16777218, -16777215, 8388607.5f };

static void fill(const struct subject *s, long done, long inputs, float *x, float *y)
{
	const uint32_t stride = (uint32_t)((1ull << 32) / (uint64_t)inputs);
	const size_t n = HT_COUNT(special);

	for (long i = 0; i < BLOCK; i++) {
		long k = done + i;

		if (s->f->operands == 1)
			x[i] = float_of((uint32_t)k * stride + draw() % (stride ? stride : 1));
		else if (k % 4 == 0) /* any two */
			x[i] = float_of(draw()), y[i] = float_of(draw());
		else if (k % 4 == 1) /* results within range */
			x[i] = float_of(draw() & 0x3fffffff),
			y[i] = (float)((double)draw() / 0x1p27 - 16);
		else if (k % 4 == 2) /* near one */
			x[i] = 1 + ((float)draw() - 0x1p31f) * 0x1p-38f,
			y[i] = float_of(0x40000000 + draw() % 0x6000000);
		else /* whole exponents */
			x[i] = (float)((double)draw() / 0x1p28 - 8),
			y[i] = (float)(int32_t)(draw() % 61) - 30;
		if (k < (long)(n * n)) {
			x[i] = special[k / (long)n];
			y[i] = special[k % (long)n];
		}
	}
}

/* fn: the code of s; NULL: the interpreter runs it. */
static struct worst measure(struct subject *s, ht_kernel_fn *fn, long inputs)
{
	void *memory = malloc(3 * BLOCK * sizeof(float));
	float *x = memory, *y = x + BLOCK, *r = y + BLOCK;
	struct worst w = { 0 };

	assert_non_null(memory);
	memset(x, 0, 3 * BLOCK * sizeof *x);
	for (long done = 0; done < inputs; done += BLOCK) {
		void *buffers[] = { x, y, r };

		fill(s, done, inputs, x, y);
		if (fn)
			assert_int_equal(fn(buffers, NULL, 0, 1, NULL), 0);
		else
			assert_int_equal(ht_interpret(&s->k, buffers, NULL, 0, 1, NULL), 0);
		judge(s, x, y, r, &w);
	}
	free(memory);
	return w;
}

static void report(const char *how, const struct subject *s, struct worst w)
{
	printf("%-8s %-14s %3d expressions  largest error %.4f ulp at %a, %a: %a\n", s->f->name,
		how, s->stage.xs, w.error, (double)w.x, (double)w.y, (double)w.got);
}

static void test_functions(void **state)
{
	bool good = true;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(functions); i++) {
		struct subject s;
		struct worst w;

		subject_init(&s, &functions[i], HT_F32, HT_ACCURACY_FULL);
		w = measure(&s, NULL, INPUTS);
		report("fused", &s, w);
		good = good && w.error <= bound;
		unfuse(&s);
		w = measure(&s, NULL, INPUTS / 8);
		report("unfused", &s, w);
		good = good && w.error <= bound;
		ht_arena_release(&s.arena);
	}
	assert_true(good);
}

static void test_code(void **state)
{
	const struct ht_backend *backend = backend_open();
	bool good = true;

	(void)state;
	assert_non_null(backend);
	for (size_t i = 0; i < HT_COUNT(functions); i++)
		for (const struct ht_target *const *t = ht_targets(); *t; t++) {
			struct ht_code *code = NULL;
			ht_kernel_fn *fn;
			struct subject s;
			struct worst w;

			if (!backend_runs(*t))
				continue;
			subject_init(&s, &functions[i], HT_F32, HT_ACCURACY_FULL);
			fn = backend_compile(backend, &s.k, *t, &code);
			assert_non_null(fn);
			w = measure(&s, fn, INPUTS / 8);
			report((*t)->name, &s, w);
			good = good && w.error <= bound;
			backend->free(code);
			ht_arena_release(&s.arena);
		}
	assert_true(good);
}

/* ---- shorter forms ---- */

/* The relative error; 1 if NaN or an infinity is missed.  A tiny or subnormal value only needs a
 * tiny result, and a nearly infinite one a large result. */
static double short_error(float x, float got, double want)
{
	double size = fabs(want);

	if (isnan(want))
		return !isnan(got);
	if (size > 0x1p126)
		return !(fabsf(got) > 0x1p125f);
	if (size < 0x1p-123)
		return !(fabsf(got) < 0x1p-122f);
	if (fabsf(x) < 0x1p-126f && isinf(got))
		return 0; /* for log: the result for zero */
	return fabs((double)got - want) / size;
}

static double measure_short(struct subject *s, ht_kernel_fn *fn, float *at)
{
	static _Alignas(64) float x[BLOCK], y[BLOCK], r[BLOCK];
	void *buffers[] = { x, y, r };
	double worst = 0;

	for (long done = 0; done < INPUTS / 8; done += BLOCK) {
		fill(s, done, INPUTS / 8, x, y);
		if (fn)
			assert_int_equal(fn(buffers, NULL, 0, 1, NULL), 0);
		else
			assert_int_equal(ht_interpret(&s->k, buffers, NULL, 0, 1, NULL), 0);
		for (int i = 0; i < BLOCK; i++) {
			double e = short_error(x[i], r[i], s->f->libm((double)x[i], 0));

			if (!(e <= worst)) {
				worst = e;
				*at = x[i];
			}
		}
	}
	return worst;
}

static void test_short_forms(void **state)
{
	static const double bounds[] = {
		[HT_ACCURACY_SHORT] = 0x1p-15, [HT_ACCURACY_SHORTEST] = 0x1p-9
	};
	const struct ht_backend *backend = backend_open();
	bool good = true;

	(void)state;
	assert_non_null(backend);
	for (size_t i = 0; i < HT_COUNT(functions); i++)
		for (int a = HT_ACCURACY_SHORT; a <= HT_ACCURACY_SHORTEST; a++) {
			struct subject full, s;
			struct ht_code *code = NULL;
			ht_kernel_fn *fn;
			double e[2];
			float at = 0;

			subject_init(&full, &functions[i], HT_F32, HT_ACCURACY_FULL);
			subject_init(&s, &functions[i], HT_F32, (enum ht_accuracy)a);
			if (full.stage.xs != s.stage.xs) {
				fn = backend_compile(backend, &s.k, ht_target_host(), &code);
				assert_non_null(fn);
				e[0] = measure_short(&s, fn, &at);
				backend->free(code);
				unfuse(&s);
				e[1] = measure_short(&s, NULL, &at);
				printf("%-8s form %d  %3d expressions for %3d  relative errors "
				       "2^%.1f 2^%.1f at %a\n",
					s.f->name, a, s.stage.xs, full.stage.xs, log2(e[0]),
					log2(e[1]), (double)at);
				good = good && e[0] <= bounds[a] && e[1] <= bounds[a];
			}
			ht_arena_release(&s.arena);
			ht_arena_release(&full.arena);
		}
	assert_true(good);
}

/* libm is at most an ulp of F64 from MPFR; the other tests rely on that. */
static void test_reference(void **state)
{
	(void)state;
	for (size_t i = 0; i < HT_COUNT(functions); i++) {
		mpfr_t x, y, r;
		double worst = 0;

		mpfr_inits2(120, x, y, r, (mpfr_ptr)0);
		for (int k = 0; k < 4000; k++) {
			float fx = float_of(draw()), fy = float_of(draw() & 0x3fffffff);
			double got = functions[i].libm((double)fx, (double)fy), want, unit;

			mpfr_set_flt(x, fx, MPFR_RNDN);
			mpfr_set_flt(y, fy, MPFR_RNDN);
			functions[i].exact(r, x, y);
			want = mpfr_get_d(r, MPFR_RNDN);
			if (isnan(want) || isinf(want) || want == 0) {
				assert_true(isnan(want) ? isnan(got) : got == want);
				continue;
			}
			unit = fabs(want) < 0x1p-1022 ? 0x1p-1074 : fabs(want) * 0x1p-52;
			worst = fmax(worst, fabs(got - want) / unit);
		}
		assert_true(worst <= 2);
		mpfr_clears(x, y, r, (mpfr_ptr)0);
	}
	mpfr_free_cache();
}

/* ---- F64 ---- */

/* Including the double nearest to a multiple of pi/2, a neighbour of such a double, the ends of
 * domains and of the range of results. */
static const double special64[] = { 0, -0.0, 0x1p-1074, -0x1p-1074, 0x1p-1022, -0x1.8p-1030,
	0x1p-500, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 0.785, 1, -1, 0x1.fffffffffffffp-1,
	-0x1.fffffffffffffp-1, 0x1.0000000000001p0, 2, -3, 0x1.921fb54442d18p0,
	-0x1.921fb54442d18p1, 0x1.2d97c7f3321d2p2, 0x1.6ac5b262ca1ffp849, 1e22, -1e300, 6.5, -26.5,
	27.2, 28, 709.78, 710.4, -710.4, 710.5, -744, -746, 0x1.fffffffffffffp1023,
	-0x1.fffffffffffffp1023, INFINITY, -INFINITY, NAN };

static double draw_double(enum ht_xop op, int k)
{
	double unit = (double)draw() / 0x1p31 - 1 + ldexp((double)draw(), -63);

	switch (op) {
	case HT_X_EXP:
	case HT_X_EXPM1:
	case HT_X_SINH:
	case HT_X_COSH:
		return k % 3 ? unit * 745 : ldexp(unit, -(int)(draw() % 60));
	case HT_X_TANH:
	case HT_X_SIGMOID:
	case HT_X_ERF:
	case HT_X_ERFC:
		return k % 3 ? unit * (k % 2 ? 30 : 3) : ldexp(unit, -(int)(draw() % 60));
	case HT_X_LOG:
	case HT_X_RSQRT:
		return k % 3 ? ldexp(fabs(unit), (int)(draw() % 2090) - 1070) : 1 + unit * 0.5;
	case HT_X_ASIN:
	case HT_X_ACOS:
	case HT_X_ATANH:
		return k % 3 ? unit : copysign(1 - ldexp(fabs(unit), -(int)(draw() % 50)), unit);
	case HT_X_ACOSH:
		return k % 3 ? 1 + ldexp(fabs(unit), (int)(draw() % 80) - 50)
			     : ldexp(1 + fabs(unit), (int)(draw() % 1023));
	case HT_X_SIN:
	case HT_X_COS:
	case HT_X_TAN: /* any, and near multiples of pi/2 */
		if (k % 3 == 0)
			return (double)(draw() % 2000) * 0x1.921fb54442d18p0;
		return k % 3 == 1 ? unit * 100 : ldexp(unit, (int)(draw() % 1080) - 56);
	case HT_X_ATAN:
	case HT_X_ATAN2:
	case HT_X_ASINH:
		return k % 3 ? unit * 4 : ldexp(unit, (int)(draw() % 2000) - 1000);
	default:
		return k % 3 ? ldexp(fabs(unit), (int)(draw() % 300) - 200) : unit * 0.999;
	}
}

static double exact64(const struct function *f, double x, double y)
{
	mpfr_t mx, my, r;
	double want;

	mpfr_inits2(120, mx, my, r, (mpfr_ptr)0);
	mpfr_set_d(mx, x, MPFR_RNDN);
	mpfr_set_d(my, y, MPFR_RNDN);
	f->exact(r, mx, my);
	want = mpfr_get_d(r, MPFR_RNDN);
	mpfr_clears(mx, my, r, (mpfr_ptr)0);
	return want;
}

/* The relative error; INFINITY if NaN, an infinity or the sign of a zero differs. */
static double relative(double got, double want)
{
	if (isnan(want) || isinf(want) || want == 0)
		return (isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want))
			       ? 0
			       : INFINITY;
	return isfinite(got) ? fabs(got - want) / fmax(fabs(want), 0x1p-1022) : INFINITY;
}

/* libm decides whether MPFR is needed. */
static double error64(const struct function *f, double x, double y, double got, double limit)
{
	double e = relative(got, f->libm(x, y));

	return e < limit - 5e-16 ? e : relative(got, exact64(f, x, y));
}

static void fill64(const struct function *f, int round, double *x, double *y)
{
	const int n = (int)HT_COUNT(special64);

	for (int k = 0; k < BLOCK; k++) {
		x[k] = draw_double(f->op, k);
		y[k] = f->op == HT_X_ATAN2 ? draw_double(f->op, (int)draw() & 15)
		       : f->operands == 2  ? ((double)draw() / 0x1p31 - 1) * 4
					   : 0;
		if (round == 0 && k < n * n && f->op != HT_X_POW) {
			x[k] = special64[k / n];
			y[k] = special64[k % n];
		}
	}
}

static void test_f64(void **state)
{
	bool good = true;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(functions); i++) {
		const struct function *f = &functions[i];
		/* POW's error grows with the result's exponent. */
		double worst = 0, at = 0, of = 0, limit = f->op == HT_X_POW ? 2e-13 : 1e-15;
		static double x[BLOCK], y[BLOCK], r[BLOCK];
		struct subject s;

		subject_init(&s, f, HT_F64, HT_ACCURACY_FULL);
		for (int round = 0; round < 20; round++) {
			if (round == 10)
				unfuse(&s);
			fill64(f, round, x, y);
			assert_int_equal(
				ht_interpret(&s.k, (void *[]){ x, y, r }, NULL, 0, 1, NULL), 0);
			for (int k = 0; k < BLOCK; k++) {
				double e = error64(f, x[k], y[k], r[k], limit);

				if (e > worst || e != e)
					worst = e, at = x[k], of = r[k];
			}
		}
		printf("%-8s f64            %3d expressions  largest error %.3g at %a: %a\n",
			f->name, s.stage.xs, worst, at, of);
		good = good && worst <= limit;
		ht_arena_release(&s.arena);
	}
	mpfr_free_cache();
	assert_true(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_short_forms),
		cmocka_unit_test(test_f64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
