/* The part of a comparison about the decisions of a policy. */
#include "api/compare.h"
#include "api/report.h"
#include "api/report_diff.h"

enum ht_dtype ht_lower_type(enum ht_dtype a, enum ht_dtype b)
{
	if (!ht_is_float(b))
		return a;
	return ht_dtype_info(b)->mantissa < ht_dtype_info(a)->mantissa ? b : a;
}

static void put_types(struct ht_buf *b, const struct ht_decisions *d)
{
	for (size_t i = 0; i < d->types; i++) {
		const struct ht_decided_type *t = &d->type[i];

		if (t->from == t->to && t->operands == HT_INVALID && t->emulated == HT_INVALID)
			continue;
		ht_printf(b, "%.*s\t%.*s\t%d\t%d\t%d\n", HT_STR_ARG(t->node), HT_STR_ARG(t->attr),
			(int)t->to, (int)t->operands, (int)t->emulated);
	}
	for (size_t i = 0; i < d->emulations; i++) {
		ht_printf(b, "%d\t", (int)d->emulation[i].slot);
		ht_emulation_put(b, &d->emulation[i]);
		ht_putc(b, '\n');
	}
	for (size_t i = 0; i < d->casts; i++)
		ht_printf(b, "%.*s\t%d\t%d\n", HT_STR_ARG(d->cast[i].source), (int)d->cast[i].from,
			(int)d->cast[i].to);
}

static const struct ht_float_format *lower_format(
	const struct ht_float_format *a, const struct ht_float_format *b)
{
	return !a || b->mantissa < a->mantissa ? b : a;
}

/* Notes the number formats that the policy has in the place of its lowest type.  A format that
 * is a type of the machine does not count as emulated. */
static void note_formats(struct ht_compared *r, const struct ht_policy *p)
{
	const struct ht_emulation *e = ht_policy_emulation(p, r->lowest);
	const struct ht_float_format *lowest = NULL;
	struct ht_buf b;

	for (size_t i = 0; i < p->emulations; i++)
		r->emulated |= p->emulation[i].native == HT_INVALID;
	for (int role = 0; e && role < HT_ROLES; role++)
		if (e->rounds[role])
			lowest = lower_format(lowest, &e->format[role]);
	if (!lowest)
		return;
	r->lowest = ht_format_like(lowest);
	ht_buf_init(&b, r->arena);
	ht_emulation_put(&b, e);
	r->lowest_name = ht_buf_str(&b).p;
}

void ht_compared_decisions(
	struct ht_compared *r, const struct ht_comparison *c, const struct ht_policy *p)
{
	struct ht_compile_options opt = c->compile;
	struct ht_report *report;
	struct ht_str text;
	struct ht_buf b;

	r->lowest = HT_F32;
	r->lowest_name = ht_dtype_name(HT_F32);
	r->cast_bytes = 0;
	r->decisions = ht_hash_bytes("", 0);
	if (!p)
		return;
	r->cast_bytes = -1;
	opt.policy = p;
	if (ht_report_new(c->model, &opt, NULL, &report) != HT_OK)
		return;
	for (size_t i = 0; i < report->data.decisions.types; i++)
		r->lowest = ht_lower_type(
			ht_lower_type(r->lowest, report->data.decisions.type[i].operands),
			ht_effective_dtype(&report->data.decisions.type[i]));
	r->lowest_name = ht_dtype_name(r->lowest);
	note_formats(r, p);
	r->cast_bytes = ht_casts_bytes(&report->data);
	ht_buf_init(&b, &report->w.arena);
	put_types(&b, &report->data.decisions);
	text = ht_buf_str(&b);
	r->decisions = ht_hash_bytes(text.p, text.n);
	ht_report_free(report);
}
