/* Prints the .hir form: one graph has one text. */
#include "ir/text.h"

#include <string.h>

struct print {
	struct ht_buf *b;
	struct ht_buf *weights;
	bool all_inline;
	struct ht_map written; /* the hashes, as text, of the constants in `weights` */
};

/* ---- words ---- */

static void put_string(struct print *p, struct ht_str s)
{
	bool utf8 = ht_utf8_valid(s);

	ht_putc(p->b, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\')
			ht_printf(p->b, "\\%c", c);
		else if (c == '\n')
			ht_puts(p->b, "\\n");
		else if (c == '\t')
			ht_puts(p->b, "\\t");
		else if (c < ' ' || c == 0x7f || (c > 0x7f && !utf8))
			ht_printf(p->b, "\\x%02x", c);
		else
			ht_putc(p->b, (char)c);
	}
	ht_putc(p->b, '"');
}

static bool is_name(struct ht_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ht_is_name_char(s.p[i]))
			return false;
	return s.n > 0;
}

/* After '%', '^', '@' and '$' any name is allowed. */
static void put_name(struct print *p, struct ht_str s)
{
	if (is_name(s))
		ht_put_str(p->b, s);
	else
		put_string(p, s);
}

/* In places where a number is allowed, a name that looks like one is quoted. */
static void put_word(struct print *p, struct ht_str s)
{
	if (is_name(s) && !ht_is_digit(s.p[0]) && s.p[0] != '-' && s.p[0] != '.' && s.p[0] != '/')
		ht_put_str(p->b, s);
	else
		put_string(p, s);
}

static void put_clause(struct print *p, const char *before, struct ht_str s, const char *after)
{
	if (!s.n)
		return;
	ht_puts(p->b, before);
	put_string(p, s);
	ht_puts(p->b, after);
}

static void put_dtype(struct print *p, enum ht_dtype t)
{
	bool ref = t > HT_REF;
	unsigned n = ref ? (unsigned)t - HT_REF : (unsigned)t;

	if (n < HT_DTYPE_END)
		ht_puts(p->b, ht_dtype_info((enum ht_dtype)n)->tag);
	else
		ht_printf(p->b, "dtype%u", n);
	if (ref)
		ht_putc(p->b, '&');
}

static void put_dim(struct print *p, int64_t d)
{
	if (d >= 0)
		ht_printf(p->b, "%lld", (long long)d);
	else if (d == HT_DIM_UNKNOWN)
		ht_putc(p->b, '?');
	else
		ht_printf(p->b, "d%lld", (long long)(-2 - d));
}

static void put_shape(struct print *p, struct ht_shape s)
{
	ht_putc(p->b, '[');
	if (s.rank < 0)
		ht_putc(p->b, '*');
	for (int32_t i = 0; i < s.rank; i++) {
		if (i)
			ht_putc(p->b, ',');
		put_dim(p, s.dim[i]);
	}
	ht_putc(p->b, ']');
}

static void put_value(struct print *p, struct ht_value v)
{
	if (!v.node) {
		ht_puts(p->b, "none");
		return;
	}
	ht_putc(p->b, '%');
	put_name(p, v.node->name);
	if (v.port.n) {
		ht_putc(p->b, ':');
		put_word(p, v.port);
	}
	if (v.port.n || v.index)
		ht_printf(p->b, ":%d", (int)v.index);
}

/* ---- numbers: exact, and floats never look like integers ---- */

static void put_hex(struct print *p, uint64_t bits, size_t bytes)
{
	ht_printf(p->b, "0x%0*llx", (int)bytes * 2, (unsigned long long)bits);
}

static uint64_t load(const void *from, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, from, bytes);
	return v;
}

static void mark_as_float(struct ht_buf *b, size_t start)
{
	for (size_t i = start; i < b->n; i++)
		if (strchr(".einf", b->p[i]))
			return;
	ht_puts(b, ".0");
}

