/* Lists by value, and what is told of a list: each fact adds to what is known of it, or contradicts it. */
#include "passes/lists_told.h"

#include <string.h>

/* ---- lists by value ---- */

bool ht_is_list(struct ht_value v)
{
	return !v.port.n && v.index >= 0 && v.index < v.node->outs &&
	       ht_type_of(v)->dtype == HT_VARIANT;
}

struct ht_list *ht_list_standing(struct ht_list *x)
{
	while (x->same)
		x = x->same;
	return x;
}

struct ht_list *ht_list_of(struct ht_lists *l, struct ht_value v)
{
	struct ht_list *x = ht_by_value(&l->of, v);

	if (x)
		return ht_list_standing(x);
	if (!ht_is_list(v))
		return NULL;
	x = HT_NEW(l->c->scratch, struct ht_list);
	*x = (struct ht_list){
		.length = -1, .limit = -1, .shape = HT_SHAPE_UNKNOWN, .sizes = HT_SHAPE_UNKNOWN
	};
	ht_set_by_value(&l->of, l->c->scratch, v, x);
	return x;
}

static bool has_fixed_size(enum ht_dtype t)
{
	return t > HT_INVALID && t < HT_REF && ht_dtype_info(t)->bytes > 0;
}

/* Elements that are concatenated must not be scalars, which have no length. */
static bool can_join(const struct ht_list *x)
{
	int64_t length;

	return x->shape.rank > 0 && x->length >= 0 && x->shape.dim[0] >= 0 &&
	       !__builtin_mul_overflow(x->shape.dim[0], x->length, &length);
}

bool ht_list_is_known(const struct ht_list *x)
{
	return !x->bad && !x->varied && !x->unsure && !x->grows && !x->computed && !x->waits &&
	       has_fixed_size(x->dtype) && x->length != HT_DIM_UNKNOWN && x->length <= INT32_MAX &&
	       ht_shape_is_told(x->shape) && x->shape.rank < HT_MAX_RANK &&
	       (!x->joined || can_join(x));
}

bool ht_list_has_one(const struct ht_list *x)
{
	return !x->various && (x->constant || x->sizes.rank >= 0);
}

struct ht_shape ht_list_shape(const struct ht_list *x, struct ht_arena *a)
{
	int64_t dim[HT_MAX_RANK] = { x->length };

	for (int32_t i = 0; i < x->shape.rank; i++)
		dim[i + 1] = x->shape.dim[i];
	return ht_shape_make(a, x->shape.rank + 1, dim);
}

/* ---- open sizes ---- */

bool ht_lists_have_sizes(const struct ht_lists *l)
{
	return l->g->sizes && !l->g->closed;
}

int64_t ht_lists_told_dim(const struct ht_lists *l, int64_t dim)
{
	return dim >= 0 || (ht_lists_have_sizes(l) && ht_dim_is_open(l->g, dim)) ? dim
										 : HT_DIM_UNKNOWN;
}

struct ht_shape ht_lists_told_shape(const struct ht_lists *l, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK];

	if (s.rank < 0 || s.rank > HT_MAX_RANK)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = ht_lists_told_dim(l, s.dim[i]);
	return ht_shape_make(l->c->scratch, s.rank, dim);
}

bool ht_lists_ask_elements(const struct ht_lists *l)
{
	return ht_lists_have_sizes(l) || l->shapes;
}

/* What inference knows of the elements of `v`; NULL: nothing. */
static const struct ht_known *elements_of(const struct ht_lists *l, struct ht_value v)
{
	struct ht_known **known =
		ht_lists_ask_elements(l) ? ht_known_of(&l->known, v.node->graph) : NULL;
	const struct ht_known *k = known ? known[v.node->id] : NULL;

	return k && k[v.index].e ? &k[v.index] : NULL;
}

/* ---- what is told of a list ---- */

void ht_list_tell_dtype(struct ht_list *x, enum ht_dtype t)
{
	if (x->dtype == HT_INVALID)
		x->dtype = t;
	x->bad = x->bad || (t != HT_INVALID && x->dtype != t);
}

void ht_list_tell_length(struct ht_list *x, int64_t n)
{
	if (x->length == HT_DIM_UNKNOWN)
		x->length = n;
	x->grows = x->grows || (n != HT_DIM_UNKNOWN && x->length != n);
}

void ht_list_tell_limit(struct ht_list *x, int64_t n)
{
	if (n >= 0 && (x->limit < 0 || n < x->limit))
		x->limit = n;
}

static void has_most(struct ht_list *x, int32_t axis, int64_t most)
{
	if (most > x->most[axis])
		x->most[axis] = most;
}

void ht_list_tell_shape(struct ht_lists *l, struct ht_list *x, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK];

	s = ht_lists_told_shape(l, s);
	if (s.rank < 0)
		return;
	if (x->shape.rank >= 0 && x->shape.rank != s.rank) {
		x->bad = true;
		return;
	}
	for (int32_t i = 0; i < s.rank; i++) {
		int64_t known = x->shape.rank < 0 ? HT_DIM_UNKNOWN : x->shape.dim[i];

		dim[i] = s.dim[i];
		if (dim[i] != HT_DIM_UNKNOWN)
			has_most(x, i, ht_dim_most(l->g, dim[i]));
		if (known != HT_DIM_UNKNOWN && dim[i] != HT_DIM_UNKNOWN && known != dim[i])
			x->varied |= 1u << i;
		if (known != HT_DIM_UNKNOWN)
			dim[i] = known;
	}
	x->shape = ht_shape_make(l->c->scratch, s.rank, dim);
}

void ht_list_tell_home(struct ht_lists *l, struct ht_list *x, const struct ht_graph *home)
{
	if (home)
		x->home = x->home && x->home != home ? l->g : home;
}

