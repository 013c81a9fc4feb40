/* Places along axes that a reshape joined of several, of which some are open.
 *
 * A place in the tensor of the largest extents is not the place in the tensor that the run has: what is between two elements depends on
 * the run's sizes.  Ops that find elements give places, and gathers take them, in the run's tensor; kernels work on that of the largest
 * extents.  These functions convert between both.
 *
 * An axis has an outermost size and perhaps others within it (struct ht_open).  Indices of a size repeat after `most` times its `inner` at the
 * largest sizes (`period` below), and after the run's size times what `inner` is in the run (`run`).  So the place is a sum: of the rest
 * by the innermost period, of the numbers of inner periods within the next outer one, and of the number of outermost periods. */
#include "passes/bounded_axes.h"
#include "passes/outline.h"

enum { OUTERMOST = 0, PERIODS = HT_OPEN_PARTS };

/* The periods of the axes that places lie along, for each element of a vector of places, or for a scalar; the outermost first. */
struct places {
	struct ht_type type;
	int64_t period[PERIODS][HT_OPEN_RANK];
	int64_t run[PERIODS][HT_OPEN_RANK * HT_OPEN_PRODUCT]; /* products of sizes */
	int64_t count;
	int parts; /* the most sizes of an axis; one with fewer has its innermost period again in place of others */
};

bool ht_open_is_joined(
	const struct ht_bounded *b, struct ht_shape s, int32_t axis, struct ht_open a)
{
	return ht_open_some(a) && !is_plain(b, s, axis, a);
}

static int64_t most_of(const struct ht_bounded *b, struct ht_open_axis a)
{
	return b->r.g->size[a.size - 1].most;
}

/* The period of part `k` of an axis: at the largest sizes, and as a product of the run's. */
static int64_t set_period(const struct ht_bounded *b, struct ht_open a, int k, int64_t *run)
{
	run[0] = a.part[k].inner;
	for (int i = k; i < ht_open_parts(a); i++) {
		run[1 + i - k] = a.part[i].size;
		if (i > k)
			run[0] /= most_of(b, a.part[i]);
	}
	return a.part[k].inner * most_of(b, a.part[k]);
}

/* Place `i` is along an axis of these sizes. */
static void add_axis(const struct ht_bounded *b, struct places *p, int64_t i, struct ht_open a)
{
	const int parts = ht_open_parts(a);

	for (int k = 0; k < PERIODS; k++)
		p->period[k][i] = set_period(
			b, a, k < parts ? k : parts - 1, &p->run[k][i * HT_OPEN_PRODUCT]);
	if (parts > p->parts)
		p->parts = parts;
}

/* Place `i` is along an axis without open sizes: elements have the same places in the run's tensor as in that of the largest extents. */
static void add_plain(struct places *p, int64_t i)
{
	for (int k = 0; k < PERIODS; k++) {
		p->period[k][i] = p->run[k][i * HT_OPEN_PRODUCT] = INT32_MAX;
	}
}

static struct ht_value number(
	struct ht_bounded *b, struct ht_node *n, const struct places *p, int64_t x)
{
	return ht_rw_scalar(&b->r, n, ht_rw_name_within(&b->r, n, "number"), p->type.dtype, x);
}

static struct ht_value period(
	struct ht_bounded *b, struct ht_node *n, const struct places *p, int which)
{
	if (!p->type.shape.rank)
		return number(b, n, p, p->period[which][0]);
	return ht_rw_const_ints(&b->r, n, ht_rw_name_within(&b->r, n, "periods"), p->type.dtype,
		p->period[which], p->count);
}

static struct ht_value run_of(
	struct ht_bounded *b, struct ht_node *n, const struct places *p, int which)
{
	return ht_open_products(b, n, ht_rw_name_within(&b->r, n, "sizes"), p->type, p->run[which]);
}

static struct ht_value binary(struct ht_bounded *b, struct ht_node *n, enum ht_op op,
	struct ht_value x, struct ht_value y)
{
	return ht_rw_binary(&b->r, n, op, ht_rw_name_within(&b->r, n, "place"), x, y);
}

/* The place `v` of a tensor whose axes have periods `from`, which are above 0, in the tensor with periods `to`.  `outer` is the number of outermost
 * periods in front of it. */
static struct ht_value converted(struct ht_bounded *b, struct ht_node *n, const struct places *p,
	struct ht_value v, struct ht_value outer, const struct ht_value from[PERIODS],
	const struct ht_value to[PERIODS])
{
	struct ht_value sum = binary(b, n, HT_OP_FloorMod, v, from[p->parts - 1]), x;

	for (int k = p->parts - 1; k > OUTERMOST; k--) {
		x = binary(b, n, HT_OP_FloorMod, v, from[k - 1]);
		x = binary(b, n, HT_OP_FloorDiv, x, from[k]);
		sum = binary(b, n, HT_OP_AddV2, sum, binary(b, n, HT_OP_Mul, x, to[k]));
	}
	return binary(b, n, HT_OP_AddV2, sum, binary(b, n, HT_OP_Mul, outer, to[OUTERMOST]));
}

static struct ht_value in_run(
	struct ht_bounded *b, struct ht_node *n, const struct places *p, struct ht_value v)
{
	struct ht_value from[PERIODS], to[PERIODS];

	for (int k = 0; k < p->parts; k++) {
		from[k] = period(b, n, p, k);
		to[k] = run_of(b, n, p, k);
	}
	return converted(b, n, p, v, binary(b, n, HT_OP_FloorDiv, v, from[OUTERMOST]), from, to);
}

static struct places one_place(const struct ht_bounded *b, enum ht_dtype t, struct ht_open a)
{
	struct places p = { .type = { t, HT_SHAPE_SCALAR }, .count = 1 };