/* bf16 is widened here, not by ht_bf16_to_f32(), which flushes subnormals. */
static float widen(enum ht_dtype t, uint64_t bits)
{
	uint32_t wide = (uint32_t)bits << (t == HT_BF16 ? 16 : 0);
	float f;

	if (t == HT_F16)
		return ht_f16_to_f32((uint16_t)bits);
	memcpy(&f, &wide, sizeof f);
	return f;
}

static void put_float_bits(struct print *p, enum ht_dtype t, uint64_t bits)
{
	size_t start = p->b->n;
	double d;

	if (t == HT_F64)
		memcpy(&d, &bits, sizeof d);
	else
		d = widen(t, bits);
	if (d != d && !ht_is_nan_of(t, bits)) {
		put_hex(p, bits, ht_dtype_info(t)->bytes);
		return;
	}
	if (t == HT_F64)
		ht_put_double(p->b, d);
	else
		ht_put_float(p->b, (float)d);
	mark_as_float(p->b, start);
}

static void put_float(struct print *p, float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	put_float_bits(p, HT_F32, bits);
}

enum ht_elem_text ht_elem_text(enum ht_dtype t)
{
	switch (t) {
	case HT_F32:
	case HT_F64:
	case HT_F16:
	case HT_BF16:
		return HT_TEXT_FLOAT;
	case HT_I8:
	case HT_I16:
	case HT_I32:
	case HT_I64:
	case HT_QI8:
	case HT_QI16:
	case HT_QI32:
		return HT_TEXT_SIGNED;
	case HT_U8:
	case HT_U16:
	case HT_U32:
	case HT_U64:
	case HT_QU8:
	case HT_QU16:
		return HT_TEXT_UNSIGNED;
	case HT_C64:
	case HT_C128:
		return HT_TEXT_COMPLEX;
	case HT_BOOL:
		return HT_TEXT_BOOL;
	default:
		return HT_TEXT_HEX;
	}
}

static int64_t extend_sign(uint64_t bits, size_t bytes)
{
	int shift = (int)(8 - bytes) * 8;

	return (int64_t)(bits << shift) >> shift;
}

static void put_element(struct print *p, enum ht_dtype t, const char *at)
{
	size_t bytes = ht_dtype_info(t)->bytes;
	uint64_t bits = bytes <= 8 ? load(at, bytes) : 0;
	enum ht_dtype part = t == HT_C64 ? HT_F32 : HT_F64;

	switch (ht_elem_text(t)) {
	case HT_TEXT_FLOAT:
		put_float_bits(p, t, bits);
		break;
	case HT_TEXT_SIGNED:
		ht_printf(p->b, "%lld", (long long)extend_sign(bits, bytes));
		break;
	case HT_TEXT_UNSIGNED:
		ht_printf(p->b, "%llu", (unsigned long long)bits);
		break;
	case HT_TEXT_COMPLEX:
		ht_putc(p->b, '(');
		put_float_bits(p, part, load(at, bytes / 2));
		ht_puts(p->b, ", ");
		put_float_bits(p, part, load(at + bytes / 2, bytes / 2));
		ht_putc(p->b, ')');
		break;
	case HT_TEXT_BOOL:
		if (bits <= 1) {
			ht_puts(p->b, bits ? "true" : "false");
			break;
		}
		put_hex(p, bits, bytes);
		break;
	case HT_TEXT_HEX:
		put_hex(p, bits, bytes);
		break;
	}
}

/* ---- tensors ---- */

/* The number of elements to print: the last of them stands for the remaining equal ones, if that
 * makes the text shorter. */
static size_t distinct(const char *bytes, size_t count, size_t size)
{
	size_t n = count;

	while (n > 1 && !memcmp(bytes + (n - 1) * size, bytes + (n - 2) * size, size))
		n--;
	return count - n >= 2 ? n : count;
}

