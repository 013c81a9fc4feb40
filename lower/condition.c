/* The condition of a loop, computed by the loop's body.
 *
 * Each call of a procedure binds the arguments of its frame, unless the frame is still bound for that call.  A loop that
 * called its condition and its body in turn would bind both in each iteration.  So the body repeats the kernels of the
 * condition behind its own, on the values of the next iteration. */
#include "lower/inside.h"

bool lower_never_stops(const struct ht_kernel *k)
{
	for (int32_t i = 0; i < k->stages; i++)
		for (int32_t x = 0; x < k->stage[i].xs; x++)
			if (k->stage[i].x[x].op == HT_X_CHECK)
				return false;
	return !k->library;
}

static bool is_simple(const struct ht_plan *p, const struct ht_plan_step *s)
{
	const struct ht_kernel *k = s->kernel >= 0 ? p->kernel[s->kernel] : NULL;

	/* The message of a kernel that stops would name the iteration before. */
	if (!k || s->computes || !lower_never_stops(k))
		return false;
	for (int32_t i = 0; i < k->args; i++) {
		enum ht_plan_kind kind = p->buffer[s->buffer[i]].kind;

		if (kind != HT_PLAN_PARAM && kind != HT_PLAN_RESULT && kind != HT_PLAN_CONST)
			return false;
	}
	return true;
}

bool lower_condition_moves(const struct lower *l, int32_t condition)
{
	const struct ht_plan_procedure *of = &l->plan->procedure[condition];

	for (int32_t i = of->step; i < of->step + of->steps; i++)
		if (!is_simple(l->plan, &l->plan->step[i]))
			return false;
	return !l->planning->observed;
}

/* By buffer of the condition: the body's. */
static int32_t *body_buffers(
	struct lower *l, const struct ht_plan_procedure *condition, const int32_t *at)
{
	int32_t *to = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)condition->buffers);

	for (int32_t i = 0; i < condition->buffers; i++) {
		const struct ht_plan_buffer b = l->plan->buffer[condition->buffer + i];

		if (b.kind == HT_PLAN_PARAM)
			to[i] = *at++;
		else if (b.kind == HT_PLAN_RESULT)
			to[i] = plan_buffer(l, HT_PLAN_RESULT, b.dtype, 1);
		else if (b.kind == HT_PLAN_CONST)
			to[i] = plan_same_constant(l, condition->buffer + i + 1);
	}
	return to;
}

/* Whether the plan's last buffers and steps are those of the procedure: of one with loops side by side, those of the loops are. */
static bool is_at_end(const struct ht_plan *p, const struct ht_plan_procedure *of)
{
	return of->buffer + of->buffers == p->buffers && of->step + of->steps == p->steps;
}

bool lower_move_condition(struct lower *l, int32_t condition, int32_t body, const int32_t *at)
{
	const struct ht_plan_procedure from = l->plan->procedure[condition];
	struct ht_plan_procedure *into = &l->plan->procedure[body];
	const int32_t *to;

	if (!is_at_end(l->plan, into))
		return false;
	to = body_buffers(l, &from, at);
	for (int32_t i = from.step; i < from.step + from.steps; i++) {
		const struct ht_plan_step s = l->plan->step[i];
		const int32_t args = l->plan->kernel[s.kernel]->args;
		int32_t *buffer = HT_NEW_ARRAY(l->arena, int32_t, (size_t)args);

		for (int32_t k = 0; k < args; k++)
			buffer[k] = to[s.buffer[k] - from.buffer];
		plan_repeat(l, &s, buffer);
	}
	into->buffers = l->plan->buffers - into->buffer;
	into->steps = l->plan->steps - into->step;
	return true;
}
