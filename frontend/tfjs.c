/* TF.js graph models: a GraphDef in proto3 JSON whose constants lie in weight shards.
 *
 * A group of the manifest is one sequence of bytes, cut into files at any place.  A weight stays
 * in the mapped file if it lies within one file and is stored in the type in which it is used.
 * Others are copied together, and quantised ones are converted to the type that the manifest
 * declares, with TF.js' arithmetic, so that the bits are the same.  Then they are converted to
 * the type of their node if the graph says int64 or double. */
#include "frontend/graphdef.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <string.h>

struct shard {
	struct ht_file *file;
	size_t start; /* in the group's bytes */
};

struct group {
	struct shard *shard;
	size_t shards;
	size_t bytes;
};

/* A Const of the graph or of a function; those with the same name are linked. */
struct constant {
	struct ht_node *n;
	bool filled;
	struct constant *same_name, *next;
};

struct tfjs {
	struct ht_importer *im;
	const char *path, *dir;
	struct ht_graph *g;
	struct ht_map by_name; /* the first constant of each name */
	struct constant *constants;
};

/* One weight of the manifest. */
struct weight {
	const char *name;
	enum ht_dtype dtype; /* after dequantisation */
	enum ht_dtype stored;
	struct ht_shape shape;
	size_t count;
	bool affine;
	double min, scale;
	size_t offset, bytes; /* in the group's bytes */
};

static enum ht_status fail(const struct tfjs *t, enum ht_status st, const char *fmt, ...)
	HT_PRINTF(3, 4);
static enum ht_status fail(const struct tfjs *t, enum ht_status st, const char *fmt, ...)
{
	struct ht_where at = HT_NOWHERE;
	char text[400];
	va_list ap;

	at.path = t->path;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return ht_error(t->im->diags, st, at, "%s", text);
}

static const char *member(const cJSON *object, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* ---- shards ---- */

static void unref_file(void *file)
{
	ht_file_unref(file);
}

/* Whether the path stays inside the model's folder, as that of a shard must. */
static bool is_inside(const char *path)
{
	const char *p = path;

	if (!*path || *path == '/')
		return false;
	while (p) {
		if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2]))
			return false;
		p = strchr(p, '/');
		if (p)
			p++;
	}
	return true;
}

static enum ht_status open_shards(struct tfjs *t, const cJSON *paths, struct group *out)
{
	int n = cJSON_GetArraySize(paths);
	const cJSON *path;

	if (!cJSON_IsArray(paths) || !n)
		return fail(t, HT_E_INPUT, "weightsManifest: a group has no paths");
	out->shard = HT_NEW_ARRAY(t->im->a, struct shard, (size_t)n);
	cJSON_ArrayForEach(path, paths)
	{
		struct shard *s = &out->shard[out->shards++];

		if (!cJSON_IsString(path) || !is_inside(path->valuestring))
			return fail(t, HT_E_INPUT,
				"weightsManifest: expected a path inside the model's folder");
		if (!t->dir)
			return fail(t, HT_E_INPUT, "the weight shard '%.200s' is not here",
				path->valuestring);
		if (ht_file_map_watched(
			    ht_str_printf(t->im->a, "%s%s", t->dir, path->valuestring).p,
			    t->im->limit.file_bytes, t->im->diags, &s->file) != HT_OK)
			return fail(t, HT_E_INPUT, "the weight shard '%.200s' cannot be read",
				path->valuestring);
		ht_arena_defer(t->im->a, unref_file, s->file);
		ht_importer_add_file(t->im, s->file);
		s->start = out->bytes;
		out->bytes += s->file->n;
	}
	return HT_OK;
}

/* Copies bytes [offset, offset + n) of the group, which are known to exist. */
static void gather(const struct group *g, size_t offset, size_t n, char *out)
{
	for (size_t i = 0; i < g->shards && n; i++) {
		const struct shard *s = &g->shard[i];
		size_t from, part;

		if (offset >= s->start + s->file->n)
			continue;
		from = offset - s->start;
		part = s->file->n - from < n ? s->file->n - from : n;
		memcpy(out, s->file->p + from, part);
		out += part;
		offset += part;
		n -= part;
	}
}

