/* What a policy decided, in terms of the nodes as they were imported. */
#include "api/api.h"

#include <stdlib.h>

struct explain {
	const struct ht_model *m;
	const struct ht_policy *policy;
	enum ht_format format;
	struct ht_work *w;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_buf buf;
	struct ht_map types; /* imported node → map: type attribute → the decision */
};

static void add_type(
	struct explain *e, struct ht_str node, struct ht_str attr, const struct ht_decided_type *t)
{
	struct ht_map_entry *of = ht_map_at(&e->types, node);

	if (!of->value) {
		of->value = HT_NEW(&e->w->arena, struct ht_map);
		ht_map_init(of->value, &e->w->arena);
	}
	ht_map_at(of->value, attr)->value = (void *)(uintptr_t)t;
}

static bool has_attr(const struct ht_op_info *info, struct ht_str name)
{
	for (int i = 0; i < info->type_attrs; i++)
		if (ht_str_eq(info->type_attr[i].name, name))
			return true;
	return false;
}

/* One decision is about several imported nodes where a fusion made one of them; those then have
 * the type attributes of their own ops. */
static void add_origin(struct explain *e, struct ht_str name, const struct ht_decided_type *t)
{
	const struct ht_node *n = ht_graph_node(e->m->graph, name);
	const struct ht_op_info *info = n ? ht_op_info(n->op) : NULL;

	if (!n || has_attr(info, t->attr)) {
		if (!n || ht_type_attr(n, ht_attr_name(t->attr).s) == t->from)
			add_type(e, name, t->attr, t);
		return;
	}
	if (n->op == HT_OP_Const)
		return;
	for (int i = 0; i < info->type_attrs; i++)
		if (ht_type_attr(n, ht_attr_name(info->type_attr[i].name).s) == t->from)
			add_type(e, name, info->type_attr[i].name, t);
}

static void collect_types(struct explain *e, const struct ht_decisions *from)
{
	ht_map_init(&e->types, &e->w->arena);
	for (size_t i = 0; i < from->types; i++) {
		const struct ht_decided_type *t = &from->type[i];
		if (!t->origins)
			add_type(e, t->node, t->attr, t);
		for (int32_t j = 0; j < t->origins; j++)
			add_origin(e, t->origin[j], t);
	}
}

static int by_key(const void *a, const void *b)
{
	return ht_str_cmp(
		((const struct ht_map_entry *)a)->key, ((const struct ht_map_entry *)b)->key);
}

static int by_name(const void *a, const void *b)
{
	return ht_str_cmp(((const struct ht_decided_cast *)a)->name,
		((const struct ht_decided_cast *)b)->name);
}

static void put_types_json(struct explain *e)
{
	struct ht_buf *b = &e->buf;

	for (size_t i = 0; i < e->types.count; i++) {
		struct ht_map *of = e->types.entries[i].value;
		ht_puts(b, i ? ",\n  " : "\n  ");
		ht_put_json(b, e->types.entries[i].key);
		ht_puts(b, ": {");
		qsort(of->entries, of->count, sizeof *of->entries, by_key);
		for (size_t j = 0; j < of->count; j++) {
			const struct ht_decided_type *t = of->entries[j].value;
			ht_puts(b, j ? ", " : "");
			ht_put_json(b, of->entries[j].key);
			ht_printf(b, ": \"%s\"", ht_dtype_name(t->to));
		}
		ht_putc(b, '}');
	}
}

static void put_member(struct ht_buf *b, const char *key, struct ht_str value)
{
	ht_printf(b, ", \"%s\": ", key);
	ht_put_json(b, value);
}

static void put_decision_json(
	struct ht_buf *b, struct ht_str node, struct ht_str attr, const struct ht_decided_type *t)
{
	ht_puts(b, "{\"node\": ");
	ht_put_json(b, node);
	put_member(b, "attribute", attr);
	put_member(b, "from", ht_str(ht_dtype_name(t->from)));
	put_member(b, "to", ht_str(ht_dtype_name(t->to)));
	if (t->operands != HT_INVALID)
		put_member(b, "operands", ht_str(ht_dtype_name(t->operands)));
	put_member(b, "rule", ht_str(t->rule));
	if (t->list) {
		put_member(b, "class", ht_str(ht_class_name(t->class)));
		put_member(b, "list", ht_str(t->list));
	}
	if (t->followed.n)
		put_member(b, "follows", t->followed);
	ht_putc(b, '}');
}

static void put_decisions_json(struct explain *e)
{
	size_t n = 0;

	ht_puts(&e->buf, ",\n \"decisions\": [");
	for (size_t i = 0; i < e->types.count; i++) {
		struct ht_map *of = e->types.entries[i].value;
		for (size_t j = 0; j < of->count; j++) {
			ht_puts(&e->buf, n++ ? ",\n  " : "\n  ");
			put_decision_json(&e->buf, e->types.entries[i].key, of->entries[j].key,
				of->entries[j].value);
		}
	}
	ht_putc(&e->buf, ']');
}

