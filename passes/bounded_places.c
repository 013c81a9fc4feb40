/* Elements of an open axis whose places depend on the run: its last ones, one that data choose, all in reversed order.  A gather whose
 * indices are computed of the size finds them. */
#include "passes/bounded_axes.h"

/* The extent of axis `axis` of operand 0 as a vector of one. */
static struct ht_value size_of(
	struct ht_bounded *b, struct ht_node *n, enum ht_dtype t, int32_t axis)
{
	const int64_t dim = ht_in_shape(n, 0).dim[axis];
	struct ht_open a = axis_of(b, n, 0, axis);
	struct ht_value v = ht_dims_value(
		&b->r, n, ht_rw_name_within(&b->r, n, "size"), t, (struct ht_shape){ 1, &dim });

	for (int i = 0; i < ht_open_parts(a); i++)
		ht_open_wait_for(b, v.node, a.part[i].size);
	return v;
}

static struct ht_value ints(struct ht_bounded *b, struct ht_node *n, const char *what,
	enum ht_dtype t, const int64_t *v, int64_t count)
{
	return ht_rw_const_ints(&b->r, n, ht_rw_name_within(&b->r, n, what), t, v, count);
}

static struct ht_node *gather(struct ht_bounded *b, struct ht_node *n, struct ht_value from,
	struct ht_value indices, int32_t axis)
{
	struct ht_shape s = ht_type_of(from)->shape;
	int64_t dim[HT_OPEN_RANK];
	struct ht_value in[3] = { from, indices };
	struct ht_node *g;

	memcpy(dim, s.dim, (size_t)s.rank * sizeof *dim);
	dim[axis] = ht_type_of(indices)->shape.dim[0];
	in[2] = ht_rw_scalar(&b->r, n, ht_rw_name_within(&b->r, n, "axis"), HT_I32, axis);
	g = ht_rw_node(&b->r, n, HT_OP_GatherV2, ht_rw_name_within(&b->r, n, "taken"), in, 3,
		(struct ht_type){
			ht_type_of(from)->dtype, ht_shape_make(b->r.g->arena, s.rank, dim) });
	return g;
}

/* ---- one element ---- */

/* Element i of a vector, as a vector of one. */
static struct ht_value element(
	struct ht_bounded *b, struct ht_node *n, struct ht_value v, int64_t i)
{
	return ht_out(gather(b, n, v, ints(b, n, "entry", HT_I32, &i, 1), 0), 0);
}

/* Where entry i of a StridedSlice begins: a number below zero counts from the size. */
static struct ht_value place_of(struct ht_bounded *b, struct ht_node *n, struct ht_open_taken taken)
{
	enum ht_dtype t = ht_type_of(n->in[1])->dtype;
	struct ht_value size = size_of(b, n, t, taken.axis), at, in[3];
	const int64_t zero = 0;
	struct ht_node *less, *select;
	int64_t begin;

	if (is_number(b, n->in[1], taken.entry, &begin)) {
		at = ints(b, n, "place", t, &begin, 1);
		return begin < 0 ? ht_rw_binary(&b->r, n, HT_OP_AddV2,
					   ht_rw_name_within(&b->r, n, "place"), size, at)
				 : at;
	}
	at = element(b, n, n->in[1], taken.entry);
	in[0] = at;
	in[1] = ints(b, n, "zero", t, &zero, 1);
	less = ht_rw_node(&b->r, n, HT_OP_Less, ht_rw_name_within(&b->r, n, "negative"), in, 2,
		(struct ht_type){ HT_BOOL, ht_type_of(at)->shape });
	in[0] = ht_out(less, 0);
	in[1] = ht_rw_binary(&b->r, n, HT_OP_AddV2, ht_rw_name_within(&b->r, n, "place"), at, size);
	in[2] = at;
	select = ht_rw_node(&b->r, n, HT_OP_SelectV2, ht_rw_name_within(&b->r, n, "place"), in, 3,
		*ht_type_of(at));
	return ht_out(select, 0);
}

/* Indices have to be below the size of the run. */
static void limit(struct ht_bounded *b, struct ht_node *g, int32_t axis, struct ht_open a)
{
	int64_t open[2 * HT_OPEN_RANK] = { 0 };

	if (ht_open_is_joined(b, ht_in_shape(g, 0), axis, a)) {
		ht_open_take_from_run(b, g, 1, a);
		return;
	}
	open[2 * axis] = a.part[0].size;
	open[2 * axis + 1] = a.part[0].inner;
	ht_attr_set_ints(g, "_open", open, 2 * ((size_t)axis + 1));
	ht_open_wait_for(b, g, a.part[0].size);
}

/* The same beginnings, with 0 for those that are taken before. */
static struct ht_value other_begins(
	struct ht_bounded *b, struct ht_node *n, const struct ht_open_taken *taken, int32_t count)
{
	enum ht_dtype t = ht_type_of(n->in[1])->dtype;
	int64_t keep[HT_MAX_RANK], begin[HT_MAX_RANK], rank = ht_in_shape(n, 1).dim[0];
	bool known = true;

