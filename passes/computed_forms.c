/* Writes ops whose sizes depend on data by Where, whose size the run computes, and by ops that
 * have rules for it (bounded.c).  Each of the files computed_*.c does so for ops of one kind.  This file says which function writes which op, and
 * when: some nodes have to wait, as the extents of their operands are known only when others are. */
#include "ir/infer.h"
#include "passes/computed_nodes.h"

static bool reverses_product(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = n->op == HT_OP_ReverseV2 ? n->out[0].shape : HT_SHAPE_SCALAR;

	for (int32_t i = 0; i < s.rank; i++)
		if (ht_is_product(g, s.dim[i]))
			return true;
	return false;
}

/* How many first axes of operand 0 such an op takes by index; 0 for other ops. */
static int64_t indexed_axes(const struct ht_node *n)
{
	struct ht_shape at;

	if (ht_axes(n) != HT_AXES_GATHERED_ND && ht_axes(n) != HT_AXES_SCATTERED_INTO)
		return 0;
	at = ht_in_shape(n, 1);
	return at.rank < 1 || at.dim[at.rank - 1] > ht_in_shape(n, 0).rank ? 0
									   : at.dim[at.rank - 1];
}

static bool indexes_product(const struct ht_graph *g, const struct ht_node *n)
{
	int64_t axes = indexed_axes(n);

	for (int64_t i = 0; i < axes; i++)
		if (ht_is_product(g, ht_in_shape(n, 0).dim[i]))
			return true;
	return false;
}

/* Whether Equal or NotEqual compares tensors of an open size, and gives a single truth value where their shapes differ. */
static bool compares_open(const struct ht_graph *g, const struct ht_node *n)
{
	if (n->ins != 2 || n->outs != 1 || n->out[0].shape.rank >= 0 ||
		ht_attr_bool(n, "incompatible_shape_error", true))
		return false;
	return ht_in_shape(n, 0).rank >= 0 && ht_in_shape(n, 1).rank >= 0 &&
	       (ht_shape_is_open(g, ht_in_shape(n, 0)) || ht_shape_is_open(g, ht_in_shape(n, 1)));
}

/* The run stops where the shapes differ. */
static bool expect_equal_shapes(struct maker *f, struct ht_node *n)
{
	if (!compares_open(f->r->g, n))
		return false;
	ht_attr_set_bool(n, "incompatible_shape_error", true);
	return true;
}

bool ht_cuts_open(const struct ht_graph *g, const struct ht_node *n)
{
	int64_t axis;

	return (n->op == HT_OP_ConcatV2 && ht_open_axis_of(g, n, &axis)) ||
	       ht_may_take_part(g, n) || ht_takes_open_part(g, n) || ht_reshapes_open(g, n) ||
	       ht_is_sparse_open(g, n) || ht_moves_open(g, n) || ht_is_open_image(g, n) ||
	       ht_is_open_diagonal(g, n) || ht_slides_open(g, n) || ht_ranks_open(g, n) ||
	       ht_has_open_blocks(g, n) || ht_draws_open(g, n) || reverses_product(g, n) ||
	       indexes_product(g, n) || compares_open(g, n) || ht_puts_classes_inside(g, n) ||
	       ht_is_open_training(g, n) || ht_is_tile_gradient(g, n) || ht_sums_to_shape(g, n) ||
	       (n->op == HT_OP_StridedSliceGrad && ht_slices_back(g, n));
}

/* Whether a node tells the shape of a tensor whose rank is not known, and so may prove to be constant. */
static bool tells_unknown_rank(const struct ht_node *n)
{
	return ht_is(n, HT_TELLS_SHAPE) && n->ins && ht_in_shape(n, 0).rank < 0;
}

/* Whether a value follows from a loop, from a list, from a rank that is not known, or if `branches` is true from a branch.  Looks at no more
 * than *left nodes that the value depends on, and subtracts those that it looked at; *left is below 0 if there are more. */
static bool follows_control(struct ht_value v, bool branches, int *left)
{
	enum ht_dtype t = ht_type_of(v)->dtype;
	bool calls = ht_op_info(v.node->op)->effects & HT_CALLS;

	if (ht_is(v.node, HT_VARIABLE))
		return false;
	if ((calls && (branches || !ht_is(v.node, HT_BRANCHES))) || t == HT_VARIANT ||
		t == HT_RESOURCE || tells_unknown_rank(v.node))
		return true;
	if (--*left < 0)
		return false;
	for (int32_t i = 0; i < v.node->ins; i++)
		if (follows_control(v.node->in[i], branches, left))
			return true;
	return false;
}

