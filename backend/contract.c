/* Contractions: a register tile of rows times vectors of columns, with the loops over taps and
 * depth inside.  Operand A is broadcast from memory; B is read in vectors from its packed form.
 * The epilogue is the stage's stores, with the accumulators as its reduction. */
#include "backend/emit.h"

/* Products that must be in flight to hide the latency of one. */
#define IN_FLIGHT 8
/* Steps in depth whose products form one sum.  If there are more than two such runs, the runs
 * are summed, so that the error grows with the length of a run and with the number of runs, and
 * not with their product. */
#define LONG_RUN 256
/* The most products of vectors without a loop: of a tap, and of all taps. */
#define MOST_STRAIGHT 320
#define MOST_UNROLLED 640

struct ht_e_tile {
	const struct ht_contract *c;
	int kp;                  /* numbers of a row that a step in depth multiplies */
	enum ht_dtype a, b, sum; /* a: as it is read in the loop over depth, U32: in pairs */
	bool widened;            /* A: before it is multiplied */
	bool splits;             /* pairs of B into vectors of F32, as A is F32 */
	LLVMValueRef row[HT_E_MAX_COPIES];             /* where each begins for the current tap */
	LLVMValueRef step[HT_E_MAX_COPIES];            /* elements per step in depth */
	int rows, columns, sides;                      /* columns: in vectors */
	LLVMValueRef acc[HT_E_MAX_COPIES * IN_FLIGHT]; /* allocas: [side][row][column] */
	int64_t run;                                   /* steps; 0: there are no runs */
	LLVMValueRef total[HT_E_MAX_COPIES];           /* of the runs, in F32: [row][column] */
	int unroll;                                    /* steps in depth of a round of the loop */
	LLVMValueRef panel;  /* of B: tap 0, depth 0 of this block of columns */
	LLVMValueRef wide;   /* the same place in the panel that is kept as F32, or NULL */
	LLVMValueRef pace;   /* at which the next panel is asked for (ht_e_panel_pace()) */
	int64_t depth;       /* in steps */
	int64_t tap_lines;   /* of B: those of a tap, of kp numbers a column */
	bool straight;       /* the loop over a tap is unrolled completely */
	int64_t taps_of_run; /* 1: a tap has one run or several */
	struct ht_e_results results;
	struct ht_e_ahead ahead;
};

/* B in the current tap, from depth 0 on. */
struct b_rows {
	enum ht_dtype type;
	bool pairs; /* in memory, while a step takes one number of each */
	LLVMValueRef from;
	LLVMValueRef keep; /* where to store it as F32, or NULL */
};

static int64_t steps_in_depth(const struct ht_e *e)
{
	return ht_ceil_div(e->s->dim[e->s->dims - 1].extent, ht_e_step(e));
}

/* Products of vectors in a tap of a complete block. */
static int64_t tap_size(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;

	return steps_in_depth(e) * e->max_copies[c->m] * e->max_copies[c->n];
}

/* Unrolls the taps of a small window: one row address serves all of them, and there is no loop. */
static void plan_taps(struct ht_e *e)
{
	int64_t size = tap_size(e);

	if (e->s->contract.a_guard >= 0 || ht_e_has_matrix(e) || ht_e_widens_rows(e) || size == 0 ||
		size > MOST_STRAIGHT)
		return;
	for (int l = e->outer; l < e->levels - 1; l++) {
		int64_t extent = e->s->dim[e->level[l].dim].extent;

		if (extent < 1 || extent > MOST_UNROLLED / size)
			return;
		size *= extent;
	}
	for (int l = e->outer; l < e->levels - 1; l++)
		e->max_copies[e->level[l].dim] = (int)e->s->dim[e->level[l].dim].extent;
}

void ht_e_contract_plan(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	const struct ht_contract *c = &s->contract;
	int n = 0, mr = c->mr;
	int64_t rows = s->dim[c->m].extent;

	for (int d = 0; d < s->dims; d++)
		if (!s->dim[d].reduce && d != c->m && d != c->n)
			e->level[n++].dim = d;
	e->level[n++].dim = c->n; /* a panel of B stays in the cache while all rows are
				   * multiplied with it */
	e->level[n++].dim = c->m;
	for (int l = 0; l < e->levels; l++)
		e->level_of[e->level[l].dim] = l;
	while (c->nr % e->lanes != 0)
		e->lanes /= 2;
	e->vl = e->lanes;
	for (int d = 0; d < s->dims; d++)
		e->max_copies[d] = 1;
	e->max_copies[c->n] = c->nr / e->lanes;
	HT_CHECK(e->max_copies[c->n] <= HT_E_MAX_COPIES);
	if (mr < 1)
		mr = 6;
	if (mr > rows)
		mr = (int)rows;
	if (ht_e_has_matrix(e) && mr > ht_e_matrix_rows(e))
		mr = ht_e_matrix_rows(e);
	while (mr > 1 && mr * e->max_copies[c->n] > HT_E_MAX_COPIES && !ht_e_has_matrix(e))
		mr--;
	e->max_copies[c->m] = mr;
	plan_taps(e);
}

