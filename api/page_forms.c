/* The form that the JSON of results must have for the page.  It is less strict than the schemas
 * in docs/. */
#include "api/page.h"

#include <math.h>
#include <string.h>

enum kind { TEXT, TRUTH, COUNT, NUMBER, OBJECT, LIST };

struct member {
	const char *name;
	const struct ht_json_form *form;
	bool needed;
};

struct ht_json_form {
	enum kind kind;
	bool or_null;
	int items;                       /* of a list: its length; 0: any */
	const struct member *member;     /* of an object, ended by one without a name */
	const struct ht_json_form *each; /* of a list */
};

#define MEMBERS(...)                                                                               \
	(const struct member[])                                                                    \
	{                                                                                          \
		__VA_ARGS__, { 0 }                                                                 \
	}

static const struct ht_json_form text = { .kind = TEXT }, text_or_null = { TEXT, .or_null = true },
				 truth = { .kind = TRUTH }, count = { .kind = COUNT },
				 count_or_null = { COUNT, .or_null = true },
				 number = { .kind = NUMBER }, texts = { LIST, .each = &text },
				 texts_or_nulls = { LIST, .each = &text_or_null },
				 two_texts = { LIST, .items = 2, .each = &text },
				 three_texts = { LIST, .items = 3, .each = &text },
				 four_texts = { LIST, .items = 4, .each = &text },
				 pairs = { LIST, .each = &two_texts },
				 triples = { LIST, .each = &three_texts },
				 quadruples = { LIST, .each = &four_texts };

/* ---- halftone.compare/1 ---- */

static const struct ht_json_form
	latency = { OBJECT, .or_null = true,
		.member = MEMBERS({ "median", &number, true }, { "low", &number, false },
			{ "high", &number, false }) },
	drop = { OBJECT, .or_null = true,
		.member = MEMBERS({ "reference", &number, true }, { "value", &number, true },
			{ "drop", &number, true }, { "low", &number, true },
			{ "high", &number, true }, { "samples", &count, false },
			{ "method", &text, false }) },
	task = { OBJECT, .member = MEMBERS({ "name", &text, true }, { "output", &text, true },
				 { "labels", &truth, true }) },
	/* All other members are statistics. */
	output = { OBJECT, .member = MEMBERS({ "output", &text, true }, { "dtype", &text, true },
				   { "elements", &count, true }, { "rel", &number, true }) },
	outputs = { LIST, .each = &output },
	tolerance = { OBJECT,
		.member = MEMBERS({ "output", &text, true }, { "statistic", &text, true },
			{ "sign", &text, true }, { "bound", &number, true },
			{ "value", &number, true }, { "default", &truth, true },
			{ "ok", &truth, true }, { "would_pass", &number, true }) },
	tolerances = { LIST, .each = &tolerance },
	tensor = { OBJECT,
		.member = MEMBERS({ "node", &text, true }, { "op", &text, true },
			{ "body", &text, true }, { "dtype", &text, true }, { "wide", &truth, true },
			{ "order", &count, true }, { "depth", &count, true },
			{ "error", &number, true }, { "inherited", &number, true },
			{ "own", &number, true }, { "expected", &number, true },
			{ "excess", &number, true }, { "overflow", &count, true },
			{ "underflow", &count, true }, { "nan", &count, true }) },
	tensors = { LIST, .each = &tensor }, counts = { LIST, .each = &count },
	first = { OBJECT, .or_null = true,
		.member = MEMBERS({ "node", &text, true }, { "sample", &count, true }) },
	firsts = { OBJECT,
		.member = MEMBERS({ "overflow", &first, true }, { "underflow", &first, true },
			{ "subnormal", &first, true }, { "nan", &first, true }) },
	exponents = { OBJECT,
		.member = MEMBERS({ "first", &number, true }, { "counts", &counts, true }) },
	error_nodes = { OBJECT,
		.member = MEMBERS({ "samples", &count, true },
			{ "without_reference", &count, true }, { "first", &firsts, true },
			{ "exponents", &exponents, true }, { "tensors", &tensors, true }) },
	phase = { OBJECT, .member = MEMBERS({ "policy", &text, true }, { "phase", &text, true },
				  { "seconds", &number, true }) },
	phases = { LIST, .each = &phase },
	seconds = { OBJECT, .member = MEMBERS({ "phases", &phases, false }) },
	cache = { OBJECT, .member = MEMBERS({ "hit", &truth, true }, { "entry", &text, false },
				  { "reason", &text, false }) },
	policy = { OBJECT,
		.member = MEMBERS({ "policy", &text, true }, { "verdict", &text, true },
			{ "error", &text, false }, { "same_as", &text, false },
			{ "lowest", &text, false }, { "emulated", &truth, false },
			{ "float_nodes", &count, false }, { "low_nodes", &count, false },
			{ "casts", &count, false }, { "cast_bytes", &count_or_null, false },
			{ "memory_bytes", &count, false }, { "cache", &cache, false },
			{ "latency_ms", &latency, false }, { "speedup", &latency, false },
			{ "metric", &drop, false }, { "outputs", &outputs, true },
			{ "tolerances", &tolerances, true }, { "nodes", &error_nodes, false }) },
	policies = { LIST, .each = &policy },
	model = { OBJECT, .member = MEMBERS({ "model", &text, true }, { "reference", &text, true },
				  { "samples", &count, true }, { "runs", &count, false },
				  { "target", &text, true }, { "threads", &count, true },
				  { "error", &text, false }, { "metric", &task, false },
				  { "latency_ms", &latency, false }, { "seconds", &seconds, false },
				  { "policies", &policies, true }) },
	models = { LIST, .each = &model };

