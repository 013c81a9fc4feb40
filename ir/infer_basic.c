/* Rules of ops whose results have the shapes of operands, and of ops whose shapes are unknown. */
#include "ir/infer.h"

enum ht_status ht_infer_unknown(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	(void)n;
	return HT_OK;
}

enum ht_status ht_infer_nothing(struct ht_infer *in, struct ht_node *n)
{
	return ht_infer_unknown(in, n);
}

static void all_scalars(struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].shape = HT_SHAPE_SCALAR;
}

enum ht_status ht_infer_scalar(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	all_scalars(n);
	return HT_OK;
}

static void all_like(struct ht_node *n, int32_t operand)
{
	struct ht_shape s = ht_in_shape(n, operand);

	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].shape = s;
}

/* Every result is shaped like the first operand. */
enum ht_status ht_infer_same(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	if (n->ins)
		all_like(n, 0);
	return HT_OK;
}

enum ht_status ht_infer_same_1(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	all_like(n, 1);
	return HT_OK;
}

enum ht_status ht_infer_identity_n(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].shape = ht_in_shape(n, i);
	return HT_OK;
}

/* The last operands, one for each result, have the shapes of the results (ConcatOffset). */
enum ht_status ht_infer_identity_shapes(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].shape = ht_in_shape(n, n->ins - n->outs + i);
	return HT_OK;
}

enum ht_status ht_infer_constant(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "value");
	struct ht_shape s;

	if (!ht_is(n, HT_CONSTANT)) {
		a = ht_attr_find(n, "shape");
		if (a && a->value.kind == HT_ATTR_SHAPE)
			n->out[0].shape = a->value.shape.shape;
		return HT_OK;
	}
	if (!a || a->value.kind != HT_ATTR_TENSOR)
		return ht_infer_refuse(in, n, "has no tensor in attribute 'value'");
	if (a->value.tensor->dtype != n->out[0].dtype)
		return ht_infer_refuse(in, n, "attribute 'dtype' is %s, the tensor is %s",
			ht_dtype_info(n->out[0].dtype)->name,
			ht_dtype_info(a->value.tensor->dtype)->name);
	s = a->value.tensor->shape;
	n->out[0].shape = s;
	return HT_OK;
}

static struct ht_shape shape_attr(const struct ht_node *n, const char *name)
{
	const struct ht_attr *a = ht_attr_find(n, name);

	return a && a->value.kind == HT_ATTR_SHAPE ? a->value.shape.shape : HT_SHAPE_UNKNOWN;
}

/* The producer, field 1 of the VersionDef; a large number if it is missing. */
static uint64_t producer(const struct ht_graph *g)
{
	uint64_t v = 0;

	if (g->versions.n < 2 || g->versions.p[0] != 0x08)
		return UINT64_MAX;
	for (size_t i = 1; i < g->versions.n && i < 10; i++) {
		v |= (uint64_t)(g->versions.p[i] & 0x7f) << 7 * (i - 1);
		if (!(g->versions.p[i] & 0x80))
			break;
	}
	return v;
}

struct ht_shape ht_placeholder_shape(const struct ht_graph *library, const struct ht_node *n)
{
	struct ht_shape s = shape_attr(n, "shape");
	bool either = n->op == HT_OP_Placeholder && s.rank == 0 && producer(library) < 22;

	return either ? HT_SHAPE_UNKNOWN : s;
}

/* Keeps a shape that is set: the user stated it. */
enum ht_status ht_infer_placeholder(struct ht_infer *in, struct ht_node *n)
{
	if (n->out[0].shape.rank < 0)
		n->out[0].shape = ht_placeholder_shape(in->g->library, n);
	return HT_OK;
}

enum ht_status ht_infer_ensure_shape(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape want = shape_attr(n, "shape"), has = ht_in_shape(n, 0);

	if (ht_merge_shape(in, has, want, &n->out[0].shape))
		return HT_OK;
	return ht_infer_fail(in, n, "shape is %.*s, must fit %.*s",
		HT_STR_ARG(ht_shape_text(in, has)), HT_STR_ARG(ht_shape_text(in, want)));
}

/* To a type of the same size: the shape stays.  To a smaller type: one more axis; to a larger one:
 * one less. */
