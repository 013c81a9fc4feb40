/* Parts that the optimal policy leaves unchanged: types that it may not change, casts of the user,
 * edges without a value; and the sharing of the casts that it makes. */
#include "tests/unit/optimal.h"

static int count_ops(const struct bench *b, enum ht_op op)
{
	int n = 0;

	for (const struct ht_node *i = b->g->first; i; i = i->next)
		n += i->op == op;
	return n;
}

static struct ht_node *cast(struct bench *b, const char *name, struct ht_node *x, enum ht_dtype to)
{
	struct ht_node *n = ht_node_new(b->g, HT_STR("Cast"), ht_str_copy(&b->arena, ht_str(name)));
	struct ht_value in = ht_out(x, 0);

	ht_node_set_ins(n, &in, 1);
	ht_attr_set_type(n, "SrcT", ht_attr_type(x, x->op == HT_OP_Cast ? "DstT" : "T", HT_F32));
	ht_attr_set_type(n, "DstT", to);
	ht_attr_set_bool(n, "Truncate", false);
	ht_node_set_outs(n, 1);
	return n;
}

/* An unknown op: one float32 operand, one result of unknown type. */
static struct ht_node *opaque(struct bench *b, const char *name, struct ht_node *x)
{
	struct ht_node *n =
		ht_node_new(b->g, HT_STR("NobodysOp"), ht_str_copy(&b->arena, ht_str(name)));
	struct ht_value in = ht_out(x, 0);

	ht_node_set_ins(n, &in, 1);
	ht_node_set_outs(n, 1);
	return n;
}

/* Every operand of a Cast is a computed value or an input: no cast undoes another. */
static void check_casts(const struct bench *b)
{
	for (const struct ht_node *n = b->g->first; n; n = n->next)
		if (n->op == HT_OP_Cast)
			assert_true(n->in[0].node->op != HT_OP_Cast);
}

/* A constant and an input of several low products have one cast each. */
static void casts_are_shared(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *k = op(&b, "MatMul", "k", x, w),
		       *l = op(&b, "MatMul", "l", m, w);
	output(&b, k);
	output(&b, l);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(m), HT_BF16);
	assert_int_equal(attr(k), HT_BF16);
	assert_true(m->in[0].node == k->in[0].node && m->in[0].node->op == HT_OP_Cast);
	assert_true(m->in[1].node == k->in[1].node && k->in[1].node == l->in[1].node);
	assert_true(l->in[0].node == m);
	assert_int_equal(count_ops(&b, HT_OP_Cast), 4); /* x, w, and the two outputs */
	check_casts(&b);
	end(&b);
}

/* The user's rounding stays, even between low products. */
static void users_casts_stay(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *down = cast(&b, "down", m, HT_F16),
		       *up = cast(&b, "up", down, HT_F32), *k = op(&b, "MatMul", "k", up, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(ht_attr_type(down, "DstT", HT_INVALID), HT_F16);
	assert_true(up->in[0].node == down);
	assert_int_equal(ht_attr_type(up, "SrcT", HT_INVALID), HT_F16);
	assert_int_equal(ht_attr_type(k, "T", HT_INVALID), HT_BF16);
	end(&b);
}

/* Statistics of a batch norm have their own type, which is float32. */
static void statistics_stay(void **unused)
{
	static const int64_t image[] = { 1, 64, 64, 128 }, one[] = { 128 };
	static const int64_t filter[] = { 1, 1, 128, 128 }, strides[] = { 1, 1, 1, 1 };
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 4, image), *s = constant(&b, "s", 1, 1, one);
	struct ht_node *c = op(&b, "Conv2D", "c", x, constant(&b, "f", .1F, 4, filter));
	struct ht_node *n = op(&b, "FusedBatchNormV3", "n", c, s);
	struct ht_node *d = op(&b, "Conv2D", "d", n, c->in[1].node);
	struct ht_value in[] = { ht_out(c, 0), ht_out(s, 0), ht_out(s, 0), ht_out(s, 0),
		ht_out(s, 0) };
	ht_node_set_ins(n, in, 5);
	ht_node_set_outs(n, 6);
	ht_attr_set_type(n, "U", HT_F32);
	ht_attr_set_bool(n, "is_training", false);
	for (int i = 0; i < 2; i++) {
		ht_attr_set_ints(i ? d : c, "strides", strides, 4);
		ht_attr_set_str(i ? d : c, "padding", HT_STR("SAME"));
	}
	output(&b, d);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(c), HT_BF16);
	assert_int_equal(ht_attr_type(n, "U", HT_INVALID), HT_F32);
	for (int i = 1; i < 5; i++)
		assert_true(n->in[i].node == s);
	end(&b);
}

static void control_edges_stay(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *t = op(&b, "Tanh", "t", x, NULL),
		       *k = op(&b, "MatMul", "k", m, w);
	ht_node_set_controls(k, &t, 1);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(k), HT_BF16);
	assert_int_equal(k->controls, 1);
	assert_true(k->control[0] == t);
	end(&b);
}

