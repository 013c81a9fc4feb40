/* Kernels without a root: one loop over the sink's elements. */
#include "lower/inside.h"
#include "lower/strides.h"

enum { TILE_ELEMENTS = 16384, VECTOR_MULTIPLE = 64 };

/* Numbers of 16 bits in a line of the caches. */
enum { SIDE = 32 };

/* Tiles over rows of an image in memory are larger, since the end of each tile waits for its
 * loads. */
enum { FAR_TILE_ELEMENTS = 8 * TILE_ELEMENTS };

/* How many results of a window are unrolled side by side, and the largest window for which as
 * many are.  Each extreme needs a mask (backend/ordered.c), of which there are seven. */
enum { ROWS = 4, ROWS_OF_EXTREMES = 3, COLUMNS = 2, MOST_SIDE = 4 };

/* The group along lanes: the last one that has more than one index, if there is one. */
static int lanes_group(int groups, const int64_t *extent)
{
	int last = groups - 1;

	while (last > 0 && extent[last] == 1)
		last--;
	return last >= 0 && extent[last] == 1 ? groups - 1 : last;
}

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
		if (i == lanes_group(groups, extent))
			step[i] =
				(step[i] + VECTOR_MULTIPLE - 1) / VECTOR_MULTIPLE * VECTOR_MULTIPLE;
		inner *= step[i];
		grid[dims++] = (extent[i] + step[i] - 1) / step[i];
	}
	return dims;
}

/* Opens the stage's dimensions, one for each group. step[i]: indices in a tile, 0 for all. */
static struct space space_of_groups(struct kernel_build *k, int32_t rank, const int64_t *dim,
	int groups, const int32_t *first, const int32_t *last, const int64_t *extent,
	const int64_t *step)
{
	struct space s = { .rank = rank, .groups = groups, .guard = -1 };
	int grid_dim = 0;

	for (int32_t i = 0; i < rank; i++)
		s.dim[i] = dim[i];
	for (int i = 0; i < groups; i++) {
		int d = step[i] ? kb_grid_dim(k, grid_dim++, extent[i], step[i])
				: kb_dim(k, extent[i]);
		s.group[i] = (struct space_group){ first[i], last[i], ht_xdim(&k->xb, d) };
	}
	k->stage->vec = lanes_group(groups, extent);
	return s;
}

struct space kb_loop_space(struct kernel_build *k, int32_t rank, const int64_t *dim, uint32_t bits)
{
	int32_t first[HT_LOWER_RANK], last[HT_LOWER_RANK];
	int64_t extent[HT_LOWER_RANK], step[HT_LOWER_RANK], grid[HT_MAX_GRID];
	int groups = split_groups(rank, dim, bits, first, last, extent);

	kb_grid(k, choose_grid(groups, extent, 1, step, grid), grid);
	return space_of_groups(k, rank, dim, groups, first, last, extent, step);
}

/* Whether rows of the image would be loaded from memory again for the next row of results.  If
 * so, several rows of results are computed side by side. */
static bool reads_rows_again(const struct kernel_build *k, const struct ht_type *in,
	const struct window w[2], const int64_t dim[4])
{
	int64_t bytes = ht_shape_count(in->shape) * (int64_t)ht_dtype_info(in->dtype)->bytes;

	return bytes >= k->l->target->streams && w[0].stride < w[0].size &&
	       w[1].size <= MOST_SIDE && dim[1] >= ROWS && dim[2] >= COLUMNS;
}

struct space kb_window_space(struct kernel_build *k, const struct ht_type *in,
	const struct window w[2], const int64_t dim[4], bool extremes, bool *rows)
{
	const int64_t most = extremes ? ROWS_OF_EXTREMES : ROWS;
	static const int32_t each[4] = { 0, 1, 2, 3 };
	int64_t step[4] = { 1, most, 0, 0 }, grid[3];
	struct space s;

	*rows = reads_rows_again(k, in, w, dim);
	if (!*rows)
		return kb_loop_space(k, 4, dim, ~0u);
	step[2] = ht_ceil_div(FAR_TILE_ELEMENTS, most * dim[3] * COLUMNS) * COLUMNS;
	for (int i = 0; i < 3; i++)
		grid[i] = ht_ceil_div(dim[i], step[i]);
	kb_grid(k, 3, grid);
	s = space_of_groups(k, 4, dim, 4, each, each, dim, step);
	k->stage->dim[1].unroll = (int8_t)most;
	k->stage->dim[2].unroll = COLUMNS;
	return s;
}

