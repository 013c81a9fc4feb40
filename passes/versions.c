/* versions: older versions of ops become the newest, and rare ops become ops that other passes
 * know.
 *
 * - TensorArray and its kin of the first two versions, and Stack of the first, whose handles are
 *   strings, become the versions with resources.  The handles are followed through Enter, Switch
 *   and their kin.
 * - TensorArrayPack and Unpack become gathers and scatters of all elements.  TensorArraySplit
 *   becomes a scatter of parts if these have equal, constant lengths, and TensorListSplit a list
 *   of them; others are left alone, since their elements have several shapes.
 * - TensorListScatter becomes a reserved list and a scatter into it; TensorListConcatLists
 *   becomes a list of the elements of both.
 * - ScatterNdNonAliasingAdd becomes TensorScatterAdd, RaggedFillEmptyRows SparseFillEmptyRows of one column.
 * - CumulativeLogsumexp becomes, for each place, a sum of the exponentials up to it.
 * - Vectors of lists are resolved to their lists (lists_vector.c).
 *
 * The pass also changes nodes in the bodies of functions. */
#include "ir/infer.h"
#include "passes/functional.h"
#include "passes/lists_vector.h"
#include "passes/maker.h"

#include <math.h>
#include <string.h>

/* Ops that only change their name. */
static const struct {
	enum ht_op op, newest;
} renamed[] = {
	{ HT_OP_TensorArray, HT_OP_TensorArrayV3 },
	{ HT_OP_TensorArrayV2, HT_OP_TensorArrayV3 },
	{ HT_OP_TensorArrayGrad, HT_OP_TensorArrayGradV3 },
	{ HT_OP_TensorArrayGradV2, HT_OP_TensorArrayGradV3 },
	{ HT_OP_TensorArrayWrite, HT_OP_TensorArrayWriteV3 },
	{ HT_OP_TensorArrayWriteV2, HT_OP_TensorArrayWriteV3 },
	{ HT_OP_TensorArrayRead, HT_OP_TensorArrayReadV3 },
	{ HT_OP_TensorArrayReadV2, HT_OP_TensorArrayReadV3 },
	{ HT_OP_TensorArrayGather, HT_OP_TensorArrayGatherV3 },
	{ HT_OP_TensorArrayGatherV2, HT_OP_TensorArrayGatherV3 },
	{ HT_OP_TensorArrayScatter, HT_OP_TensorArrayScatterV3 },
	{ HT_OP_TensorArrayScatterV2, HT_OP_TensorArrayScatterV3 },
	{ HT_OP_TensorArrayConcat, HT_OP_TensorArrayConcatV3 },
	{ HT_OP_TensorArrayConcatV2, HT_OP_TensorArrayConcatV3 },
	{ HT_OP_TensorArraySplit, HT_OP_TensorArraySplitV3 },
	{ HT_OP_TensorArraySplitV2, HT_OP_TensorArraySplitV3 },
	{ HT_OP_TensorArraySize, HT_OP_TensorArraySizeV3 },
	{ HT_OP_TensorArraySizeV2, HT_OP_TensorArraySizeV3 },
	{ HT_OP_TensorArrayClose, HT_OP_TensorArrayCloseV3 },
	{ HT_OP_TensorArrayCloseV2, HT_OP_TensorArrayCloseV3 },
	{ HT_OP_StackPush, HT_OP_StackPushV2 },
	{ HT_OP_StackPop, HT_OP_StackPopV2 },
	{ HT_OP_StackClose, HT_OP_StackCloseV2 },
	{ HT_OP_ScatterNdNonAliasingAdd, HT_OP_TensorScatterAdd },
	{ HT_OP_RaggedFillEmptyRowsGrad, HT_OP_SparseFillEmptyRowsGrad },
};

static enum ht_op newest_of(enum ht_op op)
{
	for (size_t i = 0; i < HT_COUNT(renamed); i++)
		if (renamed[i].op == op)
			return renamed[i].newest;
	return HT_OP_OPAQUE;
}

static void rename_op(struct ht_node *n, enum ht_op op)
{
	ht_node_set_type(n, ht_op_info(op)->name);
}

static struct maker maker_for(struct ht_rw *r, struct ht_node *n)
{
	return (struct maker){ .r = r, .at = n, .name = ht_rw_name_within(r, n, "part") };
}

/* ---- arrays and stacks behind handles ---- */

