/* Walks over graphs and bodies that add a value beside each value of some lists. */
#include "passes/lists_beside.h"
#include "passes/by_value.h"

#include "passes/carry.h"

/* ---- by value ---- */

/* The list of `v`, if it has a value beside it. */
static struct ht_list *list_with(struct ht_beside *x, struct ht_value v)
{
	struct ht_list *of = ht_list_of(x->l, v);

	return of && x->has(x, of) ? of : NULL;
}

struct ht_value ht_beside_of(struct ht_beside *x, struct ht_value list)
{
	void *at = ht_by_value(&x->of, list);

	return x->pair[(uintptr_t)at - 1].value;
}

void ht_beside_set(struct ht_beside *x, struct ht_value list, struct ht_value value)
{
	struct ht_arena *a = x->l->c->scratch;

	x->pair = ht_grow(a, x->pair, x->n, &x->cap, sizeof *x->pair);
	x->pair[x->n++] = (struct ht_beside_pair){ list, value, ht_list_of(x->l, list) };
	ht_set_by_value(&x->of, a, list, (void *)(uintptr_t)x->n);
}

void ht_beside_hand_on(struct ht_beside_part *p, struct ht_node *n, struct ht_value value)
{
	struct ht_value list = n->in[0];

	ht_rw_become(&p->r, n, HT_OP_Identity, &list, 1);
	ht_node_set_outs(n, 1);
	ht_beside_set(p->x, ht_out(n, 0), value);
	p->spare = ht_grow(p->r.arena, p->spare, p->spares, &p->spare_cap, sizeof *p->spare);
	p->spare[p->spares++] = n;
}

/* ---- branches and loops ---- */

/* Adds a value for each argument that is such a list, behind the existing arguments. */
static void append_args(struct ht_beside *x, struct ht_function *f)
{
	const struct ht_port *last = f->args;

	while (last && last->next)
		last = last->next;
	for (const struct ht_port *p = f->args; p; p = p == last ? NULL : p->next)
		if (list_with(x, p->value))
			ht_beside_set(x, p->value, ht_carry_argument(f, x->type));
}

static void append_rets(struct ht_beside *x, struct ht_function *f)
{
	const struct ht_port *last = f->rets;

	while (last && last->next)
		last = last->next;
	for (const struct ht_port *p = f->rets; p; p = p == last ? NULL : p->next)
		if (list_with(x, p->value))
			ht_carry_return(f, ht_beside_of(x, p->value));
}

static void change_graph(struct ht_beside *x, struct ht_graph *g);

static void change_control(struct ht_beside_part *p, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	int32_t ins = n->ins, outs = n->outs;

	for (int32_t i = ht_control_first(n); i < ins; i++)
		if (list_with(p->x, n->in[i]))
			ht_carry_operand(&p->r, n, ht_beside_of(p->x, n->in[i]));
	for (int32_t i = 0; i < outs; i++)
		if (list_with(p->x, ht_out(n, i)))
			ht_beside_set(p->x, ht_out(n, i), ht_carry_result(n, p->x->type));
	for (int k = 0; k < 2; k++) {
		append_args(p->x, b.of[k]);
		change_graph(p->x, b.of[k]->body);
	}
}

/* ---- graphs ---- */

static void change_node(struct ht_beside_part *p, struct ht_node *n)
{
	struct ht_value list = n->ins && !ht_makes_list(n) ? n->in[0] : ht_out(n, 0);

	if (ht_is_list_op(n)) {
		if (list_with(p->x, list))
			p->x->change(p, n);
	} else if (ht_is(n, HT_BRANCHES | HT_LOOPS)) {
		if (ht_runs_own(n))
			change_control(p, n);
	} else if (!ht_is(n, HT_ARGUMENT)) {
		for (int32_t i = 0; i < n->outs && i < n->ins; i++)
			if (list_with(p->x, ht_out(n, i)))
				ht_beside_set(p->x, ht_out(n, i), ht_beside_of(p->x, n->in[i]));
	}
}

static void change_graph(struct ht_beside *x, struct ht_graph *g)
{
	struct ht_rw_within within;
	struct ht_beside_part p = { .x = x };
	struct ht_node **all;
	size_t count;

	ht_rw_init_within(&p.r, &within, g, x->l->c);
	all = ht_rw_nodes(&p.r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			change_node(&p, all[i]);
	if (g->function)
		append_rets(x, (struct ht_function *)(uintptr_t)g->function);
	for (size_t i = 0; i < p.spares; i++)
		if (p.spare[i]->graph)
			ht_rw_replace_node(&p.r, p.spare[i], p.spare[i]->in[0]);
}

void ht_beside_add(struct ht_beside *x, struct ht_graph *g)
{
	ht_map_init(&x->of, x->l->c->scratch);
	change_graph(x, g);
}
