/* Attributes of nodes. */
#include "ir/ir.h"

#include <stdio.h>
#include <string.h>

enum { FEW_ATTRS = 32 };

const struct ht_attr *ht_attr_find(const struct ht_node *n, const char *name)
{
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		if (ht_str_is(a->name, name))
			return a;
	return NULL;
}

void ht_attrs_own(struct ht_node *n)
{
	if (n->shares_attrs)
		n->attrs = ht_attrs_copy(n->attrs, NULL, n->graph->arena);
	n->shares_attrs = false;
}

static bool has_type(const struct ht_attr_value *v, enum ht_dtype t)
{
	if (v->kind == HT_ATTR_TYPE)
		return v->type == t;
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		if (has_type(&v->list.item[i], t))
			return true;
	return false;
}

static void retype(struct ht_attr_value *v, enum ht_dtype from, enum ht_dtype to)
{
	if (v->kind == HT_ATTR_TYPE && v->type == from)
		v->type = to;
	for (size_t i = 0; v->kind == HT_ATTR_LIST && i < v->list.n; i++)
		retype(&v->list.item[i], from, to);
}

bool ht_attrs_have_type(const struct ht_node *n, enum ht_dtype t)
{
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		if (has_type(&a->value, t))
			return true;
	return false;
}

void ht_attrs_retype(struct ht_node *n, enum ht_dtype from, enum ht_dtype to)
{
	if (!ht_attrs_have_type(n, from))
		return;
	ht_attrs_own(n);
	for (struct ht_attr *a = n->attrs; a; a = a->next)
		retype(&a->value, from, to);
}

struct ht_attr *ht_attr_own(struct ht_node *n, const char *name)
{
	ht_attrs_own(n);
	return (struct ht_attr *)(uintptr_t)ht_attr_find(n, name);
}

static const struct ht_attr_value *of_kind(
	const struct ht_node *n, const char *name, enum ht_attr_kind kind)
{
	const struct ht_attr *a = ht_attr_find(n, name);

	return a && a->value.kind == kind ? &a->value : NULL;
}

int64_t ht_attr_int(const struct ht_node *n, const char *name, int64_t fallback)
{
	const struct ht_attr_value *v = of_kind(n, name, HT_ATTR_INT);

	return v ? v->i : fallback;
}

float ht_attr_float(const struct ht_node *n, const char *name, float fallback)
{
	const struct ht_attr_value *v = of_kind(n, name, HT_ATTR_FLOAT);

	return v ? v->f : fallback;
}

bool ht_attr_bool(const struct ht_node *n, const char *name, bool fallback)
{
	const struct ht_attr_value *v = of_kind(n, name, HT_ATTR_BOOL);

	return v ? v->b : fallback;
}

struct ht_str ht_attr_str(const struct ht_node *n, const char *name, const char *fallback)
{
	const struct ht_attr_value *v = of_kind(n, name, HT_ATTR_STRING);

	return v ? v->s : ht_str(fallback);
}

bool ht_channels_first(const struct ht_node *n)
{
	struct ht_str format = ht_attr_str(n, "data_format", "NHWC");

	return ht_str_is(format, "NCHW") || ht_str_is(format, "NCDHW");
}

enum ht_dtype ht_attr_type(const struct ht_node *n, const char *name, enum ht_dtype fallback)
{
	const struct ht_attr_value *v = of_kind(n, name, HT_ATTR_TYPE);

	return v ? v->type : fallback;
}

enum ht_dtype ht_type_attr(const struct ht_node *n, const char *name)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	for (int i = 0; i < info->type_attrs; i++)
		if (ht_str_is(info->type_attr[i].name, name))
			return ht_attr_type(n, name, info->type_attr[i].fallback);
	return ht_attr_type(n, name, HT_INVALID);
}

int64_t *ht_attr_ints(const struct ht_node *n, const char *name, size_t *count, struct ht_arena *a)
{
	const struct ht_attr_value *v = of_kind(n, name, HT_ATTR_LIST);
	int64_t *p;

	*count = 0;
	if (!v || (v->list.kind != HT_ATTR_INT && v->list.n))
		return NULL;
	p = HT_NEW_ARRAY(a, int64_t, v->list.n);
	for (size_t i = 0; i < v->list.n; i++)
		p[i] = v->list.item[i].i;
	*count = v->list.n;
	return p;
}

