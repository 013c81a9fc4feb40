/* fold: nodes whose operands are constant become constants.
 *
 * The interpreter computes the values (evaluate.c); Reshape and Transpose only move bytes.
 * Shape, Size, Rank, ShapeN and VariableShape of a known shape become constants whatever their operand is.  A
 * node with control inputs stays; but users of an integer or Boolean that it computes read the
 * constant, and get its control edges.  Left alone: nodes that have an effect or draw random
 * numbers, inputs with defaults, results of more than LARGE bytes that are larger than the
 * operands (a Fill, a Tile), arithmetic on more than MANY elements, and results beyond the
 * budget of memory.  If the fusion constant_folding is off, only integers and Booleans are
 * folded, which shapes depend on. */
#include "lower/price.h"
#include "ir/infer.h"
#include "lower/refusals.h"
#include "passes/rewrite.h"

#include <string.h>

#define LARGE (1 << 20)
#define MANY (1 << 18)
#define MANY_PRODUCTS (1 << 22)
/* The budget of bytes for results: as many as the graph's constants have, and ALLOWANCE more.
 * Results of at most SMALL bytes, of which shapes consist, are free: their number is
 * proportional to that of the graph's nodes. */
#define ALLOWANCE ((size_t)64 << 20)
#define SMALL 1024

struct folding {
	struct ht_rw r;
	size_t budget; /* for all results together; 0: it has not been computed yet */
};

/* ---- the budget ---- */

/* Bytes that several constants share count once. */
static size_t constant_bytes(const struct ht_graph *g, struct ht_map *blobs)
{
	size_t bytes = 0;

	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_tensor *t = n->outs ? ht_const_tensor(ht_out(n, 0)) : NULL;
		struct ht_map_entry *e;

		if (!t)
			continue;
		e = ht_map_at(blobs, (struct ht_str){ (const char *)&t->blob, sizeof(void *) });
		if (!e->value)
			bytes += t->blob->n;
		e->value = t->blob;
	}
	return bytes;
}

static size_t budget_of(const struct ht_rw *r)
{
	struct ht_map blobs;
	size_t bytes;

	ht_map_init(&blobs, r->arena);
	bytes = constant_bytes(r->g->library, &blobs);
	if (r->g != r->g->library)
		bytes += constant_bytes(r->g, &blobs);
	return ALLOWANCE + bytes;
}

/* Takes `bytes` from the budget, which all functions share; false: so many are not left. */
static bool takes(struct folding *f, size_t bytes)
{
	size_t *folded = &f->r.g->library->folded;

	if (bytes <= SMALL)
		return true;
	if (*folded + bytes > ALLOWANCE) {
		f->budget = f->budget ? f->budget : budget_of(&f->r);
		if (*folded + bytes > f->budget)
			return false;
	}
	*folded += bytes;
	return true;
}

/* ---- which nodes are folded ---- */

static bool all_const(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (!ht_const_tensor(n->in[i]))
			return false;
	return n->ins > 0;
}

static int64_t elements(struct ht_type t)
{
	return ht_shape_count(t.shape);
}

static size_t result_bytes(const struct ht_node *n)
{
	size_t bytes = 0;

	for (int32_t i = 0; i < n->outs; i++)
		bytes += (size_t)elements(n->out[i]) * ht_dtype_info(n->out[i].dtype)->bytes;
	return bytes;
}

static bool is_bounded(const struct ht_node *n)
{
	int64_t in = 0, out = 0, in_bytes = 0, out_bytes = 0;

	for (int32_t i = 0; i < n->ins; i++) {
		int64_t count = elements(*ht_type_of(n->in[i]));

		in += count;
		in_bytes += (int64_t)ht_const_tensor(n->in[i])->blob->n;
	}
	for (int32_t i = 0; i < n->outs; i++) {
		int64_t count = elements(n->out[i]);

		if (count < 0 || count > LARGE * 16)
			return false;
		out += count;
		out_bytes += count * (int64_t)ht_dtype_info(n->out[i].dtype)->bytes;
	}
	if (out_bytes > LARGE && out_bytes > in_bytes)
		return false;
	return in + out <= MANY && ht_multiply_adds(n) <= MANY_PRODUCTS;
}

