/* Sections of a comparison: verdicts, environment, frontier, policies, errors. */
#include "api/page.h"

#include <math.h>

/* ---- environment ---- */

static struct ht_str task_text(struct ht_arena *a, const cJSON *task)
{
	struct ht_str name = ht_member_text(task, "name"), output = ht_member_text(task, "output");

	if (!task)
		return (struct ht_str){ "", 0 };
	return ht_str_printf(a, "%.*s of %.*s, against %s", HT_STR_ARG(name), HT_STR_ARG(output),
		ht_member_is_true(task, "labels") ? "labels" : "the answers of the reference");
}

static void put_environment(struct ht_page_work *w, const cJSON *root, const cJSON *model)
{
	struct ht_table t = { .b = w->b,
		.title = "Environment",
		.caption = "Where and how it was measured, and the exact command.",
		.column = ht_fact_columns,
		.columns = 2,
		.limit = SIZE_MAX };
	const cJSON *latency = ht_member(model, "latency_ms");

	ht_fact(&t, "command", ht_member_text(root, "command"));
	ht_fact(&t, "Halftone", ht_member_text(root, "version"));
	ht_fact(&t, "target", ht_member_text(model, "target"));
	ht_fact(&t, "threads", ht_text_exact(w->a, ht_member_number(model, "threads")));
	ht_fact(&t, "reference", ht_member_text(model, "reference"));
	ht_fact(&t, "samples", ht_text_exact(w->a, ht_member_number(model, "samples")));
	ht_fact(&t, "metric", task_text(w->a, ht_member(model, "metric")));
	ht_fact(&t, "median latency of the model as it is, ms",
		ht_text_interval(w->a, latency, "median"));
	ht_table_end(&t);
}

/* ---- policies ---- */

static struct ht_str share_text(struct ht_arena *a, const cJSON *policy)
{
	double low = ht_member_number(policy, "low_nodes"),
	       all = ht_member_number(policy, "float_nodes");

	if (isnan(low) || isnan(all))
		return (struct ht_str){ "", 0 };
	return ht_str_printf(a, "%s of %s", ht_text_exact(a, low).p, ht_text_exact(a, all).p);
}

static bool passes(const cJSON *policy)
{
	return ht_str_is(ht_member_text(policy, "verdict"), "pass");
}

static struct ht_str error_text(struct ht_arena *a, const cJSON *policy)
{
	double error = ht_page_error(policy);

	return isnan(error) ? (struct ht_str){ "", 0 } : ht_text_number(a, error);
}

/* Why a policy could not be measured, or which policy it equals. */
static struct ht_str note_text(struct ht_arena *a, const cJSON *policy)
{
	struct ht_str same = ht_member_text(policy, "same_as");

	if (!same.n)
		return ht_member_text(policy, "error");
	return ht_str_printf(a, "decides the same as %.*s", HT_STR_ARG(same));
}

static void put_policy(struct ht_table *t, const cJSON *policy, bool task, struct ht_arena *a)
{
	const cJSON *metric = ht_member(policy, "metric");

	ht_cell(t, ht_member_text(policy, "policy"));
	ht_cell_verdict(t, ht_member_text(policy, "verdict"), passes(policy));
	ht_cell(t, ht_member_is_true(policy, "emulated")
			   ? ht_str_printf(a, "%.*s (emulated)",
				     HT_STR_ARG(ht_member_text(policy, "lowest")))
			   : ht_member_text(policy, "lowest"));
	ht_cell(t, share_text(a, policy));
	ht_cell(t, ht_text_exact(a, ht_member_number(policy, "casts")));
	ht_cell(t, ht_text_bytes(a, ht_member_number(policy, "cast_bytes")));
	ht_cell(t, ht_text_bytes(a, ht_member_number(policy, "memory_bytes")));
	ht_cell(t, ht_text_interval(a, ht_member(policy, "latency_ms"), "median"));
	ht_cell(t, ht_text_interval(a, ht_member(policy, "speedup"), "median"));
	ht_cell(t, error_text(a, policy));
	if (task) {
		ht_cell(t, ht_text_member(a, metric, "value"));
		ht_cell(t, ht_text_interval(a, metric, "drop"));
	}
}

