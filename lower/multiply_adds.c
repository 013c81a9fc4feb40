/* The arithmetic of contractions, for `inspect` and for costs.  Positions in the padding count. */
#include "ir/einsum.h"
#include "lower/price.h"

static struct ht_shape shape_of(const struct ht_node *n, int arg)
{
	return ht_type_of(n->in[arg])->shape;
}

/* Product, or 0 when it is not known or too large. */
static int64_t product(int64_t a, int64_t b)
{
	int64_t r;

	return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? 0 : r;
}

static int64_t known(int64_t dim)
{
	return dim < 0 ? 0 : dim;
}

/* Elements of `shape` times the filter's height, width and dimension `d`. */
static int64_t convolution(struct ht_shape shape, struct ht_shape filter, int64_t depth)
{
	if (filter.rank != 4)
		return 0;
	return product(
		product(ht_shape_count(shape), product(known(filter.dim[0]), known(filter.dim[1]))),
		known(depth));
}

static int64_t matrix_product(const struct ht_node *n, const char *transpose)
{
	struct ht_shape a = shape_of(n, 0);

	if (a.rank < 2)
		return 0;
	return product(ht_shape_count(n->out[0].shape),
		known(a.dim[ht_attr_bool(n, transpose, false) ? a.rank - 2 : a.rank - 1]));
}

/* The result's elements times the labels that both operands have and the result lacks. */
static int64_t einsum(const struct ht_node *n)
{
	struct ht_shape out = n->out[0].shape;
	bool other[HT_EINSUM_NAMES] = { false }, inner = false;
	int64_t count = ht_shape_count(out);
	struct ht_einsum e;

	if (ht_einsum_read(ht_attr_str(n, "equation", ""), &e) || e.operands != 2 || n->ins != 2)
		return 0;
	for (int32_t i = 0; i < shape_of(n, 1).rank; i++)
		other[ht_einsum_name(&e.in[1], shape_of(n, 1).rank, i)] = true;
	for (int32_t i = 0; i < out.rank; i++)
		other[ht_einsum_name(&e.out, out.rank, i)] = false;
	for (int32_t i = 0; i < shape_of(n, 0).rank; i++) {
		bool *name = &other[ht_einsum_name(&e.in[0], shape_of(n, 0).rank, i)];

		if (*name)
			count = product(count, known(shape_of(n, 0).dim[i]));
		inner = inner || *name;
		*name = false; /* a label counts once */
	}
	return inner ? count : 0;
}

int64_t ht_multiply_adds(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_MatMul:
	case HT_OP__FusedMatMul:
		return matrix_product(n, "transpose_a");
	case HT_OP_BatchMatMul:
	case HT_OP_BatchMatMulV2:
	case HT_OP_BatchMatMulV3:
		return matrix_product(n, "adj_x");
	case HT_OP_Einsum:
		return einsum(n);
	case HT_OP_Conv2D:
	case HT_OP__FusedConv2D:
		return convolution(n->out[0].shape, shape_of(n, 1),
			shape_of(n, 1).rank == 4 ? shape_of(n, 1).dim[2] : 0);
	case HT_OP_DepthwiseConv2dNative:
	case HT_OP_FusedDepthwiseConv2dNative:
		return convolution(n->out[0].shape, shape_of(n, 1), 1);
	case HT_OP_Conv2DBackpropInput:
		return convolution(shape_of(n, 2), shape_of(n, 1),
			shape_of(n, 1).rank == 4 ? shape_of(n, 1).dim[2] : 0);
	default:
		return 0;
	}
}
