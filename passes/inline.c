/* inline: calls of functions become the nodes of their bodies.
 *
 * PartitionedCall, StatefulPartitionedCall and nodes whose type is a function's name are calls.
 * Node `n` of the body becomes `call/n`; "$T" in its attributes is replaced by the call's value.
 * Calls in bodies are inlined as well; a graph that would grow too much is refused.  Calls of
 * recursive functions stay; those that are nodes of the function's type become PartitionedCall.
 *
 * Effects keep their order: nodes of the body with effects wait for what the call waited for,
 * and nodes that waited for the call wait for the body's control results.  If a body has effects
 * whose results nobody reads, the call's results wait for them, so that asking for a result runs
 * them.
 *
 * First all bodies are copied, with edges to calls left unchanged; then every edge to a call is
 * moved to the node that computes that result.  So the time is linear in the result.  Functions
 * that a loop or branch names stay, with unchanged bodies. */
#include "passes/recursion.h"

#include <inttypes.h>

#define GROWTH 10 /* limit, as a multiple of the nodes of the graph and its library */
#define GROWTH_BASE 100000
#define MAX_DEPTH 1000 /* of nested calls: names grow with each level */

/* A call that was inlined. */
struct call {
	const struct ht_function *f;
	struct ht_value *ret;
	int32_t rets;
	struct ht_node **control; /* the nodes to wait for instead */
	int32_t controls;
};

struct note {
	int32_t depth; /* how many nested calls it was copied from */
	struct call *call;
	struct ht_str port; /* of an opaque node: the one name by which its results are used */
};

struct inliner {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_diags *diags;
	struct note *note; /* by node id */
	size_t cap, made, limit;
	/* For the body being copied, by node id. */
	struct ht_value *arg;  /* the operand, where it is an argument */
	struct ht_node **node; /* the copy, or NULL */
	size_t ids;            /* room in both */
};

static struct note *note_of(struct inliner *in, const struct ht_node *n)
{
	while (n->id >= in->cap) {
		size_t old = in->cap;

		in->note = ht_grow(in->scratch, in->note, old, &in->cap, sizeof *in->note);
		HT_CHECK(in->cap > old);
	}
	return &in->note[n->id];
}

static enum ht_status fail(const struct inliner *in, enum ht_status st, const struct ht_node *n,
	const char *fmt, ...) HT_PRINTF(4, 5);
static enum ht_status fail(
	const struct inliner *in, enum ht_status st, const struct ht_node *n, const char *fmt, ...)
{
	struct ht_where at = HT_NOWHERE;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	at.path = in->g->path;
	at.node = n->name;
	at.op = n->type;
	return ht_error(in->diags, st, at, "%s", text);
}

/* The function that `n` calls, and the node that has the values of "$T" in its body; NULL: `n`
 * is not a call. */
static struct ht_function *called(
	const struct ht_graph *library, const struct ht_node *n, const struct ht_attr **attrs)
{
	const struct ht_attr *f;

	if (ht_is(n, HT_CALLS_ONE)) {
		f = ht_attr_find(n, "f");
		if (!f || f->value.kind != HT_ATTR_FUNC)
			return NULL;
		*attrs = f->value.func->attrs;
		return ht_graph_function(library, f->value.func->name);
	}
	*attrs = n->attrs;
	return n->op == HT_OP_OPAQUE ? ht_graph_function(library, n->type) : NULL;
}

/* Likewise, if the call is to be inlined. */
static struct ht_function *callee(
	const struct inliner *in, const struct ht_node *n, const struct ht_attr **attrs)
{
	struct ht_function *f = called(in->g->library, n, attrs);

	return f && !f->result && !ht_recurs(in->g->library, f, in->scratch) ? f : NULL;
}

/* ---- one call ---- */

