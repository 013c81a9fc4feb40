/* traits: properties of ops beside their signatures and effects.
 *
 * A row of ops.def has an or of these.  Passes, policies and lowering query properties with ht_is();
 * only a file that matches, builds or computes a particular op names it (scripts/check-ops).  A property
 * becomes a trait when something reads it.  scripts/check-ops refuses two traits with one number. */
#ifndef HT_TRAITS_H
#define HT_TRAITS_H

#include <stdint.h>

#define HT_TRAIT(i) (UINT64_C(1) << (i))

/* ---- sources ---- */
#define HT_CONSTANT HT_TRAIT(0)       /* the tensor of its attribute */
#define HT_FED HT_TRAIT(1)            /* an input of the graph, or an argument of a function */
#define HT_HAS_DEFAULT HT_TRAIT(2)    /* FED: gives its operand where nothing is fed */
#define HT_ARGUMENT HT_TRAIT(40)      /* FED: of a function */
#define HT_VARIABLE HT_TRAIT(3)       /* a variable, by handle or by reference */
#define HT_READS_VARIABLE HT_TRAIT(4) /* the value of a variable, given by handle */

/* ---- moving ---- */
#define HT_FORWARDS HT_TRAIT(5) /* each result is the operand in its place */
#define HT_RESHAPES HT_TRAIT(6) /* the first operand's elements in their order, in another shape */
#define HT_MOVES HT_TRAIT(7)    /* elements of the operands in other places, or repeated */
#define HT_GATHERS HT_TRAIT(8)  /* MOVES: by indices, which may be out of range */
#define HT_TELLS_SHAPE HT_TRAIT(44) /* the shapes of its operands, and nothing of their elements */
#define HT_SHAPED_BY_SECOND                                                                        \
	HT_TRAIT(45) /* operand 1 is the shape of the result, and nothing else */
/* The run computes an extent of its results, which is a size of the graph (struct ht_open_size). */
#define HT_COMPUTES_SIZE HT_TRAIT(48)
#define HT_SIZED_BY_ELEMENTS                                                                       \
	HT_TRAIT(49) /* elements of its operands decide the shape of its result */
#define HT_ONLY_MOVES (HT_FORWARDS | HT_RESHAPES | HT_MOVES)

/* ---- element by element ---- */
/* An element is a function of the operands' elements in its place, all being broadcast. */
#define HT_ELEMENTWISE HT_TRAIT(9)
#define HT_CASTS HT_TRAIT(10)    /* ELEMENTWISE: to another dtype */
#define HT_COMMUTES HT_TRAIT(11) /* its two operands may change places */
#define HT_ADDS HT_TRAIT(12)     /* ELEMENTWISE: the sum of two operands */
#define HT_LINEAR HT_TRAIT(13)   /* linear in each operand: a large operand gives a large result */
#define HT_SQUARES HT_TRAIT(14)  /* of the operand, or of a difference */
#define HT_EXPONENTIAL HT_TRAIT(15)  /* leaves the range of a low dtype for small operands */
#define HT_HANDS_ON HT_TRAIT(16)     /* elements of the operands, but for their signs and a bound */
#define HT_NON_NEGATIVE HT_TRAIT(17) /* no element of a result of real numbers is below 0 */

/* ---- how elements are computed; an ELEMENTWISE op has one of the first three ---- */
#define HT_BASIC HT_TRAIT(18)    /* by one operation, or by several that do not round */
#define HT_FUNCTION HT_TRAIT(19) /* by one function, whose result is rounded anyway */
#define HT_COMPOSED HT_TRAIT(20) /* by several operations, each of which may round */
#define HT_SHORTENS HT_TRAIT(21) /* by a polynomial with shorter forms, or dividing needlessly */

/* ---- sums of products: of operand ht_data_operand() and of the weights, operand 1 ---- */
#define HT_MATMUL HT_TRAIT(22)
#define HT_BATCH_MATMUL HT_TRAIT(23)
#define HT_EINSUM HT_TRAIT(24)
#define HT_CONV HT_TRAIT(25)
#define HT_DEPTHWISE HT_TRAIT(26)
#define HT_CONV_TRANSPOSE HT_TRAIT(27)
#define HT_MATRIX_PRODUCT (HT_MATMUL | HT_BATCH_MATMUL)
#define HT_CONVOLVES (HT_CONV | HT_DEPTHWISE | HT_CONV_TRANSPOSE)
/* The gradient of a convolution by its filter: sums of products of operand 0, the image, and 2, the gradient of the result. */
#define HT_CONV_FILTER HT_TRAIT(46)
#define HT_CONTRACTS (HT_MATRIX_PRODUCT | HT_EINSUM | HT_CONVOLVES | HT_CONV_FILTER)

/* ---- along axes ---- */
#define HT_REDUCES HT_TRAIT(28) /* along the axes that operand 1 lists */
#define HT_FINDS HT_TRAIT(29)   /* the place of an extreme along the axis of operand 1 */
#define HT_SUMS HT_TRAIT(30)    /* a sum or mean of many elements */
#define HT_ROWS HT_TRAIT(31)    /* each row of the last axis by itself */
#define HT_POOLS HT_TRAIT(32)   /* over windows */
#define HT_UNPOOLS                                                                                 \
	HT_TRAIT(47) /* the gradient of that by its operand: all operands of four axes are images */
#define HT_BATCH_NORM HT_TRAIT(33) /* each channel by itself; operand 0 is the image */
/* Has attribute data_format, and a kernel for NHWC alone; ht_is_image() tells which operands are images. */
#define HT_LAYOUT HT_TRAIT(34)

/* ---- control flow ---- */
#define HT_SWITCHES HT_TRAIT(35)   /* its operand goes to one of its results */
#define HT_DISPATCHES HT_TRAIT(43) /* its operand goes to the result of a number; not SWITCHES */
#define HT_MERGES HT_TRAIT(36)     /* gives the operand that arrives */
#define HT_ENTERS HT_TRAIT(37)     /* into a loop */
#define HT_ITERATES HT_TRAIT(38)   /* to the next round of a loop */
#define HT_CALLS_ONE HT_TRAIT(39)  /* calls the function of attribute f, and no other */
#define HT_BRANCHES HT_TRAIT(41)   /* runs one of two functions: ht_control_bodies() */
#define HT_LOOPS HT_TRAIT(42)      /* runs a function as long as another is true: likewise */

#endif
