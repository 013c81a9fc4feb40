/* Ops that only move elements: where each element of the result comes from. */
#include "passes/lower/lower.h"

#include <string.h>

/* Integers of a constant operand; the refuse functions make sure that it is one. */
static int64_t *ints(struct ht_arena *a, const struct ht_node *n, int arg, size_t *count)
{
	int64_t *p = NULL;

	HT_CHECK(ht_const_ints(n->in[arg], a, &p, count));
	return p;
}

static bool is_const_ints(const struct ht_node *n, int arg)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[arg]);

	return t && (t->dtype == HT_I32 || t->dtype == HT_I64 || t->dtype == HT_I16);
}

static const char *refuse_unless_const(const struct ht_node *n, int first)
{
	for (int i = first; i < n->ins; i++)
		if (!is_const_ints(n, i))
			return "needs constant sizes and positions";
	return NULL;
}

static struct ht_shape shape_of(const struct ht_node *n, int arg)
{
	return ht_type_of(n->in[arg])->shape;
}

static int32_t pull_at(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *like,
	const int32_t *x)
{
	struct ht_shape s = shape_of(n, arg);
	struct space at = space_of_coords(like, s.rank, s.dim, x);

	return kb_pull(k, n->in[arg], &at);
}

static int32_t add(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_x2(b, HT_X_ADD, x, ht_xi(b, i));
}

static int32_t mul(struct ht_xb *b, int32_t x, int64_t i)
{
	return ht_x2(b, HT_X_MUL, x, ht_xi(b, i));
}

/* ---- identity, reshape ---- */

static int32_t pull_identity(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	return kb_operand(k, n, out, s);
}

static bool view_identity(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	*v = *in;
	return out == 0 && n->outs == 1;
}

const struct lower_op lower_identity = { .name = "identity", .family = FAMILY_VIEW, .aligned = true,
	.pull = pull_identity, .view = view_identity };
const struct lower_op lower_nothing = { .name = "nothing", .family = FAMILY_NOTHING };

static int32_t pull_reshape(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape shape = shape_of(n, 0);
	struct space at = space_reshape(&k->xb, s, shape.rank, shape.dim);

	(void)out;
	return kb_pull(k, n->in[0], &at);
}

static bool view_reshaped(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	return view_reshape(in, n->out[out].shape.rank, n->out[out].shape.dim, v);
}

const struct lower_op lower_reshape = { .name = "reshape", .family = FAMILY_VIEW, .pull = pull_reshape,
	.view = view_reshaped };

/* ---- transpose ---- */

static int32_t pull_transpose(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	size_t rank;
	int64_t *perm = ints(k->l->scratch, n, 1, &rank);
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (size_t i = 0; i < rank; i++)
		x[perm[i] < 0 ? perm[i] + (int64_t)rank : perm[i]] = space_coord(&k->xb, s, (int32_t)i);
	return pull_at(k, n, 0, s, x);
}

/* A view keeps the innermost dimension where it is, so that vectors stay vectors. */
static bool view_transpose(const struct ht_node *n, int out, const struct view *in, struct view *v)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	int64_t perm[HT_LOWER_RANK];
	int32_t rank = in->rank;

	for (int32_t i = 0; i < rank; i++) {
		perm[i] = t->dtype == HT_I32 ? ((const int32_t *)t->blob->p)[i] : ((const int64_t *)t->blob->p)[i];
		if (perm[i] < 0)
			perm[i] += rank;
	}
	(void)out;
	*v = *in;
	for (int32_t i = 0; i < rank; i++) {
		v->dim[i] = in->dim[perm[i]];
		v->stride[i] = in->stride[perm[i]];
	}
	return rank == 0 || v->stride[rank - 1] == 1 || v->dim[rank - 1] == 1;
}

static const char *refuse_transpose(const struct ht_node *n)
{
	return refuse_unless_const(n, 1);
}

const struct lower_op lower_transpose = { .name = "transpose", .family = FAMILY_VIEW, .pull = pull_transpose,
	.view = view_transpose, .refuse = refuse_transpose };

/* ---- slices: result coordinate c of dimension i is operand coordinate first + c * step ---- */

struct cut {
	int32_t rank;                     /* of the operand */
	int64_t first[HT_LOWER_RANK], step[HT_LOWER_RANK];
	int32_t from[HT_LOWER_RANK];      /* result dimension that runs here; -1: none (taken at first) */
};

