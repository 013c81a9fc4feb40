/* split_fused and expand_fused: replace fused ops by the ops that they stand for.
 *
 * split_fused replaces the ops into which TF.js and Grappler fuse the neighbours of a
 * contraction (_FusedConv2D, FusedDepthwiseConv2dNative, _FusedMatMul, _FusedBatchNormEx), so
 * that other passes see one form.  It runs on import.  Prelu stays an op.
 *
 * expand_fused does the same.  For export it also replaces ops that TensorFlow does not have
 * (Prelu, LayerNorm, RmsNorm, Gelu, Silu, HardSwish, HardSigmoid) by ops that it has.  These ops
 * compute in float32 and round once, so in float16 and bfloat16 the expansion is put between two
 * casts.
 *
 * Both passes also change the bodies of functions.  A fused op with an unknown part is left
 * alone. */
#include "passes/rewrite.h"

#include <math.h>

struct chain {
	struct ht_rw *r;
	struct ht_node *n;   /* the op; the last part takes its place */
	struct ht_value v;   /* result of the parts so far */
	struct ht_type type; /* of each part; types may not be inferred yet */
	int32_t arg;         /* next operand of the fused parts */
};

static struct ht_str part_name(struct chain *c, struct ht_str part)
{
	return ht_str_printf(c->r->arena, "%.*s/%.*s", HT_STR_ARG(c->n->name), HT_STR_ARG(part));
}

/* ---- parts of fused_ops ---- */

static enum ht_op activation_named(struct ht_str s)
{
	static const struct {
		const char *name;
		enum ht_op op;
	} known[] = {
		{ "Relu", HT_OP_Relu },
		{ "Relu6", HT_OP_Relu6 },
		{ "Elu", HT_OP_Elu },
		{ "Tanh", HT_OP_Tanh },
		{ "Sigmoid", HT_OP_Sigmoid },
		{ "LeakyRelu", HT_OP_LeakyRelu },
		{ "GeluExact", HT_OP_Gelu },
		{ "GeluApproximate", HT_OP_Gelu },
	};

	for (size_t i = 0; i < HT_COUNT(known); i++)
		if (ht_str_is(s, known[i].name))
			return known[i].op;
	return HT_OP_OPAQUE;
}

/* Operands that a part takes besides the value; -1: not known. */
static int operands_of(struct ht_str part)
{
	if (ht_str_is(part, "BiasAdd") || ht_str_is(part, "Prelu") || ht_str_is(part, "Add"))
		return 1;
	if (ht_str_is(part, "FusedBatchNorm"))
		return 4;
	return activation_named(part) != HT_OP_OPAQUE ? 0 : -1;
}

/* A part of one result; `in` are its operands. */
static struct ht_node *add_part(struct chain *c, enum ht_op op, struct ht_str part, int32_t more)
{
	struct ht_value in[8] = { c->v };
	struct ht_node *n;

	for (int32_t i = 0; i < more; i++)
		in[1 + i] = c->n->in[c->arg++];
	n = ht_rw_node(c->r, c->n, op, part_name(c, part), in, 1 + more, c->type);
	ht_attr_set_type(n, "T", c->type.dtype);
	c->v = ht_out(n, 0);
	return n;
}

static void set_batch_norm(struct ht_node *n, const struct ht_node *from)
{
	struct ht_shape scale = ht_type_of(n->in[1])->shape;

	enum ht_dtype u = ht_attr_type(from, "U", HT_F32);

	ht_attr_set_type(n, "U", u);
	ht_rw_copy_attr(n, from, "epsilon");
	ht_rw_copy_attr(n, from, "data_format");
	ht_rw_copy_attr(n, from, "exponential_avg_factor");
	ht_attr_set_bool(n, "is_training", ht_attr_bool(from, "is_training", false));
	ht_node_set_outs(n, 6);
	for (int32_t i = 1; i < 6; i++)
		n->out[i] = (struct ht_type){ u, i < 5 ? scale : HT_SHAPE_UNKNOWN };
}

static void add_activation(struct chain *c, struct ht_str part)
{
	struct ht_node *n = add_part(c, activation_named(part), part, 0);

	if (n->op == HT_OP_LeakyRelu)
		ht_attr_set_float(n, "alpha", ht_attr_float(c->n, "leakyrelu_alpha", 0.2F));
	if (n->op == HT_OP_Gelu)
		ht_attr_set_bool(n, "approximate", ht_str_is(part, "GeluApproximate"));
}

