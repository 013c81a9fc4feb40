/* halftone tune: measures the rates of this machine; with --costs, measures the cost of kinds of
 * work and writes the cost table that --policy optimal uses.
 *
 * Every point is a small graph that is compiled and run like any other.  The three element types
 * of a point take turns, so that a disturbance affects all of them, and the lower quartile of
 * the rounds counts, because disturbances only add time.  Work that no graph does alone (a load,
 * a rounding) is the difference of two measurements. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TYPES = 3, MOST_VARIANTS = 3, ROUNDS = 21, SLICE_NS = 100000 };

static const struct {
	const char *tag, *proto, *half; /* constant: the value one half */
	enum ht_dtype dtype;
	uint32_t one; /* bits of 1.0 */
} types[TYPES] = {
	{ "f32", "DT_FLOAT", "float_val: 0.5", HT_F32, 0x3f800000 },
	{ "f16", "DT_HALF", "half_val: 14336", HT_F16, 0x3c00 },
	{ "bf16", "DT_BFLOAT16", "half_val: 16128", HT_BF16, 0x3f80 },
};

struct tune {
	struct cli *c;
	struct text out;
	double launch; /* nanoseconds */
	enum ht_status st;
};

/* ---- graphs ---- */

static void put_shape(struct text *t, int rank, const int64_t *dim)
{
	text_printf(t, "{");
	for (int i = 0; i < rank; i++)
		text_printf(t, " dim { size: %lld }", (long long)dim[i]);
	text_printf(t, " }");
}

static void put_input(struct text *t, const char *name, int type, int rank, const int64_t *dim)
{
	text_printf(t,
		"node { name: \"%s\" op: \"Placeholder\" attr { key: \"dtype\" value { type: %s } } attr { key: \"shape\" value { shape ",
		name, types[type].proto);
	put_shape(t, rank, dim);
	text_printf(t, " } } }\n");
}

static void put_const(struct text *t, const char *name, const char *proto, const char *value,
	int rank, const int64_t *dim)
{
	text_printf(t,
		"node { name: \"%s\" op: \"Const\" attr { key: \"dtype\" value { type: %s } } attr { key: \"value\" value { tensor { dtype: %s tensor_shape ",
		name, proto, proto);
	put_shape(t, rank, dim);
	text_printf(t, " %s } } } }\n", value);
}

/* `inputs`: names with blanks between; `attrs`: further attributes, written out. */
static void put_op(struct text *t, const char *name, const char *op, const char *inputs, int type,
	const char *attrs)
{
	char list[128], *save, *word;

	snprintf(list, sizeof list, "%s", inputs);
	text_printf(t, "node { name: \"%s\" op: \"%s\"", name, op);
	for (word = strtok_r(list, " ", &save); word; word = strtok_r(NULL, " ", &save))
		text_printf(t, " input: \"%s\"", word);
	text_printf(t, " attr { key: \"T\" value { type: %s } } %s }\n", types[type].proto, attrs);
}

#define LIST(name, items) "attr { key: \"" name "\" value { list { " items " } } } "
#define STRING(name, s) "attr { key: \"" name "\" value { s: \"" s "\" } } "
#define TYPE(name, s) "attr { key: \"" name "\" value { type: " s " } } "

struct size {
	int64_t x, y, z;
};
typedef void graph_fn(struct text *t, int type, struct size s);

static void graph_product(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 2, (int64_t[]){ s.x, s.z });
	put_const(t, "w", types[type].proto, types[type].half, 2, (int64_t[]){ s.z, s.y });
	put_op(t, "y", "MatMul", "x w", type, "");
}

static void graph_product_of_inputs(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 2, (int64_t[]){ s.x, s.z });
	put_input(t, "w", type, 2, (int64_t[]){ s.z, s.y });
	put_op(t, "y", "MatMul", "x w", type, "");
}

