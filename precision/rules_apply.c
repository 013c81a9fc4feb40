/* Applies rules of option files to a node: its class, its remaining columns, whether it keeps
 * its dtypes. */
#include "precision/precision.h"

const struct ht_op_record *ht_record_of(const struct ht_precision *p, const struct ht_node *n)
{
	const struct ht_ops_info *info = ht_read(p->policy, HT_READ_ops_info)->ops_info;
	const struct ht_op_record *r;

	if (!info)
		return NULL;
	r = ht_map_get(&info->types, ht_profile_vendor_type(p->profile, n->type));
	return r ? r : ht_map_get(&info->types, n->type);
}

/* The class of a type, which was `c` before the changes.  On a machine that decides like the
 * vendor's code, adding a type to the gray list alone has no effect. */
static enum ht_class edited(struct ht_precision *p, unsigned mix, enum ht_class c)
{
	if ((c == HT_CLASS_BLACK && (mix & HT_MIX_REMOVE_BLACK)) ||
		(c == HT_CLASS_WHITE && (mix & HT_MIX_REMOVE_WHITE)) ||
		(p->profile->manual && (mix & HT_MIX_ADD_GRAY)))
		c = HT_CLASS_GRAY;
	if (mix & HT_MIX_ADD_BLACK)
		return HT_CLASS_BLACK;
	return mix & HT_MIX_ADD_WHITE ? HT_CLASS_WHITE : c;
}

enum ht_class ht_class_of(struct ht_precision *p, const struct ht_node *n, const char **list)
{
	enum ht_class c = ht_profile_class(p->profile, n, list), to;
	const struct ht_op_record *record = ht_record_of(p, n);
	const struct ht_rule *r = ht_rule_of_type(p, HT_RULES_MIX, n->type);
	struct ht_rule_use *use;

	if (record) {
		c = record->flag < 0 ? HT_CLASS_GRAY
		    : record->flag   ? HT_CLASS_WHITE
				     : HT_CLASS_BLACK;
		*list = record->where;
	}
	if (!r)
		return c;
	use = ht_use_of(p, HT_RULES_MIX, r);
	use->nodes++;
	to = c == HT_CLASS_UNKNOWN ? c : edited(p, r->mix, c);
	if (c == to && !use->why)
		use->why = c == HT_CLASS_WHITE   ? "its class is white and stays so"
			   : c == HT_CLASS_BLACK ? "its class is black and stays so"
			   : c == HT_CLASS_GRAY  ? "its class is gray and stays so"
						 : "the profile does not know the type";
	if (c == to)
		return to;
	*list = r->where;
	ht_rule_acts(p, HT_RULES_MIX, r, n);
	if (!use->did)
		use->did = ht_str_printf(
			p->arena, "from %s to %s", ht_class_name(c), ht_class_name(to))
				   .p;
	return to;
}

static bool narrow_side(
	struct ht_choice *c, const struct ht_node *n, bool result, const uint8_t *dtype, int dtypes)
{
	int32_t tensors = result ? n->outs : n->ins;

	for (int32_t i = 0; i < tensors && i < dtypes; i++) {
		int formal = result ? ht_formal_of_result(n, i) : ht_formal_of_arg(n, i);
		struct ht_tensor_of of = { result, formal };
		if (dtype[i] != HT_INVALID && formal >= 0 &&
			!ht_narrow_columns(c, of, (enum ht_dtype)dtype[i]))
			return false;
	}
	return true;
}

static void put_column(const struct ht_node *n, const struct ht_column *c, struct ht_buf *b)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	for (int i = 0; i < info->args; i++)
		ht_printf(b, "%s%s", i ? "," : "", ht_dtype_info((enum ht_dtype)c->arg[i])->name);
	ht_puts(b, " -> ");
	for (int i = 0; i < info->results; i++)
		ht_printf(
			b, "%s%s", i ? "," : "", ht_dtype_info((enum ht_dtype)c->result[i])->name);
}

static enum ht_status no_kernel(
	struct ht_precision *p, const struct ht_node *n, const struct ht_rule *r)
{
	const struct ht_choice *c = &p->choice[n->id];
	struct ht_where at = ht_at_line(p->policy->rules[HT_RULES_CUSTOM].path, r->line);
	struct ht_buf b;

	at.node = n->name;
	at.op = n->type;
	ht_buf_init(&b, p->arena);
	for (int i = 0; i < c->columns; i++) {
		ht_puts(&b, i ? "; " : "");
		put_column(n, &c->column[i], &b);
	}
	return ht_error(p->diags, HT_E_UNSUPPORTED, at,
		"customize_dtypes: the dtypes do not match a kernel; there are %s",
		ht_buf_str(&b).p);
}

/* A rule has no effect on a node that policies do not judge, such as an op with effects; the
 * report says so. */
static enum ht_status customize(struct ht_precision *p, struct ht_node *n)
{
	const struct ht_rule *r = ht_rule_of(p, HT_RULES_CUSTOM, n);
	struct ht_choice *c = &p->choice[n->id];
	struct ht_rule_use *use;

	if (!r)
		return HT_OK;
	use = ht_use_of(p, HT_RULES_CUSTOM, r);
	use->nodes++;
	if (!ht_policy_customizes(p->policy)) {
		use->why = "the mode keeps every dtype";
		return HT_OK;
	}
	if (!c->columns) {
		use->why = "policies do not judge it";
		return HT_OK;
	}
	if (!narrow_side(c, n, false, r->in, r->ins) || !narrow_side(c, n, true, r->out, r->outs))
		return no_kernel(p, n, r);
	ht_rule_acts(p, HT_RULES_CUSTOM, r, n);
	c->by = r;
	return HT_OK;
}

enum ht_status ht_customize_apply(struct ht_precision *p)
{
	enum ht_status st = HT_OK;

	if (!p->policy->rules[HT_RULES_CUSTOM].n)
		return HT_OK;
	for (struct ht_node *n = p->graph->first; n; n = n->next) {
		enum ht_status one = customize(p, n);
		st = st == HT_OK ? one : st;
	}
	return st;
}

static bool has_attribute(const struct ht_node *n)
{
	return n && ht_attr_int(n, "_keep_dtype", 0) == 1;
}

bool ht_keeps_dtype(struct ht_precision *p, const struct ht_node *n, const struct ht_rule *custom,
	const struct ht_rule **by)
{
	const struct ht_rule *r = ht_rule_of(p, HT_RULES_KEEP, n);

	*by = r;
	if (r) {
		struct ht_rule_use *use = ht_use_of(p, HT_RULES_KEEP, r);
		use->nodes++;
		if (!custom)
			ht_rule_acts(p, HT_RULES_KEEP, r, n);
		use->why = "customize_dtypes counts before it";
		return true;
	}
	if (has_attribute(n))
		return true;
	for (int32_t i = 0; i < n->origins; i++)
		if (has_attribute(ht_graph_node(p->imported, n->origin[i])))
			return true;
	return false;
}
