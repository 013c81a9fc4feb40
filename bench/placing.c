/* placing [N]: what a run costs whose sizes differ from those of the run before.  The program has about N temporary buffers (300) that are in use
 * together and whose bytes depend on one open size, so the run evaluates sizes, places all buffers and binds the arguments of all steps.  Prints the least
 * microseconds of a run with the sizes of the run before and of one with others, of the same work in all. */
#include <halftone/halftone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 4, MOST = 64, RUNS = 20000 };

struct length {
	int64_t dim[3];
	struct ht_array in, out;
};

/* Each of the N results is read at the end. */
static void write_model(const char *path, int n)
{
	FILE *f = fopen(path, "w");

	if (!f)
		exit(1);
	fprintf(f, "hir 1\nentry \"\" {\n  input \"x\" = %%x\n  output \"y\" = %%s%d\n}\n", n - 1);
	fprintf(f, "%%x = Placeholder() {dtype=f32, shape=shape[1,?,%d]}\n", WIDTH);
	for (int i = 0; i < n; i++)
		fprintf(f,
			i ? "%%a%d = Softmax(%%a%d) {T=f32}\n" : "%%a%d = Softmax(%%x) {T=f32}\n",
			i, i - 1);
	for (int i = 1; i < n; i++)
		fprintf(f, "%%s%d = Add(%%%s%d, %%a%d) {T=f32}\n", i, i > 1 ? "s" : "a", i - 1, i);
	fclose(f);
}

static struct ht_program *compiled(int n)
{
	char path[] = "/tmp/placingXXXXXX.hir";
	int file = mkstemps(path, 4);
	struct ht_program *p = NULL;
	struct ht_model *m = NULL;

	if (file < 0)
		exit(1);
	close(file);
	write_model(path, n);
	if (ht_model_load(path, NULL, NULL, &m) != HT_OK ||
		ht_model_set_open_dimension(m, 1, 1, MOST, NULL) != HT_OK ||
		ht_compile(m, NULL, NULL, &p) != HT_OK)
		exit(1);
	ht_model_free(m);
	remove(path);
	return p;
}

static void make(struct length *l, int64_t n, float *x, float *y)
{
	*l = (struct length){ .dim = { 1, n, WIDTH } };
	l->in = (struct ht_array){ x, (size_t)n * WIDTH * sizeof *x, HT_F32, 3, l->dim };
	l->out = (struct ht_array){ y, (size_t)n * WIDTH * sizeof *y, HT_F32, 3, l->dim };
}

/* Of this thread alone, which does all of the work. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* The least time of a run of the second length behind one of the first. */
static double least(struct ht_context *c, const struct length *a, const struct length *b)
{
	double most = 1e9;

	for (int i = 0; i < RUNS; i++) {
		double begin;

		if (ht_context_run(c, &a->in, 1, &a->out, 1, NULL) != HT_OK)
			exit(1);
		begin = now();
		if (ht_context_run(c, &b->in, 1, &b->out, 1, NULL) != HT_OK)
			exit(1);
		begin = now() - begin;
		most = begin < most ? begin : most;
	}
	return most;
}

int main(int argc, char **argv)
{
	static float x[MOST * WIDTH], y[MOST * WIDTH];
	int n = argc > 1 ? atoi(argv[1]) : 300;
	struct length one, two;
	struct ht_context *c;
	struct ht_program *p;
	double same, other;

	if (n < 2)
		return 2;
	p = compiled(n);
	if (ht_context_new(p, NULL, NULL, &c) != HT_OK)
		return 1;
	make(&one, 1, x, y);
	make(&two, 2, x, y);
	same = least(c, &two, &two);
	other = least(c, &one, &two);
	printf("%d buffers: %.2f us, %.2f us where the size differs: %.2f us\n", n, same, other,
		other - same);
	ht_context_free(c);
	ht_program_free(p);
	return 0;
}
