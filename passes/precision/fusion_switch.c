/* fusion_switch_file: which fusions are on.
 *
 *   {"Switch": {"GraphFusion": {"ALL": "off", "GeluFusionPass": "on"}, "UBFusion": {…}},
 *    "Priority": {…}, "ExceptionalPassOfO1Level": […]}
 *
 * or, in the old form, lines NAME:on and NAME:off.  Lines that begin with // say nothing, in the old
 * form also those of #. */
#include "passes/precision/json.h"

#include <string.h>

static const struct fusion {
	const char *name;
	bool closable;
	const char *pass; /* ours, or NULL */
} fusions[] = {
#define FUSION(name, closable, pass) { name, closable, pass },
#include "passes/precision/fusions.def"
#undef FUSION
};

static const struct fusion *fusion_named(struct ht_str name)
{
	for (size_t i = 0; i < HT_COUNT(fusions); i++)
		if (ht_str_is(name, fusions[i].name))
			return &fusions[i];
	return NULL;
}

static enum ht_status unknown(struct ht_parse *p, struct ht_str name, long line)
{
	struct ht_str names[HT_COUNT(fusions)], near[3];
	struct ht_buf b;
	int n;

	for (size_t i = 0; i < HT_COUNT(fusions); i++)
		names[i] = ht_str(fusions[i].name);
	n = ht_near_names(name, names, HT_COUNT(fusions), near);
	ht_buf_init(&b, p->arena);
	ht_printf(&b, "there is no fusion '%.*s'", HT_STR_ARG(name));
	for (int i = 0; i < n; i++)
		ht_printf(&b, "%s'%.*s'%s", i ? " or " : "; did you mean ", HT_STR_ARG(near[i]),
			i + 1 < n ? "" : "?");
	if (!p->lenient)
		return ht_error(
			p->diags, HT_E_INPUT, ht_at_line(p->path, line), "%s", ht_buf_str(&b).p);
	ht_warn(p->diags, ht_at_line(p->path, line), "%s", ht_buf_str(&b).p);
	return HT_OK;
}

static enum ht_status add_switch(struct ht_parse *p, struct ht_str name, struct ht_str value,
	long line, struct ht_rules *out)
{
	bool on = ht_str_is(value, "on"), old;
	struct ht_rule *r;

	if (!on && !ht_str_is(value, "off"))
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, line),
			"'%.*s' is '%.*s'; it has to be on or off", HT_STR_ARG(name),
			HT_STR_ARG(value));
	if (!ht_str_is(name, "ALL") && !fusion_named(name))
		return unknown(p, name, line);
	r = ht_rules_add(out, p->arena, name, true, line, &old);
	if (old && r->on != on)
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, line),
			"'%.*s' is switched on and off", HT_STR_ARG(name));
	r->on = on;
	return HT_OK;
}

/* ---- lines ---- */

static enum ht_status parse_lines(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	struct ht_lines lines = { .path = p->path, .rest = text };
	struct ht_str s;
	enum ht_status st;

	while (ht_next_line(&lines, p->diags, &s, &st)) {
		struct ht_str name, value;
		const char *colon;
		size_t before = out->n;
		s = ht_trim(s);
		if (!s.n || *s.p == '#' || ht_str_starts(s, "//"))
			continue;
		colon = memchr(s.p, ':', s.n);
		if (!colon)
			return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, lines.line),
				"'%.*s' is not NAME:on or NAME:off", HT_STR_ARG(s));
		name = ht_trim((struct ht_str){ s.p, (size_t)(colon - s.p) });
		value = ht_trim((struct ht_str){ colon + 1, s.n - (size_t)(colon - s.p) - 1 });
		HT_TRY(add_switch(p, name, value, lines.line, out));
		if (out->n == before && fusion_named(name))
			return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, lines.line),
				"'%.*s' stands here twice", HT_STR_ARG(name));
	}
	return st;
}

/* ---- JSON ---- */

static bool is_repeated(const cJSON *object, const cJSON *member)
{
	for (const cJSON *i = object->child; i != member; i = i->next)
		if (!strcmp(i->string, member->string))
			return true;
	return false;
}

/* One member of an object: goes on to its key. */
static enum ht_status step_member(struct ht_json *j, const cJSON *object, const cJSON *member)
{
	ht_json_step(j);
	if (is_repeated(object, member))
		return ht_json_error(j, "'%s' stands here twice", member->string);
	return HT_OK;
}

static enum ht_status need_object(struct ht_json *j, const char *name, const cJSON *value)
{
	return cJSON_IsObject(value) ? HT_OK
				     : ht_json_error(j, "'%s' is %s; it has to be an object", name,
					       ht_json_kind(value));
}

static enum ht_status read_switches(struct ht_json *j, const cJSON *leaves, struct ht_rules *out)
{
	const cJSON *leaf;

	cJSON_ArrayForEach(leaf, leaves)
	{
		HT_TRY(step_member(j, leaves, leaf));
		if (!cJSON_IsString(leaf))
			return ht_json_error(j, "'%s' is %s; it has to be \"on\" or \"off\"",
				leaf->string, ht_json_kind(leaf));
		HT_TRY(add_switch(j->parse, ht_trim(ht_str(leaf->string)),
			ht_trim(ht_str(leaf->valuestring)), j->line, out));
		ht_json_step(j);
	}
	return HT_OK;
}

/* Bands of priorities, each a thousand wide. */
static enum ht_status read_priorities(struct ht_json *j, const cJSON *bands, struct ht_rules *out)
{
	static const char *const names[] = { "Top", "Main", "Down" };
	const cJSON *band, *leaf;

