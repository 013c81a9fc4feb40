/* freeze: variables become constants with the checkpoint's values.  Variables that the graph
 * changes stay, and get an attribute with that value.
 *
 * This covers resources (VarHandleOp) and references (VariableV2, Variable).  The variable's
 * node becomes the Const; ReadVariableOp becomes Identity, ResourceGather becomes GatherV2, and
 * identities in between change their type.  VarIsInitializedOp and VariableShape become
 * constants, also for variables that the graph changes.  A branch or loop passes the value
 * instead of the handle, and its functions are changed accordingly.  All variables that cannot
 * be frozen are reported together; if there is no checkpoint, as for a training graph, one
 * message says so.
 *
 * Run it after prune and inline: then only nodes that the entry needs are left. */
#include "lower/refusals.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

#include <string.h>

/* A function whose arguments were variables: the tensors that these arguments are now. */
struct passed {
	struct ht_function *f;
	struct ht_tensor **arg; /* by argument; NULL: it was no variable */
	struct passed *next;
};

struct freezer {
	struct ht_graph *g;
	struct ht_pass_context *c;
	struct ht_tensor **value;      /* by node id: the value of result 0, if it is the value of a
				   * frozen variable */
	bool *resource;                /* by node id: result 0 was a handle */
	struct ht_node **handle;       /* by node id: the variable whose handle result 0 is */
	uint32_t ids;                  /* nodes with larger ids were made here */
	struct passed *todo;           /* functions still to be visited */
	struct ht_map *seen;           /* name → struct passed, of all graphs */
	const struct ht_node *without; /* the first variable that no checkpoint has */
	size_t withouts;
	struct ht_map changed;    /* by name: variables that the graph changes */
	struct ht_refusals never; /* ops that are never lowered, and that take variables */
	struct ht_str last_never;
	enum ht_status status; /* the worst so far */
};

static void fail(struct freezer *f, enum ht_status st, const struct ht_node *n, const char *fmt,
	...) HT_PRINTF(4, 5);
static void fail(
	struct freezer *f, enum ht_status st, const struct ht_node *n, const char *fmt, ...)
{
	struct ht_where at = HT_NOWHERE;
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	at.path = f->g->library->path;
	at.node = n->name;
	at.op = n->type;
	f->status = ht_error(f->c->diags, st, at, "%s", text);
}

static bool is_variable(const struct ht_node *n)
{
	return ht_is(n, HT_VARIABLE);
}

/* Removes attributes, except those that begin with "_" and that the op does not define. */
static void clear_attrs(struct ht_node *n)
{
	struct ht_attr **a = &n->attrs;

	ht_attrs_own(n);
	while (*a) {
		if ((*a)->name.n && (*a)->name.p[0] == '_' &&
			!ht_str_is((*a)->name, "_output_shapes"))
			a = &(*a)->next;
		else
			*a = (*a)->next;
	}
}

static bool fits(const struct ht_node *n, const struct ht_tensor *t)
{
	const struct ht_attr *shape = ht_attr_find(n, "shape");
	enum ht_dtype dtype = ht_attr_type(n, "dtype", t->dtype);
	struct ht_shape s;

	if (dtype != t->dtype)
		return false;
	if (!shape || shape->value.kind != HT_ATTR_SHAPE || shape->value.shape.shape.rank < 0)
		return true;
	s = shape->value.shape.shape;
	/* An old Variable of unknown shape states the shape []. */
	if (s.rank == 0 && n->op == HT_OP_Variable)
		return true;
	if (s.rank != t->shape.rank)
		return false;
	for (int32_t i = 0; i < s.rank; i++)
		if (s.dim[i] >= 0 && s.dim[i] != t->shape.dim[i])
			return false;
	return true;
}

static void set_result(struct freezer *f, struct ht_node *n, struct ht_tensor *t)
{
	n->out[0] = (struct ht_type){ t->dtype, t->shape };
	f->value[n->id] = t;
}

