/* matmul: transpositions are folded into a matrix product, and powers of two are moved behind
 * it.
 *
 *   MatMul and BatchMatMul of a Transpose of the last two axes → its own transposition
 *   x * c times y → (x times y) * c, where c is a scalar power of two and the product has fewer
 *   elements than x; the product's epilogue then scales
 *
 * The first is exact, in any type.  The second is too, unless a value becomes subnormal or
 * infinite.  It is done for float32 only, since the range of other types is small. */
#include "passes/rewrite.h"

#include <math.h>

static const char *transposition(const struct ht_node *n, int arg)
{
	if (ht_is(n, HT_MATMUL))
		return arg ? "transpose_b" : "transpose_a";
	return arg ? "adj_y" : "adj_x";
}

static bool swaps_last_two(const struct ht_node *n)
{
	int64_t perm[HT_MAX_RANK];
	int count;

	if (!ht_const_small_ints(n->in[1], perm, HT_MAX_RANK, &count) || count < 2)
		return false;
	for (int i = 0; i + 2 < count; i++)
		if (perm[i] != i)
			return false;
	return perm[count - 2] == count - 1 && perm[count - 1] == count - 2;
}

static void transpose(struct ht_rw *r, struct ht_node *n, int arg)
{
	const enum ht_fusion_id id = HT_FUSION_matmul_transpose;
	struct ht_node *t = n->in[arg].node;
	const char *name = transposition(n, arg);

	if (t->op != HT_OP_Transpose || !ht_rw_on(r, id))
		return;
	if (t->controls) {
		ht_rw_miss(r, id, 1, t, "has control inputs");
	} else if (!swaps_last_two(t)) {
		ht_rw_miss(r, id, 2, t, "does not swap the last two axes alone");
	} else if (ht_dtype_info(ht_type_of(n->in[arg])->dtype)->kind == HT_KIND_COMPLEX) {
		ht_rw_miss(r, id, 3, n, "would conjugate, too");
	} else {
		ht_rw_hit(r, id);
		if (ht_rw_uses(r, n->in[arg]) == 1)
			ht_rw_absorb(n, t);
		ht_attr_set_bool(n, name, !ht_attr_bool(n, name, false));
		ht_rw_set_in(r, n, arg, t->in[0]);
	}
}

static bool is_power_of_two(double x)
{
	int exponent;

	return isfinite(x) && fabs(frexp(x, &exponent)) == .5 && exponent > -32 && exponent < 32;
}

/* Number of elements, counting an open first size as 1; -1: others are open, too. */
static int64_t elements(struct ht_shape s)
{
	bool open = s.rank > 0 && s.dim[0] == HT_DIM_UNKNOWN;

	return ht_shape_count(open ? (struct ht_shape){ s.rank - 1, s.dim + 1 } : s);
}

/* n = (x * c) times y is scaled behind the product; the scaled value gets the name of `n`. */
static bool scale(struct ht_rw *r, struct ht_node *n, int arg)
{
	const enum ht_fusion_id id = HT_FUSION_matmul_scale;
	struct ht_node *mul = n->in[arg].node, *product;
	struct ht_value x, in[2] = { n->in[0], n->in[1] }, c;
	double by;

	if (!ht_rw_on(r, id) || !ht_match_with_const(n->in[arg], HT_OP_Mul, &by, &x))
		return false;
	if (!is_power_of_two(by)) {
		ht_rw_miss(r, id, 1, mul, "its factor is not a power of two");
		return false;
	}
	if (!ht_rw_only_user(r, n->in[arg]) || !ht_rw_plain(r, mul) || n->controls) {
		ht_rw_miss(r, id, 2, mul, "has another user, or control edges");
		return false;
	}
	if (n->out[0].dtype != HT_F32 || !ht_rw_same_shape(mul, x) ||
		elements(n->out[0].shape) < 0 || elements(mul->out[0].shape) < 0) {
		ht_rw_miss(r, id, 3, n, "is not float32 of known shape");
		return false;
	}
	if (elements(n->out[0].shape) >= elements(mul->out[0].shape)) {
		ht_rw_miss(r, id, 4, n, "has not fewer elements than what is scaled");
		return false;
	}
	ht_rw_hit(r, id);
	c = ht_rw_const_float(
		r, n, ht_str_printf(r->arena, "%.*s/scale", HT_STR_ARG(n->name)), HT_F32, by);
	in[arg] = x;
	product = ht_rw_node(r, n, n->op, n->name, in, 2, n->out[0]);
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		ht_rw_copy_attr(product, n, a->name.p);
	ht_rw_absorb(product, mul);
	ht_rw_take_place(r, n, ht_rw_binary(r, n, HT_OP_Mul, n->name, ht_out(product, 0), c));
	return true;
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	if (!ht_is(n, HT_MATRIX_PRODUCT) || n->ins != 2)
		return;
	for (int arg = 0; arg < 2; arg++)
		transpose(r, n, arg);
	for (int arg = 0; arg < 2; arg++)
		if (scale(r, n, arg))
			return;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_matmul = {
	.name = "matmul",
	.summary = "gives matrix products their operands' transpositions and scales",
	.run = run,
};
