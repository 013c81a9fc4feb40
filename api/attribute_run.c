/* Attribution: runs the four programs on a sample, once for each wave, and measures the errors of tensors. */
#include "api/attribute.h"

#include <halftone/runtime.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As in compare.c: random ops draw the same numbers in all programs. */
#define SEED 1

/* ---- tensors of the reference ---- */

/* In front of a buffer that is not in the mapping. */
struct ht_beyond {
	_Alignas(max_align_t) struct ht_beyond *next;
};

bool ht_attribution_map(struct ht_attribution *a)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	a->memory.n = (a->most / page + 1) * page;
	a->memory.at = ht_map_usual(a->memory.n);
	return a->memory.at != NULL;
}

static char *take_beyond(struct ht_wave_memory *m, size_t n)
{
	struct ht_beyond *b = ht_sys_alloc(sizeof *b + n);

	if (!b)
		return NULL;
	b->next = m->beyond;
	m->beyond = b;
	return (char *)(b + 1);
}

static char *take(struct ht_wave_memory *m, size_t n)
{
	if (m->n - m->used < n)
		return take_beyond(m, n);
	m->used += n;
	return m->at + m->used - n;
}

static void end_wave(struct ht_attribution *a)
{
	const struct ht_program *p = a->looked[HT_LOOKED_REFERENCE].program;
	struct ht_wave_memory *m = &a->memory;

	while (m->beyond) {
		struct ht_beyond *b = m->beyond;

		m->beyond = b->next;
		free(b);
	}
	m->used = 0;
	for (size_t i = 0; i < p->tee_places; i++) {
		a->kept[i].executions = 0;
		a->kept[i].wanted = false;
	}
}

void ht_attribution_forget(struct ht_attribution *a)
{
	const struct ht_program *p = a->looked[HT_LOOKED_REFERENCE].program;

	if (!a->kept)
		return;
	end_wave(a);
	for (size_t i = 0; i < p->tee_places; i++)
		free(a->kept[i].execution);
	if (a->memory.at)
		munmap(a->memory.at, a->memory.n);
}

static void want_wave(struct ht_attribution *a)
{
	for (size_t i = a->first; i < a->last; i++) {
		const struct ht_attributed *t = &a->tensor[i];

		a->kept[t->kept].wanted = true;
		for (size_t k = 0; k < t->operands; k++)
			a->kept[a->tensor[t->operand[k]].kept].wanted = true;
	}
}

static bool room_for_one_more(struct ht_kept *k)
{
	size_t cap = k->cap ? k->cap * 2 : 1;
	char **more;

	if (k->executions < k->cap)
		return true;
	more = realloc(k->execution, cap * sizeof *more);
	if (!more)
		return false;
	k->execution = more;
	k->cap = cap;
	return true;
}

/* The buffer of one execution; NULL: out of memory, or the iterations of a loop exceed the budget of a wave. */
static char *keep_execution(struct ht_attribution *a, struct ht_kept *k, uint64_t execution)
{
	char *at;

	if (execution < k->executions)
		return k->execution[execution];
	if (execution && (execution + 1) * k->bytes > a->budget)
		return NULL;
	at = room_for_one_more(k) ? take(&a->memory, k->room) : NULL;
	a->failed |= !at;
	if (at)
		k->execution[k->executions++] = at;
	return at;
}

/* ---- observing a run ---- */

/* One call of the observer: the memory at a place of a program, once its tensor is computed. */
struct sight {
	struct ht_looked *l;
	struct ht_attribution *a;
	const struct ht_tee_place *place;
	const struct ht_tensor_info *info;
	void *at;
	size_t count;            /* elements */
	uint64_t execution;      /* how often the place was computed before in this run */
	size_t first;            /* index in the whole tensor of the first element shown */
	struct ht_attributed *t; /* the tensor; NULL: its reference is not stored */
	struct ht_elements want; /* the same elements of the reference */
};

static bool look(struct ht_looked *l, uint32_t place, const void *at, const struct ht_exec_frame *f,
	struct sight *s)
{
	const struct ht_tee_place *p = &l->program->tee_place[place];
	size_t part = ht_tee_part(f);

