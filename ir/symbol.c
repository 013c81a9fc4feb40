/* Sizes that are not numbers: dimensions of the graph's table, of which each is a name or a multiple of
 * one. */
#include "ir/ir.h"

#include <string.h>

static const struct ht_sym *symbol(const struct ht_graph *g, int64_t dim)
{
	return &g->syms[-2 - dim];
}

struct ht_multiple ht_dim_multiple(const struct ht_graph *g, int64_t dim)
{
	struct ht_multiple m = { HT_DIM_UNKNOWN, 1 };

	if (dim >= 0)
		return (struct ht_multiple){ 1, dim };
	if (dim == HT_DIM_UNKNOWN || (size_t)(-2 - dim) >= g->sym_count)
		return m;
	switch (symbol(g, dim)->op) {
	case HT_SYM_NAME:
		m.of = dim;
		break;
	case HT_SYM_MUL: /* as ht_dim_product() writes it */
		m = ht_dim_multiple(g, symbol(g, dim)->a);
		if (symbol(g, dim)->b < 0 ||
			__builtin_mul_overflow(m.factor, symbol(g, dim)->b, &m.factor))
			m.of = HT_DIM_UNKNOWN;
		break;
	default:
		break;
	}
	return m;
}

static int64_t add_symbol(struct ht_graph *g, struct ht_sym s)
{
	for (size_t i = 0; i < g->sym_count; i++)
		if (g->syms[i].op == s.op && g->syms[i].a == s.a && g->syms[i].b == s.b &&
			ht_str_eq(g->syms[i].name, s.name))
			return -2 - (int64_t)i;
	g->syms = ht_grow(g->arena, g->syms, g->sym_count, &g->sym_cap, sizeof *g->syms);
	g->syms[g->sym_count++] = s;
	return -1 - (int64_t)g->sym_count;
}

int64_t ht_dim_named(struct ht_graph *g, struct ht_str name)
{
	return add_symbol(
		g, (struct ht_sym){
			   .op = HT_SYM_NAME, .name = ht_str_copy(g->arena, name), .bound = -1 });
}

int64_t ht_dim_of_multiple(struct ht_graph *g, struct ht_multiple m)
{
	if (m.of == HT_DIM_UNKNOWN || m.factor < 0)
		return HT_DIM_UNKNOWN;
	if (m.of == 1 || m.factor == 0)
		return m.factor;
	if (m.factor == 1)
		return m.of;
	return add_symbol(
		g, (struct ht_sym){ .op = HT_SYM_MUL, .a = m.of, .b = m.factor, .bound = -1 });
}

struct ht_multiple ht_multiple_product(struct ht_multiple a, struct ht_multiple b)
{
	struct ht_multiple r = { a.of == 1 ? b.of : a.of, 1 };

	if ((a.of != 1 && b.of != 1) || __builtin_mul_overflow(a.factor, b.factor, &r.factor))
		r.of = HT_DIM_UNKNOWN;
	return r;
}

struct ht_multiple ht_multiple_quotient(struct ht_multiple a, struct ht_multiple b)
{
	struct ht_multiple r = { b.of == 1 ? a.of : 1, 1 };

	if ((b.of != 1 && b.of != a.of) || b.factor < 1 || a.of == HT_DIM_UNKNOWN ||
		a.factor % b.factor)
		r.of = HT_DIM_UNKNOWN;
	else
		r.factor = a.factor / b.factor;
	return r;
}
