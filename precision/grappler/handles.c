/* Tensor lists: which ops share one, and how marks spread through it. */
#include "precision/grappler/grappler.h"

#include <string.h>

enum { ROOTED = 1, UNSAFE = 2, ANY_ALLOW = 4, ANY_DENY = 8 };

static bool is_one_of(struct ht_str type, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ht_str_is(type, names[i]))
			return true;
	return false;
}

static bool is_reader(const struct ht_node *n)
{
	static const char *const names[] = { "TensorListConcat", "TensorListConcatV2",
		"TensorListGather", "TensorListGetItem", "TensorListPopBack", "TensorListStack" };

	return is_one_of(n->type, names, HT_COUNT(names));
}

static bool is_writer(const struct ht_node *n)
{
	static const char *const names[] = { "TensorListFromTensor", "TensorListPushBack",
		"TensorListPushBackBatch", "TensorListScatter", "TensorListScatterV2",
		"TensorListScatterIntoExistingList", "TensorListSetItem", "TensorListSplit" };

	return is_one_of(n->type, names, HT_COUNT(names));
}

/* Whether a list comes from, or goes to, a place that the pass cannot see. */
static bool is_source_or_sink(const struct ht_node *n)
{
	static const char *const names[] = { "_Arg", "_Retval", "OptionalFromValue",
		"OptionalGetValue", "PartitionedCall", "Placeholder", "StatefulPartitionedCall" };

	return is_one_of(n->type, names, HT_COUNT(names));
}

static bool is_list_op(struct ht_str type)
{
	static const char part[] = "TensorList";
	size_t n = sizeof part - 1;

	for (size_t i = 0; i + n <= type.n; i++)
		if (!memcmp(type.p + i, part, n))
			return true;
	return false;
}

uint32_t ht_handles_element(const struct ht_painter *p, const struct ht_node *n)
{
	const struct ht_paint_graph *g = &p->graph;

	if (!is_list_op(n->type))
		return HT_NO_VERTEX;
	for (uint32_t v = g->first_vertex[n->id]; v < g->vertex_end[n->id]; v++)
		if (g->vertex[v].attr >= 0 && g->vertex[v].item < 0 && g->vertex[v].dtype == HT_F32)
			return v;
	return HT_NO_VERTEX;
}

static uint32_t handle_of(const struct ht_painter *p, const struct ht_node *n)
{
	const struct ht_paint_graph *g = &p->graph;

	for (uint32_t v = g->first_vertex[n->id]; v < g->vertex_end[n->id]; v++)
		if (g->vertex[v].attr < 0 && g->vertex[v].dtype == HT_VARIANT)
			return v;
	return HT_NO_VERTEX;
}

/* ---- clusters ---- */

static uint32_t find(uint32_t *parent, uint32_t v)
{
	while (parent[v] != v) {
		parent[v] = parent[parent[v]];
		v = parent[v];
	}
	return v;
}

static bool is_variant(const struct ht_painter *p, uint32_t v)
{
	return v != HT_NO_VERTEX && p->graph.vertex[v].dtype == HT_VARIANT;
}

/* An unknown op, or a function's result, takes a list out of sight. */
static void join_edges(struct ht_painter *p, uint32_t *parent, bool *out_of_sight)
{
	const struct ht_paint_graph *g = &p->graph;

	for (struct ht_node *n = g->graph->first; n; n = n->next) {
		for (int32_t i = 0; i < n->ins; i++) {
			uint32_t from = ht_paint_source(g, n->in[i]);
			uint32_t to = g->op[n->id] ? g->in_vertex[g->first_in[n->id] + (uint32_t)i]
						   : HT_NO_VERTEX;
			if (is_variant(p, from) && is_variant(p, to))
				parent[find(parent, from)] = find(parent, to);
			else if (is_variant(p, from))
				out_of_sight[from] = true;
			else if (is_variant(p, to))
				out_of_sight[to] = true;
		}
	}
	if (!g->graph->function)
		return;
	for (const struct ht_port *r = g->graph->function->rets; r; r = r->next) {
		uint32_t v = ht_paint_source(g, r->value);
		if (is_variant(p, v))
			out_of_sight[v] = true;
	}
}

static void judge(struct ht_painter *p, uint32_t *parent, const bool *out_of_sight)
{
	struct ht_handles *h = &p->handles;

	for (uint32_t v = 0; v < p->graph.vertices; v++) {
		const struct ht_node *n = p->graph.vertex[v].node;
		uint32_t element, cluster;
		if (!is_variant(p, v))
			continue;
		element = ht_handles_element(p, n);
		cluster = find(parent, v);
		if (out_of_sight[v] ||
			(element != HT_NO_VERTEX ? !p->processed[n->id] : is_source_or_sink(n)))
			h->state[cluster] |= UNSAFE;
		if (element == HT_NO_VERTEX)
			continue;
		h->member[h->members] = element;
		h->cluster[h->members++] = cluster;
		if (p->processed[n->id] && p->graph.vertex[v].attr < 0)
			h->state[cluster] |= ROOTED;
	}
}

