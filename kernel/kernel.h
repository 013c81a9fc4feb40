/* kernel: tile programs, the form that defines what an op computes.
 *
 * A tile program is a list of stages over one grid of tiles.  Tile t of the grid runs every
 * stage in order.  Tiles are independent of each other and may run on different threads.  Stages
 * of one tile pass values through local buffers.  Tiles that run one after the other may pass
 * values in them too, if a prologue stage (`start` in struct ht_stage) can make the same values.
 *
 * A stage is a loop nest: an iteration domain, a scalar expression DAG over the domain's
 * indices, optional reductions over some of its dimensions, and stores.  A contraction is a
 * stage whose only reduction is a sum of products of a special form (struct ht_contract), so
 * that it can be emitted as a register tile; its epilogue is an expression DAG like that of any
 * other stage.
 *
 * The reference interpreter (interp.c) executes exactly this; the backend emits machine code for
 * it.  Expressions are scalar and typed; the interpreter rounds every value to its dtype. */
#ifndef HT_KERNEL_H
#define HT_KERNEL_H

#include "base/base.h"
#include "base/fault.h"
#include "base/size.h"
#include "kernel/target.h"

/* ---- expressions ---- */

/* Operands are numbers of earlier expressions of the stage, so the array is in evaluation order.
 *
 * Types: F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 BOOL compute; F16 and BF16 are only loaded, stored
 * and converted (arithmetic on them is written as CVT to F32, arithmetic, CVT back: so every
 * rounding is visible).  Integer arithmetic wraps. */
enum ht_xop {
	HT_X_CONST,  /* imm: the bits of the value (floats: bits of dtype, ints: sign-extended) */
	HT_X_DIM,    /* I64: index of domain dimension imm */
	HT_X_GRID,   /* I64: coordinate of the tile in grid dimension imm */
	HT_X_PARAM,  /* I64: kernel parameter imm */
	HT_X_LOAD,   /* buffer imm at element offset a.  Where b (BOOL) is false, the value is c,
		    * and memory is not read (b = c = -1: always loaded) */
	HT_X_RED,    /* result of reduction imm (only outside the reduction loops) */
	HT_X_CHECK,  /* value a; the kernel fails with code imm (enum ht_fault) where b is false */
	HT_X_SELECT, /* a ? b : c; both sides are evaluated, neither may fault */
	HT_X_CVT, /* a converted to dtype.  Floats round to nearest even; F16 and BF16 only from and to F32 (ht_xcvt puts F32 between).
	              * Float to int: struct ht_truncation.  Int to int wraps.  To BOOL: a != 0 (NaN: true) */
	HT_X_BITCAST, /* same bits, same size */
	/* arithmetic, both operands and result of dtype */
	HT_X_ADD,
	HT_X_SUB,
	HT_X_MUL,
	HT_X_DIV, /* floats: IEEE; ints: truncates; divisor 0 or INT_MIN/-1 must be excluded (see ht_xidiv() in expr.h) */
	HT_X_REM, /* ints: truncated remainder, same conditions; floats: fmod */
	HT_X_MULADD, /* floats: a * b + c, fused where the target has FMA; the interpreter fuses */
	HT_X_SCALE, /* F32: a * 2^b, rounded once: 1/2 <= |a| < 4, b whole, -250 to 250; NaN where both are */
	HT_X_MIN, /* floats: NaN when either is NaN (TensorFlow); -0 and +0 are equal */
	HT_X_MAX,
	HT_X_NEG,
	HT_X_ABS,
	HT_X_SQRT,
	HT_X_FLOOR,
	HT_X_CEIL,
	HT_X_RINT, /* nearest even */
	HT_X_TRUNC,
	/* ints and BOOL */
	HT_X_AND,
	HT_X_OR,
	HT_X_XOR,
	HT_X_NOT,
	HT_X_SHL, /* shift counts outside 0..bits-1 give 0 (SAR: the sign) */
	HT_X_SHR,
	HT_X_SAR,
	/* comparisons: operands of one type, result BOOL; false on NaN but for NE */
	HT_X_EQ,
	HT_X_NE,
	HT_X_LT,
	HT_X_LE,
	/* index arithmetic, I64, divisor a positive constant */
	HT_X_FLOORDIV,
	HT_X_FLOORMOD,
	/* Functions of F32 and F64. math.c rewrites them as the operations above, so the
	 * interpreter and the backend only see the expansion. imm: enum ht_accuracy. */
	HT_X_EXP,
	HT_X_EXPM1,
	HT_X_LOG,
	HT_X_LOG1P,
	HT_X_TANH,
	HT_X_SIGMOID,
	HT_X_ERF,
	HT_X_SIN,
	HT_X_COS,
	HT_X_TAN,
	HT_X_ATAN,
	HT_X_ATAN2,
	HT_X_ASIN,
	HT_X_ACOS,
	HT_X_SINH,
	HT_X_COSH,
	HT_X_ASINH,
	HT_X_ACOSH,
	HT_X_ATANH,
	HT_X_ERFC,
	HT_X_RSQRT,
	HT_X_POW,
	HT_X_END
};

