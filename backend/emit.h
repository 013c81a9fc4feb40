/* Internal: the state of a kernel while it is emitted as LLVM IR.
 *
 * There is one function per kernel: a loop over tiles, which contains the stages one after the
 * other, each a loop nest.  Every expression of a stage is emitted at most once per loop level
 * and copy: at its home, the innermost loop whose index it depends on, in front of the loops
 * further in.  So LLVM need not hoist anything, which it could not do past stores through
 * pointers that may alias.
 *
 * Register blocking: a level may have several copies of its index (unroll and jam).  An
 * expression has one value per copy of the dimensions that it uses.  The dimension `vec` runs
 * along vector lanes.  Every expression has a vector form.  It also has a scalar form (its value
 * in lane 0) if it does not depend on `vec`, or is an I64 that grows by a constant from lane to
 * lane. */
#ifndef HT_BACKEND_EMIT_H
#define HT_BACKEND_EMIT_H

#include "backend/backend.h"
#include "kernel/lines.h"

#include <llvm-c/Core.h>

#define HT_E_MAX_COPIES 32
#define HT_E_LINE 64 /* bytes of a line of the caches */
/* Lines that a step in depth asks for are counted in units of 1 / 2^HT_E_PACE. */
#define HT_E_PACE 20
#define HT_E_DEPTH_UNROLL 4 /* steps in depth of a contraction in one round of its loop */

/* The linear form of an I64 expression; all zero for other types: x = sum of coef[d] * dimension
 * d + sum of grid[g] * coordinate g + c + (a term in the dimensions `opaque`).  `pure`: there is
 * no such term. */
struct ht_e_info {
	uint32_t uses; /* bits of the dimensions that it depends on */
	uint32_t opaque;
	bool pure;
	bool of_indices; /* computed of indices and parameters alone, not of what is in memory */
	bool varies;     /* from lane to lane */
	bool lane;   /* an I64 that grows by lane_step from lane to lane, so it has a scalar form */
	int8_t home; /* number of levels that contain it */
	int64_t lane_step;
	int64_t coef[HT_MAX_DIMS], grid[HT_MAX_GRID], c;
};

struct ht_e_level {
	int dim;
	LLVMValueRef index; /* I64, of copy 0, lane 0 */
	int copies;
	int64_t stride;        /* from copy to copy: 1, or the number of lanes */
	int64_t lo, hi;        /* bounds of index + offset of any copy, inclusive */
	bool exact;            /* index is the constant lo for copy 0 */
	LLVMBasicBlockRef pre; /* the block in front of the loop; NULL if there is no loop */
};

/* A load that was emitted, which equal loads share. */
struct ht_e_shared {
	int32_t buffer;
	LLVMValueRef base, value;
	int64_t displace, step; /* step: from lane to lane, in elements */
	bool vector;
	int home;
};

/* Where the runs of a long sum end (total.c): after every `rounds` rounds of the loop of `level`.  Level -1: there are none. */
struct ht_e_runs {
	int level;
	int64_t rounds;
};

struct ht_e {
	LLVMContextRef c;
	LLVMModuleRef mod;
	LLVMBuilderRef b;
	LLVMValueRef fn;
	const struct ht_kernel *k;
	const struct ht_target *t;
	struct ht_arena *arena;
	LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr;
	LLVMBasicBlockRef entry;      /* allocas, buffer pointers */
	LLVMValueRef *buffer, *param; /* loaded in the entry block */
	LLVMValueRef grid[HT_MAX_GRID];
	LLVMValueRef starts;  /* whether this is the first tile of a call, or of its row of tiles */
	LLVMValueRef fault;   /* alloca, I32 */
	LLVMValueRef zeros;   /* a constant of HT_E_ZEROS bytes, or as many as a contraction
			       * needs */
	LLVMValueRef dump;    /* alloca of a vector, the target of stores that must have no
			       * effect, or NULL */
	LLVMValueRef widened; /* alloca of widen.c, or NULL */
	LLVMValueRef one;     /* of low.c, or NULL */
	bool streaming;       /* large results begin at cache lines */

