/* GraphDef → graph: nodes in the order of the file first, then their edges, then the order in which
 * operands come first.  Time and memory are linear in the file. */
#include "frontend/graphdef.h"

#include <inttypes.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- nodes ---- */

struct node_fields {
	struct ht_str name, op, device;
	struct ht_attr *attrs, **attrs_end;
	struct ht_buf extra;
};

static enum ht_status read_fields(
	struct ht_importer *im, struct ht_pb_reader r, struct node_fields *f)
{
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		switch (v.number) {
		case 1:
			HT_TRY(ht_pb_string(&r, &v, &f->name));
			break;
		case 2:
			HT_TRY(ht_pb_string(&r, &v, &f->op));
			break;
		case 3: /* read later, when all nodes are known */
			break;
		case 4:
			HT_TRY(ht_pb_string(&r, &v, &f->device));
			break;
		case 5:
			HT_TRY(ht_import_attr_entry(im, ht_pb_enter(&r, &v), &f->attrs_end));
			break;
		default:
			HT_TRY(ht_pb_keep(&r, &v, &f->extra));
		}
	}
	return r.status;
}

/* Whether other nodes can refer to this name: "^a" and "a:0" have another meaning, and C strings
 * end at a NUL. */
static bool is_name(struct ht_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ':' || (unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			return false;
	return s.p[0] != '^';
}

static enum ht_status node_error(const struct ht_pb_source *src, const void *at,
	const struct node_fields *f, const char *what)
{
	struct ht_where w = ht_pb_where(src, at);

	w.node = f->name;
	w.op = f->op;
	return ht_error(src->diags, HT_E_INPUT, w, "%s", what);
}

enum ht_status ht_import_node(
	struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r, const uint8_t *at)
{
	struct node_fields f = { 0 };
	struct ht_node *n;
	enum ht_status st;

	if (im->nodes >= im->limit.nodes)
		return ht_pb_error(r.src, at, HT_E_LIMIT, "more than %zu nodes", im->limit.nodes);
	im->nodes++;
	f.attrs_end = &f.attrs;
	ht_buf_init(&f.extra, im->a);
	st = read_fields(im, r, &f);
	if (st != HT_OK) {
		if (f.name.n && r.status == HT_OK)
			ht_note(im->diags, HT_NOWHERE, "while reading node '%.*s' (%.*s)",
				HT_STR_ARG(f.name), HT_STR_ARG(f.op));
		return st;
	}
	if (!f.name.n)
		return node_error(r.src, at, &f, "a node has no name");
	if (!is_name(f.name))
		return node_error(r.src, at, &f, "a node's name cannot have such characters");
	if (!f.op.n)
		return node_error(r.src, at, &f, "the node has no op");
	if (ht_graph_node(g, f.name))
		return node_error(r.src, at, &f, "a second node of this name");
	HT_TRY(ht_import_check_attrs(im, f.attrs, r.src, at));
	n = ht_node_new(g, f.op, f.name);
	n->device = ht_import_word(im, f.device);
	n->attrs = f.attrs;
	if (f.extra.n)
		n->extra = ht_str_kept(im->a, ht_buf_str(&f.extra));
	return HT_OK;
}

/* ---- edges ---- */

static bool parse_number(struct ht_str s, int32_t *n)
{
	int64_t value = 0;

	if (!s.n || s.n > 10 || (s.p[0] == '0' && s.n > 1))
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		value = value * 10 + (s.p[i] - '0');
	}
	*n = (int32_t)value;
	return value < INT32_MAX;
}

/* Takes the last ":…" off the end of `s`. */
static bool split_last(struct ht_str *s, struct ht_str *last)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->p[i] != ':')
			continue;
		*last = (struct ht_str){ s->p + i + 1, s->n - i - 1 };
		s->n = i;
		return true;
	}
	return false;
}

static enum ht_status ref_error(
	const struct ht_import_edges *e, struct ht_where at, struct ht_str ref, const char *what)
{
	return ht_error(e->im->diags, HT_E_INPUT, at, "input '%.*s': %s", HT_STR_ARG(ref), what);
}

