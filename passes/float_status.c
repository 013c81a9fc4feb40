/* float_status: gives the vendor's overflow flag (NPULossScaleOptimizer) a meaning on machines that have no such flag.
 *
 * On the vendor's device NpuGetFloatStatus writes into the memory of NpuAllocFloatStatus whether an operation overflowed since
 * NpuClearFloatStatus.  Here NpuGetFloatStatus inspects the floating-point results of the nodes that its control edges name; a
 * NoOp among these nodes stands for the nodes that the NoOp waits for.  NpuGetFloatStatus returns eight ones if an element of these
 * tensors is infinite or NaN, else eight zeros.  NpuAllocFloatStatus and NpuClearFloatStatus return eight zeros.  Other readers of
 * the allocation read the result of its NpuGetFloatStatus instead.
 *
 * The pass turns NpuGetFloatStatus into _FloatStatus, whose operands are the inspected tensors.  It runs before all passes that drop
 * control edges.  Pass `training` writes _FloatStatus as _AllFinite and elementary ops, after policies have decided on it as one op.
 *
 * Left alone: a graph that is only shown, or written for the vendor's compiler. */
#include "passes/float_status.h"

#include <string.h>

enum { NUMBERS = 8 };

struct status {
	struct ht_rw r;
	struct ht_value *of; /* the tensors that one NpuGetFloatStatus inspects */
	enum ht_dtype *type; /* their element types */
	size_t count, cap, cap_types;
	bool *met; /* by node id: add_tensors() has visited the node */
};

/* ---- control edges become operands ---- */

static void add(struct status *x, struct ht_value v, enum ht_dtype t)
{
	x->of = ht_grow(x->r.arena, x->of, x->count, &x->cap, sizeof *x->of);
	x->type = ht_grow(x->r.arena, x->type, x->count, &x->cap_types, sizeof *x->type);
	x->of[x->count] = v;
	x->type[x->count++] = t;
}

/* Adds the floating-point results of `n`; if `n` is a NoOp, those of the nodes that it waits for. */
static void add_tensors(struct status *x, struct ht_node *n, int depth)
{
	if (x->met[n->id] || depth > 64)
		return;
	x->met[n->id] = true;
	for (int32_t i = 0; i < n->outs; i++) {
		enum ht_dtype t = ht_stated_type(ht_out(n, i)).dtype;

		if (ht_is_float(t))
			add(x, ht_out(n, i), t);
	}
	for (int32_t i = 0; i < n->controls && n->op == HT_OP_NoOp; i++)
		add_tensors(x, n->control[i], depth + 1);
}

static struct ht_value zeros(struct ht_rw *r, struct ht_node *n)
{
	static const int64_t dim[1] = { NUMBERS };

	return ht_rw_const(r, n, n->name, HT_F32, (struct ht_shape){ 1, dim },
		ht_rw_blob(r, NUMBERS * sizeof(float)));
}

static enum ht_status refuse(const struct ht_node *n, struct ht_pass_context *c, const char *what)
{
	return ht_error(c->diags, HT_E_UNSUPPORTED,
		(struct ht_where){
			.path = n->graph->path, .node = n->name, .op = n->type, .offset = -1 },
		"%s", what);
}

static enum ht_status convert_get(struct status *x, struct ht_node *n)
{
	struct ht_value *in;

	x->count = 0;
	x->met = HT_NEW_ARRAY(x->r.arena, bool, x->r.g->ids);
	for (int32_t i = 0; i < n->controls; i++)
		add_tensors(x, n->control[i], 0);
	if (!x->count)
		return refuse(n, x->r.c,
			"it waits for no tensor of floating point, so there is nothing of which it "
			"could tell whether it overflowed");
	in = HT_NEW_ARRAY(x->r.arena, struct ht_value, x->count);
	memcpy(in, x->of, x->count * sizeof *in);
	ht_rw_become(&x->r, n, HT_OP__FloatStatus, in, (int32_t)x->count);
	ht_attr_set_types(n, "T", x->type, (int32_t)x->count);
	return HT_OK;
}

