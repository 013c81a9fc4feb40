/* Finds the elements of each tensor that are outside of the sizes of a run, in programs with open sizes within bounds.
 *
 * Every tensor has the extents of the largest sizes.  An element is outside if it is computed from an element of an input whose index
 * the run does not have.  Kernels need not compute or store it, because no element inside depends on it: passes/bounded.c inserts
 * _Within, which replaces elements outside of an axis by the neutral element of the reduction that follows.  These neutral
 * elements are stored unless all readers end before them (skipped.c).
 *
 * If there is no rule for an op here, all elements of its result are computed, which costs time, and which _AllFinite (all_finite.c)
 * must not be told of: it would read elements that are computed from arbitrary memory.  So ops that move elements have rules. */
#include "lower/index.h"
#include "lower/product.h"

#include <string.h>

/* Sums of products read whole groups of so many elements, so kernels store neutral elements up
 * to a multiple of this number. */
enum { WHOLE = HT_CUT_ROUND };

static int64_t most_of(const struct lower *l, const struct open_part *p)
{
	return l->g->size[p->size - 1].most;
}

const struct open_parts *lower_outside(const struct lower *l, struct ht_value v)
{
	const struct open_parts *all = l->outside ? l->outside[v.node->id] : NULL;

	return all && all[v.index].n ? &all[v.index] : NULL;
}

static struct open_parts *parts_of(struct lower *l, const struct ht_node *n)
{
	return l->outside[n->id] = HT_NEW_ARRAY(l->scratch, struct open_parts, (size_t)n->outs);
}

static void add(struct open_parts *to, struct open_part p)
{
	for (int32_t i = 0; i < to->n; i++)
		if (to->part[i].size == p.size && to->part[i].stride == p.stride)
			return;
	if (to->n < OPEN_PARTS)
		to->part[to->n++] = p;
}

/* The elements outside of open axis `a`, which is axis `i` of a tensor of shape `s`. */
static struct open_part outside_of(const struct ht_open_axis *a, struct ht_shape s, int32_t i)
{
	return (struct open_part){ .size = a->size, .stride = ht_shape_stride(s, i) * a->inner };
}

/* The axis of a tensor of shape `s` whose index alone decides which elements are in part `p`;
 * -1: there is none. */
static int32_t axis_of_part(const struct lower *l, const struct open_part *p, struct ht_shape s)
{
	for (int32_t i = 0; i < s.rank; i++) {
		int64_t stride = ht_shape_stride(s, i);

		if (s.dim[i] > 1 && stride > 0 && stride <= p->stride && p->stride % stride == 0 &&
			p->stride * most_of(l, p) <= stride * s.dim[i])
			return i;
	}
	return -1;
}

bool lower_ends_with_run(const struct lower *l, struct ht_value v, int32_t axis)
{
	const struct open_parts *all = lower_outside(l, v);

	for (int32_t i = 0; all && i < all->n; i++)
		if (axis_of_part(l, &all->part[i], ht_type_of(v)->shape) == axis)
			return true;
	return false;
}

/* Axis `to` of a result of shape `s` is axis `from` of operand `arg`: elements that are outside along
 * the one are outside along the other. */
static void move_axis_to(const struct lower *l, const struct ht_node *n, int arg, int32_t from,
	struct ht_shape s, int32_t to, struct open_parts *out)
{
	const struct open_parts *all = lower_outside(l, n->in[arg]);
	struct ht_shape in = shape_of(n, arg);

	for (int32_t i = 0; all && i < all->n; i++) {
		struct open_part p = all->part[i];

		if (p.neutral || axis_of_part(l, &p, in) != from || in.dim[from] != s.dim[to])
			continue;
		p.stride = p.stride / ht_shape_stride(in, from) * ht_shape_stride(s, to);
		add(out, p);
	}
}

static void move_axis(const struct lower *l, const struct ht_node *n, int arg, int32_t from,
	int32_t to, struct open_parts *out)
{
	move_axis_to(l, n, arg, from, n->out[0].shape, to, out);
}

