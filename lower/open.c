/* Open sizes within bounds: temporary tensors have the extents of the largest sizes; inputs and
 * outputs have those of the run.
 *
 * A kernel that reads a size gets all sizes of the run as its parameters. */
#include "lower/index.h"
#include "lower/strides.h"

void kb_take_sizes(struct kernel_build *k)
{
	k->sized = true;
	k->kernel->params = k->l->g->sizes;
}

int32_t kb_size(struct kernel_build *k, int32_t size)
{
	kb_take_sizes(k);
	return ht_xparam(&k->xb, size);
}

static struct ht_open_axis listed(const struct ht_node *n, const char *list, int32_t axis)
{
	const struct ht_attr *a = ht_attr_find(n, list);
	size_t at = 2 * (size_t)axis;

	if (!a || a->value.kind != HT_ATTR_LIST || at + 1 >= a->value.list.n)
		return (struct ht_open_axis){ 0, 1 };
	return (struct ht_open_axis){ (int32_t)a->value.list.item[at].i,
		a->value.list.item[at + 1].i };
}

struct ht_open_axis lower_open_axis(const struct ht_node *n, int32_t axis)
{
	return listed(n, "_open", axis);
}

struct ht_open_axis lower_axis_end(const struct ht_node *n, int32_t axis)
{
	return listed(n, "_ends", axis);
}

int32_t kb_axis_end(struct kernel_build *k, const struct ht_open_axis *a, int64_t extent)
{
	if (!a->size)
		return ht_xi(&k->xb, extent);
	return ht_xmuli(&k->xb, kb_size(k, a->size - 1), a->inner);
}

int32_t kb_extent(struct kernel_build *k, const struct ht_node *n, int32_t axis, struct ht_shape s)
{
	const struct ht_open_axis open = lower_open_axis(n, axis);

	return kb_axis_end(k, &open, s.dim[axis]);
}

/* How many indices outside of the open size the axis has for each index of it: see struct
 * ht_open_axis. */
static int64_t outer_of(int64_t extent, const struct ht_open_axis *a, int64_t most)
{
	return extent / (a->inner * most);
}

static int64_t most_of(const struct kernel_build *k, const struct ht_open_axis *a)
{
	return k->l->g->size[a->size - 1].most;
}

/* The index of an open axis in memory that has only the run's indices; *extent becomes the
 * number of these. */
static int32_t open_index(struct kernel_build *k, int64_t dim, const struct ht_open_axis *a,
	int32_t x, int32_t *extent, int32_t *guard)
{
	struct ht_xb *b = &k->xb;
	int64_t most = most_of(k, a), outer = outer_of(dim, a, most);
	int32_t span = ht_xmuli(b, kb_size(k, a->size - 1), a->inner), at = x, inside;

	if (outer > 1)
		at = ht_xmodi(b, x, a->inner * most);
	inside = ht_xlt(b, at, span);
	*guard = *guard < 0 ? inside : ht_xand(b, *guard, inside);
	*extent = ht_xmuli(b, span, outer);
	if (outer > 1)
		at = ht_xadd(b, at, ht_xmul(b, ht_xdivi(b, x, a->inner * most), span));
	return at;
}

int32_t kb_open_offset(
	struct kernel_build *k, const struct view *v, const struct space *s, int32_t *guard)
{
	struct ht_xb *b = &k->xb;
	int32_t sum = ht_xi(b, 0);

	for (int32_t i = 0; i < v->rank; i++) {
		int32_t x = space_coord(b, s, i), extent = ht_xi(b, v->dim[i]);

		if (v->open[i].size)
			x = open_index(k, v->dim[i], &v->open[i], x, &extent, guard);
		sum = i ? ht_xadd(b, ht_xmul(b, sum, extent), x) : x;
	}
	return sum;
}

/* ---- _Relaid, _Within, _Sizes ---- */

static int32_t pull_relaid(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	return kb_operand(k, n, out, s);
}

/* A concatenation that becomes an output is made in the output's memory. */
static void part_of_relaid(struct lower *l, const struct ht_node *n, int arg, struct view *v)
{
	(void)arg;
	*v = l->view[n->id][0];
}

const struct lower_op lower_relaid = { .family = FAMILY_MAP,
	.aligned = true,
	.pull = pull_relaid,
	.given = lower_reads_input,
	.part = part_of_relaid,
	.owns = lower_takes_memory };

