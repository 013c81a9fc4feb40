/* Values of small tensors that follow from constants and shapes.
 *
 * Graphs compute shapes: Shape → StridedSlice → Pack → Reshape.  This file infers such values
 * element by element, so that one unknown size (the batch) does not hide the others.  It does not
 * fold constants: a pass folds nodes with known operands through the interpreter. */
#include "ir/infer.h"

/* Values of tensors of up to FEW elements are always inferred, since shapes are no longer than
 * that. For longer tensors, a graph may use LONGER elements for each node, plus AT_LEAST. */
enum { FEW = 8, LONGER = 32, AT_LEAST = 1 << 20 };

static bool is_too_much(struct ht_infer *in, int64_t count)
{
	if (count <= FEW)
		return false;
	if (*in->longer + (size_t)count > in->g->nodes * LONGER + AT_LEAST)
		return true;
	*in->longer += (size_t)count;
	return false;
}

/* Memory for the `count` elements of result `r` of `n`, all unknown; NULL: they are too many. */
static struct ht_elem *result(
	struct ht_infer *in, const struct ht_node *n, int32_t r, int64_t count)
{
	struct ht_known **known = &in->known[n->id];

	if (count < 0 || count > HT_MAX_KNOWN || is_too_much(in, count))
		return NULL;
	if (!*known)
		*known = HT_NEW_ARRAY(in->scratch, struct ht_known, (size_t)n->outs);
	(*known)[r].n = (int32_t)count;
	(*known)[r].e = HT_NEW_ARRAY(in->scratch, struct ht_elem, (size_t)count);
	return (*known)[r].e;
}

static bool is_float(enum ht_dtype t)
{
	return t == HT_F32 || t == HT_F64;
}

static struct ht_elem *typed_result(struct ht_infer *in, const struct ht_node *n)
{
	return n->out[0].shape.rank > 2 ? NULL : result(in, n, 0, ht_shape_count(n->out[0].shape));
}

/* ---- rules ---- */

typedef void rule(struct ht_infer *in, struct ht_node *n);

/* Numbers times open sizes, in a program that has them (passes/bounded_values.c). */
static void value_sizes(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_graph *home = in->g->library;
	struct ht_elem *e = home->sizes && !home->closed ? typed_result(in, n) : NULL;
	int64_t of[1 + HT_DIM_SIZES];

	for (int64_t i = 0; e && i < ht_shape_count(n->out[0].shape); i++) {
		if (!ht_stated_product(n, i, of))
			continue;
		for (int k = 1; k <= HT_DIM_SIZES && of[k]; k++)
			of[0] = ht_dim_mul(in, of[0], home->size[of[k] - 1].dim);
		e[i] = ht_elem_of_dim(of[0]);
	}
}

/* The result has the elements of the operand. */
static void value_same(struct ht_infer *in, struct ht_node *n)
{
	for (int32_t r = 0; r < n->outs && r < n->ins; r++) {
		const struct ht_known *k =
			ht_in_nothing_known(in, n, r) ? NULL : ht_in_known(in, n, r);
		struct ht_elem *e = k ? result(in, n, r, k->n) : NULL;

		for (int32_t i = 0; e && i < k->n; i++)
			e[i] = k->e[i];
	}
}

/* The result of Reshape and the like has the elements of operand 0. */
static void value_first(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0);
	struct ht_elem *e = k ? result(in, n, 0, k->n) : NULL;

	for (int32_t i = 0; e && i < k->n; i++)
		e[i] = k->e[i];
}

static void value_shape(struct ht_infer *in, struct ht_node *n)
{
	for (int32_t r = 0; r < n->outs; r++) {
		struct ht_shape s = ht_in_shape(n, r);
		struct ht_elem *e = s.rank < 0 ? NULL : result(in, n, r, s.rank);

		for (int32_t i = 0; e && i < s.rank; i++)
			e[i] = ht_elem_of_dim(s.dim[i]);
	}
}

static void value_size(struct ht_infer *in, struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	struct ht_size_expr count = ht_size_number(s.rank < 0 ? -1 : 1);
	int64_t dim;

	for (int32_t i = 0; i < s.rank; i++)
		count = ht_size_product(count, ht_dim_product(in->g, s.dim[i]));
	dim = ht_dim_of_product(in->g, count);
	if (dim != HT_DIM_UNKNOWN)
		result(in, n, 0, 1)[0] = ht_elem_of_dim(dim);
}