static int32_t pull_cut(struct kernel_build *k, const struct ht_node *n, int arg, const struct space *s,
	const struct cut *c)
{
	int32_t x[HT_LOWER_RANK];

	for (int32_t i = 0; i < c->rank; i++) {
		x[i] = ht_xi(&k->xb, c->first[i]);
		if (c->from[i] >= 0)
			x[i] = add(&k->xb, mul(&k->xb, space_coord(&k->xb, s, c->from[i]), c->step[i]), c->first[i]);
	}
	return pull_at(k, n, arg, s, x);
}

static bool view_cut(const struct ht_node *n, int out, const struct view *in, const struct cut *c, struct view *v)
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
	}
	*v = r;
	return view_count(v) > 0 && (r.rank == 0 || r.stride[r.rank - 1] == 1 || r.dim[r.rank - 1] == 1);
}

static void cut_all(const struct ht_node *n, int arg, struct cut *c)
{
	*c = (struct cut){ .rank = shape_of(n, arg).rank };
	for (int32_t i = 0; i < c->rank; i++) {
		c->step[i] = 1;
		c->from[i] = i;
	}
}

/* Slice */

static void cut_slice(const struct ht_node *n, int out, struct cut *c)
{
	const struct ht_tensor *begin = ht_const_tensor(n->in[1]);

	(void)out;
	cut_all(n, 0, c);
	for (int32_t i = 0; i < c->rank; i++)
		c->first[i] = ht_tensor_int(begin, (size_t)i);
}

/* StridedSlice.  Follows the masks dimension by dimension, as TensorFlow documents them. */

struct strided {
	const struct ht_node *n;
	int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask;
	int32_t specs;
};

static void cut_strided_dim(const struct strided *p, int32_t spec, int64_t size, int32_t dim, int32_t to,
	struct cut *c)
{
	int64_t begin = ht_tensor_int(ht_const_tensor(p->n->in[1]), (size_t)spec);
	int64_t step = ht_tensor_int(ht_const_tensor(p->n->in[3]), (size_t)spec);

	if (begin < 0)
		begin += size;
	if (p->shrink_mask >> spec & 1) {
		c->first[dim] = begin;
		c->from[dim] = -1;
		return;
	}
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

static void cut_strided_slice(const struct ht_node *n, int out, struct cut *c)
{
	struct strided p = { n, ht_attr_int(n, "begin_mask", 0), ht_attr_int(n, "end_mask", 0),
		ht_attr_int(n, "ellipsis_mask", 0), ht_attr_int(n, "new_axis_mask", 0),
		ht_attr_int(n, "shrink_axis_mask", 0), (int32_t)shape_of(n, 1).dim[0] };
	int32_t dim = 0, to = 0, named = 0;
	bool ellipsis_seen = false;

	(void)out;
	cut_all(n, 0, c);
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
			cut_strided_dim(&p, i, shape_of(n, 0).dim[dim], dim, to, c);
			to += c->from[dim++] >= 0;
		}
	}
	while (dim < c->rank)
		c->from[dim++] = to++;
}

/* Split, SplitV, Unpack */

static int32_t axis_of(int64_t axis, int32_t rank)
{
	return (int32_t)(axis < 0 ? axis + rank : axis);
}

