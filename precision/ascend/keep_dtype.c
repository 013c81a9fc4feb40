/* keep_dtype: one node name or "OpType::Type" a line.  Blank lines, and lines that begin with #,
 * are ignored. */
#include "precision/policy.h"

static bool is_type_name(struct ht_str s)
{
	size_t i = ht_str_starts(s, "_");

	if (i == s.n || s.p[i] < 'A' || s.p[i] > 'Z')
		return false;
	for (; i < s.n; i++)
		if (!((s.p[i] >= 'A' && s.p[i] <= 'Z') || (s.p[i] >= 'a' && s.p[i] <= 'z') ||
			    (s.p[i] >= '0' && s.p[i] <= '9')))
			return false;
	return true;
}

struct keep {
	struct ht_parse *parse;
	struct ht_rules *rules;
};

static enum ht_status parse_line(void *self, struct ht_str s, long line)
{
	struct keep *k = self;
	struct ht_parse *p = k->parse;
	bool is_type = ht_str_starts(s, "OpType::"), old;

	if (is_type)
		s = ht_trim((struct ht_str){ s.p + 8, s.n - 8 });
	if (is_type && !is_type_name(s))
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, line),
			"'%.*s' is no op type; OpType:: is followed by a name like MatMul",
			HT_STR_ARG(s));
	ht_rules_add(k->rules, p->arena, s, is_type, line, &old);
	if (old)
		ht_warn(p->diags, ht_at_line(p->path, line), "'%.*s' stands here already",
			HT_STR_ARG(s));
	return HT_OK;
}

enum ht_status ht_keep_dtype_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	return ht_each_line(p, text, parse_line, &(struct keep){ p, out });
}
