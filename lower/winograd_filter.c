/* The filter of a convolution by Winograd's method that is computed in each run, such as a variable: a step in front of the convolution
 * transforms and packs it, as packing does with constants (kernel/pack.c).
 *
 * The gradient by the image is the convolution of the result's gradient by the filter turned around: tap (h, w) is tap (2 - h, 2 - w)
 * of the filter, and its rows are the filter's columns.  Columns that go along lanes are then apart in memory, often by a power of two, so that what all taps
 * of a vector read competes for the same lines of the first level.  So each tile first copies its taps to a local buffer with columns side by side. */
#include "lower/conv.h"

#include <string.h>

enum { MOST_MATRICES = HT_WINOGRAD_MOST * HT_WINOGRAD_MOST, LINES = 16 };

struct filter_stage {
	struct contraction *c;
	struct kernel_build *k;
	struct view filter;
	bool turned;
	int m;          /* results of a tile in each direction */
	int32_t column; /* of the packed matrices */
	int32_t row;    /* of these, the first one of a line */
	/* The taps of a tile as F32, [tap of the filter in memory][row][column of a panel], or -1, and where the first number of the line is there for tap 0. */
	int32_t local, at_local;
};

/* Rows of a tile, in whole lines. */
static int64_t tile_rows(const struct filter_stage *f)
{
	return LINES * f->c->kp;
}

/* Element [h, w, row, column] of the filter that is packed; 0 behind the last row and column.  `tap` is the place of (h, w) in memory. */
static int32_t element_of(struct filter_stage *f, int32_t tap, int32_t row, int32_t column)
{
	const struct contraction *c = f->c;
	struct ht_xb *b = &f->k->xb;
	struct space at = { .rank = 4, .guard = -1 };
	int32_t x[4];

	x[0] = ht_xdivi(b, tap, 3);
	x[1] = ht_xmodi(b, tap, 3);
	x[2] = f->turned ? column : row;
	x[3] = f->turned ? row : column;
	if (c->depth % (f->local < 0 ? c->kp : tile_rows(f)))
		space_and_guard(b, &at, ht_xlt(b, row, ht_xi(b, c->depth)));
	if (c->columns % c->nr)
		space_and_guard(b, &at, ht_xlt(b, column, ht_xi(b, c->columns)));
	at = space_of_coords(&at, 4, f->filter.dim, x);
	return kb_load(f->k, &f->filter, &at);
}

/* Tap i of row `number` of a line, as F64. */
static int32_t tap_of(struct filter_stage *f, int i, int number)
{
	struct ht_xb *b = &f->k->xb;
	const int tap = f->turned ? 8 - i : i;
	int32_t x;

	if (f->local < 0) {
		x = element_of(f, ht_xi(b, tap), ht_xaddi(b, f->row, number), f->column);
	} else {
		x = ht_xaddi(b, f->at_local, (tap * tile_rows(f) + number) * f->c->nr);
		x = ht_xload(b, f->local, HT_F32, x);
	}
	return ht_xcvt(b, HT_F64, x);
}

/* The transformed taps of row `number` of a line, rounded to the type in which they are packed. */
static void transformed_row(struct filter_stage *f, int number, int32_t r[MOST_MATRICES])
{
	struct ht_xb *b = &f->k->xb;
	int32_t tap[9];

	for (int i = 0; i < 9; i++)
		tap[i] = tap_of(f, i, number);
	ht_winograd_filter_of_run(b, f->m, tap, r);
	for (int i = 0; i < (f->m + 2) * (f->m + 2); i++)
		r[i] = ht_xcvt(b, f->c->packed_type, ht_xcvt(b, HT_F32, r[i]));
}

/* The bits of both rows of a line, which are multiplied as pairs, as a word for each matrix. */
static void transformed_pair(struct filter_stage *f, int32_t r[MOST_MATRICES])
{
	struct ht_xb *b = &f->k->xb;
	int32_t second[MOST_MATRICES];

	transformed_row(f, 0, r);
	transformed_row(f, 1, second);
	for (int i = 0; i < (f->m + 2) * (f->m + 2); i++) {
		int32_t low = ht_xcvt(b, HT_U32, ht_xbitcast(b, HT_U16, r[i]));
		int32_t high = ht_xcvt(b, HT_U32, ht_xbitcast(b, HT_U16, second[i]));

		r[i] = ht_xor(b, low, ht_xshli(b, high, 16));
	}
}