/* A variable by reference keeps its type, and so do the nodes that pass the reference on. */
static void variables_stay(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *v = input(&b, "v", 2, square), *x = input(&b, "x", 2, square);
	ht_node_set_type(v, HT_STR("VariableV2"));
	struct ht_node *read = op(&b, "Identity", "read", v, NULL),
		       *m = op(&b, "MatMul", "m", x, read), *k = op(&b, "MatMul", "k", m, read),
		       *set = op(&b, "Assign", "set", v, k);
	output(&b, k);
	output(&b, set);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(ht_attr_type(v, "dtype", HT_INVALID), HT_F32);
	assert_int_equal(attr(set), HT_F32);
	assert_true(set->in[0].node == v);
	assert_int_equal(attr(m), HT_BF16);
	assert_true(m->in[1].node == k->in[1].node); /* read once, cast once */
	end(&b);
}

static void fed_and_fetched_stays(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *k = op(&b, "MatMul", "k", m, w);
	output(&b, x);
	output(&b, m);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(ht_attr_type(x, "dtype", HT_INVALID), HT_F32);
	for (const struct ht_port *p = b.entry.outputs; p; p = p->next) {
		assert_int_equal(ht_type_of(p->value)->dtype, HT_F32);
		assert_true(ht_str_eq(p->name, p->value.node->name));
	}
	check_casts(&b);
	end(&b);
}

/* Types without a decision: integers, booleans, doubles. */
static void other_types_stay(void **unused)
{
	static const enum ht_dtype types[] = { HT_F64, HT_I32, HT_I64, HT_I8 };
	static const char *const ops[] = { "AddV2", "Mul", "Maximum" };

	(void)unused;
	for (size_t t = 0; t < HT_COUNT(types); t++) {
		struct bench b;
		start(&b);
		struct ht_node *x = input(&b, "x", 2, square), *y = x;
		ht_attr_set_type(x, "dtype", types[t]);
		for (size_t i = 0; i < HT_COUNT(ops); i++) {
			y = op(&b, ops[i], ops[i], y, x);
			ht_attr_set_type(y, "T", types[t]);
		}
		output(&b, y);
		decide(&b, "optimal", BF16_TARGET);
		assert_int_equal(b.decisions.types, 0);
		assert_int_equal(count_ops(&b, HT_OP_Cast), 0);
		end(&b);
	}
}

/* Unknown ops do not affect decisions around them; they get the operands that they had before. */
static void unknown_ops_stay(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *n = op(&b, "MatMul", "n", m, w),
		       *o = opaque(&b, "o", n);
	output(&b, n);
	output(&b, o);
	decide(&b, "optimal", BF16_TARGET);
	assert_int_equal(attr(m), HT_BF16);
	assert_int_equal(ht_type_of(o->in[0])->dtype, HT_F32);
	assert_int_equal(b.decisions.unknowns, 1);
	assert_str(b.decisions.unknown[0], "NobodysOp");
	end(&b);
}

/* An op of any class becomes low where that saves time: chains of gray ops, in any order, do not
 * matter. */
static void chains_are_one_decision(void **unused)
{
	static const char *const chains[][3] = { { "Tanh", "Relu", "Sigmoid" },
		{ "Relu", "Tanh", "Sigmoid" }, { "Sigmoid", "Tanh", "Relu" } };
	int64_t price = 0;

	(void)unused;
	for (size_t i = 0; i < HT_COUNT(chains); i++) {
		struct bench b;
		start(&b);
		struct ht_node *x = input(&b, "x", 2, square),
			       *w = constant(&b, "w", .5F, 2, square);
		struct ht_node *y = op(&b, "MatMul", "m", x, w);
		for (int k = 0; k < 3; k++)
			y = op(&b, chains[i][k], chains[i][k], y, NULL);
		y = op(&b, "MatMul", "k", y, w);
		output(&b, y);
		decide(&b, "optimal", BF16_TARGET);
		assert_int_equal(attr(y), HT_BF16);
		assert_true(!i || b.decisions.certificate->price == price);
		price = b.decisions.certificate->price;
		check_casts(&b);
		end(&b);
	}
}

/* Each decision has a node and a reason. */
static void every_decision_has_a_reason(void **unused)
{
	struct bench b;

	(void)unused;
	start(&b);
	struct ht_node *x = input(&b, "x", 2, square), *w = constant(&b, "w", .5F, 2, square);
	struct ht_node *m = op(&b, "MatMul", "m", x, w), *l = op(&b, "Log", "l", m, NULL),
		       *e = op(&b, "Exp", "e", l, NULL), *k = op(&b, "MatMul", "k", e, w);
	output(&b, k);
	decide(&b, "optimal", BF16_TARGET);
	assert_true(b.decisions.types > 0);
	for (size_t i = 0; i < b.decisions.types; i++) {
		assert_true(b.decisions.type[i].rule && b.decisions.type[i].rule->text.n);
		assert_true(b.decisions.type[i].node.n > 0);
	}
	end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(casts_are_shared),
		cmocka_unit_test(users_casts_stay),
		cmocka_unit_test(statistics_stay),
		cmocka_unit_test(control_edges_stay),
		cmocka_unit_test(variables_stay),
		cmocka_unit_test(fed_and_fetched_stays),
		cmocka_unit_test(other_types_stay),
		cmocka_unit_test(unknown_ops_stay),
		cmocka_unit_test(chains_are_one_decision),
		cmocka_unit_test(every_decision_has_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
