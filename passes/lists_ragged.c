/* Lists of ragged rows become lists of tensors of several lengths: `tf.map_fn` over ragged tensors, or with ragged results, and its gradient.
 *
 * There an element is a ragged tensor in a variant.  A row of values is such an element without ragged axes, so the tensor of its values is
 * the element instead, wherever it goes within a graph: lists, sums and zeros of it are those of the tensor.  A ragged tensor whose rows are
 * the elements of a list is that list of parts (TensorListSplit), and the rows of a list as a ragged tensor are all elements one after the
 * other, with their lengths (TensorListConcatV2).  The number of rows may be one that the run computes.
 *
 * Left alone, and refused by lowering: elements that have ragged axes themselves, and rows that loops carry outside of lists. */
#include "passes/by_value.h"
#include "passes/computed_rows.h"
#include "passes/lists.h"

/* What the walks over graphs share. */
struct ragged {
	struct ht_lists l; /* which values are one list */
	struct maker f;    /* of the graph that a walk is in */
};

/* Whether the value is a variant of one tensor, without ragged axes. */
static bool holds_tensor(const struct ht_node *n)
{
	return n->op == HT_OP_RaggedTensorToVariant && n->ins == 1 &&
	       !ht_attr_bool(n, "batched_input", false);
}

/* Whether it is a vector of variants, one for each row of a ragged tensor with so many ragged axes. */
static bool holds_rows(const struct ht_node *n, int32_t axes)
{
	return n->op == HT_OP_RaggedTensorToVariant && n->ins == axes + 1 &&
	       ht_attr_bool(n, "batched_input", false);
}

/* The number of ragged axes of the result. */
static int32_t axes_read(const struct ht_node *n)
{
	return n->op == HT_OP_RaggedTensorFromVariant ? n->outs - 1 : -1;
}

static bool is_variant(struct ht_value v)
{
	return ht_type_of(v)->dtype == HT_VARIANT;
}

static struct ht_value no_shape(struct maker *f)
{
	return whole(f, HT_I32, -1);
}

static void set_type(struct ht_node *n, enum ht_dtype t)
{
	ht_attr_set_type(n, "element_dtype", t);
	ht_attr_set_type(n, "shape_type", HT_I32);
}

/* ---- which lists have ragged rows ---- */

static void has_rows(struct ragged *x, struct ht_value list, enum ht_dtype t)
{
	struct ht_list *of = ht_list_of(&x->l, list);

	if (of && of->rows == HT_INVALID)
		of->rows = t;
}

static void find_in(struct ragged *x, struct ht_node *n)
{
	const struct ht_node *of = n->ins ? n->in[0].node : NULL;

	if ((n->op == HT_OP_TensorListSetItem || n->op == HT_OP_TensorListPushBack) &&
		holds_tensor(n->in[n->ins - 1].node))
		has_rows(x, n->in[0], ht_type_of(n->in[n->ins - 1].node->in[0])->dtype);
	else if (n->op == HT_OP_TensorListFromTensor && (holds_rows(of, 0) || holds_rows(of, 1)))
		has_rows(x, ht_out(n, 0), ht_type_of(of->in[of->ins - 1])->dtype);
	else if ((axes_read(n) == 0 && of->op == HT_OP_TensorListGetItem) ||
		 (axes_read(n) == 1 && of->op == HT_OP_TensorListStack))
		has_rows(x, of->in[0], n->out[n->outs - 1].dtype);
}

static void find(struct ragged *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = { { NULL } };

		find_in(x, n);
		if (ht_runs_own(n))
			b = ht_control_bodies(n);
		for (int k = 0; k < 2; k++)
			if (b.of[k])
				find(x, b.of[k]->body);
	}
}

/* The dtype of the rows that the list has as elements; HT_INVALID: they are none. */
static enum ht_dtype rows_in(struct ragged *x, struct ht_value list)
{
	struct ht_list *of = is_variant(list) ? ht_list_of(&x->l, list) : NULL;

	return of ? of->rows : HT_INVALID;
}

/* ---- elements ---- */

