/* Vectors of lists, for pass versions: what takes one list of a vector takes the list itself, and an element that TensorListPushBackBatch adds
 * to each list of a vector is added to that list alone.
 *
 * Left alone, and refused by lowering: vectors whose lists or indices are not known, such as those that loops carry. */
#include "passes/lists_vector.h"

enum { MOST_NODES = 1000 /* between a list that is taken and the node that made it */ };

static const struct ht_value none;

/* How many lists a vector has; -1: that is not known, or it is no vector. */
static int64_t length_of(struct ht_value v)
{
	struct ht_shape s;

	v = ht_forwarded(v);
	while (v.node->op == HT_OP_TensorListPushBackBatch)
		v = ht_forwarded(v.node->in[0]);
	s = ht_type_of(v)->shape;
	return s.rank == 1 ? s.dim[0] : -1;
}

static struct ht_value row(struct ht_rw *r, struct ht_node *before, struct ht_value x, int64_t i)
{
	const struct ht_str name = ht_rw_name_within(r, before, "row");
	const struct ht_value in[] = { x, ht_rw_scalar(r, before, name, HT_I32, i),
		ht_rw_scalar(r, before, name, HT_I32, 0) };
	struct ht_node *n = ht_rw_node(r, before, HT_OP_GatherV2, name, in, 3,
		(struct ht_type){ ht_type_of(x)->dtype, HT_SHAPE_UNKNOWN });

	return ht_out(n, 0);
}

static struct ht_value list_at(
	struct ht_rw *r, struct ht_node *before, struct ht_value v, int64_t i, int nodes);

static struct ht_value pushed(
	struct ht_rw *r, struct ht_node *before, const struct ht_node *all, int64_t i, int nodes)
{
	struct ht_value in[2] = { list_at(r, before, all->in[0], i, nodes) };
	struct ht_node *n;

	if (!in[0].node)
		return none;
	in[1] = row(r, before, all->in[1], i);
	n = ht_rw_node(r, before, HT_OP_TensorListPushBack, all->name, in, 2, HT_LIST_TYPE);
	ht_rw_copy_attr(n, all, "element_dtype");
	return ht_out(n, 0);
}

/* List `i` of a vector, or a list itself; node NULL: it is not known. */
static struct ht_value list_at(
	struct ht_rw *r, struct ht_node *before, struct ht_value v, int64_t i, int nodes)
{
	const struct ht_node *n;

	v = ht_forwarded(v);
	n = v.node;
	if (ht_type_of(v)->shape.rank == 0)
		return v;
	if (!nodes || i < 0 || i >= length_of(v))
		return none;
	switch (n->op) {
	case HT_OP_Pack:
		return n->in[i];
	case HT_OP_ExpandDims:
	case HT_OP_Reshape:
		return list_at(r, before, n->in[0], i, nodes - 1);
	case HT_OP_Tile:
		return length_of(n->in[0]) < 1
			       ? none
			       : list_at(r, before, n->in[0], i % length_of(n->in[0]), nodes - 1);
	case HT_OP_TensorListPushBackBatch:
		return pushed(r, before, n, i, nodes - 1);
	default:
		return none;
	}
}

/* The constant index of the one list that the node takes; -1: it is none. */
static int64_t taken(const struct ht_node *n)
{
	int64_t i, length = length_of(n->in[0]);
	int count;

	if (n->op == HT_OP_StridedSlice ? ht_attr_int(n, "shrink_axis_mask", 0) != 1
					: ht_type_of(n->in[1])->shape.rank != 0)
		return -1;
	if (!ht_const_small_ints(n->in[1], &i, 1, &count) || count != 1)
		return -1;
	return i < 0 && n->op == HT_OP_StridedSlice ? i + length : i;
}

bool ht_takes_of_lists(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_Unpack:
	case HT_OP_StridedSlice:
		return ht_attr_type(n, "T", HT_INVALID) == HT_VARIANT;
	case HT_OP_GatherV2:
		return ht_attr_type(n, "Tparams", HT_INVALID) == HT_VARIANT;
	default:
		return false;
	}
}

void ht_take_of_lists(struct ht_rw *r, struct ht_node *n)
{
	struct ht_value *list = HT_NEW_ARRAY(r->arena, struct ht_value, (size_t)n->outs);

	if (!ht_rw_plain(r, n) || length_of(n->in[0]) < 0)
		return;
	for (int32_t i = 0; i < n->outs; i++) {
		list[i] = list_at(r, n, n->in[0], n->op == HT_OP_Unpack ? i : taken(n), MOST_NODES);
		if (!list[i].node)
			return;
	}
	for (int32_t i = 0; i < n->outs; i++)
		ht_rw_replace(r, ht_out(n, i), list[i]);
}