static void value_rank(struct ht_infer *in, struct ht_node *n)
{
	if (ht_in_shape(n, 0).rank >= 0)
		result(in, n, 0, 1)[0] = ht_elem_int(ht_in_shape(n, 0).rank);
}

static void gather_scalars(struct ht_infer *in, struct ht_node *n, int32_t first, int32_t end)
{
	struct ht_elem *e;
	int64_t count = 0, at = 0;

	for (int32_t i = first; i < end; i++) {
		const struct ht_known *k = ht_in_known(in, n, i);

		if (!k || ht_in_shape(n, i).rank > 1)
			return;
		count += k->n;
	}
	e = result(in, n, 0, count);
	for (int32_t i = first; e && i < end; i++) {
		const struct ht_known *k = ht_in_known(in, n, i);

		for (int32_t j = 0; j < k->n; j++)
			e[at++] = k->e[j];
	}
}

static void value_pack(struct ht_infer *in, struct ht_node *n)
{
	if (n->out[0].shape.rank == 1)
		gather_scalars(in, n, 0, n->ins);
}

static void value_concat(struct ht_infer *in, struct ht_node *n)
{
	if (n->out[0].shape.rank == 1)
		gather_scalars(
			in, n, n->op == HT_OP_Concat, n->op == HT_OP_Concat ? n->ins : n->ins - 1);
}

static void value_unpack(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0);

	for (int32_t r = 0; k && k->n == n->outs && r < n->outs; r++)
		result(in, n, r, 1)[0] = k->e[r];
}

static void value_split(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, n->op == HT_OP_Split ? 1 : 0);
	int64_t at = 0;

	if (!k || ht_in_shape(n, n->op == HT_OP_Split ? 1 : 0).rank != 1)
		return;
	for (int32_t r = 0; r < n->outs; r++) {
		int64_t count = ht_shape_count(n->out[r].shape);
		struct ht_elem *e;

		if (count < 0 || at + count > k->n)
			return;
		e = result(in, n, r, count);
		for (int64_t i = 0; e && i < count; i++)
			e[i] = k->e[at++];
	}
}

/* A slice of a vector, with one entry: begin, end, stride. */
static void value_strided_slice(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0), *s = ht_in_known(in, n, 3);
	int64_t begin = 0, stride, count = ht_shape_count(n->out[0].shape);
	struct ht_elem *e;

	if (!k || !s || s->n != 1 || s->e[0].kind != HT_ELEM_INT || ht_in_shape(n, 0).rank != 1 ||
		count < 0 || ht_attr_int(n, "ellipsis_mask", 0) ||
		ht_attr_int(n, "new_axis_mask", 0))
		return;
	stride = s->e[0].i;
	if (!(ht_attr_int(n, "begin_mask", 0) & 1) || ht_attr_int(n, "shrink_axis_mask", 0)) {
		if (!ht_in_int(in, n, 1, &begin))
			return;
		begin = begin < 0 ? begin + k->n : begin;
		begin = begin < 0 ? 0 : begin;
		if (stride < 0 && begin >= k->n)
			begin = k->n - 1;
	} else if (stride < 0) {
		begin = k->n - 1;
	}
	e = result(in, n, 0, count);
	for (int64_t i = 0; e && i < count; i++) {
		int64_t at = begin + i * stride;

		if (at >= 0 && at < k->n)
			e[i] = k->e[at];
	}
}

static void value_slice(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0);
	int64_t begin, count = ht_shape_count(n->out[0].shape);
	struct ht_elem *e;

	if (!k || ht_in_shape(n, 0).rank != 1 || count < 0 || !ht_in_int(in, n, 1, &begin))
		return;
	e = result(in, n, 0, count);
	for (int64_t i = 0; e && i < count; i++)
		if (begin >= 0 && begin + i < k->n)
			e[i] = k->e[begin + i];
}

static void value_gather(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0), *x = ht_in_known(in, n, 1);
	struct ht_elem *e;

	if (!k || !x || ht_in_shape(n, 0).rank != 1)
		return;
	e = result(in, n, 0, x->n);
	for (int32_t i = 0; e && i < x->n; i++)
		if (x->e[i].kind == HT_ELEM_INT && x->e[i].i >= 0 && x->e[i].i < k->n)
			e[i] = k->e[x->e[i].i];
}

