/* Sizes that a run computes, for pass sizes: the number of elements that Where finds, and so on.
 * The program computes some, and the bodies of branches and loops others, each time that they run.
 *
 * Each is a size of the graph besides those of inputs (struct ht_open_size).  It is between 0
 * and a bound that follows from the operands of its node.  Nodes that compute the same size are
 * merged first, since different sizes never count as equal. */
#include "ir/infer.h"
#include "passes/bounded.h"
#include "passes/computed_nodes.h"

int64_t ht_default_room(const struct ht_graph *g)
{
	enum { LEAST = 1024 };
	const struct ht_graph *program = g->library;
	int64_t most = LEAST;

	for (int32_t i = 0; i < program->sizes; i++)
		if (program->size[i].most > most)
			most = program->size[i].most;
	return most < MOST_COUNT ? most : MOST_COUNT;
}

/* Elements at the largest sizes; -1: unknown, or too large for a size. */
static int64_t most_elements(const struct ht_graph *g, struct ht_shape s)
{
	int64_t n = s.rank < 0 ? -1 : 1;

	for (int32_t i = 0; i < s.rank && n >= 0; i++) {
		int64_t most = ht_dim_most(g, s.dim[i]);

		if (most < 0 || __builtin_mul_overflow(n, most, &n) || n > INT32_MAX)
			n = -1;
	}
	return n;
}

/* The most slices along the axis of a Unique; -1: unknown. */
static int64_t most_slices(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 0);
	int64_t axis = 0;
	int count = 0;

	if (n->ins > 1 && !ht_const_small_ints(n->in[1], &axis, 1, &count))
		return -1;
	return s.rank > 0 && ht_fix_axis(&axis, s.rank) ? ht_dim_most(g, s.dim[axis]) : -1;
}

/* The most boxes that can be selected; -1: unknown. */
static int64_t most_boxes(const struct ht_graph *g, const struct ht_node *n)
{
	struct ht_shape s = ht_in_shape(n, 1);
	int64_t boxes = s.rank == 1 ? ht_dim_most(g, s.dim[0]) : -1;
	struct ht_span most;

	if (!ht_span_of(g, n->in[2], &most) || most.most < 0 || most.most == INT32_MAX)
		return boxes;
	return boxes < 0 || most.most < boxes ? most.most : boxes;
}

/* The largest value of the size of node `n`; -1: unknown. */
static int64_t bound_of(const struct ht_graph *g, const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Where:
		return most_elements(g, ht_in_shape(n, 0));
	case HT_OP_Unique:
	case HT_OP_UniqueV2:
	case HT_OP_UniqueWithCounts:
	case HT_OP_UniqueWithCountsV2:
		return most_slices(g, n);
	case HT_OP_NonMaxSuppression:
	case HT_OP_NonMaxSuppressionV2:
	case HT_OP_NonMaxSuppressionV3:
	case HT_OP_NonMaxSuppressionV4:
	case HT_OP_NonMaxSuppressionV5:
	case HT_OP_NonMaxSuppressionWithOverlaps:
		return most_boxes(g, n);
	case HT_OP_LookupTableExportV2:
		return ht_is_table(n->in[0].node) ? ht_table_most_exported(n->in[0].node) : -1;
	default: /* the op was not expanded, and has no kernel */
		return -1;
	}
}

/* Whether the node makes as many elements as an operand says that is not constant: Range, Fill and the number of segments. */
static bool makes_number(const struct ht_node *n)
{
	return (n->op == HT_OP_Range && !n->fault &&
		       !(ht_is_const(n->in[0]) && ht_is_const(n->in[1]))) ||
	       (n->op == HT_OP_Fill && !ht_is_const(n->in[0])) ||
	       (ht_axes(n) == HT_AXES_SEGMENTED && !ht_is_const(n->in[2]));
}

/* Whether data may decide the number of elements of such a node. */
static bool number_may_be_data(const struct ht_node *n)
{
	const int32_t first = ht_axes(n) == HT_AXES_SEGMENTED ? 2 : 0;
	const int32_t last = n->op == HT_OP_Fill ? 0 : n->ins - 1;

	for (int32_t i = first; i <= last; i++)
		if (ht_may_be_data(n->graph, n, i))
			return true;
	return false;
}

bool ht_may_compute_size(const struct ht_node *n)
{
	return ht_computes_size(n) ||
	       (makes_number(n) && !ht_shape_is_told(n->out[0].shape) && number_may_be_data(n));
}

