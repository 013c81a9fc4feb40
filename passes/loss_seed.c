/* loss_seed: multiplies the gradients of a loss by the loss scale where backpropagation begins.
 *
 * Backpropagation begins with the derivative of the loss with respect to itself: a constant, the *seed*, which is 1 in TensorFlow's
 * gradients.  The graph does not say which constant that is.  Of the constants and OnesLike nodes, this pass takes the one to which the most
 * nodes are proportional (linear.h), of the nodes that the loss does not depend on; it multiplies the constant by the variable HT_LOSS_SCALE
 * where these nodes use it.  A constant that the loss depends on as well counts only if there are more such nodes than for any other one:
 * a graph in which equal constants were merged has one node for its seed and for constants of the model.
 * The pass runs before constants are folded, and before other passes could merge the constant at which gradients begin with an equal
 * constant of the loss.  Pass loss_scale
 * divides by the scale wherever proportionality ends, so a wrong choice would change results by rounding errors only, if the graph has no cycle then.
 *
 * Left alone: a graph that changes no variable, or that does not have the loss among its outputs. */
#include "passes/linear.h"
#include "passes/loss_scale.h"

struct ht_node *ht_own_variable_find(const struct ht_graph *g, const char *name)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_VARIABLE) && ht_str_is(ht_variable_name(n), name))
			return n;
	return NULL;
}

struct ht_value ht_own_variable(
	struct ht_rw *r, struct ht_node *before, const char *name, enum ht_dtype t)
{
	struct ht_node *n = ht_own_variable_find(r->g, name);

	if (n)
		return ht_out(n, 0);
	n = ht_rw_node(r, before, HT_OP_VarHandleOp, ht_str(name), NULL, 0,
		(struct ht_type){ HT_RESOURCE, HT_SHAPE_SCALAR });
	ht_attr_set_type(n, "dtype", t);
	ht_attr_set_shape(n, "shape", HT_SHAPE_SCALAR);
	ht_attr_set_str(n, "shared_name", ht_str(name));
	ht_attr_set_str(n, "container", HT_STR(""));
	ht_attr_set_tensor(n, "_value", ht_tensor_new(r->g->arena, t, HT_SHAPE_SCALAR, NULL));
	return ht_out(n, 0);
}

/* ---- the seed ---- */

static const struct ht_port *output_named(const struct ht_pass_context *c)
{
	for (const struct ht_port *p = c->entry ? c->entry->outputs : NULL; p; p = p->next)
		if (ht_str_eq(p->name, c->scaled_loss) || ht_str_eq(p->alias, c->scaled_loss))
			return p;
	return NULL;
}

static bool may_be_seed(struct ht_node *n)
{
	double x;

	if (n->outs != 1 || !ht_is_float(n->out[0].dtype))
		return false;
	return n->op == HT_OP_OnesLike ||
	       (ht_is(n, HT_CONSTANT) && ht_const_splat(ht_out(n, 0), &x) && x != 0);
}

/* The best candidate so far, and the number of nodes that are proportional to it. */
struct seed {
	struct ht_node *node;
	size_t count;
};

struct seeking {
	const struct ht_graph *g;
	bool *needed; /* by node id: by the loss */
	uint64_t *linear;
	struct seed best;
};

static void take_best(struct seeking *x, struct ht_node *const *of, size_t n)
{
	size_t count[HT_LINEAR_MOST];

	ht_linear_in(x->g, of, n, x->needed, x->linear, count);
	for (size_t i = 0; i < n; i++)
		if (count[i] > x->best.count)
			x->best = (struct seed){ of[i], count[i] };
}

/* Tries the candidates that the loss depends on, or the others. */
static void seek(struct seeking *x, bool needed)
{
	struct ht_node *candidate[HT_LINEAR_MOST] = { NULL };
	size_t n = 0;

	for (struct ht_node *at = x->g->first; at; at = at->next) {
		if (x->needed[at->id] != needed || !may_be_seed(at))
			continue;
		candidate[n++] = at;
		if (n == HT_LINEAR_MOST) {
			take_best(x, candidate, n);
			n = 0;
		}
	}
	take_best(x, candidate, n);
}

struct ht_node *ht_gradient_seed(
	const struct ht_graph *g, struct ht_node *loss, bool *needed, struct ht_arena *a)
{
	struct seeking x = { .g = g,
		.needed = needed,
		.linear = HT_NEW_ARRAY(a, uint64_t, g->ids),
		.best = { .count = 1 } };

	needed[loss->id] = true;
	ht_mark_operands(g, needed, false);
	seek(&x, false);
	seek(&x, true);
	return x.best.node;
}

/* ---- the scale ---- */

/* Where nodes that the loss does not depend on use `from`, they get `to`; `ids` is the number of nodes before `to` was made. */
static void replace_in_gradients(
	struct ht_rw *r, struct ht_value from, struct ht_value to, const bool *needed, uint32_t ids)
{
	for (struct ht_node *n = r->g->first; n; n = n->next)
		for (int32_t i = 0; n->id < ids && !needed[n->id] && i < n->ins; i++)
			if (ht_value_eq(n->in[i], from))
				ht_rw_set_in(r, n, i, to);
}

static void scale(struct ht_rw *r, struct ht_node *seed, const bool *needed)
{
	const uint32_t ids = r->g->ids;
	struct ht_node *before = seed->next, *read;
	enum ht_dtype t = seed->out[0].dtype;
	struct ht_value handle = ht_own_variable(r, before, HT_LOSS_SCALE, HT_F32), v, product;

	read = ht_rw_node(r, before, HT_OP_ReadVariableOp, HT_STR("loss_scale/read"), &handle, 1,
		(struct ht_type){ HT_F32, HT_SHAPE_SCALAR });
	ht_attr_set_type(read, "dtype", HT_F32);
	v = ht_out(read, 0);
	if (t != HT_F32)
		v = ht_rw_cast(r, before, HT_STR("loss_scale/cast"), v, t);
	product = ht_rw_binary(r, before, HT_OP_Mul, HT_STR("loss_scale/seed"), ht_out(seed, 0), v);
	replace_in_gradients(r, ht_out(seed, 0), product, needed, ids);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	const struct ht_port *loss = c->scaled_loss.n ? output_named(c) : NULL;
	struct ht_rw r;
	struct ht_node *seed;
	bool *needed;

	if (!loss || !ht_changes_any(g))
		return HT_OK;
	HT_TRY(ht_infer_types(g, c->diags));
	ht_rw_init(&r, g, c);
	needed = HT_NEW_ARRAY(r.arena, bool, g->ids);
	seed = ht_gradient_seed(g, loss->value.node, needed, r.arena);
	if (!seed)
		return ht_error(c->diags, HT_E_UNSUPPORTED,
			(struct ht_where){
				.path = g->path, .node = loss->value.node->name, .offset = -1 },
			"the gradients of this loss cannot be scaled: no constant is found that "
			"they begin at");
	scale(&r, seed, needed);
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_loss_seed = {
	.name = "loss_seed",
	.summary = "multiplies what the gradients of a loss begin at by the loss scale",
	.spares_functions = true,
	.run = run,
};
