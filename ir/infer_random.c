/* Rules of ops that draw random numbers. */
#include "ir/infer.h"

/* Reports, for example, "seed has shape [3], not [2]". */
static enum ht_status want_vector(struct ht_infer *in, const struct ht_node *n, int32_t i,
	const char *what, int64_t least, int64_t most)
{
	struct ht_shape s = ht_in_shape(n, i);

	if (s.rank < 0 ||
		(s.rank == 1 && (s.dim[0] < 0 || (s.dim[0] >= least && s.dim[0] <= most))))
		return HT_OK;
	return ht_infer_fail(in, n, "%s has shape %.*s; it takes a vector of %lld%s", what,
		HT_STR_ARG(ht_shape_text(in, s)), (long long)least, most > least ? " or more" : "");
}

/* Checks minval and maxval, if the op has them. */
static enum ht_status want_bounds(struct ht_infer *in, const struct ht_node *n, int32_t first)
{
	for (int32_t i = first; i < n->ins; i++)
		HT_TRY(ht_want_rank(in, n, i, 0));
	return HT_OK;
}

enum ht_status ht_infer_random_int(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(want_bounds(in, n, 1));
	return ht_infer_fill(in, n);
}

enum ht_status ht_infer_stateless_random(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(want_vector(in, n, 1, "seed", 2, 2));
	HT_TRY(want_bounds(in, n, 2));
	return ht_infer_fill(in, n);
}

enum ht_status ht_infer_stateless_random_v2(struct ht_infer *in, struct ht_node *n)
{
	HT_TRY(want_vector(in, n, 1, "key", 1, 1));
	HT_TRY(want_vector(in, n, 2, "counter", 2, INT64_MAX));
	HT_TRY(want_bounds(in, n, 3));
	return ht_infer_fill(in, n);
}

/* The last operand has the shape parameters, which are the last axes of the result. */
enum ht_status ht_infer_stateless_gamma(struct ht_infer *in, struct ht_node *n)
{
	const int32_t of = n->ins - 1, rank = ht_in_shape(n, of).rank;
	struct ht_shape s;

	HT_TRY(of == 2 ? want_vector(in, n, 1, "seed", 2, 2) : want_vector(in, n, 1, "key", 1, 1));
	if (of != 2)
		HT_TRY(want_vector(in, n, 2, "counter", 2, INT64_MAX));
	HT_TRY(ht_infer_fill(in, n));
	s = n->out[0].shape;
	for (int32_t i = 0; i < rank && s.rank >= 0; i++) {
		int64_t a = ht_in_shape(n, of).dim[rank - 1 - i],
			b = i < s.rank ? s.dim[s.rank - 1 - i] : 0;

		if (i >= s.rank || (a >= 0 && b >= 0 && a != b))
			return ht_infer_fail(in, n,
				"alpha has shape %.*s, which are not the last axes of shape %.*s",
				HT_STR_ARG(ht_shape_text(in, ht_in_shape(n, of))),
				HT_STR_ARG(ht_shape_text(in, s)));
	}
	return HT_OK;
}

/* Results: key and counter, or the algorithm, or all three. */
enum ht_status ht_infer_random_key(struct ht_infer *in, struct ht_node *n)
{
	int64_t *sizes = ht_new_dims(in, 2);

	if (n->ins)
		HT_TRY(want_vector(in, n, 0, "seed", 2, 2));
	sizes[0] = 1;
	sizes[1] = 2;
	for (int32_t i = 0; i < 2 && n->outs > 1; i++)
		ht_set_shape(n, i, 1, &sizes[i]);
	if (n->outs != 2)
		ht_set_shape(n, n->outs - 1, 0, NULL);
	return HT_OK;
}

/* Results: num_sampled classes, the expected count of each true class, and of each sampled
 * class. */
enum ht_status ht_infer_candidates(struct ht_infer *in, struct ht_node *n)
{
	int64_t count = ht_attr_int(n, "num_sampled", -1);
	int64_t *d;

	if (count < 1)
		return ht_infer_refuse(in, n, "attribute 'num_sampled' must be at least 1");
	d = ht_new_dims(in, 1);
	d[0] = count;
	ht_set_shape(n, 0, 1, d);
	n->out[1].shape = ht_in_shape(n, 0);
	ht_set_shape(n, 2, 1, d);
	return HT_OK;
}

/* Samples of each row of logits. */
enum ht_status ht_infer_multinomial(struct ht_infer *in, struct ht_node *n)
{
	int64_t *sizes = ht_new_dims(in, 2), *samples;
	size_t count;

	HT_TRY(ht_want_rank(in, n, 0, 2));
	HT_TRY(ht_want_rank(in, n, 1, 0));
	if (n->ins > 2)
		HT_TRY(want_vector(in, n, 2, "seed", 2, 2));
	sizes[0] = ht_in_shape(n, 0).rank == 2 ? ht_in_shape(n, 0).dim[0] : HT_DIM_UNKNOWN;
	sizes[1] = ht_const_ints(n->in[1], in->scratch, &samples, &count) && count == 1 &&
				   *samples >= 0
			   ? *samples
			   : HT_DIM_UNKNOWN;
	ht_set_shape(n, 0, 2, sizes);
	return HT_OK;
}
