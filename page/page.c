/* The frame of the page: head, contents, sections, trees, and escaping of text. */
#include "page/page.h"

#include <string.h>

/* The number of bytes of the first character of `s` if it is shown; 0: it is replaced. */
static size_t shown_length(struct ht_str s)
{
	size_t n = ht_utf8_length(s.p, s.n);
	unsigned char c = (unsigned char)s.p[0];
	bool control = n == 1 && (c < ' ' || c == 0x7f) && c != '\n' && c != '\t';
	bool control_of_two = n == 2 && c == 0xc2 && (unsigned char)s.p[1] < 0xa0;

	return control || control_of_two ? 0 : n;
}

static void put_character(struct ht_buf *b, struct ht_str s, size_t n)
{
	if (!n)
		ht_puts(b, "\xef\xbf\xbd");
	else if (n == 1 && strchr("<>&\"'", s.p[0]))
		ht_printf(b, "&#%d;", s.p[0]);
	else
		ht_put(b, s.p, n);
}

void ht_page_text(struct ht_buf *b, struct ht_str s)
{
	ht_page_short(b, s, SIZE_MAX);
}

void ht_page_short(struct ht_buf *b, struct ht_str s, size_t most)
{
	size_t used = 0;

	while (used < s.n) {
		struct ht_str rest = { s.p + used, s.n - used };
		size_t n = shown_length(rest), whole = ht_utf8_length(rest.p, rest.n);

		whole = whole ? whole : 1;
		if (whole > most - used) {
			ht_puts(b, "…");
			return;
		}
		put_character(b, rest, n);
		used += whole;
	}
}

static void put_contents(struct ht_buf *b, const struct ht_str *section, size_t n)
{
	ht_puts(b, "<nav aria-label=\"Contents\">\n<ol>\n");
	for (size_t i = 0; i < n; i++) {
		ht_printf(b, "<li><a href=\"#s%zu\">", i + 1);
		ht_page_short(b, section[i], HT_CELL_TEXT);
		ht_puts(b, "</a></li>\n");
	}
	ht_puts(b, "</ol>\n</nav>\n");
}

void ht_page_begin(struct ht_buf *b, struct ht_str title, const struct ht_str *section, size_t n)
{
	ht_puts(b,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"style-src 'unsafe-inline'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
	ht_page_short(b, title, HT_CELL_TEXT);
	ht_puts(b, "</title>\n<style>\n");
	ht_puts(b, ht_page_style);
	ht_puts(b, "</style>\n</head>\n<body>\n<header>\n<h1>");
	ht_page_short(b, title, HT_CELL_TEXT);
	ht_puts(b, "</h1>\n");
	put_contents(b, section, n);
	ht_puts(b, "</header>\n<main>\n");
}

void ht_page_end(struct ht_buf *b)
{
	ht_puts(b, "</main>\n</body>\n</html>\n");
}

void ht_page_section(struct ht_buf *b, struct ht_str title, size_t i)
{
	ht_printf(b, "<section id=\"s%zu\" aria-labelledby=\"h%zu\">\n<h2 id=\"h%zu\">", i + 1,
		i + 1, i + 1);
	ht_page_short(b, title, HT_CELL_TEXT);
	ht_puts(b, "</h2>\n");
}

void ht_page_paragraph(struct ht_buf *b, struct ht_str s)
{
	ht_puts(b, "<p>");
	ht_page_text(b, s);
	ht_puts(b, "</p>\n");
}

void ht_page_fold(struct ht_buf *b, struct ht_str title, bool folded)
{
	ht_printf(b, "<details%s>\n<summary><h3>", folded ? "" : " open");
	ht_page_short(b, title, HT_CELL_NAME);
	ht_puts(b, "</h3></summary>\n");
}

void ht_page_fold_end(struct ht_buf *b)
{
	ht_puts(b, "</details>\n");
}

static void put_bar(struct ht_buf *b, double share)
{
	ht_puts(b,
		"<svg class=\"share\" viewBox=\"0 0 60 10\" aria-hidden=\"true\"><rect class=\"whole\" "
		"width=\"60\" height=\"10\"/><rect class=\"part\" height=\"10\" width=\"");
	ht_put_fixed(b, 60 * share, 1);
	ht_puts(b, "\"/></svg>");
}

void ht_page_branch(struct ht_buf *b, struct ht_str name, struct ht_str says, double share,
	bool within, size_t id)
{
	ht_puts(b, within ? "<details class=\"branch\"" : "<p class=\"branch\"");
	if (id)
		ht_printf(b, " id=\"m%zu\"", id);
	ht_puts(b, within ? ">\n<summary>" : ">");
	put_bar(b, share);
	ht_puts(b, " <strong>");
	ht_page_short(b, name, HT_CELL_NAME);
	ht_puts(b, "</strong> ");
	ht_page_text(b, says);
	ht_puts(b, within ? "</summary>\n" : "</p>\n");
}

void ht_page_branch_end(struct ht_buf *b)
{
	ht_puts(b, "</details>\n");
}

void ht_page_section_end(struct ht_buf *b)
{
	ht_puts(b, "</section>\n");
}
