/* Grammars of shapes of inputs. */
#include "api/grammar.h"
#include "precision/policy.h"

#include <string.h>

#define MOST_INPUTS 1000

/* Whether one of the entries from `all` up to `here` begins with this name. */
static bool is_repeated(const char *all, const char *here, struct ht_str name)
{
	struct ht_str rest = { all, (size_t)(here - all) }, entry;

	while (rest.n && ht_next_part(&rest, ';', &entry)) {
		entry = ht_trim(entry);
		if (entry.n > name.n && !memcmp(entry.p, name.p, name.n) &&
			*ht_trim((struct ht_str){ entry.p + name.n, entry.n - name.n }).p == ':')
			return true;
	}
	return false;
}

/* Takes "NAME:" from an entry. */
static bool take_name(const char *value, struct ht_str *entry, struct ht_why *w)
{
	struct ht_str whole = *entry, name;
	const char *colon = NULL;

	/* Names of tensors may contain colons: the last colon separates. */
	for (size_t i = 0; i < whole.n && whole.p[i] != '['; i++)
		if (whole.p[i] == ':')
			colon = whole.p + i;
	if (!colon)
		return ht_why(w, "'%.*s' lacks a name and a colon", HT_STR_ARG(whole));
	name = ht_trim((struct ht_str){ whole.p, (size_t)(colon - whole.p) });
	if (!name.n)
		return ht_why(w, "'%.*s' has an empty name", HT_STR_ARG(whole));
	if (is_repeated(value, whole.p, name))
		return ht_why(w, "'%.*s' stands twice", HT_STR_ARG(name));
	*entry = (struct ht_str){ colon + 1, whole.n - (size_t)(colon + 1 - whole.p) };
	return true;
}

/* ---- NAME:D,D ---- */

static bool are_sizes(struct ht_str list, bool open, struct ht_why *w, int *count)
{
	struct ht_str size;
	int64_t n;

	for (*count = 0; ht_next_part(&list, ',', &size); ++*count)
		if (!ht_digits(size, &n) && !(open && ht_str_eq(size, ht_str("-1"))))
			return ht_why(w, "'%.*s' is no size%s", HT_STR_ARG(size),
				open ? " and not -1" : "");
	return true;
}

bool ht_grammar_shapes(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), entry;
	int n;

	for (int inputs = 0; ht_next_part(&rest, ';', &entry); inputs++) {
		if (inputs == MOST_INPUTS)
			return ht_why(w, "there are more than %d inputs", MOST_INPUTS);
		if (!take_name(value, &entry, w) || !are_sizes(entry, true, w, &n))
			return false;
	}
	return true;
}

bool ht_grammar_profiles(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), profile;
	int n, first = 0, count = 0;

	for (; ht_next_part(&rest, ';', &profile); count++) {
		if (!are_sizes(profile, false, w, &n))
			return false;
		first = count ? first : n;
		if (n != first)
			return ht_why(w, "'%.*s' has %d sizes, and the profile before it %d",
				HT_STR_ARG(profile), n, first);
	}
	return (count >= 2 && count <= 100) ||
	       ht_why(w, "there are 2 to 100 profiles, not %d", count);
}

/* ---- NAME:[R,R],[R] ---- */

static bool is_range(struct ht_str range, struct ht_why *w)
{
	struct ht_str rest = range, low;
	int64_t a, b;

	if (ht_str_eq(range, ht_str("-1")))
		return true;
	ht_next_part(&rest, '~', &low);
	if (!ht_digits(ht_trim(low), &a) || (rest.p && !ht_digits(ht_trim(rest), &b)))
		return ht_why(w, "'%.*s' is no size, no LOW~HIGH and not -1", HT_STR_ARG(range));
	return !rest.p || a <= b ||
	       ht_why(w, "the low end of '%.*s' is above the high one", HT_STR_ARG(range));
}

/* Checks the text between one pair of brackets. */
static bool is_shape(struct ht_str ranges, struct ht_why *w)
{
	struct ht_str range;

	if (!ht_trim(ranges).n)
		return true; /* a scalar */
	while (ht_next_part(&ranges, ',', &range))
		if (!is_range(ht_trim(range), w))
			return false;
	return true;
}

/* Shapes in brackets with commas between. */
static bool are_shapes(struct ht_str list, struct ht_why *w)
{
	for (;;) {
		const char *end;
		list = ht_trim(list);
		if (!list.n || *list.p != '[')
			return ht_why(w, "a shape in brackets is missing before '%.*s'",
				HT_STR_ARG(list));
		end = memchr(list.p, ']', list.n);
		if (!end)
			return ht_why(w, "'%.*s' lacks its closing bracket", HT_STR_ARG(list));
		if (!is_shape((struct ht_str){ list.p + 1, (size_t)(end - list.p - 1) }, w))
			return false;
		list = ht_trim((struct ht_str){ end + 1, list.n - (size_t)(end + 1 - list.p) });
		if (!list.n)
			return true;
		if (*list.p != ',')
			return ht_why(w, "a comma is missing before '%.*s'", HT_STR_ARG(list));
		list = (struct ht_str){ list.p + 1, list.n - 1 };
	}
}

bool ht_grammar_ranges(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), entry;

	for (int inputs = 0; ht_next_part(&rest, ';', &entry); inputs++) {
		if (inputs == MOST_INPUTS)
			return ht_why(w, "there are more than %d inputs", MOST_INPUTS);
		if (!take_name(value, &entry, w) || !are_shapes(entry, w))
			return false;
	}
	return true;
}
