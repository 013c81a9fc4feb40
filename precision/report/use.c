/* Checks that a report belongs to the current graph: each of its records names a node of the
 * same op whose units had the same dtypes, and every float unit has a record. */
#include "precision/report/report.h"

struct ht_where ht_report_at(const struct ht_report_data *r, long line, const struct ht_node *n)
{
	struct ht_where at = HT_NOWHERE;

	at.path = r->path;
	at.line = line;
	if (n) {
		at.node = n->name;
		at.op = n->type;
	}
	return at;
}

void ht_report_use_init(struct ht_report_use *u, const struct ht_report_data *r, struct ht_arena *a,
	struct ht_diags *d)
{
	*u = (struct ht_report_use){ r, d, HT_NEW_ARRAY(a, bool, r->decisions.nodes) };
}

enum ht_status ht_report_use_graph(struct ht_report_use *u, const struct ht_graph *g)
{
	if (u->report->partial || (int64_t)g->nodes == u->report->graph_nodes)
		return HT_OK;
	return ht_error(u->diags, HT_E_INPUT, ht_report_at(u->report, 0, NULL),
		"the report was made for a graph of %lld nodes; this one has %zu where policies "
		"decide",
		(long long)u->report->graph_nodes, g->nodes);
}

enum ht_status ht_report_use_node(struct ht_report_use *u, const struct ht_node *n,
	struct ht_str name, const struct ht_decided_node **out)
{
	const struct ht_decided_node *d = ht_map_get(&u->report->nodes, name);

	*out = d;
	if (!d)
		return HT_OK;
	u->used[d - u->report->decisions.node] = true;
	if (ht_str_eq(d->op, n->type))
		return HT_OK;
	if (u->report->partial) {
		*out = NULL;
		return HT_OK;
	}
	return ht_error(u->diags, HT_E_INPUT, ht_report_at(u->report, d->line, n),
		"the report was made for another graph: it has an op %.*s here", HT_STR_ARG(d->op));
}

enum ht_status ht_report_use_unit(struct ht_report_use *u, const struct ht_node *n,
	const struct ht_decided_node *d, struct ht_str attr, enum ht_dtype from,
	const struct ht_decided_type **out)
{
	const struct ht_decided_type *t;

	if (!d)
		return ht_error(u->diags, HT_E_INPUT, ht_report_at(u->report, 0, n),
			"the report says nothing of its %.*s (%s): it was made for another graph",
			HT_STR_ARG(attr), ht_dtype_info(from)->name);
	for (size_t i = 0; i < d->types; i++) {
		t = &u->report->decisions.type[d->first_type + i];
		if (!ht_str_eq(t->attr, attr))
			continue;
		*out = t;
		if (t->from == from)
			return HT_OK;
		return ht_error(u->diags, HT_E_INPUT, ht_report_at(u->report, t->line, n),
			"the report was made for another graph: its %.*s was %s, here it is %s",
			HT_STR_ARG(attr), ht_dtype_info(t->from)->name, ht_dtype_info(from)->name);
	}
	return ht_error(u->diags, HT_E_INPUT, ht_report_at(u->report, d->line, n),
		"the report says nothing of its %.*s (%s)", HT_STR_ARG(attr),
		ht_dtype_info(from)->name);
}

enum ht_status ht_report_use_end(struct ht_report_use *u)
{
	for (size_t i = 0; i < u->report->decisions.nodes && !u->report->partial; i++) {
		const struct ht_decided_node *d = &u->report->decisions.node[i];
		if (!u->used[i])
			return ht_error(u->diags, HT_E_INPUT,
				ht_report_at(u->report, d->line, NULL),
				"the graph has no node '%.*s' where policies decide: the report was "
				"made for another graph",
				HT_STR_ARG(d->name));
	}
	return HT_OK;
}
