/* The time that a policy takes to decide, and the memory that it needs; bench/policy runs it.
 *
 *   policy POLICY MODEL [--as-is]            prints one line of JSON; --as-is: without clean-up
 *   policy --write FILE.pb NODES [--random]  generates a graph
 *
 * A generated graph consists of blocks of BERT and of MobileNetV2 in turn, each ended by a black
 * op, so that regions of undecided nodes are bounded.  With --random every node takes operands from
 * anywhere among the last thousand, and regions have no bound. */
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "passes/passes.h"
#include "precision/precision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct made {
	struct ht_graph *g;
	struct ht_node *weights, *bias, *filter, *taps, *epsilon, *axis, *image, *matrix;
	struct ht_node *recent[1024];
	size_t n;
	uint64_t state;
};

/* Peak memory of the process. */
static double peak_bytes(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_maxrss * 1024;
}

static struct ht_node *ints(struct made *m, const char *name, int64_t n, const int32_t *v)
{
	struct ht_blob *b = ht_blob_new(sizeof *v * (size_t)n);

	memcpy((void *)(uintptr_t)b->p, v, sizeof *v * (size_t)n);
	return ht_const_new(m->g, ht_str(name), HT_I32, ht_shape_make(m->g->arena, 1, &n), b);
}

static uint32_t below(struct made *m, uint32_t n)
{
	m->state = m->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(m->state >> 33) % n;
}

static struct ht_node *new_const(struct made *m, const char *name, int32_t rank, const int64_t *dim)
{
	struct ht_shape s = ht_shape_make(m->g->arena, rank, dim);

	return ht_const_new(
		m->g, ht_str(name), HT_F32, s, ht_blob_new(4 * (size_t)ht_shape_count(s)));
}

static void set_inputs(struct made *m, struct ht_node *n, struct ht_node *const *from, int32_t ins)
{
	struct ht_value in[8];

	for (int32_t i = 0; i < ins; i++)
		in[i] = ht_out(from[i], 0);
	ht_node_set_ins(n, in, ins);
	ht_attr_set_type(n, "T", HT_F32);
	ht_node_set_outs(n, 1);
	m->recent[m->n++ % HT_COUNT(m->recent)] = n;
}

static struct ht_node *add(struct made *m, const char *type, struct ht_node *x, struct ht_node *y)
{
	struct ht_node *n =
		ht_node_new(m->g, ht_str(type), ht_str_printf(m->g->arena, "n%zu", m->n));

	set_inputs(m, n, (struct ht_node *[]){ x, y }, y ? 2 : 1);
	return n;
}

static struct ht_node *mean(struct made *m, struct ht_node *x)
{
	struct ht_node *n = add(m, "Mean", x, m->axis);

	ht_attr_set_type(n, "Tidx", HT_I32);
	ht_attr_set_bool(n, "keep_dims", true);
	return n;
}

static struct ht_node *reshape(struct made *m, struct ht_node *x, struct ht_node *shape)
{
	struct ht_node *n = add(m, "Reshape", x, shape);

	ht_attr_set_type(n, "Tshape", HT_I32);
	return n;
}

static struct ht_node *dense(struct made *m, struct ht_node *x)
{
	return add(m, "BiasAdd", add(m, "MatMul", x, m->weights), m->bias);
}

static struct ht_node *layer_norm(struct made *m, struct ht_node *x)
{
	struct ht_node *middle = mean(m, x),
		       *spread = mean(m, add(m, "SquaredDifference", x, middle));
	struct ht_node *scale =
		add(m, "Mul", add(m, "Rsqrt", add(m, "AddV2", spread, m->epsilon), NULL), m->bias);

	return add(m, "AddV2", add(m, "Mul", x, scale),
		add(m, "Sub", m->bias, add(m, "Mul", middle, scale)));
}

/* An encoder layer of BERT, with one head. */
static struct ht_node *transformer_block(struct made *m, struct ht_node *x)
{
	struct ht_node *score = add(m, "Softmax",
		add(m, "Mul", add(m, "MatMul", dense(m, x), dense(m, x)), m->epsilon), NULL);
	struct ht_node *heads = add(m, "MatMul", score, dense(m, x));
	struct ht_node *y = layer_norm(m, add(m, "AddV2", dense(m, heads), x)), *h = dense(m, y);
	struct ht_node *gelu = add(m, "Mul", h,
		add(m, "AddV2", add(m, "Erf", add(m, "Mul", h, m->epsilon), NULL), m->epsilon));

