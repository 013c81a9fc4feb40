/* Profiles: a trace of the runs as a file, and tables of where their time went. */
#include "cli/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum ht_status profile_begin(struct cli *c, struct ht_context *context)
{
	enum ht_status st;

	profile_warn(c);
	if (!profile_wanted(c))
		return option_on(c, OPTION_COUNTERS)
			       ? fail(HT_E_USAGE,
					 "--counters goes with --profile-table or profiling_mode")
			       : HT_OK;
	st = ht_context_record(context, profile_events(c), c->diags);
	if (st == HT_OK)
		st = iterations_begin(c, context);
	return st == HT_OK && profile_counts(c) ? ht_context_count(context, 1, c->diags) : st;
}

/* ---- the steps ---- */

struct row {
	const char *name, *what; /* what: a second text; may be NULL */
	uint64_t executions;
	double ns, multiply_adds, bytes, limit_ns; /* of all executions */
};

enum { MOST_COUNTERS = 16 };

struct table {
	const char *name; /* NULL: there is only one */
	const struct ht_context *context;
	struct ht_recording recording;
	struct ht_step_profile *step;
	size_t steps;
	double ns;  /* of all kernels */
	double all; /* of all runs, on all threads */
	struct counter {
		struct ht_counter_info info;
		double *of; /* by step; NULL: the system refuses this counter */
		double all;
	} counter[MOST_COUNTERS];
	size_t counters; /* 0: none were asked for */
};

static void read_counters(const struct ht_context *context, struct table *t)
{
	struct ht_counter_info info;

	for (t->counters = 0;
		t->counters < MOST_COUNTERS && ht_context_counter(context, t->counters, &info);
		t->counters++) {
		struct counter *k = &t->counter[t->counters];

		*k = (struct counter){ .info = info };
		if (info.refused)
			continue;
		k->of = must_alloc((t->steps + 1) * sizeof *k->of);
		ht_context_counts(context, t->counters, k->of, t->steps);
		for (size_t i = 0; i < t->steps; i++)
			k->all += k->of[i];
	}
}

static void free_table(struct table *t)
{
	for (size_t i = 0; i < t->counters; i++)
		free(t->counter[i].of);
	free(t->step);
}

static void read_table(const struct profiled *of, struct table *t)
{
	*t = (struct table){ .name = of->name, .context = of->context };
	ht_context_recording(of->context, &t->recording);
	t->steps = ht_context_step_profiles(of->context, NULL, 0);
	t->step = must_alloc((t->steps + 1) * sizeof *t->step);
	ht_context_step_profiles(of->context, t->step, t->steps);
	for (size_t i = 0; i < t->steps; i++)
		t->ns += (double)t->step[i].ns;
	t->all = (double)t->recording.ns * t->recording.threads;
	read_counters(of->context, t);
}

static void add(struct row *r, const struct ht_step_profile *s)
{
	double n = (double)s->executions;

	r->executions += s->executions;
	r->ns += (double)s->ns;
	r->multiply_adds += n * (double)s->multiply_adds;
	r->bytes += n * (double)s->bytes;
	r->limit_ns += n * (double)s->limit_ps / 1e3;
}

static int longer_first(const void *a, const void *b)
{
	double x = ((const struct row *)a)->ns, y = ((const struct row *)b)->ns;

	return (x < y) - (x > y);
}

/* Sums rows of steps with the same name; `name_of` may write to its second argument. */
typedef const char *name_fn(const struct ht_step_profile *s, char *space, size_t size);

static const char *op_name(const struct ht_step_profile *s, char *space, size_t size)
{
	snprintf(space, size, "%s%s%s", *s->op ? s->op : "?", s->method ? " by " : "",
		s->method ? s->method : "");
	return space;
}

