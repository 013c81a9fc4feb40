/* The tee: shows every tensor of a program to the observer of its runs, although nodes are
 * fused.
 *
 * The program's kernels compute what they compute without the tee, so its results have the same
 * bits.  A tensor in memory between two kernels is shown there.  Of tensors inside of a kernel there
 * are two kinds.  Where the kernel computes each element of the tensor once, at the same place as the
 * sink's, it stores that element too, as wide as it keeps it (round.c).  For any other tensor a second
 * kernel, its *shadow*, computes that node alone before the kernel runs.  The shadow reads operands
 * from memory or from the shadows of other nodes, and keeps its result as wide as the kernel does.  The memory
 * of these tensors is reused once the observer has seen them and no shadow reads them, so only the tensors
 * of one kernel are alive at a time.  Kernels are not joined (joined.c), which changes no bit. */
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

/* Gives the result of a node inside a kernel a place.  It has the wide type if the kernel does not round it. */
static void place_inner(struct lower *l, const struct ht_node *n, bool stays_wide)
{
	struct view *v = HT_NEW_ARRAY(l->scratch, struct view, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++) {
		enum ht_dtype t = stays_wide ? compute_type(n->out[i].dtype) : n->out[i].dtype;

		if (tee_in_place(l, n, t, &v[i]))
			continue;
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
		place_inner(l, n, l->shadow_stays_wide);
	st = lower_kernel(l, n);
	l->shadow = NULL;
	l->owner[n->id] = owner;
	l->root[n->id] = root;
	return st;
}

/* ---- tensors inside kernels that these kernels store ---- */

/* Each is one more buffer of a kernel, which has at most 64 (region.c). */
enum { MOST_STORED = 12 };

/* A contraction hands each element of its result to its epilogue once (kb_store_root()), and so does a loop over the sink's elements
 * with those of the sink. */
static bool can_store(const struct lower *l, const struct ht_node *sink)
{
	const struct ht_node *root = l->root[sink->id];

	return sink->outs == 1 && (!root || ht_is(root, HT_CONTRACTS));
}

/* Whether `user` reads each element of `n` for the element at the same place of its own result. */
static bool reads_in_place(const struct ht_node *n, const struct ht_node *user)
{
	return user->outs == 1 && lower_keeps_places(user) &&
	       ht_shape_count(user->out[0].shape) == ht_shape_count(n->out[0].shape);
}

/* Whether computing the node cannot fail.  Where an operand is checked, or an index, a shadow runs before the kernel: a fault then has the
 * name of this node. */
static bool cannot_fail(const struct lower *l, const struct ht_node *n)
{
	return !ht_checks_second(n) && (n == l->root[l->owner[n->id]->id] || lower_keeps_places(n));
}

/* Asked of users first. */
static bool can_be_stored(const struct lower *l, const struct ht_node *n)
{
	const struct ht_node *sink = l->owner[n->id];

	if (l->place[n->id] != PLACE_INLINE || n->outs != 1 || ht_op_info(n->op)->effects ||
		!can_store(l, sink) || !cannot_fail(l, n))
		return false;
	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0 && (!reads_in_place(n, u->node) ||
					   (u->node != sink && !l->stored[u->node->id].is)))
			return false;
	return true;
}

/* All such nodes of a kernel are stored, or none: a shadow, which runs before the kernel, may read none of them. */
static void keep_few(const struct lower *l, struct inner_stores *of_sink)
{
	const struct ht_node *n = of_sink->first;
	int count = 0;

	for (; n; n = l->stored[n->id].next)
		count++;
	if (count <= MOST_STORED)
		return;
	for (n = of_sink->first; n; n = l->stored[n->id].next)
		l->stored[n->id].is = false;
	of_sink->first = NULL;
}

static void find_stored(struct lower *l)
{
	l->stored = HT_NEW_ARRAY(l->scratch, struct inner_stores, l->g->ids);
	for (const struct ht_node *n = l->g->last; n; n = n->prev) {
		struct inner_stores *s = &l->stored[n->id], *sink;

		if (!can_be_stored(l, n))
			continue;
		sink = &l->stored[l->owner[n->id]->id];
		*s = (struct inner_stores){ .is = true, .next = sink->first };
		sink->first = n;
	}
	for (const struct ht_node *n = l->g->first; n; n = n->next)
		keep_few(l, &l->stored[n->id]);
}

