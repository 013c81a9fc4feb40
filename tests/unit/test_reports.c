/* Reports as policies: their decisions are applied, and each wrong or foreign one is refused with
 * its line. */
#include "tests/fuzz/report.h"
#include "tests/unit/unit.h"

#include <string.h>

#define UNIT(from, to)                                                                             \
	"\"units\": [{\"attribute\": \"T\", \"from\": \"" from "\", \"to\": \"" to                 \
	"\", \"rule\": \"r\"}]}"
#define FIXED                                                                                      \
	"\"units\": [{\"attribute\": \"dtype\", \"from\": \"float32\", \"to\": \"float32\", \"rule\": \"r\"}]}"

static const char good[] =
	"{\"schema\": \"halftone.decisions/1\", \"later\": [{\"x\": [1, \"y\"]}],\n"
	"\"policy\": \"p\", \"graph_nodes\": 6,\n"
	"\"nodes\": [\n"
	"{\"node\": \"x\", \"op\": \"Placeholder\", " FIXED ",\n"
	"{\"node\": \"w\", \"op\": \"Const\", " FIXED ",\n"
	"{\"node\": \"dense\", \"op\": \"MatMul\", \"kernel_operands\": [\"float16\", \"float16\"], "
	"\"kernel_results\": [\"float32\"], " UNIT("float32",
		"float32") ",\n"
			   "{\"node\": \"relu\", \"op\": \"Relu\", " UNIT("float32",
				   "float16") ",\n"
					      "{\"node\": \"log\", \"op\": \"Log\", " UNIT(
						      "float32",
						      "float32") ",\n"
								 "{\"node\": \"soft\", \"op\": \"Softmax\", " UNIT(
									 "float32",
									 "bfloat16") "]}\n";

static const char painted[] =
	"{\"schema\": \"halftone.decisions/1\", \"policy\": \"p\", \"graph_nodes\": 6,\n"
	"\"painting\": {\"type\": \"float16\", \"emulated\": false, \"suffix\": \"S\"},\n"
	"\"nodes\": [\n"
	"{\"node\": \"x\", \"op\": \"Placeholder\", " FIXED ",\n"
	"{\"node\": \"w\", \"op\": \"Const\", " FIXED ",\n"
	"{\"node\": \"dense\", \"op\": \"MatMul\", " UNIT("float32",
		"float16") ",\n"
			   "{\"node\": \"relu\", \"op\": \"Relu\", " UNIT("float32",
				   "float16") ",\n"
					      "{\"node\": \"log\", \"op\": \"Log\", " UNIT(
						      "float32",
						      "float32") ",\n"
								 "{\"node\": \"soft\", \"op\": \"Softmax\", " UNIT(
									 "float32",
									 "float32") "]}\n";

/* The report with the first `what` after `behind` replaced, and the expected message. */
struct edit {
	const char *behind, *what, *by;
	long line;
	const char *message;
};

