/* The counters of a context. */
#include "runtime/counters.h"
#include "api/api.h"

#include <string.h>

enum ht_status ht_context_count(struct ht_context *c, int on, struct ht_diags *d)
{
	return ht_rt_count(ht_context_rt(c), on != 0)
		       ? HT_OK
		       : ht_refuse(d, HT_E_ENVIRONMENT, "no memory for counters");
}

int ht_context_counter(const struct ht_context *c, size_t i, struct ht_counter_info *out)
{
	const struct ht_counters *counters = ht_rt_counters(ht_context_rt(c));
	int error;

	*out = (struct ht_counter_info){ 0 };
	if (!counters || i >= HT_COUNTS)
		return 0;
	error = ht_counters_refusal(counters, (enum ht_counter)i);
	out->name = ht_counters_name((enum ht_counter)i);
	out->help = ht_counters_help((enum ht_counter)i);
	out->refused = error ? strerror(error) : NULL;
	return 1;
}

size_t ht_context_counts(const struct ht_context *c, size_t i, double *out, size_t cap)
{
	const struct ht_counters *counters = ht_rt_counters(ht_context_rt(c));
	const struct ht_image *x = ht_context_program(c)->rt.image;
	size_t n = 0;

	if (!counters || i >= HT_COUNTS)
		return 0;
	for (uint32_t k = 0; k < ht_image_count(x, HT_IMAGE_STEPS); k++) {
		if (ht_image_steps(x)[k].op != HT_IMAGE_KERNEL)
			continue;
		if (n < cap)
			out[n] = ht_counters_total(counters, k, (enum ht_counter)i);
		n++;
	}
	return n;
}
