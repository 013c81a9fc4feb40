/* Blocks (block.h) as one kernel.
 *
 * A tile is a row of results.  It computes those rows of the expansion that no row before it needed,
 * into a ring of as many rows as the depthwise window has; the depthwise row from the ring; and the
 * projected row from that.  The other rows of its window are in the ring since the tile before; where
 * there was none, stages that start compute them.
 *
 * Rows in the ring are as wide as all windows together reach, and zero outside of the image, above
 * and below it too, so that nothing is guarded where they are read. */
#include "lower/block.h"
#include "lower/index.h"

enum { IMAGE, ROW, GRID };

/* Pixels that share weights, as where the convolution is a kernel of its own (kernel_conv.c). */
enum { PIXELS_SIDE_BY_SIDE = 4, MAX_UNROLLED_TAPS = 49 };

struct row_block {
	struct lower *l;
	const struct block *block;
	const struct window *w; /* of the depthwise convolution */
	struct kernel_build *k;
	struct ht_xb *b;
	struct simple_conv expand;
	struct contraction project;
	int64_t channels;
	int64_t width, slots; /* of the ring */
	int32_t ring, line;   /* local buffers; line: a row of the depthwise convolution */
	int32_t x[4], guard;  /* of the stage: image, row, column, channel */
};

/* ---- places in the ring ---- */

/* Row `row` of the image, counted from the first that any window reaches, is in slot row modulo their
 * number; columns are counted likewise. */
static int32_t ring_at(struct row_block *r, int32_t row, int32_t column, int32_t channel)
{
	struct ht_xb *b = r->b;
	int32_t at = ht_xmodi(b, row, r->slots);

	at = ht_xadd(b, ht_xmuli(b, at, r->width), column);
	return ht_xadd(b, ht_xmuli(b, at, r->channels), channel);
}

/* ---- stages ---- */

/* Opens a stage of the kernel of root `n`: images; `rows` rows, or 0: the row of results; columns;
 * channels. */
static void open_stage(struct row_block *r, struct ht_node *n, enum ht_stage_kind kind,
	int64_t rows, int64_t columns, int64_t channels)
{
	struct kernel_build *k = r->k;

	kb_stage_of(k, n, kind);
	kb_grid_dim(k, IMAGE, r->block->v[1].out.dim[0], 1);
	if (rows)
		kb_dim(k, rows);
	else
		kb_grid_dim(k, ROW, r->block->v[1].out.dim[1], 1);
	kb_dim(k, columns);
	k->stage->vec = kb_dim(k, channels);
}

static void take_indices(struct row_block *r)
{
	for (int i = 0; i < 4; i++)
		r->x[i] = ht_xdim(r->b, i);
}

static struct space pixel_space(const struct row_block *r, const struct ht_node *n, int32_t row)
{
	struct space like = { .guard = -1 };
	int32_t x[4] = { r->x[0], row, r->x[2], r->x[3] };

	return space_of_coords(&like, 4, n->out[0].shape.dim, x);
}

static void store_local(struct row_block *r, int32_t buffer, int32_t at, int32_t x)
{
	ht_xstore(
		r->b, buffer, at, ht_xcvt(r->b, local_type(r->k->l, r->k->sink->out[0].dtype), x));
}

static void set_product(struct row_block *r, const struct contraction *of, int32_t *tap)
{
	struct ht_contract *c = &r->k->stage->contract;

	for (int i = 0; i < of->taps; i++)
		tap[i] = ht_xdim(r->b, kb_reduce_dim(r->k, of->tap[i]));
	kb_reduce_dim(r->k, of->depth);
	take_indices(r);
	c->m = 2;
	c->n = 3;
	contract_packed(of, r->k, kb_arg(r->k, of->b, HT_BUFFER_IN), ht_xi(r->b, 0));
}

/* Rows [first, end) of the expansion, counted from the first of the row of results' window. */
static void expand_stage(struct row_block *r, int64_t first, int64_t end)
{
	const struct block *block = r->block;
	const struct conv *v = &block->v[1];
	struct ht_xb *b = r->b;
	struct ht_contract *c;
	int32_t tap[2], row, h, x, inside = -1;
	struct space at;

	open_stage(r, block->expand, HT_STAGE_CONTRACT, end - first, v->in.dim[2], r->channels);
	set_product(r, &r->expand.c, tap);
	c = &r->k->stage->contract;
	row = ht_xadd(
		b, ht_xmuli(b, ht_xgrid(b, ROW), r->w[0].stride), ht_xaddi(b, r->x[1], first));
	h = ht_xaddi(b, row, -r->w[0].before);
	if (window_leaves(&r->w[0]))
		inside =
			ht_xand(b, ht_xle(b, ht_xi(b, 0), h), ht_xlt(b, h, ht_xi(b, v->in.dim[1])));
	c->a_buffer = kb_arg(r->k, r->expand.in.buffer, HT_BUFFER_IN);
	c->a_row = simple_conv_row(&r->expand, b, tap, (int32_t[3]){ r->x[0], h, r->x[2] });
	c->a_guard = inside;
	at = pixel_space(r, block->expand, h);
	at.guard = inside;
	x = kb_epilogue(r->k, block->expand, ht_xred(b, 0, HT_F32), &at);
	if (inside >= 0)
		x = ht_xselect(b, inside, x, ht_xf(b, 0));
	store_local(r, r->ring, ring_at(r, row, ht_xaddi(b, r->x[2], r->w[1].before), r->x[3]), x);
}

