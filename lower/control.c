/* Branches, loops, and calls of recursive functions.  Their bodies are procedures of the plan,
 * which one step runs.
 *
 * A loop-carried value has one buffer, the loop's result, if an iteration may write the new value
 * where it reads the old one (carried.c); else it has another one, which an iteration writes and
 * which is then copied.  An argument that every iteration passes on unchanged is the operand's
 * memory.  An argument that each iteration updates in place has one buffer, the
 * result's; an operand that no other node reads is computed directly into it. */
#include "lower/library.h"

/* A function that is called by name: all its calls run one procedure. */
struct callee {
	int32_t procedure; /* -1: it is being made */
};

/* A call that was added while its procedure was still being made. */
struct open_call {
	struct ht_plan_call *call;
	const struct callee *callee;
	struct open_call *next;
};

/* The procedures of a branch, loop or call. */
struct body {
	const struct callee *callee; /* NULL: not a call */
	int32_t procedure[2];
	bool *takes[2]; /* by argument: the procedure has it as a parameter */
	bool *carries;  /* of a loop, by argument: an iteration may change it, so the body has it
		        * as a result */
	bool *updates;  /* likewise: the iteration updates it in the result's memory */
	bool tests;     /* of a loop: the body computes the condition of the next iteration */
	struct lower_invariant invariant; /* of a loop */
};

static bool is_loop(const struct ht_node *n)
{
	return ht_is(n, HT_LOOPS);
}

/* ---- procedures ---- */

static bool is_taken(const struct ht_uses *u, struct ht_value arg)
{
	for (const struct ht_use *use = u->of[arg.node->id]; use; use = use->next)
		if (use->arg >= 0)
			return true;
	return false;
}

static bool is_among(const struct ht_port *p, struct ht_value v)
{
	for (; p; p = p->next)
		if (ht_value_eq(p->value, v))
			return true;
	return false;
}

/* The wanted ports, in their order. */
static struct ht_port *some_ports(struct lower *l, const struct ht_port *p, const bool *wanted)
{
	struct ht_port *first = NULL, **end = &first;

	for (int32_t i = 0; p; p = p->next, i++) {
		if (!wanted[i])
			continue;
		*end = HT_NEW(l->scratch, struct ht_port);
		**end = *p;
		(*end)->next = NULL;
		end = &(*end)->next;
	}
	return first;
}

static void find_carried(struct lower *l, const struct ht_function *f, int32_t args, struct body *b)
{
	const struct ht_port *arg = f->args, *ret = f->rets;

	b->carries = HT_NEW_ARRAY(l->scratch, bool, (size_t)args);
	b->updates = HT_NEW_ARRAY(l->scratch, bool, (size_t)args);
	for (int32_t i = 0; i < args; i++, arg = arg->next, ret = ret->next)
		b->carries[i] = !ht_value_eq(arg->value, ret->value);
}

/* The only node that uses `v`, if it updates `v` in the memory of its result; NULL: there is
 * none. */
static struct ht_node *updating_user(struct lower *l, const struct ht_uses *u, struct ht_value v)
{
	const struct ht_use *only = u->of[v.node->id];
	const struct lower_op *op;

	if (v.node->outs != 1 || u->is_output[v.node->id] || !only || only->next || only->arg < 0 ||
		is_loop(only->node))
		return NULL;
	op = lower_op_of(only->node);
	return op->owns && op->owns(l, only->node, only->arg) ? only->node : NULL;
}

static int count_among(const struct ht_port *p, struct ht_value v)
{
	int n = 0;

	for (; p; p = p->next)
		n += ht_value_eq(p->value, v);
	return n;
}

/* Whether a chain of nodes that each update it in place turns the argument into the result. */
static bool is_updated(struct lower *l, const struct ht_function *f, const struct ht_uses *u,
	struct ht_value arg, struct ht_value result)
{
	if (ht_value_eq(arg, result) || count_among(f->rets, result) != 1)
		return false;
	while (!ht_value_eq(arg, result)) {
		struct ht_node *n = updating_user(l, u, arg);

		if (!n)
			return false;
		arg = ht_out(n, 0);
	}
	return true;
}

