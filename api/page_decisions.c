/* Sections of a policy's decisions: counts, casts, entries of lists, fusions, methods, nodes. */
#include "api/page.h"

#include <math.h>
#include <stdlib.h>

/* The type that a unit got, or the number format in its place. */
static struct ht_str decided_text(const cJSON *unit)
{
	return ht_member_text(unit, ht_member(unit, "format") ? "format" : "to");
}

/* ---- the policy ---- */

static void put_facts(struct ht_page_work *w, const cJSON *root)
{
	struct ht_table t = { .b = w->b,
		.title = "Policy",
		.caption = "What decided, for which machine, and the modelled time of a run.",
		.column = ht_fact_columns,
		.columns = 2,
		.limit = SIZE_MAX };

	const cJSON *i;

	ht_fact(&t, "policy", ht_member_text(root, "policy"));
	ht_fact(&t, "profile", ht_member_text(root, "profile"));
	ht_fact(&t, "target", ht_member_text(root, "target"));
	ht_fact(&t, "nodes of the graph",
		ht_text_exact(w->a, ht_member_number(root, "graph_nodes")));
	ht_fact(&t, "modelled time of a run",
		ht_text_price(w->a, ht_member_number(root, "price_ps")));
	ht_fact(&t, "sentinels", ht_member_text(root, "sentinels"));
	cJSON_ArrayForEach(i, ht_member(root, "emulation")) ht_fact(&t,
		ht_str_printf(
			w->a, "in place of %.*s", HT_STR_ARG(ht_member_text(i, "in_place_of")))
			.p,
		ht_str_printf(w->a, "%.*s%s", HT_STR_ARG(ht_member_text(i, "format")),
			ht_member_is_true(i, "emulated") ? " (emulated)" : ""));
	ht_table_end(&t);
}

/* ---- decisions by op and rule ---- */

struct group {
	struct ht_str op, from, to, rule, list;
	size_t units, first;
};

static int by_units(const void *a, const void *b)
{
	const struct group *p = a, *q = b;

	if (p->units != q->units)
		return p->units < q->units ? 1 : -1;
	return (p->first > q->first) - (p->first < q->first);
}

static struct group *group_of(struct ht_map *m, const struct group *like, struct ht_arena *a)
{
	struct ht_str key = ht_str_printf(a, "%.*s\n%.*s\n%.*s\n%.*s\n%.*s", HT_STR_ARG(like->op),
		HT_STR_ARG(like->from), HT_STR_ARG(like->to), HT_STR_ARG(like->rule),
		HT_STR_ARG(like->list));
	struct ht_map_entry *e = ht_map_at(m, key);
	struct group *g = e->value;

	if (g)
		return g;
	g = HT_NEW(a, struct group);
	*g = *like;
	g->first = m->count;
	e->value = g;
	return g;
}

static void count_units(const cJSON *root, struct ht_map *m, struct ht_arena *a)
{
	const cJSON *node, *unit;

	cJSON_ArrayForEach(node, ht_member(root, "nodes"))
		cJSON_ArrayForEach(unit, ht_member(node, "units"))
	{
		struct group like = { .op = ht_member_text(node, "op"),
			.from = ht_member_text(unit, "from"),
			.to = decided_text(unit),
			.rule = ht_member_text(unit, "rule"),
			.list = ht_member_text(unit, "list") };
		group_of(m, &like, a)->units++;
	}
}

static void put_group(struct ht_table *t, const struct group *g, struct ht_arena *a)
{
	ht_cell(t, g->op);
	ht_cell(t, g->from);
	ht_cell(t, g->to);
	ht_cell(t, g->rule);
	ht_cell(t, g->list);
	ht_cell(t, ht_text_exact(a, (double)g->units));
}

static void put_groups(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "op", false }, { "from", false },
		{ "to", false }, { "rule", false }, { "list", false }, { "decisions", true } };
	struct ht_table t = { .b = w->b,
		.title = "Decisions by op and rule",
		.caption = "How many type attributes each rule decided, the most frequent first.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	struct group *sorted;
	struct ht_map m;

	ht_map_init(&m, w->a);
	count_units(root, &m, w->a);
	sorted = HT_NEW_ARRAY(w->a, struct group, m.count);
	for (size_t i = 0; i < m.count; i++)
		sorted[i] = *(const struct group *)m.entries[i].value;
	if (m.count)
		qsort(sorted, m.count, sizeof *sorted, by_units);
	for (size_t i = 0; i < m.count; i++)
		put_group(&t, &sorted[i], w->a);
	ht_table_end(&t);
}

/* ---- casts ---- */

struct cast {
	const cJSON *of;
	double price, bytes;
	size_t place;
};

/* The most expensive first; those without a price by their bytes, then in their order. */
static int by_price(const void *a, const void *b)
{
	const struct cast *p = a, *q = b;

	if (p->price != q->price)
		return p->price < q->price ? 1 : -1;
	if (p->bytes != q->bytes)
		return p->bytes < q->bytes ? 1 : -1;
	return (p->place > q->place) - (p->place < q->place);
}

