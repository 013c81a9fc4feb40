/* rewrite: changes a graph and keeps its uses up to date. */
#include "passes/rewrite_uses.h"

#include <string.h>

void ht_rw_init(struct ht_rw *r, struct ht_graph *g, struct ht_pass_context *c)
{
	*r = (struct ht_rw){ .g = g, .c = c, .arena = c->scratch };
	ht_rw_uses_init(r);
}

static void enter(
	struct ht_rw_within *w, const struct ht_function *f, const struct ht_pass_context *c)
{
	w->c = *c;
	w->entry = (struct ht_entry){
		.inputs = f->args, .outputs = f->rets, .targets = f->control_rets
	};
	w->c.entry = &w->entry;
}

enum ht_status ht_run_passes_within(
	const struct ht_pass_context *c, struct ht_function *f, const char *pipeline)
{
	struct ht_rw_within w;
	enum ht_status st;

	enter(&w, f, c);
	w.c.scratch = ht_arena_within(c->scratch);
	w.c.after = NULL;
	st = ht_run_passes(f->body, pipeline, NULL, &w.c);
	ht_arena_release(w.c.scratch);
	return st;
}

void ht_rw_init_within(struct ht_rw *r, struct ht_rw_within *w, struct ht_graph *g,
	const struct ht_pass_context *c)
{
	w->c = *c;
	if (g->function)
		enter(w, g->function, c);
	ht_rw_init(r, g, &w->c);
}

struct ht_node **ht_rw_nodes(const struct ht_rw *r, size_t *n)
{
	struct ht_node **all = HT_NEW_ARRAY(r->arena, struct ht_node *, r->g->nodes);

	*n = 0;
	for (struct ht_node *i = r->g->first; i; i = i->next)
		all[(*n)++] = i;
	return all;
}

/* ---- changes ---- */

static bool may_go(const struct ht_rw *r, const struct ht_node *n)
{
	return n->graph && n->op != HT_OP_OPAQUE && !ht_op_info(n->op)->effects &&
	       (!ht_is(n, HT_FED) || (ht_is(n, HT_HAS_DEFAULT) && r->c->entry)) &&
	       !ht_rw_node_uses(r, n) && !ht_rw_is_input(r, n);
}

static void remove_node(struct ht_rw *r, struct ht_node *n)
{
	ht_rw_forget_uses_by(r, n);
	ht_const_drop(n);
	ht_node_remove(n);
	n->graph = NULL;
	r->changed = true;
}

void ht_rw_drop(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node **stack;
	size_t count = 0, cap = 0;

	if (!may_go(r, n))
		return;
	stack = ht_grow(r->arena, NULL, count, &cap, sizeof *stack);
	stack[count++] = n;
	while (count) {
		n = stack[--count];
		if (!may_go(r, n))
			continue;
		remove_node(r, n);
		for (int32_t i = 0; i < n->ins + n->controls; i++) {
			stack = ht_grow(r->arena, stack, count, &cap, sizeof *stack);
			stack[count++] = i < n->ins ? n->in[i].node : n->control[i - n->ins];
		}
	}
}

void ht_rw_remove(struct ht_rw *r, struct ht_node *n)
{
	HT_CHECK(!ht_rw_node_uses(r, n) && !ht_rw_is_input(r, n));
	remove_node(r, n);
	for (int32_t i = 0; i < n->ins; i++)
		ht_rw_drop(r, n->in[i].node);
}

/* Sets the attributes that the op's row derives from operands: their types, and the number of those that are a list of one type. */
static void set_derived_attrs(struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t at = 0, count;

	for (int i = 0; i < info->args; i++, at += count) {
		const struct ht_op_arg *arg = &info->arg[i];

		count = arg->type_list ? -1 : ht_formal_count(n, arg);
		if (count < 1 || at + count > n->ins)
			return;
		if (arg->number_attr.n)
			ht_attr_set_int(n, ht_attr_name(arg->number_attr).s, count);
		if (arg->type_attr >= 0 && ht_type_of(n->in[at])->dtype != HT_INVALID)
			ht_attr_set_type(n, ht_attr_name(info->type_attr[arg->type_attr].name).s,
				ht_type_of(n->in[at])->dtype);
	}
}

struct ht_node *ht_rw_node(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, const struct ht_value *in, int32_t ins, struct ht_type type)
{
	struct ht_node *n = ht_node_new(r->g, ht_op_info(op)->name, ht_graph_free_name(r->g, name));

	ht_node_move(n, before);
	ht_node_set_ins(n, in, ins);
	ht_node_set_outs(n, 1);
	n->out[0].dtype = type.dtype;
	n->out[0].shape = ht_shape_make(r->g->arena, type.shape.rank, type.shape.dim);
	set_derived_attrs(n);
	ht_rw_note_uses_by(r, n);
	if (before)
		ht_node_add_origin(n, before);
	r->changed = true;
	return n;
}

