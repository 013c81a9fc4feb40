/* Comparisons as tables, in columns or in Markdown. */
#include "api/compare_table.h"

#include <math.h>

/* ---- numbers ---- */

static struct ht_str with_interval(
	struct ht_arena *a, double x, bool bounded, double low, double high)
{
	struct ht_str s = ht_short_number(a, x);

	if (!bounded || !isfinite(low) || !isfinite(high))
		return s;
	return ht_str_printf(
		a, "%s [%s, %s]", s.p, ht_short_number(a, low).p, ht_short_number(a, high).p);
}

static struct ht_str latency(struct ht_arena *a, struct ht_latency l)
{
	return l.n ? with_interval(a, l.median, l.bounded, l.low, l.high) : HT_STR("-");
}

/* ---- the verdicts ---- */

static void put_metric(struct ht_text_table *t, const struct ht_compared *r)
{
	struct ht_interval i = ht_paired_drop(&r->metric);
	double n = (double)r->metric.n;

	ht_text_table_cell(
		t, r->metric.n ? ht_short_number(t->a, r->metric.second / n) : HT_STR("-"));
	ht_text_table_cell(t, r->metric.n
				      ? with_interval(t->a, r->metric.drop / n, true, i.low, i.high)
				      : HT_STR("-"));
}

static void put_policy(
	struct ht_text_table *t, const struct ht_comparison *c, const struct ht_compared *r)
{
	const struct ht_program_info *i = r->status == HT_OK ? &r->program->info : NULL;

	ht_text_table_cell(t, r->emulated
				      ? ht_str_printf(t->a, "%.*s (emulated)", HT_STR_ARG(r->name))
				      : r->name);
	ht_text_table_cell(
		t, i ? ht_str_printf(t->a, "%zu/%zu", i->low_nodes, i->float_nodes) : HT_STR("-"));
	ht_text_table_cell(t, i ? ht_str_printf(t->a, "%zu", i->casts) : HT_STR("-"));
	ht_text_table_cell(t, i ? ht_bytes_text(t->a, r->cast_bytes) : HT_STR("-"));
	ht_text_table_cell(
		t, i ? ht_bytes_text(t->a, (int64_t)ht_compared_bytes(c, r)) : HT_STR("-"));
	ht_text_table_cell(
		t, i ? latency(t->a, ht_latency_of(r->ms, r->rounds, t->a)) : HT_STR("-"));
	ht_text_table_cell(t, i ? latency(t->a, ht_speedup_of(c, r, t->a)) : HT_STR("-"));
	if (c->task)
		put_metric(t, r);
	ht_text_table_text(t, ht_verdict_word(ht_compared_verdict(c, r, t->a)));
}

static void put_policies(struct ht_text_table t, const struct ht_comparison *c)
{
	const char *name = c->task ? ht_task_name(c->task) : "";
	const char *const plain[] = { "policy", "low nodes", "casts", "cast bytes", "memory", "ms",
		"speedup", "verdict" };
	const char *const metric[] = { "policy", "low nodes", "casts", "cast bytes", "memory", "ms",
		"speedup", name, "drop", "verdict" };

	if (c->task)
		ht_text_table_head(&t, metric, HT_COUNT(metric));
	else
		ht_text_table_head(&t, plain, HT_COUNT(plain));
	for (const struct ht_compared *r = c->first; r; r = r->next)
		put_policy(&t, c, r);
	ht_text_table_end(&t);
}

/* ---- the errors ---- */

static const enum ht_statistic shown[] = { HT_STAT_rel, HT_STAT_rms, HT_STAT_abs, HT_STAT_cos,
	HT_STAT_p999_low_ulp, HT_STAT_argmax, HT_STAT_nan, HT_STAT_overflow, HT_STAT_underflow };

static void put_errors(struct ht_text_table t, const struct ht_comparison *c)
{
	const char *name[2 + HT_COUNT(shown)] = { "policy", "output" };

	for (size_t i = 0; i < HT_COUNT(shown); i++)
		name[2 + i] = ht_statistics[shown[i]].name;
	ht_text_table_head(&t, name, HT_COUNT(name));
	for (const struct ht_compared *r = c->first; r; r = r->next)
		for (size_t i = 0; r->status == HT_OK && i < r->program->outputs; i++) {
			ht_text_table_cell(&t, r->name);
			ht_text_table_text(&t, r->program->output[i].name);
			for (size_t k = 0; k < HT_COUNT(shown); k++)
				ht_text_table_cell(
					&t, ht_short_number(
						    t.a, ht_errors_get(&r->errors[i], shown[k])));
		}
	ht_text_table_end(&t);
}

