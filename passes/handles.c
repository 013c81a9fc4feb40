/* handles: TensorFlow 1's stacks and TensorArrays, which ops access by a handle, become
 * TensorLists.
 *
 * An op that takes a handle changes the object behind it, in the graph's order.  A list is a
 * value: each change makes a new list, which the next op takes; branches and loops take and
 * return the lists of the handles that they take.  A TensorArray may have arrays of gradients,
 * in which writes to one element are summed; each of them is a list besides the array's.  Flows,
 * the scalars that only order the ops of TensorArrays, stay as unused scalars.
 *
 * All objects of a graph are left alone if one of them is unsuitable: a handle that is an
 * element of another stack, or that another kind of op takes or returns. */
#include "passes/by_value.h"
#include "passes/carry.h"
#include "passes/lists.h"

/* The object behind a handle. */
struct object {
	struct ht_node *maker;   /* StackV2 or TensorArrayV3 */
	struct ht_str source;    /* of gradients: their source */
	struct object *array;    /* of gradients: the array that they belong to; NULL: this is no
				  * array of gradients */
	bool reshaped;           /* elements of gradients have more axes than the array's */
	struct ht_value current; /* its list at the current node of the walk; no node: none yet */
	struct object *next;     /* in the list of all */
};

struct handles {
	struct ht_pass_context *c;
	struct ht_map of; /* object by value of a handle */
	struct object *first;
	bool asking; /* the walk is in the condition of a loop, whose changes would be lost */
	bool odd;
};

/* One graph's part. */
struct part {
	struct handles *x;
	struct ht_rw r;
};

/* ---- handles by value ---- */

static struct object *object_of(const struct handles *x, struct ht_value v)
{
	return ht_by_value(&x->of, v);
}

static void is_handle(struct handles *x, struct ht_value v, struct object *o)
{
	ht_set_by_value(&x->of, x->c->scratch, v, o);
}

static struct object *new_object(struct handles *x, struct ht_node *maker, struct object *array)
{
	struct object *o = HT_NEW(x->c->scratch, struct object);

	*o = (struct object){ .maker = maker, .array = array, .next = x->first };
	return x->first = o;
}

/* The gradients of an array for `source`; there is one object for each pair. */
static struct object *gradients_of(struct handles *x, struct object *array, struct ht_str source)
{
	struct object *o;

	for (o = x->first; o; o = o->next)
		if (o->array == array && ht_str_eq(o->source, source))
			return o;
	o = new_object(x, array->maker, array);
	o->source = source;
	return o;
}

/* Whether code with the handle of `of` can get to `o`. */
static bool is_behind(const struct object *o, const struct object *of)
{
	return o == of || o->array == of;
}

static bool is_made(const struct ht_node *n)
{
	return n->op == HT_OP_StackV2 || n->op == HT_OP_TensorArrayV3;
}

/* Whether a node makes the array of gradients of one. */
static bool makes_gradients(const struct ht_node *n)
{
	return n->op == HT_OP_TensorArrayGradV3 || n->op == HT_OP_TensorArrayGradWithShape;
}

/* Whether an op works on the object behind a handle, which is its only one. */
static bool uses_handle(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_StackPushV2:
	case HT_OP_StackPopV2:
	case HT_OP_StackCloseV2:
	case HT_OP_TensorArrayGradV3:
	case HT_OP_TensorArrayGradWithShape:
	case HT_OP_TensorArrayWriteV3:
	case HT_OP_TensorArrayReadV3:
	case HT_OP_TensorArrayGatherV3:
	case HT_OP_TensorArrayScatterV3:
	case HT_OP_TensorArrayConcatV3:
	case HT_OP_TensorArraySizeV3:
	case HT_OP_TensorArrayCloseV3:
		return true;
	default:
		return false;
	}
}

/* ---- finding handles ---- */

static void find_in(struct handles *x, struct ht_graph *g);

static void pass_on(struct handles *x, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	int32_t first = ht_control_first(n);
	bool asking = x->asking;

	for (int k = 0; k < 2; k++) {
		int32_t i = first;

		for (const struct ht_port *p = b.of[k]->args; p && i < n->ins; p = p->next, i++)
			if (object_of(x, n->in[i]))
				is_handle(x, p->value, object_of(x, n->in[i]));
		x->asking = asking || (ht_is(n, HT_LOOPS) && k == 0);
		find_in(x, b.of[k]->body);
		x->asking = asking;
		i = 0;
		for (const struct ht_port *p = b.of[k]->rets; p; p = p->next, i++) {
			struct object *o = object_of(x, p->value);

			if (!ht_is(n, HT_LOOPS) || k == 0)
				x->odd = x->odd || o;
			else if (o || object_of(x, n->in[i]))
				x->odd = x->odd || o != object_of(x, n->in[i]);
			if (o && ht_is(n, HT_LOOPS) && k == 1 && i < n->outs)
				is_handle(x, ht_out(n, i), o);
		}
	}
}

