/* The .hir text: no input crashes the parser; an accepted text is printed and read back as the same
 * graph, is verified or refused, and passes through inference with a verdict. */
#include "tests/fuzz/fuzz.h"

#include "ir/ir.h"

static struct ht_str print(struct ht_arena *a, const struct ht_graph *g)
{
	struct ht_text_options opt = { .weights_inline = true };
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_text_print(g, &opt, &b, NULL);
	return ht_buf_str(&b);
}

static void check(struct ht_arena *a, struct ht_diags *d, struct ht_str text)
{
	struct ht_graph *g, *again;
	struct ht_str once;

	if (ht_text_parse(a, text, "fuzz.hir", NULL, d, &g) != HT_OK) {
		HT_CHECK(d->errors == 1 && d->first->where.line > 0 && d->first->where.column > 0);
		return;
	}
	once = print(a, g);
	HT_CHECK(ht_text_parse(a, once, "printed.hir", NULL, d, &again) == HT_OK);
	HT_CHECK(ht_str_eq(print(a, again), once));
	if (ht_graph_sort(g, d) != HT_OK || ht_verify(g, d) != HT_OK)
		return;
	if (ht_infer_types(g, d) == HT_OK)
		ht_verify(g, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ht_unwind u;
	struct ht_arena a;
	struct ht_diags d;

	ht_diags_init(&d);
	ht_arena_init(&a, &u);
	if (!setjmp(u.env))
		check(&a, &d, (struct ht_str){ (const char *)data, size });
	ht_arena_release(&a);
	ht_diags_release(&d);
	return 0;
}
