/* Software prefetch.  The processor fetches ahead by itself while a loop reads one sequence of addresses.
 * It does not if a loop reads several rows of an image side by side, and it stops when a loop reads a row
 * that is in the cache.  Such loops therefore prefetch their next elements to the second level. */
#include "backend/emit.h"

enum { MOST_NEW = 9 }; /* the most elements of a window that the previous result did not read */

static bool reads(const struct ht_stage *s, int32_t buffer)
{
	for (int32_t i = 0; i < s->xs; i++)
		if (s->x[i].op == HT_X_LOAD && s->x[i].imm == buffer)
			return true;
	return s->kind == HT_STAGE_CONTRACT && s->contract.a_buffer == buffer;
}

static bool read_between(const struct ht_stage *from, const struct ht_stage *to, int32_t buffer)
{
	for (; from < to; from++)
		if (reads(from, buffer))
			return true;
	return false;
}

static bool is_far(const struct ht_e *e, int32_t buffer)
{
	const struct ht_kernel_buffer *b = &e->k->buffer[buffer];

	return b->kind == HT_BUFFER_IN && ht_e_bytes(b) >= e->t->streams;
}

/* The distance in elements from a tile to the next one along the last grid dimension. */
static int64_t tile_step(const struct ht_e *e, const struct ht_e_info *o)
{
	int64_t step = o->grid[e->k->grid_dims > 0 ? e->k->grid_dims - 1 : 0];

	for (int d = 0; d < e->s->dims; d++)
		if (e->s->dim[d].grid == e->k->grid_dims - 1)
			step += o->coef[d] * e->s->dim[d].step;
	return step;
}

/* By how many positions of reduction dimension d the window moves from one result to the next;
 * 0: it does not move. */
static int64_t moves(const struct ht_e *e, const struct ht_e_info *o, int d)
{
	int64_t least = INT64_MAX, steps;

	if (d == e->s->vec || o->coef[d] <= 0)
		return 0;
	for (int i = 0; i < e->s->dims; i++)
		if (!e->s->dim[i].reduce && i != e->s->vec && o->coef[i] &&
			o->coef[i] % o->coef[d] == 0 && o->coef[i] < least)
			least = o->coef[i];
	steps = least == INT64_MAX ? 0 : least / o->coef[d];
	return steps < e->s->dim[d].extent ? steps : e->s->dim[d].extent;
}

/* Whether the stage's reductions are a window that moves a little from result to result. */
static bool is_window(const struct ht_e *e, const struct ht_e_info *o)
{
	int64_t fresh = 1;

	for (int d = 0; d < e->s->dims; d++)
		if (e->s->dim[d].reduce)
			fresh *= moves(e, o, d);
	return e->s->reds > 0 && fresh > 0 && fresh <= MOST_NEW;
}

void ht_e_prefetch_plan(struct ht_e *e, const struct ht_stage *given)
{
	const struct ht_stage *first = e->k->stage, *end = first + e->k->stages;

	e->fetched = -1;
	if (given->kind != HT_STAGE_LOOP || given->vec < 0 || !e->t->prefetch)
		return;
	for (int32_t i = 0; i < given->xs; i++) {
		const struct ht_x *x = &given->x[i];
		const struct ht_e_info *o = x->op == HT_X_LOAD ? &e->info[x->a] : NULL;
		int32_t buffer = (int32_t)x->imm;

		if (!o || !o->pure || !o->lane || o->lane_step != 1 || !is_far(e, buffer) ||
			read_between(given + 1, end, buffer))
			continue;
		if (is_window(e, o))
			e->ahead = e->t->prefetch / (int64_t)ht_dtype_info(x->dtype)->bytes;
		else if (given->reds == 0 && read_between(first, given, buffer))
			e->ahead = tile_step(e, o);
		else
			continue;
		e->fetched = i;
		return;
	}
}

