/* Which squeeze and excitation is computed with the convolution behind it (excite_emit.c).
 *
 * The scaled image is then a block of pixels that stays in the second level.  That pays where a whole
 * one would not, and no image of the models that it was measured with is so large. */
#include "lower/excite.h"
#include "lower/block.h"

enum {
	BLOCK_BYTES = 131072,
	LEAST_ROWS = 64,  /* of a block: each reads all weights */
	REGISTER_ROWS = 8 /* fewer would be summed in another order than in a kernel of their own */
};

/* ---- what can be one kernel ---- */

static bool is_map(struct lower *l, const struct ht_node *n)
{
	return !l->root[n->id] && n->outs == 1 && lower_op_of(n)->family == FAMILY_MAP;
}

static bool is_of_one_pixel(struct lower *l, const struct ht_node *n, struct conv *v)
{
	return conv_is_project(n, v) && ht_shape_count(v->out) == v->out.dim[3] &&
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

/* The sink of the kernel whose result a node of `map`, up to `n`, takes by channel; or NULL. */
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

static bool find_gates(struct lower *l, struct excite *e)
{
	struct ht_node *sink, *before;

	l->walk++;
	sink = find_gate(l, e->map, e->map);
	if (!sink || !is_of_one_pixel(l, l->root[sink->id], &e->of_gate[1]))
		return false;
	e->gate[1] = l->root[sink->id];
	before = l->owner[e->gate[1]->in[0].node->id];
	if (!before || !l->root[before->id] || root_behind(l, before) != e->gate[1])
		return false;
	e->gate[0] = l->root[before->id];
	return is_of_one_pixel(l, e->gate[0], &e->of_gate[0]);
}

/* ---- when it pays ---- */

/* Equal blocks, of whole register tiles. */
static int64_t pixels_of_block(int64_t pixels, int64_t row_bytes)
{
	int64_t step = BLOCK_BYTES / row_bytes;

	step = step < LEAST_ROWS ? LEAST_ROWS : step;
	step = ht_ceil_div(pixels, ht_ceil_div(pixels, step));
	return ht_ceil_div(step, REGISTER_ROWS) * REGISTER_ROWS;
}

static struct ht_method_choice faster(struct lower *l, const struct excite *e)
{
	double blocks = (double)ht_ceil_div(e->v.out.dim[1] * e->v.out.dim[2], e->step);
	double costs = blocks * block_reads(l, block_weights(e->project)) +
		       block_reads(l, block_weights(e->gate[0]) + block_weights(e->gate[1]));

	return block_choice(HT_METHOD_SQUEEZE_EXCITE, block_trip(l, block_bytes(l, e->map)), costs);
}

/* ---- the graph's squeezes and excitations ---- */

void try_excite(struct lower *l, struct ht_node *map)
{
	struct excite e = { .map = map };
	struct ht_node *last, *sinks[4];

	if (!is_map(l, map))
		return;
	e.project = root_behind(l, map);
	if (!e.project || !conv_is_project(e.project, &e.v) || e.v.out.dim[0] != 1 ||
		e.v.out.dim[1] * e.v.out.dim[2] < REGISTER_ROWS || !find_gates(l, &e))
		return;
	last = l->owner[e.project->id];
	e.step = pixels_of_block(e.v.out.dim[1] * e.v.out.dim[2],
		e.v.in.dim[3] * (int64_t)ht_dtype_info(map->out[0].dtype)->bytes);
	for (int i = 0; i < 2; i++)
		sinks[i] = l->owner[e.gate[i]->id];
	sinks[2] = map;
	sinks[3] = last;
	/* a convolution that expands a block is of that */
	if (l->place[last->id] == PLACE_MEMORY && !l->joined[last->id].emit &&
		lower_may_join(l, sinks, 4) && plan_block(l, e.project, faster(l, &e)))
		lower_join(l, sinks, 4, emit_excite, &e, sizeof e);
}
