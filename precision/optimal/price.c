/* Prices a graph by its kernels. */
#include "precision/optimal/price.h"
#include "precision/precision.h"

#include <math.h>

/* A bound that exceeds the time of any program: a quarter of an hour.  It keeps sums from
 * overflowing. */
#define MOST 1e15

/* The size that unknown dimensions count as. */
enum { OPEN = 16 };

struct work {
	enum ht_work_kind kind;
	struct ht_work_size size;
	double units;
};

static int64_t picoseconds(double ps)
{
	return ps >= MOST ? (int64_t)MOST : ps > 0 ? (int64_t)llround(ps) : 0;
}

static int64_t estimate(struct ht_shape s)
{
	double n = 1;

	if (s.rank < 0)
		return OPEN;
	for (int32_t i = 0; i < s.rank; i++)
		n *= s.dim[i] < 0 ? OPEN : (double)s.dim[i];
	return n > 1e12 ? (int64_t)1e12 : (int64_t)n;
}

static int64_t count_of(struct ht_value v)
{
	return estimate(ht_type_of(v)->shape);
}

static int64_t result_count(const struct ht_node *n)
{
	return n->outs ? estimate(n->out[0].shape) : 0;
}

static int64_t dim_of(struct ht_shape s, int32_t i)
{
	return i < 0 || i >= s.rank ? 1 : s.dim[i] < 0 ? OPEN : s.dim[i];
}

static bool is_constant(struct ht_value v)
{
	if (ht_is(v.node, HT_CASTS) && v.node->ins)
		v = v.node->in[0];
	return ht_is(v.node, HT_CONSTANT);
}

/* ---- the work of a node ---- */

static enum ht_work_kind elementwise_kind(const struct ht_node *n)
{
	if (n->op == HT_OP_Silu)
		return HT_WORK_SILU;
	if (n->op == HT_OP_Gelu && !ht_attr_bool(n, "approximate", false))
		return HT_WORK_GELU;
	return ht_is(n, HT_FUNCTION | HT_SHORTENS) ? HT_WORK_FUNCTION : HT_WORK_MAP;
}

/* Vectors of columns are computed whole.  A single column has other kernels, with rows along the lanes. */
static double with_idle_lanes(int64_t lanes, int64_t columns)
{
	return columns > 1 ? (double)(ht_ceil_div(columns, lanes) * lanes) / (double)columns : 1;
}

static struct work product_work(
	const struct ht_pricing *p, const struct ht_node *n, double multiply_adds)
{
	struct ht_shape out = n->out[0].shape, right = ht_type_of(n->in[1])->shape;
	int64_t columns = dim_of(out, out.rank - 1),
		rows = result_count(n) / (columns ? columns : 1);
	double cells = (double)rows * (double)columns;
	int64_t batch = 1;

	/* If each matrix of the batch has its own right operand, there are as many products. */
	if (!ht_is(n, HT_CONV | HT_CONV_TRANSPOSE))
		for (int32_t i = 0; i + 2 < right.rank; i++)
			batch *= dim_of(right, i);
	return (struct work){ HT_WORK_PRODUCT,
		{ batch > 1 ? rows / batch : rows, columns,
			(int64_t)(cells > 0 ? multiply_adds / cells : 1) },
		multiply_adds * with_idle_lanes(ht_target_lanes(p->target), columns) };
}

/* A resized image reads two pixels in each direction. */
enum { RESIZED_WINDOW = 4 };

static struct work pool_work(const struct ht_node *n)
{
	const struct ht_attr *size = ht_attr_find(n, "ksize");
	double window = size ? 1 : RESIZED_WINDOW;

	if (size && size->value.kind == HT_ATTR_LIST && size->value.list.kind == HT_ATTR_INT)
		for (size_t i = 0; i < size->value.list.n; i++)
			window *= (double)size->value.list.item[i].i;
	return (struct work){ HT_WORK_POOL, { result_count(n), 1, 1 },
		(double)result_count(n) * window };
}

/* A reduction along the axis whose elements are adjacent in memory, or along another one. */
static struct work reduce_work(const struct ht_node *n)
{
	struct ht_shape in = ht_type_of(n->in[0])->shape, out = n->out[0].shape;
	int64_t last = dim_of(in, in.rank - 1);
	bool across = out.rank > 0 && last > 1 && dim_of(out, out.rank - 1) == last;
	int64_t count = estimate(in);

	return (struct work){ across ? HT_WORK_COLUMNS : HT_WORK_ROWS, { count, 1, 1 },
		(double)count };
}

