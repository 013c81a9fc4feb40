/* Complete reports: the decision for every float unit, the rule that decided it, and why it has
 * none of the other dtypes.  Reasons are determined only if a complete report is asked for. */
#include "precision/calls.h"
#include "precision/optimal/optimal.h"
#include "precision/precision.h"
#include "precision/presets/preset.h"

enum ht_dtype ht_asked_dtype(enum ht_asked a)
{
	static const enum ht_dtype dtype[] = {
		[HT_ASKED_F32] = HT_F32, [HT_ASKED_F16] = HT_F16, [HT_ASKED_BF16] = HT_BF16
	};

	return dtype[a];
}

enum ht_asked ht_asked_of(enum ht_dtype t)
{
	int a = 0;

	while (a < HT_ASKED_END && ht_asked_dtype((enum ht_asked)a) != t)
		a++;
	return (enum ht_asked)a;
}

/* ---- units of a node ---- */

static bool next_item(const struct ht_attr *a, struct ht_arena *arena, struct ht_float_unit *u)
{
	while (++u->item < (int)a->value.list.n) {
		const struct ht_attr_value *v = &a->value.list.item[u->item];
		if (v->kind != HT_ATTR_TYPE || !ht_is_float(v->type))
			continue;
		u->dtype = v->type;
		u->name = ht_str_printf(arena, "%.*s[%d]", HT_STR_ARG(a->name), u->item);
		return true;
	}
	u->item = -1;
	return false;
}

bool ht_next_float_unit(const struct ht_node *n, struct ht_arena *a, struct ht_float_unit *u)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	if (u->attr >= 0 && u->item >= 0 &&
		next_item(ht_attr_find(n, ht_attr_name(info->type_attr[u->attr].name).s), a, u))
		return true;
	while (++u->attr < info->type_attrs) {
		struct ht_attr_name name = ht_attr_name(info->type_attr[u->attr].name);
		const struct ht_attr *attr = ht_attr_find(n, name.s);
		u->item = -1;
		if (attr && attr->value.kind == HT_ATTR_LIST) {
			if (next_item(attr, a, u))
				return true;
			continue;
		}
		u->dtype = ht_type_attr(n, name.s);
		u->name = info->type_attr[u->attr].name;
		if (ht_is_float(u->dtype))
			return true;
	}
	return false;
}

/* ---- why not ---- */

static const struct ht_dtype_reason *fixed_op(const struct ht_node *n)
{
	if (n->op == HT_OP_OPAQUE)
		return HT_BY(FIXED_UNKNOWN);
	if (ht_is(n, HT_CONSTANT))
		return HT_BY(FIXED_CONSTANT);
	if (ht_is(n, HT_FED) && !ht_is(n, HT_ARGUMENT))
		return HT_BY(FIXED_INPUT);
	if (ht_is(n, HT_VARIABLE | HT_READS_VARIABLE))
		return HT_BY(FIXED_VARIABLE);
	return ht_op_info(n->op)->effects ? HT_BY(FIXED_EFFECT) : NULL;
}

const struct ht_dtype_reason *ht_fixed_reason(
	struct ht_precision *p, const struct ht_node *n, int attr)
{
	struct ht_unit *u = ht_unit_of(p, n, attr);
	const struct ht_dtype_reason *why = fixed_op(n);

	if (why)
		return why;
	if (u->fixed)
		return HT_BY(FIXED_REFERENCE);
	if (ht_unit_root(p, u)->fixed || ht_unit_root(p, u) != u)
		return HT_BY(FIXED_LOOP);
	if (!ht_is_policy_float(u->from))
		return HT_BY(FIXED_DTYPE);
	return ht_is_judged(p, n) ? NULL : HT_BY(FIXED_OTHER);
}

static bool has_column(const struct ht_choice *c, int attr, enum ht_dtype t)
{
	for (int i = 0; i < c->columns; i++)
		if (c->column[i].dtype[attr] == t)
			return true;
	return false;
}

static const struct ht_dtype_reason *no_kernel(enum ht_dtype t)
{
	return t == HT_F16    ? HT_BY(NO_KERNEL_F16)
	       : t == HT_BF16 ? HT_BY(NO_KERNEL_BF16)
			      : HT_BY(NO_KERNEL_F32);
}

static uint8_t label_bit(enum ht_dtype t)
{
	return ht_label_bit(t == HT_F16    ? HT_LABEL_F16
			    : t == HT_BF16 ? HT_LABEL_BF16
					   : HT_LABEL_F32);
}

