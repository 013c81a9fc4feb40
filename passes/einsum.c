/* einsum: writes Einsum with ops that have kernels.
 *
 * One operand: Sum over the labels that the result lacks, and Transpose.  Two operands: a label
 * that only one operand has and the result lacks is summed first.  Labels of both operands that
 * the result lacks become the inner axis of a BatchMatMulV2; labels of both that it has, the
 * batch; the others, rows and columns.  Without an inner axis it is a Mul.  Transposes and
 * reshapes reorder axes where necessary; adj_x, adj_y and exchanging the operands save some of
 * them.
 *
 * Exact: the result is one sum of products, rounded once.  If something is summed before the
 * products, float16 and bfloat16 are computed in float32 between two casts.
 *
 * Runs after the precision pass, since a policy decides on Einsum as one contraction.  Left
 * alone: unknown shapes, more than 8 axes, dtypes that TensorFlow's kernels do not support, a
 * label that is twice in the result. */
#include "choice/impl.h"
#include "ir/einsum.h"
#include "passes/rewrite.h"

#define MOST 8 /* axes of a tensor that is lowered */

/* Names of axes (ht_einsum_name), in order. */
struct names {
	int32_t n;
	int32_t name[2 * MOST + 2];
};

struct term {
	struct ht_value v;
	struct names axis;
};

struct einsum {
	struct ht_rw *r;
	struct ht_node *n;
	struct term in[2];
	struct names out;
	int64_t size[HT_EINSUM_NAMES]; /* by name; HT_DIM_UNKNOWN: the equation does not have it */
};

/* ---- names ---- */

static int32_t position(const struct names *s, int32_t name)
{
	for (int32_t i = 0; i < s->n; i++)
		if (s->name[i] == name)
			return i;
	return -1;
}

static bool has(const struct names *s, int32_t name)
{
	return position(s, name) >= 0;
}

static void append(struct names *s, int32_t name)
{
	HT_CHECK(s->n < (int32_t)HT_COUNT(s->name));
	s->name[s->n++] = name;
}

static void append_all(struct names *s, const struct names *more)
{
	for (int32_t i = 0; i < more->n; i++)
		append(s, more->name[i]);
}

static struct names joined(const struct names *a, const struct names *b, const struct names *c)
{
	struct names s = { 0 };

	append_all(&s, a);
	append_all(&s, b);
	append_all(&s, c);
	return s;
}

/* The names of `all` that are in `in` (or not), and in `other` (or not), in the order of `all`. */
static struct names those(
	const struct names *all, const struct names *a, bool in_a, const struct names *b, bool in_b)
{
	struct names s = { 0 };

	for (int32_t i = 0; i < all->n; i++)
		if (has(a, all->name[i]) == in_a && has(b, all->name[i]) == in_b)
			append(&s, all->name[i]);
	return s;
}

static bool same(const struct names *a, const struct names *b)
{
	bool same = a->n == b->n;

	for (int32_t i = 0; same && i < a->n; i++)
		same = a->name[i] == b->name[i];
	return same;
}

static int64_t size_of(const struct einsum *e, const struct names *s)
{
	int64_t size = 1;

	for (int32_t i = 0; i < s->n; i++)
		size *= e->size[s->name[i]]; /* all sizes together fit */
	return size;
}

/* ---- nodes ---- */

static struct ht_str inner(const struct einsum *e, const char *part)
{
	return ht_rw_name_within(e->r, e->n, part);
}

static void reshape(struct einsum *e, struct term *t, const char *name, struct ht_shape to)
{
	if (!ht_shape_eq(ht_type_of(t->v)->shape, to))
		t->v = ht_rw_reshape(e->r, e->n, inner(e, name), t->v, to);
}

static void transpose(struct einsum *e, struct term *t, const char *name, const struct names *to)
{
	int64_t perm[MOST];

	if (same(&t->axis, to))
		return;
	HT_CHECK(to->n == t->axis.n && to->n <= MOST);
	for (int32_t i = 0; i < to->n; i++)
		perm[i] = position(&t->axis, to->name[i]);
	t->v = ht_rw_transpose(e->r, e->n, inner(e, name), t->v, perm);
	t->axis = *to;
}

static struct ht_shape shape_of(const struct einsum *e, const struct names *s, int64_t *dim)
{
	for (int32_t i = 0; i < s->n; i++)
		dim[i] = e->size[s->name[i]];
	return (struct ht_shape){ s->n, dim };
}

