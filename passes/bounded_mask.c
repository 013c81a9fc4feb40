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
	ht_open_wait_for(b, v.node, a.size);
	ht_rw_set_in(&b->r, n, arg, v);
	return v.node;
}

void ht_open_mask(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, enum ht_number fill)
{
	for (int i = 0; i < ht_open_parts(a); i++)
		mask_part(b, n, arg, axis, a.part[i], fill);
}

void ht_open_mask_all(struct ht_bounded *b, struct ht_node *n, int32_t arg, int32_t axis,
	struct ht_open a, enum ht_number fill)
{
	for (int i = 0; i < ht_open_parts(a); i++)
		ht_attr_set_bool(mask_part(b, n, arg, axis, a.part[i], fill), "whole", true);
}

/* Replaces the divisor by 1 in runs in which the dimension `dim` is 0.  The result has no elements then, but a kernel would stop at a divisor
 * that is 0. */
static void unless_empty(struct ht_bounded *b, struct ht_node *n, int64_t dim)
{
	enum ht_dtype t = ht_type_of(n->in[1])->dtype;
	struct ht_value size, in[3];
	struct ht_node *empty, *divisor;
	int32_t rank = ht_in_shape(n, 1).rank;
	int64_t one[HT_OPEN_RANK];

	for (int32_t i = 0; i < HT_OPEN_RANK; i++)
		one[i] = 1;
	size = ht_dims_value(&b->r, n, n->name, HT_I64, (struct ht_shape){ 1, &dim });
	ht_open_wait_for(b, size.node, ht_dim_size(b->r.g, dim));
	in[0] = size;
	in[1] = ht_rw_scalar(&b->r, n, n->name, HT_I64, 0);
	empty = ht_rw_node(&b->r, n, HT_OP_Equal, n->name, in, 2,
		(struct ht_type){ HT_BOOL, ht_type_of(size)->shape });
	in[0] = ht_out(empty, 0);
	in[1] = ht_rw_scalar(&b->r, n, n->name, t, 1);
	in[2] = n->in[1];
	divisor = ht_rw_node(&b->r, n, HT_OP_SelectV2, n->name, in, 3,
		(struct ht_type){
			t, rank ? ht_in_shape(n, 1) : ht_shape_make(b->r.g->arena, 1, one) });
	ht_rw_set_in(&b->r, n, 1, ht_out(divisor, 0));
}

/* Does so for each open axis along which the divisor is broadcast, and which may have no elements. */
static void divide_nothing(struct ht_bounded *b, struct ht_node *n)
{
	struct ht_shape first = ht_in_shape(n, 0), second = ht_in_shape(n, 1);

	if (ht_is_const(n->in[1]))
		return;
	for (int32_t i = 0; i < first.rank; i++) {
		int32_t k = i + second.rank - first.rank, size = ht_dim_size(b->r.g, first.dim[i]);

		if (size && !b->r.g->size[size - 1].least && (k < 0 || second.dim[k] == 1))
			unless_empty(b, n, first.dim[i]);
	}
}

void ht_open_mask_divisor(struct ht_bounded *b, struct ht_node *n)
{
	struct axes divisor = axes_of(b, n, 1);

	for (int32_t i = 0; i < ht_in_shape(n, 1).rank; i++)
		ht_open_mask_all(b, n, 1, i, divisor.axis[i], HT_NUMBER_ONE);
	divide_nothing(b, n);
}
