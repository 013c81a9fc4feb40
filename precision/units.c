/* Units: type attributes of nodes, and which of them must agree. */
#include "precision/precision.h"

/* The number of the formal that tensor `i` belongs to; -1 if the attributes do not determine it. */
static int formal_of(const struct ht_node *n, const struct ht_op_arg *arg, int args, int32_t i)
{
	for (int f = 0; f < args; f++) {
		int32_t count = ht_formal_count(n, &arg[f]);
		if (count < 0)
			return -1;
		if (i < count)
			return f;
		i -= count;
	}
	return -1;
}

int ht_formal_of_arg(const struct ht_node *n, int32_t i)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	return formal_of(n, info->arg, info->args, i);
}

int ht_formal_of_result(const struct ht_node *n, int32_t i)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	return formal_of(n, info->result, info->results, i);
}

int ht_attr_of_arg(const struct ht_node *n, int32_t i)
{
	int f = ht_formal_of_arg(n, i);

	return f < 0 ? -1 : ht_op_info(n->op)->arg[f].type_attr;
}

int ht_attr_of_result(const struct ht_node *n, int32_t i)
{
	int f = ht_formal_of_result(n, i);

	return f < 0 ? -1 : ht_op_info(n->op)->result[f].type_attr;
}

enum ht_dtype ht_formal_from(
	struct ht_precision *p, const struct ht_node *n, const struct ht_op_arg *formal)
{
	if (formal->type_list)
		return HT_INVALID;
	return formal->type_attr < 0 ? formal->fixed : ht_unit_of(p, n, formal->type_attr)->from;
}

struct ht_unit *ht_unit_of_arg(struct ht_precision *p, const struct ht_node *n, int32_t i)
{
	int attr = ht_attr_of_arg(n, i);

	return attr < 0 ? NULL : ht_unit_of(p, n, attr);
}

struct ht_unit *ht_unit_of_result(struct ht_precision *p, const struct ht_node *n, int32_t i)
{
	int attr = ht_attr_of_result(n, i);

	return attr < 0 ? NULL : ht_unit_of(p, n, attr);
}

enum ht_dtype ht_decided_dtype(struct ht_precision *p, struct ht_value v)
{
	const struct ht_column *taken = p->choice[v.node->id].taken;
	struct ht_unit *u = ht_unit_of_result(p, v.node, v.index);
	enum ht_dtype t = u && u->to != HT_INVALID ? u->to : ht_type_of(v)->dtype;

	if (taken)
		return (enum ht_dtype)taken->result[ht_formal_of_result(v.node, v.index)];
	if (p->choice[v.node->id].carried_out)
		return (enum ht_dtype)p->choice[v.node->id].carried_out[v.index];
	return t >= HT_REF ? (enum ht_dtype)(t - HT_REF) : t;
}

struct ht_unit *ht_unit_root(struct ht_precision *p, struct ht_unit *u)
{
	uint32_t i = (uint32_t)(u - p->unit);

	while (p->unit[i].parent != i) {
		p->unit[i].parent = p->unit[p->unit[i].parent].parent;
		i = p->unit[i].parent;
	}
	return &p->unit[i];
}

/* Merged units keep their dtype if one of them does. */
static void merge(struct ht_precision *p, struct ht_unit *a, struct ht_unit *b)
{
	if (!a || !b)
		return;
	a = ht_unit_root(p, a);
	b = ht_unit_root(p, b);
	a->fixed |= b->fixed;
	b->parent = (uint32_t)(a - p->unit);
}

/* A policy must not change an attribute that is the type of a reference, since another node
 * reads and writes the same memory, or one that is a list. */
static bool attr_is_fixed(const struct ht_op_info *info, int attr)
{
	for (int i = 0; i < info->args; i++)
		if (info->arg[i].type_attr == attr && (info->arg[i].ref || info->arg[i].type_list))
			return true;
	for (int i = 0; i < info->results; i++)
		if (info->result[i].type_attr == attr &&
			(info->result[i].ref || info->result[i].type_list))
			return true;
	return false;
}

static void add_units(struct ht_precision *p, struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	p->first_unit[n->id] = (uint32_t)p->units;
	for (int i = 0; i < info->type_attrs; i++) {
		struct ht_unit *u = &p->unit[p->units];
		u->node = n;
		u->attr = (int8_t)i;
		u->fixed = attr_is_fixed(info, i);
		u->from = u->fixed ? HT_INVALID
				   : ht_type_attr(n, ht_attr_name(info->type_attr[i].name).s);
		u->to = u->from;
		u->parent = (uint32_t)p->units++;
	}
}

/* A loop-carried value has one type in Enter, Merge, Switch and NextIteration. */
static void merge_loops(struct ht_precision *p)
{
	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		if (!ht_is(n, HT_MERGES))
			continue;
		for (int32_t i = 0; i < n->ins; i++)
			if (n->in[i].node && ht_closes_loop(n->in[i].node, n))
				merge(p, ht_unit_of_arg(p, n, i),
					ht_unit_of_result(p, n->in[i].node, n->in[i].index));
	}
}

void ht_units_build(struct ht_precision *p)
{
	size_t count = 0;

	for (struct ht_node *n = p->graph->first; n; n = n->next)
		count += (size_t)ht_op_info(n->op)->type_attrs;
	p->units = 0;
	p->unit = HT_NEW_ARRAY(p->arena, struct ht_unit, count);
	p->first_unit = HT_NEW_ARRAY(p->arena, uint32_t, p->graph->ids);
	p->choice = HT_NEW_ARRAY(p->arena, struct ht_choice, p->graph->ids);
	ht_map_init(&p->offers, p->arena);
	for (struct ht_node *n = p->graph->first; n; n = n->next)
		add_units(p, n);
	merge_loops(p);
}
