/* Numbers and names in text: a number is printed so that it reads back the same; whatever bytes a
 * name has, its JSON string is UTF-8. */
#include "tests/fuzz/fuzz.h"

#include "base/base.h"

#include <string.h>

static void round_trip(struct ht_arena *a, struct ht_str s)
{
	struct ht_buf text;
	double read, again;
	int64_t whole;

	ht_buf_init(&text, a);
	if (ht_parse_double(s, &read)) {
		ht_put_double(&text, read);
		HT_CHECK(ht_parse_double(ht_buf_str(&text), &again));
		HT_CHECK(!memcmp(&read, &again, sizeof read) || (read != read && again != again));
	}
	if (ht_parse_int(s, &whole)) {
		struct ht_str printed = ht_str_printf(a, "%lld", (long long)whole);
		int64_t back;

		HT_CHECK(ht_parse_int(printed, &back) && back == whole);
	}
	ht_buf_init(&text, a);
	ht_put_json(&text, s);
	HT_CHECK(ht_utf8_valid(ht_buf_str(&text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind unwind;
	struct ht_arena a;

	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env))
		round_trip(&a, (struct ht_str){ (const char *)data, size });
	ht_arena_release(&a);
	return 0;
}