static void put_policies(struct ht_page_work *w, const cJSON *model)
{
	static const struct ht_table_column with_task[] = { { "policy", false },
		{ "verdict", false }, { "lowest type", false }, { "nodes low", true },
		{ "casts", true }, { "cast bytes", true }, { "memory", true },
		{ "median latency, ms", true }, { "speed", true }, { "largest rel", true },
		{ "metric", true }, { "drop", true } };
	static const struct ht_table_column without[] = { { "policy", false }, { "verdict", false },
		{ "lowest type", false }, { "nodes low", true }, { "casts", true },
		{ "cast bytes", true }, { "memory", true }, { "median latency, ms", true },
		{ "speed", true }, { "largest rel", true } };
	bool task = ht_member(model, "metric") != NULL;
	struct ht_table t = { .b = w->b,
		.title = "Policies",
		.caption =
			"Accuracy, speed (relative to the model as it is) and memory of each; below a number its "
			"interval of 95%.",
		.column = task ? with_task : without,
		.columns = task ? HT_COUNT(with_task) : HT_COUNT(without),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(model, "policies")) put_policy(&t, i, task, w->a);
	ht_table_end(&t);
}

static void put_notes(struct ht_page_work *w, const cJSON *model)
{
	static const struct ht_table_column columns[] = { { "policy", false }, { "note", false } };
	struct ht_table t = { .b = w->b,
		.title = "Notes",
		.caption = "Policies that could not be measured, or decide the same as another.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(model, "policies"))
	{
		struct ht_str note = note_text(w->a, i);
		if (!note.n)
			continue;
		ht_cell(&t, ht_member_text(i, "policy"));
		ht_cell_text(&t, note);
	}
	ht_table_end(&t);
}

static void put_cache(struct ht_page_work *w, const cJSON *model)
{
	static const struct ht_table_column columns[] = { { "policy", false },
		{ "compile cache", false }, { "entry, or why it missed", false } };
	struct ht_table t = { .b = w->b,
		.title = "Compile cache",
		.caption =
			"Whether the program of each policy was in the compile cache. Of a miss: the first part of the "
			"key that differs from that of the nearest entry.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS,
		.folded = true };
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(model, "policies"))
	{
		const cJSON *cache = ht_member(i, "cache");
		bool hit = ht_member_is_true(cache, "hit");
		if (!cache)
			continue;
		ht_cell(&t, ht_member_text(i, "policy"));
		ht_cell(&t, ht_str(hit ? "hit" : "miss"));
		ht_cell_text(&t, ht_member_text(cache, hit ? "entry" : "reason"));
	}
	ht_table_end(&t);
}

/* ---- tolerances ---- */

static void put_tolerance(
	struct ht_table *t, const cJSON *policy, const cJSON *tolerance, struct ht_arena *a)
{
	bool ok = ht_member_is_true(tolerance, "ok");
	double would = ht_member_number(tolerance, "would_pass");
	struct ht_str statistic = ht_member_text(tolerance, "statistic"),
		      sign = ht_member_text(tolerance, "sign");

	ht_cell(t, ht_member_text(policy, "policy"));
	ht_cell(t, ht_member_text(tolerance, "output"));
	ht_cell_printf(t, "%.*s %.*s %s", HT_STR_ARG(statistic), HT_STR_ARG(sign),
		ht_text_number(a, ht_member_number(tolerance, "bound")).p);
	ht_cell(t, ht_text_number(a, ht_member_number(tolerance, "value")));
	ht_cell_verdict(t, ht_str(ok ? "pass" : "FAIL"), ok);
	if (ok)
		ht_cell(t, (struct ht_str){ "", 0 });
	else if (isfinite(would))
		ht_cell_printf(t, "%.*s %.*s %s", HT_STR_ARG(statistic), HT_STR_ARG(sign),
			ht_text_exact(a, would).p);
	else
		ht_cell(t, HT_STR("none"));
	ht_cell(t, ht_str(ht_member_is_true(tolerance, "default") ? "default" : "stated"));
}

/* Exceeded tolerances come first. */
static void put_tolerances(struct ht_page_work *w, const cJSON *model)
{
	static const struct ht_table_column columns[] = { { "policy", false }, { "output", false },
		{ "tolerance", false }, { "value", true }, { "verdict", false },
		{ "would pass", false }, { "from", false } };
	struct ht_table t = { .b = w->b,
		.title = "Tolerances",
		.caption = "What was demanded of each output, and what would pass.",
		.column = columns,
		.columns = HT_COUNT(columns),
		.limit = HT_PAGE_ROWS };
	const cJSON *i, *j;

	for (int ok = 0; ok < 2; ok++)
		cJSON_ArrayForEach(i, ht_member(model, "policies")) cJSON_ArrayForEach(
			j, ht_member(i, "tolerances")) if (ht_member_is_true(j, "ok") == ok)
			put_tolerance(&t, i, j, w->a);
	ht_table_end(&t);
}

