/* Invariant steps of a loop: every iteration would compute the same, such as packed weights and sums of biases.  They run once, in
 * front of the loop, and what other steps of the body read of theirs becomes parameters of the body.
 *
 * A step of a body is invariant if it reads only arguments that the loop does not change, variables that nothing in the loop changes,
 * constants, and memory that only such steps write to.  It runs even if the loop has no iteration, so a step that may stop the run is
 * not invariant (constant.c).  Invariant steps of a loop that is in another one's body are steps of that body, from which they may move
 * on.  What follows only from variables to which the program does not assign became derived before (derived.c). */
#include "lower/inside.h"

#include <string.h>

/* For steps that make fewer bytes, more arguments take about as long as the steps. */
enum { LEAST_BYTES = 1024 };

/* ---- variables that the loop changes ---- */

struct changing {
	const struct ht_plan *p;
	bool *variable; /* by number */
	bool *met;      /* by procedure */
	bool any;       /* any variable: a call of a recursion may do anything */
};

static void note_buffer(struct changing *c, int32_t buffer)
{
	if (c->p->buffer[buffer].kind == HT_PLAN_VARIABLE)
		c->variable[c->p->buffer[buffer].offset] = true;
}

static void note_steps(struct changing *c, int32_t first, int32_t end);

static void note_procedure(struct changing *c, int32_t number)
{
	const struct ht_plan_procedure *of;

	c->any |= number < 0;
	if (number < 0 || c->met[number])
		return;
	c->met[number] = true;
	of = &c->p->procedure[number];
	note_steps(c, of->step, of->step + of->steps);
}

static void note_steps(struct changing *c, int32_t first, int32_t end)
{
	for (int32_t i = first; i < end; i++) {
		const struct ht_plan_step *s = &c->p->step[i];
		const struct ht_kernel *k = s->kernel >= 0 ? c->p->kernel[s->kernel] : NULL;

		for (int32_t a = 0; k && a < k->args; a++)
			if (k->buffer[a].kind == HT_BUFFER_OUT)
				note_buffer(c, s->buffer[a]);
		for (int n = 0; s->control && n < ht_plan_calls(s->control); n++)
			note_procedure(c, s->control->call[n].procedure);
	}
}

static struct changing changing_of(struct lower *l)
{
	struct changing c = { .p = l->plan,
		.variable = HT_NEW_ARRAY(l->scratch, bool, (size_t)l->plan->variables),
		.met = HT_NEW_ARRAY(l->scratch, bool, (size_t)l->plan->procedures) };

	note_procedure(&c, l->invariant->condition);
	note_steps(&c, l->procedure.step, l->plan->steps);
	return c;
}

/* ---- the body loses its invariant steps ---- */

/* By buffer of the body: whether it is the same in each iteration. */
static bool *find_same(struct lower *l)
{
	const struct changing c = changing_of(l);
	const struct ht_plan_buffer *b = l->plan->buffer + l->procedure.buffer;
	bool *same = HT_NEW_ARRAY(l->scratch, bool, (size_t)l->procedure.buffers);

	for (int32_t i = 0, params = 0; i < l->procedure.buffers; i++) {
		same[i] = b[i].kind == HT_PLAN_CONST ||
			  (b[i].kind == HT_PLAN_VARIABLE && !c.any && !c.variable[b[i].offset]);
		if (b[i].kind == HT_PLAN_PARAM)
			same[i] = l->invariant->same[params++];
	}
	return same;
}

/* By buffer of the body: whether a step that stays uses it. */
struct staying {
	const struct lower *l;
	bool *uses;
};

static void note_use(void *arg, int32_t buffer)
{
	const struct staying *s = arg;

	s->uses[buffer - s->l->procedure.buffer] = true;
}

static struct staying find_staying(struct lower *l, const bool *constant)
{
	struct staying s = { l, HT_NEW_ARRAY(l->scratch, bool, (size_t)l->procedure.buffers) };

	for (int32_t i = 0; i < l->procedure.steps; i++) {
		const struct ht_plan_step *x = &l->plan->step[l->procedure.step + i];

		for (int32_t a = 0; x->kernel >= 0 && a < l->plan->kernel[x->kernel]->args; a++)
			if (!constant[i])
				note_use(&s, x->buffer[a]);
		if (x->control)
			lower_each_of_control(x->control, note_use, &s);
	}
	return s;
}

