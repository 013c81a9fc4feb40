/* rates: a machine's rates as text, which --rates reads and halftone tune writes (docs/policies.md). */
#ifndef HT_OPTIMAL_RATES_H
#define HT_OPTIMAL_RATES_H

#include "base/base.h"
#include "kernel/target.h"

#define HT_RATES_BYTES ((size_t)1 << 16) /* of a file, at most */

enum ht_rate_number {
#define HT_RATE(member, meaning) HT_RATE_##member,
#include "kernel/target.def"
	HT_RATE_NUMBERS
};

struct ht_stated_rates {
	const char *path;
	struct ht_str level; /* of machines that they are of */
	bool stated[HT_RATE_NUMBERS];
	double value[HT_RATE_NUMBERS];
	struct ht_hash digest; /* of the level and the rates */
};

/* HT_E_INPUT with file and line.  Keeps `text`; everything lives in `a`. */
enum ht_status ht_stated_rates_parse(struct ht_str text, const char *path, struct ht_arena *a,
	struct ht_diags *d, const struct ht_stated_rates **out);
/* Whether they are of machines of the target's level. */
bool ht_stated_rates_fit(const struct ht_stated_rates *s, const struct ht_target *t);
/* `t`, which they fit, with these rates in the place of its own; the name of the tuning has their digest. */
const struct ht_target *ht_stated_rates_target(
	const struct ht_stated_rates *s, const struct ht_target *t, struct ht_arena *a);
/* Those by which `now` differs from `t`, or that are measured of every machine, as such a text. */
void ht_stated_rates_print(struct ht_buf *b, const struct ht_target *t, const struct ht_rates *now,
	const char *machine, const char *microcode);

#endif
