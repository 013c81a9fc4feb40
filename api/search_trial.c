/* Trials of a search: makes a policy of labels, compiles the model under it, and judges the run. */
#include "api/search.h"

#include <math.h>
#include <string.h>

/* ---- labels ---- */

uint8_t ht_search_low_label(const struct ht_search *s, size_t unit)
{
	return (uint8_t)(s->unit[unit].low + 1);
}

size_t ht_search_count_kept(const struct ht_search *s, const uint8_t *label)
{
	size_t n = 0;

	for (size_t u = 0; u < s->units; u++)
		n += !label[u];
	return n;
}

/* ---- labels as a policy ---- */

static enum ht_dtype type_of_label(const struct ht_search *s, size_t node, const uint8_t *label)
{
	uint32_t unit = s->unit_of[node];

	return unit == UINT32_MAX || !label[unit] ? HT_F32 : s->type[label[unit] - 1];
}

static void put_unit(const struct ht_search *s, struct ht_buf *b, const struct ht_decided_type *t,
	enum ht_dtype low)
{
	struct ht_decided_type decided = {
		.attr = t->attr, .from = t->from, .to = t->from, .rule = t->rule
	};

	if (low != HT_F32 && ht_search_may_take(s, t, low)) {
		decided.to = low;
		decided.rule = HT_BY(SEARCHED_LOW);
	}
	ht_put_unit_json(b, &decided);
}

struct ht_str ht_search_policy_text(
	const struct ht_search *s, const uint8_t *label, struct ht_arena *a)
{
	const struct ht_decisions *d = &s->origin->data.decisions;
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_printf(&b,
		"{\"schema\": \"halftone.decisions/1\", \"policy\": \"search\", \"graph_nodes\": %lld",
		(long long)s->origin->data.graph_nodes);
	ht_put_emulations(&b, s->emulation, s->emulations);
	ht_puts(&b, ", \"nodes\": [");
	for (size_t i = 0; i < d->nodes; i++) {
		const struct ht_decided_node *n = &d->node[i];

		ht_puts(&b, i ? ",\n{\"node\": " : "\n{\"node\": ");
		ht_put_json(&b, n->name);
		ht_put_member(&b, "op", n->op);
		ht_puts(&b, ", \"units\": [");
		for (size_t k = 0; k < n->types; k++) {
			ht_puts(&b, k ? ", " : "");
			put_unit(s, &b, &d->type[n->first_type + k], type_of_label(s, i, label));
		}
		ht_puts(&b, "]}");
	}
	ht_puts(&b, "]}\n");
	return ht_buf_str(&b);
}

/* ---- trials that are known ---- */

static struct ht_str key_of(const struct ht_search *s, const uint8_t *label)
{
	return (struct ht_str){ (const char *)label, s->units };
}

const struct ht_search_trial *ht_search_trial_of(const struct ht_search *s, const uint8_t *label)
{
	return ht_map_get(&s->answers, key_of(s, label));
}

void ht_search_leave_out(struct ht_search *s, size_t unit)
{
	memcpy(s->label, s->found, s->units);
	s->label[unit] = ht_search_low_label(s, unit);
}

const struct ht_search_trial *ht_search_without(struct ht_search *s, size_t unit)
{
	ht_search_leave_out(s, unit);
	return ht_search_trial_of(s, s->label);
}

static void store(struct ht_search *s, struct ht_search_trial found)
{
	struct ht_search_trial *t = HT_NEW(&s->arena, struct ht_search_trial);

	*t = found;
	t->label = ht_alloc(&s->arena, s->units);
	memcpy(t->label, s->label, s->units);
	t->kept = ht_search_count_kept(s, t->label);
	ht_map_at(&s->answers, key_of(s, t->label))->value = t;
	*s->last = t;
	s->last = &t->next;
}

/* ---- a trial ---- */

static const char *text_of(const char *s)
{
	return s ? s : "";
}

/* Hashes what all trials have in common.  Called after the first trial, whose run has hashed the samples. */
static enum ht_status state_problem(struct ht_search *s, struct ht_diags *d)
{
	struct ht_sha256 all = s->seen;
	struct ht_str content;
	struct ht_buf b;

	HT_TRY(ht_content_of(s->model, d, &content));
	ht_buf_init(&b, &s->scratch);
	ht_printf(&b, "%s\n%s\n%s\n%d\n", s->comparison->base.program->info.target, s->reference,
		text_of(s->metric), (int)s->lowest);
	ht_printf(&b, "%s\n%s\n%s\n", text_of(s->compile.block_method),
		text_of(s->compile.batch_method), text_of(s->compile.conv_method));
	for (size_t i = 0; i < s->comparison->tolerances; i++) {
		const struct ht_tolerance *t = &s->comparison->tolerance[i];
		ht_printf(&b, "%.*s %d %a\n", HT_STR_ARG(t->output), (int)t->statistic, t->bound);
	}
	for (size_t i = 0; i < s->comparison->base.program->outputs; i++)
		ht_printf(&b, "%s\n", s->comparison->base.program->output[i].name);
	ht_sha256_add(&all, content.p, content.n);
	ht_sha256_add(&all, b.p, b.n);
	ht_sha256_end(&all, s->problem);
	return HT_OK;
}

