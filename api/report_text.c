/* Reports for people: all changes, or everything about one node. */
#include "api/report.h"

#include <string.h>

void ht_put_reason(struct ht_buf *b, const struct ht_decided_type *t)
{
	ht_put_str(b, t->rule->text);
	if (t->operands != HT_INVALID)
		ht_printf(b, " (operands %s)", ht_dtype_info(t->operands)->name);
	if (t->emulated != HT_INVALID)
		ht_printf(b, " (rounded to %s)", ht_dtype_info(t->emulated)->name);
	if (t->list && t->class != HT_CLASS_UNKNOWN)
		ht_printf(b, " (%s, %s)", ht_class_name(t->class), t->list);
	else if (t->list)
		ht_printf(b, " (%s)", t->list);
	if (t->followed.n)
		ht_printf(b, ", after %.*s", HT_STR_ARG(t->followed));
}

static void put_type(
	struct ht_buf *b, struct ht_str node, struct ht_str attr, const struct ht_decided_type *t)
{
	ht_printf(b, "%.*s  %.*s: %s -> %s  ", HT_STR_ARG(node), HT_STR_ARG(attr),
		ht_dtype_info(t->from)->name, t->format ? t->format : ht_dtype_info(t->to)->name);
	ht_put_reason(b, t);
	ht_putc(b, '\n');
}

static void put_choice(const struct ht_method_choice *c, struct ht_buf *b)
{
	const struct ht_reason_info *why = &ht_reason_info[c->reason];
	const char *ask = c->other == HT_METHOD_END ? NULL : ht_method_info[c->other].ask;

	ht_printf(b, "%.*s by %s", HT_STR_ARG(c->node), ht_method_info[c->method].name);
	if (c->error > 0)
		ht_printf(b, " (rms error %.2g)", c->error);
	ht_printf(b, ": %s", why->is);
	if (why->limit)
		ht_printf(b, ": %.3g, %s %.3g", c->is, why->limit, c->limit);
	if (ask)
		ht_printf(b, "; %s: %s", ht_method_info[c->other].name, ask);
	ht_putc(b, '\n');
}

/* ---- one node ---- */

bool ht_is_called(const struct ht_decided_node *n, const char *name)
{
	if (ht_str_is(n->name, name))
		return true;
	for (int32_t i = 0; i < n->origins; i++)
		if (ht_str_is(n->origin[i], name))
			return true;
	return false;
}

enum ht_status ht_report_has(
	const struct ht_report *r, const char *name, struct ht_arena *a, struct ht_diags *d)
{
	const struct ht_decisions *from = &r->data.decisions;
	struct ht_str *names, near[3];
	size_t n = 0;

	for (size_t i = 0; i < from->nodes; i++) {
		if (ht_is_called(&from->node[i], name))
			return HT_OK;
		n += 1 + (size_t)from->node[i].origins;
	}
	names = HT_NEW_ARRAY(a, struct ht_str, n);
	n = 0;
	for (size_t i = 0; i < from->nodes; i++) {
		names[n++] = from->node[i].name;
		for (int32_t k = 0; k < from->node[i].origins; k++)
			names[n++] = from->node[i].origin[k];
	}
	if (ht_near_names(ht_str(name), names, n, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"no node '%s' with floats is decided on; did you mean '%.*s'?", name,
			HT_STR_ARG(near[0]));
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"no node '%s' with floats is decided on: it is not in the graph, or was folded away",
		name);
}

static bool is_of(struct ht_str source, struct ht_str node)
{
	return source.n >= node.n && !memcmp(source.p, node.p, node.n) &&
	       (source.n == node.n || source.p[node.n] == ':');
}

static void put_node(const struct ht_report *r, const struct ht_decided_node *n, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->data.decisions;

	ht_printf(b, "%.*s (%.*s)", HT_STR_ARG(n->name), HT_STR_ARG(n->op));
	for (int32_t i = 0; i < n->origins; i++)
		ht_printf(b, "%s%.*s", i ? ", " : " of ", HT_STR_ARG(n->origin[i]));
	ht_putc(b, '\n');
	for (size_t i = 0; i < n->types; i++) {
		const struct ht_decided_type *t = &d->type[n->first_type + i];
		put_type(b, n->name, t->attr, t);
		for (int k = 0; k < HT_ASKED_END; k++)
			if (t->why_not[k])
				ht_printf(b, "  not %s: %.*s\n",
					ht_dtype_info(ht_asked_dtype((enum ht_asked)k))->name,
					HT_STR_ARG(t->why_not[k]->text));
	}
	for (size_t i = 0; i < d->casts; i++)
		if (is_of(d->cast[i].source, n->name) || ht_str_eq(d->cast[i].name, n->name))
			ht_put_cast_text(b, &d->cast[i], r->priced);
	for (int32_t i = 0; i < r->data.choices; i++)
		if (ht_str_eq(r->data.choice[i].node, n->name))
			put_choice(&r->data.choice[i], b);
}

