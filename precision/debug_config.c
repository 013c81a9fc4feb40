/* Which files the compilation of kernels writes, and how kernels are compiled for debugging:
 * op_debug_level, op_debug_config. */
#include "precision/precision.h"

#include <string.h>

static const struct ht_kernel_debug by_level[] = {
	[1] = { HT_LEAVE_OBJECT | HT_LEAVE_SOURCE | HT_LEAVE_LOCATIONS, true, false },
	[2] = { HT_LEAVE_OBJECT | HT_LEAVE_SOURCE | HT_LEAVE_LOCATIONS, true, true },
	[3] = { HT_LEAVE_OBJECT, false, false },
	[4] = { HT_LEAVE_OBJECT | HT_LEAVE_SOURCE | HT_LEAVE_COMPUTE, false, false },
};

/* ---- the file ---- */

static const struct item {
	const char *name;
	struct ht_kernel_debug asks;
} items[] = {
	{ "dump_cce", { HT_LEAVE_OBJECT | HT_LEAVE_SOURCE, false, false } },
	{ "dump_loc", { HT_LEAVE_OBJECT | HT_LEAVE_SOURCE | HT_LEAVE_LOCATIONS, true, false } },
	{ "ccec_O0", { 0, true, true } },
	{ "ccec_g", { 0, true, false } },
	{ "oom", { 0, false, false } },
	{ "check_flag", { 0, false, false } },
};

struct reading {
	struct ht_parse *p;
	struct ht_debug_config *out;
	long line;
};

static void add(struct ht_kernel_debug *to, struct ht_kernel_debug more)
{
	to->leaves |= more.leaves;
	to->lines |= more.lines;
	to->plain |= more.plain;
}

static enum ht_status take_item(struct reading *r, struct ht_str name)
{
	const struct item *i = items;
	const struct item *const end = items + HT_COUNT(items);

	while (i < end && !ht_str_is(name, i->name))
		i++;
	if (i == end)
		return ht_error(r->p->diags, HT_E_INPUT, ht_at_line(r->p->path, r->line),
			"'%.*s' is none of oom, dump_cce, dump_loc, ccec_O0, ccec_g, check_flag",
			HT_STR_ARG(name));
	r->out->stated = true;
	add(&r->out->asks, i->asks);
	r->out->oom |= !strcmp(i->name, "oom");
	if (!strcmp(i->name, "oom"))
		ht_note(r->p->diags, ht_at_line(r->p->path, r->line),
			"oom has no effect on the compilation; halftone run --guard finds accesses outside of tensors");
	else if (!strcmp(i->name, "check_flag"))
		ht_note(r->p->diags, ht_at_line(r->p->path, r->line),
			"check_flag has no effect: kernels have no pipelines to synchronise");
	return HT_OK;
}

static enum ht_status take_op(struct reading *r, struct ht_str name)
{
	const bool is_type = ht_str_starts(name, "OpType::");
	bool old;

	if (is_type)
		name = (struct ht_str){ name.p + 8, name.n - 8 };
	if (!name.n)
		return ht_error(r->p->diags, HT_E_INPUT, ht_at_line(r->p->path, r->line),
			"op_debug_list: OpType:: without a type");
	ht_rules_add(&r->out->only, r->p->arena, name, is_type, r->line, &old);
	return HT_OK;
}

static enum ht_status take_each(struct reading *r, struct ht_str rest,
	enum ht_status (*take)(struct reading *, struct ht_str))
{
	while (rest.n) {
		const char *comma = memchr(rest.p, ',', rest.n);
		const size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
		struct ht_str one = ht_trim((struct ht_str){ rest.p, n });

		if (!one.n || n + 1 == rest.n)
			return ht_error(r->p->diags, HT_E_INPUT, ht_at_line(r->p->path, r->line),
				"nothing between two commas, or behind the last one");
		HT_TRY(take(r, one));
		rest = comma ? (struct ht_str){ comma + 1, rest.n - n - 1 } : (struct ht_str){ 0 };
	}
	return HT_OK;
}

static enum ht_status take_line(void *self, struct ht_str line, long number)
{
	struct reading *r = self;
	const char *is = memchr(line.p, '=', line.n);
	struct ht_str key, value;

	r->line = number;
	if (!is)
		return ht_error(r->p->diags, HT_E_INPUT, ht_at_line(r->p->path, number),
			"a line without '=': it has the form op_debug_config=dump_cce,dump_loc or op_debug_list=NAME,OpType::TYPE");
	key = ht_trim((struct ht_str){ line.p, (size_t)(is - line.p) });
	value = ht_trim((struct ht_str){ is + 1, (size_t)(line.p + line.n - is - 1) });
	if (!value.n)
		return ht_error(r->p->diags, HT_E_INPUT, ht_at_line(r->p->path, number),
			"'%.*s' without a value", HT_STR_ARG(key));
	if (ht_str_is(key, "op_debug_config"))
		return take_each(r, value, take_item);
	if (ht_str_is(key, "op_debug_list"))
		return take_each(r, value, take_op);
	return ht_error(r->p->diags, HT_E_INPUT, ht_at_line(r->p->path, number),
		"'%.*s' is neither op_debug_config nor op_debug_list", HT_STR_ARG(key));
}

enum ht_status ht_debug_config_parse(
	struct ht_parse *p, struct ht_str text, struct ht_debug_config *out)
{
	struct reading r = { .p = p, .out = out };

	memset(out, 0, sizeof *out);
	ht_rules_init(&out->only, "op_debug_config", p->path, p->arena);
	return ht_each_line(p, text, take_line, &r);
}

/* ---- the effect of the options ---- */

bool ht_policy_debugs(const struct ht_policy *p)
{
	return p->debug_level || p->debug_config.stated;
}

/* Whether op_debug_list names the node, or its type by TensorFlow's or the vendor's name;
 * without a list, every node counts. */
static bool is_listed(const struct ht_policy *p, struct ht_str node, struct ht_str type)
{
	const struct ht_rules *only = &p->debug_config.only;

	return !only->n || ht_map_get(&only->nodes, node) || ht_map_get(&only->types, type) ||
	       (p->profile && ht_map_get(&only->types, ht_profile_vendor_type(p->profile, type)));
}

struct ht_kernel_debug ht_policy_debug(
	const struct ht_policy *p, struct ht_str node, struct ht_str type)
{
	struct ht_kernel_debug d = by_level[p->debug_level];

	if (p->debug_config.stated && is_listed(p, node, type))
		add(&d, p->debug_config.asks);
	return d;
}

enum ht_status ht_policy_debug_check(const struct ht_policy *p, struct ht_diags *d)
{
	if (p->debug_level != 2 || !p->debug_config.oom)
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"op_debug_level 2 and oom of op_debug_config cannot be given at the same time");
}
