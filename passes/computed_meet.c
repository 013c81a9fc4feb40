/* Open sizes that meet other sizes, open or fixed, for pass sizes: in broadcasts, and where axes of several operands have to be equally long.
 *
 * As in TensorFlow, all must be equal, or 1 in a broadcast.  A run compares them, and stops where they differ (an index is out of range, which is
 * 0 where all is well).  They become one size: a fixed one, or one that the run computes.  Each operand of another size gets that
 * size by a gather, which takes its only element again and again where it is repeated. */
#include "passes/computed_nodes.h"

/* A group of axes of a node's operands that have to be equally long (computed_groups.c), and their sizes. */
struct meeting {
	int32_t group;           /* its number */
	bool repeats;            /* operands of size 1 are repeated */
	int64_t fixed;           /* the fixed size that some operand has; -1: none */
	int64_t most;            /* the largest of all sizes */
	struct ht_value numbers; /* the indices of the result: 0, 1, … */
};

/* The extent of an operand; 1 if it has no axis of the group and is repeated. */
static int64_t dim_of(const struct ht_node *n, int32_t i, const struct meeting *m)
{
	int32_t axis = ht_meeting_axis(n, m->group, i);

	return axis < 0 ? 1 : ht_in_shape(n, i).dim[axis];
}

/* Whether the operand has no size that has to be equal. */
static bool is_apart(const struct ht_node *n, int32_t i, const struct meeting *m)
{
	return ht_meeting_axis(n, m->group, i) < 0 || (m->repeats && dim_of(n, i, m) == 1);
}

/* Whether operands have sizes in the group that may differ, all of which are bounded. */
static bool find_meeting(
	const struct ht_graph *g, const struct ht_node *n, int32_t group, struct meeting *m)
{
	int64_t first = HT_DIM_UNKNOWN;
	bool differ = false, open = false;

	*m = (struct meeting){
		.group = group, .repeats = ht_meeting_repeats(n, group), .fixed = -1
	};
	for (int32_t i = 0; i < n->ins; i++) {
		int64_t dim = dim_of(n, i, m), most = ht_dim_most(g, dim);

		if (is_apart(n, i, m))
			continue;
		if (most < 0)
			return false;
		if (dim >= 0)
			m->fixed = dim;
		open = open || dim < 0;
		differ = differ || (first != HT_DIM_UNKNOWN && first != dim);
		first = dim;
		m->most = most > m->most ? most : m->most;
	}
	return differ && open;
}

bool ht_meets_open(const struct ht_graph *g, const struct ht_node *n)
{
	struct meeting m;

	for (int32_t k = 0, groups = ht_meeting_groups(n); k < groups; k++)
		if (find_meeting(g, n, k, &m))
			return true;
	return false;
}

static struct ht_value select_of(
	struct maker *f, struct ht_value condition, struct ht_value a, struct ht_value b)
{
	const struct ht_value in[] = { condition, a, b };
	struct ht_shape s = ht_type_of(b)->shape;

	return node(f, HT_OP_SelectV2, in, 3, HT_I64, s);
}

static struct ht_value own_size(
	struct maker *f, const struct ht_node *n, int32_t i, const struct meeting *m)
{
	return extent(f, n, i, ht_meeting_axis(n, m->group, i));
}

static struct ht_value is_one(struct maker *f, struct ht_value size)
{
	return binary(f, HT_OP_Equal, size, whole(f, HT_I64, 1));
}

/* The size that all have to have: the fixed one, or the first one that is not 1 and so not repeated. */
static struct ht_value result_size(
	struct maker *f, const struct ht_node *n, const struct meeting *m)
{
	struct ht_value size = whole(f, HT_I64, m->fixed);
	bool some = m->fixed >= 0;

	for (int32_t i = m->fixed < 0 ? n->ins : 0; i-- > 0;) {
		struct ht_value own;

		if (is_apart(n, i, m))
			continue;
		own = own_size(f, n, i, m);
		size = some && m->repeats ? select_of(f, is_one(f, own), size, own) : own;
		some = true;
	}
	return size;
}

