/* A copy of a graph, so that passes can work while the original stays as imported.  The copy has
 * nodes of its own.  It shares strings and shapes with the original, and attributes until it changes them. */
#include "ir/ir.h"

#include <string.h>

struct copy {
	struct ht_graph *to;
	struct ht_node **node; /* by id in the original */
	const struct ht_attr
		*with; /* for a function that is copied for one caller: the values of "$T" */
	bool for_caller;
	bool no_entries;
};

static struct ht_tensor *copy_tensor(const struct ht_tensor *t, struct ht_arena *a)
{
	struct ht_tensor *c = ht_tensor_new(a, t->dtype, t->shape, NULL);

	*c = *t;
	c->blob = t->blob ? ht_blob_ref(t->blob) : NULL;
	return c;
}

static struct ht_attr *copy_attrs(const struct ht_attr *from, struct ht_arena *a)
{
	struct ht_attr *first = NULL, **end = &first;

	for (; from; from = from->next) {
		struct ht_attr *n = HT_NEW(a, struct ht_attr);
		*n = *from;
		n->next = NULL;
		if (n->value.kind == HT_ATTR_TENSOR && n->value.tensor)
			n->value.tensor = copy_tensor(n->value.tensor, a);
		*end = n;
		end = &n->next;
	}
	return first;
}

/* ---- values of "$T" ---- */

static const struct ht_attr *named(const struct ht_attr *attrs, struct ht_str name)
{
	while (attrs && !ht_str_eq(attrs->name, name))
		attrs = attrs->next;
	return attrs;
}

static void substitute(struct ht_attr_value *v, const struct ht_attr *with, struct ht_arena *a)
{
	const struct ht_attr *value;

	if (v->kind == HT_ATTR_PLACEHOLDER) {
		value = named(with, v->s);
		if (value)
			*v = value->value;
	}
	if (v->kind == HT_ATTR_TENSOR) {
		v->tensor = copy_tensor(v->tensor, a);
	} else if (v->kind == HT_ATTR_FUNC) {
		struct ht_func_ref *f = HT_NEW(a, struct ht_func_ref);

		*f = *v->func;
		f->attrs = ht_attrs_copy(v->func->attrs, with, a);
		v->func = f;
	} else if (v->kind == HT_ATTR_LIST && v->list.n) {
		struct ht_attr_value *item = HT_NEW_ARRAY(a, struct ht_attr_value, v->list.n);

		for (size_t i = 0; i < v->list.n; i++) {
			item[i] = v->list.item[i];
			substitute(&item[i], with, a);
		}
		v->list.item = item;
	}
}

struct ht_attr *ht_attrs_copy(
	const struct ht_attr *from, const struct ht_attr *with, struct ht_arena *a)
{
	struct ht_attr *first = NULL, **end = &first;

	for (; from; from = from->next) {
		struct ht_attr *n = HT_NEW(a, struct ht_attr);

		*n = *from;
		n->next = NULL;
		substitute(&n->value, with, a);
		*end = n;
		end = &n->next;
	}
	return first;
}

static struct ht_value copy_value(const struct copy *c, struct ht_value v)
{
	if (v.node)
		v.node = c->node[v.node->id];
	return v;
}

static void copy_edges(const struct copy *c, const struct ht_node *from)
{
	struct ht_arena *a = c->to->arena;
	struct ht_node *n = c->node[from->id];

	n->in = from->ins ? HT_NEW_ARRAY(a, struct ht_value, (size_t)from->ins) : NULL;
	n->ins = from->ins;
	for (int32_t i = 0; i < from->ins; i++)
		n->in[i] = copy_value(c, from->in[i]);
	n->control =
		from->controls ? HT_NEW_ARRAY(a, struct ht_node *, (size_t)from->controls) : NULL;
	n->controls = from->controls;
	for (int32_t i = 0; i < from->controls; i++)
		n->control[i] = c->node[from->control[i]->id];
}

/* Whether an attribute has bytes of a mapped file.  Such attributes are not shared: a node that
 * drops its own reference to the bytes gives their pages back to the system. */
static bool has_bytes_of_file(const struct ht_attr *a)
{
	for (; a; a = a->next)
		if (a->value.kind == HT_ATTR_TENSOR && a->value.tensor->blob &&
			ht_blob_in_file(a->value.tensor->blob))
			return true;
	return false;
}

static void copy_node(struct copy *c, const struct ht_node *from)
{
	struct ht_node *n = ht_node_of(c->to, from->op, from->type, from->name);

	n->device = from->device;
	n->shares_attrs = !c->for_caller && !has_bytes_of_file(from->attrs);
	n->attrs =
		n->shares_attrs ? from->attrs : ht_attrs_copy(from->attrs, c->with, c->to->arena);
	n->extra = from->extra;
	n->origin = from->origin;
	n->origins = from->origins;
	ht_node_set_outs(n, from->outs);
	for (int32_t i = 0; i < from->outs; i++)
		n->out[i] = from->out[i];
	c->node[from->id] = n;
}