static double or_less(double v)
{
	return isnan(v) ? -1 : v;
}

static struct cast *sorted_casts(const cJSON *casts, struct ht_arena *a, size_t *n)
{
	struct cast *cast = HT_NEW_ARRAY(a, struct cast, (size_t)cJSON_GetArraySize(casts));
	const cJSON *i;

	*n = 0;
	cJSON_ArrayForEach(i, casts)
	{
		cast[*n] = (struct cast){ i, or_less(ht_member_number(i, "price_ps")),
			or_less(ht_member_number(i, "bytes")), *n };
		++*n;
	}
	if (*n)
		qsort(cast, *n, sizeof *cast, by_price);
	return cast;
}

static void put_casts(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "cast of", false }, { "from", false },
		{ "to", false }, { "elements", true }, { "bytes", true }, { "price", true },
		{ "note", false } };
	struct ht_table t = { .b = w->b,
		.title = "Casts",
		.caption =
			"Those that the policy placed, the dearest first. The price is that of a kernel of "
			"its own; fused it costs less.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	size_t n;
	const struct cast *cast = sorted_casts(ht_member(root, "casts"), w->a, &n);

	for (size_t i = 0; i < n; i++) {
		const cJSON *of = cast[i].of;
		bool folded = ht_member_is_true(of, "folded");
		ht_cell(&t, ht_member_text(of, "source"));
		ht_cell(&t, ht_member_text(of, "from"));
		ht_cell(&t, ht_member_text(of, "to"));
		ht_cell(&t, ht_text_exact(w->a, ht_member_number(of, "elements")));
		ht_cell(&t, ht_text_bytes(w->a, ht_member_number(of, "bytes")));
		ht_cell(&t, ht_text_price(w->a, ht_member_number(of, "price_ps")));
		ht_cell(&t, ht_str(folded ? "of a constant: it does not run" : ""));
	}
	ht_table_end(&t);
}

/* ---- entries, options ---- */

/* Writes arrays of strings as rows. */
static void put_rows(struct ht_table *t, const cJSON *list, const char *last)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, list)
	{
		for (size_t k = 0; k < t->columns - (last != NULL); k++)
			ht_cell(t, ht_item_text(i, (int)k));
		if (last)
			ht_cell(t, ht_str(last));
	}
}

static void put_entries(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "place", false }, { "entry", false },
		{ "effect, or why there is none", false }, { "acted", false } };
	struct ht_table t = { .b = w->b,
		.title = "Entries of lists",
		.caption = "What each entry of a file of the user's did, or why it did nothing.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };

	put_rows(&t, ht_member(root, "idle_rules"), "no");
	put_rows(&t, ht_member(root, "acting_rules"), "yes");
	ht_table_end(&t);
}

static void put_names(struct ht_table *t, const cJSON *names, const char *says)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, names)
	{
		ht_cell(t, ht_str(i->valuestring));
		ht_cell(t, ht_str(says));
	}
}

static void put_remarks(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "name", false }, { "remark", false } };
	struct ht_table t = { .b = w->b,
		.title = "Remarks",
		.caption = "Options without effect, and what the policy knows less of.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };

	put_names(&t, ht_member(root, "without_effect"), "an option that has no effect here");
	put_names(&t, ht_member(root, "unknown"), "an op that no list names");
	put_names(&t, ht_member(root, "assumed"), "an op whose kernels are not published");
	put_names(&t, ht_member(root, "fallback"), "a node that no kernel of the machine supports");
	ht_table_end(&t);
}

static void put_modes(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "node", false }, { "mode", false },
		{ "stated by", false }, { "how the kernel differs", false } };
	struct ht_table t = { .b = w->b,
		.title = "Implementation modes",
		.caption = "Faster or more exact kernels that were asked for.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };

	put_rows(&t, ht_member(root, "implementation"), NULL);
	ht_table_end(&t);
}

/* ---- fusions and methods ---- */

static void put_switches(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "fusion", false },
		{ "switched", false }, { "effect of the entry", false } };
	static const struct ht_table_column off[] = { { "fusion", false }, { "reason", false } };
	struct ht_table t = { .b = w->b,
		.title = "Switches of fusions",
		.caption = "What the options about fusions did.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	struct ht_table u = { .b = w->b,
		.title = "Fusions that are off",
		.caption = "Named fusions that did not run.",
		.column = off,
		.columns = HT_COUNT(off),
		.limit = HT_PAGE_ROWS };

	put_rows(&t, ht_member(root, "fusions"), NULL);
	ht_table_end(&t);
	put_rows(&u, ht_member(root, "fusions_off"), NULL);
	ht_table_end(&u);
}

static struct ht_str miss_text(struct ht_arena *a, const cJSON *fusion)
{
	struct ht_str node = ht_member_text(fusion, "missed_node"),
		      why = ht_member_text(fusion, "missed");

