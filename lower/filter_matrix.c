/* The gradient of a convolution by its filter on machines that multiply matrices of pairs of BF16.
 *
 * The depth of the product are pixels, and the two numbers of a pair must be side by side in both operands.  So a tile copies its share of
 * the image as [group of images][channel][phases of the strides][line][column][image], with the numbers of the same pixel of several images together, and
 * packs its share of the gradient likewise.  A line of the result is then one run of memory for every position of the filter, at whatever
 * stride.  The copy is a transposition, which the backend makes in registers. */
#include "lower/filter_product.h"
#include "lower/index.h"
#include "lower/pack.h"

#include <string.h>

/* Images that lie together, and rows of a matrix. */
enum { MOST_TOGETHER = 32, LEAST_TOGETHER = 8, ROWS = 16 };

int64_t filter_images_together(const struct filter_product *p)
{
	const int64_t images = p->v->in.dim[0];

	if (!filter_multiplies_pairs(p, true))
		return 0;
	for (int64_t n = MOST_TOGETHER; n >= LEAST_TOGETHER; n -= 2)
		if (images % n == 0)
			return n;
	return 0;
}

/* Whether the rows of the product are the channels alone, at one position of the filter; else they are positions and channels, so that few
 * channels fill a matrix, too. */
static bool rows_are_channels(const struct filter_product *p)
{
	return p->lanes % ROWS == 0;
}

void filter_matrix_channels(struct filter_product *p)
{
	const struct ht_shape filter = p->v->filter;
	const int64_t positions = filter.dim[0] * filter.dim[1], channels = filter.dim[2];
	const int64_t each = channels % (2 * ROWS) == 0 ? 2 * ROWS
			     : channels % ROWS == 0     ? ROWS
							: channels;

	p->blocks = 1;
	p->lanes = each * filter_divisor(channels / each,
				  ht_ceil_div(FILTER_LEAST_ROWS, positions * each));
}

/* Phases of the stride that some position of the filter meets. */
static int64_t phases_of(const struct window *w)
{
	const int64_t steps = filter_reach(w) + 1;

	return steps < w->stride ? steps : w->stride;
}

void filter_matrix_copy(struct filter_product *p)
{
	const struct window *w = p->v->w;

	p->apart = true;
	p->shifts = 1;
	p->phases = phases_of(&w[0]) * phases_of(&w[1]);
	p->width = w[1].out + filter_reach(&w[1]) / w[1].stride;
}

double filter_matrix_copies(const struct filter_product *p)
{
	const struct window *w = &p->v->w[0];

	return (double)(phases_of(w) * p->height) / (double)(w->stride * p->lines);
}

/* The copy of the image. */
enum { GROUP, CHANNEL, PHASE, PHASE_OF_COLUMNS, LINE, COLUMN, IMAGE, RANK };

static int64_t groups_of(const struct filter_product *p)
{
	return p->images / p->together;
}

static void copy_of(const struct filter_product *p, int64_t dim[RANK], int64_t stride[RANK])
{
	int64_t n = 1;

	memcpy(dim,
		(int64_t[]){ groups_of(p), p->lanes, phases_of(&p->v->w[0]), phases_of(&p->v->w[1]),
			p->height, p->width, p->together },
		RANK * sizeof *dim);
	for (int i = RANK - 1; i >= 0; i--) {
		stride[i] = n;
		n *= dim[i];
	}
}

/* Where the copy has element x. */
static int32_t place_in_copy(const struct filter_product *p, const int32_t x[RANK])
{
	int64_t dim[RANK], stride[RANK];
	struct space at = { .guard = -1 };

	copy_of(p, dim, stride);
	at = space_of_coords(&at, RANK, dim, x);
	return space_offset(p->b, &at, stride, 0);
}

