/* halftone compile --entry: several programs over the same variables in one artefact (docs/artefact.md). */
#include "cli/cli.h"

#include <halftone/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Refuses options about variables that need --entry. */
static enum ht_status refuse_others(struct cli *c)
{
	static const enum option about[] = { OPTION_INIT_OP, OPTION_RESTORE, OPTION_LOSS,
		OPTION_LOSS_SCALE, OPTION_SEED };

	for (size_t i = 0; i < sizeof about / sizeof *about; i++)
		if (option_on(c, about[i])) {
			enum ht_status st = refuse(c, "--%s has no effect without --entry",
				option_rows[about[i]].name);

			if (st != HT_OK)
				return st;
		}
	return HT_OK;
}

static bool is_repeated(const struct cli *c, size_t i, size_t length)
{
	for (size_t k = 0; k < i; k++)
		if (!strncmp(c->option[OPTION_ENTRY].value[k], c->option[OPTION_ENTRY].value[i],
			    length + 1))
			return true;
	return false;
}

static enum ht_status check_names(const struct cli *c)
{
	for (size_t i = 0; i < c->option[OPTION_ENTRY].n; i++) {
		const char *s = c->option[OPTION_ENTRY].value[i];
		const char *equals = strchr(s, '=');

		if (!equals || equals == s || !equals[1])
			return fail(HT_E_USAGE, "--entry: '%s' is not NAME=A,B", s);
		if (is_repeated(c, i, (size_t)(equals - s)))
			return fail(HT_E_USAGE, "--entry: '%.*s' is stated twice",
				(int)(equals - s), s);
	}
	return HT_OK;
}

enum ht_status entries_open(struct cli *c, struct entries *e)
{
	const char *loss = option(c, OPTION_LOSS, NULL);
	struct ht_session_options opt = HT_SESSION_OPTIONS_INIT;
	long long seed = 1;
	enum ht_status st;

	if (!option_on(c, OPTION_ENTRY))
		return refuse_others(c);
	if (option_on(c, OPTION_OUTPUTS))
		return fail(HT_E_USAGE, "--outputs: each --entry has outputs of its own");
	if (option_on(c, OPTION_LOSS_SCALE) && !loss)
		return fail(HT_E_USAGE, "--loss-scale needs the loss: --loss NAME");
	st = check_names(c);
	if (st == HT_OK)
		st = option_number(c, OPTION_SEED, 1, 0, INT64_MAX, &seed);
	opt.seeded = 1; /* so that equal command lines give equal artefacts */
	opt.seed = (uint64_t)seed;
	if (st == HT_OK)
		st = ht_session_new(&opt, c->diags, &e->session);
	if (st == HT_OK && loss)
		st = ht_session_scale_loss(
			e->session, loss, option(c, OPTION_LOSS_SCALE, "none"), c->diags);
	return st;
}

enum ht_status entries_begin(struct cli *c, struct entries *e, size_t i)
{
	const char *s;

	if (!e->session)
		return HT_OK;
	s = c->option[OPTION_ENTRY].value[i];
	free(e->name);
	e->name = strndup(s, strcspn(s, "="));
	c->entry_outputs = strchr(s, '=') + 1;
	return e->name ? HT_OK : fail(HT_E_ENVIRONMENT, "out of memory");
}

/* The variants of an entry are entries of the session, which have numbers as names. */
static const char *number_of(size_t i, char name[32])
{
	snprintf(name, 32, "%zu", i);
	return name;
}

enum ht_status entries_add(struct cli *c, struct entries *e, struct ht_model *m,
	const struct ht_compile_options *opt, struct ht_artefact_writer *w,
	const struct ht_program **p)
{
	char name[32];
	enum ht_status st = ht_session_add(e->session, number_of(e->n, name), m, opt, c->diags, p);

	if (st != HT_OK)
		return fail(st, "entry '%s' failed", e->name);
	e->n++;
	return w ? ht_artefact_writer_add_entry(w, e->name, *p, c->diags) : HT_OK;
}

static bool any_has_input(const struct entries *e, const char *input)
{
	char name[32];
	size_t at;

	for (size_t i = 0; i < e->n; i++)
		if (ht_program_input_named(
			    ht_session_program(e->session, number_of(i, name)), input, &at))
			return true;
	return false;
}

/* Each entry uses the stated shapes of its inputs; an input that no entry has is an error. */
static enum ht_status check_shapes(const struct cli *c, const struct entries *e)
{
	for (size_t i = 0; i < c->option[OPTION_SHAPE].n; i++) {
		const char *s = c->option[OPTION_SHAPE].value[i];

		for (size_t n; *s; s += n + (s[n] == ';')) {
			char *name;
			bool is;

			n = strcspn(s, ";");
			name = strndup(s, shape_name_length(s, n));
			is = !n || any_has_input(e, name);
			if (!is)
				fail(HT_E_USAGE, "--input-shape: no entry has an input '%s'", name);
			free(name);
			if (!is)
				return HT_E_USAGE;
		}
	}
	return HT_OK;
}

static enum ht_status first_values(
	struct cli *c, struct entries *e, const struct ht_compile_options *compile)
{
	const char *from = option(c, OPTION_RESTORE, NULL);
	struct ht_compile_options opt = *compile;
	struct ht_model *m = NULL;
	enum ht_status st = open_shaped_model(c, 0, 0, &m);

	opt.target = NULL; /* initialisers run on this machine */
	opt.policy = NULL;
	if (st == HT_OK && from)
		st = ht_session_restore(e->session, m, from, NULL, c->diags);
	if (st == HT_OK)
		st = ht_session_initialise(
			e->session, m, option(c, OPTION_INIT_OP, NULL), &opt, c->diags);
	ht_model_free(m);
	return st;
}

enum ht_status entries_end(struct cli *c, struct entries *e, const struct ht_compile_options *opt,
	struct ht_artefact_writer *w)
{
	enum ht_status st = check_shapes(c, e);

	if (st == HT_OK)
		st = first_values(c, e, opt);
	return st == HT_OK && w ? ht_artefact_writer_add_values(w, e->session, c->diags) : st;
}

void entries_close(struct cli *c, struct entries *e)
{
	c->entry_outputs = NULL;
	free(e->name);
	ht_session_free(e->session);
}
