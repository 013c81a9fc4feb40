/* The files that policy options name: their contents, and each wrong one is refused with its
 * line. */
#include "tests/unit/unit.h"

#include "precision/policy.h"

#include <stdlib.h>
#include <unistd.h>

struct bad {
	const char *text;
	size_t n;
	long line; /* 0: no line */
	const char *message;
};
#define BAD(text, line, message) { text, sizeof(text) - 1, line, message }
#include "tests/unit/policy_files.def"

typedef enum ht_status parser(struct ht_parse *p, struct ht_str text, struct ht_rules *out);

struct reading {
	struct ht_arena arena;
	struct ht_diags diags;
	struct ht_parse parse;
	struct ht_rules rules;
};

static void start(struct reading *r)
{
	memset(r, 0, sizeof *r);
	ht_arena_init(&r->arena, NULL);
	ht_diags_init(&r->diags);
	r->parse = (struct ht_parse){ .arena = &r->arena, .diags = &r->diags, .path = "x.cfg" };
	ht_rules_init(&r->rules, "option", "x.cfg", &r->arena);
}

static void end(struct reading *r)
{
	ht_diags_release(&r->diags);
	ht_arena_release(&r->arena);
}

static enum ht_status ops_info(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	struct ht_ops_info info;

	(void)out;
	ht_map_init(&info.types, p->arena);
	return ht_ops_info_parse(p, text, &info);
}

static void refuses(parser *parse, const struct bad *bad, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct reading r;
		start(&r);
		enum ht_status st =
			parse(&r.parse, (struct ht_str){ bad[i].text, bad[i].n }, &r.rules);
		if (st != HT_E_INPUT || r.diags.errors != 1 ||
			r.diags.first->where.line != bad[i].line ||
			!strstr(r.diags.first->text.p, bad[i].message))
			fail_msg("case %zu (%s): status %d, line %ld: %s", i, bad[i].text, st,
				r.diags.first ? r.diags.first->where.line : -1,
				r.diags.first ? r.diags.first->text.p : "nothing said");
		assert_string_equal(r.diags.first->where.path, "x.cfg");
		end(&r);
	}
}

static void wrong_files_are_refused_with_their_line(void **state)
{
	(void)state;
	refuses(ht_mixlist_parse, mixlist_bad, HT_COUNT(mixlist_bad));
	refuses(ht_customize_parse, customize_bad, HT_COUNT(customize_bad));
	refuses(ht_keep_dtype_parse, keep_dtype_bad, HT_COUNT(keep_dtype_bad));
	refuses(ht_impl_parse, impl_bad, HT_COUNT(impl_bad));
	refuses(ht_fusion_switch_parse, fusion_switch_bad, HT_COUNT(fusion_switch_bad));
	refuses(ops_info, ops_info_bad, HT_COUNT(ops_info_bad));
}

static void reads(struct reading *r, parser *parse, const char *text)
{
	start(r);
	if (parse(&r->parse, ht_str(text), &r->rules) != HT_OK)
		fail_msg("%s: %s", text, r->diags.first->text.p);
}

static void mixlists(void **state)
{
	struct reading r;

	(void)state;
	reads(&r, ht_mixlist_parse, "{}");
	assert_int_equal(r.rules.n, 0);
	end(&r);
	reads(&r, ht_mixlist_parse,
		"// as the manual has it\n{\n\n  // black\n  \"black-list\": {\"to-add\": [\"Add\", "
		"\"Add\"],\n\"to-remove\":[]},\n\"white-list\":{\"to-remove\":[\"Conv\\u0032D\",\n"
		"\"Add\"]},\"gray-list\":{\"to-add\":[\"Conv2D\"]}}\n");
	assert_int_equal(r.rules.n, 2);
	assert_str(r.rules.rule[0].name, "Add");
	assert_int_equal(r.rules.rule[0].mix, HT_MIX_ADD_BLACK | HT_MIX_REMOVE_WHITE);
	assert_int_equal(r.rules.rule[0].line, 5);
	assert_string_equal(r.rules.rule[0].where, "x.cfg:5");
	assert_str(r.rules.rule[1].name, "Conv2D");
	assert_int_equal(r.rules.rule[1].mix, HT_MIX_ADD_GRAY | HT_MIX_REMOVE_WHITE);
	assert_int_equal(r.rules.rule[1].line, 7);
	end(&r);
}

