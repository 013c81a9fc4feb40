/* The error of a run that stopped: the reason, and where the run was. */
#include "api/api.h"
#include "image/stop.h"

#include <string.h>

/* Of the message of a step, with its final zero. */
enum { MOST_WORDS = 1 << 16 };

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

static void put_late(const struct ht_rt_fault *f, struct ht_line *m)
{
	char text[200];

	snprintf(text, sizeof text, "%s %.6g ms, longer than its limit of time, %.6g ms (%s)",
		late[f->limit].what, (double)f->took_ns / 1e6, (double)f->limit_ns / 1e6,
		late[f->limit].option);
	ht_line_text(m, text);
}

static uint64_t limit_of(const struct telling *t)
{
	if (t->fault->code == HT_EXEC_DEPTH)
		return t->limits->depth;
	return t->fault->code == HT_EXEC_ITERATIONS ? t->limits->iterations : 0;
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

/* The step's message. */
static const char *words_of(struct telling *t)
{
	struct ht_line m = { HT_NEW_ARRAY(&t->w.arena, char, MOST_WORDS), MOST_WORDS, 0 };

	if (!ht_fault_has_words(t->fault->code) ||
		!ht_image_notes(t->image)[t->fault->step].words_count)
		return "";
	ht_line_text(&m, ": ");
	ht_stop_put_words(&m, t->image, t->fault->step, t->fault->args);
	ht_line_end(&m);
	return m.to;
}

static void put_sentence(const struct telling *t, const char *words, struct ht_line *m)
{
	struct ht_stop_places places = { 0 };

	if (t->fault->code == HT_EXEC_LATE)
		put_late(t->fault, m);
	else
		ht_fault_put(m, ht_fault_texts, t->fault->code, limit_of(t), "");
	ht_line_text(m, words);
	if (t->fault->frame)
		ht_stop_find(&places, t->image, t->fault->code, t->fault->step, t->fault->frame);
	ht_stop_put_places(m, ht_fault_texts, t->image, &places);
	ht_line_end(m);
}

static enum ht_status tell(void *arg)
{
	struct telling *t = arg;
	const char *words = words_of(t);
	struct ht_line m = { NULL, 0, 0 };
	enum ht_status st;

	put_sentence(t, words, &m);
	m = (struct ht_line){ HT_NEW_ARRAY(&t->w.arena, char, m.n + 1), m.n + 1, 0 };
	put_sentence(t, words, &m);
	st = ht_error(t->d, status_of(t->fault->code),
		(struct ht_where){ .node = ht_str(t->fault->object ? object_of(t)
								   : node_of(t, t->fault->step)),
			.offset = -1 },
		"%s", m.to);
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
