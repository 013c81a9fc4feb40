/* Opening what a verb works on, as the options say. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "1,224,-1,3"; false when it is no list of numbers. */
static bool parse_dims(const char *s, const char *end, int64_t *dim, int32_t *rank)
{
	*rank = 0;
	while (s < end) {
		char *stop;
		errno = 0;
		dim[*rank] = strtoll(s, &stop, 10);
		if (errno || stop == s || stop > end || *rank == 31 || (stop < end && *stop != ','))
			return false;
		++*rank;
		s = stop + (stop < end);
		if (s == end && stop < end)
			return false;
	}
	return true;
}

/* One "name:1,2,3"; the name may hold colons, the dimensions cannot. */
static enum ht_status set_shape(struct cli *c, struct ht_model *m, const char *s, size_t n)
{
	const char *colon = memrchr(s, ':', n);
	int64_t dim[32];
	int32_t rank;
	char *name;
	enum ht_status st;

	if (!colon || colon == s || !parse_dims(colon + 1, s + n, dim, &rank))
		return fail(HT_E_USAGE, "--input-shape: '%.*s' is not NAME:D,D,…", (int)n, s);
	name = strndup(s, (size_t)(colon - s));
	if (!name)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	st = ht_model_set_shape(m, name, rank, dim, c->diags);
	free(name);
	return st;
}

static enum ht_status set_shapes(struct cli *c, struct ht_model *m)
{
	for (size_t i = 0; i < c->option[OPTION_SHAPE].n; i++) {
		const char *s = c->option[OPTION_SHAPE].value[i];
		while (*s) {
			size_t n = strcspn(s, ";");
			enum ht_status st = n ? set_shape(c, m, s, n) : HT_OK;
			if (st != HT_OK)
				return st;
			s += n + (s[n] == ';');
		}
	}
	return HT_OK;
}

static enum ht_status set_outputs(struct cli *c, struct ht_model *m)
{
	const char *s = option(c, OPTION_OUTPUTS, NULL);
	char *copy, **names, *save = NULL;
	size_t n = 0;
	enum ht_status st;

	if (!s)
		return HT_OK;
	copy = strdup(s);
	if (!copy)
		return fail(HT_E_ENVIRONMENT, "out of memory");
	names = must_alloc((strlen(s) + 1) * sizeof *names);
	for (char *name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save))
		names[n++] = name;
	st = ht_model_set_outputs(m, (const char *const *)names, n, c->diags);
	free(names);
	free(copy);
	return st;
}

static enum ht_status configure(struct cli *c, struct ht_model *m)
{
	long long batch;
	enum ht_status st = option_number(c, OPTION_BATCH, 0, 1, 1 << 20, &batch);

	if (st == HT_OK)
		st = set_outputs(c, m);
	if (st == HT_OK)
		st = set_shapes(c, m);
	if (st == HT_OK && batch)
		st = ht_model_set_batch(m, batch, c->diags);
	return st;
}

enum ht_status open_model(struct cli *c, struct ht_model **out)
{
	struct ht_load_options opt = HT_LOAD_OPTIONS_INIT;
	enum ht_status st;

	opt.signature = option(c, OPTION_SIGNATURE, NULL);
	st = ht_model_load(c->model, &opt, c->diags, out);
	if (st != HT_OK)
		return st;
	st = configure(c, *out);
	if (st != HT_OK) {
		ht_model_free(*out);
		*out = NULL;
	}
	return st;
}

/* --policy, --precision_mode and --precision_mode_v2 say the same thing; two of them are an error
 * even where they agree, as with the vendor's tools. */
enum ht_status open_policy(struct cli *c, struct ht_policy **out)
{
	static const enum option ways[] = { OPTION_POLICY, OPTION_MODE, OPTION_MODE_V2 };
	const char *name = NULL, *profile = option(c, OPTION_PROFILE, NULL);
	enum option by = OPTION_POLICY;
	enum ht_status st;

	*out = NULL;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (!option_on(c, ways[i]))
			continue;
		if (name)
			return fail(HT_E_USAGE, "--%s and --%s cannot be given at the same time",
				option_rows[by].name, option_rows[ways[i]].name);
		name = option(c, ways[i], NULL);
		by = ways[i];
	}
	if (!name)
		name = option(c, OPTION_POLICY, NULL);
	if (!name && !profile)
		return HT_OK;
	st = ht_policy_new(name ? name : "must_keep_origin_dtype", c->diags, out);
	if (st == HT_OK && profile)
		st = ht_policy_set(*out, "profile", profile, c->diags);
	if (st != HT_OK) {
		ht_policy_free(*out);
		*out = NULL;
	}
	return st;
}
