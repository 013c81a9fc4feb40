/* Matrix products, batched ones too. */
#include "lower/pack.h"
#include "lower/parts.h"
#include "lower/product.h"

#include <string.h>

static void swap_last(struct view *v)
{
	int32_t r = v->rank;
	int64_t t = v->dim[r - 1];

	v->dim[r - 1] = v->dim[r - 2];
	v->dim[r - 2] = t;
	t = v->stride[r - 1];
	v->stride[r - 1] = v->stride[r - 2];
	v->stride[r - 2] = t;
}

bool product_transposes(const struct ht_node *n, bool left)
{
	if (n->op == HT_OP_MatMul)
		return ht_attr_bool(n, left ? "transpose_a" : "transpose_b", false);
	return ht_attr_bool(n, left ? "adj_x" : "adj_y", false);
}

struct view product_right(struct lower *l, const struct ht_node *n)
{
	struct view v;

	if (ht_const_tensor(n->in[1]))
		view_dense(&v, -1, ht_type_of(n->in[1])->shape); /* packed: never read in place */
	else
		v = *lower_operand(l, n, 1);
	if (product_transposes(n, false))
		swap_last(&v);
	return v;
}

void read_product(struct lower *l, const struct ht_node *n, struct product *p)
{
	p->a = *lower_operand(l, n, 0);
	p->b = product_right(l, n);
	if (product_transposes(n, true))
		swap_last(&p->a);
	p->rows = p->a.dim[p->a.rank - 2];
	p->depth = p->a.dim[p->a.rank - 1];
	p->columns = p->b.dim[p->b.rank - 1];
}

/* If the right operand is the same for all matrices of the batch, makes their rows one matrix.
 * False: it is not, or the rows cannot be merged. */
static bool merge_batch(struct product *p)
{
	int64_t batch = 1, dim[2];
	struct view merged;

	for (int32_t i = 0; i + 2 < p->b.rank; i++)
		if (p->b.dim[i] != 1)
			return false;
	for (int32_t i = 0; i + 2 < p->a.rank; i++)
		batch *= p->a.dim[i];
	dim[0] = batch * p->rows;
	dim[1] = p->depth;
	if (!view_reshape(&p->a, 2, dim, &merged))
		return false;
	p->a = merged;
	p->rows = dim[0];
	if (p->b.rank > 2) {
		struct view b = p->b;
		b.rank = 2;
		for (int i = 0; i < 2; i++) {
			b.dim[i] = p->b.dim[p->b.rank - 2 + i];
			b.stride[i] = p->b.stride[p->b.rank - 2 + i];
		}
		p->b = b;
	}
	return true;
}

void straighten(struct lower *l, const struct ht_node *n, struct view *a)
{
	struct view copy;
	struct ht_shape shape = { a->rank, a->dim };
	enum ht_dtype t = l->plan->buffer[a->buffer].dtype;

	if (a->stride[a->rank - 1] == 1 ||
		(t != HT_BF16 && !(t == HT_F16 && contract_sums_short(l, n))))
		return;
	view_dense(&copy, plan_buffer(l, HT_PLAN_TEMP, t, view_count(a)), shape);
	emit_copy(l, n, a, &copy);
	*a = copy;
}

/* Whether the rows of the left operand, which is one matrix, lie side by side and are copied to blocks of a line. */
static bool pays_to_block(const struct lower *l, const struct ht_node *n, const struct view *a,
	const struct product *p)
{
	enum ht_dtype t = l->plan->buffer[a->buffer].dtype;

	return a->rank == 2 && a->stride[0] == 1 && p->rows > LINE_ROWS && p->depth > 1 &&
	       p->columns >= BLOCKED_COLUMNS && local_type(l, t) == HT_F32 &&
	       !(t == HT_F16 && contract_sums_short(l, n));
}

/* Copies the left operand to blocks of rows, [depth, block, row of the block], as F32.  Some steps in depth of a block are stored one behind the
 * other: those of a block lie side by side, and those of the next block as far apart as blocks are long. */
