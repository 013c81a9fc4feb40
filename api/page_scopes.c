/* The map of a report: for each name scope, how many nodes have a low type under the policy, and the casts that it inserted; and
 * the graph, a figure for each scope, in which the scopes within it are one box each. */
#include "api/page.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_SCOPES = 400, /* most scopes in a report */
	MOST_NESTED = 12,  /* deeper scopes count for the one around them */
	MOST_BOXES = 80,   /* of a figure */
	ALL_BOXES = 1500   /* of a report */
};

/* Sums over a scope and the scopes within it. */
struct amount {
	size_t nodes; /* nodes whose types the policy decided */
	size_t low;   /* those of them with a type or format below float32 */
	size_t casts;
	double bytes; /* of casts that are not folded into constants */
};

/* What a scope directly consists of: scopes and nodes. */
struct part {
	struct ht_str name;
	const struct scope *scope; /* NULL: a node */
	struct amount sum;         /* of a node */
};

struct scope {
	struct ht_str name;   /* without the names of the scopes around it */
	struct ht_map within; /* the scopes directly inside, by name, in the order of the nodes */
	struct amount sum;
	struct part *part;     /* in the order of the nodes */
	size_t parts, cap, at; /* at: which part it is of the scope around it */
	struct ht_map edges;   /* "FROM TO", numbers of parts */
	size_t id;             /* of its branch on the page; 0: it is not folded */
};

/* Where a node is: part at[i] of scope[i], for i up to `depth`, which is the node itself. */
struct place {
	struct scope *scope[MOST_NESTED + 1];
	size_t at[MOST_NESTED + 1];
	int depth;
};

static struct scope *new_scope(struct ht_arena *a, struct ht_str name)
{
	struct scope *s = HT_NEW(a, struct scope);

	s->name = name;
	ht_map_init(&s->within, a);
	ht_map_init(&s->edges, a);
	return s;
}

static struct part *new_part(struct scope *s, struct ht_str name, struct ht_arena *a)
{
	s->part = ht_grow(a, s->part, s->parts, &s->cap, sizeof *s->part);
	s->part[s->parts] = (struct part){ .name = name };
	return &s->part[s->parts++];
}

static struct scope *scope_within(struct scope *s, struct ht_str name, struct ht_arena *a)
{
	struct ht_map_entry *e = ht_map_at(&s->within, name);

	if (!e->value) {
		struct scope *inner = new_scope(a, name);
		inner->at = s->parts;
		new_part(s, name, a)->scope = inner;
		e->value = inner;
	}
	return e->value;
}

static void add_to(struct amount *sum, const struct amount *m)
{
	sum->nodes += m->nodes;
	sum->low += m->low;
	sum->casts += m->casts;
	sum->bytes += m->bytes;
}

/* Adds `m`, of node `name`, to each scope that encloses the node, and puts those scopes into `place`; *last is the part of `name` inside the innermost. */
static void add(struct scope *s, struct ht_str name, const struct amount *m, struct ht_arena *a,
	struct place *place, struct ht_str *last)
{
	const char *slash;
	int i = 0;

	add_to(&s->sum, m);
	place->scope[0] = s;
	for (; i < MOST_NESTED && (slash = memchr(name.p, '/', name.n)); i++) {
		size_t n = (size_t)(slash - name.p);

		s = scope_within(s, (struct ht_str){ name.p, n }, a);
		place->at[i] = s->at;
		place->scope[i + 1] = s;
		add_to(&s->sum, m);
		name = (struct ht_str){ slash + 1, name.n - n - 1 };
	}
	place->depth = i;
	*last = name;
}

static void add_node(struct scope *all, const cJSON *node, const struct amount *m,
	struct ht_arena *a, struct place *place)
{
	struct ht_str name;
	struct scope *s;
	struct part *part;

	add(all, ht_member_text(node, "node"), m, a, place, &name);
	s = place->scope[place->depth];
	place->at[place->depth] = s->parts;
	part = new_part(s, name, a);
	part->sum = *m;
}

/* Adds the edge to the innermost scope around both nodes, between the parts in which they are. */
static void add_edge(const struct place *from, const struct place *to, struct ht_arena *a)
{
	int i = 0;

	while (i < from->depth && i < to->depth && from->at[i] == to->at[i])
		i++;
	if (from->at[i] != to->at[i])
		ht_map_at(
			&from->scope[i]->edges, ht_str_printf(a, "%zu %zu", from->at[i], to->at[i]))
			->value = from->scope[i];
}