/* The initial value of the reduction. */
static int32_t filling(struct ht_xb *b, const struct ht_node *n, enum ht_dtype t)
{
	struct ht_str fill = ht_attr_str(n, "fill", "zero");
	int32_t lowest = lowest_of(b, t);

	if (ht_str_is(fill, "lowest"))
		return lowest;
	if (ht_str_is(fill, "highest"))
		return ht_is_float(t) ? ht_xneg(b, lowest) : ht_xnot(b, lowest);
	return ht_xk(b, t, ht_str_is(fill, "one"));
}

/* Whether the index of axis `axis`, of a tensor with so many of them, is below the run's size. */
static int32_t is_within(struct kernel_build *k, const struct space *s, int32_t axis, int64_t dim,
	struct ht_open_axis a)
{
	struct ht_xb *b = &k->xb;
	int32_t x = space_coord(b, s, axis);
	int64_t most = most_of(k, &a);

	if (a.inner > 1)
		x = ht_xdivi(b, x, a.inner);
	if (outer_of(dim, &a, most) > 1)
		x = ht_xmodi(b, x, most);
	return ht_xlt(b, x, kb_size(k, a.size - 1));
}

static int32_t pull_within(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_open_axis a = { (int32_t)ht_attr_int(n, "size", 0), ht_attr_int(n, "inner", 1) };
	int32_t axis = (int32_t)ht_attr_int(n, "axis", 0);

	(void)out;
	return ht_xselect(b, is_within(k, s, axis, n->out[0].shape.dim[axis], a),
		kb_operand(k, n, 0, s), filling(b, n, compute_type(n->out[0].dtype)));
}

void kb_only_within(struct kernel_build *k, const struct ht_node *n, struct space *s)
{
	size_t count;
	const int64_t *within = ht_attr_ints(n, "_within", &count, k->arena);

	for (size_t i = 0; i + 2 < count; i += 3) {
		struct ht_open_axis a = { (int32_t)within[i + 1], within[i + 2] };
		int32_t axis = (int32_t)within[i];

		if (a.size < 1 || a.size > k->l->g->sizes || axis >= s->rank || a.inner <= 0)
			continue;
		space_and_guard(&k->xb, s,
			axis < 0 ? ht_xlt(&k->xb, ht_xi(&k->xb, 0), kb_size(k, a.size - 1))
				 : is_within(k, s, axis, s->dim[axis], a));
	}
}

/* A constant times sizes: see passes/bounded_values.c. */
static int32_t product_of_sizes(struct kernel_build *k, const int64_t *product)
{
	int32_t x = ht_xi(&k->xb, product[0]);

	for (int i = 1; i <= HT_DIM_SIZES; i++)
		if (product[i])
			x = ht_xmul(&k->xb, x, kb_size(k, (int32_t)product[i] - 1));
	return x;
}

static int32_t pull_sizes(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t at = space_linear(b, s), x = ht_xi(b, 0);
	int64_t of[1 + HT_DIM_SIZES];

	(void)out;
	for (int64_t i = 0; ht_stated_product(n, i, of); i++)
		x = ht_xselect(b, ht_xeq(b, at, ht_xi(b, i)), product_of_sizes(k, of), x);
	return ht_xcvt(b, n->out[0].dtype, x);
}

static const char no_size[] = "has a size that the graph does not have";

static const char *refuse_sizes(const struct ht_node *n)
{
	int64_t of[1 + HT_DIM_SIZES];

	for (int64_t i = 0; i < ht_shape_count(n->out[0].shape); i++)
		if (!ht_stated_product(n, i, of))
			return no_size;
	return NULL;
}

static const char *refuse_within(const struct ht_node *n)
{
	int64_t size = ht_attr_int(n, "size", 0), inner = ht_attr_int(n, "inner", 1),
		axis = ht_attr_int(n, "axis", 0), units;

	if (size < 1 || size > n->graph->library->sizes)
		return no_size;
	if (axis < 0 || axis >= n->out[0].shape.rank || inner < 1 ||
		__builtin_mul_overflow(inner, ht_size_at(n->graph, (int32_t)size)->most, &units) ||
		n->out[0].shape.dim[axis] % units)
		return "has no axis of its size";
	return NULL;
}

const struct lower_op lower_sizes = {
	.family = FAMILY_MAP, .pull = pull_sizes, .refuse = refuse_sizes
};

const struct lower_op lower_within = { .family = FAMILY_MAP,
	.aligned = true,
	.apart = true,
	.pull = pull_within,
	.refuse = refuse_within };
