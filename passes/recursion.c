/* Recursive functions.
 *
 * Each call of such a function from outside gets copies of it and of all functions that are
 * mutually recursive with it, so that arguments have the types of this call's operands
 * (ir/infer_recursion.c).  All calls within name these copies.  Several calls run a copy, so its
 * arguments stay, except those that have the same constant, variable or table in every call. */
#include "passes/recursion.h"

#include "passes/outline.h"

/* ---- copies ---- */

struct ht_function *ht_recursion_copy(struct ht_recursion_copies *r, struct ht_graph *library,
	const struct ht_function *f, const struct ht_attr *attrs)
{
	struct ht_function *copy =
		ht_function_copy(library, f, ht_graph_free_function_name(library, f->name), attrs);
	size_t rets = 0;

	for (const struct ht_port *p = copy->rets; p; p = p->next)
		rets++;
	if (!r->name.n)
		r->name = copy->name;
	copy->special = true;
	copy->recursion = r->name;
	copy->result = HT_NEW_ARRAY(library->arena, struct ht_type, rets + 1);
	for (size_t i = 0; i < rets; i++)
		copy->result[i].shape = HT_SHAPE_UNKNOWN;
	ht_map_at(&r->of, f->name)->value = copy;
	return copy;
}

void ht_recursion_name(struct ht_node *n, const struct ht_function *f)
{
	ht_attr_set_function(n, "f", f->name);
}

static const enum ht_dtype *result_types(
	const struct ht_node *n, int i, const struct ht_function *f, struct ht_arena *a)
{
	enum ht_dtype *t;
	int32_t count = 0;

	for (const struct ht_port *p = f->rets; p; p = p->next)
		count++;
	t = HT_NEW_ARRAY(a, enum ht_dtype, (size_t)count + 1);
	for (int32_t k = 0; k < count; k++)
		t[k] = ht_is(n, HT_LOOPS) && i == 0 ? HT_BOOL
		       : k < n->outs                ? n->out[k].dtype
						    : HT_INVALID;
	return t;
}

struct ht_function *ht_recursion_caller(const struct ht_node *n, int i, const struct ht_function *f)
{
	struct ht_graph *library = n->graph->library;
	struct ht_function *caller =
		ht_function_new(library, ht_graph_free_function_name(library, f->name));
	struct ht_node *call = ht_node_new(caller->body, HT_STR("PartitionedCall"), n->name);
	const enum ht_dtype *result = result_types(n, i, f, library->arena);
	int32_t first = ht_control_first(n), args = n->ins - first, rets = 0;
	enum ht_dtype *type = HT_NEW_ARRAY(library->arena, enum ht_dtype, (size_t)args + 1);
	struct ht_value *in = HT_NEW_ARRAY(library->arena, struct ht_value, (size_t)args + 1);
	struct ht_port **end = &caller->args;

	for (int32_t k = 0; k < args; k++) {
		type[k] = ht_type_of(n->in[first + k])->dtype;
		in[k] = ht_function_add_arg(caller, &end, type[k], k);
	}
	ht_node_move(call, NULL);
	ht_node_set_ins(call, in, args);
	for (const struct ht_port *p = f->rets; p; p = p->next)
		rets++;
	ht_node_set_outs(call, rets);
	end = &caller->rets;
	for (int32_t k = 0; k < rets; k++) {
		call->out[k] = (struct ht_type){ result[k], HT_SHAPE_UNKNOWN };
		ht_function_add_ret(caller, &end, ht_out(call, k));
	}
	ht_attr_set_types(call, "Tin", type, args);
	ht_attr_set_types(call, "Tout", result, rets);
	ht_attr_set_function(call, "f", f->name);
	ht_node_add_origin(call, n);
	return caller;
}

/* The function that `n` calls, if it belongs to a recursion. */
static struct ht_function *callee_of(const struct ht_node *n)
{
	struct ht_function *f = ht_is(n, HT_CALLS_ONE) ? ht_control_bodies(n).of[0] : NULL;

	return f && f->result ? f : NULL;
}

bool ht_enters_recursion(const struct ht_node *n)
{
	const struct ht_function *f = callee_of(n), *caller = n->graph->function;

	return f && !(caller && ht_str_eq(caller->recursion, f->recursion));
}

enum ht_status ht_recursion_run(
	const struct ht_node *n, const struct ht_pass_context *c, const char *pipeline)
{
	const struct ht_function *entered = callee_of(n);

	for (struct ht_function *f = n->graph->library->functions; f; f = f->next)
		if (f->result && ht_str_eq(f->recursion, entered->recursion))
			HT_TRY(ht_run_passes_within(c, f, pipeline));
	return HT_OK;
}

/* ---- arguments that are the same in all calls ---- */

/* The value of an argument in the calls visited so far. */
struct passed {
	bool any, various;
	struct ht_value v; /* if there is one, and all calls have the same */
};

/* A function of the recursion. */
struct member {
	struct ht_function *f;
	struct ht_node *runner; /* the branch or loop that runs it; NULL: calls run it */
	struct passed *arg;     /* of a function that is called by name */
	int32_t args;
};

struct pushing {
	struct ht_str recursion;
	struct ht_graph *library;
	struct ht_node *outside;
	struct ht_arena *scratch;
	struct ht_map member; /* by name */
	bool changed;
};

static struct member *member_of(const struct pushing *x, const struct ht_function *f)
{
	return f ? ht_map_get(&x->member, f->name) : NULL;
}

static int32_t count_args(const struct ht_function *f)
{
	int32_t n = 0;

	for (const struct ht_port *p = f->args; p; p = p->next)
		n++;
	return n;
}

