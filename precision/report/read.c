/* Reads halftone.decisions/1.  Members that are not needed for deciding again or for comparing
 * are skipped, so that later versions may add some. */
#include "precision/report/reading.h"

#include <float.h>
#include <string.h>

/* The most units of one node: its type attributes, with each item of lists. */
enum { MAX_UNITS = 4096 };

static enum ht_status read_type(struct ht_reading *r, const cJSON *value)
{
	static const struct ht_member members[] = {
		{ "attribute", ht_read_str, offsetof(struct ht_decided_type, attr), true },
		{ "from", ht_read_dtype, offsetof(struct ht_decided_type, from), true },
		{ "to", ht_read_dtype, offsetof(struct ht_decided_type, to), true },
		{ "operands", ht_read_dtype, offsetof(struct ht_decided_type, operands), false },
		{ "emulated", ht_read_dtype, offsetof(struct ht_decided_type, emulated), false },
		{ "rule", ht_read_reason, offsetof(struct ht_decided_type, rule), true },
		{ "class", ht_read_class, offsetof(struct ht_decided_type, class), false },
		{ "list", ht_read_text, offsetof(struct ht_decided_type, list), false },
		{ "follows", ht_read_str, offsetof(struct ht_decided_type, followed), false },
		{ 0 },
	};
	struct ht_decided_type t = { 0 };

	HT_TRY(ht_read_members(r, value, members, &t));
	t.line = r->line;
	for (size_t i = 0; i < r->node->types; i++)
		if (ht_str_eq(r->d->type[r->node->first_type + i].attr, t.attr))
			return ht_json_error(
				&r->j, "attribute '%.*s' stands twice", HT_STR_ARG(t.attr));
	if (r->node->types == MAX_UNITS)
		return ht_json_error(&r->j, "more than %d units of one node", MAX_UNITS);
	r->d->type = ht_grow(r->a, r->d->type, r->d->types, &r->d->type_cap, sizeof t);
	r->d->type[r->d->types++] = t;
	r->node->types++;
	return HT_OK;
}

static enum ht_status read_types(struct ht_reading *r, const cJSON *value, void *to)
{
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	cJSON_ArrayForEach(i, value) HT_TRY(read_type(r, i));
	return HT_OK;
}

struct origins {
	const struct ht_str *name;
	int32_t n;
};

static enum ht_status read_origins(struct ht_reading *r, const cJSON *value, void *to)
{
	struct origins *out = to;
	struct ht_str *name;
	const cJSON *i;

	HT_TRY(ht_read_array(r, value));
	name = HT_NEW_ARRAY(r->a, struct ht_str, ht_read_items(value));
	cJSON_ArrayForEach(i, value) HT_TRY(ht_read_str(r, i, &name[out->n++]));
	out->name = name;
	return HT_OK;
}

/* A record, while its members are read. */
struct record {
	struct ht_str name, op, becomes;
	struct origins origins;
	struct ht_dtype_list tensors, operands, results;
};

static enum ht_status read_node(struct ht_reading *r, const cJSON *value)
{
	static const struct ht_member members[] = {
		{ "node", ht_read_str, offsetof(struct record, name), true },
		{ "op", ht_read_str, offsetof(struct record, op), true },
		{ "becomes", ht_read_str, offsetof(struct record, becomes), false },
		{ "origins", read_origins, offsetof(struct record, origins), false },
		{ "tensors", ht_read_dtypes, offsetof(struct record, tensors), false },
		{ "kernel_operands", ht_read_dtypes, offsetof(struct record, operands), false },
		{ "kernel_results", ht_read_dtypes, offsetof(struct record, results), false },
		{ "units", read_types, 0, true },
		{ 0 },
	};
	struct ht_decided_node node = { .first_type = r->d->types };
	struct record record = { 0 };
	struct ht_map_entry *e;

