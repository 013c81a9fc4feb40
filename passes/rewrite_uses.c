/* rewrite_uses: the uses of each result, kept up to date through changes. */
#include "passes/rewrite_uses.h"

/* An output of an entry, or a result of the function. */
struct output {
	struct ht_port *port;
	struct output *next;
};

/* The uses of one result. */
struct list {
	struct ht_rw_use *first;
	int uses, outputs;
	struct output *output;
};

struct ht_rw_uses {
	struct list *result;
	struct ht_rw_use *control; /* edges from the node */
	struct ht_rw_use *by;      /* uses by this node: its operands, then control edges */
	uint32_t results, cap;     /* of `result`, up to the last one that was ever used */
	uint32_t by_cap;
	int total; /* uses of this node: as operand, by control edges, and as output */
	bool is_input;
};

struct ht_rw_index {
	struct ht_rw_uses **uses; /* by node id */
	size_t cap;               /* 0: uses have not been asked for yet */
};

static void make_index(const struct ht_rw *r);

static struct ht_rw_uses *uses_of(const struct ht_rw *r, const struct ht_node *n)
{
	struct ht_rw_index *x = r->index;

	if (!x->cap)
		make_index(r);
	while (n->id >= x->cap)
		x->uses = ht_grow(r->arena, x->uses, x->cap, &x->cap, sizeof(struct ht_rw_uses *));
	if (!x->uses[n->id])
		x->uses[n->id] = HT_NEW(r->arena, struct ht_rw_uses);
	return x->uses[n->id];
}

/* NULL: the node never had a use. */
static const struct ht_rw_uses *known(const struct ht_rw *r, const struct ht_node *n)
{
	if (!r->index->cap)
		make_index(r);
	return n->id < r->index->cap ? r->index->uses[n->id] : NULL;
}

/* Lists move when a result gets its first use; uses have pointers to their places. */
static void move_lists(const struct ht_rw *r, struct ht_rw_uses *of, uint32_t results)
{
	struct list *more = HT_NEW_ARRAY(r->arena, struct list, results);

	for (size_t i = 0; i < of->results; i++) {
		more[i] = of->result[i];
		if (more[i].first)
			more[i].first->prev = &more[i].first;
	}
	of->result = more;
	of->cap = results;
}

static struct list *list_of(const struct ht_rw *r, struct ht_value v)
{
	struct ht_rw_uses *of = uses_of(r, v.node);
	uint32_t need = (uint32_t)v.index + 1;

	if (need > of->cap)
		move_lists(r, of, need > of->cap * 2 ? need : of->cap * 2);
	if (need > of->results)
		of->results = need;
	return &of->result[v.index];
}

static const struct list *known_list(const struct ht_rw *r, struct ht_value v)
{
	static const struct list none;
	const struct ht_rw_uses *of = known(r, v.node);

	return of && v.index >= 0 && (size_t)v.index < of->results ? &of->result[v.index] : &none;
}

/* ---- changes ---- */

static void link_use(struct ht_rw_use *u, struct ht_rw_use **first)
{
	u->next = *first;
	u->prev = first;
	if (u->next)
		u->next->prev = &u->next;
	*first = u;
}

static void unlink_use(struct ht_rw_use *u)
{
	*u->prev = u->next;
	if (u->next)
		u->next->prev = u->prev;
}

static void link_operand(const struct ht_rw *r, struct ht_rw_use *u)
{
	struct ht_value v = u->node->in[u->arg];
	struct list *l = list_of(r, v);

	link_use(u, &l->first);
	l->uses++;
	uses_of(r, v.node)->total++;
}

static void unlink_operand(const struct ht_rw *r, struct ht_rw_use *u)
{
	struct ht_value v = u->node->in[u->arg];

	unlink_use(u);
	list_of(r, v)->uses--;
	uses_of(r, v.node)->total--;
}

static void link_control(const struct ht_rw *r, struct ht_rw_use *u)
{
	struct ht_rw_uses *of = uses_of(r, u->node->control[u->control]);

	link_use(u, &of->control);
	of->total++;
}

static void unlink_control(const struct ht_rw *r, struct ht_rw_use *u)
{
	unlink_use(u);
	uses_of(r, u->node->control[u->control])->total--;
}

static void note_uses_by(const struct ht_rw *r, struct ht_node *n)
{
	struct ht_rw_uses *of = uses_of(r, n);
	size_t count = (size_t)n->ins + (size_t)n->controls;
	struct ht_rw_use *u;

	if (count > of->by_cap) {
		of->by = HT_NEW_ARRAY(r->arena, struct ht_rw_use, count);
		of->by_cap = (uint32_t)count;
	}
	/* Backwards, like the walk over the graph: lists are in the order of the graph. */
	for (int32_t i = n->controls - 1; i >= 0; i--) {
		u = &of->by[n->ins + i];
		*u = (struct ht_rw_use){ .node = n, .arg = -1, .control = i };
		link_control(r, u);
	}
	for (int32_t i = n->ins - 1; i >= 0; i--) {
		u = &of->by[i];
		*u = (struct ht_rw_use){ .node = n, .arg = i };
		link_operand(r, u);
	}
}

void ht_rw_note_uses_by(struct ht_rw *r, struct ht_node *n)
{
	if (r->index->cap)
		note_uses_by(r, n);
}

