/* How far a training is: what a checkpoint notes about it, and the values with which it begins or goes on. */
#include "cli/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a checkpoint notes about a training.  NOTED_SEED to NOTED_SHUFFLES determine the order of the rows; --resume requires
 * the same values. */
enum {
	NOTED_STEP,
	NOTED_SEED,
	NOTED_BATCH,
	NOTED_ROWS,
	NOTED_SHUFFLES,
	NOTED_PHASE,  /* index of the current phase */
	NOTED_WITHIN, /* steps of that phase so far */
	NOTED_LOSS,   /* bits of the last loss, on which phases may depend */
	NOTES
};
static const char NOTED_STEP_NOW[] =
	"step tensor";         /* a separate note: the last number of --step-tensor */
#define NOTED_SAME NOTED_PHASE /* the first note that may differ */

enum ht_status train_note_progress(struct training *t, long long step)
{
	int64_t value[NOTES] = { step, t->seed, t->batch, t->data.count, t->order.shuffles };

	ht_train_phases_state(t->phases.plan, &value[NOTED_PHASE]);
	memcpy(&value[NOTED_LOSS], &t->last_loss, sizeof t->last_loss);
	return ht_session_note(t->session, "train", value, NOTES, t->c->diags);
}

enum ht_status train_note_step_now(struct training *t)
{
	struct ht_phase_counters c = HT_PHASE_COUNTERS_INIT;

	if (!t->step_tensor)
		return HT_OK;
	ht_train_phases_counters(t->phases.plan, &c);
	return ht_session_note(t->session, NOTED_STEP_NOW, &c.step_now, 1, t->c->diags);
}

/* Phases by step continue after `now` steps. */
static enum ht_status set_step_now(struct training *t, int64_t now)
{
	struct ht_phase_counters c = HT_PHASE_COUNTERS_INIT;

	ht_train_phases_counters(t->phases.plan, &c);
	c.step_now = now;
	return ht_train_phases_set_counters(t->phases.plan, &c, t->c->diags);
}

enum ht_status train_read_step_tensor(struct training *t, const struct entry *e)
{
	double now = entry_mean(e, 1);

	if (!(now >= 0 && now < 0x1p53) || now != floor(now))
		return fail(HT_E_VERDICT, "--step-tensor %s: %g is no number of steps",
			t->step_tensor, now);
	return set_step_now(t, (int64_t)now);
}

static enum ht_status go_on(struct training *t, const char *prefix)
{
	static const char *const what[NOTED_SAME] = { "", "--seed", "--batch", "rows of data",
		"shuffling" };
	const int64_t mine[NOTED_SAME] = { 0, t->seed, t->batch, t->data.count, t->order.shuffles };
	size_t n;
	const int64_t *noted = ht_session_noted(t->session, "train", &n);

	if (n != NOTES)
		return fail(HT_E_INPUT,
			"%s: it was not saved by halftone train; --restore takes its values",
			prefix);
	for (int i = NOTED_SEED; i < NOTED_SAME; i++)
		if (noted[i] != mine[i])
			return fail(HT_E_USAGE,
				"%s: it was saved with %s %lld, this has %lld; --restore takes "
				"the values alone",
				prefix, what[i], (long long)noted[i], (long long)mine[i]);
	t->first = noted[NOTED_STEP];
	memcpy(&t->last_loss, &noted[NOTED_LOSS], sizeof t->last_loss);
	ht_train_phases_go_on(t->phases.plan, &noted[NOTED_PHASE], t->first, t->last_loss);
	noted = ht_session_noted(t->session, NOTED_STEP_NOW, &n);
	return t->step_tensor && n == 1 ? set_step_now(t, noted[0]) : HT_OK;
}

static enum ht_status resume(struct training *t)
{
	const char *dir = option(t->c, OPTION_RESUME, NULL);
	size_t missing = 0;
	char *prefix;
	enum ht_status st = save_find(dir, &prefix);

	if (st == HT_OK)
		st = ht_session_restore(t->session, t->model, prefix, &missing, t->c->diags);
	if (st == HT_OK && missing)
		st = fail(HT_E_INPUT, "%s: it lacks %zu variable%s of this model", prefix, missing,
			missing > 1 ? "s" : "");
	if (st == HT_OK)
		st = go_on(t, prefix);
	if (st == HT_OK)
		note(t->c, "going on from %s", prefix);
	free(prefix);
	return st;
}

enum ht_status train_begin(struct training *t)
{
	const char *from = option(t->c, OPTION_RESTORE, NULL);
	enum ht_status st = HT_OK;

	if (option_on(t->c, OPTION_RESUME))
		return resume(t);
	if (from)
		st = ht_session_restore(t->session, t->model, from, NULL, t->c->diags);
	if (st == HT_OK && t->model) /* an artefact has first values */
		st = ht_session_initialise(t->session, t->model, option(t->c, OPTION_INIT_OP, NULL),
			&t->compile, t->c->diags);
	return st;
}
