/* A graph as SVG: boxes in rows, each below the boxes whose results it takes.  Its frame scrolls,
 * and three buttons set the size, without a script. */
#include "page/page.h"

enum {
	BOX_WIDTH = 200,
	BOX_HEIGHT = 40,
	STEP_X = 220,
	STEP_Y = 68,
	MARGIN = 12,
	MOST_COLUMNS = 5,
	NAME_BYTES = 26,
	SAYS_BYTES = 34,
	MOST_AT_ONCE = 8 /* the number of rows that are legible without zoom */
};

struct place {
	size_t rank;        /* 1 + the largest rank of the boxes whose results it takes */
	size_t row, column; /* column: in half boxes from the left */
	enum { NEW, OPEN, DONE } state;
};

struct layout {
	struct place *of; /* by box */
	size_t ranks, rows, width, height;
};

/* Ranks a box.  Edges that close a cycle, as in loops, are ignored. */
static void rank_box(const struct ht_page_graph *g, struct layout *l, size_t box)
{
	struct place *p = &l->of[box];

	p->state = OPEN;
	for (size_t i = 0; i < g->edges; i++) {
		const struct ht_graph_edge *e = &g->edge[i];
		const struct place *from = &l->of[e->from];
		if (e->to != box)
			continue;
		if (from->state == NEW)
			rank_box(g, l, e->from);
		if (from->state == DONE && p->rank <= from->rank)
			p->rank = from->rank + 1;
	}
	p->state = DONE;
	l->ranks = p->rank + 1 > l->ranks ? p->rank + 1 : l->ranks;
}

/* Places the boxes of one rank in as many rows as necessary; the last row is centred. */
static void place_rank(const struct ht_page_graph *g, struct layout *l, size_t rank)
{
	size_t left = 0, in_row = 0;

	for (size_t i = 0; i < g->boxes; i++)
		left += l->of[i].rank == rank;
	for (size_t i = 0; i < g->boxes; i++) {
		size_t of_row = left < MOST_COLUMNS ? left : MOST_COLUMNS;
		if (l->of[i].rank != rank)
			continue;
		l->of[i].row = l->rows;
		l->of[i].column = 2 * in_row + (MOST_COLUMNS - of_row);
		if (++in_row < of_row)
			continue;
		left -= in_row;
		in_row = 0;
		l->rows++;
	}
}

static void place_boxes(const struct ht_page_graph *g, struct layout *l)
{
	for (size_t i = 0; i < g->boxes; i++)
		if (l->of[i].state == NEW)
			rank_box(g, l, i);
	for (size_t i = 0; i < l->ranks; i++)
		place_rank(g, l, i);
	l->width = MOST_COLUMNS * STEP_X + MARGIN;
	l->height = l->rows * STEP_Y + 2 * MARGIN - (STEP_Y - BOX_HEIGHT);
}

static size_t x_of(const struct layout *l, size_t box)
{
	return (MARGIN + STEP_X - BOX_WIDTH) / 2 + l->of[box].column * STEP_X / 2;
}

static size_t y_of(const struct layout *l, size_t box)
{
	return MARGIN + l->of[box].row * STEP_Y;
}

static void put_edge(struct ht_buf *b, const struct layout *l, const struct ht_graph_edge *e)
{
	size_t x1 = x_of(l, e->from) + BOX_WIDTH / 2, y1 = y_of(l, e->from) + BOX_HEIGHT,
	       x2 = x_of(l, e->to) + BOX_WIDTH / 2, y2 = y_of(l, e->to);

	ht_printf(b, "<path class=\"edge%s\" d=\"M%zu %zuC%zu %zu %zu %zu %zu %zu\"/>\n",
		l->of[e->from].rank < l->of[e->to].rank ? "" : " back", x1, y1, x1,
		y1 + (STEP_Y - BOX_HEIGHT), x2,
		y2 > STEP_Y - BOX_HEIGHT ? y2 - (STEP_Y - BOX_HEIGHT) : 0, x2, y2);
}

static void put_label(
	struct ht_buf *b, const char *class, size_t x, size_t y, struct ht_str s, size_t most)
{
	ht_printf(b, "<text class=\"%s\" x=\"%zu\" y=\"%zu\">", class, x, y);
	ht_page_short(b, s, most);
	ht_puts(b, "</text>");
}

static void put_box(
	struct ht_buf *b, const struct layout *l, const struct ht_graph_box *box, size_t at)
{
	size_t x = x_of(l, at), y = y_of(l, at);

	if (box->id)
		ht_printf(b, "<a href=\"#m%zu\">", box->id);
	ht_printf(b, "<rect class=\"box%s\" x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\"/>",
		box->id ? " more" : "", x, y, BOX_WIDTH, BOX_HEIGHT);
	ht_printf(b, "<rect class=\"part\" x=\"%zu\" y=\"%zu\" height=\"4\" width=\"", x,
		y + BOX_HEIGHT - 4);
	ht_put_fixed(b, BOX_WIDTH * box->share, 0);
	ht_puts(b, "\"/>");
	put_label(b, "ink", x + 6, y + 15, box->name, NAME_BYTES);
	put_label(b, "faint", x + 6, y + 31, box->says, SAYS_BYTES);
	ht_puts(b, "<title>");
	ht_page_short(b, box->name, HT_CELL_NAME);
	ht_puts(b, ": ");
	ht_page_text(b, box->says);
	ht_puts(b, box->id ? "</title></a>\n" : "</title>\n");
}

/* The zoom buttons are radio buttons that the style sheet evaluates. */
static void put_zoom(struct ht_buf *b, size_t number)
{
	static const char *const words[] = { "whole", "larger", "largest" };

	for (size_t i = 0; i < HT_COUNT(words); i++)
		ht_printf(b,
			"<input type=\"radio\" class=\"zoom%zu\" name=\"z%zu\" id=\"z%zu-%zu\"%s>"
			"<label for=\"z%zu-%zu\">%s</label>\n",
			i, number, number, i, i ? "" : " checked", number, i, words[i]);
}

void ht_page_graph(struct ht_buf *b, const struct ht_page_graph *g)
{
	struct layout l = { .of = HT_NEW_ARRAY(b->arena, struct place, g->boxes) };
	bool large;

	place_boxes(g, &l);
	large = l.rows > MOST_AT_ONCE;
	ht_puts(b, large ? "<figure class=\"map large\">\n" : "<figure class=\"map\">\n");
	if (large)
		put_zoom(b, g->number);
	ht_puts(b, "<div class=\"pan\" tabindex=\"0\" role=\"group\" aria-label=\"");
	ht_page_short(b, g->title, HT_CELL_NAME);
	ht_printf(b, "\">\n<svg viewBox=\"0 0 %zu %zu\">\n", l.width, l.height);
	for (size_t i = 0; i < g->edges; i++)
		put_edge(b, &l, &g->edge[i]);
	for (size_t i = 0; i < g->boxes; i++)
		put_box(b, &l, &g->box[i], i);
	ht_puts(b, "</svg>\n</div>\n<figcaption>");
	ht_page_text(b, g->title);
	ht_puts(b, "</figcaption>\n</figure>\n");
}
