/* Ops that take a regular part of a tensor: Slice, StridedSlice and its gradient, Split, SplitV,
 * Unpack.
 *
 * Coordinate c of the result is coordinate first + c * step of the operand.  The begin of a
 * Slice, and the indices of a StridedSlice that take one element, may be known only at run time; in its gradient also where neighbours
 * begin. */
#include "lower/index.h"
#include "lower/parts.h"

struct cut {
	int32_t rank; /* of the operand */
	int64_t first[HT_LOWER_RANK], step[HT_LOWER_RANK];
	int32_t from[HT_LOWER_RANK]; /* the result dimension that runs along it; -1: none, only
				    * index `first` is taken */
	int32_t at[HT_LOWER_RANK];   /* the element of operand 1 to add to `first`; -1: none */
	bool wraps;                  /* a negative element counts from the end */
};

/* That element at run time, with a check that `span` elements from there on are among the `size` of the axis. */
static int32_t begin_at(struct kernel_build *k, const struct ht_node *n, const struct space *s,
	const struct cut *c, int32_t i, int64_t size, int64_t span)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xi(b, c->at[i]), begin, ok;

	begin = ht_xcvt(b, HT_I64, pull_at(k, n, 1, s, &x));
	if (c->wraps)
		begin = ht_xselect(
			b, ht_xlt(b, begin, ht_xi(b, 0)), ht_xaddi(b, begin, size), begin);
	ok = index_inside(b, begin, size - span + 1);
	if (s->guard >= 0) { /* no check where no element is asked for */
		begin = ht_xselect(b, s->guard, begin, ht_xi(b, 0));
		ok = ht_xor(b, ok, ht_xnot(b, s->guard));
	}
	return ht_xcheck(b, begin, ok, HT_FAULT_INDEX);
}

static int32_t pull_cut(struct kernel_build *k, const struct ht_node *n, int arg,
	const struct space *s, const struct cut *c)
{
	int32_t x[HT_LOWER_RANK], begin[HT_LOWER_RANK], r;

	for (int32_t i = 0; i < c->rank; i++) {
		x[i] = ht_xi(&k->xb, c->first[i]);
		if (c->from[i] >= 0)
			x[i] = ht_xaddi(&k->xb,
				ht_xmuli(&k->xb, space_coord(&k->xb, s, c->from[i]), c->step[i]),
				c->first[i]);
		if (c->at[i] < 0)
			continue;
		begin[i] = begin_at(k, n, s, c, i, shape_of(n, 0).dim[i],
			c->from[i] < 0 ? 1 : n->out[0].shape.dim[c->from[i]]);
		x[i] = ht_xadd(&k->xb, x[i], begin[i]);
	}
	r = pull_at(k, n, arg, s, x);
	for (int32_t i = 0; i < c->rank; i++)
		if (c->at[i] >= 0)
			r = with_check(k, r, begin[i]);
	return r;
}

static bool view_cut(const struct ht_node *n, int out, const struct view *in, const struct cut *c,
	struct view *v)
{
	struct ht_shape shape = n->out[out].shape;
	struct view r = { .buffer = in->buffer, .offset = in->offset, .rank = shape.rank };

	for (int32_t i = 0; i < shape.rank; i++) {
		r.dim[i] = shape.dim[i];
		r.stride[i] = 0; /* a new dimension of size one */
	}
	for (int32_t i = 0; i < c->rank; i++) {
		r.offset += c->first[i] * in->stride[i];
		if (c->from[i] >= 0)
			r.stride[c->from[i]] = in->stride[i] * c->step[i];
		if (c->at[i] >= 0)
			return false;
	}
	*v = r;
	return view_count(v) > 0 &&
	       (r.rank == 0 || r.stride[r.rank - 1] == 1 || r.dim[r.rank - 1] == 1);
}

static void cut_shape(struct ht_shape s, struct cut *c)
{
	*c = (struct cut){ .rank = s.rank };
	for (int32_t i = 0; i < c->rank; i++) {
		c->step[i] = 1;
		c->from[i] = i;
		c->at[i] = -1;
	}
}

