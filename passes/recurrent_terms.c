/* recurrent: convolutions whose results a step adds to each other become one convolution of their images side by side.
 *
 *   Conv2D(x, u) + Conv2D(y, v) → Conv2D([x y], [u v])
 *
 * A cell of a convolutional layer adds the convolutions of its input and of its state, gate by gate.  One convolution writes and reads no
 * sums of the other, and by Winograd's method transforms its result once.  Matrix products gain nothing, and a loop of few rows would
 * have weights of its own. */
#include "passes/counted_loop.h"

#include <string.h>

enum { MOST_PARTS = 16, MOST_BIASES = 4 /* of an operand of the addition */ };

/* An operand of an addition: a convolution, or part `part` of one, to which biases may be added. */
struct term {
	struct ht_node *conv, *split; /* split NULL: all of the convolution */
	int32_t part;
};

/* Two images side by side: several convolutions may have them. */
struct beside {
	struct ht_value of[2], both;
};

/* Additions of a convolution to another one: of each part, where both are split. */
struct sums {
	struct ht_counted_loop *x;
	struct ht_node *add[MOST_PARTS]; /* in the body's order */
	int32_t order[MOST_PARTS];       /* the part of each */
	int32_t count;
	struct ht_node *conv[2], *split[2];
	struct beside *made; /* the last ones */
};

/* ---- which convolutions ---- */

static const struct ht_tensor *weights_of(const struct ht_node *n)
{
	const struct ht_tensor *t = n->ins == 2 ? ht_const_tensor(n->in[1]) : NULL;

	return t && t->blob ? t : NULL;
}

static int64_t columns_of(struct ht_shape s)
{
	return s.dim[s.rank - 1];
}

/* The channels of the image. */
static int64_t depth_of(const struct ht_node *n)
{
	return columns_of(ht_type_of(n->in[0])->shape);
}

static bool is_conv(const struct ht_rw *r, const struct ht_node *n)
{
	struct ht_shape in, w;

	if (n->op != HT_OP_Conv2D || !ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") ||
		!weights_of(n) || n->outs != 1 || !ht_rw_plain(r, n))
		return false;
	in = ht_type_of(n->in[0])->shape;
	w = weights_of(n)->shape;
	return ht_shape_known(in) && in.rank == 4 && w.rank == 4 &&
	       w.dim[2] == columns_of(in) && /* no groups */
	       ht_shape_known(n->out[0].shape) && ht_shape_count(n->out[0].shape) > 0 &&
	       n->out[0].dtype == weights_of(n)->dtype;
}

/* Whether `n` cuts the last axis into equal parts. */
static bool cuts_columns(const struct ht_node *n)
{
	int64_t axis;
	int count;

	return n->op == HT_OP_Split && n->outs <= MOST_PARTS && !n->controls &&
	       ht_const_small_ints(n->in[0], &axis, 1, &count) && count == 1 &&
	       (axis == -1 || axis == n->out[0].shape.rank - 1);
}

/* The index of the operand to which `n` adds a bias; -1: `n` adds no bias. */
static int32_t biased(const struct ht_counted_loop *x, const struct ht_node *n)
{
	return n->op == HT_OP_BiasAdd || ht_is(n, HT_ADDS) ? ht_recurrent_stepped(x, n) : -1;
}

/* Whether `v` is a term, of which nothing else has a use. */
static bool find_term(const struct ht_counted_loop *x, struct ht_value v, struct term *t)
{
	const struct ht_rw *r = &x->inside;
	int32_t arg;

	*t = (struct term){ 0 };
	for (int i = 0; ht_rw_only_user(r, v) && i < MOST_BIASES; i++, v = v.node->in[arg]) {
		arg = biased(x, v.node);
		if (arg < 0 || v.node->controls)
			break;
	}
	if (!ht_rw_only_user(r, v))
		return false;
	if (cuts_columns(v.node)) {
		t->split = v.node;
		t->part = v.index;
		v = v.node->in[1];
	}
	t->conv = v.node;
	return ht_rw_only_user(r, v) && is_conv(r, v.node);
}

/* Whether both shapes have the same extents, axis `but` aside. */
static bool same_but(struct ht_shape a, struct ht_shape b, int32_t but)
{
	if (a.rank != b.rank)
		return false;
	for (int32_t i = 0; i < a.rank; i++)
		if (i != but && a.dim[i] != b.dim[i])
			return false;
	return true;
}

