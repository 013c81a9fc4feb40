/* switch_n: _SwitchN, which TensorFlow makes from a Case, becomes nested Switches, and its Merge
 * becomes Merges of two.
 *
 * Both are halved in the same way, so each Merge joins the two results of one predicate, as pass
 * `functional` requires.  A Merge whose value_index is used stays. */
#include "ir/traits.h"
#include "passes/cases.h"
#include "passes/rewrite.h"

#include <inttypes.h>

/* The comparisons of one index with branches.  All _SwitchN of one Case share them; otherwise
 * their Merges would not become one node. */
struct chooser {
	struct ht_value index;
	struct ht_value *less; /* by branch: index < branch; node NULL: not made yet */
};

struct split {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_uses uses;
	struct ht_map choosers; /* by index and number of branches */
	struct ht_node *from;
	struct chooser *chooser;
	struct ht_value *result; /* of the _SwitchN: its replacements */
};

static struct chooser *chooser_of(struct split *x)
{
	const struct ht_node *n = x->from;
	struct ht_map_entry *e = ht_map_at(
		&x->choosers, ht_str_printf(x->scratch, "%" PRIu32 ":%" PRId32 ":%" PRId32,
				      n->in[1].node->id, n->in[1].index, n->outs));
	struct chooser *c = e->value;

	if (c)
		return c;
	c = HT_NEW(x->scratch, struct chooser);
	c->index = ht_case_index(x->from, n->in[1], n->outs);
	c->less = HT_NEW_ARRAY(x->scratch, struct ht_value, (size_t)n->outs);
	return e->value = c;
}

static struct ht_value is_below(struct split *x, int32_t branch)
{
	struct ht_value *v = &x->chooser->less[branch];

	if (!v->node)
		*v = ht_case_less(x->g, x->from, x->chooser->index, branch);
	return *v;
}

static void switch_half(struct split *x, struct ht_value data, int32_t from, int32_t to)
{
	int32_t middle = ht_middle_case(from, to);
	struct ht_value in[2] = { data };
	struct ht_node *n;

	if (to - from == 1) {
		x->result[from] = data;
		return;
	}
	in[1] = is_below(x, middle);
	n = ht_case_node(x->g, x->from, HT_STR("Switch"), "switch", in, 2);
	ht_rw_copy_attr(n, x->from, "T");
	ht_node_set_outs(n, 2);
	n->out[0] = n->out[1] = x->from->out[0];
	switch_half(x, ht_out(n, 1), from, middle);
	switch_half(x, ht_out(n, 0), middle, to);
}

static void replace_results(struct split *x)
{
	struct ht_node *n = x->from;

	for (const struct ht_use *u = x->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0)
			u->node->in[u->arg] = x->result[u->node->in[u->arg].index];
	for (int32_t i = 0; i < n->outs && x->uses.is_output[n->id]; i++)
		ht_replace_uses(x->g, ht_out(n, i), x->result[i]);
}

static void split_switch(struct split *x)
{
	struct ht_node *n = x->from;

	x->chooser = chooser_of(x);
	x->result = HT_NEW_ARRAY(x->scratch, struct ht_value, (size_t)n->outs);
	switch_half(x, n->in[0], 0, n->outs);
	replace_results(x);
	n->ins = 1;
	ht_node_set_type(n, HT_STR("Identity"));
	ht_node_set_outs(n, 1);
	ht_attr_remove(n, "num_outs");
}

static struct ht_value merge_half(struct ht_node *from, int32_t first, int32_t end)
{
	int32_t middle = ht_middle_case(first, end);
	struct ht_value in[2];
	struct ht_node *n;

	if (end - first == 1)
		return from->in[first];
	in[0] = merge_half(from, middle, end);
	in[1] = merge_half(from, first, middle);
	n = ht_case_node(from->graph, from, HT_STR("Merge"), "merge", in, 2);
	ht_rw_copy_attr(n, from, "T");
	ht_attr_set_int(n, "N", 2);
	ht_node_set_outs(n, 2);
	n->out[0] = from->out[0];
	n->out[1] = (struct ht_type){ HT_I32, HT_SHAPE_SCALAR };
	return ht_out(n, 0);
}

static void split_merge(struct ht_node *n)
{
	int32_t middle = ht_middle_case(0, n->ins);
	struct ht_value in[2];

	if (n->ins == 1) {
		ht_node_set_type(n, HT_STR("Identity"));
		ht_node_set_outs(n, 1);
		ht_attr_remove(n, "N");
		return;
	}
	in[0] = merge_half(n, middle, n->ins);
	in[1] = merge_half(n, 0, middle);
	ht_node_set_ins(n, in, 2);
	ht_attr_set_int(n, "N", 2);
}

static bool has_switch(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_DISPATCHES))
			return true;
	return false;
}

void ht_split_switches(struct ht_graph *g, struct ht_arena *scratch)
{
	struct split x = { .g = g, .scratch = scratch };

	if (!has_switch(g))
		return;
	x.uses = ht_graph_uses(g, scratch);
	ht_map_init(&x.choosers, scratch);
	for (struct ht_node *n = g->first; n; n = n->next) {
		x.from = n;
		if (ht_is(n, HT_DISPATCHES) && n->outs)
			split_switch(&x);
		else if (ht_is(n, HT_MERGES) && (n->ins == 1 || n->ins > 2) &&
			 !ht_use_count(&x.uses, ht_out(n, 1)))
			split_merge(n);
	}
}
