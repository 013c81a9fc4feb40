/* Number formats: their text, their numbers, and kernels against the definition of rounding. */
#include "base/float_format.h"
#include "ir/ir.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

static struct ht_float_format format(const char *text)
{
	struct ht_diags d;
	struct ht_float_format f;

	ht_diags_init(&d);
	if (ht_format_parse(ht_str(text), "test", &d, &f) != HT_OK)
		fail_msg("%s: %s", text, d.first->text.p);
	ht_diags_release(&d);
	return f;
}

static void texts_read_back(void **state)
{
	static const char *const texts[] = { "e4m3fn", "mxfp4_e2m1", "float:e=3,m=2",
		"float:e=4,m=3,bias=7,inf=no,subnormals=yes,saturate=yes",
		"e5m2:round=stochastic,seed=7", "float:e=5,m=10,nan=none,block=16,axis=-2",
		"float8_e4m3fnuz:saturate=yes", "bfloat16" };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(texts); i++) {
		UNIT_ARENA(a);
		struct ht_float_format f = format(texts[i]), back;
		struct ht_buf b;

		ht_buf_init(&b, &a);
		ht_format_put(&b, &f);
		back = format(ht_buf_str(&b).p);
		assert_true(ht_format_same(&f, &back));
		ht_arena_release(&a);
	}
}

static void wrong_texts_are_located(void **state)
{
	static const struct {
		const char *text, *part;
	} wrong[] = { { "e4m3fm", "did you mean 'e4m3" },
		{ "posit8", "there is no format 'posit8'" },
		{ "float:e=9,m=3", "at 'e=9': expected a number from 1 to 8" },
		{ "float:e=4,m=0", "at 'm=0': expected a number from 1 to 22" },
		{ "float:e=4", "have to be stated" }, { "", "there is no format ''" },
		{ "e4m3fn:inf=yes,nan=last", "goes with nan=ieee" },
		{ "float:e=8,m=7,inf=no", "beyond float32" },
		{ "float:e=5,m=2,bias=140", "below 2^-125" },
		{ "e5m2:axis=1", "goes with block=N" }, { "e5m2:block=1", "from 2 to 65536" },
		{ "e5m2:round=up", "nearest or stochastic" },
		{ "e8m0fnu:saturate=yes", "no properties" },
		{ "e5m2:size=3", "expected one of e, m" },
		{ "float:e=1,m=2", "needs 2 exponent bits" }, { "e5m2:seed=-1", "4294967295" } };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(wrong); i++) {
		struct ht_diags d;
		struct ht_float_format f;

		ht_diags_init(&d);
		assert_int_equal(
			ht_format_parse(ht_str(wrong[i].text), "test", &d, &f), HT_E_USAGE);
		if (!strstr(d.first->text.p, wrong[i].part))
			fail_msg("%s: %s", wrong[i].text, d.first->text.p);
		ht_diags_release(&d);
	}
}

static void limits_are_as_published(void **state)
{
	static const struct {
		const char *name;
		double largest, least_normal, overflow;
	} of[] = { { "bf16", 0x1.fep127, 0x1p-126, 0x1.ffp127 }, { "f16", 65504, 0x1p-14, 65520 },
		{ "e5m2", 57344, 0x1p-14, 61440 }, { "e4m3", 240, 0x1p-6, 248 },
		{ "e4m3fn", 448, 0x1p-6, 0x1.d00002p8 }, { "e4m3fnuz", 240, 0x1p-7, 248 },
		{ "e2m1fn", 6, 1, 7 }, { "e8m0fnu", 0x1p127, 0x1p-127, 0x1.8p127 } };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(of); i++) {
		struct ht_float_format f = format(of[i].name);

		assert_true(ht_format_largest(&f) == of[i].largest);
		assert_true(ht_format_least_normal(&f) == of[i].least_normal);
		assert_true((double)ht_format_overflow(&f) == of[i].overflow);
	}
}

/* The mean of many draws is the number itself, and a seed determines the draws. */
static void draws_are_fair(void **state)
{
	struct ht_float_format f = format("e4m3fn:round=stochastic,seed=3"),
			       other = format("e4m3fn:round=stochastic,seed=4");
	enum { DRAWS = 100000 };
	double sum = 0;
	int differ = 0;

	(void)state;
	for (uint32_t i = 0; i < DRAWS; i++) {
		float r = ht_format_round(&f, 17.3F, i);

		assert_true(r == 16 || r == 18);
		sum += (double)r;
		differ += r != ht_format_round(&other, 17.3F, i);
	}
	assert_true(fabs(sum / DRAWS - (double)17.3F) < 0.03);
	assert_true(differ > DRAWS / 4);
	assert_true(ht_format_round(&f, 18, 0) == 18);
}

/* ---- kernels ---- */

