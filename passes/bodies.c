/* bodies: prepares the functions that branches and loops run for lowering.
 *
 * Each branch and each loop gets copies of its functions, so that facts about its operands hold
 * in them: arguments get the operands' types; a constant operand that a loop passes on unchanged
 * becomes a constant in the body; the handle of a variable becomes a handle in the body.
 * Arguments without readers are then removed, from the node as well as from its functions.  The
 * passes of ht_pipeline_body run on each copy; this pass is one of them and prepares nested
 * bodies.  Before that, stacks and arrays of TensorFlow 1 become lists (handles.c), and lists
 * become tensors (lists.c).
 *
 * Recursive functions have one copy for each call from outside (recursion.c).  Functions that
 * the library lacks stay unchanged; lowering reports them. */
#include "passes/recursion.h"

#include <string.h>

enum {
	MOST_NESTED = 64,
	MOST_FUNCTIONS = 50000 /* of a program: nested copies could be very many */
};

/* The context in which functions are copied. */
struct copying {
	struct ht_pass_context *c;
	int depth;                             /* how many branches, loops and recursive calls
					        * enclose it */
	struct ht_recursion_copies *recursion; /* the enclosing recursion; NULL: none */
	const struct copying *up;              /* the enclosing branch, loop or call, and */
	const struct ht_function *original;    /* the function of which it runs a copy; NULL:
					        * calls name the copy */
};

/* A branch or loop, and its copies. */
struct control {
	struct ht_pass_context *c;
	struct ht_node *node;
	struct ht_function *body[2];
	int32_t args;            /* number of arguments of each body */
	struct ht_value *arg[2]; /* by argument */
};

static bool is_loop(const struct control *x)
{
	return ht_is(x->node, HT_LOOPS);
}

/* The operand of argument i. */
static struct ht_value operand(const struct control *x, int32_t i)
{
	return x->node->in[ht_control_first(x->node) + i];
}

/* ---- copies ---- */

static enum ht_status refuse(const struct copying *x, const struct ht_node *n, const char *text)
{
	struct ht_where at = HT_NOWHERE;

	at.path = n->graph->library->path;
	at.node = n->name;
	at.op = n->type;
	return ht_error(x->c->diags, HT_E_LIMIT, at, "%s", text);
}

static void copy_one(
	const struct copying *x, struct ht_node *n, int i, const struct ht_function *from)
{
	struct ht_graph *library = n->graph->library;
	struct ht_attr *a = ht_attr_own(n, ht_control_attr(n, i)->name.p);
	struct ht_func_ref *ref = HT_NEW(library->arena, struct ht_func_ref);
	struct ht_function *f;

	*ref = *a->value.func;
	ref->name = ht_graph_free_function_name(library, from->name);
	ref->attrs = NULL;
	f = ht_function_copy(library, from, ref->name, a->value.func->attrs);
	f->special = true;
	if (x->recursion)
		f->recursion = x->recursion->name;
	a->value.func = ref;
}

static enum ht_status copy_within(const struct copying *x, struct ht_graph *g);

/* Whether an enclosing branch or loop, with no call in between, runs a copy of `f` too. */
static bool runs_again(const struct copying *x, const struct ht_function *f)
{
	for (; x && x->original; x = x->up)
		if (x->original == f)
			return true;
	return false;
}

static enum ht_status check_depth(const struct copying *x, const struct ht_node *n)
{
	if (x->depth > MOST_NESTED)
		return refuse(x, n, "is nested too deeply in branches and loops");
	if (n->graph->library->function_names.count > MOST_FUNCTIONS)
		return refuse(x, n, "is of a program with too many bodies of branches and loops");
	return HT_OK;
}

/* Branches and loops that a pass has put into functions that were copied before. */
static enum ht_status copy_inner(const struct copying *x, const struct ht_bodies *of)
{
	for (int i = 0; i < 2; i++)
		if (of->of[i]->special)
			HT_TRY(copy_within(x, of->of[i]->body));
	return HT_OK;
}

