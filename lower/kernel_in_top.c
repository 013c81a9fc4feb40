/* InTopK: whether the prediction of each row's target is among the k largest.  Operands:
 * predictions, targets, and k in the newer version.
 *
 * The answer is true if fewer than k predictions are larger.  It is false if some number of the
 * row is not finite, or if the target is no class. */
#include "lower/index.h"

#include <math.h>

enum { TILE_ELEMENTS = 16384 };

static int32_t is_finite(struct ht_xb *b, int32_t x)
{
	return ht_xlt(b, ht_xabs(b, x), ht_xk(b, ht_xtype(b, x), INFINITY));
}

/* The prediction of the target, 0 if the target is no class.  *valid is and-ed with whether it
 * is one. */
static int32_t of_target(
	struct kernel_build *k, const struct ht_node *n, const struct space *row, int32_t *valid)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape shape = shape_of(n, 0);
	int32_t x[2] = { row->group[0].x, ht_xcvt(b, HT_I64, kb_pull(k, n->in[1], row)) }, own;
	struct space at;

	*valid = index_inside(b, x[1], shape.dim[1]);
	at = space_of_coords(row, 2, shape.dim, x);
	space_and_guard(b, &at, *valid);
	own = kb_pull(k, n->in[0], &at);
	*valid = ht_xand(b, *valid, is_finite(b, own));
	return own;
}

static int32_t how_many(struct kernel_build *k, const struct ht_node *n, const struct space *row)
{
	struct space scalar = space_of_coords(row, 0, NULL, NULL);

	return n->ins > 2 ? ht_xcvt(&k->xb, HT_I64, kb_pull(k, n->in[2], &scalar))
			  : ht_xi(&k->xb, ht_attr_int(n, "k", 1));
}

static enum ht_status emit_in_top_k(struct lower *l, struct ht_node *n)
{
	struct ht_shape shape = shape_of(n, 0);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space row = { .rank = 1, .groups = 1, .dim = { shape.dim[0] }, .guard = -1 };
	int64_t step, tiles;
	int32_t x[2], own, each, valid, above, odd;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	step = ht_ceil_div(TILE_ELEMENTS, shape.dim[1] + 1);
	tiles = ht_ceil_div(shape.dim[0], step);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	kb_grid(&k, 1, &tiles);
	x[0] = ht_xdim(b, kb_grid_dim(&k, 0, shape.dim[0], step));
	k.stage->vec = kb_reduce_dim(&k, shape.dim[1]);
	x[1] = ht_xdim(b, k.stage->vec);
	row.group[0] = (struct space_group){ 0, 0, x[0] };
	own = of_target(&k, n, &row, &valid);
	each = pull_at(&k, n, 0, &row, x);
	above = kb_reduce(&k, HT_RED_ADD, HT_I32, ht_xcvt(b, HT_I32, ht_xlt(b, own, each)));
	odd = kb_reduce(&k, HT_RED_OR, HT_BOOL, ht_xnot(b, is_finite(b, each)));
	valid = ht_xand(b, valid, ht_xnot(b, odd));
	kb_store_root(&k, n,
		ht_xand(b, valid, ht_xlt(b, ht_xcvt(b, HT_I64, above), how_many(&k, n, &row))),
		&row);
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse_in_top_k(const struct ht_node *n)
{
	if (shape_of(n, 0).dim[0] != shape_of(n, 1).dim[0])
		return "has other rows of predictions than targets";
	return shape_of(n, 0).dim[1] < INT32_MAX ? NULL : "has more classes than 32 bits number";
}

const struct lower_op lower_in_top_k = {
	.family = FAMILY_ROOT, .emit = emit_in_top_k, .refuse = refuse_in_top_k
};