static const struct edit edits[] = {
	{ "", "decisions/1", "decisions/2", 1, "it has to be halftone.decisions/1" },
	{ "", "\"schema\"", "\"scheme\"", 1, "schema is missing" },
	{ "", "\"policy\": \"p\"", "\"policy\": 3", 2,
		"policy is a number; it has to be a string" },
	{ "", "\"policy\": \"p\", ", "", 1, "policy is missing" },
	{ "", "6,", "6.5,", 2, "whole number" },
	{ "", "6,", "-6,", 2, "whole number" },
	{ "", "6,", "\"6\",", 2, "whole number" },
	{ "", "6,", "7,", 0, "a graph of 7 nodes" },
	{ "", "6,", "6, \"graph_nodes\": 6,", 2, "graph_nodes stands twice" },
	{ "", "6,", "6, \"casts\": {},", 2, "casts is an object; it has to be an array" },
	{ "", "6,", "6, \"casts\": [{\"name\": \"a\"}],", 2, "source is missing" },
	{ "", "6,", "6, \"price_ps\": 1e300,", 2, "whole number" },
	{ "", "6,", "6, \"fusions\": [[\"a\", \"maybe\", \"\"]],", 2, "has to be on or off" },
	{ "", "6,", "6, \"fusions\": [[\"a\", \"on\"]],", 2, "a fusion is" },
	{ "", "6,", "6, \"constants\": {\"type\": \"float16\", \"smallest\": -1, \"largest\": 2},",
		2, "smallest is a number; it has to be a number that is not negative" },
	{ "", "6,",
		"6, \"painting\": {\"type\": \"float32\", \"emulated\": false, \"suffix\": \"\"},",
		2, "in float16 or bfloat16" },
	{ "", "6,", "6, \"implementation\": [[\"a\", \"high\", \"\", \"\"]],", 2,
		"there is no mode 'high'" },
	{ "", "6,", "6, \"fusions_off\": [[\"gelu\", \"\"]],", 2, "there is no fusion 'gelu'" },
	{ "", "6,", "6, \"fusions_off\": [\"gelu_erf\"],", 2, "[NAME, WHY]" },
	{ "", "6,", "6, \"implementation\": [[\"a\"]],", 2, "an implementation mode is" },
	{ "", "[\n{\"node\"", "[3,\n{\"node\"", 3, "a number, where there has to be an object" },
	{ "", "\"node\": \"w\"", "\"node\": \"x\"", 5, "node 'x' stands twice" },
	{ "", "\"node\": \"w\"", "\"node\": \"ww\"", 0, "the report says nothing of its dtype" },
	{ "", "\"op\": \"Relu\"", "\"op\": \"Relu6\"", 7, "it has an op Relu6 here" },
	{ "", "\"op\": \"Relu\", ", "", 7, "op is missing" },
	{ "\"relu\"", "\"T\"", "\"U\"", 7, "says nothing of its T" },
	{ "\"relu\"", "[{",
		"[{\"attribute\": \"T\", \"from\": \"float32\", \"to\": \"float32\", \"rule\": \"\"}, {",
		7, "attribute 'T' stands twice" },
	{ "\"relu\"", "float32", "float64", 7, "its T was float64, here it is float32" },
	{ "\"relu\"", "float32", "float31", 7, "'float31' is no dtype" },
	{ "\"relu\"", "float16", "int8", 7, "T cannot be int8" },
	{ "\"relu\"", "float16", "float64", 7, "T cannot be float64" },
	{ "\"relu\"", "\"to\"", "\"class\": \"pink\", \"to\"", 7, "'pink' is no class" },
	{ "\"x\"", "\"to\": \"float32\"", "\"to\": \"float16\"", 4,
		"keeps its dtype: fixed: a graph input" },
	{ "\"w\"", "\"to\": \"float32\"", "\"to\": \"float16\"", 5,
		"keeps its dtype: fixed: a constant" },
	{ "", "\"float16\", \"float16\"", "\"float16\"", 6,
		"has 1 operands of its kernel; there are 2" },
	{ "", "\"float16\", \"float16\"", "\"float16\", \"int32\"", 6, "cannot be int32" },
	{ "", "\"float16\", \"float16\"", "\"float16\", 1", 6,
		"a number, where there has to be a string" },
	{ "\"soft\"", "}]}", ", \"line\":}]}", 9, "no strict JSON" },
	{ "\"soft\"", "]}\n", "]}\n,{\"node\": \"more\", \"op\": \"Relu\", \"units\": []}\n", 10,
		"no strict JSON" },
	{ "\"soft\"", "}]}]}", "}]},{\"node\": \"more\", \"op\": \"Relu\", \"units\": []}]}", 9,
		"the graph has no node 'more'" },
};