/* The value that the graph states, or else the checkpoint's; NULL: neither has one, which is
 * reported. */
static struct ht_tensor *value_of(struct freezer *f, struct ht_node *n)
{
	const struct ht_variable_source *source = f->c->variables;
	struct ht_tensor *t = NULL;
	enum ht_status st;

	if (ht_variable_value(n))
		return ht_attr_own(n, "_value")->value.tensor;
	if (!source) {
		if (!f->withouts++)
			f->without = n;
		return NULL;
	}
	st = source->read(source->self, ht_variable_name(n), f->g->arena, f->c->diags, &t);
	if (st != HT_OK) {
		fail(f, st, n, "the variable has no value");
		return NULL;
	}
	if (!fits(n, t) || !t->blob) {
		fail(f, HT_E_INPUT, n,
			"the checkpoint has another type or shape for this variable");
		return NULL;
	}
	return t;
}

static bool is_changed(const struct freezer *f, const struct ht_node *n)
{
	return f->c->session ||
	       (n->op == HT_OP_VarHandleOp && ht_map_get(&f->changed, ht_variable_name(n)));
}

static bool is_kept(const struct ht_node *variable)
{
	return variable && ht_is(variable, HT_VARIABLE);
}

/* The type and shape of a value that a session will have. */
static struct ht_tensor *without_value(struct freezer *f, const struct ht_node *n)
{
	const struct ht_attr *shape = ht_attr_find(n, "shape");
	struct ht_shape s = shape && shape->value.kind == HT_ATTR_SHAPE ? shape->value.shape.shape
									: HT_SHAPE_UNKNOWN;

	if (n->op != HT_OP_VarHandleOp)
		fail(f, HT_E_UNSUPPORTED, n,
			"the variable is passed by reference to an op that has no form with handles");
	else if (!ht_shape_known(s))
		fail(f, HT_E_UNSUPPORTED, n, "the graph does not state the variable's shape");
	else
		return ht_tensor_new(f->g->arena, ht_type_attr(n, "dtype"), s, NULL);
	return NULL;
}

/* A variable that the graph changes stays, and gets its first value as an attribute. */
static void keep_variable(struct freezer *f, struct ht_node *n)
{
	struct ht_tensor *t = f->c->session ? without_value(f, n) : value_of(f, n);

	if (!t)
		return;
	ht_attr_set_str(n, "shared_name", ht_variable_name(n));
	ht_attr_set_shape(n, "shape", t->shape);
	ht_attr_set_tensor(n, "_value", t);
}

static void freeze_variable(struct freezer *f, struct ht_node *n)
{
	struct ht_tensor *t = value_of(f, n);

	if (!t)
		return;
	clear_attrs(n);
	ht_node_set_type(n, HT_STR("Const"));
	ht_attr_set_type(n, "dtype", t->dtype);
	ht_attr_set_tensor(n, "value", t);
	ht_node_set_outs(n, 1);
	set_result(f, n, t);
}

static void become_identity(struct freezer *f, struct ht_node *n, struct ht_tensor *t)
{
	clear_attrs(n);
	ht_node_set_type(n, HT_STR("Identity"));
	ht_attr_set_type(n, "T", t->dtype);
	set_result(f, n, t);
}

static struct ht_node *scalar(struct freezer *f, struct ht_node *before, const char *suffix)
{
	struct ht_blob *b = ht_blob_in(f->c->scratch, sizeof(int32_t));
	struct ht_node *c;

	c = ht_const_sharing(f->g,
		ht_graph_free_name(f->g,
			ht_str_printf(f->c->scratch, "%.*s/%s", HT_STR_ARG(before->name), suffix)),
		HT_I32, HT_SHAPE_SCALAR, b);
	ht_node_move(c, before);
	return c;
}

