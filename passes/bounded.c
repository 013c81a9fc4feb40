/* Open sizes within bounds (struct ht_open_size), for pass sizes: docs/sizes.md.
 *
 * Every tensor gets the extents that it has at the largest sizes.  Indices of an open axis from
 * the run's size on are *outside*: their elements have arbitrary values, and no element inside
 * depends on them.  So where an op combines several elements of an open axis, _Within replaces
 * the elements outside by neutral ones.  Inputs and outputs have only as many elements as the
 * run's sizes say; _Relaid converts between them and the graph.
 *
 * Each op with an operand that has an open axis has a rule, which says where the axis is in the
 * result.  An op without a rule is refused, and so is an op that computes with a size in an
 * unsupported way. */
#include "ir/infer.h"
#include "passes/bounded_axes.h"
#include "passes/rewrite.h"

#include <string.h>

/* ---- queries for rules ---- */

static bool is_whole(enum ht_dtype t)
{
	return ht_dtype_info(t)->kind == HT_KIND_INT || ht_dtype_info(t)->kind == HT_KIND_UINT;
}

struct ht_elem ht_open_element(const struct ht_bounded *b, struct ht_value v, int32_t i)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	const struct ht_known *all = v.node->id < b->ids ? b->known[v.node->id] : NULL;
	const struct ht_known *k = all ? &all[v.index] : NULL;

	if (t && i < ht_shape_count(t->shape) && is_whole(t->dtype))
		return ht_elem_int(ht_tensor_int(t, (size_t)i));
	return k && k->e && i < k->n ? k->e[i] : ht_elem_unknown;
}

enum ht_status ht_open_refuse(const struct ht_bounded *b, const struct ht_node *n, const char *why)
{
	const struct ht_open_size *computed = ht_first_computed_size(b->r.g);
	const struct ht_where at = {
		.path = b->r.g->library->path, .node = n->name, .op = n->type, .offset = -1
	};

	if (!computed)
		return ht_error(b->r.c->diags, HT_E_UNSUPPORTED, at,
			"a dimension of an input is open, and %s; state its size with --input-shape",
			why);
	return ht_error(b->r.c->diags, HT_E_UNSUPPORTED, at,
		"a size is known only when it runs (that of '%.*s'%s), and %s",
		HT_STR_ARG(computed->by), ht_has_open_inputs(b->r.g) ? ", or of an input" : "",
		why);
}

void ht_open_wait(struct ht_bounded *b, struct ht_node *n, const struct ht_size_set *sizes)
{
	struct ht_node *first[HT_MOST_RUN_SIZES];
	int32_t count = 0;

	for (int32_t size = 1; size <= b->r.g->sizes; size++) {
		struct ht_node *by;

		if (!ht_size_set_has(sizes, size))
			continue;
		by = ht_size_node(b->r.g, size);
		if (by && !ht_waits_for(n, by))
			first[count++] = by;
		if (b->awaited && !by)
			ht_size_set_add(b->awaited, size);
	}
	if (count)
		ht_rw_set_controls(&b->r, n, ht_controls_and(b->r.arena, n, first, count),
			n->controls + count);
}

void ht_open_wait_for(struct ht_bounded *b, struct ht_node *n, int32_t size)
{
	struct ht_size_set sizes = { 0 };

	if (!size)
		return;
	ht_size_set_add(&sizes, size);
	ht_open_wait(b, n, &sizes);
}

const struct ht_open *ht_open_axes(const struct ht_bounded *b, struct ht_value v)
{
	const struct ht_open *a = v.node->id < b->ids ? b->axes[v.node->id] : NULL;

	for (int32_t i = 0; a && i < HT_OPEN_RANK; i++)
		if (ht_open_some(a[v.index * HT_OPEN_RANK + i]))
			return a + v.index * HT_OPEN_RANK;
	return NULL;
}

bool ht_open_in(const struct ht_bounded *b, const struct ht_node *n, int32_t arg)
{
	return arg < n->ins && ht_open_axes(b, n->in[arg]);
}

bool ht_open_count(const struct ht_bounded *b, struct ht_value v)
{
	return v.node->id < b->ids && b->counts[v.node->id];
}

/* How often an extent is multiplied by a size. */
static int times_in(const struct ht_size_expr *e, int32_t size)
{
	int times = 0;

	for (int i = 0; i < ht_size_count(e); i++)
		times += (int32_t)e->size[i] == size;
	return times;
}

