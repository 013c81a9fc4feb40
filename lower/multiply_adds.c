/* The multiply-adds of contractions, for `inspect` and for costs.  Positions in the padding
 * count too. */
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

bool ht_is_depthwise(const struct ht_node *n)
{
	const bool first = ht_channels_first(n);

	return ht_is(n, HT_DEPTHWISE) ||
	       (ht_is(n, HT_CONV) && shape_of(n, 0).rank == 4 && shape_of(n, 1).rank == 4 &&
		       shape_of(n, 1).dim[2] == 1 && shape_of(n, 0).dim[first ? 1 : 3] > 1);
}

/* The positions of the filter (elements of the result or, for a transposed convolution, of its
 * image), times the filter's height and width and the number of channels that are summed. */
static int64_t convolution(const struct ht_node *n)
{
	struct ht_shape filter = shape_of(n, 1);
	struct ht_shape at =
		ht_is(n, HT_CONV_TRANSPOSE) ? shape_of(n, ht_data_operand(n)) : n->out[0].shape;

	if (filter.rank != 4)
		return 0;
	return product(
		product(ht_shape_count(at), product(known(filter.dim[0]), known(filter.dim[1]))),
		ht_is(n, HT_DEPTHWISE) ? 1 : known(filter.dim[2]));
}

/* The elements of the filter, once for each position of the filter. */
static int64_t filter_gradient(const struct ht_node *n)
{
	struct ht_shape at = shape_of(n, 2);
	bool first = ht_channels_first(n);

	if (n->out[0].shape.rank != 4 || at.rank != 4)
		return 0;
	return product(ht_shape_count(n->out[0].shape),
		product(known(at.dim[0]),
			product(known(at.dim[first ? 2 : 1]), known(at.dim[first ? 3 : 2]))));
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

int32_t ht_packed_operand(const struct ht_node *n)
{
	return ht_is(n, HT_CONV_FILTER) ? 2 : 1;
}

int64_t ht_multiply_adds(const struct ht_node *n)
{
	if (ht_is(n, HT_MATRIX_PRODUCT))
		return matrix_product(n, ht_is(n, HT_MATMUL) ? "transpose_a" : "adj_x");
	if (ht_is(n, HT_EINSUM))
		return einsum(n);
	if (ht_is(n, HT_CONVOLVES))
		return convolution(n);
	if (ht_is(n, HT_CONV_FILTER))
		return filter_gradient(n);
	return 0;
}
