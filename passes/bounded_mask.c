/* Puts _Within in front of operands: elements outside of an open axis become neutral. */
#include "passes/bounded_axes.h"

static const char *const names[] = { [HT_NUMBER_ZERO] = "zero",
	[HT_NUMBER_ONE] = "one",
	[HT_NUMBER_LOWEST] = "lowest",
	[HT_NUMBER_HIGHEST] = "highest" };

static struct ht_node *mask_part(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open_axis a, enum ht_number fill)
{
	struct ht_value v = ht_rw_unary(&b->r, n, HT_OP__Within, n->in[arg].node->name, n->in[arg]);

	ht_attr_set_int(v.node, "size", a.size);
	ht_attr_set_int(v.node, "axis", axis);
	ht_attr_set_int(v.node, "inner", a.inner);
	ht_attr_set_str(v.node, "fill", ht_str(names[fill]));
	ht_open_wait(b, v.node, UINT64_C(1) << (a.size - 1));
	ht_rw_set_in(&b->r, n, arg, v);
	return v.node;
}

void ht_open_mask(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, enum ht_number fill)
{
	for (int i = 0; i < 2 && a.part[i].size; i++)
		mask_part(b, n, arg, axis, a.part[i], fill);
}

void ht_open_mask_all(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, enum ht_number fill)
{
	for (int i = 0; i < 2 && a.part[i].size; i++)
		ht_attr_set_bool(mask_part(b, n, arg, axis, a.part[i], fill), "whole", true);
}
