/* Concat and Pack: each operand is copied into its part of the result, unless it was made there. */
#include "lower/index.h"
#include "lower/parts.h"
#include "lower/strides.h"

#include <string.h>

static bool is_value(const struct ht_node *n, int arg)
{
	return n->op == HT_OP_Pack || (n->op == HT_OP_Concat ? arg > 0 : arg + 1 < n->ins);
}

static int32_t concat_axis(const struct ht_node *n)
{
	if (n->op == HT_OP_Pack)
		return axis_of(ht_attr_int(n, "axis", 0), n->out[0].shape.rank);
	return axis_of(
		const_int(n, n->op == HT_OP_Concat ? 0 : n->ins - 1, 0), n->out[0].shape.rank);
}

/* Where each operand starts along the axis. */
static const int64_t *part_starts(struct lower *l, const struct ht_node *n)
{
	int64_t **start = &l->part_starts[n->id], at = 0;
	int32_t axis = concat_axis(n);

	if (*start)
		return *start;
	*start = HT_NEW_ARRAY(l->scratch, int64_t, (size_t)n->ins);
	for (int i = 0; i < n->ins; i++) {
		(*start)[i] = at;
		if (is_value(n, i))
			at += n->op == HT_OP_Pack ? 1 : shape_of(n, i).dim[axis];
	}
	return *start;
}

/* The whole is in memory whose strides follow the run's sizes: so is the part. */
static void follow_run(
	const struct lower *l, const struct view *whole, int32_t axis, struct view *v)
{
	struct ht_size_expr *ends = HT_NEW_ARRAY(l->scratch, struct ht_size_expr, HT_LOWER_RANK);

	for (int32_t i = 0; i < v->rank; i++)
		ends[i] = i == axis ? ht_size_number(v->dim[i]) : whole->ends[i];
	v->ends = ends;
	v->open = whole->open;
}

/* Whether the result may be in memory whose strides follow the run's sizes, of these axes, and its parts too.  Each part begins at a constant
 * place, so axes within that of the parts have constant extents.  The parts are no concatenations: these have other readers. */
bool lower_joins_open(const struct ht_node *n, const struct ht_open_axis *open)
{
	if (n->op == HT_OP_Pack)
		return false;
	for (int32_t i = concat_axis(n); i < n->out[0].shape.rank; i++)
		if (open[i].size)
			return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (is_value(n, i) && lower_is_concat(n->in[i].node))
			return false;
	return true;
}

static void concat_part(struct lower *l, const struct ht_node *n, int arg, struct view *v)
{
	const struct view *whole = &l->view[n->id][0];
	int32_t axis = concat_axis(n), rank = shape_of(n, arg).rank;

	*v = (struct view){ .buffer = whole->buffer,
		.rank = rank,
		.offset = whole->offset + part_starts(l, n)[arg] * whole->stride[axis] };
	for (int32_t i = 0; i < rank; i++) {
		v->dim[i] = shape_of(n, arg).dim[i];
		v->stride[i] = whole->stride[n->op == HT_OP_Pack && i >= axis ? i + 1 : i];
	}
	if (whole->ends)
		follow_run(l, whole, axis, v);
}

static bool same_view(const struct view *a, const struct view *b)
{
	return a->buffer == b->buffer && a->offset == b->offset &&
	       !memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride);
}

static enum ht_status emit_concat(struct lower *l, struct ht_node *n)
{
	for (int i = 0; i < n->ins; i++) {
		const struct view *from;
		struct view to;
		if (!is_value(n, i) || ht_shape_count(shape_of(n, i)) == 0)
			continue;
		concat_part(l, n, i, &to);
		from = lower_view(l, n->in[i]);
		if (!same_view(from, &to))
			emit_copy_of(l, n, n->in[i], from, &to);
	}
	return HT_OK;
}

static const char *refuse_concat(const struct ht_node *n)
{
	if (n->op != HT_OP_Pack && !is_const_ints(n, n->op == HT_OP_Concat ? 0 : n->ins - 1))
		return "needs a constant axis";
	return NULL;
}

/* Concat and Pack keep the rows if they join along another dimension. */
static bool joined_rows(const struct parts *p, const struct ht_node *n)
{
	struct ht_shape out = n->out[0].shape;
	bool pack = n->op == HT_OP_Pack;
	int32_t axis_arg = pack ? -1 : n->op == HT_OP_Concat ? 0 : n->ins - 1;
	int64_t axis = pack ? ht_attr_int(n, "axis", 0) : const_int(n, axis_arg, 0);

	if (axis_of(axis, out.rank) == 0)
		return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (i != axis_arg && !(has_rows(p, n, i) && shape_of(n, i).dim[0] == out.dim[0]))
			return false;
	return true;
}

const struct lower_op lower_concat = { .family = FAMILY_ROOT,
	.emit = emit_concat,
	.alone = true,
	.part = concat_part,
	.refuse = refuse_concat,
	.rows = joined_rows };
const struct lower_op lower_pack = { .family = FAMILY_ROOT,
	.emit = emit_concat,
	.alone = true,
	.part = concat_part,
	.rows = joined_rows };
