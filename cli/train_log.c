/* Messages of a training: a line that changes on a terminal, lines at intervals elsewhere, and
 * everything as JSON lines. */
#include "cli/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL 10.0 /* seconds between lines */
#define SHOWN 0.2     /* likewise on a terminal */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum ht_status log_open(struct train_log *l, const struct cli *c, long long first, long long steps)
{
	*l = (struct train_log){ .c = c, .path = option(c, OPTION_LOG, NULL), .steps = steps };
	l->first = first;
	l->begun = l->told = now();
	l->terminal = isatty(STDERR_FILENO) && !option_on(c, OPTION_QUIET);
	if (!l->path)
		return HT_OK;
	l->file = fopen(l->path, first ? "a" : "w");
	return l->file ? HT_OK
		       : fail(HT_E_ENVIRONMENT, "--log %s: cannot write: %s", l->path,
				 strerror(errno));
}

double log_seconds(const struct train_log *l)
{
	return now() - l->begun;
}

static void clear_line(struct train_log *l)
{
	if (l->shown)
		fputs("\r\033[K", stderr);
	l->shown = false;
}

static void put_progress(struct train_log *l, const struct logged_loop *loop, double rate)
{
	fprintf(stderr, "%sstep %lld of %lld  loss %.6g  ", l->terminal ? "\r\033[K" : "",
		loop->last, l->steps, loop->loss);
	if (loop->scale)
		fprintf(stderr, "scale %.6g  skipped %lld  ", loop->scale->scale,
			(long long)loop->scale->skipped);
	if (l->phase)
		fprintf(stderr, "%s  ", l->phase);
	fprintf(stderr, "%.3g steps/s", rate);
	if (l->terminal && rate > 0)
		fprintf(stderr, "  %.0f s left ", (double)(l->steps - loop->last) / rate);
	if (!l->terminal)
		fputc('\n', stderr);
	l->shown = l->terminal;
}

static void write_line(struct train_log *l, struct text *t)
{
	if (l->file)
		fwrite(t->p, 1, t->n, l->file);
	free(t->p);
}

static void put_step(const struct train_log *l, const struct logged_loop *loop, struct text *line)
{
	text_printf(line, "{\"event\": \"%s\", \"step\": %lld", l->loop > 1 ? "loop" : "step",
		loop->last);
	if (l->loop > 1)
		text_printf(line, ", \"steps\": %lld", loop->steps);
	text_printf(line, ", \"epoch\": ");
	text_number(line, loop->epoch);
	text_printf(line, ", \"loss\": ");
	text_number(line, loop->loss);
	if (l->loop > 1) {
		text_printf(line, ", \"mean_loss\": ");
		text_number(line, loop->mean_loss);
	}
	if (loop->scale)
		text_printf(line, ", \"scale\": %.17g, \"skipped\": %s", loop->scale->scale,
			loop->scale->finite ? "false" : "true");
}

void log_loop(struct train_log *l, const struct logged_loop *loop)
{
	double t = now(), spent = t - l->begun;
	struct text line = { 0 };

	if (l->file) {
		put_step(l, loop, &line);
		text_printf(&line, ", \"seconds\": %.6f}\n", spent);
		write_line(l, &line);
	}
	if (option_on(l->c, OPTION_QUIET) || t - l->told < (l->terminal ? SHOWN : INTERVAL))
		return;
	l->told = t;
	put_progress(l, loop, spent > 0 ? (double)(loop->last - l->first) / spent : 0);
}

/* An object of their own: a tensor may be called as a member of the line is. */
static void put_values(struct text *line, const char *const *name, const double *value, size_t n)
{
	text_printf(line, ", \"values\": {");
	for (size_t i = 0; i < n; i++) {
		text_printf(line, i ? ", " : "");
		text_json(line, name[i]);
		text_printf(line, ": ");
		text_number(line, value[i]);
	}
	text_printf(line, "}");
}

void log_values(struct train_log *l, const char *event, long long step, const char *const *name,
	const double *value, size_t n)
{
	struct text line = { 0 };

	clear_line(l);
	if (!option_on(l->c, OPTION_QUIET)) {
		fprintf(stderr, "step %lld  %s", step, event);
		for (size_t i = 0; i < n; i++)
			fprintf(stderr, "  %s %.6g", name[i], value[i]);
		fputc('\n', stderr);
	}
	if (!l->file)
		return;
	text_printf(&line, "{\"event\": \"%s\", \"step\": %lld", event, step);
	if (n)
		put_values(&line, name, value, n);
	text_printf(&line, ", \"seconds\": %.6f}\n", log_seconds(l));
	write_line(l, &line);
}

void log_side(struct train_log *l, long long step, long long seed, const char *policy, double loss,
	double norm)
{
	struct text line = { 0 };

	if (!l->file)
		return;
	text_printf(&line,
		"{\"event\": \"step\", \"step\": %lld, \"seed\": %lld, \"policy\": ", step, seed);
	text_json(&line, policy);
	text_printf(&line, ", \"loss\": ");
	text_number(&line, loss);
	if (!isnan(norm)) {
		text_printf(&line, ", \"gradient_norm\": ");
		text_number(&line, norm);
	}
	text_printf(&line, "}\n");
	write_line(l, &line);
}

void log_saved(struct train_log *l, long long step, const char *dir)
{
	struct text line = { 0 };

	clear_line(l);
	note(l->c, "saved %s/ckpt-%lld", dir, step);
	if (!l->file)
		return;
	text_printf(&line, "{\"event\": \"save\", \"step\": %lld, \"dir\": ", step);
	text_json(&line, dir);
	text_printf(&line, ", \"seconds\": %.6f}\n", log_seconds(l));
	write_line(l, &line);
}

enum ht_status log_close(struct train_log *l)
{
	int bad;

	clear_line(l);
	if (!l->file)
		return HT_OK;
	bad = ferror(l->file);
	bad |= fclose(l->file);
	l->file = NULL;
	return bad ? fail(HT_E_ENVIRONMENT, "--log %s: cannot write", l->path) : HT_OK;
}