/* ---- rules ---- */

/* Fills `out`, which has an element for each result of the node. */
typedef void rule(const struct lower *l, const struct ht_node *n, struct open_parts *out);

static void of_operand(
	const struct lower *l, const struct ht_node *n, bool neutral, struct open_parts *out)
{
	const struct open_parts *all = lower_outside(l, n->in[0]);

	for (int32_t i = 0; all && i < all->n; i++)
		if (neutral || !all->part[i].neutral)
			add(out, all->part[i]);
}

/* The result has the elements of the operand, in the same order. */
static void same_elements(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	of_operand(l, n, true, out);
}

static void cast(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	of_operand(l, n, ht_is_float(ht_type_of(n->in[0])->dtype) && ht_is_float(n->out[0].dtype),
		out);
}

static void within(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t size = (int32_t)ht_attr_int(n, "size", 0);
	int64_t stride = ht_shape_stride(n->out[0].shape, (int32_t)ht_attr_int(n, "axis", 0)) *
			 ht_attr_int(n, "inner", 1);

	of_operand(l, n, true, out);
	for (int32_t i = 0; i < out->n; i++) {
		if (out->part[i].size != size || out->part[i].stride != stride)
			continue;
		out->part[i].neutral = true;
		if (ht_attr_bool(n, "whole", false)) /* its user reads all of its elements */
			out->part[i--] = out->part[--out->n];
	}
}

static void aligned(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t rank = n->out[0].shape.rank;

	for (int32_t i = 0; i < n->ins; i++) {
		int32_t own = shape_of(n, i).rank;

		for (int32_t k = 0; k < own; k++)
			move_axis(l, n, i, k, rank - own + k, out);
	}
}

/* An element of the result is outside if that element of the first operand is. */
static void of_first(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	of_operand(l, n, false, out);
}

/* Softmax turns the least number, which is neutral for its maximum, into zero, which is neutral
 * for a sum.  So elements that are neutral along its axis stay neutral for a sum that follows. */
static void softmax(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	struct ht_shape s = n->out[0].shape;
	const struct open_parts *all = lower_outside(l, n->in[0]);

	for (int32_t i = 0; all && i < all->n; i++)
		if (!all->part[i].neutral || axis_of_part(l, &all->part[i], s) == s.rank - 1)
			add(out, all->part[i]);
}

static void transposed(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	for (int32_t i = 0; is_const_ints(n, 1) && i < n->out[0].shape.rank; i++)
		move_axis(l, n, 0, (int32_t)const_int(n, 1, (size_t)i), i, out);
}

static void multiplied(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	bool matrix = ht_is(n, HT_MATMUL);
	bool tx = ht_attr_bool(n, matrix ? "transpose_a" : "adj_x", false);
	bool ty = ht_attr_bool(n, matrix ? "transpose_b" : "adj_y", false);
	int32_t rank = n->out[0].shape.rank, rx = shape_of(n, 0).rank, ry = shape_of(n, 1).rank;

	for (int32_t i = 0; i + 2 < rx; i++)
		move_axis(l, n, 0, i, rank - rx + i, out);
	for (int32_t i = 0; i + 2 < ry; i++)
		move_axis(l, n, 1, i, rank - ry + i, out);
	move_axis(l, n, 0, tx ? rx - 1 : rx - 2, rank - 2, out);
	move_axis(l, n, 1, ty ? ry - 2 : ry - 1, rank - 1, out);
}

static void reduced(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t rank = shape_of(n, 0).rank, to = 0;
	bool keeps = ht_attr_bool(n, "keep_dims", false), along[HT_LOWER_RANK] = { false };

	if (!is_const_ints(n, 1))
		return;
	for (int64_t i = 0; i < ht_shape_count(shape_of(n, 1)); i++)
		along[axis_of(const_int(n, 1, (size_t)i), rank)] = true;
	for (int32_t i = 0; i < rank; i++) {
		if (!along[i])
			move_axis(l, n, 0, i, to, out);
		to += !along[i] || keeps;
	}
}

