/* A hash table with open addressing over an array of entries in the order of insertion; at most two
 * thirds of its slots are used.  A slot keeps the hash of its key, so keys are compared only if
 * their hashes are equal, and rehashing reads no keys.  A map of few entries has no slots, since
 * graphs of functions have many such maps. */
#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { FEW = 8 };

struct ht_map_slot {
	uint32_t hash;
	uint32_t entry; /* number of the entry + 1; 0: the slot is empty */
};

void ht_map_init(struct ht_map *m, struct ht_arena *a)
{
	*m = (struct ht_map){ .arena = a };
}

static uint32_t hash_of(struct ht_str key)
{
	return (uint32_t)XXH3_64bits(key.n ? key.p : "", key.n);
}

static struct ht_map_entry *find_few(const struct ht_map *m, struct ht_str key)
{
	for (size_t i = 0; i < m->count; i++)
		if (ht_str_eq(m->entries[i].key, key))
			return &m->entries[i];
	return NULL;
}

static struct ht_map_entry *find_hashed(const struct ht_map *m, struct ht_str key, uint32_t hash)
{
	size_t mask = m->slot_count - 1;

	for (size_t i = hash & mask; m->slots[i].entry; i = (i + 1) & mask) {
		struct ht_map_entry *e = &m->entries[m->slots[i].entry - 1];

		if (m->slots[i].hash == hash && ht_str_eq(e->key, key))
			return e;
	}
	return NULL;
}

void *ht_map_get(const struct ht_map *m, struct ht_str key)
{
	const struct ht_map_entry *e =
		m->slot_count ? find_hashed(m, key, hash_of(key)) : find_few(m, key);

	return e ? e->value : NULL;
}

static void fill_slot(struct ht_map *m, struct ht_map_slot s)
{
	size_t mask = m->slot_count - 1, i = s.hash & mask;

	while (m->slots[i].entry)
		i = (i + 1) & mask;
	m->slots[i] = s;
}

static void make_slots(struct ht_map *m)
{
	m->slot_count = 4 * FEW;
	m->slots = HT_NEW_ARRAY(m->arena, struct ht_map_slot, m->slot_count);
	for (size_t i = 0; i < m->count; i++)
		fill_slot(m, (struct ht_map_slot){ hash_of(m->entries[i].key), (uint32_t)i + 1 });
}

static void double_slots(struct ht_map *m)
{
	const struct ht_map_slot *old = m->slots;
	size_t slots = m->slot_count;

	m->slot_count = slots * 2;
	m->slots = HT_NEW_ARRAY(m->arena, struct ht_map_slot, m->slot_count);
	for (size_t i = 0; i < slots; i++)
		if (old[i].entry)
			fill_slot(m, old[i]);
}

void ht_map_reserve(struct ht_map *m, size_t n)
{
	HT_CHECK(!m->cap);
	m->cap = n;
	m->entries = n ? HT_NEW_ARRAY(m->arena, struct ht_map_entry, n) : NULL;
	if (n <= FEW)
		return;
	for (m->slot_count = 4 * FEW; n > m->slot_count / 3 * 2; m->slot_count *= 2)
		;
	m->slots = HT_NEW_ARRAY(m->arena, struct ht_map_slot, m->slot_count);
}

static struct ht_map_entry *add(struct ht_map *m, struct ht_str key)
{
	/* Entry numbers have 32 bits. */
	if (m->count >= UINT32_MAX - 1)
		ht_arena_fail(m->arena);
	m->entries = ht_grow(m->arena, m->entries, m->count, &m->cap, sizeof *m->entries);
	m->entries[m->count] = (struct ht_map_entry){ .key = key };
	return &m->entries[m->count++];
}

struct ht_map_entry *ht_map_at(struct ht_map *m, struct ht_str key)
{
	struct ht_map_entry *e;
	uint32_t hash;

	if (!m->slot_count) {
		e = find_few(m, key);
		if (e || m->count < FEW)
			return e ? e : add(m, key);
		make_slots(m);
	}
	hash = hash_of(key);
	e = find_hashed(m, key, hash);
	if (e)
		return e;
	e = add(m, key);
	if (m->count > m->slot_count / 3 * 2)
		double_slots(m);
	fill_slot(m, (struct ht_map_slot){ hash, (uint32_t)m->count });
	return e;
}
