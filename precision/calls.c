/* Decides bodies of functions at their calls. */
#include "precision/calls.h"

#include <string.h>

/* A function of the library, and the only node that runs it. */
struct link {
	const struct ht_node *caller; /* the last one found */
	int callers;
	struct ht_precision *decided;
	const uint8_t *in, *out; /* the stated dtypes; NULL: none are stated */
};

struct ht_calls {
	struct ht_precision *program;
	const struct ht_graph *graph; /* the graph with the library */
	struct ht_map links;          /* name → struct link */
	int depth;
};

/* Nested loops are decided again in every round of the outer loop. */
#define DEEPEST 6

/* ---- which nodes run which functions ---- */

static void add_caller(struct ht_calls *c, const struct ht_node *n, struct ht_str function)
{
	struct ht_map_entry *e = ht_map_at(&c->links, function);
	struct link *l = e->value;

	if (!l)
		l = e->value = HT_NEW(c->program->arena, struct link);
	if (l->caller != n)
		l->callers++;
	l->caller = n;
}

static void add_value(struct ht_calls *c, const struct ht_node *n, const struct ht_attr_value *v)
{
	if (v->kind == HT_ATTR_FUNC)
		add_caller(c, n, v->func->name);
	for (size_t i = 0; v->kind == HT_ATTR_LIST && v->list.kind == HT_ATTR_FUNC && i < v->list.n;
		i++)
		add_caller(c, n, v->list.item[i].func->name);
}

/* Counts nodes of every kind: one that is not a call constrains the signature too. */
static void add_callers(struct ht_calls *c, const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		if (n->op == HT_OP_OPAQUE && ht_graph_function(c->graph, n->type))
			add_caller(c, n, n->type);
		for (const struct ht_attr *a = n->attrs; a; a = a->next)
			add_value(c, n, &a->value);
	}
}

struct ht_calls *ht_calls_new(struct ht_precision *program)
{
	struct ht_calls *c = HT_NEW(program->arena, struct ht_calls);

	c->program = program;
	c->graph = program->graph;
	ht_map_init(&c->links, program->arena);
	if (c->graph->functions)
		add_callers(c, program->graph);
	for (const struct ht_function *f = c->graph->functions; f; f = f->next)
		add_callers(c, f->body);
	return c;
}

struct ht_precision *ht_calls_body(const struct ht_calls *c, const struct ht_function *f)
{
	const struct link *l = ht_map_get(&c->links, f->name);

	return l ? l->decided : NULL;
}

/* ---- operands and results of calls ---- */

/* The operands from `first` on are the arguments of every body.  The results are those of the
 * bodies that attributes other than `condition` name. */
static const struct ht_call_lists lists[] = {
	{ HT_OP_If, 1, "Tin", "Tout", NULL },
	{ HT_OP_StatelessIf, 1, "Tin", "Tout", NULL },
	{ HT_OP_Case, 1, "Tin", "Tout", NULL },
	{ HT_OP_StatelessCase, 1, "Tin", "Tout", NULL },
	{ HT_OP_PartitionedCall, 0, "Tin", "Tout", NULL },
	{ HT_OP_StatefulPartitionedCall, 0, "Tin", "Tout", NULL },
	{ HT_OP_While, 0, "T", "T", "cond" },
	{ HT_OP_StatelessWhile, 0, "T", "T", "cond" },
};

static bool has_list(const struct ht_node *n, const char *attr, int32_t items)
{
	const struct ht_attr *a = ht_attr_find(n, attr);

	return items >= 0 && a && a->value.kind == HT_ATTR_LIST && a->value.list.n == (size_t)items;
}

const struct ht_call_lists *ht_call_lists_of(const struct ht_node *n)
{
	for (size_t i = 0; i < HT_COUNT(lists); i++)
		if (lists[i].op == n->op)
			return has_list(n, lists[i].in, n->ins - lists[i].first) &&
					       has_list(n, lists[i].out, n->outs)
				       ? &lists[i]
				       : NULL;
	return NULL;
}

enum ht_dtype ht_carried_dtype(const struct ht_choice *c, const struct ht_node *n,
	struct ht_str attr, int item, enum ht_dtype was)
{
	const struct ht_call_lists *l = c->carried_in && item >= 0 ? ht_call_lists_of(n) : NULL;

	if (!l)
		return was;
	return (enum ht_dtype)(
		ht_str_is(attr, l->in) ? c->carried_in[l->first + item] : c->carried_out[item]);
}

#define MAX_BODIES 64