/* The last element that the current copy of results reads. */
static LLVMValueRef last_read(struct ht_e *e, const struct ht_e_info *o)
{
	LLVMValueRef at = ht_e_i64(e, o->c + e->ahead), x;

	for (int l = 0; l < e->outer; l++) {
		const struct ht_e_level *v = &e->level[l];

		x = LLVMBuildAdd(e->b, v->index, ht_e_i64(e, e->off[v->dim] * v->stride), "");
		x = LLVMBuildMul(e->b, x, ht_e_i64(e, o->coef[v->dim]), "");
		at = LLVMBuildAdd(e->b, at, x, "");
	}
	for (int d = 0; d < e->s->dims; d++)
		if (e->s->dim[d].reduce)
			at = LLVMBuildAdd(
				e->b, at, ht_e_i64(e, o->coef[d] * (e->s->dim[d].extent - 1)), "");
	for (int g = 0; g < e->k->grid_dims; g++)
		at = LLVMBuildAdd(
			e->b, at, LLVMBuildMul(e->b, e->grid[g], ht_e_i64(e, o->grid[g]), ""), "");
	return at;
}

void ht_e_prefetch_line(struct ht_e *e, LLVMValueRef p)
{
	LLVMValueRef arg[4] = { p, LLVMConstInt(e->i32, 0, false), LLVMConstInt(e->i32, 2, false),
		LLVMConstInt(e->i32, 1, false) };

	ht_e_intrinsic(e, "llvm.prefetch", e->ptr, arg, 4);
}

static void fetch(struct ht_e *e, const struct ht_x *x, LLVMValueRef at)
{
	ht_e_prefetch_line(e, ht_e_at(e, ht_e_mem_type(e, x->dtype), e->buffer[x->imm], at));
}

/* ---- weights ---- */

/* The blocks of rows that each run has, if rows end at its size; 0: there is no such end.  A run of fewer than four asks for a part
 * of the next panel: all of it would be more bytes a cycle than arrive. */
static int64_t least_blocks(const struct ht_e *e)
{
	enum { FEW_BLOCKS = 4 };
	const struct ht_dim *m = &e->s->dim[e->s->contract.m];
	const int64_t blocks = m->least / e->max_copies[e->s->contract.m];

	if (!m->cut[0].run)
		return 0;
	return blocks < FEW_BLOCKS ? FEW_BLOCKS : blocks;
}

/* How many blocks of `rows` rows pass by a panel. */
static int64_t row_blocks(const struct ht_e *e, int64_t rows)
{
	const int64_t all = ht_ceil_div(rows, e->max_copies[e->s->contract.m]);
	const int64_t least = least_blocks(e);

	return least && least < all ? least : all;
}

static int64_t step_of(const struct ht_dim *d)
{
	return d->grid >= 0 && d->step < d->extent ? d->step : d->extent;
}

int64_t ht_e_blocks_of_tile(const struct ht_e *e)
{
	const struct ht_dim *m = &e->s->dim[e->s->contract.m];

	return row_blocks(e, ht_e_inherits_panel(e) ? m->extent : step_of(m));
}

struct ht_e_panel ht_e_panel_of(const struct ht_e *e, int64_t numbers, int64_t steps, int64_t round)
{
	const struct ht_contract *c = &e->s->contract;
	const bool in_memory = e->k->buffer[c->b_buffer].kind == HT_BUFFER_IN && !c->b_row;
	const bool single = e->s->dim[c->n].extent <= c->nr;
	struct ht_e_panel p = { .buffer = in_memory ? c->b_buffer : -1,
		.own = single && e->info[c->b_base].uses,
		.steps = steps,
		.round = round,
		.blocks = ht_e_blocks_of_tile(e) };

	if (p.buffer >= 0)
		p.bytes = numbers * (int64_t)ht_dtype_info(ht_packed_type(e->k, c))->bytes;
	return p;
}