static void gathered(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t axis = n->ins > 2 && is_const_ints(n, 2)
			       ? axis_of(const_int(n, 2, 0), shape_of(n, 0).rank)
			       : 0;

	int32_t rank = shape_of(n, 0).rank, own = shape_of(n, 1).rank;

	if (ht_attr_int(n, "batch_dims", 0))
		return;
	for (int32_t i = 0; i < own; i++)
		move_axis(l, n, 1, i, axis + i, out);
	for (int32_t i = 0; i < rank; i++)
		if (i != axis)
			move_axis(l, n, 0, i, i < axis ? i : i - 1 + own, out);
}

static void gathered_nd(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	for (int32_t i = 0; i + 1 < shape_of(n, 1).rank; i++)
		move_axis(l, n, 1, i, i, out);
}

/* Operands from `first` to before `end`, concatenated along axis `axis`: the result has their other axes. */
static void joined(const struct lower *l, const struct ht_node *n, int32_t first, int32_t end,
	int32_t axis, struct open_parts *out)
{
	for (int32_t i = first; i < end; i++)
		for (int32_t k = 0; k < n->out[0].shape.rank; k++)
			if (k != axis)
				move_axis(l, n, i, k, k, out);
}

static void concatenated(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	bool last = ht_axes(n) == HT_AXES_JOINED_V2;
	int32_t of = last ? n->ins - 1 : 0;

	if (is_const_ints(n, of))
		joined(l, n, !last, n->ins - last,
			axis_of(const_int(n, of, 0), n->out[0].shape.rank), out);
}

static void packed(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t axis = axis_of(ht_attr_int(n, "axis", 0), n->out[0].shape.rank);

	for (int32_t i = 0; i < n->ins; i++)
		for (int32_t k = 0; k + 1 < n->out[0].shape.rank; k++)
			move_axis(l, n, i, k, k + (k >= axis), out);
}

static void unpacked(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t rank = shape_of(n, 0).rank, axis = axis_of(ht_attr_int(n, "axis", 0), rank);

	for (int32_t i = 0; i < n->outs; i++)
		for (int32_t k = 0; k < rank; k++)
			if (k != axis)
				move_axis_to(l, n, 0, k, n->out[i].shape, k - (k > axis), &out[i]);
}

/* The axis that is divided is not open: each result is shorter there. */
static void split(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t value = n->ins == 2;

	for (int32_t i = 0; i < n->outs && n->outs > 1; i++)
		for (int32_t k = 0; k < shape_of(n, value).rank; k++)
			move_axis_to(l, n, value, k, n->out[i].shape, k, &out[i]);
}

/* Pad, Slice, Tile: an axis that is as long as before has the same indices, since nothing was put in front of any. */
static void kept(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t lead = n->out[0].shape.rank - shape_of(n, 0).rank;

	for (int32_t i = 0; i < shape_of(n, 0).rank; i++)
		move_axis(l, n, 0, i, lead + i, out);
}

/* Likewise if each entry of the slice is of one axis, which stays. */
static void strided(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	if (!ht_attr_int(n, "new_axis_mask", 0) && !ht_attr_int(n, "shrink_axis_mask", 0))
		kept(l, n, out);
}

/* Rows are mirrored as far as the run has elements: what is behind stays where it is. */
static void mirrored(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	int32_t rank = shape_of(n, 0).rank;
	bool along[HT_LOWER_RANK] = { false }, rows = ht_attr_find(n, "seq_dim");

	if (!rows && !is_const_ints(n, 1))
		return;
	for (int64_t i = 0; !rows && i < ht_shape_count(shape_of(n, 1)); i++)
		along[axis_of(const_int(n, 1, (size_t)i), rank)] = true;
	for (int32_t i = 0; i < rank; i++)
		if (!along[i])
			move_axis(l, n, 0, i, i, out);
}

