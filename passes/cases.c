/* cases: a Case becomes nested branches; so does the form into which TensorFlow lowers it
 * (switch_n.c).
 *
 * The index is compared with the middle of the remaining branches, so N branches are about
 * log2(N) deep.  A branch_index that is negative or too large runs the last branch, as in
 * TensorFlow.  Each half is a function of the index and the operands; a single branch is a call
 * of its function, which pass `inline` expands. */
#include "passes/cases.h"
#include "passes/outline.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

#include <string.h>

struct choice {
	struct ht_graph *g;
	struct ht_arena *scratch;
	struct ht_node *from;               /* the Case */
	const struct ht_attr_value *branch; /* the functions of its branches */
	bool stateless;
	int32_t ins;       /* number of operands besides the index */
	enum ht_dtype *in; /* I32 for the index, then the operands' types */
};

struct ht_node *ht_case_node(struct ht_graph *g, struct ht_node *from, struct ht_str type,
	const char *name, const struct ht_value *in, int32_t ins)
{
	struct ht_str whole = ht_str_printf(g->arena, "%.*s/%s", HT_STR_ARG(from->name), name);
	struct ht_node *n = ht_node_new(g, type, ht_graph_free_name(g, whole));

	n->device = from->device;
	ht_node_add_origin(n, from);
	ht_node_set_ins(n, in, ins);
	if (g == from->graph)
		ht_node_move(n, from);
	return n;
}

static struct ht_value scalar(struct ht_node *n, enum ht_dtype t)
{
	ht_attr_set_type(n, "T", HT_I32);
	ht_node_set_outs(n, 1);
	n->out[0] = (struct ht_type){ t, HT_SHAPE_SCALAR };
	return ht_out(n, 0);
}

static struct ht_value number(struct ht_graph *g, struct ht_node *from, int32_t v)
{
	struct ht_blob *b = ht_blob_in(g->arena, sizeof v);
	struct ht_str name = ht_str_printf(g->arena, "%.*s/number", HT_STR_ARG(from->name));
	struct ht_node *n;

	memcpy((void *)(uintptr_t)b->p, &v, sizeof v);
	n = ht_const_sharing(g, ht_graph_free_name(g, name), HT_I32, HT_SHAPE_SCALAR, b);
	if (g == from->graph)
		ht_node_move(n, from);
	return ht_out(n, 0);
}

struct ht_value ht_case_less(
	struct ht_graph *g, struct ht_node *from, struct ht_value index, int32_t than)
{
	struct ht_value in[] = { index, number(g, from, than) };

	return scalar(ht_case_node(g, from, HT_STR("Less"), "less", in, 2), HT_BOOL);
}

struct ht_value ht_case_index(struct ht_node *from, struct ht_value index, int32_t branches)
{
	struct ht_graph *g = from->graph;
	struct ht_node *only = ht_case_node(g, from, HT_STR("EnsureShape"), "scalar", &index, 1);
	struct ht_value in[3];

	ht_attr_set_shape(only, "shape", HT_SHAPE_SCALAR);
	in[2] = scalar(only, HT_I32);
	in[0] = ht_case_less(g, from, in[2], 0);
	in[1] = number(g, from, branches - 1);
	return scalar(ht_case_node(g, from, HT_STR("SelectV2"), "index", in, 3), HT_I32);
}

static void set_results(const struct choice *x, struct ht_node *n)
{
	ht_node_set_outs(n, x->from->outs);
	for (int32_t i = 0; i < n->outs; i++)
		n->out[i] = x->from->out[i];
	ht_rw_copy_attr(n, x->from, "Tout");
}

static struct ht_function *half(const struct choice *x, int32_t from, int32_t to);

/* Makes `n` run one of the branches from `from` to before `to`; `in`: the index and the
 * operands. */
static void become_if(const struct choice *x, struct ht_node *n, const struct ht_value *in,
	int32_t from, int32_t to)
{
	int32_t middle = ht_middle_case(from, to);
	struct ht_value *with = HT_NEW_ARRAY(x->scratch, struct ht_value, (size_t)x->ins + 2);

	with[0] = ht_case_less(n->graph, x->from, in[0], middle);
	memcpy(with + 1, in, ((size_t)x->ins + 1) * sizeof *in);
	ht_node_set_ins(n, with, x->ins + 2);
	ht_attr_set_type(n, "Tcond", HT_BOOL);
	ht_attr_set_types(n, "Tin", x->in, x->ins + 1);
	ht_attr_set_function(n, "then_branch", half(x, from, middle)->name);
	ht_attr_set_function(n, "else_branch", half(x, middle < to ? middle : from, to)->name);
}

static void call_branch(
	const struct choice *x, struct ht_node *n, int32_t branch, const struct ht_value *in)
{
	ht_node_set_ins(n, in + 1, x->ins);
	ht_attr_set_types(n, "Tin", x->in + 1, x->ins);
	*ht_attr_set(n, "f") = x->branch[branch];
}