	return add(m, "Log", layer_norm(m, add(m, "AddV2", dense(m, gelu), y)), NULL);
}

static struct ht_node *batch_norm(struct made *m, struct ht_node *x)
{
	struct ht_node *n = ht_node_new(
		m->g, HT_STR("FusedBatchNormV3"), ht_str_printf(m->g->arena, "n%zu", m->n));

	set_inputs(m, n, (struct ht_node *[]){ x, m->bias, m->bias, m->bias, m->bias }, 5);
	ht_attr_set_type(n, "U", HT_F32);
	ht_attr_set_bool(n, "is_training", false);
	ht_node_set_outs(n, 6);
	return n;
}

static struct ht_node *convolution(
	struct made *m, const char *type, struct ht_node *x, struct ht_node *filter)
{
	static const int64_t strides[] = { 1, 1, 1, 1 };
	struct ht_node *n = add(m, type, x, filter);

	ht_attr_set_ints(n, "strides", strides, 4);
	ht_attr_set_str(n, "padding", HT_STR("SAME"));
	return batch_norm(m, n);
}

/* An inverted residual of MobileNetV2, on an image of 8 by 8. */
static struct ht_node *residual_block(struct made *m, struct ht_node *x)
{
	struct ht_node *image = reshape(m, x, m->image);
	struct ht_node *wide = add(m, "Relu6", convolution(m, "Conv2D", image, m->filter), NULL);
	struct ht_node *deep =
		add(m, "Relu6", convolution(m, "DepthwiseConv2dNative", wide, m->taps), NULL);
	struct ht_node *y = add(m, "AddV2", convolution(m, "Conv2D", deep, m->filter), image);

	return add(m, "Log", reshape(m, y, m->matrix), NULL);
}

static struct ht_node *recent(struct made *m)
{
	size_t n = m->n < HT_COUNT(m->recent) ? m->n : HT_COUNT(m->recent);

	return m->recent[below(m, (uint32_t)n)];
}

static void random_node(struct made *m)
{
	static const char *const unary[] = { "Relu", "Tanh", "Sigmoid", "Softmax", "Exp" };
	struct ht_node *x = recent(m);

	switch (below(m, 4)) {
	case 0:
		add(m, "MatMul", x, m->weights);
		break;
	case 1:
		add(m, "AddV2", x, recent(m));
		break;
	case 2:
		add(m, "Mul", x, recent(m));
		break;
	default:
		add(m, unary[below(m, HT_COUNT(unary))], x, NULL);
	}
}

static struct ht_graph *make_graph(struct ht_arena *a, size_t nodes, bool random)
{
	static const int64_t square[] = { 64, 64 };
	struct made m = { .g = ht_graph_new(a), .state = 1 };
	struct ht_entry *e = HT_NEW(a, struct ht_entry);
	struct ht_port *out = HT_NEW(a, struct ht_port);
	struct ht_node *x = ht_node_new(m.g, HT_STR("Placeholder"), HT_STR("x"));
	struct ht_attr_value *shape = ht_attr_set(x, "shape");

	shape->kind = HT_ATTR_SHAPE;
	shape->shape.shape = ht_shape_make(a, 2, square);
	ht_attr_set_type(x, "dtype", HT_F32);
	ht_node_set_outs(x, 1);
	m.weights = new_const(&m, "weights", 2, square);
	m.bias = new_const(&m, "bias", 1, square);
	m.filter = new_const(&m, "filter", 4, (const int64_t[]){ 1, 1, 64, 64 });
	m.taps = new_const(&m, "taps", 4, (const int64_t[]){ 3, 3, 64, 1 });
	m.epsilon = new_const(&m, "epsilon", 0, NULL);
	m.axis = ints(&m, "axis", 1, (const int32_t[]){ 1 });
	m.image = ints(&m, "image", 4, (const int32_t[]){ 1, 8, 8, 64 });
	m.matrix = ints(&m, "matrix", 2, (const int32_t[]){ 64, 64 });
	m.recent[m.n++] = x;
	for (int i = 0; m.n < nodes; i++) {
		if (random)
			random_node(&m);
		else
			x = i % 2 ? residual_block(&m, x) : transformer_block(&m, x);
	}
	out->name = HT_STR("out");
	out->value = ht_out(m.g->last, 0);
	e->outputs = out;
	m.g->entries = e;
	return m.g;
}

static int fail(struct ht_diags *d, const char *what)
{
	struct ht_buf b;

	ht_buf_init(&b, &d->arena);
	for (const struct ht_diag *i = d->first; i; i = i->next)
		ht_diag_print(i, &b);
	fprintf(stderr, "%s\n%s\n", what, ht_buf_str(&b).p);
	return 1;
}

