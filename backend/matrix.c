/* Sums of products of pairs of BF16 by AMX.
 *
 * A block has up to 32 rows by 32 columns of sums, in four tiles of 16 rows by 16 columns.  A step in depth loads two tiles of
 * A and two of B, and multiplies each of A by each of B.  B's packed form with pairs is the form that the instruction wants.
 * Rows of A at one distance from each other are loaded from where they lie.  Other rows, as of pixels of two lines or outside of
 * the image, are copied side by side first, some steps at a time: a tile that is loaded right behind its stores waits for them.
 *
 * The four tiles of operands have one shape each, so all steps in depth must be equal.  Where no number of pairs divides the
 * depth, a block has one tile of rows, and the last step has two tiles of its own.
 *
 * Where the number of rows is a size of the run, the last block has as many rows as remain, and its last tile is configured for them.
 * Configuring takes some 200 cycles, so it is done only where the number differs from that of the block before. */
#include "backend/emit.h"

enum { ROWS = 16, PAIRS = 16, LINE = 64, MOST_COLUMNS = 4 };
/* Tile registers: sums 0 to 3, [tile of rows][column], then operands: of a block of two tiles of rows and two columns; of others,
 * for whole steps and for the last one. */
enum { A = 4, B = 6, B_LONE = 5, A_REST = 6, B_REST = 7 };
/* Steps in depth that are copied before they are multiplied, and rows whose results are stored side by side. */
enum { STEPS_COPIED = 8, ROWS_STORED = 4 };

bool ht_e_has_matrix(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;

	return e->t->matrix_bf16 && c->kp == e->t->matrix_bf16 && !c->run && c->a_step == 1 &&
	       e->k->buffer[c->a_buffer].dtype == HT_BF16 && e->vl == 16 &&
	       c->nr <= MOST_COLUMNS * e->vl;
}

static int64_t pairs_in_depth(const struct ht_e *e)
{
	return ht_ceil_div(e->s->dim[e->s->dims - 1].extent, 2);
}

static bool has_two_tiles_of_rows(const struct ht_e *e)
{
	return e->s->contract.nr <= 2 * e->vl && ht_equal_pairs(pairs_in_depth(e));
}

int ht_e_matrix_rows(const struct ht_e *e)
{
	return has_two_tiles_of_rows(e) ? 2 * ROWS : ROWS;
}

static void tile_op(struct ht_e *e, const char *name, LLVMValueRef *arg, int args)
{
	ht_e_intrinsic(e, name, NULL, arg, args);
}

static LLVMValueRef tile_number(struct ht_e *e, int i)
{
	return LLVMConstInt(e->i8, (unsigned long long)i, false);
}

/* ---- shapes of tiles ---- */

struct shape {
	int rows, bytes;
};

static int rows_of_tile(int rows, int tile)
{
	const int n = rows - tile * ROWS;

	return n > ROWS ? ROWS : n;
}

/* Of a block of so many rows, by number of register. */
static void shapes(const struct ht_e_matrix *x, int rows, struct shape shape[8])
{
	for (int r = 0; r * ROWS < rows; r++)
		for (int j = 0; j < x->columns; j++)
			shape[r * x->columns + j] = (struct shape){ rows_of_tile(rows, r), LINE };
	for (int r = 0; r * ROWS < rows; r++)
		shape[A + r] = (struct shape){ rows_of_tile(rows, r), x->pairs * 4 };
	if (x->two) {
		shape[B] = shape[B + 1] = (struct shape){ x->pairs, LINE };
		return;
	}
	shape[B_LONE] = (struct shape){ x->pairs, LINE };
	if (x->rest) {
		shape[A_REST] = (struct shape){ rows, x->rest * 4 };
		shape[B_REST] = (struct shape){ x->rest, LINE };
	}
}

