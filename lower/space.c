/* Spaces: the coordinates at which an element is asked for, as expressions. */
#include "lower/inside.h"

#include <string.h>

/* Product of dimensions first..last. */
static int64_t extent(const struct space *s, int32_t first, int32_t last)
{
	int64_t n = 1;

	for (int32_t i = first; i <= last; i++)
		n *= s->dim[i];
	return n;
}

static const struct space_group *group_of(const struct space *s, int32_t k)
{
	for (int32_t i = 0; i < s->groups; i++)
		if (s->group[i].first <= k && k <= s->group[i].last)
			return &s->group[i];
	return NULL;
}

int32_t space_first(const struct space *s, const struct space_group *g)
{
	int32_t i = g->first;

	while (i < g->last && s->dim[i] == 1)
		i++;
	return i;
}

bool space_numbers_most(const struct ht_xb *b, const struct space *s, const struct space_group *g)
{
	for (int32_t i = space_first(s, g) + 1; s->end && i <= g->last; i++) {
		const struct ht_x *end = &b->stage->x[s->end[i]];

		if (s->dim[i] != 1 && (end->op != HT_X_CONST || end->imm != s->dim[i]))
			return false;
	}
	return true;
}

/* x / y of numbers that are not negative; if y is 0, nobody uses the result. */
static int32_t quotient(struct ht_xb *b, int32_t x, int32_t y)
{
	return ht_xdiv(b, x, ht_xmax(b, y, ht_xi(b, 1)));
}

/* Coordinate of dimension k of a group that numbers the indices of the run. */
static int32_t coord_of_run(
	struct ht_xb *b, const struct space *s, const struct space_group *g, int32_t k)
{
	int32_t below = ht_xi(b, 1), x = g->x;

	for (int32_t i = k + 1; i <= g->last; i++)
		below = ht_xmul(b, below, s->end[i]);
	x = quotient(b, x, below);
	if (space_first(s, g) < k)
		x = ht_xsub(b, x, ht_xmul(b, quotient(b, x, s->end[k]), s->end[k]));
	return x;
}

int32_t space_coord(struct ht_xb *b, const struct space *s, int32_t k)
{
	const struct space_group *g = group_of(s, k);
	int64_t below, above;
	int32_t x;

	HT_CHECK(g);
	if (s->dim[k] <= 1) /* nobody asks for an element of an axis that has none */
		return ht_xi(b, 0);
	if (!space_numbers_most(b, s, g))
		return coord_of_run(b, s, g, k);
	below = extent(s, k + 1, g->last);
	above = extent(s, g->first, k - 1);
	x = g->x;
	if (below > 1)
		x = ht_xdivi(b, x, below);
	if (above > 1)
		x = ht_xmodi(b, x, s->dim[k]);
	return x;
}

bool space_is_linear(
	const struct space *s, const struct space_group *g, const int64_t *stride, int32_t *last)
{
	int64_t want = 0;

	*last = -1;
	for (int32_t k = g->last; k >= g->first; k--) {
		if (s->dim[k] == 1)
			continue;
		if (*last < 0)
			*last = k; /* dimensions of size one behind k do not count */
		else if (stride[k] != want)
			return false;
		want = stride[k] * s->dim[k];
	}
	return true;
}

/* Whether a group has the strides of one long dimension; *step becomes the stride of its last dimension. */
static bool group_is_linear(const struct ht_xb *b, const struct space *s,
	const struct space_group *g, const int64_t *stride, int64_t *step)
{
	int32_t last;
	bool linear = space_is_linear(s, g, stride, &last) && space_numbers_most(b, s, g);

	*step = linear && last >= 0 ? stride[last] : 0;
	return linear;
}

int32_t space_offset(struct ht_xb *b, const struct space *s, const int64_t *stride, int64_t offset)
{
	int32_t sum = ht_xi(b, offset);

	for (int32_t i = 0; i < s->groups; i++) {
		const struct space_group *g = &s->group[i];
		int64_t last;

		if (group_is_linear(b, s, g, stride, &last)) {
			if (last)
				sum = ht_xadd(b, sum, ht_xmuli(b, g->x, last));
			continue;
		}
		for (int32_t k = g->first; k <= g->last; k++)
			if (stride[k] && s->dim[k] != 1)
				sum = ht_xadd(b, sum, ht_xmuli(b, space_coord(b, s, k), stride[k]));
	}
	return sum;
}

int32_t space_linear(struct ht_xb *b, const struct space *s)
{
	int64_t stride[HT_LOWER_RANK], n = 1;

	for (int32_t k = s->rank - 1; k >= 0; k--) {
		stride[k] = n;
		n *= s->dim[k];
	}
	return space_offset(b, s, stride, 0);
}