/* Sizes: x is height and width, y channels, z height and width of the window. */
static void graph_depthwise(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 4, (int64_t[]){ 1, s.x, s.x, s.y });
	put_const(t, "w", types[type].proto, types[type].half, 4, (int64_t[]){ s.z, s.z, s.y, 1 });
	put_op(t, "y", "DepthwiseConv2dNative", "x w", type,
		STRING("padding", "SAME") LIST("strides", "i: 1 i: 1 i: 1 i: 1"));
}

static void graph_mean(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 4, (int64_t[]){ 1, s.x, s.x, s.y });
	put_const(t, "axes", "DT_INT32", "int_val: 1 int_val: 2", 1, (int64_t[]){ 2 });
	put_op(t, "y", "Mean", "x axes", type, "");
}

static void graph_pool(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 4, (int64_t[]){ 1, s.x, s.x, s.y });
	put_op(t, "y", "MaxPool", "x", type,
		STRING("padding", "VALID") LIST("strides", "i: 1 i: 2 i: 2 i: 1")
			LIST("ksize", "i: 1 i: 3 i: 3 i: 1"));
}

static void graph_softmax(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 2, (int64_t[]){ s.x, 256 });
	put_op(t, "y", "Softmax", "x", type, "");
}

static void put_chain(struct text *t, int type, const char *op, int length)
{
	char name[16], before[32] = "x";

	for (int i = 0; i < length; i++) {
		snprintf(name, sizeof name, i + 1 < length ? "y%d" : "y", i);
		put_op(t, name, op, before, type, "");
		snprintf(before, sizeof before, "%s", name);
	}
}

static void graph_softmax_8(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 2, (int64_t[]){ s.x, 16 });
	put_chain(t, type, "Softmax", 8);
}

static void graph_softmax_1(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 2, (int64_t[]){ s.x, 16 });
	put_chain(t, type, "Softmax", 1);
}

/* Sums of `length` constants, added one after the other. */
static void put_sums(struct text *t, int type, struct size s, int length)
{
	char name[16], inputs[32] = "x c";

	put_input(t, "x", type, 1, &s.x);
	put_const(t, "c", types[type].proto, types[type].half, 0, NULL);
	for (int i = 0; i < length; i++) {
		snprintf(name, sizeof name, i + 1 < length ? "y%d" : "y", i);
		put_op(t, name, "AddV2", inputs, type, "");
		snprintf(inputs, sizeof inputs, "%s c", name);
	}
}

static void graph_sum(struct text *t, int type, struct size s)
{
	put_sums(t, type, s, 1);
}

static void graph_sum_8(struct text *t, int type, struct size s)
{
	put_sums(t, type, s, 8);
}

static void graph_sum_of_4(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 1, &s.x);
	put_input(t, "x1", type, 1, &s.x);
	put_input(t, "x2", type, 1, &s.x);
	put_input(t, "x3", type, 1, &s.x);
	put_op(t, "y", "AddN", "x x1 x2 x3", type, "attr { key: \"N\" value { i: 4 } }");
}

static void graph_tanh(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 1, &s.x);
	put_op(t, "y", "Tanh", "x", type, "");
}

static void graph_gelu(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 1, &s.x);
	put_op(t, "y", "Gelu", "x", type, "");
}

static void graph_silu(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 1, &s.x);
	put_op(t, "y", "Silu", "x", type, "");
}

/* Reverses the order of rows of 64 elements. */
static void graph_reverse(struct text *t, int type, struct size s)
{
	put_input(t, "x", type, 2, (int64_t[]){ s.x, 64 });
	put_const(t, "axis", "DT_INT32", "int_val: 0", 1, (int64_t[]){ 1 });
	put_op(t, "y", "ReverseV2", "x axis", type, "");
}

static void put_cast(struct text *t, int from, int to, struct size s)
{
	put_input(t, "x", from, 1, &s.x);
	text_printf(t,
		"node { name: \"y\" op: \"Cast\" input: \"x\" attr { key: \"SrcT\" value { type: %s } } attr { key: \"DstT\" value { type: %s } } }\n",
		types[from].proto, types[to].proto);
}

