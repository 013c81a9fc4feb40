/* verify: checks the rules of kernel.h.  A kernel that breaks one is a defect of this program:
 * the rule and the kernel's text are printed, and the process aborts. */
#include "kernel/eval.h"
#include "kernel/kernel.h"
#include "kernel/verify.h"

#include <inttypes.h>
#include <stdlib.h>

struct verifier {
	const struct ht_kernel *k;
	struct ht_buf *why;
	int stage;
	bool bad;
};

static bool HT_PRINTF(3, 4) rule(struct verifier *v, bool holds, const char *fmt, ...)
{
	char text[200];
	va_list args;

	if (holds || v->bad)
		return holds;
	v->bad = true;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	if (v->stage >= 0)
		ht_printf(v->why, "stage %d: ", v->stage);
	ht_puts(v->why, text);
	return false;
}

static bool computes(enum ht_dtype t)
{
	switch (t) {
	case HT_F32:
	case HT_F64:
	case HT_I8:
	case HT_I16:
	case HT_I32:
	case HT_I64:
	case HT_U8:
	case HT_U16:
	case HT_U32:
	case HT_U64:
	case HT_BOOL:
		return true;
	default:
		return false;
	}
}

static bool in_memory(enum ht_dtype t)
{
	return computes(t) || ht_is_low(t);
}

static bool is_int(enum ht_dtype t)
{
	enum ht_kind kind = ht_dtype_info(t)->kind;

	return kind == HT_KIND_INT || kind == HT_KIND_UINT;
}

/* ---- expressions ---- */

static bool type_fits(enum ht_xop op, enum ht_dtype t)
{
	bool real = t == HT_F32 || t == HT_F64, number = real || is_int(t), logic = t == HT_BOOL;

	switch (op) {
	case HT_X_ADD:
	case HT_X_SUB:
	case HT_X_MUL:
	case HT_X_DIV:
	case HT_X_REM:
	case HT_X_NEG:
	case HT_X_ABS:
		return number;
	case HT_X_MIN:
	case HT_X_MAX:
		return number;
	case HT_X_MULADD:
	case HT_X_SQRT:
	case HT_X_FLOOR:
	case HT_X_CEIL:
	case HT_X_RINT:
	case HT_X_TRUNC:
		return real;
	case HT_X_SCALE:
		return t == HT_F32;
	case HT_X_AND:
	case HT_X_OR:
	case HT_X_XOR:
	case HT_X_NOT:
		return logic || is_int(t);
	case HT_X_SHL:
	case HT_X_SHR:
	case HT_X_SAR:
		return is_int(t);
	case HT_X_EQ:
	case HT_X_NE:
		return number || logic;
	case HT_X_LT:
	case HT_X_LE:
		return number;
	case HT_X_FLOORDIV:
	case HT_X_FLOORMOD:
		return t == HT_I64;
	default:
		return op >= HT_X_EXP && op < HT_X_END && real;
	}
}

static bool same_type(const struct ht_stage *s, int32_t i, enum ht_dtype t)
{
	return i >= 0 && s->x[i].dtype == t;
}

static void verify_cvt(
	struct verifier *v, const struct ht_stage *s, const struct ht_x *x, int32_t i)
{
	enum ht_dtype from = s->x[x->a].dtype;
	bool low = ht_is_low(from), to_low = ht_is_low(x->dtype);

	rule(v, in_memory(x->dtype) && from != x->dtype, "%%%d converts to its own type or none",
		i);
	rule(v, (!low || x->dtype == HT_F32) && (!to_low || from == HT_F32),
		"%%%d converts a 16-bit float from or to another type than f32", i);
}

static void verify_load(
	struct verifier *v, const struct ht_stage *s, const struct ht_x *x, int32_t i)
{
	if (!rule(v, x->imm >= 0 && x->imm < v->k->buffers, "%%%d loads from no buffer", i))
		return;
	rule(v, v->k->buffer[x->imm].dtype == x->dtype,
		"%%%d loads another type than b%" PRId64 "'s", i, x->imm);
	rule(v, same_type(s, x->a, HT_I64), "%%%d: the offset is not i64", i);
	rule(v, (x->b < 0) == (x->c < 0), "%%%d: a guard without a value, or a value without", i);
	rule(v, x->b < 0 || (same_type(s, x->b, HT_BOOL) && same_type(s, x->c, x->dtype)),
		"%%%d: guard or value of the wrong type", i);
}