static struct view block_rows(struct lower *l, struct ht_node *n, const struct view *a)
{
	enum { TOGETHER = 8 };
	const int64_t rows = a->dim[0], depth = a->dim[1], each = depth % TOGETHER ? 1 : TOGETHER;
	const int64_t blocks = ht_ceil_div(rows, LINE_ROWS);
	const int64_t dim[4] = { depth / each, blocks, each, LINE_ROWS };
	struct kernel_build k;
	struct space s, at;
	struct view to, in_order;
	int32_t x[2];

	view_dense(&to, plan_buffer(l, HT_PLAN_TEMP, HT_F32, depth * blocks * LINE_ROWS),
		(struct ht_shape){ 3, (int64_t[]){ depth, blocks, LINE_ROWS } });
	to.stride[0] = LINE_ROWS;
	to.stride[1] = depth * LINE_ROWS;
	view_dense(&in_order, to.buffer, (struct ht_shape){ 4, dim });
	in_order.stride[0] = each * LINE_ROWS;
	in_order.stride[1] = depth * LINE_ROWS;
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, 4, dim, ~0u);
	k.stage->vec = 3;
	at = s;
	x[0] = ht_xmuli(&k.xb, space_coord(&k.xb, &s, 1), LINE_ROWS);
	x[0] = ht_xadd(&k.xb, x[0], space_coord(&k.xb, &s, 3));
	x[1] = ht_xmuli(&k.xb, space_coord(&k.xb, &s, 0), each);
	x[1] = ht_xadd(&k.xb, x[1], space_coord(&k.xb, &s, 2));
	if (rows % LINE_ROWS)
		space_and_guard(&k.xb, &at, ht_xlt(&k.xb, x[0], ht_xi(&k.xb, rows)));
	at = space_of_coords(&at, 2, a->dim, x);
	kb_store(&k, &in_order, &s, kb_load(&k, a, &at));
	kb_finish(&k, n);
	return to;
}

/* Where row m begins in the blocks of `a`. */
static int32_t row_of_block(struct contraction *c, const struct view *a)
{
	struct ht_xb *b = &c->k.xb;
	int32_t block = ht_xmuli(b, ht_xdivi(b, c->m_x, LINE_ROWS), a->stride[1]);

	return ht_xadd(b, block, ht_xmodi(b, c->m_x, LINE_ROWS));
}

/* Whether the left operand, of 16 bits, is copied as F32, in the order in which it is in memory.  Otherwise the rows would be widened again for
 * each panel of columns, or, where they are too long or not adjacent in memory, each number again for each product.  Not where the weights are
 * constant: there a tile widens the panel instead of the rows. */
static bool pays_to_widen(const struct lower *l, const struct ht_node *n, const struct product *p)
{
	enum { LEAST_ROWS = 32, LEAST_PANELS = 3, LONG_ROW = 4096 };
	const enum ht_dtype t = l->plan->buffer[p->a.buffer].dtype;
	const int64_t panel = (int64_t)l->target->rates->vectors * ht_target_lanes(l->target);

	if (!ht_is_low(t) || local_type(l, t) != HT_F32 || ht_const_tensor(n->in[0]) ||
		ht_const_tensor(n->in[1]) || l->g->sizes || p->rows < LEAST_ROWS ||
		(t == HT_F16 && contract_sums_short(l, n)))
		return false;
	if (p->a.stride[p->a.rank - 1] != 1)
		return true;
	return p->b.rank == 2 && (p->columns >= LEAST_PANELS * panel || p->depth > LONG_ROW);
}

/* The copy.  Products behind each other often have the same left operand, so the last copy is used again. */
static struct view widened_left(struct lower *l, struct ht_node *n, const struct view *a)
{
	const bool turned = a->stride[a->rank - 1] != 1;
	const bool in_order = turned == product_transposes(n, true);
	struct view from = *a, to;