	*s = (struct sight){ .l = l,
		.a = l->of,
		.place = p,
		.info = &l->program->tee[p->first].info,
		.at = (void *)(uintptr_t)at,
		.count = (size_t)p->count,
		.first = part * (size_t)p->count };
	l->seen++;
	if (part && !p->in_parts)
		return false;
	if (!p->in_parts)
		s->execution = l->executions[place]++;
	return p->count > 0;
}

static void see_reference(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f)
{
	struct sight s;
	struct ht_kept *k;
	size_t bytes;
	char *to;

	if (!look(arg, place, at, f, &s))
		return;
	k = &s.a->kept[place];
	to = k->wanted ? keep_execution(s.a, k, s.execution) : NULL;
	if (!to)
		return;
	bytes = ht_dtype_info(s.place->held)->bytes;
	memcpy(to + s.first * bytes, ht_tee_get(s.place, s.at, s.a->room[0]), s.count * bytes);
}

/* As look(), with the reference's elements; false: the current wave does not store them. */
static bool look_at_tensor(struct ht_looked *l, uint32_t place, const void *at,
	const struct ht_exec_frame *f, struct sight *s)
{
	const struct ht_program *reference = l->of->looked[HT_LOOKED_REFERENCE].program;
	int32_t number = l->tensor[place];
	const struct ht_kept *k;

	if (!look(l, place, at, f, s) || number < 0)
		return false;
	s->t = &s->a->tensor[number];
	k = &s->a->kept[s->t->kept];
	if (s->execution >= k->executions)
		return false;
	s->want.dtype = reference->tee_place[s->t->kept].held;
	s->want.at = k->execution[s->execution] + s->first * ht_dtype_info(s->want.dtype)->bytes;
	return true;
}

static bool is_measured(const struct sight *s)
{
	size_t number = (size_t)(s->t - s->a->tensor);

	return s->t->of && number >= s->a->first && number < s->a->last;
}

static struct ht_elements elements_of(const struct sight *s)
{
	return (struct ht_elements){ ht_tee_get(s->place, s->at, s->a->room[0]), s->place->held };
}

static void see_policy(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f)
{
	struct ht_node_error *of;
	struct sight s;

	if (!look_at_tensor(arg, place, at, f, &s) || !is_measured(&s))
		return;
	of = s.t->of;
	if (!of->order)
		of->order = s.l->seen;
	ht_error_add(of, s.place->rounded ? s.info->dtype : s.place->held, elements_of(&s), s.want,
		s.count, s.a->of.nodes->samples);
}

/* Overwrites the result with the reference's elements, rounded as the policy rounds them. */
static void put_reference(const struct sight *s)
{
	const struct ht_program *alone = s->a->looked[HT_LOOKED_ALONE].program;
	const struct ht_tee_place *p = &alone->tee_place[s->t->place];
	enum ht_dtype rounded = p->rounded ? alone->tee[p->first].info.dtype : p->held;
	void *dense = ht_tee_dense(s->place, s->at), *to = dense ? dense : s->a->room[1];

	if (!s->place->own)
		return;
	if (s->t->of)
		ht_elements_convert(s->want, rounded, s->place->held, to, s->count);
	else if (s->want.dtype == s->place->held)
		memcpy(to, s->want.at, s->count * ht_dtype_info(s->want.dtype)->bytes);
	else
		return;
	if (!dense)
		ht_tee_set(s->place, s->at, to);
}

/* Elements that are measured at a time: few enough that they stay in the second cache from one sum to the next. */
enum { BLOCK = 16 * HT_ELEMENTS_CHUNK };

struct block {
	struct ht_elements got, want;
	size_t n;
};

static struct ht_elements elements_from(struct ht_elements e, size_t first)
{
	return (struct ht_elements){ (const char *)e.at + first * ht_dtype_info(e.dtype)->bytes,
		e.dtype };
}

typedef void measure_fn(const struct sight *s, const struct block *b);

static void measure_own(const struct sight *s, const struct block *b)
{
	struct ht_node_error *of = s->t->of;

	ht_reference_add(of, b->want, b->n);
	if (ht_is_low(of->info.dtype))
		ht_exponents_add(s->a->of.nodes->exponent, b->want, b->n);
	ht_distance_add(&of->own, b->got, s->place->held, b->want, b->n);
}

