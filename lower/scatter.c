/* Scattering of slices into a tensor, in the tensor's memory where nobody else reads that. */
#include "lower/index.h"
#include "lower/library.h"

/* The place of an element of the slices: the operand's indices, checked, and behind them the coordinates in
 * the slice. */
static struct space place_of(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape to = shape_of(n, 0), indices = shape_of(n, 1);
	int32_t outer = indices.rank - 1, depth = (int32_t)indices.dim[outer];
	int32_t at[HT_LOWER_RANK], x[HT_LOWER_RANK];

	for (int32_t i = 0; i < outer; i++)
		at[i] = space_coord(b, s, i);
	for (int32_t i = 0; i < depth; i++) {
		int32_t index;

		at[outer] = ht_xi(b, i);
		index = ht_xcvt(b, HT_I64, pull_at(k, n, 1, s, at));
		x[i] = ht_xcheck(b, index, index_inside(b, index, to.dim[i]), HT_FAULT_INDEX);
	}
	for (int32_t i = depth; i < to.rank; i++)
		x[i] = space_coord(b, s, outer + i - depth);
	return space_of_coords(s, to.rank, to.dim, x);
}

/* One tile, so that of slices for one place the last one stays. */
static struct space one_tile(struct kernel_build *k, struct ht_shape slices, int32_t outer)
{
	struct space s = { .rank = slices.rank, .groups = slices.rank, .guard = -1 };
	const int64_t one = 1;

	kb_grid(k, 1, &one);
	for (int32_t i = 0; i < slices.rank; i++) {
		s.dim[i] = slices.dim[i];
		s.group[i] =
			(struct space_group){ i, i, ht_xdim(&k->xb, kb_dim(k, slices.dim[i])) };
	}
	if (slices.rank > outer)
		k->stage->vec = slices.rank - 1;
	return s;
}

static void store_slices(struct lower *l, struct ht_node *n, const struct view *to)
{
	struct ht_shape indices = shape_of(n, 1), slices = shape_of(n, 2);
	struct kernel_build k;
	struct space s, at;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	if (ht_shape_count(indices) == indices.dim[indices.rank - 1])
		s = kb_loop_space(&k, slices.rank, slices.dim, ~0u);
	else
		s = one_tile(&k, slices, indices.rank - 1);
	at = place_of(&k, n, &s);
	kb_store(&k, to, &at, kb_pull(&k, n->in[2], &s));
	kb_finish(&k, n);
}

static enum ht_status emit_update(struct lower *l, struct ht_node *n)
{
	const struct view *from = lower_view(l, n->in[0]), *to = &l->view[n->id][0];

	if (from->buffer != to->buffer)
		emit_copy(l, n, from, to);
	if (ht_shape_count(shape_of(n, 2)))
		store_slices(l, n, to);
	return HT_OK;
}

/* The tensor is made where the result is, and then changed. */
static void updated_part(struct lower *l, const struct ht_node *n, int arg, struct view *v)
{
	(void)arg;
	*v = l->view[n->id][0];
}

static bool is_updated(struct lower *l, const struct ht_node *n, int arg)
{
	(void)l;
	(void)n;
	return arg == 0;
}

static bool fit(struct ht_shape to, struct ht_shape indices, struct ht_shape slices)
{
	int32_t outer = indices.rank - 1, depth = (int32_t)indices.dim[outer];

	if (indices.dim[outer] > to.rank || slices.rank != outer + to.rank - depth)
		return false;
	for (int32_t i = 0; i < outer; i++)
		if (slices.dim[i] != indices.dim[i])
			return false;
	for (int32_t i = depth; i < to.rank; i++)
		if (slices.dim[outer + i - depth] != to.dim[i])
			return false;
	return true;
}

static const char *refuse_update(const struct ht_node *n)
{
	return shape_of(n, 1).rank && fit(shape_of(n, 0), shape_of(n, 1), shape_of(n, 2))
		       ? NULL
		       : "has indices and slices that do not fit the tensor";
}

const struct lower_op lower_scatter_update = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_update,
	.part = updated_part,
	.owns = is_updated,
	.refuse = refuse_update };
