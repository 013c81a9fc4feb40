/* Writes graphs: as imported, or with a policy's types and casts. */
#include "api/convert.h"

#include "precision/grappler/tensorflow_ops.h"
#include "precision/report/report.h"

struct convert {
	const struct ht_model *m;
	const struct ht_policy *policy;
	struct ht_convert_to to;
	struct ht_work *w;
	struct ht_diags *d;
};

/* TensorFlow asks for outputs by the names of nodes.  If clean-ups have replaced an output's
 * node, an Identity gets the name that the output was imported with. */
static void name_output(struct ht_graph *g, struct ht_port *p, struct ht_str name)
{
	struct ht_node *taken = ht_graph_node(g, name), *n;

	if (taken == p->value.node && !p->value.index)
		return;
	if (taken && taken->op == HT_OP_Identity && ht_value_eq(taken->in[0], p->value))
		return; /* two outputs are the same tensor */
	if (taken)
		ht_node_rename(taken, ht_graph_free_name(g, name));
	if (ht_type_of(p->value)->dtype == HT_INVALID) { /* the op is unknown */
		if (!p->value.index)
			ht_node_rename(p->value.node, name);
		return;
	}
	n = ht_node_new(g, HT_STR("Identity"), name);
	ht_node_set_ins(n, &p->value, 1);
	ht_attr_set_type(n, "T", ht_type_of(p->value)->dtype);
	ht_node_set_outs(n, 1);
	n->out[0] = *ht_type_of(p->value);
	p->value = ht_out(n, 0);
}

/* How many results the node `name` needs for the outputs that were imported as its results; 0 if
 * they still are. */
static int32_t lost_results(const struct ht_graph *g, const struct ht_port *was, struct ht_str name)
{
	int32_t count = 0;
	bool lost = false;

	for (const struct ht_port *p = g->entries->outputs; p; p = p->next, was = was->next) {
		if (!ht_str_eq(was->value.node->name, name))
			continue;
		if (was->value.index >= count)
			count = was->value.index + 1;
		lost |= p->value.node != ht_graph_node(g, name) ||
			p->value.index != was->value.index ||
			ht_type_of(p->value)->dtype == HT_INVALID;
	}
	return lost ? count : 0;
}

/* A placeholder value for results that are no outputs, which cannot be mistaken for the results
 * themselves. */
static struct ht_value nothing(struct ht_graph *g, struct ht_str name)
{
	static const int64_t none[1];

	return ht_out(ht_const_sharing(g,
			      ht_graph_free_name(g, ht_str_printf(g->arena, "%.*s/not_asked_for",
							    HT_STR_ARG(name))),
			      HT_F32, ht_shape_make(g->arena, 1, none), ht_blob_in(g->arena, 0)),
		0);
}

static void set_types(struct ht_node *n)
{
	struct ht_attr_value *list = ht_attr_set(n, "T");

	list->kind = HT_ATTR_LIST;
	list->list.kind = HT_ATTR_TYPE;
	list->list.n = (size_t)n->ins;
	list->list.item = HT_NEW_ARRAY(n->graph->arena, struct ht_attr_value, (size_t)n->ins);
	ht_node_set_outs(n, n->ins);
	for (int32_t i = 0; i < n->ins; i++) {
		n->out[i] = *ht_type_of(n->in[i]);
		list->list.item[i] =
			(struct ht_attr_value){ .kind = HT_ATTR_TYPE, .type = n->out[i].dtype };
	}
}

/* If outputs are several results of one node, an IdentityN gets its name. */
static void name_results(
	struct ht_graph *g, const struct ht_port *was, struct ht_str name, int32_t count)
{
	struct ht_value *in = HT_NEW_ARRAY(g->arena, struct ht_value, (size_t)count);
	struct ht_node *taken = ht_graph_node(g, name), *n;
	const struct ht_port *w = was;
	struct ht_value other = { 0 };

