/* halftone bench: latency of a run, from warm inputs to finished outputs; and memory. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The most runs whose times are kept. */
enum { MOST = 1 << 20 };

struct samples {
	int64_t *ns;
	size_t n;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* How many runs to measure, for how long, and in how many contexts at once. */
struct effort {
	long long warmup, runs, contexts;
	double seconds;
};

/* The work of one context, and its results. */
struct measuring {
	const struct effort *e;
	struct samples m;
};

static enum ht_status effort(const struct cli *c, struct effort *e)
{
	const char *text = option(c, OPTION_DURATION, "2");
	char *stop;
	enum ht_status st = option_number(c, OPTION_WARMUP, 3, 0, 1000000, &e->warmup);

	e->seconds = strtod(text, &stop);
	if (stop != text && !strcmp(stop, "s"))
		stop++;
	if (*stop || stop == text || !(e->seconds >= 0) || e->seconds > 86400)
		return fail(HT_E_USAGE, "--duration: '%s' is no number of seconds", text);
	if (st == HT_OK)
		st = option_number(c, OPTION_RUNS, 20, 1, MOST, &e->runs);
	if (st == HT_OK)
		st = option_number(c, OPTION_CONTEXTS, 1, 1, 1024, &e->contexts);
	return st;
}

static enum ht_status measure_one(struct cli *c, struct session *s, void *arg)
{
	struct measuring *measuring = arg;
	const struct effort *e = measuring->e;
	struct samples *out = &measuring->m;
	int64_t start;
	enum ht_status st = HT_OK;

	for (long long i = 0; i < e->warmup && st == HT_OK; i++)
		st = session_run(c, s);
	if (st == HT_OK)
		st = profile_begin(c, s->context);
	if (st != HT_OK)
		return st;
	out->ns = must_alloc(MOST * sizeof *out->ns);
	start = now_ns();
	while (st == HT_OK && out->n < MOST &&
		(out->n < (size_t)e->runs || (double)(now_ns() - start) < e->seconds * 1e9)) {
		int64_t before = now_ns();
		st = session_run(c, s);
		out->ns[out->n++] = now_ns() - before;
	}
	return st;
}

/* Applies graph_max_parallel_model_num. */
static enum ht_status bound_contexts(const struct cli *c, struct session *s)
{
	const char *most = setting_value(c, "graph_max_parallel_model_num");

	return most ? ht_program_run_at_most(s->program, atoi(most), c->diags) : HT_OK;
}

/* The runs of all contexts, in one list. */
static void gather(struct measuring *of, size_t n, struct samples *out)
{
	size_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += of[i].m.n;
	out->ns = must_alloc((all + 1) * sizeof *out->ns);
	for (size_t i = 0; i < n; i++) {
		memcpy(out->ns + out->n, of[i].m.ns, of[i].m.n * sizeof *out->ns);
		out->n += of[i].m.n;
		free(of[i].m.ns);
	}
	qsort(out->ns, out->n, sizeof *out->ns, by_time);
}

static enum ht_status measure(
	struct cli *c, struct session *s, const struct effort *e, struct samples *out)
{
	size_t n = (size_t)e->contexts;
	struct measuring *of;
	enum ht_status st = bound_contexts(c, s);

