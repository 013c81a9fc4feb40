/* In which order the axes of a tensor lie in memory, in programs with open sizes within bounds.
 *
 * Every tensor has the extents of the largest sizes.  If an axis that ends at the run's size lies behind others, as in [heads, length,
 * width], the elements of a run are in several blocks, which begin where they do at the largest sizes.  Other buffers cannot be placed
 * between these blocks.  In the order [length, heads, width] the elements of a run are one block, which begins where the tensor does.
 * Only products of matrices and transposes read tensors in such an order, since they read it as fast as the order of the axes. */
#include "lower/index.h"
#include "lower/order.h"

#include <string.h>

/* Whether the leading dimensions of both operands number the same matrices, so that the product takes these one by one. */
static bool is_product_of_matrices(const struct ht_node *n)
{
	struct ht_shape out = n->outs ? n->out[0].shape : HT_SHAPE_SCALAR;

	if (!ht_is(n, HT_MATRIX_PRODUCT) || out.rank < 3)
		return false;
	for (int i = 0; i < 2; i++) {
		struct ht_shape in = shape_of(n, i);

		if (in.rank != out.rank ||
			memcmp(in.dim, out.dim, (size_t)(out.rank - 2) * sizeof *in.dim) != 0)
			return false;
	}
	return true;
}

static bool is_transpose_of_rows(const struct ht_node *n)
{
	int32_t last = shape_of(n, 0).rank - 1;

	return ht_axes(n) == HT_AXES_PERMUTED && last >= 0 && is_const_ints(n, 1) &&
	       axis_of(const_int(n, 1, (size_t)last), last + 1) == last;
}

/* Loops without a root, and products of matrices, have an index for each axis that is not merged with the next one in memory.  Other
 * roots have one for all rows of a tensor. */
static bool makes_any_order(const struct ht_node *root)
{
	return !root || is_product_of_matrices(root);
}

static bool takes_any_order(const struct ht_use *u)
{
	return u->arg < 0 || is_product_of_matrices(u->node) ||
	       (u->arg == 0 && is_transpose_of_rows(u->node));
}

static bool all_take_any_order(const struct lower *l, const struct ht_node *n)
{
	if (n->outs != 1 || l->uses.is_output[n->id] || l->planning->observed)
		return false;
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (!takes_any_order(u))
			return false;
	return true;
}

/* The axes of a tensor in the order in which they lie in memory: those that end at the sizes of the run first, and the innermost axis,
 * along which kernels load and store vectors, always last. */
static void order_axes(
	const struct lower *l, struct ht_value v, int32_t rank, int32_t order[HT_LOWER_RANK])
{
	int32_t n = 0;

	for (int open = 1; open >= 0; open--)
		for (int32_t i = 0; i + 1 < rank; i++)
			if (lower_ends_with_run(l, v, i) == (open == 1))
				order[n++] = i;
	order[n] = rank - 1;
}

void lower_order_axes(const struct lower *l, struct ht_value v, struct view *view)
{
	const struct ht_node *n = v.node;
	int32_t order[HT_LOWER_RANK];
	int64_t stride = 1;

	if (!l->outside || view->rank < 3 || !makes_any_order(l->root[n->id]) ||
		!all_take_any_order(l, n))
		return;
	order_axes(l, v, view->rank, order);
	for (int32_t i = view->rank - 1; i >= 0; i--) {
		view->stride[order[i]] = stride;
		stride *= view->dim[order[i]];
	}
}