/* Forms of the functions of F32, the most exact first; those of F64 always have the most exact
 * one. docs/modes.md has the cost and the error of each. */
enum ht_accuracy { HT_ACCURACY_FULL, HT_ACCURACY_SHORT, HT_ACCURACY_SHORTEST };

struct ht_x {
	enum ht_xop op;
	enum ht_dtype dtype;
	int32_t a, b, c; /* -1: none */
	int64_t imm;
};

/* How HT_X_CVT converts a float to an integer: as TensorFlow does on x86, on every machine.  The
 * float is truncated to a signed integer of `bits` bits, which is the smallest one for NaN and
 * for values out of range; its low bits are the result.  With `halved`, floats from 2^63 on give
 * the integer of their difference to 2^63, with the top bit flipped. */
struct ht_truncation {
	int bits; /* 32 or 64 */
	bool halved;
};
struct ht_truncation ht_truncation_to(enum ht_dtype to);

/* ---- stages ---- */

#define HT_MAX_DIMS 12
#define HT_MAX_GRID 4

/* An end of a dimension that depends on open sizes, whose values are parameters of the kernel.  The dimension consists of runs of `run`
 * indices, or of a part of one.  In each run only the first `end` indices are needed: code may skip the others, or execute them; in
 * a dimension that is no reduction and one run, it executes no more of them than ht_cut_slack().
 *
 * Code must skip the indices behind `end` in the last run in these cases:
 * - in a reduction dimension of a loop, and in a dimension of a loop that does not run along lanes;
 * - in the rows of a contraction;
 * - in the depth of a contraction, if it has one cut by one size and one run, its extent and end.times are multiples of HT_CUT_ROUND,
 *   and neither short runs of sums (ht_contract.run) nor a matrix unit compute it. */
struct ht_cut {
	struct ht_size_expr
		end; /* its sizes are parameters; it may be above `run` if it is rounded up */
	int64_t run; /* 0: there is no cut */
};
enum { HT_CUTS = 2 /* of a dimension */, HT_CUT_ROUND = 8 };

/* A dimension of a stage's domain.  grid < 0: the index runs from 0 to extent.  Otherwise the tile
 * with coordinate g runs from g*step to min(extent, (g+1)*step). */
struct ht_dim {
	int64_t extent;
	int8_t grid;
	bool reduce; /* reduction dimensions come last */
	int64_t step;
	int8_t unroll; /* a hint: copies of the body side by side in registers (1: none) */
	struct ht_cut cut[HT_CUTS];
	int64_t least; /* a hint: no `end` of its cuts is less, whatever the sizes are */
};

enum ht_red {
	HT_RED_ADD,
	HT_RED_MUL,
	HT_RED_MIN,
	HT_RED_MAX,
	HT_RED_AND,
	HT_RED_OR,
	HT_RED_ARGMIN,
	HT_RED_ARGMAX
};

/* A reduction of expression `x` over all reduction dimensions.  Starts from the neutral element;
 * sums of F32 accumulate in F32 (in any order).  ARGMIN/ARGMAX give the I64 position (row-major
 * over the reduction dimensions) of the first extreme; x is the value compared.  As in TensorFlow
 * they start from position 0 and the neutral element of MIN or MAX, and go to a later position
 * only where x is strictly better: NaN is never chosen, and all NaN gives 0.
 * Sums and products of F32 with `keep` are rounded to it after each step. */
struct ht_reduction {
	enum ht_red op;
	enum ht_dtype dtype; /* of x, and of the result, except for ARG* */
	enum ht_dtype keep;  /* HT_F16, HT_BF16, or HT_INVALID: not rounded */
	int32_t x;
};

/* Iterations of a stage that is not sequential may store to one element if all of them store the same value.  So a tile can note that
 * a condition, the guard, holds in some iteration. */
struct ht_store {
	int32_t buffer;
	int32_t offset; /* expression, I64, elements */
	int32_t value;  /* expression of the buffer's dtype */
	int32_t guard;  /* expression, BOOL: nothing is stored where it is false; -1: always */
};

