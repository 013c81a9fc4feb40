/* What all contractions share: packing the right operand, dimensions and grid, the stage itself. */
#include "lower/inside.h"
#include "lower/product.h"

#include <math.h>
#include <string.h>

bool contract_type(enum ht_dtype t)
{
	return ht_is_f32_or_low(t);
}

void contract_init(struct contraction *c, struct lower *l, struct ht_node *n, enum ht_dtype t)
{
	*c = (struct contraction){
		.l = l, .n = n, .dtype = t, .batch = 1, .taps = 0, .a_step = 1, .a_guard = -1
	};
	c->short_sums = t == HT_F16 && contract_sums_short(l, n);
}

bool contract_sums_short(const struct lower *l, const struct ht_node *n)
{
	return n->outs && ht_sums_short(l->target, n, n->out[0].dtype);
}

/* x (F32) rounded to the nearest number with 10 bits of fraction. */
static int32_t to_hf32(struct ht_xb *b, int32_t x)
{
	int32_t u = ht_xbitcast(b, HT_I32, x), odd, r;

	odd = ht_xand(b, ht_xshri(b, u, 13), ht_xint(b, HT_I32, 1));
	r = ht_xadd(b, u, ht_xaddi(b, odd, 0xfff));
	r = ht_xbitcast(b, HT_F32, ht_xand(b, r, ht_xint(b, HT_I32, ~0x1fff)));
	return ht_xselect(b, ht_xlt(b, ht_xabs(b, x), ht_xf(b, INFINITY)), r, x);
}

/* A kernel that rounds operand `arg` into memory of its own. */
static struct view rounded_copy(struct lower *l, const struct ht_node *n, int arg)
{
	struct ht_type t = *ht_type_of(n->in[arg]);
	const struct view *from = lower_view(l, n->in[arg]);
	struct kernel_build k;
	struct space s;
	struct view to;

	view_dense(&to, plan_buffer(l, HT_PLAN_TEMP, t.dtype, ht_shape_count(t.shape)), t.shape);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, to.rank, to.dim, view_boundaries(from, to.rank, to.dim));
	kb_store(&k, &to, &s, to_hf32(&k.xb, kb_load(&k, from, &s)));
	kb_finish(&k, n);
	return to;
}

void contract_round_operands(struct lower *l, const struct ht_node *n, bool constants)
{
	struct view *seen;

	if (lower_mode(n) != HT_IMPL_HI_FLOAT_32)
		return;
	seen = HT_NEW_ARRAY(l->scratch, struct view, (size_t)n->ins);
	for (int i = 0; i < n->ins; i++) {
		struct ht_type t = *ht_type_of(n->in[i]);
		bool packed = ht_const_tensor(n->in[i]) && !constants;

		if (packed)
			continue;
		seen[i] = t.dtype == HT_F32 && ht_shape_count(t.shape) > 0
				  ? rounded_copy(l, n, i)
				  : *lower_view(l, n->in[i]);
	}
	l->operands[n->id] = seen;
}

const struct view *lower_operand(struct lower *l, const struct ht_node *n, int arg)
{
	const struct view *seen = l->operands[n->id];

	return seen && (!ht_const_tensor(n->in[arg]) || seen[arg].rank) ? &seen[arg]
									: lower_view(l, n->in[arg]);
}

bool contract_in_matrices(const struct lower *l, const struct ht_node *n)
{
	const enum ht_dtype t = ht_type_of(n->in[0])->dtype;

	return l->target->matrix_bf16 && ht_target_multiplied(l->target, t, false) == HT_BF16 &&
	       lower_mode(n) != HT_IMPL_FLOAT_32;
}

static enum ht_dtype multiplied_type(const struct contraction *c)
{
	return ht_target_multiplied(c->l->target, c->dtype, c->short_sums && c->a_step == 1);
}

int64_t contract_taps(const struct contraction *c)
{
	int64_t n = 1;

	for (int i = 0; i < c->taps; i++)
		n *= c->tap[i];
	return n;
}

/* Products of pairs need the two numbers of a pair to be adjacent in memory. */
static void choose_packing(struct contraction *c)
{
	ht_schedule_packing(c->l->target, multiplied_type(c), c->rows * c->l->larger, c->columns,
		contract_taps(c) * c->depth, &c->nr, &c->kp);
	if (c->kp > 1 && (c->a_step != 1 || lower_mode(c->n) == HT_IMPL_FLOAT_32))
		c->kp = 1;
}

