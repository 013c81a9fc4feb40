/* TensorProto → tensors.
 *
 * If tensor_content has many bytes, they stay in the mapped file.  Values that are given one by
 * one are written out, and the last one is repeated for those left out.  This is the only place
 * where a small file may need much memory, so it is checked against the import's budget.
 *
 * Tensors without a plain form (strings in tensor_content, variants, resource handles, values
 * that do not fit their type, tensors beyond the budget) are kept unchanged in the tensor's
 * `extra` fields, without a blob.  Such a graph can be imported and exported; code that needs
 * the elements refuses it. */
#include "frontend/graphdef.h"

#include <inttypes.h>
#include <string.h>

#define SPAN_BYTES 4096 /* smaller tensors are copied, so that small constants are aligned */

enum { CONTENT = 4, FLOAT8 = 18 };

/* The field that has the values of a type, and how many numbers make up an element. */
static const struct {
	uint8_t field, numbers;
} stored[HT_DTYPE_END] = {
	[HT_F32] = { 5, 1 },
	[HT_F64] = { 6, 1 },
	[HT_I32] = { 7, 1 },
	[HT_U8] = { 7, 1 },
	[HT_I16] = { 7, 1 },
	[HT_I8] = { 7, 1 },
	[HT_STRING] = { 8, 1 },
	[HT_C64] = { 9, 2 },
	[HT_I64] = { 10, 1 },
	[HT_BOOL] = { 11, 1 },
	[HT_QI8] = { 7, 1 },
	[HT_QU8] = { 7, 1 },
	[HT_QI32] = { 7, 1 },
	[HT_BF16] = { 13, 1 },
	[HT_QI16] = { 7, 1 },
	[HT_QU16] = { 7, 1 },
	[HT_U16] = { 7, 1 },
	[HT_C128] = { 12, 2 },
	[HT_F16] = { 13, 1 },
	[HT_U32] = { 16, 1 },
	[HT_U64] = { 17, 1 },
	[HT_F8E5M2] = { 18, 1 },
	[HT_F8E4M3FN] = { 18, 1 },
	[HT_F8E4M3FNUZ] = { 18, 1 },
	[HT_F8E4M3B11FNUZ] = { 18, 1 },
	[HT_F8E5M2FNUZ] = { 18, 1 },
	[HT_I4] = { 7, 1 },
	[HT_U4] = { 7, 1 },
	[HT_I2] = { 7, 1 },
	[HT_U2] = { 7, 1 },
};

uint32_t ht_tensor_values_field(enum ht_dtype t)
{
	return (unsigned)t < HT_DTYPE_END ? stored[t].field : 0;
}

struct reading {
	struct ht_importer *im;
	struct ht_pb_reader r; /* at the start of the message */
	struct ht_tensor *t;
	struct ht_str content;
	bool have_content, have_shape;
	uint32_t field;   /* of the values */
	int64_t elements; /* -1: not known */
	struct ht_buf extra;
};

struct ht_blob *ht_import_blob(
	struct ht_importer *im, const struct ht_file *file, const void *p, size_t n)
{
	struct ht_blob *b;

	if (file && n >= SPAN_BYTES)
		b = ht_blob_of_file((struct ht_file *)(uintptr_t)file,
			(size_t)((const uint8_t *)p - file->p), n);
	else
		b = ht_blob_copy(p, n);
	if (!b)
		ht_arena_fail(im->a);
	return b;
}

/* A shape that has names or unknown fields is written again as it was read. */
static enum ht_status read_shape(struct reading *t, const struct ht_pb_value *v)
{
	struct ht_import_shape s;

	if (t->have_shape)
		return ht_pb_error(t->r.src, v->at, HT_E_INPUT, "a tensor has two shapes");
	t->have_shape = true;
	HT_TRY(ht_import_shape(t->im, ht_pb_enter(&t->r, v), &s));
	t->t->shape = s.shape;
	if (s.names || s.extra.n)
		ht_put_str(&t->extra, v->record);
	return HT_OK;
}