	for (struct ht_port *p = g->entries->outputs; p; p = p->next, w = w->next)
		if (ht_str_eq(w->value.node->name, name))
			in[w->value.index] = p->value;
	for (int32_t i = 0; i < count; i++) {
		if (in[i].node)
			continue;
		if (!other.node)
			other = nothing(g, name);
		in[i] = other;
	}
	if (taken)
		ht_node_rename(taken, ht_graph_free_name(g, name));
	n = ht_node_new(g, HT_STR("IdentityN"), name);
	ht_node_set_ins(n, in, count);
	set_types(n);
	w = was;
	for (struct ht_port *p = g->entries->outputs; p; p = p->next, w = w->next)
		if (ht_str_eq(w->value.node->name, name))
			p->value = ht_out(n, w->value.index);
}

static void name_outputs(struct ht_graph *g, const struct ht_model *m)
{
	const struct ht_port *was = m->entry->outputs;

	for (struct ht_port *p = g->entries->outputs; p; p = p->next, was = was->next) {
		struct ht_str name = was->value.node->name;
		int32_t count = lost_results(g, m->entry->outputs, name);

		if (count == 1)
			name_output(g, p, name);
		else if (count && ht_type_of(p->value)->dtype != HT_INVALID)
			name_results(g, m->entry->outputs, name, count);
	}
}

static bool places_are_there(struct ht_graph *g, const struct ht_attr *a)
{
	if (a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_STRING)
		return true;
	for (size_t i = 0; i < a->value.list.n; i++) {
		struct ht_str s = a->value.list.item[i].s;
		if (ht_str_starts(s, "loc:@") &&
			!ht_graph_node(g, (struct ht_str){ s.p + 5, s.n - 5 }))
			return false;
	}
	return true;
}

/* Removes attributes of nodes that no longer hold and for which TensorFlow would refuse the
 * graph: the node beside which to place a node, if that is gone; shapes from before the batch
 * was stated; pairs of functions and gradients, if some of them are gone. */
static void drop_notes(struct ht_graph *g)
{
	g->extra = (struct ht_str){ 0 };
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_attr *a = ht_attr_find(n, "_class");
		if (a && !places_are_there(g, a))
			ht_attr_remove(n, "_class");
		ht_attr_remove(n, "_output_shapes");
	}
}

/* The imported graph with the settings of the user: shapes of inputs, and the chosen outputs. */
static enum ht_status as_stated(struct convert *c, struct ht_graph **out)
{
	struct ht_pass_context passes = { .scratch = &c->w->scratch, .diags = c->d };
	struct ht_graph *g;

	HT_TRY(ht_model_check(c->m, c->w, c->d));
	HT_TRY(ht_model_copy_whole(c->m, c->w, HT_OPEN_KEEP, c->d, &g));
	passes.entry = g->entries;
	if (c->m->outputs_set || c->m->inputs_set)
		HT_TRY(ht_run_passes(g, "feeds,prune", NULL, &passes));
	if (c->m->wide) /* the signatures of functions have the imported types */
		HT_TRY(ht_run_passes(g, "prune,inline", NULL, &passes));
	*out = g;
	return HT_OK;
}

/* ---- ops that TensorFlow does not have ---- */

/* The vendor's TensorFlow adapter registers these ops. */
static bool is_vendors(const struct ht_node *n)
{
	return ht_str_starts(n->type, "Npu");
}

static bool is_foreign(const struct ht_node *n)
{
	const struct ht_tf_op *op = ht_tf_op_named(n->type);

	return n->op != HT_OP_OPAQUE && !(op && op->known) && !is_vendors(n);
}

static const struct ht_node *find_foreign(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (is_foreign(n))
			return n;
	for (const struct ht_function *f = g->functions; f; f = f->next)
		for (const struct ht_node *n = f->body->first; n; n = n->next)
			if (is_foreign(n))
				return n;
	return NULL;
}

/* Replaces ops that only this compiler has, and TF.js' fused ops, by ops of TensorFlow. */
static enum ht_status in_tensorflow_ops(
	struct convert *c, struct ht_graph *g, struct ht_pass_context *passes)
{
	const struct ht_node *n;

