/* bodies: the functions that branches and loops run, made ready to be lowered.
 *
 * Each branch and each loop gets copies of its functions, so that what is known of its operands holds in
 * them: arguments get the operands' types, a constant operand that a loop hands on unchanged becomes a
 * constant of the body, and arguments that nothing takes then go, of the node as of its functions.  The
 * passes of ht_pipeline_body run on each copy; bodies in bodies are made ready by this pass among them.
 *
 * A loop's arguments have the shapes that hold in every iteration: dimensions in which an iteration's
 * result differs from what it began with are unknown.
 *
 * Functions that run themselves, and those that the library lacks, stay as they are; lowering says so. */
#include "passes/rewrite.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_FUNCTIONS = 20000 /* of a program: copies in copies could be very many */ };

/* A branch or loop, and its copies. */
struct control {
	struct ht_pass_context *c;
	struct ht_node *node;
	struct ht_function *body[2];
	int32_t args, rets;      /* of each body; of a loop's condition: one result */
	struct ht_value *arg[2]; /* by argument */
	struct ht_type *type;    /* likewise */
};

static enum ht_status fail(const struct control *x, enum ht_status st, const char *fmt, ...)
	HT_PRINTF(3, 4);
static enum ht_status fail(const struct control *x, enum ht_status st, const char *fmt, ...)
{
	struct ht_where at = HT_NOWHERE;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	at.path = x->node->graph->library->path;
	at.node = x->node->name;
	at.op = x->node->type;
	return ht_error(x->c->diags, st, at, "%s", text);
}

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

static struct ht_str free_function_name(const struct ht_graph *library, struct ht_str base)
{
	struct ht_str name;
	size_t i = library->function_names.count;

	do
		name = ht_str_printf(library->arena, "%.*s_%zu", HT_STR_ARG(base), i++);
	while (ht_graph_function(library, name));
	return name;
}

static enum ht_status copy_bodies(struct control *x, const struct ht_bodies *from)
{
	struct ht_graph *library = x->node->graph->library;

	if (library->function_names.count > MOST_FUNCTIONS)
		return fail(x, HT_E_LIMIT,
			"the program has more than %d bodies of branches and loops",
			MOST_FUNCTIONS);
	for (int i = 0; i < 2; i++) {
		struct ht_attr *a = ht_control_attr(x->node, i);
		struct ht_func_ref *ref = HT_NEW(library->arena, struct ht_func_ref);

		*ref = *a->value.func;
		ref->name = free_function_name(library, from->of[i]->name);
		ref->attrs = NULL;
		x->body[i] =
			ht_function_copy(library, from->of[i], ref->name, a->value.func->attrs);
		x->body[i]->special = true;
		a->value.func = ref;
	}
	return HT_OK;
}

/* ---- types of arguments ---- */

static int32_t count_ports(const struct ht_port *p)
{
	int32_t n = 0;

	for (; p; p = p->next)
		n++;
	return n;
}

static enum ht_status find_ports(struct control *x)
{
	x->args = x->node->ins - ht_control_first(x->node);
	x->rets = x->node->outs;
	for (int i = 0; i < 2; i++) {
		int32_t rets = is_loop(x) && i == 0 ? 1 : x->rets, at = 0;

		if (count_ports(x->body[i]->args) != x->args ||
			count_ports(x->body[i]->rets) != rets)
			return fail(x, HT_E_INPUT,
				"passes %" PRId32 " operands and takes %" PRId32
				" results; function '%.*s' has %" PRId32 " and %" PRId32,
				x->args, rets, HT_STR_ARG(x->body[i]->name),
				count_ports(x->body[i]->args), count_ports(x->body[i]->rets));
		x->arg[i] = HT_NEW_ARRAY(x->c->scratch, struct ht_value, (size_t)x->args);
		for (const struct ht_port *p = x->body[i]->args; p; p = p->next)
			x->arg[i][at++] = p->value;
	}
	return HT_OK;
}

/* A shape in another graph, which has no names for dimensions. */
static struct ht_shape without_symbols(struct ht_shape s, struct ht_arena *a)
{
	int64_t *d;

	if (s.rank <= 0)
		return s;
	d = HT_NEW_ARRAY(a, int64_t, (size_t)s.rank);
	for (int32_t i = 0; i < s.rank; i++)
		d[i] = s.dim[i] < 0 ? HT_DIM_UNKNOWN : s.dim[i];
	return (struct ht_shape){ s.rank, d };
}

static struct ht_type type_of(struct ht_value v)
{
	return !v.port.n && v.index < v.node->outs
		       ? *ht_type_of(v)
		       : (struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN };
}

static enum ht_status pass_types(struct control *x)
{
	for (int i = 0; i < 2; i++)
		for (int32_t k = 0; k < x->args; k++) {
			struct ht_node *n = x->arg[i][k].node;
			enum ht_dtype stated = ht_type_attr(n, "T");

			if (stated != x->type[k].dtype)
				return fail(x, HT_E_INPUT,
					"passes %s as argument '%.*s' of function '%.*s', which is %s",
					ht_dtype_info(x->type[k].dtype)->name, HT_STR_ARG(n->name),
					HT_STR_ARG(x->body[i]->name), ht_dtype_info(stated)->name);
			n->out[0] = x->type[k];
		}
	for (int i = 0; i < 2; i++)
		HT_TRY(ht_infer_types(x->body[i]->body, x->c->diags));
	return HT_OK;
}

