/* Library kernels of non-maximum suppression: of boxes that overlap, they select those with the
 * highest scores.
 *
 * boxes.  Buffers: boxes [n,4] (two opposite corners) or the overlap of each pair of boxes
 * [n,n], scores [n], the most boxes to select (I32), the overlap above which a box is
 * suppressed, the score above which boxes are candidates, sigma, the number of existing boxes
 * (I64); then the indices of the selected boxes (I32), their scores, their number (I32), and the
 * number as I64.  Params: types of the boxes and scores, of the overlap, of the score, and of
 * sigma (F32 or F16); n; room for how many results; whether overlaps are given.  Results behind
 * the selected ones become 0.  One tile.
 *
 * With a sigma above 0, an overlap multiplies a score by exp(-overlap^2 / 2 sigma) instead of
 * suppressing the box.
 *
 * The candidate with the highest score is selected, unless a selected box suppresses it.  Each
 * candidate is compared with each selected box once: if its score was lowered, it goes back
 * among the candidates, with the number of boxes it was compared with.
 *
 * combined_boxes.  The same in each class of each image; then the boxes with the highest scores
 * of all classes of an image.  Buffers: boxes [images,n,q,4], scores [images,n,classes], the
 * most boxes of a class (I32), the overlap above which a box is suppressed, the score above
 * which boxes are candidates; then, with room for `room` selected boxes of each image: corners,
 * scores, classes, and their number (I32).  Params: n; q, which is 1 (the classes share the
 * boxes) or the number of classes; the number of classes; the room; whether corners are clipped
 * to [0, 1]. One tile for each image. */
#include "kernel/library.h"

#include <math.h>
#include <string.h>

enum { BOXES, SCORES, MOST, OVERLAP, THRESHOLD, SIGMA, ROWS, INDICES, SELECTED, COUNT, SIZE };

struct candidate {
	float score;
	int32_t box, compared; /* compared: with how many of the selected boxes */
};

struct box {
	float low[2], high[2], area;
};

struct boxes {
	enum ht_dtype type;
	const struct box *box;
	struct candidate *heap;
	int32_t candidates;
	float overlap, threshold, scale;
	bool soft;
	int32_t *selected;
	const float *overlaps; /* of each pair of the `n` boxes; NULL: computed from the boxes */
	int64_t n;
};