/* Whether the size of some result may be computed: by an op that always computes it, by Range or
 * Fill of operands that are not constant, as the number of segments, or of open sizes. */
static bool computes_some(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_computes_size(n) || makes_number(n) || ht_cuts_open(g, n) ||
			ht_meets_open(g, n) || ht_attr_find(n, "room"))
			return true;
	return false;
}

/* ---- the program, and the bodies of its branches and loops ---- */

struct graphs {
	struct ht_graph **of;
	size_t n, cap;
};

/* Adds `g` if it computes some size, for its outputs too (`e`; NULL: it has none), and likewise the bodies of branches and loops that have functions of their own. */
static void find_computing(
	struct graphs *x, struct ht_graph *g, const struct ht_entry *e, struct ht_arena *a)
{
	if (computes_some(g) || ht_joins_outputs(g, e)) {
		x->of = ht_grow(a, x->of, x->n, &x->cap, sizeof *x->of);
		x->of[x->n++] = g;
	}
	for (const struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			find_computing(x, b.of[k]->body, NULL, a);
	}
}

static enum ht_status run_passes(struct ht_graph *g, const char *passes, struct ht_pass_context *c)
{
	return g->function ? ht_run_passes_within(c, g->function, passes)
			   : ht_run_passes(g, passes, NULL, c);
}

/* ---- sizes ---- */

static enum ht_status refuse(
	const struct ht_graph *g, const struct ht_pass_context *c, const struct ht_node *n)
{
	return ht_error(c->diags, HT_E_UNSUPPORTED,
		(struct ht_where){
			.path = g->library->path, .node = n->name, .op = n->type, .offset = -1 },
		"the graph has more than %d sizes that are known only when it runs",
		HT_MOST_RUN_SIZES);
}

/* The least number of elements below a number, of 0, 1, … as many as there may be at most; 0 for other conditions. */
static int64_t least_below(const struct ht_graph *g, struct ht_value condition)
{
	const struct ht_node *n = condition.node;
	struct ht_span s, all;

	if (n->op != HT_OP_Less || n->in[0].node->op != HT_OP_Range ||
		!ht_const_is(n->in[0].node->in[0], 0) || !ht_const_is(n->in[0].node->in[2], 1) ||
		ht_type_of(n->in[1])->shape.rank != 0 || !ht_span_of(g, n->in[1], &s) ||
		!ht_span_of(g, n->in[0].node->in[1], &all))
		return 0;
	if (s.least > all.least)
		s.least = all.least;
	return s.least < 0 ? 0 : s.least;
}

/* The least value of the size of node `n`: of counted elements, and of parts that are put behind each other. */
static int64_t least_of(const struct ht_graph *g, const struct ht_node *n)
{
	const struct ht_node *of = n->op == HT_OP_Where ? n->in[0].node : n;
	int64_t least = 0;

	if (n->op != HT_OP_Where)
		return 0;
	if (of->op != HT_OP_ConcatV2)
		return least_below(g, n->in[0]);
	for (int32_t i = 0; i + 1 < of->ins; i++)
		least += least_below(g, of->in[i]);
	return least;
}

/* A tensor without elements gets room for one, so that extents can be divided by the bound.  The symbol has the size's number, since a node
 * of the program may have a name that looks like one of a body. */
static void add(struct ht_graph *g, const struct ht_node *n, int64_t bound)
{
	int64_t least = least_of(g, n);

	struct ht_graph *program = g->library;
	struct ht_str within = g->function ? g->function->name : (struct ht_str){ 0 };
	struct ht_str symbol = ht_str_printf(program->arena, "size %d, of %.*s%s%.*s",
		(int)program->sizes, HT_STR_ARG(within), within.n ? "/" : "", HT_STR_ARG(n->name));

	ht_graph_add_size(program, (struct ht_open_size){ .dim = ht_dim_named(program, symbol),
					   .axis = -1,
					   .least = least < bound ? least : bound,
					   .most = bound ? bound : 1,
					   .by = n->name,
					   .within = within });
}

static enum ht_status add_all(struct ht_graph *g, const struct ht_pass_context *c, bool *changed)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		int64_t bound;

		if (!ht_computes_size(n) || ht_computed_size(g, n))
			continue;
		bound = bound_of(g, n);
		if (bound < 0)
			continue;
		if (g->library->sizes == HT_MOST_RUN_SIZES)
			return refuse(g, c, n);
		add(g, n, bound);
		*changed = true;
	}
	return HT_OK;
}

