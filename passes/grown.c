/* Part of pass sizes: tensors that have other extents behind a branch or a loop than in front of it.
 *
 * Such a tensor has other extents in each iteration, or behind each of two branches, but what branches and loops hand on has one shape.
 * So they hand on a tensor as long as it can become, its room, and beside it the extent as an integer.  A body gathers the elements that
 * exist, and so does what is behind the node; their number is a size that the run computes (computed.c).  A result is cut or padded to the
 * room (_Padded with attribute room).
 *
 * The room of a loop's tensor is the largest value of that integer (ranges.c), or HT_LIST_ROOM if there is no bound: then a check stops the
 * run in the iteration that needs more.  A part of an axis, and what elementwise ops make of it, is at most as long as the axis, so a loop that
 * shortens a tensor needs no more room than the tensor had.  The room of a branch's result is the longer one of both sides. */
#include "passes/carry.h"
#include "passes/computed.h"
#include "passes/lists.h"
#include "passes/ranges.h"

#include "ir/infer.h"

/* A larger bound says nothing about the actual extent. */
enum { MOST_ROOM = 1 << 20 };

/* The nodes from whose form an extent may follow; the run tells the extents of those behind them. */
enum { MOST_NODES = 256 };

static const struct ht_type count_type = { HT_I32, { 0, NULL } };

/* An axis of an argument that iterations change. */
struct grown {
	struct ht_node *node; /* the loop */
	int32_t arg, axis;
	int64_t before;            /* the largest extent in front of the loop */
	struct ht_value count;     /* behind the loop */
	struct ht_value within[2]; /* in the condition and in the body */
};

struct growth {
	struct ht_pass_context *c;
	struct grown *of;
	size_t n, cap;
	struct ht_ranges ranges;
	bool changed;
};

/* One graph's part; `at`: nodes are made in front of it and named after it. */
struct part {
	struct ht_rw r;
	struct ht_rw_within within;
	struct ht_node *at;
};

static void begin(struct part *p, const struct growth *x, struct ht_graph *g, struct ht_node *at)
{
	ht_rw_init_within(&p->r, &p->within, g, x->c);
	p->at = at;
}

/* ---- nodes ---- */

static struct ht_value integer(struct part *p, int64_t v)
{
	return ht_rw_scalar(&p->r, p->at, ht_rw_name_within(&p->r, p->at, "number"), HT_I32, v);
}

static struct ht_value binary(struct part *p, enum ht_op op, struct ht_value a, struct ht_value b)
{
	return ht_rw_binary(&p->r, p->at, op, ht_rw_name_within(&p->r, p->at, "extent"), a, b);
}

static struct ht_value node(struct part *p, enum ht_op op, const char *what,
	const struct ht_value *in, int32_t ins, struct ht_type t)
{
	return ht_out(
		ht_rw_node(&p->r, p->at, op, ht_rw_name_within(&p->r, p->at, what), in, ins, t), 0);
}

static struct ht_value gathered(
	struct part *p, const char *what, struct ht_value from, struct ht_value at, int64_t axis)
{
	const struct ht_value in[] = { from, at, integer(p, axis) };
	struct ht_value v = node(p, HT_OP_GatherV2, what, in, 3,
		(struct ht_type){ ht_type_of(from)->dtype, HT_SHAPE_UNKNOWN });

	return v;
}

/* Extent `axis` of a tensor as the run tells it. */
static struct ht_value told_extent(struct part *p, struct ht_value v, int64_t axis)
{
	const int64_t rank = ht_type_of(v)->shape.rank;
	struct ht_value all = node(p, HT_OP_Shape, "shape", &v, 1,
		(struct ht_type){ HT_I32, ht_shape_make(p->r.g->arena, 1, &rank) });

	ht_attr_set_type(all.node, "out_type", HT_I32);
	return gathered(p, "extent", all, integer(p, axis), 0);
}