/* The stored bytes of a weight. */
static struct ht_blob *stored_bytes(struct tfjs *t, const struct group *g, const struct weight *w)
{
	struct ht_blob *b;

	for (size_t i = 0; i < g->shards; i++) {
		const struct shard *s = &g->shard[i];

		if (w->offset >= s->start && w->offset + w->bytes <= s->start + s->file->n)
			return ht_import_blob(
				t->im, s->file, s->file->p + (w->offset - s->start), w->bytes);
	}
	b = ht_blob_new(w->bytes);
	if (!b)
		ht_arena_fail(t->im->a);
	gather(g, w->offset, w->bytes, (char *)(uintptr_t)b->p);
	return b;
}

/* ---- numbers ---- */

/* Element `i` of the stored bytes, as the number that TF.js would compute. */
static double element(const struct weight *w, const char *p, size_t i)
{
	uint16_t u16;
	int32_t i32;
	float f;

	switch (w->stored) {
	case HT_U8:
	case HT_BOOL:
		return (double)(uint8_t)p[i];
	case HT_U16:
		memcpy(&u16, p + 2 * i, 2);
		return (double)u16;
	case HT_F16:
		memcpy(&u16, p + 2 * i, 2);
		return (double)ht_f16_to_f32(u16);
	case HT_I32:
		memcpy(&i32, p + 4 * i, 4);
		return (double)i32;
	default:
		memcpy(&f, p + 4 * i, 4);
		return (double)f;
	}
}

static void put_element(enum ht_dtype t, double v, char *p, size_t i)
{
	int64_t wide;
	int32_t narrow;
	float f = (float)v;

	switch (t) {
	case HT_F32:
		memcpy(p + 4 * i, &f, 4);
		break;
	case HT_F64:
		memcpy(p + 8 * i, &v, 8);
		break;
	case HT_I64:
		wide = (int64_t)v;
		memcpy(p + 8 * i, &wide, 8);
		break;
	case HT_I32:
		v = v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v == v ? v : 0;
		narrow = (int32_t)v;
		memcpy(p + 4 * i, &narrow, 4);
		break;
	default:
		p[i] = (char)(v != 0);
	}
}

static struct ht_blob *convert(
	struct tfjs *t, const struct weight *w, const struct ht_blob *from, enum ht_dtype to)
{
	struct ht_blob *b = ht_blob_new(w->count * ht_dtype_info(to)->bytes);
	double v;

	if (!b)
		ht_arena_fail(t->im->a);
	for (size_t i = 0; i < w->count; i++) {
		v = element(w, from->p, i);
		if (w->affine)
			v = v * w->scale + w->min;
		if (w->affine && w->dtype == HT_I32)
			v = floor(v + 0.5); /* rounds as Math.round does */
		else if (w->dtype == HT_F32)
			v = (double)(float)v;
		put_element(to, v, (char *)(uintptr_t)b->p, i);
	}
	return b;
}

/* Reads strings; in front of each is its length, 4 bytes little-endian. */
static enum ht_status read_strings(
	struct tfjs *t, const struct group *g, struct weight *w, struct ht_tensor *x)
{
	char *length = HT_NEW_ARRAY(t->im->a, char, 4), *p;
	size_t at = w->offset, n;

	if (!ht_importer_charge(t->im, w->count, sizeof *x->strings))
		return fail(t, HT_E_LIMIT, "weight '%.200s' has too many strings", w->name);
	x->strings = HT_NEW_ARRAY(t->im->a, struct ht_str, w->count);
	x->values = w->count;
	for (size_t i = 0; i < w->count; i++) {
		if (g->bytes - at < 4)
			return fail(t, HT_E_INPUT, "weight '%.200s' is cut off", w->name);
		gather(g, at, 4, length);
		n = (uint8_t)length[0] | (size_t)(uint8_t)length[1] << 8 |
		    (size_t)(uint8_t)length[2] << 16 | (size_t)(uint8_t)length[3] << 24;
		at += 4;
		if (g->bytes - at < n)
			return fail(t, HT_E_INPUT, "weight '%.200s' is cut off", w->name);
		p = ht_alloc(t->im->a, n + 1);
		gather(g, at, n, p);
		x->strings[i] = (struct ht_str){ p, n };
		at += n;
	}
	w->bytes = at - w->offset;
	return HT_OK;
}

