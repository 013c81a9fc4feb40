/* Dumps and profiles of the steps of a training: --dump, --trace, --profile-table and the vendor's options for them. */
#include "cli/train.h"

/* The program of a kind of phase, if it is a new one. */
static enum ht_status watch(struct training *t, enum ht_phase_kind kind)
{
	const struct entry *e = &t->step[kind];
	struct ht_context *context = ht_session_context(t->session, e->name);
	enum ht_status st = HT_OK;

	for (size_t i = 0; i < t->watches; i++)
		if (t->watched[i].context == context)
			return HT_OK;
	t->watch[kind] = t->watches;
	t->watched[t->watches++] =
		(struct profiled){ t->phases.on ? ht_phase_name(kind) : NULL, context };
	if (t->dump)
		st = dump_program(t->dump, e->program, context);
	return st == HT_OK ? profile_begin(t->c, context) : st;
}

enum ht_status train_watch_begin(struct training *t)
{
	enum ht_status st = dump_begin(t->c, &t->dump);

	for (size_t i = 0; i < t->phases.n && st == HT_OK; i++)
		st = watch(t, t->phases.phase[i].kind);
	return st;
}

enum ht_status train_watched_step(struct training *t, enum ht_phase_kind kind, long long step)
{
	enum ht_status st;

	if (t->dump)
		dump_run_begin(t->dump, t->watch[kind], (unsigned long long)step);
	st = entry_run(t->c, t->session, &t->step[kind], t->row, step);
	if (t->dump)
		dump_run_end(t->dump, st);
	return st;
}
