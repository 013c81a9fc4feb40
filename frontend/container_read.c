/* MetaGraphDef and SavedModel: reads the graph inside, and the signatures as entries.  The rest
 * of the message is kept unchanged. */
#include "frontend/graphdef.h"

#include <stdlib.h>
#include <string.h>

/* ---- signatures ---- */

struct binding {
	struct ht_str key, tensor;
	struct ht_type type;
	struct binding *next;
	const uint8_t *at;
};

static enum ht_status read_tensor_info(
	struct ht_importer *im, struct ht_pb_reader r, struct binding *b)
{
	struct ht_import_shape shape;
	struct ht_pb_value v;
	uint64_t bits;

	b->type = (struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN };
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			HT_TRY(ht_pb_string(&r, &v, &b->tensor));
		} else if (v.number == 2 && ht_pb_item(&r, &v, &bits)) {
			b->type.dtype = (enum ht_dtype)(int32_t)bits;
		} else if (v.number == 3) {
			HT_TRY(ht_import_shape(im, ht_pb_enter(&r, &v), &shape));
			b->type.shape = shape.shape;
		}
	}
	return r.status;
}

/* Reads a map<string, TensorInfo>, in the order of its keys, since a map has no order of its
 * own. */
static enum ht_status read_binding(
	struct ht_importer *im, struct ht_pb_reader r, struct binding **list)
{
	struct binding *b = HT_NEW(im->a, struct binding);
	struct ht_pb_value v;

	b->at = r.p;
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1)
			HT_TRY(ht_pb_string(&r, &v, &b->key));
		else if (v.number == 2)
			HT_TRY(read_tensor_info(im, ht_pb_enter(&r, &v), b));
	}
	while (*list && ht_str_cmp((*list)->key, b->key) < 0)
		list = &(*list)->next;
	b->next = *list;
	*list = b;
	return r.status;
}

static struct ht_str without_zero(struct ht_str s)
{
	if (ht_str_ends(s, ":0"))
		s.n -= 2;
	return s;
}

static struct ht_str alias_of(struct ht_importer *im, struct ht_str name, struct ht_str key)
{
	return ht_str_eq(name, key) ? (struct ht_str){ 0 } : ht_str_copy(im->a, key);
}

/* Ports have the names of their tensors, and the signature's keys as second names. */
static enum ht_status bind(struct ht_importer *im, struct ht_graph *g, const struct binding *b,
	const struct ht_pb_source *src, struct ht_str signature, struct ht_port **end)
{
	struct ht_port *p;

	for (; b; b = b->next) {
		p = HT_NEW(im->a, struct ht_port);
		if (!b->tensor.n) {
			ht_warn(im->diags, ht_pb_where(src, b->at),
				"signature '%.*s': '%.*s' is no plain tensor; left out",
				HT_STR_ARG(signature), HT_STR_ARG(b->key));
			continue;
		}
		/* The op is run for its effect, such as initialising tables. */
		p->value.node = ht_graph_node(g, b->tensor);
		if (p->value.node && !ht_node_result_count(p->value.node))
			continue;
		if (!ht_entry_value(g, b->tensor, &p->value))
			return ht_pb_error(src, b->at, HT_E_INPUT,
				"signature '%.*s': '%.*s' is '%.*s', which the graph does not have",
				HT_STR_ARG(signature), HT_STR_ARG(b->key), HT_STR_ARG(b->tensor));
		/* If a tensor in the middle of the graph is fed, only the signature may have its
		 * shape. */
		if (b->type.dtype && !ht_type_of(p->value)->dtype)
			*ht_type_of(p->value) = b->type;
		p->name = ht_str_copy(im->a, without_zero(b->tensor));
		p->alias = alias_of(im, p->name, b->key);
		*end = p;
		end = &p->next;
	}
	return HT_OK;
}

static enum ht_status read_signature(struct ht_importer *im, struct ht_graph *g,
	struct ht_pb_reader r, struct ht_str key, struct ht_entry ***end)
{
	struct binding *inputs = NULL, *outputs = NULL;
	struct ht_entry *e = HT_NEW(im->a, struct ht_entry);
	struct ht_pb_value v;
	struct ht_str s;

	e->name = ht_str_copy(im->a, key);
	e->method = HT_STR("");
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			HT_TRY(read_binding(im, ht_pb_enter(&r, &v), &inputs));
		} else if (v.number == 2) {
			HT_TRY(read_binding(im, ht_pb_enter(&r, &v), &outputs));
		} else if (v.number == 3) {
			HT_TRY(ht_pb_string(&r, &v, &s));
			e->method = ht_str_copy(im->a, s);
		}
	}
	if (r.status != HT_OK)
		return r.status;
	HT_TRY(bind(im, g, inputs, r.src, key, &e->inputs));
	HT_TRY(bind(im, g, outputs, r.src, key, &e->outputs));
	**end = e;
	*end = &e->next;
	return HT_OK;
}

static enum ht_status read_signatures(
	struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r)
{
	struct ht_pb_value v, part, value;
	struct ht_entry **end = &g->entries;
	struct ht_pb_reader entry;
	struct ht_str key;

	while (ht_pb_next(&r, &v)) {
		if (v.number != 5)
			continue;
		entry = ht_pb_enter(&r, &v);
		key = HT_STR("");
		value = (struct ht_pb_value){ 0 };
		while (ht_pb_next(&entry, &part)) {
			if (part.number == 1)
				HT_TRY(ht_pb_string(&entry, &part, &key));
			else if (part.number == 2)
				value = part;
		}
		if (entry.status != HT_OK)
			return entry.status;
		if (value.field)
			HT_TRY(read_signature(im, g, ht_pb_enter(&entry, &value), key, &end));
	}
	return r.status;
}

