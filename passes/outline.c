/* outline: copies nodes of a graph into a function. */
#include "passes/outline.h"

struct work {
	const struct ht_outline *o;
	struct ht_outlines *shared;
	struct ht_function *f;
	struct ht_value *arg;
	struct ht_port **args_end;
	int32_t args;
	size_t arg_cap, touched, depth;
};

void ht_outlines_init(
	struct ht_outlines *o, struct ht_graph *g, size_t ids, struct ht_arena *scratch)
{
	*o = (struct ht_outlines){ .g = g,
		.scratch = scratch,
		.copy = HT_NEW_ARRAY(scratch, struct ht_node *, ids),
		.met = HT_NEW_ARRAY(scratch, bool, ids) };
}

void ht_attr_set_types(struct ht_node *n, const char *name, const enum ht_dtype *t, int32_t count)
{
	struct ht_attr_value *v = ht_attr_set(n, name);

	v->kind = HT_ATTR_LIST;
	v->list.kind = count ? HT_ATTR_TYPE : HT_ATTR_NONE;
	v->list.n = (size_t)count;
	v->list.item = HT_NEW_ARRAY(n->graph->arena, struct ht_attr_value, (size_t)count);
	for (int32_t i = 0; i < count; i++)
		v->list.item[i] = (struct ht_attr_value){ .kind = HT_ATTR_TYPE, .type = t[i] };
}

void ht_attr_set_function(struct ht_node *n, const char *name, struct ht_str function)
{
	struct ht_func_ref *ref = HT_NEW(n->graph->arena, struct ht_func_ref);

	ref->name = function;
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_FUNC, .func = ref };
}

static void add_port(struct ht_function *f, struct ht_port ***end, struct ht_value v)
{
	struct ht_port *p = HT_NEW(f->body->arena, struct ht_port);

	p->name = v.node->name;
	p->value = v;
	**end = p;
	*end = &p->next;
}

struct ht_value ht_function_add_arg(
	struct ht_function *f, struct ht_port ***end, enum ht_dtype t, int32_t i)
{
	struct ht_graph *g = f->body;
	struct ht_str name = ht_str_printf(g->arena, "arg%d", (int)i);
	struct ht_node *n = ht_node_new(g, HT_STR("_Arg"), ht_graph_free_name(g, name));

	ht_attr_set_type(n, "T", t);
	ht_attr_set_int(n, "index", i);
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ t, HT_SHAPE_UNKNOWN };
	add_port(f, end, ht_out(n, 0));
	return ht_out(n, 0);
}

void ht_function_add_ret(struct ht_function *f, struct ht_port ***end, struct ht_value v)
{
	add_port(f, end, v);
}

static void add_arguments(struct work *w, int32_t count)
{
	for (; w->args < count; w->args++) {
		w->arg = ht_grow(
			w->shared->scratch, w->arg, (size_t)w->args, &w->arg_cap, sizeof *w->arg);
		w->arg[w->args] = ht_function_add_arg(
			w->f, &w->args_end, w->o->type(w->o->of, w->args), w->args);
	}
}

void ht_outline_fill(const struct ht_outline *o, struct ht_function *f, int32_t args)
{
	struct ht_port **end = &f->args;
	int32_t have = 0;

	for (; *end; end = &(*end)->next)
		have++;
	for (; have < args; have++)
		ht_function_add_arg(f, &end, o->type(o->of, have), have);
}

static void push(struct work *w, struct ht_node *n)
{
	struct ht_outlines *s = w->shared;

	if (s->met[n->id])
		return;
	s->stack = ht_grow(s->scratch, s->stack, w->depth, &s->stack_cap, sizeof(void *));
	s->stack[w->depth++] = n;
}

/* Pushes the nodes that `n` needs; false: it needs a value that the part cannot have. */
static bool push_needs(struct work *w, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		int32_t arg = w->o->argument(w->o->of, n->in[i]);

		if (arg < -1)
			return false;
		if (arg < 0)
			push(w, n->in[i].node);
	}
	for (int32_t i = 0; i < n->controls; i++)
		if (w->o->waits(w->o->of, n->control[i]))
			push(w, n->control[i]);
	return true;
}

