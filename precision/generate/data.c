/* Reads data files, for the generators. */
#include "precision/generate/data.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *directory;
char file[512];
long line;

void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%ld: error: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

FILE *open_data(const char *name, const char *suffix)
{
	FILE *f;

	snprintf(file, sizeof file, "%s/%s%s", directory, name, suffix);
	line = 0;
	f = fopen(file, "r");
	if (!f)
		die("cannot read");
	return f;
}

char *next_line(FILE *f)
{
	static char text[65536];

	while (fgets(text, sizeof text, f)) {
		line++;
		text[strcspn(text, "#\n")] = 0;
		if (text[strspn(text, " \t")])
			return text;
	}
	return NULL;
}
