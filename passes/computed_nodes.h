/* computed_nodes: nodes of ops of computed sizes beside those of maker.h, and what the files computed_*.c that make them
 * offer each other. */
#ifndef HT_PASSES_COMPUTED_NODES_H
#define HT_PASSES_COMPUTED_NODES_H

#include <string.h>

#include "passes/bounded.h"
#include "passes/computed.h"
#include "passes/maker.h"

#include "ir/infer.h"

/* ---- nodes ---- */

/* Whether another node may replace `at` without losing control edges: those that start at a node with one result move along. */
static inline bool is_replaceable(const struct maker *f)
{
	return f->at->graph && (f->at->outs == 1 ? !f->at->controls : ht_rw_plain(f->r, f->at));
}

/* The positions of the numbers below `count`, which is at most `most`: [count,1]. */
static inline struct ht_value counted(struct maker *f, struct ht_value count, int64_t most)
{
	enum ht_dtype t = ht_type_of(count)->dtype;

	return where(f, binary(f, HT_OP_Less, numbers(f, t, most ? most : 1), count));
}

/* 0 where `x` is 0.  Elsewhere the run stops, as `x` is not a valid index. (A list of one
 * element would be folded to a constant.) */
static inline struct ht_value only_zero(struct maker *f, struct ht_value x)
{
	return gathered(f, numbers(f, HT_I32, 2), binary(f, HT_OP_Mul, x, whole(f, HT_I32, 2)), 0);
}

/* `x`; the run stops where `a` is below `b`. */
static inline struct ht_value unless_below(
	struct maker *f, struct ht_value x, struct ht_value a, struct ht_value b)
{
	enum ht_dtype t = ht_type_of(x)->dtype;
	struct ht_value below = cast_to(f, binary(f, HT_OP_Less, a, b), HT_I32);

	return binary(f, HT_OP_AddV2, x, cast_to(f, only_zero(f, below), t));
}

/* 0; the run stops where both numbers differ. */
static inline struct ht_value check_equal(struct maker *f, struct ht_value a, struct ht_value b)
{
	struct ht_value differ = cast_to(f, binary(f, HT_OP_NotEqual, a, b), HT_I32);

	return cast_to(f, only_zero(f, differ), HT_I64);
}

/* An Assert that `n` waits for; its message consists of `text` and `data`, at most two tensors. */
static inline void expect(struct maker *f, struct ht_node *n, struct ht_value condition,
	const char *text, const struct ht_value *data, int32_t count)
{
	struct ht_value all[3] = { ht_rw_text(f->r, n, n->name, text) };
	struct ht_node *check;

	memcpy(all + 1, data, (size_t)count * sizeof *data);
	check = ht_rw_assert(f->r, n, "stated", condition, all, count + 1);
	ht_attr_set_int(check, "summarize", HT_MAX_RANK);
	ht_rw_set_controls(f->r, n, ht_controls_and(f->r->arena, n, &check, 1), n->controls + 1);
}

/* ---- extents ---- */

/* `x` padded to its largest length; elements beyond its size have no defined values. */
static inline struct ht_value padded(struct maker *f, struct ht_value x, int64_t axis)
{
	struct ht_type t = *ht_type_of(x);
	struct ht_value v = node(f, HT_OP__Padded, &x, 1, t.dtype, open_shape(f, t.shape.rank));

	ht_attr_set_int(v.node, "axis", axis);
	return v;
}

/* Where a tensor has extent `dim`: the result of the node that computes it, or an input of the graph; -1: in none of these. */
static inline int32_t axis_with(const struct maker *f, int64_t dim, struct ht_value *of)
{
	const struct ht_graph *g = f->r->g;
	int32_t size = ht_dim_size(g, dim);
	struct ht_node *by = size ? ht_size_node(g, size) : NULL;
	const struct ht_port *p = f->r->c->entry ? f->r->c->entry->inputs : NULL;

	for (int32_t k = 0; by && k < by->out[0].shape.rank; k++) {
		*of = ht_out(by, 0);
		if (by->out[0].shape.dim[k] == dim)
			return k;
	}
	for (; size && p; p = p->next) {
		struct ht_shape s = ht_type_of(p->value)->shape;

		*of = p->value;
		for (int32_t k = 0; k < s.rank; k++)
			if (s.dim[k] == dim)
				return k;
	}
	return -1;
}

