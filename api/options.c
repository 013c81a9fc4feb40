/* The table of options, and setting one of them on a policy. */
#include "api/api.h"
#include "api/grammar.h"

#include <string.h>

enum reader { READER_NONE, READER_POLICY, READER_TOOL };

static const struct row {
	const char *name, *values, *fallback;
	enum ht_option_class class;
	enum reader reader;
	const char *help, *vendor;
} rows[] = {
#define OPTION(name, values, fallback, class, reader, help, vendor)                                \
	{ name, values, fallback, HT_OPTION_##class, READER_##reader, help, vendor },
#include "choice/options.def"
};

static const struct alias {
	const char *name, *option;
} aliases[] = {
#define ALIAS(name, option) { name, option },
#include "choice/options.def"
};

static const struct standing {
	const char *option;
	enum ht_option_standing standing;
	const char *instead;
} standings[] = {
#define STANDING(option, standing, instead) { option, HT_OPTION_##standing, instead },
#include "choice/options.def"
};

_Static_assert(HT_COUNT(rows) <= HT_COUNT(((struct ht_policy *)0)->without_effect),
	"a policy can tell of every option that it has no effect");

int ht_option(size_t i, struct ht_option_info *out)
{
	if (i >= HT_COUNT(rows))
		return 0;
	*out = (struct ht_option_info){ rows[i].name, rows[i].values, rows[i].fallback,
		rows[i].help, rows[i].vendor, rows[i].class };
	return 1;
}

/* ---- names ---- */

/* '-' may stand for '_'. */
static bool same_name(const char *row, const char *s)
{
	while (*row && (*row == *s || (*row == '_' && *s == '-'))) {
		row++;
		s++;
	}
	return *row == *s;
}

static bool is_of_atc(const char *name)
{
	return !strncmp(name, "atc.", 4);
}

/* The name without the objects that contain it. */
static const char *last_part(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static const struct row *row_named(const char *name)
{
	for (size_t i = 0; i < HT_COUNT(aliases); i++)
		if (same_name(aliases[i].name, name))
			name = aliases[i].option;
	for (size_t i = 0; i < HT_COUNT(rows); i++)
		if (same_name(rows[i].name, name) ||
			(!is_of_atc(rows[i].name) && same_name(last_part(rows[i].name), name)))
			return &rows[i];
	return NULL;
}

int ht_option_named(const char *name, struct ht_option_info *out)
{
	const struct row *row = row_named(name);

	return row ? ht_option((size_t)(row - rows), out) : 0;
}

enum ht_option_standing ht_option_standing(const char *name, const char **instead)
{
	const struct row *row = row_named(name);

	*instead = "";
	for (size_t i = 0; row && i < HT_COUNT(standings); i++)
		if (!strcmp(standings[i].option, row->name)) {
			*instead = standings[i].instead;
			return standings[i].standing;
		}
	return HT_OPTION_CURRENT;
}

static enum ht_status no_option(const char *name, struct ht_diags *d)
{
	struct ht_str names[2 * HT_COUNT(rows)], near[3];
	size_t n = 0;

	for (size_t i = 0; i < HT_COUNT(rows); i++) {
		if (is_of_atc(rows[i].name))
			continue;
		names[n++] = ht_str(rows[i].name);
		if (strchr(rows[i].name, '.'))
			names[n++] = ht_str(last_part(rows[i].name));
	}
	if (ht_near_names(ht_str(name), names, n, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"there is no option '%s'; did you mean '%.*s'?", name, HT_STR_ARG(near[0]));
	return ht_error(
		d, HT_E_USAGE, HT_NOWHERE, "there is no option '%s'; see halftone options", name);
}

/* ---- values ---- */

static const char *const BOOLEAN = "true|false";

bool ht_is_listed(const char *values, const char *value)
{
	size_t n = strlen(value);

	for (const char *p = values; *p; p += *p == '|') {
		size_t length = strcspn(p, "|");
		if (length == n && !strncmp(p, value, n))
			return true;
		p += length;
	}
	return false;
}

/* "low..high" or "low..": a whole number between. */
static bool is_in_range(const char *values, const char *value)
{
	const char *dots = strstr(values, "..");
	int64_t low, high = INT64_MAX, x;

	ht_parse_int((struct ht_str){ values, (size_t)(dots - values) }, &low);
	if (dots[2])
		ht_parse_int(ht_str(dots + 2), &high);
	return ht_parse_int(ht_str(value), &x) && low <= x && x <= high;
}

static bool is_legal(const char *values, const char *value)
{
	if (!strcmp(values, BOOLEAN) && (!strcmp(value, "1") || !strcmp(value, "0")))
		return true;
	if (strstr(values, ".."))
		return is_in_range(values, value);
	return strchr(values, '|') ? ht_is_listed(values, value) : *value != 0;
}

/* The canonical one of two spellings. */
static const char *spelled(const struct row *row, const char *value)
{
	if (strcmp(row->values, BOOLEAN) != 0)
		return value;
	return !strcmp(value, "1") ? "true" : !strcmp(value, "0") ? "false" : value;
}

static bool is_default(const struct row *row, const char *value)
{
	return *row->fallback && !strcmp(row->fallback, spelled(row, value));
}

const char *ht_option_spelled(const char *name, const char *value)
{
	return spelled(row_named(name), value);
}

static enum ht_status illegal(
	const struct row *row, const char *value, struct ht_where at, struct ht_diags *d)
{
	return ht_error(d, at.path ? HT_E_INPUT : HT_E_USAGE, at, "%s: '%s' is %s %s", row->name,
		value,
		strstr(row->values, "..")  ? "no whole number in"
		: strchr(row->values, '|') ? "none of"
					   : "no",
		row->values);
}

enum ht_status ht_option_legal_at(
	const char *name, const char *value, struct ht_where at, struct ht_diags *d)
{
	const struct row *row = row_named(name);
	const struct ht_grammar *g = row ? ht_grammar_of(row->name) : NULL;
	struct ht_why why;

	if (!row)
		return no_option(name, d);
	if (!g || !*value)
		return is_legal(row->values, value) ? HT_OK : illegal(row, value, at, d);
	if (is_default(row, value) || g->check(value, &why))
		return HT_OK;
	return ht_error(d, at.path ? HT_E_INPUT : HT_E_USAGE, at, "%s: '%.200s': %s; it is %s",
		row->name, value, why.text, g->form);
}

static void tell_standing(const struct row *row, struct ht_where at, struct ht_diags *d)
{
	const char *instead;
	enum ht_option_standing standing = ht_option_standing(row->name, &instead);

	if (standing == HT_OPTION_EXPERIMENTAL)
		ht_note(d, at, "%s is experimental: the vendor may change it", row->name);
	else if (standing == HT_OPTION_DEPRECATED && *instead)
		ht_note(d, at, "%s is deprecated; the vendor's manual has %s in its place",
			row->name, instead);
	else if (standing == HT_OPTION_DEPRECATED)
		ht_note(d, at, "%s is deprecated; the vendor's manual has nothing in its place",
			row->name);
}

enum ht_status ht_option_refuse_at(
	const char *name, const char *value, struct ht_where at, struct ht_diags *d)
{
	const struct row *row = row_named(name);

	if (row->class != HT_OPTION_REFUSED || is_default(row, value))
		return HT_OK;
	tell_standing(row, at, d);
	return ht_error(
		d, HT_E_UNSUPPORTED, at, "%s=%s is refused: %s", row->name, value, row->help);
}

enum ht_status ht_option_check(const char *name, const char *value, struct ht_diags *d)
{
	HT_TRY(ht_option_legal_at(name, value, HT_NOWHERE, d));
	return ht_option_refuse_at(name, value, HT_NOWHERE, d);
}

/* ---- settings of a policy ---- */

static bool is_given(const struct ht_policy *p, const char *name)
{
	const struct ht_given *g = p->given;

	while (g && g->name != name)
		g = g->next;
	return g != NULL;
}

static enum ht_status give(
	struct ht_policy *p, const struct row *row, const char *value, struct ht_diags *d)
{
	struct ht_given *g;

	if (setjmp(p->unwind.env))
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	g = HT_NEW(&p->arena, struct ht_given);
	*g = (struct ht_given){ row->name, ht_str_copy(&p->arena, ht_str(value)).p, HT_NOWHERE,
		p->given };
	p->given = g;
	return HT_OK;
}

/* Reports each such option once. */
static void tell_without_effect(struct ht_policy *p, const struct row *row, struct ht_diags *d)
{
	for (size_t i = 0; i < p->without_effects; i++)
		if (p->without_effect[i] == row->name)
			return;
	p->without_effect[p->without_effects++] = row->name;
	ht_warn(d, HT_NOWHERE, "%s has no effect: %s", row->name, row->help);
}

enum ht_status ht_option_set(
	struct ht_policy *p, const char *name, const char *value, struct ht_diags *d)
{
	const struct row *row = row_named(name);

	HT_TRY(ht_option_check(name, value, d));
	if (row->reader == READER_TOOL)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"%s is an option of halftone atc, not of a policy", last_part(row->name));
	if (!is_given(p, row->name))
		tell_standing(row, HT_NOWHERE, d);
	HT_TRY(give(p, row, value, d));
	if (row->class == HT_OPTION_ACCEPTED && !is_default(row, value))
		tell_without_effect(p, row, d);
	return row->reader == READER_POLICY ? ht_policy_option(p, row->name, spelled(row, value), d)
					    : HT_OK;
}
