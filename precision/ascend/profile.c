/* Finds profiles by name, and looks things up in their tables. */
#include "precision/precision.h"

#include <stdlib.h>
#include <string.h>

extern const struct ht_profile ht_profile_ascend310, ht_profile_ascend310p, ht_profile_ascend910,
	ht_profile_ascend910b;

const struct ht_profile *const ht_profiles[] = { &ht_profile_cpu, &ht_profile_ascend310,
	&ht_profile_ascend310p, &ht_profile_ascend910, &ht_profile_ascend910b, NULL };

const char *ht_class_name(enum ht_class c)
{
	static const char *const names[] = { "unknown", "white", "black", "gray" };

	return names[c];
}

const struct ht_machine ht_machines[] = {
#define MACHINE(name, profile, why) { name, profile, why },
#include "precision/ascend/machines.def"
#undef MACHINE
	{ 0 },
};

static const struct ht_profile *profile_named(const char *name)
{
	for (const struct ht_profile *const *p = ht_profiles; *p; p++)
		if (!strcmp((*p)->name, name))
			return *p;
	return NULL;
}

static enum ht_status no_profile(const char *name, struct ht_diags *d)
{
	struct ht_str names[HT_COUNT(ht_profiles) + HT_COUNT(ht_machines)], near[3];
	size_t n = 0;

	for (const struct ht_profile *const *p = ht_profiles; *p; p++)
		names[n++] = ht_str((*p)->name);
	for (const struct ht_machine *m = ht_machines; m->name; m++)
		names[n++] = ht_str(m->name);
	if (ht_near_names(ht_str(name), names, n, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no profile '%s'; did you mean '%.*s'?", name,
			HT_STR_ARG(near[0]));
	return ht_error(
		d, HT_E_USAGE, HT_NOWHERE, "there is no profile '%s'; see halftone profiles", name);
}

enum ht_status ht_profile_named(const char *name, struct ht_diags *d, const struct ht_profile **out)
{
	const struct ht_profile *found = profile_named(name);
	const struct ht_machine *m = ht_machines;

	while (!found && m->name && strcmp(m->name, name) != 0)
		m++;
	if (!found && !m->name)
		return no_profile(name, d);
	if (!found && !m->profile)
		return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE, "there is no profile of '%s': %s",
			name, m->why);
	if (!found && *m->why)
		ht_note(d, HT_NOWHERE, "profile %s is decided for as %s: %s", name, m->profile,
			m->why);
	*out = found ? found : profile_named(m->profile);
	return HT_OK;
}

static int compare(struct ht_str a, const char *b)
{
	return ht_str_cmp(a, ht_str(b));
}

static int by_vendor_type(const void *key, const void *row)
{
	return compare(*(const struct ht_str *)key, ((const struct ht_listed *)row)->type);
}

static int by_kernel(const void *key, const void *row)
{
	return compare(*(const struct ht_str *)key, ((const struct ht_kernel_row *)row)->type);
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

bool ht_profile_lists(const struct ht_profile *p, struct ht_str vendor)
{
	return bsearch(&vendor, p->listed, p->listeds, sizeof *p->listed, by_vendor_type);
}

static enum ht_class class_of_table(const struct ht_op_info *info)
{
	switch (info->prec) {
	case HT_PREC_LOW:
		return HT_CLASS_WHITE;
	case HT_PREC_FOLLOW:
		return HT_CLASS_GRAY;
	case HT_PREC_KEEP:
		return HT_CLASS_BLACK;
	case HT_PREC_NONE:
		break;
	}
	return HT_CLASS_UNKNOWN;
}

enum ht_class ht_profile_class(
	const struct ht_profile *p, const struct ht_node *n, const char **list)
{
	struct ht_str vendor = ht_profile_vendor_type(p, n->type);
	const struct ht_listed *l =
		bsearch(&vendor, p->listed, p->listeds, sizeof *p->listed, by_vendor_type);

	*list = l ? "list" : "op table";
	if (l)
		return l->class;
	return p->computed_columns ? class_of_table(ht_op_info(n->op)) : HT_CLASS_UNKNOWN;
}

const struct ht_kernel_row *ht_profile_kernels(const struct ht_profile *p, struct ht_str vendor)
{
	return bsearch(&vendor, p->kernel, p->kernels, sizeof *p->kernel, by_kernel);
}

bool ht_profile_is_cube(const struct ht_profile *p, const struct ht_node *n)
{
	struct ht_str vendor = ht_profile_vendor_type(p, n->type);

	return bsearch(&vendor, p->cube, p->cubes, sizeof *p->cube, by_name);
}

unsigned ht_profile_promotes(const struct ht_profile *p, const struct ht_node *n)
{
	struct ht_str vendor = ht_profile_vendor_type(p, n->type);

	for (const struct ht_promote *i = p->promote; i->type; i++)
		if (ht_str_is(vendor, i->type))
			return i->operands;
	return 0;
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
