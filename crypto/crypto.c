/* Ed25519 through libcrypto. */
#include "base/crypto.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

static struct ht_where in(const char *path)
{
	return (struct ht_where){ .path = path, .offset = -1 };
}

/* A key with a password is refused, since no user is there to enter it. */
static int no_password(char *to, int size, int writing, void *arg)
{
	(void)to;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static EVP_PKEY *parse(struct ht_file *f, bool is_private)
{
	BIO *b = BIO_new_mem_buf(f->p, (int)f->n);
	EVP_PKEY *k = NULL;

	if (b)
		k = is_private ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL)
			       : PEM_read_bio_PUBKEY(b, NULL, no_password, NULL);
	BIO_free(b);
	if (k && EVP_PKEY_get_id(k) != EVP_PKEY_ED25519) {
		EVP_PKEY_free(k);
		k = NULL;
	}
	return k;
}

static enum ht_status read_key(
	const char *path, bool is_private, struct ht_diags *d, EVP_PKEY **out)
{
	enum { MOST = 1 << 16 };
	struct ht_file *f;

	*out = NULL;
	HT_TRY(ht_file_map(path, MOST, d, &f));
	*out = parse(f, is_private);
	ht_file_unref(f);
	if (*out)
		return HT_OK;
	return ht_error(d, HT_E_INPUT, in(path),
		is_private ? "no private Ed25519 key in PEM without a password; "
			     "openssl genpkey -algorithm ed25519 makes one"
			   : "no public Ed25519 key in PEM; openssl pkey -pubout writes that of a "
			     "private one");
}

static bool raw_public(EVP_PKEY *k, uint8_t key[HT_PUBLIC_KEY])
{
	size_t n = HT_PUBLIC_KEY;

	return EVP_PKEY_get_raw_public_key(k, key, &n) == 1 && n == HT_PUBLIC_KEY;
}

static enum ht_status public_key(const char *path, struct ht_diags *d, uint8_t key[HT_PUBLIC_KEY])
{
	EVP_PKEY *k;
	bool done;

	HT_TRY(read_key(path, false, d, &k));
	done = raw_public(k, key);
	EVP_PKEY_free(k);
	return done ? HT_OK : ht_error(d, HT_E_INTERNAL, in(path), "libcrypto hides the key");
}

static enum ht_status sign(const char *path, struct ht_str message, struct ht_diags *d,
	uint8_t signature[HT_SIGNATURE], uint8_t key[HT_PUBLIC_KEY])
{
	size_t n = HT_SIGNATURE;
	EVP_MD_CTX *c;
	EVP_PKEY *k;
	bool done;

	HT_TRY(read_key(path, true, d, &k));
	c = EVP_MD_CTX_new();
	done = c && EVP_DigestSignInit(c, NULL, NULL, NULL, k) == 1 &&
	       EVP_DigestSign(c, signature, &n, (const uint8_t *)message.p, message.n) == 1 &&
	       n == HT_SIGNATURE && raw_public(k, key);
	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	return done ? HT_OK : ht_error(d, HT_E_INTERNAL, in(path), "libcrypto does not sign");
}

static bool verify(const uint8_t key[HT_PUBLIC_KEY], struct ht_str message,
	const uint8_t signature[HT_SIGNATURE])
{
	EVP_PKEY *k = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, HT_PUBLIC_KEY);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = k && c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, k) == 1 &&
		    EVP_DigestVerify(
			    c, signature, HT_SIGNATURE, (const uint8_t *)message.p, message.n) == 1;

	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	return good;
}

extern const struct ht_crypto ht_crypto;
__attribute__((visibility("default")))
const struct ht_crypto ht_crypto = { HT_CRYPTO_ABI, public_key, sign, verify };
