/* The decided graph for Graphviz: nodes in the colour of their dtype, and the casts between
 * them.
 *
 * Up to MAX_SHAPES nodes are drawn one by one, in a box for each outermost name scope.  Of
 * larger graphs, scopes are drawn instead, as deep as that number permits; if names have no
 * scopes, op types.  Constants are left out. */
#include "api/report.h"

#include <string.h>

enum { MAX_SHAPES = 300, DEEPEST = 32 };

struct shape {
	struct ht_str key;
	size_t id, nodes, casts, of[HT_DTYPE_END];
	const struct ht_node *only; /* NULL: several nodes, drawn as one */
};

struct drawing {
	struct ht_buf *b;
	const struct ht_graph *g;
	struct ht_map shapes; /* key → struct shape */
	struct ht_map edges;  /* two ids → count */
	int depth;            /* how many parts of a name are its scope; DEEPEST: all; 0: op
			       * types are drawn */
};

static bool is_drawn(const struct ht_node *n)
{
	return !ht_is(n, HT_CONSTANT) &&
	       !(ht_is(n, HT_CASTS) && n->ins && ht_is(n->in[0].node, HT_CONSTANT));
}

/* ---- scopes ---- */

/* The first `depth` parts of a name, or the whole name if it has no more. */
static struct ht_str scope(struct ht_str name, int depth)
{
	size_t n = 0;

	while (n < name.n) {
		if (name.p[n] == '/' && --depth == 0)
			return (struct ht_str){ name.p, n };
		n++;
	}
	return name;
}

static struct ht_str key_of(const struct drawing *d, const struct ht_node *n)
{
	return d->depth == 0 ? n->type : d->depth == DEEPEST ? n->name : scope(n->name, d->depth);
}

static size_t count_shapes(struct drawing *d, int depth)
{
	struct ht_map seen;

	d->depth = depth;
	ht_map_init(&seen, d->b->arena);
	for (const struct ht_node *n = d->g->first; n && seen.count <= MAX_SHAPES; n = n->next)
		if (is_drawn(n))
			ht_map_at(&seen, key_of(d, n))->value = d;
	return seen.count;
}

static void choose_depth(struct drawing *d)
{
	int depth = DEEPEST;

	if (count_shapes(d, depth) <= MAX_SHAPES)
		return;
	for (depth = 8; depth > 0 && count_shapes(d, depth) > MAX_SHAPES;)
		depth--;
	d->depth = depth;
}

/* ---- collecting ---- */

static enum ht_dtype dtype_of(const struct ht_node *n)
{
	enum ht_dtype t = n->outs ? n->out[0].dtype % HT_REF : HT_INVALID;

	return t < HT_DTYPE_END ? t : HT_INVALID;
}

static struct shape *shape_of(struct drawing *d, const struct ht_node *n)
{
	return ht_map_get(&d->shapes, key_of(d, n));
}

static void add_node(struct drawing *d, const struct ht_node *n)
{
	struct ht_map_entry *e = ht_map_at(&d->shapes, key_of(d, n));
	struct shape *s = e->value;

	if (!s) {
		s = e->value = HT_NEW(d->b->arena, struct shape);
		s->key = e->key;
		s->id = d->shapes.count;
	}
	s->only = s->nodes++ ? NULL : n;
	s->casts += ht_is(n, HT_CASTS);
	s->of[dtype_of(n)]++;
}

static void add_edges(struct drawing *d, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		const struct shape *from, *to = shape_of(d, n);
		size_t ends[2];
		struct ht_map_entry *e;
		if (!is_drawn(n->in[i].node))
			continue;
		from = shape_of(d, n->in[i].node);
		if (from == to)
			continue;
		ends[0] = from->id;
		ends[1] = to->id;
		e = ht_map_at(
			&d->edges, ht_str_copy(d->b->arena,
					   (struct ht_str){ (const char *)ends, sizeof ends }));
		e->value = (void *)((uintptr_t)e->value + 1);
	}
}

/* ---- writing ---- */

static void put_quoted(struct ht_buf *b, struct ht_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"' || s.p[i] == '\\')
			ht_putc(b, '\\');
		if ((unsigned char)s.p[i] >= 0x20)
			ht_putc(b, s.p[i]);
	}
}

static enum ht_dtype most(const struct shape *s)
{
	enum ht_dtype best = HT_INVALID;

