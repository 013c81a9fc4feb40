/* The verifier: each text is a graph with one error, and a part of the expected message. */
#include "tests/unit/unit.h"

#include "ir/ir.h"

#define X "%x = Placeholder() {dtype=f32} : f32[2] "

static const struct bad {
	const char *text, *node, *says;
} bad[] = {
	{ "%y = Relu(%x) {T=f32} " X, "y", "stands before its operand 'x'" },
	{ "%y = NoOp(^x) " X, "y", "stands before its control input 'x'" },
	{ X "%y = Relu(%x, %x) {T=f32}", "y", "has 2 operands, its type takes 1" },
	{ X "%y = Relu(%x:1) {T=f32}", "y", "is result 1 of 'x' (Placeholder), which has 1" },
	{ X "%y = Relu(%x) {T=f16}", "y", "is float32, must be float16" },
	{ X "%y = Relu(%x) {T=str}", "y", "attribute 'T' must not be string" },
	{ X "%y = Relu(%x) {T=1}", "y", "attribute 'T' is no type" },
	{ X "%y = Relu(%x) {T=f32, T=f32}", "y", "has attribute 'T' twice" },
	{ X "%y = AddN(%x) {T=f32, N=\"two\"}", "y", "lacks an attribute" },
	{ X "%y = Unpack(%x) {T=f32}", "y", "lacks an attribute" },
	{ X "%y = IdentityN(%x, %x) {T=[f32]}", "y", "has 2 operands, its type takes 1" },
	{ X "%y = IdentityN(%x, %x) {T=[f32, i32]}", "y", "operand 1 ('input', from 'x')" },
	{ "%y = Const() {dtype=f32}", "y", "has no tensor" },
	{ "%y = Const() {dtype=i32, value=tensor f32[] {1.0}}", "y",
		"'dtype' is not the tensor's" },
	{ "%y = Const() {dtype=f32, value=tensor f32[3] {1.0}}", "y", "has 4 bytes" },
	{ "%\"\" = NoOp()", "", "has no name" },
	{ "%y = \"\"()", "y", "has no op type" },
};

static void each_breach_is_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < HT_COUNT(bad); i++) {
		UNIT_ARENA(a);
		struct ht_graph *g;
		struct ht_diags d;
		bool said = false;

		ht_diags_init(&d);
		assert_int_equal(ht_text_parse(&a, ht_str_printf(&a, "hir 1 %s", bad[i].text), "t",
					 NULL, &d, &g),
			HT_OK);
		if (ht_verify(g, &d) != HT_E_INPUT)
			fail_msg("%s: not refused", bad[i].text);
		for (const struct ht_diag *diag = d.first; diag; diag = diag->next)
			said = said || (strstr(diag->text.p, bad[i].says) &&
					       ht_str_is(diag->where.node, bad[i].node));
		if (!said)
			fail_msg("%s: %.*s", bad[i].text, HT_STR_ARG(d.first->text));
		ht_diags_release(&d);
		ht_arena_release(&a);
	}
}

static void odd_but_valid(void **state)
{
	static const char text[] =
		"hir 1 " X "%u = Unheard(%x, ^x) {T=1} %v = Relu(%u:5) {T=f32} "
		"%new = Placeholder() {dtype=dtype99} %id = Identity(%new) {T=dtype99} "
		"%ref = VariableV2() {dtype=f32} %sw = RefSwitch(%ref, %b) {T=f32} "
		"%b = Placeholder() {dtype=b1} "
		"function \"f\" { %y = Split(%k, %z) {T=$T, num_split=$n} "
		"%k = _Arg() {T=i32} %z = _Arg() {T=$T} }";
	UNIT_ARENA(a);
	struct ht_graph *g;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	assert_int_equal(ht_text_parse(&a, ht_str(text), "t", NULL, &d, &g), HT_OK);
	assert_int_equal(ht_graph_sort(g, &d), HT_OK);
	if (ht_verify(g, &d) != HT_OK)
		fail_msg("%.*s", HT_STR_ARG(d.first->text));
	ht_diags_release(&d);
	ht_arena_release(&a);
}

static void all_breaches_are_said(void **state)
{
	UNIT_ARENA(a);
	struct ht_graph *g;
	struct ht_diags d;

	(void)state;
	ht_diags_init(&d);
	ht_text_parse(&a, HT_STR("hir 1 %a = Relu() %b = Relu() function \"f\" { %c = Relu() }"),
		"t", NULL, &d, &g);
	assert_int_equal(ht_verify(g, &d), HT_E_INPUT);
	assert_int_equal(d.errors, 3);
	assert_non_null(strstr(d.last->text.p, "in function 'f'"));
	ht_diags_release(&d);
	ht_arena_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_breach_is_named),
		cmocka_unit_test(odd_but_valid),
		cmocka_unit_test(all_breaches_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
