/* Entries in which tensors are fed instead of being computed: nodes that only those tensors need
 * are dropped. */
#include "frontend/frontend.h"
#include "frontend/graphdef.h"

struct feed {
	struct ht_graph *g;
	struct ht_port *fed;  /* the fed tensors, by name */
	bool *has_fed, *seen; /* by node id: a result is fed; the node is computed */
	bool *used;           /* by number in `fed` */
	struct ht_node **stack;
	size_t count;
};

struct ht_port *ht_port_named(struct ht_port *first, struct ht_str name)
{
	struct ht_str tensor = name;

	if (ht_str_ends(name, ":0"))
		tensor.n -= 2;
	for (struct ht_port *p = first; p; p = p->next)
		if (ht_str_eq(p->name, name) || ht_str_eq(p->name, tensor))
			return p;
	for (struct ht_port *p = first; p; p = p->next)
		if (p->alias.n && ht_str_eq(p->alias, name))
			return p;
	return NULL;
}

/* ---- what is needed ---- */

static void need(struct feed *f, struct ht_node *n)
{
	if (f->seen[n->id])
		return;
	f->seen[n->id] = true;
	f->stack[f->count++] = n;
}

static bool take_fed(struct feed *f, struct ht_value v)
{
	size_t i = 0;

	if (!f->has_fed[v.node->id])
		return false;
	for (const struct ht_port *p = f->fed; p; p = p->next, i++)
		if (ht_value_eq(p->value, v)) {
			f->used[i] = true;
			return true;
		}
	return false;
}

static void need_value(struct feed *f, struct ht_value v)
{
	if (!take_fed(f, v))
		need(f, v.node);
}

static void need_ports(struct feed *f, const struct ht_port *p)
{
	for (; p; p = p->next)
		need_value(f, p->value);
}

/* A node whose only result is fed becomes a placeholder, so control edges from it need nothing
 * else. */
static void need_control(struct feed *f, struct ht_node *n)
{
	if (n->outs != 1 || !f->has_fed[n->id])
		need(f, n);
}

static void walk(struct feed *f, const struct ht_entry *e)
{
	need_ports(f, e->outputs);
	need_ports(f, e->targets);
	while (f->count) {
		struct ht_node *n = f->stack[--f->count];

		for (int32_t i = 0; i < n->ins; i++)
			need_value(f, n->in[i]);
		for (int32_t i = 0; i < n->controls; i++)
			need_control(f, n->control[i]);
	}
}

/* ---- names ---- */

static enum ht_status refuse(
	struct feed *f, struct ht_diags *d, struct ht_str name, const char *what)
{
	struct ht_where at = HT_NOWHERE;

	at.path = f->g->path;
	return ht_error(d, HT_E_USAGE, at, "'%.*s' %s", HT_STR_ARG(name), what);
}

static enum ht_status no_such_tensor(
	struct feed *f, const struct ht_entry *like, struct ht_str name, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;
	struct ht_str *words, near[3];
	size_t n = 0;
	int found;

	for (const struct ht_port *p = like->inputs; p; p = p->next)
		n += 2;
	words = HT_NEW_ARRAY(f->g->arena, struct ht_str, f->g->nodes + n);
	n = 0;
	for (const struct ht_port *p = like->inputs; p; p = p->next) {
		words[n++] = p->name;
		if (p->alias.n)
			words[n++] = p->alias;
	}
	for (const struct ht_node *x = f->g->first; x; x = x->next)
		words[n++] = x->name;
	found = ht_near_names(name, words, n, near);
	at.path = f->g->path;
	if (found)
		return ht_error(d, HT_E_USAGE, at,
			"the model has no input '%.*s'; did you mean '%.*s'?", HT_STR_ARG(name),
			HT_STR_ARG(near[0]));
	if (!like->inputs)
		return refuse(f, d, name, "is neither an input nor another tensor of the model");
	return ht_error(d, HT_E_USAGE, at,
		"the model has no input '%.*s' and no tensor of that name; its first input is '%.*s'",
		HT_STR_ARG(name), HT_STR_ARG(like->inputs->name));
}

