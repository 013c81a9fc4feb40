/* segments: reductions of rows whose segment ids are sorted become reductions of rows in any
 * order.
 *
 * SegmentSum, Mean, Prod, Max and Min have as many results as the last id says;
 * UnsortedSegmentSum and its kin get that number as an operand.  Ids that are not sorted stop
 * the run, if the number of rows is known.  Ids may be any numbers, so there is room for as many
 * segments as rows, and for at least ROOM; a larger id stops the run.  A mean is a sum divided
 * by the number of rows.  The maximum of no rows is 0 here.
 *
 * SparseSegmentSum, Mean and SqrtN gather their rows first.  Their gradients divide the gradient of each
 * segment, and gather it for each row.  In the second version the distinct rows are numbered, and only these have a gradient.
 *
 * The pass also changes nodes in the bodies of functions.  Left alone: data or ids of unknown
 * rank. */
#include "passes/maker.h"

enum { ROOM = 1024 };

static const struct form {
	enum ht_op op, becomes;
	enum ht_op divides; /* the op that divides a sum by the number of its rows; HT_OP_OPAQUE:
			  * none */
	bool gathers;       /* operands: data, indices, ids; else data and ids */
	bool root;          /* by the square root of the number */
	bool extreme;       /* a maximum or minimum, which is 0 for no rows */
	bool gradient; /* operand 0 is the gradient by the results of the segments, a slice for each */
} forms[] = {
	{ .op = HT_OP_SegmentSum, .becomes = HT_OP_UnsortedSegmentSum },
	{ .op = HT_OP_SegmentProd, .becomes = HT_OP_UnsortedSegmentProd },
	{ .op = HT_OP_SegmentMean, .becomes = HT_OP_UnsortedSegmentSum, .divides = HT_OP_Div },
	{ .op = HT_OP_SegmentMax, .becomes = HT_OP_UnsortedSegmentMax, .extreme = true },
	{ .op = HT_OP_SegmentMin, .becomes = HT_OP_UnsortedSegmentMin, .extreme = true },
	{ .op = HT_OP_SegmentSumV2, .becomes = HT_OP_UnsortedSegmentSum },
	{ .op = HT_OP_SegmentProdV2, .becomes = HT_OP_UnsortedSegmentProd },
	{ .op = HT_OP_SegmentMaxV2, .becomes = HT_OP_UnsortedSegmentMax },
	{ .op = HT_OP_SegmentMinV2, .becomes = HT_OP_UnsortedSegmentMin },
	{ .op = HT_OP_SparseSegmentSum, .becomes = HT_OP_UnsortedSegmentSum, .gathers = true },
	{ .op = HT_OP_SparseSegmentMean,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true },
	{ .op = HT_OP_SparseSegmentSqrtN,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true,
		.root = true },
	{ .op = HT_OP_SparseSegmentSumWithNumSegments,
		.becomes = HT_OP_UnsortedSegmentSum,
		.gathers = true },
	{ .op = HT_OP_SparseSegmentMeanWithNumSegments,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true },
	{ .op = HT_OP_SparseSegmentSqrtNWithNumSegments,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true,
		.root = true },
	{ .op = HT_OP_SparseSegmentSumGrad,
		.becomes = HT_OP_UnsortedSegmentSum,
		.gathers = true,
		.gradient = true },
	{ .op = HT_OP_SparseSegmentMeanGrad,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true,
		.gradient = true },
	{ .op = HT_OP_SparseSegmentSqrtNGrad,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true,
		.root = true,
		.gradient = true },
	{ .op = HT_OP_SparseSegmentSumGradV2,
		.becomes = HT_OP_UnsortedSegmentSum,
		.gathers = true,
		.gradient = true },
	{ .op = HT_OP_SparseSegmentMeanGradV2,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true,
		.gradient = true },
	{ .op = HT_OP_SparseSegmentSqrtNGradV2,
		.becomes = HT_OP_UnsortedSegmentSum,
		.divides = HT_OP_Div,
		.gathers = true,
		.root = true,
		.gradient = true },
};

static const struct form *form_of(const struct ht_node *n)
{
	for (size_t i = 0; i < HT_COUNT(forms); i++)
		if (n->op == forms[i].op)
			return &forms[i];
	return NULL;
}

struct segments {
	struct maker m; /* at: the node that is replaced */
	struct ht_value ids;
	enum ht_dtype type; /* of ids and their number */
};

