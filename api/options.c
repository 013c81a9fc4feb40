/* The table of options, and setting one of them on a policy. */
#include "api/api.h"

#include <string.h>

enum reader { READER_NONE, READER_POLICY };

static const struct row {
	const char *name, *values, *fallback;
	enum ht_option_class class;
	enum reader reader;
	const char *help;
} rows[] = {
#define OPTION(name, values, fallback, class, reader, help)                                        \
	{ name, values, fallback, HT_OPTION_##class, READER_##reader, help },
#include "api/options.def"
#undef OPTION
};

int ht_option(size_t i, struct ht_option_info *out)
{
	if (i >= HT_COUNT(rows))
		return 0;
	*out = (struct ht_option_info){ rows[i].name, rows[i].values, rows[i].fallback,
		rows[i].help, rows[i].class };
	return 1;
}

/* '-' may stand for '_'. */
static bool same_name(const char *row, const char *s)
{
	while (*row && (*row == *s || (*row == '_' && *s == '-'))) {
		row++;
		s++;
	}
	return *row == *s;
}

static const struct row *row_named(const char *name)
{
	for (size_t i = 0; i < HT_COUNT(rows); i++)
		if (same_name(rows[i].name, name))
			return &rows[i];
	return NULL;
}

static enum ht_status no_option(const char *name, struct ht_diags *d)
{
	struct ht_str names[HT_COUNT(rows)], near[3];

	for (size_t i = 0; i < HT_COUNT(rows); i++)
		names[i] = ht_str(rows[i].name);
	if (ht_near_names(ht_str(name), names, HT_COUNT(rows), near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no option '%s'; did you mean '%.*s'?", name, HT_STR_ARG(near[0]));
	return ht_error(
		d, HT_E_USAGE, HT_NOWHERE, "there is no option '%s'; see halftone options", name);
}

/* "a|b|c" holds the value; rows that name no alternatives take anything. */
static bool is_legal(const char *values, const char *value)
{
	size_t n = strlen(value);

	if (!strchr(values, '|'))
		return true;
	for (const char *p = values; *p; p += *p == '|') {
		size_t length = strcspn(p, "|");
		if (length == n && !strncmp(p, value, n))
			return true;
		p += length;
	}
	return false;
}

enum ht_status ht_option_set(
	struct ht_policy *p, const char *name, const char *value, struct ht_diags *d)
{
	const struct row *row = row_named(name);

	if (!row)
		return no_option(name, d);
	if (row->class == HT_OPTION_REFUSED)
		return ht_error(d, HT_E_UNSUPPORTED, HT_NOWHERE, "%s: %s", row->name, row->help);
	if (!is_legal(row->values, value))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "%s: '%s' is none of %s", row->name,
			value, row->values);
	if (row->class == HT_OPTION_ACCEPTED)
		ht_warn(d, HT_NOWHERE, "%s has no effect: %s", row->name, row->help);
	return row->reader == READER_POLICY ? ht_policy_option(p, row->name, value, d) : HT_OK;
}
