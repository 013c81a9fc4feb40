/* For tests/frontend/roundtrip.py: imports models and exports them again.
 *
 *   import_export wire|text|graph|tfjs|frozen|check IN OUT [IN OUT …]
 *
 * wire, text: the message in the format of the file.  graph: the GraphDef alone.  frozen: the
 * GraphDef of the first entry, calls inlined and variables frozen; it prints the names of its
 * inputs and outputs.  tfjs: model.json at OUT, its shard at OUT.bin.  check: OUT is not written.
 * Prints a line for each model: its status, and the time of the import. */
#include "frontend/frontend.h"
#include "passes/passes.h"

#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum ht_status write_file(void *file, const void *p, size_t n)
{
	return fwrite(p, 1, n, file) == n ? HT_OK : HT_E_ENVIRONMENT;
}

static enum ht_status read_variable(void *self, struct ht_str name, struct ht_arena *a,
	struct ht_diags *d, struct ht_tensor **out)
{
	return ht_checkpoint_read(self, name, a, d, out);
}

static void print_ports(const char *what, const struct ht_port *p)
{
	for (; p; p = p->next)
		printf("%s %.*s %.*s:%d\n", what, HT_STR_ARG(p->name),
			HT_STR_ARG(p->value.node->name), (int)p->value.index);
}

static enum ht_status freeze(struct ht_graph *g, struct ht_arena *a, struct ht_diags *d)
{
	struct ht_variable_source source = { read_variable, NULL };
	struct ht_pass_context c = { .diags = d, .entry = g->entries, .verify = true };
	struct ht_checkpoint *checkpoint;

	c.scratch = HT_NEW(a, struct ht_arena);
	ht_arena_init(c.scratch, a->unwind);
	if (g->checkpoint) {
		HT_TRY(ht_checkpoint_open(a, g->checkpoint, NULL, d, &checkpoint));
		ht_checkpoint_follow(checkpoint, g);
		source.self = checkpoint;
		c.variables = &source;
	}
	HT_TRY(ht_run_passes(g, "feeds,prune,inline,freeze,prune,infer,identity,prune", NULL, &c));
	print_ports("input", g->entries->inputs);
	print_ports("output", g->entries->outputs);
	return HT_OK;
}

static enum ht_status export_to(const char *how, const struct ht_graph *g, struct ht_arena *a,
	const char *path, struct ht_diags *d)
{
	enum ht_export_form form = strcmp(how, "text") ? HT_EXPORT_WIRE : HT_EXPORT_TEXT;
	enum ht_status st = HT_E_ENVIRONMENT;
	FILE *file, *shard;
	struct ht_buf json;
	const char *slash;
	struct ht_str name;

	if (!strcmp(how, "check"))
		return HT_OK;
	file = fopen(path, "wb");
	if (!file)
		return HT_E_ENVIRONMENT;
	if (!strcmp(how, "tfjs")) {
		shard = fopen(ht_str_printf(a, "%s.bin", path).p, "wb");
		slash = strrchr(path, '/');
		ht_buf_init(&json, a);
		if (shard) {
			name = ht_str_printf(a, "%s.bin", slash ? slash + 1 : path);
			st = ht_export_tfjs(g, &name, 1, d, &json, write_file, shard);
			fclose(shard);
			if (st == HT_OK)
				st = write_file(file, json.p, json.n);
		}
	} else if (!strcmp(how, "graph") || !strcmp(how, "frozen")) {
		st = ht_export_graphdef_to(g, form, a, d, write_file, file);
	} else {
		st = ht_export_container_to(g, form, a, d, write_file, file);
	}
	fclose(file);
	return st;
}

static void convert(const char *how, const char *in, const char *out)
{
	struct ht_unwind unwind;
	struct ht_arena a;
	struct ht_diags d;
	struct ht_graph *g;
	enum ht_status st;
	struct ht_buf text;
	double start = now(), took;

	ht_diags_init(&d);
	ht_arena_init(&a, &unwind);
	if (setjmp(unwind.env)) {
		printf("%d out of memory\n", HT_E_ENVIRONMENT);
	} else {
		st = ht_import(&a, in, NULL, &d, &g);
		took = now() - start;
		if (st == HT_OK && !strcmp(how, "frozen"))
			st = freeze(g, &a, &d);
		if (st == HT_OK)
			st = export_to(how, g, &a, out, &d);
		ht_buf_init(&text, &a);
		for (const struct ht_diag *x = d.first; x; x = x->next) {
			ht_diag_print(x, &text);
			if (!text.n || text.p[text.n - 1] != '\n')
				ht_putc(&text, '\n');
		}
		if (text.n)
			fwrite(text.p, 1, text.n, stderr);
		if (st == HT_OK)
			printf("0 %.3f ms, %zu nodes\n", took * 1e3, g->nodes);
		else
			printf("%d\n", st);
	}
	fflush(stdout);
	ht_arena_release(&a);
	ht_diags_release(&d);
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc % 2) {
		fprintf(stderr,
			"usage: import_export wire|text|graph|tfjs|frozen|check IN OUT ...\n");
		return 2;
	}
	for (int i = 2; i + 1 < argc; i += 2)
		convert(argv[1], argv[i], argv[i + 1]);
	return 0;
}