static void customized_dtypes(void **state)
{
	struct reading r;

	(void)state;
	reads(&r, ht_customize_parse,
		"# by name\n\na/b::InputDtype:float16, ,BFloat16OutputDtype:FLOAT\r\n"
		"OpType::Add:OutputDtype:int8\nc:InputDtype:float32,OutputDtype:bool\n"
		"a/b:InputDtype:double");
	assert_int_equal(r.rules.n, 3);
	assert_str(r.rules.rule[0].name, "a/b");
	assert_false(r.rules.rule[0].is_type);
	assert_int_equal(r.rules.rule[0].ins, 3);
	assert_int_equal(r.rules.rule[0].in[0], HT_F16);
	assert_int_equal(r.rules.rule[0].in[1], HT_INVALID);
	assert_int_equal(r.rules.rule[0].in[2], HT_BF16);
	assert_int_equal(r.rules.rule[0].outs, 1);
	assert_int_equal(r.rules.rule[0].out[0], HT_F32);
	assert_true(r.rules.rule[1].is_type);
	assert_int_equal(r.rules.rule[1].ins, 0);
	assert_int_equal(r.rules.rule[1].out[0], HT_I8);
	assert_int_equal(r.rules.rule[2].ins, 2); /* the comma before OutputDtype */
	assert_int_equal(r.rules.rule[2].in[1], HT_INVALID);
	assert_int_equal(r.diags.warnings, 1); /* a/b again: the first counts */
	assert_non_null(strstr(r.diags.first->text.p, "line 3 already"));
	end(&r);
}

static void kept_dtypes(void **state)
{
	struct reading r;

	(void)state;
	reads(&r, ht_keep_dtype_parse,
		"\n # c\n  a/b:0 \nOpType::MatMulV2\nOpType:: _Fused\na/b:0");
	assert_int_equal(r.rules.n, 3);
	assert_str(r.rules.rule[0].name, "a/b:0");
	assert_str(r.rules.rule[1].name, "MatMulV2");
	assert_true(r.rules.rule[1].is_type);
	assert_str(r.rules.rule[2].name, "_Fused");
	assert_int_equal(r.diags.warnings, 1);
	end(&r);
}

/* A policy with a switch file, an optimization_switch and a level. */
struct switching {
	struct reading r;
	struct ht_policy p;
};

static void switch_on(struct switching *s, const char *file, const char *switches, int level)
{
	struct ht_rules rules;

	reads(&s->r, ht_fusion_switch_parse, file);
	assert_int_equal(ht_policy_init(&s->p, NULL, &s->r.diags), HT_OK);
	s->p.fusions = s->r.rules;
	ht_rules_init(&rules, "optimization_switch", NULL, &s->r.arena);
	assert_int_equal(
		ht_optimization_switch_parse(&s->r.parse, ht_str(switches), &rules), HT_OK);
	s->p.switches = rules;
	s->p.oo_level = level;
}

static void switch_end(struct switching *s)
{
	ht_policy_release(&s->p);
	end(&s->r);
}

/* off: the reason why the fusion is off; NULL: it is on. */
static void decides(
	const char *file, const char *switches, int level, const char *fusion, const char *off)
{
	struct switching s;
	const char *why;

	switch_on(&s, file, switches, level);
	assert_int_not_equal(ht_fusion_named(ht_str(fusion)), HT_FUSION_END);
	why = ht_fusion_off(&s.p, ht_fusion_named(ht_str(fusion)), &s.r.arena);
	if (!off != !why || (off && strcmp(off, why) != 0))
		fail_msg("%s; %s; O%d: %s is off by '%s', not by '%s'", file, switches, level,
			fusion, why ? why : "", off ? off : "");
	switch_end(&s);
}