static void hot(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	for (int32_t i = 0; i < shape_of(n, 0).rank && ht_attr_int(n, "axis", -1) == -1; i++)
		move_axis(l, n, 0, i, i, out);
}

/* The result's open sizes are none of the operand's: it ends where attribute _ends says, as an argument of a body does. */
static void stated(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	struct ht_shape s = n->out[0].shape;

	(void)l;

	for (int32_t i = 0; i < s.rank; i++) {
		struct ht_open_axis a = lower_axis_end(n, i);

		if (a.size)
			add(out, outside_of(&a, s, i));
	}
}

/* Likewise of windows.  The first axis of a result is that of the operand. */
static void ending(const struct lower *l, const struct ht_node *n, struct open_parts *out)
{
	stated(l, n, out);
	if (n->ins && !lower_axis_end(n, 0).size)
		move_axis(l, n, ht_is(n, HT_CONV_TRANSPOSE) ? 2 : 0, 0, 0, out);
}

static rule *rule_of(const struct ht_node *n)
{
	static rule *const by_axes[HT_AXES_END] = { [HT_AXES_WITHIN] = within,
		[HT_AXES_SAME] = same_elements,
		[HT_AXES_FIRST] = of_first,
		[HT_AXES_PERMUTED] = transposed,
		[HT_AXES_JOINED] = concatenated,
		[HT_AXES_JOINED_V2] = concatenated,
		[HT_AXES_PACKED] = packed,
		[HT_AXES_UNPACKED] = unpacked,
		[HT_AXES_SPLIT] = split,
		[HT_AXES_SLICED] = kept,
		[HT_AXES_STRIDED] = strided,
		[HT_AXES_PADDED] = kept,
		[HT_AXES_REPEATED] = kept,
		[HT_AXES_RUNNING] = of_first,
		[HT_AXES_REVERSED] = mirrored,
		[HT_AXES_GATHERED] = gathered,
		[HT_AXES_GATHERED_ND] = gathered_nd,
		[HT_AXES_ONE_HOT] = hot };

	if (ht_attr_find(n, "_ends"))
		return ht_axes(n) == HT_AXES_MADE || ht_axes(n) == HT_AXES_SCATTERED ? stated
										     : ending;
	if (by_axes[ht_axes(n)])
		return by_axes[ht_axes(n)];
	return ht_is(n, HT_RESHAPES)         ? same_elements
	       : ht_is(n, HT_CASTS)          ? cast
	       : ht_is(n, HT_SHARES)         ? softmax
	       : ht_is(n, HT_ROWS)           ? of_first
	       : ht_is(n, HT_MATRIX_PRODUCT) ? multiplied
	       : ht_is(n, HT_REDUCES)        ? reduced
	       : lower_is_aligned(n)         ? aligned
					     : NULL;
}

static void find(struct lower *l, const struct ht_node *n)
{
	bool begins = n->ins || ht_is(n, HT_ARGUMENT);
	bool divides = ht_axes(n) == HT_AXES_SPLIT || ht_axes(n) == HT_AXES_UNPACKED;
	rule *find_by = begins && (n->outs == 1 || divides) ? rule_of(n) : NULL;

	if (!l->outside[n->id] && find_by && n->out[0].shape.rank <= HT_LOWER_RANK)
		find_by(l, n, parts_of(l, n));
}

/* Results of a branch or loop end where attribute _ends says, which has as many axes for each. */
static void begin_results(struct lower *l, const struct ht_node *n)
{
	const struct ht_attr *ends = ht_attr_find(n, "_ends");
	struct open_parts *all;
	int32_t axes;

	if (!ht_is(n, HT_BRANCHES | HT_LOOPS) || !ends || !n->outs)
		return;
	axes = (int32_t)(ends->value.list.n / 2) / n->outs;
	all = parts_of(l, n);
	for (int32_t i = 0; i < n->outs; i++) {
		struct ht_shape s = n->out[i].shape;

		for (int32_t k = 0; k < s.rank && k < axes; k++) {
			struct ht_open_axis a = lower_axis_end(n, i * axes + k);

			if (a.size)
				add(&all[i], outside_of(&a, s, k));
		}
	}
}