static void cut_all(const struct ht_node *n, int arg, struct cut *c)
{
	cut_shape(shape_of(n, arg), c);
}

/* Slice */

static void cut_slice(const struct ht_node *n, int out, struct cut *c)
{
	const struct ht_tensor *begin = ht_const_tensor(n->in[1]);

	(void)out;
	cut_all(n, 0, c);
	for (int32_t i = 0; i < c->rank; i++)
		if (begin)
			c->first[i] = ht_tensor_int(begin, (size_t)i);
		else
			c->at[i] = i;
}

/* StridedSlice.  Follows the masks dimension by dimension, as TensorFlow documents them. */

struct strided {
	const struct ht_node *n;
	int begin; /* its operand; the strides are two behind it */
	int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask;
	int32_t specs;
};

static void cut_strided_dim(
	const struct strided *p, int32_t spec, int64_t size, int32_t dim, int32_t to, struct cut *c)
{
	bool known = is_const_ints(p->n, p->begin);
	int64_t begin = known ? const_int(p->n, p->begin, (size_t)spec) : 0;
	int64_t step = const_int(p->n, p->begin + 2, (size_t)spec);

	if (begin < 0)
		begin += size;
	if (p->shrink_mask >> spec & 1) {
		c->first[dim] = begin;
		c->from[dim] = -1;
		c->at[dim] = known ? -1 : spec;
		return;
	}
	if (!known && !(p->begin_mask >> spec & 1))
		c->at[dim] = spec;
	if (p->begin_mask >> spec & 1)
		begin = step > 0 ? 0 : size - 1;
	if (begin < 0)
		begin = step > 0 ? 0 : -1;
	if (begin > size - (step < 0))
		begin = size - (step < 0);
	c->first[dim] = begin;
	c->step[dim] = step;
	c->from[dim] = to;
}

/* Cuts a tensor of shape `of` by the operands from `begin` on.  Returns the rank of the slice. */
static int32_t cut_strided(
	const struct ht_node *n, int begin_operand, struct ht_shape of, struct cut *c)
{
	struct strided p = { n, begin_operand, ht_attr_int(n, "begin_mask", 0),
		ht_attr_int(n, "end_mask", 0), ht_attr_int(n, "ellipsis_mask", 0),
		ht_attr_int(n, "new_axis_mask", 0), ht_attr_int(n, "shrink_axis_mask", 0),
		(int32_t)shape_of(n, begin_operand).dim[0] };
	int32_t dim = 0, to = 0, named = 0;
	bool ellipsis_seen = false;

	cut_shape(of, c);
	c->wraps = true;
	for (int32_t i = 0; i < p.specs; i++)
		named += !(p.new_axis_mask >> i & 1) && !(p.ellipsis_mask >> i & 1);
	for (int32_t i = 0; i < p.specs; i++) {
		if (p.ellipsis_mask >> i & 1 && !ellipsis_seen) {
			ellipsis_seen = true;
			for (int32_t j = c->rank - named; j > 0; j--)
				c->from[dim++] = to++;
		} else if (p.new_axis_mask >> i & 1) {
			to++;
		} else {
			cut_strided_dim(&p, i, of.dim[dim], dim, to, c);
			to += c->from[dim++] >= 0;
		}
	}
	while (dim < c->rank)
		c->from[dim++] = to++;
	return to;
}

static void cut_strided_slice(const struct ht_node *n, int out, struct cut *c)
{
	(void)out;
	cut_strided(n, 1, shape_of(n, 0), c);
}

/* Split, SplitV, Unpack */

static void cut_split(const struct ht_node *n, int out, struct cut *c)
{
	int arg = n->op == HT_OP_Split ? 1 : 0, axis_arg = n->op == HT_OP_Split ? 0 : 2;
	int32_t axis;

	cut_all(n, arg, c);
	axis = axis_of(const_int(n, axis_arg, 0), c->rank);
	for (int i = 0; i < out; i++)
		c->first[axis] += n->out[i].shape.dim[axis];
}

