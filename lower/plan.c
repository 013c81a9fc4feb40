/* The plan: its buffers, steps and procedures. */
#include "base/philox.h"
#include "image/image.h"
#include "lower/inside.h"

#include <string.h>

static struct ht_plan_buffer *add_buffer(
	struct lower *l, enum ht_plan_kind kind, enum ht_dtype t, int64_t count)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_buffer *b;
	size_t bytes;

	if (count < 0 || !ht_mul_size((size_t)count, ht_dtype_info(t)->bytes, &bytes) ||
		!ht_add_size(l->planning->bytes, bytes, &l->planning->bytes))
		ht_arena_fail(l->arena);
	p->buffer = ht_grow(l->arena, p->buffer, (size_t)p->buffers, &l->planning->buffer_cap,
		sizeof *p->buffer);
	b = &p->buffer[p->buffers++];
	*b = (struct ht_plan_buffer){
		.kind = kind, .dtype = t, .bytes = bytes, .first_step = -1, .last_step = -1
	};
	return b;
}

int32_t plan_buffer(struct lower *l, enum ht_plan_kind kind, enum ht_dtype t, int64_t count)
{
	add_buffer(l, kind, t, count);
	return l->plan->buffers - 1;
}

int32_t plan_const(struct lower *l, const struct ht_tensor *t)
{
	struct ht_plan_buffer *b = add_buffer(l, HT_PLAN_CONST, t->dtype, ht_shape_count(t->shape));

	b->blob = t->blob;
	return l->plan->buffers - 1;
}

/* A key of the arguments of plan_packed(): equal requests get one buffer. */
static struct ht_str pack_key(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride)
{
	const int64_t part[] = { (intptr_t)t->blob, first, count, stride, p->src_dtype,
		p->dst_dtype, p->taps, p->depth, p->n, p->sq, p->sk, p->sn, p->nr, p->kp,
		p->winograd, p->hf32, p->pieces };
	int64_t *key = HT_NEW_ARRAY(l->scratch, int64_t, HT_COUNT(part));

	memcpy(key, part, sizeof part);
	return (struct ht_str){ (const char *)key, sizeof part };
}

int32_t plan_same_constant(struct lower *l, int32_t same)
{
	struct ht_plan *p = l->plan;
	const size_t bytes = l->planning->bytes;
	struct ht_plan_buffer *b = add_buffer(l, HT_PLAN_CONST, p->buffer[same - 1].dtype, 0);

	*b = p->buffer[same - 1];
	b->same = p->buffer[same - 1].same ? p->buffer[same - 1].same : same;
	b->first_step = b->last_step = -1;
	l->planning->bytes = bytes;
	return p->buffers - 1;
}

int32_t plan_packed(struct lower *l, const struct ht_tensor *t, int64_t first,
	const struct ht_pack *p, int64_t count, int64_t stride)
{
	struct ht_map_entry *known =
		ht_map_at(&l->planning->packed, pack_key(l, t, first, p, count, stride));
	int32_t same = (int32_t)(uintptr_t)known->value;
	struct ht_plan_buffer *b;
	struct ht_pack *copy;

	if (same > l->procedure.buffer)
		return same - 1;
	if (same) {
		known->value = (void *)(uintptr_t)(plan_same_constant(l, same) + 1);
		return l->plan->buffers - 1;
	}
	copy = HT_NEW(l->arena, struct ht_pack);
	*copy = *p;
	b = add_buffer(l, HT_PLAN_CONST, p->dst_dtype, ht_packed_count(p) * count);
	b->pack = copy;
	b->packed_from = t->blob;
	b->pack_first = first;
	b->pack_count = (size_t)count;
	b->pack_stride = stride;
	known->value = (void *)(uintptr_t)l->plan->buffers;
	return l->plan->buffers - 1;
}

int32_t plan_widened(struct lower *l, int32_t buffer)
{
	const struct ht_plan_buffer *b = &l->plan->buffer[buffer];
	const struct ht_pack p = { .src_dtype = b->dtype,
		.dst_dtype = HT_F32,
		.taps = 1,
		.depth = 1,
		.n = (int64_t)(b->bytes / ht_dtype_info(b->dtype)->bytes),
		.sn = 1,
		.nr = 16, /* of one line of depth: in order */
		.kp = 1 };

	return plan_packed(l, &(struct ht_tensor){ .blob = b->blob }, 0, &p, 1, 0);
}

