/* The map of a report: for each name scope, how many nodes have a low type under the policy, and the casts that it inserted. */
#include "api/page.h"

#include <string.h>

enum {
	MOST_SCOPES = 400, /* most scopes in a report */
	MOST_NESTED = 12   /* deeper scopes count for the one around them */
};

/* Sums over a scope and the scopes within it. */
struct amount {
	size_t nodes; /* nodes whose types the policy decided */
	size_t low;   /* those of them with a type or format below float32 */
	size_t casts;
	double bytes; /* of casts that are not folded into constants */
};

struct scope {
	struct ht_str name;   /* without the names of the scopes around it */
	struct ht_map within; /* the scopes directly inside, by name, in the order of the nodes */
	struct amount sum;
};

static struct scope *new_scope(struct ht_arena *a, struct ht_str name)
{
	struct scope *s = HT_NEW(a, struct scope);

	s->name = name;
	ht_map_init(&s->within, a);
	return s;
}

static struct scope *scope_within(struct scope *s, struct ht_str name, struct ht_arena *a)
{
	struct ht_map_entry *e = ht_map_at(&s->within, name);

	if (!e->value)
		e->value = new_scope(a, name);
	return e->value;
}

static void add_to(struct amount *sum, const struct amount *m)
{
	sum->nodes += m->nodes;
	sum->low += m->low;
	sum->casts += m->casts;
	sum->bytes += m->bytes;
}

static void add(struct scope *s, struct ht_str name, const struct amount *m, struct ht_arena *a)
{
	const char *slash;

	add_to(&s->sum, m);
	for (int i = 0; i < MOST_NESTED && (slash = memchr(name.p, '/', name.n)); i++) {
		size_t n = (size_t)(slash - name.p);

		s = scope_within(s, (struct ht_str){ name.p, n }, a);
		add_to(&s->sum, m);
		name = (struct ht_str){ slash + 1, name.n - n - 1 };
	}
}

/* Of a unit that was decided.  A number format in the place of a type is lower than float32, too. */
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

static struct scope *scopes_of(const cJSON *root, struct ht_arena *a)
{
	struct scope *all = new_scope(a, HT_STR("the graph"));
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "nodes"))
	{
		struct amount m = node_amount(i);

		if (m.nodes)
			add(all, ht_member_text(i, "node"), &m, a);
	}
	cJSON_ArrayForEach(i, ht_member(root, "casts"))
	{
		double bytes = ht_member_number(i, "bytes");
		bool runs = !ht_member_is_true(i, "folded");
		struct amount m = { .casts = 1, .bytes = runs && bytes > 0 ? bytes : 0 };

		add(all, ht_member_text(i, "source"), &m, a);
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

/* Writes `depth` levels of scopes, at most *left scopes.  A scope folds if scopes within it are written too. */
static void put_scopes(struct ht_page_work *w, const struct scope *of, int depth, size_t *left)
{
	for (size_t i = 0; i < of->within.count && *left; i++) {
		const struct scope *s = of->within.entries[i].value;
		double share = s->sum.nodes ? (double)s->sum.low / (double)s->sum.nodes : 0;
		bool within = s->within.count && depth > 1;

		--*left;
		ht_page_branch(w->b, s->name, says(&s->sum, w->a), share, within);
		if (!within)
			continue;
		put_scopes(w, s, depth - 1, left);
		ht_page_branch_end(w->b);
	}
}

void ht_page_scopes(struct ht_page_work *w, const cJSON *root)
{
	const struct scope *all = scopes_of(root, w->a);
	size_t left = MOST_SCOPES;

	if (!all->within.count)
		return;
	ht_page_fold(w->b, HT_STR("Map by name scope"), true);
	ht_page_paragraph(w->b,
		ht_str_printf(w->a,
			"What the policy decides in each scope of names, those within it included, and the casts of "
			"tensors that it makes. Bars are the share of nodes in a type or number format below float32. The whole graph: %s.",
			says(&all->sum, w->a).p));
	put_scopes(w, all, depth_shown(all), &left);
	if (!left)
		ht_page_paragraph(
			w->b, ht_str_printf(w->a, "The first %d scopes are shown.", MOST_SCOPES));
	ht_page_fold_end(w->b);
}
