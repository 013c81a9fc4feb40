/* What the prices of policy optimal say to a search: the frontier of price against own errors, which has candidates, and the units that are
 * slower in their low types, which stay in float32 for the sake of speed. */
#include "api/search.h"

#include <math.h>
#include <string.h>

/* Formats are emulated, and their prices would say nothing of a machine that computes in them. */
static bool is_priced(const struct ht_search *s)
{
	return s->units && !s->emulations && s->origin->data.price >= 0;
}

/* ---- questions to policy optimal ---- */

static double square_of(const struct ht_search_unit *u)
{
	double e = u->error[u->low];

	return isnan(e) ? 0 : e * e;
}

/* Lists the nodes whose unit is low in `label`, each with its low type.  A view has the type of its unit, and no own error. */
static void ask_of(struct ht_search *s, const uint8_t *label, struct ht_question *q)
{
	const struct ht_decisions *d = &s->origin->data.decisions;
	struct ht_question_node *node =
		HT_NEW_ARRAY(&s->scratch, struct ht_question_node, d->nodes);

	*q = (struct ht_question){ .node = node, .arena = &s->scratch };
	for (size_t i = 0; i < d->nodes; i++) {
		uint32_t u = s->unit_of[i];

		if (u == UINT32_MAX || !label[u])
			continue;
		node[q->nodes++] =
			(struct ht_question_node){ d->node[i].name, s->type[label[u] - 1],
				s->unit[u].node == &d->node[i] ? square_of(&s->unit[u]) : 0 };
	}
}

/* `report`: NULL, or the decisions. */
static enum ht_status answer(
	struct ht_search *s, struct ht_question *q, struct ht_diags *d, struct ht_report **report)
{
	struct ht_report *own = NULL;
	enum ht_status st;

	s->optimal_policy->question = q;
	st = ht_search_decisions(s, s->optimal_policy, d, report ? report : &own);
	s->optimal_policy->question = NULL;
	ht_report_free(own);
	return st;
}

/* ---- the frontier ---- */

/* The units in float32 at a point: those that are not listed, or not low there. */
static uint8_t *float32_at(struct ht_search *s, const struct ht_question *q, const uint8_t *low)
{
	uint8_t *set = ht_alloc(&s->arena, s->units);
	struct ht_map of;

	memset(set, 1, s->units);
	ht_map_init(&of, &s->scratch);
	for (size_t u = 0; u < s->units; u++)
		ht_map_at(&of, s->unit[u].node->name)->value = (void *)(uintptr_t)(u + 1);
	for (size_t i = 0; i < q->nodes; i++) {
		size_t u = (size_t)(uintptr_t)ht_map_get(&of, q->node[i].name);
		if (u && low[i])
			set[u - 1] = 0;
	}
	return set;
}

enum ht_status ht_search_frontier(struct ht_search *s, struct ht_diags *d)
{
	uint8_t *label = ht_alloc(&s->arena, s->units);
	struct ht_question q;

	if (!is_priced(s))
		return HT_OK;
	for (size_t u = 0; u < s->units; u++)
		label[u] = ht_search_low_label(s, u);
	ask_of(s, label, &q);
	q.most = HT_FRONTIER_POINTS;
	HT_TRY(answer(s, &q, d, NULL));
	s->points = q.points;
	s->frontier = HT_NEW_ARRAY(&s->arena, uint8_t *, q.points);
	for (size_t i = 0; i < q.points; i++)
		s->frontier[i] = float32_at(s, &q, q.low[i]);
	ht_arena_release(&s->scratch);
	return HT_OK;
}

/* ---- speed ---- */

/* The modelled price of a run under the policy that the labels make. */
static enum ht_status price_of(
	struct ht_search *s, const uint8_t *label, struct ht_diags *d, int64_t *price)
{
	struct ht_str text = ht_search_policy_text(s, label, &s->scratch);
	struct ht_policy *policy = NULL;
	struct ht_report *report = NULL;
	enum ht_status st = ht_policy_parse("search", text.p, text.n, d, &policy);

	if (st == HT_OK)
		st = ht_search_decisions(s, policy, d, &report);
	*price = st == HT_OK ? report->data.price : -1;
	ht_report_free(report);
	ht_policy_free(policy);
	ht_arena_release(&s->scratch);
	return st;
}

static bool is_low(const struct ht_decisions *d, const struct ht_decided_node *n)
{
	for (size_t i = 0; i < n->types; i++)
		if (ht_is_low(d->type[n->first_type + i].to))
			return true;
	return false;
}

/* The labels `label`, but float32 where policy optimal has it. */
static uint8_t *labels_of(
	struct ht_search *s, const uint8_t *label, const struct ht_decisions *optimal)
{
	uint8_t *to = ht_alloc(&s->arena, s->units);
	struct ht_map of;

	ht_map_init(&of, &s->scratch);
	for (size_t i = 0; i < optimal->nodes; i++)
		ht_map_at(&of, optimal->node[i].name)->value = &optimal->node[i];
	for (size_t u = 0; u < s->units; u++) {
		const struct ht_decided_node *n = ht_map_get(&of, s->unit[u].node->name);
		to[u] = n && is_low(optimal, n) ? label[u] : 0;
	}
	return to;
}

/* The fastest labels by price that have at least those units in float32 that `label` has. */
static enum ht_status fastest(
	struct ht_search *s, const uint8_t *label, struct ht_diags *d, uint8_t **out)
{
	struct ht_report *report = NULL;
	struct ht_question q;
	enum ht_status st;

	ask_of(s, label, &q);
	st = answer(s, &q, d, &report);
	if (st == HT_OK)
		*out = labels_of(s, label, &report->data.decisions);
	ht_report_free(report);
	ht_arena_release(&s->scratch);
	return st;
}

/* Takes the found labels, or all float32, whichever is faster. */
static void take_known(struct ht_search *s)
{
	bool is_slower = s->price_found > s->price_float32;

	s->written = is_slower ? ht_alloc(&s->arena, s->units) : s->found;
	if (is_slower)
		memset(s->written, 0, s->units);
	s->price_written = is_slower ? s->price_float32 : s->price_found;
}

enum ht_status ht_search_price(struct ht_search *s, struct ht_diags *d)
{
	uint8_t *label;
	int64_t price;

	s->written = s->found;
	s->price_float32 = s->price_found = s->price_written = -1;
	if (!is_priced(s))
		return HT_OK;
	HT_TRY(price_of(s, s->found, d, &s->price_found));
	s->price_float32 = s->origin->data.price;
	s->price_written = s->price_found;
	if (s->fewest || s->price_found < 0)
		return HT_OK;
	take_known(s);
	HT_TRY(fastest(s, s->found, d, &label));
	HT_TRY(price_of(s, label, d, &price));
	if (price < 0 || price >= s->price_written)
		return HT_OK;
	s->faster = label;
	s->price_faster = price;
	return HT_OK;
}

void ht_search_take_faster(struct ht_search *s, bool passed)
{
	if (!passed)
		return;
	s->written = s->faster;
	s->price_written = s->price_faster;
}
