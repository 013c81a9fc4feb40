/* Open addressing over an array of entries in the order of insertion; never more than two thirds
 * full.  A slot keeps its key's hash: keys are looked at where it is the same, and not to rehash. */
#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

struct ht_map_slot {
	uint32_t hash;
	uint32_t entry; /* its number + 1, or 0 */
};

void ht_map_init(struct ht_map *m, struct ht_arena *a)
{
	*m = (struct ht_map){ .arena = a };
}

static uint32_t hash_of(struct ht_str key)
{
	return (uint32_t)XXH3_64bits(key.n ? key.p : "", key.n);
}

/* The slot that holds `key`, or the free one where it would go. */
static struct ht_map_slot *find(const struct ht_map *m, struct ht_str key, uint32_t hash)
{
	size_t mask = m->slot_count - 1, i = hash & mask;

	while (m->slots[i].entry && (m->slots[i].hash != hash ||
					    !ht_str_eq(m->entries[m->slots[i].entry - 1].key, key)))
		i = (i + 1) & mask;
	return &m->slots[i];
}

void *ht_map_get(const struct ht_map *m, struct ht_str key)
{
	const struct ht_map_slot *slot;

	if (!m->count)
		return NULL;
	slot = find(m, key, hash_of(key));
	return slot->entry ? m->entries[slot->entry - 1].value : NULL;
}

/* A free slot for a key that is not there. */
static struct ht_map_slot *find_free(const struct ht_map *m, uint32_t hash)
{
	size_t mask = m->slot_count - 1, i = hash & mask;

	while (m->slots[i].entry)
		i = (i + 1) & mask;
	return &m->slots[i];
}

static void rehash(struct ht_map *m)
{
	const struct ht_map_slot *old = m->slots;
	size_t slots = m->slot_count;

	m->slot_count = slots ? slots * 2 : 16;
	m->slots = HT_NEW_ARRAY(m->arena, struct ht_map_slot, m->slot_count);
	for (size_t i = 0; i < slots; i++)
		if (old[i].entry)
			*find_free(m, old[i].hash) = old[i];
}

struct ht_map_entry *ht_map_at(struct ht_map *m, struct ht_str key)
{
	uint32_t hash = hash_of(key);
	struct ht_map_slot *slot = m->slot_count ? find(m, key, hash) : NULL;

	if (slot && slot->entry)
		return &m->entries[slot->entry - 1];
	/* Entry numbers have 32 bits. */
	if (m->count >= UINT32_MAX - 1)
		ht_arena_fail(m->arena);
	if (m->count + 1 > m->slot_count / 3 * 2)
		rehash(m);
	slot = find_free(m, hash);
	m->entries = ht_grow(m->arena, m->entries, m->count, &m->cap, sizeof *m->entries);
	m->entries[m->count] = (struct ht_map_entry){ .key = key };
	*slot = (struct ht_map_slot){ hash, (uint32_t)++m->count };
	return &m->entries[m->count - 1];
}
