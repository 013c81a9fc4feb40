/* Internal: shared by the interpreter's files. */
#ifndef HT_KERNEL_INTERP_H
#define HT_KERNEL_INTERP_H

#include "kernel/eval.h"
#include "kernel/kernel.h"

enum { HT_LANES = 128 };

/* A stage prepared for the interpreter: which expressions to evaluate in which loops. */
struct ht_interp_stage {
	const struct ht_stage *s;
	void **slot;    /* by expression: HT_LANES values */
	int32_t *inner; /* expressions of the reductions, in order */
	int32_t inners;
	int32_t *outer; /* expressions of the stores */
	int32_t outers;
	int32_t *row; /* of a contraction: expressions of a_row, a_guard and b_base */
	int32_t rows;
	int lane;           /* dimension along the lanes; -1: there is none */
	void **sum;         /* by reduction: HT_LANES values */
	int64_t **position; /* by reduction, for ARGMIN and ARGMAX: HT_LANES positions */
	int32_t kept[HT_MAX_DIMS], kepts;       /* dimensions to walk outside the reductions */
	int32_t reduced[HT_MAX_DIMS], reduceds; /* and inside of them */
	void *columns;                          /* of a contraction: a sum for each column */
	float *short_columns; /* and two sums of F16, of even and of odd depths; NULL: none */
};

struct ht_interp {
	const struct ht_kernel *k;
	char **buffer; /* arguments and locals */
	const int64_t *params;
	int64_t grid[HT_MAX_GRID];
	int64_t lo[HT_MAX_DIMS], hi[HT_MAX_DIMS]; /* the tile's part of each dimension */
	int64_t index[HT_MAX_DIMS];
	const struct ht_interp_stage *p;
	int n; /* lanes in use */
	int32_t fault;
};

static inline size_t ht_interp_size(enum ht_dtype t)
{
	return ht_dtype_info(t)->bytes;
}

/* interp_stage.c */
void ht_interp_prepare(struct ht_arena *a, const struct ht_stage *s, struct ht_interp_stage *p);

/* interp.c: evaluates a list for the lanes in use; stops at a fault. */
void ht_interp_evaluate(struct ht_interp *m, const int32_t *list, int32_t count);
/* Sets the listed dimensions to their first indices; false if one of them is empty. */
bool ht_interp_first(struct ht_interp *m, const int32_t *dim, int n);
bool ht_interp_next(struct ht_interp *m, const int32_t *dim, int n);
int ht_interp_lanes_left(const struct ht_interp *m);
/* Evaluates the stores' expressions and stores. */
void ht_interp_finish(struct ht_interp *m);

/* interp_reduce.c: sets the sums of n lanes to the neutral element. */
void ht_interp_start_sums(struct ht_interp *m, int n);
/* sum[to] = sum[to] op value[from], for `n` lanes from there on. */
void ht_interp_combine(struct ht_interp *m, int32_t red, int to, int from, int n, int64_t position);
/* Row-major position in the reduction dimensions. */
int64_t ht_interp_position(const struct ht_interp *m);

/* interp_contract.c: interprets the whole stage. */
void ht_interp_contract(struct ht_interp *m);

#endif
