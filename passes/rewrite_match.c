/* Queries that several passes need: contents of constants, products. */
#include "ir/infer.h"
#include "passes/rewrite.h"

#include <math.h>
#include <string.h>

/* ---- constants ---- */

bool ht_is_const(struct ht_value v)
{
	return ht_is(v.node, HT_CONSTANT);
}

static bool element(const struct ht_tensor *t, int64_t i, double *x)
{
	const void *p = t->blob->p;

	switch ((int)t->dtype) {
	case HT_F32:
		*x = ht_load_f32(p, i);
		return true;
	case HT_F64:
		*x = ht_load_f64(p, i);
		return true;
	case HT_F16:
		*x = ht_f16_to_f32(ht_load_u16(p, i));
		return true;
	case HT_BF16:
		*x = ht_bf16_to_f32(ht_load_u16(p, i));
		return true;
	case HT_I32:
		*x = ht_load_i32(p, i);
		return true;
	case HT_I64:
		*x = (double)ht_load_i64(p, i);
		return (int64_t)*x == ht_load_i64(p, i) && fabs(*x) < 0x1p53;
	default:
		return false;
	}
}

bool ht_const_splat(struct ht_value v, double *x)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t bytes;

	if (!t || !t->blob || !t->blob->n || !element(t, 0, x))
		return false;
	bytes = ht_dtype_info(t->dtype)->bytes;
	return !memcmp(t->blob->p, (const char *)t->blob->p + bytes, t->blob->n - bytes);
}

bool ht_const_is(struct ht_value v, double x)
{
	double have;

	return ht_const_splat(v, &have) && have == x && signbit(have) == signbit(x);
}

bool ht_asserts(const struct ht_node *n, bool condition)
{
	const struct ht_tensor *t = n->op == HT_OP_Assert ? ht_const_tensor(n->in[0]) : NULL;

	return t && t->dtype == HT_BOOL && t->blob && t->blob->n == 1 &&
	       (*(const char *)t->blob->p != 0) == condition;
}

const void *ht_const_f32(struct ht_value v, int64_t *n)
{
	const struct ht_tensor *t = ht_const_tensor(v);

	if (!t || t->dtype != HT_F32)
		return NULL;
	*n = (int64_t)(t->blob->n / sizeof(float));
	return t->blob->p;
}

bool ht_const_small_ints(struct ht_value v, int64_t *out, int max, int *count)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t n;

	if (!t || !ht_is_index(t->dtype))
		return false;
	n = t->blob->n / ht_dtype_info(t->dtype)->bytes;
	if (n > (size_t)max)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = ht_tensor_int(t, i);
	*count = (int)n;
	return true;
}

bool ht_match_with_const(struct ht_value v, enum ht_op op, double *c, struct ht_value *x)
{
	struct ht_node *n = v.node;

	if (n->op != op || n->ins != 2 || n->controls)
		return false;
	if (ht_const_splat(n->in[1], c)) {
		*x = n->in[0];
		return true;
	}
	*x = n->in[1];
	return ht_const_splat(n->in[0], c);
}

/* ---- products ---- */

static bool add_operand(const struct ht_rw *r, struct ht_value v, struct ht_product *p);

static bool add_product(const struct ht_rw *r, struct ht_node *n, struct ht_product *p)
{
	double c;

	if (p->nodes == (int)HT_COUNT(p->node) || n->controls)
		return false;
	p->node[p->nodes++] = n;
	if (n->op == HT_OP_Mul)
		return add_operand(r, n->in[0], p) && add_operand(r, n->in[1], p);
	if (n->op != HT_OP_RealDiv || !ht_const_splat(n->in[1], &c) || c == 0)
		return false;
	p->factor /= c;
	return add_operand(r, n->in[0], p);
}

static bool add_operand(const struct ht_rw *r, struct ht_value v, struct ht_product *p)
{
	struct ht_node *n = v.node;
	double c;

	if (ht_const_splat(v, &c)) {
		p->factor *= c;
		return true;
	}
	if (n->op == HT_OP_Mul && ht_rw_only_user(r, v) && !n->controls)
		return add_product(r, n, p);
	if (n->op == HT_OP_RealDiv && ht_rw_only_user(r, v) && ht_is_const(n->in[1]) &&
		ht_const_splat(n->in[1], &c))
		return add_product(r, n, p);
	if (p->count == HT_PRODUCT_MAX)
		return false;
	p->of[p->count++] = v;
	return true;
}

