/* Loops, and the levels of a stage: each dimension in copies, with a remainder at its end. */
#include "backend/emit.h"

void ht_e_loop_begin(struct ht_e *e, struct ht_e_loop *l, LLVMValueRef begin, LLVMValueRef end,
	int64_t step, const char *name)
{
	LLVMValueRef some = LLVMBuildICmp(e->b, LLVMIntSLT, begin, end, "");

	l->pre = LLVMGetInsertBlock(e->b);
	l->body = ht_e_block(e, name);
	l->exit = ht_e_block(e, "");
	l->end = end;
	l->step = step;
	if (LLVMIsAConstantInt(some) && LLVMConstIntGetZExtValue(some))
		LLVMBuildBr(e->b, l->body);
	else
		LLVMBuildCondBr(e->b, some, l->body, l->exit);
	LLVMPositionBuilderAtEnd(e->b, l->body);
	l->index = LLVMBuildPhi(e->b, e->i64, name);
	LLVMAddIncoming(l->index, &begin, &l->pre, 1);
}

void ht_e_loop_end(struct ht_e *e, struct ht_e_loop *l)
{
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	LLVMValueRef next = LLVMBuildNSWAdd(e->b, l->index, ht_e_i64(e, l->step), "");

	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, l->end, ""), l->body, l->exit);
	LLVMAddIncoming(l->index, &next, &latch, 1);
	LLVMMoveBasicBlockAfter(l->exit, latch);
	LLVMPositionBuilderAtEnd(e->b, l->exit);
}

/* times * (factor * the sizes + add) */
static LLVMValueRef sum_of(struct ht_e *e, const struct ht_size_expr *x, int64_t times)
{
	LLVMValueRef n = e->param[x->size[0] - 1];

	n = LLVMBuildNSWMul(e->b, n, ht_e_i64(e, times * x->factor), "");
	for (int i = 1; i < HT_SIZE_FACTORS && x->size[i]; i++)
		n = LLVMBuildNSWMul(e->b, n, e->param[x->size[i] - 1], "");
	return LLVMBuildNSWAdd(e->b, n, ht_e_i64(e, times * x->add), "");
}

LLVMValueRef ht_e_cut(struct ht_e *e, const struct ht_cut *c)
{
	const struct ht_size_expr *x = &c->end;
	LLVMValueRef n = sum_of(e, x, x->divisor == 1 ? x->times : 1);
	int64_t common;

	if (x->divisor == 1)
		return n;
	if (x->times > 1) { /* rounding up may exceed the run */
		LLVMValueRef rest = LLVMBuildURem(e->b, n, ht_e_i64(e, x->divisor), "");

		n = LLVMBuildNSWSub(e->b, n, rest, "");
		n = ht_e_smin(e, n, ht_e_i64(e, c->run * x->divisor / x->times));
	}
	common = x->times % x->divisor == 0   ? x->divisor
		 : x->divisor % x->times == 0 ? x->times
					      : 1;
	n = LLVMBuildNSWMul(e->b, n, ht_e_i64(e, x->times / common), "");
	return LLVMBuildUDiv(e->b, n, ht_e_i64(e, x->divisor / common), "");
}

/* ht_cut_end() for one cut of dimension `d`. */
static LLVMValueRef cut_end(
	struct ht_e *e, const struct ht_dim *d, const struct ht_cut *c, LLVMValueRef end)
{
	LLVMValueRef at = ht_e_cut(e, c), last;
	int64_t run = c->run < d->extent ? c->run : d->extent;

	if (run < d->extent) {
		last = LLVMBuildNSWSub(e->b, end, ht_e_i64(e, 1), "");
		last = LLVMBuildNSWSub(
			e->b, last, LLVMBuildURem(e->b, last, ht_e_i64(e, run), ""), "");
		at = LLVMBuildNSWAdd(e->b, last, at, "");
	}
	return ht_e_smin(e, end, at);
}

/* Whether the indices of an exact end that remain behind whole blocks of copies are in blocks of powers of two.  They are rows of a
 * contraction or results of a window, so a block of fewer takes less time than as many single ones.  Where the least run has many blocks
 * of rows, that saves less time than it costs code. */
