/* Makes the C tables of a precision profile from data/: generate DATA-DIRECTORY PROFILE OUT.c
 *
 *   NAME.lists    "base OTHER", then sections "[white COUNT]", "[black …]", "[gray …]" of op types
 *   NAME.map      lines "TENSORFLOW-TYPE VENDOR-TYPE"
 *   NAME.columns  "base OTHER", then lines "TYPE COLUMN…" or "+TYPE COLUMN…" (more of them); a column is
 *                 "f16,i32->f16": operands and results, the last of each for all behind it
 *   NAME.profile  "base OTHER", "lists NAME", "map NAME", "columns NAME" or "columns computed",
 *                 "otherwise DTYPE…", "bfloat16 none", "meaning manual", "training MODE",
 *                 "summary TEXT",
 *                 "moves-nothing TYPE…", "keeps TYPE.ATTRIBUTE…", "cube TYPE…",
 *                 "promote TYPE:OPERAND,…"
 *
 * The data is checked: counts as stated, no type in two classes, no type mapped twice, dtypes known.  An error
 * names file and line, and leaves no output. */
#include "passes/precision/generate/data.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 4096, MAX_NAME = 64, MAX_COLUMNS = 16384 };

struct type {
	char name[MAX_NAME], value[MAX_NAME]; /* value: class, or the vendor's name */
	bool from_base;
};

struct table {
	struct type item[MAX_TYPES];
	size_t n;
};

static struct table lists, map, moves_nothing, keeps, cube, promote, otherwise, kernels;
static bool computed, manual, no_bf16;
static char training[MAX_NAME], summary[2 * MAX_NAME];
static struct {
	struct type *of; /* in `kernels` */
	char text[2 * MAX_NAME];
} column[MAX_COLUMNS];
static size_t columns;

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

/* ---- columns ---- */

static void add_column(struct type *of, const char *text)
{
	if (columns == MAX_COLUMNS || strlen(text) >= sizeof column->text || !strstr(text, "->"))
		die("'%s' is no column", text);
	column[columns].of = of;
	snprintf(column[columns++].text, sizeof column->text, "%s", text);
}

static void drop_columns(const struct type *of)
{
	size_t kept = 0;

	for (size_t i = 0; i < columns; i++)
		if (column[i].of != of)
			column[kept++] = column[i];
	columns = kept;
}

static void read_columns(const char *name);

static void read_base_columns(const char *name)
{
	char outer[sizeof file];
	long at = line;

	snprintf(outer, sizeof outer, "%s", file);
	read_columns(name);
	for (size_t i = 0; i < kernels.n; i++)
		kernels.item[i].from_base = true;
	snprintf(file, sizeof file, "%s", outer);
	line = at;
}

static void read_columns(const char *name)
{
	FILE *f = open_data(name, ".columns");
	char *text, *save;

	while ((text = next_line(f))) {
		char *w = strtok_r(text, " \t", &save);
		struct type *of;
		if (!strcmp(w, "base")) {
			char other[MAX_NAME];
			snprintf(other, sizeof other, "%s", word(&save));
			read_base_columns(other);
			continue;
		}
		of = find(&kernels, w + (*w == '+'));
		if (*w == '+' && !of)
			die("'%s' has no columns to add to", w + 1);
		if (*w != '+' && of)
			drop_columns(of);
		add(&kernels, w + (*w == '+'), "");
		of = find(&kernels, w + (*w == '+'));
		while ((w = strtok_r(NULL, " \t", &save)))
			add_column(of, w);
	}
	fclose(f);
}

/* ---- profiles ---- */

static struct table *list_named(const char *key)
{
	static const struct {
		const char *key;
		struct table *list;
	} tables[] = { { "moves-nothing", &moves_nothing }, { "keeps", &keeps }, { "cube", &cube },
		{ "promote", &promote }, { "otherwise", &otherwise } };

	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (!strcmp(tables[i].key, key))
			return tables[i].list;
	return NULL;
}

