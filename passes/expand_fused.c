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
#include "passes/maker.h"

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

/* Operand `i` in the type in which the op computes. */
static struct ht_value operand(struct maker *m, const char *name, int32_t i)
{
	return in_own_type(m, name, m->at->in[i]);
}

/* x where x > 0, else alpha * x; NaN is not above 0, so it takes the second form. */
static struct ht_value prelu(struct maker *m, struct ht_value x)
{
	struct ht_value alpha = operand(m, "alpha", 1);
	struct ht_value slope = binary(part(m, "slope"), HT_OP_Mul, x, alpha);
	struct ht_value in[] = { with_number(m, HT_OP_Greater, "above", x, 0), x, slope };

	return made(part(m, "select"), HT_OP_SelectV2, in, 3, ht_type_of(x)->shape);
}

static struct ht_value silu(struct maker *m, struct ht_value x)
{
	return binary(part(m, "mul"), HT_OP_Mul, x, unary(part(m, "Sigmoid"), HT_OP_Sigmoid, x));
}

static struct ht_value hard_gate(struct maker *m, struct ht_value x)
{
	return unary(part(m, "Relu6"), HT_OP_Relu6, with_number(m, HT_OP_AddV2, "add", x, 3));
}

static struct ht_value hard_swish(struct maker *m, struct ht_value x)
{
	struct ht_value product = binary(part(m, "mul"), HT_OP_Mul, x, hard_gate(m, x));

	return with_number(m, HT_OP_Mul, "scale", product, 1. / 6);
}

static struct ht_value hard_sigmoid(struct maker *m, struct ht_value x)
{
	return with_number(m, HT_OP_Mul, "scale", hard_gate(m, x), 1. / 6);
}

static struct ht_value gelu(struct maker *m, struct ht_value x)
{
	struct ht_value half = with_number(m, HT_OP_Mul, "half", x, .5), v;

	if (!ht_attr_bool(m->at, "approximate", false)) {
		v = with_number(m, HT_OP_Mul, "scale", x, sqrt(.5));
		v = unary(part(m, "Erf"), HT_OP_Erf, v);
	} else {
		v = binary(part(m, "square"), HT_OP_Mul, x, x);
		v = binary(part(m, "cube"), HT_OP_Mul, v, x);
		v = with_number(m, HT_OP_Mul, "cubic", v, 0.044715);
		v = binary(part(m, "sum"), HT_OP_AddV2, x, v);
		v = with_number(m, HT_OP_Mul, "scale", v, sqrt(2 / acos(-1)));
		v = unary(part(m, "Tanh"), HT_OP_Tanh, v);
	}
	v = with_number(m, HT_OP_AddV2, "add", v, 1);
	return binary(part(m, "mul"), HT_OP_Mul, half, v);
}

static struct ht_value mean(struct maker *m, const char *name, struct ht_value x)
{
	return reduced(part(m, name), HT_OP_Mean, x, -1, true);
}

/* `d` divided by the root of its mean square, which epsilon is added to. */
static struct ht_value normal(struct maker *m, const char *square_mean, struct ht_value d)
{
	struct ht_value v = mean(m, square_mean, unary(part(m, "square"), HT_OP_Square, d));

	v = with_number(m, HT_OP_AddV2, "add", v, ht_attr_float(m->at, "epsilon", 1e-3F));
	return binary(part(m, "normal"), HT_OP_Mul, d, unary(part(m, "Rsqrt"), HT_OP_Rsqrt, v));
}

static struct ht_value layer_norm(struct maker *m, struct ht_value x)
{
	struct ht_value centre = mean(m, "mean", x), v;
	struct ht_value scale = operand(m, "scale_f32", 1), offset = operand(m, "offset_f32", 2);

	v = normal(m, "variance", binary(part(m, "centred"), HT_OP_Sub, x, centre));
	v = binary(part(m, "mul"), HT_OP_Mul, v, scale);
	return binary(part(m, "add_1"), HT_OP_AddV2, v, offset);
}

static struct ht_value rms_norm(struct maker *m, struct ht_value x)
{
	struct ht_value scale = operand(m, "scale_f32", 1);

	return binary(part(m, "mul"), HT_OP_Mul, normal(m, "mean", x), scale);
}

static struct ht_value (*expansion_of(enum ht_op op))(struct maker *, struct ht_value)
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
	struct maker made_by = { .r = r }, *m = &made_by;
	struct ht_value (*make)(struct maker *, struct ht_value) = expansion_of(n->op);
	enum ht_dtype t;

	if (!make)
		return;
	t = n->out[0].dtype;
	if (!ht_is_kernel_float(t))
		return;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_type_of(n->in[i])->dtype != t)
			return; /* an unknown part */
	make_at(m, n);
	m->t = ht_is_low(t) ? HT_F32 : t;
	ht_rw_take_place(r, n, cast_to(part(m, "rounded"), make(m, operand(m, "x_f32", 0)), t));
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