static bool makes_handle(const struct ht_node *n)
{
	enum ht_op newest = newest_of(n->op);

	return n->op == HT_OP_Stack || newest == HT_OP_TensorArrayV3 ||
	       newest == HT_OP_TensorArrayGradV3;
}

/* Changes the type of handles to resources, from the node that makes a handle to all that pass
 * it on. */
static void hand_on(struct ht_rw *r, struct ht_node *n)
{
	for (const struct ht_rw_use *u = ht_rw_first_use(r, n); u; u = ht_rw_next_use(r, u)) {
		struct ht_node *to = u->node;
		struct ht_str type = to->type;

		if (u->arg != 0 || ht_attr_type(to, "T", HT_INVALID) == HT_RESOURCE ||
			!(ht_routes(to) || (ht_is(to, HT_FORWARDS) && to->ins == 1)))
			continue;
		if (type.n > 3 && memcmp(type.p, "Ref", 3) == 0)
			ht_node_set_type(to, (struct ht_str){ type.p + 3, type.n - 3 });
		ht_attr_set_type(to, "T", HT_RESOURCE);
		for (int32_t i = 0; i < to->outs; i++)
			to->out[i].dtype = HT_RESOURCE;
		hand_on(r, to);
	}
}

static void make_handle(struct ht_rw *r, struct ht_node *n)
{
	bool stack = n->op == HT_OP_Stack;
	struct ht_value any;

	rename_op(n, stack ? HT_OP_StackV2 : newest_of(n->op));
	if (stack) {
		any = ht_rw_scalar(r, n, ht_rw_name_within(r, n, "number"), HT_I32, -1);
		ht_rw_set_ins(r, n, &any, 1);
	} else {
		ht_node_set_outs(n, 2);
		n->out[1] = (struct ht_type){ HT_F32, HT_SHAPE_SCALAR };
	}
	n->out[0] = (struct ht_type){ HT_RESOURCE, HT_SHAPE_SCALAR };
	hand_on(r, n);
}

/* An op on arrays takes the numbered elements: its operands are the handle, the numbers, and
 * `more`. */
static void number_elements(
	struct maker *m, enum ht_op op, struct ht_value count, struct ht_value value)
{
	struct ht_node *n = m->at;
	struct ht_value flow = n->in[n->ins - 1];
	struct ht_value in[] = { n->in[0], range_of(m, count), value, flow };

	if (!value.node)
		in[2] = flow;
	rename_op(n, op);
	ht_rw_set_ins(m->r, n, in, value.node ? 4 : 3);
}

static void pack_array(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = maker_for(r, n);
	struct ht_value size = made(&m, HT_OP_TensorArraySizeV3, n->in, 2, HT_SHAPE_SCALAR);

	number_elements(&m, HT_OP_TensorArrayGatherV3, size, (struct ht_value){ 0 });
}

static void scatter_rows(struct ht_rw *r, struct ht_node *n, struct ht_value rows)
{
	struct maker m = maker_for(r, n);

	number_elements(&m, HT_OP_TensorArrayScatterV3, extent_of(&m, rows, 0, HT_I32), rows);
}

static void unpack_array(struct ht_rw *r, struct ht_node *n)
{
	scatter_rows(r, n, n->in[1]);
}

/* ---- parts of equal lengths ---- */

/* `value` as [parts, length, …]; false: the lengths are not constant and equal. */
static bool in_parts(struct ht_rw *r, struct ht_node *n, struct ht_value value,
	struct ht_value lengths, struct ht_value *parts)
{
	struct ht_shape s = ht_type_of(value)->shape;
	int64_t *length, dim[HT_MAX_RANK];
	int open = 0;
	size_t count;

	if (s.rank < 1 || s.rank >= HT_MAX_RANK ||
		!ht_const_ints(lengths, r->arena, &length, &count) || !count)
		return false;
	for (size_t i = 1; i < count; i++)
		if (length[i] != length[0])
			return false;
	dim[0] = (int64_t)count;
	dim[1] = length[0];
	for (int32_t i = 1; i < s.rank; i++) {
		dim[i + 1] = s.dim[i] < 0 ? -1 : s.dim[i];
		open += s.dim[i] < 0;
	}
	if (open > 1)
		return false;
	*parts = ht_rw_reshape(r, n, ht_rw_name_within(r, n, "parts"), value,
		ht_shape_make(r->g->arena, s.rank + 1, dim));
	if (open)
		parts->node->out[0].shape = HT_SHAPE_UNKNOWN;
	return true;
}

