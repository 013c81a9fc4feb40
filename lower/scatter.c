/* Scattering: slices are written, added or combined otherwise, one after the other, at the
 * places that indices name in the memory of a tensor or variable.  If slices have the same
 * place, the last one stays, or each changes the result of those before.
 *
 * Sums of 16-bit types are kept as F32 until the last slice is added. */
#include "lower/scatter.h"

#include <float.h>

/* ---- where slices go ---- */

enum { TILE_ELEMENTS = 16384, LEAST_COLUMNS = 64 };

struct space kb_sequential_space(
	struct kernel_build *k, int32_t rank, const int64_t *dim, int32_t outer)
{
	struct space s = { .rank = rank, .guard = -1 };
	int64_t slices = 1, each = 1, step, tiles;

	for (int32_t i = 0; i < rank; i++) {
		s.dim[i] = dim[i];
		*(i < outer ? &slices : &each) *= dim[i];
	}
	if (slices == 1)
		return kb_loop_space(k, rank, dim, ~0u);
	step = ht_ceil_div(TILE_ELEMENTS, slices * LEAST_COLUMNS) * LEAST_COLUMNS;
	tiles = ht_ceil_div(each, step);
	kb_grid(k, 1, &tiles);
	k->stage->sequential = true;
	if (outer)
		s.group[s.groups++] =
			(struct space_group){ 0, outer - 1, ht_xdim(&k->xb, kb_dim(k, slices)) };
	if (rank > outer) {
		k->stage->vec = kb_grid_dim(k, 0, each, step);
		s.group[s.groups++] =
			(struct space_group){ outer, rank - 1, ht_xdim(&k->xb, k->stage->vec) };
	}
	return s;
}

int32_t scatter_outer(const struct ht_node *n, int indices, enum scatter_index kind)
{
	return shape_of(n, indices).rank - (kind == SCATTER_TUPLES);
}

static int32_t depth_of(const struct ht_node *n, int indices, enum scatter_index kind)
{
	struct ht_shape s = shape_of(n, indices);

	return kind == SCATTER_TUPLES ? (int32_t)s.dim[s.rank - 1] : 1;
}

static int32_t and_guard(struct ht_xb *b, int32_t guard, int32_t x)
{
	return guard < 0 ? x : ht_xand(b, guard, x);
}

struct space scatter_place(struct kernel_build *k, const struct ht_node *n, int indices,
	enum scatter_index kind, struct ht_shape to, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t outer = scatter_outer(n, indices, kind), depth = depth_of(n, indices, kind);
	int32_t at[HT_LOWER_RANK], x[HT_LOWER_RANK], guard;
	struct space place, within = *s;

	for (int32_t i = 0; i < outer; i++)
		at[i] = space_coord(b, s, i);
	within.guard = -1;
	kb_only_within(k, n, &within);
	guard = within.guard;
	for (int32_t i = 0; i < depth; i++) {
		int32_t index, ok;

		at[outer] = ht_xi(b, i);
		index = ht_xcvt(b, HT_I64, pull_at(k, n, indices, &within, at));
		if (within.guard >= 0)
			index = ht_xselect(b, within.guard, index, ht_xi(b, 0));
		ok = kind == SCATTER_SEGMENTS ? ht_xlt(b, index, ht_xi(b, to.dim[i]))
					      : index_inside(b, index, to.dim[i]);
		if (ht_attr_find(n, "_open"))
			ok = ht_xand(b, ok, ht_xlt(b, index, kb_extent(k, n, i, to)));
		if (within.guard >= 0)
			ok = ht_xor(b, ok, ht_xnot(b, within.guard));
		x[i] = ht_xcheck(b, index, ok, HT_FAULT_INDEX);
		/* If the slice is one element, no coordinate is asked for, but the index must be
		 * checked. */
		if (kind == SCATTER_SEGMENTS)
			guard = and_guard(b, guard, ht_xle(b, ht_xi(b, 0), x[i]));
		else if (to.dim[i] == 1)
			guard = and_guard(b, guard, ht_xle(b, ht_xi(b, 0), x[i]));
	}
	for (int32_t i = depth; i < to.rank; i++)
		x[i] = space_coord(b, s, outer + i - depth);
	place = space_of_coords(s, to.rank, to.dim, x);
	if (guard >= 0)
		space_and_guard(b, &place, guard);
	return place;
}

