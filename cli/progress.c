/* A line that shows the tool's progress. */
#include "cli/cli.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void progress_begin(struct progress *p, const struct cli *c, const char *what)
{
	*p = (struct progress){ .c = c, .what = what, .begun_ms = now_ms() };
}

void progress_at(struct progress *p, size_t done, size_t all)
{
	long long now = now_ms(), spent = now - p->begun_ms;

	if (option_on(p->c, OPTION_QUIET) || !isatty(STDERR_FILENO) || spent < 1000 ||
		now - p->shown_ms < 200 || !done)
		return;
	fprintf(stderr, "\r%s %zu", p->what, done);
	if (all)
		fprintf(stderr, " of %zu, %lld s left ", all,
			(spent * (long long)(all - done) / (long long)done + 999) / 1000);
	fputs("\033[K", stderr);
	p->shown_ms = now;
	p->shown = true;
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}
