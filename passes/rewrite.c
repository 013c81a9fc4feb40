/* rewrite: the graph with its uses, kept up to date through changes. */
#include "passes/rewrite.h"

#include <string.h>

/* ---- uses ---- */

static struct ht_rw_use **uses_of(struct ht_rw *r, const struct ht_node *n)
{
	struct ht_rw_use **more;
	size_t cap = r->cap;

	if (n->id < r->cap)
		return &r->uses[n->id];
	while (cap <= n->id)
		cap = cap * 2 + 64;
	more = HT_NEW_ARRAY(r->arena, struct ht_rw_use *, cap);
	if (r->cap)
		memcpy(more, r->uses, r->cap * sizeof *more);
	r->uses = more;
	r->cap = cap;
	return &r->uses[n->id];
}

static struct ht_rw_use *first_use(const struct ht_rw *r, const struct ht_node *n)
{
	return n->id < r->cap ? r->uses[n->id] : NULL;
}

const struct ht_rw_use *ht_rw_first_use(const struct ht_rw *r, const struct ht_node *n)
{
	return first_use(r, n);
}

static void add_use(struct ht_rw *r, struct ht_node *of, struct ht_node *by, int32_t arg)
{
	struct ht_rw_use **list = uses_of(r, of), *use = HT_NEW(r->arena, struct ht_rw_use);

	*use = (struct ht_rw_use){ by, arg, *list };
	*list = use;
}

static void remove_use(struct ht_rw *r, struct ht_node *of, const struct ht_node *by, int32_t arg)
{
	struct ht_rw_use **p = uses_of(r, of);

	while (*p && ((*p)->node != by || (*p)->arg != arg))
		p = &(*p)->next;
	HT_CHECK(*p);
	*p = (*p)->next;
}

static void add_uses_of(struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->controls; i++)
		add_use(r, n->control[i], n, -1);
	for (int32_t i = 0; i < n->ins; i++)
		add_use(r, n->in[i].node, n, i);
}

void ht_rw_init(struct ht_rw *r, struct ht_graph *g, struct ht_pass_context *c)
{
	*r = (struct ht_rw){ .g = g, .c = c, .arena = c->scratch, .cap = g->ids + g->ids / 4 + 16 };
	r->uses = HT_NEW_ARRAY(r->arena, struct ht_rw_use *, r->cap);
	for (struct ht_node *n = g->last; n; n = n->prev)
		add_uses_of(r, n);
}

struct ht_node **ht_rw_nodes(const struct ht_rw *r, size_t *n)
{
	struct ht_node **all = HT_NEW_ARRAY(r->arena, struct ht_node *, r->g->nodes);

	*n = 0;
	for (struct ht_node *i = r->g->first; i; i = i->next)
		all[(*n)++] = i;
	return all;
}

static int ports_with(const struct ht_port *p, const struct ht_node *n, int32_t index)
{
	int count = 0;

	for (; p; p = p->next)
		count += p->value.node == n && (index < 0 || p->value.index == index);
	return count;
}

/* Outputs that ask for result `index` of `n` (-1: any). */
static int output_uses(const struct ht_rw *r, const struct ht_node *n, int32_t index)
{
	int count = 0;

	for (const struct ht_entry *e = r->g->entries; e; e = e->next)
		count += ports_with(e->outputs, n, index);
	if (r->g->function)
		count += ports_with(r->g->function->rets, n, index) +
			 ports_with(r->g->function->control_rets, n, index);
	return count;
}

bool ht_rw_is_output(const struct ht_rw *r, struct ht_value v)
{
	return output_uses(r, v.node, v.index) > 0;
}

int ht_rw_uses(const struct ht_rw *r, struct ht_value v)
{
	int count = output_uses(r, v.node, v.index);

	for (const struct ht_rw_use *u = first_use(r, v.node); u; u = u->next)
		count += u->arg >= 0 && u->node->in[u->arg].index == v.index;
	return count;
}

int ht_rw_node_uses(const struct ht_rw *r, const struct ht_node *n)
{
	int count = output_uses(r, n, -1);

	for (const struct ht_rw_use *u = first_use(r, n); u; u = u->next)
		count++;
	return count;
}

struct ht_node *ht_rw_only_user(const struct ht_rw *r, struct ht_value v)
{
	struct ht_node *user = NULL;