static struct ht_port *copy_port(struct ht_graph *g, const struct ht_port *from)
{
	struct ht_port *p = HT_NEW(g->arena, struct ht_port);

	*p = *from;
	p->next = NULL;
	return p;
}

/* The port that `name` denotes: an existing input, or else any tensor. */
static enum ht_status find(struct feed *f, const struct ht_entry *like, struct ht_str name,
	struct ht_diags *d, struct ht_port **out)
{
	const struct ht_port *known = ht_port_named(like->inputs, name);
	const struct ht_node *n = ht_graph_node(f->g, name);

	if (known) {
		*out = copy_port(f->g, known);
		return HT_OK;
	}
	*out = HT_NEW(f->g->arena, struct ht_port);
	if (n && !n->outs && !ht_node_result_count(n))
		return refuse(f, d, name, "has no result that could be fed");
	if (!ht_entry_value(f->g, name, &(*out)->value))
		return no_such_tensor(f, like, name, d);
	if (ht_str_ends(name, ":0"))
		name.n -= 2;
	(*out)->name = ht_str_copy(f->g->arena, name);
	return HT_OK;
}

static enum ht_status find_all(struct feed *f, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d)
{
	struct ht_port **end = &f->fed;

	for (size_t i = 0; i < count; i++) {
		struct ht_port *p;

		HT_TRY(find(f, like, names[i], d, &p));
		for (const struct ht_port *q = f->fed; q; q = q->next)
			if (ht_value_eq(q->value, p->value))
				return refuse(f, d, names[i], "is to be fed twice");
		*end = p;
		end = &p->next;
	}
	return HT_OK;
}

/* Puts the inputs that are still needed, in their order, and then the other fed tensors. */
static void put_inputs(const struct feed *f, const struct ht_entry *like, struct ht_entry *e)
{
	struct ht_port **end = &e->inputs;
	const struct ht_port *named;

	for (const struct ht_port *p = like->inputs; p; p = p->next) {
		named = f->fed;
		while (named && !ht_value_eq(named->value, p->value))
			named = named->next;
		if (!named && !f->seen[p->value.node->id])
			continue;
		*end = copy_port(f->g, p);
		end = &(*end)->next;
	}
	for (const struct ht_port *p = f->fed; p; p = p->next) {
		if (ht_port_named(e->inputs, p->name))
			continue;
		*end = copy_port(f->g, p);
		end = &(*end)->next;
	}
}

enum ht_status ht_entry_for_inputs(struct ht_graph *g, const struct ht_entry *like,
	const struct ht_str *names, size_t count, struct ht_diags *d, struct ht_entry **out)
{
	struct feed f = { .g = g };
	struct ht_entry *e = HT_NEW(g->arena, struct ht_entry);
	size_t i = 0;

	HT_TRY(find_all(&f, like, names, count, d));
	f.has_fed = HT_NEW_ARRAY(g->arena, bool, g->ids);
	f.seen = HT_NEW_ARRAY(g->arena, bool, g->ids);
	f.used = HT_NEW_ARRAY(g->arena, bool, count);
	f.stack = HT_NEW_ARRAY(g->arena, struct ht_node *, g->nodes);
	for (const struct ht_port *p = f.fed; p; p = p->next)
		f.has_fed[p->value.node->id] = true;
	walk(&f, like);
	for (struct ht_port **p = &f.fed; *p; i++) {
		if (f.used[i] || ht_port_named(like->inputs, (*p)->name)) {
			p = &(*p)->next;
			continue;
		}
		ht_warn(d, (struct ht_where){ .path = g->path, .offset = -1 },
			"'%.*s' is fed, but no output needs it", HT_STR_ARG((*p)->name));
		*p = (*p)->next;
	}
	*e = *like;
	e->next = NULL;
	e->inputs = NULL;
	put_inputs(&f, like, e);
	*out = e;
	return HT_OK;
}
