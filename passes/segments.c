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
#include "passes/rewrite.h"

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
	struct ht_rw *r;
	struct ht_node *at; /* the node that is replaced */
	struct ht_value ids;
	enum ht_dtype type; /* of ids and their number */
};

/* ---- nodes in front of the node ---- */

static struct ht_value node(struct segments *x, enum ht_op op, const struct ht_value *in,
	int32_t ins, enum ht_dtype t, struct ht_shape s)
{
	struct ht_node *n =
		ht_rw_node(x->r, x->at, op, x->at->name, in, ins, (struct ht_type){ t, s });

	return ht_out(n, 0);
}

static struct ht_value number(struct segments *x, enum ht_dtype t, int64_t v)
{
	return ht_rw_scalar(x->r, x->at, x->at->name, t, v);
}

static struct ht_value two(struct segments *x, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(x->r, x->at, op, x->at->name, a, b);
}

static struct ht_value compared(
	struct segments *x, enum ht_op op, struct ht_value a, struct ht_value b)
{
	struct ht_value v = two(x, op, a, b);

	v.node->out[0].dtype = HT_BOOL;
	return v;
}

static struct ht_value cast(struct segments *x, struct ht_value v, enum ht_dtype t)
{
	return ht_type_of(v)->dtype == t ? v : ht_rw_cast(x->r, x->at, x->at->name, v, t);
}

static struct ht_shape unknown_of_rank(struct segments *x, int32_t rank)
{
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < rank; i++)
		dim[i] = HT_DIM_UNKNOWN;
	return ht_shape_make(x->r->g->arena, rank, dim);
}

static struct ht_value gathered(
	struct segments *x, struct ht_value params, struct ht_value at, int32_t rank)
{
	enum ht_dtype t = ht_type_of(params)->dtype;
	struct ht_value in[] = { params, at, number(x, HT_I32, 0) };
	struct ht_value v = node(x, HT_OP_GatherV2, in, 3, t, unknown_of_rank(x, rank));

	ht_attr_set_type(v.node, "Tparams", t);
	ht_attr_set_type(v.node, "Tindices", ht_type_of(at)->dtype);
	ht_attr_set_type(v.node, "Taxis", HT_I32);
	return v;
}

/* ---- the number of segments ---- */

/* One more than the largest of constant ids. */
static bool known_count(struct segments *x, int64_t *count)
{
	int64_t *id;
	size_t n;

	if (!ht_const_ints(x->ids, x->r->arena, &id, &n))
		return false;
	*count = 0;
	for (size_t i = 0; i < n; i++)
		if (id[i] >= *count && id[i] < INT64_MAX)
			*count = id[i] + 1;
	return true;
}

/* The number of elements of a vector of ids. */
static struct ht_value rows_in(struct segments *x, struct ht_value ids)
{
	enum ht_dtype t = ht_type_of(ids)->dtype;
	struct ht_value v = node(x, HT_OP_Size, &ids, 1, t, HT_SHAPE_SCALAR);

	ht_attr_set_type(v.node, "T", t);
	ht_attr_set_type(v.node, "out_type", t);
	return v;
}

/* The first `count` ids. */
static struct ht_value first_ids(struct segments *x, int64_t count)
{
	const int64_t begin = 0;
	struct ht_value in[3] = { x->ids }, v;

	in[1] = ht_rw_const_ints(x->r, x->at, x->at->name, HT_I64, &begin, 1);
	in[2] = ht_rw_const_ints(x->r, x->at, x->at->name, HT_I64, &count, 1);
	v = node(x, HT_OP_Slice, in, 3, x->type, (struct ht_shape){ 1, &count });
	ht_attr_set_type(v.node, "T", x->type);
	ht_attr_set_type(v.node, "Index", HT_I64);
	return v;
}

/* The id before each of the ids; 0 before the first. */
static struct ht_value ids_before(struct segments *x, int64_t count)
{
	const int64_t zero = 0;
	struct ht_value in[3], v;

	in[0] = ht_rw_const_ints(x->r, x->at, x->at->name, x->type, &zero, 1);
	in[1] = first_ids(x, count - 1);
	in[2] = number(x, HT_I32, 0);
	v = node(x, HT_OP_ConcatV2, in, 3, x->type, (struct ht_shape){ 1, &count });
	ht_attr_set_int(v.node, "N", 2);
	ht_attr_set_type(v.node, "T", x->type);
	ht_attr_set_type(v.node, "Tidx", HT_I32);
	return v;
}

