/* The painter: decides which type attributes become low.
 *
 * Marks spread over the vertices in TensorFlow's order: allow ops; denial downstream of deny
 * ops; nodes between allow ops; infer ops that directly follow one; clear ops around; then
 * values that must agree (tensor lists, loops), and casts of the graph that can cast to the low
 * type directly.  Each spread is a flood fill with a stack of its own. */
#include "precision/grappler/grappler.h"

#include "precision/precision.h"
#include "passes/rewrite.h"

#include <string.h>

static const struct {
	unsigned device;
	bool emulate;
} modes[] = {
	[HT_GRAPPLER_FP16] = { HT_TF_GPU, false },
	[HT_GRAPPLER_BF16] = { HT_TF_CPU, false },
	[HT_GRAPPLER_FP16_CPU] = { HT_TF_CPU, true },
};

/* ---- queries about vertices ---- */

static bool is_processed(const struct ht_painter *p, uint32_t v)
{
	return p->processed[p->graph.vertex[v].node->id];
}

static bool supports(struct ht_painter *p, uint32_t v)
{
	uint16_t *mark = &p->mark[v];

	if (!(*mark & HT_MARK_SUPPORT_KNOWN)) {
		*mark |= HT_MARK_SUPPORT_KNOWN;
		if (ht_paint_allows(&p->graph, v, p->low) &&
			ht_paint_kernel(&p->graph, v, p->low, p->device))
			*mark |= HT_MARK_SUPPORTED;
	}
	return *mark & HT_MARK_SUPPORTED;
}

/* A variable's memory is read through Identity, and inside of a loop through Enter. */
static bool reads_variable(const struct ht_node *n)
{
	while (n->op == HT_OP_Enter && n->ins)
		n = n->in[0].node;
	return n->op == HT_OP_Identity && n->ins &&
	       (ht_str_is(n->in[0].node->type, "Variable") ||
		       ht_str_is(n->in[0].node->type, "VariableV2"));
}

/* ---- floods ---- */

enum { INPUTS = 1, OUTPUTS = 2 };

typedef bool enters(struct ht_painter *p, uint32_t v);

static void start(struct ht_painter *p, uint32_t v, uint16_t mark)
{
	if (p->mark[v] & mark)
		return;
	p->mark[v] |= mark;
	p->stack[p->depth++] = v;
}

static void try_vertex(struct ht_painter *p, uint32_t v, uint16_t mark, enters *may_enter)
{
	if (!(p->mark[v] & mark) && may_enter(p, v))
		start(p, v, mark);
}

static void start_shadow(struct ht_painter *p, uint32_t handle, bool down, uint16_t mark)
{
	if (p->handles.shadow[handle])
		start(p, p->graph.vertices + 2 * (p->handles.shadow[handle] - 1) + !down, mark);
}

/* Floods from a handle's shadow along the handle, and to the ops that read it (down) or write it
 * (up). */
static void flood_shadow(struct ht_painter *p, uint32_t s, uint16_t mark, enters *may_enter)
{
	const struct ht_paint_graph *g = &p->graph;
	bool down = !((s - g->vertices) & 1);
	uint32_t handle = p->handles.vertex[(s - g->vertices) / 2];
	const uint32_t *first = down ? g->fanout_start : g->fanin_start;
	const uint32_t *next = down ? g->fanout : g->fanin;
	uint32_t element;

	for (uint32_t i = first[handle]; i < first[handle + 1]; i++) {
		start_shadow(p, next[i], down, mark);
		element = ht_handles_element(p, g->vertex[next[i]].node);
		if (element != HT_NO_VERTEX && p->handles.shadow[next[i]] &&
			p->mark[element] & (down ? HT_MARK_READS_LIST : HT_MARK_WRITES_LIST))
			try_vertex(p, element, mark, may_enter);
	}
}

static void flood(struct ht_painter *p, uint16_t mark, unsigned directions, enters *may_enter)
{
	const struct ht_paint_graph *g = &p->graph;

	while (p->depth) {
		uint32_t v = p->stack[--p->depth], shadow;
		if (v >= g->vertices) {
			flood_shadow(p, v, mark, may_enter);
			continue;
		}
		for (uint32_t i = g->fanin_start[v];
			directions & INPUTS && i < g->fanin_start[v + 1]; i++)
			try_vertex(p, g->fanin[i], mark, may_enter);
		for (uint32_t i = g->fanout_start[v];
			directions & OUTPUTS && i < g->fanout_start[v + 1]; i++)
			try_vertex(p, g->fanout[i], mark, may_enter);
		for (unsigned d = INPUTS; d <= OUTPUTS; d++) {
			shadow = directions & d ? ht_handles_shadow(p, v, d == OUTPUTS)
						: HT_NO_VERTEX;
			if (shadow != HT_NO_VERTEX)
				start(p, shadow, mark);
		}
	}
}

