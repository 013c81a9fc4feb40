/* Dtypes as node data of Model Explorer: the imported model, coloured by what a policy decides.
 * Keys are the names of nodes as imported. */
#include "api/report.h"

const char *ht_dtype_colour(enum ht_dtype t)
{
	switch (t) {
	case HT_F32:
		return "#9ecae1";
	case HT_F16:
		return "#fdae6b";
	case HT_BF16:
		return "#a1d99b";
	case HT_F64:
		return "#bcbddc";
	default:
		return "#eeeeee";
	}
}

static enum ht_dtype dtype_of(const struct ht_decisions *d, const struct ht_decided_node *n)
{
	if (n->types)
		return ht_effective_dtype(&d->type[n->first_type]);
	for (int32_t i = 0; i < n->tensors; i++)
		if (ht_is_float((enum ht_dtype)n->tensor[i]))
			return (enum ht_dtype)n->tensor[i];
	return HT_INVALID;
}

static void add(struct ht_map *results, struct ht_str node, enum ht_dtype t)
{
	ht_map_at(results, node)->value = (void *)(uintptr_t)t;
}

void ht_report_node_data(struct ht_report *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->data.decisions;
	struct ht_map results;

	ht_map_init(&results, b->arena);
	for (size_t i = 0; i < d->nodes; i++) {
		const struct ht_decided_node *n = &d->node[i];
		enum ht_dtype t = dtype_of(d, n);
		if (!n->origins)
			add(&results, n->name, t);
		for (int32_t k = 0; k < n->origins; k++)
			add(&results, n->origin[k], t);
	}
	ht_puts(b, "{\"results\": {");
	for (size_t i = 0; i < results.count; i++) {
		enum ht_dtype t = (enum ht_dtype)(uintptr_t)results.entries[i].value;
		ht_puts(b, i ? ",\n " : "\n ");
		ht_put_json(b, results.entries[i].key);
		ht_printf(b, ": {\"value\": \"%s\", \"bgColor\": \"%s\"}", ht_dtype_info(t)->name,
			ht_dtype_colour(t));
	}
	ht_puts(b, "},\n \"showExpandedSummaryOnGroupNode\": true}\n");
}