static struct ht_value *make_arguments(const struct choice *x, struct ht_function *f)
{
	struct ht_value *arg = HT_NEW_ARRAY(x->scratch, struct ht_value, (size_t)x->ins + 1);
	struct ht_port **end = &f->args;

	for (int32_t i = 0; i <= x->ins; i++)
		arg[i] = ht_function_add_arg(f, &end, x->in[i], i);
	return arg;
}

/* A function of the index and the operands that runs one of these branches. */
static struct ht_function *half(const struct choice *x, int32_t from, int32_t to)
{
	struct ht_graph *library = x->g->library;
	struct ht_str name =
		ht_str_printf(x->scratch, "%.*s_%d", HT_STR_ARG(x->from->name), (int)from);
	struct ht_function *f =
		ht_function_new(library, ht_graph_free_function_name(library, name));
	const struct ht_value *arg = make_arguments(x, f);
	struct ht_port **end = &f->rets;
	bool one = to - from == 1;
	struct ht_node *n = ht_case_node(f->body, x->from,
		one ? (x->stateless ? HT_STR("PartitionedCall") : HT_STR("StatefulPartitionedCall"))
		    : (x->stateless ? HT_STR("StatelessIf") : HT_STR("If")),
		"branch", NULL, 0);

	set_results(x, n);
	if (one)
		call_branch(x, n, from, arg);
	else
		become_if(x, n, arg, from, to);
	ht_node_move(n, NULL);
	for (int32_t i = 0; i < n->outs; i++)
		ht_function_add_ret(f, &end, ht_out(n, i));
	return f;
}

/* ---- the pass ---- */

static enum ht_status check(
	const struct ht_node *n, const struct ht_attr *branches, struct ht_diags *d)
{
	struct ht_where at = HT_NOWHERE;
	const struct ht_attr *types = ht_attr_find(n, "Tin");

	at.path = n->graph->library->path;
	at.node = n->name;
	at.op = n->type;
	if (!branches || branches->value.kind != HT_ATTR_LIST || !branches->value.list.n ||
		branches->value.list.kind != HT_ATTR_FUNC)
		return ht_error(d, HT_E_INPUT, at,
			"has no branches: attribute 'branches' names no function");
	for (size_t i = 0; i < branches->value.list.n; i++)
		if (!ht_graph_function(n->graph->library, branches->value.list.item[i].func->name))
			return ht_error(d, HT_E_UNSUPPORTED, at,
				"runs a function that the model does not have: '%.*s'",
				HT_STR_ARG(branches->value.list.item[i].func->name));
	if (!types || types->value.kind != HT_ATTR_LIST ||
		types->value.list.n != (size_t)n->ins - 1)
		return ht_error(d, HT_E_INPUT, at,
			"attribute 'Tin' does not list the types of its %d operands behind the index",
			(int)n->ins - 1);
	return HT_OK;
}

static enum ht_status convert(struct ht_graph *g, struct ht_node *n, struct ht_pass_context *c)
{
	const struct ht_attr *branches = ht_attr_find(n, "branches"), *in = ht_attr_find(n, "Tin");
	struct choice x = { .g = g, .scratch = c->scratch, .from = n, .ins = n->ins - 1 };
	struct ht_value *with;
	int32_t count;

	HT_TRY(check(n, branches, c->diags));
	count = (int32_t)branches->value.list.n;
	x.branch = branches->value.list.item;
	x.stateless = n->op == HT_OP_StatelessCase;
	x.in = HT_NEW_ARRAY(c->scratch, enum ht_dtype, (size_t)x.ins + 1);
	x.in[0] = HT_I32;
	for (int32_t i = 0; i < x.ins; i++)
		x.in[i + 1] = in->value.list.item[i].type;
	with = HT_NEW_ARRAY(c->scratch, struct ht_value, (size_t)x.ins + 1);
	memcpy(with, n->in, ((size_t)x.ins + 1) * sizeof *with);
	with[0] = ht_case_index(n, n->in[0], count);
	become_if(&x, n, with, 0, count);
	ht_node_set_type(n, x.stateless ? HT_STR("StatelessIf") : HT_STR("If"));
	ht_attr_remove(n, "branches");
	return HT_OK;
}

static enum ht_status convert_all(
	struct ht_graph *g, struct ht_graph *body, struct ht_pass_context *c)
{
	ht_split_switches(body, c->scratch);
	for (struct ht_node *n = body->first; n; n = n->next)
		if (n->op == HT_OP_Case || n->op == HT_OP_StatelessCase)
			HT_TRY(convert(g, n, c));
	return HT_OK;
}

/* Functions that the pass makes are appended to the list, and have no Case. */
static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	HT_TRY(convert_all(g, g, c));
	for (struct ht_function *f = g->functions; f; f = f->next)
		HT_TRY(convert_all(g, f->body, c));
	return HT_OK;
}

const struct ht_pass ht_pass_cases = {
	.name = "cases",
	.summary = "makes branches in each other of Case",
	.run = run,
};
