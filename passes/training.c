/* training: writes ops that only training uses as elementary ops, which share kernels with their
 * neighbours.
 *
 * These are FusedBatchNorm of training, which normalises by the moments of its batch; its
 * gradients, of training and of inference; SoftmaxCrossEntropyWithLogits and its sparse form,
 * with their gradients; BiasAddGrad; MirrorPadGrad.  All compute in float32, or in float64 if their tensors do,
 * and round once.
 *
 * Runs after the precision pass, since a policy decides on each of them as one op.  Left alone:
 * unknown shapes. */
#include "passes/batch_moments.h"
#include "passes/float_status.h"
#include "passes/softmax_loss.h"

#include "ir/infer.h"

static struct maker maker_for(struct ht_rw *r, struct ht_node *n, enum ht_dtype t)
{
	return (struct maker){ .r = r, .at = n, .name = n->name, .t = t };
}

/* ---- batch normalisation ---- */

/* Whether the shape of operand `image` is known. */
static bool read_known(struct ht_channels *c, struct ht_rw *r, struct ht_node *n, int32_t image)
{
	return ht_channels_read(c, r, n, image) && ht_shape_known(c->shape);
}

static void write_batch_norm(struct ht_rw *r, struct ht_node *n)
{
	struct ht_channels c;

	if (ht_attr_bool(n, "is_training", true) && read_known(&c, r, n, 0) &&
		ht_shape_count(c.shape))
		ht_write_batch_norm(&c);
}

static void write_batch_norm_gradient(struct ht_rw *r, struct ht_node *n)
{
	struct ht_channels c;

	if (read_known(&c, r, n, 1) && ht_shape_count(c.shape))
		ht_write_batch_norm_gradient(&c);
}

static void write_bias_gradient(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value v = n->in[0];
	struct ht_channels c;

	if (!read_known(&c, r, n, 0))
		return;
	if (ht_is_float(n->out[0].dtype))
		v = in_own_type(&c.m, "wide", v);
	give_first(&c.m, ht_channels_sum(&c, "sum", v));
}

/* ---- losses ---- */

/* One in the column of each row's class. */
static struct ht_value one_hot(struct maker *m)
{
	struct ht_shape shape = ht_in_shape(m->at, 0);
	struct ht_value depth = whole(part(m, "depth"), HT_I32, shape.dim[1]), v;
	struct ht_value on = number(part(m, "on"), 1), off = number(part(m, "off"), 0);

	v = made(part(m, "one_hot"), HT_OP_OneHot,
		(struct ht_value[]){ m->at->in[1], depth, on, off }, 4, shape);
	ht_attr_set_int(v.node, "axis", -1);
	return v;
}

/* Whether the shapes of logits and labels are known and fit each other. */
static bool reads_loss(const struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0), y = ht_in_shape(n, 1);

	return x.rank == 2 && ht_shape_known(x) && x.dim[1] != 0 && ht_shape_known(y) &&
	       (n->op == HT_OP_SparseSoftmaxCrossEntropyWithLogits || ht_shape_eq(x, y));
}

static void write_softmax_loss(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = maker_for(r, n, ht_softmax_loss_type(n));

	if (reads_loss(n))
		ht_write_softmax_loss(&m, one_hot);
}

/* ---- mirrored borders ---- */

/* `count` elements along an axis, from `from` on. */
static struct ht_value slice(
	struct maker *m, struct ht_value x, int32_t axis, int64_t from, int64_t count)
{
	struct ht_shape s = ht_type_of(x)->shape;
	int64_t begin[HT_MAX_RANK] = { 0 }, size[HT_MAX_RANK];
	struct ht_value in[3] = { x };

	for (int32_t i = 0; i < s.rank; i++)
		size[i] = i == axis ? count : s.dim[i];
	begin[axis] = from;
	in[1] = wholes(part(m, "begin"), HT_I32, begin, s.rank);
	in[2] = wholes(part(m, "size"), HT_I32, size, s.rank);
	return made(
		part(m, "slice"), HT_OP_Slice, in, 3, ht_shape_make(m->r->g->arena, s.rank, size));
}

