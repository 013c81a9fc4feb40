/* Makes the C tables of the precision profiles from data/: generate DATA-DIRECTORY OUT.c
 *
 *   NAME.lists    "base OTHER", then sections "[white COUNT]", "[black …]", "[gray …]" of op types
 *   NAME.map      lines "TENSORFLOW-TYPE VENDOR-TYPE"
 *   NAME.profile  "lists NAME", "map NAME", "columns computed", "meaning manual",
 *                 "moves-nothing TYPE…", "keeps TYPE.ATTRIBUTE…"
 *
 * The data is checked: counts as stated, no type in two classes, no type mapped twice.  An error
 * names file and line, and leaves no output. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 4096, MAX_NAME = 64, MAX_LINE = 65536 };

struct type {
	char name[MAX_NAME], value[MAX_NAME]; /* value: class, or the vendor's name */
	bool from_base;
};

struct table {
	struct type item[MAX_TYPES];
	size_t n;
};

static struct table lists, map, moves_nothing, keeps;
static bool computed, manual;
static const char *directory;
static char file[512];
static long line;

static void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%ld: error: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static struct type *find(struct table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->item[i].name, name))
			return &t->item[i];
	return NULL;
}

static void add(struct table *t, const char *name, const char *value)
{
	struct type *old = find(t, name);

	if (old && !old->from_base)
		die("'%s' stands here twice", name);
	if (!old) {
		if (t->n == MAX_TYPES || strlen(name) >= MAX_NAME || strlen(value) >= MAX_NAME)
			die("'%s' is too much", name);
		old = &t->item[t->n++];
	}
	snprintf(old->name, MAX_NAME, "%s", name);
	snprintf(old->value, MAX_NAME, "%s", value);
	old->from_base = false;
}

static FILE *open_data(const char *name, const char *suffix)
{
	FILE *f;

	snprintf(file, sizeof file, "%s/%s%s", directory, name, suffix);
	line = 0;
	f = fopen(file, "r");
	if (!f)
		die("cannot read");
	return f;
}

/* The next line with something on it, comments taken off. */
static char *next_line(FILE *f)
{
	static char text[MAX_LINE];

	while (fgets(text, sizeof text, f)) {
		line++;
		text[strcspn(text, "#\n")] = 0;
		if (text[strspn(text, " \t")])
			return text;
	}
	return NULL;
}

static const char *word(char **p)
{
	char *w = strtok_r(NULL, " \t", p);

	if (!w)
		die("a word is missing");
	return w;
}

static void read_lists(const char *name);

static void read_base(const char *name)
{
	char outer[sizeof file];
	long at = line;

	snprintf(outer, sizeof outer, "%s", file);
	read_lists(name);
	for (size_t i = 0; i < lists.n; i++)
		lists.item[i].from_base = true;
	snprintf(file, sizeof file, "%s", outer);
	line = at;
}

static void end_section(const char *class, size_t stated, size_t found)
{
	if (*class && stated != found)
		die("section %s has %zu types, its head says %zu", class, found, stated);
}

static void read_lists(const char *name)
{
	FILE *f = open_data(name, ".lists");
	char class[16] = "";
	size_t stated = 0, found = 0;
	char *text, *save;

	while ((text = next_line(f))) {
		char *w = strtok_r(text, " \t", &save);
		if (!strcmp(w, "base")) {
			char other[MAX_NAME];
			snprintf(other, sizeof other, "%s", word(&save));
			read_base(other);
			continue;
		}
		if (*w == '[') {
			end_section(class, stated, found);
			snprintf(class, sizeof class, "%s", w + 1);
			stated = strtoul(word(&save), NULL, 10);
			found = 0;
			if (strcmp(class, "white") && strcmp(class, "black") &&
				strcmp(class, "gray"))
				die("there is no class '%s'", class);
			continue;
		}
		for (; w; w = strtok_r(NULL, " \t", &save), found++) {
			if (!*class)
				die("'%s' stands outside the sections", w);
			add(&lists, w, class);
		}
	}
	end_section(class, stated, found);
	fclose(f);
}