	if (turned)
		swap_last(&from);
	if (in_order && ht_value_eq(l->widened.of, n->in[0])) {
		view_dense(&to, l->widened.buffer, (struct ht_shape){ from.rank, from.dim });
	} else {
		view_dense(&to, plan_buffer(l, HT_PLAN_TEMP, HT_F32, view_count(a)),
			(struct ht_shape){ from.rank, from.dim });
		emit_copy(l, n, &from, &to);
		l->widened = (struct widened_rows){ n->in[0], to.buffer };
		if (!in_order)
			l->widened.of.node = NULL;
	}
	if (turned)
		swap_last(&to);
	return to;
}

/* ---- products of long sums ---- */

/* A sum in parts: so many of equal depth, and one of the rest, if there is one. */
struct sum_parts {
	int64_t parts, depth, rest;
};

enum { MOST_ROWS_OF_A_BLOCK = 8 }; /* of vectors */

/* Equal parts, so that they are one kernel, of which a panel and a block of rows take at most so many bytes.  No parts: the depth has no such
 * divisor. */
static struct sum_parts parts_of_vectors(
	const struct lower *l, const struct product *p, int64_t bytes)
{
	enum { MOST_PARTS = 32 };
	const int64_t widest = (int64_t)l->target->rates->vectors * lanes(l);
	const int64_t columns = p->columns < widest ? p->columns : widest;
	const int64_t most = bytes / ((columns + MOST_ROWS_OF_A_BLOCK) * (int64_t)sizeof(float));
	int64_t parts = ht_ceil_div(p->depth, most);

	while (parts <= MOST_PARTS && p->depth % parts)
		parts++;
	return (struct sum_parts){ parts <= MOST_PARTS ? parts : 0, p->depth / parts, 0 };
}

/* Some blocks of rows and a panel stay in the second level.  The parts are whole steps in depth, and those of the rest are equal, if that is
 * possible: such steps are faster. */
static struct sum_parts parts_of_matrices(const struct lower *l, const struct product *p)
{
	enum { BLOCKS = 4, STEP = 32, PAIR = 2 };
	const int64_t block = 2 * (int64_t)l->target->matrix_rows, columns = 2 * (int64_t)lanes(l);
	const int64_t rows = p->rows < BLOCKS * block ? p->rows : BLOCKS * block;
	const int64_t most = l->target->l2 / 4 * 3 / ((rows + columns) * PAIR);
	const int64_t parts = ht_ceil_div(p->depth, most);
	const int64_t first = ht_ceil_div(ht_ceil_div(p->depth, parts), STEP) * STEP;

	if (parts < 2)
		return (struct sum_parts){ 1, p->depth, 0 };
	for (int64_t depth = first; depth > first / 2; depth -= STEP) {
		const int64_t rest = p->depth % depth;

		if (!rest || (rest % PAIR == 0 && ht_equal_pairs(rest / PAIR)))
			return (struct sum_parts){ p->depth / depth, depth, rest };
	}
	return (struct sum_parts){ p->depth / first, first, p->depth % first };
}

/* Whether the sums of the parts take less memory than the left operand, whose numbers have so many bytes. */
static bool pays_to_divide(const struct product *p, const struct sum_parts *s, int64_t number)
{
	const int64_t sums = s->parts + (s->rest > 0);

	return sums && sums * p->columns * (int64_t)sizeof(float) <= p->depth * number;
}

/* Divides a long sum into parts whose operands stay in the second level, and which a kernel adds.  Each block of rows reads a panel again.
 * A panel of a quarter of that level stays there beside the rows of a tile and the next panel, which is prefetched meanwhile.  If the depth
 * cannot be divided into parts with such panels, parts with larger panels are taken, which still fit into the second level by themselves.
 * The result is one part if the sum is short or cannot be divided. */
static struct sum_parts parts_of_depth(
	const struct lower *l, const struct ht_node *n, const struct product *p)
{
	const struct sum_parts one = { 1, p->depth, 0 };
	struct sum_parts s;

	if (p->rows <= MOST_ROWS_OF_A_BLOCK || p->b.rank != 2 || l->g->sizes ||
		ht_const_tensor(n->in[1]))
		return one;
	if (contract_in_matrices(l, n)) {
		s = parts_of_matrices(l, p);
		return pays_to_divide(p, &s, (int64_t)ht_dtype_info(HT_BF16)->bytes) ? s : one;
	}
	for (int quarters = 1; quarters <= 3; quarters++) {
		s = parts_of_vectors(l, p, quarters * l->target->l2 / 4);
		if (pays_to_divide(p, &s, (int64_t)sizeof(float)))
			return s;
	}
	return one;
}