static void put_elements(struct print *p, const struct ht_tensor *t, size_t count, size_t n)
{
	size_t size = ht_dtype_info(t->dtype)->bytes;

	ht_puts(p->b, " {");
	for (size_t i = 0; i < n; i++) {
		if (i)
			ht_puts(p->b, ", ");
		put_element(p, t->dtype, (const char *)t->blob->p + i * size);
	}
	ht_puts(p->b, n < count ? " ...}" : "}");
}

static void put_external(struct print *p, const struct ht_blob *b)
{
	struct ht_hash h = ht_hash_bytes(b->p, b->n);
	struct ht_str name = ht_hash_text(p->b->arena, h);

	if (p->weights && !ht_map_get(&p->written, name)) {
		ht_map_at(&p->written, name)->value = p;
		ht_weights_append(p->weights, h, b);
	}
	ht_printf(p->b, " weights %.*s", HT_STR_ARG(name));
}

static void put_data(struct print *p, const struct ht_tensor *t)
{
	size_t size = ht_dtype_info(t->dtype)->bytes;
	int64_t want = ht_shape_count(t->shape);
	size_t count, n, whole;

	if (!size || t->blob->n % size) {
		ht_puts(p->b, " bytes ");
		put_string(p, (struct ht_str){ t->blob->p, t->blob->n });
		return;
	}
	count = t->blob->n / size;
	whole = want >= 0 && (uint64_t)want == count;
	n = whole ? distinct(t->blob->p, count, size) : count;
	if (n > HT_INLINE_ELEMENTS && !p->all_inline)
		put_external(p, t->blob);
	else
		put_elements(p, t, count, n);
}

static void put_tensor(struct print *p, const struct ht_tensor *t)
{
	ht_puts(p->b, "tensor ");
	put_dtype(p, t->dtype);
	put_shape(p, t->shape);
	if (t->form == HT_TENSOR_VALUES)
		ht_printf(p->b, " values %zu", t->values);
	else if (t->form == HT_TENSOR_SHARD)
		ht_puts(p->b, " shard");
	if (t->form != HT_TENSOR_VALUES && t->values)
		ht_printf(p->b, " count %zu", t->values);
	if (t->version)
		ht_printf(p->b, " version %lld", (long long)t->version);
	put_clause(p, " extra ", t->extra, "");
	if (t->strings) {
		ht_puts(p->b, " strings {");
		for (size_t i = 0; i < t->values; i++) {
			ht_puts(p->b, i ? ", " : "");
			put_string(p, t->strings[i]);
		}
		ht_putc(p->b, '}');
	}
	if (t->blob)
		put_data(p, t);
}

/* ---- attributes ---- */

static void put_attr_value(struct print *p, const struct ht_attr_value *v);

static void put_attrs(struct print *p, const struct ht_attr *a)
{
	ht_putc(p->b, '{');
	for (const char *comma = ""; a; a = a->next, comma = ", ") {
		ht_puts(p->b, comma);
		put_word(p, a->name);
		ht_putc(p->b, '=');
		put_attr_value(p, &a->value);
	}
	ht_putc(p->b, '}');
}

static void put_shape_value(struct print *p, const struct ht_attr_value *v)
{
	const struct ht_shape_rest *rest = v->shape.rest;

	ht_puts(p->b, "shape");
	put_shape(p, v->shape.shape);
	if (!rest)
		return;
	if (rest->dim_names) {
		ht_puts(p->b, " names {");
		for (int32_t i = 0; i < v->shape.shape.rank; i++) {
			ht_puts(p->b, i ? ", " : "");
			put_string(p, rest->dim_names[i]);
		}
		ht_putc(p->b, '}');
	}
	put_clause(p, " extra ", rest->extra, "");
}

static void put_list(struct print *p, const struct ht_attr_value *v)
{
	ht_putc(p->b, '[');
	for (size_t i = 0; i < v->list.n; i++) {
		ht_puts(p->b, i ? ", " : "");
		put_attr_value(p, &v->list.item[i]);
	}
	ht_putc(p->b, ']');
}

