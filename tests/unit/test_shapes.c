/* Kernels at every shape: random instances of convolutions, products, windows, reductions,
 * normalisations and moves, on every level that the machine runs, with random register tiles and
 * caches for schedules and each method of convolution, in memory that ends where the tensors do.
 * shapes*.h have the expected results and tolerances.  HALFTONE_SEED sets the first seed,
 * HALFTONE_CASES the number of cases. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include "base/cpu.h"
#include "tests/unit/amx.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/shapes_products.h"
#include "tests/unit/shapes_rows.h"

#include "api/api.h"

#include <cmocka.h>
#include <unistd.h>

static char path[] = "/tmp/halftone-shapes-XXXXXX.hir";
static int transformed; /* runs of Winograd's method in pairs */
/* Sums over the elements of all results of F(2 x 2) in float16: of (got - want)^2, and of
 * want^2. */
static double squared_errors, squared_results;
static char place[256]; /* the running case, for a crash */

static void crashed(int sig)
{
	ssize_t n = write(2, place, strlen(place));

	(void)n;
	signal(sig, SIG_DFL);
	raise(sig);
}

static const struct ht_target *variant(
	const struct ht_target *of, struct ht_target *t, struct ht_rates *rates)
{
	*t = *of;
	*rates = *of->rates;
	/* On machines without float16 instructions, LLVM emits many others for each product. */
	rates->rows = 1 + below(of_short_runs ? 2 : 8);
	rates->vectors = 1 + below(of_short_runs ? 1 : of->rates->vectors);
	t->l1 >>= below(4);
	t->l2 >>= below(8);
	t->prefetch_panels = (int)below(2);
	t->streams = below(3) ? t->streams : 1;
	t->rates = rates;
	return t;
}

struct compile {
	struct ht_model *m;
	const struct ht_target *t;
	enum ht_conv_method method;
	struct ht_program *p;
	struct ht_work w;
	struct ht_diags *d;
};

static enum ht_status compile(void *arg)
{
	struct compile *c = arg;
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_lowering l;
	struct ht_plan *plan;
	struct ht_make how;

	opt.target = c->t->name;
	opt.threads = 1;
	HT_TRY(ht_lowering_run(c->m, &opt, HT_OPEN_REFUSE, HT_UPTO_LAYOUT, NULL, &c->w, c->d, &l));
	l.lower.target = c->t;
	l.lower.asked.conv = c->method;
	HT_TRY(ht_lower(l.graph, &l.lower, &c->w.arena, &plan));
	how = (struct ht_make){ .target = c->t, .threads = 1 };
	HT_TRY(ht_program_build(c->p, l.graph, plan, &how, &l.phases, c->d));
	ht_program_link(c->p, plan);
	return HT_OK;
}

static struct ht_program *program_of(
	struct ht_model *m, const struct ht_target *t, enum ht_conv_method method)
{
	struct compile c = { .m = m, .t = t, .method = method };
	struct ht_diags d;
	enum ht_status st;

	ht_diags_init(&d);
	c.d = &d;
	c.p = ht_sys_alloc(sizeof *c.p);
	ht_work_init(&c.w);
	ht_arena_init(&c.p->arena, &c.w.unwind);
	st = ht_guarded(&c.w.unwind, compile, &c, &d);
	ht_work_release(&c.w);
	for (const struct ht_diag *i = d.first; i && st != HT_OK; i = i->next)
		fprintf(stderr, "%s: %.*s\n", place, HT_STR_ARG(i->text));
	ht_diags_release(&d);
	assert_int_equal(st, HT_OK);
	return c.p;
}

static double number(enum ht_dtype t, const void *p, int64_t i)
{
	return t == HT_F32   ? (double)((const float *)p)[i]
	       : t == HT_F64 ? ((const double *)p)[i]
	       : t == HT_F16 ? (double)ht_f16_to_f32(((const uint16_t *)p)[i])
			     : (double)ht_bf16_to_f32(((const uint16_t *)p)[i]);
}

static void *stored(struct instance *k, const struct tensor *x)
{
	void *p = HT_NEW_ARRAY(&k->arena, double, (size_t)count_of(x) + 1);
	enum ht_dtype t = k->t;

	for (int64_t i = 0; i < count_of(x); i++)
		if (t == HT_F32)
			((float *)p)[i] = (float)x->v[i];
		else if (t == HT_F64)
			((double *)p)[i] = x->v[i];
		else
			((uint16_t *)p)[i] =
				t == HT_F16 ? ht_f64_to_f16(x->v[i]) : ht_f64_to_bf16(x->v[i]);
	return p;
}

