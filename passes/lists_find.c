/* Finds lists: which values are one list, and what each node tells of its list. */
#include "passes/computed.h"
#include "passes/lists_told.h"

static void of_slices(struct ht_lists *l, struct ht_list *x, struct ht_shape s)
{
	if (s.rank > 0)
		ht_list_tell_shape(l, x, (struct ht_shape){ s.rank - 1, s.dim + 1 });
}

static void of_scattered(struct ht_lists *l, struct ht_list *x, struct ht_shape s)
{
	of_slices(l, x, s);
	x->bad = x->bad || !ht_shape_is_told(ht_lists_told_shape(l, s)) || s.rank == 0;
}

static void of_tensor(struct ht_lists *l, struct ht_list *x, const struct ht_node *n)
{
	struct ht_shape s = ht_type_of(n->in[0])->shape;

	int64_t length = s.rank < 1 ? HT_DIM_UNKNOWN : ht_lists_told_dim(l, s.dim[0]);

	x->open = x->open || length == HT_DIM_UNKNOWN;
	if (s.rank < 1)
		return;
	ht_list_tell_length(x, length);
	of_slices(l, x, s);
}

/* Parts of a tensor along its first axis, of any lengths. */
static void of_parts(struct ht_lists *l, struct ht_list *x, const struct ht_node *n)
{
	struct ht_shape s = ht_type_of(n->in[0])->shape, lengths = ht_type_of(n->in[2])->shape;
	int64_t count = lengths.rank == 1 ? ht_lists_told_dim(l, lengths.dim[0]) : HT_DIM_UNKNOWN;

	x->open = x->open || count == HT_DIM_UNKNOWN;
	x->parts = true;
	ht_list_tell_length(x, count);
	x->varied |= 1u;
	if (s.rank > 0)
		ht_list_tell_shape(l, x, s);
}

/* The operand that states the shape of elements; -1: none does. */
static int32_t stated_at(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
		return 0;
	case HT_OP_TensorListFromTensor:
	case HT_OP_TensorListSplit:
	case HT_OP_TensorListPopBack:
	case HT_OP_TensorListStack:
		return 1;
	case HT_OP_TensorListGetItem:
	case HT_OP_TensorListGather:
		return 2;
	default:
		return -1;
	}
}

static void tell_of_length(struct ht_lists *l, struct ht_node *n, struct ht_list *x)
{
	int64_t length;

	switch (n->op) {
	case HT_OP_TensorListReserve:
		length = ht_list_stated_length(l, n->in[1]);
		ht_list_tell_length(x, length);
		x->computed = x->computed || length == HT_DIM_UNKNOWN;
		break;
	case HT_OP_TensorListFromTensor:
		of_tensor(l, x, n);
		break;
	case HT_OP_TensorListSplit:
		of_parts(l, x, n);
		break;
	case HT_OP_EmptyTensorList:
		ht_list_tell_limit(x, ht_list_stated_length(l, n->in[1]));
		x->grows = true;
		break;
	case HT_OP_TensorListPopBack:
		x->grows = x->popped = true;
		break;
	case HT_OP_TensorListResize:
		/* A second resize could bring back elements that the first removed, unless none adds elements. */
		x->shrinks = x->shrinks || x->resized || n->graph->function;
		x->grows = x->resized = true;
		break;
	default:
		x->extended = x->extended || n->op == HT_OP_TensorListScatterIntoExistingList ||
			      ht_attr_bool(n, "resize_if_index_out_of_bounds", false);
		x->grows = x->grows || n->op == HT_OP_TensorListPushBack ||
			   ht_attr_bool(n, "resize_if_index_out_of_bounds", false);
	}
	x->bad = x->bad || (x->resized && x->popped) || (x->shrinks && x->extended);
}

/* Whether an op handles one element alone, or makes a list that is empty. */
static bool handles_one(const struct ht_node *n)
{
	return ht_attr_bool(n, HT_LIST_EMPTY, false) || n->op == HT_OP_TensorListGetItem ||
	       (n->op == HT_OP_TensorListSetItem && !ht_attr_bool(n, HT_LIST_ADDS, false));
}

static void tell_of_op(struct ht_lists *l, struct ht_node *n, struct ht_list *x)
{
	tell_of_length(l, n, x);
	x->whole = x->whole || !handles_one(n);
	if (n->op == HT_OP_TensorListScatterIntoExistingList)
		of_scattered(l, x, ht_type_of(n->in[1])->shape);
	else if (n->op == HT_OP_TensorListSetItem)
		ht_list_tell_shape(l, x, ht_type_of(n->in[2])->shape);
	if (n->op == HT_OP_TensorListSetItem || n->op == HT_OP_TensorListPushBack)
		x->unsure = x->unsure ||
			    (l->computes && !l->numbered && ht_follows_computed(n->in[n->ins - 1]));
	if (n->op == HT_OP_TensorListSetItem)
		ht_list_tell_element(l, x, n->in[2]);
	else if (n->op == HT_OP_TensorListPushBack)
		ht_list_tell_shape(l, x, ht_type_of(n->in[1])->shape);
	else if (ht_attr_bool(n, HT_LIST_EMPTY, false))
		x->empty = true;
	else if (n->op == HT_OP_TensorListScatterIntoExistingList || ht_makes_list(n))
		x->various = true;
	if (stated_at(n) >= 0)
		ht_list_tell_stated(l, x, n->in[stated_at(n)]);
	/* A list that is reserved for variants may get rows of ragged tensors instead (lists_ragged.c). */
	if (!ht_makes_list(n) || ht_attr_type(n, "element_dtype", HT_INVALID) != HT_VARIANT)
		ht_list_tell_dtype(x, ht_attr_type(n, "element_dtype", x->dtype));
	x->bad = x->bad || x->dtype == HT_VARIANT;
	x->joined = x->joined || n->op == HT_OP_TensorListConcatV2;
}

