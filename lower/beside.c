/* Loops side by side: where no data goes from one loop to another, as between the directions of a bidirectional layer, each becomes
 * a procedure, and threads run one each (HT_IMAGE_BESIDE).  The steps of a recurrent network are too short to divide each among
 * threads.
 *
 * From a loop on, later loops that neither depend on it nor on what depends on it join its group.  Steps between them that do not
 * depend on the group go in front of it, all others behind it.  How many threads there will be is not asked. */
#include "kernel/work.h"
#include "lower/inside.h"

#include <string.h>

enum { MOST = 16 /* loops of a group */ };
/* Kernels of an iteration that takes less time by the machine's rates are too short to be divided among threads. */
enum { UNDIVIDED_US = 20 };
/* Loops whose iterations differ by more than this factor leave a thread without work. */
enum { MOST_UNEQUAL = 2 };

struct beside {
	struct lower *l;
	struct ht_plan *p;
	int32_t first, steps; /* of the procedure */
	int32_t buffers;      /* of the plan, before loops became procedures */
	bool *read, *written; /* by buffer: by the group, or by a step that goes behind it */
};

/* ---- what a step reads and writes ---- */

typedef void visit_fn(struct beside *b, int32_t buffer, bool writes, void *arg);

static void visit_moves(
	struct beside *b, const struct ht_plan_move *m, int32_t n, visit_fn *visit, void *arg)
{
	for (int32_t i = 0; i < n; i++) {
		visit(b, m[i].from, false, arg);
		visit(b, m[i].to, true, arg);
	}
}

static void visit_call(struct beside *b, const struct ht_plan_call *c, visit_fn *visit, void *arg)
{
	const int32_t params = plan_parameters(b->p, c->procedure);

	for (int32_t i = 0; i < c->buffers; i++)
		visit(b, c->buffer[i], i >= params, arg);
}

static void visit_step(struct beside *b, const struct ht_plan_step *s, visit_fn *visit, void *arg)
{
	const struct ht_kernel *k = s->kernel >= 0 ? b->p->kernel[s->kernel] : NULL;
	const struct ht_plan_control *c = s->control;

	for (int32_t i = 0; k && i < k->args; i++)
		visit(b, s->buffer[i], k->buffer[i].kind == HT_BUFFER_OUT, arg);
	if (!c)
		return;
	if (c->kind != HT_PLAN_CALLS)
		visit(b, c->condition, c->kind == HT_PLAN_LOOPS, arg);
	for (int i = 0; i < ht_plan_calls(c); i++)
		visit_call(b, &c->call[i], visit, arg);
	visit_moves(b, c->begin, c->begins, visit, arg);
	visit_moves(b, c->again, c->agains, visit, arg);
}

static void find_conflict(struct beside *b, int32_t buffer, bool writes, void *conflict)
{
	if (b->written[buffer] || (writes && b->read[buffer]))
		*(bool *)conflict = true;
}

/* Whether a step has to stay behind what was marked. */
static bool depends(struct beside *b, const struct ht_plan_step *s)
{
	bool conflict = false;

	visit_step(b, s, find_conflict, &conflict);
	return conflict;
}

static void mark(struct beside *b, int32_t buffer, bool writes, void *arg)
{
	(void)arg;
	b->written[buffer] |= writes;
	b->read[buffer] |= !writes;
}

/* ---- what may run beside others ---- */

/* State that procedures share, which is no memory of a caller. */
static void find_state(struct beside *b, int32_t buffer, bool writes, void *found)
{
	const struct ht_plan_buffer *x = &b->p->buffer[buffer];

	(void)writes;
	if (x->kind == HT_PLAN_STREAM || x->kind == HT_PLAN_OBJECT ||
		(x->kind == HT_PLAN_VARIABLE &&
			variable_is_assigned(b->l, b->p->variable[x->offset].name)))
		*(bool *)found = true;
}

static bool is_free_procedure(struct beside *b, int32_t number);

