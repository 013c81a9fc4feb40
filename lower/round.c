/* How the results of a kernel's nodes are rounded, and the type they are held in.
 *
 * What is stored has its tensor's type.  Between two nodes of one kernel a tensor of 16 bits is
 * rounded as well, so that fusing changes no bit, but in kernels of products and convolutions: there the
 * sum stays F32 through bias, activation and residual, and is rounded once, where it is stored.
 *
 * What was rounded to 16 bits and stays in the second level is held as F32 where products read it, on machines that multiply
 * F32 for it: a conversion takes longer than a product. */
#include "lower/inside.h"

/* The F32 next to x (F64) towards zero, or x; its last bit set where they differ, so that rounding
 * it to fewer bits rounds x. */
static int32_t to_odd(struct ht_xb *b, int32_t x)
{
	int32_t near = ht_xcvt(b, HT_F32, x), back = ht_xcvt(b, HT_F64, near);
	int32_t bits = ht_xbitcast(b, HT_I32, near), one = ht_xint(b, HT_I32, 1), down, odd;

	down = ht_xlt(b, ht_xabs(b, x), ht_xabs(b, back));
	odd = ht_xselect(b, down, ht_xsub(b, bits, one), bits);
	odd = ht_xbitcast(b, HT_F32, ht_xor(b, odd, one));
	return ht_xselect(b, ht_xeq(b, back, x), near, ht_xselect(b, ht_xeq(b, x, x), odd, near));
}

/* Whether node `n` wants its operands, and makes its results, as they are in its tensor's type.  A rounding that
 * a policy put behind a node is one of that node's result, so it is left out where the result stays wide. */
static bool rounds(const struct ht_node *n)
{
	return ht_is(n, HT_CASTS) || (n->op == HT_OP__Rounded && ht_attr_bool(n, "asked", true)) ||
	       lower_mode(n) == HT_IMPL_KEEP_FP16;
}

/* A Cast is what a graph or a policy asks for, so both its ends are exact. */
bool lower_stays_wide(const struct lower *l, const struct ht_node *sink, const struct ht_node *n)
{
	const struct ht_node *root = l->root[sink->id];

	if (n == l->shadow)
		return l->shadow_stays_wide;
	if (n == sink || !root || !ht_is(root, HT_CONTRACTS) || rounds(n))
		return false;
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0 && rounds(u->node))
			return false;
	return true;
}

/* Injects ht_lower_request.fault. */
static int32_t with_fault(struct kernel_build *k, const struct ht_node *n, int32_t x)
{
	const struct ht_lower_request *how = k->l->asked;
	enum ht_dtype t = k->stage->x[x].dtype;

	if (!how->fault.n || !ht_is_float(t) || !ht_str_eq(how->fault, n->name))
		return x;
	return ht_xmul(&k->xb, x, ht_xk(&k->xb, t, 1 + how->fault_by));
}

int32_t kb_result(struct kernel_build *k, const struct ht_node *n, int32_t i, int32_t x)
{
	enum ht_dtype t = n->out[i].dtype, from = k->stage->x[x].dtype;

	x = with_fault(k, n, x);
	if (compute_type(t) == t)
		return ht_is_float(t) ? ht_xcvt(&k->xb, t, x) : x;
	if (from == HT_F32 && lower_stays_wide(k->l, k->sink, n))
		return x;
	if (from == HT_F64)
		x = to_odd(&k->xb, x);
	return ht_xcvt(&k->xb, compute_type(t), ht_xcvt(&k->xb, t, x));
}

/* ---- memory ---- */

/* Whether `u` multiplies each element several times, and would widen it each time: the rows of a product, once for
 * every few columns; the windows of a depthwise convolution, once for every tap. */
static bool widens_again(const struct ht_use *u)
{
	return u->arg == 0 && ht_is(u->node, HT_CONV | HT_DEPTHWISE | HT_MATMUL);
}

/* Whether `u` reads what is there as what it is, whatever the tensor's type. */
static bool loads(const struct ht_use *u)
{
	const struct lower_op *op = lower_op_of(u->node);

	return widens_again(u) || (op && op->family == FAMILY_MAP) || u->node->op == HT_OP_Mean;
}

enum ht_dtype lower_held_type(const struct lower *l, const struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	bool again = false;

	if (local_type(l, t) == t || l->numerics || n->outs != 1 ||
		ht_shape_count(n->out[0].shape) > l->target->l2 / (int64_t)sizeof(float))
		return t;
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next) {
		if (u->arg >= 0 &&
			(!loads(u) || (widens_again(u) && contract_sums_short(l, u->node))))
			return t;
		again = again || (u->arg >= 0 && widens_again(u));
	}
	return again ? local_type(l, t) : t;
}
