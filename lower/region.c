/* Regions: which nodes share a kernel.
 *
 * First, forwards: each root takes the elementwise nodes behind it as its epilogue, as long as
 * the region has one exit.  Then, backwards: each other node joins the kernel of its users if
 * all of them are in the same kernel and each of its elements is computed about once; otherwise
 * it is a sink.  A named fusion that is switched off is not done.
 *
 * For numerics each node is a sink, so that each 16-bit tensor is in memory. */
#include "lower/inside.h"

/* A kernel has at most 64 buffers (kernel_build); some of them are its own. */
enum { MAX_EPILOGUE = 24, MAX_KERNEL_OPERANDS = 40 };

static int64_t count_of(const struct ht_node *n)
{
	return n->outs ? ht_shape_count(n->out[0].shape) : 0;
}

/* For prices, an op without a lowering is a kernel by itself (ht_fusion). */
static enum family family_of(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return op ? op->family : FAMILY_ROOT;
}

static bool stands_alone(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return !op || op->alone;
}

/* Whether the node keeps the order of elements, even if it changes the shape. */
static bool keeps_order(const struct ht_node *n)
{
	return ht_is(n, HT_RESHAPES | HT_FORWARDS);
}

bool lower_keeps_places(const struct ht_node *n)
{
	return lower_is_aligned(n) || keeps_order(n);
}

/* ---- forwards: epilogues ---- */

struct region {
	struct ht_node *node[MAX_EPILOGUE + 1];
	enum ht_fusion_id by[MAX_EPILOGUE + 1]; /* the fusion that put each node into it;
						 * HT_FUSION_END: one without a name */
	int n;
	bool scores; /* its root is the first product of attention */
};

static bool in_region(const struct region *r, const struct ht_node *n)
{
	for (int i = 0; i < r->n; i++)
		if (r->node[i] == n)
			return true;
	return false;
}

/* Whether the loops of convolution `root` end at the pixels of the run.  They store no neutral elements behind these. */
static bool ends_at_pixels(const struct ht_node *root)
{
	return ht_is(root, HT_CONV) &&
	       (lower_axis_end(root, 1).size || lower_axis_end(root, 2).size);
}

/* Why `u`, which computes elements, cannot join the region; NULL: it can. */
static const char *refusal(struct lower *l, const struct region *r, struct ht_node *u)
{
	int64_t count = count_of(r->node[0]);

	if (l->owner[u->id])
		return "is in another kernel";
	if (u->outs != 1 || count_of(u) != count)
		return "has another number of elements than the loop";
	if (!lower_keeps_places(u))
		return "takes its operands' elements in another order";
	if (ht_axes(u) == HT_AXES_WITHIN && ends_at_pixels(r->node[0]))
		return "stores elements behind the sizes of the run";
	for (int32_t i = 0; i < u->ins; i++)
		if (in_region(r, u->in[i].node) &&
			ht_shape_count(ht_type_of(u->in[i])->shape) != count)
			return "broadcasts what the loop makes";
	return NULL;
}

static bool may_join(struct lower *l, struct region *r, struct ht_node *u)
{
	const struct lower_op *op = lower_op_of(u);
	enum ht_fusion_id id;
	const char *why;

	if (!op || (op->family != FAMILY_MAP && op->family != FAMILY_VIEW))
		return false;
	id = r->by[r->n] = lower_name_behind(r->node[0], u, r->scores);
	why = refusal(l, r, u);
	if (id == HT_FUSION_END)
		return !why;
	if (why)
		ht_fusion_miss(l->fusions, id, 1, u, why);
	return !why && ht_fusion_on(l->fusions, id);
}

/* Whether all users of all nodes but the last are in the region. */
static bool one_exit(struct lower *l, const struct region *r)
{
	for (int i = 0; i + 1 < r->n; i++) {
		const struct ht_node *n = r->node[i];
		if (l->uses.is_output[n->id])
			return false;
		for (struct ht_use *u = l->uses.of[n->id]; u; u = u->next)
			if (u->arg >= 0 && !in_region(r, u->node))
				return false;
	}
	return true;
}

/* The first node, in the graph's order, that uses a value of the region and is not in it. */
static struct ht_node *next_user(struct lower *l, const struct region *r)
{
	struct ht_node *best = NULL;

	for (int i = 0; i < r->n; i++)
		for (struct ht_use *u = l->uses.of[r->node[i]->id]; u; u = u->next)
			if (u->arg >= 0 && !in_region(r, u->node) &&
				(!best || l->order[u->node->id] < l->order[best->id]))
				best = u->node;
	return best;
}

