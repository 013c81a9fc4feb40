/* Policy optimal on training steps: gradients that float16 would lose keep a wider type, decisions are the cheapest by enumeration, and
 * the parts of a step have prices. */
#include "tests/unit/optimal.h"
#include "tests/unit/random.h"

#include "precision/optimal/optimal.h"

#include <math.h>
#include <stdio.h>

/* ---- a net of products and its step of gradient descent ---- */

enum { MOST_LAYERS = 2, WIDTH = 256 };

struct net {
	struct ht_node *product[MOST_LAYERS], *out[MOST_LAYERS]; /* forward */
	struct ht_node *slope[MOST_LAYERS], *weights[MOST_LAYERS], *back[MOST_LAYERS];
};

static struct ht_node *node(struct bench *b, const char *type, const char *name,
	struct ht_node *const *in, int32_t ins, int32_t outs)
{
	struct ht_node *n = ht_node_new(b->g, ht_str(type), ht_str_copy(&b->arena, ht_str(name)));
	struct ht_value v[8];

	for (int32_t i = 0; i < ins; i++)
		v[i] = ht_out(in[i], 0);
	ht_node_set_ins(n, v, ins);
	ht_node_set_outs(n, outs);
	return n;
}

static struct ht_node *variable(struct bench *b, const char *name, int32_t rank, const int64_t *dim)
{
	struct ht_node *n = node(b, "VarHandleOp", name, NULL, 0, 1);

	ht_attr_set_type(n, "dtype", HT_F32);
	ht_attr_set_shape(n, "shape", ht_shape_make(&b->arena, rank, dim));
	ht_attr_set_str(n, "shared_name", ht_str_copy(&b->arena, ht_str(name)));
	ht_attr_set_str(n, "container", HT_STR(""));
	return n;
}

static struct ht_node *read_of(struct bench *b, const char *name, struct ht_node *of)
{
	struct ht_node *n = node(b, "ReadVariableOp", name, &of, 1, 1);

	ht_attr_set_type(n, "dtype", HT_F32);
	return n;
}

static struct ht_node *product(
	struct bench *b, const char *name, struct ht_node *x, struct ht_node *y, bool ta, bool tb)
{
	struct ht_node *n = op(b, "MatMul", name, x, y);

	ht_attr_set_bool(n, "transpose_a", ta);
	ht_attr_set_bool(n, "transpose_b", tb);
	return n;
}

static const char *named(struct bench *b, const char *what, int i)
{
	return ht_str_printf(&b->arena, "%s%d", what, i).p;
}

static void update(struct bench *b, int i, struct ht_node *of, struct ht_node *by)
{
	struct ht_node *rate = constant(b, named(b, "rate", i), .01F, 0, NULL);
	struct ht_node *n = node(b, "ResourceApplyGradientDescent", named(b, "step", i),
		(struct ht_node *[]){ of, rate, by }, 3, 0);

	ht_attr_set_type(n, "T", HT_F32);
}

/* The gradient of the output, which the loss scale multiplies where there is one. */
static struct ht_node *seed(struct bench *b, int64_t rows)
{
	struct ht_node *one = constant(b, "one", 1, 2, (int64_t[]){ rows, WIDTH });

	if (!(b->loss_scale > 0))
		return one;
	return op(
		b, "Mul", "scaled", one, read_of(b, "scale", variable(b, HT_LOSS_SCALE, 0, NULL)));
}

static bool is_relu(unsigned relus, int i)
{
	return i < MOST_LAYERS && (relus >> i & 1);
}

/* Layers of a product and Tanh or Relu, with the gradients of all weights. */
static void make_net(struct bench *b, struct net *x, int layers, int64_t rows, unsigned relus)
{
	struct ht_node *at = input(b, "x", 2, (int64_t[]){ rows, WIDTH });
	struct ht_node *of[MOST_LAYERS], *w[MOST_LAYERS], *from[MOST_LAYERS], *g;

	for (int i = 0; i < layers; i++) {
		of[i] = variable(b, named(b, "w", i), 2, square);
		w[i] = read_of(b, named(b, "read", i), of[i]);
		from[i] = at;
		x->product[i] = product(b, named(b, "product", i), at, w[i], false, false);
		x->out[i] = at = op(b, is_relu(relus, i) ? "Relu" : "Tanh", named(b, "out", i),
			x->product[i], NULL);
	}
	output(b, at);
	g = seed(b, rows);
	for (int i = layers - 1; i >= 0; i--) {
		bool relu = is_relu(relus, i);

		x->slope[i] = g = op(b, relu ? "ReluGrad" : "TanhGrad", named(b, "slope", i),
			relu ? g : x->out[i], relu ? x->out[i] : g);
		x->weights[i] = product(b, named(b, "weights", i), from[i], g, true, false);
		update(b, i, of[i], x->weights[i]);
		if (i)
			x->back[i] = g = product(b, named(b, "back", i), g, w[i], false, true);
	}
}

