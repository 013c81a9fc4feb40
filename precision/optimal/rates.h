/* rates: a machine's rates as text, which --rates reads and halftone tune writes (docs/optimal.md). */
#ifndef HT_OPTIMAL_RATES_H
#define HT_OPTIMAL_RATES_H

#include "base/base.h"
#include "kernel/target.h"

#define HT_RATES_BYTES ((size_t)1 << 16) /* the most bytes of a file */

enum ht_rate_number {
#define HT_RATE(member, meaning) HT_RATE_##member,
#include "kernel/target.def"
	HT_RATE_NUMBERS
};

struct ht_stated_rates {
	const char *path;
	struct ht_str level; /* the level of the machines that have these rates */
	bool stated[HT_RATE_NUMBERS];
	double value[HT_RATE_NUMBERS];
	struct ht_hash digest; /* of the level and the rates */
};

/* HT_E_INPUT with file and line.  Keeps `text`; everything lives in `a`. */
enum ht_status ht_stated_rates_parse(struct ht_str text, const char *path, struct ht_arena *a,
	struct ht_diags *d, const struct ht_stated_rates **out);
/* Whether the rates are for machines of the target's level. */
bool ht_stated_rates_fit(const struct ht_stated_rates *s, const struct ht_target *t);
/* `t` with these rates, which must fit it, in place of its own.  The name of the tuning contains
 * their digest. */
const struct ht_target *ht_stated_rates_target(
	const struct ht_stated_rates *s, const struct ht_target *t, struct ht_arena *a);
/* Prints as such a text the rates of `now` that differ from those of `t`, and those that are
 * measured on every machine. */
void ht_stated_rates_print(struct ht_buf *b, const struct ht_target *t, const struct ht_rates *now,
	const char *machine, const char *microcode);

#endif