/* A call that is being decided. */
struct call {
	struct ht_calls *c;
	struct ht_precision *p; /* of the graph that contains it */
	const struct ht_node *n;
	const struct ht_call_lists *lists;
	struct ht_function *body[MAX_BODIES];
	bool gives[MAX_BODIES]; /* the body's results are the call's */
	int bodies;
	int32_t args, results;
	uint8_t *in, *out; /* by operand of the node, and by result */
	void (*decide)(struct ht_precision *p);
};

static int32_t ports(const struct ht_port *p)
{
	int32_t n = 0;

	for (; p; p = p->next)
		n++;
	return n;
}

static bool is_item(const struct ht_node *n, const char *attr, int32_t i, enum ht_dtype t)
{
	const struct ht_attr_value *v = &ht_attr_find(n, attr)->value;

	return v->list.item[i].kind == HT_ATTR_TYPE && v->list.item[i].type == t;
}

static enum ht_dtype type_in_graph(struct ht_value v)
{
	return v.port.n || v.index < 0 || v.index >= v.node->outs ? HT_INVALID
								  : ht_type_of(v)->dtype;
}

/* Whether the function's arguments and results match the call's lists; a graph may contradict
 * itself. */
static bool fits(const struct call *call, const struct ht_function *f, bool gives)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++)
		if (!ht_is(p->value.node, HT_ARGUMENT) || p->value.node->outs != 1 ||
			!is_item(call->n, call->lists->in, i,
				ht_attr_type(p->value.node, "T", HT_INVALID)))
			return false;
	i = 0;
	for (const struct ht_port *p = f->rets; p; p = p->next, i++)
		if (p->value.port.n || p->value.index < 0 ||
			p->value.index >= p->value.node->outs ||
			(gives && !is_item(call->n, call->lists->out, i,
					  ht_type_of(p->value)->dtype)))
			return false;
	return true;
}

/* Every body must belong to this call alone, and must have as many arguments and results as the
 * call. */
static bool add_body(struct call *call, const struct ht_func_ref *ref, bool gives)
{
	struct ht_function *f = ht_graph_function(call->c->graph, ref->name);
	const struct link *l = f ? ht_map_get(&call->c->links, f->name) : NULL;

	if (!l || l->callers != 1 || call->bodies == MAX_BODIES || ports(f->args) != call->args ||
		(gives && ports(f->rets) != call->results))
		return false;
	if (!fits(call, f, gives))
		return false;
	call->body[call->bodies] = f;
	call->gives[call->bodies++] = gives;
	return true;
}

static bool find_bodies(struct call *call)
{
	const struct ht_call_lists *s = call->lists;

	for (const struct ht_attr *a = call->n->attrs; a; a = a->next) {
		const struct ht_attr_value *v = &a->value;
		bool gives = !s->condition || !ht_str_is(a->name, s->condition);
		if (v->kind == HT_ATTR_FUNC && !add_body(call, v->func, gives))
			return false;
		for (size_t i = 0;
			v->kind == HT_ATTR_LIST && v->list.kind == HT_ATTR_FUNC && i < v->list.n;
			i++)
			if (!add_body(call, v->list.item[i].func, gives))
				return false;
	}
	return call->bodies > 0;
}

/* A value changes with its producer only if it is float32 on both sides. */
static enum ht_dtype carried(enum ht_dtype was, enum ht_dtype decided)
{
	return was == HT_F32 && ht_is_policy_float(decided) ? decided : was;
}

static struct ht_unit *unit_of_argument(struct ht_precision *p, const struct ht_port *arg)
{
	return ht_unit_of(p, arg->value.node, 0);
}

/* Sets the dtypes of arguments: those that the bodies state, unless the operand was decided
 * otherwise. */
static void take_operands(struct call *call)
{
	for (int32_t i = 0; i < call->n->ins; i++) {
		struct ht_value v = call->n->in[i];
		enum ht_dtype was = type_in_graph(v);
		call->in[i] = (uint8_t)(i < call->lists->first || was == HT_INVALID
						? was
						: carried(was, ht_decided_dtype(call->p, v)));
	}
}

/* ---- deciding ---- */

static void decide_body(struct call *call, int i)
{
	struct link *l = ht_map_get(&call->c->links, call->body[i]->name);
	struct ht_precision *p = HT_NEW(call->p->arena, struct ht_precision);
	int32_t at = call->lists->first;
	enum ht_status st;

	*p = *call->c->program;
	st = ht_precision_prepare(p, call->body[i]->body);
	if (call->c->program->status == HT_OK)
		call->c->program->status = st;
	for (const struct ht_port *arg = call->body[i]->args; arg; arg = arg->next, at++) {
		struct ht_unit *u = unit_of_argument(p, arg);
		if (u->from == (enum ht_dtype)call->in[at] || u->from != HT_F32)
			continue;
		u->to = (enum ht_dtype)call->in[at];
		p->choice[u->node->id].rule = HT_BY(CALLER);
		p->choice[u->node->id].list = NULL;
	}
	l->decided = p;
	call->decide(p);
}

