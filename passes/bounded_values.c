/* Open sizes as values: what is computed of shapes becomes a tensor of integers where a node computes with it. */
#include "ir/infer.h"
#include "passes/bounded.h"

/* A number times sizes (struct ht_size_expr) as an attribute has it: `times`, and `size` of the sizes that a dimension can have. */
enum { PRODUCT = 1 + HT_DIM_SIZES };

static bool read_product(const struct ht_bounded *b, struct ht_elem e, int64_t *to)
{
	struct ht_size_expr of;

	if (e.kind == HT_ELEM_INT) {
		to[0] = e.i;
		return true;
	}
	if (e.kind != HT_ELEM_DIM || ht_dim_most(b->r.g, e.i) < 0)
		return false;
	of = ht_dim_of_sizes(b->r.g, e.i);
	to[0] = of.times;
	for (int i = 0; i < ht_size_count(&of); i++)
		to[1 + i] = of.size[i];
	return true;
}

static int64_t *products_of(const struct ht_bounded *b, struct ht_value v, int64_t count)
{
	int64_t *all = HT_NEW_ARRAY(b->r.arena, int64_t, (size_t)count *PRODUCT);

	for (int64_t i = 0; i < count; i++)
		if (!read_product(b, ht_open_element(b, v, (int32_t)i), &all[i * PRODUCT]))
			return NULL;
	return all;
}

bool ht_open_all_known(const struct ht_bounded *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		struct ht_value v = ht_out((struct ht_node *)(uintptr_t)n, i);
		int64_t count = ht_shape_count(n->out[i].shape);

		if (count < 0 || count > HT_MAX_KNOWN || !products_of(b, v, count))
			return false;
	}
	return true;
}

struct ht_value ht_open_value(struct ht_bounded *b, struct ht_value v)
{
	int64_t count = ht_shape_count(ht_type_of(v)->shape);
	int64_t *product = products_of(b, v, count);
	struct ht_node *n =
		ht_rw_node(&b->r, v.node, HT_OP__Sizes, v.node->name, NULL, 0, *ht_type_of(v));
	uint64_t sizes = 0;

	ht_attr_set_type(n, "dtype", ht_type_of(v)->dtype);
	ht_attr_set_shape(n, "shape", ht_type_of(v)->shape);
	ht_attr_set_ints(n, "of", product, (size_t)(count * PRODUCT));
	for (int64_t i = 0; i < count * PRODUCT; i++)
		if (i % PRODUCT && product[i])
			sizes |= UINT64_C(1) << (product[i] - 1);
	ht_open_wait(b, n, sizes);
	return ht_out(n, 0);
}
