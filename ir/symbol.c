/* Sizes that are not numbers: dimensions of the graph's table, of which each is a name, or a multiple of
 * one or two. */
#include "ir/ir.h"

#include <string.h>

static const struct ht_sym *symbol(const struct ht_graph *g, int64_t dim)
{
	return &g->syms[-2 - dim];
}

struct ht_multiple ht_dim_multiple(const struct ht_graph *g, int64_t dim)
{
	struct ht_multiple m = { HT_DIM_UNKNOWN, 1, 1 };

	if (dim >= 0)
		return (struct ht_multiple){ 1, dim, 1 };
	if (dim == HT_DIM_UNKNOWN || (size_t)(-2 - dim) >= g->sym_count)
		return m;
	if (symbol(g, dim)->op == HT_SYM_MUL)
		return ht_multiple_product(ht_dim_multiple(g, symbol(g, dim)->a),
			ht_dim_multiple(g, symbol(g, dim)->b));
	m.of = dim;
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
		g, (struct ht_sym){ .op = HT_SYM_NAME, .name = ht_str_copy(g->arena, name) });
}

void ht_graph_add_size(struct ht_graph *g, struct ht_open_size size)
{
	HT_CHECK(g->sizes < HT_MOST_RUN_SIZES);
	if (!g->size)
		g->size = HT_NEW_ARRAY(g->arena, struct ht_open_size, HT_MOST_RUN_SIZES);
	g->size[g->sizes++] = size;
}

int ht_dim_sizes(const struct ht_graph *g, int64_t dim, const struct ht_open_size *of[2])
{
	struct ht_multiple m = ht_dim_multiple(g, dim);
	int n = 0;

	for (int32_t i = 0; i < g->sizes; i++)
		if (g->size[i].dim == m.of || g->size[i].dim == m.also)
			of[n++] = &g->size[i];
	return n;
}

bool ht_computes_size(const struct ht_node *n)
{
	return ht_is(n, HT_COMPUTES_SIZE) && !ht_attr_bool(n, "pad_to_max_output_size", false);
}

int32_t ht_computed_size(const struct ht_graph *g, const struct ht_node *n)
{
	for (int32_t i = 0; i < g->sizes && ht_computes_size(n); i++)
		if (ht_str_eq(g->size[i].by, n->name))
			return i + 1;
	return 0;
}

int64_t ht_dim_most(const struct ht_graph *g, int64_t dim)
{
	const struct ht_open_size *of[2];
	int64_t most = ht_dim_multiple(g, dim).factor;
	int n = ht_dim_sizes(g, dim, of);

	if (dim >= 0)
		return dim;
	for (int i = 0; i < n; i++)
		if (__builtin_mul_overflow(most, of[i]->most, &most))
			return -1;
	return n ? most : -1;
}

int64_t ht_dim_of_multiple(struct ht_graph *g, struct ht_multiple m)
{
	if (m.of == HT_DIM_UNKNOWN || m.factor < 0)
		return HT_DIM_UNKNOWN;
	if (m.of == 1 || m.factor == 0)
		return m.factor;
	if (m.also != 1)
		m.of = add_symbol(g, (struct ht_sym){ .op = HT_SYM_MUL, .a = m.of, .b = m.also });
	if (m.factor == 1)
		return m.of;
	return add_symbol(g, (struct ht_sym){ .op = HT_SYM_MUL, .a = m.of, .b = m.factor });
}

static const struct ht_multiple no_multiple = { HT_DIM_UNKNOWN, 1, 1 };

struct ht_multiple ht_multiple_product(struct ht_multiple a, struct ht_multiple b)
{
	struct ht_multiple r = { a.of == 1 ? b.of : a.of, 1, 1 };
	int64_t second = a.of == 1 ? b.also : a.also;

	if (a.of == HT_DIM_UNKNOWN || b.of == HT_DIM_UNKNOWN ||
		__builtin_mul_overflow(a.factor, b.factor, &r.factor))
		return no_multiple;
	if (a.of != 1 && b.of != 1) {
		if (a.also != 1 || b.also != 1)
			return no_multiple;
		second = b.of;
	}
	r.also = second != 1 && second > r.of ? r.of : second;
	r.of = second != 1 && second > r.of ? second : r.of;
	return r;
}

