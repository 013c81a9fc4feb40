/* Loads that are turned: their lanes are apart in memory, but the copies of another dimension lie side by side there.  Such loads are
 * those of transposes, and of operands that are packed along their depth.  As many copies as there are lanes are a square: its rows are
 * loaded as vectors and transposed in registers, in place of a load for each number. */
#include "backend/emit.h"

enum { MOST_BYTES = 4, MOST_OPERATIONS = 6, MOST_LANES = 16 };

/* The dimension whose next index is the next element of load `x`, the lanes of which are apart; -1: there is none. */
static int turned_dim(const struct ht_e *e, const struct ht_x *x)
{
	const struct ht_e_info *o;

	if (x->op != HT_X_LOAD || x->dtype == HT_BOOL ||
		ht_dtype_info(x->dtype)->bytes > MOST_BYTES)
		return -1;
	o = &e->info[x->a];
	if (!o->varies || !o->lane || o->lane_step == 1)
		return -1;
	for (int d = 0; d < e->s->dims; d++)
		if (d != e->s->vec && !e->s->dim[d].reduce && o->coef[d] == 1 &&
			!(o->opaque >> d & 1))
			return d;
	return -1;
}

/* A body with more operations would be too long in so many copies. */
static bool is_short(const struct ht_stage *s)
{
	int n = 0;

	for (int32_t i = 0; i < s->xs; i++)
		n += s->x[i].dtype != HT_I64 && s->x[i].dtype != HT_BOOL &&
		     s->x[i].op != HT_X_CONST;
	return n <= MOST_OPERATIONS;
}

int ht_e_turned(const struct ht_e *e, int *in_line)
{
	const struct ht_stage *s = e->s;

	if (s->reds || s->sequential || s->vec < 0 || e->lanes < 4 || e->lanes > MOST_LANES ||
		!is_short(s))
		return -1;
	for (int32_t i = 0; i < s->xs; i++) {
		const int d = turned_dim(e, &s->x[i]);

		if (d < 0)
			continue;
		*in_line = HT_E_LINE / (int)ht_dtype_info(s->x[i].dtype)->bytes;
		return d;
	}
	return -1;
}

/* ---- squares ---- */

/* Exchanges blocks of `half` columns of a pair of rows: a gets the blocks of b in the place of its second ones, b the second ones of a. */
static void exchange(struct ht_e *e, LLVMValueRef *a, LLVMValueRef *b, int n, int half)
{
	LLVMValueRef first[MOST_LANES], second[MOST_LANES], old = *a;

	for (int i = 0; i < n; i++) {
		const int of_b = i & half ? n - half : 0;

		first[i] = LLVMConstInt(e->i32, (unsigned)(i + of_b), false);
		second[i] = LLVMConstInt(e->i32, (unsigned)(i & half ? n + i : i + half), false);
	}
	*a = LLVMBuildShuffleVector(e->b, old, *b, LLVMConstVector(first, (unsigned)n), "");
	*b = LLVMBuildShuffleVector(e->b, old, *b, LLVMConstVector(second, (unsigned)n), "");
}

/* The same of blocks that fit into half of a 64-bit number: shifts take turns with shuffles, which are slower. */
static void exchange_bits(struct ht_e *e, LLVMValueRef *a, LLVMValueRef *b, int n, unsigned bits)
{
	LLVMTypeRef wide = LLVMIntTypeInContext(e->c, 2 * bits), given = LLVMTypeOf(*a);
	const unsigned all = LLVMGetIntTypeWidth(LLVMGetElementType(given)) * (unsigned)n;
	LLVMTypeRef form = ht_e_form(wide, (int)(all / (2 * bits)));
	LLVMValueRef low = ht_e_int(e, form, (int64_t)((1ULL << bits) - 1)),
		     shift = ht_e_int(e, form, (int64_t)bits), high = LLVMConstNot(low);
	LLVMValueRef x = LLVMBuildBitCast(e->b, *a, form, ""),
		     y = LLVMBuildBitCast(e->b, *b, form, ""), first, second;

	first = LLVMBuildOr(
		e->b, LLVMBuildAnd(e->b, x, low, ""), LLVMBuildShl(e->b, y, shift, ""), "");
	second = LLVMBuildOr(
		e->b, LLVMBuildLShr(e->b, x, shift, ""), LLVMBuildAnd(e->b, y, high, ""), "");
	*a = LLVMBuildBitCast(e->b, first, given, "");
	*b = LLVMBuildBitCast(e->b, second, given, "");
}

/* Transposes n rows of n integers. */
static void transpose(struct ht_e *e, LLVMValueRef *row, int n)
{
	const unsigned bits = LLVMGetIntTypeWidth(LLVMGetElementType(LLVMTypeOf(row[0])));

	for (int half = n / 2; half > 0; half /= 2)
		for (int i = 0; i < n; i++) {
			if (i & half)
				continue;
			if (2 * (unsigned)half * bits <= 64)
				exchange_bits(e, &row[i], &row[i + half], n, (unsigned)half * bits);
			else
				exchange(e, &row[i], &row[i + half], n, half);
		}
}

/* ---- loads ---- */

/* Loads the square whose first element is at p; lanes that are masked out, or whose guard is false, read zeros. */
static void load_rows(
	struct ht_e *e, const struct ht_x *x, LLVMValueRef p, LLVMValueRef guard, LLVMValueRef *row)
{
	const unsigned bytes = (unsigned)ht_dtype_info(x->dtype)->bytes;
	LLVMTypeRef number = LLVMIntTypeInContext(e->c, 8 * bytes);
	const int64_t step = e->info[x->a].lane_step;
	LLVMValueRef mask = ht_e_mask(e), at;

	for (int i = 0; i < e->vl; i++) {
		at = ht_e_at(e, number, p, ht_e_i64(e, step * i));
		if (mask)
			at = ht_e_select(e, ht_e_lane(e, mask, i), at, e->zeros);
		if (guard)
			at = ht_e_select(e,
				ht_e_lanes_of(guard) > 1 ? ht_e_lane(e, guard, i) : guard, at,
				e->zeros);
		row[i] = ht_e_load_at(e, ht_e_form(number, e->vl), at, bytes);
	}
}

LLVMValueRef ht_e_load_turned(struct ht_e *e, int32_t i, LLVMValueRef p, LLVMValueRef guard)
{
	const struct ht_x *x = &e->s->x[i];
	const int d = turned_dim(e, x), at = d < 0 ? 0 : e->off[d];
	const int first = at / e->vl * e->vl;
	LLVMTypeRef number = ht_e_mem_type(e, x->dtype);
	LLVMValueRef row[MOST_LANES], *slot;

	if (d < 0 || d != e->turned || e->vl < 4 ||
		e->level[e->level_of[d]].copies < first + e->vl ||
		(guard && (e->info[x->b].uses >> d & 1)))
		return NULL;
	load_rows(e, x, ht_e_at(e, number, p, ht_e_i64(e, first - at)), guard, row);
	transpose(e, row, e->vl);
	for (int c = 0; c < e->vl; c++) {
		e->off[d] = first + c;
		slot = &e->vector[i * e->memo_size + ht_e_memo(e, e->info[i].uses)];
		if (!*slot)
			*slot = LLVMBuildBitCast(e->b, row[c], ht_e_form(number, e->vl), "");
	}
	e->off[d] = at;
	return e->vector[i * e->memo_size + ht_e_memo(e, e->info[i].uses)];
}
