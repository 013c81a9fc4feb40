/* Reads the profiling options of the command line and of the vendor. */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

bool vendor_profiles(const struct cli *c)
{
	const char *on = setting_value(c, "profiling_config.enable_profiling");

	return on && (!strcmp(on, "true") || !strcmp(on, "1"));
}

/* NULL: nothing is stated, or profiling_mode is off. */
static const char *vendor_text(const struct cli *c)
{
	const char *text = setting_value(c, "profiling_config.profiling_options");

	if (!text || !*text)
		text = setting_value(c, "profiling_config.enable_options");
	return text && *text && vendor_profiles(c) ? text : NULL;
}

char *vendor_option(const struct cli *c, const char *key)
{
	const char *options = vendor_text(c);
	struct ht_bytes b = { 0 };

	return options && ht_profiling_value(options, key, &b) ? b.p : NULL;
}

static bool vendor_says(const struct cli *c, const char *key, const char *value)
{
	char *said = vendor_option(c, key);
	bool same = said && !strcmp(said, value);

	free(said);
	return same;
}

/* ---- what is recorded ---- */

/* Whether a list with colons, whose names were checked, contains this name. */
static bool lists(const char *list, const char *name)
{
	const size_t n = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += n)
		if ((at == list || at[-1] == ':') && (!at[n] || at[n] == ':'))
			return true;
	return false;
}

/* Parses the older manuals' list: op_trace selects only the records of ops, and task_trace
 * implies training_trace. */
static struct vendor_parts listed_parts(const char *list)
{
	const bool tasks = lists(list, "task_trace");

	return (struct vendor_parts){ .ops = tasks || lists(list, "op_trace"),
		.timeline = tasks,
		.iterations = tasks || lists(list, "training_trace") };
}

/* Without options, the vendor records training_trace, which is for trainings. */
struct vendor_parts vendor_parts(const struct cli *c)
{
	const char *text = vendor_text(c);

	if (!vendor_profiles(c))
		return (struct vendor_parts){ 0 };
	if (!text)
		return (struct vendor_parts){ true, true, c->verb->bit == TRAIN };
	if (*text != '{')
		return listed_parts(text);
	return (struct vendor_parts){ .ops = true,
		.timeline =
			!vendor_says(c, "task_trace", "off") && !vendor_says(c, "task_time", "off"),
		.iterations = vendor_says(c, "training_trace", "on") };
}

/* Estimated bytes of text for an event; the vendor's limit of bytes divided by it is the number
 * of events kept. */
enum { EVENT_TEXT = 400 };

size_t profile_events(const struct cli *c)
{
	char *limit = vendor_option(c, "storage_limit");
	size_t events = HT_EVENTS;
	unsigned long long most = limit ? strtoull(limit, NULL, 10) * 1000000 / EVENT_TEXT : 0;

	if (limit)
		events = most < HT_MOST_EVENTS ? (size_t)most : HT_MOST_EVENTS;
	free(limit);
	return events;
}

bool profile_wanted(const struct cli *c)
{
	return option_on(c, OPTION_TRACE) || option_on(c, OPTION_PROFILE_TABLE) ||
	       vendor_profiles(c);
}

/* aic_metrics, which selects counters of the vendor's cores, turns on the tool's counters. */
bool profile_counts(const struct cli *c)
{
	char *metrics = vendor_option(c, "aic_metrics");

	free(metrics);
	return option_on(c, OPTION_COUNTERS) || metrics != NULL;
}

/* ---- iterations ---- */

/* A member of profiling_options takes precedence over the option of that name. */
char *profile_point(const struct cli *c, const char *option)
{
	char *node = vendor_option(c, option);
	const char *stated = setting_value(c, option);

	if (node && *node)
		return node;
	free(node);
	return stated && *stated ? strdup(stated) : NULL;
}

static bool has_point(const struct cli *c)
{
	char *forward = profile_point(c, "fp_point"), *backward = profile_point(c, "bp_point");
	const bool has = forward || backward;

	free(forward);
	free(backward);
	return has;
}

bool profile_divides(const struct cli *c)
{
	return vendor_parts(c).iterations ||
	       ((option_on(c, OPTION_TRACE) || option_on(c, OPTION_PROFILE_TABLE)) && has_point(c));
}

bool profile_nodes(const struct cli *c)
{
	return profile_divides(c) && has_point(c);
}

void profile_warn(struct cli *c)
{
	if (has_point(c) && !profile_divides(c))
		warn(c, "fp_point and bp_point count only with --trace, --profile-table or "
			"training_trace of profiling_options");
}
