/* Makes constants and nodes of common ops, and copies origins and attributes to nodes that
 * replace others. */
#include "passes/rewrite.h"

#include <string.h>

/* ---- origins and attributes ---- */

void ht_rw_absorb(struct ht_node *n, const struct ht_node *swallowed)
{
	/* If other origins are added, the node's own name becomes one too. */
	if (!n->origin) {
		struct ht_str *own = HT_NEW(n->graph->arena, struct ht_str);

		*own = n->name;
		n->origin = own;
		n->origins = 1;
	}
	ht_node_add_origin(n, swallowed);
}

/* Patterns are small: the depth limits the walk, even if paths meet again. */
static void absorb_operands(
	struct ht_node *n, const struct ht_node *of, struct ht_value x, int depth)
{
	for (int32_t i = 0; depth > 0 && i < of->ins; i++) {
		if (ht_value_eq(of->in[i], x) || ht_is_const(of->in[i]))
			continue;
		ht_rw_absorb(n, of->in[i].node);
		absorb_operands(n, of->in[i].node, x, depth - 1);
	}
}

void ht_rw_absorb_between(struct ht_node *n, struct ht_value x)
{
	absorb_operands(n, n, x, 12);
}

void ht_rw_copy_attr(struct ht_node *to, const struct ht_node *from, const char *name)
{
	const struct ht_attr *a = ht_attr_find(from, name);

	if (a)
		*ht_attr_set(to, name) = a->value;
}

/* ---- constants ---- */

struct ht_str ht_rw_name_within(struct ht_rw *r, const struct ht_node *n, const char *what)
{
	return ht_str_printf(r->arena, "%.*s/%s", HT_STR_ARG(n->name), what);
}

struct ht_value ht_rw_const(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob)
{
	struct ht_node *n = ht_const_sharing(r->g, ht_graph_free_name(r->g, name), t, shape, blob);

	ht_node_move(n, before);
	r->changed = true;
	return ht_out(n, 0);
}

struct ht_blob *ht_rw_blob(struct ht_rw *r, size_t n)
{
	return ht_blob_in(r->arena, n);
}

struct ht_value ht_rw_const_ints(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, const int64_t *v, int64_t count)
{
	struct ht_blob *b = ht_rw_blob(r, (size_t)count * ht_dtype_info(t)->bytes);

	HT_CHECK(ht_is_index(t));
	for (int64_t i = 0; i < count; i++) {
		if (t == HT_I32)
			((int32_t *)(void *)(uintptr_t)b->p)[i] = (int32_t)v[i];
		else
			((int64_t *)(void *)(uintptr_t)b->p)[i] = v[i];
	}
	return ht_rw_const(r, before, name, t, (struct ht_shape){ 1, &count }, b);
}

struct ht_value ht_rw_scalar(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, int64_t bits)
{
	struct ht_blob *b = ht_rw_blob(r, ht_dtype_info(t)->bytes);

	memcpy((void *)(uintptr_t)b->p, &bits, b->n < sizeof bits ? b->n : sizeof bits);
	return ht_rw_const(r, before, name, t, HT_SHAPE_SCALAR, b);
}

struct ht_value ht_rw_element_shape(struct ht_rw *r, struct ht_node *n, const char *attr)
{
	const struct ht_attr *a = ht_attr_find(n, attr);
	struct ht_shape s =
		a && a->value.kind == HT_ATTR_SHAPE ? a->value.shape.shape : HT_SHAPE_UNKNOWN;
	struct ht_str name = ht_rw_name_within(r, n, "element_shape");
	int64_t dim[HT_MAX_RANK];

	if (s.rank < 0 || s.rank > HT_MAX_RANK)
		return ht_rw_scalar(r, n, name, HT_I32, -1);
	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = s.dim[i] < 0 ? -1 : s.dim[i];
	return ht_rw_const_ints(r, n, name, HT_I32, dim, s.rank);
}

struct ht_value ht_rw_text(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, const char *text)
{
	struct ht_tensor *t = HT_NEW(r->g->arena, struct ht_tensor);
	struct ht_node *n = ht_rw_node(r, before, HT_OP_Const, name, NULL, 0,
		(struct ht_type){ HT_STRING, HT_SHAPE_SCALAR });

	*t = (struct ht_tensor){ .dtype = HT_STRING,
		.shape = HT_SHAPE_SCALAR,
		.form = HT_TENSOR_VALUES,
		.values = 1,
		.strings = HT_NEW(r->g->arena, struct ht_str) };
	*t->strings = ht_str_copy(r->g->arena, ht_str(text));
	ht_attr_set_type(n, "dtype", HT_STRING);
	*ht_attr_set(n, "value") = (struct ht_attr_value){ .kind = HT_ATTR_TENSOR, .tensor = t };
	return ht_out(n, 0);
}

struct ht_value ht_rw_const_float(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, double value)
{
	struct ht_blob *b = ht_rw_blob(r, ht_dtype_info(t)->bytes);
	void *p = (void *)(uintptr_t)b->p;

