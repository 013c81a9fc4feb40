/* sizes: inputs whose first dimension is open (struct ht_port) get the size that one part has.
 *
 * Until this pass, that dimension is a symbol.  Values that are computed from shapes only are
 * followed through the graph as multiples of it (ir/symbol.c).  Those that do not depend on it
 * become constants; those that do may be used as shapes only.  Every result that depends on an
 * input's rows must have a multiple of them as its first dimension.  So the remaining graph
 * computes each row independently of the number of rows, as far as lower/parts.c finds that rows
 * are independent.
 *
 * If other dimensions are open too, or a size depends on data, all sizes have bounds: bounded.c,
 * computed.c. */
#include "ir/infer.h"
#include "passes/bounded.h"
#include "passes/computed.h"
#include "passes/lists.h"
#include "passes/rewrite.h"

struct sizes {
	struct ht_rw r;
	struct ht_known **known;
	bool *rows;   /* by node id: results depend on rows of an input */
	bool *counts; /* by node id: results depend on the number of rows */
};

static struct ht_where at_node(const struct sizes *s, const struct ht_node *n)
{
	return (struct ht_where){
		.path = s->r.g->path, .node = n->name, .op = n->type, .offset = -1
	};
}

/* ---- which results depend on the number of rows ---- */

static bool all_known(const struct sizes *s, const struct ht_node *n, int32_t i)
{
	const struct ht_known *k = s->known[n->id] ? &s->known[n->id][i] : NULL;
	int64_t count = ht_shape_count(n->out[i].shape);

	if (!k || !k->e || count < 0 || count > k->n)
		return false;
	for (int64_t j = 0; j < count; j++)
		if (k->e[j].kind != HT_ELEM_INT)
			return false;
	return true;
}

static struct ht_value constant_of(struct sizes *s, struct ht_node *n)
{
	const struct ht_known *k = &s->known[n->id][0];
	int64_t *v = HT_NEW_ARRAY(s->r.arena, int64_t, (size_t)k->n);

	for (int32_t i = 0; i < k->n; i++)
		v[i] = k->e[i].i;
	if (n->out[0].shape.rank == 0)
		return ht_rw_scalar(&s->r, n, n->name, n->out[0].dtype, v[0]);
	return ht_rw_const_ints(
		&s->r, n, n->name, n->out[0].dtype, v, ht_shape_count(n->out[0].shape));
}

static bool is_count(const struct sizes *s, struct ht_value v)
{
	return !ht_is(v.node, HT_CONSTANT) && s->counts[v.node->id];
}

static bool is_by_rows(const struct sizes *s, struct ht_value v)
{
	return !ht_is(v.node, HT_CONSTANT) && s->rows[v.node->id];
}

/* Whether the result depends on operand `i` as a shape, and not as a value. */
static bool is_shape_of_result(const struct ht_node *n, int32_t i)
{
	return ht_is(n, HT_SHAPED_BY_SECOND) && i == 1;
}

static bool depends_on_count(const struct sizes *s, const struct ht_node *n)
{
	if (ht_is(n, HT_TELLS_SHAPE)) {
		for (int32_t i = 0; i < n->outs; i++)
			if (!all_known(s, n, i))
				return true;
		return false;
	}
	for (int32_t i = 0; i < n->ins; i++)
		if (is_count(s, n->in[i]) && !is_shape_of_result(n, i))
			return true;
	return false;
}

static bool depends_on_rows(const struct sizes *s, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins && !ht_is(n, HT_TELLS_SHAPE); i++)
		if (is_by_rows(s, n->in[i]))
			return true;
	return false;
}

/* ---- checks of every node ---- */

static bool has_rows_first(const struct sizes *s, struct ht_shape shape)
{
	struct ht_size_expr first;

	if (shape.rank < 1)
		return false;
	first = ht_dim_product(s->r.g, shape.dim[0]);
	for (int32_t i = 1; i < shape.rank; i++)
		if (shape.dim[i] < 0)
			return false;
	return ht_size_count(&first) > 0;
}

/* The shape as text, with ? for each open dimension. */
static struct ht_str shape_text(const struct sizes *s, struct ht_shape shape)
{
	int64_t dim[HT_MAX_RANK];
	struct ht_buf b;

