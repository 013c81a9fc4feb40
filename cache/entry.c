/* The bytes of an entry: head, key text, payload, and the SHA-256 of all that.
 *
 *	0  8 bytes  "htentry\n"       24  8 bytes  bytes of the key's text
 *	8  4 bytes  version: 1        32  8 bytes  where the payload begins
 *	12 4 bytes  kind              40  8 bytes  bytes of the payload
 *	16 8 bytes  bytes of all      48  16 bytes zero
 *	64 the key's text, zeros up to the payload; behind the payload the digest, 32 bytes
 *
 * Numbers have their low byte first.  There is no time, host or path in it: equal entries are equal
 * bytes wherever they were made. */
#include "cache/cache.h"

#include <string.h>

#define MAGIC "htentry\n"

enum { VERSION = 1, HEAD = 64, DIGEST = 32 };

struct head {
	char magic[8];
	uint32_t version, kind;
	uint64_t bytes, key, payload_at, payload;
	uint64_t zero[2];
};
_Static_assert(sizeof(struct head) == HEAD, "a head has no gaps");

static size_t payload_place(enum ht_cache_kind kind, size_t key)
{
	size_t step = kind == HT_CACHE_GRAPH ? 4096 : 64;

	return (HEAD + key + step - 1) / step * step;
}

static struct ht_str make_head(struct ht_arena *a, const struct ht_cache_key *k, size_t payload)
{
	size_t n = payload_place(k->kind, k->text.n);
	char *p = ht_alloc(a, n);
	struct head h = { .magic = MAGIC,
		.version = VERSION,
		.kind = (uint32_t)k->kind,
		.bytes = n + payload + DIGEST,
		.key = k->text.n,
		.payload_at = n,
		.payload = payload };

	memcpy(p, &h, sizeof h);
	memcpy(p + HEAD, k->text.p, k->text.n);
	return (struct ht_str){ p, n };
}

struct ht_cache_entry ht_entry_make(struct ht_arena *a, const struct ht_cache_key *k,
	const struct ht_str *payload, size_t pieces)
{
	struct ht_cache_entry e = { .piece = HT_NEW_ARRAY(a, struct ht_str, pieces + 2),
		.pieces = pieces + 2 };
	char *digest = ht_alloc(a, DIGEST);
	struct ht_sha256 s, whole;
	size_t n = 0;

	for (size_t i = 0; i < pieces; i++) {
		e.piece[1 + i] = payload[i];
		n += payload[i].n;
	}
	e.piece[0] = make_head(a, k, n);
	e.piece[1 + pieces] = (struct ht_str){ digest, DIGEST };
	e.bytes = e.piece[0].n + n + DIGEST;
	ht_sha256_begin(&s);
	for (size_t i = 0; i <= pieces; i++)
		ht_sha256_add(&s, e.piece[i].p, e.piece[i].n);
	whole = s;
	ht_sha256_end(&s, (uint8_t *)digest);
	ht_sha256_add(&whole, digest, DIGEST);
	ht_sha256_end(&whole, e.sha256);
	return e;
}

static const char *check_head(const struct head *h, size_t n)
{
	if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
		return "it does not begin as an entry does";
	if (h->version != VERSION)
		return "it is of another version";
	if (h->bytes != n)
		return "it has another size than it says";
	if (h->kind >= HT_CACHE_KINDS || h->key > n - HEAD - DIGEST ||
		h->payload_at != payload_place((enum ht_cache_kind)h->kind, h->key) ||
		h->payload_at > n - DIGEST || h->payload != n - DIGEST - h->payload_at)
		return "its numbers do not fit together";
	return NULL;
}

const char *ht_entry_check(struct ht_str bytes, const struct ht_cache_key *k, struct ht_opened *out)
{
	struct head h;
	uint8_t digest[DIGEST];
	const char *wrong;

	if (bytes.n < HEAD + DIGEST)
		return "it is too short";
	memcpy(&h, bytes.p, sizeof h);
	wrong = check_head(&h, bytes.n);
	if (wrong)
		return wrong;
	ht_sha256(bytes.p, bytes.n - DIGEST, digest);
	if (memcmp(digest, bytes.p + bytes.n - DIGEST, DIGEST) != 0)
		return "its digest is not that of its bytes";
	*out = (struct ht_opened){ .kind = (enum ht_cache_kind)h.kind,
		.key = { bytes.p + HEAD, h.key },
		.payload = { bytes.p + h.payload_at, h.payload } };
	out->find = ht_hash_bytes(out->key.p, out->key.n);
	if (k && (k->kind != out->kind || !ht_hash_eq(k->find, out->find)))
		return "it belongs elsewhere";
	return NULL;
}

bool ht_entry_key(struct ht_str begin, struct ht_str *out)
{
	struct head h;

	if (begin.n < HEAD)
		return false;
	memcpy(&h, begin.p, sizeof h);
	if (h.bytes < HEAD + DIGEST || check_head(&h, h.bytes) || h.key > begin.n - HEAD)
		return false;
	*out = (struct ht_str){ begin.p + HEAD, h.key };
	return true;
}

size_t ht_entry_bytes(struct ht_str bytes)
{
	struct head h;

	if (bytes.n < HEAD + DIGEST)
		return 0;
	memcpy(&h, bytes.p, sizeof h);
	return h.bytes <= bytes.n && !check_head(&h, h.bytes) ? h.bytes : 0;
}