/* The operand of ldtilecfg: palette 1, bytes of a row of each tile, rows of each. */
static LLVMValueRef configuration(struct ht_e *e, const struct ht_e_matrix *x, int rows)
{
	struct shape shape[8] = { { 0 } };
	char c[LINE] = { 1 };
	LLVMValueRef v, global;

	shapes(x, rows, shape);
	for (int i = 0; i < 8; i++) {
		c[16 + 2 * i] = (char)shape[i].bytes;
		c[48 + i] = (char)shape[i].rows;
	}
	v = LLVMConstStringInContext(e->c, c, LINE, true);
	global = LLVMAddGlobal(e->mod, LLVMTypeOf(v), "tiles");
	LLVMSetInitializer(global, v);
	LLVMSetGlobalConstant(global, true);
	LLVMSetLinkage(global, LLVMPrivateLinkage);
	LLVMSetAlignment(global, LINE);
	LLVMSetSection(global, ".rodata");
	return global;
}

static void configure(struct ht_e *e, const struct ht_e_matrix *x, int rows)
{
	LLVMValueRef config = configuration(e, x, rows);

	tile_op(e, "llvm.x86.ldtilecfg", &config, 1);
}

/* Likewise for a block of x->left rows, as many tiles of rows as `rows` rows have. */
static void configure_left(struct ht_e *e, struct ht_e_matrix *x, int rows)
{
	LLVMTypeRef whole = ht_e_form(e->i8, LINE);
	struct shape shape[8] = { { 0 } }, before[8] = { { 0 } };
	const int tile = (rows - 1) / ROWS;
	LLVMValueRef n = LLVMBuildNSWSub(e->b, x->left, ht_e_i64(e, (int64_t)tile * ROWS), "");

	n = LLVMBuildTrunc(e->b, n, e->i8, "");
	ht_e_store_at(e, ht_e_load_at(e, whole, configuration(e, x, rows), LINE), x->config, LINE);
	shapes(x, tile * ROWS + 1, shape);
	shapes(x, tile * ROWS + 2, before);
	for (int i = 0; i < 8; i++)
		if (shape[i].rows != before[i].rows)
			ht_e_store_at(e, n, ht_e_at(e, e->i8, x->config, ht_e_i64(e, 48 + i)), 1);
	tile_op(e, "llvm.x86.ldtilecfg", &x->config, 1);
}

/* Configures the tiles for a block of x->left rows, or of `rows`, unless they are. */
static void configure_block(struct ht_e *e, struct ht_e_matrix *x, int rows)
{
	LLVMValueRef wanted = x->left ? x->left : ht_e_i64(e, rows), now;
	LLVMBasicBlockRef yes, no;

	if (!x->configured) {
		if (rows != x->rows)
			configure(e, x, rows);
		return;
	}
	yes = ht_e_block(e, "configures");
	no = ht_e_block(e, "configured");
	now = LLVMBuildLoad2(e->b, e->i64, x->configured, "");
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, now, wanted, ""), no, yes);
	LLVMPositionBuilderAtEnd(e->b, yes);
	if (x->left)
		configure_left(e, x, rows);
	else
		configure(e, x, rows);
	LLVMBuildStore(e->b, wanted, x->configured);
	LLVMBuildBr(e->b, no);
	LLVMMoveBasicBlockAfter(no, yes);
	LLVMPositionBuilderAtEnd(e->b, no);
}

/* ---- a stage, a block ---- */

static LLVMValueRef memory(struct ht_e *e, int64_t bytes, const char *name)
{
	return ht_e_alloca(e, LLVMArrayType2(e->i8, (uint64_t)bytes), LINE, name);
}

static bool has_one_tap(const struct ht_e *e)
{
	for (int l = e->outer; l < e->levels - 1; l++)
		if (e->s->dim[e->level[l].dim].extent > 1)
			return false;
	return true;
}

