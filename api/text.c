/* Writes results as files: bytes, and the text form of a graph.  Constants that are too large
 * for the text go into FILE.weights beside FILE.hir. */
#include "api/api.h"

#include <halftone/tool.h>

#include <string.h>
#include <sys/stat.h>

enum ht_status ht_put_bytes(
	struct ht_str s, const char *path, struct ht_diags *d, struct ht_bytes *out)
{
	return path ? ht_file_write(path, s.p, s.n, d) : ht_bytes_of(s, out);
}

/* There can be no file beside standard output, pipes and devices. */
static bool has_a_beside(const char *path)
{
	struct stat s;

	return path && strcmp(path, "-") != 0 && (stat(path, &s) || S_ISREG(s.st_mode));
}

static const char *weights_path(const char *path, struct ht_arena *a)
{
	struct ht_str p = ht_str(path);
	size_t stem = ht_str_ends(p, ".hir") ? p.n - 4 : p.n;

	return ht_str_printf(a, "%.*s.weights", (int)stem, path).p;
}

/* The files appear only when both are written. */
static enum ht_status write_both(
	struct ht_output *text, struct ht_str t, struct ht_output *weights, struct ht_str w)
{
	enum ht_status st = ht_output_write(text, t.p, t.n);

	if (st == HT_OK)
		st = ht_output_flush(text);
	if (st == HT_OK)
		st = ht_output_write(weights, w.p, w.n);
	if (st == HT_OK)
		st = ht_output_commit(weights);
	else
		ht_output_abort(weights);
	if (st == HT_OK)
		return ht_output_commit(text);
	ht_output_abort(text);
	return st;
}

enum ht_status ht_put_text(const struct ht_graph *g, const char *path, struct ht_arena *a,
	struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_text_options opt = { .weights_inline = !has_a_beside(path) };
	struct ht_buf text, weights;
	struct ht_output *t, *w;
	const char *beside;
	enum ht_status st;

	ht_buf_init(&text, a);
	ht_buf_init(&weights, a);
	ht_text_print(g, &opt, &text, &weights);
	if (!weights.n)
		return ht_put_bytes(ht_buf_str(&text), path, d, out);
	beside = weights_path(path, a);
	HT_TRY(ht_output_open(path, d, &t));
	st = ht_output_open(beside, d, &w);
	if (st != HT_OK) {
		ht_output_abort(t);
		return st;
	}
	return write_both(t, ht_buf_str(&text), w, ht_buf_str(&weights));
}