static void find_at(struct handles *x, struct ht_node *n)
{
	struct object *o = n->ins ? object_of(x, n->in[0]) : NULL;

	if (is_made(n)) {
		is_handle(x, ht_out(n, 0), new_object(x, n, NULL));
	} else if (uses_handle(n)) {
		bool grows = o && ht_attr_bool(o->maker, "dynamic_size", false);

		x->odd = x->odd || !o || x->asking;
		if (o && makes_gradients(n)) {
			struct object *gradients = gradients_of(x, o, ht_attr_str(n, "source", ""));

			x->odd = x->odd || o->array || grows;
			gradients->reshaped =
				gradients->reshaped || n->op == HT_OP_TensorArrayGradWithShape;
			is_handle(x, ht_out(n, 0), gradients);
		}
		for (int32_t i = 1; i < n->ins; i++)
			x->odd = x->odd || object_of(x, n->in[i]);
	} else if (ht_runs_own(n)) {
		pass_on(x, n);
	} else {
		for (int32_t i = 0; i < n->ins; i++)
			if (object_of(x, n->in[i])) {
				x->odd = x->odd || !ht_is(n, HT_FORWARDS) || i >= n->outs;
				is_handle(x, ht_out(n, i), object_of(x, n->in[i]));
			}
	}
}

static void find_in(struct handles *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		find_at(x, n);
}

/* ---- nodes ---- */

static enum ht_dtype element_type(const struct object *o)
{
	return ht_attr_type(
		o->maker, o->maker->op == HT_OP_StackV2 ? "elem_type" : "dtype", HT_INVALID);
}

/* Makes the list of an object where the object is made. */
static void make_list(struct part *p, struct object *o)
{
	struct ht_node *n = o->maker, *list;
	bool stack = n->op == HT_OP_StackV2;
	struct ht_value in[] = { ht_rw_element_shape(&p->r, n, o->reshaped ? "" : "element_shape"),
		n->in[0] };

	list = ht_rw_node(&p->r, n, stack ? HT_OP_EmptyTensorList : HT_OP_TensorListReserve,
		ht_rw_name_within(&p->r, n, "list"), in, 2, HT_LIST_TYPE);
	ht_attr_set_type(list, "element_dtype", element_type(o));
	o->current = ht_out(list, 0);
}

static void make(struct part *p, struct ht_node *n)
{
	for (struct object *o = p->x->first; o; o = o->next)
		if (o->maker == n)
			make_list(p, o);
}

/* `n` becomes an op on the list, followed by the other operands. */
static void become(struct part *p, struct ht_node *n, struct object *o, enum ht_op op,
	const struct ht_value *more, int32_t count)
{
	struct ht_value in[3] = { o->current };

	for (int32_t i = 0; i < count; i++)
		in[i + 1] = more[i];
	ht_rw_become(&p->r, n, op, in, count + 1);
	if (op != HT_OP_TensorListLength)
		ht_attr_set_type(n, "element_dtype", element_type(o));
}

/* Likewise an op that changes the list; users of its result use `instead`. */
static void change(struct part *p, struct ht_node *n, struct object *o, enum ht_op op,
	struct ht_value instead, const struct ht_value *more, int32_t count)
{
	ht_rw_replace_behind(&p->r, ht_out(n, 0), instead);
	become(p, n, o, op, more, count);
	n->out[0] = HT_LIST_TYPE;
	if (o->array)
		ht_attr_set_bool(n, HT_LIST_ADDS, true);
	if (op == HT_OP_TensorListSetItem && ht_attr_bool(o->maker, "dynamic_size", false))
		ht_attr_set_bool(n, "resize_if_index_out_of_bounds", true);
	o->current = ht_out(n, 0);
}

