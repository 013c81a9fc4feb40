/* categorical: Multinomial and StatelessMultinomial (tf.random.categorical) become uniform numbers and sums.
 *
 * Each row of logits is a distribution: e to the logit less the largest one, added up from class to class in float64. A uniform number times
 * the last sum chooses the class: as many sums as are not above it come before that class. Logits that are not finite add nothing.
 * TensorFlow does the same, with the same uniform numbers, where one thread draws all of them; its threads
 * divide large batches among each other, and each of them then begins elsewhere in the stream.
 *
 * An op with a stream moves it on as far as TensorFlow's does: it draws that many numbers, and takes the first ones.
 *
 * The pass also changes nodes in the bodies of functions.  It leaves a node alone if the logits are not a matrix, or if the number
 * of samples is not constant. */
#include "passes/rewrite.h"

#include <math.h>

struct draws {
	struct ht_rw *r;
	struct ht_node *at; /* the node that is replaced */
	struct ht_value rows;
	int64_t samples; /* of each row */
};

/* ---- nodes in front of the node ---- */

static struct ht_value node(struct draws *x, enum ht_op op, const struct ht_value *in, int32_t ins,
	enum ht_dtype t, struct ht_shape s)
{
	return ht_out(ht_rw_node(x->r, x->at, op, ht_rw_name_within(x->r, x->at, "part"), in, ins,
			      (struct ht_type){ t, s }),
		0);
}

static struct ht_value number(struct draws *x, int64_t v)
{
	return ht_rw_scalar(x->r, x->at, ht_rw_name_within(x->r, x->at, "number"), HT_I32, v);
}

static struct ht_value two(struct draws *x, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(x->r, x->at, op, ht_rw_name_within(x->r, x->at, "part"), a, b);
}

static struct ht_value one(struct draws *x, enum ht_op op, struct ht_value a)
{
	return ht_rw_unary(x->r, x->at, op, ht_rw_name_within(x->r, x->at, "part"), a);
}

static struct ht_value reduced(
	struct draws *x, enum ht_op op, struct ht_value a, int64_t axis, bool keep_dims)
{
	return ht_rw_reduce(
		x->r, x->at, op, ht_rw_name_within(x->r, x->at, "part"), a, &axis, 1, keep_dims);
}

static struct ht_value chosen(
	struct draws *x, struct ht_value condition, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { condition, a, b };
	struct ht_value v = node(x, HT_OP_SelectV2, in, 3, HT_F64, ht_type_of(a)->shape);

	ht_attr_set_type(v.node, "T", HT_F64);
	return v;
}

static struct ht_value with_axis(struct draws *x, struct ht_value a, int64_t axis)
{
	const struct ht_value in[] = { a, number(x, axis) };
	struct ht_value v =
		node(x, HT_OP_ExpandDims, in, 2, ht_type_of(a)->dtype, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "T", ht_type_of(a)->dtype);
	ht_attr_set_type(v.node, "Tdim", HT_I32);
	return v;
}

/* A vector of one number or two. */
static struct ht_value extents(struct draws *x, const struct ht_value *in, int32_t n)
{
	const int64_t count = n;
	struct ht_value v =
		node(x, HT_OP_Pack, in, n, HT_I32, ht_shape_make(x->r->g->arena, 1, &count));

	ht_attr_set_int(v.node, "N", n);
	ht_attr_set_type(v.node, "T", HT_I32);
	ht_attr_set_int(v.node, "axis", 0);
	return v;
}

static struct ht_value rows_of(struct draws *x)
{
	const int64_t two_axes = 2;
	struct ht_value logits = x->at->in[0], in[2], v;
	struct ht_shape s = ht_type_of(logits)->shape;

	if (s.rank == 2 && s.dim[0] >= 0)
		return number(x, s.dim[0]);
	in[0] = node(
		x, HT_OP_Shape, &logits, 1, HT_I32, ht_shape_make(x->r->g->arena, 1, &two_axes));
	ht_attr_set_type(in[0].node, "T", ht_type_of(logits)->dtype);
	ht_attr_set_type(in[0].node, "out_type", HT_I32);
	in[1] = number(x, 0);
	v = node(x, HT_OP_Gather, in, 2, HT_I32, HT_SHAPE_SCALAR);
	ht_attr_set_type(v.node, "Tparams", HT_I32);
	ht_attr_set_type(v.node, "Tindices", HT_I32);
	return v;
}

/* ---- uniform numbers ---- */

static struct ht_value without_stream(struct draws *x, struct ht_value shape)
{
	const struct ht_value in[] = { shape, x->at->in[2] };
	struct ht_value v = node(x, HT_OP_StatelessRandomUniform, in, 2, HT_F64, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "T", HT_I32);
	ht_attr_set_type(v.node, "Tseed", ht_type_of(x->at->in[2])->dtype);
	ht_attr_set_type(v.node, "dtype", HT_F64);
	return v;
}

/* TensorFlow reserves two numbers for each sample, and rounds the samples of a row up to a multiple of four. */
static struct ht_value of_stream(struct draws *x, struct ht_value shape)
{
	const int64_t begin = 0;
	struct ht_value count = two(x, HT_OP_Mul, x->rows, number(x, (x->samples + 3) / 4 * 8)), v,
			in[3];

