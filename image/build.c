#include "image/build.h"

#include <string.h>

static const size_t item_bytes[HT_IMAGE_TABLES] = {
	[HT_IMAGE_PROCEDURES] = sizeof(struct ht_image_procedure),
	[HT_IMAGE_STEPS] = sizeof(struct ht_image_step),
	[HT_IMAGE_NOTES] = sizeof(struct ht_image_note),
	[HT_IMAGE_BUFFERS] = sizeof(struct ht_image_buffer),
	[HT_IMAGE_ARGS] = sizeof(uint32_t),
	[HT_IMAGE_PATCHES] = sizeof(uint32_t),
	[HT_IMAGE_PARAMS] = sizeof(int64_t),
	[HT_IMAGE_KERNELS] = sizeof(struct ht_image_kernel),
	[HT_IMAGE_TOUCHES] = sizeof(struct ht_image_touch),
	[HT_IMAGE_CONSTANTS] = sizeof(uint64_t),
	[HT_IMAGE_RANDOM] = sizeof(struct ht_image_stream),
	[HT_IMAGE_VARIABLES] = sizeof(struct ht_image_variable),
	[HT_IMAGE_ENTRIES] = sizeof(struct ht_image_entry),
	[HT_IMAGE_PORTS] = sizeof(struct ht_image_port),
	[HT_IMAGE_WORDS] = sizeof(struct ht_image_words),
	[HT_IMAGE_DIMS] = sizeof(int64_t),
	[HT_IMAGE_TEXTS] = 1,
	[HT_IMAGE_DATA] = 1,
	[HT_IMAGE_SIZES] = sizeof(struct ht_image_size),
	[HT_IMAGE_EXPRESSIONS] = sizeof(struct ht_image_expression),
	[HT_IMAGE_DERIVATIONS] = sizeof(struct ht_image_derivation),
	[HT_IMAGE_DERIVED_BUFFERS] = sizeof(struct ht_image_derived),
	[HT_IMAGE_SOURCES] = sizeof(struct ht_image_source),
	[HT_IMAGE_OBJECTS] = sizeof(struct ht_image_object),
	[HT_IMAGE_PLACES] = sizeof(struct ht_image_place_of),
	[HT_IMAGE_REACHES] = sizeof(struct ht_image_reach),
};

static uint32_t count_of(const struct ht_image_builder *b, enum ht_image_table t)
{
	return (uint32_t)(b->table[t].n / item_bytes[t]);
}

/* Appends `n` items; returns the number of the first. */
static uint32_t put(struct ht_image_builder *b, enum ht_image_table t, const void *items, size_t n)
{
	uint32_t at = count_of(b, t);

	if (n)
		ht_put(&b->table[t], items, n * item_bytes[t]);
	if (b->table[t].n > UINT32_MAX / 2)
		ht_arena_fail(b->arena);
	return at;
}

void ht_image_begin(struct ht_image_builder *b, struct ht_arena *a)
{
	memset(b, 0, sizeof *b);
	b->arena = a;
	for (int t = 0; t < HT_IMAGE_TABLES; t++)
		ht_buf_init(&b->table[t], a);
	ht_map_init(&b->text, a);
	ht_putc(&b->table[HT_IMAGE_TEXTS], 0);
}

static size_t align_of(enum ht_image_table t)
{
	return t == HT_IMAGE_DATA ? HT_IMAGE_ALIGN : 8;
}

static size_t up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

struct ht_str ht_image_end(struct ht_image_builder *b)
{
	struct ht_image head = { .version = HT_IMAGE_VERSION };
	uint32_t tables;
	size_t n;
	char *raw, *out;

