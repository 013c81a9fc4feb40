/* pack: copies the second operand of a contraction into the order in which its register tile
 * reads it.
 *
 * A panel of nr columns is K'/kp lines of nr * kp elements.  Weights are packed once but may be
 * hundreds of megabytes, so the common cases (columns or depth adjacent in memory) move whole
 * lines. */
#include "kernel/kernel.h"
#include "kernel/native.h"
#include "kernel/winograd.h"

#include <math.h>
#include <string.h>

static int64_t matrices(const struct ht_pack *p)
{
	return p->winograd ? (p->winograd + 2) * (p->winograd + 2) : 1;
}

int64_t ht_packed_count(const struct ht_pack *p)
{
	int64_t panels = (p->n + p->nr - 1) / p->nr, depth = (p->depth + p->kp - 1) / p->kp * p->kp;

	if (p->pieces)
		depth = ht_ceil_div(p->depth, HT_PIECE_DEPTH) * HT_PIECE_DEPTH * p->pieces;

	return panels * p->taps * depth * p->nr * matrices(p);
}

/* ---- conversion of `n` adjacent elements ---- */

typedef void convert_fn(const void *src, void *dst, int64_t n);

static void copy32(const void *src, void *dst, int64_t n)
{
	memcpy(dst, src, (size_t)n * 4);
}

static void copy16(const void *src, void *dst, int64_t n)
{
	memcpy(dst, src, (size_t)n * 2);
}

static void copy8(const void *src, void *dst, int64_t n)
{
	memcpy(dst, src, (size_t)n);
}

static void f32_to_hf32(const void *src, void *dst, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		((float *)dst)[i] = ht_f32_to_hf32(ht_load_f32(src, i));
}

static void f32_to_bf16(const void *src, void *dst, int64_t n)
{
	int64_t i = ht_native_f32_to_bf16(src, dst, n);

	for (; i < n; i++)
		((uint16_t *)dst)[i] = ht_f32_to_bf16(ht_load_f32(src, i));
}

/* Interleaves two rows of F32 as pairs of BF16. */
static void f32_to_pairs(const float *a, const float *b, uint32_t *dst, int64_t n)
{
	int64_t i = ht_native_f32_to_bf16_pairs(a, b, dst, n);

	for (; i < n; i++)
		dst[i] = (uint32_t)ht_f32_to_bf16(ht_load_f32(b, i)) << 16 |
			 ht_f32_to_bf16(ht_load_f32(a, i));
}

static void f32_to_f16(const void *src, void *dst, int64_t n)
{
	int64_t i = ht_native_f32_to_f16(src, dst, n);

	for (; i < n; i++)
		((uint16_t *)dst)[i] = ht_f32_to_f16(ht_load_f32(src, i));
}

static void f16_to_f32(const void *src, void *dst, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		((float *)dst)[i] = ht_f16_to_f32(ht_load_u16(src, i));
}

static void bf16_to_f32(const void *src, void *dst, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		((float *)dst)[i] = ht_bf16_to_f32(ht_load_u16(src, i));
}

/* Subnormals become zeros, so that code which widens packed weights need not handle them. */
static void flush_bf16(const void *src, void *dst, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint16_t h = ht_load_u16(src, i);

		((uint16_t *)dst)[i] = (uint16_t)(h & 0x7f80 ? h : h & 0x8000);
	}
}

static void by_way_of_f32(convert_fn *up, convert_fn *down, const void *src, void *dst, int64_t n)
{
	enum { BLOCK = 64 };
	float f[BLOCK];

	for (int64_t i = 0; i < n; i += BLOCK) {
		int64_t m = n - i < BLOCK ? n - i : BLOCK;

		up((const uint16_t *)src + i, f, m);
		down(f, (uint16_t *)dst + i, m);
	}
}

static void f16_to_bf16(const void *src, void *dst, int64_t n)
{
	by_way_of_f32(f16_to_f32, f32_to_bf16, src, dst, n);
}

static void bf16_to_f16(const void *src, void *dst, int64_t n)
{
	by_way_of_f32(bf16_to_f32, f32_to_f16, src, dst, n);
}

