/* tensor_arrays: TensorFlow 1's TensorArrays become TensorLists.
 *
 * A TensorArray has a handle and a flow: a scalar that each change of the array takes and
 * returns, so that reads and writes have an order.  The list takes the place of the flow; it is
 * passed where the flow was, through frames and Switches, and handles are removed.
 *
 * All arrays of a graph are left alone if one of them is unsuitable: arrays that grow, gradients
 * of arrays, a flow or a handle that another kind of op takes or returns. */
#include "passes/functional.h"
#include "passes/rewrite.h"

#include <string.h>

/* How an op on arrays becomes one on lists.  Its first operand is a handle, unless the op makes
 * one. */
struct access {
	enum ht_op op, becomes;
	int32_t flow;       /* the operand that is the flow; -1: none */
	bool changes;       /* its result is a flow */
	int32_t in[2], ins; /* the operands that follow the list */
	const char *shape;  /* attribute with the shape of elements, which becomes an operand; NULL:
		        * none */
};

static const struct access accesses[] = {
	{ HT_OP_TensorArrayWriteV3, HT_OP_TensorListSetItem, 3, true, { 1, 2 }, 2, NULL },
	{ HT_OP_TensorArrayScatterV3, HT_OP_TensorListScatterIntoExistingList, 3, true, { 2, 1 }, 2,
		NULL },
	{ HT_OP_TensorArraySplitV3, HT_OP_TensorListSplit, 3, true, { 1, 2 }, 2, NULL },
	{ HT_OP_TensorArrayReadV3, HT_OP_TensorListGetItem, 2, false, { 1 }, 1, "" },
	{ HT_OP_TensorArrayGatherV3, HT_OP_TensorListGather, 2, false, { 1 }, 1, "element_shape" },
	{ HT_OP_TensorArrayConcatV3, HT_OP_TensorListConcatV2, 1, false, { 0 }, 0, "" },
	{ HT_OP_TensorArraySizeV3, HT_OP_TensorListLength, 1, false, { 0 }, 0, NULL },
	{ HT_OP_TensorArrayCloseV3, HT_OP_NoOp, -1, false, { 0 }, 0, NULL },
};

static const struct access *access_of(const struct ht_node *n)
{
	for (size_t i = 0; i < HT_COUNT(accesses); i++)
		if (n->op == accesses[i].op)
			return &accesses[i];
	return NULL;
}

bool ht_reads_array(const struct ht_node *n)
{
	const struct access *a = access_of(n);

	return a && !a->changes;
}

struct arrays {
	struct ht_rw r;
	bool *flow, *handle; /* by node id: its results are flows, or handles */
	struct ht_node **stack;
	size_t depth, cap;
	bool odd; /* another kind of op handles a flow or a handle */
};

/* ---- finding flows and handles ---- */

static bool is_flow(const struct arrays *x, struct ht_value v)
{
	return v.node->op == HT_OP_TensorArrayV3 ? v.index == 1 : x->flow[v.node->id];
}

static bool hands_on(const struct ht_node *n)
{
	return ht_routes(n) || (ht_is(n, HT_FORWARDS) && n->ins == 1);
}

static void push(struct arrays *x, struct ht_node *n)
{
	x->stack = ht_grow(x->r.arena, x->stack, x->depth, &x->cap, sizeof *x->stack);
	x->stack[x->depth++] = n;
}

static void hand_on(struct arrays *x, struct ht_node *to, int32_t arg, bool flow)
{
	bool *is = flow ? x->flow : x->handle, *other = flow ? x->handle : x->flow;

	if (!hands_on(to) || other[to->id] || (ht_is(to, HT_MERGES) ? !flow : arg > 0))
		x->odd = true;
	else if (!is[to->id])
		push(x, to);
	is[to->id] = true;
}

static void follow_uses(struct arrays *x, struct ht_node *n)
{
	for (const struct ht_rw_use *u = ht_rw_first_use(&x->r, n); u;
		u = ht_rw_next_use(&x->r, u)) {
		const struct access *a = access_of(u->node);
		bool flow;

		if (u->arg < 0 || (ht_is(n, HT_MERGES) && u->node->in[u->arg].index))
			continue;
		flow = is_flow(x, u->node->in[u->arg]);
		if (!a)
			hand_on(x, u->node, u->arg, flow);
		else
			x->odd = x->odd || u->arg != (flow ? a->flow : 0);
	}
	for (int32_t i = 0; i < n->outs; i++)
		x->odd = x->odd || ht_rw_is_output(&x->r, ht_out(n, i));
}