/* The extent of operand `i` along an axis, as an integer.  Axes that have the same size read it from the Shape of one tensor, so that
 * lists of equal length are recognised. */
static inline struct ht_value extent(
	struct maker *f, const struct ht_node *n, int32_t i, int64_t axis)
{
	int64_t dim = ht_in_shape(n, i).dim[axis];
	struct ht_value of;
	int32_t k;

	if (dim >= 0)
		return whole(f, HT_I64, dim);
	k = axis_with(f, dim, &of);
	if (k >= 0)
		return element(f, shape_of(f, of, HT_I64), k);
	return element(f, shape_of(f, n->in[i], HT_I64), (int32_t)axis);
}

/* ---- numbers ---- */

/* Whether `v` puts scalars together as a vector, entry `i` at least; also before types are known. */
static inline bool packs_scalars(struct ht_value v, int32_t i)
{
	const struct ht_tensor *t;

	if (v.node->op != HT_OP_Pack || i >= v.node->ins)
		return false;
	t = ht_const_tensor(v.node->in[i]);
	return ht_type_of(v)->shape.rank == 1 ||
	       (ht_type_of(v)->shape.rank < 0 && t && t->shape.rank == 0);
}

/* Element i of a vector as a number of 32 bits: no extent is larger, so larger numbers mean the same, and sums of two do not overflow. */
static inline bool const_entry(struct ht_value v, int32_t i, int64_t *x)
{
	int64_t all[2 * HT_MAX_RANK];
	int count;

	if (packs_scalars(v, i)) {
		v = v.node->in[i];
		i = 0;
	}
	if (!ht_const_small_ints(v, all, 2 * HT_MAX_RANK, &count) || i >= count)
		return false;
	*x = all[i] < -INT32_MAX ? -INT32_MAX : all[i] > INT32_MAX ? INT32_MAX : all[i];
	return true;
}

static inline struct ht_value wide(struct maker *f, struct ht_value x)
{
	return cast_to(f, x, HT_I64);
}

static inline struct ht_value entry_of(struct maker *f, struct ht_value v, int32_t i)
{
	int64_t x;

	return const_entry(v, i, &x) ? whole(f, HT_I64, x) : wide(f, element(f, v, i));
}

/* Likewise an extent of a sparse tensor, which may be a number of more than 32 bits. */
static inline struct ht_value extent_entry(struct maker *f, struct ht_value v, int32_t i)
{
	int64_t all[2 * HT_MAX_RANK];
	int count;

	return ht_const_small_ints(v, all, 2 * HT_MAX_RANK, &count) && i < count
		       ? whole(f, HT_I64, all[i])
		       : wide(f, element(f, v, i));
}

/* Entry `i` of operand `arg`, a vector of `count` elements, becomes `number`. */
static inline void set_entry(
	struct maker *f, struct ht_node *n, int32_t arg, int32_t count, int32_t i, int64_t number)
{
	struct ht_value entry[HT_MAX_RANK];
	enum ht_dtype t = ht_type_of(n->in[arg])->dtype;
	int64_t x = 0, all[HT_MAX_RANK] = { 0 };
	bool known = true;

	for (int32_t k = 0; k < count; k++) {
		known = known && (k == i || const_entry(n->in[arg], k, &x));
		all[k] = k == i ? number : x;
	}
	for (int32_t k = 0; k < count && !known; k++)
		entry[k] = k == i ? whole(f, t, number) : element(f, n->in[arg], k);
	ht_rw_set_in(f->r, n, arg,
		known ? ht_rw_const_ints(f->r, n, n->name, t, all, count)
		      : packed(f, entry, count));
}

static inline struct ht_value plus(struct maker *f, struct ht_value x, int64_t by)
{
	return by ? binary(f, HT_OP_AddV2, x, whole(f, HT_I64, by)) : x;
}

/* 0, 1, … up to `count` - 1; there are at most `most` of them.  `check` is 0, or stops the run. */
static inline struct ht_value counted_up(
	struct maker *f, struct ht_value count, struct ht_value check, int64_t most)
{
	struct ht_span s;

	if (ht_span_of(f->r->g, count, &s) && s.most < most)
		most = s.most < 1 ? 1 : s.most;
	return squeezed(f, counted(f, binary(f, HT_OP_AddV2, count, check), most));
}

