/* references: TensorFlow 1's variables, which are passed by reference, become variables with
 * handles.
 *
 * - VariableV2 and Variable become VarHandleOp.
 * - An op that writes through a reference (Assign and its variants, scattering, steps of
 *   optimisers), or asks whether the variable has a value, becomes the op that does the same
 *   with a handle (`forms`).
 * - A node that reads the value gets a ReadVariableOp, which has the control edges of the
 *   reader.  If the reference is the result of a write, the ReadVariableOp waits for that write.
 * - A value that an Identity read is the variable's memory, in which writes change it.  So what
 *   takes that value behind a write reads again, and waits for what it itself waits for.
 * - RefSwitch, which passes a reference to one branch, becomes a Switch of the handle.
 *
 * The pass leaves two kinds of variables to the pass freeze: those that no node writes to, and
 * those whose reference goes to an op without a form for handles, which freeze names in its
 * error. */
#include "passes/rewrite.h"

#include <string.h>

static const struct {
	enum ht_op by_reference, by_handle;
} forms[] = {
	{ HT_OP_Assign, HT_OP_AssignVariableOp },
	{ HT_OP_AssignAdd, HT_OP_AssignAddVariableOp },
	{ HT_OP_AssignSub, HT_OP_AssignSubVariableOp },
	{ HT_OP_ApplyGradientDescent, HT_OP_ResourceApplyGradientDescent },
	{ HT_OP_ApplyMomentum, HT_OP_ResourceApplyMomentum },
	{ HT_OP_ApplyAdam, HT_OP_ResourceApplyAdam },
	{ HT_OP_ApplyAdagrad, HT_OP_ResourceApplyAdagrad },
	{ HT_OP_ApplyRMSProp, HT_OP_ResourceApplyRMSProp },
	{ HT_OP_ApplyCenteredRMSProp, HT_OP_ResourceApplyCenteredRMSProp },
	{ HT_OP_ApplyFtrl, HT_OP_ResourceApplyFtrl },
	{ HT_OP_ApplyFtrlV2, HT_OP_ResourceApplyFtrlV2 },
	{ HT_OP_ApplyAdagradDA, HT_OP_ResourceApplyAdagradDA },
	{ HT_OP_ApplyAddSign, HT_OP_ResourceApplyAddSign },
	{ HT_OP_ApplyPowerSign, HT_OP_ResourceApplyPowerSign },
	{ HT_OP_ApplyAdadelta, HT_OP_ResourceApplyAdadelta },
	{ HT_OP_ApplyAdaMax, HT_OP_ResourceApplyAdaMax },
	{ HT_OP_ApplyProximalGradientDescent, HT_OP_ResourceApplyProximalGradientDescent },
	{ HT_OP_ApplyProximalAdagrad, HT_OP_ResourceApplyProximalAdagrad },
	{ HT_OP_SparseApplyAdagrad, HT_OP_ResourceSparseApplyAdagrad },
	{ HT_OP_SparseApplyAdagradV2, HT_OP_ResourceSparseApplyAdagradV2 },
	{ HT_OP_SparseApplyMomentum, HT_OP_ResourceSparseApplyMomentum },
	{ HT_OP_SparseApplyRMSProp, HT_OP_ResourceSparseApplyRMSProp },
	{ HT_OP_SparseApplyCenteredRMSProp, HT_OP_ResourceSparseApplyCenteredRMSProp },
	{ HT_OP_SparseApplyFtrl, HT_OP_ResourceSparseApplyFtrl },
	{ HT_OP_SparseApplyFtrlV2, HT_OP_ResourceSparseApplyFtrlV2 },
	{ HT_OP_SparseApplyAdagradDA, HT_OP_ResourceSparseApplyAdagradDA },
	{ HT_OP_SparseApplyAdadelta, HT_OP_ResourceSparseApplyAdadelta },
	{ HT_OP_SparseApplyProximalGradientDescent,
		HT_OP_ResourceSparseApplyProximalGradientDescent },
	{ HT_OP_SparseApplyProximalAdagrad, HT_OP_ResourceSparseApplyProximalAdagrad },
	{ HT_OP_ScatterUpdate, HT_OP_ResourceScatterUpdate },
	{ HT_OP_ScatterAdd, HT_OP_ResourceScatterAdd },
	{ HT_OP_ScatterSub, HT_OP_ResourceScatterSub },
	{ HT_OP_ScatterMul, HT_OP_ResourceScatterMul },
	{ HT_OP_ScatterDiv, HT_OP_ResourceScatterDiv },
	{ HT_OP_ScatterMin, HT_OP_ResourceScatterMin },
	{ HT_OP_ScatterMax, HT_OP_ResourceScatterMax },
	{ HT_OP_ScatterNdUpdate, HT_OP_ResourceScatterNdUpdate },
	{ HT_OP_ScatterNdAdd, HT_OP_ResourceScatterNdAdd },
	{ HT_OP_ScatterNdSub, HT_OP_ResourceScatterNdSub },
	{ HT_OP_ScatterNdMin, HT_OP_ResourceScatterNdMin },
	{ HT_OP_ScatterNdMax, HT_OP_ResourceScatterNdMax },
	{ HT_OP_IsVariableInitialized, HT_OP_VarIsInitializedOp },
};

