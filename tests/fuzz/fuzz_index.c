/* The index of an artefact: refused with a reason, or written again as the same bytes. */
#include "runtime/artefact.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_index x;
	struct ht_buf out;

	ht_arena_init(&arena, &unwind);
	if (!setjmp(unwind.env) && !ht_index_read((struct ht_str){ (const char *)data, size },
					   UINT64_MAX, UINT64_MAX, &arena, &x)) {
		ht_buf_init(&out, &arena);
		ht_index_write(&x, &out);
		HT_CHECK(out.n == size && !memcmp(out.p, data, size));
	}
	ht_arena_release(&arena);
	return 0;
}