/* With fewer rows than these, widening the weights before the product takes longer than it
 * saves. */
enum { LEAST_ROWS = 32 };

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

	return contract_taps(c) * c->depth <= most && c->rows >= LEAST_ROWS ? multiplied_type(c)
									    : c->dtype;
}

/* Whether weights are packed in pairs of BF16 on a machine that has no instruction for products of pairs, since halves of pairs are
 * F32 after one operation (docs/kernels.md). */
static bool splits_pairs(const struct contraction *c)
{
	return c->packed_type == HT_BF16 && c->kp == 1 && c->a_step == 1 &&
	       multiplied_type(c) == HT_F32;
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

/* Packs matrices of `v`, which is [.., k, n], one for each index of grid dimension 0: its first
 * `lead` dimensions number them, and the dimensions from there up to the last are the depth of
 * all taps.  If the packed matrix is a local buffer, the stage packs the one matrix of its tile;
 * else grid dimension 1 divides its lines or panels.  The two rows of a pair are stored as one word, so that
 * vectors of pairs are contiguous. */
static void pack_stage(struct contraction *c, struct kernel_build *k, const struct view *v,
	int32_t lead, bool local)
{
	const struct line_tiles by_lines = local ? (struct line_tiles){ 0 } : line_tiles(c, v);
	struct lower *l = c->l;
	struct ht_xb *b = &k->xb;
	int32_t dim[6], x[6], row, offset, value, to, within = -1;
	int64_t depth = contract_taps(c) * c->depth; /* of the operand */
	int64_t lines = packed_lines(c, fills_taps(c));
	int64_t panels = ht_ceil_div(c->columns, c->nr), batches = 1;
	int64_t lane = c->nr % lanes(l) == 0 ? lanes(l) : lanes(l) / 2; /* panels of half vectors */
	bool across = v->stride[v->rank - 1] != 1;
	bool words = !local && c->kp == 2;
	int64_t element = words ? 2 : 1; /* packed numbers */
	/* Vectors of a panel, and how many of them an index of the loop over columns stands for.  Where columns end at the size of the
	 * run, it is one vector, so that the loop reads little of what lies behind them. */
	int64_t vectors = across ? c->nr / lane : 1;
	int64_t each = across && ends_columns(c) ? 1 : vectors, groups = vectors / each;

	for (int32_t i = 0; i < lead; i++)
		batches *= v->dim[i];
	kb_stage(k, HT_STAGE_LOOP);
	dim[0] = kb_grid_dim(k, 0, batches, 1);
	if (by_lines.together)
		within = dims_by_lines(k, by_lines, lines, panels, dim);
	else
		dim[1] = local ? kb_dim(k, panels * groups)
			       : kb_grid_dim(k, 1, panels * groups, groups);
	/* The rows are not adjacent in memory.  The loop packs one vector of them along the
	 * whole depth, since more rows would not stay in the first level if their distance is a
	 * multiple of 1 KB. */
	dim[2] = kb_dim(k, each);
	if (!by_lines.together)
		dim[3] = kb_dim(k, lines);
	dim[4] = kb_dim(k, c->kp / element);
	dim[5] = kb_dim(k, across ? lane : c->nr);
	k->stage->vec = dim[5];
	cut_packing(c, k, dim[0], dim[1], c->nr / groups, dim[3]);
	for (int i = 0; i < 6; i++)
		x[i] = ht_xdim(b, dim[i]);
	if (within >= 0)
		x[3] = ht_xadd(b, ht_xmuli(b, x[3], by_lines.together), ht_xdim(b, within));
	if (groups > 1) {
		x[2] = ht_xmodi(b, x[1], groups);
		x[1] = ht_xdivi(b, x[1], groups);
	}
	x[5] = ht_xadd(b, ht_xmuli(b, x[2], lane), x[5]);
	row = ht_xadd(b, ht_xmuli(b, x[3], c->kp), x[4]);
	const struct packed_at at = { .lead = lead,
		.matrix = x[0],
		.column = ht_xadd(b, ht_xmuli(b, x[1], c->nr), x[5]),
		.depth = depth,
		.fills_taps = fills_taps(c) };
	offset = ht_xmuli(b, x[1], c->packed_count / panels / element);
	offset = ht_xadd(b, offset, ht_xmuli(b, x[3], c->kp / element * c->nr));
	offset = ht_xadd(b, offset, ht_xmuli(b, x[5], c->kp / element));
	offset = ht_xadd(b, offset, x[4]);
	if (!local)
		offset = ht_xadd(b, offset, ht_xmuli(b, x[0], c->packed_count / element));
	/* The value is built first, so that the order of the kernel's arguments does not depend
	 * on the compiler. */
	value = (words ? packed_pair : packed_element)(c, k, v, &at, row);
	to = local ? c->b : kb_arg_as(k, c->b, HT_BUFFER_OUT, words ? HT_U32 : c->packed_type);
	ht_xstore(b, to, offset, value);
}

void contract_size(struct contraction *c)
{
	struct ht_pack p;

	choose_packing(c);
	/* A tap would begin in the middle of a pair.  In bfloat16 each is filled up, unless pairs would have one number each. */
	if (c->taps && c->depth % c->kp &&
		!(multiplied_type(c) == HT_BF16 && (c->depth > 1 || c->l->target->matrix_bf16)))
		c->kp = 1;
	c->packed_type = multiplied_type(c);
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

/* ---- the stage ---- */

/* Bytes of so many rows, or columns, as F32. */
static int64_t wide_bytes(const struct contraction *c, int64_t count)
{
	return count * contract_taps(c) * ht_ceil_div(c->depth, c->kp) * c->kp *
	       (int64_t)sizeof(float);
}

/* Whether operand 0 of the node, as the left operand, is held in memory in another type than the product reads. */
static bool is_held_wide(const struct contraction *c)
{
	const struct view *v = lower_operand(c->l, c->n, 0);

	return v->buffer >= 0 && c->l->plan->buffer[v->buffer].dtype != c->dtype;
}

/* Operands that are multiplied as F32 but are held in another type are widened by each tile.
 * Weights: the first rows that are multiplied with a panel of columns widen it; the panel may
 * take half of the second level.  Rows of a matrix: once for all columns, if they fit into a
 * quarter of the second level. */
static void choose_widening(struct contraction *c, int64_t m_step)
{
	const int64_t for_a_panel = c->l->target->l2 / 2, for_rows = c->l->target->l2 / 4;
	const bool many = multiplied_type(c) != c->dtype && c->rows >= LEAST_ROWS;

	c->wide_columns = many && c->packed_type == c->dtype && wide_bytes(c, c->nr) <= for_a_panel;
	c->wide_rows = many && !c->taps && c->a_guard < 0 && c->a_step == 1 && c->columns > c->nr &&
		       !is_held_wide(c) && wide_bytes(c, m_step) <= for_rows;
}

/* Whether the tiles that share a panel follow each other, so that a thread widens the panel once.  Tiles that share rows follow each
 * other where the rows are copied.  Where the loop over rows ends at a size of the run, a tile may have none that widen. */
static bool shares_panels(const struct contraction *c)
{
	return c->wide_columns && !c->wide_rows && !c->l->g->sizes;
}

/* Products of matrices read rows at one distance from where they are, and others from a copy that they make for each panel of columns.
 * Several panels share a copy of all taps, which may take half of the second level. */
static bool pays_to_gather(const struct contraction *c, int64_t m_step)
{
	const int64_t row = contract_taps(c) * c->depth * (int64_t)ht_dtype_info(c->dtype)->bytes;

	return c->apart && c->l->target->matrix_bf16 && c->dtype == HT_BF16 && c->kp == 2 &&
	       c->depth % 2 == 0 && c->columns > c->nr && m_step * row <= c->l->target->l2 / 2;
}

/* The most rows of a tile, up to m_step, that divide rows_of_run: then no tile has rows of two runs, and the loop over
 * its rows can end at the size of the run. */
static int64_t rows_of_tile(const struct contraction *c, int64_t m_step)
{
	int64_t tiles = ht_ceil_div(c->rows_of_run, m_step);

	while (c->rows_of_run % tiles)
		tiles++;
	return c->rows_of_run / tiles;
}

static void choose_tiles(const struct contraction *c, int64_t *m_step, int64_t *n_step)
{
	ht_schedule_tiles(c->l->target, multiplied_type(c), c->rows, c->columns,
		contract_taps(c) * c->depth, c->nr, c->by_panels, m_step, n_step);
	if (c->rows_of_run && c->rows_of_run < c->rows)
		*m_step = rows_of_tile(c, *m_step);
}

void contract_begin(struct contraction *c)
{
	struct kernel_build *k = &c->k;
	int64_t m_step, n_step, grid[3];

	choose_tiles(c, &m_step, &n_step);
	choose_widening(c, m_step);
	c->by_panels = shares_panels(c);
	if (c->by_panels)
		choose_tiles(c, &m_step, &n_step);
	c->gathers = pays_to_gather(c, m_step);
	const int m_grid = c->by_panels ? 2 : 1, n_grid = 3 - m_grid;
	kb_init(k, c->l, c->n);
	if (c->rows == 1 && !c->l->chosen[c->n->id]) {
		k->kernel->method = ht_method_info[HT_METHOD_MATRIX_VECTOR].name;
		plan_choice(c->l, c->n,
			(struct ht_method_choice){ .method = HT_METHOD_MATRIX_VECTOR,
				.other = HT_METHOD_END,
				.reason = HT_REASON_ONE_ROW });
	}
	if (c->pieces)
		k->kernel->method = ht_method_info[HT_METHOD_PIECES].name;
	grid[0] = c->batch;
	grid[m_grid] = ht_ceil_div(c->rows, m_step);
	grid[n_grid] = ht_ceil_div(c->columns, n_step);
	kb_grid(k, 3, grid);
	kb_stage(k, HT_STAGE_CONTRACT);
	c->batch_x = ht_xdim(&k->xb, kb_grid_dim(k, 0, c->batch, 1));
	k->stage->contract.m = kb_grid_dim(k, m_grid, c->rows, m_step);
	k->stage->contract.n = kb_grid_dim(k, n_grid, c->columns, n_step);
	c->m_x = ht_xdim(&k->xb, k->stage->contract.m);
	c->pixel_x = c->m_x;
	c->pixel_guard = -1;
	c->pixel_end = NULL;
	c->n_x = ht_xdim(&k->xb, k->stage->contract.n);
	for (int i = 0; i < c->taps; i++)
		c->tap_x[i] = ht_xdim(&k->xb, kb_reduce_dim(k, c->tap[i]));
	kb_reduce_dim(
		k, c->pieces ? ht_ceil_div(c->depth, HT_PIECE_DEPTH) * HT_PIECE_DEPTH * c->pieces
			     : c->depth);
	k->stage->vec = k->stage->contract.n;
}

/* Number q of row `row`'s taps. */
static int32_t tap_of_row(
	const struct contraction *c, struct ht_xb *b, int32_t row, const int32_t *tap)
{
	for (int i = 0; i < c->taps; i++)
		row = ht_xadd(b, ht_xmuli(b, row, c->tap[i]), tap[i]);
	return row;
}

/* An element of row a_row of the stage's tap, or zero where a_guard is not. */
static int32_t element_of_row(struct contraction *c, int32_t buffer, int32_t at, int32_t guard)
{
	struct ht_xb *b = &c->k.xb;

	if (guard < 0)
		return ht_xload(b, buffer, c->dtype, at);
	return ht_xload_if(b, buffer, c->dtype, at, guard, ht_xcvt(b, c->dtype, ht_xf(b, 0)));
}

/* Puts a stage in front of the contraction that copies the rows of its tile, as `type`, all taps of a row side by side.  It has the
 * contraction's expressions up to those of a row, which use the first two dimensions and those of taps; these have the same numbers in
 * both: the depth is in the place of the columns. */
static void rows_stage(struct contraction *c, int32_t a, int32_t a_row, int32_t guard, int32_t to,
	enum ht_dtype type)
{
	struct kernel_build *k = &c->k;
	struct ht_xb *b = &k->xb;
	struct ht_stage contraction = *k->stage;
	const struct ht_dim m = contraction.dim[contraction.contract.m];
	int32_t dim[3], tap[2], depth, row, from, to_row;

	kb_stage(k, HT_STAGE_LOOP);
	k->stage->start = true;
	dim[0] = kb_grid_dim(k, 0, c->batch, 1);
	dim[1] = kb_grid_dim(k, m.grid, m.extent, m.step);
	memcpy(k->stage->dim[dim[1]].cut, m.cut, sizeof m.cut);
	dim[2] = kb_dim(k, c->depth);
	for (int i = 0; i < c->taps; i++)
		tap[i] = kb_dim(k, c->tap[i]);
	k->stage->vec = dim[2];
	k->stage->xs = (a_row > guard ? a_row : guard) + 1;
	k->stage->x = HT_NEW_ARRAY(k->arena, struct ht_x, (size_t)k->stage->xs);
	memcpy(k->stage->x, contraction.x, (size_t)k->stage->xs * sizeof *k->stage->x);
	ht_xb_init(b, k->arena, k->stage);
	/* Each is a statement of its own: C does not fix the order in which arguments are
	 * evaluated, and the numbers of expressions are part of the kernel's text. */
	depth = ht_xdim(b, dim[2]);
	for (int i = 0; i < c->taps; i++)
		tap[i] = ht_xdim(b, tap[i]);
	row = tap_of_row(c, b, kb_within(k, dim[1]), tap);
	row = ht_xmuli(b, row, c->depth);
	to_row = ht_xadd(b, row, depth);
	from = ht_xadd(b, a_row, depth);
	from = element_of_row(c, kb_arg(k, a, HT_BUFFER_IN), from, guard);
	ht_xstore(b, to, to_row, ht_xcvt(b, type, from));
	k->stage[-1] = *k->stage;
	*k->stage = contraction;
}

/* Stores the root's sum at `out`: in `to`, or as the result of the kernel's sink if `to` is
 * NULL. */
static void end_into(struct contraction *c, int32_t a, int32_t a_row, int32_t b_base,
	const struct view *to, const struct space *out)
{
	struct kernel_build *k = &c->k;
	struct ht_contract *t = &k->stage->contract;
	const struct ht_dim *m = &k->stage->dim[t->m];
	const bool as_read = c->l->plan->buffer[a].dtype == c->dtype;
	const int32_t guard = c->a_guard;
	enum ht_dtype type;
	int32_t rows = -1;

	c->wide_rows = c->wide_rows && as_read;
	c->gathers = c->gathers && as_read && c->pixel_guard < 0;
	type = c->wide_rows ? HT_F32 : c->dtype;
	t->a_buffer = kb_arg(k, a, HT_BUFFER_IN);
	t->a_row = a_row;
	if (c->wide_rows || c->gathers) {
		rows = t->a_buffer = kb_local(k, type, m->step * contract_taps(c) * c->depth);
		t->a_row = tap_of_row(c, &k->xb, kb_within(k, t->m), c->tap_x);
		t->a_row = ht_xmuli(&k->xb, t->a_row, c->depth);
		c->a_guard = -1;
	}
	contract_packed(c, k, kb_arg(k, c->b, HT_BUFFER_IN), b_base);
	if (c->wide_columns)
		t->wide_buffer = kb_local(k, HT_F32, wide_bytes(c, c->nr) / (int64_t)sizeof(float));
	if (to)
		kb_store(k, to, out, ht_xred(&k->xb, 0, HT_F32));
	else
		kb_store_root(k, c->n, ht_xred(&k->xb, 0, HT_F32), out);
	if (rows >= 0)
		rows_stage(c, a, a_row, guard, rows, type);
	if (!to)
		lower_turn_tiles(c);
	kb_finish(k, c->n);
}

void contract_end(
	struct contraction *c, int32_t a, int32_t a_row, int32_t b_base, const struct space *out)
{
	end_into(c, a, a_row, b_base, NULL, out);
}

void contract_end_part(struct contraction *c, int32_t a, int32_t a_row, int32_t b_base,
	const struct view *to, const struct space *out)
{
	end_into(c, a, a_row, b_base, to, out);
}

void contract_add_parts(struct lower *l, struct ht_node *n, const struct view *parts)
{
	const struct ht_shape result = n->out[0].shape;
	struct kernel_build k;
	struct space out, at = { .rank = parts->rank, .groups = 2, .guard = -1 };
	int32_t part;

	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	out = kb_loop_space(&k, result.rank, result.dim,
		kb_out_boundaries(l, k.sink, 0) | kb_boundaries(l, k.sink, ht_out(n, 0)));
	part = ht_xdim(&k.xb, kb_reduce_dim(&k, parts->dim[0]));
	memcpy(at.dim, parts->dim, sizeof at.dim);
	at.group[0] = (struct space_group){ 0, 0, part };
	at.group[1] = (struct space_group){ 1, parts->rank - 1, space_linear(&k.xb, &out) };
	kb_store_root(&k, n, kb_reduce(&k, HT_RED_ADD, HT_F32, kb_load(&k, parts, &at)), &out);
	kb_finish(&k, n);
}
