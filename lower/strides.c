/* Strides that follow the sizes of the run, in programs with open sizes within bounds.
 *
 * Tensors have the extents of the largest sizes.  If an axis that ends at the run's size lies behind others, as the width of images does,
 * strides of numbers leave a gap behind each of its lines: memory is touched in many places, and buffers cannot be laid closer together.
 * A view with `ends` has lines as long as the run's instead, so the stride of each axis in front is a number that depends on sizes.  An
 * index from the run's size on is then the place of another element: kernels may read there, but must not store. */
#include "lower/strides.h"

#include "lower/conv.h"
#include "lower/index.h"

/* ---- numbers as expressions ---- */

int32_t kb_number(struct kernel_build *k, const struct ht_size_expr *e)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xi(b, e->factor);

	for (int i = 0; i < HT_SIZE_FACTORS && e->size[i]; i++)
		x = ht_xmul(b, x, kb_size(k, e->size[i] - 1));
	x = ht_xaddi(b, x, e->add);
	if (e->divisor > 1)
		x = ht_xdivi(b, x, e->divisor);
	return ht_xmuli(b, x, e->times);
}

static bool follows(const struct view *v, int32_t axis)
{
	return v->ends && ht_size_count(&v->ends[axis]);
}

/* How many indices of the axis the memory has. */
static int32_t held(struct kernel_build *k, const struct view *v, int32_t axis)
{
	return follows(v, axis) ? kb_number(k, &v->ends[axis]) : ht_xi(&k->xb, v->dim[axis]);
}

int32_t kb_stride(struct kernel_build *k, const struct view *v, int32_t axis)
{
	struct ht_xb *b = &k->xb;
	int64_t fixed = v->stride[axis];
	int32_t x = ht_xi(b, 1);

	for (int32_t i = axis + 1; i < v->rank; i++)
		if (follows(v, i)) {
			HT_CHECK(fixed % v->dim[i] == 0);
			fixed /= v->dim[i];
			x = ht_xmul(b, x, held(k, v, i));
		}
	return ht_xmuli(b, x, fixed);
}

const int32_t *kb_ends(struct kernel_build *k, const struct view *v)
{
	int32_t *end = HT_NEW_ARRAY(k->arena, int32_t, (size_t)v->rank);

	for (int32_t i = 0; i < v->rank; i++)
		end[i] = held(k, v, i);
	return end;
}

void kb_number_as_held(struct kernel_build *k, struct space *s, const struct view *v)
{
	s->end = kb_ends(k, v);
	for (int32_t i = 0; i < s->groups; i++) {
		const struct ht_x *x = &k->stage->x[s->group[i].x];
		struct ht_size_expr end = ht_size_number(1);

		for (int32_t d = s->group[i].first; d <= s->group[i].last; d++)
			end = ht_size_product(end, v->ends[d]);
		if (x->op == HT_X_DIM && ht_size_count(&end) && !ht_size_is_none(&end))
			k->stage->dim[x->imm].cut[0] =
				(struct ht_cut){ end, k->stage->dim[x->imm].extent };
	}
}

/* ---- offsets ---- */

/* Whether the group numbers indices as they lie in memory. */
static bool numbers_as_held(struct kernel_build *k, const struct view *v, const struct space *s,
	const struct space_group *g)
{
	for (int32_t i = space_first(s, g) + 1; i <= g->last; i++) {
		int32_t numbered = s->end ? s->end[i] : ht_xi(&k->xb, s->dim[i]);

		if (s->dim[i] != 1 && numbered != held(k, v, i))
			return false;
	}
	return true;
}

