/* The memory of a training step, by what it is for (docs/train-memory.md).
 *
 * The image tells all of it: which variables only updates read, which buffers of the entry's procedure are computed from one variable alone,
 * which ones an update takes as the gradient, and when each is alive. */
#include "api/api.h"

#include <halftone/train.h>

/* What the elements of a buffer are computed from, if that is not a variable, whose number is from 0 on. */
enum { FROM_CONSTANTS = -1, FROM_MANY = -2 /* inputs, random numbers, several variables */ };

enum part { ACTIVATION, GRADIENT, COPY, PARTS };

/* A variable that a step reads or writes, itself or in a procedure that it calls. */
struct touched {
	uint32_t variable;
	bool written;
};

struct finding {
	const struct ht_image *x;
	const struct ht_image_procedure *of;  /* the entry's */
	const struct ht_image_buffer *buffer; /* its buffers */
	struct ht_arena *a;
	uint32_t *first,
		*end;    /* by buffer: it is alive from one step up to, not including, the other */
	int64_t *source; /* by buffer */
	uint8_t *part;   /* by buffer: enum part */
	uint32_t *begins, *ends; /* by step: the outermost loop around it, else the step itself */
	bool *updates;           /* by step: it writes a variable */
	bool *forward;           /* by variable: a step that writes none reads it */
	struct touched *touched; /* of the current step */
	size_t touches, cap;
	uint32_t *walked, walk; /* by procedure: the last walk that met it */
};

/* ---- what a step reads and writes ---- */

static uint32_t argument(const struct finding *f, const struct ht_image_procedure *p,
	const struct ht_image_step *s, uint32_t k)
{
	return ht_image_args(f->x)[p->arg + s->arg + k];
}

static bool calls(const struct ht_image_step *s)
{
	return s->op == HT_IMAGE_CALL || s->op == HT_IMAGE_FORK || s->op == HT_IMAGE_SPREAD;
}

static bool writes(const struct ht_image *x, const struct ht_image_step *s, uint32_t k)
{
	if (s->op == HT_IMAGE_KERNEL)
		return ht_image_touches(x)[ht_image_kernels(x)[s->to].touch + k].written ==
		       HT_IMAGE_WRITES;
	if (calls(s))
		return ht_image_buffers(x)[ht_image_procedures(x)[s->to].buffer + k].written;
	return s->op == HT_IMAGE_COPY && k == 0;
}

static void touch(struct finding *f, uint32_t variable, bool written)
{
	f->touched = ht_grow(f->a, f->touched, f->touches, &f->cap, sizeof *f->touched);
	f->touched[f->touches++] = (struct touched){ variable, written };
}

static void touch_within(struct finding *f, uint32_t procedure);

static void touch_of(
	struct finding *f, const struct ht_image_procedure *p, const struct ht_image_step *s)
{
	for (uint32_t k = 0; k < s->args; k++) {
		const struct ht_image_buffer *b =
			&ht_image_buffers(f->x)[p->buffer + argument(f, p, s, k)];

		if (b->kind == HT_IMAGE_VARIABLE)
			touch(f, b->number, writes(f->x, s, k));
	}
	if (calls(s))
		touch_within(f, s->to);
}

static void touch_within(struct finding *f, uint32_t procedure)
{
	const struct ht_image_procedure *p = &ht_image_procedures(f->x)[procedure];

	if (f->walked[procedure] == f->walk)
		return;
	f->walked[procedure] = f->walk;
	for (uint32_t i = 0; i < p->steps; i++)
		touch_of(f, p, &ht_image_steps(f->x)[p->step + i]);
}

static const struct ht_image_step *step_of(const struct finding *f, uint32_t i)
{
	return &ht_image_steps(f->x)[f->of->step + i];
}

/* Fills f->touched with the variables of step `i`. */
static void find_touched(struct finding *f, uint32_t i)
{
	f->touches = 0;
	f->walk++;
	touch_of(f, f->of, step_of(f, i));
}

/* ---- which variables are slots ---- */

static void find_updates(struct finding *f)
{
	for (uint32_t i = 0; i < f->of->steps; i++) {
		find_touched(f, i);
		for (size_t k = 0; k < f->touches; k++)
			f->updates[i] |= f->touched[k].written;
		for (size_t k = 0; k < f->touches && !f->updates[i]; k++)
			f->forward[f->touched[k].variable] = true;
	}
}

/* ---- which buffers are alive ---- */