	if (!node.n)
		return why;
	return ht_str_printf(a, "at %.*s: %.*s", HT_STR_ARG(node), HT_STR_ARG(why));
}

static void put_fusions(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "fusion", false }, { "kind", false },
		{ "state", false }, { "matches", true }, { "made", true },
		{ "nearest that was refused", false } };
	struct ht_table t = { .b = w->b,
		.title = "Fusions",
		.caption =
			"How often each pattern was found and fused, and the condition that the nearest other "
			"place did not meet.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "fusion_results"))
	{
		ht_cell(&t, ht_member_text(i, "name"));
		ht_cell(&t, ht_member_text(i, "kind"));
		ht_cell(&t, ht_member_text(i, "state"));
		ht_cell(&t, ht_text_exact(w->a, ht_member_number(i, "matches")));
		ht_cell(&t, ht_text_exact(w->a, ht_member_number(i, "effects")));
		ht_cell_text(&t, miss_text(w->a, i));
	}
	ht_table_end(&t);
}

static void put_methods(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "node", false }, { "method", false },
		{ "reason", false }, { "is", true }, { "limit", true }, { "error", true },
		{ "other method", false } };
	struct ht_table t = { .b = w->b,
		.title = "Methods",
		.caption =
			"The method of each kernel that had a choice; the error is what it adds to rounding.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "methods"))
	{
		ht_cell(&t, ht_member_text(i, "node"));
		ht_cell(&t, ht_member_text(i, "method"));
		ht_cell(&t, ht_member_text(i, "reason"));
		ht_cell(&t, ht_text_member(w->a, i, "is"));
		ht_cell(&t, ht_text_member(w->a, i, "limit"));
		ht_cell(&t, ht_text_member(w->a, i, "error"));
		ht_cell(&t, ht_member_text(i, "other"));
	}
	ht_table_end(&t);
}

/* ---- nodes ---- */

static void put_unit(struct ht_table *t, const cJSON *node, const cJSON *unit, struct ht_arena *a)
{
	struct ht_str list = ht_member_text(unit, "list"),
		      follows = ht_member_text(unit, "follows");

	ht_cell(t, ht_member_text(node, "node"));
	ht_cell(t, ht_member_text(node, "op"));
	ht_cell(t, ht_member_text(unit, "attribute"));
	ht_cell(t, ht_member_text(unit, "from"));
	ht_cell(t, decided_text(unit));
	ht_cell(t, ht_member_text(unit, "rule"));
	if (follows.n)
		list = ht_str_printf(a, "%.*s%sfollows %.*s", HT_STR_ARG(list), list.n ? "; " : "",
			HT_STR_ARG(follows));
	ht_cell(t, list);
}

static void put_nodes(struct ht_page_work *w, const cJSON *root)
{
	static const struct ht_table_column columns[] = { { "node", false }, { "op", false },
		{ "attribute", false }, { "from", false }, { "to", false }, { "rule", false },
		{ "list, or producer", false } };
	struct ht_table t = { .b = w->b,
		.folded = true,
		.title = "Nodes",
		.caption = "Each decision with its reason, in the order of the graph.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_NODES };
	const cJSON *node, *unit;

	cJSON_ArrayForEach(node, ht_member(root, "nodes"))
		cJSON_ArrayForEach(unit, ht_member(node, "units")) put_unit(&t, node, unit, w->a);
	ht_table_end(&t);
}

/* ---- the section ---- */

static double sum(const cJSON *list, const char *name)
{
	double all = 0;
	const cJSON *i;

	cJSON_ArrayForEach(i, list) all += fmax(0, ht_member_number(i, name));
	return all;
}

static struct ht_str summary(struct ht_arena *a, const cJSON *root)
{
	const cJSON *casts = ht_member(root, "casts");
	int n = cJSON_GetArraySize(casts);

	return ht_str_printf(a,
		"%s of %s nodes with floats compute in a low type; the policy placed %d cast%s, which read and "
		"write %s in a run.",
		ht_text_exact(a, ht_member_number(root, "low_nodes")).p,
		ht_text_exact(a, ht_member_number(root, "float_nodes")).p, n, n == 1 ? "" : "s",
		ht_text_bytes(a, sum(casts, "bytes")).p);
}

void ht_page_decisions(struct ht_page_work *w, const cJSON *root)
{
	ht_page_open(w, root, "Decisions", ht_member_text(root, "policy"));
	ht_page_paragraph(w->b, summary(w->a, root));
	put_facts(w, root);
	put_groups(w, root);
	put_casts(w, root);
	ht_page_scopes(w, root);
	put_entries(w, root);
	put_remarks(w, root);
	put_modes(w, root);
	put_fusions(w, root);
	put_switches(w, root);
	put_methods(w, root);
	put_nodes(w, root);
	ht_page_section_end(w->b);
}
