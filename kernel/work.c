/* Computes the work of a kernel from its tile program alone. */
#include "kernel/work.h"

/* How often the stage evaluates its reduction: the points of its domain, times the tiles along
 * those grid dimensions that the domain does not have. */
static int64_t points(const struct ht_kernel *k, const struct ht_stage *s)
{
	bool has[HT_MAX_GRID] = { false };
	int64_t n = 1;

	for (int32_t i = 0; i < s->dims; i++) {
		n *= s->dim[i].extent;
		if (s->dim[i].grid >= 0)
			has[s->dim[i].grid] = true;
	}
	for (int32_t i = 0; !s->start && i < k->grid_dims; i++)
		n *= has[i] ? 1 : k->grid[i];
	return n;
}

/* Cycles of one multiply-add, in the type that the machine multiplies these operands as. */
static double product_cycles(const struct ht_target *t, enum ht_dtype operands)
{
	enum ht_dtype type = ht_target_multiplied(t, operands, false);

	if (type == HT_BF16 && t->matrix_bf16)
		return 1.0 / (ht_target_lanes(t) * ht_target_matrix_products(t));
	return 1.0 / (ht_target_lanes(t) * ht_target_products(t, type));
}

void ht_kernel_work_add(struct ht_kernel_work *w, int64_t multiply_adds, enum ht_dtype operands,
	const struct ht_target *t)
{
	w->multiply_adds += multiply_adds;
	w->cycles += (double)multiply_adds * product_cycles(t, operands);
}

/* If the reduction sums products, the product. */
static bool sums_products(const struct ht_stage *s, const struct ht_reduction *r)
{
	int32_t x = r->x;

	while (s->x[x].op == HT_X_CVT || s->x[x].op == HT_X_SELECT)
		x = s->x[x].op == HT_X_CVT ? s->x[x].a : s->x[x].b;
	return r->op == HT_RED_ADD && (s->x[x].op == HT_X_MUL || s->x[x].op == HT_X_MULADD);
}

/* How many products a number of the depth has: of pieces several. */
static int64_t products_of_number(const struct ht_contract *c)
{
	_Static_assert(HT_PIECE_DEPTH % 2 == 0, "pairs");
	return c->pieces ? (c->pieces + 1) / 2 : 1;
}

/* The type of the factors of a contraction. */
static enum ht_dtype multiplied(const struct ht_kernel *k, const struct ht_stage *s)
{
	return s->contract.wide_buffer ? HT_F32 : ht_packed_type(k, &s->contract);
}

struct ht_kernel_work ht_kernel_work_of(const struct ht_kernel *k, const struct ht_target *t)
{
	struct ht_kernel_work w = { 0 };

	for (int32_t i = 0; i < k->args; i++)
		w.bytes += (uint64_t)k->buffer[i].count * ht_dtype_info(k->buffer[i].dtype)->bytes;
	for (int32_t i = 0; i < k->stages; i++) {
		const struct ht_stage *s = &k->stage[i];

		if (s->kind == HT_STAGE_CONTRACT)
			ht_kernel_work_add(&w, points(k, s) * products_of_number(&s->contract),
				multiplied(k, s), t);
		for (int32_t r = 0; s->kind == HT_STAGE_LOOP && r < s->reds; r++)
			if (sums_products(s, &s->red[r]))
				ht_kernel_work_add(&w, points(k, s), HT_F32, t);
	}
	return w;
}

double ht_work_limit_ps(const struct ht_kernel_work *w, const struct ht_target *t)
{
	const struct ht_rates *r = t->rates;
	double rate = w->bytes <= (uint64_t)t->l1   ? r->l1
		      : w->bytes <= (uint64_t)t->l2 ? r->l2
						    : r->l3;
	double bytes = rate > 0 ? (double)w->bytes / rate : 0;

	return (w->cycles > bytes ? w->cycles : bytes) * r->cycle_ps;
}