/* Elements that are a shape, as far as they are known. */
static void has_computed_shape(struct ht_lists *l, struct ht_list *x, struct ht_value stated)
{
	const struct ht_known *k = elements_of(l, stated);
	int64_t dim[HT_MAX_RANK];

	if (!k || k->n > HT_MAX_RANK || ht_type_of(stated)->shape.rank != 1)
		return;
	for (int32_t i = 0; i < k->n; i++)
		dim[i] = ht_elem_dim(&k->e[i]);
	ht_list_tell_shape(l, x, (struct ht_shape){ k->n, dim });
}

void ht_list_tell_stated(struct ht_lists *l, struct ht_list *x, struct ht_value stated)
{
	int64_t dim[HT_MAX_RANK];
	int rank;
	const struct ht_tensor *t = ht_const_tensor(stated);

	if (!t)
		has_computed_shape(l, x, stated);
	else if (t && t->shape.rank == 1 && ht_const_small_ints(stated, dim, HT_MAX_RANK, &rank))
		ht_list_tell_shape(l, x, (struct ht_shape){ rank, dim });
}

int64_t ht_list_stated_length(const struct ht_lists *l, struct ht_value v)
{
	const struct ht_known *k = elements_of(l, v);
	int64_t n;
	int count;

	if (ht_const_small_ints(v, &n, 1, &count) && count == 1)
		return n;
	return k && k->n == 1 ? ht_lists_told_dim(l, ht_elem_dim(&k->e[0])) : HT_DIM_UNKNOWN;
}

/* Elements that are sizes, which gradients keep in lists: if all are one constant, the list is
 * not needed. */
static void has_constant(struct ht_list *x, const struct ht_tensor *t)
{
	if (!x->constant)
		x->constant = t;
	else if (t->dtype != x->constant->dtype || !ht_shape_eq(t->shape, x->constant->shape) ||
		 memcmp(t->blob->p, x->constant->blob->p, t->blob->n) != 0)
		x->various = true;
	x->various = x->various || x->sizes.rank >= 0;
}

/* Likewise elements that are the same sizes of the run. */
static void has_sizes(struct ht_list *x, struct ht_shape sizes)
{
	if (x->sizes.rank < 0)
		x->sizes = sizes;
	x->various = x->various || x->constant || !ht_shape_eq(x->sizes, sizes);
}

/* Whether a dimension is a number, or one of sizes that are the same in the whole run: no body computes them. */
static bool stays_in_run(const struct ht_lists *l, int64_t dim)
{
	struct ht_size_expr e = ht_dim_of_sizes(l->g, dim);

	if (ht_lists_told_dim(l, dim) == HT_DIM_UNKNOWN)
		return false;
	for (int k = 0; k < ht_size_count(&e); k++)
		if (ht_size_at(l->g, e.size[k])->within.n)
			return false;
	return true;
}

/* The elements of a vector or scalar as dimensions; rank -1: some may differ within the run, or are no sizes. */
static struct ht_shape sizes_in(const struct ht_lists *l, struct ht_value v)
{
	const struct ht_known *k = elements_of(l, v);
	int64_t dim[HT_MAX_RANK];

	if (!k || k->n > HT_MAX_RANK || ht_shape_count(ht_type_of(v)->shape) != k->n ||
		ht_type_of(v)->shape.rank > 1)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < k->n; i++) {
		dim[i] = ht_elem_dim(&k->e[i]);
		if (!stays_in_run(l, dim[i]))
			return HT_SHAPE_UNKNOWN;
	}
	return ht_shape_make(l->c->scratch, k->n, dim);
}

void ht_list_tell_element(const struct ht_lists *l, struct ht_list *x, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	struct ht_shape sizes = HT_SHAPE_UNKNOWN;

	if (t && ht_is_index(t->dtype) && t->blob) {
		has_constant(x, t);
		return;
	}
	if (!t && ht_is_index(ht_type_of(v)->dtype))
		sizes = sizes_in(l, v);
	if (sizes.rank >= 0)
		has_sizes(x, sizes);
	else
		x->various = true;
}

void ht_list_tell_same(struct ht_lists *l, struct ht_value a, struct ht_value b)
{
	struct ht_list *x = ht_list_of(l, a), *y = ht_list_of(l, b);

	if (!x || !y || x == y)
		return;
	x->bad = x->bad || y->bad || (x->shrinks && y->extended) || (x->extended && y->shrinks);
	x->joined = x->joined || y->joined;
	x->summed = x->summed || y->summed;
	x->unsure = x->unsure || y->unsure;
	x->varied |= y->varied;
	for (int i = 0; i < HT_MAX_RANK; i++)
		has_most(x, i, y->most[i]);
	ht_list_tell_home(l, x, y->home);
	ht_list_tell_dtype(x, y->dtype);
	ht_list_tell_length(x, y->length);
	ht_list_tell_limit(x, y->limit);
	ht_list_tell_shape(l, x, y->shape);
	x->grows = x->grows || y->grows;
	x->computed = x->computed || y->computed;
	x->open = x->open || y->open;
	x->parts = x->parts || y->parts;
	x->shrinks = x->shrinks || y->shrinks || (x->resized && y->resized);
	x->resized = x->resized || y->resized;
	x->extended = x->extended || y->extended;
	x->popped = x->popped || y->popped;
	x->various = x->various || y->various;
	x->empty = x->empty || y->empty;
	x->whole = x->whole || y->whole;
	if (y->constant)
		has_constant(x, y->constant);
	if (y->sizes.rank >= 0)
		has_sizes(x, y->sizes);
	y->same = x;
}

void ht_list_tell_bad(struct ht_lists *l, struct ht_value v)
{
	struct ht_list *x = ht_list_of(l, v);

	if (x)
		x->bad = true;
}
