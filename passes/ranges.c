/* ranges: the least and largest values of integers (range analysis).
 *
 * A value in a body is an argument plus a number within a range, or a number within a range.  So
 * a single walk over the body of a loop shows how much an iteration changes each loop-carried
 * integer; the condition gives the trip count; both give the range over all iterations.  If a
 * loop-carried integer is not an argument plus something, such as a maximum, its range is one
 * that an iteration does not leave; or, if there is none, such as of twice the argument, and the
 * trip count is small, the walk is repeated for each iteration. */
#include "passes/ranges.h"
#include "passes/by_value.h"
#include "passes/computed.h"

#include "passes/rewrite.h"

enum { MOST_NESTED = 4 /* nested loops: each walks over its body several times */ };

/* Elements of a constant, which are looked at in each walk. */
enum { MOST_LOOKED_AT = 1 << 16 };

/* Iterations of an outermost loop that are walked over one by one. */
enum { MOST_WALKED = 32 };

/* `base` (0 if it is NULL) plus a number from `least` to `most`. */
struct term {
	const struct ht_node *base;
	int64_t least, most;
};
static const struct term any = { NULL, -HT_RANGE_OPEN, HT_RANGE_OPEN };

/* The trip count of a loop. */
struct trips {
	int64_t least, most;
};

/* ---- terms ---- */

static int64_t bounded(int64_t v)
{
	return v > HT_RANGE_OPEN ? HT_RANGE_OPEN : v < -HT_RANGE_OPEN ? -HT_RANGE_OPEN : v;
}

/* The sum of two lower or two upper bounds; an open bound stays open. */
static int64_t plus(int64_t a, int64_t b)
{
	if (a <= -HT_RANGE_OPEN || a >= HT_RANGE_OPEN)
		return a;
	return b <= -HT_RANGE_OPEN || b >= HT_RANGE_OPEN ? b : bounded(a + b);
}

static int64_t times(int64_t a, int64_t b)
{
	int64_t product;

	if (__builtin_mul_overflow(a, b, &product))
		return (a < 0) == (b < 0) ? HT_RANGE_OPEN : -HT_RANGE_OPEN;
	return bounded(product);
}

static struct term sum_of(struct term a, struct term b)
{
	if (a.base && b.base)
		return any;
	return (struct term){ a.base ? a.base : b.base, plus(a.least, b.least),
		plus(a.most, b.most) };
}

static struct term difference_of(struct term a, struct term b)
{
	if (b.base && a.base != b.base)
		return any;
	return (struct term){ b.base ? NULL : a.base, plus(a.least, -b.most),
		plus(a.most, -b.least) };
}

static int64_t least_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static struct term either(struct term a, struct term b)
{
	if (a.base != b.base)
		return any;
	return (struct term){ a.base, least_of(a.least, b.least), most_of(a.most, b.most) };
}

static struct term extreme(struct term a, struct term b, bool greater)
{
	if (a.base != b.base)
		return any;
	return greater ? (struct term){ a.base, most_of(a.least, b.least), most_of(a.most, b.most) }
		       : (struct term){ a.base, least_of(a.least, b.least),
				 least_of(a.most, b.most) };
}

static struct term product_of(struct term a, struct term b)
{
	int64_t all[4];

	if (a.base || b.base)
		return any;
	all[0] = times(a.least, b.least);
	all[1] = times(a.least, b.most);
	all[2] = times(a.most, b.least);
	all[3] = times(a.most, b.most);
	return (struct term){ NULL, least_of(least_of(all[0], all[1]), least_of(all[2], all[3])),
		most_of(most_of(all[0], all[1]), most_of(all[2], all[3])) };
}

/* `any` instead of a range beyond the numbers of 32 bits, which wrap. */
static struct term representable(enum ht_dtype dtype, struct term t)
{
	return dtype == HT_I32 && (t.least < INT32_MIN || t.most > INT32_MAX) ? any : t;
}

