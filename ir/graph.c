/* Graphs and nodes: creation, removal, edges, names, replacement of values. */
#include "ir/ir.h"

#include <string.h>

struct ht_graph *ht_graph_new(struct ht_arena *a)
{
	struct ht_graph *g = HT_NEW(a, struct ht_graph);

	g->arena = a;
	g->library = g;
	ht_map_init(&g->names, a);
	ht_map_init(&g->function_names, a);
	return g;
}

static void link_function(struct ht_graph *g, struct ht_function *f)
{
	struct ht_map_entry *e = ht_map_at(&g->function_names, f->name);

	HT_CHECK(!e->value);
	e->value = f;
	if (g->last_function)
		g->last_function->next = f;
	else
		g->functions = f;
	g->last_function = f;
}

void ht_function_set_body(struct ht_graph *g, struct ht_function *f)
{
	f->body = ht_graph_new(g->arena);
	f->body->function = f;
	f->body->library = g;
}

struct ht_function *ht_function_new(struct ht_graph *g, struct ht_str name)
{
	struct ht_function *f = HT_NEW(g->arena, struct ht_function);

	f->name = ht_str_copy(g->arena, name);
	ht_function_set_body(g, f);
	link_function(g, f);
	return f;
}

struct ht_function *ht_function_share(struct ht_graph *g, const struct ht_function *f)
{
	struct ht_function *n = HT_NEW(g->arena, struct ht_function);

	*n = *f;
	n->shared = true;
	n->next = NULL;
	link_function(g, n);
	return n;
}

static void link_before(struct ht_graph *g, struct ht_node *n, struct ht_node *before)
{
	n->next = before;
	n->prev = before ? before->prev : g->last;
	if (n->prev)
		n->prev->next = n;
	else
		g->first = n;
	if (before)
		before->prev = n;
	else
		g->last = n;
}

static void unlink_node(struct ht_graph *g, struct ht_node *n)
{
	if (n->prev)
		n->prev->next = n->next;
	else
		g->first = n->next;
	if (n->next)
		n->next->prev = n->prev;
	else
		g->last = n->prev;
	n->prev = n->next = NULL;
}

struct ht_node *ht_node_of(
	struct ht_graph *g, enum ht_op op, struct ht_str type, struct ht_str name)
{
	struct ht_node *n = HT_NEW(g->arena, struct ht_node);
	struct ht_map_entry *e;

	HT_CHECK(g->ids < UINT32_MAX);
	n->id = g->ids++;
	n->op = op;
	n->type = type;
	n->name = name;
	n->graph = g;
	e = ht_map_at(&g->names, n->name);
	HT_CHECK(!e->value);
	e->value = n;
	link_before(g, n, NULL);
	g->nodes++;
	return n;
}

static struct ht_str type_of(struct ht_graph *g, enum ht_op op, struct ht_str type)
{
	return op == HT_OP_OPAQUE ? ht_str_copy(g->arena, type) : ht_op_info(op)->name;
}

struct ht_node *ht_node_new(struct ht_graph *g, struct ht_str type, struct ht_str name)
{
	enum ht_op op = ht_op_named(type);

	return ht_node_of(g, op, type_of(g, op, type), ht_str_copy(g->arena, name));
}

void ht_node_set_type(struct ht_node *n, struct ht_str type)
{
	n->op = ht_op_named(type);
	n->type = type_of(n->graph, n->op, type);
}

void ht_node_rename(struct ht_node *n, struct ht_str name)
{
	struct ht_graph *g = n->graph;
	struct ht_map_entry *e;

	if (ht_str_eq(n->name, name))
		return;
	ht_map_at(&g->names, n->name)->value = NULL;
	n->name = ht_str_copy(g->arena, name);
	e = ht_map_at(&g->names, n->name);
	HT_CHECK(!e->value);
	e->value = n;
}

void ht_node_move(struct ht_node *n, struct ht_node *before)
{
	if (n == before)
		return;
	unlink_node(n->graph, n);
	link_before(n->graph, n, before);
}

void ht_node_remove(struct ht_node *n)
{
	struct ht_graph *g = n->graph;

	unlink_node(g, n);
	ht_map_at(&g->names, n->name)->value = NULL;
	g->nodes--;
}

void ht_node_set_ins(struct ht_node *n, const struct ht_value *in, int32_t ins)
{
	struct ht_value *copy = HT_NEW_ARRAY(n->graph->arena, struct ht_value, (size_t)ins);

	if (ins)
		memcpy(copy, in, (size_t)ins * sizeof *copy);
	n->in = copy;
	n->ins = ins;
}

void ht_node_set_controls(struct ht_node *n, struct ht_node *const *c, int32_t count)
{
	struct ht_node **copy = HT_NEW_ARRAY(n->graph->arena, struct ht_node *, (size_t)count);

	if (count)
		memcpy(copy, c, (size_t)count * sizeof *copy);
	n->control = copy;
	n->controls = count;
}

void ht_node_set_outs(struct ht_node *n, int32_t outs)
{
	struct ht_type *out;

	if (outs > n->outs && outs > n->out_cap) {
		/* A node that grows one result at a time gets room for twice as many; the first
		 * call allocates exactly its number. */
		n->out_cap = n->outs && outs < n->outs * 2 ? n->outs * 2 : outs;
		out = HT_NEW_ARRAY(n->graph->arena, struct ht_type, (size_t)n->out_cap);
		if (n->outs)
			memcpy(out, n->out, (size_t)n->outs * sizeof *out);
		n->out = out;
	}
	for (int32_t i = n->outs; i < outs; i++)
		n->out[i] = (struct ht_type){ .shape = HT_SHAPE_UNKNOWN };
	n->outs = outs;
}