/* Element [.., row, column] of an operand whose leading dimensions broadcast to the result's. */
static int32_t load_factor(struct kernel_build *k, const struct view *v, const struct space *out,
	int32_t row, int32_t column)
{
	int32_t x[HT_LOWER_RANK], shift = out->rank - v->rank;
	struct space at;

	for (int32_t i = 0; i + 2 < v->rank; i++)
		x[i] = v->dim[i] == 1 ? ht_xi(&k->xb, 0) : out->group[i + shift].x;
	x[v->rank - 2] = row;
	x[v->rank - 1] = column;
	at = space_of_coords(out, v->rank, v->dim, x);
	return kb_load(k, v, &at);
}

/* A plain loop: for types without a register tile, and for products whose depth is 0. */
static enum ht_status emit_loop_product(struct lower *l, struct ht_node *n)
{
	enum ht_dtype t = compute_type(ht_type_of(n->in[0])->dtype);
	struct ht_shape shape = n->out[0].shape;
	struct product p;
	struct kernel_build k;
	struct space out;
	int32_t depth, x[2];

	read_product(l, n, &p);
	if (p.b.buffer < 0) {
		p.b.buffer = lower_operand(l, n, 1)->buffer;
		p.b.offset = 0;
	}
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, shape.rank, shape.dim, ~0u);
	depth = ht_xdim(&k.xb, kb_reduce_dim(&k, p.depth));
	x[0] = load_factor(&k, &p.a, &out, out.group[shape.rank - 2].x, depth);
	x[1] = load_factor(&k, &p.b, &out, depth, out.group[shape.rank - 1].x);
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, t, ht_xmul(&k.xb, x[0], x[1])), &out);
	kb_finish(&k, n);
	return HT_OK;
}

int32_t batch_offset(struct ht_xb *b, int32_t batch, const struct space *out, int32_t rank,
	const int64_t *dim, const int64_t *stride)
{
	struct space lead = { .rank = out->rank - 2, .groups = out->rank > 2, .guard = -1 };
	int64_t step[HT_LOWER_RANK] = { 0 };
	int32_t shift = lead.rank - (rank - 2);

	memcpy(lead.dim, out->dim, sizeof lead.dim);
	lead.group[0] = (struct space_group){ 0, lead.rank - 1, batch };
	for (int32_t i = 0; i + 2 < rank; i++)
		step[i + shift] = dim[i] == 1 ? 0 : stride[i];
	return space_offset(b, &lead, step, 0);
}

static void pack_right(struct contraction *c, struct ht_node *n, const struct product *p)
{
	const struct ht_tensor *t = ht_const_tensor(n->in[1]);
	int64_t count = 1;

	for (int32_t i = 0; i + 2 < p->b.rank; i++)
		count *= p->b.dim[i];
	if (t)
		contract_pack_const(c, t, 0, p->b.stride[p->b.rank - 2], p->b.stride[p->b.rank - 1],
			count, p->depth * p->columns);
	else
		contract_pack_value(c, &p->b);
}

static struct space product_space(const struct contraction *c, struct ht_shape shape, bool merged)
{
	struct space s = { .rank = shape.rank, .guard = -1 };

