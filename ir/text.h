/* Declarations that the printer and the parser of the .hir form share.  docs/hir.md has the
 * grammar. */
#ifndef HT_TEXT_H
#define HT_TEXT_H

#include "ir/ir.h"

#define HT_HIR_VERSION 1
/* Constants of more elements (without repetitions of the last one) go to the weights file. */
#define HT_INLINE_ELEMENTS 64

/* Characters of a name that needs no quotes. */
static inline bool ht_is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || c == '/' || c == '-';
}

static inline bool ht_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The notation of the elements of a type. */
enum ht_elem_text {
	HT_TEXT_HEX, /* 0x… of the bits; any type of element may have this form */
	HT_TEXT_SIGNED,
	HT_TEXT_UNSIGNED,
	HT_TEXT_FLOAT,   /* f32, f64, f16, bf16 */
	HT_TEXT_COMPLEX, /* two floats in parentheses */
	HT_TEXT_BOOL
};
enum ht_elem_text ht_elem_text(enum ht_dtype t);

static inline bool ht_is_nan_of(enum ht_dtype t, uint64_t bits)
{
	uint64_t quiet = t == HT_F64   ? UINT64_C(0x7ff8000000000000)
			 : t == HT_F32 ? 0x7fc00000
			 : t == HT_F16 ? 0x7e00
				       : 0x7fc0;

	return bits == quiet;
}

/* text_weights.c: the file beside the text.  "halftone weights 1\n", then records, each aligned to
 * 64 bytes: hash (16 bytes), number of bytes (8, little endian), zeros up to 64, the bytes. */
#define HT_WEIGHTS_MAGIC "halftone weights 1\n"
#define HT_WEIGHTS_ALIGN 64

struct ht_weights {
	struct ht_map spans; /* hash in hexadecimal → struct ht_weights_span */
	struct ht_file *file;
};

struct ht_weights_span {
	size_t offset, n;
};

struct ht_str ht_hash_text(struct ht_arena *a, struct ht_hash h);
void ht_weights_append(struct ht_buf *weights, struct ht_hash h, const struct ht_blob *b);
enum ht_status ht_weights_open(
	struct ht_arena *a, struct ht_file *f, struct ht_diags *d, struct ht_weights *w);

#endif