static void put_attr_value(struct print *p, const struct ht_attr_value *v)
{
	switch (v->kind) {
	case HT_ATTR_NONE:
		ht_puts(p->b, "none");
		break;
	case HT_ATTR_STRING:
		put_string(p, v->s);
		break;
	case HT_ATTR_INT:
		ht_printf(p->b, "%lld", (long long)v->i);
		break;
	case HT_ATTR_FLOAT:
		put_float(p, v->f);
		break;
	case HT_ATTR_BOOL:
		ht_puts(p->b, v->b ? "true" : "false");
		break;
	case HT_ATTR_TYPE:
		put_dtype(p, v->type);
		break;
	case HT_ATTR_SHAPE:
		put_shape_value(p, v);
		break;
	case HT_ATTR_TENSOR:
		put_tensor(p, v->tensor);
		break;
	case HT_ATTR_PLACEHOLDER:
		ht_putc(p->b, '$');
		put_name(p, v->s);
		break;
	case HT_ATTR_FUNC:
		ht_putc(p->b, '@');
		put_name(p, v->func->name);
		put_attrs(p, v->func->attrs);
		put_clause(p, " extra ", v->func->extra, "");
		break;
	case HT_ATTR_LIST:
		put_list(p, v);
		break;
	}
}

/* ---- nodes ---- */

static void put_operands(struct print *p, const struct ht_node *n)
{
	ht_putc(p->b, '(');
	for (int32_t i = 0; i < n->ins; i++) {
		ht_puts(p->b, i ? ", " : "");
		put_value(p, n->in[i]);
	}
	for (int32_t i = 0; i < n->controls; i++) {
		ht_puts(p->b, i || n->ins ? ", ^" : "^");
		put_name(p, n->control[i]->name);
	}
	ht_putc(p->b, ')');
}

static void put_types(struct print *p, const struct ht_node *n)
{
	if (!n->outs && ht_node_result_count(n) > 0)
		ht_puts(p->b, " : none");
	for (int32_t i = 0; i < n->outs; i++) {
		ht_puts(p->b, i ? ", " : " : ");
		if (n->out[i].dtype == HT_INVALID)
			ht_putc(p->b, '?');
		else
			put_dtype(p, n->out[i].dtype);
		put_shape(p, n->out[i].shape);
	}
}

static void put_node(struct print *p, const struct ht_node *n, const char *indent)
{
	ht_printf(p->b, "%s%%", indent);
	put_name(p, n->name);
	ht_puts(p->b, " = ");
	put_word(p, n->type);
	put_operands(p, n);
	if (n->attrs) {
		ht_putc(p->b, ' ');
		put_attrs(p, n->attrs);
	}
	put_clause(p, " device ", n->device, "");
	if (n->extra)
		put_clause(p, " extra ", *n->extra, "");
	if (n->origin) {
		ht_puts(p->b, " from {");
		for (int32_t i = 0; i < n->origins; i++) {
			ht_puts(p->b, i ? ", " : "");
			put_string(p, n->origin[i]);
		}
		ht_putc(p->b, '}');
	}
	put_types(p, n);
	ht_putc(p->b, '\n');
}

/* ---- graphs ---- */

static void put_ports(struct print *p, const char *what, const struct ht_port *port)
{
	for (; port; port = port->next) {
		ht_printf(p->b, "  %s ", what);
		put_string(p, port->name);
		if (port->alias.n) {
			ht_puts(p->b, " as ");
			put_string(p, port->alias);
		}
		ht_puts(p->b, " = ");
		if (port->value.node && port->value.index < 0) {
			ht_putc(p->b, '^');
			put_name(p, port->value.node->name);
		} else {
			put_value(p, port->value);
		}
		ht_puts(p->b, port->strings ? " strings\n" : "\n");
	}
}

static void put_symbol(const void *unused, int32_t symbol, struct ht_buf *b)
{
	(void)unused;
	ht_printf(b, "d%d", (int)symbol);
}