/* Converts an operand from its type in memory to the type of the products. */
static LLVMValueRef widen(struct ht_e *e, LLVMValueRef v, enum ht_dtype from, enum ht_dtype to)
{
	return ht_e_convert(e, v, from, to);
}

/* One half of pairs of BF16 in 32-bit lanes, as F32. */
static LLVMValueRef half_of_pair(struct ht_e *e, LLVMValueRef pair, bool high)
{
	LLVMTypeRef t = ht_e_form(e->i16, ht_e_lanes_of(pair));

	if (high)
		pair = LLVMBuildLShr(e->b, pair, ht_e_int(e, LLVMTypeOf(pair), 16), "");
	return ht_e_convert(e, LLVMBuildTrunc(e->b, pair, t, ""), HT_BF16, HT_F32);
}

/* The same of packed pairs, of which no number is subnormal. */
static LLVMValueRef half_of_packed_pair(struct ht_e *e, LLVMValueRef pair, bool second)
{
	LLVMTypeRef t = LLVMTypeOf(pair);

	pair = second ? LLVMBuildAnd(e->b, pair, ht_e_int(e, t, (int64_t)0xffff0000), "")
		      : LLVMBuildShl(e->b, pair, ht_e_int(e, t, 16), "");
	return LLVMBuildBitCast(e->b, pair, ht_e_form(e->f32, ht_e_lanes_of(pair)), "");
}

static LLVMValueRef dot_pairs(struct ht_e *e, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
	if (ht_e_has_dot(e, ht_e_lanes_of(b)))
		return ht_e_dot(e, acc, a, b);
	acc = ht_e_muladd(e, half_of_pair(e, a, false), half_of_pair(e, b, false), acc);
	return ht_e_muladd(e, half_of_pair(e, a, true), half_of_pair(e, b, true), acc);
}

/* The numbers of pairs of F16, next to each other. */
static LLVMValueRef halves(struct ht_e *e, LLVMValueRef pairs)
{
	LLVMTypeRef half = LLVMHalfTypeInContext(e->c);

	return LLVMBuildBitCast(e->b, pairs, ht_e_form(half, 2 * ht_e_lanes_of(pairs)), "");
}

static LLVMValueRef multiply_add(
	struct ht_e *e, const struct ht_e_tile *t, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
	if (t->c->run)
		return ht_e_muladd(e, halves(e, a), halves(e, b), acc);
	if (t->kp == 2 && !t->splits)
		return dot_pairs(e, acc, a, b);
	if (t->sum == HT_F32)
		return ht_e_muladd(e, a, b, acc);
	return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, a, b, ""), acc, "");
}

static LLVMTypeRef b_step(struct ht_e *e, const struct ht_e_tile *t, enum ht_dtype type)
{
	return t->kp == 2 ? e->i32 : ht_e_mem_type(e, type);
}

/* The second numbers of the packed pairs at p.  A load that leaves out the first numbers needs no register for a mask of bits. */
static LLVMValueRef load_seconds(struct ht_e *e, LLVMValueRef p)
{
	LLVMTypeRef pairs = ht_e_form(e->i32, e->vl), numbers = ht_e_form(e->i16, 2 * e->vl);
	LLVMValueRef *odd = HT_NEW_ARRAY(e->arena, LLVMValueRef, 2 * (size_t)e->vl), v;

	if (e->vl == 1 || e->t->masked_bytes != 1)
		return half_of_packed_pair(e, ht_e_load_at(e, pairs, p, 4), true);
	for (int i = 0; i < 2 * e->vl; i++)
		odd[i] = LLVMConstInt(e->i1, (unsigned)i % 2, false);
	v = ht_e_load_masked(e, numbers, p, 4, LLVMConstVector(odd, 2 * (unsigned)e->vl),
		LLVMConstNull(numbers));
	return LLVMBuildBitCast(e->b, v, ht_e_form(e->f32, e->vl), "");
}

/* The first or second numbers of the packed pairs that are `pair` pairs behind number `at` of the tap. */
static LLVMValueRef load_half(
	struct ht_e *e, const struct b_rows *b, LLVMValueRef at, int64_t pair, bool second)
{
	LLVMTypeRef number = ht_e_mem_type(e, b->type);
	LLVMValueRef p;

	at = LLVMBuildNSWAdd(e->b, at, ht_e_i64(e, 2 * pair), "");
	p = ht_e_at(e, number, b->from, at);
	if (second)
		return load_seconds(e, p);
	return half_of_packed_pair(e, ht_e_load_at(e, ht_e_form(e->i32, e->vl), p, 4), false);
}

/* A vector of B as it is multiplied, pairs or numbers, from `at` of these behind the beginning of the tap on. */
static LLVMValueRef load_columns(
	struct ht_e *e, const struct ht_e_tile *t, const struct b_rows *b, LLVMValueRef at)
{
	LLVMTypeRef one = b_step(e, t, b->type);
	unsigned size = (unsigned)ht_dtype_info(b->type)->bytes * (unsigned)t->kp;
	LLVMValueRef v = ht_e_load_at(e, ht_e_form(one, e->vl), ht_e_at(e, one, b->from, at), size);

