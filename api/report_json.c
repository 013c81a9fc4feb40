/* halftone.decisions/1: docs/decisions.md describes it, docs/decisions.schema.json checks it. */
#include "api/report.h"

#include <string.h>

static void put_dtypes(struct ht_buf *b, const char *key, const uint8_t *dtype, int32_t n)
{
	ht_printf(b, ", \"%s\": [", key);
	for (int32_t i = 0; i < n; i++) {
		ht_puts(b, i ? ", " : "");
		if (dtype[i] == HT_INVALID)
			ht_puts(b, "null");
		else
			ht_printf(b, "\"%s\"", ht_dtype_info((enum ht_dtype)dtype[i])->name);
	}
	ht_putc(b, ']');
}

static void put_dtype(struct ht_buf *b, const char *key, enum ht_dtype t)
{
	ht_printf(b, ", \"%s\": \"%s\"", key, ht_dtype_info(t)->name);
}

void ht_put_unit_json(struct ht_buf *b, const struct ht_decided_type *t)
{
	ht_puts(b, "{\"attribute\": ");
	ht_put_json(b, t->attr);
	put_dtype(b, "from", t->from);
	put_dtype(b, "to", t->to);
	if (t->operands != HT_INVALID)
		put_dtype(b, "operands", t->operands);
	if (t->emulated != HT_INVALID)
		put_dtype(b, "emulated", t->emulated);
	if (t->format)
		ht_put_member(b, "format", ht_str(t->format));
	ht_put_member(b, "rule", t->rule->text);
	if (t->list && t->class != HT_CLASS_UNKNOWN)
		ht_put_member(b, "class", ht_str(ht_class_name(t->class)));
	if (t->list)
		ht_put_member(b, "list", ht_str(t->list));
	if (t->followed.n)
		ht_put_member(b, "follows", t->followed);
	ht_putc(b, '}');
}

static bool is_own_origin(const struct ht_decided_node *n)
{
	return !n->origins || (n->origins == 1 && ht_str_eq(n->origin[0], n->name));
}

static void put_node(
	struct ht_buf *b, const struct ht_decisions *d, const struct ht_decided_node *n)
{
	ht_puts(b, "{\"node\": ");
	ht_put_json(b, n->name);
	ht_put_member(b, "op", n->op);
	if (n->becomes.n)
		ht_put_member(b, "becomes", n->becomes);
	for (int32_t i = 0; i < n->origins && !is_own_origin(n); i++) {
		ht_puts(b, i ? ", " : ", \"origins\": [");
		ht_put_json(b, n->origin[i]);
	}
	if (!is_own_origin(n))
		ht_putc(b, ']');
	put_dtypes(b, "tensors", n->tensor, n->tensors);
	if (n->operand) {
		put_dtypes(b, "kernel_operands", n->operand, n->operands);
		put_dtypes(b, "kernel_results", n->result, n->results);
	}
	ht_puts(b, ", \"units\": [");
	for (size_t i = 0; i < n->types; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_unit_json(b, &d->type[n->first_type + i]);
	}
	ht_puts(b, "]}");
}

void ht_put_cast_json(struct ht_buf *b, const struct ht_decided_cast *c)
{
	ht_puts(b, "{\"name\": ");
	ht_put_json(b, c->name);
	ht_put_member(b, "source", c->source);
	put_dtype(b, "from", c->from);
	put_dtype(b, "to", c->to);
	if (c->format)
		ht_put_member(b, "format", ht_str(c->format));
	if (c->constant)
		ht_puts(b, ", \"folded\": true");
	ht_put_number(b, "elements", c->elements);
	ht_put_number(b, "bytes", ht_cast_bytes(c));
	ht_put_number(b, "price_ps", c->price);
	ht_putc(b, '}');
}

