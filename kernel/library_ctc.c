/* Library kernel ctc_beams: the most probable sequences of connectionist temporal classification (Graves et al. 2006), by a search that keeps the
 * `width` best beginnings from step to step, as TensorFlow's CTCBeamSearchDecoder does.  A beginning is a path in a tree of classes; its
 * probability is the sum of those with which it ends in a blank and in its last class.  Buffers: scores [steps,n,classes] (F32; the last
 * class is the blank), the length of each sequence [n] (I32), the number of existing sequences (I64); then the classes of the best
 * `best` paths [best,n,steps] (I64), filled up with -1, the logarithm of each one's probability [n,best] (F32), and memory for
 * beginnings [n,2 * width] (I32).  Params: steps; n; classes; width; best; whether repetitions are merged.  One tile for each
 * sequence.  Where fewer paths are found than asked for, the kernel stops. */
#include "kernel/library.h"

#include <math.h>
#include <string.h>

/* ---- logarithms of probabilities ---- */

/* The natural logarithm of a number of at least 1. */
static double logarithm(double x)
{
	const double one = HT_LIBRARY_NUMBER(1.0);
	double s, z, y, by = HT_LIBRARY_NUMBER(21.0);
	uint64_t bits;
	int64_t k;

	if (!(x <= HT_LIBRARY_NUMBER(1e300)))
		return x;
	memcpy(&bits, &x, sizeof bits);
	k = (int64_t)(bits >> 52) - 1023;
	bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
	memcpy(&x, &bits, sizeof x);
	if (x > HT_LIBRARY_NUMBER(1.4142135623730951)) {
		x *= HT_LIBRARY_NUMBER(0.5);
		k++;
	}
	s = (x - one) / (x + one);
	z = s * s;
	/* The divisors 21, 19, …, 1 are computed: nets have no numbers in memory, nor the 0 that a sum might begin with. */
	y = one / by;
	for (int left = 10; left > 0; left--) {
		by -= one + one;
		y = y * z + one / by;
	}
	return (s + s) * y + (double)k * HT_LIBRARY_NUMBER(0.6931471805599453);
}

/* The logarithm of the sum of two probabilities, of which these are the logarithms; `none` is that of 0. */
static float log_of_sum(float a, float b, float none)
{
	float less = a < b ? a : b, more = a < b ? b : a;

	if (a == none)
		return b;
	if (b == none)
		return a;
	return more +
	       (float)logarithm(HT_LIBRARY_NUMBER(1.0) + (double)HT_LIBRARY_EXP(less - more));
}

/* ---- paths ---- */

/* A beginning of sequences.  Probabilities are logarithms. */
struct path {
	int32_t parent,
		label; /* the path without its last class, and that class; -1: the empty one */
	int32_t child,
		next; /* a path with one class more, and another one of the same parent; -1: none */
	int32_t uses; /* by paths below it, and by lists of beginnings */
	float total, in_label, in_blank; /* behind the step that is computed */
	float old_total, old_blank;      /* behind the step before */
};

struct search {
	struct path *path;
	int32_t used, free;            /* free: a path that is not used any more; -1: none */
	int32_t *kept, *before;        /* the best beginnings, and those of the step before */
	int32_t keeps, befores, worst; /* worst: which one of `kept`; -1: not known */
	int32_t width;
	float none;
};

static int32_t path_below(const struct search *s, int32_t parent, int32_t label)
{
	for (int32_t i = s->path[parent].child; i >= 0; i = s->path[i].next)
		if (s->path[i].label == label)
			return i;
	return -1;
}

static int32_t new_path(struct search *s, int32_t parent, int32_t label)
{
	int32_t i = s->free;
	struct path *p;

	if (i >= 0)
		s->free = s->path[i].next;
	else
		i = s->used++;
	p = &s->path[i];
	p->parent = parent;
	p->label = label;
	p->child = p->next = -1;
	p->uses = 0;
	p->total = p->in_label = p->in_blank = p->old_total = p->old_blank = s->none;
	if (parent >= 0) {
		p->next = s->path[parent].child;
		s->path[parent].child = i;
		s->path[parent].uses++;
	}
	return i;
}