	if (t->kp == 2)
		return v;
	if (b->type == HT_BF16) /* no packed number is subnormal */
		return ht_e_widen(e, v);
	return widen(e, v, b->type, t->sum);
}

/* From one step in depth to the next, in steps of a column. */
static int64_t row_of_b(const struct ht_e_tile *t)
{
	return t->c->b_row ? t->c->b_row : t->c->nr;
}

/* Vector j of the columns of B in step k + ahead of a tap; k is even. */
static LLVMValueRef load_b(struct ht_e *e, const struct ht_e_tile *t, const struct b_rows *b,
	LLVMValueRef k, int ahead, int j)
{
	const int64_t nr = row_of_b(t);
	LLVMValueRef line = LLVMBuildNSWMul(e->b, k, ht_e_i64(e, nr), ""), at, v;

	at = LLVMBuildNSWAdd(e->b, line, ht_e_i64(e, (int64_t)ahead * nr), "");
	at = LLVMBuildNSWAdd(e->b, at, ht_e_i64(e, (int64_t)j * e->vl), "");
	if (b->pairs)
		v = load_half(e, b, line, ahead / 2 * nr + (int64_t)j * e->vl, ahead % 2);
	else
		v = load_columns(e, t, b, at);
	if (b->keep)
		ht_e_store_at(e, v, ht_e_at(e, e->f32, b->keep, at), 4);
	return v;
}

/* Number `second` of the pair of F32 at p, for all lanes. */
static LLVMValueRef load_of_pair(
	struct ht_e *e, const struct ht_e_tile *t, LLVMValueRef p, int second)
{
	p = ht_e_at(e, e->f32, p, ht_e_i64(e, second));
	return ht_e_splat(
		e, t->widened ? ht_e_load_widened(e, p) : ht_e_load_at(e, e->f32, p, 4), e->vl);
}

/* half: of a pair the first number alone, which is the row's last. */
static LLVMValueRef load_a(struct ht_e *e, const struct ht_e_tile *t, LLVMValueRef p, bool half)
{
	LLVMValueRef v;

	if (half)
		v = LLVMBuildZExt(e->b, ht_e_load_at(e, e->i16, p, 2), e->i32, "");
	else if (t->kp == 2)
		v = ht_e_load_at(e, e->i32, p, 2);
	else if (t->widened)
		v = ht_e_load_widened(e, p);
	else
		v = widen(e,
			ht_e_load_at(
				e, ht_e_mem_type(e, t->a), p, (unsigned)ht_dtype_info(t->a)->bytes),
			t->a, t->sum);
	return ht_e_splat(e, v, e->vl);
}

/* Adds the products of one number of a row with vectors of columns to the row's sums. */
static void add_row(struct ht_e *e, const struct ht_e_tile *t, const LLVMValueRef *sum,
	LLVMValueRef a, const LLVMValueRef *b)
{
	for (int j = 0; j < t->columns; j++) {
		LLVMValueRef old = LLVMBuildLoad2(e->b, LLVMGetAllocatedType(sum[j]), sum[j], "");

		LLVMBuildStore(e->b, multiply_add(e, t, old, a, b[j]), sum[j]);
	}
}

/* Likewise the pair of F32 at p with vectors of packed pairs; half: the second number is not there. */
static void add_pair_of_row(struct ht_e *e, const struct ht_e_tile *t, const LLVMValueRef *sum,
	LLVMValueRef p, const LLVMValueRef *b, bool half)
{
	LLVMValueRef part[HT_E_MAX_COPIES];

	for (int i = 0; i < 2 - half; i++) {
		for (int j = 0; j < t->columns; j++)
			part[j] = half_of_packed_pair(e, b[j], i);
		add_row(e, t, sum, load_of_pair(e, t, p, i), part);
	}
}

/* One step in depth of the whole tile. */
static void depth_step(struct ht_e *e, struct ht_e_tile *t, const struct b_rows *rows,
	LLVMValueRef k, int ahead, bool half)
{
	LLVMTypeRef a_type = ht_e_mem_type(e, t->a);
	LLVMValueRef b[HT_E_MAX_COPIES], p, *sum;

	if (t->straight || rows->pairs) /* else LLVM interleaves steps and spills vectors */
		LLVMBuildFence(e->b, LLVMAtomicOrderingSequentiallyConsistent, true, "");
	for (int j = 0; j < t->columns; j++)
		b[j] = load_b(e, t, rows, k, ahead, j);
	for (int i = 0; i < t->rows; i++) {
		p = ht_e_at(e, a_type, t->row[i], LLVMBuildNSWMul(e->b, k, t->step[i], ""));
		p = ht_e_at(
			e, a_type, p, LLVMBuildNSWMul(e->b, ht_e_i64(e, ahead), t->step[i], ""));
		sum = t->acc + ((ahead % t->sides) * t->rows + i) * t->columns;
		if (t->splits)
			add_pair_of_row(e, t, sum, p, b, half);
		else
			add_row(e, t, sum, load_a(e, t, p, half), b);
	}
}

