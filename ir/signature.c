/* The formal arguments and results of a row, resolved by a node's attributes. */
#include "ir/ir.h"

/* No list of tensors is longer; a larger attribute N is wrong, and must not cause long loops. */
#define MAX_TENSORS (1 << 20)

/* Attribute names are short, and the getters take a C string. */
static const struct ht_attr *find(const struct ht_node *n, struct ht_str name)
{
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		if (ht_str_eq(a->name, name))
			return a;
	return NULL;
}

static const struct ht_attr_value *type_list(const struct ht_node *n, const struct ht_op_arg *arg)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	const struct ht_attr *a = find(n, info->type_attr[arg->type_attr].name);

	return a && a->value.kind == HT_ATTR_LIST &&
			       (a->value.list.kind == HT_ATTR_TYPE || !a->value.list.n)
		       ? &a->value
		       : NULL;
}

static int32_t count_by_attr(const struct ht_node *n, const struct ht_op_arg *arg)
{
	const struct ht_attr_value *list;
	const struct ht_attr *a;

	if (arg->type_list) {
		list = type_list(n, arg);
		return list && list->list.n <= MAX_TENSORS ? (int32_t)list->list.n : -1;
	}
	if (!arg->number_attr.n)
		return 1;
	a = find(n, arg->number_attr);
	if (!a)
		return arg->number_default;
	return a->value.kind == HT_ATTR_INT && a->value.i >= 0 && a->value.i <= MAX_TENSORS
		       ? (int32_t)a->value.i
		       : -1;
}

/* The number of operands that the other arguments leave, if theirs are all known. */
static int32_t rest_of_operands(const struct ht_node *n, const struct ht_op_arg *arg)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t rest = n->ins, count;

	if (arg < info->arg || arg >= info->arg + info->args)
		return -1;
	for (int i = 0; i < info->args; i++) {
		if (&info->arg[i] == arg)
			continue;
		count = count_by_attr(n, &info->arg[i]);
		if (count < 0 || count > rest)
			return -1;
		rest -= count;
	}
	return rest;
}

int32_t ht_formal_count(const struct ht_node *n, const struct ht_op_arg *arg)
{
	int32_t count = count_by_attr(n, arg);
	struct ht_str attr;

	if (count >= 0)
		return count;
	attr = arg->type_list ? ht_op_info(n->op)->type_attr[arg->type_attr].name
			      : arg->number_attr;
	return find(n, attr) ? -1 : rest_of_operands(n, arg);
}

static enum ht_dtype widened(const struct ht_node *n, enum ht_dtype t)
{
	return t == HT_F32 && n->graph->library->wide ? HT_F64 : t;
}

enum ht_dtype ht_formal_dtype(const struct ht_node *n, const struct ht_op_arg *arg, int32_t i)
{
	const struct ht_op_type_attr *type;
	const struct ht_attr_value *list;
	const struct ht_attr *a;

	if (arg->type_attr < 0)
		return widened(n, arg->fixed);
	if (arg->type_list) {
		list = type_list(n, arg);
		return list && (size_t)i < list->list.n ? list->list.item[i].type : HT_INVALID;
	}
	type = &ht_op_info(n->op)->type_attr[arg->type_attr];
	a = find(n, type->name);
	return a && a->value.kind == HT_ATTR_TYPE ? a->value.type : widened(n, type->fallback);
}

static int32_t total(const struct ht_node *n, const struct ht_op_arg *arg, int args)
{
	int32_t sum = 0, count;

	for (int i = 0; i < args; i++) {
		count = ht_formal_count(n, &arg[i]);
		if (count < 0 || sum > INT32_MAX - count)
			return -1;
		sum += count;
	}
	return sum;
}

int32_t ht_node_arg_count(const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	return n->op == HT_OP_OPAQUE ? -1 : total(n, info->arg, info->args);
}

int32_t ht_node_result_count(const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	return n->op == HT_OP_OPAQUE ? -1 : total(n, info->result, info->results);
}

int32_t ht_node_result_named(const struct ht_node *n, struct ht_str port, int32_t index)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t first = 0, count;

	if (n->op == HT_OP_OPAQUE)
		return -1;
	for (int i = 0; i < info->results; i++, first += count) {
		count = ht_formal_count(n, &info->result[i]);
		if (count < 0)
			return -1;
		if (ht_str_eq(info->result[i].name, port))
			return index >= 0 && index < count ? first + index : -1;
	}
	return -1;
}

struct ht_str ht_node_result_name(const struct ht_node *n, int32_t result, int32_t *index)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t first = 0, count;

	for (int i = 0; n->op != HT_OP_OPAQUE && i < info->results; i++, first += count) {
		count = ht_formal_count(n, &info->result[i]);
		if (count < 0)
			break;
		if (result >= first && result - first < count) {
			*index = result - first;
			return info->result[i].name;
		}
	}
	return (struct ht_str){ NULL, 0 };
}