/* float32 needs no cast, but the table has a column for it: that of a copy, which nobody uses. */
static void graph_widen(struct text *t, int type, struct size s)
{
	if (type)
		put_cast(t, type, 0, s);
	else
		graph_sum(t, type, s);
}

static void graph_narrow(struct text *t, int type, struct size s)
{
	if (type)
		put_cast(t, 0, type, s);
	else
		graph_sum(t, type, s);
}

/* ---- running graphs ---- */

struct runner {
	struct ht_model *model;
	struct ht_program *program;
	struct ht_context *context;
	struct ht_array in[4], out[1];
	size_t ins;
	long reps;
	double ns[ROUNDS], quartile, spread;
};

/* Allocates at a cache line, as tensors between kernels are: vectors that cross lines take twice
 * as long, and more of them do in float32. */
static enum ht_status make_array(const struct ht_value_info *v, struct ht_array *a)
{
	*a = (struct ht_array){ aligned_alloc(64, (v->bytes + 127) / 64 * 64), v->bytes, v->dtype,
		v->rank, v->dim };
	if (!a->data)
		return fail(HT_E_ENVIRONMENT, "no memory for a tensor of %zu bytes", v->bytes);
	for (int i = 0; i < TYPES; i++)
		for (size_t j = 0; types[i].dtype == v->dtype && j < v->bytes;
			j += ht_dtype_bytes(v->dtype))
			memcpy((char *)a->data + j, &types[i].one, ht_dtype_bytes(v->dtype));
	return HT_OK;
}

static enum ht_status load(struct tune *t, struct text *graph, struct runner *r)
{
	const char *dir = getenv("TMPDIR");
	char path[512];
	enum ht_status st;
	int fd;

	snprintf(path, sizeof path, "%s/halftone-XXXXXX.pbtxt", dir && *dir ? dir : "/tmp");
	fd = mkstemps(path, 6);
	if (fd < 0 || write(fd, graph->p, graph->n) != (ssize_t)graph->n)
		st = fail(HT_E_ENVIRONMENT, "cannot write %s", path);
	else
		st = ht_model_load(path, NULL, t->c->diags, &r->model);
	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	return st;
}

static enum ht_status open_runner(
	struct tune *t, graph_fn *graph, int type, struct size s, struct runner *r)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct text text = { 0 };
	struct ht_value_info v;
	enum ht_status st;

	graph(&text, type, s);
	opt.target = option(t->c, OPTION_TARGET, NULL);
	st = load(t, &text, r);
	free(text.p);
	if (st == HT_OK)
		st = ht_compile(r->model, &opt, t->c->diags, &r->program);
	if (st == HT_OK)
		st = ht_context_new(r->program, NULL, t->c->diags, &r->context);
	if (st != HT_OK)
		return st;
	for (; st == HT_OK && ht_program_input(r->program, r->ins, &v); r->ins++)
		st = make_array(&v, &r->in[r->ins]);
	if (st != HT_OK)
		return st;
	ht_program_output(r->program, 0, &v);
	return make_array(&v, &r->out[0]);
}