	r->node = &node;
	HT_TRY(ht_read_members(r, value, members, &record));
	node.name = record.name;
	node.op = record.op;
	node.becomes = record.becomes;
	node.origin = record.origins.name;
	node.origins = record.origins.n;
	node.tensor = record.tensors.dtype;
	node.tensors = record.tensors.n;
	node.operand = record.operands.dtype;
	node.operands = record.operands.n;
	node.result = record.results.dtype;
	node.results = record.results.n;
	node.line = r->line;
	for (size_t i = node.first_type; i < r->d->types; i++) {
		r->d->type[i].node = node.name;
		r->d->type[i].origin = node.origin;
		r->d->type[i].origins = node.origins;
	}
	e = ht_map_at(&r->r->nodes, node.name);
	if (e->value)
		return ht_json_error(&r->j, "node '%.*s' stands twice", HT_STR_ARG(node.name));
	r->d->node = ht_grow(r->a, r->d->node, r->d->nodes, &r->d->node_cap, sizeof node);
	r->d->node[r->d->nodes++] = node;
	e->value = (void *)(uintptr_t)r->d->nodes;
	return HT_OK;
}

static enum ht_status read_nodes(struct ht_reading *r, const cJSON *value, void *to)
{
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	cJSON_ArrayForEach(i, value) HT_TRY(read_node(r, i));
	/* The array does not move any more. */
	for (size_t k = 0; k < r->r->nodes.count; k++)
		r->r->nodes.entries[k].value =
			&r->d->node[(uintptr_t)r->r->nodes.entries[k].value - 1];
	return HT_OK;
}

static enum ht_status read_cast(struct ht_reading *r, const cJSON *value)
{
	static const struct ht_member members[] = {
		{ "name", ht_read_str, offsetof(struct ht_decided_cast, name), true },
		{ "source", ht_read_str, offsetof(struct ht_decided_cast, source), true },
		{ "from", ht_read_dtype, offsetof(struct ht_decided_cast, from), true },
		{ "to", ht_read_dtype, offsetof(struct ht_decided_cast, to), true },
		{ "folded", ht_read_bool, offsetof(struct ht_decided_cast, constant), false },
		{ "elements", ht_read_count, offsetof(struct ht_decided_cast, elements), false },
		{ "price_ps", ht_read_count, offsetof(struct ht_decided_cast, price), false },
		{ 0 },
	};
	struct ht_decided_cast c = { .elements = -1, .price = -1 };

	HT_TRY(ht_read_members(r, value, members, &c));
	c.line = r->line;
	r->d->cast = ht_grow(r->a, r->d->cast, r->d->casts, &r->d->cast_cap, sizeof c);
	r->d->cast[r->d->casts++] = c;
	return HT_OK;
}

static enum ht_status read_casts(struct ht_reading *r, const cJSON *value, void *to)
{
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	cJSON_ArrayForEach(i, value) HT_TRY(read_cast(r, i));
	return HT_OK;
}

struct painting {
	enum ht_dtype type;
	bool emulated;
	const char *suffix;
};

static enum ht_status read_painting(struct ht_reading *r, const cJSON *value, void *to)
{
	static const struct ht_member members[] = {
		{ "type", ht_read_dtype, offsetof(struct painting, type), true },
		{ "emulated", ht_read_bool, offsetof(struct painting, emulated), true },
		{ "suffix", ht_read_text, offsetof(struct painting, suffix), true },
		{ 0 },
	};
	struct painting p = { 0 };

	(void)to;
	HT_TRY(ht_read_members(r, value, members, &p));
	if (p.type != HT_F16 && p.type != HT_BF16)
		return ht_json_error(&r->j, "a painting is in float16 or bfloat16");
	r->d->painted = p.type;
	r->d->emulates = p.emulated;
	r->d->suffix = p.suffix;
	return HT_OK;
}

static enum ht_status read_magnitude(struct ht_reading *r, const cJSON *value, void *to)
{
	if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble <= FLT_MAX))
		return ht_read_wrong(r, value, "a number that is not negative");
	*(float *)to = (float)value->valuedouble;
	return HT_OK;
}

static enum ht_status read_clamp(struct ht_reading *r, const cJSON *value, void *to)
{
	static const struct ht_member members[] = {
		{ "type", ht_read_dtype, offsetof(struct ht_clamp, type), true },
		{ "smallest", read_magnitude, offsetof(struct ht_clamp, smallest), true },
		{ "largest", read_magnitude, offsetof(struct ht_clamp, largest), true },
		{ 0 },
	};

	(void)to;
	return ht_read_members(r, value, members, &r->d->clamp);
}

static enum ht_status read_sentinels(struct ht_reading *r, const cJSON *value, void *to)
{
	const char *s = cJSON_GetStringValue(value);

