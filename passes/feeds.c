/* feeds: inputs of the entry that the graph would compute become placeholders.
 *
 * A signature may feed any tensor, such as one behind the parsing of examples; the nodes that
 * compute it are then no longer needed.  A node with one result becomes the placeholder itself,
 * and keeps its name. */
#include "passes/passes.h"

static const struct ht_op_arg *formal_of(const struct ht_node *n, int32_t result, int32_t *index)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t count;

	for (int i = 0; i < info->results; i++) {
		count = ht_formal_count(n, &info->result[i]);
		if (count < 0)
			return NULL;
		if (result < count) {
			*index = result;
			return &info->result[i];
		}
		result -= count;
	}
	return NULL;
}

/* The type that the graph states, without inference. */
struct ht_type ht_stated_type(struct ht_value v)
{
	struct ht_type t = { HT_INVALID, HT_SHAPE_UNKNOWN };
	const struct ht_attr *shapes = ht_attr_find(v.node, "_output_shapes");
	const struct ht_op_arg *formal;
	int32_t index = 0;

	if (v.index < v.node->outs && v.node->out[v.index].dtype)
		t = v.node->out[v.index];
	formal = formal_of(v.node, v.index, &index);
	if (!t.dtype && formal)
		t.dtype = ht_formal_dtype(v.node, formal, index);
	if (t.shape.rank < 0 && shapes && shapes->value.kind == HT_ATTR_LIST &&
		(size_t)v.index < shapes->value.list.n && shapes->value.list.kind == HT_ATTR_SHAPE)
		t.shape = shapes->value.list.item[v.index].shape.shape;
	return t;
}

static void set_placeholder(struct ht_node *n, struct ht_type t)
{
	n->attrs = NULL;
	n->shares_attrs = false;
	n->ins = n->controls = 0;
	ht_node_set_type(n, HT_STR("Placeholder"));
	ht_attr_set_type(n, "dtype", t.dtype);
	ht_attr_set_shape(n, "shape", t.shape);
	ht_node_set_outs(n, 1);
	n->out[0] = t;
}

static enum ht_status cut(struct ht_graph *g, struct ht_pass_context *c, struct ht_value v)
{
	struct ht_type t = ht_stated_type(v);
	struct ht_node *n = v.node;
	struct ht_where at = HT_NOWHERE;

	at.path = g->path;
	at.node = n->name;
	at.op = n->type;
	if (!t.dtype)
		return ht_error(c->diags, HT_E_UNSUPPORTED, at,
			"this is to be fed, but its type is not known");
	if (n->outs == 1) {
		set_placeholder(n, t);
		return HT_OK;
	}
	n = ht_node_new(g, HT_STR("Placeholder"), ht_graph_free_name(g, n->name));
	set_placeholder(n, t);
	ht_node_move(n, v.node);
	ht_replace_uses(g, v, ht_out(n, 0));
	for (struct ht_entry *e = g->entries; e; e = e->next)
		for (struct ht_port *p = e->inputs; p; p = p->next)
			if (ht_value_eq(p->value, v))
				p->value = ht_out(n, 0);
	return HT_OK;
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	const struct ht_entry *e = c->entry ? c->entry : g->entries;

	for (const struct ht_port *p = e ? e->inputs : NULL; p; p = p->next)
		if (!ht_is(p->value.node, HT_FED))
			HT_TRY(cut(g, c, p->value));
	return HT_OK;
}

const struct ht_pass ht_pass_feeds = {
	.name = "feeds",
	.summary = "makes placeholders of inputs that are computed",
	.run = run,
	.spares_functions = true,
};