/* 0 where the ids are sorted and not negative.  Elsewhere the run stops, since twice a true
 * condition is no valid index of a list of two. */
static struct ht_value only_sorted(struct segments *x)
{
	static const int64_t zeros[2];
	const int64_t axis = 0;
	int64_t n = ht_type_of(x->ids)->shape.dim[0];
	struct ht_value list = ht_rw_const_ints(x->r, x->at, x->at->name, HT_I32, zeros, 2), bad;

	bad = compared(x, HT_OP_Less, x->ids, ids_before(x, n));
	bad = ht_rw_reduce(x->r, x->at, HT_OP_Any, x->at->name, bad, &axis, 1, false);
	bad = cast(x, bad, HT_I32);
	return gathered(x, list, two(x, HT_OP_Mul, bad, number(x, HT_I32, 2)), 0);
}

static struct ht_value computed_count(struct segments *x)
{
	const int64_t axis = 0;
	struct ht_value v =
		ht_rw_reduce(x->r, x->at, HT_OP_Max, x->at->name, x->ids, &axis, 1, false);
	struct ht_value room;

	v = two(x, HT_OP_AddV2, v, number(x, x->type, 1));
	v = two(x, HT_OP_Maximum, v, number(x, x->type, 0));
	room = rows_in(x, x->ids);
	room = two(x, HT_OP_Maximum, room, number(x, x->type, ROOM));
	v = two(x, HT_OP_Minimum, v, room);
	if (ht_type_of(x->ids)->shape.dim[0] < 1)
		return v;
	return two(x, HT_OP_AddV2, v, cast(x, only_sorted(x), x->type));
}

static struct ht_value count_of(struct segments *x)
{
	int64_t known;

	return known_count(x, &known) ? number(x, x->type, known) : computed_count(x);
}

/* ---- the new nodes ---- */

static struct ht_value of_segments(
	struct segments *x, enum ht_op op, struct ht_value data, struct ht_value count)
{
	struct ht_type t = *ht_type_of(data);
	struct ht_value in[] = { data, x->ids, count };
	struct ht_value v = node(x, op, in, 3, t.dtype, unknown_of_rank(x, t.shape.rank));

	ht_attr_set_type(v.node, "T", t.dtype);
	ht_attr_set_type(v.node, "Tindices", x->type);
	ht_attr_set_type(v.node, "Tnumsegments", ht_type_of(count)->dtype);
	return v;
}

/* A number for each segment, as a tensor of `rank` axes. */
static struct ht_value with_axes(struct segments *x, struct ht_value v, int32_t rank)
{
	for (int32_t i = 1; i < rank; i++) {
		struct ht_value in[] = { v, number(x, HT_I32, -1) };
		enum ht_dtype t = ht_type_of(v)->dtype;

		v = node(x, HT_OP_ExpandDims, in, 2, t, unknown_of_rank(x, i + 1));
		ht_attr_set_type(v.node, "T", t);
		ht_attr_set_type(v.node, "Tdim", HT_I32);
	}
	return v;
}

/* How many rows each segment has. */
static struct ht_value rows_of_each(struct segments *x, struct ht_value count)
{
	struct ht_value one =
		ht_rw_unary(x->r, x->at, HT_OP_OnesLike, x->at->name, cast(x, x->ids, HT_I32));

	return of_segments(x, HT_OP_UnsortedSegmentSum, one, count);
}

static struct ht_value divided(
	struct segments *x, const struct form *f, struct ht_value sum, struct ht_value each)
{
	struct ht_type t = *ht_type_of(sum);
	struct ht_value by = cast(x, two(x, HT_OP_Maximum, each, number(x, HT_I32, 1)), t.dtype);

	if (f->root)
		by = ht_rw_unary(x->r, x->at, HT_OP_Sqrt, x->at->name, by);
	return two(x, f->divides, sum, with_axes(x, by, t.shape.rank));
}

static struct ht_value zero_without_rows(
	struct segments *x, struct ht_value v, struct ht_value each)
{
	struct ht_type t = *ht_type_of(v);
	struct ht_value some = compared(x, HT_OP_Greater, each, number(x, HT_I32, 0));
	struct ht_value in[3] = { [1] = v }, chosen;

	in[0] = with_axes(x, some, t.shape.rank);
	in[2] = number(x, t.dtype, 0);
	chosen = node(x, HT_OP_SelectV2, in, 3, t.dtype, t.shape);
	ht_attr_set_type(chosen.node, "T", t.dtype);
	return chosen;
}

