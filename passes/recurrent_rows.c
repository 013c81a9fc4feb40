/* recurrent: a loop whose products belong in front of it where a step has few rows, and in it where it has many, becomes a branch of
 * two such loops, if the number of rows is open and a run may have few or many.
 *
 * Loops that do not depend on each other, such as the directions of a bidirectional layer, are in one branch, so that they can still
 * run side by side. */
#include "passes/bounded.h"
#include "passes/outline.h"
#include "passes/recurrent.h"

#include <string.h>

enum { MOST_LOOPS = 16, MOST_DEPTH = 4 /* of what is made in the branch */ };

struct rows {
	struct ht_pass_context *c;
	struct ht_rw r;
	struct ht_outlines outlines;
	struct ht_recurrent_turn turn;
	struct ht_node *loop[MOST_LOOPS], *last; /* the loops of the branch */
	int32_t loops;
	bool *behind; /* by node: whether it depends on one of the loops */
	/* What the branch takes. */
	struct ht_value *arg;
	const int64_t **ends; /* of the operand, by axis; NULL: it has no open axes */
	int32_t args;
	size_t arg_cap, ends_cap;
};

/* ---- the loops of a branch ---- */

static bool is_member(const struct rows *x, const struct ht_node *n)
{
	for (int32_t i = 0; i < x->loops; i++)
		if (x->loop[i] == n)
			return true;
	return false;
}

/* What each branch makes itself: numbers that need no operand of the graph, such as a list that a loop fills.  A loop may write to it,
 * but not to what the branch is given. */
static bool is_made(struct ht_value v, int depth)
{
	const struct ht_node *n = v.node;

	if (n->controls || n->outs != 1 || ht_is(n, HT_VARIABLE | HT_ARGUMENT))
		return false;
	if (ht_is_const(v))
		return true;
	if (!depth || ht_axes(n) != HT_AXES_MADE || ht_op_info(n->op)->effects)
		return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (!is_made(n->in[i], depth - 1))
			return false;
	return true;
}

static bool is_plain(const struct ht_rw *r, struct ht_node *n)
{
	if (n->controls || ht_rw_has_control_users(r, n) || n->ins != n->outs)
		return false;
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_type *t = ht_type_of(n->in[i]);

		if (!ht_shape_known(t->shape) || t->shape.rank > HT_OPEN_RANK ||
			!ht_dtype_info(t->dtype)->bytes)
			return false;
	}
	return true;
}

static bool wants(const struct rows *x, struct ht_node *n, struct ht_recurrent_turn *turn)
{
	return ht_runs_own(n) && ht_is(n, HT_LOOPS) && is_plain(&x->r, n) &&
	       ht_recurrent_turns(n, x->c, turn);
}

/* Finds the first loops whose products belong in the loop from one number of rows on, and which do not depend on each other.  The graph is sorted. */
static bool find_loops(struct rows *x)
{
	struct ht_recurrent_turn turn;

	x->loops = 0;
	x->behind = HT_NEW_ARRAY(x->r.arena, bool, x->r.g->ids);
	for (struct ht_node *n = x->r.g->first; n && x->loops < MOST_LOOPS; n = n->next) {
		x->behind[n->id] = ht_needs_marked(n, x->behind);
		if (x->behind[n->id] || !wants(x, n, &turn) ||
			(x->loops && (turn.size != x->turn.size || turn.from != x->turn.from)))
			continue;
		x->turn = turn;
		x->loop[x->loops++] = x->last = n;
		x->behind[n->id] = true;
	}
	return x->loops > 0;
}

/* ---- the functions ---- */

/* The ends of operand `i` of a loop, which are those of its result. */
static const int64_t *ends_of(const struct rows *x, const struct ht_node *n, int32_t i)
{
	size_t count;
	const int64_t *all = ht_attr_ints(n, "_ends", &count, x->r.arena);

	return all ? all + (size_t)i * (count / (size_t)n->outs) : NULL;
}