static void read_profile(const char *name);

static void read_setting(const char *key, const char *value)
{
	if (!strcmp(key, "base"))
		read_profile(value);
	else if (!strcmp(key, "lists"))
		read_lists(value);
	else if (!strcmp(key, "map"))
		read_map(value);
	else if (!strcmp(key, "columns") && !strcmp(value, "computed"))
		computed = true;
	else if (!strcmp(key, "columns"))
		read_columns(value);
	else if (!strcmp(key, "meaning") && !strcmp(value, "manual"))
		manual = true;
	else if (!strcmp(key, "bfloat16") && !strcmp(value, "none"))
		no_bf16 = true;
	else if (!strcmp(key, "training"))
		snprintf(training, sizeof training, "%s", value);
	else
		die("'%s %s' means nothing here", key, value);
}

static void read_profile(const char *name)
{
	FILE *f = open_data(name, ".profile");
	char own[sizeof file], *text, *save;

	snprintf(own, sizeof own, "%s", file);
	while ((text = next_line(f))) {
		long at = line;
		char *key = strtok_r(text, " \t", &save), copy[MAX_NAME], value[MAX_NAME];
		struct table *list = list_named(key);
		if (list) {
			for (char *w; (w = strtok_r(NULL, " \t", &save));)
				add(list, w, "");
			continue;
		}
		if (!strcmp(key, "summary")) {
			snprintf(summary, sizeof summary, "%s", save);
			continue;
		}
		snprintf(value, sizeof value, "%s", word(&save));
		snprintf(copy, sizeof copy, "%s", key);
		read_setting(copy, value);
		snprintf(file, sizeof file, "%s", own);
		line = at;
	}
	fclose(f);
}

static const char *dtype_constant(const char *tag)
{
	static const char *const names[][2] = { { "f32", "HT_F32" }, { "f16", "HT_F16" },
		{ "bf16", "HT_BF16" }, { "i32", "HT_I32" }, { "i64", "HT_I64" }, { "i8", "HT_I8" },
		{ "u8", "HT_U8" }, { "bool", "HT_BOOL" } };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(names[i][0], tag))
			return names[i][1];
	die("there is no dtype '%s'", tag);
	return NULL;
}

/* One side of a column: how many dtypes, and these.  Returns the bytes printed for. */
static size_t print_side(FILE *f, char *side)
{
	char *save, *of[32];
	size_t n = 0;

	for (char *w = strtok_r(side, ",", &save); w && n < 32; w = strtok_r(NULL, ",", &save))
		of[n++] = w;
	fprintf(f, "%zu, ", n);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s, ", dtype_constant(of[i]));
	return n + 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct type *)a)->name, ((const struct type *)b)->name);
}

static int by_named(const void *a, const void *b)
{
	return by_name(*(struct type *const *)a, *(struct type *const *)b);
}

/* All columns of all types in one array, and of each type where its own begin. */
static void print_kernels(FILE *f)
{
	static struct type *order[MAX_TYPES];
	static size_t at[MAX_TYPES + 1];
	size_t count[MAX_TYPES] = { 0 };

	if (kernels.n)
		fprintf(f, "static const uint8_t kernel_columns[] = {\n");
	for (size_t i = 0; i < kernels.n; i++)
		order[i] = &kernels.item[i];
	qsort(order, kernels.n, sizeof *order, by_named);
	for (size_t i = 0; i < kernels.n; i++) {
		at[i + 1] = at[i];
		for (size_t j = 0; j < columns; j++) {
			char *arrow = strstr(column[j].text, "->");
			if (column[j].of != order[i])
				continue;
			*arrow = 0;
			fprintf(f, "\t");
			at[i + 1] += print_side(f, column[j].text);
			at[i + 1] += print_side(f, arrow + 2);
			fprintf(f, "\n");
			count[i]++;
		}
	}
	fprintf(f, "%sstatic const struct ht_kernel_row kernels[] = {\n",
		kernels.n ? "\t0\n};\n\n" : "");
	for (size_t i = 0; i < kernels.n; i++)
		fprintf(f, "\t{ \"%s\", kernel_columns + %zu, %zu },\n", order[i]->name, at[i],
			count[i]);
	fprintf(f, "\t{ 0 },\n};\n\n");
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
	fprintf(f, "\tNULL,\n};\n\n");
}

