/* Passes: input that the runner refuses, and no pass changes the results of a graph.
 *
 * The second test runs every golden test of tests/golden/passes twice, as it is written and as its
 * RUN line rewrites it, through lowering and the interpreter, and compares the outputs. */
#include "tests/unit/unit.h"

#include "lower/lower.h"
#include "passes/passes.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#define GOLDEN "tests/golden/passes"

/* ---- running a graph ---- */

struct run {
	struct ht_arena arena, scratch;
	struct ht_diags diags;
	struct ht_graph *graph;
	struct ht_pass_context context;
	struct ht_plan *plan;
	char **memory; /* by plan buffer */
	char *temps;
};

static void run_init(struct run *r)
{
	memset(r, 0, sizeof *r);
	ht_arena_init(&r->arena, NULL);
	ht_arena_init(&r->scratch, NULL);
	ht_diags_init(&r->diags);
	r->context = (struct ht_pass_context){ .scratch = &r->scratch,
		.diags = &r->diags,
		.target = ht_targets()[0],
		.verify = true };
}

static void run_release(struct run *r)
{
	ht_arena_release(&r->scratch);
	ht_arena_release(&r->arena);
	ht_diags_release(&r->diags);
}

static void fail_with_diags(struct run *r, const char *what)
{
	struct ht_buf b;

	ht_buf_init(&b, &r->arena);
	for (const struct ht_diag *d = r->diags.first; d; d = d->next) {
		ht_diag_print(d, &b);
		ht_putc(&b, '\n');
	}
	fail_msg("%s: %s", what, ht_buf_str(&b).p);
}

static void parse(struct run *r, struct ht_str text)
{
	if (ht_text_parse(&r->arena, text, "t.hir", NULL, &r->diags, &r->graph) != HT_OK)
		fail_with_diags(r, "parse");
	r->context.entry = r->graph->entries;
}

/* Numbers around zero, the same for the same input name; no zeros, so that divisions work. */
static void fill(const struct ht_plan_buffer *b, char *p)
{
	uint32_t seed = (uint32_t)ht_hash_bytes(b->name.p, b->name.n).lo;
	size_t bytes = ht_dtype_info(b->dtype)->bytes;

	for (size_t i = 0; i < b->bytes / bytes; i++) {
		seed = seed * 1664525 + 1013904223;
		float x = (float)((int)(seed >> 16 & 0xff) - 127) / 32.F + 0.005F;
		uint16_t half = b->dtype == HT_F16 ? ht_f32_to_f16(x) : ht_f32_to_bf16(x);
		int32_t whole = (int32_t)x;

		memcpy(p + i * bytes,
			b->dtype == HT_F32   ? (void *)&x
			: b->dtype == HT_I32 ? (void *)&whole
					     : (void *)&half,
			bytes);
	}
}

static char *buffer_memory(struct run *r, int32_t i)
{
	const struct ht_plan_buffer *b = &r->plan->buffer[i];
	size_t size = b->bytes + 64, matrix;
	char *p;

	if (r->memory[i])
		return r->memory[i];
	if (b->kind == HT_PLAN_TEMP)
		return r->temps + b->offset;
	if (b->kind == HT_PLAN_CONST && !b->pack)
		return (char *)(uintptr_t)b->blob->p;
	p = ht_alloc(&r->arena, size);
	if (b->kind == HT_PLAN_INPUT)
		fill(b, p);
	if (b->kind != HT_PLAN_CONST)
		return p;
	matrix = (size_t)ht_packed_count(b->pack) * ht_dtype_info(b->pack->dst_dtype)->bytes;
	for (size_t k = 0; k < b->pack_count; k++)
		ht_pack_b(b->pack,
			(const char *)b->packed_from->p +
				(b->pack_first + (int64_t)k * b->pack_stride) *
					(int64_t)ht_dtype_info(b->pack->src_dtype)->bytes,
			p + k * matrix);
	return p;
}

/* HT_E_UNSUPPORTED if an op cannot be lowered, HT_E_VERDICT if the run stops with a fault. */
static enum ht_status execute(struct run *r)
{
	struct ht_lower_request how = { .scratch = &r->scratch,
		.diags = &r->diags,
		.target = r->context.target,
		.entry = r->context.entry,
		.random_seed = -1 };
	enum ht_status st = ht_lower(r->graph, &how, &r->arena, &r->plan);
	void *scratch, *args[64];

	if (st != HT_OK)
		return st;
	r->memory = HT_NEW_ARRAY(&r->arena, char *, (size_t)r->plan->buffers);
	r->temps = ht_alloc(&r->arena, ht_plan_entry(r->plan)->arena_bytes);
	scratch = ht_alloc(&r->arena, r->plan->scratch_bytes + 64);
	for (int32_t i = 0; i < r->plan->buffers; i++)
		r->memory[i] = buffer_memory(r, i);
	for (int32_t i = 0; i < r->plan->steps; i++) {
		const struct ht_plan_step *s = &r->plan->step[i];
		const struct ht_kernel *kernel = r->plan->kernel[s->kernel];
		ht_kernel_fn *library = kernel->library ? ht_library_kernel(kernel->library) : NULL;
		int64_t tiles = ht_kernel_tiles(kernel);

		for (int32_t k = 0; k < kernel->args; k++)
			args[k] = r->memory[s->buffer[k]];
		if (library ? library(args, s->params, 0, tiles, scratch)
			    : ht_interpret(kernel, args, s->params, 0, tiles, scratch))
			return HT_E_VERDICT;
	}
	return HT_OK;
}

/* ---- comparing ---- */

static double element(enum ht_dtype t, const char *p, size_t i)
{
	switch ((int)t) {
	case HT_F32:
		return ((const float *)(const void *)p)[i];
	case HT_F64:
		return ((const double *)(const void *)p)[i];
	case HT_F16:
		return ht_f16_to_f32(((const uint16_t *)(const void *)p)[i]);
	case HT_BF16:
		return ht_bf16_to_f32(((const uint16_t *)(const void *)p)[i]);
	case HT_I32:
		return ((const int32_t *)(const void *)p)[i];
	default:
		fail_msg("an output of a type that this test does not compare");
		return 0;
	}
}

static int32_t output(const struct run *r, int n)
{
	for (int32_t i = 0; i < r->plan->buffers; i++)
		if (r->plan->buffer[i].kind == HT_PLAN_OUTPUT && n-- == 0)
			return i;
	return -1;
}

static void compare(const char *name, const struct run *a, const struct run *b)
{
	for (int n = 0; output(a, n) >= 0; n++) {
		int32_t x = output(a, n), y = output(b, n);
		enum ht_dtype t = a->plan->buffer[x].dtype;
		size_t count = a->plan->buffer[x].bytes / ht_dtype_info(t)->bytes;
		double tolerance = t == HT_BF16 ? 0x1p-7 : t == HT_F16 ? 0x1p-10 : 1e-5;

		assert_true(y >= 0);
		assert_int_equal(a->plan->buffer[x].bytes, b->plan->buffer[y].bytes);
		assert_int_equal(t, b->plan->buffer[y].dtype);
		for (size_t i = 0; i < count; i++) {
			double p = element(t, a->memory[x], i), q = element(t, b->memory[y], i);

			if (p != q && !(fabs(p - q) <= tolerance * fmax(1, fabs(p))) &&
				!(isnan(p) && isnan(q)))
				fail_msg("%s: output %d element %zu: %g became %g", name, n, i, p,
					q);
		}
	}
}

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
