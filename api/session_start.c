/* First values of a session's variables: from the model's checkpoint, or computed by the ops
 * that initialise them. */
#include "api/session.h"

#include "frontend/bundle.h"

#include <stdlib.h>
#include <string.h>

struct start {
	struct ht_session *s;
	struct ht_model *m;
	const char *init;
	const struct ht_compile_options *opt;
	struct ht_diags *d;
	struct ht_work *w;
	struct ht_map initialiser; /* variable → node */
};

/* The part of a model that set_outputs changes. */
struct outputs {
	struct ht_entry *entry, *unfed;
	bool set, outputs_set, inputs_set;
	struct ht_value_info *input;
	size_t inputs;
};

static struct outputs outputs_of(const struct ht_model *m)
{
	return (struct outputs){ m->entry, m->unfed, m->set, m->outputs_set, m->inputs_set,
		m->input, m->inputs };
}

static void set_back(struct ht_model *m, const struct outputs *o)
{
	m->entry = o->entry;
	m->unfed = o->unfed;
	m->set = o->set;
	m->outputs_set = o->outputs_set;
	m->inputs_set = o->inputs_set;
	m->input = o->input;
	m->inputs = o->inputs;
}

static enum ht_status needs_input(const struct start *x, struct ht_diags *d)
{
	return ht_error(d, HT_E_UNSUPPORTED,
		(struct ht_where){ .path = x->m->graph->path, .offset = -1 },
		"what initialises the variables needs input '%s': run it as an entry of its own",
		x->m->input[0].name);
}

/* Ops are run for their effect: an Assign of TensorFlow 1 has a result, but nobody reads it. */
static void make_targets(struct ht_model *m)
{
	struct ht_port **end = &m->entry->targets;

	while (*end)
		end = &(*end)->next;
	*end = m->entry->outputs;
	m->entry->outputs = NULL;
	for (struct ht_port *p = *end; p; p = p->next)
		p->value.index = -1;
}

/* A copy of the values that the entry's variables have: by variable a byte, whether it has one, and behind these bytes the values.  The caller frees
 * it.  NULL: there is no memory. */
static char *copy_values(const struct ht_session_entry *e)
{
	const size_t n = ht_program_variables(e->program);
	size_t all = n + 1;
	char *copy, *to;

	for (size_t i = 0; i < n; i++)
		all += e->variable[i]->set ? e->variable[i]->bytes : 0;
	copy = ht_sys_alloc(all);
	to = copy ? copy + n : NULL;
	for (size_t i = 0; to && i < n; i++) {
		const struct ht_session_variable *v = e->variable[i];

		copy[i] = v->set;
		if (!v->set)
			continue;
		memcpy(to, v->memory, v->bytes);
		to += v->bytes;
	}
	return copy;
}

static void put_back(const struct ht_session_entry *e, const char *copy)
{
	const size_t n = ht_program_variables(e->program);
	const char *from = copy + n;

	for (size_t i = 0; i < n; i++)
		if (copy[i]) {
			ht_session_write(e->variable[i], from);
			from += e->variable[i]->bytes;
		}
}

/* Runs the entry.  Variables that have values keep them. */
static enum ht_status run_for_others(
	struct start *x, struct ht_session_entry *e, struct ht_diags *d)
{
	char *values = copy_values(e);
	enum ht_status st;

	if (!values)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	st = ht_session_run_entry(x->s, e, NULL, 0, NULL, 0, d);
	put_back(e, values);
	free(values);
	return st;
}

static enum ht_status run_ops(
	struct start *x, const char *const *op, size_t n, bool replaces, struct ht_diags *d)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_session_entry e;
	enum ht_status st;

	if (x->opt)
		HT_TRY(ht_compile_options_of(x->opt, d, &opt));
	opt.policy = NULL; /* stored values are computed without a policy */
	HT_TRY(ht_model_set_outputs(x->m, op, n, d));
	make_targets(x->m);
	for (size_t i = 0; i < x->m->inputs; i++)
		if (!x->m->input[i].value)
			return needs_input(x, d);
	HT_TRY(ht_session_compile(x->s, "initialise", x->m, &opt, d, &e));
	st = replaces ? ht_session_run_entry(x->s, &e, NULL, 0, NULL, 0, d)
		      : run_for_others(x, &e, d);
	ht_session_release_entry(&e);
	return st;
}