static struct ht_port *copy_ports(const struct copy *c, const struct ht_port *from)
{
	struct ht_port *first = NULL, **end = &first;

	for (; from; from = from->next) {
		struct ht_port *p = HT_NEW(c->to->arena, struct ht_port);
		p->name = from->name;
		p->alias = from->alias;
		p->axis = from->axis;
		p->steady = from->steady;
		p->strings = from->strings;
		p->value = copy_value(c, from->value);
		*end = p;
		end = &p->next;
	}
	return first;
}

static void copy_entries(const struct copy *c, const struct ht_graph *from)
{
	struct ht_entry **end = &c->to->entries;

	for (const struct ht_entry *e = from->entries; e; e = e->next) {
		struct ht_entry *n = HT_NEW(c->to->arena, struct ht_entry);
		n->name = e->name;
		n->method = e->method;
		n->inputs = copy_ports(c, e->inputs);
		n->outputs = copy_ports(c, e->outputs);
		n->targets = copy_ports(c, e->targets);
		*end = n;
		end = &n->next;
	}
}

/* Copies everything except the function library. */
static void copy_graph(const struct ht_graph *from, struct copy c)
{
	struct ht_graph *to = c.to;

	c.node = HT_NEW_ARRAY(to->arena, struct ht_node *, from->ids);
	ht_map_reserve(&to->names, from->nodes);
	to->source = from->source;
	to->path = from->path;
	to->versions = from->versions;
	to->extra = from->extra;
	to->container = from->container;
	to->checkpoint = from->checkpoint;
	to->named_files = from->named_files;
	if (from->sym_count) {
		to->syms = HT_NEW_ARRAY(to->arena, struct ht_sym, from->sym_count);
		memcpy(to->syms, from->syms, from->sym_count * sizeof *to->syms);
	}
	to->sym_count = to->sym_cap = from->sym_count;
	for (int32_t i = 0; i < from->sizes; i++)
		ht_graph_add_size(to, from->size[i]);
	to->closed = from->closed;
	to->strings = from->strings;
	for (const struct ht_node *n = from->first; n; n = n->next)
		copy_node(&c, n);
	for (const struct ht_node *n = from->first; n; n = n->next)
		copy_edges(&c, n);
	if (!c.no_entries)
		copy_entries(&c, from);
	if (from->function) {
		struct ht_function *f = to->function;
		f->args = copy_ports(&c, from->function->args);
		f->rets = copy_ports(&c, from->function->rets);
		f->control_rets = copy_ports(&c, from->function->control_rets);
	}
}

struct ht_function *ht_function_copy(struct ht_graph *g, const struct ht_function *f,
	struct ht_str name, const struct ht_attr *attrs)
{
	struct ht_function *n = ht_function_new(g, name);

	n->attrs = copy_attrs(f->attrs, g->arena);
	n->extra = f->extra;
	copy_graph(f->body, (struct copy){ .to = n->body, .with = attrs, .for_caller = true });
	return n;
}

static void copy_function(const struct ht_function *f, struct ht_graph *to)
{
	struct ht_function *n = ht_function_new(to, f->name);

	n->attrs = copy_attrs(f->attrs, to->arena);
	n->signature = f->signature;
	n->extra = f->extra;
	n->special = f->special;
	n->recursion = f->recursion;
	n->result = f->result;
	n->recurs = f->recurs;
	copy_graph(f->body, (struct copy){ .to = n->body });
}

struct ht_graph *ht_graph_clone(const struct ht_graph *g, struct ht_arena *a)
{
	struct ht_graph *to = ht_graph_new(a);

	copy_graph(g, (struct copy){ .to = to });
	ht_map_reserve(&to->function_names, g->function_names.count);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		copy_function(f, to);
	return to;
}

struct ht_graph *ht_graph_clone_sharing(const struct ht_graph *g, struct ht_arena *a)
{
	struct ht_graph *to = ht_graph_new(a);
	struct ht_arena *scratch = ht_arena_within(a);
	struct ht_map called;

	copy_graph(g, (struct copy){ .to = to, .no_entries = true });
	ht_called_functions(g, scratch, &called);
	ht_map_reserve(&to->function_names, called.count);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (ht_map_get(&called, f->name))
			ht_function_share(to, f);
	ht_arena_release(scratch);
	return to;
}

static void own(struct ht_graph *g, struct ht_function *f)
{
	const struct ht_graph *shared = f->body;

	f->shared = false;
	f->attrs = copy_attrs(f->attrs, g->arena);
	ht_function_set_body(g, f);
	copy_graph(shared, (struct copy){ .to = f->body });
}

static bool shares(const struct ht_graph *g)
{
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (f->shared)
			return true;
	return false;
}

void ht_functions_own(struct ht_graph *g)
{
	struct ht_arena *scratch;

	if (!shares(g))
		return;
	scratch = ht_arena_within(g->arena);
	ht_drop_uncalled(g, scratch);
	ht_arena_release(scratch);
	for (struct ht_function *f = g->functions; f; f = f->next)
		if (f->shared)
			own(g, f);
}