static float load(const void *p, enum ht_dtype t, int64_t i)
{
	return t == HT_F16 ? ht_f16_to_f32(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static void store(void *p, enum ht_dtype t, int64_t i, float x)
{
	if (t == HT_F16)
		((uint16_t *)p)[i] = ht_f32_to_f16(x);
	else
		((float *)p)[i] = x;
}

/* x rounded to the type: each operation rounds. */
static float rounded(enum ht_dtype t, float x)
{
	return t == HT_F16 ? ht_f16_to_f32(ht_f32_to_f16(x)) : x;
}

static float lesser(float a, float b)
{
	return b < a ? b : a;
}

static float larger(float a, float b)
{
	return a < b ? b : a;
}

static struct box box_at(const void *boxes, enum ht_dtype t, int64_t i)
{
	struct box r;
	float side[2];

	for (int k = 0; k < 2; k++) {
		float a = load(boxes, t, 4 * i + k), b = load(boxes, t, 4 * i + k + 2);

		r.low[k] = lesser(a, b);
		r.high[k] = larger(a, b);
		side[k] = rounded(t, r.high[k] - r.low[k]);
	}
	r.area = rounded(t, side[0] * side[1]);
	return r;
}

/* The area of the intersection of two boxes divided by that of their union. */
static float overlap(enum ht_dtype t, const struct box *a, const struct box *b)
{
	float side[2], both;

	if (a->area <= 0 || b->area <= 0)
		return 0;
	for (int k = 0; k < 2; k++)
		side[k] = larger(
			rounded(t, lesser(a->high[k], b->high[k]) - larger(a->low[k], b->low[k])),
			0);
	both = rounded(t, side[0] * side[1]);
	return rounded(t, both / rounded(t, rounded(t, a->area + b->area) - both));
}

static float overlap_of(const struct boxes *b, int32_t i, int32_t k)
{
	return b->overlaps ? b->overlaps[i * b->n + k] : overlap(b->type, &b->box[i], &b->box[k]);
}

/* ---- the candidates, as a heap ---- */

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->score > b->score || (a->score == b->score && a->box < b->box);
}

static void swap(struct candidate *a, struct candidate *b)
{
	struct candidate c = *a;

	*a = *b;
	*b = c;
}

static void push(struct boxes *b, struct candidate c)
{
	int32_t i = b->candidates++;

	b->heap[i] = c;
	for (; i && before(&b->heap[i], &b->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&b->heap[i], &b->heap[(i - 1) / 2]);
}

static struct candidate pop(struct boxes *b)
{
	struct candidate first = b->heap[0];

	b->heap[0] = b->heap[--b->candidates];
	for (int32_t i = 0, next; (next = 2 * i + 1) < b->candidates; i = next) {
		if (next + 1 < b->candidates && before(&b->heap[next + 1], &b->heap[next]))
			next++;
		if (!before(&b->heap[next], &b->heap[i]))
			break;
		swap(&b->heap[next], &b->heap[i]);
	}
	return first;
}

/* ---- selection ---- */

/* Compares a candidate with the selected boxes that it was not compared with yet, the last one
 * first; false: one of them suppresses it. */
static bool compare(const struct boxes *b, struct candidate *c, int32_t selected)
{
	for (int32_t i = selected - 1; i >= c->compared; i--) {
		float shared = overlap_of(b, c->box, b->selected[i]);
		float factor;

		if (!b->soft) {
			if (shared > b->overlap)
				return false;
			continue;
		}
		factor = rounded(b->type, HT_LIBRARY_EXP(rounded(b->type,
						  rounded(b->type, b->scale * shared) * shared)));
		c->score = rounded(b->type, c->score * factor);
		if (c->score <= b->threshold)
			break;
	}
	c->compared = selected;
	return true;
}

/* Returns how many boxes it selects; their scores go to `scores`. */
static int32_t choose(struct boxes *b, int32_t most, void *scores)
{
	int32_t selected = 0;

	while (selected < most && b->candidates) {
		struct candidate c = pop(b);
		float score = c.score;

		if (!compare(b, &c, selected))
			continue;
		if (c.score != score) {
			if (c.score > b->threshold)
				push(b, c);
			continue;
		}
		b->selected[selected] = c.box;
		store(scores, b->type, selected++, c.score);
	}
	return selected;
}

static size_t boxes_bytes(int64_t n)
{
	return ((size_t)n * sizeof(struct box) + 63) & ~(size_t)63;
}

size_t ht_boxes_scratch(const struct ht_kernel *k)
{
	int64_t n = k->buffer[SCORES].count;

	return boxes_bytes(n) + (size_t)n * sizeof(struct candidate);
}

static void fill(struct boxes *b, void *const *buffers, int64_t n, struct box *box)
{
	for (int32_t i = 0; i < n; i++) {
		float score = load(buffers[SCORES], b->type, i);

		if (!b->overlaps)
			box[i] = box_at(buffers[BOXES], b->type, i);
		if (score > b->threshold)
			push(b, (struct candidate){ score, i, 0 });
	}
}

int32_t ht_library_boxes(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	enum ht_dtype type = (enum ht_dtype)params[0];
	int32_t most, n;
	float sigma;
	struct boxes b = { .type = type, .box = scratch, .selected = buffers[INDICES] };

	if (tile_begin >= tile_end)
		return HT_FAULT_NONE;
	most = *(const int32_t *)buffers[MOST];
	b.heap = (struct candidate *)((char *)scratch + boxes_bytes(params[4]));
	b.overlaps = params[6] ? buffers[BOXES] : NULL;
	b.n = params[4];
	b.overlap = load(buffers[OVERLAP], (enum ht_dtype)params[1], 0);
	b.threshold = load(buffers[THRESHOLD], (enum ht_dtype)params[2], 0);
	sigma = load(buffers[SIGMA], (enum ht_dtype)params[3], 0);
	b.soft = sigma > 0;
	b.scale = b.soft ? rounded(type, (float)HT_LIBRARY_NUMBER(-0.5) / sigma) : 0;
	if (most < 0 ||
		(!b.overlaps && !(b.overlap >= 0 && b.overlap <= (float)HT_LIBRARY_NUMBER(1.0))) ||
		!(sigma >= 0))
		return HT_FAULT_BOXES;
	fill(&b, buffers, *(const int64_t *)buffers[ROWS], scratch);
	n = choose(&b, most < params[5] ? most : (int32_t)params[5], buffers[SELECTED]);
	*(int32_t *)buffers[COUNT] = n;
	*(int64_t *)buffers[SIZE] = n;
	for (int64_t i = n; i < params[5]; i++) {
		b.selected[i] = 0;
		store(buffers[SELECTED], type, i, 0);
	}
	return HT_FAULT_NONE;
}

/* ---- several classes of several images ---- */

enum { CORNERS = 5, SCORE, CLASS, VALID };

/* A selected box of a class. */
struct found {
	float score;
	int32_t class, box;
};

struct combined {
	struct boxes b;
	struct box *box;
	float *score; /* of the boxes that a class selects */
	struct found
		*found; /* the best of all classes so far, a heap with the worst of them first */
	int32_t count;
	int64_t n, shared, classes, room;
};

static bool is_worse(const struct found *a, const struct found *b)
{
	if (a->score != b->score)
		return a->score < b->score;
	return a->class != b->class ? a->class > b->class : a->box > b->box;
}

/* Restores the heap: moves element `i`, which may be better than those below it, to its place. */
static void sink(struct found *heap, int32_t count, int32_t i)
{
	for (int32_t next; (next = 2 * i + 1) < count; i = next) {
		struct found held = heap[i];

		if (next + 1 < count && is_worse(&heap[next + 1], &heap[next]))
			next++;
		if (!is_worse(&heap[next], &held))
			return;
		heap[i] = heap[next];
		heap[next] = held;
	}
}

/* Adds `f` to the best, if there is room or it is better than the worst of them. */
static void keep(struct combined *x, struct found f)
{
	int32_t i = x->count;

	if (x->count == x->room) {
		if (x->room && is_worse(&x->found[0], &f)) {
			x->found[0] = f;
			sink(x->found, x->count, 0);
		}
		return;
	}
	x->found[x->count++] = f;
	for (; i && is_worse(&x->found[i], &x->found[(i - 1) / 2]); i = (i - 1) / 2) {
		struct found held = x->found[i];

		x->found[i] = x->found[(i - 1) / 2];
		x->found[(i - 1) / 2] = held;
	}
}

/* The number of the box of class `class` that is candidate `i`. */
static int64_t corners_of(const struct combined *x, int32_t class, int32_t i)
{
	return (int64_t)i * x->shared + (x->shared > 1 ? class : 0);
}

static void select_class(
	struct combined *x, const float *boxes, const float *scores, int32_t class, int32_t most)
{
	int32_t n;

	x->b.candidates = 0;
	for (int32_t i = 0; i < x->n; i++) {
		float score = scores[i * x->classes + class];

		if (x->shared > 1 || !class)
			x->box[i] = box_at(boxes, HT_F32, corners_of(x, class, i));
		if (score > x->b.threshold)
			push(&x->b, (struct candidate){ score, i, 0 });
	}
	n = choose(&x->b, most, x->score);
	for (int32_t i = 0; i < n; i++)
		keep(x, (struct found){ x->score[i], class, x->b.selected[i] });
}

static float clipped(float x)
{
	return lesser(larger(x, 0), (float)HT_LIBRARY_NUMBER(1.0));
}

/* Takes the worst first and writes from the end. */
static void write_image(
	struct combined *x, const float *boxes, void *const *buffers, int64_t image, bool clips)
{
	float *corners = (float *)buffers[CORNERS] + image * x->room * 4,
	      *score = (float *)buffers[SCORE] + image * x->room,
	      *class = (float *)buffers[CLASS] + image * x->room;
	int32_t valid = x->count;

	((int32_t *)buffers[VALID])[image] = valid;
	for (int64_t i = valid; i < x->room; i++) {
		memset(corners + 4 * i, 0, 4 * sizeof *corners);
		score[i] = class[i] = 0;
	}
	while (x->count) {
		struct found f = x->found[0];
		int32_t to = --x->count;

		x->found[0] = x->found[to];
		sink(x->found, to, 0);
		for (int k = 0; k < 4; k++) {
			float c = boxes[4 * corners_of(x, f.class, f.box) + k];

			corners[4 * to + k] = clips ? clipped(c) : c;
		}
		score[to] = f.score;
		class[to] = (float)f.class;
	}
}

static size_t aligned(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

/* Computed from the sizes of buffers: for at least as many boxes as an image has, counting boxes
 * of each class separately if they differ. */
size_t ht_combined_boxes_scratch(const struct ht_kernel *k)
{
	size_t images = k->grid[0] > 0 ? (size_t)k->grid[0] : 1,
	       n = (size_t)k->buffer[BOXES].count / 4 / images,
	       room = (size_t)k->buffer[SCORE].count / images;

	return boxes_bytes((int64_t)n) + aligned(n * sizeof(struct candidate)) +
	       aligned(n * sizeof(int32_t)) + aligned(n * sizeof(float)) +
	       aligned(room * sizeof(struct found));
}

static void divide_scratch(struct combined *x, char *scratch)
{
	size_t n = (size_t)x->n;

	x->box = (struct box *)scratch;
	scratch += boxes_bytes(x->n);
	x->b.heap = (struct candidate *)scratch;
	scratch += aligned(n * sizeof(struct candidate));
	x->b.selected = (int32_t *)scratch;
	scratch += aligned(n * sizeof(int32_t));
	x->score = (float *)scratch;
	scratch += aligned(n * sizeof(float));
	x->found = (struct found *)scratch;
	x->b.box = x->box;
}

int32_t ht_library_combined_boxes(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch)
{
	int32_t most = *(const int32_t *)buffers[MOST];
	struct combined x = {
		.n = params[0], .shared = params[1], .classes = params[2], .room = params[3]
	};

	divide_scratch(&x, scratch);
	x.b.type = HT_F32;
	x.b.overlap = *(const float *)buffers[OVERLAP];
	x.b.threshold = *(const float *)buffers[THRESHOLD];
	if (most <= 0 || !(x.b.overlap >= 0 && x.b.overlap <= (float)HT_LIBRARY_NUMBER(1.0)))
		return HT_FAULT_BOXES;
	for (int64_t i = tile_begin; i < tile_end; i++) {
		const float *boxes = (const float *)buffers[BOXES] + i * x.n * x.shared * 4;
		const float *scores = (const float *)buffers[SCORES] + i * x.n * x.classes;

		x.count = 0;
		for (int32_t class = 0; class < x.classes; class ++)
			select_class(&x, boxes, scores, class, most);
		write_image(&x, boxes, buffers, i, params[4]);
	}
	return HT_FAULT_NONE;
}