bool ht_open_has(const struct ht_bounded *b, int64_t dim, int32_t size)
{
	const struct ht_size_expr e = ht_dim_of_sizes(b->r.g, dim);

	return times_in(&e, size);
}

/* ---- every node ---- */

/* Whether the result depends on operand i as a shape, or as the place of a part, and not as a
 * value. */
static bool is_shape(const struct ht_node *n, int32_t i)
{
	switch (n->op) {
	case HT_OP_StridedSlice:
	case HT_OP_Slice:
	case HT_OP_Tile:
		return i > 0;
	case HT_OP_Fill:
	case HT_OP_Conv2DBackpropInput:
	case HT_OP_DepthwiseConv2dNativeBackpropInput:
	case HT_OP_Conv3DBackpropInputV2:
	case HT_OP_AvgPoolGrad:
	case HT_OP_AvgPool3DGrad:
		return i == 0;
	case HT_OP_Bincount:
	case HT_OP_DenseBincount:
	case HT_OP_Range:
	case HT_OP_TopKV2:
		return i == 1;
	case HT_OP_ScatterNd:
	case HT_OP_UnsortedSegmentSum:
	case HT_OP_UnsortedSegmentMax:
	case HT_OP_UnsortedSegmentMin:
	case HT_OP_UnsortedSegmentProd:
		return i == 2;
	default:
		return i == 1 && ht_is(n, HT_SHAPED_BY_SECOND);
	}
}

static bool has_open_result(const struct ht_bounded *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		for (int32_t k = 0; k < n->out[i].shape.rank; k++)
			if (ht_dim_is_open(b->r.g, n->out[i].shape.dim[k]))
				return true;
	return false;
}

static bool all_known(const struct ht_bounded *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		for (int32_t k = 0; k < ht_shape_count(n->out[i].shape); k++)
			if (ht_open_element(b, ht_out((struct ht_node *)(uintptr_t)n, i), k).kind !=
				HT_ELEM_INT)
				return false;
	return true;
}

static bool takes_open(const struct ht_bounded *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins && !ht_is(n, HT_TELLS_SHAPE); i++)
		if (ht_open_in(b, n, i))
			return true;
	return false;
}

static bool is_shaped(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (!ht_shape_known(n->out[i].shape))
			return false;
	return true;
}

/* What comes out as numbers, such as a fixed extent of a shape, is not. */
static bool is_of_counts(const struct ht_bounded *b, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_open_count(b, n->in[i]))
			return !is_shaped(n) || !all_known(b, n);
	return (n->op == HT_OP__Sizes || (ht_is(n, HT_TELLS_SHAPE) && n->ins)) && !all_known(b, n);
}

/* Whether an extent is a multiple of exactly the sizes that are open in the axis, each as often as there. */
static bool follows(const struct ht_bounded *b, int64_t dim, struct ht_open a)
{
	const struct ht_size_expr e = ht_dim_of_sizes(b->r.g, dim);
	const int parts = ht_open_parts(a);

	for (int i = 0; i < parts; i++) {
		int times = 0;

		for (int k = 0; k < parts; k++)
			times += a.part[k].size == a.part[i].size;
		if (times != times_in(&e, a.part[i].size))
			return false;
	}
	return ht_size_count(&e) == parts;
}

enum ht_status ht_open_check_results(
	struct ht_bounded *b, const struct ht_node *n, const struct ht_open *axes)
{
	for (int32_t i = 0; i < n->outs; i++) {
		struct ht_shape s = n->out[i].shape;

		if (!ht_rw_uses(&b->r, ht_out((struct ht_node *)(uintptr_t)n, i)))
			continue;
		for (int32_t k = 0; k < s.rank; k++) {
			struct ht_open a = axes[i * HT_OPEN_RANK + k];

			if (ht_open_most(b, s.dim[k]) < 0)
				return ht_open_refuse(
					b, n, "the shape of this result is not known");
			if (!follows(b, s.dim[k], a))
				return ht_open_refuse(b, n,
					"the size of this result does not follow it: it meets one that is "
					"fixed, or another that is open");
		}
	}
	return HT_OK;
}

/* Whether `v` is computed of _Sizes, as far as the *left nodes tell that are looked at. */
static bool follows_sizes(struct ht_value v, int *left)
{
	if (v.node->op == HT_OP__Sizes)
		return true;
	for (int32_t i = 0; i < v.node->ins && --*left > 0; i++)
		if (follows_sizes(v.node->in[i], left))
			return true;
	return false;
}