/* `border` reversed along an axis, `before` zeros in front of it, and as many behind it as the sum has elements; added to the sum. */
static struct ht_value add_mirrored(
	struct maker *m, struct ht_value sum, struct ht_value border, int32_t axis, int64_t before)
{
	struct ht_shape s = ht_type_of(border)->shape, to = ht_type_of(sum)->shape;
	int64_t around[2 * HT_MAX_RANK] = { 0 }, along = axis, pairs[] = { s.rank, 2 };
	struct ht_value in[2] = { border };

	around[2 * axis] = before;
	around[2 * axis + 1] = to.dim[axis] - s.dim[axis] - before;
	in[1] = wholes(part(m, "axis"), HT_I32, &along, 1);
	in[0] = made(part(m, "mirrored"), HT_OP_ReverseV2, in, 2, s);
	in[1] = wholes(part(m, "around"), HT_I32, around, 2 * (int64_t)s.rank);
	in[1] = reshaped(part(m, "paddings"), in[1], (struct ht_shape){ 2, pairs });
	in[0] = made(part(m, "padded"), HT_OP_Pad, in, 2, to);
	return binary(part(m, "sum"), HT_OP_AddV2, sum, in[0]);
}

static bool is_number(enum ht_dtype t)
{
	enum ht_kind kind = ht_dtype_info(t)->kind;

	return ht_is_float(t) || kind == HT_KIND_INT || kind == HT_KIND_UINT;
}

/* Each axis gets the gradients of its two borders; those of corners are then in the borders of the next axis. */
static void write_mirror_gradient(struct ht_rw *r, struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	struct maker m = maker_for(r, n, ht_is_low(t) ? HT_F32 : t);
	int64_t around[2 * HT_MAX_RANK];
	int64_t edge = !ht_str_is(ht_attr_str(n, "mode", ""), "SYMMETRIC"); /* it is not repeated */
	struct ht_shape s = ht_type_of(n->in[0])->shape;
	struct ht_value v = n->in[0];
	int count;

	if (!ht_shape_known(s) || ht_shape_count(n->out[0].shape) <= 0 ||
		!ht_const_small_ints(n->in[1], around, 2 * HT_MAX_RANK, &count) ||
		count != 2 * s.rank || !is_number(t))
		return;
	v = in_own_type(&m, "wide", v);
	for (int32_t i = 0; i < s.rank; i++) {
		const int64_t before = around[2 * i], after = around[2 * i + 1],
			      size = s.dim[i] - before - after;
		struct ht_value sum = before || after ? slice(&m, v, i, before, size) : v;

		if (before)
			sum = add_mirrored(&m, sum, slice(&m, v, i, 0, before), i, edge);
		if (after)
			sum = add_mirrored(&m, sum, slice(&m, v, i, before + size, after), i,
				size - after - edge);
		v = sum;
	}
	give_first(&m, v);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_FusedBatchNorm:
	case HT_OP_FusedBatchNormV2:
	case HT_OP_FusedBatchNormV3:
		write_batch_norm(r, n);
		return;
	case HT_OP_FusedBatchNormGrad:
	case HT_OP_FusedBatchNormGradV2:
	case HT_OP_FusedBatchNormGradV3:
		write_batch_norm_gradient(r, n);
		return;
	case HT_OP_SoftmaxCrossEntropyWithLogits:
	case HT_OP_SparseSoftmaxCrossEntropyWithLogits:
		write_softmax_loss(r, n);
		return;
	case HT_OP__FloatStatus:
		ht_write_float_status(r, n);
		return;
	case HT_OP_BiasAddGrad:
		write_bias_gradient(r, n);
		return;
	case HT_OP_MirrorPadGrad:
		write_mirror_gradient(r, n);
		return;
	default:
		return;
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_training = {
	.name = "training",
	.summary = "writes losses, batch norm of training and gradients in elementary ops",
	.run = run,
};
