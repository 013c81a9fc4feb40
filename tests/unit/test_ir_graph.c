/* Graphs: nodes, names, edges, order, uses, replacement, origins, attributes, constants. */
#include "tests/unit/unit.h"

#include "ir/ir.h"

static struct ht_node *add(struct ht_graph *g, const char *type, const char *name, int32_t outs)
{
	struct ht_node *n = ht_node_new(g, ht_str(type), ht_str(name));

	ht_node_set_outs(n, outs);
	return n;
}

static void feed(struct ht_node *n, struct ht_node *a, struct ht_node *b)
{
	struct ht_value in[2] = { ht_out(a, 0), { 0 } };

	if (b)
		in[1] = ht_out(b, 0);
	ht_node_set_ins(n, in, b ? 2 : 1);
}

static void check_order(const struct ht_graph *g, const char *names)
{
	char text[100] = "";
	const struct ht_node *prev = NULL;

	for (const struct ht_node *n = g->first; n; prev = n, n = n->next) {
		assert_ptr_equal(n->prev, prev);
		strncat(text, n->name.p, 10);
	}
	assert_ptr_equal(g->last, prev);
	assert_string_equal(text, names);
}

static void nodes_and_names(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *x = add(g, "Placeholder", "x", 1), *y = add(g, "Relu", "y", 1);
	struct ht_node *z = add(g, "Unheard", "z", 0);

	assert_int_equal(x->op, HT_OP_Placeholder);
	assert_int_equal(z->op, HT_OP_OPAQUE);
	assert_str(z->type, "Unheard");
	assert_int_equal(y->out[0].shape.rank, -1);
	check_order(g, "xyz");
	assert_str(ht_graph_free_name(g, HT_STR("w")), "w");
	assert_str(ht_graph_free_name(g, HT_STR("x")), "x_1");
	add(g, "NoOp", "x_1", 0);
	assert_str(ht_graph_free_name(g, HT_STR("x")), "x_2");
	ht_node_move(z, x);
	check_order(g, "zxyx_1");
	ht_node_move(x, NULL);
	check_order(g, "zyx_1x");
	ht_node_remove(y);
	check_order(g, "zx_1x");
	assert_int_equal(g->nodes, 3);
	assert_null(ht_graph_node(g, HT_STR("y")));
	ht_node_rename(z, HT_STR("y"));
	assert_ptr_equal(ht_graph_node(g, HT_STR("y")), z);
	assert_null(ht_graph_node(g, HT_STR("z")));
	ht_node_set_type(z, HT_STR("Tanh"));
	assert_int_equal(z->op, HT_OP_Tanh);
	assert_int_equal(ht_verify(g, NULL), HT_E_INPUT); /* Tanh without its operand */
	ht_arena_release(&a);
}

static void uses_and_replacement(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *x = add(g, "Placeholder", "x", 1), *s = add(g, "Split", "s", 2);
	struct ht_node *sum = add(g, "Add", "sum", 1), *late = add(g, "NoOp", "late", 0);
	struct ht_port out = { .name = HT_STR("o"), .value = ht_out(s, 1) };
	struct ht_entry e = { .outputs = &out };
	struct ht_uses u;

	feed(sum, s, s);
	ht_node_set_controls(late, &s, 1);
	g->entries = &e;
	u = ht_graph_uses(g, &a);
	assert_int_equal(ht_use_count(&u, ht_out(s, 0)), 2);
	assert_int_equal(ht_use_count(&u, ht_out(s, 1)), 1);
	assert_int_equal(ht_use_count(&u, ht_out(x, 0)), 0);
	assert_true(u.is_output[s->id]);
	assert_ptr_equal(u.of[s->id]->node, sum);
	assert_int_equal(u.of[s->id]->arg, 0);
	assert_int_equal(u.of[s->id]->next->arg, 1);
	assert_ptr_equal(u.of[s->id]->next->next->node, late);
	assert_int_equal(u.of[s->id]->next->next->arg, -1);
	ht_replace_uses(g, ht_out(s, 1), ht_out(x, 0));
	assert_ptr_equal(out.value.node, x);
	assert_ptr_equal(sum->in[0].node, s);
	ht_replace_uses(g, ht_out(s, 0), ht_out(x, 0));
	assert_ptr_equal(sum->in[1].node, x);
	ht_arena_release(&a);
}

