/* The gradient of a convolution by its 3 x 3 filter by Winograd's method, F(3 x 3, 2 x 2) (kernel/winograd.h).
 *
 * A tile of the gradient has 2 x 2 numbers, and the windows of its taps are in 4 x 4 elements of the image.  Both are transformed to 16
 * numbers; the 16 products of matrices, channels by tiles times tiles by columns, are sums over all tiles of all images.  What a part of
 * the tiles adds to them is stored, and a kernel adds the parts and transforms the sums back.
 *
 * A kernel makes the four products of a row of the 16, since the numbers of all tiles that make a long sum would not stay in the second
 * level otherwise; it transforms only what that row takes.  Like those of the direct method (filter_product.c), numbers of its two local buffers
 * are words of two images where pairs of BF16 are multiplied. */
#include "lower/filter_product.h"
#include "lower/index.h"
#include "lower/pack.h"

#include "kernel/winograd.h"

#include <math.h>

enum { SIDE = 4, RESULTS = 2, TAPS = 3, LEAST_ROWS = 128 };

struct sums {
	struct filter_product *p; /* lines of a part are those of tiles */
	int64_t tiles[2];         /* of an image */
	int row;                  /* of the products of the current kernel */
};

/* How many tiles a part has; those of two images that share words count once. */
static int64_t tiles_of_part(const struct sums *s)
{
	return s->p->images * s->p->lines * s->tiles[1];
}

/* ---- sizes ---- */

static void size_rows(struct filter_product *p)
{
	p->lanes = filter_lanes(p->v->filter.dim[2]);
	p->blocks =
		filter_divisor(p->v->filter.dim[2] / p->lanes, ht_ceil_div(LEAST_ROWS, p->lanes));
	p->channel_groups = p->v->filter.dim[2] / p->lanes / p->blocks;
	p->c.rows = p->lanes * p->blocks;
}

/* How many numbers the two local buffers have together if a part has so many tiles. */
static int64_t numbers_of(const struct filter_product *p, int64_t tiles)
{
	const int64_t columns = ht_ceil_div(p->c.columns, p->c.nr) * p->c.nr;

	return SIDE * tiles * (p->c.rows + columns);
}

/* Divides the images, and their lines of tiles, into the largest parts of which the local buffers have at most so many numbers. */
static void divide_by(struct sums *s, int64_t most)
{
	struct filter_product *p = s->p;
	const int64_t all = ht_ceil_div(p->v->out.dim[0], p->word), lines = s->tiles[0];
	const int64_t fit = most / numbers_of(p, lines * s->tiles[1]);

	p->each = filter_divisor(all, fit < 1 ? all : ht_ceil_div(all, fit));
	p->bands = 1;
	while (fit < 1 && p->bands < lines &&
		(lines % p->bands || numbers_of(p, lines / p->bands * s->tiles[1]) > most))
		p->bands++;
	p->images = all / p->each;
	p->lines = lines / p->bands;
}

/* The numbers of a part take at most three quarters of the second level.  Exception: the sums of all parts would take several times the
 * memory of the operands. */
static void divide(struct sums *s)
{
	enum { MOST_OF_OPERANDS = 3 };
	struct filter_product *p = s->p;
	const int64_t operands = ht_shape_count(p->v->in) + ht_shape_count(p->v->out);
	const int64_t sums = SIDE * SIDE * p->v->filter.dim[2] * p->v->filter.dim[3];
	int64_t most = p->l->target->l2 / 4 * 3 / (int64_t)sizeof(float);

	divide_by(s, most);
	while (p->each * p->bands > 1 && p->each * p->bands * sums > MOST_OF_OPERANDS * operands)
		divide_by(s, most *= 2);
}

/* ---- when it pays ---- */

static bool fits(const struct filter_product *p)
{
	for (int i = 0; i < 2; i++)
		if (p->v->w[i].size != TAPS || p->v->w[i].stride != 1 || p->v->w[i].dilation != 1)
			return false;
	return true;
}

