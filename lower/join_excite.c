/* Squeeze and excitation, from the mean on, with the 1 x 1 convolution behind it, as one kernel:
 * two convolutions of one pixel make a gate for each channel, elementwise nodes scale an image
 * by the gate, and a convolution reads the scaled image.
 *
 * A tile is a block of pixels.  The scaled rows of all its channels are a local buffer that
 * stays in the second level, which is faster if a whole image would not stay there. (In the
 * models measured so far, every whole image would.) Every thread computes the gate for itself. */
#include "lower/joined.h"

enum { FIRST_GATE, GATE, SCALED };

enum {
	BLOCK_BYTES = 131072,
	LEAST_ROWS = 64, /* pixels of a block: each block reads all weights */
	REGISTER_ROWS =
		8, /* fewer rows would be summed in another order than in separate kernels */
	PIXELS_SIDE_BY_SIDE = 4
};

/* ---- what can be one kernel ---- */

static bool is_map(struct lower *l, const struct ht_node *n)
{
	return !l->root[n->id] && n->outs == 1 && lower_op_of(n)->family == FAMILY_MAP;
}

static bool is_of_one_pixel(struct lower *l, const struct ht_node *n)
{
	struct conv v;

	return conv_is_project(n, &v) && ht_shape_count(v.out) == v.out.dim[3] &&
	       root_keeps_shape(l, n);
}

/* Whether `n` takes operand `arg` along its last dimension, the same for all pixels. */
static bool takes_by_channel(const struct ht_node *n, int arg)
{
	struct ht_shape s = ht_type_of(n->in[arg])->shape, out = n->out[0].shape;

	return lower_is_aligned(n) && s.rank > 0 && out.rank > 0 &&
	       s.dim[s.rank - 1] == out.dim[out.rank - 1] && ht_shape_count(s) == s.dim[s.rank - 1];
}

static bool is_gate(struct lower *l, const struct ht_node *n, int arg)
{
	const struct ht_node *from = n->in[arg].node;

	return l->owner[from->id] == from && l->root[from->id] && takes_by_channel(n, arg) &&
	       ht_use_count(&l->uses, n->in[arg]) == 1 && !l->uses.is_output[from->id];
}

/* The sink of the kernel whose result a node of `map`, up to `n`, reads by channel; or NULL. */
static struct ht_node *find_gate(struct lower *l, const struct ht_node *map, struct ht_node *n)
{
	struct ht_node *found = NULL;

	l->walked[n->id] = l->walk;
	for (int32_t i = 0; i < n->ins && !found; i++) {
		struct ht_node *from = n->in[i].node;

		if (is_gate(l, n, i))
			found = from;
		else if (l->owner[from->id] == map && l->walked[from->id] != l->walk)
			found = find_gate(l, map, from);
	}
	return found;
}

/* The roots of the two convolutions that make the gate. */
static bool find_gates(struct lower *l, struct ht_node *map, struct ht_node *gate[2])
{
	struct ht_node *sink, *before;

	l->walk++;
	sink = find_gate(l, map, map);
	if (!sink || !is_of_one_pixel(l, l->root[sink->id]))
		return false;
	gate[1] = l->root[sink->id];
	before = l->owner[gate[1]->in[0].node->id];
	if (!before || !l->root[before->id] || root_behind(l, before) != gate[1])
		return false;
	gate[0] = l->root[before->id];
	return is_of_one_pixel(l, gate[0]);
}

/* ---- the kernel ---- */

/* Equal blocks, of whole register tiles. */
static int64_t pixels_of_block(int64_t pixels, int64_t row_bytes)
{
	int64_t step = BLOCK_BYTES / row_bytes;

	step = step < LEAST_ROWS ? LEAST_ROWS : step;
	step = ht_ceil_div(pixels, ht_ceil_div(pixels, step));
	return ht_ceil_div(step, REGISTER_ROWS) * REGISTER_ROWS;
}

/* A stage over channels and the block's pixels, or one pixel. */
static struct joined_stage *add(struct joined *d, const struct joined_loop *loop,
	struct ht_node *root, int32_t from, int32_t to)
{
	struct joined_stage *s = joined_add(d, loop, root, from, to);
	struct ht_shape shape = root->out[0].shape;
	struct joined_dim *pixels = joined_over(s, 0, 2, shape.dim[1] * shape.dim[2]);

	if (pixels->extent > 1)
		joined_share(pixels, 0, d->buffer[SCALED].extent[0]);
	joined_over(s, 3, 3, shape.dim[3]);
	return s;
}

static void describe_stages(struct lower *l, struct joined *d, struct ht_node *const gate[2],
	struct ht_node *map, struct ht_node *project)
{
	struct ht_type image = map->out[0];
	int64_t channels = image.shape.dim[3], pixels = image.shape.dim[1] * image.shape.dim[2];
	int64_t step =
		pixels_of_block(pixels, channels * (int64_t)ht_dtype_info(image.dtype)->bytes);

	d->grids = 1;
	d->grid[0] = ht_ceil_div(pixels, step);
	for (int i = 0; i < 2; i++)
		d->buffer[i] = (struct joined_buffer){ d->sink[i]->out[0].dtype,
			{ 0, gate[i]->out[0].shape.dim[3] }, false };
	d->buffer[SCALED] =
		(struct joined_buffer){ local_type(l, image.dtype), { step, channels }, false };
	d->argument = gate[0];
	add(d, &joined_product, gate[0], JOINED_MEMORY, FIRST_GATE)->starts = true;
	add(d, &joined_product, gate[1], FIRST_GATE, GATE)->starts = true;
	add(d, &joined_map, map, GATE, SCALED)->dim[0].unroll = PIXELS_SIDE_BY_SIDE;
	add(d, &joined_product, project, SCALED, JOINED_MEMORY);
}

static bool describe(struct lower *l, struct ht_node *map, struct joined *d)
{
	struct ht_node *project, *gate[2];
	struct conv v;

	if (!is_map(l, map))
		return false;
	project = root_behind(l, map);
	if (!project || !conv_is_project(project, &v) || v.out.dim[0] != 1 ||
		v.out.dim[1] * v.out.dim[2] < REGISTER_ROWS || !find_gates(l, map, gate))
		return false;
	d->kernels = 4;
	d->sink[0] = l->owner[gate[0]->id];
	d->sink[1] = l->owner[gate[1]->id];
	d->sink[2] = map;
	d->sink[3] = l->owner[project->id];
	d->named = project;
	describe_stages(l, d, gate, map, project);
	return true;
}

const struct joined_kind lower_join_excite = { HT_METHOD_SQUEEZE_EXCITE, describe,
	joined_by_traffic };
