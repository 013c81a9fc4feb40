/* text: prints the canonical text of a kernel: two kernels are equal if and only if their texts
 * are.  Floats are printed as bits.  Expressions keep the order in which they were built. */
#include "base/size_math.h"
#include "kernel/eval.h"
#include "kernel/kernel.h"

#include <inttypes.h>

static const char *const buffer_kind[] = {
	[HT_BUFFER_IN] = "in", [HT_BUFFER_OUT] = "out", [HT_BUFFER_LOCAL] = "local"
};
static const char *const red_name[] = { [HT_RED_ADD] = "add",
	[HT_RED_MUL] = "mul",
	[HT_RED_MIN] = "min",
	[HT_RED_MAX] = "max",
	[HT_RED_AND] = "and",
	[HT_RED_OR] = "or",
	[HT_RED_ARGMIN] = "argmin",
	[HT_RED_ARGMAX] = "argmax" };

static const char *tag(enum ht_dtype t)
{
	return ht_dtype_info(t)->tag;
}

/* The text before a number, and the number. */
static void put_number(struct ht_buf *out, const char *before, int64_t v)
{
	ht_puts(out, before);
	ht_put_int(out, v);
}

static void print_parameter(const void *unused, int32_t number, struct ht_buf *out)
{
	(void)unused;
	put_number(out, "p", number);
}

static void print_dims(const struct ht_stage *s, struct ht_buf *out)
{
	for (int i = 0; i < s->dims; i++) {
		const struct ht_dim *d = &s->dim[i];

		ht_printf(out, "    dim d%d %s%" PRId64, i, d->reduce ? "reduce " : "", d->extent);
		if (d->grid >= 0)
			ht_printf(out, " grid %d step %" PRId64, d->grid, d->step);
		if (d->unroll > 1)
			ht_printf(out, " unroll %d", d->unroll);
		if (s->vec == i)
			ht_puts(out, " lanes");
		for (int c = 0; c < HT_CUTS && d->cut[c].run; c++) {
			ht_puts(out, " to ");
			ht_size_print(&d->cut[c].end, print_parameter, NULL, out);
			put_number(out, " of ", d->cut[c].run);
		}
		if (d->least)
			put_number(out, " from ", d->least);
		ht_putc(out, '\n');
	}
}

static void print_imm(const struct ht_x *x, struct ht_buf *out)
{
	if (x->op == HT_X_CONST && ht_is_float(x->dtype))
		ht_printf(out, " 0x%" PRIx64, (uint64_t)x->imm);
	else if (x->op == HT_X_DIM)
		put_number(out, " d", x->imm);
	else if (x->op == HT_X_LOAD)
		put_number(out, " b", x->imm);
	else if (x->op == HT_X_CONST || x->op == HT_X_GRID || x->op == HT_X_PARAM ||
		 x->op == HT_X_RED)
		put_number(out, " ", x->imm);
}

/* Prints an expression; these are most of a kernel's text. */
static void print_x(const struct ht_x *x, int32_t i, struct ht_buf *out)
{
	const int32_t arg[3] = { x->a, x->b, x->c };

	put_number(out, "    %", i);
	ht_puts(out, " = ");
	ht_puts(out, ht_xop_name(x->op));
	print_imm(x, out);
	for (int k = 0; k < ht_x_operands(x->op); k++)
		if (arg[k] >= 0)
			put_number(out, " %", arg[k]);
	if (x->op == HT_X_CHECK)
		put_number(out, " fault ", x->imm);
	ht_puts(out, " : ");
	ht_puts(out, tag(x->dtype));
	ht_putc(out, '\n');
}