static bool close_enough(const struct instance *k, const void *got, double more)
{
	for (int64_t i = 0; i < count_of(&k->want); i++) {
		double y = number(k->t, got, i), want = k->want.v[i];

		if (y == want || (isnan(y) && isnan(want)))
			continue;
		if (fabs(y - want) <= k->err.v[i] + more)
			continue;
		fprintf(stderr, "%s: element %lld is %.9g, not %.9g; it may err by %.3g\n", place,
			(long long)i, y, want, k->err.v[i] + more);
		return false;
	}
	return true;
}

static void add_squares(const struct instance *k, const void *got)
{
	for (int64_t i = 0; i < count_of(&k->want); i++) {
		double d = number(k->t, got, i) - k->want.v[i];

		squared_errors += d * d;
		squared_results += k->want.v[i] * k->want.v[i];
	}
}

/* The error that a step may add, by its method. */
static double winograd_error(const struct instance *k, const char *method)
{
	if (!method || strncmp(method, "winograd", strlen("winograd")) != 0)
		return 0;
	if (strcmp(method, "winograd-2x2") != 0 || (k->t != HT_BF16 && !of_short_runs))
		return k->winograd;
	transformed++;
	return k->t == HT_BF16 ? k->winograd_pairs : k->winograd_short;
}

static bool run_in(struct instance *k, const struct ht_program *p, enum ht_guard side)
{
	const struct ht_image *x = p->rt.image;
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	size_t bytes = (size_t)count_of(&k->want) * ht_dtype_info(k->t)->bytes;
	struct ht_array in[MAX_FEEDS] = { 0 }, out = { .bytes = bytes };
	struct ht_context *c;
	struct ht_value_info v;
	double winograd = 0;
	bool good;

	opt.guard = side;
	assert_int_equal(ht_context_new(p, &opt, NULL, &c), HT_OK);
	for (int i = 0; i < k->feeds; i++)
		for (int j = 0; j < k->feeds; j++) {
			ht_program_input(p, (size_t)i, &v);
			if (!strcmp(v.name, k->name[j]))
				in[i] = (struct ht_array){ .data = stored(k, &k->feed[j]),
					.bytes = v.bytes,
					.dtype = v.dtype,
					.rank = v.rank,
					.dim = v.dim };
		}
	ht_program_output(p, 0, &v);
	out.dtype = v.dtype;
	out.rank = v.rank;
	out.dim = v.dim;
	out.data = ht_alloc(&k->arena, bytes + 8);
	assert_int_equal(v.bytes, bytes);
	assert_int_equal(ht_context_run(c, in, (size_t)k->feeds, &out, 1, NULL), HT_OK);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_STEPS); i++)
		winograd = fmax(
			winograd, winograd_error(k, ht_image_text(x, ht_image_notes(x)[i].method)));
	good = close_enough(k, out.data, winograd);
	if (winograd > 0 && winograd == k->winograd_short)
		add_squares(k, out.data);
	ht_context_free(c);
	return good;
}

static void write_graph(struct instance *k)
{
	FILE *f = fopen(path, "w");

	HT_CHECK(f);
	fprintf(f, "hir 1\nentry \"\" {\n%.*s  output \"y\" = %%y\n}\n%.*s",
		HT_STR_ARG(ht_buf_str(&k->inputs)), HT_STR_ARG(ht_buf_str(&k->nodes)));
	assert_int_equal(fclose(f), 0);
}

enum { CONV2D = 0, PRODUCT = 4, ONE_ROW = 6, CONV2D_TRANSPOSE = 8, FILTER_GRADIENT = 9 };
static const struct {
	const char *name;
	void (*make)(struct instance *k);
} families[] = { { "conv2d", conv2d }, { "conv2d", conv2d }, { "conv2d", conv2d },
	{ "small conv2d", small_conv2d }, { "product", product }, { "product", product },
	{ "one row", one_row }, { "depthwise", depthwise },
	{ "conv2d_transpose", conv2d_transpose }, { "filter gradient", filter_gradient },
	{ "short rows", short_rows }, { "pool", pool }, { "reduction", reduction },
	{ "rows", rows }, { "elementwise", elementwise }, { "transpose", transpose },
	{ "concat", concat } };

/* The instance of a seed, as a loaded model. */
static struct ht_model *draw(struct instance *k, uint64_t seed, enum ht_dtype t, size_t family)
{
	struct ht_model *m;