static struct lower_updated *find_updated(
	struct lower *l, const struct ht_function *f, const struct ht_uses *u, struct body *b)
{
	const struct ht_port *ret = f->rets;
	struct lower_updated *found = NULL;
	int32_t i = 0;

	for (const struct ht_port *arg = f->args; arg; arg = arg->next, ret = ret->next, i++) {
		struct lower_updated *x;

		b->updates[i] = is_updated(l, f, u, arg->value, ret->value);
		if (!b->updates[i])
			continue;
		x = HT_NEW(l->scratch, struct lower_updated);
		*x = (struct lower_updated){ arg->value, ret->value, found };
		found = x;
	}
	return found;
}

/* Whether the body takes an argument for the condition alone. */
static bool is_tested(const struct body *b, int i, int32_t arg)
{
	return i == 1 && b->tests && b->takes[0][arg] && !b->carries[arg];
}

static const struct lower_argument *carried_arguments(
	struct lower *l, const struct ht_function *f, const bool *carries)
{
	struct lower_argument *first = NULL;
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next) {
		struct lower_argument *a;

		if (!carries[i++])
			continue;
		a = HT_NEW(l->scratch, struct lower_argument);
		*a = (struct lower_argument){ p->value, first };
		first = a;
	}
	return first;
}

/* What the loop passes on unchanged is the operand's memory in each iteration. */
static struct lower_invariant *begin_invariant(
	struct lower *l, struct body *b, const struct ht_node *n, const struct ht_function *f)
{
	bool *same = HT_NEW_ARRAY(l->scratch, bool, (size_t)n->ins);

	b->invariant = (struct lower_invariant){
		.condition = b->procedure[0], .rows = ht_recurrent_rows_of(n), .same = same
	};
	for (int32_t i = 0; i < n->ins; i++)
		if (b->takes[1][i])
			same[b->invariant.params++] = !b->carries[i];
	b->invariant.carried = carried_arguments(l, f, b->carries);
	b->invariant.counter = lower_counter(f, b->takes[1]);
	return &b->invariant;
}

static enum ht_status lower_one(
	struct lower *l, const struct ht_node *n, int i, const struct ht_function *f)
{
	struct body *b = l->body[n->id];
	struct ht_uses uses = ht_graph_uses(f->body, l->scratch);
	struct ht_entry entry = { .outputs = f->rets };
	const struct lower_updated *updated = NULL;
	int32_t at = 0;

	if (is_loop(n) && i == 1) {
		entry.outputs = some_ports(l, f->rets, b->carries);
		updated = find_updated(l, f, &uses, b);
	}
	b->takes[i] = HT_NEW_ARRAY(l->scratch, bool, (size_t)(n->ins - ht_control_first(n)));
	for (const struct ht_port *p = f->args; p; p = p->next, at++)
		b->takes[i][at] = !(updated && b->updates[at]) &&
				  (is_taken(&uses, p->value) || is_among(entry.outputs, p->value) ||
					  is_tested(b, i, at));
	entry.inputs = some_ports(l, f->args, b->takes[i]);
	return lower_function(l, f, &entry, updated,
		is_loop(n) && i == 1 ? begin_invariant(l, b, n, f) : NULL, &b->procedure[i]);
}

/* All arguments are parameters of the procedure: where it calls itself, it is not known yet
 * which arguments it reads. */
static enum ht_status lower_callee(struct lower *l, const struct ht_node *n)
{
	const struct ht_function *f = ht_control_bodies(n).of[0];
	struct ht_map_entry *known = ht_map_at(&l->planning->callees, f->name);
	const struct ht_entry entry = { .inputs = f->args, .outputs = f->rets };
	struct callee *c = known->value;

	l->body[n->id] = HT_NEW(l->scratch, struct body);
	l->body[n->id]->callee = c;
	if (c)
		return HT_OK;
	l->body[n->id]->callee = known->value = c = HT_NEW(l->scratch, struct callee);
	c->procedure = -1;
	return lower_function(l, f, &entry, NULL, NULL, &c->procedure);
}

