/* The filter of a convolution by Winograd's method that is computed in each run, such as a variable: a step in front of the convolution
 * transforms and packs it, as packing does with constants (kernel/pack.c).
 *
 * The gradient by the image is the convolution of the result's gradient by the filter turned around: tap (h, w) is tap (2 - h, 2 - w)
 * of the filter, and its rows are the filter's columns. */
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
};

/* Tap (h, w) of row `row`, as F64; 0 behind the last row and column. */
static int32_t tap_of(struct filter_stage *f, int h, int w, int32_t row)
{
	const struct contraction *c = f->c;
	struct ht_xb *b = &f->k->xb;
	struct space at = { .rank = 4, .guard = -1 };
	int32_t x[4];

	x[0] = ht_xi(b, f->turned ? 2 - h : h);
	x[1] = ht_xi(b, f->turned ? 2 - w : w);
	x[2] = f->turned ? f->column : row;
	x[3] = f->turned ? row : f->column;
	if (c->depth % c->kp)
		space_and_guard(b, &at, ht_xlt(b, row, ht_xi(b, c->depth)));
	if (c->columns % c->nr)
		space_and_guard(b, &at, ht_xlt(b, f->column, ht_xi(b, c->columns)));
	at = space_of_coords(&at, 4, f->filter.dim, x);
	return ht_xcvt(b, HT_F64, kb_load(f->k, &f->filter, &at));
}

/* The transformed taps of row `row`, rounded to the type in which they are packed. */
static void transformed_row(struct filter_stage *f, int32_t row, int32_t r[MOST_MATRICES])
{
	struct ht_xb *b = &f->k->xb;
	int32_t tap[9];

	for (int i = 0; i < 9; i++)
		tap[i] = tap_of(f, i / 3, i % 3, row);
	ht_winograd_filter_of_run(b, f->m, tap, r);
	for (int i = 0; i < (f->m + 2) * (f->m + 2); i++)
		r[i] = ht_xcvt(b, f->c->packed_type, ht_xcvt(b, HT_F32, r[i]));
}

/* The bits of rows `row` and row + 1, which are multiplied as pairs, as a word for each matrix. */
static void transformed_pair(struct filter_stage *f, int32_t row, int32_t r[MOST_MATRICES])
{
	struct ht_xb *b = &f->k->xb;
	int32_t second[MOST_MATRICES];

	transformed_row(f, row, r);
	transformed_row(f, ht_xaddi(b, row, 1), second);
	for (int i = 0; i < (f->m + 2) * (f->m + 2); i++) {
		int32_t low = ht_xcvt(b, HT_U32, ht_xbitcast(b, HT_U16, r[i]));
		int32_t high = ht_xcvt(b, HT_U32, ht_xbitcast(b, HT_U16, second[i]));

		r[i] = ht_xor(b, low, ht_xshli(b, high, 16));
	}
}

/* The loop: panels, vectors of a panel whose columns are not side by side in memory, rows or pairs of them, columns.  Sets f->column;
 * returns the row, and in *at where the columns of the row are in the first matrix, in rows or pairs. */
static int32_t open_loop(struct filter_stage *f, int32_t *at)
{
	const struct contraction *c = f->c;
	const int64_t vector = ht_target_lanes(c->l->target);
	const int64_t lane = f->filter.stride[f->turned ? 2 : 3] == 1 ? c->nr
			     : c->nr % vector == 0                    ? vector
								      : vector / 2;
	const int64_t panels = ht_ceil_div(c->columns, c->nr), lines = ht_ceil_div(c->depth, c->kp);
	struct kernel_build *k = f->k;
	struct ht_xb *b = &k->xb;
	int32_t dim[4], column, line;

	kb_grid(k, 2, (int64_t[]){ panels, ht_ceil_div(lines, LINES) });
	kb_stage(k, HT_STAGE_LOOP);
	dim[0] = kb_grid_dim(k, 0, panels, 1);
	dim[1] = kb_dim(k, c->nr / lane);
	dim[2] = kb_grid_dim(k, 1, lines, LINES);
	dim[3] = kb_dim(k, lane);
	k->stage->vec = dim[3];
	for (int i = 0; i < 4; i++)
		dim[i] = ht_xdim(b, dim[i]);
	column = ht_xadd(b, ht_xmuli(b, dim[1], lane), dim[3]);
	f->column = ht_xadd(b, ht_xmuli(b, dim[0], c->nr), column);
	line = ht_xadd(b, ht_xmuli(b, dim[0], lines), dim[2]);
	*at = ht_xadd(b, ht_xmuli(b, line, c->nr), column);
	return ht_xmuli(b, dim[2], c->kp);
}

void winograd_pack_computed(struct contraction *c, int m)
{
	const int matrices = (m + 2) * (m + 2);
	struct kernel_build k;
	struct filter_stage f = { .c = c, .k = &k, .turned = !ht_is(c->n, HT_CONV), .m = m };
	int32_t r[MOST_MATRICES], at, row, to;

	f.filter = *lower_operand(c->l, c->n, 1);
	c->b = plan_buffer(c->l, HT_PLAN_TEMP, c->packed_type, c->packed_count * matrices);
	kb_init(&k, c->l, c->n);
	row = open_loop(&f, &at);
	(c->kp == 2 ? transformed_pair : transformed_row)(&f, row, r);
	to = kb_arg_as(&k, c->b, HT_BUFFER_OUT, c->kp == 2 ? HT_U32 : c->packed_type);
	for (int i = 0; i < matrices; i++)
		ht_xstore(&k.xb, to, ht_xaddi(&k.xb, at, i * (c->packed_count / c->kp)), r[i]);
	kb_finish(&k, c->n);
}