static void close_runner(struct runner *r)
{
	ht_context_free(r->context);
	ht_program_free(r->program);
	ht_model_free(r->model);
	for (size_t i = 0; i < r->ins; i++)
		free(r->in[i].data);
	free(r->out[0].data);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static enum ht_status run_slice(struct tune *t, struct runner *r, double *ns)
{
	double start = now_ns();
	enum ht_status st = HT_OK;

	for (long i = 0; i < r->reps && st == HT_OK; i++)
		st = ht_context_run(r->context, r->in, r->ins, r->out, 1, t->c->diags);
	*ns = (now_ns() - start) / (double)r->reps;
	return st;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void summarise(struct runner *r)
{
	qsort(r->ns, ROUNDS, sizeof *r->ns, by_value);
	r->quartile = r->ns[ROUNDS / 4];
	r->spread = (r->ns[ROUNDS / 2] - r->quartile) / r->quartile;
}

/* Measures `variants` graphs in all types, at size s: r[variant][type]. */
static void measure(struct tune *t, graph_fn *const *graph, int variants, struct size s,
	struct runner r[MOST_VARIANTS][TYPES])
{
	double ns;

	memset(r, 0, (size_t)variants * sizeof *r);
	for (int v = 0; v < variants; v++)
		for (int k = 0; k < TYPES && t->st == HT_OK; k++) {
			t->st = open_runner(t, graph[v], k, s, &r[v][k]);
			r[v][k].reps = 3;
			if (t->st == HT_OK)
				t->st = run_slice(t, &r[v][k], &ns);
			if (t->st == HT_OK)
				t->st = run_slice(t, &r[v][k], &ns);
			r[v][k].reps = t->st == HT_OK && ns < SLICE_NS ? (long)(SLICE_NS / ns) : 1;
		}
	for (int i = 0; i < ROUNDS; i++)
		for (int v = 0; v < variants; v++)
			for (int k = 0; k < TYPES && t->st == HT_OK; k++)
				t->st = run_slice(t, &r[v][k], &r[v][k].ns[i]);
	for (int v = 0; v < variants; v++)
		for (int k = 0; k < TYPES; k++) {
			if (t->st == HT_OK)
				summarise(&r[v][k]);
			close_runner(&r[v][k]);
		}
}

/* ---- points ---- */

static void put_point(
	struct tune *t, const char *kind, int type, struct size s, double ps, double spread)
{
	if (t->st == HT_OK)
		text_printf(&t->out, "%s %s %lld %lld %lld %.4g %.2g\n", kind, types[type].tag,
			(long long)s.x, (long long)s.y, (long long)s.z, ps > 0.01 ? ps : 0.01,
			spread);
}

/* A graph that consists of the work alone. */
static void tune_alone(struct tune *t, const char *kind, graph_fn *graph, struct size measured,
	struct size s, double units)
{
	struct runner r[MOST_VARIANTS][TYPES];

	measure(t, &graph, 1, measured, r);
	for (int k = 0; k < TYPES; k++)
		put_point(t, kind, k, s, (r[0][k].quartile - t->launch) * 1000 / units,
			r[0][k].spread);
}

static void tune_launch(struct tune *t)
{
	graph_fn *const graphs[] = { graph_softmax_8, graph_softmax_1 };
	struct runner r[MOST_VARIANTS][TYPES];

	measure(t, graphs, 2, (struct size){ 1, 1, 1 }, r);
	t->launch = (r[0][0].quartile - r[1][0].quartile) / 7;
	for (int k = 0; k < TYPES; k++)
		put_point(
			t, "launch", k, (struct size){ 1, 1, 1 }, t->launch * 1000, r[1][0].spread);
}

static void tune_products(struct tune *t)
{
	static const int64_t rows[] = { 1, 16, 49, 196, 784, 3136, 12544 },
			     columns[] = { 16, 96, 320, 1024 }, depth[] = { 32, 144, 576, 2304 };
	const double most = 2e8;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (size_t j = 0; j < sizeof columns / sizeof *columns; j++)
			for (size_t k = 0; k < sizeof depth / sizeof *depth; k++) {
				struct size s = { rows[i], columns[j], depth[k] };
				double units = (double)s.x * (double)s.y * (double)s.z;
				if (units <= most)
					tune_alone(t, "product", graph_product, s, s, units);
			}
}

static void tune_packing(struct tune *t)
{
	static const int64_t side[] = { 64, 256, 1024 };
	graph_fn *const graphs[] = { graph_product_of_inputs, graph_product };
	struct runner r[MOST_VARIANTS][TYPES];

	for (size_t i = 0; i < sizeof side / sizeof *side; i++) {
		double units = (double)side[i] * (double)side[i];
		measure(t, graphs, 2, (struct size){ 16, side[i], side[i] }, r);
		for (int k = 0; k < TYPES; k++)
			put_point(t, "pack", k, (struct size){ side[i] * side[i], 1, 1 },
				(r[0][k].quartile - r[1][k].quartile) * 1000 / units,
				r[0][k].spread);
	}
}

/* The difference between a matrix that no cache holds and one that the second level holds, per
 * byte. */
static void tune_weights(struct tune *t)
{
	graph_fn *const graphs[] = { graph_product };
	struct runner large[MOST_VARIANTS][TYPES], small[MOST_VARIANTS][TYPES];
	const double ratio = 4096.0 * 4096 / (512 * 512);

	measure(t, graphs, 1, (struct size){ 1, 512, 512 }, small);
	measure(t, graphs, 1, (struct size){ 1, 4096, 4096 }, large);
	for (int k = 0; k < TYPES; k++)
		put_point(t, "weights", k, (struct size){ 1, 1, 1 },
			(large[0][k].quartile - (small[0][k].quartile - t->launch) * ratio) * 1000 /
				(4096.0 * 4096 * (double)ht_dtype_bytes(types[k].dtype)),
			large[0][k].spread);
}

static void tune_images(struct tune *t)
{
	static const struct size images[] = { { 7, 320, 0 }, { 14, 192, 0 }, { 28, 144, 0 },
		{ 56, 96, 0 }, { 112, 64, 0 } };

	for (size_t i = 0; i < sizeof images / sizeof *images; i++)
		for (int64_t side = 3; side <= 7; side += 2) {
			struct size s = images[i];
			int64_t elements = s.x * s.x * s.y;
			s.z = side;
			tune_alone(t, "depthwise", graph_depthwise, s,
				(struct size){ side * side, elements, 1 },
				(double)(elements * side * side));
		}
	for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
		int64_t elements = images[i].x * images[i].x * images[i].y;
		int64_t side = (images[i].x - 3) / 2 + 1, pooled = side * side * images[i].y;
		tune_alone(t, "columns", graph_mean, images[i], (struct size){ elements, 1, 1 },
			(double)elements);
		tune_alone(t, "pool", graph_pool, images[i], (struct size){ pooled, 1, 1 },
			9 * (double)pooled);
	}
}

/* A function in place of an addition, which takes `map` nanoseconds.  The rounding of its
 * result, `round`, waits for arithmetic, but that of a sum waits for memory, so it is not part
 * of the function's cost. */
static void tune_function(
	struct tune *t, const char *kind, graph_fn *function, double map, const double round[TYPES])
{
	graph_fn *const graphs[] = { graph_sum, function };
	struct runner r[MOST_VARIANTS][TYPES];
	const double n = 1 << 13;

	measure(t, graphs, 2, (struct size){ 1 << 13, 1, 1 }, r);
	for (int k = 0; k < TYPES; k++)
		put_point(t, kind, k, (struct size){ 1, 1, 1 },
			(map + (r[1][k].quartile - r[0][k].quartile) / n - round[k]) * 1000,
			r[1][k].spread);
}

/* Loads and stores, from sums of one and of four operands; the cost of an addition and of a
 * rounding. */
static void tune_elements(struct tune *t)
{
	static const int64_t counts[] = { 1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22 };
	graph_fn *const graphs[] = { graph_sum, graph_sum_of_4, graph_sum_8 };
	struct runner r[MOST_VARIANTS][TYPES];
	const double n = 1 << 13;
	double map, round[TYPES];

	measure(t, graphs, 3, (struct size){ 1 << 13, 1, 1 }, r);
	map = (r[2][0].quartile - r[0][0].quartile) / 7 / n;
	for (int k = 0; k < TYPES; k++) {
		round[k] = (r[2][k].quartile - r[0][k].quartile) / 7 / n - map;
		put_point(t, "map", k, (struct size){ 1, 1, 1 }, map * 1000, r[2][k].spread);
		put_point(t, "round", k, (struct size){ 1, 1, 1 }, round[k] * 1000, r[2][k].spread);
	}
	tune_function(t, "function", graph_tanh, map, round);
	tune_function(t, "gelu", graph_gelu, map, round);
	tune_function(t, "silu", graph_silu, map, round);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct size s = { counts[i], 1, 1 };
		double units = (double)counts[i];
		measure(t, graphs, 2, s, r);
		for (int k = 0; k < TYPES; k++) {
			double all = (r[0][k].quartile - t->launch) / units - map;
			double load = ((r[1][k].quartile - r[0][k].quartile) / units - 2 * map) / 3;
			load = load < 0 ? 0 : load > 0.75 * all ? 0.75 * all : load;
			put_point(t, "load", k, s, load * 1000, r[1][k].spread);
			put_point(t, "store", k, s, (all - load) * 1000, r[0][k].spread);
		}
	}
}

