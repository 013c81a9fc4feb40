/* AttrValue, TensorShapeProto, NameAttrList → the IR's attributes. */
#include "frontend/graphdef.h"

#include <inttypes.h>
#include <string.h>

void ht_importer_init(struct ht_importer *im, struct ht_arena *a,
	const struct ht_import_limits *limits, struct ht_diags *d)
{
	struct ht_import_limits l = limits ? *limits : HT_IMPORT_LIMITS_DEFAULT;

#define DEFAULT(field, value) l.field = l.field ? l.field : (value)
	DEFAULT(file_bytes, (size_t)1 << 31);
	DEFAULT(nodes, (size_t)4 << 20);
	DEFAULT(functions, (size_t)256 << 10);
	DEFAULT(node_inputs, (size_t)1 << 20);
	DEFAULT(attrs, (size_t)1 << 20);
	DEFAULT(depth, 64);
#undef DEFAULT
	*im = (struct ht_importer){ .a = a, .scratch = ht_arena_within(a), .diags = d, .limit = l };
	im->budget = l.tensor_bytes ? l.tensor_bytes : (size_t)64 << 20;
	ht_map_init(&im->words, a);
	im->last_input = &im->inputs;
}

void ht_importer_add_input(struct ht_importer *im, size_t bytes)
{
	if (!im->limit.tensor_bytes)
		im->budget += 16 * bytes;
}

void ht_importer_add_file(struct ht_importer *im, const struct ht_file *f)
{
	struct ht_input_file *i = HT_NEW(im->a, struct ht_input_file);

	i->file = f;
	*im->last_input = i;
	im->last_input = &i->next;
	ht_importer_add_input(im, f->n);
}

bool ht_importer_charge(struct ht_importer *im, size_t count, size_t size)
{
	size_t bytes;

	if (!ht_mul_size(count, size, &bytes) || bytes > im->budget - im->bytes)
		return false;
	im->bytes += bytes;
	return true;
}

struct ht_str ht_import_word(struct ht_importer *im, struct ht_str s)
{
	struct ht_map_entry *e;
	struct ht_str *known;

	if (!s.n)
		return HT_STR("");
	known = ht_map_get(&im->words, s);
	if (!known) {
		known = HT_NEW(im->a, struct ht_str);
		*known = ht_str_copy(im->a, s);
		e = ht_map_at(&im->words, *known);
		e->value = known;
	}
	return *known;
}

enum ht_status ht_import_unknown(const struct ht_pb_reader *r, const struct ht_pb_value *v)
{
	return ht_pb_error(r->src, v->at, HT_E_UNSUPPORTED,
		"%s: field %" PRIu32 " is not known, and there is no place to keep it",
		ht_pb_message(r->type)->full_name, v->number);
}

/* ---- shapes ---- */

static enum ht_status read_dim(
	struct ht_importer *im, struct ht_pb_reader r, int64_t *size, struct ht_str *name)
{
	struct ht_pb_value v;
	struct ht_str s;

	*size = 0;
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			*size = (int64_t)v.u;
			if (*size < -1)
				return ht_pb_error(r.src, v.at, HT_E_INPUT,
					"a dimension is %" PRId64
					"; expected a size, or -1 for unknown",
					*size);
		} else if (v.number == 2) {
			HT_TRY(ht_pb_string(&r, &v, &s));
			*name = ht_import_word(im, s);
		} else {
			return ht_import_unknown(&r, &v);
		}
	}
	return r.status;
}

/* Counts the dimensions of a TensorShapeProto; *extra gets the message's other fields. */
static enum ht_status count_dims(struct ht_importer *im, struct ht_pb_reader r, int32_t *rank,
	bool *unknown_rank, struct ht_str *extra)
{
	const uint8_t *start = r.p;
	struct ht_pb_value v;
	struct ht_buf kept;

	ht_buf_init(&kept, im->a);
	*rank = 0;
	*unknown_rank = false;
	while (ht_pb_next(&r, &v)) {
		if (v.number == 2)
			(*rank)++;
		else if (v.number == 3)
			*unknown_rank = v.u != 0;
		else
			HT_TRY(ht_pb_keep(&r, &v, &kept));
		if (*rank > HT_MAX_RANK)
			return ht_pb_error(r.src, v.at, HT_E_INPUT,
				"a shape has more than %d dimensions, which TensorFlow refuses, too",
				HT_MAX_RANK);
	}
	if (*unknown_rank && *rank)
		return ht_pb_error(
			r.src, start, HT_E_INPUT, "a shape of unknown rank has dimensions");
	if (kept.n)
		*extra = ht_buf_str(&kept);
	return r.status;
}

enum ht_status ht_import_shape(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_import_shape *out)
{
	struct ht_str name[HT_MAX_RANK] = { 0 };
	int64_t dim[HT_MAX_RANK];
	struct ht_pb_value v;
	bool unknown_rank, named = false;
	int32_t rank, i = 0;