/* Cycles of so many multiply-adds of this type. */
static double product_cycles(const struct filter_product *p, double multiply_adds)
{
	const struct ht_target *t = p->l->target;

	return multiply_adds / ht_target_lanes(t) / ht_target_products(t, p->c.dtype) /
	       t->rates->efficiency;
}

/* Estimated cycles of the direct method, and of this one. */
static double direct_cycles(const struct filter_product *p)
{
	const struct ht_shape filter = p->v->filter, out = p->v->out;

	return product_cycles(
		p, (double)ht_shape_count(filter) * (double)(out.dim[0] * out.dim[1] * out.dim[2]));
}

static double cycles(const struct sums *s)
{
	const struct filter_product *p = s->p;
	const struct ht_rates *rates = p->l->target->rates;
	const double lanes = ht_target_lanes(p->l->target);
	const double channels = (double)p->v->filter.dim[2], columns = (double)p->v->filter.dim[3];
	const double parts = (double)(p->each * p->bands);
	const double tiles = parts * (double)(tiles_of_part(s) * p->word);
	const double vectors =
		ceil(channels / lanes) + ceil(columns / lanes) * (double)p->channel_groups;
	const double sums = parts * SIDE * SIDE * channels * columns;

	return product_cycles(p, SIDE * SIDE * tiles * channels * columns) +
	       tiles * vectors * rates->winograd_image_2 +
	       2 * sums * (double)sizeof(float) / rates->tensors;
}

static double error_of(const struct filter_product *p)
{
	return ht_winograd_error(RESULTS, p->word == 2 ? HT_BF16 : HT_F32);
}

static bool pays(const struct sums *s, struct ht_method_choice *why)
{
	const struct filter_product *p = s->p;
	const struct ht_shape filter = p->v->filter;
	const int64_t narrow = filter.dim[2] < filter.dim[3] ? filter.dim[2] : filter.dim[3];

	return winograd_is_faster(p->l->target, HT_METHOD_WINOGRAD_2X2, narrow,
		cycles(s) / direct_cycles(p), error_of(p), why);
}

/* Whether the method is taken; notes the choice. */
static bool chosen(const struct sums *s)
{
	const struct filter_product *p = s->p;
	const enum ht_impl mode = lower_mode(p->n);
	const enum ht_conv_method asked = p->l->asked->asked.conv;
	struct ht_method_choice why = {
		.method = HT_METHOD_DIRECT, .other = HT_METHOD_END, .reason = HT_REASON_MODE
	};
	bool taken = false;

	if (mode == HT_IMPL_NONE || mode == HT_IMPL_HIGH_PERFORMANCE) {
		ht_note_read(p->l->asked->reads, HT_READ_conv_method);
		why.reason = HT_REASON_ASKED;
		taken = asked == HT_CONV_AUTO ? pays(s, &why) : asked != HT_CONV_DIRECT;
	}
	if (taken && asked != HT_CONV_AUTO) {
		why.method = HT_METHOD_WINOGRAD_2X2;
		why.error = error_of(p);
	}
	plan_choice(p->l, p->n, why);
	return taken;
}

/* ---- transforms ---- */

/* One direction of the transform of the gradient. */
static void transform_gradient(struct ht_xb *b, const int32_t x[RESULTS], int32_t r[SIDE])
{
	const int32_t half = ht_xf(b, .5);

	r[0] = x[0];
	r[1] = ht_xmul(b, ht_xadd(b, x[0], x[1]), half);
	r[2] = ht_xmul(b, ht_xsub(b, x[0], x[1]), half);
	r[3] = x[1];
}

/* One direction of the transform of the sums. */
static void transform_sums(struct ht_xb *b, const int32_t x[SIDE], int32_t r[TAPS])
{
	const int32_t sum = ht_xadd(b, x[1], x[2]);

	r[0] = ht_xadd(b, x[0], sum);
	r[1] = ht_xsub(b, x[1], x[2]);
	r[2] = ht_xadd(b, sum, x[3]);
}

/* Where a part of an operand is read: image (or word of two), first line and column of a tile, channel; and the guard of the channel. */
struct tile {
	int arg;
	struct ht_shape from;
	int32_t x[4];
	struct space guarded;
};

