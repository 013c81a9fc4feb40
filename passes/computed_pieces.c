/* Parts of what is put together along a computed size, for pass sizes.
 *
 * A slice that takes one operand of a concatenation becomes that operand; through a gather, a gather by that operand.  The gradient of
 * such slices is a sum of their gradients, each padded with zeros to the whole: this becomes a concatenation.  (A sum gives 0 for -0;
 * otherwise it has the same bits.)  So a sampled loss, which looks up classes of labels and of samples together, has no slice of an
 * extent that depends on data.
 *
 * Begins, extents and paddings are compared as sums of sizes (struct sum): how many elements a concatenation has is no size
 * by itself. */
#include "ir/infer.h"
#include "passes/computed.h"

enum { TERMS = 4, DEPTH = 32, MOST_PARTS = 16 };

/* A number and sizes, each a symbolic dimension times a factor. */
struct sum {
	bool known;
	int64_t number;
	int32_t terms;
	int64_t dim[TERMS], times[TERMS];
};

/* ---- sums ---- */

static struct sum of_number(int64_t number)
{
	return (struct sum){ .known = true, .number = number };
}

static struct sum of_dim(int64_t dim)
{
	if (dim >= 0)
		return of_number(dim);
	return dim == HT_DIM_UNKNOWN
		       ? (struct sum){ .known = false }
		       : (struct sum){ .known = true, .terms = 1, .dim = { dim }, .times = { 1 } };
}

static void drop_term(struct sum *s, int32_t i)
{
	s->terms--;
	s->dim[i] = s->dim[s->terms];
	s->times[i] = s->times[s->terms];
}

static void add_term(struct sum *s, int64_t dim, int64_t times)
{
	int32_t i = 0;

	while (i < s->terms && s->dim[i] != dim)
		i++;
	if (i == TERMS) {
		s->known = false;
		return;
	}
	if (i == s->terms) {
		s->dim[s->terms] = dim;
		s->times[s->terms++] = 0;
	}
	if (__builtin_add_overflow(s->times[i], times, &s->times[i]))
		s->known = false;
	else if (!s->times[i])
		drop_term(s, i);
}

/* a + b, or a - b; factors and sign are small, as each term is of one operand of a node. */
static struct sum plus(struct sum a, struct sum b, int64_t sign)
{
	int64_t number;

	a.known = a.known && b.known && !__builtin_mul_overflow(b.number, sign, &number) &&
		  !__builtin_add_overflow(a.number, number, &a.number);
	for (int32_t i = 0; i < b.terms && a.known; i++) {
		int64_t times;

		a.known = !__builtin_mul_overflow(b.times[i], sign, &times);
		if (a.known)
			add_term(&a, b.dim[i], times);
	}
	return a;
}

static bool is_equal(struct sum a, struct sum b)
{
	struct sum rest = plus(a, b, -1);

	return rest.known && !rest.terms && !rest.number;
}

static bool is_number(struct sum s, int64_t number)
{
	return s.known && !s.terms && s.number == number;
}

/* ---- extents and elements as sums ---- */

static struct sum element(struct ht_value v, int64_t i, int depth);
static struct sum extent(struct ht_value v, int32_t axis, int depth);

/* The axis of a node whose last operand states it; -1: it is not known. */
static int32_t stated_axis(const struct ht_node *n, int32_t arg, int32_t rank)
{
	int64_t axis;
	int one;

	return rank >= 0 && ht_const_small_ints(n->in[arg], &axis, 1, &one) &&
			       ht_fix_axis(&axis, rank)
		       ? (int32_t)axis
		       : -1;
}

static struct sum extent_of_concat(const struct ht_node *n, int32_t axis, int depth)
{
	int32_t along = stated_axis(n, n->ins - 1, ht_in_shape(n, 0).rank);
	struct sum s = of_number(0);

	if (along < 0)
		return (struct sum){ .known = false };
	if (along != axis)
		return extent(n->in[0], axis, depth);
	for (int32_t i = 0; i + 1 < n->ins; i++)
		s = plus(s, extent(n->in[i], axis, depth), 1);
	return s;
}

/* Whether each index takes one slice along an axis that is known. */
static bool is_plain_gather(const struct ht_node *n, int32_t *axis)
{
	if (n->op != HT_OP_GatherV2 || ht_attr_int(n, "batch_dims", 0) ||
		ht_in_shape(n, 1).rank < 0)
		return false;
	*axis = stated_axis(n, 2, ht_in_shape(n, 0).rank);
	return *axis >= 0;
}

