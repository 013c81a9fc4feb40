/* Packs the right operands of contractions: constants when the program is made, others by a kernel, or by a stage of the kernel that
 * multiplies. */
#include "lower/pack.h"

#include "lower/product.h"

#include <string.h>

enum ht_dtype contract_multiplied(const struct contraction *c)
{
	return ht_target_multiplied(c->l->target, c->dtype, c->short_sums && c->a_step == 1);
}

/* ---- the type and the shape of panels ---- */

/* Products of pairs need the two numbers of a pair to be adjacent in memory. */
static void choose_packing(struct contraction *c)
{
	ht_schedule_packing(c->l->target, contract_multiplied(c), c->rows * c->l->larger,
		c->columns, contract_taps(c) * c->depth, &c->nr, &c->kp);
	if (c->kp > 1 && (c->a_step != 1 || lower_mode(c->n) == HT_IMPL_FLOAT_32))
		c->kp = 1;
}

/* The most numbers of weights that are packed as F32 when the program is made.  Each iteration of a loop reads its weights again, so that
 * there they may fill half of the second level; where a run may have few rows, these read 16 bits in less time. */
static int64_t most_widened(const struct contraction *c)
{
	enum { ANYWHERE = 1 << 17 };
	const int64_t in_loop = c->l->target->l2 / 2 / (int64_t)sizeof(float);

	return c->l->invariant && !c->l->g->sizes && in_loop > ANYWHERE ? in_loop : ANYWHERE;
}

/* Small weights that many rows are multiplied with are packed as F32 when the program is made. */
static enum ht_dtype packed_type(const struct contraction *c)
{
	const int64_t most = most_widened(c) / (c->columns > 0 ? c->columns : 1);

	return contract_taps(c) * c->depth <= most && c->rows >= CONTRACT_LEAST_ROWS
		       ? contract_multiplied(c)
		       : c->dtype;
}

/* Whether weights are packed in pairs of BF16 on a machine that has no instruction for products of pairs, since halves of pairs are
 * F32 after one operation (docs/kernels.md). */
static bool splits_pairs(const struct contraction *c)
{
	return c->packed_type == HT_BF16 && c->kp == 1 && c->a_step == 1 &&
	       contract_multiplied(c) == HT_F32;
}

/* One row has at least two vectors in a panel, as one has too few sums to hide the latency of both products of a pair. */
static void pack_pairs_to_split(struct contraction *c)
{
	const int two = 2 * lanes(c->l);

	c->kp = 2;
	if (c->rows * c->l->larger == 1 && c->nr < two && c->columns > lanes(c->l))
		c->nr = two;
}

static struct ht_pack pack_of(const struct contraction *c, int64_t sq, int64_t sk, int64_t sn)
{
	return (struct ht_pack){ .src_dtype = c->pieces ? HT_F32 : c->dtype,
		.dst_dtype = c->packed_type,
		.taps = contract_taps(c),
		.depth = c->depth,
		.n = c->columns,
		.sq = sq,
		.sk = sk,
		.sn = sn,
		.nr = c->nr,
		.kp = c->kp,
		.hf32 = lower_mode(c->n) == HT_IMPL_HI_FLOAT_32,
		.pieces = c->pieces };
}

void contract_pack_const(struct contraction *c, const struct ht_tensor *t, int64_t sq, int64_t sk,
	int64_t sn, int64_t count, int64_t stride)
{
	struct ht_pack p;

	choose_packing(c);
	c->packed_type = packed_type(c);
	if (splits_pairs(c))
		pack_pairs_to_split(c);
	c->constants = count;
	p = pack_of(c, sq, sk, sn);
	c->packed_count = ht_packed_count(&p);
	c->b = plan_packed(c->l, t, 0, &p, count, stride);
}