/* Memory that later tiles read, and for which code may ask while it multiplies: `pieces` runs of `count` elements each, `step` elements from
 * one to the next, of which the first begins at element `at` (an expression, I64, of dimensions of the grid).  It is a hint: results do
 * not depend on it, nothing is read, and it may reach beyond the ends of the buffer, where nothing has to be. */
struct ht_ahead {
	int32_t buffer; /* an argument */
	int32_t at;
	int64_t pieces, step, count;
};
enum { HT_AHEAD = 2 };

/* The special form of a contraction.  Domain: any dimensions, among them `m` and `n`; the
 * reduction dimensions are the taps (possibly none) followed by the depth, which is the last.
 *
 *   HT_X_RED 0 [.., m, n] = sum over taps, k of  A[a_row + k * a_step] * B(n, tap, k)
 *
 * a_row (I64) may use every dimension but n and depth.  Where a_guard (BOOL; -1: always true) is
 * false, the row counts as zeros and is not read.  B is packed: element (n, q, k), with q the
 * row-major number of the tap, is at
 *
 *   b_base + ((n / nr) * (Q * K' / kp) + (q * K' + k) / kp) * nr * kp + (n % nr) * kp + k % kp
 *
 * with Q taps and K' = depth's extent rounded up to kp.  Columns past n's extent and depths past
 * K are zero, and in BF16 no number is subnormal, also where it lies in rows (below). b_base (I64) may use the dimensions outside m,
 * n and the reductions.
 *
 * b_row > 0: B is not packed but lies in rows of so many elements, as a matrix in memory does: element (n, q, k) is at
 * b_base + (q * K + k) * b_row + n.  kp is 1, n's extent is a multiple of nr, and there is no wide_buffer.
 *
 * Sums accumulate in F32 (I32 for integer operands).  A is F32, F16 or BF16 in memory; kp is 1, or
 * 2 where B is BF16 and A is BF16 or F32 (pairs; then a_step is 1, and of an odd depth the last number has none beside it).
 * Pairs of BF16 may be held as U32, one number for both.  Of B, b_base and places count the numbers of pairs in either case.  Of A, a_row and
 * a_step count the pairs, which may be apart: pair p of a row is A[a_row + p * a_step].  The depth is even then.
 *
 * run > 0: A and B are F16, kp is 2, and short runs of products are summed in F16.  There are
 * two such sums, of even and of odd depths; each product is added with one rounding.  After
 * `run` pairs of a tap, and after every ht_taps_of_run() taps, the two are added in F16 and
 * their sum is added to the sum in F32; then both begin at 0 again.  Code may use more sums for
 * a run, to have more products in flight: the order within a run is unspecified.
 *
 * pieces > 0: each number of A and of B is a sum of so many BF16 numbers, its pieces, the largest first (lower/pieces.c).  The depth consists of
 * groups of `pieces` times HT_PIECE_DEPTH numbers: the first pieces of HT_PIECE_DEPTH numbers, then their second ones, and so on.  The sum is
 * that of the products of piece i of a number of A and piece j of the number of B with i + j < pieces.  A and B are BF16, kp is 2, and there are
 * no taps, guards or cuts of the depth.
 *
 * wide_buffer > 0: B is F16 or BF16, and there are no short runs.  Code keeps the current panel as F32 in this
 * local buffer of Q * K' * nr numbers: the first block of a tile's rows widens it and stores it
 * there, the other blocks read it.  Where the rows are the last dimension of the grid and each tile has one panel, the tiles behind the
 * first one of a call find it there, too.  This does not change the sums.  Code that multiplies pairs as they are makes no use of it. */
struct ht_contract {
	int32_t m, n; /* domain dimensions */
	int32_t a_buffer, b_buffer, wide_buffer;
	int32_t a_row, a_guard; /* expressions */
	int64_t a_step;
	int32_t b_base;
	int64_t b_row;
	int32_t nr, kp, run, pieces;
	int32_t mr; /* rows of the register tile, set by ht_schedule_contract() */
	int32_t aheads;
	struct ht_ahead ahead[HT_AHEAD];
};

/* Pairs of products in a run, a multiple of HT_E_DEPTH_UNROLL. Each addition has an error of up
 * to half a unit in the last place of the sum so far, so a run of n products has a root mean
 * square error of sqrt(n / 12) units.  This is the longest power of two for which that is at
 * most half the error of sums of bfloat16, 2.3e-3: docs/contraction-numerics.md. */
enum { HT_SHORT_RUN = 64 };

/* Numbers of which a group of pieces has one after the other: those of a step in depth of a matrix unit. */
enum { HT_PIECE_DEPTH = 32, HT_MOST_PIECES = 3 };