static struct sum extent_of_gather(const struct ht_node *n, int32_t axis, int depth)
{
	int32_t along, rank = ht_in_shape(n, 1).rank;

	if (!is_plain_gather(n, &along))
		return (struct sum){ .known = false };
	if (axis < along)
		return extent(n->in[0], axis, depth);
	return axis < along + rank ? extent(n->in[1], axis - along, depth)
				   : extent(n->in[0], axis - rank + 1, depth);
}

static struct sum extent(struct ht_value v, int32_t axis, int depth)
{
	struct ht_shape s = ht_type_of(v)->shape;
	struct sum told = of_dim(s.rank > axis ? s.dim[axis] : HT_DIM_UNKNOWN);

	if (told.known || s.rank <= axis || !depth)
		return told;
	if (ht_is(v.node, HT_FORWARDS))
		return extent(v.node->in[v.index], axis, depth - 1);
	if (v.node->op == HT_OP_ConcatV2)
		return extent_of_concat(v.node, axis, depth - 1);
	return v.node->op == HT_OP_GatherV2 ? extent_of_gather(v.node, axis, depth - 1) : told;
}

/* Element i of vectors side by side, as columns. */
static struct sum element_of_columns(const struct ht_node *n, int64_t i, int depth)
{
	int32_t columns = n->ins - 1;

	if (ht_in_shape(n, 0).rank != 2 || stated_axis(n, columns, 2) != 1)
		return (struct sum){ .known = false };
	for (int32_t k = 0; k < columns; k++)
		if (ht_in_shape(n, k).rank != 2 || ht_in_shape(n, k).dim[1] != 1)
			return (struct sum){ .known = false };
	return element(n->in[i % columns], i / columns, depth);
}

/* The one element of a vector that a slice takes. */
static struct sum element_of_slice(const struct ht_node *n, int depth)
{
	int64_t begin, length = ht_shape_count(ht_in_shape(n, 0));
	int count;

	if (ht_in_shape(n, 0).rank != 1 || n->out[0].shape.rank != 0 ||
		ht_attr_int(n, "shrink_axis_mask", 0) != 1 ||
		!ht_const_small_ints(n->in[1], &begin, 1, &count) || count != 1 ||
		!ht_fix_axis(&begin, length < 0 ? 0 : (int32_t)length))
		return (struct sum){ .known = false };
	return element(n->in[0], begin, depth);
}

static struct sum element_of_operand(const struct ht_node *n, int32_t arg, int64_t i, int depth)
{
	return element(n->in[arg], ht_in_shape(n, arg).rank ? i : 0, depth);
}

static struct sum element_of_node(struct ht_value v, int64_t i, int depth)
{
	const struct ht_node *n = v.node;

	if (ht_is(n, HT_FORWARDS))
		return element(n->in[v.index], i, depth);
	if (ht_is(n, HT_RESHAPES))
		return element(n->in[0], i, depth);
	switch (n->op) {
	case HT_OP_Cast:
		return element(n->in[0], i, depth);
	case HT_OP_Shape:
	case HT_OP_ShapeN:
		return extent(n->in[v.index], (int32_t)i, depth);
	case HT_OP_Pack:
		return n->out[0].shape.rank == 1 && i < n->ins ? element(n->in[i], 0, depth)
							       : (struct sum){ .known = false };
	case HT_OP_ConcatV2:
		return element_of_columns(n, i, depth);
	case HT_OP_StridedSlice:
		return element_of_slice(n, depth);
	case HT_OP_Add:
	case HT_OP_AddV2:
	case HT_OP_Sub:
		return plus(element_of_operand(n, 0, i, depth), element_of_operand(n, 1, i, depth),
			n->op == HT_OP_Sub ? -1 : 1);
	default:
		return (struct sum){ .known = false };
	}
}

/* Element i of a tensor of integers, in the order of its memory. */
static struct sum element(struct ht_value v, int64_t i, int depth)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	enum ht_dtype type = ht_type_of(v)->dtype;

	if (type != HT_I32 && type != HT_I64)
		return (struct sum){ .known = false };
	if (t)
		return i < ht_shape_count(t->shape) ? of_number(ht_tensor_int(t, (size_t)i))
						    : (struct sum){ .known = false };
	return depth ? element_of_node(v, i, depth - 1) : (struct sum){ .known = false };
}