static bool is_any(struct term t)
{
	return !t.base && t.least <= -HT_RANGE_OPEN && t.most >= HT_RANGE_OPEN;
}

static bool is_within(struct term a, struct term b)
{
	return is_any(b) || (a.base == b.base && a.least >= b.least && a.most <= b.most);
}

/* `a` plus the change by `n` steps. */
static struct term stepped(struct term a, struct term step, struct trips n)
{
	struct term by = { NULL, least_of(times(step.least, n.least), times(step.least, n.most)),
		most_of(times(step.most, n.least), times(step.most, n.most)) };

	return sum_of(a, by);
}

/* ---- terms by value ---- */

static struct term term_of(const struct ht_ranges *x, struct ht_value v)
{
	const struct term *t = ht_by_value(&x->of, v);

	return t ? *t : any;
}

static void set_term(struct ht_ranges *x, struct ht_value v, struct term t)
{
	struct term *known = ht_by_value(&x->of, v);

	if (!known) {
		known = HT_NEW(x->arena, struct term);
		ht_set_by_value(&x->of, x->arena, v, known);
	}
	*known = t;
}

struct ht_range ht_range_of(const struct ht_ranges *x, struct ht_value v)
{
	struct term t = term_of(x, v);

	if (t.base)
		t = any;
	return (struct ht_range){ t.least, t.most };
}

/* The key of a loop's trip count, which is no result. */
static struct ht_value trips_key(struct ht_node *n)
{
	return (struct ht_value){ .node = n, .index = -1 };
}

struct ht_range ht_range_of_trips(const struct ht_ranges *x, struct ht_node *n)
{
	return ht_range_of(x, trips_key(n));
}

/* ---- nodes ---- */

/* What the graph implies without its loops: of constants, and of extents. */
static struct term implied(const struct ht_ranges *x, const struct ht_node *n)
{
	struct ht_span s;

	if (n->op == HT_OP_Const ? ht_shape_count(n->out[0].shape) > MOST_LOOKED_AT : !x->shapes)
		return any;
	if (!ht_span_of(n->graph, ht_out((struct ht_node *)(uintptr_t)n, 0), &s))
		return any;
	return (struct term){ NULL, bounded(s.least), bounded(s.most) };
}

/* Of some elements.  They are not the same elements as in the base, so a difference from the base would tell nothing. */
static struct term some_of(struct term t)
{
	return t.base ? any : t;
}

/* Of operands that become parts of one tensor. */
static struct term all_of(const struct ht_ranges *x, const struct ht_node *n, int32_t count)
{
	struct term t = count > 0 ? term_of(x, n->in[0]) : any;

	for (int32_t i = 1; i < count; i++)
		t = either(t, term_of(x, n->in[i]));
	return t;
}

static struct term computed(struct ht_ranges *x, struct ht_node *n)
{
	struct term a = n->ins > 0 ? term_of(x, n->in[0]) : any,
		    b = n->ins > 1 ? term_of(x, n->in[1]) : any;

	switch (n->op) {
	case HT_OP_Const:
	case HT_OP_Shape:
		return implied(x, n);
	case HT_OP_Add:
	case HT_OP_AddV2:
		return sum_of(a, b);
	case HT_OP_Sub: /* of several elements, those that meet may differ */
		return ht_shape_count(n->out[0].shape) == 1 ? difference_of(a, b)
							    : difference_of(some_of(a), some_of(b));
	case HT_OP_Mul:
		return representable(n->out[0].dtype, product_of(a, b));
	case HT_OP_Maximum:
	case HT_OP_Minimum:
		return extreme(a, b, n->op == HT_OP_Maximum);
	case HT_OP_Select:
	case HT_OP_SelectV2:
		return either(b, n->ins > 2 ? term_of(x, n->in[2]) : any);
	case HT_OP_Cast:
		return ht_is_index(ht_type_of(n->in[0])->dtype) ? a : any;
	case HT_OP_Reshape:
	case HT_OP_ExpandDims:
	case HT_OP_Squeeze:
		return a;
	case HT_OP_Slice:
	case HT_OP_Gather:
	case HT_OP_GatherV2:
		return some_of(a);
	case HT_OP_StridedSlice:
		return ht_is(n->in[0].node, HT_TELLS_SHAPE) ? implied(x, n) : some_of(a);
	case HT_OP_Pack:
		return all_of(x, n, n->ins);
	case HT_OP_ConcatV2:
		return all_of(x, n, n->ins - 1);
	case HT_OP_Fill:
		return b;
	case HT_OP_TensorScatterUpdate:
		return either(a, n->ins > 2 ? term_of(x, n->in[2]) : any);
	default:
		return any;
	}
}