static void make_list(struct ragged *x)
{
	enum ht_dtype t = rows_in(x, ht_out(x->f.at, 0));

	if (t == HT_INVALID)
		return;
	/* The stated shape is that of a variant. */
	ht_rw_set_in(x->f.r, x->f.at, 0, no_shape(&x->f));
	set_type(x->f.at, t);
}

static void set_element(struct ragged *x)
{
	struct ht_node *n = x->f.at;
	struct ht_value item = n->in[n->ins - 1];

	if (rows_in(x, n->in[0]) != HT_INVALID && !is_variant(item))
		ht_attr_set_type(n, "element_dtype", ht_type_of(item)->dtype);
}

/* The result `i` of an op that reads an element. */
static void get_element(struct ragged *x, int32_t i)
{
	struct ht_node *n = x->f.at;
	enum ht_dtype t = rows_in(x, n->in[0]);

	if (t == HT_INVALID)
		return;
	set_type(n, t);
	n->out[i] = (struct ht_type){ t, HT_SHAPE_UNKNOWN };
	ht_rw_set_in(x->f.r, n, n->ins - 1, no_shape(&x->f));
}

/* Variants are scalars; gradients push this shape, and pop it where they make a list of variants. */
static void tell_shape(struct ragged *x)
{
	struct ht_node *n = x->f.at;

	if (rows_in(x, n->in[0]) != HT_INVALID)
		ht_rw_replace_node(
			x->f.r, n, ht_rw_const_ints(x->f.r, n, n->name, n->out[0].dtype, NULL, 0));
}

static bool hands_on(const struct ht_node *n)
{
	return ht_is(n, HT_FORWARDS) || n->op == HT_OP_ZerosLike || n->op == HT_OP_AddN;
}

/* A list of zeros, of which one element is set; NULL: the list is another one. */
static const struct ht_node *sets_one(const struct ht_rw *r, struct ht_value list)
{
	const struct ht_node *n = list.node;

	return n->op == HT_OP_TensorListSetItem && n->in[0].node->op == HT_OP_TensorListReserve &&
			       ht_rw_uses(r, list) == 1 && ht_rw_plain(r, n)
		       ? n
		       : NULL;
}

/* The sum of a list and one of zeros but for one element, as gradients of elements that were read make: that element is added to the list's.
 * Extents of the elements of such a list are known then to be those of the first list, or of the element where there was none. */
static void add_element(struct ragged *x)
{
	struct ht_rw *r = x->f.r;
	struct ht_node *n = x->f.at;

	if (n->ins != 2 || rows_in(x, ht_out(n, 0)) == HT_INVALID)
		return;
	for (int32_t i = 0; i < 2; i++) {
		const struct ht_node *set = sets_one(r, n->in[i]);
		struct ht_value in[3];
		enum ht_dtype t;

		if (!set)
			continue;
		t = ht_type_of(set->in[2])->dtype;
		in[0] = n->in[1 - i];
		in[1] = set->in[1];
		in[2] = set->in[2];
		ht_rw_become(r, n, HT_OP_TensorListSetItem, in, 3);
		set_type(n, t);
		ht_attr_set_bool(n, HT_LIST_ADDS, true);
		return;
	}
}

/* Zeros, sums and copies of variants become those of tensors. */
static void hand_on(struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++)
		if (is_variant(n->in[i]))
			return;
	if (n->outs != 1 || n->ins < 1 || n->out[0].dtype != HT_VARIANT)
		return;
	n->out[0] = (struct ht_type){ ht_type_of(n->in[0])->dtype, HT_SHAPE_UNKNOWN };
	ht_attr_set_type(n, "T", n->out[0].dtype);
}

/* Whether all that takes the variant of a tensor may take the tensor. */
static bool gives_tensor(const struct ragged *x, struct ht_node *n)
{
	const struct ht_rw *r = x->f.r;

	if (ht_rw_is_output(r, ht_out(n, 0)))
		return false;
	for (const struct ht_rw_use *u = ht_rw_first_use(r, n); u; u = ht_rw_next_use(r, u))
		switch (u->node->op) {
		case HT_OP_TensorListSetItem:
		case HT_OP_TensorListPushBack:
		case HT_OP_ZerosLike:
		case HT_OP_AddN:
		case HT_OP_Identity:
		case HT_OP_RaggedTensorToVariantGradient:
			break;
		default:
			if (axes_read(u->node) != 0)
				return false;
		}
	return true;
}

