/* Kernels that are functions of kernel/library.c. */
#include "lower/library.h"

int32_t dense_copy(struct lower *l, const struct ht_node *n, int arg)
{
	const struct view *v = lower_view(l, n->in[arg]);
	struct ht_shape shape = ht_type_of(n->in[arg])->shape;
	struct view copy;

	view_dense(&copy,
		plan_buffer(l, HT_PLAN_TEMP, ht_type_of(n->in[arg])->dtype, view_count(v)), shape);
	emit_copy(l, n, v, &copy);
	return copy.buffer;
}

int32_t dense_operand(struct lower *l, const struct ht_node *n, int arg)
{
	const struct view *v = lower_view(l, n->in[arg]);

	return v->offset == 0 && view_is_dense(v) ? v->buffer : dense_copy(l, n, arg);
}

int32_t distinct_operand(struct lower *l, const struct ht_node *n, int arg)
{
	for (int i = 0; i < arg; i++)
		if (lower_view(l, n->in[i])->buffer == lower_view(l, n->in[arg])->buffer)
			return dense_copy(l, n, arg);
	return dense_operand(l, n, arg);
}

int32_t dense_result(struct lower *l, const struct ht_node *n, int out)
{
	int32_t b = l->view[n->id][out].buffer;

	return b >= 0 ? b
		      : plan_buffer(l, HT_PLAN_TEMP, n->out[out].dtype,
				ht_shape_count(n->out[out].shape));
}

void library_kernel(
	struct kernel_build *k, struct lower *l, const char *name, int64_t tiles, int params)
{
	kb_init(k, l, NULL);
	kb_grid(k, 1, &tiles);
	k->kernel->library = name;
	k->kernel->params = params;
	k->params = HT_NEW_ARRAY(l->arena, int64_t, (size_t)params);
}

/* A kernel that stores one number. */
struct number {
	struct kernel_build k;
	struct view v;
	struct space s;
};

static void begin_number(struct number *x, struct lower *l, enum ht_dtype t)
{
	view_dense(&x->v, plan_buffer(l, HT_PLAN_TEMP, t, 1), HT_SHAPE_SCALAR);
	kb_init(&x->k, l, NULL);
	kb_stage(&x->k, HT_STAGE_LOOP);
	x->s = kb_loop_space(&x->k, 0, NULL, ~0u);
}

static int32_t store_number(struct number *x, const struct ht_node *n, int32_t value)
{
	kb_store(&x->k, &x->v, &x->s, value);
	kb_finish(&x->k, n);
	return x->v.buffer;
}

int32_t number_operand(struct lower *l, const struct ht_node *n, float value)
{
	struct number x;

	begin_number(&x, l, HT_F32);
	return store_number(&x, n, ht_xk(&x.k.xb, HT_F32, (double)value));
}

int32_t rows_operand(struct lower *l, const struct ht_node *n, int32_t axis)
{
	struct number x;

	begin_number(&x, l, HT_I64);
	return store_number(&x, n, kb_extent(&x.k, n, axis, ht_type_of(n->in[0])->shape));
}

void finish_computing(struct kernel_build *k, struct lower *l, struct ht_node *n)
{
	kb_arg(k, plan_buffer(l, HT_PLAN_TEMP, HT_I64, 1), HT_BUFFER_OUT);
	kb_finish(k, n);
	l->plan->step[l->plan->steps - 1].computes = ht_computed_size(l->g, n);
}

/* ---- top k ---- */

/* Memory for indices as I32: the result's, or a buffer that is converted into the result. */
static struct view indices_of_top_k(struct lower *l, const struct ht_node *n)
{
	struct ht_shape shape = n->out[1].shape;
	struct view v;

	view_dense(&v,
		n->out[1].dtype == HT_I32
			? dense_result(l, n, 1)
			: plan_buffer(l, HT_PLAN_TEMP, HT_I32, ht_shape_count(shape)),
		shape);
	return v;
}

static enum ht_status emit_top_k(struct lower *l, struct ht_node *n)
{
	struct ht_type in = *ht_type_of(n->in[0]);
	int64_t columns = in.shape.dim[in.shape.rank - 1],
		k_best = n->out[0].shape.dim[in.shape.rank - 1];
	const struct view *given = &l->view[n->id][1];
	struct view indices;
	struct kernel_build k;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	indices = indices_of_top_k(l, n);
	library_kernel(&k, l, "top_k", ht_shape_count(in.shape) / columns, 4);
	k.params[0] = k.kernel->grid[0];
	k.params[1] = columns;
	k.params[2] = k_best;
	k.params[3] = in.dtype;
	kb_arg(&k, dense_operand(l, n, 0), HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_arg(&k, indices.buffer, HT_BUFFER_OUT);
	kb_finish(&k, n);
	if (given->buffer >= 0 && given->buffer != indices.buffer)
		emit_copy(l, n, &indices, given);
	return HT_OK;
}

static const char *refuse_top_k(const struct ht_node *n)
{
	return n->out[0].dtype == HT_BOOL ? "has no kernel for this dtype" : NULL;
}

const struct lower_op lower_top_k = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_top_k,
	.refuse = refuse_top_k };

/* ---- sparse to dense ---- */

static enum ht_status emit_sparse_to_dense(struct lower *l, struct ht_node *n)
{
	struct ht_shape out = n->out[0].shape, indices = ht_type_of(n->in[0])->shape;
	struct kernel_build k;

	if (ht_shape_count(out) == 0)
		return HT_OK;
	library_kernel(&k, l, "sparse_to_dense", 1, 5 + out.rank);
	k.params[0] = indices.rank ? indices.dim[0] : 1;
	k.params[1] = out.rank;
	k.params[2] = (int64_t)ht_dtype_info(ht_type_of(n->in[0])->dtype)->bytes;
	k.params[3] = (int64_t)ht_dtype_info(n->out[0].dtype)->bytes;
	k.params[4] = ht_shape_count(ht_type_of(n->in[2])->shape);
	for (int32_t i = 0; i < out.rank; i++)
		k.params[5 + i] = out.dim[i];
	kb_arg(&k, dense_operand(l, n, 0), HT_BUFFER_IN);
	kb_arg(&k, dense_operand(l, n, 2), HT_BUFFER_IN);
	kb_arg(&k, dense_operand(l, n, 3), HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

/* A kernel's arguments are identified by their buffers, so one buffer cannot be two of them. */
static const char *refuse_sparse_to_dense(const struct ht_node *n)
{
	return ht_value_eq(n->in[2], n->in[3]) || ht_value_eq(n->in[0], n->in[2]) ||
			       ht_value_eq(n->in[0], n->in[3])
		       ? "takes one tensor twice, which has no kernel"
		       : NULL;
}

const struct lower_op lower_sparse_to_dense = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_sparse_to_dense,
	.refuse = refuse_sparse_to_dense };
