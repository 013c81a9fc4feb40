/* A program that only runs compiled programs; runtime.cc is the same in C++.  runtime FILE.htx N:
 * runs the program on N threads, each with a context of its own, and once more in a forked child;
 * all results must have the same bytes. */
#include <halftone/runtime.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
	const struct ht_program *program;
	struct ht_context *context; /* NULL: the thread makes its own */
	struct ht_value_info out;
	void *data;
	enum ht_status status;
};

static void fill(void *p, size_t n)
{
	float *f = (float *)p;
	size_t i;

	for (i = 0; i < n / sizeof *f; i++)
		f[i] = (float)i * 0.25f - 1;
}

static enum ht_status run_once(struct job *j, struct ht_context *c)
{
	size_t i, ins = ht_program_inputs(j->program), outs = ht_program_outputs(j->program);
	struct ht_array *in = (struct ht_array *)calloc(ins + outs, sizeof *in), *out = in + ins;
	struct ht_value_info v;
	enum ht_status st;

	for (i = 0; i < ins + outs; i++) {
		if (i < ins)
			ht_program_input(j->program, i, &v);
		else
			ht_program_output(j->program, i - ins, &v);
		in[i].data = calloc(1, v.bytes);
		in[i].bytes = v.bytes;
		in[i].dtype = v.dtype;
		in[i].rank = v.rank;
		in[i].dim = v.dim;
		if (i < ins)
			fill(in[i].data, v.bytes);
	}
	st = ht_context_run(c, in, ins, out, outs, NULL);
	memcpy(j->data, out[0].data, j->out.bytes);
	for (i = 0; i < ins + outs; i++)
		free(in[i].data);
	free(in);
	return st;
}

static void *work(void *arg)
{
	struct job *j = (struct job *)arg;
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_context *c = j->context;

	opt.threads = 2;
	j->status = c ? HT_OK : ht_context_new(j->program, &opt, NULL, &c);
	if (j->status == HT_OK)
		j->status = run_once(j, c);
	if (!j->context)
		ht_context_free(c);
	return NULL;
}

static int same(const struct job *a, const struct job *b)
{
	return a->status == HT_OK && b->status == HT_OK && !memcmp(a->data, b->data, a->out.bytes);
}

/* A context that was used before the fork has no threads after it. */
static int same_in_child(struct job *j, const struct job *first)
{
	pid_t child = fork();
	int status = 1;

	if (child == 0) {
		work(j);
		_exit(same(j, first) ? 0 : 1);
	}
	return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_diags *d = ht_diags_new();
	struct ht_program *p = NULL;
	struct job job[64];
	pthread_t thread[64];
	struct ht_bytes line;
	int n = argc == 3 ? atoi(argv[2]) : 0, i, good;

	if (n < 1 || n > 63)
		return 2;
	if (ht_program_load(argv[1], NULL, d, &p) != HT_OK) {
		ht_diags_line(d, 0, &line);
		fprintf(stderr, "%s\n", line.p);
		ht_bytes_free(&line);
		ht_diags_free(d);
		return 3;
	}
	memset(job, 0, sizeof job);
	opt.threads = 2;
	for (i = 0; i <= n; i++) {
		job[i].program = p;
		ht_program_output(p, 0, &job[i].out);
		job[i].data = calloc(1, job[i].out.bytes);
	}
	if (ht_context_new(p, &opt, d, &job[0].context) != HT_OK)
		return 4;
	job[n].context = job[0].context;
	work(&job[0]);
	for (i = 1; i < n; i++)
		pthread_create(&thread[i], NULL, work, &job[i]);
	for (i = 1; i < n; i++)
		pthread_join(thread[i], NULL);
	good = job[0].status == HT_OK && same_in_child(&job[n], &job[0]);
	for (i = 1; i < n; i++)
		good = good && same(&job[i], &job[0]);
	for (i = 0; i <= n; i++)
		free(job[i].data);
	ht_context_free(job[0].context);
	ht_program_free(p);
	ht_diags_free(d);
	return good ? 0 : 1;
}