static bool is_beside(const struct ht_node *a, const struct ht_node *b)
{
	const struct ht_shape v = weights_of(a)->shape, w = weights_of(b)->shape;

	return a != b && a->op == b->op && ht_same_attrs(a, b) &&
	       weights_of(a)->dtype == weights_of(b)->dtype && same_but(v, w, v.rank - 2) &&
	       same_but(ht_type_of(a->in[0])->shape, ht_type_of(b->in[0])->shape, v.rank - 1) &&
	       ht_shape_eq(a->out[0].shape, b->out[0].shape);
}

static bool adds_terms(const struct ht_counted_loop *x, const struct ht_node *n, struct term t[2])
{
	if (!ht_is(n, HT_ADDS) || n->ins != 2 || n->outs != 1 || n->controls)
		return false;
	for (int i = 0; i < 2; i++)
		if (!find_term(x, n->in[i], &t[i]) ||
			!ht_shape_eq(ht_type_of(n->in[i])->shape, n->out[0].shape))
			return false;
	if (!t[0].split || !t[1].split)
		return !t[0].split && !t[1].split;
	return t[0].split->outs == t[1].split->outs && t[0].part == t[1].part;
}

/* The additions of all parts of the convolutions that `first` adds; false: there are others. */
static bool find_sums(struct sums *s, struct ht_node *first, const struct term t[2])
{
	struct term u[2];

	for (int i = 0; i < 2; i++) {
		s->conv[i] = t[i].conv;
		s->split[i] = t[i].split;
	}
	for (struct ht_node *n = first; n && s->count < MOST_PARTS; n = n->next) {
		if (!adds_terms(s->x, n, u) || u[0].conv != s->conv[0] || u[1].conv != s->conv[1])
			continue;
		s->add[s->count] = n;
		s->order[s->count++] = u[0].part;
	}
	return s->count == (s->split[0] ? s->split[0]->outs : 1);
}

/* ---- whether it pays ---- */

/* The columns of all convolutions of `n`'s image: they take it from the same concatenation. */
static int64_t columns_beside(const struct ht_counted_loop *x, const struct ht_node *n)
{
	int64_t columns = 0;

	for (const struct ht_node *m = x->inside.g->first; m; m = m->next)
		if (m->op == n->op && ht_value_eq(m->in[0], n->in[0]))
			columns += columns_of(m->out[0].shape);
	return columns;
}

/* For each pixel, joining copies the channels of both images, and saves the columns of one convolution, which are not stored and read again:
 * it pays where there are at most as many channels as columns. */
static bool pays(const struct sums *s)
{
	return depth_of(s->conv[0]) + depth_of(s->conv[1]) <= columns_beside(s->x, s->conv[0]);
}

/* ---- one convolution ---- */

/* Both filters: for each tap the rows of the one, then those of the other. */
static struct ht_value join_weights(const struct sums *s)
{
	struct ht_rw *r = &s->x->inside;
	const struct ht_tensor *of[2] = { weights_of(s->conv[0]), weights_of(s->conv[1]) };
	struct ht_shape shape = ht_shape_make(r->arena, of[0]->shape.rank, of[0]->shape.dim);
	const int32_t axis = shape.rank - 2;
	const size_t width = (size_t)columns_of(shape) * ht_dtype_info(of[0]->dtype)->bytes;
	struct ht_blob *all;
	int64_t taps = 1;
	char *to;

	for (int32_t i = 0; i < axis; i++)
		taps *= shape.dim[i];
	((int64_t *)(uintptr_t)shape.dim)[axis] += of[1]->shape.dim[axis];
	all = ht_rw_blob(r, (size_t)(taps * shape.dim[axis]) * width);
	to = (char *)(uintptr_t)all->p;
	for (int64_t q = 0; q < taps; q++)
		for (int i = 0; i < 2; i++) {
			const size_t bytes = (size_t)of[i]->shape.dim[axis] * width;

			memcpy(to, (const char *)of[i]->blob->p + (size_t)q * bytes, bytes);
			to += bytes;
		}
	return ht_rw_const(r, s->add[0], s->conv[0]->in[1].node->name, of[0]->dtype, shape, all);
}

static struct ht_value put_beside(const struct sums *s, struct ht_value a, struct ht_value b)
{
	struct ht_rw *r = &s->x->inside;
	struct ht_node *before = s->add[0];
	struct ht_type type = *ht_type_of(a);
	const int32_t axis = type.shape.rank - 1;
	const struct ht_str name = s->conv[0]->name;
	const struct ht_value in[] = { a, b, ht_rw_scalar(r, before, name, HT_I32, axis) };