static void find_members(struct pushing *x)
{
	ht_map_init(&x->member, x->scratch);
	for (struct ht_function *f = x->library->functions; f; f = f->next) {
		struct member *m;

		if (!f->special || !ht_str_eq(f->recursion, x->recursion))
			continue;
		m = ht_map_at(&x->member, f->name)->value = HT_NEW(x->scratch, struct member);
		m->f = f;
		m->args = count_args(f);
		if (f->result)
			m->arg = HT_NEW_ARRAY(x->scratch, struct passed, (size_t)m->args + 1);
	}
}

static void find_runners(struct pushing *x)
{
	for (size_t i = 0; i < x->member.count; i++) {
		const struct member *m = x->member.entries[i].value;

		for (struct ht_node *n = m->f->body->first; n; n = n->next) {
			struct ht_bodies b = { { NULL } };

			if (ht_is(n, HT_BRANCHES | HT_LOOPS))
				b = ht_control_bodies(n);
			for (int k = 0; k < 2; k++)
				if (member_of(x, b.of[k]))
					member_of(x, b.of[k])->runner = n;
		}
	}
}

static int32_t number_of(const struct ht_function *f, struct ht_value arg)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++)
		if (ht_value_eq(p->value, arg))
			return i;
	return -1;
}

/* Whether argument i is loop-invariant. */
static bool stays(const struct ht_node *loop, int32_t i)
{
	const struct ht_function *body = ht_control_bodies(loop).of[1];
	const struct ht_port *arg = body->args, *ret = body->rets;

	for (; i > 0 && arg && ret; i--) {
		arg = arg->next;
		ret = ret->next;
	}
	return arg && ret && ht_value_eq(arg->value, ret->value);
}

/* Traces an operand of a call out of branches and loops, to an argument of a function that is
 * called by name. */
static struct passed passed_as(const struct pushing *x, struct ht_value v)
{
	while (ht_is(v.node, HT_ARGUMENT)) {
		const struct member *m = member_of(x, v.node->graph->function);
		int32_t i = m ? number_of(m->f, v) : -1;

		if (i >= 0 && m->arg)
			return m->arg[i];
		if (i < 0 || !m->runner || (ht_is(m->runner, HT_LOOPS) && !stays(m->runner, i)))
			return (struct passed){ true, true, v };
		v = m->runner->in[ht_control_first(m->runner) + i];
	}
	return (struct passed){ true, !ht_has_same_inside(v), v };
}

static bool is_same(struct ht_value a, struct ht_value b)
{
	const struct ht_tensor *s = ht_const_tensor(a), *t = ht_const_tensor(b);

	if (ht_value_eq(a, b))
		return true;
	if (s && t)
		return s->blob == t->blob && s->dtype == t->dtype &&
		       ht_shape_eq(s->shape, t->shape);
	return ht_is(a.node, HT_VARIABLE) && ht_is(b.node, HT_VARIABLE) &&
	       ht_str_eq(ht_variable_name(a.node), ht_variable_name(b.node));
}

static void meet(struct pushing *x, struct passed *to, struct passed p)
{
	bool various = to->various || p.various;

	if (!p.any)
		return;
	various = various || (to->any && !is_same(to->v, p.v));
	x->changed = x->changed || !to->any || various != to->various;
	*to = (struct passed){ true, various, to->any ? to->v : p.v };
}

static void look_at(struct pushing *x, struct ht_node *call)
{
	struct member *m = member_of(x, callee_of(call));

	for (int32_t i = 0; m && i < m->args && i < call->ins; i++)
		meet(x, &m->arg[i], passed_as(x, call->in[i]));
}

static void each_call(struct pushing *x, void (*f)(struct pushing *x, struct ht_node *call))
{
	f(x, x->outside);
	for (size_t i = 0; i < x->member.count; i++) {
		const struct member *m = x->member.entries[i].value;

		for (struct ht_node *n = m->f->body->first; n; n = n->next)
			if (member_of(x, callee_of(n)))
				f(x, n);
	}
}

static bool *kept(const struct pushing *x, const struct member *m)
{
	bool *keep = HT_NEW_ARRAY(x->scratch, bool, (size_t)m->args + 1);

	for (int32_t i = 0; i < m->args; i++)
		keep[i] = !m->arg[i].any || m->arg[i].various;
	return keep;
}

static void drop_operands(struct pushing *x, struct ht_node *call)
{
	const struct member *m = member_of(x, callee_of(call));
	const bool *keep = kept(x, m);

	if (call->ins != m->args)
		return;
	ht_keep_items(call, "Tin", keep, m->args);
	ht_keep_items(call, "_Tin", keep, m->args);
	ht_keep_operands(call, keep);
}

static void put_constants(struct pushing *x, struct member *m)
{
	struct ht_graph *g = m->f->body;
	const bool *keep = kept(x, m);
	struct ht_port *p = m->f->args;

	for (int32_t i = 0; i < m->args; i++, p = p->next) {
		struct ht_node *c;

		if (keep[i])
			continue;
		c = ht_same_inside(g, m->arg[i].v);
		ht_node_move(c, g->first);
		ht_replace_uses(g, p->value, ht_out(c, 0));
		ht_node_remove(p->value.node);
	}
	ht_keep_ports(&m->f->args, keep);
}

void ht_recursion_push_constants(struct ht_node *n, struct ht_arena *scratch)
{
	struct pushing x = { .recursion = callee_of(n)->recursion,
		.library = n->graph->library,
		.outside = n,
		.scratch = scratch };

	find_members(&x);
	find_runners(&x);
	do {
		x.changed = false;
		each_call(&x, look_at);
	} while (x.changed);
	each_call(&x, drop_operands);
	for (size_t i = 0; i < x.member.count; i++)
		if (((struct member *)x.member.entries[i].value)->arg)
			put_constants(&x, x.member.entries[i].value);
}
