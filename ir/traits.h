/* traits: properties of ops beside their signatures and effects.
 *
 * A row of ops.def has a combination of these bits.  Passes, policies and lowering query properties
 * with ht_is(); only a file that matches, builds or computes a particular op names it
 * (scripts/check-ops).  A property becomes a trait when some code reads it.  scripts/check-ops
 * refuses two traits with one number.  Two properties with several values are fields of the same
 * word, which ht_axes() and ht_number() read. */
#ifndef HT_TRAITS_H
#define HT_TRAITS_H

#include <stdint.h>

#define HT_TRAIT(i) (UINT64_C(1) << (i))

/* ---- sources ---- */
#define HT_CONSTANT HT_TRAIT(0)       /* the tensor of its attribute */
#define HT_FED HT_TRAIT(1)            /* an input of the graph, or an argument of a function */
#define HT_HAS_DEFAULT HT_TRAIT(2)    /* FED: gives its operand if nothing is fed */
#define HT_ARGUMENT HT_TRAIT(40)      /* FED: of a function */
#define HT_VARIABLE HT_TRAIT(3)       /* a variable, by handle or by reference */
#define HT_READS_VARIABLE HT_TRAIT(4) /* the value of a variable, given by handle */

/* ---- moving ---- */
#define HT_FORWARDS HT_TRAIT(5) /* each result is the operand with the same index */
#define HT_RESHAPES HT_TRAIT(6) /* the first operand's elements in their order, in another shape */
#define HT_MOVES HT_TRAIT(7)    /* elements of the operands in other places, or repeated */
#define HT_GATHERS HT_TRAIT(8)  /* MOVES: by indices, which may be out of range */
/* depends on the shapes of its operands and not on their elements */
#define HT_TELLS_SHAPE HT_TRAIT(44)
#define HT_SHAPED_BY_SECOND                                                                        \
	HT_TRAIT(45) /* operand 1 is the shape of the result, and nothing else */
/* The run computes an extent of its results, which is a size of the graph (struct ht_open_size). */
#define HT_COMPUTES_SIZE HT_TRAIT(48)
#define HT_SIZED_BY_ELEMENTS                                                                       \
	HT_TRAIT(49) /* elements of its operands determine the shape of its result */
#define HT_ONLY_MOVES (HT_FORWARDS | HT_RESHAPES | HT_MOVES)

/* ---- element by element ---- */
/* An element is a function of the operands' elements at the same position, after a broadcast. */
#define HT_ELEMENTWISE HT_TRAIT(9)
#define HT_CASTS HT_TRAIT(10)    /* ELEMENTWISE: to another dtype */
#define HT_COMMUTES HT_TRAIT(11) /* its two operands may change places */
#define HT_ADDS HT_TRAIT(12)     /* ELEMENTWISE: the sum of two operands */
#define HT_LINEAR HT_TRAIT(13)   /* linear in each operand: a large operand gives a large result */
#define HT_SQUARES HT_TRAIT(14)  /* squares the operand, or a difference of operands */
#define HT_EXPONENTIAL HT_TRAIT(15) /* leaves the range of a low dtype for small operands */
/* gives elements of the operands, apart from their signs and a bound */
#define HT_HANDS_ON HT_TRAIT(16)
#define HT_NON_NEGATIVE HT_TRAIT(17) /* no element of a result of real numbers is below 0 */

/* ---- how elements are computed; an ELEMENTWISE op has one of the first three ---- */
#define HT_BASIC HT_TRAIT(18)    /* by one operation, or by several that do not round */
#define HT_FUNCTION HT_TRAIT(19) /* by one function, whose result is rounded in any case */
#define HT_COMPOSED HT_TRAIT(20) /* by several operations, each of which may round */
/* by a polynomial with shorter forms, or by a division that can be avoided */
#define HT_SHORTENS HT_TRAIT(21)