	for (int32_t i = 0; i < rank; i++)
		keep[i] = 1;
	for (int32_t i = 0; i < count; i++)
		keep[taken[i].entry] = 0;
	for (int32_t i = 0; i < rank; i++) {
		begin[i] = 0;
		known = known && (!keep[i] || is_number(b, n->in[1], i, &begin[i]));
	}
	if (known)
		return ints(b, n, "begin", t, begin, rank);
	return ht_rw_binary(&b->r, n, HT_OP_Mul, ht_rw_name_within(&b->r, n, "begin"), n->in[1],
		ints(b, n, "others", t, keep, rank));
}

void ht_open_take(
	struct ht_bounded *b, struct ht_node *n, const struct ht_open_taken *taken, int32_t count)
{
	struct axes all = axes_of(b, n, 0);
	struct ht_value at[HT_OPEN_RANK], from = n->in[0], begins;

	if (ht_open_count(b, n->in[1]))
		ht_rw_set_in(&b->r, n, 1, ht_open_value(b, n->in[1]));
	for (int32_t i = 0; i < count; i++)
		at[i] = place_of(b, n, taken[i]);
	begins = other_begins(b, n, taken, count);
	for (int32_t i = 0; i < count; i++) {
		struct ht_node *g = gather(b, n, from, at[i], taken[i].axis);

		limit(b, g, taken[i].axis, all.axis[taken[i].axis]);
		from = ht_out(g, 0);
	}
	ht_rw_set_in(&b->r, n, 0, from);
	ht_rw_set_in(&b->r, n, 1, begins);
}

/* ---- reversal ---- */

/* size - 1, size - 2, … down to 0; what follows are no indices. */
static struct ht_value falling(struct ht_bounded *b, struct ht_node *n, int32_t axis)
{
	int64_t most = ht_open_most(b, ht_in_shape(n, 0).dim[axis]);
	int64_t *before = HT_NEW_ARRAY(b->r.arena, int64_t, (size_t)most);

	for (int64_t i = 0; i < most; i++)
		before[i] = -1 - i;
	return ht_rw_binary(&b->r, n, HT_OP_AddV2, ht_rw_name_within(&b->r, n, "places"),
		ints(b, n, "before", HT_I32, before, most), size_of(b, n, HT_I32, axis));
}

static void reverse(struct ht_bounded *b, struct ht_node *n, int32_t axis)
{
	struct ht_open_axis a = axis_of(b, n, 0, axis).part[0];
	const int64_t within[] = { 0, a.size, a.inner };
	struct ht_value in[3] = { n->in[0], falling(b, n, axis),
		ht_rw_scalar(&b->r, n, ht_rw_name_within(&b->r, n, "axis"), HT_I32, axis) };

	ht_rw_become(&b->r, n, HT_OP_GatherV2, in, 3);
	ht_attr_set_ints(n, "_within", within, HT_COUNT(within));
	ht_open_wait_for(b, n, a.size);
}

/* Lengths must not exceed the size of the run.  Rows that the run does not have stay as they are. */
static enum ht_status reversed_rows(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t rank = ht_in_shape(n, 0).rank;
	int64_t along = ht_attr_int(n, "seq_dim", 0), row = ht_attr_int(n, "batch_dim", 0);
	struct ht_open length = axis_of(b, n, 1, 0), size;

	if (!ht_fix_axis(&along, rank) || !ht_fix_axis(&row, rank) ||
		!is_same(length, axis_of(b, n, 0, (int32_t)row)))
		return ht_open_refuse(b, n, "there are not as many lengths as rows");
	size = axis_of(b, n, 0, (int32_t)along);
	HT_TRY(put_axes(b, n, 0, 0, rank, out, 0));
	if (ht_open_some(size) && !is_plain(b, ht_in_shape(n, 0), (int32_t)along, size))
		return ht_open_refuse(b, n, "this reverses it together with others");
	if (ht_open_some(size))
		limit(b, n, (int32_t)along, size);
	ht_open_mask_all(b, n, 1, 0, length, HT_NUMBER_ZERO);
	return HT_OK;
}

enum ht_status ht_open_reversed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axes = ht_shape_count(ht_in_shape(n, 1));
	int32_t open = -1;

	if (ht_attr_find(n, "seq_dim"))
		return reversed_rows(b, n, out);
	for (int32_t i = 0; i < axes; i++) {
		int32_t axis = named_axis(b, n->in[1], i, s.rank);

		if (axis < 0)
			return ht_open_refuse(b, n, "the axis is not constant");
		if (!ht_open_some(axis_of(b, n, 0, axis)))
			continue;
		if (axes > 1 || !is_plain(b, s, axis, axis_of(b, n, 0, axis)) ||
			!ht_dim_size(b->r.g, s.dim[axis]))
			return ht_open_refuse(b, n, "this reverses it together with others");
		open = axis;
	}
	if (axes < 0)
		return ht_open_refuse(b, n, "the axis is not constant");
	HT_TRY(put_axes(b, n, 0, 0, s.rank, out, 0));
	if (open >= 0)
		reverse(b, n, open);
	return HT_OK;
}
