/* Reads JSON by cJSON, and finds the lines of values. */
#include "precision/json.h"

#include <string.h>

static void delete_tree(void *root)
{
	cJSON_Delete(root);
}

/* The end of the string whose opening quote is at `p`; `end` if nothing closes it. */
static char *behind_string(char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : p;
}

/* Overwrites a comment with blanks, keeping line ends.  Returns its end; NULL: nothing closes
 * it. */
static char *blank_comment(char *p, char *end)
{
	bool line = p[1] == '/';
	char *stop = line ? memchr(p, '\n', (size_t)(end - p))
			  : memmem(p + 2, (size_t)(end - p) - 2, "*/", 2);

	if (!stop && !line)
		return NULL;
	stop = line ? (stop ? stop : end) : stop + 2;
	for (; p < stop; p++)
		if (*p != '\n')
			*p = ' ';
	return stop;
}

/* Overwrites comments outside of strings with blanks, so that line numbers stay.  Returns the
 * start of a comment that nothing closes, or NULL. */
static const char *blank_comments(char *p, char *end)
{
	while (p < end) {
		char *start = p;

		if (*p == '"')
			p = behind_string(p, end);
		else if (*p == '/' && end - p > 1 && (p[1] == '/' || p[1] == '*'))
			p = blank_comment(p, end);
		else
			p++;
		if (!p)
			return start;
	}
	return NULL;
}

static long lines_to(const char *from, const char *to)
{
	long n = 0;

	for (; from < to; from++)
		n += *from == '\n';
	return n;
}

/* How much of a line a message quotes. */
static int quoted(const char *s)
{
	enum { MOST = 60 };
	size_t n = strcspn(s, "\r\n");

	return n < MOST ? (int)n : MOST;
}

/* The first \u0000 in a string, at which cJSON's copy would end; or NULL. */
static const char *escaped_zero(const char *text, const char *end)
{
	static const char zero[] = "\\u0000";
	const char *p = text;

	while ((p = memmem(p, (size_t)(end - p), zero, sizeof zero - 1))) {
		const char *first = p;
		while (first > text && first[-1] == '\\')
			first--;
		if ((p - first) % 2 == 0)
			return p;
		p++;
	}
	return NULL;
}

enum ht_status ht_json_parse(
	struct ht_parse *p, struct ht_str text, bool comments, struct ht_json *out)
{
	char *copy = ht_alloc(p->arena, text.n + 1);
	const char *end = NULL, *open = NULL;

	*out = (struct ht_json){ .parse = p, .text = { copy, text.n }, .line = 1 };
	memcpy(copy, text.p, text.n);
	if (memchr(copy, 0, text.n))
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 0),
			"a zero byte: this is no JSON");
	if (comments)
		open = blank_comments(copy, copy + text.n);
	if (open)
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 1 + lines_to(copy, open)),
			"nothing closes the comment that begins with /* here");
	if (!copy[strspn(copy, " \t\r\n")])
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 0),
			"nothing but blanks and comments; {} is the shortest file");
	out->root = cJSON_ParseWithLengthOpts(copy, text.n + 1, &end, true);
	if (!out->root)
		return ht_error(p->diags, HT_E_INPUT,
			ht_at_line(p->path, 1 + lines_to(copy, end ? end : copy)),
			"no strict JSON here: '%.*s'", end ? quoted(end) : 0, end ? end : "");
	ht_arena_defer(p->arena, delete_tree, out->root);
	open = escaped_zero(copy, copy + text.n);
	if (open)
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 1 + lines_to(copy, open)),
			"a string with a zero character, \\u0000");
	return HT_OK;
}

void ht_json_step(struct ht_json *j)
{
	const char *p = j->text.p, *end = p + j->text.n, *open;

	open = memchr(p, '"', (size_t)(end - p));
	if (!open)
		return;
	j->line += lines_to(p, open);
	for (p = open + 1; p < end && *p != '"'; p++)
		if (*p == '\\')
			p++;
	j->line += lines_to(open, p < end ? p : end);
	p = p < end ? p + 1 : end;
	j->text = (struct ht_str){ p, (size_t)(end - p) };
}

void ht_json_skip(struct ht_json *j, const cJSON *value)
{
	const cJSON *child;

	if (cJSON_IsString(value))
		ht_json_step(j);
	cJSON_ArrayForEach(child, value)
	{
		if (cJSON_IsObject(value))
			ht_json_step(j);
		ht_json_skip(j, child);
	}
}

enum ht_status ht_json_error(struct ht_json *j, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return ht_error(
		j->parse->diags, HT_E_INPUT, ht_at_line(j->parse->path, j->line), "%s", text);
}

const char *ht_json_kind(const cJSON *value)
{
	return cJSON_IsObject(value)   ? "an object"
	       : cJSON_IsArray(value)  ? "an array"
	       : cJSON_IsString(value) ? "a string"
	       : cJSON_IsNumber(value) ? "a number"
	       : cJSON_IsNull(value)   ? "null"
				       : "true or false";
}
