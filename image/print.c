/* An image as text.  Buffers: p0:64 is parameter 0, of 64 bytes; t128:64 is temporary memory at 128 in
 * the frame; c3:64 is constant 3; s0:24 is the state of random stream 0; v1:4 is variable 1;
 * d2+64:16 is derived buffer 2, in part: from 64 on; o0 is object 0. */
#include "image/verify.h"

#include <inttypes.h>

static const char *const op_name[HT_IMAGE_OPS] = { "kernel", "copy", "call", "fork", "jump",
	"unless", "loop", "again", "fail", "spread", "size", "fresh", "made", "beside" };

static void print_name(const void *image, int32_t size, struct ht_buf *out)
{
	const struct ht_image *x = image;

	ht_puts(out, ht_image_text(x, ht_image_sizes(x)[size].name));
}

static void print_expression(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_size_expr e = ht_image_expression_of(x, i);

	ht_size_print(&e, print_name, x, out);
}

static void print_part(
	const struct ht_image *x, const struct ht_image_buffer *b, struct ht_buf *out)
{
	uint64_t at = b->offset - ht_image_deriveds(x)[b->number].offset;

	ht_printf(out, "d%" PRIu32, b->number);
	if (at)
		ht_printf(out, "+%" PRIu64, at);
	ht_printf(out, ":%" PRIu64, b->bytes);
}

static void print_buffer(
	const struct ht_image *x, const struct ht_image_buffer *b, struct ht_buf *out)
{
	if (b->kind == HT_IMAGE_DERIVED_BUFFER) {
		print_part(x, b, out);
		return;
	}
	if (b->kind == HT_IMAGE_OBJECT) {
		ht_printf(out, "o%" PRIu32, b->number);
		return;
	}
	ht_printf(out, "%c%" PRIu64 ":%" PRIu64, "ptcsvd"[b->kind],
		b -> kind == HT_IMAGE_TEMP ? b -> offset : b -> number, b -> bytes);
}

static void print_target(
	const struct ht_image *x, const struct ht_image_step *s, struct ht_buf *out)
{
	switch (s->op) {
	case HT_IMAGE_SPREAD:
		ht_printf(out, " %" PRIu32 ", ", s->to);
		print_expression(x, s->count, out);
		ht_puts(out, " to ");
		print_expression(x, s->count + 1, out);
		break;
	case HT_IMAGE_CALL:
		ht_printf(out, " %" PRIu32, s->to);
		break;
	case HT_IMAGE_KERNEL:
	case HT_IMAGE_FORK:
		ht_printf(out, " %" PRIu32 " x %" PRIu32, s->to, s->count);
		break;
	case HT_IMAGE_LOOP:
	case HT_IMAGE_FAIL:
		ht_printf(out, " %" PRIu32, s->count);
		break;
	case HT_IMAGE_BESIDE:
		ht_printf(out, " %" PRIu32 "%s", s->count, s->to ? ", undivided" : "");
		break;
	case HT_IMAGE_COPY:
		break;
	case HT_IMAGE_FRESH:
		ht_printf(out, " d%" PRIu32 " to %" PRIu32, s->count, s->to);
		break;
	case HT_IMAGE_MADE:
		ht_printf(out, " d%" PRIu32, s->count);
		break;
	default:
		ht_printf(out, " to %" PRIu32, s->to);
	}
}

static bool takes_sizes(const struct ht_image *x, const struct ht_image_step *s)
{
	return s->op == HT_IMAGE_KERNEL && !s->params && ht_image_kernels(x)[s->to].params;
}

static void print_step(const struct ht_image *x, const struct ht_image_procedure *p, uint32_t i,
	struct ht_buf *out)
{
	const struct ht_image_step *s = &ht_image_steps(x)[p->step + i];
	const struct ht_image_note *n = &ht_image_notes(x)[p->step + i];
	const uint32_t *arg = ht_image_args(x) + p->arg + s->arg;

