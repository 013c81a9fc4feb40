/* Turns failed allocations into a status, and hands results to the caller. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

/* Whether an error with this status is the last message, and was added after `before`. */
static bool is_said(const struct ht_diags *d, const struct ht_diag *before, enum ht_status st)
{
	const struct ht_diag *last = d ? d->last : NULL;

	return last != before && last->severity == HT_ERROR && last->status == st;
}

static enum ht_status unwound(
	struct ht_unwind *u, enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d)
{
	const struct ht_diag *const before = d ? d->last : NULL;

	if (setjmp(u->env)) {
		/* The function that asked for the memory may have reported the error already. */
		if (ht_is_cancelled() || is_said(d, before, HT_E_ENVIRONMENT))
			return HT_E_ENVIRONMENT;
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	}
	return body(arg);
}

enum ht_status ht_until_cancelled(
	const int32_t *cancel, enum ht_status (*call)(void *arg), void *arg, struct ht_diags *d)
{
	const struct ht_diag *const before = d ? d->last : NULL;
	const int32_t *outer = ht_cancel_by(cancel);
	enum ht_status st = call(arg);
	bool cancelled = ht_is_cancelled();

	ht_cancel_by(outer);
	if (st == HT_OK || !cancelled || is_said(d, before, HT_E_LIMIT))
		return st;
	return ht_error(d, HT_E_LIMIT, HT_NOWHERE, "the call was cancelled");
}

enum ht_status ht_guarded(
	struct ht_unwind *u, enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d)
{
	unsigned before = ht_mapped_lost();
	enum ht_status st = unwound(u, body, arg, d), lost = ht_mapped_check_since(before, d);

	return st == HT_OK ? lost : st;
}

enum ht_status ht_bytes_of(struct ht_str s, struct ht_bytes *out)
{
	out->n = 0;
	out->p = ht_sys_alloc(s.n + 1);
	if (!out->p)
		return HT_E_ENVIRONMENT;
	if (s.n)
		memcpy(out->p, s.p, s.n);
	out->p[s.n] = 0;
	out->n = s.n;
	return HT_OK;
}

void ht_bytes_free(struct ht_bytes *b)
{
	if (!b)
		return;
	free(b->p);
	b->p = NULL;
	b->n = 0;
}

void ht_work_init(struct ht_work *w)
{
	ht_arena_init(&w->arena, &w->unwind);
	ht_arena_init(&w->scratch, &w->unwind);
}

static void release_within(void *work)
{
	ht_work_release(work);
}

struct ht_work *ht_work_within(struct ht_work *w)
{
	struct ht_work *inner = HT_NEW(&w->arena, struct ht_work);

	ht_arena_init(&inner->arena, w->arena.unwind);
	ht_arena_init(&inner->scratch, w->arena.unwind);
	ht_arena_defer(&w->arena, release_within, inner);
	return inner;
}

void ht_work_release(struct ht_work *w)
{
	ht_arena_release(&w->scratch);
	ht_arena_release(&w->arena);
}

enum ht_status ht_work_run(
	struct ht_work *w, enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d)
{
	enum ht_status st;

	ht_work_init(w);
	st = ht_guarded(&w->unwind, body, arg, d);
	ht_work_release(w);
	return st;
}
