/* Vertices and edges of a graph, from TensorFlow's own definitions of its ops. */
#include "precision/grappler/paint.h"

#include <string.h>

/* The most tensors of a list.  A larger attribute is an error, and must not determine a loop's
 * length. */
enum { MAX_TENSORS = 1 << 20 };

const struct ht_tf_op *ht_tf_op_named(struct ht_str name)
{
	size_t low = 0, end = ht_tf_op_count;

	while (low < end) {
		size_t mid = low + (end - low) / 2;
		int order = ht_str_cmp(name, ht_str(ht_tf_ops[mid].name));
		if (!order)
			return &ht_tf_ops[mid];
		if (order < 0)
			end = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

struct build {
	struct ht_paint_graph *p;
	const struct ht_tf_op *row[HT_OP_END]; /* by op of ir/ops.def: the row, once it was
					        * looked up */
	bool looked_up[HT_OP_END];
	size_t vertex_cap, in_cap, out_cap;
	uint32_t ins, outs;
};

static const struct ht_tf_op *row_of(struct build *b, const struct ht_node *n)
{
	const struct ht_tf_op *row;

	if (n->op == HT_OP_OPAQUE) {
		row = ht_tf_op_named(n->type);
		return row && row->known ? row : NULL;
	}
	if (!b->looked_up[n->op]) {
		row = ht_tf_op_named(n->type);
		b->row[n->op] = row && row->known ? row : NULL;
		b->looked_up[n->op] = true;
	}
	return b->row[n->op];
}

/* ---- vertices ---- */

static uint32_t add_vertex(
	struct build *b, struct ht_node *n, int attr, int32_t item, enum ht_dtype t)
{
	struct ht_paint_graph *p = b->p;

	p->vertex = ht_grow(p->arena, p->vertex, p->vertices, &b->vertex_cap, sizeof *p->vertex);
	p->vertex[p->vertices] = (struct ht_vertex){ n, item, (int16_t)attr, (uint8_t)t };
	return p->vertices++;
}

static enum ht_dtype plain(enum ht_dtype t)
{
	if (t >= HT_REF)
		t = (enum ht_dtype)(t - HT_REF);
	return t < HT_DTYPE_END ? t : HT_INVALID;
}

static void add_attr_vertices(
	struct build *b, struct ht_node *n, const struct ht_tf_attr *attr, int number)
{
	const struct ht_attr *a = ht_attr_find(n, attr->name);

	if (!attr->list) {
		enum ht_dtype t = a && a->value.kind == HT_ATTR_TYPE
					  ? a->value.type
					  : (enum ht_dtype)attr->fallback;
		add_vertex(b, n, number, -1, plain(t));
		return;
	}
	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_TYPE)
		return;
	for (size_t i = 0; i < a->value.list.n && i < MAX_TENSORS; i++)
		add_vertex(b, n, number, (int32_t)i, plain(a->value.list.item[i].type));
}

static uint32_t vertex_of(
	struct build *b, struct ht_node *n, const struct ht_tf_arg *arg, int32_t i)
{
	struct ht_paint_graph *p = b->p;
	const struct ht_tf_op *op = p->op[n->id];
	bool list = arg->attr >= 0 && op->attr[arg->attr].list;

	for (uint32_t v = p->first_vertex[n->id]; v < p->vertices; v++) {
		const struct ht_vertex *at = &p->vertex[v];
		if (at->attr != arg->attr)
			continue;
		if (arg->attr < 0 && at->dtype != arg->fixed)
			continue;
		/* The elements of a list are next to each other. */
		if (list)
			return v + (uint32_t)i;
		return v;
	}
	return add_vertex(b, n, -1, -1, (enum ht_dtype)arg->fixed);
}

static int32_t list_length(const struct ht_node *n, const char *attr)
{
	const struct ht_attr *a = ht_attr_find(n, attr);

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_TYPE ||
		a->value.list.n > MAX_TENSORS)
		return 0;
	return (int32_t)a->value.list.n;
}

/* How many tensors a formal stands for; -1: the node does not state it. */
static int32_t arg_count(
	const struct ht_node *n, const struct ht_tf_op *op, const struct ht_tf_arg *arg)
{
	int64_t count;

	if (arg->attr >= 0 && op->attr[arg->attr].list)
		return list_length(n, op->attr[arg->attr].name);
	if (!arg->number)
		return 1;
	count = ht_attr_int(n, arg->number, arg->number_default);
	return count >= 0 && count <= MAX_TENSORS ? (int32_t)count : -1;
}