void ht_e_matrix_begin(struct ht_e *e, struct ht_e_matrix *x)
{
	const struct ht_contract *c = &e->s->contract;
	const int64_t depth = pairs_in_depth(e);
	const int equal = ht_equal_pairs(depth);

	*x = (struct ht_e_matrix){ .depth = depth,
		.columns = c->nr / e->vl,
		.rows = e->max_copies[c->m],
		.two = has_two_tiles_of_rows(e),
		.one = has_one_tap(e),
		.pairs = equal ? equal : PAIRS,
		.rest = equal ? 0 : (int)(depth % PAIRS) };
	/* Where a panel fits the first level of cache, rows are loaded past it: each of their lines is read once for a panel, and would push the
	 * panel out. */
	x->past = x->one && !c->pieces && depth * c->nr * 4 <= e->t->l1;
	x->sums = memory(e, (int64_t)x->columns * ht_e_matrix_rows(e) * LINE, "sums");
	if (e->s->dim[c->m].cut[0].run) {
		x->config = memory(e, LINE, "tiles");
		x->configured = ht_e_alloca(e, e->i64, 0, "rows");
		LLVMBuildStore(e->b, ht_e_i64(e, 0), x->configured);
		return;
	}
	configure(e, x, x->rows);
}

void ht_e_matrix_end(struct ht_e *e)
{
	tile_op(e, "llvm.x86.tilerelease", NULL, 0);
}

void ht_e_matrix_zero(struct ht_e *e, struct ht_e_matrix *x, int rows)
{
	configure_block(e, x, rows);
	for (int i = 0; i < ht_ceil_div(rows, ROWS) * x->columns; i++)
		tile_op(e, "llvm.x86.tilezero", (LLVMValueRef[]){ tile_number(e, i) }, 1);
}

/* ---- products ---- */

/* Where a step finds its operands: the first row of A, how far the next one is in bytes, the lines of B. */
struct operands {
	LLVMValueRef a, distance, b;
};

/* `past`: loads without a place in the first level of cache, which is to keep other lines. */
static void load(struct ht_e *e, int tile, LLVMValueRef p, LLVMValueRef distance, bool past)
{
	tile_op(e, past ? "llvm.x86.tileloaddt164" : "llvm.x86.tileloadd64",
		(LLVMValueRef[]){ tile_number(e, tile), p, distance }, 3);
}

static void load_rows(
	struct ht_e *e, const struct ht_e_matrix *x, const struct operands *o, int tile, int from)
{
	LLVMValueRef skipped = LLVMBuildNSWMul(e->b, o->distance, ht_e_i64(e, from), "");

	load(e, tile, ht_e_at(e, e->i8, o->a, skipped), o->distance, x->past);
}

static void load_columns(struct ht_e *e, const struct operands *o, int tile, int column)
{
	LLVMValueRef line = ht_e_i64(e, e->s->contract.nr * 4LL);

	load(e, tile, ht_e_at(e, e->i8, o->b, ht_e_i64(e, (int64_t)column * LINE)), line, false);
}

static void multiply(struct ht_e *e, int sum, int a, int b)
{
	tile_op(e, "llvm.x86.tdpbf16ps",
		(LLVMValueRef[]){ tile_number(e, sum), tile_number(e, a), tile_number(e, b) }, 3);
}

static void step(
	struct ht_e *e, const struct ht_e_matrix *x, const struct operands *o, int rows, bool rest)
{
	const int a = rest ? A_REST : A;

	for (int j = 0; j < x->columns; j++) {
		const int b = x->two ? B + j : rest ? B_REST : B_LONE;

		load_columns(e, o, b, j);
		for (int r = 0; r * ROWS < rows; r++) {
			if (j == 0)
				load_rows(e, x, o, a + r, r * ROWS);
			multiply(e, r * x->columns + j, a + r, b);
		}
	}
}

/* The operands of the first step, where each has a tile register of its own. */
static void load_step(
	struct ht_e *e, const struct ht_e_matrix *x, const struct operands *o, int rows)
{
	for (int r = 0; r * ROWS < rows; r++)
		load_rows(e, x, o, A + r, r * ROWS);
	for (int j = 0; j < x->columns; j++)
		load_columns(e, o, B + j, j);
}

