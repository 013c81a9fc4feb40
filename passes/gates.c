/* gates: convolutions of one tensor by several filters of few columns, as the gates of a convolutional cell have, become one
 * convolution, whose result is split.
 *
 *   Conv2D(x, a), Conv2D(x, b), Conv2D(x, c) → Split(Conv2D(x, [a, b, c]))
 *
 * The filters are constants of one shape, and all attributes are equal.  One wide convolution reads the image once, fills the
 * register tile, and is often faster by Winograd's method where narrow ones are not (docs/kernel-passes.md).  Each result is the same
 * sum of products.  The pass is for bodies of loops: elsewhere the epilogues of separate convolutions are worth more. */
#include "passes/rewrite.h"

#include <string.h>

enum {
	LEAST = 3,   /* convolutions that become one */
	MOST = 16,   /* likewise */
	NARROW = 64, /* a filter of so many columns fills the widest register tile by itself */
	CHANNELS = 3 /* the axis of results; that of a filter's columns has the same number */
};

struct gates {
	struct ht_node *conv[MOST]; /* the first one is the first of the graph */
	int32_t count;
};

/* ---- which convolutions ---- */

/* Whether the height or width of the result is open: then the loops of a convolution end at its pixels, and elements behind them
 * are not stored. */
static bool has_open_pixels(const struct ht_rw *r, const struct ht_node *n)
{
	size_t count;
	const int64_t *end = ht_attr_ints(n, "_ends", &count, r->arena);

	for (size_t axis = 1; axis <= 2; axis++)
		if (2 * axis < count && end[2 * axis])
			return true;
	return false;
}

static const struct ht_tensor *filter_of(const struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);

	return t && t->blob && t->shape.rank == 4 ? t : NULL;
}

static bool is_narrow(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_tensor *t = n->op == HT_OP_Conv2D && n->outs == 1 ? filter_of(n) : NULL;

	return t && !n->controls && ht_shape_known(n->out[0].shape) && t->shape.dim[CHANNELS] > 0 &&
	       t->shape.dim[CHANNELS] < NARROW &&
	       ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") &&
	       n->out[0].dtype == t->dtype && !has_open_pixels(r, n);
}

static bool is_beside(const struct ht_rw *r, const struct ht_node *n, const struct ht_node *other)
{
	return ht_value_eq(n->in[0], other->in[0]) && is_narrow(r, other) &&
	       ht_shape_eq(filter_of(n)->shape, filter_of(other)->shape) &&
	       filter_of(n)->dtype == filter_of(other)->dtype && ht_same_attrs(n, other);
}

/* The convolutions beside `n`, in the graph's order: nodes that were visited before it have found no others. */
static void find(const struct ht_rw *r, struct ht_node *n, struct gates *g)
{
	for (struct ht_node *x = n; x && g->count < MOST; x = x->next)
		if (x == n || (x->op == HT_OP_Conv2D && is_beside(r, n, x)))
			g->conv[g->count++] = x;
}

/* ---- one convolution ---- */

/* The filters side by side. */
static struct ht_value join_filters(struct ht_rw *r, const struct gates *g)
{
	const struct ht_tensor *first = filter_of(g->conv[0]);
	const int64_t *d = first->shape.dim, rows = d[0] * d[1] * d[2];
	const size_t row = (size_t)d[CHANNELS] * ht_dtype_info(first->dtype)->bytes;
	struct ht_blob *all = ht_rw_blob(r, (size_t)rows * row * (size_t)g->count);
	int64_t dim[4] = { d[0], d[1], d[2], d[CHANNELS] * g->count };
	char *to = (char *)(uintptr_t)all->p;

	for (int64_t k = 0; k < rows; k++)
		for (int32_t i = 0; i < g->count; i++, to += row)
			memcpy(to, (const char *)filter_of(g->conv[i])->blob->p + (size_t)k * row,
				row);
	return ht_rw_const(r, g->conv[0], g->conv[0]->in[1].node->name, first->dtype,
		(struct ht_shape){ 4, dim }, all);
}

static struct ht_value join(struct ht_rw *r, const struct gates *g)
{
	struct ht_node *first = g->conv[0], *n;
	const struct ht_value in[] = { first->in[0], join_filters(r, g) };
	struct ht_type type = first->out[0];
	int64_t dim[4];

	memcpy(dim, type.shape.dim, sizeof dim);
	dim[CHANNELS] *= g->count;
	type.shape = ht_shape_make(r->arena, 4, dim);
	n = ht_rw_node(r, first, first->op, first->name, in, 2, type);
	n->attrs = ht_attrs_copy(first->attrs, NULL, n->graph->arena);
	for (int32_t i = 1; i < g->count; i++)
		ht_rw_absorb(n, g->conv[i]);
	return ht_out(n, 0);
}

static struct ht_node *split(struct ht_rw *r, const struct gates *g, struct ht_value all)
{
	struct ht_node *first = g->conv[0], *n;
	const struct ht_value in[] = { ht_rw_scalar(r, first, first->name, HT_I32, CHANNELS), all };

	n = ht_rw_node(r, first, HT_OP_Split, first->name, in, 2, first->out[0]);
	ht_attr_set_int(n, "num_split", g->count);
	ht_node_set_outs(n, g->count);
	for (int32_t i = 0; i < g->count; i++)
		n->out[i] = first->out[0];
	return n;
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	const enum ht_fusion_id id = HT_FUSION_recurrent_gates;
	struct gates g = { .count = 0 };
	struct ht_node *parts;

	if (!is_narrow(r, n))
		return;
	find(r, n, &g);
	if (g.count < LEAST) {
		ht_rw_miss(r, id, g.count, n, "has fewer than two convolutions beside it");
		return;
	}
	parts = split(r, &g, join(r, &g));
	for (int32_t i = g.count - 1; i >= 0; i--)
		ht_rw_replace_node(r, g.conv[i], ht_out(parts, i));
	ht_rw_hit(r, id);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_gates = {
	.name = "gates",
	.summary =
		"makes one convolution of those of one tensor by several narrow filters, in bodies of loops",
	.run = run,
};
