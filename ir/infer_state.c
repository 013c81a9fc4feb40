/* Rules of variables, calls and function arguments. */
#include "ir/infer.h"

static struct ht_shape shape_attr(const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "shape");

	return a && a->value.kind == HT_ATTR_SHAPE ? a->value.shape.shape : HT_SHAPE_UNKNOWN;
}

enum ht_status ht_infer_variable(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	n->out[0].shape = shape_attr(n);
	/* TensorFlow 1 wrote [] for variables of unknown shape. */
	if (n->op == HT_OP_Variable && n->out[0].shape.rank == 0)
		n->out[0].shape = HT_SHAPE_UNKNOWN;
	return HT_OK;
}

enum ht_status ht_infer_assign(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	n->out[0].shape = ht_in_shape(n, 1);
	return HT_OK;
}

/* The handle's own node says the shape, when it can be seen. */
static struct ht_shape handle_shape(const struct ht_node *n)
{
	struct ht_value h = n->in[0];

	while (ht_is(h.node, HT_FORWARDS | HT_ENTERS) && h.index >= 0 && h.index < h.node->ins)
		h = h.node->in[h.index];
	return ht_is(h.node, HT_VARIABLE) ? shape_attr(h.node) : HT_SHAPE_UNKNOWN;
}

enum ht_status ht_infer_read_variable(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	n->out[0].shape = handle_shape(n);
	return HT_OK;
}

enum ht_status ht_infer_variable_shape(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);
	struct ht_shape s = handle_shape(n);

	if (s.rank >= 0)
		d[0] = s.rank;
	ht_set_shape(n, 0, 1, d);
	return HT_OK;
}

enum ht_status ht_infer_arg(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	(void)n;
	return HT_OK;
}

/* Shapes of the results from list attribute `name`. */
static void listed_shapes(struct ht_node *n, const char *name)
{
	const struct ht_attr *a = ht_attr_find(n, name);

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_SHAPE)
		return;
	for (int32_t i = 0; i < n->outs && (size_t)i < a->value.list.n; i++)
		n->out[i].shape = a->value.list.item[i].shape.shape;
}

enum ht_status ht_infer_iterator(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	listed_shapes(n, "output_shapes");
	return HT_OK;
}

static const struct ht_function *called(
	const struct ht_infer *in, const struct ht_node *n, const char *attr)
{
	const struct ht_attr *a = ht_attr_find(n, attr);

	return a && a->value.kind == HT_ATTR_FUNC
		       ? ht_graph_function(in->g->library, a->value.func->name)
		       : NULL;
}

static struct ht_shape ret_shape(const struct ht_port *ret)
{
	struct ht_value v = ret->value;

	return v.node && !v.port.n && v.index >= 0 && v.index < v.node->outs
		       ? v.node->out[v.index].shape
		       : HT_SHAPE_UNKNOWN;
}

/* What the body says about its results holds for every call: its arguments' shapes are unknown,
 * or the same for all callers. */
enum ht_status ht_infer_call(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_function *f = called(in, n, "f");
	const struct ht_port *ret = f ? f->rets : NULL;

	for (int32_t i = 0; i < n->outs && ret; i++, ret = ret->next)
		n->out[i].shape = ret_shape(ret);
	return HT_OK;
}

enum ht_status ht_infer_call_if(struct ht_infer *in, struct ht_node *n)
{
	struct ht_bodies body = ht_control_bodies(n);
	const struct ht_port *a = body.of[0] ? body.of[0]->rets : NULL,
			     *b = body.of[1] ? body.of[1]->rets : NULL;

	(void)in;
	listed_shapes(n, "output_shapes");
	for (int32_t i = 0; i < n->outs && a && b; i++, a = a->next, b = b->next)
		if (!ht_shape_known(n->out[i].shape) && ht_shape_eq(ret_shape(a), ret_shape(b)))
			n->out[i].shape = ret_shape(a);
	return HT_OK;
}

/* The arguments of a body that is this loop's alone have the shapes of every iteration. */
enum ht_status ht_infer_call_while(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_function *body = ht_control_bodies(n).of[1];
	const struct ht_port *arg = body && body->special ? body->args : NULL;

	(void)in;
	listed_shapes(n, "output_shapes");
	for (int32_t i = 0; i < n->outs && arg; i++, arg = arg->next)
		if (!ht_shape_known(n->out[i].shape))
			n->out[i].shape = ret_shape(arg);
	return HT_OK;
}

/* The handle of an array, and the value that orders its uses. */
enum ht_status ht_infer_tensor_array(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);

	d[0] = 2;
	ht_set_shape(n, 0, 1, d);
	n->out[1].shape = HT_SHAPE_SCALAR;
	return HT_OK;
}
