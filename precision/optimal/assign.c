/* Solves the assignment problem as a minimum cut.
 *
 * Unit u has a Boolean variable for each boundary b: whether its label is above b.  True is the
 * source's side. above(1) implies above(0).  A tensor's step over a boundary is a vertex that is
 * on the source's side if some user is (paid by an arc to the producer), and another one that is
 * on the sink's side if some user is (paid by an arc from the producer). */
#include "precision/optimal/assign.h"
#include "precision/optimal/cut.h"

#include <math.h>

/* Most bits of the sum of all costs; leaves room below HT_CUT_MOST. */
enum { MOST_BITS = 59 };

struct network {
	const struct ht_assign *p;
	struct ht_cut cut;
	uint32_t (*above)[HT_BOUNDARIES]; /* by unit: vertex or terminal */
	int shift;
	int64_t base; /* subtracted from the units' costs */
};

void ht_assign_init(struct ht_assign *p, struct ht_arena *a)
{
	*p = (struct ht_assign){ .arena = a };
}

uint32_t ht_assign_unit(struct ht_assign *p, const int64_t cost[HT_LABELS])
{
	p->cost = ht_grow(p->arena, p->cost, p->units, &p->cost_cap, sizeof *p->cost);
	for (int l = 0; l < HT_LABELS; l++)
		p->cost[p->units][l] = cost[l];
	return p->units++;
}

struct ht_assign_tensor *ht_assign_tensor(struct ht_assign *p, uint32_t producer)
{
	p->tensor = ht_grow(p->arena, p->tensor, p->tensors, &p->tensor_cap, sizeof *p->tensor);
	p->tensor[p->tensors] =
		(struct ht_assign_tensor){ .producer = producer, .first_user = (uint32_t)p->users };
	return &p->tensor[p->tensors++];
}

void ht_assign_user(struct ht_assign *p, uint32_t unit)
{
	p->user = ht_grow(p->arena, p->user, p->users, &p->user_cap, sizeof *p->user);
	p->user[p->users++] = unit;
	p->tensor[p->tensors - 1].users++;
}

static bool is_above(int label, int boundary)
{
	return label > boundary;
}

/* ---- costs ---- */

static int64_t add(int64_t a, int64_t b)
{
	int64_t r;

	if (a == HT_COST_NEVER || b == HT_COST_NEVER)
		return HT_COST_NEVER;
	HT_CHECK(!__builtin_add_overflow(a, b, &r));
	return r;
}

static int64_t tensor_cost(
	const struct ht_assign *p, const struct ht_assign_tensor *t, const uint8_t *label)
{
	int64_t cost = 0;

	for (int b = 0; b < HT_BOUNDARIES; b++) {
		bool producer = is_above(label[t->producer], b), differs = false;
		for (uint32_t i = 0; i < t->users; i++)
			differs |= is_above(label[p->user[t->first_user + i]], b) != producer;
		if (differs)
			cost = add(cost, producer ? t->down[b] : t->up[b]);
	}
	return cost;
}

int64_t ht_assign_cost(const struct ht_assign *p, const uint8_t *label)
{
	int64_t cost = 0;

	for (uint32_t u = 0; u < p->units; u++)
		cost = add(cost, p->cost[u][label[u]]);
	for (size_t i = 0; i < p->tensors; i++)
		cost = add(cost, tensor_cost(p, &p->tensor[i], label));
	return cost;
}

/* Finds a power of two by which all costs are divided, so that their sum stays far below
 * overflow. */
static int find_shift(const struct ht_assign *p)
{
	double sum = 0;
	int bits;

	for (uint32_t u = 0; u < p->units; u++)
		for (int l = 0; l < HT_LABELS; l++)
			if (p->cost[u][l] != HT_COST_NEVER)
				sum += p->cost[u][l] < 0 ? -(double)p->cost[u][l]
							 : (double)p->cost[u][l];
	for (size_t i = 0; i < p->tensors; i++)
		for (int b = 0; b < HT_BOUNDARIES; b++)
			sum += (double)p->tensor[i].up[b] + (double)p->tensor[i].down[b];
	frexp(sum, &bits);
	return bits > MOST_BITS ? bits - MOST_BITS : 0;
}

/* ---- the network ---- */