/* ---- the steps ---- */

static bool can_be_forced(const struct ht_painter *p, const struct ht_node *n)
{
	const struct ht_tf_op *op = p->graph.op[n->id];

	for (int i = 0; i < op->args; i++)
		if (op->arg[i].ref)
			return false;
	for (int i = 0; i < op->results; i++)
		if (op->result[i].ref)
			return false;
	return !op->stateful && !ht_is(n, HT_CONSTANT) &&
	       !ht_str_is(n->type, "SoftmaxCrossEntropyWithLogits");
}

static bool allow_listed(struct ht_painter *p)
{
	bool any = false;

	for (uint32_t v = 0; v < p->graph.vertices; v++) {
		if (!is_processed(p, v))
			continue;
		if (ht_list_of(p, v) == HT_LIST_ALLOW)
			ht_painter_allow(p, v, HT_BY(ALLOW_LIST));
		else if (p->force_all && can_be_forced(p, p->graph.vertex[v].node))
			ht_painter_allow(p, v, HT_BY(FORCE_ALL));
		any = any || p->mark[v] & HT_MARK_ALLOW;
	}
	return any;
}

static bool is_clear(struct ht_painter *p, uint32_t v)
{
	return ht_list_of(p, v) == HT_LIST_CLEAR;
}

static bool leads_to_sensitive(struct ht_painter *p, uint32_t v)
{
	return p->mark[v] & HT_MARK_UPSTREAM && !(p->mark[v] & HT_MARK_DENY);
}

static void deny_downstream(struct ht_painter *p)
{
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (ht_list_of(p, v) == HT_LIST_DENY || ht_list_of(p, v) == HT_LIST_INFER)
			start(p, v, HT_MARK_UPSTREAM);
	flood(p, HT_MARK_UPSTREAM, INPUTS, is_clear);
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (ht_list_of(p, v) == HT_LIST_DENY && !(p->mark[v] & HT_MARK_DENY))
			start(p, v, HT_MARK_DENIED);
	flood(p, HT_MARK_DENIED, OUTPUTS, leads_to_sensitive);
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (p->mark[v] & HT_MARK_DENIED)
			p->mark[v] |= HT_MARK_DENY;
}

static bool may_be_between(struct ht_painter *p, uint32_t v)
{
	enum ht_paint_list list = ht_list_of(p, v);

	return (list == HT_LIST_CLEAR || list == HT_LIST_INFER) && !(p->mark[v] & HT_MARK_DENY) &&
	       is_processed(p, v) && ht_painter_is_f32(p, v) && supports(p, v);
}

static bool is_downstream(struct ht_painter *p, uint32_t v)
{
	return p->mark[v] & HT_MARK_DOWNSTREAM;
}

static void start_allow_ops(struct ht_painter *p, uint16_t mark)
{
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (is_processed(p, v) && ht_list_of(p, v) == HT_LIST_ALLOW)
			start(p, v, mark);
}

static void allow_between(struct ht_painter *p)
{
	start_allow_ops(p, HT_MARK_DOWNSTREAM);
	flood(p, HT_MARK_DOWNSTREAM, OUTPUTS, may_be_between);
	start_allow_ops(p, HT_MARK_BETWEEN);
	flood(p, HT_MARK_BETWEEN, INPUTS, is_downstream);
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (p->mark[v] & HT_MARK_BETWEEN)
			ht_painter_allow(p, v, HT_BY(BETWEEN_ALLOWED));
}

/* The marks of all ops that write to the list from which element type `v` is read. */
static uint16_t marks_of_writers(struct ht_painter *p, uint32_t v)
{
	const struct ht_paint_graph *g = &p->graph;
	struct ht_handles *h = &p->handles;
	bool *seen;
	uint32_t s = ht_handles_shadow(p, v, false), element;
	uint16_t marks = 0;

	if (s == HT_NO_VERTEX)
		return 0;
	seen = HT_NEW_ARRAY(g->arena, bool, h->count);
	p->stack[p->depth++] = (s - g->vertices) / 2;
	while (p->depth) {
		uint32_t handle = h->vertex[p->stack[--p->depth]];
		for (uint32_t i = g->fanin_start[handle]; i < g->fanin_start[handle + 1]; i++) {
			uint32_t number = h->shadow[g->fanin[i]];
			if (!number || seen[number - 1])
				continue;
			seen[number - 1] = true;
			p->stack[p->depth++] = number - 1;
			element = ht_handles_element(p, g->vertex[g->fanin[i]].node);
			if (element != HT_NO_VERTEX && p->mark[element] & HT_MARK_WRITES_LIST)
				marks |= p->mark[element];
		}
	}
	return marks;
}

