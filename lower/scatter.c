/* Scattering of one slice into a tensor, in the tensor's memory where nobody else reads that. */
#include "lower/index.h"
#include "lower/library.h"

/* The slice's place: the operand's indices, checked, and behind them the coordinates in the slice. */
static struct space place_of(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape to = shape_of(n, 0), indices = shape_of(n, 1);
	int32_t outer = indices.rank - 1, depth = (int32_t)indices.dim[outer];
	int32_t at[HT_LOWER_RANK], x[HT_LOWER_RANK];

	for (int32_t i = 0; i < outer; i++)
		at[i] = ht_xi(b, 0);
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

static void store_slice(struct lower *l, struct ht_node *n, const struct view *to)
{
	struct ht_shape slice = shape_of(n, 2);
	struct kernel_build k;
	struct space s, at;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, slice.rank, slice.dim, ~0u);
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
		store_slice(l, n, to);
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

static bool is_slice(struct ht_shape to, struct ht_shape indices, struct ht_shape slice)
{
	int32_t outer = indices.rank - 1, depth = (int32_t)indices.dim[outer];

	if (depth > to.rank || ht_shape_count(indices) != depth || slice.rank != outer + to.rank - depth)
		return false;
	for (int32_t i = depth; i < to.rank; i++)
		if (slice.dim[outer + i - depth] != to.dim[i])
			return false;
	return true;
}

static const char *refuse_update(const struct ht_node *n)
{
	return shape_of(n, 1).rank && is_slice(shape_of(n, 0), shape_of(n, 1), shape_of(n, 2))
		       ? NULL
		       : "has no kernel for several slices";
}

const struct lower_op lower_scatter_update = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_update,
	.part = updated_part,
	.owns = is_updated,
	.refuse = refuse_update };
