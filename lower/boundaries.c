/* Boundaries between dimensions: two neighbouring dimensions cannot share an index if some
 * tensor that the kernel reads or writes is not dense across them. */
#include "lower/inside.h"

/* Whether memory has as many indices of dimension `i` of the loop as the loop numbers. */
static bool numbered_as_held(const struct view *v, int32_t i, int32_t lead, const int64_t *dim,
	const struct ht_size_expr *ends)
{
	const struct ht_size_expr most = ht_size_number(dim[i]);

	return ht_size_equal(v->ends ? v->ends[i - lead] : most, ends ? ends[i] : most);
}

/* `ends`: how many indices of each dimension the loop numbers; NULL: `dim`.
 *
 * Dimensions of size one have no boundary of their own: the next larger dimension further in
 * decides. */
static uint32_t boundaries_by(
	const struct view *v, int32_t rank, const int64_t *dim, const struct ht_size_expr *ends)
{
	int64_t stride[HT_LOWER_RANK], size[HT_LOWER_RANK];
	int32_t at[HT_LOWER_RANK], n = 0, lead = rank - v->rank;
	uint32_t bits = 0;

	if (v->open && !v->ends)
		return ~0u;
	for (int32_t i = 0; i < rank; i++) {
		if (dim[i] == 1)
			continue;
		stride[n] = i < lead || v->dim[i - lead] == 1 ? 0 : v->stride[i - lead];
		size[n] = dim[i];
		at[n++] = i;
	}
	for (int32_t i = 0; i + 1 < n; i++)
		if (stride[i] != stride[i + 1] * size[i + 1] ||
			(stride[i] && !numbered_as_held(v, at[i + 1], lead, dim, ends)))
			bits |= 1u << at[i];
	return bits;
}

uint32_t view_boundaries(const struct view *v, int32_t rank, const int64_t *dim)
{
	return boundaries_by(v, rank, dim, NULL);
}

static uint32_t walk(struct lower *l, const struct ht_node *sink, struct ht_value v, int32_t rank,
	const int64_t *dim, const struct ht_size_expr *ends)
{
	const struct ht_node *n = v.node;
	const struct ht_shape shape = ht_type_of(v)->shape;
	uint32_t bits = 0;
	int32_t lead = rank - shape.rank;

	if (!lower_is_inside(l, sink, n))
		return boundaries_by(lower_view(l, v), rank, dim, ends);
	if (n == l->root[sink->id]) {
		struct view dense;
		view_dense(&dense, 0, shape);
		return view_boundaries(&dense, rank, dim);
	}
	if (!lower_is_aligned(n) || lower_op_of(n)->apart)
		return ~0u;
	if (l->walked[n->id] == l->walk)
		return 0;
	l->walked[n->id] = l->walk;
	for (int32_t i = 0; i + 1 < rank; i++) {
		bool outer = i >= lead && shape.dim[i - lead] == dim[i];
		bool inner = i + 1 >= lead && shape.dim[i + 1 - lead] == dim[i + 1];
		if (outer != inner)
			bits |= 1u << i;
	}
	for (int32_t i = 0; i < n->ins; i++)
		bits |= walk(l, sink, n->in[i], rank, dim, ends);
	return bits;
}

uint32_t kb_boundaries(struct lower *l, const struct ht_node *sink, struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;

	l->walk++;
	return walk(l, sink, v, s.rank, s.dim, NULL);
}

uint32_t kb_run_boundaries(struct lower *l, struct ht_node *sink, int32_t i)
{
	const struct view *v = &l->view[sink->id][i];

	l->walk++;
	return walk(l, sink, ht_out(sink, i), v->rank, v->dim, v->ends) |
	       boundaries_by(v, v->rank, v->dim, v->ends);
}

uint32_t kb_out_boundaries(struct lower *l, struct ht_node *sink, int32_t i)
{
	const struct view *v = &l->view[sink->id][i];

	return kb_boundaries(l, sink, ht_out(sink, i)) | view_boundaries(v, v->rank, v->dim);
}

int split_groups(int32_t rank, const int64_t *dim, uint32_t bits, int32_t *first, int32_t *last,
	int64_t *extent)
{
	int groups = 0;

	for (int32_t i = 0; i < rank; i++) {
		if (i == 0 || bits >> (i - 1) & 1) {
			first[groups] = i;
			extent[groups++] = 1;
		}
		last[groups - 1] = i;
		extent[groups - 1] *= dim[i];
	}
	return groups;
}
