/* Output: results go to standard output, everything else to standard error. */
#include "cli/cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli *cli; /* the owner of the messages */
static size_t told;           /* how many of the library's messages were printed */
static size_t ignored;
static char *last; /* the last error that was printed */

void report_begin(const struct cli *c)
{
	cli = c;
}

static bool colours(void)
{
	const char *when = option(cli, OPTION_COLOR, "auto"), *no = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (strcmp(when, "auto") != 0)
		return !strcmp(when, "always");
	return isatty(STDERR_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

/* Prints "error: " or the like, in its colour. */
static void put_severity(enum ht_severity severity)
{
	static const struct {
		const char *word, *colour;
	} of[] = {
		[HT_ERROR] = { "error: ", "\033[1;31m" },
		[HT_WARNING] = { "warning: ", "\033[1;35m" },
		[HT_NOTE] = { "note: ", "\033[1;36m" },
	};

	if (colours())
		fprintf(stderr, "%s%s\033[0m", of[severity].colour, of[severity].word);
	else
		fputs(of[severity].word, stderr);
}

/* If memory runs out, the text of the previous error stays. */
static void keep_error(const char *fmt, va_list ap)
{
	va_list again;
	char *text = NULL;

	va_copy(again, ap);
	if (vasprintf(&text, fmt, again) >= 0) {
		free(last);
		last = text;
	}
	va_end(again);
}

/* Keeps an error of the library, with the place at the beginning of its line. */
static void keep_line(const struct ht_message *m, const char *line)
{
	const char *at = line ? strstr(line + (m->path ? strlen(m->path) : 0), "error: ") : NULL;
	char *text = NULL;
	int n;

	if (m->line && at)
		n = asprintf(&text, "line %ld: %s", m->line, at + strlen("error: "));
	else
		n = asprintf(&text, "%s", at ? at + strlen("error: ") : m->text);
	if (n >= 0) {
		free(last);
		last = text;
	}
}

const char *last_error(void)
{
	print_diags();
	return last ? last : "";
}

static void put_line(enum ht_severity severity, const char *fmt, va_list ap)
{
	print_diags();
	fputs("halftone: ", stderr);
	put_severity(severity);
	if (severity == HT_ERROR)
		keep_error(fmt, ap);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

enum ht_status fail(enum ht_status st, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line(HT_ERROR, fmt, ap);
	va_end(ap);
	return st;
}

void note(const struct cli *c, const char *fmt, ...)
{
	va_list ap;

	if (option_on(c, OPTION_QUIET))
		return;
	va_start(ap, fmt);
	put_line(HT_NOTE, fmt, ap);
	va_end(ap);
}

void warn(const struct cli *c, const char *fmt, ...)
{
	va_list ap;

	if (option_on(c, OPTION_QUIET))
		return;
	va_start(ap, fmt);
	put_line(HT_WARNING, fmt, ap);
	va_end(ap);
}

enum ht_status refuse(const struct cli *c, const char *fmt, ...)
{
	bool lenient = option_on(c, OPTION_LENIENT);
	va_list ap;

	va_start(ap, fmt);
	put_line(lenient ? HT_WARNING : HT_ERROR, fmt, ap);
	va_end(ap);
	ignored += lenient;
	return lenient ? HT_OK : HT_E_USAGE;
}

size_t ignored_settings(void)
{
	return ignored;
}

/* In the library's line, the severity follows the place. */
static void put_diag(const struct ht_message *m, const struct ht_bytes *line)
{
	static const char *const words[] = {
		[HT_ERROR] = "error: ", [HT_WARNING] = "warning: ", [HT_NOTE] = "note: "
	};
	const char *word = words[m->severity];
	const char *at = strstr(line->p + (m->path ? strlen(m->path) : 0), word);

	if (!m->path)
		fputs("halftone: ", stderr);
	if (!at)
		at = line->p + line->n;
	fwrite(line->p, 1, (size_t)(at - line->p), stderr);
	if (*at) {
		put_severity(m->severity);
		fputs(at + strlen(word), stderr);
	}
	fputc('\n', stderr);
}

static void print_message(const struct ht_diags *d, size_t i)
{
	struct ht_message m;
	struct ht_bytes line;

	ht_diags_get(d, i, &m);
	if (m.severity != HT_ERROR && option_on(cli, OPTION_QUIET))
		return;
	if (ht_diags_line(d, i, &line) == HT_OK)
		put_diag(&m, &line);
	else
		fprintf(stderr, "halftone: %s\n", m.text);
	if (m.severity == HT_ERROR)
		keep_line(&m, line.p);
	ht_bytes_free(&line);
}

void print_messages(const struct ht_diags *d)
{
	print_diags();
	for (size_t i = 0; i < ht_diags_count(d); i++)
		print_message(d, i);
}

void print_diags(void)
{
	static size_t dropped;
	size_t n = ht_diags_count(cli->diags), now = ht_diags_dropped(cli->diags);

	for (; told < n; told++)
		print_message(cli->diags, told);
	if (now > dropped)
		fprintf(stderr, "halftone: %zu further messages are not shown\n", now - dropped);
	dropped = now;
}

static enum ht_status print(const char *p, size_t n)
{
	if (fwrite(p, 1, n, stdout) != n || fflush(stdout))
		return fail(HT_E_ENVIRONMENT, "cannot write to standard output");
	return HT_OK;
}

enum ht_status print_bytes(const struct ht_bytes *b)
{
	return print(b->p, b->n);
}

void *must_alloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (!p)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	return p;
}

static void text_put(struct text *t, const char *s, size_t n)
{
	while (t->cap - t->n < n + 1) {
		size_t cap = t->cap ? t->cap * 2 : 4096;
		char *p = realloc(t->p, cap);
		if (!p)
			exit(fail(HT_E_ENVIRONMENT, "out of memory"));
		t->p = p;
		t->cap = cap;
	}
	memcpy(t->p + t->n, s, n);
	t->n += n;
	t->p[t->n] = 0;
}

void text_unnamed(struct text *t, size_t n, size_t named)
{
	if (n > named)
		text_printf(t, " and %zu more", n - named);
}

void text_printf(struct text *t, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n < sizeof line) {
		text_put(t, line, (size_t)n);
		return;
	}
	char *big = must_alloc((size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(big, (size_t)n + 1, fmt, ap);
	va_end(ap);
	text_put(t, big, (size_t)n);
	free(big);
}

void text_json(struct text *t, const char *s)
{
	text_put(t, "\"", 1);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			text_printf(t, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			text_printf(t, "\\u%04x", (unsigned char)*s);
		else
			text_put(t, s, 1);
	}
	text_put(t, "\"", 1);
}

void text_number(struct text *t, double x)
{
	if (isnan(x))
		text_printf(t, "\"nan\"");
	else if (isinf(x))
		text_printf(t, x < 0 ? "\"-inf\"" : "\"inf\"");
	else
		text_printf(t, "%.9g", x);
}

void text_without_effect(struct text *t, const struct ht_program_info *info)
{
	text_printf(t, "\"without_effect\": [");
	for (size_t i = 0; i < info->without_effects; i++)
		text_printf(t, "%s\"%s\"", i ? ", " : "", info->without_effect[i]);
	text_printf(t, "]");
}

enum ht_status text_print(struct text *t)
{
	enum ht_status st = print(t->p ? t->p : "", t->n);

	free(t->p);
	*t = (struct text){ 0 };
	return st;
}

/* The edit distance, for names of up to 63 letters. */
static size_t distance(const char *a, const char *b)
{
	size_t row[64], n = strlen(b);

	if (strlen(a) > 63 || n > 63)
		return 99;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t corner = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = corner + (a[i - 1] != b[j - 1]);
			corner = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

const char *near_name(const char *s, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t least = 3;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(s, names[i]);
		if (d < least) {
			least = d;
			best = names[i];
		}
	}
	return best;
}
