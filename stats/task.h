/* task: how well a model does its task on one sample. */
#ifndef HT_TASK_H
#define HT_TASK_H

#include "stats/values.h"

enum ht_task {
	HT_TASK_NONE,
	HT_TASK_TOP1,      /* the largest element of each row is at the label */
	HT_TASK_TOP5,      /* the label is among the five largest */
	HT_TASK_IOU,       /* the mean over classes of intersection over union of pixels */
	HT_TASK_F_MEASURE, /* the mean over classes of 2 TP / (2 TP + FP + FN) */
	HT_TASK_KEYPOINTS, /* the share of heat maps whose peak is near the right place */
	HT_TASK_COSINE     /* the cosine of the angle to the label */
};
enum ht_task ht_task_named(struct ht_str name); /* HT_TASK_NONE: there is none */
const char *ht_task_name(enum ht_task t);
extern const char ht_task_names[]; /* all, with commas */

/* How labels stand to an output with the shape of one sample: one class for each row (the last dimension
 * is left out), or as many elements as the output. */
bool ht_task_has_classes(enum ht_task t);

/* One sample.  A row of one element is a score whose class is 1 from 0.5 on; of these only class 1 counts for
 * HT_TASK_IOU and HT_TASK_F_MEASURE.  `truth` has either an integer class for each row or the shape of the
 * output, whose largest elements are then the classes.  HT_TASK_KEYPOINTS: the last dimension has the maps,
 * `columns` is the dimension before it; near is within 5 % of the diagonal.  Returns a number in [0, 1], of
 * HT_TASK_COSINE in [-1, 1]. */
double ht_task_value(enum ht_task t, const struct ht_values *got, const struct ht_values *truth,
	size_t columns, struct ht_arena *scratch);

#endif