static void look_at_graph(struct ht_ranges *x, struct ht_graph *g);

static void set_args(struct ht_ranges *x, const struct ht_function *f, const struct term *arg)
{
	for (const struct ht_port *p = f->args; p; p = p->next)
		set_term(x, p->value, *arg++);
}

static void get_rets(const struct ht_ranges *x, const struct ht_function *f, struct term *ret)
{
	for (const struct ht_port *p = f->rets; p; p = p->next)
		*ret++ = term_of(x, p->value);
}

static struct term *operands(struct ht_ranges *x, const struct ht_node *n)
{
	int32_t first = ht_control_first(n);
	struct term *t = HT_NEW_ARRAY(x->arena, struct term, (size_t)(n->ins - first));

	for (int32_t i = first; i < n->ins; i++)
		t[i - first] = term_of(x, n->in[i]);
	return t;
}

/* ---- branches ---- */

static void look_at_branch(struct ht_ranges *x, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	const struct term *in = operands(x, n);
	struct term *ret[2];

	for (int k = 0; k < 2; k++) {
		ret[k] = HT_NEW_ARRAY(x->arena, struct term, (size_t)n->outs);
		set_args(x, b.of[k], in);
		look_at_graph(x, b.of[k]->body);
		get_rets(x, b.of[k], ret[k]);
	}
	for (int32_t i = 0; i < n->outs; i++)
		set_term(x, ht_out(n, i), either(ret[0][i], ret[1][i]));
}

/* ---- loops ---- */

struct loop {
	struct ht_ranges *x;
	struct ht_node *node;
	struct ht_function *condition, *body;
	int32_t args;
	const struct term *in; /* by argument, before the first iteration */
	struct term *step;     /* what an iteration adds; `any`: it is not a sum */
	struct term *during;   /* range over all iterations */
	struct term *ret;      /* from the last walk over the body */
	struct trips trips;
};

static bool has_step(const struct loop *l, int32_t i)
{
	return l->step[i].least > -HT_RANGE_OPEN && l->step[i].most < HT_RANGE_OPEN;
}

static void look_at_body(struct loop *l, const struct term *arg)
{
	set_args(l->x, l->body, arg);
	look_at_graph(l->x, l->body->body);
	get_rets(l->x, l->body, l->ret);
}

/* Sets each argument's term to itself, or to its initial value if no iteration changes it. */
static void own_terms(const struct loop *l, const struct ht_function *f, struct term *arg)
{
	const struct ht_port *p = f->args, *mine = l->body->args, *ret = l->body->rets;

	for (int32_t i = 0; i < l->args; i++, p = p->next, mine = mine->next, ret = ret->next)
		arg[i] = ht_value_eq(mine->value, ret->value)
				 ? l->in[i]
				 : (struct term){ p->value.node, 0, 0 };
}

static void find_steps(struct loop *l)
{
	const struct ht_port *arg = l->body->args, *ret = l->body->rets;

	own_terms(l, l->body, l->during);
	look_at_body(l, l->during);
	for (int32_t i = 0; i < l->args; i++, arg = arg->next, ret = ret->next)
		if (ht_value_eq(arg->value, ret->value))
			l->step[i] = (struct term){ NULL, 0, 0 };
		else
			l->step[i] = l->ret[i].base == arg->value.node ? (struct term){ NULL,
				l->ret[i].least, l->ret[i].most }
								       : any;
}