enum ht_status ht_infer_bitcast(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	size_t from = ht_dtype_info(ht_type_attr(n, "T"))->bytes;
	size_t to = ht_dtype_info(n->out[0].dtype)->bytes;
	int64_t *d;

	if (s.rank < 0 || !from || !to)
		return HT_OK;
	if (from == to) {
		n->out[0].shape = s;
		return HT_OK;
	}
	if (from < to) {
		if (s.rank < 1 ||
			(s.dim[s.rank - 1] >= 0 && (size_t)s.dim[s.rank - 1] != to / from))
			return ht_infer_fail(in, n, "the last axis of %.*s must have size %zu",
				HT_STR_ARG(ht_shape_text(in, s)), to / from);
		ht_set_shape(n, 0, s.rank - 1, s.dim);
		return HT_OK;
	}
	if (s.rank == HT_MAX_RANK)
		return ht_infer_refuse(in, n, "result has too many axes");
	d = ht_new_dims(in, s.rank + 1);
	for (int32_t i = 0; i < s.rank; i++)
		d[i] = s.dim[i];
	d[s.rank] = (int64_t)(from / to);
	ht_set_shape(n, 0, s.rank + 1, d);
	return HT_OK;
}

/* Whether two shapes broadcast for all values of their unknown sizes. */
static bool broadcast_surely(struct ht_shape a, struct ht_shape b)
{
	for (int32_t i = 1; i <= a.rank && i <= b.rank; i++) {
		int64_t x = a.dim[a.rank - i], y = b.dim[b.rank - i];

		if (x != 1 && y != 1 && (x != y || x == HT_DIM_UNKNOWN))
			return false;
	}
	return a.rank >= 0 && b.rank >= 0;
}

/* Equal and NotEqual give one scalar if their operands do not broadcast and an attribute allows
 * it. */
static enum ht_status infer_lenient(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape a = ht_in_shape(n, 0), b = ht_in_shape(n, 1), r;

	if (!ht_broadcast_shapes(in, a, b, &r))
		n->out[0].shape = HT_SHAPE_SCALAR;
	else if (broadcast_surely(a, b))
		n->out[0].shape = r;
	return HT_OK;
}

enum ht_status ht_infer_broadcast(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape r = ht_in_shape(n, 0);

	if (!ht_attr_bool(n, "incompatible_shape_error", true))
		return infer_lenient(in, n);
	for (int32_t i = 1; i < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i), b;

		if (!ht_broadcast_shapes(in, r, s, &b))
			return ht_infer_fail(in, n, "shapes %.*s and %.*s do not broadcast",
				HT_STR_ARG(ht_shape_text(in, r)), HT_STR_ARG(ht_shape_text(in, s)));
		r = b;
	}
	n->out[0].shape = r;
	return HT_OK;
}

enum ht_status ht_infer_bias_add(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0), b = ht_in_shape(n, 1);
	bool first = ht_channels_first(n);
	int64_t channels;

	HT_TRY(ht_want_rank(in, n, 1, 1));
	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	n->out[0].shape = x;
	if (x.rank < 0 || b.rank < 0)
		return HT_OK;
	channels = x.dim[first ? 1 : x.rank - 1];
	if (!ht_merge_dim(channels, b.dim[0], &channels))
		return ht_infer_fail(in, n, "bias of shape %.*s does not fit %.*s",
			HT_STR_ARG(ht_shape_text(in, b)), HT_STR_ARG(ht_shape_text(in, x)));
	return HT_OK;
}

enum ht_status ht_infer_bias_add_grad(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape x = ht_in_shape(n, 0);
	bool first = ht_channels_first(n);
	int64_t *d = ht_new_dims(in, 1);

	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	if (x.rank > 0)
		d[0] = x.dim[first ? 1 : x.rank - 1];
	ht_set_shape(n, 0, 1, d);
	return HT_OK;
}

/* The condition of Select is a scalar, a vector over the first axis, or has the shape of the
 * others. */