/* ---- sentences below the tables ---- */

static void put_line(struct ht_text_table *t, struct ht_str s)
{
	ht_puts(t->b, t->markdown ? "- " : "");
	ht_text_table_escaped(t, s);
	ht_putc(t->b, '\n');
}

static void put_judgement(struct ht_text_table *t, const struct ht_comparison *c,
	const struct ht_compared *r, const struct ht_judgement *j)
{
	const char *output = r->program->output[j->output].name, *name = ht_judged_name(c, j, t->a),
		   *sign = ht_judged_sign(j);
	struct ht_str own = j->by_default
				    ? ht_str_printf(t->a, " (the default for %s)",
					      ht_dtype_name(j->statistic == HT_STAT_abs
								    ? r->errors[j->output].output
								    : r->lowest))
				    : HT_STR("");
	struct ht_buf pass;

	ht_buf_init(&pass, t->a);
	ht_put_double(&pass, j->would_pass);
	put_line(t, ht_str_printf(t->a, "%.*s: %s:%s%s%s%s is %s: %s%s", HT_STR_ARG(r->name),
			    output, name, sign, ht_short_number(t->a, j->bound).p, own.p,
			    ht_short_number(t->a, j->value).p, j->ok ? "pass" : "FAIL",
			    j->ok ? ""
			    : isfinite(j->would_pass)
				    ? ht_str_printf(t->a, "; --tol '%s:%s%s%s' would pass", output,
					      name, sign, ht_buf_str(&pass).p)
					      .p
				    : "; no tolerance would pass"));
}

static void put_notes(
	struct ht_text_table *t, const struct ht_comparison *c, const struct ht_compared *r)
{
	size_t n;
	struct ht_judgement *j;

	if (r->status != HT_OK) {
		put_line(t, ht_str_printf(t->a, "%.*s: %s: %.*s", HT_STR_ARG(r->name),
				    ht_status_text(r->status), HT_STR_ARG(r->why)));
		return;
	}
	if (r->same)
		put_line(t, ht_str_printf(t->a, "%.*s decides the same as %.*s",
				    HT_STR_ARG(r->name), HT_STR_ARG(r->same->name)));
	j = ht_judge(c, r, t->a, &n);
	for (size_t i = 0; i < n; i++)
		put_judgement(t, c, r, &j[i]);
}

static void put_title(struct ht_text_table *t, const struct ht_comparison *c)
{
	ht_puts(t->b, t->markdown ? "### " : "");
	ht_text_table_escaped(t, ht_compared_model(c, "the model"));
	ht_puts(t->b, "\n\n");
}

static void put_environment(struct ht_text_table *t, const struct ht_comparison *c)
{
	const struct ht_program_info *i = &c->base.program->info;

	ht_printf(t->b, "%zu sample%s, reference %s, target %s, %d thread%s", c->samples,
		c->samples == 1 ? "" : "s", ht_reference_name(c), i->target, c->compile.threads,
		c->compile.threads == 1 ? "" : "s");
	if (c->base.rounds)
		ht_printf(t->b, "; the model itself takes %s ms",
			latency(t->a, ht_latency_of(c->base.ms, c->base.rounds, t->a)).p);
	if (c->task && c->first && c->first->metric.n)
		ht_printf(t->b, "; its %s is %s (drops by %s)", ht_task_name(c->task),
			ht_short_number(t->a, c->first->metric.first / (double)c->first->metric.n)
				.p,
			ht_paired_method(&c->first->metric));
	ht_puts(t->b, "\n\n");
}

void ht_comparison_text(const struct ht_comparison *c, bool markdown, struct ht_buf *b)
{
	struct ht_text_table t = { .b = b, .a = b->arena, .markdown = markdown };

	put_title(&t, c);
	if (c->base.status != HT_OK) {
		put_line(&t, ht_str_printf(t.a, "%s: %.*s", ht_status_text(c->base.status),
				     HT_STR_ARG(c->base.why)));
		ht_puts(b, "\n");
		return;
	}
	put_environment(&t, c);
	put_policies(t, c);
	put_errors(t, c);
	for (const struct ht_compared *r = c->first; r; r = r->next)
		put_notes(&t, c, r);
	for (const struct ht_compared *r = c->first; r; r = r->next)
		ht_nodes_text(r, markdown, b);
	ht_puts(b, markdown ? "\n" : "");
}