/* Calls `fn` for each buffer that a constant step writes to. */
static void each_made(
	struct lower *l, const bool *constant, void (*fn)(void *arg, int32_t buffer), void *arg)
{
	for (int32_t i = 0; i < l->procedure.steps; i++) {
		const struct ht_plan_step *s = &l->plan->step[l->procedure.step + i];
		const struct ht_kernel *k = constant[i] ? l->plan->kernel[s->kernel] : NULL;

		for (int32_t a = 0; k && a < k->args; a++)
			if (k->buffer[a].kind == HT_BUFFER_OUT)
				fn(arg, s->buffer[a]);
	}
}

struct making {
	const struct staying *staying;
	size_t bytes;
};

static void add_bytes(void *arg, int32_t buffer)
{
	struct making *m = arg;

	m->bytes += m->staying->l->plan->buffer[buffer].bytes;
}

static void become_parameter(void *arg, int32_t buffer)
{
	const struct making *m = arg;
	const struct lower *l = m->staying->l;

	if (m->staying->uses[buffer - l->procedure.buffer])
		l->plan->buffer[buffer].kind = HT_PLAN_PARAM;
}

static void take_steps(struct lower *l, const bool *constant)
{
	struct ht_plan_step *of = l->plan->step + l->procedure.step,
			    *taken = HT_NEW_ARRAY(
				    l->scratch, struct ht_plan_step, (size_t)l->procedure.steps);
	int32_t kept = 0;

	for (int32_t i = 0; i < l->procedure.steps; i++)
		if (constant[i])
			taken[l->invariant->steps++] = of[i];
		else
			of[kept++] = of[i];
	l->invariant->step = taken;
	l->procedure.steps = kept;
	l->plan->steps = l->procedure.step + kept;
}

void plan_take_invariant(struct lower *l)
{
	const bool *constant;
	struct staying staying;
	struct making making = { &staying, 0 };

	if (!l->invariant || l->planning->observed)
		return;
	constant = plan_constant_steps(l, find_same(l));
	staying = find_staying(l, constant);
	each_made(l, constant, add_bytes, &making);
	if (making.bytes < LEAST_BYTES)
		return;
	each_made(l, constant, become_parameter, &making);
	take_steps(l, constant);
	plan_all_uses(l);
}

/* ---- they run in front of the loop ---- */

struct moving {
	struct lower *l;
	const struct ht_plan_procedure *body;
	int32_t *to; /* by buffer of the body: 1 + the one in front of the loop; 0: none yet */
};

/* A variable, or memory of the procedure that has the loop. */
static int32_t same_buffer(struct lower *l, int32_t buffer)
{
	const struct ht_plan_buffer from = l->plan->buffer[buffer];
	const enum ht_plan_kind kind =
		from.kind == HT_PLAN_VARIABLE ? HT_PLAN_VARIABLE : HT_PLAN_TEMP;
	int32_t to;

	if (from.kind == HT_PLAN_CONST)
		return plan_same_constant(l, buffer + 1);
	to = plan_buffer(
		l, kind, from.dtype, (int64_t)(from.bytes / ht_dtype_info(from.dtype)->bytes));
	l->plan->buffer[to].offset = kind == HT_PLAN_VARIABLE ? from.offset : 0;
	return to;
}

static int32_t moved(struct moving *m, int32_t buffer)
{
	int32_t *to = &m->to[buffer - m->body->buffer];

	if (!*to)
		*to = same_buffer(m->l, buffer) + 1;
	return *to - 1;
}

static void move_step(struct moving *m, const struct ht_plan_step *s)
{
	const int32_t args = m->l->plan->kernel[s->kernel]->args;
	int32_t *buffer = HT_NEW_ARRAY(m->l->arena, int32_t, (size_t)args);

	for (int32_t i = 0; i < args; i++)
		buffer[i] = moved(m, s->buffer[i]);
	plan_repeat(m->l, s, buffer);
}

int32_t lower_move_invariant(struct lower *l, int32_t body, const struct lower_invariant *of,
	const int32_t *given, int32_t *more)
{
	const struct ht_plan_procedure procedure = l->plan->procedure[body];
	struct moving m = { l, &procedure,
		HT_NEW_ARRAY(l->scratch, int32_t, (size_t)procedure.buffers) };
	int32_t params = 0, made = 0;

	for (int32_t i = 0; i < of->params; i++)
		m.to[plan_parameter(l->plan, body, HT_PLAN_PARAM, i) - procedure.buffer] =
			given[i] + 1;
	for (int32_t i = 0; i < of->steps; i++)
		move_step(&m, &of->step[i]);
	for (int32_t i = 0; i < procedure.buffers; i++)
		if (l->plan->buffer[procedure.buffer + i].kind == HT_PLAN_PARAM &&
			params++ >= of->params)
			more[made++] = m.to[i] - 1;
	return made;
}
