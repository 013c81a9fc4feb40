/* Passes: input that the runner refuses, and no pass changes the results of a graph.
 *
 * The second test runs every golden test of tests/golden/passes twice, as it is written and as its
 * RUN line rewrites it, through lowering and the interpreter, and compares the outputs. */
#include "tests/unit/interpreted.h"

#include <dirent.h>

#define GOLDEN "tests/golden/passes"

/* The pipeline of a golden test, from its RUN line. */
static char *pipeline_of(struct run *r, struct ht_str text)
{
	const char *p = strstr(text.p, "--passes ");

	assert_non_null(p);
	p += strlen("--passes ");
	return (char *)(uintptr_t)ht_str_copy(&r->arena, (struct ht_str){ p, strcspn(p, " \n") }).p;
}

static struct ht_str read_text(struct ht_arena *a, const char *path)
{
	FILE *f = fopen(path, "rb");
	struct ht_buf b;
	char part[4096];
	size_t n;

	assert_non_null(f);
	ht_buf_init(&b, a);
	while ((n = fread(part, 1, sizeof part, f)) > 0)
		ht_put(&b, part, n);
	fclose(f);
	return ht_buf_str(&b);
}

/* False: the graph as written cannot be lowered, so there is nothing to compare. */
static bool check_file(const char *path)
{
	struct run before, after;
	struct ht_str text;
	bool compared = false;

	run_init(&before);
	run_init(&after);
	text = read_text(&before.arena, path);
	if (strstr(text.p, "not halftone"))
		goto done; /* a test of a refusal */
	parse(&before, text);
	parse(&after, text);
	if (ht_run_passes(before.graph, "split_fused,infer,split_batch_norm,prune,infer", NULL,
		    &before.context) != HT_OK)
		fail_with_diags(&before, path);
	if (ht_run_passes(after.graph, pipeline_of(&after, text), NULL, &after.context) != HT_OK ||
		ht_run_passes(after.graph, "prune,infer", NULL, &after.context) != HT_OK)
		fail_with_diags(&after, path);
	if (execute(&before) == HT_OK) {
		if (execute(&after) != HT_OK)
			fail_with_diags(&after, path);
		compare(path, &before, &after);
		compared = true;
	} else {
		print_message("not compared: %s\n", path);
	}
done:
	run_release(&before);
	run_release(&after);
	return compared;
}

static void goldens_compute_the_same(void **state)
{
	DIR *d = opendir(GOLDEN);
	struct dirent *e;
	int compared = 0, all = 0;

	(void)state;
	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[512];
		size_t n = strlen(e->d_name);

		if (n < 4 || strcmp(e->d_name + n - 4, ".hir") != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", GOLDEN, e->d_name);
		all++;
		compared += check_file(path);
	}
	closedir(d);
	print_message("%d of %d graphs compared\n", compared, all);
	assert_true(compared >= 20);
}

/* ---- layout ---- */

#define IMAGE_HEAD(inner)                                                                           \
	"hir 1\nentry \"\" { input \"x\" = %x output \"y\" = %y output \"m\" = %m }\n"              \
	"%x = Placeholder() {dtype=f32, shape=shape[2,3,7,6]}\n"                                    \
	"%w = Const() {dtype=f32, value=tensor f32[3,2,3,2] values 4 {0.5, -1.0, 0.25, 2.0 ...}}\n" \
	"%d = Const() {dtype=f32, value=tensor f32[2,2,2,1] values 3 {1.0, -0.5, 0.75 ...}}\n"      \
	"%b = Const() {dtype=f32, value=tensor f32[2] {0.5, -3.0}}\n"                               \
	"%s = Const() {dtype=f32, value=tensor f32[2] {2.0, 0.5}}\n"                                \
	"%v = Const() {dtype=f32, value=tensor f32[2] {1.0, 4.0}}\n"                                \
	"%to = Const() {dtype=i32, value=tensor i32[4] {0, 2, 3, 1}}\n"                             \
	"%from = Const() {dtype=i32, value=tensor i32[4] {0, 3, 1, 2}}\n"                           \
	"%three = Const() {dtype=i32, value=tensor i32[] {3}}\n"                                    \
	"%one = Const() {dtype=i32, value=tensor i32[] {1}}\n" inner