/* The initial value of a term in the condition, and what an iteration adds to it. */
static struct term at_first(const struct loop *l, struct term t, struct term *step)
{
	const struct ht_port *p = l->condition->args;
	int32_t i = 0;

	*step = (struct term){ NULL, 0, 0 };
	if (!t.base)
		return t;
	for (; p && p->value.node != t.base; p = p->next)
		i++;
	if (!p) /* an argument of an enclosing loop: no iteration of this loop changes it */
		return t;
	*step = l->step[i];
	return sum_of(l->in[i], (struct term){ NULL, t.least, t.most });
}

/* How many positive numbers follow each other from `first` on, each at least `down` less than
 * the one before. */
static int64_t positives(int64_t first, int64_t down)
{
	if (first <= 0)
		return 0;
	return first >= HT_RANGE_OPEN ? HT_RANGE_OPEN : ht_ceil_div(first, down);
}

/* The trip count of a loop that runs while `a` < `b`, or `a` <= `b` if `more` is 1. */
static struct trips trips_of_less(
	const struct loop *l, struct ht_value a, struct ht_value b, int more)
{
	struct trips open = { 0, HT_RANGE_OPEN };
	struct term step_a, step_b, first, step;

	first = at_first(l, term_of(l->x, b), &step_b);
	first = difference_of(first, at_first(l, term_of(l->x, a), &step_a));
	step = difference_of(step_b, step_a);
	if (first.base || step.base || step.most >= 0 || step.least <= -HT_RANGE_OPEN)
		return open;
	return (struct trips){ positives(plus(first.least, more), -step.least),
		positives(plus(first.most, more), -step.most) };
}

static struct trips trips_of(const struct loop *l, struct ht_value v)
{
	const struct ht_node *n = v.node;
	struct trips a, b;

	while (ht_is(n, HT_FORWARDS) && n->ins == 1)
		n = n->in[0].node;
	switch (n->op) {
	case HT_OP_LogicalAnd:
		a = trips_of(l, n->in[0]);
		b = trips_of(l, n->in[1]);
		return (struct trips){ least_of(a.least, b.least), least_of(a.most, b.most) };
	case HT_OP_Less:
	case HT_OP_LessEqual:
		return trips_of_less(l, n->in[0], n->in[1], n->op == HT_OP_LessEqual);
	case HT_OP_Greater:
	case HT_OP_GreaterEqual:
		return trips_of_less(l, n->in[1], n->in[0], n->op == HT_OP_GreaterEqual);
	default:
		return (struct trips){ 0, HT_RANGE_OPEN };
	}
}

static void find_trips(struct loop *l)
{
	own_terms(l, l->condition, l->during);
	set_args(l->x, l->condition, l->during);
	look_at_graph(l->x, l->condition->body);
	l->trips = trips_of(l, l->condition->rets->value);
}

/* Arguments with steps get the range of their steps, others their initial values. */
static void begin_during(struct loop *l)
{
	const struct trips before = { 0, most_of(l->trips.most - 1, 0) };

	for (int32_t i = 0; i < l->args; i++)
		l->during[i] = has_step(l, i) ? stepped(l->in[i], l->step[i], before) : l->in[i];
}

/* Arguments without steps get a range that an iteration does not leave; `any` if none is found, which is told by false. */
static bool find_invariants(struct loop *l)
{
	bool changed = true, found = true;

	for (int round = 0; changed; round++) {
		changed = false;
		look_at_body(l, l->during);
		for (int32_t i = 0; i < l->args; i++) {
			if (has_step(l, i) || is_within(l->ret[i], l->during[i]))
				continue;
			l->during[i] = round ? any : either(l->during[i], l->ret[i]);
			found = found && !round;
			changed = true;
		}
	}
	return found;
}

