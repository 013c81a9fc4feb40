/* Errors of nodes as JSON, text, CSV and Model Explorer's node data. */
#include "api/compare.h"
#include "api/compare_table.h"

#include <math.h>

/* Most nodes in tables and lists of text and Markdown. */
enum { SHOWN = 20 };

double ht_node_inherited(const struct ht_node_error *e)
{
	double error = ht_node_rms(e, &e->error), own = ht_node_rms(e, &e->own);

	if (!isfinite(error) || !isfinite(own))
		return isfinite(own) ? error : 0;
	return error > own ? sqrt(error * error - own * own) : 0;
}

/* "node", "node:1", "body/node". */
static struct ht_str name_of(struct ht_arena *a, const struct ht_node_error *e)
{
	const struct ht_tensor_info *i = &e->info;
	struct ht_str index = i->result ? ht_str_printf(a, ":%zu", i->result) : HT_STR("");

	return ht_str_printf(
		a, "%s%s%s%.*s", i->body, *i->body ? "/" : "", i->node, HT_STR_ARG(index));
}

/* ---- JSON ---- */

static void put_shape(struct ht_buf *b, const struct ht_tensor_info *i)
{
	ht_puts(b, ", \"shape\": [");
	for (int32_t k = 0; k < i->rank; k++)
		ht_printf(b, "%s%lld", k ? ", " : "", (long long)i->dim[k]);
	ht_putc(b, ']');
}

static void put_counts(struct ht_buf *b, const struct ht_node_error *e)
{
	for (int i = 0; i < HT_NUMERICS; i++)
		ht_printf(
			b, ", \"%s\": %llu", ht_numeric_names[i], (unsigned long long)e->count[i]);
}

static void put_node(struct ht_buf *b, const struct ht_node_error *e)
{
	const struct ht_tensor_info *i = &e->info;

	ht_puts(b, "{");
	ht_put_text_member(b, "node", ht_str(i->node));
	ht_puts(b, ", ");
	ht_put_text_member(b, "op", ht_str(i->op));
	ht_puts(b, ", ");
	ht_put_text_member(b, "body", ht_str(i->body));
	ht_printf(b, ", \"result\": %zu, \"imported\": %s, \"dtype\": \"%s\", \"wide\": %s",
		i->result, i->imported ? "true" : "false", ht_dtype_name(i->dtype),
		e->wide ? "true" : "false");
	put_shape(b, i);
	ht_printf(b, ", \"elements\": %llu, \"order\": %llu, \"depth\": %zu",
		(unsigned long long)e->elements, (unsigned long long)e->order, e->depth);
	ht_put_next_real(b, "error", ht_node_rms(e, &e->error));
	ht_put_next_real(b, "inherited", ht_node_inherited(e));
	ht_put_next_real(b, "own", ht_node_rms(e, &e->own));
	ht_put_next_real(b, "expected", ht_node_expected(e));
	ht_put_next_real(b, "excess", ht_node_excess(e));
	ht_put_next_real(b, "max", e->most);
	ht_put_next_real(b, "max_error", e->error.most);
	ht_put_next_real(b, "max_own", e->own.most);
	put_counts(b, e);
	ht_putc(b, '}');
}

static void put_first(struct ht_buf *b, const struct ht_node_errors *n)
{
	ht_puts(b, ",\n     \"first\": {");
	for (int i = 0; i < HT_NUMERICS; i++) {
		const struct ht_node_error *e = ht_nodes_first(n, (enum ht_numeric)i);

		ht_printf(b, "%s\"%s\": ", i ? ", " : "", ht_numeric_names[i]);
		if (!e) {
			ht_puts(b, "null");
			continue;
		}
		ht_puts(b, "{");
		ht_put_text_member(b, "node", name_of(b->arena, e));
		ht_printf(b, ", \"sample\": %zu}", e->sample[i] + 1);
	}
	ht_putc(b, '}');
}

static void put_suspects(struct ht_buf *b, const struct ht_node_errors *n)
{
	const struct ht_node_error **e = ht_nodes_ranked(n, b->arena);

	ht_puts(b, ",\n     \"suspects\": [");
	for (size_t i = 0; i < n->n && ht_node_excess(e[i]) >= HT_NODE_SUSPECT; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_json(b, name_of(b->arena, e[i]));
	}
	ht_putc(b, ']');
}

