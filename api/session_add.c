/* Entries that a session compiles itself. */
#include "api/session.h"

enum ht_status ht_session_compile(struct ht_session *s, const char *name, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d, struct ht_session_entry *e)
{
	struct ht_program *p;
	enum ht_status st;

	m->session = true;
	m->scaled_loss = s->scaling.loss;
	m->loss_scale = (double)s->scaling.scale;
	m->unchecked = s->scaling.unchecked;
	st = ht_compile(m, opt, d, &p);
	m->session = m->unchecked = false;
	m->scaled_loss = NULL;
	return st == HT_OK ? ht_session_bind(s, name, p, d, e) : st;
}

enum ht_status ht_session_add(struct ht_session *s, const char *name, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_diags *d, const struct ht_program **out)
{
	struct ht_session_entry e;
	enum ht_status st;

	if (out)
		*out = NULL;
	HT_TRY(ht_session_is_new(s, name, d));
	HT_TRY(ht_session_compile(s, name, m, opt, d, &e));
	st = ht_session_keep(s, &e, d);
	if (st == HT_OK && out)
		*out = e.program;
	return st;
}
