/* An inverted residual block as one kernel, row by row: a convolution that expands, a depthwise
 * convolution, and optionally a 1 x 1 convolution that projects.  Only a few rows of the wide
 * tensors exist at a time.  They stay in the second level, which is faster if a whole tensor
 * would not.
 *
 * A tile is a row of results.  It computes the rows of the expansion that no earlier tile
 * computed, into a ring of as many rows as the depthwise window has; then the depthwise row from
 * the ring; then the projected row.  The tile before has left the other rows of the window in
 * the ring.  Where there was no such tile, prologue stages compute them. */
#include "lower/joined.h"

#include <math.h>
#include <string.h>

enum { IMAGE, ROW, GRID };
enum { RING, LINE };

/* Below this width, blocks of rows would be smaller than in separate kernels, and sums would
 * have another order. */
enum { LEAST_WIDTH = 5, PIXELS_SIDE_BY_SIDE = 4 };

/* ---- what can be one kernel ---- */

static bool is_expand(struct lower *l, const struct ht_node *n)
{
	struct conv v;

	if (!ht_is(n, HT_CONV) || !conv_is_plain(n, &v) || !conv_is_simple(&v))
		return false;
	if (v.filter.dim[0] == 1)
		return true;
	ht_note_read(l->asked->reads, HT_READ_conv_method);
	return l->asked->asked.conv != HT_CONV_WINOGRAD &&
	       l->asked->asked.conv != HT_CONV_WINOGRAD_2X2;
}

/* This kernel multiplies the zeros around the image with weights, which other kernels skip.  The
 * result is the same as long as no weight is infinite or NaN. */
static bool is_finite(const struct ht_tensor *t)
{
	int64_t n = ht_shape_count(t->shape);

	for (int64_t i = 0; i < n; i++) {
		uint16_t h = t->dtype == HT_F32 ? 0 : (uint16_t)ht_load_u16(t->blob->p, i);
		float x = t->dtype == HT_F32   ? ht_load_f32(t->blob->p, i)
			  : t->dtype == HT_F16 ? ht_f16_to_f32(h)
					       : ht_bf16_to_f32(h);
		if (!isfinite(x))
			return false;
	}
	return true;
}

static bool is_depthwise(const struct ht_node *n, struct conv *v)
{
	if (!ht_is(n, HT_DEPTHWISE) || !conv_is_plain(n, v) || v->filter.dim[3] != 1)
		return false;
	for (int i = 0; i < 2; i++)
		if (v->w[i].open.size || v->w[i].dilation != 1 || v->w[i].size < v->w[i].stride ||
			v->w[i].in < LEAST_WIDTH || v->w[i].out < LEAST_WIDTH)
			return false;
	return is_finite(ht_const_tensor(n->in[1]));
}

static bool is_project(const struct ht_node *n)
{
	struct conv v;

	return conv_is_project(n, &v);
}

/* ---- the kernel ---- */

/* A stage over images, rows, columns and channels.  Its rows are one row of results, or `rows`
 * rows of the ring from row `from` on. */
static struct joined_stage *add(struct joined *d, const struct joined_loop *loop,
	struct ht_node *root, int32_t from, int32_t to)
{
	struct joined_stage *s = joined_add(d, loop, root, from, to);
	struct ht_shape shape = root->out[0].shape;

	joined_share(joined_over(s, 0, 0, d->grid[IMAGE]), IMAGE, 1);
	joined_share(joined_over(s, 1, 1, d->grid[ROW]), ROW, 1);
	joined_over(s, 2, 2, shape.dim[2]);
	joined_over(s, 3, 3, shape.dim[3]);
	return s;
}

static struct joined_dim in_ring(int32_t d, int64_t from, int64_t extent)
{
	return (struct joined_dim){
		.extent = extent, .first = d, .last = d, .grid = -1, .from = from
	};
}

