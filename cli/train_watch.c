/* Dumps and profiles of the steps of a training: --dump, --trace, --profile-table and the vendor's options for them. */
#include "cli/train.h"

/* The entry that runs all steps; NULL: there are several, one for each kind of phase. */
static const struct entry *only_step(const struct training *t)
{
	const struct entry *found = NULL;

	for (int i = 0; i < HT_PHASE_KINDS; i++) {
		if (!t->phases.used[i])
			continue;
		if (found)
			return NULL;
		found = &t->step[i];
	}
	return found;
}

enum ht_status train_watch_begin(struct training *t)
{
	const struct entry *e = only_step(t);
	enum ht_status st;

	if (!dump_tee(t->c) && !profile_wanted(t->c))
		return HT_OK;
	if (!e)
		return refuse(t->c,
			"dumps and profiles are about one program; with --accelerate-train-mode there are several");
	t->watched.program = (struct ht_program *)(uintptr_t)e->program;
	t->watched.context = ht_session_context(t->session, e->name);
	st = dump_begin(t->c, &t->watched);
	return st == HT_OK ? profile_begin(t->c, &t->watched) : st;
}

enum ht_status train_watched_step(struct training *t, struct entry *e, long long step)
{
	enum ht_status st;

	if (t->watched.dump)
		dump_run_begin(t->watched.dump);
	st = entry_run(t->c, t->session, e, t->row, step);
	if (t->watched.dump)
		dump_run_end(t->watched.dump, st);
	return st;
}
