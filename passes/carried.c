/* carried: a loop carries once what it would carry several times.
 *
 * Two carried tensors are always equal if they begin equal and each iteration gives both the same, where what it reads of one may be read of
 * the other.  So the number of the iteration and the number of the step of a recurrent layer are one, and so are the output and the state of a
 * layer with a mask.  A list of one element that each iteration sets to what it also carries, as the last output of a layer is, becomes a
 * reshape behind the loop.  The values are the same, bit for bit. */
#include "passes/counted_loop.h"

#include <math.h>
#include <string.h>

enum {
	MOST_CARRIED = 64,
	MOST_NODES = 512,     /* that are compared for two values */
	MOST_BYTES = 1 << 20, /* of constants that are compared */
	MOST_RESHAPES = 4
};

struct carrying {
	struct ht_node *node;
	struct ht_function *condition, *body;
	struct ht_rw outside, inside, asking; /* of the graph, of the body, of the condition */
	struct ht_rw_within within[2];
	int32_t count;
	struct ht_value arg[MOST_CARRIED],
		asked[MOST_CARRIED]; /* arguments of the body and of the condition */
	struct ht_port *ret[MOST_CARRIED];
	int32_t same
		[MOST_CARRIED]; /* the first carried tensor that is believed to equal this one */
	bool found;
};

/* ---- equal values ---- */

static bool is_same_type(struct ht_value a, struct ht_value b)
{
	const struct ht_type *t = ht_type_of(a), *u = ht_type_of(b);

	return t->dtype == u->dtype && ht_shape_known(t->shape) && ht_shape_eq(t->shape, u->shape);
}

/* Whether one may be a reshape of the other. */
static bool is_as_large(struct ht_value a, struct ht_value b)
{
	const struct ht_type *t = ht_type_of(a), *u = ht_type_of(b);

	return t->dtype == u->dtype && ht_shape_known(t->shape) && ht_shape_known(u->shape) &&
	       ht_shape_count(t->shape) == ht_shape_count(u->shape);
}

/* The elements of a constant that may be compared; NULL: it is none. */
static const struct ht_blob *elements_of(struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);

	return t && t->blob && t->blob->n <= MOST_BYTES && !t->extra.n ? t->blob : NULL;
}

/* Whether all elements of `v` are one number, *x. */
static bool is_filled(struct ht_value v, double *x)
{
	if (v.node->op == HT_OP_Fill && !v.node->controls)
		return ht_const_splat(v.node->in[1], x);
	return elements_of(v) && ht_const_splat(v, x);
}

/* Whether two constants or Fills of one dtype and number of elements have equal elements, each at the same place in memory order. */
static bool has_same_elements(struct ht_value a, struct ht_value b)
{
	const struct ht_blob *p = elements_of(a), *q = elements_of(b);
	double x, y;

	if (p && q)
		return p->n == q->n && (p->p == q->p || !memcmp(p->p, q->p, p->n));
	return is_filled(a, &x) && is_filled(b, &y) && x == y && signbit(x) == signbit(y);
}

/* Whether equal operands give equal results. */
static bool is_function(const struct ht_node *n)
{
	return n->op != HT_OP_OPAQUE && !ht_op_info(n->op)->effects && !ht_computes_size(n) &&
	       !n->controls &&
	       !ht_is(n, HT_ARGUMENT | HT_FED | HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE);
}

static int32_t number_of(const struct carrying *x, struct ht_value v)
{
	for (int32_t i = 0; ht_is(v.node, HT_ARGUMENT) && i < x->count; i++)
		if (ht_value_eq(x->arg[i], v))
			return i;
	return -1;
}

/* Whether both values of the body are equal, if the carried tensors are that are believed to be.  *left: how many nodes may still be
 * compared. */
