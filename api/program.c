/* From a plan to a program: constants packed, code generated, addresses put together. */
#include "api/api.h"

#include <string.h>

struct build {
	struct ht_program *p;
	struct ht_plan *plan;
	const struct ht_target *target;
	int threads;
	struct ht_diags *d;
	struct ht_blob *weights; /* the packed ones */
	size_t packed;           /* bytes of them that are in use */
	ht_kernel_fn **entry;    /* by kernel of the plan; NULL: a library kernel */
};

/* ---- constants ---- */

static void unref(void *blob)
{
	ht_blob_unref(blob);
}

/* The program holds `blob` as long as it lives; takes over the reference. */
static void keep(struct ht_program *p, struct ht_blob *blob)
{
	ht_arena_defer(&p->arena, unref, blob);
}

/* Source matrices are read for the last time in the buffer that comes last; behind it their memory
 * goes back, so that a model's weights are not in memory twice. */
static bool used_later(const struct ht_plan *plan, int32_t i)
{
	const struct ht_blob *from = plan->buffer[i].packed_from;

	for (int32_t j = 0; j < plan->buffers; j++) {
		const struct ht_plan_buffer *b = &plan->buffer[j];
		if (b->kind == HT_PLAN_CONST &&
			(b->pack ? j > i && b->packed_from == from : b->blob == from))
			return true;
	}
	return false;
}

static void drop_source(struct ht_graph *g, const struct ht_blob *from)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		struct ht_attr *a = n->op == HT_OP_Const ? ht_attr_find(n, "value") : NULL;
		if (a && a->value.kind == HT_ATTR_TENSOR && a->value.tensor->blob == from)
			ht_tensor_drop(a->value.tensor);
	}
}

static enum ht_status no_memory(struct build *b, size_t bytes)
{
	return ht_error(
		b->d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for %zu bytes of weights", bytes);
}

static size_t packed_bytes(const struct ht_plan_buffer *buf)
{
	return buf->kind == HT_PLAN_CONST && buf->pack ? (buf->bytes + 63) / 64 * 64 : 0;
}

/* All packed weights are one blob. */
static enum ht_status new_weights(struct build *b)
{
	size_t n = 0;

	for (int32_t i = 0; i < b->plan->buffers; i++)
		n += packed_bytes(&b->plan->buffer[i]);
	b->weights = ht_blob_new(n);
	if (!b->weights)
		return no_memory(b, n);
	keep(b->p, b->weights);
	return HT_OK;
}

static enum ht_status pack(struct build *b, struct ht_plan_buffer *buf)
{
	const struct ht_pack *k = buf->pack;
	size_t from = ht_dtype_info(k->src_dtype)->bytes;
	size_t to = (size_t)ht_packed_count(k) * ht_dtype_info(k->dst_dtype)->bytes;
	const char *src = (const char *)buf->packed_from->p + (size_t)buf->pack_first * from;
	struct ht_blob *blob = ht_blob_part(b->weights, b->packed, buf->bytes);

	if (!blob)
		return no_memory(b, buf->bytes);
	b->packed += packed_bytes(buf);
	keep(b->p, blob);
	buf->blob = blob;
	for (size_t i = 0; i < buf->pack_count; i++)
		ht_pack_b(k, src + i * (size_t)buf->pack_stride * from,
			(char *)(uintptr_t)blob->p + i * to);
	return HT_OK;
}

static enum ht_status keep_aligned(struct build *b, struct ht_plan_buffer *buf)
{
	buf->blob = ht_blob_aligned(buf->blob, ht_dtype_info(buf->dtype)->bytes);
	if (!buf->blob)
		return no_memory(b, buf->bytes);
	keep(b->p, buf->blob);
	return HT_OK;
}

static enum ht_status make_constants(struct build *b, struct ht_graph *g)
{
	HT_TRY(new_weights(b));
	for (int32_t i = 0; i < b->plan->buffers; i++) {
		struct ht_plan_buffer *buf = &b->plan->buffer[i];
		if (buf->kind != HT_PLAN_CONST)
			continue;
		b->p->info.weight_bytes += buf->bytes;
		if (!buf->pack) {
			HT_TRY(keep_aligned(b, buf));
			continue;
		}
		HT_TRY(pack(b, buf));
		if (!used_later(b->plan, i))
			drop_source(g, buf->packed_from);
	}
	return HT_OK;
}

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
	}
	to->bytes = from->bytes;
}

static size_t kernel_number(const struct ht_plan *plan, const struct ht_kernel *k)
{
	size_t i = 0;

	while (plan->kernel[i] != k)
		i++;
	return i;
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
		.fn = k->library ? ht_library_kernel(k->library) : b->entry[kernel],
		.buffer = buffer,
		.args = k->args,
		.params = params,
		.param_count = k->params,
		.tiles = ht_kernel_tiles(k),
		.node = ht_str_copy(a, from->node).p,
		.method = k->method,
	};
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
		.inputs = (int32_t)in,
		.outputs = (int32_t)out,
		.arena_bytes = plan->arena_bytes,
		.scratch_bytes = plan->scratch_bytes,
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
			.bytes = from->bytes,
		};
		port = port ? port->next : NULL;
	}
	return list;
}

/* Constant outputs have no step but still a buffer; what a plan without steps needs is nothing. */
static enum ht_status generate(struct build *b)
{
	struct ht_plan *plan = b->plan;

	if (!plan->kernels)
		return HT_OK;
	HT_TRY(b->p->backend->compile(
		plan->kernel, plan->kernels, b->target, b->threads, b->d, &b->p->code, &b->entry));
	b->p->info.code_bytes = b->p->backend->code_bytes(b->p->code);
	return HT_OK;
}

enum ht_status ht_program_build(struct ht_program *p, struct ht_graph *g, struct ht_plan *plan,
	const struct ht_target *target, int threads, struct ht_phases *phases, struct ht_diags *d)
{
	struct build b = { .p = p, .plan = plan, .target = target, .threads = threads, .d = d };

	HT_TRY(make_constants(&b, g));
	ht_phase_end(phases, "weights");
	HT_TRY(generate(&b));
	ht_phase_end(phases, "code");
	make_rt(&b);
	make_probes(&b);
	p->input = describe(&b, HT_PLAN_INPUT, p->rt.inputs, NULL);
	p->output = describe(&b, HT_PLAN_OUTPUT, p->rt.outputs, g->entries->outputs);
	p->info.target = target->name;
	p->info.arena_bytes = plan->arena_bytes;
	p->info.live_bytes = plan->live_bytes;
	p->info.scratch_bytes = plan->scratch_bytes;
	p->info.steps = (size_t)plan->steps;
	p->info.kernels = (size_t)plan->kernels;
	return HT_OK;
}