static void cut_split(const struct ht_node *n, int out, struct cut *c)
{
	int arg = n->op == HT_OP_Split ? 1 : 0, axis_arg = n->op == HT_OP_Split ? 0 : 2;
	int32_t axis;

	cut_all(n, arg, c);
	axis = axis_of(ht_tensor_int(ht_const_tensor(n->in[axis_arg]), 0), c->rank);
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

#define CUT_OP(op, operand, refusal)                                                                    \
	static int32_t pull_##op(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s) \
	{                                                                                               \
		struct cut c;                                                                           \
		cut_##op(n, out, &c);                                                                   \
		return pull_cut(k, n, operand, s, &c);                                                  \
	}                                                                                               \
	static bool view_##op(const struct ht_node *n, int out, const struct view *in, struct view *v)  \
	{                                                                                               \
		struct cut c;                                                                           \
		cut_##op(n, out, &c);                                                                   \
		return view_cut(n, out, in, &c, v);                                                     \
	}                                                                                               \
	const struct lower_op lower_##op = { .name = #op, .family = FAMILY_VIEW, .pull = pull_##op,      \
		.view = view_##op, .refuse = refusal }

static const char *refuse_after_first(const struct ht_node *n)
{
	return refuse_unless_const(n, 1);
}

CUT_OP(slice, 0, refuse_after_first);
CUT_OP(strided_slice, 0, refuse_after_first);
CUT_OP(unpack, 0, NULL);

static const char *refuse_split(const struct ht_node *n)
{
	return is_const_ints(n, 0) ? NULL : "needs a constant axis";
}

/* Split has its operand second, SplitV first. */
static int32_t pull_split(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
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

const struct lower_op lower_split = { .name = "split", .family = FAMILY_VIEW, .pull = pull_split,
	.view = view_split, .view_arg = 1, .refuse = refuse_split };
const struct lower_op lower_split_v = { .name = "split_v", .family = FAMILY_VIEW, .pull = pull_split,
	.view = view_split, .view_arg = 0, .refuse = refuse_after_first };

/* ---- padding ---- */

static int32_t pull_pad(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	const struct ht_tensor *pads = ht_const_tensor(n->in[1]);
	struct ht_shape in = shape_of(n, 0);
	enum ht_dtype t = compute_type(n->out[0].dtype);
	int32_t x[HT_LOWER_RANK], inside = -1, fill, value;
	struct space at;

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		int64_t before = ht_tensor_int(pads, 2 * (size_t)i);
		x[i] = add(b, space_coord(b, s, i), -before);
		if (before > 0) {
			int32_t ok = ht_x2(b, HT_X_LE, ht_xi(b, 0), x[i]);
			inside = inside < 0 ? ok : ht_x2(b, HT_X_AND, inside, ok);
		}
		if (in.dim[i] + before < s->dim[i]) {
			int32_t ok = ht_x2(b, HT_X_LT, x[i], ht_xi(b, in.dim[i]));
			inside = inside < 0 ? ok : ht_x2(b, HT_X_AND, inside, ok);
		}
	}
	at = space_of_coords(s, in.rank, in.dim, x);
	if (inside < 0)
		return kb_pull(k, n->in[0], &at);
	space_and_guard(b, &at, inside);
	value = kb_pull(k, n->in[0], &at);
	fill = ht_xconst(b, t, 0, 0);
	if (n->op == HT_OP_PadV2) {
		struct space scalar = space_of_coords(s, 0, NULL, NULL);
		fill = kb_pull(k, n->in[2], &scalar);
	}
	return ht_xselect(b, inside, value, fill);
}

/* Reflected coordinates: at the edge element itself, or (SYMMETRIC) repeating it. */
static int32_t pull_mirror_pad(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	const struct ht_tensor *pads = ht_const_tensor(n->in[1]);
	int64_t repeat = ht_str_is(ht_attr_str(n, "mode", "REFLECT"), "SYMMETRIC");
	struct ht_shape in = shape_of(n, 0);
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		int32_t c = add(b, space_coord(b, s, i), -ht_tensor_int(pads, 2 * (size_t)i));
		int32_t low = ht_x2(b, HT_X_SUB, ht_xi(b, -repeat), c);
		int32_t high = ht_x2(b, HT_X_SUB, ht_xi(b, 2 * in.dim[i] - 2 + repeat), c);
		c = ht_xselect(b, ht_x2(b, HT_X_LT, c, ht_xi(b, 0)), low, c);
		x[i] = ht_xselect(b, ht_x2(b, HT_X_LE, ht_xi(b, in.dim[i]), c), high, c);
	}
	return pull_at(k, n, 0, s, x);
}

static int32_t pull_any_pad(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	return (n->op == HT_OP_MirrorPad ? pull_mirror_pad : pull_pad)(k, n, out, s);
}

static const char *refuse_pad(const struct ht_node *n)
{
	return is_const_ints(n, 1) ? NULL : "needs constant paddings";
}

const struct lower_op lower_pad = { .name = "pad", .family = FAMILY_MAP, .pull = pull_any_pad, .refuse = refuse_pad };

/* ---- repetition ---- */

static int32_t pull_tile(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape in = shape_of(n, 0);
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i < in.rank; i++) {
		x[i] = space_coord(&k->xb, s, i);
		if (in.dim[i] != s->dim[i])
			x[i] = ht_x2(&k->xb, HT_X_FLOORMOD, x[i], ht_xi(&k->xb, in.dim[i]));
	}
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_tile = { .name = "tile", .family = FAMILY_MAP, .pull = pull_tile };