/* How many rows operand 0 has. */
static struct ht_value first_extent(struct segments *x)
{
	const int64_t rank = ht_type_of(x->at->in[0])->shape.rank;
	struct ht_value in[2] = { [1] = number(x, HT_I32, 0) }, v;

	in[0] = node(x, HT_OP_Shape, x->at->in, 1, x->type, (struct ht_shape){ 1, &rank });
	ht_attr_set_type(in[0].node, "T", ht_type_of(x->at->in[0])->dtype);
	ht_attr_set_type(in[0].node, "out_type", x->type);
	v = node(x, HT_OP_Gather, in, 2, x->type, HT_SHAPE_SCALAR);
	ht_attr_set_type(v.node, "Tparams", x->type);
	ht_attr_set_type(v.node, "Tindices", HT_I32);
	return v;
}

/* Which elements of a vector of distinct numbers come first. */
static struct ht_value order_of(struct segments *x, struct ht_value v)
{
	enum ht_dtype t = ht_type_of(v)->dtype;
	struct ht_value in[2] = { ht_rw_unary(x->r, x->at, HT_OP_Neg, x->at->name, v) };
	struct ht_node *sorted;

	in[1] = cast(x, rows_in(x, v), HT_I32);
	sorted = node(x, HT_OP_TopKV2, in, 2, t, unknown_of_rank(x, 1)).node;
	ht_attr_set_type(sorted, "T", t);
	ht_attr_set_type(sorted, "Tk", HT_I32);
	ht_attr_set_type(sorted, "index_type", HT_I32);
	ht_attr_set_bool(sorted, "sorted", true);
	ht_node_set_outs(sorted, 2);
	sorted->out[1] = (struct ht_type){ HT_I32, unknown_of_rank(x, 1) };
	return ht_out(sorted, 1);
}

/* Numbers the distinct ids in their order, which become result 1 of the node: returns how many there are, and sets the ids to these numbers. */
static struct ht_value number_ids(struct segments *x)
{
	struct ht_node *unique =
		node(x, HT_OP_Unique, &x->ids, 1, x->type, unknown_of_rank(x, 1)).node;
	struct ht_value order, sorted;

	ht_attr_set_type(unique, "T", x->type);
	ht_attr_set_type(unique, "out_idx", HT_I32);
	ht_node_set_outs(unique, 2);
	unique->out[1] = (struct ht_type){ HT_I32, ht_type_of(x->ids)->shape };
	order = order_of(x, ht_out(unique, 0));
	sorted = gathered(x, ht_out(unique, 0), order, 1);
	ht_rw_replace(x->r, ht_out(x->at, 1), sorted);
	x->ids = gathered(x, order_of(x, order), ht_out(unique, 1), 1);
	x->type = HT_I32;
	return cast(x, rows_in(x, ht_out(unique, 0)), HT_I32);
}

/* The gradient of rows: that of each one's segment, divided as the sum was, and added up for equal rows. */
static void expand_gradient(struct segments *x, const struct form *f, int32_t rank)
{
	struct ht_node *n = x->at;
	struct ht_value grad = n->in[0], count = n->in[3];

	if (f->divides != HT_OP_OPAQUE)
		grad = divided(x, f, grad, rows_of_each(x, first_extent(x)));
	grad = gathered(x, grad, x->ids, rank);
	x->ids = n->in[1];
	x->type = ht_type_of(x->ids)->dtype;
	if (n->outs > 1)
		count = number_ids(x);
	grad = of_segments(x, f->becomes, grad, count);
	ht_rw_set_controls(x->r, grad.node, n->control, n->controls);
	ht_rw_take_place(x->r, n, grad);
}

static void expand(struct ht_rw *r, struct ht_node *n)
{
	const struct form *f = form_of(n);
	struct segments x = { .r = r, .at = n };
	struct ht_value data, count, v;
	int32_t rank;

	if (!f)
		return;
	x.ids = n->in[f->gathers ? 2 : 1];
	x.type = ht_type_of(x.ids)->dtype;
	rank = ht_type_of(n->in[0])->shape.rank;
	if (rank < 1 || rank > HT_MAX_RANK || ht_type_of(x.ids)->shape.rank != 1 ||
		(x.type != HT_I32 && x.type != HT_I64))
		return;
	if (f->gradient) {
		expand_gradient(&x, f, rank);
		return;
	}
	data = f->gathers ? gathered(&x, n->in[0], n->in[1], rank) : n->in[0];
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