/* ---- extents ---- */

/* What an extent is found by. */
struct extents {
	struct ht_value arg,
		count; /* an argument of a body, whose extent along `axis` is `count`; .node NULL: none */
	int32_t axis;
	int left; /* so many nodes may still be looked at */
};

static struct ht_value extent_of(
	struct part *p, struct ht_value v, int32_t axis, struct extents *k);

/* Whether the node puts its operands behind each other along `axis`, or along another one that is known. */
static bool joins(const struct ht_node *n, int32_t axis, bool *along)
{
	int64_t at;
	int one;

	if (n->op != HT_OP_ConcatV2 || !ht_const_small_ints(n->in[n->ins - 1], &at, 1, &one) ||
		!ht_fix_axis(&at, ht_in_shape(n, 0).rank))
		return false;
	*along = at == axis;
	return true;
}

static struct ht_value extent_of_concat(
	struct part *p, const struct ht_node *n, int32_t axis, bool along, struct extents *k)
{
	struct ht_value sum = extent_of(p, n->in[0], axis, k);

	for (int32_t i = 1; along && i + 1 < n->ins; i++)
		sum = binary(p, HT_OP_AddV2, sum, extent_of(p, n->in[i], axis, k));
	return sum;
}

/* The only operand of an elementwise op that has more than one element along `axis`, counted from the last one; -1: there are several. */
static int32_t longest_operand(const struct ht_node *n, int32_t from_last)
{
	int32_t found = -1;

	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_shape s = ht_in_shape(n, i);

		if (s.rank < 0)
			return -1;
		if (s.rank < from_last || s.dim[s.rank - from_last] == 1)
			continue;
		if (found >= 0 && !ht_value_eq(n->in[i], n->in[found]))
			return -1;
		found = i;
	}
	return found;
}

static bool bit(const struct ht_node *n, const char *name, int32_t i)
{
	return i < 63 && ht_attr_int(n, name, 0) >> i & 1;
}

/* The axis of operand 0 of a StridedSlice that is axis `axis` of its result; -1: none, or it is not known. */
static int32_t strided_axis(const struct ht_node *n, int32_t axis)
{
	int64_t entries = ht_shape_count(ht_in_shape(n, 1));
	int32_t named = 0, from = 0, to = 0;

	for (int32_t i = 0; i < entries; i++)
		named += !bit(n, "new_axis_mask", i) && !bit(n, "ellipsis_mask", i);
	for (int32_t i = 0; i < entries && to <= axis; i++) {
		int32_t left = ht_in_shape(n, 0).rank - named;

		if (bit(n, "ellipsis_mask", i)) {
			if (axis < to + left)
				return from + axis - to;
			from += left;
			to += left;
		} else if (bit(n, "new_axis_mask", i)) {
			if (to++ == axis)
				return -1;
		} else if (bit(n, "shrink_axis_mask", i)) {
			from++;
		} else if (to++ == axis) {
			return from;
		} else {
			from++;
		}
	}
	return entries < 0 ? -1 : from + axis - to;
}

/* The axis of operand 0 of which axis `axis` of the result is a part; -1: none is known. */
static int32_t whole_axis(const struct ht_node *n, int32_t axis)
{
	int32_t at = ht_axes(n) == HT_AXES_SLICED    ? axis
		     : ht_axes(n) == HT_AXES_STRIDED ? strided_axis(n, axis)
						     : -1;

	return at >= 0 && at < ht_in_shape(n, 0).rank ? at : -1;
}

/* An extent as the run tells it, which is between 0 and `most`. */
static struct ht_value at_most(
	struct part *p, struct ht_value v, int32_t axis, struct ht_value most)
{
	struct ht_value x = binary(p, HT_OP_Minimum, told_extent(p, v, axis), most);

	return binary(p, HT_OP_Maximum, x, integer(p, 0));
}