/* Whether inference cannot follow elements any more when tensors have the extents of the largest sizes: they are computed of what a body
 * is passed, or of _Sizes. */
static bool is_lost(const struct ht_bounded *b, struct ht_value v)
{
	int left = 100;

	return b->awaited || follows_sizes(v, &left);
}

/* The sizes that elements depend on. */
static struct ht_size_set sizes_in(const struct ht_bounded *b, struct ht_value v)
{
	struct ht_size_set sizes = { 0 };

	for (int32_t i = 0; i < ht_open_elements(v); i++) {
		struct ht_elem e = ht_open_element(b, v, i);
		struct ht_size_expr of = ht_dim_of_sizes(b->r.g, e.kind == HT_ELEM_DIM ? e.i : 0);

		for (int k = 0; k < ht_size_count(&of); k++)
			ht_size_set_add(&sizes, of.size[k]);
	}
	return sizes;
}

/* Whether an extent of the result is computed of _Sizes, but is known to be a number or a size. */
static bool tells_extent(const struct ht_bounded *b, const struct ht_node *n, struct ht_value v)
{
	if (n->op != HT_OP_Range && !ht_is(n, HT_SHAPED_BY_SECOND))
		return false;
	for (int32_t i = 0; i < ht_open_elements(v); i++) {
		struct ht_elem e = ht_open_element(b, v, i);

		if (e.kind != HT_ELEM_INT && (e.kind != HT_ELEM_DIM || ht_open_most(b, e.i) < 0))
			return false;
	}
	return ht_open_elements(v) && !ht_is_const(v);
}

/* Whether a Reshape has extents that follow from the number of elements, while its operand `v` states some in a way that nothing follows. */
static bool states_unknown(const struct ht_bounded *b, const struct ht_node *n, struct ht_value v)
{
	if (n->op != HT_OP_Reshape || ht_is_const(v))
		return false;
	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		if (ht_open_element(b, v, i).kind == HT_ELEM_UNKNOWN)
			return true;
	return false;
}

static struct ht_value largest_extents(struct ht_bounded *b, struct ht_node *n, struct ht_value v)
{
	int64_t most[HT_OPEN_RANK];

	for (int32_t i = 0; i < n->out[0].shape.rank; i++)
		most[i] = ht_open_most(b, n->out[0].shape.dim[i]);
	return ht_rw_const_ints(
		&b->r, n, v.node->name, ht_type_of(v)->dtype, most, n->out[0].shape.rank);
}

/* Such shapes say the largest from now on; the nodes that compute the sizes stay. */
static void close_shapes(struct ht_bounded *b, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_value v = n->in[i];
		struct ht_size_set sizes;

		if (is_shape(n, i) && states_unknown(b, n, v)) {
			ht_rw_set_in(&b->r, n, i, largest_extents(b, n, v));
			continue;
		}
		if (!is_shape(n, i) || (!ht_open_count(b, v) && !tells_extent(b, n, v)) ||
			!is_lost(b, v))
			continue;
		sizes = sizes_in(b, v);
		ht_open_wait(b, n, &sizes);
		ht_rw_set_in(&b->r, n, i, ht_open_largest(b, n, v));
	}
}

/* A tensor of zeros in the shape of the operand does not need the operand, which may be computed for nothing else. */
static void fill_instead(struct ht_bounded *b, struct ht_node *n, const struct ht_open *axes)
{
	const struct ht_type t = n->out[0];
	int64_t dim[HT_MAX_RANK];
	struct ht_value in[2];

	if (ht_number(n) != HT_NUMBER_ZERO || !ht_is_float(t.dtype) || t.shape.rank < 0)
		return;
	for (int32_t i = 0; i < t.shape.rank; i++)
		dim[i] = ht_open_most(b, t.shape.dim[i]);
	in[0] = ht_rw_const_ints(&b->r, n, n->name, HT_I64, dim, t.shape.rank);
	in[1] = ht_rw_scalar(&b->r, n, n->name, t.dtype, 0);
	ht_rw_become(&b->r, n, HT_OP_Fill, in, 2);
	ht_open_mark_results(n, axes, b->r.arena);
}

static enum ht_status follow(struct ht_bounded *b, struct ht_node *n)
{
	ht_open_rule *rule = ht_open_rule_of(n);