	memcpy(s.dim, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
	if (merged) {
		s.group[s.groups++] = (struct space_group){ 0, shape.rank - 2, c->m_x };
	} else {
		if (shape.rank > 2)
			s.group[s.groups++] = (struct space_group){ 0, shape.rank - 3, c->batch_x };
		s.group[s.groups++] =
			(struct space_group){ shape.rank - 2, shape.rank - 2, c->m_x };
	}
	s.group[s.groups++] = (struct space_group){ shape.rank - 1, shape.rank - 1, c->n_x };
	return s;
}

/* Ends the loops of a product at the sizes of the run. */
static void cut_product(struct contraction *c, struct ht_node *n)
{
	struct kernel_build *k = &c->k;
	struct ht_stage *s = k->stage;
	struct ht_value to = ht_out(k->sink, 0);

	kb_cut(k, 0, to, (struct cut_span){ .stride = c->rows * c->columns, .extent = c->batch });
	kb_cut(k, s->contract.m, to, (struct cut_span){ .stride = c->columns, .extent = c->rows });
	kb_cut(k, s->contract.n, to, (struct cut_span){ .stride = 1, .extent = c->columns });
	kb_cut_depth(k, s->dims - 1, n, n->in[0],
		(struct cut_span){
			.stride = product_transposes(n, true) ? c->rows : 1, .extent = c->depth });
}

/* Where row m of the left operand begins. */
static int32_t row_of_left(struct contraction *c, const struct view *a, bool blocked)
{
	struct ht_xb *b = &c->k.xb;
	int32_t row = blocked ? row_of_block(c, a) : ht_xmuli(b, c->m_x, a->stride[a->rank - 2]);

	return ht_xaddi(b, row, a->offset);
}

/* Parts of a sum: how many, their depth, and which part and depth the first one begins at. */
struct part_range {
	int64_t parts, depth, part, at;
};

static void emit_range(struct lower *l, struct ht_node *n, const struct product *p, bool blocked,
	const struct view *sums, const struct part_range *r)
{
	struct view right = p->b, to = *sums;
	struct contraction c;
	struct ht_xb *b = &c.k.xb;
	struct space out = { .guard = -1 };
	int32_t row;

	right.rank = 3;
	memcpy(right.dim, (int64_t[]){ r->parts, r->depth, p->columns }, 3 * sizeof *right.dim);
	memcpy(right.stride,
		(int64_t[]){ r->depth * p->b.stride[0], p->b.stride[0], p->b.stride[1] },
		3 * sizeof *right.stride);
	right.offset += r->at * p->b.stride[0];
	to.dim[0] = r->parts;
	to.offset += r->part * p->rows * p->columns;
	contract_init(&c, l, n, ht_type_of(n->in[0])->dtype);
	c.batch = r->parts;
	c.rows = p->rows;
	c.columns = p->columns;
	c.depth = r->depth;
	c.a_step = p->a.stride[blocked ? 0 : p->a.rank - 1];
	contract_pack_value(&c, &right);
	contract_begin(&c);
	row = row_of_left(&c, &p->a, blocked);
	row = ht_xadd(b, row, ht_xmuli(b, c.batch_x, r->depth * c.a_step));
	row = ht_xaddi(b, row, r->at * c.a_step);
	out = space_of_coords(&out, 3, to.dim, (int32_t[]){ c.batch_x, c.m_x, c.n_x });
	contract_end_part(&c, p->a.buffer, row, ht_xmuli(b, c.batch_x, c.packed_count), &to, &out);
}

/* The product of two matrices in parts of its depth. */
static void emit_parts(struct lower *l, struct ht_node *n, const struct product *p, bool blocked,
	const struct sum_parts *s)
{
	const int64_t dim[3] = { s->parts + (s->rest > 0), p->rows, p->columns };
	struct view sums;

	view_dense(&sums, plan_buffer(l, HT_PLAN_TEMP, HT_F32, dim[0] * dim[1] * dim[2]),
		(struct ht_shape){ 3, dim });
	emit_range(l, n, p, blocked, &sums, &(struct part_range){ s->parts, s->depth, 0, 0 });
	if (s->rest)
		emit_range(l, n, p, blocked, &sums,
			&(struct part_range){ 1, s->rest, s->parts, s->parts * s->depth });
	contract_add_parts(l, n, &sums);
}

static enum ht_status emit_product(struct lower *l, struct ht_node *n)
{
	struct ht_shape shape = n->out[0].shape;
	int64_t dense[HT_LOWER_RANK], matrices = 1;
	struct contraction c;
	struct product p;
	struct space out;
	int32_t a_row, b_base;
	struct sum_parts sum;
	bool merged, blocked, pieces;