static void split_array(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value parts;

	if (in_parts(r, n, n->in[1], n->in[2], &parts))
		scatter_rows(r, n, parts);
}

static void split_list(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value in[2];

	if (!in_parts(r, n, n->in[0], n->in[2], &in[0]))
		return;
	in[1] = n->in[1];
	rename_op(n, HT_OP_TensorListFromTensor);
	ht_rw_set_ins(r, n, in, 2);
}

/* ---- lists ---- */

/* The largest index plus one. */
static struct ht_value count_by(struct maker *m, struct ht_value indices)
{
	int64_t *index, count = 0;
	struct ht_value most;
	size_t size;

	if (!ht_const_ints(indices, m->r->arena, &index, &size)) {
		most = reduced(m, HT_OP_Max, indices, 0, false);
		most = binary(m, HT_OP_AddV2, most, whole(m, HT_I32, 1));
		return binary(m, HT_OP_Maximum, most, whole(m, HT_I32, 0));
	}
	for (size_t i = 0; i < size; i++)
		if (index[i] >= count && index[i] < INT32_MAX)
			count = index[i] + 1;
	return whole(m, HT_I32, count);
}

/* `n` becomes an op on lists of the same elements. */
static void become_list_op(
	struct ht_rw *r, struct ht_node *n, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	enum ht_dtype t = ht_attr_type(n, "element_dtype", HT_INVALID);

	ht_rw_become(r, n, op, in, ins);
	ht_attr_set_type(n, "element_dtype", t);
}

/* Operands: rows, indices, the shape of elements; in the second version also the number of
 * elements, -1 for as many as needed. */
static void scatter_list(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = maker_for(r, n);
	bool told = n->ins > 3 && !ht_const_is(n->in[3], -1);
	struct ht_value count = told ? n->in[3] : count_by(&m, n->in[1]);
	const struct ht_value in[] = { list_of(&m, n->in[2], count,
					       ht_attr_type(n, "element_dtype", HT_INVALID)),
		n->in[0], n->in[1] };

	become_list_op(r, n, HT_OP_TensorListScatterIntoExistingList, in, 3);
}

static struct ht_value elements_of(struct maker *m, struct ht_value list)
{
	return stacked(
		m, list, whole(m, HT_I32, -1), ht_attr_type(m->at, "element_dtype", HT_INVALID));
}

static void join_lists(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = maker_for(r, n);
	struct ht_value first = elements_of(&m, n->in[0]), second = elements_of(&m, n->in[1]);
	const struct ht_value in[] = { joined_pair(&m, first, second, 0), whole(&m, HT_I32, -1) };

	become_list_op(r, n, HT_OP_TensorListFromTensor, in, 2);
}

/* In the first version, the shape of elements is an attribute. */
static void concat_list(struct ht_rw *r, struct ht_node *n)
{
	static const int64_t none[1];
	struct maker m = maker_for(r, n);
	const struct ht_value in[] = { n->in[0], whole(&m, HT_I32, -1),
		wholes(&m, HT_I64, none, 0) };

	become_list_op(r, n, HT_OP_TensorListConcatV2, in, 3);
}

/* ---- rows of ragged tensors ---- */

/* The numbers of rows as indices of one column, and back. */
static void fill_ragged(struct ht_rw *r, struct ht_node *n)
{
	const int64_t first = 1;
	struct maker m = maker_for(r, n);
	const struct ht_value in[] = { with_axis(&m, n->in[0], 1), n->in[1],
		ht_rw_reshape(r, n, m.name, n->in[2], vector_of(&m, 1)), n->in[3] };
	struct ht_value filled = made(&m, HT_OP_SparseFillEmptyRows, in, 4, HT_SHAPE_UNKNOWN), rows;

	ht_rw_set_controls(r, filled.node, n->control, n->controls);
	ht_node_set_outs(filled.node, 4);
	for (int32_t i = 1; i < 4; i++)
		filled.node->out[i] = n->out[i];
	rows = made(&m, HT_OP_Squeeze, &filled, 1, n->out[0].shape);
	ht_attr_set_ints(rows.node, "squeeze_dims", &first, 1);
	for (int32_t i = 1; i < 4; i++)
		ht_rw_replace(r, ht_out(n, i), ht_out(filled.node, i));
	ht_rw_replace_node(r, n, rows);
}

