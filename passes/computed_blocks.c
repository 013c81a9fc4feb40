/* Blocks of pixels that become channels or rows, and back, over open axes, for pass sizes: they are reshapes and transposes, which have rules of
 * open sizes. */
#include "passes/computed_nodes.h"

#include <string.h>

/* A tensor as the product of its extents, with axes that are divided. */
struct divided {
	struct ht_value size[HT_MAX_RANK];
	int32_t rank;
};

static void add(struct divided *d, struct ht_value size)
{
	d->size[d->rank++] = size;
}

static struct ht_value known(struct maker *f, int64_t x)
{
	return whole(f, HT_I64, x);
}

static struct ht_value times(struct maker *f, struct ht_value x, int64_t by)
{
	return by == 1 ? x : binary(f, HT_OP_Mul, x, known(f, by));
}

/* The run stops where `by` does not divide the extent: the reshape checks the number of elements. */
static struct ht_value over(struct maker *f, struct ht_value x, int64_t by)
{
	return by == 1 ? x : binary(f, HT_OP_FloorDiv, x, known(f, by));
}

static struct ht_value shaped(struct maker *f, struct ht_value x, const struct divided *to)
{
	enum ht_dtype t = ht_type_of(x)->dtype;
	struct ht_value in[2] = { x, packed(f, to->size, to->rank) };

	return node(f, HT_OP_Reshape, in, 2, t, open_shape(f, to->rank));
}

static struct ht_value ordered(
	struct maker *f, struct ht_value x, const int64_t *order, int32_t rank)
{
	struct ht_value v;

	x.node->out[0].shape = open_shape(f, rank);
	v = permuted(f, x, order);
	v.node->out[0].shape = open_shape(f, rank);
	return v;
}

/* ---- blocks and channels ---- */

static bool is_image(const struct ht_node *n)
{
	return ht_in_shape(n, 0).rank == 4 && ht_in_shape(n, 0).dim[3] >= 0 &&
	       ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC");
}

static bool expand_channels(struct maker *f, struct ht_node *n)
{
	static const int64_t order[6] = { 0, 1, 3, 2, 4, 5 };
	const bool to_depth = n->op == HT_OP_SpaceToDepth;
	const int64_t block = ht_attr_int(n, "block_size", 1), c = ht_in_shape(n, 0).dim[3];
	struct divided in = { .rank = 0 }, out = { .rank = 0 };
	struct ht_value rows = extent(f, n, 0, 1), columns = extent(f, n, 0, 2);

	if (block < 1 || (!to_depth && c % (block * block)))
		return false;
	add(&in, extent(f, n, 0, 0));
	add(&out, in.size[0]);
	add(&in, to_depth ? over(f, rows, block) : rows);
	add(&out, to_depth ? in.size[1] : times(f, rows, block));
	add(&in, to_depth ? known(f, block) : columns);
	add(&in, to_depth ? over(f, columns, block) : known(f, block));
	add(&out, to_depth ? in.size[3] : times(f, columns, block));
	add(&in, known(f, block));
	add(&in, known(f, to_depth ? c : c / (block * block)));
	add(&out, known(f, to_depth ? c * block * block : c / (block * block)));
	ht_rw_take_place(f->r, n, shaped(f, ordered(f, shaped(f, n->in[0], &in), order, 6), &out));
	return true;
}

/* ---- blocks and rows of a batch ---- */

struct blocks {
	int64_t size[HT_MAX_RANK];
	int32_t axes, rank;
	int64_t all; /* their product */
};

static bool read_blocks(const struct ht_node *n, struct blocks *b)
{
	int count;

	b->rank = ht_in_shape(n, 0).rank;
	b->all = 1;
	if (!ht_const_small_ints(n->in[1], b->size, HT_MAX_RANK, &count) || count < 1 ||
		count >= b->rank || b->rank + count > HT_OPEN_RANK)
		return false;
	b->axes = count;
	for (int i = 0; i < count; i++) {
		if (b->size[i] < 1 || b->size[i] > INT32_MAX / b->all)
			return false;
		b->all *= b->size[i];
	}
	return true;
}

/* Paddings of all axes: those of the blocks' are operand 2, the others are 0. */
static struct ht_value all_paddings(
	struct maker *f, const struct ht_node *n, const struct blocks *b)
{
	const int64_t none[2 * HT_MAX_RANK] = { 0 };
	const int64_t first[2] = { 1, 2 }, last[2] = { b->rank - b->axes - 1, 2 };
	struct ht_value part[4];
	int32_t parts = 0;

	part[parts++] =
		reshaped(f, wholes(f, HT_I64, none, 2), ht_shape_make(f->r->g->arena, 2, first));
	part[parts++] = wide(f, n->in[2]);
	if (last[0])
		part[parts++] = reshaped(f, wholes(f, HT_I64, none, 2 * last[0]),
			ht_shape_make(f->r->g->arena, 2, last));
	return joined(f, part, parts, 0);
}

