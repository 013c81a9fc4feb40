/* The optimal policy: its price never exceeds that of float32 or of a painting, for any graph; it
 * does not depend on order and names of nodes; and no node is low that must not be. */
#include "tests/unit/optimal.h"
#include "tests/unit/random.h"
#include "tests/unit/unit.h"

#include "precision/optimal/optimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* ---- single cases ---- */

static void products_go_low(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *k = op(&b, "MatMul", "k", m, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(m), HT_BF16);
	assert_int_equal(attr(k), HT_BF16);
	assert_ptr_equal(b.decisions.type[0].rule, HT_BY(CHEAPEST_LOW));
	assert_int_equal(ht_type_of(b.entry.outputs->value)->dtype, HT_F32);
	assert_str(b.entry.outputs->value.node->name, "k");
	end(&b);
}

/* The epilogue of a product is low with it: a float32 tensor between them would need two casts, and
 * the sum would be rounded in between. */
static void what_follows_a_product_goes_low(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *a = op(&b, "AddV2", "a", m, w),
		       *r = op(&b, "Relu", "r", a, NULL), *k = op(&b, "MatMul", "k", r, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(m), HT_BF16);
	assert_int_equal(attr(a), HT_BF16);
	assert_int_equal(attr(r), HT_BF16);
	assert_int_equal(attr(k), HT_BF16);
	assert_int_equal(b.decisions.casts, 3); /* x, w and the output */
	end(&b);
}

/* A machine without low-precision arithmetic is as fast in float32. */
static void nothing_pays_everywhere(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w);
	output(&b, m);
	decide(&b, "optimal", "x86-64");
	assert_int_equal(attr(m), HT_F32);
	assert_int_equal(b.decisions.casts, 0);
	end(&b);
}

