/* Images of programs that tests write as tables, with kernels in C. */
#ifndef HT_TEST_PROGRAM_H
#define HT_TEST_PROGRAM_H

#include "image/build.h"
#include "image/verify.h"
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdlib.h>

enum where { ARENA, CONSTANT, INPUT, OUTPUT, STREAM };
struct buffer {
	enum where where;
	size_t offset;    /* ARENA: bytes; STREAM: its number */
	const void *data; /* CONSTANT */
	size_t bytes;     /* of INPUT and OUTPUT, in one part of the batch */
	bool whole;       /* INPUT: every part gets all of it */
};

struct step {
	ht_exec_fn *fn;
	const int32_t *buffer;
	int32_t args;
	const int64_t *params;
	int32_t param_count;
	int64_t tiles;
	const char *node;
};

struct program {
	const struct buffer *buffer;
	int32_t buffers;
	const struct step *step;
	int32_t steps;
	const struct ht_image_stream *stream;
	int32_t streams;
	size_t arena_bytes, scratch_bytes;
	int64_t parts;
	bool (*is_whole)(void *arg, uint32_t constant, int worker, int workers);
	void *is_whole_arg;
};

struct made {
	struct made *next;
	struct ht_arena arena;
	struct ht_image_builder b;
	struct ht_rt_program rt;
	struct ht_rt_context *context;
};

static void put_ports(struct made *m, const struct program *p, enum where where,
	struct ht_image_port_text *port, size_t *n)
{
	for (int32_t i = 0; i < p->buffers; i++) {
		const struct buffer *b = &p->buffer[i];
		int64_t bytes = (int64_t)b->bytes * (b->whole ? 1 : p->parts);

		if (b->where == where)
			port[(*n)++] = (struct ht_image_port_text){ .name = HT_STR("x"),
				.dtype = HT_U8,
				.shape = ht_shape_make(&m->arena, 1, &bytes),
				.bytes = (uint64_t)bytes };
	}
}

/* Writes the parameters of the batch, or of one part of it. */
static void put_parameters(struct made *m, const struct program *p, uint32_t *number, bool batch)
{
	for (int pass = 0; pass < 2; pass++)
		for (int32_t i = 0; i < p->buffers; i++) {
			const struct buffer *b = &p->buffer[i];
			uint64_t parts = batch && !b->whole ? (uint64_t)p->parts : 1;

			if (b->where == (pass ? OUTPUT : INPUT))
				number[i] = ht_image_put_buffer(
					&m->b, (struct ht_image_buffer){ .kind = HT_IMAGE_PARAM,
						       .bytes = b->bytes * parts,
						       .written = pass == 1 });
		}
}

static void put_memory(struct made *m, const struct program *p, uint32_t *number)
{
	static const enum ht_image_kind kind[] = {
		[ARENA] = HT_IMAGE_TEMP, [CONSTANT] = HT_IMAGE_CONST, [STREAM] = HT_IMAGE_STREAM
	};
	int64_t *constant = HT_NEW_ARRAY(&m->arena, int64_t, (size_t)p->buffers);

	m->rt.constant = constant;
	for (int32_t i = 0; i < p->buffers; i++) {
		const struct buffer *b = &p->buffer[i];
		struct ht_image_buffer to = { .bytes = b->bytes };

		if (b->where == INPUT || b->where == OUTPUT)
			continue;
		to.kind = kind[b->where];
		if (b->where == ARENA)
			to.offset = b->offset;
		else if (b->where == STREAM)
			to.number = (uint32_t)b->offset;
		else
			to.number = ht_image_put_constant(&m->b, b->bytes);
		if (b->where == CONSTANT)
			constant[to.number] = (int64_t)(uintptr_t)b->data;
		number[i] = ht_image_put_buffer(&m->b, to);
	}
}

static void put_steps(struct made *m, const struct program *p, const uint32_t *number)
{
	int64_t *kernel = HT_NEW_ARRAY(&m->arena, int64_t, (size_t)p->steps);
	struct ht_image_touch *none =
		HT_NEW_ARRAY(&m->arena, struct ht_image_touch, (size_t)p->buffers);

	m->rt.kernel = kernel;
	for (int32_t i = 0; i < p->steps; i++) {
		const struct step *s = &p->step[i];
		const struct ht_image_note_text note = { .node = ht_str(s->node) };
		uint32_t *arg = HT_NEW_ARRAY(&m->arena, uint32_t, (size_t)s->args);

		for (int32_t k = 0; k < s->args; k++)
			arg[k] = number[s->buffer[k]];
		kernel[i] = (int64_t)(uintptr_t)s->fn;
		ht_image_put_step(&m->b,
			(struct ht_image_step){ .op = HT_IMAGE_KERNEL,
				.to = ht_image_put_kernel(&m->b, "", none, (size_t)s->args,
					(size_t)s->param_count, p->scratch_bytes),
				.count = (uint32_t)s->tiles },
			arg, (size_t)s->args, s->params, (size_t)s->param_count, &note);
	}
}