/* The first axis of a result has the size that its node computes. */
static void begin_computed(struct lower *l, const struct ht_node *n)
{
	int32_t size = ht_computed_size(l->g, n);
	struct ht_shape s;

	if (!size || n->outs != 1)
		return;
	s = n->out[0].shape;
	if (s.rank > HT_LOWER_RANK || s.dim[0] != l->g->size[size - 1].most)
		return;
	add(parts_of(l, n), outside_of(&(struct ht_open_axis){ size, 1 }, s, 0));
}

static void begin(struct lower *l, const struct ht_port *port)
{
	struct ht_shape s = ht_type_of(port->value)->shape;
	struct open_parts *p;

	if (!port->axis)
		return;
	p = parts_of(l, port->value.node) + port->value.index;
	for (int32_t i = 0; i < s.rank; i++)
		if (port->axis[i].size)
			add(p, outside_of(&port->axis[i], s, i));
}

void lower_find_outside(struct lower *l)
{
	if (!l->g->sizes)
		return;
	l->outside = HT_NEW_ARRAY(l->scratch, struct open_parts *, l->g->ids);
	for (const struct ht_port *p = l->asked->entry->inputs; p; p = p->next)
		begin(l, p);
	for (const struct ht_node *n = l->g->first; n; n = n->next) {
		begin_computed(l, n);
		begin_results(l, n);
		find(l, n);
	}
}

/* ---- ends of loops ---- */

/* Whether a loop over `span` may end at the size of part `p`.  The span must consist of whole runs of p's indices (of one run, if an
 * index of the loop stands for several elements), and the loop must be allowed to skip elements of p's kind, neutral or not. */
static bool applies(const struct lower *l, const struct open_part *p, const struct cut_span *span)
{
	int64_t run = p->stride * most_of(l, p), all = span->stride * span->extent;

	if (!run || !all) /* a tensor without elements */
		return false;
	if (p->stride % span->stride || all % run || (span->each > 1 && all != run))
		return false;
	return p->neutral ? span->neutral || (p->skipped && !span->reduced) : !span->reduced;
}

static void add_cut(struct kernel_build *k, struct ht_dim *d, struct ht_cut c)
{
	int i = 0;

	while (i < HT_CUTS && d->cut[i].run)
		i++;
	if (i == HT_CUTS)
		return;
	kb_take_sizes(k);
	d->cut[i] = c;
}

/* Where a loop over `span` ends for part `p`. */
static struct ht_cut cut_of(
	const struct lower *l, const struct open_part *p, const struct cut_span *span)
{
	int64_t inner = p->stride / span->stride, unit = span->each > 1 ? span->each : 1;
	struct ht_size_expr end = ht_size_multiple(inner, p->size - 1);

	if (p->neutral) {
		HT_CHECK(WHOLE * inner % unit == 0);
		end.add = WHOLE - 1;
		end.divisor = WHOLE;
		end.times = WHOLE * inner / unit;
	} else if (unit > 1) {
		end = ht_size_floor(end, unit - 1, unit);
	}
	return (struct ht_cut){ end, ht_ceil_div(most_of(l, p) * inner, unit) };
}

void kb_cut(struct kernel_build *k, int dim, struct ht_value v, struct cut_span span)
{
	const struct open_parts *all = lower_outside(k->l, v);

	for (int32_t i = 0; all && i < all->n; i++) {
		const struct open_part *p = &all->part[i];

		if (applies(k->l, p, &span))
			add_cut(k, &k->stage->dim[dim], cut_of(k->l, p, &span));
	}
}

