/* watch: lets a caller observe the progress of a long call, and end it. */
#ifndef BASE_WATCH_H
#define BASE_WATCH_H

#include "base/base.h"

struct ht_watch {
	/* NULL: not wanted.  Called in the caller's thread. */
	void (*progress)(void *arg, const char *phase, size_t done, size_t total);
	void *arg;
	const int32_t *cancel; /* any thread or a signal handler may set it; NULL: never */
};

/* `w` may be NULL. */
static inline void ht_watch_tell(
	const struct ht_watch *w, const char *phase, size_t done, size_t total)
{
	if (w && w->progress)
		w->progress(w->arg, phase, done, total);
}

static inline bool ht_watch_cancelled(const struct ht_watch *w)
{
	return w && w->cancel && __atomic_load_n(w->cancel, __ATOMIC_RELAXED);
}

/* Reports that a phase begins.  HT_E_LIMIT: the caller has ended the call. */
static inline enum ht_status ht_watch_phase(
	const struct ht_watch *w, const char *phase, struct ht_diags *d)
{
	if (ht_watch_cancelled(w))
		return ht_error(d, HT_E_LIMIT, HT_NOWHERE, "the compilation was cancelled");
	ht_watch_tell(w, phase, 0, 1);
	return HT_OK;
}

#endif