/* The name up to its last '/', at most three parts. */
static const char *scope_name(const struct ht_step_profile *s, char *space, size_t size)
{
	size_t n = 0, end = 0;
	int parts = 0;

	for (; s->node[n] && parts < 3 && n + 1 < size; n++)
		if (s->node[n] == '/') {
			end = n;
			parts++;
		}
	snprintf(space, size, "%.*s", (int)end, s->node);
	return end ? space : "(no scope)";
}

static struct row *row_named(struct row *row, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (!strcmp(row[i].name, name))
			return &row[i];
	row[*n] = (struct row){ .name = strdup(name) };
	if (!row[*n].name)
		exit(fail(HT_E_ENVIRONMENT, "out of memory"));
	return &row[(*n)++];
}

static struct row *rows_by(const struct table *t, name_fn *name_of, size_t *n)
{
	struct row *row = must_alloc((t->steps + 1) * sizeof *row);
	char space[512];

	*n = 0;
	for (size_t i = 0; i < t->steps; i++)
		if (t->step[i].executions)
			add(row_named(row, n, name_of(&t->step[i], space, sizeof space)),
				&t->step[i]);
	qsort(row, *n, sizeof *row, longer_first);
	return row;
}

static void free_rows(struct row *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)row[i].name);
	free(row);
}

static double share(double part, double of)
{
	return of > 0 ? part / of : 0;
}

/* ---- as text ---- */

static void put_row(struct text *out, const struct table *t, const struct row *r)
{
	double runs = (double)t->recording.runs;

	text_printf(out, "%10.4f ms %5.1f%% %8.1f %8.2f %8.2f %6.1f%%  %s%s%s\n",
		share(r->ns, runs) / 1e6, 100 * share(r->ns, t->all),
		share((double)r->executions, runs), share(r->multiply_adds, r->ns),
		share(r->bytes, r->ns), 100 * share(r->limit_ns, r->ns), r->name,
		r->what ? "  " : "", r->what ? r->what : "");
}

static void put_heading(struct text *out, const char *what)
{
	text_printf(out, "%13s %6s %8s %8s %8s %7s  %s\n", "a run", "share", "times", "Gmadd/s",
		"GB/s", "limit", what);
}

/* Adds a row for the time of runs outside of kernels, so that the rows add up to the whole time. */
static void put_rest(struct text *out, const struct table *t)
{
	text_printf(out, "%10.4f ms %5.1f%% %36s%s\n",
		share(t->all - t->ns, (double)t->recording.runs) / 1e6,
		100 * share(t->all - t->ns, t->all), "",
		t->recording.threads > 1 ? "(executor, and threads that wait)" : "(executor)");
}

static void put_rows(
	struct text *out, const struct table *t, const char *what, name_fn *name_of, size_t most)
{
	size_t n;
	struct row *row = rows_by(t, name_of, &n);

	put_heading(out, what);
	for (size_t i = 0; i < n && i < most; i++)
		put_row(out, t, &row[i]);
	if (n > most)
		text_printf(out, "%13s and %zu more\n", "", n - most);
	put_rest(out, t);
	free_rows(row, n);
}

/* Describes a kernel besides its node's name. */
static char *describe(const struct ht_step_profile *s)
{
	struct text t = { 0 };

	text_printf(&t, "%s %s of %s%s%s", *s->op ? s->op : "?", s->result,
		*s->dtypes ? s->dtypes : "?", s->method ? " by " : "", s->method ? s->method : "");
	return t.p;
}

static void put_kernels(struct text *out, const struct table *t, size_t most)
{
	struct row *row = must_alloc((t->steps + 1) * sizeof *row);

	for (size_t i = 0; i < t->steps; i++) {
		row[i].name = t->step[i].node;
		row[i].what = describe(&t->step[i]);
		add(&row[i], &t->step[i]);
	}
	qsort(row, t->steps, sizeof *row, longer_first);
	put_heading(out, "kernel");
	for (size_t i = 0; i < t->steps && i < most && row[i].executions; i++)
		put_row(out, t, &row[i]);
	put_rest(out, t);
	for (size_t i = 0; i < t->steps; i++)
		free((void *)(uintptr_t)row[i].what);
	free(row);
}