/* Whether a decided unit is below float32.  A number format in the place of a type is, too. */
static bool is_low(const cJSON *unit)
{
	struct ht_str to = ht_member_text(unit, "to"), emulated = ht_member_text(unit, "emulated");

	return ht_str_is(to, "float16") || ht_str_is(to, "bfloat16") ||
	       ht_member_text(unit, "format").n || ht_str_is(emulated, "float16") ||
	       ht_str_is(emulated, "bfloat16");
}

/* The policy does not decide the types of inputs and constants. */
static bool is_decided(const cJSON *unit)
{
	return !ht_str_starts(ht_member_text(unit, "rule"), "fixed");
}

static struct amount node_amount(const cJSON *node)
{
	struct amount m = { 0 };
	const cJSON *unit;

	cJSON_ArrayForEach(unit, ht_member(node, "units"))
	{
		if (!is_decided(unit))
			continue;
		m.nodes = 1;
		if (is_low(unit))
			m.low = 1;
	}
	return m;
}

/* Nodes that the policy does not decide, such as inputs and constants, have no place. */
static void take_edges(const cJSON *root, const struct place *place, size_t n, struct ht_arena *a)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "edges"))
	{
		double from = ht_json_number(i->child), to = ht_json_number(i->child->next);

		if (from < (double)n && to < (double)n && place[(size_t)from].scope[0] &&
			place[(size_t)to].scope[0])
			add_edge(&place[(size_t)from], &place[(size_t)to], a);
	}
}

static struct scope *scopes_of(const cJSON *root, struct ht_arena *a)
{
	struct scope *all = new_scope(a, HT_STR("the graph"));
	size_t nodes = (size_t)cJSON_GetArraySize(ht_member(root, "nodes")), n = 0;
	struct place *place = HT_NEW_ARRAY(a, struct place, nodes + 1), ignored;
	struct ht_str last;
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "nodes"))
	{
		struct amount m = node_amount(i);

		if (m.nodes)
			add_node(all, i, &m, a, &place[n]);
		n++;
	}
	take_edges(root, place, n, a);
	cJSON_ArrayForEach(i, ht_member(root, "casts"))
	{
		double bytes = ht_member_number(i, "bytes");
		bool runs = !ht_member_is_true(i, "folded");
		struct amount m = { .casts = 1, .bytes = runs && bytes > 0 ? bytes : 0 };

		add(all, ht_member_text(i, "source"), &m, a, &ignored, &last);
	}
	return all;
}

static struct ht_str says(const struct amount *s, struct ht_arena *a)
{
	struct ht_str casts =
		s->casts ? ht_str_printf(a, ", %zu cast%s, %s", s->casts, s->casts == 1 ? "" : "s",
				   ht_text_bytes(a, s->bytes).p)
			 : HT_STR("");

	return ht_str_printf(a, "%zu of %zu nodes low%.*s", s->low, s->nodes, HT_STR_ARG(casts));
}

/* ---- figures ---- */

struct figures {
	struct ht_page_work *w;
	size_t left;   /* boxes that may still be drawn */
	size_t scopes; /* that may still be written */
};

static double share_of(const struct amount *s)
{
	return s->nodes ? (double)s->low / (double)s->nodes : 0;
}

static struct ht_graph_box box_of(const struct part *p, struct ht_arena *a)
{
	const struct amount *sum = p->scope ? &p->scope->sum : &p->sum;
	struct ht_graph_box b = { .name = p->name, .share = share_of(sum) };

	b.id = p->scope ? p->scope->id : 0;
	b.says = p->scope   ? ht_str_printf(a, "%zu of %zu low", sum->low, sum->nodes)
		 : sum->low ? HT_STR("low")
			    : HT_STR("not low");
	if (sum->casts)
		b.says = ht_str_printf(a, "%.*s, %zu cast%s", HT_STR_ARG(b.says), sum->casts,
			sum->casts == 1 ? "" : "s");
	return b;
}

static int by_end(const void *a, const void *b)
{
	const struct ht_graph_edge *x = a, *y = b;

	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return (x->from > y->from) - (x->from < y->from);
}