static bool is_same(const struct carrying *x, struct ht_value a, struct ht_value b, int *left)
{
	const struct ht_node *n = a.node, *m = b.node;
	const int32_t i = number_of(x, a), k = number_of(x, b);

	if (ht_value_eq(a, b))
		return true;
	if (i >= 0 || k >= 0)
		return i >= 0 && k >= 0 && x->same[i] == x->same[k];
	if (--*left < 0 || a.index != b.index || n->op != m->op || n->ins != m->ins ||
		!is_same_type(a, b))
		return false;
	if (ht_is_const(a))
		return has_same_elements(a, b);
	if (!is_function(n) || !is_function(m) || !ht_same_attrs(n, m))
		return false;
	for (int32_t j = 0; j < n->ins; j++)
		if (!is_same(x, n->in[j], m->in[j], left))
			return false;
	return true;
}

/* ---- which carried tensors are equal ---- */

/* Whether an iteration gives both the same. */
static bool becomes_same(const struct carrying *x, int32_t i, int32_t k)
{
	int left = MOST_NODES;

	return is_same(x, x->ret[i]->value, x->ret[k]->value, &left);
}

static bool is_changed(const struct carrying *x, int32_t i)
{
	return !ht_value_eq(x->ret[i]->value, x->arg[i]);
}

static bool begins_same(const struct carrying *x, int32_t i, int32_t k)
{
	struct ht_value a = x->node->in[i], b = x->node->in[k];

	return is_same_type(x->arg[i], x->arg[k]) && is_same_type(a, b) &&
	       (ht_value_eq(a, b) || has_same_elements(a, b));
}

/* At first all are believed to be equal that begin so. */
static void believe(struct carrying *x)
{
	for (int32_t i = 0; i < x->count; i++) {
		x->same[i] = i;
		for (int32_t k = 0; k < i && x->same[i] == i && is_changed(x, i); k++)
			if (x->same[k] == k && is_changed(x, k) && begins_same(x, k, i))
				x->same[i] = k;
	}
}

/* Takes out of each class what an iteration gives another value than its first; true: there was some. */
static bool doubt(struct carrying *x)
{
	int32_t next[MOST_CARRIED];
	bool any = false;

	for (int32_t i = 0; i < x->count; i++) {
		next[i] = x->same[i];
		if (becomes_same(x, i, next[i]))
			continue;
		/* It joins the first tensor that left the class before it and becomes the same; without one it is a class of its own. */
		any = true;
		next[i] = i;
		for (int32_t k = 0; k < i && next[i] == i; k++)
			if (x->same[k] == x->same[i] && next[k] == k && k != x->same[i] &&
				becomes_same(x, i, k))
				next[i] = k;
	}
	memcpy(x->same, next, (size_t)x->count * sizeof *next);
	return any;
}

/* ---- one in place of several ---- */

/* From now on the loop keeps what it carries at `i`. */
static void keep(struct carrying *x, int32_t i)
{
	struct ht_node *before = x->ret[i]->value.node;

	x->ret[i]->value = x->arg[i];
	ht_rw_init_within(&x->inside, &x->within[1], x->body->body, x->outside.c);
	if (!ht_is(before, HT_ARGUMENT) && !ht_rw_node_uses(&x->inside, before))
		ht_rw_drop(&x->inside, before);
	x->found = true;
}

static void take_first(struct carrying *x, int32_t i)
{
	const int32_t k = x->same[i];

	/* The condition may be the argument itself, and two outputs of the graph stay two tensors. */
	if (ht_rw_is_output(&x->asking, x->asked[i]) ||
		ht_rw_is_output(&x->outside, ht_out(x->node, i)))
		return;
	ht_rw_replace(&x->asking, x->asked[i], x->asked[k]);
	ht_rw_replace(&x->inside, x->arg[i], x->arg[k]);
	keep(x, i);
	ht_rw_replace(&x->outside, ht_out(x->node, i), ht_out(x->node, k));
}

/* ---- reshapes of what is carried ---- */

/* What `v` becomes in the place of carried tensor i, whose elements an iteration sets all. */
static struct ht_value set_in(const struct carrying *x, int32_t i, struct ht_value v)
{
	const struct ht_node *n = v.node;
	int64_t at;
	int count;

	if (n->op == HT_OP_TensorScatterUpdate && ht_value_eq(n->in[0], x->arg[i]) &&
		ht_rw_uses(&x->inside, x->arg[i]) == 1 && x->arg[i].node->out[0].shape.rank > 0 &&
		x->arg[i].node->out[0].shape.dim[0] == 1 &&
		ht_const_small_ints(n->in[1], &at, 1, &count) && count == 1 && at == 0 &&
		is_same_type(n->in[2], v))
		return n->in[2];
	return v;
}