	(void)out;
	cJSON_ArrayForEach(band, bands)
	{
		int64_t which = 0, priority;
		HT_TRY(step_member(j, bands, band));
		while (which < 3 && strcmp(names[which], band->string))
			which++;
		if (which == 3)
			return ht_json_error(j, "'%s' is none of Top, Main, Down", band->string);
		HT_TRY(need_object(j, band->string, band));
		cJSON_ArrayForEach(leaf, band)
		{
			HT_TRY(step_member(j, band, leaf));
			if (!cJSON_IsString(leaf) ||
				!ht_parse_int(ht_str(leaf->valuestring), &priority) ||
				priority < which * 1000 || priority >= which * 1000 + 1000)
				return ht_json_error(j,
					"the priority of '%s' has to be a number in quotes from %d to %d",
					leaf->string, (int)which * 1000, (int)which * 1000 + 999);
			if (!fusion_named(ht_str(leaf->string)))
				HT_TRY(unknown(j->parse, ht_str(leaf->string), j->line));
			ht_json_step(j);
		}
	}
	ht_warn(j->parse->diags, ht_at_line(j->parse->path, j->line),
		"priorities have no effect: the order of our fusions is fixed");
	return HT_OK;
}

static enum ht_status read_kinds(struct ht_json *j, const cJSON *section, struct ht_rules *out,
	enum ht_status (*read)(struct ht_json *j, const cJSON *members, struct ht_rules *out))
{
	const cJSON *kind;

	HT_TRY(need_object(j, section->string, section));
	cJSON_ArrayForEach(kind, section)
	{
		HT_TRY(step_member(j, section, kind));
		if (strcmp(kind->string, "GraphFusion") && strcmp(kind->string, "UBFusion"))
			return ht_json_error(
				j, "'%s' is neither GraphFusion nor UBFusion", kind->string);
		HT_TRY(need_object(j, kind->string, kind));
		HT_TRY(read(j, kind, out));
	}
	return HT_OK;
}

/* They say what stays on at a level of optimization that we do not have. */
static enum ht_status read_exceptions(struct ht_json *j, const cJSON *array)
{
	const cJSON *item;

	if (!cJSON_IsArray(array))
		return ht_json_error(j, "'%s' is %s; it has to be an array of names", array->string,
			ht_json_kind(array));
	cJSON_ArrayForEach(item, array)
	{
		if (!cJSON_IsString(item))
			return ht_json_error(j, "%s in an array of names", ht_json_kind(item));
		ht_json_step(j);
		if (!fusion_named(ht_str(item->valuestring)))
			HT_TRY(unknown(j->parse, ht_str(item->valuestring), j->line));
	}
	return HT_OK;
}

static enum ht_status read_file(struct ht_json *j, struct ht_rules *out)
{
	const cJSON *section;

	cJSON_ArrayForEach(section, j->root)
	{
		HT_TRY(step_member(j, j->root, section));
		if (!strcmp(section->string, "Switch"))
			HT_TRY(read_kinds(j, section, out, read_switches));
		else if (!strcmp(section->string, "Priority"))
			HT_TRY(read_kinds(j, section, out, read_priorities));
		else if (!strcmp(section->string, "ExceptionalPassOfO1Level"))
			HT_TRY(read_exceptions(j, section));
		else
			return ht_json_error(j,
				"'%s' is none of Switch, Priority, ExceptionalPassOfO1Level",
				section->string);
	}
	return HT_OK;
}

/* The first line that says something begins with a brace. */
static bool is_json(struct ht_str text)
{
	while ((text = ht_trim(text)).n) {
		const char *end = memchr(text.p, '\n', text.n);
		if (!ht_str_starts(text, "//"))
			return *text.p == '{';
		if (!end)
			break;
		text.n -= (size_t)(end - text.p);
		text.p = end;
	}
	return false;
}

enum ht_status ht_fusion_switch_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	struct ht_json j;

	if (!ht_trim(text).n)
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, 0), "the file is empty");
	if (!is_json(text))
		return parse_lines(p, text, out);
	HT_TRY(ht_json_parse(p, text, true, &j));
	return read_file(&j, out);
}

/* ---- what is on ---- */

static const struct ht_rule *switch_of(const struct ht_rules *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (ht_str_is(r->rule[i].name, name))
			return &r->rule[i];
	return NULL;
}

/* A fusion's own entry counts before ALL. */
static bool is_on(const struct ht_rules *r, const char *name, bool closable)
{
	const struct ht_rule *own = switch_of(r, name), *all = switch_of(r, "ALL");

	return !closable || (own ? own->on : !all || all->on);
}

bool ht_fusion_is_on(const struct ht_rules *r, const char *pass)
{
	bool known = false, on = false;

	if (switch_of(r, pass))
		return switch_of(r, pass)->on;
	for (size_t i = 0; i < HT_COUNT(fusions); i++)
		if (fusions[i].pass && !strcmp(fusions[i].pass, pass) &&
			strcmp(fusions[i].name, pass) != 0) {
			known = true;
			on = on || is_on(r, fusions[i].name, fusions[i].closable);
		}
	return known ? on : !fusion_named(ht_str(pass)) || is_on(r, pass, true);
}

const char *ht_fusion_note(const struct ht_rules *r, const struct ht_rule *rule)
{
	const struct fusion *f = fusion_named(rule->name);

	if (!f)
		return "every fusion that can be closed";
	if (!rule->on && !f->closable)
		return "stays on: it cannot be closed";
	if (!f->pass)
		return "no counterpart here";
	if (!rule->on && ht_fusion_is_on(r, f->pass))
		return "our pass of it stays on: it has other names that are on";
	return f->pass;
}