struct space space_of_coords(
	const struct space *like, int32_t rank, const int64_t *dim, const int32_t *x)
{
	struct space r = { .rank = rank, .groups = rank, .guard = like->guard };

	for (int32_t k = 0; k < rank; k++) {
		r.dim[k] = dim[k];
		r.group[k] = (struct space_group){ k, k, x[k] };
	}
	return r;
}

void space_and_guard(struct ht_xb *b, struct space *s, int32_t guard)
{
	s->guard = s->guard < 0 ? guard : ht_xand(b, s->guard, guard);
}

/* A group is kept whole if all its dimensions stay, or all are broadcast; other groups are
 * split. */
struct space space_broadcast(
	struct ht_xb *b, const struct space *s, int32_t rank, const int64_t *dim)
{
	struct space r = { .rank = rank, .guard = s->guard };
	int32_t lead = s->rank - rank;

	HT_CHECK(lead >= 0);
	if (s->end)
		r.end = s->end + lead;
	if (rank)
		memcpy(r.dim, dim, (size_t)rank * sizeof *dim);
	for (int32_t i = 0; i < s->groups; i++) {
		const struct space_group *g = &s->group[i];
		bool same = g->first >= lead;

		for (int32_t k = g->first; same && k <= g->last; k++)
			same = dim[k - lead] == s->dim[k];
		if (same) {
			r.group[r.groups++] =
				(struct space_group){ g->first - lead, g->last - lead, g->x };
			continue;
		}
		for (int32_t k = g->first; k <= g->last; k++) {
			int32_t x;
			if (k < lead)
				continue;
			x = dim[k - lead] == 1 ? ht_xi(b, 0) : space_coord(b, s, k);
			r.group[r.groups++] = (struct space_group){ k - lead, k - lead, x };
		}
	}
	return r;
}

/* Linear index within dimensions first..last (last < first: 0). */
static int32_t segment_linear(struct ht_xb *b, const struct space *s, int32_t first, int32_t last)
{
	int64_t stride[HT_LOWER_RANK] = { 0 }, n = 1;
	int32_t sum = ht_xi(b, 0);

	for (int32_t i = 0; i < s->groups; i++)
		if (s->group[i].first == first && s->group[i].last == last &&
			space_numbers_most(b, s, &s->group[i]))
			return s->group[i].x;
	for (int32_t k = last; k >= first; k--) {
		stride[k] = n;
		n *= s->dim[k];
	}
	for (int32_t i = 0; i < s->groups; i++) {
		const struct space_group *g = &s->group[i];
		int64_t step;
		if (g->last < first || g->first > last)
			continue;
		if (g->first >= first && g->last <= last &&
			group_is_linear(b, s, g, stride, &step)) {
			if (step)
				sum = ht_xadd(b, sum, ht_xmuli(b, g->x, step));
			continue;
		}
		for (int32_t k = g->first; k <= g->last; k++)
			if (k >= first && k <= last && s->dim[k] != 1)
				sum = ht_xadd(b, sum, ht_xmuli(b, space_coord(b, s, k), stride[k]));
	}
	return sum;
}

/* Runs of dimensions with equal products correspond; each becomes one group. */
struct space space_reshape(struct ht_xb *b, const struct space *s, int32_t rank, const int64_t *dim)
{
	struct space r = { .rank = rank, .guard = s->guard };
	int32_t i = 0, j = 0;

	if (s->end && s->rank == rank && !memcmp(s->dim, dim, (size_t)rank * sizeof *dim))
		return *s;
	if (rank)
		memcpy(r.dim, dim, (size_t)rank * sizeof *dim);
	while (j < rank) {
		int32_t i0 = i, j0 = j;
		int64_t have = 1, want = dim[j++];

		if (i < s->rank)
			have = s->dim[i++];
		while (have != want) {
			if (have < want && i < s->rank)
				have *= s->dim[i++];
			else if (have > want && j < rank)
				want *= dim[j++];
			else
				break;
		}
		if (have != want || want == 0) { /* zero-sized: no element is ever asked for */
			i0 = 0;
			i = s->rank;
			j0 = 0;
			j = rank;
			r.groups = 0;
		}
		while (j < rank && dim[j] == 1)
			j++;
		if (j == rank)
			i = s->rank;
		r.group[r.groups++] =
			(struct space_group){ j0, j - 1, segment_linear(b, s, i0, i - 1) };
	}
	return r;
}
