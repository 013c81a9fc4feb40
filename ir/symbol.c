/* Symbolic dimensions: the symbols of the graph's table, and the open sizes that some of them stand
 * for.
 *
 * While a program has open sizes, the bodies of its functions use the program's table, so a
 * dimension has the same meaning on both sides of a branch or loop. */
#include "ir/ir.h"

#include <string.h>

/* The graph that has the table of `g`. */
static struct ht_graph *home(const struct ht_graph *g)
{
	struct ht_graph *library = g->library;

	return library && library->sizes && !library->closed ? library
							     : (struct ht_graph *)(uintptr_t)g;
}

static int32_t number_of(int64_t dim)
{
	return (int32_t)(-2 - dim);
}

static bool is_symbol(const struct ht_graph *g, int64_t dim)
{
	return dim < HT_DIM_UNKNOWN && (uint64_t)(-2 - dim) < home(g)->sym_count;
}

struct ht_size_expr ht_dim_product(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr *of;

	if (dim >= 0 || !is_symbol(g, dim))
		return ht_size_number(dim);
	of = &home(g)->syms[number_of(dim)].of;
	return ht_size_count(of) && ht_size_is_product(of) ? *of
							   : ht_size_multiple(1, number_of(dim));
}

static bool is_equal(const struct ht_sym *a, const struct ht_sym *b)
{
	return ht_str_eq(a->name, b->name) && ht_size_equal(a->of, b->of);
}

static int64_t add_symbol(struct ht_graph *of, struct ht_sym s)
{
	struct ht_graph *g = home(of);

	for (size_t i = 0; i < g->sym_count; i++)
		if (is_equal(&g->syms[i], &s))
			return -2 - (int64_t)i;
	g->syms = ht_grow(g->arena, g->syms, g->sym_count, &g->sym_cap, sizeof *g->syms);
	g->syms[g->sym_count++] = s;
	return -1 - (int64_t)g->sym_count;
}

int64_t ht_dim_named(struct ht_graph *g, struct ht_str name)
{
	return add_symbol(
		g, (struct ht_sym){ .name = ht_str_copy(g->arena, name), .of = HT_SIZE_NONE });
}

int64_t ht_dim_of_product(struct ht_graph *g, struct ht_size_expr e)
{
	int sizes = ht_size_count(&e);

	if (ht_size_is_none(&e) || sizes > HT_DIM_SIZES)
		return HT_DIM_UNKNOWN;
	if (!sizes)
		return e.times;
	if (sizes == 1 && e.times == 1)
		return -1 - (int64_t)e.size[0];
	return add_symbol(g, (struct ht_sym){ .of = e });
}

/* ---- open sizes ---- */

void ht_graph_add_size(struct ht_graph *g, struct ht_open_size size)
{
	HT_CHECK(g->sizes < HT_MOST_RUN_SIZES);
	if (!g->size)
		g->size = HT_NEW_ARRAY(g->arena, struct ht_open_size, HT_MOST_RUN_SIZES);
	g->size[g->sizes++] = size;
}

/* 1 + the number of the size that a symbol stands for; 0: none. */
static int32_t size_of(const struct ht_graph *of, int32_t symbol)
{
	const struct ht_graph *g = home(of);

	for (int32_t i = 0; i < g->sizes; i++)
		if (g->size[i].dim == -2 - (int64_t)symbol)
			return i + 1;
	return 0;
}

struct ht_size_expr ht_dim_of_sizes(const struct ht_graph *g, int64_t dim)
{
	struct ht_size_expr e = ht_dim_product(g, dim);

	for (int i = 0; i < ht_size_count(&e); i++) {
		e.size[i] = size_of(g, e.size[i] - 1);
		if (!e.size[i])
			return HT_SIZE_NONE;
	}
	return ht_size_canonical(e);
}

bool ht_dim_is_open(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	return ht_size_count(&e) > 0;
}

bool ht_shape_is_told(struct ht_shape s)
{
	for (int32_t i = 0; i < s.rank; i++)
		if (s.dim[i] == HT_DIM_UNKNOWN)
			return false;
	return s.rank >= 0;
}

bool ht_shape_is_open(const struct ht_graph *g, struct ht_shape s)
{
	for (int32_t i = 0; i < s.rank; i++)
		if (ht_dim_is_open(g, s.dim[i]))
			return true;
	return false;
}

int32_t ht_dim_size(const struct ht_graph *g, int64_t dim)
{
	return is_symbol(g, dim) ? size_of(g, number_of(dim)) : 0;
}

bool ht_computes_size(const struct ht_node *n)
{
	return ht_is(n, HT_COMPUTES_SIZE) && !n->fault &&
	       !ht_attr_bool(n, "pad_to_max_output_size", false);
}

const struct ht_open_size *ht_size_at(const struct ht_graph *g, int32_t size)
{
	return &home(g)->size[size - 1];
}

void ht_graph_share_sizes(struct ht_graph *to, const struct ht_graph *from)
{
	const struct ht_graph *of = home(from);

	to->syms = of->syms;
	to->sym_count = of->sym_count;
	to->size = of->size;
	to->sizes = of->sizes;
	to->closed = of->closed;
}

bool ht_stated_product(const struct ht_node *n, int64_t i, int64_t of[1 + HT_DIM_SIZES])
{
	const struct ht_attr *a = ht_attr_find(n, "of");
	const size_t each = 1 + HT_DIM_SIZES;

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_INT || i < 0 ||
		(size_t)i >= a->value.list.n / each)
		return false;
	for (size_t k = 0; k < each; k++) {
		of[k] = a->value.list.item[(size_t)i * each + k].i;
		if (k && (of[k] < 0 || of[k] > n->graph->library->sizes))
			return false;
	}
	return true;
}