/* Element (h, w) of the tile, of image `second` of a word, as F32; 0 outside of the operand. */
static int32_t element(struct sums *s, const struct tile *at, int second, int h, int w)
{
	struct filter_product *p = s->p;
	struct ht_xb *b = p->b;
	struct space to = at->guarded;
	int32_t x[4] = { at->x[0], ht_xaddi(b, at->x[1], h), ht_xaddi(b, at->x[2], w), at->x[3] };

	if (p->word == 2)
		x[0] = ht_xaddi(b, ht_xmuli(b, x[0], 2), second);
	if (second && at->from.dim[0] % 2)
		space_and_guard(b, &to, ht_xlt(b, x[0], ht_xi(b, at->from.dim[0])));
	for (int i = 1; i < 3; i++)
		space_and_guard(b, &to, index_inside(b, x[i], at->from.dim[i]));
	to = space_of_coords(&to, 4, at->from.dim, x);
	return kb_load(p->k, lower_operand(p->l, p->n, at->arg), &to);
}

/* The four numbers of the current row of products of a tile of the image, or of the gradient. */
static void transformed(struct sums *s, const struct tile *at, int second, int32_t r[SIDE])
{
	struct ht_xb *b = s->p->b;
	const bool image = at->arg == 0;
	const int side = image ? SIDE : RESULTS;
	int32_t column[SIDE], of_row[SIDE];

	for (int w = 0; w < side; w++) {
		for (int h = 0; h < side; h++)
			column[h] = element(s, at, second, h, w);
		if (image)
			ht_winograd_image(b, RESULTS, column, r);
		else
			transform_gradient(b, column, r);
		of_row[w] = r[s->row];
	}
	if (image)
		ht_winograd_image(b, RESULTS, of_row, r);
	else
		transform_gradient(b, of_row, r);
}

/* Stores them at `to` of the local buffer, the products `apart` from each other. */
static void store_transformed(
	struct sums *s, const struct tile *at, int32_t buffer, int32_t to, int64_t apart)
{
	struct ht_xb *b = s->p->b;
	int32_t r[2][SIDE], x;

	for (int i = 0; i < s->p->word; i++)
		transformed(s, at, i, r[i]);
	for (int j = 0; j < SIDE; j++) {
		x = r[0][j];
		if (s->p->word == 2)
			x = ht_xor(b, contract_bits(b, HT_BF16, x),
				ht_xshli(b, contract_bits(b, HT_BF16, r[1][j]), 16));
		ht_xstore(b, buffer, ht_xaddi(b, to, j * apart), x);
	}
}

/* ---- stages ---- */

enum { GROUP, IMAGE, LINE, COLUMN, LANE, RANK };

/* Opens a loop over the tiles of the part, for each group of lanes, and sets the image, the line and the column where tile `i` begins. */
static void open_tiles(struct sums *s, int64_t groups, int64_t lanes, struct tile *at, int32_t i[])
{
	struct filter_product *p = s->p;
	struct ht_xb *b = p->b;
	const int32_t part = filter_part(p);
	int dim[RANK];

	dim[IMAGE] = kb_dim(p->k, p->images);
	dim[LINE] = kb_dim(p->k, p->lines);
	dim[COLUMN] = kb_dim(p->k, s->tiles[1]);
	dim[GROUP] = kb_dim(p->k, groups);
	dim[LANE] = kb_dim(p->k, lanes);
	p->k->stage->vec = dim[LANE];
	for (int d = 0; d < RANK; d++)
		i[d] = ht_xdim(b, dim[d]);
	at->x[0] = ht_xadd(b, filter_first_image(p, part), i[IMAGE]);
	at->x[1] = ht_xadd(b, filter_first_line(p, part), i[LINE]);
	at->x[1] = ht_xmuli(b, at->x[1], RESULTS);
	at->x[2] = ht_xmuli(b, i[COLUMN], RESULTS);
}

/* Where a local buffer has the number of tile and lane i, in the first product. */
static int32_t local_at(const struct sums *s, int64_t groups, int64_t lanes, const int32_t i[])
{
	const int64_t dim[RANK] = { groups, s->p->images, s->p->lines, s->tiles[1], lanes };
	struct space at = { .guard = -1 };

	at = space_of_coords(&at, RANK, dim, i);
	return space_linear(s->p->b, &at);
}