	if (n > 1 && (profile_wanted(c) || option_on(c, OPTION_STEPS) || s->dump))
		return fail(HT_E_USAGE,
			"--contexts: profiles, steps and dumps are of a single context");
	of = must_alloc(n * sizeof *of);
	for (size_t i = 0; i < n; i++)
		of[i] = (struct measuring){ .e = e };
	if (st == HT_OK)
		st = crowd_run(c, s, n, measure_one, of, sizeof *of);
	if (st == HT_OK)
		gather(of, n, out);
	else
		for (size_t i = 0; i < n; i++)
			free(of[i].m.ns);
	free(of);
	return st;
}

/* The smallest sample that `share` of them do not exceed, in milliseconds. */
static double quantile(const struct samples *s, double share)
{
	double at = share * (double)s->n;
	size_t i = (size_t)at;

	if (i > 0 && (double)i == at)
		i--;
	if (i >= s->n)
		i = s->n - 1;
	return (double)s->ns[i] / 1e6;
}

static size_t peak_rss(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	size_t kb = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %zu", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

static int longer_first(const void *a, const void *b)
{
	int64_t x = ((const struct ht_step_time *)a)->ns, y = ((const struct ht_step_time *)b)->ns;

	return (x < y) - (x > y);
}

static enum ht_status put_steps(struct cli *c, struct session *s, struct text *t, bool json)
{
	size_t n;
	struct ht_step_time *step;
	enum ht_status st;

	ht_context_profile(s->context, 1);
	st = session_run(c, s);
	if (st != HT_OK)
		return st;
	n = ht_context_steps(s->context, NULL, 0);
	step = must_alloc(n * sizeof *step);
	ht_context_steps(s->context, step, n);
	qsort(step, n, sizeof *step, longer_first);
	if (json)
		text_printf(t, ",\n \"steps_ms\": [");
	for (size_t i = 0; i < n; i++) {
		if (!json) {
			text_printf(t, "  %10.4f ms  %s%s%s\n", (double)step[i].ns / 1e6,
				step[i].node, step[i].method ? "  by " : "",
				step[i].method ? step[i].method : "");
			continue;
		}
		text_printf(t, i ? ",\n  [" : "\n  [");
		text_json(t, step[i].node);
		text_printf(t, ", %.6g", (double)step[i].ns / 1e6);
		if (step[i].method) {
			text_printf(t, ", ");
			text_json(t, step[i].method);
		}
		text_printf(t, "]");
	}
	if (json)
		text_printf(t, "]");
	free(step);
	return HT_OK;
}

static void put_json(struct cli *c, const struct ht_program_info *p, const struct samples *m,
	long long threads, long long contexts, long long batch, struct text *t)
{
	text_printf(t, "{\"schema\": \"halftone.bench/1\",\n \"model\": ");
	text_json(t, c->model);
	text_printf(t,
		",\n \"policy\": \"%s\",\n \"target\": \"%s\",\n \"threads\": %lld,\n \"contexts\": %lld,\n \"batch\": %lld,\n ",
		p->policy, p->target, threads, contexts, batch);
	text_without_effect(t, p);
	text_printf(t,
		",\n \"latency_ms\": {\"min\": %.6g, \"median\": %.6g, \"p90\": %.6g, \"p99\": %.6g, \"runs\": %zu},\n",
		quantile(m, 0), quantile(m, 0.5), quantile(m, 0.9), quantile(m, 0.99), m->n);
	text_printf(t, " \"compile_ms\": {");
	for (size_t i = 0; i < p->phases; i++)
		text_printf(t, "%s\"%s\": %.6g", i ? ", " : "", p->phase[i].name,
			(double)p->phase[i].ns / 1e6);
	text_printf(t,
		"},\n \"weight_bytes\": %zu,\n \"arena_bytes\": %zu,\n \"live_bytes\": %zu,\n"
		" \"code_bytes\": %zu,\n \"steps\": %zu,\n \"kernels\": %zu,\n"
		" \"parts\": %zu,\n \"peak_rss_bytes\": %zu",
		p->weight_bytes, p->arena_bytes, p->live_bytes, p->code_bytes, p->steps, p->kernels,
		p->parts, peak_rss());
}

static void put_text(const struct ht_program_info *p, const struct samples *m, struct text *t)
{
	int64_t total = 0;

	text_printf(t, "latency   min %.4g  median %.4g  p90 %.4g  p99 %.4g ms  (%zu runs)\n",
		quantile(m, 0), quantile(m, 0.5), quantile(m, 0.9), quantile(m, 0.99), m->n);
	text_printf(t, "compile  ");
	for (size_t i = 0; i < p->phases; i++) {
		text_printf(t, " %s %.4g", p->phase[i].name, (double)p->phase[i].ns / 1e6);
		total += p->phase[i].ns;
	}
	text_printf(t, "  total %.4g ms\n", (double)total / 1e6);
	text_printf(t, "memory    weights %zu  arena %zu (%zu live)  code %zu  peak %zu bytes\n",
		p->weight_bytes, p->arena_bytes, p->live_bytes, p->code_bytes, peak_rss());
	text_printf(t, "program   %zu steps  %zu kernels  policy %s  target %s\n", p->steps,
		p->kernels, p->policy, p->target);
	if (p->parts > 1)
		text_printf(t, "batch     %zu parts\n", p->parts);
}

/* Warns if runs differ so much that the mean says little. */
static void warn_spread(const struct cli *c, const struct samples *m)
{
	if (quantile(m, 0.9) > 1.25 * quantile(m, 0.5))
		note(c, "runs differ: the 90th percentile is %.0f%% above the median; is the machine busy?",
			100 * (quantile(m, 0.9) / quantile(m, 0.5) - 1));
}

enum ht_status verb_bench(struct cli *c)
{
	struct ht_program_info info = HT_PROGRAM_INFO_INIT;
	struct samples m = { 0 };
	struct session s = { 0 };
	struct text t = { 0 };
	enum ht_format format;
	struct effort e;
	long long threads, batch;
	enum ht_status st = option_json(c, &format), profiled = HT_OK;

	if (st == HT_OK)
		st = option_number(c, OPTION_THREADS, 1, 1, 1024, &threads);
	if (st == HT_OK)
		st = option_number(c, OPTION_BATCH, 1, 1, 1 << 20, &batch);
	if (st == HT_OK)
		st = effort(c, &e);
	if (st == HT_OK)
		st = session_open(c, &s);
	if (st == HT_OK)
		st = measure(c, &s, &e, &m);
	if (st == HT_OK) {
		ht_program_about(s.program, &info);
		if (c->fed_batch)
			batch = c->fed_batch;
		if (format == HT_FORMAT_JSON) {
			put_json(c, &info, &m, threads, e.contexts, batch, &t);
			text_seed(&t, &s);
		} else {
			put_text(&info, &m, &t);
			if (e.contexts > 1)
				text_printf(&t, "contexts  %lld at once\n", e.contexts);
		}
		profiled = profile_end(c, &(struct profiled){ NULL, s.context }, 1, &t, format);
		if (option_on(c, OPTION_STEPS))
			st = put_steps(c, &s, &t, format == HT_FORMAT_JSON);
		text_printf(&t, format == HT_FORMAT_JSON ? "}\n" : "");
		warn_spread(c, &m);
	}
	if (st == HT_OK)
		st = text_print(&t);
	if (st == HT_OK)
		st = profiled;
	if (st == HT_OK)
		st = dump_end(s.dump);
	free(m.ns);
	session_close(&s);
	return st;
}
