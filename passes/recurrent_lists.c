/* recurrent: a loop reads a list that was transposed where it was before.
 *
 * A recurrent layer transposes its input, [rows, steps, ...], and reads one step of all rows at a time.  The parts of one row and step lie
 * side by side before and after, so the loop can gather them along the second axis instead, and nothing is copied first. */
#include "passes/counted_loop.h"

enum {
	LEAST_BYTES =
		64, /* that a row of a step has: shorter ones would be read from lines of which most is not needed */
	MOST_READS = 16
};

/* A list that a loop reads. */
struct list {
	struct ht_counted_loop *x;
	struct ht_value arg;  /* of the body */
	struct ht_value rows; /* outside of the loop: [rows, steps, ...] */
	struct ht_node *read[MOST_READS];
	int reads;
};

/* Whether the transposition `n` has two rows at least and swaps the first two axes, with so many bytes behind them. */
static bool swaps(const struct ht_node *n)
{
	int64_t perm[HT_MAX_RANK];
	const struct ht_type *t = &n->out[0];
	int64_t row = (int64_t)ht_dtype_info(t->dtype)->bytes;
	int count;

	if (n->op != HT_OP_Transpose || n->controls || !ht_shape_known(t->shape) ||
		!ht_const_small_ints(n->in[1], perm, HT_MAX_RANK, &count) || count < 3)
		return false;
	for (int i = 0; i < count; i++)
		if (perm[i] != (i < 2 ? 1 - i : i))
			return false;
	for (int i = 2; i < count; i++)
		row *= t->shape.dim[i];
	return t->shape.dim[1] > 1 && row >= LEAST_BYTES;
}

/* Finds the uses in the body, each of which reads the step's element. */
static bool find_reads(struct list *l)
{
	const struct ht_rw *r = &l->x->inside;

	for (const struct ht_rw_use *u = ht_rw_first_use(r, l->arg.node); u;
		u = ht_rw_next_use(r, u)) {
		if (u->arg != 0 || l->reads == MOST_READS || u->node->controls ||
			!ht_counted_reads(l->x, u->node))
			return false;
		l->read[l->reads++] = u->node;
	}
	return l->reads > 0;
}

/* Whether nothing but the loop uses `v` and what is handed on as `v`. */
static bool is_for_loop_only(const struct ht_counted_loop *x, struct ht_value v)
{
	const struct ht_node *user = x->node, *origin = ht_forwarded(v).node;

	for (; ht_rw_only_user(&x->outside, v) == user; v = user->in[0]) {
		user = v.node;
		if (user == origin)
			return true;
	}
	return false;
}

/* The transposition whose result the loop is given as `v`, and which nothing else uses; NULL: there is none.  A transposition of another one is
 * left alone, as both go later (pass transposes). */
static const struct ht_node *transposition_of(const struct ht_counted_loop *x, struct ht_value v)
{
	const struct ht_node *n = v.node ? ht_forwarded(v).node : NULL;

	return n && swaps(n) && ht_forwarded(n->in[0]).node->op != n->op && is_for_loop_only(x, v)
		       ? n
		       : NULL;
}

/* Whether the list leaves the loop: as the result of the argument that it is, or as another one. */
static bool leaves(const struct list *l, int32_t i)
{
	int32_t k = 0;

	for (const struct ht_port *p = l->x->body->rets; p; p = p->next, k++)
		if (ht_value_eq(p->value, l->arg) &&
			(k != i || ht_rw_uses(&l->x->outside, ht_out(l->x->node, i)) ||
				ht_rw_is_output(&l->x->outside, ht_out(l->x->node, i))))
			return true;
	return false;
}

static bool find(struct list *l, int32_t i)
{
	struct ht_counted_loop *x = l->x;
	const struct ht_node *from;

	l->arg = ht_port_at(x->body->args, i)->value;
	from = transposition_of(x, ht_counted_kept(x, l->arg));
	if (!from || ht_rw_first_use(&x->asking, ht_port_at(x->condition->args, i)->value.node))
		return false;
	l->rows = from->in[0];
	return !leaves(l, i) && find_reads(l);
}

/* Gives the loop the rows.  The open sizes of the first two axes change places, too. */
static struct ht_value pass(const struct list *l)
{
	size_t count;
	int64_t *ends = ht_attr_ints(l->arg.node, "_ends", &count, l->x->inside.arena);

	for (size_t i = 0; i < 2 && count >= 4; i++) {
		const int64_t end = ends[i];

		ends[i] = ends[2 + i];
		ends[2 + i] = end;
	}
	return ht_counted_pass_open(l->x, l->rows, ends, ends ? count : 0).body;
}

static void read_rows(const struct list *l, struct ht_value rows, struct ht_node *n)
{
	struct ht_node *step = ht_counted_element(l->x, n, rows, n, 1, n->out[0]);

	ht_rw_take_place(&l->x->inside, n, ht_out(step, 0));
}

void ht_recurrent_lists(struct ht_counted_loop *x)
{
	const int32_t args = x->node->ins;
	bool any = false;

	for (int32_t i = 0; i < args; i++) {
		struct list l = { .x = x };
		struct ht_value rows;

		if (!find(&l, i))
			continue;
		rows = pass(&l);
		for (int k = 0; k < l.reads; k++)
			read_rows(&l, rows, l.read[k]);
		ht_rw_hit(&x->outside, HT_FUSION_recurrent_lists);
		any = true;
	}
	if (any) /* The loop need not be given the transposed lists any more. */
		ht_settle_arguments(x->node, x->c);
}