/* Whether what a step does follows from the buffers that it is given, and it changes nothing else. */
static bool is_free(struct beside *b, const struct ht_plan_step *s)
{
	bool state = false;

	for (int i = 0; s->control && i < ht_plan_calls(s->control); i++)
		if (!is_free_procedure(b, s->control->call[i].procedure))
			return false;
	visit_step(b, s, find_state, &state);
	return !state && !s->computes;
}

/* Calls go to procedures that were made before; others are of a recursion. */
static bool is_free_procedure(struct beside *b, int32_t number)
{
	const struct ht_plan_procedure *p = &b->p->procedure[number];

	if (number < 0)
		return false;
	for (int32_t i = p->step; i < p->step + p->steps; i++)
		if (!is_free(b, &b->p->step[i]))
			return false;
	return true;
}

/* Parameters of procedures have as many bytes in each run. */
static void find_open(struct beside *b, int32_t buffer, bool writes, void *found)
{
	(void)writes;
	if (b->p->buffer[buffer].open)
		*(bool *)found = true;
}

static void count(struct beside *b, int32_t buffer, bool writes, void *n)
{
	(void)b;
	(void)buffer;
	(void)writes;
	++*(int32_t *)n;
}

static double procedure_ps(const struct beside *b, int32_t number)
{
	const struct ht_plan_procedure *p = &b->p->procedure[number];
	double ps = 0;

	for (int32_t i = p->step; i < p->step + p->steps; i++) {
		const struct ht_plan_step *s = &b->p->step[i];
		struct ht_kernel_work w;

		for (int k = 0; s->control && k < ht_plan_calls(s->control); k++)
			ps += procedure_ps(b, s->control->call[k].procedure);
		if (s->kernel < 0)
			continue;
		w = ht_kernel_work_of(b->p->kernel[s->kernel], b->l->target);
		ps += (double)ht_work_limit_ps(&w, b->l->target);
	}
	return ps;
}

/* What an iteration of a loop takes at least, in picoseconds; 0: the step may not run beside others. */
static double iteration_ps(struct beside *b, const struct ht_plan_step *s)
{
	bool open = false;

	if (!s->control || s->control->kind != HT_PLAN_LOOPS || !is_free(b, s))
		return 0;
	visit_step(b, s, find_open, &open);
	return open ? 0 : 1 + procedure_ps(b, s->control->call[1].procedure);
}

/* The most arguments that the call of a loop has. */
static int32_t arguments_of(struct beside *b, const struct ht_plan_step *loop)
{
	int32_t n = 1;

	visit_step(b, loop, count, &n);
	return n;
}

static bool are_alike(double a, double b)
{
	return a > 0 && b > 0 && a <= MOST_UNEQUAL * b && b <= MOST_UNEQUAL * a;
}

/* ---- groups ---- */

struct group {
	int32_t loop[MOST]; /* steps of the procedure */
	int32_t loops;
	int32_t end;       /* behind the last of them */
	int32_t arguments; /* of their calls, at most */
	double ps;         /* an iteration of the first */
	bool *stays;       /* by step of the procedure: goes behind the group */
};

static bool has_room(struct beside *b, const struct group *g, const struct ht_plan_step *loop)
{
	return g->arguments + arguments_of(b, loop) <= HT_IMAGE_MOST_BESIDE;
}