static void measure_expected(const struct sight *s, const struct block *b)
{
	struct ht_node_error *of = s->t->of;

	of->expected_squares = of->squares;
	ht_distance_add(&of->expected, b->got, of->wide ? HT_F32 : of->info.dtype, b->want, b->n);
}

static void measure_blocks(const struct sight *s, measure_fn *measure)
{
	struct ht_elements got = elements_of(s);

	for (size_t i = 0, n; i < s->count; i += n) {
		n = s->count - i < BLOCK ? s->count - i : BLOCK;
		measure(s, &(struct block){ elements_from(got, i), elements_from(s->want, i), n });
	}
}

/* Measures the node's result, then replaces it by the reference's, so that the nodes that read it inherit no error. */
static void see_node(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f,
	measure_fn *measure)
{
	struct sight s;

	if (!look_at_tensor(arg, place, at, f, &s))
		return;
	if (is_measured(&s))
		measure_blocks(&s, measure);
	put_reference(&s);
}

static void see_alone(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f)
{
	see_node(arg, place, at, f, measure_own);
}

static void see_wide(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f)
{
	see_node(arg, place, at, f, measure_expected);
}

/* ---- runs ---- */

static ht_rt_tee_fn *const see_in[HT_LOOKED] = {
	[HT_LOOKED_REFERENCE] = see_reference,
	[HT_LOOKED_POLICY] = see_policy,
	[HT_LOOKED_ALONE] = see_alone,
	[HT_LOOKED_WIDE] = see_wide,
};

static void pass_inputs(struct ht_looked *l, const struct ht_array *in, size_t ins)
{
	const struct ht_program *p = l->program;

	for (size_t i = 0; i < ins && i < p->inputs; i++) {
		const void *from = in[i].data ? in[i].data : l->of->of.base->input[i].value;

		l->in[i] = in[i];
		if (!l->room[i] || !from)
			continue;
		ht_widen(from, in[i].dtype, l->room[i], p->input[i].bytes / sizeof(float));
		l->in[i] = (struct ht_array){ l->room[i], p->input[i].bytes, HT_F32, in[i].rank,
			in[i].dim };
	}
}

static enum ht_status run(struct ht_looked *l, ht_rt_tee_fn *see, const struct ht_array *in,
	size_t ins, struct ht_diags *d)
{
	enum ht_status st;

	memset(l->executions, 0, l->program->tee_places * sizeof *l->executions);
	l->seen = 0;
	pass_inputs(l, in, ins);
	ht_context_reset(l->context);
	ht_context_set_seed(l->context, SEED);
	ht_context_tee(l->context, see, l);
	st = ht_context_run(l->context, l->in, ins, l->out, l->program->outputs, d);
	ht_context_tee(l->context, NULL, NULL);
	return st;
}

static enum ht_status run_wave(
	struct ht_attribution *a, const struct ht_array *in, size_t ins, struct ht_diags *d)
{
	enum ht_status st = HT_OK;

	want_wave(a);
	for (int i = 0; i < HT_LOOKED && st == HT_OK; i++) {
		if (i == HT_LOOKED_WIDE && a->of.nodes->samples >= HT_EXPECTED_SAMPLES)
			continue;
		st = run(&a->looked[i], see_in[i], in, ins, d);
		if (st == HT_OK && a->failed)
			st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
				"no memory for the tensors of a wave of nodes");
	}
	end_wave(a);
	return st;
}

/* The run of the first program checks types and shapes. */
static enum ht_status check_inputs(
	const struct ht_attribution *a, const char *where, size_t ins, struct ht_diags *d)
{
	if (ins == a->of.base->inputs)
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "%s: %zu inputs were given, the model has %zu",
		where, ins, a->of.base->inputs);
}

enum ht_status ht_attribution_sample(struct ht_attribution *a, const char *where,
	const struct ht_array *in, size_t ins, struct ht_diags *d)
{
	int64_t before = ht_now_ns();

	HT_TRY(check_inputs(a, where, ins, d));
	a->last = 0;
	for (size_t i = 0; i < a->waves; i++) {
		a->first = a->last;
		a->last = a->end[i];
		HT_TRY(run_wave(a, in, ins, d));
	}
	a->of.nodes->samples++;
	a->of.nodes->run_ns += ht_now_ns() - before;
	return HT_OK;
}
