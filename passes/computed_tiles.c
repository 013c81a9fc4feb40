/* Gradients of Tile over open axes, as TensorFlow writes them: the gradient is divided into the repetitions and the extent of every axis, which
 * gives twice as many axes as the tensor has, and summed over all repetitions.  Tensors of that many axes have no rules, so only the axes that
 * are repeated are divided here, one after the other.  For pass sizes. */
#include "passes/computed_nodes.h"

/* What TensorFlow writes:  Sum(Reshape(gradient, Reshape(Transpose(Pack(multiples, shape)), [-1])), [0, 2, 4, ...]). */
struct tile_gradient {
	struct ht_value gradient, multiples, shape;
	int32_t rank;
};

static struct ht_value operand(const struct ht_node *n, int32_t i)
{
	return ht_forwarded(n->in[i]);
}

/* The operands of the Pack of two vectors whose elements `v` has in turn; false: it is none. */
static bool in_turn(struct ht_value v, struct tile_gradient *t)
{
	int64_t order[HT_MAX_RANK];
	int count;

	if (v.node->op != HT_OP_Reshape)
		return false;
	v = operand(v.node, 0);
	if (v.node->op != HT_OP_Transpose ||
		!ht_const_small_ints(v.node->in[1], order, HT_MAX_RANK, &count) || count != 2 ||
		order[0] != 1 || order[1] != 0)
		return false;
	v = operand(v.node, 0);
	if (v.node->op != HT_OP_Pack || v.node->ins != 2 || ht_attr_int(v.node, "axis", 0) != 0)
		return false;
	t->multiples = operand(v.node, 0);
	t->shape = operand(v.node, 1);
	return true;
}

static bool sums_repetitions(const struct ht_node *n, int32_t rank)
{
	int64_t axis[HT_MAX_RANK];
	int count;

	if (!ht_const_small_ints(n->in[1], axis, HT_MAX_RANK, &count) || count != rank ||
		ht_attr_bool(n, "keep_dims", false))
		return false;
	for (int i = 0; i < count; i++)
		if (axis[i] != 2 * i)
			return false;
	return true;
}

static bool find(const struct ht_graph *g, const struct ht_node *n, struct tile_gradient *t)
{
	struct ht_shape s;
	struct ht_node *divided;

	if (n->op != HT_OP_Sum || !g->library->sizes)
		return false;
	divided = operand(n, 0).node;
	if (divided->op != HT_OP_Reshape || !in_turn(operand(divided, 1), t))
		return false;
	t->gradient = divided->in[0];
	s = ht_type_of(t->multiples)->shape;
	if (s.rank != 1 || s.dim[0] < 1 || s.dim[0] >= HT_OPEN_RANK)
		return false;
	t->rank = (int32_t)s.dim[0];
	return ht_type_of(t->gradient)->shape.rank == t->rank && sums_repetitions(n, t->rank);
}

bool ht_is_tile_gradient(const struct ht_graph *g, const struct ht_node *n)
{
	struct tile_gradient t;

	return find(g, n, &t);
}

/* The sum over the repetitions of axis `axis`, in front of which all axes have been summed. */
static struct ht_value summed(
	struct maker *f, const struct tile_gradient *t, struct ht_value x, int32_t axis)
{
	enum ht_dtype type = ht_type_of(x)->dtype;
	struct ht_value size[HT_MAX_RANK], in[2] = { x };
	const int64_t along = axis;
	int32_t n = 0;

	for (int32_t i = 0; i < t->rank; i++) {
		struct ht_value extent = entry_of(f, t->shape, i),
				times = entry_of(f, t->multiples, i);
		int64_t one;

		if (i == axis)
			size[n++] = times;
		size[n++] = i > axis && !(const_entry(t->multiples, i, &one) && one == 1)
				    ? binary(f, HT_OP_Mul, extent, times)
				    : extent;
	}
	in[1] = packed(f, size, n);
	x = node(f, HT_OP_Reshape, in, 2, type, open_shape(f, n));
	x = ht_rw_reduce(f->r, f->at, HT_OP_Sum, f->at->name, x, &along, 1, false);
	x.node->out[0].shape = open_shape(f, t->rank);
	return x;
}

bool ht_expand_tile_gradient(struct maker *f, struct ht_node *n)
{
	struct tile_gradient t;
	struct ht_value x;

	if (!find(f->r->g, n, &t))
		return false;
	x = t.gradient;
	for (int32_t i = 0; i < t.rank; i++) {
		int64_t times;

		if (!const_entry(t.multiples, i, &times) || times != 1)
			x = summed(f, &t, x, i);
	}
	if (ht_value_eq(x, t.gradient))
		x = ht_rw_unary(f->r, f->at, HT_OP_Identity, n->name, x);
	ht_rw_take_place(f->r, n, x);
	return true;
}
