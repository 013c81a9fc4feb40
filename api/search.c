/* The stages of a search, and its calls. */
#include "api/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Own errors only order the nodes, so a few samples are enough. */
enum { MEASURED_SAMPLES = 4 };

const char *const ht_search_rules[HT_RULE_END] = {
	[HT_RULE_MINIMAL] = "minimal",
	[HT_RULE_BISECTION] = "polygraphy-forward",
	[HT_RULE_REVERSE] = "polygraphy-reverse",
	[HT_RULE_SEGMENTS] = "onnx-segments",
};

/* ---- making ---- */

/* A format gets the place of a type in which no kernel computes, so that no other type of the search has it. */
static enum ht_status add_format(
	struct ht_search *s, struct ht_str name, struct ht_emulation e, struct ht_diags *d)
{
	static const enum ht_dtype slots[] = { HT_F8E5M2, HT_F8E4M3FN, HT_F8E4M3FNUZ,
		HT_F8E4M3B11FNUZ, HT_F8E5M2FNUZ, HT_F4E2M1FN };

	if (s->emulations == HT_COUNT(slots))
		return ht_error(
			d, HT_E_USAGE, HT_NOWHERE, "types: at most %zu formats", HT_COUNT(slots));
	for (size_t i = 0; i < s->emulations; i++)
		if (ht_format_same(&s->emulation[i].format[0], &e.format[0]))
			return ht_error(d, HT_E_USAGE, HT_NOWHERE, "types: '%.*s' stands twice",
				HT_STR_ARG(name));
	e.slot = slots[s->emulations];
	s->emulation[s->emulations++] = e;
	s->type_name[s->types] = ht_str_copy(&s->arena, name).p;
	s->type[s->types++] = e.slot;
	s->lowest = ht_lower_type(s->lowest, ht_format_like(&e.format[0]));
	return HT_OK;
}

static enum ht_status add_type(struct ht_search *s, struct ht_str name, struct ht_diags *d)
{
	enum ht_dtype t = ht_dtype_named(name);
	struct ht_emulation e;

	if (t == HT_F32 || t == HT_F64)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "types: '%.*s' is no low type",
			HT_STR_ARG(name));
	if (!ht_is_low(t)) {
		HT_TRY(ht_emulation_parse(name, "types", d, &e));
		if (e.native == HT_INVALID)
			return add_format(s, name, e, d);
		t = e.native;
	}
	for (size_t i = 0; i < s->types; i++)
		if (s->type[i] == t)
			return ht_error(d, HT_E_USAGE, HT_NOWHERE, "types: '%.*s' stands twice",
				HT_STR_ARG(name));
	s->type_name[s->types] = ht_dtype_name(t);
	s->type[s->types++] = t;
	s->lowest = ht_lower_type(s->lowest, t);
	return HT_OK;
}

/* Up to the comma before the next type: what is behind others is a property of a format, as in float:e=4,m=3. */
static size_t type_length(const char *p)
{
	size_t n = strcspn(p, ",");

	while (p[n]) {
		size_t more = strcspn(p + n + 1, ",");
		const char *equals = memchr(p + n + 1, '=', more),
			   *colon = memchr(p + n + 1, ':', more);

		if (!equals || colon)
			break;
		n += 1 + more;
	}
	return n;
}

static enum ht_status set_types(struct ht_search *s, const char *text, struct ht_diags *d)
{
	for (const char *p = text ? text : "f16,bf16";; p++) {
		struct ht_str name = { p, type_length(p) };

		HT_TRY(add_type(s, name, d));
		p += name.n;
		if (!*p)
			return HT_OK;
	}
}

static enum ht_status set_rule(struct ht_search *s, const char *name, struct ht_diags *d)
{
	while (name && s->rule < HT_RULE_END && strcmp(name, ht_search_rules[s->rule]) != 0)
		s->rule++;
	if (s->rule < HT_RULE_END)
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"rule: there is no '%s'; there are %s, %s, %s and %s", name, ht_search_rules[0],
		ht_search_rules[1], ht_search_rules[2], ht_search_rules[3]);
}