/* Counts each fusion once for each kernel. */
static void tell_of_region(struct lower *l, const struct region *r, int best)
{
	bool seen[HT_FUSION_END + 1] = { false };

	for (int i = 1; l->fusions && i < r->n; i++) {
		if (i >= best && r->by[i] != HT_FUSION_END)
			ht_fusion_miss(l->fusions, r->by[i], 2, r->node[best - 1],
				"has a user outside the loop");
		else if (r->by[i] != HT_FUSION_END && !seen[r->by[i]])
			ht_fusion_hit(l->fusions, r->by[i]);
		seen[r->by[i]] = true;
	}
}

static void grow(struct lower *l, struct ht_node *root)
{
	struct region r = { .node = { root }, .n = 1, .scores = lower_is_scores(l, root) };
	int best = 1, operands = root->ins;

	while (!l->numerics && !stands_alone(root) && r.n <= MAX_EPILOGUE) {
		struct ht_node *u = next_user(l, &r);
		if (!u || !may_join(l, &r, u) || (operands += u->ins) > MAX_KERNEL_OPERANDS)
			break;
		r.node[r.n++] = u;
		if (one_exit(l, &r))
			best = r.n;
		if (lower_op_of(u)->checks)
			break;
	}
	tell_of_region(l, &r, best);
	for (int i = 0; i < best; i++) {
		struct ht_node *n = r.node[i];
		l->owner[n->id] = r.node[best - 1];
		l->place[n->id] = i + 1 < best ? PLACE_INLINE : PLACE_MEMORY;
		l->kernel_operands[r.node[best - 1]->id] += n->ins;
	}
	l->root[r.node[best - 1]->id] = root;
}

/* ---- backwards: inlining ---- */

/* Copies, conversions and index maps: computing an element again costs almost nothing. */
static bool is_cheap(const struct ht_node *n)
{
	return family_of(n) == FAMILY_VIEW || ht_is(n, HT_CASTS);
}

static bool may_inline(const struct ht_node *n, const struct ht_use *use)
{
	const struct lower_op *op = lower_op_of(use->node);

	if (family_of(use->node) == FAMILY_ROOT || op->takes)
		return op && op->takes && op->takes(use->node, use->arg);
	return is_cheap(n) ||
	       count_of(use->node) <= ht_shape_count(n->out[use->node->in[use->arg].index].shape);
}

static struct ht_node *only_kernel(struct lower *l, const struct ht_node *n, enum ht_fusion_id *by)
{
	struct ht_node *kernel = NULL;

	*by = HT_FUSION_END;

	if (l->uses.is_output[n->id])
		return NULL;
	for (struct ht_use *u = l->uses.of[n->id]; u; u = u->next) {
		enum ht_fusion_id id;

		if (u->arg < 0)
			continue;
		if (!may_inline(n, u))
			return NULL;
		id = lower_name_before(l, n, u->node);
		if (kernel && l->owner[u->node->id] != kernel) {
			if (id != HT_FUSION_END)
				ht_fusion_miss(l->fusions, id, 1, n, "is used by several kernels");
			return NULL;
		}
		if (id != HT_FUSION_END && !ht_fusion_on(l->fusions, id))
			return NULL;
		*by = id;
		kernel = l->owner[u->node->id];
	}
	if (kernel && l->kernel_operands[kernel->id] + n->ins > MAX_KERNEL_OPERANDS)
		return NULL;
	return kernel;
}

static void settle(struct lower *l, struct ht_node *n)
{
	enum ht_fusion_id by = HT_FUSION_END;
	const struct lower_op *op = lower_op_of(n);
	/* _stored: what reads the node is a kernel that elsewhere reads its operand from memory, too. */
	bool alone = l->numerics || (op && op->checks) || ht_attr_bool(n, "_stored", false);
	struct ht_node *kernel = alone ? NULL : only_kernel(l, n, &by);

	if (kernel && by != HT_FUSION_END)
		ht_fusion_hit(l->fusions, by);
	l->place[n->id] = kernel ? PLACE_INLINE : PLACE_MEMORY;
	if (!kernel)
		kernel = n;
	l->owner[n->id] = kernel;
	l->kernel_operands[kernel->id] += n->ins;
}

void lower_regions(struct lower *l)
{
	for (struct ht_node *n = l->g->first; n; n = n->next) {
		enum family f = family_of(n);
		if (f == FAMILY_NOTHING)
			l->place[n->id] = PLACE_NOTHING;
		else if (f == FAMILY_SOURCE) {
			l->place[n->id] = PLACE_MEMORY;
			l->owner[n->id] = n;
		} else if (f == FAMILY_ROOT && !l->owner[n->id])
			grow(l, n);
	}
	for (struct ht_node *n = l->g->last; n; n = n->prev)
		if (family_of(n) != FAMILY_NOTHING && !l->owner[n->id])
			settle(l, n);
}
