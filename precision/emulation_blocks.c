/* Rounding nodes: of single numbers, and of blocks with a common factor. */
#include "precision/emulation.h"

#include <string.h>

/* ---- summed axes ---- */

static int32_t rank_of(struct ht_value v)
{
	return ht_type_of(v)->shape.rank;
}

/* The last label of an operand that the result does not have. */
static int32_t einsum_axis(const struct ht_node *n, int32_t arg)
{
	struct ht_str all = ht_attr_str(n, "equation", "");
	const char *p = all.p, *end = all.p + all.n, *arrow = NULL;
	int32_t axis = 0, found = -1;

	for (const char *i = p; i + 1 < end; i++)
		if (i[0] == '-' && i[1] == '>')
			arrow = i;
	if (!arrow || memchr(p, '.', all.n))
		return rank_of(n->in[arg]) - 1;
	for (; arg && p < arrow; p++)
		arg -= *p == ',';
	for (; p < arrow && *p != ','; p++) {
		if (*p == ' ')
			continue;
		if (!memchr(arrow, *p, (size_t)(end - arrow)))
			found = axis;
		axis++;
	}
	return found < 0 ? axis - 1 : found;
}

static int32_t product_axis(const struct ht_node *n, int32_t arg)
{
	static const char *const swaps[2][2] = { { "transpose_a", "transpose_b" },
		{ "adj_x", "adj_y" } };
	bool swapped = ht_attr_bool(n, swaps[ht_is(n, HT_BATCH_MATMUL)][arg], false);

	return rank_of(n->in[arg]) - ((arg == 0) != swapped ? 1 : 2);
}

/* The channels of the image; for filters [height, width, in, out], the channels of the operand. */
static int32_t conv_axis(const struct ht_node *n, int32_t arg)
{
	bool first = ht_channels_first(n);

	if (ht_is(n, HT_CONV_FILTER)) /* sums over the images and their positions */
		return first ? 3 : 2;
	if (arg == 1)
		return ht_is(n, HT_CONV_TRANSPOSE) ? 3 : 2;
	return first ? 1 : rank_of(n->in[arg]) - 1;
}

int32_t ht_summed_axis(const struct ht_node *n, int32_t arg)
{
	if (rank_of(n->in[arg]) < 1)
		return -1;
	if (ht_is(n, HT_EINSUM))
		return einsum_axis(n, arg);
	if (ht_is(n, HT_MATRIX_PRODUCT) && arg < 2)
		return product_axis(n, arg);
	return conv_axis(n, arg);
}

/* ---- nodes ---- */

static struct ht_str name_of(struct ht_emulating *x, struct ht_value v, const char *what)
{
	return ht_str_printf(x->rw.arena, "%.*s/%s", HT_STR_ARG(v.node->name), what);
}

static void set_format(
	struct ht_emulating *x, struct ht_value v, const struct ht_float_format *f, bool asks)
{
	struct ht_buf b;

	ht_buf_init(&b, x->rw.arena);
	ht_format_put(&b, f);
	ht_attr_set_str(v.node, "format", ht_buf_str(&b));
	ht_attr_set_bool(v.node, "asked", asks);
}

static struct ht_value round_each(struct ht_emulating *x, struct ht_node *before, struct ht_value v,
	const struct ht_float_format *f, bool asks)
{
	struct ht_value r =
		ht_rw_unary(&x->rw, before, HT_OP__Rounded, name_of(x, v, "rounded"), v);

	set_format(x, r, f, asks);
	return r;
}

/* Adds zeros behind `axis`, so that the last block is full. */
static struct ht_value pad(struct ht_emulating *x, struct ht_node *before, struct ht_value v,
	int32_t axis, int64_t more)
{
	struct ht_shape s = ht_type_of(v)->shape, pairs;
	int64_t amount[2 * HT_MAX_RANK] = { 0 }, dim[HT_MAX_RANK];
	struct ht_value in[2] = { v };
	struct ht_node *n;

	amount[2 * axis + 1] = more;
	memcpy(dim, s.dim, (size_t)s.rank * sizeof *dim);
	dim[axis] += more;
	pairs = ht_shape_make(x->rw.arena, 2, (int64_t[]){ s.rank, 2 });
	in[1] = ht_rw_const_ints(
		&x->rw, before, name_of(x, v, "paddings"), HT_I32, amount, 2 * (int64_t)s.rank);
	in[1].node->out[0].shape = pairs;
	in[1] = ht_rw_reshape(&x->rw, before, name_of(x, v, "paddings"), in[1], pairs);
	n = ht_rw_node(&x->rw, before, HT_OP_Pad, name_of(x, v, "padded"), in, 2,
		(struct ht_type){ HT_F32, ht_shape_make(x->rw.g->arena, s.rank, dim) });
	ht_attr_set_type(n, "T", HT_F32);
	ht_attr_set_type(n, "Tpaddings", HT_I32);
	return ht_out(n, 0);
}

/* The first elements, those of shape `s`. */
static struct ht_value cut(
	struct ht_emulating *x, struct ht_node *before, struct ht_value v, struct ht_shape s)
{
	int64_t begin[HT_MAX_RANK] = { 0 };
	struct ht_value in[3] = { v };
	struct ht_node *n;

