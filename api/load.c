/* A program from a file: an artefact's plan, with its code and weights in their places. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

struct load {
	struct ht_program *p;
	const char *path;
	struct ht_program_plan plan;
	struct ht_diags *d;
};

static struct ht_value_info *infos_of(
	struct ht_arena *a, const struct ht_plan_value *from, size_t n)
{
	struct ht_value_info *v = HT_NEW_ARRAY(a, struct ht_value_info, n);

	for (size_t i = 0; i < n; i++)
		v[i] = (struct ht_value_info){ .name = from[i].name,
			.dtype = (enum ht_dtype)from[i].dtype,
			.rank = (int32_t)from[i].rank,
			.dim = from[i].dim,
			.bytes = from[i].bytes,
			.value = from[i].value };
	return v;
}

static void load_buffers(struct load *l)
{
	struct ht_program *p = l->p;
	struct ht_rt_buffer *b = HT_NEW_ARRAY(&p->arena, struct ht_rt_buffer, l->plan.memories);

	for (size_t i = 0; i < l->plan.memories; i++) {
		const struct ht_plan_memory *m = &l->plan.memory[i];

		b[i] = (struct ht_rt_buffer){ .where = (enum ht_rt_where)m->where,
			.bytes = m->bytes };
		if (b[i].where == HT_RT_CONST)
			b[i].data = p->artefact.weights.p + m->offset;
		else
			b[i].offset = m->offset;
	}
	p->rt.buffer = b;
	p->rt.buffers = (int32_t)l->plan.memories;
}

static enum ht_status function_of(struct load *l, const struct ht_plan_code *k, ht_rt_fn **fn)
{
	const char *at = (const char *)l->p->artefact.code + k->offset + k->entry;

	if (!k->library[0]) {
		memcpy(fn, &at, sizeof at);
		return HT_OK;
	}
	*fn = ht_library_kernel(k->library);
	if (*fn)
		return HT_OK;
	return ht_error(l->d, HT_E_INPUT, (struct ht_where){ .path = l->path, .offset = -1 },
		"this artefact cannot be used: there is no kernel '%s' here; compile the model again",
		k->library);
}

static enum ht_status load_steps(struct load *l)
{
	struct ht_arena *a = &l->p->arena;
	struct ht_rt_step *s = HT_NEW_ARRAY(a, struct ht_rt_step, l->plan.calls);

	for (size_t i = 0; i < l->plan.calls; i++) {
		const struct ht_plan_call *c = &l->plan.call[i];
		int32_t *buffer = HT_NEW_ARRAY(a, int32_t, c->args);

		for (size_t k = 0; k < c->args; k++)
			buffer[k] = (int32_t)c->arg[k];
		s[i] = (struct ht_rt_step){ .buffer = buffer,
			.args = (int32_t)c->args,
			.params = c->param,
			.param_count = (int32_t)c->params,
			.tiles = (int64_t)c->tiles,
			.node = c->node,
			.method = c->method[0] ? c->method : NULL };
		HT_TRY(function_of(l, &l->plan.kernel[c->kernel], &s[i].fn));
	}
	l->p->rt.step = s;
	l->p->rt.steps = (int32_t)l->plan.calls;
	return HT_OK;
}

static enum ht_status load(void *arg)
{
	struct load *l = arg;
	struct ht_program *p = l->p;
	const struct ht_program_plan *plan = &l->plan;
	struct ht_where at = { .path = l->path, .offset = -1 };
	const char *wrong;

	HT_TRY(ht_artefact_open(l->path, l->d, &p->artefact));
	wrong = ht_plan_read(p->artefact.plan, &p->arena, &l->plan);
	if (!wrong && (plan->weight_bytes != p->artefact.weights.n ||
			      plan->code_bytes != p->artefact.code_bytes))
		wrong = "its sections have other sizes";
	if (wrong)
		return ht_error(l->d, HT_E_INPUT, at,
			"this artefact cannot be used: of its plan, %s; compile the model again",
			wrong);
	load_buffers(l);
	HT_TRY(load_steps(l));
	p->rt.inputs = (int32_t)plan->inputs;
	p->rt.outputs = (int32_t)plan->outputs;
	p->rt.arena_bytes = plan->arena_bytes;
	p->rt.scratch_bytes = plan->scratch_bytes;
	p->input = infos_of(&p->arena, plan->input, plan->inputs);
	p->output = infos_of(&p->arena, plan->output, plan->outputs);
	p->info = (struct ht_program_info){ .struct_size = sizeof p->info,
		.weight_bytes = plan->weight_bytes,
		.arena_bytes = plan->arena_bytes,
		.live_bytes = plan->live_bytes,
		.scratch_bytes = plan->scratch_bytes,
		.code_bytes = plan->code_bytes,
		.steps = plan->calls,
		.kernels = plan->kernels,
		.low_nodes = plan->low_nodes,
		.float_nodes = plan->float_nodes,
		.casts = plan->casts,
		.target = plan->target,
		.policy = plan->policy };
	return HT_OK;
}

enum ht_status ht_program_load(const char *path, struct ht_diags *d, struct ht_program **out)
{
	struct ht_unwind unwind;
	struct load l = { .p = ht_sys_alloc(sizeof(struct ht_program)), .path = path, .d = d };
	enum ht_status st;

	*out = NULL;
	if (!l.p)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	ht_arena_init(&l.p->arena, &unwind);
	st = ht_guarded(&unwind, load, &l, d);
	l.p->arena.unwind = NULL;
	if (st == HT_OK)
		*out = l.p;
	else
		ht_program_free(l.p);
	return st;
}

int ht_is_artefact(const char *path)
{
	return ht_artefact_is(path);
}

/* ---- about a file ---- */

enum ht_status ht_artefact_manifest(const char *path, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_artefact a;
	enum ht_status st;

	HT_TRY(ht_artefact_open(path, d, &a));
	st = ht_bytes_of(a.manifest, out);
	if (st != HT_OK)
		ht_error(d, st, HT_NOWHERE, "out of memory");
	ht_artefact_close(&a);
	return st;
}
