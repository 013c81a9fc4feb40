/* The weights file beside a .hir text. */
#include "ir/text.h"

#include <string.h>

struct ht_str ht_hash_text(struct ht_arena *a, struct ht_hash h)
{
	return ht_str_printf(
		a, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

static void pad(struct ht_buf *b)
{
	static const char zeros[HT_WEIGHTS_ALIGN];

	if (b->n % HT_WEIGHTS_ALIGN)
		ht_put(b, zeros, HT_WEIGHTS_ALIGN - b->n % HT_WEIGHTS_ALIGN);
}

void ht_weights_append(struct ht_buf *weights, struct ht_hash h, const struct ht_blob *b)
{
	uint64_t head[3] = { h.hi, h.lo, b->n };

	if (!weights->n)
		ht_puts(weights, HT_WEIGHTS_MAGIC);
	pad(weights);
	ht_put(weights, head, sizeof head);
	pad(weights);
	ht_put(weights, b->p, b->n);
}

static enum ht_status damaged(
	struct ht_diags *d, const struct ht_file *f, size_t offset, const char *what)
{
	struct ht_where at = { .path = f->path, .offset = (int64_t)offset };

	return ht_error(d, HT_E_INPUT, at, "%s", what);
}

static size_t align(size_t n)
{
	return (n + HT_WEIGHTS_ALIGN - 1) / HT_WEIGHTS_ALIGN * HT_WEIGHTS_ALIGN;
}

enum ht_status ht_weights_open(
	struct ht_arena *a, struct ht_file *f, struct ht_diags *d, struct ht_weights *w)
{
	size_t at = sizeof HT_WEIGHTS_MAGIC - 1;

	ht_map_init(&w->spans, a);
	w->file = f;
	if (!f)
		return HT_OK;
	if (f->n < at || memcmp(f->p, HT_WEIGHTS_MAGIC, at) != 0)
		return damaged(d, f, 0, "is no weights file");
	for (at = align(at); at < f->n;) {
		struct ht_weights_span *span = HT_NEW(a, struct ht_weights_span);
		uint64_t head[3];

		if (f->n - at < HT_WEIGHTS_ALIGN)
			return damaged(d, f, at, "the head of a record is cut off");
		memcpy(head, f->p + at, sizeof head);
		at += HT_WEIGHTS_ALIGN;
		if (head[2] > f->n - at)
			return damaged(d, f, at, "the bytes of a record are cut off");
		span->offset = at;
		span->n = (size_t)head[2];
		ht_map_at(&w->spans, ht_hash_text(a, (struct ht_hash){ head[1], head[0] }))->value =
			span;
		if (f->n - at < align(span->n))
			break;
		at += align(span->n);
	}
	return HT_OK;
}