/* Whether the columns of the right operand of a matrix product, which are whole panels, end at the size of the run. */
static bool ends_columns(const struct contraction *c)
{
	const struct ht_node *n = c->n;
	int32_t rank;

	if (!ht_is(n, HT_MATRIX_PRODUCT) || c->columns % c->nr)
		return false;
	rank = ht_type_of(n->in[1])->shape.rank;
	return lower_ends_with_run(
		c->l, n->in[1], product_transposes(n, false) ? rank - 2 : rank - 1);
}

/* Whether the right operand of a matrix product ends at sizes of the run. */
static bool ends_with_run(const struct contraction *c)
{
	const struct open_parts *outside =
		ht_is(c->n, HT_MATRIX_PRODUCT) ? lower_outside(c->l, c->n->in[1]) : NULL;

	return outside && outside->n;
}

/* Ends the loops that pack the right operand of a matrix product at the sizes of the run.  An index of dimension `group` is a group
 * of `columns` columns, an index of `step` is kp rows. */
static void cut_packing(struct contraction *c, struct kernel_build *k, int matrix, int group,
	int64_t columns, int step)
{
	struct ht_node *n = c->n;
	struct ht_value v;
	bool turned;

	if (!ht_is(n, HT_MATRIX_PRODUCT))
		return;
	v = n->in[1];
	turned = product_transposes(n, false);
	kb_cut(k, matrix, v,
		(struct cut_span){
			.stride = c->depth * c->columns, .extent = k->stage->dim[matrix].extent });
	kb_cut(k, group, v,
		(struct cut_span){
			.stride = turned ? c->depth : 1, .extent = c->columns, .each = columns });
	kb_cut_depth(k, step, n, v,
		(struct cut_span){
			.stride = turned ? 1 : c->columns, .extent = c->depth, .each = c->kp });
}

/* ---- elements ---- */

/* The position of a loop that packs a right operand: a column of one of its matrices. */
struct packed_at {
	int32_t lead; /* dimensions of the operand that number its matrices */
	int32_t matrix, column;
	int64_t depth; /* of all taps */
	bool fills_taps; /* the packed rows of each tap end with some that the operand does not have */
};

/* Row `row` of the packed matrix in the operand; *inside becomes whether that has it. */
static int32_t row_of_operand(const struct contraction *c, struct ht_xb *b,
	const struct packed_at *at, int32_t row, int32_t *inside)
{
	const int64_t packed = ht_ceil_div(c->depth, c->kp) * c->kp;
	int32_t k = row;

	if (at->fills_taps) {
		k = ht_xmodi(b, row, packed);
		row = ht_xadd(b, ht_xmuli(b, ht_xdivi(b, row, packed), c->depth), k);
		*inside = ht_xand(b, *inside, ht_xlt(b, k, ht_xi(b, c->depth)));
	} else if (at->depth % c->kp) {
		*inside = ht_xand(b, *inside, ht_xlt(b, row, ht_xi(b, at->depth)));
	}
	return row;
}

/* The element of row `row`; 0 outside of the operand. */
static int32_t packed_element(const struct contraction *c, struct kernel_build *k,
	const struct view *v, const struct packed_at *at, int32_t row)
{
	struct ht_xb *b = &k->xb;
	const int32_t last = v->rank - 1;
	struct space s = { .rank = v->rank, .guard = -1 };
	int32_t inside = ht_xlt(b, at->column, ht_xi(b, c->columns));

	row = row_of_operand(c, b, at, row, &inside);
	memcpy(s.dim, v->dim, sizeof s.dim);
	if (at->lead)
		s.group[s.groups++] = (struct space_group){ 0, at->lead - 1, at->matrix };
	s.group[s.groups++] = (struct space_group){ at->lead, last - 1, row };
	s.group[s.groups++] = (struct space_group){ last, last, at->column };
	if (c->columns % c->nr || at->depth % c->kp || at->fills_taps)
		space_and_guard(b, &s, inside);
	return ht_xcvt(b, c->packed_type, kb_load(k, v, &s));
}

