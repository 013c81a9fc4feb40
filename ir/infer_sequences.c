/* Rules of ops on sequences of classes. */
#include "ir/infer.h"

/* The classes of each path of each sequence, step by step, and its probability. */
enum ht_status ht_infer_ctc_beams(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t *d = ht_new_dims(in, 3), *p = ht_new_dims(in, 2);

	HT_TRY(ht_want_rank(in, n, 0, 3));
	HT_TRY(ht_want_rank(in, n, 1, 1));
	d[0] = p[1] = ht_attr_int(n, "top_paths", 1);
	if (s.rank == 3) {
		d[1] = p[0] = s.dim[1];
		d[2] = s.dim[0];
	}
	ht_set_shape(n, 0, 3, d);
	ht_set_shape(n, 1, 2, p);
	return HT_OK;
}

/* One distance for each row; the last axis of both sparse tensors has the elements of a row. */
enum ht_status ht_infer_edit_distance(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape a = ht_in_shape(n, 0), b = ht_in_shape(n, 3);

	for (int32_t i = 0; i < n->ins; i++)
		HT_TRY(ht_want_rank(in, n, i, i % 3 ? 1 : 2));
	if (a.rank == 2 && b.rank == 2 && a.dim[1] >= 0 && b.dim[1] >= 0 && a.dim[1] != b.dim[1])
		return ht_infer_fail(in, n, "compares sparse tensors of %lld and %lld axes",
			(long long)a.dim[1], (long long)b.dim[1]);
	if (a.rank == 2 && a.dim[1] > 0 && a.dim[1] <= HT_MAX_RANK)
		ht_set_shape(n, 0, (int32_t)a.dim[1] - 1, ht_new_dims(in, (int32_t)a.dim[1] - 1));
	return HT_OK;
}
