/* Bincount and searches in sorted numbers: how many numbers fall into each bin, and where
 * numbers belong among sorted ones. */
#include "lower/scatter.h"

enum { TILE_ELEMENTS = 16384 };

/* ---- Bincount and DenseBincount: each element adds one, or its weight, to its bin ---- */

/* The operand with the weights.  If it is empty, each element counts as one. */
static int weights_of(const struct ht_node *n)
{
	return ht_shape_count(shape_of(n, 2)) ? 2 : -1;
}

/* The bin of the element at `s`, whose last coordinate is the bin.  Negative numbers are faults;
 * numbers beyond the last bin are left out. */
static struct space bin_at(struct kernel_build *k, const struct ht_node *n, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	struct ht_shape bins = n->out[0].shape;
	int64_t count = bins.dim[bins.rank - 1];
	int32_t x[2] = { bins.rank > 1 ? space_coord(b, s, 0) : -1 };
	int32_t number = ht_xcvt(b, HT_I64, kb_pull(k, n->in[0], s));
	struct space at;

	number = ht_xcheck(b, number, ht_xle(b, ht_xi(b, 0), number), HT_FAULT_INDEX);
	x[bins.rank - 1] = number;
	at = space_of_coords(s, bins.rank, bins.dim, x);
	space_and_guard(b, &at, ht_xlt(b, number, ht_xi(b, count)));
	return at;
}

static void count_elements(struct lower *l, const struct ht_node *n, const struct view *bins)
{
	struct ht_shape in = shape_of(n, 0);
	enum ht_dtype t = n->out[0].dtype;
	struct kernel_build k;
	struct space s, at;
	int32_t more;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_sequential_space(&k, in.rank, in.dim, in.rank);
	at = bin_at(&k, n, &s);
	more = weights_of(n) < 0 || ht_attr_bool(n, "binary_output", false)
		       ? ht_xk(&k.xb, t, 1)
		       : kb_pull(&k, n->in[2], &s);
	if (!ht_attr_bool(n, "binary_output", false))
		more = ht_xadd(&k.xb, kb_load(&k, bins, &at), more);
	kb_store(&k, bins, &at, more);
	kb_finish(&k, n);
}

static enum ht_status emit_bincount(struct lower *l, struct ht_node *n)
{
	struct view bins;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	bins = scatter_zeros(l, n);
	if (ht_shape_count(shape_of(n, 0)))
		count_elements(l, n, &bins);
	return HT_OK;
}

static const char *refuse_bincount(const struct ht_node *n)
{
	struct ht_shape in = shape_of(n, 0), weights = shape_of(n, 2);

	if (in.rank < n->out[0].shape.rank || in.rank > HT_LOWER_RANK)
		return "counts the elements of a tensor of this rank, which has no kernel";
	if (ht_shape_count(n->out[0].shape) == 0 && ht_shape_count(in))
		return "counts without bins";
	return ht_shape_count(weights) == 0 || ht_shape_eq(weights, in)
		       ? NULL
		       : "has other weights than elements";
}

const struct lower_op lower_bincount = {
	.family = FAMILY_ROOT, .alone = true, .emit = emit_bincount, .refuse = refuse_bincount
};

/* ---- LowerBound and UpperBound: how many of each row's sorted numbers are below a value, or not above it ---- */

static enum ht_status emit_bound(struct lower *l, struct ht_node *n)
{
	struct ht_shape sorted = shape_of(n, 0), values = shape_of(n, 1);
	struct kernel_build k;
	struct ht_xb *b = &k.xb;
	struct space s = { .rank = 2, .groups = 2, .guard = -1 };
	int64_t step = ht_ceil_div(TILE_ELEMENTS, sorted.dim[1] + 1);
	const int64_t grid[2] = { values.dim[0], ht_ceil_div(values.dim[1], step) };
	int32_t x[2], value, each, below;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	kb_grid(&k, 2, grid);
	x[0] = ht_xdim(b, kb_grid_dim(&k, 0, values.dim[0], 1));
	k.stage->vec = kb_grid_dim(&k, 1, values.dim[1], step);
	x[1] = ht_xdim(b, k.stage->vec);
	s = space_of_coords(&s, 2, values.dim, x);
	value = kb_pull(&k, n->in[1], &s);
	x[1] = ht_xdim(b, kb_reduce_dim(&k, sorted.dim[1]));
	each = pull_at(&k, n, 0, &s, x);
	below = n->op == HT_OP_LowerBound ? ht_xlt(b, each, value)
					  : ht_xnot(b, ht_xlt(b, value, each));
	kb_store_root(&k, n,
		ht_xcvt(b, n->out[0].dtype,
			kb_reduce(&k, HT_RED_ADD, HT_I32, ht_xcvt(b, HT_I32, below))),
		&s);
	kb_finish(&k, n);
	return HT_OK;
}

static const char *refuse_bound(const struct ht_node *n)
{
	struct ht_shape sorted = shape_of(n, 0), values = shape_of(n, 1);

	if (sorted.rank != 2 || values.rank != 2 || sorted.dim[0] != values.dim[0])
		return "has no row of sorted numbers for each row of values";
	if (ht_type_of(n->in[0])->dtype == HT_BOOL)
		return "is about truth values, which have no order";
	return sorted.dim[1] < INT32_MAX ? NULL : "has more numbers than 32 bits count";
}

const struct lower_op lower_bound = {
	.family = FAMILY_ROOT, .emit = emit_bound, .refuse = refuse_bound
};

/* ---- Bucketize: how many of the boundaries are not above an element ---- */

enum { MOST_BOUNDARIES = 256 };

static const struct ht_attr *boundaries(const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "boundaries");

	return a && a->value.kind == HT_ATTR_LIST ? a : NULL;
}

static size_t boundary_count(const struct ht_node *n)
{
	const struct ht_attr *a = boundaries(n);

	return a ? a->value.list.n : 0;
}

/* Boundaries are float32.  Elements of all types but float64 are compared as float32, as
 * TensorFlow does. */
static int32_t pull_bucket(
	struct kernel_build *k, const struct ht_node *n, int out, const struct space *s)
{
	struct ht_xb *b = &k->xb;
	int32_t x = kb_pull(k, n->in[0], s), bucket = ht_xint(b, HT_I32, 0);
	const struct ht_attr *a = boundaries(n);
	bool wide = ht_xtype(b, x) == HT_F64;

	(void)out;
	if (!wide)
		x = ht_xcvt(b, HT_F32, x);
	for (size_t i = 0; a && i < a->value.list.n; i++) {
		double at = (double)a->value.list.item[i].f;
		int32_t below = ht_xlt(b, x, wide ? ht_xd(b, at) : ht_xf(b, at));

		bucket = ht_xadd(b, bucket, ht_xcvt(b, HT_I32, ht_xnot(b, below)));
	}
	return bucket;
}

static const char *refuse_bucket(const struct ht_node *n)
{
	const struct ht_attr *a = boundaries(n);

	for (size_t i = 1; i < boundary_count(n); i++)
		if (!(a->value.list.item[i - 1].f <= a->value.list.item[i].f))
			return "has boundaries that are not sorted";
	return boundary_count(n) <= MOST_BOUNDARIES ? NULL : "has more than 256 boundaries";
}

const struct lower_op lower_bucketize = {
	.family = FAMILY_MAP, .aligned = true, .pull = pull_bucket, .refuse = refuse_bucket
};
