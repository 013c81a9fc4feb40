/* Known lists become tensors: every node that handles one, in a graph and in the bodies that it
 * runs, is changed to compute with the tensor. */
#include "passes/bounded.h"
#include "passes/carry.h"
#include "passes/lists.h"

/* The state of the change of one graph. */
struct dense {
	struct ht_lists *l;
	struct ht_rw r;
};

static struct ht_list *known_list(struct dense *d, struct ht_value v)
{
	struct ht_list *x = ht_list_of(d->l, v);

	return x && ht_list_is_known(x) ? x : NULL;
}

/* ---- nodes of lists ---- */

static struct ht_shape whole_shape(struct dense *d, const struct ht_list *x)
{
	return ht_list_shape(x, d->r.arena);
}

static struct ht_type list_type(struct dense *d, const struct ht_list *x)
{
	return (struct ht_type){ x->dtype, whole_shape(d, x) };
}

static void make_identity(struct dense *d, struct ht_node *n, struct ht_value of)
{
	ht_rw_become(&d->r, n, HT_OP_Identity, &of, 1);
}

/* Elements that are not set are zeros. */
static void make_zeros(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	struct ht_shape s = whole_shape(d, x);
	struct ht_value in[2];

	in[0] = ht_dims_value(&d->r, n, ht_rw_name_within(&d->r, n, "shape"), HT_I64, s);
	in[1] = ht_rw_scalar(&d->r, n, ht_rw_name_within(&d->r, n, "zero"), x->dtype, 0);
	ht_rw_become(&d->r, n, HT_OP_Fill, in, 2);
}

/* Whether `v` is 0, 1, … for all elements, as TensorFlow 1 writes packing and unpacking. */
static bool numbers_all(struct dense *d, const struct ht_list *x, struct ht_value v)
{
	int64_t *number;
	size_t count;

	if (x->length < 0 || !ht_const_ints(v, d->r.arena, &number, &count) ||
		count != (size_t)x->length || ht_type_of(v)->shape.rank != 1)
		return false;
	for (size_t i = 0; i < count; i++)
		if (number[i] != (int64_t)i)
			return false;
	return true;
}

/* If all elements are one constant, or the same sizes of the run, any element is. */
static void make_constant(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	const struct ht_tensor *t = x->constant;
	struct ht_str name = ht_rw_name_within(&d->r, n, "item");

	ht_rw_replace_node(&d->r, n,
		t                    ? ht_rw_const(&d->r, n, name, t->dtype, t->shape, t->blob)
		: x->shape.rank == 0 ? ht_dim_value(&d->r, n, name, x->dtype, x->sizes.dim[0])
				     : ht_dims_value(&d->r, n, name, x->dtype, x->sizes));
}

static void make_gather(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	if (numbers_all(d, x, n->in[1])) {
		make_identity(d, n, n->in[0]);
		return;
	}
	ht_rw_become(&d->r, n, HT_OP_Gather, n->in, 2);
}

/* The op that changes elements: replaces them, or adds to them. */
static enum ht_op update_of(const struct ht_node *n)
{
	return ht_attr_bool(n, HT_LIST_ADDS, false) ? HT_OP_TensorScatterAdd
						    : HT_OP_TensorScatterUpdate;
}

/* ht_rw_reshape() to a shape that may have open sizes. */
static struct ht_value reshape(struct dense *d, struct ht_node *n, const char *what,
	struct ht_value of, struct ht_shape to)
{
	struct ht_value in[2] = { of };
	struct ht_node *shaped;

	if (ht_shape_known(to))
		return ht_rw_reshape(&d->r, n, ht_rw_name_within(&d->r, n, what), of, to);
	in[1] = ht_dims_value(&d->r, n, ht_rw_name_within(&d->r, n, "shape"), HT_I64, to);
	shaped = ht_rw_node(&d->r, n, HT_OP_Reshape, ht_rw_name_within(&d->r, n, what), in, 2,
		(struct ht_type){ ht_type_of(of)->dtype, to });
	return ht_out(shaped, 0);
}

/* Sets elements, or adds to them.  They may be without elements themselves, which TensorFlow's op refuses. */
static void become_update(
	struct dense *d, struct ht_node *n, const struct ht_list *x, const struct ht_value *in)
{
	ht_rw_become(&d->r, n, update_of(n), in, 3);
	if (ht_shape_count(x->shape) == 0)
		ht_attr_set_bool(n, "_element", true);
}

static void make_update(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	static const int64_t one[] = { 1, 1 };
	struct ht_list row = { .length = 1, .shape = x->shape };
	struct ht_value in[3] = { n->in[0] };

	in[1] = ht_rw_reshape(&d->r, n, ht_rw_name_within(&d->r, n, "index"), n->in[1],
		(struct ht_shape){ 2, one });
	in[2] = reshape(d, n, "row", n->in[2], whole_shape(d, &row));
	become_update(d, n, x, in);
}

static void make_updates(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	int64_t dim[] = { ht_type_of(n->in[1])->shape.dim[0], 1 };
	struct ht_value in[] = { n->in[0], n->in[2], n->in[1] };

	if (numbers_all(d, x, n->in[2]) && update_of(n) == HT_OP_TensorScatterUpdate) {
		make_identity(d, n, n->in[1]);
		return;
	}
	in[1] = reshape(d, n, "index", in[1], (struct ht_shape){ 2, dim });
	become_update(d, n, x, in);
}

