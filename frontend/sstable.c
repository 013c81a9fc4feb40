/* LevelDB's table file: blocks of sorted keys, each key without the prefix that it shares with
 * the key before; an index block with the places of the blocks; a footer with the place of the
 * index block. */
#include "frontend/bundle.h"

#include <snappy-c.h>

#include <string.h>

#define FOOTER 48
#define TRAILER 5 /* bytes: kind of compression, CRC */
#define MAGIC UINT64_C(0xdb4775248b80fb57)
#define BLOCK_BYTES ((size_t)64 << 20)

struct sstable {
	struct ht_arena *a;
	const struct ht_file *f;
	const struct ht_crc32c *crc;
	struct ht_diags *diags;
	ht_sstable_visit *visit;
	void *self;
	size_t unpacked; /* in total */
};

struct block {
	const uint8_t *p, *end;
	int64_t offset; /* of the block in the file */
};

static enum ht_status damaged(const struct sstable *t, int64_t offset, const char *what)
{
	struct ht_where at = HT_NOWHERE;

	at.path = t->f->path;
	at.offset = offset;
	return ht_error(t->diags, HT_E_INPUT, at, "checkpoint index: %s", what);
}

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 64 && *p < end; shift += 7) {
		*v |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return true;
	}
	return false;
}

static uint32_t load32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static enum ht_status unpack(
	struct sstable *t, int64_t offset, const uint8_t *p, size_t n, struct block *out)
{
	size_t length;
	char *bytes;

	if (snappy_uncompressed_length((const char *)p, n, &length) != SNAPPY_OK ||
		length > BLOCK_BYTES || (t->unpacked += length) > 16 * t->f->n + BLOCK_BYTES)
		return damaged(t, offset, "a compressed block has an impossible size");
	bytes = ht_alloc(t->a, length);
	if (snappy_uncompress((const char *)p, n, bytes, &length) != SNAPPY_OK)
		return damaged(t, offset, "a compressed block is damaged");
	out->p = (const uint8_t *)bytes;
	out->end = out->p + length;
	return HT_OK;
}

/* Reads the block at `offset`, without its list of restarts. */
static enum ht_status read_block(
	struct sstable *t, uint64_t offset, uint64_t size, struct block *out)
{
	const uint8_t *p;
	uint32_t restarts;

	if (t->f->n < TRAILER || offset > t->f->n - TRAILER || size > t->f->n - TRAILER - offset)
		return damaged(t, (int64_t)t->f->n, "a block lies outside the file");
	p = t->f->p + offset;
	if (t->crc && load32(p + size + 1) != ht_crc32c_mask(ht_crc32c(t->crc, 0, p, size + 1)))
		return damaged(t, (int64_t)offset, "a block does not match its checksum");
	*out = (struct block){ p, p + size, (int64_t)offset };
	if (p[size] == 1)
		HT_TRY(unpack(t, (int64_t)offset, p, size, out));
	else if (p[size])
		return damaged(t, (int64_t)offset, "a block is compressed in an unknown way");
	if (out->end - out->p < 4)
		return damaged(t, (int64_t)offset, "a block is too short");
	restarts = load32(out->end - 4);
	if (restarts > (size_t)(out->end - out->p - 4) / 4)
		return damaged(t, (int64_t)offset, "a block has too many restarts");
	out->end -= 4 + 4 * (size_t)restarts;
	return HT_OK;
}

static enum ht_status walk_block(struct sstable *t, const struct block *b,
	enum ht_status (*visit)(void *self, struct ht_str key, struct ht_str value, int64_t offset),
	void *self)
{
	uint64_t shared, rest, length;
	const uint8_t *p = b->p;
	struct ht_buf key;

	ht_buf_init(&key, t->a);
	while (p < b->end) {
		if (!varint(&p, b->end, &shared) || !varint(&p, b->end, &rest) ||
			!varint(&p, b->end, &length) || shared > key.n ||
			rest > (uint64_t)(b->end - p) || length > (uint64_t)(b->end - p) - rest)
			return damaged(t, b->offset, "an entry does not fit its block");
		key.n = (size_t)shared;
		ht_put(&key, p, (size_t)rest);
		p += rest;
		HT_TRY(visit(self, ht_buf_str(&key),
			(struct ht_str){ (const char *)p, (size_t)length }, b->offset));
		p += length;
	}
	return HT_OK;
}

static enum ht_status visit_index(void *self, struct ht_str key, struct ht_str value, int64_t at)
{
	const uint8_t *p = (const uint8_t *)value.p, *end = p + value.n;
	struct sstable *t = self;
	uint64_t offset, size;
	struct block b;

	(void)key;
	if (!varint(&p, end, &offset) || !varint(&p, end, &size))
		return damaged(t, at, "the place of a block is cut off");
	HT_TRY(read_block(t, offset, size, &b));
	return walk_block(t, &b, t->visit, t->self);
}

enum ht_status ht_sstable_walk(struct ht_arena *a, const struct ht_file *f,
	const struct ht_crc32c *crc, struct ht_diags *d, ht_sstable_visit *visit, void *self)
{
	struct sstable t = { a, f, crc, d, visit, self, 0 };
	const uint8_t *p, *end;
	uint64_t skip, offset, size;
	struct block index;

	if (f->n < FOOTER)
		return damaged(&t, (int64_t)f->n, "the file is too short");
	p = f->p + f->n - FOOTER;
	end = f->p + f->n - 8;
	if ((load32(end) | (uint64_t)load32(end + 4) << 32) != MAGIC)
		return damaged(&t, end - f->p, "the file does not end as a table does");
	if (!varint(&p, end, &skip) || !varint(&p, end, &skip) || !varint(&p, end, &offset) ||
		!varint(&p, end, &size))
		return damaged(&t, (int64_t)(f->n - FOOTER), "the place of the index is cut off");
	HT_TRY(read_block(&t, offset, size, &index));
	return walk_block(&t, &index, visit_index, &t);
}
