/* gelu: the arithmetic of Gelu becomes one Gelu.
 *
 *   erf form   0.5 * x * (1 + erf(x / sqrt 2)), 0.5 * x * erfc(-x / sqrt 2)
 *   tanh form  0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
 *
 * Factors may be in any order; each value between has one use. float32 only.  The constants must
 * be exactly these, rounded to float32: others, such as constants stored in float16, are another
 * function. */
#include "passes/rewrite.h"

#include <math.h>

static bool near(double x, double y)
{
	return fabs(x - y) <= 1e-6 * fabs(y);
}

/* The argument of erf, erfc or tanh as factor * x. */
static bool is_multiple(const struct ht_rw *r, struct ht_value v, struct ht_value x, double factor)
{
	struct ht_product p;
	struct ht_value y = v;
	double sign = 1;

	if (v.node->op == HT_OP_Neg) {
		sign = -1;
		y = v.node->in[0];
	}
	if (!ht_rw_product(r, y.node, &p) || p.count != 1)
		return false;
	y = p.of[0];
	if (y.node->op == HT_OP_Neg && !ht_value_eq(y, x)) {
		sign = -sign;
		y = y.node->in[0];
	}
	return ht_value_eq(y, x) && near(sign * p.factor, factor);
}

/* x * x * x, Square(x) * x or Pow(x, 3), times a factor. */
static bool is_cube(const struct ht_rw *r, struct ht_value v, struct ht_value x, double *factor)
{
	struct ht_product p;
	double power;
	int powers = 0;

	if (v.node->op == HT_OP_Pow) {
		*factor = 1;
		return ht_value_eq(v.node->in[0], x) && ht_const_splat(v.node->in[1], &power) &&
		       power == 3;
	}
	if (!ht_rw_product(r, v.node, &p))
		return false;
	*factor = p.factor;
	for (int i = 0; i < p.count; i++) {
		if (ht_value_eq(p.of[i], x))
			powers++;
		else if (p.of[i].node->op == HT_OP_Square && ht_value_eq(p.of[i].node->in[0], x))
			powers += 2;
		else if (p.of[i].node->op == HT_OP_Mul && ht_value_eq(p.of[i].node->in[0], x) &&
			 ht_value_eq(p.of[i].node->in[1], x))
			powers += 2;
		else if (p.of[i].node->op == HT_OP_Pow && ht_value_eq(p.of[i].node->in[0], x) &&
			 ht_const_splat(p.of[i].node->in[1], &power) && power == 3)
			powers += 3;
		else
			return false;
	}
	return powers == 3;
}

/* sqrt(2 / pi) * (x + 0.044715 * x^3) */
static bool is_tanh_argument(const struct ht_rw *r, struct ht_value v, struct ht_value x)
{
	struct ht_product p;
	struct ht_node *sum;
	double factor;

	if (!ht_rw_product(r, v.node, &p) || p.count != 1 || !near(p.factor, sqrt(2 / acos(-1))))
		return false;
	sum = p.of[0].node;
	if (!ht_is(sum, HT_ADDS))
		return false;
	for (int i = 0; i < 2; i++)
		if (ht_value_eq(sum->in[i], x) && is_cube(r, sum->in[1 - i], x, &factor) &&
			near(factor, 0.044715))
			return true;
	return false;
}

/* erf(x / sqrt 2), tanh(…) or erfc(-x / sqrt 2). */
static bool is_function(
	const struct ht_rw *r, struct ht_node *n, struct ht_value x, enum ht_fusion_id *id)
{
	bool fits;

	*id = n->op == HT_OP_Tanh ? HT_FUSION_gelu_tanh : HT_FUSION_gelu_erf;
	if (n->op == HT_OP_Tanh)
		fits = is_tanh_argument(r, n->in[0], x);
	else if (n->op == HT_OP_Erf || n->op == HT_OP_Erfc)
		fits = is_multiple(r, n->in[0], x, n->op == HT_OP_Erf ? sqrt(.5) : -sqrt(.5));
	else
		return false;
	if (!fits)
		ht_rw_miss(r, *id, 1, n, "its argument is not that of Gelu, to float32");
	return fits;
}

/* 1 + erf(…), 1 + tanh(…) or erfc(…) of x. */
static bool is_gate(
	const struct ht_rw *r, struct ht_value v, struct ht_value x, enum ht_fusion_id *id)
{
	struct ht_value inner;
	double one;

	if (v.node->op == HT_OP_Erfc)
		return is_function(r, v.node, x, id);
	if (!ht_is(v.node, HT_ADDS) || !ht_match_with_const(v, v.node->op, &one, &inner) ||
		one != 1 || !is_function(r, inner.node, x, id))
		return false;
	if (ht_rw_only_user(r, inner))
		return true;
	ht_rw_miss(r, *id, 2, inner.node, "has another user");
	return false;
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct ht_product p;
	enum ht_fusion_id id;

	if (n->outs != 1 || !ht_rw_product(r, n, &p) || p.count != 2 || p.factor != .5)
		return;
	for (int i = 0; i < 2; i++) {
		struct ht_value x = p.of[i], gate = p.of[1 - i];

		if (!is_gate(r, gate, x, &id) || !ht_rw_on(r, id))
			continue;
		if (!ht_rw_only_user(r, gate)) {
			ht_rw_miss(r, id, 3, gate.node, "has another user");
			continue;
		}
		if (n->out[0].dtype != HT_F32) {
			ht_rw_miss(r, id, 4, n, "is not float32");
			continue;
		}
		ht_rw_hit(r, id);
		ht_rw_absorb_between(n, x);
		ht_rw_become(r, n, HT_OP_Gelu, &x, 1);
		ht_attr_set_bool(n, "approximate", id == HT_FUSION_gelu_tanh);
		return;
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_gelu = {
	.name = "gelu",
	.summary = "recognises Gelu",
	.run = run,
};
