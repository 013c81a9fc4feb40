/* adam: a step of Adam, written as reads, arithmetic and writes of resource variables, becomes
 * ResourceApplyAdam:
 *
 *   m ← beta1 * m + (1 - beta1) * g,      or m + (g - m) * (1 - beta1)
 *   v ← beta2 * v + (1 - beta2) * g * g,  or v + (g * g - v) * (1 - beta2)
 *   var ← var - rate * m / (sqrt(v) + epsilon)
 *
 * m and v on the third line are the new values, either the computed ones or values that are read
 * after the writes. rate is a scalar.  If it is lr * sqrt(1 - beta2_power) / (1 - beta1_power),
 * the op gets these operands.  Otherwise the op gets powers of zero, with which it uses the rate
 * unchanged. float32 only. */
#include "passes/update.h"

#include <math.h>

struct moment {
	struct ht_value var, old, g;
	struct ht_value beta; /* node NULL: only `rest` is known */
	struct ht_value rest; /* 1 - beta */
};

struct form {
	struct ht_value var, rate, epsilon, power[2], lr;
	struct moment m, v;
};

/* `v` is 1 - x, both scalars. */
static bool is_rest(struct ht_value v, struct ht_value *x)
{
	if (v.node->op != HT_OP_Sub || v.node->controls || !ht_const_is(v.node->in[0], 1))
		return false;
	*x = v.node->in[1];
	return ht_is_scalar(*x);
}

/* ---- moments ---- */

/* (g - old) * rest */
static bool is_difference(struct ht_update *u, struct ht_value v, struct moment *m)
{
	struct ht_value of, old;

	if (!ht_update_scaled(u, v, &m->rest, &of) ||
		!ht_update_binary(u, of, HT_OP_Sub, &m->g, &old) || !ht_update_read(u, old, m->var))
		return false;
	m->old = old;
	return true;
}

static bool is_weighted(
	struct ht_update *u, struct ht_value of_old, struct ht_value of_g, struct moment *m)
{
	int nodes = u->nodes;

	if (ht_update_scaled(u, of_old, &m->beta, &m->old) && ht_update_read(u, m->old, m->var) &&
		ht_update_scaled(u, of_g, &m->rest, &m->g))
		return true;
	m->beta.node = NULL;
	u->nodes = nodes;
	if (ht_update_read(u, of_old, m->var) && is_difference(u, of_g, m))
		return true;
	u->nodes = nodes;
	return false;
}

/* Sets beta so that 1 - beta is the rest, as closely as float32 can represent both. */
static bool fit_beta(struct moment *m)
{
	double beta, rest;
	struct ht_value x;

	if (is_rest(m->rest, &x)) {
		if (!m->beta.node)
			m->beta = x;
		return ht_same_scalar(m->beta, x);
	}
	if (m->rest.node->controls || !ht_const_splat(m->rest, &rest) || !(rest > 0 && rest <= 1))
		return false;
	return !m->beta.node ||
	       (ht_const_splat(m->beta, &beta) && fabs(beta + rest - 1) <= 0x1p-24);
}

static bool is_moment(struct ht_update *u, struct ht_value v, struct moment *m)
{
	struct ht_slot slot;
	struct ht_value a, b;

	*m = (struct moment){ 0 };
	if (!ht_update_slot(u, v, &slot))
		return false;
	m->var = slot.var;
	if (slot.adds)
		return is_difference(u, slot.value, m) && fit_beta(m);
	return ht_update_sum(u, slot.value, &a, &b) &&
	       (is_weighted(u, a, b, m) || is_weighted(u, b, a, m)) && fit_beta(m);
}

static bool is_square(struct ht_update *u, struct ht_value v, struct ht_value g)
{
	struct ht_node *n = v.node;

	return (n->op == HT_OP_Square || (n->op == HT_OP_Mul && ht_value_eq(n->in[1], g))) &&
	       ht_value_eq(n->in[0], g) && ht_update_take(u, n);
}

/* ---- the step ---- */