static enum ht_status set_preference(struct ht_search *s, const char *name, struct ht_diags *d)
{
	s->fewest = s->rule != HT_RULE_MINIMAL || (name && !strcmp(name, "fewest"));
	if (!name || !strcmp(name, "fewest") || !strcmp(name, "speed"))
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"prefer: there is no '%s'; there are speed and fewest", name);
}

struct creation {
	struct ht_search *s;
	const struct ht_search_options *opt;
	struct ht_diags *d;
};

static const char *kept(struct ht_search *s, const char *text)
{
	return text ? ht_str_copy(&s->arena, ht_str(text)).p : NULL;
}

/* Copies the options of the comparison that the evidence repeats. */
static void note_options(struct ht_search *s, const struct ht_comparison_options *opt)
{
	s->reference = kept(s, opt && opt->reference ? opt->reference : "f32");
	s->metric = kept(s, opt ? opt->metric : NULL);
	s->tolerances = opt ? opt->tolerances : 0;
	s->tolerance = HT_NEW_ARRAY(&s->arena, const char *, s->tolerances);
	for (size_t i = 0; i < s->tolerances; i++)
		s->tolerance[i] = kept(s, opt->tolerance[i]);
}

static enum ht_status create(void *arg)
{
	struct creation *k = arg;
	struct ht_search *s = k->s;

	s->lowest = HT_F32;
	HT_TRY(set_types(s, k->opt->types, k->d));
	HT_TRY(set_rule(s, k->opt->rule, k->d));
	HT_TRY(set_preference(s, k->opt->prefer, k->d));
	HT_TRY(ht_comparison_new(s->model, k->opt->compare, k->d, &s->comparison));
	s->compile = s->comparison->compile;
	note_options(s, k->opt->compare);
	s->journal = kept(s, k->opt->journal);
	s->resume = k->opt->resume != 0;
	ht_map_init(&s->answers, &s->arena);
	s->last = &s->first;
	ht_sha256_begin(&s->seen);
	HT_TRY(ht_search_units(s, k->d));
	ht_search_rank(s);
	s->label = ht_alloc(&s->arena, s->units);
	return ht_search_journal_open(s, k->d);
}

enum ht_status ht_search_new(const struct ht_model *m, const struct ht_search_options *opt,
	struct ht_diags *d, struct ht_search **out)
{
	struct ht_search_options all = HT_SEARCH_OPTIONS_INIT;
	struct creation k = { .opt = &all, .d = d };
	enum ht_status st;

	*out = NULL;
	HT_TRY(ht_caller_options(opt, "ht_search_options", &all, sizeof all, d));
	k.s = ht_sys_alloc(sizeof *k.s);
	if (!k.s)
		return ht_error(d, HT_E_ENVIRONMENT, HT_NOWHERE, "out of memory");
	k.s->model = m;
	ht_arena_init(&k.s->arena, &k.s->unwind);
	ht_arena_init(&k.s->scratch, &k.s->unwind);
	st = ht_guarded(&k.s->unwind, create, &k, d);
	if (st == HT_OK)
		*out = k.s;
	else
		ht_search_free(k.s);
	return st;
}

void ht_search_free(struct ht_search *s)
{
	if (!s)
		return;
	ht_comparison_free(s->comparison);
	ht_report_free(s->origin);
	ht_policy_free(s->origin_policy);
	ht_policy_free(s->optimal_policy);
	ht_policy_free(s->policy);
	ht_arena_release(&s->scratch);
	ht_arena_release(&s->arena);
	free(s);
}

const struct ht_program *ht_search_program(const struct ht_search *s)
{
	return ht_comparison_program(s->comparison);
}

size_t ht_search_rows(const struct ht_search *s)
{
	return ht_comparison_rows(s->comparison);
}

/* ---- stages ---- */

static enum ht_status end(struct ht_search *s, const uint8_t *label, struct ht_diags *d)
{
	s->stage = label ? HT_SEARCH_SPEED : HT_SEARCH_ENDED;
	if (!label)
		return HT_OK;
	s->found = ht_alloc(&s->arena, s->units);
	memcpy(s->found, label, s->units);
	return ht_search_price(s, d);
}

