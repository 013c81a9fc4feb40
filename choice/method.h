/* Methods: the algorithms that a kernel can use, the method that the user requests, and the reason
 * why lowering chose one. */
#ifndef HT_CHOICE_METHOD_H
#define HT_CHOICE_METHOD_H

#include "base/base.h"

/* ---- the user's request ---- */

/* The method of 3 x 3 convolutions with stride 1 (kernel/winograd.h). */
enum ht_conv_method {
	HT_CONV_AUTO,        /* the one with the shorter estimated time */
	HT_CONV_DIRECT,      /* the sum over taps */
	HT_CONV_WINOGRAD,    /* F(4 x 4), wherever possible */
	HT_CONV_WINOGRAD_2X2 /* F(2 x 2), wherever possible */
};

/* The method of inverted residual blocks, squeeze and excitation, and attention. */
enum ht_block_method {
	HT_BLOCK_AUTO,    /* the one with the shorter estimated time */
	HT_BLOCK_KERNELS, /* each by a kernel of its own */
	HT_BLOCK_ROWS     /* row by row in one kernel, wherever possible */
};

/* The method of a batch in which no result of one part needs another part. */
enum ht_batch_method {
	HT_BATCH_AUTO,  /* the one with the shorter estimated time */
	HT_BATCH_WHOLE, /* each kernel computes the whole batch */
	HT_BATCH_PARTS  /* all kernels compute one part, then the next, wherever possible */
};

struct ht_methods_asked {
	enum ht_conv_method conv;
	enum ht_block_method block;
	enum ht_batch_method batch;
};

/* ---- the chosen method ---- */

/* The method of a kernel for which several were possible, and the reason for it (methods.def). */
enum ht_method {
#define METHOD(id, name, ask) HT_METHOD_##id,
#define REASON(id, name, is, limit)
#include "choice/methods.def"
	HT_METHOD_END
};
enum ht_reason {
#define METHOD(id, name, ask)
#define REASON(id, name, is, limit) HT_REASON_##id,
#include "choice/methods.def"
	HT_REASON_END
};
struct ht_method_info {
	const char *name, *ask;
};
struct ht_reason_info {
	const char *name, *is, *limit;
};
extern const struct ht_method_info ht_method_info[HT_METHOD_END];
extern const struct ht_reason_info ht_reason_info[HT_REASON_END];

struct ht_method_choice {
	struct ht_str node; /* the root of the kernel */
	enum ht_method method,
		/* other: the method that the user may request instead; HT_METHOD_END: none */
		other;
	enum ht_reason reason;
	double is, limit; /* the numbers in the reason's text */
	/* measured root mean square of the error, relative to the results; 0: the results have the
	 * same bits */
	double error;
};

#endif
