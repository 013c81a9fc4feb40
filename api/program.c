/* From a plan to a program: generates code and fills in addresses. */
#include "api/api.h"
#include "image/build.h"

#include <string.h>

struct build {
	struct ht_program *p;
	struct ht_plan *plan;
	struct ht_diags *d;
};

/* ---- addresses ---- */

static int64_t function_of(const struct ht_program *p, uint32_t kernel, const char *library)
{
	const struct ht_kernel_code *code = &p->kernel_code[kernel];

	return (int64_t)(*library ? (uintptr_t)ht_library_kernel(library)
				  : (uintptr_t)(code->code.p + code->entry));
}

static void link_program(struct ht_program *p, const struct ht_plan *plan)
{
	const struct ht_image *x = (const void *)p->image.p;
	uint32_t kernels = ht_image_count(x, HT_IMAGE_KERNELS);
	int64_t *kernel = HT_NEW_ARRAY(&p->arena, int64_t, kernels),
		*constant = HT_NEW_ARRAY(&p->arena, int64_t, ht_image_count(x, HT_IMAGE_CONSTANTS)),
		*to = constant;

	for (uint32_t i = 0; i < kernels; i++)
		kernel[i] = function_of(p, i, ht_image_text(x, ht_image_kernels(x)[i].name));
	for (int32_t i = 0; i < plan->buffers; i++)
		if (plan->buffer[i].kind == HT_PLAN_CONST && !plan->buffer[i].same)
			*to++ = (int64_t)(uintptr_t)plan->buffer[i].blob->p;
	p->rt = (struct ht_rt_program){ .image = x,
		.kernel = kernel,
		.constant = constant,
		.object = ht_program_objects(&p->arena, x) };
}

static struct ht_image_port_text *ports_of(
	struct ht_arena *a, const struct ht_value_info *v, const char *const *alias, size_t n)
{
	struct ht_image_port_text *port = HT_NEW_ARRAY(a, struct ht_image_port_text, n);

	for (size_t i = 0; i < n; i++)
		port[i] = (struct ht_image_port_text){ .name = ht_str(v[i].name),
			.alias = ht_str(alias ? alias[i] : ""),
			.dtype = v[i].dtype,
			.shape = { .rank = v[i].rank, .dim = (int64_t *)(uintptr_t)v[i].dim },
			.bytes = v[i].bytes,
			.value = v[i].value };
	return port;
}

void ht_program_link(struct ht_program *p, const struct ht_plan *plan)
{
	struct ht_arena *a = &p->arena;

	p->image = ht_plan_write_image(plan, ports_of(a, p->input, p->input_alias, p->inputs),
		p->inputs, ports_of(a, p->output, p->output_alias, p->outputs), p->outputs, a);
	link_program(p, plan);
	p->info.arena_bytes = ht_program_arena(p->rt.image);
	p->info.unseeded = ht_rt_unseeded(&p->rt);
	p->info.loops = ht_rt_loops(&p->rt);
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
			from->format.n ? ht_str_copy(a, from->format).p : NULL, buffer->offset,
			buffer->bytes };
	}
}

/* Inputs and outputs with the names of the entry's ports; the plan has them in the same order. */
static struct ht_value_info *describe(
	struct build *b, enum ht_plan_kind kind, size_t *count, const struct ht_port *port)
{
	const struct ht_plan_procedure *p = ht_plan_entry(b->plan);
	struct ht_arena *a = &b->p->arena;
	struct ht_value_info *list = HT_NEW_ARRAY(
				     a, struct ht_value_info, (size_t)b->plan->buffers),
			     *v = list;

	for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++) {
		const struct ht_plan_buffer *from = &b->plan->buffer[i];
		if (from->kind != kind)
			continue;
		*v++ = (struct ht_value_info){
			.name = ht_str_copy(a, port ? port->name : from->name).p,
			.dtype = from->strings ? HT_STRING : from->dtype,
			.rank = from->shape.rank,
			.dim = ht_shape_make(a, from->shape.rank, from->shape.dim).dim,
			.bytes = from->bytes * (from->whole ? 1 : (size_t)b->plan->parts),
		};
		if (from->rows)
			*(int64_t *)(uintptr_t)v[-1].dim = HT_DIM_UNKNOWN;
		for (int32_t k = 0; from->open && k < from->shape.rank; k++)
			if (from->open[k].size)
				((int64_t *)(uintptr_t)v[-1].dim)[k] = HT_DIM_UNKNOWN;
		if (from->rows || from->open)
			v[-1].bytes = 0;
		port = port ? port->next : NULL;
	}
	*count = (size_t)(v - list);
	return list;
}

enum ht_status ht_program_build(struct ht_program *p, struct ht_graph *g, struct ht_plan *plan,
	const struct ht_make *how, struct ht_phases *phases, struct ht_diags *d)
{
	struct build b = { .p = p, .plan = plan, .d = d };

	HT_TRY(ht_watch_phase(how->watch, "weights", d));
	HT_TRY(ht_program_weights(p, g, plan, how, d));
	ht_phase_end(phases, "weights");
	HT_TRY(ht_watch_phase(how->watch, "code", d));
	HT_TRY(ht_kernels_make(p, plan, how, d));
	ht_phase_end(phases, "code");
	make_probes(&b);
	ht_program_account(p, plan, how->target);
	p->input = describe(&b, HT_PLAN_INPUT, &p->inputs, NULL);
	p->output = describe(&b, HT_PLAN_OUTPUT, &p->outputs, g->entries->outputs);
	p->info.target = how->target->name;
	p->info.live_bytes = ht_plan_entry(plan)->live_bytes;
	p->info.scratch_bytes = plan->scratch_bytes;
	p->info.steps = (size_t)plan->steps;
	p->info.parts = (size_t)plan->parts;
	p->info.kernels = (size_t)plan->kernels;
	return HT_OK;
}
