/* Reads text line by line, with a limit, for the files that options name. */
#include "precision/policy.h"

#include <string.h>

/* The vendor's tools silently stop reading at a longer line. */
#define LINE_LIMIT 1024

struct ht_where ht_at_line(const char *path, long line)
{
	struct ht_where at = HT_NOWHERE;

	at.path = path;
	at.line = line;
	return at;
}

bool ht_next_line(struct ht_lines *l, struct ht_diags *d, struct ht_str *line, enum ht_status *st)
{
	const char *end;

	*st = HT_OK;
	if (!l->rest.n)
		return false;
	l->line++;
	end = memchr(l->rest.p, '\n', l->rest.n);
	*line = (struct ht_str){ l->rest.p, end ? (size_t)(end - l->rest.p) : l->rest.n };
	l->rest.p += line->n + (end != NULL);
	l->rest.n -= line->n + (end != NULL);
	if (line->n && line->p[line->n - 1] == '\r')
		line->n--;
	if (line->n >= LINE_LIMIT)
		*st = ht_error(d, HT_E_INPUT, ht_at_line(l->path, l->line),
			"a line of %zu bytes; it may have %d", line->n, LINE_LIMIT - 1);
	else if (memchr(line->p, 0, line->n))
		*st = ht_error(d, HT_E_INPUT, ht_at_line(l->path, l->line),
			"a zero byte: this is no text");
	else
		return true;
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct ht_str ht_trim(struct ht_str s)
{
	while (s.n && is_blank(*s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

enum ht_status ht_each_line(struct ht_parse *p, struct ht_str text,
	enum ht_status (*parse)(void *self, struct ht_str line, long number), void *self)
{
	struct ht_lines lines = { .path = p->path, .rest = text };
	struct ht_str line;
	enum ht_status st;

	while (ht_next_line(&lines, p->diags, &line, &st)) {
		line = ht_trim(line);
		if (line.n && *line.p != '#')
			HT_TRY(parse(self, line, lines.line));
	}
	return st;
}
