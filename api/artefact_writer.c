/* Writes programs to a file, .htx: variants, each with its plan, and the code and weights that
 * they share. */
#include "api/save.h"
#include "api/session.h"

#include <stdlib.h>
#include <string.h>

struct ht_artefact_writer {
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_save_options opt;
	struct ht_saving saving;
	struct ht_buf plans, manifest;
	struct ht_index_variant *variant;
	size_t variants, variant_room;
	struct ht_index_value *value; /* of variables */
	size_t values, value_room;
	bool valued;                          /* a session has set `value` */
	const char *scaled_loss, *loss_scale; /* NULL: there is none */
	struct ht_str whole; /* of the first variant's program, if it is from the cache */
	struct owned *owned;
	struct ht_spill *spill; /* NULL: nothing was spilled yet */
};

/* A program that the writer owns. */
struct owned {
	struct owned *next;
	struct ht_program *p;
	size_t first, end; /* the weights that no program before it had */
};

/* ---- a variant ---- */

static struct ht_index_input input_of(
	const struct ht_image *x, const struct ht_image_port *from, struct ht_arena *a)
{
	struct ht_index_input in = { .name = ht_str_copy(a, ht_str(ht_image_text(x, from->name))).p,
		.alias = ht_str_copy(a, ht_str(ht_image_text(x, from->alias))).p,
		.rank = from->rank,
		.dim = HT_NEW_ARRAY(a, int64_t, from->rank),
		.bound = HT_NEW_ARRAY(a, int64_t, 2 * (size_t)from->rank) };

	for (uint32_t i = 0; i < from->rank; i++) {
		const struct ht_image_size *size;

		in.dim[i] = ht_image_dims(x)[from->dim + i];
		if (in.dim[i] >= 0)
			continue;
		size = &ht_image_sizes(x)[ht_image_size_of_extent(x, in.dim[i])];
		in.bound[in.bounds++] = size->least;
		in.bound[in.bounds++] = size->most;
	}
	return in;
}

static struct ht_index_variant variant_of(
	struct ht_artefact_writer *w, const char *entry, const struct ht_program_plan *plan)
{
	const struct ht_image *x = ht_plan_image(plan);
	const struct ht_image_entry *e = ht_image_entries(x);
	struct ht_arena *a = &w->arena;
	struct ht_index_variant v = { .target = ht_str_copy(a, ht_str(plan->target)).p,
		.policy = ht_str_copy(a, ht_str(plan->policy)).p,
		.entry = ht_str_copy(a, ht_str(entry)).p,
		.inputs = e->inputs,
		.input = HT_NEW_ARRAY(a, struct ht_index_input, e->inputs),
		.plan_offset = w->plans.n };

	for (size_t i = 0; i < e->inputs; i++)
		v.input[i] = input_of(x, &ht_image_ports(x)[e->port + i], a);
	ht_plan_write(plan, &w->plans);
	v.plan_bytes = w->plans.n - v.plan_offset;
	ht_sha256(w->plans.p + v.plan_offset, v.plan_bytes, v.digest);
	return v;
}

static bool same_variant(const struct ht_index_variant *a, const struct ht_index_variant *b)
{
	return !strcmp(a->entry, b->entry) && !strcmp(a->target, b->target) &&
	       !strcmp(a->policy, b->policy) && ht_variants_share_shapes(a, b);
}

/* ---- values of variables ---- */

static void put_value(
	struct ht_artefact_writer *w, struct ht_index_value v, const void *bytes, size_t n)
{
	struct ht_arena *a = &w->arena;

	for (size_t i = 0; i < w->values; i++)
		if (!strcmp(w->value[i].name, v.name))
			return;
	v.name = ht_str_copy(a, ht_str(v.name)).p;
	v.key = ht_str_copy(a, ht_str(v.key)).p;
	v.dim = (int64_t *)(uintptr_t)ht_shape_make(a, (int32_t)v.rank, v.dim).dim;
	v.weight = ht_saving_weight(&w->saving, (struct ht_str){ bytes, n });
	w->value = ht_grow(a, w->value, w->values, &w->value_room, sizeof v);
	w->value[w->values++] = v;
}

static void put_scale(struct ht_artefact_writer *w, const char *loss, const char *how)
{
	if (!loss || !*loss)
		return;
	w->scaled_loss = ht_str_copy(&w->arena, ht_str(loss)).p;
	w->loss_scale = ht_str_copy(&w->arena, ht_str(how)).p;
}

/* Keeps the values of a loaded program. */
static void keep_values(struct ht_artefact_writer *w, const struct ht_program *p)
{
	const struct ht_index *x = &p->artefact.index;
	struct ht_value_info v;

	for (size_t i = 0; p->rt.initial && ht_program_variable(p, i, &v); i++)
		for (size_t k = 0; k < x->values && p->rt.initial[i]; k++)
			if (!strcmp(x->value[k].name, v.name))
				put_value(w, x->value[k], v.value, v.bytes);
	put_scale(w, x->scaled_loss, x->loss_scale);
}