static void results_of_functions_are_uses(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_function *f = ht_function_new(g, HT_STR("f"));
	struct ht_node *x = add(f->body, "_Arg", "x", 1), *y = add(f->body, "Relu", "y", 1);
	struct ht_port ret = { .value = ht_out(y, 0) };
	struct ht_uses u;

	feed(y, x, NULL);
	f->rets = &ret;
	assert_ptr_equal(ht_graph_function(g, HT_STR("f")), f);
	u = ht_graph_uses(f->body, &a);
	assert_int_equal(ht_use_count(&u, ht_out(y, 0)), 1);
	ht_replace_uses(f->body, ht_out(y, 0), ht_out(x, 0));
	assert_ptr_equal(ret.value.node, x);
	ht_arena_release(&a);
}

static struct ht_function *add_function(struct ht_graph *g, struct ht_str name, struct ht_port *ret)
{
	struct ht_function *f = ht_function_new(g, name);
	struct ht_node *x = add(f->body, "_Arg", "x", 1), *y = add(f->body, "Relu", "y", 1);

	feed(y, x, NULL);
	*ret = (struct ht_port){ .value = ht_out(y, 0) };
	f->rets = ret;
	return f;
}

static void functions_are_shared_until_they_are_owned(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	UNIT_ARENA(b);
	struct ht_graph *g = ht_graph_new(&a), *copy;
	struct ht_port ret[2];
	struct ht_function *f = add_function(g, HT_STR("f"), &ret[0]), *mine;
	struct ht_node *call = add(g, "f", "call", 1), *x = add(g, "Placeholder", "x", 1);

	add_function(g, HT_STR("nobody"), &ret[1]);
	feed(call, x, NULL);
	copy = ht_graph_clone_sharing(g, &b);
	mine = ht_graph_function(copy, HT_STR("f"));
	assert_true(mine != f && mine->shared && mine->body == f->body);
	assert_null(ht_graph_function(copy, HT_STR("nobody")));
	ht_functions_own(copy);
	assert_ptr_equal(ht_graph_function(copy, HT_STR("f")), mine);
	assert_true(!mine->shared && mine->body != f->body && mine->body->function == mine);
	assert_ptr_equal(mine->body->library, copy);
	assert_ptr_equal(mine->rets->value.node, ht_graph_node(mine->body, HT_STR("y")));
	/* Changes of the copy do not affect the original. */
	ht_replace_uses(mine->body, ht_out(mine->rets->value.node, 0),
		ht_out(ht_graph_node(mine->body, HT_STR("x")), 0));
	assert_ptr_equal(ret[0].value.node, ht_graph_node(f->body, HT_STR("y")));

	/* Functions that are not called any more need no body. */
	copy = ht_graph_clone_sharing(g, &b);
	ht_node_remove(ht_graph_node(copy, HT_STR("call")));
	ht_functions_own(copy);
	assert_null(copy->functions);
	assert_null(ht_graph_function(copy, HT_STR("f")));
	assert_non_null(ht_graph_function(g, HT_STR("f")));
	ht_arena_release(&b);
	ht_arena_release(&a);
}

static void sorting(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *d = add(g, "Add", "d", 1), *b = add(g, "Relu", "b", 1);
	struct ht_node *c = add(g, "Relu", "c", 1), *x = add(g, "Placeholder", "a", 1);
	struct ht_node *late = add(g, "NoOp", "e", 0);

	feed(d, c, b);
	feed(b, x, NULL);
	feed(c, x, NULL);
	ht_node_set_controls(c, &late, 1);
	assert_int_equal(ht_verify(g, NULL), HT_E_INPUT);
	assert_int_equal(ht_graph_sort(g, NULL), HT_OK);
	check_order(g, "aecbd");
	assert_int_equal(ht_verify(g, NULL), HT_OK);
	/* Nodes that are in order stay in place. */
	assert_int_equal(ht_graph_sort(g, NULL), HT_OK);
	check_order(g, "aecbd");
	ht_arena_release(&a);
}

static void deep_graphs_sort(void **state)
{
	enum { DEPTH = 200000 };
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *first = add(g, "Relu", "0", 1), *prev = first;

	(void)state;
	for (int i = 1; i < DEPTH; i++) {
		struct ht_node *n = add(g, "Relu", ht_str_printf(&a, "%d", i).p, 1);

		feed(prev, n, NULL); /* each needs the next one */
		prev = n;
	}
	assert_int_equal(ht_graph_sort(g, NULL), HT_OK);
	assert_ptr_equal(g->last, first);
	assert_ptr_equal(g->first, prev);
	ht_arena_release(&a);
}