/* Gives a branch or loop its own copies of functions, and likewise the branches and loops in
 * these.  If it runs a function that encloses it, it calls that function instead. */
static enum ht_status copy_bodies(const struct copying *x, struct ht_node *n)
{
	struct copying within = {
		.c = x->c, .depth = x->depth + 1, .recursion = x->recursion, .up = x
	};
	struct ht_bodies from = ht_control_bodies(n);

	if (!from.of[0] || !from.of[1])
		return HT_OK;
	if (from.of[0]->special || from.of[1]->special)
		return copy_inner(&within, &from);
	HT_TRY(check_depth(&within, n));
	for (int i = 0; i < 2; i++) {
		within.original = from.of[i];
		if (runs_again(x, from.of[i]))
			from.of[i] = ht_recursion_caller(n, i, from.of[i]);
		copy_one(x, n, i, from.of[i]);
		from.of[i] = ht_control_bodies(n).of[i];
		HT_TRY(ht_run_passes_within(x->c, from.of[i], "inline,branches,prune,identity"));
		HT_TRY(copy_within(&within, from.of[i]->body));
	}
	return HT_OK;
}

/* ---- functions that call themselves ---- */

static bool can_call(const struct ht_function *f, struct ht_str name, struct ht_arena *scratch)
{
	struct ht_map called;

	ht_called_functions(f->body, scratch, &called);
	return ht_map_get(&called, name);
}

static enum ht_status copy_called(
	const struct copying *x, struct ht_node *n, const struct ht_function *f)
{
	const struct ht_attr *attrs = ht_control_attr(n, 0)->value.func->attrs;
	struct copying within = {
		.c = x->c, .depth = x->depth + 1, .recursion = x->recursion, .up = x
	};
	struct ht_function *copy;

	HT_TRY(check_depth(&within, n));
	copy = ht_recursion_copy(x->recursion, n->graph->library, f, attrs);
	ht_recursion_name(n, copy);
	HT_TRY(ht_run_passes_within(x->c, copy, "inline,branches,prune,identity"));
	return copy_within(&within, copy->body);
}

/* A call within a recursion names a copy that belongs to this recursion; any other call enters a
 * new recursion. */
static enum ht_status copy_recursion(const struct copying *x, struct ht_node *n)
{
	struct ht_function *f = ht_control_bodies(n).of[0];
	struct ht_recursion_copies entered = { .original = f ? f->name : HT_STR("") };
	struct copying within = *x;
	const struct ht_function *copy = NULL;

	if (!f || f->special || !ht_recurs(n->graph->library, f, x->c->scratch))
		return HT_OK;
	if (x->recursion)
		copy = ht_map_get(&x->recursion->of, f->name);
	if (copy) {
		ht_recursion_name(n, copy);
		return HT_OK;
	}
	if (x->recursion && can_call(f, x->recursion->original, x->c->scratch))
		return copy_called(x, n, f);
	ht_map_init(&entered.of, x->c->scratch);
	within.recursion = &entered;
	return copy_called(&within, n, f);
}

static enum ht_status copy_within(const struct copying *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_BRANCHES | HT_LOOPS))
			HT_TRY(copy_bodies(x, n));
		else if (ht_is(n, HT_CALLS_ONE))
			HT_TRY(copy_recursion(x, n));
	return HT_OK;
}

/* ---- constants, and arguments that are not needed ---- */

/* Whether an argument has the same value in every iteration. */
static bool stays(const struct control *x, int32_t i, const struct ht_port *ret)
{
	return !is_loop(x) || ht_value_eq(ret->value, x->arg[1][i]);
}

static void replace_operands(struct ht_graph *g, struct ht_value from, struct ht_value to)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++)
			if (ht_value_eq(n->in[i], from))
				n->in[i] = to;
}

bool ht_has_same_inside(struct ht_value v)
{
	return ht_const_tensor(v) || ht_is(v.node, HT_VARIABLE) || ht_is_table(v.node);
}

