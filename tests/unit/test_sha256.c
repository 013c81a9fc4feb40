/* SHA-256 of pieces of every length equals libmd's. */
#include "base/base.h"

#include <setjmp.h>
#include <sha2.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static void of(const uint8_t *p, size_t n, uint8_t digest[32])
{
	SHA2_CTX c;

	SHA256Init(&c);
	SHA256Update(&c, p, n);
	SHA256Final(digest, &c);
}

static void test_lengths(void **state)
{
	uint8_t bytes[300], want[32], got[32];

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * i + 3 * i);
	for (size_t n = 0; n <= sizeof bytes; n++) {
		of(bytes, n, want);
		ht_sha256(bytes, n, got);
		assert_memory_equal(got, want, sizeof want);
	}
}

static void test_pieces(void **state)
{
	uint8_t bytes[300], want[32], got[32];

	(void)state;
	memset(bytes, 0x5a, sizeof bytes);
	of(bytes, sizeof bytes, want);
	for (size_t piece = 1; piece <= 130; piece++) {
		struct ht_sha256 s;

		ht_sha256_begin(&s);
		for (size_t at = 0; at < sizeof bytes; at += piece)
			ht_sha256_add(&s, bytes + at,
				at + piece < sizeof bytes ? piece : sizeof bytes - at);
		ht_sha256_end(&s, got);
		assert_memory_equal(got, want, sizeof want);
	}
}

/* The example of FIPS 180-4, so that a libmd that was replaced by this code is not only compared
 * with itself. */
static void test_known(void **state)
{
	static const uint8_t want[32] = { 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41,
		0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a,
		0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad };
	uint8_t got[32];

	(void)state;
	ht_sha256("abc", 3, got);
	assert_memory_equal(got, want, sizeof want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