/* ---- which results are proportional to operands (passes/linear.c) ---- */
/* To all floating-point operands together: a sum, a difference, or a choice of their elements. ADDS
 * and ONLY_MOVES imply this. */
#define HT_LINEAR_TOGETHER HT_TRAIT(50)
#define HT_LINEAR_FIRST HT_TRAIT(51)  /* to operand 0, if all others are fixed */
#define HT_LINEAR_SECOND HT_TRAIT(52) /* to operand 1, which is the only floating-point operand */
/* to each operand, if the other is fixed; CONTRACTS implies this */
#define HT_MULTIPLIES HT_TRAIT(53)

/* ---- results whose elements are all one number ---- */
#define HT_CONSTANT_LIKE HT_TRAIT(54) /* always HT_NUMBER, in the shape of the operand */

/* ---- sums of products of operand ht_data_operand() and the weights, operand 1 ---- */
#define HT_MATMUL HT_TRAIT(22)
#define HT_BATCH_MATMUL HT_TRAIT(23)
#define HT_EINSUM HT_TRAIT(24)
#define HT_CONV HT_TRAIT(25)
#define HT_DEPTHWISE HT_TRAIT(26)
#define HT_CONV_TRANSPOSE HT_TRAIT(27)
#define HT_MATRIX_PRODUCT (HT_MATMUL | HT_BATCH_MATMUL)
#define HT_CONVOLVES (HT_CONV | HT_DEPTHWISE | HT_CONV_TRANSPOSE)
/* The gradient of a convolution by its filter: sums of products of operand 0, the image, and
 * operand 2, the gradient of the result. */
#define HT_CONV_FILTER HT_TRAIT(46)
#define HT_CONTRACTS (HT_MATRIX_PRODUCT | HT_EINSUM | HT_CONVOLVES | HT_CONV_FILTER)

/* ---- along axes ---- */
#define HT_REDUCES HT_TRAIT(28) /* along the axes that operand 1 lists */
#define HT_FINDS HT_TRAIT(29)   /* the index of an extreme along the axis of operand 1 */
#define HT_SUMS HT_TRAIT(30)    /* a sum or mean of many elements */
/* Each row of the last axis by itself; where there are two results, the first has a number for each row. */
#define HT_ROWS HT_TRAIT(31)
#define HT_SHARES                                                                                  \
	HT_TRAIT(55) /* ROWS: the share of each element in a row; the lowest number gets zero */
#define HT_POOLS HT_TRAIT(32) /* over windows */
#define HT_UNPOOLS                                                                                 \
	HT_TRAIT(47) /* the gradient of POOLS by its operand; all operands of rank 4 are images */
#define HT_BATCH_NORM HT_TRAIT(33) /* each channel by itself; operand 0 is the image */
/* Has attribute data_format, and a kernel for NHWC only; ht_is_image() says which operands are
 * images. */
#define HT_LAYOUT HT_TRAIT(34)

/* ---- control flow ---- */
#define HT_SWITCHES HT_TRAIT(35) /* passes its operand to one of its results */
/* passes its operand to the result with a number; not SWITCHES */
#define HT_DISPATCHES HT_TRAIT(43)
#define HT_MERGES HT_TRAIT(36)    /* gives the operand that arrives first */
#define HT_ENTERS HT_TRAIT(37)    /* into a loop */
#define HT_ITERATES HT_TRAIT(38)  /* to the next iteration of a loop */
#define HT_CALLS_ONE HT_TRAIT(39) /* calls the function of attribute f, and no other */
#define HT_BRANCHES HT_TRAIT(41)  /* runs one of two functions (ht_control_bodies()) */
#define HT_LOOPS HT_TRAIT(42)     /* runs a function while another one gives true; likewise */

/* ---- field: the axes of results that are axes of operands, if no trait above says it
 * (ELEMENTWISE, REDUCES, …) ---- */
