/* Elements of lists at constant places, where the graph sets them and reads them without loops: an element that is read is what was set.  So the
 * elements of such a list need no common rank. */
#include "passes/lists.h"

enum { MOST_NODES = 10000 /* between setting an element and reading it */ };

static bool constant_index(struct ht_value v, int64_t *i)
{
	int count;

	return ht_const_small_ints(v, i, 1, &count) && count == 1;
}

/* The length of a list that is reserved; -1: it is not known. */
static int64_t length_of(const struct ht_node *n)
{
	int64_t length;

	return n->op == HT_OP_TensorListReserve && constant_index(n->in[1], &length) ? length : -1;
}

/* What element `i` of the list was set to last; node NULL: that is not known, or it does not exist. */
static struct ht_value item_at(struct ht_value list, int64_t i)
{
	struct ht_value found = { 0 };

	for (int left = MOST_NODES; left; left--) {
		const struct ht_node *n = list.node;
		int64_t at;

		if (ht_is(n, HT_FORWARDS) && n->ins == 1 && !n->controls) {
			list = n->in[0];
			continue;
		}
		if (n->op != HT_OP_TensorListSetItem)
			return i < length_of(n) ? found : (struct ht_value){ 0 };
		if (n->controls || !constant_index(n->in[1], &at))
			return (struct ht_value){ 0 };
		if (at == i && !found.node)
			found = n->in[2];
		list = n->in[0];
	}
	return (struct ht_value){ 0 };
}

void ht_lists_hand_on_items(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw_within within;
	struct ht_node **all;
	struct ht_rw r;
	size_t count;

	ht_rw_init_within(&r, &within, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t k = 0; k < count; k++) {
		struct ht_node *n = all[k];
		struct ht_bodies b = { { NULL } };
		struct ht_value item;
		int64_t i;

		if (!n->graph)
			continue;
		if (n->op == HT_OP_TensorListGetItem && !n->controls &&
			constant_index(n->in[1], &i) && i >= 0) {
			item = item_at(n->in[0], i);
			if (item.node)
				ht_rw_replace_node(&r, n, item);
		}
		if (n->graph && ht_runs_own(n))
			b = ht_control_bodies(n);
		for (int side = 0; side < 2; side++)
			if (b.of[side])
				ht_lists_hand_on_items(b.of[side]->body, c);
	}
}