	for (int32_t i = 0; i < shape.rank; i++)
		dim[i] = shape.dim[i] < 0 ? HT_DIM_UNKNOWN : shape.dim[i];
	ht_buf_init(&b, s->r.arena);
	ht_shape_print((struct ht_shape){ shape.rank, dim }, &b);
	return ht_buf_str(&b);
}

static enum ht_status check_rows(const struct sizes *s, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++) {
		if (has_rows_first(s, n->out[i].shape) ||
			!ht_rw_uses(&s->r, ht_out((struct ht_node *)(uintptr_t)n, i)))
			continue;
		return ht_error(s->r.c->diags, HT_E_UNSUPPORTED, at_node(s, n),
			"the first dimension of an input is open, but the shape of this result, %.*s, "
			"does not have it as its first and only open dimension; state a size with "
			"--input-shape",
			HT_STR_ARG(shape_text(s, n->out[i].shape)));
	}
	return HT_OK;
}

/* Refuses an open size of a result that depends on no row: it could be mistaken for rows of
 * another. */
static enum ht_status check_others(const struct sizes *s, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		for (int32_t k = 0; k < n->out[i].shape.rank; k++)
			if (n->out[i].shape.dim[k] < HT_DIM_UNKNOWN)
				return ht_error(s->r.c->diags, HT_E_UNSUPPORTED, at_node(s, n),
					"the first dimension of an input is open, and this has as many "
					"elements without being computed of it, which is not supported "
					"so far; state a size with --input-shape");
	return HT_OK;
}

static enum ht_status visit(struct sizes *s, struct ht_node *n)
{
	bool rows, counts;

	if (ht_is(n, HT_CONSTANT))
		return HT_OK;
	rows = s->rows[n->id] || depends_on_rows(s, n);
	counts = depends_on_count(s, n);
	if (n->outs == 1 && !n->controls && !rows && n->out[0].shape.rank <= 1 &&
		(counts || ht_is(n, HT_TELLS_SHAPE)) && all_known(s, n, 0)) {
		ht_rw_replace_node(&s->r, n, constant_of(s, n));
		return HT_OK;
	}
	s->rows[n->id] = rows;
	s->counts[n->id] = counts;
	if (counts && (rows || (ht_op_info(n->op)->effects & HT_ORDERED) ||
			      ht_rw_is_output(&s->r, ht_out(n, 0))))
		return ht_error(s->r.c->diags, HT_E_UNSUPPORTED, at_node(s, n),
			"the first dimension of an input is open, and this computes with its size, "
			"which only shapes may so far; state a size with --input-shape");
	if (!rows && !counts)
		return check_others(s, n);
	return rows ? check_rows(s, n) : HT_OK;
}

/* ---- one part ---- */

static void close_input(struct ht_node *n)
{
	int64_t dim[HT_MAX_RANK];
	struct ht_shape s = n->out[0].shape;

	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = i ? s.dim[i] : HT_PART_ROWS;
	s = ht_shape_make(n->graph->arena, s.rank, dim);
	ht_attr_set_shape(n, "shape", s);
	n->out[0].shape = s;
}

static bool is_open(const struct ht_entry *e)
{
	for (const struct ht_port *p = e->inputs; p; p = p->next)
		if (p->open)
			return true;
	return false;
}

/* ---- within bounds ---- */

static bool is_size(const struct ht_known *k)
{
	for (int32_t i = 0; k && k->e && i < k->n; i++)
		if (k->e[i].kind == HT_ELEM_DIM)
			return true;
	return false;
}

static bool is_handle(enum ht_dtype t)
{
	return t == HT_VARIANT || t == HT_RESOURCE;
}

/* A branch, a loop, a list, or what TensorFlow 1 makes these of. */
static bool is_control(const struct ht_node *n)
{
	if ((ht_op_info(n->op)->effects & HT_CALLS) ||
		ht_is(n, HT_SWITCHES | HT_DISPATCHES | HT_MERGES | HT_ENTERS | HT_ITERATES))
		return true;
	for (int32_t i = 0; i < n->outs; i++)
		if (is_handle(n->out[i].dtype))
			return true;
	for (int32_t i = 0; i < n->ins; i++)
		if (is_handle(ht_type_of(n->in[i])->dtype))
			return true;
	return false;
}

