/* Signatures of artefacts: a module of its own, loaded on first use, so that only processes that
 * sign or verify load libcrypto. */
#ifndef HT_CRYPTO_H
#define HT_CRYPTO_H

#include "base/base.h"

enum { HT_PUBLIC_KEY = 32, HT_SIGNATURE = 64 };

/* The module's one exported symbol, `ht_crypto`.  Keys are PEM files of Ed25519 keys without a
 * password.  HT_E_ENVIRONMENT: the file cannot be read; HT_E_INPUT: it is no such key. */
struct ht_crypto {
	int abi; /* HT_CRYPTO_ABI */
	enum ht_status (*public_key)(
		const char *path, struct ht_diags *d, uint8_t key[HT_PUBLIC_KEY]);
	/* Signs with the private key in file `path`; `key` receives its public key. */
	enum ht_status (*sign)(const char *path, struct ht_str message, struct ht_diags *d,
		uint8_t signature[HT_SIGNATURE], uint8_t key[HT_PUBLIC_KEY]);
	bool (*verify)(const uint8_t key[HT_PUBLIC_KEY], struct ht_str message,
		const uint8_t signature[HT_SIGNATURE]);
};

#define HT_CRYPTO_ABI 1

#endif
