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
#include "precision/generate/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table lists, map, moves_nothing, keeps, cube, promote, otherwise, kernels;
bool computed, manual, no_bf16;
char training[MAX_NAME], summary[2 * MAX_NAME];
struct column column[MAX_COLUMNS];
size_t columns;

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

/* Reads `name`, on which this table is based, and then continues in the current file. */
static void read_base(void (*read)(const char *name), const char *name, struct table *t)
{
	char outer[sizeof file];
	long at = line;

	snprintf(outer, sizeof outer, "%s", file);
	read(name);
	for (size_t i = 0; i < t->n; i++)
		t->item[i].from_base = true;
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
			read_base(read_lists, other, &lists);
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
			read_base(read_columns, other, &kernels);
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
