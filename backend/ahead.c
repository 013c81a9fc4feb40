/* Memory that later tiles of a contraction read and copy, such as the next share of an image.  Their copies would wait for memory while no product
 * is computed.  So the products of the tile before ask for it, line after line, over all their steps: loads of both operands from the second
 * level need the same buffers for lines that are on their way, and lines that were asked for at once would take all of them. */
#include "backend/emit.h"

static const struct ht_ahead *part(const struct ht_e *e, int i)
{
	return &e->s->contract.ahead[i];
}

static int64_t bytes_of_element(const struct ht_e *e, int i)
{
	return (int64_t)ht_dtype_info(e->k->buffer[part(e, i)->buffer].dtype)->bytes;
}

static int64_t lines_of_piece(const struct ht_e *e, int i)
{
	return ht_ceil_div(part(e, i)->count * bytes_of_element(e, i), HT_E_LINE);
}

static int64_t pace(const struct ht_e *e, const struct ht_e_ahead *a, int i)
{
	return (part(e, i)->pieces * lines_of_piece(e, i) << HT_E_PACE) / (a->blocks * a->steps);
}

/* Parts of buffers that do not stay in the second level are asked for, unless that takes more than a few lines a step. */
static bool is_asked_for(const struct ht_e *e, const struct ht_e_ahead *a, int i)
{
	enum { MOST_LINES = 2 };

	return ht_e_bytes(&e->k->buffer[part(e, i)->buffer]) >= e->t->l2 / 4 &&
	       pace(e, a, i) <= MOST_LINES << HT_E_PACE;
}

void ht_e_ahead_begin(struct ht_e *e, struct ht_e_ahead *a, int64_t steps)
{
	const struct ht_contract *c = &e->s->contract;

	*a = (struct ht_e_ahead){ .steps = steps, .blocks = ht_e_blocks_of_tile(e) };
	if (!e->t->prefetch_panels || !steps || !a->blocks)
		return;
	a->n = c->aheads;
	for (int i = 0; i < a->n; i++) {
		const int32_t b = part(e, i)->buffer;

		if (is_asked_for(e, a, i))
			a->from[i] = ht_e_at(e, ht_e_mem_type(e, e->k->buffer[b].dtype),
				e->buffer[b], ht_e_get(e, part(e, i)->at, false));
	}
}

/* Where line `line` of a part lies. */
static LLVMValueRef address(struct ht_e *e, const struct ht_e_ahead *a, int i, LLVMValueRef line)
{
	LLVMValueRef lines = ht_e_i64(e, lines_of_piece(e, i)), piece, at;

	if (part(e, i)->pieces == 1)
		return ht_e_at(e, e->i8, a->from[i],
			LLVMBuildNSWMul(e->b, line, ht_e_i64(e, HT_E_LINE), ""));
	piece = LLVMBuildUDiv(e->b, line, lines, "");
	at = LLVMBuildNSWMul(
		e->b, piece, ht_e_i64(e, part(e, i)->step * bytes_of_element(e, i)), "");
	line = LLVMBuildNSWSub(e->b, line, LLVMBuildNSWMul(e->b, piece, lines, ""), "");
	line = LLVMBuildNSWMul(e->b, line, ht_e_i64(e, HT_E_LINE), "");
	return ht_e_at(e, e->i8, a->from[i], LLVMBuildNSWAdd(e->b, at, line, ""));
}

void ht_e_ahead(struct ht_e *e, const struct ht_e_ahead *a, LLVMValueRef done, int64_t steps)
{
	LLVMValueRef before = a->n ? ht_e_steps_before(e, a->steps, done) : NULL, line;

	for (int i = 0; i < a->n; i++) {
		const int64_t per_step = a->from[i] ? pace(e, a, i) : 0;
		const int64_t lines = ht_ceil_div(steps * per_step, (int64_t)1 << HT_E_PACE);

		if (!per_step)
			continue;
		line = LLVMBuildNSWMul(e->b, before, ht_e_i64(e, per_step), "");
		line = LLVMBuildLShr(e->b, line, ht_e_i64(e, HT_E_PACE), "");
		for (int64_t k = 0; k < lines; k++)
			ht_e_prefetch_line(e,
				address(e, a, i, LLVMBuildNSWAdd(e->b, line, ht_e_i64(e, k), "")));
	}
}
