/* Kernels that are computed as one: what joins them, and in which order it is tried. */
#include "lower/attention.h"
#include "lower/block.h"
#include "lower/excite.h"

#include <string.h>

/* A kernel has at most 64 buffers (kernel_build), of which some are its own. */
enum { MAX_OPERANDS = 48 };

struct ht_node *root_behind(struct lower *l, const struct ht_node *sink)
{
	const struct ht_use *only = NULL;

	if (l->uses.is_output[sink->id])
		return NULL;
	for (const struct ht_use *u = l->uses.of[sink->id]; u; u = u->next) {
		if (u->arg < 0)
			continue;
		if (only)
			return NULL;
		only = u;
	}
	if (!only || only->arg != 0 || !l->owner[only->node->id] ||
		l->root[l->owner[only->node->id]->id] != only->node)
		return NULL;
	return only->node;
}

bool root_keeps_shape(const struct lower *l, const struct ht_node *root)
{
	return ht_shape_eq(root->out[0].shape, l->owner[root->id]->out[0].shape);
}

bool lower_may_join(const struct lower *l, struct ht_node *const *sink, int n)
{
	int64_t operands = 0;

	for (int i = 0; i < n; i++) {
		if (lower_op_of(sink[i])->checks)
			return false;
		operands += l->kernel_operands[sink[i]->id];
	}
	return operands <= MAX_OPERANDS;
}

void lower_join(struct lower *l, struct ht_node *const *sink, int n,
	void (*emit)(struct lower *l, const void *of), const void *of, size_t bytes)
{
	void *kept = ht_alloc(l->scratch, bytes);

	memcpy(kept, of, bytes);
	for (int i = 0; i + 1 < n; i++)
		l->place[sink[i]->id] = PLACE_INLINE;
	l->joined[sink[n - 1]->id] = (struct joined){ emit, kept };
}

void lower_join_kernels(struct lower *l)
{
	static void (*const try[])(
		struct lower *l, struct ht_node *sink) = { try_block, try_excite, try_attention };

	for (size_t i = 0; !l->numerics && i < HT_COUNT(try); i++)
		for (struct ht_node *n = l->g->first; n; n = n->next)
			if (n->outs && l->place[n->id] == PLACE_MEMORY && l->owner[n->id] == n)
				try[i](l, n);
}
