/* Columns: the dtypes of all type attributes of a node together that one kernel computes in. */
#include "passes/precision/precision.h"

#include <string.h>

static bool is_policy_float(enum ht_dtype t)
{
	return t == HT_F32 || t == HT_F16 || t == HT_BF16;
}

/* Whether a policy may judge the node: it computes, with floats, and nobody else shares its types. */
static bool is_judged(struct ht_precision *p, const struct ht_node *n, const struct ht_choice *c)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	bool floats = false;

	if (n->op == HT_OP_OPAQUE || n->op == HT_OP_Const || info->effects ||
		c->class == HT_CLASS_UNKNOWN)
		return false;
	for (int i = 0; i < info->type_attrs; i++) {
		struct ht_unit *u = ht_unit_of(p, n, i);
		if (u->fixed || ht_unit_root(p, u)->fixed || ht_unit_root(p, u) != u)
			return false;
		floats |= is_policy_float(u->from);
	}
	return floats;
}

static void add_column(struct ht_choice *c, const struct ht_column *column)
{
	for (int i = 0; i < c->columns; i++)
		if (!memcmp(&c->column[i], column, sizeof *column))
			return;
	HT_CHECK(c->columns < HT_MAX_COLUMNS);
	c->column[c->columns++] = *column;
}

/* The node as it is, with every float attribute that may change in `t`. */
static bool column_in(
	struct ht_precision *p, const struct ht_node *n, enum ht_dtype t, struct ht_column *out)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	memset(out, 0, sizeof *out);
	for (int i = 0; i < info->type_attrs; i++) {
		const struct ht_op_type_attr *a = &info->type_attr[i];
		out->dtype[i] = ht_unit_of(p, n, i)->from;
		if (t == HT_INVALID || !is_policy_float(out->dtype[i]) ||
			ht_profile_keeps(p->profile, n->type, a->name))
			continue;
		if (!(a->allowed >> t & 1))
			return false;
		out->dtype[i] = t;
	}
	return true;
}

/* The node's own dtypes come first: they win when nothing narrows. */
void ht_columns_build(struct ht_precision *p, const struct ht_node *n, struct ht_choice *c)
{
	static const enum ht_dtype order[] = { HT_INVALID, HT_F32, HT_F16, HT_BF16 };
	struct ht_column column;

	c->class = ht_profile_class(p->profile, n, &c->list);
	if (!is_judged(p, n, c))
		return;
	c->column = HT_NEW_ARRAY(p->arena, struct ht_column, HT_COUNT(order));
	for (size_t i = 0; i < HT_COUNT(order); i++)
		if (column_in(p, n, order[i], &column))
			add_column(c, &column);
	c->left = (UINT32_C(1) << c->columns) - 1;
}

bool ht_narrow_columns(struct ht_choice *c, int attr, enum ht_dtype t)
{
	uint32_t left = 0;

	for (int i = 0; i < c->columns; i++)
		if ((c->left >> i & 1) && c->column[i].dtype[attr] == t)
			left |= UINT32_C(1) << i;
	if (!left)
		return false;
	c->left = left;
	return true;
}

void ht_settle(struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	const struct ht_choice *c = &p->choice[n->id];
	int first = 0;

	if (!c->columns)
		return;
	while (!(c->left >> first & 1))
		first++;
	for (int i = 0; i < info->type_attrs; i++)
		ht_unit_of(p, n, i)->to = c->column[first].dtype[i];
}
