/* Which options the compilations of a model have read so far: the first level of keys
 * (graph_key.c).  An entry has a line for each set of options. */
#include "api/api.h"

#include <string.h>

static size_t parse_sets(struct ht_str text, struct ht_reads set[HT_READ_SETS])
{
	size_t n = 0;

	for (const char *p = text.p, *end = text.p + text.n; p < end && n < HT_READ_SETS;) {
		const char *line = memchr(p, '\n', (size_t)(end - p));

		if (!line)
			break;
		set[n++] = ht_reads_parse((struct ht_str){ p, (size_t)(line - p) });
		p = line + 1;
	}
	return n;
}

static size_t known_sets(const struct ht_wanted *w, struct ht_diags *d, struct ht_arena *a,
	struct ht_reads set[HT_READ_SETS])
{
	struct ht_cache_key k = ht_graph_key(w, HT_CACHE_READS, (struct ht_reads){ 0 }, a);
	struct ht_cached c;
	size_t n;

	if (!ht_cache_get(w->model->cache, &k, d, &c))
		return 0;
	n = parse_sets(c.payload, set);
	ht_cached_release(&c);
	return n;
}

size_t ht_read_sets(const struct ht_wanted *w, struct ht_diags *d, struct ht_arena *a,
	struct ht_reads set[HT_READ_SETS])
{
	return ht_cache_graph_name(w->model->cache) ? ht_index_sets(w, d, a, set)
						    : known_sets(w, d, a, set);
}

/* If another process adds a set at the same time, one of the two is lost.  The next compilation
 * that misses adds it again. */
void ht_read_sets_add(
	const struct ht_wanted *w, struct ht_reads reads, struct ht_diags *d, struct ht_arena *a)
{
	struct ht_cache_key k = ht_graph_key(w, HT_CACHE_READS, (struct ht_reads){ 0 }, a);
	struct ht_reads set[HT_READ_SETS];
	size_t n = known_sets(w, d, a, set);
	struct ht_str piece;
	struct ht_buf b;

	if (ht_cache_graph_name(w->model->cache))
		ht_index_add(w, reads, d, a);
	for (size_t i = 0; i < n; i++)
		if (ht_same_reads(set[i], reads))
			return;
	ht_buf_init(&b, a);
	ht_reads_print(&b, reads);
	ht_putc(&b, '\n');
	for (size_t i = 0; i < n && i + 1 < HT_READ_SETS; i++) {
		ht_reads_print(&b, set[i]);
		ht_putc(&b, '\n');
	}
	piece = ht_buf_str(&b);
	ht_cache_put(w->model->cache, &k, &(struct ht_payload){ &piece, 1, 0, 0 }, d);
}
