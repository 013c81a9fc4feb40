/* Sums of products of pairs of BF16 by AMX: tiles of 16 rows by 16 columns of sums, per step a tile
 * of A (16 rows of 16 pairs) times a tile of B for each vector of columns.
 *
 * B's packed form with pairs is the form that the instruction wants.  Rows of A lie anywhere, those
 * outside of the image in the zeros, so they are copied side by side first.  Rows that a block lacks
 * are whatever was copied before: they only enter sums that nobody reads. */
#include "backend/emit.h"

enum { ROWS = 16, PAIRS = 16, LINE = 64 };
/* Tile registers: sums 0 to 3, then operands of whole steps and of the last one. */
enum { A_WHOLE = 4, B_WHOLE, A_REST, B_REST };

bool ht_e_has_matrix(const struct ht_e *e)
{
	const struct ht_contract *c = &e->s->contract;

	return e->t->matrix_bf16 && c->kp == e->t->matrix_bf16 && !c->run &&
	       e->k->buffer[c->a_buffer].dtype == HT_BF16 &&
	       e->s->dim[e->s->dims - 1].extent % 2 == 0 && e->vl == 16 && c->nr <= 4 * e->vl;
}

static void tile_op(struct ht_e *e, const char *name, LLVMValueRef *arg, int args)
{
	ht_e_intrinsic(e, name, NULL, arg, args);
}

static LLVMValueRef tile_number(struct ht_e *e, int i)
{
	return LLVMConstInt(e->i8, (unsigned long long)i, false);
}

/* The operand of ldtilecfg: palette 1, bytes of a row of each tile, rows of each. */
static LLVMValueRef configuration(struct ht_e *e, int rest)
{
	char c[LINE] = { 1 };
	LLVMValueRef v, global;

	for (int i = 0; i <= B_REST; i++) {
		c[16 + 2 * i] = (char)(i == A_REST ? rest * 4 : LINE);
		c[48 + i] = (char)(i == B_REST ? rest : ROWS);
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

static LLVMValueRef memory(struct ht_e *e, int64_t bytes, const char *name)
{
	LLVMTypeRef lines = LLVMArrayType2(e->i8, (uint64_t)bytes);

	return ht_e_alloca(e, lines, LINE, name);
}

void ht_e_matrix_begin(struct ht_e *e, struct ht_e_matrix *x, int64_t depth)
{
	LLVMValueRef config = configuration(e, depth % PAIRS ? (int)(depth % PAIRS) : 1);

	x->depth = depth;
	x->columns = e->s->contract.nr / e->vl;
	x->rows = memory(e, ROWS * LINE, "rows");
	x->sums = memory(e, (int64_t)x->columns * ROWS * LINE, "sums");
	tile_op(e, "llvm.x86.ldtilecfg", &config, 1);
}

void ht_e_matrix_end(struct ht_e *e)
{
	tile_op(e, "llvm.x86.tilerelease", NULL, 0);
}

void ht_e_matrix_zero(struct ht_e *e, const struct ht_e_matrix *x)
{
	for (int j = 0; j < x->columns; j++)
		tile_op(e, "llvm.x86.tilezero", (LLVMValueRef[]){ tile_number(e, j) }, 1);
}

/* `pairs` of depth from step k on. */
static void step(struct ht_e *e, const struct ht_e_matrix *x, const struct ht_e_matrix_tap *t,
	LLVMValueRef k, int pairs)
{
	LLVMTypeRef line = ht_e_form(e->i32, pairs);
	LLVMValueRef stride = ht_e_i64(e, e->s->contract.nr * 4LL), side = ht_e_i64(e, LINE);
	int a = pairs == PAIRS ? A_WHOLE : A_REST, b = pairs == PAIRS ? B_WHOLE : B_REST;
	LLVMValueRef p;

	for (int i = 0; i < t->rows; i++) {
		p = ht_e_at(e, e->i16, t->row[i], LLVMBuildNSWMul(e->b, k, t->step[i], ""));
		ht_e_store_at(e, ht_e_load_at(e, line, p, 2),
			ht_e_at(e, e->i8, x->rows, ht_e_i64(e, (int64_t)i * LINE)), LINE);
	}
	tile_op(e, "llvm.x86.tileloadd64", (LLVMValueRef[]){ tile_number(e, a), x->rows, side }, 3);
	p = ht_e_at(e, e->i8, t->b, LLVMBuildNSWMul(e->b, k, stride, ""));
	for (int j = 0; j < x->columns; j++) {
		LLVMValueRef column = ht_e_at(e, e->i8, p, ht_e_i64(e, (int64_t)j * LINE));

		tile_op(e, "llvm.x86.tileloadd64",
			(LLVMValueRef[]){ tile_number(e, b), column, stride }, 3);
		tile_op(e, "llvm.x86.tdpbf16ps",
			(LLVMValueRef[]){ tile_number(e, j), tile_number(e, a), tile_number(e, b) },
			3);
	}
}

void ht_e_matrix_tap(struct ht_e *e, const struct ht_e_matrix *x, const struct ht_e_matrix_tap *t)
{
	int64_t whole = x->depth / PAIRS * PAIRS;
	struct ht_e_loop loop;

	if (whole > 0) {
		ht_e_loop_begin(e, &loop, ht_e_i64(e, 0), ht_e_i64(e, whole), PAIRS, "k");
		step(e, x, t, loop.index, PAIRS);
		ht_e_loop_end(e, &loop);
	}
	if (x->depth > whole)
		step(e, x, t, ht_e_i64(e, whole), (int)(x->depth - whole));
}

void ht_e_matrix_store(struct ht_e *e, const struct ht_e_matrix *x)
{
	for (int j = 0; j < x->columns; j++) {
		LLVMValueRef at = ht_e_at(e, e->i8, x->sums, ht_e_i64(e, (int64_t)j * ROWS * LINE));

		tile_op(e, "llvm.x86.tilestored64",
			(LLVMValueRef[]){ tile_number(e, j), at, ht_e_i64(e, LINE) }, 3);
	}
}

LLVMValueRef ht_e_matrix_sum(struct ht_e *e, const struct ht_e_matrix *x, int row, int column)
{
	int64_t at = ((int64_t)column * ROWS + row) * LINE;

	return ht_e_load_at(
		e, ht_e_form(e->f32, e->vl), ht_e_at(e, e->i8, x->sums, ht_e_i64(e, at)), LINE);
}