static struct sum element_of(const struct ht_node *n, int32_t arg, int64_t i)
{
	return element(n->in[arg], i, DEPTH);
}

static struct sum extent_of(struct ht_value v, int32_t axis)
{
	return extent(v, axis, DEPTH);
}

/* ---- slices ---- */

static bool takes_rest(const struct ht_node *n, int32_t axis)
{
	return is_number(element_of(n, 2, axis), -1);
}

static bool takes_all(const struct ht_node *n, int32_t axis)
{
	return is_number(element_of(n, 1, axis), 0) &&
	       (takes_rest(n, axis) || is_equal(element_of(n, 2, axis), extent_of(n->in[0], axis)));
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
	struct sum at = of_number(0), begin = element_of(n, 1, of), size = element_of(n, 2, of);

	if (joined->op != HT_OP_ConcatV2 ||
		stated_axis(joined, parts, ht_in_shape(joined, 0).rank) != axis)
		return -1;
	for (int32_t i = 0; i < parts; i++) {
		struct sum extent_of_part = extent_of(joined->in[i], axis);

		if (is_equal(begin, at) &&
			(is_equal(size, extent_of_part) || (i + 1 == parts && takes_rest(n, of))))
			return i;
		at = plus(at, extent_of_part, 1);
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
	if (!is_plain_gather(x, &along) || axis < along || axis >= along + ht_in_shape(x, 1).rank)
		return false;
	part = taken_part(x->in[1].node, axis - along, n, axis);
	if (part < 0)
		return false;
	ht_rw_take_place(r, n, gathered_by(r, n, x, x->in[1].node->in[part]));
	return true;
}

/* ---- sums of padded parts ---- */

/* A Pad of zeros along one axis. */
struct padded {
	struct ht_value of;
	struct sum before, extent, behind;
};

static bool read_padded(struct ht_value v, int32_t axis, struct padded *p)
{
	const struct ht_node *n = v.node;
	int32_t rank = ht_type_of(v)->shape.rank;

	if (n->op != HT_OP_Pad || axis >= rank)
		return false;
	for (int32_t i = 0; i < 2 * rank; i++)
		if (i / 2 != axis && !is_number(element_of(n, 1, i), 0))
			return false;
	*p = (struct padded){ .of = n->in[0],
		.before = element_of(n, 1, 2 * axis),
		.extent = extent_of(n->in[0], axis),
		.behind = element_of(n, 1, 2 * axis + 1) };
	return p->before.known && p->extent.known && p->behind.known;
}

/* Puts the parts in their order, from the first element on; false: they overlap, or leave something out. */
static bool order(struct padded *p, int32_t parts)
{
	struct sum at = of_number(0);

	for (int32_t i = 0; i < parts; i++) {
		struct padded next;
		int32_t k = i;

		while (k < parts && !is_equal(p[k].before, at))
			k++;
		if (k == parts)
			return false;
		next = p[k];
		p[k] = p[i];
		p[i] = next;
		at = plus(at, next.extent, 1);
	}
	return is_number(p[parts - 1].behind, 0);
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
	ht_attr_set_int(to, "N", parts);
	ht_attr_set_type(to, "T", n->out[0].dtype);
	ht_attr_set_type(to, "Tidx", HT_I32);
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

static bool take(struct ht_rw *r, struct ht_node *n)
{
	if (!is_unknown(r->g, n->out[0].shape) && !is_unknown(r->g, ht_in_shape(n, 0)))
		return false;
	switch (n->op) {
	case HT_OP_Slice:
		return take_part(r, n);
	case HT_OP_AddN:
	case HT_OP_Add:
	case HT_OP_AddV2:
		return join_padded(r, n);
	default:
		return false;
	}
}

bool ht_take_pieces(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw_within within;
	struct ht_rw r;
	struct ht_node **all;
	bool changed = false;
	size_t n;

	ht_rw_init_within(&r, &within, g, c);
	all = ht_rw_nodes(&r, &n);
	for (size_t i = 0; i < n; i++)
		if (all[i]->graph && all[i]->outs && all[i]->ins && ht_rw_plain(&r, all[i]) &&
			take(&r, all[i]))
			changed = true;
	return changed;
}