/* Multiplies what is loaded, and loads each operand of the next step that differs behind the last product that needs the register: a load
 * waits for the products in front of it. */
static void step_then(struct ht_e *e, const struct ht_e_matrix *x, const struct operands *next,
	int rows, bool other_rows, bool other_columns)
{
	const int tiles = (int)ht_ceil_div(rows, ROWS);

	for (int r = 0; r < tiles; r++) {
		for (int j = 0; j < x->columns; j++) {
			multiply(e, r * x->columns + j, A + r, B + j);
			if (other_rows && j == x->columns - 1)
				load_rows(e, x, next, A + r, r * ROWS);
			if (other_columns && r == tiles - 1)
				load_columns(e, next, B + j, j);
		}
	}
}

/* Multiplies what is loaded, and loads all operands of the next step; NULL: there is no next step. */
static void step_loaded(
	struct ht_e *e, const struct ht_e_matrix *x, const struct operands *next, int rows)
{
	step_then(e, x, next, rows, next, next);
}

static LLVMValueRef lines_of_b(struct ht_e *e, const struct ht_e_matrix_tap *t, LLVMValueRef k)
{
	LLVMValueRef line = ht_e_i64(e, e->s->contract.nr * 4LL);

	return ht_e_at(e, e->i8, t->b, LLVMBuildNSWMul(e->b, k, line, ""));
}

/* Pairs of the steps in front of step `number`. */
static LLVMValueRef pairs_before(struct ht_e *e, const struct ht_e_matrix *x, LLVMValueRef number)
{
	return LLVMBuildNSWMul(e->b, number, ht_e_i64(e, x->pairs), "");
}

/* ---- rows at one distance ---- */

static struct operands operands_in_place(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance, LLVMValueRef number)
{
	LLVMValueRef k = pairs_before(e, x, number);

	return (struct operands){ ht_e_at(e, e->i32, t->row[0], k), distance, lines_of_b(e, t, k) };
}

static void step_in_place(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance, LLVMValueRef number, bool rest)
{
	struct operands o = operands_in_place(e, x, t, distance, number);

	ht_e_contract_prefetch(e, pairs_before(e, x, number), x->pairs);
	step(e, x, &o, t->rows, rest);
}

/* Asks for the share of a step of the lines of results. */
static void prefetch_results(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_rows *results, int rows, LLVMValueRef step)
{
	int64_t all;

	step = ht_e_contract_step(e, step, x->depth / x->pairs, &all);
	ht_e_prefetch_rows(e, results, rows, step, all);
}

/* A tap of equal steps. */
static void equal_steps_in_place(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance)
{
	LLVMValueRef last = ht_e_i64(e, x->depth / x->pairs - 1), one = ht_e_i64(e, 1);
	struct operands o = operands_in_place(e, x, t, distance, ht_e_i64(e, 0));
	struct ht_e_rows results = { .n = 0 };
	struct ht_e_loop loop;

	ht_e_rows_begin(e, &results);
	load_step(e, x, &o, t->rows);
	ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), last, 1, "step");
	ht_e_contract_prefetch(e, pairs_before(e, x, loop.index), x->pairs);
	prefetch_results(e, x, &results, t->rows, loop.index);
	o = operands_in_place(e, x, t, distance, LLVMBuildNSWAdd(e->b, loop.index, one, ""));
	step_loaded(e, x, &o, t->rows);
	ht_e_loop_end(e, &loop);
	ht_e_contract_prefetch(e, pairs_before(e, x, last), x->pairs);
	if (!x->one)
		prefetch_results(e, x, &results, t->rows, last);
	step_loaded(e, x, NULL, t->rows);
}

/* ---- pieces ---- */

/* The products of a group: product i multiplies piece .a of a number of A by piece .b of a number of B.  The smallest products are added
 * first, and each product shares one operand with the product before it. */
struct pieces {
	int a, b;
};
static const struct pieces products_of_pieces[] = { { 2, 0 }, { 1, 0 }, { 1, 1 }, { 0, 1 },
	{ 0, 2 }, { 0, 0 } };

