/* Programs as a file: what each is goes into a plan; kernels and weights that are equal are there once. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

struct ht_artefact_writer {
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_save_options opt;
	struct ht_buf plans, code, manifest;
	struct ht_map kernel; /* offset in the code, by SHA-256 */
	struct ht_map weight; /* number, by hash and size */
	struct ht_index_variant *variant;
	struct ht_str *bytes; /* of each weight */
	size_t variants, variant_room, weights, weight_room;
	const struct ht_program *first; /* of the variants */
};

/* Room for one more of `n` elements. */
static void *grow(struct ht_arena *a, void *list, size_t n, size_t *room, size_t size)
{
	void *to;

	if (n < *room)
		return list;
	*room = *room ? 2 * *room : 16;
	to = ht_alloc(a, *room * size);
	if (n)
		memcpy(to, list, n * size);
	return to;
}

/* ---- weights ---- */

/* The number of a weight: that of an equal one, where there is one. */
static size_t weight_number(struct ht_artefact_writer *w, const struct ht_rt_buffer *b)
{
	struct ht_hash h = ht_hash_bytes(b->data, b->bytes);
	struct ht_str key = ht_str_printf(&w->arena, "%016llx%016llx:%zu", (unsigned long long)h.hi,
		(unsigned long long)h.lo, b->bytes);
	struct ht_map_entry *e;

	/* The same hash and other bytes: numbers of colliding ones are tried in turn. */
	while ((e = ht_map_at(&w->weight, key))->value) {
		size_t number = *(size_t *)e->value;

		if (!memcmp(w->bytes[number].p, b->data, b->bytes))
			return number;
		key = ht_str_printf(&w->arena, "%.*s+", HT_STR_ARG(key));
	}
	w->bytes = grow(&w->arena, w->bytes, w->weights, &w->weight_room, sizeof *w->bytes);
	w->bytes[w->weights] = (struct ht_str){ b->data, b->bytes };
	e->value = HT_NEW(&w->arena, size_t);
	*(size_t *)e->value = w->weights;
	return w->weights++;
}

/* The weight's place in the plan's list. */
static size_t plan_weight(struct ht_program_plan *plan, size_t number, size_t bytes)
{
	size_t i = 0;

	while (i < plan->weights && plan->weight[i].number != number)
		i++;
	if (i == plan->weights) {
		plan->weight[plan->weights++] = (struct ht_plan_weight){ number, bytes };
		plan->weight_bytes += bytes;
	}
	return i;
}

static void save_memories(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->memories = (size_t)p->rt.buffers;
	plan->memory = HT_NEW_ARRAY(&w->arena, struct ht_plan_memory, plan->memories);
	plan->weight = HT_NEW_ARRAY(&w->arena, struct ht_plan_weight, plan->memories);
	for (size_t i = 0; i < plan->memories; i++) {
		const struct ht_rt_buffer *b = &p->rt.buffer[i];
		uint64_t offset = b->offset;

		if (b->where == HT_RT_CONST)
			offset = plan_weight(plan, weight_number(w, b), b->bytes);
		plan->memory[i] = (struct ht_plan_memory){ b->where, offset, b->bytes };
	}
}

/* ---- kernels ---- */

struct ht_str ht_program_kernel(const struct ht_program *p, size_t i, uint64_t *entry)
{
	if (!p->kernel_of) {
		*entry = p->plan.kernel[i].entry;
		return (struct ht_str){ p->artefact.kernel[i], p->plan.kernel[i].bytes };
	}
	*entry = p->image[i].entry;
	return p->image[i].code;
}

static uint64_t code_offset(
	struct ht_artefact_writer *w, const uint8_t digest[HT_DIGEST], struct ht_str code)
{
	struct ht_str key =
		ht_str_copy(&w->arena, (struct ht_str){ (const char *)digest, HT_DIGEST });
	struct ht_map_entry *e = ht_map_at(&w->kernel, key);

	if (!e->value) {
		e->value = HT_NEW(&w->arena, uint64_t);
		*(uint64_t *)e->value = w->code.n;
		ht_put_str(&w->code, code);
	}
	return *(uint64_t *)e->value;
}

const char *ht_program_library(const struct ht_program *p, size_t i)
{
	const char *name = p->kernel_of ? p->library[i] : p->plan.kernel[i].library;

	return name ? name : "";
}