static void cycles(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *enter = add(g, "Enter", "enter", 1), *merge = add(g, "Merge", "merge", 2);
	struct ht_node *next = add(g, "NextIteration", "next", 1),
		       *x = add(g, "Placeholder", "x", 1);
	struct ht_diags d;

	ht_diags_init(&d);
	feed(enter, x, NULL);
	feed(merge, enter, next);
	feed(next, merge, NULL);
	assert_int_equal(ht_graph_sort(g, &d), HT_OK);
	assert_true(d.errors == 0);
	ht_node_set_type(next, HT_STR("Identity"));
	assert_int_equal(ht_graph_sort(g, &d), HT_E_INPUT);
	assert_non_null(strstr(d.first->text.p, "'merge' needs 'next' needs 'merge'"));
	/* The list is still whole. */
	check_order(g, "xentermergenext");
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void origins(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *x = add(g, "Relu", "x", 1), *y = add(g, "Relu", "y", 1);
	struct ht_node *z = add(g, "Relu", "z", 1);

	ht_node_add_origin(z, x);
	ht_node_add_origin(z, y);
	ht_node_add_origin(z, x);
	assert_int_equal(z->origins, 2);
	assert_str(z->origin[0], "x");
	assert_str(z->origin[1], "y");
	ht_node_add_origin(x, z);
	assert_int_equal(x->origins, 2);
	ht_arena_release(&a);
}

static void attributes(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *n = add(g, "OneHot", "n", 1);
	int64_t dims[2] = { 3, -4 }, *read;
	size_t count;

	assert_int_equal(ht_attr_int(n, "axis", -1), -1);
	assert_int_equal(ht_type_attr(n, "TI"), HT_I64); /* the definition's default */
	assert_int_equal(ht_type_attr(n, "T"), HT_INVALID);
	ht_attr_set_int(n, "axis", 7);
	ht_attr_set_type(n, "TI", HT_I32);
	ht_attr_set_bool(n, "b", true);
	ht_attr_set_float(n, "f", 0.5f);
	ht_attr_set_str(n, "s", HT_STR("text"));
	ht_attr_set_ints(n, "l", dims, 2);
	assert_int_equal(ht_attr_int(n, "axis", -1), 7);
	assert_int_equal(ht_type_attr(n, "TI"), HT_I32);
	assert_true(ht_attr_bool(n, "b", false));
	assert_true(ht_attr_float(n, "f", 0) == 0.5f);
	assert_str(ht_attr_str(n, "s", ""), "text");
	assert_int_equal(ht_attr_int(n, "s", 3), 3); /* of another kind */
	read = ht_attr_ints(n, "l", &count, &a);
	assert_int_equal(count, 2);
	assert_int_equal(read[1], -4);
	assert_null(ht_attr_ints(n, "none", &count, &a));
	assert_int_equal(count, 0);
	ht_attr_set_int(n, "axis", 8);
	assert_str(n->attrs->name, "axis"); /* replaced in place */
	assert_int_equal(n->attrs->value.i, 8);
	ht_attr_remove(n, "axis");
	assert_null(ht_attr_find(n, "axis"));
	ht_arena_release(&a);
}

static void constants(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	int64_t dim = 2, *ints;
	size_t count;
	struct ht_blob *b = ht_blob_new(8);
	struct ht_node *n;

	((int32_t *)(uintptr_t)b->p)[1] = -5;
	ht_blob_ref(b);
	n = ht_const_new(g, HT_STR("c"), HT_I32, (struct ht_shape){ 1, &dim }, b);
	dim = 99; /* the shape was copied */
	assert_int_equal(n->out[0].shape.dim[0], 2);
	assert_int_equal(ht_verify(g, NULL), HT_OK);
	assert_true(ht_const_ints(ht_out(n, 0), &a, &ints, &count));
	assert_int_equal(count, 2);
	assert_int_equal(ints[1], -5);
	assert_int_equal(b->refs, 2);
	ht_arena_release(&a);
	assert_int_equal(b->refs, 1);
	ht_blob_unref(b);
}

static void signatures(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a);
	struct ht_node *n = add(g, "ConcatV2", "n", 1), *u = add(g, "Unpack", "u", 0);
	struct ht_node *call = add(g, "PartitionedCall", "call", 0),
		       *top = add(g, "TopKV2", "t", 2);
	const struct ht_op_info *info = ht_op_info(HT_OP_ConcatV2);
	int32_t index;

	assert_int_equal(info->args, 2);
	assert_int_equal(info->results, 1);
	assert_str(info->arg[0].number_attr, "N");
	assert_int_equal(info->type_attr[1].fallback, HT_I32);
	assert_true(info->type_attr[1].allowed >> HT_I64 & 1);
	assert_false(info->type_attr[1].allowed >> HT_F32 & 1);
	assert_int_equal(ht_op_named(HT_STR("ConcatV3")), HT_OP_OPAQUE);
	feed(n, u, u);
	assert_int_equal(ht_node_arg_count(n), 2); /* N is missing: the remaining operands */
	ht_attr_set_int(n, "N", 3);
	assert_int_equal(ht_node_arg_count(n), 4);
	assert_int_equal(ht_formal_dtype(n, &info->arg[1], 0), HT_I32);
	assert_int_equal(ht_node_result_count(u), -1);
	ht_attr_set_int(u, "num", 5);
	assert_int_equal(ht_node_result_count(u), 5);
	ht_attr_set_int(u, "num", INT64_MAX);
	assert_int_equal(ht_node_result_count(u), -1);
	assert_int_equal(ht_node_result_count(call), -1);
	assert_int_equal(ht_node_result_named(top, HT_STR("indices"), 0), 1);
	assert_int_equal(ht_node_result_named(top, HT_STR("indices"), 1), -1);
	assert_str(ht_node_result_name(top, 1, &index), "indices");
	assert_int_equal(index, 0);
	ht_arena_release(&a);
}

