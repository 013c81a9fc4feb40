/* update: matches regions of nodes that write variables, and replaces them by one op. */
#include "passes/update.h"

/* ---- matching ---- */

static bool has(const struct ht_update *u, const struct ht_node *n)
{
	for (int i = 0; i < u->nodes; i++)
		if (u->node[i] == n)
			return true;
	return false;
}

bool ht_update_take(struct ht_update *u, struct ht_node *n)
{
	if (has(u, n))
		return true;
	if (u->nodes == HT_UPDATE_NODES)
		return false;
	u->node[u->nodes++] = n;
	return true;
}

bool ht_update_binary(struct ht_update *u, struct ht_value v, enum ht_op op, struct ht_value *a,
	struct ht_value *b)
{
	struct ht_node *n = v.node;

	if (n->op != op || n->ins != 2)
		return false;
	*a = n->in[0];
	*b = n->in[1];
	return ht_update_take(u, n);
}

bool ht_update_sum(struct ht_update *u, struct ht_value v, struct ht_value *a, struct ht_value *b)
{
	return ht_update_binary(u, v, HT_OP_AddV2, a, b) || ht_update_binary(u, v, HT_OP_Add, a, b);
}

bool ht_update_scaled(
	struct ht_update *u, struct ht_value v, struct ht_value *scalar, struct ht_value *of)
{
	if (!ht_update_binary(u, v, HT_OP_Mul, scalar, of))
		return false;
	if (!ht_is_scalar(*scalar)) {
		struct ht_value t = *scalar;

		*scalar = *of;
		*of = t;
	}
	return ht_is_scalar(*scalar);
}

bool ht_update_read(struct ht_update *u, struct ht_value v, struct ht_value var)
{
	return v.node->op == HT_OP_ReadVariableOp && ht_value_eq(v.node->in[0], var) &&
	       ht_update_take(u, v.node);
}

bool ht_is_scalar(struct ht_value v)
{
	return ht_type_of(v)->shape.rank == 0;
}

bool ht_same_scalar(struct ht_value a, struct ht_value b)
{
	double x;

	return ht_value_eq(a, b) ||
	       (ht_type_of(a)->dtype == ht_type_of(b)->dtype && !b.node->controls &&
		       ht_const_splat(a, &x) && ht_const_is(b, x));
}

/* Whether `v` is var - by, or var + by. */
static bool is_step(struct ht_update *u, struct ht_value v, struct ht_step *s)
{
	struct ht_value a, b;

	s->adds = v.node->op != HT_OP_Sub;
	if (s->adds ? !ht_update_sum(u, v, &a, &b) : !ht_update_binary(u, v, HT_OP_Sub, &a, &b))
		return false;
	if (ht_update_read(u, a, s->var)) {
		s->old = a;
		s->by = b;
		return true;
	}
	s->old = b;
	s->by = a;
	return s->adds && ht_update_read(u, b, s->var);
}

bool ht_update_begin(struct ht_update *u, struct ht_rw *r, enum ht_fusion_id id,
	struct ht_node *write, struct ht_step *step)
{
	*u = (struct ht_update){ .r = r, .id = id, .write = write };
	if (write->op != HT_OP_AssignVariableOp && write->op != HT_OP_AssignAddVariableOp &&
		write->op != HT_OP_AssignSubVariableOp)
		return false;
	ht_update_take(u, write);
	*step = (struct ht_step){ .var = write->in[0] };
	if (write->op == HT_OP_AssignVariableOp)
		return is_step(u, write->in[1], step);
	step->by = write->in[1];
	step->adds = write->op == HT_OP_AssignAddVariableOp;
	return true;
}

/* The write that `read` waits for. */
static struct ht_node *write_before(const struct ht_node *read)
{
	for (int32_t i = 0; i < read->controls; i++) {
		struct ht_node *c = read->control[i];

		if ((c->op == HT_OP_AssignVariableOp || c->op == HT_OP_AssignAddVariableOp) &&
			ht_value_eq(c->in[0], read->in[0]))
			return c;
	}
	return NULL;
}

static struct ht_node *write_of(const struct ht_update *u, struct ht_value v)
{
	for (const struct ht_rw_use *i = ht_rw_first_use(u->r, v.node); i;
		i = ht_rw_next_use(u->r, i))
		if (i->arg == 1 && i->node->op == HT_OP_AssignVariableOp && i->node != u->write &&
			i->node->in[1].index == v.index)
			return i->node;
	return NULL;
}

