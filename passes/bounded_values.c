/* Open sizes as values: a value that is computed from shapes becomes a tensor of integers if a
 * node computes with it. */
#include "ir/infer.h"
#include "passes/bounded.h"

enum { PRODUCT = HT_OPEN_PRODUCT };

static bool read_product(const struct ht_graph *g, struct ht_elem e, int64_t *to)
{
	struct ht_size_expr of;

	if (e.kind == HT_ELEM_INT) {
		to[0] = e.i;
		return true;
	}
	if (e.kind != HT_ELEM_DIM || ht_dim_most(g, e.i) < 0)
		return false;
	of = ht_dim_of_sizes(g, e.i);
	to[0] = of.times;
	for (int i = 0; i < ht_size_count(&of); i++)
		to[1 + i] = of.size[i];
	return true;
}

static int64_t *products_of(const struct ht_bounded *b, struct ht_value v, int64_t count)
{
	int64_t *all = HT_NEW_ARRAY(b->r.arena, int64_t, (size_t)count *PRODUCT);

	for (int64_t i = 0; i < count; i++)
		if (!read_product(b->r.g, ht_open_element(b, v, (int32_t)i), &all[i * PRODUCT]))
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

/* A node that gives these products; what computes the sizes comes before. */
static struct ht_node *sizes_node(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_type type, const int64_t *product)
{
	struct ht_node *n = ht_rw_node(r, before, HT_OP__Sizes, name, NULL, 0, type);

	ht_attr_set_type(n, "dtype", type.dtype);
	ht_attr_set_shape(n, "shape", type.shape);
	ht_attr_set_ints(n, "of", product, (size_t)(ht_shape_count(type.shape) * PRODUCT));
	return n;
}

static struct ht_value value_of_dims(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_type type, const int64_t *dim)
{
	int64_t product[HT_MAX_RANK * PRODUCT] = { 0 };

	for (int64_t i = 0; i < ht_shape_count(type.shape); i++)
		HT_CHECK(read_product(r->g, ht_elem_of_dim(dim[i]), &product[i * PRODUCT]));
	return ht_out(sizes_node(r, before, name, type, product), 0);
}

struct ht_value ht_dims_value(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, struct ht_shape s)
{
	int64_t rank = s.rank;

	if (ht_shape_known(s))
		return ht_rw_const_ints(r, before, name, t, s.dim, s.rank);
	return value_of_dims(r, before, name,
		(struct ht_type){ t, ht_shape_make(r->g->arena, 1, &rank) }, s.dim);
}

struct ht_value ht_dim_value(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, int64_t dim)
{
	if (dim >= 0)
		return ht_rw_scalar(r, before, name, t, dim);
	return value_of_dims(r, before, name, (struct ht_type){ t, HT_SHAPE_SCALAR }, &dim);
}

struct ht_value ht_open_products(struct ht_bounded *b, struct ht_node *before, struct ht_str name,
	struct ht_type type, const int64_t *product)
{
	struct ht_node *n = sizes_node(&b->r, before, name, type, product);
	int64_t items = ht_shape_count(type.shape) * PRODUCT;
	struct ht_size_set sizes = { 0 };

	for (int64_t i = 0; i < items; i++)
		if (i % PRODUCT && product[i])
			ht_size_set_add(&sizes, product[i]);
	ht_open_wait(b, n, &sizes);
	return ht_out(n, 0);
}

struct ht_value ht_open_value(struct ht_bounded *b, struct ht_value v)
{
	const struct ht_type t = *ht_type_of(v);

	return ht_open_products(
		b, v.node, v.node->name, t, products_of(b, v, ht_shape_count(t.shape)));
}

struct ht_value ht_open_largest(struct ht_bounded *b, struct ht_node *n, struct ht_value v)
{
	const struct ht_type *t = ht_type_of(v);
	int64_t count = ht_shape_count(t->shape);
	int64_t *most = HT_NEW_ARRAY(b->r.arena, int64_t, (size_t)count + 1);

	for (int64_t i = 0; i < count; i++) {
		struct ht_elem e = ht_open_element(b, v, (int32_t)i);

		most[i] = e.kind == HT_ELEM_INT ? e.i : ht_open_most(b, e.i);
	}
	if (!t->shape.rank)
		return ht_rw_scalar(&b->r, n, v.node->name, t->dtype, most[0]);
	return ht_rw_const_ints(&b->r, n, v.node->name, t->dtype, most, count);
}