/* The image is padded first; its extents are known when types are inferred again. */
static bool pad_first(struct maker *f, struct ht_node *n, const struct blocks *b)
{
	const int64_t dim[2] = { b->axes, 2 };
	const int64_t none[2 * HT_MAX_RANK] = { 0 };
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value in[2] = { n->in[0] }, v;
	int64_t pad[2 * HT_MAX_RANK];
	bool some = false;
	int count;

	if (ht_const_small_ints(n->in[2], pad, 2 * HT_MAX_RANK, &count)) {
		for (int i = 0; i < count; i++)
			some = some || pad[i];
		if (!some)
			return false;
	}
	in[1] = all_paddings(f, n, b);
	v = node(f, HT_OP_Pad, in, 2, t, open_shape(f, b->rank));
	ht_rw_set_in(f->r, n, 0, v);
	ht_rw_set_in(f->r, n, 2,
		reshaped(f, wholes(f, HT_I64, none, 2 * dim[0]),
			ht_shape_make(f->r->g->arena, 2, dim)));
	ht_attr_set_type(n, "Tpaddings", HT_I64);
	return true;
}

/* If axis `axis` of the operand is open, the reshape to `x` computes its extent divided by the block, as axis `at`. */
static void take_divided(struct maker *f, const struct ht_node *n, int32_t axis, struct ht_value x,
	int32_t at, struct ht_value *size)
{
	if (ht_in_shape(n, 0).dim[axis] < 0)
		*size = element(f, shape_of(f, x, HT_I64), at);
}

static bool expand_to_batch(struct maker *f, struct ht_node *n)
{
	struct divided in = { .rank = 0 }, out = { .rank = 0 };
	int64_t order[HT_MAX_RANK];
	struct ht_value x;
	struct blocks b;
	int32_t rank;

	if (!read_blocks(n, &b))
		return false;
	if (pad_first(f, n, &b))
		return true;
	for (int32_t i = 1; i <= b.axes; i++)
		if (b.size[i - 1] > 1 && ht_flatten(f, n, 0, i))
			return true; /* the rest when the types are known again */
	add(&in, extent(f, n, 0, 0));
	add(&out, times(f, in.size[0], b.all));
	for (int32_t i = 0; i < b.axes; i++) {
		add(&out, over(f, extent(f, n, 0, 1 + i), b.size[i]));
		add(&in, out.size[1 + i]);
		add(&in, known(f, b.size[i]));
		order[i] = 2 + 2 * i;
		order[b.axes + 1 + i] = 1 + 2 * i;
	}
	order[b.axes] = 0;
	for (int32_t i = 1 + b.axes; i < b.rank; i++) {
		order[in.rank] = in.rank;
		add(&in, extent(f, n, 0, i));
		add(&out, in.size[in.rank - 1]);
	}
	rank = in.rank;
	x = shaped(f, n->in[0], &in);
	for (int32_t i = 1; i <= b.axes; i++)
		take_divided(f, n, i, x, 2 * i - 1, &out.size[i]);
	ht_rw_take_place(f->r, n, shaped(f, ordered(f, x, order, rank), &out));
	return true;
}

/* The part of `x` that is left when operand 2 says how much to cut off at both ends of each axis of the blocks. */
static struct ht_value cropped(struct maker *f, const struct ht_node *n, const struct blocks *b,
	struct ht_value x, const struct divided *all)
{
	enum ht_dtype t = n->out[0].dtype;
	struct ht_value begin[HT_MAX_RANK], left[HT_MAX_RANK], in[3] = { x };
	struct ht_value crops = wide(f, n->in[2]);
	const int64_t flat = 2 * (int64_t)b->axes;

	crops = reshaped(f, crops, ht_shape_make(f->r->g->arena, 1, &flat));
	for (int32_t i = 0; i < b->rank; i++) {
		bool cut = i >= 1 && i <= b->axes;

		begin[i] = cut ? element(f, crops, 2 * (i - 1)) : known(f, 0);
		left[i] = all->size[i];
		if (cut)
			left[i] = binary(f, HT_OP_Sub, left[i],
				binary(f, HT_OP_AddV2, begin[i], element(f, crops, 2 * i - 1)));
	}
	in[1] = packed(f, begin, b->rank);
	in[2] = packed(f, left, b->rank);
	return node(f, HT_OP_Slice, in, 3, t, open_shape(f, b->rank));
}

/* Whether a reshape joins blocks, the outermost, and what was the first axis. */
static bool joins_blocks(const struct ht_node *n)
{
	const struct ht_node *t = n->in[0].node;
	int64_t order[HT_MAX_RANK];
	int count;

	return t->op == HT_OP_Transpose &&
	       ht_const_small_ints(t->in[1], order, HT_MAX_RANK, &count) && count > 1 && order[0];
}

