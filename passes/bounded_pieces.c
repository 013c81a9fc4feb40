/* Rules of open axes of ops that concatenate tensors, and of ops that take parts of them. */
#include "passes/bounded_axes.h"

/* Operands from `first` to before `end` are concatenated along an axis that is not open. */
static enum ht_status joined(struct ht_bounded *b, struct ht_node *n, int32_t first, int32_t end,
	int32_t axis, struct ht_open *out)
{
	int32_t rank = n->out[0].shape.rank;

	for (int32_t i = first; i < end; i++) {
		if (axis < 0 || ht_open_some(axis_of(b, n, i, axis)))
			return ht_open_refuse(b, n, "something is put behind it");
		HT_TRY(ht_open_align(b, n, i, rank, out));
	}
	for (int32_t i = first; i < end; i++)
		for (int32_t k = 0; k < rank; k++)
			if (k != axis && ht_open_some(out[k]) && !ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	return HT_OK;
}

enum ht_status ht_open_concatenated(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	bool last = ht_axes(n) == HT_AXES_JOINED_V2;
	int32_t rank = n->out[0].shape.rank;
	int32_t axis = named_axis(b, n->in[last ? n->ins - 1 : 0], 0, rank);

	return joined(b, n, last ? 0 : 1, last ? n->ins - 1 : n->ins, axis, out);
}

enum ht_status ht_open_packed(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t axis = ht_attr_int(n, "axis", 0);
	int32_t rank = n->out[0].shape.rank;

	if (!ht_fix_axis(&axis, rank))
		return ht_open_refuse(b, n, "the axis is not known");
	for (int32_t i = 0; i < n->ins; i++) {
		HT_TRY(put_axes(b, n, i, 0, (int32_t)axis, out, 0));
		HT_TRY(put_axes(b, n, i, (int32_t)axis, rank - 1, out, (int32_t)axis + 1));
	}
	for (int32_t i = 0; i < n->ins; i++)
		for (int32_t k = 0; k < rank - 1; k++)
			if (ht_open_some(out[k + (k >= axis)]) &&
				!ht_open_some(axis_of(b, n, i, k)))
				return ht_open_refuse(b, n, "it meets a size that is fixed here");
	return HT_OK;
}

enum ht_status ht_open_split(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int32_t value = n->ins == 2, rank = ht_in_shape(n, value).rank;
	int32_t axis = named_axis(b, n->in[value ? 0 : 2], 0, rank);

	if (axis < 0 || ht_open_some(axis_of(b, n, value, axis)))
		return ht_open_refuse(b, n, "this divides it");
	for (int32_t i = 0; i < n->outs; i++)
		HT_TRY(put_axes(b, n, value, 0, rank, out + i * HT_OPEN_RANK, 0));
	return HT_OK;
}

enum ht_status ht_open_unpacked(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	int64_t axis = ht_attr_int(n, "axis", 0);
	int32_t rank = ht_in_shape(n, 0).rank;

	if (!ht_fix_axis(&axis, rank) || ht_open_some(axis_of(b, n, 0, (int32_t)axis)))
		return ht_open_refuse(b, n, "this divides it");
	for (int32_t i = 0; i < n->outs; i++) {
		HT_TRY(put_axes(b, n, 0, 0, (int32_t)axis, out + i * HT_OPEN_RANK, 0));
		HT_TRY(put_axes(
			b, n, 0, (int32_t)axis + 1, rank, out + i * HT_OPEN_RANK, (int32_t)axis));
	}
	return HT_OK;
}

static bool is_all(const struct ht_node *n, struct ht_elem end, int32_t axis)
{
	return (end.kind == HT_ELEM_INT && end.i == -1 && ht_axes(n) == HT_AXES_SLICED) ||
	       (end.kind == HT_ELEM_DIM && end.i == ht_in_shape(n, 0).dim[axis]);
}

enum ht_status ht_open_sliced(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct ht_shape s = ht_in_shape(n, 0);

	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_open a = axis_of(b, n, 0, i);

		if (ht_open_some(a) && (!is_zero(b, n->in[1], i) ||
					       !is_all(n, ht_open_element(b, n->in[2], i), i)))
			return ht_open_refuse(b, n, "this takes a part of it");
		HT_TRY(put(b, n, out, i, a));
		if (ht_open_some(a) || !ht_dim_is_open(b->r.g, n->out[0].shape.dim[i]))
			continue;
		if (!is_zero(b, n->in[1], i) || s.dim[i] < 0 ||
			s.dim[i] < ht_open_most(b, n->out[0].shape.dim[i]))
			return ht_open_refuse(
				b, n, "this takes so much of something that may have less");
		HT_TRY(ht_open_make(b, n, i, out));
	}
	return HT_OK;
}