static bool has_short_blocks(const struct ht_e *e, int dim)
{
	enum { FEW_BLOCKS = 8 };
	const struct ht_dim *d = &e->s->dim[dim];

	if (!d->cut[0].run || d->reduce || e->max_copies[dim] == 1)
		return false;
	if (e->s->kind == HT_STAGE_CONTRACT)
		return dim == e->s->contract.m && !e->matrix &&
		       d->least <= FEW_BLOCKS * e->max_copies[dim];
	return dim != e->s->vec && e->s->reds > 0;
}

/* Whether a loop ends after a whole step of all copies or lanes, so that its remainder is the same as without cuts.  Others end exactly
 * at their cuts (struct ht_cut). */
static bool ends_in_steps(const struct ht_e *e, int dim)
{
	const struct ht_stage *s = e->s;

	if (s->kind == HT_STAGE_CONTRACT)
		return dim == s->contract.n;
	return dim == s->vec && !s->dim[dim].reduce;
}

/* Reduces the number of indices of a dimension by those that its cuts permit to skip. */
static void cut(struct ht_e *e, int dim, LLVMValueRef begin, LLVMValueRef *count)
{
	const struct ht_dim *d = &e->s->dim[dim];
	int64_t step = (int64_t)e->max_copies[dim] * (dim == e->s->vec ? e->lanes : 1);
	LLVMValueRef end = LLVMBuildNSWAdd(e->b, begin, *count, ""), n;

	for (int c = 0; c < HT_CUTS && d->cut[c].run; c++)
		end = cut_end(e, d, &d->cut[c], end);
	n = ht_e_smax(e, LLVMBuildNSWSub(e->b, end, begin, ""), ht_e_i64(e, 0));
	if (step > 1 && ends_in_steps(e, dim)) {
		HT_CHECK(step <= ht_cut_slack(e->s, dim) + 1);
		n = LLVMBuildNSWAdd(e->b, n, ht_e_i64(e, step - 1), "");
		n = LLVMBuildNSWSub(e->b, n, LLVMBuildURem(e->b, n, ht_e_i64(e, step), ""), "");
		n = ht_e_smin(e, n, *count);
	}
	*count = n;
}

static void whole_extent(struct ht_e *e, int dim, LLVMValueRef *begin, LLVMValueRef *count)
{
	const struct ht_dim *d = &e->s->dim[dim];

	if (d->grid < 0) {
		*begin = ht_e_i64(e, 0);
		*count = ht_e_i64(e, d->extent);
		return;
	}
	if (e->k->grid[d->grid] == 1) {
		*begin = ht_e_i64(e, 0);
		*count = ht_e_i64(e, d->extent < d->step ? d->extent : d->step);
		return;
	}
	*begin = LLVMBuildNSWMul(e->b, e->grid[d->grid], ht_e_i64(e, d->step), "");
	*count = ht_e_i64(e, d->step);
	if (d->step * e->k->grid[d->grid] > d->extent)
		*count = ht_e_smin(
			e, *count, LLVMBuildNSWSub(e->b, ht_e_i64(e, d->extent), *begin, ""));
}

void ht_e_extent(struct ht_e *e, int dim, LLVMValueRef *begin, LLVMValueRef *count)
{
	whole_extent(e, dim, begin, count);
	if (e->s->dim[dim].cut[0].run)
		cut(e, dim, *begin, count);
}

void ht_e_enter(struct ht_e *e, int level, LLVMValueRef index, int copies, int64_t lo, int64_t hi,
	LLVMBasicBlockRef pre)
{
	struct ht_e_level *l = &e->level[level];

	l->index = index;
	l->copies = copies;
	l->stride = l->dim == e->s->vec ? e->vl : 1;
	l->lo = lo;
	l->hi = hi;
	l->exact = LLVMIsAConstantInt(index) != NULL;
	l->pre = pre;
	e->off[l->dim] = 0;
	e->open = level + 1;
}

void ht_e_leave(struct ht_e *e, int level)
{
	ht_e_forget(e, level);
	e->level[level].pre = NULL;
	e->off[e->level[level].dim] = 0;
	e->open = level;
}

void ht_e_first_copy(struct ht_e *e, int from, int to)
{
	for (int l = from; l < to; l++)
		e->off[e->level[l].dim] = 0;
}

