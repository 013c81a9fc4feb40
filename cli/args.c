/* @FILE on the command line is replaced by the words in FILE. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The largest file of arguments, far above anything written by hand. */
#define MAX_BYTES (1 << 20)

static enum ht_status cannot_read(const char *path, const char *why)
{
	return fail(HT_E_ENVIRONMENT, "@%s: cannot read: %s", path, why);
}

static enum ht_status read_text(const char *path, char **out)
{
	struct stat s;
	size_t n = 0;
	FILE *f;

	*out = NULL;
	if (stat(path, &s))
		return cannot_read(path, strerror(errno));
	if (!S_ISREG(s.st_mode))
		return cannot_read(path, "not a regular file");
	if (s.st_size > MAX_BYTES)
		return fail(HT_E_LIMIT, "@%s: a file of arguments has at most %d bytes", path,
			MAX_BYTES);
	f = fopen(path, "rb");
	if (!f)
		return cannot_read(path, strerror(errno));
	*out = must_alloc((size_t)s.st_size + 1);
	n = fread(*out, 1, (size_t)s.st_size, f);
	fclose(f);
	if (memchr(*out, 0, n))
		return fail(HT_E_INPUT, "@%s: byte %zu: a NUL in a file of arguments", path,
			strlen(*out));
	return HT_OK;
}

static char *skip_blanks(char *p, int *line)
{
	for (;; p++) {
		if (*p == '#')
			p += strcspn(p, "\n");
		if (*p == '\n')
			++*line;
		if (!*p || !strchr(" \t\r\n", *p))
			return p;
	}
}

/* Unquotes a word in place; NULL if a quote has no end. */
static char *take_word(char **at, int *line)
{
	char *p = *at, *word = p, *to = p;
	char quote = 0;

	for (; *p && (quote || !strchr(" \t\r\n", *p)); p++) {
		*line += *p == '\n';
		if (quote ? *p == quote : *p == '\'' || *p == '"')
			quote = quote ? 0 : *p;
		else if (*p == '\\' && quote != '\'' && p[1])
			*to++ = *++p;
		else
			*to++ = *p;
	}
	*line += *p == '\n';
	*at = p + (*p != 0);
	*to = 0;
	return quote ? NULL : word;
}

enum ht_status args_of_file(const char *path, struct args *out)
{
	enum ht_status st = read_text(path, &out->text);
	char *p = out->text;
	int line = 1;

	out->word = NULL;
	out->n = 0;
	if (st != HT_OK)
		return st;
	/* Words are separated, so there are at most half as many as bytes. */
	out->word = must_alloc((strlen(p) / 2 + 1) * sizeof *out->word);
	while (*(p = skip_blanks(p, &line))) {
		int first = line;
		char *word = take_word(&p, &line);
		if (!word)
			return fail(HT_E_USAGE, "@%s:%d: a quotation mark has no end", path, first);
		out->word[out->n++] = word;
	}
	return HT_OK;
}

void args_free(struct args *a)
{
	free(a->word);
	free(a->text);
}

void args_print_word(const char *s)
{
	putchar('\'');
	for (; *s; s++) {
		if (*s == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*s);
	}
	putchar('\'');
}
