/* The gradient of a convolution by its filter as a product over all pixels of all images.
 *
 * A row of the product is a position and a channel of the filter; it reads the image where the convolution read it.  The columns are
 * the channels of the result's gradient.  A tile takes some channels of the image, some columns, and a part of the pixels, so that
 * what it reads stays in the second level: it copies its share of the image, padded, to a local buffer in blocks of channels, packs its
 * share of the gradient to another, unless it lies in memory like that, and multiplies these.  The next tile takes other columns and finds the image in its buffer.  If there
 * are several parts, another kernel adds them.
 *
 * Where the machine has dot products of pairs of BF16, a number of both copies is a word: those that a pixel has in two images.
 * filter_matrix.c has the form for machines that multiply matrices of pairs. */
#include "lower/filter_product.h"
#include "lower/index.h"
#include "lower/pack.h"

#include <string.h>

enum { LEAST_TILE_COLUMNS = 64 };

/* The rows of a tile, at least, if the filter has as many: each number of the gradient that is packed is multiplied with all of them.  Where products ask
 * for the next share, packing costs less, and tiles of fewer channels have parts of more pixels, so that fewer sums of parts go through memory. */
enum { ROWS_OF_ASKED = FILTER_LEAST_ROWS / 2 };

/* A line of the result with fewer pixels than these is too short to be a loop of its own. */
enum { SHORT_LINE = 28 };

int64_t filter_divisor(int64_t n, int64_t least)
{
	int64_t d = least < 1 ? 1 : least;

	while (d < n && n % d)
		d++;
	return d < n ? d : n;
}

bool filter_multiplies_pairs(const struct filter_product *p, bool matrices)
{
	const struct ht_target *t = p->l->target;
	const enum ht_impl mode = lower_mode(p->n);

	return ht_type_of(p->n->in[0])->dtype == HT_BF16 && ht_target_group(t, HT_BF16) == 2 &&
	       (t->matrix_bf16 != 0) == matrices &&
	       (mode == HT_IMPL_NONE || mode == HT_IMPL_HIGH_PERFORMANCE);
}

/* ---- sizes ---- */

/* Channels of a block: those of a line of a cache, if that leaves none over. */
int64_t filter_lanes(int64_t channels)
{
	enum { HALF = LINE_ROWS / 2 };

	return channels % LINE_ROWS == 0 ? LINE_ROWS : channels % HALF == 0 ? HALF : channels;
}

static void size_rows(struct filter_product *p)
{
	const struct ht_shape filter = p->v->filter;
	const int64_t positions = filter.dim[0] * filter.dim[1];

	if (p->together) {
		filter_matrix_channels(p);
	} else {
		p->lanes = filter_lanes(filter.dim[2]);
		p->blocks = filter_divisor(filter.dim[2] / p->lanes,
			ht_ceil_div(
				p->asks ? ROWS_OF_ASKED : FILTER_LEAST_ROWS, positions * p->lanes));
	}
	p->channel_groups = filter.dim[2] / p->lanes / p->blocks;
	p->c.rows = positions * p->lanes * p->blocks;
}

void filter_size_columns(struct filter_product *p)
{
	const int64_t columns = p->v->filter.dim[3];
	int64_t of_tile;

	p->c.columns = columns;
	/* about as deep as the parts will be */
	p->c.depth = p->l->target->l2 / 4 / (LEAST_TILE_COLUMNS * (int64_t)sizeof(float)) * p->word;
	contract_size(&p->c);
	of_tile = p->c.nr;
	while (of_tile < LEAST_TILE_COLUMNS && columns % (2 * of_tile) == 0)
		of_tile *= 2;
	p->c.columns = columns % of_tile ? columns : of_tile;
	p->column_groups = columns / p->c.columns;
}

/* How far the last row of the filter is behind the first, in lines of the image. */
int64_t filter_reach(const struct window *w)
{
	return (w->size - 1) * w->dilation;
}