/* In TF.js a bias is any operand that broadcasts to the value, such as [1,1,1,1] or [1,1,C]. */
static bool is_broadcast_bias(const struct ht_graph *g, struct ht_value bias)
{
	const struct ht_tensor *t = ht_const_tensor(bias);
	struct ht_shape s = t ? t->shape : ht_type_of(bias)->shape;

	return g->source == HT_SOURCE_TFJS && s.rank >= 0 && s.rank != 1;
}

static void add_fused_part(struct chain *c, struct ht_str part)
{
	struct ht_node *n;

	if (ht_str_is(part, "BiasAdd") && is_broadcast_bias(c->r->g, c->n->in[c->arg])) {
		add_part(c, HT_OP_AddV2, part, 1);
	} else if (ht_str_is(part, "BiasAdd")) {
		n = add_part(c, HT_OP_BiasAdd, part, 1);
		ht_rw_copy_attr(n, c->n, "data_format");
	} else if (ht_str_is(part, "Prelu")) {
		add_part(c, HT_OP_Prelu, part, 1);
	} else if (ht_str_is(part, "Add")) {
		add_part(c, HT_OP_AddV2, part, 1);
	} else if (ht_str_is(part, "FusedBatchNorm")) {
		n = add_part(c, HT_OP_FusedBatchNormV3, part, 4);
		set_batch_norm(n, c->n);
	} else {
		add_activation(c, part);
	}
}

static bool knows_parts(const struct ht_node *n, const struct ht_attr *ops)
{
	int32_t operands = 2;

	if (!ops || ops->value.kind != HT_ATTR_LIST)
		return false;
	for (size_t i = 0; i < ops->value.list.n; i++) {
		const struct ht_attr_value *part = &ops->value.list.item[i];
		int more = part->kind == HT_ATTR_STRING ? operands_of(part->s) : -1;

		if (more < 0)
			return false;
		operands += more;
	}
	return operands == n->ins;
}

static struct chain chain_of(struct ht_rw *r, struct ht_node *n, int32_t first_part_operand)
{
	struct chain c = { .r = r, .n = n, .arg = first_part_operand };

	c.type = (struct ht_type){ ht_type_attr(n, "T"), n->out[0].shape };
	return c;
}

static void split_contraction(struct ht_rw *r, struct ht_node *n, enum ht_op op)
{
	static const char *const kept[] = { "strides", "padding", "explicit_paddings",
		"data_format", "dilations", "use_cudnn_on_gpu", "transpose_a", "transpose_b" };
	const struct ht_attr *ops = ht_attr_find(n, "fused_ops");
	struct chain c = chain_of(r, n, 2);
	struct ht_node *root;

	if (!knows_parts(n, ops))
		return;
	root = ht_rw_node(r, n, op, part_name(&c, ht_op_info(op)->name), n->in, 2, c.type);
	ht_attr_set_type(root, "T", c.type.dtype);
	for (size_t i = 0; i < HT_COUNT(kept); i++)
		ht_rw_copy_attr(root, n, kept[i]);
	c.v = ht_out(root, 0);
	for (size_t i = 0; i < ops->value.list.n; i++)
		add_fused_part(&c, ops->value.list.item[i].s);
	ht_rw_take_place(r, n, c.v);
}

static void split_batch_norm_ex(struct ht_rw *r, struct ht_node *n)
{
	struct chain c = chain_of(r, n, 1);
	struct ht_str activation = ht_attr_str(n, "activation_mode", "Identity");
	int64_t side = ht_attr_int(n, "num_side_inputs", 0);
	struct ht_node *norm;

	for (int32_t i = 1; i < n->outs; i++)
		if (ht_rw_uses(r, ht_out(n, i)))
			return;
	if (side < 0 || side > 1 || n->ins != 5 + side ||
		(!ht_str_is(activation, "Identity") &&
			activation_named(activation) == HT_OP_OPAQUE))
		return;
	c.v = n->in[0];
	norm = add_part(&c, HT_OP_FusedBatchNormV3, HT_STR("FusedBatchNorm"), 4);
	set_batch_norm(norm, n);
	if (side)
		add_part(&c, HT_OP_AddV2, HT_STR("Add"), 1);
	if (!ht_str_is(activation, "Identity"))
		add_activation(&c, activation);
	ht_rw_take_place(r, n, c.v);
}