/* Weights that stay in the second level need no prefetch, nor do those that tiles find there since they turn (ht_kernel.turns).  With many blocks of rows, the wait of
 * the first block hardly matters, unless each tile has a panel of its own.  For weights that are widened, a prefetch pays on every
 * machine (docs/kernels.md). */
int ht_e_panel_lines(const struct ht_e *e, struct ht_e_panel p)
{
	enum { MOST_BLOCKS = 64, MOST_LINES = 8 };
	const int64_t rounds = p.steps / p.round * p.blocks;
	const int most = e->matrix ? 2 * MOST_LINES : MOST_LINES;
	int64_t lines;

	if (!(e->s->contract.wide_buffer ? e->t->prefetch : e->t->prefetch_panels) || e->k->turns ||
		p.buffer < 0 || ht_e_bytes(&e->k->buffer[p.buffer]) < e->t->l2 / 8 ||
		p.blocks < 2 || (p.blocks > MOST_BLOCKS && !p.own) || !rounds)
		return 0;
	lines = ht_ceil_div(p.bytes / HT_E_LINE, rounds);
	return lines > most ? most : (int)lines;
}

/* Rounds from one line to the next where there are more rounds than lines.  They are spread over all rounds, since lines that are on their way
 * from beyond the second level take up the buffers that those from the second level need, too. */
static int64_t rounds_apart(struct ht_e_panel p)
{
	const int64_t rounds = p.steps / p.round * p.blocks,
		      lines = ht_ceil_div(p.bytes, HT_E_LINE);

	return rounds < lines ? 1 : rounds / lines;
}

LLVMValueRef ht_e_panel_pace(struct ht_e *e, struct ht_e_panel p)
{
	const int m = e->s->contract.m, rows = e->max_copies[m];
	const int64_t lines = ht_ceil_div(p.bytes, HT_E_LINE);
	LLVMValueRef begin, count, blocks;

	if (!least_blocks(e) || !ht_e_panel_lines(e, p))
		return NULL;
	ht_e_extent(e, m, &begin, &count);
	count = ht_e_smax(e, count, ht_e_i64(e, p.blocks * rows)); /* a tile's may be negative */
	blocks = LLVMBuildNSWAdd(e->b, count, ht_e_i64(e, rows - 1), "");
	blocks = LLVMBuildUDiv(e->b, blocks, ht_e_i64(e, rows), "");
	return LLVMBuildUDiv(e->b, ht_e_i64(e, lines << HT_E_PACE),
		LLVMBuildNSWMul(e->b, blocks, ht_e_i64(e, p.steps), ""), "");
}

static void fetch_of_panel(
	struct ht_e *e, struct ht_e_panel p, LLVMValueRef panel, LLVMValueRef at, int64_t line)
{
	at = LLVMBuildAdd(e->b, at, ht_e_i64(e, p.bytes + line * HT_E_LINE), "");
	ht_e_prefetch_line(e, ht_e_at(e, e->i8, panel, at));
}

/* The line at which step `at` of all blocks begins to ask. */
static LLVMValueRef line_at(struct ht_e *e, LLVMValueRef at, LLVMValueRef pace)
{
	at = LLVMBuildNSWMul(e->b, at, pace, "");
	return LLVMBuildLShr(e->b, at, ht_e_i64(e, HT_E_PACE), "");
}

/* Prefetches the part of the next panel that this round asks for, where the number of blocks is a size of the run: up to `lines` lines, in many
 * rounds none.  The last line is asked for again where the round has fewer. */
