/* The teller of nets (aot/teller.h).  Everything is in one code section that refers to nothing outside of it, as in runner.c. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-tree-switch-conversion") /* its tables would be outside */
#endif
#define IN_TELLER __attribute__((section("ht_aot_teller"), used, noinline, flatten))
#define HT_LINE_CALLED static __attribute__((section("ht_aot_teller"), unused, noinline, flatten))
#include <string.h>
#undef memcpy
#define memcpy(to, from, n) __builtin_memcpy(to, from, n) /* of few bytes, which need no call */
#include "aot/teller.h"

#define INLINE static inline __attribute__((always_inline))

/* The empty statements keep the compiler from making these loops calls. */
INLINE void copy(void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		((char *)to)[i] = ((const char *)from)[i];
		__asm__ volatile("" ::: "memory");
	}
}

INLINE const void *at(const struct ht_aot_plan *plan, int64_t offset)
{
	return (const char *)plan + offset;
}

IN_TELLER void ht_aot_record(const struct ht_exec *x)
{
	const struct ht_exec_stop *stop = &x->stop;
	const struct ht_image_step *step = ht_image_steps(x->image) + stop->step;
	struct ht_aot_record *r = (void *)(x->control + HT_AOT_RECORD);
	struct ht_stop_places places;
	char words[HT_AOT_WORDS];
	struct ht_line m;

	/* All that is read of frames comes before the record, which takes their place. */
	ht_stop_find(&places, x->image, stop->code, stop->step, stop->frame);
	m.to = words;
	m.room = sizeof words;
	m.n = 0;
	if (ht_fault_has_words(stop->code))
		ht_stop_put_words(&m, x->image, stop->step, stop->frame->arg + step->arg);
	ht_line_end(&m);
	r->code = stop->code;
	r->node = ht_image_notes(x->image)[stop->step].node;
	r->mark = HT_AOT_MARK;
	copy(&r->places, &places, sizeof places);
	if (x->image->table[HT_IMAGE_WORDS].count)
		copy(r->words, words, sizeof words);
}

/* The image of the target that runs; NULL: none has run yet. */
INLINE const struct ht_image *image_of(const struct ht_aot_plan *plan)
{
	const struct ht_aot_level *level = (const struct ht_aot_level *)(plan + 1);
	int32_t known = __atomic_load_n((const int32_t *)at(plan, plan->state), __ATOMIC_RELAXED);

	return known > 0 ? at(plan, level[known - 1].image) : NULL;
}

INLINE bool is_text(const struct ht_image *x, uint32_t text)
{
	return text < x->table[HT_IMAGE_TEXTS].count;
}

static IN_TELLER bool are_words(const char *words)
{
	size_t i = 0;

	while (i < HT_AOT_WORDS && words[i])
		i++;
	return i < HT_AOT_WORDS;
}

/* The record in an arena of the run that returned `status`; NULL: there is none. */
static IN_TELLER const struct ht_aot_record *record_of(
	int status, const void *arena, const struct ht_image *x)
{
	const struct ht_aot_record *r = (const void *)((const char *)arena + HT_AOT_RECORD);

	if (!x || !arena || (uintptr_t)arena % 64 || status <= 0 || status >= HT_AOT_E_CPU)
		return NULL;
	if (r->code != status || r->mark != HT_AOT_MARK || !is_text(x, r->node) ||
		r->places.n > HT_STOP_MOST)
		return NULL;
	for (uint32_t i = 0; i < r->places.n; i++)
		if (!is_text(x, r->places.place[i].node))
			return NULL;
	return !x->table[HT_IMAGE_WORDS].count || are_words(r->words) ? r : NULL;
}

/* The message of the step; empty if no step has one, as text 0 of an image is. */
INLINE const char *message_of(const struct ht_aot_record *r, const struct ht_image *x)
{
	return x->table[HT_IMAGE_WORDS].count ? r->words : ht_image_text(x, 0);
}

IN_TELLER const char *ht_aot_status_text(int status, const struct ht_aot_plan *plan)
{
	return ht_fault_text_in(at(plan, plan->texts), status);
}

IN_TELLER void ht_aot_stopped(
	int status, const void *arena, struct ht_aot_stop *stop, const struct ht_aot_plan *plan)
{
	const struct ht_image *x = image_of(plan);
	const struct ht_aot_record *r = record_of(status, arena, x);

	stop->status = status;
	stop->places = r ? (int)r->places.n : 0;
	stop->node = r ? ht_image_text(x, r->node) : NULL;
	stop->message = r ? message_of(r, x) : NULL;
	for (int i = 0; i < stop->places; i++) {
		stop->place[i].node = ht_image_text(x, r->places.place[i].node);
		stop->place[i].iteration = r->places.place[i].iteration;
	}
}

IN_TELLER size_t ht_aot_stop_text(
	int status, const void *arena, char *text, size_t bytes, const struct ht_aot_plan *plan)
{
	const char *texts = at(plan, plan->texts);
	const struct ht_image *x = image_of(plan);
	const struct ht_aot_record *r = record_of(status, arena, x);
	struct ht_line m;

	m.to = text;
	m.room = text ? bytes : 0;
	m.n = 0;
	if (r && *ht_image_text(x, r->node))
		ht_fault_put(&m, texts, HT_SENTENCE_NODE, 0, ht_image_text(x, r->node));
	ht_line_text(&m, ht_fault_text_in(texts, status));
	if (r && *message_of(r, x)) {
		ht_line_char(&m, ':');
		ht_line_char(&m, ' ');
		ht_line_text(&m, message_of(r, x));
	}
	if (r)
		ht_stop_put_places(&m, texts, x, &r->places);
	ht_line_end(&m);
	return m.n;
}