static void read_map(const char *name)
{
	FILE *f = open_data(name, ".map");
	char *text, *save;

	while ((text = next_line(f))) {
		char *from = strtok_r(text, " \t", &save);
		add(&map, from, word(&save));
	}
	fclose(f);
}

static void read_profile(const char *name)
{
	FILE *f = open_data(name, ".profile");
	char own[sizeof file], *text, *save;

	snprintf(own, sizeof own, "%s", file);
	while ((text = next_line(f))) {
		long at = line;
		char *key = strtok_r(text, " \t", &save), value[MAX_NAME];
		struct table *list = !strcmp(key, "moves-nothing") ? &moves_nothing
				     : !strcmp(key, "keeps")       ? &keeps
								   : NULL;
		if (list) {
			for (char *w; (w = strtok_r(NULL, " \t", &save));)
				add(list, w, "");
			continue;
		}
		snprintf(value, sizeof value, "%s", word(&save));
		if (!strcmp(key, "lists"))
			read_lists(value);
		else if (!strcmp(key, "map"))
			read_map(value);
		else if (!strcmp(key, "columns") && !strcmp(value, "computed"))
			computed = true;
		else if (!strcmp(key, "meaning") && !strcmp(value, "manual"))
			manual = true;
		else
			die("'%s %s' means nothing here", key, value);
		snprintf(file, sizeof file, "%s", own);
		line = at;
	}
	fclose(f);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct type *)a)->name, ((const struct type *)b)->name);
}

static const char *class_constant(const char *class)
{
	return *class == 'w'   ? "HT_CLASS_WHITE"
	       : *class == 'b' ? "HT_CLASS_BLACK"
			       : "HT_CLASS_GRAY";
}

static void print_names(FILE *f, const char *name, struct table *t)
{
	qsort(t->item, t->n, sizeof *t->item, by_name);
	fprintf(f, "static const char *const %s[] = {\n", name);
	for (size_t i = 0; i < t->n; i++)
		fprintf(f, "\t\"%s\",\n", t->item[i].name);
	fprintf(f, "};\n\n");
}

static void print_tables(FILE *f, const char *profile)
{
	qsort(lists.item, lists.n, sizeof *lists.item, by_name);
	qsort(map.item, map.n, sizeof *map.item, by_name);
	fprintf(f, "/* Made by passes/precision/generate.c from passes/precision/data. */\n"
		   "#include \"passes/precision/precision.h\"\n\n");
	fprintf(f, "static const struct ht_listed listed[] = {\n");
	for (size_t i = 0; i < lists.n; i++)
		fprintf(f, "\t{ \"%s\", %s },\n", lists.item[i].name,
			class_constant(lists.item[i].value));
	fprintf(f, "};\n\nstatic const struct ht_mapped mapped[] = {\n");
	for (size_t i = 0; i < map.n; i++)
		fprintf(f, "\t{ \"%s\", \"%s\" },\n", map.item[i].name, map.item[i].value);
	fprintf(f, "};\n\n");
	print_names(f, "still", &moves_nothing);
	print_names(f, "keeps", &keeps);
	fprintf(f,
		"const struct ht_profile ht_profile_%s = {\n\t.name = \"%s\",\n"
		"\t.listed = listed,\n\t.listeds = %zu,\n\t.mapped = mapped,\n\t.mappeds = %zu,\n"
		"\t.still = still,\n\t.stills = %zu,\n\t.keeps = keeps,\n\t.keepses = %zu,\n"
		"\t.computed_columns = %s,\n\t.manual = %s,\n};\n",
		profile, profile, lists.n, map.n, moves_nothing.n, keeps.n,
		computed ? "true" : "false", manual ? "true" : "false");
}

int main(int argc, char **argv)
{
	FILE *f;

	if (argc != 4) {
		fprintf(stderr, "usage: generate DATA-DIRECTORY PROFILE OUT.c\n");
		return 2;
	}
	directory = argv[1];
	read_profile(argv[2]);
	f = fopen(argv[3], "w");
	if (!f) {
		perror(argv[3]);
		return 1;
	}
	print_tables(f, argv[2]);
	if (fclose(f)) {
		perror(argv[3]);
		return 1;
	}
	return 0;
}
