/* Rules of matrix products. */
#include "ir/einsum.h"
#include "ir/infer.h"

static enum ht_status inner_fail(
	struct ht_infer *in, const struct ht_node *n, struct ht_shape a, struct ht_shape b)
{
	return ht_infer_fail(in, n, "inner sizes of %.*s and %.*s differ",
		HT_STR_ARG(ht_shape_text(in, a)), HT_STR_ARG(ht_shape_text(in, b)));
}

/* The rows and columns of the product, from the last two axes of each operand. */
static enum ht_status product(struct ht_infer *in, const struct ht_node *n, bool flip_a,
	bool flip_b, int64_t *rows, int64_t *columns)
{
	struct ht_shape a = ht_in_shape(n, 0), b = ht_in_shape(n, 1);
	int64_t inner_a = HT_DIM_UNKNOWN, inner_b = HT_DIM_UNKNOWN, inner;

	*rows = *columns = HT_DIM_UNKNOWN;
	if (a.rank >= 2) {
		*rows = a.dim[a.rank - (flip_a ? 1 : 2)];
		inner_a = a.dim[a.rank - (flip_a ? 2 : 1)];
	}
	if (b.rank >= 2) {
		*columns = b.dim[b.rank - (flip_b ? 2 : 1)];
		inner_b = b.dim[b.rank - (flip_b ? 1 : 2)];
	}
	if (!ht_merge_dim(inner_a, inner_b, &inner))
		return inner_fail(in, n, a, b);
	return HT_OK;
}

enum ht_status ht_infer_matmul(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 2);

	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 2));
	HT_TRY(product(in, n, ht_attr_bool(n, "transpose_a", false),
		ht_attr_bool(n, "transpose_b", false), &d[0], &d[1]));
	ht_set_shape(n, 0, 2, d);
	return HT_OK;
}

enum ht_status ht_infer_batch_matmul(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape a = ht_in_shape(n, 0), b = ht_in_shape(n, 1), batch;
	int64_t rows, columns;
	int64_t *d;

	HT_TRY(ht_want_rank_of(in, n, 0, 2, HT_MAX_RANK));
	HT_TRY(ht_want_rank_of(in, n, 1, 2, HT_MAX_RANK));
	HT_TRY(product(in, n, ht_attr_bool(n, "adj_x", false), ht_attr_bool(n, "adj_y", false),
		&rows, &columns));
	if (a.rank < 0 || b.rank < 0)
		return HT_OK;
	if (!ht_broadcast_shapes(in, (struct ht_shape){ a.rank - 2, a.dim },
		    (struct ht_shape){ b.rank - 2, b.dim }, &batch))
		return ht_infer_fail(in, n, "leading axes of %.*s and %.*s do not broadcast",
			HT_STR_ARG(ht_shape_text(in, a)), HT_STR_ARG(ht_shape_text(in, b)));
	d = ht_new_dims(in, batch.rank + 2);
	for (int32_t i = 0; i < batch.rank; i++)
		d[i] = batch.dim[i];
	d[batch.rank] = rows;
	d[batch.rank + 1] = columns;
	ht_set_shape(n, 0, batch.rank + 2, d);
	return HT_OK;
}

/* ---- Einsum ---- */

struct einsum {
	struct ht_einsum e;
	int64_t size[HT_EINSUM_ELLIPSIS]; /* by label */
	struct ht_shape wide;             /* the broadcast of the axes of all ellipses */
};

/* Takes sizes of labels from operand `i`. */
static enum ht_status einsum_operand(
	struct ht_infer *in, const struct ht_node *n, int32_t i, struct einsum *x)
{
	const struct ht_einsum_term *t = &x->e.in[i];
	struct ht_shape s = ht_in_shape(n, i), wide;
	int64_t labels = ht_einsum_labels(t);

	if (s.rank < 0) {
		if (t->ellipsis)
			x->wide = HT_SHAPE_UNKNOWN;
		return HT_OK;
	}
	if (t->ellipsis ? s.rank < labels : s.rank != labels)
		return ht_infer_fail(in, n,
			"operand %d has rank %d, the equation %lld labels%s for it", i, s.rank,
			(long long)labels, t->ellipsis ? " and an ellipsis" : "");
	for (int32_t k = 0; k < s.rank; k++) {
		int32_t name = ht_einsum_name(t, s.rank, k);

		if (name < HT_EINSUM_ELLIPSIS &&
			!ht_merge_dim(x->size[name], s.dim[k], &x->size[name]))
			return ht_infer_fail(in, n, "sizes of '%c' differ", name);
	}
	if (!t->ellipsis)
		return HT_OK;
	wide = (struct ht_shape){ s.rank - (int32_t)labels, s.rank ? s.dim + t->before.n : NULL };
	if (!ht_broadcast_shapes(in, x->wide, wide, &x->wide))
		return ht_infer_fail(in, n, "axes of the ellipsis do not broadcast");
	return HT_OK;
}

static enum ht_status einsum_result(struct ht_infer *in, struct ht_node *n, const struct einsum *x)
{
	const struct ht_einsum_term *t = &x->e.out;
	int64_t rank = ht_einsum_labels(t) + x->wide.rank;
	int64_t *d;

	if (x->wide.rank > 0 && !t->ellipsis)
		return ht_infer_refuse(in, n, "the result lacks the axes of the ellipsis");
	if (rank > HT_MAX_RANK)
		return ht_infer_refuse(in, n, "the result has more than %d axes", HT_MAX_RANK);
	if (x->wide.rank < 0 && t->ellipsis)
		return HT_OK;
	if (x->wide.rank < 0)
		rank = ht_einsum_labels(t);
	d = ht_new_dims(in, (int32_t)rank);
	for (int32_t k = 0; k < rank; k++) {
		int32_t name = ht_einsum_name(t, (int32_t)rank, k);

		d[k] = name < HT_EINSUM_ELLIPSIS
			       ? x->size[name]
			       : x->wide.dim[x->wide.rank - 1 - (name - HT_EINSUM_ELLIPSIS)];
	}
	ht_set_shape(n, 0, (int32_t)rank, d);
	return HT_OK;
}

enum ht_status ht_infer_einsum(struct ht_infer *in, struct ht_node *n)
{
	struct ht_str equation = ht_attr_str(n, "equation", "");
	struct einsum x = { .wide = HT_SHAPE_SCALAR };
	const char *why = ht_einsum_read(equation, &x.e);

	if (why)
		return ht_infer_refuse(in, n, "equation '%.*s' %s", HT_STR_ARG(equation), why);
	if (x.e.operands != n->ins)
		return ht_infer_refuse(in, n, "equation '%.*s' is for %d operands, there are %d",
			HT_STR_ARG(equation), x.e.operands, n->ins);
	for (size_t i = 0; i < HT_COUNT(x.size); i++)
		x.size[i] = HT_DIM_UNKNOWN;
	for (int32_t i = 0; i < n->ins; i++)
		HT_TRY(einsum_operand(in, n, i, &x));
	return einsum_result(in, n, &x);
}