/* Whether the node takes a tensor of an open size, or the size. */
static bool takes_open(
	const struct ht_graph *g, struct ht_known *const *known, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_value v = n->in[i];
		const struct ht_known *k = known[v.node->id];

		if (ht_shape_is_open(g, ht_type_of(v)->shape) || (k && is_size(&k[v.index])))
			return true;
	}
	return false;
}

/* Whether an array of TensorFlow 1 gives a tensor of unknown shape, which is known when the array is a tensor. */
static bool reads_unknown(const struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (!ht_shape_is_told(n->out[i].shape))
			return ht_reads_array(n);
	return false;
}

/* Whether a node computes a size that has no bound so far, of what a loop puts into an array, say. */
static bool waits_for_bodies(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_computes_size(n) && !ht_computed_size(g, n) && ht_may_follow_control(n, 0))
			return true;
	return false;
}

/* Whether bodies of branches and loops compute sizes, or may tell bounds of sizes, or how long lists are. */
static bool may_compute(const struct ht_graph *g, const struct ht_pass_context *c)
{
	return !c->keep_functions &&
	       (ht_computes_within(g, c->scratch) || waits_for_bodies(g) || ht_takes_filled(g));
}

/* Branches and loops of TensorFlow 1 become functions. */
#define FUNCTIONS "tensor_arrays,prune,cases,functional"

/* Sets *reached if open sizes reach branches and loops, or these may compute sizes, or an array gives a tensor of unknown shape. */
static enum ht_status reach_bodies(struct ht_graph *g, struct ht_pass_context *c, bool *reached)
{
	struct ht_map all;

	HT_TRY(ht_infer_types(g, c->diags));
	*reached = may_compute(g, c);
	HT_TRY(ht_infer_all_known(g, c->scratch, c->diags, false, &all));
	for (const struct ht_node *n = g->first; n; n = n->next)
		*reached = *reached || reads_unknown(n) ||
			   (is_control(n) && takes_open(g, ht_known_of(&all, g), n));
	*reached = *reached || (!c->keep_functions && ht_needs_own_bodies(g, c));
	return HT_OK;
}

static enum ht_status make_bodies(struct ht_graph *g, struct ht_pass_context *c)
{
	bool reached;

	HT_TRY(reach_bodies(g, c, &reached));
	if (!reached)
		return HT_OK;
	HT_TRY(ht_run_passes(g, FUNCTIONS, NULL, c));
	return ht_open_bodies(g, c);
}

/* Also before types are known. */
static bool has_control(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (is_control(n) || ht_is_list_op(n))
			return true;
	return false;
}

/* Likewise where no input is open.  How often loops run, and so how long arrays are, follows from constants.  Where arrays are tensors,
 * data may decide on more sizes. */
static enum ht_status make_bodies_of_fixed(struct ht_graph *g, struct ht_pass_context *c)
{
	if (!has_control(g))
		return HT_OK;
	HT_TRY(ht_infer_types(g, c->diags));
	if (!g->sizes && !may_compute(g, c) && (c->keep_functions || !ht_needs_own_bodies(g, c)))
		return HT_OK;
	HT_TRY(ht_run_passes(g, "fold,infer,identity", NULL, c));
	return make_bodies(g, c);
}

/* Whether a node that computes a size may be in a loop or a branch of TensorFlow 1.  Such a node depends on an Enter or a Switch. */
static bool may_compute_in_frames(const struct ht_graph *g, struct ht_arena *scratch)
{
	bool *needed = HT_NEW_ARRAY(scratch, bool, g->ids);
	bool begins = false;

	for (const struct ht_node *n = g->first; n; n = n->next)
		needed[n->id] = ht_may_compute_size(n) || ht_may_grow(n);
	ht_mark_operands(g, needed, true);
	for (const struct ht_node *n = g->first; n; n = n->next)
		begins = begins ||
			 (needed[n->id] && ht_is(n, HT_SWITCHES | HT_DISPATCHES | HT_ENTERS));
	return begins;
}

static bool has_frames(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_SWITCHES | HT_DISPATCHES | HT_ENTERS))
			return true;
	return false;
}

/* Nodes that compute sizes in loops and branches of TensorFlow 1 are in bodies before sizes are numbered, and so are those that read open sizes
 * before comparisons of these are put beside them: a branch that is not taken compares nothing. */