static void verify_operation(
	struct verifier *v, const struct ht_stage *s, const struct ht_x *x, int32_t i)
{
	const int32_t arg[3] = { x->a, x->b, x->c };
	enum ht_dtype t = ht_x_is_compare(x->op) ? s->x[x->a].dtype : x->dtype;
	const struct ht_x *divisor;

	rule(v, type_fits(x->op, t), "%%%d: no %s of %s", i, ht_xop_name(x->op),
		ht_dtype_info(t)->tag);
	rule(v, !ht_x_is_compare(x->op) || x->dtype == HT_BOOL, "%%%d: a comparison is not bool",
		i);
	for (int k = 0; k < ht_x_operands(x->op); k++)
		rule(v, same_type(s, arg[k], t), "%%%d: operand %d is not %s", i, k,
			ht_dtype_info(t)->tag);
	if (x->op == HT_X_FLOORDIV || x->op == HT_X_FLOORMOD) {
		divisor = &s->x[x->b];
		rule(v, divisor->op == HT_X_CONST && divisor->imm > 0,
			"%%%d: the divisor is not a positive constant", i);
	}
}

/* Whether a check in a tile program may raise the fault; others come only from library kernels. */
static bool is_fault(int64_t f)
{
	return (f > HT_FAULT_NONE && f <= HT_FAULT_MEMORY) ||
	       (f >= HT_FAULT_NAN && f <= HT_FAULT_MINUS_INFINITY);
}

static void verify_x(struct verifier *v, const struct ht_stage *s, int32_t i)
{
	const struct ht_x *x = &s->x[i];
	const int32_t arg[3] = { x->a, x->b, x->c };

	if (!rule(v, (int)x->op >= 0 && x->op < HT_X_END, "%%%d is no operation", i))
		return;
	for (int k = 0; k < 3; k++) {
		bool optional = x->op == HT_X_LOAD && k > 0;

		if (k < ht_x_operands(x->op))
			rule(v, arg[k] < i && (arg[k] >= 0 || (optional && arg[k] == -1)),
				"%%%d: operand %d is not an earlier expression", i, k);
		else
			rule(v, arg[k] == -1, "%%%d has an operand too many", i);
	}
	if (v->bad)
		return;
	switch (x->op) {
	case HT_X_CONST:
		rule(v, in_memory(x->dtype), "%%%d: a constant of no type", i);
		break;
	case HT_X_DIM:
		rule(v, x->dtype == HT_I64 && x->imm >= 0 && x->imm < s->dims,
			"%%%d: no such dimension", i);
		break;
	case HT_X_GRID:
		rule(v, x->dtype == HT_I64 && x->imm >= 0 && x->imm < v->k->grid_dims,
			"%%%d: no such grid dimension", i);
		break;
	case HT_X_PARAM:
		rule(v, x->dtype == HT_I64 && x->imm >= 0 && x->imm < v->k->params,
			"%%%d: no such parameter", i);
		break;
	case HT_X_RED:
		rule(v, x->imm >= 0 && x->imm < (s->kind == HT_STAGE_CONTRACT ? 1 : s->reds),
			"%%%d: no such reduction", i);
		break;
	case HT_X_LOAD:
		verify_load(v, s, x, i);
		break;
	case HT_X_CHECK:
		rule(v,
			same_type(s, x->a, x->dtype) && same_type(s, x->b, HT_BOOL) &&
				is_fault(x->imm),
			"%%%d: a check of the wrong types or fault", i);
		break;
	case HT_X_SELECT:
		rule(v,
			same_type(s, x->a, HT_BOOL) && same_type(s, x->b, x->dtype) &&
				same_type(s, x->c, x->dtype),
			"%%%d: a choice of the wrong types", i);
		break;
	case HT_X_CVT:
		verify_cvt(v, s, x, i);
		break;
	case HT_X_BITCAST:
		rule(v,
			in_memory(x->dtype) && ht_dtype_info(x->dtype)->bytes ==
						       ht_dtype_info(s->x[x->a].dtype)->bytes,
			"%%%d: a bitcast between sizes", i);
		break;
	default:
		verify_operation(v, s, x, i);
	}
}

/* ---- stages ---- */

static bool is_expression(const struct ht_stage *s, int32_t i)
{
	return i >= 0 && i < s->xs;
}