/* No result of an elementwise op is longer than its longest operand. */
static struct ht_value extent_of_several(
	struct part *p, struct ht_value v, int32_t axis, struct extents *k)
{
	const int32_t from_last = ht_type_of(v)->shape.rank - axis;
	struct ht_value most = integer(p, 1);

	for (int32_t i = 0; i < v.node->ins; i++) {
		int32_t rank = ht_in_shape(v.node, i).rank;

		if (rank < 0)
			return told_extent(p, v, axis);
		if (rank >= from_last)
			most = binary(p, HT_OP_Maximum, most,
				extent_of(p, v.node->in[i], rank - from_last, k));
	}
	return at_most(p, v, axis, most);
}

/* The operand that states the extents of the result; -1: none does. */
static int32_t stated_at(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Fill:
	case HT_OP_StridedSliceGrad:
		return 0;
	case HT_OP_BroadcastTo:
		return 1;
	default:
		return -1;
	}
}

/* Element `axis` of a vector that states extents. */
static struct ht_value extent_stated(
	struct part *p, struct ht_value v, int32_t axis, struct extents *k)
{
	v = ht_forwarded(v);
	if (v.node->op == HT_OP_Shape && ht_in_shape(v.node, 0).rank > axis)
		return extent_of(p, v.node->in[0], axis, k);
	if (v.node->op == HT_OP_Pack && axis < v.node->ins &&
		ht_type_of(v.node->in[axis])->shape.rank == 0)
		v = v.node->in[axis];
	else
		v = gathered(p, "extent", v, integer(p, axis), 0);
	return ht_rw_cast(&p->r, p->at, ht_rw_name_within(&p->r, p->at, "extent"), v, HT_I32);
}

/* The extent of a node's result as a sum, as far as its form tells it: so a range follows from how often a loop adds to it. */
static struct ht_value extent_of_node(
	struct part *p, struct ht_value v, int32_t axis, struct extents *k)
{
	const struct ht_node *n = v.node;
	bool along;
	int32_t i, rank = ht_type_of(v)->shape.rank;

	if (ht_is(n, HT_FORWARDS))
		return extent_of(p, n->in[v.index], axis, k);
	if (joins(n, axis, &along))
		return extent_of_concat(p, n, axis, along, k);
	if (rank <= axis)
		return told_extent(p, v, axis);
	if (stated_at(n) >= 0)
		return extent_stated(p, n->in[stated_at(n)], axis, k);
	i = whole_axis(n, axis);
	if (i >= 0) /* a part of an axis is at most as long as the axis */
		return at_most(p, v, axis, extent_of(p, n->in[0], i, k));
	if (!ht_is(n, HT_ELEMENTWISE))
		return told_extent(p, v, axis);
	i = longest_operand(n, rank - axis);
	return i < 0 ? extent_of_several(p, v, axis, k)
		     : extent_of(p, n->in[i], ht_in_shape(n, i).rank - rank + axis, k);
}

static struct ht_value extent_of(struct part *p, struct ht_value v, int32_t axis, struct extents *k)
{
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t most = s.rank > axis ? ht_dim_most(p->r.g, s.dim[axis]) : -1;

	if (ht_value_eq(v, k->arg) && axis == k->axis)
		return k->count;
	if (most >= 0 && s.dim[axis] >= 0)
		return integer(p, most);
	if (most >= 0)
		return at_most(p, v, axis, integer(p, most));
	if (!k->left)
		return told_extent(p, v, axis);
	k->left--;
	return extent_of_node(p, v, axis, k);
}

/* ---- tensors with room ---- */

/* `v` with room for so many elements along the axis. */
static struct ht_value with_room(struct part *p, struct ht_value v, int64_t axis, int64_t room)
{
	struct ht_value x = node(p, HT_OP__Padded, "room", &v, 1,
		(struct ht_type){ ht_type_of(v)->dtype, HT_SHAPE_UNKNOWN });

