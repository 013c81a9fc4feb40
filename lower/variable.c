/* Variables that the graph changes: memory of the session.
 *
 * A read copies the variable, so that a later assignment does not change what was read, unless the program has no assignment
 * to it; copies.c then removes the copies that are not needed.  Reads and assignments stand in the order of the graph, which follows its control edges. */
#include "image/image.h"
#include "lower/inside.h"

static const struct ht_tensor *initial_value(const struct ht_node *n, int i)
{
	return ht_variable_value(n->in[i].node);
}

struct view variable_view(struct lower *l, const struct ht_node *n, int i)
{
	const struct ht_tensor *t = initial_value(n, i);
	struct view v;

	view_dense(&v, plan_variable(l, ht_variable_name(n->in[i].node), t), t->shape);
	return v;
}

/* The size of the session's memory, and its first value, must be known. */
const char *variable_refuse(const struct ht_node *n, int i)
{
	if (!ht_is(n->in[i].node, HT_VARIABLE))
		return "is about a variable that is known when the program runs";
	if (!initial_value(n, i))
		return "is about a variable without a value to begin with";
	return NULL;
}

const char *variable_refuse_type(const struct ht_node *n, int i, const struct ht_type *t)
{
	const char *why = variable_refuse(n, i);

	if (why)
		return why;
	if (t->dtype != initial_value(n, i)->dtype ||
		!ht_shape_eq(t->shape, initial_value(n, i)->shape))
		return "changes the type or shape of its variable";
	return NULL;
}

static const char *refuse(const struct ht_node *n)
{
	return variable_refuse(n, 0);
}

static const char *refuse_assignment(const struct ht_node *n)
{
	return variable_refuse_type(n, 0, ht_type_of(n->in[1]));
}

static enum ht_status emit_read(struct lower *l, struct ht_node *n)
{
	const struct view from = variable_view(l, n, 0);

	emit_copy(l, n, &from, lower_view(l, ht_out(n, 0)));
	return HT_OK;
}

static bool read_is_given(struct lower *l, const struct ht_node *n, struct view *v)
{
	if (variable_is_assigned(l, ht_variable_name(n->in[0].node)))
		return false;
	*v = variable_view(l, n, 0);
	return true;
}

static enum ht_status emit_assignment(struct lower *l, struct ht_node *n)
{
	const struct view to = variable_view(l, n, 0);

	emit_copy(l, n, lower_view(l, n->in[1]), &to);
	return HT_OK;
}

/* The sum is computed elsewhere and copied into the variable; copies.c has the kernel write to the variable where it may. */
static enum ht_status emit_update(
	struct lower *l, struct ht_node *n, int32_t (*op)(struct ht_xb *b, int32_t x, int32_t y))
{
	const struct view variable = variable_view(l, n, 0), *by = lower_view(l, n->in[1]);
	const struct ht_tensor *t = initial_value(n, 0);
	struct kernel_build k;
	struct view sum;
	struct space s;
	int32_t before, more;

	if (view_count(&variable) == 0)
		return HT_OK;
	view_dense(&sum, plan_buffer(l, HT_PLAN_TEMP, t->dtype, view_count(&variable)), t->shape);
	kb_init(&k, l, n);
	kb_stage(&k, HT_STAGE_LOOP);
	s = kb_loop_space(&k, sum.rank, sum.dim, view_boundaries(by, sum.rank, sum.dim));
	before = kb_load(&k, &variable, &s);
	more = kb_load(&k, by, &s);
	kb_store(&k, &sum, &s, op(&k.xb, before, more));
	kb_finish(&k, n);
	emit_copy(l, n, &sum, &variable);
	return HT_OK;
}

static enum ht_status emit_addition(struct lower *l, struct ht_node *n)
{
	return emit_update(l, n, ht_xadd);
}

static enum ht_status emit_subtraction(struct lower *l, struct ht_node *n)
{
	return emit_update(l, n, ht_xsub);
}