/* Ranks entries for inference; a smaller number is better. */
static int rank_of(const struct ht_entry *e)
{
	if (ht_str_is(e->name, "serving_default"))
		return 0;
	if (!e->outputs || ht_str_starts(e->name, "__"))
		return 3;
	return e->inputs ? 1 : 2;
}

struct placed {
	struct ht_entry *entry;
	size_t at; /* in the file */
};

static int compare_entries(const void *p, const void *q)
{
	const struct placed *a = p, *b = q;
	int x = rank_of(a->entry), y = rank_of(b->entry);

	if (x == y)
		x = ht_str_cmp(a->entry->name, b->entry->name), y = 0;
	return x != y ? (x > y) - (x < y) : (a->at > b->at) - (a->at < b->at);
}

static void sort_entries(struct ht_importer *im, struct ht_graph *g)
{
	struct ht_entry **end = &g->entries;
	struct placed *all;
	size_t n = 0;

	for (const struct ht_entry *e = g->entries; e; e = e->next)
		n++;
	all = HT_NEW_ARRAY(im->a, struct placed, n);
	n = 0;
	for (struct ht_entry *e = g->entries; e; e = e->next, n++)
		all[n] = (struct placed){ e, n };
	qsort(all, n, sizeof *all, compare_entries);
	for (size_t i = 0; i < n; i++) {
		*end = all[i].entry;
		end = &all[i].entry->next;
	}
	*end = NULL;
}

/* ---- MetaGraphDef ---- */

/* Reads the graph into `g`; the rest of the message goes to `rest`. */
static enum ht_status read_metagraph(
	struct ht_importer *im, struct ht_pb_reader r, struct ht_graph *g, struct ht_buf *rest)
{
	struct ht_pb_reader again = r;
	struct ht_pb_value v, graph = { 0 };

	while (ht_pb_next(&r, &v)) {
		if (v.number != 2) {
			HT_TRY(ht_pb_keep(&r, &v, rest));
			continue;
		}
		if (graph.field)
			return ht_pb_error(
				r.src, v.at, HT_E_INPUT, "a MetaGraphDef has two graphs");
		graph = v;
	}
	if (r.status != HT_OK)
		return r.status;
	if (!graph.field)
		return ht_pb_error(r.src, again.p, HT_E_INPUT, "the MetaGraphDef has no graph");
	HT_TRY(ht_import_graphdef(im, ht_pb_enter(&again, &graph), g));
	HT_TRY(read_signatures(im, g, again));
	sort_entries(im, g);
	return HT_OK;
}

enum ht_status ht_import_metagraph(
	struct ht_importer *im, const struct ht_pb_source *src, struct ht_graph *g)
{
	struct ht_buf rest;

	ht_buf_init(&rest, im->a);
	HT_TRY(read_metagraph(im, ht_pb_open(src, HT_PB_MetaGraphDef), g, &rest));
	g->source = HT_SOURCE_METAGRAPH;
	g->container = ht_buf_str(&rest);
	return HT_OK;
}

/* ---- SavedModel ---- */

static bool has_tag(struct ht_pb_reader meta, const char *tag)
{
	struct ht_pb_value v, w;
	struct ht_pb_reader info;

	while (ht_pb_next(&meta, &v)) {
		if (v.number != 1)
			continue;
		info = ht_pb_enter(&meta, &v);
		while (ht_pb_next(&info, &w))
			if (w.number == 4 && ht_str_is(w.s, tag))
				return true;
	}
	return false;
}

const uint8_t *ht_savedmodel_choose(struct ht_pb_reader r)
{
	const uint8_t *first = NULL;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.number != 2)
			continue;
		if (has_tag(ht_pb_enter(&r, &v), "serve"))
			return v.at;
		if (!first)
			first = v.at;
	}
	return first;
}

enum ht_status ht_import_savedmodel(
	struct ht_importer *im, const struct ht_pb_source *src, struct ht_graph *g)
{
	struct ht_pb_reader r = ht_pb_open(src, HT_PB_SavedModel);
	const uint8_t *chosen = ht_savedmodel_choose(r);
	struct ht_buf container, rest;
	struct ht_pb_value v;

	if (!chosen) {
		while (ht_pb_next(&r, &v))
			;
		return r.status != HT_OK ? r.status
					 : ht_pb_error(src, src->p, HT_E_INPUT,
						   "the SavedModel has no graph");
	}
	ht_buf_init(&container, im->a);
	ht_buf_init(&rest, im->a);
	while (ht_pb_next(&r, &v)) {
		if (v.at != chosen) {
			HT_TRY(ht_pb_keep(&r, &v, &container));
			continue;
		}
		HT_TRY(read_metagraph(im, ht_pb_enter(&r, &v), g, &rest));
		ht_pb_varint(&container, 2 << 3 | HT_WIRE_BYTES);
		ht_pb_varint(&container, rest.n);
		ht_put_str(&container, ht_buf_str(&rest));
	}
	g->source = HT_SOURCE_SAVEDMODEL;
	g->container = ht_buf_str(&container);
	return r.status;
}