	if (find_foreign(g)) /* a graph that was not cleaned up has no types yet */
		HT_TRY(ht_run_passes(g, "infer", NULL, passes));
	HT_TRY(ht_run_passes(g, "expand_fused,framed_constants", NULL, passes));
	n = find_foreign(g);
	if (!n)
		return HT_OK;
	return ht_error(c->d, HT_E_UNSUPPORTED,
		(struct ht_where){ .path = g->path, .offset = -1, .node = n->name, .op = n->type },
		"TensorFlow has no such op, and it cannot be written in TensorFlow's ops");
}

/* ---- the graph to write ---- */

/* Whether the graph is written as imported.  A graph from another tool than TensorFlow must be
 * made loadable for TensorFlow, and a model for TF.js must not have variables or calls. */
static bool is_as_imported(const struct convert *c)
{
	const struct ht_graph *g = c->m->graph;

	if (c->policy)
		return false;
	return c->to.form == HT_CONVERT_TFJS ? g->source == HT_SOURCE_TFJS : true;
}

static enum ht_status imported(struct convert *c, const struct ht_graph **out)
{
	struct ht_pass_context passes = { .scratch = &c->w->scratch, .diags = c->d };
	const struct ht_graph *g = c->m->graph;
	bool expands = c->to.form != HT_CONVERT_TFJS && c->to.form != HT_CONVERT_HIR &&
		       (g->source == HT_SOURCE_TFJS || g->source == HT_SOURCE_NONE);
	struct ht_graph *copy;

	*out = g;
	if (!c->m->set && !expands)
		return HT_OK;
	HT_TRY(as_stated(c, &copy));
	*out = copy;
	passes.entry = copy->entries;
	if (!expands)
		return HT_OK;
	HT_TRY(in_tensorflow_ops(c, copy, &passes));
	name_outputs(copy, c->m);
	return HT_OK;
}

static bool graph_computes_sizes(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_COMPUTES_SIZE | HT_SIZED_BY_ELEMENTS))
			return true;
	return false;
}

static bool computes_sizes(const struct ht_graph *g)
{
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (graph_computes_sizes(f->body))
			return true;
	return graph_computes_sizes(g);
}

/* Values that follow from known sizes are folded, which changes the neighbours of nodes.  A
 * policy therefore decides as it would for a program, whose sizes are known or bounded. */
static bool needs_sizes(const struct convert *c)
{
	return c->policy && !ht_policy_paints(c->policy) &&
	       (ht_model_is_open(c->m) || computes_sizes(c->m->graph));
}

/* The function of a body that was copied, since sizes reach it; NULL: there is none. */
static const struct ht_function *copied_body(const struct ht_graph *g)
{
	for (const struct ht_function *f = g->functions; f; f = f->next)
		if (f->special)
			return f;
	return NULL;
}

/* Decisions on copies of bodies do not tell what is decided on the bodies that are written, so these are decided on as in the imported graph. */
static void say_without_sizes(
	const struct ht_graph *g, const struct ht_function *f, struct ht_diags *d)
{
	const bool open = ht_has_open_inputs(g), computed = ht_first_computed_size(g);

	ht_note(d, (struct ht_where){ .path = g->path, .offset = -1 },
		"sizes that are %s reach the branch or loop of function '%.*s': the policy decides on this graph without knowing sizes, "
		"and its decisions may differ from those on a program%s",
		!computed ? "open"
		: open    ? "open, or known only when it runs,"
			  : "known only when it runs",
		HT_STR_ARG(f->name), open ? "; state sizes with --input-shape" : "");
}

/* Decides on a copy where open first dimensions are one row and computed sizes have bounds; opt->policy decides the same once more. */
static enum ht_status decide_with_sizes(struct convert *c, struct ht_compile_options *opt)
{
	struct ht_lowering *l = HT_NEW(&c->w->arena, struct ht_lowering);
	struct ht_policy *again = HT_NEW(&c->w->arena, struct ht_policy);
	const struct ht_function *copied;

	HT_TRY(ht_lowering_decide(c->m, opt, HT_UPTO_WRITTEN, c->w, c->d, l));
	copied = copied_body(l->graph);
	if (copied) {
		say_without_sizes(l->graph, copied, c->d);
		return HT_OK;
	}
	ht_report_of_decisions(again, opt->policy, &l->decisions, &c->w->arena);
	opt->policy = again;
	return HT_OK;
}