/* Where the product of those pieces finds its operands; `group` is the number of the first step of the group. */
static struct operands operands_of_pieces(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance, LLVMValueRef group, struct pieces p)
{
	LLVMValueRef a = LLVMBuildNSWAdd(e->b, group, ht_e_i64(e, p.a), "");
	LLVMValueRef b = LLVMBuildNSWAdd(e->b, group, ht_e_i64(e, p.b), "");
	struct operands o = operands_in_place(e, x, t, distance, a);

	o.b = lines_of_b(e, t, pairs_before(e, x, b));
	return o;
}

/* Computes the products of the group that begins at step `group`, whose first operands the caller has loaded.  Afterwards the first operands
 * of group `next` are loaded. */
static void group_of_pieces(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance, LLVMValueRef group,
	LLVMValueRef next)
{
	const int n = (int)HT_COUNT(products_of_pieces);

	for (int i = 0; i < n; i++) {
		const bool last = i == n - 1;
		const struct pieces now = products_of_pieces[i],
				    then = products_of_pieces[last ? 0 : i + 1];
		struct operands o =
			operands_of_pieces(e, x, t, distance, last ? next : group, then);

		step_then(e, x, &o, t->rows, last || now.a != then.a, last || now.b != then.b);
	}
}

/* Behind the last group its own first operands are loaded again, which costs less than code for a group that loads none. */
static void pieces_in_place(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance)
{
	const int64_t steps = x->depth / x->pairs;
	struct operands o =
		operands_of_pieces(e, x, t, distance, ht_e_i64(e, 0), products_of_pieces[0]);
	struct ht_e_loop loop;
	LLVMValueRef next;

	HT_CHECK(x->two && x->one && e->s->contract.pieces == HT_MOST_PIECES);
	load_step(e, x, &o, t->rows);
	ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), ht_e_i64(e, steps), HT_MOST_PIECES, "group");
	for (int i = 0; i < HT_MOST_PIECES; i++)
		ht_e_contract_prefetch(e,
			pairs_before(e, x, LLVMBuildNSWAdd(e->b, loop.index, ht_e_i64(e, i), "")),
			x->pairs);
	next = LLVMBuildNSWAdd(e->b, loop.index, ht_e_i64(e, HT_MOST_PIECES), "");
	next = ht_e_smin(e, next, ht_e_i64(e, steps - HT_MOST_PIECES));
	group_of_pieces(e, x, t, distance, loop.index, next);
	ht_e_loop_end(e, &loop);
}

static void tap_in_place(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef distance)
{
	LLVMValueRef steps = ht_e_i64(e, x->depth / x->pairs);
	struct ht_e_loop loop;

	if (e->s->contract.pieces) {
		pieces_in_place(e, x, t, distance);
		return;
	}
	if (x->two) {
		equal_steps_in_place(e, x, t, distance);
		return;
	}
	if (x->depth >= x->pairs) {
		ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), steps, 1, "step");
		step_in_place(e, x, t, distance, loop.index, false);
		ht_e_loop_end(e, &loop);
	}
	if (x->rest)
		step_in_place(e, x, t, distance, steps, true);
}

/* ---- rows that are copied ---- */

static int64_t copied_steps(const struct ht_e_matrix *x)
{
	return x->depth < STEPS_COPIED * x->pairs ? ht_ceil_div(x->depth, x->pairs) : STEPS_COPIED;
}

/* The numbers of a row that `pairs` from pair k on have, as a mask of 32; NULL: all. */
static LLVMValueRef numbers_of_step(struct ht_e *e, LLVMValueRef k, int pairs)
{
	const int64_t depth = e->s->dim[e->s->dims - 1].extent;
	LLVMValueRef n = ht_e_i64(e, 2LL * pairs), left;

	if (pairs == PAIRS && depth % 2 == 0)
		return NULL;
	left = LLVMBuildNSWSub(
		e->b, ht_e_i64(e, depth), LLVMBuildNSWMul(e->b, k, ht_e_i64(e, 2), ""), "");
	if (depth % 2)
		n = ht_e_smin(e, n, left);
	n = LLVMBuildTrunc(e->b, n, e->i16, "");
	return LLVMBuildICmp(e->b, LLVMIntSGT, ht_e_splat(e, n, 2 * PAIRS),
		ht_e_iota(e, e->i16, 1, 2 * PAIRS), "");
}

