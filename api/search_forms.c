/* Prints the result of a search: as a decision report with the evidence, or as text. */
#include "api/search.h"

#include <math.h>
#include <string.h>

/* ---- the evidence ---- */

static void put_result(struct ht_buf *b, const struct ht_search_trial *t)
{
	ht_puts(b, "{");
	if (t->failure) {
		ht_put_text_member(b, "failure", ht_str(t->failure));
	} else {
		ht_put_text_member(b, "output", ht_str(t->output));
		ht_puts(b, ", ");
		ht_put_text_member(b, "statistic", ht_str(t->statistic));
		ht_puts(b, ", ");
		ht_put_text_member(b, "sign", ht_str(t->sign));
		ht_put_next_real(b, "bound", t->bound);
		ht_put_next_real(b, "value", t->value);
	}
	ht_putc(b, '}');
}

static void put_kept(struct ht_search *s, struct ht_buf *b, size_t u)
{
	const struct ht_search_trial *without = ht_search_without(s, u);
	double own = s->unit[u].error[s->unit[u].low];

	ht_puts(b, "{\"node\": ");
	ht_put_json(b, s->unit[u].node->name);
	ht_put_member(b, "op", s->unit[u].node->op);
	if (!isnan(own))
		ht_put_next_real(b, "own_error", own);
	if (without) {
		ht_puts(b, ", \"without\": ");
		put_result(b, without);
	}
	ht_putc(b, '}');
}

static void put_head(const struct ht_search *s, const char *command, struct ht_buf *b)
{
	ht_puts(b, "{");
	if (command) {
		ht_put_text_member(b, "command", ht_str(command));
		ht_puts(b, ",\n  ");
	}
	ht_printf(b, "\"rule\": \"%s\", \"types\": [", ht_search_rules[s->rule]);
	for (size_t i = 0; i < s->types; i++)
		ht_printf(b, "%s\"%s\"", i ? ", " : "", s->type_name[i]);
	ht_puts(b, "]");
	ht_put_member(b, "reference", ht_str(s->reference));
	if (s->metric)
		ht_put_member(b, "metric", ht_str(s->metric));
	ht_puts(b, ", \"tolerances\": [");
	for (size_t i = 0; i < s->tolerances; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_json(b, ht_str(s->tolerance[i]));
	}
	ht_printf(b, "],\n  \"samples\": %zu, \"units\": %zu, \"trials\": %zu, \"resumed\": %zu",
		s->samples, s->units, s->trials, s->resumed);
}

static void put_unsafe(const struct ht_search *s, struct ht_buf *b)
{
	ht_puts(b, ",\n  \"unsafe\": [");
	for (size_t i = 0; i < s->unsafes; i++) {
		ht_puts(b, i ? ", " : "");
		ht_put_json(b, s->unsafe[i]->name);
	}
	ht_putc(b, ']');
}

static void put_history(const struct ht_search *s, struct ht_buf *b)
{
	ht_puts(b, ",\n  \"history\": [");
	for (const struct ht_search_trial *t = s->first; t; t = t->next)
		ht_printf(b, "%s{\"float32\": %zu, \"passed\": %s}", t == s->first ? "" : ", ",
			t->kept, t->passed ? "true" : "false");
	ht_putc(b, ']');
}

/* Whether the unit is no member of the set, but in float32 for the sake of speed. */
static bool is_slower(const struct ht_search *s, const uint8_t *label, size_t u)
{
	return !label[u] && s->found[u];
}

static void put_speed(const struct ht_search *s, struct ht_buf *b)
{
	const char *comma = "";

	ht_printf(b, ",\n  \"prefer\": \"%s\"", s->fewest ? "fewest" : "speed");
	if (s->price_found >= 0)
		ht_printf(b,
			", \"prices_ps\": {\"model\": %lld, \"minimal\": %lld, \"policy\": %lld}",
			(long long)s->price_float32, (long long)s->price_found,
			(long long)s->price_written);
	ht_puts(b, ",\n  \"slower\": [");
	for (size_t u = 0; u < s->units; u++) {
		if (!is_slower(s, s->written, u))
			continue;
		ht_puts(b, comma);
		ht_put_json(b, s->unit[u].node->name);
		comma = ", ";
	}
	ht_putc(b, ']');
}

static struct ht_str evidence_of(struct ht_search *s, const char *command, struct ht_arena *a)
{
	const struct ht_search_trial *t = ht_search_trial_of(s, s->written);
	const char *comma = "";
	struct ht_buf b;

	ht_buf_init(&b, a);
	put_head(s, command, &b);
	if (t) {
		ht_puts(&b, ",\n  \"result\": ");
		put_result(&b, t);
	}
	ht_puts(&b, ",\n  \"float32\": [");
	for (size_t u = 0; u < s->units; u++) {
		if (s->found[u])
			continue;
		ht_printf(&b, "%s\n   ", comma);
		put_kept(s, &b, u);
		comma = ",";
	}
	ht_putc(&b, ']');
	put_speed(s, &b);
	put_unsafe(s, &b);
	put_history(s, &b);
	ht_putc(&b, '}');
	return ht_buf_str(&b);
}

/* ---- the report ---- */