const char *scatter_refuse(const struct ht_node *n, int indices, enum scatter_index kind,
	struct ht_shape to, struct ht_shape slices)
{
	static const char no_fit[] = "has indices and slices that do not fit the tensor";
	struct ht_shape index = shape_of(n, indices);
	int32_t outer, depth;

	if (!ht_shape_known(index) || !ht_shape_known(slices) || !ht_shape_known(to))
		return "needs shapes that are known at compile time (--input-shape may fix them)";
	if (to.rank > HT_LOWER_RANK || (kind == SCATTER_TUPLES && index.rank == 0))
		return no_fit;
	outer = scatter_outer(n, indices, kind);
	depth = depth_of(n, indices, kind);
	if (depth > to.rank || slices.rank != outer + to.rank - depth ||
		slices.rank > HT_LOWER_RANK)
		return no_fit;
	for (int32_t i = 0; i < outer; i++)
		if (slices.dim[i] != index.dim[i])
			return no_fit;
	for (int32_t i = depth; i < to.rank; i++)
		if (slices.dim[outer + i - depth] != to.dim[i])
			return no_fit;
	return NULL;
}

/* ---- how slices change the elements there ---- */

/* The new value of an element whose old value is `old`; `by` is the element of the slice. */
typedef int32_t change_fn(struct ht_xb *b, int32_t old, int32_t by);

static int32_t divided(struct ht_xb *b, int32_t old, int32_t by)
{
	return ht_is_float(ht_xtype(b, old)) ? ht_xdiv(b, old, by) : ht_xidiv(b, old, by, false);
}

/* A sum of Booleans is true if one of them is. */
static int32_t added(struct ht_xb *b, int32_t old, int32_t by)
{
	return ht_xtype(b, old) == HT_BOOL ? ht_xor(b, old, by) : ht_xadd(b, old, by);
}

enum start { START_OPERAND, START_VARIABLE, START_ZERO, START_ONE, START_LOWEST, START_HIGHEST };

struct scatter {
	enum ht_op op;
	enum start start; /* the elements before the first slice; OPERAND and VARIABLE: those of
			   * operand 0 */
	enum scatter_index kind;
	int indices, slices; /* operands */
	change_fn *change;   /* NULL: the slice replaces the element */
};

#define TENSOR(op, change) { HT_OP_##op, START_OPERAND, SCATTER_TUPLES, 1, 2, change }
#define ROWS(op, change) { HT_OP_##op, START_VARIABLE, SCATTER_ROWS, 1, 2, change }
#define TUPLES(op, change) { HT_OP_##op, START_VARIABLE, SCATTER_TUPLES, 1, 2, change }
#define SEGMENTS(op, start, change) { HT_OP_##op, start, SCATTER_SEGMENTS, 1, 0, change }
static const struct scatter scatters[] = {
	TENSOR(TensorScatterUpdate, NULL),
	TENSOR(TensorScatterAdd, added),
	TENSOR(TensorScatterSub, ht_xsub),
	TENSOR(TensorScatterMin, ht_xmin),
	TENSOR(TensorScatterMax, ht_xmax),
	{ HT_OP_ScatterNd, START_ZERO, SCATTER_TUPLES, 0, 1, added },
	SEGMENTS(UnsortedSegmentSum, START_ZERO, added),
	SEGMENTS(UnsortedSegmentProd, START_ONE, ht_xmul),
	SEGMENTS(UnsortedSegmentMax, START_LOWEST, ht_xmax),
	SEGMENTS(UnsortedSegmentMin, START_HIGHEST, ht_xmin),
	ROWS(ResourceScatterUpdate, NULL),
	ROWS(ResourceScatterAdd, added),
	ROWS(ResourceScatterSub, ht_xsub),
	ROWS(ResourceScatterMul, ht_xmul),
	ROWS(ResourceScatterDiv, divided),
	ROWS(ResourceScatterMin, ht_xmin),
	ROWS(ResourceScatterMax, ht_xmax),
	TUPLES(ResourceScatterNdUpdate, NULL),
	TUPLES(ResourceScatterNdAdd, added),
	TUPLES(ResourceScatterNdSub, ht_xsub),
	TUPLES(ResourceScatterNdMin, ht_xmin),
	TUPLES(ResourceScatterNdMax, ht_xmax),
};
#undef TENSOR
#undef ROWS
#undef TUPLES
#undef SEGMENTS

static const struct scatter *scatter_of(const struct ht_node *n)
{
	size_t i = 0;

	while (scatters[i].op != n->op)
		i++;
	return &scatters[i];
}