/* The histogram without the empty bins at both ends. */
static void put_exponents(struct ht_buf *b, const struct ht_node_errors *n)
{
	int first = 0, end = HT_EXPONENTS;

	while (first < end && !n->exponent[first])
		first++;
	while (end > first && !n->exponent[end - 1])
		end--;
	ht_printf(b, ",\n     \"exponents\": {\"first\": %d, \"counts\": [",
		first < end ? first + HT_LEAST_EXPONENT : 0);
	for (int i = first; i < end; i++)
		ht_printf(b, "%s%llu", i > first ? ", " : "", (unsigned long long)n->exponent[i]);
	ht_puts(b, "]}");
}

void ht_nodes_json(struct ht_buf *b, const struct ht_compared *r)
{
	const struct ht_node_errors *n = &r->nodes;

	if (!n->samples)
		return;
	ht_printf(b,
		",\n    \"nodes\": {\"samples\": %zu, \"waves\": %zu, \"without_reference\": %zu, "
		"\"seconds\": {",
		n->samples, n->waves, n->without);
	ht_put_real(b, "compiling", (double)n->compile_ns / 1e9);
	ht_put_next_real(b, "running", (double)n->run_ns / 1e9);
	ht_puts(b, "}");
	put_first(b, n);
	put_suspects(b, n);
	put_exponents(b, n);
	ht_puts(b, ",\n     \"tensors\": [");
	for (size_t i = 0; i < n->n; i++) {
		ht_puts(b, i ? ",\n      " : "\n      ");
		put_node(b, &n->of[i]);
	}
	ht_puts(b, "]}");
}

/* ---- text and Markdown ---- */

static struct ht_str ratio(struct ht_arena *a, double x)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_double(&b, ht_excess_shown(x));
	return ht_buf_str(&b);
}

static void put_row(struct ht_text_table *t, const struct ht_node_error *e)
{
	ht_text_table_cell(t, name_of(t->a, e));
	ht_text_table_text(t, e->info.op);
	ht_text_table_text(t, e->wide ? "float32, inside" : ht_dtype_name(e->info.dtype));
	ht_text_table_cell(t, ht_short_number(t->a, ht_node_rms(e, &e->own)));
	ht_text_table_cell(t, ht_short_number(t->a, ht_node_expected(e)));
	ht_text_table_cell(t, ratio(t->a, ht_node_excess(e)));
	ht_text_table_cell(t, ht_short_number(t->a, ht_node_inherited(e)));
	ht_text_table_cell(t, ht_short_number(t->a, ht_node_rms(e, &e->error)));
}

static void put_worst(struct ht_text_table t, const struct ht_node_errors *n)
{
	static const char *const head[] = { "node", "op", "type", "own", "expected", "own/expected",
		"inherited", "error" };
	const struct ht_node_error **e = ht_nodes_ranked(n, t.a);

	ht_text_table_head(&t, head, HT_COUNT(head));
	for (size_t i = 0; i < n->n && i < SHOWN; i++)
		put_row(&t, e[i]);
	ht_text_table_end(&t);
}

static void put_line(struct ht_text_table *t, struct ht_str s)
{
	ht_puts(t->b, t->markdown ? "- " : "");
	ht_text_table_escaped(t, s);
	ht_putc(t->b, '\n');
}

static void put_firsts(struct ht_text_table *t, const struct ht_node_errors *n)
{
	static const char *const words[HT_NUMERICS] = { "overflows to infinity",
		"underflows to zero", "has subnormals", "makes NaN" };

	for (int i = 0; i < HT_NUMERICS; i++) {
		const struct ht_node_error *e = ht_nodes_first(n, (enum ht_numeric)i);

		if (e)
			put_line(t,
				ht_str_printf(t->a,
					"the first node that %s: %s, in sample %zu, %llu elements in all",
					words[i], name_of(t->a, e).p, e->sample[i] + 1,
					(unsigned long long)e->count[i]));
	}
}

static void put_suspect_lines(struct ht_text_table *t, const struct ht_node_errors *n)
{
	const struct ht_node_error **e = ht_nodes_ranked(n, t->a);

	for (size_t i = 0; i < n->n && i < SHOWN && ht_node_excess(e[i]) >= HT_NODE_SUSPECT; i++)
		put_line(t,
			ht_str_printf(t->a, "%s: its own error is %s times what rounding explains",
				name_of(t->a, e[i]).p, ratio(t->a, ht_node_excess(e[i])).p));
}