bool ht_may_follow_control(const struct ht_node *n, int32_t first)
{
	int left = 200; /* nodes to look at */

	for (int32_t i = first; i < n->ins; i++)
		if (follows_control(n->in[i], true, &left) || left < 0)
			return true;
	return false;
}

/* Whether to write a node by extents that only the run tells. */
static bool is_last(const struct maker *f, const struct ht_node *n, enum ht_expansion what)
{
	if (ht_waits_for_shapes(f->r->g, n))
		return false;
	return what == HT_EXPAND_ALL ||
	       (what == HT_EXPAND_COMPUTED && !ht_may_follow_control(n, 1));
}

/* Whether a length that nothing bounds gets the default room: not if it follows from a loop or a list, which may still tell it. */
static bool gets_room(const struct maker *f, const struct ht_node *n, enum ht_expansion what)
{
	int left = 2000; /* nodes to look at */

	for (int32_t i = 0; i < n->ins; i++)
		if (follows_control(n->in[i], false, &left))
			return false;
	return is_last(f, n, what);
}

/* Ops that number boxes, or slices of which they find the distinct ones: the numbers have to be those of the run, so an axis whose extent is
 * a product of sizes becomes one of a single size. */
static bool flatten_listed(struct maker *f, struct ht_node *n)
{
	int64_t axis = 0;
	int one;

	if (ht_axes(n) == HT_AXES_SUPPRESSED)
		return ht_in_shape(n, 0).rank == 2 && ht_flatten_operands(f, n, 2, 0);
	if (n->ins > 1 && !ht_const_small_ints(n->in[1], &axis, 1, &one))
		return false;
	return ht_fix_axis(&axis, ht_in_shape(n, 0).rank) && ht_flatten(f, n, 0, axis);
}

/* Indices are places in the run's tensor. */
static bool flatten_indexed(struct maker *f, struct ht_node *n)
{
	int64_t axes = indexed_axes(n);

	for (int64_t i = 0; i < axes; i++)
		if (ht_flatten(f, n, 0, i))
			return true;
	return false;
}

static bool reverse_flat(struct maker *f, struct ht_node *n)
{
	int64_t axis;
	int one;

	return n->op == HT_OP_ReverseV2 && ht_const_small_ints(n->in[1], &axis, 1, &one) &&
	       one == 1 && ht_fix_axis(&axis, ht_in_shape(n, 0).rank) && ht_flatten(f, n, 0, axis);
}

/* The first axis of an output whose extent is a product of several sizes; -1: there is none. */
static int32_t joined_axis(const struct ht_graph *g, const struct ht_port *output)
{
	struct ht_shape s = ht_type_of(output->value)->shape;

	for (int32_t i = 0; i < s.rank; i++)
		if (ht_is_product(g, s.dim[i]))
			return i;
	return -1;
}

bool ht_joins_outputs(const struct ht_graph *g, const struct ht_entry *e)
{
	for (const struct ht_port *p = e ? e->outputs : NULL; p; p = p->next)
		if (joined_axis(g, p) >= 0)
			return true;
	return false;
}

/* Arrays of outputs have one size for each axis. */
static bool flatten_outputs(struct maker *f)
{
	bool changed = false;

	for (struct ht_port *p = f->r->c->entry->outputs; p; p = p->next) {
		int32_t axis = joined_axis(f->r->g, p);
		struct ht_node *n;

		if (axis < 0)
			continue;
		n = p->value.node;
		p->value = ht_rw_unary(f->r, n, HT_OP_Identity, n->name, p->value);
		ht_node_move(p->value.node, n->next);
		make_at(f, p->value.node);
		ht_flatten(f, f->at, 0, axis);
		f->at->out[0].shape = open_shape(f, f->at->out[0].shape.rank);
		changed = true;
	}
	return changed;
}