	add_axis(b, &p, 0, a);
	return p;
}

/* ---- places that an op finds ---- */

/* `n` becomes what follows from the results of a node like it, which this makes in front of it. */
static struct ht_node *found_before(struct ht_bounded *b, struct ht_node *n)
{
	struct ht_node *c = ht_rw_node(
		&b->r, n, n->op, ht_rw_name_within(&b->r, n, "found"), n->in, n->ins, n->out[0]);

	c->attrs = ht_attrs_copy(n->attrs, NULL, b->r.g->arena);
	ht_node_set_outs(c, n->outs);
	for (int32_t i = 0; i < n->outs; i++)
		c->out[i] = n->out[i];
	return c;
}

void ht_open_find_in_run(struct ht_bounded *b, struct ht_node *n, struct ht_open a)
{
	struct places p = one_place(b, n->out[n->outs - 1].dtype, a);
	struct ht_node *c = found_before(b, n);
	struct ht_value in[2] = { ht_out(c, 0), in_run(b, n, &p, ht_out(c, n->outs - 1)) };
	const enum ht_dtype t[2] = { n->out[0].dtype, p.type.dtype };

	if (n->outs == 1) {
		ht_rw_become(&b->r, n, HT_OP_Identity, &in[1], 1);
		return;
	}
	ht_rw_become(&b->r, n, HT_OP_IdentityN, in, 2);
	ht_attr_set_types(n, "T", t, 2);
}

void ht_open_locate_in_run(struct ht_bounded *b, struct ht_node *n, const struct ht_open *axis)
{
	struct ht_shape s = ht_in_shape(n, 0);
	const int64_t rank = s.rank;
	struct places p = { .type = { HT_I64, ht_shape_make(b->r.g->arena, 1, &rank) },
		.count = rank };
	struct ht_node *c;
	struct ht_value in;
	int32_t size;

	for (int32_t i = 0; i < s.rank; i++)
		if (ht_open_is_joined(b, s, i, axis[i]))
			add_axis(b, &p, i, axis[i]);
		else
			add_plain(&p, i);
	c = found_before(b, n);
	size = ht_computed_size(b->r.g, n);
	if (size) /* it is found by the name of its node */
		b->r.g->library->size[size - 1].by = c->name;
	in = in_run(b, n, &p, ht_out(c, 0));
	ht_rw_become(&b->r, n, HT_OP_Identity, &in, 1);
}

/* ---- places that a gather takes ---- */

/* At least one, as a divisor. */
static struct ht_value some(
	struct ht_bounded *b, struct ht_node *n, const struct places *p, struct ht_value x)
{
	return binary(b, n, HT_OP_Maximum, x, number(b, n, p, 1));
}

/* How many outermost periods of the run are in front of the place `v`, between -1 and so many that no tensor has them: the product with the
 * largest period must not overflow, since it could be a place of the tensor then. */
static struct ht_value outer_periods(struct ht_bounded *b, struct ht_node *n,
	const struct places *p, struct ht_value v, struct ht_value run)
{
	int64_t most = (p->type.dtype == HT_I32 ? INT32_MAX : INT64_MAX) / p->period[OUTERMOST][0];

	v = binary(b, n, HT_OP_FloorDiv, v, run);
	v = binary(b, n, HT_OP_Minimum, v, number(b, n, p, most));
	return binary(b, n, HT_OP_Maximum, v, number(b, n, p, -1));
}

void ht_open_take_from_run(struct ht_bounded *b, struct ht_node *n, int32_t arg, struct ht_open a)
{
	struct places p = one_place(b, ht_type_of(n->in[arg])->dtype, a);
	struct ht_value from[PERIODS], to[PERIODS], all, none;

	for (int k = 0; k < p.parts; k++) {
		from[k] = some(b, n, &p, run_of(b, n, &p, k));
		to[k] = period(b, n, &p, k);
	}
	all = converted(b, n, &p, n->in[arg], outer_periods(b, n, &p, n->in[arg], from[OUTERMOST]),
		from, to);
	/* Where the run has no elements, places are moved out of the tensor, so that the gather reports them. */
	none = binary(b, n, HT_OP_Sub, from[OUTERMOST], run_of(b, n, &p, OUTERMOST));
	none = binary(b, n, HT_OP_Mul, none, number(b, n, &p, INT32_MAX / 2));
	ht_rw_set_in(&b->r, n, arg, binary(b, n, HT_OP_AddV2, all, none));
}

struct ht_value ht_open_in_order(
	struct ht_bounded *b, struct ht_value v, int32_t axis, struct ht_open_axis *a)
{
	struct ht_shape s = ht_type_of(v)->shape;
	int64_t most = ht_open_most(b, s.dim[axis]);
	int64_t *at = HT_NEW_ARRAY(b->r.arena, int64_t, (size_t)most);
	struct ht_open own = { { *a } };
	struct ht_node *n;
	struct ht_value in[3] = { v };

	for (int64_t i = 0; i < most; i++)
		at[i] = i;
	in[1] = ht_rw_const_ints(
		&b->r, v.node, ht_rw_name_within(&b->r, v.node, "places"), HT_I32, at, most);
	in[2] = ht_rw_scalar(&b->r, v.node, ht_rw_name_within(&b->r, v.node, "axis"), HT_I32, axis);
	n = ht_rw_node(&b->r, v.node, HT_OP_GatherV2, ht_rw_name_within(&b->r, v.node, "ordered"),
		in, 3, *ht_type_of(v));
	a->inner = most / most_of(b, *a);
	ht_attr_set_ints(n, "_within", (const int64_t[]){ 0, a->size, a->inner }, 3);
	ht_open_wait_for(b, n, a->size);
	ht_open_take_from_run(b, n, 1, own);
	return ht_out(n, 0);
}