/* ---- results ---- */

/* `n` has one result and becomes a constant in place; it keeps its name and place. */
static void become_const(struct ht_rw *r, struct ht_node *n, struct ht_blob *b)
{
	struct ht_shape shape =
		ht_shape_make(r->g->arena, n->out[0].shape.rank, n->out[0].shape.dim);
	struct ht_tensor *t = ht_tensor_sharing(r->g->arena, n->out[0].dtype, shape, b);

	ht_rw_become(r, n, HT_OP_Const, NULL, 0);
	ht_attr_set_type(n, "dtype", n->out[0].dtype);
	ht_attr_set_tensor(n, "value", t);
}

static void replace_result(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_blob *b)
{
	struct ht_str name = ht_str_printf(r->arena, "%.*s/%d", HT_STR_ARG(n->name), (int)i);
	struct ht_value v = ht_rw_const(r, n, name, n->out[i].dtype, n->out[i].shape, b);

	ht_rw_replace(r, ht_out(n, i), v);
}

/* ---- shapes ---- */

static struct ht_blob *ints_blob(struct ht_rw *r, enum ht_dtype t, const int64_t *v, int32_t n)
{
	struct ht_blob *b = ht_rw_blob(r, (size_t)n * ht_dtype_info(t)->bytes);

	for (int32_t i = 0; i < n; i++) {
		if (t == HT_I32)
			((int32_t *)(void *)(uintptr_t)b->p)[i] = (int32_t)v[i];
		else
			((int64_t *)(void *)(uintptr_t)b->p)[i] = v[i];
	}
	return b;
}

static bool fits(enum ht_dtype t, int64_t v)
{
	return t == HT_I64 || (t == HT_I32 && v <= INT32_MAX);
}

/* Result `i` is the sizes of `s`. */
static bool fold_sizes(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_shape s)
{
	enum ht_dtype t = n->out[i].dtype;
	struct ht_blob *b;
	int64_t rank = s.rank;

	if (!ht_shape_known(s))
		return false;
	for (int32_t k = 0; k < s.rank; k++)
		if (!fits(t, s.dim[k]))
			return false;
	b = ints_blob(r, t, s.dim, s.rank);
	n->out[i].shape = ht_shape_make(r->g->arena, 1, &rank);
	if (n->outs == 1)
		become_const(r, n, b);
	else
		replace_result(r, n, i, b);
	return true;
}

static bool fold_shape(struct ht_rw *r, struct ht_node *n, int32_t i)
{
	return fold_sizes(r, n, i, ht_type_of(n->in[i])->shape);
}

static bool fold_number(struct ht_rw *r, struct ht_node *n, int64_t v)
{
	if (v < 0 || !fits(n->out[0].dtype, v))
		return false;
	n->out[0].shape = HT_SHAPE_SCALAR;
	become_const(r, n, ints_blob(r, n->out[0].dtype, &v, 1));
	return true;
}

/* Dimension `i` of the longer shape, counted from its end, in a shape `s` of `count` dimensions. */
static int64_t dim_from_end(const int64_t *s, int count, int i)
{
	return i < count ? s[count - 1 - i] : 1;
}

/* The axes along which the gradient of one of two broadcast operands is summed: those where that
 * operand has one element.  Equal shapes have none. */
static int64_t gradient_axes(
	const int64_t *own, int owns, const int64_t *other, int others, int64_t *axes)
{
	int rank = owns > others ? owns : others;
	int64_t count = 0;

	if (owns == others && !memcmp(own, other, (size_t)owns * sizeof *own))
		return 0;
	for (int i = rank - 1; i >= 0; i--)
		if (dim_from_end(own, owns, i) == 1)
			axes[count++] = rank - 1 - i;
	return count;
}