static void by_file(const char *file, const char *fusion, const char *off)
{
	decides(file, "", 3, fusion, off);
}

static void fusions_by_file(void **state)
{
	(void)state;
	by_file("GeluFusionPass:off", "gelu_tanh", "x.cfg:1: 'GeluFusionPass' is off");
	by_file("GeluFusionPass:off", "gelu_erf", NULL);
	by_file("// c\n\n# c\nALL : off \r\n", "gelu_erf", "x.cfg:4: 'ALL' is off");
	by_file("ALL:off", "constant_folding", NULL); /* not a fusion */
	by_file("ALL:off", "cse", NULL);
	/* No switch file controls clean-ups, by any name. */
	by_file("cse:off", "cse", NULL);
	by_file("IdentityPass:off\nidentity:off", "identity", NULL);
	by_file("simplify:off", "reshapes", NULL); /* the pass */
	by_file("ALL:off", "scope_layer_norm", "x.cfg:1: 'ALL' is off");
	by_file("{\"Switch\":{\"GraphFusion\":{\"ALL\":\"off\"}}}", "scope_layer_norm",
		"x.cfg:1: 'ALL' is off");
	by_file("{\"Switch\":{\"UBFusion\":{\"ALL\":\"off\"}}}", "scope_layer_norm", NULL);
	by_file("ALL:off\nScopeLayerNormPass:on", "scope_layer_norm", NULL);
	by_file("ScopeLayerNormPass:off", "scope_layer_norm", NULL);
	by_file("scope_layer_norm:off", "scope_layer_norm", "x.cfg:1: 'scope_layer_norm' is off");
	by_file("ALL:off\nGeluONNXFusionPass:on", "gelu_erf", NULL);
	by_file("ALL:off\nGeluONNXFusionPass:on", "gelu_tanh", "x.cfg:1: 'ALL' is off");
	by_file("GeluFusionPass:on\ngelu_tanh:off", "gelu_tanh", "x.cfg:2: 'gelu_tanh' is off");
	by_file("ALL:on\ngelu:off", "gelu_tanh", "x.cfg:2: 'gelu' is off"); /* the pass */
	by_file("gelu:off\ngelu_erf:on", "gelu_erf", NULL);
	by_file("ALL:off\nswish:on", "swish", NULL);
	/* Fusions that the vendor does not allow to be switched off are switched off by Halftone's
	 * own name, or by ALL. */
	by_file("ALL:off", "bias_conv", "x.cfg:1: 'ALL' is off");
	by_file("AABiasaddConvFusion:off", "bias_conv", NULL);
	by_file("AABiasaddConvFusion:off\nALL:off", "bias_conv", "x.cfg:2: 'ALL' is off");
	by_file("AABiasaddConvFusion:on\nALL:off", "bias_conv", NULL);
	by_file("{\"Switch\":{\"GraphFusion\":{\"ALL\":\"off\"}}}", "bias_conv", NULL);
	by_file("bias_conv:off", "bias_conv", "x.cfg:1: 'bias_conv' is off");
	by_file("{\"Switch\":\n// c\n{\"GraphFusion\":{\"ConvBatchnormFusionPass\":\" off\"}}}",
		"conv_batch_norm", "x.cfg:3: 'ConvBatchnormFusionPass' is off");
	by_file("//{\n{\"Switch\":{\"UBFusion\":{\"ALL\":\"off\"}}}", "pad_conv", NULL);
	by_file("//{\n{\"Switch\":{\"UBFusion\":{\"ALL\":\"off\"}}}", "elementwise",
		"x.cfg:2: 'ALL' is off");
	by_file("{\"Switch\":{\"UBFusion\":{\"ALL\":\"off\"},\"GraphFusion\":{\"ALL\":\"on\"}}}",
		"pad_conv", NULL);
	by_file("{}", "gelu_erf", NULL);
}

