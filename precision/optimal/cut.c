/* Minimum cuts by maximum flow. */
#include "precision/optimal/cut.h"

struct ht_cut_arc {
	uint32_t from, to;
	int64_t capacity;
};

/* One direction of an arc in the flow network; `sister` is the opposite one. */
struct half {
	uint32_t to, sister;
	int64_t left; /* residual capacity; HT_CUT_NEVER does not decrease */
};

struct flow {
	struct ht_cut *c;
	struct half *half;
	uint32_t *first;   /* by vertex: its halves, up to first[v + 1] */
	uint32_t *current; /* by vertex: the half to try next */
	uint32_t *level;   /* by vertex: steps from the source in this phase; 0: not reached */
	uint32_t *queue;   /* vertices of the current part, in the order they were found */
	uint32_t *path;    /* halves from the root to the current vertex */
	bool *seen;        /* by vertex: belongs to a part already */
	int64_t value;
};

void ht_cut_init(struct ht_cut *c, struct ht_arena *a)
{
	*c = (struct ht_cut){ .arena = a };
}

uint32_t ht_cut_vertex(struct ht_cut *c)
{
	HT_CHECK(c->vertices < HT_CUT_SOURCE);
	c->terminal =
		ht_grow(c->arena, c->terminal, c->vertices, &c->terminal_cap, sizeof *c->terminal);
	c->terminal[c->vertices] = 0;
	return c->vertices++;
}

/* The smaller capacity flows directly from the source to the sink and is paid in any case; only
 * the difference is kept. */
static void add_terminal(struct ht_cut *c, uint32_t v, int64_t from_source, int64_t to_sink)
{
	int64_t *t = &c->terminal[v];
	int64_t source = *t > 0 ? *t : 0, sink = *t < 0 ? -*t : 0, both;

	source = from_source == HT_CUT_NEVER || source == HT_CUT_NEVER ? HT_CUT_NEVER
								       : source + from_source;
	sink = to_sink == HT_CUT_NEVER || sink == HT_CUT_NEVER ? HT_CUT_NEVER : sink + to_sink;
	both = source < sink ? source : sink;
	if (both == HT_CUT_NEVER) {
		c->base = HT_CUT_NEVER;
		return;
	}
	if (c->base != HT_CUT_NEVER)
		c->base += both;
	source -= source == HT_CUT_NEVER ? 0 : both;
	sink -= sink == HT_CUT_NEVER ? 0 : both;
	*t = source ? source : -sink;
}

void ht_cut_arc(struct ht_cut *c, uint32_t u, uint32_t v, int64_t capacity)
{
	HT_CHECK(capacity >= 0);
	if (!capacity || u == v || u == HT_CUT_SINK || v == HT_CUT_SOURCE)
		return;
	if (u == HT_CUT_SOURCE && v == HT_CUT_SINK) {
		c->base = capacity == HT_CUT_NEVER || c->base == HT_CUT_NEVER ? HT_CUT_NEVER
									      : c->base + capacity;
	} else if (u == HT_CUT_SOURCE) {
		add_terminal(c, v, capacity, 0);
	} else if (v == HT_CUT_SINK) {
		add_terminal(c, u, 0, capacity);
	} else {
		c->arc = ht_grow(c->arena, c->arc, c->arcs, &c->arc_cap, sizeof *c->arc);
		c->arc[c->arcs++] = (struct ht_cut_arc){ u, v, capacity };
	}
}

/* ---- the network in the form that the flow algorithm uses ---- */

static void build(struct flow *f, struct ht_arena *a)
{
	const struct ht_cut *c = f->c;
	uint32_t *next;

	HT_CHECK(c->arcs < UINT32_MAX / 2);
	f->half = HT_NEW_ARRAY(a, struct half, 2 * c->arcs);
	f->first = HT_NEW_ARRAY(a, uint32_t, (size_t)c->vertices + 1);
	next = HT_NEW_ARRAY(a, uint32_t, c->vertices);
	for (size_t i = 0; i < c->arcs; i++) {
		f->first[c->arc[i].from + 1]++;
		f->first[c->arc[i].to + 1]++;
	}
	for (uint32_t v = 0; v < c->vertices; v++) {
		f->first[v + 1] += f->first[v];
		next[v] = f->first[v];
	}
	for (size_t i = 0; i < c->arcs; i++) {
		const struct ht_cut_arc *e = &c->arc[i];
		uint32_t there = next[e->from]++, back = next[e->to]++;
		f->half[there] = (struct half){ e->to, back, e->capacity };
		f->half[back] = (struct half){ e->from, there, 0 };
	}
	f->current = next;
	f->level = HT_NEW_ARRAY(a, uint32_t, c->vertices);
	f->queue = HT_NEW_ARRAY(a, uint32_t, c->vertices);
	f->path = HT_NEW_ARRAY(a, uint32_t, c->vertices);
	f->seen = HT_NEW_ARRAY(a, bool, c->vertices);
}

/* Stores the vertices of the part that contains `root` in `part`; returns how many. */
static uint32_t collect(struct flow *f, uint32_t root, uint32_t *part)
{
	uint32_t n = 0;

	part[n++] = root;
	f->seen[root] = true;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t h = f->first[part[i]]; h < f->first[part[i] + 1]; h++)
			if (!f->seen[f->half[h].to]) {
				f->seen[f->half[h].to] = true;
				part[n++] = f->half[h].to;
			}
	return n;
}

/* ---- one phase: distances from the source, then flow along shortest paths until none is left
 * ---- */