static struct ht_type target_type(const struct ht_node *n, const struct scatter *sc)
{
	const struct ht_tensor *t;

	if (sc->start != START_VARIABLE)
		return n->out[0];
	t = ht_variable_value(n->in[0].node);
	return (struct ht_type){ t->dtype, t->shape };
}

/* Whether sums are kept in wider memory until the last slice is added. */
static bool is_widened(const struct scatter *sc, enum ht_dtype t)
{
	return sc->change && compute_type(t) != t;
}

/* The shape of the slices.  An update of a variable may also be one element, which is broadcast. */
static struct ht_shape slices_shape(
	const struct ht_node *n, const struct scatter *sc, struct ht_shape to, int64_t *dim)
{
	struct ht_shape given = shape_of(n, sc->slices), index = shape_of(n, sc->indices);

	if (given.rank || sc->start != START_VARIABLE || sc->kind != SCATTER_ROWS ||
		index.rank + to.rank - 1 > HT_LOWER_RANK)
		return given;
	for (int32_t i = 0; i < index.rank; i++)
		dim[i] = index.dim[i];
	for (int32_t i = 1; i < to.rank; i++)
		dim[index.rank + i - 1] = to.dim[i];
	return (struct ht_shape){ index.rank + to.rank - 1, dim };
}

/* The largest finite number of type t. */
static double largest(enum ht_dtype t)
{
	return t == HT_F16 ? 65504 : t == HT_BF16 ? 0x1.fep127 : t == HT_F32 ? FLT_MAX : DBL_MAX;
}

static int64_t extreme(enum ht_dtype t, bool high)
{
	int bits = (int)ht_dtype_info(t)->bytes * 8;
	uint64_t all = ~(uint64_t)0 >> (64 - bits);

	if (ht_dtype_info(t)->kind == HT_KIND_UINT)
		return high ? (int64_t)all : 0;
	return (int64_t)(high ? all >> 1 : ~(all >> 1));
}

/* The start value, in the compute type of t. */
static int32_t start_number(struct ht_xb *b, enum start start, enum ht_dtype t)
{
	bool high = start == START_HIGHEST;

	if (!high && start != START_LOWEST)
		return ht_xk(b, compute_type(t), start == START_ONE);
	if (ht_is_float(t))
		return ht_xk(b, compute_type(t), high ? largest(t) : -largest(t));
	return ht_xint(b, t, extreme(t, high));
}

static void fill(struct lower *l, const struct ht_node *n, enum start start, const struct view *to)
{
	struct kernel_build k;
	struct space s;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, to->rank, to->dim, view_boundaries(to, to->rank, to->dim));
	kb_store(&k, to, &s, start_number(&k.xb, start, n->out[0].dtype));
	kb_finish(&k, n);
}

/* ---- gradients of a variable of which one use reads all rows and another one some ---- */

/* Whether the tensor is the numbers from 0 on. */
static bool counts_up(const struct ht_tensor *t)
{
	if (!t || t->shape.rank != 1 || !ht_is_index(t->dtype))
		return false;
	for (int64_t i = 0; i < t->shape.dim[0]; i++)
		if (ht_tensor_int(t, (size_t)i) != i)
			return false;
	return true;
}

/* How many slices come first that are the result's rows in their order: all rows, or 0.  TensorFlow adds a gradient by all rows to one by some
 * of them in that way.  These rows are what the result begins with, in place of the start value. */
static int64_t whole_rows(const struct lower *l, const struct ht_node *n, const struct scatter *sc)
{
	const struct ht_node *ids = n->in[sc->indices].node;
	const struct ht_tensor *first =
		ids->op == HT_OP_ConcatV2 ? ht_const_tensor(ids->in[0]) : NULL;

	if (sc->kind != SCATTER_SEGMENTS || (sc->start != START_ZERO && sc->start != START_ONE) ||
		l->g->sizes || !counts_up(first) || n->out[0].shape.dim[0] != first->shape.dim[0] ||
		shape_of(n, sc->indices).dim[0] - first->shape.dim[0] < 2)
		return 0;
	return first->shape.dim[0];
}

/* The first slices are the result's elements. */
static void take_rows(
	struct lower *l, const struct ht_node *n, const struct scatter *sc, const struct view *to)
{
	struct kernel_build k;
	struct space s, at;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, to->rank, to->dim, view_boundaries(to, to->rank, to->dim));
	at = s;
	at.dim[0] = shape_of(n, sc->slices).dim[0];
	kb_store(&k, to, &s, kb_pull(&k, n->in[sc->slices], &at));
	kb_finish(&k, n);
}

