/* modify_mixlist: a JSON object of lists, each with op types to add to it and to remove from it. */
#include "precision/json.h"

#include <string.h>

static const struct {
	const char *name;
	unsigned remove, add;
} lists[] = {
	{ "black-list", HT_MIX_REMOVE_BLACK, HT_MIX_ADD_BLACK },
	{ "white-list", HT_MIX_REMOVE_WHITE, HT_MIX_ADD_WHITE },
	{ "gray-list", HT_MIX_REMOVE_GRAY, HT_MIX_ADD_GRAY },
};

/* Whether the changes that all lists together request for one op type are consistent. */
static bool is_legal(unsigned mix)
{
	static const unsigned legal[] = {
		HT_MIX_REMOVE_BLACK,
		HT_MIX_REMOVE_WHITE,
		HT_MIX_ADD_GRAY,
		HT_MIX_ADD_GRAY | HT_MIX_REMOVE_BLACK,
		HT_MIX_ADD_GRAY | HT_MIX_REMOVE_WHITE,
		HT_MIX_ADD_WHITE,
		HT_MIX_ADD_WHITE | HT_MIX_REMOVE_GRAY,
		HT_MIX_ADD_WHITE | HT_MIX_REMOVE_BLACK,
		HT_MIX_ADD_BLACK,
		HT_MIX_ADD_BLACK | HT_MIX_REMOVE_GRAY,
		HT_MIX_ADD_BLACK | HT_MIX_REMOVE_WHITE,
	};

	for (size_t i = 0; i < HT_COUNT(legal); i++)
		if (legal[i] == mix)
			return true;
	return false;
}

static void put_operations(unsigned mix, struct ht_buf *b)
{
	for (size_t i = 0; i < HT_COUNT(lists); i++) {
		if (mix & lists[i].add)
			ht_printf(b, "%sto-add to %s", b->n ? ", " : "", lists[i].name);
		if (mix & lists[i].remove)
			ht_printf(b, "%sto-remove from %s", b->n ? ", " : "", lists[i].name);
	}
}

/* Whether a member has the name of an earlier one, which strict JSON does not permit. */
static bool is_repeated(const cJSON *object, const cJSON *member)
{
	for (const cJSON *i = object->child; i != member; i = i->next)
		if (!strcmp(i->string, member->string))
			return true;
	return false;
}

static enum ht_status read_types(
	struct ht_json *j, const cJSON *array, unsigned bit, struct ht_rules *out)
{
	const cJSON *item;

	if (!cJSON_IsArray(array))
		return ht_json_error(
			j, "%s, where an array of op types has to be", ht_json_kind(array));
	cJSON_ArrayForEach(item, array)
	{
		struct ht_rule *r;
		bool old;
		if (!cJSON_IsString(item))
			return ht_json_error(j, "%s in an array of op types", ht_json_kind(item));
		ht_json_step(j);
		if (!*item->valuestring)
			return ht_json_error(j, "an empty string is no op type");
		r = ht_rules_add(
			out, j->parse->arena, ht_str(item->valuestring), true, j->line, &old);
		r->mix |= bit;
	}
	return HT_OK;
}

static enum ht_status read_list(
	struct ht_json *j, const cJSON *list, size_t which, struct ht_rules *out)
{
	const cJSON *member;

	if (!cJSON_IsObject(list))
		return ht_json_error(j, "'%s' is %s; it has to be an object with to-add, to-remove",
			lists[which].name, ht_json_kind(list));
	cJSON_ArrayForEach(member, list)
	{
		bool add = !strcmp(member->string, "to-add");
		ht_json_step(j);
		if (!add && strcmp(member->string, "to-remove"))
			return ht_json_error(j,
				"'%s' means nothing in %s; it has to-add, to-remove",
				member->string, lists[which].name);
		if (is_repeated(list, member))
			return ht_json_error(
				j, "'%s' stands twice in %s", member->string, lists[which].name);
		HT_TRY(read_types(j, member, add ? lists[which].add : lists[which].remove, out));
	}
	return HT_OK;
}

static enum ht_status read_lists(struct ht_json *j, struct ht_rules *out)
{
	const cJSON *member;

	if (!cJSON_IsObject(j->root))
		return ht_json_error(j,
			"%s; it has to be an object with black-list, white-list, "
			"gray-list",
			ht_json_kind(j->root));
	cJSON_ArrayForEach(member, j->root)
	{
		size_t i = 0;
		ht_json_step(j);
		while (i < HT_COUNT(lists) && strcmp(lists[i].name, member->string))
			i++;
		if (i == HT_COUNT(lists))
			return ht_json_error(j,
				"there is no list '%s'; there are black-list, white-list, gray-list",
				member->string);
		if (is_repeated(j->root, member))
			return ht_json_error(j, "'%s' stands here twice", member->string);
		HT_TRY(read_list(j, member, i, out));
	}
	return HT_OK;
}

static enum ht_status check(struct ht_parse *p, const struct ht_rule *r)
{
	struct ht_buf b;

	if (is_legal(r->mix))
		return HT_OK;
	ht_buf_init(&b, p->arena);
	put_operations(r->mix, &b);
	return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, r->line),
		"%s for op type '%.*s' is invalid: a type is added to one list, or removed from black "
		"or white, or removed from the list that it is in and added to another",
		ht_buf_str(&b).p, HT_STR_ARG(r->name));
}

enum ht_status ht_mixlist_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	struct ht_json j;

	HT_TRY(ht_json_parse(p, text, true, &j));
	HT_TRY(read_lists(&j, out));
	for (size_t i = 0; i < out->n; i++)
		HT_TRY(check(p, &out->rule[i]));
	return HT_OK;
}