	if (ht_shape_count(shape) == 0)
		return HT_OK;
	if (!contract_type(ht_type_of(n->in[0])->dtype) ||
		ht_shape_count(ht_type_of(n->in[0])->shape) == 0)
		return emit_loop_product(l, n);
	read_product(l, n, &p);
	merged = merge_batch(&p);
	pieces = merged && product_in_pieces(l, n, &p);
	blocked = !pieces && merged && pays_to_block(l, n, &p.a, &p);
	if (pieces)
		p.a = product_divide_rows(l, n, &p.a);
	else if (blocked)
		p.a = block_rows(l, n, &p.a);
	else if (pays_to_widen(l, n, &p))
		p.a = widened_left(l, n, &p.a);
	else
		straighten(l, n, &p.a);
	sum = merged ? parts_of_depth(l, n, &p) : (struct sum_parts){ 1, p.depth, 0 };
	if (sum.parts > 1) {
		emit_parts(l, n, &p, blocked, &sum);
		return HT_OK;
	}
	contract_init(&c, l, n, pieces ? HT_BF16 : ht_type_of(n->in[0])->dtype);
	c.pieces = pieces ? PIECES : 0;
	c.rows = p.rows;
	c.columns = p.columns;
	c.depth = p.depth;
	c.a_step = p.a.stride[blocked ? 0 : p.a.rank - 1];
	for (int32_t i = 0; !merged && i + 2 < shape.rank; i++)
		c.batch *= shape.dim[i];
	pack_right(&c, n, &p);
	c.rows_of_run = lower_rows_of_run(l, n, c.rows, c.columns);
	contract_begin(&c);
	cut_product(&c, n);
	out = product_space(&c, shape, merged);
	a_row = row_of_left(&c, &p.a, blocked);
	b_base = ht_xi(&c.k.xb, 0);
	if (!merged) {
		a_row = ht_xadd(&c.k.xb, a_row,
			batch_offset(&c.k.xb, c.batch_x, &out, p.a.rank, p.a.dim, p.a.stride));
		for (int32_t i = p.b.rank - 3; i >= 0; i--) {
			dense[i] = c.packed_count * matrices;
			matrices *= p.b.dim[i];
		}
		b_base = batch_offset(&c.k.xb, c.batch_x, &out, p.b.rank, p.b.dim, dense);
	}
	contract_end(&c, p.a.buffer, a_row, b_base, &out);
	return HT_OK;
}

static enum ht_status emit_matmul(struct lower *l, struct ht_node *n)
{
	contract_round_operands(l, n, false);
	return emit_product(l, n);
}

static const char *refuse_matmul(const struct ht_node *n)
{
	if (n->op == HT_OP__FusedMatMul)
		return "is to be expanded before lowering";
	if (ht_type_of(n->in[0])->dtype != ht_type_of(n->in[1])->dtype)
		return "multiplies two dtypes, which has no kernel";
	return NULL;
}

static bool product_rows(const struct parts *p, const struct ht_node *n)
{
	bool turned = ht_attr_bool(n, n->op == HT_OP_MatMul ? "transpose_a" : "adj_x", false);

	if (n->out[0].shape.rank > 2)
		return broadcast_rows(p, n);
	return !turned && rows_of_first(p, n);
}

const struct lower_op lower_matmul = {
	.family = FAMILY_ROOT, .emit = emit_matmul, .refuse = refuse_matmul, .rows = product_rows
};

/* Refuses the Einsum nodes that pass "einsum" could not rewrite. */
static const char *refuse_einsum(const struct ht_node *n)
{
	enum ht_dtype t = n->out[0].dtype;

	if (!ht_is_kernel_float(t) && !ht_is_index(t))
		return "has no kernel for this dtype";
	return "has an equation without a kernel: a label twice in the result, or too large sizes";
}

const struct lower_op lower_einsum = { .family = FAMILY_ROOT, .refuse = refuse_einsum };