static void pop(struct part *p, struct ht_node *n, struct object *o)
{
	struct ht_value in[] = { o->current, ht_rw_element_shape(&p->r, n, "element_shape") },
			tensor;
	struct ht_node *list = ht_rw_node(&p->r, n, HT_OP_TensorListPopBack,
		ht_rw_name_within(&p->r, n, "list"), in, 2, HT_LIST_TYPE);

	ht_attr_set_type(list, "element_dtype", element_type(o));
	ht_node_set_outs(list, 2);
	list->out[1] = n->out[0];
	tensor = ht_out(list, 1);
	ht_rw_become(&p->r, n, HT_OP_Identity, &tensor, 1);
	o->current = ht_out(list, 0);
}

static void join(struct part *p, struct ht_node *n, struct object *o)
{
	static const int64_t none[1];
	struct ht_value in[] = { ht_rw_element_shape(&p->r, n, ""),
		ht_rw_const_ints(
			&p->r, n, ht_rw_name_within(&p->r, n, "leading_dims"), HT_I64, none, 0) };

	become(p, n, o, HT_OP_TensorListConcatV2, in, 2);
}

static void change_node(struct part *p, struct ht_node *n, struct object *o)
{
	struct ht_value in[4] = { { 0 } };

	for (int32_t i = 0; i < n->ins && i < 4; i++)
		in[i] = n->in[i];
	switch (n->op) {
	case HT_OP_StackPushV2:
		change(p, n, o, HT_OP_TensorListPushBack, in[1], in + 1, 1);
		break;
	case HT_OP_StackPopV2:
		pop(p, n, o);
		break;
	case HT_OP_TensorArrayWriteV3:
		change(p, n, o, HT_OP_TensorListSetItem, in[3], in + 1, 2);
		break;
	case HT_OP_TensorArrayScatterV3:
		in[0] = in[1];
		in[1] = in[2];
		in[2] = in[0];
		change(p, n, o, HT_OP_TensorListScatterIntoExistingList, in[3], in + 1, 2);
		break;
	case HT_OP_TensorArrayReadV3:
		in[2] = ht_rw_element_shape(&p->r, n, "");
		become(p, n, o, HT_OP_TensorListGetItem, in + 1, 2);
		break;
	case HT_OP_TensorArrayGatherV3:
		in[2] = ht_rw_element_shape(&p->r, n, "element_shape");
		become(p, n, o, HT_OP_TensorListGather, in + 1, 2);
		break;
	case HT_OP_TensorArrayConcatV3:
		join(p, n, o);
		break;
	case HT_OP_TensorArraySizeV3:
		become(p, n, o, HT_OP_TensorListLength, NULL, 0);
		break;
	case HT_OP_StackCloseV2:
	case HT_OP_TensorArrayCloseV3:
		ht_rw_become(&p->r, n, HT_OP_NoOp, NULL, 0);
		break;
	default: /* an array of gradients, which goes as what makes a handle does */
		break;
	}
}

/* ---- branches and loops ---- */

static void set_item(struct ht_node *n, const char *attr, int32_t i)
{
	struct ht_attr *a = ht_attr_own(n, attr);

	if (a && a->value.kind == HT_ATTR_LIST && (size_t)i < a->value.list.n)
		a->value.list.item[i].type = HT_F32;
}

/* Handles become unused numbers. */
static void forget_handle(struct ht_value v)
{
	v.node->out[v.index] = (struct ht_type){ HT_F32, HT_SHAPE_SCALAR };
	if (ht_is(v.node, HT_ARGUMENT))
		ht_attr_set_type(v.node, "T", HT_F32);
}

static void forget_handles(struct handles *x, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	int32_t first = ht_control_first(n);

	for (int32_t i = first; i < n->ins; i++)
		if (object_of(x, n->in[i]))
			set_item(n, ht_is(n, HT_LOOPS) ? "T" : "Tin", i - first);
	for (int32_t i = 0; i < n->outs; i++)
		if (object_of(x, ht_out(n, i)))
			forget_handle(ht_out(n, i));
	for (int k = 0; k < 2; k++)
		for (const struct ht_port *p = b.of[k]->args; p; p = p->next)
			if (object_of(x, p->value))
				forget_handle(p->value);
}

/* Whether `n` takes a handle that leads to `o`, and the list of `o` exists. */
static bool takes(struct handles *x, const struct ht_node *n, const struct object *o)
{
	for (int32_t i = ht_control_first(n); i < n->ins && o->current.node; i++)
		if (object_of(x, n->in[i]) && is_behind(o, object_of(x, n->in[i])))
			return true;
	return false;
}

static void change_graph(struct handles *x, struct ht_graph *g);

/* A list that a branch or loop takes. */
struct taken {
	struct object *object;
	struct ht_value at, left[2]; /* outside, and what each body leaves in it */
	struct ht_value arg[2];
};