static bool fold_gradient_axes(struct ht_rw *r, struct ht_node *n)
{
	int64_t shape[2][HT_MAX_RANK], axes[HT_MAX_RANK], count;
	int rank[2];

	for (int i = 0; i < 2; i++)
		if (!ht_const_small_ints(n->in[i], shape[i], HT_MAX_RANK, &rank[i]))
			return false;
	for (int i = 0; i < 2 && n->graph; i++) {
		count = gradient_axes(shape[i], rank[i], shape[1 - i], rank[1 - i], axes);
		n->out[i].shape = ht_shape_make(r->g->arena, 1, &count);
		replace_result(r, n, i, ints_blob(r, n->out[i].dtype, axes, (int32_t)count));
	}
	return true;
}

static bool fold_shape_op(struct ht_rw *r, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_Shape:
		return fold_shape(r, n, 0);
	case HT_OP_VariableShape:
		return fold_sizes(r, n, 0, ht_handle_shape(n));
	case HT_OP_Size:
		return fold_number(r, n, ht_shape_count(ht_type_of(n->in[0])->shape));
	case HT_OP_Rank:
		return fold_number(r, n, ht_type_of(n->in[0])->shape.rank);
	case HT_OP_ShapeN:
		for (int32_t i = 0; i < n->outs && n->graph; i++)
			if (ht_rw_uses(r, ht_out(n, i)))
				fold_shape(r, n, i);
		return true;
	case HT_OP_BroadcastGradientArgs:
		return fold_gradient_axes(r, n);
	default:
		return false;
	}
}

/* ---- moving bytes ---- */

static bool fold_reshape(struct ht_rw *r, struct ht_node *n)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[0]);

	if (!t || !ht_shape_known(n->out[0].shape) ||
		ht_shape_count(t->shape) != ht_shape_count(n->out[0].shape))
		return false;
	become_const(r, n, t->blob);
	return true;
}

/* Copies with strides in bytes of the source; rank 0 is one element. */
static char *copy_strided(char *to, const char *from, const int64_t *dim, const int64_t *stride,
	int32_t rank, size_t bytes)
{
	if (rank == 0) {
		memcpy(to, from, bytes);
		return to + bytes;
	}
	if (rank == 1 && bytes == 4) {
		for (int64_t i = 0; i < *dim; i++, to += 4)
			memcpy(to, from + i * *stride, 4);
		return to;
	}
	for (int64_t i = 0; i < *dim; i++)
		to = copy_strided(to, from + i * *stride, dim + 1, stride + 1, rank - 1, bytes);
	return to;
}

enum { MAX_RANK = 8 };

static bool fold_transpose(struct folding *f, struct ht_node *n)
{
	struct ht_rw *r = &f->r;
	const struct ht_tensor *t = ht_const_tensor(n->in[0]);
	int64_t perm[MAX_RANK], step[MAX_RANK], dim[MAX_RANK], stride[MAX_RANK];
	bool seen[MAX_RANK] = { false };
	struct ht_blob *b;
	size_t bytes;
	int count;

	if (!t || !ht_const_small_ints(n->in[1], perm, MAX_RANK, &count) || count != t->shape.rank)
		return false;
	bytes = ht_dtype_info(t->dtype)->bytes;
	for (int i = count - 1; i >= 0; i--)
		step[i] = i == count - 1 ? (int64_t)bytes : step[i + 1] * t->shape.dim[i + 1];
	for (int i = 0; i < count; i++) {
		if (perm[i] < 0 || perm[i] >= count || seen[perm[i]])
			return false;
		seen[perm[i]] = true;
		dim[i] = t->shape.dim[perm[i]];
		stride[i] = step[perm[i]];
	}
	if (!takes(f, t->blob->n))
		return false;
	b = ht_rw_blob(r, t->blob->n);
	if (t->blob->n)
		copy_strided((char *)(uintptr_t)b->p, t->blob->p, dim, stride, count, bytes);
	n->out[0].shape = ht_shape_make(r->g->arena, count, dim);
	become_const(r, n, b);
	return true;
}

static bool fold_move(struct folding *f, struct ht_node *n)
{
	switch ((int)n->op) {
	case HT_OP_Reshape:
	case HT_OP_Squeeze:
	case HT_OP_ExpandDims:
		return fold_reshape(&f->r, n);
	case HT_OP_Transpose:
		return fold_transpose(f, n);
	default:
		return false;
	}
}