static void cut_unpack(const struct ht_node *n, int out, struct cut *c)
{
	int32_t axis;

	cut_all(n, 0, c);
	axis = axis_of(ht_attr_int(n, "axis", 0), c->rank);
	c->first[axis] = out;
	c->from[axis] = -1;
	for (int32_t i = axis + 1; i < c->rank; i++)
		c->from[i]--;
}

#define CUT_OP(op, operand, refusal, rule)                                                         \
	static int32_t pull_##op(                                                                  \
		struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)   \
	{                                                                                          \
		struct cut c;                                                                      \
		cut_##op(n, out, &c);                                                              \
		return pull_cut(k, n, operand, s, &c);                                             \
	}                                                                                          \
	static bool view_##op(                                                                     \
		const struct ht_node *n, int out, const struct view *in, struct view *v)           \
	{                                                                                          \
		struct cut c;                                                                      \
		cut_##op(n, out, &c);                                                              \
		return view_cut(n, out, in, &c, v);                                                \
	}                                                                                          \
	const struct lower_op lower_##op = { .family = FAMILY_VIEW,                                \
		.pull = pull_##op,                                                                 \
		.view = view_##op,                                                                 \
		.refuse = refusal,                                                                 \
		.rows = rule }

static bool sliced_rows(const struct parts *p, const struct ht_node *n)
{
	return rows_of_first(p, n) && is_const_ints(n, 1) && const_int(n, 1, 0) == 0;
}

static const char *refuse_slice(const struct ht_node *n)
{
	return is_const_ints(n, 2) ? NULL : "needs constant sizes";
}

/* Whether the begin of entry `i` of a StridedSlice counts, and is not the index of one element, which may be known at run time only. */
static bool has_begin(const struct ht_node *n, int64_t i)
{
	int64_t others = ht_attr_int(n, "shrink_axis_mask", 0) | ht_attr_int(n, "begin_mask", 0) |
			 ht_attr_int(n, "new_axis_mask", 0) | ht_attr_int(n, "ellipsis_mask", 0);

	return !(others >> i & 1);
}

static const char *refuse_strided(const struct ht_node *n)
{
	for (int64_t i = 0; i < shape_of(n, 1).dim[0] && !is_const_ints(n, 1); i++)
		if (has_begin(n, i))
			return "needs constant sizes and positions";
	return is_const_ints(n, 3) ? NULL : "needs constant strides";
}

/* Whether the first dimension of the slice is the whole first dimension of the operand. */
static bool strided_rows(const struct parts *p, const struct ht_node *n)
{
	bool moved = ht_attr_int(n, "ellipsis_mask", 0) || ht_attr_int(n, "new_axis_mask", 0) ||
		     (ht_attr_int(n, "shrink_axis_mask", 0) & 1);

	return !moved && is_const_ints(n, 1) && shape_of(n, 1).dim[0] && rows_of_first(p, n) &&
	       const_int(n, 3, 0) == 1 &&
	       ((ht_attr_int(n, "begin_mask", 0) & 1) || const_int(n, 1, 0) == 0);
}

CUT_OP(slice, 0, refuse_slice, sliced_rows);
CUT_OP(strided_slice, 0, refuse_strided, strided_rows);
CUT_OP(unpack, 0, NULL, NULL);

static const char *refuse_split(const struct ht_node *n)
{
	return is_const_ints(n, 0) ? NULL : "needs a constant axis";
}

/* Split has the tensor as its second operand, SplitV as its first. */
static int32_t pull_split(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct cut c;

	cut_split(n, out, &c);
	return pull_cut(k, n, n->op == HT_OP_Split ? 1 : 0, s, &c);
}

static bool view_split(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	struct cut c;

	cut_split(n, out, &c);
	return view_cut(n, out, in, &c, v);
}

static bool split_rows(const struct parts *p, const struct ht_node *n)
{
	int32_t value = n->op == HT_OP_Split ? 1 : 0, axis = n->op == HT_OP_SplitV ? 2 : 0;

	return rows_of(p, n, value) && axis_of(const_int(n, axis, 0), shape_of(n, value).rank) != 0;
}

