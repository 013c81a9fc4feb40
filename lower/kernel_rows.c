/* Kernels that need each row of the last dimension several times: softmax, normalisations.
 * A tile is a block of rows; what later stages need of a row is in local buffers. */
#include "lower/rows.h"
#include "lower/parts.h"

enum { TILE_ELEMENTS = 2048 };

/* What a stage does with the columns of a row: it reduces them, stores them in a local buffer, or stores the result. */
enum columns { SUMS, HANDS_ON, STORES };

/* Ends the loops over rows and columns at the sizes of the run.  If a reader of the result needs neutral elements, these are
 * computed, and only reductions end their columns there. */
static void cut_stage(struct rows *r, int row, int column, enum columns what)
{
	struct kernel_build *k = r->k;

	kb_cut(k, row, ht_out(k->sink, 0),
		(struct cut_span){ .stride = r->columns, .extent = r->count });
	if (what == SUMS || r->skips)
		kb_cut(k, column, r->n->in[0],
			(struct cut_span){ .stride = 1,
				.extent = r->columns,
				.reduced = what == SUMS,
				.neutral = true });
}

static void next_stage(struct rows *r, enum columns what)
{
	struct kernel_build *k = r->k;
	int32_t last = r->shape.rank - 1, lead = r->matrices ? last - 1 : 0;
	int row, column;

	kb_stage(k, HT_STAGE_LOOP);
	r->at = (struct space){ .rank = r->shape.rank, .guard = -1 };
	for (int32_t i = 0; i <= last; i++)
		r->at.dim[i] = r->shape.dim[i];
	if (r->matrices) {
		int matrix = kb_grid_dim(k, 0, r->matrices, 1);
		kb_cut(k, matrix, ht_out(k->sink, 0),
			(struct cut_span){
				.stride = r->count * r->columns, .extent = r->matrices });
		if (lead)
			r->at.group[r->at.groups++] =
				(struct space_group){ 0, lead - 1, ht_xdim(&k->xb, matrix) };
	}
	row = kb_grid_dim(k, r->matrices ? 1 : 0, r->count, r->step);
	column = what == SUMS ? kb_reduce_dim(k, r->columns) : kb_dim(k, r->columns);
	k->stage->vec = column;
	cut_stage(r, row, column, what);
	if (last)
		r->at.group[r->at.groups++] =
			(struct space_group){ lead, last - 1, ht_xdim(&k->xb, row) };
	r->at.group[r->at.groups++] = (struct space_group){ last, last, ht_xdim(&k->xb, column) };
	r->row = kb_within(k, row);
}

static int32_t element_offset(struct rows *r)
{
	struct ht_xb *b = &r->k->xb;
	int32_t column = r->at.group[r->at.groups - 1].x;

	return ht_xadd(b, ht_xmuli(b, r->row, r->columns), column);
}

static void start(struct rows *r, struct kernel_build *k, struct lower *l, struct ht_node *n)
{
	int64_t tiles;

	*r = (struct rows){ .k = k, .n = n, .shape = n->out[0].shape, .x = -1 };
	r->columns = r->shape.dim[r->shape.rank - 1];
	r->count = ht_shape_count(r->shape) / r->columns;
	r->step = r->columns >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / r->columns;
	if (r->step > r->count)
		r->step = r->count;
	tiles = (r->count + r->step - 1) / r->step;
	kb_init(k, l, n);
	kb_grid(k, 1, &tiles);
}

enum ht_dtype rows_type(const struct ht_node *n)
{
	return node_type(n, ht_type_of(n->in[0])->dtype);
}

static int32_t operand(struct rows *r)
{
	if (r->x < 0)
		return kb_pull_arg(r->k, r->n, 0, &r->at);
	return ht_xload(&r->k->xb, r->x, rows_type(r->n), element_offset(r));
}

