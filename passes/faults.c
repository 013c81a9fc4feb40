/* faults: what a branch or loop does whose nodes fail in each run that reaches them.
 *
 * TensorFlow finds that a reshape, a slice or a range is wrong when it runs, so a graph may have a branch that would fail and is never taken.
 * Inference notes such nodes (struct ht_node, fault).  In bodies, an Assert that is false takes their place, and all that depends on them
 * goes, as nothing can run it:
 *
 * - A result of a branch becomes a FakeParam that waits for the Assert.  The other side tells its shape (fakes.c).
 * - A result of an iteration becomes the iteration's own argument, which therefore does not change.
 * - A branch of which both sides fail, and a loop whose condition does, fails itself.
 *
 * So an outermost node that fails is an error of the graph. */
#include "passes/rewrite.h"

struct faults {
	struct ht_pass_context *c;
	bool changed;
};

/* ---- what fails ---- */

static bool ports_have(const struct ht_port *p, const bool *some)
{
	for (; p; p = p->next)
		if (some[p->value.node->id])
			return true;
	return false;
}

/* By node id: the nodes that fail, or depend on one.  `asserts`: an Assert of a constant that is false fails, too. */
static bool *find_failing(const struct ht_graph *g, struct ht_arena *a, bool asserts)
{
	bool *failing = HT_NEW_ARRAY(a, bool, g->ids);

	for (const struct ht_node *n = g->first; n; n = n->next)
		failing[n->id] = n->fault || (asserts && ht_asserts(n, false)) ||
				 ht_needs_marked(n, failing);
	return failing;
}

static bool needs_failing(const struct ht_function *f, const bool *failing)
{
	return ports_have(f->rets, failing) || ports_have(f->control_rets, failing);
}

/* Whether each run of the body fails; `asserts` as for find_failing(). */
static bool always_fails(const struct faults *x, const struct ht_function *f, bool asserts)
{
	return needs_failing(f, find_failing(f->body, x->c->scratch, asserts));
}

/* The first node that fails, in bodies first; NULL: there is none. */
static const struct ht_node *first_fault(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);
		const struct ht_node *of = NULL;

		for (int k = 0; k < 2 && ht_runs_own(n) && !of; k++)
			of = first_fault(b.of[k]->body);
		if (of || n->fault)
			return of ? of : n;
	}
	return NULL;
}

/* ---- what takes its place ---- */

static bool must_wait_for(const struct ht_node *n)
{
	return !ht_is(n, HT_CONSTANT | HT_ARGUMENT);
}

/* An Assert in place of `n`, which waits for all that `n` waits for and takes: an Assert among these stops the run first. */
static struct ht_node *assert_instead(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value never = ht_rw_scalar(r, n, n->name, HT_BOOL, 0),
			text = ht_rw_text(r, n, n->name, n->fault);
	struct ht_node *check = ht_rw_assert(r, n, "fails", never, &text, 1),
		       **wait = HT_NEW_ARRAY(
			       r->g->arena, struct ht_node *, (size_t)(n->controls + n->ins + 1));
	int32_t count = 0;

	for (int32_t i = 0; i < n->controls; i++)
		wait[count++] = n->control[i];
	for (int32_t i = 0; i < n->ins; i++)
		if (must_wait_for(n->in[i].node))
			wait[count++] = n->in[i].node;
	ht_node_set_controls(check, wait, count);
	return check;
}

/* Whether result `i` of a branch is an optional tensor, as one of its sides shows. */
static bool is_optional(const struct ht_node *branch, int32_t i)
{
	const struct ht_bodies b = ht_control_bodies(branch);

	for (int k = 0; k < 2; k++) {
		const struct ht_node *n = ht_forwarded(ht_port_at(b.of[k]->rets, i)->value).node;

		if (n->op == HT_OP_OptionalFromValue || n->op == HT_OP_OptionalNone)
			return true;
	}
	return false;
}

/* A tensor that nothing reads, for result `i` of a branch. */
static struct ht_node *fake(
	struct ht_rw *r, const struct ht_node *branch, int32_t i, struct ht_node *at)
{
	struct ht_type t = branch->out[i];
	struct ht_node *n;

	if (is_optional(branch, i))
		return ht_rw_node(r, at, HT_OP_OptionalNone, at->name, NULL, 0, t);
	if (!ht_shape_known(t.shape))
		t.shape = HT_SHAPE_UNKNOWN;
	n = ht_rw_node(r, at, HT_OP_FakeParam, at->name, NULL, 0, t);
	ht_attr_set_type(n, "dtype", t.dtype);
	ht_attr_set_shape(n, "shape", t.shape);
	return n;
}

/* What stands in for result `i` of a body that fails: of an iteration its own argument `i`, of a branch a tensor that nothing reads.  It is made
 * in front of `at`. */
