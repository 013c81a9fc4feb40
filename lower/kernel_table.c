/* Tables that the model fills with constants: objects of the session, and library kernels that look into them. */
#include "lower/index.h"
#include "lower/library.h"
#include "lower/parts.h"

enum { TILE = 4096 /* keys */ };

static const struct ht_node *table_of(const struct ht_node *n)
{
	return n->in[0].node;
}

static int32_t table_buffer(struct lower *l, const struct ht_node *n)
{
	const struct ht_tensor *keys = ht_table_part(table_of(n), "_keys"),
			       *values = ht_table_part(table_of(n), "_values");
	const int64_t param[] = { keys->dtype, values->dtype, ht_shape_count(keys->shape) };
	const struct ht_tensor *const part[] = { keys, values };

	return plan_object(l, ht_variable_name(table_of(n)), "table", part, 2, param, 3);
}

static enum ht_status emit_find(struct lower *l, struct ht_node *n)
{
	int64_t count = ht_shape_count(n->out[0].shape);
	int32_t table = table_buffer(l, n), keys, none;
	struct kernel_build k;

	if (count == 0)
		return HT_OK;
	keys = dense_operand(l, n, 1);
	none = dense_operand(l, n, 2);
	if (none == keys)
		none = dense_copy(l, n, 2);
	library_kernel(&k, l, "table_find", (count + TILE - 1) / TILE, 4);
	k.params[0] = count;
	k.params[1] = TILE;
	k.params[2] = ht_type_of(n->in[1])->dtype;
	k.params[3] = n->out[0].dtype;
	kb_arg(&k, table, HT_BUFFER_IN);
	kb_arg(&k, keys, HT_BUFFER_IN);
	kb_arg(&k, none, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_size(struct lower *l, struct ht_node *n)
{
	int32_t table = table_buffer(l, n);
	struct kernel_build k;

	library_kernel(&k, l, "table_size", 1, 0);
	kb_arg(&k, table, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse(const struct ht_node *n)
{
	const struct ht_node *t = table_of(n);

	if (!ht_is_table(t))
		return "is about a table that is known when the program runs";
	if (!ht_table_types(ht_type_attr(t, "key_dtype"), ht_type_attr(t, "value_dtype")))
		return "is about a table from keys to values of types for which there is no kernel";
	if (!ht_table_part(t, "_keys") || !ht_table_part(t, "_values"))
		return "is about a table that the model does not fill once, with constant keys and values";
	return NULL;
}

/* TensorFlow has an error for these too. */
static const char *refuse_find(const struct ht_node *n)
{
	const char *why = refuse(n);

	if (why)
		return why;
	if (ht_type_of(n->in[1])->dtype != ht_table_part(table_of(n), "_keys")->dtype ||
		n->out[0].dtype != ht_table_part(table_of(n), "_values")->dtype)
		return "looks for keys or values of other types than its table has";
	return shape_of(n, 2).rank ? "has a default value that is no scalar" : NULL;
}

/* An element of the result is found for the key in its place. */
static bool rows_of_keys(const struct parts *p, const struct ht_node *n)
{
	return rows_of(p, n, 1);
}

const struct lower_op lower_table = { .family = FAMILY_NOTHING };
const struct lower_op lower_table_find = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.variables = 1,
	.emit = emit_find,
	.refuse = refuse_find,
	.rows = rows_of_keys };
const struct lower_op lower_table_size = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.variables = 1,
	.emit = emit_size,
	.refuse = refuse };