	ht_attr_set_int(x.node, "axis", axis);
	ht_attr_set_int(x.node, "room", room);
	return x;
}

/* Uses of `v` get its first `count` elements along the axis instead. */
static struct ht_value take_existing(
	struct part *p, struct ht_value v, int64_t axis, struct ht_value count, int64_t room)
{
	const int64_t unknown = HT_DIM_UNKNOWN;
	const struct ht_value limits[] = { integer(p, 0),
		binary(p, HT_OP_Minimum, count, integer(p, room)), integer(p, 1) };
	struct ht_value at = node(p, HT_OP_Range, "existing", limits, 3,
				(struct ht_type){
					HT_I32, ht_shape_make(p->r.g->arena, 1, &unknown) }),
			x;

	x = gathered(p, "existing", v, at, axis);
	ht_rw_replace_behind(&p->r, v, x);
	return x;
}

/* `count`; the run stops where it is above the room, in the iteration that needs more. */
static struct ht_value within_room(struct part *p, struct ht_value count, int64_t room)
{
	struct ht_str why = ht_str_printf(p->r.g->arena,
		"an axis has more than the %lld elements that there is room for where nothing in the graph bounds their number",
		(long long)room);
	struct ht_value fits = binary(p, HT_OP_LessEqual, count, integer(p, room)), text;
	struct ht_node *stop;

	fits.node->out[0].dtype = HT_BOOL;
	text = ht_rw_text(&p->r, p->at, ht_rw_name_within(&p->r, p->at, "room"), why.p);
	stop = ht_rw_assert(&p->r, p->at, "room", fits, &text, 1);
	count = node(p, HT_OP_Identity, "extent", &count, 1, count_type);
	ht_rw_set_controls(&p->r, count.node, &stop, 1);
	return count;
}

/* Whether tensors of the type can be padded. */
static bool is_plain(const struct ht_type *t)
{
	return t->dtype != HT_VARIANT && t->dtype != HT_RESOURCE && t->dtype != HT_STRING &&
	       t->dtype != HT_INVALID && t->shape.rank > 0;
}

/* Whether the result of an iteration has room along the axis already. */
static bool has_room(struct ht_value ret, int32_t axis)
{
	for (; ret.node->op == HT_OP__Padded; ret = ret.node->in[0])
		if (ht_attr_find(ret.node, "room") && ht_attr_int(ret.node, "axis", 0) == axis)
			return true;
	return false;
}

/* Whether iterations change the extent of the argument, which has a bound in front of the loop. */
static bool changes(const struct ht_node *n, int32_t arg, struct ht_shape now, int32_t axis)
{
	struct ht_shape before = ht_in_shape(n, ht_control_first(n) + arg),
			behind = n->out[arg].shape;

	return now.dim[axis] == HT_DIM_UNKNOWN && before.rank == now.rank &&
	       ht_dim_most(n->graph, before.dim[axis]) >= 0 &&
	       (behind.rank != now.rank || behind.dim[axis] == HT_DIM_UNKNOWN);
}

/* ---- loops: the extents beside the tensors ---- */

static void add_extent(
	struct growth *x, struct part *p, struct ht_node *n, int32_t arg, int32_t axis)
{
	const struct ht_bodies b = ht_control_bodies(n);
	struct grown *to;
	struct extents k = { .left = MOST_NODES };
	struct part body;
	struct ht_value v;

	x->of = ht_grow(x->c->scratch, x->of, x->n, &x->cap, sizeof *x->of);
	to = &x->of[x->n++];
	v = n->in[ht_control_first(n) + arg];
	*to = (struct grown){ .node = n,
		.arg = arg,
		.axis = axis,
		.before = ht_dim_most(n->graph, ht_type_of(v)->shape.dim[axis]) };
	ht_carry_operand(&p->r, n, extent_of(p, v, axis, &k));
	to->count = ht_carry_result(n, count_type);
	for (int i = 0; i < 2; i++)
		to->within[i] = ht_carry_argument(b.of[i], count_type);
	v = ht_port_at(b.of[1]->rets, arg)->value;
	begin(&body, x, b.of[1]->body, v.node);
	k = (struct extents){ ht_port_at(b.of[1]->args, arg)->value, to->within[1], axis,
		MOST_NODES };
	ht_carry_return(b.of[1], extent_of(&body, v, axis, &k));
}