	memcpy(head.magic, HT_IMAGE_MAGIC, sizeof head.magic);
	if (b->table[HT_IMAGE_RANDOM].n)
		head.features |= HT_IMAGE_STREAMS;
	if (b->table[HT_IMAGE_VARIABLES].n)
		head.features |= HT_IMAGE_HAS_VARIABLES;
	if (b->table[HT_IMAGE_SIZES].n)
		head.features |= HT_IMAGE_OPEN;
	if (b->sized)
		head.features |= HT_IMAGE_SIZED;
	if (b->computed)
		head.features |= HT_IMAGE_COMPUTED;
	if (b->table[HT_IMAGE_DERIVATIONS].n)
		head.features |= HT_IMAGE_DERIVED;
	if (b->table[HT_IMAGE_DERIVED_BUFFERS].n)
		head.features |= HT_IMAGE_DERIVES;
	if (b->table[HT_IMAGE_OBJECTS].n)
		head.features |= HT_IMAGE_HAS_OBJECTS;
	if (b->strings)
		head.features |= HT_IMAGE_STRINGS;
	if (b->besides)
		head.features |= HT_IMAGE_BESIDES;
	if (b->table[HT_IMAGE_PLACES].n)
		head.features |= HT_IMAGE_PLACED;
	tables = ht_image_tables(&head);
	n = ht_image_head(&head);
	for (uint32_t t = 0; t < tables; t++) {
		n = up(n, align_of((enum ht_image_table)t));
		head.table[t].offset = (uint32_t)n;
		head.table[t].count = count_of(b, (enum ht_image_table)t);
		n += b->table[t].n;
	}
	n = up(n, HT_IMAGE_ALIGN);
	if (n > UINT32_MAX)
		ht_arena_fail(b->arena);
	head.bytes = (uint32_t)n;
	raw = ht_alloc(b->arena, n + HT_IMAGE_ALIGN);
	out = raw + (HT_IMAGE_ALIGN - (uintptr_t)raw % HT_IMAGE_ALIGN) % HT_IMAGE_ALIGN;
	memcpy(out, &head, ht_image_head(&head));
	for (uint32_t t = 0; t < tables; t++)
		if (b->table[t].n)
			memcpy(out + head.table[t].offset, b->table[t].p, b->table[t].n);
	return (struct ht_str){ out, n };
}

uint32_t ht_image_put_text(struct ht_image_builder *b, struct ht_str s)
{
	struct ht_map_entry *e;
	uint32_t at;

	if (!s.n)
		return 0;
	e = ht_map_at(&b->text, ht_str_copy(b->arena, s));
	if (e->value)
		return (uint32_t)((uintptr_t)e->value - 1);
	at = put(b, HT_IMAGE_TEXTS, s.p, s.n);
	put(b, HT_IMAGE_TEXTS, "", 1);
	e->value = (void *)((uintptr_t)at + 1);
	return at;
}

uint32_t ht_image_put_kernel(struct ht_image_builder *b, const char *name,
	const struct ht_image_touch *touch, size_t args, size_t params, uint64_t scratch_bytes)
{
	struct ht_image_kernel k = { .name = ht_image_put_text(b, ht_str(name)),
		.touch = put(b, HT_IMAGE_TOUCHES, touch, args),
		.args = (uint32_t)args,
		.params = (uint32_t)params,
		.scratch_bytes = scratch_bytes };

	return put(b, HT_IMAGE_KERNELS, &k, 1);
}

uint32_t ht_image_put_constant(struct ht_image_builder *b, uint64_t bytes)
{
	return put(b, HT_IMAGE_CONSTANTS, &bytes, 1);
}

uint32_t ht_image_put_stream(struct ht_image_builder *b, const struct ht_image_stream *s)
{
	return put(b, HT_IMAGE_RANDOM, s, 1);
}

uint32_t ht_image_put_variable(struct ht_image_builder *b, const struct ht_image_variable_text *v)
{
	struct ht_image_variable to = { .name = ht_image_put_text(b, v->name),
		.dtype = v->dtype,
		.dim = put(b, HT_IMAGE_DIMS, v->shape.dim, (size_t)v->shape.rank),
		.rank = (uint32_t)v->shape.rank,
		.constant = v->constant,
		.use = v->use,
		.offset = b->variable_bytes,
		.bytes = v->bytes };

	b->variable_bytes = up(b->variable_bytes + v->bytes, HT_IMAGE_ALIGN);
	return put(b, HT_IMAGE_VARIABLES, &to, 1);
}

