/* Graphs → GraphDef, in wire or text form, node by node.  Large constants are not copied. */
#include "frontend/export.h"

#include <inttypes.h>

#define FLUSH_BYTES ((size_t)1 << 20)

static bool is_formal(const struct ht_function *f, const struct ht_node *n)
{
	for (const struct ht_port *p = f->args; p; p = p->next)
		if (p->value.node == n)
			return true;
	return false;
}

/* A value as NodeDef.input and FunctionDef.ret name it. */
static void put_ref(struct ht_buf *b, const struct ht_value *v)
{
	const struct ht_function *f = v->node->graph->function;
	struct ht_str port = v->port;
	int32_t index = v->index;

	ht_put_str(b, v->node->name);
	if (f && ht_is(v->node, HT_ARGUMENT))
		return;
	if (f && !port.n && ht_node_result_count(v->node) >= 0)
		port = ht_node_result_name(v->node, v->index, &index);
	if (f && port.n)
		ht_printf(b, ":%.*s:%" PRId32, HT_STR_ARG(port), index);
	else if (index || f)
		ht_printf(b, ":%" PRId32, index);
}

static void put_inputs(struct ht_pb_writer *w, const struct ht_node *n)
{
	struct ht_pb_open_message m;

	for (int32_t i = 0; i < n->ins; i++) {
		m = ht_pb_begin(w, 3);
		put_ref(&w->buf, &n->in[i]);
		ht_pb_end(w, m);
	}
	for (int32_t i = 0; i < n->controls; i++) {
		m = ht_pb_begin(w, 3);
		ht_putc(&w->buf, '^');
		ht_put_str(&w->buf, n->control[i]->name);
		ht_pb_end(w, m);
	}
}

void ht_export_node(struct ht_pb_writer *w, uint32_t number, const struct ht_node *n, bool weights)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number);

	ht_pb_put_bytes(w, 1, n->name);
	ht_pb_put_bytes(w, 2, n->type);
	put_inputs(w, n);
	if (n->device.n)
		ht_pb_put_bytes(w, 4, n->device);
	ht_export_attrs(w, 5, n->attrs, weights);
	if (n->extra)
		ht_pb_put_raw(w, *n->extra);
	ht_pb_end(w, m);
}

static void put_pair(
	struct ht_pb_writer *w, uint32_t number, struct ht_str key, const struct ht_value *v)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number), value;

	ht_pb_put_bytes(w, 1, key);
	value = ht_pb_begin(w, 2);
	if (v->index < 0)
		ht_put_str(&w->buf, v->node->name);
	else
		put_ref(&w->buf, v);
	ht_pb_end(w, value);
	ht_pb_end(w, m);
}

/* ---- signatures: kept as they were read, except float arguments that a policy changed, and
 * variables that became values ---- */

static bool is_policy_float(enum ht_dtype t)
{
	return t == HT_F32 || ht_is_low(t);
}

static bool may_become(enum ht_dtype stated, enum ht_dtype now)
{
	if (stated == HT_RESOURCE)
		return now != HT_RESOURCE && now != HT_INVALID;
	return stated != now && is_policy_float(stated) && is_policy_float(now);
}

static enum ht_dtype type_of_port(const struct ht_port *p)
{
	const struct ht_value *v = p ? &p->value : NULL;

	if (!v || v->port.n || v->index < 0 || v->index >= v->node->outs)
		return HT_INVALID;
	return ht_type_of(*v)->dtype;
}

/* Writes an argument or result; true: its value no longer has the type that it states. */
static bool put_formal(
	struct ht_pb_writer *w, struct ht_pb_reader r, uint32_t number, const struct ht_port *p)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number);
	enum ht_dtype now = type_of_port(p);
	bool differs = false;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 3 && may_become((enum ht_dtype)v.u, now)) {
			ht_pb_put_varint(w, 3, now);
			differs = true;
		} else {
			ht_pb_put_raw(w, v.record);
		}
	}
	ht_pb_end(w, m);
	return differs;
}

static bool put_formals(struct ht_pb_writer *w, const struct ht_function *f)
{
	struct ht_pb_source src = { .p = (const uint8_t *)f->signature.p,
		.n = f->signature.n,
		.translated = true,
		.depth = 4 };
	struct ht_pb_reader r = ht_pb_open(&src, HT_PB_OpDef);
	const struct ht_port *arg = f->args, *ret = f->rets;
	bool differs = false;
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		const struct ht_port **port = v.number == 2 ? &arg : &ret;
		if (v.number != 2 && v.number != 3) {
			ht_pb_put_raw(w, v.record);
			continue;
		}
		differs |= put_formal(w, ht_pb_enter(&r, &v), v.number, *port);
		*port = *port ? (*port)->next : NULL;
	}
	return differs;
}

