/* Attention (attention.h) as one kernel.
 *
 * A tile is a block of rows of queries of one matrix.  Its scores, their exponentials and shares are local
 * buffers.  Keys and values are packed where a matrix begins, and by the first tile of a call. */
#include "lower/attention.h"
#include "lower/index.h"
#include "lower/product.h"
#include "lower/rows.h"

enum { MATRIX, BLOCK, GRID };

/* Scores of a block: with what is made of them they stay beside a panel of keys or values. */
enum { BLOCK_ELEMENTS = 8192, REGISTER_ROWS = 8 };

struct fused {
	struct lower *l;
	struct kernel_build *k;
	const struct attention *of;
	struct product keys; /* and queries */
	struct contraction c[2];
	int64_t matrices, step;
	int32_t local; /* what the stage before stored: a block of rows */
};

/* Rows of a block, as the register tile divides them. */
static int64_t block_rows(int64_t rows, int64_t columns)
{
	int64_t step = BLOCK_ELEMENTS / columns / REGISTER_ROWS * REGISTER_ROWS;

	step = step < REGISTER_ROWS ? REGISTER_ROWS : step;
	return step < rows ? step : rows;
}

/* ---- stages ---- */

/* Opens the stage of product `c`; the space of its result. */
static struct space open_product(struct fused *f, const struct contraction *c)
{
	struct kernel_build *k = f->k;
	struct ht_shape shape = c->n->out[0].shape;
	struct ht_contract *t;
	struct space s = { .rank = shape.rank, .guard = -1 };
	int32_t lead = shape.rank - 2, x[3];

	kb_stage_of(k, c->n, HT_STAGE_CONTRACT);
	t = &k->stage->contract;
	x[0] = ht_xdim(&k->xb, kb_grid_dim(k, MATRIX, f->matrices, 1));
	t->m = kb_grid_dim(k, BLOCK, f->keys.rows, f->step);
	t->n = kb_dim(k, c->columns);
	x[1] = ht_xdim(&k->xb, t->m);
	x[2] = ht_xdim(&k->xb, t->n);
	kb_reduce_dim(k, c->depth);
	k->stage->vec = t->n;
	contract_packed(c, k, c->b, ht_xi(&k->xb, 0));
	for (int32_t i = 0; i < shape.rank; i++)
		s.dim[i] = shape.dim[i];
	if (lead)
		s.group[s.groups++] = (struct space_group){ 0, lead - 1, x[0] };
	s.group[s.groups++] = (struct space_group){ lead, lead, x[1] };
	s.group[s.groups++] = (struct space_group){ lead + 1, lead + 1, x[2] };
	return s;
}

/* Stores x at a row of the block and a column, for the stages behind. */
static void keep(struct fused *f, enum ht_dtype t, int32_t row, int32_t column, int32_t x)
{
	struct ht_xb *b = &f->k->xb;
	int64_t columns = f->keys.columns;

	f->local = kb_local(f->k, t, f->step * columns);
	ht_xstore(b, f->local, ht_xadd(b, ht_xmuli(b, row, columns), column), ht_xcvt(b, t, x));
}

static void scores_stage(struct fused *f)
{
	const struct contraction *c = &f->c[0];
	struct kernel_build *k = f->k;
	struct ht_xb *b = &k->xb;
	const struct view *q = &f->keys.a;
	struct space at = open_product(f, c);
	struct ht_contract *t = &k->stage->contract;
	int32_t matrix = ht_xdim(b, 0), row = ht_xdim(b, t->m);

	t->a_buffer = kb_arg(k, q->buffer, HT_BUFFER_IN);
	t->a_row = ht_xaddi(b, ht_xmuli(b, row, q->stride[q->rank - 2]), q->offset);
	t->a_row = ht_xadd(b, t->a_row, batch_offset(b, matrix, &at, q->rank, q->dim, q->stride));
	keep(f, rows_type(f->of->softmax), kb_within(k, t->m), ht_xdim(b, t->n),
		kb_epilogue(k, c->n, ht_xred(b, 0, HT_F32), &at));
}

static void softmax_stages(struct fused *f)
{
	struct ht_node *n = f->of->softmax;
	struct rows r = { .k = f->k,
		.n = n,
		.shape = n->out[0].shape,
		.matrices = f->matrices,
		.count = f->keys.rows,
		.columns = f->keys.columns,
		.step = f->step,
		.x = f->local };
	int32_t x;

	f->k->sink = f->l->owner[n->id];
	x = kb_epilogue(f->k, n, rows_softmax(&r), &r.at);
	keep(f, f->k->sink->out[0].dtype, r.row, r.at.group[r.at.groups - 1].x, x);
}

static void context_stage(struct fused *f)
{
	const struct contraction *c = &f->c[1];
	struct kernel_build *k = f->k;
	struct space at = open_product(f, c);
	struct ht_contract *t = &k->stage->contract;

	t->a_buffer = f->local;
	t->a_row = ht_xmuli(&k->xb, kb_within(k, t->m), c->depth);
	kb_store_root(k, c->n, ht_xred(&k->xb, 0, HT_F32), &at);
}

/* ---- the kernel ---- */

static void init_product(struct fused *f, int i, struct ht_node *n, const struct view *right)
{
	struct contraction *c = &f->c[i];

	contract_init(c, f->l, n, ht_type_of(n->in[0])->dtype);
	c->short_sums = false; /* what a softmax makes of errors is not bounded by theirs */
	c->rows = f->keys.rows;
	c->depth = right->dim[right->rank - 2];
	c->columns = right->dim[right->rank - 1];
	c->a_step = i ? 1 : f->keys.a.stride[f->keys.a.rank - 1];
	contract_pack_local(c, f->k, right);
}

void emit_attention(struct lower *l, const void *of)
{
	const struct attention *a = of;
	struct view values = product_right(l, a->context);
	struct kernel_build k;
	struct fused f = { .l = l, .k = &k, .of = a };
	int64_t grid[GRID];

	read_product(l, a->scores, &f.keys);
	straighten(l, a->scores, &f.keys.a);
	f.step = block_rows(f.keys.rows, f.keys.columns);
	f.matrices = ht_shape_count(a->scores->out[0].shape) / (f.keys.rows * f.keys.columns);
	grid[MATRIX] = f.matrices;
	grid[BLOCK] = ht_ceil_div(f.keys.rows, f.step);
	kb_init(&k, l, a->context);
	k.kernel->method = ht_method_info[HT_METHOD_ATTENTION].name;
	kb_grid(&k, GRID, grid);
	init_product(&f, 0, a->scores, &f.keys.b);
	init_product(&f, 1, a->context, &values);
	scores_stage(&f);
	softmax_stages(&f);
	context_stage(&f);
	kb_finish(&k, a->context);
}
