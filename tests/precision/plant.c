/* plant MODEL POLICY N SEED: chooses N nodes of the policy's program at random.  For each of them it compiles the program with a fault in
 * the kernel of that node, which makes the node's own error 4 times its expected error, and prints whether attribution ranks the node
 * first.  Exit code 0: it is so for all of them, and without a fault no node is suspect. */
#include "api/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct planting {
	struct ht_diags *d;
	struct ht_model *m;
	struct ht_policy *policy;
	struct ht_comparison *c;
	struct ht_array *in;
	uint64_t seed;
};

/* A node of the policy's program whose kernel can be compiled with a fault. */
struct position {
	const char *compiled; /* name of the node in the compiled graph */
	size_t number;        /* index in the row's nodes */
	double expected;      /* its expected error */
};

static void fail(const struct planting *p, const char *what)
{
	const struct ht_diag *last = ht_diags_count(p->d) ? p->d->last : NULL;

	fprintf(stderr, "%s: %.*s\n", what, last ? (int)last->text.n : 0, last ? last->text.p : "");
	exit(2);
}

static uint64_t draw(struct planting *p)
{
	p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
	return p->seed >> 33;
}

static void fill(struct planting *p, const struct ht_value_info *v, void *to)
{
	size_t n = v->bytes / ht_dtype_bytes(v->dtype);

	for (size_t i = 0; i < n; i++) {
		double x = (double)(draw(p) % 2001) / 1000 - 1;

		if (v->dtype == HT_F32)
			((float *)to)[i] = (float)x;
		else if (v->dtype == HT_I32)
			((int32_t *)to)[i] = (int32_t)(draw(p) % 2);
		else if (v->dtype == HT_I64)
			((int64_t *)to)[i] = (int64_t)(draw(p) % 2);
		else
			memset(to, 0, v->bytes);
	}
}

/* On machines that sum float16 fast, policy optimal has layers do so, and these err by more than rounding: they are suspect
 * without a fault. */
static int sum_in_float32(struct planting *p, const char *policy)
{
	return strcmp(policy, "optimal") != 0
		       ? 0
		       : ht_policy_set(p->policy, "op_select_implmode", "high_precision", p->d);
}

static void open_all(struct planting *p, const char *path, const char *policy)
{
	struct ht_comparison_options opt = HT_COMPARISON_OPTIONS_INIT;
	const struct ht_program *program;

	if (ht_model_load(path, NULL, p->d, &p->m) || ht_model_set_batch(p->m, 1, p->d) ||
		ht_policy_new(policy, p->d, &p->policy) || sum_in_float32(p, policy) ||
		ht_comparison_new(p->m, &opt, p->d, &p->c) ||
		ht_comparison_add(p->c, policy, p->policy, p->d))
		fail(p, path);
	program = ht_comparison_program(p->c);
	p->in = calloc(program->inputs + 1, sizeof *p->in);
	for (size_t i = 0; i < program->inputs; i++) {
		const struct ht_value_info *v = &program->input[i];

		p->in[i] = (struct ht_array){ calloc(1, v->bytes + 64), v->bytes, v->dtype, v->rank,
			v->dim };
		fill(p, v, p->in[i].data);
	}
}

static struct ht_attribution *attribute(struct planting *p, const char *fault, double by)
{
	struct ht_attribution_of of = ht_comparison_attributes(p->c, p->c->first);
	struct ht_attribution *a;

	of.policy = p->policy;
	of.fault = ht_str(fault);
	of.fault_by = by;
	if (ht_attribution_new(&of, p->d, &a) ||
		ht_attribution_sample(a, "sample 1", p->in, p->c->base.program->inputs, p->d))
		fail(p, "attribution");
	return a;
}

/* A node that only moves elements, or that is a view, does no arithmetic that could be faulty.  The rounding error of fewer than 16
 * elements may by chance be almost 0. */
static bool can_be_wrong(const struct ht_node_error *e)
{
	uint64_t traits = ht_op_traits[ht_op_named(ht_str(e->info.op))];

	return e->elements >= 16 && e->expected.squares > 0 && isfinite(e->expected.squares) &&
	       (e->info.dtype == HT_F16 || e->info.dtype == HT_BF16) && !*e->info.body &&
	       !(traits & (HT_MOVES | HT_RESHAPES | HT_HANDS_ON | HT_FORWARDS));
}

static size_t positions_of(struct planting *p, struct position *to, size_t cap)
{
	struct ht_attribution *a = attribute(p, "", 0);
	const struct ht_node_errors *nodes = &p->c->first->nodes;
	const struct ht_program *alone = a->looked[HT_LOOKED_ALONE].program;
	const struct ht_node_error **rank = ht_nodes_ranked(nodes, &p->c->arena);
	size_t n = 0;

	if (nodes->n && ht_node_excess(rank[0]) >= HT_NODE_SUSPECT) {
		printf("%s is named without a fault\n", rank[0]->info.node);
		exit(1);
	}
	for (size_t i = 0; i < a->tensors && n < cap; i++) {
		const struct ht_node_error *e = a->tensor[i].of;

		if (e && can_be_wrong(e))
			to[n++] = (struct position){
				strdup(alone->tee_place[a->tensor[i].place].compiled),
				(size_t)(e - nodes->of), ht_node_rms(e, &e->expected)
			};
	}
	ht_attribution_free(a);
	return n;
}

/* The fault is independent of the rounding error, so own^2 = expected^2 + fault^2, which is 4^2 expected^2 for a fault of sqrt(15) expected. */
static bool is_named_first(struct planting *p, const struct position *at)
{
	struct ht_attribution *a = attribute(p, at->compiled, sqrt(15) * at->expected);
	const struct ht_node_errors *nodes = &p->c->first->nodes;
	const struct ht_node_error *first = ht_nodes_ranked(nodes, &p->c->arena)[0];
	double excess = ht_node_excess(&nodes->of[at->number]);
	bool named = first == &nodes->of[at->number];

	printf("%s %s: %.3g times", named ? "named" : "MISSED", at->compiled, excess);
	if (!named)
		printf(", first is %s, %.3g times", first->info.node, ht_node_excess(first));
	printf("\n");
	ht_attribution_free(a);
	return named;
}

static void close_all(struct planting *p)
{
	for (size_t i = 0; i < p->c->base.program->inputs; i++)
		free(p->in[i].data);
	free(p->in);
	ht_comparison_free(p->c);
	ht_policy_free(p->policy);
	ht_model_free(p->m);
	ht_diags_free(p->d);
}

int main(int argc, char **argv)
{
	enum { MOST = 2000 };
	static struct position at[MOST];
	struct planting p = { .d = ht_diags_new() };
	size_t wanted, n, named = 0;

	if (argc != 5)
		return 2;
	wanted = (size_t)atoi(argv[3]);
	p.seed = strtoull(argv[4], NULL, 10);
	open_all(&p, argv[1], argv[2]);
	n = positions_of(&p, at, MOST);
	if (n < wanted)
		wanted = n;
	for (size_t i = 0; i < wanted; i++) { /* draws without replacement */
		size_t k = i + (size_t)draw(&p) % (n - i);
		struct position chosen = at[k];

		at[k] = at[i];
		at[i] = chosen;
		named += is_named_first(&p, &chosen);
	}
	printf("%zu of %zu\n", named, wanted);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)at[i].compiled);
	close_all(&p);
	return named == wanted && wanted ? 0 : 1;
}