/* A body being copied. */
struct copying {
	struct inliner *in;
	struct ht_node *call;
	const struct ht_function *f;
	const struct ht_attr *attrs;
	int32_t depth;        /* of its nodes */
	struct ht_value *arg; /* the inliner's */
	struct ht_node **node;
};

static struct ht_value map_value(const struct copying *c, struct ht_value v)
{
	if (c->node[v.node->id]) {
		v.node = c->node[v.node->id];
		return v;
	}
	return c->arg[v.node->id];
}

static struct ht_node *map_node(const struct copying *c, const struct ht_node *n)
{
	return c->node[n->id] ? c->node[n->id] : c->arg[n->id].node;
}

static enum ht_status copy_node(struct copying *c, const struct ht_node *from)
{
	struct inliner *in = c->in;
	struct ht_node *n;

	if (in->made++ >= in->limit)
		return fail(
			in, HT_E_LIMIT, c->call, "inlining makes more than %zu nodes", in->limit);
	n = ht_node_new(in->g, from->type,
		ht_graph_free_name(
			in->g, ht_str_printf(in->scratch, "%.*s/%.*s", HT_STR_ARG(c->call->name),
				       HT_STR_ARG(from->name))));
	n->device = from->device.n ? from->device : c->call->device;
	n->extra = from->extra;
	n->attrs = ht_attrs_copy(from->attrs, c->attrs, in->g->arena);
	ht_node_set_outs(n, from->outs);
	for (int32_t i = 0; i < from->outs; i++)
		n->out[i] = from->out[i];
	c->node[from->id] = n;
	note_of(in, n)->depth = c->depth;
	return HT_OK;
}

/* "loc:@n" in _class means: place it with `n`. Refers to the copy of n, or to the operand passed
 * for it. */
static void move_colocations(struct copying *c, struct ht_node *n)
{
	struct ht_attr *a = ht_attr_own(n, "_class");
	struct ht_arena *arena = c->in->g->arena;
	const struct ht_node *target;
	size_t kept = 0;

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_STRING)
		return;
	for (size_t i = 0; i < a->value.list.n; i++) {
		struct ht_str s = a->value.list.item[i].s;

		if (ht_str_starts(s, "loc:@")) {
			target = ht_graph_node(c->f->body, (struct ht_str){ s.p + 5, s.n - 5 });
			if (!target)
				continue;
			s = ht_str_printf(
				arena, "loc:@%.*s", HT_STR_ARG(map_node(c, target)->name));
		}
		a->value.list.item[kept++].s = s;
	}
	a->value.list.n = kept;
	if (!kept)
		ht_attr_remove(n, "_class");
}

static void copy_edges(struct copying *c, const struct ht_node *from)
{
	struct ht_node *n = c->node[from->id];
	struct ht_arena *a = c->in->g->arena;
	int32_t waits = ht_op_info(from->op)->effects ? c->call->controls : 0;

	n->ins = from->ins;
	n->in = HT_NEW_ARRAY(a, struct ht_value, (size_t)from->ins);
	for (int32_t i = 0; i < from->ins; i++)
		n->in[i] = map_value(c, from->in[i]);
	n->control = HT_NEW_ARRAY(a, struct ht_node *, (size_t)from->controls + (size_t)waits);
	for (int32_t i = 0; i < from->controls; i++)
		n->control[n->controls++] = map_node(c, from->control[i]);
	for (int32_t i = 0; i < waits; i++)
		n->control[n->controls++] = c->call->control[i];
}

static bool has_effects(const struct ht_function *f)
{
	for (const struct ht_node *n = f->body->first; n; n = n->next)
		if (ht_op_info(n->op)->effects & (HT_WRITES | HT_ORDERED | HT_CALLS))
			return true;
	return false;
}

static int32_t count_ports(const struct ht_port *p)
{
	int32_t n = 0;

	for (; p; p = p->next)
		n++;
	return n;
}