static void become_gather_nd(struct ht_node *n, const struct ht_tensor *t)
{
	enum ht_dtype indices = ht_attr_type(n, "Tindices", HT_I32);

	clear_attrs(n);
	ht_node_set_type(n, HT_STR("GatherNd"));
	ht_attr_set_type(n, "Tparams", t->dtype);
	ht_attr_set_type(n, "Tindices", indices);
	n->out[0] = (struct ht_type){ t->dtype, HT_SHAPE_UNKNOWN };
}

static void become_gather(struct freezer *f, struct ht_node *n, struct ht_tensor *t)
{
	enum ht_dtype indices = ht_attr_type(n, "Tindices", HT_I32);
	int64_t batch_dims = ht_attr_int(n, "batch_dims", 0);
	struct ht_node *axis = scalar(f, n, "axis");
	struct ht_value in[3] = { n->in[0], n->in[1], ht_out(axis, 0) };
	int32_t value = (int32_t)batch_dims;

	memcpy((void *)(uintptr_t)ht_const_tensor(in[2])->blob->p, &value, sizeof value);
	clear_attrs(n);
	ht_node_set_type(n, HT_STR("GatherV2"));
	ht_node_set_ins(n, in, 3);
	ht_attr_set_type(n, "Tparams", t->dtype);
	ht_attr_set_type(n, "Tindices", indices);
	ht_attr_set_type(n, "Taxis", HT_I32);
	ht_attr_set_int(n, "batch_dims", batch_dims);
	n->out[0] = (struct ht_type){ t->dtype, HT_SHAPE_UNKNOWN };
}

static void become_const(struct freezer *f, struct ht_node *n, enum ht_dtype t,
	struct ht_shape shape, struct ht_blob *b)
{
	struct ht_tensor *value = ht_tensor_sharing(f->g->arena, t, shape, b);

	clear_attrs(n);
	ht_node_set_type(n, HT_STR("Const"));
	ht_node_set_ins(n, NULL, 0);
	ht_attr_set_type(n, "dtype", t);
	ht_attr_set_tensor(n, "value", value);
	n->out[0] = (struct ht_type){ t, value->shape };
}

/* `n`, which asks whether the variable has a value, or for its shape, becomes a constant. */
static void become_known(struct freezer *f, struct ht_node *n, const struct ht_tensor *t)
{
	const int64_t rank = t->shape.rank;
	enum ht_dtype as = ht_attr_type(n, "out_type", HT_I32);
	struct ht_blob *b;

	if (n->op == HT_OP_VarIsInitializedOp) {
		b = ht_blob_in(f->c->scratch, 1);
		*(uint8_t *)(uintptr_t)b->p = 1;
		become_const(f, n, HT_BOOL, HT_SHAPE_SCALAR, b);
		return;
	}
	b = ht_blob_in(f->c->scratch, (size_t)rank * ht_dtype_info(as)->bytes);
	for (int64_t i = 0; i < rank; i++)
		if (as == HT_I32)
			((int32_t *)(uintptr_t)b->p)[i] = (int32_t)t->shape.dim[i];
		else
			((int64_t *)(uintptr_t)b->p)[i] = t->shape.dim[i];
	become_const(f, n, as, ht_shape_make(f->g->arena, 1, &rank), b);
}

/* Whether `n` asks for a fact about variable operand 0 that is known even if the graph changes
 * the variable. */
static bool asks_what_is_known(const struct freezer *f, const struct ht_node *n)
{
	return (n->op == HT_OP_VarIsInitializedOp || n->op == HT_OP_VariableShape) &&
	       n->in[0].node->id < f->ids;
}

static const struct ht_tensor *known_value(const struct freezer *f, const struct ht_node *v)
{
	return is_kept(f->handle[v->id]) ? ht_variable_value(f->handle[v->id])
	       : f->resource[v->id]      ? f->value[v->id]
					 : NULL;
}

static bool passes_on(const struct ht_node *n)
{
	return ht_is(n, HT_FORWARDS) && n->op != HT_OP_IdentityN;
}

/* An op, such as a loop, that could not be lowered even without a variable: each type is
 * reported once. */