static void check_constant(const char *type, float value, enum ht_dtype low, bool stays)
{
	const char *policy =
		low == HT_F16 ? "allow_mix_precision_fp16" : "allow_mix_precision_bf16";
	bool refused = false;
	struct bench b;

	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *c = constant(&b, "c", value, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *a = op(&b, type, "a", m, c),
		       *s = op(&b, "Softmax", "s", a, NULL), *k = op(&b, "MatMul", "k", s, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	for (size_t i = 0; i < b.decisions.certificate->alternatives; i++)
		if (ht_str_is(b.decisions.certificate->alternative[i].name, policy))
			refused = b.decisions.certificate->alternative[i].refused.n != 0;
	assert_int_equal(refused, stays);
	if (stays) {
		assert_int_not_equal(attr(a), low);
		assert_int_not_equal(attr(s), low); /* gray, and reads it */
	}
	end(&b);
}

/* Constants that a low type would make infinite or zero stay in float32; infinities and zeros may
 * become low. */
static void sentinels_and_epsilons_stay(void **unused)
{
	(void)unused;
	check_constant("AddV2", -FLT_MAX, HT_BF16, true);
	check_constant("AddV2", -FLT_MAX, HT_F16, true);
	check_constant("AddV2", -1e9F, HT_F16, true);
	check_constant("AddV2", -1e9F, HT_BF16, false);
	check_constant("AddV2", 1e-12F, HT_F16, true);
	check_constant("AddV2", 1e-12F, HT_BF16, false);
	check_constant("AddV2", 65504.F, HT_F16, false);
	check_constant("AddV2", 65520.F, HT_F16, true);
	check_constant("AddV2", -(float)INFINITY, HT_F16, false);
	check_constant("Mul", 0, HT_F16, false);
}

/* Black ops keep float32, and so do the ops that compute with their results, up to the next white
 * op. */
static void denial_spreads_forwards(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *l = op(&b, "Log", "l", m, NULL),
		       *r = op(&b, "Relu", "r", l, NULL), *t = op(&b, "Tanh", "t", r, NULL),
		       *k = op(&b, "MatMul", "k", t, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(l), HT_F32);
	assert_int_equal(attr(r), HT_F32);
	assert_int_equal(attr(t), HT_F32);
	assert_int_equal(attr(k), HT_BF16);
	end(&b);
}

/* If every op keeps its types, nothing changes. */
static void all_denied_is_identity(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *l = op(&b, "Log", "l", input(&b, "x", 2, square), NULL);
	output(&b, op(&b, "Log", "k", l, NULL));
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(b.decisions.types, 0);
	assert_int_equal(b.decisions.casts, 0);
	assert_str(b.decisions.certificate->winner, "float32");
	end(&b);
}

/* A tensor that the first run made low is part of the graph in the second. */
static void a_second_run_changes_nothing(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *t = op(&b, "Tanh", "t", m, NULL),
		       *k = op(&b, "MatMul", "k", t, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_true(b.decisions.types > 0);
	b.decisions = (struct ht_decisions){ .arena = &b.arena };
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(b.decisions.types, 0);
	assert_int_equal(b.decisions.casts, 0);
	end(&b);
}

static void odd_shapes_do_not_matter(void **unused)
{
	static const int64_t open[] = { HT_DIM_UNKNOWN, 256 }, none[] = { 0, 256 };
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *w = constant(&b, "w", .5F, 2, square);
	output(&b, op(&b, "MatMul", "m", input(&b, "x", 2, open), w));
	output(&b, op(&b, "MatMul", "k", input(&b, "y", 2, none), w));
	output(&b, op(&b, "Tanh", "t", input(&b, "z", 0, NULL), NULL));
	output(&b, op(&b, "Tanh", "u", input(&b, "v", -1, NULL), NULL));
	decide(&b, "optimal", BF16_TARGET);
	end(&b);
}

static void an_empty_graph_costs_nothing(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(b.decisions.certificate->price, 0);
	end(&b);
}

/* ---- random graphs ---- */

enum { MOST = 40 };

struct spec {
	struct {
		const char *op;
		int in[2]; /* -1: the input; -2: the weights */
	} node[MOST];
	int nodes;
};

static void random_spec(struct spec *s)
{
	static const struct {
		const char *op;
		int ins;
	} kinds[] = { { "MatMul", -1 }, { "AddV2", 2 }, { "Mul", 2 }, { "Relu", 1 }, { "Tanh", 1 },
		{ "Exp", 1 }, { "Softmax", 1 }, { "Sub", 2 }, { "Log", 1 }, { "MatMul", 2 },
		{ "Sigmoid", 1 }, { "Neg", 1 } };

	s->nodes = 1 + (int)below(MOST);
	for (int i = 0; i < s->nodes; i++) {
		size_t k = below(HT_COUNT(kinds));
		s->node[i].op = kinds[k].op;
		for (int j = 0; j < 2; j++)
			s->node[i].in[j] = (int)below((uint32_t)i + 1) - 1;
		if (kinds[k].ins < 2)
			s->node[i].in[1] = kinds[k].ins < 0 ? -2 : -3;
	}
}

static bool is_ready(const struct spec *s, int i, struct ht_node *const *made)
{
	for (int j = 0; j < 2; j++)
		if (s->node[i].in[j] >= 0 && !made[s->node[i].in[j]])
			return false;
	return !made[i];
}

/* Nodes in any order in which operands come first, with other names. */
static void build(struct bench *b, const struct spec *s, bool shuffled, struct ht_node **made)
{
	struct ht_node *x = input(b, "x", 2, square), *w = constant(b, "w", .5F, 2, square);
	bool used[MOST] = { 0 };

	memset(made, 0, MOST * sizeof *made);
	for (int n = 0; n < s->nodes; n++) {
		struct ht_node *in[2] = { 0 };
		int i = n;
		char name[32];
		while (shuffled && !is_ready(s, i = (int)below((uint32_t)s->nodes), made))
			;
		for (int j = 0; j < 2; j++) {
			int from = s->node[i].in[j];
			in[j] = from == -1 ? x : from == -2 ? w : from == -3 ? NULL : made[from];
			if (from >= 0)
				used[from] = true;
		}
		snprintf(name, sizeof name, "%c%u", shuffled ? 'q' : 'n',
			shuffled ? 9999 - (unsigned)n : (unsigned)n);
		made[i] = op(b, s->node[i].op, name, in[0], in[1]);
	}
	for (int i = 0; i < s->nodes; i++)
		if (!used[i])
			output(b, made[i]);
}

static void check_random(const char *target)
{
	struct ht_node *made[MOST], *again[MOST];
	const struct ht_certificate *c;
	struct bench b, other;
	struct spec s;

	random_spec(&s);
	start(&b);
	build(&b, &s, false, made);
	decide(&b, "optimal", target);
	c = b.decisions.certificate;
	assert_true(c->cost == c->bound);
	for (size_t i = 0; i < c->alternatives; i++)
		if (!c->alternative[i].refused.n)
			assert_true(c->price <= c->alternative[i].price);
	start(&other);
	build(&other, &s, true, again);
	decide(&other, "optimal", target);
	assert_true(other.decisions.certificate->price == c->price);
	assert_true(other.decisions.casts == b.decisions.casts);
	for (int i = 0; i < s.nodes; i++)
		assert_int_equal(attr(made[i]), attr(again[i]));
	end(&other);
	end(&b);
}

static void random_graphs(void **unused)
{
	static const char *const targets[] = { "x86-64", "x86-64-v3", "x86-64-v4", BF16_TARGET };

	(void)unused;
	state = 7;
	for (int round = 0; round < 400; round++)
		check_random(targets[round % 4]);
}

/* ---- cost tables ---- */

static void check_table(const char *text, const char *message)
{
	const struct ht_costs *c;
	struct ht_diags d;
	UNIT_ARENA(a);

	ht_diags_init(&d);
	assert_int_equal(ht_costs_parse(ht_str(text), "t.costs", &a, &d, &c), HT_E_INPUT);
	assert_non_null(d.first);
	assert_str(d.first->text, message);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void bad_tables_are_refused(void **unused)
{
	(void)unused;
	check_table("costs\n", "a cost table begins with halftone.costs/1; found 'costs'");
	check_table("halftone.costs/1\ntarget\n", "a value was expected; found ''");
	check_table("halftone.costs/1\nlunch f32 1 1 1 2 0\n",
		"there is no kind of work 'lunch'; did you mean 'launch'?");
	check_table("halftone.costs/1\nload i8 1 1 1 2 0\n",
		"f32, f16 or bf16 was expected; found 'i8'");
	check_table("halftone.costs/1\nload f32 0 1 1 2 0\n",
		"a size of 1 or more was expected; found '0'");
	check_table(
		"halftone.costs/1\nload f32 1 1 1 -2 0\n", "picoseconds were expected; found '-2'");
	check_table("halftone.costs/1\nload f32 1 1 1 nan 0\n",
		"picoseconds were expected; found 'nan'");
	check_table("halftone.costs/1\nload f32 1 1 1 2\n", "a spread was expected; found ''");
	check_table("halftone.costs/1\nload f32 1 1 1 2 0 3\n",
		"the end of the line was expected; found '3'");
	check_table("halftone.costs/1\nload f32 1 1 1 2 0\n",
		"kind 'launch' needs points in f32, f16 and bf16, at the same sizes in the same order");
}

/* The shipped tables are valid, and more work costs more for every kind. */
static void every_target_has_costs(void **unused)
{
	(void)unused;
	for (const struct ht_target *const *t = ht_targets(); *t; t++) {
		static const enum ht_dtype types[] = { HT_F32, HT_F16, HT_BF16 };
		UNIT_ARENA(a);
		const struct ht_costs *c = ht_costs_of_target(*t, &a);
		for (int k = 0; k < HT_WORK_KINDS; k++)
			for (size_t i = 0; i < HT_COUNT(types); i++) {
				struct ht_work_size s = { 1000, 100, 10 };
				double one = ht_cost(c, (enum ht_work_kind)k, types[i], s, 1);
				assert_true(one >= 0 && one < 1e9);
				assert_true(
					ht_cost(c, (enum ht_work_kind)k, types[i], s, 2) >= one);
			}
		ht_arena_release(&a);
	}
}

/* Ops with elements of the same kind of work cost the same. */
static void functions_cost_alike(void **unused)
{
	static const char *const functions[] = { "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos",
		"Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh",
		"Erf", "Erfc", "Rsqrt", "Sigmoid", "Elu", "Selu", "Softplus" },
				 *const basic[] = { "Relu", "Relu6", "Abs", "Neg", "Square",
					 "Floor", "LeakyRelu", "Sign" };
	static const enum ht_dtype types[] = { HT_F32, HT_F16, HT_BF16 };
	const struct ht_target *t = ht_target_named(BF16_TARGET);
	struct ht_pricing p;
	struct bench b;

	(void)unused;
	start(&b);
	ht_pricing_init(&p, ht_costs_of_target(t, &b.arena), t, b.g, &b.arena);
	struct ht_node *x = input(&b, "x", 2, square);
	struct ht_node *exp = op(&b, "Exp", "exp", x, NULL),
		       *relu = op(&b, "Relu", "relu", x, NULL);
	struct ht_node *function[HT_COUNT(functions)], *base[HT_COUNT(basic)];
	for (size_t i = 0; i < HT_COUNT(functions); i++)
		function[i] = op(&b, functions[i], functions[i], x, NULL);
	for (size_t i = 0; i < HT_COUNT(basic); i++)
		base[i] = op(&b, basic[i], basic[i], x, NULL);
	assert_int_equal(ht_infer_types(b.g, &b.diags), HT_OK);
	for (size_t k = 0; k < HT_COUNT(types); k++) {
		int64_t dear = ht_price_work(&p, exp, types[k]);
		int64_t cheap = ht_price_work(&p, relu, types[k]);

		assert_true(cheap > 0 && dear > 2 * cheap);
		for (size_t i = 0; i < HT_COUNT(functions); i++)
			assert_int_equal(ht_price_work(&p, function[i], types[k]), dear);
		for (size_t i = 0; i < HT_COUNT(basic); i++)
			assert_int_equal(ht_price_work(&p, base[i], types[k]), cheap);
	}
	end(&b);
}

/* The length of a run follows from its stated error. */
static void short_runs_err_half_as_much_as_bfloat16(void **unused)
{
	const double most = 2.3e-3 / 2;

	(void)unused;
	assert_true(ht_run_variance(HT_SHORT_RUN) <= most * most);
	assert_true(ht_run_variance(2 * HT_SHORT_RUN) > most * most);
}

/* The price of a product of 1024 rows, whose mode sums short runs where its type is float16. */
static double price_of_runs(struct bench *b, int64_t columns, int64_t depth, enum ht_dtype t)
{
	const struct ht_target *target = ht_target_named("x86-64-v4+bf16+fp16");
	const int64_t left[] = { 1024, depth }, right[] = { depth, columns };
	struct ht_pricing p;
	struct ht_node *x, *w, *m;

	start(b);
	x = input(b, "x", 2, left);
	w = constant(b, "w", .5F, 2, right);
	m = op(b, "MatMul", "m", x, w);
	assert_int_equal(ht_infer_types(b->g, &b->diags), HT_OK);
	ht_attr_set_str(m, ht_mode_attribute, ht_str(ht_impl_name(HT_IMPL_HIGH_PERFORMANCE)));
	ht_pricing_init(&p, ht_costs_of_target(target, &b->arena), target, b->g, &b->arena);
	return (double)ht_price_work(&p, m, t);
}

static void short_runs_pay_for_idle_lanes_and_their_ends(void **unused)
{
	double wide[2], narrow[2], one, two;
	struct bench b;

	(void)unused;
	for (int i = 0; i < 2; i++) {
		wide[i] = price_of_runs(&b, 32, 128, i ? HT_F16 : HT_F32);
		end(&b);
		narrow[i] = price_of_runs(&b, 16, 128, i ? HT_F16 : HT_F32);
		end(&b);
	}
	assert_true(wide[1] < .65 * wide[0]);
	assert_true(narrow[1] > .95 * narrow[0]);
	one = price_of_runs(&b, 64, 2 * HT_SHORT_RUN, HT_F16);
	end(&b);
	two = price_of_runs(&b, 64, 2 * HT_SHORT_RUN + 2, HT_F16);
	end(&b);
	assert_true(two > 1.06 * one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_go_low),
		cmocka_unit_test(what_follows_a_product_goes_low),
		cmocka_unit_test(nothing_pays_everywhere),
		cmocka_unit_test(sentinels_and_epsilons_stay),
		cmocka_unit_test(denial_spreads_forwards),
		cmocka_unit_test(all_denied_is_identity),
		cmocka_unit_test(a_second_run_changes_nothing),
		cmocka_unit_test(odd_shapes_do_not_matter),
		cmocka_unit_test(an_empty_graph_costs_nothing),
		cmocka_unit_test(random_graphs),
		cmocka_unit_test(bad_tables_are_refused),
		cmocka_unit_test(every_target_has_costs),
		cmocka_unit_test(short_runs_err_half_as_much_as_bfloat16),
		cmocka_unit_test(functions_cost_alike),
		cmocka_unit_test(short_runs_pay_for_idle_lanes_and_their_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