bool ht_update_slot(struct ht_update *u, struct ht_value v, struct ht_slot *slot)
{
	bool reads = v.node->op == HT_OP_ReadVariableOp;
	struct ht_node *write = reads ? write_before(v.node) : write_of(u, v);

	if (!write || !ht_update_take(u, write) || (reads && !ht_update_take(u, v.node)))
		return false;
	slot->var = write->in[0];
	slot->value = write->in[1];
	slot->adds = write->op == HT_OP_AssignAddVariableOp;
	return !ht_value_eq(slot->var, u->write->in[0]);
}

bool ht_update_fits(const struct ht_update *u, struct ht_value grad, struct ht_value like)
{
	struct ht_shape a = ht_type_of(grad)->shape, b = like.node ? ht_type_of(like)->shape : a;
	bool same = a.rank >= 0 && a.rank == b.rank;

	if (ht_type_of(grad)->dtype != HT_F32) {
		ht_rw_miss(u->r, u->id, 2, u->write, "is not float32");
		return false;
	}
	for (int32_t i = 0; same && i < a.rank; i++)
		same = a.dim[i] >= 0 && a.dim[i] == b.dim[i];
	if (!same)
		ht_rw_miss(u->r, u->id, 3, u->write,
			"has a gradient that is not known to have the variable's shape");
	return same;
}

/* ---- conditions ---- */

struct walk {
	const struct ht_update *u;
	bool *seen; /* by node id */
	struct ht_node **stack;
	size_t count, cap;
};

static struct walk walk_new(const struct ht_update *u)
{
	return (struct walk){ .u = u, .seen = HT_NEW_ARRAY(u->r->arena, bool, u->r->g->ids) };
}

static void push(struct walk *w, struct ht_node *n)
{
	if (w->seen[n->id])
		return;
	w->seen[n->id] = true;
	w->stack = ht_grow(w->u->r->arena, w->stack, w->count, &w->cap, sizeof *w->stack);
	w->stack[w->count++] = n;
}

static void push_needed(struct walk *w, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		push(w, n->in[i].node);
	for (int32_t i = 0; i < n->controls; i++)
		push(w, n->control[i]);
}

/* Pushes the nodes outside of the region that the region needs. */
static void push_outside(struct walk *w)
{
	for (int k = 0; k < w->u->nodes; k++) {
		const struct ht_node *n = w->u->node[k];

		for (int32_t i = 0; i < n->ins; i++)
			if (!has(w->u, n->in[i].node))
				push(w, n->in[i].node);
		for (int32_t i = 0; i < n->controls; i++)
			if (!has(w->u, n->control[i]))
				push(w, n->control[i]);
	}
}

/* Whether a node outside of the region depends on some of its nodes and is needed by others. */
static bool is_torn(const struct ht_update *u)
{
	struct walk w = walk_new(u);

	push_outside(&w);
	while (w.count) {
		struct ht_node *n = w.stack[--w.count];

		if (has(u, n))
			return true;
		push_needed(&w, n);
	}
	return false;
}

static bool is_of_loop(const struct ht_node *n)
{
	return ht_is(n, HT_ENTERS | HT_ITERATES) || n->op == HT_OP_LoopCond;
}

/* Whether the node ends a branch: nodes behind it run in any case. */
static bool is_join(const struct ht_node *n)
{
	if (!ht_is(n, HT_MERGES))
		return n->op == HT_OP_Exit;
	for (int32_t i = 0; i < n->ins; i++)
		if (is_of_loop(n->in[i].node))
			return false;
	return true;
}

/* Whether parts of the region may not run, or run several times: it is in a branch or a loop. */
static bool is_conditional(const struct ht_update *u)
{
	struct walk w = walk_new(u);

	push_outside(&w);
	while (w.count) {
		struct ht_node *n = w.stack[--w.count];

		if (is_join(n))
			continue;
		if (ht_is(n, HT_SWITCHES) || is_of_loop(n))
			return true;
		push_needed(&w, n);
	}
	return false;
}

static void push_ports(struct walk *w, const struct ht_port *p)
{
	for (; p; p = p->next)
		push(w, p->value.node);
}

/* Whether the whole region runs in every run of the graph. */
static bool is_run(const struct ht_update *u)
{
	const struct ht_graph *g = u->r->g;
	const struct ht_entry *e = u->r->c->entry;
	struct walk w = walk_new(u);

	if (!e && g->entries && !g->entries->next)
		e = g->entries;
	if (!e)
		return false;
	push_ports(&w, e->outputs);
	push_ports(&w, e->targets);
	while (w.count)
		push_needed(&w, w.stack[--w.count]);
	for (int i = 0; i < u->nodes; i++)
		if (!w.seen[u->node[i]->id])
			return false;
	return true;
}