const struct lower_op lower_variable = { .family = FAMILY_NOTHING };
const struct lower_op lower_read_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.given = read_is_given,
	.emit = emit_read,
	.refuse = refuse };
const struct lower_op lower_assign_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_assignment,
	.refuse = refuse_assignment };
const struct lower_op lower_add_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_addition,
	.refuse = refuse_assignment };
const struct lower_op lower_sub_variable = { .family = FAMILY_ROOT,
	.alone = true,
	.variables = 1,
	.emit = emit_subtraction,
	.refuse = refuse_assignment };

bool variable_assigns_all(const struct ht_node *n)
{
	const struct lower_op *op = lower_op_of(n);

	return op == &lower_assign_variable || op == &lower_add_variable ||
	       op == &lower_sub_variable;
}

/* ---- how a run uses a variable ---- */

/* The bodies that `n` runs.  A function that is called by name is returned once only. */
static struct ht_bodies run_by(const struct ht_node *n, struct ht_map *met)
{
	struct ht_bodies b = { { NULL } };
	struct ht_map_entry *called;

	if (ht_is(n, HT_BRANCHES | HT_LOOPS))
		return ht_control_bodies(n);
	if (!ht_is(n, HT_CALLS_ONE) || !ht_control_bodies(n).of[0])
		return b;
	called = ht_map_at(met, ht_control_bodies(n).of[0]->name);
	if (!called->value)
		called->value = b.of[0] = ht_control_bodies(n).of[0];
	return b;
}

static void find_assigned(struct lower *l, const struct ht_graph *g, struct ht_map *met)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		const struct lower_op *op = lower_op_of(n);
		const struct ht_bodies b = run_by(n, met);

		if (ht_is(n, HT_VARIABLE))
			ht_map_at(&l->planning->named, ht_variable_name(n))->value = l;
		for (int i = 0; op && i < op->variables; i++)
			if (ht_op_info(n->op)->effects & HT_WRITES &&
				ht_is(n->in[i].node, HT_VARIABLE))
				ht_map_at(&l->planning->assigned, ht_variable_name(n->in[i].node))
					->value = l;
		for (int i = 0; i < 2; i++)
			if (b.of[i])
				find_assigned(l, b.of[i]->body, met);
	}
}

void variable_find_assigned(struct lower *l)
{
	struct ht_map met;

	ht_map_init(&met, l->scratch);
	find_assigned(l, l->g, &met);
}

bool variable_is_assigned(const struct lower *l, struct ht_str name)
{
	return ht_map_get(&l->planning->assigned, name);
}

static void note_use(struct lower *l, const struct ht_node *variable, bool assigns)
{
	const struct ht_map_entry *known =
		ht_map_at(&l->planning->variables, ht_variable_name(variable));
	struct ht_plan_variable *v;

	if (!known->value)
		return;
	v = &l->plan->variable[(uintptr_t)known->value - 1];
	if (assigns)
		v->use |= HT_IMAGE_ASSIGNS;
	else if (!(v->use & HT_IMAGE_ASSIGNS))
		v->use |= HT_IMAGE_NEEDS;
}

/* It is not known which branch runs, nor how often a loop runs. */
static void note_bodies(struct lower *l, const struct ht_node *n, struct ht_map *met)
{
	const struct ht_bodies b = run_by(n, met);

	for (int i = 0; i < 2; i++)
		for (const struct ht_node *in = b.of[i] ? b.of[i]->body->first : NULL; in;
			in = in->next) {
			if (ht_is(in, HT_VARIABLE))
				note_use(l, in, false);
			note_bodies(l, in, met);
		}
}

void plan_variable_uses(struct lower *l)
{
	struct ht_map met;

	ht_map_init(&met, l->scratch);
	for (const struct ht_node *n = l->g->first; n; n = n->next) {
		const struct lower_op *op = lower_op_of(n);

		for (int i = 0; op && i < op->variables; i++)
			if (ht_is(n->in[i].node, HT_VARIABLE))
				note_use(l, n->in[i].node, op == &lower_assign_variable);
		note_bodies(l, n, &met);
	}
}
