/* A report as a policy: every unit gets the dtype that it has there, with the operands and results
 * that its kernel took. */
#include "passes/precision/report/report.h"

#include <string.h>

static const char stated[] = "stated by the report";

struct applying {
	struct ht_precision *p;
	struct ht_report_use *use;
	const struct ht_node *n;
	const struct ht_decided_node *d;
	struct ht_column column;
};

static enum ht_status illegal(struct applying *a, long line, const char *what, enum ht_dtype t)
{
	return ht_error(a->use->diags, HT_E_INPUT, ht_report_at(a->use->report, line, a->n),
		"%s cannot be %s", what, ht_dtype_info(t)->name);
}

/* ---- units ---- */

/* What a policy may not change has to be as it is; what it may, of a dtype that the op takes. */
static enum ht_status check_unit(
	struct applying *a, const struct ht_float_unit *f, const struct ht_decided_type *t)
{
	const struct ht_op_type_attr *attr = &ht_op_info(a->n->op)->type_attr[f->attr];
	const char *fixed;

	if (t->to == t->from)
		return HT_OK;
	fixed = f->item < 0 ? ht_fixed_reason(a->p, a->n, f->attr)
			    : "fixed: one of a list of types";
	if (fixed)
		return ht_error(a->use->diags, HT_E_INPUT,
			ht_report_at(a->use->report, t->line, a->n), "its %.*s keeps its dtype: %s",
			HT_STR_ARG(t->attr), fixed);
	if (!ht_is_policy_float(t->to) || !(attr->allowed >> t->to & 1))
		return illegal(a, t->line, ht_attr_name(attr->name).s, t->to);
	return HT_OK;
}

static enum ht_status apply_units(struct applying *a)
{
	struct ht_float_unit f = { .attr = -1 };
	const struct ht_decided_type *t;

	while (ht_next_float_unit(a->n, a->p->arena, &f)) {
		HT_TRY(ht_report_use_unit(a->use, a->n, a->d, f.name, f.dtype, &t));
		HT_TRY(check_unit(a, &f, t));
		if (f.item < 0)
			a->column.dtype[f.attr] = t->to;
	}
	return HT_OK;
}

/* ---- what the kernel takes and gives ---- */

/* A formal is of its attribute's dtype, or narrower where the attribute is float32. */
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
	c->rule = stated;
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
	HT_TRY(apply_units(&a));
	if (!ht_is_judged(p, n) || !a.d)
		return HT_OK;
	HT_TRY(apply_side(&a, false));
	HT_TRY(apply_side(&a, true));
	take(&a);
	return HT_OK;
}

/* A body that the policy did not look into is none of the report's. */
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
