/* entries FILE.htx N [BLOCK]: the cost of changing between two precisions of the entry "step".  Prints the
 * least time of a step of N of each precision alone and alternately, the least time of blocks of BLOCK steps (100) of each precision in
 * turns, as phases of a training are, and the number of bytes by which the heap grew.  Inputs are ones; integer inputs are zeros. */
#include <halftone/runtime.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16 };

struct arrays {
	struct ht_array in[MOST], out[MOST];
	size_t ins, outs;
};

static struct ht_array array(const struct ht_value_info *v)
{
	struct ht_array a = { calloc(1, v->bytes + 1), v->bytes, v->dtype, v->rank, v->dim };

	for (size_t i = 0; v->dtype == HT_F32 && i < v->bytes / 4; i++)
		((float *)a.data)[i] = 1;
	return a;
}

static struct arrays arrays_of(const struct ht_program *p)
{
	struct arrays a = { .ins = ht_program_inputs(p), .outs = ht_program_outputs(p) };
	struct ht_value_info v;

	for (size_t i = 0; i < a.ins && i < MOST && ht_program_input(p, i, &v); i++)
		a.in[i] = array(&v);
	for (size_t i = 0; i < a.outs && i < MOST && ht_program_output(p, i, &v); i++)
		a.out[i] = array(&v);
	return a;
}

/* Processor time of this thread, which does all the work. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void steps(struct ht_session *s, const char *name, const struct arrays *x, int n)
{
	for (int i = 0; i < n; i++)
		if (ht_session_run(s, name, x->in, x->ins, x->out, x->outs, NULL) != HT_OK)
			exit(1);
}

/* The least time of `n` pairs of blocks of steps, one of each name. */
static double pairs(struct ht_session *s, const char *a, const char *b, const struct arrays *x,
	int n, int block)
{
	double least = 1e9;

	for (int i = 0; i < n; i++) {
		double begin = now(), took;

		steps(s, a, x, block);
		steps(s, b, x, block);
		took = now() - begin;
		least = took < least ? took : least;
	}
	return least;
}

int main(int argc, char **argv)
{
	static const char *const policy[] = { "must_keep_origin_dtype",
		"allow_mix_precision_bf16" };
	struct ht_artefact_options o = HT_ARTEFACT_OPTIONS_INIT;
	int n = argc > 2 ? atoi(argv[2]) : 0, block = argc > 3 ? atoi(argv[3]) : 100;
	double alone[2] = { 0 }, alone_blocks = 0, turns, blocks;
	struct ht_session *s;
	struct ht_program *p;
	struct arrays x;
	size_t heap;

	if (n < 1 || block < 1 || ht_session_new(NULL, NULL, &s) != HT_OK)
		return 2;
	o.entry = "step";
	for (int i = 0; i < 2; i++) {
		o.policy = policy[i];
		if (ht_program_load(argv[1], &o, NULL, &p) != HT_OK ||
			ht_session_take(s, policy[i], p, NULL) != HT_OK)
			return 3;
	}
	x = arrays_of(ht_session_program(s, policy[0]));
	pairs(s, policy[0], policy[1], &x, 3, 1);
	heap = mallinfo2().uordblks;
	for (int i = 0; i < 2; i++) {
		alone[i] = pairs(s, policy[i], policy[i], &x, n, 1) / 2;
		alone_blocks += pairs(s, policy[i], policy[i], &x, 4, block) / 2;
	}
	turns = pairs(s, policy[0], policy[1], &x, n, 1);
	blocks = pairs(s, policy[0], policy[1], &x, 8, block);
	printf("%s %.1f us, %s %.1f us, in turns %.1f us each: %.4f of their mean; %zu bytes allocated\n",
		policy[0], 1e6 * alone[0], policy[1], 1e6 * alone[1], 1e6 * turns / 2,
		turns / (alone[0] + alone[1]), mallinfo2().uordblks - heap);
	printf("in blocks of %d steps: %.4f of blocks of one precision\n", block,
		blocks / alone_blocks);
	ht_session_free(s);
	return 0;
}
