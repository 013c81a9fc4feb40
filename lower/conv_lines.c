/* Convolutions, and their gradients by images, whose tiles have lines of the image in a local buffer.
 *
 * A matrix unit reads rows that lie at one distance from each other.  The windows of neighbouring results do so within a line of a padded
 * image.  So a tile copies the lines that it needs, with their padding, as [phases of the strides][line][column][image][channel]: for each
 * tap, the rows of all results of a line, of several images together where lines are short, are one run of memory.  Each panel of weights is
 * multiplied with all lines of the tile.
 *
 * On machines that multiply an image of 16 bits as F32, the copy is F32.  So each number is widened once, and not for each tap and panel. */
#include "lower/conv.h"
#include "lower/index.h"
#include "lower/pack.h"

#include <math.h>
#include <string.h>

enum { MOST_TOGETHER = 32, LEAST_ROWS_OF_MATRICES = 28, MANY_TILES = 8 };

struct lines {
	struct lower *l;
	struct ht_node *n;
	const struct lines_axis *axis; /* height, width */
	int arg;                       /* the operand that is the image */
	struct ht_shape from, to;
	struct contraction c;
	enum ht_dtype type; /* of the copy */
	struct kernel_build *k;
	struct ht_xb *b;
	int64_t images, lines, groups, bands; /* of a tile; tiles */
	int64_t panels, column_groups;        /* likewise */
	int32_t copy;
};

/* ---- an axis of the copy ---- */

/* The least and the greatest difference between positions of the image and the first result times the step. */
static int64_t first_of(const struct lines_axis *a)
{
	const int64_t tap = (a->taps - 1) * a->each;

	return ht_floor_div(a->shift, a->phases) + (tap < 0 ? tap : 0);
}

static int64_t last_of(const struct lines_axis *a)
{
	const int64_t tap = (a->taps - 1) * a->each;

	return ht_floor_div(a->phases - 1 + a->shift, a->phases) + (tap > 0 ? tap : 0);
}

static int64_t copied_phases(const struct lines_axis *a)
{
	const int64_t n = last_of(a) - first_of(a) + 1;

	return n < a->step ? n : a->step;
}

/* Positions of each phase that `results` results read. */
static int64_t extent_of(const struct lines_axis *a, int64_t results)
{
	return results + (last_of(a) - first_of(a)) / a->step;
}

/* ---- sizes ---- */

static int64_t copied_count(const struct lines *x, int64_t images, int64_t lines)
{
	const struct lines_axis *a = x->axis;

	return copied_phases(&a[0]) * copied_phases(&a[1]) * extent_of(&a[0], lines) *
	       extent_of(&a[1], a[1].count) * images * x->c.depth;
}

static int64_t bytes_of(const struct lines *x, int64_t numbers)
{
	return numbers * (int64_t)ht_dtype_info(x->type)->bytes;
}

/* Cycles of a product of so many rows with a panel, for each tap. */
static double vector_cycles(const struct lines *x, int64_t rows)
{
	const struct ht_target *t = x->l->target;
	const double vectors = (double)x->c.nr / ht_target_lanes(t);
	const double blocks = (double)ht_ceil_div(rows, t->rates->rows);
	const double products = (double)rows * vectors / t->rates->products;

	return (double)x->c.depth *
	       (products + t->rates->load_overlap * blocks * vectors / t->rates->loads);
}

/* The same by matrices of pairs. */
static double matrix_cycles(const struct lines *x, int64_t rows)
{
	const struct ht_target *t = x->l->target;
	const double steps = ceil((double)x->c.depth / (2 * t->matrix_rows));
	const int64_t block = 2 * t->matrix_rows, blocks = rows / block, rest = rows % block;
	const double whole = 4 / t->rates->matrix_products * t->matrix_rows; /* of a block */

	return steps * ((double)blocks * whole + (rest == 0                       ? 0
							 : rest <= t->matrix_rows ? 0.75 * whole
										  : whole));
}

/* Estimated cycles of the whole image with tiles of so many images and lines. */
static double cycles(const struct lines *x, int64_t images, int64_t lines)
{
	const struct ht_target *t = x->l->target;
	const struct lines_axis *a = x->axis;
	const int64_t groups = x->to.dim[0] / images, bands = a[0].count / lines;
	const double tiles = (double)(groups * bands);
	const double phases = (double)(a[0].phases * a[1].phases);
	const double panels = (double)ht_ceil_div(x->c.columns, x->c.nr);
	const double taps = (double)(a[0].taps * a[1].taps);
	const double weights = phases * taps * (double)bytes_of(x, x->c.depth * x->c.columns);
	const double copies = (double)bytes_of(x, copied_count(x, images, lines)) * tiles;
	const int64_t rows = images * a[1].count;

	return (double)(groups * a[0].count) * phases * panels * taps *
		       (x->type == HT_F32 ? vector_cycles(x, rows) : matrix_cycles(x, rows)) +
	       copies / (t->rates->l2 / 4) + weights * tiles / t->rates->weights;
}