/* ---- the number of segments ---- */

/* One more than the largest of constant ids. */
static bool known_count(struct segments *x, int64_t *count)
{
	int64_t *id;
	size_t n;

	if (!ht_const_ints(x->ids, x->m.r->arena, &id, &n))
		return false;
	*count = 0;
	for (size_t i = 0; i < n; i++)
		if (id[i] >= *count && id[i] < INT64_MAX)
			*count = id[i] + 1;
	return true;
}

/* The first `count` ids. */
static struct ht_value first_ids(struct segments *x, int64_t count)
{
	const int64_t begin = 0;
	const struct ht_value in[] = { x->ids, wholes(&x->m, HT_I64, &begin, 1),
		wholes(&x->m, HT_I64, &count, 1) };

	return made(&x->m, HT_OP_Slice, in, 3, vector_of(&x->m, count));
}

/* The id before each of the ids; 0 before the first. */
static struct ht_value ids_before(struct segments *x, int64_t count)
{
	const int64_t zero = 0;
	struct ht_value first = wholes(&x->m, x->type, &zero, 1);

	return joined_pair(&x->m, first, first_ids(x, count - 1), 0);
}

/* 0 where the ids are sorted and not negative.  Elsewhere the run stops, since twice a true
 * condition is no valid index of a list of two. */
static struct ht_value only_sorted(struct segments *x)
{
	static const int64_t zeros[2];
	struct maker *m = &x->m;
	int64_t n = ht_type_of(x->ids)->shape.dim[0];
	struct ht_value bad = binary(m, HT_OP_Less, x->ids, ids_before(x, n));

	bad = cast_to(m, reduced(m, HT_OP_Any, bad, 0, false), HT_I32);
	bad = binary(m, HT_OP_Mul, bad, whole(m, HT_I32, 2));
	return at_rows(m, wholes(m, HT_I32, zeros, 2), bad, 0);
}

static struct ht_value computed_count(struct segments *x)
{
	struct maker *m = &x->m;
	struct ht_value v = reduced(m, HT_OP_Max, x->ids, 0, false), room;

	v = binary(m, HT_OP_AddV2, v, whole(m, x->type, 1));
	v = binary(m, HT_OP_Maximum, v, whole(m, x->type, 0));
	room = size_of(m, x->ids, x->type);
	room = binary(m, HT_OP_Maximum, room, whole(m, x->type, ROOM));
	v = binary(m, HT_OP_Minimum, v, room);
	if (ht_type_of(x->ids)->shape.dim[0] < 1)
		return v;
	return binary(m, HT_OP_AddV2, v, cast_to(m, only_sorted(x), x->type));
}

static struct ht_value count_of(struct segments *x)
{
	int64_t known;

	return known_count(x, &known) ? whole(&x->m, x->type, known) : computed_count(x);
}

/* ---- the new nodes ---- */

static struct ht_value of_segments(
	struct segments *x, enum ht_op op, struct ht_value data, struct ht_value count)
{
	const struct ht_value in[] = { data, x->ids, count };

	return made(&x->m, op, in, 3, open_shape(&x->m, ht_type_of(data)->shape.rank));
}

/* A number for each segment, as a tensor of `rank` axes. */
static struct ht_value with_axes(struct segments *x, struct ht_value v, int32_t rank)
{
	for (int32_t i = 1; i < rank; i++)
		v = with_axis(&x->m, v, -1);
	return v;
}

/* How many rows each segment has. */
static struct ht_value rows_of_each(struct segments *x, struct ht_value count)
{
	struct ht_value ones = unary(&x->m, HT_OP_OnesLike, cast_to(&x->m, x->ids, HT_I32));

	return of_segments(x, HT_OP_UnsortedSegmentSum, ones, count);
}

static struct ht_value divided(
	struct segments *x, const struct form *f, struct ht_value sum, struct ht_value each)
{
	struct maker *m = &x->m;
	struct ht_type t = *ht_type_of(sum);
	struct ht_value by =
		cast_to(m, binary(m, HT_OP_Maximum, each, whole(m, HT_I32, 1)), t.dtype);

	if (f->root)
		by = unary(m, HT_OP_Sqrt, by);
	return binary(m, f->divides, sum, with_axes(x, by, t.shape.rank));
}

