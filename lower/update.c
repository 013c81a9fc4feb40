/* Steps of optimisers.  Each is one kernel, which reads the gradient and changes the variable
 * and its slots in place.  Sparse steps change the rows that the operand `indices` names, one
 * after the other.
 *
 * Formulas: tensorflow/core/kernels/training_ops.cc. */
#include "lower/scatter.h"

enum { MOST_VARIABLES = 4, MOST_OPERANDS = 8 };

/* A step for one element: the values of the variable and its slots, which the step replaces, and
 * the operands behind them. */
struct step {
	struct ht_xb *b;
	const struct ht_node *n;
	enum ht_dtype t;
	int32_t v[MOST_VARIABLES], x[MOST_OPERANDS];
};

static int32_t number(struct step *s, double x)
{
	return ht_xk(s->b, s->t, x);
}

static int32_t one_minus(struct step *s, int32_t x)
{
	return ht_xsub(s->b, number(s, 1), x);
}

static int32_t square(struct step *s, int32_t x)
{
	return ht_xmul(s->b, x, x);
}

/* Moves slot i towards `now` by the share 1 - decay. */
static void decay(struct step *s, int i, int32_t now, int32_t by)
{
	int32_t way = ht_xsub(s->b, now, s->v[i]);

	s->v[i] = ht_xadd(s->b, s->v[i], ht_xmul(s->b, way, one_minus(s, by)));
}

static void subtract(struct step *s, int32_t x)
{
	s->v[0] = ht_xsub(s->b, s->v[0], x);
}

static bool is_nesterov(const struct step *s)
{
	return ht_attr_bool(s->n, "use_nesterov", false);
}

/* Operands: rate, gradient. */
static void gradient_descent(struct step *s)
{
	subtract(s, ht_xmul(s->b, s->x[0], s->x[1]));
}

/* Slot: accumulator.  Operands: rate, gradient, momentum. */
static void momentum(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t rate = s->x[0], grad = s->x[1], kept = s->x[2], ahead;

	s->v[1] = ht_xadd(b, ht_xmul(b, s->v[1], kept), grad);
	ahead = ht_xmul(b, ht_xmul(b, s->v[1], kept), rate);
	if (is_nesterov(s))
		subtract(s, ht_xadd(b, ht_xmul(b, grad, rate), ahead));
	else
		subtract(s, ht_xmul(b, s->v[1], rate));
}

static void keras_momentum(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t step = ht_xmul(b, s->x[0], s->x[1]), kept = s->x[2], by;

	s->v[1] = ht_xsub(b, ht_xmul(b, s->v[1], kept), step);
	by = is_nesterov(s) ? ht_xsub(b, ht_xmul(b, s->v[1], kept), step) : s->v[1];
	s->v[0] = ht_xadd(b, s->v[0], by);
}

/* The rate of Adam, corrected for the first steps. */
static int32_t adam_rate(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t rate = ht_xmul(b, s->x[2], ht_xsqrt(b, one_minus(s, s->x[1])));

	return ht_xdiv(b, rate, one_minus(s, s->x[0]));
}

/* Slots: m, v.  Operands: powers of beta1 and beta2, rate, beta1, beta2, epsilon, gradient. */
static void adam(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t beta1 = s->x[3], epsilon = s->x[5], grad = s->x[6], rate = adam_rate(s), m;

	decay(s, 1, grad, beta1);
	decay(s, 2, square(s, grad), s->x[4]);
	m = s->v[1];
	if (is_nesterov(s))
		m = ht_xadd(b, ht_xmul(b, grad, one_minus(s, beta1)), ht_xmul(b, m, beta1));
	subtract(s, ht_xdiv(b, ht_xmul(b, m, rate), ht_xadd(b, ht_xsqrt(b, s->v[2]), epsilon)));
}

