/* loss_scale: divides gradients by the loss scale, and skips updates by gradients that are not finite.
 *
 * Gradients are the tensors that are proportional to the variable HT_LOSS_SCALE (linear.h).  Where a gradient is an output, or a node
 * that is not proportional uses it (the step of an optimiser, clipping, a norm), the pass divides the gradient by the scale, in
 * float32 if its type is narrower.  The variable HT_GRADIENTS_FINITE is set to whether all elements of all these quotients are
 * finite.  If they are not, no node that depends on a quotient may change a variable: the pass turns each node that would into an
 * If whose else branch does nothing.
 *
 * Runs after the pass `precision`, so that policies do not see the nodes that are added here. */
#include "passes/loss_scale.h"

#include "passes/float_status.h"
#include "passes/linear.h"
#include "passes/outline.h"

struct scaling {
	struct ht_rw r;
	struct ht_node
		*end; /* NULL: new nodes go to the end of the graph, which is sorted afterwards */
	/* By node id, for nodes that the pass did not make: 1 where results are proportional to the scale, 0 elsewhere. */
	uint64_t *linear;
	uint32_t ids;            /* the first node id that the pass makes */
	struct ht_value inverse; /* 1 / the scale */
	struct ht_value *quotient;
	int32_t quotients;
	size_t quotient_cap;
	struct ht_value finite; /* whether all quotients are finite */
	bool *waits;            /* by node id: the node depends on a node that the pass made */
	struct ht_outlines outlines;
};

static struct ht_str named(struct scaling *x, struct ht_str of, const char *what)
{
	return ht_str_printf(x->r.arena, "%.*s/%s", HT_STR_ARG(of), what);
}

static bool is_linear(const struct scaling *x, const struct ht_node *n)
{
	return n->id < x->ids && x->linear[n->id] != 0;
}

/* ---- quotients ---- */

static struct ht_value inverse_in(struct scaling *x, enum ht_dtype t)
{
	return t == HT_F64 ? ht_rw_cast(&x->r, x->end, HT_STR("loss_scale/wide"), x->inverse, t)
			   : x->inverse;
}

static void add_quotient(struct scaling *x, struct ht_value v)
{
	x->quotient = ht_grow(x->r.arena, x->quotient, (size_t)x->quotients, &x->quotient_cap,
		sizeof *x->quotient);
	x->quotient[x->quotients++] = v;
}

/* `v` divided by the scale, in v's type. */
static struct ht_value unscaled(struct scaling *x, struct ht_value v)
{
	enum ht_dtype t = ht_type_of(v)->dtype, as = t == HT_F64 ? t : HT_F32;
	struct ht_str name = v.node->name;
	struct ht_value wide = t == as ? v
				       : ht_rw_cast(&x->r, x->end, named(x, name, "wide"), v, as),
			u = ht_rw_binary(&x->r, x->end, HT_OP_Mul, named(x, name, "unscaled"), wide,
				inverse_in(x, as));

	add_quotient(x, u);
	return t == as ? u : ht_rw_cast(&x->r, x->end, named(x, name, "narrow"), u, t);
}

/* Whether use `u` of a proportional tensor must read the quotient instead. */
static bool leaves(const struct scaling *x, const struct ht_rw_use *u)
{
	return u->arg >= 0 && u->node->id < x->ids && !is_linear(x, u->node) &&
	       !ht_asks_shape_alone(u->node);
}

static struct ht_rw_use *leaving(struct scaling *x, struct ht_value v, size_t *count)
{
	const struct ht_rw_use *u;
	struct ht_rw_use *list = NULL;
	size_t cap = 0;

	*count = 0;
	for (u = ht_rw_first_use(&x->r, v.node); u; u = ht_rw_next_use(&x->r, u)) {
		if (u->arg < 0 || u->node->in[u->arg].index != v.index || !leaves(x, u))
			continue;
		list = ht_grow(x->r.arena, list, *count, &cap, sizeof *list);
		list[(*count)++] = *u;
	}
	return list;
}

