/* Rules of matrix products. */
#include "ir/infer.h"

static enum ht_status inner_fail(
	struct ht_infer *in, const struct ht_node *n, struct ht_shape a, struct ht_shape b)
{
	return ht_infer_fail(in, n, "inner sizes of %.*s and %.*s differ",
		HT_STR_ARG(ht_shape_text(in, a)), HT_STR_ARG(ht_shape_text(in, b)));
}

/* Rows and columns of the product from the last two axes of each operand. */
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

/* "ab,bc->ac" without ellipsis: sizes by label. */
enum ht_status ht_infer_einsum(struct ht_infer *in, struct ht_node *n)
{
	struct ht_str eq = ht_attr_str(n, "equation", "");
	int64_t size[256];
	int32_t operand = 0, axis = 0, rank = 0;
	int64_t *d = ht_new_dims(in, HT_MAX_RANK);
	bool result = false;

	for (int i = 0; i < 256; i++)
		size[i] = HT_DIM_UNKNOWN;
	for (size_t i = 0; i < eq.n; i++) {
		unsigned char c = (unsigned char)eq.p[i];
		struct ht_shape s = operand < n->ins ? ht_in_shape(n, operand) : HT_SHAPE_UNKNOWN;

		if (c == '.' || operand >= n->ins || rank == HT_MAX_RANK)
			return HT_OK;
		if (c == ' ')
			continue;
		if (c == ',') {
			operand++;
			axis = 0;
		} else if (c == '-') {
			result = true;
			i++;
		} else if (result) {
			d[rank++] = size[c];
		} else if (axis < s.rank && !ht_merge_dim(size[c], s.dim[axis++], &size[c])) {
			return ht_infer_fail(in, n, "sizes of '%c' differ", c);
		}
	}
	if (result)
		ht_set_shape(n, 0, rank, d);
	return HT_OK;
}
