/* Lists of ragged rows become lists of tensors of several lengths: `tf.map_fn` over ragged tensors, or with ragged results.
 *
 * There an element is a ragged tensor in a variant.  A row of values is such an element without ragged axes, so the tensor of its values is
 * the element instead.  A ragged tensor whose rows are the elements of a list is that list of parts (TensorListSplit), and the rows of a list
 * as a ragged tensor are all elements one after the other, with their lengths (TensorListConcatV2).
 *
 * Left alone, and refused by lowering: elements that have ragged axes themselves. */
#include "passes/computed_rows.h"
#include "passes/lists.h"

/* The tensor that a value has in a variant, with so many ragged axes; NULL: it is none. */
static const struct ht_value *values_in(struct ht_value v, bool batched, int32_t axes)
{
	const struct ht_node *n = v.node;

	return n->op == HT_OP_RaggedTensorToVariant && n->ins == axes + 1 &&
			       ht_attr_bool(n, "batched_input", false) == batched
		       ? &n->in[axes]
		       : NULL;
}

static struct ht_value no_shape(struct forms *f)
{
	return whole(f, HT_I32, -1);
}

static void set_type(struct ht_node *n, enum ht_dtype t)
{
	ht_attr_set_type(n, "element_dtype", t);
	ht_attr_set_type(n, "shape_type", HT_I32);
}

/* ---- elements that are set ---- */

static void set_element(struct forms *f, int32_t item)
{
	const struct ht_value *values = values_in(f->at->in[item], false, 0);

	if (!values)
		return;
	ht_attr_set_type(f->at, "element_dtype", ht_type_of(*values)->dtype);
	ht_rw_set_in(&f->r, f->at, item, *values);
}

/* The lengths of rows that end where the splits say. */
static struct ht_value lengths_by(struct forms *f, struct ht_value splits)
{
	struct ht_value all = of_rank(f, ht_rw_cast(&f->r, f->at, f->at->name, splits, HT_I64), 1),
			count = plus(f, length_of(f, all), -1), at = range_of(f, count);

	return difference(f, at_rows(f, all, plus(f, at, 1), 1), at_rows(f, all, at, 1));
}

/* The rows of a ragged tensor, or of a tensor. */
static void list_rows(struct forms *f)
{
	struct ht_node *n = f->at;
	const struct ht_value *rows = values_in(n->in[0], true, 0),
			      *values = values_in(n->in[0], true, 1);
	struct ht_value in[3];

	if (!rows && !values)
		return;
	in[0] = rows ? *rows : *values;
	in[1] = no_shape(f);
	if (values)
		in[2] = lengths_by(f, n->in[0].node->in[0]);
	ht_rw_become(&f->r, n, rows ? HT_OP_TensorListFromTensor : HT_OP_TensorListSplit, in,
		rows ? 2 : 3);
	set_type(n, ht_type_of(in[0])->dtype);
}

/* ---- elements that are read ---- */

/* The rows of a list, one after the other, and where each ends. */
static void join_rows(struct forms *f, enum ht_dtype t)
{
	const struct ht_value none = ht_rw_const_ints(&f->r, f->at, f->at->name, HT_I64, NULL, 0);
	const struct ht_value in[] = { f->at->in[0].node->in[0], no_shape(f), none };
	struct ht_value all = node(f, HT_OP_TensorListConcatV2, in, 3, t, HT_SHAPE_UNKNOWN),
			result[2], part[3];

	ht_node_set_outs(all.node, 2);
	all.node->out[1] = (struct ht_type){ HT_I64, open_shape(f, 1) };
	set_type(all.node, t);
	part[0] = ht_rw_const_ints(&f->r, f->at, f->at->name, HT_I64, (const int64_t[]){ 0 }, 1);
	part[1] = sums_up_to(f, ht_out(all.node, 1), false);
	result[0] = cast_to(f, joined(f, part, 2, 0), f->at->out[0].dtype);
	result[1] = all;
	replace_results(f, f->at, result);
}

static void get_element(struct forms *f, enum ht_dtype t)
{
	struct ht_node *get = f->at->in[0].node;
	const struct ht_value in[] = { get->in[0], get->in[1], no_shape(f) };
	struct ht_value v = node(f, HT_OP_TensorListGetItem, in, 3, t, HT_SHAPE_UNKNOWN);

	ht_attr_set_type(v.node, "element_dtype", t);
	ht_rw_take_place(&f->r, f->at, v);
}

static void read_ragged(struct forms *f)
{
	struct ht_node *n = f->at, *of = n->in[0].node;
	enum ht_dtype t = n->out[n->outs - 1].dtype;
	int64_t inner = ht_attr_int(n, "input_ragged_rank", -1);

	if (inner > 0)
		return;
	if (of->op == HT_OP_TensorListStack && n->outs == 2)
		join_rows(f, t);
	else if (of->op == HT_OP_TensorListGetItem && n->outs == 1)
		get_element(f, t);
}

/* ---- graphs ---- */

static void change(struct forms *f)
{
	switch (f->at->op) {
	case HT_OP_TensorListSetItem:
		set_element(f, 2);
		break;
	case HT_OP_TensorListPushBack:
		set_element(f, 1);
		break;
	case HT_OP_TensorListFromTensor:
		list_rows(f);
		break;
	case HT_OP_RaggedTensorFromVariant:
		if (ht_rw_plain(&f->r, f->at))
			read_ragged(f);
		break;
	default:
		break;
	}
}

void ht_lists_of_ragged(struct ht_graph *g, struct ht_pass_context *c)
{
	struct ht_rw_within within;
	struct forms f = { 0 };
	struct ht_node **all;
	size_t count;

	ht_rw_init_within(&f.r, &within, g, c);
	all = ht_rw_nodes(&f.r, &count);
	for (size_t i = 0; i < count; i++) {
		struct ht_bodies b = { { NULL } };

		f.at = all[i];
		if (!f.at->graph)
			continue;
		change(&f);
		if (f.at->graph && ht_runs_own(f.at))
			b = ht_control_bodies(f.at);
		for (int k = 0; k < 2; k++)
			if (b.of[k])
				ht_lists_of_ragged(b.of[k]->body, c);
	}
}
