/* Runs a model or artefact in several contexts at once, each on a thread of its own, and writes the
 * results to standard output: for the first context all outputs of the first run, of the second
 * run, …, then those of the next context.
 *
 *     draw FILE CONTEXTS THREADS GUARD RUNS SEED,SEED,… [OPTION=VALUE …]
 *
 * THREADS: threads of each context.  GUARD: 0, 1 (behind) or 2 (before).  Each context sets each
 * SEED and then makes so many RUNS; a SEED of "-" keeps the context's seed.  The seed of context i
 * is SEED + i.  Options are those of a policy.  Runs that fail give zeros and are counted on
 * standard error. */
#include <halftone/halftone.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
	const struct ht_program *program;
	int number, threads, guard, runs;
	const char *seeds;
	char *bytes; /* results of all runs */
	size_t n, failed;
	enum ht_status status;
};

static int die(const char *what, struct ht_diags *d)
{
	struct ht_bytes line;

	fprintf(stderr, "draw: %s\n", what);
	for (size_t i = 0; i < ht_diags_count(d); i++)
		if (ht_diags_line(d, i, &line) == HT_OK)
			fprintf(stderr, "%s\n", line.p);
	return 1;
}

static size_t run_bytes(const struct ht_program *p)
{
	struct ht_value_info v;
	size_t n = 0;

	for (size_t i = 0; ht_program_output(p, i, &v); i++)
		n += v.bytes;
	return n;
}

static void run_once(struct job *j, struct ht_context *c)
{
	size_t outs = ht_program_outputs(j->program);
	struct ht_array *out = calloc(outs + 1, sizeof *out);
	struct ht_value_info v;

	for (size_t i = 0; ht_program_output(j->program, i, &v); i++) {
		out[i] = (struct ht_array){ j->bytes + j->n, v.bytes, v.dtype, v.rank, v.dim };
		j->n += v.bytes;
	}
	j->failed += ht_context_run(c, NULL, 0, out, outs, NULL) != HT_OK;
	free(out);
}

static void *work(void *arg)
{
	struct job *j = arg;
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	struct ht_context *c;

	opt.threads = j->threads;
	opt.guard = (enum ht_guard)j->guard;
	j->status = ht_context_new(j->program, &opt, NULL, &c);
	for (const char *s = j->seeds; s && j->status == HT_OK; s = strchr(s, ',')) {
		s += *s == ',';
		if (*s != '-')
			ht_context_set_seed(c, strtoull(s, NULL, 10) + (uint64_t)j->number);
		for (int i = 0; i < j->runs; i++)
			run_once(j, c);
	}
	ht_context_free(c);
	return NULL;
}

static size_t count_seeds(const char *s)
{
	size_t n = 1;

	for (; *s; s++)
		n += *s == ',';
	return n;
}

static int run_all(const struct ht_program *p, char **argv)
{
	int contexts = atoi(argv[2]), failed = 0;
	struct job *job = calloc((size_t)contexts, sizeof *job);
	pthread_t *thread = calloc((size_t)contexts, sizeof *thread);

	for (int i = 0; i < contexts; i++) {
		job[i] = (struct job){ p, i, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), argv[6],
			NULL, 0, 0, HT_OK };
		job[i].bytes =
			calloc(run_bytes(p) * (size_t)job[i].runs * count_seeds(argv[6]) + 1, 1);
		if (pthread_create(&thread[i], NULL, work, &job[i]))
			abort();
	}
	for (int i = 0; i < contexts; i++) {
		pthread_join(thread[i], NULL);
		failed |= job[i].status != HT_OK;
		fwrite(job[i].bytes, 1, job[i].n, stdout);
		if (job[i].failed)
			fprintf(stderr, "context %d: %zu runs failed\n", i, job[i].failed);
		free(job[i].bytes);
	}
	free(job);
	free(thread);
	return failed;
}

static enum ht_status compile(
	const char *path, char **option, struct ht_diags *d, struct ht_program **p)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_policy *policy;
	struct ht_model *m = NULL;
	enum ht_status st = ht_policy_new(NULL, d, &policy);

	for (; st == HT_OK && *option; option++) {
		char *equals = strchr(*option, '=');

		*equals = 0;
		st = ht_policy_set(policy, *option, equals + 1, d);
	}
	if (st == HT_OK)
		st = ht_model_load(path, NULL, d, &m);
	opt.policy = policy;
	if (st == HT_OK)
		st = ht_compile(m, &opt, d, p);
	ht_model_free(m);
	ht_policy_free(policy);
	return st;
}

int main(int argc, char **argv)
{
	struct ht_diags *d = ht_diags_new();
	struct ht_program *p = NULL;
	enum ht_status st;
	int failed;

	if (argc < 7)
		return die("too few arguments", d);
	st = ht_is_artefact(argv[1]) ? ht_program_load(argv[1], NULL, d, &p)
				     : compile(argv[1], argv + 7, d, &p);
	if (st != HT_OK)
		return die("no program", d);
	failed = run_all(p, argv);
	ht_program_free(p);
	ht_diags_free(d);
	return failed;
}
