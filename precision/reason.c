/* The texts of reasons. */
#include "precision/reason.h"

const struct ht_dtype_reason ht_dtype_reasons[HT_BY_END] = {
#define REASON(id, text) { HT_BY_##id, { "" text, sizeof(text) - 1 } },
#include "precision/reasons.def"
#undef REASON
};

const struct ht_dtype_reason *ht_reason_new(enum ht_by by, struct ht_str text, struct ht_arena *a)
{
	struct ht_dtype_reason *r = HT_NEW(a, struct ht_dtype_reason);

	*r = (struct ht_dtype_reason){ by, text };
	return r;
}

const struct ht_dtype_reason *ht_reason_follows(struct ht_str node, struct ht_arena *a)
{
	return ht_reason_new(HT_BY_FOLLOWS,
		ht_str_printf(a, "%s%.*s", HT_BY(FOLLOWS)->text.p, HT_STR_ARG(node)), a);
}

const struct ht_dtype_reason *ht_reason_of_text(struct ht_str text, struct ht_arena *a)
{
	for (int by = 0; by < HT_BY_TEXT; by++)
		if (by != HT_BY_FOLLOWS && ht_str_eq(text, ht_dtype_reasons[by].text))
			return &ht_dtype_reasons[by];
	return ht_reason_new(HT_BY_TEXT, text, a);
}