static int32_t total(
	const struct ht_node *n, const struct ht_tf_op *op, const struct ht_tf_arg *arg, int args)
{
	int32_t sum = 0;

	for (int i = 0; i < args; i++) {
		int32_t count = arg_count(n, op, &arg[i]);
		if (count < 0)
			return -1;
		sum += count;
	}
	return sum;
}

static uint32_t *add_ports(struct build *b, struct ht_node *n, const struct ht_tf_arg *arg,
	int args, uint32_t *ports, uint32_t *count, size_t *cap)
{
	const struct ht_tf_op *op = b->p->op[n->id];

	for (int a = 0; a < args; a++) {
		int32_t tensors = arg_count(n, op, &arg[a]);
		bool list = arg[a].attr >= 0 && op->attr[arg[a].attr].list;
		uint32_t v = HT_NO_VERTEX;
		for (int32_t i = 0; i < tensors; i++) {
			if (v == HT_NO_VERTEX)
				v = vertex_of(b, n, &arg[a], 0);
			ports = ht_grow(b->p->arena, ports, *count, cap, sizeof *ports);
			ports[(*count)++] = list ? v + (uint32_t)i : v;
		}
	}
	return ports;
}

/* If the number of a node's operands does not match its attributes, it counts as a node of an
 * unknown op. */
static void add_node(struct build *b, struct ht_node *n)
{
	struct ht_paint_graph *p = b->p;
	const struct ht_tf_op *op = row_of(b, n);

	if (op && (total(n, op, op->arg, op->args) != n->ins ||
			  total(n, op, op->result, op->results) < 0))
		op = NULL;
	p->op[n->id] = op;
	p->first_vertex[n->id] = p->vertices;
	p->first_in[n->id] = b->ins;
	p->first_out[n->id] = b->outs;
	if (op) {
		for (int i = 0; i < op->attrs; i++)
			add_attr_vertices(b, n, &op->attr[i], i);
		p->in_vertex =
			add_ports(b, n, op->arg, op->args, p->in_vertex, &b->ins, &b->in_cap);
		p->out_vertex = add_ports(
			b, n, op->result, op->results, p->out_vertex, &b->outs, &b->out_cap);
	}
	for (int32_t i = 0; !op && i < n->outs; i++) {
		p->out_vertex = ht_grow(
			p->arena, p->out_vertex, b->outs, &b->out_cap, sizeof *p->out_vertex);
		p->out_vertex[b->outs++] = HT_NO_VERTEX;
	}
	p->vertex_end[n->id] = p->vertices;
	p->out_end[n->id] = b->outs;
}

/* ---- edges ---- */

int32_t ht_paint_result(const struct ht_paint_graph *p, struct ht_value v)
{
	const struct ht_tf_op *op = p->op[v.node->id];
	int32_t before = 0;

	if (!v.port.n)
		return v.index;
	for (int i = 0; op && i < op->results; i++) {
		int32_t count = arg_count(v.node, op, &op->result[i]);
		if (ht_str_is(v.port, op->result[i].name))
			return v.index >= 0 && v.index < count ? before + v.index : -1;
		before += count;
	}
	return -1;
}

uint32_t ht_paint_source(const struct ht_paint_graph *p, struct ht_value v)
{
	int32_t i = ht_paint_result(p, v);
	uint32_t id = v.node->id;

	if (i < 0 || (uint32_t)i >= p->out_end[id] - p->first_out[id])
		return HT_NO_VERTEX;
	return p->out_vertex[p->first_out[id] + (uint32_t)i];
}

/* Calls `edge` for every edge between two vertices. */
static void each_edge(struct ht_paint_graph *p,
	void (*edge)(struct ht_paint_graph *p, uint32_t from, uint32_t to))
{
	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		if (!p->op[n->id])
			continue;
		for (int32_t i = 0; i < n->ins; i++) {
			uint32_t from = ht_paint_source(p, n->in[i]);
			if (from != HT_NO_VERTEX)
				edge(p, from, p->in_vertex[p->first_in[n->id] + (uint32_t)i]);
		}
	}
}

