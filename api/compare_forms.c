/* Comparisons for other programs: CSV (RFC 4180), JUnit's XML, GitHub's workflow commands. */
#include "api/compare.h"

#include <math.h>

static struct ht_str number(struct ht_arena *a, double x)
{
	struct ht_buf b;

	ht_buf_init(&b, a);
	ht_put_double(&b, x);
	return ht_buf_str(&b);
}

/* ---- CSV ---- */

void ht_put_csv_field(struct ht_buf *b, struct ht_str s)
{
	ht_putc(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '"')
			ht_putc(b, '"');
		ht_putc(b, s.p[i]);
	}
	ht_putc(b, '"');
}

static void put_csv_head(struct ht_buf *b)
{
	ht_puts(b, "model,policy,output,verdict,lowest,low_nodes,float_nodes,casts,cast_bytes,"
		   "memory_bytes,median_ms,speedup,drop,drop_low,drop_high");
	for (size_t i = 0; i < HT_STAT_END; i++)
		ht_printf(b, ",%s", ht_statistics[i].name);
	ht_puts(b, "\r\n");
}

/* Empty if there is no number. */
static void put_value(struct ht_buf *b, bool there, double x)
{
	ht_putc(b, ',');
	if (there)
		ht_put_double(b, x);
}

static void put_measured(
	struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r, bool task)
{
	const struct ht_program_info *i = &r->program->info;
	struct ht_interval drop = ht_paired_drop(&r->metric);
	struct ht_latency ms = ht_latency_of(r->ms, r->rounds, b->arena),
			  speedup = ht_speedup_of(c, r, b->arena);

	ht_printf(b, ",%s,%zu,%zu,%zu", r->lowest_name, i->low_nodes, i->float_nodes, i->casts);
	put_value(b, r->cast_bytes >= 0, (double)r->cast_bytes);
	put_value(b, true, (double)ht_compared_bytes(c, r));
	put_value(b, ms.n > 0, ms.median);
	put_value(b, speedup.n > 0, speedup.median);
	task = task && r->metric.n;
	put_value(b, task, task ? r->metric.drop / (double)r->metric.n : 0);
	put_value(b, task, drop.low);
	put_value(b, task, drop.high);
}

static void put_csv_row(struct ht_buf *b, const struct ht_comparison *c,
	const struct ht_compared *r, const char *output, size_t at)
{
	ht_put_csv_field(b, ht_compared_model(c, ""));
	ht_putc(b, ',');
	ht_put_csv_field(b, r->name);
	ht_putc(b, ',');
	ht_put_csv_field(b, ht_str(output));
	ht_printf(b, ",%s", ht_verdict_word(ht_compared_verdict(c, r, b->arena)));
	if (r->status == HT_OK)
		put_measured(b, c, r, c->task && at == c->task_output);
	for (size_t i = 0; r->status == HT_OK && i < HT_STAT_END; i++)
		put_value(b, true, ht_errors_get(&r->errors[at], (enum ht_statistic)i));
	for (size_t i = 0; r->status != HT_OK && i < 11 + (size_t)HT_STAT_END; i++)
		ht_putc(b, ',');
	ht_puts(b, "\r\n");
}

void ht_comparison_csv(const struct ht_comparison *c, bool head, struct ht_buf *b)
{
	if (head)
		put_csv_head(b);
	if (c->base.status != HT_OK)
		put_csv_row(b, c, &c->base, "", 0);
	for (const struct ht_compared *r = c->first; r; r = r->next) {
		if (r->status != HT_OK)
			put_csv_row(b, c, r, "", 0);
		for (size_t i = 0; r->status == HT_OK && i < r->program->outputs; i++)
			put_csv_row(b, c, r, r->program->output[i].name, i);
	}
}

/* ---- JUnit ---- */

/* Text for XML 1.0, which cannot represent control characters and invalid UTF-8. */
static void put_xml(struct ht_buf *b, struct ht_str s)
{
	for (size_t i = 0, n; i < s.n; i += n ? n : 1) {
		n = ht_utf8_length(s.p + i, s.n - i);
		if (!n || (unsigned char)s.p[i] < ' ')
			ht_puts(b, "?");
		else if (n == 1 &&
			 (s.p[i] == '<' || s.p[i] == '>' || s.p[i] == '&' || s.p[i] == '"'))
			ht_printf(b, "&#%d;", s.p[i]);
		else
			ht_put(b, s.p + i, n);
	}
}

static struct ht_str failure_text(
	const struct ht_comparison *c, const struct ht_judgement *j, struct ht_arena *a)
{
	return ht_str_printf(a, "%s is %s, the tolerance %s%s; %s would pass",
		ht_judged_name(c, j, a), number(a, j->value).p, ht_judged_sign(j),
		number(a, j->bound).p,
		isfinite(j->would_pass) ? number(a, j->would_pass).p : "none");
}