/* Labels every unit with type `t`, or with its own low type if `t` is not safe for it. */
static void label_uniformly(struct ht_search *s, size_t t)
{
	for (size_t u = 0; u < s->units; u++)
		s->label[u] =
			s->unit[u].may >> t & 1 ? (uint8_t)(t + 1) : ht_search_low_label(s, u);
}

static void label_kept(struct ht_search *s, const uint8_t *set)
{
	for (size_t u = 0; u < s->units; u++)
		s->label[u] = set[u] ? 0 : ht_search_low_label(s, u);
}

static enum ht_answer ask(void *self, const uint8_t *set)
{
	struct ht_search *s = self;
	const struct ht_search_trial *t;

	label_kept(s, set);
	t = ht_search_trial_of(s, s->label);
	return !t ? HT_ANSWER_UNKNOWN : t->passed ? HT_ANSWER_PASS : HT_ANSWER_FAIL;
}

static enum ht_found find(struct ht_search *s, uint8_t *set)
{
	uint8_t *optimal = ht_alloc(&s->scratch, s->units);
	const uint8_t *candidate[] = { optimal };
	struct ht_minimal m = { .units = s->units,
		.rank = s->rank,
		.region = s->region,
		.candidate = candidate,
		.candidates = HT_COUNT(candidate),
		.frontier = (const uint8_t *const *)s->frontier,
		.points = s->points,
		.ask = ask,
		.self = s };

	for (size_t u = 0; u < s->units; u++)
		optimal[u] = s->unit[u].wide;
	switch (s->rule) {
	case HT_RULE_BISECTION:
	case HT_RULE_REVERSE:
		return ht_bisection_find(&m, s->rule == HT_RULE_REVERSE, set);
	case HT_RULE_SEGMENTS:
		return ht_segments_find(&m, &s->scratch, set);
	default:
		return ht_minimal_find(&m, &s->scratch, set);
	}
}

static enum ht_status narrow(struct ht_search *s, struct ht_diags *d)
{
	uint8_t *set = ht_alloc(&s->scratch, s->units);
	enum ht_found found = find(s, set);

	if (found == HT_FOUND)
		label_kept(s, set);
	ht_arena_release(&s->scratch);
	return found == HT_ASKED ? HT_OK : end(s, found == HT_FOUND ? s->label : NULL, d);
}

static enum ht_status try_float32(struct ht_search *s, struct ht_diags *d)
{
	memset(s->label, 0, s->units);
	s->float32 = ht_search_trial_of(s, s->label);
	if (s->float32 && !s->float32->passed)
		return end(s, NULL, d);
	if (s->float32)
		s->stage = HT_SEARCH_UNIFORM;
	return HT_OK;
}

static enum ht_status try_uniform(struct ht_search *s, struct ht_diags *d)
{
	const struct ht_search_trial *t;

	if (s->at == s->types) {
		s->stage = HT_SEARCH_ERRORS;
		s->at = 0;
		return HT_OK;
	}
	label_uniformly(s, s->at);
	t = ht_search_trial_of(s, s->label);
	if (t && t->passed)
		return end(s, s->label, d);
	s->at += t != NULL;
	return HT_OK;
}

/* Only rule minimal uses the order of errors.  For the other rules errors choose between two low types. */
static bool needs_errors(const struct ht_search *s)
{
	return s->units && (s->rule == HT_RULE_MINIMAL || s->types > 1);
}

static enum ht_status try_errors(struct ht_search *s, struct ht_diags *d)
{
	if (s->at < s->types && needs_errors(s)) {
		label_uniformly(s, s->at);
		return HT_OK;
	}
	ht_search_rank(s);
	s->stage = HT_SEARCH_NARROW;
	return s->rule == HT_RULE_MINIMAL ? ht_search_frontier(s, d) : HT_OK;
}

static void try_faster(struct ht_search *s)
{
	const struct ht_search_trial *t = NULL;

	if (s->faster) {
		memcpy(s->label, s->faster, s->units);
		t = ht_search_trial_of(s, s->label);
		if (!t)
			return;
		ht_search_take_faster(s, t->passed);
	}
	s->stage = HT_SEARCH_ENDED;
}

