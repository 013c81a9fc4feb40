/* stop: where and why a run stopped, as a sentence: "node 'a': an index is out of range, in iteration 3 of 'b', in 'c'".
 *
 * Freestanding, as base/line.h is: the library and nets say the same.  The texts are those of base/fault.def. */
#ifndef HT_STOP_H
#define HT_STOP_H

#include "base/fault.h"
#include "base/words_print.h"
#include "image/execute.h"

/* A loop or call around the step that stopped. */
struct ht_stop_place {
	uint32_t node; /* text of the image: the node of the loop, or of the call */
	uint32_t zero;
	int64_t iteration; /* of a loop, from 1 on; 0: a call; HT_STOP_MORE: calls and loops that are left out */
};

/* From the inside out.  A recursion can have very many calls: those next to the fault are told, and the loops around all of them. */
enum { HT_STOP_CALLS = 8, HT_STOP_MOST = 24, HT_STOP_MORE = -1 };
struct ht_stop_places {
	uint32_t n, zero;
	struct ht_stop_place place[HT_STOP_MOST];
};

HT_LINE_CALLED void ht_stop_add(struct ht_stop_places *p, uint32_t node, int64_t iteration)
{
	if (p->n == HT_STOP_MOST) {
		p->n--;
		node = 0;
		iteration = HT_STOP_MORE;
	}
	p->place[p->n].node = node;
	p->place[p->n].zero = 0;
	p->place[p->n].iteration = iteration;
	p->n++;
}

/* Where the innermost loop around a step begins; false: the step is in no loop. */
HT_LINE_CALLED bool ht_stop_loop(
	const struct ht_image *x, const struct ht_exec_frame *f, uint32_t step, uint32_t *begin)
{
	uint32_t loop = ht_image_steps(x)[step].loop;

	*begin = f->procedure->step + loop - 1;
	return loop;
}

/* Adds the loops of one procedure around its step. */
HT_LINE_CALLED void ht_stop_add_loops(struct ht_stop_places *p, const struct ht_image *x,
	const struct ht_exec_frame *f, uint32_t step)
{
	uint32_t begin;

	for (; ht_stop_loop(x, f, step, &begin); step = begin)
		ht_stop_add(p, ht_image_notes(x)[begin].node,
			f->counter[ht_image_steps(x)[begin].count] + 1);
}

/* Whether a step is a call by a node of its own, and not part of a loop around it. */
HT_LINE_CALLED bool ht_stop_is_own_call(
	const struct ht_image *x, const struct ht_exec_frame *f, uint32_t step)
{
	const struct ht_image_note *note = ht_image_notes(x);
	uint32_t begin;

	return *ht_image_text(x, note[step].node) &&
	       (!ht_stop_loop(x, f, step, &begin) || note[step].node != note[begin].node);
}

/* The step of frame f that called `callee`.  The first thread may be some steps further where another one ran the call. */
HT_LINE_CALLED uint32_t ht_stop_call_of(
	const struct ht_image *x, const struct ht_exec_frame *f, const struct ht_exec_frame *callee)
{
	const struct ht_image_step *s = ht_image_steps(x) + f->procedure->step;

	for (uint32_t i = 0; i < f->procedure->steps; i++) {
		bool calls = s[i].op == HT_IMAGE_CALL || s[i].op == HT_IMAGE_FORK ||
			     s[i].op == HT_IMAGE_SPREAD;

		if (calls && s[i].args && f->arg + s[i].arg == callee->from)
			return f->procedure->step + i;
	}
	return f->procedure->step + f->next - 1;
}

/* Adds the loops of the entry around the outermost call, behind which the caller of `callee` is. */
HT_LINE_CALLED void ht_stop_add_outermost(
	struct ht_stop_places *p, const struct ht_image *x, const struct ht_exec_frame *callee)
{
	while (callee->caller->caller)
		callee = callee->caller;
	ht_stop_add_loops(p, x, callee->caller, ht_stop_call_of(x, callee->caller, callee));
}

HT_LINE_CALLED void ht_stop_add_callers(
	struct ht_stop_places *p, const struct ht_image *x, const struct ht_exec_frame *f)
{
	unsigned calls = 0;

	for (const struct ht_exec_frame *callee = f; (f = callee->caller); callee = f) {
		uint32_t step = ht_stop_call_of(x, f, callee);

		if (ht_stop_is_own_call(x, f, step)) {
			if (calls++ == HT_STOP_CALLS) {
				ht_stop_add(p, 0, HT_STOP_MORE);
				ht_stop_add_outermost(p, x, callee);
				return;
			}
			ht_stop_add(p, ht_image_notes(x)[step].node, 0);
		}
		ht_stop_add_loops(p, x, f, step);
	}
}

/* The loops and calls around the step of frame f at which a run of the image stopped with `code`.  f and its callers are as the run
 * left them. */
HT_LINE_CALLED void ht_stop_find(struct ht_stop_places *p, const struct ht_image *x, int32_t code,
	uint32_t step, const struct ht_exec_frame *f)
{
	p->n = 0;
	p->zero = 0;
	if (code == HT_EXEC_ITERATIONS)
		ht_stop_loop(x, f, step, &step); /* the reason concerns the loop at this step */
	ht_stop_add_loops(p, x, f, step);
	ht_stop_add_callers(p, x, f);
}

/* Item i of the table of words. */
HT_LINE_CALLED struct ht_words ht_image_words_at(const struct ht_image *x, uint32_t i)
{
	const struct ht_image_words *w = &ht_image_words_of(x)[i];

	return (struct ht_words){ .text = ht_image_text(x, w->text),
		.arg = w->arg,
		.dtype = w->dtype,
		.most = w->most,
		.rank = w->rank,
		.dim = (int64_t *)(uintptr_t)(ht_image_dims(x) + w->dim) };
}

/* Appends the message of a step; `args` are the addresses of its arguments. */
HT_LINE_CALLED void ht_stop_put_words(
	struct ht_line *m, const struct ht_image *x, uint32_t step, void *const *args)
{
	const struct ht_image_note *note = ht_image_notes(x) + step;

	for (uint32_t i = 0; i < note->words_count; i++) {
		const struct ht_words w = ht_image_words_at(x, note->words + i);

		ht_words_print(m, &w, args);
	}
}

/* Appends where the run was. */
HT_LINE_CALLED void ht_stop_put_places(struct ht_line *m, const char *texts,
	const struct ht_image *x, const struct ht_stop_places *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		const struct ht_stop_place *at = &p->place[i];

		ht_fault_put(m, texts,
			at->iteration > 0   ? HT_SENTENCE_ITERATION
			: at->iteration < 0 ? HT_SENTENCE_MORE
					    : HT_SENTENCE_CALL,
			(uint64_t)at->iteration, ht_image_text(x, at->node));
	}
}

#endif