/* The policy is a decision report, so its own reasons only say that.  Replaces them with the reasons of the search. */
static void give_reasons(struct ht_search *s, struct ht_report *r, const uint8_t *label)
{
	struct ht_decisions *d = &r->data.decisions;
	const struct ht_decisions *is = &s->origin->data.decisions;
	size_t n = is->types < d->types ? is->types : d->types;

	for (size_t i = 0; i < d->types; i++)
		d->type[i].list = NULL;
	for (size_t i = 0; i < n; i++)
		d->type[i].rule = is->type[i].rule;
	for (size_t i = 0; i < is->nodes; i++)
		for (size_t k = 0; k < is->node[i].types; k++) {
			size_t at = is->node[i].first_type + k;
			uint32_t unit = s->unit_of[i];
			if (unit == UINT32_MAX || at >= n)
				continue;
			if (d->type[at].to != d->type[at].from)
				d->type[at].rule = HT_BY(SEARCHED_LOW);
			else if (is_slower(s, label, unit))
				d->type[at].rule = HT_BY(CHEAPEST_F32);
			else if (!label[unit] &&
				 ht_search_may_take(s, &is->type[at], s->type[s->unit[unit].low]))
				d->type[at].rule = HT_BY(SEARCHED_F32);
		}
}

/* The report refers to the policy, which outlives it. */
struct written {
	struct ht_policy *policy;
	struct ht_report *report;
};

static enum ht_status decide(
	struct ht_search *s, const uint8_t *label, struct ht_diags *d, struct written *out)
{
	struct ht_str text = ht_search_policy_text(s, label, &s->scratch);
	struct ht_compile_options opt = s->compile;
	enum ht_status st;

	HT_TRY(ht_policy_parse("search", text.p, text.n, d, &out->policy));
	opt.policy = out->policy;
	st = ht_report_new(s->model, &opt, NULL, &out->report);
	return st == HT_OK ? st
			   : ht_error(d, st, HT_NOWHERE, "the found policy cannot be written out");
}

enum ht_status ht_search_report(struct ht_search *s, const uint8_t *label, bool evidence,
	const char *command, struct ht_diags *d, struct ht_bytes *out)
{
	struct written w = { 0 };
	enum ht_status st = decide(s, label, d, &w);

	if (st == HT_OK) {
		give_reasons(s, w.report, label);
		if (evidence)
			w.report->evidence = evidence_of(s, command, &s->scratch);
		st = ht_report_print(w.report, HT_FORMAT_JSON, NULL, d, out);
	}
	ht_report_free(w.report);
	ht_policy_free(w.policy);
	ht_arena_release(&s->scratch);
	return st;
}

/* ---- text ---- */

static void put_result_text(struct ht_buf *b, const struct ht_search_trial *t)
{
	if (t->failure) {
		ht_puts(b, t->failure);
		return;
	}
	ht_printf(b, "%s %s ", t->output, t->statistic);
	ht_put_double(b, ht_three_digits(t->value, HT_DIGITS_ABOVE));
	ht_printf(b, ", %s ", t->sign);
	ht_put_double(b, t->bound);
}

static void put_member_text(struct ht_search *s, size_t u, struct ht_buf *b)
{
	const struct ht_search_trial *without = ht_search_without(s, u);

	ht_printf(b, "  %.*s (%.*s)", HT_STR_ARG(s->unit[u].node->name),
		HT_STR_ARG(s->unit[u].node->op));
	if (without) {
		ht_puts(b, ": without it ");
		put_result_text(b, without);
	}
	ht_putc(b, '\n');
}

/* How many units are in float32 for the sake of speed. */
static size_t count_slower(const struct ht_search *s)
{
	size_t n = 0;

	for (size_t u = 0; u < s->units; u++)
		n += is_slower(s, s->written, u);
	return n;
}

static void put_speed_text(const struct ht_search *s, struct ht_buf *b)
{
	size_t slower = count_slower(s);

	if (slower)
		ht_printf(b,
			"%zu more nodes are float32 because low types are slower there, by the prices of %.*s\n",
			slower, HT_STR_ARG(s->origin->data.target));
	if (s->price_found < 0)
		return;
	ht_puts(b, "modelled time: ");
	ht_put_ms(b, s->price_written);
	ht_puts(b, "; of the model as it is: ");
	ht_put_ms(b, s->price_float32);
	if (slower) {
		ht_puts(b, "; with only the needed nodes in float32: ");
		ht_put_ms(b, s->price_found);
	}
	ht_putc(b, '\n');
}

void ht_search_text(struct ht_search *s, struct ht_buf *b)
{
	const struct ht_search_trial *t = ht_search_trial_of(s, s->written);

	ht_printf(b, "%zu of %zu nodes stay in float32; %zu trials on %zu samples",
		ht_search_count_kept(s, s->found), s->units, s->trials, s->samples);
	if (s->resumed)
		ht_printf(b, ", %zu from the journal", s->resumed);
	ht_putc(b, '\n');
	if (t) {
		ht_puts(b, "  ");
		put_result_text(b, t);
		ht_putc(b, '\n');
	}
	for (size_t u = 0; u < s->units; u++)
		if (!s->found[u])
			put_member_text(s, u, b);
	if (s->unsafes)
		ht_printf(b,
			"%zu more nodes are float32 because values leave the range of the low types\n",
			s->unsafes);
	put_speed_text(s, b);
}
