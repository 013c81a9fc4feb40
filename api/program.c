/* From a plan to a program: code generated, addresses put together. */
#include "api/api.h"

#include <string.h>

struct build {
	struct ht_program *p;
	struct ht_plan *plan;
	struct ht_diags *d;
};

/* ---- addresses ---- */

static void place(
	const struct ht_plan_buffer *from, struct ht_rt_buffer *to, size_t *in, size_t *out)
{
	HT_CHECK(from->alias < 0);
	switch (from->kind) {
	case HT_PLAN_INPUT:
		*to = (struct ht_rt_buffer){ .where = HT_RT_INPUT, .offset = (*in)++ };
		break;
	case HT_PLAN_OUTPUT:
		*to = (struct ht_rt_buffer){ .where = HT_RT_OUTPUT, .offset = (*out)++ };
		break;
	case HT_PLAN_CONST:
		*to = (struct ht_rt_buffer){ .where = HT_RT_CONST, .data = from->blob->p };
		break;
	case HT_PLAN_TEMP:
		*to = (struct ht_rt_buffer){ .where = HT_RT_ARENA, .offset = from->offset };
		break;
	case HT_PLAN_STREAM:
		*to = (struct ht_rt_buffer){ .where = HT_RT_STREAM, .offset = from->offset };
		break;
	}
	to->bytes = from->bytes;
	to->whole = from->whole;
}

static size_t kernel_number(const struct ht_plan *plan, const struct ht_kernel *k)
{
	size_t i = 0;

	while (plan->kernel[i] != k)
		i++;
	return i;
}

static ht_kernel_fn *begin_of(const struct ht_kernel_code *image)
{
	const char *at = image->code.p + image->entry;
	ht_kernel_fn *fn;

	memcpy(&fn, &at, sizeof at);
	return fn;
}

static const struct ht_words *copy_words(struct ht_arena *a, const struct ht_plan_step *from)
{
	struct ht_words *w = HT_NEW_ARRAY(a, struct ht_words, from->words_count);

	for (size_t i = 0; i < from->words_count; i++) {
		w[i] = from->words[i];
		w[i].text = ht_str_copy(a, ht_str(w[i].text)).p;
		w[i].dim = HT_NEW_ARRAY(a, int64_t, w[i].rank);
		for (size_t k = 0; k < w[i].rank; k++)
			w[i].dim[k] = from->words[i].dim[k];
	}
	return w;
}

static void make_step(
	struct build *b, const struct ht_plan_step *from, size_t kernel, struct ht_rt_step *to)
{
	struct ht_arena *a = &b->p->arena;
	const struct ht_kernel *k = from->kernel;
	int32_t *buffer = HT_NEW_ARRAY(a, int32_t, (size_t)k->args);
	int64_t *params = HT_NEW_ARRAY(a, int64_t, (size_t)k->params);

	memcpy(buffer, from->buffer, (size_t)k->args * sizeof *buffer);
	if (k->params && from->params)
		memcpy(params, from->params, (size_t)k->params * sizeof *params);
	*to = (struct ht_rt_step){
		.fn = k->library ? ht_library_kernel(k->library) : begin_of(&b->p->image[kernel]),
		.buffer = buffer,
		.args = k->args,
		.params = params,
		.param_count = k->params,
		.tiles = ht_kernel_tiles(k),
		.node = ht_str_copy(a, from->node).p,
		.method = k->method,
		.words = copy_words(a, from),
		.words_count = from->words_count,
	};
}

static const struct ht_rt_stream *streams_of(const struct ht_plan *plan, struct ht_arena *a)
{
	struct ht_rt_stream *s = HT_NEW_ARRAY(a, struct ht_rt_stream, (size_t)plan->streams);

	for (int32_t i = 0; i < plan->streams; i++)
		s[i] = (struct ht_rt_stream){ plan->stream[i].seed, plan->stream[i].seed2,
			plan->stream[i].name, plan->stream[i].blocks };
	return s;
}

