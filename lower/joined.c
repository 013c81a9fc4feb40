/* Decides which kernels are joined. */
#include "lower/joined.h"

/* A kernel has at most 64 buffers (kernel_build), of which some are its own. */
enum { MAX_OPERANDS = 48 };

/* In the order in which they are tried. */
static const struct joined_kind *const kinds[] = { &lower_join_block, &lower_join_excite,
	&lower_join_attention };

/* ---- for the kinds ---- */

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

struct joined_stage *joined_add(struct joined *d, const struct joined_loop *loop,
	struct ht_node *root, int32_t from, int32_t to)
{
	struct joined_stage *s = &d->stage[d->stages++];

	HT_CHECK(d->stages <= JOINED_STAGES);
	*s = (struct joined_stage){ .loop = loop, .root = root, .from = from, .to = to };
	return s;
}

struct joined_dim *joined_over(struct joined_stage *s, int32_t first, int32_t last, int64_t extent)
{
	struct joined_dim *d = &s->dim[s->dims++];

	HT_CHECK(s->dims <= JOINED_DIMS);
	*d = (struct joined_dim){ .extent = extent, .first = first, .last = last, .grid = -1 };
	return d;
}

void joined_share(struct joined_dim *d, int32_t grid, int64_t step)
{
	d->grid = grid;
	d->step = step;
}

/* ---- whether it pays ---- */

/* Bytes of the tensor in a local buffer.  If it is widened there, two conversions in memory take
 * as long as the other half of the bytes. */
static double bytes_of(const struct lower *l, const struct ht_type *t)
{
	return (double)ht_shape_count(t->shape) *
	       (double)ht_dtype_info(local_type(l, t->dtype))->bytes;
}

/* Cycles to write bytes beyond the second level and to read them again. */
static double trip(const struct lower *l, double bytes)
{
	double stays = 2 * (double)l->target->l2;

	return bytes > stays ? 2 * (bytes - stays) / l->target->rates->tensors : 0;
}

/* Cycles to read weights that do not stay in the first level. */
static double reads(const struct lower *l, double weights)
{
	return weights < (double)l->target->l1 / 2 ? 0 : weights / l->target->rates->tensors;
}

static double weights_of(const struct joined_stage *s)
{
	const struct ht_tensor *t =
		s->loop == &joined_product ? ht_const_tensor(s->root->in[1]) : NULL;

	return t ? (double)ht_shape_count(t->shape) * (double)ht_dtype_info(t->dtype)->bytes : 0;
}

/* Whether another stage of every tile has the same root.  If so, this prologue stage reads
 * nothing that the other stage does not read. */
static bool repeats(const struct joined *d, const struct joined_stage *s)
{
	for (int32_t i = 0; i < d->stages; i++)
		if (!d->stage[i].starts && d->stage[i].root == s->root)
			return true;
	return false;
}

struct ht_method_choice joined_by_traffic(const struct lower *l, const struct joined *d)
{
	double tiles = 1, bytes = 0, each = 0, once = 0, saves, costs;
	enum ht_method one = d->kind->method;

	for (int32_t i = 0; i < d->grids; i++)
		tiles *= (double)d->grid[i];
	for (int32_t i = 0; i < d->stages; i++) {
		const struct joined_stage *s = &d->stage[i];

		if (s->starts) {
			once += repeats(d, s) ? 0 : weights_of(s);
			continue;
		}
		each += weights_of(s);
		if (s->to != JOINED_MEMORY)
			bytes += bytes_of(l, &l->owner[s->root->id]->out[0]);
	}
	saves = trip(l, bytes);
	costs = tiles * (d->tile + reads(l, each)) + reads(l, once);
	return (struct ht_method_choice){ .method = saves > costs ? one : HT_METHOD_KERNELS,
		.other = saves > costs ? HT_METHOD_KERNELS : one,
		.reason = saves > costs ? HT_REASON_TRAFFIC : HT_REASON_LITTLE_TRAFFIC,
		.is = saves,
		.limit = costs };
}

/* ---- the graph's instances ---- */

/* Whether none of the kernels is in a joined kernel yet, and all together have few enough
 * operands. */
static bool may_join(const struct lower *l, const struct joined *d)
{
	int64_t operands = 0;

	for (int32_t i = 0; i < d->kernels; i++) {
		const struct ht_node *sink = d->sink[i];

		if (l->place[sink->id] != PLACE_MEMORY || l->joined[sink->id] ||
			lower_op_of(sink)->checks)
			return false;
		operands += l->kernel_operands[sink->id];
	}
	return operands <= MAX_OPERANDS;
}

/* Tensors between the joined kernels are no longer in memory. */
static void join(struct lower *l, const struct joined *d)
{
	struct joined *kept = HT_NEW(l->scratch, struct joined);

	*kept = *d;
	for (int32_t i = 0; i + 1 < d->kernels; i++)
		l->place[d->sink[i]->id] = PLACE_INLINE;
	l->joined[d->sink[d->kernels - 1]->id] = kept;
}

static void try_kind(struct lower *l, const struct joined_kind *kind, struct ht_node *sink)
{
	struct joined d = { .kind = kind };

	if (kind->describe(l, sink, &d) && may_join(l, &d) &&
		plan_block(l, d.named, kind->choose(l, &d)))
		join(l, &d);
}

void lower_join_kernels(struct lower *l)
{
	for (size_t i = 0; !l->numerics && !l->asked->tee && i < HT_COUNT(kinds); i++)
		for (struct ht_node *n = l->g->first; n; n = n->next)
			if (n->outs && l->place[n->id] == PLACE_MEMORY && l->owner[n->id] == n)
				try_kind(l, kinds[i], n);
}