static enum ht_status try_stage(struct ht_search *s, struct ht_diags *d)
{
	switch (s->stage) {
	case HT_SEARCH_FLOAT32:
		return try_float32(s, d);
	case HT_SEARCH_UNIFORM:
		return try_uniform(s, d);
	case HT_SEARCH_ERRORS:
		return try_errors(s, d);
	case HT_SEARCH_NARROW:
		return narrow(s, d);
	default:
		try_faster(s);
		return HT_OK;
	}
}

/* Runs the stages on trials that are known already.  Ends when a trial is needed that is not known: its labels are in s->label. */
static enum ht_status advance(struct ht_search *s, struct ht_diags *d)
{
	enum ht_search_stage before;
	size_t at;

	do {
		before = s->stage;
		at = s->at;
		HT_TRY(try_stage(s, d));
	} while (s->stage != HT_SEARCH_ENDED && (s->stage != before || s->at != at));
	return HT_OK;
}

struct step {
	struct ht_search *s;
	struct ht_diags *d;
	int32_t *more;
};

/* Attribution cannot compile its programs for every model.  Where it fails, no errors are measured, and units are ranked in the order of
 * the graph. */
static enum ht_status begin_errors(struct ht_search *s, struct ht_diags *d)
{
	enum ht_status st = s->status;

	if (st == HT_OK)
		st = ht_comparison_nodes(s->comparison, "search", s->policy, 0, NULL);
	s->status = st;
	return st == HT_E_ENVIRONMENT ? ht_error(d, st, HT_NOWHERE, "out of memory") : HT_OK;
}

static enum ht_status finish_trial(struct ht_search *s, struct ht_diags *d)
{
	s->running = false;
	if (s->stage != HT_SEARCH_ERRORS)
		return ht_search_judge(s, d);
	if (s->status == HT_OK)
		ht_search_take_errors(s, s->at);
	s->at++;
	return ht_comparison_nodes(s->comparison, NULL, NULL, 0, d);
}

static enum ht_status next(void *arg)
{
	struct step *k = arg;
	struct ht_search *s = k->s;

	if (s->running)
		HT_TRY(finish_trial(s, k->d));
	while (!s->running) {
		HT_TRY(advance(s, k->d));
		if (s->stage == HT_SEARCH_ENDED)
			return HT_OK;
		HT_TRY(ht_search_begin(s, k->d, &s->running));
		if (s->running && s->stage == HT_SEARCH_ERRORS)
			HT_TRY(begin_errors(s, k->d));
	}
	*k->more = 1;
	return HT_OK;
}

enum ht_status ht_search_next(struct ht_search *s, struct ht_diags *d, int32_t *more)
{
	struct step k = { s, d, more };

	*more = 0;
	return s->stage == HT_SEARCH_ENDED ? HT_OK : ht_guarded(&s->unwind, next, &k, d);
}

/* ---- samples ---- */

static void see_arrays(struct ht_search *s, const struct ht_array *a, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t head[3] = { a[i].dtype, a[i].rank, (int64_t)a[i].bytes };

		ht_sha256_add(&s->seen, head, sizeof head);
		ht_sha256_add(&s->seen, a[i].dim,
			(size_t)(a[i].rank > 0 ? a[i].rank : 0) * sizeof *a[i].dim);
		if (a[i].data)
			ht_sha256_add(&s->seen, a[i].data, a[i].bytes);
	}
}

enum ht_status ht_search_sample(struct ht_search *s, const char *where, const struct ht_array *in,
	size_t ins, const struct ht_array *expected, size_t expecteds, const struct ht_array *label,
	struct ht_diags *d)
{
	if (!s->running)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "ht_search_next() comes before samples");
	s->samples += ht_search_rows(s);
	if (s->status != HT_OK)
		return HT_OK;
	if (s->stage == HT_SEARCH_ERRORS)
		return s->samples > MEASURED_SAMPLES * ht_search_rows(s)
			       ? HT_OK
			       : ht_comparison_nodes_sample(s->comparison, where, in, ins, d);
	HT_TRY(ht_comparison_sample(s->comparison, where, in, ins, expected, expecteds, label, d));
	if (s->stage == HT_SEARCH_FLOAT32) {
		see_arrays(s, in, ins);
		see_arrays(s, expected, expecteds);
		see_arrays(s, label, label != NULL);
	}
	return HT_OK;
}

/* ---- results ---- */