struct entry {
	struct ht_bounded *b;
	struct ht_node *n;
	struct ht_open *out;
	int32_t axis, to; /* of the operand, of the result */
	struct ht_open_taken taken[HT_OPEN_RANK];
	int32_t count; /* of those */
};

static bool bit(const struct ht_node *n, const char *name, int32_t i)
{
	return i < 63 && ht_attr_int(n, name, 0) >> i & 1;
}

/* One element of an open axis: one that each run has is where it is in fixed sizes; where others are depends on the run. */
static enum ht_status take_one(struct entry *e, int32_t i, struct ht_open a)
{
	int64_t begin = 0;
	bool known = is_number(e->b, e->n->in[1], i, &begin);

	if (known && begin >= 0 && begin < e->b->r.g->size[a.part[0].size - 1].least &&
		a.part[0].inner == 1)
		return HT_OK;
	e->taken[e->count++] = (struct ht_open_taken){ i, e->axis };
	return HT_OK;
}

/* Entry i of a StridedSlice: one axis, from begin to end. */
static enum ht_status take_entry(struct entry *e, int32_t i)
{
	struct ht_open a = axis_of(e->b, e->n, 0, e->axis);
	bool whole_begin = bit(e->n, "begin_mask", i) || is_zero(e->b, e->n->in[1], i);
	struct ht_elem end = ht_open_element(e->b, e->n->in[2], i);
	bool whole_end = bit(e->n, "end_mask", i) || is_all(e->n, end, e->axis);
	bool takes_one = bit(e->n, "shrink_axis_mask", i);
	int64_t step;

	if (ht_open_some(a) && takes_one) {
		HT_TRY(take_one(e, i, a));
	} else if (ht_open_some(a)) {
		if (!whole_begin || !whole_end || !is_number(e->b, e->n->in[3], i, &step) ||
			step != 1)
			return ht_open_refuse(e->b, e->n, "this takes a part of it");
		HT_TRY(put(e->b, e->n, e->out, e->to, a));
	} else if (!takes_one) {
		HT_TRY(ht_open_make(e->b, e->n, e->to, e->out));
	}
	e->axis++;
	e->to += !takes_one;
	return HT_OK;
}

enum ht_status ht_open_strided(struct ht_bounded *b, struct ht_node *n, struct ht_open *out)
{
	struct entry e = { .b = b, .n = n, .out = out };
	int32_t entries = (int32_t)ht_shape_count(ht_in_shape(n, 1)), named = 0, rest;

	if (entries < 0)
		return ht_open_refuse(b, n, "the slice is not known");
	for (int32_t i = 0; i < entries; i++)
		named += !bit(n, "new_axis_mask", i) && !bit(n, "ellipsis_mask", i);
	rest = ht_in_shape(n, 0).rank - named;
	for (int32_t i = 0; i < entries; i++) {
		if (bit(n, "ellipsis_mask", i)) {
			HT_TRY(put_axes(b, n, 0, e.axis, e.axis + rest, out, e.to));
			e.axis += rest;
			e.to += rest;
		} else if (bit(n, "new_axis_mask", i)) {
			e.to++;
		} else {
			HT_TRY(take_entry(&e, i));
		}
	}
	HT_TRY(put_axes(b, n, 0, e.axis, ht_in_shape(n, 0).rank, out, e.to));
	if (e.count)
		ht_open_take(b, n, e.taken, e.count);
	return HT_OK;
}
