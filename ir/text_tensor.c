/* Reads `tensor f32[2] {1.0, 2.0}` of the .hir form. */
#include "ir/text_parse.h"

#include <string.h>

/* A few characters can stand for many elements. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define MAX_CONSTANT_BYTES ((size_t)1 << 20)
#else
#define MAX_CONSTANT_BYTES ((size_t)1 << 32)
#endif

static enum ht_status no_value(struct ht_lex *l, struct ht_str s, enum ht_dtype t)
{
	return ht_lex_fail(
		l, s.p, "'%.*s' is no value of type %s", HT_STR_ARG(s), ht_dtype_info(t)->name);
}

static bool read_hex(struct ht_str s, size_t bytes, uint64_t *bits)
{
	*bits = 0;
	if (s.n < 3 || s.p[0] != '0' || s.p[1] != 'x' || s.n > 2 + 2 * bytes || bytes > 8)
		return false;
	for (size_t i = 2; i < s.n; i++) {
		const char *at = memchr("0123456789abcdef", s.p[i], 16);

		if (!at)
			return false;
		*bits = *bits << 4 | (uint64_t)(at - "0123456789abcdef");
	}
	return true;
}

static uint64_t float_bits(enum ht_dtype t, double d)
{
	float f = (float)d;
	uint64_t wide;
	uint32_t bits;

	if (t == HT_F64) {
		memcpy(&wide, &d, sizeof wide);
		return wide;
	}
	memcpy(&bits, &f, sizeof bits);
	if (t == HT_F16)
		return ht_f64_to_f16(d);
	/* Numbers that bf16 cannot represent are rounded; subnormals are kept. */
	if (t == HT_BF16)
		return (bits >> 16) + ((bits & 0x8000) && ((bits & 0x7fff) || (bits & 0x10000)));
	return bits;
}

static uint64_t nan_bits(enum ht_dtype t)
{
	return t == HT_F64   ? UINT64_C(0x7ff8000000000000)
	       : t == HT_F32 ? 0x7fc00000
	       : t == HT_F16 ? 0x7e00
			     : 0x7fc0;
}

static enum ht_status read_float(struct ht_lex *l, enum ht_dtype t, uint64_t *bits)
{
	struct ht_str s;
	double d;

	HT_TRY(ht_lex_token(l, &s));
	if (read_hex(s, ht_dtype_info(t)->bytes, bits))
		return HT_OK;
	if (ht_str_is(s, "nan")) {
		*bits = nan_bits(t);
		return HT_OK;
	}
	if (!ht_is_decimal(s) || !ht_parse_double(s, &d))
		return no_value(l, s, t);
	*bits = float_bits(t, d);
	return HT_OK;
}

static bool read_unsigned(struct ht_str s, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < s.n; i++)
		if (!ht_is_digit(s.p[i]) || __builtin_mul_overflow(*v, (uint64_t)10, v) ||
			__builtin_add_overflow(*v, (uint64_t)(s.p[i] - '0'), v))
			return false;
	return s.n > 0;
}

static bool in_range(enum ht_elem_text kind, size_t bytes, int64_t i, uint64_t u)
{
	int bits = (int)bytes * 8;

	if (bits == 64)
		return true;
	if (kind == HT_TEXT_UNSIGNED)
		return u < UINT64_C(1) << bits;
	return i >= -(INT64_C(1) << (bits - 1)) && i < INT64_C(1) << (bits - 1);
}

static enum ht_status read_whole(struct ht_lex *l, enum ht_dtype t, uint64_t *bits)
{
	enum ht_elem_text kind = ht_elem_text(t);
	size_t bytes = ht_dtype_info(t)->bytes;
	struct ht_str s;
	int64_t i = 0;

	HT_TRY(ht_lex_token(l, &s));
	if (read_hex(s, bytes, bits))
		return HT_OK;
	if (kind == HT_TEXT_BOOL && (ht_str_is(s, "true") || ht_str_is(s, "false"))) {
		*bits = ht_str_is(s, "true");
		return HT_OK;
	}
	if (kind == HT_TEXT_UNSIGNED ? !read_unsigned(s, bits)
				     : kind != HT_TEXT_SIGNED || !ht_parse_int(s, &i))
		return no_value(l, s, t);
	if (kind == HT_TEXT_SIGNED)
		*bits = (uint64_t)i;
	return in_range(kind, bytes, i, *bits) ? HT_OK : no_value(l, s, t);
}

static enum ht_status read_element(struct ht_lex *l, enum ht_dtype t, struct ht_buf *out)
{
	enum ht_dtype part = t == HT_C64 ? HT_F32 : HT_F64;
	size_t bytes = ht_dtype_info(t)->bytes;
	uint64_t bits[2];

	switch (ht_elem_text(t)) {
	case HT_TEXT_FLOAT:
		HT_TRY(read_float(l, t, &bits[0]));
		break;
	case HT_TEXT_COMPLEX:
		HT_TRY(ht_lex_expect(l, '('));
		HT_TRY(read_float(l, part, &bits[0]));
		HT_TRY(ht_lex_expect(l, ','));
		HT_TRY(read_float(l, part, &bits[1]));
		HT_TRY(ht_lex_expect(l, ')'));
		ht_put(out, &bits[0], bytes / 2);
		ht_put(out, &bits[1], bytes / 2);
		return HT_OK;
	default:
		HT_TRY(read_whole(l, t, &bits[0]));
	}
	ht_put(out, bits, bytes);
	return HT_OK;
}

