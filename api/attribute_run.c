/* Attribution: runs the four programs on a sample, once for each wave, and measures the errors of tensors. */
#include "api/attribute.h"

#include <halftone/runtime.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
		a->kept[i].wanted = a->kept[i].stays = false;
		a->kept[i].readers = 0;
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

/* Copies the elements that the reference shows. */
static void store(const struct sight *s, struct ht_kept *k, const void *elements)
{
	size_t bytes = ht_dtype_info(s->place->held)->bytes;
	char *to = keep_execution(s->a, k, s->execution);

	if (to)
		memcpy(to + s->first * bytes, elements, s->count * bytes);
}

/* Lets the programs that wait for the tensor compare theirs with it. */
static void pass_on(const struct sight *s, struct ht_kept *k, const void *elements)
{
	k->passing = elements;
	k->now = s->execution;
	for (int i = HT_LOOKED_POLICY; i < HT_LOOKED; i++) {
		struct ht_looked *l = &s->a->looked[i];

		if (l->run.waits == k && l->run.execution == k->now)
			ht_coroutine_resume(l->side);
	}
	k->passing = NULL;
}

static void see_reference(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f)
{
	struct sight s;
	struct ht_kept *k;
	const void *elements;

	if (!look(arg, place, at, f, &s))
		return;
	k = &s.a->kept[place];
	if (!k->wanted)
		return;
	elements = ht_tee_get(s.place, s.at, s.a->room[2]);
	if (k->stays)
		store(&s, k, elements);
	pass_on(&s, k, elements);
	if (!k->stays && (k->readers || s.execution))
		store(&s, k, elements);
}

/* The elements of an execution; NULL: they are not stored and not shown just now. */
static const void *execution_of(const struct ht_kept *k, uint64_t execution)
{
	if (k->passing && k->now == execution)
		return k->passing;
	return execution < k->executions ? k->execution[execution] : NULL;
}

/* Pauses a program that runs beside the reference until that has computed the tensor, or has ended. */
static void wait_for(struct ht_looked *l, const struct ht_kept *k, uint64_t execution)
{
	if (!l->side || l->of->ended)
		return;
	l->run.waits = k;
	l->run.execution = execution;
	ht_coroutine_pause(l->side);
	l->run.waits = NULL;
}