/* Sums over the axes that are in neither `a` nor `b`. */
static void sum(struct einsum *e, struct term *t, const char *name, const struct names *a,
	const struct names *b)
{
	struct names gone = those(&t->axis, a, false, b, false);
	int64_t axes[MOST];

	if (!gone.n)
		return;
	for (int32_t i = 0; i < gone.n; i++)
		axes[i] = position(&t->axis, gone.name[i]);
	t->v = ht_rw_reduce(e->r, e->n, HT_OP_Sum, inner(e, name), t->v, axes, gone.n, false);
	gone = those(&t->axis, &gone, false, &gone, false);
	t->axis = gone;
}

/* ---- the equation ---- */

/* Reads the axes of operand `i`; false if they contradict the equation. */
static bool read_operand(struct einsum *e, const struct ht_einsum_term *term, int32_t i)
{
	struct ht_value v = e->n->in[i];
	struct ht_shape s = ht_type_of(v)->shape;

	if (!ht_shape_known(s) || s.rank > MOST || ht_shape_count(s) < 0 ||
		(term->ellipsis ? s.rank < ht_einsum_labels(term)
				: s.rank != ht_einsum_labels(term)))
		return false;
	e->in[i].v = v;
	for (int32_t k = 0; k < s.rank; k++) {
		int32_t name = ht_einsum_name(term, s.rank, k);
		int64_t *size = &e->size[name];

		append(&e->in[i].axis, name);
		if (*size < 0 || (name >= HT_EINSUM_ELLIPSIS && *size == 1))
			*size = s.dim[k];
		else if (*size != s.dim[k] && (name < HT_EINSUM_ELLIPSIS || s.dim[k] != 1))
			return false;
	}
	return true;
}

static bool read_result(struct einsum *e, const struct ht_einsum_term *term)
{
	struct ht_shape s = e->n->out[0].shape;

	if (!ht_shape_known(s) || s.rank > MOST || ht_shape_count(s) < 0 ||
		s.rank < ht_einsum_labels(term))
		return false;
	for (int32_t k = 0; k < s.rank; k++) {
		int32_t name = ht_einsum_name(term, s.rank, k);

		if (has(&e->out, name) || e->size[name] != s.dim[k])
			return false;
		append(&e->out, name);
	}
	return true;
}

static bool sizes_fit(const struct einsum *e)
{
	int64_t all = 1;

	for (size_t i = 0; i < HT_COUNT(e->size); i++)
		if (e->size[i] > 0 && __builtin_mul_overflow(all, e->size[i], &all))
			return false;
	return true;
}

static bool has_kernel(enum ht_dtype t)
{
	return ht_is_kernel_float(t) || ht_is_index(t);
}

static bool read_einsum(struct einsum *e)
{
	struct ht_einsum equation;

	if (ht_einsum_read(ht_attr_str(e->n, "equation", ""), &equation) ||
		equation.operands != e->n->ins)
		return false;
	for (size_t i = 0; i < HT_COUNT(e->size); i++)
		e->size[i] = HT_DIM_UNKNOWN;
	for (int32_t i = 0; i < e->n->ins; i++)
		if (!has_kernel(ht_type_of(e->n->in[i])->dtype) ||
			!read_operand(e, &equation.in[i], i))
			return false;
	return read_result(e, &equation.out) && sizes_fit(e);
}

/* ---- one operand at a time ---- */

/* Takes the diagonal over the axes of a label that occurs several times: moves these to the end,
 * makes them one axis, and takes each element on the diagonal. */
