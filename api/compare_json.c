/* Comparisons as JSON: docs/compare.schema.json. */
#include "api/compare.h"

#include <math.h>
#include <string.h>

void ht_put_real(struct ht_buf *b, const char *key, double x)
{
	ht_printf(b, "\"%s\": ", key);
	if (isfinite(x))
		ht_put_double(b, x);
	else
		ht_puts(b, isnan(x) ? "\"nan\"" : x > 0 ? "\"inf\"" : "\"-inf\"");
}

void ht_put_next_real(struct ht_buf *b, const char *key, double x)
{
	ht_puts(b, ", ");
	ht_put_real(b, key, x);
}

void ht_put_text_member(struct ht_buf *b, const char *key, struct ht_str s)
{
	ht_printf(b, "\"%s\": ", key);
	ht_put_json(b, s);
}

static void put_latency(struct ht_buf *b, const char *key, struct ht_latency l)
{
	ht_printf(b, ",\n    \"%s\": ", key);
	if (!l.n) {
		ht_puts(b, "null");
		return;
	}
	ht_puts(b, "{");
	ht_put_real(b, "median", l.median);
	if (l.bounded) {
		ht_put_next_real(b, "low", l.low);
		ht_put_next_real(b, "high", l.high);
	}
	ht_put_next_real(b, "min", l.least);
	ht_put_next_real(b, "max", l.most);
	ht_printf(b, ", \"runs\": %zu}", l.n);
}

static void put_metric(struct ht_buf *b, const struct ht_compared *r)
{
	const struct ht_paired *m = &r->metric;
	struct ht_interval i = ht_paired_drop(m);
	double n = (double)m->n;

	ht_puts(b, ",\n    \"metric\": ");
	if (!m->n) {
		ht_puts(b, "null");
		return;
	}
	ht_puts(b, "{");
	ht_put_real(b, "reference", m->first / n);
	ht_put_next_real(b, "value", m->second / n);
	ht_put_next_real(b, "drop", m->drop / n);
	ht_put_next_real(b, "low", i.low);
	ht_put_next_real(b, "high", i.high);
	ht_printf(b, ", \"samples\": %zu, \"lost\": %zu, \"won\": %zu, ", m->n, m->lost, m->won);
	ht_put_text_member(b, "method", ht_str(ht_paired_method(m)));
	ht_puts(b, "}");
}

static void put_errors(struct ht_buf *b, const struct ht_compared *r)
{
	ht_puts(b, ",\n    \"outputs\": [");
	for (size_t i = 0; r->status == HT_OK && i < r->program->outputs; i++) {
		const struct ht_errors *e = &r->errors[i];

		ht_printf(b, "%s\n     {", i ? "," : "");
		ht_put_text_member(b, "output", ht_str(r->program->output[i].name));
		ht_printf(b, ", \"dtype\": \"%s\", \"elements\": %llu", ht_dtype_name(e->output),
			(unsigned long long)e->elements);
		for (enum ht_statistic s = 0; s < HT_STAT_END; s++)
			ht_put_next_real(b, ht_statistics[s].name, ht_errors_get(e, s));
		ht_putc(b, '}');
	}
	ht_putc(b, ']');
}

static void put_judgements(
	struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r)
{
	struct ht_judgement *j = NULL;
	size_t n = 0;

	if (r->status == HT_OK)
		j = ht_judge(c, r, b->arena, &n);
	ht_puts(b, ",\n    \"tolerances\": [");
	for (size_t i = 0; i < n; i++) {
		ht_printf(b, "%s\n     {", i ? "," : "");
		ht_put_text_member(b, "output", ht_str(r->program->output[j[i].output].name));
		ht_puts(b, ", ");
		ht_put_text_member(b, "statistic", ht_str(ht_judged_name(c, &j[i], b->arena)));
		ht_printf(b, ", \"sign\": \"%s\"", ht_judged_sign(&j[i]));
		ht_put_next_real(b, "bound", j[i].bound);
		ht_put_next_real(b, "value", j[i].value);
		ht_printf(b, ", \"default\": %s, \"ok\": %s", j[i].by_default ? "true" : "false",
			j[i].ok ? "true" : "false");
		ht_put_next_real(b, "would_pass", j[i].would_pass);
		ht_putc(b, '}');
	}
	ht_putc(b, ']');
}

/* Splits "hit: ENTRY" and "miss: REASON". */
static void put_cache(struct ht_buf *b, const struct ht_compared *r)
{
	bool hit = ht_str_starts(r->cache, "hit");
	size_t head = hit ? strlen("hit: ") : strlen("miss: ");

	if (r->cache.n < head)
		return;
	ht_printf(b, ",\n    \"cache\": {\"hit\": %s, ", hit ? "true" : "false");
	ht_put_text_member(b, hit ? "entry" : "reason",
		(struct ht_str){ r->cache.p + head, r->cache.n - head });
	ht_putc(b, '}');
}