/* A table in which float16 costs half of bfloat16, which costs half of float32; casts cost little. */
static const struct ht_costs *halving_costs(struct bench *b)
{
	static const char *const kinds[] = {
#define HT_WORK(id, name, unit, sizes) name,
#include "precision/optimal/cost.def"
#undef HT_WORK
	};
	const struct ht_costs *c;
	struct ht_buf t;

	ht_buf_init(&t, &b->arena);
	ht_puts(&t, "halftone.costs/1\n");
	for (size_t i = 0; i < HT_COUNT(kinds); i++) {
		bool casts = !strcmp(kinds[i], "widen") || !strcmp(kinds[i], "narrow") ||
			     !strcmp(kinds[i], "round");

		ht_printf(&t, "%s f32 1 1 1 %d 0\n%s bf16 1 1 1 %d 0\n%s f16 1 1 1 %d 0\n",
			kinds[i], casts ? 1 : 400, kinds[i], casts ? 1 : 200, kinds[i],
			casts ? 1 : 100);
	}
	assert_int_equal(ht_costs_parse((struct ht_str){ t.p, t.n }, "halving.costs", &b->arena,
				 &b->diags, &c),
		HT_OK);
	return c;
}

/* ---- gradients that underflow ---- */

/* What a run on samples would find: of 100 elements of each gradient `small` are from 2^exponent to below 2^(exponent+1), the others
 * about 1. */
struct found {
	int small, exponent;
	bool unknown; /* the variables have no values */
	size_t gradients;
};

static enum ht_status find(void *self, struct ht_graph *g, const struct ht_value *value, size_t n,
	struct ht_magnitudes *out, bool *known)
{
	struct found *f = self;

	*known = !f->unknown;
	f->gradients += n;
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(value[i].node->graph, g);
		out[i].at[127] += 100 - f->small;
		out[i].at[127 + f->exponent] += f->small;
	}
	return HT_OK;
}

/* The decision about a step of one layer, with samples unless f is NULL. */
static void decide_step(struct bench *b, struct net *x, double scale, struct found *f)
{
	struct ht_calibration c = { .magnitudes = find, .self = f };

	start(b);
	b->costs = halving_costs(b);
	b->calibration = f ? &c : NULL;
	b->loss_scale = scale;
	b->decisions.complete = true;
	make_net(b, x, 1, 256, 0);
	decide(b, "optimal", BF16_TARGET);
	b->calibration = NULL;
	b->costs = NULL;
	assert_int_equal(
		attr(x->product[0]), HT_F16); /* what is no gradient does not depend on this */
}

/* Why the gradient of the weights is not float16. */
static struct ht_str why_not(struct bench *b, const struct net *x)
{
	for (size_t i = 0; i < b->decisions.types; i++)
		if (ht_str_eq(b->decisions.type[i].node, x->weights[0]->name))
			return b->decisions.type[i].why_not[HT_ASKED_F16]->text;
	fail();
	return (struct ht_str){ 0 };
}

static void check_step(double scale, struct found *f, const char *why)
{
	struct bench b;
	struct net x;

	decide_step(&b, &x, scale, f);
	if (why) {
		assert_int_equal(attr(x.weights[0]), HT_BF16);
		assert_int_equal(attr(x.slope[0]), HT_BF16);
		assert_str(why_not(&b, &x), why);
	} else {
		assert_int_equal(attr(x.weights[0]), HT_F16);
		assert_int_equal(attr(x.slope[0]), HT_F16);
	}
	end(&b);
}

