/* What a context looks at in a run: constants that may be damaged, time, threads, memory that is not in use,
 * buffers between guards, tensors. */
#include "runtime/context.h"

#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

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
		ht_guarded_enter(c->guarded, f);
	if (c->lives)
		ht_lives_enter(c->lives, f);
	if (c->profile && !f->caller)
		c->last = now();
}

static void leave(void *arg, struct ht_exec_frame *f)
{
	struct ht_rt_context *c = arg;

	if (c->guarded)
		ht_guarded_leave(c->guarded, f);
	if (c->lives)
		ht_lives_end(f->temps, f->procedure->frame_bytes);
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

	if (c->lives)
		ht_lives_step(c->lives, f, step);
	if (c->tee)
		see(c, f, step);
}

static void after(void *arg, struct ht_exec_frame *f, uint32_t step)
{
	struct ht_rt_context *c = arg;
	int64_t stop = now();

	(void)f;
	c->ns[step] += stop - c->last;
	c->last = stop;
}

static bool late(void *arg)
{
	return now() > ((struct ht_rt_context *)arg)->deadline;
}

static void begin(void *arg, int worker)
{
	ht_trace_begin(((struct ht_rt_context *)arg)->trace, worker);
}

static void end(void *arg, uint32_t step, int worker, int workers)
{
	ht_trace_end(((struct ht_rt_context *)arg)->trace, step, worker, workers);
}

void ht_context_observe(struct ht_rt_context *c)
{
	bool checks = c->program->is_whole && !c->checked, memory = c->guarded || c->lives;

	if (c->most_ns)
		c->deadline = now() + (int64_t)c->most_ns;
	c->observer = (struct ht_exec_observer){ .arg = c,
		.together = c->profile || c->guarded || c->tee,
		.check = checks ? check : NULL,
		.late = c->most_ns ? late : NULL,
		.enter = memory || c->profile ? enter : NULL,
		.leave = memory ? leave : NULL,
		.before = c->lives || c->tee ? before : NULL,
		.after = c->profile ? after : NULL,
		.begin = c->trace && c->threads.threads > 1 ? begin : NULL,
		.end = c->trace ? end : NULL };
	c->exec.observer = checks || memory || c->profile || c->trace || c->tee || c->most_ns
				   ? &c->observer
				   : NULL;
}