static void trial_key(const struct ht_search *s, struct ht_str policy, uint8_t key[32])
{
	struct ht_sha256 all;

	ht_sha256_begin(&all);
	ht_sha256_add(&all, s->problem, sizeof s->problem);
	ht_sha256_add(&all, policy.p, policy.n);
	ht_sha256_end(&all, key);
}

static bool was_run(struct ht_search *s, struct ht_str policy)
{
	struct ht_search_trial t = { 0 };
	uint8_t key[32];

	if (s->stage == HT_SEARCH_FLOAT32 || s->stage == HT_SEARCH_ERRORS)
		return false;
	trial_key(s, policy, key);
	if (!ht_search_journal_find(s, key, &t))
		return false;
	store(s, t);
	s->resumed++;
	return true;
}

static bool is_our_own(enum ht_status st)
{
	return st == HT_E_ENVIRONMENT || st == HT_E_LIMIT || st == HT_E_INTERNAL;
}

void ht_search_pass_errors(const struct ht_diags *said, struct ht_diags *d)
{
	for (const struct ht_diag *i = said->first; i; i = i->next)
		if (i->severity == HT_ERROR)
			ht_error(d, i->status, i->where, "%.*s", HT_STR_ARG(i->text));
}

static enum ht_status compile(struct ht_search *s, struct ht_str policy, struct ht_diags *d)
{
	struct ht_diags said;

	ht_policy_free(s->policy);
	s->policy = NULL;
	HT_TRY(ht_policy_parse("search", policy.p, policy.n, d, &s->policy));
	ht_diags_init(&said);
	s->status = ht_comparison_try(s->comparison, "search", s->policy, s->lowest, &said);
	if (is_our_own(s->status))
		ht_search_pass_errors(&said, d);
	ht_diags_release(&said);
	return is_our_own(s->status) ? s->status : HT_OK;
}

enum ht_status ht_search_begin(struct ht_search *s, struct ht_diags *d, bool *ran)
{
	struct ht_str policy = ht_search_policy_text(s, s->label, &s->scratch);
	enum ht_status st = HT_OK;

	*ran = !was_run(s, policy);
	if (*ran) {
		s->trials += s->stage != HT_SEARCH_ERRORS;
		s->samples = 0;
		st = compile(s, policy, d);
	}
	ht_arena_release(&s->scratch);
	return st;
}

/* How near the value is to the bound: 1 if they are equal, infinity if the bound is exceeded. */
static double nearness(const struct ht_judgement *j)
{
	double x = fabs(j->value), y = fabs(j->bound);

	if (!j->ok)
		return INFINITY;
	return x == y ? 1 : fmin(x, y) / fmax(x, y);
}

static void take_judgement(struct ht_search *s, struct ht_search_trial *t)
{
	const struct ht_compared *r = s->comparison->first;
	size_t n;
	const struct ht_judgement *j = ht_judge(s->comparison, r, &s->scratch, &n), *worst = j;

	t->passed = true;
	for (size_t i = 0; i < n; i++) {
		t->passed &= j[i].ok;
		if (nearness(&j[i]) > nearness(worst))
			worst = &j[i];
	}
	t->output = r->program->output[worst->output].name;
	t->output = ht_str_copy(&s->arena, ht_str(t->output)).p;
	t->statistic = ht_judged_name(s->comparison, worst, &s->arena);
	t->sign = ht_judged_sign(worst);
	t->bound = worst->bound;
	t->value = worst->value;
}

enum ht_status ht_search_judge(struct ht_search *s, struct ht_diags *d)
{
	const struct ht_compared *r = s->comparison->first;
	struct ht_search_trial t = { 0 };
	uint8_t key[32];

	if (!s->samples)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE, "there are no samples");
	if (r->status != HT_OK)
		t.failure = ht_str_copy(&s->arena, r->why).p;
	if (is_our_own(r->status))
		return ht_error(d, r->status, HT_NOWHERE, "%s", t.failure);
	if (r->status == HT_OK)
		take_judgement(s, &t);
	if (s->stage == HT_SEARCH_FLOAT32)
		HT_TRY(state_problem(s, d));
	store(s, t);
	trial_key(s, ht_search_policy_text(s, s->label, &s->scratch), key);
	ht_arena_release(&s->scratch);
	return ht_search_journal_add(s, key, &t, d);
}
