/* What the next tile of the gradient of a convolution by its filter copies and reads.  Its copy of the image would wait for memory while nothing is
 * multiplied, and so would its first rows, for the gradient. */
#include "lower/filter_product.h"

/* Whether a share of the image can be asked for: its numbers lie in memory, and windows leave none of them out. */
static bool may_ask_for_image(const struct filter_product *p)
{
	const struct window *w = p->v->w;

	return filter_lies_in_memory(lower_operand(p->l, p->n, 0)) && w[0].stride <= w[0].size &&
	       w[1].stride <= w[1].size;
}

/* Asks for `count` channels, from `channel` on, of `pixels` pixels of an operand of shape `from`, from pixel `first` on. */
static void ask_for(struct filter_product *p, int arg, struct ht_shape from, int32_t first,
	int32_t channel, int64_t pixels, int64_t count)
{
	const struct view *v = lower_operand(p->l, p->n, arg);
	struct ht_contract *t = &p->k->stage->contract;
	const int64_t channels = from.dim[3];
	const bool whole = count == channels;
	const int32_t at = ht_xadd(p->b, ht_xmuli(p->b, first, channels), channel);

	t->ahead[t->aheads++] = (struct ht_ahead){
		.buffer = kb_arg(p->k, v->buffer, HT_BUFFER_IN),
		.at = ht_xaddi(p->b, at, v->offset),
		.pieces = whole ? 1 : pixels,
		.step = whole ? 0 : channels,
		.count = whole ? pixels * channels : count,
	};
}

/* Lines of an image that a tile copies, as they lie in memory. */
static int64_t lines_of_image(const struct filter_product *p)
{
	const struct window *w = &p->v->w[0];

	return p->bands == 1 ? p->v->in.dim[1] : (p->lines - 1) * w->stride + filter_reach(w) + 1;
}

/* The first line of the image that a part copies, counted over all images. */
static int32_t first_line(struct filter_product *p, int32_t part)
{
	const struct window *w = &p->v->w[0];
	int32_t line = ht_xmuli(p->b, filter_first_image(p, part), p->v->in.dim[1]);

	if (p->bands == 1)
		return line;
	line = ht_xadd(p->b, line, ht_xmuli(p->b, filter_first_line(p, part), w->stride));
	return ht_xaddi(p->b, line, -w->before);
}

/* The share of the image that the tiles of the next group of channels, or of the next part, copy.  Each tile that multiplies the present one asks
 * for an equal part of its pixels. */
static void ask_for_image(struct filter_product *p, int32_t part, int32_t channels, int32_t columns)
{
	const int64_t width = p->v->in.dim[2], count = p->blocks * p->lanes;
	const int64_t all = p->images * lines_of_image(p) * width;
	const int64_t of_tile = ht_ceil_div(all, p->column_groups);
	struct ht_xb *b = p->b;
	int32_t next = ht_xadd(b, ht_xmuli(b, part, p->channel_groups), channels), first;

	next = ht_xaddi(b, next, 1);
	first = ht_xmuli(b, first_line(p, ht_xdivi(b, next, p->channel_groups)), width);
	first = ht_xadd(b, first, ht_xmuli(b, columns, of_tile));
	channels = ht_xmuli(b, ht_xmodi(b, next, p->channel_groups), count);
	ask_for(p, 0, p->v->in, first, channels, of_tile, count);
}

/* The share of the gradient that the next tile reads, or packs.  Where it is packed in front, or has one panel, the backend asks for the next
 * panel anyway. */
static void ask_for_gradient(
	struct filter_product *p, int32_t part, int32_t channels, int32_t columns)
{
	const int64_t pixels = p->images * p->lines * p->v->out.dim[2];
	struct ht_xb *b = p->b;
	int32_t next = ht_xadd(b, ht_xmuli(b, part, p->channel_groups), channels), first;

	next = ht_xaddi(b, ht_xadd(b, ht_xmuli(b, next, p->column_groups), columns), 1);
	first = ht_xdivi(b, next, p->column_groups * p->channel_groups);
	first = ht_xmuli(b, first, pixels);
	columns = ht_xmuli(b, ht_xmodi(b, next, p->column_groups), p->c.columns);
	ask_for(p, 2, p->v->out, first, columns, pixels, p->c.columns);
}

void filter_ask_ahead(struct filter_product *p, int32_t part, int32_t channels, int32_t columns)
{
	const bool panels = p->packed >= 0 && !p->k->stage->contract.b_row;

	if (may_ask_for_image(p))
		ask_for_image(p, part, channels, columns);
	if (!panels && filter_lies_in_memory(lower_operand(p->l, p->n, 2)))
		ask_for_gradient(p, part, channels, columns);
}