/* ---- the manifest ---- */

static enum ht_status read_quantization(struct tfjs *t, const cJSON *q, struct weight *w)
{
	const char *dtype = member(q, "dtype"), *original = member(q, "original_dtype");
	const cJSON *min = cJSON_GetObjectItemCaseSensitive(q, "min");
	const cJSON *scale = cJSON_GetObjectItemCaseSensitive(q, "scale");

	w->stored = dtype ? ht_dtype_named(ht_str(dtype)) : HT_INVALID;
	if (original)
		w->dtype = ht_dtype_named(ht_str(original));
	if (w->dtype != HT_F32 && w->dtype != HT_I32)
		return fail(t, HT_E_UNSUPPORTED,
			"weight '%.200s': only float32 and int32 are quantised", w->name);
	if (w->stored == HT_F16)
		return HT_OK;
	if (w->stored != HT_U8 && w->stored != HT_U16)
		return fail(t, HT_E_UNSUPPORTED,
			"weight '%.200s': quantised to '%.40s'; float16, uint8 and uint16 are known",
			w->name, dtype ? dtype : "nothing");
	if (!cJSON_IsNumber(min) || !cJSON_IsNumber(scale))
		return fail(
			t, HT_E_INPUT, "weight '%.200s': quantised without min and scale", w->name);
	w->affine = true;
	w->min = min->valuedouble;
	w->scale = scale->valuedouble;
	return HT_OK;
}

static enum ht_status read_shape(struct tfjs *t, const cJSON *shape, struct weight *w)
{
	int64_t dim[HT_MAX_RANK];
	const cJSON *size;
	int32_t rank = 0;
	int64_t count;

	if (!cJSON_IsArray(shape))
		return fail(t, HT_E_INPUT, "weight '%.200s' has no shape", w->name);
	cJSON_ArrayForEach(size, shape)
	{
		if (rank == HT_MAX_RANK || !cJSON_IsNumber(size) || size->valuedouble < 0 ||
			size->valuedouble > 9007199254740992.0 ||
			size->valuedouble != floor(size->valuedouble))
			return fail(t, HT_E_INPUT, "weight '%.200s' has a wrong shape", w->name);
		dim[rank++] = (int64_t)size->valuedouble;
	}
	w->shape = ht_shape_make(t->im->a, rank, dim);
	count = ht_shape_count(w->shape);
	if (count < 0)
		return fail(t, HT_E_INPUT, "weight '%.200s' has too many elements", w->name);
	w->count = (size_t)count;
	return HT_OK;
}

static enum ht_status read_weight(struct tfjs *t, const cJSON *json, struct weight *w)
{
	const cJSON *q = cJSON_GetObjectItemCaseSensitive(json, "quantization");
	const char *dtype = member(json, "dtype");

	w->name = member(json, "name");
	if (!w->name)
		return fail(t, HT_E_INPUT, "weightsManifest: a weight has no name");
	w->dtype = w->stored = dtype ? ht_dtype_named(ht_str(dtype)) : HT_INVALID;
	if (w->dtype != HT_F32 && w->dtype != HT_I32 && w->dtype != HT_BOOL &&
		w->dtype != HT_STRING && w->dtype != HT_C64 && w->dtype != HT_U8 &&
		w->dtype != HT_F16)
		return fail(t, HT_E_UNSUPPORTED, "weight '%.200s': dtype '%.40s' is not known",
			w->name, dtype ? dtype : "");
	HT_TRY(read_shape(t, cJSON_GetObjectItemCaseSensitive(json, "shape"), w));
	return cJSON_IsObject(q) ? read_quantization(t, q, w) : HT_OK;
}

/* ---- filling the graph ---- */