/* The body computes the condition of the next iteration, of the values that it leaves. */
static bool move_condition(struct lower *l, const struct body *b, int32_t args)
{
	int32_t *at = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)args);
	int32_t params = 0, results = 0, n = 0;

	for (int32_t i = 0; i < args; i++) {
		const int32_t param = params, result = results;

		params += b->takes[1][i];
		results += b->carries[i];
		if (!b->takes[0][i])
			continue;
		at[n++] = b->carries[i]
				  ? plan_parameter(l->plan, b->procedure[1], HT_PLAN_RESULT, result)
				  : plan_parameter(l->plan, b->procedure[1], HT_PLAN_PARAM, param);
	}
	return lower_move_condition(l, b->procedure[0], b->procedure[1], at);
}

static enum ht_status lower_loop_bodies(struct lower *l, const struct ht_node *n)
{
	const struct ht_bodies of = ht_control_bodies(n);
	struct body *b = l->body[n->id];

	find_carried(l, of.of[1], n->ins, b);
	HT_TRY(lower_one(l, n, 0, of.of[0]));
	b->tests = lower_condition_moves(l, b->procedure[0]);
	HT_TRY(lower_one(l, n, 1, of.of[1]));
	b->tests = b->tests && move_condition(l, b, n->ins);
	return HT_OK;
}

enum ht_status lower_bodies(struct lower *l)
{
	for (struct ht_node *n = l->g->first; n; n = n->next) {
		struct ht_bodies of;

		if (ht_is(n, HT_CALLS_ONE))
			HT_TRY(lower_callee(l, n));
		if (!ht_is(n, HT_BRANCHES | HT_LOOPS))
			continue;
		of = ht_control_bodies(n);
		l->body[n->id] = HT_NEW(l->scratch, struct body);
		if (is_loop(n)) {
			HT_TRY(lower_loop_bodies(l, n));
			continue;
		}
		for (int i = 0; i < 2; i++)
			HT_TRY(lower_one(l, n, i, of.of[i]));
	}
	return HT_OK;
}

/* ---- steps ---- */

/* Whether memory has the operand for argument i: a procedure reads it, or a result of the loop begins with it. */
static bool needs_operand(const struct lower *l, const struct ht_node *n, int32_t i)
{
	const struct body *b = l->body[n->id];

	return b->takes[0][i] || b->takes[1][i] ||
	       (is_loop(n) && (b->carries[i] || l->view[n->id][i].buffer >= 0));
}

/* By argument: the buffers of the operands that are needed; -1: the operand is not. */
static int32_t *operands_of(struct lower *l, const struct ht_node *n)
{
	int32_t first = ht_control_first(n), args = n->ins - first;
	int32_t *at = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)args);

	for (int32_t i = 0; i < args; i++)
		at[i] = needs_operand(l, n, i) ? dense_operand(l, n, first + i) : -1;
	return at;
}

static int32_t *results_of(struct lower *l, const struct ht_node *n)
{
	int32_t *at = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++)
		at[i] = dense_result(l, n, i);
	return at;
}

/* Further arguments of a body. */
struct more {
	const int32_t *buffer;
	int32_t buffers;
};

/* A call of body i.  Of `in` it gets the arguments that the body takes, then those of `more`; of `out` it gets the
 * results selected by `gives` (NULL: all). */
static struct ht_plan_call call_of(struct lower *l, const struct ht_node *n, int i,
	const int32_t *in, struct more more, const int32_t *out, int32_t outs, const bool *gives)
{
	const struct body *b = l->body[n->id];
	int32_t args = n->ins - ht_control_first(n);
	struct ht_plan_call c = { .procedure = b->procedure[i],
		.buffer =
			HT_NEW_ARRAY(l->arena, int32_t, (size_t)(args + more.buffers + outs + 1)) };

	for (int32_t k = 0; k < args; k++)
		if (b->takes[i][k])
			c.buffer[c.buffers++] = in[k];
	for (int32_t k = 0; k < more.buffers; k++)
		c.buffer[c.buffers++] = more.buffer[k];
	for (int32_t k = 0; k < outs; k++)
		if (!gives || gives[k])
			c.buffer[c.buffers++] = out[k];
	return c;
}

static enum ht_status emit_branch(struct lower *l, struct ht_node *n)
{
	struct ht_plan_control *c = HT_NEW(l->arena, struct ht_plan_control);
	const int32_t *in = operands_of(l, n), *out = results_of(l, n);