/* Writes an entry that forks its parts. */
static uint32_t put_batch(struct made *m, const struct program *p, uint32_t part)
{
	uint32_t number[16], arg[16], n = 0;
	int64_t stride[16];

	ht_image_begin_procedure(&m->b, HT_STR("batch"));
	put_parameters(m, p, number, true);
	for (int pass = 0; pass < 2; pass++)
		for (int32_t i = 0; i < p->buffers; i++)
			if (p->buffer[i].where == (pass ? OUTPUT : INPUT)) {
				stride[n] = p->buffer[i].whole ? 0 : (int64_t)p->buffer[i].bytes;
				arg[n++] = number[i];
			}
	ht_image_put_step(&m->b,
		(struct ht_image_step){
			.op = HT_IMAGE_FORK, .to = part, .count = (uint32_t)p->parts },
		arg, n, stride, n, NULL);
	return ht_image_end_procedure(&m->b, 0);
}

static struct made *make_program(const struct program *p)
{
	struct made *m = calloc(1, sizeof *m);
	struct ht_image_port_text port[16];
	uint32_t number[16], procedure;
	size_t inputs = 0, all;
	struct ht_str image;

	ht_arena_init(&m->arena, NULL);
	ht_image_begin(&m->b, &m->arena);
	for (int32_t i = 0; i < p->streams; i++)
		ht_image_put_stream(&m->b, &p->stream[i]);
	ht_image_begin_procedure(&m->b, HT_STR("steps"));
	put_parameters(m, p, number, false);
	put_memory(m, p, number);
	put_steps(m, p, number);
	procedure = ht_image_end_procedure(&m->b, p->arena_bytes);
	if (p->parts > 1)
		procedure = put_batch(m, p, procedure);
	put_ports(m, p, INPUT, port, &inputs);
	all = inputs;
	put_ports(m, p, OUTPUT, port, &all);
	ht_image_put_entry(
		&m->b, HT_STR("main"), procedure, port, inputs, port + inputs, all - inputs);
	image = ht_image_end(&m->b);
	HT_CHECK(!ht_image_verify(image));
	m->rt.image = (const void *)image.p;
	m->rt.is_whole = p->is_whole;
	m->rt.is_whole_arg = p->is_whole_arg;
	return m;
}

static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static struct made *all_made;

static struct ht_rt_context *new_context_of(struct made *m, struct ht_rt_pool *pool)
{
	struct ht_rt_context *c = m->context =
		ht_rt_context_new(&m->rt, pool, NULL, NULL, HT_EXEC_DEPTH_INIT);

	pthread_mutex_lock(&made_lock);
	m->next = all_made;
	all_made = m;
	pthread_mutex_unlock(&made_lock);
	return c;
}

static inline struct ht_rt_context *new_context(const struct program *p, struct ht_rt_pool *pool)
{
	return new_context_of(make_program(p), pool);
}

static const struct ht_rt_program *program_of(const struct ht_rt_context *c)
{
	const struct made *m;

	pthread_mutex_lock(&made_lock);
	m = all_made;
	while (m->context != c)
		m = m->next;
	pthread_mutex_unlock(&made_lock);
	return &m->rt;
}

/* The node of the step at which the run stopped. */
static inline const char *stopped_in(const struct ht_rt_context *c, const struct ht_rt_fault *fault)
{
	const struct ht_image *x = program_of(c)->image;

	return ht_image_text(x, ht_image_notes(x)[fault->step].node);
}

static void free_context(struct ht_rt_context *c)
{
	struct made **at = &all_made, *m;

	ht_rt_context_free(c);
	pthread_mutex_lock(&made_lock);
	while ((*at)->context != c)
		at = &(*at)->next;
	m = *at;
	*at = m->next;
	pthread_mutex_unlock(&made_lock);
	ht_arena_release(&m->arena);
	free(m);
}

#endif