/* Reads everything but the values. */
static enum ht_status read_head(struct reading *t)
{
	struct ht_pb_reader r = t->r;
	struct ht_pb_value v;
	uint64_t bits;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			ht_pb_item(&r, &v, &bits);
			t->t->dtype = (enum ht_dtype)(int32_t)bits;
		} else if (v.number == 2) {
			HT_TRY(read_shape(t, &v));
		} else if (v.number == 3) {
			ht_pb_item(&r, &v, &bits);
			t->t->version = (int64_t)bits;
		} else if (v.number == CONTENT) {
			t->content = v.s;
			t->have_content = v.s.n != 0;
		} else if (!v.field) {
			ht_put_str(&t->extra, v.record);
		}
	}
	return r.status;
}

/* Keeps the fields that hold values, except field `but`. */
static enum ht_status keep_values(struct reading *t, uint32_t but)
{
	struct ht_pb_reader r = t->r;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v))
		if (v.field && v.number >= CONTENT && v.number != but)
			HT_TRY(ht_pb_keep(&r, &v, &t->extra));
	return r.status;
}

static enum ht_status count_values(struct reading *t, size_t *n)
{
	struct ht_pb_reader r = t->r;
	struct ht_pb_value v;
	uint64_t bits;
	int wire;

	*n = 0;
	while (ht_pb_next(&r, &v)) {
		if (v.number != t->field)
			continue;
		wire = ht_pb_wire_type(v.field->kind);
		if (t->field == FLOAT8)
			*n += v.s.n;
		else if (wire == HT_WIRE_BYTES || !v.packed)
			++*n;
		else if (wire == HT_WIRE_VARINT)
			while (ht_pb_item(&r, &v, &bits))
				++*n;
		else if (v.s.n % (wire == HT_WIRE_64 ? 8 : 4))
			return ht_pb_error(t->r.src, v.at, HT_E_INPUT, "a number is cut off");
		else
			*n += v.s.n / (wire == HT_WIRE_64 ? 8 : 4);
	}
	return r.status;
}

/* Writes one number of `size` bytes; false if the type cannot represent it. */
static bool store(enum ht_dtype t, size_t size, uint64_t bits, char *p)
{
	int64_t i = (int64_t)bits;
	enum ht_kind kind = ht_dtype_info(t)->kind;
	bool is_unsigned = kind == HT_KIND_UINT || kind == HT_KIND_FLOAT || kind == HT_KIND_BOOL ||
			   t == HT_QU8 || t == HT_QU16;

	if (size < 4 && is_unsigned && (i < 0 || i >= (int64_t)1 << (8 * size)))
		return false;
	if (size < 4 && !is_unsigned &&
		(i < -((int64_t)1 << (8 * size - 1)) || i >= (int64_t)1 << (8 * size - 1)))
		return false;
	for (size_t k = 0; k < size; k++, bits >>= 8)
		p[k] = (char)(bits & 0xff);
	return true;
}

/* Copies the given values; *fits becomes false if one does not fit the type. */
static enum ht_status copy_values(struct reading *t, char *p, size_t number_bytes, bool *fits)
{
	struct ht_pb_reader r = t->r;
	struct ht_pb_value v;
	uint64_t bits;
	int wire;

	*fits = true;
	while (ht_pb_next(&r, &v)) {
		if (v.number != t->field)
			continue;
		wire = ht_pb_wire_type(v.field->kind);
		if (wire == HT_WIRE_BYTES || (v.packed && wire != HT_WIRE_VARINT)) {
			if (v.s.n)
				memcpy(p, v.s.p, v.s.n);
			p += v.s.n;
			continue;
		}
		while (ht_pb_item(&r, &v, &bits)) {
			if (!store(t->t->dtype, number_bytes, bits, p)) {
				*fits = false;
				return HT_OK;
			}
			p += number_bytes;
		}
	}
	return r.status;
}

/* Repeats the last given element up to the end. */
static void spread_last(char *p, size_t have, size_t elements, size_t size)
{
	size_t done = have;

	if (!have)
		return; /* zeros, which the memory already holds */
	while (done < elements) {
		size_t n = done - have + 1; /* copies of the last element so far */

		if (n > elements - done)
			n = elements - done;
		memcpy(p + done * size, p + (have - 1) * size, n * size);
		done += n;
	}
}

static enum ht_status read_numbers(struct reading *t)
{
	struct ht_tensor *x = t->t;
	size_t size = ht_dtype_info(x->dtype)->bytes, numbers = stored[x->dtype].numbers, n, bytes;
	struct ht_blob *b;
	bool fits;

