/* A report as a policy: every unit gets the dtype that the report states, and its kernel the
 * same operands and results. */
#include "precision/report/report.h"

#include "precision/calls.h"

#include <string.h>

struct applying {
	struct ht_precision *p;
	struct ht_report_use *use;
	const struct ht_node *n;
	const struct ht_decided_node *d;
	struct ht_column column;
	uint8_t *in, *out; /* of a call: dtypes by operand and by result */
	bool carried;      /* some differ from those in the graph */
};

static enum ht_status illegal(struct applying *a, long line, const char *what, enum ht_dtype t)
{
	return ht_error(a->use->diags, HT_E_INPUT, ht_report_at(a->use->report, line, a->n),
		"%s cannot be %s", what, ht_dtype_info(t)->name);
}

/* ---- units ---- */

/* A unit that the policy must not change must have its imported dtype.  Any other unit must have
 * a dtype that the op accepts. */
static enum ht_status check_unit(
	struct applying *a, const struct ht_float_unit *f, const struct ht_decided_type *t)
{
	const struct ht_op_type_attr *attr = &ht_op_info(a->n->op)->type_attr[f->attr];
	const struct ht_dtype_reason *fixed;

	if (t->to == t->from)
		return HT_OK;
	fixed = f->item < 0              ? ht_fixed_reason(a->p, a->n, f->attr)
		: ht_call_lists_of(a->n) ? NULL
					 : HT_BY(FIXED_LIST);
	if (fixed)
		return ht_error(a->use->diags, HT_E_INPUT,
			ht_report_at(a->use->report, t->line, a->n),
			"its %.*s keeps its dtype: %.*s", HT_STR_ARG(t->attr),
			HT_STR_ARG(fixed->text));
	if (ht_policy_emulation(a->p->policy, t->to))
		return attr->allowed >> HT_F32 & 1
			       ? HT_OK
			       : illegal(a, t->line, ht_attr_name(attr->name).s, t->to);
	if (!ht_is_policy_float(t->to) || !(attr->allowed >> t->to & 1))
		return illegal(a, t->line, ht_attr_name(attr->name).s, t->to);
	return HT_OK;
}

static void take_item(struct applying *a, int attr, int item, const struct ht_decided_type *t)
{
	const struct ht_call_lists *l = ht_call_lists_of(a->n);
	struct ht_str name = ht_op_info(a->n->op)->type_attr[attr].name;

	if (!l || t->to == t->from)
		return;
	a->carried = true;
	if (ht_str_is(name, l->in))
		a->in[l->first + item] = (uint8_t)t->to;
	if (ht_str_is(name, l->out))
		a->out[item] = (uint8_t)t->to;
}

/* Starts with the dtypes in the graph. */
static void start_call(struct applying *a)
{
	a->in = HT_NEW_ARRAY(a->p->arena, uint8_t, (size_t)a->n->ins);
	a->out = HT_NEW_ARRAY(a->p->arena, uint8_t, (size_t)a->n->outs);
	for (int32_t i = 0; i < a->n->ins; i++)
		a->in[i] =
			(uint8_t)(a->n->in[i].port.n ? HT_INVALID : ht_type_of(a->n->in[i])->dtype);
	for (int32_t i = 0; i < a->n->outs; i++)
		a->out[i] = (uint8_t)a->n->out[i].dtype;
}

static enum ht_status apply_units(struct applying *a)
{
	struct ht_float_unit f = { .attr = -1 };
	const struct ht_decided_type *t;

	if (!a->d && a->use->report->partial)
		return HT_OK;
	while (ht_next_float_unit(a->n, a->p->arena, &f)) {
		HT_TRY(ht_report_use_unit(a->use, a->n, a->d, f.name, f.dtype, &t));
		HT_TRY(check_unit(a, &f, t));
		if (f.item < 0)
			a->column.dtype[f.attr] = t->to;
		else
			take_item(a, f.attr, f.item, t);
	}
	return HT_OK;
}

/* ---- edges of calls ---- */

/* Values whose dtypes the report does not state keep those of the graph. */
static enum ht_status apply_call(struct applying *a)
{
	if (!a->carried || ht_calls_state(a->p, a->n, a->in, a->out))
		return HT_OK;
	return ht_error(a->use->diags, HT_E_INPUT, ht_report_at(a->use->report, a->d->line, a->n),
		"its edges keep their dtypes: a function that it calls has other callers");
}

/* An argument of a body has the dtype of the caller's operand. */
static enum ht_status apply_argument(struct applying *a)
{
	const struct ht_function *f = a->p->graph->function;
	const uint8_t *in = ht_calls_stated(a->p->calls, f, false);
	struct ht_unit *u = ht_unit_of(a->p, a->n, 0);
	enum ht_dtype passed = u->from;

