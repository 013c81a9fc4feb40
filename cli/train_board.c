/* halftone train --tensorboard: writes values of steps and evaluations to an event file, as scalars. */
#include "cli/train.h"

#include <halftone/records.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATH = 4096, MOST_SCALARS = 8 };

/* Sets `path` to that of the folder `dir`, or of the folder `run` in it, whose name has _ for /. */
static void set_path(char path[MOST_PATH], const char *dir, const char *run)
{
	size_t n = (size_t)snprintf(path, MOST_PATH, "%s%s", dir, run ? "/" : "");

	for (; run && *run && n + 1 < MOST_PATH; run++)
		path[n++] = *run == '/' ? '_' : *run;
	if (n < MOST_PATH)
		path[n] = 0;
}

enum ht_status board_open(struct board *b, const struct cli *c, const char *run, long long first)
{
	const char *dir = option(c, OPTION_TENSORBOARD, NULL);
	char path[MOST_PATH];

	*b = (struct board){ .c = c };
	if (!dir)
		return HT_OK;
	if (strlen(dir) + (run ? strlen(run) : 0) + 2 > MOST_PATH)
		return fail(HT_E_USAGE, "--tensorboard: the path is too long");
	set_path(path, dir, run);
	return ht_event_file_open(path, first, c->diags, &b->file);
}

static void add(struct ht_event_scalar *list, size_t *n, const char *tag, double value)
{
	list[(*n)++] = (struct ht_event_scalar){ tag, value, NULL };
}

void board_steps(struct board *b, const struct board_steps *s)
{
	static const char phases[] =
		"0: original precision, 1: fast (float16 mix), 2: fast1 (bfloat16 mix)";
	struct ht_event_scalar list[MOST_SCALARS];
	size_t n = 0;

	if (!b->file)
		return;
	add(list, &n, "loss", s->loss);
	if (!isnan(s->mean_loss))
		add(list, &n, "mean_loss", s->mean_loss);
	if (!isnan(s->norm))
		add(list, &n, "gradient_norm", s->norm);
	if (s->scale) {
		add(list, &n, "loss_scale", s->scale->scale);
		add(list, &n, "skipped_steps", (double)s->scale->skipped);
	}
	if (!isnan(s->rate))
		add(list, &n, "steps_per_second", s->rate);
	if (s->phase)
		list[n++] = (struct ht_event_scalar){ "phase", (double)*s->phase, phases };
	ht_event_file_scalars(b->file, s->last, list, n);
}

void board_evaluation(
	struct board *b, long long step, const char *const *name, const double *value, size_t n)
{
	char tag[1024];

	for (size_t i = 0; b->file && i < n; i++) {
		struct ht_event_scalar s = { tag, value[i], NULL };

		snprintf(tag, sizeof tag, "evaluation/%s", name[i]);
		ht_event_file_scalars(b->file, step, &s, 1);
	}
}

enum ht_status board_close(struct board *b)
{
	enum ht_status st = ht_event_file_close(b->file, b->c->diags);

	b->file = NULL;
	return st;
}
