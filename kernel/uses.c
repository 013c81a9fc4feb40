/* uses: queries about the expressions of a stage. */
#include "kernel/kernel.h"

#include <string.h>

/* What is looked for: a dimension, or an expression. */
struct sought {
	int dim;   /* -1: none */
	int32_t x; /* likewise */
};

static bool uses(const struct ht_stage *s, int32_t x, const struct sought *of);

static bool red_uses(const struct ht_stage *s, int64_t red, const struct sought *of)
{
	if (s->kind == HT_STAGE_CONTRACT)
		return of->dim >= 0 && of->dim < s->dims && !s->dim[of->dim].reduce;
	return uses(s, s->red[red].x, of);
}

static bool uses_itself(const struct ht_stage *s, int32_t x, const struct sought *of)
{
	const struct ht_x *e = &s->x[x];

	return x == of->x || (e->op == HT_X_DIM && e->imm == of->dim) ||
	       (e->op == HT_X_RED && red_uses(s, e->imm, of));
}

static bool uses(const struct ht_stage *s, int32_t x, const struct sought *of)
{
	/* Marks expressions by a walk from x down: operands have smaller numbers. */
	enum { MARKS = 8192 };
	uint8_t mark[MARKS];

	if (x < 0)
		return false;
	if (x >= MARKS) { /* rare; works without marks */
		const struct ht_x *e = &s->x[x];

		return uses_itself(s, x, of) || uses(s, e->a, of) || uses(s, e->b, of) ||
		       uses(s, e->c, of);
	}
	memset(mark, 0, (size_t)x + 1);
	mark[x] = 1;
	for (int32_t i = x; i >= 0; i--) {
		const struct ht_x *e = &s->x[i];

		if (!mark[i])
			continue;
		if (uses_itself(s, i, of))
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

bool ht_x_uses_dim(const struct ht_stage *s, int32_t x, int dim)
{
	return uses(s, x, &(struct sought){ .dim = dim, .x = -1 });
}

bool ht_x_uses(const struct ht_stage *s, int32_t x, int32_t of)
{
	return uses(s, x, &(struct sought){ .dim = -1, .x = of });
}