/* Chooses images and lines of a tile.  Its copy and a panel of weights take at most three quarters of the second level.  Where the number of
 * images is a size of the run, a tile has one, so that tiles end at it. */
static bool choose_tile(struct lines *x)
{
	const struct lines_axis *a = x->axis;
	const int64_t all = x->to.dim[0], most = x->l->target->l2 / 4 * 3;
	const int64_t panel = bytes_of(x, a[0].taps * a[1].taps * x->c.depth * x->c.nr);
	const int64_t least_rows =
		x->type == HT_F32 ? x->l->target->rates->rows : LEAST_ROWS_OF_MATRICES;
	const int64_t together = lower_ends_with_run(x->l, ht_out(x->n, 0), 0) ? 1 : MOST_TOGETHER;
	double least = INFINITY, c;

	for (int64_t images = 1; images <= together; images++) {
		if (all % images || images * a[1].count < least_rows)
			continue;
		for (int64_t lines = 1; lines <= a[0].count; lines++) {
			if (bytes_of(x, copied_count(x, images, lines)) + panel > most)
				break;
			if (a[0].count % lines)
				continue;
			c = cycles(x, images, lines);
			if (c < least) {
				least = c;
				x->images = images;
				x->lines = lines;
			}
		}
	}
	return least < INFINITY;
}

static void choose_grid_of_tiles(struct lines *x)
{
	const int64_t panels = x->c.columns % x->c.nr ? 1 : x->c.columns / x->c.nr;

	x->groups = x->to.dim[0] / x->images;
	x->bands = x->axis[0].count / x->lines;
	x->column_groups = 1;
	while (x->column_groups < panels &&
		(panels % x->column_groups || x->groups * x->bands * x->column_groups < MANY_TILES))
		x->column_groups++;
	x->panels = panels / x->column_groups;
}

/* The index of the stage that is the tile.  Tiles end at the images of the run. */
static int32_t tile_index(const struct lines *x)
{
	const int64_t tiles = x->groups * x->bands;
	const int dim = kb_grid_dim(x->k, 0, tiles, 1);

	kb_cut(x->k, dim, ht_out(x->k->sink, 0),
		(struct cut_span){ .stride = ht_shape_count(x->to) / tiles, .extent = tiles });
	return ht_xdim(x->b, dim);
}

/* ---- the copy ---- */

enum { PHASE, PHASE_OF_COLUMNS, LINE, COLUMN, IMAGE, CHANNEL, RANK };

static int32_t place_in_copy(const struct lines *x, const int32_t at_of[RANK])
{
	const struct lines_axis *a = x->axis;
	const int64_t dim[RANK] = { copied_phases(&a[0]), copied_phases(&a[1]),
		extent_of(&a[0], x->lines), extent_of(&a[1], a[1].count), x->images, x->c.depth };
	struct space at = { .guard = -1 };

	at = space_of_coords(&at, RANK, dim, at_of);
	return space_linear(x->b, &at);
}

/* The tile's first image (i is 0) or first line. */
static int32_t first_in_tile(const struct lines *x, int32_t tile, int i)
{
	if (i == 0)
		return ht_xmuli(x->b, ht_xdivi(x->b, tile, x->bands), x->images);
	return ht_xmuli(x->b, ht_xmodi(x->b, tile, x->bands), x->lines);
}

/* The position of the image along axis i of position `at` of the copy in this phase; the copy begins at result `first`. */
static int32_t position(const struct lines *x, int i, int32_t first, int32_t at, int32_t phase)
{
	const struct lines_axis *a = &x->axis[i];
	struct ht_xb *b = x->b;

	at = ht_xmuli(b, ht_xadd(b, first, at), a->step);
	return ht_xaddi(b, ht_xadd(b, at, phase), first_of(a));
}

