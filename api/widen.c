/* Rewrites graphs to wider types: a policy's graph to float32, so that its nodes and casts stay, but nothing is rounded to
 * 16 bits or to number formats; or a model's graph to float64. */
#include "api/tee.h"
#include "choice/impl.h"

#include <string.h>

/* The type that takes the place of `t` in a graph of type `to`, which is float32 or float64; references stay references. */
static enum ht_dtype wider(enum ht_dtype t, enum ht_dtype to)
{
	enum ht_dtype value = t > HT_REF ? (enum ht_dtype)(t - HT_REF) : t;
	bool narrow = ht_is_low(value) || (to == HT_F64 && value == HT_F32);

	return narrow ? (enum ht_dtype)(to + (t - value)) : t;
}

static double element_of(const struct ht_tensor *t, int64_t i)
{
	return t->dtype == HT_F32   ? (double)ht_load_f32(t->blob->p, i)
	       : t->dtype == HT_F16 ? (double)ht_f16_to_f32(ht_load_u16(t->blob->p, i))
				    : (double)ht_bf16_to_f32(ht_load_u16(t->blob->p, i));
}

struct ht_tensor *ht_widen_tensor(const struct ht_tensor *t, enum ht_dtype to, struct ht_arena *a)
{
	int64_t n = (int64_t)(t->blob->n / ht_dtype_info(t->dtype)->bytes);
	struct ht_tensor *wide = ht_tensor_sharing(
		a, to, t->shape, ht_blob_in(a, (size_t)n * ht_dtype_info(to)->bytes));
	char *at = (char *)(uintptr_t)wide->blob->p;

	for (int64_t i = 0; i < n; i++) {
		double x = element_of(t, i);
		float single = (float)x;

		if (to == HT_F64)
			memcpy(at + i * (int64_t)sizeof x, &x, sizeof x);
		else
			memcpy(at + i * (int64_t)sizeof single, &single, sizeof single);
	}
	return wide;
}

static void widen_constant(struct ht_node *n, enum ht_dtype to)
{
	const struct ht_tensor *t = ht_const_tensor(ht_out(n, 0));
	struct ht_tensor *wide;

	if (!t || wider(t->dtype, to) == t->dtype)
		return;
	wide = ht_widen_tensor(t, to, n->graph->arena);
	ht_const_drop(n);
	ht_attr_set_tensor(n, "value", wide);
}

static bool is_narrow(const struct ht_attr_value *v, enum ht_dtype to)
{
	if (v->kind == HT_ATTR_TYPE)
		return wider(v->type, to) != v->type;
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		if (is_narrow(&v->list.item[i], to))
			return true;
	return false;
}

static void widen_value(struct ht_attr_value *v, enum ht_dtype to)
{
	if (v->kind == HT_ATTR_TYPE)
		v->type = wider(v->type, to);
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		widen_value(&v->list.item[i], to);
}

/* Copies the attributes before it changes them: they may belong to the model. */
static void widen_attributes(struct ht_node *n, enum ht_dtype to)
{
	bool narrow = false;

	for (const struct ht_attr *a = n->attrs; a && !narrow; a = a->next)
		narrow = is_narrow(&a->value, to);
	if (!narrow)
		return;
	ht_attrs_own(n);
	for (struct ht_attr *a = n->attrs; a; a = a->next)
		widen_value(&a->value, to);
}

/* Keeps hi_float_32, which only rounds operands; other modes make the kernel itself less exact. */
static void drop_mode(struct ht_node *n)
{
	struct ht_str mode = ht_attr_str(n, ht_mode_attribute, "");

	if (mode.n && ht_impl_named(mode) != HT_IMPL_HI_FLOAT_32)
		ht_attr_remove(n, ht_mode_attribute);
}

static void drop_rounding(struct ht_node *n)
{
	if (n->op != HT_OP__Rounded && n->op != HT_OP__RoundedBlock)
		return;
	ht_node_set_type(n, HT_STR("Identity"));
	ht_node_set_ins(n, n->in, 1);
	ht_attr_remove(n, "format");
	ht_attr_remove(n, "asked");
}

static void widen_node(struct ht_node *n, enum ht_dtype to)
{
	widen_constant(n, to);
	widen_attributes(n, to);
	drop_mode(n);
	drop_rounding(n);
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i].dtype = wider(n->out[i].dtype, to);
}

