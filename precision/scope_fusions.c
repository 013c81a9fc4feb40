/* enable_scope_fusion_passes: the vendor's fusions that are recognised by name scopes, by name.
 *
 * General ones are on without being named; naming them is permitted.  None of the others has a
 * counterpart here: they are known, and reported. */
#include "precision/policy.h"

static const struct scope {
	const char *name;
	bool general;
	const char *ours;
} scopes[] = {
#define SCOPE(name, general, ours) { name, general, ours },
#include "precision/scopes.def"
#undef SCOPE
};

static const struct scope *scope_named(struct ht_str name)
{
	for (size_t i = 0; i < HT_COUNT(scopes); i++)
		if (ht_str_is(name, scopes[i].name))
			return &scopes[i];
	return NULL;
}

static enum ht_status unknown(struct ht_parse *p, struct ht_str name, const char *option)
{
	struct ht_str names[HT_COUNT(scopes)], near[3];
	struct ht_buf b;
	int n;

	for (size_t i = 0; i < HT_COUNT(scopes); i++)
		names[i] = ht_str(scopes[i].name);
	n = ht_near_names(name, names, HT_COUNT(scopes), near);
	ht_buf_init(&b, p->arena);
	ht_printf(&b, "%s: there is no scope fusion '%.*s'", option, HT_STR_ARG(name));
	for (int i = 0; i < n; i++)
		ht_printf(&b, "%s'%.*s'%s", i ? " or " : "; did you mean ", HT_STR_ARG(near[i]),
			i + 1 < n ? "" : "?");
	if (!p->lenient)
		return ht_error(p->diags, HT_E_USAGE, HT_NOWHERE, "%s", ht_buf_str(&b).p);
	ht_warn(p->diags, HT_NOWHERE, "%s", ht_buf_str(&b).p);
	return HT_OK;
}

enum ht_status ht_scope_fusions_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	for (size_t i = 0, end; i < text.n; i = end + 1) {
		struct ht_str name;
		bool old;

		for (end = i; end < text.n && text.p[end] != ',';)
			end++;
		name = ht_trim((struct ht_str){ text.p + i, end - i });
		if (name.n && !scope_named(name))
			HT_TRY(unknown(p, name, out->option));
		else if (name.n)
			ht_rules_add(out, p->arena, name, true, 0, &old)->on = true;
	}
	return HT_OK;
}

const char *ht_scope_fusion_note(const struct ht_rule *rule)
{
	const struct scope *s = scope_named(rule->name);

	if (!s->ours)
		return "no counterpart here: no op of ours is what it makes";
	return s->general ? "is on in any case" : "on";
}