/* ---- arithmetic ---- */

static void fold_values(struct folding *f, struct ht_node *n)
{
	struct ht_rw *r = &f->r;
	struct ht_tensor *out;

	if (!all_const(n) || !n->outs || !ht_can_lower(n) || !is_bounded(n) ||
		!takes(f, result_bytes(n)) || ht_evaluate(n, r->arena, &out) != HT_OK)
		return;
	if (n->outs == 1) {
		become_const(r, n, out[0].blob);
		return;
	}
	for (int32_t i = 0; i < n->outs && n->graph; i++)
		if (ht_rw_uses(r, ht_out(n, i)))
			replace_result(r, n, i, out[i].blob);
}

/* Integers and Booleans: shapes, axes and conditions consist of them. */
static bool is_number_of_something(const struct ht_node *n)
{
	enum ht_kind kind = n->outs ? ht_dtype_info(n->out[0].dtype)->kind : HT_KIND_NONE;

	return kind == HT_KIND_INT || kind == HT_KIND_UINT || kind == HT_KIND_BOOL;
}

/* `user` waits for all nodes that `n` waits for. */
static void wait_likewise(struct ht_rw *r, struct ht_node *user, const struct ht_node *n)
{
	struct ht_node **more = HT_NEW_ARRAY(r->arena, struct ht_node *, (size_t)n->controls);
	int32_t count = 0;

	for (int32_t i = 0; i < n->controls; i++)
		if (!ht_waits_for(user, n->control[i]))
			more[count++] = n->control[i];
	ht_rw_set_controls(
		r, user, ht_controls_and(r->arena, user, more, count), user->controls + count);
}

/* A use as an operand; NULL: there is none. */
static const struct ht_rw_use *operand_use(const struct ht_rw *r, const struct ht_node *n)
{
	const struct ht_rw_use *u = ht_rw_first_use(r, n);

	while (u && u->arg < 0)
		u = ht_rw_next_use(r, u);
	return u;
}

/* Whether a result of ShapeN that has uses tells a known shape. */
static bool tells_some(const struct ht_rw *r, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (ht_shape_known(ht_type_of(n->in[i])->shape) &&
			ht_rw_uses(r, ht_out((struct ht_node *)(uintptr_t)n, i)))
			return true;
	return false;
}

/* Whether fold_shape_op() makes constants of all results, or of some of ShapeN. */
static bool tells_constants(const struct ht_rw *r, const struct ht_node *n)
{
	if (n->op == HT_OP_ShapeN)
		return tells_some(r, n);
	if (n->op != HT_OP_Shape && n->op != HT_OP_Size && n->op != HT_OP_BroadcastGradientArgs)
		return false;
	for (int32_t i = 0; i < n->ins; i++)
		if (n->op == HT_OP_BroadcastGradientArgs
				? !ht_is_const(n->in[i])
				: !ht_shape_known(ht_type_of(n->in[i])->shape))
			return false;
	return true;
}

/* Whether an operand of an op that a pass has to write in other ones, which is not done to what waits for other nodes. */
static bool feeds_rewritten(const struct ht_rw *r, const struct ht_node *n)
{
	for (const struct ht_rw_use *u = ht_rw_first_use(r, n); u; u = ht_rw_next_use(r, u))
		if (u->arg >= 0 && ht_never_lowered(u->node))
			return true;
	return false;
}

/* Likewise a node that tells shapes, whose users wait for other nodes instead of it. */
static void fold_waiting_shape(struct folding *f, struct ht_node *n)
{
	struct ht_rw *r = &f->r;
	struct ht_node **user = NULL;
	size_t users = 0, cap = 0;

	if (feeds_rewritten(r, n))
		return;
	for (int32_t i = 0; i < n->outs; i++)
		if (ht_rw_is_output(r, ht_out(n, i)))
			return;
	for (const struct ht_rw_use *u = ht_rw_first_use(r, n); u; u = ht_rw_next_use(r, u)) {
		user = ht_grow(r->arena, user, users, &cap, sizeof(struct ht_node *));
		user[users++] = u->node;
	}
	for (size_t i = 0; i < users; i++)
		wait_likewise(r, user[i], n);
	ht_rw_set_controls(r, n, NULL, 0);
	fold_shape_op(r, n);
}

