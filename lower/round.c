/* How the results of a kernel's nodes are rounded, and the type in which they are held.
 *
 * A stored tensor has its own type.  A 16-bit tensor between two nodes of one kernel is rounded
 * as well, so that fusing changes no bit.  Kernels of products and convolutions are an
 * exception: the sum stays F32 through bias, activation and residual, and is rounded once, when
 * it is stored.
 *
 * A 16-bit tensor that stays in the second level is held as F32 (after rounding) if products
 * read it, on machines that multiply F32 for it: there a conversion takes longer than a product.
 *
 * A variable or an input that a policy rounds for products is rounded where they pack or copy it. */
#include "lower/conv.h"
#include "lower/inside.h"

/* x (F64) as F32, rounded towards zero, with the last bit set if that is not exact (round to
 * odd).  Rounding the result to fewer bits then gives the bits of rounding x. */
static int32_t to_odd(struct ht_xb *b, int32_t x)
{
	int32_t near = ht_xcvt(b, HT_F32, x), back = ht_xcvt(b, HT_F64, near);
	int32_t bits = ht_xbitcast(b, HT_I32, near), one = ht_xint(b, HT_I32, 1), down, odd;

	down = ht_xlt(b, ht_xabs(b, x), ht_xabs(b, back));
	odd = ht_xselect(b, down, ht_xsub(b, bits, one), bits);
	odd = ht_xbitcast(b, HT_F32, ht_xor(b, odd, one));
	return ht_xselect(b, ht_xeq(b, back, x), near, ht_xselect(b, ht_xeq(b, x, x), odd, near));
}

/* Whether node `n` needs operands and results that are rounded to its tensor's type.  A rounding
 * that a policy put behind a node rounds that node's result, so it is left out where the result
 * stays wide. */
static bool rounds(const struct ht_node *n)
{
	return ht_is(n, HT_CASTS) || (n->op == HT_OP__Rounded && ht_attr_bool(n, "asked", true)) ||
	       lower_mode(n) == HT_IMPL_KEEP_FP16;
}

/* A graph or a policy asks for a Cast, so both its operand and its result are rounded. */
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

/* Applies ht_lower_request.fault. */
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

/* Whether `u` multiplies the tensor's elements, which it can read as F32. */
static bool multiplies(const struct ht_use *u)
{
	return u->arg == 0 && ht_is(u->node, HT_CONV | HT_DEPTHWISE | HT_MATMUL);
}

/* Whether `u` multiplies each element several times and would widen it each time: a product
 * reads a row once for every few columns, and a depthwise convolution reads an element once for
 * every tap.  A convolution that makes a padded copy of its image reads each element once. */
static bool widens_again(const struct ht_use *u)
{
	return multiplies(u) && !conv_pads_image(u->node);
}

/* Whether `u` can read the tensor in the type that it has in memory, even if that is not its own
 * type. */
static bool loads(const struct ht_use *u)
{
	const struct lower_op *op = lower_op_of(u->node);

	return multiplies(u) || (op && op->family == FAMILY_MAP) || ht_is(u->node, HT_POOLS) ||
	       u->node->op == HT_OP_Mean || lower_is_concat(u->node);
}

/* Whether all readers of `n` load F32; *again: whether one of them would widen an element several times. */
static bool readers_load(const struct lower *l, const struct ht_node *n, bool *again)
{
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next) {
		if (u->arg >= 0 &&
			(!loads(u) || (multiplies(u) && contract_sums_short(l, u->node))))
			return false;
		*again = *again || (u->arg >= 0 && widens_again(u));
	}
	return true;
}

/* The same of the readers of `n` and of the concatenations that are made in the memory of `n`.  A loop, since these may be as many as a
 * graph has nodes.  One that is several operands of another one is made in the place of one of them. */
static bool all_load(struct lower *l, const struct ht_node *n, bool *again)
{
	const struct ht_node **concat = NULL;
	size_t concats = 0, cap = 0;
	int32_t arg;

	if (!readers_load(l, n, again))
		return false;
	for (size_t done = 0; n; n = done < concats ? concat[done++] : NULL)
		for (int32_t i = 0; lower_is_concat(n) && i < n->ins; i++) {
			const struct ht_node *in = n->in[i].node;

			if (!lower_is_concat(in) || lower_gathering_user(l, n->in[i], &arg) != n ||
				arg != i)
				continue;
			if (!readers_load(l, in, again))
				return false;
			concat = ht_grow(l->scratch, concat, concats, &cap, sizeof *concat);
			concat[concats++] = in;
		}
	return true;
}

enum ht_dtype lower_held_type(struct lower *l, const struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;
	bool again = false;

	if (local_type(l, t) == t || l->numerics || n->outs != 1 || lower_wants_dense(l, n) ||
		ht_shape_count(n->out[0].shape) > l->target->l2 / (int64_t)sizeof(float))
		return t;
	return all_load(l, n, &again) && again ? local_type(l, t) : t;
}

/* ---- variables and inputs ---- */

/* Whether `u` is the right operand of a product, which packs it. */
static bool packs(const struct ht_use *u)
{
	return u->arg == 1 && ht_is(u->node, HT_MATRIX_PRODUCT | HT_CONV | HT_CONV_TRANSPOSE);
}

/* Whether `u` copies an image before it multiplies. */
static bool copies_image(const struct lower *l, const struct ht_use *u)
{
	struct conv v;

	if (u->arg != 0 || !ht_is(u->node, HT_CONV | HT_CONV_FILTER))
		return false;
	if (ht_is(u->node, HT_CONV_FILTER))
		return true;
	read_conv(u->node, &v);
	return conv_copies_image(&v) && ht_shape_count(v.in) > 0 && !conv_has_one_result(l, &v);
}

/* Whether the elements of `v` stay in memory during the run although no step needs them.  A loop may write to the arguments of its body. */
static bool stays(struct lower *l, struct ht_value v)
{
	return ht_is(v.node, HT_READS_VARIABLE) ||
	       (ht_is(v.node, HT_FED) && !l->g->function && lower_in_memory(l, v) &&
		       !lower_view(l, v)->open);
}

bool lower_rounds_when_read(struct lower *l, const struct ht_node *n, struct view *v)
{
	const enum ht_dtype t = n->outs ? n->out[0].dtype : HT_INVALID;

	if (!ht_is(n, HT_CASTS) || !ht_is_low(t) || l->uses.is_output[n->id] ||
		ht_type_of(n->in[0])->dtype != HT_F32 || !stays(l, n->in[0]))
		return false;
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0 && !packs(u) && !copies_image(l, u))
			return false;
	*v = *lower_view(l, n->in[0]);
	v->rounds = t;
	return true;
}
