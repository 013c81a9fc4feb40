/* Rules of slices, gathers, padding and tiling. */
#include "ir/infer.h"

enum ht_status ht_infer_slice(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *begin = ht_in_known(in, n, 1), *size = ht_in_known(in, n, 2);
	int32_t rank = s.rank >= 0 ? s.rank : begin ? begin->n : size ? size->n : -1;
	int64_t *d;

	HT_TRY(ht_want_rank(in, n, 1, 1));
	HT_TRY(ht_want_rank(in, n, 2, 1));
	if (rank < 0 || rank > HT_MAX_RANK)
		return HT_OK;
	if ((begin && begin->n != rank) || (size && size->n != rank))
		return ht_infer_fail(
			in, n, "begin, size and operand differ in their number of axes");
	d = ht_new_dims(in, rank);
	ht_set_shape(n, 0, rank, d);
	for (int32_t i = 0; size && i < rank; i++) {
		int64_t whole = s.rank >= 0 ? s.dim[i] : HT_DIM_UNKNOWN;
		bool has_begin = begin && begin->e[i].kind == HT_ELEM_INT;
		bool rest = size->e[i].kind == HT_ELEM_INT && size->e[i].i == -1;

		d[i] = ht_elem_dim(&size->e[i]);
		if (has_begin && begin->e[i].i < 0)
			return ht_infer_fail(in, n, "begin is negative");
		if (size->e[i].kind == HT_ELEM_INT && size->e[i].i < -1)
			return ht_infer_fail(in, n, "size is negative");
		if (rest && has_begin && begin->e[i].i == 0)
			d[i] = whole;
		else if (rest && has_begin && whole >= begin->e[i].i)
			d[i] = whole - begin->e[i].i;
		if (has_begin && whole >= 0 &&
			(begin->e[i].i > whole || (d[i] >= 0 && d[i] > whole - begin->e[i].i)))
			return ht_infer_fail(in, n, "the block leaves %.*s along axis %d",
				HT_STR_ARG(ht_shape_text(in, s)), (int)i);
	}
	return HT_OK;
}

/* ---- StridedSlice ---- */

struct strided {
	int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
	const struct ht_known *begin, *end, *strides;
	int32_t count; /* entries of begin, end and strides */
};

static bool bit(int64_t mask, int32_t i)
{
	return i < 63 && (mask >> i & 1);
}

static const struct ht_elem *elem(const struct ht_known *k, int32_t i)
{
	static const struct ht_elem unknown = { HT_ELEM_UNKNOWN, 0, 0 };

	return k ? &k->e[i] : &unknown;
}

/* A bound by TensorFlow's rules: a negative one counts from the end; then it is clamped to the
 * range. */
static int64_t bound(int64_t v, int64_t size, int64_t stride)
{
	int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;

	if (v < 0)
		v = v < -size ? -1 : v + size;
	return v < low ? low : v > high ? high : v;
}

static enum ht_status entry_size(struct ht_infer *in, const struct ht_node *n,
	const struct strided *p, int32_t i, int64_t size, int64_t *r)
{
	const struct ht_elem *b = elem(p->begin, i), *e = elem(p->end, i), *s = elem(p->strides, i);
	bool all_begin = bit(p->begin_mask, i), all_end = bit(p->end_mask, i);
	int64_t from, to, span;

	*r = HT_DIM_UNKNOWN;
	if (s->kind != HT_ELEM_INT)
		return HT_OK;
	if (s->i == 0)
		return ht_infer_fail(in, n, "stride %d is 0", (int)i);
	if (!all_end && e->kind == HT_ELEM_DIM && e->i == size && s->i == 1)
		all_end = true;
	if ((all_begin || (b->kind == HT_ELEM_INT && b->i == 0 && s->i == 1)) && all_end &&
		(s->i == 1 || s->i == -1)) {
		*r = size;
		return HT_OK;
	}
	if (b->kind == HT_ELEM_INT && b->i == 0 && s->i == 1 && e->kind == HT_ELEM_DIM &&
		size >= 0 && ht_dim_most(in->g, e->i) >= 0 && ht_dim_most(in->g, e->i) <= size) {
		*r = e->i; /* x[0:c]: the result has c elements for every value of c */
		return HT_OK;
	}
	if (size < 0 || s->i == INT64_MIN || (!all_begin && b->kind != HT_ELEM_INT) ||
		(!all_end && e->kind != HT_ELEM_INT)) {
		/* x[0:c] of a dimension of unknown size has at most c elements, so the result is
		 * unknown. */
		return HT_OK;
	}
	from = all_begin ? (s->i > 0 ? 0 : size - 1) : bound(b->i, size, s->i);
	to = all_end ? (s->i > 0 ? size : -1) : bound(e->i, size, s->i);
	span = s->i > 0 ? to - from : from - to;
	*r = span <= 0 ? 0 : (span - 1) / (s->i > 0 ? s->i : -s->i) + 1;
	return HT_OK;
}