static void tune_rest(struct tune *t)
{
	static const int64_t counts[] = { 1 << 12, 1 << 15, 1 << 18, 1 << 21 };

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct size s = { counts[i], 1, 1 };
		double units = (double)counts[i];
		tune_alone(
			t, "rows", graph_softmax, (struct size){ counts[i] / 256, 1, 1 }, s, units);
		tune_alone(
			t, "move", graph_reverse, (struct size){ counts[i] / 64, 1, 1 }, s, units);
		tune_alone(t, "widen", graph_widen, s, s, units);
		tune_alone(t, "narrow", graph_narrow, s, s, units);
	}
}

/* ---- the table ---- */

static void put_machine(struct text *out)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[256], *value;

	while (f && fgets(line, sizeof line, f)) {
		value = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !value)
			continue;
		value[strcspn(value, "#\n")] = 0;
		text_printf(out, "machine%s\n", value + 1);
		break;
	}
	if (f)
		fclose(f);
}

static void put_head(struct tune *t, const char *target)
{
	char date[16];
	time_t now = time(NULL);
	struct tm utc;

	gmtime_r(&now, &utc);
	strftime(date, sizeof date, "%Y-%m-%d", &utc);
	text_printf(&t->out, "halftone.costs/1\ntarget %s\n", target);
	put_machine(&t->out);
	text_printf(&t->out,
		"date %s\n# kind type size size size picoseconds-a-unit median-over-lower-quartile-less-1\n",
		date);
}

