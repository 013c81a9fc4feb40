/* The order of the tiles of products in loops.
 *
 * Each step of a recurrent layer reads all weights of a product.  If the second level has room for a little less than these, and each
 * step reads them from the first to the last, it finds none of them there: the cache has dropped each line by the time that the next
 * step comes to it.  So steps take turns: one goes from the first tile to the last, the next one from the last to the first, and begins
 * with what is still in the cache.  The body's counter tells the kernel which one it is. */
#include "lower/inside.h"

/* Whether `next` is the sum of `v` and an odd constant. */
static bool counts(struct ht_value v, struct ht_value next)
{
	const struct ht_node *n = next.node;

	if (!ht_is(n, HT_ADDS) || n->ins != 2)
		return false;
	for (int i = 0; i < 2; i++) {
		const struct ht_tensor *t = ht_const_tensor(n->in[1 - i]);

		if (ht_value_eq(n->in[i], v) && t && ht_shape_count(t->shape) == 1)
			return ht_tensor_int(t, 0) % 2 != 0;
	}
	return false;
}

struct ht_value lower_counter(const struct ht_function *f, const bool *takes)
{
	const struct ht_port *ret = f->rets;
	int32_t i = 0;

	for (const struct ht_port *arg = f->args; arg; arg = arg->next, ret = ret->next, i++) {
		const struct ht_type *t = ht_type_of(arg->value);

		if (takes[i] && ht_is_index(t->dtype) && ht_shape_known(t->shape) &&
			ht_shape_count(t->shape) == 1 && counts(arg->value, ret->value))
			return arg->value;
	}
	return (struct ht_value){ 0 };
}

static bool takes_any(const struct ht_node *n, const bool *of)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (of[n->in[i].node->id])
			return true;
	return false;
}

/* Whether the results of `n` depend on what iterations change; else its kernel may be one that runs once, in front of the loop.  The
 * graph is sorted. */
static bool varies(struct lower *l, const struct ht_node *n)
{
	bool *of = HT_NEW_ARRAY(l->scratch, bool, l->g->ids);

	for (const struct lower_argument *a = l->invariant->carried; a; a = a->next)
		of[a->value.node->id] = true;
	for (const struct ht_node *x = l->g->first; x && x != n; x = x->next)
		of[x->id] = of[x->id] || takes_any(x, of);
	return takes_any(n, of);
}

/* Whether the second level has room for no more than the weights. */
static bool are_large(const struct contraction *c)
{
	const int64_t bytes = (int64_t)c->l->plan->buffer[c->b].bytes;

	return bytes > c->l->target->l2 / 4 * 3;
}

void lower_turn_tiles(struct contraction *c)
{
	struct lower *l = c->l;
	struct ht_kernel *k = c->k.kernel;
	const struct ht_contract *t = &c->k.stage->contract;

	if (!l->invariant || !l->invariant->counter.node || k->stages != 1 || t->wide_buffer ||
		ht_kernel_tiles(k) < 2 || !are_large(c))
		return;
	if (varies(l, c->k.sink))
		k->turns = 1 + kb_arg(&c->k, lower_view(l, l->invariant->counter)->buffer,
				       HT_BUFFER_IN);
}
