/* Makes the C table of TensorFlow's ops: generate_ops DATA-DIRECTORY OUT.c
 *
 * Reads tensorflow.ops, whose head describes its grammar, and grappler.lists.  It checks the
 * data: ops are in order, attributes are declared, lists have the stated counts, no op is on two
 * lists of a mode.  An error names file and line, and leaves no output. */
#include "precision/generate/data.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPS = 2048, MAX_ATTRS = 32 };

struct op {
	char *name;
	char *text; /* behind the name; NULL: only a list names the op */
	long line;
	const char *list[2]; /* fp16, bf16 */
};

static struct op ops[MAX_OPS];
static size_t op_count;

static char *copy(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = malloc(n);

	if (!p)
		die("out of memory");
	memcpy(p, s, n);
	return p;
}

/* ---- reading ---- */

static struct op *add_op(const char *name)
{
	if (op_count == MAX_OPS)
		die("too many ops");
	ops[op_count].name = copy(name);
	return &ops[op_count++];
}

static struct op *find_op(const char *name)
{
	for (size_t i = 0; i < op_count; i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	return add_op(name);
}

static void read_ops(void)
{
	FILE *f = open_data("tensorflow", ".ops");
	char *text;

	while ((text = next_line(f))) {
		size_t n = strcspn(text, " :");
		struct op *op;
		char name[256];
		snprintf(name, sizeof name, "%.*s", (int)n, text);
		if (op_count && strcmp(ops[op_count - 1].name, name) >= 0)
			die("'%s' is not in order", name);
		op = add_op(name);
		op->text = copy(text + n);
		op->line = line;
	}
	fclose(f);
}

static void put_on_list(const char *name, const char *list, const char *modes)
{
	struct op *op = find_op(name);
	bool both = !strcmp(modes, "both");

	for (int mode = 0; mode < 2; mode++) {
		if (!both && strcmp(modes, mode ? "bf16" : "fp16"))
			continue;
		if (op->list[mode])
			die("'%s' is on two lists", name);
		op->list[mode] = list;
	}
}

static const char *list_constant(const char *name)
{
	static const char *const names[] = { "allow", "infer", "deny", "clear" };
	static const char *const constants[] = { "HT_LIST_ALLOW", "HT_LIST_INFER", "HT_LIST_DENY",
		"HT_LIST_CLEAR" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i]))
			return constants[i];
	die("there is no list '%s'", name);
	return NULL;
}

static void end_section(size_t stated, size_t found)
{
	if (stated != found)
		die("the list has %zu ops, its head says %zu", found, stated);
}

static void read_lists(void)
{
	FILE *f = open_data("grappler", ".lists");
	const char *list = NULL;
	char modes[8] = "", class[16], *text, *save;
	size_t stated = 0, found = 0;

	while ((text = next_line(f))) {
		if (*text == '[') {
			end_section(stated, found);
			if (sscanf(text, "[%15s %7s %zu]", class, modes, &stated) != 3)
				die("a head is [LIST MODES COUNT]");
			list = list_constant(class);
			found = 0;
			continue;
		}
		for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
			if (!list)
				die("'%s' stands outside the lists", w);
			put_on_list(w, list, modes);
			found++;
		}
	}
	end_section(stated, found);
	fclose(f);
}

/* ---- printing one op ---- */

struct attrs {
	char name[MAX_ATTRS][64];
	int n;
};

