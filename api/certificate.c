/* The certificate of policy optimal: which solutions were compared, and the proof that none is
 * cheaper. */
#include "api/report.h"

#include <math.h>

static void put_hash(struct ht_buf *b, const char *key, struct ht_hash h)
{
	ht_printf(b, ", \"%s\": \"%016llx%016llx\"", key, (unsigned long long)h.hi,
		(unsigned long long)h.lo);
}

static void put_alternatives_json(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_puts(b, ",\n  \"alternatives\": [");
	for (size_t i = 0; i < c->alternatives; i++) {
		const struct ht_alternative *a = &c->alternative[i];
		ht_puts(b, i ? ",\n   {\"name\": " : "\n   {\"name\": ");
		ht_put_json(b, a->name);
		ht_printf(b, ", \"price_ps\": %lld", (long long)a->price);
		if (a->saved)
			ht_put_number(b, "saved_bytes", a->saved);
		if (a->refused.n)
			ht_put_member(b, "refused", a->refused);
		ht_putc(b, '}');
	}
	ht_putc(b, ']');
}

static void put_flips_json(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_puts(b, ",\n  \"prices\": [");
	for (size_t i = 0; i < c->flips; i++) {
		const struct ht_flip *f = &c->flip[i];
		ht_puts(b, i ? ",\n   [" : "\n   [");
		ht_put_json(b, f->node);
		ht_printf(b, ", \"%s\", ", ht_dtype_name(f->to));
		if (f->price < 0)
			ht_puts(b, "null]");
		else
			ht_printf(b, "%lld]", (long long)f->price);
	}
	ht_putc(b, ']');
}

static void put_clause_json(struct ht_buf *b, const struct ht_budget_report *r, size_t i, bool kept)
{
	const struct ht_budget_clause *c = r->budget->clauses ? &r->budget->clause[i] : NULL;

	ht_puts(b, i ? ", {\"output\": " : "{\"output\": ");
	ht_put_json(b, c && c->output.n ? c->output : HT_STR("*"));
	ht_printf(b, ", \"metric\": \"%s\"", ht_metric_name(c ? c->metric : HT_METRIC_REL));
	if (c) {
		ht_puts(b, ", \"most\": ");
		ht_put_double(b, c->most);
	}
	if (kept) {
		ht_puts(b, ", \"measured\": ");
		ht_put_double(b, r->kept[i]);
	}
	ht_putc(b, '}');
}

/* null if it was not modelled or not run; a string if it is infinite. */
static void put_error_json(struct ht_buf *b, const char *key, double x)
{
	ht_printf(b, ", \"%s\": ", key);
	if (x < 0)
		ht_puts(b, "null");
	else if (isinf(x))
		ht_puts(b, "\"inf\"");
	else
		ht_put_double(b, x);
}

static void put_samples(struct ht_buf *b, const struct ht_budget *s)
{
	if (s->samples)
		ht_printf(b, "%zu given samples", s->samples);
	else
		ht_printf(b, "%llu random samples, seed %llu",
			(unsigned long long)(s->random ? s->random : HT_BUDGET_RANDOM),
			(unsigned long long)(s->random ? s->seed : HT_BUDGET_SEED));
}

static void put_budget_json(struct ht_buf *b, const struct ht_budget_report *r)
{
	ht_puts(b, ",\n  \"budget\": {\"samples\": \"");
	put_samples(b, r->budget);
	ht_printf(b, "\", \"groups\": %u, \"runs\": %u,\n   \"limits\": [", r->groups, r->runs);
	for (size_t i = 0; i < r->clauses; i++)
		put_clause_json(b, r, i, r->budget->clauses != 0);
	ht_puts(b, "],\n   \"chosen\": ");
	if (r->budget->clauses)
		ht_printf(b, "%zu", r->chosen);
	else
		ht_puts(b, "null");
	ht_printf(b, ", \"whole\": %s,\n   \"frontier\": [", r->whole ? "true" : "false");
	for (size_t i = 0; i < r->points; i++) {
		const struct ht_frontier_entry *e = &r->point[i];
		ht_printf(b, "%s{\"price_ps\": %lld, \"low_nodes\": %zu", i ? ",\n    " : "\n    ",
			(long long)e->price, e->low);
		put_error_json(b, "error", e->error);
		put_error_json(b, "measured", e->measured);
		ht_putc(b, '}');
	}
	ht_puts(b, "]}");
}

