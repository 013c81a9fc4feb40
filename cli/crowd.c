/* Several sessions of one program at the same time, each in a thread of its own. */
#include "cli/cli.h"

#include <pthread.h>
#include <stdlib.h>

struct member {
	pthread_t thread;
	struct cli c; /* with a separate list of messages, since a list is for one thread */
	struct session s;
	crowd_fn *fn;
	void *arg;
	enum ht_status st;
	bool started;
};

static void *work(void *member)
{
	struct member *m = member;

	m->st = m->fn(&m->c, &m->s, m->arg);
	return NULL;
}

static enum ht_status begin(struct member *m, struct cli *c, const struct session *with)
{
	m->c = *c;
	m->c.diags = ht_diags_new();
	if (!m->c.diags)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	m->st = session_join(&m->c, with, &m->s);
	if (m->st == HT_OK && pthread_create(&m->thread, NULL, work, m) != 0)
		m->st = fail(HT_E_ENVIRONMENT, "there are no more threads for contexts");
	m->started = m->st == HT_OK;
	return m->st;
}

/* The first error counts, and only its messages are printed: the others are the same. */
static void end(struct member *m, enum ht_status *st)
{
	if (m->started)
		pthread_join(m->thread, NULL);
	if (*st == HT_OK && m->st != HT_OK) {
		*st = m->st;
		print_messages(m->c.diags);
	}
	session_leave(&m->s);
	ht_diags_free(m->c.diags);
}

enum ht_status crowd_run(
	struct cli *c, struct session *s, size_t n, crowd_fn *fn, void *arg, size_t stride)
{
	struct member *m = must_alloc(n * sizeof *m);
	enum ht_status st = HT_OK;
	size_t begun = 0;

	for (; begun + 1 < n && st == HT_OK; begun++) {
		m[begun] = (struct member){ .fn = fn, .arg = (char *)arg + (begun + 1) * stride };
		st = begin(&m[begun], c, s);
	}
	st = st == HT_OK ? fn(c, s, arg) : HT_OK;
	for (size_t i = 0; i < begun; i++)
		end(&m[i], &st);
	free(m);
	return st;
}
