/* Ops that only training uses, where the batch or other axes are open, for pass sizes: elementary ops.  These are batch normalisation of
 * training and its gradients, with the number of elements of a channel as the run has it; losses by softmax whose number of classes is open,
 * as where each row of a batch is a class; and gradients of borders that are mirrored along an open axis.  Pass training writes those of known
 * shapes. */
#include "passes/batch_moments.h"
#include "passes/computed_nodes.h"
#include "passes/softmax_loss.h"

/* ---- batch normalisation ---- */

/* Reads images some of whose axes, but not the channels, are open, and makes the number of elements of a channel as the run has it. */
static bool read_open(struct ht_channels *c, struct maker *f, struct ht_node *n, int32_t image)
{
	struct ht_shape s;

	if (!ht_channels_read(c, f->r, n, image) || c->shape.rank != 4)
		return false;
	s = c->shape;
	if (ht_shape_known(s) || s.dim[c->axis] == 0 || !is_bounded_shape(f->r->g, s))
		return false;
	c->count = number(&c->m, 1);
	for (int32_t i = 0; i < s.rank; i++)
		if (i != c->axis)
			c->count = binary(&c->m, HT_OP_Mul, c->count,
				cast_to(f, extent(f, n, image, i), c->m.t));
	return true;
}

static bool gives_used(struct maker *f, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (ht_rw_uses(f->r, ht_out(n, i)))
			return true;
	return false;
}

static bool expand_batch_norm(struct maker *f, struct ht_node *n)
{
	struct ht_channels c;

	if (!ht_attr_bool(n, "is_training", true) || !gives_used(f, n) || !read_open(&c, f, n, 0))
		return false;
	ht_write_batch_norm(&c);
	return true;
}

static bool expand_gradient(struct maker *f, struct ht_node *n)
{
	struct ht_channels c;

	if (!read_open(&c, f, n, 1))
		return false;
	ht_write_batch_norm_gradient(&c);
	return true;
}

/* ---- losses ---- */

/* Whether the number of classes is open, in the logits or in the labels.  Where the rows alone are, the op has a rule. */
static bool has_open_classes(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0), y = ht_in_shape(n, 1);

	if (x.rank != 2 || !is_bounded_shape(g, x) || !is_bounded_shape(g, y))
		return false;
	return ht_dim_is_open(g, x.dim[1]) || (y.rank == 2 && ht_dim_is_open(g, y.dim[1]));
}

/* One where the class is that of the row.  Classes are compared as integers, so a label that is none gives zeros; the loss reads it as an
 * index, which stops the run. */
static struct ht_value marked_class(struct maker *f)
{
	struct ht_value class = with_axis(f, wide(f, f->at->in[1]), 1), v;

	v = binary(f, HT_OP_Equal, class, range_of(f, extent(f, f->at, 0, 1)));
	return cast_to(f, of_rank(f, v, 2), f->t);
}

static bool expand_loss(struct maker *f, struct ht_node *n)
{
	struct maker m = *f;

	if (!has_open_classes(f->r->g, n))
		return false;
	m.t = ht_softmax_loss_type(n);
	ht_write_softmax_loss(&m, marked_class);
	return true;
}

/* ---- gradients of mirrored borders ---- */

/* The borders of each axis; false: they are not known. */
static bool read_borders(const struct ht_node *n, int64_t around[2 * HT_OPEN_RANK])
{
	struct ht_shape s = ht_in_shape(n, 0);
	int count;

	return s.rank > 0 && s.rank <= HT_OPEN_RANK &&
	       ht_const_small_ints(n->in[1], around, 2 * HT_OPEN_RANK, &count) &&
	       count == 2 * s.rank;
}

/* Whether an axis with a border is open. */
static bool mirrors_open(const struct ht_graph *g, const struct ht_node *n)
{
	int64_t around[2 * HT_OPEN_RANK];
	struct ht_shape s = ht_in_shape(n, 0);

	if (!read_borders(n, around) || !is_bounded_shape(g, s))
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		if ((around[2 * i] || around[2 * i + 1]) && ht_dim_is_open(g, s.dim[i]))
			return true;
	return false;
}

/* 0, 1, … below `size` - `less`, as many as a window of `less` + 1 elements has results over `size` of them.  So this extent is one size with
 * that of the tensor whose border was mirrored. */
static struct ht_value numbers_less(struct maker *f, struct ht_value size, int64_t less)
{
	const int64_t window[4] = { 1, less + 1, 1, 1 }, step[4] = { 1, 1, 1, 1 },
		      ends[3] = { 0, 2, 3 };
	struct ht_value v = range_of(f, size), in[2];

	v = cast_to(f, binary(f, HT_OP_GreaterEqual, v, whole(f, HT_I64, 0)), HT_I64);
	v.node->out[0].shape = open_shape(f, 1);
	v = with_axis(f, with_axis(f, with_axis(f, v, 0), -1), -1);
	v = node(f, HT_OP_MaxPool, &v, 1, HT_I64, open_shape(f, 4));
	ht_attr_set_ints(v.node, "ksize", window, 4);
	ht_attr_set_ints(v.node, "strides", step, 4);
	ht_attr_set_str(v.node, "padding", HT_STR("VALID"));
	v = node(f, HT_OP_Squeeze, &v, 1, HT_I64, open_shape(f, 1));
	ht_attr_set_ints(v.node, "squeeze_dims", ends, 3);
	in[0] = cast_to(f, v, HT_I64);
	in[1] = whole(f, HT_I32, 0);
	v = node(f, HT_OP_Cumsum, in, 2, HT_I64, open_shape(f, 1));
	ht_attr_set_bool(v.node, "exclusive", true);
	return v;
}