/* The position in the image, along direction i, of number `at` of the copy in this phase; the copy begins at position `first` of the result. */
static int32_t position(
	const struct filter_product *p, int i, int32_t first, int32_t at, int32_t phase)
{
	const struct window *w = &p->v->w[i];
	struct ht_xb *b = p->b;

	at = ht_xmuli(b, ht_xadd(b, first, at), w->stride);
	return ht_xaddi(b, ht_xadd(b, at, phase), -w->before);
}

static void image_stage(struct filter_product *p)
{
	static const int loop[RANK] = { GROUP, PHASE, PHASE_OF_COLUMNS, LINE, COLUMN, CHANNEL,
		IMAGE };
	int64_t dim[RANK], stride[RANK];
	struct ht_xb *b = p->b;
	struct space at = { .rank = 4, .guard = -1 };
	int32_t part, channels, at_of[RANK], x[4];
	struct ht_stage *s = kb_stage(p->k, HT_STAGE_LOOP);

	copy_of(p, dim, stride);
	s->start = true;
	part = filter_part(p);
	channels = filter_grid_index(p, 1, p->channel_groups);
	for (int i = 0; i < RANK; i++)
		at_of[loop[i]] = kb_dim(p->k, dim[loop[i]]);
	s->vec = at_of[IMAGE];
	for (int i = 0; i < RANK; i++)
		at_of[i] = ht_xdim(b, at_of[i]);
	x[0] = ht_xadd(b, ht_xmuli(b, at_of[GROUP], p->together), at_of[IMAGE]);
	x[0] = ht_xadd(b, filter_first_image(p, part), x[0]);
	x[1] = position(p, 0, filter_first_line(p, part), at_of[LINE], at_of[PHASE]);
	x[2] = position(p, 1, ht_xi(b, 0), at_of[COLUMN], at_of[PHASE_OF_COLUMNS]);
	x[3] = ht_xadd(b, ht_xmuli(b, channels, p->lanes), at_of[CHANNEL]);
	for (int i = 1; i < 3; i++)
		space_and_guard(b, &at, index_inside(b, x[i], p->v->in.dim[i]));
	at = space_of_coords(&at, 4, p->v->in.dim, x);
	x[0] = contract_low(b, HT_BF16, kb_load(p->k, lower_operand(p->l, p->n, 0), &at));
	ht_xstore(b, p->image, place_in_copy(p, at_of), x[0]);
}

/* Packs the gradient of the result, whose depth is [group, line, column, image], in words of pairs: [panel, group, line, column, pair of
 * images, column of the panel]. */
static void gradient_stage(struct filter_product *p)
{
	enum { PANEL, OF_GROUP, OF_LINE, OF_COLUMN, PAIR, OF_PANEL, DIMS };
	static const int loop[DIMS] = { OF_GROUP, OF_LINE, OF_COLUMN, PAIR, PANEL, OF_PANEL };
	const struct view *from = lower_operand(p->l, p->n, 2);
	const int64_t dim[DIMS] = { ht_ceil_div(p->c.columns, p->c.nr), groups_of(p), p->lines,
		p->v->out.dim[2], p->together / 2, p->c.nr };
	struct space at = { .guard = -1 }, to = { .guard = -1 };
	struct ht_xb *b = p->b;
	int32_t part, group, i[DIMS], x[4], word[2], column;

	kb_stage(p->k, HT_STAGE_LOOP);
	part = filter_part(p);
	group = filter_grid_index(p, 2, p->column_groups);
	for (int d = 0; d < DIMS; d++)
		i[loop[d]] = ht_xdim(b, kb_dim(p->k, dim[loop[d]]));
	p->k->stage->vec = p->k->stage->dims - 1;
	x[1] = ht_xadd(b, filter_first_line(p, part), i[OF_LINE]);
	x[2] = i[OF_COLUMN];
	column = ht_xadd(b, ht_xmuli(b, i[PANEL], p->c.nr), i[OF_PANEL]);
	x[3] = ht_xadd(b, ht_xmuli(b, group, p->c.columns), column);
	if (p->c.columns % p->c.nr)
		at.guard = ht_xlt(b, column, ht_xi(b, p->c.columns));
	for (int second = 0; second < 2; second++) {
		struct space one;

		x[0] = ht_xaddi(b, ht_xmuli(b, i[PAIR], 2), second);
		x[0] = ht_xadd(b, ht_xmuli(b, i[OF_GROUP], p->together), x[0]);
		x[0] = ht_xadd(b, filter_first_image(p, part), x[0]);
		one = space_of_coords(&at, 4, p->v->out.dim, x);
		word[second] = contract_bits(b, HT_BF16, kb_load(p->k, from, &one));
	}
	to = space_of_coords(&to, DIMS, dim, i);
	ht_xstore(
		b, p->gradient, space_linear(b, &to), ht_xor(b, word[0], ht_xshli(b, word[1], 16)));
}

