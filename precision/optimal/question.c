/* Answers a search for float32 nodes, which has measured the errors of nodes: the cheapest types, and the frontier. */
#include "precision/optimal/frontier.h"
#include "precision/optimal/optimal.h"

#include <math.h>
#include <string.h>

static enum ht_label label_of(enum ht_dtype low)
{
	return low == HT_F16 ? HT_LABEL_F16 : HT_LABEL_BF16;
}

static void index_nodes(const struct ht_question *q, struct ht_map *of, struct ht_arena *a)
{
	ht_map_init(of, a);
	for (size_t i = 0; i < q->nodes; i++)
		ht_map_at(of, q->node[i].name)->value = (void *)&q->node[i];
}

void ht_question_deny(struct ht_precision *p, struct ht_safety *s)
{
	struct ht_map of;

	index_nodes(p->policy->question, &of, p->arena);
	for (const struct ht_node *n = p->graph->first; n; n = n->next) {
		const struct ht_question_node *asked = ht_map_get(&of, n->name);
		uint8_t low = ht_label_bit(HT_LABEL_F16) | ht_label_bit(HT_LABEL_BF16);

		if (asked && isfinite(asked->square))
			low &= (uint8_t)~ht_label_bit(label_of(asked->low));
		s->denied[n->id] |= low;
		if (!s->why[n->id])
			s->why[n->id] = HT_BY(CHEAPEST_F32);
	}
}

/* Squares as integers for the cut.  A square above 0 is at least 1, so that of two equally cheap assignments the more exact one is taken. */
static void scale_squares(const struct ht_question *q, const struct ht_problem *b,
	const struct ht_graph *g, const struct ht_map *of, int64_t (*error)[HT_LABELS])
{
	double sum = 0, scale;

	for (size_t i = 0; i < q->nodes; i++)
		sum += isfinite(q->node[i].square) ? q->node[i].square : 0;
	scale = sum > 0 ? (double)HT_FRONTIER_ERROR / 2 / sum : 0;
	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_question_node *asked = ht_map_get(of, n->name);
		uint32_t unit = b->unit[n->id];

		if (asked && unit != UINT32_MAX && asked->square > 0 && isfinite(asked->square))
			error[unit][label_of(asked->low)] =
				llround(asked->square * scale) +
				(b->assign.units < HT_FRONTIER_ERROR / 2);
	}
}

/* By node of the question: whether it is low under the labels. */
static uint8_t *low_under(const struct ht_question *q, const struct ht_problem *b,
	const struct ht_graph *g, const struct ht_map *of, const uint8_t *label)
{
	uint8_t *low = HT_NEW_ARRAY(q->arena, uint8_t, q->nodes);

	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_question_node *asked = ht_map_get(of, n->name);
		uint32_t unit = b->unit[n->id];

		if (asked && unit != UINT32_MAX)
			low[asked - q->node] = label[unit] != HT_LABEL_F32;
	}
	return low;
}

void ht_question_answer(struct ht_precision *p, const struct ht_problem *b)
{
	struct ht_question *q = p->policy->question;
	struct ht_arena *work = ht_arena_of(p), *scratch = ht_arena_of(p);
	int64_t(*error)[HT_LABELS] =
		(int64_t(*)[HT_LABELS])ht_alloc_array(work, b->assign.units, sizeof *error);
	struct ht_frontier f;
	struct ht_map of;

	if (!q->most)
		return;
	index_nodes(q, &of, work);
	scale_squares(q, b, p->graph, &of, error);
	ht_frontier_solve(
		&b->assign, (const int64_t(*)[HT_LABELS])error, q->most, work, scratch, &f);
	q->points = f.points;
	q->low = HT_NEW_ARRAY(q->arena, uint8_t *, f.points);
	for (size_t i = 0; i < f.points; i++)
		q->low[i] = low_under(q, b, p->graph, &of, f.point[i].label);
	ht_arena_release(work);
}
