/* Decision reports: accepted, or one error with a place in the file; an accepted report decides
 * about a graph, or is refused with one error that names the file. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/report.h"
#include "tests/fuzz/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_str text = { (const char *)data, size };
	struct ht_arena arena, scratch;
	struct ht_unwind unwind;
	struct ht_diags diags;

	ht_diags_init(&diags);
	ht_arena_init(&arena, &unwind);
	ht_arena_init(&scratch, &unwind);
	if (!setjmp(unwind.env)) {
		enum ht_status st = report_apply(&arena, &scratch, text, &diags, NULL);
		HT_CHECK(st == HT_OK || st == HT_E_INPUT);
		HT_CHECK(diags.errors == (st != HT_OK));
		if (st != HT_OK) {
			HT_CHECK(ht_str_is(ht_str(diags.first->where.path), "x.json"));
			HT_CHECK(diags.first->where.line <= fuzz_lines(text));
		}
	}
	ht_arena_release(&scratch);
	ht_arena_release(&arena);
	ht_diags_release(&diags);
	return 0;
}