static void copy_stage(struct lines *x)
{
	static const int loop[RANK] = { PHASE, PHASE_OF_COLUMNS, IMAGE, LINE, COLUMN, CHANNEL };
	const struct lines_axis *a = x->axis;
	const int64_t dim[RANK] = { copied_phases(&a[0]), copied_phases(&a[1]),
		extent_of(&a[0], x->lines), extent_of(&a[1], a[1].count), x->images, x->c.depth };
	struct space at = { .rank = 4, .guard = -1 };
	struct ht_xb *b = x->b;
	int32_t tile, i[RANK], from[4];

	kb_stage(x->k, HT_STAGE_LOOP)->start = true;
	tile = tile_index(x);
	for (int d = 0; d < RANK; d++)
		i[loop[d]] = ht_xdim(b, kb_dim(x->k, dim[loop[d]]));
	x->k->stage->vec = x->k->stage->dims - 1;
	from[0] = ht_xadd(b, first_in_tile(x, tile, 0), i[IMAGE]);
	from[1] = position(x, 0, first_in_tile(x, tile, 1), i[LINE], i[PHASE]);
	from[2] = position(x, 1, ht_xi(b, 0), i[COLUMN], i[PHASE_OF_COLUMNS]);
	from[3] = i[CHANNEL];
	for (int d = 1; d < 3; d++)
		space_and_guard(b, &at, index_inside(b, from[d], x->from.dim[d]));
	at = space_of_coords(&at, 4, x->from.dim, from);
	from[0] = kb_load(x->k, lower_operand(x->l, x->n, x->arg), &at);
	if (x->type != HT_F32)
		from[0] = contract_low(b, x->type, from[0]);
	ht_xstore(b, x->copy, place_in_copy(x, i), from[0]);
}

/* ---- the product ---- */

/* Where the copy has, along axis i, what tap `tap` of the first result reads, and its phase of the step. */
static void place_of_tap(const struct lines *x, int i, int32_t phase, int32_t tap, int32_t *at,
	int32_t *copied_phase)
{
	const struct lines_axis *a = &x->axis[i];
	struct ht_xb *b = x->b;
	int32_t from = ht_xdivi(b, ht_xaddi(b, phase, a->shift), a->phases);

	from = ht_xadd(b, from, ht_xmuli(b, tap, a->each));
	from = ht_xaddi(b, from, -first_of(a));
	*at = ht_xdivi(b, from, a->step);
	*copied_phase = ht_xmodi(b, from, a->step);
}

/* Adds to the guard of all rows whether the phase of the results has the tap. */
static void and_has_tap(struct lines *x, int i, int32_t phase)
{
	const struct lines_axis *a = &x->axis[i];
	struct ht_xb *b = x->b;
	int32_t tap;

	if (a->size % a->phases == 0)
		return;
	tap = ht_xmodi(b, ht_xaddi(b, phase, a->shift), a->phases);
	tap = ht_xadd(b, tap, ht_xmuli(b, x->c.tap_x[i], a->phases));
	tap = ht_xlt(b, tap, ht_xi(b, a->size));
	x->c.a_guard = x->c.a_guard < 0 ? tap : ht_xand(b, x->c.a_guard, tap);
}

static void product_stage(struct lines *x)
{
	const struct lines_axis *a = x->axis;
	const bool whole = x->c.columns % x->c.nr == 0;
	struct ht_contract *t = &kb_stage(x->k, HT_STAGE_CONTRACT)->contract;
	struct ht_xb *b = x->b;
	const int64_t dim[4] = { x->to.dim[0], x->to.dim[1], x->to.dim[2], x->to.dim[3] };
	struct space out = { .guard = -1 };
	int32_t tile, group, phases, panel, line, row, phase[2], at_of[RANK], r[4];

	tile = tile_index(x);
	group = ht_xdim(b, kb_grid_dim(x->k, 1, x->column_groups, 1));
	phases = ht_xdim(b, kb_dim(x->k, a[0].phases * a[1].phases));
	panel = ht_xdim(b, kb_dim(x->k, x->panels));
	line = ht_xdim(b, kb_dim(x->k, x->lines));
	t->m = kb_dim(x->k, a[1].count * x->images);
	t->n = kb_dim(x->k, whole ? x->c.nr : x->c.columns);
	for (int i = 0; i < 2; i++)
		x->c.tap_x[i] = ht_xdim(b, kb_reduce_dim(x->k, a[i].taps));
	kb_reduce_dim(x->k, x->c.depth);
	x->k->stage->vec = t->n;
	phase[0] = ht_xdivi(b, phases, a[1].phases);
	phase[1] = ht_xmodi(b, phases, a[1].phases);
	panel = ht_xadd(b, ht_xmuli(b, group, x->panels), panel);
	row = ht_xdim(b, t->m);
	for (int i = 0; i < 2; i++) {
		place_of_tap(x, i, phase[i], x->c.tap_x[i], &at_of[LINE + i], &at_of[PHASE + i]);
		and_has_tap(x, i, phase[i]);
	}
	at_of[LINE] = ht_xadd(b, at_of[LINE], line);
	at_of[IMAGE] = at_of[CHANNEL] = ht_xi(b, 0);
	t->a_buffer = x->copy;
	t->a_row = ht_xadd(b, place_in_copy(x, at_of), ht_xmuli(b, row, x->c.depth));
	contract_packed(&x->c, x->k, kb_arg(x->k, x->c.b, HT_BUFFER_IN),
		ht_xadd(b, ht_xmuli(b, phases, x->c.packed_count),
			ht_xmuli(
				b, panel, x->c.packed_count / ht_ceil_div(x->c.columns, x->c.nr))));
	r[0] = ht_xadd(b, first_in_tile(x, tile, 0), ht_xmodi(b, row, x->images));
	r[1] = ht_xadd(b, first_in_tile(x, tile, 1), line);
	r[2] = ht_xdivi(b, row, x->images);
	r[3] = ht_xadd(b, ht_xmuli(b, panel, x->c.nr), ht_xdim(b, t->n));
	for (int i = 0; i < 2; i++)
		r[1 + i] = ht_xadd(b, ht_xmuli(b, r[1 + i], a[i].phases), phase[i]);
	out = space_of_coords(&out, 4, dim, r);
	kb_store_root(x->k, x->n, ht_xred(b, 0, HT_F32), &out);
}