	HT_TRY(count_values(t, &n));
	if (n % numbers || n / numbers > (size_t)t->elements)
		return ht_pb_error(t->r.src, t->r.p, HT_E_INPUT,
			"a tensor of %" PRId64 " elements has %zu values", t->elements,
			n / numbers);
	x->form = HT_TENSOR_VALUES;
	if (!ht_mul_size((size_t)t->elements, size, &bytes) || !ht_importer_charge(t->im, bytes, 1))
		return keep_values(t, 0);
	x->values = n / numbers;
	b = ht_blob_new(bytes);
	if (!b)
		ht_arena_fail(t->im->a);
	x->blob = b;
	HT_TRY(copy_values(t, (char *)(uintptr_t)b->p, size / numbers, &fits));
	if (!fits) {
		ht_tensor_drop(x);
		x->values = 0;
		return keep_values(t, 0);
	}
	spread_last((char *)(uintptr_t)b->p, x->values, (size_t)t->elements, size);
	return keep_values(t, t->field);
}

static enum ht_status read_strings(struct reading *t)
{
	struct ht_pb_reader r = t->r;
	struct ht_tensor *x = t->t;
	struct ht_pb_value v;
	size_t n, i = 0;

	HT_TRY(count_values(t, &n));
	if (n > (size_t)t->elements)
		return ht_pb_error(t->r.src, t->r.p, HT_E_INPUT,
			"a tensor of %" PRId64 " elements has %zu values", t->elements, n);
	if (!ht_importer_charge(t->im, n, sizeof *x->strings))
		return ht_pb_error(t->r.src, t->r.p, HT_E_LIMIT, "too many strings");
	x->form = HT_TENSOR_VALUES;
	x->values = n;
	x->strings = HT_NEW_ARRAY(t->im->a, struct ht_str, n);
	while (ht_pb_next(&r, &v))
		if (v.number == t->field)
			x->strings[i++] = ht_str_copy(t->im->a, v.s);
	return r.status == HT_OK ? keep_values(t, t->field) : r.status;
}

static enum ht_status read_content(struct reading *t)
{
	struct ht_tensor *x = t->t;
	size_t bytes;

	if (!ht_mul_size((size_t)t->elements, ht_dtype_info(x->dtype)->bytes, &bytes) ||
		bytes != t->content.n)
		return ht_pb_error(t->r.src, t->content.p, HT_E_INPUT,
			"a tensor of %" PRId64 " elements of type %s has %zu bytes", t->elements,
			ht_dtype_info(x->dtype)->name, t->content.n);
	x->form = HT_TENSOR_CONTENT;
	x->blob = ht_import_blob(t->im, t->r.src->file, t->content.p, t->content.n);
	return keep_values(t, CONTENT);
}

static enum ht_status read_values(struct reading *t)
{
	enum ht_dtype dtype = t->t->dtype;

	t->elements = t->t->shape.rank >= 0 ? ht_shape_count(t->t->shape) : -1;
	if (t->t->shape.rank >= 0 && t->elements < 0 && ht_shape_known(t->t->shape))
		return ht_pb_error(t->r.src, t->r.p, HT_E_INPUT,
			"the number of a tensor's elements does not fit 64 bits");
	t->field = (unsigned)dtype < HT_DTYPE_END ? stored[dtype].field : 0;
	if (t->elements < 0 || !t->field || (dtype == HT_STRING && t->have_content))
		return keep_values(t, 0);
	if (dtype == HT_STRING)
		return read_strings(t);
	return t->have_content ? read_content(t) : read_numbers(t);
}

enum ht_status ht_import_tensor(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_tensor **out)
{
	struct reading t = { .im = im, .r = r };

	if (r.status != HT_OK)
		return r.status;
	t.t = ht_tensor_new(im->a, HT_INVALID, HT_SHAPE_SCALAR, NULL);
	ht_buf_init(&t.extra, im->a);
	HT_TRY(read_head(&t));
	HT_TRY(read_values(&t));
	if (t.extra.n)
		t.t->extra = ht_buf_str(&t.extra);
	*out = t.t;
	return HT_OK;
}