/* The group of a loop, which is its first. */
static void find_group(struct beside *b, int32_t first, struct group *g)
{
	const struct ht_plan_step *s = b->p->step + b->first;
	double ps = iteration_ps(b, &s[first]);

	if (!are_alike(ps, ps))
		return;
	*g = (struct group){ .loop = { first },
		.loops = 1,
		.end = first + 1,
		.arguments = arguments_of(b, &s[first]),
		.ps = ps,
		.stays = HT_NEW_ARRAY(b->l->scratch, bool, (size_t)b->steps) };
	memset(b->read, 0, (size_t)b->buffers * sizeof *b->read);
	memset(b->written, 0, (size_t)b->buffers * sizeof *b->written);
	visit_step(b, &s[first], mark, NULL);
	for (int32_t i = first + 1; i < b->steps && is_free(b, &s[i]) && g->loops < MOST; i++) {
		g->stays[i] = depends(b, &s[i]);
		if (!g->stays[i] && are_alike(ps, iteration_ps(b, &s[i])) &&
			has_room(b, g, &s[i])) {
			g->loop[g->loops++] = i;
			g->end = i + 1;
			g->arguments += arguments_of(b, &s[i]);
		} else if (!g->stays[i]) {
			continue;
		}
		visit_step(b, &s[i], mark, NULL);
	}
}

static bool is_member(const struct group *g, int32_t step)
{
	for (int32_t i = 0; i < g->loops; i++)
		if (g->loop[i] == step)
			return true;
	return false;
}

/* Steps in front of the group, the group, steps behind it; the place of its first loop. */
static int32_t order_steps(struct beside *b, const struct group *g)
{
	struct ht_plan_step *s = b->p->step + b->first;
	int32_t begin = g->loop[0], n = 0, at;
	struct ht_plan_step *to =
		HT_NEW_ARRAY(b->l->scratch, struct ht_plan_step, (size_t)(g->end - begin));

	for (int32_t i = begin; i < g->end; i++)
		if (!g->stays[i] && !is_member(g, i))
			to[n++] = s[i];
	at = begin + n;
	for (int32_t i = 0; i < g->loops; i++)
		to[n++] = s[g->loop[i]];
	for (int32_t i = begin; i < g->end; i++)
		if (g->stays[i])
			to[n++] = s[i];
	HT_CHECK(n == g->end - begin);
	memcpy(s + begin, to, (size_t)n * sizeof *to);
	return at;
}

/* ---- a loop becomes a procedure ---- */

/* The buffers that a loop reads and writes, in the order of the procedure's parameters. */
struct given {
	int32_t *at; /* by buffer of the plan: 1 + the procedure's; 0: none yet */
	int32_t *buffer;
	int32_t buffers;
	bool *writes; /* by buffer of the plan */
	bool results; /* of these two passes the second */
};

static void note_write(struct beside *b, int32_t buffer, bool writes, void *arg)
{
	struct given *g = arg;

	(void)b;
	g->writes[buffer] |= writes;
}

static void add_parameter(struct beside *b, int32_t buffer, bool writes, void *arg)
{
	struct given *g = arg;
	const struct ht_plan_buffer from = b->p->buffer[buffer];
	const size_t bytes = b->l->planning->bytes;
	int32_t i;

	(void)writes;
	if (g->at[buffer] || g->writes[buffer] != g->results)
		return;
	i = plan_buffer(b->l, g->results ? HT_PLAN_RESULT : HT_PLAN_PARAM, from.dtype, 0);
	b->l->planning->bytes = bytes; /* memory of the caller */
	b->p->buffer[i].bytes = from.bytes;
	g->at[buffer] = i + 1;
	g->buffer[g->buffers++] = buffer;
}

static struct ht_plan_move *given_moves(
	struct beside *b, const struct given *g, const struct ht_plan_move *m, int32_t n)
{
	struct ht_plan_move *to = HT_NEW_ARRAY(b->l->arena, struct ht_plan_move, (size_t)n);

	for (int32_t i = 0; i < n; i++)
		to[i] = (struct ht_plan_move){ g->at[m[i].to] - 1, g->at[m[i].from] - 1 };
	return to;
}

/* The same over the procedure's own buffers. */
static const struct ht_plan_control *given_control(
	struct beside *b, const struct given *g, const struct ht_plan_control *c)
{
	struct ht_plan_control *to = HT_NEW(b->l->arena, struct ht_plan_control);