static void put_names_json(
	struct ht_buf *b, const char *key, const struct ht_str *name, size_t names)
{
	ht_printf(b, ",\n \"%s\": [", key);
	for (size_t i = 0; i < names; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_json(b, name[i]);
	}
	ht_putc(b, ']');
}

/* Rules without effect, options without effect, and how nodes are to compute. */
static void put_rules_text(struct explain *e, const struct ht_decisions *from)
{
	struct ht_buf *b = &e->buf;

	for (size_t i = 0; i < from->impls; i++)
		ht_printf(b, "%.*s  computes %s (%.*s): %s\n", HT_STR_ARG(from->impl[i].node),
			ht_impl_name(from->impl[i].mode), HT_STR_ARG(from->impl[i].where),
			from->impl[i].offered
				? "not told apart here, its one kernel is taken"
				: "no kernel of its type has this mode, its one kernel is taken");
	for (size_t i = 0; i < from->idles; i++) {
		const struct ht_idle_rule *r = &from->idle[i];
		if (!ht_str_is(r->where, r->option))
			ht_printf(b, "%.*s: ", HT_STR_ARG(r->where));
		ht_printf(b, "%s '%.*s' did nothing: %.*s\n", r->option, HT_STR_ARG(r->name),
			HT_STR_ARG(r->why));
	}
	for (size_t i = 0; e->policy && i < e->policy->without_effects; i++)
		ht_printf(b, "%s has no effect\n", e->policy->without_effect[i]);
	for (size_t i = 0; e->policy && i < e->policy->fusions.n; i++) {
		const struct ht_rule *r = &e->policy->fusions.rule[i];
		ht_printf(b, "%s: fusion '%.*s' %s: %s\n", r->where, HT_STR_ARG(r->name),
			r->on ? "on" : "off", ht_fusion_note(&e->policy->fusions, r));
	}
}

static void put_rules_json(struct explain *e, const struct ht_decisions *from)
{
	struct ht_buf *b = &e->buf;

	ht_puts(b, ",\n \"implementation\": [");
	for (size_t i = 0; i < from->impls; i++) {
		ht_puts(b, i ? ",\n  [" : "\n  [");
		ht_put_json(b, from->impl[i].node);
		ht_printf(b, ", \"%s\", ", ht_impl_name(from->impl[i].mode));
		ht_put_json(b, from->impl[i].where);
		ht_puts(b, "]");
	}
	ht_puts(b, "],\n \"idle_rules\": [");
	for (size_t i = 0; i < from->idles; i++) {
		ht_puts(b, i ? ",\n  [" : "\n  [");
		ht_put_json(b, from->idle[i].where);
		ht_puts(b, ", ");
		ht_put_json(b, from->idle[i].name);
		ht_puts(b, ", ");
		ht_put_json(b, from->idle[i].why);
		ht_puts(b, "]");
	}
	ht_puts(b, "],\n \"without_effect\": [");
	for (size_t i = 0; e->policy && i < e->policy->without_effects; i++)
		ht_printf(b, "%s\"%s\"", i ? ", " : "", e->policy->without_effect[i]);
	ht_puts(b, "],\n \"fusions\": [");
	for (size_t i = 0; e->policy && i < e->policy->fusions.n; i++) {
		const struct ht_rule *r = &e->policy->fusions.rule[i];
		ht_puts(b, i ? ",\n  [" : "\n  [");
		ht_put_json(b, r->name);
		ht_printf(b, ", \"%s\", ", r->on ? "on" : "off");
		ht_put_json(b, ht_str(ht_fusion_note(&e->policy->fusions, r)));
		ht_puts(b, "]");
	}
	ht_putc(b, ']');
}

