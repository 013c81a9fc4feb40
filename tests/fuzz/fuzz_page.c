/* Results as pages: a page in which no name became an element, or one error with a place in the
 * file. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/rules.h"

#include <halftone/page.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_page_source source = { "x.json", (const char *)data, size };
	struct ht_diags diags;
	struct ht_bytes page;
	enum ht_status st;

	ht_diags_init(&diags);
	if (!data)
		source.text = "";
	st = ht_page_print(&source, 1, &diags, &page);
	HT_CHECK(st == HT_OK || st == HT_E_INPUT);
	HT_CHECK(diags.errors == (st != HT_OK));
	if (st == HT_OK)
		HT_CHECK(!memmem(page.p, page.n, "<hostile", 8) && !strstr(page.p, "<script") &&
			 ht_utf8_valid((struct ht_str){ page.p, page.n }));
	else
		HT_CHECK(!page.p && diags.first->where.line <= fuzz_lines((struct ht_str){
								       (const char *)data, size }));
	ht_bytes_free(&page);
	ht_diags_release(&diags);
	return 0;
}