int32_t contract_low(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	const int32_t low = ht_xcvt(b, t, x);
	const struct ht_x narrow = b->stage->x[low];
	const struct ht_x wide = b->stage->x[narrow.op == HT_X_CVT ? narrow.a : low];

	return narrow.op == HT_X_CVT && wide.op == HT_X_CVT && ht_xtype(b, wide.a) == t ? wide.a
											: low;
}

int32_t contract_bits(struct ht_xb *b, enum ht_dtype t, int32_t x)
{
	return ht_xcvt(b, HT_U32, ht_xbitcast(b, HT_U16, contract_low(b, t, x)));
}

/* The elements of rows `row` and row + 1 as one word, in the order in which they are in memory. */
static int32_t packed_pair(const struct contraction *c, struct kernel_build *k,
	const struct view *v, const struct packed_at *at, int32_t row)
{
	struct ht_xb *b = &k->xb;
	int32_t first = contract_bits(b, c->packed_type, packed_element(c, k, v, at, row));
	int32_t second =
		contract_bits(b, c->packed_type, packed_element(c, k, v, at, ht_xaddi(b, row, 1)));

	return ht_xor(b, first, ht_xshli(b, second, 16));
}

/* Lines of a packed matrix, each of kp rows of the operand; `fills`: the last line of each tap is filled up. */
static int64_t packed_lines(const struct contraction *c, bool fills)
{
	return fills ? contract_taps(c) * ht_ceil_div(c->depth, c->kp)
		     : ht_ceil_div(contract_taps(c) * c->depth, c->kp);
}

static bool fills_taps(const struct contraction *c)
{
	return c->taps && c->depth % c->kp;
}

/* ---- loops ---- */

/* How the tiles of a kernel divide the lines of a packed matrix. */
struct line_tiles {
	int64_t together; /* lines of each panel that are stored one behind the other; 0: tiles divide the panels instead */
	int64_t step; /* of a tile, in so many lines together */
	int64_t tiles;
};

/* A row of `v` that lies in one piece is read once as a whole, and goes to all panels.  Tiles of a panel each would read a short piece of
 * every row, as far apart as rows are, which no prefetcher foresees.  Other rows, and operands that end at a size of the run, have tiles of panels. */
static struct line_tiles line_tiles(const struct contraction *c, const struct view *v)
{
	enum { TOGETHER = 8 };
	const int64_t lines = packed_lines(c, fills_taps(c)),
		      panels = ht_ceil_div(c->columns, c->nr);
	struct line_tiles t = { .tiles = panels };

	if (v->stride[v->rank - 1] != 1 || panels < 2 || !lines || ends_with_run(c))
		return t;
	t.together = lines % TOGETHER ? 1 : TOGETHER;
	t.step = ht_ceil_div(lines / t.together, panels);
	t.tiles = ht_ceil_div(lines / t.together, t.step);
	return t;
}

/* Adds the loops over groups of lines, dim[3], over panels, dim[1], and over the lines of a group, which is returned. */
static int32_t dims_by_lines(
	struct kernel_build *k, struct line_tiles by, int64_t lines, int64_t panels, int32_t *dim)
{
	dim[3] = kb_grid_dim(k, 1, lines / by.together, by.step);
	dim[1] = kb_dim(k, panels);
	return kb_dim(k, by.together);
}

/* The loops that pack matrices of an operand, and the expressions of their indices. */
struct pack_loops {
	struct line_tiles by_lines;
	int64_t lines, panels;
	int64_t lane; /* numbers of a vector: panels may have half vectors */
	int64_t last; /* iterations of the last loop: those of a vector, or all columns of a panel where they are adjacent in memory */
	int64_t each; /* vectors of a panel for which an index of the loop over columns stands */
	int64_t groups;  /* such indices of a panel */
	int64_t element; /* packed numbers that are stored as one: 2 of a pair that is one word */
	/* By dimension: the matrix; the panel, or `each` vectors of it; a vector of these; the line, or `together` lines; the row of a line, or
	 * 1 where a word has both; a number of the vector, or of the panel. */
	int32_t dim[6], x[6];
	int32_t within; /* of the lines together; -1: they are not divided so */
};

