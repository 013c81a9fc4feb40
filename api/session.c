/* Sessions: variables, and programs that share them. */
#include "api/device.h"
#include "api/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum ht_status ht_session_guarded(struct ht_session *s, struct ht_work *w,
	enum ht_status (*body)(void *arg), void *arg, struct ht_diags *d)
{
	struct ht_unwind *outer = s->arena.unwind;
	enum ht_status st;

	ht_work_init(w);
	s->arena.unwind = s->kept_arena.unwind = &w->unwind;
	st = ht_guarded(&w->unwind, body, arg, d);
	s->arena.unwind = s->kept_arena.unwind = outer;
	ht_work_release(w);
	return st;
}

void ht_session_release_entry(struct ht_session_entry *e)
{
	ht_context_free(e->context);
	ht_program_free(e->program);
}

void ht_session_free(struct ht_session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->entries.count; i++)
		ht_session_release_entry(s->entries.entries[i].value);
	for (size_t i = 0; i < s->variables.count && !s->opt.pages; i++)
		free(((struct ht_session_variable *)s->variables.entries[i].value)->memory);
	ht_session_release_objects(s);
	ht_page_pool_free(&s->pages);
	ht_rt_pool_free(s->pool);
	ht_arena_release(&s->kept_arena);
	ht_arena_release(&s->arena);
	free(s);
}

/* The limits of runs that the caller sets, and the threads. */
static enum ht_status make_pool(struct ht_session *s, struct ht_diags *d)
{
	struct ht_cores cores;

	s->limits = (struct ht_context_options)HT_CONTEXT_OPTIONS_INIT;
	HT_TRY(ht_caller_options(
		s->opt.limits, "ht_context_options", &s->limits, sizeof s->limits, d));
	if (s->limits.device) {
		s->device = *s->limits.device;
		s->limits.device = &s->device;
		HT_TRY(ht_device_find(s->device, &cores, d));
	}
	s->pool = ht_rt_pool_new_on(s->opt.threads, s->limits.device ? &cores : NULL);
	return s->pool ? HT_OK
		       : ht_refuse(d, HT_E_ENVIRONMENT, "no memory or threads for a session");
}

enum ht_status ht_session_new(
	const struct ht_session_options *opt, struct ht_diags *d, struct ht_session **out)
{
	struct ht_session_options all = HT_SESSION_OPTIONS_INIT;
	struct ht_session *s;
	enum ht_status st;

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_session_options", &all, sizeof all, d));
	if (all.threads < 0)
		return ht_refuse(d, HT_E_USAGE, "ht_session_options: %d threads", all.threads);
	if (!all.threads)
		all.threads = 1;
	if (!all.seeded && !ht_draw_seed(&all.seed))
		return ht_refuse(d, HT_E_ENVIRONMENT,
			"the system has no random number for a seed: %s", strerror(errno));
	s = ht_sys_alloc(sizeof *s);
	if (!s)
		return ht_refuse(d, HT_E_ENVIRONMENT, "out of memory");
	s->opt = all;
	s->seed = all.seed;
	s->pages.pages = all.pages;
	ht_arena_init(&s->arena, NULL);
	ht_arena_init(&s->kept_arena, NULL);
	ht_map_init(&s->variables, &s->arena);
	ht_map_init(&s->objects, &s->arena);
	ht_map_init(&s->entries, &s->arena);
	ht_map_init(&s->notes, &s->arena);
	ht_map_init(&s->keys, &s->arena);
	st = make_pool(s, d);
	if (st == HT_OK)
		*out = s;
	else
		ht_session_free(s);
	return st;
}

/* ---- an entry's variables and streams ---- */

void ht_session_write(struct ht_session_variable *v, const void *value)
{
	memcpy(v->memory, value, v->bytes);
	v->version.count++;
	v->set = true;
}

/* Takes the value from a checkpoint that was restored earlier. */
static void take_kept(struct ht_session *s, struct ht_session_variable *v)
{
	const struct ht_str *key = ht_map_get(&s->keys, v->name);

	if (key)
		v->key = *key;
	for (size_t i = 0; i < s->kepts; i++) {
		const struct ht_checkpoint_item *k = &s->kept[i];

		if (!ht_str_eq(k->key, v->key) || k->dtype != v->dtype ||
			!ht_shape_eq(k->shape, v->shape) || k->n != v->bytes)
			continue;
		ht_session_write(v, k->bytes);
	}
}