static void find(struct arrays *x, struct ht_node *const *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct access *a = access_of(all[i]);

		if (a && a->changes)
			x->flow[all[i]->id] = true;
		if (all[i]->op == HT_OP_TensorArrayV3 || (a && a->changes))
			push(x, all[i]);
		x->odd = x->odd || (all[i]->op == HT_OP_TensorArrayV3 &&
					   ht_attr_bool(all[i], "dynamic_size", false));
	}
	while (x->depth)
		follow_uses(x, x->stack[--x->depth]);
}

/* Whether nodes that pass on or take flows have only flows as those operands. */
static bool takes_flows(const struct arrays *x, const struct ht_node *n)
{
	const struct access *a = access_of(n);
	int32_t ins = ht_is(n, HT_MERGES) ? n->ins : 1;

	if (a)
		return a->flow < 0 || (a->flow < n->ins && is_flow(x, n->in[a->flow]));
	for (int32_t i = 0; i < ins && x->flow[n->id]; i++)
		if (!is_flow(x, n->in[i]))
			return false;
	return true;
}

/* ---- the change ---- */

static void hand_on_list(struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs && (i == 0 || ht_is(n, HT_SWITCHES)); i++)
		n->out[i] = HT_LIST_TYPE;
	if (ht_attr_find(n, "T"))
		ht_attr_set_type(n, "T", HT_VARIANT);
}

static void become_list_op(struct arrays *x, struct ht_node *n, const struct access *a)
{
	static const int64_t none[1];
	enum ht_dtype t = ht_attr_type(n, a->changes ? "T" : "dtype", HT_INVALID);
	struct ht_value in[3];
	int32_t ins = 0;

	if (a->flow >= 0)
		in[ins++] = n->in[a->flow];
	for (int32_t i = 0; i < a->ins; i++)
		in[ins++] = n->in[a->in[i]];
	if (a->shape)
		in[ins++] = ht_rw_element_shape(&x->r, n, a->shape);
	if (a->becomes == HT_OP_TensorListConcatV2)
		in[ins++] = ht_rw_const_ints(
			&x->r, n, ht_rw_name_within(&x->r, n, "leading_dims"), HT_I64, none, 0);
	if (a->becomes == HT_OP_TensorListSplit) { /* all elements are new */
		in[0] = n->in[a->in[0]];
		in[1] = ht_rw_element_shape(&x->r, n, "");
	}
	ht_rw_become(&x->r, n, a->becomes, in, ins);
	if (t != HT_INVALID)
		ht_attr_set_type(n, "element_dtype", t);
	if (a->changes)
		n->out[0] = HT_LIST_TYPE;
	if (a->becomes == HT_OP_TensorListConcatV2 || a->becomes == HT_OP_TensorListSplit)
		ht_attr_set_type(n, "shape_type", HT_I32);
}

/* No op reads the handle any more. */
static void reserve(struct arrays *x, struct ht_node *n)
{
	struct ht_value in[] = { ht_rw_element_shape(&x->r, n, "element_shape"), n->in[0] };
	struct ht_node *list = ht_rw_node(&x->r, n, HT_OP_TensorListReserve,
		ht_rw_name_within(&x->r, n, "list"), in, 2, HT_LIST_TYPE);

	ht_attr_set_type(list, "element_dtype", ht_attr_type(n, "dtype", HT_INVALID));
	ht_attr_set_type(list, "shape_type", HT_I32);
	ht_rw_set_controls(&x->r, list, n->control, n->controls);
	ht_rw_replace(&x->r, ht_out(n, 1), ht_out(list, 0));
	if (!ht_rw_node_uses(&x->r, n))
		ht_rw_remove(&x->r, n);
}

static void change(struct arrays *x, struct ht_node *const *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct access *a = all[i]->graph ? access_of(all[i]) : NULL;

		if (a)
			become_list_op(x, all[i], a);
		else if (all[i]->graph && x->flow[all[i]->id])
			hand_on_list(all[i]);
	}
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph && all[i]->op == HT_OP_TensorArrayV3)
			reserve(x, all[i]);
}

/* ---- the pass ---- */

static bool has_arrays(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (n->op == HT_OP_TensorArrayV3)
			return true;
	return false;
}

static void convert(struct ht_graph *g, struct ht_pass_context *c)
{
	struct arrays x = { .flow = HT_NEW_ARRAY(c->scratch, bool, g->ids),
		.handle = HT_NEW_ARRAY(c->scratch, bool, g->ids) };
	struct ht_node **all;
	size_t count;

	ht_rw_init(&x.r, g, c);
	all = ht_rw_nodes(&x.r, &count);
	find(&x, all, count);
	for (size_t i = 0; i < count && !x.odd; i++)
		x.odd = !takes_flows(&x, all[i]);
	if (!x.odd)
		change(&x, all, count);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	if (has_arrays(g))
		convert(g, c);
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_tensor_arrays = {
	.name = "tensor_arrays",
	.summary = "makes TensorLists of TensorFlow 1's TensorArrays",
	.run = run,
};