static int32_t add_argument(struct rows *x, struct ht_value v)
{
	for (int32_t k = 0; k < x->loops; k++)
		for (int32_t i = 0; i < x->loop[k]->ins; i++)
			if (ht_value_eq(x->loop[k]->in[i], v)) {
				x->arg = ht_grow(x->r.arena, x->arg, (size_t)x->args, &x->arg_cap,
					sizeof *x->arg);
				x->ends = ht_grow(x->r.arena, x->ends, (size_t)x->args,
					&x->ends_cap, sizeof *x->ends);
				x->arg[x->args] = v;
				x->ends[x->args] = ends_of(x, x->loop[k], i);
				return x->args++;
			}
	return -2;
}

static int32_t argument(void *of, struct ht_value v)
{
	struct rows *x = of;

	if (is_member(x, v.node) || is_made(v, MOST_DEPTH))
		return -1;
	for (int32_t i = 0; i < x->args; i++)
		if (ht_value_eq(x->arg[i], v))
			return i;
	return add_argument(x, v);
}

static enum ht_dtype type_of_argument(void *of, int32_t i)
{
	const struct rows *x = of;

	return ht_type_of(x->arg[i])->dtype;
}

static bool waits(void *of, struct ht_node *n)
{
	(void)of;
	(void)n;
	return false;
}

/* Gives the loops of a branch functions of their own. */
static void own_functions(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		for (int i = 0; i < 2 && ht_runs_own(n); i++) {
			const struct ht_attr *a = ht_control_attr(n, i);
			const struct ht_function *from = ht_control_bodies(n).of[i];
			struct ht_function *f = ht_function_copy(g->library, from,
				ht_graph_free_function_name(g->library, from->name),
				a->value.func->attrs);

			f->special = true;
			ht_attr_set_function(n, a->name.p, f->name);
		}
}

static void type_arguments(const struct rows *x, struct ht_function *f)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++) {
		const struct ht_shape s = ht_type_of(x->arg[i])->shape;

		p->value.node->out[0].shape = ht_shape_make(f->body->arena, s.rank, s.dim);
		if (x->ends[i])
			ht_attr_set_ints(p->value.node, "_ends", x->ends[i], 2 * (size_t)s.rank);
	}
}

/* A branch: the loops, told how many rows they have at least or at most. */
static struct ht_function *branch(
	struct rows *x, const struct ht_value *ret, int32_t rets, enum ht_recurrent_rows rows)
{
	const struct ht_outline o = { &x->outlines, x, argument, type_of_argument, waits, x->args };
	struct ht_function *f = ht_outline(&o, x->last->name, ret, rets, NULL, 0);

	if (!f)
		return NULL;
	f->special = true;
	f->body->closed = x->r.g->closed;
	for (int32_t i = 0; i < x->r.g->sizes; i++)
		ht_graph_add_size(f->body, x->r.g->size[i]);
	type_arguments(x, f);
	own_functions(f->body);
	for (struct ht_node *n = f->body->first; n; n = n->next)
		if (ht_is(n, HT_LOOPS))
			ht_attr_set_int(n, HT_RECURRENT_ROWS, rows);
	return f;
}

/* ---- the branch ---- */

/* The results of the loops that something takes. */
static struct ht_value *results(const struct rows *x, int32_t *count)
{
	struct ht_value *ret;
	int32_t most = 0;

	for (int32_t k = 0; k < x->loops; k++)
		most += x->loop[k]->outs;
	ret = HT_NEW_ARRAY(x->r.arena, struct ht_value, (size_t)most);
	*count = 0;
	for (int32_t k = 0; k < x->loops; k++)
		for (int32_t i = 0; i < x->loop[k]->outs; i++)
			if (ht_rw_uses(&x->r, ht_out(x->loop[k], i)))
				ret[(*count)++] = ht_out(x->loop[k], i);
	return ret;
}

/* Whether the run has many rows. */
static struct ht_value condition(struct rows *x)
{
	const struct ht_str name = x->last->name;
	struct ht_value size =
		ht_dim_value(&x->r, x->last, name, HT_I32, ht_size_at(x->r.g, x->turn.size)->dim);
	struct ht_value from = ht_rw_scalar(&x->r, x->last, name, HT_I32, x->turn.from);
	struct ht_value in[] = { size, from };
	struct ht_node *n = ht_rw_node(&x->r, x->last, HT_OP_GreaterEqual, name, in, 2,
		(struct ht_type){ HT_BOOL, HT_SHAPE_SCALAR });