void kb_cut_space(struct kernel_build *k, const struct space *s, struct ht_value v)
{
	struct ht_shape shape = { s->rank, (int64_t *)(uintptr_t)s->dim };

	if (!lower_outside(k->l, v) ||
		ht_shape_count(shape) != ht_shape_count(ht_type_of(v)->shape))
		return;
	for (int32_t i = 0; i < s->groups; i++) {
		const struct ht_x *x = &k->stage->x[s->group[i].x];

		if (x->op == HT_X_DIM)
			kb_cut(k, (int)x->imm, v,
				(struct cut_span){
					.stride = ht_shape_stride(shape, s->group[i].last),
					.extent = k->stage->dim[x->imm].extent });
	}
}

/* ---- products ---- */

static const struct open_part *neutral_depth(
	const struct lower *l, const struct ht_node *n, int arg, int32_t axis)
{
	const struct open_parts *all = lower_outside(l, n->in[arg]);
	struct ht_shape s = shape_of(n, arg);

	for (int32_t i = 0; all && i < all->n; i++)
		if (all->part[i].neutral && axis_of_part(l, &all->part[i], s) == axis &&
			all->part[i].stride == ht_shape_stride(s, axis) &&
			most_of(l, &all->part[i]) == s.dim[axis])
			return &all->part[i];
	return NULL;
}

bool lower_cuts_depth(const struct lower *l, const struct ht_node *n)
{
	int32_t rx = shape_of(n, 0).rank, ry = shape_of(n, 1).rank;
	const struct open_part *x, *y;

	if (!l->outside || contract_in_matrices(l, n) || contract_sums_short(l, n))
		return false;
	x = neutral_depth(l, n, 0, product_transposes(n, true) ? rx - 2 : rx - 1);
	y = neutral_depth(l, n, 1, product_transposes(n, false) ? ry - 1 : ry - 2);
	/* A loop without an iteration would store no sum. */
	return x && y && x->size == y->size && most_of(l, x) % WHOLE == 0 &&
	       l->g->size[x->size - 1].least > 0;
}

/* How many sets of neutral elements an operand has. */
static int neutral_parts(const struct lower *l, struct ht_value v)
{
	const struct open_parts *all = lower_outside(l, v);
	int found = 0;

	for (int32_t i = 0; all && i < all->n; i++)
		found += all->part[i].neutral;
	return found;
}

bool lower_sum_skips(
	const struct lower *l, const struct ht_node *n, int32_t arg, const struct open_part *p)
{
	struct ht_shape s;

	if (!ht_is(n, HT_MATRIX_PRODUCT) || !p->neutral ||
		!contract_type(ht_type_of(n->in[0])->dtype) || !lower_cuts_depth(l, n))
		return false;
	s = shape_of(n, arg);
	/* Of several ends code may ignore one (struct ht_cut). */
	return p->stride == ht_shape_stride(s, product_transposes(n, arg == 0) != (arg == 0)
						       ? s.rank - 1
						       : s.rank - 2) &&
	       neutral_parts(l, n->in[0]) == 1 && neutral_parts(l, n->in[1]) == 1;
}

void kb_cut_depth(struct kernel_build *k, int dim, const struct ht_node *n, struct ht_value v,
	struct cut_span span)
{
	span.reduced = span.neutral = true;
	if (lower_cuts_depth(k->l, n))
		kb_cut(k, dim, v, span);
}

int64_t lower_rows_of_run(
	const struct lower *l, const struct ht_node *n, int64_t rows, int64_t columns)
{
	const struct open_parts *all = lower_outside(l, ht_out(l->owner[n->id], 0));
	int64_t least = rows;

	for (int32_t i = 0; all && i < all->n; i++) {
		int64_t run = all->part[i].stride * most_of(l, &all->part[i]);

		if (all->part[i].stride >= columns && run % columns == 0 && run / columns < least)
			least = run / columns;
	}
	return least;
}
