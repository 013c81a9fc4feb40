/* Reading JSON by cJSON, and finding lines again. */
#include "passes/precision/json.h"

#include <string.h>

static void delete_tree(void *root)
{
	cJSON_Delete(root);
}

/* Comment lines become blanks, so that places stay. */
static void blank_comments(char *p, size_t n)
{
	for (char *end = p + n; p < end;) {
		char *next = memchr(p, '\n', (size_t)(end - p)), *s = p;
		next = next ? next : end;
		while (s < next && (*s == ' ' || *s == '\t'))
			s++;
		if (next - s >= 2 && s[0] == '/' && s[1] == '/')
			memset(s, ' ', (size_t)(next - s));
		p = next < end ? next + 1 : end;
	}
}

static long lines_to(const char *from, const char *to)
{
	long n = 0;

	for (; from < to; from++)
		n += *from == '\n';
	return n;
}

/* As much of a line as a message may have. */
static int quoted(const char *s)
{
	enum { MOST = 60 };
	size_t n = strcspn(s, "\r\n");

	return n < MOST ? (int)n : MOST;
}

enum ht_status ht_json_parse(
	struct ht_parse *p, struct ht_str text, bool comments, struct ht_json *out)
{
	char *copy = ht_alloc(p->arena, text.n + 1);
	const char *end = NULL;

	*out = (struct ht_json){ .parse = p, .text = { copy, text.n }, .line = 1 };
	memcpy(copy, text.p, text.n);
	if (memchr(copy, 0, text.n))
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 0),
			"a zero byte: this is no JSON");
	if (comments)
		blank_comments(copy, text.n);
	if (!copy[strspn(copy, " \t\r\n")])
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 0),
			"nothing but blanks; {} is the shortest file");
	out->root = cJSON_ParseWithLengthOpts(copy, text.n + 1, &end, true);
	if (!out->root)
		return ht_error(p->diags, HT_E_INPUT,
			ht_at_line(p->path, 1 + lines_to(copy, end ? end : copy)),
			"no strict JSON here: '%.*s'", end ? quoted(end) : 0, end ? end : "");
	ht_arena_defer(p->arena, delete_tree, out->root);
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