void ht_rw_set_ins(struct ht_rw *r, struct ht_node *n, const struct ht_value *in, int32_t ins)
{
	struct ht_value *old = n->in;
	int32_t olds = n->ins;

	ht_rw_forget_uses_by(r, n);
	ht_node_set_ins(n, in, ins);
	ht_rw_note_uses_by(r, n);
	for (int32_t i = 0; i < olds; i++)
		ht_rw_drop(r, old[i].node);
	r->changed = true;
}

void ht_rw_set_in(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_value v)
{
	struct ht_node *old = n->in[i].node;

	ht_rw_move_use(r, n, i, v);
	ht_rw_drop(r, old);
	r->changed = true;
}

bool ht_waits_for(const struct ht_node *n, const struct ht_node *other)
{
	for (int32_t i = 0; i < n->controls; i++)
		if (n->control[i] == other)
			return true;
	return false;
}

struct ht_node **ht_controls_and(
	struct ht_arena *a, const struct ht_node *n, struct ht_node *const *more, int32_t count)
{
	struct ht_node **all = HT_NEW_ARRAY(a, struct ht_node *, (size_t)(n->controls + count));

	for (int32_t i = 0; i < n->controls; i++)
		all[i] = n->control[i];
	for (int32_t i = 0; i < count; i++)
		all[n->controls + i] = more[i];
	return all;
}

void ht_rw_set_controls(
	struct ht_rw *r, struct ht_node *n, struct ht_node *const *control, int32_t count)
{
	ht_rw_forget_uses_by(r, n);
	ht_node_set_controls(n, control, count);
	ht_rw_note_uses_by(r, n);
	r->changed = true;
}

void ht_rw_become(
	struct ht_rw *r, struct ht_node *n, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	struct ht_attr **p = &n->attrs;

	ht_attrs_own(n);
	while (*p) {
		if (ht_str_starts((*p)->name, "_"))
			p = &(*p)->next;
		else
			*p = (*p)->next;
	}
	ht_node_set_type(n, ht_op_info(op)->name);
	ht_rw_set_ins(r, n, in, ins);
	set_derived_attrs(n);
}

void ht_rw_replace(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	HT_CHECK(!ht_value_eq(from, to));
	ht_rw_move_uses(r, from, to, NULL);
	r->changed = true;
	ht_rw_drop(r, from.node);
}

void ht_rw_replace_behind(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	ht_rw_move_uses(r, from, to, to.node);
	r->changed = true;
}

void ht_rw_replace_node(struct ht_rw *r, struct ht_node *n, struct ht_value to)
{
	ht_rw_move_control_edges(r, n, to.node);
	ht_rw_replace(r, ht_out(n, 0), to);
}

void ht_rw_take_place(struct ht_rw *r, struct ht_node *n, struct ht_value to)
{
	struct ht_str name = n->name;

	ht_rw_replace_node(r, n, to);
	/* The node still exists if it had no uses, or if it is fed. */
	if (!n->graph)
		ht_node_rename(to.node, name);
}

/* ---- running passes ---- */

bool ht_rw_on(const struct ht_rw *r, enum ht_fusion_id id)
{
	return ht_fusion_on(r->c->fusions, id);
}

void ht_rw_hit(struct ht_rw *r, enum ht_fusion_id id)
{
	ht_fusion_hit(r->c->fusions, id);
}

void ht_rw_miss(const struct ht_rw *r, enum ht_fusion_id id, int met, const struct ht_node *n,
	const char *condition)
{
	ht_fusion_miss(r->c->fusions, id, met, n, condition);
}

enum ht_status ht_rw_each(struct ht_graph *g, struct ht_pass_context *c,
	void (*visit)(struct ht_rw *r, struct ht_node *n))
{
	struct ht_rw r;
	struct ht_node **all;
	size_t count;

	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			visit(&r, all[i]);
	return HT_OK;
}

static bool wants_some(const struct ht_graph *g, bool (*wants)(const struct ht_node *n))
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (wants(n))
			return true;
	return false;
}

static void visit_wanted(struct ht_graph *g, struct ht_pass_context *c,
	bool (*wants)(const struct ht_node *n), void (*visit)(struct ht_rw *r, struct ht_node *n))
{
	struct ht_rw_within within;
	struct ht_rw r;
	struct ht_node **all;
	size_t count;

	ht_rw_init_within(&r, &within, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph && wants(all[i]))
			visit(&r, all[i]);
}

enum ht_status ht_rw_everywhere(struct ht_graph *g, struct ht_pass_context *c,
	bool (*wants)(const struct ht_node *n), void (*visit)(struct ht_rw *r, struct ht_node *n))
{
	bool some = wants_some(g, wants);

	for (const struct ht_function *f = g->functions; f && !some; f = f->next)
		some = wants_some(f->body, wants);
	if (!some)
		return HT_OK;
	HT_TRY(ht_infer_types(g, c->diags));
	visit_wanted(g, c, wants, visit);
	for (struct ht_function *f = g->functions; f; f = f->next)
		if (wants_some(f->body, wants))
			visit_wanted(f->body, c, wants, visit);
	return HT_OK;
}
