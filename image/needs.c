/* How much memory a run needs. */
#include "image/execute.h"

#include <stdlib.h>

/* Bytes of control memory in front of the frames. */
enum { CONTROL = 512 };
/* Vector loads may go past the end of a buffer; their excess elements are not used. */
enum { SLACK = 64 };

/* Needs of a procedure together with the deepest chain of calls from it without recursion. */
struct path {
	uint64_t control, temps, forked;
	bool recurses; /* it or a procedure that it calls is recursive */
	bool again;    /* it is the target of a call that may recur */
};

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > HT_IMAGE_MOST_BYTES || b > HT_IMAGE_MOST_BYTES ? HT_IMAGE_MOST_BYTES + 1 : a + b;
}

static uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t r;

	return __builtin_mul_overflow(a, b, &r) ? HT_IMAGE_MOST_BYTES + 1 : r;
}

static uint64_t frame(const struct ht_image_procedure *p)
{
	return sizeof(struct ht_exec_frame) + 8 * ((uint64_t)p->args + p->loops);
}

static void find_path(const struct ht_image *x, uint32_t number, struct path *known)
{
	const struct ht_image_procedure *p = &ht_image_procedures(x)[number];
	const struct ht_image_step *s = ht_image_steps(x) + p->step;
	struct path *r = &known[number];
	uint32_t beside = 0; /* calls that follow a step BESIDE */

	for (uint32_t i = 0; i < p->steps; i++) {
		struct path *callee;
		bool forks = s[i].op == HT_IMAGE_FORK || s[i].op == HT_IMAGE_SPREAD || beside;

		beside = s[i].op == HT_IMAGE_BESIDE ? s[i].count : beside - (beside > 0);
		if (s[i].op != HT_IMAGE_CALL && !forks)
			continue;
		callee = &known[s[i].to];
		if (s[i].to >= number) {
			r->recurses = true;
			callee->again = true;
			continue;
		}
		r->recurses |= callee->recurses;
		r->control = more(r->control, callee->control);
		r->temps = more(r->temps, callee->temps);
		r->forked = more(
			r->forked, forks ? more(callee->temps, callee->forked) : callee->forked);
	}
	r->control = sum(r->control, frame(p));
	r->temps = sum(r->temps, p->frame_bytes);
}

/* Each recursive call may be followed by the deepest path to the next recursive call. */
static void add_recursion(const struct path *known, uint32_t procedures,
	const struct ht_exec_limits *l, struct path *r)
{
	uint64_t control = 0, temps = 0;

	for (uint32_t i = 0; i < procedures; i++)
		if (known[i].again) {
			control = more(control, known[i].control);
			temps = more(temps, known[i].temps);
		}
	r->control = sum(r->control, product(control, l->depth));
	r->temps = sum(r->temps, product(temps, l->depth));
	r->forked = r->temps;
}

static uint64_t up(uint64_t n)
{
	return (n + 63) / 64 * 64;
}

static uint64_t scratch_of(const struct ht_image *x)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_KERNELS); i++)
		most = more(most, ht_image_kernels(x)[i].scratch_bytes);
	return most;
}

/* Control memory while the entry's buffers are placed: where each place begins and ends, behind the frame. */
static uint64_t placing(const struct ht_image *x, uint32_t entry)
{
	return frame(&ht_image_procedures(x)[ht_image_entries(x)[entry].procedure]) +
	       2 * sizeof(uint64_t) * ht_image_count(x, HT_IMAGE_PLACES);
}

bool ht_exec_needs_of(const struct ht_image *x, uint32_t entry, const struct ht_exec_limits *l,
	struct ht_exec_needs *out)
{
	const uint32_t procedures = ht_image_count(x, HT_IMAGE_PROCEDURES);
	struct path *known = calloc((size_t)procedures + 1, sizeof *known), r;

	if (!known)
		return false;
	for (uint32_t i = 0; i < procedures; i++)
		find_path(x, i, known);
	r = known[ht_image_entries(x)[entry].procedure];
	if (r.recurses)
		add_recursion(known, procedures, l, &r);
	free(known);
	r.control = more(r.control, placing(x, entry));
	*out = (struct ht_exec_needs){ .control = up(r.control + CONTROL),
		.temps = up(r.temps),
		.forked = up(r.forked),
		.scratch = up(scratch_of(x) + SLACK) };
	return r.control <= HT_IMAGE_MOST_BYTES && r.temps <= HT_IMAGE_MOST_BYTES &&
	       r.forked <= HT_IMAGE_MOST_BYTES;
}