static int32_t offset_of_group(struct kernel_build *k, const struct view *v, const struct space *s,
	const struct space_group *g)
{
	struct ht_xb *b = &k->xb;
	int32_t sum = ht_xi(b, 0), last;

	if (numbers_as_held(k, v, s, g) && space_is_linear(s, g, v->stride, &last))
		return last < 0 ? sum : ht_xmul(b, g->x, kb_stride(k, v, last));
	for (int32_t i = g->first; i <= g->last; i++)
		if (v->stride[i] && s->dim[i] != 1) {
			int32_t x = space_coord(b, s, i);

			sum = ht_xadd(b, sum, ht_xmul(b, x, kb_stride(k, v, i)));
		}
	return sum;
}

int32_t kb_offset(struct kernel_build *k, const struct view *v, const struct space *s, int64_t from)
{
	int32_t sum = ht_xi(&k->xb, from);

	if (!v->ends)
		return space_offset(&k->xb, s, v->stride, from);
	for (int32_t i = 0; i < s->groups; i++)
		sum = ht_xadd(&k->xb, sum, offset_of_group(k, v, s, &s->group[i]));
	return sum;
}

/* Whether axis `i`, which follows the run, is the first one of the tensor that has several indices: elements behind its end are no places
 * of others. */
static bool is_outermost(const struct view *v, int32_t i)
{
	while (i > 0 && v->dim[i - 1] == 1)
		i--;
	return i == 0;
}

static void guard_index(struct kernel_build *k, struct space *s, int32_t x, int32_t end)
{
	space_and_guard(&k->xb, s, ht_xlt(&k->xb, x, end));
}

/* Whether an index of axis `i` behind the run's end must not be used. */
static bool needs_guard(const struct view *v, int32_t i, bool all)
{
	return all || !is_outermost(v, i);
}

/* Whether the loop over the group's indices ends where the memory of the group does, so that no iteration needs a guard. */
static bool loop_ends_there(
	const struct kernel_build *k, const struct view *v, const struct space_group *g)
{
	const struct ht_x *x = &k->stage->x[g->x];
	struct ht_size_expr end = ht_size_number(1);
	const struct ht_dim *d;

	if (x->op != HT_X_DIM || k->stage->kind != HT_STAGE_LOOP || x->imm == k->stage->vec)
		return false;
	d = &k->stage->dim[x->imm];
	for (int32_t i = g->first; i <= g->last; i++)
		end = ht_size_product(end, v->ends[i]);
	return d->cut[0].run == d->extent && !d->cut[1].run && ht_size_equal(d->cut[0].end, end);
}

static void guard_group(struct kernel_build *k, const struct view *v, struct space *s,
	const struct space_group *g, bool all)
{
	int32_t end = ht_xi(&k->xb, 1), first = space_first(s, g);
	bool any = false;

	if (loop_ends_there(k, v, g))
		return;
	for (int32_t i = g->first; i <= g->last; i++) {
		any = any || follows(v, i);
		end = ht_xmul(&k->xb, end, held(k, v, i));
	}
	if (any && numbers_as_held(k, v, s, g)) {
		if (needs_guard(v, first, all))
			guard_index(k, s, g->x, end);
		return;
	}
	for (int32_t i = first; any && i <= g->last; i++)
		if (follows(v, i) && needs_guard(v, i, all))
			guard_index(k, s, space_coord(&k->xb, s, i), held(k, v, i));
}

void kb_guard_ends(struct kernel_build *k, const struct view *v, struct space *s, bool all)
{
	for (int32_t i = 0; v->ends && i < s->groups; i++)
		guard_group(k, v, s, &s->group[i], all);
}

/* ---- which tensors ---- */

/* Whether the kernel of `sink` is one with others. */
static bool is_joined(const struct lower *l, const struct ht_node *sink)
{
	return sink && (l->joined[sink->id] || l->place[sink->id] != PLACE_MEMORY);
}

/* Whether `n` gets the elements of operand `arg` by their coordinates. */
static bool reads_by_coordinates(const struct lower *l, const struct ht_node *n, int32_t arg)
{
	const struct lower_op *op = lower_op_of(n);

	if (is_joined(l, l->owner[n->id]))
		return false;
	return op->family == FAMILY_ROOT ? op->by_run && arg == 0
					 : op->family == FAMILY_MAP && lower_is_aligned(n);
}

