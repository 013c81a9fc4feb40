/* Indices of graphs, beside the entries: DIR/KEY.idx, which appears whole like an entry, and
 * DIR/KEY.lock, which a process holds from before it reads an index that it changes until it has
 * written it. */
#include "cache/store.h"

#include <string.h>

bool ht_graph_name_is_legal(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

	return n && n <= HT_GRAPH_NAME && !name[n];
}

struct ht_str ht_store_index_path(const struct ht_store *s, const char *name, struct ht_arena *a)
{
	return ht_str_printf(a, "%s/%s.idx", s->given, name);
}

bool ht_store_index_load(
	struct ht_store *s, const char *name, struct ht_arena *a, struct ht_str *out)
{
	return ht_store_load(s, ht_store_index_path(s, name, a).p, HT_INDEX_BYTES, a, out);
}

bool ht_store_index_save(
	struct ht_store *s, const char *name, struct ht_str text, struct ht_arena *a)
{
	return ht_store_publish(s, ht_store_index_path(s, name, a).p, &text, 1);
}

int ht_store_index_lock(struct ht_store *s, const char *name, struct ht_arena *a)
{
	return ht_store_lock_file(s, ht_str_printf(a, "%s/%s.lock", s->given, name).p, true);
}

void ht_store_index_unlock(struct ht_store *s, int fd)
{
	ht_store_unlock(s, fd);
}

bool ht_store_writes(const struct ht_store *s)
{
	return s->opt.mode == HT_CACHE_RW;
}