static void save_kernels(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->kernels = p->info.kernels;
	plan->kernel = HT_NEW_ARRAY(&w->arena, struct ht_plan_code, plan->kernels);
	for (size_t i = 0; i < plan->kernels; i++) {
		struct ht_plan_code *k = &plan->kernel[i];
		struct ht_str code;

		k->library = ht_program_library(p, i);
		if (k->library[0])
			continue;
		code = ht_program_kernel(p, i, &k->entry);
		k->bytes = code.n;
		ht_sha256(code.p, code.n, k->digest);
		k->offset = code_offset(w, k->digest, code);
		plan->code_bytes += k->bytes;
	}
}

size_t ht_program_kernel_of(const struct ht_program *p, size_t step)
{
	return p->kernel_of ? (size_t)p->kernel_of[step] : (size_t)p->plan.call[step].kernel;
}

static void save_calls(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->calls = (size_t)p->rt.steps;
	plan->call = HT_NEW_ARRAY(&w->arena, struct ht_plan_call, plan->calls);
	for (size_t i = 0; i < plan->calls; i++) {
		const struct ht_rt_step *from = &p->rt.step[i];
		struct ht_plan_call *c = &plan->call[i];

		*c = (struct ht_plan_call){ .kernel = ht_program_kernel_of(p, i),
			.tiles = (uint64_t)from->tiles,
			.args = (size_t)from->args,
			.params = (size_t)from->param_count,
			.arg = HT_NEW_ARRAY(&w->arena, int64_t, (size_t)from->args),
			.param = (int64_t *)(uintptr_t)from->params,
			.node = from->node,
			.method = from->method ? from->method : "" };
		for (size_t k = 0; k < c->args; k++)
			c->arg[k] = from->buffer[k];
	}
}

/* ---- a variant ---- */

static struct ht_plan_value *values_of(
	struct ht_arena *a, const struct ht_value_info *from, size_t n)
{
	struct ht_plan_value *v = HT_NEW_ARRAY(a, struct ht_plan_value, n);

	for (size_t i = 0; i < n; i++)
		v[i] = (struct ht_plan_value){ .name = from[i].name,
			.dtype = from[i].dtype,
			.bytes = from[i].bytes,
			.rank = (size_t)from[i].rank,
			.dim = (int64_t *)(uintptr_t)from[i].dim,
			.value_bytes = from[i].value ? from[i].bytes : 0,
			.value = from[i].value };
	return v;
}

static struct ht_program_plan plan_of(struct ht_artefact_writer *w, const struct ht_program *p)
{
	const struct ht_program_info *i = &p->info;
	struct ht_program_plan plan = { .target = i->target,
		.policy = i->policy,
		.provenance = p->provenance,
		.arena_bytes = i->arena_bytes,
		.live_bytes = i->live_bytes,
		.scratch_bytes = i->scratch_bytes,
		.low_nodes = i->low_nodes,
		.float_nodes = i->float_nodes,
		.casts = i->casts,
		.inputs = ht_program_inputs(p),
		.outputs = ht_program_outputs(p),
		.input = values_of(&w->arena, p->input, ht_program_inputs(p)),
		.output = values_of(&w->arena, p->output, ht_program_outputs(p)) };

	save_memories(w, p, &plan);
	save_kernels(w, p, &plan);
	save_calls(w, p, &plan);
	return plan;
}

static struct ht_index_variant variant_of(
	struct ht_artefact_writer *w, const struct ht_program_plan *plan)
{
	struct ht_arena *a = &w->arena;
	struct ht_index_variant v = { .target = ht_str_copy(a, ht_str(plan->target)).p,
		.policy = ht_str_copy(a, ht_str(plan->policy)).p,
		.inputs = plan->inputs,
		.input = HT_NEW_ARRAY(a, struct ht_index_input, plan->inputs),
		.plan_offset = w->plans.n };

	for (size_t i = 0; i < plan->inputs; i++) {
		const struct ht_plan_value *from = &plan->input[i];

		v.input[i] = (struct ht_index_input){ ht_str_copy(a, ht_str(from->name)).p,
			from->rank, HT_NEW_ARRAY(a, int64_t, from->rank) };
		memcpy(v.input[i].dim, from->dim, from->rank * sizeof *from->dim);
	}
	ht_plan_write(plan, &w->plans);
	v.plan_bytes = w->plans.n - v.plan_offset;
	ht_sha256(w->plans.p + v.plan_offset, v.plan_bytes, v.digest);
	return v;
}

