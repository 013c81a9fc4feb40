/* How long a policy takes to decide, and what memory it needs.
 *
 *   build/bench/policy POLICY MODEL              a model file, after clean-up
 *   build/bench/policy POLICY --nodes N [--random]
 *
 * Without a model the graph is made: blocks of a transformer and of a convolutional network in turn, each
 * ended by a black op, so that regions of free nodes are bounded.  With --random every node takes
 * operands from anywhere among the last thousand, and regions have no bound. */
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "passes/passes.h"
#include "passes/precision/precision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct made {
	struct ht_graph *g;
	struct ht_node *weights, *bias, *filter;
	struct ht_node *recent[1024];
	size_t n;
	uint64_t state;
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of the process, at its peak. */
static double peak_bytes(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_maxrss * 1024;
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

static struct ht_node *add(struct made *m, const char *type, struct ht_node *x, struct ht_node *y)
{
	struct ht_node *n =
		ht_node_new(m->g, ht_str(type), ht_str_printf(m->g->arena, "n%zu", m->n));
	struct ht_value in[] = { ht_out(x, 0), { 0 } };

	if (y)
		in[1] = ht_out(y, 0);
	ht_node_set_ins(n, in, y ? 2 : 1);
	ht_attr_set_type(n, "T", HT_F32);
	ht_node_set_outs(n, 1);
	m->recent[m->n++ % HT_COUNT(m->recent)] = n;
	return n;
}

static struct ht_node *transformer_block(struct made *m, struct ht_node *x)
{
	struct ht_node *q = add(m, "BiasAdd", add(m, "MatMul", x, m->weights), m->bias);
	struct ht_node *k = add(m, "BiasAdd", add(m, "MatMul", x, m->weights), m->bias);
	struct ht_node *s = add(m, "Softmax", add(m, "MatMul", q, k), NULL);
	struct ht_node *r = add(m, "AddV2", add(m, "MatMul", s, m->weights), x);
	struct ht_node *h =
		add(m, "Tanh", add(m, "BiasAdd", add(m, "MatMul", r, m->weights), m->bias), NULL);

	return add(m, "Log", add(m, "AddV2", add(m, "MatMul", h, m->weights), r), NULL);
}

static struct ht_node *residual_block(struct made *m, struct ht_node *x)
{
	struct ht_node *h = x;

	for (int i = 0; i < 3; i++)
		h = add(m, "Relu", add(m, "BiasAdd", add(m, "MatMul", h, m->weights), m->bias),
			NULL);
	return add(m, "Log", add(m, "Relu", add(m, "AddV2", h, x), NULL), NULL);
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
	fputs("usage: policy POLICY (MODEL | --nodes N [--random])\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct ht_arena arena, scratch;
	struct ht_diags d;
	struct ht_policy policy;
	struct ht_decisions decisions = { .arena = &arena };
	struct ht_pass_context c = { .scratch = &scratch,
		.diags = &d,
		.policy = &policy,
		.decisions = &decisions,
		.target = ht_target_named("x86-64-v4+bf16") };
	struct ht_graph *g;
	size_t nodes;
	double start, before;

	if (argc < 3)
		return usage();
	ht_arena_init(&arena, NULL);
	ht_arena_init(&scratch, NULL);
	ht_diags_init(&d);
	start = seconds();
	if (strcmp(argv[2], "--nodes") != 0) {
		if (ht_import(&arena, argv[2], NULL, &d, &g) != HT_OK)
			return fail(&d, "cannot import");
	} else {
		if (argc < 4)
			return usage();
		g = make_graph(&arena, strtoul(argv[3], NULL, 10), argc > 4);
	}
	c.entry = g->entries;
	printf("nodes %zu  import %.1f ms\n", g->nodes, 1e3 * (seconds() - start));
	if (ht_policy_init(&policy, argv[1], &d) != HT_OK)
		return fail(&d, "no policy");
	if (ht_run_passes(g, strcmp(argv[2], "--nodes") ? ht_pipeline_cleanup : "infer", NULL,
		    &c) != HT_OK)
		return fail(&d, "cannot clean up");
	nodes = g->nodes;
	before = peak_bytes();
	start = seconds();
	if (ht_run_passes(g, "precision", NULL, &c) != HT_OK)
		return fail(&d, "cannot decide");
	printf("decided %.1f ms on %zu nodes: %zu of %zu low, %zu casts\n",
		1e3 * (seconds() - start), nodes, decisions.low_nodes, decisions.float_nodes,
		decisions.casts);
	printf("%.0f bytes a node more than before\n", (peak_bytes() - before) / (double)nodes);
	if (decisions.certificate)
		printf("free %u  regions %u  largest %u  iterates %u  winner %.*s\n",
			decisions.certificate->free_nodes, decisions.certificate->regions,
			decisions.certificate->largest_region, decisions.certificate->iterates,
			HT_STR_ARG(decisions.certificate->winner));
	ht_policy_release(&policy);
	ht_diags_release(&d);
	ht_arena_release(&scratch);
	ht_arena_release(&arena);
	return 0;
}
