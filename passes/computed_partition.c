/* Parts of a tensor by number, and their opposite, for ops whose sizes are computed:
 *
 * - DynamicPartition: each part is gathered from the places where the partition is its number.
 * - ListDiff: the elements that equal none of the second list are gathered.
 * - DynamicStitch by computed indices: data are concatenated, and scattered. */
#include "passes/computed_nodes.h"

/* ---- DynamicPartition and ListDiff ---- */

/* A partition number that is out of range stops the run: numbers are looked up in a list of the
 * parts' numbers. */
static void expand_partition(struct maker *f, struct ht_node *n)
{
	struct ht_value data = n->in[0], part;
	int32_t parts = n->outs;

	part = parts == 1 ? only_zero(f, n->in[1])
			  : gathered(f, numbers(f, HT_I32, parts), n->in[1], 0);
	part.node->out[0].shape = ht_in_shape(n, 1);
	for (int32_t i = 0; i < parts && n->graph; i++)
		if (ht_rw_uses(f->r, ht_out(n, i)))
			ht_rw_replace(f->r, ht_out(n, i),
				gathered_nd(f, data,
					where(f, binary(f, HT_OP_Equal, part,
							 whole(f, HT_I32, i)))));
}

/* The integers of the first list that the second one does not have, and where they are, if both are constants. */
static bool fold_difference(struct maker *f, struct ht_node *n)
{
	int64_t all[2][HT_MAX_RANK], out[HT_MAX_RANK], at[HT_MAX_RANK], left = 0;
	enum ht_dtype t = n->out[0].dtype, index = n->outs > 1 ? n->out[1].dtype : HT_I32;
	int count[2];

	for (int i = 0; i < 2; i++)
		if (!ht_const_small_ints(n->in[i], all[i], HT_MAX_RANK, &count[i]))
			return false;
	for (int i = 0; i < count[0]; i++) {
		bool other = true;

		for (int k = 0; k < count[1]; k++)
			other = other && all[0][i] != all[1][k];
		out[left] = all[0][i];
		at[left] = i;
		left += other;
	}
	if (ht_rw_uses(f->r, ht_out(n, 1)))
		ht_rw_replace(
			f->r, ht_out(n, 1), ht_rw_const_ints(f->r, n, n->name, index, at, left));
	if (n->graph)
		ht_rw_replace(f->r, ht_out(n, 0), ht_rw_const_ints(f->r, n, n->name, t, out, left));
	return true;
}

static void expand_difference(struct maker *f, struct ht_node *n)
{
	const int64_t last = 1;
	enum ht_dtype t = n->outs > 1 ? n->out[1].dtype : HT_I32;
	struct ht_value x = n->in[0], found, missing, at;

	if (fold_difference(f, n))
		return;
	found = binary(f, HT_OP_Equal, with_axis(f, x, 1), with_axis(f, n->in[1], 0));
	found.node->out[0].shape = open_shape(f, 2);
	missing = ht_rw_reduce(f->r, f->at, HT_OP_Any, n->name, found, &last, 1, false);
	missing = ht_rw_unary(f->r, f->at, HT_OP_LogicalNot, n->name, missing);
	at = where(f, missing);
	if (ht_rw_uses(f->r, ht_out(n, 1)))
		ht_rw_replace(
			f->r, ht_out(n, 1), ht_rw_cast(f->r, f->at, n->name, squeezed(f, at), t));
	if (n->graph)
		ht_rw_replace(f->r, ht_out(n, 0), gathered_nd(f, x, at));
}

/* ---- DynamicStitch ---- */

/* A vector of indices, or the rows that belong to them; false: there are several axes of unknown
 * size. */
static bool as_rows(struct maker *f, struct ht_value x, int32_t axes, struct ht_value *rows)
{
	struct ht_shape s = ht_type_of(x)->shape;
	int64_t dim[HT_MAX_RANK] = { 1 };

	*rows = axes ? x : with_axis(f, x, 0);
	if (axes < 2)
		return s.rank >= axes;
	if (!ht_shape_known(s))
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		dim[i < axes ? 0 : i - axes + 1] = (i < axes ? dim[0] : 1) * s.dim[i];
	*rows = reshaped(f, x, ht_shape_make(f->r->g->arena, s.rank - axes + 1, dim));
	return true;
}

/* The number of rows, which the largest index determines. */
static bool rows_of(struct maker *f, struct ht_value indices, struct ht_value *rows)
{
	const int64_t first = 0;
	struct ht_value last =
		ht_rw_reduce(f->r, f->at, HT_OP_Max, f->at->name, indices, &first, 1, false);

	return ht_take_size(f, binary(f, HT_OP_AddV2, last, whole(f, HT_I32, 1)), false, rows);
}