static void put_program(
	struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r)
{
	const struct ht_program_info *i = &r->program->info;

	ht_printf(b,
		",\n    \"lowest\": \"%s\", \"float_nodes\": %zu, \"low_nodes\": %zu, \"casts\": %zu, ",
		r->lowest_name, i->float_nodes, i->low_nodes, i->casts);
	if (r->emulated)
		ht_puts(b, "\"emulated\": true, ");
	if (r->cast_bytes < 0)
		ht_puts(b, "\"cast_bytes\": null");
	else
		ht_printf(b, "\"cast_bytes\": %lld", (long long)r->cast_bytes);
	ht_printf(b,
		",\n    \"weight_bytes\": %zu, \"code_bytes\": %zu, \"arena_bytes\": %zu, "
		"\"live_bytes\": %zu, \"memory_bytes\": %llu",
		i->weight_bytes, i->code_bytes, i->arena_bytes, i->live_bytes,
		(unsigned long long)ht_compared_bytes(c, r));
}

static void put_policy(struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r)
{
	enum ht_status st = ht_compared_verdict(c, r, b->arena);

	ht_puts(b, "\n   {");
	ht_put_text_member(b, "policy", r->name);
	ht_puts(b, ", ");
	ht_put_text_member(b, "verdict", ht_str(ht_verdict_word(st)));
	if (r->status != HT_OK) {
		ht_printf(b, ", \"code\": %d, ", (int)r->status);
		ht_put_text_member(b, "error", r->why);
	} else {
		if (r->same) {
			ht_puts(b, ", ");
			ht_put_text_member(b, "same_as", r->same->name);
		}
		put_cache(b, r);
		put_program(b, c, r);
		put_latency(b, "latency_ms", ht_latency_of(r->ms, r->rounds, b->arena));
		put_latency(b, "speedup", ht_speedup_of(c, r, b->arena));
		if (c->task)
			put_metric(b, r);
	}
	put_errors(b, r);
	put_judgements(b, c, r);
	ht_nodes_json(b, r);
	ht_putc(b, '}');
}

static void put_phases(struct ht_buf *b, const struct ht_comparison *c)
{
	bool any = false;

	ht_puts(b, ", \"phases\": [");
	for (const struct ht_compared *r = c->first; r; r = r->next)
		for (size_t i = 0; r->status == HT_OK && i < r->program->info.phases; i++) {
			const struct ht_phase *p = &r->program->info.phase[i];

			ht_puts(b, any ? ",\n   {" : "\n   {");
			ht_put_text_member(b, "policy", r->name);
			ht_printf(b, ", \"phase\": \"%s\"", p->name);
			ht_put_next_real(b, "seconds", (double)p->ns / 1e9);
			ht_putc(b, '}');
			any = true;
		}
	ht_putc(b, ']');
}

static void put_seconds(struct ht_buf *b, const struct ht_comparison *c)
{
	ht_puts(b, ",\n  \"seconds\": {");
	ht_put_real(b, "compiling", (double)c->compile_ns / 1e9);
	ht_put_next_real(b, "running", (double)c->run_ns / 1e9);
	ht_put_next_real(b, "measuring", (double)c->all_ns / 1e9);
	put_phases(b, c);
	ht_putc(b, '}');
}

static void put_model(struct ht_buf *b, const struct ht_comparison *c)
{
	ht_puts(b, "\n  {");
	ht_put_text_member(b, "model", ht_compared_model(c, ""));
	ht_printf(b, ", \"reference\": \"%s\", \"samples\": %zu, \"runs\": %zu",
		ht_reference_name(c), c->samples, c->runs);
	ht_puts(b, ",\n  \"target\": ");
	ht_put_json(b, ht_str(c->base.program ? c->base.program->info.target : ""));
	ht_printf(b, ", \"threads\": %d", c->compile.threads);
	if (c->base.status != HT_OK) {
		ht_printf(b, ", \"code\": %d, ", (int)c->base.status);
		ht_put_text_member(b, "error", c->base.why);
	}
	if (c->task) {
		ht_printf(b, ",\n  \"metric\": {\"name\": \"%s\", ", ht_task_name(c->task));
		ht_put_text_member(
			b, "output", ht_str(c->base.program->output[c->task_output].name));
		ht_printf(b, ", \"labels\": %s}", c->labelled ? "true" : "false");
	}
	put_seconds(b, c);
	put_latency(b, "latency_ms", ht_latency_of(c->base.ms, c->base.rounds, b->arena));
	ht_puts(b, ",\n  \"policies\": [");
	for (const struct ht_compared *r = c->first; r; r = r->next) {
		put_policy(b, c, r);
		ht_puts(b, r->next ? "," : "");
	}
	ht_puts(b, "]}");
}

void ht_comparison_json(
	const struct ht_comparison *const *c, size_t n, const char *command, struct ht_buf *b)
{
	enum ht_status worst = HT_OK;

	ht_puts(b, "{\"schema\": \"halftone.compare/1\",\n \"version\": ");
	ht_put_json(b, ht_str(ht_version()));
	ht_puts(b, ",\n \"command\": ");
	if (command)
		ht_put_json(b, ht_str(command));
	else
		ht_puts(b, "null");
	ht_puts(b, ",\n \"models\": [");
	for (size_t i = 0; i < n; i++) {
		worst = ht_worse_status(worst, ht_comparison_worst(c[i], b->arena));
		ht_puts(b, i ? "," : "");
		put_model(b, c[i]);
	}
	ht_printf(b, "],\n \"verdict\": \"%s\"}\n", ht_verdict_word(worst));
}