/* Slices from number `from` on. */
static void change(struct lower *l, const struct ht_node *n, const struct scatter *sc,
	const struct view *to, int64_t from)
{
	int64_t dim[HT_LOWER_RANK], rest[HT_LOWER_RANK];
	struct ht_shape shape = { to->rank, to->dim }, slices = slices_shape(n, sc, shape, dim);
	struct kernel_build k;
	struct space s, at, scalar;
	int32_t x;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	for (int32_t i = 0; i < slices.rank; i++)
		rest[i] = slices.dim[i] - (i == 0 ? from : 0);
	s = kb_sequential_space(&k, slices.rank, rest, scatter_outer(n, sc->indices, sc->kind));
	if (from) {
		s.dim[0] = slices.dim[0];
		s.group[0].x = ht_xaddi(&k.xb, s.group[0].x, from);
	}
	kb_cut_space(&k, &s, n->in[sc->slices]);
	at = scatter_place(&k, n, sc->indices, sc->kind, shape, &s);
	scalar = space_of_coords(&at, 0, NULL, NULL);
	s.guard = at.guard;
	x = kb_pull(&k, n->in[sc->slices], shape_of(n, sc->slices).rank ? &s : &scalar);
	if (sc->change)
		x = sc->change(&k.xb, kb_load(&k, to, &at), x);
	kb_store(&k, to, &at, x);
	kb_finish(&k, n);
}

/* Memory for sums of type `t`, in its compute type. */
static struct view wide_sums(struct lower *l, struct ht_type t)
{
	struct view v;

	view_dense(&v, plan_buffer(l, HT_PLAN_TEMP, compute_type(t.dtype), ht_shape_count(t.shape)),
		t.shape);
	return v;
}

/* Rounds the sums to 16 bits and stores them in the result or variable. */
static void round_sums(
	struct lower *l, struct ht_node *n, const struct view *sums, const struct view *to)
{
	struct kernel_build k;
	struct space s;
	int32_t x;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, to->rank, to->dim, view_boundaries(to, to->rank, to->dim));
	x = kb_load(&k, sums, &s);
	kb_store(&k, to, &s, n->outs ? kb_result(&k, n, 0, x) : x);
	kb_finish(&k, n);
}

/* Whether a slice without elements has its place in a tensor without elements, as an element of a list (passes/lists_dense.c) and a row of a
 * variable do; TensorFlow refuses others. */
static bool places_nothing(const struct ht_node *n, const struct scatter *sc, struct ht_shape to)
{
	const struct ht_shape slice = { to.rank - 1, to.dim + 1 };

	return to.rank > 0 && ht_shape_count(slice) == 0 &&
	       (sc->kind != SCATTER_TUPLES || ht_attr_bool(n, "_element", false));
}

/* Whether the tensor without elements has a place for the slice of an index. */
static int32_t has_place(struct kernel_build *k, const struct ht_node *n, const struct scatter *sc,
	struct ht_shape to, const struct space *s)
{
	int32_t outer = scatter_outer(n, sc->indices, sc->kind), at[HT_LOWER_RANK], index;

	for (int32_t i = 0; i < outer; i++)
		at[i] = space_coord(&k->xb, s, i);
	at[outer] = ht_xi(&k->xb, 0);
	index = ht_xcvt(&k->xb, HT_I64, pull_at(k, n, sc->indices, s, at));
	if (sc->kind == SCATTER_SEGMENTS)
		return ht_xlt(&k->xb, index, ht_xi(&k->xb, 0));
	if (!places_nothing(n, sc, to))
		return ht_xk(&k->xb, HT_BOOL, 0);
	return ht_attr_find(n, "_open") ? ht_xand(&k->xb, index_inside(&k->xb, index, to.dim[0]),
						  ht_xlt(&k->xb, index, kb_extent(k, n, 0, to)))
					: index_inside(&k->xb, index, to.dim[0]);
}

/* A tensor without elements has no place for a slice of some, so the run stops if there is one; segments with negative ids are left out.
 * Where slices have none either, segments have any id, and other indices must be inside. */
static void expect_no_slices(
	struct lower *l, const struct ht_node *n, const struct scatter *sc, struct ht_shape target)
{
	struct ht_shape index = shape_of(n, sc->indices);
	int32_t outer = scatter_outer(n, sc->indices, sc->kind), none;
	struct kernel_build k;
	struct space s, within, scalar;
	struct view to;