/* Sets the sizes of the copy that are the same for all parts. */
static void size_copy(struct filter_product *p)
{
	const struct window *w = p->v->w;
	const int64_t steps = filter_reach(&w[0]) + 1;

	if (p->together) {
		filter_matrix_copy(p);
		return;
	}
	p->apart = w[1].size == 1 || w[1].out < SHORT_LINE;
	p->shifts = p->apart ? w[1].size : 1;
	p->phases = !p->apart ? 1 : steps < w[0].stride ? steps : w[0].stride;
	p->width = p->apart ? w[1].out : (w[1].out - 1) * w[1].stride + filter_reach(&w[1]) + 1;
}

static int64_t height_of(const struct filter_product *p, int64_t lines)
{
	const struct window *w = &p->v->w[0];

	return p->apart ? lines + filter_reach(w) / w->stride
			: (lines - 1) * w->stride + filter_reach(w) + 1;
}

/* Elements that a tile copies and packs for a part of so many lines of an image. */
static int64_t elements_of(const struct filter_product *p, int64_t lines)
{
	const int64_t panels = ht_ceil_div(p->c.columns, p->c.nr);

	return p->blocks * p->lanes * p->shifts * p->phases * height_of(p, lines) * p->width +
	       lines * p->v->w[1].out * panels * p->c.nr;
}

/* Makes the largest parts of which a tile copies and packs at most so many elements. */
static void divide_by(struct filter_product *p, int64_t most)
{
	const int64_t lines = p->v->out.dim[1], all = ht_ceil_div(p->v->out.dim[0], p->word);
	const int64_t least = p->together ? p->together : 1; /* images of a part */
	const int64_t groups = all / least, fit = most / (least * elements_of(p, lines));

	p->each = filter_divisor(groups, fit < 1 ? groups : ht_ceil_div(groups, fit));
	p->bands = 1;
	while (fit < 1 && p->bands < lines &&
		(lines % p->bands || least * elements_of(p, lines / p->bands) > most))
		p->bands++;
	p->images = all / p->each;
	p->lines = lines / p->bands;
	p->height = height_of(p, p->lines);
}

/* Makes parts for a matrix unit.  Fewer images of a group leave room for more lines, but rows of a product then begin within lines of the cache, so
 * groups are halved only where lines would be copied often. */
static void divide_groups(struct filter_product *p, int64_t most)
{
	enum { LEAST_OF_HALVES = 16 };
	const double OFTEN = 1.5; /* measured, bench/README.md */

	divide_by(p, most);
	if (filter_matrix_copies(p) < OFTEN || p->together < 2 * LEAST_OF_HALVES)
		return;
	p->together /= 2;
	divide_by(p, most);
}

/* The elements of a part take at most half of the second level, or three quarters with a matrix unit; a quarter where the share of the next one is
 * there, too, unless sums would be shorter than those of LEAST_PIXELS.  Exception: the sums of all parts would take several times the memory of
 * the operands. */
static void divide(struct filter_product *p)
{
	enum { MOST_OF_OPERANDS = 3, LEAST_PIXELS = 384 };
	const int64_t operands = ht_shape_count(p->v->in) + ht_shape_count(p->v->out);
	const int64_t parts = MOST_OF_OPERANDS * operands / ht_shape_count(p->v->filter);
	const int64_t bytes = p->l->target->l2 / 4 * (p->together ? 3 : 2);
	int64_t most = bytes / (p->word * (int64_t)ht_dtype_info(p->c.dtype)->bytes);

	if (p->asks)
		most /= 2;
	if (p->together)
		divide_groups(p, most);
	else
		divide_by(p, most);
	if (p->asks && p->images * p->lines * p->v->out.dim[2] < LEAST_PIXELS)
		divide_by(p, most *= 2);
	while (p->each * p->bands > 1 && p->each * p->bands > parts)
		divide_by(p, most *= 2);
}

/* ---- the stages in front of the product ---- */

/* The first line of the part in the result, and its first image. */
int32_t filter_first_line(const struct filter_product *p, int32_t part)
{
	return ht_xmuli(p->b, ht_xmodi(p->b, part, p->bands), p->lines);
}