/* Whether expression i, or one that it uses, satisfies `has`. */
static bool reaches(const struct ht_stage *s, int32_t i,
	bool (*has)(const struct ht_stage *, const struct ht_x *))
{
	uint8_t *mark;
	bool found = false;

	if (i < 0)
		return false;
	mark = calloc((size_t)i + 1, 1);
	HT_CHECK(mark);
	mark[i] = 1;
	for (; i >= 0 && !found; i--) {
		const struct ht_x *x = &s->x[i];

		if (!mark[i])
			continue;
		found = has(s, x);
		if (x->a >= 0)
			mark[x->a] = 1;
		if (x->b >= 0)
			mark[x->b] = 1;
		if (x->c >= 0)
			mark[x->c] = 1;
	}
	free(mark);
	return found;
}

static bool is_red(const struct ht_stage *s, const struct ht_x *x)
{
	(void)s;
	return x->op == HT_X_RED;
}

static bool is_reduced_dim(const struct ht_stage *s, const struct ht_x *x)
{
	return x->op == HT_X_DIM && s->dim[x->imm].reduce;
}

static void verify_cuts(struct verifier *v, const struct ht_dim *d, int i)
{
	for (int c = 0; c < HT_CUTS && d->cut[c].run; c++) {
		const struct ht_size_expr *end = &d->cut[c].end;

		rule(v, d->cut[c].run > 0 && end->times > 0 && end->factor > 0 && end->divisor > 0,
			"d%d: an end that is no number", i);
		rule(v, end->size[0], "d%d: an end that is always the same", i);
		for (int k = 0; k < HT_SIZE_FACTORS && end->size[k]; k++)
			rule(v, end->size[k] > 0 && end->size[k] <= v->k->params,
				"d%d: no parameter %d", i, end->size[k] - 1);
	}
}

static void verify_dims(struct verifier *v, const struct ht_stage *s)
{
	if (!rule(v, s->dims >= 0 && s->dims <= HT_MAX_DIMS, "%d dimensions", s->dims))
		return;
	for (int i = 0; i < s->dims; i++) {
		const struct ht_dim *d = &s->dim[i];

		rule(v, d->extent >= 0, "d%d: a negative extent", i);
		rule(v, d->grid < v->k->grid_dims, "d%d: no grid dimension %d", i, d->grid);
		rule(v, d->grid < 0 || d->step > 0, "d%d: no step", i);
		rule(v, !d->reduce || d->grid < 0, "d%d: a reduction is cut into tiles", i);
		verify_cuts(v, d, i);
		rule(v, i == 0 || d->reduce || !s->dim[i - 1].reduce,
			"d%d: stands behind a reduction", i);
		if (d->grid >= 0 && d->grid < v->k->grid_dims && d->step > 0 && d->extent > 0)
			rule(v, (d->extent - 1) / d->step < v->k->grid[d->grid],
				"d%d: the grid does not cover it", i);
	}
	rule(v, s->vec >= -1 && s->vec < s->dims, "lanes along no dimension");
	rule(v, !s->start || v->k->grid_dims > 0, "starts, and there is no grid");
	rule(v, !s->sequential || (s->kind == HT_STAGE_LOOP && s->reds == 0),
		"is sequential, and reduces");
	rule(v, !s->sequential || s->vec < 0 || s->vec == s->dims - 1,
		"is sequential, and its lanes are not along the last dimension");
}

static void verify_reductions(struct verifier *v, const struct ht_stage *s)
{
	for (int32_t i = 0; i < s->reds && !v->bad; i++) {
		const struct ht_reduction *r = &s->red[i];

		if (!rule(v, is_expression(s, r->x), "reduction %d is of no expression", i))
			return;
		rule(v, (int)r->op >= 0 && r->op <= HT_RED_ARGMAX, "reduction %d is none", i);
		rule(v, s->x[r->x].dtype == r->dtype && computes(r->dtype),
			"reduction %d: the type", i);
		rule(v, !r->keep || (r->dtype == HT_F32 && ht_is_low(r->keep)),
			"reduction %d: rounds to no low type", i);
		rule(v,
			r->op != HT_RED_AND && r->op != HT_RED_OR ? r->dtype != HT_BOOL
								  : !ht_is_float(r->dtype),
			"reduction %d: not of this type", i);
		rule(v, !reaches(s, r->x, is_red), "reduction %d uses a reduction", i);
	}
	for (int32_t i = 0; i < s->xs && !v->bad; i++) {
		const struct ht_x *x = &s->x[i];
		bool arg;

		if (x->op != HT_X_RED || s->kind != HT_STAGE_LOOP)
			continue;
		arg = s->red[x->imm].op == HT_RED_ARGMIN || s->red[x->imm].op == HT_RED_ARGMAX;
		rule(v, x->dtype == (arg ? HT_I64 : s->red[x->imm].dtype),
			"%%%d: not the reduction's type", i);
	}
	if (s->dims && !s->reds && s->kind == HT_STAGE_LOOP)
		rule(v, !s->dim[s->dims - 1].reduce, "reduction dimensions without a reduction");
}

