/* Which tensors are weights, gradients and activations. */
#include "precision/roles.h"

#include "passes/rewrite.h"

static bool is_weight(const uint8_t *role, const struct ht_node *n)
{
	if (ht_is(n, HT_CONSTANT | HT_READS_VARIABLE | HT_VARIABLE))
		return true;
	return n->ins && ht_is(n, HT_ONLY_MOVES | HT_CASTS) &&
	       role[n->in[0].node->id] == HT_ROLE_WEIGHTS;
}

/* Whether `v` is an operand of a node that writes it to a variable. */
static bool is_written(const struct ht_graph *g, struct ht_value v)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		for (int32_t i = 0; i < n->ins && (ht_op_info(n->op)->effects & HT_WRITES); i++)
			if (ht_value_eq(n->in[i], v))
				return true;
	return false;
}

/* Marks what outputs other than written values need. */
static void mark_needed(const struct ht_graph *g, bool *needed)
{
	for (const struct ht_entry *e = g->entries; e; e = e->next)
		for (const struct ht_port *o = e->outputs; o; o = o->next)
			if (o->value.index >= 0 && !is_written(g, o->value))
				needed[o->value.node->id] = true;
	ht_mark_operands(g, needed, false);
}

uint8_t *ht_roles_of(const struct ht_graph *g, struct ht_arena *a)
{
	bool trains = !g->function && ht_changes_any(g);
	bool *needed = HT_NEW_ARRAY(a, bool, g->ids);
	uint8_t *role = HT_NEW_ARRAY(a, uint8_t, g->ids);

	if (trains)
		mark_needed(g, needed);
	for (const struct ht_node *n = g->first; n; n = n->next) {
		if (is_weight(role, n))
			role[n->id] = HT_ROLE_WEIGHTS;
		else if (trains && !needed[n->id])
			role[n->id] = HT_ROLE_GRADIENTS;
	}
	return role;
}