static struct pack_loops pack_loops(const struct contraction *c, const struct view *v, bool local)
{
	const struct line_tiles by_lines = local ? (struct line_tiles){ 0 } : line_tiles(c, v);
	const bool across = v->stride[v->rank - 1] != 1;
	struct pack_loops p = { .by_lines = by_lines,
		.lines = packed_lines(c, fills_taps(c)),
		.panels = ht_ceil_div(c->columns, c->nr),
		.element = !local && c->kp == 2 ? 2 : 1,
		.within = -1 };
	int64_t vectors;

	p.lane = c->nr % lanes(c->l) == 0 ? lanes(c->l) : lanes(c->l) / 2;
	p.last = across ? p.lane : c->nr;
	vectors = c->nr / p.last;
	/* Where columns end at the size of the run, an index is one vector, so that the loop reads little of what lies behind them. */
	p.each = across && ends_columns(c) ? 1 : vectors;
	p.groups = vectors / p.each;
	return p;
}

/* Adds the loops.  Where the rows are not adjacent in memory, the loop packs one vector of them along the whole depth, since more rows would
 * not stay in the first level if their distance is a multiple of 1 KB. */
static void add_pack_loops(struct contraction *c, struct kernel_build *k, struct pack_loops *p,
	int64_t matrices, bool local)
{
	const int64_t columns = p->panels * p->groups;

	p->dim[0] = kb_grid_dim(k, 0, matrices, 1);
	if (p->by_lines.together)
		p->within = dims_by_lines(k, p->by_lines, p->lines, p->panels, p->dim);
	else
		p->dim[1] = local ? kb_dim(k, columns) : kb_grid_dim(k, 1, columns, p->groups);
	p->dim[2] = kb_dim(k, p->each);
	if (!p->by_lines.together)
		p->dim[3] = kb_dim(k, p->lines);
	p->dim[4] = kb_dim(k, c->kp / p->element);
	p->dim[5] = kb_dim(k, p->last);
	k->stage->vec = p->dim[5];
	cut_packing(c, k, p->dim[0], p->dim[1], c->nr / p->groups, p->dim[3]);
}

/* Sets the expressions of the indices: afterwards x[1] is the panel, x[3] the line, and x[5] the column of the panel. */
static void index_pack_loops(struct ht_xb *b, struct pack_loops *p)
{
	int32_t *x = p->x;

	for (int i = 0; i < 6; i++)
		x[i] = ht_xdim(b, p->dim[i]);
	if (p->within >= 0)
		x[3] = ht_xadd(b, ht_xmuli(b, x[3], p->by_lines.together), ht_xdim(b, p->within));
	if (p->groups > 1) {
		x[2] = ht_xmodi(b, x[1], p->groups);
		x[1] = ht_xdivi(b, x[1], p->groups);
	}
	x[5] = ht_xadd(b, ht_xmuli(b, x[2], p->lane), x[5]);
}

/* Where the number is in the packed matrices: the formula of struct ht_contract. */
static int32_t packed_place(
	const struct contraction *c, struct ht_xb *b, const struct pack_loops *p, bool local)
{
	const int32_t *x = p->x;
	int32_t at = ht_xmuli(b, x[1], c->packed_count / p->panels / p->element);

	at = ht_xadd(b, at, ht_xmuli(b, x[3], c->kp / p->element * c->nr));
	at = ht_xadd(b, at, ht_xmuli(b, x[5], c->kp / p->element));
	at = ht_xadd(b, at, x[4]);
	return local ? at : ht_xadd(b, at, ht_xmuli(b, x[0], c->packed_count / p->element));
}