static bool is_of_iteration(const struct ht_stage *s, const struct ht_x *x)
{
	(void)s;
	return x->op == HT_X_DIM || x->op == HT_X_RED;
}

/* Whether several iterations store to one element, and not one value. */
static bool collides(const struct ht_stage *s, const struct ht_store *st)
{
	int64_t iterations = 1;

	for (int i = 0; i < s->dims; i++)
		if (!s->dim[i].reduce && s->dim[i].extent > 1 && iterations == 1)
			iterations = s->dim[i].grid < 0 ? s->dim[i].extent : s->dim[i].step;
	return iterations > 1 && !s->sequential && !reaches(s, st->offset, is_of_iteration) &&
	       reaches(s, st->value, is_of_iteration);
}

static void verify_stores(struct verifier *v, const struct ht_stage *s)
{
	for (int32_t i = 0; i < s->stores && !v->bad; i++) {
		const struct ht_store *st = &s->store[i];

		if (!rule(v,
			    st->buffer >= 0 && st->buffer < v->k->buffers &&
				    is_expression(s, st->offset) && is_expression(s, st->value),
			    "store %d: no buffer or expression", i))
			return;
		rule(v, v->k->buffer[st->buffer].kind != HT_BUFFER_IN, "store %d is to an input",
			i);
		rule(v, s->x[st->offset].dtype == HT_I64, "store %d: the offset is not i64", i);
		rule(v, s->x[st->value].dtype == v->k->buffer[st->buffer].dtype,
			"store %d: another type than b%d's", i, st->buffer);
		rule(v,
			st->guard < 0 ||
				(is_expression(s, st->guard) && s->x[st->guard].dtype == HT_BOOL),
			"store %d: the guard is not bool", i);
		rule(v,
			!reaches(s, st->offset, is_reduced_dim) &&
				!reaches(s, st->value, is_reduced_dim) &&
				!reaches(s, st->guard, is_reduced_dim),
			"store %d depends on a reduction dimension", i);
		rule(v, !collides(s, st),
			"store %d: iterations store different values to one element", i);
	}
}

static void verify_row(struct verifier *v, const struct ht_stage *s)
{
	const struct ht_contract *c = &s->contract;

	rule(v, same_type(s, c->a_row, HT_I64) && same_type(s, c->b_base, HT_I64),
		"row or base not i64");
	rule(v, c->a_guard < 0 || same_type(s, c->a_guard, HT_BOOL), "the guard is not bool");
	if (v->bad)
		return;
	for (int i = 0; i < 2; i++) {
		int32_t x = i ? c->a_guard : c->a_row;

		rule(v, !ht_x_uses_dim(s, x, c->n) && !ht_x_uses_dim(s, x, s->dims - 1),
			"row or guard depends on the column or the depth");
		rule(v, !reaches(s, x, is_red), "row or guard depends on the sum");
	}
	for (int i = 0; i < s->dims; i++)
		if (i == c->m || i == c->n || s->dim[i].reduce)
			rule(v, !ht_x_uses_dim(s, c->b_base, i), "the base of B depends on d%d", i);
}

static void verify_ahead(struct verifier *v, const struct ht_stage *s, const struct ht_ahead *a)
{
	if (!rule(v, a->buffer >= 0 && a->buffer < v->k->args && is_expression(s, a->at),
		    "what is asked for ahead is no part of an argument"))
		return;
	rule(v, a->pieces > 0 && a->count > 0 && same_type(s, a->at, HT_I64),
		"what is asked for ahead is empty, or its beginning is not i64");
	for (int i = 0; i < s->dims && !v->bad; i++)
		if (s->dim[i].grid < 0 || i == s->contract.m || i == s->contract.n)
			rule(v, !ht_x_uses_dim(s, a->at, i),
				"what is asked for ahead depends on d%d", i);
}