const struct lower_op lower_split = { .family = FAMILY_VIEW,
	.pull = pull_split,
	.view = view_split,
	.view_arg = 1,
	.refuse = refuse_split,
	.rows = split_rows };
const struct lower_op lower_split_v = { .family = FAMILY_VIEW,
	.pull = pull_split,
	.view = view_split,
	.view_arg = 0,
	.refuse = refuse_after_first,
	.rows = split_rows };

/* ---- the gradient of StridedSlice: its slice in a tensor of zeros ---- */

/* The coordinate in the slice for coordinate `x` of dimension i.  *inside is and-ed with whether
 * the slice has it. */
static int32_t cut_back(
	struct ht_xb *b, const struct cut *c, int32_t i, int64_t size, int32_t x, int32_t *inside)
{
	int64_t step = c->step[i] < 0 ? -c->step[i] : c->step[i];
	int32_t way = ht_xaddi(b, x, -c->first[i]), at;

	if (c->step[i] < 0)
		way = ht_xmuli(b, way, -1);
	at = step > 1 ? ht_xdivi(b, way, step) : way;
	*inside = ht_xand(b, *inside, index_inside(b, at, size));
	if (step > 1)
		*inside = ht_xand(b, *inside, ht_xeq(b, ht_xmodi(b, way, step), ht_xi(b, 0)));
	return at;
}

static int32_t pull_strided_slice_gradient(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape slice = shape_of(n, 4);
	int32_t x[HT_LOWER_RANK], inside = ht_xbits(b, HT_BOOL, 1);
	struct space at;
	struct cut c;

	(void)out;
	cut_strided(n, 1, n->out[0].shape, &c);
	for (int32_t i = 0; i < slice.rank; i++)
		x[i] = ht_xi(b, 0);
	for (int32_t i = 0; i < c.rank; i++) {
		int32_t here = space_coord(b, s, i);

		if (c.at[i] >= 0)
			here = ht_xsub(b, here,
				begin_at(k, n, s, &c, i, n->out[0].shape.dim[i],
					c.from[i] < 0 ? 1 : slice.dim[c.from[i]]));
		if (c.from[i] >= 0)
			x[c.from[i]] = cut_back(b, &c, i, slice.dim[c.from[i]], here, &inside);
		else
			inside = ht_xand(b, inside, ht_xeq(b, here, ht_xi(b, c.first[i])));
	}
	at = space_of_coords(s, slice.rank, slice.dim, x);
	space_and_guard(b, &at, inside);
	return ht_xselect(
		b, inside, kb_pull(k, n->in[4], &at), ht_xk(b, compute_type(n->out[0].dtype), 0));
}

/* The gradient has the shape of the slice. */
static const char *refuse_strided_slice_gradient(const struct ht_node *n)
{
	static const char no_fit[] = "has a gradient that does not fit the slice";
	struct ht_shape slice = shape_of(n, 4), of = n->out[0].shape;
	struct cut c;

	if (!is_const_ints(n, 3))
		return "needs constant strides";
	for (int64_t i = 0; i < shape_of(n, 1).dim[0] && !is_const_ints(n, 1); i++)
		if (has_begin(n, i) && const_int(n, 3, (size_t)i) != 1)
			return "needs constant sizes and positions";
	if (cut_strided(n, 1, of, &c) != slice.rank)
		return no_fit;
	for (int32_t i = 0; i < c.rank; i++) {
		int64_t steps = c.from[i] < 0 ? 0 : slice.dim[c.from[i]] - 1;
		int64_t last = c.first[i] + steps * c.step[i];

		if (steps >= 0 && (c.first[i] < 0 || c.first[i] >= of.dim[i] || last < 0 ||
					  last >= of.dim[i]))
			return no_fit;
	}
	return NULL;
}

const struct lower_op lower_strided_slice_gradient = { .family = FAMILY_MAP,
	.pull = pull_strided_slice_gradient,
	.refuse = refuse_strided_slice_gradient };