static void prefetch_at_pace(struct ht_e *e, struct ht_e_panel p, LLVMValueRef panel,
	LLVMValueRef at, LLVMValueRef pace, int64_t lines)
{
	LLVMBasicBlockRef some = ht_e_block(e, "fetch"), no = ht_e_block(e, "fetched");
	LLVMValueRef from = line_at(e, at, pace), to;

	to = line_at(e, LLVMBuildNSWAdd(e->b, at, ht_e_i64(e, p.round), ""), pace);
	to = ht_e_smin(e, to, ht_e_i64(e, ht_ceil_div(p.bytes, HT_E_LINE)));
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, to, ""), some, no);
	LLVMPositionBuilderAtEnd(e->b, some);
	to = LLVMBuildNSWSub(e->b, to, ht_e_i64(e, 1), "");
	for (int64_t i = 0; i < lines; i++) {
		at = ht_e_smin(e, LLVMBuildNSWAdd(e->b, from, ht_e_i64(e, i), ""), to);
		at = LLVMBuildNSWMul(e->b, at, ht_e_i64(e, HT_E_LINE), "");
		fetch_of_panel(e, p, panel, at, 0);
	}
	LLVMBuildBr(e->b, no);
	LLVMMoveBasicBlockAfter(no, some);
	LLVMPositionBuilderAtEnd(e->b, no);
}

LLVMValueRef ht_e_steps_before(struct ht_e *e, int64_t steps, LLVMValueRef done)
{
	const int32_t dim = e->s->contract.m;
	const struct ht_dim *m = &e->s->dim[dim];
	LLVMValueRef at = e->level[e->level_of[dim]].index;

	if (m->grid >= 0 && !ht_e_inherits_panel(e))
		at = LLVMBuildURem(e->b, at, ht_e_i64(e, m->step), "");
	at = LLVMBuildUDiv(e->b, at, ht_e_i64(e, e->max_copies[dim]), "");
	return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, at, ht_e_i64(e, steps), ""), done, "");
}

/* Prefetches one part of the next panel of B for each block of rows, in order. */
void ht_e_prefetch_panel(struct ht_e *e, struct ht_e_panel p, LLVMValueRef panel, LLVMValueRef done,
	LLVMValueRef pace)
{
	const int64_t lines = ht_e_panel_lines(e, p), apart = rounds_apart(p);
	LLVMValueRef at = ht_e_steps_before(e, p.steps, done);

	if (pace) {
		prefetch_at_pace(e, p, panel, at, pace, lines);
		return;
	}
	at = LLVMBuildUDiv(e->b, at, ht_e_i64(e, p.round * apart), "");
	at = LLVMBuildMul(e->b, at, ht_e_i64(e, lines * HT_E_LINE), "");
	if (p.own) /* where there are more rounds than lines */
		at = ht_e_select(e, LLVMBuildICmp(e->b, LLVMIntULT, at, ht_e_i64(e, p.bytes), ""),
			at, ht_e_i64(e, p.bytes - HT_E_LINE));
	for (int64_t i = 0; i < lines; i++)
		fetch_of_panel(e, p, panel, at, i);
}

/* ---- results of a block of rows ---- */

/* Whether the rows at this offset of buffer `b` lie a line or more apart, in memory that does not stay in the second level. */
static bool is_row(const struct ht_e *e, int32_t b, int32_t offset)
{
	const struct ht_kernel_buffer *buffer = &e->k->buffer[b];
	const struct ht_e_info *o = &e->info[offset];
	const int m = e->s->contract.m;

	return buffer->kind != HT_BUFFER_LOCAL && ht_e_bytes(buffer) >= e->t->l2 / 4 && o->lane &&
	       o->lane_step == 1 && !(o->opaque >> m & 1) &&
	       o->coef[m] * (int64_t)ht_dtype_info(buffer->dtype)->bytes >= HT_E_LINE;
}

static void add_row(struct ht_e *e, struct ht_e_rows *r, int32_t b, int32_t offset)
{
	const enum ht_dtype t = e->k->buffer[b].dtype;
	const int64_t bytes = (int64_t)ht_dtype_info(t)->bytes;
	int64_t displace;
	LLVMValueRef p;

	if (r->n == HT_E_ROWS || !is_row(e, b, offset))
		return;
	p = ht_e_base(e, offset, &displace);
	r->row[r->n++] = (struct ht_e_row){ .p = ht_e_at(e, ht_e_mem_type(e, t), e->buffer[b], p),
		.distance = e->info[offset].coef[e->s->contract.m] * bytes,
		.lines = (int)ht_ceil_div(e->s->contract.nr * bytes, HT_E_LINE) };
}