struct adding {
	struct ht_artefact_writer *w;
	const char *entry; /* "": none */
	const struct ht_program *p;
	struct ht_diags *d;
};

static enum ht_status add(void *arg)
{
	struct adding *x = arg;
	struct ht_artefact_writer *w = x->w;
	struct ht_program_plan plan = ht_saving_plan(&w->saving, x->p);
	struct ht_index_variant v = variant_of(w, x->entry, &plan);

	HT_TRY(ht_program_files_check(x->p, x->d));
	for (size_t i = 0; i < w->variants; i++)
		if (same_variant(&w->variant[i], &v))
			return ht_error(x->d, HT_E_USAGE, HT_NOWHERE,
				"two variants%s%s have policy %s, target %s and the same shapes",
				*v.entry ? " of entry " : "", v.entry, v.policy, v.target);
	w->variant = ht_grow(&w->arena, w->variant, w->variants, &w->variant_room, sizeof v);
	w->variant[w->variants] = v;
	if (!w->variants && !*x->entry)
		w->whole = x->p->whole;
	keep_values(w, x->p);
	ht_manifest_variant(&w->manifest, &plan, x->entry, w->variants++);
	return HT_OK;
}

enum ht_status ht_artefact_writer_add(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_diags *d)
{
	struct adding x = { w, p->info.entry ? p->info.entry : "", p, d };

	return ht_guarded(&w->unwind, add, &x, d);
}

enum ht_status ht_artefact_writer_add_entry(struct ht_artefact_writer *w, const char *entry,
	const struct ht_program *p, struct ht_diags *d)
{
	struct adding x = { w, entry, p, d };

	if (!*entry)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "an entry needs a name");
	return ht_guarded(&w->unwind, add, &x, d);
}

/* ---- a session's values ---- */

struct valuing {
	struct ht_artefact_writer *w;
	const struct ht_session *s;
};

static enum ht_status add_values(void *arg)
{
	struct valuing *x = arg;
	const struct ht_session *s = x->s;

	for (size_t i = 0; i < s->variables.count; i++) {
		const struct ht_session_variable *v = s->variables.entries[i].value;

		if (v->set)
			put_value(x->w,
				(struct ht_index_value){ .name = v->name.p,
					.key = v->key.p,
					.dtype = v->dtype,
					.rank = (size_t)v->shape.rank,
					.dim = (int64_t *)(uintptr_t)v->shape.dim },
				v->memory, v->bytes);
	}
	put_scale(x->w, s->scaling.loss, s->loss_scale);
	return HT_OK;
}

enum ht_status ht_artefact_writer_add_values(
	struct ht_artefact_writer *w, const struct ht_session *s, struct ht_diags *d)
{
	struct valuing x = { w, s };

	if (w->valued)
		return ht_error(
			d, HT_E_USAGE, HT_NOWHERE, "the artefact has values of a session already");
	w->valued = true;
	return ht_guarded(&w->unwind, add_values, &x, d);
}

/* ---- programs of the writer's ---- */

enum ht_status ht_artefact_writer_take(
	struct ht_artefact_writer *w, struct ht_program *p, struct ht_diags *d)
{
	struct owned *o = ht_sys_alloc(sizeof *o);
	enum ht_status st;

	if (!o) {
		ht_program_free(p);
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	}
	*o = (struct owned){ .next = w->owned, .p = p, .first = w->saving.weights };
	w->owned = o;
	st = ht_artefact_writer_add(w, p, d);
	o->end = w->saving.weights;
	return st;
}

static void free_owned(struct owned **at)
{
	struct owned *o = *at;

	*at = o->next;
	ht_program_free(o->p);
	free(o);
}

/* Whether a program's weights are in memory.  Those of a loaded program are in a file, except
 * for an entry of the cache that was read into memory. */
static bool is_in_memory(const struct ht_program *p)
{
	return p->kernel_code || p->whole_is_read;
}

enum ht_status ht_artefact_writer_spill(
	struct ht_artefact_writer *w, const char *path, struct ht_diags *d)
{
	struct owned **at = &w->owned;

	while (*at) {
		struct owned *o = *at;

		if (!is_in_memory(o->p)) {
			at = &o->next;
			continue;
		}
		if (o->end > o->first) {
			if (!w->spill)
				HT_TRY(ht_spill_open(path, d, &w->spill));
			HT_TRY(ht_spill_pieces(
				w->spill, w->saving.bytes + o->first, o->end - o->first, d));
		}
		if (w->whole.p == o->p->whole.p)
			w->whole = HT_STR("");
		free_owned(at);
	}
	return HT_OK;
}