	in[1] = ht_rw_const_ints(&x->rw, before, name_of(x, v, "begin"), HT_I64, begin, s.rank);
	in[2] = ht_rw_const_ints(&x->rw, before, name_of(x, v, "size"), HT_I64, s.dim, s.rank);
	n = ht_rw_node(&x->rw, before, HT_OP_Slice, name_of(x, v, "cut"), in, 3,
		(struct ht_type){ HT_F32, s });
	ht_attr_set_type(n, "T", HT_F32);
	ht_attr_set_type(n, "Index", HT_I64);
	return ht_out(n, 0);
}

static struct ht_value round_blocks(struct ht_emulating *x, struct ht_node *before,
	struct ht_value v, const struct ht_float_format *f, int32_t axis, bool asks)
{
	struct ht_shape s = ht_type_of(v)->shape, whole, split;
	int64_t dim[HT_MAX_RANK], more = (f->block - s.dim[axis] % f->block) % f->block,
				  along = axis + 1;
	struct ht_value y = more ? pad(x, before, v, axis, more) : v, most;

	whole = ht_type_of(y)->shape;
	memcpy(dim, whole.dim, (size_t)(axis + 1) * sizeof *dim);
	dim[axis] = whole.dim[axis] / f->block;
	dim[axis + 1] = f->block;
	memcpy(dim + axis + 2, whole.dim + axis + 1, (size_t)(s.rank - axis - 1) * sizeof *dim);
	split = ht_shape_make(x->rw.g->arena, s.rank + 1, dim);
	y = ht_rw_reshape(&x->rw, before, name_of(x, v, "blocks"), y, split);
	most = ht_rw_unary(&x->rw, before, HT_OP_Abs, name_of(x, v, "magnitudes"), y);
	most = ht_rw_reduce(
		&x->rw, before, HT_OP_Max, name_of(x, v, "most"), most, &along, 1, true);
	y = ht_rw_binary(&x->rw, before, HT_OP__RoundedBlock, name_of(x, v, "rounded"), y, most);
	set_format(x, y, f, asks);
	y = ht_rw_reshape(&x->rw, before, name_of(x, v, "rounded"), y, whole);
	return more ? cut(x, before, y, s) : y;
}

/* ---- constants ---- */

struct parts {
	int64_t rows, along, columns;
};

static struct parts parts_of(struct ht_shape s, int32_t axis)
{
	struct parts p = { 1, 1, 1 };

	for (int32_t i = 0; i < s.rank; i++)
		*(i < axis ? &p.rows : i == axis ? &p.along : &p.columns) *= s.dim[i];
	return p;
}

static struct ht_value round_constant(struct ht_emulating *x, struct ht_node *before,
	struct ht_value v, const struct ht_float_format *f, int32_t axis)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	struct parts p = parts_of(t->shape, f->block ? axis : 0);
	struct ht_blob *b = ht_rw_blob(&x->rw, t->blob->n);

	memcpy((void *)(uintptr_t)b->p, t->blob->p, t->blob->n);
	ht_format_round_all(f, (void *)(uintptr_t)b->p, p.rows, p.along, p.columns);
	return ht_rw_const(&x->rw, before, name_of(x, v, "rounded"), HT_F32, t->shape, b);
}

/* ---- names of roundings ---- */

/* A rounding behind a node takes the node's place for everybody who asks for tensors by names of
 * the model.  Intermediate nodes, and roundings that the policy asks for, have no such name, as
 * its casts have none. */
static void state_origins(uint32_t first, struct ht_value of, struct ht_value r, bool asks)
{
	for (struct ht_node *n = r.node; n && n->id >= first; n = n->prev) {
		n->origin = NULL;
		n->origins = 0;
	}
	if (!asks)
		ht_node_add_origin(r.node, of.node);
}

/* ---- both kinds ---- */

static bool refuse(struct ht_emulating *x, const struct ht_node *n, const char *why)
{
	if (x->status == HT_OK)
		x->status = ht_error(x->diags, HT_E_UNSUPPORTED,
			(struct ht_where){ .path = x->rw.g->path,
				.node = n->name,
				.op = n->type,
				.offset = -1 },
			"its result cannot be rounded in blocks: %s", why);
	return false;
}

static bool has_blocks(
	struct ht_emulating *x, struct ht_value v, const struct ht_float_format *f, int32_t *axis)
{
	struct ht_shape s = ht_type_of(v)->shape;

	if (*axis < 0 && s.rank >= 0)
		*axis += s.rank;
	if (s.rank < 0)
		return refuse(x, v.node, "its shape is not known");
	if (*axis < 0 || *axis >= s.rank)
		return refuse(x, v.node,
			ht_str_printf(x->rw.arena, "axis %d is outside of its %d dimensions",
				f->has_axis ? f->axis : *axis, (int)s.rank)
				.p);
	if (!ht_shape_known(s))
		return refuse(x, v.node, "the sizes of its dimensions are not known");
	return s.rank < HT_MAX_RANK || refuse(x, v.node, "it has too many dimensions");
}

struct ht_value ht_round_to(struct ht_emulating *x, struct ht_node *before, struct ht_value v,
	const struct ht_float_format *f, int32_t axis, bool asks)
{
	uint32_t ids = x->rw.g->ids;
	struct ht_value r;

	while (v.node->op == HT_OP_Identity) /* which was a cast before */
		v = v.node->in[0];
	if (f->block && !has_blocks(x, v, f, &axis))
		return v;
	if (ht_const_tensor(v) && ht_type_of(v)->dtype == HT_F32)
		return round_constant(x, before, v, f, axis);
	r = f->block ? round_blocks(x, before, v, f, axis, asks)
		     : round_each(x, before, v, f, asks);
	state_origins(ids, v, r, asks);
	return r;
}