/* Whether the size of operand `i` is neither that of the result nor repeated. */
static struct ht_value differs(struct maker *f, const struct ht_node *n, int32_t i,
	const struct meeting *m, struct ht_value size)
{
	struct ht_value own = own_size(f, n, i, m), other = binary(f, HT_OP_NotEqual, own, size);

	if (!m->repeats)
		return other;
	return binary(f, HT_OP_LogicalAnd, other, unary(f, HT_OP_LogicalNot, is_one(f, own)));
}

/* Whether the size of some operand neither is that of the result nor is repeated. */
static struct ht_value some_differ(
	struct maker *f, const struct ht_node *n, const struct meeting *m, struct ht_value size)
{
	struct ht_value any = { 0 };

	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_value one;

		if (dim_of(n, i, m) >= 0)
			continue;
		one = differs(f, n, i, m, size);
		any = any.node ? binary(f, HT_OP_LogicalOr, any, one) : one;
	}
	return any;
}

/* 0; the run stops where some sizes differ. */
static struct ht_value check_sizes(
	struct maker *f, const struct ht_node *n, const struct meeting *m, struct ht_value size)
{
	struct ht_value any = some_differ(f, n, m, size);

	any = only_zero(f, cast_to(f, any, HT_I32));
	return cast_to(f, any, HT_I64);
}

/* The indices of the result.  What compares the sizes is evaluated even if the result has no elements. */
static void number_result(struct maker *f, const struct ht_node *n, struct meeting *m)
{
	struct ht_value size = result_size(f, n, m), check;

	if (m->fixed == 0) {
		m->numbers = numbers(f, HT_I64, 0);
		return;
	}
	check = check_sizes(f, n, m, size);
	if (m->fixed > 0)
		m->numbers = binary(f, HT_OP_AddV2, numbers(f, HT_I64, m->fixed), check);
	else
		m->numbers = squeezed(f, counted(f, binary(f, HT_OP_AddV2, size, check), m->most));
}

/* A result of a fixed size without elements computes nothing that could stop the run. */
static void expect_none(struct maker *f, struct ht_node *n, const struct meeting *m)
{
	struct ht_value differ = some_differ(f, n, m, whole(f, HT_I64, 0));

	expect(f, n, unary(f, HT_OP_LogicalNot, differ),
		"a size that meets one of 0 has to be 0, or 1 where it is repeated", NULL, 0);
}

/* Operand `i` as long as the result. */
static struct ht_value as_long(
	struct maker *f, const struct ht_node *n, int32_t i, const struct meeting *m)
{
	int32_t axis = ht_meeting_axis(n, m->group, i);
	struct ht_value one;

	if (!m->repeats || m->fixed == 0)
		return gathered(f, n->in[i], m->numbers, axis);
	one = is_one(f, own_size(f, n, i, m));
	return gathered(f, n->in[i], select_of(f, one, whole(f, HT_I64, 0), m->numbers), axis);
}

static void expand_group(struct maker *f, struct ht_node *n, struct meeting *m)
{
	number_result(f, n, m);
	if (m->fixed == 0)
		expect_none(f, n, m);
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_type t = *ht_type_of(n->in[i]);

		if (dim_of(n, i, m) >= 0)
			continue;
		ht_rw_set_in(f->r, n, i, as_long(f, n, i, m));
		n->in[i].node->out[0].shape = open_shape(f, t.shape.rank);
	}
}

bool ht_expand_meeting(struct maker *f, struct ht_node *n)
{
	struct meeting m;

	for (int32_t k = 0, groups = ht_meeting_groups(n); k < groups; k++)
		if (find_meeting(f->r->g, n, k, &m)) {
			expand_group(f, n, &m);
			return true; /* further axes when the types are known again */
		}
	return false;
}
