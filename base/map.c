/* Open addressing over an array of entries in the order of insertion; never more than two thirds
 * full. */
#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void ht_map_init(struct ht_map *m, struct ht_arena *a)
{
	*m = (struct ht_map){ .arena = a };
}

/* The slot that holds `key`, or the free one where it would go. */
static size_t find(const struct ht_map *m, struct ht_str key)
{
	size_t mask = m->slot_count - 1;
	size_t i = (size_t)XXH3_64bits(key.n ? key.p : "", key.n) & mask;

	while (m->slots[i] && !ht_str_eq(m->entries[m->slots[i] - 1].key, key))
		i = (i + 1) & mask;
	return i;
}

void *ht_map_get(const struct ht_map *m, struct ht_str key)
{
	uint32_t slot;

	if (!m->count)
		return NULL;
	slot = m->slots[find(m, key)];
	return slot ? m->entries[slot - 1].value : NULL;
}

static void rehash(struct ht_map *m)
{
	size_t slots = m->slot_count ? m->slot_count * 2 : 16;

	m->slots = HT_NEW_ARRAY(m->arena, uint32_t, slots);
	m->slot_count = slots;
	for (size_t i = 0; i < m->count; i++)
		m->slots[find(m, m->entries[i].key)] = (uint32_t)i + 1;
}

struct ht_map_entry *ht_map_at(struct ht_map *m, struct ht_str key)
{
	size_t i;

	if (m->slot_count) {
		i = find(m, key);
		if (m->slots[i])
			return &m->entries[m->slots[i] - 1];
	}
	/* Entry numbers have 32 bits. */
	if (m->count >= UINT32_MAX - 1)
		ht_arena_fail(m->arena);
	if (m->count + 1 > m->slot_count / 3 * 2)
		rehash(m);
	i = find(m, key);
	m->entries = ht_grow(m->arena, m->entries, m->count, &m->cap, sizeof *m->entries);
	m->entries[m->count] = (struct ht_map_entry){ .key = key };
	m->slots[i] = (uint32_t)++m->count;
	return &m->entries[m->count - 1];
}