/* An Identity in front of a result, which waits for the body's control results. */
static struct ht_value behind_effects(
	struct copying *c, const struct ht_port *ret, struct ht_value v, const struct call *call)
{
	struct inliner *in = c->in;
	enum ht_dtype t = v.index < v.node->outs && !v.port.n ? ht_type_of(v)->dtype : HT_INVALID;
	struct ht_node *n = ht_node_new(in->g, HT_STR("Identity"),
		ht_graph_free_name(
			in->g, ht_str_printf(in->scratch, "%.*s/%.*s", HT_STR_ARG(c->call->name),
				       HT_STR_ARG(ret->name))));

	in->made++;
	n->device = c->call->device;
	ht_node_set_ins(n, &v, 1);
	ht_node_set_controls(n, call->control, call->controls);
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ t, HT_SHAPE_UNKNOWN };
	if (t)
		ht_attr_set_type(n, "T", t);
	note_of(in, n)->depth = c->depth;
	return ht_out(n, 0);
}

/* The types of results that the call itself states. */
static enum ht_dtype result_type(const struct ht_node *call, int32_t i)
{
	const struct ht_attr *t = ht_attr_find(call, "Tout");

	if (t && t->value.kind == HT_ATTR_LIST && t->value.list.kind == HT_ATTR_TYPE &&
		(size_t)i < t->value.list.n)
		return t->value.list.item[i].type;
	return i < call->outs ? call->out[i].dtype : HT_INVALID;
}

static void set_results(struct copying *c)
{
	struct inliner *in = c->in;
	struct call *call = HT_NEW(in->scratch, struct call);
	bool waits = c->f->control_rets && has_effects(c->f);
	int32_t i = 0;

	call->f = c->f;
	call->rets = count_ports(c->f->rets);
	call->ret = HT_NEW_ARRAY(in->scratch, struct ht_value, (size_t)call->rets);
	call->control = HT_NEW_ARRAY(in->scratch, struct ht_node *,
		(size_t)(count_ports(c->f->control_rets) + call->rets + c->call->controls));
	for (const struct ht_port *p = c->f->control_rets; p; p = p->next)
		call->control[call->controls++] = map_node(c, p->value.node);
	for (const struct ht_port *p = c->f->rets; p; p = p->next, i++) {
		call->ret[i] = map_value(c, p->value);
		if (waits) {
			call->ret[i] = behind_effects(c, p, call->ret[i], call);
			if (!ht_type_of(call->ret[i])->dtype && result_type(c->call, i)) {
				ht_type_of(call->ret[i])->dtype = result_type(c->call, i);
				ht_attr_set_type(call->ret[i].node, "T", result_type(c->call, i));
			}
		}
	}
	if (!call->controls)
		for (i = 0; i < call->rets; i++)
			call->control[call->controls++] = call->ret[i].node;
	if (!call->controls)
		for (i = 0; i < c->call->controls; i++)
			call->control[call->controls++] = c->call->control[i];
	note_of(in, c->call)->call = call;
}

/* Makes empty arrays for a body; a larger body needs new ones. */
static void make_room(struct inliner *in, size_t ids)
{
	if (ids > in->ids) {
		in->ids = ids;
		in->node = HT_NEW_ARRAY(in->scratch, struct ht_node *, ids);
		in->arg = HT_NEW_ARRAY(in->scratch, struct ht_value, ids);
		return;
	}
	for (size_t i = 0; i < ids; i++) {
		in->node[i] = NULL;
		in->arg[i] = (struct ht_value){ 0 };
	}
}

static enum ht_status inline_call(
	struct inliner *in, struct ht_node *n, struct ht_function *f, const struct ht_attr *attrs)
{
	struct copying c = { .in = in, .call = n, .f = f, .attrs = attrs };
	const struct ht_node *last = f->body->last;
	int32_t i = 0;

