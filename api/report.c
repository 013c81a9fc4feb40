/* Reports: made from a decision, or read from files. */
#include "api/report.h"

#include "precision/optimal/price.h"

#include <stdlib.h>
#include <string.h>

struct making {
	const struct ht_model *m;
	const struct ht_compile_options *opt;
	const struct ht_policy *policy; /* that of `opt` */
	struct ht_diags *d;
	struct ht_report *r;
	const struct ht_target *priced_for;
};

/* ---- in terms of the nodes as imported ---- */

static void add_type(struct ht_report *r, struct ht_str node, struct ht_str attr,
	const struct ht_decided_type *t)
{
	struct ht_map_entry *of = ht_map_at(&r->types, node);

	if (!of->value) {
		of->value = HT_NEW(&r->w.arena, struct ht_map);
		ht_map_init(of->value, &r->w.arena);
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

/* If a fusion made one node of several imported ones, a decision is about all of these; each
 * then has the type attributes of its own op. */
static void add_origin(struct making *k, struct ht_str name, const struct ht_decided_type *t)
{
	const struct ht_node *n = ht_graph_node(k->m->graph, name);
	const struct ht_op_info *info = n ? ht_op_info(n->op) : NULL;

	if (!n || has_attr(info, t->attr)) {
		if (!n || ht_type_attr(n, ht_attr_name(t->attr).s) == t->from)
			add_type(k->r, name, t->attr, t);
		return;
	}
	if (ht_is(n, HT_CONSTANT))
		return;
	for (int i = 0; i < info->type_attrs; i++)
		if (ht_type_attr(n, ht_attr_name(info->type_attr[i].name).s) == t->from)
			add_type(k->r, name, info->type_attr[i].name, t);
}

static int by_key(const void *a, const void *b)
{
	return ht_str_cmp(
		((const struct ht_map_entry *)a)->key, ((const struct ht_map_entry *)b)->key);
}

static void sort(struct ht_map *m)
{
	if (m->count)
		qsort(m->entries, m->count, sizeof *m->entries, by_key);
}

static void collect_types(struct making *k)
{
	const struct ht_decisions *from = &k->r->data.decisions;

	for (size_t i = 0; i < from->types; i++) {
		const struct ht_decided_type *t = &from->type[i];
		if (!ht_is_news(t))
			continue;
		if (!t->origins)
			add_type(k->r, t->node, t->attr, t);
		for (int32_t j = 0; j < t->origins; j++)
			add_origin(k, t->origin[j], t);
	}
	sort(&k->r->types);
	for (size_t i = 0; i < k->r->types.count; i++)
		sort(k->r->types.entries[i].value);
}

static int by_name(const void *a, const void *b)
{
	return ht_str_cmp(((const struct ht_decided_cast *)a)->name,
		((const struct ht_decided_cast *)b)->name);
}

/* ---- prices ---- */

static void release_diags(void *d)
{
	ht_diags_release(d);
}

/* The graph as it would be compiled; NULL if it cannot be.  Policies that paint decide on the
 * imported graph, whose shapes are not inferred. */
static struct ht_lowering *merged_graph(struct making *k, struct ht_lowering *l)
{
	struct ht_lowering *merged;
	struct ht_diags *quiet;

	if (!ht_policy_paints(k->policy))
		return l;
	merged = HT_NEW(&k->r->w.arena, struct ht_lowering);
	quiet = HT_NEW(&k->r->w.arena, struct ht_diags);
	ht_diags_init(quiet);
	ht_arena_defer(&k->r->w.arena, release_diags, quiet);
	if (ht_lowering_decide(k->m, k->opt, HT_UPTO_MERGED, &k->r->w, quiet, merged) != HT_OK)
		return NULL;
	return merged;
}

static void price_cast(
	struct ht_decided_cast *c, const struct ht_pricing *p, const struct ht_graph *g)
{
	const struct ht_node *n = ht_graph_node(g, c->name);
	struct ht_type type = { c->to, { 1, &c->elements } };
	struct ht_node cast = { .op = HT_OP_Cast, .out = &type, .outs = 1 };
	bool widens = c->to == HT_F32;

	if (c->elements < 0 && n && ht_is(n, HT_CASTS) && n->outs == 1)
		c->elements = ht_shape_count(n->out[0].shape);
	if (c->constant)
		c->price = 0;
	else if (c->elements >= 0)
		c->price = ht_price_cast(p, ht_out(&cast, 0), widens ? c->from : c->to, widens);
}

/* The methods that lowering chooses; none if the graph cannot be lowered. */
static void find_methods(
	struct making *k, struct ht_graph *g, struct ht_lower_request how, struct ht_arena *plans)
{
	struct ht_arena *kept = &k->r->w.arena;
	struct ht_fusions told = *how.fusions; /* messages about these fusions are not repeated */
	struct ht_method_choice *choice;
	struct ht_plan *plan;

	how.fusions = &told;
	how.target = k->priced_for;
	if (ht_lower(g, &how, plans, &plan) != HT_OK)
		return;
	choice = HT_NEW_ARRAY(kept, struct ht_method_choice, (size_t)plan->choices);
	for (int32_t i = 0; i < plan->choices; i++) {
		choice[i] = plan->choice[i];
		choice[i].node = ht_str_copy(kept, choice[i].node);
	}
	k->r->data.choice = choice;
	k->r->data.choices = plan->choices;
}

/* The passes after the decision, and lowering, have fusions too.  Lists that loops build have
 * shapes only after these passes.  They run on a copy, in separate memory: the report describes
 * the graph before them. */
static void find_fusions(struct making *k, struct ht_lowering *l)
{
	struct ht_work *w = ht_work_within(&k->r->w);
	struct ht_graph *g = ht_graph_clone(l->graph, &w->arena);
	struct ht_pass_context c = l->passes;
	struct ht_lower_request how = l->lower;
	struct ht_diags quiet;

	ht_diags_init(&quiet);
	c.scratch = how.scratch = &w->scratch;
	c.diags = how.diags = &quiet;
	c.after = NULL;
	c.entry = how.entry = g->entries;
	if (ht_run_passes(g, ht_pipeline_layout, NULL, &c) == HT_OK && ht_has_float_shapes(g) &&
		ht_graph_sort(g, &quiet) == HT_OK) {
		ht_fusion_of(g, &l->fusions, &w->scratch);
		ht_arena_release(&w->scratch);
		find_methods(k, g, how, &w->arena);
	}
	ht_diags_release(&quiet);
	ht_work_release(w);
}

static void price_casts(struct making *k, const struct ht_pricing *p, const struct ht_graph *g)
{
	struct ht_decisions *d = &k->r->data.decisions;

	for (size_t i = 0; i < d->casts; i++)
		price_cast(&d->cast[i], p, g);
}

static void price(struct making *k, struct ht_lowering *l)
{
	const struct ht_target *target =
		l->policy.cost_target ? l->policy.cost_target : l->passes.target;
	struct ht_lowering *merged = merged_graph(k, l);
	struct ht_graph *g = merged ? merged->graph : NULL;
	struct ht_arena *a = &k->r->w.scratch;
	struct ht_pricing p;
	struct ht_fusions fusions;
	struct ht_fusion fusion;
	struct ht_saved saved;
	bool shapes;

	k->priced_for = target;
	k->r->data.price = -1;
	k->r->data.target = ht_str(target->name);
	if (!g)
		return;
	shapes = ht_has_float_shapes(g);
	k->r->data.found = &merged->fusions;
	ht_arena_release(a);
	find_fusions(k, merged);
	ht_pricing_init(&p,
		k->policy && k->policy->costs ? k->policy->costs : ht_costs_of_target(target, a),
		target, g, a);
	price_casts(k, &p, g);
	if (!shapes)
		return;
	fusions = l->fusions; /* messages about these fusions are not repeated */
	fusion = ht_fusion_of(g, &fusions, a);
	ht_saved_find(g, &fusion, target, a, &saved);
	k->r->data.price = ht_price_graph(&p, g, &fusion, &saved);
}

/* ---- effects of the policy's options ---- */

static void add_fusion(struct ht_report_data *to, const struct ht_rule *rule, const char *note)
{
	to->fusion[to->fusions++] =
		(struct ht_reported_fusion){ rule->name, ht_str(note), rule->where, rule->on };
}

static void copy_options(struct making *k, const struct ht_lowering *l)
{
	struct ht_report_data *to = &k->r->data;
	struct ht_arena *a = &k->r->w.arena;
	const struct ht_policy *p = k->policy;

	for (int id = 0; id < HT_FUSION_END; id++)
		to->off[id] = l->fusions.of[id].off;
	if (!p)
		return;
	to->without_effect = p->without_effect;
	to->without_effects = p->without_effects;
	to->fusion = HT_NEW_ARRAY(
		a, struct ht_reported_fusion, p->fusions.n + p->switches.n + p->scopes.n);
	for (size_t i = 0; i < p->fusions.n; i++)
		add_fusion(to, &p->fusions.rule[i], ht_fusion_note(p, &p->fusions.rule[i], a));
	for (size_t i = 0; i < p->switches.n; i++)
		add_fusion(to, &p->switches.rule[i], ht_fusion_note(p, &p->switches.rule[i], a));
	for (size_t i = 0; i < p->scopes.n; i++)
		add_fusion(to, &p->scopes.rule[i], ht_scope_fusion_note(&p->scopes.rule[i]));
}

static enum ht_status make(void *arg)
{
	struct making *k = arg;
	struct ht_report *r = k->r;
	struct ht_compile_options opt;
	struct ht_lowering *l = HT_NEW(&r->w.arena, struct ht_lowering);

	HT_TRY(ht_compile_options_of(k->opt, k->d, &opt));
	k->opt = &opt;
	k->policy = opt.policy;
	HT_TRY(ht_policy_paints(k->policy)
			? ht_lowering_run(
				  k->m, &opt, HT_OPEN_KEEP, HT_UPTO_REPORT, NULL, &r->w, k->d, l)
			: ht_lowering_decide(k->m, &opt, HT_UPTO_REPORT, &r->w, k->d, l));
	r->graph = l->graph;
	r->priced = k->policy && k->policy->priced;
	r->data = (struct ht_report_data){
		.model = ht_str(k->m->graph->path ? k->m->graph->path : ""),
		.policy = ht_str(k->policy ? ht_policy_label(k->policy) : "must_keep_origin_dtype"),
		.profile = ht_str(k->policy ? k->policy->profile->name : "cpu"),
		.graph_nodes = (int64_t)l->decisions.graph_nodes,
		.decisions = l->decisions,
	};
	ht_map_init(&r->types, &r->w.arena);
	collect_types(k);
	price(k, l);
	if (r->data.decisions.casts)
		qsort(r->data.decisions.cast, r->data.decisions.casts,
			sizeof *r->data.decisions.cast, by_name);
	copy_options(k, l);
	ht_arena_release(&r->w.scratch);
	return HT_OK;
}

static enum ht_status finish(struct ht_report *r, enum ht_status st, struct ht_report **out)
{
	if (st == HT_OK)
		*out = r;
	else
		ht_report_free(r);
	return st;
}

static struct ht_report *new_report(struct ht_diags *d, struct ht_report **out)
{
	struct ht_report *r = ht_sys_alloc(sizeof *r);

	*out = NULL;
	if (r)
		ht_work_init(&r->w);
	else
		ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	return r;
}

enum ht_status ht_report_new(const struct ht_model *m, const struct ht_compile_options *opt,
	struct ht_diags *d, struct ht_report **out)
{
	struct ht_report *r = new_report(d, out);
	struct making k = { .m = m, .opt = opt, .d = d, .r = r };

	if (!r)
		return HT_E_ENVIRONMENT;
	return finish(r, ht_guarded(&r->w.unwind, make, &k, d), out);
}

/* ---- from a file ---- */

struct fetching {
	struct ht_report *r;
	const char *path;
	struct ht_diags *d;
};

static enum ht_status fetch(void *arg)
{
	struct fetching *f = arg;
	struct ht_parse p = { .arena = &f->r->w.arena, .diags = f->d };
	struct ht_str text;

	p.path = ht_str_copy(p.arena, ht_str(f->path)).p;
	HT_TRY(ht_policy_file(&p, HT_REPORT_LIMIT, &text));
	ht_map_init(&f->r->types, p.arena);
	return ht_report_parse(&p, text, &f->r->data);
}

enum ht_status ht_report_read(const char *path, struct ht_diags *d, struct ht_report **out)
{
	struct ht_report *r = new_report(d, out);
	struct fetching f = { r, path, d };

	if (!r)
		return HT_E_ENVIRONMENT;
	return finish(r, ht_guarded(&r->w.unwind, fetch, &f, d), out);
}

void ht_report_free(struct ht_report *r)
{
	if (r)
		ht_work_release(&r->w);
	free(r);
}

/* ---- forms ---- */

struct printing {
	struct ht_report *r;
	enum ht_format format;
	const char *node;
	struct ht_diags *d;
	struct ht_bytes *out;
};

static enum ht_status print(void *arg)
{
	struct printing *p = arg;
	struct ht_buf b;

	ht_buf_init(&b, &p->r->w.scratch);
	if (p->node)
		HT_TRY(ht_report_has(p->r, p->node, &p->r->w.scratch, p->d));
	switch (p->format) {
	case HT_FORMAT_JSON:
		ht_report_json(p->r, &b);
		break;
	case HT_FORMAT_DOT:
		ht_report_dot(p->r, &b);
		break;
	case HT_FORMAT_NODE_DATA:
		ht_report_node_data(p->r, &b);
		break;
	case HT_FORMAT_TEXT:
		ht_report_text(p->r, p->node, &b);
		break;
	}
	return ht_bytes_of(ht_buf_str(&b), p->out);
}

enum ht_status ht_report_print(struct ht_report *r, enum ht_format format, const char *node,
	struct ht_diags *d, struct ht_bytes *out)
{
	struct printing p = { r, format, node, d, out };
	enum ht_status st;

	*out = (struct ht_bytes){ 0 };
	if (!r->graph)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"a report that was read from a file can be compared only");
	st = ht_guarded(&r->w.unwind, print, &p, d);
	ht_arena_release(&r->w.scratch);
	return st;
}
