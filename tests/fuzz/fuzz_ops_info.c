/* Records of op types: accepted, or one error with a place in the file; every kernel lies within
 * its record. */
#include "tests/fuzz/fuzz.h"

#include "precision/policy.h"

static void check(const struct ht_op_record *r)
{
	const uint8_t *at = r->column;

	for (size_t i = 0; i < r->columns; i++)
		for (int side = 0; side < 2; side++) {
			for (int k = 1; k <= at[0]; k++)
				HT_CHECK(at[k] != HT_INVALID && at[k] < HT_DTYPE_END);
			at += at[0] + 1;
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_diags diags;
	struct ht_ops_info info;
	struct ht_parse p = { .arena = &arena, .diags = &diags, .path = "x.json" };

	ht_diags_init(&diags);
	ht_arena_init(&arena, &unwind);
	if (!setjmp(unwind.env)) {
		ht_map_init(&info.types, &arena);
		if (ht_ops_info_parse(&p, (struct ht_str){ (const char *)data, size }, &info) !=
			HT_OK)
			HT_CHECK(diags.errors == 1 && diags.first->where.path);
		for (size_t i = 0; i < info.types.count; i++)
			check(info.types.entries[i].value);
	}
	ht_arena_release(&arena);
	ht_diags_release(&diags);
	return 0;
}
