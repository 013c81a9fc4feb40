/* A program as a file: what it is goes into a plan, its bytes into an artefact. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

struct save {
	const struct ht_program *p;
	struct ht_arena *arena;
	struct ht_program_plan plan;
	struct ht_artefact_parts parts;
	struct ht_str *weight;
	struct ht_buf code;
};

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

/* Constants that are one in memory are one weight. */
static uint64_t weight_offset(struct save *s, const struct ht_rt_buffer *b)
{
	uint64_t at = 0, end = 0;

	for (size_t i = 0; i < s->parts.weights; i++) {
		at = ht_artefact_next(end);
		if (s->weight[i].p == b->data && s->weight[i].n == b->bytes)
			return at;
		end = at + s->weight[i].n;
	}
	s->weight[s->parts.weights++] = (struct ht_str){ b->data, b->bytes };
	at = ht_artefact_next(end);
	s->plan.weight_bytes = at + b->bytes;
	return at;
}

static void save_memories(struct save *s)
{
	const struct ht_rt_program *rt = &s->p->rt;

	s->plan.memories = (size_t)rt->buffers;
	s->plan.memory = HT_NEW_ARRAY(s->arena, struct ht_plan_memory, s->plan.memories);
	s->weight = HT_NEW_ARRAY(s->arena, struct ht_str, s->plan.memories);
	for (size_t i = 0; i < s->plan.memories; i++) {
		const struct ht_rt_buffer *b = &rt->buffer[i];

		s->plan.memory[i] = (struct ht_plan_memory){ b->where,
			b->where == HT_RT_CONST ? weight_offset(s, b) : b->offset, b->bytes };
	}
	s->parts.weight = s->weight;
}

static void save_kernels(struct save *s)
{
	const struct ht_program *p = s->p;

	ht_buf_init(&s->code, s->arena);
	s->plan.kernels = p->info.kernels;
	s->plan.kernel = HT_NEW_ARRAY(s->arena, struct ht_plan_code, s->plan.kernels);
	for (size_t i = 0; i < s->plan.kernels; i++) {
		struct ht_plan_code *k = &s->plan.kernel[i];
		struct ht_str code;
		size_t entry;

		k->library = p->library[i] ? p->library[i] : "";
		if (p->library[i])
			continue;
		while (s->code.n % 64)
			ht_putc(&s->code, 0);
		code = p->backend->kernel_code(p->code, (int32_t)i, &entry);
		k->offset = s->code.n;
		k->bytes = code.n;
		k->entry = entry;
		ht_put_str(&s->code, code);
	}
	s->plan.code_bytes = s->code.n;
}

static void save_calls(struct save *s)
{
	const struct ht_program *p = s->p;

	s->plan.calls = (size_t)p->rt.steps;
	s->plan.call = HT_NEW_ARRAY(s->arena, struct ht_plan_call, s->plan.calls);
	for (size_t i = 0; i < s->plan.calls; i++) {
		const struct ht_rt_step *from = &p->rt.step[i];
		struct ht_plan_call *c = &s->plan.call[i];

		*c = (struct ht_plan_call){ .kernel = (uint64_t)p->kernel_of[i],
			.tiles = (uint64_t)from->tiles,
			.args = (size_t)from->args,
			.params = (size_t)from->param_count,
			.arg = HT_NEW_ARRAY(s->arena, uint64_t, (size_t)from->args),
			.param = (int64_t *)(uintptr_t)from->params,
			.node = from->node,
			.method = from->method ? from->method : "" };
		for (size_t k = 0; k < c->args; k++)
			c->arg[k] = (uint64_t)from->buffer[k];
	}
}

static void put_field(struct ht_buf *b, const char *name, const char *value)
{
	ht_printf(b, ",\n \"%s\": ", name);
	ht_put_json(b, ht_str(value));
}