bool ht_e_next_copy(struct ht_e *e, int from, int to)
{
	for (int l = to - 1; l >= from; l--) {
		if (++e->off[e->level[l].dim] < e->level[l].copies)
			return true;
		e->off[e->level[l].dim] = 0;
	}
	return false;
}

/* Sets the mask of the last copy along vec: the lanes inside of the range. */
static void set_mask(struct ht_e *e, LLVMValueRef index, LLVMValueRef end, int copies)
{
	LLVMValueRef n, past = LLVMBuildNSWSub(e->b, end, index, "");

	e->rem = LLVMBuildNSWSub(e->b, past, ht_e_i64(e, (int64_t)(copies - 1) * e->vl), "");
	n = LLVMBuildTrunc(e->b, e->rem, e->i32, "");
	e->mask = LLVMBuildICmp(
		e->b, LLVMIntSGT, ht_e_splat(e, n, e->vl), ht_e_iota(e, e->i32, 1, e->vl), "");
	e->mask_copy = copies - 1;
}

static void run_body(struct ht_e *e, int level, int end, ht_e_leaf *leaf, const struct ht_e_run *r,
	LLVMValueRef index, LLVMValueRef last)
{
	if (r->masked)
		set_mask(e, index, last, r->copies);
	ht_e_nest(e, level + 1, end, leaf);
	if (r->masked)
		e->mask = e->rem = NULL;
}

/* The loop of a long sum, in runs. */
static void loop_of_runs(struct ht_e *e, int level, int end, ht_e_leaf *leaf,
	const struct ht_e_run *r, LLVMValueRef last)
{
	int64_t step = r->step * e->runs.rounds;
	struct ht_e_loop runs, loop;
	LLVMValueRef to;

	ht_e_loop_begin(e, &runs, r->begin, last, step, "run");
	to = LLVMBuildNSWAdd(e->b, runs.index, ht_e_i64(e, step), "");
	ht_e_loop_begin(e, &loop, runs.index, ht_e_smin(e, to, last), r->step, "d");
	ht_e_enter(e, level, loop.index, r->copies, r->lo, r->hi, runs.pre);
	run_body(e, level, end, leaf, r, loop.index, last);
	ht_e_leave(e, level);
	ht_e_loop_end(e, &loop);
	ht_e_end_run(e);
	ht_e_loop_end(e, &runs);
}

/* Whether runs end in a loop over `n` indices (-1: unknown).  The remainder behind whole vectors
 * is too short for that. */
static bool ends_runs(const struct ht_e *e, int level, const struct ht_e_run *r, int64_t n)
{
	bool remains = e->level[level].dim == e->s->vec && e->vl < e->lanes;

	return e->reducer && level == e->runs.level && !remains &&
	       (n < 0 || n > r->step * e->runs.rounds);
}

void ht_e_run(struct ht_e *e, int level, int end, ht_e_leaf *leaf, const struct ht_e_run *given)
{
	struct ht_e_run own = *given, *r = &own;
	struct ht_e_loop loop;
	LLVMValueRef last;
	int64_t n, b;

	if (!ht_e_const_i64(r->count, &n))
		n = -1;
	else if (n <= 0)
		return;
	last = LLVMBuildNSWAdd(e->b, r->begin, r->count, "");
	if (n > 0 && ht_e_const_i64(r->begin, &b)) {
		r->lo = b;
		r->hi = b + n - 1;
	}
	if (n > 0 && n <= r->step) {
		ht_e_enter(e, level, r->begin, r->copies, r->lo, r->hi, NULL);
		run_body(e, level, end, leaf, r, r->begin, last);
		ht_e_leave(e, level);
		return;
	}
	if (ends_runs(e, level, r, n)) {
		loop_of_runs(e, level, end, leaf, r, last);
		return;
	}
	ht_e_loop_begin(e, &loop, r->begin, last, r->step, "d");
	ht_e_enter(e, level, loop.index, r->copies, r->lo, r->hi, loop.pre);
	run_body(e, level, end, leaf, r, loop.index, last);
	ht_e_leave(e, level);
	ht_e_loop_end(e, &loop);
}

/* count rounded down to a multiple of step */
static LLVMValueRef whole(struct ht_e *e, LLVMValueRef count, int64_t step)
{
	LLVMValueRef n = ht_e_smax(e, count, ht_e_i64(e, 0));

	return LLVMBuildSub(e->b, n, LLVMBuildURem(e->b, n, ht_e_i64(e, step), ""), "");
}