const struct ht_json_form ht_comparison_form = { OBJECT,
	.member = MEMBERS({ "version", &text, true }, { "command", &text_or_null, true },
		{ "models", &models, true }) };

/* ---- halftone.decisions/1 ---- */

static const struct ht_json_form
	unit = { OBJECT, .member = MEMBERS({ "attribute", &text, true }, { "from", &text, true },
				 { "to", &text, true }, { "operands", &text, false },
				 { "emulated", &text, false }, { "format", &text, false },
				 { "rule", &text, true }, { "class", &text, false },
				 { "list", &text, false }, { "follows", &text, false }) },
	units = { LIST, .each = &unit },
	node = { OBJECT, .member = MEMBERS({ "node", &text, true }, { "op", &text, true },
				 { "becomes", &text, false }, { "tensors", &texts_or_nulls, true },
				 { "units", &units, true }) },
	nodes = { LIST, .each = &node }, edge = { LIST, .items = 2, .each = &count },
	edges = { LIST, .each = &edge },
	emulation = { OBJECT, .member = MEMBERS({ "in_place_of", &text, true },
				      { "format", &text, true }, { "emulated", &truth, true }) },
	emulations = { LIST, .each = &emulation },
	cast = { OBJECT,
		.member = MEMBERS({ "name", &text, true }, { "source", &text, true },
			{ "from", &text, true }, { "to", &text, true }, { "format", &text, false },
			{ "folded", &truth, false }, { "elements", &count_or_null, true },
			{ "bytes", &count_or_null, true }, { "price_ps", &count_or_null, true }) },
	casts = { LIST, .each = &cast },
	fusion = { OBJECT, .member = MEMBERS({ "name", &text, true }, { "kind", &text, true },
				   { "state", &text, true }, { "matches", &count, true },
				   { "effects", &count, true }, { "missed_node", &text, false },
				   { "missed", &text, false }) },
	fusions = { LIST, .each = &fusion },
	method = { OBJECT, .member = MEMBERS({ "node", &text, true }, { "method", &text, true },
				   { "reason", &text, true }, { "is", &number, false },
				   { "limit", &number, false }, { "error", &number, false },
				   { "other", &text, false }) },
	methods = { LIST, .each = &method };

const struct ht_json_form ht_decisions_form = { OBJECT,
	.member = MEMBERS({ "model", &text, false }, { "policy", &text, true },
		{ "profile", &text, true }, { "target", &text, true },
		{ "graph_nodes", &count, true }, { "float_nodes", &count, true },
		{ "low_nodes", &count, true }, { "price_ps", &count_or_null, true },
		{ "emulation", &emulations, false }, { "nodes", &nodes, true },
		{ "edges", &edges, false }, { "casts", &casts, true }, { "unknown", &texts, true },
		{ "assumed", &texts, true }, { "fallback", &texts, true },
		{ "implementation", &quadruples, true }, { "acting_rules", &triples, false },
		{ "idle_rules", &triples, true }, { "without_effect", &texts, true },
		{ "fusions", &triples, true }, { "fusions_off", &pairs, true },
		{ "fusion_results", &fusions, false }, { "methods", &methods, false }) };

/* ---- trainings ---- */