/* Lowerings and the traits of rows agree. */
static void traits_fit_lowerings(void **state)
{
	static const struct {
		const char *lowering;
		uint64_t traits;
	} want[] = { { "unary", HT_ELEMENTWISE }, { "binary", HT_ELEMENTWISE },
		{ "cast", HT_ELEMENTWISE }, { "prelu", HT_ELEMENTWISE }, { "clip", HT_ELEMENTWISE },
		{ "identity", HT_FORWARDS | HT_AXES(ALONG) }, { "reshape", HT_RESHAPES },
		{ "transpose", HT_MOVES }, { "slice", HT_MOVES }, { "concat", HT_MOVES },
		{ "gather", HT_GATHERS }, { "gather_nd", HT_GATHERS }, { "reduce", HT_REDUCES },
		{ "arg_reduce", HT_FINDS }, { "pool", HT_POOLS }, { "softmax", HT_ROWS },
		{ "layer_norm", HT_ROWS }, { "matmul", HT_MATRIX_PRODUCT }, { "einsum", HT_EINSUM },
		{ "conv2d", HT_CONV }, { "depthwise", HT_DEPTHWISE },
		{ "conv2d_transpose", HT_CONV_TRANSPOSE } };

	(void)state;
	for (size_t i = 0; i < HT_COUNT(want); i++) {
		int rows = 0;
		for (int op = HT_OP_OPAQUE + 1; op < HT_OP_END; op++) {
			if (strcmp(ht_op_info((enum ht_op)op)->lower_name, want[i].lowering))
				continue;
			rows++;
			if (!(ht_op_traits[op] & want[i].traits))
				fail_msg("%s is lowered as %s", ht_op_info((enum ht_op)op)->name.p,
					want[i].lowering);
		}
		assert_true(rows > 0);
	}
	assert_int_equal(ht_op_traits[HT_OP_OPAQUE], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_and_names),
		cmocka_unit_test(uses_and_replacement),
		cmocka_unit_test(results_of_functions_are_uses),
		cmocka_unit_test(functions_are_shared_until_they_are_owned),
		cmocka_unit_test(sorting),
		cmocka_unit_test(deep_graphs_sort),
		cmocka_unit_test(cycles),
		cmocka_unit_test(origins),
		cmocka_unit_test(attributes),
		cmocka_unit_test(constants),
		cmocka_unit_test(signatures),
		cmocka_unit_test(traits_fit_lowerings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