static void put_json(struct explain *e, const struct ht_lowering *l)
{
	struct ht_buf *b = &e->buf;
	const struct ht_decisions *from = &l->decisions;

	ht_puts(b, "{\"schema\": \"halftone.explain/1\",\n \"model\": ");
	ht_put_json(b, ht_str(e->m->graph->path ? e->m->graph->path : ""));
	ht_puts(b, ",\n \"policy\": ");
	ht_put_json(b, ht_str(e->policy ? ht_policy_label(e->policy) : "must_keep_origin_dtype"));
	ht_puts(b, ",\n \"profile\": ");
	ht_put_json(b, ht_str(e->policy ? e->policy->profile->name : "cpu"));
	ht_puts(b, ",\n \"casts\": [");
	for (size_t i = 0; i < from->casts; i++) {
		ht_puts(b, i ? ",\n  [" : "\n  [");
		ht_put_json(b, from->cast[i].name);
		ht_puts(b, ", ");
		ht_put_json(b, from->cast[i].source);
		ht_printf(b, ", \"%s\"]", ht_dtype_name(from->cast[i].to));
	}
	ht_puts(b, "],\n \"types\": {");
	put_types_json(e);
	ht_printf(b, "},\n \"nodes\": %zu,\n \"float_nodes\": %zu,\n \"low_nodes\": %zu",
		l->graph->nodes, from->float_nodes, from->low_nodes);
	put_decisions_json(e);
	put_names_json(b, "unknown", from->unknown, from->unknowns);
	put_names_json(b, "assumed", from->assumed, from->assumeds);
	put_names_json(b, "fallback", from->fallback, from->fallbacks);
	put_rules_json(e, from);
	if (from->certificate)
		ht_certificate_json(b, from->certificate);
	ht_puts(b, "}\n");
}

static void put_type_text(
	struct ht_buf *b, struct ht_str node, struct ht_str attr, const struct ht_decided_type *t)
{
	ht_printf(b, "%.*s  %.*s: %s -> %s  %s", HT_STR_ARG(node), HT_STR_ARG(attr),
		ht_dtype_name(t->from), ht_dtype_name(t->to), t->rule);
	if (t->operands != HT_INVALID)
		ht_printf(b, " (operands %s)", ht_dtype_name(t->operands));
	if (t->list)
		ht_printf(b, " (%s, %s)", ht_class_name(t->class), t->list);
	if (t->followed.n)
		ht_printf(b, ", after %.*s", HT_STR_ARG(t->followed));
	ht_putc(b, '\n');
}

static void put_text(struct explain *e, const struct ht_lowering *l)
{
	struct ht_buf *b = &e->buf;
	const struct ht_decisions *from = &l->decisions;

	for (size_t i = 0; i < e->types.count; i++) {
		struct ht_map *of = e->types.entries[i].value;
		for (size_t j = 0; j < of->count; j++)
			put_type_text(b, e->types.entries[i].key, of->entries[j].key,
				of->entries[j].value);
	}
	for (size_t i = 0; i < from->casts; i++)
		ht_printf(b, "cast %.*s: %s -> %s  of %.*s%s\n", HT_STR_ARG(from->cast[i].name),
			ht_dtype_name(from->cast[i].from), ht_dtype_name(from->cast[i].to),
			HT_STR_ARG(from->cast[i].source),
			from->cast[i].constant ? " (constant: folded)" : "");
	for (size_t i = 0; i < from->fallbacks; i++)
		ht_printf(b, "no kernel takes its dtypes, kept: %.*s\n",
			HT_STR_ARG(from->fallback[i]));
	for (size_t i = 0; i < from->assumeds; i++)
		ht_printf(
			b, "kernels not published, assumed: %.*s\n", HT_STR_ARG(from->assumed[i]));
	for (size_t i = 0; i < from->unknowns; i++)
		ht_printf(b, "unknown to the profile, kept: %.*s\n", HT_STR_ARG(from->unknown[i]));
	put_rules_text(e, from);
	if (from->certificate)
		ht_certificate_text(b, from->certificate);
	ht_printf(b, "%zu of %zu float nodes in low precision, %zu casts\n", from->low_nodes,
		from->float_nodes, from->casts);
}

static enum ht_status explain(void *arg)
{
	struct explain *e = arg;
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_lowering l;

	opt.policy = e->policy;
	HT_TRY(ht_compile_options_of(&opt, e->d, &opt));
	HT_TRY(ht_lowering_run(e->m, &opt,
		ht_policy_paints(e->policy) ? HT_OPEN_KEEP : HT_OPEN_ASSUME, HT_UPTO_PRECISION,
		NULL, e->w, e->d, &l));
	collect_types(e, &l.decisions);
	if (e->types.count)
		qsort(e->types.entries, e->types.count, sizeof *e->types.entries, by_key);
	if (l.decisions.casts)
		qsort(l.decisions.cast, l.decisions.casts, sizeof *l.decisions.cast, by_name);
	ht_buf_init(&e->buf, &e->w->arena);
	if (e->format == HT_FORMAT_JSON)
		put_json(e, &l);
	else
		put_text(e, &l);
	return ht_bytes_of(ht_buf_str(&e->buf), e->out);
}

enum ht_status ht_explain(const struct ht_model *m, const struct ht_policy *policy,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct ht_work w;
	struct explain e = {
		.m = m, .policy = policy, .format = format, .w = &w, .d = d, .out = out
	};
	enum ht_status st;

	*out = (struct ht_bytes){ 0 };
	ht_work_init(&w);
	st = ht_guarded(&w.unwind, explain, &e, d);
	ht_work_release(&w);
	return st;
}
