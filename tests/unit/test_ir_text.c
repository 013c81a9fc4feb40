/* The .hir form: a printed graph is read back as the same graph, and wrong text is refused at its
 * place. */
#include "tests/unit/unit.h"

#include "ir/ir.h"

#include <stdlib.h>

static struct ht_str print(struct ht_arena *a, const struct ht_graph *g)
{
	struct ht_text_options opt = { .weights_inline = true };
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_text_print(g, &opt, &b, NULL);
	return ht_buf_str(&b);
}

static struct ht_graph *parse(struct ht_arena *a, struct ht_str text)
{
	struct ht_diags d;
	struct ht_graph *g = NULL;
	struct ht_buf b;

	ht_diags_init(&d);
	ht_buf_init(&b, a);
	if (ht_text_parse(a, text, "t.hir", NULL, &d, &g) != HT_OK) {
		ht_diag_print(d.first, &b);
		fail_msg("%s", ht_buf_str(&b).p);
	}
	ht_diags_release(&d);
	return g;
}

/* `text` in canonical form is printed as itself. */
static void check_canonical(const char *text)
{
	UNIT_ARENA(a);
	struct ht_str once = print(&a, parse(&a, ht_str(text)));

	assert_string_equal(once.p, text);
	ht_arena_release(&a);
}

static void all_kinds_of_attributes(void **state)
{
	(void)state;
	check_canonical(
		"hir 1\n"
		"\n"
		"%n = NoOp() {none=none, s=\"a\\\"\\\\\\n\\x00ü\", bytes=\"\\xff\\xc3\", i=-9223372036854775808, "
		"f=1.0, g=-0.0, h=3.4028235e+38, tiny=1e-45, inf=inf, minf=-inf, nan=nan, nan2=0xffc00001, "
		"b=true, c=false, t=f32, ref=f32&, new=dtype57, bad=invalid, shape=shape[1,?], u=shape[*], "
		"sc=shape[] extra \"x\", names=shape[2,3] names {\"a\", \"\"}, ph=$T, \"odd name\"=1, "
		"fn=@f{T=i32, g=@\"odd f\"{} extra \"y\"}, l=[1, 2], e=[], lt=[f32, b1], ls=[\"\", \"b\"], "
		"lsh=[shape[], shape[1]], lf=[0.1], lb=[false]}\n");
}

static void all_kinds_of_tensors(void **state)
{
	(void)state;
	check_canonical(
		"hir 1\n"
		"\n"
		"%n = NoOp() {a=tensor f32[2] {1.5, -0.0}, b=tensor f32[100] values 1 {0.1 ...}, "
		"c=tensor i64[2,2] shard {1, 2, 9223372036854775807, -1}, d=tensor u64[] {18446744073709551615}, "
		"e=tensor b1[3] {true, false, 0x02}, f=tensor f16[3] {65504.0, nan, 0xfe01}, "
		"g=tensor bf16[2] {9.1835e-41, -inf}, h=tensor c64[1] {(1.0, -2.5)}, i=tensor i8[2] {-128, 127}, "
		"j=tensor str[2] values 2 strings {\"x\", \"\\x00\"}, k=tensor f32[0] {}, l=tensor f32[0], "
		"m=tensor variant[] count 3 version 7 extra \"z\", n=tensor f8e5m2[1] {0x3c}, "
		"o=tensor f64[1] {1e-320}, p=tensor f32[2] bytes \"abc\", q=tensor qi32[1] {5}, "
		"r=tensor f32[*] {1.0, 1.0, 1.0}, s=tensor str[0] strings {}}\n");
}

