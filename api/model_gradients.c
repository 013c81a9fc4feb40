/* Finds the tensors that the optimiser ops of a training step take as gradients. */
#include <halftone/train.h>

#include "api/api.h"

struct looking {
	struct ht_model *m;
	const char *op;
	struct ht_diags *d;
	struct ht_map found; /* the names of these tensors */
	struct ht_node **stack;
	bool *met; /* by node id: it was put on the stack */
	size_t depth;
	const char **name;
};

/* The index of the operand that is the gradient; -1: `n` is not an optimiser op. */
static int32_t gradient_of(const struct ht_node *n)
{
	int32_t i = ht_op_info(n->op)->effects & HT_WRITES ? ht_gradient_argument(n->op) : -1;

	return i < n->ins ? i : -1;
}

static void meet(struct looking *x, struct ht_node *n)
{
	if (x->met[n->id])
		return;
	x->met[n->id] = true;
	x->stack[x->depth++] = n;
}

static void look_at(struct looking *x, const struct ht_node *n)
{
	struct ht_arena *a = &x->m->arena;
	int32_t i = gradient_of(n);

	if (i >= 0) {
		struct ht_value v = n->in[i];
		struct ht_str name = v.index ? ht_str_printf(a, "%.*s:%d", HT_STR_ARG(v.node->name),
						       (int)v.index)
					     : ht_str_copy(a, v.node->name);

		ht_map_at(&x->found, name)->value = x;
	}
	for (int32_t k = 0; k < n->ins; k++)
		meet(x, n->in[k].node);
	for (int32_t k = 0; k < n->controls; k++)
		meet(x, n->control[k]);
}

static enum ht_status look(void *arg)
{
	struct looking *x = arg;
	const struct ht_graph *g = x->m->graph;
	struct ht_arena *a = &x->m->arena;
	struct ht_str name = ht_str(x->op);
	struct ht_node *op;

	if (ht_str_ends(name, ":0"))
		name.n -= 2;
	op = ht_graph_node(g, name);
	if (!op)
		return ht_error(x->d, HT_E_USAGE,
			(struct ht_where){ .path = g->path, .offset = -1 },
			"the model has no op '%s'", x->op);
	ht_map_init(&x->found, a);
	x->met = HT_NEW_ARRAY(a, bool, g->ids);
	x->stack = HT_NEW_ARRAY(a, struct ht_node *, g->ids);
	meet(x, op);
	while (x->depth)
		look_at(x, x->stack[--x->depth]);
	x->name = HT_NEW_ARRAY(a, const char *, x->found.count + 1);
	for (size_t i = 0; i < x->found.count; i++)
		x->name[i] = x->found.entries[i].key.p;
	return HT_OK;
}

enum ht_status ht_model_gradients(struct ht_model *m, const char *op, struct ht_diags *d,
	const char *const **names, size_t *n)
{
	struct looking x = { .m = m, .op = op, .d = d };
	enum ht_status st = ht_guarded(&m->unwind, look, &x, d);

	*names = st == HT_OK ? x.name : NULL;
	*n = st == HT_OK ? x.found.count : 0;
	return st;
}