static const struct edit painted_edits[] = {
	{ "\"relu\"", "float16", "bfloat16", 7, "to its own type only" },
	{ "\"dense\"", "\"op\": \"MatMul\"", "\"op\": \"MatMul\", \"becomes\": \"Relu\"", 6,
		"the second version of a batch norm" },
	{ "", "\"emulated\": false, ", "", 2, "emulated is missing" },
	{ "", "\"emulated\": false", "\"emulated\": true", 6, "to its own type only" },
	{ "", "{\"node\": \"dense\"", "{\"node\": \"sparse\"", 0, "says nothing of its T" },
};

struct applied {
	struct ht_arena arena, scratch;
	struct ht_diags diags;
	struct ht_graph *graph;
	enum ht_status st;
};

static void apply(struct applied *a, const char *text)
{
	memset(a, 0, sizeof *a);
	ht_arena_init(&a->arena, NULL);
	ht_arena_init(&a->scratch, NULL);
	ht_diags_init(&a->diags);
	a->st = report_apply(&a->arena, &a->scratch, ht_str(text), &a->diags, &a->graph);
}

static void end(struct applied *a)
{
	ht_diags_release(&a->diags);
	ht_arena_release(&a->scratch);
	ht_arena_release(&a->arena);
}

static enum ht_dtype type_of(const struct applied *a, const char *node)
{
	const struct ht_node *n = ht_graph_node(a->graph, ht_str(node));

	assert_non_null(n);
	return ht_type_attr(n, "T");
}

static void a_report_decides(void **state)
{
	struct applied a;

	(void)state;
	apply(&a, good);
	assert_int_equal(a.st, HT_OK);
	assert_int_equal(type_of(&a, "dense"), HT_F32);
	assert_int_equal(type_of(&a, "relu"), HT_F16);
	assert_int_equal(type_of(&a, "soft/bfloat16"), HT_BF16);
	assert_non_null(ht_graph_node(a.graph, HT_STR("x/float16/float32")));
	end(&a);
}

static void a_painting_decides(void **state)
{
	struct applied a;

	(void)state;
	apply(&a, painted);
	assert_int_equal(a.st, HT_OK);
	assert_int_equal(type_of(&a, "dense"), HT_F16);
	assert_non_null(ht_graph_node(a.graph, HT_STR("relu-0-CastToFp32-0-S")));
	end(&a);
}

static void refuses(const char *text, const struct edit *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *from = strstr(text, e[i].behind),
			   *at = from ? strstr(from, e[i].what) : NULL;
		char edited[8192];
		struct applied a;

		assert_non_null(at);
		snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, e[i].by,
			at + strlen(e[i].what));
		apply(&a, edited);
		if (a.st != HT_E_INPUT || a.diags.errors != 1 ||
			a.diags.first->where.line != e[i].line ||
			!strstr(a.diags.first->text.p, e[i].message))
			fail_msg("case %zu (%s): status %d, line %ld: %s", i, e[i].by, a.st,
				a.diags.first ? a.diags.first->where.line : -1,
				a.diags.first ? a.diags.first->text.p : "nothing said");
		assert_string_equal(a.diags.first->where.path, "x.json");
		end(&a);
	}
}

static void wrong_reports_are_refused_with_their_line(void **state)
{
	(void)state;
	refuses(good, edits, HT_COUNT(edits));
	refuses(painted, painted_edits, HT_COUNT(painted_edits));
}

static void what_is_cut_short_is_refused(void **state)
{
	(void)state;
	for (size_t n = 0; n + 2 < sizeof good; n += 7) {
		char cut[sizeof good];
		struct applied a;

		memcpy(cut, good, n);
		cut[n] = 0;
		apply(&a, cut);
		assert_int_equal(a.st, HT_E_INPUT);
		assert_int_equal(a.diags.errors, 1);
		end(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_decides),
		cmocka_unit_test(a_painting_decides),
		cmocka_unit_test(wrong_reports_are_refused_with_their_line),
		cmocka_unit_test(what_is_cut_short_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
