/* functional_branches: a Merge of values computed from the two results of Switches with one
 * predicate becomes the result of an If.
 *
 * A value is alive under the predicates of its Switches: its context.  Inner branches come
 * first.  Merges with one predicate in one context are results of one node
 * (functional_contexts.c). */
#include "passes/functional_branches.h"

#include <string.h>

/* ---- a branch's functions ---- */

static int32_t number_of(struct branches *x, struct ht_value v)
{
	struct ht_str key =
		ht_str_printf(x->f->scratch, "%u:%d", (unsigned)v.node->id, (int)v.index);
	struct ht_map_entry *e = ht_map_at(&x->number, key);

	if (!e->value) {
		x->arg = ht_grow(
			x->f->scratch, x->arg, (size_t)x->args, &x->arg_cap, sizeof *x->arg);
		x->arg[x->args++] = v;
		e->value = (void *)(uintptr_t)x->args;
	}
	return (int32_t)(uintptr_t)e->value - 1;
}

static bool asks(struct branches *x, const struct ht_node *n)
{
	return ht_is(n, HT_SWITCHES) && n->ins == 2 && x->of[n->id] == x->looked->outer &&
	       ht_value_eq(ht_predicate(n->in[1]), x->looked->pred);
}

static int32_t argument_of_branch(void *of, struct ht_value v)
{
	struct branches *x = of;

	if (x->odd[v.node->id])
		return -2;
	if (asks(x, v.node))
		return (v.index == 1) == x->inner->taken ? number_of(x, v.node->in[0]) : -2;
	if (ht_routes(v.node))
		return -2;
	if (ht_context_is_within(x->of[v.node->id], x->inner) || ht_is(v.node, HT_CONSTANT))
		return -1;
	return number_of(x, v);
}

static enum ht_dtype type_in_branch(void *of, int32_t i)
{
	const struct branches *x = of;

	return ht_type_of(x->arg[i])->dtype;
}

static bool waits_in_branch(void *of, struct ht_node *n)
{
	const struct branches *x = of;

	return !ht_routes(n) && ht_context_is_within(x->of[n->id], x->inner);
}

/* The operand that a Merge returns if the predicate is `taken`. */
static int operand_of(struct branches *x, const struct ht_node *merge, bool taken)
{
	const struct branch *b = x->looked;

	for (int i = 0; i < 2; i++) {
		const struct context *c = ht_context_of(x, merge->in[i]);

		if (c && c->outer == b->outer && ht_value_eq(c->pred, b->pred))
			return c->taken == taken ? i : 1 - i;
	}
	return 0;
}

static struct ht_value index_value(struct branches *x, int32_t i)
{
	struct ht_graph *g = x->f->g;
	struct ht_blob *b;

	if (!x->index[i]) {
		b = ht_blob_in(x->f->scratch, sizeof i);
		memcpy((void *)(uintptr_t)b->p, &i, sizeof i);
		x->index[i] = ht_const_sharing(g, ht_graph_free_name(g, HT_STR("value_index")),
			HT_I32, HT_SHAPE_SCALAR, b);
	}
	return ht_out(x->index[i], 0);
}

/* The results of a branch: those of its Merges, then the value_index of each Merge if it is
 * used. */
static int32_t results_of(const struct branches *x, const struct branch *b)
{
	int32_t count = b->merges;

	for (int32_t i = 0; i < b->merges; i++)
		count += x->indexed[b->merge[i]->id];
	return count;
}

/* Whether `n` is in a side of the branch.  The function of that side waits for it then, so the Merge need not. */
static bool is_in_side(struct branches *x, const struct ht_node *n)
{
	const struct branch *b = x->looked;

	for (int i = 0; i < 2; i++)
		if (ht_context_is_within(
			    x->of[n->id], ht_context_within(x, b->outer, b->pred, i == 1)))
			return true;
	return false;
}

/* The nodes of side x->inner for which Merges wait, such as an Assert of which no result is needed. */
static struct ht_node **awaited(struct branches *x, int32_t *count)
{
	const struct branch *b = x->looked;
	struct ht_node **wait;
	int32_t most = 0;

	for (int32_t i = 0; i < b->merges; i++)
		most += b->merge[i]->controls;
	wait = HT_NEW_ARRAY(x->f->scratch, struct ht_node *, (size_t)most + 1);
	*count = 0;
	for (int32_t i = 0; i < b->merges; i++)
		for (int32_t k = 0; k < b->merge[i]->controls; k++) {
			struct ht_node *n = b->merge[i]->control[k];

			if (x->of[n->id] == x->inner)
				wait[(*count)++] = n;
		}
	return wait;
}

static struct ht_function *outline_branch(struct branches *x, struct ht_outline *o, bool taken)
{
	const struct branch *b = x->looked;
	int32_t rets = results_of(x, b), at = b->merges, waits;
	struct ht_value *ret = HT_NEW_ARRAY(x->f->scratch, struct ht_value, (size_t)rets);
	struct ht_node **wait;

	x->inner = ht_context_within(x, b->outer, b->pred, taken);
	wait = awaited(x, &waits);
	for (int32_t i = 0; i < b->merges; i++) {
		int k = operand_of(x, b->merge[i], taken);

		ret[i] = b->merge[i]->in[k];
		if (x->indexed[b->merge[i]->id])
			ret[at++] = index_value(x, k);
	}
	return ht_outline(o,
		ht_str_printf(x->f->scratch, "%.*s_%s", HT_STR_ARG(ht_scope_of(b->merge[0]->name)),
			taken ? "true" : "false"),
		ret, rets, wait, waits);
}

/* ---- a branch's node ---- */

