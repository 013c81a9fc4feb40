/* What a context observes in a run: constants that may be damaged, time, threads, unused memory,
 * guarded buffers, tensors. */
#include "runtime/context.h"

/* Called for every constant operand.  A constant that was verified before costs one flag test a chunk. */
static int32_t check(
	void *arg, const struct ht_exec_frame *f, uint32_t step, int worker, int workers)
{
	const struct ht_rt_program *p = ((struct ht_rt_context *)arg)->program;
	const struct ht_image_step *s = &ht_image_steps(p->image)[step];
	const uint32_t *operand = ht_image_args(p->image) + f->procedure->arg + s->arg;
	const struct ht_image_buffer *b = ht_image_buffers(p->image) + f->procedure->buffer;

	for (uint32_t i = 0; i < s->args; i++)
		if (b[operand[i]].kind == HT_IMAGE_CONST &&
			!p->is_whole(p->is_whole_arg, b[operand[i]].number, worker, workers))
			return HT_EXEC_DAMAGED;
	return 0;
}

static void enter(void *arg, struct ht_exec_frame *f)
{
	struct ht_rt_context *c = arg;

	if (c->guarded)
		ht_guarded_enter(c->guarded, f, c->exec.size);
	if (HT_POISONS && c->lives)
		ht_lives_enter(c->lives, f);
	if (c->profile && !f->caller)
		c->last = ht_now_ns();
}

static void leave(void *arg, struct ht_exec_frame *f)
{
	struct ht_rt_context *c = arg;

	if (c->guarded)
		ht_guarded_leave(c->guarded, f);
	if (HT_POISONS && c->lives)
		ht_lives_end(f->temps, f->bytes);
}

static void see(struct ht_rt_context *c, const struct ht_exec_frame *f, uint32_t step)
{
	const struct ht_image_step *s = &ht_image_steps(c->exec.image)[step];

	if (s->op == HT_IMAGE_KERNEL && c->program->kernel[s->to] == c->tee_kernel)
		c->tee(c->tee_arg, (uint32_t)ht_image_params(c->exec.image)[s->param],
			f->arg[s->arg], f);
}

static void before(void *arg, struct ht_exec_frame *f, uint32_t step)
{
	struct ht_rt_context *c = arg;

	if (HT_POISONS && c->lives)
		ht_lives_step(c->lives, f, step, c->exec.size);
	if (c->tee)
		see(c, f, step);
}

static void after(void *arg, struct ht_exec_frame *f, uint32_t step)
{
	struct ht_rt_context *c = arg;
	int64_t stop = ht_now_ns();

	(void)f;
	c->ns[step] += stop - c->last;
	c->last = stop;
}

static void overran(struct ht_rt_context *c, enum ht_rt_limit which, int64_t ns, uint32_t step)
{
	int none = 0;

	if (!c->limit[which] || ns <= (int64_t)c->limit[which] ||
		!__atomic_compare_exchange_n(&c->over.which, &none, (int)which, false,
			__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	c->over.ns = (uint64_t)ns;
	c->over.step = step;
}

/* Called by the leading thread at the next step that checks time: it has waited for the others
 * since it ended its part of a kernel. */
static bool late(void *arg, int worker)
{
	struct ht_rt_context *c = arg;
	int64_t at = ht_now_ns();

	overran(c, HT_RT_RUN, at - c->began, 0);
	overran(c, HT_RT_SYNC, at - c->asked, 0);
	if (c->stamp && worker == 0 && c->stamp[0].end)
		overran(c, HT_RT_WAIT, at - c->stamp[0].end, 0);
	return __atomic_load_n(&c->over.which, __ATOMIC_RELAXED) != 0;
}

static void begin(void *arg, int worker)
{
	struct ht_rt_context *c = arg;

	if (c->stamp)
		c->stamp[worker].begin = ht_now_ns();
	if (c->trace && c->threads.threads > 1)
		ht_trace_begin(c->trace, worker);
	if (c->counters)
		ht_counters_begin(c->counters, worker);
}

static void end(void *arg, uint32_t step, int worker, int workers)
{
	struct ht_rt_context *c = arg;

	if (c->counters)
		ht_counters_end(c->counters, worker, step);
	if (c->trace)
		ht_trace_end(c->trace, step, worker, workers);
	if (c->stamp) {
		struct ht_stamp *s = &c->stamp[worker];

		s->end = ht_now_ns();
		overran(c, HT_RT_KERNEL, s->end - s->begin, step);
	}
}

/* Sets the callbacks that a run needs, and their initial state. */
void ht_context_observe(struct ht_rt_context *c)
{
	bool checks = c->program->is_whole && !c->checked,
	     memory = c->guarded || (HT_POISONS && c->lives);

	c->exec.observer = NULL;
	if (!checks && !memory && !c->profile && !c->trace && !c->counters && !c->tee &&
		!c->limited)
		return;
	c->exec.observer = &c->observer;
	c->began = c->limited ? ht_now_ns() : 0;
	for (int i = 0; c->stamp && i < c->threads.threads; i++)
		c->stamp[i].end = 0;
	c->observer = (struct ht_exec_observer){ .arg = c,
		.together = c->profile || c->guarded || c->tee,
		.check = checks ? check : NULL,
		.late = c->limited ? late : NULL,
		.enter = memory || c->profile ? enter : NULL,
		.leave = memory ? leave : NULL,
		.before = (HT_POISONS && c->lives) || c->tee ? before : NULL,
		.after = c->profile ? after : NULL,
		.begin = c->stamp || c->counters || (c->trace && c->threads.threads > 1) ? begin
											 : NULL,
		.end = c->stamp || c->counters || c->trace ? end : NULL };
}