int32_t filter_first_image(const struct filter_product *p, int32_t part)
{
	return ht_xmuli(p->b, ht_xdivi(p->b, part, p->bands), p->images);
}

int32_t filter_grid_index(struct filter_product *p, int grid, int64_t count)
{
	return ht_xdim(p->b, kb_grid_dim(p->k, grid, count, 1));
}

int32_t filter_part(struct filter_product *p)
{
	return filter_grid_index(p, 0, p->each * p->bands);
}

enum {
	SHARE_BLOCK,
	SHARE_SHIFT,
	SHARE_PHASE,
	SHARE_IMAGE,
	SHARE_LINE,
	SHARE_COLUMN,
	SHARE_LANE,
	SHARE_RANK
};

/* The copy of the image. */
static void share_strides(
	const struct filter_product *p, int64_t dim[SHARE_RANK], int64_t stride[SHARE_RANK])
{
	int64_t n = 1;

	memcpy(dim,
		(int64_t[]){
			p->blocks, p->shifts, p->phases, p->images, p->height, p->width, p->lanes },
		SHARE_RANK * sizeof *dim);
	for (int i = SHARE_RANK - 1; i >= 0; i--) {
		stride[i] = n;
		n *= dim[i];
	}
}

/* Position of the image along direction i: number `at` of the copy, which begins at position `first` of the result. */
static int32_t position(
	const struct filter_product *p, int i, int32_t first, int32_t at, int32_t behind)
{
	const struct window *w = &p->v->w[i];
	struct ht_xb *b = p->b;
	int32_t x = ht_xadd(b, ht_xmuli(b, first, w->stride), ht_xaddi(b, behind, -w->before));

	return ht_xadd(b, x, ht_xmuli(b, at, p->apart ? w->stride : 1));
}

static bool stays_inside(const struct filter_product *p)
{
	return !p->apart && !window_leaves(&p->v->w[0]) && !window_leaves(&p->v->w[1]);
}

/* The number of a copy: the element at `at` of an operand, of whose dimensions the first one has a group of its own; or a word of those of two
 * images, where that index counts words. */
static int32_t copied(struct filter_product *p, int arg, const struct space *at)
{
	const struct view *v = lower_operand(p->l, p->n, arg);
	const int32_t word = at->group[0].x;
	struct ht_xb *b = p->b;
	int32_t bits[2];

	if (p->word == 1)
		return kb_load(p->k, v, at);
	for (int i = 0; i < 2; i++) {
		struct space one = *at;

		one.group[0].x = ht_xaddi(b, ht_xmuli(b, word, 2), i);
		if (i && at->dim[0] % 2)
			space_and_guard(b, &one, ht_xlt(b, one.group[0].x, ht_xi(b, at->dim[0])));
		bits[i] = contract_bits(b, HT_BF16, kb_load(p->k, v, &one));
	}
	return ht_xor(b, bits[0], ht_xshli(b, bits[1], 16));
}

bool filter_lies_in_memory(const struct view *v)
{
	return v->buffer >= 0 && view_is_dense(v) && !v->open && !v->ends;
}

/* Whether the copy is made line by line: all channels of an image, of which a vector has more than those of a pixel. */
static bool copies_lines(const struct filter_product *p)
{
	return !p->apart && p->lanes < LINE_ROWS && p->lanes == p->v->filter.dim[2] &&
	       filter_lies_in_memory(lower_operand(p->l, p->n, 0));
}

/* The dimensions of the copy's loop, as its expressions, and as the extents in `dim`: a line's columns and lanes are one, the lanes, where it is
 * made line by line. */