	*out = (struct ht_import_shape){ .shape = HT_SHAPE_UNKNOWN };
	if (r.status != HT_OK)
		return r.status;
	HT_TRY(count_dims(im, r, &rank, &unknown_rank, &out->extra));
	if (unknown_rank)
		return HT_OK;
	while (ht_pb_next(&r, &v)) {
		if (v.number != 2)
			continue;
		HT_TRY(read_dim(im, ht_pb_enter(&r, &v), &dim[i], &name[i]));
		named |= name[i].n != 0;
		i++;
	}
	out->shape = ht_shape_make(im->a, rank, dim);
	if (named) {
		out->names = HT_NEW_ARRAY(im->a, struct ht_str, (size_t)rank);
		memcpy(out->names, name, (size_t)rank * sizeof *name);
	}
	return r.status;
}

/* ---- attribute values ---- */

static enum ht_status read_func(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_func_ref **out)
{
	struct ht_func_ref *f = HT_NEW(im->a, struct ht_func_ref);
	struct ht_attr **end = &f->attrs;
	const uint8_t *start = r.p;
	struct ht_buf extra;
	struct ht_pb_value v;
	struct ht_str s;

	ht_buf_init(&extra, im->a);
	f->name = HT_STR("");
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			HT_TRY(ht_pb_string(&r, &v, &s));
			f->name = ht_import_word(im, s);
		} else if (v.number == 2) {
			HT_TRY(ht_import_attr_entry(im, ht_pb_enter(&r, &v), &end));
		} else {
			HT_TRY(ht_pb_keep(&r, &v, &extra));
		}
	}
	if (r.status != HT_OK)
		return r.status;
	if (extra.n)
		f->extra = ht_buf_str(&extra);
	*out = f;
	return ht_import_check_attrs(im, f->attrs, r.src, start);
}

const struct ht_attr_field ht_attr_fields[HT_ATTR_KINDS] = {
	[HT_ATTR_LIST] = { .value = 1 },
	[HT_ATTR_STRING] = { 2, 2 },
	[HT_ATTR_INT] = { 3, 3 },
	[HT_ATTR_FLOAT] = { 4, 4 },
	[HT_ATTR_BOOL] = { 5, 5 },
	[HT_ATTR_TYPE] = { 6, 6 },
	[HT_ATTR_SHAPE] = { 7, 7 },
	[HT_ATTR_TENSOR] = { 8, 8 },
	[HT_ATTR_PLACEHOLDER] = { .value = 9 },
	[HT_ATTR_FUNC] = { 10, 9 },
};

/* The kind of value that a field of AttrValue has, or of AttrValue.ListValue (`list`). */
static enum ht_attr_kind kind_of_field(uint32_t number, bool list)
{
	for (int k = 0; k < HT_ATTR_KINDS; k++)
		if ((list ? ht_attr_fields[k].list : ht_attr_fields[k].value) == number)
			return (enum ht_attr_kind)k;
	return HT_ATTR_NONE;
}

static enum ht_status read_shape(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_attr_value *out)
{
	struct ht_import_shape s;

	HT_TRY(ht_import_shape(im, r, &s));
	out->shape.shape = s.shape;
	if (s.names || s.extra.n) {
		out->shape.rest = HT_NEW(im->a, struct ht_shape_rest);
		*out->shape.rest = (struct ht_shape_rest){ s.names, s.extra };
	}
	return HT_OK;
}

/* The value of a field of this kind, in a list or alone. */
static enum ht_status read_kind(struct ht_importer *im, struct ht_pb_reader *r,
	struct ht_pb_value *v, enum ht_attr_kind kind, uint64_t bits, struct ht_attr_value *out)
{
	struct ht_str s;

	out->kind = kind;
	switch (kind) {
	case HT_ATTR_STRING:
		out->s = v->s.n <= 64 ? ht_import_word(im, v->s) : ht_str_copy(im->a, v->s);
		return HT_OK;
	case HT_ATTR_PLACEHOLDER:
		HT_TRY(ht_pb_string(r, v, &s));
		out->s = ht_import_word(im, s);
		return HT_OK;
	case HT_ATTR_INT:
		out->i = (int64_t)bits;
		return HT_OK;
	case HT_ATTR_FLOAT:
		out->f = ht_pb_float(bits);
		return HT_OK;
	case HT_ATTR_BOOL:
		out->b = bits != 0;
		return HT_OK;
	case HT_ATTR_TYPE:
		out->type = (enum ht_dtype)(int32_t)bits;
		return HT_OK;
	case HT_ATTR_SHAPE:
		return read_shape(im, ht_pb_enter(r, v), out);
	case HT_ATTR_TENSOR:
		return ht_import_tensor(im, ht_pb_enter(r, v), &out->tensor);
	default:
		return read_func(im, ht_pb_enter(r, v), &out->func);
	}
}