	return ht_out(n, 0);
}

/* The results end where those of the loops do. */
static void set_ends(const struct rows *x, struct ht_node *n, const struct ht_value *ret)
{
	const size_t each = 2 * HT_OPEN_RANK;
	int64_t *all = HT_NEW_ARRAY(x->r.arena, int64_t, each *(size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++) {
		const int64_t *ends = ends_of(x, ret[i].node, ret[i].index);

		if (ends)
			memcpy(all + each * (size_t)i, ends,
				2 * (size_t)n->out[i].shape.rank * sizeof *ends);
	}
	ht_attr_set_ints(n, "_ends", all, each * (size_t)n->outs);
}

static struct ht_node *make_node(struct rows *x, const struct ht_value *ret, int32_t rets,
	const struct ht_function *many, const struct ht_function *few)
{
	struct ht_value *in = HT_NEW_ARRAY(x->r.arena, struct ht_value, (size_t)x->args + 1);
	enum ht_dtype *t = HT_NEW_ARRAY(x->r.arena, enum ht_dtype, (size_t)(x->args + rets));
	struct ht_node *n;

	in[0] = condition(x);
	for (int32_t i = 0; i < x->args; i++) {
		in[i + 1] = x->arg[i];
		t[i] = ht_type_of(x->arg[i])->dtype;
	}
	n = ht_rw_node(&x->r, x->last, HT_OP_If, x->last->name, in, x->args + 1, *ht_type_of(*ret));
	ht_node_set_outs(n, rets);
	for (int32_t i = 0; i < rets; i++) {
		n->out[i] = *ht_type_of(ret[i]);
		t[x->args + i] = n->out[i].dtype;
	}
	ht_attr_set_types(n, "Tin", t, x->args);
	ht_attr_set_types(n, "Tout", t + x->args, rets);
	ht_attr_set_function(n, "then_branch", many->name);
	ht_attr_set_function(n, "else_branch", few->name);
	set_ends(x, n, ret);
	return n;
}

/* The branch in place of the loops.  NULL: they take something that a branch cannot have. */
static struct ht_node *divide(struct rows *x)
{
	int32_t rets;
	struct ht_value *ret = results(x, &rets);
	struct ht_function *many, *few;
	struct ht_node *n;

	x->args = 0;
	many = rets ? branch(x, ret, rets, HT_RECURRENT_MANY) : NULL;
	few = many ? branch(x, ret, rets, HT_RECURRENT_FEW) : NULL;
	if (!few)
		return NULL;
	n = make_node(x, ret, rets, many, few);
	for (int32_t k = 1; k < x->loops; k++)
		ht_rw_absorb(n, x->loop[k - 1]);
	for (int32_t i = 0; i < rets; i++)
		ht_rw_replace(&x->r, ret[i], ht_out(n, i));
	for (int32_t k = 0; k < x->loops; k++)
		if (x->loop[k]->graph)
			ht_rw_remove(&x->r, x->loop[k]);
	return n;
}

static enum ht_status make_ready(const struct rows *x, const struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);

	for (int i = 0; i < 2; i++) {
		HT_TRY(ht_graph_sort(b.of[i]->body, x->c->diags));
		HT_TRY(ht_run_passes_within(x->c, b.of[i], ht_pipeline_divided));
	}
	return HT_OK;
}

static bool has_open_sizes(const struct ht_graph *g)
{
	return g->library ? g->library->sizes > 0 : g->sizes > 0;
}

enum ht_status ht_recurrent_divide(struct ht_graph *g, struct ht_pass_context *c)
{
	for (;;) {
		struct rows x = { .c = c };
		struct ht_node *n;

		ht_rw_init(&x.r, g, c);
		if (!has_open_sizes(g) || !ht_rw_on(&x.r, HT_FUSION_recurrent_rows))
			return HT_OK;
		HT_TRY(ht_graph_sort(g, c->diags));
		ht_outlines_init(&x.outlines, g, g->ids, x.r.arena);
		n = find_loops(&x) ? divide(&x) : NULL;
		if (!n)
			return HT_OK;
		ht_rw_hit(&x.r, HT_FUSION_recurrent_rows);
		HT_TRY(make_ready(&x, n));
	}
}