/* The operand that has the first axis of the result of such an op; -1: none. */
static int32_t of_images(const struct ht_node *n)
{
	int64_t axis = 0;
	int count;

	if (ht_is(n, HT_CONV | HT_DEPTHWISE) || n->op == HT_OP_BiasAdd)
		return 0;
	if (ht_is(n, HT_CONV_TRANSPOSE) || n->op == HT_OP_DepthwiseConv2dNativeBackpropInput)
		return 2;
	if (n->op == HT_OP_ExpandDims)
		return ht_const_small_ints(n->in[1], &axis, 1, &count) && axis != 0 &&
				       axis != -ht_in_shape(n, 0).rank - 1
			       ? 0
			       : -1;
	if (n->op == HT_OP_Squeeze)
		return 0;
	if (!ht_is(n, HT_ELEMENTWISE) || !n->ins)
		return -1;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_in_shape(n, i).rank == n->out[0].shape.rank && !ht_is_const(n->in[i]))
			return i;
	return -1;
}

/* Whether the first axis has blocks as SpaceToBatchND put them there, the outermost, as far as some nodes tell.  The rule of the reshape that
 * takes them apart refuses others. */
static bool has_blocks_outside(struct ht_value v)
{
	enum { LOOKED_AT = 64 };

	for (int i = 0; i < LOOKED_AT; i++) {
		int32_t of;

		if (v.node->op == HT_OP_SpaceToBatchND)
			return true;
		if (v.node->op == HT_OP_Reshape)
			return joins_blocks(v.node);
		of = of_images(v.node);
		if (of < 0)
			return false;
		v = v.node->in[of];
	}
	return false;
}

/* The extent of the first axis divided by `all`, if it is so often a size that some tensor has; so the result has that size again, and no
 * node computes it. */
static bool whole_quotient(
	struct maker *f, const struct ht_node *n, int64_t all, struct ht_value *quotient)
{
	const struct ht_size_expr e = ht_dim_of_sizes(f->r->g, ht_in_shape(n, 0).dim[0]);
	struct ht_value of;
	int32_t k;

	if (ht_size_count(&e) != 1 || e.times % all || !has_blocks_outside(n->in[0]))
		return false;
	k = axis_with(f, f->r->g->library->size[e.size[0] - 1].dim, &of);
	if (k < 0)
		return false;
	*quotient = times(f, element(f, shape_of(f, of, HT_I64), k), e.times / all);
	return true;
}

static bool expand_from_batch(struct maker *f, struct ht_node *n)
{
	struct divided in = { .rank = 0 }, out = { .rank = 0 };
	int64_t order[HT_MAX_RANK];
	struct blocks b;
	struct ht_value x, images = { 0 };
	int32_t to = 0;

	if (!read_blocks(n, &b))
		return false;
	if (!whole_quotient(f, n, b.all, &images) && ht_flatten(f, n, 0, 0))
		return true;
	for (int32_t i = 0; i < b.axes; i++)
		add(&in, known(f, b.size[i]));
	for (int32_t i = 0; i < b.rank; i++) {
		bool cut = i >= 1 && i <= b.axes;

		x = extent(f, n, 0, i);
		order[to++] = b.axes + i;
		if (cut)
			order[to++] = i - 1;
		add(&in, i ? x : images.node ? images : over(f, x, b.all));
		add(&out, cut ? times(f, x, b.size[i - 1]) : in.size[in.rank - 1]);
	}
	x = shaped(f, n->in[0], &in);
	if (!images.node)
		take_divided(f, n, 0, x, b.axes, &out.size[0]);
	x = shaped(f, ordered(f, x, order, in.rank), &out);
	ht_rw_take_place(f->r, n, cropped(f, n, &b, x, &out));
	return true;
}

/* ---- every node ---- */

bool ht_has_open_blocks(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_SpaceToDepth:
	case HT_OP_DepthToSpace:
		return is_image(n) && is_bounded_shape(g, ht_in_shape(n, 0)) &&
		       !ht_shape_known(ht_in_shape(n, 0));
	case HT_OP_SpaceToBatchND:
	case HT_OP_BatchToSpaceND:
		return is_bounded_shape(g, ht_in_shape(n, 0)) &&
		       (!ht_shape_known(ht_in_shape(n, 0)) || !ht_shape_known(n->out[0].shape));
	default:
		return false;
	}
}

bool ht_expand_blocks(struct maker *f, struct ht_node *n)
{
	if (!ht_has_open_blocks(f->r->g, n))
		return false;
	if (n->op == HT_OP_SpaceToBatchND)
		return expand_to_batch(f, n);
	return n->op == HT_OP_BatchToSpaceND ? expand_from_batch(f, n) : expand_channels(f, n);
}