/* One sweep in the order of the graph: the result for an earlier vertex affects later ones. */
static void allow_followers(struct ht_painter *p)
{
	const struct ht_paint_graph *g = &p->graph;

	for (uint32_t v = 0; v < g->vertices; v++) {
		uint16_t marks = 0;
		if (ht_list_of(p, v) != HT_LIST_INFER || !is_processed(p, v) ||
			!ht_painter_is_f32(p, v) || p->mark[v] & (HT_MARK_DENY | HT_MARK_ALLOW) ||
			!ht_paint_allows(g, v, p->low))
			continue;
		for (uint32_t i = g->fanin_start[v]; i < g->fanin_start[v + 1]; i++)
			marks |= p->mark[g->fanin[i]];
		marks |= marks_of_writers(p, v);
		if (marks & HT_MARK_ALLOW && !(marks & HT_MARK_DENY))
			ht_painter_allow(p, v, HT_BY(FOLLOWS_ALLOWED));
	}
}

static bool may_spread_to(struct ht_painter *p, uint32_t v)
{
	return is_clear(p, v) && !(p->mark[v] & (HT_MARK_ALLOW | HT_MARK_DENY)) &&
	       is_processed(p, v) && ht_painter_is_f32(p, v) && supports(p, v) &&
	       !reads_variable(p->graph.vertex[v].node);
}

static void spread_through_clear(struct ht_painter *p)
{
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (p->mark[v] & HT_MARK_ALLOW && is_processed(p, v))
			start(p, v, HT_MARK_SPREAD);
	flood(p, HT_MARK_SPREAD, INPUTS | OUTPUTS, may_spread_to);
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (p->mark[v] & HT_MARK_SPREAD)
			ht_painter_allow(p, v, HT_BY(BESIDE_LOW));
}

static bool is_quantized(const struct ht_painter *p, const struct ht_node *n)
{
	for (uint32_t v = p->graph.first_vertex[n->id]; v < p->graph.vertex_end[n->id]; v++) {
		enum ht_dtype t = (enum ht_dtype)p->graph.vertex[v].dtype;
		if (t == HT_QI8 || t == HT_QU8 || t == HT_QI32 || t == HT_QI16 || t == HT_QU16)
			return true;
	}
	return false;
}

static void remove_impossible(struct ht_painter *p)
{
	for (uint32_t v = 0; v < p->graph.vertices; v++)
		if (ht_list_of(p, v) == HT_LIST_ALLOW &&
			(!ht_paint_allows(&p->graph, v, p->low) ||
				is_quantized(p, p->graph.vertex[v].node)))
			p->mark[v] &= (uint16_t)~HT_MARK_ALLOW;
}

/* ---- one graph or body ---- */

/* Only force_all permits types that the op's definition does not. */
static enum ht_status check_definitions(struct ht_painter *p, struct ht_diags *d)
{
	for (uint32_t v = 0; v < p->graph.vertices; v++) {
		const struct ht_node *n = p->graph.vertex[v].node;
		if (p->emulate || !ht_painter_is_allowed(p, v) || !ht_painter_is_f32(p, v) ||
			ht_paint_allows(&p->graph, v, p->low))
			continue;
		return ht_error(d, HT_E_UNSUPPORTED,
			(struct ht_where){ .node = n->name, .op = n->type, .offset = -1 },
			"level unsafe_force_all: the op has no definition in %s, and TensorFlow "
			"fails on it",
			ht_dtype_info(p->low)->name);
	}
	return HT_OK;
}

static void mark_all(struct ht_painter *p, const struct ht_uses *uses)
{
	ht_handles_find(p);
	if (!allow_listed(p))
		return;
	if (!p->force_all)
		deny_downstream(p);
	ht_handles_agree(p);
	allow_between(p);
	allow_followers(p);
	spread_through_clear(p);
	remove_impossible(p);
	ht_handles_agree(p);
	ht_painter_agree_round_loops(p, uses);
	ht_painter_retarget_casts(p, uses);
}