static const char *const what[] = {
	[HT_SEARCH_FLOAT32] = "all nodes in float32",
	[HT_SEARCH_UNIFORM] = "all nodes in one low type",
	[HT_SEARCH_ERRORS] = "measuring the errors of nodes",
	[HT_SEARCH_NARROW] = "some nodes in float32",
	[HT_SEARCH_SPEED] = "slower nodes in float32",
	[HT_SEARCH_ENDED] = "the search has ended",
};

enum ht_status ht_search_look(
	const struct ht_search *s, struct ht_diags *d, struct ht_search_state *out)
{
	struct ht_search_state state = { sizeof state, s->units, s->trials, s->resumed, 0,
		what[s->stage] };
	const uint8_t *label = s->stage == HT_SEARCH_ENDED ? s->written : s->label;

	if (label)
		state.kept = ht_search_count_kept(s, label);
	return ht_caller_result(out, "ht_search_state", &state, sizeof state, d);
}

static enum ht_status not_ended(struct ht_diags *d)
{
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "the search has not ended");
}

/* Says which tolerance float32 exceeds, or why float32 cannot be run. */
static enum ht_status no_set(const struct ht_search *s, struct ht_diags *d)
{
	const struct ht_search_trial *t = s->float32;

	if (t->failure)
		return ht_error(
			d, HT_E_VERDICT, HT_NOWHERE, "not even float32 can be run: %s", t->failure);
	return ht_error(d, HT_E_VERDICT, HT_NOWHERE,
		"not even float32 keeps the tolerances: %s of output '%s' is %.6g, %s %.6g was asked for",
		t->statistic, t->output, t->value, t->sign, t->bound);
}

enum ht_status ht_search_verdict(struct ht_search *s, struct ht_diags *d)
{
	if (s->stage != HT_SEARCH_ENDED)
		return not_ended(d);
	return s->found ? HT_OK : no_set(s, d);
}

/* The unit that is member i of the set that was found; s->units: there is no such member. */
static size_t member(const struct ht_search *s, size_t i)
{
	for (size_t u = 0; u < s->units && s->found; u++)
		if (!s->found[u] && !i--)
			return u;
	return s->units;
}

size_t ht_search_members(const struct ht_search *s)
{
	return s->found ? ht_search_count_kept(s, s->found) : 0;
}

struct printing {
	struct ht_search *s;
	size_t unit;
	enum ht_search_form form;
	const char *command;
	struct ht_diags *d;
	struct ht_bytes *out;
};

static enum ht_status print_without(void *arg)
{
	struct printing *p = arg;
	struct ht_search *s = p->s;

	ht_search_leave_out(s, p->unit);
	return ht_search_report(s, s->label, false, NULL, p->d, p->out);
}

enum ht_status ht_search_member(struct ht_search *s, size_t i, struct ht_diags *d,
	const char **node, struct ht_bytes *without)
{
	struct printing p = { .s = s, .unit = member(s, i), .d = d, .out = without };

	*without = (struct ht_bytes){ 0 };
	if (p.unit == s->units)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "there is no member %zu", i);
	*node = s->unit[p.unit].node->name.p;
	return ht_guarded(&s->unwind, print_without, &p, d);
}

static enum ht_status print(void *arg)
{
	struct printing *p = arg;
	struct ht_buf b;
	enum ht_status st;

	if (p->form == HT_SEARCH_POLICY)
		return ht_search_report(p->s, p->s->written, true, p->command, p->d, p->out);
	ht_buf_init(&b, &p->s->scratch);
	ht_search_text(p->s, &b);
	st = ht_bytes_of(ht_buf_str(&b), p->out);
	ht_arena_release(&p->s->scratch);
	return st;
}

enum ht_status ht_search_print(struct ht_search *s, enum ht_search_form form, const char *command,
	struct ht_diags *d, struct ht_bytes *out)
{
	struct printing p = { .s = s, .form = form, .command = command, .d = d, .out = out };

	*out = (struct ht_bytes){ 0 };
	if (s->stage != HT_SEARCH_ENDED)
		return not_ended(d);
	if (!s->found)
		return no_set(s, d);
	return ht_guarded(&s->unwind, print, &p, d);
}
