/* The files that policy options name: what they say, and that each wrong one is refused with its
 * line. */
#include "tests/unit/unit.h"

#include "passes/precision/policy.h"

#include <stdlib.h>
#include <unistd.h>

struct bad {
	const char *text;
	size_t n;
	long line; /* 0: of no line */
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
	r->parse = (struct ht_parse){ &r->arena, &r->diags, "x.cfg", false };
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
	assert_int_equal(r.rules.rule[2].ins, 2); /* the comma in front of OutputDtype */
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

static void switches(const char *text, const char *pass, bool on)
{
	struct reading r;

	reads(&r, ht_fusion_switch_parse, text);
	if (ht_fusion_is_on(&r.rules, pass) != on)
		fail_msg("%s: %s is %s", text, pass, on ? "off" : "on");
	end(&r);
}

static void fusions(void **state)
{
	struct reading r;

	(void)state;
	switches("GeluFusionPass:off", "gelu", true);
	switches("GeluFusionPass:off\n GeluONNXFusionPass : off \r\n", "gelu", false);
	switches("// c\n\n# c\nALL:off", "gelu", false);
	switches("ALL:off", "swish", false);
	switches("ALL:off", "fold", true);
	switches("ALL:off\nGeluONNXFusionPass:on", "gelu", true);
	switches("ALL:off\nGeluONNXFusionPass:on", "layer_norm", false);
	switches("ALL:on\nGeluFusionPass:off\nGeluONNXFusionPass:off", "gelu", false);
	switches("GeluFusionPass:on\ngelu:off", "gelu", false);
	switches("ALL:off\ngelu:on", "gelu", true);
	switches("{\"Switch\":\n// c\n{\"GraphFusion\":{\"ConvBatchnormFusionPass\":\" off\"}}}",
		"batch_norm", false);
	switches("//{\n{\"Switch\":{\"UBFusion\":{\"ALL\":\"off\"}}}", "fold_pad", false);
	switches("{}", "gelu", true);
	reads(&r, ht_fusion_switch_parse,
		"ALL:off\nEinsumPass:off\nReluFusionPass:off\nGeluFusionPass:on\n"
		"GeluONNXFusionPass:off\nswish:off");
	assert_string_equal(
		ht_fusion_note(&r.rules, &r.rules.rule[0]), "every fusion that can be closed");
	assert_string_equal(
		ht_fusion_note(&r.rules, &r.rules.rule[1]), "stays on: it cannot be closed");
	assert_string_equal(ht_fusion_note(&r.rules, &r.rules.rule[2]), "no counterpart here");
	assert_string_equal(ht_fusion_note(&r.rules, &r.rules.rule[3]), "gelu");
	assert_string_equal(ht_fusion_note(&r.rules, &r.rules.rule[4]),
		"our pass of it stays on: it has other names that are on");
	assert_string_equal(ht_fusion_note(&r.rules, &r.rules.rule[5]), "swish");
	end(&r);
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
	/* Equal kernels are one; one in a dtype that graphs do not have is none. */
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

/* Wherever memory runs out: a status, and the policy is as it was. */
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
		cmocka_unit_test(fusions),
		cmocka_unit_test(implementation_modes),
		cmocka_unit_test(records_of_op_types),
		cmocka_unit_test(failed_allocations_are_a_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
