/* Which convolutions are computed as one kernel, row by row (block_emit.c).
 *
 * The wide tensors between them are then a few rows that stay in the second level.  That pays where
 * a whole one would not. */
#include "passes/lower/block.h"

#include <math.h>

/* ---- what can be one kernel ---- */

/* Below this width blocks of rows would be smaller than in separate kernels, and sums of another order. */
enum { LEAST_WIDTH = 5 };

bool conv_is_plain(const struct ht_node *n, struct conv *v)
{
	if (lower_mode(n) != HT_IMPL_NONE || !contract_type(n->out[0].dtype) ||
		!ht_const_tensor(n->in[1]) || ht_shape_count(n->out[0].shape) == 0)
		return false;
	read_conv(n, v);
	return ht_shape_count(v->in) > 0 && ht_shape_count(v->filter) > 0;
}

static bool is_expand(struct lower *l, const struct ht_node *n, struct conv *v)
{
	if (n->op != HT_OP_Conv2D || !conv_is_plain(n, v) || !conv_is_simple(v))
		return false;
	if (v->filter.dim[0] == 1)
		return true;
	ht_read(l->c->policy, HT_READ_conv_method);
	return l->c->conv_method != HT_CONV_WINOGRAD && l->c->conv_method != HT_CONV_WINOGRAD_2X2;
}

bool conv_is_project(const struct ht_node *n, struct conv *v)
{
	return n->op == HT_OP_Conv2D && conv_is_plain(n, v) && conv_is_simple(v) &&
	       v->filter.dim[0] == 1 && v->filter.dim[1] == 1;
}

/* Zeros around the image are multiplied here and left out elsewhere, which is one as long as no
 * weight is infinite or not a number. */
static bool is_finite(const struct ht_tensor *t)
{
	int64_t n = ht_shape_count(t->shape);

	for (int64_t i = 0; i < n; i++) {
		uint16_t h = t->dtype == HT_F32 ? 0 : (uint16_t)ht_load_u16(t->blob->p, i);
		float x = t->dtype == HT_F32   ? ht_load_f32(t->blob->p, i)
			  : t->dtype == HT_F16 ? ht_f16_to_f32(h)
					       : ht_bf16_to_f32(h);
		if (!isfinite(x))
			return false;
	}
	return true;
}

static bool is_depthwise(const struct ht_node *n, struct conv *v)
{
	if (n->op != HT_OP_DepthwiseConv2dNative || !conv_is_plain(n, v) || v->filter.dim[3] != 1)
		return false;
	for (int i = 0; i < 2; i++)
		if (v->w[i].dilation != 1 || v->w[i].size < v->w[i].stride ||
			v->w[i].in < LEAST_WIDTH || v->w[i].out < LEAST_WIDTH)
			return false;
	return is_finite(ht_const_tensor(n->in[1]));
}

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

static struct ht_node *sink_of(struct lower *l, const struct ht_node *root)
{
	return l->owner[root->id];
}

bool root_keeps_shape(const struct lower *l, const struct ht_node *root)
{
	return ht_shape_eq(root->out[0].shape, l->owner[root->id]->out[0].shape);
}

/* ---- when it pays ---- */

#define BYTES_A_CYCLE 24

/* Of float16 as a local buffer holds it: in memory it is converted twice, which takes as long as the
 * other half of the bytes. */
double block_bytes(const struct ht_node *n)
{
	const struct ht_type *t = &n->out[0];

	return (double)ht_shape_count(t->shape) *
	       (double)ht_dtype_info(local_type(t->dtype))->bytes;
}

double block_weights(const struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);

	return (double)ht_shape_count(t->shape) * (double)ht_dtype_info(t->dtype)->bytes;
}

double block_trip(const struct lower *l, double bytes)
{
	double stays = 2 * (double)l->target->l2;

	return bytes > stays ? 2 * (bytes - stays) / BYTES_A_CYCLE : 0;
}

double block_reads(const struct lower *l, double weights)
{
	return weights < (double)l->target->l1 / 2 ? 0 : weights / BYTES_A_CYCLE;
}

struct ht_method_choice block_choice(enum ht_method one, double saves, double costs)
{
	bool pays = saves > costs;

	return (struct ht_method_choice){ .method = pays ? one : HT_METHOD_KERNELS,
		.other = pays ? HT_METHOD_KERNELS : one,
		.reason = pays ? HT_REASON_TRAFFIC : HT_REASON_LITTLE_TRAFFIC,
		.is = saves,
		.limit = costs };
}

static struct ht_method_choice faster(struct lower *l, const struct block *b)
{
	const double tile = 500;
	double rows = (double)(b->v[1].out.dim[0] * b->v[1].out.dim[1]);
	double weights = block_weights(b->expand), bytes = block_bytes(sink_of(l, b->expand));

	if (b->project) {
		bytes += block_bytes(sink_of(l, b->depthwise));
		weights += block_weights(b->project);
	}
	return block_choice(
		HT_METHOD_ROWS, block_trip(l, bytes), rows * (tile + block_reads(l, weights)));
}

/* ---- the graph's blocks ---- */

static void join(struct lower *l, const struct block *b)
{
	struct block *kept = HT_NEW(l->scratch, struct block);
	struct ht_node *last = b->project ? b->project : b->depthwise;

	*kept = *b;
	l->place[sink_of(l, b->expand)->id] = PLACE_INLINE;
	if (b->project)
		l->place[sink_of(l, b->depthwise)->id] = PLACE_INLINE;
	l->block[sink_of(l, last)->id] = kept;
}

static void try_block(struct lower *l, struct ht_node *sink)
{
	struct block b = { .expand = l->root[sink->id] };

	/* what projects one block does not expand another */
	if (!b.expand || l->block[sink->id] || !is_expand(l, b.expand, &b.v[0]) ||
		!root_keeps_shape(l, b.expand))
		return;
	b.depthwise = root_behind(l, sink);
	if (!b.depthwise || !is_depthwise(b.depthwise, &b.v[1]))
		return;
	b.project =
		root_keeps_shape(l, b.depthwise) ? root_behind(l, sink_of(l, b.depthwise)) : NULL;
	if (b.project && !conv_is_project(b.project, &b.v[2]))
		b.project = NULL;
	if (lower_may_join(l,
		    (const struct ht_node *[]){ sink, sink_of(l, b.depthwise),
			    b.project ? sink_of(l, b.project) : NULL },
		    b.project ? 3 : 2) &&
		plan_block(l, b.depthwise, faster(l, &b)))
		join(l, &b);
}

void lower_blocks(struct lower *l)
{
	if (l->numerics)
		return;
	for (struct ht_node *n = l->g->first; n; n = n->next)
		if (l->place[n->id] == PLACE_MEMORY && l->owner[n->id] == n)
			try_block(l, n);
}
