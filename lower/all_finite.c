/* _AllFinite: whether no element of some tensors is infinite or NaN.
 *
 * A kernel that stores such a tensor knows its elements, so it also stores a flag for each of its tiles: whether all values that the
 * tile stored are finite (fusion `finite`).  The first stage of a tile sets the flag; where a value is not finite, its store comes
 * with one that clears the flag.  Threads share no flag, since a tile is computed by one of them, and all stores that clear a flag
 * store the same.  _AllFinite then reads flags, not the tensor.
 *
 * A tensor that is stored in another way, such as an input or sums that are scattered in place, gets a kernel that reads its elements
 * and has such flags.  So does an operand that no other node reads: it is computed in that kernel. */
#include "lower/index.h"

#include <math.h>
#include <string.h>

/* A kernel has at most 64 buffers (kernel_build). */
enum { MOST_FLAGS = 48 };

/* ---- flags of tiles ---- */

static void add(struct lower *l, struct tile_flags *f, int32_t buffer)
{
	f->buffer = ht_grow(l->scratch, f->buffer, (size_t)f->buffers, &f->cap, sizeof *f->buffer);
	f->buffer[f->buffers++] = buffer;
}

static int32_t tile_number(struct kernel_build *k)
{
	struct ht_xb *b = &k->xb;
	int32_t x = ht_xi(b, 0);

	for (int g = 0; g < k->kernel->grid_dims; g++)
		x = ht_xadd(b, ht_xmuli(b, x, k->kernel->grid[g]), ht_xgrid(b, g));
	return x;
}

/* Stores `value` as the flag of the tile, if `guard` (-1: always). */
static void store_flag(struct kernel_build *k, bool value, int32_t guard)
{
	const int64_t tiles = ht_kernel_tiles(k->kernel);
	struct space s = { .rank = 1, .groups = 1, .dim = { tiles }, .guard = guard };
	struct view v;

	s.group[0] = (struct space_group){ 0, 0, tile_number(k) };
	view_dense(&v, k->flags - 1, (struct ht_shape){ 1, &tiles });
	kb_store(k, &v, &s, ht_xconst(&k->xb, HT_BOOL, value, value));
}

/* Clears the flag where x, of F32 or F64, is not finite; guard (-1: true) says where x counts. */
static void flag(struct kernel_build *k, int32_t guard, int32_t x)
{
	struct ht_xb *b = &k->xb;
	const enum ht_dtype t = ht_xtype(b, x);
	struct space s = { .guard = guard };

	if (!k->flags)
		k->flags = 1 + plan_buffer(k->l, HT_PLAN_TEMP, HT_BOOL, ht_kernel_tiles(k->kernel));
	space_and_guard(b, &s, ht_xnot(b, ht_xlt(b, ht_xabs(b, x), ht_xk(b, t, INFINITY))));
	store_flag(k, false, s.guard);
}

void kb_flag_result(
	struct kernel_build *k, int32_t i, const struct space *s, enum ht_dtype t, int32_t x)
{
	struct lower *l = k->l;
	struct tile_flags *f = k->sink && !l->shadow ? l->flags[k->sink->id] : NULL;
	bool first = !k->flags;

	if (!f)
		return;
	flag(k, s->guard, ht_xcvt(&k->xb, compute_type(t), ht_xcvt(&k->xb, t, x)));
	if (first)
		add(l, &f[i], k->flags - 1);
}

void kb_set_flags(struct kernel_build *k)
{
	struct ht_kernel *kernel = k->kernel;
	struct ht_stage set;

	HT_CHECK(k->l->plan->buffer[k->flags - 1].bytes == (size_t)ht_kernel_tiles(kernel));
	kb_stage(k, HT_STAGE_LOOP);
	store_flag(k, true, -1);
	set = *k->stage;
	memmove(kernel->stage + 1, kernel->stage,
		(size_t)(kernel->stages - 1) * sizeof *kernel->stage);
	kernel->stage[0] = set;
}

/* ---- of which tensors ---- */

/* The operand that has the same elements as result `v`; node NULL: none has by itself. */
static struct ht_value same_elements(struct ht_value v)
{
	const struct ht_node *n = v.node;

	if (ht_is(n, HT_RESHAPES))
		return n->in[0];
	return ht_is(n, HT_FORWARDS) ? n->in[v.index] : (struct ht_value){ .node = NULL };
}

/* The kernel of a sink stores all of its result and nothing else there. */
static bool is_sink(const struct lower *l, const struct ht_node *n)
{
	return l->place[n->id] == PLACE_MEMORY && l->owner[n->id] == n && !l->joined[n->id];
}

static void want(struct lower *l, struct ht_value v)
{
	for (; v.node; v = same_elements(v))
		if (is_sink(l, v.node) && !lower_outside(l, v) && !l->flags[v.node->id])
			l->flags[v.node->id] =
				HT_NEW_ARRAY(l->scratch, struct tile_flags, (size_t)v.node->outs);
}

/* The flags of the kernels that stored `v`; NULL: there are none. */
static const struct tile_flags *flags_of(const struct lower *l, struct ht_value v)
{
	for (; v.node; v = same_elements(v)) {
		const struct tile_flags *f = l->flags[v.node->id];

		if (f && f[v.index].buffers)
			return &f[v.index];
	}
	return NULL;
}

