/* Compares precision policies on the bundled digit classifier: what each one did, how fast it is,
 * how far its outputs are from float32's, and how many digits it still reads.
 *
 * usage: digits MODEL SAMPLES.npz [POLICY...] */
#include <halftone/halftone.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zip.h>

#define CLASSES 10
#define ROUNDS 20 /* timed runs of every sample */

struct samples {
	size_t count;
	uint8_t *image; /* 28 x 28 pixels each */
	int64_t *label;
};

struct row {
	struct ht_program_info about;
	float *logits; /* CLASSES of each sample */
	double microseconds;
};

/* The elements of an array in an npz file: what follows its header, of which the length is in
 * bytes 8 and 9.  NULL when there is none; *n are the bytes. */
static void *read_member(zip_t *archive, const char *name, size_t *n)
{
	zip_stat_t stat;
	zip_file_t *file = NULL;
	unsigned char *all = NULL;
	size_t header = 0;

	*n = 0;
	if (zip_stat(archive, name, 0, &stat) == 0 && stat.size >= 10)
		file = zip_fopen(archive, name, 0);
	if (file)
		all = malloc((size_t)stat.size);
	if (all && zip_fread(file, all, stat.size) == (zip_int64_t)stat.size)
		header = 10u + all[8] + 256u * all[9];
	if (file)
		zip_fclose(file);
	if (!header || header > stat.size) {
		free(all);
		return NULL;
	}
	*n = (size_t)stat.size - header;
	memmove(all, all + header, *n);
	return all;
}

static int read_samples(const char *path, struct samples *s)
{
	zip_t *archive = zip_open(path, ZIP_RDONLY, NULL);
	size_t pixels = 0, labels = 0;

	if (archive) {
		s->image = read_member(archive, "image.npy", &pixels);
		s->label = read_member(archive, "label.npy", &labels);
		zip_discard(archive);
	}
	s->count = labels / sizeof *s->label;
	if (s->count && pixels == s->count * 28 * 28)
		return 1;
	fprintf(stderr, "%s does not hold digits\n", path);
	return 0;
}

static double seconds(void)
{
	struct timespec t;

	timespec_get(&t, TIME_UTC);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Runs every sample ROUNDS times; the latency is the median of all. */
static enum ht_status run_samples(
	struct ht_context *c, const struct samples *s, struct row *r, struct ht_diags *d)
{
	static const int64_t in_dim[] = { 1, 28, 28, 1 }, out_dim[] = { 1, CLASSES };
	double *time = calloc(s->count * ROUNDS, sizeof *time);
	enum ht_status st = time ? HT_OK : HT_E_ENVIRONMENT;

	for (size_t k = 0; st == HT_OK && k < s->count * ROUNDS; k++) {
		const size_t i = k % s->count;
		const struct ht_array in = { s->image + i * 28 * 28, 28 * 28, HT_U8, 4, in_dim };
		const struct ht_array out = { r->logits + i * CLASSES, CLASSES * sizeof(float),
			HT_F32, 2, out_dim };
		const double start = seconds();
		st = ht_context_run(c, &in, 1, &out, 1, d);
		time[k] = seconds() - start;
	}
	if (st == HT_OK) {
		qsort(time, s->count * ROUNDS, sizeof *time, ascending);
		r->microseconds = 1e6 * time[s->count * ROUNDS / 2];
	}
	free(time);
	return st;
}

static enum ht_status measure(const struct ht_model *m, const char *name, const struct samples *s,
	struct row *r, struct ht_diags *d)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_policy *policy = NULL;
	struct ht_program *p = NULL;
	struct ht_context *c = NULL;
	enum ht_status st = ht_policy_new(name, d, &policy);

	opt.policy = policy;
	r->about = (struct ht_program_info)HT_PROGRAM_INFO_INIT;
	r->logits = calloc(s->count * CLASSES, sizeof *r->logits);
	if (st == HT_OK && !r->logits)
		st = HT_E_ENVIRONMENT;
	if (st == HT_OK)
		st = ht_compile(m, &opt, d, &p);
	if (st == HT_OK)
		st = ht_context_new(p, NULL, d, &c);
	if (st == HT_OK)
		st = run_samples(c, s, r, d);
	if (st == HT_OK)
		ht_program_about(p, &r->about);
	ht_context_free(c);
	ht_program_free(p);
	ht_policy_free(policy);
	return st;
}