/* Memory for a variable: large pages if the caller asks for them.  The first time, a warning
 * says if the pages are smaller. */
static void *memory_of(struct ht_session *s, size_t n, struct ht_diags *d)
{
	bool first = !s->pages.area;
	void *p;

	if (s->opt.pages == HT_PAGES_USUAL)
		return ht_rt_memory(n);
	p = ht_page_pool_take(&s->pages, n);
	if (!p)
		ht_page_pool_refused(&s->pages, "variables", n, d);
	else if (first)
		ht_page_pool_tell(&s->pages, "variables", d);
	return p;
}

static struct ht_session_variable *new_variable(
	struct ht_session *s, const struct ht_value_info *from, struct ht_diags *d)
{
	struct ht_session_variable *v = HT_NEW(&s->arena, struct ht_session_variable);

	v->name = v->key = ht_str_copy(&s->arena, ht_str(from->name));
	v->dtype = from->dtype;
	v->shape = ht_shape_make(&s->arena, from->rank, from->dim);
	v->bytes = from->bytes;
	v->memory = memory_of(s, v->bytes, d);
	if (!v->memory) {
		ht_error(d, HT_E_ENVIRONMENT, (struct ht_where){ .node = v->name, .offset = -1 },
			"no memory for %zu bytes of a variable", v->bytes);
		return NULL;
	}
	memset(v->memory, 0, v->bytes);
	take_kept(s, v);
	ht_map_at(&s->variables, v->name)->value = v;
	return v;
}

static enum ht_status variable_of(struct ht_session *s, const struct ht_value_info *from,
	struct ht_diags *d, struct ht_session_variable **out)
{
	struct ht_session_variable *v = ht_session_scale_variable(s, ht_str(from->name));

	if (!v)
		v = ht_map_get(&s->variables, ht_str(from->name));
	*out = v ? v : new_variable(s, from, d);
	if (!*out)
		return HT_E_ENVIRONMENT;
	if (v && (v->dtype != from->dtype ||
			 !ht_shape_eq(v->shape, (struct ht_shape){ from->rank, from->dim })))
		return ht_error(d, HT_E_INPUT, (struct ht_where){ .node = v->name, .offset = -1 },
			"the variable has another type or shape in another entry of the session");
	return HT_OK;
}

/* A variable without a value gets the first value that the program has for it. */
static void begin_variable(struct ht_session *s, const struct ht_program *p,
	const struct ht_value_info *from, struct ht_session_variable *v)
{
	const struct ht_index *x = &p->artefact.index;

	if (v->set || !from->value)
		return;
	ht_session_write(v, from->value);
	for (size_t i = 0; i < x->values && ht_str_eq(v->key, v->name); i++)
		if (ht_str_is(v->name, x->value[i].name))
			v->key = ht_str_copy(&s->arena, ht_str(x->value[i].key));
}

static enum ht_status take_variables(
	struct ht_session *s, struct ht_session_entry *e, struct ht_diags *d)
{
	size_t n = ht_program_variables(e->program);
	struct ht_value_info v;

	e->variable = HT_NEW_ARRAY(&s->arena, struct ht_session_variable *, n + 1);
	e->memory = HT_NEW_ARRAY(&s->arena, char *, n + 1);
	e->version = HT_NEW_ARRAY(&s->arena, struct ht_rt_version *, n + 1);
	for (size_t i = 0; i < n; i++) {
		ht_program_variable(e->program, i, &v);
		HT_TRY(variable_of(s, &v, d, &e->variable[i]));
		begin_variable(s, e->program, &v, e->variable[i]);
		e->memory[i] = e->variable[i]->memory;
		e->version[i] = &e->variable[i]->version;
		e->scaled |= e->variable[i] == &s->scale;
	}
	return HT_OK;
}

struct ht_session_stream *ht_session_stream_of(
	struct ht_session *s, uint64_t name, struct ht_philox first)
{
	struct ht_session_stream **end = &s->streams;