static int32_t pull_broadcast(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return kb_operand(k, n, 0, s);
}

const struct lower_op lower_broadcast = { .name = "broadcast", .family = FAMILY_MAP, .pull = pull_broadcast };

/* ---- reversal, blocks ---- */

static int32_t pull_reverse(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	struct ht_shape in = shape_of(n, 0);
	bool turned[HT_LOWER_RANK] = { false };
	int32_t x[HT_LOWER_RANK];

	(void)out;
	for (int64_t i = 0, count = ht_shape_count(t->shape); i < count; i++) {
		if (t->dtype == HT_BOOL)
			turned[i] = ((const uint8_t *)t->blob->p)[i] != 0;
		else
			turned[axis_of(ht_tensor_int(t, (size_t)i), in.rank)] = true;
	}
	for (int32_t i = 0; i < in.rank; i++) {
		x[i] = space_coord(&k->xb, s, i);
		if (turned[i])
			x[i] = ht_x2(&k->xb, HT_X_SUB, ht_xi(&k->xb, in.dim[i] - 1), x[i]);
	}
	return pull_at(k, n, 0, s, x);
}

static const char *refuse_reverse(const struct ht_node *n)
{
	return ht_const_tensor(n->in[1]) ? NULL : "needs constant axes";
}

const struct lower_op lower_reverse = { .name = "reverse", .family = FAMILY_MAP, .pull = pull_reverse,
	.refuse = refuse_reverse };

static const char *refuse_unless_nhwc(const struct ht_node *n)
{
	return ht_str_is(ht_attr_str(n, "data_format", "NHWC"), "NHWC") ? NULL : "has no kernel for this data_format";
}

static int32_t quotient(struct ht_xb *b, int32_t x, int64_t by)
{
	return ht_x2(b, HT_X_FLOORDIV, x, ht_xi(b, by));
}

static int32_t remainder_of(struct ht_xb *b, int32_t x, int64_t by)
{
	return ht_x2(b, HT_X_FLOORMOD, x, ht_xi(b, by));
}

