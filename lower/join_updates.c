/* Updates of variables that read what another loop over the same elements has just computed become one loop with it, so that the operands
 * are read once: a step of Adam that a graph spells out has a loop for each moment and one for the variable, which read the gradient and the
 * moments again.  Values are handed on as they would be stored, so the bits are the same.
 *
 * The steps are those that copies.c leaves, of which it is known which memory they change.  The two loops become one where the first one is, or
 * where the second one is if that keeps no temporary buffer alive for longer. */
#include "kernel/build.h"
#include "lower/inside.h"

/* Steps that are farther apart are not joined, so that the time grows linearly with the number of steps. */
enum { FARTHEST = 512, MOST_ARGS = 24, MOST_STORES = 8 };

struct updates {
	struct lower *l;
	struct ht_plan *p;
	int32_t first, end; /* the procedure's steps */
	int32_t *
		memory; /* by variable: 1 + the first of the procedure's buffers that are the variable */
	int32_t *writer; /* by buffer of the procedure: 1 + the last step so far that writes it */
	bool *gone;      /* by step of the procedure */
	bool changed;
};

static const struct ht_kernel *kernel_of(const struct updates *u, int32_t step)
{
	const int32_t number = u->p->step[step].kernel;

	return number >= 0 ? u->p->kernel[number] : NULL;
}

/* One buffer for all that are the same variable. */
static int32_t memory_of(const struct updates *u, int32_t step, int32_t arg)
{
	const int32_t b = u->p->step[step].buffer[arg];

	return u->p->buffer[b].kind == HT_PLAN_VARIABLE ? u->memory[u->p->buffer[b].offset] - 1 : b;
}

static int32_t *writer_of(const struct updates *u, int32_t buffer)
{
	return &u->writer[buffer - u->l->procedure.buffer];
}

/* The kernel of the step if it is one loop that computes each element on its own. */
static const struct ht_kernel *loop_of(const struct updates *u, int32_t step)
{
	const struct ht_plan_step *s = &u->p->step[step];
	const struct ht_kernel *k = kernel_of(u, step);

	return k && !k->library && k->stages == 1 && k->stage->kind == HT_STAGE_LOOP &&
			       !k->stage->reds && !k->stage->sequential && !k->params &&
			       k->buffers == k->args && k->stage->stores <= MOST_STORES &&
			       !s->params && !s->computes && !s->beside && !s->words_count &&
			       lower_never_stops(k)
		       ? k
		       : NULL;
}

static bool same_loops(const struct ht_kernel *a, const struct ht_kernel *b)
{
	if (a->grid_dims != b->grid_dims || a->stage->dims != b->stage->dims ||
		a->stage->vec != b->stage->vec)
		return false;
	for (int32_t i = 0; i < a->grid_dims; i++)
		if (a->grid[i] != b->grid[i])
			return false;
	for (int32_t i = 0; i < a->stage->dims; i++) {
		const struct ht_dim *x = &a->stage->dim[i], *y = &b->stage->dim[i];

		if (x->extent != y->extent || x->grid != y->grid || x->step != y->step ||
			x->unroll != y->unroll)
			return false;
	}
	return true;
}

/* Whether a step accesses a buffer; `writes`: whether it writes it. */
static bool touches(const struct updates *u, int32_t step, int32_t buffer, bool writes)
{
	const struct ht_kernel *k = kernel_of(u, step);

	for (int32_t i = 0; k && i < k->args; i++)
		if (memory_of(u, step, i) == buffer &&
			(!writes || k->buffer[i].kind == HT_BUFFER_OUT))
			return true;
	return false;
}

/* ---- whether a step may move ---- */

/* Whether step `moved` may run before or behind step `other` alike. */
static bool may_pass(const struct updates *u, int32_t moved, int32_t other)
{
	const struct ht_kernel *k = kernel_of(u, moved);

	if (u->p->step[other].control)
		return false;
	for (int32_t i = 0; i < k->args; i++)
		if (touches(u, other, memory_of(u, moved, i), k->buffer[i].kind != HT_BUFFER_OUT))
			return false;
	return true;
}

/* A step that may stop the run does so before the variables change that were to change behind it. */
static bool may_stop(const struct updates *u, int32_t step)
{
	const struct ht_kernel *k = kernel_of(u, step);

	return !k || !lower_never_stops(k);
}

static bool may_move_up(const struct updates *u, int32_t from, int32_t to)
{
	for (int32_t i = to + 1; i < from; i++)
		if (!u->gone[i - u->first] && (may_stop(u, i) || !may_pass(u, from, i)))
			return false;
	return true;
}

static bool may_move_down(const struct updates *u, int32_t from, int32_t to)
{
	const struct ht_kernel *k = kernel_of(u, from);

	for (int32_t i = 0; i < k->args; i++)
		if (k->buffer[i].kind != HT_BUFFER_OUT &&
			u->p->buffer[u->p->step[from].buffer[i]].kind == HT_PLAN_TEMP)
			return false;
	for (int32_t i = from + 1; i < to; i++)
		if (!u->gone[i - u->first] && !may_pass(u, from, i))
			return false;
	return true;
}

