/* Constant tensors. */
#include "ir/ir.h"

#include <string.h>

void ht_tensor_drop(struct ht_tensor *t)
{
	if (t->blob)
		ht_blob_unref(t->blob);
	t->blob = NULL;
}

void ht_const_drop(const struct ht_node *n)
{
	const struct ht_attr *a =
		ht_is(n, HT_CONSTANT) && !n->shares_attrs ? ht_attr_find(n, "value") : NULL;

	if (a && a->value.kind == HT_ATTR_TENSOR)
		ht_tensor_drop(a->value.tensor);
}

static void drop_deferred(void *t)
{
	ht_tensor_drop(t);
}

struct ht_tensor *ht_tensor_new(
	struct ht_arena *a, enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob)
{
	struct ht_tensor *tensor = HT_NEW(a, struct ht_tensor);

	tensor->dtype = t;
	tensor->shape = shape;
	tensor->form = HT_TENSOR_CONTENT;
	tensor->blob = blob;
	ht_arena_defer(a, drop_deferred, tensor);
	return tensor;
}

static const struct ht_tensor *tensor_attr(const struct ht_node *n, const char *name)
{
	const struct ht_attr *a = ht_attr_find(n, name);

	return a && a->value.kind == HT_ATTR_TENSOR && a->value.tensor->blob ? a->value.tensor
									     : NULL;
}

const struct ht_tensor *ht_const_tensor(struct ht_value v)
{
	return ht_is(v.node, HT_CONSTANT) ? tensor_attr(v.node, "value") : NULL;
}

struct ht_str ht_variable_name(const struct ht_node *n)
{
	struct ht_str shared = ht_attr_str(n, "shared_name", "");

	return shared.n ? shared : n->name;
}

const struct ht_tensor *ht_variable_value(const struct ht_node *n)
{
	const struct ht_attr *a = ht_is(n, HT_VARIABLE) ? ht_attr_find(n, "_value") : NULL;

	return a && a->value.kind == HT_ATTR_TENSOR ? a->value.tensor : NULL;
}

const struct ht_tensor *ht_table_part(const struct ht_node *n, const char *part)
{
	return ht_is_table(n) ? tensor_attr(n, part) : NULL;
}

const struct ht_tensor *ht_const_text(struct ht_value v)
{
	const struct ht_attr *a = ht_is(v.node, HT_CONSTANT) ? ht_attr_find(v.node, "value") : NULL;
	const struct ht_tensor *t = a && a->value.kind == HT_ATTR_TENSOR ? a->value.tensor : NULL;

	return t && t->dtype == HT_STRING && ht_shape_known(t->shape) &&
			       (t->strings || !ht_shape_count(t->shape))
		       ? t
		       : NULL;
}

bool ht_const_ints(struct ht_value v, struct ht_arena *a, int64_t **p, size_t *n)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	const char *bytes;
	int32_t narrow;

	if (!t || !ht_is_index(t->dtype))
		return false;
	bytes = t->blob->p;
	*n = t->blob->n / ht_dtype_info(t->dtype)->bytes;
	*p = HT_NEW_ARRAY(a, int64_t, *n);
	if (t->dtype == HT_I64 && *n)
		memcpy(*p, bytes, *n * sizeof **p);
	for (size_t i = 0; t->dtype == HT_I32 && i < *n; i++) {
		memcpy(&narrow, bytes + i * sizeof narrow, sizeof narrow);
		(*p)[i] = narrow;
	}
	return true;
}

struct ht_node *ht_const_new(struct ht_graph *g, struct ht_str name, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *blob)
{
	struct ht_node *n = ht_node_new(g, HT_STR("Const"), name);

	if (shape.rank > 0)
		shape = ht_shape_make(g->arena, shape.rank, shape.dim);
	ht_attr_set_type(n, "dtype", t);
	ht_attr_set_tensor(n, "value", ht_tensor_new(g->arena, t, shape, blob));
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ t, shape };
	return n;
}

struct ht_tensor *ht_tensor_sharing(
	struct ht_arena *a, enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob)
{
	struct ht_tensor *tensor = ht_tensor_new(a, t, shape, NULL);

	tensor->blob = ht_blob_ref(blob);
	return tensor;
}

struct ht_node *ht_const_sharing(struct ht_graph *g, struct ht_str name, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *blob)
{
	struct ht_node *n = ht_const_new(g, name, t, shape, NULL);

	ht_attr_find(n, "value")->value.tensor->blob = ht_blob_ref(blob);
	return n;
}

int64_t ht_tensor_int(const struct ht_tensor *t, size_t i)
{
	switch (t->dtype) {
	case HT_BOOL:
	case HT_U8:
		return ((const uint8_t *)t->blob->p)[i];
	case HT_I8:
		return ((const int8_t *)t->blob->p)[i];
	case HT_U16:
		return (uint16_t)ht_load_i16(t->blob->p, (int64_t)i);
	case HT_I16:
		return ht_load_i16(t->blob->p, (int64_t)i);
	case HT_I32:
		return ht_load_i32(t->blob->p, (int64_t)i);
	default:
		HT_CHECK(t->dtype == HT_I64);
		return ht_load_i64(t->blob->p, (int64_t)i);
	}
}