/* Result `index` of a known node, or result `index` of its formal `port`. */
static enum ht_status resolve_result(
	struct ht_import_edges *e, struct ht_str ref, struct ht_where at, struct ht_value *v)
{
	int32_t count = ht_node_result_count(v->node), flat;

	if (v->port.n && count >= 0) {
		flat = ht_node_result_named(v->node, v->port, v->index);
		if (flat < 0)
			return ht_error(e->im->diags, HT_E_INPUT, at,
				"input '%.*s': '%.*s' (%.*s) has no such result", HT_STR_ARG(ref),
				HT_STR_ARG(v->node->name), HT_STR_ARG(v->node->type));
		*v = ht_out(v->node, flat);
	}
	if (count >= 0 && v->index >= count)
		return ht_error(e->im->diags, HT_E_INPUT, at,
			"input '%.*s': '%.*s' (%.*s) has %" PRId32 " result%s", HT_STR_ARG(ref),
			HT_STR_ARG(v->node->name), HT_STR_ARG(v->node->type), count,
			count == 1 ? "" : "s");
	if (count < 0 && v->index >= 1000000)
		return ref_error(e, at, ref, "no op has so many results");
	if (v->index >= e->outs[v->node->id])
		e->outs[v->node->id] = v->index + 1;
	return HT_OK;
}

enum ht_status ht_import_ref(
	struct ht_import_edges *e, struct ht_str ref, struct ht_where at, struct ht_value *out)
{
	struct ht_str name = ref, last, port = { 0 };
	bool function = e->g->function != NULL;

	*out = (struct ht_value){ .node = ht_graph_node(e->g, name) };
	if (out->node)
		return resolve_result(e, ref, at, out);
	if (split_last(&name, &last)) {
		if (!parse_number(last, &out->index)) {
			if (!function || !last.n)
				return ref_error(e, at, ref, "expected a number behind ':'");
			port = last; /* "node:port" is its first tensor */
		} else if (function && split_last(&name, &last)) {
			port = last;
			if (!port.n)
				return ref_error(e, at, ref, "expected a result's name behind ':'");
		}
		out->node = ht_graph_node(e->g, name);
	}
	if (!out->node)
		return ref_error(e, at, ref, "there is no such node");
	if (port.n)
		out->port = ht_import_word(e->im, port);
	return resolve_result(e, ref, at, out);
}

static enum ht_status read_inputs(
	struct ht_import_edges *e, struct ht_node *n, struct ht_pb_reader r)
{
	struct ht_pb_reader again = r;
	struct ht_where at = HT_NOWHERE;
	struct ht_node **control;
	struct ht_value *in;
	struct ht_pb_value v;
	struct ht_str s;
	size_t count = 0, controls = 0;

	while (ht_pb_next(&r, &v)) {
		count += v.number == 3;
		controls += v.number == 3 && ht_str_starts(v.s, "^");
	}
	if (r.status != HT_OK)
		return r.status;
	if (count > e->im->limit.node_inputs)
		return ht_pb_error(r.src, again.p, HT_E_LIMIT, "%zu inputs; the limit is %zu",
			count, e->im->limit.node_inputs);
	if (!count)
		return HT_OK;
	in = count > controls ? HT_NEW_ARRAY(e->im->a, struct ht_value, count - controls) : NULL;
	control = controls ? HT_NEW_ARRAY(e->im->a, struct ht_node *, controls) : NULL;
	while (ht_pb_next(&again, &v)) {
		if (v.number != 3)
			continue;
		at = ht_pb_where(e->src, v.at);
		at.node = n->name;
		at.op = n->type;
		HT_TRY(ht_pb_string(&again, &v, &s));
		if (s.n && s.p[0] == '^') {
			control[n->controls] =
				ht_graph_node(e->g, (struct ht_str){ s.p + 1, s.n - 1 });
			if (!control[n->controls++])
				return ref_error(e, at, s, "there is no such node");
		} else if (n->controls) {
			return ref_error(e, at, s, "stands behind a control input");
		} else {
			HT_TRY(ht_import_ref(e, s, at, &in[n->ins++]));
		}
	}
	n->in = in;
	n->control = control;
	return again.status;
}

