/* carried: a list of which a loop sets every element need not begin with zeros.
 *
 * The loop of a recurrent layer that returns all its steps sets element i in iteration i, and has as many iterations as the list has elements.
 * So nothing reads the zeros that the list begins with, and the node that makes them gets the attribute _unset: lowering gives it memory, and
 * no kernel. */
#include "passes/counted_loop.h"

enum { MOST_DEPTH = 8 /* of a condition */ };

/* A list that a loop carries: how many elements it has, or the open size that tells so, from 1. */
struct list {
	const struct ht_counted_loop *x;
	int32_t number;
	int64_t elements, size;
};

/* How many elements the run's list has; false: not known. */
static bool measure(struct list *s, struct ht_value arg)
{
	size_t count;
	const int64_t *ends = ht_attr_ints(arg.node, "_ends", &count, s->x->outside.arena);
	const struct ht_shape shape = ht_type_of(arg)->shape;

	if (!ht_shape_known(shape) || !shape.rank)
		return false;
	s->elements = shape.dim[0];
	s->size = ends && count >= 2 ? ends[0] : 0;
	return !s->size || ends[1] == 1;
}

static bool is_length(const struct list *s, struct ht_value bound)
{
	int64_t n, of[1 + HT_DIM_SIZES];
	int count;

	if (!s->size)
		return ht_const_small_ints(bound, &n, 1, &count) && count == 1 && n == s->elements;
	if (bound.node->op != HT_OP__Sizes || ht_type_of(bound)->shape.rank ||
		!ht_stated_product(bound.node, 0, of) || of[0] != 1 || of[1] != s->size)
		return false;
	for (int i = 2; i <= HT_DIM_SIZES; i++)
		if (of[i])
			return false;
	return true;
}

/* Whether the loop goes on exactly as long as the number of the iteration is below the length. */
static bool goes_through(const struct list *s, struct ht_value v, int depth)
{
	const struct ht_node *n = v.node;
	int64_t from;

	if (ht_is(n, HT_FORWARDS) && n->ins == 1 && depth)
		return goes_through(s, n->in[0], depth - 1);
	if (n->op == HT_OP_LogicalAnd && depth)
		return goes_through(s, n->in[0], depth - 1) && goes_through(s, n->in[1], depth - 1);
	return n->op == HT_OP_Less && is_length(s, n->in[1]) &&
	       ht_counted_counts(s->x, ht_counted_argument(s->x->condition, n->in[0]), &from) &&
	       from == 0;
}

/* Whether iteration i sets element i, and nothing reads the list before. */
static bool sets_each(const struct list *s, struct ht_value arg)
{
	const struct ht_counted_loop *x = s->x;
	const struct ht_node *set = ht_counted_result(x->body, s->number).node;
	struct ht_shape shape;
	struct ht_value at;
	int64_t from;

	if (set->op != HT_OP_TensorScatterUpdate || !ht_value_eq(set->in[0], arg) ||
		ht_rw_uses(&x->inside, arg) != 1 ||
		ht_rw_uses(&x->asking, ht_port_at(x->condition->args, s->number)->value))
		return false;
	shape = ht_type_of(set->in[1])->shape;
	for (at = set->in[1]; ht_is(at.node, HT_RESHAPES);)
		at = at.node->in[0];
	return shape.rank > 0 && ht_shape_count(shape) == 1 &&
	       ht_counted_counts(x, ht_counted_argument(x->body, at), &from) && from == 0;
}

static bool is_unset(const struct list *s)
{
	const struct ht_value zeros = s->x->node->in[s->number];

	return zeros.node->op == HT_OP_Fill && !zeros.node->controls &&
	       ht_rw_only_user(&s->x->outside, zeros) == s->x->node;
}

void ht_carried_lists(struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_counted_loop x;

	if (!ht_counted_init(&x, n, c))
		return;
	for (int32_t i = 0; i < n->ins; i++) {
		struct list s = { .x = &x, .number = i };
		const struct ht_value arg = ht_port_at(x.body->args, i)->value;

		if (is_unset(&s) && measure(&s, arg) && sets_each(&s, arg) &&
			goes_through(&s, x.condition->rets->value, MOST_DEPTH))
			ht_attr_set_bool(n->in[i].node, "_unset", true);
	}
}