/* A buffer that a loop accesses is alive as long as the loop runs. */
static void find_loops(struct finding *f)
{
	uint32_t depth = 0, begin = 0;

	for (uint32_t i = 0; i < f->of->steps; i++) {
		const uint32_t op = step_of(f, i)->op;

		f->begins[i] = f->ends[i] = i;
		if (op == HT_IMAGE_LOOP && depth++ == 0)
			begin = i;
		if (op == HT_IMAGE_AGAIN && --depth == 0)
			for (uint32_t k = begin; k <= i; k++) {
				f->begins[k] = begin;
				f->ends[k] = i;
			}
	}
}

static void find_lives(struct finding *f)
{
	for (uint32_t i = 0; i < f->of->steps; i++)
		for (uint32_t k = 0; k < step_of(f, i)->args; k++) {
			const uint32_t b = argument(f, f->of, step_of(f, i), k);

			if (!f->end[b])
				f->first[b] = f->begins[i];
			f->end[b] = f->ends[i] + 1;
		}
}

/* ---- what buffers are computed from ---- */

static int64_t begin_source(const struct ht_image_buffer *b)
{
	switch (b->kind) {
	case HT_IMAGE_PARAM:
		return b->written ? FROM_CONSTANTS : FROM_MANY;
	case HT_IMAGE_STREAM:
	case HT_IMAGE_OBJECT:
		return FROM_MANY;
	case HT_IMAGE_VARIABLE:
		return b->number;
	default:
		return FROM_CONSTANTS;
	}
}

static int64_t both(int64_t a, int64_t b)
{
	if (a == b || b == FROM_CONSTANTS)
		return a;
	return a == FROM_CONSTANTS ? b : FROM_MANY;
}

/* What a step computes; of a procedure that is not asked. */
static int64_t source_of(const struct finding *f, const struct ht_image_step *s)
{
	int64_t source = calls(s) ? FROM_MANY : FROM_CONSTANTS;

	for (uint32_t k = 0; k < s->args; k++) {
		const uint32_t b = argument(f, f->of, s, k);

		if (!writes(f->x, s, k) || f->buffer[b].kind == HT_IMAGE_STREAM)
			source = both(source, f->source[b]);
	}
	return source;
}

static bool spread_source(struct finding *f, const struct ht_image_step *s)
{
	const int64_t source = source_of(f, s);
	bool changed = false;

	for (uint32_t k = 0; k < s->args; k++) {
		const uint32_t b = argument(f, f->of, s, k);
		const int64_t now = both(f->source[b], source);

		if (!writes(f->x, s, k) || f->buffer[b].kind != HT_IMAGE_TEMP)
			continue;
		changed |= now != f->source[b];
		f->source[b] = now;
	}
	return changed;
}

/* A loop's later iterations read what earlier ones wrote. */
static void find_sources(struct finding *f)
{
	bool changed = true;

	for (uint32_t i = 0; i < f->of->buffers; i++)
		f->source[i] = begin_source(&f->buffer[i]);
	while (changed) {
		changed = false;
		for (uint32_t i = 0; i < f->of->steps; i++)
			changed |= spread_source(f, step_of(f, i));
	}
}

/* ---- what buffers are for ---- */

/* Whether a buffer of so many bytes may be the gradient of one of `of` bytes: in its type, or in one of half or twice its size. */
static bool is_as_large(uint64_t bytes, uint64_t of)
{
	return bytes == of || 2 * bytes == of || bytes == 2 * of;
}

/* Whether step `s`, which wrote the variables f->touched, may have computed a variable, or a gradient, from a gradient of so many bytes. */
static bool may_take(const struct finding *f, const struct ht_image_step *s, uint64_t bytes)
{
	for (size_t i = 0; i < f->touches; i++)
		if (f->touched[i].written &&
			is_as_large(bytes, ht_image_variables(f->x)[f->touched[i].variable].bytes))
			return true;
	for (uint32_t k = 0; k < s->args; k++) {
		const uint32_t b = argument(f, f->of, s, k);

		if (writes(f->x, s, k) && f->part[b] == GRADIENT &&
			is_as_large(bytes, f->buffer[b].bytes))
			return true;
	}
	return false;
}

static void find_gradients(struct finding *f, uint32_t i)
{
	const struct ht_image_step *s = step_of(f, i);

	find_touched(f, i);
	for (uint32_t k = 0; k < s->args; k++) {
		const uint32_t b = argument(f, f->of, s, k);

		if (f->buffer[b].kind == HT_IMAGE_TEMP && f->part[b] == ACTIVATION &&
			!writes(f->x, s, k) && may_take(f, s, f->buffer[b].bytes))
			f->part[b] = GRADIENT;
	}
}

