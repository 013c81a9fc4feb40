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
#include "passes/maker.h"

#include <math.h>

struct draws {
	struct maker m;
	struct ht_value rows;
	int64_t samples; /* of each row */
};

static struct ht_value number_of(struct draws *x, int64_t v)
{
	return whole(&x->m, HT_I32, v);
}

/* ---- uniform numbers ---- */

static struct ht_value drawn_by(
	struct draws *x, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	struct ht_value v = made(&x->m, op, in, ins, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "dtype", HT_F64);
	v.node->out[0].dtype = HT_F64;
	return v;
}

/* TensorFlow reserves two numbers for each sample, and rounds the samples of a row up to a multiple of four. */
static struct ht_value of_stream(struct draws *x, struct ht_value shape)
{
	const int64_t begin = 0;
	struct maker *m = &x->m;
	struct ht_value count = binary(
				m, HT_OP_Mul, x->rows, number_of(x, (x->samples + 3) / 4 * 8)),
			v, in[3];

	count = packed(m, &count, 1);
	v = drawn_by(x, HT_OP_RandomUniform, &count, 1);
	ht_rw_copy_attr(v.node, m->at, "seed");
	ht_rw_copy_attr(v.node, m->at, "seed2");
	ht_rw_set_controls(m->r, v.node, m->at->control, m->at->controls);
	in[0] = v;
	in[1] = wholes(m, HT_I32, &begin, 1);
	in[2] = binary(m, HT_OP_Mul, x->rows, number_of(x, x->samples));
	in[2] = packed(m, &in[2], 1);
	in[0] = made(m, HT_OP_Slice, in, 3, HT_SHAPE_UNKNOWN);
	in[1] = shape;
	return made(m, HT_OP_Reshape, in, 2, HT_SHAPE_UNKNOWN);
}

static struct ht_value shape_of_samples(struct draws *x)
{
	const struct ht_value both[] = { x->rows, number_of(x, x->samples) };

	return packed(&x->m, both, 2);
}

static struct ht_value uniform(struct draws *x)
{
	struct ht_node *n = x->m.at;
	const struct ht_value in[] = { shape_of_samples(x), n->in[2] };

	return n->op == HT_OP_Multinomial ? of_stream(x, in[0])
					  : drawn_by(x, HT_OP_StatelessRandomUniform, in, 2);
}

/* ---- classes ---- */

/* Of each row the sums up to each class. */
static struct ht_value running(struct maker *m, struct ht_value logits)
{
	struct ht_value in[2], finite, most;

	logits = cast_to(m, logits, HT_F64);
	finite = unary(m, HT_OP_IsFinite, logits);
	most = reduced(m, HT_OP_Max, chosen(m, finite, logits, number(m, -HUGE_VAL)), 1, true);
	in[0] = unary(m, HT_OP_Exp, binary(m, HT_OP_Sub, logits, most));
	in[0] = chosen(m, finite, in[0], number(m, 0));
	in[1] = whole(m, HT_I32, 1);
	return made(m, HT_OP_Cumsum, in, 2, ht_type_of(logits)->shape);
}

static enum ht_dtype type_of_classes(const struct draws *x)
{
	return ht_attr_type(x->m.at, "output_dtype", HT_I64);
}

/* How many sums are not above the number that each sample has drawn. */
static struct ht_value classes(struct draws *x, struct ht_value sums, struct ht_value drawn)
{
	struct maker *m = &x->m;
	struct ht_value last = reduced(m, HT_OP_Max, sums, 1, true), below;

	drawn = with_axis(m, binary(m, HT_OP_Mul, drawn, last), 2);
	below = binary(m, HT_OP_LessEqual, with_axis(m, sums, 1), drawn);
	return reduced(m, HT_OP_Sum, cast_to(m, below, type_of_classes(x)), 2, false);
}

/* No samples: nothing is drawn. */
static struct ht_value none(struct draws *x)
{
	const struct ht_value in[] = { shape_of_samples(x), whole(&x->m, type_of_classes(x), 0) };

	return made(&x->m, HT_OP_Fill, in, 2, HT_SHAPE_UNKNOWN);
}

static void draw(struct ht_rw *r, struct ht_node *n)
{
	struct draws x = { .m = { r, n, ht_rw_name_within(r, n, "part"), HT_F64 } };
	struct ht_value v;
	int32_t rank = ht_type_of(n->in[0])->shape.rank;
	int count;

	if ((rank >= 0 && rank != 2) || !ht_const_small_ints(n->in[1], &x.samples, 1, &count) ||
		x.samples < 0 || x.samples > INT32_MAX / 8)
		return;
	x.rows = extent_of(&x.m, n->in[0], 0, HT_I32);
	v = x.samples ? classes(&x, running(&x.m, n->in[0]), uniform(&x)) : none(&x);
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
