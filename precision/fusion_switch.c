/* fusion_switch_file: which fusions are on.
 *
 *   {"Switch": {"GraphFusion": {"ALL": "off", "GeluFusionPass": "on"}, "UBFusion": {…}},
 *    "Priority": {…}, "ExceptionalPassOfO1Level": […]}
 *
 * or, in the old form, lines NAME:on and NAME:off.  Comments are those of every JSON file
 * (precision/json.h); the old form has // to the end of a line, and lines that begin with #.
 *
 * optimization_switch: NAME:on;NAME:off, for the names of clean-ups too. */
#include "precision/json.h"

#include <string.h>

/* An error that is in no file is one of usage. */
static struct ht_where place(const struct ht_parse *p, long line)
{
	return line ? ht_at_line(p->path, line) : HT_NOWHERE;
}

static enum ht_status failure(long line)
{
	return line ? HT_E_INPUT : HT_E_USAGE;
}

static enum ht_status unknown(struct ht_parse *p, struct ht_str name, long line)
{
	struct ht_str near[3];
	struct ht_buf b;
	int n = p->unknown_names++ < HT_NEAR_LIMIT ? ht_fusions_near(name, near, p->arena) : 0;

	ht_buf_init(&b, p->arena);
	ht_printf(&b, "there is no fusion '%.*s'", HT_STR_ARG(name));
	for (int i = 0; i < n; i++)
		ht_printf(&b, "%s'%.*s'%s", i ? " or " : "; did you mean ", HT_STR_ARG(near[i]),
			i + 1 < n ? "" : "?");
	if (!p->lenient)
		return ht_error(p->diags, failure(line), place(p, line), "%s", ht_buf_str(&b).p);
	ht_warn(p->diags, place(p, line), "%s", ht_buf_str(&b).p);
	return HT_OK;
}

/* Adds a rule.  A name may occur once in all switches, but ALL once for each kind of fusion. */
static struct ht_rule *add_rule(struct ht_parse *p, struct ht_rules *out, struct ht_str name,
	enum ht_switch_section section, long line, bool *old)
{
	struct ht_rule *r;

	for (size_t i = 0; i < out->n; i++) {
		r = &out->rule[i];
		*old = ht_str_eq(r->name, name) &&
		       (r->section == HT_SWITCH_EXCEPTION) == (section == HT_SWITCH_EXCEPTION) &&
		       (!ht_str_is(name, "ALL") || r->section == section);
		if (*old)
			return r;
	}
	*old = false;
	out->rule = ht_grow(p->arena, out->rule, out->n, &out->cap, sizeof *out->rule);
	r = &out->rule[out->n++];
	*r = (struct ht_rule){
		.name = ht_str_copy(p->arena, name), .line = line, .section = section, .on = true
	};
	r->where = line ? ht_str_printf(p->arena, "%s:%ld", out->path, line).p : out->option;
	return r;
}

static enum ht_status add_switch(struct ht_parse *p, struct ht_str name, struct ht_str value,
	enum ht_switch_section section, long line, struct ht_rules *out)
{
	bool on = ht_str_is(value, "on"), old;
	struct ht_rule *r;

	if (!on && !ht_str_is(value, "off"))
		return ht_error(p->diags, failure(line), place(p, line),
			"'%.*s' is '%.*s'; it has to be on or off", HT_STR_ARG(name),
			HT_STR_ARG(value));
	if (!ht_fusion_is_known(name, out->path == NULL) && !(ht_str_is(name, "ALL") && out->path))
		return unknown(p, name, line);
	r = add_rule(p, out, name, section, line, &old);
	if (old && r->on != on)
		return ht_error(p->diags, failure(line), place(p, line),
			"'%.*s' is switched on and off", HT_STR_ARG(name));
	r->on = on;
	return HT_OK;
}

/* ---- lines ---- */

static struct ht_str without_comment(struct ht_str line)
{
	const char *comment = memmem(line.p, line.n, "//", 2);

	if (comment)
		line.n = (size_t)(comment - line.p);
	return line;
}

static enum ht_status parse_lines(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	struct ht_lines lines = { .path = p->path, .rest = text };
	struct ht_str s;
	enum ht_status st;

	while (ht_next_line(&lines, p->diags, &s, &st)) {
		struct ht_str name, value;
		const char *colon;
		size_t before = out->n;
		s = ht_trim(without_comment(s));
		if (!s.n || *s.p == '#')
			continue;
		colon = memchr(s.p, ':', s.n);
		if (!colon)
			return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, lines.line),
				"'%.*s' is not NAME:on or NAME:off", HT_STR_ARG(s));
		name = ht_trim((struct ht_str){ s.p, (size_t)(colon - s.p) });
		value = ht_trim((struct ht_str){ colon + 1, s.n - (size_t)(colon - s.p) - 1 });
		HT_TRY(add_switch(p, name, value, HT_SWITCH_ANY, lines.line, out));
		if (out->n == before && ht_fusion_is_known(name, false))
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