/* The vector `v` with axes of extent 1 behind its own, so that it is broadcast along axis `axis` of a tensor of rank `rank`. */
static inline struct ht_value along(struct maker *f, struct ht_value v, int32_t axis, int32_t rank)
{
	v.node->out[0].shape = open_shape(f, 1);
	for (int32_t i = axis + 1; i < rank; i++)
		v = with_axis(f, v, -1);
	return v;
}

/* Rounded to float32.  What a kernel of TensorFlow computes in float32 is computed in float64 and rounded so, since no policy changes these. */
static inline struct ht_value rounded(struct maker *f, struct ht_value x)
{
	return cast_to(f, cast_to(f, x, HT_F32), HT_F64);
}

static inline bool is_bounded_shape(const struct ht_graph *g, struct ht_shape s)
{
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_dim_most(g, s.dim[i]) < 0)
			return false;
	return s.rank > 0 && s.rank <= HT_OPEN_RANK;
}

/* ---- computed_groups.c ---- */

/* Groups of axes of operands that have to be equally long.  An operand has at most one axis in a group; -1: none.  A group may repeat
 * operands of size 1. */
int32_t ht_meeting_groups(const struct ht_node *n);
int32_t ht_meeting_axis(const struct ht_node *n, int32_t group, int32_t i);
bool ht_meeting_repeats(const struct ht_node *n, int32_t group);

/* ---- computed_meet.c ---- */

/* Where open sizes meet others in such a group, operands are gathered to one size, and the run stops if sizes differ; says
 * whether it changed the node. */
bool ht_expand_meeting(struct maker *f, struct ht_node *n);

/* ---- computed_crop.c ---- */