/* Results have the types that the node says. */
static enum ht_status check_results(const struct control *x)
{
	for (int i = is_loop(x) ? 1 : 0; i < 2; i++) {
		const struct ht_port *ret = x->body[i]->rets;

		for (int32_t k = 0; k < x->rets; k++, ret = ret->next)
			if (type_of(ret->value).dtype != x->node->out[k].dtype)
				return fail(x, HT_E_INPUT,
					"result '%.*s' of function '%.*s' is %s; it should be %s",
					HT_STR_ARG(ret->name), HT_STR_ARG(x->body[i]->name),
					ht_dtype_info(type_of(ret->value).dtype)->name,
					ht_dtype_info(x->node->out[k].dtype)->name);
	}
	return HT_OK;
}

/* What holds of tensors of either shape; false: that is `a`. */
static bool widen(struct ht_shape *a, struct ht_shape b, struct ht_arena *arena)
{
	int64_t *d;
	bool changed = false;

	if (a->rank < 0)
		return false;
	if (a->rank != b.rank) {
		*a = HT_SHAPE_UNKNOWN;
		return true;
	}
	d = HT_NEW_ARRAY(arena, int64_t, (size_t)a->rank);
	for (int32_t i = 0; i < a->rank; i++) {
		d[i] = a->dim[i] == b.dim[i] ? a->dim[i] : HT_DIM_UNKNOWN;
		changed = changed || d[i] != a->dim[i];
	}
	a->dim = d;
	return changed;
}

/* Shapes only become less known, so this ends. */
static enum ht_status find_types(struct control *x)
{
	struct ht_arena *a = x->node->graph->arena;
	bool again;

	x->type = HT_NEW_ARRAY(x->c->scratch, struct ht_type, (size_t)x->args);
	for (int32_t i = 0; i < x->args; i++) {
		x->type[i] = type_of(operand(x, i));
		x->type[i].shape = without_symbols(x->type[i].shape, a);
	}
	do {
		const struct ht_port *ret = x->body[1]->rets;

		HT_TRY(pass_types(x));
		HT_TRY(check_results(x));
		again = false;
		for (int32_t i = 0; is_loop(x) && i < x->args; i++, ret = ret->next)
			again = widen(&x->type[i].shape, type_of(ret->value).shape, a) || again;
	} while (again);
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

static void push_constants(struct control *x)
{
	const struct ht_port *ret = x->body[1]->rets;

	for (int32_t i = 0; i < x->args; i++, ret = is_loop(x) ? ret->next : NULL) {
		const struct ht_tensor *t = ht_const_tensor(operand(x, i));

		if (!t || !stays(x, i, ret))
			continue;
		for (int k = 0; k < 2; k++) {
			struct ht_graph *g = x->body[k]->body;
			struct ht_node *c =
				ht_const_sharing(g, ht_graph_free_name(g, operand(x, i).node->name),
					t->dtype, t->shape, t->blob);

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
	struct ht_attr *a = ht_attr_find(n, attr);
	size_t kept = 0;

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.n != (size_t)count)
		return;
	for (int32_t i = 0; i < count; i++)
		if (keep[i])
			a->value.list.item[kept++] = a->value.list.item[i];
	a->value.list.n = kept;
}

static void keep_operands(struct control *x, const bool *keep)
{
	struct ht_node *n = x->node;
	int32_t first = ht_control_first(n), kept = first;

	for (int32_t i = 0; i < x->args; i++)
		if (keep[i])
			n->in[kept++] = n->in[first + i];
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

/* ---- passes on a body ---- */

static enum ht_status run_on(const struct control *x, struct ht_function *f, const char *pipeline)
{
	struct ht_entry entry = {
		.inputs = f->args, .outputs = f->rets, .targets = f->control_rets
	};
	struct ht_pass_context c = *x->c;
	enum ht_status st;

	c.scratch = ht_arena_within(x->c->scratch);
	c.entry = &entry;
	c.after = NULL;
	st = ht_run_passes(f->body, pipeline, NULL, &c);
	ht_arena_release(c.scratch);
	return st;
}

static enum ht_status make_ready(struct ht_node *n, struct ht_pass_context *c)
{
	struct control x = { .c = c, .node = n };
	struct ht_bodies from = ht_control_bodies(n);

	for (int i = 0; i < 2; i++)
		if (!from.of[i] || ht_calls_itself(from.of[i], c->scratch))
			return HT_OK;
	HT_TRY(copy_bodies(&x, &from));
	for (int i = 0; i < 2; i++)
		HT_TRY(run_on(&x, x.body[i], "inline,branches,prune,identity"));
	HT_TRY(find_ports(&x));
	HT_TRY(find_types(&x));
	push_constants(&x);
	drop_arguments(&x);
	for (int i = 0; i < 2; i++)
		HT_TRY(run_on(&x, x.body[i], ht_pipeline_body));
	return HT_OK;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
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