struct ht_node *ht_same_inside(struct ht_graph *g, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	struct ht_str name = ht_graph_free_name(g, v.node->name);
	struct ht_node *n;

	if (t)
		return ht_const_sharing(g, name, t->dtype, t->shape, t->blob);
	n = ht_node_new(g, v.node->type, name);
	n->attrs = ht_attrs_copy(v.node->attrs, NULL, g->arena);
	ht_node_set_outs(n, 1);
	n->out[0] = v.node->out[0];
	return n;
}

static void push_constants(struct control *x)
{
	const struct ht_port *ret = x->body[1]->rets;

	for (int32_t i = 0; i < x->args; i++, ret = is_loop(x) ? ret->next : NULL) {
		if (!ht_has_same_inside(operand(x, i)) || !stays(x, i, ret))
			continue;
		for (int k = 0; k < 2; k++) {
			struct ht_graph *g = x->body[k]->body;
			struct ht_node *c = ht_same_inside(g, operand(x, i));

			ht_node_move(c, g->first);
			replace_operands(g, x->arg[k][i], ht_out(c, 0));
		}
	}
}

static bool is_taken(const struct ht_graph *g, struct ht_value arg)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++)
			if (ht_value_eq(n->in[i], arg))
				return true;
	return false;
}

/* Whether `v` is a result. `but`: a result that does not count; NULL: all count. */
static bool is_ret(const struct ht_port *p, struct ht_value v, const struct ht_port *but)
{
	for (; p; p = p->next)
		if (p != but && ht_value_eq(p->value, v))
			return true;
	return false;
}

/* Whether argument i has readers; of a loop, `ret` is its result, which is none. An iteration may give the argument as another result, too. */
static bool is_needed(const struct control *x, int32_t i, const struct ht_port *ret)
{
	if (!stays(x, i, ret))
		return true;
	for (int k = 0; k < 2; k++) {
		if (is_taken(x->body[k]->body, x->arg[k][i]))
			return true;
		if (is_ret(x->body[k]->rets, x->arg[k][i], is_loop(x) ? ret : NULL))
			return true;
	}
	return false;
}

void ht_keep_ports(struct ht_port **p, const bool *keep)
{
	for (int32_t i = 0; *p; i++)
		if (keep[i])
			p = &(*p)->next;
		else
			*p = (*p)->next;
}

void ht_keep_items(struct ht_node *n, const char *attr, const bool *keep, int32_t count)
{
	struct ht_attr *a = ht_attr_own(n, attr);
	size_t kept = 0;

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.n != (size_t)count)
		return;
	for (int32_t i = 0; i < count; i++)
		if (keep[i])
			a->value.list.item[kept++] = a->value.list.item[i];
	a->value.list.n = kept;
}

/* Called when `operand` is about to be removed from the operands of `n`: gives its control edges
 * to `n`, which must still wait for them. */
static void inherit_controls(struct ht_node *n, const struct ht_node *operand)
{
	struct ht_node **all =
		ht_controls_and(n->graph->arena, n, operand->control, operand->controls);

	ht_node_set_controls(n, all, n->controls + operand->controls);
}

void ht_keep_operands(struct ht_node *n, const bool *keep)
{
	int32_t first = ht_control_first(n), args = n->ins - first, kept = first;

	for (int32_t i = 0; i < args; i++)
		if (keep[i])
			n->in[kept++] = n->in[first + i];
		else if (n->in[first + i].node->controls)
			inherit_controls(n, n->in[first + i].node);
	n->ins = kept;
}

/* Attribute _ends has as many numbers for each result (bounded_bodies.c). */
static void keep_ends(const struct control *x, const bool *keep)
{
	const struct ht_attr *ends = ht_attr_find(x->node, "_ends");
	size_t all = ends ? ends->value.list.n : 0;
	bool *keeps = HT_NEW_ARRAY(x->c->scratch, bool, all + 1);

	for (size_t i = 0; i < all; i++)
		keeps[i] = keep[i * (size_t)x->args / all];
	ht_keep_items(x->node, "_ends", keeps, (int32_t)all);
}

