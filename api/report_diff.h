/* Differences of reports in memory. */
#ifndef HT_API_REPORT_DIFF_H
#define HT_API_REPORT_DIFF_H

#include "api/report.h"

struct ht_unit_pair {
	struct ht_str node;
	const struct ht_decided_type *before, *after; /* NULL: that report does not decide on it */
};

struct ht_cast_list {
	const struct ht_decided_cast **cast;
	size_t n;
};

struct ht_difference {
	struct ht_arena *arena;
	const struct ht_report_data *before, *after;
	bool same_stage; /* both decided on the same graph; otherwise units are compared by
			  * imported names */
	struct ht_unit_pair *unit;
	size_t units, unit_cap;
	size_t only_before, only_after;
	struct ht_cast_list appear, vanish;
};

void ht_difference_find(struct ht_difference *x, const struct ht_report_data *before,
	const struct ht_report_data *after, struct ht_arena *a);
/* Bytes of all casts; -1: not known. */
int64_t ht_casts_bytes(const struct ht_report_data *r);

#endif