/* Whether a pass made the function: its signature follows from its ports. */
static bool is_made(const struct ht_function *f)
{
	return !f->signature.n;
}

/* The name of result `i`. Passes name ports after nodes, and a node may be returned several
 * times. */
static struct ht_str name_of_result(
	const struct ht_pb_writer *w, const struct ht_function *f, const struct ht_port *p, int i)
{
	return is_made(f) ? ht_str_printf(w->buf.arena, "result%d", i) : p->name;
}

static void put_made_formal(
	struct ht_pb_writer *w, uint32_t number, struct ht_str name, const struct ht_port *p)
{
	struct ht_pb_open_message m = ht_pb_begin(w, number);

	ht_pb_put_bytes(w, 1, name);
	ht_pb_put_varint(w, 3, type_of_port(p));
	ht_pb_end(w, m);
}

static void put_made_signature(struct ht_pb_writer *w, const struct ht_function *f)
{
	struct ht_pb_open_message m = ht_pb_begin(w, 1);
	int i = 0;

	ht_pb_put_bytes(w, 1, f->name);
	for (const struct ht_port *p = f->args; p; p = p->next)
		put_made_formal(w, 2, p->value.node->name, p);
	for (const struct ht_port *p = f->rets; p; p = p->next, i++)
		put_made_formal(w, 3, name_of_result(w, f, p, i), p);
	ht_pb_end(w, m);
}

static void put_signature(struct ht_pb_writer *w, const struct ht_function *f)
{
	struct ht_pb_writer changed;

	if (is_made(f)) {
		put_made_signature(w, f);
		return;
	}
	ht_pb_writer_init(&changed, w->buf.arena);
	ht_pb_put_bytes(w, 1, put_formals(&changed, f) ? ht_buf_str(&changed.buf) : f->signature);
}

static void put_function(struct ht_pb_writer *w, const struct ht_function *f, bool weights)
{
	struct ht_pb_open_message m = ht_pb_begin(w, 1);
	int i = 0;

	put_signature(w, f);
	for (const struct ht_node *n = f->body->first; n; n = n->next)
		if (!ht_is(n, HT_ARGUMENT) || !is_formal(f, n))
			ht_export_node(w, 3, n, weights);
	for (const struct ht_port *p = f->rets; p; p = p->next, i++)
		put_pair(w, 4, name_of_result(w, f, p, i), &p->value);
	ht_export_attrs(w, 5, f->attrs, weights);
	for (const struct ht_port *p = f->control_rets; p; p = p->next)
		put_pair(w, 6, p->name, &p->value);
	ht_pb_put_raw(w, f->extra);
	ht_pb_end(w, m);
}

/* The extra fields of a GraphDef that are, or are not, its library. */
static bool put_extra(struct ht_pb_writer *w, const struct ht_graph *g, bool library)
{
	struct ht_pb_source src = {
		.p = (const uint8_t *)g->extra.p, .n = g->extra.n, .translated = true, .depth = 2
	};
	struct ht_pb_reader r = ht_pb_open(&src, HT_PB_GraphDef);
	struct ht_pb_value v;
	bool any = false;

	while (ht_pb_next(&r, &v)) {
		if ((v.number == 2) != library)
			continue;
		any = true;
		if (w)
			ht_pb_put_raw(w, library ? v.s : v.record);
	}
	return any;
}

void ht_export_library(struct ht_pb_writer *w, const struct ht_graph *g, bool weights)
{
	struct ht_pb_open_message m;

	if (!g->functions && !put_extra(NULL, g, true))
		return;
	m = ht_pb_begin(w, 2);
	for (const struct ht_function *f = g->functions; f; f = f->next)
		put_function(w, f, weights);
	put_extra(w, g, true);
	ht_pb_end(w, m);
}

void ht_export_rest(struct ht_pb_writer *w, const struct ht_graph *g)
{
	if (g->versions.n)
		ht_pb_put_bytes(w, 4, g->versions);
	put_extra(w, g, false);
}

void ht_export_graph(struct ht_pb_writer *w, const struct ht_graph *g, bool weights)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		ht_export_node(w, 1, n, weights);
	ht_export_library(w, g, weights);
	ht_export_rest(w, g);
}

/* ---- to a sink ---- */

struct output {
	enum ht_export_form form;
	struct ht_diags *diags;
	ht_export_sink *sink;
	void *self;
	struct ht_pb_writer w;
	struct ht_arena one; /* for one record, in text form */
};

/* Passes the records of message `t` that were written so far to the sink; `indent` is their
 * depth in the text. */