static void diagonal(struct einsum *e, struct term *t, int32_t name)
{
	struct ht_rw *r = e->r;
	struct ht_shape from = ht_type_of(t->v)->shape;
	int64_t perm[MOST], dim[MOST], size = e->size[name], all = 1, step = 0;
	int64_t begin[2] = { 0, 0 }, end[2] = { 0, 0 }, strides[2] = { 1, 1 };
	int32_t kept = 0, last;
	struct names rest = { 0 };
	struct ht_value in[4];
	struct ht_node *n;

	for (int32_t i = 0; i < t->axis.n; i++) {
		if (t->axis.name[i] == name)
			continue;
		perm[kept] = i;
		dim[kept++] = from.dim[i];
		append(&rest, t->axis.name[i]);
	}
	last = kept;
	for (int32_t i = 0; i < t->axis.n; i++) {
		if (t->axis.name[i] != name)
			continue;
		perm[last++] = i;
		step += all;
		all *= size;
	}
	dim[kept] = all;
	t->v = ht_rw_transpose(r, e->n, inner(e, "diagonal/transpose"), t->v, perm);
	reshape(e, t, "diagonal/reshape", (struct ht_shape){ kept + 1, dim });
	end[1] = all;
	strides[1] = step;
	in[0] = t->v;
	in[1] = ht_rw_const_ints(r, e->n, inner(e, "diagonal/begin"), HT_I64, begin, 2);
	in[2] = ht_rw_const_ints(r, e->n, inner(e, "diagonal/end"), HT_I64, end, 2);
	in[3] = ht_rw_const_ints(r, e->n, inner(e, "diagonal/strides"), HT_I64, strides, 2);
	dim[kept] = size;
	n = ht_rw_node(r, e->n, HT_OP_StridedSlice, inner(e, "diagonal"), in, 4,
		(struct ht_type){ ht_type_of(t->v)->dtype, { kept + 1, dim } });
	ht_attr_set_int(n, "ellipsis_mask", 1);
	append(&rest, name);
	t->v = ht_out(n, 0);
	t->axis = rest;
}

static void take_diagonals(struct einsum *e, struct term *t)
{
	for (int32_t i = 0; i < t->axis.n; i++) {
		int32_t name = t->axis.name[i], times = 0;

		for (int32_t k = 0; k < t->axis.n; k++)
			times += t->axis.name[k] == name;
		if (times < 2)
			continue;
		diagonal(e, t, name);
		i = -1;
	}
}

/* Removes axes of the ellipsis that have size 1 here and another size in the other operand. */
static void drop_broadcast(struct einsum *e, struct term *t, const char *name)
{
	struct ht_shape s = ht_type_of(t->v)->shape;
	struct names left = { 0 };
	int64_t dim[MOST];

	for (int32_t i = 0; i < t->axis.n; i++)
		if (s.dim[i] == e->size[t->axis.name[i]])
			append(&left, t->axis.name[i]);
	t->axis = left;
	reshape(e, t, name, shape_of(e, &left, dim));
}

/* ---- two operands ---- */

/* Operands broadcast to the result's axes. */
static void multiply(struct einsum *e)
{
	static const char *const names[2][2] = { { "x/transpose", "x" }, { "y/transpose", "y" } };

	for (int i = 0; i < 2; i++) {
		struct term *t = &e->in[i];
		struct names to = those(&e->out, &t->axis, true, &t->axis, true);
		int64_t dim[MOST];

		transpose(e, t, names[i][0], &to);
		for (int32_t k = 0; k < e->out.n; k++)
			dim[k] = has(&to, e->out.name[k]) ? e->size[e->out.name[k]] : 1;
		if (to.n && to.n < e->out.n)
			reshape(e, t, names[i][1], (struct ht_shape){ e->out.n, dim });
	}
	e->in[0].v = ht_rw_binary(e->r, e->n, HT_OP_Mul, inner(e, "Mul"), e->in[0].v, e->in[1].v);
	e->in[0].axis = e->out;
}

/* Makes the operand a matrix of rows by columns for each index of the batch.  Returns true if it
 * is a matrix of columns by rows instead, which needed fewer transpositions. */
static bool as_matrix(struct einsum *e, struct term *t, bool left, const struct names *batch,
	const struct names *rows, const struct names *columns)
{
	struct names plain = joined(batch, rows, columns), other = joined(batch, columns, rows);
	int32_t last = t->axis.n ? t->axis.name[t->axis.n - 1] : -1;
	bool flip = !same(&t->axis, &plain) &&
		    (same(&t->axis, &other) || (rows->n && rows->name[rows->n - 1] == last));
	int64_t dim[MOST + 2];
	struct ht_shape s = shape_of(e, batch, dim);

	transpose(e, t, left ? "x/transpose" : "y/transpose", flip ? &other : &plain);
	dim[s.rank++] = size_of(e, flip ? columns : rows);
	dim[s.rank++] = size_of(e, flip ? rows : columns);
	reshape(e, t, left ? "x" : "y", s);
	return flip;
}