static void open_case(struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r,
	const char *output)
{
	struct ht_latency ms = ht_latency_of(r->ms, r->rounds, b->arena);

	ht_puts(b, "    <testcase classname=\"");
	put_xml(b, ht_compared_model(c, "model"));
	ht_puts(b, "\" name=\"");
	put_xml(b, r == &c->base ? HT_STR("the model") : r->name);
	ht_puts(b, *output ? " / " : "");
	put_xml(b, ht_str(output));
	ht_puts(b, "\" time=\"");
	ht_put_fixed(b, ms.n ? ms.median / 1e3 : 0, 6);
	ht_puts(b, "\">");
}

static void put_message(struct ht_buf *b, const char *element, const char *type, struct ht_str text)
{
	ht_printf(b, "\n      <%s type=\"%s\" message=\"", element, type);
	put_xml(b, text);
	ht_puts(b, "\"/>");
}

static void put_case(
	struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r, size_t output)
{
	size_t n;
	struct ht_judgement *j = ht_judge(c, r, b->arena, &n);

	open_case(b, c, r, r->program->output[output].name);
	for (size_t i = 0; i < n; i++)
		if (j[i].output == output && !j[i].ok)
			put_message(b, "failure", "tolerance", failure_text(c, &j[i], b->arena));
	ht_puts(b, "</testcase>\n");
}

struct counts {
	size_t cases, failures, errors;
};

static void add_policy(struct counts *k, const struct ht_comparison *c, const struct ht_compared *r,
	struct ht_arena *a)
{
	struct ht_judgement *j;
	size_t n, last = SIZE_MAX;

	if (r->status != HT_OK) {
		k->cases++;
		k->errors++;
		return;
	}
	k->cases += r->program->outputs;
	j = ht_judge(c, r, a, &n);
	for (size_t i = 0; i < n; i++) {
		if (j[i].ok || j[i].output == last)
			continue;
		last = j[i].output;
		k->failures++;
	}
}

static void put_error_case(
	struct ht_buf *b, const struct ht_comparison *c, const struct ht_compared *r)
{
	open_case(b, c, r, "");
	put_message(b, "error", ht_status_text(r->status), r->why);
	ht_puts(b, "</testcase>\n");
}

static void put_suite(struct ht_buf *b, const struct ht_comparison *c)
{
	struct counts k = { 0 };

	if (c->base.status != HT_OK)
		add_policy(&k, c, &c->base, b->arena);
	for (const struct ht_compared *r = c->first; r; r = r->next)
		add_policy(&k, c, r, b->arena);
	ht_puts(b, "  <testsuite name=\"");
	put_xml(b, ht_compared_model(c, "model"));
	ht_printf(b, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" time=\"", k.cases,
		k.failures, k.errors);
	ht_put_fixed(b, (double)c->all_ns / 1e9, 6);
	ht_puts(b, "\">\n");
	if (c->base.status != HT_OK)
		put_error_case(b, c, &c->base);
	for (const struct ht_compared *r = c->first; r; r = r->next) {
		for (size_t i = 0; r->status == HT_OK && i < r->program->outputs; i++)
			put_case(b, c, r, i);
		if (r->status != HT_OK)
			put_error_case(b, c, r);
	}
	ht_puts(b, "  </testsuite>\n");
}

void ht_comparison_junit(const struct ht_comparison *const *c, size_t n, struct ht_buf *b)
{
	ht_puts(b,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"halftone compare\">\n");
	for (size_t i = 0; i < n; i++)
		put_suite(b, c[i]);
	ht_puts(b, "</testsuites>\n");
}

/* ---- GitHub ---- */

/* In properties, the separators are escaped too. */
static void put_command_text(struct ht_buf *b, struct ht_str s, bool property)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '%' || s.p[i] == '\n' || s.p[i] == '\r' ||
			(property && (s.p[i] == ':' || s.p[i] == ',')))
			ht_printf(b, "%%%02X", s.p[i]);
		else
			ht_putc(b, s.p[i]);
}

static void put_command(
	struct ht_buf *b, const struct ht_comparison *c, struct ht_str title, struct ht_str text)
{
	ht_puts(b, "::error file=");
	put_command_text(b, ht_compared_model(c, ""), true);
	ht_puts(b, ",title=");
	put_command_text(b, title, true);
	ht_puts(b, "::");
	put_command_text(b, text, false);
	ht_putc(b, '\n');
}

void ht_comparison_github(const struct ht_comparison *c, struct ht_buf *b)
{
	struct ht_arena *a = b->arena;

	if (c->base.status != HT_OK)
		put_command(b, c, ht_str(ht_status_text(c->base.status)), c->base.why);
	for (const struct ht_compared *r = c->first; r; r = r->next) {
		struct ht_judgement *j = NULL;
		size_t n = 0;
		if (r->status == HT_OK)
			j = ht_judge(c, r, a, &n);
		else
			put_command(b, c, r->name, r->why);
		for (size_t i = 0; i < n; i++)
			if (!j[i].ok)
				put_command(b, c,
					ht_str_printf(a, "%.*s: %s", HT_STR_ARG(r->name),
						r->program->output[j[i].output].name),
					failure_text(c, &j[i], a));
	}
}
