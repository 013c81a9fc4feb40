/* The error of a run that stopped: the reason, and where the run was. */
#include "api/api.h"
#include "image/verify.h"

#include <string.h>

struct telling {
	const struct ht_program *program;
	const struct ht_image *image;
	bool seen; /* an observer looks at the tensors of the run */
	const struct ht_rt_fault *fault;
	const struct ht_exec_limits *limits;
	struct ht_work w;
	struct ht_diags *d;
};

static enum ht_status status_of(int32_t code)
{
	switch (code) {
	case HT_EXEC_DEPTH:
	case HT_EXEC_ITERATIONS:
	case HT_EXEC_CANCELLED:
	case HT_EXEC_LATE:
		return HT_E_LIMIT;
	case HT_FAULT_MEMORY:
		return HT_E_ENVIRONMENT;
	default:
		return HT_E_INPUT;
	}
}

/* By enum ht_rt_limit: what took too long, and the vendor's name of that limit. */
static const struct {
	const char *what, *option;
} late[HT_RT_LIMITS] = {
	[HT_RT_RUN] = { "the run took", "graph_exec_timeout" },
	[HT_RT_SYNC] = { "the run and the wait for its turn took", "stream_sync_timeout" },
	[HT_RT_TURN] = { "the wait for the run's turn took", "event_sync_timeout" },
	[HT_RT_KERNEL] = { "the kernel took", "op_execute_timeout" },
	[HT_RT_WAIT] = { "a wait took", "op_wait_timeout" },
};

static void put_late(const struct ht_rt_fault *f, struct ht_buf *b)
{
	ht_printf(b, "%s %.6g ms, longer than its limit of time, %.6g ms (%s)", late[f->limit].what,
		(double)f->took_ns / 1e6, (double)f->limit_ns / 1e6, late[f->limit].option);
}

static void put_reason(const struct telling *t, struct ht_buf *b)
{
	switch (t->fault->code) {
	case HT_EXEC_DEPTH:
		ht_printf(b, "calls are nested too deeply: there is memory for %u that recurse",
			(unsigned)t->limits->depth);
		break;
	case HT_EXEC_ITERATIONS:
		ht_printf(b, "the loop does not end within the limit of %llu iterations",
			(unsigned long long)t->limits->iterations);
		break;
	case HT_EXEC_CANCELLED:
		ht_puts(b, "the run was cancelled");
		break;
	case HT_EXEC_LATE:
		put_late(t->fault, b);
		break;
	case HT_EXEC_SIZE:
		ht_puts(b, "a size that was computed is out of its bounds");
		break;
	default:
		ht_puts(b, ht_fault_text((enum ht_fault)t->fault->code));
	}
}

/* Writes the step's message. */
static void put_words(struct telling *t, const struct ht_image_note *note, struct ht_buf *b)
{
	struct ht_words *w = HT_NEW_ARRAY(&t->w.arena, struct ht_words, note->words_count);

	if (!note->words_count)
		return;
	for (uint32_t i = 0; i < note->words_count; i++)
		w[i] = ht_image_words_at(t->image, note->words + i);
	ht_puts(b, ": ");
	ht_words_put(b, w, note->words_count, t->fault->args);
}

static const char *object_of(const struct telling *t)
{
	return ht_image_text(t->image, ht_image_objects(t->image)[t->fault->object - 1].name);
}

static const char *node_of(const struct telling *t, uint32_t step)
{
	return step == HT_RT_NO_STEP ? ""
				     : ht_image_text(t->image, ht_image_notes(t->image)[step].node);
}

/* Where the innermost loop around a step begins; false: the step is in no loop. */
static bool find_loop(
	const struct telling *t, const struct ht_exec_frame *f, uint32_t step, uint32_t *begin)
{
	uint32_t loop = ht_image_steps(t->image)[step].loop;

	*begin = f->procedure->step + loop - 1;
	return loop;
}

/* The loops of one procedure around its step, from the inside out. */
static void put_loops(
	const struct telling *t, const struct ht_exec_frame *f, uint32_t step, struct ht_buf *b)
{
	uint32_t begin;

	for (; find_loop(t, f, step, &begin); step = begin)
		ht_printf(b, ", in iteration %lld of '%s'",
			(long long)f->counter[ht_image_steps(t->image)[begin].count] + 1,
			node_of(t, begin));
}

/* Whether a step is a call by a node of its own, and not part of a loop around it. */
static bool is_own_call(const struct telling *t, const struct ht_exec_frame *f, uint32_t step)
{
	const struct ht_image_note *note = ht_image_notes(t->image);
	uint32_t begin;

	return *node_of(t, step) &&
	       (!find_loop(t, f, step, &begin) || note[step].node != note[begin].node);
}

