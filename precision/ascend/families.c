/* Names of the vendor's kernels that stand for several op types, or for one with another name. */
#include "precision/precision.h"

#include <string.h>

static const struct {
	const char *name, *types;
} families[] = {
#define FAMILY(name, types) { name, types },
#include "precision/ascend/families.def"
#undef FAMILY
};

bool ht_type_is_in(const char *types, struct ht_str type)
{
	for (const char *p = types; (p = strchr(p, ' ')) && p[1]; p++)
		if (!strncmp(p + 1, type.p, type.n) && p[1 + type.n] == ' ')
			return true;
	return false;
}

const char *ht_family_of(struct ht_str type, size_t *next)
{
	while (*next < HT_COUNT(families)) {
		size_t i = (*next)++;

		if (ht_type_is_in(families[i].types, type))
			return families[i].name;
	}
	return NULL;
}

bool ht_family_has(struct ht_str name, struct ht_str type)
{
	for (size_t i = 0; i < HT_COUNT(families); i++)
		if (ht_str_is(name, families[i].name))
			return ht_type_is_in(families[i].types, type);
	return false;
}
