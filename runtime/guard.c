/* Each buffer is a mapping of its own: an inaccessible page, pages that hold the buffer, another
 * inaccessible page.  The buffer begins directly behind the first guard page, or ends directly
 * in front of the last one.  If its number of bytes depends on sizes, the mapping is for the largest
 * sizes; the buffer of a run is then shorter and still ends in front of the last guard page. */
#include "runtime/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fenced {
	char *map, *at;
	size_t map_bytes;
	size_t bytes; /* from `at` on */
};

struct ht_guarded {
	const struct ht_rt_program *program;
	enum ht_rt_guard where;
	struct fenced *buffer; /* by buffer of the image */
	void **given;          /* by buffer of the image, for parameters: the caller's memory */
	struct fenced scratch;
	size_t stride;
};

static size_t up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* `count` mappings for `bytes` bytes each, with guard pages around them. */
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
	f->bytes = bytes;
	return true;
}

static void remove_fence(struct fenced *f)
{
	if (f->map)
		munmap(f->map, f->map_bytes);
}

static uint32_t buffers_of(const struct ht_guarded *g)
{
	return ht_image_count(g->program->image, HT_IMAGE_BUFFERS);
}

static bool fence_all(struct ht_guarded *g)
{
	const struct ht_image_buffer *b = ht_image_buffers(g->program->image);
	size_t ignored;

	for (uint32_t i = 0; i < buffers_of(g); i++) {
		if (!fence(&g->buffer[i], g->where, b[i].bytes, 1, &ignored))
			return false;
		if (b[i].kind == HT_IMAGE_CONST && b[i].bytes)
			memcpy(g->buffer[i].at,
				(const void *)(uintptr_t)g->program->constant[b[i].number],
				b[i].bytes);
	}
	return true;
}

struct ht_guarded *ht_guarded_new(
	const struct ht_rt_program *p, enum ht_rt_guard where, int threads, size_t scratch_bytes)
{
	struct ht_guarded *g = calloc(1, sizeof *g);

	if (!g)
		return NULL;
	g->program = p;
	g->where = where;
	g->buffer = calloc((size_t)buffers_of(g) + 1, sizeof *g->buffer);
	g->given = calloc((size_t)buffers_of(g) + 1, sizeof *g->given);
	if (!g->buffer || !g->given ||
		!fence(&g->scratch, where, scratch_bytes, (size_t)threads, &g->stride) ||
		!fence_all(g)) {
		ht_guarded_free(g);
		return NULL;
	}
	return g;
}

void ht_guarded_free(struct ht_guarded *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; g->buffer && i < buffers_of(g); i++)
		remove_fence(&g->buffer[i]);
	remove_fence(&g->scratch);
	free(g->buffer);
	free(g->given);
	free(g);
}

char *ht_guarded_scratch(const struct ht_guarded *g, uint64_t *stride)
{
	*stride = g->stride;
	return g->scratch.at;
}

/* Whether procedures share the buffer, so that none has a copy of its own. */
static bool is_of_session(const struct ht_image_buffer *b)
{
	return b->kind == HT_IMAGE_VARIABLE || b->kind == HT_IMAGE_STREAM ||
	       b->kind == HT_IMAGE_DERIVED_BUFFER || b->kind == HT_IMAGE_OBJECT;
}

/* Gives a buffer as many of its bytes as it has in this run. */
static void resize(const struct ht_guarded *g, struct fenced *f, size_t bytes)
{
	if (g->where == HT_RT_GUARD_BEHIND)
		f->at = f->at + f->bytes - bytes;
	f->bytes = bytes;
}

/* Sets the size and the content that a buffer has when its procedure begins. */
static void fill(
	struct ht_guarded *g, const struct ht_exec_frame *f, uint32_t i, const int64_t *size)
{
	const struct ht_image_buffer *b = &ht_image_buffers(g->program->image)[i];
	struct fenced *to = &g->buffer[i];

	if (!b->bytes || b->kind == HT_IMAGE_CONST || is_of_session(b))
		return;
	resize(g, to, ht_exec_buffer_bytes(g->program->image, f->procedure, b, size));
	if (b->kind == HT_IMAGE_PARAM && g->given[i] && (f->caller || !b->written))
		memcpy(to->at, g->given[i], to->bytes);
	else
		memset(to->at, 0xff, to->bytes);
}

void ht_guarded_enter(struct ht_guarded *g, struct ht_exec_frame *f, const int64_t *size)
{
	const struct ht_image_procedure *p = f->procedure;
	const struct ht_image_buffer *b = ht_image_buffers(g->program->image);
	const uint32_t *arg = ht_image_args(g->program->image) + p->arg;

	for (uint32_t i = 0; i < p->args; i++)
		if (arg[i] < p->params)
			g->given[p->buffer + arg[i]] = f->arg[i];
	for (uint32_t i = 0; i < p->buffers; i++)
		fill(g, f, p->buffer + i, size);
	for (uint32_t i = 0; i < p->args; i++)
		if (!is_of_session(&b[p->buffer + arg[i]]))
			f->arg[i] = g->buffer[p->buffer + arg[i]].at;
}

void ht_guarded_leave(const struct ht_guarded *g, struct ht_exec_frame *f)
{
	const struct ht_image_procedure *p = f->procedure;
	const struct ht_image_buffer *b = ht_image_buffers(g->program->image);

	for (uint32_t i = p->buffer; i < p->buffer + p->params; i++)
		if (b[i].written && b[i].bytes && g->given[i])
			memcpy(g->given[i], g->buffer[i].at, g->buffer[i].bytes);
}