/* The other carried tensor whose elements are those of i in their order; -1: there is none. */
static int32_t followed(const struct carrying *x, int32_t i)
{
	struct ht_value v = set_in(x, i, x->ret[i]->value);

	if (ht_rw_uses(&x->inside, x->arg[i]) > !ht_value_eq(v, x->ret[i]->value) ||
		ht_rw_uses(&x->asking, x->asked[i]))
		return -1;
	for (int d = 0; d < MOST_RESHAPES; d++, v = v.node->in[0]) {
		for (int32_t k = 0; k < x->count; k++)
			if (k != i && is_changed(x, k) && ht_value_eq(x->ret[k]->value, v) &&
				is_as_large(x->arg[k], x->arg[i]) &&
				has_same_elements(x->node->in[i], x->node->in[k]))
				return k;
		if (!ht_is(v.node, HT_RESHAPES) || v.node->controls || !v.node->ins)
			return -1;
	}
	return -1;
}

static void follow(struct carrying *x, int32_t i, int32_t k)
{
	struct ht_rw *r = &x->outside;
	struct ht_node *n = x->node;
	const struct ht_value result = ht_out(n, i);
	struct ht_value v;

	if (ht_rw_is_output(r, result))
		return;
	if (ht_rw_uses(r, result)) {
		v = ht_rw_reshape(r, n, n->name, ht_out(n, k), n->out[i].shape);
		ht_node_move(v.node, n->next);
		ht_rw_replace(r, result, v);
	}
	keep(x, i);
}

/* ---- loops ---- */

static bool init(struct carrying *x, struct ht_node *n, struct ht_pass_context *c)
{
	const struct ht_bodies of = ht_control_bodies(n);
	struct ht_port *ret, *arg, *asked;

	if (!ht_is(n, HT_LOOPS) || !ht_runs_own(n) || n->ins != n->outs || n->ins > MOST_CARRIED)
		return false;
	*x = (struct carrying){
		.node = n, .condition = of.of[0], .body = of.of[1], .count = n->ins
	};
	ht_rw_init(&x->outside, n->graph, c);
	ht_rw_init_within(&x->asking, &x->within[0], x->condition->body, c);
	ht_rw_init_within(&x->inside, &x->within[1], x->body->body, c);
	arg = x->body->args;
	asked = x->condition->args;
	ret = x->body->rets;
	for (int32_t i = 0; i < x->count; i++) {
		x->arg[i] = arg->value;
		x->asked[i] = asked->value;
		x->ret[i] = ret;
		arg = arg->next;
		asked = asked->next;
		ret = ret->next;
	}
	return true;
}

/* What read a carried tensor may stand in front of the first one that equals it. */
static enum ht_status settle(const struct carrying *x, struct ht_pass_context *c)
{
	HT_TRY(ht_graph_sort(x->condition->body, c->diags));
	HT_TRY(ht_graph_sort(x->body->body, c->diags));
	ht_settle_arguments(x->node, c);
	return HT_OK;
}

static enum ht_status visit(struct ht_node *n, struct ht_pass_context *c)
{
	struct carrying x;
	int32_t k;

	if (!init(&x, n, c))
		return HT_OK;
	believe(&x);
	while (doubt(&x))
		;
	for (int32_t i = 0; i < x.count; i++)
		if (x.same[i] != i)
			take_first(&x, i);
	for (int32_t i = 0; i < x.count; i++) {
		k = is_changed(&x, i) ? followed(&x, i) : -1;
		if (k >= 0)
			follow(&x, i, k);
	}
	return x.found ? settle(&x, c) : HT_OK;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		HT_TRY(visit(n, c));
		if (ht_is(n, HT_LOOPS))
			ht_carried_lists(n, c);
	}
	return HT_OK;
}

const struct ht_pass ht_pass_carried = {
	.name = "carried",
	.summary =
		"carries through a loop once what is always equal, not what another carried tensor tells, and no zeros that it overwrites",
	.run = run,
};