/* A stage that stores zeros in `columns` columns of the ring. */
static void add_zeros(struct joined *d, struct ht_node *expand, int64_t from, int64_t columns)
{
	struct joined_stage *s;

	if (columns <= 0)
		return;
	s = add(d, &joined_zeros, expand, JOINED_MEMORY, RING);
	s->starts = true;
	s->dim[1] = in_ring(1, 0, d->buffer[RING].extent[1]);
	s->dim[2] = in_ring(2, from, columns);
}

/* A stage for rows of the expansion.  They are counted from the first row of the window that the
 * row of results reads. */
static struct joined_stage *add_expand(
	struct joined *d, struct ht_node *expand, int64_t from, int64_t end)
{
	struct joined_stage *s = add(d, &joined_product, expand, JOINED_MEMORY, RING);

	s->dim[1] = in_ring(1, from, end - from);
	s->dim[2].from = d->window[1].before;
	return s;
}

static void describe_buffers(struct lower *l, struct joined *d, const struct ht_node *depthwise,
	const struct ht_node *project)
{
	const struct window *w = d->window;
	struct ht_type in = *ht_type_of(depthwise->in[0]), out = depthwise->out[0];
	int64_t reach = (w[1].out - 1) * w[1].stride + w[1].size, image = w[1].before + w[1].in;

	d->buffer[RING] = (struct joined_buffer){ local_type(l, in.dtype),
		{ 0, w[0].size, reach > image ? reach : image, in.shape.dim[3] }, true };
	if (project)
		d->buffer[LINE] =
			(struct joined_buffer){ local_type(l, ht_type_of(project->in[0])->dtype),
				{ 0, 0, out.shape.dim[2], out.shape.dim[3] }, false };
}

static void describe_stages(struct joined *d, struct ht_node *expand, struct ht_node *depthwise,
	struct ht_node *project)
{
	const struct window *w = d->window;
	int64_t image = w[1].before + w[1].in, again = w[0].size - w[0].stride;
	struct joined_stage *s;

	add_zeros(d, expand, 0, w[1].before);
	add_zeros(d, expand, image, d->buffer[RING].extent[2] - image);
	if (again > 0)
		add_expand(d, expand, 0, again)->starts = true;
	add_expand(d, expand, again, w[0].size);
	s = add(d, &joined_window, depthwise, RING, project ? LINE : JOINED_MEMORY);
	if (w[1].out >= PIXELS_SIDE_BY_SIDE)
		s->dim[2].unroll = PIXELS_SIDE_BY_SIDE;
	if (project)
		add(d, &joined_product, project, LINE, JOINED_MEMORY);
}

static bool describe(struct lower *l, struct ht_node *sink, struct joined *d)
{
	struct ht_node *expand = l->root[sink->id], *depthwise, *project = NULL;
	struct conv v;

	if (!expand || l->joined[sink->id] || !is_expand(l, expand) || !root_keeps_shape(l, expand))
		return false;
	depthwise = root_behind(l, sink);
	if (!depthwise || !is_depthwise(depthwise, &v))
		return false;
	if (root_keeps_shape(l, depthwise))
		project = root_behind(l, l->owner[depthwise->id]);
	if (project && !is_project(project))
		project = NULL;
	d->kernels = project ? 3 : 2;
	d->sink[0] = sink;
	d->sink[1] = l->owner[depthwise->id];
	d->sink[2] = project ? l->owner[project->id] : NULL;
	d->named = depthwise;
	d->grids = GRID;
	d->grid[IMAGE] = v.out.dim[0];
	d->grid[ROW] = v.out.dim[1];
	d->tile = l->target->rates->row_tile;
	memcpy(d->window, v.w, sizeof v.w);
	describe_buffers(l, d, depthwise, project);
	describe_stages(d, expand, depthwise, project);
	return true;
}

const struct joined_kind lower_join_block = { HT_METHOD_ROWS, describe, joined_by_traffic };