/* An operand that is computed in this kernel is computed once, into a local buffer. */
static void keep_operand(struct rows *r)
{
	int32_t x, local;

	if (!lower_is_inside(r->k->l, r->k->sink, r->n->in[0].node))
		return;
	next_stage(r, HANDS_ON);
	x = kb_pull_arg(r->k, r->n, 0, &r->at);
	local = kb_local(r->k, rows_type(r->n), r->step * r->columns);
	ht_xstore(&r->k->xb, local, element_offset(r), x);
	r->x = local;
}

/* Stores one value for each row, for later stages. */
static int32_t row_value(struct rows *r, enum ht_dtype t, int32_t x)
{
	int32_t local = kb_local(r->k, t, r->step);

	ht_xstore(&r->k->xb, local, r->row, x);
	return local;
}

static int32_t load_row_value(struct rows *r, enum ht_dtype t, int32_t local)
{
	return ht_xload(&r->k->xb, local, t, r->row);
}

static void finish(struct rows *r, int32_t x)
{
	kb_store_root(r->k, r->n, x, &r->at);
	kb_finish(r->k, r->n);
}

static bool takes_first(const struct ht_node *n, int arg)
{
	(void)n;
	return arg == 0;
}

/* x / y by way of 1 / y, which is computed once for each row: this takes half of the time of
 * dividing.  The product is corrected by the remainder, so with fused multiply-adds the result
 * has the bits of a division, unless the remainder is subnormal. */
static int32_t quotient(struct ht_xb *b, int32_t x, int32_t y, int32_t inverse)
{
	int32_t q = ht_xmul(b, x, inverse);
	int32_t rest = ht_xmuladd(b, ht_xneg(b, q), y, x);

	return ht_xmuladd(b, rest, inverse, q);
}

int32_t rows_softmax(struct rows *r)
{
	const struct ht_node *n = r->n;
	enum ht_dtype t = rows_type(n);
	struct ht_xb *b = &r->k->xb;
	int32_t max, sum = -1, inverse = -1, e, x;
	bool is_log = n->op == HT_OP_LogSoftmax;
	bool divides = is_log || b->keep || !r->k->l->target->fused;

	next_stage(r, SUMS);
	max = row_value(r, t, kb_reduce(r->k, HT_RED_MAX, t, operand(r)));
	next_stage(r, HANDS_ON);
	x = ht_xexp(b, ht_xsub(b, operand(r), load_row_value(r, t, max)));
	/* Each takes the place of its operand, if nothing reads that afterwards. */
	e = r->x >= 0 && !is_log ? r->x : kb_local(r->k, t, r->step * r->columns);
	ht_xstore(b, e, element_offset(r), x);
	next_stage(r, SUMS);
	x = kb_reduce(r->k, HT_RED_ADD, t, ht_xload(b, e, t, element_offset(r)));
	if (divides || b->accuracy == HT_ACCURACY_FULL)
		sum = row_value(r, t, x);
	if (!divides)
		inverse = row_value(r, t, ht_xdiv(b, ht_xk(b, t, 1), x));
	next_stage(r, STORES);
	if (is_log) {
		x = ht_xsub(b, operand(r), load_row_value(r, t, max));
		return ht_xsub(b, x, ht_xlog(b, load_row_value(r, t, sum)));
	}
	x = ht_xload(b, e, t, element_offset(r));
	if (divides)
		return ht_xdiv(b, x, load_row_value(r, t, sum));
	inverse = load_row_value(r, t, inverse);
	if (sum < 0)
		return ht_xmul(b, x, inverse);
	return quotient(b, x, load_row_value(r, t, sum), inverse);
}

/* Whether all readers of the result skip the neutral elements at the ends of its rows. */
static bool result_is_skipped(const struct rows *r)
{
	const struct open_parts *all = lower_outside(r->k->l, r->n->in[0]);
	bool any = false;

	for (int32_t i = 0; all && i < all->n; i++) {
		if (!all->part[i].neutral || all->part[i].stride >= r->columns)
			continue;
		if (!lower_skips(r->k->l, r->n, &all->part[i]))
			return false;
		any = true;
	}
	return any;
}