int32_t plan_stream(struct lower *l, struct ht_plan_stream stream)
{
	struct ht_plan *p = l->plan;
	int32_t b = plan_buffer(l, HT_PLAN_STREAM, HT_U32, HT_PHILOX_WORDS);

	p->buffer[b].offset = (size_t)p->streams;
	p->stream = ht_grow(l->arena, p->stream, (size_t)p->streams, &l->planning->stream_cap,
		sizeof *p->stream);
	p->stream[p->streams++] = stream;
	return b;
}

static void add_variable(struct lower *l, struct ht_str name, const struct ht_tensor *t)
{
	struct ht_plan *p = l->plan;

	p->variable = ht_grow(l->arena, p->variable, (size_t)p->variables,
		&l->planning->variable_cap, sizeof *p->variable);
	p->variable[p->variables++] =
		(struct ht_plan_variable){ .name = ht_str_copy(l->arena, name),
			.dtype = t->dtype,
			.shape = ht_shape_make(l->arena, t->shape.rank, t->shape.dim),
			.initial = t->blob ? plan_const(l, t) : -1 };
}

int32_t plan_variable(struct lower *l, struct ht_str name, const struct ht_tensor *t)
{
	struct ht_map_entry *known = ht_map_at(&l->planning->variables, name);
	int32_t b;

	if (!known->value) {
		add_variable(l, name, t);
		known->value = (void *)(uintptr_t)l->plan->variables;
	}
	b = plan_buffer(l, HT_PLAN_VARIABLE, t->dtype, ht_shape_count(t->shape));
	l->plan->buffer[b].offset = (size_t)(uintptr_t)known->value - 1;
	return b;
}

int32_t plan_own_variable(struct lower *l, struct ht_str name, const struct ht_tensor *t)
{
	int32_t b;

	while (ht_map_get(&l->planning->named, name))
		name = ht_str_printf(l->scratch, "%.*s_", HT_STR_ARG(name));
	b = plan_variable(l, name, t);
	l->plan->variable[l->plan->buffer[b].offset].use |= HT_IMAGE_NEEDS;
	return b;
}

static void add_object(struct lower *l, const struct object_text *text)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_object o = { .name = ht_str_copy(l->arena, text->name),
		.kind = text->kind,
		.owner = text->owner,
		.constant = HT_NEW_ARRAY(l->arena, int32_t, (size_t)text->parts),
		.constants = text->parts,
		.param = HT_NEW_ARRAY(l->arena, int64_t, (size_t)text->params),
		.params = text->params };

	for (int32_t i = 0; i < text->parts; i++)
		o.constant[i] = plan_const(l, text->part[i]);
	if (text->params)
		memcpy(o.param, text->param, (size_t)text->params * sizeof *text->param);
	p->object = ht_grow(l->arena, p->object, (size_t)p->objects, &l->planning->object_cap,
		sizeof *p->object);
	p->object[p->objects++] = o;
}

int32_t plan_object(struct lower *l, const struct object_text *o)
{
	struct ht_map_entry *known = ht_map_at(&l->planning->objects, o->name);
	int32_t b;

	if (!known->value) {
		add_object(l, o);
		known->value = (void *)(uintptr_t)l->plan->objects;
	}
	b = plan_buffer(l, HT_PLAN_OBJECT, HT_RESOURCE, 1);
	l->plan->buffer[b].offset = (size_t)(uintptr_t)known->value - 1;
	return b;
}

/* The number of the kernel that was built.  If an equal kernel exists, it is used, and the
 * memory of the new one is freed. */
static int32_t distinct(struct lower *l, struct kernel_build *k)
{
	struct planning *planning = l->planning;
	struct ht_plan *p = l->plan;
	struct ht_buf text;
	uintptr_t after;

	ht_buf_init(&text, k->arena);
	ht_kernel_print(k->kernel, &text);
	after = (uintptr_t)ht_map_get(&planning->kernel_texts, ht_buf_str(&text));
	if (after) {
		ht_arena_release(k->arena);
		planning->spare = k->arena;
		return (int32_t)after - 1;
	}
	p->kernel = ht_grow(
		l->arena, p->kernel, (size_t)p->kernels, &planning->kernel_cap, sizeof(void *));
	p->kernel[p->kernels++] = k->kernel;
	ht_map_at(&planning->kernel_texts, ht_str_copy(l->scratch, ht_buf_str(&text)))->value =
		(void *)(uintptr_t)p->kernels;
	return p->kernels - 1;
}