static struct constant **index_constants(
	struct tfjs *t, const struct ht_graph *body, struct constant **end)
{
	for (struct ht_node *n = body->first; n; n = n->next) {
		struct ht_map_entry *e;
		struct constant *c;

		if (!ht_is(n, HT_CONSTANT))
			continue;
		c = HT_NEW(t->im->a, struct constant);
		c->n = n;
		e = ht_map_at(&t->by_name, n->name);
		c->same_name = e->value;
		e->value = c;
		*end = c;
		end = &c->next;
	}
	return end;
}

/* The main graph is indexed last, so that its constant is the first of its name. */
static void index_all_constants(struct tfjs *t)
{
	struct constant **end = &t->constants;

	for (struct ht_function *f = t->g->functions; f; f = f->next)
		end = index_constants(t, f->body, end);
	index_constants(t, t->g, end);
}

static bool converts(enum ht_dtype from, enum ht_dtype to)
{
	return from == to || (from == HT_I32 && to == HT_I64) || (from == HT_F32 && to == HT_F64) ||
	       (from == HT_F32 && to == HT_I32);
}

static enum ht_status fill_node(
	struct tfjs *t, struct ht_node *n, const struct group *g, struct weight *w)
{
	const struct ht_attr *value = ht_attr_find(n, "value");
	enum ht_dtype want = ht_attr_type(n, "dtype", w->dtype);
	struct ht_blob *stored;
	struct ht_tensor *x;

	if (!value || value->value.kind != HT_ATTR_TENSOR)
		return fail(t, HT_E_INPUT, "node '%.200s' has a weight, but no attribute 'value'",
			w->name);
	x = value->value.tensor;
	if (ht_shape_count(x->shape) > 0 && !ht_shape_eq(x->shape, w->shape))
		return fail(t, HT_E_INPUT,
			"node '%.200s' and its weight in the manifest have different shapes",
			w->name);
	if (!converts(w->dtype, want))
		return fail(t, HT_E_INPUT, "node '%.200s' is %s, but its weight is %s", w->name,
			ht_dtype_info(want)->name, ht_dtype_info(w->dtype)->name);
	ht_tensor_drop(x);
	x->dtype = want;
	x->shape = w->shape;
	x->form = HT_TENSOR_SHARD;
	x->values = 0;
	if (w->dtype == HT_STRING)
		return read_strings(t, g, w, x);
	if (w->stored != want && !ht_importer_charge(t->im, w->count, ht_dtype_info(want)->bytes))
		return fail(t, HT_E_LIMIT, "weight '%.200s' is more than this model may ask for",
			w->name);
	stored = stored_bytes(t, g, w);
	x->blob = w->stored == want ? stored : convert(t, w, stored, want);
	if (x->blob != stored)
		ht_blob_unref(stored);
	return HT_OK;
}

static enum ht_status place_weight(
	struct tfjs *t, const cJSON *json, const struct group *g, size_t *offset)
{
	struct weight w = { 0 };
	struct constant *c;

	HT_TRY(read_weight(t, json, &w));
	w.offset = *offset;
	if (w.dtype != HT_STRING &&
		(!ht_mul_size(w.count, ht_dtype_info(w.stored)->bytes, &w.bytes) ||
			w.bytes > g->bytes - w.offset))
		return fail(t, HT_E_INPUT,
			"weight '%.200s' needs %zu bytes at %zu of its shards, which have %zu",
			w.name, w.bytes, w.offset, g->bytes);
	c = ht_map_get(&t->by_name, ht_str(w.name));
	if (!c) {
		if (w.dtype == HT_STRING)
			return fail(t, HT_E_UNSUPPORTED,
				"weight '%.200s' is for no constant of the graph", w.name);
		ht_warn(t->im->diags, (struct ht_where){ .path = t->path, .offset = -1 },
			"weight '%.200s' is for no constant of the graph", w.name);
	} else {
		while (c && c->filled)
			c = c->same_name;
		if (!c)
			return fail(t, HT_E_INPUT, "weight '%.200s' comes twice", w.name);
		c->filled = true;
		HT_TRY(fill_node(t, c->n, g, &w));
	}
	*offset = w.offset + w.bytes;
	return HT_OK;
}