static void share_dims(struct filter_product *p, int64_t dim[SHARE_RANK], int32_t at[SHARE_RANK])
{
	/* All channels of a pixel are read together. */
	static const int loop[SHARE_RANK] = { SHARE_SHIFT, SHARE_PHASE, SHARE_IMAGE, SHARE_LINE,
		SHARE_COLUMN, SHARE_BLOCK, SHARE_LANE };

	if (copies_lines(p)) {
		dim[SHARE_LANE] *= dim[SHARE_COLUMN];
		dim[SHARE_COLUMN] = 1;
	}
	for (int i = 0; i < SHARE_RANK; i++)
		at[loop[i]] = ht_xdim(p->b, kb_dim(p->k, dim[loop[i]]));
	p->k->stage->vec = p->k->stage->dims - 1;
}

/* Sets the column and the channel of the element of the image that the copy has at `at`, and the guard of the column. */
static void image_column(
	struct filter_product *p, int32_t channels, const int32_t at[SHARE_RANK], struct space *of)
{
	const struct window *w = &p->v->w[1];
	const bool lines = copies_lines(p);
	const int64_t unit = lines ? p->lanes : 1; /* of columns */
	struct ht_xb *b = p->b;
	int32_t column, channel;

	if (lines) {
		column = ht_xaddi(b, at[SHARE_LANE], -w->before * unit);
		of->groups = 3;
		of->group[2] = (struct space_group){ 2, 3, column };
	} else {
		column = ht_xmuli(b, at[SHARE_SHIFT], w->dilation);
		column = position(p, 1, ht_xi(b, 0), at[SHARE_COLUMN], column);
		channel = ht_xadd(b, ht_xmuli(b, channels, p->blocks), at[SHARE_BLOCK]);
		channel = ht_xadd(b, ht_xmuli(b, channel, p->lanes), at[SHARE_LANE]);
		of->group[2] = (struct space_group){ 2, 2, column };
		of->group[3] = (struct space_group){ 3, 3, channel };
	}
	if (!stays_inside(p))
		space_and_guard(b, of, index_inside(b, column, p->v->in.dim[2] * unit));
}

static void image_stage(struct filter_product *p)
{
	int64_t dim[SHARE_RANK], stride[SHARE_RANK];
	struct space at = { .rank = 4, .groups = 4, .guard = -1 }, to;
	struct ht_xb *b = p->b;
	int32_t part, channels, line, at_of[SHARE_RANK];

	share_strides(p, dim, stride);
	kb_stage(p->k, HT_STAGE_LOOP)->start = true;
	part = filter_part(p);
	channels = filter_grid_index(p, 1, p->channel_groups);
	share_dims(p, dim, at_of);
	memcpy(at.dim, p->v->in.dim, 4 * sizeof *at.dim);
	at.group[0].x = ht_xadd(b, filter_first_image(p, part), at_of[SHARE_IMAGE]);
	line = position(p, 0, filter_first_line(p, part), at_of[SHARE_LINE], at_of[SHARE_PHASE]);
	at.group[1] = (struct space_group){ 1, 1, line };
	if (!stays_inside(p))
		space_and_guard(b, &at, index_inside(b, line, p->v->in.dim[1]));
	image_column(p, channels, at_of, &at);
	line = copied(p, 0, &at);
	to = space_of_coords(&(struct space){ .guard = -1 }, SHARE_RANK, dim, at_of);
	ht_xstore(b, p->image, space_offset(b, &to, stride, 0), line);
}

/* Whether the product can read the gradient where it lies, as rows of F32. */
static bool lies_in_rows(const struct filter_product *p)
{
	const struct view *from = lower_operand(p->l, p->n, 2);

	return p->c.kp == 1 && p->c.columns == p->c.nr && filter_lies_in_memory(from) &&
	       p->l->plan->buffer[from->buffer].dtype == p->c.packed_type;
}

/* Whether the product does so: it waits for memory while it multiplies, and not before.  The channels of a pixel are one panel then, or a few
 * panels if the products ask for the next share.  Panels of longer rows would compete for the same lines of the caches. */
static bool is_read_in_place(const struct filter_product *p)
{
	enum { MOST_PANELS = 4 };

	return lies_in_rows(p) && p->column_groups <= (p->asks ? MOST_PANELS : 1);
}

