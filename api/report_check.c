/* Whether a decision is worse than an earlier one: new-cast, lower-precision, cost+N%. */
#include "api/report_diff.h"

#include <math.h>
#include <string.h>

struct checking {
	struct ht_report *before, *after;
	const char *conditions;
	struct ht_diags *d;
	struct ht_difference x;
	enum ht_status verdict;
};

static void failed(struct checking *k, const char *text)
{
	k->verdict = ht_error(k->d, HT_E_VERDICT, HT_NOWHERE, "%s", text);
}

static void check_casts(struct checking *k, struct ht_arena *a)
{
	const struct ht_cast_list *new = &k->x.appear;

	if (new->n)
		failed(k, ht_str_printf(a, "new-cast: %zu, the first is '%.*s' of '%.*s' to %s",
				  new->n, HT_STR_ARG(new->cast[0]->name),
				  HT_STR_ARG(new->cast[0]->source),
				  ht_dtype_info(new->cast[0]->to)->name)
				  .p);
}

static int precision(enum ht_dtype t)
{
	return ht_dtype_info(t)->mantissa;
}

/* Fewer bits of mantissa than before; for a new unit, than in the graph. */
static void check_precision(struct checking *k, struct ht_arena *a)
{
	const struct ht_unit_pair *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < k->x.units; i++) {
		const struct ht_unit_pair *u = &k->x.unit[i];
		enum ht_dtype was = u->before  ? ht_effective_dtype(u->before)
				    : u->after ? u->after->from
					       : HT_INVALID;
		if (!u->after || precision(ht_effective_dtype(u->after)) >= precision(was))
			continue;
		first = first ? first : u;
		n++;
	}
	if (first)
		failed(k, ht_str_printf(a,
				  "lower-precision: %zu units, the first is %.*s of '%.*s': %s", n,
				  HT_STR_ARG(first->after->attr), HT_STR_ARG(first->node),
				  ht_dtype_info(ht_effective_dtype(first->after))->name)
				  .p);
}

static enum ht_status check_cost(struct checking *k, double percent, struct ht_arena *a)
{
	int64_t was = k->before->data.price, is = k->after->data.price;
	struct ht_buf b;

	if (was < 0 || is < 0)
		return ht_error(k->d, HT_E_UNSUPPORTED, HT_NOWHERE,
			"cost: %s report has no modelled price to compare",
			was < 0 ? "the earlier" : "the new");
	if (!ht_str_eq(k->before->data.target, k->after->data.target))
		return ht_error(k->d, HT_E_USAGE, HT_NOWHERE,
			"cost: the earlier report has prices of %.*s, the new one of %.*s; --target "
			"states which",
			HT_STR_ARG(k->before->data.target), HT_STR_ARG(k->after->data.target));
	if ((double)is <= (double)was * (1 + percent / 100))
		return HT_OK;
	ht_buf_init(&b, a);
	ht_puts(&b, "cost: modelled ");
	ht_put_ms(&b, is);
	ht_puts(&b, " after ");
	ht_put_ms(&b, was);
	ht_printf(&b, ", more than ");
	ht_put_double(&b, percent);
	ht_puts(&b, "% more");
	failed(k, ht_buf_str(&b).p);
	return HT_OK;
}

/* "cost", "cost+5%" */
static bool is_cost(struct ht_str s, double *percent)
{
	*percent = 0;
	if (ht_str_is(s, "cost"))
		return true;
	return ht_str_starts(s, "cost+") && ht_str_ends(s, "%") &&
	       ht_parse_double((struct ht_str){ s.p + 5, s.n - 6 }, percent) &&
	       isfinite(*percent) && *percent >= 0;
}

static enum ht_status check_one(struct checking *k, struct ht_str s, struct ht_arena *a)
{
	double percent;

	if (ht_str_is(s, "new-cast"))
		check_casts(k, a);
	else if (ht_str_is(s, "lower-precision"))
		check_precision(k, a);
	else if (is_cost(s, &percent))
		return check_cost(k, percent, a);
	else
		return ht_error(k->d, HT_E_USAGE, HT_NOWHERE,
			"'%.*s' is no condition; there are new-cast, lower-precision, cost and cost+5%%",
			HT_STR_ARG(s));
	return HT_OK;
}

static enum ht_status check(void *arg)
{
	struct checking *k = arg;
	struct ht_arena *a = &k->after->w.scratch;
	const char *p = k->conditions;

	ht_difference_find(&k->x, &k->before->data, &k->after->data, a);
	for (bool last = false; !last; p++) {
		struct ht_str s = { p, strcspn(p, ",") };
		HT_TRY(check_one(k, s, a));
		p += s.n;
		last = !*p;
	}
	return k->verdict;
}

enum ht_status ht_report_check(struct ht_report *before, struct ht_report *after,
	const char *conditions, struct ht_diags *d)
{
	struct checking k = {
		.before = before, .after = after, .conditions = conditions, .d = d, .verdict = HT_OK
	};
	enum ht_status st = ht_guarded(&after->w.unwind, check, &k, d);

	ht_arena_release(&after->w.scratch);
	return st;
}
