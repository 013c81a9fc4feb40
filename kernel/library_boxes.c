/* Library kernel boxes: of boxes that overlap, those of the highest scores (non-maximum suppression).
 *
 * Buffers: boxes [n,4] (two opposite corners), scores [n], the most boxes to select (I32), the overlap above which a box is
 * suppressed, the score above which boxes are candidates, sigma, the number of boxes that there are (I64); then the indices of the
 * selected boxes (I32), their scores, how many these are (I32), and the same as I64.  Params: types of the boxes and scores, of the
 * overlap, of the score, and of sigma (F32 or F16); n; and how many results there is room for.  What is behind the selected ones
 * becomes 0.  One tile.
 *
 * With a sigma above 0 an overlap lowers a score, by the factor exp(-overlap^2 / 2 sigma), instead of suppressing the box.
 *
 * The candidate of the highest score is selected, unless a box that was selected before suppresses it.  Each candidate is compared
 * with each selected box once: if its score was lowered, it waits among the others, and remembers how many it was compared with. */
#include "kernel/library.h"

#include <math.h>
#include <string.h>

enum { BOXES, SCORES, MOST, OVERLAP, THRESHOLD, SIGMA, ROWS, INDICES, SELECTED, COUNT, SIZE };

struct candidate {
	float score;
	int32_t box, compared; /* with so many of the selected boxes */
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

/* As a number of the type: each operation rounds. */
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

/* Of two boxes: the area that both have, over the area that either has. */
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

/* Compares a candidate with the selected boxes that it was not compared with, the last one first; false: one suppresses it. */
static bool compare(const struct boxes *b, struct candidate *c, int32_t selected)
{
	for (int32_t i = selected - 1; i >= c->compared; i--) {
		float shared = overlap(b->type, &b->box[c->box], &b->box[b->selected[i]]);
		float factor;

		if (!b->soft) {
			if (shared > b->overlap)
				return false;
			continue;
		}
		factor = rounded(b->type,
			expf(rounded(b->type, rounded(b->type, b->scale * shared) * shared)));
		c->score = rounded(b->type, c->score * factor);
		if (c->score <= b->threshold)
			break;
	}
	c->compared = selected;
	return true;
}

/* Returns how many it selects. */
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
	b.overlap = load(buffers[OVERLAP], (enum ht_dtype)params[1], 0);
	b.threshold = load(buffers[THRESHOLD], (enum ht_dtype)params[2], 0);
	sigma = load(buffers[SIGMA], (enum ht_dtype)params[3], 0);
	b.soft = sigma > 0;
	b.scale = b.soft ? rounded(type, -0.5f / sigma) : 0;
	if (most < 0 || !(b.overlap >= 0 && b.overlap <= 1) || !(sigma >= 0))
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
