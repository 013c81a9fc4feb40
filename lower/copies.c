/* Copies between variables and temporary buffers that a procedure can do without.
 *
 * A read copies the variable, since a later step may change it. What is assigned to a variable is computed in a temporary buffer, since
 * other steps may still read the old value. When all steps are made, it is known which steps do that:
 *
 * - The copy that a read makes is the variable itself if no step changes the variable before the last use of the copy.
 * - The buffer that an assignment copies to the variable is the variable itself if no step from the one that writes the buffer up to the
 *   assignment reads the old value. The one that writes the buffer may read the element in whose place it writes.
 *
 * A run that stops at an error changes no other variables than before: an assignment does not move before a step that may stop. */
#include "lower/inside.h"

#include <string.h>

struct copies {
	struct ht_plan *p;
	int32_t first, end; /* the procedure's steps */
	bool *gone;         /* by step of the plan */
	int32_t *walked;    /* by procedure: the last walk that met it */
	int32_t walk;
};

static const struct ht_kernel *kernel_of(const struct copies *c, int32_t step)
{
	const int32_t number = c->p->step[step].kernel;

	return number >= 0 ? c->p->kernel[number] : NULL;
}

/* ---- what a step does with memory ---- */

enum { READS = 1, WRITES = 2 };

/* A variable has several buffers. */
static bool is_same(const struct ht_plan *p, int32_t a, int32_t b)
{
	const struct ht_plan_buffer *x = &p->buffer[a], *y = &p->buffer[b];

	return a == b || (x->kind == HT_PLAN_VARIABLE && y->kind == HT_PLAN_VARIABLE &&
				 x->offset == y->offset);
}

/* Whether procedure `number`, or one that it calls, has the variable of `buffer`. */
static bool has_variable(struct copies *c, int32_t number, int32_t buffer)
{
	const struct ht_plan_procedure *of;

	if (number < 0) /* of a recursion */
		return true;
	if (c->walked[number] == c->walk)
		return false;
	c->walked[number] = c->walk;
	of = &c->p->procedure[number];
	for (int32_t i = of->buffer; i < of->buffer + of->buffers; i++)
		if (is_same(c->p, i, buffer))
			return true;
	for (int32_t i = of->step; i < of->step + of->steps; i++) {
		const struct ht_plan_control *control = c->p->step[i].control;

		for (int k = 0; control && k < ht_plan_calls(control); k++)
			if (has_variable(c, control->call[k].procedure, buffer))
				return true;
	}
	return false;
}

/* A branch, loop or call may do anything with what it gets and with the variables that it has. */
static bool controls(struct copies *c, const struct ht_plan_control *control, int32_t buffer)
{
	if (lower_control_has(control, buffer))
		return true;
	if (c->p->buffer[buffer].kind != HT_PLAN_VARIABLE)
		return false;
	c->walk++;
	for (int i = 0; i < ht_plan_calls(control); i++)
		if (has_variable(c, control->call[i].procedure, buffer))
			return true;
	return false;
}

static int use_of(struct copies *c, int32_t step, int32_t buffer)
{
	const struct ht_plan_step *s = &c->p->step[step];
	const struct ht_kernel *k = kernel_of(c, step);
	int use = 0;

	if (c->gone[step])
		return 0;
	for (int32_t i = 0; k && i < k->args; i++)
		if (is_same(c->p, s->buffer[i], buffer))
			use |= k->buffer[i].kind == HT_BUFFER_OUT ? READS | WRITES : READS;
	if (s->control && controls(c, s->control, buffer))
		use |= READS | WRITES;
	return use;
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
		if (is_same(c->p, s->buffer[i], new))
			out = i;
	for (int32_t i = 0; i < k->args; i++)
		if (is_same(c->p, s->buffer[i], old) &&
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

static void replace(const struct copies *c, int32_t first, int32_t last, int32_t old, int32_t new)
{
	for (int32_t i = first; i <= last; i++) {
		const struct ht_kernel *k = kernel_of(c, i);

		for (int32_t a = 0; k && a < k->args; a++)
			if (c->p->step[i].buffer[a] == old)
				c->p->step[i].buffer[a] = new;
	}
}

/* Step `at` copies a variable to a temporary buffer. */
static bool may_read_variable(struct copies *c, int32_t at, int32_t variable, int32_t temp)
{
	const struct ht_plan_buffer *t = &c->p->buffer[temp];

	if (t->kind != HT_PLAN_TEMP || t->first_step != at)
		return false;
	for (int32_t i = at + 1; i <= t->last_step; i++) {
		if (use_of(c, i, temp) & WRITES)
			return false;
		if (use_of(c, i, variable) & WRITES &&
			(i < t->last_step || !is_in_place(c, i, temp, variable)))
			return false;
	}
	return true;
}

/* Step `at` copies a temporary buffer to a variable. */
static bool may_write_variable(struct copies *c, int32_t at, int32_t variable, int32_t temp)
{
	const struct ht_plan_buffer *t = &c->p->buffer[temp];
	const int32_t made = t->first_step;

	if (t->kind != HT_PLAN_TEMP || made >= at || !is_in_place(c, made, variable, temp))
		return false;
	for (int32_t i = made; i < at; i++)
		if (may_stop(c, i) || (i > made && use_of(c, i, variable)))
			return false;
	for (int32_t i = made + 1; i <= t->last_step; i++)
		if (use_of(c, i, temp) & WRITES || (i > at && use_of(c, i, variable) & WRITES))
			return false;
	return true;
}

static void avoid_read(struct copies *c, int32_t step)
{
	const int32_t *buffer = c->p->step[step].buffer;

	if (c->p->buffer[buffer[0]].kind != HT_PLAN_VARIABLE ||
		!may_read_variable(c, step, buffer[0], buffer[1]))
		return;
	replace(c, step + 1, c->p->buffer[buffer[1]].last_step, buffer[1], buffer[0]);
	c->gone[step] = true;
}

static void avoid_write(struct copies *c, int32_t step)
{
	const int32_t from = c->p->step[step].buffer[0], to = c->p->step[step].buffer[1];
	const struct ht_plan_buffer *t = &c->p->buffer[from];

	if (!variable_assigns_all(c->p->step[step].of) || !may_write_variable(c, step, to, from))
		return;
	c->gone[step] = true;
	replace(c, t->first_step, t->last_step, from, to);
}

static void remove_gone(struct copies *c)
{
	int32_t kept = c->first;

	for (int32_t i = c->first; i < c->end; i++)
		if (!c->gone[i])
			c->p->step[kept++] = c->p->step[i];
	c->p->steps = kept;
}

void plan_avoid_copies(struct lower *l)
{
	struct copies c = { .p = l->plan, .first = l->procedure.step, .end = l->plan->steps };

	if (l->planning->observed || l->whole || !l->plan->variables)
		return;
	c.gone = HT_NEW_ARRAY(l->scratch, bool, (size_t)c.end);
	c.walked = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)l->plan->procedures);
	for (int32_t i = c.first; i < c.end; i++)
		if (is_copy(&c, i))
			avoid_read(&c, i);
	for (int32_t i = c.first; i < c.end; i++)
		if (!c.gone[i] && is_copy(&c, i))
			avoid_write(&c, i);
	remove_gone(&c);
	l->procedure.steps = l->plan->steps - l->procedure.step;
	plan_all_uses(l);
}
