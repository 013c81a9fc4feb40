/* What all contractions share: dimensions and grid, the stage itself, rounded copies of operands.  pack.c packs the right operand. */
#include "lower/pack.h"

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

int64_t contract_taps(const struct contraction *c)
{
	int64_t n = 1;

	for (int i = 0; i < c->taps; i++)
		n *= c->tap[i];
	return n;
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
	const bool many = contract_multiplied(c) != c->dtype && c->rows >= CONTRACT_LEAST_ROWS;

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
	ht_schedule_tiles(c->l->target, contract_multiplied(c), c->rows, c->columns,
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