/* Adds the gradient's square to the slot, a sum of squares, unless update_slots is false. */
static void add_square(struct step *s, int32_t grad)
{
	if (ht_attr_bool(s->n, "update_slots", true))
		s->v[1] = ht_xadd(s->b, s->v[1], square(s, grad));
}

/* Operands: rate, gradient. */
static void adagrad(struct step *s)
{
	add_square(s, s->x[1]);
	subtract(s, ht_xdiv(s->b, ht_xmul(s->b, s->x[1], s->x[0]), ht_xsqrt(s->b, s->v[1])));
}

/* Operands: rate, epsilon, gradient. */
static void adagrad_v2(struct step *s)
{
	int32_t step = ht_xmul(s->b, s->x[2], s->x[0]);

	add_square(s, s->x[2]);
	subtract(s, ht_xdiv(s->b, step, ht_xadd(s->b, ht_xsqrt(s->b, s->v[1]), s->x[1])));
}

/* Changes slot i, the momentum, by the gradient divided by the root of `of`. Operands: rate,
 * rho, momentum, epsilon, gradient. */
static void move(struct step *s, int i, int32_t of)
{
	struct ht_xb *b = s->b;
	int32_t by = ht_xdiv(b, ht_xmul(b, s->x[4], s->x[0]), ht_xsqrt(b, ht_xadd(b, of, s->x[3])));

	s->v[i] = ht_xadd(b, ht_xmul(b, s->v[i], s->x[2]), by);
	subtract(s, s->v[i]);
}

/* Slots: mean of squares, momentum. */
static void rms_prop(struct step *s)
{
	decay(s, 1, square(s, s->x[4]), s->x[1]);
	move(s, 2, s->v[1]);
}

/* Slots: mean, mean of squares, momentum. */
static void centered_rms_prop(struct step *s)
{
	decay(s, 1, s->x[4], s->x[1]);
	decay(s, 2, square(s, s->x[4]), s->x[1]);
	move(s, 3, ht_xsub(s->b, s->v[2], square(s, s->v[1])));
}

/* Slots: sum of squares, linear.  Operands of the step: gradient, rate, l1, l2.  `pull` is the gradient with shrinkage.  With
 * multiply_linear_by_lr the slot is the sum of all times the rate. */
static void follow_leader(struct step *s, int32_t pull, int32_t lr_power)
{
	struct ht_xb *b = s->b;
	bool by_rate = ht_attr_bool(s->n, "multiply_linear_by_lr", false);
	int32_t rate = s->x[1], l1 = s->x[2], l2 = s->x[3], power = ht_xneg(b, lr_power);
	int32_t sum = ht_xadd(b, s->v[1], square(s, s->x[0])), now = ht_xpow(b, sum, power);
	int32_t sigma = ht_xsub(b, now, ht_xpow(b, s->v[1], power)), linear, over, bound;

	if (by_rate) {
		pull = ht_xmul(b, pull, rate);
		l1 = ht_xmul(b, l1, rate);
		l2 = ht_xmul(b, l2, rate);
	} else {
		sigma = ht_xdiv(b, sigma, rate);
		now = ht_xdiv(b, now, rate);
	}
	linear = ht_xadd(b, s->v[2], ht_xsub(b, pull, ht_xmul(b, sigma, s->v[0])));
	over = ht_xadd(b, now, ht_xmul(b, number(s, 2), l2));
	bound = ht_xselect(b, ht_xlt(b, linear, number(s, 0)), ht_xneg(b, l1), l1);
	s->v[0] = ht_xselect(b, ht_xlt(b, l1, ht_xabs(b, linear)),
		ht_xdiv(b, ht_xsub(b, bound, linear), over), number(s, 0));
	s->v[1] = sum;
	s->v[2] = linear;
}

/* Operand 4: power of the rate. */
static void ftrl(struct step *s)
{
	follow_leader(s, s->x[0], s->x[4]);
}