/* The first rule that prevented dtype `t`, of a unit that was judged. */
static const struct ht_dtype_reason *against(struct ht_precision *p, const struct ht_node *n,
	const struct ht_unit *u, const struct ht_decided_type *told, enum ht_dtype t)
{
	const struct ht_choice *c = &p->choice[n->id];
	enum ht_dtype low = ht_policy_effective(p->policy)->low;

	if (!c->columns && c->rule)
		return c->rule;
	if (c->class == HT_CLASS_UNKNOWN && !p->policy->report)
		return HT_BY(NO_LIST_OF_PROFILE);
	if (c->by || p->policy->report)
		return c->rule;
	if (!has_column(c, u->attr, t))
		return no_kernel(t);
	if (p->denied && p->denied[n->id] & label_bit(t))
		return p->denied_why[n->id];
	if (p->denied)
		return u->to == HT_F16                   ? HT_BY(CHEAPEST_F16)
		       : u->to == HT_BF16                ? HT_BY(CHEAPEST_BF16)
		       : c->rule == p->denied_why[n->id] ? HT_BY(CHEAPEST_F32)
							 : c->rule;
	if (low != HT_INVALID && ht_is_low(t) && low != t && u->from != t &&
		c->class != HT_CLASS_BLACK)
		return HT_BY(NOT_GIVEN);
	if (told->followed.n && u->to == u->from)
		return ht_reason_follows(told->followed, p->decisions->arena);
	return c->rule;
}

/* The rule that decided a unit which stays: if a white node has no low kernel, its list did not
 * keep it. */
static const struct ht_dtype_reason *binding(struct ht_precision *p, const struct ht_node *n,
	const struct ht_unit *u, const struct ht_decided_type *told)
{
	const struct ht_choice *c = &p->choice[n->id];
	enum ht_dtype low = ht_policy_effective(p->policy)->low;
	bool wants_low = low != HT_INVALID && u->from == HT_F32 && c->columns && !c->by &&
			 c->class != HT_CLASS_BLACK;

	if (!c->columns)
		return against(p, n, u, told, low);
	if (wants_low && !has_column(c, u->attr, low))
		return no_kernel(low);
	if (c->class == HT_CLASS_GRAY && !c->followed && !c->by && c->rule == HT_BY(GRAY_FOLLOWS))
		return HT_BY(GRAY_WITHOUT_PRODUCER);
	return c->rule;
}

static void give_reasons(struct ht_precision *p, const struct ht_node *n, const struct ht_unit *u,
	struct ht_decided_type *t)
{
	const struct ht_dtype_reason *fixed = ht_fixed_reason(p, n, u->attr);

	for (int a = 0; a < HT_ASKED_END; a++) {
		enum ht_dtype asked = ht_asked_dtype((enum ht_asked)a);
		if (asked != t->to)
			t->why_not[a] = fixed ? fixed : against(p, n, u, t, asked);
	}
	if (fixed) {
		t->rule = fixed;
		t->list = NULL;
	} else if (!ht_is_news(t)) {
		t->rule = binding(p, n, u, t);
	}
}

/* ---- the report ---- */

enum ht_dtype ht_rounded_operands(const struct ht_choice *c, const struct ht_unit *u)
{
	const struct ht_op_info *info = ht_op_info(u->node->op);

	for (int i = 0; c->taken && i < info->args; i++)
		if (info->arg[i].type_attr == u->attr && c->taken->arg[i] != u->to)
			return (enum ht_dtype)c->taken->arg[i];
	return HT_INVALID;
}

struct ht_str ht_reported_name(struct ht_arena *a, const struct ht_graph *g, struct ht_str name)
{
	if (!g->function || !name.n)
		return name;
	return ht_str_printf(a, "%.*s/%.*s", HT_STR_ARG(g->function->name), HT_STR_ARG(name));
}

static struct ht_decided_type *add_type(struct ht_decisions *d)
{
	d->type = ht_grow(d->arena, d->type, d->types, &d->type_cap, sizeof *d->type);
	return &d->type[d->types++];
}

struct ht_decided_type *ht_note_type(
	struct ht_precision *p, const struct ht_node *n, const struct ht_unit *u)
{
	struct ht_decisions *d = p->decisions;
	const struct ht_choice *c = &p->choice[n->id];
	struct ht_decided_type *t = add_type(d);

	*t = (struct ht_decided_type){
		.origin = n->origin,
		.origins = n->graph->function ? 0 : n->origins,
		.node = ht_reported_name(d->arena, n->graph, n->name),
		.attr = ht_op_info(n->op)->type_attr[(int)u->attr].name,
		.from = u->from,
		.to = u->to,
		.operands = ht_rounded_operands(c, u),
		.rule = c->rule,
		.list = c->list ? ht_str_copy(d->arena, ht_str(c->list)).p : NULL,
		.class = c->class,
		.stated = c->by != NULL && ht_is_policy_float(u->from),
	};
	if (c->followed)
		t->followed = ht_reported_name(d->arena, n->graph, c->followed->name);
	return t;
}