struct references {
	struct ht_rw r;
	struct ht_node *
		*variable; /* by node id: the variable that result 0 (of RefSwitch: each result)
			   * refers to; or NULL */
	bool *stays;       /* by node id of a variable: it keeps its references */
	bool *written;     /* by node id of a variable: a node writes to it, or a session may write
		        * between runs */
	bool *switches;    /* by node id: the node was a RefSwitch when the pass began */
	bool session;
	uint32_t ids; /* of the nodes that these arrays have; nodes made here have larger ids */
};

static enum ht_op by_handle(enum ht_op op)
{
	for (size_t i = 0; i < HT_COUNT(forms); i++)
		if (forms[i].by_reference == op)
			return forms[i].by_handle;
	return HT_OP_OPAQUE;
}

static bool is_switch(const struct references *x, const struct ht_node *n)
{
	return n->id < x->ids && x->switches[n->id];
}

/* The variable to which operand `i` of `n` is a reference; NULL: it is no reference. */
static struct ht_node *referred(const struct references *x, const struct ht_node *n, int32_t i)
{
	struct ht_value v = n->in[i];

	return (v.index == 0 || is_switch(x, v.node)) && v.node->id < x->ids
		       ? x->variable[v.node->id]
		       : NULL;
}

static bool gives_reference(const struct ht_node *n)
{
	return n->op != HT_OP_OPAQUE && n->outs == 1 && ht_op_info(n->op)->results == 1 &&
	       ht_op_info(n->op)->result[0].ref;
}

static bool is_reference_variable(const struct ht_node *n)
{
	return ht_is(n, HT_VARIABLE) && gives_reference(n);
}

static void look_at(struct references *x, struct ht_node *n)
{
	x->switches[n->id] = n->op == HT_OP_RefSwitch;
	if (is_reference_variable(n)) {
		x->variable[n->id] = n;
		x->written[n->id] = x->session;
		return;
	}
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_node *v = referred(x, n, i);

		if (!v || !ht_takes_reference(n, i))
			continue;
		x->written[v->id] |= !is_switch(x, n);
		if (by_handle(n->op) == HT_OP_OPAQUE && !is_switch(x, n))
			x->stays[v->id] = true;
		if (i == 0 && (gives_reference(n) || is_switch(x, n)))
			x->variable[n->id] = v;
	}
}

static bool converts(const struct references *x, const struct ht_node *variable)
{
	return variable && x->written[variable->id] && !x->stays[variable->id];
}

static void wait_for(struct references *x, struct ht_node *n, struct ht_node *first)
{
	struct ht_node **list = HT_NEW_ARRAY(x->r.arena, struct ht_node *, (size_t)n->controls + 1);
	int32_t count = 0;

	for (int32_t i = 0; i < n->controls; i++)
		if (n->control[i] != first)
			list[count++] = n->control[i];
	list[count++] = first;
	ht_rw_set_controls(&x->r, n, list, count);
}

/* The type and shape that variable `v` had before it became a handle. */
static struct ht_type type_of_variable(const struct ht_node *v)
{
	const struct ht_attr *shape = ht_attr_find(v, "shape");

	return (struct ht_type){ ht_type_attr(v, "dtype"),
		shape && shape->value.kind == HT_ATTR_SHAPE ? shape->value.shape.shape
							    : HT_SHAPE_UNKNOWN };
}

/* The handle that replaces `reference`: a result of the RefSwitch that the reference came through, or else of the variable. */
static struct ht_value handle_of(const struct references *x, struct ht_value reference)
{
	while (!is_switch(x, reference.node) && x->variable[reference.node->id] != reference.node)
		reference = reference.node->in[0];
	return reference;
}

static struct ht_node *read_before(struct references *x, struct ht_node *before, struct ht_node *v,
	struct ht_value handle, struct ht_str name)
{
	struct ht_node *n = ht_rw_node(
		&x->r, before, HT_OP_ReadVariableOp, name, &handle, 1, type_of_variable(v));

	ht_attr_set_type(n, "dtype", type_of_variable(v).dtype);
	return n;
}

/* `n` reads operand `i`, a reference to `v` that is a result of `from`. */
static void convert_read(
	struct references *x, struct ht_node *n, int32_t i, struct ht_node *v, struct ht_node *from)
{
	struct ht_value handle = handle_of(x, n->in[i]);
	struct ht_node *read = n;