static void add_bias(struct ht_rw *r, struct ht_node *n)
{
	if (n->ins != 2 || !is_broadcast_bias(r->g, n->in[1]))
		return;
	ht_rw_become(r, n, HT_OP_AddV2, n->in, n->ins);
}

static void split(struct ht_rw *r, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP__FusedConv2D:
		split_contraction(r, n, HT_OP_Conv2D);
		return;
	case HT_OP_FusedDepthwiseConv2dNative:
		split_contraction(r, n, HT_OP_DepthwiseConv2dNative);
		return;
	case HT_OP__FusedMatMul:
		split_contraction(r, n, HT_OP_MatMul);
		return;
	case HT_OP__FusedBatchNormEx:
		split_batch_norm_ex(r, n);
		return;
	case HT_OP_BiasAdd:
		add_bias(r, n);
		return;
	default:
		return;
	}
}

/* ---- ops that TensorFlow does not have ---- */

static struct ht_str inner(struct chain *c, const char *part)
{
	return part_name(c, ht_str(part));
}

static struct ht_value binary(
	struct chain *c, enum ht_op op, const char *name, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(c->r, c->n, op, inner(c, name), a, b);
}

static struct ht_value number(struct chain *c, const char *name, double x)
{
	return ht_rw_const_float(c->r, c->n, inner(c, name), ht_type_of(c->v)->dtype, x);
}

static struct ht_value with(
	struct chain *c, enum ht_op op, const char *name, struct ht_value a, double x)
{
	struct ht_str constant = ht_str_printf(c->r->arena, "%s/y", name);

	return binary(c, op, name, a, number(c, constant.p, x));
}

static struct ht_value unary(struct chain *c, enum ht_op op, const char *name, struct ht_value a)
{
	return ht_rw_unary(c->r, c->n, op, inner(c, name), a);
}

static struct ht_value widened(struct chain *c, const char *name, struct ht_value v)
{
	return ht_is_low(ht_type_of(v)->dtype) ? ht_rw_cast(c->r, c->n, inner(c, name), v, HT_F32)
					       : v;
}

/* x where x > 0, else alpha * x; NaN is not above 0, so it takes the second form. */
static struct ht_value prelu(struct chain *c)
{
	struct ht_value x = c->v, alpha = widened(c, "alpha", c->n->in[1]);
	struct ht_value slope = binary(c, HT_OP_Mul, "slope", x, alpha);
	struct ht_value above = with(c, HT_OP_Greater, "above", x, 0);
	struct ht_value in[3] = { above, x, slope };
	struct ht_node *n;

	above.node->out[0].dtype = HT_BOOL;
	n = ht_rw_node(c->r, c->n, HT_OP_SelectV2, inner(c, "select"), in, 3, *ht_type_of(x));
	return ht_out(n, 0);
}

static struct ht_value silu(struct chain *c)
{
	return binary(c, HT_OP_Mul, "mul", c->v, unary(c, HT_OP_Sigmoid, "Sigmoid", c->v));
}

static struct ht_value hard_gate(struct chain *c)
{
	return unary(c, HT_OP_Relu6, "Relu6", with(c, HT_OP_AddV2, "add", c->v, 3));
}

static struct ht_value hard_swish(struct chain *c)
{
	struct ht_value product = binary(c, HT_OP_Mul, "mul", c->v, hard_gate(c));

	return with(c, HT_OP_Mul, "scale", product, 1. / 6);
}

static struct ht_value hard_sigmoid(struct chain *c)
{
	return with(c, HT_OP_Mul, "scale", hard_gate(c), 1. / 6);
}

static struct ht_value gelu(struct chain *c)
{
	struct ht_value x = c->v, half = with(c, HT_OP_Mul, "half", x, .5), cube, inside;