static void put_sym(struct print *p, size_t i, const struct ht_sym *s, const char *indent)
{
	ht_printf(p->b, "%sdim d%zu = ", indent, i);
	if (ht_size_count(&s->of)) {
		ht_size_print(&s->of, put_symbol, NULL, p->b);
	} else {
		ht_puts(p->b, "name ");
		put_string(p, s->name);
	}
	ht_putc(p->b, '\n');
}

static void put_entry(struct print *p, const struct ht_entry *e)
{
	ht_puts(p->b, "\nentry ");
	put_string(p, e->name);
	put_clause(p, " method ", e->method, "");
	ht_puts(p->b, " {\n");
	put_ports(p, "input", e->inputs);
	put_ports(p, "output", e->outputs);
	ht_puts(p->b, "}\n");
}

static void put_body(struct print *p, const struct ht_graph *g, const char *indent)
{
	for (size_t i = 0; i < g->sym_count; i++)
		put_sym(p, i, &g->syms[i], indent);
	for (const struct ht_entry *e = g->entries; e; e = e->next)
		put_entry(p, e);
	if (!*indent && g->nodes)
		ht_putc(p->b, '\n');
	for (const struct ht_node *n = g->first; n; n = n->next)
		put_node(p, n, indent);
}

static void put_function(struct print *p, const struct ht_function *f)
{
	ht_puts(p->b, "\nfunction ");
	put_string(p, f->name);
	ht_puts(p->b, " {\n");
	put_clause(p, "  signature ", f->signature, "\n");
	if (f->attrs) {
		ht_puts(p->b, "  attrs ");
		put_attrs(p, f->attrs);
		ht_putc(p->b, '\n');
	}
	put_clause(p, "  extra ", f->extra, "\n");
	put_ports(p, "arg", f->args);
	put_ports(p, "ret", f->rets);
	put_ports(p, "control_ret", f->control_rets);
	put_body(p, f->body, "  ");
	ht_puts(p->b, "}\n");
}

/* An upper bound of the bytes that put_external() appends, so that large models are copied once. */
static size_t external_bytes(const struct ht_graph *g)
{
	size_t sum = 0;

	for (const struct ht_node *n = g->first; n; n = n->next)
		for (const struct ht_attr *a = n->attrs; a; a = a->next)
			if (a->value.kind == HT_ATTR_TENSOR && a->value.tensor->blob &&
				a->value.tensor->blob->n > HT_INLINE_ELEMENTS)
				sum += a->value.tensor->blob->n + 3 * HT_WEIGHTS_ALIGN;
	return sum;
}

static void put_strings(struct print *p, const struct ht_map *strings)
{
	ht_puts(p->b, "strings {");
	for (size_t i = 0; i < strings->count; i++) {
		ht_puts(p->b, i ? ", " : "");
		put_string(p, strings->entries[i].key);
	}
	ht_puts(p->b, "}\n");
}

static const char *const sources[] = { "none", "graphdef", "metagraph", "savedmodel", "tfjs" };

void ht_text_print(const struct ht_graph *g, const struct ht_text_options *opt, struct ht_buf *out,
	struct ht_buf *weights)
{
	struct print p = { .b = out, .weights = weights, .all_inline = opt->weights_inline };

	ht_map_init(&p.written, out->arena);
	if (weights && !p.all_inline)
		ht_buf_reserve(weights, external_bytes(g));
	ht_printf(out, "hir %d\n", HT_HIR_VERSION);
	if (g->source != HT_SOURCE_NONE)
		ht_printf(out, "source %s\n", sources[g->source]);
	put_clause(&p, "versions ", g->versions, "\n");
	put_clause(&p, "extra ", g->extra, "\n");
	put_clause(&p, "container ", g->container, "\n");
	if (g->checkpoint) {
		ht_puts(out, "checkpoint ");
		put_string(&p, ht_str(g->checkpoint));
		ht_putc(out, '\n');
	}
	if (g->strings)
		put_strings(&p, g->strings);
	put_body(&p, g, "");
	for (const struct ht_function *f = g->functions; f; f = f->next)
		put_function(&p, f);
}
