/* recurrent: a state that each step narrows to 16 bits first and widens last is carried in 16 bits.
 *
 * A policy casts what a loop carries at the ends of its body.  So each step would convert the state twice, with a kernel for each, and
 * the state of the next step is the narrow one.  The first state must be zero, or narrow itself: then the results are the same after any
 * number of steps. */
#include "passes/counted_loop.h"

enum { MOST_USES = 64 };

/* An argument of the body, and all that uses it. */
struct state {
	struct ht_counted_loop *x;
	int32_t number;
	enum ht_dtype narrow;
	struct ht_port *result;
	struct ht_value arg, asked; /* of the body, of the condition */
	struct ht_node *use[MOST_USES];
	int uses;
};

static bool is_cast(const struct ht_node *n, enum ht_dtype from, enum ht_dtype to)
{
	return ht_is(n, HT_CASTS) && n->ins == 1 && ht_type_of(n->in[0])->dtype == from &&
	       n->out[0].dtype == to && !ht_attr_bool(n, "Truncate", false);
}

/* Finds the uses, each of which narrows the argument to one type. */
static bool is_narrowed(struct state *s)
{
	const struct ht_rw *r = &s->x->inside;

	if (ht_type_of(s->arg)->dtype != HT_F32 || ht_rw_is_output(r, s->arg))
		return false;
	for (const struct ht_rw_use *u = ht_rw_first_use(r, s->arg.node); u;
		u = ht_rw_next_use(r, u)) {
		const enum ht_dtype to = u->node->outs == 1 ? u->node->out[0].dtype : HT_INVALID;

		if (u->arg < 0 || s->uses == MOST_USES || !ht_is_low(to) ||
			(s->uses && to != s->narrow) || !is_cast(u->node, HT_F32, to))
			return false;
		s->narrow = to;
		s->use[s->uses++] = u->node;
	}
	return s->uses > 0;
}

static bool begins_narrow(const struct state *s)
{
	const struct ht_value first = s->x->node->in[s->number];

	return ht_const_is(first, 0) || is_cast(first.node, s->narrow, HT_F32);
}

static bool is_state(struct state *s)
{
	struct ht_counted_loop *x = s->x;

	s->result = ht_port_at(x->body->rets, s->number);
	s->arg = ht_port_at(x->body->args, s->number)->value;
	s->asked = ht_port_at(x->condition->args, s->number)->value;
	return is_narrowed(s) && is_cast(s->result->value.node, s->narrow, HT_F32) &&
	       !ht_rw_node_uses(&x->asking, s->asked.node) && begins_narrow(s);
}

static void set_type(struct ht_value arg, enum ht_dtype t)
{
	ht_type_of(arg)->dtype = t;
	ht_attr_set_type(arg.node, "T", t);
}

/* The loop takes and gives the narrow state. */
static void narrow_loop(struct state *s)
{
	struct ht_rw *r = &s->x->outside;
	struct ht_node *n = s->x->node;
	const struct ht_value result = ht_out(n, s->number);
	enum ht_dtype *t = HT_NEW_ARRAY(r->arena, enum ht_dtype, (size_t)n->outs);
	const bool used = ht_rw_uses(r, result) > 0;

	ht_rw_set_in(r, n, s->number, ht_rw_cast(r, n, n->name, n->in[s->number], s->narrow));
	n->out[s->number].dtype = s->narrow;
	for (int32_t i = 0; i < n->outs; i++)
		t[i] = n->out[i].dtype;
	ht_attr_set_types(n, "T", t, n->outs);
	if (used) {
		struct ht_value wide = ht_rw_cast(r, n, n->name, result, HT_F32);

		ht_node_move(wide.node, n->next);
		ht_rw_replace_behind(r, result, wide);
	}
}

static void narrow_body(struct state *s)
{
	struct ht_counted_loop *x = s->x;
	struct ht_node *wide = s->result->value.node;

	set_type(s->arg, s->narrow);
	set_type(s->asked, s->narrow);
	for (int i = 0; i < s->uses; i++)
		ht_rw_replace_node(&x->inside, s->use[i], s->arg);
	s->result->value = wide->in[0];
	ht_rw_init_within(&x->inside, &x->within[1], x->body->body, x->c);
	ht_rw_drop(&x->inside, wide);
}

void ht_recurrent_states(struct ht_counted_loop *x)
{
	for (int32_t i = 0; i < x->node->outs; i++) {
		struct state s = { .x = x, .number = i };

		if (!is_state(&s))
			continue;
		narrow_loop(&s);
		narrow_body(&s);
		ht_rw_hit(&x->outside, HT_FUSION_recurrent_states);
	}
}