static const struct ht_json_form
	train_scale = { OBJECT, .or_null = true,
		.member = MEMBERS({ "scale", &number, true }, { "steps", &count, true },
			{ "skipped", &count, true }) },
	train_phase = { OBJECT, .member = MEMBERS({ "policy", &text, true },
					{ "steps", &count, true }, { "seconds", &number, true }) },
	train_phases = { LIST, .each = &train_phase },
	anything = { OBJECT, .member = MEMBERS({ 0 }) },
	event = { OBJECT, .member = MEMBERS({ "event", &text, true }, { "step", &count, true },
				  { "policy", &text, false }, { "seed", &count, false },
				  { "loss", &number, false }, { "mean_loss", &number, false },
				  { "scale", &number, false }, { "skipped", &truth, false }) };

const struct ht_json_form ht_train_form = { OBJECT,
	.member = MEMBERS({ "model", &text, true }, { "policy", &text, true },
		{ "target", &text, true }, { "first", &count, true }, { "steps", &count, true },
		{ "loss", &number, true }, { "loss_scale", &train_scale, true },
		{ "seconds", &number, true }, { "phases", &train_phases, false },
		{ "evaluation", &anything, false }) };

const struct ht_json_form ht_train_log_form = { LIST, .each = &event };

/* ---- the check ---- */

static const char *const kind_names[] = { "a string", "true or false",
	"a whole number that is not negative", "a number, \"inf\", \"-inf\" or \"nan\"",
	"an object", "an array" };

static bool is_number(const cJSON *v)
{
	static const char *const words[] = { "inf", "-inf", "nan" };

	for (size_t i = 0; cJSON_IsString(v) && i < HT_COUNT(words); i++)
		if (!strcmp(v->valuestring, words[i]))
			return true;
	return cJSON_IsNumber(v);
}

static bool is_count(const cJSON *v)
{
	return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble == trunc(v->valuedouble);
}

static bool is_kind(const cJSON *v, enum kind kind)
{
	switch (kind) {
	case TEXT:
		return cJSON_IsString(v);
	case TRUTH:
		return cJSON_IsBool(v);
	case COUNT:
		return is_count(v);
	case NUMBER:
		return is_number(v);
	case OBJECT:
		return cJSON_IsObject(v);
	case LIST:
		return cJSON_IsArray(v);
	}
	return false;
}

static enum ht_status check(struct ht_json *j, const cJSON *v, const struct ht_json_form *f);

static enum ht_status check_items(
	struct ht_json *j, const cJSON *list, const struct ht_json_form *f)
{
	const cJSON *i;
	int n = 0;

	cJSON_ArrayForEach(i, list)
	{
		HT_TRY(check(j, i, f->each));
		n++;
	}
	if (f->items && n != f->items)
		return ht_json_error(
			j, "an array of %d elements, where there have to be %d", n, f->items);
	return HT_OK;
}

static enum ht_status check_needed(
	struct ht_json *j, const struct ht_json_form *f, unsigned seen, long line)
{
	for (const struct member *m = f->member; m->name; m++)
		if (m->needed && !(seen >> (m - f->member) & 1)) {
			j->line = line;
			return ht_json_error(j, "%s is missing", m->name);
		}
	return HT_OK;
}

static enum ht_status check_members(
	struct ht_json *j, const cJSON *object, const struct ht_json_form *f)
{
	unsigned seen = 0;
	long line = j->line;
	const cJSON *i;

	cJSON_ArrayForEach(i, object)
	{
		const struct member *m = f->member;
		ht_json_step(j);
		line = i == object->child ? j->line : line;
		while (m->name && strcmp(m->name, i->string) != 0)
			m++;
		if (!m->name) {
			ht_json_skip(j, i);
			continue;
		}
		if (seen >> (m - f->member) & 1)
			return ht_json_error(j, "%s stands twice", m->name);
		seen |= 1u << (m - f->member);
		HT_TRY(check(j, i, m->form));
	}
	return check_needed(j, f, seen, line);
}

static enum ht_status check(struct ht_json *j, const cJSON *v, const struct ht_json_form *f)
{
	if (f->or_null && cJSON_IsNull(v))
		return HT_OK;
	if (!is_kind(v, f->kind))
		return ht_json_error(j, "%s is %s; it has to be %s",
			v->string ? v->string : "an element", ht_json_kind(v), kind_names[f->kind]);
	if (f->kind == OBJECT)
		return check_members(j, v, f);
	if (f->kind == LIST)
		return check_items(j, v, f);
	if (cJSON_IsString(v))
		ht_json_step(j);
	return HT_OK;
}

enum ht_status ht_json_check(struct ht_json *j, const struct ht_json_form *form)
{
	return check(j, j->root, form);
}