static enum ht_status read_manifest(struct tfjs *t, const cJSON *manifest)
{
	const cJSON *json, *weight;

	if (manifest && !cJSON_IsArray(manifest))
		return fail(t, HT_E_INPUT, "weightsManifest: expected an array");
	cJSON_ArrayForEach(json, manifest)
	{
		const cJSON *weights = cJSON_GetObjectItemCaseSensitive(json, "weights");
		struct group g = { 0 };
		size_t offset = 0;

		if (!cJSON_IsArray(weights))
			return fail(t, HT_E_INPUT, "weightsManifest: a group has no weights");
		HT_TRY(open_shards(t, cJSON_GetObjectItemCaseSensitive(json, "paths"), &g));
		cJSON_ArrayForEach(weight, weights) HT_TRY(place_weight(t, weight, &g, &offset));
		if (offset != g.bytes)
			return fail(t, HT_E_INPUT,
				"the weight shard '%.200s' and those behind it have %zu bytes; the "
				"manifest describes %zu",
				cJSON_GetObjectItemCaseSensitive(json, "paths")->child->valuestring,
				g.bytes, offset);
	}
	return HT_OK;
}

/* TF.js looks up weights by name only, so constants of one name for which the manifest has no
 * further weight share one. */
static bool share_weight(const struct tfjs *t, const struct constant *c, struct ht_tensor *x)
{
	const struct constant *other = ht_map_get(&t->by_name, c->n->name);
	const struct ht_tensor *from;

	while (other && !other->filled)
		other = other->same_name;
	if (!other)
		return false;
	from = ht_attr_find(other->n, "value")->value.tensor;
	if (from->dtype != ht_attr_type(c->n, "dtype", from->dtype) ||
		(ht_shape_count(x->shape) > 0 && !ht_shape_eq(x->shape, from->shape)))
		return false;
	ht_tensor_drop(x);
	*x = *from;
	if (x->blob)
		x->blob = ht_blob_ref(x->blob);
	return true;
}

static enum ht_status check_filled(struct tfjs *t)
{
	struct ht_where at = HT_NOWHERE;

	at.path = t->path;
	for (const struct constant *c = t->constants; c; c = c->next) {
		const struct ht_attr *value = ht_attr_find(c->n, "value");
		struct ht_tensor *x =
			value && value->value.kind == HT_ATTR_TENSOR ? value->value.tensor : NULL;

		at.node = c->n->name;
		at.op = c->n->type;
		if (!c->filled &&
			(!x || (!x->values && x->form == HT_TENSOR_VALUES &&
				       ht_shape_count(x->shape) > 0 && !share_weight(t, c, x))))
			return ht_error(t->im->diags, HT_E_INPUT, at,
				"the constant has no weight in the manifest");
	}
	return HT_OK;
}

/* ---- signature ---- */

static enum ht_status read_ports(struct tfjs *t, const cJSON *object, struct ht_port **end)
{
	const cJSON *info;
	struct ht_str name;
	struct ht_port *p;

	cJSON_ArrayForEach(info, object)
	{
		const char *tensor = member(info, "name");

		p = HT_NEW(t->im->a, struct ht_port);
		name = ht_str(tensor ? tensor : info->string);
		if (!ht_entry_value(t->g, name, &p->value))
			return fail(t, HT_E_INPUT,
				"the signature names '%.200s', which is not in the "
				"graph",
				name.p);
		if (ht_str_ends(name, ":0"))
			name.n -= 2;
		p->name = ht_str_copy(t->im->a, name);
		if (info->string && !ht_str_is(ht_str(info->string), p->name.p) &&
			!(tensor && !strcmp(tensor, info->string)))
			p->alias = ht_str_copy(t->im->a, ht_str(info->string));
		*end = p;
		end = &p->next;
	}
	return HT_OK;
}

/* Reads `signature` of the document or of its metadata; missing members are taken from the
 * graph. */
