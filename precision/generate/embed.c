/* Makes C source of the shipped cost tables: embed OUT.c DATA/LEVEL@TUNING.costs … */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *path)
{
	perror(path);
	exit(1);
}

/* Writes bytes, not a string literal: compilers need to support only 4095 characters of those. */
static void put_text(FILE *out, int number, const char *path)
{
	FILE *in = fopen(path, "r");
	int c, column = 0;

	if (!in)
		die(path);
	fprintf(out, "static const char text_%d[] = {", number);
	for (; (c = fgetc(in)) != EOF; column++)
		fprintf(out, "%s%d,", column % 24 ? " " : "\n\t", c);
	fputs(" 0\n};\n\n", out);
	fclose(in);
}

static void put_row(FILE *out, int number, const char *path)
{
	const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const char *at = strchr(file, '@'), *end = strstr(file, ".costs");

	if (!at || !end || end < at) {
		fprintf(stderr, "%s: a name of the form LEVEL@TUNING.costs was expected\n", path);
		exit(1);
	}
	fprintf(out, "\t{ \"%.*s\", \"%.*s\", \"%s\", text_%d },\n", (int)(at - file), file,
		(int)(end - at - 1), at + 1, file, number);
}

int main(int argc, char **argv)
{
	FILE *out = argc < 2 ? NULL : fopen(argv[1], "w");

	if (!out)
		die(argc < 2 ? "usage: embed OUT.c TABLE..." : argv[1]);
	fputs("/* Made by precision/generate/embed.c from precision/data. */\n"
	      "#include \"precision/optimal/shipped.h\"\n\n",
		out);
	for (int i = 2; i < argc; i++)
		put_text(out, i, argv[i]);
	fputs("const struct ht_shipped_costs ht_shipped_costs[] = {\n", out);
	for (int i = 2; i < argc; i++)
		put_row(out, i, argv[i]);
	fputs("\t{ 0 },\n};\n", out);
	if (fclose(out))
		die(argv[1]);
	return 0;
}