/* How the time is divided between kernels near the limit of the roofline and far from it. */
static void put_roofline(struct text *out, const struct table *t)
{
	static const double from[] = { 0.75, 0.5, 0.25, 0 };
	double last = 1e300;

	text_printf(out, "%13s %6s  %s\n", "a run", "share", "part of the limit that is reached");
	for (size_t k = 0; k < sizeof from / sizeof *from; k++) {
		double ns = 0;

		for (size_t i = 0; i < t->steps; i++) {
			struct row r = { 0 };

			add(&r, &t->step[i]);
			if (r.ns > 0 && r.limit_ns / r.ns >= from[k] && r.limit_ns / r.ns < last)
				ns += r.ns;
		}
		text_printf(out, "%10.4f ms %5.1f%%  %s%.0f%%\n",
			share(ns, (double)t->recording.runs) / 1e6, 100 * share(ns, t->all),
			k ? k == 3 ? "below " : "from " : "from ",
			100 * (k == 3 ? from[2] : from[k]));
		last = from[k];
	}
}

enum { TOP = 20 };

static const struct table *sorted; /* for longer_step(), since qsort() passes no argument */

static int longer_step(const void *a, const void *b)
{
	int64_t x = sorted->step[*(const size_t *)a].ns, y = sorted->step[*(const size_t *)b].ns;

	return (x < y) - (x > y);
}

static void put_counters_of(struct text *out, const struct table *t, size_t step)
{
	for (size_t k = 0; k < t->counters; k++)
		if (t->counter[k].of)
			text_printf(out, " %16.6g",
				share(t->counter[k].of[step], (double)t->recording.runs));
	text_printf(out, "  %s\n", t->step[step].node);
}

/* Lists the events that were not counted, and why. */
static void put_refusals(struct text *out, const struct table *t)
{
	for (size_t k = 0; k < t->counters; k++)
		if (t->counter[k].info.refused)
			text_printf(out, "no %s: the system does not count them: %s\n",
				t->counter[k].info.name, t->counter[k].info.refused);
}

/* The counts per run of the kernels that take longest. */
static void put_counters(struct text *out, const struct table *t)
{
	size_t *order = must_alloc((t->steps + 1) * sizeof *order), counted = 0;

	for (size_t i = 0; i < t->steps; i++)
		order[i] = i;
	sorted = t;
	qsort(order, t->steps, sizeof *order, longer_step);
	for (size_t k = 0; k < t->counters; k++)
		if (t->counter[k].of) {
			text_printf(out, " %16s", t->counter[k].info.name);
			counted++;
		}
	text_printf(out, counted ? "  kernel, counts of a run\n" : "");
	for (size_t i = 0; counted && i < t->steps && i < TOP; i++)
		if (t->step[order[i]].executions)
			put_counters_of(out, t, order[i]);
	put_refusals(out, t);
	free(order);
}

static void put_table_text(struct text *out, const struct table *t)
{
	text_printf(out, "profile   %s%s%llu runs, %.4g ms a run; kernels take %.1f%% of %s\n",
		t->name ? t->name : "", t->name ? ": " : "", (unsigned long long)t->recording.runs,
		share((double)t->recording.ns, (double)t->recording.runs) / 1e6,
		100 * share(t->ns, t->all),
		t->recording.threads > 1 ? "the time of all threads" : "it");
	put_kernels(out, t, TOP);
	put_rows(out, t, "op", op_name, TOP);
	put_rows(out, t, "scope", scope_name, TOP);
	put_roofline(out, t);
	iterations_text(out, t->context);
	put_counters(out, t);
}

/* ---- as JSON ---- */