/* ---- all rows ---- */

/* The lengths of rows that end where the splits say. */
static struct ht_value lengths_by(struct maker *f, struct ht_value splits)
{
	struct ht_value all = of_rank(f, cast_to(f, splits, HT_I64), 1),
			count = plus(f, length_of(f, all), -1), at = range_of(f, count);

	return difference(f, at_rows(f, all, plus(f, at, 1), 1), at_rows(f, all, at, 1));
}

static void list_rows(struct maker *f, struct ht_node *n, struct ht_value lengths)
{
	struct ht_value in[] = { f->at->in[f->at->ins - 1], no_shape(f), lengths };

	ht_rw_become(f->r, n, lengths.node ? HT_OP_TensorListSplit : HT_OP_TensorListFromTensor, in,
		lengths.node ? 3 : 2);
	set_type(n, ht_type_of(in[0])->dtype);
}

/* What takes the rows of a ragged tensor as variants takes it instead. */
static void give_rows(struct maker *f)
{
	struct ht_node *of = f->at, **user = NULL;
	struct ht_value lengths = { 0 };
	size_t n = 0, cap = 0;

	for (const struct ht_rw_use *u = ht_rw_first_use(f->r, of); u;
		u = ht_rw_next_use(f->r, u)) {
		user = ht_grow(f->r->arena, user, n, &cap, sizeof *user);
		user[n++] = u->node;
	}
	if (of->ins > 1)
		lengths = lengths_by(f, of->in[0]);
	for (size_t i = 0; i < n; i++) {
		struct ht_value rows = { 0 }, splits[2];

		if (!user[i]->graph)
			continue;
		if (user[i]->op == HT_OP_TensorListFromTensor)
			list_rows(f, user[i], lengths);
		else if (user[i]->op == HT_OP_Shape && lengths.node) {
			rows = size_of(f, lengths, user[i]->out[0].dtype);
			ht_rw_replace_node(f->r, user[i], packed(f, &rows, 1));
		} else if (axes_read(user[i]) == 1 && lengths.node && ht_rw_plain(f->r, user[i])) {
			splits[0] = cast_to(f, of->in[0], user[i]->out[0].dtype);
			splits[1] = of->in[1];
			replace_results(f, user[i], splits);
		}
	}
	if (of->graph)
		ht_rw_drop(f->r, of);
}

/* The rows of a list, one after the other, with their lengths as the second result.  Those that were not set are zeros, of these lengths. */
static struct ht_value joined_list(
	struct maker *f, struct ht_value list, struct ht_value lengths, enum ht_dtype t)
{
	const struct ht_value in[] = { list, no_shape(f), lengths };
	struct ht_value all = node(f, HT_OP_TensorListConcatV2, in, 3, t, HT_SHAPE_UNKNOWN);

	ht_node_set_outs(all.node, 2);
	all.node->out[1] = (struct ht_type){ HT_I64, open_shape(f, 1) };
	set_type(all.node, t);
	return all;
}

/* The rows of a list, one after the other, and where each ends. */
static void join_rows(struct maker *f, enum ht_dtype t)
{
	const struct ht_value none = wholes(f, HT_I64, NULL, 0);
	struct ht_value result[2], part[3];

	result[1] = joined_list(f, f->at->in[0].node->in[0], none, t);
	part[0] = wholes(f, HT_I64, (const int64_t[]){ 0 }, 1);
	part[1] = sums_up_to(f, ht_out(result[1].node, 1), false);
	result[0] = cast_to(f, joined(f, part, 2, 0), f->at->out[0].dtype);
	replace_results(f, f->at, result);
}