/* The places of an axis, from `place` on, where `number` counts the elements of a border from its inner end: these elements, and zeros for
 * numbers that are not below `count`. */
static struct ht_value from_border(struct maker *f, struct ht_value v, struct ht_value number,
	struct ht_value place, int64_t count, int32_t axis)
{
	int32_t rank = ht_type_of(v)->shape.rank;
	struct ht_value in[3] = { binary(f, HT_OP_GreaterEqual, number, whole(f, HT_I64, 0)) };
	enum ht_dtype t = ht_type_of(v)->dtype;

	in[1] = binary(f, HT_OP_Less, number, whole(f, HT_I64, count));
	in[0] = binary(f, HT_OP_LogicalAnd, in[0], in[1]);
	in[0].node->out[0].dtype = HT_BOOL;
	place = binary(f, HT_OP_Mul, place, cast_to(f, in[0], HT_I64));
	in[0] = along(f, in[0], axis, rank);
	in[1] = gathered(f, v, place, axis);
	in[2] = cast_to(f, whole(f, HT_I32, 0), t);
	return node(f, HT_OP_SelectV2, in, 3, t, open_shape(f, rank));
}

/* Element i of an axis gets the gradients of its own place and of those in the borders where it was mirrored. */
static struct ht_value without_borders(
	struct maker *f, struct ht_value v, int32_t axis, const int64_t border[2], int64_t again)
{
	int32_t rank = ht_type_of(v)->shape.rank;
	struct ht_value size, at, sum, number, place;

	size = element(f, shape_of(f, v, HT_I64), axis);
	at = numbers_less(f, size, border[0] + border[1]);
	size = plus(f, size, -border[0] - border[1]);
	sum = gathered(f, v, plus(f, at, border[0]), axis);
	sum.node->out[0].shape = open_shape(f, rank);
	for (int i = 0; i < 2; i++) {
		if (!border[i])
			continue;
		number = i ? binary(f, HT_OP_Sub, plus(f, size, again - 2), at)
			   : plus(f, at, again - 1);
		place = i ? binary(f, HT_OP_AddV2, plus(f, size, border[0]), number)
			  : binary(f, HT_OP_Sub, whole(f, HT_I64, border[0] - 1), number);
		sum = binary(
			f, HT_OP_AddV2, sum, from_border(f, v, number, place, border[i], axis));
		sum.node->out[0].shape = open_shape(f, rank);
	}
	return sum;
}

static bool expand_mirror_gradient(struct maker *f, struct ht_node *n)
{
	bool again = ht_str_is(ht_attr_str(n, "mode", ""), "SYMMETRIC");
	enum ht_dtype t = n->out[0].dtype;
	int64_t around[2 * HT_OPEN_RANK];
	struct ht_value v = n->in[0];

	if (!mirrors_open(f->r->g, n) || !read_borders(n, around))
		return false;
	v = cast_to(f, v, ht_is_low(t) ? HT_F32 : t);
	v.node->out[v.index].shape = ht_in_shape(n, 0);
	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		if (around[2 * i] || around[2 * i + 1])
			v = without_borders(f, v, i, &around[2 * i], again);
	ht_rw_take_place(f->r, n, cast_to(f, v, t));
	return true;
}

/* ---- which nodes these are ---- */

/* The operand of images, of a batch norm of training or of a gradient of one; -1: the node is neither. */
static int32_t normal_images(const struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_FusedBatchNorm:
	case HT_OP_FusedBatchNormV2:
	case HT_OP_FusedBatchNormV3:
		return ht_attr_bool(n, "is_training", true) ? 0 : -1;
	case HT_OP_FusedBatchNormGrad:
	case HT_OP_FusedBatchNormGradV2:
	case HT_OP_FusedBatchNormGradV3:
		return 1;
	default:
		return -1;
	}
}

static bool normalises_open(const struct ht_graph *g, const struct ht_node *n)
{
	int32_t i = normal_images(n);

	return i >= 0 && !ht_shape_known(ht_in_shape(n, i)) &&
	       is_bounded_shape(g, ht_in_shape(n, i));
}

bool ht_is_open_training(const struct ht_graph *g, const struct ht_node *n)
{
	return (ht_is_softmax_loss(n) && has_open_classes(g, n)) || normalises_open(g, n) ||
	       (n->op == HT_OP_MirrorPadGrad && mirrors_open(g, n));
}

bool ht_expand_training(struct maker *f, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_SoftmaxCrossEntropyWithLogits:
	case HT_OP_SparseSoftmaxCrossEntropyWithLogits:
		return expand_loss(f, n);
	case HT_OP_MirrorPadGrad:
		return expand_mirror_gradient(f, n);
	case HT_OP_FusedBatchNorm:
	case HT_OP_FusedBatchNormV2:
	case HT_OP_FusedBatchNormV3:
		return expand_batch_norm(f, n);
	case HT_OP_FusedBatchNormGrad:
	case HT_OP_FusedBatchNormGradV2:
	case HT_OP_FusedBatchNormGradV3:
		return expand_gradient(f, n);
	default:
		return false;
	}
}
