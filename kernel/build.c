/* build: makes the expressions of a stage.
 *
 * Equal expressions get one number. simplify.c simplifies.  Neither file changes a value that
 * the interpreter would compute, so floats keep their roundings and signed zeros. */
#include "kernel/build.h"
#include "kernel/eval.h"

#include <string.h>

static struct ht_str key_of(struct ht_xb *b, const struct ht_x *x, bool keep)
{
	static _Thread_local int64_t buf[4];
	int64_t *k = keep ? HT_NEW_ARRAY(b->arena, int64_t, 4) : buf;

	k[0] = (int64_t)x->op << 32 | x->dtype;
	k[1] = (int64_t)((uint64_t)(uint32_t)x->a << 32 | (uint32_t)x->b);
	k[2] = (uint32_t)x->c;
	k[3] = x->imm;
	return (struct ht_str){ (const char *)k, 4 * sizeof *k };
}

static void set_range(struct ht_xb *b, int32_t i)
{
	b->range = ht_grow(b->arena, b->range, (size_t)i, &b->range_cap, sizeof *b->range);
	b->range[i] = ht_xb_range(b, &b->stage->x[i]);
}

static void remember(struct ht_xb *b, int32_t i)
{
	struct ht_map_entry *e = ht_map_at(&b->cse, key_of(b, &b->stage->x[i], true));

	if (!e->value)
		e->value = (void *)(intptr_t)(i + 1);
}

void ht_xb_init(struct ht_xb *b, struct ht_arena *a, struct ht_stage *s)
{
	*b = (struct ht_xb){ .arena = a,
		.stage = s,
		.cap = (size_t)s->xs,
		.red_cap = (size_t)s->reds,
		.store_cap = (size_t)s->stores };
	ht_map_init(&b->cse, a);
	for (int32_t i = 0; i < s->xs; i++) {
		set_range(b, i);
		remember(b, i);
	}
}

int32_t ht_xb_push(struct ht_xb *b, struct ht_x x)
{
	struct ht_stage *s = b->stage;
	void *found = ht_map_get(&b->cse, key_of(b, &x, false));

	if (found)
		return (int32_t)((intptr_t)found - 1);
	HT_CHECK(x.a < s->xs && x.b < s->xs && x.c < s->xs);
	s->x = ht_grow(b->arena, s->x, (size_t)s->xs, &b->cap, sizeof *s->x);
	s->x[s->xs] = x;
	set_range(b, s->xs);
	remember(b, s->xs);
	return s->xs++;
}

bool ht_xb_const(const struct ht_xb *b, int32_t i, int64_t *imm)
{
	const struct ht_x *x = ht_xb_at(b, i);

	*imm = x->imm;
	return x->op == HT_X_CONST;
}

int64_t ht_x_imm(enum ht_dtype t, double f, int64_t i)
{
	float f32 = (float)f;
	uint32_t u32;

	switch (t) {
	case HT_F32:
		memcpy(&u32, &f32, sizeof u32);
		return u32;
	case HT_F64:
		memcpy(&i, &f, sizeof i);
		return i;
	case HT_F16:
		return ht_f32_to_f16(f32);
	case HT_BF16:
		return ht_f32_to_bf16(f32);
	case HT_I8:
		return (int8_t)i;
	case HT_U8:
		return (uint8_t)i;
	case HT_I16:
		return (int16_t)i;
	case HT_U16:
		return (uint16_t)i;
	case HT_I32:
		return (int32_t)i;
	case HT_U32:
		return (uint32_t)i;
	case HT_BOOL:
		return i != 0;
	default:
		HT_CHECK(t == HT_I64 || t == HT_U64);
		return i;
	}
}

int32_t ht_xconst(struct ht_xb *b, enum ht_dtype t, double f, int64_t i)
{
	return ht_xb_push(b, (struct ht_x){ HT_X_CONST, t, -1, -1, -1, ht_x_imm(t, f, i) });
}

int32_t ht_xbits(struct ht_xb *b, enum ht_dtype t, int64_t bits)
{
	size_t width = ht_dtype_info(t)->bytes * 8;

	if (!ht_is_float(t))
		return ht_xconst(b, t, 0, bits);
	if (width < 64)
		bits &= ((int64_t)1 << width) - 1;
	return ht_xb_push(b, (struct ht_x){ HT_X_CONST, t, -1, -1, -1, bits });
}

int32_t ht_xi(struct ht_xb *b, int64_t i)
{
	return ht_xconst(b, HT_I64, 0, i);
}

int32_t ht_xf(struct ht_xb *b, double f)
{
	return ht_xconst(b, HT_F32, f, 0);
}

int32_t ht_xd(struct ht_xb *b, double f)
{
	return ht_xconst(b, HT_F64, f, 0);
}

