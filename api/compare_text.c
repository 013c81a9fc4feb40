/* Comparisons as tables, in columns or in Markdown. */
#include "api/compare.h"

#include <math.h>

/* ---- tables ---- */

enum { MOST_COLUMNS = 12 };

struct table {
	struct ht_buf *b;
	struct ht_arena *a;
	bool markdown;
	struct ht_str *cell; /* by row */
	size_t cells, cap, columns;
};

static void put_cell(struct table *t, struct ht_str s)
{
	t->cell = ht_grow(t->a, t->cell, t->cells, &t->cap, sizeof *t->cell);
	t->cell[t->cells++] = s;
}

static void put_text(struct table *t, const char *s)
{
	put_cell(t, ht_str(s));
}

static void put_head(struct table *t, const char *const *name, size_t n)
{
	t->columns = n;
	for (size_t i = 0; i < n; i++)
		put_text(t, name[i]);
}

/* Bars would end a cell, and line ends the row. */
static void put_escaped(struct table *t, struct ht_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (t->markdown && (s.p[i] == '|' || s.p[i] == '<' || s.p[i] == '\\'))
			ht_putc(t->b, '\\');
		ht_putc(t->b, (unsigned char)s.p[i] < ' ' ? ' ' : s.p[i]);
	}
}

static void put_row(struct table *t, size_t first, const size_t *width)
{
	for (size_t i = 0; i < t->columns; i++) {
		struct ht_str s = t->cell[first + i];

		ht_puts(t->b, t->markdown ? "| " : i ? "  " : "");
		put_escaped(t, s);
		for (size_t k = s.n; (t->markdown || i + 1 < t->columns) && k < width[i]; k++)
			ht_putc(t->b, ' ');
		ht_puts(t->b, t->markdown ? " " : "");
	}
	ht_puts(t->b, t->markdown ? "|\n" : "\n");
}

static void put_rule(struct table *t)
{
	for (size_t i = 0; i < t->columns; i++)
		ht_puts(t->b, "| --- ");
	ht_puts(t->b, "|\n");
}

static void end_table(struct table *t)
{
	size_t width[MOST_COLUMNS] = { 0 };

	for (size_t i = 0; i < t->cells; i++)
		if (t->cell[i].n > width[i % t->columns])
			width[i % t->columns] = t->cell[i].n;
	for (size_t i = 0; i < t->cells; i += t->columns) {
		put_row(t, i, width);
		if (t->markdown && !i)
			put_rule(t);
	}
	ht_putc(t->b, '\n');
}

/* ---- numbers ---- */

static struct ht_str short_number(struct ht_arena *a, double x)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_double(&b, ht_three_digits(x, HT_DIGITS_NEAREST));
	return ht_buf_str(&b);
}

/* "42 B", "1.5 kB", "102 MB"; -1: not known. */
static struct ht_str bytes_text(struct ht_arena *a, int64_t bytes)
{
	static const char *const unit[] = { "B", "kB", "MB", "GB", "TB" };
	double x = (double)bytes;
	size_t i = 0;

	if (bytes < 0)
		return HT_STR("?");
	for (; x >= 1000 && i + 1 < HT_COUNT(unit); i++)
		x /= 1000;
	return ht_str_printf(a, "%s %s", short_number(a, x).p, unit[i]);
}

static struct ht_str with_interval(
	struct ht_arena *a, double x, bool bounded, double low, double high)
{
	struct ht_str s = short_number(a, x);

	if (!bounded || !isfinite(low) || !isfinite(high))
		return s;
	return ht_str_printf(
		a, "%s [%s, %s]", s.p, short_number(a, low).p, short_number(a, high).p);
}

static struct ht_str latency(struct ht_arena *a, struct ht_latency l)
{
	return l.n ? with_interval(a, l.median, l.bounded, l.low, l.high) : HT_STR("-");
}

/* ---- the verdicts ---- */

static void put_metric(struct table *t, const struct ht_compared *r)
{
	struct ht_interval i = ht_paired_drop(&r->metric);
	double n = (double)r->metric.n;

	put_cell(t, r->metric.n ? short_number(t->a, r->metric.second / n) : HT_STR("-"));
	put_cell(t, r->metric.n ? with_interval(t->a, r->metric.drop / n, true, i.low, i.high)
				: HT_STR("-"));
}

