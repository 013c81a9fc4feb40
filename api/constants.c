/* Constants of programs, found by content, so that another program reads them in place of equal ones of its own. */
#include "api/api.h"

#include <string.h>

/* Smaller constants are no more than what they would take here. */
enum { LEAST = 4096 };

/* Two contents with the same key are compared byte by byte. */
struct key {
	struct ht_hash hash;
	uint64_t bytes;
};

static struct key key_of(const void *p, size_t n)
{
	return (struct key){ ht_hash_bytes(p, n), n };
}

void ht_constants_init(struct ht_constants *c, struct ht_arena *a)
{
	ht_map_init(&c->at, a);
}

static void add(struct ht_constants *c, const void *p, size_t n)
{
	struct key *key = HT_NEW(c->at.arena, struct key);
	struct ht_map_entry *e;

	*key = key_of(p, n);
	e = ht_map_at(&c->at, (struct ht_str){ (const char *)key, sizeof *key });
	if (!e->value)
		e->value = (void *)(uintptr_t)p;
}

void ht_constants_add(struct ht_constants *c, const struct ht_program *p)
{
	const uint64_t *bytes = ht_image_constants(p->rt.image);
	uint32_t n = ht_image_count(p->rt.image, HT_IMAGE_CONSTANTS);

	for (uint32_t i = 0; i < n; i++)
		if (bytes[i] >= LEAST && p->rt.constant[i] % HT_IMAGE_ALIGN == 0)
			add(c, (const void *)(uintptr_t)p->rt.constant[i], (size_t)bytes[i]);
}

const void *ht_constants_find(const struct ht_constants *c, const void *p, size_t n)
{
	struct key key;
	const void *at;

	if (!c || n < LEAST)
		return NULL;
	key = key_of(p, n);
	at = ht_map_get(&c->at, (struct ht_str){ (const char *)&key, sizeof key });
	return at && !memcmp(at, p, n) ? at : NULL;
}
