/* The bytes of an entry: header, key text, payload, and a SHA-256.
 *
 *	0  8 bytes  "htentry\n"       40  8 bytes  bytes of the payload
 *	8  4 bytes  HT_ENTRY_VERSION  48  8 bytes  offset of the bulk, and
 *	12 4 bytes  kind              56  8 bytes  its bytes
 *	16 8 bytes  bytes of all      64  16 bytes XXH3-128 of the bulk
 *	24 8 bytes  bytes of the key's text
 *	32 8 bytes  offset of the payload
 *	80 the key's text, zeros up to the payload; the digest, 32 bytes, follows the payload
 *
 * The bulk is the weights in the payload, which are most of it.  The digest covers everything else
 * and the hash of the bulk, which is computed five times as fast.  Both detect damage.  Only the
 * digest also detects a collision that somebody constructed.  This matters for keys and code; a
 * person who can write weights here has no need of a collision.
 *
 * Numbers are little-endian.  An entry contains no time, host or path, so equal entries have equal
 * bytes wherever they were made. */
#include "cache/cache.h"

#include <string.h>

#define MAGIC "htentry\n"

enum { HEAD = 80, DIGEST = 32 };

struct head {
	char magic[8];
	uint32_t version, kind;
	uint64_t bytes, key, payload_at, payload, bulk_at, bulk;
	struct ht_hash bulk_hash;
};
_Static_assert(sizeof(struct head) == HEAD, "a head has no gaps");

static size_t payload_place(enum ht_cache_kind kind, size_t key)
{
	size_t step = kind == HT_CACHE_GRAPH ? 4096 : 64;

	return (HEAD + key + step - 1) / step * step;
}

static size_t bytes_of(const struct ht_str *piece, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += piece[i].n;
	return bytes;
}

static struct ht_str make_head(
	struct ht_arena *a, const struct ht_cache_key *k, const struct ht_payload *from)
{
	size_t n = payload_place(k->kind, k->text.n), bulk = from->bulk_end - from->bulk;
	char *p = ht_alloc(a, n);
	struct head h = { .magic = MAGIC,
		.version = HT_ENTRY_VERSION,
		.kind = (uint32_t)k->kind,
		.key = k->text.n,
		.payload_at = n,
		.payload = bytes_of(from->piece, from->pieces),
		.bulk_at = n + bytes_of(from->piece, from->bulk),
		.bulk = bytes_of(from->piece + from->bulk, bulk),
		.bulk_hash = ht_hash_pieces(from->piece + from->bulk, bulk) };

	h.bytes = n + h.payload + DIGEST;
	memcpy(p, &h, sizeof h);
	memcpy(p + HEAD, k->text.p, k->text.n);
	return (struct ht_str){ p, n };
}

struct ht_cache_entry ht_entry_make(
	struct ht_arena *a, const struct ht_cache_key *k, const struct ht_payload *from)
{
	size_t n = from->pieces;
	struct ht_cache_entry e = { .piece = HT_NEW_ARRAY(a, struct ht_str, n + 2),
		.pieces = n + 2 };
	char *digest = ht_alloc(a, DIGEST);
	struct ht_sha256 s;

	e.piece[0] = make_head(a, k, from);
	for (size_t i = 0; i < n; i++)
		e.piece[1 + i] = from->piece[i];
	e.piece[1 + n] = (struct ht_str){ digest, DIGEST };
	e.bytes = bytes_of(e.piece, e.pieces);
	ht_sha256_begin(&s);
	for (size_t i = 0; i <= n; i++)
		if (i <= from->bulk || i > from->bulk_end)
			ht_sha256_add(&s, e.piece[i].p, e.piece[i].n);
	ht_sha256_end(&s, (uint8_t *)digest);
	return e;
}

static const char *check_head(const struct head *h, size_t n)
{
	if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
		return "it does not begin as an entry does";
	if (h->version != HT_ENTRY_VERSION)
		return "it is of another version";
	if (h->bytes != n)
		return "it has another size than it says";
	if (h->kind >= HT_CACHE_KINDS || h->key > n - HEAD - DIGEST ||
		h->payload_at != payload_place((enum ht_cache_kind)h->kind, h->key) ||
		h->payload_at > n - DIGEST || h->payload != n - DIGEST - h->payload_at ||
		h->bulk_at < h->payload_at || h->bulk_at > n - DIGEST ||
		h->bulk > n - DIGEST - h->bulk_at)
		return "its numbers do not fit together";
	return NULL;
}

static bool is_whole(const struct head *h, struct ht_str bytes)
{
	size_t behind = h->bulk_at + h->bulk;
	uint8_t digest[DIGEST];
	struct ht_sha256 s;

	ht_sha256_begin(&s);
	ht_sha256_add(&s, bytes.p, h->bulk_at);
	ht_sha256_add(&s, bytes.p + behind, bytes.n - DIGEST - behind);
	ht_sha256_end(&s, digest);
	return !memcmp(digest, bytes.p + bytes.n - DIGEST, DIGEST) &&
	       ht_hash_eq(ht_hash_bytes(bytes.p + h->bulk_at, h->bulk), h->bulk_hash);
}

const char *ht_entry_check(struct ht_str bytes, const struct ht_cache_key *k, struct ht_opened *out)
{
	const char *wrong;
	struct head h;

	if (bytes.n < HEAD + DIGEST)
		return "it is too short";
	memcpy(&h, bytes.p, sizeof h);
	wrong = check_head(&h, bytes.n);
	if (wrong)
		return wrong;
	if (!is_whole(&h, bytes))
		return "its digest is not that of its bytes";
	*out = (struct ht_opened){ .kind = (enum ht_cache_kind)h.kind,
		.key = { bytes.p + HEAD, h.key },
		.payload = { bytes.p + h.payload_at, h.payload } };
	out->find = ht_hash_bytes(out->key.p, out->key.n);
	if (k && (k->kind != out->kind || !ht_hash_eq(k->find, out->find)))
		return "it belongs elsewhere";
	return NULL;
}

/* Whether a key's text is of this version, which its second field states. */
static bool is_own_key(struct ht_str text)
{
	struct ht_str name, value;
	size_t at = 0;
	int64_t n;

	return ht_key_next(text, &at, &name, &value) && ht_key_next(text, &at, &name, &value) &&
	       ht_str_is(name, "entry") && ht_parse_int(value, &n) && n == HT_ENTRY_VERSION;
}

bool ht_entry_is_own(struct ht_str bytes, struct ht_hash name)
{
	struct ht_str key = { bytes.p + HEAD, 0 };
	struct head h;

	if (bytes.n < HEAD)
		return false;
	memcpy(&h, bytes.p, sizeof h);
	key.n = h.key;
	return h.key <= bytes.n - HEAD && is_own_key(key) &&
	       ht_hash_eq(ht_hash_bytes(key.p, key.n), name);
}

bool ht_entry_is_foreign(struct ht_str bytes)
{
	uint32_t version;

	if (bytes.n < sizeof MAGIC - 1 + sizeof version ||
		memcmp(bytes.p, MAGIC, sizeof MAGIC - 1) != 0)
		return false;
	memcpy(&version, bytes.p + sizeof MAGIC - 1, sizeof version);
	return version != HT_ENTRY_VERSION;
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