static int usage(void)
{
	fputs("usage: policy POLICY MODEL [--as-is]\n"
	      "       policy --write FILE.pb NODES [--random]\n",
		stderr);
	return 2;
}

/* ---- writing a generated graph ---- */

static enum ht_status put(void *file, const void *p, size_t n)
{
	return fwrite(p, 1, n, file) == n ? HT_OK : HT_E_ENVIRONMENT;
}

static int write_graph(const char *path, size_t nodes, bool random)
{
	struct ht_arena arena;
	struct ht_diags d;
	struct ht_graph *g;
	enum ht_status st = HT_E_ENVIRONMENT;
	FILE *f = fopen(path, "wb");

	ht_arena_init(&arena, NULL);
	ht_diags_init(&d);
	g = make_graph(&arena, nodes, random);
	if (f)
		st = ht_export_graphdef_to(g, HT_EXPORT_WIRE, &arena, &d, put, f);
	if (st != HT_OK || fclose(f))
		return fail(&d, path);
	printf("{\"nodes\": %zu, \"output\": \"%.*s\"}\n", g->nodes, HT_STR_ARG(g->last->name));
	ht_diags_release(&d);
	ht_arena_release(&arena);
	return 0;
}

/* ---- deciding ---- */

struct times {
	double wall, cpu;
};

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct times now(void)
{
	return (struct times){ seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID) };
}

static void put_times(const char *what, struct times from)
{
	struct times to = now();

	printf(", \"%s_ms\": %.3f, \"%s_cpu_ms\": %.3f", what, 1e3 * (to.wall - from.wall), what,
		1e3 * (to.cpu - from.cpu));
}

static void put_certificate(const struct ht_certificate *c)
{
	printf(", \"free\": %u, \"regions\": %u, \"largest\": %u, \"iterates\": %u, \"winner\": \"%.*s\"",
		c->free_nodes, c->regions, c->largest_region, c->iterates, HT_STR_ARG(c->winner));
}

/* Import, clean-up and decision, as the library does them; a policy that paints decides on the graph
 * as imported. */
static int decide(const char *name, const char *model, bool as_is)
{
	struct ht_arena arena, scratch;
	struct ht_diags d;
	struct ht_policy policy;
	struct ht_decisions decisions = { .arena = &arena };
	struct ht_precision_request precision = {
		.decider = { ht_precision_decide }, .policy = &policy, .decisions = &decisions
	};
	struct ht_pass_context c = { .scratch = &scratch,
		.diags = &d,
		.decider = &precision.decider,
		.target = ht_target_named("x86-64-v4+bf16") };
	struct ht_graph *g;
	struct times start = now();
	double before;

	ht_arena_init(&arena, NULL);
	ht_arena_init(&scratch, NULL);
	ht_diags_init(&d);
	if (ht_import(&arena, model, NULL, &d, &g) != HT_OK)
		return fail(&d, "cannot import");
	c.entry = g->entries;
	printf("{\"policy\": \"%s\", \"imported\": %zu", name, g->nodes);
	put_times("import", start);
	if (ht_policy_init(&policy, name, &d) != HT_OK)
		return fail(&d, "no policy");
	start = now();
	if (!ht_policy_effective(&policy)->family->paint &&
		ht_run_passes(g, as_is ? "infer" : ht_pipeline_cleanup, NULL, &c) != HT_OK)
		return fail(&d, "cannot clean up");
	put_times("cleanup", start);
	printf(", \"nodes\": %zu", g->nodes);
	before = peak_bytes();
	start = now();
	if (ht_run_passes(g, "precision", NULL, &c) != HT_OK)
		return fail(&d, "cannot decide");
	put_times("decide", start);
	printf(", \"low\": %zu, \"float\": %zu, \"casts\": %zu, \"grown_bytes\": %.0f, \"peak_bytes\": %.0f",
		decisions.low_nodes, decisions.float_nodes, decisions.casts, peak_bytes() - before,
		peak_bytes());
	if (decisions.certificate)
		put_certificate(decisions.certificate);
	puts("}");
	ht_policy_release(&policy);
	ht_diags_release(&d);
	ht_arena_release(&scratch);
	ht_arena_release(&arena);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "--write"))
		return write_graph(argv[2], strtoul(argv[3], NULL, 10), argc > 4);
	if (argc < 3)
		return usage();
	return decide(argv[1], argv[2], argc > 3);
}
