/* Orders nodes so that operands and control inputs come first.
 *
 * A depth-first walk over the nodes in their present order emits each node after all its inputs; a
 * graph that is in order stays as it is.  The walk keeps its own stack, since a file decides how
 * deep the graph is.  Edges from a NextIteration to a Merge close a loop and are ignored. */
#include "ir/ir.h"

enum state { UNSEEN, OPEN, DONE };

struct frame {
	struct ht_node *node;
	int32_t next; /* the next input to visit: operands first, then control inputs */
};

struct sort {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_diags *d;
	unsigned char *state; /* by node id */
	struct frame *stack;  /* at most one frame for each node */
	size_t depth;
	struct ht_node **order;
	size_t count;
};

bool ht_closes_loop(const struct ht_node *from, const struct ht_node *to)
{
	return ht_is(from, HT_ITERATES) && ht_is(to, HT_MERGES);
}

static void push(struct sort *s, struct ht_node *n)
{
	s->state[n->id] = OPEN;
	s->stack[s->depth++] = (struct frame){ n, 0 };
}

#define NAMES_SHOWN 8

/* The walk goes from users to operands: from `entry` on, each node on the stack needs the next
 * one. */
static enum ht_status report_cycle(struct sort *s, const struct ht_node *entry)
{
	struct ht_where at = {
		.path = s->g->library->path, .offset = -1, .node = entry->name, .op = entry->type
	};
	struct ht_buf b;
	size_t i = 0;
	int shown = 0;

	ht_buf_init(&b, s->scratch);
	while (s->stack[i].node != entry)
		i++;
	for (; i < s->depth && shown < NAMES_SHOWN; i++, shown++)
		ht_printf(&b, "'%.*s' needs ", HT_STR_ARG(s->stack[i].node->name));
	if (i < s->depth)
		ht_puts(&b, "… needs ");
	ht_printf(&b, "'%.*s'", HT_STR_ARG(entry->name));
	return ht_error(s->d, HT_E_INPUT, at,
		"cycle that does not pass through NextIteration and Merge: %.*s",
		HT_STR_ARG(ht_buf_str(&b)));
}

static enum ht_status visit(struct sort *s, struct ht_node *root)
{
	push(s, root);
	while (s->depth) {
		struct frame *f = &s->stack[s->depth - 1];
		struct ht_node *need;

		if (f->next == f->node->ins + f->node->controls) {
			s->state[f->node->id] = DONE;
			s->order[s->count++] = f->node;
			s->depth--;
			continue;
		}
		need = f->next < f->node->ins ? f->node->in[f->next].node
					      : f->node->control[f->next - f->node->ins];
		f->next++;
		if (ht_closes_loop(need, f->node) || s->state[need->id] == DONE)
			continue;
		if (s->state[need->id] == OPEN)
			return report_cycle(s, need);
		push(s, need);
	}
	return HT_OK;
}

void ht_graph_set_order(struct ht_graph *g, struct ht_node *const *order)
{
	const size_t n = g->nodes;

	for (size_t i = 0; i < n; i++) {
		order[i]->prev = i ? order[i - 1] : NULL;
		order[i]->next = i + 1 < n ? order[i + 1] : NULL;
	}
	g->first = n ? order[0] : NULL;
	g->last = n ? order[n - 1] : NULL;
}

static enum ht_status sort_graph(struct ht_graph *g, struct ht_arena *scratch, struct ht_diags *d)
{
	struct sort s = { .g = g, .scratch = scratch, .d = d };
	enum ht_status st;

	s.state = HT_NEW_ARRAY(scratch, unsigned char, g->ids);
	s.stack = HT_NEW_ARRAY(scratch, struct frame, g->nodes);
	s.order = HT_NEW_ARRAY(scratch, struct ht_node *, g->nodes);
	for (struct ht_node *n = g->first; n; n = n->next)
		if (s.state[n->id] == UNSEEN)
			HT_TRY(visit(&s, n));
	HT_CHECK(s.count == g->nodes);
	ht_graph_set_order(g, s.order);
	for (struct ht_function *f = g->functions; f; f = f->next) {
		st = sort_graph(f->body, scratch, d);
		if (st != HT_OK) {
			ht_note(d, HT_NOWHERE, "in function '%.*s'", HT_STR_ARG(f->name));
			return st;
		}
	}
	return HT_OK;
}

enum ht_status ht_graph_sort(struct ht_graph *g, struct ht_diags *d)
{
	struct ht_arena *scratch = ht_arena_within(g->arena);
	enum ht_status st = sort_graph(g, scratch, d);

	ht_arena_release(scratch);
	return st;
}