/* Operands 4 and 5: the shrinkage of l2, power of the rate. */
static void ftrl_v2(struct step *s)
{
	int32_t share = ht_xmul(s->b, number(s, 2), s->x[4]);

	follow_leader(s, ht_xadd(s->b, s->x[0], ht_xmul(s->b, share, s->v[0])), s->x[5]);
}

/* Slots: sum of gradients, sum of squares.  Operands: gradient, rate, l1, l2, number of steps. */
static void adagrad_da(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t rate = s->x[1], steps = ht_xcvt(b, s->t, s->x[4]), sum, size, over;

	s->v[1] = sum = ht_xadd(b, s->v[1], s->x[0]);
	s->v[2] = ht_xadd(b, s->v[2], square(s, s->x[0]));
	size = ht_xmax(b, ht_xsub(b, ht_xabs(b, sum), ht_xmul(b, s->x[2], steps)), number(s, 0));
	size = ht_xselect(b, ht_xlt(b, sum, number(s, 0)), ht_xneg(b, size), size);
	size = ht_xselect(b, ht_xlt(b, number(s, 0), s->x[2]), size, sum);
	over = ht_xmul(b, ht_xmul(b, s->x[3], steps), rate);
	over = ht_xadd(b, over, ht_xsqrt(b, s->v[2]));
	s->v[0] = ht_xneg(b, ht_xdiv(b, ht_xmul(b, rate, size), over));
}

/* Slots: mean of squares, mean of squared steps.  Operands: rate, rho, epsilon, gradient. */
static void adadelta(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t rho = s->x[1], epsilon = s->x[2], grad = s->x[3], step;

	decay(s, 1, square(s, grad), rho);
	step = ht_xdiv(b, ht_xsqrt(b, ht_xadd(b, s->v[2], epsilon)),
		ht_xsqrt(b, ht_xadd(b, s->v[1], epsilon)));
	step = ht_xmul(b, step, grad);
	subtract(s, ht_xmul(b, step, s->x[0]));
	decay(s, 2, square(s, step), rho);
}

/* Slots: m, v.  Operands: power of beta1, rate, beta1, beta2, epsilon, gradient. */
static void adamax(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t grad = s->x[5], rate = ht_xdiv(b, s->x[1], one_minus(s, s->x[0]));

	decay(s, 1, grad, s->x[2]);
	s->v[2] = ht_xmax(b, ht_xmul(b, s->x[3], s->v[2]), ht_xabs(b, grad));
	subtract(s, ht_xmul(b, rate, ht_xdiv(b, s->v[1], ht_xadd(b, s->v[2], s->x[4]))));
}

/* Slots: m, v, the largest v.  Operands: those of Adam. */
static void adam_amsgrad(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t grad = s->x[6], rate = adam_rate(s);

	decay(s, 1, grad, s->x[3]);
	decay(s, 2, square(s, grad), s->x[4]);
	s->v[3] = ht_xmax(b, s->v[3], s->v[2]);
	subtract(s,
		ht_xdiv(b, ht_xmul(b, s->v[1], rate), ht_xadd(b, ht_xsqrt(b, s->v[3]), s->x[5])));
}

/* -1, 0 or 1 */
static int32_t sign_of(struct step *s, int32_t x)
{
	struct ht_xb *b = s->b;
	int32_t none = number(s, 0), below = ht_xlt(b, x, none), above = ht_xlt(b, none, x);

	return ht_xselect(b, below, number(s, -1), ht_xselect(b, above, number(s, 1), none));
}

/* Moves the slot, a mean of gradients, and returns `by` where the gradient has its sign, -`by` where it has the other.  Operands 3 and 4: the decay of
 * the mean, gradient. */
static int32_t agreement(struct step *s, int32_t by)
{
	struct ht_xb *b = s->b;
	int32_t beta = s->x[3], grad = s->x[4];

	s->v[1] = ht_xadd(b, ht_xmul(b, s->v[1], beta), ht_xmul(b, grad, one_minus(s, beta)));
	return ht_xmul(b, by, ht_xmul(b, sign_of(s, grad), sign_of(s, s->v[1])));
}