static void make_length(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	ht_rw_replace_node(&d->r, n,
		ht_dim_value(&d->r, n, ht_rw_name_within(&d->r, n, "length"), HT_I32, x->length));
}

static void make_element_shape(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	ht_rw_replace_node(&d->r, n,
		ht_dims_value(
			&d->r, n, ht_rw_name_within(&d->r, n, "shape"), n->out[0].dtype, x->shape));
}

/* The length of each element. */
static struct ht_value lengths_of(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	struct ht_value in[2];
	struct ht_node *fill;

	in[0] = ht_rw_const_ints(
		&d->r, n, ht_rw_name_within(&d->r, n, "count"), HT_I64, &x->length, 1);
	in[1] = ht_rw_scalar(
		&d->r, n, ht_rw_name_within(&d->r, n, "length"), HT_I64, x->shape.dim[0]);
	fill = ht_rw_node(&d->r, n, HT_OP_Fill, ht_rw_name_within(&d->r, n, "lengths"), in, 2,
		(struct ht_type){ HT_I64, { 1, &x->length } });
	return ht_out(fill, 0);
}

/* Concatenates the elements: the first two dimensions become one. */
static void make_concat(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	int64_t dim[HT_MAX_RANK];
	struct ht_value tensor;

	for (int32_t i = 0; i < x->shape.rank; i++)
		dim[i] = i ? x->shape.dim[i] : x->shape.dim[0] * x->length;
	tensor = reshape(d, n, "tensor", n->in[0], (struct ht_shape){ x->shape.rank, dim });
	if (ht_rw_uses(&d->r, ht_out(n, 1)))
		ht_rw_replace_behind(&d->r, ht_out(n, 1), lengths_of(d, n, x));
	ht_rw_replace_node(&d->r, n, tensor);
}

static void change_list_op(struct dense *d, struct ht_node *n, const struct ht_list *x)
{
	switch (n->op) {
	case HT_OP_TensorListReserve:
		make_zeros(d, n, x);
		break;
	case HT_OP_TensorListSetItem:
		make_update(d, n, x);
		break;
	case HT_OP_TensorListScatterIntoExistingList:
		make_updates(d, n, x);
		break;
	case HT_OP_TensorListGetItem:
		if (ht_list_has_one(x)) {
			make_constant(d, n, x);
			break;
		}
		make_gather(d, n, x);
		break;
	case HT_OP_TensorListGather:
		make_gather(d, n, x);
		break;
	case HT_OP_TensorListLength:
		make_length(d, n, x);
		break;
	case HT_OP_TensorListElementShape:
		make_element_shape(d, n, x);
		break;
	case HT_OP_TensorListConcatV2:
		make_concat(d, n, x);
		break;
	default: /* TensorListFromTensor, TensorListStack */
		make_identity(d, n, n->in[0]);
	}
}

/* ---- nodes that pass lists on ---- */

/* Only attributes change: inference sets the types of results from them. */
static void change_handing_on(struct dense *d, struct ht_node *n)
{
	int32_t first = ht_is(n, HT_BRANCHES) ? ht_control_first(n) : 0;
	struct ht_list *x;

	for (int32_t i = first; i < n->ins; i++)
		if ((x = known_list(d, n->in[i])))
			ht_carry_operand_type(n, i - first, list_type(d, x));
	for (int32_t i = 0; i < n->outs; i++)
		if ((x = known_list(d, ht_out(n, i))))
			ht_carry_result_type(n, i, list_type(d, x));
}

/* ---- graphs ---- */

/* The list that a list op works on. */
static struct ht_list *list_of_op(struct dense *d, struct ht_node *n)
{
	return n->ins ? known_list(d, ht_makes_list(n) ? ht_out(n, 0) : n->in[0]) : NULL;
}

static bool hands_on(const struct ht_node *n)
{
	return ht_is(n, HT_FORWARDS | HT_ARGUMENT | HT_BRANCHES | HT_LOOPS) ||
	       n->op == HT_OP_ZerosLike || n->op == HT_OP_AddN;
}

static void change_bodies(struct ht_lists *l, const struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);

	for (int k = 0; k < 2; k++)
		if (b.of[k] && b.of[k]->special)
			ht_lists_make_dense(l, b.of[k]->body);
}

void ht_lists_make_dense(struct ht_lists *l, struct ht_graph *g)
{
	struct dense d = { .l = l };
	struct ht_rw_within within;
	struct ht_node **all;
	size_t count;

	ht_rw_init_within(&d.r, &within, g, l->c);
	all = ht_rw_nodes(&d.r, &count);
	for (size_t i = 0; i < count; i++) {
		struct ht_node *n = all[i];
		struct ht_list *x = n->graph && ht_is_list_op(n) ? list_of_op(&d, n) : NULL;

		if (x)
			change_list_op(&d, n, x);
		else if (n->graph && hands_on(n))
			change_handing_on(&d, n);
		if (n->graph && ht_is(n, HT_BRANCHES | HT_LOOPS))
			change_bodies(l, n);
	}
}