/* Writes imported node → type attribute → dtype, for units that changed or were stated. */
static void put_types(struct ht_report *r, struct ht_buf *b)
{
	ht_puts(b, "],\n \"types\": {");
	for (size_t i = 0; i < r->types.count; i++) {
		const struct ht_map *of = r->types.entries[i].value;
		ht_puts(b, i ? ",\n  " : "\n  ");
		ht_put_json(b, r->types.entries[i].key);
		ht_puts(b, ": {");
		for (size_t j = 0; j < of->count; j++) {
			const struct ht_decided_type *t = of->entries[j].value;
			ht_puts(b, j ? ", " : "");
			ht_put_json(b, of->entries[j].key);
			ht_printf(b, ": \"%s\"", ht_dtype_info(t->to)->name);
		}
		ht_putc(b, '}');
	}
	ht_putc(b, '}');
}

static void put_names(struct ht_buf *b, const char *key, const struct ht_str *name, size_t names)
{
	ht_printf(b, ",\n \"%s\": [", key);
	for (size_t i = 0; i < names; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_json(b, name[i]);
	}
	ht_putc(b, ']');
}

/* Writes entries of option files: those that had an effect, or those that had none. */
static void put_rules(const struct ht_decisions *d, bool acted, struct ht_buf *b)
{
	int n = 0;

	ht_puts(b, acted ? ",\n \"acting_rules\": [" : ",\n \"idle_rules\": [");
	for (size_t i = 0; i < d->rules; i++) {
		if (d->rule[i].acted != acted)
			continue;
		ht_puts(b, n++ ? ",\n  [" : "\n  [");
		ht_put_json(b, d->rule[i].where);
		ht_puts(b, ", ");
		ht_put_json(b, d->rule[i].name);
		ht_puts(b, ", ");
		ht_put_json(b, d->rule[i].note);
		ht_putc(b, ']');
	}
	ht_putc(b, ']');
}

static void put_options(const struct ht_report_data *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->decisions;

	ht_puts(b, ",\n \"implementation\": [");
	for (size_t i = 0; i < d->impls; i++) {
		ht_puts(b, i ? ",\n  [" : "\n  [");
		ht_put_json(b, d->impl[i].node);
		ht_printf(b, ", \"%s\", ", ht_impl_name(d->impl[i].mode));
		ht_put_json(b, d->impl[i].where);
		ht_puts(b, ", ");
		ht_put_json(b, ht_str(d->impl[i].kernel ? d->impl[i].kernel : ""));
		ht_putc(b, ']');
	}
	ht_putc(b, ']');
	put_rules(d, true, b);
	put_rules(d, false, b);
	ht_puts(b, ",\n \"without_effect\": [");
	for (size_t i = 0; i < r->without_effects; i++)
		ht_printf(b, "%s\"%s\"", i ? ", " : "", r->without_effect[i]);
	ht_puts(b, "],\n \"fusions\": [");
	for (size_t i = 0; i < r->fusions; i++) {
		ht_puts(b, i ? ",\n  [" : "\n  [");
		ht_put_json(b, r->fusion[i].name);
		ht_printf(b, ", \"%s\", ", r->fusion[i].on ? "on" : "off");
		ht_put_json(b, r->fusion[i].note);
		ht_putc(b, ']');
	}
	ht_puts(b, "],\n \"fusions_off\": [");
	for (int id = 0, n = 0; id < HT_FUSION_END; id++) {
		if (!r->off[id])
			continue;
		ht_printf(b, "%s[\"%s\", ", n++ ? ",\n  " : "\n  ", ht_fusion_info[id].name);
		ht_put_json(b, ht_str(r->off[id]));
		ht_putc(b, ']');
	}
	ht_putc(b, ']');
	if (r->found)
		ht_fusions_json(r->found, b);
}

static void put_choices(const struct ht_report_data *r, struct ht_buf *b)
{
	ht_puts(b, ",\n \"methods\": [");
	for (int32_t i = 0; i < r->choices; i++) {
		const struct ht_method_choice *c = &r->choice[i];
		const struct ht_reason_info *why = &ht_reason_info[c->reason];
		ht_puts(b, i ? ",\n  {\"node\": " : "\n  {\"node\": ");
		ht_put_json(b, c->node);
		ht_put_member(b, "method", ht_str(ht_method_info[c->method].name));
		ht_put_member(b, "reason", ht_str(why->name));
		if (why->limit)
			ht_printf(b, ", \"is\": %.6g, \"limit\": %.6g", c->is, c->limit);
		if (c->error > 0)
			ht_printf(b, ", \"error\": %.2g", c->error);
		if (c->other != HT_METHOD_END)
			ht_put_member(b, "other", ht_str(ht_method_info[c->other].name));
		ht_putc(b, '}');
	}
	ht_putc(b, ']');
}

