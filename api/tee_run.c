/* Tensors on their way from a run to who wants to see them. */
#include "api/tee.h"
#include "kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

struct ht_seeing {
	const struct ht_program *program;
	ht_tensor_fn *fn;
	void *arg;
	char *dense;          /* room for the largest tensor */
	uint64_t *executions; /* by place: so far in this run */
};

int ht_program_tensor(const struct ht_program *p, size_t i, struct ht_tensor_info *out)
{
	if (i >= p->tees)
		return 0;
	*out = p->tee[i].info;
	return 1;
}

/* ---- from memory as a program has it to rows without gaps ---- */

static void put_line(const struct ht_tee_place *p, enum ht_dtype t, const char *from,
	int64_t stride, char *to, int64_t n)
{
	size_t held = ht_dtype_info(p->held)->bytes, bytes = ht_dtype_info(t)->bytes;

	for (int64_t i = 0; i < n; i++, from += (size_t)stride * held, to += bytes)
		if (p->held == t)
			memcpy(to, from, bytes);
		else
			ht_narrow((const float *)(const void *)from, t, to, 1);
}

static void put_dense(const struct ht_tee_place *p, enum ht_dtype t, const char *at, char *to)
{
	int64_t index[32] = { 0 }, last = p->rank ? p->dim[p->rank - 1] : 1;
	int64_t step = p->rank ? p->stride[p->rank - 1] : 1, from = p->offset;
	size_t held = ht_dtype_info(p->held)->bytes, line = (size_t)last * ht_dtype_info(t)->bytes;

	for (int64_t done = 0; done < p->count; done += last, to += line) {
		put_line(p, t, at + from * (int64_t)held, step, to, last);
		for (int32_t i = p->rank - 2; i >= 0; i--) {
			from += p->stride[i];
			if (++index[i] < p->dim[i])
				break;
			from -= p->stride[i] * p->dim[i];
			index[i] = 0;
		}
	}
}

/* ---- runs ---- */

/* The part of a batch that is being computed; 0 where there are none. */
static size_t part_of(const struct ht_exec_frame *f)
{
	for (; f; f = f->caller)
		if (f->stride)
			return f->instance;
	return 0;
}

static void see(void *arg, uint32_t tensor, const void *at, const struct ht_exec_frame *f)
{
	struct ht_seeing *s = arg;
	const struct ht_tee_place *p = &s->program->tee_place[tensor];
	const struct ht_tensor_info *info = &s->program->tee[p->first].info;
	struct ht_seen seen = { .part = part_of(f) };

	if (seen.part && !p->in_parts)
		return;
	put_dense(p, info->dtype, at, s->dense);
	seen.parts = p->in_parts ? s->program->info.parts : 1;
	seen.execution = p->in_parts ? 0 : s->executions[tensor]++;
	seen.array =
		(struct ht_array){ s->dense, (size_t)p->count * ht_dtype_info(info->dtype)->bytes,
			info->dtype, p->rank, p->dim };
	for (size_t i = 0; i < p->n; i++) {
		seen.tensor = p->first + i;
		s->fn(s->arg, &seen);
	}
}

void ht_seeing_begin(struct ht_seeing *s)
{
	memset(s->executions, 0, s->program->tee_places * sizeof *s->executions);
	for (size_t i = 0; i < s->program->tees; i++) {
		const struct ht_tee *t = &s->program->tee[i];
		const struct ht_seen seen = { .tensor = i,
			.parts = 1,
			.array = { t->constant ? (void *)(uintptr_t)t->constant->p : NULL,
				t->info.bytes, t->info.dtype, t->info.rank, t->info.dim } };

		if (t->constant)
			s->fn(s->arg, &seen);
	}
}

void ht_seeing_free(struct ht_seeing *s)
{
	if (!s)
		return;
	free(s->dense);
	free(s->executions);
	free(s);
}

static bool make(struct ht_seeing *s)
{
	size_t most = 1;

	for (size_t i = 0; i < s->program->tees; i++)
		if (s->program->tee[i].info.bytes > most)
			most = s->program->tee[i].info.bytes;
	s->dense = malloc(most);
	s->executions = calloc(s->program->tee_places + 1, sizeof *s->executions);
	return s->dense && s->executions;
}

enum ht_status ht_seeing_new(const struct ht_program *p, ht_tensor_fn *fn, void *arg,
	struct ht_diags *d, struct ht_seeing **out)
{
	struct ht_seeing *s;

	*out = NULL;
	if (!p->tee_places)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"the program tells of no tensors: ht_compile_options.tee has to be set");
	s = ht_sys_alloc(sizeof *s);
	if (s)
		*s = (struct ht_seeing){ .program = p, .fn = fn, .arg = arg };
	if (s && make(s)) {
		*out = s;
		return HT_OK;
	}
	ht_seeing_free(s);
	return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "no memory for the largest tensor");
}

void ht_seeing_join(struct ht_seeing *s, struct ht_rt_context *c)
{
	ht_rt_context_tee(c, (int64_t)(uintptr_t)ht_library_kernel("tee"), s ? see : NULL, s);
}