/* Makes the readers of allocation `n` read the result of its NpuGetFloatStatus, except that node itself. */
static enum ht_status convert_alloc(struct status *x, struct ht_node *n)
{
	const struct ht_rw_use *u;
	struct ht_node *get = NULL;
	bool others = false;

	for (u = ht_rw_first_use(&x->r, n); u; u = ht_rw_next_use(&x->r, u)) {
		if (u->arg < 0)
			continue;
		if (u->node->op != HT_OP_NpuGetFloatStatus)
			others |= u->node->op != HT_OP_NpuClearFloatStatus;
		else if (get && get != u->node)
			return refuse(n, x->r.c, "several nodes get this status; one is supported");
		else
			get = u->node;
	}
	if (!get || !others)
		return HT_OK;
	ht_rw_replace_behind(&x->r, ht_out(n, 0), ht_out(get, 0));
	return HT_OK;
}

static bool has(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (n->op == HT_OP_NpuAllocFloatStatus || n->op == HT_OP_NpuGetFloatStatus ||
			n->op == HT_OP_NpuClearFloatStatus)
			return true;
	return false;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct status x = { 0 };
	struct ht_node **all;
	size_t count;

	if (c->keep_changed || !has(g))
		return HT_OK;
	ht_rw_init(&x.r, g, c);
	all = ht_rw_nodes(&x.r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph && all[i]->op == HT_OP_NpuAllocFloatStatus)
			HT_TRY(convert_alloc(&x, all[i]));
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph && all[i]->op == HT_OP_NpuGetFloatStatus)
			HT_TRY(convert_get(&x, all[i]));
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph && (all[i]->op == HT_OP_NpuAllocFloatStatus ||
					     all[i]->op == HT_OP_NpuClearFloatStatus))
			ht_rw_take_place(&x.r, all[i], zeros(&x.r, all[i]));
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_float_status = {
	.name = "float_status",
	.summary = "what the vendor's overflow flag tells of",
	.spares_functions = true,
	.run = run,
};

/* ---- _FloatStatus in elementary ops ---- */

struct ht_value ht_all_finite(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	const struct ht_value *v, int32_t n)
{
	enum ht_dtype *types = HT_NEW_ARRAY(r->arena, enum ht_dtype, (size_t)n);
	struct ht_node *all = ht_rw_node(r, before, HT_OP__AllFinite, name, v, n,
		(struct ht_type){ HT_BOOL, HT_SHAPE_SCALAR });

	for (int32_t i = 0; i < n; i++)
		types[i] = ht_type_of(v[i])->dtype;
	ht_attr_set_types(all, "T", types, n);
	return ht_out(all, 0);
}

void ht_write_float_status(struct ht_rw *r, struct ht_node *n)
{
	static const int64_t dim[1] = { NUMBERS };
	const struct ht_shape shape = { 1, dim };
	const int64_t numbers = NUMBERS;
	struct ht_value finite, in[2];
	struct ht_node *overflows, *fill;

	for (int32_t i = 0; i < n->ins; i++)
		if (ht_type_of(n->in[i])->shape.rank < 0)
			return;
	finite = ht_all_finite(r, n, ht_rw_name_within(r, n, "finite"), n->in, n->ins);
	overflows = ht_rw_node(r, n, HT_OP_LogicalNot, ht_rw_name_within(r, n, "overflows"),
		&finite, 1, (struct ht_type){ HT_BOOL, HT_SHAPE_SCALAR });
	in[0] = ht_rw_const_ints(r, n, n->name, HT_I32, &numbers, 1);
	in[1] = ht_rw_cast(r, n, n->name, ht_out(overflows, 0), HT_F32);
	fill = ht_rw_node(r, n, HT_OP_Fill, n->name, in, 2, (struct ht_type){ HT_F32, shape });
	ht_rw_replace_node(r, n, ht_out(fill, 0));
}