static void advance(struct ht_e *e, struct ht_e_run *r, LLVMValueRef total, LLVMValueRef *left)
{
	r->begin = LLVMBuildAdd(e->b, r->begin, r->count, "");
	*left = LLVMBuildSub(e->b, total, r->count, "");
}

/* The remainder of dimension vec with masked lanes: whole vectors and the masked one are
 * unrolled together if their number is known (`known`, if there is a remainder; 0: unknown). */
static void rest_masked(struct ht_e *e, int level, int end, ht_e_leaf *leaf, struct ht_e_run r,
	LLVMValueRef left, int64_t known)
{
	int64_t n = known;

	r.count = left;
	r.step = e->vl;
	r.copies = 1;
	r.masked = true;
	if (n > 0 || (ht_e_const_i64(left, &n) && n > 0)) {
		r.copies = (int)((n + e->vl - 1) / e->vl);
		r.step = (int64_t)r.copies * e->vl;
		r.masked = n % e->vl != 0;
	}
	ht_e_run(e, level, end, leaf, &r);
}

static void rest_scalar(struct ht_e *e, int level, int end, ht_e_leaf *leaf, struct ht_e_run r,
	LLVMValueRef left, int copies)
{
	if (copies > 1) {
		r.count = whole(e, left, e->vl);
		r.step = e->vl;
		r.copies = 1;
		ht_e_run(e, level, end, leaf, &r);
		advance(e, &r, left, &left);
	}
	e->vl = 1;
	r.count = left;
	r.step = 1;
	r.copies = 1;
	ht_e_run(e, level, end, leaf, &r);
	e->vl = e->lanes;
}

/* The remainder after steps of `step` over a whole dimension, if it is the same in every tile
 * that has one; -1 if it may differ. */
static int64_t whole_rest(const struct ht_e *e, int dim, int64_t step, int64_t lo, int64_t hi)
{
	const struct ht_dim *d = &e->s->dim[dim];

	if (d->reduce || lo != 0 || hi != d->extent - 1 ||
		(d->cut[0].run && !ends_in_steps(e, dim)))
		return -1;
	if (d->grid >= 0 && d->step % step != 0)
		return d->cut[0].run && d->extent % d->step == 0 ? d->step % step : -1;
	return d->extent % step;
}

/* Fewer than `copies` indices, in blocks of powers of two.  from: where a tile's indices begin of which these are the last ones, or NULL. */
static void rest_of_rows(struct ht_e *e, int level, int end, ht_e_leaf *leaf, struct ht_e_run r,
	LLVMValueRef left, int copies, LLVMValueRef from)
{
	int rows = 1;

	while (2 * rows < copies)
		rows *= 2;
	if (from)
		e->short_alone = LLVMBuildICmp(e->b, LLVMIntEQ, r.begin, from, "");
	for (; rows > 0; rows /= 2) {
		r.count = whole(e, left, rows);
		r.step = r.copies = rows;
		ht_e_run(e, level, end, leaf, &r);
		advance(e, &r, left, &left);
	}
	e->short_alone = NULL;
}

/* Whether few rows of a register tile take about as long as many: those of vectors of columns.  A matrix unit's do not. */
static bool has_register_tile(const struct ht_e *e, int dim)
{
	return e->s->kind == HT_STAGE_CONTRACT && dim == e->s->contract.m && !e->matrix;
}

/* A block with a third of the rows of a whole one, or fewer, has too few sums to keep the multiply-add units busy.  If such a block would
 * remain, its rows and those of the last whole block are divided evenly: 32 rows are four blocks of six and two of four.  False: no such block
 * remains, or the number of rows is not known. */
static bool runs_even_blocks(
	struct ht_e *e, int level, int end, ht_e_leaf *leaf, struct ht_e_run r, LLVMValueRef total)
{
	const int copies = r.copies;
	LLVMValueRef left;
	int64_t n, rest;

	if (!has_register_tile(e, e->level[level].dim) || !ht_e_const_i64(total, &n) || n < copies)
		return false;
	rest = n % copies;
	if (!rest || rest > copies / 3 || (copies + rest) % 2)
		return false;
	r.count = ht_e_i64(e, n - rest - copies);
	ht_e_run(e, level, end, leaf, &r);
	advance(e, &r, total, &left);
	r.count = left;
	r.step = r.copies = (int)(copies + rest) / 2;
	ht_e_run(e, level, end, leaf, &r);
	return true;
}

