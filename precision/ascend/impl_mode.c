/* op_precision_mode: how kernels compute, by node and by op type:
 *
 *   [ByNodeName]          [ByOpType]
 *   a/matmul=high_precision   Exp=high_performance
 *
 * Lines before any section are about op types; the first line about a name counts.  The vendor's
 * reader skips lines that it does not understand; here such a line is an error, or a warning
 * with `lenient`. */
#include "precision/policy.h"

#include <string.h>

/* Adds an error, or a warning if the file is read leniently. */
static enum ht_status refuse(
	struct ht_parse *p, long line, const char *what, struct ht_str found, const char *legal)
{
	if (!p->lenient)
		return ht_error(p->diags, HT_E_INPUT, ht_at_line(p->path, line), "%s '%.*s'; %s",
			what, HT_STR_ARG(found), legal);
	ht_warn(p->diags, ht_at_line(p->path, line), "%s '%.*s', skipped; %s", what,
		HT_STR_ARG(found), legal);
	return HT_OK;
}

static enum ht_status parse_entry(
	struct ht_parse *p, struct ht_str s, long line, bool is_type, struct ht_rules *out)
{
	const char *equals = memchr(s.p, '=', s.n);
	struct ht_str key = ht_trim((struct ht_str){ s.p, (size_t)(equals - s.p) });
	struct ht_str value =
		ht_trim((struct ht_str){ equals + 1, s.n - (size_t)(equals + 1 - s.p) });
	enum ht_impl impl = ht_impl_named(value);
	struct ht_rule *r;
	bool old;

	if (!key.n || !value.n)
		return refuse(p, line, "half of an entry is missing:", s, "an entry is NAME=MODE");
	if (impl == HT_IMPL_NONE)
		return refuse(p, line, "there is no mode", value,
			"there are high_performance, high_precision, super_performance, keep_fp16, "
			"support_out_of_bound_index, enable_float_32_execution, "
			"enable_hi_float_32_execution and norm_class");
	r = ht_rules_add(out, p->arena, key, is_type, line, &old);
	if (old)
		ht_warn(p->diags, ht_at_line(p->path, line),
			"'%.*s' stands in line %ld already, which counts", HT_STR_ARG(key),
			r->line);
	else
		r->impl = impl;
	return HT_OK;
}

struct sections {
	struct ht_parse *parse;
	struct ht_rules *rules;
	bool is_type;
};

static enum ht_status parse_line(void *self, struct ht_str line, long number)
{
	struct sections *s = self;

	if (memchr(line.p, '=', line.n))
		return parse_entry(s->parse, line, number, s->is_type, s->rules);
	if (ht_str_is(line, "[ByNodeName]"))
		s->is_type = false;
	else if (ht_str_is(line, "[ByOpType]"))
		s->is_type = true;
	else
		return refuse(s->parse, number, "there is no section", line,
			"there are [ByNodeName] and [ByOpType]; an entry is NAME=MODE");
	return HT_OK;
}

enum ht_status ht_impl_parse(struct ht_parse *p, struct ht_str text, struct ht_rules *out)
{
	return ht_each_line(p, text, parse_line, &(struct sections){ p, out, true });
}