static struct ht_value zero_without_rows(
	struct segments *x, struct ht_value v, struct ht_value each)
{
	struct maker *m = &x->m;
	struct ht_type t = *ht_type_of(v);
	struct ht_value some = binary(m, HT_OP_Greater, each, whole(m, HT_I32, 0));

	some = with_axes(x, some, t.shape.rank);
	return chosen(m, some, v, whole(m, t.dtype, 0));
}

/* The node gets a second result, of integers, which is returned. */
static struct ht_value second_result(struct ht_value v, struct ht_shape s)
{
	ht_node_set_outs(v.node, 2);
	v.node->out[1] = (struct ht_type){ HT_I32, s };
	return ht_out(v.node, 1);
}

/* Which elements of a vector of distinct numbers come first. */
static struct ht_value order_of(struct maker *m, struct ht_value v)
{
	const struct ht_value in[] = { unary(m, HT_OP_Neg, v), size_of(m, v, HT_I32) };
	struct ht_value sorted = made(m, HT_OP_TopKV2, in, 2, open_shape(m, 1));

	ht_attr_set_bool(sorted.node, "sorted", true);
	return second_result(sorted, open_shape(m, 1));
}

/* Numbers the distinct ids in their order, which become result 1 of the node: returns how many there are, and sets the ids to these numbers. */
static struct ht_value number_ids(struct segments *x)
{
	struct maker *m = &x->m;
	struct ht_value unique = made(m, HT_OP_Unique, &x->ids, 1, open_shape(m, 1));
	struct ht_value number = second_result(unique, ht_type_of(x->ids)->shape), order;

	order = order_of(m, unique);
	ht_rw_replace(m->r, ht_out(m->at, 1), at_rows(m, unique, order, 1));
	x->ids = at_rows(m, order_of(m, order), number, 1);
	x->type = HT_I32;
	return size_of(m, unique, HT_I32);
}

/* The gradient of rows: that of each one's segment, divided as the sum was, and added up for equal rows. */
static void expand_gradient(struct segments *x, const struct form *f, int32_t rank)
{
	struct maker *m = &x->m;
	struct ht_node *n = m->at;
	struct ht_value grad = n->in[0], count = n->in[3];

	if (f->divides != HT_OP_OPAQUE)
		grad = divided(x, f, grad, rows_of_each(x, extent_of(m, n->in[0], 0, x->type)));
	grad = at_rows(m, grad, x->ids, rank);
	x->ids = n->in[1];
	x->type = ht_type_of(x->ids)->dtype;
	if (n->outs > 1)
		count = number_ids(x);
	grad = of_segments(x, f->becomes, grad, count);
	ht_rw_set_controls(m->r, grad.node, n->control, n->controls);
	ht_rw_take_place(m->r, n, grad);
}

static void expand(struct ht_rw *r, struct ht_node *n)
{
	const struct form *f = form_of(n);
	struct segments x = { .m = { .r = r, .at = n, .name = n->name } };
	struct ht_value data, count, v;
	int32_t rank;

	if (!f)
		return;
	x.ids = n->in[f->gathers ? 2 : 1];
	x.type = ht_type_of(x.ids)->dtype;
	rank = ht_type_of(n->in[0])->shape.rank;
	if (rank < 1 || rank > HT_MAX_RANK || ht_type_of(x.ids)->shape.rank != 1 ||
		!ht_is_index(x.type))
		return;
	if (f->gradient) {
		expand_gradient(&x, f, rank);
		return;
	}
	data = f->gathers ? at_rows(&x.m, n->in[0], n->in[1], rank) : n->in[0];
	count = n->ins > (f->gathers ? 3 : 2) ? n->in[n->ins - 1] : count_of(&x);
	v = of_segments(&x, f->becomes, data, count);
	if (f->divides != HT_OP_OPAQUE)
		v = divided(&x, f, v, rows_of_each(&x, count));
	if (f->extreme)
		v = zero_without_rows(&x, v, rows_of_each(&x, count));
	ht_rw_set_controls(r, v.node, n->control, n->controls);
	ht_rw_take_place(r, n, v);
}

/* ---- the pass ---- */

static bool wants(const struct ht_node *n)
{
	return form_of(n) != NULL;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_everywhere(g, c, wants, expand);
}

const struct ht_pass ht_pass_segments = {
	.name = "segments",
	.summary =
		"makes sums of sorted segments, and of gathered rows, sums of segments in any order",
	.run = run,
};
