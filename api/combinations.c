/* Checking the table of combinations. */
#include "api/combinations.h"
#include "api/api.h"
#include "api/profiling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct ht_combination combinations[] = {
#define COMBINATION(option, is, other, other_is, severity, text, place)                            \
	{ option, is, other, other_is, HT_##severity, text, place },
#include "api/combinations.def"
#undef COMBINATION
};

const struct ht_combination *ht_combination(size_t i)
{
	return i < HT_COUNT(combinations) ? &combinations[i] : NULL;
}

/* ---- functions of the table: `value` is the stated value, `option` the value of the row's
 * first option ---- */

typedef bool condition_fn(const char *value, const char *option);

static bool no_folder(const char *value, const char *option)
{
	struct stat st;

	(void)option;
	return stat(value, &st) || !S_ISDIR(st.st_mode);
}

static bool locked_folder(const char *value, const char *option)
{
	return !no_folder(value, option) && access(value, R_OK | W_OK | X_OK) != 0;
}

/* Whether `option`, in milliseconds, is not above `value`, in seconds. -1 means no limit. */
static bool not_above(const char *value, const char *option)
{
	int64_t seconds, ms;

	return ht_parse_int(ht_str(value), &seconds) && ht_parse_int(ht_str(option), &ms) &&
	       ms >= 0 && ms / 1000 <= seconds && !(ms / 1000 == seconds && ms % 1000);
}

static bool lists_training_trace(const char *value, const char *option)
{
	(void)option;
	return ht_profiling_traces(value, "training_trace");
}

static bool traces_training(const char *value, const char *option)
{
	(void)option;
	return ht_profiling_traces(value, "training_trace") ||
	       ht_profiling_says(value, "training_trace", "on");
}

static bool traces_tasks_alone(const char *value, const char *option)
{
	(void)option;
	return ht_profiling_says(value, "task_trace", "on") &&
	       ht_profiling_says(value, "training_trace", "off");
}

static const struct {
	const char *name;
	condition_fn *holds;
} functions[] = {
#define FUNCTION(name) { "@" #name, name }
	FUNCTION(lists_training_trace),
	FUNCTION(locked_folder),
	FUNCTION(no_folder),
	FUNCTION(not_above),
	FUNCTION(traces_tasks_alone),
	FUNCTION(traces_training),
#undef FUNCTION
};

/* ---- conditions ---- */

/* What the settings say about one name. */
struct said {
	const struct ht_given *given; /* NULL: no setting states it */
	const char *value;            /* the stated value; NULL: none */
	const char *in_force;         /* the stated value or the default; "": neither */
};

static struct said said_of(const struct ht_given *given, const char *name)
{
	struct ht_option_info o;
	struct said s = { given, NULL, "" };

	if (!ht_option_named(name, &o)) {
		s.given = NULL;
		s.value = *name ? getenv(name) : NULL;
		s.in_force = s.value ? s.value : "";
		return s;
	}
	while (s.given && strcmp(s.given->name, name) != 0)
		s.given = s.given->next;
	s.value = s.given ? ht_option_spelled(name, s.given->value) : NULL;
	s.in_force = s.value ? s.value : o.fallback;
	return s;
}

static bool holds(const char *is, const struct said *s, const char *option)
{
	if (!*is)
		return !s->value;
	if (!strcmp(is, "*"))
		return s->value != NULL;
	if (*is == '!')
		return !ht_is_listed(is + 1, s->in_force);
	if (*is != '@')
		return ht_is_listed(is, s->in_force);
	for (size_t i = 0; i < HT_COUNT(functions); i++)
		if (!strcmp(functions[i].name, is))
			return s->value && functions[i].holds(s->value, option);
	return false;
}

/* ---- messages ---- */

struct phrase {
	char text[320];
};

/* " beside NAME=VALUE", or " without NAME". */
static struct phrase beside(const char *name, const struct said *s)
{
	struct phrase p;

	if (!*s->in_force)
		snprintf(p.text, sizeof p.text, " without %s", name);
	else
		snprintf(p.text, sizeof p.text, " beside %s=%.200s%s", name, s->in_force,
			s->value ? "" : ", the default");
	return p;
}

static enum ht_status tell(const struct ht_combination *c, const struct said *first,
	const struct said *second, struct ht_diags *d)
{
	struct ht_where at = first->given ? first->given->at : HT_NOWHERE;
	struct phrase p = beside(c->other, second);

	if (c->severity == HT_ERROR)
		return ht_error(d, at.path ? HT_E_INPUT : HT_E_USAGE, at, "%s=%.200s%s: %s",
			c->option, first->value, p.text, c->text);
	ht_warn(d, at, "%s=%.200s%s: %s", c->option, first->value, p.text, c->text);
	return HT_OK;
}

enum ht_status ht_combinations_check(
	const struct ht_given *given, enum ht_severity severity, struct ht_diags *d)
{
	for (size_t i = 0; i < HT_COUNT(combinations); i++) {
		const struct ht_combination *c = &combinations[i];
		struct said first = said_of(given, c->option), second;
		if (c->severity != severity || !first.value ||
			!holds(c->is, &first, first.in_force))
			continue;
		second = said_of(given, c->other);
		if (holds(c->other_is, &second, first.in_force))
			HT_TRY(tell(c, &first, &second, d));
	}
	return HT_OK;
}