static void image_stage(struct sums *s)
{
	struct filter_product *p = s->p;
	struct tile at = { .arg = 0, .from = p->v->in, .guarded = { .guard = -1 } };
	struct ht_xb *b = p->b;
	int32_t channels, i[RANK];

	kb_stage(p->k, HT_STAGE_LOOP)->start = true;
	channels = filter_grid_index(p, 1, p->channel_groups);
	open_tiles(s, p->blocks, p->lanes, &at, i);
	for (int d = 0; d < 2; d++)
		at.x[1 + d] = ht_xaddi(b, at.x[1 + d], -p->v->w[d].before);
	at.x[3] = ht_xadd(b, ht_xmuli(b, channels, p->blocks), i[GROUP]);
	at.x[3] = ht_xadd(b, ht_xmuli(b, at.x[3], p->lanes), i[LANE]);
	store_transformed(s, &at, p->image, local_at(s, p->blocks, p->lanes, i),
		p->c.rows * tiles_of_part(s));
}

static void gradient_stage(struct sums *s)
{
	struct filter_product *p = s->p;
	struct tile at = { .arg = 2, .from = p->v->out, .guarded = { .guard = -1 } };
	const int64_t panels = ht_ceil_div(p->c.columns, p->c.nr);
	struct ht_xb *b = p->b;
	int32_t group, column, i[RANK];

	kb_stage(p->k, HT_STAGE_LOOP);
	group = filter_grid_index(p, 2, p->column_groups);
	open_tiles(s, panels, p->c.nr, &at, i);
	column = ht_xadd(b, ht_xmuli(b, i[GROUP], p->c.nr), i[LANE]);
	at.x[3] = ht_xadd(b, ht_xmuli(b, group, p->c.columns), column);
	if (p->c.columns % p->c.nr)
		at.guarded.guard = ht_xlt(b, column, ht_xi(b, p->c.columns));
	store_transformed(s, &at, p->gradient, local_at(s, panels, p->c.nr, i),
		panels * p->c.nr * tiles_of_part(s));
}

static void product_stage(struct sums *s, const struct view *parts)
{
	struct filter_product *p = s->p;
	struct ht_contract *t = &kb_stage(p->k, HT_STAGE_CONTRACT)->contract;
	const int64_t tiles = tiles_of_part(s);
	struct space out = { .guard = -1 };
	struct ht_xb *b = p->b;
	int32_t channels, columns, product, block, lane, x[4];

	x[2] = filter_part(p);
	channels = filter_grid_index(p, 1, p->channel_groups);
	columns = filter_grid_index(p, 2, p->column_groups);
	product = ht_xdim(b, kb_dim(p->k, SIDE));
	t->m = kb_dim(p->k, p->c.rows);
	t->n = kb_dim(p->k, p->c.columns);
	kb_reduce_dim(p->k, tiles * p->word);
	p->k->stage->vec = t->n;
	block = ht_xdivi(b, ht_xdim(b, t->m), p->lanes);
	lane = ht_xmodi(b, ht_xdim(b, t->m), p->lanes);
	t->a_buffer = p->image;
	t->a_row = ht_xadd(b, ht_xmuli(b, product, p->blocks), block);
	t->a_row = ht_xadd(b, ht_xmuli(b, t->a_row, tiles * p->lanes), lane);
	contract_packed(&p->c, p->k, p->gradient,
		ht_xmuli(b, product,
			numbers_of(p, tiles) / SIDE * p->word - p->c.rows * tiles * p->word));
	x[0] = ht_xaddi(b, product, s->row * SIDE);
	x[1] = ht_xadd(b, ht_xmuli(b, channels, p->c.rows), ht_xdim(b, t->m));
	x[3] = ht_xadd(b, ht_xmuli(b, columns, p->c.columns), ht_xdim(b, t->n));
	out = space_of_coords(&out, 4, parts->dim, x);
	kb_store(p->k, parts, &out, ht_xred(b, 0, HT_F32));
}