static void deny_unsafe(struct ht_painter *p)
{
	struct ht_handles *h = &p->handles;

	for (uint32_t i = 0; i < h->members; i++) {
		const struct ht_node *n = p->graph.vertex[h->member[i]].node;
		if (h->state[h->cluster[i]] & UNSAFE && p->processed[n->id])
			p->mark[h->member[i]] |= HT_MARK_DENY;
	}
}

static void give_shadows(struct ht_painter *p, uint32_t *parent)
{
	struct ht_handles *h = &p->handles;

	for (uint32_t v = 0; v < p->graph.vertices; v++) {
		const struct ht_node *n = p->graph.vertex[v].node;
		if (!is_variant(p, v) || !p->processed[n->id] ||
			!(h->state[find(parent, v)] & ROOTED))
			continue;
		h->vertex[h->count++] = v;
		h->shadow[v] = h->count;
	}
	for (uint32_t i = 0; i < h->members; i++) {
		const struct ht_node *n = p->graph.vertex[h->member[i]].node;
		if (!(h->state[h->cluster[i]] & ROOTED))
			continue;
		if (is_reader(n))
			p->mark[h->member[i]] |= HT_MARK_READS_LIST;
		if (is_writer(n))
			p->mark[h->member[i]] |= HT_MARK_WRITES_LIST;
	}
}

static size_t count_handles(const struct ht_painter *p)
{
	bool any = false;
	size_t handles = 0;

	for (uint32_t v = 0; v < p->graph.vertices; v++) {
		if (!is_variant(p, v))
			continue;
		handles++;
		any = any || ht_handles_element(p, p->graph.vertex[v].node) != HT_NO_VERTEX;
	}
	return any ? handles : 0;
}

void ht_handles_find(struct ht_painter *p)
{
	struct ht_handles *h = &p->handles;
	struct ht_arena *a = p->graph.arena;
	size_t handles = count_handles(p), n = p->graph.vertices;
	uint32_t *parent;
	bool *out_of_sight;

	if (!handles)
		return;
	parent = HT_NEW_ARRAY(a, uint32_t, n);
	out_of_sight = HT_NEW_ARRAY(a, bool, n);
	h->shadow = HT_NEW_ARRAY(a, uint32_t, n);
	h->state = HT_NEW_ARRAY(a, uint8_t, n);
	h->vertex = HT_NEW_ARRAY(a, uint32_t, handles);
	h->member = HT_NEW_ARRAY(a, uint32_t, handles);
	h->cluster = HT_NEW_ARRAY(a, uint32_t, handles);
	for (uint32_t v = 0; v < n; v++)
		parent[v] = v;
	join_edges(p, parent, out_of_sight);
	judge(p, parent, out_of_sight);
	deny_unsafe(p);
	give_shadows(p, parent);
}

void ht_handles_agree(struct ht_painter *p)
{
	struct ht_handles *h = &p->handles;

	for (uint32_t i = 0; i < h->members; i++)
		h->state[h->cluster[i]] &= ROOTED | UNSAFE;
	for (uint32_t i = 0; i < h->members; i++) {
		uint16_t mark = p->mark[h->member[i]];
		if (mark & HT_MARK_DENY)
			h->state[h->cluster[i]] |= ANY_DENY;
		else if (mark & HT_MARK_ALLOW)
			h->state[h->cluster[i]] |= ANY_ALLOW;
	}
	for (uint32_t i = 0; i < h->members; i++) {
		uint16_t *mark = &p->mark[h->member[i]];
		uint8_t state = h->state[h->cluster[i]];
		if (!(state & ROOTED))
			continue;
		if (state & ANY_DENY)
			*mark = (uint16_t)((*mark & ~HT_MARK_ALLOW) | HT_MARK_DENY);
		else if (state & ANY_ALLOW && !(*mark & HT_MARK_ALLOW)) {
			*mark |= HT_MARK_ALLOW;
			p->rule[h->member[i]] = HT_BY(WITH_TENSOR_LIST);
		}
	}
}

/* ---- shadows ---- */

uint32_t ht_handles_shadow(const struct ht_painter *p, uint32_t v, bool down)
{
	uint32_t handle;

	if (!(p->mark[v] & (down ? HT_MARK_WRITES_LIST : HT_MARK_READS_LIST)))
		return HT_NO_VERTEX;
	handle = handle_of(p, p->graph.vertex[v].node);
	if (handle == HT_NO_VERTEX || !p->handles.shadow[handle])
		return HT_NO_VERTEX;
	return p->graph.vertices + 2 * (p->handles.shadow[handle] - 1) + !down;
}