	c.depth = note_of(in, n)->depth + 1;
	if (c.depth > MAX_DEPTH)
		return fail(in, HT_E_LIMIT, n, "calls are nested more than %d deep", MAX_DEPTH);
	if (count_ports(f->args) != n->ins)
		return fail(in, HT_E_INPUT, n,
			"calls function '%.*s' with %" PRId32 " operands; it has %" PRId32
			" arguments",
			HT_STR_ARG(f->name), n->ins, count_ports(f->args));
	make_room(in, f->body->ids);
	c.node = in->node;
	c.arg = in->arg;
	for (const struct ht_port *p = f->args; p; p = p->next)
		c.arg[p->value.node->id] = n->in[i++];
	for (const struct ht_node *b = last ? f->body->first : NULL; b; b = b->next)
		if (!c.arg[b->id].node)
			HT_TRY(copy_node(&c, b));
	for (const struct ht_node *b = f->body->first; b; b = b->next) {
		if (!c.node[b->id])
			continue;
		copy_edges(&c, b);
		move_colocations(&c, c.node[b->id]);
	}
	set_results(&c);
	return HT_OK;
}

/* ---- edges to calls ---- */

static const struct ht_value *result_of(const struct call *call, struct ht_value v)
{
	const struct ht_port *p = call->f->rets;

	if (!v.port.n)
		return v.index < call->rets ? &call->ret[v.index] : NULL;
	for (int32_t i = 0; p; p = p->next, i++)
		if (ht_str_eq(p->name, v.port))
			return &call->ret[i];
	return NULL;
}

static enum ht_status resolve(struct inliner *in, const struct ht_node *user, struct ht_value *v)
{
	const struct ht_value *result;
	const struct call *call;
	struct note *note;

	for (size_t steps = 0; (call = note_of(in, v->node)->call); steps++) {
		result = result_of(call, *v);
		if (!result || steps > in->limit)
			return fail(in, HT_E_INPUT, user,
				"takes a result of '%.*s' that function '%.*s' does not have",
				HT_STR_ARG(v->node->name), HT_STR_ARG(call->f->name));
		*v = *result;
	}
	if (!v->port.n)
		return HT_OK;
	/* Outside of a function, results have only numbers.  For an unknown op they are known if
	 * all uses have the same name. */
	note = note_of(in, v->node);
	if (!note->port.n)
		note->port = v->port;
	if (!ht_str_eq(note->port, v->port))
		return fail(in, HT_E_UNSUPPORTED, v->node,
			"the order of results '%.*s' and '%.*s' of this op is not known",
			HT_STR_ARG(note->port), HT_STR_ARG(v->port));
	v->port = (struct ht_str){ 0 };
	return HT_OK;
}

static enum ht_status resolve_ports(struct inliner *in, struct ht_port *p)
{
	struct ht_node no_user = { .name = HT_STR("") };

	for (; p; p = p->next) {
		no_user.name = p->name;
		if (p->value.index >= 0)
			HT_TRY(resolve(in, &no_user, &p->value));
	}
	return HT_OK;
}

struct controls {
	struct ht_node **node;
	size_t n, cap;
};

/* Adds the nodes to wait for instead of `n`, nested calls included. */
static void add_control(struct inliner *in, struct controls *list, struct ht_node *n)
{
	const struct call *call = note_of(in, n)->call;

	if (call) {
		for (int32_t i = 0; i < call->controls; i++)
			add_control(in, list, call->control[i]);
		return;
	}
	for (size_t i = 0; i < list->n; i++)
		if (list->node[i] == n)
			return;
	list->node =
		ht_grow(in->scratch, list->node, list->n, &list->cap, sizeof(struct ht_node *));
	list->node[list->n++] = n;
}

static bool waits_for_call(struct inliner *in, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->controls; i++)
		if (note_of(in, n->control[i])->call)
			return true;
	return false;
}

static enum ht_status resolve_edges(struct inliner *in, struct ht_node *n)
{
	struct controls list = { 0 };