static void read_ragged(struct ragged *x)
{
	struct ht_node *n = x->f.at, *of = n->in[0].node;

	if (ht_attr_int(n, "input_ragged_rank", -1) > 0 || !ht_rw_plain(x->f.r, n))
		return;
	if (axes_read(n) == 0 && !is_variant(n->in[0]))
		ht_rw_replace_node(x->f.r, n, n->in[0]);
	else if (axes_read(n) == 1 && of->op == HT_OP_TensorListStack &&
		 rows_in(x, of->in[0]) != HT_INVALID)
		join_rows(&x->f, n->out[1].dtype);
}

/* The gradient by the values of a ragged tensor whose rows, or which itself, became variants. */
static void read_gradient(struct ragged *x)
{
	struct maker *f = &x->f;
	struct ht_node *n = f->at, *of = n->in[0].node;

	if (!ht_rw_plain(f->r, n))
		return;
	if (!is_variant(n->in[0]))
		ht_rw_replace_node(f->r, n, n->in[0]);
	else if (of->op == HT_OP_TensorListStack && rows_in(x, of->in[0]) != HT_INVALID &&
		 ht_type_of(n->in[1])->shape.rank == 1)
		ht_rw_take_place(f->r, n,
			joined_list(f, of->in[0], lengths_by(f, n->in[1]), rows_in(x, of->in[0])));
}

/* ---- graphs ---- */

static void change(struct ragged *x)
{
	struct ht_node *n = x->f.at;

	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
		make_list(x);
		break;
	case HT_OP_TensorListSetItem:
	case HT_OP_TensorListPushBack:
		set_element(x);
		break;
	case HT_OP_TensorListGetItem:
		get_element(x, 0);
		break;
	case HT_OP_TensorListPopBack:
		get_element(x, 1);
		break;
	case HT_OP_TensorListElementShape:
		tell_shape(x);
		break;
	case HT_OP_RaggedTensorToVariant:
		if (holds_tensor(n) && ht_rw_plain(x->f.r, n) && gives_tensor(x, n))
			ht_rw_replace_node(x->f.r, n, n->in[0]);
		else if (holds_rows(n, 0) || holds_rows(n, 1))
			give_rows(&x->f);
		break;
	case HT_OP_RaggedTensorFromVariant:
		read_ragged(x);
		break;
	case HT_OP_RaggedTensorToVariantGradient:
		read_gradient(x);
		break;
	case HT_OP_AddN:
		hand_on(n);
		add_element(x);
		break;
	default:
		if (hands_on(n))
			hand_on(n);
	}
}

static void change_graph(struct ragged *x, struct ht_graph *g)
{
	struct maker outer = x->f;
	struct ht_rw_within within;
	struct ht_node **all;
	struct ht_rw r;
	size_t count;

	x->f.r = &r;
	ht_rw_init_within(x->f.r, &within, g, x->l.c);
	all = ht_rw_nodes(x->f.r, &count);
	for (size_t i = 0; i < count; i++) {
		struct ht_bodies b = { { NULL } };

		make_at(&x->f, all[i]);
		if (!all[i]->graph)
			continue;
		change(x);
		if (all[i]->graph && ht_runs_own(all[i]))
			b = ht_control_bodies(all[i]);
		for (int k = 0; k < 2; k++)
			if (b.of[k])
				change_graph(x, b.of[k]->body);
	}
	x->f = outer;
}

static bool has_ragged(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = { { NULL } };

		if (n->op == HT_OP_RaggedTensorToVariant || n->op == HT_OP_RaggedTensorFromVariant)
			return true;
		if (ht_runs_own(n))
			b = ht_control_bodies(n);
		for (int k = 0; k < 2; k++)
			if (b.of[k] && has_ragged(b.of[k]->body))
				return true;
	}
	return false;
}

void ht_lists_of_ragged(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ragged x = { .l = { .c = c, .g = g } };

	if (!has_ragged(g))
		return;
	ht_map_init(&x.l.of, c->scratch);
	ht_map_init(&x.l.known, c->scratch);
	ht_lists_find(&x.l, g);
	find(&x, g);
	change_graph(&x, g);
}