/* ---- running sums of exponentials ---- */

/* Whether element j counts for place i, as [i,j]. */
static struct ht_value counts(struct maker *m, struct ht_value x, int64_t axis)
{
	bool exclusive = ht_attr_bool(m->at, "exclusive", false),
	     reverse = ht_attr_bool(m->at, "reverse", false);
	struct ht_value at = range_of(m, extent_of(m, x, (int32_t)axis, HT_I32)), i, j, v;

	i = with_axis(m, at, 1);
	j = with_axis(m, at, 0);
	v = binary(m, exclusive ? HT_OP_Less : HT_OP_LessEqual, reverse ? i : j, reverse ? j : i);
	for (int64_t k = axis + 1; k < ht_type_of(x)->shape.rank; k++)
		v = with_axis(m, v, -1);
	return v;
}

/* The largest element that counts is subtracted from all, unless it is infinite. */
static void running_sum(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = maker_for(r, n);
	struct ht_value x = n->in[0], least, some, most, sum;
	int64_t axis, inner;
	int count;

	if (!ht_const_small_ints(n->in[1], &axis, 1, &count) ||
		!ht_fix_axis(&axis, ht_type_of(x)->shape.rank))
		return;
	inner = axis + 1;
	m.t = ht_type_of(x)->dtype;
	least = number(&m, -HUGE_VAL);
	some = counts(&m, x, axis);
	sum = chosen(&m, some, with_axis(&m, x, axis), least);
	most = reduced(&m, HT_OP_Max, sum, inner, true);
	some = unary(&m, HT_OP_IsFinite, most);
	most = chosen(&m, some, most, number(&m, 0));
	sum = unary(&m, HT_OP_Exp, binary(&m, HT_OP_Sub, sum, most));
	sum = reduced(&m, HT_OP_Sum, sum, inner, false);
	most = made(&m, HT_OP_Squeeze, &most, 1, HT_SHAPE_UNKNOWN);
	ht_attr_set_ints(most.node, "squeeze_dims", &inner, 1);
	ht_rw_take_place(r, n, binary(&m, HT_OP_AddV2, unary(&m, HT_OP_Log, sum), most));
}

/* Elements that nobody set yet are zeros. */
static void make_zeros(struct ht_rw *r, struct ht_node *n)
{
	struct maker m = maker_for(r, n);
	struct ht_value in[2] = { n->in[0] };

	if (n->out[0].dtype == HT_STRING)
		return;
	in[1] = whole(&m, n->out[0].dtype, 0);
	ht_rw_become(r, n, HT_OP_Fill, in, 2);
}

/* ---- the pass ---- */

static void (*change_of(const struct ht_node *n))(struct ht_rw *, struct ht_node *)
{
	switch (n->op) {
	case HT_OP_TensorArrayPack:
		return pack_array;
	case HT_OP_TensorArrayUnpack:
		return unpack_array;
	case HT_OP_TensorArraySplit:
	case HT_OP_TensorArraySplitV2:
	case HT_OP_TensorArraySplitV3:
		return split_array;
	case HT_OP_TensorListSplit:
		return split_list;
	case HT_OP_TensorListScatter:
	case HT_OP_TensorListScatterV2:
		return scatter_list;
	case HT_OP_TensorListConcatLists:
		return join_lists;
	case HT_OP_TensorListConcat:
		return concat_list;
	case HT_OP_RaggedFillEmptyRows:
		return fill_ragged;
	case HT_OP_CumulativeLogsumexp:
		return running_sum;
	case HT_OP_Empty:
		return make_zeros;
	default:
		if (ht_takes_of_lists(n))
			return ht_take_of_lists;
		return makes_handle(n) ? make_handle : NULL;
	}
}

static bool wants(const struct ht_node *n)
{
	return change_of(n) || newest_of(n->op) != HT_OP_OPAQUE;
}

static void change(struct ht_rw *r, struct ht_node *n)
{
	void (*how)(struct ht_rw *, struct ht_node *) = change_of(n);
	enum ht_op newest = newest_of(n->op);

	if (how)
		how(r, n);
	else
		rename_op(n, newest);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_everywhere(g, c, wants, change);
}

const struct ht_pass ht_pass_versions = {
	.name = "versions",
	.summary = "makes the newest versions of older ops, and common ops of rare ones",
	.run = run,
};