static enum ht_status read_signature(struct tfjs *t, const cJSON *document)
{
	const cJSON *s = cJSON_GetObjectItemCaseSensitive(document, "signature");
	struct ht_entry *found = ht_default_entry(t->g), *e;

	if (!cJSON_IsObject(s))
		s = cJSON_GetObjectItemCaseSensitive(
			cJSON_GetObjectItemCaseSensitive(document, "userDefinedMetadata"),
			"signature");
	e = HT_NEW(t->im->a, struct ht_entry);
	e->name = e->method = HT_STR("");
	HT_TRY(read_ports(t, cJSON_GetObjectItemCaseSensitive(s, "inputs"), &e->inputs));
	HT_TRY(read_ports(t, cJSON_GetObjectItemCaseSensitive(s, "outputs"), &e->outputs));
	if (!e->inputs)
		e->inputs = found->inputs;
	if (!e->outputs)
		e->outputs = found->outputs;
	ht_entry_add(t->g, e);
	return HT_OK;
}

/* ---- the document ---- */

static void delete_json(void *json)
{
	cJSON_Delete(json);
}

static enum ht_status parse(struct tfjs *t, struct ht_str text, cJSON **out)
{
	struct ht_where at = HT_NOWHERE;
	const char *end = NULL;

	at.path = t->path;
	/* cJSON would end the string at a NUL. */
	if (memmem(text.p, text.n, "\\u0000", 6))
		return fail(t, HT_E_INPUT, "a string has a NUL character");
	*out = cJSON_ParseWithLengthOpts(text.p, text.n, &end, false);
	if (*out) {
		ht_arena_defer(t->im->a, delete_json, *out);
		return HT_OK;
	}
	if (!end || end < text.p || end > text.p + text.n)
		end = text.p;
	at.line = at.column = 1;
	for (const char *p = text.p; p < end; p++, at.column++)
		if (*p == '\n') {
			at.line++;
			at.column = 0;
		}
	return ht_error(t->im->diags, HT_E_INPUT, at, "this is not JSON");
}

/* Keeps the text without the graph, as the container of the graph. */
static void keep_container(struct tfjs *t, cJSON *document)
{
	char *text;

	cJSON_DeleteItemFromObjectCaseSensitive(document, "modelTopology");
	text = cJSON_PrintUnformatted(document);
	if (!text)
		ht_arena_fail(t->im->a);
	t->g->container = ht_str_copy(t->im->a, ht_str(text));
	cJSON_free(text);
}

enum ht_status ht_import_tfjs(struct ht_importer *im, struct ht_str text, const char *path,
	const char *dir, struct ht_graph *g)
{
	struct tfjs t = { .im = im, .path = path, .dir = dir, .g = g };
	struct ht_pb_source *src = HT_NEW(im->a, struct ht_pb_source);
	const cJSON *topology;
	cJSON *document;

	ht_map_init(&t.by_name, im->a);
	HT_TRY(parse(&t, text, &document));
	topology = cJSON_GetObjectItemCaseSensitive(document, "modelTopology");
	if (cJSON_GetObjectItemCaseSensitive(topology, "model_config") ||
		(member(document, "format") && !strcmp(member(document, "format"), "layers-model")))
		return fail(&t, HT_E_UNSUPPORTED,
			"this is a TF.js layers model; convert it to a graph model "
			"(tensorflowjs_converter --output_format=tfjs_graph_model)");
	if (!cJSON_IsObject(topology))
		return fail(&t, HT_E_INPUT, "no modelTopology: this is not a TF.js graph model");
	HT_TRY(ht_pb_from_json(
		im->a, topology, path, HT_PB_GraphDef, im->limit.depth, im->diags, src));
	HT_TRY(ht_import_graphdef(im, ht_pb_open(src, HT_PB_GraphDef), g));
	index_all_constants(&t);
	HT_TRY(read_manifest(&t, cJSON_GetObjectItemCaseSensitive(document, "weightsManifest")));
	HT_TRY(check_filled(&t));
	HT_TRY(read_signature(&t, document));
	keep_container(&t, document);
	g->source = HT_SOURCE_TFJS;
	return HT_OK;
}