static struct ht_graph_edge *edges_of(
	const struct scope *s, size_t boxes, struct ht_arena *a, size_t *n)
{
	struct ht_graph_edge *edge = HT_NEW_ARRAY(a, struct ht_graph_edge, s->edges.count + 1);

	*n = 0;
	for (size_t i = 0; i < s->edges.count; i++) {
		char *end;
		size_t from = strtoull(s->edges.entries[i].key.p, &end, 10),
		       to = strtoull(end, NULL, 10);
		if (from < boxes && to < boxes)
			edge[(*n)++] = (struct ht_graph_edge){ from, to };
	}
	qsort(edge, *n, sizeof *edge, by_end);
	return edge;
}

/* The graph of one scope.  `id` is the scope's own; no other figure has it. */
static void put_figure(struct figures *f, const struct scope *s, size_t id)
{
	struct ht_arena *a = f->w->a;
	size_t n = s->parts < MOST_BOXES ? s->parts : MOST_BOXES, edges;
	struct ht_graph_box *box = HT_NEW_ARRAY(a, struct ht_graph_box, n);
	struct ht_page_graph g = { .box = box, .boxes = n, .number = id };

	if (n < 2 || n > f->left)
		return;
	f->left -= n;
	for (size_t i = 0; i < n; i++)
		box[i] = box_of(&s->part[i], a);
	g.edge = edges_of(s, n, a, &edges);
	g.edges = edges;
	g.title = n < s->parts ? ht_str_printf(a, "%.*s: the first %zu of %zu parts",
					 HT_STR_ARG(s->name), n, s->parts)
			       : ht_str_printf(a, "%.*s: %zu parts", HT_STR_ARG(s->name), n);
	ht_page_graph(f->w->b, &g);
}

/* Gives the scopes that will be folded their numbers, in the order in which put_scopes() writes them. */
static void number_scopes(const struct scope *of, int depth, size_t *left, size_t *id)
{
	for (size_t i = 0; i < of->within.count && *left; i++) {
		struct scope *s = of->within.entries[i].value;

		--*left;
		if (s->parts > 1 || (depth > 1 && s->within.count))
			s->id = ++*id;
		if (depth > 1)
			number_scopes(s, depth - 1, left, id);
	}
}

/* Adds to number[k] how many scopes within `of` have k scopes around them. */
static void count_scopes(const struct scope *of, int around, size_t number[MOST_NESTED])
{
	number[around] += of->within.count;
	for (size_t i = 0; i < of->within.count; i++)
		count_scopes(of->within.entries[i].value, around + 1, number);
}

/* The most levels, at least 1, that together have no more than MOST_SCOPES scopes. */
static int depth_shown(const struct scope *all)
{
	size_t number[MOST_NESTED] = { 0 }, sum = 0;
	int depth = 0;

	count_scopes(all, 0, number);
	while (depth < MOST_NESTED && number[depth] && (sum += number[depth]) <= MOST_SCOPES)
		depth++;
	return depth ? depth : 1;
}

/* Writes `depth` levels of scopes.  A scope with several parts folds; its figure comes first, then the scopes within it. */
static void put_scopes(struct figures *f, const struct scope *of, int depth)
{
	for (size_t i = 0; i < of->within.count && f->scopes; i++) {
		const struct scope *s = of->within.entries[i].value;

		f->scopes--;
		ht_page_branch(f->w->b, s->name, says(&s->sum, f->w->a), share_of(&s->sum),
			s->id != 0, s->id);
		if (!s->id)
			continue;
		put_figure(f, s, s->id);
		if (depth > 1)
			put_scopes(f, s, depth - 1);
		ht_page_branch_end(f->w->b);
	}
}

void ht_page_scopes(struct ht_page_work *w, const cJSON *root)
{
	struct scope *all = scopes_of(root, w->a);
	struct figures f = { .w = w, .left = ALL_BOXES, .scopes = MOST_SCOPES };
	size_t left = MOST_SCOPES, first = ++w->branches;

	if (!all->parts)
		return;
	ht_page_fold(w->b, HT_STR("Map of the graph"), true);
	ht_page_paragraph(w->b,
		ht_str_printf(w->a,
			"What the policy decides in each scope of names, those within it included, and the casts of "
			"tensors that it makes. Bars are the share of nodes in a type or number format below float32. The whole graph: %s.",
			says(&all->sum, w->a).p));
	number_scopes(all, depth_shown(all), &left, &w->branches);
	put_figure(&f, all, first);
	put_scopes(&f, all, depth_shown(all));
	if (!f.scopes)
		ht_page_paragraph(
			w->b, ht_str_printf(w->a, "The first %d scopes are shown.", MOST_SCOPES));
	ht_page_fold_end(w->b);
}
