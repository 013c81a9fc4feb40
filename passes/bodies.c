/* bodies: the functions that branches and loops run, made ready to be lowered.
 *
 * Each branch and each loop gets copies of its functions, so that what is known of its operands holds in
 * them: arguments get the operands' types, a constant operand that a loop hands on unchanged becomes a
 * constant of the body, the handle of a variable a handle in the body, and arguments that nothing takes then go, of the node as of its functions.  The
 * passes of ht_pipeline_body run on each copy; bodies in bodies are made ready by this pass among them.  Before,
 * stacks and arrays of TensorFlow 1 become lists (handles.c), and lists tensors (lists.c).
 *
 * Functions that run themselves, and those that the library lacks, stay as they are; lowering says so. */
#include "passes/rewrite.h"

#include <string.h>

enum {
	MOST_NESTED = 64,
	MOST_FUNCTIONS = 50000 /* of a program: copies in copies could be very many */
};

/* Where functions are copied. */
struct copying {
	struct ht_pass_context *c;
	int depth; /* branches and loops around */
};

/* A branch or loop, and its copies. */
struct control {
	struct ht_pass_context *c;
	struct ht_node *node;
	struct ht_function *body[2];
	int32_t args;            /* of each body */
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

static void copy_one(struct ht_node *n, int i, const struct ht_function *from)
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
	a->value.func = ref;
}

static enum ht_status copy_within(const struct copying *x, struct ht_graph *g);

/* Gives a branch or loop functions of its own, and those in these likewise. */
static enum ht_status copy_bodies(const struct copying *x, struct ht_node *n)
{
	struct copying within = { x->c, x->depth + 1 };
	struct ht_bodies from = ht_control_bodies(n);

	for (int i = 0; i < 2; i++)
		if (!from.of[i] || from.of[i]->special ||
			ht_calls_itself(from.of[i], x->c->scratch))
			return HT_OK;
	if (within.depth > MOST_NESTED)
		return refuse(x, n, "is nested too deeply in branches and loops");
	if (n->graph->library->function_names.count > MOST_FUNCTIONS)
		return refuse(x, n, "is of a program with too many bodies of branches and loops");
	for (int i = 0; i < 2; i++) {
		copy_one(n, i, from.of[i]);
		from.of[i] = ht_control_bodies(n).of[i];
		HT_TRY(ht_run_passes_within(x->c, from.of[i], "inline,branches,prune,identity"));
		HT_TRY(copy_within(&within, from.of[i]->body));
	}
	return HT_OK;
}

static enum ht_status copy_within(const struct copying *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_BRANCHES | HT_LOOPS))
			HT_TRY(copy_bodies(x, n));
	return HT_OK;
}

/* ---- constants, and arguments that are not needed ---- */

/* An argument that every iteration has as the loop began. */
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

/* A node of the body that is what `v` is outside of it: a constant, or the handle of a variable or table. */
static struct ht_node *same_inside(struct ht_graph *g, struct ht_value v)
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
		if (!ht_const_tensor(operand(x, i)) && !ht_is(operand(x, i).node, HT_VARIABLE) &&
			!ht_is_table(operand(x, i).node))
			continue;
		if (!stays(x, i, ret))
			continue;
		for (int k = 0; k < 2; k++) {
			struct ht_graph *g = x->body[k]->body;
			struct ht_node *c = same_inside(g, operand(x, i));

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

static bool is_ret(const struct ht_port *p, struct ht_value v)
{
	for (; p; p = p->next)
		if (ht_value_eq(p->value, v))
			return true;
	return false;
}

/* Whether argument i is of use; of a loop `ret` is its result. */
static bool is_needed(const struct control *x, int32_t i, const struct ht_port *ret)
{
	if (!stays(x, i, ret))
		return true;
	for (int k = 0; k < 2; k++) {
		if (is_taken(x->body[k]->body, x->arg[k][i]))
			return true;
		if ((!is_loop(x) || k == 0) && is_ret(x->body[k]->rets, x->arg[k][i]))
			return true;
	}
	return false;
}

static void keep_ports(struct ht_port **p, const bool *keep)
{
	for (int32_t i = 0; *p; i++)
		if (keep[i])
			p = &(*p)->next;
		else
			*p = (*p)->next;
}

static void keep_items(struct ht_node *n, const char *attr, const bool *keep, int32_t count)
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

/* `operand` is about to be removed from the operands of `n`: gives its control edges to `n`, which still has to wait for
 * them. */
static void inherit_controls(struct ht_node *n, const struct ht_node *operand)
{
	struct ht_node **all =
		ht_controls_and(n->graph->arena, n, operand->control, operand->controls);

	ht_node_set_controls(n, all, n->controls + operand->controls);
}

static void keep_operands(struct control *x, const bool *keep)
{
	struct ht_node *n = x->node;
	int32_t first = ht_control_first(n), kept = first;

	for (int32_t i = 0; i < x->args; i++)
		if (keep[i])
			n->in[kept++] = n->in[first + i];
		else if (n->in[first + i].node->controls)
			inherit_controls(n, n->in[first + i].node);
	n->ins = kept;
	for (int k = 0; k < 2; k++)
		keep_ports(&x->body[k]->args, keep);
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
	n->outs = kept;
	keep_ports(&x->body[1]->rets, keep);
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
	keep_items(x->node, is_loop(x) ? "T" : "Tin", keep, x->args);
	keep_items(x->node, is_loop(x) ? "output_shapes" : "_Tin", keep, x->args);
	keep_operands(x, keep);
	for (int k = 0; k < 2; k++)
		for (int32_t i = 0; i < x->args; i++)
			if (!keep[i])
				ht_node_remove(x->arg[k][i].node);
}

/* ---- what is ready ---- */

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

static enum ht_status make_ready(struct ht_node *n, struct ht_pass_context *c)
{
	struct ht_bodies of = ht_control_bodies(n);
	struct control x = { .c = c, .node = n, .body = { of.of[0], of.of[1] } };

	for (int i = 0; i < 2; i++)
		if (!x.body[i] || !x.body[i]->special)
			return HT_OK;
	find_arguments(&x);
	push_constants(&x);
	drop_arguments(&x);
	for (int i = 0; i < 2; i++)
		HT_TRY(ht_run_passes_within(c, x.body[i], ht_pipeline_body));
	return HT_OK;
}

/* Inference tells the types of arguments, in all copies together. */
static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	const struct copying all = { c, 0 };

	HT_TRY(copy_within(&all, g));
	HT_TRY(ht_infer_types(g, c->diags));
	HT_TRY(ht_handles_to_lists(g, c));
	HT_TRY(ht_lists_to_tensors(g, c));
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_BRANCHES | HT_LOOPS))
			HT_TRY(make_ready(n, c));
	return HT_OK;
}

const struct ht_pass ht_pass_bodies = {
	.name = "bodies",
	.summary = "makes the functions of branches and loops ready to be lowered",
	.run = run,
};