	if (ht_rw_uses(r, v) != 1)
		return NULL;
	for (const struct ht_rw_use *u = first_use(r, v.node); u; u = u->next)
		if (u->arg >= 0 && u->node->in[u->arg].index == v.index)
			user = u->node;
	return user;
}

bool ht_rw_plain(const struct ht_rw *r, const struct ht_node *n)
{
	if (n->controls)
		return false;
	for (const struct ht_rw_use *u = first_use(r, n); u; u = u->next)
		if (u->arg < 0)
			return false;
	return true;
}

/* ---- changes ---- */

static bool is_input(const struct ht_rw *r, const struct ht_node *n)
{
	for (const struct ht_entry *e = r->g->entries; e; e = e->next)
		if (ports_with(e->inputs, n, -1))
			return true;
	return false;
}

static bool may_go(const struct ht_rw *r, const struct ht_node *n)
{
	return n->graph && n->op != HT_OP_OPAQUE && !ht_op_info(n->op)->effects &&
	       n->op != HT_OP_Placeholder &&
	       (n->op != HT_OP_PlaceholderWithDefault || r->c->entry) && n->op != HT_OP__Arg &&
	       !first_use(r, n) && !output_uses(r, n, -1) && !is_input(r, n);
}

static void remove_node(struct ht_rw *r, struct ht_node *n)
{
	struct ht_attr *value;

	for (int32_t i = 0; i < n->ins; i++)
		remove_use(r, n->in[i].node, n, i);
	for (int32_t i = 0; i < n->controls; i++)
		remove_use(r, n->control[i], n, -1);
	value = n->op == HT_OP_Const ? ht_attr_find(n, "value") : NULL;
	if (value && value->value.kind == HT_ATTR_TENSOR)
		ht_tensor_drop(value->value.tensor);
	ht_node_remove(n);
	n->graph = NULL;
	r->changed = true;
}

void ht_rw_drop(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node **stack;
	size_t count = 0, cap = 0;

	if (!may_go(r, n))
		return;
	stack = ht_grow(r->arena, NULL, count, &cap, sizeof *stack);
	stack[count++] = n;
	while (count) {
		n = stack[--count];
		if (!may_go(r, n))
			continue;
		remove_node(r, n);
		for (int32_t i = 0; i < n->ins + n->controls; i++) {
			stack = ht_grow(r->arena, stack, count, &cap, sizeof *stack);
			stack[count++] = i < n->ins ? n->in[i].node : n->control[i - n->ins];
		}
	}
}

void ht_rw_remove(struct ht_rw *r, struct ht_node *n)
{
	HT_CHECK(!first_use(r, n) && !output_uses(r, n, -1) && !is_input(r, n));
	remove_node(r, n);
	for (int32_t i = 0; i < n->ins; i++)
		ht_rw_drop(r, n->in[i].node);
}

struct ht_node *ht_rw_node(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, const struct ht_value *in, int32_t ins, struct ht_type type)
{
	struct ht_node *n = ht_node_new(r->g, ht_op_info(op)->name, ht_graph_free_name(r->g, name));

	ht_node_move(n, before);
	ht_node_set_ins(n, in, ins);
	ht_node_set_outs(n, 1);
	n->out[0].dtype = type.dtype;
	n->out[0].shape = ht_shape_make(r->g->arena, type.shape.rank, type.shape.dim);
	for (int32_t i = 0; i < ins; i++)
		add_use(r, in[i].node, n, i);
	if (before)
		ht_node_add_origin(n, before);
	r->changed = true;
	return n;
}

void ht_rw_set_ins(struct ht_rw *r, struct ht_node *n, const struct ht_value *in, int32_t ins)
{
	struct ht_value *old = n->in;
	int32_t olds = n->ins;

	for (int32_t i = 0; i < ins; i++)
		add_use(r, in[i].node, n, i);
	for (int32_t i = 0; i < olds; i++)
		remove_use(r, old[i].node, n, i);
	ht_node_set_ins(n, in, ins);
	for (int32_t i = 0; i < olds; i++)
		ht_rw_drop(r, old[i].node);
	r->changed = true;
}