/* The named things of one name space: the nodes of a graph or the functions of a library. */
struct names {
	const struct ht_map *of;
	struct ht_arena *arena;
};

static struct ht_str numbered(const struct names *x, struct ht_str base, unsigned i, bool *taken)
{
	struct ht_str name = ht_str_printf(x->arena, "%.*s_%u", HT_STR_ARG(base), i);

	*taken = ht_map_get(x->of, name) != NULL;
	return name;
}

/* If very many names have one base, their numbers are dense, so a binary search finds the first
 * free number.  If they are not dense, it finds some free number, which is also good. */
static struct ht_str free_name(const struct names *x, struct ht_str base)
{
	struct ht_str name = base, middle;
	unsigned used = 0, free = 1;
	bool taken = true;

	if (!ht_map_get(x->of, base))
		return base;
	for (; taken; free = free < 16 ? free + 1 : free * 2) {
		name = numbered(x, base, free, &taken);
		if (!taken)
			break;
		used = free;
	}
	while (free - used > 1) {
		middle = numbered(x, base, used + (free - used) / 2, &taken);
		if (taken) {
			used += (free - used) / 2;
		} else {
			free = used + (free - used) / 2;
			name = middle;
		}
	}
	return name;
}

struct ht_str ht_graph_free_name(struct ht_graph *g, struct ht_str base)
{
	return free_name(&(struct names){ &g->names, g->arena }, base);
}

struct ht_str ht_graph_free_function_name(struct ht_graph *library, struct ht_str base)
{
	return free_name(&(struct names){ &library->function_names, library->arena }, base);
}

struct ht_node *ht_graph_node(const struct ht_graph *g, struct ht_str name)
{
	return ht_map_get(&g->names, name);
}

struct ht_function *ht_graph_function(const struct ht_graph *g, struct ht_str name)
{
	return ht_map_get(&g->function_names, name);
}

static void replace_in_ports(struct ht_port *p, struct ht_value from, struct ht_value to)
{
	for (; p; p = p->next)
		if (ht_value_eq(p->value, from))
			p->value = to;
}

void ht_replace_uses(struct ht_graph *g, struct ht_value from, struct ht_value to)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins; i++)
			if (ht_value_eq(n->in[i], from))
				n->in[i] = to;
	for (struct ht_entry *e = g->entries; e; e = e->next)
		replace_in_ports(e->outputs, from, to);
	if (g->function)
		replace_in_ports(g->function->rets, from, to);
}

/* ---- origins ---- */

enum { FEW_ORIGINS = 16 };

/* A growing list of origins, and a set of the same names for lookups.  It belongs to a node only
 * while the node has this very list; nodes that share the list see the part up to their own
 * length. */
struct ht_origin_set {
	struct ht_str *list;
	size_t cap;
	struct ht_map names;
};

static bool has_origin(const struct ht_node *n, struct ht_str name)
{
	for (int32_t i = 0; i < n->origins; i++)
		if (ht_str_eq(n->origin[i], name))
			return true;
	return false;
}

static void add_few_origins(struct ht_node *n, const struct ht_str *add, int32_t more)
{
	int32_t count = n->origins;
	struct ht_str *all =
		HT_NEW_ARRAY(n->graph->arena, struct ht_str, (size_t)count + (size_t)more);

	if (count)
		memcpy(all, n->origin, (size_t)count * sizeof *all);
	for (int32_t i = 0; i < more; i++)
		if (!has_origin(n, add[i]))
			all[count++] = add[i];
	n->origin = all;
	n->origins = count;
}

static struct ht_origin_set *own_set(const struct ht_node *n)
{
	struct ht_origin_set *s = n->origin_set;

	return s && s->list == n->origin && s->names.count == (size_t)n->origins ? s : NULL;
}

static void add_to_set(
	struct ht_arena *a, struct ht_origin_set *s, const struct ht_str *add, int32_t more)
{
	for (int32_t i = 0; i < more; i++) {
		struct ht_map_entry *e = ht_map_at(&s->names, add[i]);

		if (e->value)
			continue;
		e->value = s;
		s->list = ht_grow(a, s->list, s->names.count - 1, &s->cap, sizeof *s->list);
		s->list[s->names.count - 1] = add[i];
	}
}

/* Adds the shorter list to the longer one, whichever node has it. */
static void add_many_origins(
	struct ht_node *n, const struct ht_node *from, const struct ht_str *add, int32_t more)
{
	struct ht_arena *a = n->graph->arena;
	struct ht_origin_set *s = own_set(n), *other = own_set(from);

	if (other && n->graph == from->graph && more > n->origins) {
		s = other;
		add = n->origin;
		more = n->origins;
	} else if (!s) {
		s = HT_NEW(a, struct ht_origin_set);
		ht_map_init(&s->names, a);
		add_to_set(a, s, n->origin, n->origins);
	}
	add_to_set(a, s, add, more);
	n->origin_set = s;
	n->origin = s->list;
	n->origins = (int32_t)s->names.count;
}

void ht_node_add_origin(struct ht_node *n, const struct ht_node *from)
{
	int32_t more = from->origin ? from->origins : 1;
	const struct ht_str *add = from->origin ? from->origin : &from->name;

	if (n == from)
		return;
	if (!n->origins && more > FEW_ORIGINS) {
		n->origin = add;
		n->origins = more;
	} else if ((size_t)n->origins + (size_t)more > FEW_ORIGINS) {
		add_many_origins(n, from, add, more);
	} else {
		add_few_origins(n, add, more);
	}
}
