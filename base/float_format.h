/* float_format: binary floating-point formats as data.
 *
 * A format is a set of float32 numbers: those with few bits of exponent and fraction.  Rounding to
 * a format gives such a number, as float32.  Formats with names are rows of a table; every other
 * format is written by its properties (ht_format_parse()). ht_format_round() defines rounding;
 * kernels compute the same with integers (lower/map_rounded.c). */
#ifndef HT_FLOAT_FORMAT_H
#define HT_FLOAT_FORMAT_H

#include "base/base.h"

/* Which codes are NaN. */
enum ht_format_nan {
	/* codes of the largest exponent with a fraction other than 0; fraction 0 is infinity */
	HT_FORMAT_NAN_IEEE,
	HT_FORMAT_NAN_LAST, /* the largest exponent with the largest fraction; there is no infinity */
	HT_FORMAT_NAN_ZERO, /* the code of negative zero, which the format lacks; there is no infinity */
	HT_FORMAT_NAN_NONE /* none; NaN becomes a zero of the opposite sign, as in ml_dtypes */
};

enum {
	HT_FORMAT_MAX_EXPONENT = 8,  /* bits */
	HT_FORMAT_MAX_MANTISSA = 22, /* bits */
	HT_FORMAT_MAX_BLOCK = 65536
};

struct ht_float_format {
	const char *name;       /* the name of a row of the table; NULL: none */
	int exponent, mantissa; /* in bits; a format of powers of 2 (`scale`) has no mantissa */
	int bias;
	enum ht_format_nan nan;
	bool subnormals; /* the format has subnormals; otherwise numbers that round to a subnormal become 0 */
	bool saturates; /* numbers beyond the largest one, infinity included, become the largest one */
	bool scale; /* the format has only positive powers of 2 and NaN, with one more exponent in place of 0 */
	bool stochastic; /* a number is rounded up with a probability equal to its distance to the number below */
	uint32_t seed; /* of stochastic rounding */
	/* So many consecutive elements along an axis share a factor, which is a power of 2; 0: no
	 * blocks. */
	int block;
	bool has_axis; /* false: the blocks lie along the axis that is summed over */
	int axis;      /* negative: counted from the end */
};

/* The formats with names; a row without a name ends the table. */
extern const struct ht_float_format ht_formats[];

/* Reads a name, optionally followed by ":PROPERTY=VALUE,…", or "float:PROPERTY=VALUE,…"
 * (docs/number-formats.md).  HT_E_USAGE: the text is no format; the message begins with `what`. */
enum ht_status ht_format_parse(
	struct ht_str text, const char *what, struct ht_diags *d, struct ht_float_format *out);
/* Writes the text that ht_format_parse() reads back as the same format. */
void ht_format_put(struct ht_buf *b, const struct ht_float_format *f);
bool ht_format_same(const struct ht_float_format *a, const struct ht_float_format *b);
/* The type that contains all numbers of the format and rounds like it, except for subnormals of
 * bfloat16; HT_INVALID: none. */
enum ht_dtype ht_format_dtype(const struct ht_float_format *f);

/* The type with as many bits of mantissa or, if there is none, with the next fewer.  Statistics and
 * tolerances use it. */
enum ht_dtype ht_format_like(const struct ht_float_format *f);

/* ---- the numbers of a format ---- */

int ht_format_least_exponent(const struct ht_float_format *f); /* of a normal number */
int ht_format_greatest_exponent(const struct ht_float_format *f);
double ht_format_largest(const struct ht_float_format *f);      /* the largest finite number */
double ht_format_least_normal(const struct ht_float_format *f); /* the least positive one */
/* The smallest float32 that rounding moves beyond the largest number, always or with some
 * probability. */
float ht_format_overflow(const struct ht_float_format *f);
/* The result for a positive number beyond the largest one: the largest one, infinity or NaN. */
float ht_format_beyond(const struct ht_float_format *f);

/* x rounded, without regard to blocks.  `index`: the index of the element in its tensor, from which
 * stochastic rounding draws. */
float ht_format_round(const struct ht_float_format *f, float x, uint32_t index);
/* 32 random bits for the element at `index` with these bits. */
uint32_t ht_format_draw(const struct ht_float_format *f, uint32_t index, uint32_t bits);
/* The common factor of a block whose largest magnitude is `most`, which is finite.  Divided by it,
 * that element has the largest exponent of the format.  The factor is a number of e8m0fnu, and at
 * least 2^-126. */
float ht_format_block_factor(const struct ht_float_format *f, float most);
/* Rounds all elements of a dense tensor of `rows` x `along` x `columns`; blocks, if any, lie along
 * the middle axis. */
void ht_format_round_all(
	const struct ht_float_format *f, float *x, int64_t rows, int64_t along, int64_t columns);

#endif