/* Whether all sizes are known, and there are no groups. */
static bool is_plain(const struct contraction *c, const struct view *in)
{
	for (int i = 1; i < 3; i++)
		if (lower_axis_end(c->n, i).size)
			return false;
	return c->batch == 1 && !in->open && !in->ends;
}

/* Whether a tile can be a product of matrices of pairs. */
static bool fits_matrices(const struct contraction *c)
{
	return c->l->target->matrix_bf16 && c->dtype == HT_BF16 && c->packed_type == HT_BF16 &&
	       c->kp == 2 && c->depth % 2 == 0;
}

/* Whether tiles copy enough fewer numbers than by copying the rows of each tap, which all panels share. */
static bool saves_copies(const struct contraction *c, const struct lines_axis *a)
{
	const double LEAST_SAVED = 0.25; /* for a result and a panel; measured, bench/README.md */
	const double by_rows = (double)(a[0].taps * a[1].taps);
	const double copied = (double)(copied_phases(&a[0]) * copied_phases(&a[1]));

	return by_rows / copied - 1 >= LEAST_SAVED * (double)ht_ceil_div(c->columns, c->nr);
}

/* Whether each tap would widen the numbers of an image of 16 bits that are multiplied by a filter of the run.  (Constant filters keep the method
 * that they have.) */
static bool widens_again(const struct contraction *c, const struct view *in)
{
	return ht_is_low(c->dtype) && c->packed_type == HT_F32 && !c->short_sums &&
	       c->l->plan->buffer[in->buffer].dtype == c->dtype && !ht_const_tensor(c->n->in[1]) &&
	       in->stride[in->rank - 1] == 1;
}

/* The type of the copy; HT_INVALID: the contraction has another form. */
static enum ht_dtype copied_type(
	const struct contraction *c, const struct view *in, const struct lines_axis *a)
{
	if (!is_plain(c, in))
		return HT_INVALID;
	if (fits_matrices(c))
		return saves_copies(c, a) ? HT_BF16 : HT_INVALID;
	return widens_again(c, in) ? HT_F32 : HT_INVALID;
}

bool conv_by_lines(
	const struct contraction *c, int arg, struct ht_shape from, const struct lines_axis axis[2])
{
	struct lines x = { .l = c->l,
		.n = c->n,
		.axis = axis,
		.arg = arg,
		.from = from,
		.to = c->n->out[0].shape,
		.c = *c };
	struct kernel_build k;
	int64_t grid[2];

	x.type = copied_type(c, lower_operand(c->l, c->n, arg), axis);
	if (x.type == HT_INVALID || !choose_tile(&x))
		return false;
	x.c.a_step = 1;
	choose_grid_of_tiles(&x);
	grid[0] = x.groups * x.bands;
	grid[1] = x.column_groups;
	x.k = &k;
	x.b = &k.xb;
	kb_init(&k, c->l, c->n);
	if (axis[0].phases * axis[1].phases > 1)
		k.kernel->method = ht_method_info[HT_METHOD_PHASES].name;
	kb_grid(&k, 2, grid);
	x.copy = kb_local(&k, x.type, copied_count(&x, x.images, x.lines));
	copy_stage(&x);
	product_stage(&x);
	kb_finish(&k, c->n);
	return true;
}
