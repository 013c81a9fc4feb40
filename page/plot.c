/* Plots of points as SVG: the x axis begins at 0, the y axis is linear or logarithmic; intervals
 * are bars, and names are at the right side. */
#include "page/page.h"

#include <math.h>
#include <stdlib.h>

enum {
	WIDTH = 880,
	LEFT = 76,
	RIGHT = 600, /* the area of the points */
	NAMES = 626,
	TOP = 16,
	LEAST_HEIGHT = 260,
	LANE = 26, /* above and below the logarithmic axis, for 0 and values that are not finite */
	LINE = 18, /* height of a line of names */
	TICKS = 6,
	NAME_BYTES = 34
};

struct axis {
	double low, high, step; /* of a logarithmic axis: exponents of ten */
	double from, to;        /* pixels at `low` and `high` */
	bool log;
};

struct drawing {
	struct ht_buf *b;
	const struct ht_plot *plot;
	const struct ht_point **point; /* the points that are drawn */
	size_t n;
	struct axis x, y;
	double bottom;
};

/* ---- axes ---- */

/* 1, 2 or 5 times a power of ten, about TICKS of which make up `range`. */
static double nice_step(double range)
{
	double power = pow(10, floor(log10(range / TICKS))), times = range / TICKS / power;

	return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

/* Extends the axis to a value.  Values so large that their differences overflow are drawn at the end
 * of the axis. */
static void take(struct axis *a, double v)
{
	if (!isfinite(v) || fabs(v) > 1e300)
		return;
	a->low = fmin(a->low, v);
	a->high = fmax(a->high, v);
}

static void round_linear(struct axis *a)
{
	if (!(a->high - a->low > 1e-290))
		a->high = a->low + 1;
	a->step = nice_step(a->high - a->low);
	a->low = floor(a->low / a->step) * a->step;
	a->high = ceil(a->high / a->step) * a->step;
}

/* Rounds the axis to powers of ten around its values; without values it gets default ones. */
static void round_log(struct axis *a)
{
	bool any = a->high >= a->low;

	a->low = any ? floor(a->low) : -6;
	a->high = any ? ceil(a->high) : 0;
	if (a->high - a->low < 1)
		a->high = a->low + 1;
	a->step = ceil((a->high - a->low) / TICKS);
	a->high = a->low + ceil((a->high - a->low) / a->step) * a->step;
}

static double pixel(const struct axis *a, double v)
{
	if (a->log && !(v > 0))
		return isnan(v) ? a->to - LANE : a->from + LANE;
	if (!isfinite(v))
		return a->to - LANE;
	v = a->log ? log10(v) : v;
	v = fmin(fmax((v - a->low) / (a->high - a->low), 0), 1);
	return a->from + v * (a->to - a->from);
}

static void take_y(struct axis *a, double v)
{
	if (!a->log)
		take(a, v);
	else if (v > 0)
		take(a, log10(v));
}

static void make_axes(struct drawing *d, double height)
{
	struct axis *x = &d->x, *y = &d->y;
	double lane = d->plot->log_y ? LANE * 1.6 : 0;

	*x = (struct axis){ .from = LEFT, .to = RIGHT };
	*y = (struct axis){ .from = TOP + height - lane, .to = TOP + lane, .log = d->plot->log_y };
	if (y->log) {
		y->low = INFINITY;
		y->high = -INFINITY;
	}
	for (size_t i = 0; i < d->plot->marks; i++)
		take(x, d->plot->mark[i].at);
	for (size_t i = 0; i < d->n; i++) {
		const struct ht_point *p = d->point[i];
		take(x, p->x);
		take(x, p->x_high);
		take_y(y, p->y);
		take_y(y, p->y_low);
		take_y(y, p->y_high);
	}
	round_linear(x);
	if (y->log)
		round_log(y);
	else
		round_linear(y);
	d->bottom = TOP + height;
}

/* ---- elements ---- */

static void put_at(struct ht_buf *b, const char *name, double v)
{
	ht_printf(b, " %s=\"", name);
	ht_put_fixed(b, v, 1);
	ht_putc(b, '"');
}

static void put_line(
	struct ht_buf *b, const char *class, double x1, double y1, double x2, double y2)
{
	ht_printf(b, "<line class=\"%s\"", class);
	put_at(b, "x1", x1);
	put_at(b, "y1", y1);
	put_at(b, "x2", x2);
	put_at(b, "y2", y2);
	ht_puts(b, "/>\n");
}

static void open_text(struct ht_buf *b, const char *class, const char *anchor, double x, double y)
{
	ht_printf(b, "<text class=\"%s\" text-anchor=\"%s\"", class, anchor);
	put_at(b, "x", x);
	put_at(b, "y", y);
	ht_putc(b, '>');
}

static void put_text(struct ht_buf *b, const char *anchor, double x, double y, struct ht_str s)
{
	open_text(b, "ink", anchor, x, y);
	ht_page_text(b, s);
	ht_puts(b, "</text>\n");
}

static void put_tick(struct ht_buf *b, const struct axis *a, double v)
{
	int power = (int)floor(log10(a->step) + 1e-9);

	if (a->log)
		ht_printf(b, "1e%d", (int)v);
	else if (power < -6 || power > 6)
		ht_printf(b, "%.0fe%d", v / pow(10, power), power);
	else
		ht_put_fixed(b, v, power < 0 ? -power : 0);
}

static double tick(const struct axis *a, int i)
{
	return a->low + i * a->step;
}

static int ticks(const struct axis *a)
{
	return (int)round((a->high - a->low) / a->step) + 1;
}

static void put_x_axis(struct drawing *d)
{
	struct ht_buf *b = d->b;

	for (int i = 0; i < ticks(&d->x); i++) {
		double at = pixel(&d->x, tick(&d->x, i));
		put_line(b, "grid", at, TOP, at, d->bottom);
		open_text(b, "faint", "middle", at, d->bottom + 18);
		put_tick(b, &d->x, tick(&d->x, i));
		ht_puts(b, "</text>\n");
	}
	put_line(b, "axis", LEFT, d->bottom, RIGHT, d->bottom);
	put_text(b, "middle", (LEFT + RIGHT) / 2.0, d->bottom + 38, d->plot->x_name);
}

static void put_lane(struct drawing *d, double at, const char *name)
{
	put_line(d->b, "mark", LEFT, at, RIGHT, at);
	open_text(d->b, "faint", "end", LEFT - 8, at + 4);
	ht_puts(d->b, name);
	ht_puts(d->b, "</text>\n");
}

/* Draws lanes for 0 and values that are not finite, if a point lies in them. */
static void put_lanes(struct drawing *d)
{
	bool zero = false, other = false;

	for (size_t i = 0; i < d->n; i++) {
		zero = zero || d->point[i]->y <= 0;
		other = other || !isfinite(d->point[i]->y);
	}
	if (zero)
		put_lane(d, pixel(&d->y, 0), "0");
	if (other)
		put_lane(d, pixel(&d->y, INFINITY), "not finite");
}

static void put_y_axis(struct drawing *d)
{
	const struct axis *y = &d->y;
	struct ht_buf *b = d->b;

	for (int i = 0; i < ticks(y); i++) {
		double v = tick(y, i), at = pixel(y, y->log ? pow(10, v) : v);
		put_line(b, "grid", LEFT, at, RIGHT, at);
		open_text(b, "faint", "end", LEFT - 8, at + 4);
		put_tick(b, y, v);
		ht_puts(b, "</text>\n");
	}
	if (y->log)
		put_lanes(d);
	put_line(b, "axis", LEFT, TOP, LEFT, d->bottom);
	ht_puts(b, "<text text-anchor=\"middle\" transform=\"rotate(-90)\"");
	put_at(b, "x", -(TOP + d->bottom) / 2);
	put_at(b, "y", 16);
	ht_putc(b, '>');
	ht_page_text(b, d->plot->y_name);
	ht_puts(b, "</text>\n");
}

/* ---- points ---- */

static double x_of(const struct drawing *d, const struct ht_point *p)
{
	return pixel(&d->x, p->x);
}

static double y_of(const struct drawing *d, const struct ht_point *p)
{
	return pixel(&d->y, p->y);
}

static void put_interval(
	struct drawing *d, const struct ht_point *p, double x1, double y1, double x2, double y2)
{
	put_line(d->b, p->good ? "pass span" : "fail span", x1, y1, x2, y2);
}

static void put_intervals(struct drawing *d, const struct ht_point *p)
{
	double x = x_of(d, p), y = y_of(d, p);

	if (isfinite(p->x_low) && isfinite(p->x_high))
		put_interval(d, p, pixel(&d->x, p->x_low), y, pixel(&d->x, p->x_high), y);
	if (isfinite(p->y_low) && isfinite(p->y_high))
		put_interval(d, p, x, pixel(&d->y, p->y_low), x, pixel(&d->y, p->y_high));
}

static void put_point(struct drawing *d, const struct ht_point *p)
{
	double x = x_of(d, p), y = y_of(d, p);
	struct ht_buf *b = d->b;

	put_intervals(d, p);
	ht_printf(b, "<path class=\"%s\" d=\"M", p->good ? "pass" : "fail");
	ht_put_fixed(b, x, 1);
	ht_putc(b, ' ');
	ht_put_fixed(b, y, 1);
	ht_puts(b, p->good ? "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z\"><title>"
			   : "m-5-5l10 10m0-10l-10 10\"><title>");
	ht_page_short(b, p->says, HT_CELL_TEXT);
	ht_puts(b, "</title></path>\n");
}

static bool is_better(const struct ht_point *a, const struct ht_point *b)
{
	bool y_at_least = a->y <= b->y || isnan(b->y);

	return a->x <= b->x && y_at_least && (a->x < b->x || !(a->y == b->y));
}

static bool is_on_front(const struct drawing *d, const struct ht_point *p)
{
	if (!isfinite(p->y))
		return false;
	for (size_t i = 0; i < d->n; i++)
		if (is_better(d->point[i], p))
			return false;
	return true;
}

static int by_x(const void *a, const void *b)
{
	const struct ht_point *p = *(const struct ht_point *const *)a,
			      *q = *(const struct ht_point *const *)b;

	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return (p > q) - (p < q);
}

static void put_front(struct drawing *d)
{
	ht_puts(d->b, "<polyline class=\"front\" points=\"");
	for (size_t i = 0; i < d->n; i++) {
		if (!is_on_front(d, d->point[i]))
			continue;
		ht_put_fixed(d->b, x_of(d, d->point[i]), 1);
		ht_putc(d->b, ',');
		ht_put_fixed(d->b, y_of(d, d->point[i]), 1);
		ht_putc(d->b, ' ');
	}
	ht_puts(d->b, "\"/>\n");
}

/* ---- names ---- */

struct label {
	const struct ht_point *point;
	double at, y; /* height of the point; height of the name */
};

/* Of points at one height the rightmost comes first, so that no line to a name crosses another. */
static int by_height(const void *a, const void *b)
{
	const struct label *p = a, *q = b;

	if (p->at != q->at)
		return p->at < q->at ? -1 : 1;
	if (p->point->x != q->point->x)
		return p->point->x > q->point->x ? -1 : 1;
	return (p->point > q->point) - (p->point < q->point);
}

/* Places each name beside its point, or as near to it as the other names allow. */
static void place(struct label *l, size_t n, double bottom)
{
	for (size_t i = 0; i < n; i++)
		l[i].y = i ? fmax(l[i].at, l[i - 1].y + LINE) : l[i].at;
	for (size_t i = n; i-- > 0;)
		l[i].y = fmin(l[i].y, i + 1 < n ? l[i + 1].y - LINE : bottom);
}

static void put_names(struct drawing *d, const struct ht_point *const *named, size_t n)
{
	struct label *l = HT_NEW_ARRAY(d->b->arena, struct label, n);

	for (size_t i = 0; i < n; i++)
		l[i] = (struct label){ named[i], y_of(d, named[i]), 0 };
	qsort(l, n, sizeof *l, by_height);
	place(l, n, d->bottom);
	for (size_t i = 0; i < n; i++) {
		put_line(d->b, "lead", x_of(d, l[i].point) + 7, l[i].at, NAMES - 5, l[i].y);
		open_text(d->b, "ink", "start", NAMES, l[i].y + 4);
		ht_page_short(d->b, l[i].point->label, NAME_BYTES);
		ht_puts(d->b, "</text>\n");
	}
}

/* Names of marks alternate between three heights, so that neighbours do not overlap. */
static void put_marks(struct drawing *d)
{
	for (size_t i = 0; i < d->plot->marks; i++) {
		double x = pixel(&d->x, d->plot->mark[i].at);

		if (!isfinite(d->plot->mark[i].at))
			continue;
		put_line(d->b, "mark", x, TOP, x, d->bottom);
		open_text(d->b, "faint", "middle", x, TOP - 4 + (double)(i % 3) * 14);
		ht_page_text(d->b, ht_str(d->plot->mark[i].name));
		ht_puts(d->b, "</text>\n");
	}
}

/* ---- many points ---- */

static void put_bar(struct drawing *d, const struct ht_point *p)
{
	put_line(d->b, "bar", x_of(d, p), d->bottom, x_of(d, p), y_of(d, p));
}

static void put_dot(struct drawing *d, const struct ht_point *p)
{
	ht_printf(d->b, "<circle class=\"dot%d\" r=\"%s\"", p->series, p->good ? "2.2" : "4.5");
	put_at(d->b, "cx", x_of(d, p));
	put_at(d->b, "cy", y_of(d, p));
	ht_puts(d->b, "><title>");
	ht_page_short(d->b, p->says, HT_CELL_NAME);
	ht_puts(d->b, "</title></circle>\n");
}

/* ---- lines ---- */

/* Draws a series and returns its last point; NULL: it has none.  Points that are not finite
 * interrupt the line. */
static const struct ht_point *put_series(struct drawing *d, int series)
{
	const struct ht_point *last = NULL;
	bool open = false;

	for (size_t i = 0; i < d->n; i++) {
		const struct ht_point *p = d->point[i];
		if (p->series != series)
			continue;
		if (!last)
			ht_printf(d->b, "<path class=\"line line%d\" d=\"", series);
		last = p;
		if (isfinite(p->y)) {
			ht_putc(d->b, open ? 'L' : 'M');
			ht_put_fixed(d->b, x_of(d, p), 1);
			ht_putc(d->b, ' ');
			ht_put_fixed(d->b, y_of(d, p), 1);
		}
		open = isfinite(p->y);
	}
	if (!last)
		return NULL;
	ht_puts(d->b, "\"><title>");
	ht_page_short(d->b, last->says, HT_CELL_NAME);
	ht_puts(d->b, "</title></path>\n");
	return last;
}

static void put_lines(struct drawing *d)
{
	const struct ht_point *last[HT_PLOT_MOST_LINES];
	size_t n = 0;

	for (int i = 0; i < HT_PLOT_MOST_LINES; i++) {
		last[n] = put_series(d, i);
		n += last[n] != NULL;
	}
	put_names(d, last, n);
}

/* ---- the plot ---- */

static void (*const put_one[])(struct drawing *d, const struct ht_point *p) = {
	[HT_PLOT_FRONT] = put_point, [HT_PLOT_MANY] = put_dot, [HT_PLOT_BARS] = put_bar
};

static void draw(struct drawing *d)
{
	double rows = d->plot->kind == HT_PLOT_FRONT ? (double)(d->n + 2) * LINE : 0,
	       height = rows > LEAST_HEIGHT ? rows : LEAST_HEIGHT;

	make_axes(d, height);
	ht_printf(d->b, "<figure>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
		(int)height + TOP + 46);
	ht_page_text(d->b, d->plot->title);
	ht_puts(d->b, "\">\n");
	put_x_axis(d);
	put_y_axis(d);
	put_marks(d);
	if (d->plot->kind == HT_PLOT_FRONT) {
		put_front(d);
		put_names(d, d->point, d->n);
	}
	if (d->plot->kind == HT_PLOT_LINES)
		put_lines(d);
	for (size_t i = 0; i < d->n && d->plot->kind != HT_PLOT_LINES; i++)
		put_one[d->plot->kind](d, d->point[i]);
	ht_puts(d->b, "</svg>\n<figcaption>");
	ht_page_text(d->b, d->plot->title);
	ht_puts(d->b, "</figcaption>\n</figure>\n");
}

void ht_page_plot(struct ht_buf *b, const struct ht_plot *plot)
{
	struct drawing d = { .b = b, .plot = plot };

	d.point = HT_NEW_ARRAY(b->arena, const struct ht_point *, plot->points);
	for (size_t i = 0; i < plot->points; i++)
		if (isfinite(plot->point[i].x))
			d.point[d.n++] = &plot->point[i];
	if (!d.n)
		return;
	qsort(d.point, d.n, sizeof *d.point, by_x);
	draw(&d);
}