static void make_rt(struct build *b)
{
	struct ht_arena *a = &b->p->arena;
	struct ht_plan *plan = b->plan;
	struct ht_rt_buffer *buffer = HT_NEW_ARRAY(a, struct ht_rt_buffer, (size_t)plan->buffers);
	struct ht_rt_step *step = HT_NEW_ARRAY(a, struct ht_rt_step, (size_t)plan->steps);
	int32_t *kernel_of = HT_NEW_ARRAY(a, int32_t, (size_t)plan->steps);
	size_t in = 0, out = 0;

	for (int32_t i = 0; i < plan->buffers; i++)
		place(&plan->buffer[i], &buffer[i], &in, &out);
	for (int32_t i = 0; i < plan->steps; i++) {
		kernel_of[i] = (int32_t)kernel_number(plan, plan->step[i].kernel);
		make_step(b, &plan->step[i], (size_t)kernel_of[i], &step[i]);
	}
	b->p->kernel_of = kernel_of;
	b->p->library = HT_NEW_ARRAY(a, const char *, (size_t)plan->kernels);
	for (int32_t i = 0; i < plan->kernels; i++)
		b->p->library[i] = plan->kernel[i]->library;
	b->p->rt = (struct ht_rt_program){
		.buffer = buffer,
		.buffers = plan->buffers,
		.step = step,
		.steps = plan->steps,
		.stream = streams_of(plan, a),
		.streams = plan->streams,
		.inputs = (int32_t)in,
		.outputs = (int32_t)out,
		.arena_bytes = plan->arena_bytes,
		.scratch_bytes = plan->scratch_bytes,
		.parts = plan->parts,
	};
}

static void make_probes(struct build *b)
{
	const struct ht_plan *plan = b->plan;
	struct ht_arena *a = &b->p->arena;

	b->p->probe = HT_NEW_ARRAY(a, struct ht_probe, (size_t)plan->probes);
	b->p->probes = (size_t)plan->probes;
	for (int32_t i = 0; i < plan->probes; i++) {
		const struct ht_plan_probe *from = &plan->probe[i];
		const struct ht_plan_buffer *buffer = &plan->buffer[from->buffer];
		b->p->probe[i] = (struct ht_probe){ ht_str_copy(a, from->tensor).p, from->dtype,
			buffer->offset, buffer->bytes };
	}
}

/* Inputs and outputs by the names of the entry's ports; the plan has outputs in their order. */
static struct ht_value_info *describe(
	struct build *b, enum ht_plan_kind kind, int32_t count, const struct ht_port *port)
{
	struct ht_arena *a = &b->p->arena;
	struct ht_value_info *list = HT_NEW_ARRAY(a, struct ht_value_info, (size_t)count),
			     *v = list;

	for (int32_t i = 0; i < b->plan->buffers; i++) {
		const struct ht_plan_buffer *from = &b->plan->buffer[i];
		if (from->kind != kind)
			continue;
		*v++ = (struct ht_value_info){
			.name = ht_str_copy(a, port ? port->name : from->name).p,
			.dtype = from->dtype,
			.rank = from->shape.rank,
			.dim = ht_shape_make(a, from->shape.rank, from->shape.dim).dim,
			.bytes = from->bytes * (from->whole ? 1 : (size_t)b->plan->parts),
		};
		port = port ? port->next : NULL;
	}
	return list;
}

enum ht_status ht_program_build(struct ht_program *p, struct ht_graph *g, struct ht_plan *plan,
	const struct ht_make *how, struct ht_phases *phases, struct ht_diags *d)
{
	struct build b = { .p = p, .plan = plan, .d = d };

	HT_TRY(ht_program_weights(p, g, plan, how->threads, d));
	ht_phase_end(phases, "weights");
	HT_TRY(ht_kernels_make(p, plan, how, d));
	ht_phase_end(phases, "code");
	make_rt(&b);
	make_probes(&b);
	p->input = describe(&b, HT_PLAN_INPUT, p->rt.inputs, NULL);
	p->output = describe(&b, HT_PLAN_OUTPUT, p->rt.outputs, g->entries->outputs);
	p->info.target = how->target->name;
	p->info.arena_bytes = plan->arena_bytes;
	p->info.live_bytes = plan->live_bytes;
	p->info.scratch_bytes = plan->scratch_bytes;
	p->info.steps = (size_t)plan->steps;
	p->info.parts = (size_t)plan->parts;
	p->info.kernels = (size_t)plan->kernels;
	p->info.unseeded = ht_rt_unseeded(&p->rt);
	return HT_OK;
}