/* A unit that policies do not decide: of a list, by reference, of another float type. */
static void note_fixed(
	struct ht_precision *p, const struct ht_node *n, const struct ht_float_unit *u)
{
	struct ht_decided_type *t = add_type(p->decisions);
	const struct ht_dtype_reason *why = ht_fixed_reason(p, n, u->attr);
	enum ht_dtype to = ht_carried_dtype(&p->choice[n->id], n,
		ht_op_info(n->op)->type_attr[u->attr].name, u->item, u->dtype);

	if (to != u->dtype)
		why = HT_BY(CARRIED);

	*t = (struct ht_decided_type){
		.origin = n->origin,
		.origins = n->graph->function ? 0 : n->origins,
		.node = ht_reported_name(p->decisions->arena, n->graph, n->name),
		.attr = u->name,
		.from = u->dtype,
		.to = to,
		.rule = why,
	};
	for (int a = 0; a < HT_ASKED_END; a++)
		t->why_not[a] = ht_asked_dtype((enum ht_asked)a) == to ? NULL : why;
}

bool ht_has_floats(const struct ht_node *n, struct ht_arena *a)
{
	struct ht_float_unit u = { .attr = -1 };

	for (int32_t i = 0; i < n->outs; i++)
		if (ht_is_float(n->out[i].dtype))
			return true;
	return ht_next_float_unit(n, a, &u);
}

struct ht_decided_node *ht_note_node(
	struct ht_decisions *out, const struct ht_node *n, struct ht_str name)
{
	struct ht_decided_node *d;

	out->node = ht_grow(out->arena, out->node, out->nodes, &out->node_cap, sizeof *out->node);
	d = &out->node[out->nodes++];
	*d = (struct ht_decided_node){
		.name = name,
		.op = n->type,
		.origin = n->origin,
		.origins = n->graph->function ? 0 : n->origins,
		.first_type = out->types,
	};
	return d;
}

uint8_t *ht_note_results(
	struct ht_decisions *out, struct ht_decided_node *d, const struct ht_node *n)
{
	uint8_t *tensor = HT_NEW_ARRAY(out->arena, uint8_t, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++)
		tensor[i] = (uint8_t)(n->out[i].dtype % HT_REF);
	d->tensor = tensor;
	d->tensors = n->outs;
	return tensor;
}

/* Whether some operand or result of the kernel does not have the dtype of its type attribute. */
static bool is_uneven(const struct ht_op_arg *formal, int formals, const uint8_t *dtype,
	const struct ht_column *c)
{
	for (int i = 0; i < formals; i++)
		if (formal[i].type_attr >= 0 && dtype[i] != c->dtype[(int)formal[i].type_attr])
			return true;
	return false;
}

static void note_kernel(struct ht_decided_node *d, const struct ht_node *n,
	const struct ht_column *c, struct ht_arena *a)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	struct ht_column *copy;

	if (!c || (!is_uneven(info->arg, info->args, c->arg, c) &&
			  !is_uneven(info->result, info->results, c->result, c)))
		return;
	copy = HT_NEW(a, struct ht_column);
	*copy = *c;
	d->operand = copy->arg;
	d->operands = info->args;
	d->result = copy->result;
	d->results = info->results;
}

struct ht_decided_node *ht_note_whole_node(struct ht_precision *p, const struct ht_node *n)
{
	struct ht_decisions *out = p->decisions;
	struct ht_float_unit f = { .attr = -1 };
	struct ht_decided_node *d;

	if (!ht_has_floats(n, out->arena))
		return NULL;
	d = ht_note_node(out, n, ht_reported_name(out->arena, n->graph, n->name));
	note_kernel(d, n, p->choice[n->id].taken, out->arena);
	while (ht_next_float_unit(n, out->arena, &f)) {
		const struct ht_unit *u = ht_unit_of(p, n, f.attr);
		if (u->from == f.dtype)
			give_reasons(p, n, u, ht_note_type(p, n, u));
		else
			note_fixed(p, n, &f);
	}
	d->types = out->types - d->first_type;
	return d;
}

void ht_note_carried(struct ht_precision *p, const struct ht_node *n)
{
	struct ht_float_unit f = { .attr = -1 };

	while (ht_next_float_unit(n, p->decisions->arena, &f)) {
		const struct ht_unit *u = ht_unit_of(p, n, f.attr);
		if (u->from == f.dtype && u->to != u->from)
			ht_note_type(p, n, u);
		else if (ht_carried_dtype(&p->choice[n->id], n,
				 ht_op_info(n->op)->type_attr[f.attr].name, f.item,
				 f.dtype) != f.dtype)
			note_fixed(p, n, &f);
	}
}
