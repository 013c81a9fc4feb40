/* Writes wire form.  Large pieces (the bytes of constants) are not copied: the writer notes
 * their places and passes them to the sink directly. */
#include "frontend/pb.h"

#include <string.h>

void ht_pb_writer_init(struct ht_pb_writer *w, struct ht_arena *a)
{
	*w = (struct ht_pb_writer){ 0 };
	ht_buf_init(&w->buf, a);
}

void ht_pb_writer_clear(struct ht_pb_writer *w)
{
	w->buf.n = 0;
	w->pieces = 0;
	w->piece_bytes = 0;
}

size_t ht_pb_writer_bytes(const struct ht_pb_writer *w)
{
	return w->buf.n + w->piece_bytes;
}

static size_t encode(char out[10], uint64_t v)
{
	size_t n = 0;

	do {
		out[n++] = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	return n;
}

void ht_pb_varint(struct ht_buf *b, uint64_t v)
{
	char bytes[10];

	ht_put(b, bytes, encode(bytes, v));
}

static void put_tag(struct ht_pb_writer *w, uint32_t number, int wire)
{
	ht_pb_varint(&w->buf, (uint64_t)number << 3 | (uint64_t)wire);
}

size_t ht_pb_insert_length(struct ht_buf *b, size_t at, size_t length)
{
	char bytes[10];
	size_t n = encode(bytes, length);

	ht_put(b, bytes, n); /* makes the room */
	memmove(b->p + at + n, b->p + at, b->n - n - at);
	memcpy(b->p + at, bytes, n);
	return n;
}

struct ht_pb_open_message ht_pb_begin(struct ht_pb_writer *w, uint32_t number)
{
	put_tag(w, number, HT_WIRE_BYTES);
	return (struct ht_pb_open_message){ w->buf.n, w->pieces, w->piece_bytes };
}

void ht_pb_end(struct ht_pb_writer *w, struct ht_pb_open_message m)
{
	size_t length = w->buf.n - m.at + w->piece_bytes - m.piece_bytes;
	size_t n = ht_pb_insert_length(&w->buf, m.at, length);

	for (size_t i = m.pieces; i < w->pieces; i++)
		w->piece[i].at += n;
}

void ht_pb_put_varint(struct ht_pb_writer *w, uint32_t number, uint64_t v)
{
	put_tag(w, number, HT_WIRE_VARINT);
	ht_pb_varint(&w->buf, v);
}

void ht_pb_put_float(struct ht_pb_writer *w, uint32_t number, float f)
{
	put_tag(w, number, HT_WIRE_32);
	ht_put(&w->buf, &f, sizeof f);
}

void ht_pb_put_double(struct ht_pb_writer *w, uint32_t number, double f)
{
	put_tag(w, number, HT_WIRE_64);
	ht_put(&w->buf, &f, sizeof f);
}

void ht_pb_put_bytes(struct ht_pb_writer *w, uint32_t number, struct ht_str s)
{
	put_tag(w, number, HT_WIRE_BYTES);
	ht_pb_varint(&w->buf, s.n);
	ht_put_str(&w->buf, s);
}

void ht_pb_put_piece(struct ht_pb_writer *w, uint32_t number, const void *p, size_t n)
{
	put_tag(w, number, HT_WIRE_BYTES);
	ht_pb_varint(&w->buf, n);
	w->piece = ht_grow(w->buf.arena, w->piece, w->pieces, &w->cap, sizeof *w->piece);
	w->piece[w->pieces++] = (struct ht_pb_piece){ w->buf.n, p, n };
	w->piece_bytes += n;
}

void ht_pb_put_raw(struct ht_pb_writer *w, struct ht_str records)
{
	ht_put_str(&w->buf, records);
}

enum ht_status ht_pb_flush(const struct ht_pb_writer *w, ht_pb_sink *sink, void *self)
{
	size_t at = 0;

	for (size_t i = 0; i < w->pieces; i++) {
		const struct ht_pb_piece *piece = &w->piece[i];

		if (piece->at > at)
			HT_TRY(sink(self, w->buf.p + at, piece->at - at));
		at = piece->at;
		if (piece->n)
			HT_TRY(sink(self, piece->p, piece->n));
	}
	return w->buf.n > at ? sink(self, w->buf.p + at, w->buf.n - at) : HT_OK;
}

struct fill {
	char *p;
};

static enum ht_status fill(void *self, const void *p, size_t n)
{
	struct fill *f = self;

	memcpy(f->p, p, n);
	f->p += n;
	return HT_OK;
}

struct ht_str ht_pb_flatten(const struct ht_pb_writer *w, struct ht_arena *a)
{
	size_t n = ht_pb_writer_bytes(w);
	struct fill f;
	char *p;

	if (!w->pieces)
		return (struct ht_str){ w->buf.p, n };
	f.p = p = ht_alloc(a, n);
	ht_pb_flush(w, fill, &f);
	return (struct ht_str){ p, n };
}