static void put_row_json(struct text *out, const struct row *r)
{
	text_printf(out, "{\"name\": ");
	text_json(out, r->name);
	text_printf(out,
		", \"executions\": %llu, \"ms\": %.6g, \"multiply_adds\": %.0f, \"bytes\": %.0f, \"limit_ms\": %.6g}",
		(unsigned long long)r->executions, r->ns / 1e6, r->multiply_adds, r->bytes,
		r->limit_ns / 1e6);
}

static void put_rows_json(
	struct text *out, const struct table *t, const char *member, name_fn *name_of)
{
	size_t n;
	struct row *row = rows_by(t, name_of, &n);

	text_printf(out, ",\n  \"%s\": [", member);
	for (size_t i = 0; i < n; i++) {
		text_printf(out, i ? ",\n   " : "\n   ");
		put_row_json(out, &row[i]);
	}
	text_printf(out, "]");
	free_rows(row, n);
}

/* Counts of all executions; null: not counted. */
static void put_counts_json(struct text *out, const struct table *t, size_t step)
{
	for (size_t k = 0; k < t->counters; k++) {
		text_printf(out,
			k ? ", \"%s\": " : ", \"counters\": {\"%s\": ", t->counter[k].info.name);
		if (t->counter[k].of)
			text_printf(out, "%.0f", t->counter[k].of[step]);
		else
			text_printf(out, "null");
	}
	text_printf(out, t->counters ? "}" : "");
}

static void put_refused_json(struct text *out, const struct table *t)
{
	size_t n = 0;

	text_printf(out, ",\n  \"not_counted\": {");
	for (size_t k = 0; k < t->counters; k++)
		if (t->counter[k].info.refused) {
			text_printf(out, n++ ? ", \"%s\": " : "\"%s\": ", t->counter[k].info.name);
			text_json(out, t->counter[k].info.refused);
		}
	text_printf(out, "}");
}

static void put_kernel_json(struct text *out, const struct table *t, size_t step)
{
	const struct ht_step_profile *s = &t->step[step];
	const char *const member[] = { "node", "op", "result", "dtypes", "method" };
	const char *const value[] = { s->node, s->op, s->result, s->dtypes, s->method };

	for (size_t i = 0; i < sizeof value / sizeof *value; i++)
		if (value[i]) {
			text_printf(out, i ? ", \"%s\": " : "{\"%s\": ", member[i]);
			text_json(out, value[i]);
		}
	text_printf(out,
		", \"executions\": %llu, \"ms\": %.6g, \"multiply_adds\": %llu, \"bytes\": %llu, \"limit_ms\": %.6g",
		(unsigned long long)s->executions, (double)s->ns / 1e6,
		(unsigned long long)s->multiply_adds, (unsigned long long)s->bytes,
		(double)s->limit_ps / 1e9);
	put_counts_json(out, t, step);
	text_printf(out, "}");
}

static void put_table_json(struct text *out, const struct table *t)
{
	text_printf(out, "{");
	if (t->name)
		text_printf(out, "\"name\": \"%s\", ", t->name);
	text_printf(out,
		"\"runs\": %llu, \"threads\": %d, \"ms\": %.6g, \"kernels_ms\": %.6g, \"executor_ms\": %.6g,\n"
		"  \"kernels\": [",
		(unsigned long long)t->recording.runs, t->recording.threads,
		(double)t->recording.ns / 1e6, t->ns / 1e6, (t->all - t->ns) / 1e6);
	for (size_t i = 0; i < t->steps; i++) {
		text_printf(out, i ? ",\n   " : "\n   ");
		put_kernel_json(out, t, i);
	}
	text_printf(out, "]");
	put_rows_json(out, t, "by_op", op_name);
	put_rows_json(out, t, "by_scope", scope_name);
	iterations_json(out, t->context);
	if (t->counters)
		put_refused_json(out, t);
	text_printf(out, "}");
}

/* ---- files ---- */

static enum ht_status write_trace(
	struct cli *c, const struct profiled *of, size_t n, const char *path)
{
	const struct ht_context **context = must_alloc((n + 1) * sizeof *context);
	const char **name = must_alloc((n + 1) * sizeof *name);
	struct ht_bytes b;
	enum ht_status st;