	count = extents(x, &count, 1);
	v = node(x, HT_OP_RandomUniform, &count, 1, HT_F64, HT_SHAPE_UNKNOWN);
	ht_attr_set_type(v.node, "T", HT_I32);
	ht_attr_set_type(v.node, "dtype", HT_F64);
	ht_rw_copy_attr(v.node, x->at, "seed");
	ht_rw_copy_attr(v.node, x->at, "seed2");
	ht_rw_set_controls(x->r, v.node, x->at->control, x->at->controls);
	in[0] = v;
	in[1] = ht_rw_const_ints(
		x->r, x->at, ht_rw_name_within(x->r, x->at, "number"), HT_I32, &begin, 1);
	in[2] = two(x, HT_OP_Mul, x->rows, number(x, x->samples));
	in[2] = extents(x, &in[2], 1);
	v = node(x, HT_OP_Slice, in, 3, HT_F64, HT_SHAPE_UNKNOWN);
	ht_attr_set_type(v.node, "T", HT_F64);
	ht_attr_set_type(v.node, "Index", HT_I32);
	in[0] = v;
	in[1] = shape;
	v = node(x, HT_OP_Reshape, in, 2, HT_F64, HT_SHAPE_UNKNOWN);
	ht_attr_set_type(v.node, "T", HT_F64);
	ht_attr_set_type(v.node, "Tshape", HT_I32);
	return v;
}

static struct ht_value shape_of(struct draws *x)
{
	const struct ht_value both[] = { x->rows, number(x, x->samples) };

	return extents(x, both, 2);
}

static struct ht_value uniform(struct draws *x)
{
	struct ht_value shape = shape_of(x);

	return x->at->op == HT_OP_Multinomial ? of_stream(x, shape) : without_stream(x, shape);
}

/* ---- classes ---- */

/* Of each row the sums up to each class. */
static struct ht_value running(struct draws *x, struct ht_value logits)
{
	struct ht_value in[2], finite, most;
	struct ht_str name = ht_rw_name_within(x->r, x->at, "part");

	logits = ht_rw_cast(x->r, x->at, name, logits, HT_F64);
	finite = one(x, HT_OP_IsFinite, logits);
	finite.node->out[0].dtype = HT_BOOL;
	most = chosen(x, finite, logits, ht_rw_const_float(x->r, x->at, name, HT_F64, -HUGE_VAL));
	most = reduced(x, HT_OP_Max, most, 1, true);
	in[0] = one(x, HT_OP_Exp, two(x, HT_OP_Sub, logits, most));
	in[0] = chosen(x, finite, in[0], ht_rw_const_float(x->r, x->at, name, HT_F64, 0));
	in[1] = number(x, 1);
	in[0] = node(x, HT_OP_Cumsum, in, 2, HT_F64, ht_type_of(logits)->shape);
	ht_attr_set_type(in[0].node, "T", HT_F64);
	ht_attr_set_type(in[0].node, "Tidx", HT_I32);
	return in[0];
}

/* How many sums are not above the number that each sample has drawn. */
static struct ht_value classes(struct draws *x, struct ht_value sums, struct ht_value drawn)
{
	enum ht_dtype t = ht_attr_type(x->at, "output_dtype", HT_I64);
	struct ht_value last = reduced(x, HT_OP_Max, sums, 1, true), below;

	drawn = two(x, HT_OP_Mul, drawn, last);
	below = two(x, HT_OP_LessEqual, with_axis(x, sums, 1), with_axis(x, drawn, 2));
	below.node->out[0].dtype = HT_BOOL;
	below = ht_rw_cast(x->r, x->at, ht_rw_name_within(x->r, x->at, "part"), below, t);
	return reduced(x, HT_OP_Sum, below, 2, false);
}

/* No samples: nothing is drawn. */
static struct ht_value none(struct draws *x)
{
	enum ht_dtype t = ht_attr_type(x->at, "output_dtype", HT_I64);
	struct ht_value in[] = { shape_of(x),
		ht_rw_scalar(x->r, x->at, ht_rw_name_within(x->r, x->at, "number"), t, 0) };
	struct ht_value v = node(x, HT_OP_Fill, in, 2, t, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "T", t);
	ht_attr_set_type(v.node, "index_type", HT_I32);
	return v;
}

static void draw(struct ht_rw *r, struct ht_node *n)
{
	struct draws x = { .r = r, .at = n };
	struct ht_value v;
	int32_t rank = ht_type_of(n->in[0])->shape.rank;
	int count;

	if ((rank >= 0 && rank != 2) || !ht_const_small_ints(n->in[1], &x.samples, 1, &count) ||
		x.samples < 0 || x.samples > INT32_MAX / 8)
		return;
	x.rows = rows_of(&x);
	v = x.samples ? classes(&x, running(&x, n->in[0]), uniform(&x)) : none(&x);
	ht_rw_take_place(r, n, v);
}

/* ---- the pass ---- */

static bool wants(const struct ht_node *n)
{
	return n->op == HT_OP_Multinomial || n->op == HT_OP_StatelessMultinomial;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_everywhere(g, c, wants, draw);
}

const struct ht_pass ht_pass_categorical = {
	.name = "categorical",
	.summary = "makes uniform numbers and sums of what draws classes",
	.run = run,
};