	/* The stage being emitted. */
	const struct ht_stage *s;
	struct ht_e_info *info;
	int lanes; /* of the target; 1 if the stage has no vec */
	int vl;    /* current number of lanes: `lanes`, or 1 in a scalar remainder */
	struct ht_e_level level[HT_MAX_DIMS];
	int levels, outer; /* outer: levels that are not reductions */
	int open;          /* levels entered so far */
	int level_of[HT_MAX_DIMS];
	int off[HT_MAX_DIMS]; /* current copy, by dimension */
	int max_copies[HT_MAX_DIMS], memo_stride[HT_MAX_DIMS], memo_size;
	LLVMValueRef *scalar, *vector; /* [x][memo index] */
	struct ht_e_shared *shared;
	size_t shared_count, shared_cap;
	LLVMValueRef *red; /* [reduction][memo index] */
	LLVMValueRef mask; /* of the last copy along vec, <vl x i1>; NULL: all lanes */
	LLVMValueRef rem;  /* I64: active lanes where mask is set */
	int mask_copy;
	int turned;                   /* the dimension whose copies squares of turn.c have, or -1 */
	int32_t fetched;              /* of prefetch.c: a load that is prefetched, or -1 */
	int64_t ahead;                /* this many elements ahead */
	uint8_t *assumed;             /* [x]: a BOOL that is true in the loops entered */
	struct ht_e_reducer *reducer; /* of reduce.c, while it runs */
	struct ht_e_runs runs;        /* of the reduction's sums */
	struct ht_e_tile *tile;       /* of contract.c, while it runs */
	/* In blocks of fewer rows than a whole one that end a tile: whether the tile has no whole one.  Else NULL. */
	LLVMValueRef short_alone;
	struct ht_e_matrix *matrix; /* of the contraction, if a matrix unit computes it */
	LLVMBasicBlockRef here;     /* instructions are inserted in front of this loop; NULL: at the
				 * end */
	/* Line information of instructions (lines.c): */
	LLVMMetadataRef scope; /* NULL: instructions have none */
	int32_t stage, line;   /* the number of the stage; the line of the part being emitted */
	LLVMBasicBlockRef end_block;
};

#define HT_E_ZEROS 128

/* ---- types.c: types, constants and small helpers ---- */
LLVMTypeRef ht_e_mem_type(struct ht_e *e, enum ht_dtype t);
LLVMTypeRef ht_e_type(
	struct ht_e *e, enum ht_dtype t);        /* of values: BOOL is i1, F16 and BF16 i16 */
LLVMTypeRef ht_e_form(LLVMTypeRef t, int lanes); /* a vector if lanes > 1 */
int ht_e_lanes_of(LLVMValueRef v);               /* 1 for scalars */
LLVMValueRef ht_e_i64(struct ht_e *e, int64_t v);
LLVMValueRef ht_e_int(
	struct ht_e *e, LLVMTypeRef like, int64_t v); /* splat of the type of `like` */