/* ---- the file ---- */

enum ht_status ht_artefact_writer_new(
	const struct ht_save_options *opt, struct ht_diags *d, struct ht_artefact_writer **out)
{
	struct ht_save_options all = HT_SAVE_OPTIONS_INIT;
	struct ht_artefact_writer *w;

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_save_options", &all, sizeof all, d));
	if (all.external_weight < 0 || all.external_weight > HT_WEIGHTS_ONE)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"ht_save_options: external_weight %d is not 0, 1 or 2",
			all.external_weight);
	w = ht_sys_alloc(sizeof *w);
	if (!w)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	w->opt = all;
	ht_arena_init(&w->arena, &w->unwind);
	ht_buf_init(&w->plans, &w->arena);
	ht_buf_init(&w->manifest, &w->arena);
	ht_saving_init(&w->saving, &w->arena);
	*out = w;
	return HT_OK;
}

void ht_artefact_writer_free(struct ht_artefact_writer *w)
{
	if (!w)
		return;
	while (w->owned)
		free_owned(&w->owned);
	ht_spill_free(w->spill);
	ht_arena_release(&w->arena);
	free(w);
}

struct making {
	struct ht_artefact_writer *w;
	struct ht_artefact_bytes *out;
};

static enum ht_status make(void *arg)
{
	struct making *x = arg;
	struct ht_artefact_writer *w = x->w;
	struct ht_artefact_parts parts = { .plans = ht_buf_str(&w->plans),
		.code = ht_buf_str(&w->saving.code),
		.index = { .variants = w->variants,
			.variant = w->variant,
			.values = w->values,
			.value = w->value,
			.scaled_loss = w->scaled_loss,
			.loss_scale = w->loss_scale },
		.weight = w->saving.bytes,
		.weights = w->saving.weights,
		.external = (enum ht_external)w->opt.external_weight };

	parts.manifest = ht_manifest(ht_buf_str(&w->manifest), &parts.index, &w->arena);
	*x->out = ht_artefact_make(&parts, &w->arena);
	return HT_OK;
}

enum ht_status ht_artefact_writer_bytes(
	struct ht_artefact_writer *w, struct ht_diags *d, struct ht_artefact_bytes *out)
{
	struct making x = { w, out };

	if (w->spill)
		HT_TRY(ht_spill_check(w->spill, d));
	return ht_guarded(&w->unwind, make, &x, d);
}

/* Whether the file has only one program, which is from the cache: its bytes are the artefact. */
static bool is_there_already(const struct ht_artefact_writer *w)
{
	return w->variants == 1 && w->whole.n && !w->values && !w->opt.sign_key &&
	       !w->opt.external_weight;
}

static enum ht_status copy(struct ht_str bytes, const char *path, struct ht_diags *d)
{
	struct ht_output *o;
	enum ht_status st;

	if (ht_output_is_there(path, bytes))
		return HT_OK;
	HT_TRY(ht_output_open(path, d, &o));
	st = ht_output_write(o, bytes.p, bytes.n);
	if (st == HT_OK)
		return ht_output_commit(o);
	ht_output_abort(o);
	return st;
}

enum ht_status ht_artefact_writer_write(
	struct ht_artefact_writer *w, const char *path, struct ht_diags *d)
{
	struct ht_artefact_bytes b;

	if (!w->variants)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "an artefact needs a program");
	if (is_there_already(w))
		return copy(w->whole, path, d);
	HT_TRY(ht_artefact_writer_bytes(w, d, &b));
	if (w->opt.sign_key)
		HT_TRY(ht_artefact_bytes_sign(&b, w->opt.sign_key, d));
	return ht_artefact_write(path, &b, d);
}

enum ht_status ht_program_save(const struct ht_program *p, const char *path, struct ht_diags *d)
{
	struct ht_artefact_writer *w;
	enum ht_status st;

	HT_TRY(ht_artefact_writer_new(NULL, d, &w));
	st = ht_artefact_writer_add(w, p, d);
	if (st == HT_OK)
		st = ht_artefact_writer_write(w, path, d);
	ht_artefact_writer_free(w);
	return st;
}

struct signing {
	const char *path, *key, *to;
	struct ht_work *w;
	struct ht_diags *d;
};

static enum ht_status sign(void *arg)
{
	struct signing *s = arg;

	return ht_artefact_sign_file(s->path, s->key, s->to, &s->w->arena, s->d);
}

enum ht_status ht_artefact_sign(
	const char *path, const char *key, const char *to, struct ht_diags *d)
{
	struct ht_work w;
	struct signing s = { path, key, to, &w, d };

	return ht_work_run(&w, sign, &s, d);
}
