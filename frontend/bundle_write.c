/* Writes TensorBundles: one shard with the bytes of all tensors, and an index, which is a table of LevelDB from keys to
 * BundleEntryProto.  Both files are complete before either gets its name. */
#include "frontend/bundle.h"

#include "frontend/frontend.h"
#include "frontend/pb.h"
#include "frontend/slices.h"

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

/* What the index has under a key: a tensor, or a slice of one, with its bytes; or the tensor that `slices` slices are of, which follow each other
 * from `item` on. */
struct record {
	struct ht_str key;
	const struct ht_checkpoint_item *item;
	size_t slices;
};

static int by_key(const void *p, const void *q)
{
	const struct record *a = p, *b = q;

	return ht_str_cmp(a->key, b->key);
}

static int by_item_key(const void *p, const void *q)
{
	const struct ht_checkpoint_item *a = p, *b = q;

	return ht_str_cmp(a->key, b->key);
}

static void put_slice(struct ht_pb_writer *w, const struct ht_slice *s)
{
	struct ht_pb_open_message m = ht_pb_begin(w, 7), axis;

	for (int32_t i = 0; i < s->rank; i++) {
		axis = ht_pb_begin(w, 1);
		if (s->start[i])
			ht_pb_put_varint(w, 1, (uint64_t)s->start[i]);
		ht_pb_put_varint(w, 2, (uint64_t)s->length[i]);
		ht_pb_end(w, axis);
	}
	ht_pb_end(w, m);
}

/* A tensor that is stored in slices: its type, its shape, and which slices there are. */
static void put_whole(struct ht_pb_writer *w, const struct record *r)
{
	struct ht_slice s;

	ht_slice_of_key(r->item->key, &s);
	ht_pb_put_varint(w, 1, (uint64_t)r->item->dtype);
	put_shape(w, (struct ht_shape){ s.rank, s.full });
	for (size_t i = 0; i < r->slices; i++)
		if (ht_slice_of_key(r->item[i].key, &s))
			put_slice(w, &s);
}

static bool same_whole(const struct ht_slice *a, const struct ht_slice *b)
{
	return ht_str_eq(a->name, b->name) && ht_shape_eq((struct ht_shape){ a->rank, a->full },
						      (struct ht_shape){ b->rank, b->full });
}

static enum ht_status refuse(
	const char *prefix, struct ht_str key, const char *what, struct ht_diags *d)
{
	return ht_error(d, HT_E_INPUT, (struct ht_where){ .path = prefix, .offset = -1 },
		"the tensor of the checkpoint with the key '%.*s' has %s", HT_STR_ARG(key), what);
}

/* Refuses sorted items with keys of slices that they cannot be. */
static enum ht_status check_slices(
	const struct ht_checkpoint_item *item, size_t n, const char *prefix, struct ht_diags *d)
{
	const struct ht_checkpoint_item *first = NULL; /* of the present whole tensor */
	struct ht_slice of_first = { 0 }, s;

	for (size_t i = 0; i < n; i++) {
		if (!ht_slice_of_key(item[i].key, &s))
			continue;
		if (!ht_shape_eq(item[i].shape, ht_slice_shape(&s)))
			return refuse(
				prefix, item[i].key, "another shape than the slice of this key", d);
		if (!first || !same_whole(&of_first, &s)) {
			first = &item[i];
			of_first = s;
		} else if (item[i].dtype != first->dtype) {
			return refuse(prefix, item[i].key,
				"another type than another slice of the same tensor", d);
		}
	}
	return HT_OK;
}

/* The records of the index in their order.  Slices of one tensor have keys that begin alike, so they follow each other in the order of the items. */
static struct record *records_of(
	struct ht_arena *a, const struct ht_checkpoint_item *item, size_t n, size_t *count)
{
	struct record *r = HT_NEW_ARRAY(a, struct record, 2 * n + 1), *whole = NULL;
	struct ht_slice first = { 0 }, s;

	*count = 0;
	for (size_t i = 0; i < n; i++) {
		bool part = ht_slice_of_key(item[i].key, &s);

		if (part && !(whole && same_whole(&first, &s))) {
			whole = &r[(*count)++];
			*whole = (struct record){ ht_str_copy(a, s.name), &item[i], 0 };
			first = s;
		}
		whole = part ? whole : NULL;
		if (whole)
			whole->slices++;
		r[(*count)++] =
			(struct record){ part ? ht_slice_record(a, &s) : item[i].key, &item[i], 0 };
	}
	if (*count)
		qsort(r, *count, sizeof *r, by_key);
	return r;
}

static enum ht_status put_all(
	struct table *t, struct ht_output *shard, const struct record *record, size_t n)
{
	struct ht_pb_writer w;
	uint64_t offset = 0;

	ht_pb_writer_init(&w, t->a);
	put_header(&w);
	HT_TRY(put_record(t, HT_STR(""), &w));
	for (size_t i = 0; i < n; i++) {
		const struct ht_checkpoint_item *item = record[i].item;

		ht_pb_writer_clear(&w);
		if (record[i].slices) {
			put_whole(&w, &record[i]);
		} else {
			uint32_t crc = item->stored ? item->crc
						    : ht_crc32c_mask(ht_crc32c(
							      &t->crc, 0, item->bytes, item->n));

			put_tensor(&w, item, offset, crc);
			HT_TRY(ht_output_write(shard, item->bytes, item->n));
			offset += item->n;
		}
		HT_TRY(put_record(t, record[i].key, &w));
	}
	HT_TRY(end_table(t));
	HT_TRY(ht_output_flush(shard));
	return ht_output_flush(t->out);
}

static enum ht_status write_both(struct ht_arena *a, const char *index, const char *data,
	const struct record *record, size_t n, struct ht_diags *d)
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
	st = put_all(t, shard, record, n);
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
	const struct record *record;
	size_t count;

	if (n)
		qsort(item, n, sizeof *item, by_item_key);
	HT_TRY(check_slices(item, n, prefix, d));
	record = records_of(a, item, n, &count);
	for (size_t i = 1; i < count; i++)
		if (ht_str_eq(record[i].key, record[i - 1].key))
			return ht_error(d, HT_E_INPUT,
				(struct ht_where){ .path = prefix, .offset = -1 },
				"two tensors of the checkpoint have the key '%.*s'",
				HT_STR_ARG(record[i].item->key));
	return write_both(a, ht_str_printf(a, "%s.index", prefix).p,
		ht_str_printf(a, "%s.data-00000-of-00001", prefix).p, record, count, d);
}
