/* The object of a net: code and weights of its programs, each once, and the plan that the runner of
 * aot/runner.h walks. */
#include "api/aot.h"

#include "aot/runner.h"

#include <string.h>

struct net {
	struct ht_aot *a;
	struct ht_map code, weight; /* bytes to offset + 1 */
	struct ht_aot_plan head;
	struct ht_aot_level *level;
};

static const char zeros[HT_OBJ_ALIGN];

static void align_buf(struct ht_buf *b, size_t to)
{
	ht_put(b, zeros, (to - b->n % to) % to);
}

static int64_t put_at(struct ht_buf *b, size_t align, const void *p, size_t n)
{
	int64_t at;

	align_buf(b, align);
	at = (int64_t)b->n;
	ht_put(b, p, n);
	return at;
}

/* ---- code ---- */

static enum ht_status put_kernel(
	struct net *n, const struct ht_program *p, size_t kernel, int64_t *entry_at)
{
	struct ht_buf *text = &n->a->obj.text;
	struct ht_map_entry *known;
	struct ht_str code;
	uint64_t entry;

	code = ht_program_kernel(p, kernel, &entry);
	known = ht_map_at(&n->code, code);
	if (!known->value) {
		align_buf(text, HT_OBJ_ALIGN);
		known->value = (void *)(uintptr_t)(text->n + 1);
		ht_obj_symbol(&n->a->obj,
			(struct ht_obj_symbol){ .name = ht_str_printf(n->a->arena, "%s.kernel%zu",
							n->a->prefix, n->code.count - 1)
							.p,
				.place = HT_OBJ_TEXT,
				.offset = text->n + entry,
				.bytes = code.n - entry,
				.function = true });
		ht_put_str(text, code);
		n->a->code_bytes += code.n;
	}
	*entry_at = (int64_t)((uintptr_t)known->value - 1 + entry);
	return HT_OK;
}

/* A function of the net: the arguments that the caller does not give, the plan, and off to the
 * runner. */
static void put_function(
	struct net *n, const char *name, struct ht_str begin, struct ht_str load, size_t runner)
{
	static const char endbr64[] = { '\xf3', '\x0f', '\x1e', '\xfa' };
	struct ht_buf *text = &n->a->obj.text;
	int32_t distance;
	size_t at;

	align_buf(text, 16);
	at = text->n;
	ht_put(text, endbr64, sizeof endbr64);
	ht_put_str(text, begin);
	ht_put_str(text, load);
	ht_obj_refer(&n->a->obj,
		(struct ht_obj_reference){
			.in = HT_OBJ_TEXT, .offset = text->n, .to = HT_OBJ_PLAN, .addend = -4 });
	ht_put(text, zeros, 4);
	ht_putc(text, '\xe9');
	distance = (int32_t)runner - (int32_t)(text->n + 4);
	ht_put(text, &distance, sizeof distance);
	ht_obj_symbol(&n->a->obj,
		(struct ht_obj_symbol){
			.name = ht_str_printf(n->a->arena, "%s_%s", n->a->prefix, name).p,
			.place = HT_OBJ_TEXT,
			.offset = at,
			.bytes = text->n - at,
			.function = true,
			.global = true });
}

static size_t in_runner(uintptr_t function)
{
	return (size_t)(function - (uintptr_t)ht_aot_code_begin);
}

static void put_runner(struct net *n)
{
	/* ht_aot_run() has weights in rcx, threads in r8, the plan in r9; ht_aot_target() in rdi. */
	const struct ht_str plan_6 = HT_STR("\x4c\x8d\x0d"), plan_1 = HT_STR("\x48\x8d\x3d"),
			    no_threads = HT_STR("\x45\x31\xc0"), nothing = HT_STR(""),
			    no_weights = HT_STR("\x31\xc9\x45\x31\xc0"),
			    threads_only = HT_STR("\x49\x89\xc8\x31\xc9");
	struct ht_buf *text = &n->a->obj.text;
	size_t bytes = (size_t)(ht_aot_code_end - ht_aot_code_begin);

	ht_put(text, ht_aot_code_begin, bytes);
	ht_obj_symbol(
		&n->a->obj, (struct ht_obj_symbol){
				    .name = ht_str_printf(n->a->arena, "%s.runner", n->a->prefix).p,
				    .place = HT_OBJ_TEXT,
				    .bytes = bytes,
				    .function = true });
	put_function(n, "run", n->a->external ? no_threads : no_weights, plan_6,
		in_runner((uintptr_t)ht_aot_run));
	put_function(n, "run_parallel", n->a->external ? nothing : threads_only, plan_6,
		in_runner((uintptr_t)ht_aot_run));
	put_function(n, "target", nothing, plan_1, in_runner((uintptr_t)ht_aot_target));
}

/* ---- weights ---- */

