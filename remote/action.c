/* ActionResult of Bazel's remote execution protocol, in protobuf's wire format:
 *
 *   ActionResult { 2: OutputFile*, 4: exit code, ... }
 *   OutputFile   { 1: path, 2: Digest, ... }
 *   Digest       { 1: SHA-256 as 64 digits, 2: bytes }
 *
 * Servers may add fields of their own (bazel-remote adds the writer); fields that are not listed
 * here are skipped. */
#include "remote/remote.h"

#include <string.h>

#define ENTRY "halftone-entry"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { RESULT_FILES = 2, RESULT_EXIT_CODE = 4 };
enum { FILE_PATH = 1, FILE_DIGEST = 2 };
enum { DIGEST_HASH = 1, DIGEST_BYTES = 2 };

struct field {
	uint64_t number;
	unsigned type;
	uint64_t value;      /* WIRE_VARINT */
	struct ht_str bytes; /* WIRE_BYTES */
};

static bool varint(struct ht_str s, size_t *at, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 64 && *at < s.n; shift += 7) {
		uint64_t byte = (uint8_t)s.p[(*at)++];

		if (shift == 63 && byte > 1)
			return false;
		*v |= (byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static bool take(struct ht_str s, size_t *at, uint64_t n, struct ht_str *out)
{
	if (n > s.n - *at)
		return false;
	*out = (struct ht_str){ s.p + *at, (size_t)n };
	*at += (size_t)n;
	return true;
}

static bool next(struct ht_str s, size_t *at, struct field *f)
{
	uint64_t tag;

	if (!varint(s, at, &tag))
		return false;
	*f = (struct field){ .number = tag >> 3, .type = tag & 7 };
	if (!f->number || f->number >> 29)
		return false;
	switch (f->type) {
	case WIRE_VARINT:
		return varint(s, at, &f->value);
	case WIRE_BYTES:
		return varint(s, at, &f->value) && take(s, at, f->value, &f->bytes);
	case WIRE_64:
	case WIRE_32:
		return take(s, at, f->type == WIRE_64 ? 8 : 4, &f->bytes);
	default: /* this protocol has no groups */
		return false;
	}
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *read_hash(struct ht_str s, uint8_t sha256[32])
{
	if (s.n != 64)
		return "a digest that is no SHA-256";
	for (size_t i = 0; i < 64; i += 2) {
		int high = digit(s.p[i]), low = digit(s.p[i + 1]);

		if (high < 0 || low < 0)
			return "a digest that is no SHA-256";
		sha256[i / 2] = (uint8_t)(high << 4 | low);
	}
	return NULL;
}

static const char *read_digest(struct ht_str s, struct ht_action *out)
{
	const char *wrong = "a digest without SHA-256";
	struct field f;

	for (size_t at = 0; at < s.n;) {
		if (!next(s, &at, &f))
			return "damaged";
		if (f.number == DIGEST_HASH && f.type == WIRE_BYTES)
			wrong = read_hash(f.bytes, out->sha256);
		else if (f.number == DIGEST_BYTES && f.type == WIRE_VARINT)
			out->bytes = f.value;
	}
	return wrong;
}

static const char *read_file(struct ht_str s, struct ht_action *out)
{
	const char *wrong = "an output file without digest";
	struct ht_str path = { "", 0 };
	struct field f;

	for (size_t at = 0; at < s.n;) {
		if (!next(s, &at, &f))
			return "damaged";
		if (f.number == FILE_PATH && f.type == WIRE_BYTES)
			path = f.bytes;
		else if (f.number == FILE_DIGEST && f.type == WIRE_BYTES)
			wrong = read_digest(f.bytes, out);
	}
	return ht_str_is(path, ENTRY) ? wrong : "another program's";
}

const char *ht_action_read(struct ht_str bytes, struct ht_action *out)
{
	const char *wrong = "without output file";
	struct field f;
	int files = 0;

	*out = (struct ht_action){ .bytes = 0 };
	for (size_t at = 0; at < bytes.n;) {
		if (!next(bytes, &at, &f))
			return "damaged";
		if (f.number == RESULT_FILES && f.type == WIRE_BYTES) {
			if (files++)
				return "with several output files";
			wrong = read_file(f.bytes, out);
		} else if (f.number == RESULT_EXIT_CODE && f.value) {
			return "of an action that failed";
		}
	}
	return wrong;
}

/* ---- writing, into memory that is large enough ---- */

static char *put_varint(char *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (char)(v | 0x80);
	*p++ = (char)v;
	return p;
}

static char *put_bytes(char *p, unsigned number, struct ht_str s)
{
	p = put_varint(p, number << 3 | WIRE_BYTES);
	p = put_varint(p, s.n);
	memcpy(p, s.p, s.n);
	return p + s.n;
}

static struct ht_str span(const char *begin, const char *end)
{
	return (struct ht_str){ begin, (size_t)(end - begin) };
}

struct ht_str ht_action_write(const struct ht_action *a, char out[HT_ACTION_BYTES])
{
	char hash[65], digest[HT_ACTION_BYTES], file[HT_ACTION_BYTES], *p;

	for (size_t i = 0; i < sizeof a->sha256; i++)
		snprintf(hash + 2 * i, 3, "%02x", a->sha256[i]);
	p = put_bytes(digest, DIGEST_HASH, span(hash, hash + 64));
	p = put_varint(p, DIGEST_BYTES << 3 | WIRE_VARINT);
	p = put_varint(p, a->bytes);
	p = put_bytes(put_bytes(file, FILE_PATH, HT_STR(ENTRY)), FILE_DIGEST, span(digest, p));
	p = put_bytes(out, RESULT_FILES, span(file, p));
	return span(out, p);
}
