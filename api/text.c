/* The text form of a graph for a file: constants that are too large for it go into FILE.weights
 * beside FILE.hir. */
#include "api/api.h"

#include <string.h>

static enum ht_status write_weights(
	const char *path, struct ht_str weights, struct ht_arena *a, struct ht_diags *d)
{
	struct ht_str p = ht_str(path);
	size_t stem = ht_str_ends(p, ".hir") ? p.n - 4 : p.n;
	struct ht_output *o;
	enum ht_status st;

	HT_TRY(ht_output_open(ht_str_printf(a, "%.*s.weights", (int)stem, path).p, d, &o));
	st = ht_output_write(o, weights.p, weights.n);
	if (st == HT_OK)
		return ht_output_commit(o);
	ht_output_abort(o);
	return st;
}

enum ht_status ht_text_for_file(const struct ht_graph *g, const char *path, struct ht_arena *a,
	struct ht_diags *d, struct ht_buf *text)
{
	struct ht_text_options opt = { .weights_inline = !path || !strcmp(path, "-") };
	struct ht_buf weights;

	ht_buf_init(&weights, a);
	ht_text_print(g, &opt, text, &weights);
	return weights.n ? write_weights(path, ht_buf_str(&weights), a, d) : HT_OK;
}