	c->kind = HT_PLAN_BRANCHES;
	c->condition = dense_operand(l, n, 0);
	for (int i = 0; i < 2; i++)
		c->call[i] = call_of(l, n, i, in, (struct more){ 0 }, out, n->outs, NULL);
	plan_control(l, c, n);
	return HT_OK;
}

static void close_later(struct lower *l, struct ht_plan_call *call, const struct callee *callee)
{
	struct open_call *o = HT_NEW(l->scratch, struct open_call);

	*o = (struct open_call){ call, callee, l->planning->open_calls };
	l->planning->open_calls = o;
}

void lower_close_calls(struct planning *p)
{
	for (; p->open_calls; p->open_calls = p->open_calls->next)
		p->open_calls->call->procedure = p->open_calls->callee->procedure;
}

static enum ht_status emit_call(struct lower *l, struct ht_node *n)
{
	struct ht_plan_control *c = HT_NEW(l->arena, struct ht_plan_control);
	const struct callee *callee = l->body[n->id]->callee;
	int32_t *buffer = HT_NEW_ARRAY(l->arena, int32_t, (size_t)(n->ins + n->outs)), count = 0;

	for (int32_t i = 0; i < n->ins; i++)
		buffer[count++] = dense_operand(l, n, i);
	for (int32_t i = 0; i < n->outs; i++)
		buffer[count++] = dense_result(l, n, i);
	*c = (struct ht_plan_control){ .kind = HT_PLAN_CALLS,
		.condition = -1,
		.call = { { callee->procedure, buffer, count } } };
	if (callee->procedure < 0)
		close_later(l, &c->call[0], callee);
	plan_control(l, c, n);
	return HT_OK;
}

static void add_move(struct ht_plan_move *list, int32_t *n, int32_t to, int32_t from)
{
	if (to != from)
		list[(*n)++] = (struct ht_plan_move){ to, from };
}

static int32_t temporary(struct lower *l, struct ht_type t)
{
	return plan_buffer(l, HT_PLAN_TEMP, t.dtype, ht_shape_count(t.shape));
}

/* Result i of a loop begins with its operand's elements.  Of an open size, these are copied up to the run's. */
static void begin_result(struct lower *l, const struct ht_node *n, struct ht_plan_control *c,
	int32_t i, int32_t to, int32_t from)
{
	const struct ht_value v = ht_out((struct ht_node *)(uintptr_t)n, i);
	const struct open_parts *parts = lower_outside(l, v);
	struct view a, b;

	if (to == from || !parts || !parts->n) {
		add_move(c->begin, &c->begins, to, from);
		return;
	}
	view_dense(&a, from, n->out[i].shape);
	view_dense(&b, to, n->out[i].shape);
	emit_copy_of(l, n, v, &a, &b);
}

/* If no iteration changes an argument and its result is used, the result gets the operand's
 * elements. */
static void carry(struct lower *l, const struct ht_node *n, struct ht_plan_control *c, int32_t *now,
	int32_t *next)
{
	const struct body *b = l->body[n->id];

	c->begin = HT_NEW_ARRAY(l->arena, struct ht_plan_move, (size_t)n->outs);
	c->again = HT_NEW_ARRAY(l->arena, struct ht_plan_move, (size_t)n->outs);
	for (int32_t i = 0, params = 0, results = 0; i < n->outs; i++) {
		const int32_t param = b->takes[1][i] ? params++ : -1;
		bool used = l->view[n->id][i].buffer >= 0;
		int32_t result = used || b->carries[i] ? dense_result(l, n, i) : -1;

		if (result >= 0)
			begin_result(l, n, c, i, result, now[i]);
		if (!b->carries[i])
			continue;
		now[i] = result;
		next[i] = b->updates[i] || lower_may_overwrite(
						   l->plan, b->procedure[1], param, results)
				  ? result
				  : temporary(l, n->out[i]);
		results++;
		add_move(c->again, &c->agains, result, next[i]);
	}
}