	if (ht_is(n, HT_FORWARDS) && n->outs == 1) {
		struct ht_type t = type_of_variable(v);

		ht_rw_become(&x->r, n, HT_OP_ReadVariableOp, &handle, 1);
		ht_attr_set_type(n, "dtype", t.dtype);
		n->out[0] = t;
	} else {
		read = read_before(x, n, v, handle,
			ht_str_printf(x->r.arena, "%.*s/%.*s/read", HT_STR_ARG(n->name),
				HT_STR_ARG(v->name)));
		ht_rw_set_controls(&x->r, read, n->control, n->controls);
		ht_rw_set_in(&x->r, n, i, ht_out(read, 0));
	}
	if (from != v && !is_switch(x, from))
		wait_for(x, read, from);
}

/* ---- values that were read, behind writes ---- */

/* Whether `n` forwards the value of variable `v`, whose reference it takes. */
static bool hands_on(const struct references *x, const struct ht_node *n, const struct ht_node *v)
{
	return ht_is(n, HT_FORWARDS) && n->outs == 1 && n->ins == 1 && n->in[0].node == v &&
	       !ht_takes_reference(n, 0) && referred(x, n, 0) == v;
}

static bool writes(const struct references *x, const struct ht_node *n, const struct ht_node *v)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (referred(x, n, i) == v && ht_takes_reference(n, i) && !is_switch(x, n))
			return true;
	return false;
}

/* Whether `n` is a write, or comes behind one; nodes that the pass makes are none of these. */
static bool is_behind(const struct references *x, const bool *behind, const struct ht_node *n)
{
	return n->id < x->ids && behind[n->id];
}

static bool comes_behind(const struct references *x, const bool *behind, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (is_behind(x, behind, n->in[i].node))
			return true;
	for (int32_t i = 0; i < n->controls; i++)
		if (is_behind(x, behind, n->control[i]))
			return true;
	return false;
}

/* `n` comes behind a write to `v`, and takes in operand `i` what was read of it. */
static void read_again(
	struct references *x, struct ht_node *n, int32_t i, struct ht_node *v, const bool *behind)
{
	struct ht_node *read = read_before(x, n, v, ht_out(v, 0),
		ht_str_printf(
			x->r.arena, "%.*s/%.*s/again", HT_STR_ARG(n->name), HT_STR_ARG(v->name)));

	ht_rw_set_controls(&x->r, read, n->control, n->controls);
	for (int32_t k = 0; k < n->ins; k++)
		if (is_behind(x, behind, n->in[k].node))
			wait_for(x, read, n->in[k].node);
	ht_rw_set_in(&x->r, n, i, ht_out(read, 0));
}

/* Does so for all nodes, in their order, so that what a loop hands to its next iteration does not count. */
static void read_behind_writes(
	struct references *x, struct ht_node *v, struct ht_node *const *all, size_t count)
{
	bool *behind = HT_NEW_ARRAY(x->r.c->scratch, bool, x->ids);

	for (size_t k = 0; k < count; k++) {
		struct ht_node *n = all[k];

		if (!n->graph)
			continue;
		behind[n->id] = comes_behind(x, behind, n);
		for (int32_t i = 0; i < n->ins && behind[n->id]; i++)
			if (n->in[i].node->id < x->ids && hands_on(x, n->in[i].node, v))
				read_again(x, n, i, v, behind);
		behind[n->id] |= writes(x, n, v);
	}
}

/* Whether a value of the variable that was read is handed on to others. */
static bool is_handed_on(const struct references *x, const struct ht_node *v,
	struct ht_node *const *all, size_t count)
{
	for (size_t k = 0; k < count; k++)
		if (hands_on(x, all[k], v))
			return true;
	return false;
}

static void convert_operands(struct references *x, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_node *v = referred(x, n, i), *from = n->in[i].node;

		if (!converts(x, v))
			continue;
		if (!ht_takes_reference(n, i)) {
			convert_read(x, n, i, v, from);
			continue;
		}
		if (from != v && !is_switch(x, from)) {
			ht_rw_set_in(&x->r, n, i, handle_of(x, n->in[i]));
			wait_for(x, n, from);
		}
	}
}

/* A remaining reference that is an output becomes its value. */
static void convert_output(struct references *x, struct ht_node *n, struct ht_node *v)
{
	struct ht_node *read;

	if (!ht_rw_is_output(&x->r, ht_out(n, 0)))
		return;
	read = read_before(x, n, v, handle_of(x, ht_out(n, 0)), /* the graph is sorted at the end */
		ht_str_printf(x->r.arena, "%.*s/read", HT_STR_ARG(n->name)));
	if (n != v)
		wait_for(x, read, n);
	for (struct ht_entry *e = x->r.g->entries; e; e = e->next)
		for (struct ht_port *p = e->outputs; p; p = p->next)
			if (ht_value_eq(p->value, ht_out(n, 0)))
				p->value = ht_out(read, 0);
}