static bool same_variant(const struct ht_index_variant *a, const struct ht_index_variant *b)
{
	if (strcmp(a->target, b->target) != 0 || strcmp(a->policy, b->policy) != 0 ||
		a->inputs != b->inputs)
		return false;
	for (size_t i = 0; i < a->inputs; i++)
		if (a->input[i].rank != b->input[i].rank ||
			memcmp(a->input[i].dim, b->input[i].dim,
				a->input[i].rank * sizeof *a->input[i].dim) != 0)
			return false;
	return true;
}

struct adding {
	struct ht_artefact_writer *w;
	const struct ht_program *p;
	struct ht_diags *d;
};

static enum ht_status add(void *arg)
{
	struct adding *x = arg;
	struct ht_artefact_writer *w = x->w;
	struct ht_program_plan plan = plan_of(w, x->p);
	struct ht_index_variant v = variant_of(w, &plan);

	for (size_t i = 0; i < w->variants; i++)
		if (same_variant(&w->variant[i], &v))
			return ht_error(x->d, HT_E_USAGE, HT_NOWHERE,
				"two variants have policy %s, target %s and the same shapes",
				v.policy, v.target);
	w->variant = grow(&w->arena, w->variant, w->variants, &w->variant_room, sizeof v);
	w->variant[w->variants] = v;
	w->first = w->variants ? w->first : x->p;
	ht_manifest_variant(&w->manifest, &plan, w->variants++);
	return HT_OK;
}

enum ht_status ht_artefact_writer_add(
	struct ht_artefact_writer *w, const struct ht_program *p, struct ht_diags *d)
{
	struct adding x = { w, p, d };

	return ht_guarded(&w->unwind, add, &x, d);
}

/* ---- the file ---- */

enum ht_status ht_artefact_writer_new(
	const struct ht_save_options *opt, struct ht_diags *d, struct ht_artefact_writer **out)
{
	static const struct ht_save_options defaults = HT_SAVE_OPTIONS_INIT;
	struct ht_artefact_writer *w = ht_sys_alloc(sizeof *w);

	*out = NULL;
	if (!w)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	w->opt = opt ? *opt : defaults;
	if (w->opt.struct_size < sizeof defaults || w->opt.external_weight < 0 ||
		w->opt.external_weight > HT_WEIGHTS_ONE) {
		free(w);
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"ht_save_options: struct_size %zu, external_weight %d",
			opt ? opt->struct_size : 0, opt ? opt->external_weight : 0);
	}
	ht_arena_init(&w->arena, &w->unwind);
	ht_buf_init(&w->plans, &w->arena);
	ht_buf_init(&w->code, &w->arena);
	ht_buf_init(&w->manifest, &w->arena);
	ht_map_init(&w->kernel, &w->arena);
	ht_map_init(&w->weight, &w->arena);
	*out = w;
	return HT_OK;
}

void ht_artefact_writer_free(struct ht_artefact_writer *w)
{
	if (!w)
		return;
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
		.code = ht_buf_str(&w->code),
		.index = { .variants = w->variants, .variant = w->variant },
		.weight = w->bytes,
		.weights = w->weights,
		.external = (enum ht_external)w->opt.external_weight };

	parts.manifest = ht_manifest(ht_buf_str(&w->manifest), &w->arena);
	*x->out = ht_artefact_make(&parts, &w->arena);
	return HT_OK;
}

enum ht_status ht_artefact_writer_bytes(
	struct ht_artefact_writer *w, struct ht_diags *d, struct ht_artefact_bytes *out)
{
	struct making x = { w, out };

	return ht_guarded(&w->unwind, make, &x, d);
}

/* A program of the cache, by itself: its artefact is these bytes. */
static bool is_there_already(const struct ht_artefact_writer *w)
{
	return w->variants == 1 && w->first->whole.n && !w->opt.sign_key && !w->opt.external_weight;
}

static enum ht_status copy(struct ht_str bytes, const char *path, struct ht_diags *d)
{
	struct ht_output *o;
	enum ht_status st;

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
		return copy(w->first->whole, path, d);
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
	enum ht_status st;

	ht_work_init(&w);
	st = ht_guarded(&w.unwind, sign, &s, d);
	ht_work_release(&w);
	return st;
}
