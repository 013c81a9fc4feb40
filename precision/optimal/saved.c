/* The activations that a training step saves for its gradients.
 *
 * They stay in memory from the forward part to the backward part, so they make most of the arena, and if they do not fit into the last
 * cache, every kernel that reads one of them waits for memory. */
#include "precision/optimal/price.h"
#include "precision/roles.h"

static bool is_free_view(const struct ht_fusion *f, const struct ht_node *n)
{
	return ht_is_view(n) && n->ins && f->kernel[n->id] == n;
}

/* The node in whose memory the value is. */
static const struct ht_node *owner_of(const struct ht_fusion *f, struct ht_value v)
{
	while (is_free_view(f, v.node))
		v = v.node->in[ht_viewed_operand(v.node)];
	return v.node;
}

static bool is_computed_activation(const struct ht_saved *s, const struct ht_node *n)
{
	return s->role[n->id] == HT_ROLE_ACTIVATIONS && ht_work_of_node(n) != HT_NODE_NOTHING;
}

/* The activation that operand `i` of a node of the backward part is in; NULL: it is none, or of the node's own kernel. */
static const struct ht_node *activation_read(
	const struct ht_saved *s, const struct ht_fusion *f, const struct ht_node *n, int32_t i)
{
	const struct ht_node *from;

	if (s->role[n->id] != HT_ROLE_GRADIENTS || n->in[i].index < 0 ||
		n->in[i].index >= n->in[i].node->outs || !ht_is_float(ht_type_of(n->in[i])->dtype))
		return NULL;
	from = owner_of(f, n->in[i]);
	return is_computed_activation(s, from) && f->kernel[from->id] != f->kernel[n->id] ? from
											  : NULL;
}

static int64_t elements_of(const struct ht_node *n)
{
	int64_t count = ht_shape_known(n->out[0].shape) ? ht_shape_count(n->out[0].shape) : 0;

	return count < INT64_C(1) << 40 ? count : 0;
}

int64_t ht_price_saved(const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t)
{
	return p->byte && p->saved[n->id]
		       ? p->byte * elements_of(n) * (int64_t)ht_dtype_info(t)->bytes
		       : 0;
}

void ht_saved_find(const struct ht_graph *g, const struct ht_fusion *f, const struct ht_target *t,
	struct ht_arena *a, struct ht_saved *s)
{
	bool *is = HT_NEW_ARRAY(a, bool, g->ids);
	int64_t elements = 0;

	*s = (struct ht_saved){ .role = ht_roles_of(g, a), .is = is };
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++) {
			const struct ht_node *from = activation_read(s, f, n, i);

			if (!from || is[from->id])
				continue;
			is[from->id] = true;
			elements += elements_of(from);
			s->bytes += elements_of(from) *
				    (int64_t)ht_dtype_info(from->out[0].dtype)->bytes;
		}
	s->cold = 4 * elements > t->l3;
}

bool ht_reads_cold(
	const struct ht_saved *s, const struct ht_fusion *f, const struct ht_node *n, int32_t i)
{
	return s->cold && activation_read(s, f, n, i) != NULL;
}
