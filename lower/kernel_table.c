/* Tables: objects of the session that the model fills with constants, or objects of a run that a
 * node fills; and library kernels that look up keys in them. */
#include "lower/index.h"
#include "lower/library.h"
#include "lower/parts.h"
#include "lower/tables.h"

enum { TILE = 4096 /* keys */ };

/* The only node that fills table `t` of a run; NULL: there is none.  It must be in the program
 * itself and not in a body, which may run several times. */
static const struct ht_node *filler_of(const struct ht_node *t)
{
	const struct ht_node *found = NULL;

	if (t->graph->function || !ht_is_table_of_run(t))
		return NULL;
	for (const struct ht_node *n = t->graph->first; n; n = n->next) {
		if (!ht_fills_table(n) || table_of(n) != t)
			continue;
		if (found)
			return NULL;
		found = n;
	}
	return found;
}

static const struct ht_tensor *keys_of(const struct ht_node *t)
{
	return ht_table_part(t, "_values") ? ht_table_part(t, "_keys") : NULL;
}

static int32_t table_buffer(struct lower *l, const struct ht_node *n)
{
	const struct ht_node *t = table_of(n);
	const struct ht_tensor *const part[] = { keys_of(t), ht_table_part(t, "_values") };
	int64_t room = part[0] ? ht_shape_count(part[0]->shape)
			       : ht_shape_count(shape_of(filler_of(t), 1));
	const int64_t param[] = { ht_type_attr(t, "key_dtype"), ht_type_attr(t, "value_dtype"),
		room };

	return plan_object(l, &(struct object_text){ .name = ht_variable_name(t),
				      .kind = "table",
				      .owner = part[0] ? HT_IMAGE_OF_SESSION : HT_IMAGE_OF_RUN,
				      .part = part,
				      .parts = part[0] ? 2 : 0,
				      .param = param,
				      .params = 3 });
}

static enum ht_status emit_fill(struct lower *l, struct ht_node *n)
{
	int32_t table, keys, values;
	struct kernel_build k;

	if (ht_is_mutable_table(table_of(n)))
		return mutable_emit_fill(l, n);
	table = table_buffer(l, n);
	keys = dense_operand(l, n, 1);
	values = dense_operand(l, n, 2);
	if (values == keys)
		values = dense_copy(l, n, 2);
	library_kernel(&k, l, "table_fill", 1, 3);
	k.params[0] = ht_shape_count(shape_of(n, 1));
	k.params[1] = ht_type_of(n->in[1])->dtype;
	k.params[2] = ht_type_of(n->in[2])->dtype;
	kb_arg(&k, table, HT_BUFFER_IN);
	kb_arg(&k, keys, HT_BUFFER_IN);
	kb_arg(&k, values, HT_BUFFER_IN);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_find(struct lower *l, struct ht_node *n)
{
	int64_t count = ht_shape_count(n->out[0].shape);
	int32_t table, keys, none;
	struct kernel_build k;

	if (ht_is_mutable_table(table_of(n)))
		return mutable_emit_find(l, n);
	table = table_buffer(l, n);
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
	struct kernel_build k;

	if (ht_is_mutable_table(table_of(n)))
		return mutable_emit_size(l, n);
	library_kernel(&k, l, "table_size", 1, 0);
	kb_arg(&k, table_buffer(l, n), HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse(const struct ht_node *n)
{
	const struct ht_node *t = table_of(n);

	if (ht_is_mutable_table(t))
		return mutable_refuse(n);
	if (!ht_is_table(t))
		return "is about a table that is known when the program runs";
	if (!ht_table_types(ht_type_attr(t, "key_dtype"), ht_type_attr(t, "value_dtype")))
		return "is about a table from keys to values of types for which there is no kernel";
	if (!keys_of(t) && !filler_of(t))
		return "is about a table that the model does not fill once, with constant keys and values, nor the run";
	return NULL;
}

static const char *refuse_fill(const struct ht_node *n)
{
	const char *why = refuse(n);

	if (ht_is_mutable_table(table_of(n)))
		return mutable_refuse_fill(n);
	if (why)
		return why;
	if (!has_type(n, 1, "key_dtype") || !has_type(n, 2, "value_dtype"))
		return OTHER_TYPES;
	return ht_shape_count(shape_of(n, 1)) != ht_shape_count(shape_of(n, 2))
		       ? "has not one value for each key"
		       : NULL;
}

/* TensorFlow reports an error for these too. */
static const char *refuse_find(const struct ht_node *n)
{
	const char *why = refuse(n);

	if (ht_is_mutable_table(table_of(n)))
		return mutable_refuse_find(n);
	if (why)
		return why;
	if (!has_type(n, 1, "key_dtype") || !has_type(n, 2, "value_dtype"))
		return OTHER_TYPES;
	return shape_of(n, 2).rank ? "has a default value that is no scalar" : NULL;
}

/* The result has a row of elements for each row of keys.  Parts that run at once may not add strings. */
static bool rows_of_keys(const struct parts *p, const struct ht_node *n)
{
	const struct ht_node *t = table_of(n);

	return (!ht_is_mutable_table(t) || !mutable_gives_strings(t)) && rows_of(p, n, 1);
}

const struct lower_op lower_table = { .family = FAMILY_NOTHING };
const struct lower_op lower_table_fill = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_fill,
	.refuse = refuse_fill };
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