static void put_policy(struct table *t, const struct ht_comparison *c, const struct ht_compared *r)
{
	const struct ht_program_info *i = r->status == HT_OK ? &r->program->info : NULL;

	put_cell(t, r->name);
	put_cell(t, i ? ht_str_printf(t->a, "%zu/%zu", i->low_nodes, i->float_nodes) : HT_STR("-"));
	put_cell(t, i ? ht_str_printf(t->a, "%zu", i->casts) : HT_STR("-"));
	put_cell(t, i ? bytes_text(t->a, r->cast_bytes) : HT_STR("-"));
	put_cell(t, i ? bytes_text(t->a, (int64_t)ht_compared_bytes(c, r)) : HT_STR("-"));
	put_cell(t, i ? latency(t->a, ht_latency_of(r->ms, r->rounds, t->a)) : HT_STR("-"));
	put_cell(t, i ? latency(t->a, ht_speedup_of(c, r, t->a)) : HT_STR("-"));
	if (c->task)
		put_metric(t, r);
	put_text(t, ht_verdict_word(ht_compared_verdict(c, r, t->a)));
}

static void put_policies(struct table t, const struct ht_comparison *c)
{
	const char *name = c->task ? ht_task_name(c->task) : "";
	const char *const plain[] = { "policy", "low nodes", "casts", "cast bytes", "memory", "ms",
		"speedup", "verdict" };
	const char *const metric[] = { "policy", "low nodes", "casts", "cast bytes", "memory", "ms",
		"speedup", name, "drop", "verdict" };

	if (c->task)
		put_head(&t, metric, HT_COUNT(metric));
	else
		put_head(&t, plain, HT_COUNT(plain));
	for (const struct ht_compared *r = c->first; r; r = r->next)
		put_policy(&t, c, r);
	end_table(&t);
}

/* ---- the errors ---- */

static const enum ht_statistic shown[] = { HT_STAT_rel, HT_STAT_rms, HT_STAT_abs, HT_STAT_cos,
	HT_STAT_p999_low_ulp, HT_STAT_argmax, HT_STAT_nan, HT_STAT_overflow, HT_STAT_underflow };

static void put_errors(struct table t, const struct ht_comparison *c)
{
	const char *name[2 + HT_COUNT(shown)] = { "policy", "output" };

	for (size_t i = 0; i < HT_COUNT(shown); i++)
		name[2 + i] = ht_statistics[shown[i]].name;
	put_head(&t, name, HT_COUNT(name));
	for (const struct ht_compared *r = c->first; r; r = r->next)
		for (size_t i = 0; r->status == HT_OK && i < r->program->outputs; i++) {
			put_cell(&t, r->name);
			put_text(&t, r->program->output[i].name);
			for (size_t k = 0; k < HT_COUNT(shown); k++)
				put_cell(&t,
					short_number(t.a, ht_errors_get(&r->errors[i], shown[k])));
		}
	end_table(&t);
}

/* ---- what is said in words ---- */

static void put_line(struct table *t, struct ht_str s)
{
	ht_puts(t->b, t->markdown ? "- " : "");
	put_escaped(t, s);
	ht_putc(t->b, '\n');
}

static void put_judgement(struct table *t, const struct ht_comparison *c,
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
			    output, name, sign, short_number(t->a, j->bound).p, own.p,
			    short_number(t->a, j->value).p, j->ok ? "pass" : "FAIL",
			    j->ok ? ""
			    : isfinite(j->would_pass)
				    ? ht_str_printf(t->a, "; --tol '%s:%s%s%s' would pass", output,
					      name, sign, ht_buf_str(&pass).p)
					      .p
				    : "; no tolerance would pass"));
}

static void put_notes(struct table *t, const struct ht_comparison *c, const struct ht_compared *r)
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

static void put_title(struct table *t, const struct ht_comparison *c)
{
	const struct ht_program_info *i = &c->base.program->info;
	const char *heading = t->markdown ? "### " : "";

	ht_puts(t->b, heading);
	put_escaped(t, ht_str(c->model->graph->path ? c->model->graph->path : "the model"));
	ht_printf(t->b, "\n\n%zu sample%s, reference %s, target %s, %d thread%s", c->samples,
		c->samples == 1 ? "" : "s", c->given ? "given" : "float32", i->target,
		c->compile.threads, c->compile.threads == 1 ? "" : "s");
	if (c->base.rounds)
		ht_printf(t->b, "; the model itself takes %s ms",
			latency(t->a, ht_latency_of(c->base.ms, c->base.rounds, t->a)).p);
	if (c->task && c->first && c->first->metric.n)
		ht_printf(t->b, "; its %s is %s (drops by %s)", ht_task_name(c->task),
			short_number(t->a, c->first->metric.first / (double)c->first->metric.n).p,
			ht_paired_method(&c->first->metric));
	ht_puts(t->b, "\n\n");
}

void ht_comparison_text(const struct ht_comparison *c, bool markdown, struct ht_buf *b)
{
	struct table t = { .b = b, .a = b->arena, .markdown = markdown };

	put_title(&t, c);
	put_policies(t, c);
	put_errors(t, c);
	for (const struct ht_compared *r = c->first; r; r = r->next)
		put_notes(&t, c, r);
	ht_puts(b, markdown ? "\n" : "");
}