void ht_nodes_text(const struct ht_compared *r, bool markdown, struct ht_buf *b)
{
	const struct ht_node_errors *n = &r->nodes;
	struct ht_text_table t = { .b = b, .a = b->arena, .markdown = markdown };

	if (!n->samples)
		return;
	ht_puts(b, markdown ? "\n#### " : "\n");
	ht_text_table_escaped(&t, r->name);
	ht_printf(b, ": errors of %zu tensors, relative to the reference (root mean square)", n->n);
	if (n->without)
		ht_printf(b, "; %zu tensors have none in the reference", n->without);
	ht_puts(b, "\n\n");
	put_worst(t, n);
	put_suspect_lines(&t, n);
	put_firsts(&t, n);
}

/* ---- CSV ---- */

static void put_csv_row(struct ht_buf *b, const struct ht_comparison *c,
	const struct ht_compared *r, const struct ht_node_error *e)
{
	const double number[] = { ht_node_rms(e, &e->error), ht_node_inherited(e),
		ht_node_rms(e, &e->own), ht_node_expected(e), ht_node_excess(e), e->most,
		e->error.most, e->own.most };

	ht_put_csv_field(b, ht_compared_model(c, ""));
	ht_putc(b, ',');
	ht_put_csv_field(b, r->name);
	ht_putc(b, ',');
	ht_put_csv_field(b, name_of(b->arena, e));
	ht_putc(b, ',');
	ht_put_csv_field(b, ht_str(e->info.op));
	ht_printf(b, ",%s,%d,%llu,%llu", ht_dtype_name(e->info.dtype), e->wide,
		(unsigned long long)e->elements, (unsigned long long)e->order);
	for (size_t i = 0; i < HT_COUNT(number); i++) {
		ht_putc(b, ',');
		ht_put_double(b, number[i]);
	}
	for (int i = 0; i < HT_NUMERICS; i++)
		ht_printf(b, ",%llu", (unsigned long long)e->count[i]);
	ht_puts(b, "\r\n");
}

void ht_nodes_csv(const struct ht_comparison *c, bool head, struct ht_buf *b)
{
	if (head)
		ht_puts(b,
			"model,policy,node,op,dtype,wide,elements,order,error,inherited,own,"
			"expected,excess,max,max_error,max_own,overflow,underflow,subnormal,nan\r\n");
	for (const struct ht_compared *r = c->first; r; r = r->next)
		for (size_t i = 0; i < r->nodes.n; i++)
			put_csv_row(b, c, r, &r->nodes.of[i]);
}

/* ---- node data ---- */

static const struct ht_compared *with_nodes(const struct ht_comparison *c)
{
	for (const struct ht_compared *r = c->first; r; r = r->next)
		if (r->nodes.samples)
			return r;
	return NULL;
}

static void put_result(
	struct ht_buf *b, struct ht_str node, const struct ht_node_error *e, bool first)
{
	double own = ht_node_rms(e, &e->own);

	ht_puts(b, first ? "\n " : ",\n ");
	ht_put_json(b, node);
	ht_puts(b, ": {\"value\": ");
	ht_put_double(b, isfinite(own) ? own : 1);
	ht_puts(b, ht_node_excess(e) >= HT_NODE_SUSPECT ? ", \"bgColor\": \"#984ea3\"}" : "}");
}

/* A node with several results has the value of the one with the largest own error. */
void ht_nodes_data(const struct ht_comparison *c, struct ht_buf *b)
{
	const struct ht_compared *r = with_nodes(c);
	struct ht_map nodes;

	ht_map_init(&nodes, b->arena);
	for (size_t i = 0; r && i < r->nodes.n; i++) {
		const struct ht_node_error *e = &r->nodes.of[i], *old;
		struct ht_map_entry *at;

		if (!e->info.imported || *e->info.body)
			continue;
		at = ht_map_at(&nodes, ht_str(e->info.node));
		old = at->value;
		if (!old || ht_node_rms(e, &e->own) > ht_node_rms(old, &old->own))
			at->value = (void *)(uintptr_t)e;
	}
	ht_puts(b, "{\"results\": {");
	for (size_t i = 0; i < nodes.count; i++)
		put_result(b, nodes.entries[i].key, nodes.entries[i].value, i == 0);
	ht_puts(b, "},\n \"gradient\": [{\"stop\": 0, \"bgColor\": \"#ffffff\"}, "
		   "{\"stop\": 1, \"bgColor\": \"#d73027\"}]}\n");
}