/* Results of arguments that go are what was passed; the others move up. */
static void keep_results(struct control *x, const bool *keep)
{
	struct ht_node *n = x->node;
	struct ht_graph *g = n->graph;
	int32_t kept = 0;

	for (int32_t i = 0; i < x->args; i++) {
		struct ht_value to = keep[i] ? ht_out(n, kept) : operand(x, i);

		ht_replace_uses(g, ht_out(n, i), to);
		if (keep[i])
			n->out[kept++] = n->out[i];
	}
	keep_ends(x, keep);
	n->outs = kept;
	ht_keep_ports(&x->body[1]->rets, keep);
}

static void drop_arguments(struct control *x)
{
	const struct ht_port *ret = x->body[1]->rets;
	bool *keep = HT_NEW_ARRAY(x->c->scratch, bool, (size_t)x->args), all = true;

	for (int32_t i = 0; i < x->args; i++, ret = is_loop(x) ? ret->next : NULL) {
		keep[i] = is_needed(x, i, ret);
		all = all && keep[i];
	}
	if (all)
		return;
	if (is_loop(x))
		keep_results(x, keep);
	ht_keep_items(x->node, is_loop(x) ? "T" : "Tin", keep, x->args);
	ht_keep_items(x->node, is_loop(x) ? "output_shapes" : "_Tin", keep, x->args);
	ht_keep_operands(x->node, keep);
	for (int k = 0; k < 2; k++)
		ht_keep_ports(&x->body[k]->args, keep);
	for (int k = 0; k < 2; k++)
		for (int32_t i = 0; i < x->args; i++)
			if (!keep[i])
				ht_node_remove(x->arg[k][i].node);
}

/* ---- checking that the bodies are ready ---- */

static void find_arguments(struct control *x)
{
	x->args = x->node->ins - ht_control_first(x->node);
	for (int i = 0; i < 2; i++) {
		int32_t at = 0;

		x->arg[i] = HT_NEW_ARRAY(x->c->scratch, struct ht_value, (size_t)x->args);
		for (const struct ht_port *p = x->body[i]->args; p; p = p->next)
			x->arg[i][at++] = p->value;
	}
}

/* `n` has functions of its own. */
static struct control control_of(struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_bodies of = ht_control_bodies(n);

	return (struct control){ .c = c, .node = n, .body = { of.of[0], of.of[1] } };
}

static struct control settle_arguments(struct ht_node *n, struct ht_pass_context *c)
{
	struct control x = control_of(n, c);

	find_arguments(&x);
	push_constants(&x);
	drop_arguments(&x);
	return x;
}

void ht_settle_arguments(struct ht_node *n, struct ht_pass_context *c)
{
	settle_arguments(n, c);
}

static enum ht_status make_ready(struct ht_node *n, struct ht_pass_context *c)
{
	struct control x;

	if (!ht_runs_own(n))
		return HT_OK;
	x = settle_arguments(n, c);
	for (int i = 0; i < 2; i++)
		HT_TRY(ht_run_passes_within(c, x.body[i], ht_pipeline_body));
	return HT_OK;
}

static bool push_into_recursions(struct ht_graph *g, struct ht_pass_context *c)
{
	bool any = false;

	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_enters_recursion(n)) {
			ht_recursion_push_constants(n, c->scratch);
			any = true;
		}
	return any;
}

/* Handles, lists and optional tensors become tensors.  `computes`: sizes that the run computes may still be added. */
static enum ht_status make_tensors(struct ht_graph *g, struct ht_pass_context *c, bool computes)
{
	HT_TRY(ht_settle_faults(g, c));
	HT_TRY(ht_optionals_to_tensors(g, c));
	HT_TRY(ht_handles_to_lists(g, c));
	HT_TRY(ht_lists_to_tensors(g, c, computes));
	return ht_settle_fakes(g, c, false);
}