uint32_t ht_image_put_derived(struct ht_image_builder *b, uint64_t bytes,
	const struct ht_image_source *source, size_t sources)
{
	struct ht_image_derived to = { .source = put(b, HT_IMAGE_SOURCES, source, sources),
		.sources = (uint32_t)sources,
		.offset = b->derived_bytes,
		.bytes = up(bytes, HT_IMAGE_ALIGN) };

	b->derived_bytes += to.bytes;
	return put(b, HT_IMAGE_DERIVED_BUFFERS, &to, 1);
}

struct ht_image_touch ht_image_object_touch(struct ht_image_builder *b, const char *kind)
{
	return (struct ht_image_touch){ .bytes = ht_image_put_text(b, ht_str(kind)),
		.written = HT_IMAGE_USES };
}

uint32_t ht_image_put_object(struct ht_image_builder *b, const struct ht_image_object_text *o)
{
	struct ht_image_object to = { .name = ht_image_put_text(b, o->name),
		.kind = ht_image_put_text(b, ht_str(o->kind)),
		.owner = o->owner,
		.constant = put(b, HT_IMAGE_ARGS, o->constant, o->constants),
		.constants = (uint32_t)o->constants,
		.param = put(b, HT_IMAGE_PARAMS, o->param, o->params),
		.params = (uint32_t)o->params };

	b->strings |= o->owner == HT_IMAGE_OF_CONTEXT;
	return put(b, HT_IMAGE_OBJECTS, &to, 1);
}

uint32_t ht_image_put_size(
	struct ht_image_builder *b, struct ht_str name, int64_t least, int64_t most)
{
	struct ht_image_size to = {
		.name = ht_image_put_text(b, name), .least = least, .most = most
	};

	return put(b, HT_IMAGE_SIZES, &to, 1);
}

uint32_t ht_image_put_computed_size(struct ht_image_builder *b, struct ht_str name, int64_t most)
{
	struct ht_image_size to = {
		.name = ht_image_put_text(b, name), .kind = HT_IMAGE_BY_STEP, .most = most
	};

	b->computed = b->sized = true;
	return put(b, HT_IMAGE_SIZES, &to, 1);
}

uint32_t ht_image_put_derived_size(struct ht_image_builder *b, struct ht_str name, int64_t least,
	int64_t most, const struct ht_size_expr *from)
{
	struct ht_image_derivation d = { .of = (uint32_t)from->size[0] - 1,
		.factor = from->factor,
		.add = from->add,
		.divisor = from->divisor };
	struct ht_image_size to = { .name = ht_image_put_text(b, name),
		.kind = HT_IMAGE_BY_SIZE,
		.least = least,
		.most = most };

	HT_CHECK(from->times == 1 && ht_size_count(from) == 1);
	d.size = put(b, HT_IMAGE_SIZES, &to, 1);
	put(b, HT_IMAGE_DERIVATIONS, &d, 1);
	return d.size;
}

/* The number of an equal item, or the number that the next item will get if there is none. */
static uint32_t known_item(const struct ht_image_builder *b, const struct ht_image_expression *item)
{
	const struct ht_image_expression *all = (const void *)b->table[HT_IMAGE_EXPRESSIONS].p;
	uint32_t i = 0;

	while (i < count_of(b, HT_IMAGE_EXPRESSIONS) && memcmp(&all[i], item, sizeof *item) != 0)
		i++;
	return i;
}

uint32_t ht_image_put_expression(struct ht_image_builder *b, const struct ht_size_expr *e)
{
	struct ht_image_expression item = {
		.size = (uint32_t)e->size[0] - 1, .factor = e->times, .divisor = e->divisor
	};

	HT_CHECK(e->factor == 1 && !e->add && ht_size_count(e) == 1);
	return put(b, HT_IMAGE_EXPRESSIONS, &item, 1);
}

