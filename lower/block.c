/* Which convolutions are computed as one kernel, row by row (block_emit.c).
 *
 * The wide tensors between them are then a few rows that stay in the second level.  That pays where
 * a whole one would not. */
#include "lower/block.h"

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
	if (!ht_is(n, HT_CONV) || !conv_is_plain(n, v) || !conv_is_simple(v))
		return false;
	if (v->filter.dim[0] == 1)
		return true;
	ht_note_read(l->asked->reads, HT_READ_conv_method);
	return l->asked->asked.conv != HT_CONV_WINOGRAD &&
	       l->asked->asked.conv != HT_CONV_WINOGRAD_2X2;
}

bool conv_is_project(const struct ht_node *n, struct conv *v)
{
	return ht_is(n, HT_CONV) && conv_is_plain(n, v) && conv_is_simple(v) &&
	       v->filter.dim[0] == 1 && v->filter.dim[1] == 1;
}

void conv_pack_project(struct lower *l, struct ht_node *n, const struct conv *v, int64_t a_step,
	struct contraction *c)
{
	contract_init(c, l, n, ht_type_of(n->in[0])->dtype);
	c->rows = v->out.dim[0] * v->out.dim[1] * v->out.dim[2];
	c->columns = v->filter.dim[3];
	c->depth = v->filter.dim[2];
	c->a_step = a_step;
	c->short_sums = false; /* rows are held as local_type() */
	contract_pack_const(c, ht_const_tensor(n->in[1]), 0, c->columns, 1, 1, 0);
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
	if (!ht_is(n, HT_DEPTHWISE) || !conv_is_plain(n, v) || v->filter.dim[3] != 1)
		return false;
	for (int i = 0; i < 2; i++)
		if (v->w[i].dilation != 1 || v->w[i].size < v->w[i].stride ||
			v->w[i].in < LEAST_WIDTH || v->w[i].out < LEAST_WIDTH)
			return false;
	return is_finite(ht_const_tensor(n->in[1]));
}

static struct ht_node *sink_of(struct lower *l, const struct ht_node *root)
{
	return l->owner[root->id];
}

/* ---- when it pays ---- */

/* As a local buffer holds it: what is widened there is converted twice in memory, which takes as long as the other half of
 * the bytes. */
double block_bytes(const struct lower *l, const struct ht_node *n)
{
	const struct ht_type *t = &n->out[0];

	return (double)ht_shape_count(t->shape) *
	       (double)ht_dtype_info(local_type(l, t->dtype))->bytes;
}

double block_weights(const struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);

	return (double)ht_shape_count(t->shape) * (double)ht_dtype_info(t->dtype)->bytes;
}

double block_trip(const struct lower *l, double bytes)
{
	double stays = 2 * (double)l->target->l2;

	return bytes > stays ? 2 * (bytes - stays) / l->target->rates->tensors : 0;
}

double block_reads(const struct lower *l, double weights)
{
	return weights < (double)l->target->l1 / 2 ? 0 : weights / l->target->rates->tensors;
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
	const double tile = l->target->rates->row_tile;
	double rows = (double)(b->v[1].out.dim[0] * b->v[1].out.dim[1]);
	double weights = block_weights(b->expand), bytes = block_bytes(l, sink_of(l, b->expand));

	if (b->project) {
		bytes += block_bytes(l, sink_of(l, b->depthwise));
		weights += block_weights(b->project);
	}
	return block_choice(
		HT_METHOD_ROWS, block_trip(l, bytes), rows * (tile + block_reads(l, weights)));
}

/* ---- the graph's blocks ---- */

void try_block(struct lower *l, struct ht_node *sink)
{
	struct block b = { .expand = l->root[sink->id] };
	struct ht_node *sinks[3] = { sink };

	/* what projects one block does not expand another */
	if (!b.expand || l->joined[sink->id].emit || !is_expand(l, b.expand, &b.v[0]) ||
		!root_keeps_shape(l, b.expand))
		return;
	b.depthwise = root_behind(l, sink);
	if (!b.depthwise || !is_depthwise(b.depthwise, &b.v[1]))
		return;
	b.project =
		root_keeps_shape(l, b.depthwise) ? root_behind(l, sink_of(l, b.depthwise)) : NULL;
	if (b.project && !conv_is_project(b.project, &b.v[2]))
		b.project = NULL;
	sinks[1] = sink_of(l, b.depthwise);
	sinks[2] = b.project ? sink_of(l, b.project) : NULL;
	if (lower_may_join(l, sinks, b.project ? 3 : 2) &&
		plan_block(l, b.depthwise, faster(l, &b)))
		lower_join(l, sinks, b.project ? 3 : 2, emit_block, &b, sizeof b);
}