	k->t = t;
	k->eps = t == HT_F64 ? 0x1p-53 : 0x1p-24;
	k->unit = t == HT_F16 ? 0x1p-11 : t == HT_BF16 ? 0x1p-8 : 0;
	k->tiny = t == HT_F16 ? 0x1p-25 : 0x1p-126;
	families[family].make(k);
	write_graph(k);
	snprintf(place, sizeof place, "seed %llu", (unsigned long long)seed);
	assert_int_equal(ht_model_load(path, NULL, NULL, &m), HT_OK);
	return m;
}

static void begin(struct instance *k, uint64_t seed)
{
	*k = (struct instance){ 0 };
	state = seed * 0x9e3779b97f4a7c15u + 12345;
	for (int i = 0; i < 10; i++)
		rnd();
	ht_arena_init(&k->arena, NULL);
	ht_buf_init(&k->nodes, &k->arena);
	ht_buf_init(&k->inputs, &k->arena);
}

static int failures_on(struct instance *k, struct ht_model *m, uint64_t seed, size_t family,
	const struct ht_target *t, enum ht_conv_method method)
{
	struct ht_target target;
	struct ht_rates rates;
	struct ht_program *p;
	int bad = 0;

	variant(t, &target, &rates);
	for (enum ht_guard side = HT_GUARD_BEHIND; side <= HT_GUARD_BEFORE; side++) {
		snprintf(place, sizeof place,
			"HALFTONE_SEED=%llu: %s in %s on %s, guard %d, method %d, %d rows, %d vectors\n",
			(unsigned long long)seed, families[family].name, type_name(k->t),
			target.name, (int)side, (int)method, rates.rows, rates.vectors);
		if (side == HT_GUARD_BEHIND)
			p = program_of(m, &target, method);
		bad += !run_in(k, p, side);
	}
	ht_program_free(p);
	return bad;
}

static int failures(uint64_t seed)
{
	static const enum ht_dtype types[] = { HT_F32, HT_F32, HT_BF16, HT_F16, HT_F64 };
	struct instance k;
	struct ht_model *m;
	enum ht_dtype t;
	size_t family;
	int bad = 0;

	begin(&k, seed);
	t = types[below(HT_COUNT(types))];
	family = (size_t)below(HT_COUNT(families));
	m = draw(&k, seed, t, family);
	for (const struct ht_target *const *on = ht_targets(); *on; on++) {
		enum ht_conv_method method = (enum ht_conv_method)below(4);

		if ((*on)->name == (*on)->level && ht_target_runs((*on)->name))
			bad += failures_on(&k, m, seed, family, *on, method);
	}
	ht_model_free(m);
	ht_arena_release(&k.arena);
	return bad;
}

/* Of the seeds 1 to `cases` of a test, a third has its turn on each of so many days. */
enum { DAYS = 3 };

/* Sums what `of` returns for the seeds from 1 to `cases` that have their turn on this one of so many days; or for
 * $HALFTONE_CASES seeds, from $HALFTONE_SEED on. */
static int sum_failures(int (*of)(uint64_t seed), uint64_t cases, uint64_t days)
{
	const char *first = getenv("HALFTONE_SEED"), *many = getenv("HALFTONE_CASES");
	uint64_t n = many ? strtoull(many, NULL, 10) : first ? 1 : cases / days;
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1 + day_of_turn() % days * n;
	int bad = 0;

	signal(SIGSEGV, crashed);
	for (uint64_t i = seed; i < seed + n; i++)
		bad += of(i);
	return bad;
}

static void every_shape(void **unused)
{
	(void)unused;
	assert_int_equal(sum_failures(failures, 150, DAYS), 0);
}

/* Products, and convolutions both directly and by Winograd's method, on one target. */
static int contraction_failures(uint64_t seed, enum ht_dtype t, const struct ht_target *on)
{
	enum ht_conv_method method = seed % 3 ? HT_CONV_WINOGRAD_2X2 : HT_CONV_DIRECT;
	size_t family = seed % 8 < 4 ? CONV2D : seed % 8 == 4 ? FILTER_GRADIENT : PRODUCT;
	struct instance k;
	struct ht_model *m;
	int bad;

	begin(&k, seed);
	of_winograd = method == HT_CONV_WINOGRAD_2X2;
	m = draw(&k, seed, t, family);
	of_winograd = false;
	bad = failures_on(&k, m, seed, family, on, method);
	ht_model_free(m);
	ht_arena_release(&k.arena);
	return bad;
}

/* ---- one row of bfloat16, with pairs and without ---- */