static struct work loop_work(
	const struct ht_pricing *p, const struct ht_node *n, enum ht_work_of_node does)
{
	double multiply_adds = (double)ht_multiply_adds(n);
	int64_t count = n->ins ? count_of(n->in[0]) : result_count(n);

	if (multiply_adds > 0 && ht_is_depthwise(n))
		return (struct work){ HT_WORK_DEPTHWISE,
			{ (int64_t)(multiply_adds / (double)(result_count(n) + 1)) + 1,
				result_count(n), 1 },
			multiply_adds };
	if (multiply_adds > 0 && n->ins > ht_packed_operand(n))
		return product_work(p, n, multiply_adds * ht_products_share(n));
	if (does == HT_NODE_POOL)
		return pool_work(n);
	if (n->ins && does == HT_NODE_REDUCTION)
		return reduce_work(n);
	return (struct work){ does == HT_NODE_UNKNOWN ? HT_WORK_MOVE : HT_WORK_ROWS,
		{ count, 1, 1 }, (double)count };
}

static bool has_loop(enum ht_work_of_node w)
{
	return w == HT_NODE_UNKNOWN || w >= HT_NODE_LOOP;
}

/* ---- prices of parts ---- */

enum { MEMO = 1024 };

struct ht_price_memo {
	struct ht_work_size size;
	double units, ps;
	enum ht_work_kind kind;
	enum ht_dtype type;
	bool filled;
};

/* ht_cost(), with a memo of the last answer for each slot. */
static double look_up(const struct ht_pricing *p, enum ht_work_kind kind, enum ht_dtype t,
	struct ht_work_size size, double units)
{
	uint64_t h = (uint64_t)size.x * 31 + (uint64_t)size.y;
	struct ht_price_memo *m;

	h = (h * 31 + (uint64_t)size.z) * 31 + (uint64_t)kind * HT_WORK_KINDS + (uint64_t)t;
	m = &p->memo[(h * UINT64_C(0x9e3779b97f4a7c15) >> 32) % MEMO];
	if (m->filled && m->kind == kind && m->type == t && m->units == units &&
		m->size.x == size.x && m->size.y == size.y && m->size.z == size.z)
		return m->ps;
	*m = (struct ht_price_memo){ size, units, ht_cost(p->costs, kind, t, size, units), kind, t,
		true };
	return m->ps;
}

static int64_t price(const struct ht_pricing *p, enum ht_work_kind kind, enum ht_dtype t,
	int64_t size, int64_t units)
{
	return picoseconds(look_up(p, kind, t, (struct ht_work_size){ size, 1, 1 }, (double)units));
}

int64_t ht_price_launch(const struct ht_pricing *p)
{
	return price(p, HT_WORK_LAUNCH, HT_F32, 1, 1);
}

int64_t ht_price_load(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t)
{
	return price(p, HT_WORK_LOAD, t, count_of(v), count_of(v));
}

int64_t ht_price_reload(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t)
{
	const int bytes = ht_is_low(t) ? 2 : 4;
	int64_t cold = price(p, HT_WORK_WEIGHTS, t, 1, bytes * count_of(v)),
		load = ht_price_load(p, v, t);

	return cold > load ? cold - load : 0;
}

int64_t ht_price_store(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t)
{
	return price(p, HT_WORK_STORE, t, count_of(v), count_of(v));
}

int64_t ht_price_round(const struct ht_pricing *p, struct ht_value v, enum ht_dtype t)
{
	return ht_is_low(t) ? price(p, HT_WORK_ROUND, t, 1, count_of(v)) : 0;
}

int64_t ht_price_cast(const struct ht_pricing *p, struct ht_value v, enum ht_dtype low, bool widens)
{
	return ht_price_launch(p) +
	       price(p, widens ? HT_WORK_WIDEN : HT_WORK_NARROW, low, count_of(v), count_of(v));
}

/* The columns: packed in each run, or read from memory if it does not stay in a cache. */
static double packed_operand(const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t)
{
	const struct ht_value columns = n->in[ht_packed_operand(n)];
	int64_t count = count_of(columns);

	if (!is_constant(columns))
		return look_up(
			p, HT_WORK_PACK, t, (struct ht_work_size){ count, 1, 1 }, (double)count);
	return p->cold_weights ? look_up(p, HT_WORK_WEIGHTS, t, (struct ht_work_size){ 0 },
					 (double)count * (t == HT_F32 ? 4 : 2))
			       : 0;
}

/* The cost of ending a run, in steps of a pair: its sum is loaded, widened, added and stored. */
#define END_OF_RUN 6.0

