/* The steps that compute each imported node: those of the kernel that computes the nodes that
 * were made from it. */
#include "lower/inside.h"
#include "lower/joined.h"

void members_made(struct lower *l, const struct ht_node *sink, int32_t first)
{
	if (l->made)
		l->made[sink->id] = (struct made_steps){ first, l->plan->steps };
}

static void add(struct lower *l, struct ht_str node, int32_t step)
{
	struct ht_plan *p = l->plan;

	p->member = ht_grow(l->arena, p->member, (size_t)p->members, &l->planning->member_cap,
		sizeof *p->member);
	p->member[p->members++] =
		(struct ht_plan_member){ .node = ht_str_copy(l->arena, node), .step = step };
}

static void add_node(struct lower *l, const struct ht_node *n, struct made_steps made)
{
	const struct ht_str *name = n->origin ? n->origin : &n->name;
	const int32_t names = n->origin ? n->origins : 1;

	for (int32_t i = 0; i < names; i++)
		for (int32_t s = made.first; s < made.end; s++)
			if (l->plan->step[s].kernel >= 0)
				add(l, name[i], l->plan->step[s].made);
}

/* The steps of a joined kernel were made for the last of its kernels; the others get the same
 * steps. */
static void share_joined(struct lower *l, const struct ht_node *last)
{
	const struct joined *d = l->joined[last->id];

	for (int32_t i = 0; d && i < d->kernels; i++)
		l->made[d->sink[i]->id] = l->made[last->id];
}

void members_list(struct lower *l)
{
	if (!l->made)
		return;
	for (const struct ht_node *n = l->g->first; n; n = n->next)
		share_joined(l, n);
	for (const struct ht_node *n = l->g->first; n; n = n->next)
		if (l->owner[n->id])
			add_node(l, n, l->made[l->owner[n->id]->id]);
}

void members_end(struct planning *planning, struct ht_arena *scratch)
{
	struct ht_plan *p = planning->plan;
	int32_t *now = HT_NEW_ARRAY(scratch, int32_t, (size_t)planning->made + 1), kept = 0;

	for (int32_t i = 0; i < p->steps; i++)
		now[p->step[i].made] = i + 1;
	for (int32_t i = 0; i < p->members; i++) {
		p->member[kept] = p->member[i];
		p->member[kept].step = now[p->member[i].step] - 1;
		kept += p->member[kept].step >= 0;
	}
	p->members = kept;
}