/* Arguments without steps get all values that the iterations hand on, which are walked over one by one. */
static void walk_iterations(struct loop *l)
{
	struct term *at = HT_NEW_ARRAY(l->x->arena, struct term, (size_t)l->args);

	for (int32_t i = 0; i < l->args; i++)
		at[i] = l->during[i];
	for (int64_t trip = 1; trip < l->trips.most; trip++) {
		look_at_body(l, at);
		for (int32_t i = 0; i < l->args; i++) {
			if (has_step(l, i))
				continue;
			at[i] = l->ret[i];
			l->during[i] = either(l->during[i], at[i]);
		}
	}
	look_at_body(l, l->during);
}

static void find_during(struct loop *l)
{
	bool few = l->x->depth == 1 && l->trips.most <= MOST_WALKED;

	begin_during(l);
	if (!find_invariants(l) && few) {
		begin_during(l);
		walk_iterations(l);
	}
}

/* The condition is evaluated before each iteration and after the last one. */
static void look_at_condition(struct loop *l)
{
	struct term *at = HT_NEW_ARRAY(l->x->arena, struct term, (size_t)l->args);

	for (int32_t i = 0; i < l->args; i++)
		at[i] = either(l->during[i], term_of(l->x, ht_out(l->node, i)));
	set_args(l->x, l->condition, at);
	look_at_graph(l->x, l->condition->body);
}

/* Sets the results: the values after the last iteration, if the trip count is known. */
static void set_results(struct loop *l)
{
	const struct trips last = { l->trips.least - 1, l->trips.most - 1 };
	bool one = l->trips.least == l->trips.most && l->trips.least > 0;
	struct term *at = HT_NEW_ARRAY(l->x->arena, struct term, (size_t)l->args);

	for (int32_t i = 0; i < l->args; i++)
		at[i] = one && has_step(l, i) ? stepped(l->in[i], l->step[i], last) : l->during[i];
	if (one)
		look_at_body(l, at);
	for (int32_t i = 0; i < l->args; i++)
		if (has_step(l, i))
			set_term(l->x, ht_out(l->node, i), stepped(l->in[i], l->step[i], l->trips));
		else
			set_term(l->x, ht_out(l->node, i),
				one ? l->ret[i] : either(l->during[i], l->ret[i]));
	if (one)
		look_at_body(l, l->during);
	look_at_condition(l);
}

static void look_at_loop(struct ht_ranges *x, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	struct loop l = { .x = x,
		.node = n,
		.condition = b.of[0],
		.body = b.of[1],
		.args = n->outs,
		.in = operands(x, n),
		.step = HT_NEW_ARRAY(x->arena, struct term, (size_t)n->outs),
		.during = HT_NEW_ARRAY(x->arena, struct term, (size_t)n->outs),
		.ret = HT_NEW_ARRAY(x->arena, struct term, (size_t)n->outs) };

	if (x->depth == MOST_NESTED)
		return;
	x->depth++;
	find_steps(&l);
	find_trips(&l);
	find_during(&l);
	set_results(&l);
	set_term(x, trips_key(n), (struct term){ NULL, l.trips.least, l.trips.most });
	x->depth--;
}

/* ---- graphs ---- */

static void look_at_graph(struct ht_ranges *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		if (ht_is(n, HT_BRANCHES | HT_LOOPS)) {
			if (ht_runs_own(n))
				(ht_is(n, HT_LOOPS) ? look_at_loop : look_at_branch)(x, n);
		} else if (ht_is(n, HT_FORWARDS)) {
			for (int32_t i = 0; i < n->outs && i < n->ins; i++)
				set_term(x, ht_out(n, i), term_of(x, n->in[i]));
		} else if (!ht_is(n, HT_ARGUMENT) && n->outs == 1 && ht_is_index(n->out[0].dtype)) {
			set_term(x, ht_out(n, 0), computed(x, n));
		}
	}
}

void ht_ranges_find(struct ht_ranges *x, struct ht_graph *g, struct ht_arena *arena, bool shapes)
{
	*x = (struct ht_ranges){ .arena = arena, .shapes = shapes };
	ht_map_init(&x->of, arena);
	look_at_graph(x, g);
}
