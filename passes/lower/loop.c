/* Kernels without a root: one loop over the sink's elements. */
#include "passes/lower/lower.h"

enum { TILE_ELEMENTS = 16384, VECTOR_MULTIPLE = 64 };

int choose_grid(int groups, const int64_t *extent, int64_t work, int64_t *step, int64_t *grid)
{
	int64_t inner = work > 0 ? work : 1;
	int dims = 0;

	for (int i = 0; i < groups; i++)
		inner *= extent[i];
	for (int i = 0; i < groups; i++) {
		step[i] = 0;
		if (dims == HT_MAX_GRID || inner <= TILE_ELEMENTS || extent[i] == 1)
			continue;
		inner /= extent[i];
		step[i] = inner >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / inner;
		if (i == groups - 1)
			step[i] =
				(step[i] + VECTOR_MULTIPLE - 1) / VECTOR_MULTIPLE * VECTOR_MULTIPLE;
		inner *= step[i];
		grid[dims++] = (extent[i] + step[i] - 1) / step[i];
	}
	return dims;
}

struct space kb_loop_space(struct kernel_build *k, int32_t rank, const int64_t *dim, uint32_t bits)
{
	int32_t first[HT_LOWER_RANK], last[HT_LOWER_RANK];
	int64_t extent[HT_LOWER_RANK], step[HT_LOWER_RANK], grid[HT_MAX_GRID];
	int groups = split_groups(rank, dim, bits, first, last, extent);
	struct space s = { .rank = rank, .groups = groups, .guard = -1 };
	int grid_dim = 0;

	kb_grid(k, choose_grid(groups, extent, 1, step, grid), grid);
	for (int32_t i = 0; i < rank; i++)
		s.dim[i] = dim[i];
	for (int i = 0; i < groups; i++) {
		int d = step[i] ? kb_grid_dim(k, grid_dim++, extent[i], step[i])
				: kb_dim(k, extent[i]);
		s.group[i] = (struct space_group){ first[i], last[i], ht_xdim(&k->xb, d) };
	}
	k->stage->vec = groups - 1;
	return s;
}

enum ht_status emit_loop(struct lower *l, struct ht_node *sink)
{
	for (int32_t i = 0; i < sink->outs; i++) {
		const struct view *v = &l->view[sink->id][i];
		struct kernel_build k;
		struct space s;

		if (v->buffer < 0 || view_count(v) == 0)
			continue;
		kb_init(&k, l);
		kb_stage(&k, HT_STAGE_LOOP);
		s = kb_loop_space(&k, v->rank, v->dim, kb_out_boundaries(l, i));
		kb_store_result(&k, i, v, &s, kb_pull(&k, ht_out(sink, i), &s));
		kb_finish(&k, sink);
	}
	return HT_OK;
}

void emit_copy(
	struct lower *l, const struct ht_node *n, const struct view *from, const struct view *to)
{
	struct kernel_build k;
	struct space s;

	if (view_count(from) == 0)
		return;
	kb_init(&k, l);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, to->rank, to->dim,
		view_boundaries(from, to->rank, to->dim) | view_boundaries(to, to->rank, to->dim));
	kb_store(&k, to, &s, kb_load(&k, from, &s));
	kb_finish(&k, n);
}