/* The two sums of each pair of lanes, added in F16, as F32. */
static LLVMValueRef sum_of_pairs(struct ht_e *e, LLVMValueRef run)
{
	LLVMTypeRef pair = ht_e_form(e->i32, e->vl), low = ht_e_form(e->i16, e->vl);
	LLVMValueRef bits = LLVMBuildBitCast(e->b, run, pair, ""), odd, sum;

	odd = LLVMBuildLShr(e->b, bits, ht_e_int(e, pair, 16), "");
	sum = LLVMBuildFAdd(e->b, halves(e, bits), halves(e, odd), "");
	sum = LLVMBuildTrunc(e->b, LLVMBuildBitCast(e->b, sum, pair, ""), low, "");
	return ht_e_convert(e, sum, HT_F16, HT_F32);
}

/* Adds the runs to the totals, and begins the next. */
static void end_runs(struct ht_e *e, const struct ht_e_tile *t)
{
	const int sums = t->rows * t->columns;
	LLVMValueRef acc, total, run;
	LLVMTypeRef type;

	for (int i = 0; i < t->sides * sums; i++) {
		acc = t->acc[i];
		total = t->total[i % sums];
		type = LLVMGetAllocatedType(total);
		run = LLVMBuildLoad2(e->b, LLVMGetAllocatedType(acc), acc, "");
		if (t->c->run)
			run = sum_of_pairs(e, run);
		run = LLVMBuildFAdd(e->b, LLVMBuildLoad2(e->b, type, total, ""), run, "");
		LLVMBuildStore(e->b, run, total);
		LLVMBuildStore(e->b, LLVMConstNull(LLVMGetAllocatedType(acc)), acc);
	}
}

int64_t ht_e_zero_row(const struct ht_kernel *k, const struct ht_stage *s)
{
	const struct ht_contract *c = &s->contract;
	int64_t depth = s->dim[s->dims - 1].extent + 1, bytes;

	if (c->a_guard < 0 || c->a_step < 0 || __builtin_mul_overflow(depth, c->a_step, &bytes) ||
		bytes > HT_E_MAX_ZERO_ROW)
		return 0;
	return bytes * (int64_t)ht_dtype_info(k->buffer[c->a_buffer].dtype)->bytes + 64;
}

/* Whether the guard of a matrix unit's rows is the same for all rows of a block.  The branch around the tap, which skips it where no row is
 * inside, is enough then. */
static bool shares_guard(const struct ht_e *e, const struct ht_contract *c)
{
	return e->matrix && c->a_guard >= 0 && !(e->info[c->a_guard].uses >> c->m & 1);
}

/* Whether the pairs of a row are held as such. */
static bool holds_pairs(const struct ht_e *e, const struct ht_contract *c)
{
	return ht_row_type(e->k, c) != e->k->buffer[c->a_buffer].dtype;
}

/* Computes where each row of the tile begins in the current tap.  Returns whether any row is
 * inside; NULL: certainly one is. */
static LLVMValueRef row_addresses(struct ht_e *e, struct ht_e_tile *t)
{
	const struct ht_contract *c = t->c;
	const bool shared = shares_guard(e, c);
	LLVMTypeRef type = ht_e_mem_type(e, e->k->buffer[c->a_buffer].dtype);
	bool certain = false;
	LLVMValueRef p, inside, any = NULL,
				step = ht_e_i64(e, c->a_step * (holds_pairs(e, c) ? 1 : t->kp));
	int64_t displace;

	for (int i = 0; i < t->rows; i++) {
		e->off[c->m] = i;
		t->step[i] = step;
		p = ht_e_base(e, c->a_row, &displace);
		p = ht_e_at(e, type, e->buffer[c->a_buffer], p);
		if (displace)
			p = ht_e_at(e, type, p, ht_e_i64(e, displace));
		/* If there is one block, facts about its rows do not hold for all rows. */
		if (c->a_guard < 0 || ht_e_decide(e, c->a_guard) == 1) {
			certain = true;
		} else {
			inside = ht_e_get(e, c->a_guard, false);
			if (!shared)
				p = ht_e_select(e, inside, p, e->zeros);
			if (!shared &&
				!ht_e_zero_row(e->k, e->s)) /* the row of zeros would be too long */
				t->step[i] = ht_e_select(e, inside, step, ht_e_i64(e, 0));
			any = any && !shared ? LLVMBuildOr(e->b, any, inside, "") : inside;
		}
		t->row[i] = p;
	}
	e->off[c->m] = 0;
	return certain ? NULL : any;
}

/* Bytes from each row to the next where all are inside and at one distance; NULL: that is not certain. */
static LLVMValueRef distance_of_rows(struct ht_e *e, const struct ht_e_tile *t)
{
	const struct ht_contract *c = t->c;
	const struct ht_e_info *row = &e->info[c->a_row];
	bool inside = true;

	for (int i = 0; i < t->rows && c->a_guard >= 0 && !shares_guard(e, c); i++) {
		e->off[c->m] = i;
		inside = inside && ht_e_decide(e, c->a_guard) == 1;
	}
	e->off[c->m] = 0;
	if (!inside || (row->opaque >> c->m & 1))
		return NULL;
	return ht_e_i64(e, row->coef[c->m] * (int64_t)ht_dtype_info(t->a)->bytes);
}

