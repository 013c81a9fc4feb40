/* hir_models [-v|-t] MODEL...: each imported model passes the verifier, gets types, and is read
 * back from its text as the same graph, before and after the types.  -v lists results whose shape
 * stays unknown; -t the types of all results (for tests/ir/types_of_models.py). */
#include "frontend/frontend.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool verbose, list;

static void list_types(const struct ht_graph *g, struct ht_arena *a)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++) {
			ht_printf(&b, "%.*s:%d %s ", HT_STR_ARG(n->name), (int)i,
				ht_dtype_info(n->out[i].dtype)->name);
			ht_shape_print(n->out[i].shape, &b);
			ht_putc(&b, '\n');
		}
	fwrite(b.p, 1, b.n, stdout);
}

struct count {
	size_t results, typed, shaped;
};

static void count_types(const struct ht_graph *g, struct count *c)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->outs; i++) {
			c->results++;
			c->typed += n->out[i].dtype != HT_INVALID;
			c->shaped += n->out[i].shape.rank >= 0;
			if (verbose && n->out[i].shape.rank < 0)
				printf("  unknown: %.*s (%.*s) :%d\n", HT_STR_ARG(n->name),
					HT_STR_ARG(n->type), (int)i);
		}
}

/* print → parse → print gives the same bytes, in text and weights. */
static enum ht_status round_trip(const struct ht_graph *g, struct ht_diags *d)
{
	struct ht_text_options opt = { 0 };
	struct ht_unwind u;
	struct ht_arena a;
	struct ht_buf text, weights, text2, weights2;
	struct ht_file file = { .path = "weights", .refs = 1 };
	struct ht_graph *back;
	enum ht_status st;

	ht_arena_init(&a, &u);
	if (setjmp(u.env))
		return HT_E_ENVIRONMENT;
	ht_buf_init(&text, &a);
	ht_buf_init(&weights, &a);
	ht_buf_init(&text2, &a);
	ht_buf_init(&weights2, &a);
	ht_text_print(g, &opt, &text, &weights);
	file.p = (const uint8_t *)weights.p;
	file.n = weights.n;
	st = ht_text_parse(&a, ht_buf_str(&text), "text", weights.n ? &file : NULL, d, &back);
	if (st == HT_OK) {
		ht_text_print(back, &opt, &text2, &weights2);
		if (!ht_str_eq(ht_buf_str(&text), ht_buf_str(&text2)) ||
			!ht_str_eq(ht_buf_str(&weights), ht_buf_str(&weights2)))
			st = ht_error(d, HT_E_VERDICT, HT_NOWHERE,
				"the text reads back as another graph");
	}
	ht_arena_release(&a);
	return st;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static enum ht_status check(const char *path, struct ht_arena *a, struct ht_diags *d)
{
	struct count c = { 0 };
	struct ht_graph *g;
	double start, end;

	HT_TRY(ht_import(a, path, NULL, d, &g));
	HT_TRY(ht_verify(g, d));
	HT_TRY(round_trip(g, d));
	start = now();
	HT_TRY(ht_infer_types(g, d));
	end = now();
	HT_TRY(ht_verify(g, d));
	HT_TRY(round_trip(g, d));
	if (list) {
		list_types(g, a);
		return HT_OK;
	}
	count_types(g, &c);
	printf("%s: %zu nodes, %zu results, %zu typed, %zu shaped, inference %.2f ms\n", path,
		g->nodes, c.results, c.typed, c.shaped, end - start);
	return HT_OK;
}

static bool check_one(const char *path)
{
	struct ht_unwind u;
	struct ht_diags d;
	struct ht_arena a;
	struct ht_buf b;
	enum ht_status st;

	ht_arena_init(&a, &u);
	if (setjmp(u.env)) {
		fprintf(stderr, "out of memory\n");
		exit(HT_E_ENVIRONMENT);
	}
	ht_diags_init(&d);
	st = check(path, &a, &d);
	ht_buf_init(&b, &a);
	for (const struct ht_diag *diag = d.first; diag; diag = diag->next) {
		ht_diag_print(diag, &b);
		ht_putc(&b, '\n');
	}
	printf("%.*s", (int)b.n, b.n ? b.p : "");
	if (st != HT_OK)
		printf("%s: failed with status %d\n", path, (int)st);
	ht_diags_release(&d);
	ht_arena_release(&a);
	return st == HT_OK;
}

int main(int argc, char **argv)
{
	bool good = true;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-v"))
			verbose = true;
		else if (!strcmp(argv[i], "-t"))
			list = true;
		else
			good = check_one(argv[i]) && good;
	return !good;
}