	ht_printf(out, "  %" PRIu32 ": %s", i, op_name[s->op]);
	print_target(x, s, out);
	for (uint32_t k = 0; k < s->args; k++) {
		ht_puts(out, k ? ", " : " (");
		print_buffer(x, &ht_image_buffers(x)[p->buffer + arg[k]], out);
	}
	ht_puts(out, s->args ? ")" : "");
	for (uint32_t k = 0; k < s->params; k++)
		ht_printf(out, "%s%" PRId64, k ? ", " : " [", ht_image_params(x)[s->param + k]);
	ht_puts(out, s->params ? "]" : takes_sizes(x, s) ? " [sizes]" : "");
	if (*ht_image_text(x, n->node))
		ht_printf(out, "  # %s", ht_image_text(x, n->node));
	if (*ht_image_text(x, n->method))
		ht_printf(out, " (%s)", ht_image_text(x, n->method));
	ht_putc(out, '\n');
}

static void print_procedure(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_procedure *p = &ht_image_procedures(x)[i];
	const struct ht_image_buffer *b = ht_image_buffers(x) + p->buffer;

	ht_printf(out, "procedure %" PRIu32 " %s (", i, ht_image_text(x, p->name));
	for (uint32_t k = 0; k < p->params; k++)
		ht_printf(
			out, "%s%s%" PRIu64, k ? ", " : "", b[k].written ? "out " : "", b[k].bytes);
	ht_printf(out, "), frame of %" PRIu64 " bytes\n", p->frame_bytes);
	for (uint32_t k = 0; k < p->steps; k++)
		print_step(x, p, k, out);
}

static void print_kernel(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_kernel *k = &ht_image_kernels(x)[i];
	const struct ht_image_touch *touch = ht_image_touches(x) + k->touch;
	const char *name = ht_image_text(x, k->name);

	ht_printf(out, "kernel %" PRIu32 " %s (", i, *name ? name : "generated");
	for (uint32_t j = 0; j < k->args; j++) {
		ht_puts(out, j ? ", " : "");
		if (touch[j].written == HT_IMAGE_USES)
			ht_puts(out, ht_image_text(x, (uint32_t)touch[j].bytes));
		else
			ht_printf(
				out, "%s%" PRIu64, touch[j].written ? "out " : "", touch[j].bytes);
	}
	ht_printf(out, "), scratch of %" PRIu64 " bytes\n", k->scratch_bytes);
}

static void print_shape(const struct ht_image *x, struct ht_shape s, struct ht_buf *out)
{
	if (ht_shape_known(s)) {
		ht_shape_print(s, out);
		return;
	}
	for (int32_t i = 0; i < s.rank; i++) {
		ht_putc(out, i ? ',' : '[');
		if (s.dim[i] < 0)
			print_expression(x, (uint32_t)(-1 - s.dim[i]), out);
		else
			ht_printf(out, "%" PRId64, s.dim[i]);
	}
	ht_putc(out, ']');
}

static void print_size(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_size *s = &ht_image_sizes(x)[i];

	ht_printf(out, "size %s: %" PRId64 " to %" PRId64 "%s\n", ht_image_text(x, s->name),
		s->least, s->most, s->kind == HT_IMAGE_BY_STEP ? ", computed" : "");
}

static void print_derivation(
	const struct ht_image *x, const struct ht_image_derivation *d, struct ht_buf *out)
{
	const struct ht_size_expr e = ht_image_derivation_of(d);

	ht_puts(out, "size ");
	print_name(x, (int32_t)d->size, out);
	ht_puts(out, " = ");
	ht_size_print(&e, print_name, x, out);
	ht_putc(out, '\n');
}

static void print_port(const struct ht_image *x, const struct ht_image_port *p, const char *what,
	struct ht_buf *out)
{
	ht_printf(out, "  %s %s: %s", what, ht_image_text(x, p->name),
		ht_dtype_info((enum ht_dtype)p->dtype)->name);
	print_shape(x, ht_image_shape_of(x, p), out);
	ht_puts(out, p->value == HT_IMAGE_NO_VALUE ? "\n" : ", with a default\n");
}