bool ht_rw_product(const struct ht_rw *r, struct ht_node *n, struct ht_product *p)
{
	*p = (struct ht_product){ .factor = 1 };
	return (n->op == HT_OP_Mul || n->op == HT_OP_RealDiv) && n->ins == 2 &&
	       add_product(r, n, p);
}

/* ---- shapes ---- */

/* Whether a constant of shape `c`, broadcast with `s`, leaves the shape `s`. */
static bool is_within(struct ht_shape c, struct ht_shape s)
{
	if (c.rank < 0 || c.rank > s.rank)
		return false;
	for (int32_t i = 0; i < c.rank; i++)
		if (c.dim[i] != 1 && c.dim[i] != s.dim[s.rank - c.rank + i])
			return false;
	return ht_shape_known(c);
}

/* The operand whose shape the result of `n` certainly has; -1: none. */
static int shape_operand(const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	if (n->ins > 0 && info->infer == ht_infer_same)
		return 0;
	if (n->ins != 2 || info->infer != ht_infer_broadcast)
		return -1;
	for (int i = 0; i < 2; i++)
		if (ht_is_const(n->in[i]) &&
			is_within(ht_type_of(n->in[i])->shape, ht_type_of(n->in[1 - i])->shape))
			return 1 - i;
	return -1;
}

struct ht_value ht_forwarded(struct ht_value v)
{
	while (ht_is(v.node, HT_FORWARDS))
		v = v.node->in[v.index];
	return v;
}

bool ht_rw_checks_index(const struct ht_node *n)
{
	bool takes_one =
		ht_axes(n) == HT_AXES_STRIDED && ht_attr_int(n, "shrink_axis_mask", 0) != 0;

	return (takes_one || ht_axes(n) == HT_AXES_SLICED) && !ht_is_const(n->in[1]);
}

bool ht_rw_same_shape(const struct ht_node *n, struct ht_value x)
{
	struct ht_shape a = n->out[0].shape, b = ht_type_of(x)->shape;
	int arg, steps = 0;

	if (ht_shape_known(a) && ht_shape_known(b))
		return ht_shape_eq(a, b);
	while (steps++ < 4 && (arg = shape_operand(n)) >= 0) {
		if (ht_value_eq(n->in[arg], x))
			return true;
		if (n->in[arg].index)
			return false;
		n = n->in[arg].node;
	}
	return false;
}

/* ---- attributes ---- */

static bool same_value(const struct ht_attr_value *a, const struct ht_attr_value *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case HT_ATTR_NONE:
		return true;
	case HT_ATTR_STRING:
		return ht_str_eq(a->s, b->s);
	case HT_ATTR_INT:
		return a->i == b->i;
	case HT_ATTR_BOOL:
		return a->b == b->b;
	case HT_ATTR_TYPE:
		return a->type == b->type;
	case HT_ATTR_LIST:
		for (size_t i = 0; a->list.n == b->list.n && i < a->list.n; i++)
			if (!same_value(&a->list.item[i], &b->list.item[i]))
				return false;
		return a->list.n == b->list.n;
	default: /* contractions have no attributes of other kinds */
		return false;
	}
}

static bool has_attr(const struct ht_node *n, const struct ht_attr *wanted)
{
	for (const struct ht_attr *x = n->attrs; x; x = x->next)
		if (ht_str_eq(x->name, wanted->name))
			return same_value(&x->value, &wanted->value);
	return false;
}

/* Whether `b` has all attributes of `a`, with the same values. */
static bool has_attrs_of(const struct ht_node *b, const struct ht_node *a)
{
	for (const struct ht_attr *x = a->attrs; x; x = x->next)
		if (!has_attr(b, x))
			return false;
	return true;
}

bool ht_same_attrs(const struct ht_node *a, const struct ht_node *b)
{
	return has_attrs_of(a, b) && has_attrs_of(b, a);
}