	if (!rule)
		return ht_open_refuse(b, n, "for this op it may not be so far");
	for (int32_t i = 0; i < n->outs; i++)
		if ((n->out[i].shape.rank < 0 || n->out[i].shape.rank > HT_OPEN_RANK) &&
			ht_rw_uses(&b->r, ht_out(n, i)))
			return ht_open_refuse(
				b, n, "the rank of this result is not known, or above 8");
	for (int32_t i = 0; i < n->ins; i++) {
		if (ht_open_count(b, n->in[i]) && !is_shape(n, i))
			ht_rw_set_in(&b->r, n, i, ht_open_value(b, n->in[i]));
		if (ht_in_shape(n, i).rank < 0 || ht_in_shape(n, i).rank > HT_OPEN_RANK)
			return ht_open_refuse(
				b, n, "the rank of an operand is not known, or above 8");
	}
	b->axes[n->id] = HT_NEW_ARRAY(b->r.arena, struct ht_open, (size_t)n->outs * HT_OPEN_RANK);
	HT_TRY(rule(b, n, b->axes[n->id]));
	if (ht_is(n, HT_CONSTANT_LIKE))
		fill_instead(b, n, b->axes[n->id]);
	close_shapes(b, n);
	return ht_open_check_results(b, n, b->axes[n->id]);
}

enum ht_status ht_open_check_rank(const struct ht_bounded *b, const struct ht_node *n)
{
	const char *varies = ht_varies_in_rank(n);

	return varies ? ht_open_refuse(b, n, ht_str_printf(b->r.arena, "this %s", varies).p)
		      : HT_OK;
}

/* A value that is not a product of sizes is computed in the run. */
static enum ht_status take_values(struct ht_bounded *b, struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		HT_TRY(ht_open_check_rank(b, n->in[i].node));
	if (ht_is(n, HT_TELLS_SHAPE) || !is_shaped(n))
		return ht_open_refuse(b, n, "how many elements this has is not known");
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_open_count(b, n->in[i]))
			ht_rw_set_in(&b->r, n, i, ht_open_value(b, n->in[i]));
	return HT_OK;
}

/* Whether a node computes numbers of sizes, such as the axes along which they differ, that nothing would find to be constant later. */
static bool computes_numbers(const struct ht_bounded *b, const struct ht_node *n)
{
	if (n->controls || ht_op_info(n->op)->effects || !is_shaped(n) || !all_known(b, n))
		return false;
	for (int32_t i = 0; i < n->outs; i++)
		if (!is_whole(n->out[i].dtype) || n->out[i].shape.rank > 1)
			return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (ht_open_count(b, n->in[i]) && is_lost(b, n->in[i]))
			return true;
	return false;
}

/* These numbers, as constants. */
static void tell_numbers(struct ht_bounded *b, struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs && n->graph; i++) {
		struct ht_value v = ht_out(n, i);
		int64_t count = ht_shape_count(ht_type_of(v)->shape),
			*x = HT_NEW_ARRAY(b->r.arena, int64_t, (size_t)count + 1);

		for (int32_t k = 0; k < count; k++)
			x[k] = ht_open_element(b, v, k).i;
		if (ht_rw_uses(&b->r, v))
			ht_rw_replace(&b->r, v,
				ht_type_of(v)->shape.rank == 0
					? ht_rw_scalar(&b->r, n, n->name, ht_type_of(v)->dtype, *x)
					: ht_rw_const_ints(&b->r, n, n->name, ht_type_of(v)->dtype,
						  x, count));
	}
}

enum ht_status ht_open_visit(struct ht_bounded *b, struct ht_node *n)
{
	if (ht_is(n, HT_CONSTANT | HT_ARGUMENT) || b->axes[n->id])
		return HT_OK;
	if (ht_attr_find(n, "room")) /* computed_concat.c would have written it otherwise */
		return ht_open_refuse(
			b, n, "the extent of what branches or loops hand on has no bound");
	if (ht_runs_own(n))
		return ht_open_control(b, n);
	if (takes_open(b, n) || has_open_result(b, n))
		return follow(b, n);
	if (computes_numbers(b, n)) {
		tell_numbers(b, n);
		return HT_OK;
	}
	b->counts[n->id] = is_of_counts(b, n);
	if (!b->counts[n->id] ||
		(ht_open_all_known(b, n) && (n->op == HT_OP__Sizes || !ht_op_info(n->op)->effects)))
		return HT_OK;
	b->counts[n->id] = false;
	return take_values(b, n);
}

/* ---- inputs and outputs ---- */