static struct ht_node *result_instead(
	struct ht_rw *r, const struct ht_node *control, int32_t i, struct ht_node *at)
{
	struct ht_value arg;

	if (!ht_is(control, HT_LOOPS))
		return fake(r, control, i, at);
	arg = ht_port_at(r->g->function->args, i)->value;
	return ht_rw_node(r, at, HT_OP_Identity, at->name, &arg, 1, *ht_type_of(arg));
}

static void remove_failing(struct ht_graph *g, const bool *failing, uint32_t ids)
{
	struct ht_node *prev;

	for (struct ht_node *n = g->last; n; n = prev) {
		prev = n->prev;
		if (n->id >= ids || !failing[n->id])
			continue;
		ht_const_drop(n);
		ht_node_remove(n);
	}
}

/* Puts Asserts in place of the nodes that fail in body `f` of `control`, if its results need one of them, and removes all that depends on them. */
static enum ht_status replace(
	struct faults *x, const struct ht_node *control, struct ht_function *f)
{
	struct ht_graph *g = f->body;
	uint32_t ids = g->ids;
	bool *failing = find_failing(g, x->c->scratch, false);
	struct ht_rw_within within;
	struct ht_node **check = NULL;
	size_t checks = 0, cap = 0;
	struct ht_rw r;
	int32_t i = 0;

	if (!needs_failing(f, failing))
		return HT_OK;
	x->changed = true;
	ht_rw_init_within(&r, &within, g, x->c);
	for (struct ht_node *n = g->first; n; n = n->next)
		if (n->id < ids && n->fault && !ht_needs_marked(n, failing)) {
			check = ht_grow(x->c->scratch, check, checks, &cap, sizeof(void *));
			check[checks++] = assert_instead(&r, n);
		}
	for (struct ht_port *p = f->rets; p; p = p->next, i++) {
		struct ht_node *n;

		if (p->value.node->id >= ids || !failing[p->value.node->id])
			continue;
		n = result_instead(&r, control, i, p->value.node);
		ht_node_move(n, NULL); /* behind all Asserts */
		ht_node_set_controls(
			n, ht_controls_and(g->arena, n, check, (int32_t)checks), (int32_t)checks);
		p->value = ht_out(n, 0);
	}
	for (struct ht_port *p = f->control_rets; p; p = p->next)
		if (p->value.node->id < ids && failing[p->value.node->id])
			p->value.node = check[0];
	remove_failing(g, failing, ids);
	return ht_run_passes_within(x->c, f, "prune");
}

/* ---- all graphs ---- */

static enum ht_status visit(struct faults *x, struct ht_graph *g);

static bool has_untold_result(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (!ht_shape_is_told(n->out[i].shape))
			return true;
	return false;
}

/* Whether each run of a loop's condition fails, or each run of both sides of a branch: then neither side tells the shapes of the results. */
static bool fails_itself(const struct faults *x, const struct ht_node *n, const struct ht_bodies *b)
{
	if (ht_is(n, HT_LOOPS))
		return always_fails(x, b->of[0], false);
	return has_untold_result(n) && always_fails(x, b->of[0], true) &&
	       always_fails(x, b->of[1], true);
}

static const char *fault_within(const struct ht_bodies *b)
{
	const struct ht_node *n = first_fault(b->of[0]->body);

	if (!n)
		n = first_fault(b->of[1]->body);
	return n ? n->fault : "both sides of this branch fail";
}

static enum ht_status visit_control(struct faults *x, struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);

	for (int k = 0; k < 2; k++)
		HT_TRY(visit(x, b.of[k]->body));
	if (fails_itself(x, n, &b))
		n->fault = fault_within(&b);
	for (int k = 0; k < 2 && !n->fault; k++)
		HT_TRY(replace(x, n, b.of[k]));
	return HT_OK;
}

static enum ht_status visit(struct faults *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_runs_own(n))
			HT_TRY(visit_control(x, n));
	return HT_OK;
}

static enum ht_status report(const struct ht_graph *g, struct ht_diags *d)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (n->fault && ht_runs_own(n))
			return ht_error(d, HT_E_INPUT,
				(struct ht_where){ .path = g->library->path,
					.node = n->name,
					.op = n->type,
					.offset = -1 },
				"each run fails within: %s", n->fault);
	return HT_OK;
}

enum ht_status ht_settle_faults(struct ht_graph *g, struct ht_pass_context *c)
{
	struct faults x = { .c = c };

	if (!first_fault(g))
		return HT_OK;
	HT_TRY(visit(&x, g));
	if (!g->function)
		HT_TRY(report(g, c->diags));
	return x.changed ? ht_infer_types(g, c->diags) : HT_OK;
}