static convert_fn *conversion(enum ht_dtype from, enum ht_dtype to)
{
	if (from == to) {
		size_t bytes = ht_dtype_info(from)->bytes;

		HT_CHECK(bytes == 1 || bytes == 2 || bytes == 4);
		return bytes == 4 ? copy32 : bytes == 2 ? copy16 : copy8;
	}
	switch (from) {
	case HT_F32:
		HT_CHECK(to == HT_BF16 || to == HT_F16);
		return to == HT_BF16 ? f32_to_bf16 : f32_to_f16;
	case HT_F16:
		HT_CHECK(to == HT_BF16 || to == HT_F32);
		return to == HT_BF16 ? f16_to_bf16 : f16_to_f32;
	default:
		HT_CHECK(from == HT_BF16 && (to == HT_F16 || to == HT_F32));
		return to == HT_F16 ? bf16_to_f16 : bf16_to_f32;
	}
}

void ht_convert_floats(enum ht_dtype from, const void *src, enum ht_dtype to, void *dst, size_t n)
{
	conversion(from, to)(src, dst, (int64_t)n);
}

/* ---- order ---- */

enum { BLOCK_K = 64, MAX_NR = 128 };

struct packer {
	const struct ht_pack *p;
	convert_fn *convert;
	size_t src_bytes, dst_bytes;
	int64_t lines; /* in one tap: K' / kp */
};

/* Writes kp rows of `nr` converted columns as one line: interleaved when kp is 2. */
static void weave(const struct packer *w, const char *row0, const char *row1, char *line)
{
	int32_t nr = w->p->nr;

	if (w->p->kp == 1) {
		memcpy(line, row0, (size_t)nr * w->dst_bytes);
		return;
	}
	const uint16_t *a = (const uint16_t *)row0, *b = (const uint16_t *)row1;
	uint16_t *to = (uint16_t *)line;
	for (int32_t i = 0; i < nr; i++) {
		to[2 * i] = a[i];
		to[2 * i + 1] = b[i];
	}
}

/* Packs a panel of one tap whose columns are adjacent in the source. */
static void pack_columns(const struct packer *w, const char *src, char *dst, int64_t columns)
{
	const struct ht_pack *p = w->p;
	_Alignas(64) char row[2][MAX_NR * 4];
	size_t line_bytes = (size_t)(p->nr * p->kp) * w->dst_bytes;

	memset(row, 0, sizeof row);
	for (int64_t k = 0; k < p->depth; k += p->kp, dst += line_bytes) {
		const char *from = src + k * p->sk * (int64_t)w->src_bytes;

		if (p->kp == 1) {
			w->convert(from, dst, columns);
			memset(dst + (size_t)columns * w->dst_bytes, 0,
				(size_t)(p->nr - columns) * w->dst_bytes);
			continue;
		}
		if (p->src_dtype == HT_F32 && p->dst_dtype == HT_BF16 && k + 1 < p->depth &&
			columns == p->nr) {
			f32_to_pairs((const float *)from, (const float *)from + p->sk,
				(uint32_t *)dst, columns);
			continue;
		}
		w->convert(from, row[0], columns);
		if (k + 1 < p->depth)
			w->convert(from + p->sk * (int64_t)w->src_bytes, row[1], columns);
		else
			memset(row[1], 0, sizeof row[1]);
		weave(w, row[0], row[1], dst);
	}
}