/* The same network in NCHW, and in NHWC between transpositions. */
static const char in_nchw[] = IMAGE_HEAD(
	"%c = Conv2D(%x, %w) {T=f32, data_format=\"NCHW\", strides=[1, 1, 2, 1], padding=\"EXPLICIT\", "
	"explicit_paddings=[0, 0, 0, 0, 1, 2, 0, 3]}\n"
	"%a = BiasAdd(%c, %b) {T=f32, data_format=\"NCHW\"}\n"
	"%n = FusedBatchNormV3(%a, %s, %b, %s, %v) {T=f32, U=f32, epsilon=0.5, is_training=false, "
	"data_format=\"NCHW\"}\n"
	"%r = Tanh(%n) {T=f32}\n"
	"%e = DepthwiseConv2dNative(%r, %d) {T=f32, data_format=\"NCHW\", strides=[1, 1, 1, 1], "
	"padding=\"SAME\"}\n"
	"%p = MaxPool(%e) {T=f32, data_format=\"NCHW\", ksize=[1, 1, 2, 3], strides=[1, 1, 1, 1], "
	"padding=\"SAME\"}\n"
	"%y = ConcatV2(%p, %r, %one) {N=2, T=f32, Tidx=i32}\n"
	"%m = ArgMax(%y, %one) {T=f32, Tidx=i32, output_type=i32}\n");

static const char in_nhwc[] = IMAGE_HEAD(
	"%t = Transpose(%x, %to) {T=f32, Tperm=i32}\n"
	"%c = Conv2D(%t, %w) {T=f32, strides=[1, 2, 1, 1], padding=\"EXPLICIT\", "
	"explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0]}\n"
	"%a = BiasAdd(%c, %b) {T=f32}\n"
	"%n = FusedBatchNormV3(%a, %s, %b, %s, %v) {T=f32, U=f32, epsilon=0.5, is_training=false}\n"
	"%r = Tanh(%n) {T=f32}\n"
	"%e = DepthwiseConv2dNative(%r, %d) {T=f32, strides=[1, 1, 1, 1], padding=\"SAME\"}\n"
	"%p = MaxPool(%e) {T=f32, ksize=[1, 2, 3, 1], strides=[1, 1, 1, 1], padding=\"SAME\"}\n"
	"%q = ConcatV2(%p, %r, %three) {N=2, T=f32, Tidx=i32}\n"
	"%y = Transpose(%q, %from) {T=f32, Tperm=i32}\n"
	"%m = ArgMax(%y, %one) {T=f32, Tidx=i32, output_type=i32}\n");

static int count_type(const struct ht_graph *g, const char *type)
{
	int count = 0;

	for (const struct ht_node *n = g->first; n; n = n->next)
		count += ht_str_is(n->type, type);
	return count;
}

static void images_in_nchw_are_turned_once(void **state)
{
	struct run nchw, nhwc;

	(void)state;
	run_init(&nchw);
	run_init(&nhwc);
	parse(&nchw, ht_str(in_nchw));
	parse(&nhwc, ht_str(in_nhwc));
	if (ht_run_passes(nchw.graph, ht_pipeline_cleanup, NULL, &nchw.context) != HT_OK ||
		ht_run_passes(nchw.graph, ht_pipeline_layout, NULL, &nchw.context) != HT_OK)
		fail_with_diags(&nchw, "nchw");
	if (ht_run_passes(nhwc.graph, "infer,split_batch_norm,infer", NULL, &nhwc.context) != HT_OK)
		fail_with_diags(&nhwc, "nhwc");
	assert_int_equal(count_type(nchw.graph, "Transpose"), 2);
	if (execute(&nchw) != HT_OK)
		fail_with_diags(&nchw, "nchw");
	if (execute(&nhwc) != HT_OK)
		fail_with_diags(&nhwc, "nhwc");
	compare("layout", &nhwc, &nchw);
	run_release(&nchw);
	run_release(&nhwc);
}

/* ---- einsum ---- */

#define DENSE_HEAD(inner)                                                                              \
	"hir 1\nentry \"\" { input \"x\" = %x output \"y\" = %y }\n"                                   \
	"%x = Placeholder() {dtype=f32, shape=shape[2,3,4]}\n"                                         \
	"%w = Const() {dtype=f32, value=tensor f32[4,2,3] values 5 {0.5, -1.0, 0.25, 2.0, 3.0 ...}}\n" \
	"%b = Const() {dtype=f32, value=tensor f32[2,3] values 2 {0.5, -3.0 ...}}\n" inner             \
	"%a = AddV2(%e, %b) {T=f32}\n%y = Relu(%a) {T=f32}\n"