static void add_unit(struct network *n, uint32_t u)
{
	const int64_t *cost = n->p->cost[u];
	int64_t least = HT_COST_NEVER, scaled[HT_LABELS];
	int lowest = HT_LABELS, highest = -1;

	for (int l = 0; l < HT_LABELS; l++) {
		if (cost[l] == HT_COST_NEVER)
			continue;
		least = cost[l] < least ? cost[l] : least;
		lowest = l < lowest ? l : lowest;
		highest = l;
	}
	for (int b = 0; b < HT_BOUNDARIES; b++)
		n->above[u][b] = highest >= 0 && highest <= b ? HT_CUT_SINK
				 : lowest > b                 ? HT_CUT_SOURCE
							      : ht_cut_vertex(&n->cut);
	if (highest < 0) {
		ht_cut_arc(&n->cut, HT_CUT_SOURCE, HT_CUT_SINK, HT_CUT_NEVER);
		return;
	}
	least >>= n->shift; /* rounds down, like all others */
	n->base += least;
	for (int l = 0; l < HT_LABELS; l++)
		scaled[l] = cost[l] == HT_COST_NEVER ? HT_CUT_NEVER : (cost[l] >> n->shift) - least;
	ht_cut_arc(&n->cut, HT_CUT_SOURCE, n->above[u][0], scaled[HT_LABEL_F16]);
	ht_cut_arc(&n->cut, n->above[u][0], n->above[u][1], scaled[HT_LABEL_F32]);
	ht_cut_arc(&n->cut, n->above[u][1], HT_CUT_SINK, scaled[HT_LABEL_BF16]);
	ht_cut_arc(&n->cut, n->above[u][1], n->above[u][0], HT_CUT_NEVER);
}

/* A vertex that is on side `end` of the cut if and only if some user of the tensor is. */
static uint32_t any_user(
	struct network *n, const struct ht_assign_tensor *t, int boundary, uint32_t end)
{
	uint32_t other = end == HT_CUT_SOURCE ? HT_CUT_SINK : HT_CUT_SOURCE, one = other, any;

	for (uint32_t i = 0; i < t->users; i++) {
		uint32_t user = n->p->user[t->first_user + i], v = n->above[user][boundary];
		if (v == end)
			return end;
		if (v == other || v == one || user == t->producer)
			continue;
		if (one != other)
			goto several;
		one = v;
	}
	return one;
several:
	any = ht_cut_vertex(&n->cut);
	for (uint32_t i = 0; i < t->users; i++) {
		uint32_t user = n->p->user[t->first_user + i], v = n->above[user][boundary];
		if (v == other || user == t->producer)
			continue;
		ht_cut_arc(&n->cut, end == HT_CUT_SOURCE ? v : any, end == HT_CUT_SOURCE ? any : v,
			HT_CUT_NEVER);
	}
	return any;
}

static void add_tensor(struct network *n, const struct ht_assign_tensor *t)
{
	for (int b = 0; b < HT_BOUNDARIES; b++) {
		uint32_t producer = n->above[t->producer][b];
		if (t->up[b] && producer != HT_CUT_SOURCE)
			ht_cut_arc(&n->cut, any_user(n, t, b, HT_CUT_SOURCE), producer,
				t->up[b] >> n->shift);
		if (t->down[b] && producer != HT_CUT_SINK)
			ht_cut_arc(&n->cut, producer, any_user(n, t, b, HT_CUT_SINK),
				t->down[b] >> n->shift);
	}
}

void ht_assign_solve(const struct ht_assign *p, struct ht_arena *a, struct ht_arena *scratch,
	struct ht_assignment *out)
{
	struct network n = { .p = p, .shift = find_shift(p) };
	int64_t value;

	*out = (struct ht_assignment){ .shift = n.shift,
		.label = HT_NEW_ARRAY(a, uint8_t, p->units) };
	ht_cut_init(&n.cut, scratch);
	n.above = (uint32_t(*)[HT_BOUNDARIES])ht_alloc_array(scratch, p->units, sizeof *n.above);
	for (uint32_t u = 0; u < p->units; u++) {
		uint32_t before = n.cut.vertices;
		add_unit(&n, u);
		out->free_units += n.cut.vertices != before;
	}
	for (size_t i = 0; i < p->tensors; i++)
		add_tensor(&n, &p->tensor[i]);
	value = ht_cut_solve(&n.cut, scratch);
	out->regions = n.cut.parts;
	out->largest = n.cut.largest;
	out->cost = out->cut = HT_COST_NEVER;
	if (value == HT_CUT_NEVER)
		return;
	for (uint32_t u = 0; u < p->units; u++)
		for (int b = 0; b < HT_BOUNDARIES; b++)
			out->label[u] += ht_cut_from_source(&n.cut, n.above[u][b]);
	out->cut = (value + n.base) * (INT64_C(1) << n.shift);
	out->cost = ht_assign_cost(p, out->label);
}