/* Pairs of products in a run of contraction `n`, on average.  A run spans the taps of the innermost dimensions if they fit
 * (ht_taps_of_run()); a deeper tap has several runs. */
static double mean_pairs_of_run(const struct ht_node *n, int64_t depth)
{
	const struct ht_shape filter = ht_type_of(n->in[1])->shape;
	const int32_t windows =
		ht_is(n, HT_CONV | HT_CONV_TRANSPOSE) && filter.rank > 2 ? filter.rank - 2 : 0;
	int64_t taps = 1, pairs;

	for (int32_t i = 0; i < windows; i++)
		taps *= dim_of(filter, i);
	pairs = ht_ceil_div(depth > 1 ? depth : 1, 2 * taps);
	for (int32_t i = windows - 1; i >= 0 && pairs * dim_of(filter, i) <= HT_SHORT_RUN; i--)
		pairs *= dim_of(filter, i);
	return (double)pairs / (double)ht_ceil_div(pairs, HT_SHORT_RUN);
}

/* Short runs of float16 add several products with one instruction, so they cost as much as a
 * float32 product of a correspondingly smaller depth.  Their vectors have more lanes, of which few columns leave more idle. */
static double product(
	const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t, struct work w)
{
	const int group = ht_target_group(p->target, HT_F16);
	const int64_t lanes = ht_target_lanes(p->target), columns = w.size.y;
	double faster, end;

	if (!ht_sums_short(p->target, n, t))
		return look_up(p, w.kind, t, w.size, w.units);
	faster = ht_target_products(p->target, HT_F16) / group /
		 ht_target_products(p->target, HT_F32);
	end = END_OF_RUN / mean_pairs_of_run(n, w.size.z);
	w.size.z = ht_ceil_div(w.size.z, group);
	w.units *= with_idle_lanes(group * lanes, columns) / with_idle_lanes(lanes, columns);
	return look_up(p, w.kind, HT_F32, w.size, w.units / group) / faster * (1 + end);
}

/* An update reads and writes its variables in place, and reads the gradient, its largest operand; all in float32. */
static int64_t update_work(const struct ht_pricing *p, const struct ht_node *n)
{
	const int variables = ht_updated_variables(n);
	int64_t count = 0;

	for (int32_t i = 0; i < n->ins; i++)
		if (ht_is_float(ht_type_of(n->in[i])->dtype) && count_of(n->in[i]) > count)
			count = count_of(n->in[i]);
	return (variables + 1) * price(p, HT_WORK_LOAD, HT_F32, count, count) +
	       variables * (price(p, HT_WORK_STORE, HT_F32, count, count) +
				   price(p, HT_WORK_MAP, HT_F32, 1, count));
}

int64_t ht_price_work(const struct ht_pricing *p, const struct ht_node *n, enum ht_dtype t)
{
	enum ht_work_of_node does = ht_work_of_node(n);
	int64_t count = result_count(n);
	struct work w;
	double ps, winograd, more;

	if (ht_updated_variables(n))
		return update_work(p, n);
	if (does == HT_NODE_NOTHING || !n->outs)
		return 0;
	if (!has_loop(does)) {
		if (does == HT_NODE_VIEW || ht_is(n, HT_CASTS))
			return 0;
		return price(p, elementwise_kind(n), t, 1, count);
	}
	w = loop_work(p, n, does);
	winograd = ht_winograd_share(p->target, n, t, p->near_weights);
	if (winograd > 0)
		ps = look_up(p, w.kind, HT_F32, w.size, winograd * w.units);
	else if (w.kind == HT_WORK_PRODUCT)
		ps = product(p, n, t, w);
	else
		ps = look_up(p, w.kind, t, w.size, w.units);
	if (w.kind == HT_WORK_PRODUCT)
		ps += packed_operand(p, n, t);
	/* The table was measured with operands as large as results. */
	more = w.kind == HT_WORK_DEPTHWISE ? 1 - (double)count / (double)count_of(n->in[0]) : 0;
	if (more > 0)
		ps += more * (double)ht_price_load(p, n->in[0], t);
	return picoseconds(
		ps - (double)ht_price_store(p, ht_out((struct ht_node *)(uintptr_t)n, 0), t));
}

/* ---- the graph ---- */