static enum ht_status check_index(struct ht_infer *in, const struct ht_node *n,
	const struct strided *p, int32_t i, int64_t size)
{
	const struct ht_elem *b = elem(p->begin, i), *s = elem(p->strides, i);

	if (s->kind == HT_ELEM_INT && s->i <= 0)
		return ht_infer_fail(
			in, n, "stride %d must be positive where an axis is taken out", (int)i);
	if (b->kind != HT_ELEM_INT || size < 0 || bit(p->begin_mask, i) ||
		(b->i < size && b->i >= -size))
		return HT_OK;
	return ht_infer_fail(in, n, "index %lld is out of range for size %lld", (long long)b->i,
		(long long)size);
}

/* The number of axes of the operand that the entries name, and the position of the ellipsis. */
static int32_t named_axes(const struct strided *p, int32_t *ellipsis)
{
	int32_t axes = 0;

	*ellipsis = p->count; /* behind all entries: the remaining axes stay whole */
	for (int32_t i = p->count - 1; i >= 0; i--)
		if (bit(p->ellipsis_mask, i))
			*ellipsis = i;
	for (int32_t i = 0; i < p->count; i++)
		axes += i != *ellipsis && !bit(p->new_axis_mask, i);
	return axes;
}

static bool read_strided(struct ht_infer *in, const struct ht_node *n, struct strided *p)
{
	p->begin_mask = ht_attr_int(n, "begin_mask", 0);
	p->end_mask = ht_attr_int(n, "end_mask", 0);
	p->ellipsis_mask = ht_attr_int(n, "ellipsis_mask", 0);
	p->new_axis_mask = ht_attr_int(n, "new_axis_mask", 0);
	p->shrink_axis_mask = ht_attr_int(n, "shrink_axis_mask", 0);
	p->begin = ht_in_known(in, n, 1);
	p->end = ht_in_known(in, n, 2);
	p->strides = ht_in_known(in, n, 3);
	p->count = p->begin ? p->begin->n : p->end ? p->end->n : p->strides ? p->strides->n : -1;
	return p->count >= 0 && p->count <= 63;
}

