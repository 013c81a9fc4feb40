/* words: whether a message is about elements that are there. */
#include "base/words.h"

static bool is_plain(uint64_t t)
{
	const struct ht_dtype_info *d;

	if (t >= HT_REF)
		return false;
	d = ht_dtype_info((enum ht_dtype)t);
	if (d->kind == HT_KIND_FLOAT)
		return ht_is_kernel_float((enum ht_dtype)t);
	return (d->kind == HT_KIND_INT || d->kind == HT_KIND_UINT || d->kind == HT_KIND_BOOL) &&
	       d->bytes >= 1 && d->bytes <= 8;
}

bool ht_words_fit(const struct ht_words *w, size_t args,
	uint64_t (*bytes_of)(const void *arg, size_t i), const void *arg)
{
	uint64_t bytes;

	if (!w->arg)
		return true;
	if (w->arg > args || !is_plain(w->dtype))
		return false;
	bytes = ht_dtype_info((enum ht_dtype)w->dtype)->bytes;
	for (size_t i = 0; i < w->rank; i++)
		if (w->dim[i] < 1 || __builtin_mul_overflow(bytes, (uint64_t)w->dim[i], &bytes))
			return false;
	return bytes <= bytes_of(arg, (size_t)w->arg - 1);
}