void ht_widen_graph(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		widen_node(n, HT_F32);
	for (struct ht_function *f = g->functions; f; f = f->next)
		for (struct ht_node *n = f->body->first; n && f->special && !f->shared; n = n->next)
			widen_node(n, HT_F32);
}

/* ---- the float64 variant of a model ---- */

/* The default of an input keeps the input's type: it becomes a constant of its own. */
static void keep_default(struct ht_graph *g, struct ht_node *n)
{
	const struct ht_tensor *t = n->ins ? ht_const_tensor(n->in[0]) : NULL;
	struct ht_value own;

	if (!t)
		return;
	own = ht_out(ht_const_sharing(g,
			     ht_graph_free_name(g,
				     ht_str_printf(g->arena, "%.*s/default", HT_STR_ARG(n->name))),
			     t->dtype, t->shape, t->blob),
		0);
	ht_node_move(own.node, n);
	ht_node_set_ins(n, &own, 1);
}

/* An input keeps its type: a cast follows it, and all that read the input read the cast. */
static void cast_input(struct ht_graph *g, struct ht_node *n)
{
	enum ht_dtype from = ht_attr_type(n, "dtype", HT_INVALID);
	struct ht_value value = ht_out(n, 0);
	struct ht_node *cast;

	if (wider(from, HT_F64) == from)
		return;
	keep_default(g, n);
	cast = ht_node_new(g, HT_STR("Cast"),
		ht_graph_free_name(
			g, ht_str_printf(g->arena, "%.*s/float64", HT_STR_ARG(n->name))));
	ht_replace_uses(g, value, ht_out(cast, 0));
	ht_node_set_ins(cast, &value, 1);
	ht_attr_set_type(cast, "SrcT", from);
	ht_attr_set_type(cast, "DstT", HT_F64);
	ht_node_set_outs(cast, 1);
	cast->out[0] = (struct ht_type){ HT_F64, n->outs ? n->out[0].shape : HT_SHAPE_UNKNOWN };
	if (n->next != cast)
		ht_node_move(cast, n->next);
}

static bool is_input(const struct ht_node *n)
{
	return ht_is(n, HT_FED) && !ht_is(n, HT_ARGUMENT);
}

static void widen_model_nodes(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		if (!is_input(n))
			widen_node(n, HT_F64);
}

void ht_widen_model(struct ht_graph *g)
{
	g->wide = true;
	widen_model_nodes(g);
	for (struct ht_function *f = g->functions; f; f = f->next)
		widen_model_nodes(f->body);
	for (struct ht_node *n = g->first; n; n = n->next)
		if (is_input(n))
			cast_input(g, n);
}

static bool is_fixed_float(const struct ht_op_arg *arg, int n)
{
	for (int i = 0; i < n; i++)
		if (arg[i].type_attr < 0 && arg[i].fixed == HT_F32)
			return true;
	return false;
}

/* Whether the node's type is float64, which the op's row does not have. */
static bool lacks_float64(const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	for (int i = 0; i < info->type_attrs; i++) {
		const struct ht_op_type_attr *t = &info->type_attr[i];
		char name[64];

		snprintf(name, sizeof name, "%.*s", HT_STR_ARG(t->name));
		if (ht_attr_type(n, name, HT_INVALID) == HT_F64 && !(t->allowed >> HT_F64 & 1))
			return true;
	}
	return is_fixed_float(info->arg, info->args) || is_fixed_float(info->result, info->results);
}

static enum ht_status check_node(const struct ht_node *n, struct ht_diags *d)
{
	/* These ops have kernels for all types, whatever their rows say. */
	const uint64_t of_all = HT_BATCH_NORM | HT_COMPOSED | HT_MATMUL | HT_CONV | HT_DEPTHWISE;
	const struct ht_where at = {
		.path = n->graph->library->path, .node = n->name, .op = n->type, .offset = -1
	};

	if (ht_is(n, of_all) || !lacks_float64(n))
		return HT_OK;
	if (!ht_is(n, HT_POOLS))
		return ht_error(d, HT_E_UNSUPPORTED, at, "there is no kernel of float64");
	ht_note(d, at, "this op computes in float32, in the float64 variant too");
	return HT_OK;
}

enum ht_status ht_widen_check(const struct ht_graph *g, struct ht_diags *d)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		HT_TRY(check_node(n, d));
	for (const struct ht_function *f = g->functions; f; f = f->next)
		for (const struct ht_node *n = f->body->first; n; n = n->next)
			HT_TRY(check_node(n, d));
	return HT_OK;
}