enum ht_status ht_infer_select(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape c = ht_in_shape(n, 0), t = ht_in_shape(n, 1), e = ht_in_shape(n, 2), r;

	if (!ht_merge_shape(in, t, e, &r))
		return ht_infer_fail(in, n, "shapes %.*s and %.*s of the two sides differ",
			HT_STR_ARG(ht_shape_text(in, t)), HT_STR_ARG(ht_shape_text(in, e)));
	n->out[0].shape = r;
	if (r.rank < 0 || c.rank <= 0)
		return HT_OK;
	if (c.rank == 1 && r.rank >= 1) {
		int64_t rows;

		if (ht_merge_dim(c.dim[0], r.dim[0], &rows))
			return HT_OK;
	} else if (ht_merge_shape(in, r, c, &t)) {
		n->out[0].shape = t;
		return HT_OK;
	}
	return ht_infer_fail(in, n, "condition of shape %.*s does not fit %.*s",
		HT_STR_ARG(ht_shape_text(in, c)), HT_STR_ARG(ht_shape_text(in, r)));
}

/* All operands have one shape, which is also the shape of the result. */
enum ht_status ht_infer_alike(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape r = HT_SHAPE_UNKNOWN;

	if (!n->ins)
		return ht_infer_refuse(in, n, "has no operands");
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i), both;

		if (!ht_merge_shape(in, r, s, &both))
			return ht_infer_fail(in, n,
				"operand %d has shape %.*s, those before have %.*s", (int)i,
				HT_STR_ARG(ht_shape_text(in, s)), HT_STR_ARG(ht_shape_text(in, r)));
		r = both;
	}
	n->out[0].shape = r;
	return HT_OK;
}

/* A loop may change sizes from iteration to iteration, so one unknown operand makes the result
 * unknown. */
enum ht_status ht_infer_merge(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape r = n->ins ? ht_in_shape(n, 0) : HT_SHAPE_UNKNOWN;
	int64_t *d;

	n->out[1].shape = HT_SHAPE_SCALAR;
	for (int32_t i = 1; i < n->ins && r.rank >= 0; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		if (s.rank != r.rank)
			return HT_OK;
		d = ht_new_dims(in, r.rank);
		for (int32_t j = 0; j < r.rank; j++)
			d[j] = r.dim[j] == s.dim[j] ? r.dim[j] : HT_DIM_UNKNOWN;
		r.dim = d;
	}
	n->out[0].shape = r;
	return HT_OK;
}

/* ---- shapes of shapes ---- */

static void shape_of(struct ht_infer *in, struct ht_node *n, int32_t result)
{
	int64_t *d = ht_new_dims(in, 1);

	if (ht_in_shape(n, result).rank >= 0)
		d[0] = ht_in_shape(n, result).rank;
	ht_set_shape(n, result, 1, d);
}

enum ht_status ht_infer_shape(struct ht_infer *in, struct ht_node *n)
{
	shape_of(in, n, 0);
	return HT_OK;
}

enum ht_status ht_infer_shape_n(struct ht_infer *in, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		shape_of(in, n, i);
	return HT_OK;
}

enum ht_status ht_infer_scalar_of_shape(struct ht_infer *in, struct ht_node *n)
{
	return ht_infer_scalar(in, n);
}

enum ht_status ht_infer_broadcast_gradient_args(struct ht_infer *in, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		int64_t axes[HT_MAX_RANK], *d = ht_new_dims(in, 1);
		int32_t count = ht_gradient_axes(in, n, i, axes);

		if (count >= 0)
			d[0] = count;
		ht_set_shape(n, i, 1, d);
	}
	return HT_OK;
}

/* The shape is the value of operand `arg`. */
static enum ht_status shape_from(struct ht_infer *in, struct ht_node *n, int32_t operand)
{
	bool ok;
	struct ht_shape s = ht_in_as_shape(in, n, operand, &ok);

	if (!ok)
		return ht_infer_fail(in, n, "operand %d is no shape", (int)operand);
	n->out[0].shape = s;
	return HT_OK;
}

enum ht_status ht_infer_shape_operand_0(struct ht_infer *in, struct ht_node *n)
{
	return shape_from(in, n, 0);
}

enum ht_status ht_infer_shape_operand_1(struct ht_infer *in, struct ht_node *n)
{
	return shape_from(in, n, 1);
}

/* ScatterNd: operands are indices, updates and the shape. */
enum ht_status ht_infer_shape_operand(struct ht_infer *in, struct ht_node *n)
{
	return shape_from(in, n, 2);
}