static void copy_step(struct ht_e *e, const struct ht_e_matrix *x, const struct ht_e_matrix_tap *t,
	LLVMValueRef number, LLVMValueRef to, bool rest)
{
	LLVMTypeRef form = ht_e_form(e->i16, 2 * PAIRS);
	LLVMValueRef k = pairs_before(e, x, number), v, p;
	LLVMValueRef mask = numbers_of_step(e, k, rest ? x->rest : x->pairs);

	for (int i = 0; i < t->rows; i++) {
		p = ht_e_at(e, e->i16, t->row[i], LLVMBuildNSWMul(e->b, k, t->step[i], ""));
		v = mask ? ht_e_load_masked(e, form, p, 2, mask, LLVMConstNull(form))
			 : ht_e_load_at(e, form, p, 2);
		p = ht_e_at(e, e->i8, to, ht_e_i64(e, i * copied_steps(x) * LINE));
		ht_e_store_at(e, v, p, LINE);
	}
}

/* Where step `number` is copied to; the first one since the last copying is `first`. */
static LLVMValueRef copy_of(
	struct ht_e *e, const struct ht_e_matrix *x, LLVMValueRef number, LLVMValueRef first)
{
	LLVMValueRef at = LLVMBuildNSWSub(e->b, number, first, "");

	return ht_e_at(e, e->i8, x->copy, LLVMBuildNSWMul(e->b, at, ht_e_i64(e, LINE), ""));
}

static void step_of_copy(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef number, LLVMValueRef from, bool rest)
{
	LLVMValueRef k = pairs_before(e, x, number);
	struct operands o = { from, ht_e_i64(e, copied_steps(x) * LINE), lines_of_b(e, t, k) };

	ht_e_contract_prefetch(e, k, x->pairs);
	step(e, x, &o, t->rows, rest);
}

/* Steps from `first` to `end`. */
static void copy_and_multiply(struct ht_e *e, const struct ht_e_matrix *x,
	const struct ht_e_matrix_tap *t, LLVMValueRef first, LLVMValueRef end)
{
	struct ht_e_loop loop;

	ht_e_loop_begin(e, &loop, first, end, 1, "copy");
	copy_step(e, x, t, loop.index, copy_of(e, x, loop.index, first), false);
	ht_e_loop_end(e, &loop);
	ht_e_loop_begin(e, &loop, first, end, 1, "step");
	step_of_copy(e, x, t, loop.index, copy_of(e, x, loop.index, first), false);
	ht_e_loop_end(e, &loop);
}

static void tap_by_copies(struct ht_e *e, struct ht_e_matrix *x, const struct ht_e_matrix_tap *t)
{
	const int64_t steps = x->depth / x->pairs;
	LLVMValueRef all = ht_e_i64(e, steps);
	struct ht_e_loop loop;

	if (!x->copy)
		x->copy = memory(e, ht_e_matrix_rows(e) * copied_steps(x) * LINE, "rows");
	if (steps > 0) {
		ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), all, STEPS_COPIED, "steps");
		copy_and_multiply(e, x, t, loop.index,
			ht_e_smin(e, all,
				LLVMBuildNSWAdd(e->b, loop.index, ht_e_i64(e, STEPS_COPIED), "")));
		ht_e_loop_end(e, &loop);
	}
	if (x->rest) {
		copy_step(e, x, t, all, x->copy, true);
		step_of_copy(e, x, t, all, x->copy, true);
	}
}

/* ---- a tap ---- */

