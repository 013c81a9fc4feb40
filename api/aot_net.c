/* The object of a net: code and weights of its programs, equal ones once, and the plan that the
 * runner of aot/runner.h walks. */
#include "api/aot.h"

#include "aot/teller.h"
#include "kernel/library_net.h"

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

static int64_t put_kernel(struct net *n, const struct ht_program *p, size_t kernel)
{
	struct ht_buf *text = &n->a->obj.text;
	const char *library = ht_program_library(p, kernel);
	struct ht_map_entry *known;
	uint64_t entry;
	struct ht_str code = library[0] ? ht_library_net_code(library, &entry)
					: ht_program_kernel(p, kernel, &entry);

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
	return (int64_t)((uintptr_t)known->value - 1 + entry);
}

/* A function of the net: loads the arguments that the caller does not pass, among them the plan,
 * and jumps to offset `to` of the text, in the runner or in the teller. */
static void put_function(
	struct net *n, const char *name, struct ht_str begin, struct ht_str load, size_t to)
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
	distance = (int32_t)to - (int32_t)(text->n + 4);
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

/* Puts a piece of code of aot/ into the text.  Returns its offset. */
static size_t put_piece(struct net *n, const char *name, const char *begin, const char *end)
{
	struct ht_buf *text = &n->a->obj.text;
	size_t at;

	align_buf(text, HT_OBJ_ALIGN);
	at = text->n;
	ht_put(text, begin, (size_t)(end - begin));
	ht_obj_symbol(&n->a->obj,
		(struct ht_obj_symbol){
			.name = ht_str_printf(n->a->arena, "%s.%s", n->a->prefix, name).p,
			.place = HT_OBJ_TEXT,
			.offset = at,
			.bytes = (size_t)(end - begin),
			.function = true });
	return at;
}

static void put_runner(struct net *n)
{
	/* ht_aot_run() has weights in rcx, threads in r8, the plan in r9; ht_aot_begin() weights in rsi, the
	 * plan in rdx; ht_aot_target() in rdi. */
	const struct ht_str plan_6 = HT_STR("\x4c\x8d\x0d"), plan_3 = HT_STR("\x48\x8d\x15"),
			    plan_1 = HT_STR("\x48\x8d\x3d"), begins_without = HT_STR("\x31\xf6"),
			    no_threads = HT_STR("\x45\x31\xc0"), nothing = HT_STR(""),
			    no_weights = HT_STR("\x31\xc9\x45\x31\xc0"),
			    threads_only = HT_STR("\x49\x89\xc8\x31\xc9");
	const uintptr_t begin = (uintptr_t)ht_aot_code_begin;
	size_t at = put_piece(n, "runner", ht_aot_code_begin, ht_aot_code_end);

	put_function(n, "run", n->a->external ? no_threads : no_weights, plan_6,
		at + ((uintptr_t)ht_aot_run - begin));
	put_function(n, "run_parallel", n->a->external ? nothing : threads_only, plan_6,
		at + ((uintptr_t)ht_aot_run - begin));
	if (ht_aot_keeps(n->a))
		put_function(n, "begin", n->a->external ? nothing : begins_without, plan_3,
			at + ((uintptr_t)ht_aot_begin - begin));
	put_function(n, "target", nothing, plan_1, at + ((uintptr_t)ht_aot_target - begin));
}

static void put_teller(struct net *n)
{
	/* ht_aot_status_text() has the plan in rsi, ht_aot_stopped() in rcx, ht_aot_stop_text() in r8. */
	const struct ht_str plan_2 = HT_STR("\x48\x8d\x35"), plan_4 = HT_STR("\x48\x8d\x0d"),
			    plan_5 = HT_STR("\x4c\x8d\x05"), nothing = HT_STR("");
	const uintptr_t begin = (uintptr_t)ht_aot_teller_begin;
	size_t at = put_piece(n, "teller", ht_aot_teller_begin, ht_aot_teller_end);
	struct ht_buf texts;

	put_function(
		n, "status_text", nothing, plan_2, at + ((uintptr_t)ht_aot_status_text - begin));
	put_function(n, "stopped", nothing, plan_4, at + ((uintptr_t)ht_aot_stopped - begin));
	put_function(n, "stop_text", nothing, plan_5, at + ((uintptr_t)ht_aot_stop_text - begin));
	n->head.record = (int64_t)(at + ((uintptr_t)ht_aot_record - begin));
	ht_buf_init(&texts, n->a->arena);
	ht_aot_put_texts(n->a, &texts);
	n->head.texts = put_at(&n->a->obj.plan, 1, texts.p, texts.n);
}

/* ---- weights ---- */

