/* Writes TensorBundles: one shard with the bytes of all tensors, and an index, which is a table of LevelDB from keys to
 * BundleEntryProto.  Both files are complete before either gets its name. */
#include "frontend/bundle.h"

#include "frontend/frontend.h"
#include "frontend/pb.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)
#define FOOTER 48
#define RESTART_EVERY 16 /* how many entries lie between those that store their whole key */
static const uint8_t magic[8] = { 0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb };

struct place {
	uint64_t offset, size; /* size: without the trailer */
};

struct block {
	struct ht_buf bytes, last; /* last: the previous key */
	uint32_t restart[BLOCK_BYTES / 4];
	uint32_t restarts, entries;
};

struct table {
	struct ht_arena *a;
	struct ht_output *out;
	struct ht_crc32c crc;
	struct block data, index;
	uint64_t at; /* bytes written */
};

static void put32(struct ht_buf *b, uint32_t v)
{
	const uint8_t bytes[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
		(uint8_t)(v >> 24) };

	ht_put(b, bytes, 4);
}

/* ---- blocks ---- */

static void begin_block(struct block *b, struct ht_arena *a)
{
	if (!b->bytes.arena) {
		ht_buf_init(&b->bytes, a);
		ht_buf_init(&b->last, a);
	}
	b->bytes.n = b->last.n = 0;
	b->entries = 0;
	b->restarts = 1;
	b->restart[0] = 0;
}

static size_t shared_prefix(const struct block *b, struct ht_str key)
{
	size_t n = 0;

	while (n < key.n && n < b->last.n && key.p[n] == b->last.p[n])
		n++;
	return n;
}

static void put_entry(struct block *b, struct ht_str key, struct ht_str value)
{
	size_t shared = shared_prefix(b, key);

	if (b->entries && b->entries % RESTART_EVERY == 0) {
		b->restart[b->restarts++] = (uint32_t)b->bytes.n;
		shared = 0;
	}
	b->entries++;
	ht_pb_varint(&b->bytes, shared);
	ht_pb_varint(&b->bytes, key.n - shared);
	ht_pb_varint(&b->bytes, value.n);
	ht_put(&b->bytes, key.p + shared, key.n - shared);
	ht_put_str(&b->bytes, value);
	b->last.n = 0;
	ht_put_str(&b->last, key);
}

static enum ht_status put_bytes(struct table *t, const void *p, size_t n)
{
	t->at += n;
	return ht_output_write(t->out, p, n);
}

/* Ends a block, which is uncompressed.  Behind it are the kind of compression and a checksum of
 * both. */
static enum ht_status end_block(struct table *t, struct block *b, struct place *out)
{
	for (uint32_t i = 0; i < b->restarts; i++)
		put32(&b->bytes, b->restart[i]);
	put32(&b->bytes, b->restarts);
	*out = (struct place){ t->at, b->bytes.n };
	ht_putc(&b->bytes, 0);
	put32(&b->bytes, ht_crc32c_mask(ht_crc32c(&t->crc, 0, b->bytes.p, b->bytes.n)));
	return put_bytes(t, b->bytes.p, b->bytes.n);
}

static void put_place(struct ht_buf *b, struct place p)
{
	ht_pb_varint(b, p.offset);
	ht_pb_varint(b, p.size);
}

/* ---- the table ---- */

static enum ht_status end_data(struct table *t)
{
	struct place at;
	struct ht_buf value;

	if (!t->data.entries)
		return HT_OK;
	HT_TRY(end_block(t, &t->data, &at));
	ht_buf_init(&value, t->a);
	put_place(&value, at);
	put_entry(&t->index, ht_buf_str(&t->data.last), ht_buf_str(&value));
	begin_block(&t->data, t->a);
	return HT_OK;
}

static enum ht_status put_record(struct table *t, struct ht_str key, const struct ht_pb_writer *w)
{
	put_entry(&t->data, key, ht_pb_flatten(w, t->a));
	return t->data.bytes.n < BLOCK_BYTES ? HT_OK : end_data(t);
}

static enum ht_status end_table(struct table *t)
{
	struct block *none = HT_NEW(t->a, struct block);
	struct place meta, index;
	struct ht_buf footer;

	HT_TRY(end_data(t));
	begin_block(none, t->a);
	HT_TRY(end_block(t, none, &meta));
	HT_TRY(end_block(t, &t->index, &index));
	ht_buf_init(&footer, t->a);
	put_place(&footer, meta);
	put_place(&footer, index);
	while (footer.n < FOOTER - sizeof magic)
		ht_putc(&footer, 0);
	ht_put(&footer, magic, sizeof magic);
	return put_bytes(t, footer.p, footer.n);
}

