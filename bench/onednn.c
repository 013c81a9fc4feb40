/* Single contractions by oneDNN on one thread; bench/micro builds it against PyPI's onednn-devel.
 *
 * Reads a problem on each line, and prints a line for each: microseconds of the fastest and the
 * median run, and the implementation that oneDNN chose; "-" if it has none.
 *
 *   matmul TYPE BATCH M N K
 *   conv TYPE IMAGES H W IN OUT KH KW OH OW SH SW DH DW PH PW
 *
 * Weights of a single matrix and of convolutions are in the layout that oneDNN chooses, images in
 * NHWC or in the layout that it chooses, whichever is faster.  There is a bias, as for nearly every
 * contraction of a model. */
#include <dnnl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 10000 };

struct result {
	double min, median; /* microseconds; 0: there is no implementation */
	char implementation[64];
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static double seconds = .05;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void check(dnnl_status_t s, const char *what)
{
	if (s == dnnl_success)
		return;
	fprintf(stderr, "onednn: %s fails with %d\n", what, (int)s);
	exit(1);
}

static dnnl_memory_desc_t describe(
	int n, const dnnl_dim_t *dim, dnnl_data_type_t t, dnnl_format_tag_t f)
{
	dnnl_memory_desc_t d;

	check(dnnl_memory_desc_create_with_tag(&d, n, dim, t, f), "memory_desc_create");
	return d;
}

/* Operand `arg` in the layout of the primitive, filled with small numbers that are valid in either
 * type. */
static dnnl_memory_t operand(const_dnnl_primitive_desc_t pd, int arg)
{
	const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
	size_t bytes = dnnl_memory_desc_get_size(d);
	unsigned short *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
	dnnl_memory_t m;

	for (size_t i = 0; p && i < bytes / 2; i++)
		p[i] = (unsigned short)(0x3d00 + (i * 2654435761u >> 24));
	check(dnnl_memory_create(&m, d, engine, p), "memory_create");
	return m;
}

static void give_back(dnnl_memory_t m)
{
	void *p;

	dnnl_memory_get_data_handle(m, &p);
	dnnl_memory_destroy(m);
	free(p);
}

static struct result measure(dnnl_primitive_desc_t pd)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST };
	static double sample[MOST_RUNS];
	struct result r = { 0 };
	dnnl_exec_arg_t args[4];
	dnnl_primitive_t p;
	const char *name = "";
	double start, end;
	int n = 0, used = 0;

	dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
	snprintf(r.implementation, sizeof r.implementation, "%s", name);
	check(dnnl_primitive_create(&p, pd), "primitive_create");
	for (int i = 0; i < 4; i++)
		if (dnnl_memory_desc_get_size(
			    dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg[i])))
			args[used++] = (dnnl_exec_arg_t){ arg[i], operand(pd, arg[i]) };
	for (int i = 0; i < 2; i++)
		check(dnnl_primitive_execute(p, stream, used, args), "execute");
	dnnl_stream_wait(stream);
	end = now() + seconds;
	do {
		start = now();
		dnnl_primitive_execute(p, stream, used, args);
		dnnl_stream_wait(stream);
		sample[n++] = now() - start;
	} while (n < MOST_RUNS && (n < 5 || now() < end));
	qsort(sample, (size_t)n, sizeof *sample, by_value);
	r.min = 1e6 * sample[0];
	r.median = 1e6 * sample[n / 2];
	for (int i = 0; i < used; i++)
		give_back(args[i].memory);
	dnnl_primitive_destroy(p);
	dnnl_primitive_desc_destroy(pd);
	return r;
}

static struct result matmul(dnnl_data_type_t t, const dnnl_dim_t *v)
{
	dnnl_dim_t a[3] = { v[0], v[1], v[3] }, b[3] = { v[0], v[3], v[2] },
		   c[3] = { v[0], v[1], v[2] };
	int skip = v[0] == 1, dims = 3 - skip;
	dnnl_format_tag_t plain = skip ? dnnl_ab : dnnl_abc;
	dnnl_dim_t bias[3] = { 1, 1, v[2] };
	dnnl_primitive_desc_t pd;

	if (dnnl_matmul_primitive_desc_create(&pd, engine, describe(dims, a + skip, t, plain),
		    describe(dims, b + skip, t, skip ? dnnl_format_tag_any : plain),
		    skip ? describe(dims, bias + skip, dnnl_f32, plain) : NULL,
		    describe(dims, c + skip, t, plain), NULL) != dnnl_success)
		return (struct result){ 0 };
	return measure(pd);
}

static struct result conv(dnnl_data_type_t t, const dnnl_dim_t *v, dnnl_format_tag_t images)
{
	dnnl_dim_t in[4] = { v[0], v[3], v[1], v[2] }, out[4] = { v[0], v[4], v[7], v[8] };
	dnnl_dim_t filter[4] = { v[4], v[3], v[5], v[6] }, bias[1] = { v[4] };
	dnnl_dim_t stride[2] = { v[9], v[10] }, dilation[2] = { v[11] - 1, v[12] - 1 };
	dnnl_dim_t before[2] = { v[13], v[14] }, after[2];
	dnnl_primitive_desc_t pd;

	for (int i = 0; i < 2; i++)
		after[i] = (v[7 + i] - 1) * v[9 + i] + (v[5 + i] - 1) * v[11 + i] + 1 - v[1 + i] -
			   before[i];
	if (dnnl_convolution_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference,
		    dnnl_convolution_direct, describe(4, in, t, images),
		    describe(4, filter, t, dnnl_format_tag_any),
		    describe(1, bias, dnnl_f32, dnnl_a), describe(4, out, t, images), stride,
		    dilation, before, after, NULL) != dnnl_success)
		return (struct result){ 0 };
	return measure(pd);
}

static struct result solve(const char *kind, dnnl_data_type_t t, const dnnl_dim_t *v)
{
	struct result a, b;

	if (!strcmp(kind, "matmul"))
		return matmul(t, v);
	a = conv(t, v, dnnl_nhwc);
	b = conv(t, v, dnnl_format_tag_any);
	return !b.min || (a.min && a.min <= b.min) ? a : b;
}

int main(int argc, char **argv)
{
	char line[512], kind[16], type[16];

	if (argc > 1)
		seconds = atof(argv[1]);
	check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine_create");
	check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream_create");
	while (fgets(line, sizeof line, stdin)) {
		dnnl_dim_t v[16] = { 0 };
		int at = 0, more;
		struct result r;

		if (sscanf(line, "%15s %15s%n", kind, type, &at) < 2)
			continue;
		for (int i = 0; i < 16 && sscanf(line + at, "%ld%n", &v[i], &more) == 1; i++)
			at += more;
		r = solve(kind, !strcmp(type, "bf16") ? dnnl_bf16 : dnnl_f32, v);
		if (r.min)
			printf("%.3f %.3f %s\n", r.min, r.median, r.implementation);
		else
			puts("-");
		fflush(stdout);
	}
	return 0;
}