static bool expand(struct maker *f, struct ht_node *n, enum ht_expansion what)
{
	if (reverse_flat(f, n) || flatten_indexed(f, n) || expect_equal_shapes(f, n) ||
		ht_expand_sparse(f, n) || ht_expand_ragged(f, n) || ht_expand_moves(f, n) ||
		ht_expand_diagonal(f, n) || ht_expand_tile_gradient(f, n))
		return true;
	switch (n->op) {
	case HT_OP_Range:
		return ht_expand_real_range(f, n) || ht_expand_range(f, n, gets_room(f, n, what));
	case HT_OP_Bincount:
	case HT_OP_DenseBincount:
		return ht_expand_bins(f, n, gets_room(f, n, what)) || ht_expand_meeting(f, n);
	case HT_OP_InTopK:
	case HT_OP_InTopKV2:
		return ht_expand_meeting(f, n) || ht_expand_ranks(f, n);
	case HT_OP_LinSpace:
		return gets_room(f, n, what) && ht_expand_lin_space(f, n);
	case HT_OP_Fill:
		return ht_expand_made(f, n, 0, gets_room(f, n, what));
	case HT_OP_ScatterNd:
		return ht_expand_made(f, n, 2, gets_room(f, n, what)) || ht_expand_meeting(f, n);
	case HT_OP_BroadcastTo:
		return ht_expand_broadcast_to(f, n, gets_room(f, n, what), is_last(f, n, what));
	case HT_OP_ConcatV2:
		return ht_expand_meeting(f, n) || ht_expand_concat(f, n);
	case HT_OP_Slice:
		return ht_expand_slice(f, n, is_last(f, n, what));
	case HT_OP_StridedSlice:
		return ht_expand_strided_slice(f, n, is_last(f, n, what));
	case HT_OP_StridedSliceGrad:
		return is_last(f, n, what) && ht_expand_slice_gradient(f, n);
	case HT_OP_TopK:
	case HT_OP_TopKV2:
		return ht_expand_best(f, n, is_last(f, n, what));
	case HT_OP_Pad:
	case HT_OP_PadV2:
		return ht_expand_pad(f, n, is_last(f, n, what));
	case HT_OP_Tile:
		return ht_expand_tile(f, n, gets_room(f, n, what));
	case HT_OP_Roll:
		return ht_expand_roll(f, n);
	case HT_OP_Reshape:
		return (is_last(f, n, what) &&
			       (ht_expand_sum_to_shape(f, n) || ht_expand_chosen_order(f, n))) ||
		       ht_expand_reshape(f, n, is_last(f, n, what));
	case HT_OP_Sum:
		return is_last(f, n, what) && ht_expand_sum_to_shape(f, n);
	case HT_OP_EnsureShape:
	case HT_OP_Squeeze:
		return ht_expand_ensured(f, n);
	case HT_OP_CropAndResize:
		return ht_expand_meeting(f, n) || ht_expand_crop(f, n, gets_room(f, n, what));
	case HT_OP_OneHot:
		return ht_put_classes_last(f, n) ||
		       (is_last(f, n, what) && ht_expand_one_hot(f, n));
	case HT_OP__Padded:
		return ht_expand_room(f, n);
	default:
		if (ht_axes(n) == HT_AXES_SUPPRESSED || ht_axes(n) == HT_AXES_DISTINCT)
			return ht_expand_meeting(f, n) || flatten_listed(f, n);
		if (ht_is(n, HT_FINDS))
			return ht_expand_extreme(f, n);
		if (ht_expand_image(f, n) || ht_expand_training(f, n) ||
			(what != HT_EXPAND_KNOWN &&
				(ht_expand_windows(f, n) || ht_expand_blocks(f, n) ||
					ht_expand_random(f, n))))
			return true;
		return (ht_axes(n) == HT_AXES_SEGMENTED
				       ? ht_expand_segments(f, n, gets_room(f, n, what))
				       : ht_expand_stitch(f, n)) ||
		       ht_expand_meeting(f, n);
	}
}

/* A node with control edges.  Where sizes meet, it stays, and with it its control edges. */
static bool expand_controlled(struct maker *f, struct ht_node *n, enum ht_expansion what)
{
	struct ht_aside aside;

	if (ht_expand_meeting(f, n))
		return true;
	if (!n->graph || !ht_rw_step_aside(f->r, n, &aside))
		return false;
	if (expand(f, n, what))
		return true;
	ht_rw_step_back(f->r, &aside);
	return false;
}

bool ht_expand_computed(struct ht_graph *g, struct ht_pass_context *c, enum ht_expansion what)
{
	struct ht_rw r;
	struct maker f = { .r = &r };
	struct ht_rw_within within;
	struct ht_node **all;
	bool changed = false;
	size_t n;

	ht_rw_init_within(&r, &within, g, c);
	all = ht_rw_nodes(&r, &n);
	for (size_t i = 0; i < n; i++) {
		make_at(&f, all[i]);
		if (!f.at->graph)
			continue;
		if (is_replaceable(&f) ? expand(&f, f.at, what) : expand_controlled(&f, f.at, what))
			changed = true;
	}
	if (!g->function && !changed && what == HT_EXPAND_ALL)
		changed = flatten_outputs(&f);
	return changed;
}