/* Whether steps a and b alone use the temporary buffer. */
static bool is_between(const struct updates *u, int32_t buffer, int32_t a, int32_t b)
{
	const struct ht_plan_buffer *of = &u->p->buffer[buffer];

	if (of->kind != HT_PLAN_TEMP || of->last_step - of->first_step > FARTHEST)
		return false;
	for (int32_t i = of->first_step; i <= of->last_step; i++)
		if (i != a && i != b && !u->gone[i - u->first] &&
			(u->p->step[i].control || touches(u, i, buffer, false)))
			return false;
	return true;
}

/* ---- one loop of two ---- */

/* What the first loop stores, in the expressions of the new one. */
struct stored {
	int32_t buffer, offset, value;
};
struct join {
	const struct updates *u;
	struct kernel_build k;
	struct stored stored[MOST_STORES];
	int32_t stores;
};

static const struct stored *find(const struct join *j, int32_t buffer)
{
	for (int32_t i = 0; i < j->stores; i++)
		if (j->stored[i].buffer == buffer)
			return &j->stored[i];
	return NULL;
}

/* The argument for argument `arg` of the step; -1: there is one already, of another type. */
static int32_t argument(struct join *j, int32_t step, int32_t arg, enum ht_buffer_kind kind)
{
	const enum ht_dtype t = kernel_of(j->u, step)->buffer[arg].dtype;
	const int32_t now = kb_arg_as(&j->k, memory_of(j->u, step, arg), kind, t);

	return j->k.kernel->buffer[now].dtype == t ? now : -1;
}

static int32_t moved(const int32_t *now, int32_t x)
{
	return x < 0 ? -1 : now[x];
}

/* Adds expression `x` of the step; false: it reads what the first loop stores for another element. */
static bool add_x(struct join *j, int32_t step, int32_t i, int32_t *now)
{
	struct ht_x x = kernel_of(j->u, step)->stage->x[i];
	const struct stored *s =
		x.op == HT_X_LOAD ? find(j, memory_of(j->u, step, (int32_t)x.imm)) : NULL;

	x.a = moved(now, x.a);
	x.b = moved(now, x.b);
	x.c = moved(now, x.c);
	if (s) {
		now[i] = s->value;
		return x.a == s->offset && x.b < 0 && x.dtype == j->k.stage->x[s->value].dtype;
	}
	if (x.op == HT_X_LOAD && (x.imm = argument(j, step, (int32_t)x.imm, HT_BUFFER_IN)) < 0)
		return false;
	now[i] = ht_xb_push(&j->k.xb, x);
	return true;
}

/* Adds the loop of step `a`, and what it stores, apart from what step `b` alone would read. */
static bool add_loop(struct join *j, int32_t a, int32_t b, struct stored *stored)
{
	const struct ht_stage *s = kernel_of(j->u, a)->stage;
	int32_t *now = HT_NEW_ARRAY(j->k.arena, int32_t, (size_t)s->xs);

	for (int32_t i = 0; i < s->xs; i++)
		if (!add_x(j, a, i, now))
			return false;
	for (int32_t i = 0; i < s->stores; i++) {
		const struct ht_store *to = &s->store[i];
		const int32_t buffer = memory_of(j->u, a, to->buffer);
		int32_t arg;

		if (find(j, buffer) || (b >= 0 && to->guard >= 0))
			return false;
		stored[i] = (struct stored){ buffer, now[to->offset], now[to->value] };
		if (b >= 0 && is_between(j->u, buffer, a, b))
			continue;
		if ((arg = argument(j, a, to->buffer, HT_BUFFER_OUT)) < 0)
			return false;
		ht_xstore_if(&j->k.xb, arg, now[to->offset], now[to->value], moved(now, to->guard));
	}
	return true;
}

/* An element is read only where it is written. */
static bool is_pointwise(const struct kernel_build *k)
{
	for (int32_t i = 0; i < k->kernel->args; i++)
		if (k->kernel->buffer[i].kind == HT_BUFFER_OUT &&
			!lower_is_pointwise(k->stage, i, i))
			return false;
	return k->kernel->args <= MOST_ARGS && k->stage->stores <= MOST_STORES;
}

/* Builds the loop of step `a` followed by that of step `b`. */
static bool build(struct join *j, int32_t a, int32_t b)
{
	const struct ht_kernel *k = kernel_of(j->u, a);
	struct stored stored[MOST_STORES], last[MOST_STORES];

	kb_init(&j->k, j->u->l, NULL);
	kb_grid(&j->k, k->grid_dims, k->grid);
	kb_stage(&j->k, HT_STAGE_LOOP);
	j->k.stage->dims = k->stage->dims;
	j->k.stage->vec = k->stage->vec;
	for (int32_t i = 0; i < k->stage->dims; i++)
		j->k.stage->dim[i] = k->stage->dim[i];
	if (!add_loop(j, a, b, stored))
		return false;
	j->stores = k->stage->stores;
	for (int32_t i = 0; i < j->stores; i++)
		j->stored[i] = stored[i];
	return add_loop(j, b, -1, last) && is_pointwise(&j->k);
}

