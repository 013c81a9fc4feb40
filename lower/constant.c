/* Constant steps of a procedure: each time that the procedure runs, they compute the same as long as some memory stays the same. */
#include "lower/inside.h"

struct finding {
	struct lower *l;
	struct ht_plan *p;
	int32_t first, steps; /* of the procedure */
	int32_t buffer;       /* its first */
	const bool *steady;   /* by buffer of it */
	bool *constant;       /* by step of it */
	bool *changes;        /* by buffer of it: a step that is not constant writes to it */
};

static const struct ht_plan_step *step_of(const struct finding *f, int32_t i)
{
	return &f->p->step[f->first + i];
}

static const struct ht_kernel *kernel_of(const struct finding *f, int32_t i)
{
	int32_t number = step_of(f, i)->kernel;

	return number >= 0 ? f->p->kernel[number] : NULL;
}

/* A step that may stop the run stays in a body, since the body may not run. */
static bool may_move(const struct finding *f, int32_t i)
{
	const struct ht_plan_step *s = step_of(f, i);
	const struct ht_kernel *k = kernel_of(f, i);

	return k && !k->library && !s->sized && !s->computes &&
	       (!f->l->g->function || lower_never_stops(k));
}

/* Whether step i is constant, provided that no other step writes to its memory. */
static bool may_be_constant(const struct finding *f, int32_t i)
{
	const struct ht_kernel *k = kernel_of(f, i);
	bool makes = false;

	if (!may_move(f, i))
		return false;
	for (int32_t a = 0; a < k->args; a++) {
		const int32_t b = step_of(f, i)->buffer[a];
		const enum ht_plan_kind kind = f->p->buffer[b].kind;
		bool out = k->buffer[a].kind == HT_BUFFER_OUT;

		if (kind != HT_PLAN_TEMP && (out || !f->steady[b - f->buffer]))
			return false;
		makes |= out;
	}
	return makes;
}

static void note_change(struct finding *f, int32_t buffer)
{
	f->changes[buffer - f->buffer] = true;
}

static void note_moves(struct finding *f, const struct ht_plan_move *m, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		note_change(f, m[i].to);
}

/* Of the buffers that a call gets, the procedure may write to those behind its parameters. */
static void note_call(struct finding *f, const struct ht_plan_call *c)
{
	for (int32_t i = plan_parameters(f->p, c->procedure); i < c->buffers; i++)
		note_change(f, c->buffer[i]);
}

/* Notes what a step that is not constant may write. */
static void note_changes(struct finding *f, int32_t i)
{
	const struct ht_plan_step *s = step_of(f, i);
	const struct ht_kernel *k = kernel_of(f, i);

	for (int32_t a = 0; k && a < k->args; a++)
		if (k->buffer[a].kind == HT_BUFFER_OUT)
			note_change(f, s->buffer[a]);
	if (!s->control)
		return;
	for (int c = 0; c < ht_plan_calls(s->control); c++)
		note_call(f, &s->control->call[c]);
	note_moves(f, s->control->begin, s->control->begins);
	note_moves(f, s->control->again, s->control->agains);
}

static bool touches_changes(const struct finding *f, int32_t i)
{
	for (int32_t a = 0; a < kernel_of(f, i)->args; a++) {
		const int32_t b = step_of(f, i)->buffer[a];

		if (f->p->buffer[b].kind == HT_PLAN_TEMP && f->changes[b - f->buffer])
			return true;
	}
	return false;
}

/* Repeats until nothing changes: each step that turns out not to be constant may affect others. */
static void find(struct finding *f)
{
	bool more = true;

	for (int32_t i = 0; i < f->steps; i++) {
		f->constant[i] = may_be_constant(f, i);
		if (!f->constant[i])
			note_changes(f, i);
	}
	while (more) {
		more = false;
		for (int32_t i = 0; i < f->steps; i++)
			if (f->constant[i] && touches_changes(f, i)) {
				f->constant[i] = false;
				note_changes(f, i);
				more = true;
			}
	}
}

bool *plan_constant_steps(struct lower *l, const bool *steady)
{
	struct finding f = { .l = l,
		.p = l->plan,
		.first = l->procedure.step,
		.steps = l->plan->steps - l->procedure.step,
		.buffer = l->procedure.buffer,
		.steady = steady };

	f.constant = HT_NEW_ARRAY(l->scratch, bool, (size_t)f.steps);
	f.changes = HT_NEW_ARRAY(l->scratch, bool, (size_t)(l->plan->buffers - f.buffer));
	find(&f);
	return f.constant;
}