static void put_one(const struct ht_report *r, const char *node, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->data.decisions;

	for (size_t i = 0; i < d->nodes; i++)
		if (ht_is_called(&d->node[i], node))
			put_node(r, &d->node[i], b);
	if (d->certificate)
		ht_certificate_prices(b, d->certificate);
}

/* ---- everything that changed ---- */

void ht_put_cast_text(struct ht_buf *b, const struct ht_decided_cast *c, bool priced)
{
	int64_t bytes = ht_cast_bytes(c);

	ht_printf(b, "cast %.*s: %s -> %s  of %.*s", HT_STR_ARG(c->name),
		ht_dtype_info(c->from)->name, ht_dtype_info(c->to)->name, HT_STR_ARG(c->source));
	if (c->format)
		ht_printf(b, " as %s", c->format);
	if (c->constant)
		ht_puts(b, " (constant: folded)");
	else if (bytes >= 0)
		ht_printf(b, ", %lld bytes", (long long)bytes);
	if (priced && !c->constant && c->price >= 0) {
		ht_puts(b, ", ");
		ht_put_ms(b, c->price);
	}
	ht_putc(b, '\n');
}

/* Writes rules and options without effect, and the implementation modes of nodes. */
static void put_options(const struct ht_report_data *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->decisions;

	for (size_t i = 0; i < d->impls; i++)
		ht_printf(b, "%.*s  computes %s (%.*s): %s%s%s\n", HT_STR_ARG(d->impl[i].node),
			ht_impl_name(d->impl[i].mode), HT_STR_ARG(d->impl[i].where),
			d->impl[i].kernel ? "kernel: " : "the same kernel as without",
			d->impl[i].kernel ? d->impl[i].kernel : "",
			d->impl[i].offered ? "" : " (the vendor's has no such mode)");
	for (size_t i = 0; i < d->rules; i++) {
		const struct ht_reported_rule *rule = &d->rule[i];
		if (!ht_str_is(rule->where, rule->option))
			ht_printf(b, "%.*s: ", HT_STR_ARG(rule->where));
		ht_printf(b, "%s '%.*s' %s: %.*s\n", rule->option, HT_STR_ARG(rule->name),
			rule->acted ? "acted" : "did nothing", HT_STR_ARG(rule->note));
	}
	for (size_t i = 0; i < r->without_effects; i++)
		ht_printf(b, "%s has no effect\n", r->without_effect[i]);
	for (size_t i = 0; i < r->fusions; i++) {
		const struct ht_reported_fusion *f = &r->fusion[i];
		ht_printf(b, "%s: fusion '%.*s' %s: %.*s\n", f->where, HT_STR_ARG(f->name),
			f->on ? "on" : "off", HT_STR_ARG(f->note));
	}
	if (r->found && (r->fusions || ht_fusions_are_switched(r->found)))
		ht_fusions_text(r->found, b);
}

static void put_emulation(struct ht_buf *b, const struct ht_emulation *e)
{
	ht_printf(b, "%s is ", ht_dtype_info(e->slot)->name);
	ht_emulation_put(b, e);
	ht_puts(b, e->native == HT_INVALID ? ", emulated: tensors are float32 and rounded to it\n"
					   : "\n");
}

static void put_all(struct ht_report *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->data.decisions;

	for (size_t i = 0; i < r->types.count; i++) {
		const struct ht_map *of = r->types.entries[i].value;
		for (size_t j = 0; j < of->count; j++)
			put_type(b, r->types.entries[i].key, of->entries[j].key,
				of->entries[j].value);
	}
	for (size_t i = 0; i < d->casts; i++)
		ht_put_cast_text(b, &d->cast[i], r->priced);
	for (size_t i = 0; i < d->fallbacks; i++)
		ht_printf(
			b, "no kernel takes its dtypes, kept: %.*s\n", HT_STR_ARG(d->fallback[i]));
	for (size_t i = 0; i < d->assumeds; i++)
		ht_printf(b, "kernels not published, assumed: %.*s\n", HT_STR_ARG(d->assumed[i]));
	for (size_t i = 0; i < d->unknowns; i++)
		ht_printf(b, "unknown to the profile, kept: %.*s\n", HT_STR_ARG(d->unknown[i]));
	put_options(&r->data, b);
	for (int32_t i = 0; i < r->data.choices; i++)
		put_choice(&r->data.choice[i], b);
	if (d->certificate)
		ht_certificate_text(b, d->certificate);
	for (size_t i = 0; i < d->emulations; i++)
		put_emulation(b, &d->emulation[i]);
	ht_printf(b, "%zu of %zu float nodes in low precision, %zu casts\n", d->low_nodes,
		d->float_nodes, d->casts);
}

void ht_report_text(struct ht_report *r, const char *node, struct ht_buf *b)
{
	if (node)
		put_one(r, node, b);
	else
		put_all(r, b);
}