/* The result of DynamicStitch has a number of its data at each known index; of equal indices the last one counts. */
static void value_stitch(struct ht_infer *in, struct ht_node *n)
{
	const int32_t count = n->ins / 2;
	int64_t all = n->out[0].shape.rank == 1 ? ht_shape_count(n->out[0].shape) : -1;
	struct ht_elem *e = all < 0 ? NULL : result(in, n, 0, all);

	for (int32_t i = 0; e && i < count; i++) {
		const struct ht_known *at = ht_in_known(in, n, i),
				      *k = ht_in_known(in, n, count + i);

		for (int32_t j = 0; at && at->e && j < at->n; j++)
			if (at->e[j].kind == HT_ELEM_INT && at->e[j].i >= 0 && at->e[j].i < all)
				e[at->e[j].i] =
					k && k->e && j < k->n ? k->e[j] : (struct ht_elem){ 0 };
	}
}

static void value_reverse(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0), *axes = ht_in_known(in, n, 1);
	struct ht_elem *e;

	if (!k || !axes || axes->n != 1 || ht_in_shape(n, 0).rank != 1)
		return;
	e = result(in, n, 0, k->n);
	for (int32_t i = 0; e && i < k->n; i++)
		e[i] = k->e[k->n - 1 - i];
}

static void value_fill(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *v = ht_in_known(in, n, 1);
	struct ht_elem *e = typed_result(in, n);

	for (int64_t i = 0; e && v && v->n == 1 && i < ht_shape_count(n->out[0].shape); i++)
		e[i] = v->e[0];
}

static void value_range(struct ht_infer *in, struct ht_node *n)
{
	int64_t start, delta, count = ht_shape_count(n->out[0].shape);
	struct ht_elem *e;

	if (!ht_in_int(in, n, 0, &start) || !ht_in_int(in, n, 2, &delta))
		return;
	e = result(in, n, 0, count);
	for (int64_t i = 0; e && i < count; i++)
		e[i] = ht_elem_int((int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)delta));
}

/* ---- element by element ---- */

static void value_cast(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_nothing_known(in, n, 0) ? NULL : ht_in_known(in, n, 0);
	struct ht_elem *e = k ? result(in, n, 0, k->n) : NULL;

	for (int32_t i = 0; e && i < k->n; i++)
		e[i] = ht_elem_cast(n->out[0].dtype, &k->e[i]);
}

static void value_unary(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_nothing_known(in, n, 0) ? NULL : ht_in_known(in, n, 0);
	struct ht_elem *e = k ? result(in, n, 0, k->n) : NULL;

	for (int32_t i = 0; e && i < k->n; i++)
		e[i] = ht_elem_unary(n->op, n->out[0].dtype, &k->e[i]);
}

/* Whether no element of the result can be inferred.  A floating-point result needs both operands;
 * an integer may follow from one of them (0 * x). */
static bool tells_nothing(const struct ht_infer *in, const struct ht_node *n)
{
	bool a = ht_in_nothing_known(in, n, 0), b = ht_in_nothing_known(in, n, 1);

	return is_float(n->out[0].dtype) ? a || b : a && b;
}

static void value_binary(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *a, *b;
	int32_t count;
	struct ht_elem *e;

	if (tells_nothing(in, n))
		return;
	a = ht_in_known(in, n, 0);
	b = ht_in_known(in, n, 1);
	if (!a || !b || (a->n != b->n && a->n != 1 && b->n != 1) || n->out[0].shape.rank > 1)
		return;
	count = a->n == 1 ? b->n : a->n;
	e = result(in, n, 0, count);
	for (int32_t i = 0; e && i < count; i++)
		e[i] = ht_elem_binary(in, n->op, n->out[0].dtype, &a->e[a->n == 1 ? 0 : i],
			&b->e[b->n == 1 ? 0 : i]);
}