/* The group of dimensions of `to` along which neighbours are side by side in `from`, where that is not the last one; -1: there is none. */
static int side_by_side(const struct view *from, const struct view *to, int groups,
	const int32_t *last, const int64_t *extent)
{
	if (from->rank < 2 || from->rank != to->rank || from->stride[from->rank - 1] == 1)
		return -1;
	for (int i = 0; i < groups - 1; i++)
		if (from->stride[last[i]] == 1 && extent[i] >= SIDE)
			return i;
	return -1;
}

/* The space of a copy.  Where the order of dimensions changes, a tile has SIDE numbers of each line that it reads, and a part of the last
 * dimension that is as long as tiles are large. */
static struct space copy_space(
	struct kernel_build *k, const struct view *from, const struct view *to, uint32_t bits)
{
	int32_t first[HT_LOWER_RANK], last[HT_LOWER_RANK];
	int64_t extent[HT_LOWER_RANK], step[HT_LOWER_RANK] = { 0 }, grid[HT_MAX_GRID];
	const int groups = split_groups(to->rank, to->dim, bits, first, last, extent);
	const int side = side_by_side(from, to, groups, last, extent);
	int dims = 0;

	if (side < 0 || groups > HT_MAX_GRID)
		return kb_loop_space(k, to->rank, to->dim, bits);
	for (int i = 0; i < groups; i++) {
		step[i] = i == side ? SIDE : i == groups - 1 ? TILE_ELEMENTS / SIDE : 1;
		if (step[i] < extent[i])
			grid[dims++] = ht_ceil_div(extent[i], step[i]);
		else
			step[i] = 0;
	}
	kb_grid(k, dims, grid);
	return space_of_groups(k, to->rank, to->dim, groups, first, last, extent, step);
}

/* Whether a loop sets all of a result before anything reads it (passes/carried_lists.c), so that no kernel needs to. */
static bool is_unset(const struct lower *l, const struct ht_node *n)
{
	return ht_attr_bool(n, "_unset", false) && l->asked->tee == HT_LOWER_TEE_NOTHING;
}

enum ht_status emit_loop(struct lower *l, struct ht_node *sink)
{
	if (is_unset(l, sink))
		return HT_OK;
	for (int32_t i = 0; i < sink->outs; i++) {
		const struct view *v = &l->view[sink->id][i];
		struct kernel_build k;
		struct space s;

		if (v->buffer < 0 || view_count(v) == 0)
			continue;
		kb_init(&k, l, sink);
		kb_stage(&k, HT_STAGE_LOOP);
		s = kb_loop_space(&k, v->rank, v->dim, kb_run_boundaries(l, sink, i));
		if (v->ends)
			kb_number_as_held(&k, &s, v);
		else
			kb_cut_space(&k, &s, ht_out(sink, i));
		kb_store_result(&k, i, v, &s, kb_pull(&k, ht_out(sink, i), &s));
		kb_finish(&k, sink);
	}
	return HT_OK;
}

void emit_copy(
	struct lower *l, const struct ht_node *n, const struct view *from, const struct view *to)
{
	emit_copy_of(l, n, (struct ht_value){ 0 }, from, to);
}

void emit_copy_of(struct lower *l, const struct ht_node *n, struct ht_value v,
	const struct view *from, const struct view *to)
{
	struct kernel_build k;
	struct space s;

	if (view_count(from) == 0)
		return;
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = copy_space(&k, from, to,
		view_boundaries(from, to->rank, to->dim) | view_boundaries(to, to->rank, to->dim));
	if (v.node)
		kb_cut_space(&k, &s, v);
	kb_store(&k, to, &s, kb_load(&k, from, &s));
	kb_finish(&k, n);
}
