/* Which nodes the painter may change, by their device, their op, and whether they are fed or
 * fetched. */
#include "precision/grappler/grappler.h"

#include <ctype.h>
#include <string.h>

static bool is_node(const struct ht_node *n, const char *type)
{
	return ht_str_is(n->type, type);
}

static bool has_prefix(struct ht_str s, const char *lower)
{
	size_t n = strlen(lower);

	if (s.n < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (tolower((unsigned char)s.p[i]) != lower[i])
			return false;
	return true;
}

/* The part of "/job:a/device:GPU:0", or of "/gpu:0", that names the device; empty: there is none
 * with a number. */
static struct ht_str device_of(struct ht_str name)
{
	struct ht_str part = { 0 };

	while (name.n) {
		size_t n = 1;
		while (n < name.n && name.p[n] != '/')
			n++;
		part = (struct ht_str){ name.p + 1, n - 1 };
		name = (struct ht_str){ name.p + n, name.n - n };
		if (has_prefix(part, "device:"))
			return (struct ht_str){ part.p + 7, part.n - 7 };
		if (has_prefix(part, "gpu:") || has_prefix(part, "cpu:"))
			return part;
	}
	return (struct ht_str){ 0 };
}

/* A node without a device counts as being on the mode's device. */
bool ht_painter_has_device(const struct ht_painter *p, const struct ht_node *n)
{
	struct ht_str device;

	if (!n->device.n)
		return true;
	device = device_of(n->device);
	return has_prefix(device, p->device == HT_TF_GPU ? "gpu:" : "cpu:") &&
	       isdigit((unsigned char)device.p[device.n - 1]);
}

static void preserve_ports(struct ht_painter *p, const struct ht_port *port)
{
	for (; port; port = port->next)
		p->processed[port->value.node->id] = false;
}

/* Fed and fetched nodes keep their types.  In bodies of functions, so do nodes with state and
 * nodes that the caller waits for. */
void ht_painter_find_processed(
	struct ht_painter *p, const struct ht_graph *g, const struct ht_entry *e)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		p->processed[n->id] = ht_painter_has_device(p, n) && n->op != HT_OP_Placeholder &&
				      n->op != HT_OP_PlaceholderV2;
	if (g->function) {
		preserve_ports(p, g->function->control_rets);
	} else if (e) {
		preserve_ports(p, e->inputs);
		preserve_ports(p, e->outputs);
		preserve_ports(p, e->targets);
	}
}

/* Ops that TensorFlow does not know keep their types too, and so do types that are part of a
 * function's signature. */
void ht_painter_exclude_by_op(struct ht_painter *p)
{
	const struct ht_graph *g = p->graph.graph;

	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tf_op *op = p->graph.op[n->id];
		if (!op || (op->functions && !p->emulate) || (g->function && op->stateful))
			p->processed[n->id] = false;
	}
}

/* The first version of batch norm has no attribute for the type of its statistics. */
void ht_painter_rename_batch_norms(struct ht_painter *p, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		if (!p->processed[n->id])
			continue;
		if (is_node(n, "FusedBatchNorm"))
			ht_node_set_type(n, HT_STR("FusedBatchNormV2"));
		else if (is_node(n, "FusedBatchNormGrad"))
			ht_node_set_type(n, HT_STR("FusedBatchNormGradV2"));
		else
			continue;
		p->renamed[n->id] = true;
		ht_attr_set_type(n, "U", HT_F32);
	}
}
