/* Which attention is computed as one kernel (attention_emit.c). */
#include "lower/attention.h"
#include "lower/product.h"

#include <string.h>

/* Fewer rows would be summed in another order than in a kernel of their own. */
enum { LEAST_ROWS = 8 };

static bool same_lead(struct ht_shape a, struct ht_shape b)
{
	return a.rank == b.rank && a.rank >= 2 &&
	       !memcmp(a.dim, b.dim, (size_t)(a.rank - 2) * sizeof *a.dim);
}

/* A product of two tensors that are computed, matrix by matrix, by rows of the left one. */
static bool is_plain(const struct ht_node *n)
{
	struct ht_shape out = n->out[0].shape;

	return ht_is(n, HT_MATRIX_PRODUCT) && lower_mode(n) == HT_IMPL_NONE &&
	       contract_type(ht_type_of(n->in[0])->dtype) && !ht_const_tensor(n->in[1]) &&
	       !product_transposes(n, true) && same_lead(ht_type_of(n->in[0])->shape, out) &&
	       same_lead(ht_type_of(n->in[1])->shape, out) && ht_shape_count(out) > 0 &&
	       ht_shape_count(ht_type_of(n->in[0])->shape) > 0 &&
	       out.dim[out.rank - 2] >= LEAST_ROWS;
}

/* Threads take tiles in several calls, each of which packs the keys and values of every matrix that it
 * has a part of.  Where there are few matrices, that is done over and over: on two threads 4 take up to
 * 4 % longer than separate kernels, 1 up to 28 %, but 8 and more never.  One thread makes one call, which
 * always pays. */
static struct ht_method_choice faster(const struct ht_node *scores)
{
	enum { LEAST_MATRICES = 8 };
	struct ht_shape s = scores->out[0].shape;
	int64_t matrices = ht_shape_count(s) / (s.dim[s.rank - 2] * s.dim[s.rank - 1]);
	bool many = matrices >= LEAST_MATRICES;

	return (struct ht_method_choice){ .method = many ? HT_METHOD_ATTENTION : HT_METHOD_KERNELS,
		.other = many ? HT_METHOD_KERNELS : HT_METHOD_ATTENTION,
		.reason = many ? HT_REASON_MANY : HT_REASON_FEW,
		.is = (double)matrices,
		.limit = LEAST_MATRICES };
}

void try_attention(struct lower *l, struct ht_node *sink)
{
	struct attention a = { .scores = l->root[sink->id] };
	struct ht_node *sinks[3] = { sink };

	if (!a.scores || !is_plain(a.scores) || !root_keeps_shape(l, a.scores))
		return;
	a.softmax = root_behind(l, sink);
	if (!a.softmax || a.softmax->op != HT_OP_Softmax || !root_keeps_shape(l, a.softmax))
		return;
	a.context = root_behind(l, l->owner[a.softmax->id]);
	if (!a.context || !is_plain(a.context))
		return;
	sinks[1] = l->owner[a.softmax->id];
	sinks[2] = l->owner[a.context->id];
	if (lower_may_join(l, sinks, 3) && plan_block(l, a.context, faster(a.scores)))
		lower_join(l, sinks, 3, emit_attention, &a, sizeof a);
}