static void add_extents_of_loop(struct growth *x, struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);
	struct part p;
	int32_t args = n->outs;

	begin(&p, x, n->graph, n);
	for (int32_t i = 0; i < args; i++) {
		const struct ht_type *now = ht_type_of(ht_port_at(b.of[1]->args, i)->value);

		if (!is_plain(now))
			continue;
		for (int32_t k = 0; k < now->shape.rank; k++)
			if (changes(n, i, now->shape, k) &&
				!has_room(ht_port_at(b.of[1]->rets, i)->value, k))
				add_extent(x, &p, n, i, k);
	}
}

/* ---- loops: the tensors ---- */

static int64_t room_of(const struct growth *x, const struct grown *of, bool *proved)
{
	int64_t most = ht_range_of(&x->ranges, of->count).most;
	int64_t during = ht_range_of(&x->ranges, of->within[1]).most;

	most = during > most ? during : most;
	*proved = most <= MOST_ROOM;
	if (!*proved)
		most = HT_LIST_ROOM;
	most = of->before > most ? of->before : most;
	return most < 1 ? 1 : most;
}

static void finish_body(const struct growth *x, const struct grown *of, const struct ht_bodies *b,
	int64_t room, bool proved)
{
	struct ht_port *ret = ht_port_at(b->of[1]->rets, of->arg), *count = b->of[1]->rets, *arg;
	struct part p;

	for (arg = b->of[1]->args; !ht_value_eq(arg->value, of->within[1]); arg = arg->next)
		count = count->next;
	for (int i = 0; i < 2; i++) {
		arg = ht_port_at(b->of[i]->args, of->arg);
		begin(&p, x, b->of[i]->body, arg->value.node);
		take_existing(&p, arg->value, of->axis, of->within[i], room);
	}
	begin(&p, x, b->of[1]->body, of->node);
	p.at = ret->value.node;
	ret->value = with_room(&p, ret->value, of->axis, room);
	if (!proved)
		count->value = within_room(&p, count->value, room);
}

static enum ht_status finish_loop(const struct growth *x, const struct grown *of)
{
	const struct ht_bodies b = ht_control_bodies(of->node);
	int32_t in = ht_control_first(of->node) + of->arg;
	bool proved;
	int64_t room = room_of(x, of, &proved);
	struct part p;

	finish_body(x, of, &b, room, proved);
	begin(&p, x, of->node->graph, of->node);
	ht_rw_set_in(&p.r, of->node, in, with_room(&p, of->node->in[in], of->axis, room));
	take_existing(&p, ht_out(of->node, of->arg), of->axis, of->count, room);
	for (int i = 0; i < 2; i++)
		HT_TRY(ht_graph_sort(b.of[i]->body, x->c->diags));
	return ht_graph_sort(of->node->graph, x->c->diags);
}

/* ---- branches ---- */

/* Whether the body computes the size that an extent is. */
static bool computes(const struct ht_graph *body, int64_t dim)
{
	int32_t size = ht_dim_size(body, dim);

	return size && ht_size_node(body, size);
}

/* The room of a result whose extent the branches have different, or compute; 0: it needs none, or has no bound. */
static int64_t room_of_result(const struct ht_port *const ret[2], int32_t axis)
{
	int64_t dim[2], most[2];

	for (int k = 0; k < 2; k++) {
		dim[k] = ht_type_of(ret[k]->value)->shape.dim[axis];
		most[k] = ht_dim_most(ret[k]->value.node->graph, dim[k]);
		if (most[k] < 0)
			return 0;
	}
	if (dim[0] == dim[1] && !computes(ret[0]->value.node->graph, dim[0]))
		return 0;
	return most[0] > most[1] ? most[0] : most[1] > 0 ? most[1] : 1;
}

