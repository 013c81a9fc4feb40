/* CRC-32C (Castagnoli), eight bytes at a time, and LevelDB's masked form of it. */
#include "frontend/bundle.h"

#include <string.h>

void ht_crc32c_init(struct ht_crc32c *t)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
		t->table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			t->table[k][i] =
				t->table[k - 1][i] >> 8 ^ t->table[0][t->table[k - 1][i] & 0xff];
}

uint32_t ht_crc32c(const struct ht_crc32c *t, uint32_t crc, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint32_t c = ~crc, low, high;

	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&low, p, 4);
		memcpy(&high, p + 4, 4);
		low ^= c;
		c = t->table[7][low & 0xff] ^ t->table[6][low >> 8 & 0xff] ^
		    t->table[5][low >> 16 & 0xff] ^ t->table[4][low >> 24] ^
		    t->table[3][high & 0xff] ^ t->table[2][high >> 8 & 0xff] ^
		    t->table[1][high >> 16 & 0xff] ^ t->table[0][high >> 24];
	}
	for (; n; n--)
		c = c >> 8 ^ t->table[0][(c ^ *p++) & 0xff];
	return ~c;
}

uint32_t ht_crc32c_mask(uint32_t crc)
{
	return (crc >> 15 | crc << 17) + 0xa282ead8;
}