/* Takes a named dimension out; false: it is not in. */
static bool take_out(struct ht_multiple *m, int64_t of)
{
	if (of == 1)
		return true;
	if (m->also != of && m->of != of)
		return false;
	if (m->of == of)
		m->of = m->also;
	m->also = 1;
	return true;
}

struct ht_multiple ht_multiple_quotient(struct ht_multiple a, struct ht_multiple b)
{
	struct ht_multiple r = a;

	if (a.of == HT_DIM_UNKNOWN || b.of == HT_DIM_UNKNOWN || b.factor < 1 ||
		a.factor % b.factor || !take_out(&r, b.of) || !take_out(&r, b.also))
		return no_multiple;
	r.factor = a.factor / b.factor;
	return r;
}

/* ---- sizes that follow from others ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static int64_t greatest_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static int64_t derive(const struct ht_derivation *d, int64_t size)
{
	return floor_div(d->factor * size + d->add, d->divisor);
}

/* Follows a size that follows from another itself, so that equal sizes are described equally; and divides by what the factor and the
 * divisor have in common. */
static struct ht_derivation simplest(const struct ht_graph *g, struct ht_derivation d)
{
	const struct ht_derivation *of = &g->size[d.size - 1].from;
	int64_t common;

	if (of->size && d.factor == 1)
		d = (struct ht_derivation){ of->size, of->factor, of->add + d.add * of->divisor,
			of->divisor * d.divisor };
	common = greatest_divisor(d.factor, d.divisor);
	return (struct ht_derivation){ d.size, d.factor / common, floor_div(d.add, common),
		d.divisor / common };
}

static bool is_same(const struct ht_derivation *a, const struct ht_derivation *b)
{
	return a->size == b->size && a->factor == b->factor && a->add == b->add &&
	       a->divisor == b->divisor;
}

/* The symbol of a derived size, which is added unless the graph has it. */
static int64_t symbol_of(struct ht_graph *g, struct ht_derivation d)
{
	const struct ht_open_size *of = &g->size[d.size - 1];
	struct ht_open_size s = {
		.axis = -1, .least = derive(&d, of->least), .most = derive(&d, of->most), .from = d
	};

	for (int32_t i = 0; i < g->sizes; i++)
		if (is_same(&g->size[i].from, &d))
			return g->size[i].dim;
	if (s.least < 1 || s.most > INT32_MAX || g->sizes == HT_MOST_RUN_SIZES)
		return HT_DIM_UNKNOWN;
	s.dim = ht_dim_named(
		g, ht_str_printf(g->arena, "(%lld * size %d + %lld) / %lld", (long long)d.factor,
			   (int)d.size - 1, (long long)d.add, (long long)d.divisor));
	ht_graph_add_size(g, s);
	return s.dim;
}

int64_t ht_dim_derived(struct ht_graph *g, int64_t dim, int64_t add, int64_t divisor)
{
	enum { MOST_NUMBER = 1 << 20 }; /* so that no product overflows */
	struct ht_multiple m = ht_dim_multiple(g, dim);
	const struct ht_open_size *of[2];
	struct ht_derivation d;

	if (dim >= 0)
		return floor_div(dim + add, divisor);
	if (ht_dim_sizes(g, dim, of) != 1 || m.also != 1 || of[0]->by.n || m.factor < 1 ||
		m.factor > MOST_NUMBER || add > MOST_NUMBER || add < -MOST_NUMBER ||
		divisor > MOST_NUMBER)
		return HT_DIM_UNKNOWN;
	d = simplest(g,
		(struct ht_derivation){ (int32_t)(of[0] - g->size) + 1, m.factor, add, divisor });
	if (d.factor > MOST_NUMBER || d.add > INT32_MAX || d.add < INT32_MIN ||
		d.divisor > MOST_NUMBER)
		return HT_DIM_UNKNOWN;
	if (d.divisor == 1 && d.add == 0)
		return ht_dim_of_multiple(
			g, (struct ht_multiple){ g->size[d.size - 1].dim, d.factor, 1 });
	return symbol_of(g, d);
}