/* Where the number of rows is a size of the run, the rows behind whole blocks run in blocks of powers of two.  If the last whole block and what
 * is behind it are two blocks of the largest such power, the whole block is given up for these.  Returns its number of rows then, else 0. */
static LLVMValueRef lent_rows(struct ht_e *e, LLVMValueRef total, int copies)
{
	int rows = 1;
	LLVMValueRef rest, lends;

	while (2 * rows < copies)
		rows *= 2;
	if (copies % rows == 0)
		return ht_e_i64(e, 0);
	rest = LLVMBuildURem(e->b, total, ht_e_i64(e, copies), "");
	lends = LLVMBuildICmp(e->b, LLVMIntEQ, rest, ht_e_i64(e, rows - copies % rows), "");
	lends = LLVMBuildAnd(
		e->b, lends, LLVMBuildICmp(e->b, LLVMIntSGE, total, ht_e_i64(e, copies), ""), "");
	return ht_e_select(e, lends, ht_e_i64(e, copies), ht_e_i64(e, 0));
}

/* Fewer rows of a matrix unit than a block of `copies` has: one block, whose last tile has as many rows as there are. */
static void rest_of_tiles(struct ht_e *e, int level, int end, ht_e_leaf *leaf, struct ht_e_run r,
	LLVMValueRef left, int copies)
{
	const int tile = e->t->matrix_rows;
	LLVMValueRef more;

	if (copies > tile) {
		more = LLVMBuildICmp(e->b, LLVMIntSGT, left, ht_e_i64(e, tile), "");
		e->matrix->left = left;
		r.count = ht_e_select(e, more, left, ht_e_i64(e, 0));
		r.step = r.copies = copies;
		ht_e_run(e, level, end, leaf, &r);
		advance(e, &r, left, &left);
		copies = tile;
	}
	e->matrix->left = left;
	r.count = left;
	r.step = r.copies = copies;
	ht_e_run(e, level, end, leaf, &r);
	e->matrix->left = NULL;
}

/* A part of a dimension: `count` indices from `begin`, with inclusive bounds.  `of_run`: where it ends depends on sizes of the run. */
struct part {
	LLVMValueRef begin, count;
	int64_t lo, hi;
	bool of_run;
};

/* Whether the part is all that a tile has of the dimension. */
static bool is_whole(const struct ht_e *e, int dim, const struct part *p)
{
	return !p->of_run && p->lo == 0 && p->hi == e->s->dim[dim].extent - 1;
}

static void range(struct ht_e *e, int level, int end, ht_e_leaf *leaf, const struct part *p)
{
	int dim = e->level[level].dim, copies = e->max_copies[dim];
	int64_t lanes = dim == e->s->vec ? e->lanes : 1;
	struct ht_e_run r = { p->begin, p->count, copies * lanes, p->lo, p->hi, copies, false };
	const bool shorter = has_short_blocks(e, dim);
	int64_t known = shorter || p->of_run ? -1 : whole_rest(e, dim, r.step, p->lo, p->hi);
	const bool tiles = e->matrix && dim == e->s->contract.m && e->s->dim[dim].cut[0].run;
	LLVMValueRef left;

	if (tiles && p->hi - p->lo < copies) { /* one block, of as many rows as there are */
		rest_of_tiles(e, level, end, leaf, r, p->count, copies);
		return;
	}
	if (known != 0 && runs_even_blocks(e, level, end, leaf, r, p->count))
		return;
	r.count = whole(e, p->count, r.step);
	if (shorter)
		r.count = LLVMBuildSub(e->b, r.count, lent_rows(e, p->count, copies), "");
	ht_e_run(e, level, end, leaf, &r);
	if (r.step == 1 || known == 0)
		return;
	known = known < 0 ? 0 : known;
	advance(e, &r, p->count, &left);
	if (dim == e->s->vec && e->lanes > 1) {
		if (e->t->masks)
			rest_masked(e, level, end, leaf, r, left, known);
		else
			rest_scalar(e, level, end, leaf, r, left, copies);
		return;
	}
	if (shorter) {
		rest_of_rows(e, level, end, leaf, r, left, copies,
			is_whole(e, dim, p) ? p->begin : NULL);
		return;
	}
	if (tiles) {
		rest_of_tiles(e, level, end, leaf, r, left, copies);
		return;
	}
	r.count = left;
	r.step = r.copies = 1;
	if (known > 0 || (ht_e_const_i64(left, &known) && known > 0))
		r.step = r.copies = (int)known;
	ht_e_run(e, level, end, leaf, &r);
}

