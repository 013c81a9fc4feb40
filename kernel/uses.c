/* uses: queries about the expressions of a stage. */
#include "kernel/kernel.h"

#include <string.h>

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
	/* Marks expressions by a walk from x down: operands have smaller numbers. */
	enum { MARKS = 8192 };
	uint8_t mark[MARKS];

	if (x < 0)
		return false;
	if (x >= MARKS) { /* rare; works without marks */
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