static enum ht_status flush(struct output *o, enum ht_pb_type t, int indent)
{
	enum ht_status st;
	struct ht_buf text;

	if (o->form == HT_EXPORT_WIRE) {
		st = ht_pb_flush(&o->w, o->sink, o->self);
	} else {
		ht_buf_init(&text, &o->one);
		st = ht_pb_print(ht_pb_flatten(&o->w, &o->one), t, indent, o->diags, &text);
		if (st == HT_OK && text.n)
			st = o->sink(o->self, text.p, text.n);
		ht_arena_release(&o->one);
	}
	ht_pb_writer_clear(&o->w);
	return st;
}

static enum ht_status export_records(struct output *o, const struct ht_graph *g, int indent)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		ht_export_node(&o->w, 1, n, true);
		if (o->form == HT_EXPORT_TEXT || ht_pb_writer_bytes(&o->w) > FLUSH_BYTES)
			HT_TRY(flush(o, HT_PB_GraphDef, indent));
	}
	ht_export_library(&o->w, g, true);
	ht_export_rest(&o->w, g);
	return flush(o, HT_PB_GraphDef, indent);
}

static void release(void *arena)
{
	ht_arena_release(arena);
}

static struct output *output_new(enum ht_export_form form, struct ht_arena *work,
	struct ht_diags *d, ht_export_sink *sink, void *self)
{
	struct output *o = HT_NEW(work, struct output);

	*o = (struct output){ .form = form, .diags = d, .sink = sink, .self = self };
	ht_arena_init(&o->one, work->unwind);
	ht_arena_defer(work, release, &o->one);
	ht_pb_writer_init(&o->w, work);
	return o;
}

enum ht_status ht_export_graphdef_to(const struct ht_graph *g, enum ht_export_form form,
	struct ht_arena *work, struct ht_diags *d, ht_export_sink *sink, void *self)
{
	return export_records(output_new(form, work, d, sink, self), g, 0);
}

/* ---- in a MetaGraphDef or SavedModel ---- */

static struct ht_pb_reader container_reader(
	const struct ht_graph *g, struct ht_pb_source *src, enum ht_pb_type t)
{
	*src = (struct ht_pb_source){
		.p = (const uint8_t *)g->container.p,
		.n = g->container.n,
		.translated = true,
		.depth = 200,
	};
	return ht_pb_open(src, t);
}

static void put_metagraph(struct ht_pb_writer *w, const struct ht_graph *g, struct ht_str rest)
{
	struct ht_pb_open_message graph;

	ht_pb_put_raw(w, rest);
	graph = ht_pb_begin(w, 2);
	ht_export_graph(w, g, true);
	ht_pb_end(w, graph);
}

static void put_savedmodel(struct ht_pb_writer *w, const struct ht_graph *g)
{
	struct ht_pb_open_message meta;
	struct ht_pb_source src;
	struct ht_pb_reader r = container_reader(g, &src, HT_PB_SavedModel);
	const uint8_t *chosen = ht_savedmodel_choose(r); /* the same one as when it was read */
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.at != chosen) {
			ht_pb_put_raw(w, v.record);
			continue;
		}
		meta = ht_pb_begin(w, 2);
		put_metagraph(w, g, v.s);
		ht_pb_end(w, meta);
	}
}

/* The lengths at the front require the whole graph first; its large pieces are not copied. */
enum ht_status ht_export_container_to(const struct ht_graph *g, enum ht_export_form form,
	struct ht_arena *work, struct ht_diags *d, ht_export_sink *sink, void *self)
{
	struct output *o = output_new(form, work, d, sink, self);

	switch (g->source) {
	case HT_SOURCE_METAGRAPH:
		put_metagraph(&o->w, g, g->container);
		return flush(o, HT_PB_MetaGraphDef, 0);
	case HT_SOURCE_SAVEDMODEL:
		put_savedmodel(&o->w, g);
		return flush(o, HT_PB_SavedModel, 0);
	default:
		return export_records(o, g, 0);
	}
}

/* ---- to a buffer ---- */

static enum ht_status to_buffer(void *buf, const void *p, size_t n)
{
	ht_put(buf, p, n);
	return HT_OK;
}

enum ht_status ht_export_graphdef(
	const struct ht_graph *g, enum ht_export_form form, struct ht_diags *d, struct ht_buf *out)
{
	return ht_export_graphdef_to(g, form, out->arena, d, to_buffer, out);
}

enum ht_status ht_export_container(
	const struct ht_graph *g, enum ht_export_form form, struct ht_diags *d, struct ht_buf *out)
{
	return ht_export_container_to(g, form, out->arena, d, to_buffer, out);
}
