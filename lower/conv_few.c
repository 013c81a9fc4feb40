/* Convolutions of images of few channels on machines that multiply matrices of pairs of BF16.
 *
 * A row of the window is one run of a line of the image, and a matrix unit reads rows that lie at one distance from each other.  So a tile copies
 * the lines that it needs to a local buffer, with their padding: then the rows of all results of a line are runs at the distance of the stride,
 * which overlap.  Where a run has an odd number of elements, each pixel of the copy ends with a zero, so that runs are pairs: a pair of an
 * element and what lies behind the run would multiply that by zero, which is not always zero. */
#include "lower/conv.h"
#include "lower/index.h"
#include "lower/pack.h"

/* A run that fills less than half of a step in depth is no gain (bench/README.md). */
enum { LEAST_RESULTS = 16, LEAST_TILES = 8, LEAST_RUN = 16 };

struct few {
	struct lower *l;
	struct ht_node *n;
	const struct conv *v;
	struct contraction c;
	struct kernel_build *k;
	struct ht_xb *b;
	int64_t pixel, bands,
		lines; /* elements of a pixel of the copy; tiles of an image; results of a tile */
	int32_t copy;
};

/* Lines of the image that so many lines of results read, or pixels of a line. */
static int64_t reach_of(const struct window *w, int64_t results)
{
	return (results - 1) * w->stride + (w->size - 1) * w->dilation + 1;
}

static int64_t line_of(const struct few *x)
{
	return reach_of(&x->v->w[1], x->v->out.dim[2]) * x->pixel;
}

static bool has_form(const struct few *x)
{
	const struct view *in = lower_operand(x->l, x->n, 0);

	for (int i = 1; i < 3; i++)
		if (lower_axis_end(x->n, i).size)
			return false;
	return contract_in_matrices(x->l, x->n) && !in->open && !in->ends &&
	       x->v->out.dim[2] >= LEAST_RESULTS && x->v->w[1].size * x->pixel >= LEAST_RUN;
}

/* Divides an image into the fewest bands of lines whose copies take up to half of the second level, and that are enough tiles. */
static bool choose_bands(struct few *x)
{
	const int64_t lines = x->v->out.dim[1], most = x->l->target->l2 / 2;
	const int64_t line = line_of(x) * (int64_t)ht_dtype_info(HT_BF16)->bytes;

	for (x->bands = 1; x->bands <= lines; x->bands++) {
		x->lines = lines / x->bands;
		if (lines % x->bands == 0 && reach_of(&x->v->w[0], x->lines) * line <= most &&
			(x->bands == lines || x->v->out.dim[0] * x->bands >= LEAST_TILES))
			return true;
	}
	return false;
}

/* Packs the filter, the elements of each pixel as a tap: a tap of an odd depth is filled up with a zero.  Then rows of the window are the taps. */
static void pack_rows(struct few *x)
{
	const struct conv *v = x->v;
	struct contraction *c = &x->c;

	contract_init(c, x->l, x->n, HT_BF16);
	c->rows = v->out.dim[0] * v->out.dim[1] * v->out.dim[2];
	c->columns = v->filter.dim[3];
	c->depth = v->in.dim[3];
	c->taps = 2;
	c->tap[0] = v->w[0].size;
	c->tap[1] = v->w[1].size;
	pack_filter(c, x->n, 1, c->depth * c->columns, c->columns, 1, 1, 0);
	c->taps = 1;
	c->depth = c->tap[1] * x->pixel;
	HT_CHECK(c->kp == 2 && c->packed_type == HT_BF16);
}

/* The index of the tile; tiles end at the images of the run. */
static int32_t tile_index(const struct few *x)
{
	const int64_t tiles = x->v->out.dim[0] * x->bands;
	const int dim = kb_grid_dim(x->k, 0, tiles, 1);

	kb_cut(x->k, dim, ht_out(x->k->sink, 0),
		(struct cut_span){ .stride = ht_shape_count(x->v->out) / tiles, .extent = tiles });
	return ht_xdim(x->b, dim);
}

/* The first line of results of the tile. */
static int32_t first_line(const struct few *x, int32_t tile)
{
	return ht_xmuli(x->b, ht_xmodi(x->b, tile, x->bands), x->lines);
}