/* `replaces`: the ops may also change variables that have values. */
static enum ht_status run_init(
	struct start *x, const char *const *op, size_t n, bool replaces, struct ht_diags *d)
{
	const struct outputs before = outputs_of(x->m);
	enum ht_status st = run_ops(x, op, n, replaces, d);

	set_back(x->m, &before);
	return st;
}

/* Lists the ops that initialise the session's variables without values, or all of the model's
 * variables without values. */
static size_t list_ops(struct start *x, bool all, const char **op)
{
	size_t n = 0;

	for (size_t i = 0; i < x->initialiser.count; i++) {
		const struct ht_map_entry *e = &x->initialiser.entries[i];
		const struct ht_session_variable *v = ht_map_get(&x->s->variables, e->key);

		if (v ? !v->set : all)
			op[n++] = ((const struct ht_node *)e->value)->name.p;
	}
	return n;
}

static enum ht_status run_initialisers(struct start *x)
{
	const char **op = HT_NEW_ARRAY(&x->w->arena, const char *, x->initialiser.count + 1);
	struct ht_diags quiet;
	enum ht_status st;
	size_t needed = list_ops(x, false, op), n;

	if (!needed)
		return HT_OK;
	n = list_ops(x, true, op);
	ht_diags_init(&quiet);
	st = run_init(x, op, n, false, n > needed ? &quiet : x->d);
	ht_diags_release(&quiet);
	/* Ops of variables that no entry uses may be unsupported. */
	if (st == HT_OK || n == needed)
		return st;
	return run_init(x, op, list_ops(x, false, op), false, x->d);
}

static enum ht_status check_all(struct start *x)
{
	const struct ht_session_variable *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < x->s->variables.count; i++) {
		const struct ht_session_variable *v = x->s->variables.entries[i].value;

		if (!v->set && !n++)
			first = v;
	}
	if (!n)
		return HT_OK;
	return ht_error(x->d, HT_E_UNSUPPORTED,
		(struct ht_where){ .path = x->m->graph->path, .offset = -1, .node = first->name },
		"the variable has no value (%zu such variable%s): the model does not say which op "
		"initialises it; name that op, or restore a checkpoint",
		n, n == 1 ? "" : "s");
}

static void take_keys(struct start *x)
{
	struct ht_map keys;

	ht_map_init(&keys, &x->w->arena);
	if (!ht_restore_keys(x->m->graph, &x->w->arena, &keys))
		return;
	for (size_t i = 0; i < x->s->variables.count; i++) {
		struct ht_session_variable *v = x->s->variables.entries[i].value;
		const struct ht_restored *of = ht_map_get(&keys, v->name);

		if (of && !of->malformed.n)
			v->key = ht_str_copy(&x->s->arena, of->key);
	}
}

static enum ht_status start(void *arg)
{
	struct start *x = arg;

	if (x->m->graph->checkpoint)
		HT_TRY(ht_session_restore_own(x->s, x->m, x->m->graph->checkpoint, x->d));
	if (x->init)
		HT_TRY(run_init(x, &x->init, 1, !x->s->chosen, x->d));
	ht_initialisers(x->m->graph, &x->w->arena, &x->initialiser);
	HT_TRY(run_initialisers(x));
	if (!x->m->graph->checkpoint)
		take_keys(x);
	return check_all(x);
}

enum ht_status ht_session_initialise(struct ht_session *s, struct ht_model *m, const char *init,
	const struct ht_compile_options *opt, struct ht_diags *d)
{
	struct ht_work w;
	struct start x = { .s = s, .m = m, .init = init, .opt = opt, .d = d, .w = &w };

	return ht_session_guarded(s, &w, start, &x, d);
}

const char *ht_model_train_op(const struct ht_model *m)
{
	struct ht_str name = ht_train_op(m->graph);

	return name.n ? name.p : NULL;
}