/* Where a share of the gradient begins, in elements of its buffer: a word of two numbers counts as one. */
static int32_t share_begins(struct filter_product *p, int32_t part, int32_t group)
{
	int32_t share = ht_xadd(p->b, ht_xmuli(p->b, part, p->column_groups), group);

	if (p->in_place) {
		share = ht_xmuli(p->b, part, p->column_groups * p->c.packed_count);
		share = ht_xadd(p->b, share, ht_xmuli(p->b, group, p->c.columns));
	} else {
		share = ht_xmuli(p->b, share, p->c.packed_count);
	}
	return ht_xaddi(p->b, share, p->packed_begin);
}

/* Packs a share of the gradient of the result: its pixels, [image, line, column], are the depth of the product.  `grid`: the dimension of the grid that
 * numbers groups of columns. */
static void gradient_stage(struct filter_product *p, int grid)
{
	const int64_t panels = ht_ceil_div(p->c.columns, p->c.nr);
	const int64_t dim[5] = { panels, p->images, p->lines, p->v->out.dim[2], p->c.nr };
	struct space at = { .guard = -1 };
	struct ht_xb *b = p->b;
	int32_t part, group, i[5], x[4], column, to, number;

	kb_stage(p->k, HT_STAGE_LOOP);
	part = filter_part(p);
	group = filter_grid_index(p, grid, p->column_groups);
	for (int d = 0; d < 5; d++)
		i[d] = ht_xdim(b, kb_dim(p->k, dim[d]));
	p->k->stage->vec = p->k->stage->dims - 1;
	x[0] = ht_xadd(b, filter_first_image(p, part), i[1]);
	x[1] = ht_xadd(b, filter_first_line(p, part), i[2]);
	x[2] = i[3];
	column = ht_xadd(b, ht_xmuli(b, i[0], p->c.nr), i[4]);
	x[3] = ht_xadd(b, ht_xmuli(b, group, p->c.columns), column);
	if (p->c.columns % p->c.nr)
		at.guard = ht_xlt(b, column, ht_xi(b, p->c.columns));
	at = space_of_coords(&at, 4, p->v->out.dim, x);
	number = copied(p, 2, &at);
	at = space_of_coords(&(struct space){ .guard = -1 }, 5, dim, i);
	to = space_linear(b, &at);
	if (p->packed >= 0)
		to = ht_xadd(b, to, share_begins(p, part, group));
	ht_xstore(b, p->gradient, to, number);
}

/* The element type of both copies. */
static enum ht_dtype copy_type(const struct filter_product *p)
{
	return p->word == 2 ? HT_U32 : HT_F32;
}

/* Whether a kernel in front packs all shares of the gradient, which reads and writes it once.  Otherwise the tiles of each group of channels pack the
 * same shares. */
static bool packs_in_front(const struct filter_product *p)
{
	enum { PASSES = 2 };
	const struct view *from = lower_operand(p->l, p->n, 2);

	return p->channel_groups > PASSES && !from->open && !from->ends;
}

static void pack_gradient(struct filter_product *p)
{
	const int64_t grid[2] = { p->each * p->bands, p->column_groups };
	struct kernel_build *k = p->k = &p->c.k;

	p->packed = plan_buffer(
		p->l, HT_PLAN_TEMP, copy_type(p), grid[0] * grid[1] * p->c.packed_count);
	p->b = &k->xb;
	kb_init(k, p->l, p->n);
	kb_grid(k, 2, grid);
	p->gradient = kb_arg(k, p->packed, HT_BUFFER_OUT);
	gradient_stage(p, 1);
	kb_finish(k, p->n);
}

/* Finds the gradient in memory as products read it, or makes it. */
static void find_packed(struct filter_product *p)
{
	p->packed = -1;
	if (p->together)
		return;
	p->in_place = is_read_in_place(p);
	if (p->in_place) {
		p->packed = lower_operand(p->l, p->n, 2)->buffer;
		p->packed_begin = lower_operand(p->l, p->n, 2)->offset;
	} else if (packs_in_front(p)) {
		pack_gradient(p);
	}
}