LLVMValueRef ht_e_real(LLVMTypeRef type, double v);
LLVMValueRef ht_e_const(struct ht_e *e, enum ht_dtype t, int64_t bits, int lanes);
LLVMValueRef ht_e_splat(struct ht_e *e, LLVMValueRef v, int lanes);
LLVMValueRef ht_e_iota(struct ht_e *e, LLVMTypeRef elem, int64_t step, int lanes);
LLVMValueRef ht_e_lane(struct ht_e *e, LLVMValueRef v, int lane);
/* Whether a condition, of any number of lanes, is true in some lane. */
LLVMValueRef ht_e_any(struct ht_e *e, LLVMValueRef condition);
LLVMValueRef ht_e_select(struct ht_e *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ht_e_intrinsic(struct ht_e *e, const char *name, LLVMTypeRef overload,
	LLVMValueRef *arg, int args); /* overload: NULL if the name determines the types */
LLVMValueRef ht_e_alloca(struct ht_e *e, LLVMTypeRef t, unsigned align, const char *name);
bool ht_e_const_i64(LLVMValueRef v, int64_t *c);
LLVMBasicBlockRef ht_e_block(struct ht_e *e, const char *name);
LLVMValueRef ht_e_slice(struct ht_e *e, LLVMValueRef v, int from, int count);
LLVMValueRef ht_e_smin(struct ht_e *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ht_e_smax(struct ht_e *e, LLVMValueRef a, LLVMValueRef b);

/* ---- analyse.c ---- */
void ht_e_analyse(struct ht_e *e); /* fills info, except `home` */
bool ht_e_is_const(const struct ht_e_info *i);
/* Adds k times a to linear form r. */
void ht_e_add_scaled(struct ht_e_info *r, const struct ht_e_info *a, int64_t k);

/* ---- decide.c ---- */
/* Bounds of an I64 expression at the current place; false if they are unknown. */
bool ht_e_range(const struct ht_e *e, int32_t x, int64_t *lo, int64_t *hi);
/* The value of a BOOL at the current place: 1, 0, or -1 if it is unknown. */
int ht_e_decide(const struct ht_e *e, int32_t x);
/* Comparison x of two I64, or the negation of one: low < high if it is strict, else low <= high. */
struct ht_e_comparison {
	int32_t low, high;
	bool strict;
};
bool ht_e_comparison(const struct ht_e *e, int32_t x, struct ht_e_comparison *c);
/* Such a comparison as `p >= 0`.  Where p is not pure, there is one more term, which neither an index nor memory changes; false: it has
 * no such form. */
bool ht_e_inequality(const struct ht_e *e, int32_t x, struct ht_e_info *p);
/* Calls fn for every conjunct of guard x. */
void ht_e_conjuncts(const struct ht_e *e, int32_t x, void (*fn)(void *, int32_t), void *arg);
/* Whether reduction value x is neutral for `op` at the current place, because its guards are
 * known to be false. */
bool ht_e_neutral(const struct ht_e *e, int32_t x, enum ht_red op);
/* Marks in `set` (by expression) the conjuncts whose failure makes x neutral for `op`. */
void ht_e_strict(const struct ht_e *e, int32_t x, enum ht_red op, uint8_t *set);

/* ---- value.c ---- */
bool ht_e_is_vector(const struct ht_e *e, int32_t x); /* it currently differs between lanes */
LLVMValueRef ht_e_get(struct ht_e *e, int32_t x, bool vector);
/* The scalar form of an I64 at copy 0 of the dimensions in which it is linear, and the constant
 * difference of the current copy. */
LLVMValueRef ht_e_base(struct ht_e *e, int32_t x, int64_t *displace);
/* The value of x: a vector if it differs between lanes, else a scalar. */
LLVMValueRef ht_e_natural(struct ht_e *e, int32_t x);
LLVMValueRef ht_e_mask(const struct ht_e *e); /* of the current copy, or NULL */
void ht_e_forget(struct ht_e *e, int level);  /* drops values inside of `level` */
int ht_e_memo(const struct ht_e *e, uint32_t uses);

/* ---- arith.c ---- */
LLVMValueRef ht_e_arith(struct ht_e *e, int32_t x, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef ht_e_minmax(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, enum ht_dtype t, bool max);
/* The greater or lesser number; b if either is NaN. */
LLVMValueRef ht_e_extreme(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, bool max);
LLVMValueRef ht_e_muladd(struct ht_e *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* acc + the products of pairs of BF16 in 32-bit lanes, if the target has an instruction for it. */
bool ht_e_has_dot(const struct ht_e *e, int lanes);
LLVMValueRef ht_e_dot(struct ht_e *e, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
/* ---- low.c: expression x by instructions for 16 bits; NULL: there are none for it ---- */
LLVMValueRef ht_e_add_low(struct ht_e *e, int32_t x, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef ht_e_multiply_low(struct ht_e *e, int32_t x);
/* Expression i, of F32 between limits, rounded to BF16, as F32. */
LLVMValueRef ht_e_round_limited(struct ht_e *e, int32_t i, bool vector);
/* The BF16 that expression i widens; -1: it is something else. */
int32_t ht_e_widened(const struct ht_stage *s, int32_t i);
/* ---- round.c: floor, ceil, rint, trunc and fmod where LLVM would call a library ---- */
LLVMValueRef ht_e_round(struct ht_e *e, enum ht_xop op, LLVMValueRef v);
LLVMValueRef ht_e_fmod(struct ht_e *e, LLVMValueRef a, LLVMValueRef b);
/* ---- convert.c ---- */
LLVMValueRef ht_e_convert(struct ht_e *e, LLVMValueRef v, enum ht_dtype from, enum ht_dtype to);
/* Converts BF16 that is not subnormal to F32. */
LLVMValueRef ht_e_widen(struct ht_e *e, LLVMValueRef v);
/* F32 rounded to BF16, as F32, without narrowing lanes; NULL: there is an instruction that
 * narrows so many lanes. */
LLVMValueRef ht_e_round_bf16(struct ht_e *e, LLVMValueRef v);

/* ---- combine.c ---- */
LLVMValueRef ht_e_neutral_of(struct ht_e *e, const struct ht_reduction *r, int lanes);
LLVMValueRef ht_e_combine(
	struct ht_e *e, const struct ht_reduction *r, LLVMValueRef a, LLVMValueRef b);
/* ---- ordered.c ---- */
struct ht_e_ordered {
	LLVMValueRef all;  /* alloca: by lane, whether all were ordered */
	LLVMValueRef last; /* a number that was not compared yet, or NULL */
};
void ht_e_ordered_begin(struct ht_e *e, struct ht_e_ordered *o, enum ht_dtype t, int lanes);
void ht_e_ordered_next(struct ht_e *e, struct ht_e_ordered *o, LLVMValueRef v);
/* Call before control leaves the block: handles the numbers that are still pending. */
void ht_e_ordered_pause(struct ht_e *e, struct ht_e_ordered *o);
/* v, or NaN in lanes where one of the numbers was NaN. */
LLVMValueRef ht_e_ordered_end(struct ht_e *e, const struct ht_e_ordered *o, LLVMValueRef v);

/* ---- prefetch.c ---- */
void ht_e_prefetch_plan(struct ht_e *e, const struct ht_stage *given); /* `given`: the stage in the
								        * kernel */
void ht_e_prefetch(struct ht_e *e); /* before an innermost body, for all of its copies */
void ht_e_prefetch_line(struct ht_e *e, LLVMValueRef p); /* the line at p, to the second level */
/* The steps in depth of a tile, of `steps` for each block of rows, before step `done` of the current block. */
LLVMValueRef ht_e_steps_before(struct ht_e *e, int64_t steps, LLVMValueRef done);
/* The blocks of rows of a tile that pass by a panel. */
int64_t ht_e_blocks_of_tile(const struct ht_e *e);
/* The panels of weights of a contraction. */
struct ht_e_panel {
	int32_t buffer;       /* -1: they are in no memory that is passed in */
	bool own;             /* each tile has one panel, which other tiles do not read */
	int64_t bytes, steps; /* of one, of all taps; in depth */
	int64_t blocks;       /* of rows that pass by a panel */
	int64_t round;        /* steps after each of which some lines are asked for */
};
/* Of `numbers` packed numbers each. */
struct ht_e_panel ht_e_panel_of(
	const struct ht_e *e, int64_t numbers, int64_t steps, int64_t round);
/* Lines of that panel to ask for with each round; 0: none. */
int ht_e_panel_lines(const struct ht_e *e, struct ht_e_panel p);
/* How fast to ask where the number of blocks is a size of the run, so that the lines are spread over all blocks of the current tile; NULL: it is
 * no such size, or there are no lines. */
LLVMValueRef ht_e_panel_pace(struct ht_e *e, struct ht_e_panel p);
/* Prefetches those lines.  `panel`: the address of the current panel, `done`: its steps so far, `pace`: what ht_e_panel_pace() returned. */
void ht_e_prefetch_panel(struct ht_e *e, struct ht_e_panel p, LLVMValueRef panel, LLVMValueRef done,
	LLVMValueRef pace);

/* Rows of results of a block, and of what is computed with its sums: they are asked for while the block is multiplied, as each is at a
 * large distance from the last one. */
enum { HT_E_ROWS = 4 };
struct ht_e_row {
	LLVMValueRef p; /* of the first row */
	int64_t distance;
	int lines; /* of a row */
};
struct ht_e_rows {
	struct ht_e_row row[HT_E_ROWS];
	int n;
};
void ht_e_rows_begin(struct ht_e *e, struct ht_e_rows *r);
/* Prefetches a part of the lines of `rows` rows in each step of `steps`. */
void ht_e_prefetch_rows(
	struct ht_e *e, const struct ht_e_rows *r, int rows, LLVMValueRef step, int64_t steps);
/* The lines of a block's results, and of what is computed with its sums, which are asked for one after the other while the block is
 * multiplied by a loop. */
struct ht_e_results {
	LLVMValueRef rows[HT_E_ROWS]; /* in memory: where each row of a buffer begins */
	int lines[HT_E_ROWS];         /* of a row */
	int n;                        /* buffers */
	int height;                   /* of the block, in rows */
	int64_t round;                /* steps after each of which some lines are asked for */
	int64_t rounds;               /* of the block */
};
/* Before the products of a block of `height` rows, which take `steps` steps in depth. */
void ht_e_results_begin(
	struct ht_e *e, struct ht_e_results *r, int height, int64_t steps, int64_t round);
/* Prefetches the lines whose turn it is in the next `steps` steps.  `done`: the steps so far. */
void ht_e_prefetch_results(
	struct ht_e *e, const struct ht_e_results *r, LLVMValueRef done, int64_t steps);

/* ---- ahead.c: memory that later tiles read ---- */
/* What a tile asks for ahead, evenly over the steps in depth of all its blocks of rows. */
struct ht_e_ahead {
	int n;
	LLVMValueRef from[HT_AHEAD]; /* where each begins; NULL: it is not asked for */
	int64_t steps;               /* in depth, of a block */
	int64_t blocks;              /* of rows, of a tile */
};
/* Before the products of a block of rows, which take `steps` steps in depth. */
void ht_e_ahead_begin(struct ht_e *e, struct ht_e_ahead *a, int64_t steps);
/* Prefetches the lines whose turn it is in the next `steps` steps.  `done`: those of the block so far. */
void ht_e_ahead(struct ht_e *e, const struct ht_e_ahead *a, LLVMValueRef done, int64_t steps);

/* ---- turn.c: loads whose lanes are apart while copies of another dimension are side by side ---- */
/* That dimension, of the stage, and how many numbers of such a load are in a line; -1: there is no such load. */
int ht_e_turned(const struct ht_e *e, int *in_line);
/* Load i, whose lane 0 is at p, together with those of other copies, for which it is kept; NULL: it is no such load.  Where `guard` (NULL: none) is
 * false, it is zero. */
LLVMValueRef ht_e_load_turned(struct ht_e *e, int32_t i, LLVMValueRef p, LLVMValueRef guard);

/* ---- memory.c ---- */
LLVMValueRef ht_e_load(struct ht_e *e, int32_t x, bool vector);
void ht_e_store(struct ht_e *e, int32_t store, LLVMValueRef value); /* of the stage */
int64_t ht_e_bytes(const struct ht_kernel_buffer *b);
/* Whether non-temporal stores write the buffer if e->streaming is set. */
bool ht_e_streams(const struct ht_e *e, int32_t buffer);
LLVMValueRef ht_e_at(struct ht_e *e, LLVMTypeRef t, LLVMValueRef base, LLVMValueRef offset);
LLVMValueRef ht_e_load_at(struct ht_e *e, LLVMTypeRef t, LLVMValueRef p, unsigned align);
LLVMValueRef ht_e_load_masked(struct ht_e *e, LLVMTypeRef vector, LLVMValueRef p, unsigned align,
	LLVMValueRef mask, LLVMValueRef other);
void ht_e_store_at(struct ht_e *e, LLVMValueRef v, LLVMValueRef p, unsigned align);

/* ---- loop.c: loops and the levels of a stage ---- */
struct ht_e_loop {
	LLVMBasicBlockRef pre, body, exit;
	LLVMValueRef index, end;
	int64_t step;
};
/* Between begin and end, instructions go into the loop's body. */
void ht_e_loop_begin(struct ht_e *e, struct ht_e_loop *l, LLVMValueRef begin, LLVMValueRef end,
	int64_t step, const char *name);
void ht_e_loop_end(struct ht_e *e, struct ht_e_loop *l);
/* The first index and the number of indices of a dimension in this tile; the number may be
 * negative. */
void ht_e_extent(struct ht_e *e, int dim, LLVMValueRef *begin, LLVMValueRef *count);
/* The `end` of struct ht_cut as I64; if it is rounded up, it is at most `run`. */
LLVMValueRef ht_e_cut(struct ht_e *e, const struct ht_cut *c);
void ht_e_enter(struct ht_e *e, int level, LLVMValueRef index, int copies, int64_t lo, int64_t hi,
	LLVMBasicBlockRef pre);
void ht_e_leave(struct ht_e *e, int level);
/* Emits levels [level, end) around `leaf`: each in copies, with a remainder at its end. */
typedef void ht_e_leaf(struct ht_e *);
void ht_e_nest(struct ht_e *e, int level, int end, ht_e_leaf *leaf);
/* `count` indices from `begin`, in steps of `step` (a multiple of the copies' stride), each time
 * in `copies` copies, with inclusive bounds lo and hi. masked: the last copy along vec has a
 * mask. */
struct ht_e_run {
	LLVMValueRef begin, count;
	int64_t step, lo, hi;
	int copies;
	bool masked;
};
void ht_e_run(struct ht_e *e, int level, int end, ht_e_leaf *leaf, const struct ht_e_run *r);
/* Steps e->off through all copies of levels [from, to). */
void ht_e_first_copy(struct ht_e *e, int from, int to);
bool ht_e_next_copy(struct ht_e *e, int from, int to);
/* ---- split.c: where guards change, along dimensions ---- */
/* Points strictly inside of dimension d between which guards are decided; returns their number. */
#define HT_E_MAX_SPLITS 4
int ht_e_splits(const struct ht_e *e, int d, int64_t *at);
/* Narrows the range of reduction dimension d to the indices where its guards hold, and marks
 * these as assumed in e->assumed and in `set`, so that the caller can undo it. */
void ht_e_clip(struct ht_e *e, int d, LLVMValueRef *begin, LLVMValueRef *count, uint8_t *set);
/* Narrows the range from *begin to before *end of dimension d, which is no reduction, to the indices where the guards hold that depend
 * on parameters, of windows that are reduced.  Marks these guards in `set`.  False: there are none. */
bool ht_e_inner(struct ht_e *e, int d, LLVMValueRef *begin, LLVMValueRef *end, uint8_t *set);
/* ---- stage.c ---- */
void ht_e_stage_begin(struct ht_e *e, const struct ht_stage *s);
void ht_e_stores(struct ht_e *e); /* stores for all copies of the outer levels */
void ht_e_stage(struct ht_e *e, const struct ht_stage *s);
/* ---- reduce.c ---- */
void ht_e_reduce(struct ht_e *e); /* computes e->red for all copies of the outer levels */
void ht_e_end_run(
	struct ht_e *e); /* called during the reduction: adds the accumulators to the totals, and
			  * resets them */
/* ---- total.c: long sums of F32 ---- */
struct ht_e_total {
	LLVMValueRef sum, lost; /* allocas */
};
/* The runs of the stage's sums, if an accumulator gets `each` values in the innermost body. */
struct ht_e_runs ht_e_plan_runs(const struct ht_e *e, int64_t each);
struct ht_e_total ht_e_total_new(struct ht_e *e, LLVMTypeRef type);
void ht_e_total_add(struct ht_e *e, struct ht_e_total t, LLVMValueRef v);
LLVMValueRef ht_e_total_value(struct ht_e *e, struct ht_e_total t);
/* ---- contract.c ---- */
void ht_e_contract_plan(struct ht_e *e); /* chooses the order of levels, and copies */
void ht_e_contract_stage(struct ht_e *e);
/* The most bytes of a row of A for which a constant row of zeros is made, for rows that are
 * outside. */
#define HT_E_MAX_ZERO_ROW 65536
int64_t ht_e_zero_row(const struct ht_kernel *k, const struct ht_stage *s);
/* ---- widen.c: widens operand A to F32 before the products ---- */
bool ht_e_widens_rows(const struct ht_e *e);
/* How many numbers of a row a step in depth multiplies: kp of them, but one where several rows share vectors of F32 that are made of
 * packed pairs, as no instruction multiplies pairs. */
int ht_e_step(const struct ht_e *e);
/* Widens rows of the current tap: where they begin, and the distance of their numbers; both are
 * updated. */
void ht_e_widen_rows(struct ht_e *e, LLVMValueRef *row, LLVMValueRef *step, int rows);
/* Loads one number of such a row. */
LLVMValueRef ht_e_load_widened(struct ht_e *e, LLVMValueRef p);

/* Whether a tile finds the panel that the tile before it widened, unless the call begins or the last coordinate of the grid is 0. */
bool ht_e_inherits_panel(const struct ht_e *e);
/* Prefetches a part of the next panel, of a contraction that has done k of a tap's steps in depth and does `steps` more. */
void ht_e_contract_prefetch(struct ht_e *e, LLVMValueRef k, int steps);
/* The number of step `step` of the current tap, which has `steps`, among those of all taps; *all becomes the number of these. */
LLVMValueRef ht_e_contract_step(struct ht_e *e, LLVMValueRef step, int64_t steps, int64_t *all);

/* ---- matrix.c: sums of products of matrices ---- */
struct ht_e_matrix {
	LLVMValueRef copy; /* rows of A side by side, [row][step]; NULL: none were copied so far */
	LLVMValueRef sums; /* [row][column] */
	int64_t depth;     /* of a tap, in pairs */
	int columns;       /* in vectors */
	int rows;          /* of a whole block */
	int pairs, rest;   /* of a step in depth, of what remains behind whole steps */
	bool two;          /* tiles of rows in a whole block */
	/* Where the rows end at a size of the run: the rows of the current block, NULL if it is whole; the number for which the tiles are
	 * configured, in memory (NULL: rows do not end so); the operand of ldtilecfg. */
	LLVMValueRef left, configured, config;
	bool one;  /* tap */
	bool past; /* rows are loaded past the first level of cache */
};
/* Where the rows of A and the panel of B are for one tap. */
struct ht_e_matrix_tap {
	const LLVMValueRef *row, *step; /* elements per pair */
	LLVMValueRef distance;          /* bytes from each row to the next; NULL: it is not known */
	LLVMValueRef b;
	int rows;
};
/* Whether a matrix unit computes the stage's contraction, with e->vl columns. */
bool ht_e_has_matrix(const struct ht_e *e);
int ht_e_matrix_rows(const struct ht_e *e);                    /* of a block, at most */
void ht_e_matrix_begin(struct ht_e *e, struct ht_e_matrix *x); /* around a stage */
void ht_e_matrix_end(struct ht_e *e);
/* A block: its sums are zeroed, taps are added to them, its results are stored.  It has `rows` rows, or x->left of them. */
void ht_e_matrix_zero(struct ht_e *e, struct ht_e_matrix *x, int rows);
void ht_e_matrix_tap(struct ht_e *e, struct ht_e_matrix *x, const struct ht_e_matrix_tap *t);
void ht_e_matrix_store(struct ht_e *e, const struct ht_e_matrix *x, int rows);

/* ---- lines.c: lines of the kernel's text ---- */
/* All instructions of e->fn get line information, for a file `source`. */
void ht_e_lines_begin(struct ht_e *e, const char *source);
/* Instructions from here on belong to part `i` of the stage; returns the previous line, for
 * ht_e_line(). */
int32_t ht_e_part(struct ht_e *e, enum ht_stage_part part, int32_t i);
void ht_e_line(struct ht_e *e, int32_t line);

/* ---- function.c ---- */
void ht_e_attributes(struct ht_e *e, LLVMValueRef fn);
/* Adds kernel k to module as function `name`.  `source`: for ht_e_lines_begin(), or NULL. */
void ht_e_kernel(const struct ht_kernel *k, const struct ht_target *t, struct ht_arena *a,
	LLVMModuleRef mod, const char *name, const char *source);

/* ---- object.c: from object files to one block of code ---- */
struct ht_object {
	const uint8_t *p;
	size_t n;
};
/* Appends relocated code and constants of an object to `image`; *entry becomes the offset of the
 * function `symbol`. NULL, or the error (static text, or made in the image's arena). */
const char *ht_object_link(
	struct ht_object o, const char *symbol, struct ht_buf *image, size_t *entry);

/* ---- object_lines.c ---- */
/* The lines of the object's code, which begins `entry` bytes into its image.  NULL, or the
 * error. */
const char *ht_object_lines(
	struct ht_object o, size_t entry, struct ht_arena *a, struct ht_code_lines *out);

#endif