static float of_bits(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static bool same(float a, float b)
{
	uint32_t x, y;

	memcpy(&x, &a, sizeof x);
	memcpy(&y, &b, sizeof y);
	/* A NaN of float16 keeps its payload in instructions. */
	return isnan(a) && isnan(b) ? x >> 31 == y >> 31 : x == y;
}

enum { SIZE = 1 << 15 };

static struct ht_node *constant(
	struct ht_graph *g, const char *name, const float *x, int64_t rows, int64_t columns)
{
	struct ht_blob *blob = ht_blob_in(g->arena, (size_t)(rows * columns) * sizeof *x);

	memcpy((void *)(uintptr_t)blob->p, x, blob->n);
	return ht_const_sharing(g, ht_str(name), HT_F32,
		ht_shape_make(g->arena, 2, (int64_t[]){ rows, columns }), blob);
}

/* The results of the kernel of an op that rounds. */
static const float *evaluated(struct ht_arena *a, struct ht_graph *g, const char *op,
	const char *text, const struct ht_value *in, int32_t ins)
{
	struct ht_node *n = ht_node_new(g, ht_str(op), HT_STR("y"));
	struct ht_tensor *out = NULL;

	ht_attr_set_type(n, "T", HT_F32);
	ht_attr_set_str(n, "format", ht_str(text));
	ht_node_set_ins(n, in, ins);
	ht_node_set_outs(n, 1);
	n->out[0] = *ht_type_of(in[0]);
	assert_int_equal(ht_evaluate(n, a, &out), HT_OK);
	return out->blob->p;
}

static void check_kernel(const char *text, const float *x)
{
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_value in = ht_out(constant(g, "x", x, 1, SIZE), 0);
	const float *y = evaluated(&a, g, "_Rounded", text, &in, 1);
	struct ht_float_format f = format(text);

	for (uint32_t i = 0; i < SIZE; i++)
		if (!same(y[i], ht_format_round(&f, x[i], i)))
			fail_msg("%s: %a becomes %a; it has to be %a", text, (double)x[i],
				(double)y[i], (double)ht_format_round(&f, x[i], i));
	ht_arena_release(&a);
}

static void kernels_round_so(void **state)
{
	static const char *const more[] = { "float:e=3,m=2,subnormals=no",
		"float:e=4,m=3,inf=no,saturate=yes", "float:e=5,m=22", "float:e=1,m=3,inf=no",
		"float:e=5,m=3,bias=-3", "tf32:subnormals=no", "e5m2:round=stochastic,seed=11",
		"tf32:round=stochastic", "e2m1fn:round=stochastic,seed=5",
		"e4m3fnuz:round=stochastic,seed=1", "bf16:saturate=yes" };
	float *x = calloc(SIZE, sizeof *x);
	uint64_t random = 20261125;

	(void)state;
	for (uint32_t i = 0; i < SIZE; i++) {
		uint64_t r = ht_random(&random);
		/* All bits, or exponents near 1 with few bits, among which are ties. */
		x[i] = i & 1 ? of_bits((uint32_t)r)
			     : of_bits((uint32_t)(r & 0x80ff0000) + 0x30000000 +
				       (uint32_t)(r >> 32 & 0x0f000000));
	}
	for (const struct ht_float_format *f = ht_formats; f->name; f++)
		if (!f->block)
			check_kernel(f->name, x);
	for (size_t i = 0; i < HT_COUNT(more); i++)
		check_kernel(more[i], x);
	free(x);
}

/* Blocks of 8 columns, whose largest magnitudes are another operand of the kernel. */
static void blocks_have_a_factor(void **state)
{
	enum { ROWS = 64, BLOCK = 8 };
	static const char *const texts[] = { "e4m3fn:block=8,saturate=yes", "e2m1fn:block=8",
		"e5m2:block=8" };
	float x[ROWS * BLOCK], most[ROWS] = { 0 }, expected[ROWS * BLOCK];
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < ROWS * BLOCK; i++)
		x[i] = ldexpf((float)(ht_random(&random) % 2001) - 1000, i / BLOCK * 4 - 140);
	x[3] = INFINITY;
	for (size_t t = 0; t < HT_COUNT(texts); t++) {
		UNIT_ARENA(a);
		struct ht_graph *g = ht_graph_new(&a);
		struct ht_float_format f = format(texts[t]);
		struct ht_value in[2];
		const float *y;

		for (int i = 0; i < ROWS * BLOCK; i++)
			most[i / BLOCK] = fmaxf(most[i / BLOCK], fabsf(x[i]));
		in[0] = ht_out(constant(g, "x", x, ROWS, BLOCK), 0);
		in[1] = ht_out(constant(g, "most", most, ROWS, 1), 0);
		y = evaluated(&a, g, "_RoundedBlock", texts[t], in, 2);
		memcpy(expected, x, sizeof x);
		ht_format_round_all(&f, expected, ROWS, BLOCK, 1);
		for (int i = 0; i < ROWS * BLOCK; i++)
			if (!same(y[i], expected[i]))
				fail_msg("%s, %d: %a becomes %a; it has to be %a", texts[t], i,
					(double)x[i], (double)y[i], (double)expected[i]);
		ht_arena_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_read_back),
		cmocka_unit_test(wrong_texts_are_located),
		cmocka_unit_test(limits_are_as_published),
		cmocka_unit_test(draws_are_fair),
		cmocka_unit_test(kernels_round_so),
		cmocka_unit_test(blocks_have_a_factor),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