static void graphs_and_functions(void **state)
{
	(void)state;
	check_canonical(
		"hir 1\n"
		"source savedmodel\n"
		"versions \"\\x08\\x1a\"\n"
		"extra \"e\"\n"
		"container \"c\"\n"
		"checkpoint \"dir/variables\"\n"
		"dim d0 = name \"batch\"\n"
		"dim d1 = 3 * d0\n"
		"dim d2 = 2 * ((d0 + 1) / 2)\n"
		"\n"
		"entry \"serving\" method \"predict\" {\n"
		"  input \"x\" = %x\n"
		"  output \"y\" = %split:1\n"
		"}\n"
		"\n"
		"entry \"\" {\n"
		"}\n"
		"\n"
		"%later = Relu(%x, ^\"odd name\") {T=f32} device \"/cpu:0\" extra \"q\" : f32[d0,d1]\n"
		"%x = Placeholder() {dtype=f32} from {\"a\", \"b\"} : f32[d0,?]\n"
		"%0 = Const() {dtype=i32, value=tensor i32[] {0}} : i32[]\n"
		"%split = Split(%0, %x) {num_split=2, T=f32} : f32[*], ?[1]\n"
		"%\"odd name\" = \"Custom>Op\"(%split:1) : ?[*], ?[*]\n"
		"%user = Relu(%x) {T=f32, f=@f{}} : none\n"
		"%untouched = NoOp() from {}\n"
		"\n"
		"function \"f\" {\n"
		"  signature \"\\x0b\"\n"
		"  attrs {T=f32}\n"
		"  extra \"z\"\n"
		"  arg \"x\" = %x\n"
		"  ret \"y\" = %o:port:1\n"
		"  ret \"n\" = none\n"
		"  control_ret \"c\" = ^o\n"
		"  dim d0 = name \"inner\"\n"
		"  %x = _Arg() {index=0, T=f32} : f32[d0]\n"
		"  %o = Opaque(%x) : f32[*]\n"
		"}\n");
}

/* People may write less than the printer does. */
static void what_people_write(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g =
		parse(&a, HT_STR("# a comment\nhir 1 %a = Placeholder(){dtype = f32}\n"
				 "%b = Split ( %a:0 , %a ) { num_split=3 } # more\n%c = Odd(%b:2)\n"
				 "%d = Even(%c:1) : f32, ?"));

	assert_int_equal(g->nodes, 4);
	assert_int_equal(ht_graph_node(g, HT_STR("b"))->outs, 3);
	assert_int_equal(ht_graph_node(g, HT_STR("c"))->outs, 2);
	assert_int_equal(ht_graph_node(g, HT_STR("d"))->outs, 2);
	assert_int_equal(ht_graph_node(g, HT_STR("d"))->out[0].dtype, HT_F32);
	assert_int_equal(ht_graph_node(g, HT_STR("d"))->in[0].index, 1);
	assert_ptr_equal(ht_graph_node(g, HT_STR("c"))->in[0].node, ht_graph_node(g, HT_STR("b")));
	ht_arena_release(&a);
}