	if (!ht_attr_bool(c->n, "approximate", false)) {
		inside = unary(c, HT_OP_Erf, "Erf", with(c, HT_OP_Mul, "scale", x, sqrt(.5)));
	} else {
		cube = binary(c, HT_OP_Mul, "cube", binary(c, HT_OP_Mul, "square", x, x), x);
		inside = binary(
			c, HT_OP_AddV2, "sum", x, with(c, HT_OP_Mul, "cubic", cube, 0.044715));
		inside = unary(c, HT_OP_Tanh, "Tanh",
			with(c, HT_OP_Mul, "scale", inside, sqrt(2 / acos(-1))));
	}
	return binary(c, HT_OP_Mul, "mul", half, with(c, HT_OP_AddV2, "add", inside, 1));
}

static struct ht_value mean(struct chain *c, const char *name, struct ht_value x)
{
	int64_t last = -1;

	return ht_rw_reduce(c->r, c->n, HT_OP_Mean, inner(c, name), x, &last, 1, true);
}

static struct ht_value layer_norm(struct chain *c)
{
	struct ht_value x = c->v, centre = mean(c, "mean", x), d, variance, v;
	struct ht_value scale = widened(c, "scale_f32", c->n->in[1]);
	struct ht_value offset = widened(c, "offset_f32", c->n->in[2]);

	d = binary(c, HT_OP_Sub, "centred", x, centre);
	variance = mean(c, "variance", unary(c, HT_OP_Square, "square", d));
	v = with(c, HT_OP_AddV2, "add", variance, ht_attr_float(c->n, "epsilon", 1e-3F));
	v = binary(c, HT_OP_Mul, "normal", d, unary(c, HT_OP_Rsqrt, "Rsqrt", v));
	return binary(c, HT_OP_AddV2, "add_1", binary(c, HT_OP_Mul, "mul", v, scale), offset);
}

static struct ht_value rms_norm(struct chain *c)
{
	struct ht_value x = c->v, scale = widened(c, "scale_f32", c->n->in[1]), v;

	v = mean(c, "mean", unary(c, HT_OP_Square, "square", x));
	v = with(c, HT_OP_AddV2, "add", v, ht_attr_float(c->n, "epsilon", 1e-3F));
	v = binary(c, HT_OP_Mul, "normal", x, unary(c, HT_OP_Rsqrt, "Rsqrt", v));
	return binary(c, HT_OP_Mul, "mul", v, scale);
}

static struct ht_value (*expansion_of(enum ht_op op))(struct chain *)
{
	switch ((int)op) {
	case HT_OP_Prelu:
		return prelu;
	case HT_OP_Silu:
		return silu;
	case HT_OP_HardSwish:
		return hard_swish;
	case HT_OP_HardSigmoid:
		return hard_sigmoid;
	case HT_OP_Gelu:
		return gelu;
	case HT_OP_LayerNorm:
		return layer_norm;
	case HT_OP_RmsNorm:
		return rms_norm;
	default:
		return NULL;
	}
}

static void expand(struct ht_rw *r, struct ht_node *n)
{
	struct chain c = { .r = r, .n = n };
	struct ht_value (*make)(struct chain *) = expansion_of(n->op);
	enum ht_dtype t;

	if (!make)
		return;
	t = n->out[0].dtype;
	if (!ht_is_kernel_float(t))
		return;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_type_of(n->in[i])->dtype != t)
			return; /* an unknown part */
	c.type = n->out[0];
	c.v = widened(&c, "x_f32", n->in[0]);
	c.v = make(&c);
	if (ht_is_low(t))
		c.v = ht_rw_cast(r, n, inner(&c, "rounded"), c.v, t);
	ht_rw_take_place(r, n, c.v);
}

/* ---- the passes ---- */

static enum ht_status run_split(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, split);
}

static enum ht_status run_expand(struct ht_graph *g, struct ht_pass_context *c)
{
	HT_TRY(run_split(g, c));
	HT_TRY(ht_rw_each(g, c, expand));
	for (struct ht_function *f = g->functions; f; f = f->next) {
		HT_TRY(run_split(f->body, c));
		HT_TRY(ht_rw_each(f->body, c, expand));
	}
	return HT_OK;
}

const struct ht_pass ht_pass_split_fused = {
	.name = "split_fused",
	.summary = "takes apart ops that TF.js and Grappler fused",
	.run = run_split,
	.spares_functions = true,
};

const struct ht_pass ht_pass_expand_fused = {
	.name = "expand_fused",
	.summary = "writes ops that TensorFlow does not have in ops that it has",
	.run = run_expand,
};
