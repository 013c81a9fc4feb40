/* What a program is, as a plan; its kernels and weights go where equal ones are there once. */
#include "api/save.h"

#include <string.h>

void ht_saving_init(struct ht_saving *s, struct ht_arena *a)
{
	*s = (struct ht_saving){ .arena = a };
	ht_buf_init(&s->code, a);
	ht_map_init(&s->kernel, a);
	ht_map_init(&s->weight, a);
}

/* ---- weights ---- */

/* The number of a weight: that of an equal one, where there is one. */
static size_t weight_number(struct ht_saving *s, const struct ht_rt_buffer *b)
{
	struct ht_hash h = ht_hash_bytes(b->data, b->bytes);
	struct ht_str key = ht_str_printf(s->arena, "%016llx%016llx:%zu", (unsigned long long)h.hi,
		(unsigned long long)h.lo, b->bytes);
	struct ht_map_entry *e;

	/* The same hash and other bytes: numbers of colliding ones are tried in turn. */
	while ((e = ht_map_at(&s->weight, key))->value) {
		size_t number = *(size_t *)e->value;

		if (!memcmp(s->bytes[number].p, b->data, b->bytes))
			return number;
		key = ht_str_printf(s->arena, "%.*s+", HT_STR_ARG(key));
	}
	s->bytes = ht_grow(s->arena, s->bytes, s->weights, &s->weight_room, sizeof *s->bytes);
	s->bytes[s->weights] = (struct ht_str){ b->data, b->bytes };
	e->value = HT_NEW(s->arena, size_t);
	*(size_t *)e->value = s->weights;
	return s->weights++;
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
	struct ht_saving *s, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->memories = (size_t)p->rt.buffers;
	plan->memory = HT_NEW_ARRAY(s->arena, struct ht_plan_memory, plan->memories);
	plan->weight = HT_NEW_ARRAY(s->arena, struct ht_plan_weight, plan->memories);
	for (size_t i = 0; i < plan->memories; i++) {
		const struct ht_rt_buffer *b = &p->rt.buffer[i];
		uint64_t offset = b->offset;

		if (b->where == HT_RT_CONST)
			offset = plan_weight(plan, weight_number(s, b), b->bytes);
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
	struct ht_saving *s, const uint8_t digest[HT_DIGEST], struct ht_str code)
{
	struct ht_str key =
		ht_str_copy(s->arena, (struct ht_str){ (const char *)digest, HT_DIGEST });
	struct ht_map_entry *e = ht_map_at(&s->kernel, key);

	if (!e->value) {
		e->value = HT_NEW(s->arena, uint64_t);
		*(uint64_t *)e->value = s->code.n;
		ht_put_str(&s->code, code);
	}
	return *(uint64_t *)e->value;
}

const char *ht_program_library(const struct ht_program *p, size_t i)
{
	const char *name = p->kernel_of ? p->library[i] : p->plan.kernel[i].library;

	return name ? name : "";
}

static void save_kernels(
	struct ht_saving *s, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->kernels = p->info.kernels;
	plan->kernel = HT_NEW_ARRAY(s->arena, struct ht_plan_code, plan->kernels);
	for (size_t i = 0; i < plan->kernels; i++) {
		struct ht_plan_code *k = &plan->kernel[i];
		struct ht_str code;

		k->library = ht_program_library(p, i);
		if (k->library[0])
			continue;
		code = ht_program_kernel(p, i, &k->entry);
		k->bytes = code.n;
		ht_sha256(code.p, code.n, k->digest);
		k->offset = code_offset(s, k->digest, code);
		plan->code_bytes += k->bytes;
	}
}

size_t ht_program_kernel_of(const struct ht_program *p, size_t step)
{
	return p->kernel_of ? (size_t)p->kernel_of[step] : (size_t)p->plan.call[step].kernel;
}

static void save_calls(
	struct ht_saving *s, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->calls = (size_t)p->rt.steps;
	plan->call = HT_NEW_ARRAY(s->arena, struct ht_plan_call, plan->calls);
	for (size_t i = 0; i < plan->calls; i++) {
		const struct ht_rt_step *from = &p->rt.step[i];
		struct ht_plan_call *c = &plan->call[i];

		*c = (struct ht_plan_call){ .kernel = ht_program_kernel_of(p, i),
			.tiles = (uint64_t)from->tiles,
			.args = (size_t)from->args,
			.params = (size_t)from->param_count,
			.arg = HT_NEW_ARRAY(s->arena, int64_t, (size_t)from->args),
			.param = (int64_t *)(uintptr_t)from->params,
			.node = from->node,
			.method = from->method ? from->method : "",
			.words_count = from->words_count,
			.words = (struct ht_words *)(uintptr_t)from->words };
		for (size_t k = 0; k < c->args; k++)
			c->arg[k] = from->buffer[k];
	}
}

static void save_streams(
	struct ht_saving *s, const struct ht_program *p, struct ht_program_plan *plan)
{
	plan->streams = (size_t)p->rt.streams;
	plan->stream = HT_NEW_ARRAY(s->arena, struct ht_rt_stream, plan->streams);
	for (size_t i = 0; i < plan->streams; i++)
		plan->stream[i] = p->rt.stream[i];
}

/* ---- the plan ---- */

static struct ht_plan_value *values_of(
	struct ht_arena *a, const struct ht_value_info *from, const char *const *alias, size_t n)
{
	struct ht_plan_value *v = HT_NEW_ARRAY(a, struct ht_plan_value, n);

	for (size_t i = 0; i < n; i++)
		v[i] = (struct ht_plan_value){ .name = from[i].name,
			.alias = alias[i],
			.dtype = from[i].dtype,
			.bytes = from[i].bytes,
			.rank = (size_t)from[i].rank,
			.dim = (int64_t *)(uintptr_t)from[i].dim,
			.value_bytes = from[i].value ? from[i].bytes : 0,
			.value = from[i].value };
	return v;
}

struct ht_program_plan ht_saving_plan(struct ht_saving *s, const struct ht_program *p)
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
		.parts = i->parts,
		.inputs = ht_program_inputs(p),
		.outputs = ht_program_outputs(p),
		.input = values_of(s->arena, p->input, p->input_alias, ht_program_inputs(p)),
		.output = values_of(s->arena, p->output, p->output_alias, ht_program_outputs(p)) };

	save_memories(s, p, &plan);
	save_kernels(s, p, &plan);
	save_calls(s, p, &plan);
	save_streams(s, p, &plan);
	return plan;
}