/* An integer or Boolean node that waits for other nodes: its users wait for them instead. */
static void fold_waiting(struct folding *f, struct ht_node *n)
{
	struct ht_rw *r = &f->r;
	const struct ht_rw_use *u = operand_use(r, n);
	struct ht_tensor *out;
	struct ht_value v;

	if (!u || feeds_rewritten(r, n) || n->outs != 1 || !is_number_of_something(n) ||
		!all_const(n) || !ht_can_lower(n) || !is_bounded(n) || !takes(f, result_bytes(n)) ||
		ht_evaluate(n, r->arena, &out) != HT_OK)
		return;
	v = ht_rw_const(r, n, n->name, out[0].dtype, n->out[0].shape, out[0].blob);
	for (; u; u = operand_use(r, n)) {
		struct ht_node *user = u->node;
		int32_t arg = u->arg;

		/* First, as both `n` and what it waits for may be removed. */
		wait_likewise(r, user, n);
		ht_rw_set_in(r, user, arg, v);
	}
}

/* Whether the kernel compares indices with sizes of the run (bounded_indices.c), or a tensor still has to get its room (grown.c). */
static bool takes_sizes(const struct ht_node *n)
{
	return ht_attr_find(n, "_open") || ht_attr_find(n, "_within") || ht_attr_find(n, "room");
}

static void fold_node(struct folding *f, struct ht_node *n)
{
	struct ht_rw *r = &f->r;

	if (n->op == HT_OP_OPAQUE || ht_is(n, HT_CONSTANT) || ht_op_info(n->op)->effects ||
		ht_is(n, HT_HAS_DEFAULT | HT_COMPUTES_SIZE) || takes_sizes(n))
		return;
	if (n->controls) {
		(tells_constants(r, n) ? fold_waiting_shape : fold_waiting)(f, n);
		return;
	}
	if (fold_shape_op(r, n))
		return;
	if (!ht_rw_on(r, HT_FUSION_constant_folding) && !is_number_of_something(n))
		return;
	if (!fold_move(f, n))
		fold_values(f, n);
	if (n->graph && ht_is(n, HT_CONSTANT))
		ht_rw_hit(r, HT_FUSION_constant_folding);
}

/* If memory runs out, the error names the node. */
static void visit(struct folding *f, struct ht_node *n)
{
	struct ht_rw *r = &f->r;
	struct ht_arena *const arena[] = { r->g->arena, r->arena, r->c->scratch };
	struct ht_unwind here, *outer[HT_COUNT(arena)];
	struct ht_where at = { .path = r->g->path, .node = n->name, .op = n->type, .offset = -1 };

	for (size_t i = 0; i < HT_COUNT(arena); i++)
		outer[i] = arena[i]->unwind;
	if (setjmp(here.env)) {
		for (size_t i = HT_COUNT(arena); i-- > 0;)
			arena[i]->unwind = outer[i];
		if (!ht_is_cancelled())
			ht_error(r->c->diags, HT_E_ENVIRONMENT, at,
				"out of memory while the value of this constant is computed");
		ht_arena_fail(r->g->arena);
	}
	for (size_t i = 0; i < HT_COUNT(arena); i++)
		arena[i]->unwind = &here;
	fold_node(f, n);
	for (size_t i = HT_COUNT(arena); i-- > 0;)
		arena[i]->unwind = outer[i];
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct folding f = { 0 };
	struct ht_node **all;
	size_t count;

	ht_rw_init(&f.r, g, c);
	all = ht_rw_nodes(&f.r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			visit(&f, all[i]);
	return HT_OK;
}

const struct ht_pass ht_pass_fold = {
	.name = "fold",
	.summary = "computes what depends on constants alone",
	.does_more = true,
	.run = run,
};