void ht_rw_forget_uses_by(struct ht_rw *r, const struct ht_node *n)
{
	struct ht_rw_uses *of;

	if (!r->index->cap)
		return;
	of = uses_of(r, n);
	for (int32_t i = 0; i < n->ins; i++)
		unlink_operand(r, &of->by[i]);
	for (int32_t i = 0; i < n->controls; i++)
		unlink_control(r, &of->by[n->ins + i]);
}

void ht_rw_move_use(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_value to)
{
	struct ht_rw_use *u = &uses_of(r, n)->by[i];

	unlink_operand(r, u);
	n->in[i] = to;
	link_operand(r, u);
}

static void move_outputs(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	struct list *dst = list_of(r, to), *src = list_of(r, from);
	struct output *o;

	uses_of(r, from.node)->total -= src->outputs;
	uses_of(r, to.node)->total += src->outputs;
	dst->outputs += src->outputs;
	src->outputs = 0;
	while ((o = src->output)) {
		src->output = o->next;
		o->port->value = to;
		o->next = dst->output;
		dst->output = o;
	}
}

void ht_rw_move_uses(
	struct ht_rw *r, struct ht_value from, struct ht_value to, const struct ht_node *except)
{
	struct ht_rw_use *next;

	for (struct ht_rw_use *u = list_of(r, from)->first; u; u = next) {
		next = u->next;
		if (u->node == except)
			continue;
		unlink_operand(r, u);
		u->node->in[u->arg] = to;
		link_operand(r, u);
	}
	move_outputs(r, from, to);
}

void ht_rw_move_control_edges(struct ht_rw *r, struct ht_node *from, struct ht_node *to)
{
	struct ht_rw_use *next;

	for (struct ht_rw_use *u = uses_of(r, from)->control; u; u = next) {
		next = u->next;
		unlink_control(r, u);
		u->node->control[u->control] = to;
		link_control(r, u);
	}
}

/* ---- the initial uses ---- */

static void note_outputs(const struct ht_rw *r, struct ht_port *p)
{
	for (; p; p = p->next) {
		struct list *l;
		struct output *o;

		if (!p->value.node)
			continue;
		l = list_of(r, p->value);
		o = HT_NEW(r->arena, struct output);
		*o = (struct output){ p, l->output };
		l->output = o;
		l->outputs++;
		uses_of(r, p->value.node)->total++;
	}
}

static void note_entries(const struct ht_rw *r)
{
	for (struct ht_entry *e = r->g->entries; e; e = e->next) {
		note_outputs(r, e->outputs);
		for (const struct ht_port *p = e->inputs; p; p = p->next)
			if (p->value.node)
				uses_of(r, p->value.node)->is_input = true;
	}
	if (!r->g->function)
		return;
	note_outputs(r, r->g->function->rets);
	for (const struct ht_port *p = r->g->function->control_rets; p; p = p->next)
		uses_of(r, p->value.node)->total++;
}

static void make_index(const struct ht_rw *r)
{
	struct ht_rw_index *x = r->index;

	x->cap = r->g->ids + r->g->ids / 4 + 16;
	x->uses = HT_NEW_ARRAY(r->arena, struct ht_rw_uses *, x->cap);
	for (struct ht_node *n = r->g->last; n; n = n->prev)
		note_uses_by(r, n);
	note_entries(r);
}

void ht_rw_uses_init(struct ht_rw *r)
{
	r->index = HT_NEW(r->arena, struct ht_rw_index);
}

/* ---- queries ---- */

/* The first use of result `i` of `of` or of a later one; behind those, of the node itself. */
static const struct ht_rw_use *first_from(const struct ht_rw_uses *of, size_t i)
{
	for (; i < of->results; i++)
		if (of->result[i].first)
			return of->result[i].first;
	return of->control;
}

const struct ht_rw_use *ht_rw_first_use(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_rw_uses *of = known(r, n);

	return of ? first_from(of, 0) : NULL;
}

const struct ht_rw_use *ht_rw_next_use(const struct ht_rw *r, const struct ht_rw_use *u)
{
	struct ht_value v;

	if (u->next || u->arg < 0)
		return u->next;
	v = u->node->in[u->arg];
	return first_from(known(r, v.node), (size_t)v.index + 1);
}

bool ht_rw_is_input(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_rw_uses *of = known(r, n);

	return of && of->is_input;
}

bool ht_rw_is_output(const struct ht_rw *r, struct ht_value v)
{
	return known_list(r, v)->outputs > 0;
}

bool ht_rw_has_control_users(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_rw_uses *of = known(r, n);

	return of && of->control;
}

int ht_rw_uses(const struct ht_rw *r, struct ht_value v)
{
	const struct list *l = known_list(r, v);

	return l->uses + l->outputs;
}

int ht_rw_node_uses(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_rw_uses *of = known(r, n);

	return of ? of->total : 0;
}

struct ht_node *ht_rw_only_user(const struct ht_rw *r, struct ht_value v)
{
	const struct list *l = known_list(r, v);

	return l->uses == 1 && !l->outputs ? l->first->node : NULL;
}

bool ht_rw_plain(const struct ht_rw *r, const struct ht_node *n)
{
	return !n->controls && !ht_rw_has_control_users(r, n);
}