static void fusions_by_switch_and_level(void **state)
{
	const char *exceptions = "{\"ExceptionalPassOfO1Level\": [\"GeluFusionPass\"]}";

	(void)state;
	decides("GeluFusionPass:off", "GeluFusionPass:on", 3, "gelu_tanh", NULL);
	decides("{}", " gelu_tanh : off ; ", 3, "gelu_tanh",
		"optimization_switch: 'gelu_tanh' is off");
	decides("{}", "", 2, "gelu_tanh", NULL);
	decides("{}", "", 1, "gelu_tanh", "oo_level is O1");
	decides("gelu_tanh:on", "", 1, "gelu_tanh", "oo_level is O1");
	decides("{}", "GeluFusionPass:on", 0, "gelu_tanh", NULL);
	decides(exceptions, "", 1, "gelu_tanh", NULL);
	decides(exceptions, "GeluFusionPass:off", 1, "gelu_tanh",
		"optimization_switch: 'GeluFusionPass' is off");
	decides("{}", "", 1, "elementwise", "oo_level is O1");
	decides("{}", "", 1, "bias_conv", NULL);
	decides("{}", "forbidden_close_pass:off", 3, "bias_conv",
		"optimization_switch: 'forbidden_close_pass' is off");
	decides("{}", "forbidden_close_pass:off;AABiasaddConvFusion:on", 3, "bias_conv", NULL);
	decides("ALL:off", "forbidden_close_pass:on", 3, "bias_conv", NULL);
	decides("ALL:off", "", 1, "bias_conv", "x.cfg:1: 'ALL' is off");
	decides("identity:on", "IdentityPass:off", 3, "identity",
		"optimization_switch: 'IdentityPass' is off");
	decides("{\"ExceptionalPassOfO1Level\": [\"identity\"]}", "", 1, "identity", NULL);
	decides("{}", "", 2, "cse", "oo_level is O2");
	decides("{}", "", 2, "identity", "oo_level is O2");
	decides("{}", "IdentityPass:on", 0, "identity", NULL);
	decides("{}", "", 1, "constant_folding", NULL);
	decides("{}", "", 0, "constant_folding", "oo_level is O0");
	decides("{}", "ConstantFoldingPass:off", 3, "constant_folding",
		"optimization_switch: 'ConstantFoldingPass' is off");
	decides("{}", "", 0, "scope_layer_norm", NULL);
}

static void wrong_switches_are_refused(void **state)
{
	static const char *const bad[][2] = {
		{ "GeluFusionPas:on", "no fusion 'GeluFusionPas'; did you mean 'GeluFusionPass'" },
		{ "GeluFusionPass", "'GeluFusionPass' is not NAME:on or NAME:off" },
		{ "GeluFusionPass:of", "'GeluFusionPass' is 'of'; it has to be on or off" },
		{ "cse:on;cse:off", "'cse' is switched on and off" },
		{ "ALL:off", "there is no fusion 'ALL'" },
		{ ":on", "there is no fusion ''" },
	};

	(void)state;
	for (size_t i = 0; i < HT_COUNT(bad); i++) {
		struct reading r;
		struct ht_rules rules;

		start(&r);
		ht_rules_init(&rules, "optimization_switch", NULL, &r.arena);
		assert_int_equal(ht_optimization_switch_parse(&r.parse, ht_str(bad[i][0]), &rules),
			HT_E_USAGE);
		if (!strstr(r.diags.first->text.p, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], r.diags.first->text.p);
		end(&r);
	}
}

static void notes(const struct switching *s, size_t rule, const char *note)
{
	assert_string_equal(
		ht_fusion_note(&s->p, &s->p.fusions.rule[rule], (struct ht_arena *)&s->r.arena),
		note);
}