enum ht_status ht_infer_strided_slice(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct strided p;
	int32_t ellipsis, axis = 0, rank = 0, left;
	int64_t *d;

	for (int32_t i = 1; i < 4; i++)
		HT_TRY(ht_want_rank(in, n, i, 1));
	if (!read_strided(in, n, &p) || s.rank < 0)
		return HT_OK;
	if ((p.end && p.end->n != p.count) || (p.strides && p.strides->n != p.count))
		return ht_infer_fail(in, n, "begin, end and strides differ in length");
	if (p.ellipsis_mask & (p.ellipsis_mask - 1))
		return ht_infer_fail(in, n, "more than one ellipsis");
	left = s.rank - named_axes(&p, &ellipsis);
	if (left < 0)
		return ht_infer_fail(
			in, n, "names more axes than %.*s has", HT_STR_ARG(ht_shape_text(in, s)));
	d = ht_new_dims(in, s.rank + p.count);
	for (int32_t i = 0; i <= p.count; i++) {
		if (i == ellipsis) {
			for (int32_t j = 0; j < left; j++)
				d[rank++] = s.dim[axis++];
		} else if (i < p.count && bit(p.new_axis_mask, i)) {
			d[rank++] = 1;
		} else if (i < p.count && bit(p.shrink_axis_mask, i)) {
			HT_TRY(check_index(in, n, &p, i, s.dim[axis++]));
		} else if (i < p.count) {
			HT_TRY(entry_size(in, n, &p, i, s.dim[axis++], &d[rank]));
			rank++;
		}
	}
	if (rank > HT_MAX_RANK)
		return ht_infer_refuse(in, n, "result has too many axes");
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

/* ---- gathers ---- */

/* p[:axis] + indices[batch:] + p[axis+1:], where p is the shape of the data. */
static enum ht_status gather_shapes(
	struct ht_infer *in, struct ht_node *n, struct ht_shape p, int64_t axis, int64_t batch)
{
	struct ht_shape x = ht_in_shape(n, 1);
	int32_t rank = 0;
	int64_t *d;

	if (p.rank < 0 || x.rank < 0)
		return HT_OK;
	if (!ht_fix_axis(&axis, p.rank) || batch > axis || batch > x.rank)
		return ht_infer_fail(in, n,
			"axis %lld and batch_dims %lld do not fit %.*s and %.*s", (long long)axis,
			(long long)batch, HT_STR_ARG(ht_shape_text(in, p)),
			HT_STR_ARG(ht_shape_text(in, x)));
	if (p.rank + x.rank - batch - 1 > HT_MAX_RANK)
		return ht_infer_refuse(in, n, "result has too many axes");
	d = ht_new_dims(in, p.rank + x.rank);
	for (int32_t i = 0; i < axis; i++)
		if (i >= batch)
			d[rank++] = p.dim[i];
		else if (!ht_merge_dim(p.dim[i], x.dim[i], &d[rank++]))
			return ht_infer_fail(in, n, "batch axes of %.*s and %.*s differ",
				HT_STR_ARG(ht_shape_text(in, p)), HT_STR_ARG(ht_shape_text(in, x)));
	for (int32_t i = (int32_t)batch; i < x.rank; i++)
		d[rank++] = x.dim[i];
	for (int32_t i = (int32_t)axis + 1; i < p.rank; i++)
		d[rank++] = p.dim[i];
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

enum ht_status ht_infer_gather(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(ht_want_rank_of(in, n, 0, 1, HT_MAX_RANK));
	return gather_shapes(in, n, ht_in_shape(n, 0), 0, 0);
}

enum ht_status ht_infer_gather_variable(struct ht_infer *in, struct ht_node *n)
{
	int64_t batch = ht_attr_int(n, "batch_dims", 0);
	int32_t rank = ht_in_shape(n, 1).rank;

	if (batch < 0 && rank >= 0)
		batch += rank;
	return batch < 0 ? HT_OK : gather_shapes(in, n, ht_handle_shape(n), batch, batch);
}

enum ht_status ht_infer_gather_v2(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape p = ht_in_shape(n, 0), x = ht_in_shape(n, 1);
	int64_t axis, batch = ht_attr_int(n, "batch_dims", 0);
	int32_t rank;

	HT_TRY(ht_want_rank_of(in, n, 0, 1, HT_MAX_RANK));
	if (batch < 0 && x.rank >= 0)
		batch += x.rank;
	if (ht_in_int(in, n, 2, &axis))
		return batch < 0 ? HT_OK : gather_shapes(in, n, p, axis, batch);
	if (p.rank < 0 || x.rank < 0 || batch < 0)
		return HT_OK;
	rank = p.rank - 1 + x.rank - (int32_t)batch;
	if (rank >= 0 && rank <= HT_MAX_RANK)
		ht_set_shape(n, 0, rank, ht_new_dims(in, rank));
	return HT_OK;
}

/* indices[:-1] + p[indices.shape[-1]:] */
static enum ht_status gather_nd_shapes(struct ht_infer *in, struct ht_node *n, struct ht_shape p)
{
	struct ht_shape x = ht_in_shape(n, 1);
	int64_t depth;
	int32_t rank = 0;
	int64_t *d;

	HT_TRY(ht_want_rank_of(in, n, 1, 1, HT_MAX_RANK));
	if (p.rank < 0 || x.rank < 1 || x.dim[x.rank - 1] < 0)
		return HT_OK;
	depth = x.dim[x.rank - 1];
	if (depth > p.rank)
		return ht_infer_fail(in, n, "indices %.*s have more parts than %.*s has axes",
			HT_STR_ARG(ht_shape_text(in, x)), HT_STR_ARG(ht_shape_text(in, p)));
	if (x.rank - 1 + p.rank - depth > HT_MAX_RANK)
		return ht_infer_refuse(in, n, "result has too many axes");
	d = ht_new_dims(in, x.rank + p.rank);
	for (int32_t i = 0; i < x.rank - 1; i++)
		d[rank++] = x.dim[i];
	for (int32_t i = (int32_t)depth; i < p.rank; i++)
		d[rank++] = p.dim[i];
	ht_set_shape(n, 0, rank, d);
	return HT_OK;
}

enum ht_status ht_infer_gather_nd(struct ht_infer *in, struct ht_node *n)
{
	return gather_nd_shapes(in, n, ht_in_shape(n, 0));
}

enum ht_status ht_infer_gather_nd_variable(struct ht_infer *in, struct ht_node *n)
{
	return gather_nd_shapes(in, n, ht_handle_shape(n));
}

/* ---- padding, tiling ---- */

/* Operand 1 is a matrix of two columns, or a vector, with a row for each axis of operand 0. */
static enum ht_status want_row_for_each_axis(
	struct ht_infer *in, const struct ht_node *n, int32_t columns)
{
	struct ht_shape s = ht_in_shape(n, 0), p = ht_in_shape(n, 1);

	HT_TRY(ht_want_rank(in, n, 1, columns == 1 ? 1 : 2));
	if (p.rank < 1 || s.rank < 0)
		return HT_OK;
	if ((p.dim[0] >= 0 && p.dim[0] != s.rank) ||
		(columns == 2 && p.dim[1] >= 0 && p.dim[1] != 2))
		return ht_infer_fail(in, n, "operand 1 of shape %.*s does not fit %.*s",
			HT_STR_ARG(ht_shape_text(in, p)), HT_STR_ARG(ht_shape_text(in, s)));
	return HT_OK;
}

/* What changes the axes of operand 0 by the rows of operand 1. */
struct by_rows {
	int32_t axes; /* of which both the extent and the row are known to the caller; 0: it knows none */
	const struct ht_elem *e; /* the elements of operand 1 */
	int64_t *d;              /* the extents of the result, unknown so far */
};

/* Gives the result the rank that follows from either operand. */
static enum ht_status begin_by_rows(
	struct ht_infer *in, struct ht_node *n, int32_t columns, struct by_rows *r)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const struct ht_known *k = ht_in_known(in, n, 1);
	int32_t rank = s.rank >= 0 ? s.rank : k ? k->n / columns : -1;

	*r = (struct by_rows){ 0 };
	HT_TRY(want_row_for_each_axis(in, n, columns));
	if (rank > HT_MAX_RANK)
		return ht_infer_fail(in, n, "operand 1 has too many elements");
	if (rank < 0)
		return HT_OK;
	r->d = ht_new_dims(in, rank);
	ht_set_shape(n, 0, rank, r->d);
	if (k && s.rank >= 0) {
		r->axes = rank;
		r->e = k->e;
	}
	return HT_OK;
}

static int64_t padded(struct ht_infer *in, int64_t dim, int64_t more)
{
	return dim < 0 && more >= 0 ? ht_dim_derived(in->g, dim, more, 1) : ht_dim_add(dim, more);
}

/* Paddings that a Pack makes of a row for each of `rank` axes, of which some may be known; false: they are none. */
static bool packed_rows(
	struct ht_infer *in, const struct ht_node *n, int32_t rank, struct ht_elem *e)
{
	const struct ht_node *p = n->in[1].node;

	if (p->op != HT_OP_Pack || ht_attr_int(p, "axis", 0) != 0 || p->ins != rank ||
		rank > HT_MAX_RANK)
		return false;
	for (int32_t i = 0; i < rank; i++) {
		const struct ht_known *k = ht_in_known(in, p, i);

		for (int j = 0; j < 2; j++)
			e[2 * i + j] = k && k->n == 2 ? k->e[j]
						      : (struct ht_elem){ .kind = HT_ELEM_UNKNOWN };
	}
	return true;
}

static enum ht_status pad_shapes(struct ht_infer *in, struct ht_node *n, bool mirror, bool reflect)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_elem row[2 * HT_MAX_RANK];
	struct by_rows r;

	HT_TRY(begin_by_rows(in, n, 2, &r));
	if (!r.axes && s.rank > 0 && packed_rows(in, n, s.rank, row)) {
		r.axes = s.rank;
		r.e = row;
	}
	for (int32_t i = 0; i < r.axes; i++) {
		const struct ht_elem *e = &r.e[2 * i];

		for (int j = 0; j < 2; j++) {
			if (e[j].kind != HT_ELEM_INT)
				continue;
			if (e[j].i < 0)
				return ht_infer_fail(
					in, n, "padding %lld is negative", (long long)e[j].i);
			if (mirror && s.dim[i] >= 0 && e[j].i > s.dim[i] - reflect)
				return ht_infer_fail(in, n,
					"padding %lld is too large to mirror %.*s",
					(long long)e[j].i, HT_STR_ARG(ht_shape_text(in, s)));
		}
		if (e[0].kind != HT_ELEM_INT || e[1].kind != HT_ELEM_INT)
			continue;
		r.d[i] = e[0].i == 0 && e[1].i == 0
				 ? s.dim[i]
				 : padded(in, s.dim[i], ht_dim_add(e[0].i, e[1].i));
	}
	return HT_OK;
}