static int64_t tap_count(const struct ht_e *e)
{
	int64_t taps = 1;

	for (int l = e->outer; l < e->levels - 1; l++)
		taps *= e->s->dim[e->level[l].dim].extent;
	return taps;
}

/* Row-major number of the current tap. */
static LLVMValueRef tap_number(struct ht_e *e)
{
	LLVMValueRef q = ht_e_i64(e, 0);

	for (int l = e->outer; l < e->levels - 1; l++) {
		int d = e->level[l].dim;

		q = LLVMBuildNSWMul(e->b, q, ht_e_i64(e, e->s->dim[d].extent), "");
		q = LLVMBuildNSWAdd(e->b, q, e->level[l].index, "");
		q = LLVMBuildNSWAdd(e->b, q, ht_e_i64(e, e->off[d]), "");
	}
	return q;
}

LLVMValueRef ht_e_contract_step(struct ht_e *e, LLVMValueRef step, int64_t steps, int64_t *all)
{
	*all = tap_count(e) * steps;
	return LLVMBuildNSWAdd(
		e->b, LLVMBuildNSWMul(e->b, tap_number(e), ht_e_i64(e, steps), ""), step, "");
}

static struct ht_e_panel panel_of(const struct ht_e *e, const struct ht_e_tile *t, int round)
{
	const int64_t steps = tap_count(e) * t->depth;

	return ht_e_panel_of(e, steps * t->c->nr * t->kp, steps, round);
}

void ht_e_contract_prefetch(struct ht_e *e, LLVMValueRef k, int round)
{
	const struct ht_e_tile *t = e->tile;
	const struct ht_e_panel p = panel_of(e, t, round);
	/* One row of an open number may be all that the run has: then nothing follows for which to fetch. */
	const bool alone = t->rows == 1 && e->s->dim[t->c->m].cut[0].run;
	LLVMValueRef done;

	if (alone || !ht_e_panel_lines(e, p))
		return;
	done = LLVMBuildNSWMul(e->b, tap_number(e), ht_e_i64(e, t->depth), "");
	ht_e_prefetch_panel(e, p, t->panel, LLVMBuildNSWAdd(e->b, done, k, ""), t->pace);
}

/* Steps in depth of a round of the loop.  The blocks of some rows that remain at the end of an open number take as long as their products,
 * or wait for sums; unrolling them would only be code.  A single row is often all that a run has. */
static int steps_of_round(const struct ht_e *e, const struct ht_e_tile *t)
{
	const struct ht_dim *m = &e->s->dim[t->c->m];

	if (!m->cut[0].run || t->rows == 1 || t->rows == e->max_copies[t->c->m] || e->matrix)
		return HT_E_DEPTH_UNROLL;
	return t->sides > 1 ? HT_E_DEPTH_UNROLL : t->kp < t->c->kp ? 2 : 1;
}

/* Asks for what neither operand is, before `steps` steps of the current tap, from step k on: results, and what later tiles read. */
static void prefetch_others(struct ht_e *e, LLVMValueRef k, int64_t steps)
{
	const struct ht_e_tile *t = e->tile;
	LLVMValueRef done;

	if (!t->results.n && !t->ahead.n)
		return;
	done = LLVMBuildNSWMul(e->b, tap_number(e), ht_e_i64(e, t->depth), "");
	done = LLVMBuildNSWAdd(e->b, done, k, "");
	ht_e_prefetch_results(e, &t->results, done, steps);
	ht_e_ahead(e, &t->ahead, done, steps);
}

/* Steps in depth from `from` on, in whole rounds of the loop, up to `to`. */
static void depth_loop(struct ht_e *e, struct ht_e_tile *t, const struct b_rows *b,
	LLVMValueRef from, LLVMValueRef to)
{
	struct ht_e_loop loop;

	ht_e_loop_begin(e, &loop, from, to, t->unroll, "k");
	ht_e_contract_prefetch(e, loop.index, t->unroll);
	prefetch_others(e, loop.index, t->unroll);
	for (int i = 0; i < t->unroll; i++)
		depth_step(e, t, b, loop.index, i, false);
	ht_e_loop_end(e, &loop);
}

/* Whether the loop over depth must end at the size of the run: the conditions are those of struct ht_cut. */
static bool is_cut(const struct ht_e *e)
{
	const struct ht_dim *d = &e->s->dim[e->s->dims - 1];
	const struct ht_cut *c = d->cut;

	_Static_assert(HT_CUT_ROUND % (2 * HT_E_DEPTH_UNROLL) == 0, "rounds of pairs");
	return c->run == d->extent && !d->cut[1].run && !c->end.size[1] &&
	       c->end.times % HT_CUT_ROUND == 0 && d->extent % HT_CUT_ROUND == 0 && !e->matrix &&
	       !e->s->contract.run;
}