	type.shape = ht_shape_make(r->arena, type.shape.rank, type.shape.dim);
	((int64_t *)(uintptr_t)type.shape.dim)[axis] += depth_of(s->conv[1]);
	return ht_out(ht_rw_node(r, before, HT_OP_ConcatV2, name, in, 3, type), 0);
}

/* The images of both convolutions side by side.  What was made for an addition is in front of all later ones. */
static struct ht_value join_operands(const struct sums *s)
{
	const struct ht_value a = s->conv[0]->in[0], b = s->conv[1]->in[0];

	if (!s->made->both.node || !s->made->both.node->graph || !ht_value_eq(s->made->of[0], a) ||
		!ht_value_eq(s->made->of[1], b))
		*s->made = (struct beside){ { a, b }, put_beside(s, a, b) };
	return s->made->both;
}

/* `n` again, in front of addition `i`, with operand `arg` replaced. */
static struct ht_node *again(
	const struct sums *s, int32_t i, const struct ht_node *n, int32_t arg, struct ht_value v)
{
	struct ht_rw *r = &s->x->inside;
	struct ht_value *in = HT_NEW_ARRAY(r->arena, struct ht_value, (size_t)n->ins);
	struct ht_node *made;

	memcpy(in, n->in, (size_t)n->ins * sizeof *in);
	in[arg] = v;
	made = ht_rw_node(r, s->add[i], n->op, n->name, in, n->ins, n->out[0]);
	made->attrs = ht_attrs_copy(n->attrs, NULL, made->graph->arena);
	ht_rw_absorb(made, n);
	if (n->outs > 1) {
		ht_node_set_outs(made, n->outs);
		memcpy(made->out, n->out, (size_t)n->outs * sizeof *n->out);
	}
	return made;
}

static struct ht_node *join(const struct sums *s)
{
	/* Nodes are made in front of the first addition one after the other. */
	const struct ht_value weights = join_weights(s), operands = join_operands(s);
	struct ht_node *n = again(s, 0, s->conv[0], 0, operands);

	ht_rw_set_in(&s->x->inside, n, 1, weights);
	ht_rw_absorb(n, s->conv[1]);
	return s->split[0] ? again(s, 0, s->split[0], 1, ht_out(n, 0)) : n;
}

/* `sum` with the biases of term `v` of addition `i`, in their order. */
static struct ht_value add_biases(
	const struct sums *s, int32_t i, struct ht_value v, struct ht_value sum)
{
	const int32_t arg = biased(s->x, v.node);

	if (v.node == s->conv[0] || v.node == s->conv[1] || v.node == s->split[0] ||
		v.node == s->split[1])
		return sum;
	sum = add_biases(s, i, v.node->in[arg], sum);
	return ht_out(again(s, i, v.node, arg, sum), 0);
}

static void replace(const struct sums *s)
{
	struct ht_node *parts = join(s);
	struct ht_value sum[MOST_PARTS];

	for (int32_t i = 0; i < s->count; i++) {
		sum[i] = ht_out(parts, s->order[i]);
		for (int k = 0; k < 2; k++)
			sum[i] = add_biases(s, i, s->add[i]->in[k], sum[i]);
	}
	for (int32_t i = 0; i < s->count; i++)
		ht_rw_replace_node(&s->x->inside, s->add[i], sum[i]);
}

static void visit(struct ht_counted_loop *x, struct ht_node *n, struct beside *made)
{
	const enum ht_fusion_id id = HT_FUSION_recurrent_terms;
	struct sums s = { .x = x, .made = made };
	struct term t[2];

	if (!adds_terms(x, n, t))
		return;
	if (!is_beside(t[0].conv, t[1].conv)) {
		ht_rw_miss(&x->outside, id, 1, n,
			"adds convolutions with different attributes or sizes");
		return;
	}
	if (!find_sums(&s, n, t)) {
		ht_rw_miss(&x->outside, id, 2, n, "does not add all parts of both convolutions");
		return;
	}
	if (!pays(&s)) {
		ht_rw_miss(&x->outside, id, 3, n,
			"adds convolutions with fewer columns than both their images have channels");
		return;
	}
	replace(&s);
	ht_rw_hit(&x->outside, id);
}

void ht_recurrent_terms(struct ht_counted_loop *x)
{
	size_t count;
	struct ht_node **all = ht_rw_nodes(&x->inside, &count);
	struct beside made = { .both = { 0 } };

	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			visit(x, all[i], &made);
}