static bool find_levels(struct flow *f, const uint32_t *part, uint32_t n)
{
	const int64_t *terminal = f->c->terminal;
	uint32_t found = 0;
	bool sink = false;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t v = part[i];
		f->level[v] = terminal[v] > 0;
		f->current[v] = f->first[v];
		if (terminal[v] > 0)
			f->queue[found++] = v;
	}
	for (uint32_t i = 0; i < found; i++) {
		uint32_t v = f->queue[i];
		sink |= terminal[v] < 0;
		for (uint32_t h = f->first[v]; h < f->first[v + 1]; h++) {
			uint32_t to = f->half[h].to;
			if (!f->half[h].left || f->level[to])
				continue;
			f->level[to] = f->level[v] + 1;
			f->queue[found++] = to;
		}
	}
	return sink;
}

static void take(int64_t *left, int64_t n)
{
	if (*left != HT_CUT_NEVER)
		*left -= n;
}

static void give(int64_t *left, int64_t n)
{
	if (*left != HT_CUT_NEVER)
		*left += n;
}

/* Flow from `root` along the path's `n` halves into the sink behind vertex `v`.  Returns how much
 * of the path still has capacity. */
static uint32_t push(struct flow *f, uint32_t root, uint32_t v, uint32_t n)
{
	int64_t *source = &f->c->terminal[root], *sink = &f->c->terminal[v];
	int64_t most = -*sink < *source ? -*sink : *source;
	uint32_t kept = n;

	for (uint32_t i = 0; i < n; i++)
		if (f->half[f->path[i]].left < most)
			most = f->half[f->path[i]].left;
	HT_CHECK(most != HT_CUT_NEVER); /* the caller excludes cuts that an arc forbids */
	take(source, most);
	if (*sink != -HT_CUT_NEVER)
		*sink += most;
	f->value += most;
	for (uint32_t i = n; i-- > 0;) {
		struct half *h = &f->half[f->path[i]];
		take(&h->left, most);
		give(&f->half[h->sister].left, most);
		if (!h->left)
			kept = i;
	}
	return kept;
}

/* The next half out of `v` that leads away from the source; false: there is none. */
static bool advance(struct flow *f, uint32_t v, uint32_t *out)
{
	for (; f->current[v] < f->first[v + 1]; f->current[v]++) {
		const struct half *h = &f->half[f->current[v]];
		if (h->left && f->level[h->to] == f->level[v] + 1) {
			*out = f->current[v];
			return true;
		}
	}
	return false;
}

static void drain(struct flow *f, uint32_t root)
{
	const int64_t *terminal = f->c->terminal;
	uint32_t v = root, n = 0, h;

	while (terminal[root] > 0) {
		if (terminal[v] < 0) {
			n = push(f, root, v, n);
			v = n ? f->half[f->path[n - 1]].to : root;
		} else if (advance(f, v, &h)) {
			f->path[n++] = h;
			v = f->half[h].to;
		} else if (n) {
			n--;
			v = f->half[f->half[f->path[n]].sister].to;
			f->current[v]++;
		} else {
			break;
		}
	}
}

static void solve_part(struct flow *f, const uint32_t *part, uint32_t n)
{
	bool source = false, sink = false;

	for (uint32_t i = 0; i < n; i++) {
		source |= f->c->terminal[part[i]] > 0;
		sink |= f->c->terminal[part[i]] < 0;
	}
	if (source && sink) {
		f->c->parts++;
		f->c->largest = n > f->c->largest ? n : f->c->largest;
		while (find_levels(f, part, n))
			for (uint32_t i = 0; i < n; i++)
				if (f->c->terminal[part[i]] > 0)
					drain(f, part[i]);
	} else {
		find_levels(f, part, n);
	}
	/* The vertices that the last search reached are the source's side. */
	for (uint32_t i = 0; i < n; i++)
		f->c->from_source[part[i]] = f->level[part[i]] != 0;
}

/* Whether arcs of infinite capacity connect the source with the sink. */
static bool is_forbidden(struct flow *f)
{
	const struct ht_cut *c = f->c;
	uint32_t found = 0;
	bool forbidden = c->base == HT_CUT_NEVER;

	for (uint32_t v = 0; v < c->vertices; v++)
		if (c->terminal[v] == HT_CUT_NEVER) {
			f->level[v] = 1;
			f->queue[found++] = v;
		}
	for (uint32_t i = 0; i < found; i++) {
		uint32_t v = f->queue[i];
		forbidden |= c->terminal[v] == -HT_CUT_NEVER;
		for (uint32_t h = f->first[v]; h < f->first[v + 1]; h++) {
			uint32_t to = f->half[h].to;
			if (f->half[h].left != HT_CUT_NEVER || f->level[to])
				continue;
			f->level[to] = 1;
			f->queue[found++] = to;
		}
	}
	return forbidden;
}

int64_t ht_cut_solve(struct ht_cut *c, struct ht_arena *scratch)
{
	struct flow f = { .c = c };
	uint32_t *part = HT_NEW_ARRAY(scratch, uint32_t, c->vertices);

	build(&f, scratch);
	c->from_source = HT_NEW_ARRAY(c->arena, bool, c->vertices);
	c->parts = c->largest = 0;
	if (is_forbidden(&f))
		return HT_CUT_NEVER;
	for (uint32_t v = 0; v < c->vertices; v++)
		if (!f.seen[v])
			solve_part(&f, part, collect(&f, v, part));
	return c->base + f.value;
}
