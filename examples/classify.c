/* Runs a model with one input on zeros, in float32 and under a mixed policy, and tells how far the
 * outputs are apart.
 *
 * build: cc classify.c -o classify $(pkg-config --cflags --libs halftone)
 * usage: classify MODEL [POLICY] */
#include <halftone/halftone.h>

#include <stdio.h>
#include <stdlib.h>

/* Prints what the library had to say. */
static void explain(const struct ht_diags *d)
{
	struct ht_bytes line;

	for (size_t i = 0; ht_diags_line(d, i, &line) == HT_OK; i++) {
		fprintf(stderr, "%s\n", line.p);
		ht_bytes_free(&line);
	}
}

/* The arrays of a program's inputs or outputs, zeroed. */
static struct ht_array *make_arrays(const struct ht_program *p, size_t n,
	int (*info)(const struct ht_program *, size_t, struct ht_value_info *))
{
	struct ht_array *a = calloc(n + 1, sizeof *a);

	for (size_t i = 0; a && i < n; i++) {
		struct ht_value_info v;
		info(p, i, &v);
		a[i] = (struct ht_array){ calloc(1, v.bytes + 1), v.bytes, v.dtype, v.rank, v.dim };
	}
	return a;
}

static void free_arrays(struct ht_array *a, size_t n)
{
	for (size_t i = 0; a && i < n; i++)
		free(a[i].data);
	free(a);
}

/* Compiles and runs once; *out are the outputs, to be freed with their program. */
static enum ht_status run(const struct ht_model *m, const struct ht_policy *policy,
	struct ht_diags *d, struct ht_program **p, struct ht_array **out)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_context *c = NULL;
	struct ht_array *in;
	enum ht_status st;

	opt.policy = policy;
	st = ht_compile(m, &opt, d, p);
	if (st == HT_OK)
		st = ht_context_new(*p, NULL, d, &c);
	if (st != HT_OK)
		return st;
	in = make_arrays(*p, ht_program_inputs(*p), ht_program_input);
	*out = make_arrays(*p, ht_program_outputs(*p), ht_program_output);
	st = in && *out
		     ? ht_context_run(c, in, ht_program_inputs(*p), *out, ht_program_outputs(*p), d)
		     : HT_E_ENVIRONMENT;
	free_arrays(in, ht_program_inputs(*p));
	ht_context_free(c);
	return st;
}

static float larger(float a, float b)
{
	return a > b ? a : b;
}

static float magnitude(float a)
{
	return a < 0 ? -a : a;
}

static void compare(const struct ht_program *p, const struct ht_array *a, const struct ht_array *b)
{
	for (size_t i = 0; i < ht_program_outputs(p); i++) {
		struct ht_value_info v;
		float most = 0, largest = 0;
		ht_program_output(p, i, &v);
		if (v.dtype != HT_F32)
			continue;
		for (size_t j = 0; j < v.bytes / 4; j++) {
			const float x = ((const float *)a[i].data)[j],
				    y = ((const float *)b[i].data)[j];
			most = larger(most, magnitude(x - y));
			largest = larger(largest, magnitude(x));
		}
		printf("%s: error %.3g of the largest value\n", v.name,
			most > 0 ? most / largest : 0.0);
	}
}

int main(int argc, char **argv)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_model *m = NULL;
	struct ht_policy *policy = NULL;
	struct ht_program *full = NULL, *low = NULL;
	struct ht_array *a = NULL, *b = NULL;
	enum ht_status st = HT_E_USAGE;

	if (argc < 2) {
		fprintf(stderr, "usage: classify MODEL [POLICY]\n");
		goto done;
	}
	st = ht_policy_new(argc > 2 ? argv[2] : "allow_mix_precision_bf16", d, &policy);
	if (st == HT_OK)
		st = ht_model_load(argv[1], NULL, d, &m);
	if (st == HT_OK)
		st = ht_model_set_batch(m, 1, d);
	if (st == HT_OK)
		st = run(m, NULL, d, &full, &a);
	if (st == HT_OK)
		st = run(m, policy, d, &low, &b);
	if (st == HT_OK)
		compare(full, a, b);
done:
	explain(d);
	free_arrays(a, full ? ht_program_outputs(full) : 0);
	free_arrays(b, low ? ht_program_outputs(low) : 0);
	ht_program_free(full);
	ht_program_free(low);
	ht_model_free(m);
	ht_policy_free(policy);
	ht_diags_free(d);
	return (int)st;
}
