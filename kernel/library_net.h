/* library_net: library kernels of nets (docs/aot.md).
 *
 * The files net_*.c compile the files of these kernels a second time; HT_FOR_NETS is the name of the section for their code.
 * That code refers to nothing outside of the section, so it can be copied into a net.  For that all functions that a kernel
 * calls are inlined or in the section, and loops take the place of memcpy() and memset(). */
#ifndef HT_KERNEL_LIBRARY_NET_H
#define HT_KERNEL_LIBRARY_NET_H

/* gcc makes tables in memory of some switches. */
#if defined HT_FOR_NETS && !defined __clang__
#pragma GCC optimize("no-tree-switch-conversion")
#endif

#include "kernel/library.h"

/* The section with library kernel `name`, whose function begins at its byte *entry; empty: nets cannot have that kernel. */
struct ht_str ht_library_net_code(const char *name, uint64_t *entry);

/* The kernels of nets: K(section, name).  A section has the kernels of one file. */
#define HT_NET_KERNELS(K)                                                                          \
	K(check, assert)                                                                           \
	K(boxes, boxes)                                                                            \
	K(boxes, combined_boxes)                                                                   \
	K(ctc, ctc_beams)                                                                          \
	K(distance, edit_distance)                                                                 \
	K(index, sparse_to_dense)                                                                  \
	K(index, top_k)                                                                            \
	K(unique, unique)                                                                          \
	K(where, where)

#ifdef HT_FOR_NETS
#include <math.h>
#include <string.h>

#define HT_NET_KERNEL(of, name)                                                                    \
	__attribute__((section("ht_net_" #of), used,                                               \
		flatten)) ht_kernel_fn ht_library_##name __asm__("ht_net_kernel_" #name);
HT_NET_KERNELS(HT_NET_KERNEL)
/* Nets do not use these functions of the same files, so they only get names of their own. */
ht_kernel_fn ht_library_tee __asm__("ht_net_tee");
size_t ht_boxes_scratch(const struct ht_kernel *k) __asm__("ht_net_boxes_scratch");
size_t ht_combined_boxes_scratch(const struct ht_kernel *k) __asm__(
	"ht_net_combined_boxes_scratch");
size_t ht_ctc_beams_scratch(const struct ht_kernel *k) __asm__("ht_net_ctc_beams_scratch");
size_t ht_edit_distance_scratch(const struct ht_kernel *k) __asm__("ht_net_edit_distance_scratch");
size_t ht_unique_scratch(const struct ht_kernel *k) __asm__("ht_net_unique_scratch");
#define HT_NET_INLINE static inline __attribute__((always_inline))

/* The empty statements keep the compiler from making these loops calls. */
HT_NET_INLINE void ht_net_copy(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t)) {
		__builtin_memcpy(t, f, sizeof(uint64_t));
		t += sizeof(uint64_t);
		f += sizeof(uint64_t);
		__asm__ volatile("" ::: "memory");
	}
	for (; n; n--) {
		*t++ = *f++;
		__asm__ volatile("" ::: "memory");
	}
}

HT_NET_INLINE void ht_net_clear(void *to, size_t n)
{
	char *t = to;

	for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t)) {
		__builtin_memset(t, 0, sizeof(uint64_t));
		t += sizeof(uint64_t);
		__asm__ volatile("" ::: "memory");
	}
	for (; n; n--) {
		*t++ = 0;
		__asm__ volatile("" ::: "memory");
	}
}

#define HT_NET_IS_SMALL(n) (__builtin_constant_p(n) && (n) <= 16)
#undef memcpy
#define memcpy(to, from, n)                                                                        \
	(HT_NET_IS_SMALL(n) ? (void)__builtin_memcpy(to, from, n) : ht_net_copy(to, from, n))
#undef memset /* only for zeros */
#define memset(to, zero, n)                                                                        \
	(HT_NET_IS_SMALL(n) ? (void)__builtin_memset(to, zero, n) : ht_net_clear(to, n))

#undef HT_CHECK
#define HT_CHECK(cond) ((cond) ? (void)0 : __builtin_trap())
#undef isnan
#define isnan(x) __builtin_isnan(x)

#include "base/half.h"
#define HT_NET_FUNCTION static __attribute__((section(HT_FOR_NETS), noinline, unused))
HT_NET_FUNCTION float ht_net_f16_to_f32(uint16_t h)
{
	return ht_f16_widened(h);
}
HT_NET_FUNCTION uint16_t ht_net_f32_to_f16(float f)
{
	return ht_f16_narrowed(f);
}
#define ht_f16_to_f32 ht_net_f16_to_f32
#define ht_f32_to_f16 ht_net_f32_to_f16
#define ht_bf16_to_f32 ht_bf16_widened

/* A number that is a part of an instruction, not a constant in memory. */
HT_NET_INLINE double ht_net_number(double x)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &x, sizeof bits);
	__asm__("" : "+r"(bits));
	__builtin_memcpy(&x, &bits, sizeof bits);
	return x;
}
#undef HT_LIBRARY_NUMBER
#define HT_LIBRARY_NUMBER(x) ht_net_number(x)
#undef HT_LIBRARY_BYTES
#define HT_LIBRARY_BYTES(type) ht_element_bytes(type)

/* By a polynomial that is as exact as a double. */
HT_NET_INLINE float ht_net_exp(float x)
{
	double r = (double)x, y;
	uint64_t bits;
	int k;

	if (!(r >= HT_LIBRARY_NUMBER(-104.0)))
		return r < 0 ? 0 : x; /* it is NaN */
	k = (int)(r * HT_LIBRARY_NUMBER(0x1.71547652b82fep0) - HT_LIBRARY_NUMBER(0.5));
	r -= k * HT_LIBRARY_NUMBER(0x1.62e42fefa39efp-1);
	y = HT_LIBRARY_NUMBER(1.0 / 479001600);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 39916800);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 3628800);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 362880);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 40320);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 5040);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 720);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 120);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 24);
	y = y * r + HT_LIBRARY_NUMBER(1.0 / 6);
	y = y * r + HT_LIBRARY_NUMBER(0.5);
	y = y * r + HT_LIBRARY_NUMBER(1.0);
	y = y * r + HT_LIBRARY_NUMBER(1.0);
	bits = (uint64_t)(1023 + k) << 52;
	__builtin_memcpy(&r, &bits, sizeof r);
	return (float)(y * r);
}
#undef HT_LIBRARY_EXP
#define HT_LIBRARY_EXP(x) ht_net_exp(x)
#endif

#endif
