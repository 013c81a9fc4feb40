/* InTopK of as many classes as the run tells, for pass sizes: the score of each row's class is gathered, and compared with all scores of the
 * row.  So the answer is exact in every type that a policy chooses for the scores. */
#include "passes/computed_rows.h"

bool ht_ranks_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->op == HT_OP_InTopK || n->op == HT_OP_InTopKV2 ? ht_in_shape(n, 0)
									     : HT_SHAPE_UNKNOWN;

	return s.rank == 2 && is_bounded_shape(g, s) && ht_dim_is_open(g, s.dim[1]) &&
	       ht_in_shape(n, 1).rank == 1;
}

/* What operation `op` makes of the classes of each row. */
static struct ht_value of_rows(struct maker *f, enum ht_op op, struct ht_value x)
{
	const int64_t classes = 1;

	return of_rank(f, ht_rw_reduce(f->r, f->at, op, f->at->name, x, &classes, 1, false), 1);
}

/* The score of each row's class, or of another one where that is none. */
static struct ht_value scores_of(struct maker *f, struct ht_node *n, struct ht_value target)
{
	struct ht_value last = plus(f, extent(f, n, 0, 1), -1), at[3];

	target = binary(
		f, HT_OP_Maximum, binary(f, HT_OP_Minimum, target, last), whole(f, HT_I64, 0));
	at[0] = with_axis(f, range_of(f, extent(f, n, 0, 0)), 1);
	at[1] = with_axis(f, of_rank(f, target, 1), 1);
	return of_rank(f, gathered_nd(f, n->in[0], joined(f, at, 2, 1)), 1);
}

/* Less than k scores are larger, all scores of the row are finite, and the target is a class. */
bool ht_expand_ranks(struct maker *f, struct ht_node *n)
{
	struct ht_value target, above, finite, k, found;

	if (!ht_ranks_open(f->r->g, n))
		return false;
	target = wide(f, n->in[1]);
	k = n->ins > 2 ? wide(f, n->in[2]) : whole(f, HT_I64, ht_attr_int(n, "k", 1));
	above = binary(f, HT_OP_Less, with_axis(f, scores_of(f, n, target), 1), n->in[0]);
	above = of_rows(f, HT_OP_Sum, ht_rw_cast(f->r, n, n->name, of_rank(f, above, 2), HT_I64));
	finite = of_rank(f, ht_rw_unary(f->r, n, HT_OP_IsFinite, n->name, n->in[0]), 2);
	finite.node->out[0].dtype = HT_BOOL;
	found = both(
		f, of_rank(f, binary(f, HT_OP_Less, above, k), 1), of_rows(f, HT_OP_All, finite));
	found = both(f, found, of_rank(f, binary(f, HT_OP_Less, target, extent(f, n, 0, 1)), 1));
	found = both(f, found,
		of_rank(f, binary(f, HT_OP_GreaterEqual, target, whole(f, HT_I64, 0)), 1));
	ht_rw_take_place(f->r, n, found);
	return true;
}
