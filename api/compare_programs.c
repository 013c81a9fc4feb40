/* The programs of a comparison: compiling the model under each policy, the messages of that, runs. */
#include "api/compare.h"

#include <halftone/cache.h>
#include <string.h>

void ht_compared_release(struct ht_compared *r)
{
	ht_context_free(r->context);
	ht_program_free(r->program);
}

enum ht_status ht_compared_need(const struct ht_comparison *c, struct ht_diags *d)
{
	return c->model ? HT_OK
			: ht_error(d, HT_E_USAGE, ht_compared_place(c),
				  "the model could not be compared: %.*s", HT_STR_ARG(c->base.why));
}

bool ht_compared_told(struct ht_comparison *c, const struct ht_diag *i)
{
	struct ht_str key = ht_str_printf(
		&c->arena, "%.*s\n%.*s", HT_STR_ARG(i->where.node), HT_STR_ARG(i->text));
	struct ht_map_entry *e = ht_map_at(&c->told, key);
	bool told = e->value != NULL;

	e->value = e;
	return told;
}

void ht_compared_tell(struct ht_comparison *c, struct ht_compared *r, const struct ht_diags *said,
	struct ht_diags *d)
{
	for (const struct ht_diag *i = said->first; i; i = i->next) {
		if (i->severity == HT_ERROR) {
			r->why = ht_str_copy(&c->arena, i->text);
			ht_error(d, i->status, i->where, "%.*s", HT_STR_ARG(i->text));
		} else if (ht_compared_told(c, i)) {
			continue;
		} else if (i->severity == HT_WARNING) {
			ht_warn(d, i->where, "%.*s", HT_STR_ARG(i->text));
		} else {
			ht_note(d, i->where, "%.*s", HT_STR_ARG(i->text));
		}
	}
}

static void make_room(struct ht_compared *r)
{
	size_t n = ht_program_outputs(r->program);

	r->out = HT_NEW_ARRAY(r->arena, struct ht_array, n);
	r->errors = HT_NEW_ARRAY(r->arena, struct ht_errors, n);
	for (size_t i = 0; i < n; i++) {
		const struct ht_value_info *v = &r->program->output[i];
		r->out[i] = (struct ht_array){ ht_alloc(r->arena, v->bytes + 64), v->bytes,
			v->dtype, v->rank, v->dim };
		ht_errors_init(&r->errors[i], v->dtype, r->lowest, r->arena);
	}
}

/* Notes whether the cache has the compilation that follows, and if not, why. */
static void ask_cache(struct ht_comparison *c, struct ht_compared *r)
{
	struct ht_bytes said = { 0 };
	enum ht_status st;

	if (!c->model->cache || r == &c->wide_row)
		return;
	st = ht_cache_why_miss(c->model->cache, c->model, &c->compile, HT_FORMAT_TEXT, NULL, &said);
	if (st == HT_OK || st == HT_E_VERDICT)
		r->cache = ht_str_copy(&c->arena, (struct ht_str){ said.p, strcspn(said.p, "\n") });
	ht_bytes_free(&said);
}

enum ht_status ht_compared_build(struct ht_comparison *c, struct ht_compared *r,
	const struct ht_policy *p, struct ht_diags *d)
{
	struct ht_context_options opt = HT_CONTEXT_OPTIONS_INIT;
	int64_t before = ht_now_ns();

	c->compile.policy = p;
	ask_cache(c, r);
	HT_TRY(ht_compile(r == &c->wide_row ? c->wide : c->model, &c->compile, d, &r->program));
	c->compile_ns += ht_now_ns() - before;
	opt.threads = c->compile.threads;
	HT_TRY(ht_context_new(r->program, &opt, d, &r->context));
	if (r->lowest == HT_INVALID && r != &c->wide_row)
		ht_compared_decisions(r, c, p);
	make_room(r);
	return HT_OK;
}

enum ht_status ht_compared_run(struct ht_comparison *c, struct ht_compared *r, struct ht_diags *d)
{
	int64_t before = ht_now_ns();
	enum ht_status st;

	ht_context_reset(r->context);
	ht_context_set_seed(r->context, HT_COMPARED_SEED);
	st = ht_context_run(r->context, c->in, ht_program_inputs(r->program), r->out,
		ht_program_outputs(r->program), d);
	c->run_ns += ht_now_ns() - before;
	return st;
}

/* ---- policies ---- */

struct addition {
	struct ht_comparison *c;
	const char *name;
	const struct ht_policy *policy;
	enum ht_dtype lowest; /* the lowest type of its decisions, or HT_INVALID */
	struct ht_compared *row;
	struct ht_diags said;
	struct ht_diags *d;
};

static void find_same(struct ht_comparison *c, struct ht_compared *row)
{
	for (struct ht_compared *r = c->first; r != row && !row->same; r = r->next)
		if (r->status == HT_OK && ht_hash_eq(r->decisions, row->decisions))
			row->same = r;
	if (!row->same && ht_hash_eq(c->base.decisions, row->decisions))
		row->same = &c->base;
}

static enum ht_status add(void *arg)
{
	struct addition *k = arg;
	struct ht_comparison *c = k->c;
	struct ht_compared *r = k->row = HT_NEW(&c->arena, struct ht_compared);

	r->arena = ht_arena_within(&c->arena);
	r->lowest = k->lowest;
	r->lowest_name = ht_dtype_name(k->lowest);
	r->name = ht_str_copy(&c->arena, ht_str(k->name));
	for (struct ht_compared *i = c->first; i; i = i->next)
		if (ht_str_eq(i->name, r->name))
			return ht_error(k->d, HT_E_USAGE, HT_NOWHERE, "policy '%s' is stated twice",
				k->name);
	*c->last = r;
	c->last = &r->next;
	c->policies++;
	r->status = ht_compared_build(c, r, k->policy, &k->said);
	if (r->status == HT_OK && k->lowest == HT_INVALID)
		find_same(c, r);
	ht_compared_tell(c, r, &k->said, k->d);
	return r->status;
}

static enum ht_status add_row(struct addition *k)
{
	enum ht_status st;

	ht_diags_init(&k->said);
	st = ht_guarded(&k->c->unwind, add, k, k->d);
	if (k->row && st != HT_OK)
		k->row->status = st;
	ht_diags_release(&k->said);
	return st;
}

enum ht_status ht_comparison_add(
	struct ht_comparison *c, const char *name, const struct ht_policy *p, struct ht_diags *d)
{
	struct addition k = { .c = c, .name = name, .policy = p, .d = d };

	HT_TRY(ht_compared_need(c, d));
	if (c->runs)
		return ht_error(
			d, HT_E_USAGE, HT_NOWHERE, "policy '%s' comes behind a sample", name);
	return add_row(&k);
}

static void drop_policies(struct ht_comparison *c)
{
	ht_attribution_free(c->attribution);
	c->attribution = NULL;
	for (struct ht_compared *r = c->first; r; r = r->next) {
		ht_compared_release(r);
		ht_arena_release(r->arena);
	}
	c->first = NULL;
	c->last = &c->first;
	c->policies = c->samples = c->runs = 0;
}

enum ht_status ht_comparison_try(struct ht_comparison *c, const char *name,
	const struct ht_policy *p, enum ht_dtype lowest, struct ht_diags *d)
{
	struct addition k = { .c = c, .name = name, .policy = p, .lowest = lowest, .d = d };

	drop_policies(c);
	return add_row(&k);
}
