/* page: one HTML file in a buffer, which needs nothing else and runs no script: text that stays inert, tables,
 * plots as SVG.  It does not know what the page is about. */
#ifndef HT_PAGE_H
#define HT_PAGE_H

#include "base/base.h"

/* ---- page.c ---- */

/* The text of an element, or of an attribute between quotes.  What is not UTF-8 and controls become U+FFFD. */
void ht_page_text(struct ht_buf *b, struct ht_str s);
/* The first `most` bytes of it at the most, without a character cut in two; "…" stands for the rest. */
void ht_page_short(struct ht_buf *b, struct ht_str s, size_t most);

/* The head, the title as the first heading, and the list of `n` sections. */
void ht_page_begin(struct ht_buf *b, struct ht_str title, const struct ht_str *section, size_t n);
void ht_page_end(struct ht_buf *b);
/* Section `i` of that list. */
void ht_page_section(struct ht_buf *b, struct ht_str title, size_t i);
/* What opens and folds by its title; `folded`: until it is opened. */
void ht_page_fold(struct ht_buf *b, struct ht_str title, bool folded);
void ht_page_fold_end(struct ht_buf *b);
/* A line of a tree: a bar for `share` (0 to 1), a name and a text.  With `within` the branch folds what is written up to
 * ht_page_branch_end(); without, there is no such call.  `id` (0: none) is what boxes of graphs lead to. */
void ht_page_branch(struct ht_buf *b, struct ht_str name, struct ht_str says, double share,
	bool within, size_t id);
void ht_page_branch_end(struct ht_buf *b);
void ht_page_paragraph(struct ht_buf *b, struct ht_str s);
void ht_page_section_end(struct ht_buf *b);

/* ---- graph.c ---- */

struct ht_graph_box {
	struct ht_str name, says;
	double share; /* 0 to 1, shown as a bar */
	size_t id;    /* of the branch that the box leads to; 0: none */
};

struct ht_graph_edge {
	size_t from, to; /* numbers of boxes */
};

struct ht_page_graph {
	struct ht_str title;
	const struct ht_graph_box *box;
	size_t boxes;
	const struct ht_graph_edge *edge;
	size_t edges;
	size_t number; /* no other graph of the page has it */
};
/* Boxes without an edge between them are in the order in which they are given. */
void ht_page_graph(struct ht_buf *b, const struct ht_page_graph *g);

/* ---- style.c ---- */

extern const char ht_page_style[];

/* ---- table.c ---- */

struct ht_table_column {
	const char *name;
	bool number; /* set to the right */
};

/* A table below a title that folds it.  Cells come row by row.  One without cells leaves nothing on
 * the page.  Rows behind the first `limit` are counted, and a line below the table says so. */
struct ht_table {
	struct ht_buf *b;
	const char *title, *caption;
	const struct ht_table_column *column;
	size_t columns, limit;
	bool folded;
	size_t cells;
};

/* At most so many bytes of a cell are shown. */
enum { HT_CELL_NAME = 200, HT_CELL_TEXT = 16000 };

void ht_cell(struct ht_table *t, struct ht_str name);
void ht_cell_text(struct ht_table *t, struct ht_str s);
void ht_cell_verdict(struct ht_table *t, struct ht_str word, bool good);
void ht_cell_printf(struct ht_table *t, const char *fmt, ...) HT_PRINTF(2, 3);
void ht_table_end(struct ht_table *t);

/* ---- plot.c ---- */

enum { HT_PLOT_MOST_LINES = 8 };

/* NaN: there is none. */
struct ht_point {
	struct ht_str label, says; /* `says`: its numbers, for who points at it */
	double x, y;
	double x_low, x_high, y_low, y_high;
	bool good;
	int series; /* in HT_PLOT_MANY: 0 or 1, drawn with different symbols; in HT_PLOT_LINES: which line it is on */
};

/* A vertical line with a name. */
struct ht_plot_mark {
	double at; /* on the x axis; NaN: it is not drawn */
	const char *name;
};

struct ht_plot {
	struct ht_str title, x_name, y_name;
	bool log_y; /* 0 and what is not finite have lines of their own */
	const struct ht_point *point;
	size_t points;
	const struct ht_plot_mark *mark;
	size_t marks;
	enum ht_plot_kind {
		HT_PLOT_FRONT, /* few points with names, and a line along the Pareto front; small x and y are good */
		HT_PLOT_MANY, /* two series of dots without names */
		HT_PLOT_BARS, /* a bar from the x axis up to each point */
		HT_PLOT_LINES /* a line for each series, 0 to HT_PLOT_MOST_LINES - 1, with the label of its last point as its name */
	} kind;
};

/* Leaves out points without a finite x, and writes nothing if no point remains. */
void ht_page_plot(struct ht_buf *b, const struct ht_plot *plot);

#endif