static void fusions_are_told_of(void **state)
{
	struct switching s;
	const char *all;

	(void)state;
	switch_on(&s,
		"ALL:off\nEinsumPass:off\nReluFusionPass:off\nGeluFusionPass:on\n"
		"GeluONNXFusionPass:off\nswish:off\nIdentityPass:off\ngelu:on",
		"GeluONNXFusionPass:on", 3);
	all = ht_fusion_note(&s.p, &s.p.fusions.rule[0], &s.r.arena);
	assert_string_equal(all,
		"every fusion; on stay gelu_erf (x.cfg:8), gelu_tanh (x.cfg:8); no file closes the "
		"clean-ups algebra, constant_folding, cse, identity, reshapes, transposes: "
		"optimization_switch and oo_level govern them");
	notes(&s, 1, "no counterpart here");
	notes(&s, 2, "no counterpart here");
	notes(&s, 3, "gelu_tanh");
	notes(&s, 4, "gelu_erf (on by x.cfg:8: 'gelu')");
	notes(&s, 5, "swish");
	notes(&s, 6, "a clean-up: optimization_switch and oo_level govern it");
	switch_end(&s);
	switch_on(&s,
		"RequantFusionPass:on\nV200NotRequantFusionPass:off\nNotRequantFusionPass:off\n"
		"AABiasaddConvFusion:off\nbias_matmul:off\ncse:off\nsimplify:off\n"
		"CommonSubexpressionEliminationPass:off\n",
		"", 3);
	notes(&s, 0, "V100RequantFusionPass, V200RequantFusionPass: no counterpart here");
	notes(&s, 1, "no counterpart here");
	notes(&s, 2, "V100NotRequantFusionPass, V200NotRequantFusionPass: no counterpart here");
	notes(&s, 3, "stays on: it cannot be closed");
	notes(&s, 4, "bias_matmul");
	for (size_t i = 5; i < 8; i++)
		notes(&s, i, "a clean-up: optimization_switch and oo_level govern it");
	switch_end(&s);
}

/* Each name of the vendor that has a counterpart names an existing one. */
static void counterparts_exist(void **state)
{
	static const char *const ours[] = {
#define FUSION(name, closable, ours) ours,
#include "precision/fusions.def"
#undef FUSION
#define CLEAN_UP(name, level, ours) ours,
#include "precision/clean_ups.def"
#undef CLEAN_UP
#define SCOPE(name, general, ours) ours,
#include "precision/scopes.def"
#undef SCOPE
	};
	int with = 0;

	(void)state;
	for (size_t i = 0; i < HT_COUNT(ours); i++) {
		with += ours[i] != NULL;
		if (ours[i] && ht_fusion_named(ht_str(ours[i])) == HT_FUSION_END)
			fail_msg("there is no fusion '%s'", ours[i]);
	}
	assert_true(with >= 30);
}

static void implementation_modes(void **state)
{
	struct reading r;

	(void)state;
	reads(&r, ht_impl_parse,
		"Exp = high_precision\n[ByNodeName]\n# c\nExp=keep_fp16\n \n[ByOpType]\n"
		"Exp=super_performance\nGather=support_out_of_bound_index");
	assert_int_equal(r.rules.n, 3);
	assert_true(r.rules.rule[0].is_type);
	assert_int_equal(r.rules.rule[0].impl, HT_IMPL_HIGH_PRECISION); /* the first counts */
	assert_false(r.rules.rule[1].is_type);
	assert_int_equal(r.rules.rule[1].impl, HT_IMPL_KEEP_FP16);
	assert_int_equal(r.rules.rule[2].impl, HT_IMPL_OUT_OF_BOUND);
	end(&r);
	start(&r);
	r.parse.lenient = true;
	assert_int_equal(
		ht_impl_parse(&r.parse, HT_STR("[Odd]\nAdd=fast\n=\nMul=keep_fp16"), &r.rules),
		HT_OK);
	assert_int_equal(r.rules.n, 1);
	assert_int_equal(r.diags.warnings, 3);
	end(&r);
}