static void give_room(
	struct growth *x, struct ht_node *n, int32_t result, int32_t axis, int64_t room)
{
	const struct ht_bodies b = ht_control_bodies(n);
	struct ht_value count;
	struct part p;

	for (int k = 0; k < 2; k++) {
		struct ht_port *ret = ht_port_at(b.of[k]->rets, result);
		struct extents told = { .left = 0 };

		begin(&p, x, b.of[k]->body, ret->value.node);
		ht_carry_return(b.of[k], extent_of(&p, ret->value, axis, &told));
		ret->value = with_room(&p, ret->value, axis, room);
	}
	count = ht_carry_result(n, count_type);
	begin(&p, x, n->graph, n);
	take_existing(&p, ht_out(n, result), axis, count, room);
	x->changed = true;
}

static void give_result_room(
	struct growth *x, const struct ht_rw *r, struct ht_node *n, int32_t result)
{
	const struct ht_bodies b = ht_control_bodies(n);
	const struct ht_port *const ret[2] = { ht_port_at(b.of[0]->rets, result),
		ht_port_at(b.of[1]->rets, result) };
	struct ht_shape s[2], stated = n->out[result].shape;
	int64_t room[HT_MAX_RANK];

	for (int k = 0; k < 2; k++) {
		if (!is_plain(ht_type_of(ret[k]->value)))
			return;
		s[k] = ht_type_of(ret[k]->value)->shape;
	}
	if (s[0].rank != s[1].rank || !ht_rw_uses(r, ht_out(n, result)))
		return;
	for (int32_t i = 0; i < s[0].rank; i++)
		room[i] =
			stated.rank != s[0].rank || stated.dim[i] < 0 ? room_of_result(ret, i) : 0;
	for (int32_t i = 0; i < s[0].rank; i++)
		if (room[i])
			give_room(x, n, result, i, room[i]);
}

static enum ht_status grow_branch(struct growth *x, const struct ht_rw *r, struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);
	int32_t outs = n->outs;

	for (int32_t i = 0; i < outs; i++)
		give_result_room(x, r, n, i);
	for (int k = 0; k < 2 && n->outs > outs; k++)
		HT_TRY(ht_graph_sort(b.of[k]->body, x->c->diags));
	return n->outs > outs ? ht_graph_sort(n->graph, x->c->diags) : HT_OK;
}

/* ---- graphs ---- */

typedef enum ht_status visit_fn(struct growth *x, const struct part *p, struct ht_node *n);

/* Calls `visit` for each node of a graph and of the functions that its nodes have to themselves, which come before the nodes. */
static enum ht_status each_node(struct growth *x, struct ht_graph *g, visit_fn *visit)
{
	struct part p;
	struct ht_node **all;
	size_t n;

	begin(&p, x, g, NULL);
	all = ht_rw_nodes(&p.r, &n);
	for (size_t i = 0; i < n; i++) {
		struct ht_bodies b = { { NULL } };

		if (!all[i]->graph)
			continue;
		if (ht_runs_own(all[i]))
			b = ht_control_bodies(all[i]);
		for (int k = 0; k < 2 && b.of[k]; k++)
			HT_TRY(each_node(x, b.of[k]->body, visit));
		HT_TRY(visit(x, &p, all[i]));
	}
	return HT_OK;
}

static enum ht_status visit_branch(struct growth *x, const struct part *p, struct ht_node *n)
{
	return ht_runs_own(n) && !ht_is(n, HT_LOOPS) ? grow_branch(x, &p->r, n) : HT_OK;
}