int32_t plan_parameter(
	const struct ht_plan *p, int32_t procedure, enum ht_plan_kind kind, int32_t n)
{
	int32_t i = p->procedure[procedure].buffer;

	while (p->buffer[i].kind != kind || n-- > 0)
		i++;
	return i;
}

int32_t plan_parameters(const struct ht_plan *p, int32_t procedure)
{
	const struct ht_plan_procedure *of = procedure >= 0 ? &p->procedure[procedure] : NULL;
	int32_t n = 0;

	for (int32_t i = 0; of && i < of->buffers; i++)
		n += p->buffer[of->buffer + i].kind == HT_PLAN_PARAM;
	return n;
}

static struct ht_plan_step *add_step(struct lower *l, const struct ht_node *node)
{
	struct ht_plan *p = l->plan;
	struct ht_plan_step *s;

	p->step = ht_grow(
		l->arena, p->step, (size_t)p->steps, &l->planning->step_cap, sizeof *p->step);
	s = &p->step[p->steps++];
	*s = (struct ht_plan_step){
		.kernel = -1, .node = node->name, .of = node, .made = l->planning->made++
	};
	return s;
}

static void use(struct lower *l, int32_t step, int32_t buffer)
{
	struct ht_plan_buffer *b = &l->plan->buffer[buffer];

	if (b->first_step < 0)
		b->first_step = step;
	b->last_step = step;
}

struct using
{
	struct lower *l;
	int32_t step;
};

static void use_of_control(void *arg, int32_t buffer)
{
	const struct using *u = arg;

	use(u->l, u->step, buffer);
}

void plan_uses(struct lower *l, int32_t step)
{
	const struct ht_plan_step *s = &l->plan->step[step];

	for (int32_t i = 0; s->kernel >= 0 && i < l->plan->kernel[s->kernel]->args; i++)
		use(l, step, s->buffer[i]);
	if (s->control)
		lower_each_of_control(s->control, use_of_control, &(struct using){ l, step });
}

void plan_step(struct lower *l, struct kernel_build *k, const struct ht_node *node)
{
	int32_t number = distinct(l, k);
	const struct ht_kernel *kernel = l->plan->kernel[number];
	struct ht_plan_step *s = add_step(l, node);

	k->kernel = NULL;
	s->kernel = number;
	s->params = k->params;
	s->sized = k->sized;
	s->buffer = HT_NEW_ARRAY(l->arena, int32_t, (size_t)kernel->args);
	memcpy(s->buffer, k->plan_buffer_of, (size_t)kernel->args * sizeof *s->buffer);
	plan_uses(l, l->plan->steps - 1);
	if (ht_kernel_scratch(kernel) > l->plan->scratch_bytes)
		l->plan->scratch_bytes = ht_kernel_scratch(kernel);
}

void plan_repeat(struct lower *l, const struct ht_plan_step *s, int32_t *buffer)
{
	struct ht_plan_step *to = add_step(l, s->of);

	*to = *s;
	to->buffer = buffer;
	plan_uses(l, l->plan->steps - 1);
}

void plan_control(struct lower *l, const struct ht_plan_control *c, const struct ht_node *node)
{
	add_step(l, node)->control = c;
	plan_uses(l, l->plan->steps - 1);
}

void plan_words(struct lower *l, const struct ht_words *words, size_t n)
{
	struct ht_plan_step *s = &l->plan->step[l->plan->steps - 1];

	s->words = words;
	s->words_count = n;
}

void plan_choice(struct lower *l, const struct ht_node *n, struct ht_method_choice c)
{
	struct ht_plan *p = l->plan;

	c.node = n->name;
	p->choice = ht_grow(l->arena, p->choice, (size_t)p->choices, &l->planning->choice_cap,
		sizeof *p->choice);
	p->choice[p->choices++] = c;
	l->chosen[n->id] = true;
}