/* What every iteration would compute alike is computed in front of the loop. */
static struct more move_invariant(struct lower *l, const struct ht_node *n, const int32_t *now)
{
	const struct body *b = l->body[n->id];
	const int32_t body = b->procedure[1];
	int32_t *given = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)n->ins), params = 0;
	int32_t *more = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)l->plan->procedure[body].buffers);

	for (int32_t i = 0; i < n->ins; i++)
		if (b->takes[1][i])
			given[params++] = now[i];
	return (struct more){ more, lower_move_invariant(l, body, &b->invariant, given, more) };
}

static enum ht_status emit_while(struct lower *l, struct ht_node *n)
{
	struct ht_plan_control *c = HT_NEW(l->arena, struct ht_plan_control);
	struct ht_value condition = ht_control_bodies(n).of[0]->rets->value;
	int32_t *now = operands_of(l, n),
		*next = HT_NEW_ARRAY(l->scratch, int32_t, (size_t)n->outs);

	c->kind = HT_PLAN_LOOPS;
	c->condition = temporary(l, *ht_type_of(condition));
	carry(l, n, c, now, next);
	c->call[0] = call_of(l, n, 0, now, (struct more){ 0 }, &c->condition, 1, NULL);
	c->call[1] = call_of(
		l, n, 1, now, move_invariant(l, n, now), next, n->outs, l->body[n->id]->carries);
	c->tests = l->body[n->id]->tests;
	if (c->tests)
		c->call[1].buffer[c->call[1].buffers++] = c->condition;
	plan_control(l, c, n);
	return HT_OK;
}

/* ---- operands that are made where the loop has its results ---- */

static bool begins_in_result(struct lower *l, const struct ht_node *n, int arg)
{
	return l->body[n->id]->carries[arg] &&
	       ht_use_count(&l->uses, ht_out((struct ht_node *)(uintptr_t)n, arg)) > 0;
}

static void result_part(struct lower *l, const struct ht_node *n, int arg, struct view *v)
{
	*v = l->view[n->id][arg];
}

/* ---- refusals ---- */

static const char *refuse_condition(struct ht_type t)
{
	const struct ht_dtype_info *d = ht_dtype_info(t.dtype);

	if (!ht_shape_known(t.shape) || ht_shape_count(t.shape) != 1)
		return "has a condition that is not one element";
	if (d->kind != HT_KIND_BOOL && d->kind != HT_KIND_INT && d->kind != HT_KIND_UINT)
		return "has a condition that is no boolean and no integer";
	return d->bytes == 2 ? "has a condition of 16 bits" : NULL;
}

static const char *refuse_bodies(const struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);

	return b.of[0] && b.of[1] ? NULL : "runs a function that the model does not have";
}

static bool are_passed(const struct ht_node *n, const struct ht_function *f)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p && i < n->ins; p = p->next, i++) {
		const struct ht_type *t = ht_type_of(n->in[i]), *arg = ht_type_of(p->value);

		if (t->dtype != arg->dtype || !ht_shape_eq(t->shape, arg->shape))
			return false;
	}
	return true;
}

/* Pass "bodies" inlines all other functions, so a call that is left is recursive. */
static const char *refuse_call(const struct ht_node *n)
{
	const struct ht_function *f = ht_control_bodies(n).of[0];

	if (!f)
		return "runs a function that the model does not have";
	if (!f->result)
		return "calls a function, which is not in its place";
	return are_passed(n, f) ? NULL
				: "calls itself with operands of other shapes than it was called "
				  "with; each call of a recursion needs the same";
}

static const char *refuse_branch(const struct ht_node *n)
{
	const char *why = refuse_bodies(n);

	return why ? why : refuse_condition(*ht_type_of(n->in[0]));
}

static const char *refuse_loop(const struct ht_node *n)
{
	const char *why = refuse_bodies(n);

	return why ? why : refuse_condition(*ht_type_of(ht_control_bodies(n).of[0]->rets->value));
}

const struct lower_op lower_branch = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_branch,
	.refuse = refuse_branch };

const struct lower_op lower_loop = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_while,
	.part = result_part,
	.owns = begins_in_result,
	.refuse = refuse_loop };

const struct lower_op lower_call = { .family = FAMILY_ROOT,
	.alone = true,
	.dense = true,
	.emit = emit_call,
	.refuse = refuse_call };