void ht_rw_set_in(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_value v)
{
	struct ht_node *old = n->in[i].node;

	remove_use(r, old, n, i);
	n->in[i] = v;
	add_use(r, v.node, n, i);
	ht_rw_drop(r, old);
	r->changed = true;
}

void ht_rw_set_controls(
	struct ht_rw *r, struct ht_node *n, struct ht_node *const *control, int32_t count)
{
	for (int32_t i = 0; i < n->controls; i++)
		remove_use(r, n->control[i], n, -1);
	for (int32_t i = 0; i < count; i++)
		add_use(r, control[i], n, -1);
	ht_node_set_controls(n, control, count);
	r->changed = true;
}

void ht_rw_become(
	struct ht_rw *r, struct ht_node *n, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	struct ht_attr **p = &n->attrs;

	while (*p) {
		if (ht_str_starts((*p)->name, "_"))
			p = &(*p)->next;
		else
			*p = (*p)->next;
	}
	ht_node_set_type(n, ht_op_info(op)->name);
	ht_rw_set_ins(r, n, in, ins);
}

static void replace_ports(struct ht_port *p, struct ht_value from, struct ht_value to)
{
	for (; p; p = p->next)
		if (ht_value_eq(p->value, from))
			p->value = to;
}

static void move_uses(
	struct ht_rw *r, struct ht_value from, struct ht_value to, const struct ht_node *except)
{
	struct ht_rw_use **p = uses_of(r, from.node), *u, *moved = NULL;

	while ((u = *p)) {
		if (u->arg < 0 || u->node == except || u->node->in[u->arg].index != from.index) {
			p = &u->next;
			continue;
		}
		*p = u->next;
		u->next = moved;
		moved = u;
	}
	p = uses_of(r, to.node);
	while ((u = moved)) {
		moved = u->next;
		u->node->in[u->arg] = to;
		u->next = *p;
		*p = u;
	}
	for (struct ht_entry *e = r->g->entries; e; e = e->next)
		replace_ports(e->outputs, from, to);
	if (r->g->function)
		replace_ports(r->g->function->rets, from, to);
	r->changed = true;
}

void ht_rw_replace(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	HT_CHECK(!ht_value_eq(from, to));
	move_uses(r, from, to, NULL);
	ht_rw_drop(r, from.node);
}

void ht_rw_replace_behind(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	move_uses(r, from, to, to.node);
}

static void move_control_edges(struct ht_rw *r, struct ht_node *from, struct ht_node *to)
{
	struct ht_rw_use *u, *next;

	for (u = first_use(r, from); u; u = next) {
		next = u->next;
		if (u->arg >= 0)
			continue;
		for (int32_t i = 0; i < u->node->controls; i++) {
			if (u->node->control[i] != from)
				continue;
			u->node->control[i] = to;
			remove_use(r, from, u->node, -1);
			add_use(r, to, u->node, -1);
			break;
		}
	}
}

void ht_rw_replace_node(struct ht_rw *r, struct ht_node *n, struct ht_value to)
{
	move_control_edges(r, n, to.node);
	ht_rw_replace(r, ht_out(n, 0), to);
}

void ht_rw_take_place(struct ht_rw *r, struct ht_node *n, struct ht_value to)
{
	struct ht_str name = n->name;

	ht_rw_replace_node(r, n, to);
	/* It is still there when nothing used it, or when it is fed. */
	if (!n->graph)
		ht_node_rename(to.node, name);
}

/* ---- what a pass is run with ---- */

bool ht_rw_on(const struct ht_rw *r, enum ht_fusion_id id)
{
	return ht_fusion_on(r->c->fusions, id);
}

void ht_rw_hit(struct ht_rw *r, enum ht_fusion_id id)
{
	ht_fusion_hit(r->c->fusions, id);
}

void ht_rw_miss(const struct ht_rw *r, enum ht_fusion_id id, int met, const struct ht_node *n,
	const char *condition)
{
	ht_fusion_miss(r->c->fusions, id, met, n, condition);
}

enum ht_status ht_rw_each(struct ht_graph *g, struct ht_pass_context *c,
	void (*visit)(struct ht_rw *r, struct ht_node *n))
{
	struct ht_rw r;
	struct ht_node **all;
	size_t count;

	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			visit(&r, all[i]);
	return HT_OK;
}
