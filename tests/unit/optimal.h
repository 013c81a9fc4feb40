/* Small graphs, and the decisions of policies about them. */
#ifndef HT_TEST_OPTIMAL_H
#define HT_TEST_OPTIMAL_H

#include "tests/unit/precision.h"
#include "tests/unit/unit.h"

static struct ht_node *input(struct bench *b, const char *name, int32_t rank, const int64_t *dim)
{
	struct ht_node *n =
		ht_node_new(b->g, HT_STR("Placeholder"), ht_str_copy(&b->arena, ht_str(name)));
	struct ht_attr_value *v = ht_attr_set(n, "shape");

	v->kind = HT_ATTR_SHAPE;
	v->shape.shape = ht_shape_make(&b->arena, rank, dim);
	ht_attr_set_type(n, "dtype", HT_F32);
	ht_node_set_outs(n, 1);
	return n;
}

/* All elements are `x`. */
static struct ht_node *constant(
	struct bench *b, const char *name, float x, int32_t rank, const int64_t *dim)
{
	struct ht_shape s = ht_shape_make(&b->arena, rank, dim);
	size_t n = (size_t)ht_shape_count(s);
	struct ht_blob *blob = ht_blob_new(n * sizeof x);

	for (size_t i = 0; i < n; i++)
		memcpy((char *)(uintptr_t)blob->p + i * sizeof x, &x, sizeof x);
	return ht_const_new(b->g, ht_str_copy(&b->arena, ht_str(name)), HT_F32, s, blob);
}

static struct ht_node *op(
	struct bench *b, const char *type, const char *name, struct ht_node *x, struct ht_node *y)
{
	struct ht_node *n = ht_node_new(b->g, ht_str(type), ht_str_copy(&b->arena, ht_str(name)));
	struct ht_value in[] = { ht_out(x, 0), { 0 } };

	if (y)
		in[1] = ht_out(y, 0);
	ht_node_set_ins(n, in, y ? 2 : 1);
	ht_attr_set_type(n, "T", HT_F32);
	ht_node_set_outs(n, 1);
	return n;
}

static const int64_t square[] = { 256, 256 };
#define BF16_TARGET "x86-64-v4+bf16"

#endif
