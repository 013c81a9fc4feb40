/* Shows the progress of a compilation: a line on the terminal, after the first second. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct shown {
	double begin, last; /* seconds; last: when the line was written, 0: never */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(void *arg, const char *phase, size_t done, size_t total)
{
	struct shown *p = arg;
	double t = now();

	if (t - p->begin < 1 || t - p->last < 0.1)
		return;
	p->last = t;
	fprintf(stderr, "\r\033[Kcompiling: %s", phase);
	if (total > 1)
		fprintf(stderr, ", %zu of %zu kernels", done, total);
	fflush(stderr);
}

static bool on_terminal(const struct cli *c)
{
	const char *term = getenv("TERM");

	return !option_on(c, OPTION_QUIET) && isatty(STDERR_FILENO) &&
	       !(term && !strcmp(term, "dumb"));
}

enum ht_status compile_shown(const struct cli *c, const struct ht_model *m,
	struct ht_compile_options *opt, struct ht_program **out)
{
	struct shown p = { .begin = now() };
	enum ht_status st;

	opt->progress = on_terminal(c) ? show : NULL;
	opt->progress_arg = &p;
	st = ht_compile(m, opt, c->diags, out);
	if (p.last > 0)
		fprintf(stderr, "\r\033[K");
	return st;
}
