/* page: writes one HTML file to a buffer.  The file needs no other file and runs no script: it has
 * text that stays inert, tables, and plots as SVG.  This folder does not know the subject of the
 * page. */
#ifndef HT_PAGE_H
#define HT_PAGE_H

#include "base/base.h"

/* ---- page.c ---- */

/* Writes the text of an element, or of an attribute between quotes.  Bytes that are not UTF-8 and
 * control characters become U+FFFD. */
void ht_page_text(struct ht_buf *b, struct ht_str s);
/* Writes at most the first `most` bytes of it, without cutting a character in two; "…" stands for
 * the rest. */
void ht_page_short(struct ht_buf *b, struct ht_str s, size_t most);

/* Writes the head, the title as the first heading, and the list of `n` sections. */
void ht_page_begin(struct ht_buf *b, struct ht_str title, const struct ht_str *section, size_t n);
void ht_page_end(struct ht_buf *b);
/* Begins section `i` of that list. */
void ht_page_section(struct ht_buf *b, struct ht_str title, size_t i);
/* Begins a part that its title opens and folds; `folded`: it is folded at first. */
void ht_page_fold(struct ht_buf *b, struct ht_str title, bool folded);
void ht_page_fold_end(struct ht_buf *b);
/* Writes a line of a tree: a bar for `share` (0 to 1), a name and a text.  With `within`, the
 * branch folds everything up to ht_page_branch_end(); without it, that function is not called.
 * `id` (0: none) is the target of links from boxes of graphs. */
void ht_page_branch(struct ht_buf *b, struct ht_str name, struct ht_str says, double share,
	bool within, size_t id);
void ht_page_branch_end(struct ht_buf *b);
void ht_page_paragraph(struct ht_buf *b, struct ht_str s);
void ht_page_section_end(struct ht_buf *b);

/* ---- graph.c ---- */

struct ht_graph_box {
	struct ht_str name, says;
	double share; /* 0 to 1, shown as a bar */
	size_t id;    /* of the branch to which the box links; 0: none */
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
	size_t number; /* unique among the graphs of the page */
};
/* Boxes without an edge between them keep the order in which they are given. */
void ht_page_graph(struct ht_buf *b, const struct ht_page_graph *g);

/* ---- style.c ---- */

extern const char ht_page_style[];

/* ---- table.c ---- */

struct ht_table_column {
	const char *name;
	bool number; /* aligned to the right */
};

/* A table below a title that folds it.  The caller adds cells row by row.  A table without cells
 * leaves nothing on the page.  Rows after the first `limit` are only counted, and a line below the
 * table states their number. */
struct ht_table {
	struct ht_buf *b;
	const char *title, *caption;
	const struct ht_table_column *column;
	size_t columns, limit;
	bool folded;
	size_t cells;
};

/* A cell shows at most this many bytes of a name, and of another text. */
enum { HT_CELL_NAME = 200, HT_CELL_TEXT = 16000 };

void ht_cell(struct ht_table *t, struct ht_str name);
void ht_cell_text(struct ht_table *t, struct ht_str s);
void ht_cell_verdict(struct ht_table *t, struct ht_str word, bool good);
void ht_cell_printf(struct ht_table *t, const char *fmt, ...) HT_PRINTF(2, 3);
void ht_table_end(struct ht_table *t);

/* ---- plot.c ---- */

enum { HT_PLOT_MOST_LINES = 8 };

/* NaN: the point has no such value. */
struct ht_point {
	struct ht_str label, says; /* `says`: its numbers, shown as a tooltip */
	double x, y;
	double x_low, x_high, y_low, y_high;
	bool good;
	/* HT_PLOT_MANY: 0 or 1, drawn with different symbols; HT_PLOT_LINES: the number of its
	 * line */
	int series;
};

/* A vertical line with a name. */
struct ht_plot_mark {
	double at; /* position on the x axis; NaN: not drawn */
	const char *name;
};

struct ht_plot {
	struct ht_str title, x_name, y_name;
	bool log_y; /* 0 and values that are not finite get lanes of their own */
	const struct ht_point *point;
	size_t points;
	const struct ht_plot_mark *mark;
	size_t marks;
	enum ht_plot_kind {
		/* few points with names, and a line along the Pareto front; smaller x and y are
		 * better */
		HT_PLOT_FRONT,
		HT_PLOT_MANY, /* two series of dots without names */
		HT_PLOT_BARS, /* a bar from the x axis up to each point */
		HT_PLOT_LINES /* a line for each series, named by the label of its last point */
	} kind;
};

/* Draws a plot.  Points without a finite x are left out; if no point remains, nothing is
 * written. */
void ht_page_plot(struct ht_buf *b, const struct ht_plot *plot);

#endif