static double accuracy(const struct samples *s, const struct row *r)
{
	size_t right = 0;

	for (size_t i = 0; i < s->count; i++) {
		const float *logit = r->logits + i * CLASSES;
		int best = 0;
		for (int k = 1; k < CLASSES; k++)
			best = logit[k] > logit[best] ? k : best;
		right += best == s->label[i];
	}
	return 100.0 * (double)right / (double)s->count;
}

/* Largest difference from `full`, relative to its largest value. */
static double error(const struct samples *s, const struct row *r, const struct row *full)
{
	float most = 0, largest = 0;

	for (size_t i = 0; i < s->count * CLASSES; i++) {
		most = fmaxf(most, fabsf(r->logits[i] - full->logits[i]));
		largest = fmaxf(largest, fabsf(full->logits[i]));
	}
	return largest > 0 ? (double)most / (double)largest : 0;
}

static void print_row(
	const char *name, const struct samples *s, const struct row *r, const struct row *full)
{
	printf("%-26s %6zu/%-3zu %5zu %12zu %11.1f %12.1e %9.1f %%\n", name, r->about.low_nodes,
		r->about.float_nodes, r->about.casts, r->about.weight_bytes, r->microseconds,
		error(s, r, full), accuracy(s, r));
	fflush(stdout);
}

static enum ht_status compare(const struct ht_model *m, const struct samples *s,
	const char *const *names, size_t n, struct ht_diags *d)
{
	struct row full, r;
	enum ht_status st = measure(m, names[0], s, &full, d);

	printf("%zu digits, one thread, one digit a run\n\n", s->count);
	printf("%-26s %10s %5s %12s %11s %12s %11s\n", "policy", "low nodes", "casts",
		"weight bytes", "latency, us", "error", "accuracy");
	for (size_t i = 0; st == HT_OK && i < n; i++) {
		if (i)
			st = measure(m, names[i], s, &r, d);
		if (st == HT_OK)
			print_row(names[i], s, i ? &r : &full, &full);
		if (i)
			free(r.logits);
	}
	free(full.logits);
	return st;
}

int main(int argc, char **argv)
{
	static const char *const standard[] = { "must_keep_origin_dtype",
		"allow_mix_precision_bf16", "allow_mix_precision_fp16", "force_fp16" };
	struct ht_diags *d = ht_diags_new();
	struct ht_model *m = NULL;
	struct samples s = { 0 };
	struct ht_bytes line;
	enum ht_status st;

	if (argc < 3) {
		fprintf(stderr, "usage: digits MODEL SAMPLES.npz [POLICY...]\n");
		ht_diags_free(d);
		return HT_E_USAGE;
	}
	st = read_samples(argv[2], &s) ? ht_model_load(argv[1], NULL, d, &m) : HT_E_INPUT;
	if (st == HT_OK)
		st = ht_model_set_batch(m, 1, d);
	if (st == HT_OK && argc > 3)
		st = compare(m, &s, (const char *const *)argv + 3, (size_t)argc - 3, d);
	else if (st == HT_OK)
		st = compare(m, &s, standard, sizeof standard / sizeof *standard, d);
	for (size_t i = 0; ht_diags_line(d, i, &line) == HT_OK; i++) {
		fprintf(stderr, "digits: %s\n", line.p);
		ht_bytes_free(&line);
	}
	free(s.image);
	free(s.label);
	ht_model_free(m);
	ht_diags_free(d);
	return (int)st;
}