static void put_values(struct ht_buf *b, const char *name, const struct ht_value_info *v, size_t n)
{
	ht_printf(b, ",\n \"%s\": [", name);
	for (size_t i = 0; i < n; i++) {
		ht_printf(b, "%s\n  {\"name\": ", i ? "," : "");
		ht_put_json(b, ht_str(v[i].name));
		ht_printf(b, ", \"dtype\": \"%s\", \"shape\": [", ht_dtype_info(v[i].dtype)->name);
		for (int32_t k = 0; k < v[i].rank; k++)
			ht_printf(b, "%s%lld", k ? ", " : "", (long long)v[i].dim[k]);
		ht_puts(b, "]}");
	}
	ht_puts(b, "]");
}

/* For people and tools; nothing of it is read when the artefact is loaded. */
static struct ht_str manifest(const struct ht_program *p, struct ht_arena *a)
{
	const struct ht_program_info *i = &p->info;
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_puts(&b, "{\"schema\": \"halftone.artefact/1\"");
	put_field(&b, "halftone", ht_version());
	put_field(&b, "llvm", p->backend->llvm_version());
	put_field(&b, "target", i->target);
	put_field(&b, "policy", i->policy);
	ht_printf(&b,
		",\n \"float_nodes\": %zu, \"low_nodes\": %zu, \"casts\": %zu,\n"
		" \"steps\": %zu, \"kernels\": %zu, \"code_bytes\": %zu, \"weight_bytes\": %zu,\n"
		" \"arena_bytes\": %zu, \"live_bytes\": %zu, \"scratch_bytes\": %zu",
		i->float_nodes, i->low_nodes, i->casts, i->steps, i->kernels, i->code_bytes,
		i->weight_bytes, i->arena_bytes, i->live_bytes, i->scratch_bytes);
	put_values(&b, "inputs", p->input, ht_program_inputs(p));
	put_values(&b, "outputs", p->output, ht_program_outputs(p));
	ht_puts(&b, "}\n");
	return ht_buf_str(&b);
}

static enum ht_status save(
	const struct ht_program *p, const char *path, struct ht_arena *a, struct ht_diags *d)
{
	struct save s = { .p = p, .arena = a };
	const struct ht_program_info *i = &p->info;
	struct ht_buf plan;

	s.plan = (struct ht_program_plan){ .target = i->target,
		.policy = i->policy,
		.arena_bytes = i->arena_bytes,
		.live_bytes = i->live_bytes,
		.scratch_bytes = i->scratch_bytes,
		.low_nodes = i->low_nodes,
		.float_nodes = i->float_nodes,
		.casts = i->casts,
		.inputs = ht_program_inputs(p),
		.outputs = ht_program_outputs(p),
		.input = values_of(a, p->input, ht_program_inputs(p)),
		.output = values_of(a, p->output, ht_program_outputs(p)) };
	save_memories(&s);
	save_kernels(&s);
	save_calls(&s);
	ht_buf_init(&plan, a);
	ht_plan_write(&s.plan, &plan);
	s.parts.manifest = manifest(p, a);
	s.parts.plan = ht_buf_str(&plan);
	s.parts.code = ht_buf_str(&s.code);
	return ht_artefact_write(path, &s.parts, d);
}

struct saving {
	const struct ht_program *p;
	const char *path;
	struct ht_work *w;
	struct ht_diags *d;
};

static enum ht_status save_guarded(void *arg)
{
	struct saving *s = arg;

	return save(s->p, s->path, &s->w->arena, s->d);
}

enum ht_status ht_program_save(const struct ht_program *p, const char *path, struct ht_diags *d)
{
	struct ht_work w;
	struct saving s = { p, path, &w, d };
	enum ht_status st;

	if (!p->backend)
		return ht_error(d, HT_E_UNSUPPORTED,
			(struct ht_where){ .path = path, .offset = -1 },
			"the program comes from an artefact: copy that file");
	ht_work_init(&w);
	st = ht_guarded(&w.unwind, save_guarded, &s, d);
	ht_work_release(&w);
	return st;
}
