/* The IR's attributes and tensors → AttrValue, TensorProto. */
#include "frontend/export.h"

#include <string.h>

#define PIECE_BYTES 4096 /* smaller constants are copied */

static bool has_field(struct ht_str records, enum ht_pb_type t, uint32_t number)
{
	struct ht_pb_source src = {
		.p = (const uint8_t *)records.p, .n = records.n, .translated = true, .depth = 2
	};
	struct ht_pb_reader r = ht_pb_open(&src, t);
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v))
		if (v.number == number)
			return true;
	return false;
}

static void put_shape(struct ht_pb_writer *w, uint32_t number, struct ht_shape s,
	const struct ht_str *names, struct ht_str extra)
{
	struct ht_pb_open_message shape = ht_pb_begin(w, number), dim;

	for (int32_t i = 0; i < s.rank; i++) {
		dim = ht_pb_begin(w, 2);
		/* TensorFlow has no symbolic dimensions, so it is unknown there. */
		if (s.dim[i])
			ht_pb_put_varint(w, 1, (uint64_t)(s.dim[i] < 0 ? -1 : s.dim[i]));
		if (names && names[i].n)
			ht_pb_put_bytes(w, 2, names[i]);
		ht_pb_end(w, dim);
	}
	if (s.rank < 0)
		ht_pb_put_varint(w, 3, 1);
	ht_pb_put_raw(w, extra);
	ht_pb_end(w, shape);
}

/* Writes `n` numbers of `size` bytes as the packed field of their type. */
static void put_values(struct ht_pb_writer *w, enum ht_dtype t, const char *p, size_t n)
{
	size_t size = ht_dtype_info(t)->bytes;
	enum ht_kind kind = ht_dtype_info(t)->kind;
	uint32_t field = ht_tensor_values_field(t);
	bool is_signed = kind == HT_KIND_INT || t == HT_QI8 || t == HT_QI16 || t == HT_QI32;
	struct ht_pb_open_message packed = ht_pb_begin(w, field);

	if (t == HT_F32 || t == HT_F64 || kind == HT_KIND_COMPLEX || field == 18) {
		ht_put(&w->buf, p, n * size);
		ht_pb_end(w, packed);
		return;
	}
	for (size_t i = 0; i < n; i++, p += size) {
		uint64_t u = 0;

		memcpy(&u, p, size);
		if (is_signed && size < 8 && u >> (8 * size - 1))
			u |= ~(uint64_t)0 << (8 * size);
		ht_pb_varint(&w->buf, u);
	}
	ht_pb_end(w, packed);
}

static void put_content(struct ht_pb_writer *w, const struct ht_blob *b)
{
	if (b->n >= PIECE_BYTES)
		ht_pb_put_piece(w, 4, b->p, b->n);
	else if (b->n)
		ht_pb_put_bytes(w, 4, (struct ht_str){ b->p, b->n });
}

void ht_export_tensor(
	struct ht_pb_writer *w, uint32_t number, const struct ht_tensor *t, bool weights)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number);

	if (t->dtype)
		ht_pb_put_varint(w, 1, (uint64_t)(int64_t)t->dtype);
	if (!has_field(t->extra, HT_PB_TensorProto, 2))
		put_shape(w, 2, t->shape, NULL, HT_STR(""));
	if (t->version)
		ht_pb_put_varint(w, 3, (uint64_t)t->version);
	if (!weights)
		; /* all elements are in shards */
	else if (t->strings)
		for (size_t i = 0; i < t->values; i++)
			ht_pb_put_bytes(w, ht_tensor_values_field(HT_STRING), t->strings[i]);
	else if (t->blob && t->form == HT_TENSOR_VALUES && t->values)
		put_values(w, t->dtype, t->blob->p, t->values);
	else if (t->blob && (t->form == HT_TENSOR_CONTENT || t->form == HT_TENSOR_SHARD))
		put_content(w, t->blob);
	ht_pb_put_raw(w, t->extra);
	ht_pb_end(w, m);
}

static void put_func(
	struct ht_pb_writer *w, uint32_t number, const struct ht_func_ref *f, bool weights)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number);

	if (f->name.n)
		ht_pb_put_bytes(w, 1, f->name);
	ht_export_attrs(w, 2, f->attrs, weights);
	ht_pb_put_raw(w, f->extra);
	ht_pb_end(w, m);
}

/* Writes one value, as field `number` of AttrValue or of its list. */
static void put_kind(
	struct ht_pb_writer *w, uint32_t number, const struct ht_attr_value *v, bool weights)
{
	struct ht_shape_rest rest = { 0 };

	switch (v->kind) {
	case HT_ATTR_STRING:
	case HT_ATTR_PLACEHOLDER:
		ht_pb_put_bytes(w, number, v->s);
		break;
	case HT_ATTR_INT:
		ht_pb_put_varint(w, number, (uint64_t)v->i);
		break;
	case HT_ATTR_FLOAT:
		ht_pb_put_float(w, number, v->f);
		break;
	case HT_ATTR_BOOL:
		ht_pb_put_varint(w, number, v->b);
		break;
	case HT_ATTR_TYPE:
		ht_pb_put_varint(w, number, (uint64_t)(int64_t)(int32_t)v->type);
		break;
	case HT_ATTR_SHAPE:
		rest = v->shape.rest ? *v->shape.rest : rest;
		put_shape(w, number, v->shape.shape, rest.dim_names, rest.extra);
		break;
	case HT_ATTR_TENSOR:
		ht_export_tensor(w, number, v->tensor, weights);
		break;
	case HT_ATTR_FUNC:
		put_func(w, number, v->func, weights);
		break;
	case HT_ATTR_NONE:
	case HT_ATTR_LIST:
		break;
	}
}

static void put_list(struct ht_pb_writer *w, const struct ht_attr_value *v, bool weights)
{
	struct ht_pb_open_message list = ht_pb_begin(w, ht_attr_fields[HT_ATTR_LIST].value);

	for (size_t i = 0; i < v->list.n; i++)
		put_kind(w, ht_attr_fields[v->list.item[i].kind].list, &v->list.item[i], weights);
	ht_pb_end(w, list);
}

static void put_value(
	struct ht_pb_writer *w, uint32_t number, const struct ht_attr_value *v, bool weights)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number);

	if (v->kind == HT_ATTR_LIST)
		put_list(w, v, weights);
	else
		put_kind(w, ht_attr_fields[v->kind].value, v, weights);
	ht_pb_end(w, m);
}

void ht_export_attrs(
	struct ht_pb_writer *w, uint32_t number, const struct ht_attr *attrs, bool weights)
{
	for (const struct ht_attr *a = attrs; a; a = a->next) {
		struct ht_pb_open_message entry = ht_pb_begin(w, number);

		ht_pb_put_bytes(w, 1, a->name);
		put_value(w, 2, &a->value, weights);
		ht_pb_end(w, entry);
	}
}