	if (!ht_shape_count((struct ht_shape){ outer, index.dim }) ||
		(sc->kind == SCATTER_SEGMENTS && places_nothing(n, sc, target)))
		return;
	view_dense(&to, plan_buffer(l, HT_PLAN_TEMP, HT_I64, 1), HT_SHAPE_SCALAR);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_sequential_space(&k, outer, index.dim, outer);
	within = s;
	kb_only_within(&k, n, &within);
	none = has_place(&k, n, sc, target, &s);
	if (within.guard >= 0)
		none = ht_xor(&k.xb, none, ht_xnot(&k.xb, within.guard));
	scalar = space_of_coords(&s, 0, NULL, NULL);
	kb_store(&k, &to, &scalar, ht_xcheck(&k.xb, ht_xi(&k.xb, 0), none, HT_FAULT_INDEX));
	kb_finish(&k, n);
}

static enum ht_status emit_scatter(struct lower *l, struct ht_node *n)
{
	const struct scatter *sc = scatter_of(n);
	const struct ht_type t = target_type(n, sc);
	const bool variable = sc->start == START_VARIABLE, widened = is_widened(sc, t.dtype);
	const struct view to = variable ? variable_view(l, n, 0) : l->view[n->id][0];
	const int64_t rows = whole_rows(l, n, sc);
	int64_t dim[HT_LOWER_RANK];
	struct view sums = to;

	if (view_count(&to) == 0) {
		expect_no_slices(l, n, sc, t.shape);
		return HT_OK;
	}
	if (widened)
		sums = wide_sums(l, t);
	if (rows) {
		take_rows(l, n, sc, &sums);
	} else if (sc->start > START_VARIABLE) {
		fill(l, n, sc->start, &sums);
	} else {
		const struct view *from = variable ? &to : lower_view(l, n->in[0]);

		if (from->buffer != sums.buffer)
			emit_copy(l, n, from, &sums);
	}
	if (ht_shape_count(slices_shape(n, sc, t.shape, dim)))
		change(l, n, sc, &sums, rows);
	if (widened)
		round_sums(l, n, &sums, &to);
	return HT_OK;
}

/* The operand is made in the result's memory, where the slices then change it. */
static void updated_part(struct lower *l, const struct ht_node *n, int arg, struct view *v)
{
	(void)arg;
	*v = l->view[n->id][0];
}

static bool is_updated(struct lower *l, const struct ht_node *n, int arg)
{
	const struct scatter *sc = scatter_of(n);

	(void)l;
	return arg == 0 && sc->start == START_OPERAND && !is_widened(sc, n->out[0].dtype);
}

/* Whether the slices are computed where they are added.  Those that change a tensor in place may depend on it. */
static bool takes_slices(const struct ht_node *n, int arg)
{
	const struct scatter *sc = scatter_of(n);

	return arg == sc->slices && sc->kind == SCATTER_SEGMENTS;
}

static const char *refuse_scatter(const struct ht_node *n)
{
	const struct scatter *sc = scatter_of(n);
	const char *why = sc->start == START_VARIABLE ? variable_refuse(n, 0) : NULL;
	int64_t dim[HT_LOWER_RANK];
	struct ht_type t;

	if (why)
		return why;
	t = target_type(n, sc);
	if (ht_type_of(n->in[sc->slices])->dtype != t.dtype)
		return "changes the type of its variable";
	if (sc->kind == SCATTER_ROWS && t.shape.rank == 0)
		return "is about rows of a scalar";
	return scatter_refuse(n, sc->indices, sc->kind, t.shape, slices_shape(n, sc, t.shape, dim));
}

const struct lower_op lower_scatter = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_scatter,
	.part = updated_part,
	.owns = is_updated,
	.takes = takes_slices,
	.refuse = refuse_scatter };
const struct lower_op lower_scatter_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_scatter,
	.refuse = refuse_scatter };

struct view scatter_zeros(struct lower *l, struct ht_node *n)
{
	const struct ht_type *t = &n->out[0];
	struct view v = compute_type(t->dtype) == t->dtype ? l->view[n->id][0] : wide_sums(l, *t);

	fill(l, n, START_ZERO, &v);
	return v;
}

void scatter_round(struct lower *l, struct ht_node *n, const struct view *sums)
{
	const struct view *to = &l->view[n->id][0];

	if (sums->buffer != to->buffer)
		round_sums(l, n, sums, to);
}