static bool is_port(const struct ht_port *p, const struct ht_node *n)
{
	for (; p; p = p->next)
		if (p->value.node == n)
			return true;
	return false;
}

static bool is_asked_for(const struct ht_update *u, const struct ht_node *n)
{
	for (const struct ht_entry *e = u->r->g->entries; e; e = e->next)
		if (is_port(e->outputs, n) || is_port(e->inputs, n) ||
			(n != u->write && is_port(e->targets, n)))
			return true;
	return false;
}

static bool is_used_elsewhere(const struct ht_update *u, const struct ht_node *n)
{
	for (const struct ht_rw_use *i = ht_rw_first_use(u->r, n); i; i = ht_rw_next_use(u->r, i))
		if (i->arg >= 0 && !has(u, i->node))
			return true;
	return false;
}

bool ht_update_may_fuse(struct ht_update *u)
{
	const struct ht_node *at = u->write;
	const char *why = NULL;

	for (int i = 0; !why && i < u->nodes; i++) {
		at = u->node[i];
		if (is_asked_for(u, at))
			why = "is an input, an output or a target";
		else if (is_used_elsewhere(u, at))
			why = "has another user";
	}
	if (why) {
		ht_rw_miss(u->r, u->id, 4, at, why);
		return false;
	}
	if (!is_run(u))
		why = "is not run whenever all that belongs to it is";
	else if (is_torn(u))
		why = "is ordered behind what needs part of it";
	else if (is_conditional(u))
		why = "is in a branch or a loop";
	if (why)
		ht_rw_miss(u->r, u->id, 5, u->write, why);
	return !why;
}

/* ---- fusing ---- */

/* Adds the sources of control edges into `from` to `list`, unless `to` is in the region; a
 * source that is in the region becomes the write itself. */
static int32_t add_controls(const struct ht_update *u, struct ht_node **list, int32_t count,
	const struct ht_node *from, bool inside)
{
	for (int32_t i = 0; i < from->controls; i++) {
		struct ht_node *c = from->control[i];
		int32_t k = 0;

		if (has(u, c)) {
			if (inside)
				continue;
			c = u->write;
		}
		while (k < count && list[k] != c)
			k++;
		if (k == count)
			list[count++] = c;
	}
	return count;
}

static void redirect(struct ht_update *u, struct ht_node *user)
{
	struct ht_node **list = HT_NEW_ARRAY(u->r->arena, struct ht_node *, (size_t)user->controls);

	ht_rw_set_controls(u->r, user, list, add_controls(u, list, 0, user, false));
}

/* Nodes that waited for a node of the region wait for the op. */
static void redirect_users(struct ht_update *u, const struct ht_node *n)
{
	const struct ht_rw_use *use = ht_rw_first_use(u->r, n);

	while (use) {
		if (use->arg < 0 && !has(u, use->node)) {
			redirect(u, use->node);
			use = ht_rw_first_use(u->r, n);
		} else {
			use = ht_rw_next_use(u->r, use);
		}
	}
}

static void take_controls(struct ht_update *u)
{
	struct ht_node **list;
	int32_t count = 0, most = 0;

	for (int i = 0; i < u->nodes; i++)
		most += u->node[i]->controls;
	list = HT_NEW_ARRAY(u->r->arena, struct ht_node *, (size_t)most);
	for (int i = 0; i < u->nodes; i++)
		count = add_controls(u, list, count, u->node[i], true);
	for (int i = 0; i < u->nodes; i++)
		ht_rw_set_controls(u->r, u->node[i], list, u->node[i] == u->write ? count : 0);
}

static void remove_rest(struct ht_update *u)
{
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < u->nodes; i++) {
			struct ht_node *n = u->node[i];

			if (n == u->write || !n->graph || ht_rw_first_use(u->r, n))
				continue;
			ht_rw_remove(u->r, n);
			more = true;
		}
	}
}

void ht_update_fuse(
	struct ht_update *u, enum ht_op op, const struct ht_value *in, int32_t ins, bool nesterov)
{
	ht_rw_hit(u->r, u->id);
	for (int i = 0; i < u->nodes; i++) {
		if (u->node[i] == u->write)
			continue;
		redirect_users(u, u->node[i]);
		ht_rw_absorb(u->write, u->node[i]);
	}
	take_controls(u);
	ht_rw_become(u->r, u->write, op, in, ins);
	if (nesterov)
		ht_attr_set_bool(u->write, "use_nesterov", true);
	remove_rest(u);
}