/* Reduces all elements of a vector. */
static void value_reduce(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0), *axes = ht_in_known(in, n, 1);
	enum ht_op op = n->op == HT_OP_Prod  ? HT_OP_Mul
			: n->op == HT_OP_Sum ? HT_OP_Add
			: n->op == HT_OP_Max ? HT_OP_Maximum
					     : HT_OP_Minimum;
	struct ht_elem r;
	bool whole = op == HT_OP_Mul || op == HT_OP_Add;

	if (!k || !axes || axes->n != 1 || ht_in_shape(n, 0).rank != 1 || (!k->n && !whole) ||
		!ht_is_index(n->out[0].dtype))
		return;
	r = k->n ? k->e[0] : ht_elem_int(op == HT_OP_Mul);
	for (int32_t i = 1; i < k->n; i++)
		r = ht_elem_binary(in, op, n->out[0].dtype, &r, &k->e[i]);
	result(in, n, 0, 1)[0] = r;
}

static void value_zeros(struct ht_infer *in, struct ht_node *n)
{
	int one = n->op == HT_OP_OnesLike;
	struct ht_elem *e = typed_result(in, n);

	for (int64_t i = 0; e && i < ht_shape_count(n->out[0].shape); i++)
		e[i] = is_float(n->out[0].dtype) ? (struct ht_elem){ HT_ELEM_FLOAT, 0, one }
						 : ht_elem_int(one);
}

static void value_invert_permutation(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *k = ht_in_known(in, n, 0);
	struct ht_elem *e = k ? result(in, n, 0, k->n) : NULL;

	for (int32_t i = 0; e && i < k->n; i++)
		if (k->e[i].kind == HT_ELEM_INT && k->e[i].i >= 0 && k->e[i].i < k->n)
			e[k->e[i].i] = ht_elem_int(i);
}

/* The index along the axis at which each operand begins. */
static void value_concat_offset(struct ht_infer *in, struct ht_node *n)
{
	int64_t axis, sum = 0;

	if (!ht_in_int(in, n, 0, &axis))
		return;
	for (int32_t r = 0; r < n->outs; r++) {
		const struct ht_known *k = ht_in_known(in, n, r + 1);
		int64_t at = axis;
		struct ht_elem *e;

		if (!k || !ht_fix_axis(&at, k->n))
			return;
		e = result(in, n, r, k->n);
		if (!e)
			return;
		for (int32_t i = 0; i < k->n; i++)
			e[i] = i == at ? ht_elem_of_dim(sum) : ht_elem_int(0);
		if (sum < 0)
			e[at] = ht_elem_unknown;
		sum = ht_dim_add(sum, ht_elem_dim(&k->e[at]));
	}
}

static void value_broadcast_args(struct ht_infer *in, struct ht_node *n)
{
	bool a_ok, b_ok;
	struct ht_shape a = ht_in_as_shape(in, n, 0, &a_ok), b = ht_in_as_shape(in, n, 1, &b_ok), r;
	struct ht_elem *e;

	if (!a_ok || !b_ok || !ht_broadcast_shapes(in, a, b, &r) || r.rank < 0)
		return;
	e = result(in, n, 0, r.rank);
	for (int32_t i = 0; e && i < r.rank; i++)
		e[i] = ht_elem_of_dim(r.dim[i]);
}

/* Dimension `i` of a shape, counted from its end. */
static int64_t dim_from_end(struct ht_shape s, int32_t i)
{
	return i < s.rank ? s.dim[s.rank - 1 - i] : 1;
}

/* Whether it is decided that the gradient of the operand of size `own` is summed, or that it is
 * not. A sum over one element changes nothing, so a size that is 1 only in some runs counts as
 * decided. */
static bool is_decided(int64_t own, int64_t other)
{
	if (own >= 0)
		return true;
	return own != HT_DIM_UNKNOWN && (own == other || other == 1);
}

int32_t ht_gradient_axes(
	struct ht_infer *in, const struct ht_node *n, int32_t i, int64_t axes[HT_MAX_RANK])
{
	bool own_ok, other_ok, equal = true;
	struct ht_shape own = ht_in_as_shape(in, n, i, &own_ok),
			other = ht_in_as_shape(in, n, 1 - i, &other_ok);
	int32_t rank = own.rank > other.rank ? own.rank : other.rank, count = 0;

	if (!own_ok || !other_ok || own.rank < 0 || other.rank < 0 || rank > HT_MAX_RANK)
		return -1;
	for (int32_t k = rank - 1; k >= 0; k--) {
		int64_t dim = dim_from_end(own, k);

		if (!is_decided(dim, dim_from_end(other, k)))
			return -1;
		equal = equal && dim == dim_from_end(other, k);
		if (dim == 1)
			axes[count++] = rank - 1 - k;
	}
	return equal && own.rank == other.rank ? 0 : count;
}