static uint64_t put_weight(struct net *n, const struct ht_rt_buffer *b)
{
	struct ht_obj_bytes *w = &n->a->obj.weights;
	struct ht_map_entry *known = ht_map_at(&n->weight, (struct ht_str){ b->data, b->bytes });

	if (!known->value) {
		ht_obj_bytes_pad(w, HT_OBJ_ALIGN);
		known->value = (void *)(uintptr_t)(w->bytes + 1);
		ht_obj_bytes_add(w, b->data, b->bytes);
		n->a->weight_bytes += b->bytes;
	}
	return (uintptr_t)known->value - 1 - HT_AOT_WEIGHTS_HEADER;
}

/* What stands in front of the weights: a name for people, and for the runner their SHA-256. */
static void put_weights_header(struct net *n)
{
	char *header = ht_alloc(n->a->arena, HT_AOT_WEIGHTS_HEADER);

	memcpy(header, "halftone weights", 16);
	ht_obj_bytes_add(&n->a->obj.weights, header, HT_AOT_WEIGHTS_HEADER);
}

static void finish_weights(struct net *n)
{
	struct ht_obj_bytes *w = &n->a->obj.weights;
	struct ht_sha256 s;

	ht_obj_bytes_pad(w, HT_OBJ_ALIGN);
	ht_obj_bytes_add(w, zeros, sizeof zeros); /* vectors may be read past an end */
	ht_sha256_begin(&s);
	for (size_t i = 1; i < w->n; i++)
		ht_sha256_add(&s, w->piece[i].p, w->piece[i].n);
	ht_sha256_end(&s, n->head.digest);
	memcpy((char *)(uintptr_t)w->piece[0].p + 32, n->head.digest, sizeof n->head.digest);
}

/* ---- the plan ---- */

static uint64_t argument(struct net *n, const struct ht_rt_buffer *b)
{
	switch (b->where) {
	case HT_RT_ARENA:
		return HT_AOT_ARG(HT_AOT_ARENA, b->offset);
	case HT_RT_CONST:
		return HT_AOT_ARG(HT_AOT_WEIGHT, put_weight(n, b));
	case HT_RT_INPUT:
		return HT_AOT_ARG(HT_AOT_INPUT, b->offset);
	default:
		return HT_AOT_ARG(HT_AOT_OUTPUT, b->offset);
	}
}

static enum ht_status put_step(
	struct net *n, const struct ht_program *p, int32_t i, struct ht_aot_step *to)
{
	const struct ht_rt_step *s = &p->rt.step[i];
	struct ht_buf *plan = &n->a->obj.plan;
	uint64_t *arg = HT_NEW_ARRAY(n->a->arena, uint64_t, (size_t)s->args);

	if (s->args > HT_AOT_MAX_ARGS)
		return ht_error(n->a->diags, HT_E_UNSUPPORTED,
			(struct ht_where){ .node = ht_str(s->node), .offset = -1 },
			"works on %d tensors at once; a net takes %d", (int)s->args,
			HT_AOT_MAX_ARGS);
	for (int32_t k = 0; k < s->args; k++)
		arg[k] = argument(n, &p->rt.buffer[s->buffer[k]]);
	to->args = (uint64_t)s->args;
	to->tiles = s->tiles;
	to->arg = put_at(plan, 8, arg, (size_t)s->args * sizeof *arg);
	to->params = put_at(plan, 8, s->params, (size_t)s->param_count * sizeof *s->params);
	return put_kernel(n, p, ht_program_kernel_of(p, (size_t)i), &to->entry);
}

uint64_t ht_aot_needs(const char *target)
{
	const struct ht_target *t = ht_target_named(target);

	return HT_AOT_NEEDS((uint64_t)ht_target_level(t), (uint64_t)t->extensions);
}

static uint64_t up(uint64_t n)
{
	return (n + 63) / 64 * 64;
}

/* Of an input or output, from part to part. */
static void part_bytes(const struct ht_program *p, enum ht_rt_where where, int64_t *bytes)
{
	for (int32_t i = 0; i < p->rt.buffers; i++)
		if (p->rt.buffer[i].where == where)
			bytes[p->rt.buffer[i].offset] =
				(int64_t)ht_rt_part_bytes(&p->rt, &p->rt.buffer[i]);
}

static void put_parts(struct net *n, const struct ht_program *p, struct ht_aot_level *level)
{
	size_t ins = ht_program_inputs(p), outs = ht_program_outputs(p);
	int64_t *in = HT_NEW_ARRAY(n->a->arena, int64_t, ins),
		*out = HT_NEW_ARRAY(n->a->arena, int64_t, outs);

	level->parts = (uint64_t)p->rt.parts;
	if (level->parts == 1)
		return;
	part_bytes(p, HT_RT_INPUT, in);
	part_bytes(p, HT_RT_OUTPUT, out);
	level->in_part = put_at(&n->a->obj.plan, 8, in, ins * sizeof *in);
	level->out_part = put_at(&n->a->obj.plan, 8, out, outs * sizeof *out);
	level->thread_bytes += level->scratch; /* an arena each */
}

