/* Parses budgets. */
#include "precision/optimal/budget.h"

#include <math.h>
#include <string.h>

static const char *const metrics[] = {
	[HT_METRIC_REL] = "rel", [HT_METRIC_ABS] = "abs", [HT_METRIC_RMS] = "rms"
};
static const char form[] = "a budget is [OUTPUT:]rel|abs|rms<=NUMBER, more of them behind commas";

const char *ht_metric_name(enum ht_metric m)
{
	return metrics[m];
}

static struct ht_str trim(struct ht_str s)
{
	while (s.n && strchr(" \t", *s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n && strchr(" \t", s.p[s.n - 1]))
		s.n--;
	return s;
}

static struct ht_str until(const char *p, const char *end)
{
	return trim((struct ht_str){ p, (size_t)(end - p) });
}

static enum ht_status no_metric(struct ht_str found, struct ht_str clause, struct ht_diags *d)
{
	if (!found.n)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "budget: '%.*s' names no metric; %s",
			HT_STR_ARG(clause), form);
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"budget: '%.*s' in '%.*s' is no metric; there are rel, abs and rms",
		HT_STR_ARG(found), HT_STR_ARG(clause));
}

/* Names of outputs may contain colons; metrics do not. */
static enum ht_status parse_clause(
	struct ht_str s, struct ht_budget_clause *out, struct ht_diags *d)
{
	const char *sign = memmem(s.p, s.n, "<=", 2), *colon;
	struct ht_str metric, number;
	size_t m = 0;

	if (!sign)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "budget: '%.*s' has no '<='; %s",
			HT_STR_ARG(s), form);
	colon = memrchr(s.p, ':', (size_t)(sign - s.p));
	if (colon) {
		out->output = until(s.p, colon);
		if (!out->output.n)
			return ht_error(d, HT_E_USAGE, HT_NOWHERE,
				"budget: '%.*s' names no output before the colon; %s",
				HT_STR_ARG(s), form);
	}
	metric = until(colon ? colon + 1 : s.p, sign);
	number = until(sign + 2, s.p + s.n);
	while (m < HT_COUNT(metrics) && !ht_str_is(metric, metrics[m]))
		m++;
	if (m == HT_COUNT(metrics))
		return no_metric(metric, s, d);
	out->metric = (enum ht_metric)m;
	if (!ht_parse_double(number, &out->most) || !isfinite(out->most) || out->most < 0)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"budget: '%.*s' in '%.*s' is no finite number of 0 or more",
			HT_STR_ARG(number), HT_STR_ARG(s));
	return HT_OK;
}

static bool is_repeated(const struct ht_budget_clause *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ht_str_eq(c[i].output, c[n].output) && c[i].metric == c[n].metric)
			return true;
	return false;
}

enum ht_status ht_budget_parse(
	struct ht_budget *b, const char *text, struct ht_arena *a, struct ht_diags *d)
{
	const char *p = ht_str_copy(a, ht_str(text)).p;
	struct ht_budget_clause *c =
		HT_NEW_ARRAY(a, struct ht_budget_clause, (size_t)HT_MAX_CLAUSES);
	size_t n = 0;

	for (bool last = false; !last; p++) {
		struct ht_str s = { p, strcspn(p, ",") };
		p += s.n;
		last = !*p;
		s = trim(s);
		if (n == HT_MAX_CLAUSES)
			return ht_error(d, HT_E_LIMIT, HT_NOWHERE, "budget: more than %d parts",
				HT_MAX_CLAUSES);
		if (!s.n)
			return ht_error(d, HT_E_USAGE, HT_NOWHERE,
				"budget: nothing stands between two commas of '%s'; %s", text,
				form);
		HT_TRY(parse_clause(s, &c[n], d));
		if (is_repeated(c, n))
			return ht_error(d, HT_E_USAGE, HT_NOWHERE,
				"budget: '%.*s' limits what was limited before", HT_STR_ARG(s));
		n++;
	}
	b->clause = c;
	b->clauses = n;
	return HT_OK;
}

enum ht_status ht_samples_parse(struct ht_budget *b, const char *text, struct ht_diags *d)
{
	const char *colon = strchr(text, ':');
	struct ht_str count = { text, colon ? (size_t)(colon - text) : strlen(text) };
	int64_t n, seed = HT_BUDGET_SEED;

	if (!ht_parse_int(count, &n) || (colon && !ht_parse_int(ht_str(colon + 1), &seed)) ||
		n < 1 || n > HT_MAX_SAMPLES || seed < 0)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"samples: '%s' is not N or N:SEED, with N from 1 to %d; files are read by "
			"the tool, a program hands over arrays",
			text, HT_MAX_SAMPLES);
	b->random = (uint64_t)n;
	b->seed = (uint64_t)seed;
	return HT_OK;
}