uint32_t ht_image_put_product(struct ht_image_builder *b, const struct ht_size_expr *e)
{
	struct ht_image_expression item = { .divisor = 1 };
	const int n = ht_size_count(e);
	uint32_t i = 0;

	HT_CHECK(ht_size_is_product(e) && e->factor == 1 && n);
	for (int k = 0; k < n; k++) {
		item.size = (uint32_t)e->size[k] - 1;
		item.factor = k + 1 == n ? e->times : 1;
		i = known_item(b, &item);
		if (i == count_of(b, HT_IMAGE_EXPRESSIONS))
			put(b, HT_IMAGE_EXPRESSIONS, &item, 1);
		item.times = i + 1;
	}
	b->sized = true;
	return i;
}

struct ht_image_reach ht_image_reach_of(struct ht_image_builder *b, const struct ht_reach *r)
{
	return (struct ht_image_reach){ .add = r->add,
		.sized = ht_size_count(&r->of) ? 1 + ht_image_put_product(b, &r->of) : 0 };
}

void ht_image_put_reaches(struct ht_image_builder *b, const struct ht_image_reach *r, size_t n)
{
	put(b, HT_IMAGE_REACHES, r, n);
}

void ht_image_put_place(struct ht_image_builder *b, const struct ht_image_place_of *p)
{
	put(b, HT_IMAGE_PLACES, p, 1);
}

/* ---- procedures ---- */

void ht_image_begin_procedure(struct ht_image_builder *b, struct ht_str name)
{
	b->loop = 0;
	b->procedure = (struct ht_image_procedure){ .name = ht_image_put_text(b, name),
		.step = count_of(b, HT_IMAGE_STEPS),
		.buffer = count_of(b, HT_IMAGE_BUFFERS),
		.arg = count_of(b, HT_IMAGE_ARGS),
		.patch = count_of(b, HT_IMAGE_PATCHES) };
}

static struct ht_image_step *steps_of(struct ht_image_builder *b)
{
	return (struct ht_image_step *)(void *)b->table[HT_IMAGE_STEPS].p + b->procedure.step;
}

uint32_t ht_image_end_procedure(struct ht_image_builder *b, uint64_t frame_bytes)
{
	struct ht_image_procedure *p = &b->procedure;
	const uint32_t *arg;

	HT_CHECK(!b->loop);
	p->frame_bytes = up(frame_bytes, HT_IMAGE_ALIGN);
	for (uint32_t i = 0; i < p->args; i++) {
		arg = (const uint32_t *)(void *)b->table[HT_IMAGE_ARGS].p + p->arg;
		if (arg[i] < p->params)
			put(b, HT_IMAGE_PATCHES, &i, 1);
	}
	p->patches = count_of(b, HT_IMAGE_PATCHES) - p->patch;
	return put(b, HT_IMAGE_PROCEDURES, p, 1);
}

uint32_t ht_image_put_buffer(struct ht_image_builder *b, struct ht_image_buffer buffer)
{
	const struct ht_image_derived *derived = (const void *)b->table[HT_IMAGE_DERIVED_BUFFERS].p;

	if (buffer.kind == HT_IMAGE_PARAM)
		buffer.number = b->procedure.params++;
	if (buffer.kind == HT_IMAGE_DERIVED_BUFFER)
		buffer.offset += derived[buffer.number].offset;
	put(b, HT_IMAGE_BUFFERS, &buffer, 1);
	return b->procedure.buffers++;
}

static uint32_t put_words(struct ht_image_builder *b, const struct ht_words *w, size_t n)
{
	uint32_t at = count_of(b, HT_IMAGE_WORDS);

	for (size_t i = 0; i < n; i++) {
		struct ht_image_words to = { .text = ht_image_put_text(b, ht_str(w[i].text)),
			.arg = (uint32_t)w[i].arg,
			.dtype = (uint32_t)w[i].dtype,
			.dim = put(b, HT_IMAGE_DIMS, w[i].dim, w[i].rank),
			.rank = (uint32_t)w[i].rank,
			.most = w[i].most };

		put(b, HT_IMAGE_WORDS, &to, 1);
	}
	return at;
}