static void set_outputs(struct scaling *x, struct ht_value from, struct ht_value to)
{
	for (struct ht_entry *e = x->r.g->entries; e; e = e->next)
		for (struct ht_port *p = e->outputs; p; p = p->next)
			if (ht_value_eq(p->value, from))
				p->value = to;
}

static void take_out(struct scaling *x, struct ht_value v)
{
	bool given = ht_rw_is_output(&x->r, v);
	struct ht_rw_use *list;
	struct ht_value u;
	size_t count;

	if (!ht_is_float(ht_type_of(v)->dtype))
		return;
	list = leaving(x, v, &count);
	if (!count && !given)
		return;
	u = unscaled(x, v);
	for (size_t i = 0; i < count; i++)
		ht_rw_set_in(&x->r, list[i].node, list[i].arg, u);
	if (given)
		set_outputs(x, v, u);
}

/* ---- updates ---- */

/* Fills x->waits.  The graph must be sorted. */
static void find_waiting(struct scaling *x)
{
	x->waits = HT_NEW_ARRAY(x->r.arena, bool, x->r.g->ids);
	for (const struct ht_node *n = x->r.g->first; n; n = n->next)
		x->waits[n->id] = n->id >= x->ids || ht_needs_marked(n, x->waits);
}

static int32_t argument_of_update(void *of, struct ht_value v)
{
	const struct ht_node *n = of;

	for (int32_t i = 0; i < n->ins; i++)
		if (ht_value_eq(n->in[i], v))
			return i;
	return -1;
}

static enum ht_dtype type_of_argument(void *of, int32_t i)
{
	const struct ht_node *n = of;

	return ht_type_of(n->in[i])->dtype;
}

static bool is_update(void *of, struct ht_node *n)
{
	return of == n;
}

static struct ht_function *outline(struct scaling *x, struct ht_node *n, bool runs)
{
	struct ht_outline o = { &x->outlines, n, argument_of_update, type_of_argument, is_update,
		n->ins };

	return ht_outline(&o, named(x, n->name, runs ? "update" : "skip"), NULL, 0, &n, runs);
}

static void wait_for(struct scaling *x, struct ht_node *n, struct ht_node *first)
{
	ht_rw_set_controls(&x->r, n, ht_controls_and(x->r.arena, n, &first, 1), n->controls + 1);
}

/* Turns `n` into an If that runs it if all gradients are finite, and else does nothing.  The If waits for `told`, which sets
 * HT_GRADIENTS_FINITE. */
static void make_branch(struct scaling *x, struct ht_node *n, struct ht_node *told)
{
	struct ht_function *run = outline(x, n, true), *skip = outline(x, n, false);
	enum ht_dtype *types = HT_NEW_ARRAY(x->r.arena, enum ht_dtype, (size_t)n->ins);
	struct ht_value *in = HT_NEW_ARRAY(x->r.arena, struct ht_value, (size_t)n->ins + 1);
	int32_t args = n->ins;

	in[0] = x->finite;
	for (int32_t i = 0; i < args; i++) {
		types[i] = ht_type_of(n->in[i])->dtype;
		in[i + 1] = n->in[i];
	}
	ht_rw_become(&x->r, n, HT_OP_If, in, args + 1);
	ht_attr_set_types(n, "Tin", types, args);
	ht_attr_set_types(n, "Tout", NULL, 0);
	ht_attr_set_function(n, "then_branch", run->name);
	ht_attr_set_function(n, "else_branch", skip->name);
	wait_for(x, n, told);
}

/* Makes the node that sets HT_GRADIENTS_FINITE. */
static struct ht_node *tell(struct scaling *x)
{
	struct ht_value in[2] = { ht_own_variable(&x->r, x->end, HT_GRADIENTS_FINITE, HT_BOOL),
		x->finite };
	struct ht_node *n = ht_rw_node(&x->r, x->end, HT_OP_AssignVariableOp,
		HT_STR("loss_scale/finite"), in, 2, (struct ht_type){ HT_BOOL, HT_SHAPE_SCALAR });

