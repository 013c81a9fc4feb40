/* Graphs → TF.js graph models: model.json and shards with all constants, in the types in which
 * they are used. */
#include "frontend/export.h"

#include <cjson/cJSON.h>

#include <string.h>

/* TF.js' name of a dtype that it stores in shards; NULL: it has none. */
static const char *shard_dtype(enum ht_dtype t)
{
	switch (t) {
	case HT_F32:
	case HT_F64:
		return "float32";
	case HT_I32:
	case HT_I64:
		return "int32";
	case HT_BOOL:
		return "bool";
	case HT_STRING:
		return "string";
	case HT_C64:
		return "complex64";
	default:
		return NULL;
	}
}

struct writer {
	struct ht_diags *diags;
	struct ht_arena *work;
	struct ht_buf *json;
	ht_export_sink *shard;
	void *self;
};

static enum ht_status put_strings(struct writer *w, const struct ht_tensor *t)
{
	for (size_t i = 0; i < t->values; i++) {
		unsigned char length[4] = { t->strings[i].n & 0xff, t->strings[i].n >> 8 & 0xff,
			t->strings[i].n >> 16 & 0xff, t->strings[i].n >> 24 & 0xff };

		HT_TRY(w->shard(w->self, length, 4));
		if (t->strings[i].n)
			HT_TRY(w->shard(w->self, t->strings[i].p, t->strings[i].n));
	}
	return HT_OK;
}

/* int64 and double become types that TF.js has; a value that does not fit is refused. */
static enum ht_status put_narrowed(
	struct writer *w, const struct ht_node *n, const struct ht_tensor *t)
{
	struct ht_where at = HT_NOWHERE;
	const char *p = t->blob->p;
	int32_t narrow;
	int64_t wide;
	double d;
	float f;

	at.node = n->name;
	at.op = n->type;
	for (size_t i = 0; i < t->blob->n / 8; i++) {
		memcpy(&wide, p + 8 * i, 8);
		memcpy(&d, p + 8 * i, 8);
		narrow = (int32_t)wide;
		f = (float)d;
		if (t->dtype == HT_I64 && narrow != wide)
			return ht_error(w->diags, HT_E_UNSUPPORTED, at,
				"TF.js has no int64, and a value does not fit int32");
		HT_TRY(w->shard(w->self, t->dtype == HT_I64 ? (void *)&narrow : (void *)&f, 4));
	}
	return HT_OK;
}

static enum ht_status put_weight(
	struct writer *w, const struct ht_node *n, const struct ht_tensor *t, bool *first)
{
	const char *dtype = shard_dtype(t->dtype);
	struct ht_where at = HT_NOWHERE;

	at.node = n->name;
	at.op = n->type;
	if (!dtype || (t->dtype == HT_STRING && !t->strings) || (t->dtype != HT_STRING && !t->blob))
		return ht_error(w->diags, HT_E_UNSUPPORTED, at, "TF.js has no constants of type %s",
			ht_dtype_info(t->dtype)->name);
	if (!*first)
		ht_putc(w->json, ',');
	*first = false;
	ht_puts(w->json, "{\"name\":");
	ht_put_json(w->json, n->name);
	ht_puts(w->json, ",\"shape\":[");
	for (int32_t i = 0; i < t->shape.rank; i++)
		ht_printf(w->json, "%s%lld", i ? "," : "", (long long)t->shape.dim[i]);
	ht_printf(w->json, "],\"dtype\":\"%s\"}", dtype);
	if (t->dtype == HT_STRING)
		return put_strings(w, t);
	if (t->dtype == HT_I64 || t->dtype == HT_F64)
		return put_narrowed(w, n, t);
	return t->blob->n ? w->shard(w->self, t->blob->p, t->blob->n) : HT_OK;
}

/* Writes the weights of a function that are stored in a shard; the others are in the function's
 * text. */