static bool all_read_by_coordinates(const struct lower *l, const struct ht_node *n)
{
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0 && !reads_by_coordinates(l, u->node, u->arg))
			return false;
	return true;
}

bool lower_stores_by_coordinates(const struct lower *l, const struct ht_node *n)
{
	const struct ht_node *root = l->root[n->id];

	return !is_joined(l, n) && (!root || lower_op_of(root)->by_run);
}

/* The number of indices that a run has of axis `i`; a constant if others are needed, too. */
static struct ht_size_expr end_of(const struct lower *l, struct ht_value v, int32_t i)
{
	const struct ht_shape s = ht_type_of(v)->shape;
	const struct open_parts *all = lower_outside(l, v);
	const int64_t stride = ht_shape_stride(s, i);

	for (int32_t p = 0; all && p < all->n; p++) {
		const struct open_part *part = &all->part[p];

		if (!part->neutral && part->stride % stride == 0 &&
			part->stride * l->g->size[part->size - 1].most == stride * s.dim[i])
			return ht_size_multiple(part->stride / stride, part->size - 1);
	}
	return ht_size_number(s.dim[i]);
}

/* Whether some axis behind others ends at the run's size. */
static bool any_follows(const struct view *v)
{
	for (int32_t i = 1; i < v->rank; i++)
		if (follows(v, i) && !is_outermost(v, i))
			return true;
	return false;
}

static bool any_neutral(const struct open_parts *all)
{
	for (int32_t i = 0; all && i < all->n; i++)
		if (all->part[i].neutral)
			return true;
	return false;
}

void lower_open_view(const struct lower *l, struct view *view, const struct ht_open_axis *open)
{
	struct ht_size_expr *ends = HT_NEW_ARRAY(l->scratch, struct ht_size_expr, HT_LOWER_RANK);

	view->open = open;
	if (!open)
		return;
	for (int32_t i = 0; i < view->rank; i++) {
		ends[i] = ht_size_number(view->dim[i]);
		if (!open[i].size)
			continue;
		if (open[i].inner * l->g->size[open[i].size - 1].most != view->dim[i])
			return;
		ends[i] = ht_size_multiple(open[i].inner, open[i].size - 1);
	}
	view->ends = ends;
}

void lower_follow_run(const struct lower *l, struct ht_value v, struct view *view)
{
	const struct ht_node *n = v.node;
	struct ht_size_expr *ends;

	if (!l->outside || view->rank < 3 || n->outs != 1 || l->uses.is_output[n->id] ||
		l->planning->observed || any_neutral(lower_outside(l, v)) ||
		!lower_stores_by_coordinates(l, n) || !all_read_by_coordinates(l, n))
		return;
	ends = HT_NEW_ARRAY(l->scratch, struct ht_size_expr, (size_t)view->rank);
	for (int32_t i = 0; i < view->rank; i++)
		ends[i] = end_of(l, v, i);
	view->ends = ends;
	if (!any_follows(view))
		view->ends = NULL;
}

/* Whether kernels read only elements of operand `arg` of `n` that the run has.  Convolutions without a padded copy read rows of the image
 * without a guard. */
static bool reads_in_bounds(const struct lower *l, const struct ht_node *n, int32_t arg)
{
	struct conv v;

	if (!reads_by_coordinates(l, n, arg))
		return false;
	if (!ht_is(n, HT_CONV))
		return true;
	read_conv(n, &v);
	return conv_copies_image(&v);
}

bool lower_reads_input(struct lower *l, const struct ht_node *n, struct view *view)
{
	const struct view *in = l->view[n->in[0].node->id];

	if (!in || !in[n->in[0].index].open || !in[n->in[0].index].ends || l->planning->observed)
		return false;
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0 && !reads_in_bounds(l, u->node, u->arg))
			return false;
	*view = in[n->in[0].index];
	return true;
}