static LLVMValueRef bytes_between(struct ht_e *e, LLVMValueRef from, LLVMValueRef to)
{
	return LLVMBuildSub(e->b, LLVMBuildPtrToInt(e->b, to, e->i64, ""),
		LLVMBuildPtrToInt(e->b, from, e->i64, ""), "");
}

/* Whether the block has row `i`. */
static LLVMValueRef is_left(struct ht_e *e, LLVMValueRef left, int i)
{
	return LLVMBuildICmp(e->b, LLVMIntSGT, left, ht_e_i64(e, i), "");
}

/* Whether each row is at this distance from the one before, and each is a row of numbers. */
static LLVMValueRef are_at(
	struct ht_e *e, const struct ht_e_matrix_tap *t, LLVMValueRef distance, LLVMValueRef left)
{
	LLVMValueRef differ = ht_e_i64(e, 0), d;

	for (int i = 0; i < t->rows; i++) {
		d = LLVMBuildXor(e->b, t->step[i], ht_e_i64(e, 2), "");
		differ = LLVMBuildOr(e->b, differ, d, "");
		if (i < 2)
			continue;
		d = LLVMBuildXor(e->b, bytes_between(e, t->row[i - 1], t->row[i]), distance, "");
		if (left)
			d = ht_e_select(e, is_left(e, left, i), d, ht_e_i64(e, 0));
		differ = LLVMBuildOr(e->b, differ, d, "");
	}
	return LLVMBuildICmp(e->b, LLVMIntEQ, differ, ht_e_i64(e, 0), "");
}

static void tap_of_either(struct ht_e *e, struct ht_e_matrix *x, const struct ht_e_matrix_tap *t)
{
	LLVMBasicBlockRef in_place = ht_e_block(e, "even"), copied = ht_e_block(e, "uneven"),
			  end = ht_e_block(e, "");
	LLVMValueRef distance =
		t->rows > 1 ? bytes_between(e, t->row[0], t->row[1]) : ht_e_i64(e, LINE);

	LLVMBuildCondBr(e->b, are_at(e, t, distance, x->left), in_place, copied);
	LLVMPositionBuilderAtEnd(e->b, in_place);
	tap_in_place(e, x, t, distance);
	LLVMBuildBr(e->b, end);
	LLVMMoveBasicBlockAfter(copied, LLVMGetInsertBlock(e->b));
	LLVMPositionBuilderAtEnd(e->b, copied);
	tap_by_copies(e, x, t);
	LLVMBuildBr(e->b, end);
	LLVMMoveBasicBlockAfter(end, LLVMGetInsertBlock(e->b));
	LLVMPositionBuilderAtEnd(e->b, end);
}

static void tap_by_address(struct ht_e *e, struct ht_e_matrix *x, const struct ht_e_matrix_tap *t)
{
	if (e->s->dim[e->s->dims - 1].extent % 2)
		tap_by_copies(e, x, t);
	else
		tap_of_either(e, x, t);
}

/* Rows behind the run's are not read: the first one is in their place. */
static void tap_of_left(struct ht_e *e, struct ht_e_matrix *x, const struct ht_e_matrix_tap *t)
{
	LLVMValueRef row[HT_E_MAX_COPIES], step[HT_E_MAX_COPIES], c;
	struct ht_e_matrix_tap of = *t;

	for (int i = 0; i < t->rows; i++) {
		c = is_left(e, x->left, i);
		row[i] = ht_e_select(e, c, t->row[i], t->row[0]);
		step[i] = ht_e_select(e, c, t->step[i], t->step[0]);
	}
	of.row = row;
	of.step = step;
	tap_by_address(e, x, &of);
}

void ht_e_matrix_tap(struct ht_e *e, struct ht_e_matrix *x, const struct ht_e_matrix_tap *t)
{
	HT_CHECK(t->distance || !e->s->contract.pieces);
	if (t->distance && e->s->dim[e->s->dims - 1].extent % 2 == 0)
		tap_in_place(e, x, t, t->distance);
	else if (x->left)
		tap_of_left(e, x, t);
	else
		tap_by_address(e, x, t);
}