int32_t ht_xdim(struct ht_xb *b, int dim)
{
	HT_CHECK(dim >= 0 && dim < HT_MAX_DIMS);
	if (dim < b->stage->dims && b->stage->dim[dim].extent == 1)
		return ht_xi(b, 0);
	return ht_xb_push(b, (struct ht_x){ HT_X_DIM, HT_I64, -1, -1, -1, dim });
}

int32_t ht_xgrid(struct ht_xb *b, int grid)
{
	HT_CHECK(grid >= 0 && grid < HT_MAX_GRID);
	return ht_xb_push(b, (struct ht_x){ HT_X_GRID, HT_I64, -1, -1, -1, grid });
}

int32_t ht_xparam(struct ht_xb *b, int param)
{
	return ht_xb_push(b, (struct ht_x){ HT_X_PARAM, HT_I64, -1, -1, -1, param });
}

int32_t ht_xload(struct ht_xb *b, int buffer, enum ht_dtype t, int32_t offset)
{
	return ht_xb_push(b, (struct ht_x){ HT_X_LOAD, t, offset, -1, -1, buffer });
}

int32_t ht_xload_if(
	struct ht_xb *b, int buffer, enum ht_dtype t, int32_t offset, int32_t guard, int32_t other)
{
	int64_t imm;

	HT_CHECK(ht_xb_at(b, guard)->dtype == HT_BOOL && ht_xb_at(b, other)->dtype == t);
	if (ht_xb_const(b, guard, &imm))
		return imm ? ht_xload(b, buffer, t, offset) : other;
	return ht_xb_push(b, (struct ht_x){ HT_X_LOAD, t, offset, guard, other, buffer });
}

int32_t ht_xred(struct ht_xb *b, int red, enum ht_dtype t)
{
	return ht_xb_push(b, (struct ht_x){ HT_X_RED, t, -1, -1, -1, red });
}

static int64_t accuracy_of(const struct ht_xb *b, enum ht_xop op, enum ht_dtype t)
{
	return op >= HT_X_EXP && t == HT_F32 ? (int64_t)b->accuracy : 0;
}

/* The result x of arithmetic, rounded if b->keep is set. */
static int32_t kept(struct ht_xb *b, enum ht_xop op, int32_t x)
{
	if (!b->keep || ht_xb_at(b, x)->dtype != HT_F32 || op < HT_X_ADD)
		return x;
	return ht_xcvt(b, HT_F32, ht_xcvt(b, b->keep, x));
}

int32_t ht_x1(struct ht_xb *b, enum ht_xop op, int32_t a)
{
	enum ht_dtype t = ht_xb_at(b, a)->dtype;

	HT_CHECK(ht_x_operands(op) == 1 && op != HT_X_CVT && op != HT_X_BITCAST);
	return kept(b, op, ht_xb_make(b, (struct ht_x){ op, t, a, -1, -1, accuracy_of(b, op, t) }));
}

int32_t ht_x2(struct ht_xb *b, enum ht_xop op, int32_t a, int32_t c)
{
	enum ht_dtype t = ht_xb_at(b, a)->dtype;

	HT_CHECK(ht_x_operands(op) == 2 && op != HT_X_CHECK);
	HT_CHECK(ht_xb_at(b, c)->dtype == t);
	return kept(b, op,
		ht_xb_make(b, (struct ht_x){ op, ht_x_is_compare(op) ? HT_BOOL : t, a, c, -1,
				      accuracy_of(b, op, t) }));
}

int32_t ht_xmuladd(struct ht_xb *b, int32_t x, int32_t y, int32_t z)
{
	enum ht_dtype t = ht_xtype(b, x);

	HT_CHECK(ht_xtype(b, y) == t && ht_xtype(b, z) == t);
	if (b->keep) /* it rounds the product too */
		return ht_xadd(b, ht_xmul(b, x, y), z);
	return ht_xb_make(b, (struct ht_x){ HT_X_MULADD, t, x, y, z, 0 });
}

int32_t ht_xcvt(struct ht_xb *b, enum ht_dtype to, int32_t a)
{
	enum ht_dtype from = ht_xb_at(b, a)->dtype;
	bool narrow = ht_is_low(to), wide = ht_is_low(from);

	if (from == to)
		return a;
	if ((narrow && from != HT_F32) || (wide && to != HT_F32))
		return ht_xcvt(b, to, ht_xcvt(b, HT_F32, a));
	return ht_xb_make(b, (struct ht_x){ HT_X_CVT, to, a, -1, -1, 0 });
}

int32_t ht_xbitcast(struct ht_xb *b, enum ht_dtype to, int32_t a)
{
	HT_CHECK(ht_dtype_info(to)->bytes == ht_dtype_info(ht_xb_at(b, a)->dtype)->bytes);
	return ht_xb_make(b, (struct ht_x){ HT_X_BITCAST, to, a, -1, -1, 0 });
}

int32_t ht_xselect(struct ht_xb *b, int32_t cond, int32_t yes, int32_t no)
{
	enum ht_dtype t = ht_xb_at(b, yes)->dtype;

	HT_CHECK(ht_xb_at(b, cond)->dtype == HT_BOOL && ht_xb_at(b, no)->dtype == t);
	return ht_xb_make(b, (struct ht_x){ HT_X_SELECT, t, cond, yes, no, 0 });
}