/* r[n, h, w, c] = x[n, h / b, w / b, ((h % b) * b + w % b) * C + c] */
static int32_t pull_depth_to_space(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int64_t block = ht_attr_int(n, "block_size", 2);
	int32_t c[4], x[4];

	(void)out;
	for (int32_t i = 0; i < 4; i++)
		c[i] = space_coord(b, s, i);
	x[0] = c[0];
	x[1] = quotient(b, c[1], block);
	x[2] = quotient(b, c[2], block);
	x[3] = ht_x2(b, HT_X_ADD, mul(b, remainder_of(b, c[1], block), block), remainder_of(b, c[2], block));
	x[3] = ht_x2(b, HT_X_ADD, mul(b, x[3], s->dim[3]), c[3]);
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_depth_to_space = { .name = "depth_to_space", .family = FAMILY_MAP,
	.pull = pull_depth_to_space, .refuse = refuse_unless_nhwc };

/* r[n, h, w, (i * b + j) * C + c] = x[n, h * b + i, w * b + j, c] */
static int32_t pull_space_to_depth(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int64_t block = ht_attr_int(n, "block_size", 2), depth = shape_of(n, 0).dim[3];
	int32_t c[4], x[4], within;

	(void)out;
	for (int32_t i = 0; i < 4; i++)
		c[i] = space_coord(b, s, i);
	within = quotient(b, c[3], depth);
	x[0] = c[0];
	x[1] = ht_x2(b, HT_X_ADD, mul(b, c[1], block), quotient(b, within, block));
	x[2] = ht_x2(b, HT_X_ADD, mul(b, c[2], block), remainder_of(b, within, block));
	x[3] = remainder_of(b, c[3], depth);
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_space_to_depth = { .name = "space_to_depth", .family = FAMILY_MAP,
	.pull = pull_space_to_depth, .refuse = refuse_unless_nhwc };

/* The batch of a block op: (position within the blocks, row-major) * batch + n. */
struct blocks {
	int32_t count; /* spatial dimensions */
	int64_t size[HT_LOWER_RANK], before[HT_LOWER_RANK];
};

static void read_blocks(const struct ht_node *n, struct blocks *k)
{
	bool listed = n->op == HT_OP_SpaceToBatchND || n->op == HT_OP_BatchToSpaceND;
	const struct ht_tensor *pads = ht_const_tensor(n->in[listed ? 2 : 1]);

	k->count = listed ? (int32_t)shape_of(n, 1).dim[0] : 2;
	for (int32_t i = 0; i < k->count; i++) {
		k->size[i] = listed ? ht_tensor_int(ht_const_tensor(n->in[1]), (size_t)i) : ht_attr_int(n, "block_size", 2);
		k->before[i] = ht_tensor_int(pads, 2 * (size_t)i);
	}
}

static int32_t pull_space_to_batch(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	struct blocks blocks;
	int32_t x[HT_LOWER_RANK], batch = space_coord(b, s, 0), within, inside = -1;
	struct space at;
	int32_t value;

	(void)out;
	read_blocks(n, &blocks);
	for (int32_t i = 0; i < in.rank; i++)
		x[i] = space_coord(b, s, i);
	within = quotient(b, batch, in.dim[0]);
	x[0] = remainder_of(b, batch, in.dim[0]);
	for (int32_t i = blocks.count - 1; i >= 0; i--) {
		int32_t low, high;
		x[i + 1] = add(b, ht_x2(b, HT_X_ADD, mul(b, x[i + 1], blocks.size[i]), remainder_of(b, within, blocks.size[i])),
			-blocks.before[i]);
		within = quotient(b, within, blocks.size[i]);
		low = ht_x2(b, HT_X_LE, ht_xi(b, 0), x[i + 1]);
		high = ht_x2(b, HT_X_LT, x[i + 1], ht_xi(b, in.dim[i + 1]));
		low = ht_x2(b, HT_X_AND, low, high);
		inside = inside < 0 ? low : ht_x2(b, HT_X_AND, inside, low);
	}
	at = space_of_coords(s, in.rank, in.dim, x);
	space_and_guard(b, &at, inside);
	value = kb_pull(k, n->in[0], &at);
	return ht_xselect(b, inside, value, ht_xconst(b, compute_type(n->out[0].dtype), 0, 0));
}

static int32_t pull_batch_to_space(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	struct blocks blocks;
	int32_t x[HT_LOWER_RANK], within = ht_xi(b, 0);

	(void)out;
	read_blocks(n, &blocks);
	for (int32_t i = 0; i < in.rank; i++)
		x[i] = space_coord(b, s, i);
	for (int32_t i = 0; i < blocks.count; i++) {
		int32_t c = add(b, x[i + 1], blocks.before[i]);
		within = ht_x2(b, HT_X_ADD, mul(b, within, blocks.size[i]), remainder_of(b, c, blocks.size[i]));
		x[i + 1] = quotient(b, c, blocks.size[i]);
	}
	x[0] = ht_x2(b, HT_X_ADD, mul(b, within, s->dim[0]), x[0]);
	return pull_at(k, n, 0, s, x);
}

static const char *refuse_blocks(const struct ht_node *n)
{
	return refuse_unless_const(n, 1);
}

const struct lower_op lower_space_to_batch = { .name = "space_to_batch", .family = FAMILY_MAP,
	.pull = pull_space_to_batch, .refuse = refuse_blocks };
const struct lower_op lower_batch_to_space = { .name = "batch_to_space", .family = FAMILY_MAP,
	.pull = pull_batch_to_space, .refuse = refuse_blocks };

/* ---- gathering ---- */

/* An index (any integer type) checked against its dimension; outside, the kernel fails. */
static int32_t checked_index(struct kernel_build *k, struct ht_value v, const struct space *s, int64_t size)
{
	struct ht_xb *b = &k->xb;
	int32_t i = ht_xcvt(b, HT_I64, kb_pull(k, v, s));
	int32_t ok = ht_x2(b, HT_X_AND, ht_x2(b, HT_X_LE, ht_xi(b, 0), i), ht_x2(b, HT_X_LT, i, ht_xi(b, size)));

	if (s->guard >= 0) /* where nothing is asked for, anything is in range */
		i = ht_xselect(b, s->guard, i, ht_xi(b, 0)), ok = ht_x2(b, HT_X_OR, ok, ht_x1(b, HT_X_NOT, s->guard));
	return ht_xcheck(b, i, ok, HT_FAULT_INDEX);
}

/* r[batch.., outer.., index.., inner..] = params[batch.., outer.., indices[batch.., index..], inner..] */
static int32_t pull_gather(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape params = shape_of(n, 0), indices = shape_of(n, 1);
	int32_t batch_dims = axis_of(ht_attr_int(n, "batch_dims", 0), indices.rank), axis = 0;
	int32_t at[HT_LOWER_RANK], x[HT_LOWER_RANK], coord[HT_LOWER_RANK], index_rank;
	struct space index_space;

	(void)out;
	if (n->op == HT_OP_GatherV2)
		axis = axis_of(ht_tensor_int(ht_const_tensor(n->in[2]), 0), params.rank);
	index_rank = indices.rank - batch_dims;
	for (int32_t i = 0; i < s->rank; i++)
		coord[i] = space_coord(&k->xb, s, i);
	for (int32_t i = 0; i < batch_dims; i++)
		at[i] = coord[i];
	for (int32_t i = 0; i < index_rank; i++)
		at[batch_dims + i] = coord[axis + i];
	index_space = space_of_coords(s, indices.rank, indices.dim, at);
	for (int32_t i = 0; i < axis; i++)
		x[i] = coord[i];
	x[axis] = checked_index(k, n->in[1], &index_space, params.dim[axis]);
	for (int32_t i = axis + 1; i < params.rank; i++)
		x[i] = coord[i - 1 + index_rank];
	return pull_at(k, n, 0, s, x);
}

static const char *refuse_gather(const struct ht_node *n)
{
	if (n->op == HT_OP_GatherV2 && !is_const_ints(n, 2))
		return "needs a constant axis";
	return NULL;
}

const struct lower_op lower_gather = { .name = "gather", .family = FAMILY_MAP, .pull = pull_gather, .refuse = refuse_gather };

static int32_t pull_gather_nd(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_shape params = shape_of(n, 0), indices = shape_of(n, 1);
	int32_t depth = (int32_t)indices.dim[indices.rank - 1], x[HT_LOWER_RANK], at[HT_LOWER_RANK];

	(void)out;
	for (int32_t i = 0; i + 1 < indices.rank; i++)
		at[i] = space_coord(&k->xb, s, i);
	for (int32_t i = 0; i < depth; i++) {
		struct space index_space;
		at[indices.rank - 1] = ht_xi(&k->xb, i);
		index_space = space_of_coords(s, indices.rank, indices.dim, at);
		x[i] = checked_index(k, n->in[1], &index_space, params.dim[i]);
	}
	for (int32_t i = depth; i < params.rank; i++)
		x[i] = space_coord(&k->xb, s, indices.rank - 1 + i - depth);
	return pull_at(k, n, 0, s, x);
}

const struct lower_op lower_gather_nd = { .name = "gather_nd", .family = FAMILY_MAP, .pull = pull_gather_nd };

/* ---- made from indices ---- */

static int32_t pull_range(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = compute_type(n->out[0].dtype);
	struct space scalar = space_of_coords(s, 0, NULL, NULL);
	int32_t i = ht_xcvt(b, t, space_coord(b, s, 0)), start = kb_pull(k, n->in[0], &scalar);

	(void)out;
	return ht_x2(b, HT_X_ADD, start, ht_x2(b, HT_X_MUL, i, kb_pull(k, n->in[2], &scalar)));
}

static const char *refuse_range(const struct ht_node *n)
{
	return n->op == HT_OP_Range ? NULL : "has no kernel";
}

const struct lower_op lower_range = { .name = "range", .family = FAMILY_MAP, .pull = pull_range, .refuse = refuse_range };

/* r = on_value where the coordinate along axis is the index; indices out of range give rows of off_value. */
static int32_t pull_one_hot(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape indices = shape_of(n, 0);
	int64_t attr = ht_attr_int(n, "axis", -1);
	int32_t axis = (int32_t)(attr < 0 ? indices.rank : attr), x[HT_LOWER_RANK], i;
	struct space at, scalar = space_of_coords(s, 0, NULL, NULL);

	(void)out;
	for (int32_t d = 0; d < indices.rank; d++)
		x[d] = space_coord(b, s, d < axis ? d : d + 1);
	at = space_of_coords(s, indices.rank, indices.dim, x);
	i = ht_xcvt(b, HT_I64, kb_pull(k, n->in[0], &at));
	return ht_xselect(b, ht_x2(b, HT_X_EQ, i, space_coord(b, s, axis)), kb_pull(k, n->in[2], &scalar),
		kb_pull(k, n->in[3], &scalar));
}

const struct lower_op lower_one_hot = { .name = "one_hot", .family = FAMILY_MAP, .pull = pull_one_hot };

/* Known shapes are constants. */
static int32_t pull_shape(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	enum ht_dtype t = n->out[out].dtype;
	struct ht_shape in = shape_of(n, out);
	int32_t r;

	if (n->op == HT_OP_Size)
		return ht_xconst(b, t, 0, ht_shape_count(in));
	if (n->op == HT_OP_Rank)
		return ht_xconst(b, t, 0, in.rank);
	r = ht_xconst(b, t, 0, 0);
	for (int32_t i = 0; i < in.rank; i++)
		r = ht_xselect(b, ht_x2(b, HT_X_EQ, space_coord(b, s, 0), ht_xi(b, i)), ht_xconst(b, t, 0, in.dim[i]), r);
	return r;
}

const struct lower_op lower_shape = { .name = "shape", .family = FAMILY_MAP, .pull = pull_shape };

/* The inverse of a permutation: the position of the element equal to the coordinate. */
static int32_t pull_invert_permutation(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t c = space_coord(b, s, 0), r = ht_xi(b, 0);

	(void)out;
	for (int64_t i = 0; i < s->dim[0]; i++) {
		int32_t x = ht_xi(b, i);
		struct space at = space_of_coords(s, 1, s->dim, &x);
		r = ht_xselect(b, ht_x2(b, HT_X_EQ, ht_xcvt(b, HT_I64, kb_pull(k, n->in[0], &at)), c), x, r);
	}
	return ht_xcvt(b, n->out[0].dtype, r);
}

static const char *refuse_invert_permutation(const struct ht_node *n)
{
	return shape_of(n, 0).dim[0] <= 16 ? NULL : "has no kernel for more than 16 elements";
}

const struct lower_op lower_invert_permutation = { .name = "invert_permutation", .family = FAMILY_MAP,
	.pull = pull_invert_permutation, .refuse = refuse_invert_permutation };

/* ---- resizing ---- */

/* Size of a source pixel in target pixels, as TensorFlow computes it, in F32. */
static float resize_scale(const struct ht_node *n, int64_t in, int64_t out)
{
	if (ht_attr_bool(n, "align_corners", false) && out > 1)
		return (float)(in - 1) / (float)(out - 1);
	return (float)in / (float)out;
}

static int32_t source_position(struct kernel_build *k, const struct ht_node *n, int32_t c, int64_t in, int64_t out)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xcvt(b, HT_F32, c), scale = ht_xf(b, resize_scale(n, in, out));

	if (!ht_attr_bool(n, "half_pixel_centers", false))
		return ht_x2(b, HT_X_MUL, x, scale);
	x = ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_ADD, x, ht_xf(b, .5)), scale);
	return n->op == HT_OP_ResizeBilinear ? ht_x2(b, HT_X_SUB, x, ht_xf(b, .5)) : x;
}

