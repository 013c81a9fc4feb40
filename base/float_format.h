/* float_format: binary floating-point formats as data.
 *
 * A format is a set of float32 numbers: those with few bits of exponent and fraction.  Rounding to a format gives such a number, as
 * float32.  The formats that have names are rows of a table; any other is written with its properties (ht_format_parse()).
 * ht_format_round() is the meaning of rounding; kernels compute the same with integers (lower/map_rounded.c). */
#ifndef HT_FLOAT_FORMAT_H
#define HT_FLOAT_FORMAT_H

#include "base/base.h"

/* Which code is NaN. */
enum ht_format_nan {
	HT_FORMAT_NAN_IEEE, /* those of the largest exponent whose fraction is not 0; 0 is infinity */
	HT_FORMAT_NAN_LAST, /* the largest exponent with the largest fraction; there is no infinity */
	HT_FORMAT_NAN_ZERO, /* that of negative zero, which the format lacks; there is no infinity */
	HT_FORMAT_NAN_NONE  /* none; NaN becomes a zero of the opposite sign, as in ml_dtypes */
};

enum {
	HT_FORMAT_MAX_EXPONENT = 8,  /* bits */
	HT_FORMAT_MAX_MANTISSA = 22, /* bits */
	HT_FORMAT_MAX_BLOCK = 65536
};

struct ht_float_format {
	const char *name;       /* of a row of the table; NULL: it has no name */
	int exponent, mantissa; /* bits; of powers of 2, `scale`, no mantissa */
	int bias;
	enum ht_format_nan nan;
	bool subnormals; /* there are; otherwise what rounds to one is 0 */
	bool saturates;  /* what is beyond the largest number becomes that, infinity included */
	bool scale; /* it has positive powers of 2 and NaN only, with one more exponent in the place of 0 */
	bool stochastic; /* rounds up with the probability that is the distance to the number below */
	uint32_t seed;   /* of these draws */
	/* So many elements along an axis have a common factor, which is a power of 2; 0: no blocks. */
	int block;
	bool has_axis; /* else the axis that is summed over */
	int axis;      /* counted from the end if negative */
};

/* The formats with names, ended by a row without one. */
extern const struct ht_float_format ht_formats[];

/* A name, with or without ":PROPERTY=VALUE,…" behind it, or "float:PROPERTY=VALUE,…" (docs/policies.md).  HT_E_USAGE: it is none;
 * the message begins with `what`. */
enum ht_status ht_format_parse(
	struct ht_str text, const char *what, struct ht_diags *d, struct ht_float_format *out);
/* The text that ht_format_parse() reads back as the same format. */
void ht_format_put(struct ht_buf *b, const struct ht_float_format *f);
bool ht_format_same(const struct ht_float_format *a, const struct ht_float_format *b);
/* The type that all of its numbers are, and that rounds as it does but for subnormals of bfloat16; HT_INVALID: none. */
enum ht_dtype ht_format_dtype(const struct ht_float_format *f);

/* The type with as many bits of mantissa, or if there is none with fewer: statistics and tolerances go by it. */
enum ht_dtype ht_format_like(const struct ht_float_format *f);

/* ---- its numbers ---- */

int ht_format_least_exponent(const struct ht_float_format *f); /* of a normal number */
int ht_format_greatest_exponent(const struct ht_float_format *f);
double ht_format_largest(const struct ht_float_format *f);      /* finite number */
double ht_format_least_normal(const struct ht_float_format *f); /* positive */
/* The smallest float32 that rounding takes, or may take, beyond the largest number. */
float ht_format_overflow(const struct ht_float_format *f);
/* What becomes of a positive number beyond the largest one: that, infinity or NaN. */
float ht_format_beyond(const struct ht_float_format *f);

/* x rounded, without regard to blocks; `index` is the element's place in its tensor, which stochastic rounding draws by. */
float ht_format_round(const struct ht_float_format *f, float x, uint32_t index);
/* 32 bits drawn for the element that is at `index` and has these bits. */
uint32_t ht_format_draw(const struct ht_float_format *f, uint32_t index, uint32_t bits);
/* The common factor of a block whose largest magnitude is `most`, which is finite: with it that element has the largest exponent of the
 * format.  It is one of e8m0fnu's from 2^-126 on. */
float ht_format_block_factor(const struct ht_float_format *f, float most);
/* Rounds all elements of a dense tensor of `rows` x `along` x `columns`, with blocks along the middle axis if there are any. */
void ht_format_round_all(
	const struct ht_float_format *f, float *x, int64_t rows, int64_t along, int64_t columns);

#endif