/* Packs matrices of `v`, which is [.., k, n], one for each index of grid dimension 0: its first
 * `lead` dimensions number them, and the dimensions from there up to the last are the depth of
 * all taps.  If the packed matrix is a local buffer, the stage packs the one matrix of its tile;
 * else grid dimension 1 divides its lines or panels.  The two rows of a pair are stored as one word, so that
 * vectors of pairs are contiguous. */
static void pack_stage(struct contraction *c, struct kernel_build *k, const struct view *v,
	int32_t lead, bool local)
{
	struct pack_loops p = pack_loops(c, v, local);
	const bool words = p.element == 2;
	struct ht_xb *b = &k->xb;
	int32_t row, place, value, to;
	int64_t matrices = 1;

	for (int32_t i = 0; i < lead; i++)
		matrices *= v->dim[i];
	kb_stage(k, HT_STAGE_LOOP);
	add_pack_loops(c, k, &p, matrices, local);
	index_pack_loops(b, &p);
	row = ht_xadd(b, ht_xmuli(b, p.x[3], c->kp), p.x[4]);
	const struct packed_at at = { .lead = lead,
		.matrix = p.x[0],
		.column = ht_xadd(b, ht_xmuli(b, p.x[1], c->nr), p.x[5]),
		.depth = contract_taps(c) * c->depth,
		.fills_taps = fills_taps(c) };
	place = packed_place(c, b, &p, local);
	/* The value is built first, so that the order of the kernel's arguments does not depend
	 * on the compiler. */
	value = (words ? packed_pair : packed_element)(c, k, v, &at, row);
	to = local ? c->b : kb_arg_as(k, c->b, HT_BUFFER_OUT, words ? HT_U32 : c->packed_type);
	ht_xstore(b, to, place, value);
}

/* ---- operands that are computed in the run ---- */

void contract_size(struct contraction *c)
{
	struct ht_pack p;

	choose_packing(c);
	/* A tap would begin in the middle of a pair.  In bfloat16 each is filled up, unless pairs would have one number each. */
	if (c->taps && c->depth % c->kp &&
		!(contract_multiplied(c) == HT_BF16 && (c->depth > 1 || c->l->target->matrix_bf16)))
		c->kp = 1;
	c->packed_type = contract_multiplied(c);
	p = pack_of(c, 0, 0, 0);
	c->packed_count = ht_packed_count(&p);
}

void contract_pack_taps(struct contraction *c, const struct view *v, int32_t lead)
{
	struct kernel_build k;
	int64_t grid[2] = { 1 };

	contract_size(c);
	for (int32_t i = 0; i < lead; i++)
		grid[0] *= v->dim[i];
	grid[1] = line_tiles(c, v).tiles;
	c->b = plan_buffer(c->l, HT_PLAN_TEMP, c->packed_type, c->packed_count * grid[0]);
	kb_init(&k, c->l, c->n);
	kb_grid(&k, 2, grid);
	pack_stage(c, &k, v, lead, false);
	kb_finish(&k, c->n);
}

void contract_pack_value(struct contraction *c, const struct view *v)
{
	contract_pack_taps(c, v, v->rank - 2);
}

void contract_pack_local(struct contraction *c, struct kernel_build *k, const struct view *v)
{
	contract_size(c);
	c->b = kb_local(k, c->packed_type, c->packed_count);
	pack_stage(c, k, v, v->rank - 2, true);
	k->stage->start = true;
}

void contract_packed(const struct contraction *c, struct kernel_build *k, int32_t b, int32_t base)
{
	struct ht_contract *t = &k->stage->contract;

	t->b_buffer = b;
	t->b_base = base;
	t->nr = c->nr;
	t->kp = c->kp;
	t->run = c->kp == 2 && c->packed_type == HT_F16 ? HT_SHORT_RUN : 0;
	t->pieces = c->pieces;
	t->a_step = c->a_step;
	t->a_guard = c->a_guard;
}
