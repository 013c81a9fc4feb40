/* The decisions of policies, node by node, on small graphs; and the places of casts. */
#include "tests/unit/precision.h"
#include "tests/unit/unit.h"

#include <stdio.h>

static struct ht_node *input(struct bench *b, const char *name, enum ht_dtype t)
{
	static const int64_t dim[] = { 4, 4 };
	struct ht_node *n = ht_node_new(b->g, HT_STR("Placeholder"), ht_str(name));
	struct ht_attr_value *v = ht_attr_set(n, "shape");

	v->kind = HT_ATTR_SHAPE;
	v->shape.shape = ht_shape_make(&b->arena, 2, dim);
	ht_attr_set_type(n, "dtype", t);
	ht_node_set_outs(n, 1);
	return n;
}

static struct ht_node *constant(struct bench *b, const char *name)
{
	static const int64_t dim[] = { 4, 4 };

	return ht_const_new(
		b->g, ht_str(name), HT_F32, ht_shape_make(&b->arena, 2, dim), ht_blob_new(64));
}

/* A node of type `type` in type T = `t` over operands x and y (NULL: one operand). */
static struct ht_node *op(struct bench *b, const char *type, const char *name, enum ht_dtype t,
	struct ht_node *x, struct ht_node *y)
{
	struct ht_node *n = ht_node_new(b->g, ht_str(type), ht_str(name));
	struct ht_value in[] = { ht_out(x, 0), { 0 } };

	if (y)
		in[1] = ht_out(y, 0);
	ht_node_set_ins(n, in, y ? 2 : 1);
	ht_attr_set_type(n, "T", t);
	ht_node_set_outs(n, 1);
	return n;
}

static struct ht_node *cast(
	struct bench *b, const char *name, struct ht_node *x, enum ht_dtype from, enum ht_dtype to)
{
	struct ht_node *n = ht_node_new(b->g, HT_STR("Cast"), ht_str(name));
	struct ht_value in = ht_out(x, 0);

	ht_node_set_ins(n, &in, 1);
	ht_attr_set_type(n, "SrcT", from);
	ht_attr_set_type(n, "DstT", to);
	ht_node_set_outs(n, 1);
	return n;
}

/* The operand must be a cast; returns the operand of the cast. */
static struct ht_node *behind_cast(struct ht_node *n, int32_t arg, enum ht_dtype to)
{
	struct ht_node *c = n->in[arg].node;

	assert_int_equal(c->op, HT_OP_Cast);
	assert_int_equal(ht_attr_type(c, "DstT", HT_INVALID), to);
	assert_int_equal(ht_attr_type(c, "SrcT", HT_INVALID), ht_type_of(c->in[0])->dtype);
	return c->in[0].node;
}

static void white_goes_low_and_casts_are_shared(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_F32), *w = constant(&b, "w"), *v = constant(&b, "v");
	struct ht_node *m = op(&b, "MatMul", "m", HT_F32, x, w),
		       *k = op(&b, "MatMul", "k", HT_F32, x, v);
	output(&b, m);
	output(&b, k);
	decide(&b, "allow_mix_precision_bf16", NULL);
	assert_int_equal(attr(m), HT_BF16);
	assert_int_equal(attr(k), HT_BF16);
	assert_ptr_equal(behind_cast(m, 0, HT_BF16), x);
	assert_ptr_equal(m->in[0].node, k->in[0].node);
	assert_ptr_equal(behind_cast(m, 1, HT_BF16), w);
	/* Casts to low of x, w, v; casts to float32 of m and k for the outputs. */
	assert_int_equal(b.decisions.casts, 5);
	assert_int_equal(b.decisions.types, 2);
	assert_int_equal(b.decisions.low_nodes, 2);
	end(&b);
}

static void outputs_keep_type_and_name(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_F32), *w = constant(&b, "w");
	struct ht_node *m = op(&b, "MatMul", "m", HT_F32, x, w),
		       *r = op(&b, "Relu", "r", HT_F32, m, NULL);
	output(&b, m);
	output(&b, m);
	decide(&b, "allow_mix_precision_fp16", NULL);
	for (struct ht_port *p = b.entry.outputs; p; p = p->next) {
		assert_int_equal(ht_type_of(p->value)->dtype, HT_F32);
		assert_str(p->value.node->name, "m");
		assert_ptr_equal(p->value.node->in[0].node, m);
	}
	assert_str(m->name, "m/float16");
	assert_int_equal(m->origins, 1);
	assert_str(m->origin[0], "m");
	assert_str(b.decisions.type[0].node, "m");
	/* The other user reads the low value directly. */
	assert_ptr_equal(r->in[0].node, m);
	assert_int_equal(attr(r), HT_F16);
	assert_int_equal(x->out[0].dtype, HT_F32);
	end(&b);
}