/* Verifies the local buffer for a panel as F32. */
static void verify_wide(struct verifier *v, const struct ht_stage *s)
{
	const struct ht_contract *c = &s->contract;
	const struct ht_kernel_buffer *wide = &v->k->buffer[c->wide_buffer];
	int64_t panel = c->nr;

	for (int i = 0; i < s->dims - 1; i++)
		if (s->dim[i].reduce)
			panel *= s->dim[i].extent;
	panel *= ht_ceil_div(s->dim[s->dims - 1].extent, c->kp) * c->kp;
	rule(v, wide->kind == HT_BUFFER_LOCAL && wide->dtype == HT_F32 && wide->count >= panel,
		"no local buffer of a panel as f32");
	rule(v, c->run == 0 && ht_is_low(ht_packed_type(v->k, c)), "b is not widened to f32");
}

/* Whether operands of these types may be multiplied in pairs; `held`: the left one is held as pairs. */
static bool may_pair(const struct ht_contract *c, enum ht_dtype a, enum ht_dtype b, bool held)
{
	if (c->a_step != 1 && !held)
		return false;
	return c->run ? a == HT_F16 && b == HT_F16 : b == HT_BF16 && (a == b || a == HT_F32);
}

/* Verifies a contraction of pieces. */
static void verify_pieces(struct verifier *v, const struct ht_stage *s, enum ht_dtype a)
{
	const struct ht_contract *c = &s->contract;
	const struct ht_dim *depth = &s->dim[s->dims - 1];
	int sums = 0;

	for (int i = 0; i < s->dims; i++)
		sums += s->dim[i].reduce;
	rule(v, c->pieces > 0 && c->kp == 2 && !c->run && !c->wide_buffer && a == HT_BF16,
		"pieces of what is not bfloat16 in pairs");
	rule(v, sums == 1 && c->a_guard < 0 && !depth->cut[0].run,
		"pieces have taps, a guard, or an end of the depth");
	rule(v, c->pieces > 0 && depth->extent % (c->pieces * HT_PIECE_DEPTH) == 0,
		"the depth is not whole groups of pieces");
}

static void verify_contract(struct verifier *v, const struct ht_stage *s)
{
	const struct ht_contract *c = &s->contract;
	enum ht_dtype a, b;
	bool held;

	if (!rule(v,
		    c->m >= 0 && c->m < s->dims && c->n >= 0 && c->n < s->dims && c->m != c->n &&
			    !s->dim[c->m].reduce && !s->dim[c->n].reduce,
		    "rows or columns are no dimension"))
		return;
	if (!rule(v, s->dim[s->dims - 1].reduce, "the last dimension is not the depth"))
		return;
	if (!rule(v,
		    c->a_buffer >= 0 && c->a_buffer < v->k->buffers && c->b_buffer >= 0 &&
			    c->b_buffer < v->k->buffers && c->wide_buffer >= 0 &&
			    c->wide_buffer < v->k->buffers,
		    "no buffer of a or b"))
		return;
	if (!rule(v,
		    is_expression(s, c->a_row) && is_expression(s, c->b_base) &&
			    c->a_guard < s->xs && c->a_guard >= -1,
		    "no expression of row, guard or base"))
		return;
	a = ht_row_type(v->k, c);
	b = ht_packed_type(v->k, c);
	held = a != v->k->buffer[c->a_buffer].dtype;
	rule(v, c->nr > 0 && (c->kp == 1 || c->kp == 2), "nr or kp");
	rule(v, c->kp == 1 || may_pair(c, a, b, held),
		"pairs of what is not bfloat16, or float16 in runs, side by side");
	rule(v, !held || s->dim[s->dims - 1].extent % 2 == 0, "half a pair");
	rule(v, c->run == 0 || (c->run > 0 && c->kp == 2), "runs of what is not pairs");
	rule(v, ht_is_float(a) == ht_is_float(b) && a != HT_F64 && b != HT_F64, "types of a and b");
	rule(v, s->reds == 0, "a contraction has a reduction");
	rule(v, c->mr >= 0, "mr");
	rule(v, c->nr <= 0 || s->dim[c->n].grid < 0 || s->dim[c->n].step % c->nr == 0,
		"a tile begins in the middle of a panel of B");
	rule(v,
		c->b_row == 0 ||
			(c->b_row >= s->dim[c->n].extent && c->kp == 1 && !c->wide_buffer &&
				c->nr > 0 && s->dim[c->n].extent % c->nr == 0),
		"rows of B that are not packed");
	if (c->wide_buffer)
		verify_wide(v, s);
	if (c->pieces)
		verify_pieces(v, s, a);
	verify_row(v, s);
	if (rule(v, c->aheads >= 0 && c->aheads <= HT_AHEAD, "too much is asked for ahead"))
		for (int32_t i = 0; i < c->aheads && !v->bad; i++)
			verify_ahead(v, s, &c->ahead[i]);
	for (int32_t i = 0; i < s->xs && !v->bad; i++)
		if (s->x[i].op == HT_X_RED)
			rule(v, s->x[i].dtype == (ht_is_float(a) ? HT_F32 : HT_I32),
				"%%%d: the sum's type", i);
}

