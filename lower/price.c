/* Predicts what lowering does with a node, without making its kernel. */
#include "lower/inside.h"

static enum ht_work_of_node loop_of(const struct ht_node *n)
{
	if (ht_is(n, HT_REDUCES | HT_FINDS))
		return HT_NODE_REDUCTION;
	return ht_is(n, HT_POOLS) ? HT_NODE_POOL : HT_NODE_LOOP;
}

enum ht_work_of_node ht_work_of_node(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	if (!op)
		return HT_NODE_UNKNOWN;
	switch (op->family) {
	case FAMILY_NOTHING:
	case FAMILY_SOURCE:
		return HT_NODE_NOTHING;
	case FAMILY_MAP:
		return HT_NODE_ELEMENTS;
	case FAMILY_VIEW:
		return HT_NODE_VIEW;
	case FAMILY_ROOT:
		return loop_of(n);
	}
	return HT_NODE_UNKNOWN;
}

int32_t ht_viewed_operand(const struct ht_node *view)
{
	return lower_op_of(view)->view_arg;
}

bool ht_ends_kernel(const struct ht_node *n, const struct ht_node *kernel)
{
	while (kernel != n && ht_is_view(kernel) && kernel->ins)
		kernel = kernel->in[ht_viewed_operand(kernel)].node;
	return kernel == n;
}

bool ht_rounds_once(const struct ht_node *root)
{
	return root && ht_is(root, HT_CONTRACTS);
}

bool ht_converts_operand(const struct ht_node *n, int32_t arg)
{
	const struct lower_op *op = lower_op_of(n);

	if (!op || op->family == FAMILY_ROOT || op->takes)
		return op && op->takes && op->takes(n, arg);
	return true;
}

int ht_updated_variables(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return op && !n->outs ? op->variables : 0;
}