static void become_variable(struct references *x, struct ht_node *v)
{
	struct ht_type t = type_of_variable(v);
	struct ht_str name = ht_variable_name(v);

	ht_rw_become(&x->r, v, HT_OP_VarHandleOp, NULL, 0);
	ht_attr_set_type(v, "dtype", t.dtype);
	ht_attr_set_shape(v, "shape", t.shape);
	ht_attr_set_str(v, "shared_name", name);
	v->out[0] = (struct ht_type){ HT_RESOURCE, HT_SHAPE_SCALAR };
}

static void become_switch(struct references *x, struct ht_node *n)
{
	struct ht_value in[2] = { n->in[0], n->in[1] };

	ht_rw_become(&x->r, n, HT_OP_Switch, in, 2);
	ht_attr_set_type(n, "T", HT_RESOURCE);
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i] = (struct ht_type){ HT_RESOURCE, HT_SHAPE_SCALAR };
}

/* Turns an op that takes the reference of `v` into its form with a handle, which has the types
 * of the variable and of the indices. */
static void become_form(struct references *x, struct ht_node *n, const struct ht_node *v)
{
	const struct ht_op_info *info = ht_op_info(by_handle(n->op));
	enum ht_dtype t = ht_type_attr(v, "dtype"), indices = ht_type_attr(n, "Tindices");
	bool nesterov = ht_attr_bool(n, "use_nesterov", false);
	bool updates = ht_attr_bool(n, "update_slots", true);
	bool by_rate = ht_attr_bool(n, "multiply_linear_by_lr", false);
	struct ht_value *in = HT_NEW_ARRAY(x->r.arena, struct ht_value, (size_t)n->ins);

	for (int32_t i = 0; i < n->ins; i++)
		in[i] = n->in[i];
	ht_rw_become(&x->r, n, info->op, in, n->ins);
	for (int i = 0; i < info->type_attrs; i++) {
		const char *name =
			ht_str_printf(x->r.arena, "%.*s", HT_STR_ARG(info->type_attr[i].name)).p;

		ht_attr_set_type(n, name, strcmp(name, "Tindices") == 0 ? indices : t);
	}
	if (nesterov)
		ht_attr_set_bool(n, "use_nesterov", true);
	if (!updates)
		ht_attr_set_bool(n, "update_slots", false);
	if (by_rate)
		ht_attr_set_bool(n, "multiply_linear_by_lr", true);
	ht_node_set_outs(n, info->results);
}

/* The variable that `n` will take by handle; or NULL. */
static struct ht_node *form_of(const struct references *x, const struct ht_node *n)
{
	struct ht_node *v = n->ins && ht_takes_reference(n, 0) ? referred(x, n, 0) : NULL;

	return converts(x, v) ? v : NULL;
}

/* Moves the nodes that are still in the graph to the front, and returns their number: a read that nobody needs any more is dropped. */
static size_t that_stay(struct ht_node **all, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			all[kept++] = all[i];
	return kept;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct references x = { .ids = g->ids, .session = c->session };
	struct ht_node **all;
	size_t count;

	ht_rw_init(&x.r, g, c);
	x.variable = HT_NEW_ARRAY(c->scratch, struct ht_node *, g->ids);
	x.stays = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	x.written = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	x.switches = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	all = ht_rw_nodes(&x.r, &count);
	for (size_t i = 0; i < count; i++)
		look_at(&x, all[i]);
	for (size_t i = 0; i < count; i++)
		if (x.variable[all[i]->id] == all[i] && converts(&x, all[i]) &&
			is_handed_on(&x, all[i], all, count))
			read_behind_writes(&x, all[i], all, count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			convert_operands(&x, all[i]);
	count = that_stay(all, count);
	for (size_t i = 0; i < count; i++)
		if (converts(&x, x.variable[all[i]->id]))
			convert_output(&x, all[i], x.variable[all[i]->id]);
	for (size_t i = 0; i < count; i++) {
		struct ht_node *v = form_of(&x, all[i]);

		if (v && !is_switch(&x, all[i]))
			become_form(&x, all[i], v);
	}
	for (size_t i = 0; i < count; i++)
		if (is_switch(&x, all[i]) && form_of(&x, all[i]))
			become_switch(&x, all[i]);
	for (size_t i = 0; i < count; i++)
		if (x.variable[all[i]->id] == all[i] && converts(&x, all[i]))
			become_variable(&x, all[i]);
	return x.r.changed ? ht_graph_sort(g, c->diags) : HT_OK;
}

const struct ht_pass ht_pass_references = {
	.name = "references",
	.summary = "passes variables by handle that TensorFlow 1 passes by reference",
	.run = run,
};
