/* task: a score for the output of a model on one sample, by the kind of its task. */
#ifndef HT_TASK_H
#define HT_TASK_H

#include "stats/values.h"

enum ht_task {
	HT_TASK_NONE,
	HT_TASK_TOP1,      /* the largest element of each row is at the label */
	HT_TASK_TOP5,      /* the label is among the five largest */
	HT_TASK_IOU,       /* the mean over classes of intersection over union of pixels */
	HT_TASK_F_MEASURE, /* the mean over classes of 2 TP / (2 TP + FP + FN) */
	HT_TASK_KEYPOINTS, /* the share of heat maps whose peak is near the true position */
	HT_TASK_COSINE     /* the cosine of the angle to the label */
};
enum ht_task ht_task_named(struct ht_str name); /* HT_TASK_NONE: no task has this name. */
const char *ht_task_name(enum ht_task t);
extern const char ht_task_names[]; /* all names, separated by commas */

/* The shape of labels for an output with the shape of one sample.  True: one class for each row
 * (without the last dimension); false: as many elements as the output. */
bool ht_task_has_classes(enum ht_task t);

/* The score of one sample.  A row of one element is a score whose class is 1 from 0.5 on; of these
 * only class 1 counts for HT_TASK_IOU and HT_TASK_F_MEASURE.  `truth` has either an integer class
 * for each row or the shape of the output, whose largest elements are then the classes.
 * HT_TASK_KEYPOINTS: the last dimension contains the maps, `columns` is the dimension before it;
 * near means within 5 % of the diagonal.  The result is in [0, 1], for HT_TASK_COSINE in [-1,
 * 1]. */
double ht_task_value(enum ht_task t, const struct ht_values *got, const struct ht_values *truth,
	size_t columns, struct ht_arena *scratch);

#endif