/* Counts the bytes that one text may allocate against a limit. */
static enum ht_status new_blob(struct ht_parse *p, const char *at, size_t n, struct ht_tensor *t)
{
	if (n > MAX_CONSTANT_BYTES - p->constant_bytes)
		return ht_lex_limit(&p->lex, at, "the constants of this file are too large");
	p->constant_bytes += n;
	t->blob = ht_blob_new(n);
	if (!t->blob)
		return ht_error(p->lex.d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	return HT_OK;
}

/* Reads `...` after the last element: it repeats that element. */
static enum ht_status repeat_last(
	struct ht_parse *p, const char *at, struct ht_tensor *t, const struct ht_buf *b)
{
	size_t size = ht_dtype_info(t->dtype)->bytes, bytes;
	int64_t count = ht_shape_count(t->shape);
	char *to;

	if (count < 0 || !b->n || !ht_mul_size((size_t)count, size, &bytes) || bytes < b->n)
		return ht_lex_fail(&p->lex, at, "'...' needs an element and a shape of more");
	HT_TRY(new_blob(p, at, bytes, t));
	to = (char *)(uintptr_t)t->blob->p;
	memcpy(to, b->p, b->n);
	for (size_t i = b->n; i < bytes; i += size)
		memcpy(to + i, b->p + b->n - size, size);
	return HT_OK;
}

static enum ht_status read_elements(struct ht_parse *p, struct ht_tensor *t)
{
	struct ht_lex *l = &p->lex;
	const char *at = l->p;
	struct ht_buf b;

	if (!ht_dtype_info(t->dtype)->bytes)
		return ht_lex_fail(l, at, "elements of type %s cannot be written",
			ht_dtype_info(t->dtype)->name);
	HT_TRY(ht_lex_expect(l, '{'));
	ht_buf_init(&b, l->a);
	if (!ht_lex_accept(l, '}')) {
		do {
			HT_TRY(read_element(l, t->dtype, &b));
		} while (ht_lex_accept(l, ','));
		ht_lex_peek(l);
		if (l->end - l->p >= 3 && !memcmp(l->p, "...", 3)) {
			l->p += 3;
			HT_TRY(repeat_last(p, at, t, &b));
			return ht_lex_expect(l, '}');
		}
		HT_TRY(ht_lex_expect(l, '}'));
	}
	HT_TRY(new_blob(p, at, b.n, t));
	if (b.n)
		memcpy((char *)(uintptr_t)t->blob->p, b.p, b.n);
	return HT_OK;
}

static enum ht_status read_bytes(struct ht_parse *p, struct ht_tensor *t)
{
	const char *at = p->lex.p;
	struct ht_str s;

	HT_TRY(ht_lex_string(&p->lex, &s));
	HT_TRY(new_blob(p, at, s.n, t));
	if (s.n)
		memcpy((char *)(uintptr_t)t->blob->p, s.p, s.n);
	return HT_OK;
}

static enum ht_status read_weights(struct ht_parse *p, struct ht_tensor *t)
{
	const struct ht_weights_span *span;
	struct ht_str name, found;

	HT_TRY(ht_lex_token(&p->lex, &name));
	span = ht_map_get(&p->weights.spans, name);
	if (!span && !p->weights.file)
		return ht_lex_fail(&p->lex, name.p, "there is no weights file beside this text");
	if (!span)
		return ht_lex_fail(&p->lex, name.p, "%s has no constant %.*s",
			p->weights.file->path, HT_STR_ARG(name));
	found = ht_hash_text(p->lex.a, ht_hash_bytes(p->weights.file->p + span->offset, span->n));
	if (!ht_str_eq(found, name))
		return ht_lex_fail(&p->lex, name.p, "constant %.*s in %s is damaged",
			HT_STR_ARG(name), p->weights.file->path);
	t->blob = ht_blob_of_file(p->weights.file, span->offset, span->n);
	return t->blob ? HT_OK : ht_error(p->lex.d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
}

static enum ht_status read_form(struct ht_lex *l, struct ht_tensor *t)
{
	if (ht_lex_word(l, "values")) {
		t->form = HT_TENSOR_VALUES;
		HT_TRY(ht_lex_count(l, &t->values));
	} else if (ht_lex_word(l, "shard")) {
		t->form = HT_TENSOR_SHARD;
	}
	if (ht_lex_word(l, "count"))
		HT_TRY(ht_lex_count(l, &t->values));
	if (ht_lex_word(l, "version"))
		HT_TRY(ht_lex_int(l, &t->version));
	if (ht_lex_word(l, "extra"))
		HT_TRY(ht_lex_string(l, &t->extra));
	return HT_OK;
}

enum ht_status ht_parse_tensor(struct ht_parse *p, struct ht_tensor **out)
{
	struct ht_lex *l = &p->lex;
	const char *at;
	struct ht_tensor *t;
	struct ht_shape shape;
	enum ht_dtype type;
	size_t strings;

	HT_TRY(ht_lex_dtype(l, &type));
	HT_TRY(ht_lex_shape(l, p->g->sym_count, &shape));
	*out = t = ht_tensor_new(l->a, type, shape, NULL);
	HT_TRY(read_form(l, t));
	ht_lex_peek(l);
	at = l->p;
	if (ht_lex_word(l, "strings")) {
		HT_TRY(ht_lex_strings(l, &t->strings, &strings));
		if (t->values != strings)
			return ht_lex_fail(l, at, "%zu strings, 'values' or 'count' says %zu",
				strings, t->values);
	}
	if (ht_lex_word(l, "bytes"))
		return read_bytes(p, t);
	if (ht_lex_word(l, "weights"))
		return read_weights(p, t);
	if (ht_lex_peek(l) == '{')
		return read_elements(p, t);
	return HT_OK;
}