static void add_never(struct freezer *f, const struct ht_node *n)
{
	struct ht_refusal *r;
	size_t i = 0;

	while (i < f->never.n && !ht_str_eq(f->never.item[i].type, n->type))
		i++;
	if (i == f->never.n) {
		f->never.item = ht_grow(f->c->scratch, f->never.item, f->never.n, &f->never.cap,
			sizeof *f->never.item);
		f->never.item[f->never.n++] = (struct ht_refusal){
			.type = n->type, .first = n->name, .why = ht_never_lowered(n)
		};
	}
	r = &f->never.item[i];
	r->nodes += !r->nodes || !ht_str_eq(f->last_never, n->name);
	f->last_never = n->name;
}

static void tell_never(struct freezer *f)
{
	for (size_t i = 0; i < f->never.n; i++) {
		const struct ht_refusal *r = &f->never.item[i];
		struct ht_buf text;

		ht_buf_init(&text, f->c->scratch);
		ht_refusal_print(r, &text);
		fail(f, HT_E_UNSUPPORTED, ht_graph_node(f->g, r->first), "op %.*s %.*s",
			HT_STR_ARG(r->type), (int)text.n, text.p);
	}
}

static void set_list_type(struct ht_node *n, const char *attr, int32_t item, enum ht_dtype t)
{
	struct ht_attr *a = ht_attr_own(n, attr);

	if (a && a->value.kind == HT_ATTR_LIST && a->value.list.kind == HT_ATTR_TYPE &&
		(size_t)item < a->value.list.n)
		a->value.list.item[item].type = t;
}

static int32_t count_args(const struct ht_function *f)
{
	int32_t n = 0;

	for (const struct ht_port *p = f->args; p; p = p->next)
		n++;
	return n;
}

/* Argument `arg` of `to` becomes the value of a variable. */
static void pass_value(
	struct freezer *f, struct ht_function *to, int32_t arg, const struct ht_tensor *t)
{
	struct ht_map_entry *e = ht_map_at(f->seen, to->name);
	struct passed *p = e->value;

	if (!p) {
		p = e->value = HT_NEW(f->c->scratch, struct passed);
		p->f = to;
		p->arg = HT_NEW_ARRAY(f->c->scratch, struct ht_tensor *, (size_t)count_args(to));
		p->next = f->todo;
		f->todo = p;
	}
	if (arg < count_args(to) && !p->arg[arg])
		p->arg[arg] = ht_tensor_new(f->c->scratch, t->dtype, HT_SHAPE_UNKNOWN, NULL);
}

static bool runs_functions(const struct ht_node *n)
{
	return ht_is(n, HT_BRANCHES | HT_LOOPS | HT_CALLS_ONE);
}

/* The branch, loop or call `n` passes `t` in place of a variable. */
static void freeze_passed(
	struct freezer *f, struct ht_node *n, int32_t operand, const struct ht_tensor *t)
{
	struct ht_bodies b = ht_control_bodies(n);
	int32_t arg = operand - ht_control_first(n);

	set_list_type(n, ht_is(n, HT_LOOPS) ? "T" : "Tin", arg, t->dtype);
	if (ht_is(n, HT_LOOPS) && arg < n->outs)
		n->out[arg] = (struct ht_type){ t->dtype, HT_SHAPE_UNKNOWN };
	for (int i = 0; i < 2; i++)
		if (b.of[i])
			pass_value(f, b.of[i], arg, t);
}

