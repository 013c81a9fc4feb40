/* Signatures of artefacts: Ed25519 over the header's digest, by a module that is loaded on
 * demand. */
#include "runtime/format.h"

static enum ht_status load(struct ht_diags *d, const struct ht_crypto **out)
{
	static struct ht_module module = { .what = "what verifies signatures",
		.file = "halftone/halftone-crypto.so",
		.variable = "HALFTONE_CRYPTO",
		.symbol = "ht_crypto",
		.abi = HT_CRYPTO_ABI };
	const void *symbol;
	enum ht_status st = ht_module_load(&module, NULL, d, &symbol);

	*out = symbol;
	return st;
}

/* The signed message.  It names its purpose, so that a signature of something else is never
 * valid here. */
struct message {
	char text[sizeof "halftone.artefact/2\n" - 1];
	uint8_t digest[HT_DIGEST];
};

static struct message message_of(const struct ht_artefact_header *h)
{
	struct message m;

	memcpy(m.text, "halftone.artefact/2\n", sizeof m.text);
	ht_header_digest(h, m.digest);
	return m;
}

static struct ht_str bytes_of(const struct message *m)
{
	return (struct ht_str){ (const char *)m, sizeof *m };
}

enum ht_status ht_header_sign(struct ht_artefact_header *h, const char *key, struct ht_diags *d)
{
	struct message m = message_of(h);
	const struct ht_crypto *crypto;

	HT_TRY(load(d, &crypto));
	HT_TRY(crypto->sign(key, bytes_of(&m), d, h->signature, h->key));
	h->check = ht_hash_bytes(h->signature, sizeof h->signature).lo;
	return HT_OK;
}

enum ht_status ht_header_verify(const struct ht_artefact_header *h, const char *path,
	const char *key_path, struct ht_diags *d)
{
	struct ht_where in = { .path = path, .offset = -1 };
	struct message m = message_of(h);
	const struct ht_crypto *crypto;
	uint8_t key[HT_PUBLIC_KEY];

	HT_TRY(load(d, &crypto));
	HT_TRY(crypto->public_key(key_path, d, key));
	if (!h->check)
		return ht_error(d, HT_E_INPUT, in,
			"this artefact is refused: it is not signed; %s has to have signed it",
			key_path);
	if (memcmp(key, h->key, sizeof key) != 0)
		return ht_error(d, HT_E_INPUT, in,
			"this artefact is refused: it is signed with another key than that of %s",
			key_path);
	if (!crypto->verify(key, bytes_of(&m), h->signature))
		return ht_error(d, HT_E_INPUT, in,
			"this artefact is refused: its signature is not that of %s", key_path);
	return HT_OK;
}