/* ---- entries ---- */

static void put_header(struct ht_pb_writer *w)
{
	struct ht_pb_open_message m;

	ht_pb_put_varint(w, 1, 1); /* shards */
	m = ht_pb_begin(w, 3);     /* version: producer */
	ht_pb_put_varint(w, 1, 1);
	ht_pb_end(w, m);
}

static void put_shape(struct ht_pb_writer *w, struct ht_shape s)
{
	struct ht_pb_open_message m = ht_pb_begin(w, 2), dim;

	for (int32_t i = 0; i < s.rank; i++) {
		dim = ht_pb_begin(w, 2);
		if (s.dim[i])
			ht_pb_put_varint(w, 1, (uint64_t)s.dim[i]);
		ht_pb_end(w, dim);
	}
	ht_pb_end(w, m);
}

static void put_tensor(
	struct ht_pb_writer *w, const struct ht_checkpoint_item *i, uint64_t offset, uint32_t crc)
{
	uint8_t fixed[5] = { 6 << 3 | HT_WIRE_32, (uint8_t)crc, (uint8_t)(crc >> 8),
		(uint8_t)(crc >> 16), (uint8_t)(crc >> 24) };

	ht_pb_put_varint(w, 1, (uint64_t)i->dtype);
	put_shape(w, i->shape);
	if (offset)
		ht_pb_put_varint(w, 4, offset);
	if (i->n)
		ht_pb_put_varint(w, 5, i->n);
	ht_pb_put_raw(w, (struct ht_str){ (const char *)fixed, sizeof fixed });
}

static int by_key(const void *p, const void *q)
{
	const struct ht_checkpoint_item *a = p, *b = q;

	return ht_str_cmp(a->key, b->key);
}

static enum ht_status put_all(
	struct table *t, struct ht_output *shard, const struct ht_checkpoint_item *item, size_t n)
{
	struct ht_pb_writer w;
	uint64_t offset = 0;

	ht_pb_writer_init(&w, t->a);
	put_header(&w);
	HT_TRY(put_record(t, HT_STR(""), &w));
	for (size_t i = 0; i < n; i++) {
		uint32_t crc =
			item[i].stored
				? item[i].crc
				: ht_crc32c_mask(ht_crc32c(&t->crc, 0, item[i].bytes, item[i].n));

		ht_pb_writer_clear(&w);
		put_tensor(&w, &item[i], offset, crc);
		HT_TRY(ht_output_write(shard, item[i].bytes, item[i].n));
		HT_TRY(put_record(t, item[i].key, &w));
		offset += item[i].n;
	}
	HT_TRY(end_table(t));
	HT_TRY(ht_output_flush(shard));
	return ht_output_flush(t->out);
}

static enum ht_status write_both(struct ht_arena *a, const char *index, const char *data,
	const struct ht_checkpoint_item *item, size_t n, struct ht_diags *d)
{
	struct table *t = HT_NEW(a, struct table);
	struct ht_output *shard;
	enum ht_status st;

	t->a = a;
	ht_crc32c_init(&t->crc);
	begin_block(&t->data, a);
	begin_block(&t->index, a);
	HT_TRY(ht_output_open(data, d, &shard));
	st = ht_output_open(index, d, &t->out);
	if (st != HT_OK) {
		ht_output_abort(shard);
		return st;
	}
	st = put_all(t, shard, item, n);
	if (st == HT_OK) {
		st = ht_output_commit(shard);
		shard = NULL;
	}
	if (st == HT_OK)
		return ht_output_commit(t->out);
	ht_output_abort(shard);
	ht_output_abort(t->out);
	return st;
}

enum ht_status ht_checkpoint_write(struct ht_arena *a, const char *prefix,
	struct ht_checkpoint_item *item, size_t n, struct ht_diags *d)
{
	if (n)
		qsort(item, n, sizeof *item, by_key);
	for (size_t i = 1; i < n; i++)
		if (ht_str_eq(item[i].key, item[i - 1].key))
			return ht_error(d, HT_E_INPUT,
				(struct ht_where){ .path = prefix, .offset = -1 },
				"two tensors of the checkpoint have the key '%.*s'",
				HT_STR_ARG(item[i].key));
	return write_both(a, ht_str_printf(a, "%s.index", prefix).p,
		ht_str_printf(a, "%s.data-00000-of-00001", prefix).p, item, n, d);
}