/* The indices from `from` to before `to` one by one. */
static void border(struct ht_e *e, int level, int end, ht_e_leaf *leaf, const struct part *p,
	LLVMValueRef from, LLVMValueRef to)
{
	const struct ht_e_run r = { from, LLVMBuildNSWSub(e->b, to, from, ""), 1, p->lo, p->hi, 1,
		false };

	if (from != to)
		ht_e_run(e, level, end, leaf, &r);
}

/* A part of a dimension: its interior without the guards that depend on sizes of the run, and the few indices around it with them. */
static void bordered(struct ht_e *e, int level, int end, ht_e_leaf *leaf, const struct part *p)
{
	uint8_t *set = HT_NEW_ARRAY(e->arena, uint8_t, (size_t)e->s->xs + 1);
	LLVMValueRef last = LLVMBuildNSWAdd(e->b, p->begin, p->count, ""), to = last;
	struct part inner = *p;

	if (e->s->dim[e->level[level].dim].reduce ||
		!ht_e_inner(e, e->level[level].dim, &inner.begin, &to, set)) {
		range(e, level, end, leaf, p);
		return;
	}
	inner.count = LLVMBuildNSWSub(e->b, to, inner.begin, "");
	inner.of_run = true;
	border(e, level, end, leaf, p, p->begin, inner.begin);
	for (int32_t i = 0; i < e->s->xs; i++)
		e->assumed[i] = e->assumed[i] || set[i];
	range(e, level, end, leaf, &inner);
	for (int32_t i = 0; i < e->s->xs; i++)
		e->assumed[i] = e->assumed[i] && !set[i];
	border(e, level, end, leaf, p, to, last);
}

/* The part of [begin, begin + count) inside of [lo, hi). */
static void segment(struct ht_e *e, int level, int end, ht_e_leaf *leaf, LLVMValueRef begin,
	LLVMValueRef count, int64_t lo, int64_t hi)
{
	LLVMValueRef last = LLVMBuildNSWAdd(e->b, begin, count, "");
	LLVMValueRef from = ht_e_smax(e, begin, ht_e_i64(e, lo));
	LLVMValueRef to = ht_e_smin(e, last, ht_e_i64(e, hi));
	const struct part p = { from, LLVMBuildNSWSub(e->b, to, from, ""), lo, hi - 1, false };

	bordered(e, level, end, leaf, &p);
}

void ht_e_nest(struct ht_e *e, int level, int end, ht_e_leaf *leaf)
{
	int64_t split[HT_E_MAX_SPLITS], from = 0, extent;
	LLVMValueRef begin, count;
	uint8_t *set;
	int dim, n;

	if (level == end) {
		leaf(e);
		return;
	}
	dim = e->level[level].dim;
	extent = e->s->dim[dim].extent;
	ht_e_extent(e, dim, &begin, &count);
	if (e->s->dim[dim].reduce && dim != e->s->vec && e->max_copies[dim] == 1) {
		set = HT_NEW_ARRAY(e->arena, uint8_t, (size_t)e->s->xs + 1);
		ht_e_clip(e, dim, &begin, &count, set);
		range(e, level, end, leaf, &(struct part){ begin, count, 0, extent - 1, false });
		for (int32_t i = 0; i < e->s->xs; i++)
			e->assumed[i] = e->assumed[i] && !set[i];
		return;
	}
	n = e->s->dim[dim].reduce ? 0 : ht_e_splits(e, dim, split);
	if (n == 0) {
		bordered(e, level, end, leaf, &(struct part){ begin, count, 0, extent - 1, false });
		return;
	}
	for (int i = 0; i <= n; i++) {
		segment(e, level, end, leaf, begin, count, from, i < n ? split[i] : extent);
		from = i < n ? split[i] : extent;
	}
}
