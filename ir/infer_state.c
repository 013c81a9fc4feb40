/* Rules of variables, iterators and arrays. */
#include "ir/infer.h"

static struct ht_shape shape_attr(const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "shape");

	return a && a->value.kind == HT_ATTR_SHAPE ? a->value.shape.shape : HT_SHAPE_UNKNOWN;
}

enum ht_status ht_infer_variable(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	n->out[0].shape = shape_attr(n);
	/* TensorFlow 1 writes the shape [] for variables of unknown shape. */
	if (n->op == HT_OP_Variable && n->out[0].shape.rank == 0)
		n->out[0].shape = HT_SHAPE_UNKNOWN;
	return HT_OK;
}

enum ht_status ht_infer_float_status(struct ht_infer *in, struct ht_node *n)
{
	static const int64_t numbers[1] = { 8 };

	(void)in;
	n->out[0].shape = (struct ht_shape){ 1, numbers };
	return HT_OK;
}

enum ht_status ht_infer_assign(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	n->out[0].shape = ht_in_shape(n, 1);
	return HT_OK;
}

/* The node that makes handle `h`. */
static const struct ht_node *maker_of(struct ht_value h)
{
	while (ht_is(h.node, HT_FORWARDS | HT_ENTERS) && h.index >= 0 && h.index < h.node->ins)
		h = h.node->in[h.index];
	return h.node;
}

/* The node that makes the handle in operand 0. */
static const struct ht_node *handle_of(const struct ht_node *n)
{
	return maker_of(n->in[0]);
}

/* Of an argument that is a handle: the shape of the variable. */
#define HANDLE_SHAPE "_handle_shape"

static struct ht_shape variable_shape(const struct ht_node *maker)
{
	const struct ht_attr *a =
		ht_is(maker, HT_ARGUMENT) ? ht_attr_find(maker, HANDLE_SHAPE) : NULL;

	if (ht_is(maker, HT_VARIABLE))
		return shape_attr(maker);
	return a && a->value.kind == HT_ATTR_SHAPE ? a->value.shape.shape : HT_SHAPE_UNKNOWN;
}

struct ht_shape ht_handle_shape(const struct ht_node *n)
{
	return variable_shape(handle_of(n));
}

void ht_pass_handle_shape(struct ht_node *arg, struct ht_value handle)
{
	struct ht_shape s = variable_shape(maker_of(handle));

	if (s.rank >= 0 && !ht_shape_eq(s, variable_shape(arg)))
		ht_attr_set_shape(arg, HANDLE_SHAPE, s);
}

/* A value of the table for each key. */
enum ht_status ht_infer_table_find(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_node *table = handle_of(n);
	struct ht_shape keys = ht_in_shape(n, 1), row = ht_table_row(table);
	int64_t *d;

	if (!ht_is_table(table) || keys.rank < 0 || row.rank < 0)
		return HT_OK;
	d = ht_new_dims(in, keys.rank + row.rank);
	for (int32_t i = 0; i < keys.rank; i++)
		d[i] = keys.dim[i];
	for (int32_t i = 0; i < row.rank; i++)
		d[keys.rank + i] = row.dim[i];
	ht_set_shape(n, 0, keys.rank + row.rank, d);
	return HT_OK;
}

/* All keys, and a value for each. */
enum ht_status ht_infer_table_export(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_node *table = handle_of(n);
	struct ht_shape row = ht_table_row(table);
	int64_t *keys = ht_new_dims(in, 1), *values;

	keys[0] = ht_computed_dim(in, n);
	ht_set_shape(n, 0, 1, keys);
	if (!ht_is_table(table) || row.rank < 0)
		return HT_OK;
	values = ht_new_dims(in, 1 + row.rank);
	values[0] = keys[0];
	for (int32_t i = 0; i < row.rank; i++)
		values[1 + i] = row.dim[i];
	ht_set_shape(n, 1, 1 + row.rank, values);
	return HT_OK;
}

enum ht_status ht_infer_read_variable(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	n->out[0].shape = ht_handle_shape(n);
	return HT_OK;
}

enum ht_status ht_infer_variable_shape(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);
	struct ht_shape s = ht_handle_shape(n);

	if (s.rank >= 0)
		d[0] = s.rank;
	ht_set_shape(n, 0, 1, d);
	return HT_OK;
}

enum ht_status ht_infer_arg(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	(void)n;
	return HT_OK;
}

enum ht_status ht_infer_iterator(struct ht_infer *in, struct ht_node *n)
{
	(void)in;
	ht_listed_shapes(n, "output_shapes");
	return HT_OK;
}

/* Results: the handle of an array, and the value that orders its uses. */
enum ht_status ht_infer_tensor_array(struct ht_infer *in, struct ht_node *n)
{
	int64_t *d = ht_new_dims(in, 1);

	d[0] = 2;
	ht_set_shape(n, 0, 1, d);
	n->out[1].shape = HT_SHAPE_SCALAR;
	return HT_OK;
}
