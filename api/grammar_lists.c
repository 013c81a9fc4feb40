/* Grammars of values that are short lists. */
#include "api/grammar.h"

#include <string.h>

bool ht_grammar_cores(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), part;
	int64_t n;
	int parts = 0;

	for (; ht_next_part(&rest, '|', &part); parts++)
		if (!ht_digits(part, &n) || n < 1)
			return ht_why(w, "'%.*s' is no whole number from 1", HT_STR_ARG(part));
	return parts == 2 || ht_why(w, "it has %d numbers, not 2", parts);
}

bool ht_grammar_streams(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), mode, count;
	int64_t n;

	if (!strcmp(value, "cv"))
		return true;
	ht_next_part(&rest, ':', &mode);
	if (!ht_str_eq(mode, ht_str("LoadBalance")) && !ht_str_eq(mode, ht_str("MainStream")))
		return ht_why(w, "there is no mode '%.*s'", HT_STR_ARG(mode));
	if (!rest.p)
		return ht_str_eq(mode, ht_str("LoadBalance")) ||
		       ht_why(w, "MainStream lacks its number of streams");
	count = rest;
	return (ht_digits(count, &n) && n >= 1 && n <= 64) ||
	       ht_why(w, "'%.*s' is no number of streams from 1 to 64", HT_STR_ARG(count));
}

bool ht_grammar_layers(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), name;

	while (ht_next_part(&rest, ' ', &name))
		if (!name.n)
			return ht_why(w, "there is a blank where a name should be");
	return true;
}

static bool is_step(struct ht_str item, struct ht_why *w)
{
	struct ht_str rest = item, from;
	int64_t low, high;

	if (!item.n)
		return ht_why(w, "a step is missing");
	ht_next_part(&rest, '-', &from);
	if (!ht_digits(from, &low) || (rest.p && !ht_digits(rest, &high)))
		return ht_why(w, "'%.*s' is neither a step nor a range of steps", HT_STR_ARG(item));
	return !rest.p || low < high ||
	       ht_why(w, "the range '%.*s' does not rise", HT_STR_ARG(item));
}

bool ht_grammar_steps(const char *value, struct ht_why *w)
{
	enum { MOST = 100 };
	struct ht_str rest = ht_str(value), item;

	for (int n = 1; ht_next_part(&rest, '|', &item); n++) {
		if (n > MOST)
			return ht_why(w, "there are more than %d steps and ranges", MOST);
		if (!is_step(item, w))
			return false;
	}
	return true;
}

bool ht_grammar_devices(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), part;
	int64_t n;

	while (ht_next_part(&rest, ',', &part))
		if (!ht_digits(part, &n))
			return ht_why(w, "'%.*s' is no number of a device", HT_STR_ARG(part));
	return true;
}

static bool is_engine(struct ht_str item, unsigned *seen, struct ht_why *w)
{
	static const char *const engines[] = { "DNN_VM_AICPU", "AIcoreEngine" };
	struct ht_str rest = item, name;
	int64_t n;

	ht_next_part(&rest, ':', &name);
	for (unsigned e = 0; e < HT_COUNT(engines); e++) {
		if (!ht_str_eq(name, ht_str(engines[e])))
			continue;
		if (*seen & 1U << e)
			return ht_why(w, "%s stands twice", engines[e]);
		*seen |= 1U << e;
		return (ht_digits(rest, &n) && n >= 1) ||
		       ht_why(w, "%s lacks its number, which is whole and from 1", engines[e]);
	}
	return ht_why(w, "there is no engine '%.*s'", HT_STR_ARG(name));
}

bool ht_grammar_engines(const char *value, struct ht_why *w)
{
	struct ht_str rest = ht_str(value), item;
	unsigned seen = 0;

	while (ht_next_part(&rest, ',', &item))
		if (!is_engine(item, &seen, w))
			return false;
	return true;
}

/* ---- accelerate_train_mode ---- */

static bool is_ratio(struct ht_str ratio, bool step, struct ht_why *w)
{
	const double low = step ? 0.2 : 1.01, high = step ? 0.9 : 1.5;
	double x;

	if (!ratio.n)
		return true;
	if (!ht_parse_double(ratio, &x))
		return ht_why(w, "the third part, '%.*s', is no number", HT_STR_ARG(ratio));
	return (x >= low && x <= high) ||
	       ht_why(w, "the third part, '%.*s', is not %s", HT_STR_ARG(ratio),
		       step ? "from 0.2 to 0.9, as step has it"
			    : "from 1.01 to 1.5, as loss has it");
}

bool ht_grammar_phases(const char *value, struct ht_why *w)
{
	static const char *const speeds[] = { "fast", "fast1" }, *const units[] = { "step",
		"loss" };
	struct ht_str rest = ht_str(value), part[4] = { 0 };
	size_t n = 0;

	while (n < HT_COUNT(part) && ht_next_part(&rest, '|', &part[n]))
		n++;
	if (n < 2 || n > 3)
		return ht_why(w, "the format is wrong: it has %s parts, not 2 or 3",
			n > 3 ? "more than 3" : "fewer than 2");
	if (!ht_one_of(part[0], speeds, HT_COUNT(speeds)))
		return ht_why(w, "the first part, '%.*s', is neither fast nor fast1",
			HT_STR_ARG(part[0]));
	if (!ht_one_of(part[1], units, HT_COUNT(units)))
		return ht_why(w, "the second part, '%.*s', is neither step nor loss",
			HT_STR_ARG(part[1]));
	return is_ratio(part[2], *part[1].p == 's', w);
}