/* Known operands may show that what a body does must fail.  What reads what such a body would have computed fails, too: gradients of branches. */
static enum ht_status settle_faults(struct ht_graph *g, struct ht_pass_context *c)
{
	for (int round = 0; round < 2; round++) {
		HT_TRY(ht_settle_faults(g, c));
		HT_TRY(ht_settle_fakes(g, c, false));
	}
	return HT_OK;
}

/* Constant operands of branches and loops become constants of the bodies, inner ones too.  Nothing is dropped yet: a loop that hands on what
 * it gets is not needed afterwards, but it may fail. */
static void push_all(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		struct control x;

		if (!ht_runs_own(n))
			continue;
		x = control_of(n, c);
		find_arguments(&x);
		push_constants(&x);
		for (int i = 0; i < 2; i++)
			push_all(x.body[i]->body, c);
	}
}

/* Inference determines the types of arguments in all copies together. */
static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	const struct copying all = { .c = c };

	HT_TRY(copy_within(&all, g));
	HT_TRY(ht_infer_types(g, c->diags));
	if (push_into_recursions(g, c))
		HT_TRY(ht_infer_types(g, c->diags));
	HT_TRY(make_tensors(g, c, false));
	push_all(g, c);
	HT_TRY(ht_infer_types(g, c->diags));
	HT_TRY(settle_faults(g, c));
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_BRANCHES | HT_LOOPS))
			HT_TRY(make_ready(n, c));
		else if (ht_enters_recursion(n))
			HT_TRY(ht_recursion_run(n, c, ht_pipeline_body));
	return settle_faults(g, c);
}

/* The argument that a result of a branch is; -1: none. */
static int32_t argument_of(const struct ht_function *f, const struct ht_port *ret)
{
	struct ht_value v = ret->value;
	int32_t at = 0;

	while (ht_is(v.node, HT_FORWARDS))
		v = v.node->in[v.index];
	for (const struct ht_port *p = f->args; p; p = p->next, at++)
		if (ht_value_eq(p->value, v))
			return at;
	return -1;
}

/* A result that is the same argument in both branches is the operand, whose elements may be known; inner branches first. */
static void pass_operands(struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);
		const struct ht_port *ret[2];

		if (!ht_runs_own(n))
			continue;
		for (int k = 0; k < 2; k++) {
			pass_operands(b.of[k]->body);
			ret[k] = b.of[k]->rets;
		}
		for (int32_t i = 0; i < n->outs && !ht_is(n, HT_LOOPS); i++) {
			int32_t arg = argument_of(b.of[0], ret[0]);

			if (arg >= 0 && arg == argument_of(b.of[1], ret[1]))
				ht_replace_uses(g, ht_out(n, i), n->in[ht_control_first(n) + arg]);
			for (int k = 0; k < 2; k++)
				ret[k] = ret[k]->next;
		}
	}
}

static void settle_all(struct ht_graph *g, struct ht_pass_context *c)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		struct control x;

		if (!ht_runs_own(n))
			continue;
		x = settle_arguments(n, c);
		for (int i = 0; i < 2; i++)
			settle_all(x.body[i]->body, c);
	}
}

/* Only here the ranks in bodies are known, by which pass rare writes ops.  It may make loops of them. */
static enum ht_status write_rare(const struct copying *x, struct ht_graph *g)
{
	HT_TRY(ht_run_passes(g, "rare", NULL, x->c));
	return copy_within(x, g);
}

enum ht_status ht_open_bodies(struct ht_graph *g, struct ht_pass_context *c)
{
	const struct copying all = { .c = c };

	HT_TRY(copy_within(&all, g));
	HT_TRY(ht_infer_types(g, c->diags));
	HT_TRY(make_tensors(g, c, true));
	HT_TRY(write_rare(&all, g));
	pass_operands(g);
	push_all(g, c);
	HT_TRY(ht_infer_types(g, c->diags));
	HT_TRY(settle_faults(g, c));
	settle_all(g, c);
	return ht_infer_types(g, c->diags);
}

const struct ht_pass ht_pass_bodies = {
	.name = "bodies",
	.summary = "makes the functions of branches and loops ready to be lowered",
	.run = run,
};