	while (*end && (*end)->name != name)
		end = &(*end)->next;
	if (!*end) {
		*end = HT_NEW(&s->arena, struct ht_session_stream);
		**end = (struct ht_session_stream){ name, first, NULL };
	}
	return *end;
}

static uint32_t stream_count(const struct ht_session_entry *e)
{
	return ht_image_count(e->program->rt.image, HT_IMAGE_RANDOM);
}

static void take_streams(struct ht_session *s, struct ht_session_entry *e)
{
	const struct ht_image *x = e->program->rt.image;

	ht_context_set_seed(e->context, s->seed);
	e->stream = HT_NEW_ARRAY(&s->arena, struct ht_session_stream *, stream_count(e) + 1);
	for (uint32_t i = 0; i < stream_count(e); i++)
		e->stream[i] = ht_session_stream_of(
			s, ht_image_random(x)[i].name, ht_context_streams(e->context)[i]);
}

/* ---- entries ---- */

struct adding {
	struct ht_session *s;
	struct ht_session_entry *e;
	struct ht_diags *d;
	struct ht_work *w;
};

static enum ht_status bind(void *arg)
{
	struct adding *a = arg;
	struct ht_session *s = a->s;
	struct ht_context_options opt = s->limits;
	void *const *object;

	opt.threads = s->opt.threads;
	opt.keep_subnormals = s->opt.keep_subnormals;
	opt.cancel = s->opt.cancel;
	opt.guard = HT_GUARD_NONE;
	opt.max_iterations = 0;
	opt.max_depth = 0;
	opt.memory = NULL;
	opt.allocate = NULL;
	HT_TRY(take_variables(s, a->e, a->d));
	opt.variable = (void *const *)a->e->memory;
	if (!ht_target_runs(a->e->program->info.target))
		return HT_OK;
	HT_TRY(ht_session_objects(s, a->e->program, &a->w->arena, a->d, &object));
	HT_TRY(ht_context_sharing(a->e->program, &opt, s->pool, object, a->d, &a->e->context));
	ht_rt_context_versions(ht_context_rt(a->e->context), a->e->version);
	take_streams(s, a->e);
	return HT_OK;
}

enum ht_status ht_session_bind(struct ht_session *s, const char *name, struct ht_program *p,
	struct ht_diags *d, struct ht_session_entry *e)
{
	struct ht_work w;
	struct adding a = { s, e, d, &w };
	enum ht_status st;

	*e = (struct ht_session_entry){ .name = name, .program = p };
	st = ht_session_scale_as(s, p, d);
	if (st == HT_OK)
		st = ht_session_guarded(s, &w, bind, &a, d);
	if (st != HT_OK)
		ht_session_release_entry(e);
	return st;
}

static enum ht_status keep(void *arg)
{
	struct adding *a = arg;
	struct ht_session_entry *e = HT_NEW(&a->s->arena, struct ht_session_entry);
	struct ht_str name = ht_str_copy(&a->s->arena, ht_str(a->e->name));
	struct ht_map_entry *slot = ht_map_at(&a->s->entries, name);

	*e = *a->e;
	e->name = name.p;
	slot->value = e;
	return HT_OK;
}

enum ht_status ht_session_keep(struct ht_session *s, struct ht_session_entry *e, struct ht_diags *d)
{
	struct ht_work w;
	struct adding a = { s, e, d, &w };
	enum ht_status st = ht_session_guarded(s, &w, keep, &a, d);

	if (st != HT_OK)
		ht_session_release_entry(e);
	return st;
}

enum ht_status ht_session_is_new(const struct ht_session *s, const char *name, struct ht_diags *d)
{
	return ht_map_get(&s->entries, ht_str(name))
		       ? ht_refuse(d, HT_E_USAGE, "the session has an entry '%s' already", name)
		       : HT_OK;
}

enum ht_status ht_session_take(
	struct ht_session *s, const char *name, struct ht_program *p, struct ht_diags *d)
{
	struct ht_session_entry e;
	enum ht_status st = ht_session_is_new(s, name, d);

	if (st != HT_OK) {
		ht_program_free(p);
		return st;
	}
	HT_TRY(ht_session_bind(s, name, p, d, &e));
	return ht_session_keep(s, &e, d);
}

