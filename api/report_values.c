/* Values that all forms of a report have. */
#include "api/report.h"

void ht_put_ms(struct ht_buf *b, int64_t ps)
{
	ht_put_fixed(b, (double)ps / 1e9, 6);
	ht_puts(b, " ms");
}

void ht_put_number(struct ht_buf *b, const char *key, int64_t n)
{
	if (n < 0)
		ht_printf(b, ", \"%s\": null", key);
	else
		ht_printf(b, ", \"%s\": %lld", key, (long long)n);
}

int64_t ht_cast_bytes(const struct ht_decided_cast *c)
{
	int64_t each = (int64_t)(ht_dtype_info(c->from)->bytes + ht_dtype_info(c->to)->bytes);

	if (c->constant)
		return 0;
	return c->elements < 0 || c->elements > INT64_MAX / 64 ? -1 : c->elements * each;
}