static enum ht_dtype type_of_result(struct ht_precision *p, const struct ht_port *ret)
{
	return carried(ht_type_of(ret->value)->dtype, ht_decided_dtype(p, ret->value));
}

/* Sets the dtypes of results: those of the bodies if they agree, else the original ones.  False:
 * for a loop whose next argument would differ from the last; `in` then has its old value. */
static bool take_results(struct call *call, int body)
{
	const struct link *l = ht_map_get(&call->c->links, call->body[body]->name);
	const struct ht_port *ret = call->body[body]->rets;
	bool loop = call->lists->condition, settled = true;

	for (int32_t i = 0; i < call->results; i++, ret = ret->next) {
		enum ht_dtype was = ht_type_of(ret->value)->dtype,
			      t = type_of_result(l->decided, ret);
		if (loop && t != (enum ht_dtype)call->in[i] && (enum ht_dtype)call->in[i] != was) {
			call->in[i] = (uint8_t)was;
			settled = false;
		}
		if (loop)
			t = (enum ht_dtype)call->in[i];
		call->out[i] = (uint8_t)(call->out[i] == HT_INVALID || call->out[i] == t ? t : was);
	}
	return settled;
}

static bool decide_once(struct call *call)
{
	bool settled = true;

	memset(call->out, HT_INVALID, (size_t)call->results);
	for (int i = 0; i < call->bodies; i++)
		decide_body(call, i);
	for (int i = 0; i < call->bodies; i++)
		if (call->gives[i])
			settled &= take_results(call, i);
	return settled;
}

/* A loop-carried value that comes back in another type keeps its type, which may change others;
 * in the end all agree. */
static void decide_bodies(struct call *call)
{
	if (decide_once(call) || decide_once(call))
		return;
	for (int32_t i = 0; i < call->n->ins; i++)
		call->in[i] = (uint8_t)type_in_graph(call->n->in[i]);
	decide_once(call);
}

static void finish(struct call *call)
{
	struct ht_choice *c = &call->p->choice[call->n->id];

	c->carried_in = call->in;
	c->carried_out = call->out;
	for (int i = 0; i < call->bodies; i++) {
		struct link *l = ht_map_get(&call->c->links, call->body[i]->name);
		if (call->gives[i])
			l->decided->ret = call->out;
	}
}

static bool open_call(struct call *call, struct ht_precision *p, const struct ht_node *n)
{
	*call = (struct call){ .c = p->calls, .p = p, .n = n, .lists = ht_call_lists_of(n) };
	if (!call->lists)
		return false;
	call->args = n->ins - call->lists->first;
	call->results = n->outs;
	for (int32_t i = 0; i < call->args; i++)
		if (!is_item(n, call->lists->in, i, type_in_graph(n->in[call->lists->first + i])))
			return false;
	return find_bodies(call);
}

void ht_calls_decide(
	struct ht_precision *p, const struct ht_node *n, void (*decide)(struct ht_precision *p))
{
	struct call call;

	if (p->calls->depth == DEEPEST || !open_call(&call, p, n))
		return;
	call.decide = decide;
	call.in = HT_NEW_ARRAY(p->arena, uint8_t, (size_t)n->ins);
	call.out = HT_NEW_ARRAY(p->arena, uint8_t, (size_t)n->outs);
	call.c->depth++;
	take_operands(&call);
	decide_bodies(&call);
	call.c->depth--;
	finish(&call);
}

/* ---- the dtypes that a report states ---- */

bool ht_calls_state(
	struct ht_precision *p, const struct ht_node *n, const uint8_t *in, const uint8_t *out)
{
	struct call call;

	if (!open_call(&call, p, n))
		return false;
	p->choice[n->id].carried_in = in;
	p->choice[n->id].carried_out = out;
	for (int i = 0; i < call.bodies; i++) {
		struct link *l = ht_map_get(&call.c->links, call.body[i]->name);
		l->in = in + call.lists->first;
		l->out = call.gives[i] ? out : NULL;
	}
	return true;
}

const uint8_t *ht_calls_stated(const struct ht_calls *c, const struct ht_function *f, bool results)
{
	const struct link *l = ht_map_get(&c->links, f->name);

	return !l ? NULL : results ? l->out : l->in;
}
