/* Replaces rates of a description by stated or measured ones. */
#include "kernel/target.h"

bool ht_rate_set(struct ht_rates *r, struct ht_str name, double value)
{
	struct {
		const char *name;
		double *rate;
	} const rates[] = {
#define HT_RATE(member, meaning) { #member, &r->member },
#include "kernel/target.def"
	};

	for (size_t i = 0; i < HT_COUNT(rates); i++)
		if (ht_str_is(name, rates[i].name)) {
			*rates[i].rate = value;
			return true;
		}
	return false;
}

const struct ht_target *ht_target_with_rates(
	const struct ht_target *t, const struct ht_rates *rates, struct ht_arena *a)
{
	const struct ht_target *level = ht_targets()[ht_target_level(t)];
	struct ht_target *out = HT_NEW(a, struct ht_target);

	*out = *t;
	out->rates = rates;
	out->dot_bf16 = level->dot_bf16;
	out->sums_f16 = level->sums_f16;
	ht_target_drop_slow(out);
	return out;
}