static void tell_of_branch(struct ht_lists *l, struct ht_node *n, const struct ht_function *f)
{
	int32_t i = ht_control_first(n);

	for (const struct ht_port *p = f->args; p && i < n->ins; p = p->next, i++)
		ht_list_tell_same(l, n->in[i], p->value);
	i = 0;
	for (const struct ht_port *p = f->rets; p && i < n->outs; p = p->next, i++)
		if (f != ht_control_bodies(n).of[0] || !ht_is(n, HT_LOOPS))
			ht_list_tell_same(l, ht_out(n, i), p->value);
}

static void tell_of_control(struct ht_lists *l, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);

	for (int32_t i = 0; i < n->outs && ht_is(n, HT_LOOPS); i++)
		ht_list_tell_same(l, n->in[i], ht_out(n, i));
	for (int k = 0; k < 2; k++) {
		tell_of_branch(l, n, b.of[k]);
		ht_lists_find(l, b.of[k]->body);
	}
}

bool ht_is_list_op(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
	case HT_OP_TensorListFromTensor:
	case HT_OP_TensorListSplit:
	case HT_OP_TensorListPushBack:
	case HT_OP_TensorListPopBack:
	case HT_OP_TensorListResize:
	case HT_OP_TensorListSetItem:
	case HT_OP_TensorListScatterIntoExistingList:
	case HT_OP_TensorListGetItem:
	case HT_OP_TensorListStack:
	case HT_OP_TensorListGather:
	case HT_OP_TensorListLength:
	case HT_OP_TensorListElementShape:
	case HT_OP_TensorListConcatV2:
		return true;
	default:
		return false;
	}
}

bool ht_makes_list(const struct ht_node *n)
{
	return n->op == HT_OP_EmptyTensorList || n->op == HT_OP_TensorListReserve ||
	       n->op == HT_OP_TensorListFromTensor || n->op == HT_OP_TensorListSplit;
}

/* Adds lists element by element. */
static void tell_of_sum(struct ht_lists *l, struct ht_node *n)
{
	struct ht_list *sum = ht_list_of(l, ht_out(n, 0));

	if (sum)
		sum->summed = true;
	for (int32_t i = 0; i < n->ins; i++)
		ht_list_tell_same(l, n->in[i], ht_out(n, 0));
}

/* Lists that are elements of a list cannot become tensors. */
static void tell_of_elements(struct ht_lists *l, struct ht_node *n)
{
	for (int32_t i = ht_makes_list(n) ? 0 : 1; i < n->ins; i++)
		ht_list_tell_bad(l, n->in[i]);
	for (int32_t i = 0; i < n->outs; i++)
		if (i || n->op == HT_OP_TensorListGetItem || n->op == HT_OP_TensorListStack ||
			n->op == HT_OP_TensorListGather)
			ht_list_tell_bad(l, ht_out(n, i));
}

static void tell(struct ht_lists *l, struct ht_node *n)
{
	if (ht_is_list_op(n)) {
		struct ht_value v = ht_makes_list(n) ? ht_out(n, 0) : n->in[0];

		tell_of_elements(l, n);
		if (!ht_makes_list(n) && ht_op_info(n->op)->result[0].fixed == HT_VARIANT)
			ht_list_tell_same(l, v, ht_out(n, 0));
		if (ht_makes_list(n) && ht_is_list(v))
			ht_list_tell_home(l, ht_list_of(l, v), n->graph);
		if (ht_is_list(v))
			tell_of_op(l, n, ht_list_of(l, v));
	} else if (ht_runs_own(n)) {
		tell_of_control(l, n);
	} else if (n->op == HT_OP_AddN) {
		tell_of_sum(l, n);
	} else if (ht_is(n, HT_FORWARDS) || n->op == HT_OP_ZerosLike) {
		for (int32_t i = 0; i < n->outs && i < n->ins; i++)
			ht_list_tell_same(l, n->in[i], ht_out(n, i));
		if (n->op == HT_OP_ZerosLike && ht_is_list(ht_out(n, 0)))
			ht_list_of(l, ht_out(n, 0))->whole = true;
	} else if (!ht_is(n, HT_ARGUMENT)) {
		for (int32_t i = 0; i < n->ins; i++)
			ht_list_tell_bad(l, n->in[i]);
		for (int32_t i = 0; i < n->outs; i++)
			ht_list_tell_bad(l, ht_out(n, i));
	}
}

void ht_lists_find(struct ht_lists *l, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		tell(l, n);
}