/* Where the loop over depth ends, in steps; `all`: the number of steps without a cut. */
static LLVMValueRef loop_steps(struct ht_e *e, int64_t all)
{
	const struct ht_dim *d = &e->s->dim[e->s->dims - 1];

	if (!is_cut(e))
		return ht_e_i64(e, all);
	return LLVMBuildUDiv(e->b, ht_e_cut(e, d->cut), ht_e_i64(e, ht_e_step(e)), "");
}

/* Emits steps in depth from 0 to `steps`, a multiple of HT_E_DEPTH_UNROLL; fewer if the depth is
 * cut.  Returns how many of them certainly belong to runs that have ended. */
static int64_t steps_in_runs(
	struct ht_e *e, struct ht_e_tile *t, const struct b_rows *b, int64_t steps)
{
	LLVMValueRef end = loop_steps(e, steps), ended;
	struct ht_e_loop loop;

	_Static_assert(HT_SHORT_RUN % HT_E_DEPTH_UNROLL == 0 && LONG_RUN % HT_E_DEPTH_UNROLL == 0,
		"rounds of the loop");
	if (!t->run || steps < t->run) {
		depth_loop(e, t, b, ht_e_i64(e, 0), end);
		return 0;
	}
	ended = LLVMBuildURem(e->b, end, ht_e_i64(e, t->run), "");
	ended = LLVMBuildNSWSub(e->b, end, ended, "");
	ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), ended, t->run, "run");
	depth_loop(e, t, b, loop.index, LLVMBuildNSWAdd(e->b, loop.index, ht_e_i64(e, t->run), ""));
	end_runs(e, t);
	ht_e_loop_end(e, &loop);
	if (is_cut(e) || steps % t->run)
		depth_loop(e, t, b, ended, end);
	return is_cut(e) ? 0 : steps / t->run * t->run;
}

/* Emits the products of the current tap. */
static void products(struct ht_e *e, struct ht_e_tile *t, const struct b_rows *b)
{
	bool odd = t->kp == 2 && e->s->dim[e->s->dims - 1].extent % 2;
	int64_t whole = t->straight ? 0 : (t->depth - odd) / HT_E_DEPTH_UNROLL * HT_E_DEPTH_UNROLL;
	int64_t ended = 0; /* steps that certainly belong to runs that have ended */

	if (e->matrix) {
		ht_e_matrix_tap(e, e->matrix,
			&(struct ht_e_matrix_tap){
				t->row, t->step, distance_of_rows(e, t), b->from, t->rows });
		whole = t->depth;
	} else if (whole > 0) {
		ended = steps_in_runs(e, t, b, whole);
	}
	for (int i = 0; i < t->depth - whole; i++) {
		depth_step(e, t, b, ht_e_i64(e, whole), i, odd && whole + i == t->depth - 1);
	}
	if (t->run && t->taps_of_run == 1 && ended < t->depth)
		end_runs(e, t);
}

/* Whether the current block of rows is the first one that is multiplied with its panel. */
static LLVMValueRef is_first(struct ht_e *e)
{
	const int m = e->s->contract.m;
	LLVMValueRef begin, count, first;

	ht_e_extent(e, m, &begin, &count);
	first = LLVMBuildICmp(e->b, LLVMIntEQ, e->level[e->level_of[m]].index, begin, "");
	return ht_e_inherits_panel(e) ? LLVMBuildAnd(e->b, first, e->starts, "") : first;
}

/* Where B is kept as F32: whether the current block of rows reads 16 bits, as the first one does.  Of short blocks behind whole ones, one or
 * two rows do so always, which is less code, and others if there is no whole one.  NULL: it certainly does, or B is not kept. */
static LLVMValueRef reads_narrow(struct ht_e *e, const struct ht_e_tile *t)
{
	if (!t->wide)
		return NULL;
	if (e->short_alone)
		return t->rows > 2 ? e->short_alone : NULL;
	return is_first(e);
}

/* The blocks of rows that read 16 bits, the first of which stores F32 for the others. */
static void products_of_kept(struct ht_e *e, struct ht_e_tile *t, LLVMValueRef narrow,
	const struct b_rows *b, const struct b_rows *kept)
{
	LLVMBasicBlockRef yes = ht_e_block(e, "widens"), no = ht_e_block(e, "widened"),
			  end = ht_e_block(e, "");

	LLVMBuildCondBr(e->b, narrow, yes, no);
	LLVMPositionBuilderAtEnd(e->b, yes);
	products(e, t, b);
	LLVMBuildBr(e->b, end);
	LLVMMoveBasicBlockAfter(no, LLVMGetInsertBlock(e->b));
	LLVMPositionBuilderAtEnd(e->b, no);
	products(e, t, kept);
	LLVMBuildBr(e->b, end);
	LLVMMoveBasicBlockAfter(end, LLVMGetInsertBlock(e->b));
	LLVMPositionBuilderAtEnd(e->b, end);
}