/* sqrt(v) + epsilon */
static bool is_root(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value a, b;

	if (!ht_update_sum(u, v, &a, &b))
		return false;
	f->epsilon = a.node->op == HT_OP_Sqrt && !ht_is_scalar(a) ? b : a;
	if (ht_value_eq(f->epsilon, a))
		a = b;
	return ht_is_scalar(f->epsilon) && a.node->op == HT_OP_Sqrt && ht_update_take(u, a.node) &&
	       is_moment(u, a.node->in[0], &f->v);
}

/* rate * m / (sqrt(v) + epsilon) */
static bool is_direction(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value over, under, m;
	bool scaled = ht_update_scaled(u, v, &f->rate, &v);

	if (!ht_update_binary(u, v, HT_OP_RealDiv, &over, &under))
		return false;
	m = over;
	if (!scaled && !ht_update_scaled(u, over, &f->rate, &m))
		return false;
	return is_moment(u, m, &f->m) && is_root(u, under, f) && is_square(u, f->v.g, f->m.g) &&
	       !ht_value_eq(f->m.var, f->v.var);
}

/* Finds the factors of the rate; false if there are factors other than lr and those of the
 * powers. */
static bool find_rate(struct form *f, struct ht_value v, bool over, int depth)
{
	const struct ht_node *n = v.node;
	struct ht_value x;

	if (depth > 0 && !n->controls && (n->op == HT_OP_Mul || n->op == HT_OP_RealDiv))
		return find_rate(f, n->in[0], over, depth - 1) &&
		       find_rate(f, n->in[1], n->op == HT_OP_Mul ? over : !over, depth - 1);
	if (over && n->op == HT_OP_Sqrt && !n->controls && is_rest(n->in[0], &x) &&
		!f->power[1].node)
		f->power[1] = x;
	else if (!over && is_rest(v, &x) && !f->power[0].node)
		f->power[0] = x;
	else if (over && !f->lr.node && ht_is_scalar(v))
		f->lr = v;
	else
		return false;
	return true;
}

/* A new scalar constant. */
static struct ht_value number(
	struct ht_update *u, struct ht_value given, const char *name, double value)
{
	struct ht_str full = u->write->name;

	if (given.node)
		return given;
	return ht_rw_const_float(u->r, u->write,
		ht_str_printf(u->r->arena, "%.*s/%s", HT_STR_ARG(full), name), HT_F32, value);
}

static struct ht_value beta_of(struct ht_update *u, const struct moment *m, const char *name)
{
	double rest = 0;

	if (!m->beta.node)
		ht_const_splat(m->rest, &rest);
	return number(u, m->beta, name, 1 - rest);
}

static void fuse(struct ht_update *u, struct form *f)
{
	struct ht_value none = { 0 }, power[2], beta[2];

	if (!find_rate(f, f->rate, true, 4) || !f->lr.node || !f->power[0].node ||
		!f->power[1].node) {
		f->lr = f->rate;
		f->power[0] = f->power[1] = none;
	}
	power[0] = number(u, f->power[0], "beta1_power", 0);
	power[1] = number(u, f->power[1], "beta2_power", 0);
	beta[0] = beta_of(u, &f->m, "beta1");
	beta[1] = beta_of(u, &f->v, "beta2");
	ht_update_fuse(u, HT_OP_ResourceApplyAdam,
		(struct ht_value[]){ f->var, f->m.var, f->v.var, power[0], power[1], f->lr, beta[0],
			beta[1], f->epsilon, f->m.g },
		10, false);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct ht_update u;
	struct ht_step step;
	struct form f = { 0 };

	if (!ht_update_begin(&u, r, HT_FUSION_adam, n, &step) || step.adds)
		return;
	f.var = step.var;
	if (!is_direction(&u, step.by, &f) || !ht_rw_on(r, u.id) ||
		!ht_update_fits(&u, f.m.g, f.m.old) || !ht_update_fits(&u, f.m.g, f.v.old) ||
		!ht_update_fits(&u, f.m.g, step.old) || !ht_update_may_fuse(&u))
		return;
	fuse(&u, &f);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	HT_TRY(ht_rw_each(g, c, visit));
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_adam = {
	.name = "adam",
	.summary = "recognises steps of Adam",
	.run = run,
};
