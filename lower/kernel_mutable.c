/* Tables that runs change: objects of the session, or of a run, and library kernels that look
 * keys up, add and remove them, and list them. */
#include "lower/index.h"
#include "lower/library.h"
#include "lower/tables.h"

enum {
	TILE = 4096 /* keys */,
	PARAMS = 3 /* of each kernel: types of the table, elements of a value */
};

/* The type of keys or values: behind pass strings, numbers stand for strings. */
static enum ht_dtype type_of(const struct ht_node *t, const char *type, const char *strings)
{
	return ht_attr_bool(t, strings, false) ? HT_STRING : ht_type_attr(t, type);
}

static enum ht_dtype key_type(const struct ht_node *t)
{
	return type_of(t, "key_dtype", "_string_keys");
}

static enum ht_dtype value_type(const struct ht_node *t)
{
	return type_of(t, "value_dtype", "_string_values");
}

bool mutable_gives_strings(const struct ht_node *table)
{
	return value_type(table) == HT_STRING;
}

static bool has_strings(const struct ht_node *t)
{
	return key_type(t) == HT_STRING || value_type(t) == HT_STRING;
}

/* The contents with which the table begins (passes/tables.c); NULL: none. */
static const struct ht_tensor *first_part(const struct ht_node *t, const char *part)
{
	const struct ht_attr *a = ht_attr_find(t, part);

	return a && a->value.kind == HT_ATTR_TENSOR ? a->value.tensor : NULL;
}

/* Adds a tensor to the parts of an object: strings are two, offsets and bytes. */
static void add_part(
	struct lower *l, const struct ht_tensor **part, int32_t *parts, const struct ht_tensor *t)
{
	if (t && t->dtype == HT_STRING)
		plan_text_parts(l, t->strings, t->values, part + *parts);
	else if (t)
		part[*parts] = t;
	*parts += t ? 1 + (t->dtype == HT_STRING) : 0;
}

static int32_t table_buffer(struct lower *l, const struct ht_node *t)
{
	const struct ht_tensor *part[4];
	int64_t param[6] = { key_type(t), value_type(t), ht_shape_count(ht_table_row(t)) }, *keys;
	int32_t parts = 0;
	size_t reserved;

	keys = ht_attr_ints(t, "_reserved", &reserved, l->arena);
	param[3] = (int64_t)reserved;
	for (size_t i = 0; i < reserved && i < 2; i++)
		param[4 + i] = keys[i];
	add_part(l, part, &parts, first_part(t, "_first_keys"));
	add_part(l, part, &parts, first_part(t, "_first_values"));
	return plan_object(
		l, &(struct object_text){ .name = ht_variable_name(t),
			   .kind = "mutable_table",
			   .owner = ht_is_table_of_run(t) ? HT_IMAGE_OF_RUN : HT_IMAGE_OF_SESSION,
			   .part = part,
			   .parts = parts,
			   .param = param,
			   .params = 6 });
}

/* Begins a kernel of the table, with room for `params` more parameters. */
static void begin(struct kernel_build *k, struct lower *l, const char *name, int64_t tiles,
	const struct ht_node *t, int params)
{
	library_kernel(k, l, name, tiles, PARAMS + params);
	k->params[0] = key_type(t);
	k->params[1] = value_type(t);
	k->params[2] = ht_shape_count(ht_table_row(t));
	kb_arg(k, table_buffer(l, t), HT_BUFFER_IN);
	if (has_strings(t))
		kb_arg(k, plan_strings_object(l), HT_BUFFER_IN);
}

static int32_t other_operand(struct lower *l, const struct ht_node *n, int arg, int32_t than)
{
	int32_t b = dense_operand(l, n, arg);

	return b == than ? dense_copy(l, n, arg) : b;
}

static enum ht_status emit_insert(struct lower *l, struct ht_node *n, bool clears)
{
	int32_t keys = dense_operand(l, n, 1), values = other_operand(l, n, 2, keys);
	struct kernel_build k;

	begin(&k, l, "mutable_insert", 1, table_of(n), 2);
	k.params[PARAMS] = ht_shape_count(shape_of(n, 1));
	k.params[PARAMS + 1] = clears;
	kb_arg(&k, keys, HT_BUFFER_IN);
	kb_arg(&k, values, HT_BUFFER_IN);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_table_insert(struct lower *l, struct ht_node *n)
{
	return emit_insert(l, n, false);
}

enum ht_status mutable_emit_fill(struct lower *l, struct ht_node *n)
{
	return emit_insert(l, n, true);
}

static enum ht_status emit_remove(struct lower *l, struct ht_node *n)
{
	int32_t keys = dense_operand(l, n, 1);
	struct kernel_build k;

	begin(&k, l, "mutable_remove", 1, table_of(n), 1);
	k.params[PARAMS] = ht_shape_count(shape_of(n, 1));
	kb_arg(&k, keys, HT_BUFFER_IN);
	kb_finish(&k, n);
	return HT_OK;
}

static bool has_own_defaults(const struct ht_node *n)
{
	return shape_of(n, 2).rank > ht_table_row(table_of(n)).rank;
}

/* One tile if strings are added to those of the run. */
enum ht_status mutable_emit_find(struct lower *l, struct ht_node *n)
{
	int64_t count = ht_shape_count(shape_of(n, 1)),
		tile = mutable_gives_strings(table_of(n)) ? count : TILE;
	int32_t keys, none;
	struct kernel_build k;

