/* Whether options go together: by the table api/combinations.def. */
#ifndef HT_COMBINATIONS_H
#define HT_COMBINATIONS_H

#include "base/base.h"

struct ht_combination {
	const char *option, *is, *other, *other_is;
	enum ht_severity severity;
	const char *text, *place;
};
/* NULL: there is no combination `i`. */
const struct ht_combination *ht_combination(size_t i);

struct ht_given;
/* The first combination of this severity that is forbidden is an error, located where its first
 * option is stated; of warnings all are said. */
enum ht_status ht_combinations_check(
	const struct ht_given *given, enum ht_severity severity, struct ht_diags *d);

#endif
