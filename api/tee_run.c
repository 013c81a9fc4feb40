/* Shows the tensors of a run to its observer. */
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

/* ---- from the layout in memory to rows without gaps ---- */

/* Called for each row along the last dimension: `from` is the offset of its first element in memory, `done` the number of
 * elements in the rows before it. */
typedef void line_fn(const struct ht_tee_place *p, int64_t from, int64_t done, void *arg);

static void walk_lines(const struct ht_tee_place *p, line_fn *line, void *arg)
{
	int64_t index[32] = { 0 }, last = p->rank ? p->dim[p->rank - 1] : 1, from = p->offset;

	for (int64_t done = 0; done < p->count; done += last) {
		line(p, from, done, arg);
		for (int32_t i = p->rank - 2; i >= 0; i--) {
			from += p->stride[i];
			if (++index[i] < p->dim[i])
				break;
			from -= p->stride[i] * p->dim[i];
			index[i] = 0;
		}
	}
}

struct lines {
	char *at;    /* memory from which the offsets of the place count */
	char *dense; /* the elements without gaps, of type `dtype` */
	enum ht_dtype dtype;
};

static int64_t step_of(const struct ht_tee_place *p)
{
	return p->rank ? p->stride[p->rank - 1] : 1;
}

static void get_line(const struct ht_tee_place *p, int64_t from, int64_t done, void *arg)
{
	const struct lines *l = arg;
	int64_t n = p->rank ? p->dim[p->rank - 1] : 1;
	size_t held = ht_dtype_info(p->held)->bytes, bytes = ht_dtype_info(l->dtype)->bytes;
	const char *at = l->at + from * (int64_t)held;
	char *to = l->dense + (size_t)done * bytes;

	for (int64_t i = 0; i < n; i++, at += step_of(p) * (int64_t)held, to += bytes)
		if (p->held == l->dtype)
			memcpy(to, at, bytes);
		else
			ht_narrow((const float *)(const void *)at, l->dtype, to, 1);
}

static void set_line(const struct ht_tee_place *p, int64_t from, int64_t done, void *arg)
{
	const struct lines *l = arg;
	int64_t n = p->rank ? p->dim[p->rank - 1] : 1;
	size_t bytes = ht_dtype_info(p->held)->bytes;
	char *at = l->at + from * (int64_t)bytes;

	for (int64_t i = 0; i < n; i++, at += step_of(p) * (int64_t)bytes)
		memcpy(at, l->dense + (size_t)(done + i) * bytes, bytes);
}

static bool is_dense(const struct ht_tee_place *p)
{
	int64_t step = 1;

	for (int32_t i = p->rank - 1; i >= 0; step *= p->dim[i--])
		if (p->dim[i] != 1 && p->stride[i] != step)
			return false;
	return true;
}

void *ht_tee_dense(const struct ht_tee_place *p, void *at)
{
	return is_dense(p) ? (char *)at + p->offset * (int64_t)ht_dtype_info(p->held)->bytes : NULL;
}

const void *ht_tee_get(const struct ht_tee_place *p, const void *at, void *room)
{
	struct lines l = { (void *)(uintptr_t)at, room, p->held };
	const void *dense = ht_tee_dense(p, l.at);

	if (dense)
		return dense;
	walk_lines(p, get_line, &l);
	return room;
}

void ht_tee_set(const struct ht_tee_place *p, void *at, const void *elements)
{
	struct lines l = { at, (void *)(uintptr_t)elements, p->held };

	walk_lines(p, set_line, &l);
}

/* ---- runs ---- */

size_t ht_tee_part(const struct ht_exec_frame *f)
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
	struct ht_seen seen = { .part = ht_tee_part(f) };

	if (seen.part && !p->in_parts)
		return;
	walk_lines(p, get_line, &(struct lines){ (void *)(uintptr_t)at, s->dense, info->dtype });
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
		return ht_refuse(d, HT_E_USAGE,
			"the program tells of no tensors: ht_compile_options.tee has to be set");
	s = ht_sys_alloc(sizeof *s);
	if (s)
		*s = (struct ht_seeing){ .program = p, .fn = fn, .arg = arg };
	if (s && make(s)) {
		*out = s;
		return HT_OK;
	}
	ht_seeing_free(s);
	return ht_refuse(d, HT_E_ENVIRONMENT, "no memory for the largest tensor");
}

void ht_seeing_join(struct ht_seeing *s, struct ht_rt_context *c)
{
	ht_rt_context_tee(c, (int64_t)(uintptr_t)ht_library_kernel("tee"), s ? see : NULL, s);
}