static enum ht_status visit_loop(struct growth *x, const struct part *p, struct ht_node *n)
{
	(void)p;
	if (ht_runs_own(n) && ht_is(n, HT_LOOPS))
		add_extents_of_loop(x, n);
	return HT_OK;
}

/* ---- numbers that lists give ---- */

/* Attribute of a node that reads such a number: minimum and maximum have been put behind it. */
#define BOUNDED "_bounded"

/* Whether a node reads integers from a list that a body gets. */
static bool reads_list(const struct ht_node *n)
{
	return ht_is(n, HT_GATHERS) && n->outs == 1 && ht_is_index(n->out[0].dtype) &&
	       ht_is(ht_forwarded(n->in[0]).node, HT_ARGUMENT) && !ht_attr_bool(n, BOUNDED, false);
}

/* Puts a minimum or maximum with the number `limit` behind `v`: its users use that instead. */
static struct ht_value limited(struct part *p, struct ht_value v, enum ht_op op, int64_t limit)
{
	struct ht_value to = ht_rw_scalar(&p->r, p->at, ht_rw_name_within(&p->r, v.node, "number"),
		ht_type_of(v)->dtype, limit);

	to = ht_rw_binary(&p->r, p->at, op, ht_rw_name_within(&p->r, v.node, "bounded"), v, to);
	ht_rw_replace_behind(&p->r, v, to);
	return to;
}

static void bound_number(const struct growth *x, struct ht_graph *g, struct ht_node *n)
{
	const struct ht_range of = ht_range_of(&x->ranges, ht_out(n, 0));
	struct ht_value v = ht_out(n, 0);
	struct part p;

	if (of.least < 0 || of.most > MOST_ROOM || !n->next)
		return;
	begin(&p, x, g, n->next);
	v = limited(&p, v, HT_OP_Minimum, of.most);
	limited(&p, v, HT_OP_Maximum, of.least);
	ht_attr_set_bool(n, BOUNDED, true);
}

/* Numbers that a body reads from a list get bounds, which the extents computed of them have then, as those that the loop of a gradient takes
 * from the list that another loop filled. */
static enum ht_status visit_number(struct growth *x, const struct part *p, struct ht_node *n)
{
	if (p->r.g->function && reads_list(n))
		bound_number(x, p->r.g, n);
	return HT_OK;
}

enum ht_status ht_give_room(struct ht_graph *g, struct ht_pass_context *c, bool *changed)
{
	struct growth x = { .c = c };

	HT_TRY(ht_settle_fakes(g, c, true));
	HT_TRY(each_node(&x, g, visit_branch));
	HT_TRY(each_node(&x, g, visit_loop));
	*changed = x.changed || x.n;
	if (!x.n)
		return HT_OK;
	ht_ranges_find(&x.ranges, g, c->scratch, true);
	HT_TRY(each_node(&x, g, visit_number));
	for (size_t i = 0; i < x.n; i++)
		HT_TRY(finish_loop(&x, &x.of[i]));
	return HT_OK;
}

/* ---- before bodies are made ---- */

/* Whether some extent of a tensor of known rank is not known. */
static bool is_partly_known(const struct ht_type *t)
{
	return is_plain(t) && !ht_shape_is_told(t->shape);
}

static bool has_partly_known_result(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (is_partly_known(&n->out[i]))
			return true;
	return false;
}

/* Whether a StridedSlice takes more than one element of some axis, and not all of it: others are how most loops read their rows. */
static bool takes_part(const struct ht_node *n)
{
	int64_t step[HT_MAX_RANK];
	int64_t other = ht_attr_int(n, "shrink_axis_mask", 0) | ht_attr_int(n, "new_axis_mask", 0) |
			ht_attr_int(n, "ellipsis_mask", 0);
	int64_t whole = ht_attr_int(n, "begin_mask", 0) & ht_attr_int(n, "end_mask", 0);
	int entries;

	if (!ht_const_small_ints(n->in[3], step, HT_MAX_RANK, &entries))
		return true;
	for (int i = 0; i < entries; i++)
		if (!(other >> i & 1) && !(whole >> i & 1 && (step[i] == 1 || step[i] == -1)))
			return true;
	return false;
}

