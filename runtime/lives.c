#include "runtime/lives.h"

#include <stdlib.h>
#include <string.h>

struct ht_lives {
	const struct ht_rt_program *program;
	int32_t *first, *last; /* by buffer: steps that use it */
};

struct ht_lives *ht_lives_new(const struct ht_rt_program *p)
{
	struct ht_lives *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->program = p;
	l->first = calloc((size_t)p->buffers + 1, sizeof *l->first);
	l->last = calloc((size_t)p->buffers + 1, sizeof *l->last);
	if (!l->first || !l->last) {
		ht_lives_free(l);
		return NULL;
	}
	for (int32_t i = p->steps - 1; i >= 0; i--)
		for (int32_t k = 0; k < p->step[i].args; k++) {
			int32_t b = p->step[i].buffer[k];

			l->first[b] = i;
			if (l->last[b] < i)
				l->last[b] = i;
		}
	return l;
}

void ht_lives_free(struct ht_lives *l)
{
	if (!l)
		return;
	free(l->first);
	free(l->last);
	free(l);
}

void ht_lives_begin(const struct ht_lives *l, char *arena)
{
	(void)arena;
	ASAN_POISON_MEMORY_REGION(arena, l->program->arena_bytes);
}

void ht_lives_step(const struct ht_lives *l, char *arena, int32_t i)
{
	const struct ht_rt_program *p = l->program;

	for (int32_t k = 0; i > 0 && k < p->step[i - 1].args; k++) {
		int32_t b = p->step[i - 1].buffer[k];

		if (p->buffer[b].where == HT_RT_ARENA && l->last[b] == i - 1)
			ASAN_POISON_MEMORY_REGION(arena + p->buffer[b].offset, p->buffer[b].bytes);
	}
	for (int32_t k = 0; k < p->step[i].args; k++) {
		int32_t b = p->step[i].buffer[k];

		if (p->buffer[b].where != HT_RT_ARENA || l->first[b] != i)
			continue;
		ASAN_UNPOISON_MEMORY_REGION(arena + p->buffer[b].offset, p->buffer[b].bytes);
		memset(arena + p->buffer[b].offset, 0xff, p->buffer[b].bytes);
	}
}

void ht_lives_end(const struct ht_lives *l, char *arena)
{
	(void)arena;
	ASAN_UNPOISON_MEMORY_REGION(arena, l->program->arena_bytes);
}