/* The nodes that step `from` helped to compute are computed by step `to`. */
static void move_members(const struct updates *u, int32_t from, int32_t to)
{
	for (int32_t i = 0; i < u->p->members; i++)
		if (u->p->member[i].step == u->p->step[from].made)
			u->p->member[i].step = u->p->step[to].made;
}

/* Makes the two steps one, at the place of step `at`, which is one of them. */
static void replace(struct updates *u, struct join *j, int32_t a, int32_t b, int32_t at)
{
	const struct ht_plan_step second = u->p->step[b];
	const int32_t args = j->k.kernel->args;
	struct ht_plan_buffer before[MOST_ARGS];
	struct ht_plan_step *s;

	move_members(u, a, b);
	for (int32_t i = 0; i < args; i++)
		before[i] = u->p->buffer[j->k.plan_buffer_of[i]];
	kb_finish(&j->k, second.of);
	for (int32_t i = 0; i < args; i++) /* the new step is not the last one */
		u->p->buffer[j->k.plan_buffer_of[i]] = before[i];
	s = &u->p->step[--u->p->steps];
	s->made = second.made;
	s->node = second.node;
	u->p->step[at] = *s;
	u->gone[(at == a ? b : a) - u->first] = true;
	u->changed = true;
}

/* Joins step `b` with step `a` in front of it.  Returns the place of the new step; -1: they stay two. */
static int32_t join_with(struct updates *u, int32_t a, int32_t b)
{
	struct join j = { .u = u };
	const bool up = may_move_up(u, b, a);

	if (!up && !may_move_down(u, a, b))
		return -1;
	if (!build(&j, a, b)) {
		ht_arena_release(j.k.arena);
		u->l->planning->spare = j.k.arena;
		return -1;
	}
	replace(u, &j, a, b, up ? a : b);
	return up ? a : b;
}

/* ---- which steps ---- */

static bool changes_variable(const struct updates *u, int32_t step)
{
	const struct ht_kernel *k = kernel_of(u, step);

	for (int32_t i = 0; i < k->args; i++)
		if (k->buffer[i].kind == HT_BUFFER_OUT &&
			u->p->buffer[u->p->step[step].buffer[i]].kind == HT_PLAN_VARIABLE)
			return true;
	return false;
}

/* The last step before `below` that writes what the step reads; -1: there is none that may be joined. */
static int32_t producer(const struct updates *u, int32_t step, int32_t below)
{
	const struct ht_kernel *k = kernel_of(u, step);
	int32_t last = -1;

	for (int32_t i = 0; i < k->args; i++) {
		const int32_t w = *writer_of(u, memory_of(u, step, i)) - 1;

		if (w > last && w < below && step - w <= FARTHEST && !u->gone[w - u->first] &&
			loop_of(u, w) && same_loops(loop_of(u, w), k))
			last = w;
	}
	return last;
}

static void note_writes(struct updates *u, int32_t step)
{
	const struct ht_kernel *k = kernel_of(u, step);

	for (int32_t i = 0; k && i < k->args; i++)
		if (k->buffer[i].kind == HT_BUFFER_OUT)
			*writer_of(u, memory_of(u, step, i)) = step + 1;
}

static void visit(struct updates *u, int32_t step)
{
	int32_t at = step, from = step;

	if (!loop_of(u, step) || !changes_variable(u, step))
		return;
	while ((from = producer(u, at, from)) >= 0) {
		const int32_t now = join_with(u, from, at);

		if (now < 0)
			continue;
		at = now;
		note_writes(u, at);
		from = at;
	}
}

static void remove_gone(struct updates *u)
{
	int32_t kept = u->first;

	for (int32_t i = u->first; i < u->end; i++)
		if (!u->gone[i - u->first])
			u->p->step[kept++] = u->p->step[i];
	u->p->steps = kept;
	u->l->procedure.steps = kept - u->first;
	plan_all_uses(u->l);
}

void plan_join_updates(struct lower *l)
{
	struct updates u = {
		.l = l, .p = l->plan, .first = l->procedure.step, .end = l->plan->steps
	};

	if (l->planning->observed || l->whole || l->numerics || !l->plan->variables)
		return;
	u.memory = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)u.p->variables);
	u.writer = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)l->procedure.buffers);
	u.gone = HT_NEW_ARRAY(l->scratch, bool, (size_t)(u.end - u.first));
	for (int32_t i = l->procedure.buffer + l->procedure.buffers - 1; i >= l->procedure.buffer;
		i--)
		if (u.p->buffer[i].kind == HT_PLAN_VARIABLE)
			u.memory[u.p->buffer[i].offset] = i + 1;
	for (int32_t i = u.first; i < u.end; i++) {
		visit(&u, i);
		if (!u.gone[i - u.first])
			note_writes(&u, i);
	}
	if (u.changed)
		remove_gone(&u);
}
