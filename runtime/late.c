/* Limits of time: of a run, of its kernels, and of the wait for its turn. */
#include "runtime/context.h"

/* Whether a step is one of the procedure that a frame runs. */
static bool has_step(const struct ht_exec_frame *f, uint32_t step)
{
	return f && step >= f->procedure->step && step - f->procedure->step < f->procedure->steps;
}

/* A kernel's limit is exceeded by a step that ended before the one at which the run stopped, if it stopped at all. */
struct ht_rt_fault ht_context_late(const struct ht_rt_context *c, const struct ht_rt_fault *stop)
{
	struct ht_rt_fault f = *stop;

	f.code = HT_EXEC_LATE;
	f.limit = (enum ht_rt_limit)c->over.which;
	f.took_ns = c->over.ns;
	f.limit_ns = c->limit[f.limit];
	if (f.limit != HT_RT_KERNEL)
		return f;
	f.step = c->over.step;
	f.frame = has_step(f.frame, f.step) ? f.frame : NULL;
	f.args = f.frame ? f.frame->arg + ht_image_steps(c->exec.image)[f.step].arg : NULL;
	return f;
}

static int64_t sooner(int64_t until, int64_t asked, uint64_t limit)
{
	return limit && (int64_t)limit < until - asked ? asked + (int64_t)limit : until;
}

/* Waits for the run's turn; the limit that ends the wait first is the one that is told. */
bool ht_context_take_turn(struct ht_rt_context *c, struct ht_rt_fault *fault)
{
	static const enum ht_rt_limit ends[] = { HT_RT_TURN, HT_RT_WAIT, HT_RT_SYNC };
	int64_t until = INT64_MAX;
	enum ht_turn got;

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		int64_t at = sooner(until, c->asked, c->limit[ends[i]]);

		if (at < until)
			c->over.which = (int)ends[i];
		until = at;
	}
	got = ht_turn_take(c->program->turns, until, c->exec.cancel);
	if (got == HT_TURN_LATE) {
		c->over.ns = (uint64_t)(ht_now_ns() - c->asked);
		*fault = ht_context_late(c, &(struct ht_rt_fault){ .step = HT_RT_NO_STEP });
	} else if (got == HT_TURN_CANCELLED) {
		*fault = (struct ht_rt_fault){ .code = HT_EXEC_CANCELLED, .step = HT_RT_NO_STEP };
	}
	c->over.which = 0;
	return got == HT_TURN_TAKEN;
}