void ht_e_rows_begin(struct ht_e *e, struct ht_e_rows *r)
{
	const struct ht_stage *s = e->s;

	r->n = 0;
	if (!e->t->prefetch_panels)
		return;
	for (int32_t i = 0; i < s->stores; i++)
		add_row(e, r, s->store[i].buffer, s->store[i].offset);
	for (int32_t i = 0; i < s->xs; i++)
		if (s->x[i].op == HT_X_LOAD && s->x[i].imm != s->contract.a_buffer)
			add_row(e, r, (int32_t)s->x[i].imm, s->x[i].a);
}

void ht_e_prefetch_rows(
	struct ht_e *e, const struct ht_e_rows *r, int rows, LLVMValueRef step, int64_t steps)
{
	const int64_t each = ht_ceil_div(rows, steps);

	for (int64_t i = 0; i < each && r->n; i++) {
		LLVMValueRef row = LLVMBuildNSWMul(e->b, step, ht_e_i64(e, each), "");

		row = LLVMBuildNSWAdd(e->b, row, ht_e_i64(e, i), "");
		row = ht_e_smin(e, row, ht_e_i64(e, rows - 1));
		for (int k = 0; k < r->n; k++) {
			LLVMValueRef at =
				LLVMBuildNSWMul(e->b, row, ht_e_i64(e, r->row[k].distance), "");

			for (int j = 0; j < r->row[k].lines; j++)
				ht_e_prefetch_line(e,
					ht_e_at(e, e->i8, r->row[k].p,
						LLVMBuildNSWAdd(e->b, at,
							ht_e_i64(e, (int64_t)j * HT_E_LINE), "")));
		}
	}
}

/* Keeps where the rows of the block begin in a buffer at this offset. */
static void add_rows(struct ht_e *e, struct ht_e_results *r, int32_t buffer, int32_t offset)
{
	const struct ht_contract *c = &e->s->contract;
	const enum ht_dtype t = e->k->buffer[buffer].dtype;
	const int64_t bytes = (int64_t)ht_dtype_info(t)->bytes;
	LLVMValueRef rows, p;
	int64_t displace;

	if (r->n == HT_E_ROWS)
		return;
	rows = ht_e_alloca(e, LLVMArrayType2(e->ptr, (uint64_t)r->height), 0, "rows");
	for (int i = 0; i < r->height; i++) {
		e->off[c->m] = i;
		p = ht_e_base(e, offset, &displace);
		p = ht_e_at(e, ht_e_mem_type(e, t), e->buffer[buffer], p);
		p = ht_e_at(e, e->i8, p, ht_e_i64(e, displace * bytes));
		LLVMBuildStore(e->b, p, ht_e_at(e, e->ptr, rows, ht_e_i64(e, i)));
	}
	e->off[c->m] = 0;
	r->rows[r->n] = rows;
	r->lines[r->n++] = (int)ht_ceil_div(c->nr * bytes, HT_E_LINE);
}

/* Without these requests, the stores of a block wait for all of its lines, and the stores of the next block's first sums to the stack wait
 * behind them.  If they were made at once in front of the products, the loads of the products would wait behind them, as a core has
 * buffers for a dozen lines or so that are on their way. */
void ht_e_results_begin(
	struct ht_e *e, struct ht_e_results *r, int height, int64_t steps, int64_t round)
{
	enum { LEAST_STEPS = 256 };
	const struct ht_stage *s = e->s;