enum ht_axes {
	HT_AXES_UNKNOWN,
	HT_AXES_SAME,    /* of the only operand */
	HT_AXES_FIRST,   /* of operand 0 */
	HT_AXES_OF_KEYS, /* of operand 1 */
	HT_AXES_WITHIN,  /* of operand 0; elements outside of the open size get a neutral number */
	HT_AXES_ALONG, /* of operand 0, except for that of attribute axis, or without it the last */
	HT_AXES_PERMUTED, /* of operand 0, in the order of operand 1 */
	HT_AXES_JOINED, /* of all operands but the first, which is the axis along which they lie */
	HT_AXES_JOINED_V2, /* likewise; the last operand is the axis */
	HT_AXES_PACKED,    /* of all operands, and a new axis of attribute axis */
	HT_AXES_UNPACKED,  /* of operand 0 without that of attribute axis, in each result */
	/* Those of the value, in each result.  Two operands: the axis to divide and the value;
	 * three: the value first and the axis last. */
	HT_AXES_SPLIT,
	HT_AXES_SLICED,   /* of operand 0, a part of each: operands 1 and 2 are begins and sizes */
	HT_AXES_STRIDED,  /* of operand 0, a part of each, by the masks of StridedSlice */
	HT_AXES_PADDED,   /* of operand 0, extended by the pairs of operand 1 */
	HT_AXES_REPEATED, /* of operand 0, after new ones, each repeated */
	HT_AXES_SELECTED, /* of all operands, or operand 0 is a vector that selects rows */
	/* of operand 0; an element depends on the elements before it along operand 1 */
	HT_AXES_RUNNING,
	HT_AXES_ONE_HOT,     /* of operand 0, and a new axis of attribute axis */
	HT_AXES_WINDOW,      /* of operand 0; windows slide over the spatial ones */
	HT_AXES_MADE,        /* of none: operands give the extents */
	HT_AXES_GATHERED,    /* of operand 0, one of which is replaced by those of operand 1 */
	HT_AXES_GATHERED_ND, /* of operand 1 except its last, then the inner ones of operand 0 */
	/* of none, likewise; operand 0 has the positions of operand 1's slices */
	HT_AXES_SCATTERED,
	/* of operand 0; operand 1 has the positions of operand 2's slices */
	HT_AXES_SCATTERED_INTO,
	/* a new one, then the inner ones of operand 0; operand 1 has the positions */
	HT_AXES_SEGMENTED,
	HT_AXES_POSITIONS, /* a list of positions in operand 0 */
	/* Of what a kernel reads as far as the run's sizes go: a list of rows of operands 0 and 1; in batches (rank 4) the first one of both;
	 * of sequences (rank 3) the second and first one of operand 0 behind a new one; of a vector its own. */
	HT_AXES_SUPPRESSED,
	/* a list of slices of operand 0; for each slice its index in the list; the counts */
	HT_AXES_DISTINCT,
	HT_AXES_DRAWN,    /* result 1 has those of operand 0, the others have none */
	HT_AXES_CONSUMED, /* none: one number from all elements */
	HT_AXES_REVERSED, /* of operand 0; operand 1 lists the mirrored ones, or with attribute seq_dim lengths of rows */
	HT_AXES_END
};
#define HT_AXES_BIT 56
#define HT_AXES(which) ((uint64_t)HT_AXES_##which << HT_AXES_BIT)

/* ---- field: the number that REDUCES, FINDS and axes CONSUMED and RUNNING ignore, and that CONSTANT_LIKE gives
 * ---- */
enum ht_number {
	HT_NUMBER_NONE,
	HT_NUMBER_ZERO,
	HT_NUMBER_ONE,
	HT_NUMBER_LOWEST,
	HT_NUMBER_HIGHEST
};
#define HT_NUMBER_BIT 61
#define HT_NUMBER(which) ((uint64_t)HT_NUMBER_##which << HT_NUMBER_BIT)

#endif