	(void)to;
	if (!s || (strcmp(s, "clamp") && strcmp(s, "keep")))
		return ht_read_wrong(r, value, "\"clamp\" or \"keep\"");
	r->d->clamps_sentinels = !strcmp(s, "clamp");
	return HT_OK;
}

struct emulation {
	enum ht_dtype slot;
	struct ht_str format;
};

static enum ht_status read_emulation(
	struct ht_reading *r, const cJSON *value, struct ht_emulation *out)
{
	static const struct ht_member members[] = {
		{ "in_place_of", ht_read_dtype, offsetof(struct emulation, slot), true },
		{ "format", ht_read_str, offsetof(struct emulation, format), true },
		{ 0 },
	};
	struct emulation e = { 0 };

	HT_TRY(ht_read_members(r, value, members, &e));
	if (!ht_is_float(e.slot) || ht_dtype_info(e.slot)->bytes > 2)
		return ht_json_error(
			&r->j, "formats do not take the place of %s", ht_dtype_info(e.slot)->name);
	for (size_t i = 0; i < r->d->emulations; i++)
		if (r->d->emulation[i].slot == e.slot)
			return ht_json_error(&r->j, "%s stands twice", ht_dtype_info(e.slot)->name);
	HT_TRY(ht_emulation_parse(e.format,
		ht_str_printf(r->a, "%s:%ld: emulation", r->j.parse->path, r->line).p,
		r->j.parse->diags, out));
	out->slot = e.slot;
	return HT_OK;
}

static enum ht_status read_emulations(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_emulation *e = HT_NEW_ARRAY(r->a, struct ht_emulation, HT_MAX_EMULATIONS);
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	if (ht_read_items(value) > HT_MAX_EMULATIONS)
		return ht_json_error(&r->j, "more than %d emulations", HT_MAX_EMULATIONS);
	r->d->emulation = e;
	cJSON_ArrayForEach(i, value)
	{
		HT_TRY(read_emulation(r, i, &e[r->d->emulations]));
		r->d->emulations++;
	}
	return HT_OK;
}

/* [name, "on" or "off", note] */
static enum ht_status read_fusion(
	struct ht_reading *r, const cJSON *value, struct ht_reported_fusion *out)
{
	struct ht_str text[3] = { 0 };
	size_t n = 0;
	const cJSON *i;

	if (!cJSON_IsArray(value) || ht_read_items(value) != 3)
		return ht_json_error(&r->j, "a fusion is [NAME, \"on\" or \"off\", NOTE]");
	cJSON_ArrayForEach(i, value) HT_TRY(ht_read_str(r, i, &text[n++]));
	out->name = text[0];
	out->on = ht_str_is(text[1], "on");
	out->note = text[2];
	if (!out->on && !ht_str_is(text[1], "off"))
		return ht_json_error(&r->j, "fusion '%.*s' is '%.*s'; it has to be on or off",
			HT_STR_ARG(text[0]), HT_STR_ARG(text[1]));
	return HT_OK;
}

static enum ht_status read_fusions(struct ht_reading *r, const cJSON *value, void *to)
{
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	r->r->fusion = HT_NEW_ARRAY(r->a, struct ht_reported_fusion, ht_read_items(value));
	cJSON_ArrayForEach(i, value) HT_TRY(read_fusion(r, i, &r->r->fusion[r->r->fusions++]));
	return HT_OK;
}

/* [node, mode, the option that asked for it, how the kernel differs] */
static enum ht_status read_mode(
	struct ht_reading *r, const cJSON *value, struct ht_decided_impl *out)
{
	struct ht_str text[4] = { 0 };
	size_t n = 0;
	const cJSON *i;

	if (!cJSON_IsArray(value) || ht_read_items(value) != 4)
		return ht_json_error(&r->j,
			"an implementation mode is [NODE, MODE, WHERE, KERNEL], four strings");
	cJSON_ArrayForEach(i, value) HT_TRY(ht_read_str(r, i, &text[n++]));
	out->node = text[0];
	out->mode = ht_impl_named(text[1]);
	out->where = text[2];
	out->offered = true;
	if (out->mode == HT_IMPL_NONE)
		return ht_json_error(&r->j, "there is no mode '%.*s'", HT_STR_ARG(text[1]));
	return HT_OK;
}