static enum ht_status make_functions(struct ht_graph *g, struct ht_pass_context *c)
{
	bool reached = false;

	if (c->keep_functions || !has_frames(g))
		return HT_OK;
	HT_TRY(ht_infer_types(g, c->diags));
	if (g->sizes) {
		HT_TRY(reach_bodies(g, c, &reached));
		if (reached)
			return ht_run_passes(g, FUNCTIONS, NULL, c);
	}
	if (!may_compute_in_frames(g, c->scratch))
		return HT_OK;
	/* A branch that is never taken may be all that has another extent. */
	HT_TRY(ht_run_passes(g, "fold,infer,branches,prune", NULL, c));
	return may_compute_in_frames(g, c->scratch) ? ht_run_passes(g, FUNCTIONS, NULL, c) : HT_OK;
}

/* Graphs that `convert` writes say what the model says; TensorFlow compares itself. */
static enum ht_status compare_stated(struct ht_graph *g, struct ht_pass_context *c)
{
	return c->keep_functions || c->keep_computed_sizes ? HT_OK
							   : ht_run_passes(g, "stated", NULL, c);
}

/* Bodies are made where sizes are known to be open: which further sizes data decide follows from the types in them.  Shapes and axes that are
 * computed of constants are folded first. */
static enum ht_status run_bounded(struct ht_graph *g, struct ht_pass_context *c)
{
	bool open = g->sizes;

	if (open && !c->keep_functions)
		HT_TRY(ht_run_passes(g, "infer,fold", NULL, c));
	if (!c->keep_computed_sizes) {
		HT_TRY(make_functions(g, c));
		HT_TRY(ht_add_computed_sizes(g, c, false));
	}
	if (open)
		HT_TRY(make_bodies(g, c));
	else if (!c->keep_computed_sizes)
		HT_TRY(make_bodies_of_fixed(g, c));
	if (!c->keep_computed_sizes)
		HT_TRY(ht_add_computed_sizes(g, c, true));
	HT_TRY(compare_stated(g, c));
	return g->sizes ? ht_bound_sizes(g, c) : HT_OK;
}

/* A file may have attributes of the names by which this pass tells others of sizes; there they mean nothing. */
static void drop_attributes(struct ht_graph *g)
{
	static const char *const names[] = { "_open", "_ends", "_within", "_sizes", "_enough",
		"_rows", "_element", "_bounded" };

	for (struct ht_node *n = g->first; n; n = n->next)
		for (size_t i = 0; i < HT_COUNT(names); i++)
			if (ht_attr_find(n, names[i]))
				ht_attr_remove(n, names[i]);
}

static void drop_all_attributes(struct ht_graph *g)
{
	drop_attributes(g);
	for (struct ht_function *f = g->functions; f; f = f->next)
		if (f->body)
			drop_attributes(f->body);
}

static enum ht_status run(struct ht_graph *g, struct ht_pass_context *c)
{
	struct sizes s = { 0 };
	struct ht_node **all;
	size_t n;

	if (!c->entry)
		return HT_OK;
	drop_all_attributes(g);
	if (!is_open(c->entry))
		return run_bounded(g, c);
	HT_TRY(compare_stated(g, c));
	ht_rw_init(&s.r, g, c);
	HT_TRY(ht_infer_known(g, s.r.arena, c->diags, &s.known));
	s.rows = HT_NEW_ARRAY(s.r.arena, bool, g->ids);
	s.counts = HT_NEW_ARRAY(s.r.arena, bool, g->ids);
	for (const struct ht_port *p = c->entry->inputs; p; p = p->next)
		s.rows[p->value.node->id] = p->open;
	all = ht_rw_nodes(&s.r, &n);
	for (size_t i = 0; i < n; i++)
		if (all[i]->graph)
			HT_TRY(visit(&s, all[i]));
	for (const struct ht_port *p = c->entry->inputs; p; p = p->next)
		if (p->open)
			close_input(p->value.node);
	return ht_infer_types(g, c->diags);
}

const struct ht_pass ht_pass_sizes = {
	.name = "sizes",
	.summary = "gives open first dimensions of inputs the size of one part",
	.run = run,
};
