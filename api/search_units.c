/* The units of a search: which nodes may be low, in which types that is safe, how large their errors are, and which of them share a
 * kernel. */
#include "api/search.h"

#include "lower/price.h"

#include <math.h>
#include <stdlib.h>

/* ---- decisions of a policy ---- */

enum ht_status ht_search_decisions(
	struct ht_search *s, struct ht_policy *p, struct ht_diags *d, struct ht_report **out)
{
	struct ht_compile_options opt = s->compile;
	struct ht_diags said;
	enum ht_status st;

	ht_diags_init(&said);
	opt.policy = p;
	st = ht_report_new(s->model, &opt, &said, out);
	ht_search_pass_errors(&said, d);
	ht_diags_release(&said);
	return st;
}

struct finding {
	struct ht_search *s;
	const struct ht_decisions *is,
		*optimal;      /* of policy must_keep_origin_dtype; of policy optimal */
	struct ht_map records; /* of `optimal`: node → struct ht_decided_node */
	struct ht_map nodes;   /* of `is`: name → index + 1 */
};

/* ---- what is safe ---- */

/* The type of a machine by whose kernels and range a low type is judged: a format with fewer exponents than float32 has at most the range
 * of float16. */
static enum ht_dtype judged_as(const struct ht_search *s, enum ht_dtype low)
{
	for (size_t i = 0; i < s->emulations; i++)
		if (s->emulation[i].slot == low)
			return s->emulation[i].format[0].exponent == 8 ? HT_BF16 : HT_F16;
	return low;
}

bool ht_search_may_take(
	const struct ht_search *s, const struct ht_decided_type *t, enum ht_dtype low)
{
	return t->from == HT_F32 && t->why_not[ht_asked_of(judged_as(s, low))] == HT_BY(MODE_KEEP);
}

static bool leaves_range(const struct ht_dtype_reason *why)
{
	return why == HT_BY(CONSTANT_LEAVES_RANGE) || why == HT_BY(EXPONENTIAL_LEAVES_RANGE) ||
	       why == HT_BY(SQUARES_LEAVE_RANGE);
}

/* `t` is float32 because an operand is.  Whether that operand leaves the range of the low type; false if another rule, such as a list of
 * op types, made it float32.  Follows at most 64 nodes, and counts a longer chain as out of range. */
static bool reads_out_of_range(const struct finding *f, const struct ht_decided_type *t)
{
	for (int i = 0; i < 64 && t->rule == HT_BY(READS_FLOAT32) && t->followed.n; i++) {
		const struct ht_decided_node *n = ht_map_get(&f->records, t->followed);
		if (!n || !n->types)
			return false;
		t = &f->optimal->type[n->first_type];
	}
	return leaves_range(t->rule) || t->rule == HT_BY(READS_FLOAT32);
}

static bool is_safe(const struct finding *f, const struct ht_decided_node *n, enum ht_dtype low)
{
	for (size_t i = 0; i < n->types; i++) {
		const struct ht_decided_type *t = &f->optimal->type[n->first_type + i];
		const struct ht_dtype_reason *why = t->why_not[ht_asked_of(judged_as(f->s, low))];

		if (leaves_range(why) || (why == HT_BY(READS_FLOAT32) && reads_out_of_range(f, t)))
			return false;
	}
	return true;
}

static bool has_kernel(const struct finding *f, const struct ht_decided_node *n, enum ht_dtype low)
{
	for (size_t i = 0; i < n->types; i++)
		if (ht_search_may_take(f->s, &f->is->type[n->first_type + i], low))
			return true;
	return false;
}

static bool is_wide(const struct finding *f, const struct ht_decided_node *n)
{
	for (size_t i = 0; i < n->types; i++)
		if (ht_is_low(f->optimal->type[n->first_type + i].to))
			return false;
	return true;
}

/* ---- units ---- */

/* Makes node i a unit, or adds it to the unsafe nodes.  A view is neither: it has the type of the node that computes its elements. */
static void find_unit(struct finding *f, size_t i)
{
	struct ht_search *s = f->s;
	const struct ht_decided_node *n = &f->is->node[i], *o = ht_map_get(&f->records, n->name);
	const struct ht_node *node = ht_graph_node(s->origin->graph, n->name);
	unsigned kernels = 0, safe = 0;

	for (size_t t = 0; t < s->types; t++) {
		bool has = has_kernel(f, n, s->type[t]);
		kernels |= (unsigned)has << t;
		safe |= (unsigned)(has && (!o || is_safe(f, o, s->type[t]))) << t;
	}
	if (!kernels || !node || ht_is_view(node))
		return;
	if (!safe) {
		s->unsafe[s->unsafes++] = n;
		return;
	}
	s->unit_of[i] = (uint32_t)s->units;
	s->unit[s->units] =
		(struct ht_search_unit){ .node = n, .may = safe, .wide = o && is_wide(f, o) };
	for (size_t t = 0; t < HT_SEARCH_TYPES; t++)
		s->unit[s->units].error[t] = NAN;
	s->units++;
}

static const struct ht_node *producer(const struct ht_node *n)
{
	while (ht_is_view(n) && n->ins)
		n = n->in[0].node;
	return n;
}

static void follow_views(struct finding *f)
{
	struct ht_search *s = f->s;

	for (size_t i = 0; i < f->is->nodes; i++) {
		const struct ht_node *n = ht_graph_node(s->origin->graph, f->is->node[i].name);
		size_t of = 0;

		if (n && ht_is_view(n))
			of = (size_t)(uintptr_t)ht_map_get(&f->nodes, producer(n)->name);
		if (of)
			s->unit_of[i] = s->unit_of[of - 1];
	}
}