	for (int32_t i = 0; i < n->ins; i++)
		HT_TRY(resolve(in, n, &n->in[i]));
	if (!waits_for_call(in, n))
		return HT_OK;
	for (int32_t i = 0; i < n->controls; i++)
		add_control(in, &list, n->control[i]);
	ht_node_set_controls(n, list.node, (int32_t)list.n);
	return HT_OK;
}

/* A call that is a target is replaced by the nodes for which a node waiting for it would wait. */
static void resolve_targets(struct inliner *in, struct ht_port **p)
{
	while (*p) {
		struct ht_port *next = (*p)->next;
		struct controls list = { 0 };

		if (!note_of(in, (*p)->value.node)->call) {
			p = &(*p)->next;
			continue;
		}
		add_control(in, &list, (*p)->value.node);
		for (size_t i = 0; i < list.n; i++) {
			struct ht_port *t = HT_NEW(in->g->arena, struct ht_port);

			t->name = list.node[i]->name;
			t->value = (struct ht_value){ .node = list.node[i], .index = -1 };
			*p = t;
			p = &t->next;
		}
		*p = next;
	}
}

static enum ht_status finish(struct inliner *in)
{
	struct ht_node *next;

	for (struct ht_node *n = in->g->first; n; n = n->next)
		if (!note_of(in, n)->call)
			HT_TRY(resolve_edges(in, n));
	for (struct ht_entry *e = in->g->entries; e; e = e->next) {
		HT_TRY(resolve_ports(in, e->inputs));
		HT_TRY(resolve_ports(in, e->outputs));
		resolve_targets(in, &e->targets);
	}
	if (in->g->function) {
		HT_TRY(resolve_ports(in, in->g->function->rets));
		resolve_targets(in, &in->g->function->control_rets);
	}
	for (struct ht_node *n = in->g->first; n; n = next) {
		next = n->next;
		if (note_of(in, n)->call)
			ht_node_remove(n);
	}
	return HT_OK;
}

static size_t most_nodes(const struct ht_graph *g)
{
	size_t n = g->nodes;

	for (const struct ht_function *f = g->library->functions; f; f = f->next)
		n += f->body->nodes;
	return n * GROWTH + GROWTH_BASE;
}

/* Called at the first call.  Notes get room for the nodes that calls become, except calls in
 * bodies. */
static void begin(struct inliner *in)
{
	const struct ht_attr *attrs;
	const struct ht_function *f;
	size_t n = 0;

	in->limit = most_nodes(in->g);
	for (const struct ht_node *x = in->g->first; x && n < in->limit; x = x->next) {
		f = callee(in, x, &attrs);
		n += f ? f->body->nodes : 0;
	}
	in->cap = in->g->ids + (n < in->limit ? n : in->limit);
	in->note = HT_NEW_ARRAY(in->scratch, struct note, in->cap);
}

/* Copies are appended to the list of nodes, so this loop visits them too. */
static enum ht_status inline_calls(struct inliner *in)
{
	const struct ht_attr *attrs;
	struct ht_function *f;

	for (struct ht_node *n = in->g->first; n; n = n->next) {
		f = callee(in, n, &attrs);
		if (!f)
			continue;
		if (!in->limit)
			begin(in);
		HT_TRY(inline_call(in, n, f, attrs));
	}
	return in->limit ? finish(in) : HT_OK;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct inliner in = { .g = g, .scratch = c->scratch, .diags = c->diags };

	if (!g->library->functions)
		return HT_OK;
	if (!g->function)
		ht_name_recursive_calls(g, c->scratch);
	HT_TRY(inline_calls(&in));
	ht_functions_own(g);
	return in.limit ? ht_graph_sort(g, c->diags) : HT_OK;
}

const struct ht_pass ht_pass_inline = {
	.name = "inline",
	.summary = "puts the bodies of functions where they are called",
	.run = run,
	.spares_functions = true,
};