static enum ht_status put_weights_of(
	struct writer *w, const struct ht_graph *body, bool function, bool *first)
{
	const struct ht_attr *value;

	for (const struct ht_node *n = body->first; n; n = n->next) {
		value = ht_attr_find(n, "value");
		if (ht_is(n, HT_CONSTANT) && value && value->value.kind == HT_ATTR_TENSOR &&
			(!function || value->value.tensor->form == HT_TENSOR_SHARD))
			HT_TRY(put_weight(w, n, value->value.tensor, first));
	}
	return HT_OK;
}

static enum ht_status put_weights(struct writer *w, const struct ht_graph *g)
{
	bool first = true;

	HT_TRY(put_weights_of(w, g, false, &first));
	for (const struct ht_function *f = g->functions; f; f = f->next)
		HT_TRY(put_weights_of(w, f->body, true, &first));
	return HT_OK;
}

/* Writes a type as TF.js' converter does; open sizes are -1. */
static void put_type(struct ht_buf *json, const struct ht_type *t)
{
	if (t->dtype)
		ht_printf(json, ",\"dtype\":\"%s\"", ht_dtype_info(t->dtype)->proto);
	if (t->shape.rank < 0)
		return;
	ht_puts(json, ",\"tensorShape\":{\"dim\":[");
	for (int32_t i = 0; i < t->shape.rank; i++)
		ht_printf(json, "%s{\"size\":\"%lld\"}", i ? "," : "",
			(long long)(t->shape.dim[i] < 0 ? -1 : t->shape.dim[i]));
	ht_puts(json, "]}");
}

static void put_ports(struct ht_buf *json, const char *what, const struct ht_port *p)
{
	bool first = true;

	ht_printf(json, "\"%s\":{", what);
	for (; p; p = p->next) {
		if (!first)
			ht_putc(json, ',');
		first = false;
		ht_put_json(json, p->name);
		ht_puts(json, ":{\"name\":");
		ht_put_json(json, ht_str_printf(json->arena, "%.*s:%d",
					  HT_STR_ARG(p->value.node->name), (int)p->value.index));
		if (p->value.index < p->value.node->outs)
			put_type(json, ht_type_of(p->value));
		ht_putc(json, '}');
	}
	ht_putc(json, '}');
}

/* Writes the document's other members unchanged, except those that this file writes itself. */
static enum ht_status put_rest(struct writer *w, const struct ht_graph *g)
{
	static const char *const ours[] = { "modelTopology", "weightsManifest", "signature",
		"format" };
	cJSON *document = cJSON_ParseWithLength(g->container.p, g->container.n);
	char *text;

	if (!document)
		return HT_OK;
	for (size_t i = 0; i < HT_COUNT(ours); i++)
		cJSON_DeleteItemFromObjectCaseSensitive(document, ours[i]);
	text = cJSON_PrintUnformatted(document);
	cJSON_Delete(document);
	if (!text)
		return HT_E_ENVIRONMENT;
	if (strlen(text) > 2) {
		ht_put(w->json, text + 1, strlen(text) - 2);
		ht_putc(w->json, ',');
	}
	cJSON_free(text);
	return HT_OK;
}

static void put_signature(struct writer *w, const struct ht_graph *g)
{
	if (!g->entries)
		return;
	ht_puts(w->json, "\"signature\":{");
	put_ports(w->json, "inputs", g->entries->inputs);
	ht_putc(w->json, ',');
	put_ports(w->json, "outputs", g->entries->outputs);
	ht_puts(w->json, "},");
}

/* ---- features that TF.js does not have ---- */

static enum ht_status refuse(struct ht_diags *d, const struct ht_node *n, const char *why)
{
	struct ht_where at = HT_NOWHERE;

	at.node = n->name;
	at.op = n->type;
	return ht_error(d, HT_E_UNSUPPORTED, at, "%s", why);
}