static void count_edge(struct ht_paint_graph *p, uint32_t from, uint32_t to)
{
	p->fanout_start[from]++;
	p->fanin_start[to]++;
}

static void fill_edge(struct ht_paint_graph *p, uint32_t from, uint32_t to)
{
	p->fanout[--p->fanout_start[from]] = to;
	p->fanin[--p->fanin_start[to]] = from;
}

/* Turns counts into ends; filling the lists then moves them down to the starts. */
static uint32_t sums(uint32_t *start, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		start[i] = sum += start[i];
	return start[n] = sum;
}

static void add_edges(struct ht_paint_graph *p)
{
	uint32_t edges;

	p->fanin_start = HT_NEW_ARRAY(p->arena, uint32_t, (size_t)p->vertices + 1);
	p->fanout_start = HT_NEW_ARRAY(p->arena, uint32_t, (size_t)p->vertices + 1);
	each_edge(p, count_edge);
	edges = sums(p->fanin_start, p->vertices);
	sums(p->fanout_start, p->vertices);
	p->fanin = HT_NEW_ARRAY(p->arena, uint32_t, edges);
	p->fanout = HT_NEW_ARRAY(p->arena, uint32_t, edges);
	each_edge(p, fill_edge);
}

void ht_paint_graph_build(struct ht_paint_graph *p, struct ht_graph *g, struct ht_arena *a)
{
	struct build *b = HT_NEW(a, struct build);

	*p = (struct ht_paint_graph){ .graph = g, .arena = a };
	b->p = p;
	p->op = HT_NEW_ARRAY(a, const struct ht_tf_op *, g->ids);
	p->first_vertex = HT_NEW_ARRAY(a, uint32_t, g->ids);
	p->vertex_end = HT_NEW_ARRAY(a, uint32_t, g->ids);
	p->first_in = HT_NEW_ARRAY(a, uint32_t, g->ids);
	p->first_out = HT_NEW_ARRAY(a, uint32_t, g->ids);
	p->out_end = HT_NEW_ARRAY(a, uint32_t, g->ids);
	for (struct ht_node *n = g->first; n; n = n->next)
		add_node(b, n);
	p->outs = b->outs;
	add_edges(p);
}

/* ---- the types that an op accepts ---- */

bool ht_paint_allows(const struct ht_paint_graph *p, uint32_t v, enum ht_dtype low)
{
	const struct ht_vertex *at = &p->vertex[v];
	const struct ht_tf_attr *attr;

	if (at->attr < 0)
		return at->dtype == low;
	attr = &p->op[at->node->id]->attr[at->attr];
	return low == HT_F16 ? attr->f16 : attr->bf16;
}

/* Whether "A|B" contains the word. */
static bool has_word(const char *words, struct ht_str word)
{
	while (*words) {
		size_t n = strcspn(words, "|");
		if (ht_str_eq((struct ht_str){ words, n }, word))
			return true;
		words += n + (words[n] == '|');
	}
	return false;
}

static bool is_met(const struct ht_paint_graph *p, const struct ht_tf_need *need, uint32_t changed,
	enum ht_dtype low)
{
	const struct ht_node *n = p->vertex[changed].node;

	if (need->attr < 0) {
		/* If it is absent, the definition's default applies, which every kernel with
		 * such a restriction accepts. */
		struct ht_str text = ht_attr_str(n, need->name, "");
		return !text.n || has_word(need->text, text);
	}
	for (uint32_t v = p->first_vertex[n->id]; v < p->vertex_end[n->id]; v++) {
		enum ht_dtype t = v == changed ? low : (enum ht_dtype)p->vertex[v].dtype;
		if (p->vertex[v].attr == need->attr && !(need->types >> t & 1))
			return false;
	}
	return true;
}

bool ht_paint_kernel(const struct ht_paint_graph *p, uint32_t v, enum ht_dtype low, unsigned device)
{
	const struct ht_tf_op *op = p->op[p->vertex[v].node->id];

	for (int k = 0; p->vertex[v].attr >= 0 && k < op->kernels; k++) {
		const struct ht_tf_kernel *kernel = &op->kernel[k];
		int met = 0;
		if (!(kernel->devices & device))
			continue;
		while (met < kernel->needs && is_met(p, &kernel->need[met], v, low))
			met++;
		if (met == kernel->needs)
			return true;
	}
	return false;
}