/* `n` takes a frozen variable as operand `i`. */
static void freeze_use(struct freezer *f, struct ht_node *n, int32_t i, bool resource)
{
	struct ht_tensor *t = f->value[n->in[i].node->id];

	if (resource && runs_functions(n) && i >= ht_control_first(n)) {
		freeze_passed(f, n, i, t);
	} else if (ht_is(n, HT_READS_VARIABLE)) {
		become_identity(f, n, t);
	} else if (passes_on(n)) {
		/* The use is a resource, or a reference that is written through: further
		 * attributes change. */
		ht_attr_set_type(n, "T", t->dtype);
		n->out[0] = (struct ht_type){ t->dtype, t->shape };
		if (resource)
			f->value[n->id] = t;
	} else if (n->op == HT_OP_ResourceGather && i == 0) {
		become_gather(f, n, t);
	} else if (n->op == HT_OP_ResourceGatherNd && i == 0) {
		become_gather_nd(n, t);
	} else if (resource && ht_never_lowered(n) && !ht_changes_variable(n)) {
		add_never(f, n);
	} else if (resource || (ht_changes_variable(n) && ht_takes_reference(n, i))) {
		fail(f, HT_E_UNSUPPORTED, n, "the variable '%.*s' is changed or passed on here",
			HT_STR_ARG(n->in[i].node->name));
	}
}

/* A SavedModel contains its variables; a graph for training has none yet. */
static void no_checkpoint(struct freezer *f)
{
	bool incomplete = f->g->source == HT_SOURCE_SAVEDMODEL;

	fail(f, incomplete ? HT_E_INPUT : HT_E_UNSUPPORTED, f->without,
		"the variable has no value (%zu such variable%s): %s", f->withouts,
		f->withouts == 1 ? "" : "s",
		incomplete ? "variables/variables.index is absent"
			   : "the model has no checkpoint, and initialisers are not run; give a "
			     "frozen graph or a SavedModel");
}

static void freeze_node(struct freezer *f, struct ht_node *n)
{
	if (is_variable(n)) {
		f->resource[n->id] = n->op == HT_OP_VarHandleOp;
		if (is_changed(f, n))
			keep_variable(f, n);
		else
			freeze_variable(f, n);
		return;
	}
	if (asks_what_is_known(f, n) && known_value(f, n->in[0].node)) {
		become_known(f, n, known_value(f, n->in[0].node));
		return;
	}
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_node *v = n->in[i].node;

		if (v->id < f->ids && is_kept(f->handle[v->id]) && !passes_on(n))
			n->in[i] = ht_out(f->handle[v->id], 0);
		if (v->id >= f->ids || !f->value[v->id])
			continue;
		if (f->resource[v->id] && passes_on(n))
			f->resource[n->id] = true;
		freeze_use(f, n, i, f->resource[v->id]);
	}
}

static void freeze_graph(struct freezer *f, struct ht_graph *g, const struct passed *args)
{
	int32_t arg = 0;

	f->g = g;
	f->ids = g->ids;
	f->resource = HT_NEW_ARRAY(f->c->scratch, bool, g->ids);
	f->handle = ht_variable_handles(g, f->c->scratch);
	f->value = HT_NEW_ARRAY(f->c->scratch, struct ht_tensor *, g->ids);
	for (struct ht_port *p = args ? args->f->args : NULL; p; p = p->next, arg++)
		if (args->arg[arg]) {
			ht_attr_set_type(p->value.node, "T", args->arg[arg]->dtype);
			f->resource[p->value.node->id] = true;
			set_result(f, p->value.node, args->arg[arg]);
		}
	for (struct ht_node *n = g->first; n; n = n->next)
		if (n->id < f->ids)
			freeze_node(f, n);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_map seen;
	struct freezer f = { .g = g, .c = c, .seen = &seen };

	if (c->keep_variables || (c->keep_changed && ht_changes_any(g)))
		return HT_OK;
	ht_map_init(&seen, c->scratch);
	ht_changed_variables(g, c->scratch, &f.changed);
	freeze_graph(&f, g, NULL);
	while (f.todo) {
		const struct passed *p = f.todo;

		f.todo = p->next;
		freeze_graph(&f, p->f->body, p);
	}
	f.g = g;
	tell_never(&f);
	if (f.without)
		no_checkpoint(&f);
	return f.status;
}

const struct ht_pass ht_pass_freeze = {
	.name = "freeze",
	.summary = "makes constants of variables",
	.run = run,
};