static void put_note(struct ht_image_builder *b, const struct ht_image_note_text *text)
{
	struct ht_image_note n = { 0 };

	if (text)
		n = (struct ht_image_note){ .node = ht_image_put_text(b, text->node),
			.method = ht_image_put_text(b, text->method),
			.words = put_words(b, text->words, text->words_count),
			.words_count = (uint32_t)text->words_count };
	put(b, HT_IMAGE_NOTES, &n, 1);
}

uint32_t ht_image_put_step(struct ht_image_builder *b, struct ht_image_step s, const uint32_t *arg,
	size_t args, const int64_t *param, size_t params, const struct ht_image_note_text *note)
{
	struct ht_image_procedure *p = &b->procedure;

	s.arg = put(b, HT_IMAGE_ARGS, arg, args) - p->arg;
	s.args = (uint32_t)args;
	s.param = put(b, HT_IMAGE_PARAMS, param, params);
	s.params = (uint32_t)params;
	s.loop = b->loop;
	p->args += s.args;
	b->besides |= s.op == HT_IMAGE_BESIDE;
	put(b, HT_IMAGE_STEPS, &s, 1);
	put_note(b, note);
	if (s.op == HT_IMAGE_LOOP) {
		b->loop = p->steps + 1;
		if (s.count >= p->loops)
			p->loops = s.count + 1;
	}
	return p->steps++;
}

uint32_t ht_image_put_again(struct ht_image_builder *b, const struct ht_image_note_text *note)
{
	const struct ht_image_step begin = steps_of(b)[b->loop - 1];
	uint32_t at = ht_image_put_step(b,
		(struct ht_image_step){
			.op = HT_IMAGE_AGAIN, .to = b->loop - 1, .count = begin.count },
		NULL, 0, NULL, 0, note);

	b->loop = begin.loop;
	return at;
}

void ht_image_land(struct ht_image_builder *b, uint32_t step)
{
	steps_of(b)[step].to = b->procedure.steps;
}

/* ---- entries ---- */

static uint32_t put_value(struct ht_image_builder *b, const void *value, uint64_t bytes)
{
	static const char zeros[HT_IMAGE_ALIGN];
	struct ht_buf *data = &b->table[HT_IMAGE_DATA];

	if (!value)
		return HT_IMAGE_NO_VALUE;
	put(b, HT_IMAGE_DATA, zeros, up(data->n, HT_IMAGE_ALIGN) - data->n);
	return put(b, HT_IMAGE_DATA, value, bytes);
}

static void put_ports(struct ht_image_builder *b, const struct ht_image_port_text *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ht_image_port to = { .name = ht_image_put_text(b, p[i].name),
			.alias = ht_image_put_text(b, p[i].alias),
			.dtype = p[i].dtype,
			.dim = put(b, HT_IMAGE_DIMS, p[i].shape.dim, (size_t)p[i].shape.rank),
			.rank = (uint32_t)p[i].shape.rank,
			.value = put_value(b, p[i].value, p[i].bytes),
			.bytes = p[i].bytes };

		put(b, HT_IMAGE_PORTS, &to, 1);
	}
}

uint32_t ht_image_put_entry(struct ht_image_builder *b, struct ht_str name, uint32_t procedure,
	const struct ht_image_port_text *input, size_t inputs,
	const struct ht_image_port_text *output, size_t outputs)
{
	struct ht_image_entry e = { .name = ht_image_put_text(b, name),
		.procedure = procedure,
		.port = count_of(b, HT_IMAGE_PORTS),
		.inputs = (uint32_t)inputs,
		.outputs = (uint32_t)outputs };

	put_ports(b, input, inputs);
	put_ports(b, output, outputs);
	return put(b, HT_IMAGE_ENTRIES, &e, 1);
}