static void value_gradient_axes(struct ht_infer *in, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		int64_t axes[HT_MAX_RANK];
		int32_t count = ht_gradient_axes(in, n, i, axes);
		struct ht_elem *e = count < 0 ? NULL : result(in, n, i, count);

		for (int32_t k = 0; e && k < count; k++)
			e[k] = ht_elem_int(axes[k]);
	}
}

/* Only elements in which both sides agree are known, whatever the condition. */
static void value_select(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_known *a = ht_in_known(in, n, 1), *b = ht_in_known(in, n, 2);
	struct ht_elem *e;

	if (!a || !b || a->n != b->n || ht_shape_count(n->out[0].shape) != a->n)
		return;
	e = result(in, n, 0, a->n);
	for (int32_t i = 0; e && i < a->n; i++)
		if (a->e[i].kind == HT_ELEM_INT && b->e[i].kind == HT_ELEM_INT &&
			a->e[i].i == b->e[i].i)
			e[i] = a->e[i];
}

static rule *rule_of(enum ht_op op)
{
	switch (op) {
	case HT_OP_Identity:
	case HT_OP_IdentityN:
	case HT_OP_Snapshot:
	case HT_OP_StopGradient:
	case HT_OP_PreventGradient:
		return value_same;
	case HT_OP_Reshape:
	case HT_OP_Squeeze:
	case HT_OP_ExpandDims:
	case HT_OP_EnsureShape:
		return value_first;
	case HT_OP_Shape:
	case HT_OP_ShapeN:
		return value_shape;
	case HT_OP_Size:
		return value_size;
	case HT_OP_Rank:
		return value_rank;
	case HT_OP_Pack:
		return value_pack;
	case HT_OP_Concat:
	case HT_OP_ConcatV2:
		return value_concat;
	case HT_OP_Unpack:
		return value_unpack;
	case HT_OP_Split:
	case HT_OP_SplitV:
		return value_split;
	case HT_OP_StridedSlice:
		return value_strided_slice;
	case HT_OP_Slice:
		return value_slice;
	case HT_OP_Gather:
	case HT_OP_GatherV2:
		return value_gather;
	case HT_OP_DynamicStitch:
	case HT_OP_ParallelDynamicStitch:
		return value_stitch;
	case HT_OP_ReverseV2:
		return value_reverse;
	case HT_OP__Sizes:
		return value_sizes;
	case HT_OP_Fill:
		return value_fill;
	case HT_OP_Range:
		return value_range;
	case HT_OP_Cast:
		return value_cast;
	case HT_OP_Floor:
	case HT_OP_Ceil:
	case HT_OP_Round:
	case HT_OP_Rint:
	case HT_OP_Neg:
	case HT_OP_Sqrt:
		return value_unary;
	case HT_OP_Add:
	case HT_OP_AddV2:
	case HT_OP_Sub:
	case HT_OP_Mul:
	case HT_OP_Div:
	case HT_OP_RealDiv:
	case HT_OP_FloorDiv:
	case HT_OP_TruncateDiv:
	case HT_OP_FloorMod:
	case HT_OP_TruncateMod:
	case HT_OP_Mod:
	case HT_OP_Minimum:
	case HT_OP_Maximum:
		return value_binary;
	case HT_OP_Prod:
	case HT_OP_Sum:
	case HT_OP_Max:
	case HT_OP_Min:
		return value_reduce;
	case HT_OP_ZerosLike:
	case HT_OP_OnesLike:
		return value_zeros;
	case HT_OP_InvertPermutation:
		return value_invert_permutation;
	case HT_OP_ConcatOffset:
		return value_concat_offset;
	case HT_OP_BroadcastArgs:
		return value_broadcast_args;
	case HT_OP_BroadcastGradientArgs:
		return value_gradient_axes;
	case HT_OP_Select:
	case HT_OP_SelectV2:
		return value_select;
	default:
		return NULL;
	}
}

static bool may_carry(enum ht_dtype t)
{
	return ht_is_index(t) || t == HT_F32 || t == HT_F64;
}

void ht_infer_values(struct ht_infer *in, struct ht_node *n)
{
	rule *r = rule_of(n->op);

	if (r && n->outs && may_carry(n->out[0].dtype) && n->out[0].shape.rank <= 2)
		r(in, n);
}