static const char *dtype(const char *name)
{
	static char text[64];
	size_t n = (size_t)snprintf(text, sizeof text, "HT_%s", name);

	if (n <= 3 || n >= sizeof text ||
		strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") != n - 3)
		die("'%s' is no dtype", name);
	for (char *p = text; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return text;
}

static int attr_named(const struct attrs *a, const char *name)
{
	for (int i = 0; i < a->n; i++)
		if (!strcmp(a->name[i], name))
			return i;
	return -1;
}

/* Splits attributes at spaces, except those within braces: "T...{f16 bf16}=f32". */
static char *next_attr(char **p)
{
	char *start = *p + strspn(*p, " "), *end = strchr(start, '}');

	if (!*start)
		return NULL;
	if (!end)
		die("'%s' has no low types", start);
	end += strcspn(end, " ");
	*p = *end ? end + 1 : end;
	*end = 0;
	return start;
}

static void print_attr(FILE *f, struct attrs *a, char *text)
{
	char *set = strchr(text, '{'), *fallback = strrchr(text, '=');
	size_t n = strcspn(text, ".{");
	bool list = text[n] == '.';

	if (a->n == MAX_ATTRS || n >= sizeof *a->name)
		die("'%s' is too much", text);
	snprintf(a->name[a->n++], sizeof *a->name, "%.*s", (int)n, text);
	fprintf(f, "\t{ \"%.*s\", %s, %s, %s, %s },\n", (int)n, text, list ? "true" : "false",
		strstr(set, "{f16") ? "true" : "false", strstr(set, "bf16") ? "true" : "false",
		fallback ? dtype(fallback + 1) : "HT_INVALID");
}

static void print_arg(FILE *f, const struct attrs *a, char *text, bool result)
{
	char *name = NULL, *number = NULL, *star, *end = text + strlen(text), *fallback = NULL;
	bool ref = end > text && end[-1] == '&';
	int attr;

	if (ref)
		end[-1] = 0;
	if (result) {
		name = text;
		text += strcspn(text, ":");
		if (!*text)
			die("result '%s' has no type", name);
		*text++ = 0;
	}
	star = strchr(text, '*');
	if (star) {
		*star = 0;
		number = text;
		fallback = strchr(number, '=');
		if (fallback)
			*fallback++ = 0;
		text = star + 1;
	}
	text[strcspn(text, ".")] = 0;
	attr = attr_named(a, text);
	fprintf(f, "\t{ %s%s%s, %s%s%s, %s, %d, %s, %s },\n", name ? "\"" : "",
		name ? name : "NULL", name ? "\"" : "", number ? "\"" : "",
		number ? number : "NULL", number ? "\"" : "", fallback ? fallback : "-1", attr,
		attr < 0 ? dtype(text) : "HT_INVALID", ref ? "true" : "false");
}

static void print_need(FILE *f, const struct attrs *a, char *text)
{
	char *values = strchr(text, ':'), *save;
	int attr;

	if (!values)
		die("a kernel's need is ATTRIBUTE:VALUES");
	*values++ = 0;
	attr = attr_named(a, text);
	if (attr < 0) {
		fprintf(f, "\t{ -1, 0, \"%s\", \"%s\" },\n", text, values);
		return;
	}
	fprintf(f, "\t{ %d, 0", attr);
	for (char *t = strtok_r(values, "|", &save); t; t = strtok_r(NULL, "|", &save))
		fprintf(f, " | UINT64_C(1) << %s", dtype(t));
	fprintf(f, ", NULL, NULL },\n");
}

/* A table that is being made. */
struct table {
	FILE *f;
	char *text;
	size_t bytes;
};

/* Separate tables, so that the rows of each op are next to each other. */
struct tables {
	struct table attr, arg, need, kernel, op;
	size_t attrs, args, needs, kernels;
};

static size_t print_args(struct tables *t, const struct attrs *a, char *text, bool result)
{
	char *save;
	size_t n = 0;

	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save), n++)
		print_arg(t->arg.f, a, w, result);
	return n;
}

static void print_kernel(struct tables *t, const struct attrs *a, char *text)
{
	char *needs = strchr(text, '('), *end = strrchr(text, ')'), *save;
	size_t n = 0;

	if (!needs || !end)
		die("'%s' is no kernel", text);
	*needs++ = *end = 0;
	for (char *w = strtok_r(needs, ",", &save); w; w = strtok_r(NULL, ",", &save), n++)
		print_need(t->need.f, a, w);
	fprintf(t->kernel.f, "\t{ %s, %zu, needs + %zu },\n",
		!strcmp(text, "cpu")   ? "HT_TF_CPU"
		: !strcmp(text, "gpu") ? "HT_TF_GPU"
				       : "HT_TF_CPU | HT_TF_GPU",
		n, t->needs);
	t->needs += n;
}

