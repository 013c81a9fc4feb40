/* native: loops of the compiler itself with instructions of the current machine, where these are
 * faster than code for every machine.
 *
 * Each function computes the first numbers of its arrays and returns how many: none if the
 * machine lacks the instructions.  The caller computes the others in plain C, with the same
 * bits. */
#ifndef HT_NATIVE_H
#define HT_NATIVE_H

#include "kernel/kernel.h"

/* a * b + c, rounded once. */
int ht_native_muladd_f32(float *r, const float *a, const float *b, const float *c, int n);
int ht_native_muladd_f64(double *r, const double *a, const double *b, const double *c, int n);

/* op: HT_X_FLOOR, HT_X_CEIL, HT_X_RINT or HT_X_TRUNC. */
int ht_native_round_f32(enum ht_xop op, float *r, const float *a, int n);
int ht_native_round_f64(enum ht_xop op, double *r, const double *a, int n);

/* These round as ht_f32_to_bf16() and ht_f32_to_f16() do. */
int64_t ht_native_f32_to_bf16(const float *src, uint16_t *dst, int64_t n);
int64_t ht_native_f32_to_f16(const float *src, uint16_t *dst, int64_t n);
/* Rounds to BF16 and widens the result again. */
int64_t ht_native_round_bf16(const float *src, float *dst, int64_t n);
/* Interleaves two rows of F32 as pairs of BF16; those of `a` are the low halves. */
int64_t ht_native_f32_to_bf16_pairs(const float *a, const float *b, uint32_t *dst, int64_t n);

/* Like ht_bf16_to_f32() and ht_f16_to_f32(), but a signalling NaN may become a quiet one. */
int64_t ht_native_bf16_to_f32(const uint16_t *src, float *dst, int64_t n);
int64_t ht_native_f16_to_f32(const uint16_t *src, float *dst, int64_t n);

/* Each sum consists of HT_NATIVE_LANES partial sums: element i of an array is added to partial
 * sum i % HT_NATIVE_LANES. */
enum { HT_NATIVE_LANES = 16 };
struct ht_native_sums {
	double squares[HT_NATIVE_LANES];
	float most[HT_NATIVE_LANES];
};
/* Adds (a-b)^2 and max|a-b|.  Differences are rounded to float32, their squares are added in double.  If an element is infinite or NaN, so
 * is a sum of squares. */
int64_t ht_native_differences(struct ht_native_sums *s, const float *a, const float *b, int64_t n);
/* The same, and adds b^2 and max|b| to `of`. */
int64_t ht_native_compare(struct ht_native_sums *s, struct ht_native_sums *of, const float *a,
	const float *b, int64_t n);

/* Elements that are zero where another array's are not, and elements that are not zero but smaller than a limit. */
struct ht_native_small {
	uint32_t zeros, smaller;
};
/* Adds as ht_native_differences() does, and counts such elements of `a`; those of `b` are the other array's. */
int64_t ht_native_errors(struct ht_native_sums *s, struct ht_native_small *found, const float *a,
	const float *b, float least, int64_t n);

#endif