static int32_t place_in_copy(const struct few *x, int32_t line, int32_t at)
{
	return ht_xadd(x->b, ht_xmuli(x->b, line, line_of(x)), at);
}

static void copy_stage(struct few *x)
{
	const struct conv *v = x->v;
	struct space at = { .rank = 4, .guard = -1 };
	struct ht_xb *b = x->b;
	int32_t i[3], from[4], tile;

	kb_stage(x->k, HT_STAGE_LOOP);
	tile = tile_index(x);
	i[0] = ht_xdim(b, kb_dim(x->k, reach_of(&v->w[0], x->lines)));
	i[1] = ht_xdim(b, kb_dim(x->k, line_of(x) / x->pixel));
	i[2] = ht_xdim(b, kb_dim(x->k, x->pixel));
	x->k->stage->vec = x->k->stage->dims - 1;
	from[0] = ht_xdivi(b, tile, x->bands);
	from[1] = ht_xadd(b, ht_xmuli(b, first_line(x, tile), v->w[0].stride), i[0]);
	from[1] = ht_xaddi(b, from[1], -v->w[0].before);
	from[2] = ht_xaddi(b, i[1], -v->w[1].before);
	from[3] = i[2];
	for (int d = 1; d < 3; d++)
		space_and_guard(b, &at, index_inside(b, from[d], v->in.dim[d]));
	if (x->pixel > v->in.dim[3])
		space_and_guard(b, &at, ht_xlt(b, from[3], ht_xi(b, v->in.dim[3])));
	at = space_of_coords(&at, 4, v->in.dim, from);
	from[0] = contract_low(b, HT_BF16, kb_load(x->k, lower_operand(x->l, x->n, 0), &at));
	ht_xstore(b, x->copy, place_in_copy(x, i[0], ht_xadd(b, ht_xmuli(b, i[1], x->pixel), i[2])),
		from[0]);
}

static void product_stage(struct few *x)
{
	const struct conv *v = x->v;
	struct ht_contract *t = &kb_stage(x->k, HT_STAGE_CONTRACT)->contract;
	struct space out = { .guard = -1 };
	struct ht_xb *b = x->b;
	int32_t tile = tile_index(x), line, at, r[4];

	line = ht_xdim(b, kb_dim(x->k, x->lines));
	t->m = kb_dim(x->k, v->out.dim[2]);
	t->n = kb_dim(x->k, x->c.columns);
	x->c.tap_x[0] = ht_xdim(b, kb_reduce_dim(x->k, x->c.tap[0]));
	kb_reduce_dim(x->k, x->c.depth);
	x->k->stage->vec = t->n;
	r[0] = ht_xdivi(b, tile, x->bands);
	r[1] = ht_xadd(b, first_line(x, tile), line);
	r[2] = ht_xdim(b, t->m);
	r[3] = ht_xdim(b, t->n);
	at = ht_xmuli(b, line, v->w[0].stride);
	at = ht_xadd(b, at, ht_xmuli(b, x->c.tap_x[0], v->w[0].dilation));
	t->a_buffer = x->copy;
	t->a_row = place_in_copy(x, at, ht_xmuli(b, r[2], v->w[1].stride * x->pixel));
	contract_packed(&x->c, x->k, kb_arg(x->k, x->c.b, HT_BUFFER_IN), ht_xi(b, 0));
	out = space_of_coords(&out, 4, v->out.dim, r);
	kb_store_root(x->k, x->n, ht_xred(b, 0, HT_F32), &out);
}

bool conv_of_few_channels(struct lower *l, struct ht_node *n, const struct conv *v)
{
	const int64_t channels = v->in.dim[3];
	struct few x = { .l = l, .n = n, .v = v, .pixel = channels + v->w[1].size * channels % 2 };
	struct kernel_build k;
	int64_t grid[1];

	if (!has_form(&x) || !choose_bands(&x))
		return false;
	pack_rows(&x);
	grid[0] = v->out.dim[0] * x.bands;
	x.k = &k;
	x.b = &k.xb;
	kb_init(&k, l, n);
	kb_grid(&k, 1, grid);
	x.copy = kb_local(&k, HT_BF16, reach_of(&v->w[0], x.lines) * line_of(&x));
	copy_stage(&x);
	product_stage(&x);
	kb_finish(&k, n);
	return true;
}