/* A region is the units that one kernel computes if the whole model is float32. */
static void find_regions(struct ht_search *s)
{
	struct ht_graph *g = s->origin->graph;
	struct ht_fusions fusions;
	struct ht_fusion fusion;
	uint32_t *number, n = 0;

	if (!ht_has_float_shapes(g))
		return;
	ht_policy_fusions(NULL, &fusions, &s->scratch);
	fusion = ht_fusion_of(g, &fusions, &s->scratch);
	number = HT_NEW_ARRAY(&s->scratch, uint32_t, g->ids);
	s->region = HT_NEW_ARRAY(&s->arena, uint32_t, s->units);
	for (size_t u = 0; u < s->units; u++) {
		const struct ht_node *node = ht_graph_node(g, s->unit[u].node->name);
		const struct ht_node *sink = fusion.kernel[node->id];
		uint32_t *of = &number[sink ? sink->id : node->id];

		if (!*of)
			*of = ++n;
		s->region[u] = *of - 1;
	}
}

static void index_nodes(struct finding *f)
{
	ht_map_init(&f->records, &f->s->scratch);
	ht_map_init(&f->nodes, &f->s->scratch);
	for (size_t i = 0; i < f->optimal->nodes; i++)
		ht_map_at(&f->records, f->optimal->node[i].name)->value = &f->optimal->node[i];
	for (size_t i = 0; i < f->is->nodes; i++)
		ht_map_at(&f->nodes, f->is->node[i].name)->value = (void *)(uintptr_t)(i + 1);
}

static void find_units(struct finding *f)
{
	struct ht_search *s = f->s;

	index_nodes(f);
	s->unit = HT_NEW_ARRAY(&s->arena, struct ht_search_unit, f->is->nodes);
	s->unsafe = HT_NEW_ARRAY(&s->arena, const struct ht_decided_node *, f->is->nodes);
	s->unit_of = HT_NEW_ARRAY(&s->arena, uint32_t, f->is->nodes);
	for (size_t i = 0; i < f->is->nodes; i++) {
		s->unit_of[i] = UINT32_MAX;
		find_unit(f, i);
	}
	follow_views(f);
}

enum ht_status ht_search_units(struct ht_search *s, struct ht_diags *d)
{
	struct ht_report *optimal;
	struct finding f = { .s = s };

	HT_TRY(ht_policy_new("must_keep_origin_dtype", d, &s->origin_policy));
	HT_TRY(ht_policy_new("optimal", d, &s->optimal_policy));
	s->optimal_policy->judges_all = true;
	HT_TRY(ht_search_decisions(s, s->origin_policy, d, &s->origin));
	HT_TRY(ht_search_decisions(s, s->optimal_policy, d, &optimal));
	f.is = &s->origin->data.decisions;
	f.optimal = &optimal->data.decisions;
	find_units(&f);
	ht_report_free(optimal);
	find_regions(s);
	ht_arena_release(&s->scratch);
	s->rank = HT_NEW_ARRAY(&s->arena, uint32_t, s->units);
	for (size_t u = 0; u < s->units; u++)
		s->rank[u] = (uint32_t)u;
	return HT_OK;
}

/* ---- errors ---- */

static void name_units(const struct ht_search *s, struct ht_map *of)
{
	for (size_t u = 0; u < s->units; u++) {
		const struct ht_decided_node *n = s->unit[u].node;

		for (int32_t i = 0; i < n->origins; i++)
			ht_map_at(of, n->origin[i])->value = &s->unit[u];
		ht_map_at(of, n->name)->value = &s->unit[u];
	}
}

void ht_search_take_errors(struct ht_search *s, size_t type)
{
	const struct ht_node_errors *found = &s->comparison->first->nodes;
	struct ht_map of;

	ht_map_init(&of, &s->scratch);
	name_units(s, &of);
	for (size_t i = 0; i < found->n; i++) {
		const struct ht_node_error *e = &found->of[i];
		struct ht_search_unit *u = ht_map_get(&of, ht_str(e->info.node));
		double own = ht_node_rms(e, &e->own);

		if (u && !*e->info.body && !(own <= u->error[type]))
			u->error[type] = isnan(own) ? INFINITY : own;
	}
	ht_arena_release(&s->scratch);
}

static double error_of(const struct ht_search_unit *u)
{
	return u->error[u->low];
}

/* Chooses the safe type in which the unit's error is smallest, or the first safe one if errors were not measured. */
static void choose_type(const struct ht_search *s, struct ht_search_unit *u)
{
	u->low = -1;
	for (size_t t = 0; t < s->types; t++)
		if (u->may >> t & 1 && (u->low < 0 || u->error[t] < error_of(u)))
			u->low = (int)t;
}

static int by_error(const void *a, const void *b, void *search)
{
	const struct ht_search *s = search;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	double e = error_of(&s->unit[x]), f = error_of(&s->unit[y]);

	e = isnan(e) ? 0 : e;
	f = isnan(f) ? 0 : f;
	return e != f ? (e < f) - (e > f) : (x > y) - (x < y);
}

void ht_search_rank(struct ht_search *s)
{
	for (size_t u = 0; u < s->units; u++)
		choose_type(s, &s->unit[u]);
	if (s->units)
		qsort_r(s->rank, s->units, sizeof *s->rank, by_error, s);
}