/* ---- the product ---- */

/* A row of the product. */
struct filter_row {
	int32_t block, position[2], lane;
};

static struct filter_row filter_row(const struct filter_product *p, int32_t m)
{
	struct space rows = { .rank = 4, .groups = 1, .guard = -1 };
	struct filter_row r;

	memcpy(rows.dim,
		(int64_t[]){ p->blocks, p->v->filter.dim[0], p->v->filter.dim[1], p->lanes },
		4 * sizeof *rows.dim);
	rows.group[0] = (struct space_group){ 0, 3, m };
	r.block = space_coord(p->b, &rows, 0);
	r.position[0] = space_coord(p->b, &rows, 1);
	r.position[1] = space_coord(p->b, &rows, 2);
	r.lane = space_coord(p->b, &rows, 3);
	return r;
}

/* Where the row begins in the copy of the image, for the current tap: an image, or a line of one. */
static int32_t row_offset(const struct filter_product *p, const struct filter_row *r)
{
	const struct window *w = p->v->w;
	int64_t dim[SHARE_RANK], stride[SHARE_RANK];
	struct ht_xb *b = p->b;
	int32_t x[SHARE_RANK], down = ht_xmuli(b, r->position[0], w[0].dilation);
	struct space at = { .guard = -1 };

	share_strides(p, dim, stride);
	x[SHARE_BLOCK] = r->block;
	x[SHARE_SHIFT] = x[SHARE_PHASE] = x[SHARE_COLUMN] = ht_xi(b, 0);
	x[SHARE_IMAGE] = p->c.tap_x[0];
	x[SHARE_LANE] = r->lane;
	if (p->apart) {
		x[SHARE_SHIFT] = r->position[1];
		x[SHARE_PHASE] = ht_xmodi(b, down, w[0].stride);
		x[SHARE_LINE] = ht_xdivi(b, down, w[0].stride);
	} else {
		x[SHARE_LINE] = ht_xadd(b, ht_xmuli(b, p->c.tap_x[1], w[0].stride), down);
		x[SHARE_COLUMN] = ht_xmuli(b, r->position[1], w[1].dilation);
	}
	at = space_of_coords(&at, SHARE_RANK, dim, x);
	return space_offset(b, &at, stride, 0);
}

/* Adds the dimensions of the sum: taps and depth. */
static void sum_dims(struct filter_product *p)
{
	p->c.tap_x[0] = ht_xdim(p->b, kb_reduce_dim(p->k, p->images));
	if (!p->apart)
		p->c.tap_x[1] = ht_xdim(p->b, kb_reduce_dim(p->k, p->lines));
	kb_reduce_dim(p->k, (p->apart ? p->lines : 1) * p->v->out.dim[2] * p->word);
}

void filter_store(struct filter_product *p, const struct view *parts, const int32_t x[5])
{
	const struct ht_shape filter = p->v->filter;
	int32_t sum = ht_xred(p->b, 0, HT_F32);
	struct space out = { .guard = -1 };
	int64_t dim[5];

	dim[0] = p->each * p->bands;
	memcpy(dim + 1, filter.dim, 4 * sizeof *dim);
	if (parts) {
		out = space_of_coords(&out, 5, dim, x);
		kb_store(p->k, parts, &out, sum);
	} else {
		out = space_of_coords(&out, 4, dim + 1, x + 1);
		kb_store_root(p->k, p->n, sum, &out);
	}
}