/* Updates stand behind the steps that change gradients, such as clipping. */
static void find_parts(struct finding *f)
{
	for (uint32_t b = 0; b < f->of->buffers; b++)
		f->part[b] = f->source[b] == FROM_MANY ? ACTIVATION : COPY;
	for (uint32_t i = f->of->steps; i-- > 0;)
		find_gradients(f, i);
}

/* ---- sums ---- */

static size_t aligned(uint64_t bytes)
{
	return (size_t)(bytes + HT_IMAGE_ALIGN - 1) & ~(size_t)(HT_IMAGE_ALIGN - 1);
}

/* The most bytes of a part that are alive at one step.  Procedures that a step calls count as activations, with the frames of the deepest
 * calls. */
static size_t most_alive(const struct finding *f, enum part part)
{
	size_t *change = HT_NEW_ARRAY(f->a, size_t, (size_t)f->of->steps + 1), now = 0, most = 0;
	const size_t called =
		part == ACTIVATION ? ht_program_arena(f->x) - (size_t)f->of->frame_bytes : 0;

	for (uint32_t b = 0; b < f->of->buffers; b++) {
		if (f->buffer[b].kind != HT_IMAGE_TEMP || f->part[b] != part || !f->end[b])
			continue;
		change[f->first[b]] += aligned(f->buffer[b].bytes);
		change[f->end[b]] -= aligned(f->buffer[b].bytes);
	}
	for (uint32_t i = 0; i < f->of->steps; i++) {
		size_t all;

		now += change[i]; /* unsigned: a decrease is a large number, modulo the word */
		all = now + (calls(step_of(f, i)) ? called : 0);
		most = all > most ? all : most;
	}
	return most;
}

static size_t lasting_copies(const struct ht_image *x)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_CONSTANTS); i++)
		bytes += ht_image_constants(x)[i];
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS); i++)
		bytes += ht_image_deriveds(x)[i].bytes;
	return (size_t)bytes;
}

static void sum(const struct finding *f, struct ht_step_memory *m)
{
	const size_t lasting = lasting_copies(f->x);

	for (uint32_t i = 0; i < ht_image_count(f->x, HT_IMAGE_VARIABLES); i++)
		*(f->forward[i] ? &m->variables : &m->slots) +=
			(size_t)ht_image_variables(f->x)[i].bytes;
	m->gradients = most_alive(f, GRADIENT);
	m->copies = lasting + most_alive(f, COPY);
	m->activations = most_alive(f, ACTIVATION);
	m->arena = ht_program_arena(f->x);
	m->peak = m->variables + m->slots + lasting + m->arena;
	m->bound = m->variables + m->slots + m->gradients + m->copies + m->activations +
		   m->activations / 100 * 15;
}

static void find(const struct ht_image *x, struct ht_arena *a, struct ht_step_memory *m)
{
	const struct ht_image_procedure *of =
		&ht_image_procedures(x)[ht_image_entries(x)->procedure];
	struct finding f = {
		.x = x,
		.of = of,
		.buffer = ht_image_buffers(x) + of->buffer,
		.a = a,
		.first = HT_NEW_ARRAY(a, uint32_t, of->buffers),
		.end = HT_NEW_ARRAY(a, uint32_t, of->buffers),
		.source = HT_NEW_ARRAY(a, int64_t, of->buffers),
		.part = HT_NEW_ARRAY(a, uint8_t, of->buffers),
		.begins = HT_NEW_ARRAY(a, uint32_t, of->steps),
		.ends = HT_NEW_ARRAY(a, uint32_t, of->steps),
		.updates = HT_NEW_ARRAY(a, bool, of->steps),
		.forward = HT_NEW_ARRAY(a, bool, ht_image_count(x, HT_IMAGE_VARIABLES)),
		.walked = HT_NEW_ARRAY(a, uint32_t, ht_image_count(x, HT_IMAGE_PROCEDURES)),
	};

	find_updates(&f);
	find_loops(&f);
	find_lives(&f);
	find_sources(&f);
	find_parts(&f);
	sum(&f, m);
}

struct asking {
	const struct ht_program *p;
	struct ht_work w;
	struct ht_step_memory memory;
};

static enum ht_status ask(void *arg)
{
	struct asking *q = arg;

	find(q->p->rt.image, &q->w.arena, &q->memory);
	return HT_OK;
}

enum ht_status ht_program_step_memory(
	const struct ht_program *p, struct ht_diags *d, struct ht_step_memory *out)
{
	struct asking q = { .p = p, .memory = HT_STEP_MEMORY_INIT };

	HT_TRY(ht_work_run(&q.w, ask, &q, d));
	return ht_caller_result(out, "ht_step_memory", &q.memory, sizeof q.memory, d);
}