static const char dense_by_equation[] =
	DENSE_HEAD("%e = Einsum(%x, %w) {N=2, T=f32, equation=\"abc,cde->abde\"}\n");

static const char dense_by_hand[] = DENSE_HEAD(
	"%rows = Const() {dtype=i32, value=tensor i32[2] {6, 4}}\n"
	"%columns = Const() {dtype=i32, value=tensor i32[2] {4, 6}}\n"
	"%back = Const() {dtype=i32, value=tensor i32[4] {2, 3, 2, 3}}\n"
	"%m = Reshape(%x, %rows) {T=f32, Tshape=i32}\n%n = Reshape(%w, %columns) {T=f32, Tshape=i32}\n"
	"%p = MatMul(%m, %n) {T=f32}\n%e = Reshape(%p, %back) {T=f32, Tshape=i32}\n");

static void an_equation_is_one_kernel_with_what_follows(void **state)
{
	const char *const text[2] = { dense_by_equation, dense_by_hand };
	struct run r[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		run_init(&r[i]);
		parse(&r[i], ht_str(text[i]));
		if (ht_run_passes(r[i].graph, ht_pipeline_cleanup, NULL, &r[i].context) != HT_OK ||
			ht_run_passes(r[i].graph, ht_pipeline_layout, NULL, &r[i].context) !=
				HT_OK ||
			execute(&r[i]) != HT_OK)
			fail_with_diags(&r[i], text[i]);
		assert_int_equal(r[i].plan->steps, 1);
	}
	compare("einsum", &r[1], &r[0]);
	run_release(&r[0]);
	run_release(&r[1]);
}

/* ---- the runner ---- */

static const char two_relus[] = "hir 1\nentry \"\" { input \"x\" = %x output \"y\" = %b }\n"
				"%x = Placeholder() {dtype=f32, shape=shape[2]}\n"
				"%a = Identity(%x) {T=f32}\n%b = Relu(%a) {T=f32}\n";

static void unknown_names_are_refused_before_anything_runs(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	parse(&r, ht_str(two_relus));
	assert_int_equal(ht_run_passes(r.graph, "identity,simplifi", NULL, &r.context), HT_E_USAGE);
	assert_non_null(strstr(r.diags.first->text.p, "did you mean 'simplify'"));
	assert_int_equal(r.graph->nodes, 3);
	assert_int_equal(ht_run_passes(r.graph, "identity", "nosuch", &r.context), HT_E_USAGE);
	assert_int_equal(r.graph->nodes, 3);
	run_release(&r);
}

static void stop_after_ends_the_pipeline(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	parse(&r, ht_str(two_relus));
	assert_int_equal(ht_run_passes(r.graph, " infer , identity", "infer", &r.context), HT_OK);
	assert_int_equal(r.graph->nodes, 3);
	assert_int_equal(ht_run_passes(r.graph, "infer,identity", NULL, &r.context), HT_OK);
	assert_int_equal(r.graph->nodes, 2);
	run_release(&r);
}

static void the_standard_pipelines_name_passes(void **state)
{
	struct run r;

	(void)state;
	run_init(&r);
	parse(&r, ht_str(two_relus));
	assert_int_equal(ht_run_passes(r.graph, ht_pipeline_cleanup, NULL, &r.context), HT_OK);
	assert_int_equal(ht_run_passes(r.graph, ht_pipeline_precision, NULL, &r.context), HT_OK);
	assert_int_equal(ht_run_passes(r.graph, ht_pipeline_layout, NULL, &r.context), HT_OK);
	for (size_t i = 1; ht_passes[i]; i++)
		assert_true(strcmp(ht_passes[i - 1]->name, ht_passes[i]->name) < 0);
	run_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goldens_compute_the_same),
		cmocka_unit_test(images_in_nchw_are_turned_once),
		cmocka_unit_test(an_equation_is_one_kernel_with_what_follows),
		cmocka_unit_test(unknown_names_are_refused_before_anything_runs),
		cmocka_unit_test(stop_after_ends_the_pipeline),
		cmocka_unit_test(the_standard_pipelines_name_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
