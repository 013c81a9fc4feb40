/* Loop-carried values: whether an iteration may write a new value to the memory from which it reads the old one.
 *
 * It may if every step of the body that reads the old value comes before the one that writes the new value, or is that
 * step and reads only the element that it writes next. */
#include "lower/inside.h"

/* ---- what a step reads and writes ---- */

struct use {
	bool reads, writes; /* the old value; the new value */
	int arg, out;       /* of a kernel: its arguments that are these */
};

static void each_of_moves(
	const struct ht_plan_move *m, int32_t n, void (*fn)(void *arg, int32_t buffer), void *arg)
{
	for (int32_t i = 0; i < n; i++) {
		fn(arg, m[i].to);
		fn(arg, m[i].from);
	}
}

void lower_each_of_control(
	const struct ht_plan_control *c, void (*fn)(void *arg, int32_t buffer), void *arg)
{
	if (c->condition >= 0)
		fn(arg, c->condition);
	for (int i = 0; i < 2; i++)
		for (int32_t k = 0; k < c->call[i].buffers; k++)
			fn(arg, c->call[i].buffer[k]);
	each_of_moves(c->begin, c->begins, fn, arg);
	each_of_moves(c->again, c->agains, fn, arg);
}

struct sought {
	int32_t buffer;
	bool found;
};

static void compare(void *arg, int32_t buffer)
{
	struct sought *s = arg;

	s->found |= s->buffer == buffer;
}

static bool control_has(const struct ht_plan_control *c, int32_t buffer)
{
	struct sought s = { buffer, false };

	lower_each_of_control(c, compare, &s);
	return s.found;
}

static struct use use_of(
	const struct ht_plan *p, const struct ht_plan_step *s, int32_t old, int32_t new)
{
	const struct ht_kernel *k = s->kernel >= 0 ? p->kernel[s->kernel] : NULL;
	struct use u = { .arg = -1, .out = -1 };

	for (int i = 0; k && i < k->args; i++) {
		if (s->buffer[i] == old)
			u.arg = i;
		else if (s->buffer[i] == new)
			u.out = i;
	}
	u.reads = u.arg >= 0 || (s->control && control_has(s->control, old));
	u.writes = u.out >= 0 || (s->control && control_has(s->control, new));
	return u;
}

/* ---- steps that do both ---- */

bool lower_is_pointwise(const struct ht_stage *s, int arg, int out)
{
	const struct ht_contract *c = s->kind == HT_STAGE_CONTRACT ? &s->contract : NULL;
	int32_t at = -1;

	if (s->sequential || (c && (c->a_buffer == arg || c->b_buffer == arg)))
		return false;
	for (int32_t i = 0; i < s->stores; i++) {
		if (s->store[i].buffer != out)
			continue;
		if (at >= 0 && s->store[i].offset != at)
			return false;
		at = s->store[i].offset;
	}
	for (int32_t i = 0; i < s->xs; i++)
		if (s->x[i].op == HT_X_LOAD && s->x[i].imm == arg && s->x[i].a != at)
			return false;
	return at >= 0;
}

static bool may_do_both(const struct ht_plan *p, const struct ht_plan_step *s, const struct use *u)
{
	const struct ht_kernel *k = s->kernel >= 0 ? p->kernel[s->kernel] : NULL;

	return k && !k->library && k->stages == 1 &&
	       k->buffer[u->arg].dtype == k->buffer[u->out].dtype &&
	       lower_is_pointwise(k->stage, u->arg, u->out);
}

/* ---- the body ---- */

/* Steps side by side run at the same time, so they are as one step that reads and writes what each of them does. */
static int32_t steps_at_once(const struct ht_plan_step *s)
{
	return s->beside > 1 ? s->beside : 1;
}

static struct use use_of_all(
	const struct ht_plan *p, const struct ht_plan_step *s, int32_t old, int32_t new)
{
	struct use all = use_of(p, s, old, new);

	for (int32_t i = 1; i < steps_at_once(s); i++) {
		const struct use u = use_of(p, &s[i], old, new);

		all.reads |= u.reads;
		all.writes |= u.writes;
	}
	return all;
}

bool lower_may_overwrite(const struct ht_plan *p, int32_t procedure, int32_t param, int32_t result)
{
	const struct ht_plan_procedure *of = &p->procedure[procedure];
	const int32_t new = plan_parameter(p, procedure, HT_PLAN_RESULT, result);
	const int32_t old = param < 0 ? -1 : plan_parameter(p, procedure, HT_PLAN_PARAM, param);
	bool written = false;

	for (int32_t i = of->step; i < of->step + of->steps; i += steps_at_once(&p->step[i])) {
		const struct ht_plan_step *s = &p->step[i];
		const struct use u = use_of_all(p, s, old, new);

		if (u.reads && (written || (u.writes && !may_do_both(p, s, &u))))
			return false;
		written = written || u.writes;
	}
	return true;
}