/* Zeros of the result's shape, with so many rows. */
static bool zeros_of(
	struct maker *f, const struct ht_node *n, struct ht_value rows, struct ht_value *zeros)
{
	struct ht_shape s = n->out[0].shape;
	struct ht_value size[HT_MAX_RANK] = { rows }, in[2];

	for (int32_t i = 1; i < s.rank; i++) {
		if (s.dim[i] < 0)
			return false;
		size[i] = whole(f, HT_I32, s.dim[i]);
	}
	in[0] = packed(f, size, s.rank);
	in[1] = whole(f, n->out[0].dtype, 0);
	*zeros = node(f, HT_OP_Fill, in, 2, n->out[0].dtype, open_shape(f, s.rank));
	return true;
}

/* Whether `v` is 0, 1, …. */
static bool counts_up(struct ht_value v)
{
	const struct ht_tensor *t;
	int64_t n;

	while (ht_is(v.node, HT_RESHAPES))
		v = v.node->in[0];
	if (v.node->op == HT_OP_Range)
		return ht_const_is(v.node->in[0], 0) && ht_const_is(v.node->in[2], 1);
	t = ht_const_tensor(v);
	n = t ? ht_shape_count(t->shape) : 0;
	for (int64_t i = 0; i < n; i++)
		if (ht_tensor_int(t, (size_t)i) != i)
			return false;
	return t != NULL;
}

/* The list whose partitions are all the indices: it counts up, so each row of the result has
 * exactly one index.  NULL: there is none. */
static const struct ht_value *partitioned(const struct ht_node *n)
{
	struct ht_node *p = n->in[0].node;
	uint64_t parts = 0;

	if (p->op != HT_OP_DynamicPartition || p->outs != n->ins / 2 || p->outs >= 64 ||
		!counts_up(p->in[0]))
		return NULL;
	for (int32_t i = 0; i < p->outs; i++)
		if (n->in[i].node == p)
			parts |= UINT64_C(1) << n->in[i].index;
	return parts == (UINT64_C(1) << p->outs) - 1 ? &p->in[0] : NULL;
}

static bool expand_stitch(struct maker *f, struct ht_node *n)
{
	int32_t count = n->ins / 2;
	const struct ht_value *all = partitioned(n);
	struct ht_value *index = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins),
			*data = HT_NEW_ARRAY(f->r->arena, struct ht_value, (size_t)n->ins), in[3],
			v;

	if (n->out[0].shape.rank < 1 || n->out[0].shape.rank > HT_OPEN_RANK ||
		n->out[0].shape.dim[0] != HT_DIM_UNKNOWN)
		return false;
	for (int32_t i = 0; i < count; i++)
		if (!as_rows(f, n->in[i], ht_in_shape(n, i).rank, &index[i]) ||
			!as_rows(f, n->in[count + i], ht_in_shape(n, i).rank, &data[i]))
			return false;
	in[1] = joined(f, index, count, 0);
	if (all)
		v = size_of(f, *all, HT_I32);
	else if (!rows_of(f, in[1], &v))
		return false;
	if (!zeros_of(f, n, v, &in[0]))
		return false;
	in[1] = with_axis(f, in[1], 1);
	in[2] = joined(f, data, count, 0);
	v = node(f, HT_OP_TensorScatterUpdate, in, 3, n->out[0].dtype, n->out[0].shape);
	ht_rw_take_place(f->r, n, v);
	return true;
}

static bool is_stitch(const struct ht_node *n)
{
	return n->op == HT_OP_DynamicStitch || n->op == HT_OP_ParallelDynamicStitch;
}

bool ht_expand_stitch(struct maker *f, struct ht_node *n)
{
	return is_stitch(n) && expand_stitch(f, n);
}

/* ---- ops that always compute a size ---- */

/* A stitch examines the node that made the partitions, so stitches are expanded first. */
static void expand_first(struct maker *f, struct ht_node *n, bool stitches)
{
	if (stitches && is_stitch(n) && partitioned(n))
		expand_stitch(f, n);
	else if (!stitches && n->op == HT_OP_DynamicPartition)
		expand_partition(f, n);
	else if (!stitches && n->op == HT_OP_ListDiff)
		expand_difference(f, n);
	else if (stitches)
		ht_expand_repeat(f, n);
}

void ht_expand_computing(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw r;
	struct maker f = { .r = &r };
	struct ht_rw_within within;

	ht_rw_init_within(&r, &within, g, c);
	for (int pass = 0; pass < 2; pass++) {
		size_t n;
		struct ht_node **all = ht_rw_nodes(&r, &n);

		for (size_t i = 0; i < n; i++) {
			make_at(&f, all[i]);
			if (f.at->graph && ht_rw_plain(&r, f.at))
				expand_first(&f, f.at, pass == 0);
		}
	}
}
