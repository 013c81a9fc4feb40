/* Graphs → TF.js graph models: model.json and one shard with all constants as they are used. */
#include "frontend/export.h"

#include <cjson/cJSON.h>

#include <string.h>

/* What TF.js calls a dtype, and what it keeps in a shard; NULL: it knows none. */
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

/* int64 and double become what TF.js has; a value that does not fit is refused. */
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

/* Of a function those that lie in a shard; the others are in its text. */
static enum ht_status put_weights_of(
	struct writer *w, const struct ht_graph *body, bool function, bool *first)
{
	const struct ht_attr *value;

	for (const struct ht_node *n = body->first; n; n = n->next) {
		value = ht_attr_find(n, "value");
		if (n->op == HT_OP_Const && value && value->value.kind == HT_ATTR_TENSOR &&
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

static void put_ports(struct ht_buf *json, const char *what, const struct ht_port *p)
{
	bool first = true;

	ht_printf(json, "\"%s\":{", what);
	for (; p; p = p->next) {
		const struct ht_type *t = &p->value.node->out[p->value.index];

		if (!first)
			ht_putc(json, ',');
		first = false;
		ht_put_json(json, p->name);
		ht_puts(json, ":{\"name\":");
		ht_put_json(json, p->name);
		if (t->dtype)
			ht_printf(json, ",\"dtype\":\"%s\"", ht_dtype_info(t->dtype)->proto);
		ht_putc(json, '}');
	}
	ht_putc(json, '}');
}

/* The document's other members as they came, but for those that we write. */
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

enum ht_status ht_export_tfjs(const struct ht_graph *g, const char *shard_name, struct ht_diags *d,
	struct ht_buf *json, ht_export_sink *shard, void *self)
{
	struct writer w = { d, json->arena, json, shard, self };
	struct ht_pb_writer graph;

	ht_pb_writer_init(&graph, json->arena);
	ht_export_graph(&graph, g, false);
	ht_puts(json, "{\"format\":\"graph-model\",");
	if (g->source == HT_SOURCE_TFJS)
		HT_TRY(put_rest(&w, g));
	put_signature(&w, g);
	ht_puts(json, "\"modelTopology\":");
	HT_TRY(ht_pb_print_json(ht_pb_flatten(&graph, json->arena), HT_PB_GraphDef, d, json));
	ht_puts(json, ",\"weightsManifest\":[{\"paths\":[");
	ht_put_json(json, ht_str(shard_name));
	ht_puts(json, "],\"weights\":[");
	HT_TRY(put_weights(&w, g));
	ht_puts(json, "]}]}\n");
	return HT_OK;
}