	for (size_t i = 0; i < n; i++) {
		context[i] = of[i].context;
		name[i] = of[i].name;
	}
	st = ht_contexts_trace(context, name, n, c->diags, &b);
	free(context);
	free(name);
	if (st == HT_OK)
		st = ht_file_write(path, b.p, b.n, c->diags);
	ht_bytes_free(&b);
	return st;
}

static void csv_text(struct text *t, const char *s)
{
	text_printf(t, "\"");
	for (; *s; s++)
		text_printf(t, *s == '"' ? "\"\"" : "%c", *s);
	text_printf(t, "\"");
}

/* A line for each step that ran. */
static enum ht_status write_summary(struct cli *c, const struct table *t, const char *path)
{
	struct text out = { 0 };
	enum ht_status st;

	text_printf(&out,
		"Op Name,OP Type,Output Shapes,Data Types,Method,Count,Total Time(us),Avg Time(us),Ratio(%%),Multiply-Adds,Bytes,Limit(us)");
	for (size_t k = 0; k < t->counters; k++)
		text_printf(&out, ",%s", t->counter[k].info.name);
	text_printf(&out, "\n");
	for (size_t i = 0; i < t->steps; i++) {
		const struct ht_step_profile *s = &t->step[i];
		const char *const text[] = { s->node, s->op, s->result, s->dtypes,
			s->method ? s->method : "" };

		if (!s->executions)
			continue;
		for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
			csv_text(&out, text[k]);
			text_printf(&out, ",");
		}
		text_printf(&out, "%llu,%.3f,%.3f,%.3f,%llu,%llu,%.3f",
			(unsigned long long)s->executions, (double)s->ns / 1e3,
			share((double)s->ns, (double)s->executions) / 1e3,
			100 * share((double)s->ns, t->ns), (unsigned long long)s->multiply_adds,
			(unsigned long long)s->bytes, (double)s->limit_ps / 1e6);
		for (size_t k = 0; k < t->counters; k++)
			if (t->counter[k].of)
				text_printf(&out, ",%.0f", t->counter[k].of[i]);
			else
				text_printf(&out, ",N/A");
		text_printf(&out, "\n");
	}
	st = ht_file_write(path, out.p, out.n, c->diags);
	free(out.p);
	return st;
}

static enum ht_status make_folder(const char *path)
{
	struct stat about;

	if (mkdir(path, 0777) == 0 || (stat(path, &about) == 0 && S_ISDIR(about.st_mode)))
		return HT_OK;
	return fail(HT_E_ENVIRONMENT, "%s: the profile's folder cannot be made", path);
}

/* OUTPUT/PROF_TIME_PROCESS/, with the vendor's file names; with several tables, their names are
 * part of these. */
struct vendor_folder {
	struct text path;
	char stamp[32];
};

static enum ht_status make_vendor_folder(struct cli *c, struct vendor_folder *f)
{
	char *output = vendor_option(c, "output");
	time_t now = time(NULL);
	struct tm tm;
	enum ht_status st;

	localtime_r(&now, &tm);
	strftime(f->stamp, sizeof f->stamp, "%Y%m%d%H%M%S", &tm);
	text_printf(&f->path, "%s", output && *output ? output : ".");
	free(output);
	st = make_folder(f->path.p);
	text_printf(&f->path, "/PROF_%s_%ld", f->stamp, (long)getpid());
	return st == HT_OK ? make_folder(f->path.p) : st;
}

/* FOLDER/WHAT_TIME.ENDING, or FOLDER/WHAT_TIME_NAME.ENDING.  The caller frees it. */
static char *vendor_file(
	const struct vendor_folder *f, const char *what, const char *name, const char *ending)
{
	struct text path = { 0 };

	text_printf(&path, "%s/%s_%s%s%s.%s", f->path.p, what, f->stamp, name ? "_" : "",
		name ? name : "", ending);
	return path.p;
}