/* States TensorFlow's default attributes, which TF.js does not know. */
static void state_defaults(struct ht_graph *g)
{
	static const int64_t ones[] = { 1, 1, 1, 1, 1 };

	for (struct ht_node *n = g->first; n; n = n->next) {
		bool volume = ht_str_is(n->type, "Conv3D");
		if ((volume || n->op == HT_OP_Conv2D || n->op == HT_OP_DepthwiseConv2dNative) &&
			!ht_attr_find(n, "dilations"))
			ht_attr_set_ints(n, "dilations", ones, volume ? 5 : 4);
		if (n->op == HT_OP_DepthToSpace && !ht_attr_find(n, "data_format"))
			ht_attr_set_str(n, "data_format", HT_STR("NHWC"));
		if (n->op == HT_OP_TopKV2 && !ht_attr_find(n, "sorted"))
			ht_attr_set_bool(n, "sorted", true);
		if (ht_str_is(n->type, "CropAndResize") && !ht_attr_find(n, "method"))
			ht_attr_set_str(n, "method", HT_STR("bilinear"));
	}
}

static enum ht_status decided(struct convert *c, const struct ht_graph **out)
{
	struct ht_compile_options opt = HT_COMPILE_OPTIONS_INIT;
	struct ht_lowering *l = HT_NEW(&c->w->arena, struct ht_lowering);

	opt.policy = c->policy;
	HT_TRY(ht_compile_options_of(&opt, c->d, &opt));
	if (needs_sizes(c))
		HT_TRY(decide_with_sizes(c, &opt));
	HT_TRY(ht_lowering_run(c->m, &opt, HT_OPEN_KEEP, HT_UPTO_PRECISION, NULL, c->w, c->d, l));
	HT_TRY(in_tensorflow_ops(c, l->graph, &l->passes));
	name_outputs(l->graph, c->m);
	drop_notes(l->graph);
	if (c->to.form == HT_CONVERT_TFJS)
		state_defaults(l->graph);
	*out = l->graph;
	return HT_OK;
}

/* Refuses ops that TensorFlow does not have in float64, and remaining functions: in a file, the
 * signatures of ops and functions define their types. */
static enum ht_status check_wide(struct ht_graph *g, struct ht_diags *d)
{
	g->wide = false;
	HT_TRY(ht_verify(g, d));
	if (g->functions)
		return ht_error(d, HT_E_UNSUPPORTED,
			(struct ht_where){ .path = g->path, .offset = -1 },
			"function '%.*s' is not called at one place: the float64 variant of such a graph can be compiled, but not written",
			HT_STR_ARG(g->functions->name));
	return HT_OK;
}

/* TensorFlow has no op that rounds to an arbitrary number format. */
static enum ht_status check_formats(const struct convert *c)
{
	for (size_t i = 0; c->policy && c->to.form != HT_CONVERT_HIR && i < c->policy->emulations;
		i++)
		if (c->policy->emulation[i].native == HT_INVALID)
			return ht_error(c->d, HT_E_UNSUPPORTED, HT_NOWHERE,
				"policy '%s': TensorFlow has no ops for formats that are emulated; a .hir file can have them",
				ht_policy_label(c->policy));
	return HT_OK;
}

static enum ht_status convert(void *arg)
{
	struct convert *c = arg;
	const struct ht_graph *g;

	c->to.work = &c->w->arena;
	c->to.diags = c->d;
	HT_TRY(ht_convert_check(&c->to, c->m));
	c->to.as_imported = is_as_imported(c);
	HT_TRY(check_formats(c));
	HT_TRY(c->to.as_imported ? imported(c, &g) : decided(c, &g));
	if (c->m->wide)
		HT_TRY(check_wide((struct ht_graph *)(uintptr_t)g, c->d));
	return ht_convert_write(&c->to, c->m, g);
}

enum ht_status ht_convert(const struct ht_model *m, const struct ht_policy *policy,
	const char *path, struct ht_diags *d)
{
	struct ht_work w;
	struct convert c = { .m = m, .policy = policy, .to.path = path, .w = &w, .d = d };

	return ht_work_run(&w, convert, &c, d);
}
