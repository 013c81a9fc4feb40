/* Checks that options may be combined, by the table api/combinations.def. */
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
/* If combinations of severity `error` are violated, the first one is an error, located where its
 * first option is stated; of severity `warning`, all are reported. */
enum ht_status ht_combinations_check(
	const struct ht_given *given, enum ht_severity severity, struct ht_diags *d);

#endif