	if (t == HT_F32)
		*(float *)p = (float)value;
	else if (t == HT_F64)
		*(double *)p = value;
	else if (t == HT_F16)
		*(uint16_t *)p = ht_f64_to_f16(value);
	else if (t == HT_BF16)
		*(uint16_t *)p = ht_f64_to_bf16(value);
	else
		HT_CHECK(!"a float type");
	return ht_rw_const(r, before, name, t, HT_SHAPE_SCALAR, b);
}

/* ---- ops ---- */

struct ht_shape ht_broadcast_shape(struct ht_arena *a, struct ht_shape x, struct ht_shape y)
{
	int64_t dim[HT_MAX_RANK];
	int32_t rank = x.rank > y.rank ? x.rank : y.rank;

	if (x.rank < 0 || y.rank < 0)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < rank; i++) {
		int32_t ix = i - (rank - x.rank), iy = i - (rank - y.rank);
		int64_t dx = ix < 0 ? 1 : x.dim[ix], dy = iy < 0 ? 1 : y.dim[iy];

		if (dx == 1 || dx == dy)
			dim[i] = dy;
		else if (dy == 1 || dx >= 0)
			dim[i] = dx; /* if dy is unknown, it is dx or 1 */
		else
			dim[i] = dy >= 0 ? dy : HT_DIM_UNKNOWN;
	}
	return ht_shape_make(a, rank, dim);
}

struct ht_value ht_rw_made(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, const struct ht_value *in, int32_t ins, struct ht_shape shape)
{
	struct ht_node *n =
		ht_rw_node(r, before, op, name, in, ins, (struct ht_type){ HT_INVALID, shape });

	n->out[0].dtype = ht_formal_dtype(n, &ht_op_info(op)->result[0], 0);
	return ht_out(n, 0);
}

struct ht_value ht_rw_binary(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a, struct ht_value b)
{
	struct ht_shape shape =
		ht_broadcast_shape(r->arena, ht_type_of(a)->shape, ht_type_of(b)->shape);

	return ht_rw_made(r, before, op, name, (struct ht_value[]){ a, b }, 2, shape);
}

struct ht_value ht_rw_unary(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a)
{
	return ht_rw_made(r, before, op, name, &a, 1, ht_type_of(a)->shape);
}

struct ht_value ht_rw_cast(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, enum ht_dtype to)
{
	struct ht_node *n = ht_rw_node(
		r, before, HT_OP_Cast, name, &a, 1, (struct ht_type){ to, ht_type_of(a)->shape });

	ht_attr_set_type(n, "DstT", to);
	return ht_out(n, 0);
}

struct ht_value ht_rw_reshape(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, struct ht_shape to)
{
	struct ht_str shape_name = ht_str_printf(r->arena, "%.*s/shape", HT_STR_ARG(name));
	struct ht_value shape = ht_rw_const_ints(r, before, shape_name, HT_I64, to.dim, to.rank);

	return ht_rw_made(r, before, HT_OP_Reshape, name, (struct ht_value[]){ a, shape }, 2, to);
}

struct ht_value ht_rw_transpose(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, const int64_t *perm)
{
	struct ht_str perm_name = ht_str_printf(r->arena, "%.*s/perm", HT_STR_ARG(name));
	struct ht_shape from = ht_type_of(a)->shape;
	struct ht_value p = ht_rw_const_ints(r, before, perm_name, HT_I32, perm, from.rank);
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < from.rank; i++)
		dim[i] = from.dim[perm[i]];
	return ht_rw_made(r, before, HT_OP_Transpose, name, (struct ht_value[]){ a, p }, 2,
		(struct ht_shape){ from.rank, dim });
}

struct ht_value ht_rw_reduce(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a, const int64_t *axes, int64_t count, bool keep_dims)
{
	struct ht_str axes_name = ht_str_printf(r->arena, "%.*s/axes", HT_STR_ARG(name));
	struct ht_value in[2] = { a, ht_rw_const_ints(r, before, axes_name, HT_I32, axes, count) };
	struct ht_shape s = ht_type_of(a)->shape;
	bool reduced[HT_MAX_RANK] = { false };
	int64_t dim[HT_MAX_RANK];
	struct ht_value v;
	int32_t rank = 0;

	for (int64_t i = 0; s.rank >= 0 && i < count; i++)
		reduced[axes[i] < 0 ? axes[i] + s.rank : axes[i]] = true;
	for (int32_t i = 0; i < s.rank; i++)
		if (!reduced[i] || keep_dims)
			dim[rank++] = reduced[i] ? 1 : s.dim[i];
	if (s.rank >= 0)
		s = (struct ht_shape){ rank, dim };
	v = ht_rw_made(r, before, op, name, in, 2, s);
	ht_attr_set_bool(v.node, "keep_dims", keep_dims);
	return v;
}

struct ht_node *ht_rw_assert(struct ht_rw *r, struct ht_node *before, const char *what,
	struct ht_value condition, const struct ht_value *data, int32_t count)
{
	struct ht_value *in = HT_NEW_ARRAY(r->arena, struct ht_value, (size_t)count + 1);
	struct ht_node *n;

	in[0] = condition;
	memcpy(in + 1, data, (size_t)count * sizeof *data);
	n = ht_rw_node(r, before, HT_OP_Assert, ht_rw_name_within(r, before, what), in, count + 1,
		(struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN });
	ht_node_set_outs(n, 0);
	return n;
}