/* Cuts off the part before `stop`; *p moves behind it. */
static char *part(char **p, const char *stop)
{
	char *start = *p, *end = strstr(start, stop);

	if (end) {
		*end = 0;
		*p = end + strlen(stop);
	} else {
		*p += strlen(start);
	}
	return start;
}

static void print_op(struct tables *t, struct op *op)
{
	char *text = op->text, *flags = part(&text, ":"), *args = part(&text, "->"),
	     *results = part(&text, ";"), *attrs = part(&text, ";"), *save;
	struct attrs a = { .n = 0 };
	size_t kernels = 0, in, out;

	line = op->line;
	for (char *w; (w = next_attr(&attrs));)
		print_attr(t->attr.f, &a, w);
	in = print_args(t, &a, args, false);
	out = print_args(t, &a, results, true);
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save), kernels++)
		print_kernel(t, &a, w);
	fprintf(t->op.f,
		"args + %zu, args + %zu, attrs + %zu, kernels + %zu, %zu, %zu, %d, %zu, true, %s, %s",
		t->args, t->args + in, t->attrs, t->kernels, in, out, a.n, kernels,
		strchr(flags, 's') ? "true" : "false", strchr(flags, 'f') ? "true" : "false");
	t->args += in + out;
	t->attrs += (size_t)a.n;
	t->kernels += kernels;
}

static void print_row(struct tables *t, struct op *op)
{
	fprintf(t->op.f, "\t{ \"%s\", ", op->name);
	if (op->text)
		print_op(t, op);
	else
		fprintf(t->op.f, "NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, false, false");
	for (int mode = 0; mode < 2; mode++)
		fprintf(t->op.f, ", %s", op->list[mode] ? op->list[mode] : "HT_LIST_NONE");
	fprintf(t->op.f, " },\n");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct op *)a)->name, ((const struct op *)b)->name);
}

static void open_table(struct table *t)
{
	t->f = open_memstream(&t->text, &t->bytes);
	if (!t->f)
		die("out of memory");
}

static void append(FILE *to, struct table *t, const char *declaration)
{
	if (fclose(t->f))
		die("out of memory");
	fprintf(to, "%s[] = {\n%s};\n\n", declaration, t->text);
	free(t->text);
}

static void print_tables(FILE *f)
{
	struct tables t = { .attrs = 0 };

	open_table(&t.attr);
	open_table(&t.arg);
	open_table(&t.need);
	open_table(&t.kernel);
	open_table(&t.op);
	qsort(ops, op_count, sizeof *ops, by_name);
	for (size_t i = 0; i < op_count; i++)
		print_row(&t, &ops[i]);
	fprintf(f, "/* Made by precision/generate/ops.c from precision/data. */\n"
		   "#include \"precision/grappler/tensorflow_ops.h\"\n\n");
	append(f, &t.attr, "static const struct ht_tf_attr attrs");
	append(f, &t.arg, "static const struct ht_tf_arg args");
	append(f, &t.need, "static const struct ht_tf_need needs");
	append(f, &t.kernel, "static const struct ht_tf_kernel kernels");
	append(f, &t.op, "const struct ht_tf_op ht_tf_ops");
	fprintf(f, "const size_t ht_tf_op_count = HT_COUNT(ht_tf_ops);\n"
		   "_Static_assert(HT_COUNT(ht_tf_ops) <= HT_TF_MAX_OPS, \"HT_TF_MAX_OPS\");\n");
}

int main(int argc, char **argv)
{
	FILE *f;

	if (argc != 3) {
		fprintf(stderr, "usage: generate_ops DATA-DIRECTORY OUT.c\n");
		return 2;
	}
	directory = argv[1];
	read_ops();
	read_lists();
	f = fopen(argv[2], "w");
	if (!f) {
		perror(argv[2]);
		return 1;
	}
	print_tables(f);
	if (fclose(f)) {
		perror(argv[2]);
		return 1;
	}
	return 0;
}