static void product_stage(struct filter_product *p, const struct view *parts)
{
	struct ht_contract *t = &kb_stage(p->k, HT_STAGE_CONTRACT)->contract;
	struct ht_xb *b = p->b;
	int32_t channels, columns, begins, x[5];
	struct filter_row row;

	x[0] = filter_part(p);
	channels = filter_grid_index(p, 1, p->channel_groups);
	columns = filter_grid_index(p, 2, p->column_groups);
	t->m = kb_dim(p->k, p->c.rows);
	t->n = kb_dim(p->k, p->c.columns);
	sum_dims(p);
	p->k->stage->vec = t->n;
	row = filter_row(p, ht_xdim(b, t->m));
	t->a_buffer = p->image;
	t->a_row = row_offset(p, &row);
	begins = p->packed >= 0 ? share_begins(p, x[0], columns) : ht_xi(b, 0);
	if (p->word == 2) /* the product counts the numbers of words */
		begins = ht_xmuli(b, begins, 2);
	contract_packed(&p->c, p->k, p->gradient, begins);
	t->b_row = p->in_place && p->column_groups > 1 ? p->v->filter.dim[3] : 0;
	if (p->asks)
		filter_ask_ahead(p, x[0], channels, columns);
	x[1] = row.position[0];
	x[2] = row.position[1];
	x[3] = ht_xadd(b, ht_xmuli(b, channels, p->blocks), row.block);
	x[3] = ht_xadd(b, ht_xmuli(b, x[3], p->lanes), row.lane);
	x[4] = ht_xadd(b, ht_xmuli(b, columns, p->c.columns), ht_xdim(b, t->n));
	filter_store(p, parts, x);
}

static struct view memory_of_parts(const struct filter_product *p)
{
	int64_t dim[5] = { p->each * p->bands };
	struct view v;

	memcpy(dim + 1, p->v->filter.dim, 4 * sizeof *dim);
	view_dense(&v,
		plan_buffer(p->l, HT_PLAN_TEMP, HT_F32, dim[0] * ht_shape_count(p->v->filter)),
		(struct ht_shape){ 5, dim });
	return v;
}

static void emit_tiles(struct filter_product *p, const struct view *parts)
{
	const int64_t grid[3] = { p->each * p->bands, p->channel_groups, p->column_groups };
	int64_t dim[SHARE_RANK], stride[SHARE_RANK];
	struct kernel_build *k = p->k = &p->c.k;

	p->b = &k->xb;
	kb_init(k, p->l, p->n);
	kb_grid(k, 3, grid);
	if (p->together) {
		filter_matrix_stages(p, parts);
		kb_finish(k, p->n);
		return;
	}
	share_strides(p, dim, stride);
	p->image = kb_local(k, copy_type(p), dim[0] * stride[0]);
	p->gradient = p->packed >= 0 ? kb_arg(k, p->packed, HT_BUFFER_IN)
				     : kb_local(k, copy_type(p), p->c.packed_count);
	image_stage(p);
	if (p->packed < 0)
		gradient_stage(p, 2);
	product_stage(p, parts);
	kb_finish(k, p->n);
}

void emit_filter_product(struct lower *l, struct ht_node *n, const struct conv *v)
{
	struct filter_product p = { .l = l, .n = n, .v = v };
	struct view parts;

	p.together = filter_images_together(&p);
	p.word = filter_multiplies_pairs(&p, false) && v->in.dim[0] > 1 ? 2 : 1;
	if (!p.together && filter_by_winograd(&p))
		return;
	p.asks = p.word == 1 && !p.together && l->target->prefetch_panels;
	contract_init(&p.c, l, n, p.together || p.word == 2 ? HT_BF16 : HT_F32);
	size_rows(&p);
	filter_size_columns(&p);
	HT_CHECK(p.word == 1 || p.c.kp == 2);
	size_copy(&p);
	divide(&p);
	p.c.a_step = p.together ? 1 : p.lanes * (p.apart ? 1 : v->w[1].stride);
	p.c.packed_count =
		ht_ceil_div(p.c.columns, p.c.nr) * p.c.nr * p.images * p.lines * v->out.dim[2];
	find_packed(&p);
	if (p.each * p.bands == 1) {
		emit_tiles(&p, NULL);
		return;
	}
	parts = memory_of_parts(&p);
	emit_tiles(&p, &parts);
	contract_add_parts(l, n, &parts);
}