static void write_painting(struct ht_painter *p, struct ht_str prefix, struct ht_decisions *out)
{
	size_t n = p->graph.vertices;
	bool *low = HT_NEW_ARRAY(p->graph.arena, bool, n);
	struct ht_painted how = { p->low, p->emulate, low, p->rule, NULL, "AutoMixedPrecision",
		p->renamed };

	for (uint32_t v = 0; v < p->graph.vertices; v++)
		low[v] = p->mark[v] & HT_MARK_ALLOW && ht_painter_is_f32(p, v);
	if (out->complete) {
		const struct ht_node **followed =
			HT_NEW_ARRAY(p->graph.arena, const struct ht_node *, n);
		ht_painter_reasons(p, low, followed);
		how.followed = followed;
	}
	ht_paint_rewrite(&p->graph, &how, prefix, out);
}

static enum ht_status paint_graph(struct ht_painter *p, struct ht_graph *g,
	struct ht_pass_context *c, struct ht_decisions *out)
{
	struct ht_uses uses = ht_graph_uses(g, c->scratch);
	const struct ht_node *odd = ht_painter_odd_loop(g, &uses);
	struct ht_str prefix = { 0 };
	size_t n;

	if (odd) {
		ht_warn(c->diags,
			(struct ht_where){ .node = odd->name, .op = odd->type, .offset = -1 },
			"its result goes elsewhere than into Merge: TensorFlow's pass fails on that, "
			"and like it this policy leaves the graph as it is");
		return HT_OK;
	}
	p->processed = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	p->renamed = HT_NEW_ARRAY(c->scratch, bool, g->ids);
	ht_painter_find_processed(p, g, c->entry);
	ht_painter_rename_batch_norms(p, g);
	ht_paint_graph_build(&p->graph, g, c->scratch);
	ht_painter_exclude_by_op(p);
	n = p->graph.vertices;
	p->handles = (struct ht_handles){ 0 };
	p->mark = HT_NEW_ARRAY(c->scratch, uint16_t, 3 * n);
	p->rule = HT_NEW_ARRAY(c->scratch, const struct ht_dtype_reason *, n);
	p->stack = HT_NEW_ARRAY(c->scratch, uint32_t, 3 * n);
	mark_all(p, &uses);
	HT_TRY(check_definitions(p, c->diags));
	if (g->function)
		prefix = ht_str_printf(c->scratch, "%.*s:", HT_STR_ARG(g->function->name));
	write_painting(p, prefix, out);
	return HT_OK;
}

/* TensorFlow paints bodies one by one, except those whose types the call determines, and those
 * of input pipelines. */
static bool is_paintable(const struct ht_function *f)
{
	for (const struct ht_attr *a = f->attrs; a; a = a->next)
		if (ht_str_is(a->name, "_tf_data_function") && a->value.kind == HT_ATTR_BOOL &&
			a->value.b)
			return false;
	for (const struct ht_node *n = f->body->first; n; n = n->next)
		for (const struct ht_attr *a = n->attrs; a; a = a->next)
			if (a->value.kind == HT_ATTR_PLACEHOLDER)
				return false;
	return true;
}

static void read_lists(const struct ht_policy *p)
{
	static const enum ht_read lists[] = { HT_READ_policy, HT_READ_grappler_level,
		HT_READ_allowlist_add, HT_READ_allowlist_remove, HT_READ_denylist_add,
		HT_READ_denylist_remove, HT_READ_inferlist_add, HT_READ_inferlist_remove,
		HT_READ_clearlist_add, HT_READ_clearlist_remove };

	for (size_t i = 0; i < HT_COUNT(lists); i++)
		ht_read(p, lists[i]);
}

enum ht_status ht_grappler_paint(const struct ht_policy *policy, struct ht_graph *g,
	struct ht_pass_context *c, struct ht_decisions *out)
{
	enum ht_grappler_mode mode = (enum ht_grappler_mode)policy->kind->mode;
	struct ht_painter p = { .low = policy->kind->low,
		.device = modes[mode].device,
		.emulate = modes[mode].emulate,
		.force_all = policy->grappler.level == HT_LEVEL_FORCE_ALL };
	struct ht_map called;
	uint8_t *list;

	read_lists(policy);
	HT_TRY(ht_grappler_lists(&policy->grappler, mode, c->scratch, c->diags, &list));
	p.list = list;
	ht_called_functions(g, c->scratch, &called);
	HT_TRY(paint_graph(&p, g, c, out));
	for (size_t i = 0; i < called.count; i++) {
		const struct ht_function *f = called.entries[i].value;
		if (is_paintable(f))
			HT_TRY(paint_graph(&p, f->body, c, out));
	}
	return HT_OK;
}