static void without_samples_gradients_stay_wide(void **unused)
{
	struct found unknown = { .unknown = true };
	const char *why =
		"gradient underflow: without samples or a loss scale no gradient is float16";

	(void)unused;
	check_step(0, NULL, why);
	check_step(0, &unknown, why);
	check_step(1, NULL, why); /* a scale of 1 lifts nothing */
	check_step(1024, NULL, NULL);
	check_step(1024, &unknown, NULL);
}

static void planted_tiny_gradients_stay_wide(void **unused)
{
	struct found tiny = { .small = 37, .exponent = -30 },
		     border = { .small = 37, .exponent = -25 };

	(void)unused;
	check_step(0, &tiny, "gradient underflow: 37 % of values below 2^-24 at loss scale 1");
	assert_true(tiny.gradients > 0);
	check_step(0, &border, "gradient underflow: 37 % of values below 2^-24 at loss scale 1");
	check_step(16, &tiny, "gradient underflow: 37 % of values below 2^-24 at loss scale 16");
}

static void gradients_in_range_go_low(void **unused)
{
	struct found usual = { .small = 37, .exponent = -24 },
		     few = { .small = 1, .exponent = -40 };

	(void)unused;
	check_step(0, &usual, NULL);
	check_step(0, &few, NULL);
}

static void a_loss_scale_lifts_them(void **unused)
{
	struct found tiny = { .small = 37, .exponent = -30 };

	(void)unused;
	check_step(64, &tiny, NULL);
	check_step(1024, &tiny, NULL);
}

static void a_loss_scale_may_be_too_large(void **unused)
{
	struct found usual = { .small = 37, .exponent = 2 };

	(void)unused;
	check_step(8192, &usual, NULL);
	check_step(
		16384, &usual, "gradient overflow: 37 % of values from 65536 at loss scale 16384");
}

/* ---- the optimum ---- */

/* All labellings, by one number that counts in base three; the least cost. */
static int64_t least_cost(const struct ht_assign *a)
{
	uint8_t label[64] = { HT_LABEL_F16, HT_LABEL_F32, HT_LABEL_BF16 };
	int64_t least = HT_COST_NEVER;
	uint64_t all = 1;

	assert_true(a->units <= HT_LABELS + 10);
	for (uint32_t u = HT_LABELS; u < a->units; u++)
		all *= HT_LABELS;
	for (uint64_t i = 0; i < all; i++) {
		uint64_t rest = i;
		int64_t cost;

		for (uint32_t u = HT_LABELS; u < a->units; u++, rest /= HT_LABELS)
			label[u] = (uint8_t)(rest % HT_LABELS);
		cost = ht_assign_cost(a, label);
		least = cost < least ? cost : least;
	}
	return least;
}

static void prepare(struct bench *b, struct ht_policy *policy, struct ht_precision *p)
{
	assert_int_equal(ht_infer_types(b->g, &b->diags), HT_OK);
	assert_int_equal(ht_policy_init(policy, "optimal", &b->diags), HT_OK);
	*p = (struct ht_precision){ .imported = b->g,
		.arena = &b->scratch,
		.diags = &b->diags,
		.policy = policy,
		.profile = policy->profile,
		.target = ht_target_named(BF16_TARGET),
		.decisions = &b->decisions };
	ht_rules_resolve(p);
	assert_int_equal(ht_precision_prepare(p, b->g), HT_OK);
}

/* The problem of a graph as it is priced in the first iterate. */
static void check_optimum(struct bench *b, const struct ht_costs *costs)
{
	struct ht_gradients gradients;
	struct ht_assignment solution;
	struct ht_pricing pricing;
	struct ht_problem problem;
	struct ht_policy policy;
	struct ht_safety safety;
	struct ht_precision p;
	struct ht_trial trial;

	prepare(b, &policy, &p);
	ht_pricing_init(&pricing, costs, p.target, b->g, &b->scratch);
	assert_int_equal(ht_gradients_find(&p, &gradients), HT_OK);
	ht_safety_build(&p, &gradients, &safety);
	ht_trial_make(&p, HT_NEW_ARRAY(&b->scratch, const struct ht_column *, b->g->ids), &pricing,
		&trial);
	ht_problem_build(&p, &safety, &pricing, &trial, &b->scratch, &problem);
	ht_assign_solve(&problem.assign, &b->scratch, &b->scratch, &solution);
	assert_true(solution.cost == solution.cut);
	assert_true(solution.cost == least_cost(&problem.assign));
	ht_trial_free(&trial);
}