/* Whether there are convolutions with holes, whose paddings are computed of constants, too. */
static bool has_blocks(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (n->op == HT_OP_SpaceToBatchND)
			return true;
	return false;
}

/* A bound may follow from another: each round adds sizes whose operands' bounds are known.
 * Nodes that compute the same size are merged. */
static enum ht_status add_rounds(
	struct ht_graph *program, const struct graphs *x, struct ht_pass_context *c)
{
	bool changed = true;

	for (size_t i = 0; i < x->n; i++)
		HT_TRY(run_passes(
			x->of[i], has_blocks(x->of[i]) ? "fold,identity,cse" : "identity,cse", c));
	while (changed) {
		changed = false;
		HT_TRY(ht_infer_types(program, c->diags));
		for (size_t i = 0; i < x->n; i++)
			HT_TRY(add_all(x->of[i], c, &changed));
	}
	return HT_OK;
}

/* A piece may be one of what another was before. */
static enum ht_status take_pieces(
	struct ht_graph *program, const struct graphs *x, struct ht_pass_context *c)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < x->n; i++)
			changed = ht_take_pieces(x->of[i], c) || changed;
		if (changed)
			HT_TRY(ht_infer_types(program, c->diags));
	}
	return HT_OK;
}

static bool expand_some(const struct graphs *x, struct ht_pass_context *c, enum ht_expansion what)
{
	bool changed = false;

	for (size_t i = 0; i < x->n; i++)
		changed = ht_expand_computed(x->of[i], c, what) || changed;
	return changed;
}

static bool expand_computed(const struct graphs *x, struct ht_pass_context *c, bool all)
{
	return expand_some(x, c, HT_EXPAND_KNOWN) ||
	       expand_some(x, c, all ? HT_EXPAND_ALL : HT_EXPAND_COMPUTED);
}

/* What follows from constants is no size that the run computes; *x becomes the graphs that still compute some. */
static enum ht_status fold_constants(
	struct ht_graph *g, struct graphs *x, struct ht_pass_context *c)
{
	HT_TRY(ht_infer_types(g, c->diags));
	for (size_t i = 0; i < x->n; i++)
		HT_TRY(run_passes(x->of[i], "fold,identity", c));
	x->n = 0;
	find_computing(x, g, c->entry, g->arena);
	return ht_infer_types(g, c->diags);
}

static enum ht_status add_sizes(struct ht_graph *g, struct ht_pass_context *c, bool all)
{
	enum { ROUNDS = 2 * HT_MOST_RUN_SIZES }; /* a window takes up to two */
	struct graphs x = { 0 };

	if (g->sizes)
		HT_TRY(ht_infer_types(g, c->diags));
	find_computing(&x, g, c->entry,
		g->arena); /* not in scratch memory, which the passes below clear */
	if (!x.n)
		return HT_OK;
	HT_TRY(fold_constants(g, &x, c));
	for (size_t i = 0; i < x.n; i++)
		ht_expand_computing(x.of[i], c);
	HT_TRY(add_rounds(g, &x, c));
	for (int i = 0; i < ROUNDS; i++) {
		x.n = 0; /* a body within another one may cut what that computes */
		find_computing(&x, g, c->entry, g->arena);
		HT_TRY(take_pieces(g, &x, c));
		if (!expand_computed(&x, c, all))
			break;
		HT_TRY(add_rounds(g, &x, c));
	}
	return HT_OK;
}

/* Bodies that hand on tensors of other extents than they get compute further sizes, and their results have further ones. */
enum ht_status ht_add_computed_sizes(struct ht_graph *g, struct ht_pass_context *c, bool all)
{
	enum { ROUNDS = 16 };
	bool changed = true;

	for (int i = 0; i < ROUNDS && changed; i++) {
		HT_TRY(add_sizes(g, c, all));
		HT_TRY(ht_give_room(g, c, &changed));
	}
	return changed ? add_sizes(g, c, all) : HT_OK;
}

static bool computes(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_computes_size(n) || ht_may_grow(n) || ht_may_vary(n))
			return true;
	return false;
}

bool ht_computes_within(const struct ht_graph *g, struct ht_arena *scratch)
{
	struct ht_map called;

	for (const struct ht_node *n = g->first; n; n = n->next)
		if (ht_may_grow(n) || ht_may_vary(n))
			return true;
	ht_called_functions(g, scratch, &called);
	for (size_t i = 0; i < called.count; i++) {
		const struct ht_function *f = called.entries[i].value;

		if (f->body && computes(f->body))
			return true;
	}
	return false;
}