/* Whether a node of `g` computes the size. */
static bool is_of_graph(const struct ht_open_size *s, const struct ht_graph *g)
{
	return s->by.n &&
	       ht_str_eq(s->within, g->function ? g->function->name : (struct ht_str){ 0 });
}

int32_t ht_computed_size(const struct ht_graph *g, const struct ht_node *n)
{
	const struct ht_graph *of = home(g);

	for (int32_t i = 0; i < of->sizes && ht_computes_size(n); i++)
		if (is_of_graph(&of->size[i], g) && ht_str_eq(of->size[i].by, n->name))
			return i + 1;
	return 0;
}

struct ht_node *ht_size_node(const struct ht_graph *g, int32_t size)
{
	const struct ht_open_size *s = ht_size_at(g, size);

	return is_of_graph(s, g) ? ht_graph_node(g, s->by) : NULL;
}

const struct ht_open_size *ht_first_computed_size(const struct ht_graph *g)
{
	for (int32_t i = 0; i < g->sizes; i++)
		if (g->size[i].by.n)
			return &g->size[i];
	return NULL;
}

bool ht_has_open_inputs(const struct ht_graph *g)
{
	return g->sizes && !g->size[0].by.n;
}

/* The value of an expression of open sizes if all are the largest, or the least; -1: it does not
 * fit. */
static int64_t bound(const struct ht_graph *of, const struct ht_size_expr *e, bool most)
{
	const struct ht_graph *g = home(of);
	int64_t at[HT_MOST_RUN_SIZES], value;

	for (int32_t i = 0; i < g->sizes; i++)
		at[i] = most ? g->size[i].most : g->size[i].least;
	return ht_size_checked(e, at, &value) ? value : -1;
}

int64_t ht_dim_most(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	return bound(g, &e, true);
}

int64_t ht_dim_least(const struct ht_graph *g, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	return bound(g, &e, false);
}

/* ---- derived sizes ---- */

static void print_size(const void *unused, int32_t size, struct ht_buf *out)
{
	(void)unused;
	ht_printf(out, "size %d", (int)size);
}

static struct ht_str name_of(struct ht_graph *g, const struct ht_size_expr *from)
{
	struct ht_buf b;

	ht_buf_init(&b, g->arena);
	ht_size_print(from, print_size, NULL, &b);
	return ht_buf_str(&b);
}

/* The least value of the size of which `from` is derived for which the derived one is `least`. */
static int64_t least_for(const struct ht_size_expr *from, int64_t least)
{
	return ht_ceil_div(least * from->divisor - from->add, from->factor);
}

/* A window does not fit into the smallest images, so the program is one for larger ones: raises the least value of the input's size of which
 * `from` is derived until there is a result. */
static void raise_least(struct ht_graph *g, const struct ht_size_expr *from)
{
	struct ht_open_size *of = &g->size[from->size[0] - 1];
	int64_t least = least_for(from, 1);

	for (; ht_size_count(&of->from); of = &g->size[of->from.size[0] - 1])
		least = least_for(&of->from, least);
	if (of->by.n || least <= of->least || least > of->most)
		return;
	of->least = least;
	for (int32_t i = 0; i < g->sizes; i++)
		if (ht_size_count(&g->size[i].from))
			g->size[i].least = bound(g, &g->size[i].from, false);
}

/* The symbol of a derived size, which is added if the graph lacks it. */
static int64_t symbol_of(struct ht_graph *g, struct ht_size_expr from)
{
	struct ht_open_size s = { .axis = -1, .from = from };

	raise_least(g, &from);
	s.least = bound(g, &from, false);
	s.most = bound(g, &from, true);
	for (int32_t i = 0; i < g->sizes; i++)
		if (ht_size_count(&g->size[i].from) && ht_size_equal(g->size[i].from, from))
			return g->size[i].dim;
	if (s.least < 1 || s.most > INT32_MAX || g->sizes == HT_MOST_RUN_SIZES)
		return HT_DIM_UNKNOWN;
	s.dim = ht_dim_named(g, name_of(g, &from));
	ht_graph_add_size(g, s);
	return s.dim;
}

/* If the size is derived itself, the expression of that size, so that equal sizes have equal
 * descriptions. */
static struct ht_size_expr followed(const struct ht_graph *g, struct ht_size_expr e)
{
	const struct ht_open_size *of = &g->size[e.size[0] - 1];

	return ht_size_count(&of->from) && e.times == 1 ? of->from : e;
}

int64_t ht_dim_derived(struct ht_graph *of, int64_t dim, int64_t add, int64_t divisor)
{
	enum { MOST_NUMBER = 1 << 20 }; /* so that no product overflows */
	struct ht_graph *g = home(of);
	struct ht_size_expr e = ht_dim_of_sizes(g, dim);

	if (dim >= 0)
		return ht_floor_div(dim + add, divisor);
	if (add == 0 && divisor == 1 && bound(g, &e, false) > 0)
		return dim;
	if (ht_size_count(&e) != 1 || g->size[e.size[0] - 1].by.n || e.times > MOST_NUMBER ||
		add > MOST_NUMBER || add < -MOST_NUMBER || divisor > MOST_NUMBER)
		return HT_DIM_UNKNOWN;
	e = ht_size_floor(followed(g, e), add, divisor);
	if (ht_size_is_product(&e)) {
		e.size[0] = number_of(g->size[e.size[0] - 1].dim) + 1;
		return ht_dim_of_product(g, e);
	}
	if (ht_size_is_none(&e) || e.factor > MOST_NUMBER || e.add > INT32_MAX ||
		e.add < INT32_MIN || e.divisor > MOST_NUMBER)
		return HT_DIM_UNKNOWN;
	return symbol_of(g, e);
}