static enum ht_status emit_softmax(struct lower *l, struct ht_node *n)
{
	struct kernel_build k;
	struct rows r;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	start(&r, &k, l, n);
	r.skips = result_is_skipped(&r);
	keep_operand(&r);
	finish(&r, rows_softmax(&r));
	return HT_OK;
}

static const char *refuse_rows(const struct ht_node *n)
{
	return n->out[0].shape.rank > 0 ? NULL : "needs at least one dimension";
}

/* Softmax and normalisations work along the last dimension. */
static bool rows_but_last(const struct parts *p, const struct ht_node *n)
{
	return n->out[0].shape.rank > 1 && rows_of_first(p, n);
}

const struct lower_op lower_softmax = { .family = FAMILY_ROOT,
	.emit = emit_softmax,
	.refuse = refuse_rows,
	.takes = takes_first,
	.rows = rows_but_last };

/* 1 / sqrt(sum / columns + epsilon) */
static int32_t inverse_root(struct rows *r, enum ht_dtype t, int32_t sum)
{
	struct ht_xb *b = &r->k->xb;
	int32_t mean = ht_xdiv(b, sum, ht_xk(b, t, (double)r->columns));
	double epsilon = (double)ht_attr_float(r->n, "epsilon", 1e-3f);
	int32_t root = ht_xsqrt(b, ht_xadd(b, mean, ht_xk(b, t, epsilon)));

	return ht_xdiv(b, ht_xk(b, t, 1), root);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + offset; the variance from differences. */
static enum ht_status emit_layer_norm(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = node_type(n, n->out[0].dtype);
	struct kernel_build k;
	struct rows r;
	struct ht_xb *b = &k.xb;
	int32_t mean, scale, x, n_columns;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	start(&r, &k, l, n);
	keep_operand(&r);
	next_stage(&r, SUMS);
	n_columns = ht_xk(b, t, (double)r.columns);
	mean = row_value(&r, t, ht_xdiv(b, kb_reduce(&k, HT_RED_ADD, t, operand(&r)), n_columns));
	next_stage(&r, SUMS);
	x = ht_xsub(b, operand(&r), load_row_value(&r, t, mean));
	x = kb_reduce(&k, HT_RED_ADD, t, ht_xmul(b, x, x));
	scale = row_value(&r, t, inverse_root(&r, t, x));
	next_stage(&r, STORES);
	x = ht_xsub(b, operand(&r), load_row_value(&r, t, mean));
	x = ht_xmul(b, x, load_row_value(&r, t, scale));
	x = ht_xmul(b, x, kb_operand(&k, n, 1, &r.at));
	finish(&r, ht_xadd(b, x, kb_operand(&k, n, 2, &r.at)));
	return HT_OK;
}

const struct lower_op lower_layer_norm = { .family = FAMILY_ROOT,
	.emit = emit_layer_norm,
	.refuse = refuse_rows,
	.takes = takes_first,
	.rows = rows_but_last };

/* x / sqrt(mean of squares + epsilon) * scale */
static enum ht_status emit_rms_norm(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = node_type(n, n->out[0].dtype);
	struct kernel_build k;
	struct rows r;
	struct ht_xb *b = &k.xb;
	int32_t scale, x;

	if (ht_shape_count(n->out[0].shape) == 0)
		return HT_OK;
	start(&r, &k, l, n);
	keep_operand(&r);
	next_stage(&r, SUMS);
	x = operand(&r);
	x = kb_reduce(&k, HT_RED_ADD, t, ht_xmul(b, x, x));
	scale = row_value(&r, t, inverse_root(&r, t, x));
	next_stage(&r, STORES);
	x = ht_xmul(b, operand(&r), load_row_value(&r, t, scale));
	finish(&r, ht_xmul(b, x, kb_operand(&k, n, 1, &r.at)));
	return HT_OK;
}

const struct lower_op lower_rms_norm = { .family = FAMILY_ROOT,
	.emit = emit_rms_norm,
	.refuse = refuse_rows,
	.takes = takes_first,
	.rows = rows_but_last };
