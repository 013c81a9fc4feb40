/* Widens rows of a contraction's operand A, of float16 or of bfloat16 without dot products, to F32.
 *
 * Widening one number for all lanes takes four instructions.  Four vectors of columns hide that.  For fewer,
 * rows are widened in advance, a vector at a time, to a buffer on the stack; rows that are multiplied with pairs always. */
#include "backend/emit.h"

/* Most bytes of a block of rows, so that it stays in the first levels. */
enum { MOST_WIDENED = 131072 };

static int64_t depth_of(const struct ht_e *e)
{
	return e->s->dim[e->s->dims - 1].extent;
}

/* Numbers of a widened row, rounded up to whole vectors. */
static int64_t widened_depth(const struct ht_e *e)
{
	return ht_ceil_div(depth_of(e), e->lanes) * e->lanes;
}

/* Whether the target has no instruction that multiplies pairs, so that the numbers of a pair are multiplied one by one.  Pairs that are held as
 * words (U32) are not taken apart. */
static bool splits_pairs(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;

	return !c->run && e->k->buffer[c->a_buffer].dtype != HT_U32 && !ht_e_has_dot(e, e->lanes);
}

int ht_e_step(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;
	const bool shared = e->max_copies[c->m] > 1 && !ht_e_has_matrix(e);

	return shared && c->kp == 2 && splits_pairs(e) ? 1 : c->kp;
}

bool ht_e_inherits_panel(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;
	const struct ht_dim *m = &e->s->dim[c->m], *n = &e->s->dim[c->n];

	if (!c->wide_buffer || m->grid < 0 || m->grid != e->k->grid_dims - 1 || m->cut[0].run ||
		n->grid < 0 || n->step != c->nr)
		return false;
	for (int i = 0; i < e->s->dims; i++) {
		const struct ht_dim *d = &e->s->dim[i];

		if (d != m && d != n && !d->reduce && d->extent != 1 &&
			(d->grid < 0 || d->step != 1))
			return false;
	}
	return true;
}

bool ht_e_widens_rows(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;
	enum ht_dtype from = e->k->buffer[c->a_buffer].dtype;

	return !ht_e_has_matrix(e) && ht_is_low(from) && (c->kp == 1 || splits_pairs(e)) &&
	       c->a_step == 1 &&
	       (c->kp == 2 || e->max_copies[c->n] <= 3 || c->wide_buffer ||
		       e->k->buffer[c->b_buffer].dtype == HT_F32) &&
	       widened_depth(e) <= MOST_WIDENED / (4 * e->max_copies[c->m]);
}

/* The buffer on the stack, as large as the widest stage of the kernel needs. */
static LLVMValueRef buffer(struct ht_e *e)
{
	int64_t count = widened_depth(e) * e->max_copies[e->s->contract.m];
	LLVMValueRef before = e->widened;

	if (before && (int64_t)LLVMGetArrayLength2(LLVMGetAllocatedType(before)) >= count)
		return before;
	e->widened = ht_e_alloca(e, LLVMArrayType2(e->f32, (uint64_t)count), 64, "widened");
	if (before) {
		LLVMReplaceAllUsesWith(before, e->widened);
		LLVMInstructionEraseFromParent(before);
	}
	return e->widened;
}

/* Widens `lanes` numbers of a row; mask: those that exist, or NULL. */
static void widen_part(struct ht_e *e, enum ht_dtype from, LLVMValueRef row, LLVMValueRef to,
	LLVMValueRef k, int lanes, LLVMValueRef mask)
{
	LLVMTypeRef type = ht_e_mem_type(e, from), form = ht_e_form(type, lanes);
	unsigned align = (unsigned)ht_dtype_info(from)->bytes;
	LLVMValueRef p = ht_e_at(e, type, row, k), v;

	if (mask)
		v = ht_e_load_masked(e, form, p, align, mask, LLVMConstNull(form));
	else
		v = ht_e_load_at(e, form, p, align);
	v = ht_e_convert(e, v, from, HT_F32);
	ht_e_store_at(e, v, ht_e_at(e, e->f32, to, k), 4);
}

/* Widens the last numbers of rows, which do not fill a vector. */
static void widen_rest(struct ht_e *e, enum ht_dtype from, const LLVMValueRef *row,
	const LLVMValueRef *to, int rows)
{
	int64_t depth = depth_of(e), whole = depth / e->vl * e->vl;
	int lanes = e->t->masks ? e->vl : 1;
	LLVMValueRef mask = NULL;

	if (lanes > 1)
		mask = LLVMBuildICmp(e->b, LLVMIntSGT,
			ht_e_int(e, ht_e_form(e->i32, lanes), depth - whole),
			ht_e_iota(e, e->i32, 1, lanes), "");
	for (int64_t k = whole; k < depth; k += lanes)
		for (int i = 0; i < rows; i++)
			widen_part(e, from, row[i], to[i], ht_e_i64(e, k), lanes, mask);
}

void ht_e_widen_rows(struct ht_e *e, LLVMValueRef *row, LLVMValueRef *step, int rows)
{
	enum ht_dtype from = e->k->buffer[e->s->contract.a_buffer].dtype;
	int64_t whole = depth_of(e) / e->vl * e->vl;
	struct ht_e_loop loop;
	LLVMValueRef all = buffer(e), to[HT_E_MAX_COPIES];

	for (int i = 0; i < rows; i++)
		to[i] = ht_e_at(e, e->f32, all, ht_e_i64(e, i * widened_depth(e)));
	if (whole > 0) {
		ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), ht_e_i64(e, whole), e->vl, "widen");
		for (int i = 0; i < rows; i++)
			widen_part(e, from, row[i], to[i], loop.index, e->vl, NULL);
		ht_e_loop_end(e, &loop);
	}
	widen_rest(e, from, row, to, rows);
	for (int i = 0; i < rows; i++) {
		row[i] = to[i];
		step[i] = ht_e_i64(e, ht_e_step(e));
	}
}

/* Volatile, where LLVM would load the vector around the number instead: LLVM orders loads and
 * stores by a wrong address then (X86's LowerAsSplatVectorLoad counts the offset twice), so the
 * load moved in front of the store. */
LLVMValueRef ht_e_load_widened(struct ht_e *e, LLVMValueRef p)
{
	LLVMValueRef v = ht_e_load_at(e, e->f32, p, 4);

	LLVMSetVolatile(v, e->t->vector_bytes == 16);
	return v;
}
