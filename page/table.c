/* Tables that fold. */
#include "page/page.h"

static void put_head(struct ht_table *t)
{
	ht_puts(t->b, "<thead>\n<tr>");
	for (size_t i = 0; i < t->columns; i++) {
		ht_printf(t->b, "<th scope=\"col\"%s>", t->column[i].number ? " class=\"n\"" : "");
		ht_page_short(t->b, ht_str(t->column[i].name), HT_CELL_NAME);
		ht_puts(t->b, "</th>");
	}
	ht_puts(t->b, "</tr>\n</thead>\n");
}

static void open_table(struct ht_table *t)
{
	struct ht_str title = ht_str(t->title);

	ht_page_fold(t->b, title, t->folded);
	ht_puts(t->b, "<div class=\"wide\" role=\"region\" aria-label=\"");
	ht_page_short(t->b, title, HT_CELL_NAME);
	ht_puts(t->b, "\" tabindex=\"0\">\n<table>\n<caption>");
	ht_page_text(t->b, ht_str(t->caption));
	ht_puts(t->b, "</caption>\n");
	put_head(t);
	ht_puts(t->b, "<tbody>\n");
}

static size_t rows(const struct ht_table *t)
{
	return t->cells / t->columns;
}

/* Begins a cell.  False: its row is beyond the limit. */
static bool open_cell(struct ht_table *t, const char *class)
{
	size_t column = t->cells % t->columns;
	const char *element = column ? "td" : "th scope=\"row\"";

	if (!t->cells)
		open_table(t);
	if (rows(t) >= t->limit)
		return false;
	if (!class && t->column[column].number)
		class = "n";
	ht_printf(t->b, "%s<%s", column ? "" : "<tr>", element);
	if (class)
		ht_printf(t->b, " class=\"%s\"", class);
	ht_putc(t->b, '>');
	return true;
}

static void put_cell(struct ht_table *t, struct ht_str s, size_t most, const char *class)
{
	if (open_cell(t, class)) {
		ht_page_short(t->b, s, most);
		ht_puts(t->b, t->cells % t->columns ? "</td>" : "</th>");
		ht_puts(t->b, t->cells % t->columns == t->columns - 1 ? "</tr>\n" : "");
	}
	t->cells++;
}

void ht_cell(struct ht_table *t, struct ht_str name)
{
	put_cell(t, name, HT_CELL_NAME, NULL);
}

void ht_cell_text(struct ht_table *t, struct ht_str s)
{
	put_cell(t, s, HT_CELL_TEXT, NULL);
}

void ht_cell_verdict(struct ht_table *t, struct ht_str word, bool good)
{
	put_cell(t, word, HT_CELL_NAME, good ? "good" : "bad");
}

void ht_cell_printf(struct ht_table *t, const char *fmt, ...)
{
	char text[HT_CELL_NAME];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	ht_cell(t, ht_str(text));
}

void ht_table_end(struct ht_table *t)
{
	if (!t->cells)
		return;
	ht_puts(t->b, "</tbody>\n</table>\n</div>\n");
	if (rows(t) > t->limit)
		ht_printf(t->b, "<p>%zu of %zu rows are shown; %zu are left out.</p>\n", t->limit,
			rows(t), rows(t) - t->limit);
	ht_page_fold_end(t->b);
}