void ht_put_emulations(struct ht_buf *b, const struct ht_emulation *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ht_buf text;

		ht_buf_init(&text, b->arena);
		ht_emulation_put(&text, &e[i]);
		ht_puts(b, i ? ", " : ",\n \"emulation\": [");
		ht_printf(b, "{\"in_place_of\": \"%s\"", ht_dtype_info(e[i].slot)->name);
		ht_put_member(b, "format", ht_buf_str(&text));
		ht_printf(b, ", \"emulated\": %s}", e[i].native == HT_INVALID ? "true" : "false");
	}
	ht_puts(b, n ? "]" : "");
}

static void put_head(const struct ht_report_data *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->decisions;

	ht_puts(b, "{\"schema\": \"halftone.decisions/1\",\n \"model\": ");
	ht_put_json(b, r->model);
	ht_puts(b, ",\n \"policy\": ");
	ht_put_json(b, r->policy);
	ht_puts(b, ",\n \"profile\": ");
	ht_put_json(b, r->profile);
	ht_puts(b, ",\n \"target\": ");
	ht_put_json(b, r->target);
	ht_printf(b, ",\n \"graph_nodes\": %lld,\n \"float_nodes\": %zu,\n \"low_nodes\": %zu",
		(long long)r->graph_nodes, d->float_nodes, d->low_nodes);
	ht_puts(b, ",\n \"price_ps\": ");
	if (r->price < 0)
		ht_puts(b, "null");
	else
		ht_printf(b, "%lld", (long long)r->price);
	if (d->clamp.largest > 0) {
		ht_printf(b, ",\n \"constants\": {\"type\": \"%s\", \"smallest\": ",
			ht_dtype_info(d->clamp.type)->name);
		ht_put_float(b, d->clamp.smallest);
		ht_puts(b, ", \"largest\": ");
		ht_put_float(b, d->clamp.largest);
		ht_putc(b, '}');
	}
	if (d->clamps_sentinels)
		ht_put_member(b, "sentinels", HT_STR("clamp"));
	ht_put_emulations(b, d->emulation, d->emulations);
	if (d->painted == HT_INVALID)
		return;
	ht_printf(b, ",\n \"painting\": {\"type\": \"%s\", \"emulated\": %s",
		ht_dtype_info(d->painted)->name, d->emulates ? "true" : "false");
	ht_put_member(b, "suffix", ht_str(d->suffix));
	ht_putc(b, '}');
}

void ht_report_json(struct ht_report *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->data.decisions;

	put_head(&r->data, b);
	ht_puts(b, ",\n \"nodes\": [");
	for (size_t i = 0; i < d->nodes; i++) {
		ht_puts(b, i ? ",\n  " : "\n  ");
		put_node(b, d, &d->node[i]);
	}
	ht_putc(b, ']');
	ht_report_edges(r, b);
	ht_puts(b, ",\n \"casts\": [");
	for (size_t i = 0; i < d->casts; i++) {
		ht_puts(b, i ? ",\n  " : "\n  ");
		ht_put_cast_json(b, &d->cast[i]);
	}
	put_types(r, b);
	put_names(b, "unknown", d->unknown, d->unknowns);
	put_names(b, "assumed", d->assumed, d->assumeds);
	put_names(b, "fallback", d->fallback, d->fallbacks);
	put_options(&r->data, b);
	put_choices(&r->data, b);
	if (d->certificate)
		ht_certificate_json(b, d->certificate);
	if (r->evidence.n) {
		ht_puts(b, ",\n \"search\": ");
		ht_put_str(b, r->evidence);
	}
	ht_puts(b, "}\n");
}
