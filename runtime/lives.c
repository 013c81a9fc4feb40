#include "runtime/lives.h"

#include <stdlib.h>
#include <string.h>

struct ht_lives {
	const struct ht_image *image;
	uint32_t *first, *last; /* by buffer of the image: steps that use it, */
	uint32_t *arg;          /* and the argument of its procedure that it is first */
};

static void note_uses(struct ht_lives *l, const struct ht_image_procedure *p)
{
	for (uint32_t i = p->steps; i-- > 0;) {
		const struct ht_image_step *s = &ht_image_steps(l->image)[p->step + i];
		const uint32_t *arg = ht_image_args(l->image) + p->arg + s->arg;

		for (uint32_t k = 0; k < s->args; k++) {
			uint32_t b = p->buffer + arg[k];

			l->first[b] = p->step + i;
			l->arg[b] = s->arg + k;
			if (l->last[b] < p->step + i)
				l->last[b] = p->step + i;
		}
	}
}

struct ht_lives *ht_lives_new(const struct ht_image *x)
{
	struct ht_lives *l = calloc(1, sizeof *l);
	size_t buffers = ht_image_count(x, HT_IMAGE_BUFFERS);

	if (!l)
		return NULL;
	l->image = x;
	l->first = calloc(buffers + 1, sizeof *l->first);
	l->last = calloc(buffers + 1, sizeof *l->last);
	l->arg = calloc(buffers + 1, sizeof *l->arg);
	if (!l->first || !l->last || !l->arg) {
		ht_lives_free(l);
		return NULL;
	}
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_PROCEDURES); i++)
		note_uses(l, &ht_image_procedures(x)[i]);
	return l;
}

void ht_lives_free(struct ht_lives *l)
{
	if (!l)
		return;
	free(l->first);
	free(l->last);
	free(l->arg);
	free(l);
}

/* Whether the steps of a procedure are kernels, each of which runs once. */
static bool is_straight(const struct ht_lives *l, const struct ht_image_procedure *p)
{
	for (uint32_t i = 0; i < p->steps; i++)
		if (ht_image_steps(l->image)[p->step + i].op != HT_IMAGE_KERNEL)
			return false;
	return true;
}

void ht_lives_enter(const struct ht_lives *l, const struct ht_exec_frame *f)
{
	if (is_straight(l, f->procedure))
		ASAN_POISON_MEMORY_REGION(f->temps, f->bytes);
}

/* A temporary buffer that steps use, in memory. */
static bool is_used(const struct ht_lives *l, uint32_t b)
{
	const struct ht_image_buffer *buffer = &ht_image_buffers(l->image)[b];

	return buffer->kind == HT_IMAGE_TEMP && buffer->bytes;
}

void ht_lives_step(
	const struct ht_lives *l, const struct ht_exec_frame *f, uint32_t step, const int64_t *size)
{
	const struct ht_image_buffer *buffer = ht_image_buffers(l->image);
	const struct ht_image_procedure *p = f->procedure;

	if (!is_straight(l, p))
		return;
	for (uint32_t b = p->buffer; b < p->buffer + p->buffers; b++)
		if (is_used(l, b) && l->last[b] + 1 == step)
			ASAN_POISON_MEMORY_REGION(f->arg[l->arg[b]],
				ht_exec_buffer_bytes(l->image, p, &buffer[b], size));
	for (uint32_t b = p->buffer; b < p->buffer + p->buffers; b++) {
		uint64_t bytes;

		if (!is_used(l, b) || l->first[b] != step)
			continue;
		bytes = ht_exec_buffer_bytes(l->image, p, &buffer[b], size);
		ASAN_UNPOISON_MEMORY_REGION(f->arg[l->arg[b]], bytes);
		memset(f->arg[l->arg[b]], 0xff, bytes);
	}
}

void ht_lives_end(char *temps, size_t bytes)
{
	ASAN_UNPOISON_MEMORY_REGION(temps, bytes);
}
