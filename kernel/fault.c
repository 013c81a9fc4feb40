/* fault: why a kernel stopped, in words. */
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
	}
	return "unknown fault";
}
