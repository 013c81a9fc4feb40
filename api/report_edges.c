/* Which decided nodes read results of which others: member `edges` of halftone.decisions/1. */
#include "api/report.h"

enum { MOST_SOURCES = 64, DEEPEST = 8, MOST_PASSED = 500 };

struct search {
	struct ht_map index; /* name → its number in the decisions + 1, as a pointer */
	size_t source[MOST_SOURCES], sources;
	int left; /* how many more nodes may be passed through */
};

static size_t number_of(struct search *s, struct ht_str name)
{
	return (size_t)(uintptr_t)ht_map_get(&s->index, name);
}

static void add_source(struct search *s, size_t number)
{
	for (size_t i = 0; i < s->sources; i++)
		if (s->source[i] == number)
			return;
	if (s->sources < MOST_SOURCES)
		s->source[s->sources++] = number;
}

/* Passes through the policy's casts and nodes without a floating-point type. */
static void find_sources(struct search *s, const struct ht_node *n, int depth)
{
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_node *from = n->in[i].node;
		size_t number = number_of(s, from->name);

		if (number)
			add_source(s, number);
		else if (depth < DEEPEST && s->left-- > 0)
			find_sources(s, from, depth + 1);
	}
}

void ht_report_edges(struct ht_report *r, struct ht_buf *b)
{
	const struct ht_decisions *d = &r->data.decisions;
	struct search s = { .sources = 0 };
	bool any = false;

	if (!r->graph)
		return;
	ht_map_init(&s.index, b->arena);
	for (size_t i = 0; i < d->nodes; i++)
		ht_map_at(&s.index, d->node[i].name)->value = (void *)(uintptr_t)(i + 1);
	ht_puts(b, ",\n \"edges\": [");
	for (const struct ht_node *n = r->graph->first; n; n = n->next) {
		size_t to = number_of(&s, n->name);
		s.sources = 0;
		s.left = MOST_PASSED;
		if (to)
			find_sources(&s, n, 0);
		for (size_t i = 0; i < s.sources; i++) {
			ht_printf(b, "%s[%zu, %zu]", any ? ", " : "", s.source[i] - 1, to - 1);
			any = true;
		}
	}
	ht_putc(b, ']');
}
