/* Parts of what is put together along a computed size, for pass sizes.
 *
 * A slice that takes one operand of a concatenation becomes that operand; through a gather, a gather by that operand.  The gradient of
 * such slices is a sum of their gradients, each padded with zeros to the whole: this becomes a concatenation.  (A sum gives 0 for -0;
 * otherwise it has the same bits.)  So a sampled loss, which looks up classes of labels and of samples together, has no slice of an
 * extent that depends on data.
 *
 * A slice to the end of an axis that takes a number of elements, as sums of sizes say, states that number.
 *
 * Begins, extents and paddings are compared as sums of sizes (computed_sums.h): how many elements a concatenation has is no size
 * by itself. */
#include "passes/computed_nodes.h"
#include "passes/computed_sums.h"

enum { MOST_PARTS = 16 };

/* ---- slices ---- */

static bool takes_rest(const struct ht_node *n, int32_t axis)
{
	return ht_sum_is(ht_sum_element(n, 2, axis), -1);
}

static bool takes_all(const struct ht_node *n, int32_t axis)
{
	return ht_sum_is(ht_sum_element(n, 1, axis), 0) &&
	       (takes_rest(n, axis) ||
		       ht_sum_equal(ht_sum_element(n, 2, axis), ht_sum_extent(n->in[0], axis)));
}

/* The only axis of which a Slice may take a part; -1: there are none, or several. */
static int32_t sliced_axis(const struct ht_node *n)
{
	int32_t axis = -1, rank = ht_in_shape(n, 0).rank;

	for (int32_t i = 0; i < rank; i++) {
		if (takes_all(n, i))
			continue;
		if (axis >= 0)
			return -1;
		axis = i;
	}
	return axis;
}

/* The operand of a concatenation along `axis` that Slice n takes along its axis `of`; -1: it takes none. */
static int32_t taken_part(
	const struct ht_node *joined, int32_t axis, const struct ht_node *n, int32_t of)
{
	int32_t parts = joined->ins - 1;
	struct ht_sum at = ht_sum_number(0), begin = ht_sum_element(n, 1, of),
		      size = ht_sum_element(n, 2, of);

	if (joined->op != HT_OP_ConcatV2 ||
		ht_stated_axis(joined, parts, ht_in_shape(joined, 0).rank) != axis)
		return -1;
	for (int32_t i = 0; i < parts; i++) {
		struct ht_sum extent_of_part = ht_sum_extent(joined->in[i], axis);

		if (ht_sum_equal(begin, at) && (ht_sum_equal(size, extent_of_part) ||
						       (i + 1 == parts && takes_rest(n, of))))
			return i;
		at = ht_sum_plus(at, extent_of_part, 1);
	}
	return -1;
}

/* A gather as `n` by other indices, in front of `at`. */
static struct ht_value gathered_by(
	struct ht_rw *r, struct ht_node *at, const struct ht_node *n, struct ht_value indices)
{
	static const char *const attr[] = { "Tparams", "Tindices", "Taxis", "batch_dims" };
	struct ht_node *to = ht_rw_node(r, at, HT_OP_GatherV2, at->name,
		(struct ht_value[]){ n->in[0], indices, n->in[2] }, 3, at->out[0]);

	for (size_t i = 0; i < HT_COUNT(attr); i++)
		ht_rw_copy_attr(to, n, attr[i]);
	return ht_out(to, 0);
}

/* A Slice to the end of an axis states how many elements that is, if it is a number. */
static bool state_rest(struct ht_rw *r, struct ht_node *n, int32_t axis)
{
	struct ht_sum rest =
		ht_sum_plus(ht_sum_extent(n->in[0], axis), ht_sum_element(n, 1, axis), -1);
	int64_t size[HT_MAX_RANK];

	if (!takes_rest(n, axis) || !rest.known || rest.terms || rest.number < 0)
		return false;
	for (int32_t i = 0; i < ht_in_shape(n, 0).rank; i++)
		size[i] = i == axis ? rest.number : -1;
	ht_rw_set_in(r, n, 2,
		ht_rw_const_ints(
			r, n, n->name, ht_type_of(n->in[2])->dtype, size, ht_in_shape(n, 0).rank));
	return true;
}