bool plan_block(struct lower *l, const struct ht_node *n, struct ht_method_choice c)
{
	ht_note_read(l->asked->reads, HT_READ_block_method);
	if (l->asked->asked.block != HT_BLOCK_AUTO) {
		enum ht_method one = c.method == HT_METHOD_KERNELS ? c.other : c.method;

		c = (struct ht_method_choice){
			.method = l->asked->asked.block == HT_BLOCK_ROWS ? one : HT_METHOD_KERNELS,
			.other = HT_METHOD_END,
			.reason = HT_REASON_ASKED
		};
	}
	plan_choice(l, n, c);
	return c.method != HT_METHOD_KERNELS;
}

int32_t plan_probe(struct lower *l, const struct ht_node *n, int32_t i)
{
	struct ht_plan *p = l->plan;
	struct ht_str tensor = i ? ht_str_printf(l->arena, "%.*s:%d", HT_STR_ARG(n->name), (int)i)
				 : ht_str_copy(l->arena, n->name);
	int32_t buffer;

	if (p->probes && ht_str_eq(p->probe[p->probes - 1].tensor, tensor))
		return p->probe[p->probes - 1].buffer; /* the kernel stores the result in several
						        * places */
	buffer = plan_buffer(l, HT_PLAN_TEMP, HT_U8, ht_shape_count(n->out[i].shape));
	p->probe = ht_grow(
		l->arena, p->probe, (size_t)p->probes, &l->planning->probe_cap, sizeof *p->probe);
	p->probe[p->probes++] = (struct ht_plan_probe){
		.tensor = tensor,
		.dtype = n->out[i].dtype,
		.format = ht_str_copy(
			l->arena, ht_attr_str(n, lower_rounds_to_format(n) ? "format" : "", "")),
		.buffer = buffer,
	};
	return buffer;
}

void plan_all_uses(struct lower *l)
{
	const struct ht_plan_procedure *p = &l->procedure;

	for (int32_t i = p->buffer; i < p->buffer + p->buffers; i++)
		l->plan->buffer[i].first_step = l->plan->buffer[i].last_step = -1;
	for (int32_t i = p->step; i < p->step + p->steps; i++)
		plan_uses(l, i);
}

int32_t plan_add_procedure(struct lower *l, const struct ht_plan_procedure *of)
{
	struct ht_plan *p = l->plan;

	p->procedure = ht_grow(l->arena, p->procedure, (size_t)p->procedures,
		&l->planning->procedure_cap, sizeof *p->procedure);
	p->procedure[p->procedures] = *of;
	return p->procedures++;
}

int32_t plan_procedure(struct lower *l)
{
	l->procedure.buffers = l->plan->buffers - l->procedure.buffer;
	l->procedure.steps = l->plan->steps - l->procedure.step;
	plan_avoid_copies(l);
	plan_join_updates(l);
	plan_derive(l);
	plan_take_invariant(l);
	plan_loops_beside(l);
	plan_memory(l);
	return plan_add_procedure(l, &l->procedure);
}

/* ---- constants that nothing uses ---- */

static void keep(const struct ht_plan *p, bool *used, int32_t buffer)
{
	if (buffer < 0)
		return;
	used[buffer] = true;
	if (p->buffer[buffer].same)
		used[p->buffer[buffer].same - 1] = true;
}

void plan_drop_constants(struct lower *l)
{
	struct ht_plan *p = l->plan;
	bool *used = HT_NEW_ARRAY(l->scratch, bool, (size_t)p->buffers + 1);

	for (int32_t i = 0; i < p->buffers; i++)
		if (p->buffer[i].first_step >= 0)
			keep(p, used, i);
	for (int32_t i = 0; i < p->variables; i++)
		keep(p, used, p->variable[i].initial);
	for (int32_t i = 0; i < p->objects; i++)
		for (int32_t k = 0; k < p->object[i].constants; k++)
			keep(p, used, p->object[i].constant[k]);
	for (int32_t i = 0; i < p->buffers; i++)
		if (p->buffer[i].kind == HT_PLAN_CONST && !used[i])
			p->buffer[i] = (struct ht_plan_buffer){
				.kind = HT_PLAN_TEMP, .first_step = -1, .last_step = -1
			};
}
