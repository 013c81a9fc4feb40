/* linear: what is proportional to one value of a graph.
 *
 * Gradients are: an op of gradients is linear in the argument that TensorFlow names after the gradient that it takes.  Of other ops
 * sums are, where all their operands are, and so are moves of elements; products where one operand is; quotients where the dividend
 * is.  A node that no rule knows is not, so that what is said here holds, though not all that could be said. */
#include "passes/linear.h"

#include "passes/rewrite.h"

struct linear {
	bool *is; /* by node id */
};

static bool is_float(struct ht_value v)
{
	return v.index >= 0 && v.index < v.node->outs && ht_is_float(ht_type_of(v)->dtype);
}

static bool has(const struct linear *x, struct ht_value v)
{
	return x->is[v.node->id] && is_float(v);
}

/* Zero is proportional to everything. */
static bool is_zero(struct ht_value v)
{
	return ht_const_is(v, 0) || v.node->op == HT_OP_ZerosLike ||
	       (v.node->op == HT_OP_Fill && ht_const_is(v.node->in[1], 0));
}

bool ht_asks_shape_alone(const struct ht_node *n)
{
	return ht_is(n, HT_TELLS_SHAPE) || n->op == HT_OP_ZerosLike || n->op == HT_OP_OnesLike;
}

/* ---- one op ---- */

/* The argument that is a gradient by its name; -1: there is none. */
static int32_t gradient_operand(const struct ht_node *n)
{
	static const char *const names[] = { "gradients", "dy", "grad", "grads", "out_backprop",
		"y_backprop", "input_grads" };
	const struct ht_op_info *info = ht_op_info(n->op);

	if (n->op == HT_OP_OPAQUE || info->effects)
		return -1;
	for (int i = 0; i < info->args; i++)
		for (size_t k = 0; k < HT_COUNT(names); k++)
			if (ht_str_is(info->arg[i].name, names[k]))
				return i;
	return -1;
}

/* The operand in which the op is linear, whatever the others are; -1: there is no such one. */
static int32_t linear_operand(const struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_Neg:
	case HT_OP_Cast:
	case HT_OP_RealDiv:
	case HT_OP_Sum:
	case HT_OP_Mean:
	case HT_OP_Cumsum:
	case HT_OP_UnsortedSegmentSum:
		return 0;
	case HT_OP_Fill:
	case HT_OP_ScatterNd:
		return 1;
	default:
		return gradient_operand(n);
	}
}

static bool adds(const struct ht_node *n)
{
	return ht_is(n, HT_ADDS | HT_ONLY_MOVES) || n->op == HT_OP_Sub || n->op == HT_OP_AddN ||
	       n->op == HT_OP_AccumulateNV2 || n->op == HT_OP_DynamicStitch;
}

/* A fused op has more behind its product. */
static bool multiplies(const struct ht_node *n)
{
	return n->op == HT_OP_Mul || (ht_is(n, HT_CONTRACTS) && !ht_attr_find(n, "fused_ops"));
}

static bool is_linear(const struct linear *x, const struct ht_node *n)
{
	int32_t linear = 0, plain = 0, only = linear_operand(n);

	if (ht_asks_shape_alone(n))
		return false;
	for (int32_t i = 0; i < n->ins; i++) {
		linear += has(x, n->in[i]);
		plain += is_float(n->in[i]) && !has(x, n->in[i]) && !is_zero(n->in[i]);
	}
	if (!linear || !n->outs)
		return false;
	if (adds(n))
		return !plain;
	if (multiplies(n))
		return linear == 1;
	return linear == 1 && only >= 0 && only < n->ins && has(x, n->in[only]);
}

/* ---- the graph ---- */

bool *ht_linear_in(const struct ht_graph *g, struct ht_value v, struct ht_arena *a, size_t *count)
{
	struct linear x = { HT_NEW_ARRAY(a, bool, g->ids) };
	size_t n = 1;

	x.is[v.node->id] = true;
	for (const struct ht_node *i = v.node->next; i; i = i->next)
		if (is_linear(&x, i)) {
			x.is[i->id] = true;
			n++;
		}
	if (count)
		*count = n;
	return x.is;
}
