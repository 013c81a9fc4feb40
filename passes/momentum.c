/* momentum: a step of gradient descent with momentum, written as reads, arithmetic and writes of
 * resource variables, becomes ResourceApplyMomentum:
 *
 *   accum ← momentum * accum + grad
 *   var ← var - lr * accum, or by Nesterov var - lr * (grad + momentum * accum)
 *
 * or Keras' form, ResourceApplyKerasMomentum:
 *
 *   accum ← momentum * accum - lr * grad
 *   var ← var + accum, or by Nesterov var + (momentum * accum - lr * grad)
 *
 * accum on the second line is the new value, either the computed one or one that is read after
 * the write. lr and momentum are scalars. float32 only. */
#include "passes/update.h"

struct form {
	struct ht_value var, accum, lr, grad, momentum;
	struct ht_value old; /* the accumulator's old value */
	bool keras, nesterov;
};

/* Whether `v` is momentum * accum, with the same values as in earlier matches. */
static bool is_decayed(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value momentum, of;
	int nodes = u->nodes;

	/* If the variable is a scalar, both factors are scalars; the variable is the one that is
	 * read. */
	if (ht_update_scaled(u, v, &momentum, &of)) {
		if (ht_update_read(u, of, f->accum)) {
			f->momentum = momentum;
			f->old = of;
			return true;
		}
		if (ht_is_scalar(of) && ht_update_read(u, momentum, f->accum)) {
			f->momentum = of;
			f->old = momentum;
			return true;
		}
	}
	u->nodes = nodes;
	return false;
}

/* Whether `v` is lr * grad, with the same values as in earlier matches. */
static bool is_lr_grad(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value lr, grad;

	if (!ht_update_scaled(u, v, &lr, &grad))
		return false;
	if (!f->grad.node) {
		f->lr = lr;
		f->grad = grad;
	}
	return ht_same_scalar(lr, f->lr) && ht_value_eq(grad, f->grad);
}

/* Whether the accumulator's new value has one of the forms. */
static bool is_accumulated(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value a, b;

	if (f->keras)
		return ht_update_binary(u, v, HT_OP_Sub, &a, &b) && is_decayed(u, a, f) &&
		       is_lr_grad(u, b, f);
	if (!ht_update_sum(u, v, &a, &b))
		return false;
	if (is_decayed(u, a, f))
		f->grad = b;
	else if (is_decayed(u, b, f))
		f->grad = a;
	else
		return false;
	return true;
}

static bool is_slot(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_slot slot;
	int nodes = u->nodes;

	if (ht_update_slot(u, v, &slot) && !slot.adds) {
		f->accum = slot.var;
		if (is_accumulated(u, slot.value, f))
			return true;
	}
	u->nodes = nodes;
	return false;
}

/* Whether `v` is momentum * the new accumulator; sets the form. */
static bool is_ahead(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value momentum, of;
	int nodes = u->nodes;

	if (ht_update_scaled(u, v, &momentum, &of) && is_slot(u, of, f) &&
		ht_same_scalar(momentum, f->momentum)) {
		f->nesterov = true;
		return true;
	}
	u->nodes = nodes;
	return false;
}

static bool is_nesterov(struct ht_update *u, struct ht_value v, struct form *f)
{
	struct ht_value a, b;

	if (f->keras)
		return ht_update_binary(u, v, HT_OP_Sub, &a, &b) && is_ahead(u, a, f) &&
		       is_lr_grad(u, b, f);
	if (!ht_update_sum(u, v, &a, &b))
		return false;
	return (is_ahead(u, a, f) && ht_value_eq(b, f->grad)) ||
	       (is_ahead(u, b, f) && ht_value_eq(a, f->grad));
}

static bool is_direction(struct ht_update *u, struct ht_value v, struct form *f)
{
	int nodes = u->nodes;

	if (is_slot(u, v, f))
		return true;
	f->grad.node = NULL;
	if (is_nesterov(u, v, f))
		return true;
	u->nodes = nodes;
	return false;
}

static bool is_form(struct ht_update *u, const struct ht_step *step, struct form *f)
{
	struct ht_value lr, direction;

	*f = (struct form){ .var = step->var, .keras = step->adds };
	if (f->keras)
		return is_direction(u, step->by, f);
	if (!ht_update_scaled(u, step->by, &lr, &direction))
		return false;
	f->lr = lr;
	if (is_direction(u, direction, f))
		return true;
	f->lr = direction; /* both are scalars: either may be the rate */
	return ht_is_scalar(direction) && is_direction(u, lr, f);
}

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct ht_update u;
	struct ht_step step;
	struct form f;

	if (!ht_update_begin(&u, r, HT_FUSION_momentum, n, &step) || !is_form(&u, &step, &f) ||
		!ht_rw_on(r, u.id) || !ht_update_fits(&u, f.grad, f.old) ||
		!ht_update_fits(&u, f.grad, step.old) || !ht_update_may_fuse(&u))
		return;
	ht_update_fuse(&u, f.keras ? HT_OP_ResourceApplyKerasMomentum : HT_OP_ResourceApplyMomentum,
		(struct ht_value[]){ f.var, f.accum, f.lr, f.grad, f.momentum }, 5, f.nesterov);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	HT_TRY(ht_rw_each(g, c, visit));
	return ht_graph_sort(g, c->diags);
}

const struct ht_pass ht_pass_momentum = {
	.name = "momentum",
	.summary = "recognises steps with momentum",
	.run = run,
};