/* As look(), with the reference's elements; false: the current wave does not store them. */
static bool look_at_tensor(struct ht_looked *l, uint32_t place, const void *at,
	const struct ht_exec_frame *f, struct sight *s)
{
	const struct ht_program *reference = l->of->looked[HT_LOOKED_REFERENCE].program;
	int32_t number = l->tensor[place];
	struct ht_kept *k;
	const char *want;

	if (!look(l, place, at, f, s) || number < 0)
		return false;
	s->t = &s->a->tensor[number];
	k = &s->a->kept[s->t->kept];
	if (k->wanted && !execution_of(k, s->execution))
		wait_for(l, k, s->execution);
	want = execution_of(k, s->execution);
	if (!want)
		return false;
	if (k->readers)
		k->readers--;
	s->want.dtype = reference->tee_place[s->t->kept].held;
	s->want.at = want + s->first * ht_dtype_info(s->want.dtype)->bytes;
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

/* The type to which the policy rounds the node's result. */
static enum ht_dtype rounded_type(const struct sight *s)
{
	const struct ht_program *alone = s->a->looked[HT_LOOKED_ALONE].program;
	const struct ht_tee_place *p = &alone->tee_place[s->t->place];

	return p->rounded ? alone->tee[p->first].info.dtype : p->held;
}

/* Overwrites the result with the reference's elements, rounded as the policy rounds them. */
static void put_reference(const struct sight *s)
{
	void *dense = ht_tee_dense(s->place, s->at), *to = dense ? dense : s->a->room[1];

	if (!s->place->own)
		return;
	if (s->t->of)
		ht_elements_convert(s->want, rounded_type(s), s->place->held, to, s->count);
	else if (s->want.dtype == s->place->held)
		memcpy(to, s->want.at, s->count * ht_dtype_info(s->want.dtype)->bytes);
	else
		return;
	if (!dense)
		ht_tee_set(s->place, s->at, to);
}

/* Elements that are measured and then overwritten at a time: few enough that they stay in the first cache meanwhile. */
enum { BLOCK = 4 * HT_ELEMENTS_CHUNK };

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

static bool is_first_sample(const struct ht_attribution *a)
{
	return a->of.nodes->samples < HT_EXPECTED_SAMPLES;
}

static void measure_own(const struct sight *s, const struct block *b)
{
	struct ht_node_error *of = s->t->of;

	ht_own_add(of, b->got, b->want, b->n);
	if (ht_is_low(of->info.dtype) && is_first_sample(s->a))
		ht_exponents_add(s->a->of.nodes->exponent, b->want, b->n);
}

static void measure_expected(const struct sight *s, const struct block *b)
{
	struct ht_node_error *of = s->t->of;

	ht_distance_add(&of->expected, b->got, of->wide ? HT_F32 : of->info.dtype, b->want, b->n);
}

static void measure_block(
	const struct sight *s, struct ht_elements got, size_t first, size_t n, measure_fn *measure)
{
	measure(s, &(struct block){ elements_from(got, first), elements_from(s->want, first), n });
}

/* Measures a result whose elements have gaps, or that must not be overwritten. */
static void measure_elements(const struct sight *s, measure_fn *measure)
{
	struct ht_elements got = elements_of(s);

	for (size_t i = 0, n; i < s->count; i += n) {
		n = s->count - i < BLOCK ? s->count - i : BLOCK;
		measure_block(s, got, i, n, measure);
	}
}

/* Measures a result and overwrites it, as put_reference() does, in one pass over its memory, which may lie in no near cache. */
static void measure_and_put(const struct sight *s, char *dense, measure_fn *measure)
{
	const struct ht_elements got = { dense, s->place->held };
	const enum ht_dtype rounded = rounded_type(s);
	const size_t bytes = ht_dtype_info(got.dtype)->bytes;

	for (size_t i = 0, n; i < s->count; i += n) {
		n = s->count - i < BLOCK ? s->count - i : BLOCK;
		measure_block(s, got, i, n, measure);
		ht_elements_convert(
			elements_from(s->want, i), rounded, got.dtype, dense + i * bytes, n);
	}
}

/* Measures the node's result, then replaces it by the reference's, so that the nodes that read it inherit no error. */
static void see_node(void *arg, uint32_t place, const void *at, const struct ht_exec_frame *f,
	measure_fn *measure)
{
	struct sight s;
	char *dense;

	if (!look_at_tensor(arg, place, at, f, &s))
		return;
	dense = s.place->own ? ht_tee_dense(s.place, s.at) : NULL;
	if (is_measured(&s) && dense) {
		measure_and_put(&s, dense, measure);
		return;
	}
	if (is_measured(&s))
		measure_elements(&s, measure);
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

/* Whether an array can be widened.  The program's run refuses one that does not fit. */
static bool fits(const struct ht_array *a, const struct ht_value_info *v)
{
	return a->dtype == v->dtype && (a->data ? a->bytes == v->bytes : v->value != NULL);
}

static void pass_inputs(struct ht_looked *l, const struct ht_array *in, size_t ins)
{
	const struct ht_program *p = l->program;

	for (size_t i = 0; i < ins && i < p->inputs; i++) {
		const struct ht_value_info *v = &l->of->of.base->input[i];
		const void *from = in[i].data ? in[i].data : v->value;

		l->in[i] = in[i];
		if (!l->room[i] || !fits(&in[i], v))
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
	ht_context_set_seed(l->context, HT_COMPARED_SEED);
	ht_context_tee(l->context, see, l);
	st = ht_context_run(l->context, l->in, ins, l->out, l->program->outputs, d);
	ht_context_tee(l->context, NULL, NULL);
	return st;
}

/* ---- a wave: the programs one after the other, or side by side ---- */

static bool runs(const struct ht_attribution *a, int which)
{
	return which != HT_LOOKED_WIDE || is_first_sample(a);
}

/* A program that runs by itself has memory for its run only until the next one runs. */
static enum ht_status run_alone(struct ht_looked *l, ht_rt_tee_fn *see, const struct ht_array *in,
	size_t ins, struct ht_diags *d)
{
	enum ht_status st;

	if (l->context)
		return run(l, see, in, ins, d);
	HT_TRY(ht_attribution_context(l->of, l->program, d, &l->context));
	st = run(l, see, in, ins, d);
	ht_context_free(l->context);
	l->context = NULL;
	return st;
}

static enum ht_status run_in_turn(
	struct ht_attribution *a, const struct ht_array *in, size_t ins, struct ht_diags *d)
{
	enum ht_status st = HT_OK;

	for (int i = 0; i < HT_LOOKED && st == HT_OK; i++)
		if (runs(a, i))
			st = run_alone(&a->looked[i], see_in[i], in, ins, d);
	return st;
}

static bool is_computed_once(const struct ht_looked *l, size_t place)
{
	const struct ht_tee_place *p = &l->program->tee_place[place];

	return !p->in_parts && !*l->program->tee[p->first].info.body;
}

/* Counts where a program compares tensors of the reference. */
static void count_readers(const struct ht_looked *l)
{
	struct ht_attribution *a = l->of;

	for (size_t i = 0; i < l->program->tee_places; i++) {
		struct ht_kept *k =
			l->tensor[i] < 0 ? NULL : &a->kept[a->tensor[l->tensor[i]].kept];

		if (!k)
			continue;
		k->readers++;
		k->stays |= !is_computed_once(l, i);
	}
}

static void run_side(void *arg)
{
	struct ht_looked *l = arg;
	struct ht_side *r = &l->run;

	r->status = run(l, see_in[l - l->of->looked], r->in, r->ins, &r->said);
}

static void start_side(struct ht_looked *l, const struct ht_array *in, size_t ins)
{
	l->run = (struct ht_side){ .in = in, .ins = ins };
	ht_diags_init(&l->run.said);
	ht_coroutine_start(l->side, run_side, l);
}

/* Ends the run of a program that `ran`; the first error of all programs counts. */
static enum ht_status end_side(struct ht_looked *l, enum ht_status st, struct ht_diags *d)
{
	struct ht_side *r = &l->run;

	while (!ht_coroutine_ended(l->side))
		ht_coroutine_resume(l->side);
	if (st == HT_OK && r->status != HT_OK) {
		st = r->status;
		if (r->said.last)
			ht_error(
				d, st, r->said.last->where, "%.*s", HT_STR_ARG(r->said.last->text));
	}
	ht_diags_release(&r->said);
	return st;
}

static enum ht_status run_side_by_side(
	struct ht_attribution *a, const struct ht_array *in, size_t ins, struct ht_diags *d)
{
	enum ht_status st;

	a->ended = false;
	for (int i = HT_LOOKED_POLICY; i < HT_LOOKED; i++)
		if (runs(a, i))
			count_readers(&a->looked[i]);
	for (int i = HT_LOOKED_POLICY; i < HT_LOOKED; i++)
		if (runs(a, i))
			start_side(&a->looked[i], in, ins);
	st = run(&a->looked[HT_LOOKED_REFERENCE], see_reference, in, ins, d);
	a->ended = true;
	for (int i = HT_LOOKED_POLICY; i < HT_LOOKED; i++)
		if (runs(a, i))
			st = end_side(&a->looked[i], st, d);
	return st;
}

static void store_all(struct ht_attribution *a)
{
	for (size_t i = 0; i < a->looked[HT_LOOKED_REFERENCE].program->tee_places; i++)
		a->kept[i].stays = true;
}

static enum ht_status run_wave(
	struct ht_attribution *a, const struct ht_array *in, size_t ins, struct ht_diags *d)
{
	enum ht_status st;

	want_wave(a);
	if (a->looked[HT_LOOKED_POLICY].side) {
		st = run_side_by_side(a, in, ins, d);
	} else {
		store_all(a);
		st = run_in_turn(a, in, ins, d);
	}
	if (st == HT_OK && a->failed)
		st = ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE,
			"no memory for the tensors of a wave of nodes");
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
	if (is_first_sample(a))
		for (size_t i = 0; i < a->of.nodes->n; i++)
			a->of.nodes->of[i].expected_squares = a->of.nodes->of[i].squares;
	a->of.nodes->samples++;
	a->of.nodes->run_ns += ht_now_ns() - before;
	return HT_OK;
}
