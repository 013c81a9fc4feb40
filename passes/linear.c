/* linear: finds the nodes whose results are proportional to a value of a graph.
 *
 * A result is proportional to the value if
 *   - the op adds its operands or only moves elements, and all floating-point operands are proportional or zero;
 *   - the op multiplies, and exactly one operand is proportional;
 *   - the op divides, casts, sums and the like, and its only proportional operand is linear_operand();
 *   - the op computes gradients, and its only proportional operand is the gradient that it receives.
 * Any other node counts as not proportional.  So each node that is found is proportional, but not every proportional node is
 * found. */
#include "passes/linear.h"

#include "passes/rewrite.h"

#include <string.h>

static bool is_float(struct ht_value v)
{
	return v.index >= 0 && v.index < v.node->outs && ht_is_float(ht_type_of(v)->dtype);
}

/* In this file, bit i stands for node i of those passed to ht_linear_in(). linear[id] has the
 * bits of the nodes to which results of node `id` are proportional; it is set for all nodes
 * before the current one. */
static uint64_t bits_of(const uint64_t *linear, struct ht_value v)
{
	return is_float(v) ? linear[v.node->id] : 0;
}

static bool is_zeros_like(const struct ht_node *n)
{
	return ht_is(n, HT_CONSTANT_LIKE) && ht_number(n) == HT_NUMBER_ZERO;
}

/* Whether `v` is a constant zero, which is proportional to every value. */
static bool is_zero(struct ht_value v)
{
	return ht_const_is(v, 0) || is_zeros_like(v.node) ||
	       (ht_is(v.node, HT_LINEAR_SECOND) && ht_const_is(v.node->in[1], 0));
}

bool ht_asks_shape_alone(const struct ht_node *n)
{
	return ht_is(n, HT_TELLS_SHAPE | HT_CONSTANT_LIKE);
}

/* ---- one op ---- */

/* The operand in which the op is linear if all other operands are fixed; -1: none is known. */
static int32_t linear_operand(const struct ht_node *n)
{
	if (ht_is(n, HT_LINEAR_FIRST | HT_LINEAR_SECOND))
		return ht_is(n, HT_LINEAR_SECOND);
	return ht_op_info(n->op)->effects ? -1 : ht_gradient_argument(n->op);
}

static bool adds(const struct ht_node *n)
{
	return ht_is(n, HT_ADDS | HT_ONLY_MOVES | HT_LINEAR_TOGETHER);
}

/* A fused op does not count: it applies other functions to its product. */
static bool multiplies(const struct ht_node *n)
{
	return ht_is(n, HT_MULTIPLIES) || (ht_is(n, HT_CONTRACTS) && !ht_attr_find(n, "fused_ops"));
}

static uint64_t bits_of_node(const uint64_t *linear, const struct ht_node *n)
{
	/* Bits of nodes: to which an operand is proportional, to which several are, and to which
	 * another operand is not. */
	uint64_t scaled = 0, twice = 0, plain = 0;
	int32_t only = linear_operand(n);

	if (ht_asks_shape_alone(n) || !n->outs)
		return 0;
	for (int32_t i = 0; i < n->ins; i++) {
		uint64_t bits = bits_of(linear, n->in[i]);

		twice |= scaled & bits;
		scaled |= bits;
		plain |= is_float(n->in[i]) && !is_zero(n->in[i]) ? ~bits : 0;
	}
	if (adds(n))
		return scaled & ~plain;
	if (multiplies(n))
		return scaled & ~twice;
	return only >= 0 && only < n->ins ? bits_of(linear, n->in[only]) & ~twice : 0;
}

/* ---- the graph ---- */

void ht_linear_in(const struct ht_graph *g, struct ht_node *const *of, size_t n, const bool *fixed,
	uint64_t *linear, size_t *count)
{
	memset(linear, 0, g->ids * sizeof *linear);
	for (size_t i = 0; i < n; i++) {
		linear[of[i]->id] = (uint64_t)1 << i;
		count[i] = 0;
	}
	for (const struct ht_node *at = n ? of[0] : NULL; at; at = at->next) {
		uint64_t bits = linear[at->id] |=
			fixed && fixed[at->id] ? 0 : bits_of_node(linear, at);

		for (; bits; bits &= bits - 1)
			count[__builtin_ctzll(bits)]++;
	}
}