static int32_t clamp(struct ht_xb *b, int32_t x, int64_t high)
{
	return ht_x2(b, HT_X_MAX, ht_xi(b, 0), ht_x2(b, HT_X_MIN, x, ht_xi(b, high)));
}

static int32_t pull_nearest(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	enum ht_xop round = ht_attr_bool(n, "align_corners", false) ? HT_X_END : HT_X_FLOOR;
	int32_t x[4];

	x[0] = space_coord(b, s, 0);
	x[3] = space_coord(b, s, 3);
	for (int32_t i = 1; i < 3; i++) {
		int32_t p = source_position(k, n, space_coord(b, s, i), in.dim[i], s->dim[i]);
		/* align_corners rounds half away from zero; positions are not negative */
		p = round == HT_X_END ? ht_x1(b, HT_X_FLOOR, ht_x2(b, HT_X_ADD, p, ht_xf(b, .5))) : ht_x1(b, round, p);
		x[i] = clamp(b, ht_xcvt(b, HT_I64, p), in.dim[i] - 1);
	}
	return pull_at(k, n, 0, s, x);
}

/* low + (high - low) * weight in x, then in y. */
static int32_t pull_bilinear(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape in = shape_of(n, 0);
	int32_t low[4], high[4], weight[4], row[2];

	for (int32_t i = 1; i < 3; i++) {
		int32_t p = source_position(k, n, space_coord(b, s, i), in.dim[i], s->dim[i]);
		int32_t f = ht_x1(b, HT_X_FLOOR, p), i64 = ht_xcvt(b, HT_I64, f);
		weight[i] = ht_x2(b, HT_X_SUB, p, f);
		low[i] = clamp(b, i64, in.dim[i] - 1);
		high[i] = clamp(b, add(b, i64, 1), in.dim[i] - 1);
	}
	for (int y = 0; y < 2; y++) {
		int32_t x[4] = { space_coord(b, s, 0), y ? high[1] : low[1], low[2], space_coord(b, s, 3) }, left, right;
		left = ht_xcvt(b, HT_F32, pull_at(k, n, 0, s, x));
		x[2] = high[2];
		right = ht_xcvt(b, HT_F32, pull_at(k, n, 0, s, x));
		row[y] = ht_x2(b, HT_X_ADD, left, ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_SUB, right, left), weight[2]));
	}
	return ht_x2(b, HT_X_ADD, row[0], ht_x2(b, HT_X_MUL, ht_x2(b, HT_X_SUB, row[1], row[0]), weight[1]));
}

