/* Finds the gradients that updates take which consist of elementary ops.
 *
 * Gradients are proportional to the constant that backpropagation begins at (linear.h).  From the value that such an update writes, the search goes
 * back through floating-point operands of the same shape: in an update of Adam through the root, the quotient and the sums of its slots.  It ends at
 * tensors that are proportional.  Scalar factors behind the gradient, such as the learning rate, are left out: those that depend neither on the
 * gradients nor on what the loss reads.  Constants of backpropagation that look the same change no gradient of a weight that a product or sum reads. */
#include "passes/linear.h"
#include "passes/rewrite.h"

struct finding {
	const struct ht_graph *g;
	struct ht_arena *a;
	uint64_t *linear; /* by node id: it is proportional to the seed */
	bool *forward; /* by node id: it depends on inputs or variables that the loss depends on */
	bool *behind;  /* by node id: it depends on the seed */
	uint32_t *met; /* by node id: the last search that met it */
	uint32_t search;
	struct ht_value *stack, *found;
	size_t depth, depth_cap, n, cap;
};

static bool is_float(struct ht_value v)
{
	return v.index >= 0 && v.index < v.node->outs && ht_is_float(ht_type_of(v)->dtype);
}

static bool any_operand(const struct ht_node *n, const bool *of)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (of[n->in[i].node->id])
			return true;
	return false;
}

/* The graph is sorted. */
static void find_dependence(struct finding *f, const struct ht_node *seed, const bool *needed)
{
	for (const struct ht_node *n = f->g->first; n; n = n->next) {
		f->forward[n->id] = (needed[n->id] && !ht_is(n, HT_CONSTANT) && n != seed) ||
				    any_operand(n, f->forward);
		f->behind[n->id] = n == seed || any_operand(n, f->behind);
	}
}

/* ---- from an update to gradients ---- */

static bool is_factor(const struct finding *f, struct ht_value v)
{
	return ht_type_of(v)->shape.rank == 0 && !f->forward[v.node->id] && !f->behind[v.node->id];
}

/* The operand whose multiple by a factor `v` is; `v` itself: there is none. */
static struct ht_value scaled_by_factor(const struct finding *f, struct ht_value v)
{
	const struct ht_node *n = v.node;

	if (!ht_is(n, HT_ELEMENTWISE) || n->ins < 1 || n->ins > 2)
		return v;
	for (int32_t i = 0; i < n->ins; i++)
		if (is_float(n->in[i]) && f->linear[n->in[i].node->id] &&
			ht_type_of(n->in[i])->dtype == ht_type_of(v)->dtype &&
			(n->ins == 1 || is_factor(f, n->in[1 - i])))
			return n->in[i];
	return v;
}

static void add(struct finding *f, struct ht_value v)
{
	struct ht_value next;

	while (next = scaled_by_factor(f, v), !ht_value_eq(next, v))
		v = next;
	for (size_t i = 0; i < f->n; i++)
		if (ht_value_eq(f->found[i], v))
			return;
	f->found = ht_grow(f->a, f->found, f->n, &f->cap, sizeof *f->found);
	f->found[f->n++] = v;
}

static void push(struct finding *f, struct ht_value v)
{
	if (f->met[v.node->id] == f->search)
		return;
	f->met[v.node->id] = f->search;
	f->stack = ht_grow(f->a, f->stack, f->depth, &f->depth_cap, sizeof *f->stack);
	f->stack[f->depth++] = v;
}

/* Whether the search from `v`, which an update writes, finds a gradient. */
static bool look_behind(struct finding *f, struct ht_value v)
{
	bool found = false;

	f->search++;
	push(f, v);
	while (f->depth) {
		struct ht_value at = f->stack[--f->depth];

		if (f->linear[at.node->id]) {
			add(f, at);
			found = true;
			continue;
		}
		for (int32_t i = 0; i < at.node->ins; i++) {
			struct ht_value in = at.node->in[i];

			if (is_float(in) && f->behind[in.node->id] &&
				ht_shape_eq(ht_type_of(in)->shape, ht_type_of(at)->shape))
				push(f, in);
		}
	}
	return found;
}

/* Scalars, such as a loss scale that the graph keeps by itself, may depend on gradients without being changed by one. */
static bool look_at(struct finding *f, const struct ht_node *n)
{
	bool all = true;

	if (!ht_changes_variable(n) || ht_gradient_argument(n->op) >= 0)
		return true;
	for (int32_t i = 0; i < n->ins; i++)
		if (is_float(n->in[i]) && !ht_takes_reference(n, i) && f->behind[n->in[i].node->id])
			all &= look_behind(f, n->in[i]) || ht_type_of(n->in[i])->shape.rank == 0;
	return all;
}

bool ht_step_gradients(const struct ht_graph *g, struct ht_node *loss, struct ht_arena *a,
	struct ht_value **found, size_t *n)
{
	struct finding f = { .g = g,
		.a = a,
		.linear = HT_NEW_ARRAY(a, uint64_t, g->ids),
		.forward = HT_NEW_ARRAY(a, bool, g->ids),
		.behind = HT_NEW_ARRAY(a, bool, g->ids),
		.met = HT_NEW_ARRAY(a, uint32_t, g->ids) };
	bool *needed = HT_NEW_ARRAY(a, bool, g->ids), all = true;
	struct ht_node *seed = ht_gradient_seed(g, loss, needed, a);
	size_t count;

	*n = 0;
	if (!seed)
		return true;
	ht_linear_in(g, &seed, 1, needed, f.linear, &count);
	find_dependence(&f, seed, needed);
	for (const struct ht_node *at = g->first; at; at = at->next)
		all &= look_at(&f, at);
	*found = f.found;
	*n = f.n;
	return all;
}
