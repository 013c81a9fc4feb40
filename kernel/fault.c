/* fault: texts of the reasons why a kernel stopped. */
#include "kernel/kernel.h"

const char *ht_fault_text(enum ht_fault f)
{
	switch (f) {
	case HT_FAULT_NONE:
		return "no fault";
	case HT_FAULT_INDEX:
		return "an index is out of range";
	case HT_FAULT_DIVISION:
		return "integer division by zero";
	case HT_FAULT_NEGATIVE_POWER:
		return "an integer is raised to a negative power";
	case HT_FAULT_MEMORY:
		return "out of memory";
	case HT_FAULT_EMPTY_RANGE:
		return "minval is not below maxval";
	case HT_FAULT_RANDOM_ALGORITHM:
		return "the algorithm of random numbers is neither Philox (1) nor automatic (3)";
	case HT_FAULT_NAN:
		return "the tensor has NaN";
	case HT_FAULT_PLUS_INFINITY:
		return "the tensor has +Inf";
	case HT_FAULT_MINUS_INFINITY:
		return "the tensor has -Inf";
	case HT_FAULT_ASSERTION:
		return "assertion failed";
	case HT_FAULT_SAMPLES:
		return "two thousand million draws gave too few different classes";
	case HT_FAULT_BOXES:
		return "max_output_size or soft_nms_sigma is below 0, or iou_threshold is not from 0 to 1";
	case HT_FAULT_PATHS:
		return "the search finds fewer paths than are asked for";
	case HT_FAULT_KEYS:
		return "a key of the table has two different values";
	case HT_FAULT_OBJECT:
		return "an object is not of the types that are stated for it";
	case HT_FAULT_UNFILLED:
		return "the table is not filled yet";
	case HT_FAULT_ROOM:
		return "the table has more keys than there is room for";
	case HT_FAULT_RESERVED:
		return "a key is the empty or the deleted key of its table";
	}
	return "unknown fault";
}

bool ht_fault_has_words(enum ht_fault f)
{
	return f >= HT_FAULT_NAN && f <= HT_FAULT_ASSERTION;
}
