/* Finds the neutral elements that no reader needs (outside.c has what is outside of the sizes of a run, and neutral).
 *
 * A sum of products that ends at the size of the run, rounded up, reads no element behind that end, so the kernel that stores its
 * operand may end there, too, and leave the memory behind it untouched.  The same holds for softmax, and for nodes that hand on
 * their operand's elements, if no reader of their results needs these. */
#include "lower/product.h"

static struct open_parts *parts_of(const struct lower *l, struct ht_value v)
{
	return l->outside[v.node->id] ? &l->outside[v.node->id][v.index] : NULL;
}

static void keep_all(struct open_parts *all)
{
	for (int32_t i = 0; all && i < all->n; i++)
		all->part[i].skipped = false;
}

static void begin(const struct lower *l, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs && l->outside[n->id]; i++)
		for (int32_t k = 0; k < l->outside[n->id][i].n; k++) {
			struct open_part *p = &l->outside[n->id][i].part[k];

			p->skipped = p->neutral;
		}
}

bool lower_skips(const struct lower *l, const struct ht_node *n, const struct open_part *p)
{
	const struct open_parts *out = n->outs == 1 ? l->outside[n->id] : NULL;

	for (int32_t i = 0; out && i < out->n; i++)
		if (out->part[i].size == p->size && out->part[i].stride == p->stride)
			return out->part[i].skipped;
	return false;
}

/* Whether the node hands these elements on to its result, and no reader of that needs them.  Softmax also adds them up, and of several
 * runs of indices its loops need not end in each. */
static bool hands_on(const struct lower *l, const struct ht_node *n, const struct open_part *p)
{
	struct ht_shape s = n->outs ? n->out[0].shape : (struct ht_shape){ 0 };

	if (ht_is(n, HT_SHARES) && s.dim[s.rank - 1] != p->stride * l->g->size[p->size - 1].most)
		return false;
	return lower_skips(l, n, p);
}

static void read_by(const struct lower *l, const struct ht_node *n, int32_t arg)
{
	struct open_parts *in = parts_of(l, n->in[arg]);

	for (int32_t i = 0; in && i < in->n; i++)
		if (!lower_sum_skips(l, n, arg, &in->part[i]) &&
			!(arg == 0 && hands_on(l, n, &in->part[i])))
			in->part[i].skipped = false;
}

void lower_find_skipped(struct lower *l)
{
	if (!l->outside)
		return;
	for (const struct ht_node *n = l->g->first; n; n = n->next)
		begin(l, n);
	for (const struct ht_port *p = l->asked->entry->outputs; p; p = p->next)
		keep_all(parts_of(l, p->value));
	for (const struct ht_node *n = l->g->last; n; n = n->prev)
		for (int32_t i = 0; i < n->ins; i++)
			read_by(l, n, i);
}
