/* Rules of ops that make data of a given shape. */
#include "ir/infer.h"

#include <math.h>

/* Operand 0 is the shape.  Also used for random numbers. */
enum ht_status ht_infer_fill(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0);
	bool ok;
	struct ht_shape s = ht_in_as_shape(in, n, 0, &ok);

	HT_TRY(ht_want_rank_of(in, n, 0, 0, 1));
	for (int32_t i = 0; k && i < k->n; i++)
		ok = ok && (k->e[i].kind != HT_ELEM_INT || k->e[i].i >= 0);
	if (!ok)
		return ht_infer_fail(in, n, "operand 0 is no shape");
	n->out[0].shape = s;
	return HT_OK;
}

enum ht_status ht_infer_broadcast_to(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0), to, r;
	bool ok;

	to = ht_in_as_shape(in, n, 1, &ok);
	if (!ok)
		return ht_infer_fail(in, n, "operand 1 is no shape");
	n->out[0].shape = to;
	if (s.rank < 0 || to.rank < 0)
		return HT_OK;
	if (s.rank > to.rank || !ht_broadcast_shapes(in, s, to, &r) ||
		!ht_merge_shape(in, to, r, &r))
		return ht_infer_fail(in, n, "%.*s does not broadcast to %.*s",
			HT_STR_ARG(ht_shape_text(in, s)), HT_STR_ARG(ht_shape_text(in, to)));
	return HT_OK;
}

enum ht_status ht_infer_broadcast_args(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape a = ht_in_shape(n, 0), b = ht_in_shape(n, 1);
	int64_t *d = ht_new_dims(in, 1);

	HT_TRY(ht_want_rank(in, n, 0, 1));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	if (a.rank == 1 && b.rank == 1 && a.dim[0] >= 0 && b.dim[0] >= 0)
		d[0] = a.dim[0] > b.dim[0] ? a.dim[0] : b.dim[0];
	ht_set_shape(n, 0, 1, d);
	return HT_OK;
}

static bool as_number(const struct ht_known *k, double *v)
{
	if (!k || k->n != 1)
		return false;
	*v = k->e[0].kind == HT_ELEM_FLOAT ? k->e[0].f : (double)k->e[0].i;
	return k->e[0].kind == HT_ELEM_INT || k->e[0].kind == HT_ELEM_FLOAT;
}

/* The size of a known element, which may be a symbol. */
static int64_t dim_of(const struct ht_known *k)
{
	return k && k->n == 1 ? ht_elem_dim(k->e) : HT_DIM_UNKNOWN;
}

enum ht_status ht_infer_range(struct ht_infer *in, struct ht_node *n)
{
	double start, limit, delta, count;
	int64_t *d = ht_new_dims(in, 1);

	for (int32_t i = 0; i < 3; i++)
		HT_TRY(ht_want_rank(in, n, i, 0));
	ht_set_shape(n, 0, 1, d);
	if (!as_number(ht_in_known(in, n, 0), &start) || !as_number(ht_in_known(in, n, 2), &delta))
		return HT_OK;
	if (!as_number(ht_in_known(in, n, 1), &limit)) {
		d[0] = start == 0 && delta == 1 ? dim_of(ht_in_known(in, n, 1)) : HT_DIM_UNKNOWN;
		return HT_OK;
	}
	if (delta == 0)
		return ht_infer_fail(in, n, "delta is 0");
	count = ceil((limit - start) / delta);
	if (count < 0)
		return ht_infer_fail(in, n, "delta leads away from limit");
	if (!(count < 0x1p53))
		return ht_infer_fail(in, n, "the range is too long");
	d[0] = (int64_t)count;
	return HT_OK;
}

enum ht_status ht_infer_lin_space(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);

	if (ht_in_int(in, n, 2, &d[0]) && d[0] < 1)
		return ht_infer_fail(in, n, "num is %lld", (long long)d[0]);
	ht_set_shape(n, 0, 1, d);
	return HT_OK;
}

enum ht_status ht_infer_one_hot(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t depth = HT_DIM_UNKNOWN, axis = ht_attr_int(n, "axis", -1);
	int64_t *d;

	if (ht_in_int(in, n, 1, &depth) && depth < 0)
		return ht_infer_fail(in, n, "depth is %lld", (long long)depth);
	if (s.rank < 0)
		return HT_OK;
	if (s.rank == HT_MAX_RANK || !ht_fix_axis(&axis, s.rank + 1))
		return ht_infer_fail(in, n, "axis %lld does not fit %.*s", (long long)axis,
			HT_STR_ARG(ht_shape_text(in, s)));
	d = ht_new_dims(in, s.rank + 1);
	for (int32_t i = 0; i <= s.rank; i++)
		d[i] = i < axis ? s.dim[i] : i == axis ? depth : s.dim[i - 1];
	ht_set_shape(n, 0, s.rank + 1, d);
	return HT_OK;
}
