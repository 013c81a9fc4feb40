/* The tee: shows every tensor of a program to the observer of its runs, although nodes are
 * fused.
 *
 * The program's own kernels stay unchanged, so its results have the same bits as without the
 * tee.  A tensor in memory between two kernels is shown there.  For a tensor inside of a kernel,
 * a second kernel, its *shadow*, computes that node alone before the kernel runs.  The shadow
 * reads operands from memory or from the shadows of other nodes, and keeps its result as wide as
 * the kernel does (round.c).  The memory of a shadow is reused once the observer has seen it and
 * no other shadow reads it, so only the tensors of one kernel are alive at a time. */
#include "lower/library.h"

#include <string.h>

static const int64_t *copy_dims(struct lower *l, const int64_t *from, int32_t rank)
{
	int64_t *to = HT_NEW_ARRAY(l->arena, int64_t, (size_t)rank);

	if (rank)
		memcpy(to, from, (size_t)rank * sizeof *to);
	return to;
}

static bool is_own(const struct ht_plan_buffer *b)
{
	return b->kind == HT_PLAN_TEMP || b->kind == HT_PLAN_OUTPUT || b->kind == HT_PLAN_RESULT;
}

static void note(struct lower *l, const struct ht_node *n, int32_t i, const struct view *v)
{
	struct ht_plan *p = l->plan;
	const struct ht_plan_buffer *b = &p->buffer[v->buffer];
	const struct ht_type *whole = l->whole ? l->whole[n->id] : NULL;

	p->tee = ht_grow(l->arena, p->tee, (size_t)p->tees, &l->planning->tee_cap, sizeof *p->tee);
	p->tee[p->tees++] = (struct ht_plan_tee){ .node = n,
		.result = i,
		.held = b->dtype,
		.rounded = b->dtype == n->out[i].dtype || !lower_stays_wide(l, l->owner[n->id], n),
		.own = is_own(b),
		.offset = v->offset,
		.rank = v->rank,
		.dim = copy_dims(l, v->dim, v->rank),
		.stride = copy_dims(l, v->stride, v->rank),
		.whole = whole ? &whole[i] : NULL };
}

void tee_results(struct lower *l, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		const struct view *v = &l->view[n->id][i];
		struct kernel_build k;

		if (v->buffer < 0 || view_count(v) == 0)
			continue;
		library_kernel(&k, l, "tee", 1, 1);
		k.params[0] = l->plan->tees;
		kb_arg(&k, v->buffer, HT_BUFFER_IN);
		kb_finish(&k, n);
		note(l, n, i, v);
	}
}

/* ---- tensors inside kernels ---- */

static bool is_readable(struct lower *l, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (!l->view[n->in[i].node->id] && !ht_const_tensor(n->in[i]))
			return false;
	return true;
}

/* Gives the shadow's result a place.  It has the wide type if the kernel does not round it. */
static void place_shadow(struct lower *l, const struct ht_node *n)
{
	struct view *v = HT_NEW_ARRAY(l->scratch, struct view, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++) {
		enum ht_dtype t =
			l->shadow_stays_wide ? compute_type(n->out[i].dtype) : n->out[i].dtype;

		view_dense(&v[i], plan_buffer(l, HT_PLAN_TEMP, t, ht_shape_count(n->out[i].shape)),
			n->out[i].shape);
	}
	l->view[n->id] = v;
}

/* Makes a kernel of `n` alone.  If its results are not in memory yet, they get memory. */
static enum ht_status make_shadow(struct lower *l, struct ht_node *n)
{
	struct ht_node *owner = l->owner[n->id], *root = l->root[n->id];
	enum ht_status st;

	l->shadow_stays_wide = lower_stays_wide(l, owner, n);
	l->shadow = n;
	l->owner[n->id] = n;
	l->root[n->id] = lower_op_of(n)->family == FAMILY_ROOT ? n : NULL;
	if (!l->view[n->id])
		place_shadow(l, n);
	st = lower_kernel(l, n);
	l->shadow = NULL;
	l->owner[n->id] = owner;
	l->root[n->id] = root;
	return st;
}

bool tee_can_be_alone(struct lower *l, const struct ht_node *n)
{
	return l->asked->tee == HT_LOWER_TEE_ALONE && !ht_op_info(n->op)->effects &&
	       is_readable(l, n);
}

enum ht_status tee_alone(struct lower *l, struct ht_node *n)
{
	return make_shadow(l, n);
}

/* A node with an effect has no shadow: it must run once. */
enum ht_status tee_inside(struct lower *l, struct ht_node *n)
{
	if (!n->outs || ht_op_info(n->op)->effects || !is_readable(l, n))
		return HT_OK;
	HT_TRY(make_shadow(l, n));
	tee_results(l, n);
	return HT_OK;
}