static void gray_follows_its_first_operand_that_is_no_constant(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_F32), *w = constant(&b, "w");
	struct ht_node *m = op(&b, "MatMul", "m", HT_F32, x, w);
	struct ht_node *l = op(&b, "Log", "l", HT_F32, m, NULL);
	struct ht_node *wm = op(&b, "AddV2", "wm", HT_F32, w, m);
	struct ht_node *lm = op(&b, "AddV2", "lm", HT_F32, l, m);
	struct ht_node *ml = op(&b, "AddV2", "ml", HT_F32, m, l);
	struct ht_node *xx = op(&b, "AddV2", "xx", HT_F32, x, w);
	decide(&b, "allow_mix_precision_bf16", NULL);
	assert_int_equal(attr(l), HT_F32);
	assert_ptr_equal(behind_cast(l, 0, HT_F32), m);
	assert_int_equal(attr(wm), HT_BF16);
	assert_ptr_equal(behind_cast(wm, 0, HT_BF16), w);
	assert_int_equal(attr(lm), HT_F32);
	assert_ptr_equal(behind_cast(lm, 1, HT_F32), m);
	assert_int_equal(attr(ml), HT_BF16);
	assert_ptr_equal(behind_cast(ml, 1, HT_BF16), l);
	assert_int_equal(attr(xx), HT_F32);
	end(&b);
}

static void gray_looks_through_a_cast_up(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_F32), *w = constant(&b, "w");
	struct ht_node *m = op(&b, "MatMul", "m", HT_F32, x, w);
	struct ht_node *h = cast(&b, "h", m, HT_F32, HT_BF16),
		       *f = cast(&b, "f", h, HT_BF16, HT_F32);
	struct ht_node *r = op(&b, "Relu", "r", HT_F32, f, NULL);
	decide(&b, "allow_mix_precision_bf16", NULL);
	/* The graph's own casts stay as they are. */
	assert_int_equal(ht_attr_type(h, "SrcT", HT_INVALID), HT_F32);
	assert_int_equal(ht_attr_type(f, "DstT", HT_INVALID), HT_F32);
	assert_int_equal(attr(r), HT_BF16);
	assert_ptr_equal(behind_cast(r, 0, HT_BF16), f);
	end(&b);
}

static void a_mode_does_not_exchange_low_types(void **state)
{
	static const char *const policies[] = { "allow_mix_precision_bf16",
		"must_keep_origin_dtype", "allow_fp32_to_bf16" };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(policies); i++) {
		struct bench b;
		start(&b);
		struct ht_node *x = input(&b, "x", HT_F16), *y = input(&b, "y", HT_F16);
		struct ht_node *m = op(&b, "MatMul", "m", HT_F16, x, y),
			       *l = op(&b, "Log", "l", HT_F16, m, NULL);
		decide(&b, policies[i], NULL);
		assert_int_equal(attr(m), HT_F16);
		assert_int_equal(attr(l), HT_F16);
		assert_int_equal(b.decisions.casts, 0);
		end(&b);
	}
}

static void keeping_modes_change_nothing(void **state)
{
	static const char *const policies[] = { "must_keep_origin_dtype", "origin", "force_fp32",
		"allow_fp32_to_fp16", "allow_fp32_to_bf16" };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(policies); i++) {
		struct bench b;
		start(&b);
		struct ht_node *x = input(&b, "x", HT_F32), *w = constant(&b, "w");
		struct ht_node *m = op(&b, "MatMul", "m", HT_F32, x, w),
			       *r = op(&b, "Relu", "r", HT_F32, m, NULL);
		decide(&b, policies[i], NULL);
		assert_int_equal(attr(r), HT_F32);
		assert_int_equal(b.decisions.casts, 0);
		assert_int_equal(b.decisions.types, 0);
		assert_int_equal(b.decisions.float_nodes, 2);
		end(&b);
	}
}

static void force_takes_all(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_F32);
	struct ht_node *l = op(&b, "Log", "l", HT_F32, x, NULL),
		       *q = op(&b, "Sigmoid", "q", HT_F32, l, NULL);
	decide(&b, "force_fp16", NULL);
	assert_int_equal(attr(l), HT_F16);
	assert_int_equal(attr(q), HT_F16);
	assert_int_equal(b.decisions.casts, 1);
	end(&b);
	start(&b);
	struct ht_node *y = input(&b, "y", HT_BF16), *e = op(&b, "Exp", "e", HT_BF16, y, NULL);
	decide(&b, "force_fp32", NULL);
	assert_int_equal(attr(e), HT_F32);
	assert_ptr_equal(behind_cast(e, 0, HT_F32), y);
	end(&b);
}

