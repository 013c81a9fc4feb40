/* Why units do not have a dtype. */
#include "api/report.h"

#include <stdlib.h>
#include <string.h>

struct asking {
	struct ht_report *r;
	enum ht_asked asked;
	const char *node; /* NULL: all */
	enum ht_format format;
	struct ht_diags *d;
	struct ht_bytes *out;
	struct ht_buf b;
	struct ht_map reasons; /* → count */
	size_t units, without;
};

/* The cost of another type; -1: nobody asked for it, or the type is not permitted. */
static int64_t price_of(const struct asking *k, struct ht_str node)
{
	const struct ht_certificate *c = k->r->data.decisions.certificate;

	for (size_t i = 0; c && i < c->flips; i++)
		if (c->flip[i].to == ht_asked_dtype(k->asked) && ht_str_eq(c->flip[i].node, node))
			return c->flip[i].price;
	return -1;
}

/* Whether the rule is what prevents the dtype; only then its arguments are shown. */
static bool is_by_rule(const struct asking *k, const struct ht_decided_type *t)
{
	return ht_str_eq(t->why_not[k->asked]->text, t->rule->text);
}

static bool is_by_list(const struct asking *k, const struct ht_decided_type *t)
{
	return t->list && is_by_rule(k, t);
}

static void put_text(struct asking *k, const struct ht_decided_type *t, int64_t price)
{
	ht_printf(&k->b, "%.*s  %.*s: %s, not %s: %.*s", HT_STR_ARG(t->node), HT_STR_ARG(t->attr),
		ht_dtype_info(t->to)->name, ht_dtype_info(ht_asked_dtype(k->asked))->name,
		HT_STR_ARG(t->why_not[k->asked]->text));
	if (is_by_list(k, t) && t->class != HT_CLASS_UNKNOWN)
		ht_printf(&k->b, " (%s, %s)", ht_class_name(t->class), t->list);
	else if (is_by_list(k, t))
		ht_printf(&k->b, " (%s)", t->list);
	if (t->followed.n && is_by_rule(k, t))
		ht_printf(&k->b, ", after %.*s", HT_STR_ARG(t->followed));
	if (price >= 0) {
		ht_puts(&k->b, "; ");
		ht_put_ms(&k->b, price);
		ht_puts(&k->b, " more");
	}
	ht_putc(&k->b, '\n');
}

/* The reason without the name or the figures of one node. */
static struct ht_str kind_of(const struct ht_dtype_reason *why)
{
	if (why->by == HT_BY_FOLLOWS)
		return HT_STR("follows its producer");
	return why->by == HT_BY_TEXT ? why->text : ht_dtype_reasons[why->by].text;
}

static void put_json(struct asking *k, const struct ht_decided_type *t, int64_t price)
{
	ht_puts(&k->b, k->without ? ",\n  {\"node\": " : "\n  {\"node\": ");
	ht_put_json(&k->b, t->node);
	ht_put_member(&k->b, "attribute", t->attr);
	ht_put_member(&k->b, "dtype", ht_str(ht_dtype_info(t->to)->name));
	ht_put_member(&k->b, "why_not", t->why_not[k->asked]->text);
	if (is_by_list(k, t))
		ht_put_member(&k->b, "list", ht_str(t->list));
	if (t->followed.n && is_by_rule(k, t))
		ht_put_member(&k->b, "follows", t->followed);
	if (price >= 0)
		ht_put_number(&k->b, "price_ps", price);
	ht_putc(&k->b, '}');
}

static void tell(struct asking *k, const struct ht_decided_type *t)
{
	const struct ht_dtype_reason *why = t->why_not[k->asked];
	struct ht_map_entry *e;

	k->units++;
	if (!why)
		return;
	if (k->format == HT_FORMAT_JSON)
		put_json(k, t, price_of(k, t->node));
	else
		put_text(k, t, price_of(k, t->node));
	k->without++;
	e = ht_map_at(&k->reasons, kind_of(why));
	e->value = (void *)((uintptr_t)e->value + 1);
}

/* The most frequent first; equal ones by text. */
static int by_count(const void *a, const void *b)
{
	const struct ht_map_entry *x = a, *y = b;
	uintptr_t n = (uintptr_t)x->value, m = (uintptr_t)y->value;

	return n != m ? (n < m) - (n > m) : ht_str_cmp(x->key, y->key);
}

static void put_reasons(struct asking *k)
{
	bool json = k->format == HT_FORMAT_JSON;

	if (k->reasons.count)
		qsort(k->reasons.entries, k->reasons.count, sizeof *k->reasons.entries, by_count);
	ht_puts(&k->b, json ? "],\n \"reasons\": {" : "");
	for (size_t i = 0; i < k->reasons.count; i++) {
		const struct ht_map_entry *e = &k->reasons.entries[i];
		if (json) {
			ht_puts(&k->b, i ? ", " : "");
			ht_put_json(&k->b, e->key);
			ht_printf(&k->b, ": %zu", (size_t)(uintptr_t)e->value);
		} else {
			ht_printf(&k->b, "%zu: %.*s\n", (size_t)(uintptr_t)e->value,
				HT_STR_ARG(e->key));
		}
	}
	if (json)
		ht_printf(&k->b, "},\n \"float_units\": %zu}\n", k->units);
	else
		ht_printf(&k->b, "%zu of %zu float units are not %s\n", k->without, k->units,
			ht_dtype_info(ht_asked_dtype(k->asked))->name);
}

static enum ht_status answer(void *arg)
{
	struct asking *k = arg;
	const struct ht_decisions *d = &k->r->data.decisions;
	struct ht_arena *a = &k->r->w.scratch;

	ht_buf_init(&k->b, a);
	ht_map_init(&k->reasons, a);
	if (k->node)
		HT_TRY(ht_report_has(k->r, k->node, a, k->d));
	if (k->format == HT_FORMAT_JSON) {
		ht_puts(&k->b, "{\"schema\": \"halftone.why_not/1\",\n \"policy\": ");
		ht_put_json(&k->b, k->r->data.policy);
		ht_printf(&k->b, ",\n \"dtype\": \"%s\",\n \"units\": [",
			ht_dtype_info(ht_asked_dtype(k->asked))->name);
	}
	for (size_t i = 0; i < d->nodes; i++)
		for (size_t j = 0; j < d->node[i].types; j++)
			if (!k->node || ht_is_called(&d->node[i], k->node))
				tell(k, &d->type[d->node[i].first_type + j]);
	put_reasons(k);
	return ht_bytes_of(ht_buf_str(&k->b), k->out);
}

enum ht_status ht_report_why_not(struct ht_report *r, enum ht_dtype dtype, const char *node,
	enum ht_format format, struct ht_diags *d, struct ht_bytes *out)
{
	struct asking k = { .r = r,
		.node = node,
		.format = format,
		.d = d,
		.out = out,
		.asked = ht_asked_of(dtype) };
	enum ht_status st;

	*out = (struct ht_bytes){ 0 };
	if (k.asked == HT_ASKED_END || !r->graph ||
		(format != HT_FORMAT_TEXT && format != HT_FORMAT_JSON))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"why not is asked of float32, float16 and bfloat16, as text or JSON, of a "
			"report that was not read from a file");
	st = ht_guarded(&r->w.unwind, answer, &k, d);
	ht_arena_release(&r->w.scratch);
	return st;
}