/* The name of the target for which code is made, which "host" stands for. */
static enum ht_status find_target(struct tune *t, char *name, size_t size)
{
	struct runner r = { 0 };
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	enum ht_status st = open_runner(t, graph_tanh, 0, (struct size){ 16, 1, 1 }, &r);

	if (st == HT_OK) {
		ht_program_about(r.program, &info);
		snprintf(name, size, "%s", info.target);
	}
	close_runner(&r);
	return st;
}

static enum ht_status write_rates(struct cli *c)
{
	struct ht_bytes rates;
	enum ht_status st;

	if (option(c, OPTION_TARGET, NULL))
		return fail(HT_E_USAGE,
			"rates are measured of this machine: --target goes with --costs");
	st = ht_measure_rates(c->diags, &rates);
	if (st == HT_OK)
		st = ht_file_write(option(c, OPTION_OUTPUT, "-"), rates.p, rates.n, c->diags);
	ht_bytes_free(&rates);
	return st;
}

enum ht_status verb_tune(struct cli *c)
{
	struct tune t = { .c = c };
	char target[64];

	if (!option_on(c, OPTION_COSTS))
		return write_rates(c);
	t.st = find_target(&t, target, sizeof target);
	if (t.st == HT_OK)
		put_head(&t, target);
	tune_launch(&t);
	tune_elements(&t);
	tune_rest(&t);
	tune_images(&t);
	tune_packing(&t);
	tune_products(&t);
	tune_weights(&t);
	if (t.st == HT_OK)
		t.st = ht_file_write(option(c, OPTION_OUTPUT, "-"), t.out.p, t.out.n, c->diags);
	free(t.out.p);
	return t.st;
}