int32_t ht_xcheck(struct ht_xb *b, int32_t value, int32_t cond, enum ht_fault f)
{
	int64_t imm;

	HT_CHECK(ht_xb_at(b, cond)->dtype == HT_BOOL && f != HT_FAULT_NONE);
	if (ht_xb_const(b, cond, &imm) && imm)
		return value;
	return ht_xb_push(
		b, (struct ht_x){ HT_X_CHECK, ht_xb_at(b, value)->dtype, value, cond, -1, f });
}

static bool is_signed(enum ht_dtype t)
{
	return ht_dtype_info(t)->kind == HT_KIND_INT;
}

/* A divisor for which DIV and REM are defined for every dividend: c, or 1 where c is 0 (after
 * the check) or -1.  *minus_one is true where c was -1; -1 (no expression) if it cannot be. */
static int32_t safe_divisor(struct ht_xb *b, int32_t c, int32_t *minus_one)
{
	enum ht_dtype t = ht_xb_at(b, c)->dtype;
	int32_t one = ht_xint(b, t, 1);
	int32_t nonzero = ht_xne(b, c, ht_xk(b, t, 0));
	int32_t d = ht_xselect(b, nonzero, c, one);
	int64_t imm;

	*minus_one = -1;
	if (is_signed(t) && !(ht_xb_const(b, c, &imm) && imm != -1)) {
		*minus_one = ht_xeq(b, c, ht_xint(b, t, -1));
		d = ht_xselect(b, *minus_one, one, d);
	}
	return ht_xcheck(b, d, nonzero, HT_FAULT_DIVISION);
}

/* Whether the truncated remainder r must be corrected to have divisor c's sign. */
static int32_t wrong_sign(struct ht_xb *b, int32_t r, int32_t c)
{
	int32_t zero = ht_xk(b, ht_xb_at(b, c)->dtype, 0);
	int32_t differ = ht_xlt(b, ht_xxor(b, r, c), zero);

	return ht_xand(b, ht_xne(b, r, zero), differ);
}

int32_t ht_xidiv(struct ht_xb *b, int32_t a, int32_t c, bool floor)
{
	enum ht_dtype t = ht_xb_at(b, a)->dtype;
	int32_t minus_one, d, q, r;
	int64_t imm;

	if (floor && t == HT_I64 && ht_xb_const(b, c, &imm) && imm > 0)
		return ht_xfloordiv(b, a, c);
	d = safe_divisor(b, c, &minus_one);
	q = ht_xdiv(b, a, d);
	if (floor && is_signed(t)) {
		r = ht_xsub(b, a, ht_xmul(b, q, d));
		q = ht_xselect(b, wrong_sign(b, r, d), ht_xsub(b, q, ht_xint(b, t, 1)), q);
	}
	return minus_one < 0 ? q : ht_xselect(b, minus_one, ht_xneg(b, a), q);
}

int32_t ht_xirem(struct ht_xb *b, int32_t a, int32_t c, bool floor)
{
	enum ht_dtype t = ht_xb_at(b, a)->dtype;
	int32_t minus_one, d, r;
	int64_t imm;

	if (floor && t == HT_I64 && ht_xb_const(b, c, &imm) && imm > 0)
		return ht_xfloormod(b, a, c);
	d = safe_divisor(b, c, &minus_one);
	r = ht_xrem(b, a, d); /* where c is -1, by 1, which gives the correct remainder 0 */
	if (floor && is_signed(t))
		r = ht_xselect(b, wrong_sign(b, r, d), ht_xadd(b, r, d), r);
	return r;
}

void ht_xstore(struct ht_xb *b, int buffer, int32_t offset, int32_t value)
{
	ht_xstore_if(b, buffer, offset, value, -1);
}

void ht_xstore_if(struct ht_xb *b, int buffer, int32_t offset, int32_t value, int32_t guard)
{
	struct ht_stage *s = b->stage;

	if (guard >= 0 && ht_xb_at(b, guard)->op == HT_X_CONST && ht_xb_at(b, guard)->imm)
		guard = -1;
	s->store = ht_grow(b->arena, s->store, (size_t)s->stores, &b->store_cap, sizeof *s->store);
	s->store[s->stores++] = (struct ht_store){ buffer, offset, value, guard };
}

int ht_xreduce(struct ht_xb *b, enum ht_red op, int32_t x)
{
	struct ht_stage *s = b->stage;
	enum ht_dtype t = ht_xb_at(b, x)->dtype;

	s->red = ht_grow(b->arena, s->red, (size_t)s->reds, &b->red_cap, sizeof *s->red);
	s->red[s->reds] = (struct ht_reduction){ op, t, t == HT_F32 ? b->keep : HT_INVALID, x };
	return s->reds++;
}