/* Copies the taps of a tile, squares of which are transposed in registers. */
static void local_stage(struct filter_stage *f)
{
	const struct contraction *c = f->c;
	const int64_t vector = ht_target_lanes(c->l->target),
		      panels = ht_ceil_div(c->columns, c->nr);
	const int64_t lane = c->nr % vector == 0 ? vector : vector / 2,
		      tiles = ht_ceil_div(ht_ceil_div(c->depth, c->kp), LINES);
	struct kernel_build *k = f->k;
	struct ht_xb *b = &k->xb;
	int32_t dim[6], column, row, at, x;

	kb_stage(k, HT_STAGE_LOOP);
	dim[0] = kb_grid_dim(k, 0, panels, 1);
	dim[1] = kb_grid_dim(k, 1, tiles, 1);
	dim[2] = kb_dim(k, 9);
	dim[3] = kb_dim(k, c->nr / lane);
	dim[4] = kb_dim(k, tile_rows(f));
	dim[5] = kb_dim(k, lane);
	k->stage->vec = dim[5];
	for (int i = 0; i < 6; i++)
		dim[i] = ht_xdim(b, dim[i]);
	column = ht_xadd(b, ht_xmuli(b, dim[3], lane), dim[5]);
	row = ht_xadd(b, ht_xmuli(b, dim[1], tile_rows(f)), dim[4]);
	at = ht_xadd(b, ht_xmuli(b, dim[2], tile_rows(f)), dim[4]);
	at = ht_xadd(b, ht_xmuli(b, at, c->nr), column);
	column = ht_xadd(b, ht_xmuli(b, dim[0], c->nr), column);
	x = element_of(f, dim[2], row, column);
	ht_xstore(b, f->local, at, x);
}

/* The loop: panels, rows or pairs of them, columns.  Sets where the row is; returns where its columns are in the first matrix, in rows or pairs. */
static int32_t open_loop(struct filter_stage *f)
{
	const struct contraction *c = f->c;
	const int64_t panels = ht_ceil_div(c->columns, c->nr), lines = ht_ceil_div(c->depth, c->kp);
	struct kernel_build *k = f->k;
	struct ht_xb *b = &k->xb;
	int32_t panel, line, column, within;

	kb_stage(k, HT_STAGE_LOOP);
	panel = kb_grid_dim(k, 0, panels, 1);
	line = kb_grid_dim(k, 1, lines, LINES);
	column = k->stage->vec = kb_dim(k, c->nr);
	within = f->local < 0 ? -1 : kb_within(k, line);
	panel = ht_xdim(b, panel);
	line = ht_xdim(b, line);
	column = ht_xdim(b, column);
	if (f->local >= 0)
		f->at_local = ht_xadd(b, ht_xmuli(b, within, c->kp * c->nr), column);
	f->column = ht_xadd(b, ht_xmuli(b, panel, c->nr), column);
	f->row = ht_xmuli(b, line, c->kp);
	line = ht_xadd(b, ht_xmuli(b, panel, lines), line);
	return ht_xadd(b, ht_xmuli(b, line, c->nr), column);
}

void winograd_pack_computed(struct contraction *c, int m)
{
	const int matrices = (m + 2) * (m + 2);
	const int64_t lines = ht_ceil_div(c->depth, c->kp);
	struct kernel_build k;
	struct filter_stage f = {
		.c = c, .k = &k, .turned = !ht_is(c->n, HT_CONV), .m = m, .local = -1
	};
	int32_t r[MOST_MATRICES], at, to;

	f.filter = *lower_operand(c->l, c->n, 1);
	c->b = plan_buffer(c->l, HT_PLAN_TEMP, c->packed_type, c->packed_count * matrices);
	kb_init(&k, c->l, c->n);
	kb_grid(&k, 2, (int64_t[]){ ht_ceil_div(c->columns, c->nr), ht_ceil_div(lines, LINES) });
	if (f.filter.stride[f.turned ? 2 : 3] != 1) {
		f.local = kb_local(&k, HT_F32, 9 * tile_rows(&f) * c->nr);
		local_stage(&f);
	}
	at = open_loop(&f);
	if (c->kp == 2)
		transformed_pair(&f, r);
	else
		transformed_row(&f, 0, r);
	to = kb_arg_as(&k, c->b, HT_BUFFER_OUT, c->kp == 2 ? HT_U32 : c->packed_type);
	for (int i = 0; i < matrices; i++)
		ht_xstore(&k.xb, to, ht_xaddi(&k.xb, at, i * (c->packed_count / c->kp)), r[i]);
	kb_finish(&k, c->n);
}