const struct ht_program *ht_session_program(const struct ht_session *s, const char *name)
{
	const struct ht_session_entry *e = ht_map_get(&s->entries, ht_str(name));

	return e ? e->program : NULL;
}

struct ht_context *ht_session_context(const struct ht_session *s, const char *name)
{
	const struct ht_session_entry *e = ht_map_get(&s->entries, ht_str(name));

	return e ? e->context : NULL;
}

/* ---- runs ---- */

static const struct ht_image_variable *used(const struct ht_session_entry *e, size_t i)
{
	return &ht_image_variables(e->program->rt.image)[i];
}

static enum ht_status check_ready(struct ht_session_entry *e, struct ht_diags *d)
{
	size_t n = ht_program_variables(e->program);

	for (size_t i = 0; i < n && !e->ready; i++)
		if (used(e, i)->use & HT_IMAGE_NEEDS && !e->variable[i]->set)
			return ht_error(d, HT_E_INPUT,
				(struct ht_where){ .node = e->variable[i]->name, .offset = -1 },
				"the variable has no value when '%s' runs: initialise the session, "
				"or restore a checkpoint",
				e->name);
	e->ready = true;
	return HT_OK;
}

enum ht_status ht_session_run_entry(struct ht_session *s, struct ht_session_entry *e,
	const struct ht_array *in, size_t ins, const struct ht_array *out, size_t outs,
	struct ht_diags *d)
{
	struct ht_philox *stream;
	enum ht_status st;

	if (!e->context)
		return ht_refuse(d, HT_E_UNSUPPORTED,
			"the entry '%s' is for %s; this machine runs %s", e->name,
			e->program->info.target, ht_target_host()->name);
	HT_TRY(check_ready(e, d));
	stream = ht_context_streams(e->context);
	for (uint32_t i = 0; i < stream_count(e); i++)
		stream[i] = e->stream[i]->at;
	st = ht_context_run(e->context, in, ins, out, outs, d);
	for (uint32_t i = 0; i < stream_count(e); i++)
		e->stream[i]->at = stream[i];
	if (st != HT_OK)
		return st;
	for (size_t i = 0; i < ht_program_variables(e->program); i++)
		if (used(e, i)->use & HT_IMAGE_ASSIGNS)
			e->variable[i]->set = true;
	if (e->scaled)
		ht_session_update_scale(s);
	return HT_OK;
}

enum ht_status ht_session_run(struct ht_session *s, const char *name, const struct ht_array *in,
	size_t ins, const struct ht_array *out, size_t outs, struct ht_diags *d)
{
	struct ht_session_entry *e = ht_map_get(&s->entries, ht_str(name));

	if (!e)
		return ht_refuse(d, HT_E_USAGE, "the session has no entry '%s'", name);
	return ht_session_run_entry(s, e, in, ins, out, outs, d);
}

/* ---- variables ---- */

size_t ht_session_variables(const struct ht_session *s)
{
	return s->variables.count;
}

int ht_session_variable(const struct ht_session *s, size_t i, struct ht_value_info *out)
{
	const struct ht_session_variable *v;

	if (i >= s->variables.count)
		return 0;
	v = s->variables.entries[i].value;
	*out = (struct ht_value_info){ .name = v->name.p,
		.dtype = v->dtype,
		.rank = v->shape.rank,
		.dim = v->shape.dim,
		.bytes = v->bytes,
		.value = v->set ? v->memory : NULL };
	return 1;
}

enum ht_status ht_session_assign(
	struct ht_session *s, size_t i, const struct ht_array *a, struct ht_diags *d)
{
	struct ht_session_variable *v;

	if (i >= s->variables.count)
		return ht_refuse(d, HT_E_USAGE, "the session has no variable %zu", i);
	v = s->variables.entries[i].value;
	if (a->dtype != v->dtype || a->bytes != v->bytes ||
		!ht_shape_eq(v->shape, (struct ht_shape){ a->rank, a->dim }))
		return ht_error(d, HT_E_INPUT, (struct ht_where){ .node = v->name, .offset = -1 },
			"the value has another type or shape than its variable");
	ht_session_write(v, a->data);
	return HT_OK;
}