static enum ht_status check_node(struct ht_diags *d, const struct ht_node *n)
{
	if (ht_is(n, HT_VARIABLE))
		return refuse(d, n, "TF.js graph models have no variables; write a .pb");
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		if (a->value.kind == HT_ATTR_TYPE && ht_is_low(a->value.type))
			return refuse(d, n,
				"TF.js computes in float32 alone, and this is float16 or bfloat16; "
				"write a .pb, or take a policy that keeps float32");
	return HT_OK;
}

/* TF.js finds constants of functions by their names among all weights; the names in a TF.js
 * model are suitable. */
static enum ht_status check_function(struct ht_diags *d, const struct ht_graph *body)
{
	for (const struct ht_node *n = body->first; n; n = n->next) {
		const struct ht_attr *value = ht_attr_find(n, "value");

		HT_TRY(check_node(d, n));
		if (ht_is(n, HT_CONSTANT) && value && value->value.kind == HT_ATTR_TENSOR &&
			value->value.tensor->form != HT_TENSOR_SHARD)
			return refuse(d, n,
				"constants of functions are written to TF.js models only where "
				"they came from one; write a .pb");
	}
	return HT_OK;
}

static enum ht_status check(const struct ht_graph *g, struct ht_diags *d)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		HT_TRY(check_node(d, n));
	for (const struct ht_function *f = g->functions; f; f = f->next)
		HT_TRY(check_function(d, f->body));
	return HT_OK;
}

/* ---- the whole ---- */

static enum ht_status count(void *bytes, const void *p, size_t n)
{
	(void)p;
	*(size_t *)bytes += n;
	return HT_OK;
}

enum ht_status ht_tfjs_weight_bytes(
	const struct ht_graph *g, struct ht_arena *work, struct ht_diags *d, size_t *bytes)
{
	struct ht_buf unwanted;
	struct writer w = { d, work, &unwanted, count, bytes };

	*bytes = 0;
	ht_buf_init(&unwanted, work);
	HT_TRY(check(g, d));
	return put_weights(&w, g);
}

/* The versions of a graph that states none: since this producer version, a shape of [] means a
 * scalar. */
static void put_versions(struct ht_pb_writer *w)
{
	struct ht_pb_open_message m = ht_pb_begin(w, 4);

	ht_pb_put_varint(w, 1, 27);
	ht_pb_end(w, m);
}

static void put_paths(struct ht_buf *json, const struct ht_str *name, size_t shards)
{
	for (size_t i = 0; i < shards; i++) {
		if (i)
			ht_putc(json, ',');
		ht_put_json(json, name[i]);
	}
}

enum ht_status ht_export_tfjs(const struct ht_graph *g, const struct ht_str *name, size_t shards,
	struct ht_diags *d, struct ht_buf *json, ht_export_sink *weights, void *self)
{
	struct writer w = { d, json->arena, json, weights, self };
	struct ht_pb_writer graph;

	HT_TRY(check(g, d));
	ht_pb_writer_init(&graph, json->arena);
	ht_export_graph(&graph, g, false);
	if (!g->versions.n && !g->extra.n) /* TF.js reads the field */
		put_versions(&graph);
	ht_puts(json, "{\"format\":\"graph-model\",");
	if (g->source == HT_SOURCE_TFJS)
		HT_TRY(put_rest(&w, g));
	else
		ht_puts(json, "\"generatedBy\":\"Halftone\",\"convertedBy\":\"Halftone\",");
	put_signature(&w, g);
	ht_puts(json, "\"modelTopology\":");
	HT_TRY(ht_pb_print_json(ht_pb_flatten(&graph, json->arena), HT_PB_GraphDef, d, json));
	ht_puts(json, ",\"weightsManifest\":[{\"paths\":[");
	put_paths(json, name, shards);
	ht_puts(json, "],\"weights\":[");
	HT_TRY(put_weights(&w, g));
	ht_puts(json, "]}]}\n");
	return HT_OK;
}