/* Copies `n` elements that are `stride` apart. */
static void gather(const struct packer *w, const char *src, int64_t stride, char *to, int64_t n)
{
	if (stride == 1) {
		memcpy(to, src, (size_t)n * w->src_bytes);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(to + (size_t)i * w->src_bytes, src + i * stride * (int64_t)w->src_bytes,
			w->src_bytes);
}

/* Writes element i of a converted column to place (i / kp) * nr * kp + i % kp of `to`. */
static void scatter(const struct packer *w, const char *column, char *to, int64_t n)
{
	int32_t nr = w->p->nr, kp = w->p->kp;

	if (w->dst_bytes == 4)
		for (int64_t i = 0; i < n; i++)
			((uint32_t *)to)[i * nr] = ((const uint32_t *)column)[i];
	else if (w->dst_bytes == 2 && kp == 2)
		for (int64_t i = 0; i < n; i += 2)
			memcpy(to + (size_t)(i * nr) * 2, column + 2 * i, 4);
	else
		for (int64_t i = 0; i < n; i++)
			memcpy(to + (size_t)((i / kp) * nr * kp + i % kp) * w->dst_bytes,
				column + (size_t)i * w->dst_bytes, w->dst_bytes);
}

/* Packs a panel of one tap with any strides, in blocks of depth, so that its lines stay in the
 * cache. */
static void pack_strided(const struct packer *w, const char *src, char *dst, int64_t columns)
{
	const struct ht_pack *p = w->p;
	_Alignas(64) char raw[BLOCK_K * 4], column[BLOCK_K * 4];

	for (int64_t k = 0; k < p->depth; k += BLOCK_K) {
		int64_t n = p->depth - k < BLOCK_K ? p->depth - k : BLOCK_K;
		int64_t padded = (n + p->kp - 1) / p->kp * p->kp;
		char *block = dst + (size_t)(k * p->nr) * w->dst_bytes;

		memset(block, 0, (size_t)(padded * p->nr) * w->dst_bytes);
		memset(column, 0, sizeof column);
		for (int64_t j = 0; j < columns; j++) {
			gather(w, src + (k * p->sk + j * p->sn) * (int64_t)w->src_bytes, p->sk, raw,
				n);
			w->convert(raw, column, n);
			scatter(w, column, block + (size_t)(j * p->kp) * w->dst_bytes, padded);
		}
	}
}

enum { MOST_MATRICES = HT_WINOGRAD_MOST * HT_WINOGRAD_MOST };

/* Transforms the nine taps of row k of the source: a row for each matrix, with zeros behind the
 * last row of the source. */
static void transformed_row(
	const struct packer *w, const char *src, int64_t k, int64_t columns, float *row)
{
	const struct ht_pack *p = w->p;
	_Alignas(64) float tap[9 * MAX_NR];

	if (k >= p->depth) {
		memset(row, 0, (size_t)(matrices(p) * columns) * sizeof *row);
		return;
	}
	for (int q = 0; q < 9; q++)
		w->convert(src + (q * p->sq + k * p->sk) * (int64_t)w->src_bytes, tap + q * columns,
			columns);
	ht_winograd_filter(p->winograd, tap, columns, row);
}

/* Interleaves two rows of F32 as pairs of F16 or BF16. */
static void pair_rows(
	const struct packer *w, const float *a, const float *b, char *to, int64_t columns)
{
	_Alignas(64) char row[2][MAX_NR * 2] = { 0 };

	if (w->p->dst_dtype == HT_BF16) {
		f32_to_pairs(a, b, (uint32_t *)to, columns);
		return;
	}
	f32_to_f16(a, row[0], columns);
	f32_to_f16(b, row[1], columns);
	weave(w, row[0], row[1], to);
}

/* Packs one line of each matrix at a time. */
static void pack_winograd(const struct packer *w, const char *src, char *dst)
{
	const struct ht_pack *p = w->p;
	size_t line = (size_t)(p->nr * p->kp) * w->dst_bytes;
	size_t matrix = (size_t)(ht_packed_count(p) / matrices(p)) * w->dst_bytes;
	_Alignas(64) float row[2][MOST_MATRICES * MAX_NR];

	for (int64_t n = 0; n < p->n; n += p->nr) {
		int64_t columns = p->n - n < p->nr ? p->n - n : p->nr;
		const char *from = src + (size_t)n * w->src_bytes;

		for (int64_t k = 0; k < p->depth; k += p->kp, dst += line) {
			for (int i = 0; i < p->kp; i++)
				transformed_row(w, from, k + i, columns, row[i]);
			for (int64_t q = 0; q < matrices(p); q++) {
				const float *first = row[0] + q * columns;
				char *to = dst + (size_t)q * matrix;

				memset(to, 0, line);
				if (p->kp == 2)
					pair_rows(w, first, row[1] + q * columns, to, columns);
				else
					memcpy(to, first, (size_t)columns * sizeof *first);
			}
		}
	}
}

/* ---- pieces ---- */

static float from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

/* The pieces of x.  Bits are cut off, so that each piece has the sign of x.  A piece that would be zero is the smallest normal number. */
static void pieces_of(float x, int32_t pieces, uint16_t *piece)
{
	const uint16_t sign = signbit(x) ? 0x8000 : 0, least = 0x0080;
	uint32_t bits;
	bool zero;

	for (int32_t i = 0; i < pieces; i++) {
		memcpy(&bits, &x, sizeof bits);
		bits &= 0xffff0000;
		piece[i] = (uint16_t)(bits >> 16);
		x -= from_bits(bits);
		if (piece[i] & 0x7f80) /* normal */
			continue;
		zero = i ? (piece[0] & 0x7fff) == 0 : true;
		piece[i] = zero ? sign : sign | least;
	}
}

/* Packs the numbers of a panel of `columns` columns from row `from` on, as a group. */
static void pack_group(
	const struct ht_pack *p, const char *src, int64_t from, int64_t columns, uint16_t *to)
{
	const int64_t rows = p->depth - from < HT_PIECE_DEPTH ? p->depth - from : HT_PIECE_DEPTH;
	const int64_t piece = HT_PIECE_DEPTH * p->nr;
	uint16_t of[HT_MOST_PIECES];

	memset(to, 0, (size_t)(p->pieces * piece) * sizeof *to);
	for (int64_t k = 0; k < rows; k++)
		for (int64_t n = 0; n < columns; n++) {
			pieces_of(ht_load_f32(src, (from + k) * p->sk + n * p->sn), p->pieces, of);
			for (int32_t i = 0; i < p->pieces; i++)
				to[i * piece + k / 2 * 2 * p->nr + 2 * n + k % 2] = of[i];
		}
}

static void pack_pieces(const struct ht_pack *p, const char *src, uint16_t *to)
{
	for (int64_t n = 0; n < p->n; n += p->nr)
		for (int64_t k = 0; k < p->depth; k += HT_PIECE_DEPTH) {
			pack_group(p, src + (size_t)(n * p->sn) * sizeof(float), k,
				p->n - n < p->nr ? p->n - n : p->nr, to);
			to += p->pieces * HT_PIECE_DEPTH * p->nr;
		}
}

static convert_fn *packing_conversion(const struct ht_pack *p)
{
	if (p->hf32)
		return f32_to_hf32;
	if (p->src_dtype == HT_BF16 && p->dst_dtype == HT_BF16 && !p->winograd)
		return flush_bf16;
	return conversion(p->src_dtype, p->winograd ? HT_F32 : p->dst_dtype);
}

void ht_pack_b(const struct ht_pack *p, const void *src, void *dst)
{
	struct packer w = { p, packing_conversion(p), ht_dtype_info(p->src_dtype)->bytes,
		ht_dtype_info(p->dst_dtype)->bytes, (p->depth + p->kp - 1) / p->kp };
	char *to = dst;

	HT_CHECK(p->nr > 0 && p->nr <= MAX_NR && (p->kp == 1 || (p->kp == 2 && w.dst_bytes == 2)));
	if (p->winograd) {
		pack_winograd(&w, src, dst);
		return;
	}
	if (p->pieces) {
		HT_CHECK(p->taps == 1 && p->kp == 2 && p->pieces <= HT_MOST_PIECES &&
			 p->src_dtype == HT_F32 && p->dst_dtype == HT_BF16);
		pack_pieces(p, src, dst);
		return;
	}
	for (int64_t n = 0; n < p->n; n += p->nr) {
		int64_t columns = p->n - n < p->nr ? p->n - n : p->nr;

		for (int64_t q = 0; q < p->taps; q++) {
			const char *from =
				(const char *)src + (q * p->sq + n * p->sn) * (int64_t)w.src_bytes;

			if (p->sn == 1)
				pack_columns(&w, from, to, columns);
			else
				pack_strided(&w, from, to, columns);
			to += (size_t)(w.lines * p->nr * p->kp) * w.dst_bytes;
		}
	}
}