void ht_certificate_json(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_puts(b, ",\n \"certificate\": {\n  \"costs\": {\"table\": ");
	ht_put_json(b, c->costs);
	ht_put_member(b, "target", c->target);
	ht_put_member(b, "machine", c->machine);
	ht_put_member(b, "date", c->date);
	put_hash(b, "hash", c->costs_hash);
	ht_puts(b, "},\n  \"winner\": ");
	ht_put_json(b, c->winner);
	ht_printf(b,
		", \"price_ps\": %lld,\n  \"last_iterate\": {\"cost_ps\": %lld, \"bound_ps\": %lld",
		(long long)c->price, (long long)c->cost, (long long)c->bound);
	put_hash(b, "problem", c->problem_hash);
	if (c->saved > 0)
		ht_printf(b, "},\n  \"saved\": {\"bytes\": %lld", (long long)c->saved);
	ht_printf(b,
		"},\n  \"iterates\": %u, \"settled\": %s, \"free_nodes\": %u, \"regions\": %u, \"largest_region\": %u",
		c->iterates, c->settled ? "true" : "false", c->free_nodes, c->regions,
		c->largest_region);
	ht_printf(b,
		",\n  \"errors\": {\"low_contractions\": %u, \"short_runs\": %u, \"largest\": ",
		c->low_sums, c->short_sums);
	ht_put_double(b, c->largest_error);
	ht_putc(b, '}');
	put_alternatives_json(b, c);
	if (c->flips)
		put_flips_json(b, c);
	if (c->budget)
		put_budget_json(b, c->budget);
	ht_putc(b, '}');
}

static void put_error(struct ht_buf *b, const char *what, double x)
{
	if (x < 0)
		return;
	ht_printf(b, ", %s ", what);
	if (isinf(x))
		ht_puts(b, "infinite");
	else
		ht_put_float(b, (float)x);
}

static void put_budget_text(struct ht_buf *b, const struct ht_budget_report *r)
{
	const char *unit = r->budget->clauses ? "of the budget" : "rel";

	for (size_t i = 0; i < r->points; i++) {
		const struct ht_frontier_entry *e = &r->point[i];
		ht_puts(b, "frontier: ");
		ht_put_ms(b, e->price);
		ht_printf(b, ", %zu nodes low", e->low);
		put_error(b, "error by the model", e->error);
		put_error(b, "measured", e->measured);
		ht_printf(b, " %s%s\n", unit,
			r->budget->clauses && i == r->chosen ? " (chosen)" : "");
	}
	for (size_t i = 0; i < r->budget->clauses; i++) {
		const struct ht_budget_clause *c = &r->budget->clause[i];
		ht_printf(b, "budget: %.*s%s%s ", HT_STR_ARG(c->output), c->output.n ? ":" : "",
			ht_metric_name(c->metric));
		ht_put_double(b, r->kept[i]);
		ht_puts(b, " measured, ");
		ht_put_double(b, c->most);
		ht_puts(b, " allowed\n");
	}
	ht_printf(b, "errors: %u runs beside float32 on ", r->runs);
	put_samples(b, r->budget);
	if (r->groups)
		ht_printf(b, "; sensitivities of %u groups of nodes", r->groups);
	ht_putc(b, '\n');
}

void ht_certificate_prices(struct ht_buf *b, const struct ht_certificate *c)
{
	for (size_t i = 0; i < c->flips; i++) {
		ht_printf(b, "%.*s in %s: ", HT_STR_ARG(c->flip[i].node),
			ht_dtype_name(c->flip[i].to));
		if (c->flip[i].price < 0) {
			ht_puts(b, "must not be\n");
			continue;
		}
		ht_put_ms(b, c->flip[i].price);
		ht_puts(b, " more\n");
	}
}

static void put_saved(struct ht_buf *b, int64_t bytes)
{
	if (bytes > 0)
		ht_printf(b, ", %lld bytes of activations saved", (long long)bytes);
}

void ht_certificate_text(struct ht_buf *b, const struct ht_certificate *c)
{
	ht_certificate_prices(b, c);
	for (size_t i = 0; i < c->alternatives; i++) {
		const struct ht_alternative *a = &c->alternative[i];
		ht_printf(b, "%.*s: ", HT_STR_ARG(a->name));
		ht_put_ms(b, a->price);
		put_saved(b, a->saved);
		if (a->refused.n)
			ht_printf(b, ", refused: %.*s", HT_STR_ARG(a->refused));
		ht_putc(b, '\n');
	}
	if (c->short_sums)
		ht_printf(b,
			"errors: %u contractions in 16 bits, %u of them in short runs of float16; each errs by at most %.2g of its results\n",
			c->low_sums, c->short_sums, c->largest_error);
	if (c->budget)
		put_budget_text(b, c->budget);
	ht_printf(b, "%.*s is cheapest%s by %.*s: ", HT_STR_ARG(c->winner),
		c->budget && c->budget->budget->clauses ? " that keeps the budget" : "",
		HT_STR_ARG(c->costs));
	ht_put_ms(b, c->price);
	put_saved(b, c->saved);
	ht_puts(b, "; for the fusion of the last iterate no assignment costs less than ");
	ht_put_ms(b, c->bound);
	ht_putc(b, '\n');
}