enum ht_stage_kind { HT_STAGE_LOOP, HT_STAGE_CONTRACT };

struct ht_stage {
	enum ht_stage_kind kind;
	int32_t dims;
	struct ht_dim dim[HT_MAX_DIMS];
	int32_t vec; /* the dimension to run along vector lanes; -1: scalar */
	struct ht_x *x;
	int32_t xs;
	struct ht_reduction *red;
	int32_t reds;
	struct ht_store *store;
	int32_t stores;
	struct ht_contract contract; /* of HT_STAGE_CONTRACT */
	/* The iterations of a tile are executed in the order of the dimensions, `vec` being the
	 * last of them.  Each reads what earlier ones stored, except those along `vec`, which
	 * run at the same time.  Such a stage has no reductions. */
	bool sequential;
	/* Prologue stage: fills the local buffers that a tile otherwise inherits from the tile
	 * before it.  Runs in the first tile of each call, and where the last coordinate of the
	 * grid is 0. */
	bool start;
};

/* ---- kernels ---- */

enum ht_buffer_kind { HT_BUFFER_IN, HT_BUFFER_OUT, HT_BUFFER_LOCAL };

struct ht_kernel_buffer {
	enum ht_buffer_kind kind; /* arguments first, locals last */
	enum ht_dtype dtype;
	int64_t count; /* elements; locals: per tile */
};

struct ht_kernel {
	struct ht_kernel_buffer *buffer;
	int32_t buffers, args; /* args: buffers that are passed in */
	int32_t grid_dims;
	int64_t grid[HT_MAX_GRID]; /* tiles = product; tile number is row-major */
	int32_t params;
	struct ht_stage *stage;
	int32_t stages;
	/* 1 + an argument, an integer of one element; 0: none.  Where that is odd, code takes the tiles of a call from the last to the first:
	 * a kernel in a loop first reads what the iteration before read last, and finds it in a cache.  No results depend on it.  There are
	 * no prologue stages then, and no panels that tiles inherit (ht_contract.wide_buffer). */
	int32_t turns;
	/* A function of kernel/library.c by name, instead of stages. */
	const char *library;
	const char *
		method; /* for reports: "winograd-2x2", "matrix-vector"; static, or NULL; not part of the text */
};

/* The calling convention of generated code, of library kernels, and of the interpreter:
 * `buffers` are the arguments in order; runs tiles [tile_begin, tile_end); `scratch` holds the
 * local buffers (ht_kernel_scratch() bytes, aligned to 64).  Returns 0 or an ht_fault. */
typedef int32_t ht_kernel_fn(void *const *buffers, const int64_t *params, int64_t tile_begin,
	int64_t tile_end, void *scratch);

/* Where a loop over the indices [.., end) of a dimension may end, given the kernel's parameters: at `end`, or earlier if its cuts
 * allow that. */
int64_t ht_cut_end(const struct ht_dim *d, const int64_t *params, int64_t end);

/* The most indices from the `end` of a cut on that code executes in a dimension of stage s: those that fill its last step of copies and
 * lanes. */
int64_t ht_cut_slack(const struct ht_stage *s, int dim);

int64_t ht_kernel_tiles(const struct ht_kernel *k);
/* Bytes of scratch: locals one after the other, each aligned to 64; library kernels say their own. */
size_t ht_kernel_scratch(const struct ht_kernel *k);
/* Offset of local buffer `b` in the scratch. */
size_t ht_kernel_local_offset(const struct ht_kernel *k, int32_t b);

/* text.c: the canonical text; equal kernels have equal texts. */
void ht_kernel_print(const struct ht_kernel *k, struct ht_buf *out);
/* The parts of a stage that have lines in that text: one for the whole stage, one for its sums
 * of products, and one for each expression, reduction and store. */
enum ht_stage_part { HT_PART_STAGE, HT_PART_X, HT_PART_CONTRACT, HT_PART_RED, HT_PART_STORE };
/* The line of part `i` of stage `stage`, from 1. */
int32_t ht_kernel_line(
	const struct ht_kernel *k, int32_t stage, enum ht_stage_part part, int32_t i);
/* The number of lines of the text. */
int32_t ht_kernel_lines(const struct ht_kernel *k);

/* verify.c: aborts, with the kernel's text, if a kernel breaks the rules above; for tests and
 * after lowering. */
void ht_kernel_verify(const struct ht_kernel *k);

/* interp.c: interprets the kernel.  Same contract as ht_kernel_fn. */
int32_t ht_interpret(const struct ht_kernel *k, void *const *buffers, const int64_t *params,
	int64_t tile_begin, int64_t tile_end, void *scratch);

