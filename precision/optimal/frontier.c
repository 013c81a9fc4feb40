/* Finds corners of the hull between two known ones, the widest gaps first. */
#include "precision/optimal/frontier.h"

#include <stdlib.h>
#include <string.h>

/* Products of costs and errors. */
__extension__ typedef __int128 wide;

struct search {
	const struct ht_assign *p;
	const int64_t (*error)[HT_LABELS];
	size_t most;
	struct ht_arena *arena, *scratch;
	struct ht_frontier *out;
};

int64_t ht_frontier_error(
	const struct ht_assign *p, const int64_t (*error)[HT_LABELS], const uint8_t *label)
{
	int64_t sum = 0;

	for (uint32_t u = 0; u < p->units; u++)
		sum += error[u][label[u]];
	return sum;
}

/* The least cost of a unit is the same in all assignments: without it, products with exchange
 * rates stay small. */
static int64_t least_of(const int64_t cost[HT_LABELS])
{
	int64_t least = HT_COST_NEVER;

	for (int l = 0; l < HT_LABELS; l++)
		least = cost[l] < least ? cost[l] : least;
	return least;
}

/* Scales `x` so that its product with the rate, summed over a problem, does not overflow.  The
 * rounding error is far below a picosecond in a run. */
static int64_t scaled(int64_t x, int64_t rate, int shift)
{
	return (int64_t)(((wide)x * rate) >> shift);
}

static double sum_of(const struct ht_assign *p)
{
	double sum = 1;

	for (uint32_t u = 0; u < p->units; u++) {
		int64_t least = least_of(p->cost[u]);
		for (int l = 0; l < HT_LABELS; l++)
			if (p->cost[u][l] != HT_COST_NEVER)
				sum += (double)(p->cost[u][l] - least);
	}
	for (size_t i = 0; i < p->tensors; i++)
		for (int b = 0; b < HT_BOUNDARIES; b++)
			sum += (double)p->tensor[i].up[b] + (double)p->tensor[i].down[b];
	return sum;
}

/* Minimises cost × `by_cost` + error × `by_error`; false: there is no assignment. */
static bool solve(
	struct search *s, int64_t by_cost, int64_t by_error, struct ht_frontier_point *out)
{
	struct ht_assign q = *s->p;
	struct ht_assignment solution;
	double most =
		sum_of(&q) * (double)by_cost + 3 * (double)HT_FRONTIER_ERROR * (double)by_error;
	int shift = 0;

	while (most > 0x1p58) {
		most /= 2;
		shift++;
	}
	q.cost = (int64_t(*)[HT_LABELS])ht_alloc_array(s->scratch, q.units, sizeof *q.cost);
	q.tensor = HT_NEW_ARRAY(s->scratch, struct ht_assign_tensor, q.tensors);
	for (uint32_t u = 0; u < q.units; u++) {
		int64_t least = least_of(s->p->cost[u]);
		for (int l = 0; l < HT_LABELS; l++)
			q.cost[u][l] = s->p->cost[u][l] == HT_COST_NEVER
					       ? HT_COST_NEVER
					       : scaled(s->p->cost[u][l] - least, by_cost, shift) +
							 scaled(s->error[u][l], by_error, shift);
	}
	for (size_t i = 0; i < q.tensors; i++) {
		q.tensor[i] = s->p->tensor[i];
		for (int b = 0; b < HT_BOUNDARIES; b++) {
			q.tensor[i].up[b] = scaled(q.tensor[i].up[b], by_cost, shift);
			q.tensor[i].down[b] = scaled(q.tensor[i].down[b], by_cost, shift);
		}
	}
	ht_assign_solve(&q, s->arena, s->scratch, &solution);
	ht_arena_release(s->scratch);
	if (solution.cost == HT_COST_NEVER)
		return false;
	out->label = solution.label;
	out->cost = ht_assign_cost(s->p, out->label);
	out->error = ht_frontier_error(s->p, s->error, out->label);
	return true;
}

static void insert(struct ht_frontier *f, size_t at, struct ht_frontier_point p)
{
	memmove(f->point + at + 1, f->point + at, (f->points - at) * sizeof *f->point);
	f->point[at] = p;
	f->points++;
}

/* Searches between neighbours `at` and `at + 1`; false: there is no point between them. */
static bool look_between(struct search *s, size_t at)
{
	struct ht_frontier_point *a = &s->out->point[at], *b = a + 1, found;
	int64_t by_cost = a->error - b->error, by_error = b->cost - a->cost;

	if (!solve(s, by_cost, by_error, &found) || found.error >= a->error ||
		found.error <= b->error || found.cost <= a->cost || found.cost >= b->cost)
		return false;
	/* The point must be below the line, not on it. */
	if ((wide)(found.cost - a->cost) * by_cost >= (wide)(a->error - found.error) * by_error)
		return false;
	insert(s->out, at + 1, found);
	return true;
}

/* Finds both ends: the cheapest assignment (the most exact of several), and the most exact one
 * (the cheapest of several). */
static bool find_ends(struct search *s)
{
	struct ht_frontier *f = s->out;
	int64_t heavy = HT_FRONTIER_ERROR + 1;
	double sum = sum_of(s->p);

	if (!solve(s, heavy, 1, &f->point[0]))
		return false;
	f->points = 1;
	if (solve(s, 1, (int64_t)(sum < 0x1p56 ? sum : 0x1p56) + 1, &f->point[1]) &&
		f->point[1].error < f->point[0].error && f->point[1].cost > f->point[0].cost)
		f->points = 2;
	return true;
}

/* Breadth first, so that only details are lost if there are more than `most` points. */
void ht_frontier_solve(const struct ht_assign *p, const int64_t (*error)[HT_LABELS], size_t most,
	struct ht_arena *a, struct ht_arena *scratch, struct ht_frontier *out)
{
	struct search s = { p, error, most, a, scratch, out };
	bool *closed, found = true;

	*out = (struct ht_frontier){ .point = HT_NEW_ARRAY(a, struct ht_frontier_point, most + 2) };
	closed = HT_NEW_ARRAY(a, bool, most + 2); /* by left neighbour */
	if (!find_ends(&s))
		return;
	while (found && out->points < most) {
		found = false;
		for (size_t at = 0; at + 1 < out->points && out->points < most; at++) {
			if (closed[at])
				continue;
			if (!look_between(&s, at)) {
				closed[at] = true;
				continue;
			}
			found = true;
			memmove(closed + at + 1, closed + at, (most + 1 - at) * sizeof *closed);
			closed[at] = closed[at + 1] = false;
			at++; /* its right half is searched in the next round */
		}
	}
	out->whole = !found;
}