/* Zeros in `columns` columns of the ring from column `first`, from the start. */
static void zero_stage(struct row_block *r, int64_t first, int64_t columns)
{
	if (columns <= 0)
		return;
	open_stage(r, r->block->expand, HT_STAGE_LOOP, r->slots, columns, r->channels);
	r->k->stage->start = true;
	take_indices(r);
	store_local(r, r->ring, ring_at(r, r->x[1], ht_xaddi(r->b, r->x[2], first), r->x[3]),
		ht_xf(r->b, 0));
}

static void depthwise_stage(struct row_block *r)
{
	const struct block *block = r->block;
	const struct conv *v = &block->v[1];
	struct ht_node *n = block->depthwise;
	enum ht_dtype t = local_type(r->k->l, ht_type_of(n->in[0])->dtype);
	struct ht_xb *b = r->b;
	struct space at, filter;
	int32_t from[2], f[4], x;

	open_stage(r, n, HT_STAGE_LOOP, 0, v->out.dim[2], r->channels);
	if (v->out.dim[2] >= PIXELS_SIDE_BY_SIDE)
		r->k->stage->dim[2].unroll = PIXELS_SIDE_BY_SIDE;
	for (int i = 0; i < 2; i++) {
		int d = kb_reduce_dim(r->k, r->w[i].size);
		if (r->w[0].size * r->w[1].size <= MAX_UNROLLED_TAPS)
			r->k->stage->dim[d].unroll = (int8_t)r->w[i].size;
		f[i] = ht_xdim(b, d);
	}
	take_indices(r);
	for (int i = 0; i < 2; i++)
		from[i] = ht_xadd(b, ht_xmuli(b, r->x[1 + i], r->w[i].stride), f[i]);
	x = ht_xload(b, r->ring, t, ring_at(r, from[0], from[1], r->x[3]));
	at = pixel_space(r, n, r->x[1]);
	f[2] = r->x[3];
	f[3] = ht_xi(b, 0);
	filter = space_of_coords(&at, 4, v->filter.dim, f);
	x = ht_xmul(b, ht_xcvt(b, HT_F32, x), kb_pull(r->k, n->in[1], &filter));
	x = kb_reduce(r->k, HT_RED_ADD, HT_F32, x);
	if (!block->project) {
		kb_store_root(r->k, n, x, &at);
		return;
	}
	x = kb_epilogue(r->k, n, x, &at);
	store_local(r, r->line, ht_xadd(b, ht_xmuli(b, r->x[2], r->channels), r->x[3]), x);
}

static void project_stage(struct row_block *r)
{
	const struct block *block = r->block;
	const struct conv *v = &block->v[2];
	struct ht_xb *b = r->b;
	struct ht_contract *c;
	struct space at;

	open_stage(r, block->project, HT_STAGE_CONTRACT, 0, v->in.dim[2], v->out.dim[3]);
	set_product(r, &r->project, NULL);
	c = &r->k->stage->contract;
	c->a_buffer = r->line;
	c->a_row = ht_xmuli(b, r->x[2], r->channels);
	at = pixel_space(r, block->project, r->x[1]);
	kb_store_root(r->k, block->project, ht_xred(b, 0, HT_F32), &at);
}

/* ---- the kernel ---- */

static void make_buffers(struct row_block *r)
{
	const struct conv *v = &r->block->v[1];
	int64_t reach = (v->out.dim[2] - 1) * r->w[1].stride + r->w[1].size;
	int64_t image = r->w[1].before + v->in.dim[2];

	r->width = reach > image ? reach : image;
	r->slots = r->w[0].size;
	r->ring = kb_local(r->k, local_type(r->k->l, ht_type_of(r->block->depthwise->in[0])->dtype),
		r->slots * r->width * r->channels);
	if (r->block->project)
		r->line = kb_local(r->k,
			local_type(r->k->l, ht_type_of(r->block->project->in[0])->dtype),
			v->out.dim[2] * r->channels);
}

void emit_block(struct lower *l, const void *of)
{
	const struct block *block = of;
	const struct conv *v = &block->v[1];
	struct kernel_build k;
	struct row_block r = {
		.l = l, .block = block, .w = v->w, .k = &k, .b = &k.xb, .channels = v->in.dim[3]
	};
	int64_t grid[GRID] = { v->out.dim[0], v->out.dim[1] };
	int64_t size = r.w[0].size, before = size - r.w[0].stride;

	simple_conv(l, block->expand, &block->v[0], &r.expand);
	if (block->project)
		conv_pack_project(l, block->project, &block->v[2], 1, &r.project);
	kb_init(&k, l, block->depthwise);
	k.kernel->method = ht_method_info[HT_METHOD_ROWS].name;
	kb_grid(&k, GRID, grid);
	make_buffers(&r);
	zero_stage(&r, 0, r.w[1].before);
	zero_stage(&r, r.w[1].before + v->in.dim[2], r.width - r.w[1].before - v->in.dim[2]);
	if (before > 0) {
		expand_stage(&r, 0, before);
		k.stage->start = true;
	}
	expand_stage(&r, before, size);
	depthwise_stage(&r);
	if (block->project)
		project_stage(&r);
	kb_finish(&k, block->depthwise);
}