	for (const struct ht_port *arg = f->args; in && arg; arg = arg->next, in++)
		if (arg->value.node == a->n)
			passed = (enum ht_dtype) * in;
	if (ht_is_policy_float(u->from) && a->column.dtype[0] != passed)
		return ht_error(a->use->diags, HT_E_INPUT,
			ht_report_at(a->use->report, a->d->line, a->n),
			"the argument is %s; its caller passes %s",
			ht_dtype_info(a->column.dtype[0])->name, ht_dtype_info(passed)->name);
	u->to = a->column.dtype[0];
	return HT_OK;
}

/* ---- operands and results of the kernel ---- */

/* A formal has its attribute's dtype, or a narrower one if the attribute is float32. */
static enum ht_status check_formal(
	struct applying *a, const struct ht_op_arg *formal, enum ht_dtype t, enum ht_dtype attr)
{
	if (t == attr || (formal->type_attr >= 0 && attr == HT_F32 && ht_is_policy_float(t)))
		return HT_OK;
	return illegal(a, a->d->line, "an operand or result of its kernel", t);
}

static enum ht_status apply_side(struct applying *a, bool result)
{
	const struct ht_op_info *info = ht_op_info(a->n->op);
	const struct ht_op_arg *formal = result ? info->result : info->arg;
	int formals = result ? info->results : info->args;
	const uint8_t *from = result ? a->d->result : a->d->operand;
	int n = result ? a->d->results : a->d->operands;
	uint8_t *to = result ? a->column.result : a->column.arg;

	if (from && n != formals)
		return ht_error(a->use->diags, HT_E_INPUT,
			ht_report_at(a->use->report, a->d->line, a->n),
			"the report has %d %s of its kernel; there are %d", n,
			result ? "results" : "operands", formals);
	for (int i = 0; i < formals; i++) {
		enum ht_dtype own = formal[i].type_attr >= 0
					    ? a->column.dtype[(int)formal[i].type_attr]
					    : ht_formal_from(a->p, a->n, &formal[i]);
		to[i] = from ? from[i] : (uint8_t)own;
		HT_TRY(check_formal(a, &formal[i], (enum ht_dtype)to[i], own));
	}
	return HT_OK;
}

/* ---- a node ---- */

static void take(struct applying *a)
{
	struct ht_choice *c = &a->p->choice[a->n->id];
	struct ht_column *column = HT_NEW(a->p->arena, struct ht_column);

	*column = a->column;
	c->column = c->taken = column;
	c->columns = 1;
	c->left = 1;
	c->rule = HT_BY(REPORT);
	for (int i = 0; i < ht_op_info(a->n->op)->type_attrs; i++)
		ht_unit_of(a->p, a->n, i)->to = column->dtype[i];
	if (a->p->decisions->complete)
		c->list = ht_str_printf(a->p->arena, "%s:%ld", a->use->report->path, a->d->line).p;
}

static enum ht_status apply_node(struct ht_precision *p, struct ht_report_use *u, struct ht_node *n)
{
	struct applying a = { .p = p, .use = u, .n = n };
	struct ht_str name = ht_reported_name(p->arena, p->graph, n->name);

	HT_TRY(ht_report_use_node(u, n, name, &a.d));
	for (int i = 0; i < ht_op_info(n->op)->type_attrs; i++)
		a.column.dtype[i] = ht_unit_of(p, n, i)->from;
	if (ht_call_lists_of(n))
		start_call(&a);
	HT_TRY(apply_units(&a));
	HT_TRY(apply_call(&a));
	if (ht_is(n, HT_ARGUMENT) && p->graph->function && a.d)
		return apply_argument(&a);
	if (!ht_is_judged(p, n) || !a.d)
		return HT_OK;
	HT_TRY(apply_side(&a, false));
	HT_TRY(apply_side(&a, true));
	take(&a);
	return HT_OK;
}

/* Whether the policy looked into the body; otherwise the report does not cover it. */
static bool is_reported(struct ht_precision *p, const struct ht_report_use *u)
{
	for (const struct ht_node *n = p->graph->first; n && p->graph->function; n = n->next)
		if (ht_map_get(&u->report->nodes, ht_reported_name(p->arena, p->graph, n->name)))
			return true;
	return !p->graph->function;
}

enum ht_status ht_report_decide(struct ht_precision *p, struct ht_report_use *u)
{
	enum ht_status st = HT_OK;

	if (!p->graph->function)
		HT_TRY(ht_report_use_graph(u, p->graph));
	if (!is_reported(p, u))
		return HT_OK;
	for (struct ht_node *n = p->graph->first; n && st == HT_OK; n = n->next)
		st = apply_node(p, u, n);
	return st;
}