static void ops_without_a_kernel_follow_in_every_mode(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	/* force_fp32 makes e float32; Identity becomes float32 with it, though its own rule would
	 * keep bfloat16. */
	struct ht_node *y = input(&b, "y", HT_BF16), *i = op(&b, "Identity", "i", HT_BF16, y, NULL);
	struct ht_node *e = op(&b, "Exp", "e", HT_BF16, i, NULL),
		       *j = op(&b, "Identity", "j", HT_BF16, e, NULL);
	decide(&b, "force_fp32", NULL);
	assert_int_equal(attr(i), HT_BF16);
	assert_int_equal(attr(e), HT_F32);
	assert_int_equal(attr(j), HT_F32);
	end(&b);
}

static void statistics_and_random_numbers_keep_their_type(void **state)
{
	struct bench b;
	static const int64_t four[] = { 4 };

	(void)state;
	start(&b);
	struct ht_node *x = ht_node_new(b.g, HT_STR("Placeholder"), HT_STR("x"));
	ht_attr_set_type(x, "dtype", HT_F32);
	ht_node_set_outs(x, 1);
	struct ht_node *c[4];
	struct ht_value in[5] = { ht_out(x, 0) };
	for (int i = 0; i < 4; i++) {
		char name[16];
		snprintf(name, sizeof name, "c%d", i);
		c[i] = ht_const_new(b.g, ht_str_copy(&b.arena, ht_str(name)), HT_F32,
			ht_shape_make(&b.arena, 1, four), ht_blob_new(16));
		in[i + 1] = ht_out(c[i], 0);
	}
	struct ht_node *n = ht_node_new(b.g, HT_STR("FusedBatchNormV3"), HT_STR("bn"));
	ht_node_set_ins(n, in, 5);
	ht_attr_set_type(n, "T", HT_F32);
	ht_attr_set_type(n, "U", HT_F32);
	ht_attr_set_bool(n, "is_training", false);
	ht_node_set_outs(n, 6);
	decide(&b, "force_fp16", NULL);
	assert_int_equal(attr(n), HT_F16);
	assert_int_equal(ht_attr_type(n, "U", HT_INVALID), HT_F32);
	assert_ptr_equal(n->in[1].node, c[0]);
	assert_int_equal(n->out[0].dtype, HT_F16);
	assert_int_equal(n->out[1].dtype, HT_F32);
	end(&b);
	start(&b);
	struct ht_node *shape = ht_const_new(
		b.g, HT_STR("shape"), HT_I32, ht_shape_make(&b.arena, 1, four), ht_blob_new(16));
	struct ht_value of = ht_out(shape, 0);
	struct ht_node *u = ht_node_new(b.g, HT_STR("RandomUniform"), HT_STR("u"));
	ht_node_set_ins(u, &of, 1);
	ht_attr_set_type(u, "T", HT_I32);
	ht_attr_set_type(u, "dtype", HT_F32);
	ht_node_set_outs(u, 1);
	decide(&b, "force_fp16", NULL);
	assert_int_equal(ht_attr_type(u, "dtype", HT_INVALID), HT_F32);
	end(&b);
}

static void unknown_ops_get_what_they_took(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_F32), *w = constant(&b, "w");
	struct ht_node *m = op(&b, "MatMul", "m", HT_F32, x, w);
	struct ht_node *o = ht_node_new(b.g, HT_STR("NobodyKnows"), HT_STR("o"));
	struct ht_value in = ht_out(m, 0);
	ht_node_set_ins(o, &in, 1);
	decide(&b, "allow_mix_precision_bf16", NULL);
	assert_ptr_equal(behind_cast(o, 0, HT_F32), m);
	assert_int_equal(b.decisions.unknowns, 1);
	assert_str(b.decisions.unknown[0], "NobodyKnows");
	end(&b);
}

static void integers_are_not_judged(void **state)
{
	struct bench b;

	(void)state;
	start(&b);
	struct ht_node *x = input(&b, "x", HT_I32), *y = input(&b, "y", HT_I32);
	struct ht_node *m = op(&b, "MatMul", "m", HT_I32, x, y);
	decide(&b, "force_fp16", NULL);
	assert_int_equal(attr(m), HT_I32);
	assert_int_equal(b.decisions.float_nodes, 0);
	end(&b);
}

