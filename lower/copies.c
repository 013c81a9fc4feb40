/* Copies between variables and temporary buffers that a procedure can do without.
 *
 * A read copies the variable, since a later step may change it. What is assigned to a variable is computed in a temporary buffer, since
 * other steps may still read the old value. When all steps are made, it is known which steps do that:
 *
 * - The copy that a read makes is the variable itself if no step changes the variable before the last use of the copy.
 * - The buffer that an assignment copies to the variable is the variable itself if no step from the one that writes the buffer up to the
 *   assignment reads the old value. The one that writes the buffer may read the element in whose place it writes.
 *
 * A run that stops at an error changes no other variables than before: an assignment does not move before a step that may stop.
 *
 * Each memory has the list of the steps that access it, so that n steps take a time in the order of n log n. */
#include "lower/inside.h"

#include <stdlib.h>
#include <string.h>

/* Steps, each once, in their order. */
struct steps {
	int32_t *step;
	size_t n, cap;
};

/* The steps that read or write a memory, and those that write it. */
struct accesses {
	struct steps touched, written;
};

/* A buffer of variable `number`. */
struct handle {
	size_t number;
	int32_t buffer;
};

struct copies {
	struct ht_plan *p;
	struct ht_arena *a;
	int32_t first, end;      /* the procedure's steps */
	int32_t buffer, buffers; /* its buffers */
	struct handle *handle;   /* its buffers of variables, by number */
	size_t handles;
	int32_t *memory; /* by buffer of the procedure: the first buffer that is the same memory */
	struct accesses *accesses; /* by buffer of the procedure, of those first ones */
	bool *gone;                /* by step of the procedure */
	int32_t *stops;   /* by step of the procedure: how many steps before it may stop the run */
	int32_t *walked;  /* by procedure: the last walk that met it */
	int32_t walk, at; /* `at`: the step whose accesses are noted */
};

static const struct ht_kernel *kernel_of(const struct copies *c, int32_t step)
{
	const int32_t number = c->p->step[step].kernel;

	return number >= 0 ? c->p->kernel[number] : NULL;
}

static bool *gone(const struct copies *c, int32_t step)
{
	return &c->gone[step - c->first];
}

/* ---- lists of steps ---- */