static void decisions_are_the_cheapest(void **unused)
{
	static const int64_t rows[] = { 16, 256, 65536 };

	(void)unused;
	state = 11;
	for (int round = 0; round < 24; round++) {
		struct bench b;
		struct net x;

		start(&b);
		b.loss_scale = chance(30) ? 1024 : 0;
		make_net(&b, &x, 1 + below(MOST_LAYERS), rows[below(3)], rnd());
		check_optimum(&b, chance(50) ? halving_costs(&b)
					     : ht_costs_of_target(ht_target_named("x86-64-v4+bf16"),
						       &b.arena));
		end(&b);
	}
}

/* ---- memory ---- */

static const struct ht_alternative *alternative(const struct bench *b, const char *name)
{
	for (size_t i = 0; i < b->decisions.certificate->alternatives; i++)
		if (ht_str_is(b->decisions.certificate->alternative[i].name, name))
			return &b->decisions.certificate->alternative[i];
	fail();
	return NULL;
}

/* A step of two layers saves both results of Tanh for their gradients.  The second one is the output, which stays in float32; the first
 * one takes half of the memory in 16 bits. */
static void low_activations_take_half_of_the_memory(void **unused)
{
	const int64_t wide = (int64_t)256 * WIDTH * 4;
	struct bench b;
	struct net x;

	(void)unused;
	start(&b);
	make_net(&b, &x, 2, 256, 0);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(alternative(&b, "float32")->saved, 2 * wide);
	assert_int_equal(b.decisions.certificate->saved, wide + wide / 2);
	end(&b);
}

/* Of one layer in float32. */
static double price_of_step(int64_t rows)
{
	struct bench b;
	struct net x;
	double price;

	start(&b);
	b.costs = halving_costs(&b);
	make_net(&b, &x, 1, rows, 0);
	decide(&b, "optimal", BF16_TARGET);
	price = (double)alternative(&b, "float32")->price;
	end(&b);
	return price;
}

/* Where the saved activations exceed the last cache, 2 MB here, the gradient of Tanh reads its operand from memory: 4 bytes of 400 ps
 * instead of a load of 400 ps. */
static void activations_that_leave_the_cache_cost_more(void **unused)
{
	double base = price_of_step(128), row = (price_of_step(256) - base) / 128;
	double warm = price_of_step(512) - (base + row * (512 - 128));
	double cold = price_of_step(4096) - (base + row * (4096 - 128));

	(void)unused;
	assert_true(fabs(warm) < 1000);
	assert_true(fabs(cold - 4096. * WIDTH * 1200) < 1000);
}

/* ---- prices of the parts of a step ---- */

static struct ht_node *by_image(
	struct bench *b, const char *name, int64_t size, int64_t stride, bool fixed)
{
	const int64_t filter[] = { size, size, 16, 32 };
	struct ht_node *w = fixed ? constant(b, named(b, name, 0), 1, 4, filter)
				  : input(b, named(b, name, 1), 4, filter);
	struct ht_node *g =
		input(b, named(b, name, 2), 4, (int64_t[]){ 2, 28 / stride, 28 / stride, 32 });
	struct ht_blob *blob = ht_blob_copy((int32_t[]){ 2, 28, 28, 16 }, 4 * sizeof(int32_t));
	struct ht_node *sizes = ht_const_new(b->g, ht_str(named(b, name, 3)), HT_I32,
		ht_shape_make(&b->arena, 1, (int64_t[]){ 4 }), blob);
	struct ht_node *n =
		node(b, "Conv2DBackpropInput", name, (struct ht_node *[]){ sizes, w, g }, 3, 1);

	ht_attr_set_type(n, "T", HT_F32);
	ht_attr_set_str(n, "padding", HT_STR("SAME"));
	ht_attr_set_ints(n, "strides", (int64_t[]){ 1, stride, stride, 1 }, 4);
	return n;
}

