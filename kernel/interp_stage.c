/* Prepares a stage for the interpreter: which expressions to evaluate, and where their values
 * are. */
#include "kernel/interp.h"

#include <string.h>

static void need(int32_t i, uint8_t *mark)
{
	if (i >= 0)
		mark[i] = 1;
}

/* The marked expressions and all that they use, in order. */
static int32_t *closure(struct ht_arena *a, const struct ht_stage *s, uint8_t *mark, int32_t *count)
{
	int32_t *list, n = 0;

	for (int32_t i = s->xs - 1; i >= 0; i--) {
		if (!mark[i])
			continue;
		need(s->x[i].a, mark);
		need(s->x[i].b, mark);
		need(s->x[i].c, mark);
	}
	list = HT_NEW_ARRAY(a, int32_t, (size_t)s->xs + 1);
	for (int32_t i = 0; i < s->xs; i++)
		if (mark[i] && s->x[i].op != HT_X_CONST)
			list[n++] = i;
	*count = n;
	return list;
}

static void list_expressions(struct ht_arena *a, struct ht_interp_stage *p)
{
	const struct ht_stage *s = p->s;
	uint8_t *mark = HT_NEW_ARRAY(a, uint8_t, (size_t)s->xs + 1);

	if (s->kind == HT_STAGE_CONTRACT) {
		need(s->contract.a_row, mark);
		need(s->contract.a_guard, mark);
		need(s->contract.b_base, mark);
		p->row = closure(a, s, mark, &p->rows);
	} else {
		for (int32_t i = 0; i < s->reds; i++)
			need(s->red[i].x, mark);
		p->inner = closure(a, s, mark, &p->inners);
	}
	memset(mark, 0, (size_t)s->xs);
	for (int32_t i = 0; i < s->stores; i++) {
		need(s->store[i].offset, mark);
		need(s->store[i].value, mark);
		need(s->store[i].guard, mark);
	}
	p->outer = closure(a, s, mark, &p->outers);
}

static int choose_lane(const struct ht_stage *s)
{
	int best = -1;

	if (s->kind == HT_STAGE_CONTRACT)
		return s->contract.n;
	if (s->sequential)
		return s->vec;
	/* The last kept dimension if it is long enough: its elements are adjacent in memory. */
	for (int i = s->dims - 1; i >= 0; i--)
		if (!s->dim[i].reduce) {
			if (s->dim[i].extent >= 16)
				return i;
			break;
		}
	/* Of the reduction dimensions only the last may run along lanes, so that positions are
	 * visited in order. */
	for (int i = s->dims - 1; i >= 0; i--)
		if (best < 0 || (!s->dim[i].reduce && s->dim[i].extent > s->dim[best].extent))
			best = i;
	return best;
}

static void make_slots(struct ht_arena *a, struct ht_interp_stage *p)
{
	const struct ht_stage *s = p->s;

	p->slot = HT_NEW_ARRAY(a, void *, (size_t)s->xs + 1);
	for (int32_t i = 0; i < s->xs; i++) {
		const struct ht_x *x = &s->x[i];

		HT_CHECK(x->op < HT_X_EXP); /* ht_kernel_expand() must have run */
		p->slot[i] = ht_alloc(a, HT_LANES * ht_interp_size(x->dtype));
		if (x->op == HT_X_CONST)
			ht_x_eval(x, x->dtype, p->slot[i], NULL, NULL, NULL, HT_LANES);
	}
	p->sum = HT_NEW_ARRAY(a, void *, (size_t)s->reds + 1);
	p->position = HT_NEW_ARRAY(a, int64_t *, (size_t)s->reds + 1);
	for (int32_t i = 0; i < s->reds; i++) {
		p->sum[i] = ht_alloc(a, HT_LANES * ht_interp_size(s->red[i].dtype));
		p->position[i] = HT_NEW_ARRAY(a, int64_t, HT_LANES);
	}
}

void ht_interp_prepare(struct ht_arena *a, const struct ht_stage *s, struct ht_interp_stage *p)
{
	*p = (struct ht_interp_stage){ .s = s, .lane = choose_lane(s) };
	list_expressions(a, p);
	make_slots(a, p);
	for (int i = 0; i < s->dims; i++) {
		if (i == p->lane)
			continue;
		if (s->dim[i].reduce)
			p->reduced[p->reduceds++] = i;
		else
			p->kept[p->kepts++] = i;
	}
	if (s->kind == HT_STAGE_CONTRACT) {
		const struct ht_dim *d = &s->dim[s->contract.n];
		int64_t n = d->grid >= 0 && d->step < d->extent ? d->step : d->extent;

		p->columns = ht_alloc_array(a, (size_t)n, 4);
		p->short_columns = s->contract.run ? ht_alloc_array(a, 2 * (size_t)n, 4) : NULL;
	}
}
