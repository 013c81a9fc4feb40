#include "passes/by_value.h"

/* Has no padding, so that equal values have equal bytes. */
struct key {
	struct ht_node *node;
	int64_t index;
};

static struct ht_str bytes_of(const struct key *k)
{
	return (struct ht_str){ (const char *)k, sizeof *k };
}

void *ht_by_value(const struct ht_map *m, struct ht_value v)
{
	const struct key key = { v.node, v.index };

	return ht_map_get(m, bytes_of(&key));
}

void ht_set_by_value(struct ht_map *m, struct ht_arena *a, struct ht_value v, void *known)
{
	struct key *key = HT_NEW(a, struct key);

	*key = (struct key){ v.node, v.index };
	ht_map_at(m, bytes_of(key))->value = known;
}

struct ht_value ht_value_of_entry(const struct ht_map *m, size_t i)
{
	const struct key *key = (const void *)m->entries[i].key.p;

	return (struct ht_value){ .node = key->node, .index = (int32_t)key->index };
}
