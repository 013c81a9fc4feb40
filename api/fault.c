/* The error of a run that stopped: why, and where the run was. */
#include "api/api.h"
#include "image/verify.h"

struct telling {
	const struct ht_image *image;
	const struct ht_rt_fault *fault;
	uint64_t iterations; /* the limit of each loop */
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

static void put_reason(const struct telling *t, struct ht_buf *b)
{
	switch (t->fault->code) {
	case HT_EXEC_DEPTH:
		ht_puts(b, "calls are nested too deeply");
		break;
	case HT_EXEC_ITERATIONS:
		ht_printf(b, "the loop does not end within the limit of %llu iterations",
			(unsigned long long)t->iterations);
		break;
	case HT_EXEC_CANCELLED:
		ht_puts(b, "the run was cancelled");
		break;
	case HT_EXEC_LATE:
		ht_puts(b, "the run took longer than its limit of time, and stopped here");
		break;
	default:
		ht_puts(b, ht_fault_text((enum ht_fault)t->fault->code));
	}
}

/* The step's message. */
static void put_words(struct telling *t, const struct ht_image_note *note, struct ht_buf *b)
{
	struct ht_words *w = HT_NEW_ARRAY(&t->w.arena, struct ht_words, note->words_count);

	for (uint32_t i = 0; i < note->words_count; i++)
		w[i] = ht_image_words_at(t->image, note->words + i);
	ht_puts(b, ": ");
	ht_words_put(b, w, note->words_count, t->fault->args);
}

static const char *node_of(const struct telling *t, uint32_t step)
{
	return ht_image_text(t->image, ht_image_notes(t->image)[step].node);
}

/* Where the innermost loop around a step begins; false: there is none. */
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

/* Whether a step calls for a node of its own, and not as a part of the loop around it. */
static bool is_own_call(const struct telling *t, const struct ht_exec_frame *f, uint32_t step)
{
	const struct ht_image_note *note = ht_image_notes(t->image);
	uint32_t begin;

	return *node_of(t, step) &&
	       (!find_loop(t, f, step, &begin) || note[step].node != note[begin].node);
}

static void put_frames(const struct telling *t, struct ht_buf *b)
{
	const struct ht_exec_frame *f = t->fault->frame;
	uint32_t step = t->fault->step;

	if (t->fault->code == HT_EXEC_ITERATIONS)
		find_loop(t, f, step, &step); /* the reason is about this one */
	put_loops(t, f, step, b);
	for (f = f->caller; f; f = f->caller) {
		step = f->procedure->step + f->next - 1;
		if (is_own_call(t, f, step))
			ht_printf(b, ", in '%s'", node_of(t, step));
		put_loops(t, f, step, b);
	}
}

static enum ht_status tell(void *arg)
{
	struct telling *t = arg;
	const struct ht_image_note *note = &ht_image_notes(t->image)[t->fault->step];
	struct ht_buf b;

	ht_buf_init(&b, &t->w.arena);
	put_reason(t, &b);
	if (ht_fault_has_words((enum ht_fault)t->fault->code) && note->words_count)
		put_words(t, note, &b);
	put_frames(t, &b);
	return ht_error(t->d, status_of(t->fault->code),
		(struct ht_where){ .node = ht_str(node_of(t, t->fault->step)), .offset = -1 },
		"%.*s", (int)b.n, b.p);
}

enum ht_status ht_fault_tell(const struct ht_image *x, const struct ht_rt_fault *fault,
	uint64_t iterations, struct ht_diags *d)
{
	struct telling t = { .image = x, .fault = fault, .iterations = iterations, .d = d };

	return ht_work_run(&t.w, tell, &t, d);
}