enum ht_status ht_infer_pad(struct ht_infer *in, struct ht_node *n)
{
	return pad_shapes(in, n, false, false);
}

enum ht_status ht_infer_mirror_pad(struct ht_infer *in, struct ht_node *n)
{
	return pad_shapes(in, n, true, ht_str_is(ht_attr_str(n, "mode", ""), "REFLECT"));
}

/* The padding is removed. */
enum ht_status ht_infer_mirror_pad_grad(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct by_rows r;

	HT_TRY(begin_by_rows(in, n, 2, &r));
	for (int32_t i = 0; i < r.axes; i++) {
		const struct ht_elem *e = &r.e[2 * i];

		if (e[0].kind != HT_ELEM_INT || e[1].kind != HT_ELEM_INT)
			continue;
		if (e[0].i < 0 || e[1].i < 0 ||
			(s.dim[i] >= 0 && (e[0].i > s.dim[i] || e[1].i > s.dim[i] - e[0].i)))
			return ht_infer_fail(in, n, "paddings of %lld and %lld do not fit %.*s",
				(long long)e[0].i, (long long)e[1].i,
				HT_STR_ARG(ht_shape_text(in, s)));
		if (e[0].i == 0 && e[1].i == 0)
			r.d[i] = s.dim[i];
		else if (s.dim[i] >= 0)
			r.d[i] = s.dim[i] - e[0].i - e[1].i;
	}
	return HT_OK;
}

enum ht_status ht_infer_tile(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct by_rows r;

	HT_TRY(begin_by_rows(in, n, 1, &r));
	for (int32_t i = 0; i < r.axes; i++) {
		if (r.e[i].kind == HT_ELEM_INT && r.e[i].i < 0)
			return ht_infer_fail(
				in, n, "multiple %lld is negative", (long long)r.e[i].i);
		r.d[i] = ht_dim_mul(in, s.dim[i], ht_elem_dim(&r.e[i]));
	}
	return HT_OK;
}