/* Slot: mean of gradients.  Operands: rate, alpha, decay of the sign, decay of the mean, gradient. */
static void add_sign(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t factor = ht_xadd(b, s->x[1], agreement(s, s->x[2]));

	subtract(s, ht_xmul(b, ht_xmul(b, s->x[0], factor), s->x[4]));
}

/* Likewise; operand 1 is the logarithm of the base. */
static void power_sign(struct step *s)
{
	struct ht_xb *b = s->b;
	int32_t factor = ht_xexp(b, ht_xmul(b, s->x[1], agreement(s, s->x[2])));

	subtract(s, ht_xmul(b, ht_xmul(b, s->x[0], factor), s->x[4]));
}

/* The variable after a step, with the penalties l1 and l2 at this rate. */
static void penalise(struct step *s, int32_t rate, int32_t l1, int32_t l2)
{
	struct ht_xb *b = s->b;
	int32_t x = s->v[0], none = number(s, 0), size, over;

	size = ht_xmax(b, ht_xsub(b, ht_xabs(b, x), ht_xmul(b, rate, l1)), none);
	size = ht_xselect(b, ht_xlt(b, x, none), ht_xneg(b, size), size);
	over = ht_xadd(b, number(s, 1), ht_xmul(b, rate, l2));
	s->v[0] = ht_xdiv(b, ht_xselect(b, ht_xlt(b, none, l1), size, x), over);
}

/* Operands: rate, l1, l2, gradient. */
static void proximal_gradient_descent(struct step *s)
{
	subtract(s, ht_xmul(s->b, s->x[0], s->x[3]));
	penalise(s, s->x[0], s->x[1], s->x[2]);
}

/* Slot: sum of squares.  Operands: rate, l1, l2, gradient. */
static void proximal_adagrad(struct step *s)
{
	int32_t rate;

	s->v[1] = ht_xadd(s->b, s->v[1], square(s, s->x[3]));
	rate = ht_xdiv(s->b, s->x[0], ht_xsqrt(s->b, s->v[1]));
	subtract(s, ht_xmul(s->b, s->x[3], rate));
	penalise(s, rate, s->x[1], s->x[2]);
}

/* ---- the kernel ---- */

/* Operand `arg`: the element of the gradient, or a scalar. */
static int32_t operand(
	struct kernel_build *k, const struct ht_node *n, int arg, const struct space *at)
{
	const struct view *v = lower_view(k->l, n->in[arg]);
	struct space scalar = space_of_coords(at, 0, NULL, NULL);

	return kb_load(k, v, v->rank ? at : &scalar);
}

/* The operand of this name; -1: there is none. */
static int gradient_operand(const struct ht_node *n)
{
	int i = ht_named_argument(n->op, "grad");

	return i < 0 ? ht_named_argument(n->op, "delta") : i;
}

/* Opens the kernel.  Returns the space of the gradient's elements; *at becomes that of the
 * corresponding elements of the variables. */
static struct space open_step(struct kernel_build *k, struct lower *l, const struct ht_node *n,
	int indices, const struct view *v, struct space *at)
{
	const struct view *gradient = lower_view(l, n->in[gradient_operand(n)]);
	struct space s;

	kb_init(k, l, n);
	kb_stage(k, HT_STAGE_LOOP);
	if (indices < 0)
		return *at = kb_loop_space(k, v->rank, v->dim,
			       v->rank ? view_boundaries(gradient, v->rank, v->dim) : 0);
	s = kb_sequential_space(k, gradient->rank, gradient->dim, 1);
	*at = scatter_place(k, n, indices, SCATTER_ROWS, (struct ht_shape){ v->rank, v->dim }, &s);
	return s;
}