static void large_constants_go_to_the_weights_file(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_graph *g = ht_graph_new(&a), *back = NULL;
	struct ht_text_options opt = { 0 };
	int64_t dim = 100;
	struct ht_buf text, weights;
	struct ht_diags d;
	struct ht_file file = { .path = "t.hir.weights", .refs = 1 };
	const struct ht_tensor *t;

	for (int i = 0; i < 3; i++) {
		struct ht_blob *b = ht_blob_new(400);

		for (int j = 0; j < 100; j++)
			((float *)(uintptr_t)b->p)[j] = (float)(j + i / 2);
		ht_const_new(g, ht_str_printf(&a, "c%d", i), HT_F32, ht_shape_make(&a, 1, &dim), b);
	}
	ht_buf_init(&text, &a);
	ht_buf_init(&weights, &a);
	ht_text_print(g, &opt, &text, &weights);
	/* The first two are equal, and stored once. */
	assert_int_equal(weights.n, 64 + 2 * (64 + 448) - 48);
	file.p = (const uint8_t *)weights.p;
	file.n = weights.n;
	ht_diags_init(&d);
	assert_int_equal(ht_text_parse(&a, ht_buf_str(&text), "t.hir", &file, &d, &back), HT_OK);
	t = ht_const_tensor(ht_out(ht_graph_node(back, HT_STR("c2")), 0));
	assert_non_null(t);
	assert_int_equal(t->blob->n, 400);
	assert_true(((const float *)t->blob->p)[99] == 100.0f);
	assert_int_equal(
		ht_text_parse(&a, ht_buf_str(&text), "t.hir", NULL, &d, &back), HT_E_INPUT);
	weights.p[200] ^= 1;
	assert_int_equal(
		ht_text_parse(&a, ht_buf_str(&text), "t.hir", &file, &d, &back), HT_E_INPUT);
	file.n = 100;
	assert_int_equal(
		ht_text_parse(&a, ht_buf_str(&text), "t.hir", &file, &d, &back), HT_E_INPUT);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void check_refused(const char *text, enum ht_status want, long line, long column)
{
	UNIT_ARENA(a);
	struct ht_graph *g;
	struct ht_diags d;
	/* Without a final zero, so that a sanitizer sees a read beyond the end. */
	size_t n = strlen(text);
	char *copy = malloc(n ? n : 1);

	memcpy(copy, text, n);
	ht_diags_init(&d);
	assert_int_equal(
		ht_text_parse(&a, (struct ht_str){ copy, n }, "t.hir", NULL, &d, &g), want);
	assert_null(g);
	assert_int_equal(d.errors, 1);
	if (d.first->where.line != line || d.first->where.column != column)
		fail_msg("%s: %.*s at %ld:%ld", text, HT_STR_ARG(d.first->text),
			d.first->where.line, d.first->where.column);
	ht_diags_release(&d);
	ht_arena_release(&a);
	free(copy);
}

static void bad_text_is_refused_where_it_is_wrong(void **state)
{
	(void)state;
	check_refused("", HT_E_INPUT, 1, 1);
	check_refused("hir 2", HT_E_INPUT, 1, 1);
	check_refused("hir 1\n%a", HT_E_INPUT, 2, 3);
	check_refused("hir 1\n%a = NoOp(", HT_E_INPUT, 2, 11);
	check_refused("hir 1\n%a = NoOp(%b)", HT_E_INPUT, 2, 11);
	check_refused("hir 1\n%a = NoOp()\n%a = NoOp()", HT_E_INPUT, 3, 1);
	check_refused("hir 1\n%a = NoOp() {x=\"abc", HT_E_INPUT, 2, 16);
	check_refused("hir 1\n%a = NoOp() {x=99999999999999999999}", HT_E_INPUT, 2, 16);
	check_refused("hir 1\n%a = NoOp() {x=1e}", HT_E_INPUT, 2, 16);
	check_refused("hir 1\n%a = NoOp() {x=f33}", HT_E_INPUT, 2, 16);
	check_refused("hir 1\n%a = NoOp() {x=[1, 1.0]}", HT_E_INPUT, 2, 20);
	check_refused("hir 1\n%a = NoOp() {x=tensor i8[1] {128}}", HT_E_INPUT, 2, 30);
	check_refused(
		"hir 1\n%a = NoOp() {x=tensor f32[9000000000000] {1.0 ...}}", HT_E_LIMIT, 2, 42);
	check_refused("hir 1\n%a = NoOp() {x=tensor f32[2] weights 00}", HT_E_INPUT, 2, 38);
	check_refused("hir 1\n%a = Odd() : f32[-1]", HT_E_INPUT, 2, 18);
	check_refused("hir 1\n%a = Odd() : f32[d0]", HT_E_INPUT, 2, 18);
	check_refused("hir 1\ndim d0 = 3 * d0", HT_E_INPUT, 2, 14);
	check_refused("hir 1\ndim d0 = 3 * 4", HT_E_INPUT, 2, 10);
	check_refused("hir 1\ndim d0 = name \"n\"\ndim d1 = d0 / d0", HT_E_INPUT, 3, 15);
	check_refused("hir 1\ndim d0 = sum 2 3", HT_E_INPUT, 2, 10);
	check_refused("hir 1\ndim d0 = name \"n\" bound 64", HT_E_INPUT, 2, 19);
	check_refused("hir 1\nentry \"\" {\n  input \"x\" = %y\n}", HT_E_INPUT, 3, 15);
	check_refused("hir 1\nfunction \"f\" {", HT_E_INPUT, 2, 15);
	check_refused("hir 1\n%a = Odd(%a:99999)", HT_E_LIMIT, 2, 10);
	check_refused("hir 1\n%a = Odd(%a:2147483648)", HT_E_INPUT, 2, 23);
}

static void nesting_has_a_limit(void **state)
{
	(void)state;
	UNIT_ARENA(a);
	struct ht_buf b;
	struct ht_graph *g;
	struct ht_diags d;

	ht_buf_init(&b, &a);
	ht_puts(&b, "hir 1 %a = NoOp() {x=");
	for (int i = 0; i < 100000; i++)
		ht_puts(&b, "@f{x=");
	ht_diags_init(&d);
	assert_int_equal(ht_text_parse(&a, ht_buf_str(&b), "t.hir", NULL, &d, &g), HT_E_LIMIT);
	ht_diags_release(&d);
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds_of_attributes),
		cmocka_unit_test(all_kinds_of_tensors),
		cmocka_unit_test(graphs_and_functions),
		cmocka_unit_test(what_people_write),
		cmocka_unit_test(large_constants_go_to_the_weights_file),
		cmocka_unit_test(bad_text_is_refused_where_it_is_wrong),
		cmocka_unit_test(nesting_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