	*r = (struct ht_e_results){
		.height = height, .round = round, .rounds = round > 0 ? steps / round : 0
	};
	if (!e->t->prefetch_panels || steps < LEAST_STEPS)
		return;
	for (int32_t i = 0; i < s->stores; i++) {
		const struct ht_kernel_buffer *b = &e->k->buffer[s->store[i].buffer];
		const struct ht_e_info *o = &e->info[s->store[i].offset];

		if (b->kind != HT_BUFFER_LOCAL && ht_e_bytes(b) >= e->t->l2 / 4 && o->lane &&
			o->lane_step == 1 && !ht_e_streams(e, s->store[i].buffer))
			add_rows(e, r, s->store[i].buffer, s->store[i].offset);
	}
	for (int32_t i = 0; i < s->xs; i++) {
		const struct ht_x *x = &s->x[i];

		if (x->op == HT_X_LOAD && x->imm != s->contract.a_buffer && e->info[x->a].pure &&
			is_row(e, (int32_t)x->imm, x->a))
			add_rows(e, r, (int32_t)x->imm, x->a);
	}
}

/* Prefetches line `at` of the rows of buffer `i`, or the last one. */
static void fetch_line(struct ht_e *e, const struct ht_e_results *r, int i, LLVMValueRef at)
{
	LLVMValueRef lines = ht_e_i64(e, r->lines[i]), row, p;

	at = ht_e_smin(e, at, ht_e_i64(e, (int64_t)r->height * r->lines[i] - 1));
	row = ht_e_at(e, e->ptr, r->rows[i], LLVMBuildUDiv(e->b, at, lines, ""));
	p = LLVMBuildLoad2(e->b, e->ptr, row, "");
	at = LLVMBuildURem(e->b, at, lines, "");
	ht_e_prefetch_line(
		e, ht_e_at(e, e->i8, p, LLVMBuildMul(e->b, at, ht_e_i64(e, HT_E_LINE), "")));
}

/* The lines are spread over three quarters of the rounds, so that the last ones arrive before their results. */
void ht_e_prefetch_results(
	struct ht_e *e, const struct ht_e_results *r, LLVMValueRef done, int64_t steps)
{
	const int64_t rounds = r->rounds < 4 ? 1 : r->rounds / 4 * 3;

	for (int i = 0; i < r->n; i++) {
		const int64_t all = (int64_t)r->height * r->lines[i];
		const int64_t each = ht_ceil_div(all, rounds),
			      apart = rounds < all ? 1 : rounds / all;
		const int64_t lines = ht_ceil_div(steps, r->round * apart) * each;
		LLVMValueRef at = LLVMBuildUDiv(e->b, done, ht_e_i64(e, r->round * apart), "");

		at = LLVMBuildMul(e->b, at, ht_e_i64(e, each), "");
		for (int64_t k = 0; k < lines && k < all; k++)
			fetch_line(e, r, i, LLVMBuildAdd(e->b, at, ht_e_i64(e, k), ""));
	}
}

/* ---- windows ---- */

/* Prefetches elements that no earlier result has read: the last positions of the window in dimension `d`. */
static void fetch_new(struct ht_e *e, const struct ht_x *x, int d, LLVMValueRef at)
{
	const struct ht_e_info *o = &e->info[x->a];

	while (d < e->s->dims && !e->s->dim[d].reduce)
		d++;
	if (d == e->s->dims) {
		fetch(e, x, at);
		return;
	}
	for (int64_t i = moves(e, o, d) - 1; i >= 0; i--)
		fetch_new(e, x, d + 1, LLVMBuildSub(e->b, at, ht_e_i64(e, i * o->coef[d]), ""));
}

void ht_e_prefetch(struct ht_e *e)
{
	const struct ht_x *x = e->fetched < 0 ? NULL : &e->s->x[e->fetched];
	int vectors;

	if (!x || e->vl == 1)
		return;
	vectors = HT_E_LINE / (e->vl * (int)ht_dtype_info(x->dtype)->bytes);
	ht_e_first_copy(e, 0, e->outer);
	do {
		if (vectors <= 1 || e->off[e->s->vec] % vectors == 0)
			fetch_new(e, x, 0, last_read(e, &e->info[x->a]));
	} while (ht_e_next_copy(e, 0, e->outer));
}
