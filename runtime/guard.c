/* Each buffer is a mapping of its own: a page that nobody may touch, pages that hold it, another
 * page that nobody may touch.  It begins where the first one ends, or ends where the last begins. */
#include "runtime/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fenced {
	char *map, *at;
	size_t map_bytes;
};

struct ht_guarded {
	const struct ht_rt_program *program;
	struct fenced *buffer;
	struct fenced scratch;
	size_t stride;
};

static size_t up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* `count` pieces of `bytes`, with an untouchable page around each. */
static bool fence(
	struct fenced *f, enum ht_rt_guard where, size_t bytes, size_t count, size_t *stride)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), held = up(bytes, page);

	*stride = held + page;
	f->map_bytes = *stride * count + page;
	f->map = mmap(NULL, f->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->map == MAP_FAILED) {
		f->map = NULL;
		return false;
	}
	for (size_t i = 0; i < count && held; i++)
		if (mprotect(f->map + page + i * *stride, held, PROT_READ | PROT_WRITE) != 0)
			return false;
	f->at = f->map + page + (where == HT_RT_GUARD_BEHIND ? held - bytes : 0);
	return true;
}

static void remove_fence(struct fenced *f)
{
	if (f->map)
		munmap(f->map, f->map_bytes);
}

struct ht_guarded *ht_guarded_new(
	const struct ht_rt_program *p, enum ht_rt_guard where, int threads)
{
	struct ht_guarded *g = calloc(1, sizeof *g);
	size_t ignored;

	if (!g)
		return NULL;
	g->program = p;
	g->buffer = calloc((size_t)p->buffers + 1, sizeof *g->buffer);
	if (!g->buffer ||
		!fence(&g->scratch, where, up(p->scratch_bytes, 64), (size_t)threads, &g->stride))
		goto failed;
	for (int32_t i = 0; i < p->buffers; i++) {
		const struct ht_rt_buffer *b = &p->buffer[i];

		if (!fence(&g->buffer[i], where, b->bytes, 1, &ignored))
			goto failed;
		if (b->where == HT_RT_CONST && b->bytes)
			memcpy(g->buffer[i].at, b->data, b->bytes);
	}
	return g;
failed:
	ht_guarded_free(g);
	return NULL;
}

void ht_guarded_free(struct ht_guarded *g)
{
	if (!g)
		return;
	for (int32_t i = 0; g->buffer && i < g->program->buffers; i++)
		remove_fence(&g->buffer[i]);
	remove_fence(&g->scratch);
	free(g->buffer);
	free(g);
}

void *ht_guarded_buffer(const struct ht_guarded *g, int32_t buffer)
{
	return g->buffer[buffer].at;
}

char *ht_guarded_scratch(const struct ht_guarded *g, size_t *stride)
{
	*stride = g->stride;
	return g->scratch.at;
}

void ht_guarded_enter(struct ht_guarded *g, const void *const *inputs,
	const struct ht_philox *streams, int64_t part)
{
	for (int32_t i = 0; i < g->program->buffers; i++) {
		const struct ht_rt_buffer *b = &g->program->buffer[i];

		if (b->where == HT_RT_CONST || !b->bytes)
			continue;
		if (b->where == HT_RT_INPUT)
			memcpy(g->buffer[i].at,
				(const char *)inputs[b->offset] +
					(size_t)part * ht_rt_part_bytes(g->program, b),
				b->bytes);
		else if (b->where == HT_RT_STREAM)
			memcpy(g->buffer[i].at, &streams[b->offset], b->bytes);
		else
			memset(g->buffer[i].at, 0xff, b->bytes);
	}
}

void ht_guarded_leave(const struct ht_guarded *g, void *const *outputs, int64_t part)
{
	for (int32_t i = 0; i < g->program->buffers; i++) {
		const struct ht_rt_buffer *b = &g->program->buffer[i];

		if (b->where == HT_RT_OUTPUT && b->bytes)
			memcpy((char *)outputs[b->offset] +
					(size_t)part * ht_rt_part_bytes(g->program, b),
				g->buffer[i].at, b->bytes);
	}
}