bool ht_may_change_extents(const struct ht_graph *body, bool loops)
{
	for (const struct ht_node *n = body->first; n; n = n->next)
		switch (ht_axes(n)) {
		case HT_AXES_JOINED:
		case HT_AXES_JOINED_V2:
		case HT_AXES_PADDED:
		case HT_AXES_SLICED:
		case HT_AXES_PERMUTED:
			return true;
		case HT_AXES_STRIDED:
			if (!loops || takes_part(n))
				return true;
			break;
		default:
			break;
		}
	return false;
}

bool ht_may_grow(const struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);

	if (!has_partly_known_result(n))
		return false;
	if (ht_is(n, HT_MERGES))
		return true;
	for (int k = 0; k < 2; k++)
		if (ht_is(n, HT_BRANCHES | HT_LOOPS) && b.of[k] && b.of[k]->body &&
			ht_may_change_extents(b.of[k]->body, ht_is(n, HT_LOOPS)))
			return true;
	return false;
}

/* Whether the extents of a node's result follow from data or from operands that are no constants: of a slice that takes a part, padding, a range. */
static bool has_computed_extents(const struct ht_node *n)
{
	if (ht_computes_size(n))
		return true;
	switch (ht_axes(n)) {
	case HT_AXES_PADDED:
		return !ht_is_const(n->in[1]);
	case HT_AXES_SLICED:
		return !ht_is_const(n->in[2]);
	case HT_AXES_STRIDED:
		return takes_part(n) && !(ht_is_const(n->in[1]) && ht_is_const(n->in[2]));
	default:
		return n->op == HT_OP_Range && !ht_is_const(n->in[1]);
	}
}

/* Likewise of a node that a value depends on; looks at no more than *left nodes. */
static bool follows_computed_extents(struct ht_value v, int *left)
{
	if (ht_shape_is_told(ht_type_of(v)->shape) || --*left < 0)
		return false;
	if (has_computed_extents(v.node))
		return true;
	for (int32_t i = 0; i < v.node->ins; i++)
		if (follows_computed_extents(v.node->in[i], left))
			return true;
	return false;
}

bool ht_follows_computed(struct ht_value v)
{
	int left = MOST_NODES;

	return follows_computed_extents(v, &left);
}

bool ht_may_vary(const struct ht_node *n)
{
	if (n->op == HT_OP_TensorListSplit || n->op == HT_OP_RaggedTensorToVariant)
		return true;
	return (n->op == HT_OP_TensorListSetItem || n->op == HT_OP_TensorListPushBack) &&
	       n->graph->function && ht_follows_computed(n->in[n->ins - 1]);
}

static bool adds_to_lists(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (n->op == HT_OP_TensorListPushBack ||
			ht_attr_bool(n, "resize_if_index_out_of_bounds", false))
			return true;
	return false;
}

/* Whether a loop, or one of TensorFlow 1 whose result is an Exit, may add elements to lists as often as data say, or a list gets a computed
 * length. */
static bool fills_by_data(const struct ht_node *loop)
{
	const struct ht_bodies b = ht_control_bodies(loop);

	if (loop->op == HT_OP_Exit)
		return adds_to_lists(loop->graph);
	if (loop->op == HT_OP_TensorListResize)
		return !ht_is_const(loop->in[1]);
	return ht_is(loop, HT_LOOPS) && b.of[1] && b.of[1]->body && adds_to_lists(b.of[1]->body);
}

bool ht_takes_filled(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (n->op == HT_OP_TensorListStack && ht_attr_int(n, "num_elements", -1) < 0 &&
			fills_by_data(n->in[0].node))
			return true;
	return false;
}
