/* The painter's options: changes to the four lists, and the level. */
#include "precision/grappler/options.h"

#include <string.h>

static const char *const list_names[HT_LIST_END] = { [HT_LIST_ALLOW] = "allowlist",
	[HT_LIST_INFER] = "inferlist",
	[HT_LIST_DENY] = "denylist",
	[HT_LIST_CLEAR] = "clearlist" };

static const char *const level_names[] = { [HT_LEVEL_NORMAL] = "normal",
	[HT_LEVEL_TENSOR_CORES_ONLY] = "tensor_cores_only",
	[HT_LEVEL_FORCE_ALL] = "unsafe_force_all",
	[HT_LEVEL_INFER_AS_DENY] = "treat_infer_as_deny" };

static enum ht_status unknown_op(struct ht_str name, const char *key, struct ht_diags *d)
{
	struct ht_str words[HT_TF_MAX_OPS], near[3];

	for (size_t i = 0; i < ht_tf_op_count; i++)
		words[i] = ht_str(ht_tf_ops[i].name);
	if (ht_near_names(name, words, ht_tf_op_count, near))
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"%s: TensorFlow has no op '%.*s'; did you mean '%.*s'?", key,
			HT_STR_ARG(name), HT_STR_ARG(near[0]));
	return ht_error(d, HT_E_USAGE, HT_NOWHERE, "%s: TensorFlow has no op '%.*s'", key,
		HT_STR_ARG(name));
}

static struct ht_str trimmed(struct ht_str s)
{
	while (s.n && strchr(" \t\n", s.p[0]))
		s.p++, s.n--;
	while (s.n && strchr(" \t\n", s.p[s.n - 1]))
		s.n--;
	return s;
}

static enum ht_status edit(
	uint8_t *set, enum ht_paint_list list, const char *key, const char *ops, struct ht_diags *d)
{
	for (;; ops++) {
		size_t n = strcspn(ops, ",");
		struct ht_str name = trimmed((struct ht_str){ ops, n });
		const struct ht_tf_op *op = name.n ? ht_tf_op_named(name) : NULL;
		if (name.n && !op)
			return unknown_op(name, key, d);
		if (op)
			set[op - ht_tf_ops] |= (uint8_t)(1u << list);
		ops += n;
		if (!*ops)
			return HT_OK;
	}
}

static enum ht_status set_level(
	struct ht_grappler_options *o, const char *value, struct ht_diags *d)
{
	for (size_t i = 0; i < HT_COUNT(level_names); i++) {
		if (strcmp(value, level_names[i]))
			continue;
		o->level = (enum ht_grappler_level)i;
		return HT_OK;
	}
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"there is no level '%s'; it is normal, tensor_cores_only, unsafe_force_all or "
		"treat_infer_as_deny",
		value);
}

static enum ht_status edit_list(
	struct ht_grappler_options *o, const char *key, const char *value, struct ht_diags *d)
{
	enum ht_paint_list l = HT_LIST_ALLOW;

	while (strncmp(key, list_names[l], strlen(list_names[l])))
		l++;
	return edit(strstr(key, "_add") ? o->added : o->removed, l, key, value, d);
}

enum ht_status ht_grappler_option(
	struct ht_grappler_options *o, const char *key, const char *value, struct ht_diags *d)
{
	bool level = !strcmp(key, "grappler_level");

	HT_TRY(level ? set_level(o, value, d) : edit_list(o, key, value, d));
	if (level && o->level == HT_LEVEL_NORMAL) {
		/* The default value requests nothing. */
		if (o->option && !strcmp(o->option, key))
			o->option = NULL;
	} else if (!o->option) {
		o->option = key;
	}
	return HT_OK;
}

/* Bit set of the lists that have the op after the changes. */
static unsigned lists_of(
	const struct ht_grappler_options *o, enum ht_grappler_mode mode, size_t row)
{
	const struct ht_tf_op *op = &ht_tf_ops[row];
	unsigned shipped = mode == HT_GRAPPLER_BF16 ? op->bf16_list : op->fp16_list;
	unsigned set = ((shipped ? 1u << shipped : 0) | o->added[row]) & ~(unsigned)o->removed[row];

	if (o->level == HT_LEVEL_TENSOR_CORES_ONLY && mode != HT_GRAPPLER_BF16)
		set &= 1u << HT_LIST_ALLOW;
	if (o->level == HT_LEVEL_INFER_AS_DENY && set & 1u << HT_LIST_INFER)
		set = (set & ~(1u << HT_LIST_INFER)) | 1u << HT_LIST_DENY;
	return set;
}

static enum ht_status conflict(const char *op, unsigned set, struct ht_diags *d)
{
	const char *names[2] = { "", "" };
	int n = 0;

	for (enum ht_paint_list l = HT_LIST_ALLOW; l < HT_LIST_END && n < 2; l++)
		if (set & 1u << l)
			names[n++] = list_names[l];
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"op '%s' is on the %s and on the %s; remove it from one of them", op, names[0],
		names[1]);
}

/* With these ops, a change of the type attribute does not change a constant's value or a
 * function's signature: TensorFlow itself then writes graphs that do not run. */
static enum ht_status check_added(
	const struct ht_grappler_options *o, size_t row, struct ht_diags *d)
{
	const struct ht_tf_op *op = &ht_tf_ops[row];

	if (!(o->added[row] & ~(1u << HT_LIST_DENY)))
		return HT_OK;
	if (!op->functions && strcmp(op->name, "Const"))
		return HT_OK;
	return ht_error(d, HT_E_USAGE, HT_NOWHERE,
		"op '%s' cannot go low by its type attribute alone; it can be on the denylist only",
		op->name);
}

enum ht_status ht_grappler_lists(const struct ht_grappler_options *o, enum ht_grappler_mode mode,
	struct ht_arena *a, struct ht_diags *d, uint8_t **list)
{
	if (o->level == HT_LEVEL_FORCE_ALL && mode == HT_GRAPPLER_BF16)
		return ht_error(d, HT_E_USAGE, HT_NOWHERE,
			"level unsafe_force_all is for the float16 policies only");
	*list = HT_NEW_ARRAY(a, uint8_t, ht_tf_op_count);
	for (size_t i = 0; i < ht_tf_op_count; i++) {
		unsigned set = lists_of(o, mode, i);
		if (mode != HT_GRAPPLER_FP16_CPU)
			HT_TRY(check_added(o, i, d));
		if (set & (set - 1))
			return conflict(ht_tf_ops[i].name, set, d);
		while (set > 1u << (*list)[i])
			(*list)[i]++;
	}
	return HT_OK;
}