static void records_of_op_types(void **state)
{
	static const uint8_t columns[] = { 2, HT_F16, HT_I32, 1, HT_F16, 2, HT_F32, HT_I32, 1,
		HT_F32 };
	const struct ht_op_record *record;
	struct ht_ops_info info;
	struct reading r;

	(void)state;
	start(&r);
	ht_map_init(&info.types, &r.arena);
	/* Equal kernels count as one; a kernel in a dtype that graphs do not have does not
	 * count. */
	assert_int_equal(
		ht_ops_info_parse(&r.parse,
			HT_STR("{\"Sum\": {\"input0\": {\"name\": \"x\",\n\"dtype\": "
			       "\"float16,float16,float,hifloat8\"}, \"input1\": {\"dtype\": "
			       "\"int32,int32,int32,int32\"}, \"output0\": {\"dtype\": "
			       "\"float16,float16,float,float\"}, \"precision_reduce\": "
			       "{\"flag\": \"false\"}},\n\"Mul\": {\"opFile\": {\"value\": "
			       "\"x\"}, \"precision_reduce\": {\"flag\": \"true\"}}, "
			       "\"Abs\":{}}"),
			&info),
		HT_OK);
	record = ht_map_get(&info.types, HT_STR("Sum"));
	assert_int_equal(record->flag, 0);
	assert_int_equal(record->columns, 2);
	assert_memory_equal(record->column, columns, sizeof columns);
	assert_string_equal(record->where, "x.cfg:1");
	record = ht_map_get(&info.types, HT_STR("Mul"));
	assert_int_equal(record->flag, 1);
	assert_int_equal(record->columns, 0);
	assert_string_equal(record->where, "x.cfg:3");
	record = ht_map_get(&info.types, HT_STR("Abs"));
	assert_int_equal(record->flag, -1);
	end(&r);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	HT_CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

/* If any allocation fails, the result is a status, and the policy is unchanged. */
static void failed_allocations_are_a_status(void **state)
{
	static const struct {
		const char *key, *text;
	} files[] = {
		{ "modify_mixlist", "{\"black-list\": {\"to-add\": [\"Add\", \"Mul\"]}}" },
		{ "customize_dtypes", "a::InputDtype:float16\nOpType::Add:OutputDtype:float32\n" },
		{ "keep_dtype", "a\nOpType::Add\n" },
		{ "op_precision_mode", "Add=high_precision\n" },
		{ "fusion_switch_file", "{\"Switch\": {\"UBFusion\": {\"gelu\": \"off\"}}}" },
	};
	char path[] = "/tmp/policy_files.XXXXXX";

	(void)state;
	close(mkstemp(path));
	for (size_t i = 0; i < HT_COUNT(files); i++) {
		enum ht_status st = HT_E_ENVIRONMENT;
		write_file(path, files[i].text);
		for (long n = 0; st != HT_OK; n++) {
			struct ht_policy p;
			assert_true(n < 1000);
			assert_int_equal(ht_policy_init(&p, NULL, NULL), HT_OK);
			ht_fail_alloc_after(n);
			st = ht_policy_option(&p, files[i].key, path, NULL);
			ht_fail_alloc_after(-1);
			assert_true(st == HT_OK || st == HT_E_ENVIRONMENT);
			for (int set = 0; set < HT_RULE_SETS && st != HT_OK; set++)
				assert_int_equal(p.rules[set].n, 0);
			ht_policy_release(&p);
		}
	}
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_files_are_refused_with_their_line),
		cmocka_unit_test(mixlists),
		cmocka_unit_test(customized_dtypes),
		cmocka_unit_test(kept_dtypes),
		cmocka_unit_test(fusions_by_file),
		cmocka_unit_test(fusions_by_switch_and_level),
		cmocka_unit_test(wrong_switches_are_refused),
		cmocka_unit_test(fusions_are_told_of),
		cmocka_unit_test(counterparts_exist),
		cmocka_unit_test(implementation_modes),
		cmocka_unit_test(records_of_op_types),
		cmocka_unit_test(failed_allocations_are_a_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