void ht_pricing_init(struct ht_pricing *p, const struct ht_costs *costs, const struct ht_target *t,
	const struct ht_graph *g, struct ht_arena *a)
{
	double weights = 0;

	/* Computed for float32, so that all types are compared alike. */
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_CONSTANT) && n->outs && ht_is_policy_float(n->out[0].dtype))
			weights += 4 * (double)result_count(n);
	*p = (struct ht_pricing){ .costs = costs,
		.memo = HT_NEW_ARRAY(a, struct ht_price_memo, MEMO),
		.target = t,
		.cold_weights = weights > (double)t->l3,
		.near_weights = weights <= (double)t->l2 / 2 };
}

static enum ht_dtype type_of(struct ht_value v)
{
	enum ht_dtype t = ht_type_of(v)->dtype;

	return t >= HT_REF ? (enum ht_dtype)(t - HT_REF) : t;
}

/* The cost of rounding values that stay in a kernel. */
static int64_t price_rounding(const struct ht_pricing *p, struct ht_node *n,
	const struct ht_node *kernel, const struct ht_fusion *f)
{
	bool once = ht_rounds_once(f->root[kernel->id]);
	int64_t ps = 0;

	if (!n->outs || ht_is_view(n))
		return 0;
	if (!ht_ends_kernel(n, kernel) && (!once || ht_is(n, HT_CASTS)))
		ps += ht_price_round(p, ht_out(n, 0), type_of(ht_out(n, 0)));
	if (once && ht_is(n, HT_CASTS) && f->kernel[n->in[0].node->id] == kernel)
		ps += ht_price_round(p, n->in[0], type_of(n->in[0]));
	return ps;
}

static int64_t price_reloads(const struct ht_pricing *p, const struct ht_node *n,
	const struct ht_fusion *f, const struct ht_saved *saved)
{
	int64_t ps = 0;

	for (int32_t i = 0; i < n->ins && saved->cold; i++)
		if (ht_reads_cold(saved, f, n, i))
			ps += ht_price_reload(p, n->in[i], type_of(n->in[i]));
	return ps;
}

/* The price of a node within its kernel. */
static int64_t price_node(const struct ht_pricing *p, struct ht_node *n,
	const struct ht_node *kernel, const struct ht_fusion *f)
{
	bool root = f->root[kernel->id] == n;
	int64_t ps = ht_price_work(p, n,
		n->ins    ? type_of(n->in[0])
		: n->outs ? type_of(ht_out(n, 0))
			  : HT_F32);

	for (int32_t i = 0; i < n->ins && !root; i++)
		if (ht_is_float(type_of(n->in[i])) && !is_constant(n->in[i]) &&
			f->kernel[n->in[i].node->id] != kernel)
			ps += ht_price_load(p, n->in[i], type_of(n->in[i]));
	ps += price_rounding(p, n, kernel, f);
	if (n == kernel) {
		ps += ht_price_launch(p);
		for (int32_t i = 0; i < n->outs; i++)
			if (ht_is_float(type_of(ht_out(n, i))))
				ps += ht_price_store(p, ht_out(n, i), type_of(ht_out(n, i)));
	}
	return ps;
}

/* Whether nothing is done at run time: a view of memory, or a cast of a constant. */
static bool is_free(
	const struct ht_node *n, const struct ht_node *kernel, const struct ht_fusion *f)
{
	if (ht_is(n, HT_CASTS) && is_constant(n->in[0]))
		return true;
	return n == kernel && ht_is_view(n) && n->ins &&
	       f->kernel[n->in[ht_viewed_operand(n)].node->id] != kernel;
}

static bool is_cast_kernel(
	const struct ht_node *n, const struct ht_node *kernel, const struct ht_fusion *f)
{
	return ht_is(n, HT_CASTS) && n == kernel && f->kernel[n->in[0].node->id] != kernel;
}

int64_t ht_price_graph(const struct ht_pricing *p, const struct ht_graph *g,
	const struct ht_fusion *f, const struct ht_saved *saved)
{
	int64_t sum = 0;

	for (struct ht_node *n = g->first; n; n = n->next) {
		struct ht_node *kernel = f->kernel[n->id];
		enum ht_dtype to;
		if (!kernel || ht_work_of_node(n) == HT_NODE_NOTHING || is_free(n, kernel, f))
			continue;
		to = n->outs ? type_of(ht_out(n, 0)) : HT_INVALID;
		sum += price_reloads(p, n, f, saved);
		if (!is_cast_kernel(n, kernel, f))
			sum += price_node(p, n, kernel, f);
		else if (ht_is_low(to))
			sum += ht_price_cast(p, ht_out(n, 0), to, false);
		else
			sum += ht_price_cast(p, ht_out(n, 0), type_of(n->in[0]), true);
	}
	return sum;
}