/* Opaque nodes get as many results as other nodes use. */
static enum ht_status set_results(struct ht_import_edges *e)
{
	int32_t count;

	for (struct ht_node *n = e->g->first; n; n = n->next) {
		count = ht_node_result_count(n);
		if (count < 0)
			count = e->outs[n->id];
		if (!ht_importer_charge(e->im, (size_t)count, sizeof *n->out)) {
			struct ht_where at = HT_NOWHERE;

			at.path = e->src->path;
			at.node = n->name;
			at.op = n->type;
			return ht_error(e->im->diags, HT_E_LIMIT, at,
				"%" PRId32 " results are more than this file may ask for", count);
		}
		if (count > n->outs)
			ht_node_set_outs(n, count);
	}
	return HT_OK;
}

enum ht_status ht_import_inputs(struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r,
	uint32_t number, struct ht_node *first)
{
	struct ht_import_edges e = { .im = im, .g = g, .src = r.src };
	struct ht_node *n = first;
	struct ht_pb_value v;

	e.outs = HT_NEW_ARRAY(im->scratch, int32_t, g->ids);
	while (ht_pb_next(&r, &v)) {
		if (v.number != number)
			continue;
		HT_TRY(read_inputs(&e, n, ht_pb_enter(&r, &v)));
		n = n->next;
	}
	return r.status == HT_OK ? set_results(&e) : r.status;
}

/* ---- the library ---- */

/* Reads functions into the graph; the other fields of the library are kept as a library without
 * functions. */
static enum ht_status read_library(
	struct ht_importer *im, struct ht_graph *g, struct ht_pb_reader r, struct ht_buf *extra)
{
	struct ht_buf rest;
	struct ht_pb_value v;

	ht_buf_init(&rest, im->a);
	if (!g->function_names.cap)
		ht_map_reserve(&g->function_names,
			least(ht_pb_count(r, 1), im->limit.functions - im->functions));
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1)
			HT_TRY(ht_import_function(im, g, ht_pb_enter(&r, &v), v.at));
		else
			HT_TRY(ht_pb_keep(&r, &v, &rest));
	}
	ht_pb_varint(extra, 2 << 3 | HT_WIRE_BYTES);
	ht_pb_varint(extra, rest.n);
	ht_put_str(extra, ht_buf_str(&rest));
	return r.status;
}

void ht_import_expect_nodes(const struct ht_importer *im, struct ht_graph *g, size_t nodes)
{
	ht_map_reserve(&g->names, least(nodes, im->limit.nodes - im->nodes));
}

enum ht_status ht_import_graphdef(struct ht_importer *im, struct ht_pb_reader r, struct ht_graph *g)
{
	struct ht_pb_reader again = r;
	struct ht_buf extra;
	struct ht_pb_value v;

	if (r.status != HT_OK)
		return r.status;
	ht_buf_init(&extra, im->a);
	ht_import_expect_nodes(im, g, ht_pb_count(r, 1));
	while (ht_pb_next(&r, &v)) {
		if (v.number == 1) {
			HT_TRY(ht_import_node(im, g, ht_pb_enter(&r, &v), v.at));
		} else if (v.number == 2) {
			HT_TRY(read_library(im, g, ht_pb_enter(&r, &v), &extra));
		} else if (v.number == 4 && v.s.n && !g->versions.n) {
			struct ht_buf checked;

			ht_buf_init(&checked, im->scratch);
			HT_TRY(ht_pb_keep(&r, &v, &checked));
			g->versions = ht_str_copy(im->a, v.s);
		} else {
			HT_TRY(ht_pb_keep(&r, &v, &extra));
		}
	}
	if (r.status != HT_OK)
		return r.status;
	if (extra.n)
		g->extra = ht_buf_str(&extra);
	HT_TRY(ht_import_inputs(im, g, again, 1, g->first));
	HT_TRY(ht_graph_sort(g, im->diags));
	return HT_OK;
}
