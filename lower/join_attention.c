/* Attention as one kernel: a product of queries and keys, the Softmax of its rows, and their
 * product with values.
 *
 * A tile is a block of rows of queries of one matrix.  Its scores and weights are in local
 * buffers.  Keys and values are packed in the first tile of each matrix, and in the first tile
 * of each call. */
#include "lower/joined.h"
#include "lower/product.h"
#include "lower/rows.h"

#include <string.h>

enum { MATRIX, BLOCK, GRID };
enum { SCORES, SHARES };

enum {
	LEAST_ROWS = 8, /* fewer rows would be summed in another order than in separate kernels */
	BLOCK_ELEMENTS =
		8192, /* scores of a tile: with the buffers made from them they fit beside a
		       * panel of keys or values */
	REGISTER_ROWS = 8
};

static bool same_lead(struct ht_shape a, struct ht_shape b)
{
	return a.rank == b.rank && a.rank >= 2 &&
	       !memcmp(a.dim, b.dim, (size_t)(a.rank - 2) * sizeof *a.dim);
}

/* Whether `n` is a product of two computed tensors, matrix by matrix, row by row of the left
 * one. */
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

/* Rows of a block, a multiple of the register tile's. */
static int64_t block_rows(int64_t rows, int64_t columns)
{
	int64_t step = BLOCK_ELEMENTS / columns / REGISTER_ROWS * REGISTER_ROWS;

	step = step < REGISTER_ROWS ? REGISTER_ROWS : step;
	return step < rows ? step : rows;
}

/* A stage over the tile's rows of one matrix. */
static struct joined_stage *add(struct joined *d, const struct joined_loop *loop,
	struct ht_node *root, int32_t from, int32_t to)
{
	struct joined_stage *s = joined_add(d, loop, root, from, to);
	struct ht_shape shape = root->out[0].shape;
	int32_t lead = shape.rank - 2;

	joined_share(joined_over(s, 0, lead - 1, d->grid[MATRIX]), MATRIX, 1);
	joined_share(joined_over(s, lead, lead, shape.dim[lead]), BLOCK,
		d->buffer[SCORES].extent[BLOCK]);
	joined_over(s, lead + 1, lead + 1, shape.dim[lead + 1]);
	return s;
}

static void describe_stages(
	struct joined *d, struct ht_node *scores, struct ht_node *softmax, struct ht_node *context)
{
	struct ht_shape shape = scores->out[0].shape;
	int64_t rows = shape.dim[shape.rank - 2], columns = shape.dim[shape.rank - 1];
	int64_t step = block_rows(rows, columns);
	const enum ht_dtype type = d->sink[1]->out[0].dtype;
	/* Each share takes the place of its score, if it has the same type. */
	const int32_t shares = type == rows_type(softmax) ? SCORES : SHARES;

	d->grids = GRID;
	d->grid[MATRIX] = ht_shape_count(shape) / (rows * columns);
	d->grid[BLOCK] = ht_ceil_div(rows, step);
	d->buffer[SCORES] =
		(struct joined_buffer){ rows_type(softmax), { 0, step, columns }, false };
	d->buffer[SHARES] = (struct joined_buffer){ type, { 0, step, columns }, false };
	joined_add(d, &joined_pack, scores, JOINED_MEMORY, JOINED_MEMORY)->starts = true;
	joined_add(d, &joined_pack, context, JOINED_MEMORY, JOINED_MEMORY)->starts = true;
	add(d, &joined_product, scores, JOINED_MEMORY, SCORES);
	add(d, &joined_softmax, softmax, SCORES, shares);
	add(d, &joined_product, context, shares, JOINED_MEMORY);
}

static bool describe(struct lower *l, struct ht_node *sink, struct joined *d)
{
	struct ht_node *scores = l->root[sink->id], *softmax, *context;

	if (!scores || !is_plain(scores) || !root_keeps_shape(l, scores))
		return false;
	softmax = root_behind(l, sink);
	if (!softmax || softmax->op != HT_OP_Softmax || !root_keeps_shape(l, softmax))
		return false;
	context = root_behind(l, l->owner[softmax->id]);
	if (!context || !is_plain(context))
		return false;
	d->kernels = 3;
	d->sink[0] = sink;
	d->sink[1] = l->owner[softmax->id];
	d->sink[2] = l->owner[context->id];
	d->named = context;
	describe_stages(d, scores, softmax, context);
	return true;
}

/* Threads take tiles in several calls, and each call packs the keys and values of every matrix
 * that it has a part of.  With few matrices the same packing is repeated: on two threads 4
 * matrices take up to 4 % longer than separate kernels and 1 up to 28 %, but 8 and more never
 * take longer.  One thread makes one call, so the joined kernel is always faster there. */
static struct ht_method_choice choose(const struct lower *l, const struct joined *d)
{
	enum { LEAST_MATRICES = 8 };
	bool many = d->grid[MATRIX] >= LEAST_MATRICES;

	(void)l;
	return (struct ht_method_choice){ .method = many ? HT_METHOD_ATTENTION : HT_METHOD_KERNELS,
		.other = many ? HT_METHOD_KERNELS : HT_METHOD_ATTENTION,
		.reason = many ? HT_REASON_MANY : HT_REASON_FEW,
		.is = (double)d->grid[MATRIX],
		.limit = LEAST_MATRICES };
}

const struct joined_kind lower_join_attention = { HT_METHOD_ATTENTION, describe, choose };