	if (count == 0)
		return HT_OK;
	keys = dense_operand(l, n, 1);
	none = other_operand(l, n, 2, keys);
	begin(&k, l, "mutable_find", (count + tile - 1) / tile, table_of(n), 3);
	k.params[PARAMS] = count;
	k.params[PARAMS + 1] = tile;
	k.params[PARAMS + 2] = has_own_defaults(n);
	kb_arg(&k, keys, HT_BUFFER_IN);
	kb_arg(&k, none, HT_BUFFER_IN);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

enum ht_status mutable_emit_size(struct lower *l, struct ht_node *n)
{
	struct kernel_build k;

	begin(&k, l, "mutable_size", 1, table_of(n), 0);
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_finish(&k, n);
	return HT_OK;
}

static enum ht_status emit_export(struct lower *l, struct ht_node *n)
{
	struct kernel_build k;

	begin(&k, l, "mutable_export", 1, table_of(n), 1);
	k.params[PARAMS] = n->out[0].shape.dim[0];
	kb_arg(&k, dense_result(l, n, 0), HT_BUFFER_OUT);
	kb_arg(&k, dense_result(l, n, 1), HT_BUFFER_OUT);
	finish_computing(&k, l, n);
	return HT_OK;
}

/* ---- what is refused ---- */

const char *mutable_refuse(const struct ht_node *n)
{
	const struct ht_node *t = table_of(n);

	if (!ht_is_mutable_table(t))
		return "is about a table that is known when the program runs, or that does not change";
	if (ht_is_table_of_run(t) && t->graph->function)
		return "is about a table that a branch, a loop or a function that calls itself makes";
	if (!ht_mutable_table_types(key_type(t), value_type(t)))
		return "is about a table from keys to values of types for which there is no kernel";
	if (!ht_shape_known(ht_table_row(t)) || !ht_shape_count(ht_table_row(t)))
		return "is about a table whose values have no shape that is known, or no elements";
	if (ht_shape_count(ht_table_row(t)) < 0 || ht_shape_count(ht_table_row(t)) >= INT32_MAX)
		return "is about a table whose values have more elements than fit";
	if (has_strings(t) && !n->graph->library->strings)
		return "is about a table of strings in a graph whose strings have no numbers";
	return NULL;
}

static const char *refuse_insert(const struct ht_node *n)
{
	const char *why = mutable_refuse(n);

	if (why)
		return why;
	if (!has_type(n, 1, "key_dtype") || !has_type(n, 2, "value_dtype"))
		return OTHER_TYPES;
	return ht_shape_count(shape_of(n, 2)) != ht_shape_count(shape_of(n, 1)) *
							 ht_shape_count(ht_table_row(table_of(n)))
		       ? "has not one value for each key"
		       : NULL;
}

/* TensorFlow lists and imports all places of a dense table, empty ones as well. */
static const char *refuse_dense(const struct ht_node *n)
{
	return ht_attr_find(table_of(n), "_reserved")
		       ? "lists or imports a dense table, which TensorFlow does with the places of its keys"
		       : NULL;
}

const char *mutable_refuse_fill(const struct ht_node *n)
{
	const char *why = refuse_insert(n);

	return why ? why : refuse_dense(n);
}

static const char *refuse_remove(const struct ht_node *n)
{
	const char *why = mutable_refuse(n);

	return why ? why : has_type(n, 1, "key_dtype") ? NULL : OTHER_TYPES;
}

const char *mutable_refuse_find(const struct ht_node *n)
{
	const char *why = mutable_refuse(n);
	int64_t count;

	if (why)
		return why;
	if (!has_type(n, 1, "key_dtype") || !has_type(n, 2, "value_dtype"))
		return OTHER_TYPES;
	if (has_own_defaults(n) && ht_attr_find(table_of(n), "_reserved"))
		return "has a default value for each key of a dense table";
	count = ht_shape_count(has_own_defaults(n) ? n->out[0].shape : ht_table_row(table_of(n)));
	return ht_shape_count(shape_of(n, 2)) == count
		       ? NULL
		       : "has a default value that is neither one value nor one for each key";
}

static const char *refuse_export(const struct ht_node *n)
{
	const char *why = mutable_refuse(n);

	if (why)
		return why;
	return n->out[0].dtype == ht_type_attr(table_of(n), "key_dtype") &&
			       n->out[1].dtype == ht_type_attr(table_of(n), "value_dtype")
		       ? refuse_dense(n)
		       : OTHER_TYPES;
}

const struct lower_op lower_table_insert = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_table_insert,
	.refuse = refuse_insert };
const struct lower_op lower_table_remove = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_remove,
	.refuse = refuse_remove };
const struct lower_op lower_table_export = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.variables = 1,
	.emit = emit_export,
	.refuse = refuse_export };
