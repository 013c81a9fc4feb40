/* Prints the tables of a precision profile as C. */
#include "precision/generate/profiles.h"

#include <stdlib.h>
#include <string.h>

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

/* Prints one side of a column: the number of dtypes, and the dtypes.  Returns the bytes that
 * they take in the table. */
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

/* Prints all columns of all types as one array, and where the columns of each type begin. */
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

/* Prints the operands of "Mul:0,1" as a bit set. */
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

void print_tables(FILE *f, const char *profile)
{
	fprintf(f, "/* Made by precision/generate/profiles.c from precision/data. */\n"
		   "#include \"precision/precision.h\"\n\n");
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