static int32_t find_taken(struct part *p, struct ht_node *n, struct taken **taken)
{
	size_t cap = 0;
	int32_t count = 0;

	*taken = NULL;
	for (struct object *o = p->x->first; o; o = o->next)
		if (takes(p->x, n, o)) {
			*taken = ht_grow(p->r.arena, *taken, (size_t)count, &cap, sizeof **taken);
			(*taken)[count++] = (struct taken){ .object = o, .at = o->current };
		}
	return count;
}

static void change_body(
	struct part *p, struct ht_function *f, int k, struct taken *taken, int32_t count)
{
	for (int32_t i = 0; i < count; i++) {
		taken[i].arg[k] = ht_carry_argument(f, HT_LIST_TYPE);
		taken[i].object->current = taken[i].arg[k];
	}
	change_graph(p->x, f->body);
	for (int32_t i = 0; i < count; i++) {
		taken[i].left[k] = taken[i].object->current;
		taken[i].object->current = taken[i].at;
	}
}

static bool is_left(const struct taken *t)
{
	return ht_value_eq(t->left[0], t->arg[0]) && ht_value_eq(t->left[1], t->arg[1]);
}

/* The lists of handles that `n` takes become its arguments; those that a branch changes become
 * its results. */
static void change_control(struct part *p, struct ht_node *n)
{
	struct ht_bodies b = ht_control_bodies(n);
	bool loops = ht_is(n, HT_LOOPS);
	struct taken *taken;
	int32_t count = find_taken(p, n, &taken);

	forget_handles(p->x, n);
	for (int32_t i = 0; i < count; i++)
		ht_carry_operand(&p->r, n, taken[i].at);
	for (int k = 0; k < 2; k++)
		change_body(p, b.of[k], k, taken, count);
	for (int32_t i = 0; i < count; i++) {
		if (!loops && is_left(&taken[i]))
			continue;
		for (int k = loops; k < 2; k++)
			ht_carry_return(b.of[k], taken[i].left[k]);
		taken[i].object->current = ht_carry_result(n, HT_LIST_TYPE);
	}
}

/* ---- graphs ---- */

static void visit(struct part *p, struct ht_node *n)
{
	if (is_made(n))
		make(p, n);
	else if (uses_handle(n))
		change_node(p, n, object_of(p->x, n->in[0]));
	else if (ht_runs_own(n))
		change_control(p, n);
	else if (n->ins && object_of(p->x, n->in[0]) && ht_is(n, HT_FORWARDS)) {
		forget_handle(ht_out(n, 0));
		ht_attr_set_type(n, "T", HT_F32);
	}
}

/* Removes the node that made a handle, and possibly a flow. */
static void remove_maker(struct part *p, struct ht_node *n)
{
	struct ht_value zero =
		ht_rw_scalar(&p->r, n, ht_rw_name_within(&p->r, n, "handle"), HT_F32, 0);

	ht_rw_replace_behind(&p->r, ht_out(n, 0), zero);
	if (n->outs > 1)
		ht_rw_replace_behind(&p->r, ht_out(n, 1), makes_gradients(n) ? n->in[1] : zero);
	ht_rw_become(&p->r, n, HT_OP_NoOp, NULL, 0);
	ht_node_set_outs(n, 0);
}

static void change_graph(struct handles *x, struct ht_graph *g)
{
	struct ht_rw_within within;
	struct part p = { .x = x };
	struct ht_node **all;
	size_t count;

	ht_rw_init_within(&p.r, &within, g, x->c);
	all = ht_rw_nodes(&p.r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			visit(&p, all[i]);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph && (is_made(all[i]) || makes_gradients(all[i])))
			remove_maker(&p, all[i]);
}

static bool has_handles(const struct ht_graph *g)
{
	for (const struct ht_node *n = g->first; n; n = n->next) {
		struct ht_bodies b = { { NULL } };

		if (is_made(n))
			return true;
		if (ht_runs_own(n))
			b = ht_control_bodies(n);
		for (int k = 0; k < 2; k++)
			if (b.of[k] && has_handles(b.of[k]->body))
				return true;
	}
	return false;
}

enum ht_status ht_handles_to_lists(struct ht_graph *g, struct ht_pass_context *c)
{
	struct handles x = { .c = c };

	if (!has_handles(g))
		return HT_OK;
	ht_map_init(&x.of, c->scratch);
	find_in(&x, g);
	if (x.odd)
		return HT_OK;
	change_graph(&x, g);
	return ht_infer_types(g, c->diags);
}
