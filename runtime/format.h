/* The file's header, for writing and reading (docs/artefact.md).  Numbers have their low byte
 * first, as on every machine that runs the code. */
#ifndef HT_FORMAT_H
#define HT_FORMAT_H

#include "runtime/artefact.h"

#include <string.h>

#define HT_ARTEFACT_MAGIC "halftone"

enum { HT_ARTEFACT_VERSION = 9, HT_ARTEFACT_PAGE = 4096 };
enum ht_section { HT_MANIFEST, HT_INDEX, HT_PLANS, HT_CODE, HT_WEIGHTS, HT_SECTIONS };

struct ht_artefact_section {
	uint32_t kind, zero;
	uint64_t offset, bytes, zero2;
	uint8_t digest[HT_DIGEST]; /* SHA-256 */
};

struct ht_artefact_header {
	char magic[8];
	uint32_t version, sections;
	uint64_t bytes;            /* of the file */
	uint8_t digest[HT_DIGEST]; /* ht_header_digest() */
	uint64_t check;            /* of the signature: half of its XXH3-128; 0: there is none */
	uint8_t signature[HT_SIGNATURE]; /* Ed25519, see ht_header_sign() */
	uint8_t key[HT_PUBLIC_KEY];      /* the signer's public key; zeros: there is no signature */
	uint8_t zero[32];
	struct ht_artefact_section section[HT_SECTIONS];
};
_Static_assert(sizeof(struct ht_artefact_header) == 64 * (3 + HT_SECTIONS), "no padding");

/* SHA-256 of the header with zeros for digest, check, signature and key. */
static inline void ht_header_digest(const struct ht_artefact_header *h, uint8_t digest[HT_DIGEST])
{
	struct ht_artefact_header copy = *h;

	memset(copy.digest, 0, sizeof copy.digest);
	copy.check = 0;
	memset(copy.signature, 0, sizeof copy.signature);
	memset(copy.key, 0, sizeof copy.key);
	ht_sha256(&copy, sizeof copy, digest);
}

/* Signs with a private key, or verifies with a public one; keys are PEM files. */
enum ht_status ht_header_sign(struct ht_artefact_header *h, const char *key, struct ht_diags *d);
enum ht_status ht_header_verify(const struct ht_artefact_header *h, const char *path,
	const char *key_path, struct ht_diags *d);

static inline uint64_t ht_section_align(enum ht_section s)
{
	return s == HT_WEIGHTS ? HT_ARTEFACT_PAGE : 64;
}

static inline uint64_t ht_align_to(uint64_t n, uint64_t a)
{
	return (n + a - 1) / a * a;
}

/* Maps a file of weights, unless it is mapped already.  `full`: verifies its SHA-256. */
enum ht_status ht_artefact_map_beside(
	struct ht_artefact *a, uint64_t file, bool full, struct ht_diags *d);
/* The path of a file in the folder of `path`, from malloc; NULL: out of memory. */
char *ht_path_beside(const char *path, const char *name);

#endif