static void tap(struct ht_e *e)
{
	struct ht_e_tile *t = e->tile;
	LLVMValueRef at, any = row_addresses(e, t), narrow = reads_narrow(e, t);
	LLVMBasicBlockRef yes, no = NULL, skip;
	struct b_rows b = { .type = t->b, .pairs = t->kp < t->c->kp }, kept = { .type = HT_F32 };

	if (any && narrow && !e->short_alone) /* it must widen B for all others */
		any = LLVMBuildOr(e->b, any, narrow, "");
	if (any) { /* at the border, a whole block may be outside */
		yes = ht_e_block(e, "inside");
		skip = ht_e_block(e, "outside");
		no = ht_e_block(e, "");
		LLVMBuildCondBr(e->b, any, yes, skip);
		LLVMPositionBuilderAtEnd(e->b, skip);
		prefetch_others(e, ht_e_i64(e, 0), t->depth);
		LLVMBuildBr(e->b, no);
		LLVMPositionBuilderAtEnd(e->b, yes);
	}
	if (t->widened)
		ht_e_widen_rows(e, t->row, t->step, t->rows);
	if (t->straight)
		prefetch_others(e, ht_e_i64(e, 0), t->depth);
	at = ht_e_i64(e, t->tap_lines * t->c->kp / t->kp * row_of_b(t));
	at = LLVMBuildNSWMul(e->b, tap_number(e), at, "");
	b.from = ht_e_at(e, b_step(e, t, t->b), t->panel, at);
	if (narrow) {
		kept.from = ht_e_at(e, e->f32, t->wide, at);
		b.keep = e->short_alone ? NULL : kept.from;
		products_of_kept(e, t, narrow, &b, &kept);
	} else {
		products(e, t, &b);
	}
	if (any) {
		LLVMBuildBr(e->b, no);
		LLVMMoveBasicBlockAfter(no, LLVMGetInsertBlock(e->b));
		LLVMPositionBuilderAtEnd(e->b, no);
	}
}

/* Emits the unrolled taps, or the tap of the current iteration of the loops. */
static void taps(struct ht_e *e)
{
	const struct ht_e_tile *t = e->tile;
	int64_t n = 0;

	ht_e_first_copy(e, e->outer, e->levels - 1);
	do {
		tap(e);
		if (++n % t->taps_of_run == 0 && t->taps_of_run > 1)
			end_runs(e, t);
	} while (ht_e_next_copy(e, e->outer, e->levels - 1));
}

static bool side_by_side(const struct ht_e *e)
{
	for (int l = e->outer; l < e->levels - 1; l++)
		if (e->max_copies[e->level[l].dim] > 1)
			return true;
	return false;
}

/* The outermost level of loops that is within one run. */
static int level_of_runs(const struct ht_e *e)
{
	int64_t taps = e->tile->taps_of_run;
	int level = e->levels - 1;

	if (side_by_side(e))
		return level; /* unrolled: taps() counts them */
	while (taps > 1)
		taps /= e->s->dim[e->level[--level].dim].extent;
	return level;
}

static void taps_of_run(struct ht_e *e)
{
	ht_e_nest(e, level_of_runs(e), e->levels - 1, taps);
	end_runs(e, e->tile);
}

static void all_taps(struct ht_e *e)
{
	const int end = e->levels - 1, level = level_of_runs(e);

	ht_e_nest(e, e->outer, level, level < end ? taps_of_run : taps);
}

/* Computes the addresses of tap 0, depth 0 for the current block of columns. */
static void panel_addresses(struct ht_e *e, struct ht_e_tile *t)
{
	const struct ht_contract *c = t->c;
	LLVMValueRef n = e->level[e->level_of[c->n]].index, panel, lane, at;

	panel = LLVMBuildUDiv(e->b, n, ht_e_i64(e, c->nr), "");
	lane = LLVMBuildURem(e->b, n, ht_e_i64(e, c->nr), "");
	if (c->wide_buffer && t->kp == 1) /* pairs are multiplied as they are */
		t->wide = ht_e_at(e, e->f32, e->buffer[c->wide_buffer], lane);
	at = ht_e_i64(e, c->b_row ? c->nr : tap_count(e) * t->tap_lines * c->nr * c->kp);
	at = LLVMBuildNSWMul(e->b, panel, at, "");
	at = LLVMBuildNSWAdd(e->b, at, LLVMBuildNSWMul(e->b, lane, ht_e_i64(e, c->kp), ""), "");
	at = LLVMBuildNSWAdd(e->b, at, ht_e_get(e, c->b_base, false), "");
	t->panel = ht_e_at(e, ht_e_mem_type(e, t->b), e->buffer[c->b_buffer], at);
}

