/* A report of a painting policy as a policy: paints the same vertices again. */
#include "precision/report/report.h"

#include "passes/rewrite.h"

struct repainting {
	struct ht_report_use *use;
	struct ht_arena *arena;
	struct ht_decisions *out;
	struct ht_graph *g;
	struct ht_paint_graph paint;
	struct ht_str prefix;                /* of names in the report */
	bool *low;                           /* by vertex */
	bool *renamed;                       /* by node id */
	const struct ht_dtype_reason **rule; /* by vertex */
};

static struct ht_str reported(const struct repainting *r, struct ht_str name)
{
	return r->prefix.n ? ht_str_printf(
				     r->arena, "%.*s%.*s", HT_STR_ARG(r->prefix), HT_STR_ARG(name))
			   : name;
}

static enum ht_status error_at(
	const struct repainting *r, long line, const struct ht_node *n, const char *text)
{
	return ht_error(
		r->use->diags, HT_E_INPUT, ht_report_at(r->use->report, line, n), "%s", text);
}

/* A batch norm of the first version becomes one of the second if the painting did that. */
static enum ht_status rename_node(
	struct repainting *r, struct ht_node *n, const struct ht_decided_node *d)
{
	if (!d || !d->becomes.n)
		return HT_OK;
	if (!(ht_str_is(n->type, "FusedBatchNorm") && ht_str_is(d->becomes, "FusedBatchNormV2")) &&
		!(ht_str_is(n->type, "FusedBatchNormGrad") &&
			ht_str_is(d->becomes, "FusedBatchNormGradV2")))
		return error_at(r, d->line, n,
			"it cannot become another op than the second version of a batch norm");
	ht_node_set_type(n, d->becomes);
	ht_attr_set_type(n, "U", HT_F32);
	r->renamed[n->id] = true;
	return HT_OK;
}

static enum ht_status match_nodes(struct repainting *r, const struct ht_decided_node **record)
{
	for (struct ht_node *n = r->g->first; n; n = n->next) {
		HT_TRY(ht_report_use_node(r->use, n, reported(r, n->name), &record[n->id]));
		HT_TRY(rename_node(r, n, record[n->id]));
	}
	return HT_OK;
}

static struct ht_str attr_of(const struct repainting *r, const struct ht_vertex *at)
{
	const char *name = r->paint.op[at->node->id]->attr[at->attr].name;

	return at->item < 0 ? ht_str(name) : ht_str_printf(r->arena, "%s[%d]", name, (int)at->item);
}

static enum ht_status paint_vertex(
	struct repainting *r, uint32_t v, const struct ht_decided_node *d)
{
	const struct ht_vertex *at = &r->paint.vertex[v];
	const struct ht_decisions *from = &r->use->report->decisions;
	const struct ht_decided_type *t;
	enum ht_dtype is = (enum ht_dtype)at->dtype;

	HT_TRY(ht_report_use_unit(r->use, at->node, d, attr_of(r, at), is, &t));
	r->low[v] = from->emulates ? t->emulated != HT_INVALID : t->to != t->from;
	r->rule[v] = HT_BY(REPORT);
	if (t->to != t->from && (from->emulates || is != HT_F32 || t->to != from->painted))
		return error_at(r, t->line, at->node,
			"a painting changes float32, and to its own type only");
	if (r->low[v] && !from->emulates && !ht_paint_allows(&r->paint, v, from->painted))
		return error_at(r, t->line, at->node, "the op is not defined in that type");
	return HT_OK;
}

static enum ht_status paint_vertices(struct repainting *r, const struct ht_decided_node **record)
{
	for (uint32_t v = 0; v < r->paint.vertices; v++) {
		const struct ht_vertex *at = &r->paint.vertex[v];
		if (at->attr >= 0 && ht_is_float((enum ht_dtype)at->dtype))
			HT_TRY(paint_vertex(r, v, record[at->node->id]));
	}
	return HT_OK;
}

/* Whether the policy changed the graph or body; otherwise the report does not cover it. */
static bool is_reported(const struct repainting *r)
{
	for (const struct ht_node *n = r->g->first; n; n = n->next)
		if (ht_map_get(&r->use->report->nodes, reported(r, n->name)))
			return true;
	return false;
}

static enum ht_status repaint(struct repainting *r)
{
	const struct ht_decisions *from = &r->use->report->decisions;
	const struct ht_decided_node **record =
		HT_NEW_ARRAY(r->arena, const struct ht_decided_node *, r->g->ids);
	struct ht_painted how = {
		.low = from->painted, .emulate = from->emulates, .suffix = from->suffix
	};

	if (!is_reported(r))
		return HT_OK;
	how.renamed = r->renamed = HT_NEW_ARRAY(r->arena, bool, r->g->ids);
	HT_TRY(match_nodes(r, record));
	ht_paint_graph_build(&r->paint, r->g, r->arena);
	how.low_vertex = r->low = HT_NEW_ARRAY(r->arena, bool, r->paint.vertices);
	how.rule = r->rule =
		HT_NEW_ARRAY(r->arena, const struct ht_dtype_reason *, r->paint.vertices);
	HT_TRY(paint_vertices(r, record));
	ht_paint_rewrite(&r->paint, &how, r->prefix, r->out);
	return HT_OK;
}

enum ht_status ht_report_paint(const struct ht_policy *policy, struct ht_graph *g,
	struct ht_pass_context *c, struct ht_decisions *out)
{
	struct ht_report_use use;
	struct repainting main = { .use = &use, .arena = c->scratch, .out = out, .g = g };
	struct ht_map called;

	ht_report_use_init(&use, policy->report, c->scratch, c->diags);
	HT_TRY(ht_report_use_graph(&use, g));
	ht_called_functions(g, c->scratch, &called);
	HT_TRY(repaint(&main));
	for (size_t i = 0; i < called.count; i++) {
		const struct ht_function *f = called.entries[i].value;
		struct repainting body = { .use = &use,
			.arena = c->scratch,
			.out = out,
			.g = f->body,
			.prefix = ht_str_printf(c->scratch, "%.*s:", HT_STR_ARG(f->name)) };
		HT_TRY(repaint(&body));
	}
	return ht_report_use_end(&use);
}