static void contract(struct einsum *e, const struct names *contracted)
{
	struct term *x = &e->in[0], *y = &e->in[1], product = { 0 };
	struct names batch = those(&e->out, &x->axis, true, &y->axis, true);
	struct names rows = those(&e->out, &x->axis, true, &y->axis, false);
	struct names columns = those(&e->out, &x->axis, false, &y->axis, true);
	struct names turned = joined(&batch, &columns, &rows);
	int64_t dim[2 * MOST];
	struct ht_shape s;
	bool adj_x, adj_y;

	if (rows.n && same(&turned, &e->out)) {
		struct names swap = rows;

		rows = columns;
		columns = swap;
		x = &e->in[1];
		y = &e->in[0];
	}
	adj_x = as_matrix(e, x, true, &batch, &rows, contracted);
	adj_y = as_matrix(e, y, false, &batch, contracted, &columns);
	s = shape_of(e, &batch, dim);
	dim[s.rank++] = size_of(e, &rows);
	dim[s.rank++] = size_of(e, &columns);
	product.v = ht_out(ht_rw_node(e->r, e->n, HT_OP_BatchMatMulV2, inner(e, "MatMul"),
				   (struct ht_value[]){ x->v, y->v }, 2,
				   (struct ht_type){ ht_type_of(x->v)->dtype, s }),
		0);
	if (ht_attr_find(e->n, ht_mode_attribute))
		ht_attr_set_str(product.v.node, ht_mode_attribute,
			ht_attr_str(e->n, ht_mode_attribute, ""));
	ht_attr_set_bool(product.v.node, "adj_x", adj_x);
	ht_attr_set_bool(product.v.node, "adj_y", adj_y);
	product.axis = joined(&batch, &rows, &columns);
	reshape(e, &product, "reshape", shape_of(e, &product.axis, dim));
	e->in[0] = product;
}

/* Whether only one operand has some label that the result lacks. */
static bool sums_first(const struct einsum *e)
{
	for (int i = 0; i < 2; i++)
		if (those(&e->in[i].axis, &e->in[1 - i].axis, false, &e->out, false).n)
			return true;
	return false;
}

static void two_operands(struct einsum *e)
{
	static const char *const names[2][3] = { { "x/widened", "x/reshape", "x/Sum" },
		{ "y/widened", "y/reshape", "y/Sum" } };
	enum ht_dtype t = e->n->out[0].dtype;
	bool widens = ht_is_low(t) && sums_first(e);
	struct names contracted;
	int by;

	for (int i = 0; i < 2; i++) {
		if (widens)
			e->in[i].v =
				ht_rw_cast(e->r, e->n, inner(e, names[i][0]), e->in[i].v, HT_F32);
		drop_broadcast(e, &e->in[i], names[i][1]);
		sum(e, &e->in[i], names[i][2], &e->in[1 - i].axis, &e->out);
	}
	/* Reordering a constant costs nothing. */
	by = ht_is_const(e->n->in[0]);
	contracted = those(&e->in[by].axis, &e->in[1 - by].axis, true, &e->out, false);
	if (contracted.n)
		contract(e, &contracted);
	else
		multiply(e);
	if (widens)
		e->in[0].v = ht_rw_cast(e->r, e->n, inner(e, "rounded"), e->in[0].v, t);
}

/* ---- the pass ---- */

static void visit(struct ht_rw *r, struct ht_node *n)
{
	struct einsum e = { .r = r, .n = n };

	if (n->op != HT_OP_Einsum || !read_einsum(&e))
		return;
	for (int32_t i = 0; i < n->ins; i++)
		take_diagonals(&e, &e.in[i]);
	if (n->ins == 2)
		two_operands(&e);
	else
		sum(&e, &e.in[0], "Sum", &e.out, &e.out);
	transpose(&e, &e.in[0], "transpose", &e.out);
	/* A node with control edges stays, and so does one whose operand needs no change. */
	if (n->controls || ht_value_eq(e.in[0].v, n->in[0])) {
		ht_rw_become(r, n, HT_OP_Identity, &e.in[0].v, 1);
	} else {
		ht_rw_take_place(r, n, e.in[0].v);
	}
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	return ht_rw_each(g, c, visit);
}

const struct ht_pass ht_pass_einsum = {
	.name = "einsum",
	.summary = "writes Einsum in matrix products, sums and transpositions",
	.run = run,
};
