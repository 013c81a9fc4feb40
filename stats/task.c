#include "stats/task.h"

#include <math.h>

static const char *const names[] = {
	[HT_TASK_TOP1] = "top1",
	[HT_TASK_TOP5] = "top5",
	[HT_TASK_IOU] = "iou",
	[HT_TASK_F_MEASURE] = "f-measure",
	[HT_TASK_KEYPOINTS] = "keypoints",
	[HT_TASK_COSINE] = "cosine",
};
const char ht_task_names[] = "top1, top5, iou, f-measure, keypoints, cosine";

enum ht_task ht_task_named(struct ht_str name)
{
	for (enum ht_task t = HT_TASK_TOP1; t < HT_COUNT(names); t++)
		if (ht_str_is(name, names[t]))
			return t;
	return HT_TASK_NONE;
}

const char *ht_task_name(enum ht_task t)
{
	return names[t];
}

bool ht_task_has_classes(enum ht_task t)
{
	return t != HT_TASK_COSINE && t != HT_TASK_KEYPOINTS;
}

/* ---- classes ---- */

static size_t class_of_row(const struct ht_values *v, size_t row)
{
	return v->row > 1 ? ht_largest(v, row * v->row, v->row) : ht_value(v, row) >= 0.5;
}

/* The class of a label: the label itself, or the index of its largest element. */
static size_t true_class(const struct ht_values *got, const struct ht_values *truth, size_t row)
{
	return truth->count == got->count ? class_of_row(truth, row) : (size_t)ht_value(truth, row);
}

static double top(size_t k, const struct ht_values *got, const struct ht_values *truth)
{
	size_t rows = got->count / got->row, right = 0, at[HT_MAX_TOP];

	k = k < got->row ? k : got->row;
	for (size_t i = 0; i < rows; i++) {
		size_t want = true_class(got, truth, i);
		if (got->row == 1) {
			right += class_of_row(got, i) == want;
			continue;
		}
		ht_largest_k(got, i * got->row, got->row, k, at);
		for (size_t j = 0; j < k; j++)
			right += at[j] == want;
	}
	return rows ? (double)right / (double)rows : 1;
}

struct overlap {
	size_t both, got, truth;
};

static double overlap_value(enum ht_task t, const struct overlap *o)
{
	size_t sum = o->got + o->truth;

	return t == HT_TASK_IOU ? (double)o->both / (double)(sum - o->both)
				: 2 * (double)o->both / (double)sum;
}

/* The mean over the classes that occur in output or label; 1: there are none. */
static double overlaps(enum ht_task t, const struct ht_values *got, const struct ht_values *truth,
	struct ht_arena *scratch)
{
	size_t classes = got->row > 1 ? got->row : 2, rows = got->count / got->row, n = 0;
	struct overlap *of = HT_NEW_ARRAY(scratch, struct overlap, classes);
	double sum = 0;

	for (size_t i = 0; i < rows; i++) {
		size_t a = class_of_row(got, i), b = true_class(got, truth, i);
		of[a].got++;
		of[b].truth++;
		of[a].both += a == b;
	}
	for (size_t c = got->row == 1; c < classes; c++) {
		if (!of[c].got && !of[c].truth)
			continue;
		sum += overlap_value(t, &of[c]);
		n++;
	}
	return n ? sum / (double)n : 1;
}

/* ---- maps and vectors ---- */

static size_t peak(const struct ht_values *v, size_t map)
{
	size_t cells = v->count / v->row, at = 0;
	double most = -INFINITY;

	for (size_t i = 0; i < cells; i++) {
		double x = ht_value(v, i * v->row + map);
		if (!(x > most))
			continue;
		most = x;
		at = i;
	}
	return at;
}

static double keypoints(const struct ht_values *got, const struct ht_values *truth, size_t columns)
{
	size_t cells = got->count / got->row, right = 0;
	double rows = (double)cells / (double)columns;
	double near = 0.05 * sqrt(rows * rows + (double)columns * (double)columns);

	for (size_t k = 0; k < got->row; k++) {
		size_t a = peak(got, k), b = peak(truth, k);
		int64_t y = (int64_t)(a / columns) - (int64_t)(b / columns);
		int64_t x = (int64_t)(a % columns) - (int64_t)(b % columns);
		right += sqrt((double)(x * x + y * y)) <= near;
	}
	return (double)right / (double)got->row;
}

static double cosine(const struct ht_values *got, const struct ht_values *truth)
{
	double a = 0, b = 0, dot = 0;

	for (size_t i = 0; i < got->count; i++) {
		double x = ht_value(got, i), y = ht_value(truth, i);
		a += x * x;
		b += y * y;
		dot += x * y;
	}
	if (!(a > 0) || !(b > 0))
		return a > 0 || b > 0 ? 0 : 1;
	return fmax(-1, fmin(1, dot / (sqrt(a) * sqrt(b))));
}

double ht_task_value(enum ht_task t, const struct ht_values *got, const struct ht_values *truth,
	size_t columns, struct ht_arena *scratch)
{
	switch (t) {
	case HT_TASK_TOP1:
		return top(1, got, truth);
	case HT_TASK_TOP5:
		return top(HT_MAX_TOP, got, truth);
	case HT_TASK_IOU:
	case HT_TASK_F_MEASURE:
		return overlaps(t, got, truth, scratch);
	case HT_TASK_KEYPOINTS:
		return keypoints(got, truth, columns);
	default:
		return cosine(got, truth);
	}
}
