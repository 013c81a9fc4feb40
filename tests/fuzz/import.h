/* Common to the targets of importers: an accepted model is exported twice with the same bytes. */
#ifndef HT_FUZZ_IMPORT_H
#define HT_FUZZ_IMPORT_H

#include "frontend/frontend.h"

#include <string.h>

static const struct ht_import_limits fuzz_limits = {
	.nodes = 10000,
	.tensor_bytes = (size_t)16 << 20,
	.functions = 1000,
};

static inline void fuzz_export(struct ht_arena *a, struct ht_graph *g)
{
	const char *path = g->source == HT_SOURCE_METAGRAPH    ? "x.meta"
			   : g->source == HT_SOURCE_SAVEDMODEL ? "saved_model.pb"
							       : "x.pb";
	struct ht_buf once, twice, text;
	struct ht_graph *again;
	struct ht_diags d;
	enum ht_status st;

	ht_buf_init(&once, a);
	ht_buf_init(&twice, a);
	ht_buf_init(&text, a);
	HT_CHECK(ht_export_container(g, HT_EXPORT_WIRE, NULL, &once) == HT_OK);
	ht_export_container(g, HT_EXPORT_TEXT, NULL, &text); /* unknown fields have no text */
	ht_diags_init(&d);
	/* An empty GraphDef is an empty file, which is refused. */
	st = once.n ? ht_import_memory(a, once.p, once.n, path, &fuzz_limits, &d, &again)
		    : HT_E_INPUT;
	for (const struct ht_diag *x = d.first; once.n && st != HT_OK && x; x = x->next)
		fprintf(stderr, "%.*s\n", HT_STR_ARG(x->text));
	HT_CHECK(!once.n || st == HT_OK || st == HT_E_LIMIT);
	if (st == HT_OK) {
		HT_CHECK(ht_export_container(again, HT_EXPORT_WIRE, NULL, &twice) == HT_OK);
		HT_CHECK(once.n == twice.n && !memcmp(once.p, twice.p, once.n));
	}
	ht_diags_release(&d);
}

static inline int fuzz_import(const uint8_t *data, size_t size, const char *path)
{
	struct ht_unwind unwind;
	struct ht_graph *g;
	struct ht_arena a;
	struct ht_diags d;
	enum ht_status st;

	ht_diags_init(&d);
	ht_arena_init(&a, &unwind);
	if (!setjmp(unwind.env)) {
		st = ht_import_memory(&a, data, size, path, &fuzz_limits, &d, &g);
		HT_CHECK((st == HT_OK) == (g != NULL));
		HT_CHECK(st == HT_OK || d.errors);
		if (st == HT_OK && g->source != HT_SOURCE_TFJS)
			fuzz_export(&a, g);
	}
	ht_arena_release(&a);
	ht_diags_release(&d);
	return 0;
}

#endif
