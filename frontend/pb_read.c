/* The pull reader for wire form.  It copies and allocates nothing, and checks that a byte exists
 * before it reads it. */
#include "frontend/pb.h"

#include <inttypes.h>
#include <string.h>

/* The last mark at or in front of `offset`. */
static const struct ht_pb_mark *mark_before(const struct ht_pb_source *src, size_t offset)
{
	size_t low = 0, high = src->mark_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (src->marks[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &src->marks[low - 1] : NULL;
}

struct ht_where ht_pb_where(const struct ht_pb_source *src, const void *at)
{
	struct ht_where w = HT_NOWHERE;
	size_t offset = src->n ? (size_t)((const uint8_t *)at - src->p) : 0;
	const struct ht_pb_mark *m;

	w.path = src->path;
	if (src->marks) {
		m = mark_before(src, offset);
		w.line = m ? m->line : 1;
		w.column = m ? m->column : 1;
	} else if (!src->translated) {
		w.offset = (int64_t)(offset + src->skipped);
	}
	return w;
}

enum ht_status ht_pb_error(
	const struct ht_pb_source *src, const void *at, enum ht_status st, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return ht_error(src->diags, st, ht_pb_where(src, at), "%s", text);
}

struct ht_pb_reader ht_pb_open(const struct ht_pb_source *src, enum ht_pb_type t)
{
	const uint8_t *p = src->n ? src->p : (const uint8_t *)""; /* src->p may be NULL */

	return (struct ht_pb_reader){
		.src = src, .type = t, .p = p, .end = p + src->n, .depth = src->depth
	};
}

static bool refuse(struct ht_pb_reader *r, const void *at, const char *what)
{
	r->status = ht_pb_error(
		r->src, at, HT_E_INPUT, "%s: %s", ht_pb_message(r->type)->full_name, what);
	return false;
}

static bool read_varint(struct ht_pb_reader *r, const uint8_t *end, uint64_t *v)
{
	const uint8_t *start = r->p;
	uint64_t u = 0;

	for (int shift = 0; shift < 70; shift += 7) {
		if (r->p == end)
			return refuse(r, start, "a number is cut off");
		if (shift == 63 && *r->p > 1)
			return refuse(r, start, "a number does not fit 64 bits");
		u |= (uint64_t)(*r->p & 0x7f) << shift;
		if (!(*r->p++ & 0x80)) {
			*v = u;
			return true;
		}
	}
	return refuse(r, start, "a number has more than ten bytes");
}

static uint64_t load_le(const uint8_t *p, int bytes)
{
	uint64_t u = 0;

	for (int i = bytes - 1; i >= 0; i--)
		u = u << 8 | p[i];
	return u;
}

static bool read_fixed(struct ht_pb_reader *r, const uint8_t *end, int bytes, uint64_t *v)
{
	if (end - r->p < bytes)
		return refuse(r, r->p, "a number is cut off");
	*v = load_le(r->p, bytes);
	r->p += bytes;
	return true;
}

static bool read_bytes(struct ht_pb_reader *r, struct ht_pb_value *v)
{
	const uint8_t *start = r->p;
	uint64_t n;

	if (!read_varint(r, r->end, &n))
		return false;
	if (n > (uint64_t)(r->end - r->p)) {
		r->status = ht_pb_error(r->src, start, HT_E_INPUT,
			"%s: field %" PRIu32 "%s%s%s says it has %" PRIu64 " bytes; %td are left",
			ht_pb_message(r->type)->full_name, v->number, v->field ? " (" : "",
			v->field ? v->field->name : "", v->field ? ")" : "", n, r->end - r->p);
		return false;
	}
	v->s = (struct ht_str){ (const char *)r->p, (size_t)n };
	r->p += n;
	return true;
}

static bool check_wire(struct ht_pb_reader *r, struct ht_pb_value *v, int wire)
{
	static const char *const names[] = { "a varint", "64 bits", "bytes", "a group", "a group",
		"32 bits" };
	int want;

	if (wire > HT_WIRE_32 || wire == 3 || wire == 4) {
		r->status = ht_pb_error(r->src, v->at, HT_E_INPUT,
			"%s: field %" PRIu32 " has wire type %d, which does not occur here",
			ht_pb_message(r->type)->full_name, v->number, wire);
		return false;
	}
	if (!v->field)
		return true;
	want = ht_pb_wire_type(v->field->kind);
	v->packed = wire == HT_WIRE_BYTES && want != HT_WIRE_BYTES && v->field->repeated;
	if (wire == want || v->packed)
		return true;
	r->status = ht_pb_error(r->src, v->at, HT_E_INPUT, "%s: field '%s' should be %s; found %s",
		ht_pb_message(r->type)->full_name, v->field->name, names[want], names[wire]);
	return false;
}

bool ht_pb_next(struct ht_pb_reader *r, struct ht_pb_value *v)
{
	uint64_t tag;
	bool ok;

	if (r->status != HT_OK || r->p == r->end)
		return false;
	*v = (struct ht_pb_value){ .at = r->p };
	if (!read_varint(r, r->end, &tag))
		return false;
	if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		return refuse(r, v->at, "a field number is out of range");
	v->number = (uint32_t)(tag >> 3);
	v->field = ht_pb_field_numbered(r->type, v->number);
	if (!check_wire(r, v, (int)(tag & 7)))
		return false;
	switch (tag & 7) {
	case HT_WIRE_VARINT:
		ok = read_varint(r, r->end, &v->u);
		break;
	case HT_WIRE_64:
		ok = read_fixed(r, r->end, 8, &v->u);
		break;
	case HT_WIRE_32:
		ok = read_fixed(r, r->end, 4, &v->u);
		break;
	default:
		ok = read_bytes(r, v);
	}
	v->record = (struct ht_str){ (const char *)v->at, (size_t)(r->p - v->at) };
	return ok;
}

size_t ht_pb_count(struct ht_pb_reader r, uint32_t number)
{
	struct ht_pb_source quiet = *r.src;
	struct ht_pb_value v;
	size_t n = 0;

	quiet.diags = NULL;
	r.src = &quiet;
	while (ht_pb_next(&r, &v))
		n += v.number == number;
	return n;
}

/* The value of the wire's bits `u` as a field of kind `k`. */
static uint64_t as_kind(enum ht_pb_kind k, uint64_t u)
{
	switch (k) {
	case HT_PB_INT32:
	case HT_PB_ENUM:
		return (uint64_t)(int64_t)(int32_t)(uint32_t)u;
	case HT_PB_UINT32:
		return (uint32_t)u;
	case HT_PB_BOOL:
		return u != 0;
	case HT_PB_SINT32:
	case HT_PB_SINT64:
		return (u >> 1) ^ (0 - (u & 1));
	default:
		return u;
	}
}

bool ht_pb_item(struct ht_pb_reader *r, struct ht_pb_value *v, uint64_t *item)
{
	const uint8_t *start = (const uint8_t *)v->s.p, *end, *saved;
	int wire = ht_pb_wire_type(v->field->kind);
	bool ok;

	if (!v->packed) {
		if (v->next)
			return false;
		v->next = 1;
		*item = as_kind(v->field->kind, v->u);
		return true;
	}
	if (v->next == v->s.n)
		return false;
	end = start + v->s.n;
	saved = r->p;
	r->p = start + v->next;
	if (wire == HT_WIRE_VARINT)
		ok = read_varint(r, end, item);
	else
		ok = read_fixed(r, end, wire == HT_WIRE_64 ? 8 : 4, item);
	if (ok)
		v->next = (size_t)(r->p - start);
	r->p = saved;
	*item = as_kind(v->field->kind, *item);
	return ok;
}

struct ht_pb_reader ht_pb_enter(const struct ht_pb_reader *r, const struct ht_pb_value *v)
{
	struct ht_pb_reader inner = {
		.src = r->src,
		.type = (enum ht_pb_type)v->field->ref,
		.p = (const uint8_t *)v->s.p,
		.end = (const uint8_t *)v->s.p + v->s.n,
		.depth = r->depth - 1,
	};

	if (inner.depth <= 0)
		inner.status =
			ht_pb_error(r->src, v->at, HT_E_LIMIT, "%s: messages nest deeper than %d",
				ht_pb_message(r->type)->full_name, r->src->depth);
	return inner;
}

enum ht_status ht_pb_string(struct ht_pb_reader *r, const struct ht_pb_value *v, struct ht_str *s)
{
	if (!ht_utf8_valid(v->s))
		return r->status =
			       ht_pb_error(r->src, v->at, HT_E_INPUT, "%s: field '%s' is not UTF-8",
				       ht_pb_message(r->type)->full_name, v->field->name);
	*s = v->s;
	return HT_OK;
}

/* Checks a field without interpreting it, so that a field that is kept can always be written
 * again. */
static enum ht_status check(struct ht_pb_reader *r, struct ht_pb_value *v)
{
	struct ht_pb_reader inner;
	struct ht_pb_value w;
	struct ht_str s;
	uint64_t item;

	if (!v->field)
		return HT_OK;
	if (v->field->kind == HT_PB_STRING)
		return ht_pb_string(r, v, &s);
	if (v->packed) {
		while (ht_pb_item(r, v, &item))
			;
		return r->status;
	}
	if (v->field->kind != HT_PB_MESSAGE)
		return HT_OK;
	inner = ht_pb_enter(r, v);
	while (ht_pb_next(&inner, &w))
		HT_TRY(check(&inner, &w));
	return inner.status;
}

enum ht_status ht_pb_keep(struct ht_pb_reader *r, const struct ht_pb_value *v, struct ht_buf *extra)
{
	struct ht_pb_value copy = *v;

	r->status = check(r, &copy);
	if (r->status == HT_OK)
		ht_put_str(extra, v->record);
	return r->status;
}

float ht_pb_float(uint64_t bits)
{
	uint32_t u = (uint32_t)bits;
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

double ht_pb_double(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof d);
	return d;
}