static enum ht_status put_level(
	struct net *n, const struct ht_program *p, struct ht_aot_level *level)
{
	struct ht_aot_step *step =
		HT_NEW_ARRAY(n->a->arena, struct ht_aot_step, (size_t)p->rt.steps);
	struct ht_buf *plan = &n->a->obj.plan;
	uint64_t common;

	for (int32_t i = 0; i < p->rt.steps; i++)
		HT_TRY(put_step(n, p, i, &step[i]));
	level->needs = ht_aot_needs(p->info.target);
	level->name = put_at(plan, 1, p->info.target, strlen(p->info.target) + 1);
	level->steps = (uint64_t)p->rt.steps;
	level->step = put_at(plan, 8, step, (size_t)p->rt.steps * sizeof *step);
	level->scratch = up(p->rt.arena_bytes);
	level->thread_bytes = up(p->rt.scratch_bytes + 64); /* likewise past an end */
	put_parts(n, p, level);
	common = level->parts > 1 ? 0 : level->scratch;
	if (common > n->a->arena_bytes)
		n->a->arena_bytes = common;
	if (level->thread_bytes > n->a->thread_bytes)
		n->a->thread_bytes = level->thread_bytes;
	return HT_OK;
}

static void put_defaults(struct net *n)
{
	const struct ht_program *p = n->a->program[0];
	size_t inputs = ht_program_inputs(p);
	int64_t *at = HT_NEW_ARRAY(n->a->arena, int64_t, inputs);
	struct ht_buf *plan = &n->a->obj.plan;

	for (size_t i = 0; i < inputs; i++)
		if (p->input[i].value)
			at[i] = put_at(plan, HT_OBJ_ALIGN, p->input[i].value, p->input[i].bytes);
	n->head.inputs = inputs;
	n->head.fallback = put_at(plan, 8, at, inputs * sizeof *at);
	ht_put(plan, zeros, sizeof zeros);
}

/* A field of the plan that says how far from the plan something else is. */
static void refer(struct net *n, size_t field, enum ht_obj_place to)
{
	ht_obj_refer(&n->a->obj, (struct ht_obj_reference){ .in = HT_OBJ_PLAN,
					 .offset = field,
					 .wide = true,
					 .to = to,
					 .addend = (int64_t)field });
}

static void put_head(struct net *n)
{
	struct ht_buf *plan = &n->a->obj.plan;

	n->head.levels = n->a->programs;
	n->head.external = n->a->external;
	n->head.keep_subnormals = n->a->keep_subnormals;
	memcpy(plan->p, &n->head, sizeof n->head);
	memcpy(plan->p + sizeof n->head, n->level, n->a->programs * sizeof *n->level);
	refer(n, offsetof(struct ht_aot_plan, code), HT_OBJ_TEXT);
	refer(n, offsetof(struct ht_aot_plan, state), HT_OBJ_STATE);
	if (!n->a->external)
		refer(n, offsetof(struct ht_aot_plan, weights), HT_OBJ_WEIGHTS);
}

static void put_metadata(struct net *n)
{
	struct ht_buf *plan = &n->a->obj.plan;
	struct ht_str text;

	n->a->metadata = text = ht_aot_metadata(n->a);
	ht_obj_symbol(&n->a->obj,
		(struct ht_obj_symbol){
			.name = ht_str_printf(n->a->arena, "%s_metadata", n->a->prefix).p,
			.place = HT_OBJ_PLAN,
			.offset = plan->n,
			.bytes = text.n + 1,
			.global = true });
	ht_put(plan, text.p, text.n + 1);
}

enum ht_status ht_aot_make(struct ht_aot *a)
{
	struct net n = { .a = a,
		.level = HT_NEW_ARRAY(a->arena, struct ht_aot_level, a->programs) };

	ht_obj_init(&a->obj, a->arena);
	ht_map_init(&n.code, a->arena);
	ht_map_init(&n.weight, a->arena);
	a->obj.state_bytes = sizeof(int32_t);
	/* Room for the head, which is known last. */
	ht_put(&a->obj.plan, ht_alloc(a->arena, sizeof n.head), sizeof n.head);
	ht_put(&a->obj.plan, n.level, a->programs * sizeof *n.level);
	put_runner(&n);
	put_weights_header(&n);
	for (size_t i = 0; i < a->programs; i++)
		HT_TRY(put_level(&n, a->program[i], &n.level[i]));
	put_defaults(&n);
	finish_weights(&n);
	put_head(&n);
	put_metadata(&n);
	ht_put(&a->obj.text, zeros, sizeof zeros);
	return HT_OK;
}
