/* math: rewrites functions as basic operations, which the interpreter and the backend then
 * share. */
#include "kernel/math.h"
#include "kernel/build.h"
#include "kernel/eval.h"

static int32_t renamed(const int32_t *now, int32_t x)
{
	return x < 0 ? x : now[x];
}

/* Marks the expressions that something uses. */
static void mark_live(const struct ht_stage *s, uint8_t *live)
{
	const struct ht_contract *c = &s->contract;

	for (int32_t i = 0; i < s->reds; i++)
		live[s->red[i].x] = 1;
	for (int32_t i = 0; i < s->stores; i++) {
		live[s->store[i].offset] = live[s->store[i].value] = 1;
		if (s->store[i].guard >= 0)
			live[s->store[i].guard] = 1;
	}
	if (s->kind == HT_STAGE_CONTRACT) {
		live[c->a_row] = live[c->b_base] = 1;
		for (int32_t i = 0; i < c->aheads; i++)
			live[c->ahead[i].at] = 1;
		if (c->a_guard >= 0)
			live[c->a_guard] = 1;
	}
	for (int32_t i = s->xs - 1; i >= 0; i--) {
		const int32_t arg[3] = { s->x[i].a, s->x[i].b, s->x[i].c };

		for (int k = 0; live[i] && k < 3; k++)
			if (arg[k] >= 0)
				live[arg[k]] = 1;
	}
}

static int32_t function(struct ht_xb *b, const struct ht_x *x)
{
	int32_t y = -1;

	if (x->dtype == HT_F64)
		return ht_math_f64(b, x->op, x->a, x->b);
	if (x->imm != HT_ACCURACY_FULL)
		y = ht_math_short(b, x->op, x->a, (enum ht_accuracy)x->imm);
	return y >= 0 ? y : ht_math_f32(b, x->op, x->a, x->b);
}

static int32_t rewrite(struct ht_xb *b, struct ht_x x, const int32_t *now)
{
	x.a = renamed(now, x.a);
	x.b = renamed(now, x.b);
	x.c = renamed(now, x.c);
	if (x.op >= HT_X_EXP && x.op < HT_X_END)
		return function(b, &x);
	if (x.op >= HT_X_SELECT)
		return ht_xb_make(b, x);
	return ht_xb_push(b, x);
}

static bool needs_work(const struct ht_stage *s, const uint8_t *live)
{
	for (int32_t i = 0; i < s->xs; i++)
		if (!live[i] || s->x[i].op >= HT_X_EXP)
			return true;
	return false;
}

static void expand_stage(struct ht_stage *s, struct ht_arena *a)
{
	uint8_t *live = HT_NEW_ARRAY(a, uint8_t, (size_t)s->xs + 1);
	int32_t *now = HT_NEW_ARRAY(a, int32_t, (size_t)s->xs + 1);
	struct ht_stage fresh = *s;
	struct ht_contract *c = &s->contract;
	struct ht_xb b;

	mark_live(s, live);
	if (!needs_work(s, live))
		return;
	fresh.x = NULL;
	fresh.xs = 0;
	ht_xb_init(&b, a, &fresh);
	for (int32_t i = 0; i < s->xs; i++)
		now[i] = live[i] ? rewrite(&b, s->x[i], now) : -1;
	s->x = fresh.x;
	s->xs = fresh.xs;
	for (int32_t i = 0; i < s->reds; i++)
		s->red[i].x = now[s->red[i].x];
	for (int32_t i = 0; i < s->stores; i++) {
		s->store[i].offset = now[s->store[i].offset];
		s->store[i].value = now[s->store[i].value];
		s->store[i].guard = renamed(now, s->store[i].guard);
	}
	if (s->kind == HT_STAGE_CONTRACT) {
		c->a_row = now[c->a_row];
		c->b_base = now[c->b_base];
		for (int32_t i = 0; i < c->aheads; i++)
			c->ahead[i].at = now[c->ahead[i].at];
		c->a_guard = renamed(now, c->a_guard);
	}
}

void ht_kernel_expand(struct ht_kernel *k, struct ht_arena *a)
{
	for (int32_t i = 0; i < k->stages; i++)
		expand_stage(&k->stage[i], a);
}