/* The step of frame f that called `callee`.  The first thread may be some steps further where another one ran the call. */
static uint32_t call_of(
	const struct telling *t, const struct ht_exec_frame *f, const struct ht_exec_frame *callee)
{
	const struct ht_image_step *s = ht_image_steps(t->image) + f->procedure->step;

	for (uint32_t i = 0; i < f->procedure->steps; i++) {
		bool calls = s[i].op == HT_IMAGE_CALL || s[i].op == HT_IMAGE_FORK ||
			     s[i].op == HT_IMAGE_SPREAD;

		if (calls && s[i].args && f->arg + s[i].arg == callee->from)
			return f->procedure->step + i;
	}
	return f->procedure->step + f->next - 1;
}

/* The loops of the entry around the outermost call, behind which the caller of `callee` is. */
static void put_outermost(
	const struct telling *t, const struct ht_exec_frame *callee, struct ht_buf *b)
{
	while (callee->caller->caller)
		callee = callee->caller;
	put_loops(t, callee->caller, call_of(t, callee->caller, callee), b);
}

/* A recursion can have very many callers; only those next to the fault are written, and the loops around all of them. */
static void put_callers(const struct telling *t, const struct ht_exec_frame *f, struct ht_buf *b)
{
	enum { MOST = 8 };
	unsigned calls = 0;

	for (const struct ht_exec_frame *callee = f; (f = callee->caller); callee = f) {
		uint32_t step = call_of(t, f, callee);

		if (is_own_call(t, f, step)) {
			if (calls++ == MOST) {
				ht_puts(b, ", in more calls");
				put_outermost(t, callee, b);
				return;
			}
			ht_printf(b, ", in '%s'", node_of(t, step));
		}
		put_loops(t, f, step, b);
	}
}

static void put_frames(const struct telling *t, struct ht_buf *b)
{
	const struct ht_exec_frame *f = t->fault->frame;
	uint32_t step = t->fault->step;

	if (t->fault->code == HT_EXEC_ITERATIONS)
		find_loop(t, f, step, &step); /* the reason concerns the loop at this step */
	if (!f)
		return;
	put_loops(t, f, step, b);
	put_callers(t, f, b);
}

/* The record of the step, which runs a kernel; NULL: not known. */
static const struct ht_plan_work *work_of(const struct telling *t)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->fault->step; i++)
		n += ht_image_steps(t->image)[i].op == HT_IMAGE_KERNEL;
	return n < t->program->works ? &t->program->work[n] : NULL;
}

/* Adds a note on the kernel that failed, and on how to get its operands. */
static void note_kernel(const struct telling *t)
{
	const struct ht_plan_work *w =
		ht_image_steps(t->image)[t->fault->step].op == HT_IMAGE_KERNEL ? work_of(t) : NULL;
	const char *node = node_of(t, t->fault->step);

	if (w && *w->op)
		ht_note(t->d, HT_NOWHERE, "'%s' is %s %s, with the result %s%s", node,
			strchr("AEIOaeio", *w->op) ? "an" : "a", w->op,
			*w->result ? w->result : "none",
			t->seen ? ""
				: "; halftone run MODEL --enable_exception_dump=1 tells which node of the kernel it was, and keeps its operands");
}

static enum ht_status tell(void *arg)
{
	struct telling *t = arg;
	enum ht_status st;
	struct ht_buf b;

	ht_buf_init(&b, &t->w.arena);
	put_reason(t, &b);
	if (ht_fault_has_words((enum ht_fault)t->fault->code))
		put_words(t, &ht_image_notes(t->image)[t->fault->step], &b);
	put_frames(t, &b);
	st = ht_error(t->d, status_of(t->fault->code),
		(struct ht_where){ .node = ht_str(t->fault->object ? object_of(t)
								   : node_of(t, t->fault->step)),
			.offset = -1 },
		"%.*s", (int)b.n, b.p);
	if (st == HT_E_INPUT && !t->fault->object)
		note_kernel(t);
	return st;
}

enum ht_status ht_fault_tell(const struct ht_program *p, const struct ht_rt_fault *fault,
	const struct ht_exec_limits *limits, bool seen, struct ht_diags *d)
{
	struct telling t = { .program = p,
		.image = p->rt.image,
		.seen = seen,
		.fault = fault,
		.limits = limits,
		.d = d };

	return ht_work_run(&t.w, tell, &t, d);
}