/* A list holds values of one kind: TensorFlow's op definitions know no other. */
static enum ht_status count_list(struct ht_pb_reader r, uint32_t *number, size_t *n)
{
	struct ht_pb_value v;
	uint64_t bits;

	*number = 0;
	*n = 0;
	while (ht_pb_next(&r, &v)) {
		if (!v.field)
			return ht_import_unknown(&r, &v);
		if (*number && v.number != *number)
			return ht_pb_error(
				r.src, v.at, HT_E_INPUT, "a list has values of two kinds");
		if (!v.packed) {
			*number = v.number;
			++*n;
			continue;
		}
		while (ht_pb_item(&r, &v, &bits)) {
			*number = v.number;
			++*n;
		}
	}
	return r.status;
}

static enum ht_status read_list(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_attr_value *out)
{
	enum ht_attr_kind kind;
	struct ht_pb_value v;
	uint32_t number;
	uint64_t bits;
	size_t n, i = 0;

	out->kind = HT_ATTR_LIST;
	if (r.status != HT_OK)
		return r.status;
	HT_TRY(count_list(r, &number, &n));
	if (!n)
		return HT_OK;
	if (!ht_importer_charge(im, n, sizeof *out->list.item))
		return ht_pb_error(
			r.src, r.p, HT_E_LIMIT, "lists of attributes take too much memory");
	out->list.kind = kind = kind_of_field(number, true);
	out->list.item = HT_NEW_ARRAY(im->a, struct ht_attr_value, n);
	out->list.n = n;
	while (ht_pb_next(&r, &v)) {
		if (ht_pb_wire_type(v.field->kind) == HT_WIRE_BYTES)
			HT_TRY(read_kind(im, &r, &v, kind, 0, &out->list.item[i++]));
		else
			while (ht_pb_item(&r, &v, &bits))
				HT_TRY(read_kind(im, &r, &v, kind, bits, &out->list.item[i++]));
	}
	return r.status;
}

enum ht_status ht_import_attr_value(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_attr_value *out)
{
	enum ht_attr_kind kind;
	struct ht_pb_value v;
	uint64_t bits = 0;

	*out = (struct ht_attr_value){ .kind = HT_ATTR_NONE };
	while (ht_pb_next(&r, &v)) {
		if (!v.field)
			return ht_import_unknown(&r, &v);
		if (out->kind != HT_ATTR_NONE)
			return ht_pb_error(r.src, v.at, HT_E_INPUT, "an attribute has two values");
		kind = kind_of_field(v.number, false);
		if (kind == HT_ATTR_LIST) {
			HT_TRY(read_list(im, ht_pb_enter(&r, &v), out));
			continue;
		}
		if (ht_pb_wire_type(v.field->kind) != HT_WIRE_BYTES)
			ht_pb_item(&r, &v, &bits);
		HT_TRY(read_kind(im, &r, &v, kind, bits, out));
	}
	return r.status;
}

enum ht_status ht_import_attr_entry(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_attr ***end)
{
	struct ht_attr *attr = HT_NEW(im->a, struct ht_attr);
	const uint8_t *start = r.p;
	struct ht_pb_value v;
	bool have = false;
	struct ht_str s;

	attr->name = HT_STR("");
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			HT_TRY(ht_pb_string(&r, &v, &s));
			attr->name = ht_import_word(im, s);
		} else if (v.number == 2) {
			if (have)
				return ht_pb_error(r.src, v.at, HT_E_INPUT,
					"attribute '%.*s' has two values", HT_STR_ARG(attr->name));
			have = true;
			HT_TRY(ht_import_attr_value(im, ht_pb_enter(&r, &v), &attr->value));
		} else {
			return ht_import_unknown(&r, &v);
		}
	}
	if (r.status == HT_OK && !attr->name.n)
		return ht_pb_error(r.src, start, HT_E_INPUT, "an attribute has no name");
	**end = attr;
	*end = &attr->next;
	return r.status;
}

enum ht_status ht_import_check_attrs(struct ht_importer *im, const struct ht_attr *attrs,
	const struct ht_pb_source *src, const void *at)
{
	const struct ht_attr *twice;
	size_t n = 0;

	for (const struct ht_attr *x = attrs; x; x = x->next)
		n++;
	if (n > im->limit.attrs)
		return ht_pb_error(src, at, HT_E_LIMIT, "%zu attributes; the limit is %zu", n,
			im->limit.attrs);
	twice = ht_attr_twice(attrs, im->a);
	if (twice)
		return ht_pb_error(src, at, HT_E_INPUT, "attribute '%.*s' is given twice",
			HT_STR_ARG(twice->name));
	return HT_OK;
}