static int64_t put_weight(struct net *n, struct ht_str b)
{
	struct ht_obj_bytes *w = &n->a->obj.weights;
	struct ht_map_entry *known = ht_map_at(&n->weight, b);

	if (!known->value) {
		ht_obj_bytes_pad(w, HT_OBJ_ALIGN);
		known->value = (void *)(uintptr_t)(w->bytes + 1);
		ht_obj_bytes_add(w, b.p, b.n);
		n->a->weight_bytes += b.n;
	}
	return (int64_t)((uintptr_t)known->value - 1);
}

/* The header in front of the weights: a name for people, and for the runner their SHA-256. */
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
	ht_obj_bytes_add(w, zeros, sizeof zeros); /* vector loads may go past the end */
	ht_sha256_begin(&s);
	for (size_t i = 1; i < w->n; i++)
		ht_sha256_add(&s, w->piece[i].p, w->piece[i].n);
	ht_sha256_end(&s, n->head.digest);
	memcpy((char *)(uintptr_t)w->piece[0].p + 32, n->head.digest, sizeof n->head.digest);
}

/* ---- the plan ---- */

uint64_t ht_aot_needs(const char *target)
{
	const struct ht_target *t = ht_target_named(target);

	return HT_AOT_NEEDS((uint64_t)ht_target_level(t), (uint64_t)t->extensions);
}

static void put_kernels(struct net *n, const struct ht_program *p, struct ht_aot_level *level)
{
	size_t count = ht_image_count(p->rt.image, HT_IMAGE_KERNELS);
	int64_t *at = HT_NEW_ARRAY(n->a->arena, int64_t, count);

	for (size_t i = 0; i < count; i++)
		at[i] = put_kernel(n, p, i);
	level->kernel = put_at(&n->a->obj.plan, 8, at, count * sizeof *at);
}

static void put_constants(struct net *n, const struct ht_program *p, struct ht_aot_level *level)
{
	const uint64_t *bytes = ht_image_constants(p->rt.image);
	size_t count = ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS);
	int64_t *at = HT_NEW_ARRAY(n->a->arena, int64_t, count);

	for (size_t i = 0; i < count; i++)
		at[i] = put_weight(n, (struct ht_str){ (const char *)(uintptr_t)p->rt.constant[i],
					      (size_t)bytes[i] });
	level->constant = put_at(&n->a->obj.plan, 8, at, count * sizeof *at);
}

bool ht_aot_memory(const struct ht_image *x, struct ht_exec_needs *memory)
{
	const struct ht_exec_limits limits = HT_EXEC_LIMITS_INIT;
	const uint64_t record = ht_aot_record_end(x);

	if (!ht_exec_needs_of(x, 0, &limits, memory))
		return false;
	memory->control = memory->control > record ? memory->control : record;
	return true;
}

static enum ht_status put_level(
	struct net *n, const struct ht_program *p, struct ht_aot_level *level)
{
	struct ht_buf *plan = &n->a->obj.plan;
	struct ht_aot *a = n->a;

	if (!ht_aot_memory(p->rt.image, &level->memory)) {
		ht_error(a->diags, HT_E_UNSUPPORTED, HT_NOWHERE,
			"the program takes more memory than there can be");
		ht_program_tell_memory(p, a->diags);
		return HT_E_UNSUPPORTED;
	}
	level->needs = ht_aot_needs(p->info.target);
	ht_aot_place_kept(p->rt.image, level);
	level->name = put_at(plan, 1, p->info.target, strlen(p->info.target) + 1);
	put_kernels(n, p, level);
	put_constants(n, p, level);
	level->image = put_at(plan, HT_IMAGE_ALIGN, p->image.p, p->image.n);
	if (ht_exec_common_bytes(&level->memory) > a->arena_bytes)
		a->arena_bytes = ht_exec_common_bytes(&level->memory);
	if (ht_exec_thread_bytes(&level->memory) > a->thread_bytes)
		a->thread_bytes = ht_exec_thread_bytes(&level->memory);
	return HT_OK;
}

/* Writes a field of the plan: the distance from the plan to something else. */
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
	n->head.iterations = n->a->iterations;
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
	/* Reserves room for the header, which is known last. */
	ht_put(&a->obj.plan, ht_alloc(a->arena, sizeof n.head), sizeof n.head);
	ht_put(&a->obj.plan, n.level, a->programs * sizeof *n.level);
	put_runner(&n);
	put_teller(&n);
	put_weights_header(&n);
	for (size_t i = 0; i < a->programs; i++)
		HT_TRY(put_level(&n, a->program[i], &n.level[i]));
	ht_put(&a->obj.plan, zeros, sizeof zeros);
	finish_weights(&n);
	put_head(&n);
	put_metadata(&n);
	ht_put(&a->obj.text, zeros, sizeof zeros);
	return HT_OK;
}