/* Boxes that are cut out of images and resized to an open or computed size; `room`: also to one that nothing bounds. */
bool ht_crops_open(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_crop(struct maker *f, struct ht_node *n, bool room);

/* ---- computed_images.c ---- */

/* The places in the source, in float64, of the places `at` along an axis that is resized from `in` to `out`, of the
 * op `f->at`: at the corners of pixels, or half a pixel behind them with half-pixel centres. */
struct ht_value ht_places_in_source(
	struct maker *f, struct ht_value at, struct ht_value in, struct ht_value out);

/* ---- computed_counts.c ---- */

/* Whether an extent is a product of several sizes, which no tensor can have that is not computed of others. */
bool ht_is_product(const struct ht_graph *g, int64_t dim);
/* Makes `count` a size of the graph; false: it has no bound, and unless `last`, another node may still tell one. */
bool ht_take_size(struct maker *f, struct ht_value count, bool last, struct ht_value *size);
/* These say whether they changed the node.  If `last`, what nothing in the graph bounds gets the default room. */
bool ht_expand_range(struct maker *f, struct ht_node *n, bool last);
/* Fill, ScatterNd and BroadcastTo: operand `shape` has the extents of the result. */
bool ht_expand_made(struct maker *f, struct ht_node *n, int32_t shape, bool last);
bool ht_expand_broadcast_to(struct maker *f, struct ht_node *n, bool room, bool last);
bool ht_expand_segments(struct maker *f, struct ht_node *n, bool last);
bool ht_expand_bins(struct maker *f, struct ht_node *n, bool last);

/* ---- computed_concat.c ---- */

/* The axis along which the node puts operands of open sizes behind each other; false: it does not. */
bool ht_open_axis_of(const struct ht_graph *g, const struct ht_node *n, int64_t *axis);
bool ht_expand_concat(struct maker *f, struct ht_node *n);
/* A _Padded tensor gets the length that it is to have (grown.c). */
bool ht_expand_room(struct maker *f, struct ht_node *n);

/* ---- computed_partition.c ---- */

/* Stitches data by computed indices; says whether it changed the node. */
bool ht_expand_stitch(struct maker *f, struct ht_node *n);

/* ---- computed_parts.c ---- */

enum { MOST_COUNT = 1 << 24 /* longer ranges would need much memory for their bound alone */ };

/* Slices, the largest elements of rows, and padding; each says whether it changed the node.  If `last`, those whose extents nothing
 * but the run tells, so that what other nodes tell is known before. */
bool ht_expand_slice(struct maker *f, struct ht_node *n, bool last);
bool ht_expand_strided_slice(struct maker *f, struct ht_node *n, bool last);
bool ht_expand_best(struct maker *f, struct ht_node *n, bool last);
bool ht_expand_extreme(struct maker *f, struct ht_node *n);
bool ht_expand_pad(struct maker *f, struct ht_node *n, bool last);
/* Gradients of strided slices of open extents; the first function says whether the node is one. */
bool ht_slices_back(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_slice_gradient(struct maker *f, struct ht_node *n);
/* computed_shapes.c: an axis of operand `arg` whose extent is a product becomes one of a size that the run computes, so that the elements
 * that exist are the first ones along it also where tensors have their largest extents.  False: it is none. */
bool ht_flatten(struct maker *f, struct ht_node *n, int32_t arg, int64_t axis);
/* Likewise the axis `axis` of each of the first `args` operands. */
bool ht_flatten_operands(struct maker *f, struct ht_node *n, int32_t args, int64_t axis);
/* Likewise repeated axes, one-hot vectors, reshapes, and extents that have to be a number. */
bool ht_expand_one_hot(struct maker *f, struct ht_node *n);
/* One-hot vectors of indices of an open shape whose classes are no last axis become such vectors along the last axis, transposed. */
bool ht_puts_classes_inside(const struct ht_graph *g, const struct ht_node *n);
bool ht_put_classes_last(struct maker *f, struct ht_node *n);
bool ht_expand_roll(struct maker *f, struct ht_node *n);
bool ht_expand_tile(struct maker *f, struct ht_node *n, bool last);
bool ht_expand_broadcast(struct maker *f, struct ht_node *n);
bool ht_expand_reshape(struct maker *f, struct ht_node *n, bool last);
bool ht_expand_ensured(struct maker *f, struct ht_node *n);
/* Extents of a tensor as numbers. */
struct extents {
	struct ht_value size[HT_MAX_RANK];
	int32_t rank;
	struct ht_value check; /* 0; the run stops where the number of elements is another one */
};
struct ht_value ht_product_of(struct maker *f, const struct ht_value *x, int32_t n);
/* The numbers of values of a sparse tensor among all its elements.  The run stops where that are more than a number of 64 bits tells. */
struct ht_value ht_numbers_of(
	struct maker *f, struct ht_value indices, const struct ht_value *size, int32_t rank);
/* Reads a shape of to->rank extents, one of which may be -1, of as many elements as `from` has. */
void ht_read_extents(
	struct maker *f, struct ht_value shape, const struct extents *from, struct extents *to);
/* The places of elements by their numbers in a tensor of these extents: the last axis has an index for each axis. */
struct ht_value ht_places_of(
	struct maker *f, struct ht_value number, const struct ht_value *size, int32_t rank);

/* 0, 1, … up to `count` - 1; there are at most `most` of them, which is -1 if it is not known.  What the graph does not bound gets room
 * for as many as something else of the graph may have; more stop the run. */
struct ht_value ht_bounded_range(struct maker *f, struct ht_value count, int64_t most);

/* computed_sparse.c: ops on sparse tensors; says whether it changed the node. */
bool ht_expand_sparse(struct maker *f, struct ht_node *n);
bool ht_is_sparse_open(const struct ht_graph *g, const struct ht_node *n);

/* computed_sparse_sums.c, computed_sparse_parts.c: likewise. */
bool ht_expand_sparse_sums(struct maker *f, struct ht_node *n);
bool ht_expand_sparse_parts(struct maker *f, struct ht_node *n);
/* Which elements of a vector of integers come first: those with the least numbers; equal ones stay in their order. */
struct ht_value ht_order_of(struct maker *f, struct ht_value number);
/* computed_sets.c: whether the node is an operation on sets whose operands have bounds; ht_expand_sets() changes it. */
bool ht_is_sets(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_sets(struct maker *f, struct ht_node *n);
/* computed_sequences.c: likewise decoders of sequences, and distances between them. */
bool ht_is_sequences(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_sequences(struct maker *f, struct ht_node *n);
/* computed_diag.c: diagonals of open sizes. */
bool ht_is_open_diagonal(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_diagonal(struct maker *f, struct ht_node *n);
/* computed_broadcasts.c: the gradient of a broadcast whose shapes only the run tells, a Sum or a Reshape behind it. */
bool ht_sums_to_shape(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_sum_to_shape(struct maker *f, struct ht_node *n);
/* computed_bands.c: other diagonals than the main one, and bands. */
bool ht_is_open_band(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_band(struct maker *f, struct ht_node *n);
bool ht_has_bounds(const struct ht_graph *g, const struct ht_node *n);

/* computed_numbers.c: LinSpace of a computed number, and Range of numbers with a fraction, of which one of integers becomes a part. */
bool ht_expand_lin_space(struct maker *f, struct ht_node *n);
bool ht_expand_real_range(struct maker *f, struct ht_node *n);

/* computed_ragged.c: ops on ragged tensors; says whether it changed the node. */
bool ht_expand_ragged(struct maker *f, struct ht_node *n);
/* How often each number of vector `number` occurs, in each row; with the weights that operand `weights` has. */
struct counted_rows {
	struct ht_value number, size;
	struct ht_value row, rows; /* the row of each number; row.node is NULL: there are none */
	int32_t weights;
};
struct ht_value ht_counts_in_rows(
	struct maker *f, const struct ht_node *n, const struct counted_rows *x);

/* computed_moves.c: ops that move elements; says whether it changed the node, and whether it may. */
bool ht_expand_moves(struct maker *f, struct ht_node *n);
/* A Reshape of a Transpose whose order the run chooses; likewise. */
bool ht_expand_chosen_order(struct maker *f, struct ht_node *n);
bool ht_moves_open(const struct ht_graph *g, const struct ht_node *n);
/* computed_parts.c: all of an axis in reversed order. */
struct ht_value ht_reversed(struct maker *f, struct ht_value x, int64_t axis);

/* computed_repeat.c: rows that are repeated by a mask are gathered. */
void ht_expand_repeat(struct maker *f, struct ht_node *n);

/* computed.c: room for what nothing in the graph bounds: 1024 elements, or as many as another size may have. */
int64_t ht_default_room(const struct ht_graph *g);

/* Whether one of these may change the node; only for the second and third one types have to be known. */
bool ht_may_take_part(const struct ht_graph *g, const struct ht_node *n);
bool ht_takes_open_part(const struct ht_graph *g, const struct ht_node *n);
bool ht_reshapes_open(const struct ht_graph *g, const struct ht_node *n);

/* Whether operands behind the first one are not constants yet, but all will be when the shapes in the graph are numbers. */
bool ht_waits_for_shapes(const struct ht_graph *g, const struct ht_node *n);
/* Whether the operand may depend on data.  In a graph without open sizes, what follows from shapes alone does not: every shape becomes a
 * number, those in loops when lists have become tensors. */
bool ht_may_be_data(const struct ht_graph *g, const struct ht_node *n, int32_t operand);

/* ---- computed_images.c ---- */

/* Images and sequences that are resized, mirrored, and filtered with holes; says whether it changed the node. */
bool ht_expand_image(struct maker *f, struct ht_node *n);
/* Whether it may; types must be known. */
bool ht_is_open_image(const struct ht_graph *g, const struct ht_node *n);

/* ---- computed_windows.c ---- */

/* Windows and transposed convolutions, as far as the run computes how many results there are; says whether it changed the node. */
bool ht_expand_windows(struct maker *f, struct ht_node *n);
/* Whether it may; types must be known. */
bool ht_slides_open(const struct ht_graph *g, const struct ht_node *n);
/* computed_ranks.c: whether the node asks for the rank of a class among open ones, and the ops that tell it. */
bool ht_ranks_open(const struct ht_graph *g, const struct ht_node *n);
bool ht_expand_ranks(struct maker *f, struct ht_node *n);

/* ---- computed_blocks.c ---- */

/* Blocks of pixels that become channels or rows; likewise. */
bool ht_expand_blocks(struct maker *f, struct ht_node *n);
bool ht_has_open_blocks(const struct ht_graph *g, const struct ht_node *n);

/* ---- computed_tiles.c ---- */

/* Gradients of Tile; likewise. */
bool ht_expand_tile_gradient(struct maker *f, struct ht_node *n);
bool ht_is_tile_gradient(const struct ht_graph *g, const struct ht_node *n);

/* ---- computed_training.c ---- */

/* Batch normalisation of training, losses of as many classes as a size says, gradients of mirrored borders; likewise. */
bool ht_expand_training(struct maker *f, struct ht_node *n);
bool ht_is_open_training(const struct ht_graph *g, const struct ht_node *n);

/* ---- computed_random.c ---- */

/* Random numbers; likewise. */
bool ht_expand_random(struct maker *f, struct ht_node *n);
bool ht_draws_open(const struct ht_graph *g, const struct ht_node *n);

/* ---- computed_whole.c ---- */

/* A concatenation or a padding whose result has a constant extent, though operands have computed ones, becomes a gather; says whether it
 * changed the node. */
bool ht_fill_up(struct maker *f, struct ht_node *n);

#endif