static void begin_input(struct ht_bounded *b, struct ht_value v)
{
	struct ht_shape s = ht_type_of(v)->shape;
	struct ht_open *a;

	if (!has_open_result(b, v.node))
		return;
	a = b->axes[v.node->id] = HT_NEW_ARRAY(b->r.arena, struct ht_open, HT_OPEN_RANK);
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_dim_size(b->r.g, s.dim[i]))
			a[i].part[0] = (struct ht_open_axis){ ht_dim_size(b->r.g, s.dim[i]), 1 };
}

static void close_input(struct ht_node *n)
{
	struct ht_graph *g = n->graph;
	struct ht_shape s = n->out[0].shape;
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = ht_dim_most(g, s.dim[i]);
	s = ht_shape_make(g->arena, s.rank, dim);
	ht_attr_set_shape(n, "shape", s);
	n->out[0].shape = s;
}

static enum ht_status set_port(struct ht_bounded *b, struct ht_port *p)
{
	struct ht_open_axis *a = HT_NEW_ARRAY(b->r.g->arena, struct ht_open_axis, HT_OPEN_RANK);
	const struct ht_open *axes = ht_open_axes(b, p->value);
	struct ht_shape s = ht_type_of(p->value)->shape;

	for (int32_t i = 0; i < HT_OPEN_RANK; i++) {
		if (axes[i].part[1].size)
			return ht_open_refuse(
				b, p->value.node, "an axis of this output has several open sizes");
		a[i] = axes[i].part[0];
	}
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_open_is_joined(b, s, i, axes[i]))
			p->value = ht_open_in_order(b, p->value, i, &a[i]);
	p->axis = a;
	return HT_OK;
}

static enum ht_status close_inputs(struct ht_bounded *b)
{
	for (struct ht_port *p = b->r.c->entry->inputs; p; p = p->next) {
		struct ht_value v = p->value;

		if (!ht_open_axes(b, v))
			continue;
		if (ht_is(v.node, HT_HAS_DEFAULT))
			return ht_open_refuse(b, v.node, "this input has a default");
		HT_TRY(set_port(b, p));
		close_input(v.node);
	}
	return HT_OK;
}

/* Users of an input read it with its largest extents. */
static void relay_inputs(struct ht_bounded *b)
{
	for (struct ht_port *p = b->r.c->entry->inputs; p; p = p->next) {
		struct ht_node *n = p->value.node;

		if (p->axis)
			ht_rw_replace_behind(&b->r, p->value,
				ht_rw_unary(&b->r, n, HT_OP__Relaid, n->name, p->value));
	}
}

static struct ht_size_set sizes_of(const struct ht_open_axis axis[HT_OPEN_RANK])
{
	struct ht_size_set sizes = { 0 };

	for (int32_t i = 0; i < HT_OPEN_RANK; i++)
		if (axis[i].size)
			ht_size_set_add(&sizes, axis[i].size);
	return sizes;
}

static enum ht_status relay_outputs(struct ht_bounded *b)
{
	for (struct ht_port *p = b->r.c->entry->outputs; p; p = p->next) {
		struct ht_size_set sizes;

		if (ht_open_count(b, p->value))
			p->value = ht_open_value(b, p->value);
		if (!ht_open_axes(b, p->value))
			continue;
		HT_TRY(set_port(b, p));
		p->value = ht_rw_unary(
			&b->r, p->value.node, HT_OP__Relaid, p->value.node->name, p->value);
		sizes = sizes_of(p->axis);
		ht_open_wait(b, p->value.node, &sizes);
	}
	return HT_OK;
}

enum ht_status ht_bound_sizes(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_bounded b = { 0 };
	struct ht_node **all;
	struct ht_map known;
	size_t n;

	ht_rw_init(&b.r, g, c);
	HT_TRY(ht_infer_all_known(g, b.r.arena, c->diags, false, &known));
	b.all = &known;
	b.known = ht_known_of(&known, g);
	b.ids = g->ids;
	b.axes = HT_NEW_ARRAY(b.r.arena, struct ht_open *, b.ids);
	b.counts = HT_NEW_ARRAY(b.r.arena, bool, b.ids);
	for (const struct ht_port *p = c->entry->inputs; p; p = p->next)
		begin_input(&b, p->value);
	all = ht_rw_nodes(&b.r, &n);
	for (size_t i = 0; i < n; i++)
		HT_TRY(ht_open_visit(&b, all[i]));
	HT_TRY(relay_outputs(&b));
	HT_TRY(close_inputs(&b));
	relay_inputs(&b);
	g->closed = true;
	HT_TRY(ht_graph_sort(g, c->diags));
	return ht_infer_types(g, c->diags);
}