static int row_failures(uint64_t seed)
{
	struct instance k;
	struct ht_model *m;
	int bad = 0;

	begin(&k, seed);
	m = draw(&k, seed, HT_BF16, ONE_ROW);
	for (const struct ht_target *const *on = ht_targets(); *on; on++)
		if ((*on)->name == (*on)->level && ht_target_runs((*on)->name))
			bad += failures_on(&k, m, seed, ONE_ROW, *on, HT_CONV_AUTO);
	ht_model_free(m);
	ht_arena_release(&k.arena);
	return bad;
}

static void one_row_of_bf16(void **unused)
{
	(void)unused;
	assert_int_equal(sum_failures(row_failures, 25, 1), 0);
}

/* ---- AMX, emulated where the machine lacks it: products, and convolutions by each method ---- */

/* Every other seed has the target of a host with slow dot products: without them. */
static const struct ht_target *with_amx(uint64_t seed)
{
	static struct ht_target t;
	static char features[512];

	t = *ht_target_named("x86-64-v4+bf16");
	snprintf(features, sizeof features, "%s,+amx-tile,+amx-bf16", t.features);
	t.features = features;
	t.matrix_rows = 16;
	t.matrix_bf16 = 2;
	t.dot_bf16 = seed % 2 ? t.dot_bf16 : 0;
	t.prefetch_panels = seed / 2 % 2;
	return &t;
}

static int tile_failures(uint64_t seed)
{
	return contraction_failures(seed, HT_BF16, with_amx(seed));
}

/* Convolutions whose tiles have copies of rows, which several panels of columns share. */
static int panel_failures(uint64_t seed)
{
	struct instance k;
	struct ht_model *m;
	int bad;

	begin(&k, seed);
	of_panels = true;
	m = draw(&k, seed, HT_BF16, CONV2D);
	of_panels = false;
	bad = failures_on(&k, m, seed, CONV2D, with_amx(seed), HT_CONV_DIRECT);
	ht_model_free(m);
	ht_arena_release(&k.arena);
	return bad;
}

/* Convolutions and their gradients whose tiles have copies of the pixels of several images. */
static int batch_failures(uint64_t seed)
{
	static const size_t of[] = { CONV2D, CONV2D_TRANSPOSE, FILTER_GRADIENT };
	const size_t family = of[seed % HT_COUNT(of)];
	struct instance k;
	struct ht_model *m;
	int bad;

	begin(&k, seed);
	of_batches = true;
	m = draw(&k, seed, HT_BF16, family);
	of_batches = false;
	bad = failures_on(&k, m, seed, family, with_amx(seed), HT_CONV_DIRECT);
	ht_model_free(m);
	ht_arena_release(&k.arena);
	return bad;
}

static void tiles(void **unused)
{
	(void)unused;
	if (!ht_target_runs("x86-64-v4+bf16"))
		skip();
	if (!ht_cpu_has_amx())
		amx_emulate();
	transformed = 0;
	assert_int_equal(sum_failures(tile_failures, 60, DAYS), 0);
	assert_true(transformed > 3 || getenv("HALFTONE_SEED"));
	assert_int_equal(sum_failures(panel_failures, 30, DAYS), 0);
	assert_int_equal(sum_failures(batch_failures, 60, DAYS), 0);
	assert_true(ht_cpu_has_amx() || getenv("HALFTONE_SEED") || amx.products > 100);
}

/* ---- short runs of float16, by float32 instructions on machines without those of float16 ---- */

static const struct ht_target *with_short_runs(void)
{
	static struct ht_target t;

	t = *ht_target_named("x86-64-v4");
	t.sums_f16 = 2;
	t.rates = ht_target_named("x86-64-v4+bf16+fp16")->rates;
	return &t;
}

static int short_run_failures(uint64_t seed)
{
	int bad;

	of_short_runs = true;
	bad = contraction_failures(seed, HT_F16, with_short_runs());
	of_short_runs = false;
	return bad;
}

/* Root mean square error of F(2 x 2) relative to that of the results (docs/contraction-numerics.md). */
#define SHORT_WINOGRAD_ERROR 1.3e-3

static void short_runs(void **unused)
{
	double error;

	(void)unused;
	if (!ht_target_runs("x86-64-v4"))
		skip();
	transformed = 0;
	assert_int_equal(sum_failures(short_run_failures, 6, 1), 0);
	if (getenv("HALFTONE_SEED"))
		return;
	assert_true(transformed >= 6);
	error = sqrt(squared_errors / squared_results);
	assert_true(error > 3e-4 && error < SHORT_WINOGRAD_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_shape),
		cmocka_unit_test(one_row_of_bf16), cmocka_unit_test(tiles),
		cmocka_unit_test(short_runs) };
	int fd = mkstemps(path, 4), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (!getenv("HALFTONE_SEED"))
		unlink(path);
	return failed;
}
