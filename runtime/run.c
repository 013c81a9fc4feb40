/* Runs of a context: their turn, their objects and observer, and what stopped them. */
#include "runtime/context.h"
#include "runtime/objects.h"

#include <string.h>

static void begin(struct ht_rt_context *c, bool ftz)
{
	c->exec.flush = ftz;
	ht_context_observe(c);
	if (c->profile)
		memset(c->ns, 0, ht_image_count(c->exec.image, HT_IMAGE_STEPS) * sizeof *c->ns);
	if (c->trace)
		ht_trace_run_begin(c->trace);
}

/* What a run that stopped has not done itself. */
static void leave(struct ht_rt_context *c)
{
	struct ht_exec_frame *f = (struct ht_exec_frame *)(uintptr_t)c->exec.stop.frame;

	for (; c->guarded && f; f = f->caller)
		ht_guarded_leave(c->guarded, f);
}

static bool execute(struct ht_rt_context *c, const void *const *inputs, void *const *outputs,
	bool ftz, struct ht_rt_fault *fault)
{
	const struct ht_exec_stop *stop = &c->exec.stop;
	bool good;

	if (c->derives)
		ht_context_versions_begin(c);
	if (c->has_objects && !ht_objects_begin(c, fault))
		return false;
	begin(c, ftz);
	good = ht_exec_run(&c->exec, inputs, outputs);
	ht_context_versions_end(c);
	if (c->has_objects)
		ht_objects_end(c);
	if (c->trace)
		ht_trace_run_end(c->trace);
	if (HT_POISONS && c->lives)
		ht_lives_end(c->memory, c->memory_bytes);
	c->checked |= good;
	if (!good) {
		leave(c);
		*fault = (struct ht_rt_fault){ .code = stop->code,
			.step = stop->step,
			.frame = stop->frame,
			.args = stop->frame->arg + ht_image_steps(c->exec.image)[stop->step].arg };
	}
	if (c->over.which && (good || fault->code == HT_EXEC_LATE))
		*fault = ht_context_late(c, fault);
	return !fault->code;
}

bool ht_rt_run(struct ht_rt_context *c, const void *const *inputs, void *const *outputs, bool ftz,
	struct ht_rt_fault *fault)
{
	struct ht_cores before;
	bool good;

	*fault = (struct ht_rt_fault){ 0 };
	c->over = (struct ht_overrun){ 0 };
	c->asked = c->program->turns || c->limited ? ht_now_ns() : 0;
	if (c->program->turns && !ht_context_take_turn(c, fault))
		return false;
	if (c->placed)
		ht_cores_enter(&c->cores, &before);
	good = execute(c, inputs, outputs, ftz, fault);
	if (c->placed)
		ht_cores_leave(&c->cores, &before);
	if (c->program->turns)
		ht_turn_give(c->program->turns);
	return good;
}