static bool take_part(struct ht_rw *r, struct ht_node *n)
{
	int32_t axis = sliced_axis(n), along, part;
	const struct ht_node *x = n->in[0].node;

	if (axis < 0)
		return false;
	part = taken_part(x, axis, n, axis);
	if (part >= 0) {
		ht_rw_take_place(r, n, x->in[part]);
		return true;
	}
	if (!ht_is_plain_gather(x, &along) || axis < along ||
		axis >= along + ht_in_shape(x, 1).rank)
		return state_rest(r, n, axis);
	part = taken_part(x->in[1].node, axis - along, n, axis);
	if (part < 0)
		return state_rest(r, n, axis);
	ht_rw_take_place(r, n, gathered_by(r, n, x, x->in[1].node->in[part]));
	return true;
}

/* ---- sums of padded parts ---- */

/* A Pad of zeros along one axis. */
struct padded {
	struct ht_value of;
	struct ht_sum before, extent, behind;
};

static bool read_padded(struct ht_value v, int32_t axis, struct padded *p)
{
	const struct ht_node *n = v.node;
	int32_t rank = ht_type_of(v)->shape.rank;

	if (n->op != HT_OP_Pad || axis >= rank)
		return false;
	for (int32_t i = 0; i < 2 * rank; i++)
		if (i / 2 != axis && !ht_sum_is(ht_sum_element(n, 1, i), 0))
			return false;
	*p = (struct padded){ .of = n->in[0],
		.before = ht_sum_element(n, 1, 2 * axis),
		.extent = ht_sum_extent(n->in[0], axis),
		.behind = ht_sum_element(n, 1, 2 * axis + 1) };
	return p->before.known && p->extent.known && p->behind.known;
}

/* Puts the parts in their order, from the first element on; false: they overlap, or leave something out. */
static bool order(struct padded *p, int32_t parts)
{
	struct ht_sum at = ht_sum_number(0);

	for (int32_t i = 0; i < parts; i++) {
		struct padded next;
		int32_t k = i;

		while (k < parts && !ht_sum_equal(p[k].before, at))
			k++;
		if (k == parts)
			return false;
		next = p[k];
		p[k] = p[i];
		p[i] = next;
		at = ht_sum_plus(at, next.extent, 1);
	}
	return ht_sum_is(p[parts - 1].behind, 0);
}

static void put_together(
	struct ht_rw *r, struct ht_node *n, const struct padded *p, int32_t parts, int32_t axis)
{
	struct ht_value in[MOST_PARTS + 1];
	struct ht_node *to;

	for (int32_t i = 0; i < parts; i++)
		in[i] = p[i].of;
	in[parts] = ht_rw_scalar(r, n, n->name, HT_I32, axis);
	to = ht_rw_node(r, n, HT_OP_ConcatV2, n->name, in, parts + 1, n->out[0]);
	ht_rw_take_place(r, n, ht_out(to, 0));
}

static bool join_padded(struct ht_rw *r, struct ht_node *n)
{
	struct padded p[MOST_PARTS];

	int32_t rank = n->ins > 1 && n->ins <= MOST_PARTS ? n->out[0].shape.rank : -1;

	for (int32_t axis = 0; axis < rank; axis++) {
		int32_t parts = 0;

		while (parts < n->ins && read_padded(n->in[parts], axis, &p[parts]))
			parts++;
		if (parts < n->ins || !order(p, parts))
			continue;
		put_together(r, n, p, parts, axis);
		return true;
	}
	return false;
}

/* ---- every node ---- */

static bool is_unknown(const struct ht_graph *g, struct ht_shape s)
{
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_dim_most(g, s.dim[i]) < 0 || s.dim[i] < 0)
			return true;
	return false;
}

static bool is_of_unknown(const struct ht_graph *g, const struct ht_node *n)
{
	return is_unknown(g, n->out[0].shape) || is_unknown(g, ht_in_shape(n, 0));
}

static bool take(struct maker *f, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Slice:
		return take_part(f->r, n);
	case HT_OP_AddN:
	case HT_OP_Add:
	case HT_OP_AddV2:
		return join_padded(f->r, n);
	default:
		return false;
	}
}

/* What each node is changed by: slices and sums first, since they may be all that uses a padding or a concatenation. */
static bool take_each(struct maker *f, bool (*change)(struct maker *f, struct ht_node *n))
{
	struct ht_node **all;
	bool changed = false;
	size_t n;

	all = ht_rw_nodes(f->r, &n);
	for (size_t i = 0; i < n; i++) {
		make_at(f, all[i]);
		if (is_replaceable(f) && f->at->outs && f->at->ins && is_of_unknown(f->r->g, f->at))
			changed = change(f, f->at) || changed;
	}
	return changed;
}

bool ht_take_pieces(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw_within within;
	struct ht_rw r;
	struct maker f = { .r = &r };

	ht_rw_init_within(&r, &within, g, c);
	return take_each(&f, take) || take_each(&f, ht_fill_up);
}
