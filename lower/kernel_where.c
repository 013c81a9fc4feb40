/* Where: a library kernel, which computes an open size. */
#include "lower/library.h"

/* A mask of the bits that decide whether an element is zero: for a float, all but its sign. */
static int64_t bits_of(enum ht_dtype t)
{
	uint64_t all = UINT64_MAX >> (64 - 8 * ht_dtype_info(t)->bytes);

	return (int64_t)(ht_is_float(t) ? all >> 1 : all);
}

static enum ht_status emit_where(struct lower *l, struct ht_node *n)
{
	struct ht_type in = *ht_type_of(n->in[0]);
	struct kernel_build k;

	library_kernel(&k, l, "where", 1, 4 + in.shape.rank);
	k.params[0] = ht_shape_count(in.shape);
	k.params[1] = (int64_t)ht_dtype_info(in.dtype)->bytes;
	k.params[2] = bits_of(in.dtype);
	k.params[3] = in.shape.rank;
	for (int32_t i = 0; i < in.shape.rank; i++)
		k.params[4 + i] = in.shape.dim[i];
	kb_arg(&k, dense_operand(l, n, 0), HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	finish_computing(&k, l, n);
	return HT_OK;
}

const struct lower_op lower_where = {
	.family = FAMILY_ROOT, .alone = true, .dense = true, .emit = emit_where
};