static void verify_stage(struct verifier *v, const struct ht_stage *s)
{
	if (!rule(v, s->kind == HT_STAGE_LOOP || s->kind == HT_STAGE_CONTRACT, "no kind of stage"))
		return;
	verify_dims(v, s);
	for (int32_t i = 0; i < s->xs && !v->bad; i++)
		verify_x(v, s, i);
	if (!v->bad)
		verify_reductions(v, s);
	if (!v->bad)
		verify_stores(v, s);
	if (!v->bad && s->kind == HT_STAGE_CONTRACT)
		verify_contract(v, s);
}

static void verify_buffers(struct verifier *v)
{
	const struct ht_kernel *k = v->k;

	rule(v, k->args >= 0 && k->args <= k->buffers, "more arguments than buffers");
	for (int32_t i = 0; i < k->buffers && !v->bad; i++) {
		rule(v, (k->buffer[i].kind == HT_BUFFER_LOCAL) == (i >= k->args),
			"b%d: arguments come first, locals last", i);
		rule(v, k->library || in_memory(k->buffer[i].dtype), "b%d has no type", i);
		rule(v, k->buffer[i].count >= 0, "b%d: a negative count", i);
	}
	rule(v, k->grid_dims >= 0 && k->grid_dims <= HT_MAX_GRID, "%d grid dimensions",
		k->grid_dims);
	for (int i = 0; i < k->grid_dims && !v->bad; i++)
		rule(v, k->grid[i] >= 0, "grid %d is negative", i);
}

/* Tiles that run in the opposite order pass no values to each other. */
static void verify_turns(struct verifier *v)
{
	const struct ht_kernel *k = v->k;
	const struct ht_kernel_buffer *b;

	if (!k->turns || !rule(v, k->turns > 0 && k->turns <= k->args && k->grid_dims > 0,
				 "turns without an argument or a grid"))
		return;
	b = &k->buffer[k->turns - 1];
	rule(v, is_int(b->dtype) && b->kind == HT_BUFFER_IN && b->count == 1,
		"b%d is not an integer by which tiles turn", k->turns - 1);
	for (int32_t i = 0; i < k->stages; i++)
		rule(v,
			!k->stage[i].start && !(k->stage[i].kind == HT_STAGE_CONTRACT &&
						      k->stage[i].contract.wide_buffer),
			"stage %d: tiles that turn inherit nothing", i);
}

bool ht_kernel_valid(const struct ht_kernel *k, struct ht_buf *why)
{
	struct verifier v = { .k = k, .why = why, .stage = -1 };

	verify_buffers(&v);
	if (k->library)
		rule(&v, k->stages == 0 && ht_library_kernel(k->library), "no library kernel '%s'",
			k->library);
	verify_turns(&v);
	for (v.stage = 0; v.stage < k->stages && !v.bad; v.stage++)
		verify_stage(&v, &k->stage[v.stage]);
	return !v.bad;
}

void ht_kernel_verify(const struct ht_kernel *k)
{
	struct ht_unwind unwind;
	struct ht_arena arena;
	struct ht_buf why, text;

	ht_arena_init(&arena, &unwind);
	if (setjmp(unwind.env))
		abort();
	ht_buf_init(&why, &arena);
	if (!ht_kernel_valid(k, &why)) {
		ht_buf_init(&text, &arena);
		ht_puts(&why, "\n");
		fputs(ht_buf_str(&why).p, stderr);
		ht_kernel_print(k, &text);
		fputs(ht_buf_str(&text).p, stderr);
		HT_CHECK(!"a kernel breaks the rules of kernel.h");
	}
	ht_arena_release(&arena);
}