static void unlink_path(struct search *s, int32_t i)
{
	int32_t *at = &s->path[s->path[i].parent].child;

	while (*at != i)
		at = &s->path[*at].next;
	*at = s->path[i].next;
}

/* One use less; paths without any are free. */
static void release(struct search *s, int32_t i)
{
	while (i >= 0 && --s->path[i].uses == 0 && s->path[i].parent >= 0) {
		int32_t parent = s->path[i].parent;

		unlink_path(s, i);
		s->path[i].next = s->free;
		s->free = i;
		i = parent;
	}
}

static void keep(struct search *s, int32_t i)
{
	if (s->worst >= 0 && s->path[i].total < s->path[s->kept[s->worst]].total)
		s->worst = s->keeps;
	s->kept[s->keeps++] = i;
	s->path[i].uses++;
}

static int32_t worst_of(struct search *s)
{
	if (s->worst < 0) {
		s->worst = 0;
		for (int32_t i = 1; i < s->keeps; i++)
			if (s->path[s->kept[i]].total < s->path[s->kept[s->worst]].total)
				s->worst = i;
	}
	return s->worst;
}

static void drop_worst(struct search *s)
{
	int32_t at = worst_of(s), i = s->kept[at];

	s->path[i].total = s->path[i].in_label = s->path[i].in_blank = s->none;
	s->kept[at] = s->kept[--s->keeps];
	s->worst = -1;
	release(s, i);
}

/* Whether a beginning of this probability is among the best. */
static bool is_good(struct search *s, float total)
{
	return total > s->none &&
	       (s->keeps < s->width || total > s->path[s->kept[worst_of(s)]].total);
}

/* The most probable first; equal ones stay in their order. */
static void sort(const struct search *s, int32_t *list, int32_t n)
{
	for (int32_t i = 1; i < n; i++) {
		int32_t held = list[i], k = i;

		for (; k && s->path[list[k - 1]].total < s->path[held].total; k--)
			list[k] = list[k - 1];
		list[k] = held;
	}
}

/* ---- steps ---- */

/* What is subtracted from the scores of a step to make logarithms of probabilities of them. */
static float offset_of(const float *score, int64_t classes)
{
	float most = score[0], sum = 0;

	for (int64_t i = 1; i < classes; i++)
		most = score[i] > most ? score[i] : most;
	for (int64_t i = 0; i < classes; i++)
		sum += HT_LIBRARY_EXP(score[i] - most);
	return most + (float)logarithm((double)sum);
}

/* A beginning stays as it is by a blank, or by a repetition of its last class. */
static void stay(struct search *s, struct path *p, const float *score, float blank, float offset)
{
	if (p->parent >= 0) {
		const struct path *parent = &s->path[p->parent];

		if (parent->total != s->none)
			p->in_label = log_of_sum(p->in_label,
				p->label == parent->label ? parent->old_blank : parent->old_total,
				s->none);
		p->in_label += score[p->label] - offset;
	}
	p->in_blank = p->old_total + blank - offset;
	p->total = log_of_sum(p->in_blank, p->in_label, s->none);
}

/* A beginning is followed by each class.  `i` is one of the step before, so no path that is dropped here is on the way to it. */
static void grow(struct search *s, int32_t i, const float *score, int64_t blank, float offset)
{
	for (int32_t label = 0; label < blank; label++) {
		const struct path *p = &s->path[i];
		float total =
			score[label] - offset + (label == p->label ? p->old_blank : p->old_total);
		int32_t child = path_below(s, i, label);

		if (child >= 0 && s->path[child].total != s->none)
			continue;
		if (!is_good(s, total)) {
			/* A beginning of the step before that another one drove out does not come back, so nothing follows it either. */
			if (child >= 0)
				s->path[child].old_total = s->path[child].old_blank = s->none;
			continue;
		}
		if (child >= 0)
			s->path[child].uses++; /* it may be on the way to the worst one only */
		if (s->keeps == s->width)
			drop_worst(s);
		if (child < 0)
			child = new_path(s, i, label);
		else
			s->path[child].uses--;
		s->path[child].total = s->path[child].in_label = total;
		s->path[child].in_blank = s->none;
		keep(s, child);
	}
}