static int32_t pull_resize(struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	(void)out;
	return n->op == HT_OP_ResizeBilinear ? pull_bilinear(k, n, s) : pull_nearest(k, n, s);
}

/* Bilinear resizing takes each element up to four times: only what is in memory. */
static bool resize_takes(const struct ht_node *n, int arg)
{
	(void)arg;
	return n->op != HT_OP_ResizeBilinear;
}

const struct lower_op lower_resize = { .name = "resize", .family = FAMILY_MAP, .pull = pull_resize, .takes = resize_takes };

/* ---- Concat, Pack: copies into parts of the result ---- */

static int concat_values(const struct ht_node *n)
{
	return n->op == HT_OP_Concat ? 1 : 0;
}

static bool is_value(const struct ht_node *n, int arg)
{
	return n->op == HT_OP_Pack || (n->op == HT_OP_Concat ? arg > 0 : arg + 1 < n->ins);
}

static int32_t concat_axis(const struct ht_node *n)
{
	if (n->op == HT_OP_Pack)
		return axis_of(ht_attr_int(n, "axis", 0), n->out[0].shape.rank);
	return axis_of(ht_tensor_int(ht_const_tensor(n->in[n->op == HT_OP_Concat ? 0 : n->ins - 1]), 0), n->out[0].shape.rank);
}