/* ---- the check ---- */

/* Elements outside of a run's sizes do not count: their values are arbitrary. */
static void only_inside(struct kernel_build *k, const struct open_parts *outside, struct space *s)
{
	struct ht_xb *b = &k->xb;

	for (int32_t i = 0; outside && i < outside->n; i++) {
		const struct open_part *p = &outside->part[i];
		const int64_t most = k->l->g->size[p->size - 1].most;
		int32_t at = ht_xmodi(b, ht_xdivi(b, space_linear(b, s), p->stride), most);

		space_and_guard(b, s, ht_xlt(b, at, kb_size(k, p->size - 1)));
	}
}

/* Makes a kernel with flags that reads operand `arg`, whose name follows the check's in reports.  Returns the flags' buffer. */
static int32_t read_operand(struct lower *l, const struct ht_node *n, int32_t arg)
{
	const struct ht_shape shape = shape_of(n, arg);
	const struct open_parts *outside = lower_outside(l, n->in[arg]);
	struct kernel_build k;
	struct space s;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(
		&k, shape.rank, shape.dim, outside ? ~0u : kb_boundaries(l, k.sink, n->in[arg]));
	kb_cut_space(&k, &s, n->in[arg]);
	only_inside(&k, outside, &s);
	flag(&k, s.guard, kb_pull_arg(&k, n, arg, &s));
	kb_finish(&k, n);
	l->plan->step[l->plan->steps - 1].node = ht_str_printf(
		l->arena, "%.*s/%.*s", HT_STR_ARG(n->name), HT_STR_ARG(n->in[arg].node->name));
	return k.flags - 1;
}

static void add_operand(
	struct lower *l, const struct ht_node *n, int32_t arg, struct tile_flags *all)
{
	const struct tile_flags *f = flags_of(l, n->in[arg]);

	if (ht_shape_count(shape_of(n, arg)) == 0)
		return;
	if (f) {
		for (int32_t i = 0; i < f->buffers; i++)
			add(l, all, f->buffer[i]);
		ht_fusion_hit(l->fusions, HT_FUSION_finite);
		return;
	}
	if (!lower_is_inside(l, l->owner[n->id], n->in[arg].node))
		ht_fusion_miss(l->fusions, HT_FUSION_finite, 1, n->in[arg].node,
			"is not stored by a kernel that notes whether its values are finite");
	add(l, all, read_operand(l, n, arg));
}

static void store_result(struct kernel_build *k, const struct ht_node *n, bool value, int32_t guard)
{
	const struct space s = { .guard = guard };

	kb_store(k, &k->l->view[n->id][0], &s, ht_xconst(&k->xb, HT_BOOL, value, value));
}

/* Adds a stage to `k` that makes the result false where a flag of `buffer` is. */
static void add_flags(struct kernel_build *k, const struct ht_node *n, int32_t buffer)
{
	const int64_t tiles = (int64_t)k->l->plan->buffer[buffer].bytes;
	struct space s = { .rank = 1, .groups = 1, .dim = { tiles }, .guard = -1 };
	struct view v;

	kb_stage(k, HT_STAGE_LOOP);
	k->stage->vec = kb_dim(k, tiles);
	s.group[0] = (struct space_group){ 0, 0, ht_xdim(&k->xb, k->stage->vec) };
	view_dense(&v, buffer, (struct ht_shape){ 1, &tiles });
	store_result(k, n, false, ht_xnot(&k->xb, kb_load(k, &v, &s)));
}

static enum ht_status emit_all_finite(struct lower *l, struct ht_node *n)
{
	struct tile_flags all = { .buffers = 0 };
	int32_t i = 0;

	for (int32_t arg = 0; arg < n->ins; arg++)
		add_operand(l, n, arg, &all);
	do {
		const int32_t end = i + MOST_FLAGS < all.buffers ? i + MOST_FLAGS : all.buffers;
		struct kernel_build k;

		kb_init(&k, l, n);
		if (i == 0) {
			kb_stage(&k, HT_STAGE_LOOP);
			store_result(&k, n, true, -1);
		}
		for (; i < end; i++)
			add_flags(&k, n, all.buffer[i]);
		kb_finish(&k, n);
	} while (i < all.buffers);
	return HT_OK;
}

/* A run with an observer that replaces tensors by others has none: they would tell of what was replaced. */
void lower_want_flags(struct lower *l)
{
	if (l->asked->tee == HT_LOWER_TEE_ALONE || !ht_fusion_on(l->fusions, HT_FUSION_finite))
		return;
	for (struct ht_node *n = l->g->first; n; n = n->next)
		for (int32_t i = 0; lower_op_of(n)->emit == emit_all_finite && i < n->ins; i++)
			want(l, n->in[i]);
}

static bool takes_any(const struct ht_node *n, int arg)
{
	(void)n;
	(void)arg;
	return true;
}

const struct lower_op lower_all_finite = {
	.family = FAMILY_ROOT, .alone = true, .emit = emit_all_finite, .takes = takes_any
};