static void print_entry(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_entry *e = &ht_image_entries(x)[i];

	ht_printf(
		out, "entry %s: procedure %" PRIu32 "\n", ht_image_text(x, e->name), e->procedure);
	for (uint32_t k = 0; k < e->inputs + e->outputs; k++)
		print_port(x, &ht_image_ports(x)[e->port + k], k < e->inputs ? "input" : "output",
			out);
}

static void print_variable(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_variable *v = &ht_image_variables(x)[i];

	ht_printf(out, "variable %" PRIu32 " %s: %s", i, ht_image_text(x, v->name),
		ht_dtype_info((enum ht_dtype)v->dtype)->name);
	ht_shape_print(ht_image_variable_shape(x, v), out);
	if (v->constant == HT_IMAGE_NO_VALUE)
		ht_puts(out, ", begins without a value\n");
	else
		ht_printf(out, ", begins as constant %" PRIu32 "\n", v->constant);
}

/* For example: derived 0: 128 bytes, from v0, p2 */
static void print_derived(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_derived *d = &ht_image_deriveds(x)[i];

	ht_printf(out, "derived %" PRIu32 ": %" PRIu64 " bytes, from", i, d->bytes);
	for (uint32_t k = 0; k < d->sources; k++) {
		const struct ht_image_source *s = &ht_image_sources(x)[d->source + k];

		ht_printf(out, "%s %c%" PRIu32, k ? "," : "", "ptcsv"[s->kind], s -> number);
	}
	ht_putc(out, '\n');
}

static void print_object(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_object *o = &ht_image_objects(x)[i];
	static const char *const owner[] = { "run", "session", "context" };
	const char *between = "";

	ht_printf(out, "object %" PRIu32 " %s: %s of the %s (", i, ht_image_text(x, o->name),
		ht_image_text(x, o->kind), owner[o->owner]);
	for (uint32_t k = 0; k < o->constants; k++, between = ", ")
		ht_printf(out, "%sconstant %" PRIu32, between, ht_image_args(x)[o->constant + k]);
	ht_putc(out, ')');
	for (uint32_t k = 0; k < o->params; k++)
		ht_printf(out, "%s%" PRId64, k ? ", " : " [", ht_image_params(x)[o->param + k]);
	ht_puts(out, o->params ? "]\n" : "\n");
}

/* place 0: at 64, 12 * n + 48 of 4096 bytes */
static void print_place(const struct ht_image *x, uint32_t i, struct ht_buf *out)
{
	const struct ht_image_place_of *p = &ht_image_places(x)[i];

	ht_printf(out, "place %" PRIu32 ": at %" PRIu64 ", ", i, p->offset);
	if (p->reach.sized) {
		print_expression(x, p->reach.sized - 1, out);
		ht_printf(out, " + %" PRIu64 " of ", p->reach.add);
	}
	ht_printf(out, "%" PRIu64 " bytes\n", p->bytes);
}

void ht_image_print(const struct ht_image *x, struct ht_buf *out)
{
	ht_printf(out, "image %" PRIu32 "\n", x->version);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_SIZES); i++)
		print_size(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_DERIVATIONS); i++)
		print_derivation(x, &ht_image_derivations(x)[i], out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_ENTRIES); i++)
		print_entry(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_KERNELS); i++)
		print_kernel(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_CONSTANTS); i++)
		ht_printf(out, "constant %" PRIu32 ": %" PRIu64 " bytes\n", i,
			ht_image_constants(x)[i]);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_VARIABLES); i++)
		print_variable(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_DERIVED_BUFFERS); i++)
		print_derived(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_OBJECTS); i++)
		print_object(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_PLACES); i++)
		print_place(x, i, out);
	for (uint32_t i = 0; i < ht_image_count(x, HT_IMAGE_PROCEDURES); i++)
		print_procedure(x, i, out);
}
