/* Settings from all sources, checked together. */
#include "api/api.h"
#include "api/combinations.h"

#include <stdlib.h>
#include <string.h>

static struct ht_where place(const struct ht_stated *s)
{
	return s->path ? ht_at_line(s->path, s->line) : HT_NOWHERE;
}

/* The last setting of a name becomes its first link. */
static struct ht_given *links_of(const struct ht_stated *s, size_t n)
{
	struct ht_given *given = ht_sys_alloc((n + !n) * sizeof *given);
	struct ht_option_info o;

	for (size_t i = 0; given && i < n; i++) {
		ht_option_named(s[i].name, &o);
		given[i] = (struct ht_given){ o.name, s[i].value, place(&s[i]),
			i ? &given[i - 1] : NULL };
	}
	return given;
}

/* The index of the first setting that is in force and refused; `n`: there is none. */
static size_t first_refused(const struct ht_given *given, size_t n)
{
	struct ht_option_info o;
	size_t first = n;

	for (size_t i = 0; ht_option(i, &o); i++) {
		size_t k = n;
		while (k && strcmp(given[k - 1].name, o.name) != 0)
			k--;
		if (k && k - 1 < first &&
			ht_option_refuse_at(o.name, given[k - 1].value, HT_NOWHERE, NULL) != HT_OK)
			first = k - 1;
	}
	return first;
}

static enum ht_status check(const struct ht_given *given, size_t n, struct ht_diags *d)
{
	const struct ht_given *all = n ? &given[n - 1] : NULL, *refused;

	HT_TRY(ht_combinations_check(all, HT_ERROR, d));
	refused = &given[first_refused(given, n)];
	if (refused == &given[n])
		return HT_OK;
	/* No policy will give these warnings. */
	HT_TRY(ht_combinations_check(all, HT_WARNING, d));
	return ht_option_refuse_at(refused->name, refused->value, refused->at, d);
}

enum ht_status ht_settings_check(const struct ht_stated *s, size_t n, struct ht_diags *d)
{
	struct ht_given *given;
	enum ht_status st;

	for (size_t i = 0; i < n; i++)
		HT_TRY(ht_option_legal_at(s[i].name, s[i].value, place(&s[i]), d));
	given = links_of(s, n);
	if (!given)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	st = check(given, n, d);
	free(given);
	return st;
}

enum ht_status ht_policy_together(const struct ht_policy *p, struct ht_diags *d)
{
	HT_TRY(ht_combinations_check(p->given, HT_ERROR, d));
	return ht_combinations_check(p->given, HT_WARNING, d);
}