/* A shape without symbolic dimensions, which attributes do not have. */
static struct ht_shape stated_shape(const struct branches *x, struct ht_shape s)
{
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < s.rank; i++)
		dim[i] = s.dim[i] < 0 ? HT_DIM_UNKNOWN : s.dim[i];
	return s.rank < 0 ? s : ht_shape_make(x->f->g->arena, s.rank, dim);
}

/* The shapes of the Merges hold for the results: inference of the sides alone knows neither their operands nor that extents differ. */
static void state_shapes(const struct branches *x, struct ht_node *n)
{
	struct ht_attr_value *item =
		HT_NEW_ARRAY(x->f->g->arena, struct ht_attr_value, (size_t)n->outs);

	for (int32_t i = 0; i < n->outs; i++) {
		item[i].kind = HT_ATTR_SHAPE;
		item[i].shape.shape = stated_shape(x, n->out[i].shape);
	}
	*ht_attr_set(n, "output_shapes") = (struct ht_attr_value){ .kind = HT_ATTR_LIST,
		.list = { .kind = HT_ATTR_SHAPE, .item = item, .n = (size_t)n->outs } };
}

static void set_types(struct branches *x, struct ht_node *n)
{
	enum ht_dtype *in = HT_NEW_ARRAY(x->f->scratch, enum ht_dtype, (size_t)x->args),
		      *out = HT_NEW_ARRAY(x->f->scratch, enum ht_dtype, (size_t)n->outs);

	for (int32_t i = 0; i < x->args; i++)
		in[i] = ht_type_of(x->arg[i])->dtype;
	for (int32_t i = 0; i < n->outs; i++)
		out[i] = n->out[i].dtype;
	ht_attr_set_type(n, "Tcond", HT_BOOL);
	ht_attr_set_types(n, "Tin", in, x->args);
	ht_attr_set_types(n, "Tout", out, n->outs);
	state_shapes(x, n);
}

/* A Merge no longer waits for nodes of its sides. */
static void drop_awaited(struct branches *x, struct ht_node *merge)
{
	struct ht_node **wait =
		HT_NEW_ARRAY(x->f->g->arena, struct ht_node *, (size_t)merge->controls + 1);
	int32_t count = 0;

	for (int32_t i = 0; i < merge->controls; i++)
		if (!is_in_side(x, merge->control[i]))
			wait[count++] = merge->control[i];
	if (count < merge->controls)
		ht_node_set_controls(merge, wait, count);
}

/* The replacement of a Merge gets its name, and the control edges from it. */
static void replace_merge(
	struct branches *x, struct ht_node *merge, struct ht_node *by, int32_t i, int32_t *index)
{
	struct ht_value result[2] = { ht_out(by, i), ht_out(by, *index) };
	enum ht_dtype types[2] = { merge->out[0].dtype, HT_I32 };
	bool both = x->indexed[merge->id];

	drop_awaited(x, merge);
	by->out[i] = merge->out[0];
	if (both)
		by->out[(*index)++] = (struct ht_type){ types[1], HT_SHAPE_SCALAR };
	ht_node_set_type(merge, both ? HT_STR("IdentityN") : HT_STR("Identity"));
	ht_node_set_ins(merge, result, 1 + both);
	ht_node_set_outs(merge, 1 + both);
	ht_attr_remove(merge, "N");
	if (both)
		ht_attr_set_types(merge, "T", types, 2);
}

static void make_branch(struct branches *x, struct ht_function *const *of)
{
	const struct branch *b = x->looked;
	struct ht_node *n = ht_functional_node(x->f, HT_STR("If"), b->merge[0]);
	struct ht_value *in = HT_NEW_ARRAY(x->f->scratch, struct ht_value, (size_t)x->args + 1);
	int32_t index = b->merges;

	in[0] = b->pred;
	for (int32_t i = 0; i < x->args; i++)
		in[i + 1] = x->arg[i];
	ht_node_set_ins(n, in, x->args + 1);
	ht_node_set_outs(n, results_of(x, b));
	x->of[n->id] = b->outer;
	for (int32_t i = 0; i < b->merges; i++)
		replace_merge(x, b->merge[i], n, i, &index);
	set_types(x, n);
	ht_attr_set_function(n, "then_branch", of[1]->name);
	ht_attr_set_function(n, "else_branch", of[0]->name);
}

static void convert_branch(struct branches *x, const struct branch *b)
{
	struct ht_outline o = { .shared = &x->f->outlines,
		.of = x,
		.argument = argument_of_branch,
		.type = type_in_branch,
		.waits = waits_in_branch };
	struct ht_function *of[2];

	x->looked = b;
	x->args = 0;
	ht_map_init(&x->number, x->f->scratch);
	for (int i = 0; i < 2; i++) {
		of[i] = outline_branch(x, &o, i == 1);
		if (!of[i])
			return;
	}
	for (int32_t i = 0; i < x->args; i++)
		if (ht_type_of(x->arg[i])->dtype >= HT_REF)
			return;
	for (int i = 0; i < 2; i++)
		ht_outline_fill(&o, of[i], x->args);
	make_branch(x, of);
}

void ht_functional_branches(struct functional *f)
{
	struct branches x = { .f = f,
		.of = HT_NEW_ARRAY(f->scratch, struct context *, f->ids),
		.odd = HT_NEW_ARRAY(f->scratch, bool, f->ids),
		.indexed = HT_NEW_ARRAY(f->scratch, bool, f->ids),
		.made = HT_NEW_ARRAY(f->scratch, struct context *, f->ids) };

	ht_find_branches(&x);
	while (x.depths--)
		for (const struct branch *b = x.at[x.depths]; b; b = b->beside)
			convert_branch(&x, b);
}