static struct ht_value value_in(struct work *w, struct ht_value v)
{
	int32_t arg = w->o->argument(w->o->of, v);

	add_arguments(w, arg + 1);
	return arg >= 0 ? w->arg[arg] : ht_out(w->shared->copy[v.node->id], v.index);
}

static void copy_node(struct work *w, const struct ht_node *from)
{
	struct ht_graph *g = w->f->body;
	struct ht_node *n = ht_node_of(g, from->op, from->type, ht_graph_free_name(g, from->name));

	n->device = from->device;
	n->extra = from->extra;
	n->attrs = ht_attrs_copy(from->attrs, NULL, g->arena);
	ht_node_add_origin(n, from);
	ht_node_set_outs(n, from->outs);
	for (int32_t i = 0; i < from->outs; i++)
		n->out[i] = from->out[i];
	n->in = HT_NEW_ARRAY(g->arena, struct ht_value, (size_t)from->ins);
	n->ins = from->ins;
	for (int32_t i = 0; i < from->ins; i++)
		n->in[i] = value_in(w, from->in[i]);
	n->control = HT_NEW_ARRAY(g->arena, struct ht_node *, (size_t)from->controls);
	for (int32_t i = 0; i < from->controls; i++)
		if (w->o->waits(w->o->of, from->control[i]))
			n->control[n->controls++] = w->shared->copy[from->control[i]->id];
	w->shared->copy[from->id] = n;
}

static void meet(struct work *w, struct ht_node *n)
{
	struct ht_outlines *s = w->shared;

	s->touched = ht_grow(s->scratch, s->touched, w->touched, &s->touched_cap, sizeof(void *));
	s->touched[w->touched++] = n;
	s->met[n->id] = true;
}

/* A node stays on the stack until all nodes that it needs are copied. */
static bool copy_needed(struct work *w, struct ht_node *root)
{
	struct ht_outlines *s = w->shared;

	push(w, root);
	while (w->depth) {
		struct ht_node *n = s->stack[w->depth - 1];

		if (!s->met[n->id]) {
			meet(w, n);
			if (!push_needs(w, n))
				return false;
			continue;
		}
		if (!s->copy[n->id])
			copy_node(w, n);
		w->depth--;
	}
	return true;
}

static void forget(struct work *w)
{
	for (size_t i = 0; i < w->touched; i++) {
		w->shared->copy[w->shared->touched[i]->id] = NULL;
		w->shared->met[w->shared->touched[i]->id] = false;
	}
}

static bool add_results(struct work *w, const struct ht_value *ret, int32_t rets,
	struct ht_node *const *wait, int32_t waits)
{
	struct ht_port **end = &w->f->rets;

	for (int32_t i = 0; i < rets; i++) {
		int32_t arg = w->o->argument(w->o->of, ret[i]);

		if (arg < -1 || (arg < 0 && !copy_needed(w, ret[i].node)))
			return false;
		add_port(w->f, &end, value_in(w, ret[i]));
	}
	end = &w->f->control_rets;
	for (int32_t i = 0; i < waits; i++) {
		struct ht_value done = { .index = -1 };

		if (!w->o->waits(w->o->of, wait[i]))
			continue;
		if (!copy_needed(w, wait[i]))
			return false;
		done.node = w->shared->copy[wait[i]->id];
		add_port(w->f, &end, done);
	}
	return true;
}

struct ht_function *ht_outline(const struct ht_outline *o, struct ht_str name,
	const struct ht_value *ret, int32_t rets, struct ht_node *const *wait, int32_t waits)
{
	struct ht_graph *library = o->shared->g->library;
	struct work w = { .o = o, .shared = o->shared };
	bool good;

	w.f = ht_function_new(library, ht_graph_free_function_name(library, name));
	w.args_end = &w.f->args;
	add_arguments(&w, o->args);
	good = add_results(&w, ret, rets, wait, waits);
	forget(&w);
	return good ? w.f : NULL;
}
