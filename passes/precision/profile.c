/* Looking things up in a profile's tables. */
#include "passes/precision/precision.h"

#include <stdlib.h>
#include <string.h>

static const struct ht_profile *const profiles[] = { &ht_profile_cpu };

const char *ht_class_name(enum ht_class c)
{
	static const char *const names[] = { "unknown", "white", "black", "gray" };

	return names[c];
}

enum ht_status ht_profile_named(const char *name, struct ht_diags *d, const struct ht_profile **out)
{
	struct ht_str names[HT_COUNT(profiles)], near[3];

	for (size_t i = 0; i < HT_COUNT(profiles); i++) {
		names[i] = ht_str(profiles[i]->name);
		if (strcmp(profiles[i]->name, name))
			continue;
		*out = profiles[i];
		return HT_OK;
	}
	if (ht_near_names(ht_str(name), names, HT_COUNT(profiles), near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no profile '%s'; did you mean '%.*s'?", name,
			HT_STR_ARG(near[0]));
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "there is no profile '%s'; there is %s", name,
		profiles[0]->name);
}

static int compare(struct ht_str a, const char *b)
{
	return ht_str_cmp(a, ht_str(b));
}

static int by_vendor_type(const void *key, const void *row)
{
	return compare(*(const struct ht_str *)key, ((const struct ht_listed *)row)->type);
}

static int by_type(const void *key, const void *row)
{
	return compare(*(const struct ht_str *)key, ((const struct ht_mapped *)row)->type);
}

static int by_name(const void *key, const void *row)
{
	return compare(*(const struct ht_str *)key, *(const char *const *)row);
}

struct ht_str ht_profile_vendor_type(const struct ht_profile *p, struct ht_str type)
{
	const struct ht_mapped *m =
		bsearch(&type, p->mapped, p->mappeds, sizeof *p->mapped, by_type);

	return m ? ht_str(m->vendor) : type;
}

static enum ht_class class_of_table(const struct ht_op_info *info)
{
	if (!strcmp(info->prec, "LOW"))
		return HT_CLASS_WHITE;
	if (!strcmp(info->prec, "FOLLOW"))
		return HT_CLASS_GRAY;
	return strcmp(info->prec, "KEEP") ? HT_CLASS_UNKNOWN : HT_CLASS_BLACK;
}

enum ht_class ht_profile_class(
	const struct ht_profile *p, const struct ht_node *n, const char **list)
{
	struct ht_str vendor = ht_profile_vendor_type(p, n->type);
	const struct ht_listed *l =
		bsearch(&vendor, p->listed, p->listeds, sizeof *p->listed, by_vendor_type);

	*list = l ? "list" : "op table";
	return l ? l->class : class_of_table(ht_op_info(n->op));
}

bool ht_profile_is_still(const struct ht_profile *p, const struct ht_node *n)
{
	return bsearch(&n->type, p->still, p->stills, sizeof *p->still, by_name);
}

bool ht_profile_keeps(const struct ht_profile *p, struct ht_str type, struct ht_str attr)
{
	char key[128];
	struct ht_str k;

	if (type.n + attr.n + 2 > sizeof key)
		return false;
	snprintf(key, sizeof key, "%.*s.%.*s", HT_STR_ARG(type), HT_STR_ARG(attr));
	k = ht_str(key);
	return bsearch(&k, p->keeps, p->keepses, sizeof *p->keeps, by_name);
}