static enum ht_status read_modes(struct ht_reading *r, const cJSON *value, void *to)
{
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	r->d->impl = HT_NEW_ARRAY(r->a, struct ht_decided_impl, ht_read_items(value));
	cJSON_ArrayForEach(i, value) HT_TRY(read_mode(r, i, &r->d->impl[r->d->impls++]));
	return HT_OK;
}

/* [name, why] */
static enum ht_status read_off(struct ht_reading *r, const cJSON *value)
{
	struct ht_str text[2] = { 0 };
	enum ht_fusion_id id;
	size_t n = 0;
	const cJSON *i;

	if (!cJSON_IsArray(value) || ht_read_items(value) != 2)
		return ht_json_error(&r->j, "a fusion that is off is [NAME, WHY]");
	cJSON_ArrayForEach(i, value) HT_TRY(ht_read_str(r, i, &text[n++]));
	id = ht_fusion_named(text[0]);
	if (id == HT_FUSION_END)
		return ht_json_error(&r->j, "there is no fusion '%.*s'", HT_STR_ARG(text[0]));
	r->r->off[id] = text[1].p;
	return HT_OK;
}

static enum ht_status read_offs(struct ht_reading *r, const cJSON *value, void *to)
{
	const cJSON *i;

	(void)to;
	HT_TRY(ht_read_array(r, value));
	cJSON_ArrayForEach(i, value) HT_TRY(read_off(r, i));
	return HT_OK;
}

static enum ht_status read_schema(struct ht_reading *r, const cJSON *value, void *to)
{
	struct ht_str s;

	(void)to;
	HT_TRY(ht_read_str(r, value, &s));
	if (!ht_str_is(s, "halftone.decisions/1"))
		return ht_json_error(&r->j,
			"the schema is '%.*s'; it has to be halftone.decisions/1, which halftone "
			"explain --format json writes",
			HT_STR_ARG(s));
	return HT_OK;
}

enum ht_status ht_report_parse(struct ht_parse *p, struct ht_str text, struct ht_report_data *out)
{
	static const struct ht_member members[] = {
		{ "schema", read_schema, 0, true },
		{ "model", ht_read_str, offsetof(struct ht_report_data, model), false },
		{ "policy", ht_read_str, offsetof(struct ht_report_data, policy), true },
		{ "profile", ht_read_str, offsetof(struct ht_report_data, profile), false },
		{ "target", ht_read_str, offsetof(struct ht_report_data, target), false },
		{ "graph_nodes", ht_read_count, offsetof(struct ht_report_data, graph_nodes),
			true },
		{ "price_ps", ht_read_count, offsetof(struct ht_report_data, price), false },
		{ "painting", read_painting, 0, false },
		{ "constants", read_clamp, 0, false },
		{ "sentinels", read_sentinels, 0, false },
		{ "emulation", read_emulations, 0, false },
		{ "nodes", read_nodes, 0, true },
		{ "casts", read_casts, 0, false },
		{ "fusions", read_fusions, 0, false },
		{ "fusions_off", read_offs, 0, false },
		{ "implementation", read_modes, 0, false },
		{ 0 },
	};
	struct ht_reading r = { .a = p->arena, .r = out, .d = &out->decisions };

	*out = (struct ht_report_data){ .path = p->path, .price = -1 };
	out->decisions.arena = p->arena;
	ht_map_init(&out->nodes, p->arena);
	HT_TRY(ht_json_parse(p, text, false, &r.j));
	return ht_read_members(&r, r.j.root, members, out);
}

static enum ht_status take_text(struct ht_parse *p, const struct ht_str *given, struct ht_str *text)
{
	if (!given)
		return ht_policy_file(p, HT_REPORT_LIMIT, text);
	if (given->n > HT_REPORT_LIMIT)
		return ht_error(p->diags, HT_E_LIMIT, ht_at_line(p->path, 0), "larger than %zu MiB",
			HT_REPORT_LIMIT >> 20);
	*text = ht_str_copy(p->arena, *given);
	ht_sha256_add(p->digest, text->p, text->n);
	return HT_OK;
}

enum ht_status ht_report_load(
	struct ht_parse *p, const struct ht_str *given, const struct ht_report_data **out)
{
	struct ht_report_data *r = HT_NEW(p->arena, struct ht_report_data);
	struct ht_str text;

	HT_TRY(take_text(p, given, &text));
	HT_TRY(ht_report_parse(p, text, r));
	*out = r;
	return HT_OK;
}
