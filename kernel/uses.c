/* uses: questions about the expressions of a stage. */
#include "kernel/kernel.h"

#include <string.h>

/* Adds k times the change of x when `dim` grows by one to *step. */
static bool step_of(const struct ht_stage *s, int32_t i, int dim, int64_t *step)
{
	const struct ht_x *x = &s->x[i];
	int64_t l, r;

	*step = 0;
	if (!ht_x_uses_dim(s, i, dim))
		return true;
	switch (x->op) {
	case HT_X_DIM:
		*step = 1;
		return true;
	case HT_X_ADD:
	case HT_X_SUB:
		if (!step_of(s, x->a, dim, &l) || !step_of(s, x->b, dim, &r))
			return false;
		*step = x->op == HT_X_ADD ? l + r : l - r;
		return true;
	case HT_X_MUL:
		if (s->x[x->b].op != HT_X_CONST || !step_of(s, x->a, dim, &l))
			return false;
		return !__builtin_mul_overflow(l, s->x[x->b].imm, step);
	case HT_X_NEG:
		if (!step_of(s, x->a, dim, &l))
			return false;
		*step = -l;
		return true;
	default:
		return false;
	}
}

bool ht_x_step(const struct ht_stage *s, int32_t x, int dim, int64_t *step)
{
	return step_of(s, x, dim, step);
}

static bool red_uses_dim(const struct ht_stage *s, int64_t red, int dim)
{
	if (s->kind == HT_STAGE_CONTRACT)
		return dim < s->dims && !s->dim[dim].reduce;
	return ht_x_uses_dim(s, s->red[red].x, dim);
}

static bool uses_itself(const struct ht_stage *s, const struct ht_x *e, int dim)
{
	return (e->op == HT_X_DIM && e->imm == dim) ||
	       (e->op == HT_X_RED && red_uses_dim(s, e->imm, dim));
}

bool ht_x_uses_dim(const struct ht_stage *s, int32_t x, int dim)
{
	/* Marks by a walk from x down: operands have smaller numbers. */
	enum { MARKS = 8192 };
	uint8_t mark[MARKS];

	if (x < 0)
		return false;
	if (x >= MARKS) { /* rare: without marks */
		const struct ht_x *e = &s->x[x];

		return uses_itself(s, e, dim) || ht_x_uses_dim(s, e->a, dim) ||
		       ht_x_uses_dim(s, e->b, dim) || ht_x_uses_dim(s, e->c, dim);
	}
	memset(mark, 0, (size_t)x + 1);
	mark[x] = 1;
	for (int32_t i = x; i >= 0; i--) {
		const struct ht_x *e = &s->x[i];

		if (!mark[i])
			continue;
		if (uses_itself(s, e, dim))
			return true;
		if (e->a >= 0)
			mark[e->a] = 1;
		if (e->b >= 0)
			mark[e->b] = 1;
		if (e->c >= 0)
			mark[e->c] = 1;
	}
	return false;
}