	for (int t = 1; t < HT_DTYPE_END; t++)
		if (s->of[t] &&
			(best == HT_INVALID || !ht_is_float(best)
					? best == HT_INVALID || ht_is_float((enum ht_dtype)t)
					: ht_is_float((enum ht_dtype)t) && s->of[t] > s->of[best]))
			best = (enum ht_dtype)t;
	return best;
}

static void put_scope(struct ht_buf *b, const struct shape *s)
{
	put_quoted(b, s->key);
	ht_printf(b, "\\n%zu nodes", s->nodes);
	for (int t = 1; t < HT_DTYPE_END; t++)
		if (s->of[t])
			ht_printf(b, "\\n%zu %s", s->of[t], ht_dtype_info((enum ht_dtype)t)->name);
	if (s->casts)
		ht_printf(b, "\\n%zu casts", s->casts);
	ht_puts(b, "\", shape=box3d");
}

static void put_shape(struct ht_buf *b, const struct shape *s)
{
	const struct ht_node *n = s->only;

	ht_printf(b, "  n%zu [label=\"", s->id);
	if (!n) {
		put_scope(b, s);
	} else if (ht_is(n, HT_CASTS)) {
		ht_printf(
			b, "to %s\", shape=ellipse, tooltip=\"", ht_dtype_info(dtype_of(n))->name);
		put_quoted(b, n->name);
		ht_putc(b, '"');
	} else {
		put_quoted(b, n->name);
		ht_puts(b, "\\n");
		put_quoted(b, n->type);
		ht_printf(b, " %s\"", ht_dtype_info(dtype_of(n))->name);
	}
	ht_printf(b, ", fillcolor=\"%s\"];\n", ht_dtype_colour(most(s)));
}

/* One box for each outermost scope that holds more than one shape. */
static void put_clusters(struct drawing *d)
{
	struct ht_map scopes;
	size_t boxes = 0;

	ht_map_init(&scopes, d->b->arena);
	for (size_t i = 0; i < d->shapes.count && d->depth == DEEPEST; i++) {
		struct ht_str name = scope(d->shapes.entries[i].key, 1);
		struct ht_map_entry *e = ht_map_at(&scopes, name);
		struct ht_buf *ids = e->value;
		if (!ids) {
			ids = e->value = HT_NEW(d->b->arena, struct ht_buf);
			ht_buf_init(ids, d->b->arena);
		}
		ht_printf(ids, " n%zu;", ((const struct shape *)d->shapes.entries[i].value)->id);
	}
	for (size_t i = 0; i < scopes.count; i++) {
		struct ht_str ids = ht_buf_str(scopes.entries[i].value);
		if (!memchr(ids.p, ';', ids.n - 1))
			continue;
		ht_printf(d->b, "  subgraph cluster_%zu { label=\"", boxes++);
		put_quoted(d->b, scopes.entries[i].key);
		ht_printf(d->b, "\";%.*s }\n", HT_STR_ARG(ids));
	}
}

static void put_edge(struct drawing *d, const struct ht_map_entry *e)
{
	size_t ends[2], count = (uintptr_t)e->value;

	memcpy(ends, e->key.p, sizeof ends);
	ht_printf(d->b, "  n%zu -> n%zu", ends[0], ends[1]);
	if (count > 1)
		ht_printf(d->b, " [label=\"%zu\"]", count);
	ht_puts(d->b, ";\n");
}

void ht_graph_dot(const struct ht_graph *g, struct ht_str label, struct ht_buf *b)
{
	struct drawing d = { .b = b, .g = g };

	choose_depth(&d);
	ht_map_init(&d.shapes, b->arena);
	ht_map_init(&d.edges, b->arena);
	for (const struct ht_node *n = d.g->first; n; n = n->next)
		if (is_drawn(n))
			add_node(&d, n);
	for (const struct ht_node *n = d.g->first; n; n = n->next)
		if (is_drawn(n))
			add_edges(&d, n);
	ht_puts(b, "digraph decisions {\n  node [shape=box, style=filled, fontname=\"sans\"];\n"
		   "  label=\"");
	put_quoted(b, label);
	ht_puts(b, "\";\n");
	for (size_t i = 0; i < d.shapes.count; i++)
		put_shape(b, d.shapes.entries[i].value);
	put_clusters(&d);
	for (size_t i = 0; i < d.edges.count; i++)
		put_edge(&d, &d.edges.entries[i]);
	ht_puts(b, "}\n");
}

void ht_report_dot(struct ht_report *r, struct ht_buf *b)
{
	ht_graph_dot(r->graph, r->data.policy, b);
}
