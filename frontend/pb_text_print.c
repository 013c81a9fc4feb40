/* Wire form → protobuf's text form, by the message table. */
#include "frontend/pb.h"

#include <inttypes.h>
#include <string.h>

#define PRINT_DEPTH 200

static void put_indent(struct ht_buf *out, int indent)
{
	for (int i = 0; i < indent; i++)
		ht_puts(out, "  ");
}

static void put_quoted(struct ht_buf *out, struct ht_str s)
{
	static const char from[] = "\n\r\t\"'\\", to[] = "nrt\"'\\";
	const char *known;

	ht_putc(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		known = c ? strchr(from, c) : NULL;
		if (known) {
			ht_putc(out, '\\');
			ht_putc(out, to[known - from]);
		} else if (c < 0x20 || c > 0x7e) {
			ht_putc(out, '\\');
			ht_putc(out, (char)('0' + (c >> 6)));
			ht_putc(out, (char)('0' + (c >> 3 & 7)));
			ht_putc(out, (char)('0' + (c & 7)));
		} else {
			ht_putc(out, (char)c);
		}
	}
	ht_putc(out, '"');
}

static void put_number(struct ht_buf *out, const struct ht_pb_field *f, uint64_t u)
{
	const char *name;

	switch (f->kind) {
	case HT_PB_DOUBLE:
		ht_put_double(out, ht_pb_double(u));
		break;
	case HT_PB_FLOAT:
		ht_put_float(out, ht_pb_float(u));
		break;
	case HT_PB_BOOL:
		ht_puts(out, u ? "true" : "false");
		break;
	case HT_PB_ENUM:
		name = ht_pb_enum_name(f->ref, (int32_t)u);
		if (name)
			ht_puts(out, name);
		else
			ht_printf(out, "%" PRId32, (int32_t)u);
		break;
	case HT_PB_SFIXED32:
		ht_printf(out, "%" PRId32, (int32_t)(uint32_t)u);
		break;
	case HT_PB_UINT32:
	case HT_PB_UINT64:
	case HT_PB_FIXED32:
	case HT_PB_FIXED64:
		ht_printf(out, "%" PRIu64, u);
		break;
	default:
		ht_printf(out, "%" PRId64, (int64_t)u);
	}
}

static enum ht_status print_fields(struct ht_pb_reader *r, int indent, struct ht_buf *out)
{
	struct ht_pb_reader inner;
	struct ht_pb_value v;
	uint64_t item;

	while (ht_pb_next(r, &v)) {
		if (!v.field)
			return ht_pb_error(r->src, v.at, HT_E_UNSUPPORTED,
				"field %" PRIu32
				" of %s has no name, so it cannot be written as text",
				v.number, ht_pb_message(r->type)->full_name);
		if (v.field->kind == HT_PB_MESSAGE) {
			put_indent(out, indent);
			ht_printf(out, "%s {\n", v.field->name);
			inner = ht_pb_enter(r, &v);
			if (inner.status != HT_OK)
				return inner.status;
			HT_TRY(print_fields(&inner, indent + 1, out));
			put_indent(out, indent);
			ht_puts(out, "}\n");
		} else if (ht_pb_wire_type(v.field->kind) == HT_WIRE_BYTES) {
			put_indent(out, indent);
			ht_printf(out, "%s: ", v.field->name);
			put_quoted(out, v.s);
			ht_putc(out, '\n');
		} else {
			while (ht_pb_item(r, &v, &item)) {
				put_indent(out, indent);
				ht_printf(out, "%s: ", v.field->name);
				put_number(out, v.field, item);
				ht_putc(out, '\n');
			}
		}
	}
	return r->status;
}

enum ht_status ht_pb_print(
	struct ht_str wire, enum ht_pb_type t, int indent, struct ht_diags *d, struct ht_buf *out)
{
	struct ht_pb_source src = {
		.diags = d,
		.p = (const uint8_t *)wire.p,
		.n = wire.n,
		.depth = PRINT_DEPTH,
		.translated = true,
	};
	struct ht_pb_reader r = ht_pb_open(&src, t);

	return print_fields(&r, indent, out);
}