/* The place of the first of them that is not before `step`. */
static size_t place_of(const struct steps *s, int32_t step)
{
	size_t from = 0, end = s->n;

	while (from < end) {
		size_t middle = from + (end - from) / 2;

		if (s->step[middle] < step)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

/* The first of them that is not before `step`; INT32_MAX: there is none. */
static int32_t next(const struct steps *s, int32_t step)
{
	size_t at = place_of(s, step);

	return at < s->n ? s->step[at] : INT32_MAX;
}

static void insert(struct copies *c, struct steps *s, int32_t step)
{
	size_t at = place_of(s, step);

	if (at < s->n && s->step[at] == step)
		return;
	s->step = ht_grow(c->a, s->step, s->n, &s->cap, sizeof *s->step);
	memmove(s->step + at + 1, s->step + at, (s->n++ - at) * sizeof *s->step);
	s->step[at] = step;
}

static void take_out(struct steps *s, int32_t step)
{
	size_t at = place_of(s, step);

	if (at < s->n && s->step[at] == step)
		memmove(s->step + at, s->step + at + 1, (--s->n - at) * sizeof *s->step);
}

/* ---- which memory a buffer is ---- */

static int by_number(const void *a, const void *b)
{
	const struct handle *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* A variable may have several buffers. */
static void find_memories(struct copies *c)
{
	c->handle = HT_NEW_ARRAY(c->a, struct handle, (size_t)c->buffers);
	c->memory = HT_NEW_ARRAY(c->a, int32_t, (size_t)c->buffers);
	for (int32_t i = 0; i < c->buffers; i++) {
		const struct ht_plan_buffer *b = &c->p->buffer[c->buffer + i];

		c->memory[i] = i;
		if (b->kind == HT_PLAN_VARIABLE)
			c->handle[c->handles++] = (struct handle){ b->offset, i };
	}
	qsort(c->handle, c->handles, sizeof *c->handle, by_number);
	for (size_t i = 1; i < c->handles; i++)
		if (c->handle[i].number == c->handle[i - 1].number)
			c->memory[c->handle[i].buffer] = c->memory[c->handle[i - 1].buffer];
}

static bool is_same(const struct copies *c, int32_t a, int32_t b)
{
	return c->memory[a - c->buffer] == c->memory[b - c->buffer];
}

static struct accesses *accesses_of(const struct copies *c, int32_t buffer)
{
	return &c->accesses[c->memory[buffer - c->buffer]];
}

/* The procedure's first buffer of that variable, counted from the first of all; -1: it has none. */
static int32_t handle_of(const struct copies *c, size_t number)
{
	size_t from = 0, end = c->handles;

	while (from < end) {
		size_t middle = from + (end - from) / 2;

		if (c->handle[middle].number < number)
			from = middle + 1;
		else
			end = middle;
	}
	return from < c->handles && c->handle[from].number == number
		       ? c->buffer + c->handle[from].buffer
		       : -1;
}

/* ---- what a step does with memory ---- */

static void note_read(struct copies *c, int32_t buffer)
{
	insert(c, &accesses_of(c, buffer)->touched, c->at);
}

static void note_written(struct copies *c, int32_t buffer)
{
	note_read(c, buffer);
	insert(c, &accesses_of(c, buffer)->written, c->at);
}

static void note_any(void *c, int32_t buffer)
{
	note_written(c, buffer);
}

static void note_control(struct copies *c, const struct ht_plan_control *control);

/* A branch, loop or call may do anything with the variables that its procedures have. */
static void note_procedure(struct copies *c, int32_t number)
{
	const struct ht_plan_procedure *of;

	if (number < 0) { /* of a recursion */
		for (size_t i = 0; i < c->handles; i++)
			note_written(c, c->buffer + c->handle[i].buffer);
		return;
	}
	if (c->walked[number] == c->walk)
		return;
	c->walked[number] = c->walk;
	of = &c->p->procedure[number];
	for (int32_t i = of->buffer; i < of->buffer + of->buffers; i++) {
		const struct ht_plan_buffer *b = &c->p->buffer[i];
		int32_t own = b->kind == HT_PLAN_VARIABLE ? handle_of(c, b->offset) : -1;

		if (own >= 0)
			note_written(c, own);
	}
	for (int32_t i = of->step; i < of->step + of->steps; i++)
		if (c->p->step[i].control)
			note_control(c, c->p->step[i].control);
}

static void note_control(struct copies *c, const struct ht_plan_control *control)
{
	for (int k = 0; k < ht_plan_calls(control); k++)
		note_procedure(c, control->call[k].procedure);
}

static void note_step(struct copies *c, int32_t step)
{
	const struct ht_plan_step *s = &c->p->step[step];
	const struct ht_kernel *k = kernel_of(c, step);

	c->at = step;
	for (int32_t i = 0; k && i < k->args; i++)
		(k->buffer[i].kind == HT_BUFFER_OUT ? note_written : note_read)(c, s->buffer[i]);
	if (!s->control)
		return;
	if (!c->walked)
		c->walked = HT_NEW_ARRAY(c->a, int32_t, (size_t)c->p->procedures);
	c->walk++;
	lower_each_of_control(s->control, note_any, c);
	note_control(c, s->control);
}

/* Notes which memory each step accesses that is not gone. */
static void note_steps(struct copies *c)
{
	c->accesses = HT_NEW_ARRAY(c->a, struct accesses, (size_t)c->buffers);
	for (int32_t i = c->first; i < c->end; i++)
		if (!*gone(c, i))
			note_step(c, i);
}

/* Whether the step's kernel reads the memory of `old` only at the element that it writes next to that of `new`. */
static bool is_in_place(const struct copies *c, int32_t step, int32_t old, int32_t new)
{
	const struct ht_plan_step *s = &c->p->step[step];
	const struct ht_kernel *k = kernel_of(c, step);
	int32_t out = -1;

	if (!k || k->library || k->stages != 1 || k->stage->kind != HT_STAGE_LOOP)
		return false;
	for (int32_t i = 0; i < k->args; i++)
		if (is_same(c, s->buffer[i], new))
			out = i;
	for (int32_t i = 0; i < k->args; i++)
		if (is_same(c, s->buffer[i], old) &&
			(out < 0 || k->buffer[i].kind == HT_BUFFER_OUT ||
				k->buffer[i].dtype != k->buffer[out].dtype ||
				!lower_is_pointwise(k->stage, i, out)))
			return false;
	return true;
}

static bool may_stop(const struct copies *c, int32_t step)
{
	const struct ht_kernel *k = kernel_of(c, step);

	return !k || !lower_never_stops(k);
}

static void count_stops(struct copies *c)
{
	c->stops = HT_NEW_ARRAY(c->a, int32_t, (size_t)(c->end - c->first) + 1);
	for (int32_t i = c->first; i < c->end; i++)
		c->stops[i + 1 - c->first] = c->stops[i - c->first] + may_stop(c, i);
}

/* Whether a step from `from` on and before `end` may stop the run. */
static bool any_stops(const struct copies *c, int32_t from, int32_t end)
{
	return c->stops[end - c->first] > c->stops[from - c->first];
}

/* ---- copies ---- */

/* Whether the step copies all of a buffer to another one, element by element, and nothing else. */
static bool is_copy(const struct copies *c, int32_t step)
{
	const int32_t *buffer = c->p->step[step].buffer;
	const struct ht_kernel *k = kernel_of(c, step);
	const struct ht_stage *s = k ? k->stage : NULL;

	return k && !k->library && k->args == 2 && k->stages == 1 && s->kind == HT_STAGE_LOOP &&
	       k->buffer[1].kind == HT_BUFFER_OUT && k->buffer[0].dtype == k->buffer[1].dtype &&
	       c->p->buffer[buffer[0]].bytes == c->p->buffer[buffer[1]].bytes && s->stores == 1 &&
	       s->store[0].guard < 0 && s->x[s->store[0].value].op == HT_X_LOAD &&
	       s->x[s->store[0].value].b < 0 && lower_is_pointwise(s, 0, 1);
}

/* Steps that access temporary buffer `old` get buffer `new` in its place. */
static void replace(const struct copies *c, int32_t old, int32_t new)
{
	const struct steps *s = &accesses_of(c, old)->touched;

	for (size_t i = 0; i < s->n; i++) {
		const struct ht_kernel *k = kernel_of(c, s->step[i]);

		for (int32_t a = 0; k && a < k->args; a++)
			if (c->p->step[s->step[i]].buffer[a] == old)
				c->p->step[s->step[i]].buffer[a] = new;
	}
}

/* Step `at` copies a variable to a temporary buffer. */
static bool may_read_variable(const struct copies *c, int32_t at, int32_t variable, int32_t temp)
{
	const struct ht_plan_buffer *t = &c->p->buffer[temp];
	int32_t changed = next(&accesses_of(c, variable)->written, at + 1);

	if (t->kind != HT_PLAN_TEMP || t->first_step != at ||
		next(&accesses_of(c, temp)->written, at + 1) <= t->last_step)
		return false;
	return changed > t->last_step ||
	       (changed == t->last_step && is_in_place(c, changed, temp, variable));
}

/* Step `at` copies a temporary buffer to a variable. */
static bool may_write_variable(const struct copies *c, int32_t at, int32_t variable, int32_t temp)
{
	const struct ht_plan_buffer *t = &c->p->buffer[temp];
	const struct accesses *of = accesses_of(c, variable);
	const int32_t made = t->first_step;

	if (t->kind != HT_PLAN_TEMP || made >= at || !is_in_place(c, made, variable, temp))
		return false;
	return !any_stops(c, made, at) && next(&of->touched, made + 1) >= at &&
	       next(&accesses_of(c, temp)->written, made + 1) > t->last_step &&
	       next(&of->written, at + 1) > t->last_step;
}

static void avoid_read(struct copies *c, int32_t step)
{
	const int32_t *buffer = c->p->step[step].buffer;

	if (c->p->buffer[buffer[0]].kind != HT_PLAN_VARIABLE ||
		!may_read_variable(c, step, buffer[0], buffer[1]))
		return;
	*gone(c, step) = true;
	take_out(&accesses_of(c, buffer[1])->touched, step);
	replace(c, buffer[1], buffer[0]);
}

/* The steps that access temporary buffer `from` access variable `to` from now on. */
static void move_accesses(struct copies *c, int32_t from, int32_t to)
{
	const struct steps *s = &accesses_of(c, from)->touched;

	for (size_t i = 0; i < s->n; i++)
		insert(c, &accesses_of(c, to)->touched, s->step[i]);
	insert(c, &accesses_of(c, to)->written, s->step[0]);
}

static void avoid_write(struct copies *c, int32_t step)
{
	const int32_t from = c->p->step[step].buffer[0], to = c->p->step[step].buffer[1];

	if (!variable_assigns_all(c->p->step[step].of) || !may_write_variable(c, step, to, from))
		return;
	*gone(c, step) = true;
	take_out(&accesses_of(c, from)->touched, step);
	take_out(&accesses_of(c, to)->touched, step);
	take_out(&accesses_of(c, to)->written, step);
	replace(c, from, to);
	move_accesses(c, from, to);
}

static void remove_gone(struct copies *c)
{
	int32_t kept = c->first;

	for (int32_t i = c->first; i < c->end; i++)
		if (!*gone(c, i))
			c->p->step[kept++] = c->p->step[i];
	c->p->steps = kept;
}

void plan_avoid_copies(struct lower *l)
{
	struct copies c = { .p = l->plan,
		.a = l->scratch,
		.first = l->procedure.step,
		.end = l->plan->steps,
		.buffer = l->procedure.buffer,
		.buffers = l->procedure.buffers };

	if (l->planning->observed || l->whole || !l->plan->variables)
		return;
	find_memories(&c);
	if (!c.handles)
		return;
	c.gone = HT_NEW_ARRAY(c.a, bool, (size_t)(c.end - c.first));
	note_steps(&c);
	for (int32_t i = c.first; i < c.end; i++)
		if (is_copy(&c, i))
			avoid_read(&c, i);
	note_steps(&c);
	count_stops(&c);
	for (int32_t i = c.first; i < c.end; i++)
		if (!*gone(&c, i) && is_copy(&c, i))
			avoid_write(&c, i);
	remove_gone(&c);
	l->procedure.steps = l->plan->steps - l->procedure.step;
	plan_all_uses(l);
}