static void print_contract(const struct ht_stage *s, struct ht_buf *out)
{
	const struct ht_contract *c = &s->contract;

	ht_printf(
		out, "    rows d%d columns d%d a b%d row %%%d", c->m, c->n, c->a_buffer, c->a_row);
	if (c->a_guard >= 0)
		ht_printf(out, " if %%%d", c->a_guard);
	ht_printf(out, " step %" PRId64 " b b%d base %%%d nr %d kp %d", c->a_step, c->b_buffer,
		c->b_base, c->nr, c->kp);
	if (c->b_row)
		ht_printf(out, " row %" PRId64, c->b_row);
	if (c->run)
		ht_printf(out, " run %d", c->run);
	if (c->pieces)
		ht_printf(out, " pieces %d", c->pieces);
	if (c->wide_buffer)
		ht_printf(out, " wide b%d", c->wide_buffer);
	ht_printf(out, " mr %d", c->mr);
	for (int32_t i = 0; i < c->aheads; i++) {
		const struct ht_ahead *a = &c->ahead[i];

		ht_printf(out, " ahead b%d at %%%d %" PRId64 " of %" PRId64 " step %" PRId64,
			a->buffer, a->at, a->pieces, a->count, a->step);
	}
	ht_putc(out, '\n');
}

static void print_stage(const struct ht_stage *s, struct ht_buf *out)
{
	ht_printf(out, "  %s%s%s {\n", s->start ? "start " : "", s->sequential ? "sequential " : "",
		s->kind == HT_STAGE_CONTRACT ? "contract" : "loop");
	print_dims(s, out);
	for (int32_t i = 0; i < s->xs; i++)
		print_x(&s->x[i], i, out);
	if (s->kind == HT_STAGE_CONTRACT)
		print_contract(s, out);
	for (int32_t i = 0; i < s->reds; i++)
		ht_printf(out, "    red %d = %s %%%d : %s%s%s\n", i, red_name[s->red[i].op],
			s->red[i].x, tag(s->red[i].dtype), s->red[i].keep ? " kept " : "",
			s->red[i].keep ? tag(s->red[i].keep) : "");
	for (int32_t i = 0; i < s->stores; i++) {
		ht_printf(out, "    store b%d[%%%d] = %%%d", s->store[i].buffer, s->store[i].offset,
			s->store[i].value);
		if (s->store[i].guard >= 0)
			ht_printf(out, " if %%%d", s->store[i].guard);
		ht_putc(out, '\n');
	}
	ht_puts(out, "  }\n");
}

void ht_kernel_print(const struct ht_kernel *k, struct ht_buf *out)
{
	ht_puts(out, k->library ? "library " : "kernel");
	ht_puts(out, k->library ? k->library : "");
	ht_puts(out, " grid [");
	for (int i = 0; i < k->grid_dims; i++)
		ht_printf(out, "%s%" PRId64, i ? "," : "", k->grid[i]);
	ht_printf(out, "] args %d params %d", k->args, k->params);
	if (k->turns)
		ht_printf(out, " turns b%d", k->turns - 1);
	ht_puts(out, " {\n");
	for (int32_t i = 0; i < k->buffers; i++)
		ht_printf(out, "  %s b%d %s[%" PRId64 "]\n", buffer_kind[k->buffer[i].kind], i,
			tag(k->buffer[i].dtype), k->buffer[i].count);
	for (int32_t i = 0; i < k->stages; i++)
		print_stage(&k->stage[i], out);
	ht_puts(out, "}\n");
}

/* ---- lines of that text ---- */

/* The line of a part, relative to its stage. */
static int32_t line_in_stage(const struct ht_stage *s, enum ht_stage_part part, int32_t i)
{
	int32_t x = 1 + s->dims, contract = x + s->xs,
		red = contract + (s->kind == HT_STAGE_CONTRACT), store = red + s->reds;

	switch (part) {
	case HT_PART_X:
		return x + i;
	case HT_PART_CONTRACT:
		return contract;
	case HT_PART_RED:
		return red + i;
	case HT_PART_STORE:
		return store + i;
	default:
		return 0;
	}
}

static int32_t first_line(const struct ht_kernel *k, int32_t stage)
{
	int32_t line = 2 + k->buffers;

	for (int32_t i = 0; i < stage; i++)
		line += line_in_stage(&k->stage[i], HT_PART_STORE, k->stage[i].stores) + 1;
	return line;
}

int32_t ht_kernel_line(const struct ht_kernel *k, int32_t stage, enum ht_stage_part part, int32_t i)
{
	return first_line(k, stage) + line_in_stage(&k->stage[stage], part, i);
}

int32_t ht_kernel_lines(const struct ht_kernel *k)
{
	return first_line(k, k->stages);
}