/* ---- results ---- */

static void store_sums(struct ht_e *e, const struct ht_e_matrix *x, int rows)
{
	LLVMValueRef line = ht_e_i64(e, (int64_t)x->columns * LINE);

	for (int i = 0; i < ht_ceil_div(rows, ROWS) * x->columns; i++) {
		int64_t at =
			((int64_t)(i / x->columns) * ROWS * x->columns + i % x->columns) * LINE;

		tile_op(e, "llvm.x86.tilestored64",
			(LLVMValueRef[]){ tile_number(e, i),
				ht_e_at(e, e->i8, x->sums, ht_e_i64(e, at)), line },
			3);
	}
	if (rows != x->rows && !x->configured)
		configure(e, x, x->rows);
}

static LLVMValueRef sum(struct ht_e *e, const struct ht_e_matrix *x, LLVMValueRef row, int column)
{
	LLVMValueRef at = LLVMBuildNSWMul(e->b, row, ht_e_i64(e, (int64_t)x->columns * LINE), "");

	at = LLVMBuildNSWAdd(e->b, at, ht_e_i64(e, (int64_t)column * LINE), "");
	return ht_e_load_at(e, ht_e_form(e->f32, e->vl), ht_e_at(e, e->i8, x->sums, at), LINE);
}

/* Stores the results of `n` rows from `first` of the block on, whose level was `l`. */
static void store_rows(struct ht_e *e, const struct ht_e_matrix *x, const struct ht_e_level *l,
	LLVMValueRef first, int n)
{
	const struct ht_contract *c = &e->s->contract;
	const int level = e->level_of[c->m], columns = e->level[e->level_of[c->n]].copies;
	LLVMValueRef row;

	ht_e_enter(e, level, LLVMBuildNSWAdd(e->b, l->index, first, ""), n, l->lo, l->hi, l->pre);
	for (int i = 0; i < n; i++) {
		row = LLVMBuildNSWAdd(e->b, first, ht_e_i64(e, i), "");
		for (int j = 0; j < columns; j++)
			e->red[i * e->memo_stride[c->m] + j * e->memo_stride[c->n]] =
				sum(e, x, row, j);
	}
	ht_e_stores(e);
	ht_e_leave(e, level);
}

/* A loop over the rows of a block from `first` to `end`, `n` at a time. */
static void store_loop(struct ht_e *e, const struct ht_e_matrix *x, struct ht_e_level *l,
	LLVMValueRef first, LLVMValueRef end, int n)
{
	struct ht_e_loop loop;

	ht_e_loop_begin(e, &loop, first, end, n, "row");
	if (!l->pre) /* there is one block, which no loop is around */
		l->pre = loop.pre;
	store_rows(e, x, l, loop.index, n);
	ht_e_loop_end(e, &loop);
}

/* The rows are a loop again: as copies they would be several thousand instructions. */
void ht_e_matrix_store(struct ht_e *e, const struct ht_e_matrix *x, int rows)
{
	const int level = e->level_of[e->s->contract.m], whole = rows / ROWS_STORED * ROWS_STORED;
	struct ht_e_level l = e->level[level];
	LLVMValueRef done = ht_e_i64(e, 0);

	store_sums(e, x, rows);
	ht_e_leave(e, level);
	if (x->left) {
		if (whole > 0) {
			done = LLVMBuildUDiv(e->b, x->left, ht_e_i64(e, ROWS_STORED), "");
			done = LLVMBuildNSWMul(e->b, done, ht_e_i64(e, ROWS_STORED), "");
			store_loop(e, x, &l, ht_e_i64(e, 0), done, ROWS_STORED);
		}
		store_loop(e, x, &l, done, x->left, 1);
		return;
	}
	if (whole > 0)
		store_loop(e, x, &l, ht_e_i64(e, 0), ht_e_i64(e, whole), ROWS_STORED);
	if (rows > whole)
		store_rows(e, x, &l, ht_e_i64(e, whole), rows - whole);
}
