/* A user's program; consumer.cc is the same in C++.  consumer VERSION GRAPH: checks the library's
 * version, then compiles and runs a graph of one float32 input and one output, so the code
 * generator must be found in the installed tree. */
#include <halftone/halftone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ht_array memory_for(const struct ht_value_info *v)
{
	struct ht_array a;
	size_t n = ht_dtype_bytes(v->dtype);
	int i;

	for (i = 0; i < v->rank; i++)
		n *= (size_t)v->dim[i];
	a.data = calloc(1, n);
	a.bytes = n;
	a.dtype = v->dtype;
	a.rank = v->rank;
	a.dim = v->dim;
	return a;
}

static enum ht_status run(const struct ht_program *p, struct ht_diags *d)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_context *c;
	struct ht_value_info in, out;
	struct ht_array x, y;
	enum ht_status st = ht_context_new(p, &opt, d, &c);

	if (st != HT_OK)
		return st;
	if (!ht_program_input(p, 0, &in) || !ht_program_output(p, 0, &out))
		return HT_E_INTERNAL;
	x = memory_for(&in);
	y = memory_for(&out);
	st = ht_context_run(c, &x, 1, &y, 1, d);
	free(x.data);
	free(y.data);
	ht_context_free(c);
	return st;
}

static enum ht_status compile_and_run(const char *path, struct ht_diags *d)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_model *model;
	struct ht_program *program;
	enum ht_status st = ht_model_load(path, NULL, d, &model);

	if (st != HT_OK)
		return st;
	st = ht_compile(model, &opt, d, &program);
	ht_model_free(model);
	if (st != HT_OK)
		return st;
	st = run(program, d);
	ht_program_free(program);
	return st;
}

int main(int argc, char **argv)
{
	struct ht_diags *diags = ht_diags_new();
	enum ht_status st;
	struct ht_bytes line;
	size_t i;

	if (!diags || argc != 3 || strcmp(ht_version(), argv[1]) != 0) {
		fprintf(stderr, "this is version %s\n", ht_version());
		return 1;
	}
	st = compile_and_run(argv[2], diags);
	for (i = 0; i < ht_diags_count(diags); i++)
		if (ht_diags_line(diags, i, &line) == HT_OK) {
			fprintf(stderr, "%s\n", line.p);
			ht_bytes_free(&line);
		}
	ht_diags_free(diags);
	return st == HT_OK ? 0 : 1;
}