void kb_tee(struct kernel_build *k, const struct ht_node *n, const struct space *s, int32_t x)
{
	const struct view *v = k->l->view[n->id];
	struct space at;

	if (!k->l->stored || !k->l->stored[n->id].is || k->l->shadow)
		return;
	at = space_reshape(&k->xb, s, v->rank, v->dim);
	kb_store(k, v, &at, x);
}

void tee_stored(struct lower *l, const struct ht_node *sink)
{
	const struct ht_node *n = l->stored ? l->stored[sink->id].first : NULL;

	for (; n; n = l->stored[n->id].next)
		tee_results(l, n);
}

/* ---- nodes that have a kernel of their own each ---- */

/* Whether each node of the kernel of `sink` can have one (tee_can_be_alone()), so that no kernel reads operands of several nodes. */
static void find_apart(struct lower *l)
{
	bool *mixes = HT_NEW_ARRAY(l->scratch, bool, l->g->ids); /* by node id of a sink */

	for (const struct ht_node *n = l->g->first; n; n = n->next) {
		const struct lower_op *op = lower_op_of(n);

		if (l->owner[n->id] && (ht_op_info(n->op)->effects || op->variables ||
					       op->takes_text || op->family == FAMILY_NOTHING))
			mixes[l->owner[n->id]->id] = true;
	}
	l->apart = HT_NEW_ARRAY(l->scratch, bool, l->g->ids);
	for (const struct ht_node *n = l->g->first; n; n = n->next)
		l->apart[n->id] = l->owner[n->id] && !mixes[l->owner[n->id]->id];
}

static bool is_only_read_by(struct lower *l, const struct ht_node *n, const struct ht_node *user)
{
	int reads = 0;

	for (const struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
		if (u->arg >= 0 && (u->node != user || reads++))
			return false;
	return n->outs == 1 && !l->uses.is_output[n->id];
}

/* Whether the result of `n`, whose elements are of type `held`, is all that is in its memory.  In that of a concatenation its operands may lie. */
static bool is_alone_in_memory(struct lower *l, const struct ht_node *n, enum ht_dtype held)
{
	const struct view *v = l->view[n->id];
	const struct ht_plan_buffer *b = v && v->buffer >= 0 ? &l->plan->buffer[v->buffer] : NULL;

	return b && b->kind == HT_PLAN_TEMP && b->dtype == held && l->place[n->id] != PLACE_VIEW &&
	       !lower_op_of(n)->part && view_is_dense(v) && !v->offset && !v->open &&
	       b->bytes == (size_t)view_count(v) * ht_dtype_info(held)->bytes;
}

bool tee_in_place(struct lower *l, const struct ht_node *n, enum ht_dtype held, struct view *v)
{
	const struct lower_op *op = lower_op_of(n);

	if (!l->apart || !l->apart[n->id] || n->outs != 1 || op->family != FAMILY_MAP ||
		!lower_is_aligned(n))
		return false;
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_node *from = n->in[i].node;

		if (ht_shape_eq(from->out[n->in[i].index].shape, n->out[0].shape) &&
			is_only_read_by(l, from, n) && is_alone_in_memory(l, from, held)) {
			*v = *l->view[from->id];
			return true;
		}
	}
	return false;
}

bool tee_can_be_alone(struct lower *l, const struct ht_node *n)
{
	return l->asked->tee == HT_LOWER_TEE_ALONE && !ht_op_info(n->op)->effects &&
	       is_readable(l, n);
}

void tee_begin(struct lower *l)
{
	if (l->asked->tee == HT_LOWER_TEE_ALL)
		find_stored(l);
	else if (l->asked->tee == HT_LOWER_TEE_ALONE)
		find_apart(l);
}

enum ht_status tee_alone(struct lower *l, struct ht_node *n)
{
	return make_shadow(l, n);
}

/* A node with an effect has no shadow: it must run once. */
enum ht_status tee_inside(struct lower *l, struct ht_node *n)
{
	if (l->stored && l->stored[n->id].is) {
		place_inner(l, n, lower_stays_wide(l, l->owner[n->id], n));
		return HT_OK;
	}
	if (!n->outs || ht_op_info(n->op)->effects || !is_readable(l, n))
		return HT_OK;
	HT_TRY(make_shadow(l, n));
	tee_results(l, n);
	return HT_OK;
}
