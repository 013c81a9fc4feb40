/* permutation: the arithmetic of Transpose's permutations. */
#include "passes/transposes.h"

#include <string.h>

bool ht_perm_is_identity(const struct ht_perm *p)
{
	for (int i = 0; i < p->rank; i++)
		if (p->to[i] != i)
			return false;
	return true;
}

bool ht_perm_eq(const struct ht_perm *a, const struct ht_perm *b)
{
	return a->rank == b->rank && !memcmp(a->to, b->to, (size_t)a->rank * sizeof *a->to);
}

struct ht_perm ht_perm_inverse(const struct ht_perm *p)
{
	struct ht_perm q = { .rank = p->rank };

	for (int i = 0; i < p->rank; i++)
		q.to[p->to[i]] = i;
	return q;
}

struct ht_perm ht_perm_compose(const struct ht_perm *p, const struct ht_perm *q)
{
	struct ht_perm r = { .rank = p->rank };

	for (int i = 0; i < p->rank; i++)
		r.to[i] = p->to[q->to[i]];
	return r;
}

bool ht_perm_of(const struct ht_node *n, struct ht_perm *p)
{
	bool seen[HT_PERM_RANK] = { false };

	if (n->op != HT_OP_Transpose || n->controls || !ht_shape_known(n->out[0].shape) ||
		!ht_const_small_ints(n->in[1], p->to, HT_PERM_RANK, &p->rank) ||
		p->rank != n->out[0].shape.rank)
		return false;
	for (int i = 0; i < p->rank; i++) {
		if (p->to[i] < 0 || p->to[i] >= p->rank || seen[p->to[i]])
			return false;
		seen[p->to[i]] = true;
	}
	return true;
}

struct ht_shape ht_perm_before(struct ht_arena *a, struct ht_shape s, const struct ht_perm *p)
{
	int64_t dim[HT_PERM_RANK];

	for (int i = 0; i < p->rank; i++)
		dim[p->to[i]] = s.dim[i];
	return ht_shape_make(a, p->rank, dim);
}

/* ---- reshapes ---- */

/* The axes of a shape that are not 1. */
struct big {
	int count;
	int64_t size[HT_PERM_RANK];
	int place[HT_PERM_RANK];
};

static bool big_of(struct ht_shape s, struct big *b)
{
	b->count = 0;
	if (!ht_shape_known(s) || s.rank > HT_PERM_RANK)
		return false;
	for (int i = 0; i < s.rank; i++) {
		if (s.dim[i] == 0)
			return false;
		if (s.dim[i] == 1)
			continue;
		b->size[b->count] = s.dim[i];
		b->place[b->count++] = i;
	}
	return true;
}

/* The place of each axis of `from` among the axes before the Transpose. */
static void places_before(const struct big *from, const struct ht_perm *p, int *before)
{
	for (int i = 0; i < from->count; i++) {
		before[i] = 0;
		for (int k = 0; k < from->count; k++)
			before[i] += p->to[from->place[k]] < p->to[from->place[i]];
	}
}

/* Divides both shapes into the shortest groups of equal size, and sets, for each axis of `to`,
 * where its group begins before the Transpose.  False if the Transpose separates axes of a
 * group. */
static bool match_groups(
	const struct big *from, const struct big *to, const int *before, int *begins)
{
	int f = 0, t = 0;

	while (f < from->count && t < to->count) {
		int first = f, first_to = t;
		int64_t size = from->size[f++], size_to = to->size[t++];

		while (size != size_to) {
			if (size < size_to) {
				if (f == from->count)
					return false;
				size *= from->size[f++];
			} else {
				if (t == to->count)
					return false;
				size_to *= to->size[t++];
			}
		}
		for (int i = first + 1; i < f; i++)
			if (before[i] != before[i - 1] + 1)
				return false;
		for (int i = first_to; i < t; i++)
			begins[i] = before[first];
	}
	return f == from->count && t == to->count;
}

/* Axes of size 1 stay where the result has them; the others are permuted among their places. */
bool ht_perm_behind_reshape(const struct ht_perm *p, struct ht_shape from_shape,
	struct ht_shape to_shape, struct ht_perm *q)
{
	struct big from, to;
	int before[HT_PERM_RANK], begins[HT_PERM_RANK];

	if (!big_of(from_shape, &from) || !big_of(to_shape, &to))
		return false;
	places_before(&from, p, before);
	if (!match_groups(&from, &to, before, begins))
		return false;
	q->rank = to_shape.rank;
	for (int i = 0; i < to_shape.rank; i++)
		q->to[i] = i;
	for (int i = 0; i < to.count; i++) {
		int place = 0;

		for (int k = 0; k < to.count; k++)
			place += begins[k] < begins[i] || (begins[k] == begins[i] && k < i);
		q->to[to.place[i]] = to.place[place];
	}
	return true;
}