static enum ht_status write_ops(
	struct cli *c, const struct vendor_folder *f, const struct table *t, size_t n)
{
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < n && st == HT_OK; i++) {
		char *path = vendor_file(f, "op_summary", t[i].name, "csv");

		st = write_summary(c, &t[i], path);
		free(path);
	}
	return st;
}

static enum ht_status write_iterations(
	struct cli *c, const struct vendor_folder *f, const struct profiled *of, size_t n)
{
	char *path = vendor_file(f, "step_trace", NULL, "csv");
	struct text out = { 0 };
	enum ht_status st;

	text_printf(&out, "%s", iterations_heading);
	for (size_t i = 0; i < n; i++)
		iterations_csv(&out, c, of[i].context, i + 1);
	st = ht_file_write(path, out.p, out.n, c->diags);
	free(out.p);
	free(path);
	return st;
}

static enum ht_status write_timeline(
	struct cli *c, const struct vendor_folder *f, const struct profiled *of, size_t n)
{
	char *path = vendor_file(f, "msprof", NULL, "json");
	enum ht_status st = write_trace(c, of, n, path);

	free(path);
	return st;
}

static enum ht_status write_vendor(
	struct cli *c, const struct profiled *of, const struct table *t, size_t n)
{
	const struct vendor_parts parts = vendor_parts(c);
	struct vendor_folder f = { 0 };
	enum ht_status st = make_vendor_folder(c, &f);

	if (st == HT_OK && parts.ops)
		st = write_ops(c, &f, t, n);
	if (st == HT_OK && parts.iterations)
		st = write_iterations(c, &f, of, n);
	if (st == HT_OK && parts.timeline)
		st = write_timeline(c, &f, of, n);
	if (st == HT_OK)
		note(c, "the profile is in %s", f.path.p);
	free(f.path.p);
	return st;
}

static void put_tables(
	struct cli *c, const struct table *t, size_t n, struct text *out, enum ht_format format)
{
	if (!option_on(c, OPTION_PROFILE_TABLE))
		return;
	if (format == HT_FORMAT_JSON)
		text_printf(out, n > 1 ? ",\n \"profiles\": [" : ",\n \"profile\": ");
	for (size_t i = 0; i < n; i++) {
		if (format == HT_FORMAT_JSON && i)
			text_printf(out, ",\n  ");
		(format == HT_FORMAT_JSON ? put_table_json : put_table_text)(out, &t[i]);
	}
	if (format == HT_FORMAT_JSON && n > 1)
		text_printf(out, "]");
}

static void warn_lost(struct cli *c, const struct table *t, size_t n)
{
	unsigned long long lost = 0;

	for (size_t i = 0; i < n; i++)
		lost += t[i].recording.lost;
	if (lost && (option_on(c, OPTION_TRACE) || vendor_parts(c).timeline))
		warn(c, "the trace has the last kernels only; %llu before them are in its totals alone",
			lost);
}

enum ht_status profile_end(
	struct cli *c, const struct profiled *of, size_t n, struct text *out, enum ht_format format)
{
	struct table *t;
	enum ht_status st = HT_OK;

	if (!profile_wanted(c))
		return HT_OK;
	t = must_alloc((n + 1) * sizeof *t);
	for (size_t i = 0; i < n; i++)
		read_table(&of[i], &t[i]);
	warn_lost(c, t, n);
	for (size_t i = 0; i < n; i++)
		iterations_check(c, of[i].context);
	put_tables(c, t, n, out, format);
	if (option_on(c, OPTION_TRACE))
		st = write_trace(c, of, n, option(c, OPTION_TRACE, NULL));
	if (st == HT_OK && vendor_profiles(c))
		st = write_vendor(c, of, t, n);
	for (size_t i = 0; i < n; i++)
		free_table(&t[i]);
	free(t);
	return st;
}