struct ht_attr_name ht_attr_name(struct ht_str name)
{
	struct ht_attr_name n;

	snprintf(n.s, sizeof n.s, "%.*s", HT_STR_ARG(name));
	return n;
}

/* The names of type attributes are in the op table; passes set few others. */
static struct ht_str lasting_name(const struct ht_node *n, const char *name)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	for (int i = 0; i < info->type_attrs; i++)
		if (ht_str_is(info->type_attr[i].name, name))
			return info->type_attr[i].name;
	return ht_str_copy(n->graph->arena, ht_str(name));
}

struct ht_attr_value *ht_attr_set(struct ht_node *n, const char *name)
{
	struct ht_attr **end = &n->attrs;

	ht_attrs_own(n);
	for (; *end; end = &(*end)->next) {
		if (!ht_str_is((*end)->name, name))
			continue;
		memset(&(*end)->value, 0, sizeof(*end)->value);
		return &(*end)->value;
	}
	*end = HT_NEW(n->graph->arena, struct ht_attr);
	(*end)->name = lasting_name(n, name);
	return &(*end)->value;
}

void ht_attr_set_int(struct ht_node *n, const char *name, int64_t i)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_INT, .i = i };
}

void ht_attr_set_bool(struct ht_node *n, const char *name, bool b)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_BOOL, .b = b };
}

void ht_attr_set_float(struct ht_node *n, const char *name, float f)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_FLOAT, .f = f };
}

void ht_attr_set_str(struct ht_node *n, const char *name, struct ht_str s)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_STRING,
		.s = ht_str_copy(n->graph->arena, s) };
}

void ht_attr_set_shape(struct ht_node *n, const char *name, struct ht_shape s)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_SHAPE, .shape.shape = s };
}

void ht_attr_set_type(struct ht_node *n, const char *name, enum ht_dtype t)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_TYPE, .type = t };
}

void ht_attr_set_ints(struct ht_node *n, const char *name, const int64_t *v, size_t count)
{
	struct ht_attr_value *value = ht_attr_set(n, name);

	value->kind = HT_ATTR_LIST;
	value->list.kind = count ? HT_ATTR_INT : HT_ATTR_NONE;
	value->list.n = count;
	value->list.item = HT_NEW_ARRAY(n->graph->arena, struct ht_attr_value, count);
	for (size_t i = 0; i < count; i++)
		value->list.item[i] = (struct ht_attr_value){ .kind = HT_ATTR_INT, .i = v[i] };
}

void ht_attr_set_tensor(struct ht_node *n, const char *name, struct ht_tensor *t)
{
	*ht_attr_set(n, name) = (struct ht_attr_value){ .kind = HT_ATTR_TENSOR, .tensor = t };
}

void ht_attr_remove(struct ht_node *n, const char *name)
{
	ht_attrs_own(n);
	for (struct ht_attr **a = &n->attrs; *a; a = &(*a)->next)
		if (ht_str_is((*a)->name, name)) {
			*a = (*a)->next;
			return;
		}
}

static const struct ht_attr *twice_of_few(const struct ht_attr *attrs)
{
	for (const struct ht_attr *x = attrs; x; x = x->next)
		for (const struct ht_attr *y = x->next; y; y = y->next)
			if (ht_str_eq(x->name, y->name))
				return y;
	return NULL;
}

const struct ht_attr *ht_attr_twice(const struct ht_attr *attrs, struct ht_arena *a)
{
	struct ht_map_entry *e;
	struct ht_map seen;
	size_t n = 0;

	for (const struct ht_attr *x = attrs; x && n <= FEW_ATTRS; x = x->next)
		n++;
	if (n <= FEW_ATTRS)
		return twice_of_few(attrs);
	ht_map_init(&seen, a);
	for (const struct ht_attr *x = attrs; x; x = x->next) {
		e = ht_map_at(&seen, x->name);
		if (e->value)
			return x;
		e->value = &seen;
	}
	return NULL;
}
