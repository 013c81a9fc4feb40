/* Makes the C tables of other systems' rules from data/: presets DATA-DIRECTORY OUT.c PRESET…
 *
 * A NAME.preset has lines "otherwise CLASS", "constants SMALLEST LARGEST", and sections "[LIST
 * CLASS COUNT]" of lines "THEIR-NAME TENSORFLOW-TYPE…". The generator checks classes and the
 * stated counts, and that no name and no type occurs twice.  An error names file and line, and
 * leaves no output. */
#include "precision/generate/data.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1024, MAX_NAME = 64 };

struct preset_row {
	char type[MAX_NAME], class[MAX_NAME], list[3 * MAX_NAME];
};

static struct preset_row row[MAX_ROWS];
static char their[MAX_ROWS][MAX_NAME];
static size_t rows, theirs;
static char otherwise[MAX_NAME], smallest[MAX_NAME], largest[MAX_NAME];

static struct section {
	char list[MAX_NAME], class[MAX_NAME];
	size_t stated, found;
} section;

static const char *word(char **p)
{
	char *w = strtok_r(NULL, " \t", p);

	if (!w || strlen(w) >= MAX_NAME)
		die("a word is missing, or too long");
	return w;
}

static const char *constant_of(const char *class)
{
	static const char *const classes[][2] = {
		{ "low", "HT_PRESET_LOW" },
		{ "float32", "HT_PRESET_FLOAT32" },
		{ "follow", "HT_PRESET_FOLLOW" },
		{ "widest", "HT_PRESET_WIDEST" },
		{ "first", "HT_PRESET_FIRST" },
		{ "spread", "HT_PRESET_SPREAD" },
		{ "tail", "HT_PRESET_TAIL" },
	};

	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
		if (!strcmp(classes[i][0], class))
			return classes[i][1];
	die("there is no class '%s'", class);
}

static void end_section(void)
{
	if (section.stated != section.found)
		die("list %s has %zu names, its head says %zu", section.list, section.found,
			section.stated);
}

static void begin_section(const char *head, char **rest)
{
	end_section();
	section = (struct section){ 0 };
	snprintf(section.list, MAX_NAME, "%.*s", MAX_NAME - 1, head + 1);
	snprintf(section.class, MAX_NAME, "%s", constant_of(word(rest)));
	section.stated = strtoul(word(rest), NULL, 10);
}

static void add_name(const char *name)
{
	if (!*section.list)
		die("'%s' stands outside the lists", name);
	for (size_t i = 0; i < theirs; i++)
		if (!strcmp(their[i], name))
			die("'%s' stands here twice", name);
	if (theirs == MAX_ROWS || strlen(name) >= MAX_NAME)
		die("'%s' is too much", name);
	snprintf(their[theirs++], MAX_NAME, "%s", name);
	section.found++;
}

static void add_type(const char *type, const char *name)
{
	struct preset_row *r = &row[rows];

	for (size_t i = 0; i < rows; i++)
		if (!strcmp(row[i].type, type))
			die("op type '%s' stands here twice", type);
	if (++rows == MAX_ROWS || strlen(type) >= MAX_NAME)
		die("'%s' is too much", type);
	snprintf(r->type, MAX_NAME, "%s", type);
	snprintf(r->class, MAX_NAME, "%s", section.class);
	snprintf(r->list, sizeof r->list, "%s %s", section.list, name);
}

static void read_preset(const char *name)
{
	FILE *f = open_data(name, ".preset");
	char *text, *save;

	rows = theirs = 0;
	*otherwise = 0;
	section = (struct section){ 0 };
	snprintf(smallest, MAX_NAME, "0");
	snprintf(largest, MAX_NAME, "0");
	while ((text = next_line(f))) {
		char *w = strtok_r(text, " \t", &save), *type;
		if (*w == '[') {
			begin_section(w, &save);
		} else if (!strcmp(w, "otherwise")) {
			snprintf(otherwise, MAX_NAME, "%s", constant_of(word(&save)));
		} else if (!strcmp(w, "constants")) {
			snprintf(smallest, MAX_NAME, "%s", word(&save));
			snprintf(largest, MAX_NAME, "%s", word(&save));
		} else {
			add_name(w);
			while ((type = strtok_r(NULL, " \t", &save)))
				add_type(type, w);
		}
	}
	end_section();
	if (!*otherwise)
		die("'otherwise CLASS' is missing");
	fclose(f);
}

static int by_type(const void *a, const void *b)
{
	return strcmp(((const struct preset_row *)a)->type, ((const struct preset_row *)b)->type);
}

/* The name as a C identifier: '-' becomes '_'. */
static const char *c_name(const char *name)
{
	static char c[MAX_NAME];

	snprintf(c, sizeof c, "%s", name);
	for (char *p = c; *p; p++)
		*p = (char)(*p == '-' ? '_' : *p);
	return c;
}

static void print_preset(FILE *f, const char *name)
{
	qsort(row, rows, sizeof *row, by_type);
	fprintf(f, "static const struct ht_preset_row %s_rows[] = {\n", c_name(name));
	for (size_t i = 0; i < rows; i++)
		fprintf(f, "\t{ \"%s\", %s, \"%s\" },\n", row[i].type, row[i].class, row[i].list);
	fprintf(f,
		"};\nconst struct ht_preset ht_preset_%s = {\n\t.row = %s_rows,\n\t.rows = %zu,\n"
		"\t.otherwise = %s,\n\t.smallest = %s,\n\t.largest = %s,\n};\n\n",
		c_name(name), c_name(name), rows, otherwise, smallest, largest);
}

int main(int argc, char **argv)
{
	char *text;
	size_t n;
	FILE *f;

	if (argc < 4) {
		fprintf(stderr, "usage: presets DATA-DIRECTORY OUT.c PRESET...\n");
		return 2;
	}
	directory = argv[1];
	f = open_memstream(&text, &n);
	if (!f) {
		perror("presets");
		return 1;
	}
	fprintf(f, "/* Made by precision/generate/presets.c from precision/data. */\n"
		   "#include \"precision/presets/preset.h\"\n\n");
	for (int i = 3; i < argc; i++) {
		read_preset(argv[i]);
		print_preset(f, argv[i]);
	}
	fclose(f);
	f = fopen(argv[2], "w");
	if (!f || fwrite(text, 1, n, f) != n || fclose(f)) {
		perror(argv[2]);
		return 1;
	}
	free(text);
	return 0;
}