static void print_classes(FILE *f)
{
	qsort(lists.item, lists.n, sizeof *lists.item, by_name);
	fprintf(f, "static const struct ht_listed listed[] = {\n");
	for (size_t i = 0; i < lists.n; i++)
		fprintf(f, "\t{ \"%s\", %s },\n", lists.item[i].name,
			class_constant(lists.item[i].value));
	fprintf(f, "};\n\n");
}

static void print_map(FILE *f)
{
	qsort(map.item, map.n, sizeof *map.item, by_name);
	fprintf(f, "static const struct ht_mapped mapped[] = {\n");
	for (size_t i = 0; i < map.n; i++)
		fprintf(f, "\t{ \"%s\", \"%s\" },\n", map.item[i].name, map.item[i].value);
	fprintf(f, "};\n\n");
}

/* "Mul:0,1": the operands as a bit set. */
static void print_promote(FILE *f)
{
	qsort(promote.item, promote.n, sizeof *promote.item, by_name);
	fprintf(f, "static const struct ht_promote promotes[] = {\n");
	for (size_t i = 0; i < promote.n; i++) {
		char *name = promote.item[i].name, *colon = strchr(name, ':');
		unsigned set = 0;
		if (!colon)
			die("'%s' names no operands", name);
		*colon = 0;
		for (char *p = colon; p; p = strchr(p + 1, ','))
			set |= 1u << strtoul(p + 1, NULL, 10);
		fprintf(f, "\t{ \"%s\", %u },\n", name, set);
	}
	fprintf(f, "\t{ 0 },\n};\n\n");
}

static void print_otherwise(FILE *f)
{
	fprintf(f, "static const uint8_t otherwise[] = { ");
	for (size_t i = 0; i < otherwise.n; i++)
		fprintf(f, "%s, ", dtype_constant(otherwise.item[i].name));
	fprintf(f, "HT_INVALID };\n\n");
}

static void print_tables(FILE *f, const char *profile)
{
	fprintf(f,
		"/* Made by passes/precision/generate/profiles.c from passes/precision/data. */\n"
		"#include \"passes/precision/precision.h\"\n\n");
	print_classes(f);
	print_map(f);
	print_names(f, "still", &moves_nothing);
	print_names(f, "keeps", &keeps);
	print_names(f, "cube", &cube);
	print_promote(f);
	print_otherwise(f);
	print_kernels(f);
	fprintf(f,
		"const struct ht_profile ht_profile_%s = {\n\t.name = \"%s\",\n"
		"\t.summary = \"%s\",\n"
		"\t.listed = listed,\n\t.listeds = %zu,\n\t.mapped = mapped,\n\t.mappeds = %zu,\n"
		"\t.still = still,\n\t.stills = %zu,\n\t.keeps = keeps,\n\t.keepses = %zu,\n"
		"\t.cube = cube,\n\t.cubes = %zu,\n\t.promote = promotes,\n"
		"\t.kernel = kernels,\n\t.kernels = %zu,\n\t.otherwise = otherwise,\n"
		"\t.computed_columns = %s,\n\t.manual = %s,\n\t.bf16 = %s,\n\t.training = \"%s\",\n};\n",
		profile, profile, summary, lists.n, map.n, moves_nothing.n, keeps.n, cube.n,
		kernels.n, computed ? "true" : "false", manual ? "true" : "false",
		no_bf16 ? "false" : "true", training);
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