	ht_node_set_outs(n, 0);
	return n;
}

static enum ht_status guard_updates(struct scaling *x)
{
	size_t count;
	struct ht_node **all, *told;

	x->finite = ht_all_finite(
		&x->r, x->end, HT_STR("loss_scale/all_finite"), x->quotient, x->quotients);
	HT_TRY(ht_graph_sort(x->r.g, x->r.c->diags));
	find_waiting(x);
	ht_outlines_init(&x->outlines, x->r.g, x->r.g->ids, x->r.arena);
	all = ht_rw_nodes(&x->r, &count);
	told = tell(x);
	for (size_t i = 0; i < count; i++) {
		struct ht_node *n = all[i];

		if (!x->waits[n->id] || !ht_changes_variable(n))
			continue;
		if (n->outs)
			return ht_error(x->r.c->diags, HT_E_UNSUPPORTED,
				(struct ht_where){ .path = x->r.g->path,
					.node = n->name,
					.op = n->type,
					.offset = -1 },
				"this update cannot be skipped where a gradient overflows");
		make_branch(x, n, told);
	}
	return HT_OK;
}

static struct ht_node *read_of_scale(const struct ht_graph *g)
{
	const struct ht_node *v = ht_own_variable_find(g, HT_LOSS_SCALE);

	for (struct ht_node *n = v ? g->first : NULL; n; n = n->next)
		if (ht_is(n, HT_READS_VARIABLE) && n->in[0].node == v)
			return n;
	return NULL;
}

/* ---- training without a loss scale ---- */

/* Whether the update of a variable depends on a float16 tensor. */
static bool updates_by_float16(const struct ht_graph *g, struct ht_arena *a)
{
	bool *low = HT_NEW_ARRAY(a, bool, g->ids);

	for (const struct ht_node *n = g->first; n; n = n->next) {
		for (int32_t i = 0; i < n->ins; i++)
			low[n->id] |= low[n->in[i].node->id];
		for (int32_t i = 0; i < n->outs; i++)
			low[n->id] |= n->out[i].dtype == HT_F16;
		if (low[n->id] && ht_changes_variable(n))
			return true;
	}
	return false;
}

static void warn_without_scale(const struct ht_graph *g, struct ht_pass_context *c)
{
	if (c->session && updates_by_float16(g, c->scratch))
		ht_warn(c->diags, (struct ht_where){ .path = g->path, .offset = -1 },
			"this step computes in float16 without a loss scale: gradients below 6e-8 are zero; "
			"scale them, or take bfloat16");
}

/* ---- the pass ---- */

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_node *read = read_of_scale(g), **all;
	struct scaling x = { .ids = g->ids };
	size_t count, proportional;

	if (!read) {
		warn_without_scale(g, c);
		return HT_OK;
	}
	ht_rw_init(&x.r, g, c);
	all = ht_rw_nodes(&x.r, &count);
	x.linear = HT_NEW_ARRAY(x.r.arena, uint64_t, x.ids);
	ht_linear_in(g, &read, 1, NULL, x.linear, &proportional);
	x.inverse = ht_rw_unary(
		&x.r, x.end, HT_OP_Reciprocal, HT_STR("loss_scale/inverse"), ht_out(read, 0));
	for (size_t i = 0; i < count; i++)
		for (int32_t k = 0; k < all[i]->outs && is_linear(&x, all[i]); k++)
			take_out(&x, ht_out(all[i], k));
	if (x.quotients && !c->unchecked)
		HT_TRY(guard_updates(&x));
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_loss_scale = {
	.name = "loss_scale",
	.summary = "takes the loss scale out of gradients; skips updates by those that overflow",
	.run = run,
};