static void emit_row(struct sums *s, const struct view *parts)
{
	struct filter_product *p = s->p;
	const int64_t grid[3] = { p->each * p->bands, p->channel_groups, p->column_groups };
	const enum ht_dtype type = p->word == 2 ? HT_U32 : HT_F32; /* of both local buffers */
	const int64_t tiles = tiles_of_part(s), image = SIDE * tiles * p->c.rows;
	struct kernel_build *k = p->k = &p->c.k;

	p->b = &k->xb;
	kb_init(k, p->l, p->n);
	k->kernel->method = ht_method_info[HT_METHOD_WINOGRAD_2X2].name;
	kb_grid(k, 3, grid);
	p->image = kb_local(k, type, image);
	p->gradient = kb_local(k, type, numbers_of(p, tiles) - image);
	image_stage(s);
	gradient_stage(s);
	product_stage(s, parts);
	kb_finish(k, p->n);
}

/* Adds the parts and transforms the sums back. */
static void emit_result(struct sums *s, const struct view *parts)
{
	struct filter_product *p = s->p;
	const struct ht_shape filter = p->v->filter;
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space loop, at = { .guard = -1 }, out;
	int32_t x[4], sum[SIDE * SIDE], column[SIDE], half[TAPS][SIDE], r[TAPS];

	kb_init(&k, p->l, p->n);
	k.kernel->method = ht_method_info[HT_METHOD_WINOGRAD_2X2].name;
	kb_stage(&k, HT_STAGE_LOOP);
	loop = kb_loop_space(&k, 2, filter.dim + 2, ~0u);
	x[2] = ht_xdim(b, kb_reduce_dim(&k, parts->dim[2]));
	x[1] = space_coord(b, &loop, 0);
	x[3] = space_coord(b, &loop, 1);
	for (int i = 0; i < SIDE * SIDE; i++) {
		x[0] = ht_xi(b, i);
		at = space_of_coords(&(struct space){ .guard = -1 }, 4, parts->dim, x);
		sum[i] = kb_load(&k, parts, &at);
	}
	for (int i = 0; i < SIDE * SIDE; i++)
		sum[i] = kb_reduce(&k, HT_RED_ADD, HT_F32, sum[i]);
	for (int j = 0; j < SIDE; j++) {
		for (int i = 0; i < SIDE; i++)
			column[i] = sum[i * SIDE + j];
		transform_sums(b, column, r);
		for (int i = 0; i < TAPS; i++)
			half[i][j] = r[i];
	}
	for (int i = 0; i < TAPS; i++) {
		transform_sums(b, half[i], r);
		for (int j = 0; j < TAPS; j++) {
			const int32_t to[4] = { ht_xi(b, i), ht_xi(b, j), x[1], x[3] };

			out = space_of_coords(&(struct space){ .guard = -1 }, 4, filter.dim, to);
			kb_store_root(&k, p->n, r[j], &out);
		}
	}
	kb_finish(&k, p->n);
}

bool filter_by_winograd(struct filter_product *p)
{
	struct sums s = { .p = p };
	struct view parts;

	if (!fits(p))
		return false;
	for (int i = 0; i < 2; i++)
		s.tiles[i] = ht_ceil_div(p->v->out.dim[1 + i], RESULTS);
	contract_init(&p->c, p->l, p->n, p->word == 2 ? HT_BF16 : HT_F32);
	size_rows(p);
	filter_size_columns(p);
	divide(&s);
	if (!chosen(&s))
		return false;
	p->c.a_step = p->lanes;
	/* The parts of a channel lie together, so that they are not each on a page of its own when they are added. */
	const int64_t dim[4] = { SIDE * SIDE, p->v->filter.dim[2], p->each * p->bands,
		p->v->filter.dim[3] };
	const struct ht_shape shape = { 4, dim };

	view_dense(&parts, plan_buffer(p->l, HT_PLAN_TEMP, HT_F32, ht_shape_count(shape)), shape);
	for (s.row = 0; s.row < SIDE; s.row++)
		emit_row(&s, &parts);
	emit_result(&s, &parts);
	return true;
}