static void classes_are_those_of_the_lists(void **state)
{
	static const struct {
		const char *type;
		enum ht_class class;
		const char *list;
	} cases[] = {
		{ "MatMul", HT_CLASS_WHITE, "list" }, /* MatMulV2 */
		{ "Conv2D", HT_CLASS_WHITE, "list" },
		{ "DepthwiseConv2dNative", HT_CLASS_WHITE, "list" },
		{ "BatchMatMulV2", HT_CLASS_WHITE, "list" },
		{ "Einsum", HT_CLASS_WHITE, "list" }, /* by its contraction */
		{ "_FusedConv2D", HT_CLASS_WHITE, "list" },
		{ "MaxPool", HT_CLASS_WHITE, "list" }, /* white on 910B, gray on 910 */
		{ "LinSpace", HT_CLASS_GRAY, "list" }, /* gray on 910B, white on 910 */
		{ "Log", HT_CLASS_BLACK, "list" },
		{ "Sum", HT_CLASS_BLACK, "list" }, /* ReduceSum */
		{ "Mean", HT_CLASS_GRAY, "list" }, /* ReduceMean */
		{ "Pow", HT_CLASS_BLACK, "list" },
		{ "LogSoftmax", HT_CLASS_BLACK, "list" },
		{ "Softmax", HT_CLASS_GRAY, "list" },
		{ "Prelu", HT_CLASS_GRAY, "list" },
		{ "Squeeze", HT_CLASS_GRAY, "op table" },
		{ "TopKV2", HT_CLASS_GRAY, "op table" },
		{ "Placeholder", HT_CLASS_UNKNOWN, "op table" },
	};

	(void)state;
	for (size_t i = 0; i < HT_COUNT(cases); i++) {
		struct ht_node n = { .op = ht_op_named(ht_str(cases[i].type)),
			.type = ht_str(cases[i].type) };
		const char *list;
		assert_int_equal(ht_profile_class(&ht_profile_cpu, &n, &list), cases[i].class);
		assert_string_equal(list, cases[i].list);
	}
}

static void lists_are_complete(void **state)
{
	size_t count[4] = { 0 };

	(void)state;
	for (size_t i = 0; i < ht_profile_cpu.listeds; i++) {
		count[ht_profile_cpu.listed[i].class]++;
		if (i)
			assert_true(strcmp(ht_profile_cpu.listed[i - 1].type,
					    ht_profile_cpu.listed[i].type) < 0);
	}
	/* 47 white of 910 - 2 + 18 changed + 255 of 910B alone; 95 black - 1. */
	assert_int_equal(count[HT_CLASS_WHITE], 318);
	assert_int_equal(count[HT_CLASS_BLACK], 94);
	assert_int_equal(count[HT_CLASS_GRAY], 689 - 17 + 2);
}

static void wrong_names_are_refused(void **state)
{
	struct ht_diags d;
	struct ht_policy p;

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_policy_init(&p, "allow_mix_precison_bf16", &d), HT_E_USAGE);
	assert_non_null(strstr(d.first->text.p, "did you mean 'allow_mix_precision_bf16'"));
	assert_int_equal(ht_policy_init(&p, "", &d), HT_E_USAGE);
	assert_int_equal(ht_policy_init(&p, "Force_fp16", &d), HT_E_USAGE);
	assert_int_equal(ht_policy_init(&p, "force_fp16", &d), HT_OK);
	assert_int_equal(ht_policy_option(&p, "profile", "cpu", &d), HT_OK);
	assert_int_equal(ht_policy_option(&p, "profile", "gpu", &d), HT_E_USAGE);
	assert_int_equal(ht_policy_option(&p, "colour", "red", &d), HT_E_USAGE);
	ht_policy_release(&p);
	ht_diags_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(white_goes_low_and_casts_are_shared),
		cmocka_unit_test(outputs_keep_type_and_name),
		cmocka_unit_test(gray_follows_its_first_operand_that_is_no_constant),
		cmocka_unit_test(gray_looks_through_a_cast_up),
		cmocka_unit_test(a_mode_does_not_exchange_low_types),
		cmocka_unit_test(keeping_modes_change_nothing),
		cmocka_unit_test(force_takes_all),
		cmocka_unit_test(ops_without_a_kernel_follow_in_every_mode),
		cmocka_unit_test(statistics_and_random_numbers_keep_their_type),
		cmocka_unit_test(unknown_ops_get_what_they_took),
		cmocka_unit_test(integers_are_not_judged),
		cmocka_unit_test(classes_are_those_of_the_lists),
		cmocka_unit_test(lists_are_complete),
		cmocka_unit_test(wrong_names_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