/* ---- errors ---- */

/* The outputs of the first policy that has some; all policies have the same outputs. */
static const cJSON *first_outputs(const cJSON *policies)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, policies) if (ht_member(i, "outputs")->child) return ht_member(
		i, "outputs");
	return NULL;
}

static const struct ht_table_column *columns_of(
	const cJSON *policies, struct ht_arena *a, size_t *n)
{
	size_t policies_n = (size_t)cJSON_GetArraySize(policies);
	struct ht_table_column *column = HT_NEW_ARRAY(a, struct ht_table_column, policies_n + 1);
	const cJSON *i;

	*n = 0;
	column[(*n)++] = (struct ht_table_column){ "statistic", false };
	cJSON_ArrayForEach(i, policies) if (ht_member(i, "outputs")->child) column[(*n)++] =
		(struct ht_table_column){ ht_member_text(i, "policy").p, true };
	return column;
}

static void put_statistics(
	struct ht_table *t, const cJSON *policies, const cJSON *output, int at, struct ht_arena *a)
{
	const cJSON *stat, *i;

	cJSON_ArrayForEach(stat, output)
	{
		if (isnan(ht_json_number(stat)) && !ht_json_is_nan(stat))
			continue;
		ht_cell(t, ht_str(stat->string));
		cJSON_ArrayForEach(i, policies)
		{
			const cJSON *of = ht_member(i, "outputs");
			if (of->child)
				ht_cell(t, ht_text_member(
						   a, cJSON_GetArrayItem(of, at), stat->string));
		}
	}
}

static void put_errors(struct ht_page_work *w, const cJSON *model)
{
	enum { MOST = 20 };
	const cJSON *policies = ht_member(model, "policies"), *outputs = first_outputs(policies),
		    *o;
	int at = 0;

	cJSON_ArrayForEach(o, outputs)
	{
		struct ht_table t = { .b = w->b,
			.folded = true,
			.limit = HT_PAGE_ROWS,
			.caption = "Statistics of its errors against the reference, by policy." };
		struct ht_str name = ht_member_text(o, "output"),
			      dtype = ht_member_text(o, "dtype");
		if (at == MOST)
			break;
		t.title = ht_str_printf(
			w->a, "Output %.*s (%.*s)", HT_STR_ARG(name), HT_STR_ARG(dtype))
				  .p;
		t.column = columns_of(policies, w->a, &t.columns);
		put_statistics(&t, policies, o, at++, w->a);
		ht_table_end(&t);
	}
	if (o)
		ht_page_paragraph(w->b,
			ht_str_printf(w->a,
				"The first %d of %d outputs are shown; %d are left out.", MOST,
				cJSON_GetArraySize(outputs), cJSON_GetArraySize(outputs) - MOST));
}

/* ---- the section ---- */

static struct ht_str summary(struct ht_arena *a, const cJSON *model)
{
	struct ht_str error = ht_member_text(model, "error");
	int all = 0, good = 0;
	const cJSON *i;

	if (error.n)
		return ht_str_printf(a, "The model could not be compared: %.*s", HT_STR_ARG(error));
	cJSON_ArrayForEach(i, ht_member(model, "policies"))
	{
		all++;
		good += passes(i);
	}
	if (!all)
		return HT_STR("No policy was compared.");
	return ht_str_printf(a, "%d of %d %s within all tolerances.", good, all,
		all == 1 ? "policy is" : "policies are");
}

void ht_page_comparisons(struct ht_page_work *w, const cJSON *root)
{
	const cJSON *i;

	cJSON_ArrayForEach(i, ht_member(root, "models"))
	{
		ht_page_open(w, i, "Comparison", (struct ht_str){ "", 0 });
		ht_page_paragraph(w->b, summary(w->a, i));
		put_policies(w, i);
		put_notes(w, i);
		put_tolerances(w, i);
		put_environment(w, root, i);
		ht_page_frontier(w, i);
		put_errors(w, i);
		ht_page_error_nodes(w, i);
		ht_page_phases(w, i);
		put_cache(w, i);
		ht_page_section_end(w->b);
	}
}
