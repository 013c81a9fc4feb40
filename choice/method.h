/* Methods: in which of several ways a kernel computes, what a user asks for, and why one was taken. */
#ifndef HT_CHOICE_METHOD_H
#define HT_CHOICE_METHOD_H

#include "base/base.h"

/* ---- what a user asks for ---- */

/* How 3 x 3 convolutions at stride 1 compute (kernel/winograd.h). */
enum ht_conv_method {
	HT_CONV_AUTO,        /* whichever is estimated to be faster */
	HT_CONV_DIRECT,      /* the sum over taps */
	HT_CONV_WINOGRAD,    /* F(4 x 4), wherever it is possible */
	HT_CONV_WINOGRAD_2X2 /* F(2 x 2), likewise */
};

/* How inverted residual blocks, squeeze and excitation, and attention compute. */
enum ht_block_method {
	HT_BLOCK_AUTO,    /* whichever is estimated to be faster */
	HT_BLOCK_KERNELS, /* each by a kernel of its own */
	HT_BLOCK_ROWS     /* row by row in one, wherever it is possible */
};

/* How a batch of which no result needs another's part computes. */
enum ht_batch_method {
	HT_BATCH_AUTO,  /* whichever is estimated to be faster */
	HT_BATCH_WHOLE, /* each kernel all of it */
	HT_BATCH_PARTS  /* all kernels one part after the other, wherever it is possible */
};

struct ht_methods_asked {
	enum ht_conv_method conv;
	enum ht_block_method block;
	enum ht_batch_method batch;
};

/* ---- what was taken ---- */

/* The method of a kernel whose node had a choice, and the reason for it (methods.def). */
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
		other; /* other: what may be asked for instead; HT_METHOD_END: none */
	enum ht_reason reason;
	double is, limit; /* the reason's numbers */
	double error; /* measured root mean square, as a share of the results'; 0: of the same bits */
};

#endif