/* Where the row of the product begins in the copy of the image, for the group and the line of the result that are the current tap. */
static int32_t row_offset(
	const struct filter_product *p, const int32_t position[2], int32_t channel)
{
	struct ht_xb *b = p->b;
	int32_t x[RANK], from;

	x[GROUP] = p->c.tap_x[0];
	x[CHANNEL] = channel;
	x[IMAGE] = ht_xi(b, 0);
	for (int i = 0; i < 2; i++) {
		const struct window *w = &p->v->w[i];

		from = ht_xmuli(b, position[i], w->dilation);
		x[PHASE + i] = ht_xmodi(b, from, w->stride);
		x[LINE + i] = ht_xdivi(b, from, w->stride);
	}
	x[LINE] = ht_xadd(b, x[LINE], p->c.tap_x[1]);
	return place_in_copy(p, x);
}

static void product_stage(struct filter_product *p, const struct view *parts)
{
	const struct ht_shape filter = p->v->filter;
	struct ht_contract *t = &kb_stage(p->k, HT_STAGE_CONTRACT)->contract;
	const bool by_channels = rows_are_channels(p);
	struct ht_xb *b = p->b;
	int32_t channels, columns, x[5], channel, positions;

	x[0] = filter_part(p);
	channels = filter_grid_index(p, 1, p->channel_groups);
	columns = filter_grid_index(p, 2, p->column_groups);
	positions = ht_xdim(b, kb_dim(p->k, by_channels ? filter.dim[0] * filter.dim[1] : 1));
	t->m = kb_dim(p->k, by_channels ? p->lanes : p->c.rows);
	t->n = kb_dim(p->k, p->c.columns);
	p->c.tap_x[0] = ht_xdim(b, kb_reduce_dim(p->k, groups_of(p)));
	p->c.tap_x[1] = ht_xdim(b, kb_reduce_dim(p->k, p->lines));
	kb_reduce_dim(p->k, p->v->out.dim[2] * p->together);
	p->k->stage->vec = t->n;
	channel = ht_xdim(b, t->m);
	if (!by_channels) {
		positions = ht_xdivi(b, channel, p->lanes);
		channel = ht_xmodi(b, channel, p->lanes);
	}
	x[1] = ht_xdivi(b, positions, filter.dim[1]);
	x[2] = ht_xmodi(b, positions, filter.dim[1]);
	t->a_buffer = p->image;
	t->a_row = row_offset(p, x + 1, channel);
	contract_packed(&p->c, p->k, p->gradient, ht_xi(b, 0));
	x[3] = ht_xadd(b, ht_xmuli(b, channels, p->lanes), channel);
	x[4] = ht_xadd(b, ht_xmuli(b, columns, p->c.columns), ht_xdim(b, t->n));
	filter_store(p, parts, x);
}

void filter_matrix_stages(struct filter_product *p, const struct view *parts)
{
	int64_t dim[RANK], stride[RANK];

	copy_of(p, dim, stride);
	p->image = kb_local(p->k, HT_BF16, dim[0] * stride[0]);
	p->gradient = kb_local(p->k, HT_U32, p->c.packed_count / 2);
	image_stage(p);
	gradient_stage(p);
	product_stage(p, parts);
}