static void concat_part(const struct ht_node *n, int arg, const struct view *whole, struct view *v)
{
	int32_t axis = concat_axis(n), rank = shape_of(n, arg).rank;
	int64_t at = arg;

	if (n->op != HT_OP_Pack) {
		at = 0;
		for (int i = concat_values(n); i < arg; i++)
			at += shape_of(n, i).dim[axis];
	}
	*v = (struct view){ .buffer = whole->buffer, .rank = rank, .offset = whole->offset + at * whole->stride[axis] };
	for (int32_t i = 0; i < rank; i++) {
		v->dim[i] = shape_of(n, arg).dim[i];
		v->stride[i] = whole->stride[n->op == HT_OP_Pack && i >= axis ? i + 1 : i];
	}
}

static bool same_view(const struct view *a, const struct view *b)
{
	return a->buffer == b->buffer && a->offset == b->offset &&
		!memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride);
}

static enum ht_status emit_concat(struct lower *l, struct ht_node *n)
{
	for (int i = 0; i < n->ins; i++) {
		const struct view *from;
		struct view to;
		if (!is_value(n, i) || ht_shape_count(shape_of(n, i)) == 0)
			continue;
		concat_part(n, i, &l->view[n->id][0], &to);
		from = lower_view(l, n->in[i]);
		if (!same_view(from, &to))
			emit_copy(l, n, from, &to);
	}
	return HT_OK;
}

static const char *refuse_concat(const struct ht_node *n)
{
	if (n->op != HT_OP_Pack && !is_const_ints(n, n->op == HT_OP_Concat ? 0 : n->ins - 1))
		return "needs a constant axis";
	return NULL;
}

const struct lower_op lower_concat = { .name = "concat", .family = FAMILY_ROOT, .emit = emit_concat,
	.alone = true, .part = concat_part, .refuse = refuse_concat };
const struct lower_op lower_pack = { .name = "concat", .family = FAMILY_ROOT, .emit = emit_concat,
	.alone = true, .part = concat_part };