/* library.c: NULL if there is no kernel of this name. */
ht_kernel_fn *ht_library_kernel(const char *name);
/* The kind of objects of this name; NULL: there is none. */
struct ht_object_kind;
const struct ht_object_kind *ht_library_object(const char *name);
/* library_table.c: checks the parts of an object of kind "table". Parameters: type of keys, type
 * of values, the most keys; constants: keys and values, or none if a kernel fills the table.
 * For permitted types see ht_table_types().  If a key has two different values, *first and
 * *second become the elements that state them; false: there is no such key, or memory ran out. */
struct ht_object_parts;
bool ht_table_contradicts(const struct ht_object_parts *from, uint64_t *first, uint64_t *second);
/* Whether there are tables from keys to values of these types. */
bool ht_table_types(enum ht_dtype key, enum ht_dtype value);
/* library_mutable.c: likewise of objects of kind "mutable_table".  Parameters of one: type of keys,
 * type of values (HT_STRING is permitted), elements of a value, how many keys are reserved, these
 * two keys. */
bool ht_mutable_table_types(enum ht_dtype key, enum ht_dtype value);
/* library_random.c: tiles of a kernel that draws `count` numbers of type `t`. */
int64_t ht_random_tiles(enum ht_dtype t, int64_t count);
int64_t ht_gamma_tiles(int64_t count);

/* math.c: rewrites EXP … POW of every stage as basic operations, in arena `a`, and removes
 * unused expressions. */
void ht_kernel_expand(struct ht_kernel *k, struct ht_arena *a);

/* pack.c: packs a K' by N matrix of B as struct ht_contract says.  Source element (q, k, n) is at
 * q * sq + k * sk + n * sn, in elements.  Converts between F32, F16 and BF16.  dst holds
 * ht_packed_count() elements. */
struct ht_pack {
	enum ht_dtype src_dtype, dst_dtype;
	int64_t taps, depth, n;
	int64_t sq, sk, sn;
	int32_t nr, kp;
	/* Not 0: the source has the 9 taps of 3 x 3 filters.  They are transformed for F(m x m)
	 * of this m (winograd.h), and packed as (m + 2)^2 matrices of one tap each, one after
	 * the other. dst_dtype is F32, or F16 or BF16 with kp 2; sn is 1. */
	int32_t winograd;
	bool hf32; /* F32 to F32, rounded to 19 bits */
	/* Not 0: F32 to as many pieces of BF16 (struct ht_contract).  Pieces have the sign of their number, and are zero only if it is. */
	int32_t pieces;
};
int64_t ht_packed_count(const struct ht_pack *p);
void ht_pack_b(const struct ht_pack *p, const void *src, void *dst);
/* Converts `n` numbers between F32, F16 and BF16, as base.h converts each of them. */
void ht_convert_floats(enum ht_dtype from, const void *src, enum ht_dtype to, void *dst, size_t n);

/* uses.c: whether x depends on dimension `dim` (loads count through their offsets). */
bool ht_x_uses_dim(const struct ht_stage *s, int32_t x, int dim);
/* Whether x is computed of expression `of`, or is it. */
bool ht_x_uses(const struct ht_stage *s, int32_t x, int32_t of);

/* The type of the numbers of B, and of A: BF16 where they are held as pairs. */
enum ht_dtype ht_packed_type(const struct ht_kernel *k, const struct ht_contract *c);
enum ht_dtype ht_row_type(const struct ht_kernel *k, const struct ht_contract *c);

/* How many taps a run of `run` steps in depth may span: those of the innermost dimensions, as
 * many as fit; at least 1. */
int64_t ht_taps_of_run(const struct ht_stage *s, int64_t run);

/* schedule.c: the first function chooses nr and kp for packing a contraction of `m` rows, `n`
 * columns, `k` depth with operands of type `t`; the second sets mr in a finished kernel. */
void ht_schedule_packing(const struct ht_target *t, enum ht_dtype dtype, int64_t m, int64_t n,
	int64_t k, int32_t *nr, int32_t *kp);
/* Pairs of each step in depth of a product of matrices, where all steps can be equal, of `depth` pairs; 0: they cannot. */
int ht_equal_pairs(int64_t depth);
/* Tile sizes along m and n for the grid: multiples of the register tile, whose columns are the `nr` that the right operand is
 * packed with.  one_panel: each tile has `nr` columns. */
void ht_schedule_tiles(const struct ht_target *t, enum ht_dtype dtype, int64_t m, int64_t n,
	int64_t k, int32_t nr, bool one_panel, int64_t *m_step, int64_t *n_step);
void ht_schedule_contract(const struct ht_target *t, struct ht_kernel *k);

#endif