	*to = *c;
	to->condition = g->at[c->condition] - 1;
	to->begin = given_moves(b, g, c->begin, c->begins);
	to->again = given_moves(b, g, c->again, c->agains);
	for (int i = 0; i < ht_plan_calls(c); i++) {
		to->call[i].buffer = HT_NEW_ARRAY(b->l->arena, int32_t, (size_t)c->call[i].buffers);
		for (int32_t k = 0; k < c->call[i].buffers; k++)
			to->call[i].buffer[k] = g->at[c->call[i].buffer[k]] - 1;
	}
	return to;
}

static struct given parameters_of(struct beside *b, const struct ht_plan_step *loop)
{
	struct ht_arena *a = b->l->scratch;
	struct given g = { .at = HT_NEW_ARRAY(a, int32_t, (size_t)b->p->buffers),
		.writes = HT_NEW_ARRAY(a, bool, (size_t)b->p->buffers) };

	g.buffer = HT_NEW_ARRAY(b->l->arena, int32_t, (size_t)arguments_of(b, loop));
	visit_step(b, loop, note_write, &g);
	visit_step(b, loop, add_parameter, &g);
	g.results = true;
	visit_step(b, loop, add_parameter, &g);
	return g;
}

/* The loop goes to a procedure; its step calls that. */
static void make_procedure(struct beside *b, int32_t step)
{
	const struct ht_plan_step loop = b->p->step[step];
	struct ht_plan_procedure p = {
		.name = loop.node, .buffer = b->p->buffers, .step = b->p->steps
	};
	struct given g = parameters_of(b, &loop);
	struct ht_plan_control *call = HT_NEW(b->l->arena, struct ht_plan_control);

	plan_control(b->l, given_control(b, &g, loop.control), loop.of);
	p.buffers = b->p->buffers - p.buffer;
	p.steps = 1;
	p.live_bytes = plan_alive_in_callees(b->p, &loop);
	*call = (struct ht_plan_control){ .kind = HT_PLAN_CALLS,
		.condition = -1,
		.call = { { plan_add_procedure(b->l, &p), g.buffer, g.buffers } } };
	b->p->step[step].control = call;
	b->p->step[step].node = (struct ht_str){ 0 }; /* the model has no such call */
}

/* Memory of the group is in use from its first loop to its last. */
static void keep_memory(struct beside *b, int32_t first, int32_t last)
{
	for (int32_t i = b->l->procedure.buffer;
		i < b->l->procedure.buffer + b->l->procedure.buffers; i++) {
		struct ht_plan_buffer *x = &b->p->buffer[i];

		if (x->first_step > first && x->first_step <= last)
			x->first_step = first;
		if (x->last_step >= first && x->last_step < last)
			x->last_step = last;
	}
}

static int32_t place_group(struct beside *b, const struct group *g)
{
	int32_t at = b->first + order_steps(b, g);

	b->p->step[at].beside = g->loops;
	b->p->step[at].undivided = g->ps < UNDIVIDED_US * 1e6;
	for (int32_t i = 0; i < g->loops; i++)
		make_procedure(b, at + i);
	return at - b->first + g->loops;
}

void plan_loops_beside(struct lower *l)
{
	struct beside b = { .l = l,
		.p = l->plan,
		.first = l->procedure.step,
		.steps = l->procedure.steps,
		.buffers = l->plan->buffers,
		.read = HT_NEW_ARRAY(l->scratch, bool, (size_t)l->plan->buffers),
		.written = HT_NEW_ARRAY(l->scratch, bool, (size_t)l->plan->buffers) };
	bool found = false;

	for (int32_t i = 0; i < b.steps && !l->planning->observed;) {
		struct group g = { .loops = 0 };

		if (b.p->step[b.first + i].control)
			find_group(&b, i, &g);
		i = g.loops > 1 ? place_group(&b, &g) : i + 1;
		found = found || g.loops > 1;
	}
	if (!found)
		return;
	plan_all_uses(l);
	for (int32_t i = b.first; i < b.first + b.steps; i++)
		if (b.p->step[i].beside)
			keep_memory(&b, i, i + b.p->step[i].beside - 1);
}