/* Moves to the key of a member of an object. */
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
	enum ht_switch_section section =
		strcmp(leaves->string, "UBFusion") ? HT_SWITCH_GRAPH : HT_SWITCH_LOOP;
	const cJSON *leaf;

	cJSON_ArrayForEach(leaf, leaves)
	{
		HT_TRY(step_member(j, leaves, leaf));
		if (!cJSON_IsString(leaf))
			return ht_json_error(j, "'%s' is %s; it has to be \"on\" or \"off\"",
				leaf->string, ht_json_kind(leaf));
		HT_TRY(add_switch(j->parse, ht_trim(ht_str(leaf->string)),
			ht_trim(ht_str(leaf->valuestring)), section, j->line, out));
		ht_json_step(j);
	}
	return HT_OK;
}

/* Reads bands of priorities, each a thousand wide. */
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
			if (!ht_fusion_is_known(ht_str(leaf->string), false))
				HT_TRY(unknown(j->parse, ht_str(leaf->string), j->line));
			ht_json_step(j);
		}
	}
	ht_warn(j->parse->diags, ht_at_line(j->parse->path, j->line),
		"priorities have no effect: the order of our fusions is fixed, so that results do not depend on it");
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

/* Reads the fusions that stay on at level O1. */
static enum ht_status read_exceptions(struct ht_json *j, const cJSON *array, struct ht_rules *out)
{
	const cJSON *item;
	bool old;

	if (!cJSON_IsArray(array))
		return ht_json_error(j, "'%s' is %s; it has to be an array of names", array->string,
			ht_json_kind(array));
	cJSON_ArrayForEach(item, array)
	{
		if (!cJSON_IsString(item))
			return ht_json_error(j, "%s in an array of names", ht_json_kind(item));
		ht_json_step(j);
		if (ht_fusion_is_known(ht_str(item->valuestring), false))
			add_rule(j->parse, out, ht_str(item->valuestring), HT_SWITCH_EXCEPTION,
				j->line, &old);
		else
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
			HT_TRY(read_exceptions(j, section, out));
		else
			return ht_json_error(j,
				"'%s' is none of Switch, Priority, ExceptionalPassOfO1Level",
				section->string);
	}
	return HT_OK;
}

/* The text behind the comment at its beginning; empty if nothing closes the comment. */
static struct ht_str behind_comment(struct ht_str text)
{
	const char *mark = text.p[1] == '*' ? "*/" : "\n";
	const char *end = memmem(text.p + 2, text.n - 2, mark, strlen(mark));
	size_t n = end ? (size_t)(end - text.p) + strlen(mark) : text.n;

	return (struct ht_str){ text.p + n, text.n - n };
}

/* Whether the first character besides comments is a brace; or there are only comments, and one
 * of them is not of the old form. */
static bool is_json(struct ht_str text)
{
	bool block = false;

	while ((text = ht_trim(text)).n) {
		bool opens = ht_str_starts(text, "/*");
		if (!opens && !ht_str_starts(text, "//"))
			return *text.p == '{';
		block = block || opens;
		text = behind_comment(text);
	}
	return block;
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

/* ---- optimization_switch ---- */

enum ht_status ht_optimization_switch_parse(
	struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	while (text.n) {
		const char *end = memchr(text.p, ';', text.n);
		struct ht_str item = { text.p, end ? (size_t)(end - text.p) : text.n };
		const char *colon = memchr(item.p, ':', item.n);
		struct ht_str name, value;

		text.p += item.n + (end != NULL);
		text.n -= item.n + (end != NULL);
		item = ht_trim(item);
		if (!item.n)
			continue;
		if (!colon)
			return ht_error(p->diags, HT_E_USAGE, HT_NOWHERE,
				"%s: '%.*s' is not NAME:on or NAME:off", out->option,
				HT_STR_ARG(item));
		name = ht_trim((struct ht_str){ item.p, (size_t)(colon - item.p) });
		value = ht_trim(
			(struct ht_str){ colon + 1, (size_t)(item.p + item.n - colon) - 1 });
		HT_TRY(add_switch(p, name, value, HT_SWITCH_ANY, 0, out));
	}
	return HT_OK;
}
