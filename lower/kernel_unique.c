/* The distinct slices of a tensor: a library kernel, which computes an open size. */
#include "lower/index.h"
#include "lower/library.h"

/* The axis whose slices are compared. */
static int32_t slices_of(const struct ht_node *n)
{
	bool none = n->ins < 2 || ht_shape_count(shape_of(n, 1)) == 0;

	return none ? 0 : axis_of(const_int(n, 1, 0), shape_of(n, 0).rank);
}

/* The buffer of how often each slice occurs.  It exists even if no node reads the counts. */
static int32_t counts(struct lower *l, const struct ht_node *n, int64_t most)
{
	return n->outs > 2 ? dense_result(l, n, 2)
			   : plan_buffer(l, HT_PLAN_TEMP, n->out[1].dtype, most);
}

static enum ht_status emit_unique(struct lower *l, struct ht_node *n)
{
	struct ht_shape x = shape_of(n, 0);
	int32_t axis = slices_of(n), in = dense_operand(l, n, 0), rows = rows_operand(l, n, axis);
	struct kernel_build k;

	library_kernel(&k, l, "unique", 1, 5);
	k.params[0] = k.params[2] = 1;
	for (int32_t i = 0; i < x.rank; i++)
		if (i != axis)
			k.params[i < axis ? 0 : 2] *= x.dim[i];
	k.params[1] = x.dim[axis];
	k.params[3] = ht_type_of(n->in[0])->dtype;
	k.params[4] = (int64_t)ht_dtype_info(n->out[1].dtype)->bytes;
	kb_arg(&k, in, HT_BUFFER_IN);
	kb_arg(&k, rows, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_arg(&k, dense_result(l, n, 1), HT_BUFFER_OUT);
	kb_arg(&k, counts(l, n, n->out[0].shape.dim[axis]), HT_BUFFER_OUT);
	finish_computing(&k, l, n);
	return HT_OK;
}

static const char *refuse_unique(const struct ht_node *n)
{
	if (n->ins > 1 && !is_const_ints(n, 1))
		return "needs a constant axis";
	return shape_of(n, 0).dim[slices_of(n)] < INT32_MAX ? NULL
							    : "has more slices than 32 bits count";
}

const struct lower_op lower_unique = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_unique,
	.refuse = refuse_unique };
