/* Objects of kind "strings" (base/strings.h).  One is made from two constants: the offsets
 * (where each string begins, and where the last one ends) and the bytes.  The first string is
 * empty. */
#include "base/strings.h"
#include "kernel/library.h"

#include <string.h>

enum { OFFSETS, BYTES, PARTS };

static uint64_t offset_at(const struct ht_object_parts *from, uint64_t i)
{
	uint64_t offset;

	memcpy(&offset, (const char *)from->constant[OFFSETS].p + i * sizeof offset, sizeof offset);
	return offset;
}

/* The number of strings; 0: the constants are malformed. */
static uint64_t count_of(const struct ht_object_parts *from)
{
	uint64_t bytes = from->constant[OFFSETS].bytes, n = bytes / sizeof bytes - 1;

	if (from->constants != PARTS || from->params || bytes % sizeof bytes ||
		bytes < 2 * sizeof bytes || n >= INT32_MAX || offset_at(from, 0) ||
		offset_at(from, 1) || offset_at(from, n) != from->constant[BYTES].bytes)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		if (offset_at(from, i) > offset_at(from, i + 1))
			return 0;
	return n;
}

static int32_t make(const struct ht_object_parts *from, void **out)
{
	uint64_t n = count_of(from);

	if (!n)
		return HT_FAULT_OBJECT;
	*out = ht_strings_new(
		(const char *)from->constant[OFFSETS].p + sizeof n, n, from->constant[BYTES].p);
	return *out ? HT_FAULT_NONE : HT_FAULT_MEMORY;
}

static void release(void *object)
{
	ht_strings_free(object);
}

const struct ht_object_kind ht_strings_kind = {
	.name = HT_STRINGS_KIND, .make = make, .release = release, .reset = NULL
};