static LLVMValueRef total(struct ht_e *e, const struct ht_e_tile *t, int i, int j)
{
	LLVMValueRef sum = NULL, v;

	if (t->run) {
		v = t->total[i * t->columns + j];
		return LLVMBuildLoad2(e->b, LLVMGetAllocatedType(v), v, "");
	}
	for (int s = 0; s < t->sides; s++) {
		LLVMValueRef slot = t->acc[(s * t->rows + i) * t->columns + j];

		v = LLVMBuildLoad2(e->b, LLVMGetAllocatedType(slot), slot, "");
		if (!sum)
			sum = v;
		else if (t->sum == HT_F32)
			sum = LLVMBuildFAdd(e->b, sum, v, "");
		else
			sum = LLVMBuildAdd(e->b, sum, v, "");
	}
	return sum;
}

static int64_t taps_of_long_run(const struct ht_e *e, const struct ht_e_tile *t)
{
	return ht_taps_of_run(e->s, LONG_RUN * t->kp / t->c->kp);
}

/* Long sums are divided into runs, unless each tap would end a run that is much shorter. */
static int64_t run_of(const struct ht_e *e, const struct ht_e_tile *t)
{
	if (t->c->run)
		return t->c->run;
	if (t->sum != HT_F32 || e->matrix || tap_count(e) * t->depth <= 2 * LONG_RUN)
		return 0;
	return taps_of_long_run(e, t) * t->depth < LONG_RUN / 4 ? 0 : LONG_RUN;
}

static LLVMValueRef sum_from_zero(struct ht_e *e, LLVMTypeRef type)
{
	LLVMValueRef sum = ht_e_alloca(e, type, 0, "sum");

	LLVMBuildStore(e->b, LLVMConstNull(type), sum);
	return sum;
}

static void tile(struct ht_e *e)
{
	const struct ht_stage *s = e->s;
	const struct ht_contract *c = &s->contract;
	struct ht_e_tile *t = HT_NEW(e->arena, struct ht_e_tile);
	LLVMTypeRef type;

	t->c = c;
	t->kp = ht_e_step(e);
	t->a = e->k->buffer[c->a_buffer].dtype;
	t->b = ht_packed_type(e->k, c);
	t->straight = tap_size(e) <= MOST_STRAIGHT && !is_cut(e);
	t->widened = ht_e_widens_rows(e);
	if (t->widened)
		t->a = HT_F32;
	t->splits = t->kp == 2 && t->a == HT_F32;
	t->sum = ht_is_float(ht_row_type(e->k, c)) ? HT_F32 : HT_I32;
	t->rows = e->level[e->level_of[c->m]].copies;
	t->columns = e->level[e->level_of[c->n]].copies;
	t->depth = steps_in_depth(e);
	t->tap_lines = ht_ceil_div(s->dim[s->dims - 1].extent, c->kp);
	/* As for a complete block: all results are summed in the same order, whichever block
	 * they are in. */
	t->sides = IN_FLIGHT / (e->max_copies[c->m] * e->max_copies[c->n]);
	if (t->sides < 1)
		t->sides = 1;
	if (t->sides > HT_E_DEPTH_UNROLL)
		t->sides = HT_E_DEPTH_UNROLL;
	t->unroll = steps_of_round(e, t);
	type = ht_e_form(ht_e_type(e, t->sum), e->vl);
	t->run = run_of(e, t);
	t->taps_of_run = c->run ? ht_taps_of_run(s, c->run) : t->run ? taps_of_long_run(e, t) : 1;
	for (int i = 0; i < t->rows * t->columns && t->run; i++)
		t->total[i] = sum_from_zero(e, type);
	if (c->run)
		type = ht_e_form(LLVMHalfTypeInContext(e->c), 2 * e->vl);
	if (e->matrix)
		ht_e_matrix_zero(e, e->matrix, t->rows);
	for (int i = 0; i < t->sides * t->rows * t->columns && !e->matrix; i++)
		t->acc[i] = sum_from_zero(e, type);
	ht_e_first_copy(e, 0, e->outer);
	panel_addresses(e, t);
	t->pace = ht_e_panel_pace(e, panel_of(e, t, t->unroll));
	e->tile = t;
	if (!e->matrix) {
		ht_e_results_begin(e, &t->results, t->rows, tap_count(e) * t->depth,
			t->straight ? t->depth : t->unroll);
		ht_e_ahead_begin(e, &t->ahead, tap_count(e) * t->depth);
	}
	if (t->depth > 0)
		all_taps(e);
	e->tile = NULL;
	if (e->matrix) {
		ht_e_matrix_store(e, e->matrix, t->rows);
		return;
	}
	for (int i = 0; i < t->rows; i++)
		for (int j = 0; j < t->columns; j++)
			e->red[i * e->memo_stride[c->m] + j * e->memo_stride[c->n]] =
				total(e, t, i, j);
	ht_e_stores(e);
}

void ht_e_contract_stage(struct ht_e *e)
{
	struct ht_e_matrix matrix;

	ht_e_part(e, HT_PART_CONTRACT, 0);
	if (!ht_e_has_matrix(e)) {
		ht_e_nest(e, 0, e->outer, tile);
		return;
	}
	e->matrix = &matrix;
	ht_e_matrix_begin(e, e->matrix);
	ht_e_nest(e, 0, e->outer, tile);
	ht_e_matrix_end(e);
	e->matrix = NULL;
}