static enum ht_status emit(struct lower *l, struct ht_node *n, void (*of)(struct step *s))
{
	const int variables = lower_op_of(n)->variables,
		  indices = ht_named_argument(n->op, "indices");
	struct view v[MOST_VARIABLES] = { 0 };
	struct kernel_build k;
	struct step s;
	struct space at, here;
	int count = 0;

	for (int i = 0; i < variables; i++)
		v[i] = variable_view(l, n, i);
	if (view_count(&v[0]) == 0 || ht_shape_count(shape_of(n, gradient_operand(n))) == 0)
		return HT_OK;
	here = open_step(&k, l, n, indices, &v[0], &at);
	s = (struct step){ .b = &k.xb, .n = n, .t = compute_type(ht_type_attr(n, "T")) };
	for (int i = 0; i < variables; i++)
		s.v[i] = kb_load(&k, &v[i], &at);
	for (int i = variables; i < n->ins; i++)
		if (i != indices)
			s.x[count++] = operand(&k, n, i, &here);
	of(&s);
	for (int i = 0; i < variables; i++)
		kb_store(&k, &v[i], &at, s.v[i]);
	kb_finish(&k, n);
	return HT_OK;
}

/* The gradient must have the variable's shape, or rows of it; all other operands behind the
 * variables must be scalars. */
static const char *refuse(const struct ht_node *n)
{
	const int variables = lower_op_of(n)->variables,
		  indices = ht_named_argument(n->op, "indices"),
		  steps = ht_named_argument(n->op, "global_step");
	struct ht_type like;
	const char *why;

	for (int i = 0; i < variables; i++)
		if ((why = variable_refuse(n, i)))
			return why;
	like = (struct ht_type){ ht_variable_value(n->in[0].node)->dtype,
		ht_variable_value(n->in[0].node)->shape };
	for (int i = 1; i < variables; i++)
		if (variable_refuse_type(n, i, &like))
			return "has slots of another type or shape than its variable";
	if (!ht_is_float(like.dtype))
		return "is about a variable of integers";
	for (int i = variables; i < n->ins; i++) {
		const struct ht_type *t = ht_type_of(n->in[i]);
		bool fits = t->shape.rank == 0;

		if (i == indices)
			continue;
		if (i == gradient_operand(n))
			fits = indices < 0 ? ht_shape_eq(t->shape, like.shape)
					   : shape_of(n, indices).rank == 1 &&
						     ht_shape_count(like.shape) &&
						     !scatter_refuse(n, indices, SCATTER_ROWS,
							     like.shape, t->shape);
		if (i == steps && t->dtype != HT_I64)
			return "has a number of steps that is not int64";
		if (i != steps && t->dtype != like.dtype)
			fits = false;
		if (!fits)
			return i == gradient_operand(n)
				       ? "has a gradient of another type or shape than its variable"
				       : "has a rate, or another number, that is no scalar of the variable's type";
	}
	return NULL;
}

#define STEP(name, count)                                                                          \
	static enum ht_status emit_##name(struct lower *l, struct ht_node *n)                      \
	{                                                                                          \
		return emit(l, n, name);                                                           \
	}                                                                                          \
	const struct lower_op lower_##name = { .family = FAMILY_ROOT,                              \
		.alone = true,                                                                     \
		.variables = (count),                                                              \
		.emit = emit_##name,                                                               \
		.refuse = refuse };
STEP(gradient_descent, 1)
STEP(momentum, 2)
STEP(keras_momentum, 2)
STEP(adam, 3)
STEP(adagrad, 2)
STEP(adagrad_v2, 2)
STEP(rms_prop, 3)
STEP(centered_rms_prop, 4)
STEP(ftrl, 3)
STEP(ftrl_v2, 3)
STEP(adagrad_da, 3)
STEP(adam_amsgrad, 4)
STEP(add_sign, 2)
STEP(power_sign, 2)
STEP(adadelta, 3)
STEP(adamax, 3)
STEP(proximal_gradient_descent, 1)
STEP(proximal_adagrad, 2)