/* At a stride, a kernel of phases multiplies the taps that meet pixels; the others multiply all of them. */
static void gradients_by_images_are_priced_by_their_products(void **unused)
{
	struct ht_node *plain, *phases, *all, *tiled;
	struct bench b;

	(void)unused;
	start(&b);
	plain = by_image(&b, "plain", 3, 1, false);
	phases = by_image(&b, "phases", 3, 2, false);
	all = by_image(&b, "all", 3, 2, true);
	tiled = by_image(&b, "tiled", 2, 2, false);
	assert_int_equal(ht_infer_types(b.g, &b.diags), HT_OK);
	assert_true(ht_products_share(plain) == 1);
	assert_true(ht_products_share(phases) == 1);
	assert_true(ht_products_share(all) == 4);
	assert_true(ht_products_share(tiled) == 1);
	end(&b);
}

/* At a stride of 1, by a filter that is computed, AUTO takes Winograd's method. */
static void gradients_by_images_are_priced_by_their_method(void **unused)
{
	const struct ht_target *t = ht_target_named(BF16_TARGET);
	struct ht_node *winograd, *fixed, *phases, *point;
	double share;
	struct ht_pricing p;
	struct bench b;

	(void)unused;
	start(&b);
	winograd = by_image(&b, "winograd", 3, 1, false);
	fixed = by_image(&b, "fixed", 3, 1, true);
	phases = by_image(&b, "phases", 3, 2, false);
	point = by_image(&b, "point", 1, 1, false);
	assert_int_equal(ht_infer_types(b.g, &b.diags), HT_OK);
	share = ht_winograd_share(t, winograd, HT_F32, false);
	assert_true(share > 0 && share < 1);
	assert_true(ht_winograd_share(t, fixed, HT_F32, false) == 0);
	assert_true(ht_winograd_share(t, phases, HT_F32, false) == 0);
	assert_true(ht_winograd_share(t, point, HT_F32, false) == 0);
	ht_pricing_init(&p, ht_costs_of_target(t, &b.arena), t, b.g, &b.arena);
	assert_true(ht_price_work(&p, winograd, HT_F32) < .9 * ht_price_work(&p, fixed, HT_F32));
	end(&b);
}

static void updates_have_a_price(void **unused)
{
	const struct ht_target *t = ht_target_named(BF16_TARGET);
	struct ht_node *of, *slot, *g, *rate, *plain, *momentum;
	struct ht_pricing p;
	struct bench b;

	(void)unused;
	start(&b);
	of = variable(&b, "w", 2, square);
	slot = variable(&b, "slot", 2, square);
	g = input(&b, "g", 2, square);
	rate = constant(&b, "rate", .1F, 0, NULL);
	plain = node(&b, "ResourceApplyGradientDescent", "plain",
		(struct ht_node *[]){ of, rate, g }, 3, 0);
	momentum = node(&b, "ResourceApplyMomentum", "momentum",
		(struct ht_node *[]){ of, slot, rate, g, rate }, 5, 0);
	ht_attr_set_type(plain, "T", HT_F32);
	ht_attr_set_type(momentum, "T", HT_F32);
	assert_int_equal(ht_infer_types(b.g, &b.diags), HT_OK);
	ht_pricing_init(&p, ht_costs_of_target(t, &b.arena), t, b.g, &b.arena);
	assert_true(
		ht_price_work(&p, plain, HT_F32) >
		ht_price_load(&p, ht_out(g, 0), HT_F32) + ht_price_store(&p, ht_out(g, 0), HT_F32));
	assert_true(ht_price_work(&p, momentum, HT_F32) > ht_price_work(&p, plain, HT_F32));
	assert_int_equal(ht_price_work(&p, momentum, HT_BF16), ht_price_work(&p, momentum, HT_F32));
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_samples_gradients_stay_wide),
		cmocka_unit_test(planted_tiny_gradients_stay_wide),
		cmocka_unit_test(gradients_in_range_go_low),
		cmocka_unit_test(a_loss_scale_lifts_them),
		cmocka_unit_test(a_loss_scale_may_be_too_large),
		cmocka_unit_test(decisions_are_the_cheapest),
		cmocka_unit_test(low_activations_take_half_of_the_memory),
		cmocka_unit_test(activations_that_leave_the_cache_cost_more),
		cmocka_unit_test(gradients_by_images_are_priced_by_their_products),
		cmocka_unit_test(gradients_by_images_are_priced_by_their_method),
		cmocka_unit_test(updates_have_a_price),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