static void step(struct search *s, const float *score, int64_t classes)
{
	const float offset = offset_of(score, classes), blank = score[classes - 1];

	sort(s, s->kept, s->keeps);
	for (int32_t i = 0; i < s->keeps; i++) {
		struct path *p = &s->path[s->before[i] = s->kept[i]];

		p->old_total = p->total;
		p->old_blank = p->in_blank;
	}
	s->befores = s->keeps;
	s->keeps = 0;
	s->worst = -1;
	for (int32_t i = 0; i < s->befores; i++) {
		stay(s, &s->path[s->before[i]], score, blank, offset);
		keep(s, s->before[i]);
	}
	for (int32_t i = 0; i < s->befores; i++)
		if (is_good(s, s->path[s->before[i]].old_total))
			grow(s, s->before[i], score, classes - 1, offset);
	for (int32_t i = 0; i < s->befores; i++)
		release(s, s->before[i]);
}

/* Writes the classes of a path from the last one on, each at the place that it has from the first one on. */
static void write_path(const struct search *s, int32_t of, bool merges, int64_t *to, int64_t steps)
{
	/* Compilers make memset() of a loop that stores a constant, which nets do not have. */
	const int64_t nothing = (int64_t)HT_LIBRARY_NUMBER(-1.0);
	int64_t length = 0;
	int32_t last = -1;

	for (int pass = 0; pass < 2; pass++) {
		int64_t left = length;

		last = -1;
		for (int32_t i = of; s->path[i].parent >= 0; i = s->path[i].parent) {
			if (merges && s->path[i].label == last)
				continue;
			last = s->path[i].label;
			if (pass)
				to[--left] = last;
			else
				length++;
		}
	}
	for (int64_t i = length; i < steps; i++)
		to[i] = nothing;
}

enum { SCORES, LENGTHS, SEQUENCES, CLASSES, PROBABILITIES, BEGINNINGS };

/* How many paths there can be at once: on the way to each beginning of the step before, and one more for each of this step. */
static int64_t most_paths(int64_t width, int64_t steps)
{
	return width * (steps + 2) + 2;
}

size_t ht_ctc_beams_scratch(const struct ht_kernel *k)
{
	int64_t n = k->grid[0] > 0 ? k->grid[0] : 1, best = k->buffer[PROBABILITIES].count / n,
		steps = best ? k->buffer[CLASSES].count / n / best : 0;

	return (size_t)most_paths(k->buffer[BEGINNINGS].count / n / 2, steps) * sizeof(struct path);
}

static int32_t search_one(struct search *s, void *const *buffers, const int64_t *params, int64_t at)
{
	const int64_t steps = params[0], n = params[1], classes = params[2], best = params[4];
	const float *score = (const float *)buffers[SCORES] + at * classes;
	int64_t length = ((const int32_t *)buffers[LENGTHS])[at];
	int32_t root;

	s->used = s->keeps = 0;
	s->free = s->worst = -1;
	root = new_path(s, -1, -1);
	s->path[root].total = s->path[root].in_blank = 0;
	s->path[root].uses = 1; /* it is never free */
	keep(s, root);
	if (length > steps)
		return HT_FAULT_INDEX;
	for (int64_t i = 0; i < length; i++)
		step(s, score + i * n * classes, classes);
	if (s->keeps < best)
		return HT_FAULT_PATHS;
	sort(s, s->kept, s->keeps);
	for (int64_t i = 0; i < best; i++) {
		write_path(s, s->kept[i], params[5],
			(int64_t *)buffers[CLASSES] + (i * n + at) * steps, steps);
		((float *)buffers[PROBABILITIES])[at * best + i] = s->path[s->kept[i]].total;
	}
	return HT_FAULT_NONE;
}

int32_t ht_library_ctc_beams(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	const int64_t sequences = *(const int64_t *)buffers[SEQUENCES];
	struct search s = { .path = scratch, .width = (int32_t)params[3] };

	s.none = (float)HT_LIBRARY_NUMBER(-INFINITY);
	for (int64_t i = tile_begin; i < tile_end && i < sequences; i++) {
		int32_t fault;

		s.kept = (int32_t *)buffers[BEGINNINGS] + 2 * i * s.width;
		s.before = s.kept + s.width;
		fault = search_one(&s, buffers, params, i);
		if (fault)
			return fault;
	}
	return HT_FAULT_NONE;
}
