/* optionals: optional tensors become tensors.
 *
 * The gradient of a branch takes what the branch computed on its way.  These values leave the branch as optional tensors: one side makes
 * them (OptionalFromValue), the other side has none (OptionalNone), and the gradient's branch on the first side reads them
 * (OptionalGetValue).  Lists may have optional tensors as elements, and optional tensors may be lists.
 *
 * An optional tensor becomes the tensor in it.  Where there is none, FakeParam takes its place, as in the graphs that TensorFlow makes for
 * XLA: a tensor that nothing reads (fakes.c).
 *
 * Left alone, and refused by lowering: all optional tensors of a graph if one of them has several components, is asked whether it has a
 * value, or is taken by an op that is not named here. */
#include "passes/by_value.h"
#include "passes/carry.h"
#include "passes/optionals.h"

enum { MOST_DEPTH = 32 }; /* of kinds: a list may be its own element */

/* What a value is: a tensor, a list of something, or an optional something. */
struct kind {
	struct kind *same; /* the one that it was found to be; NULL: it stands for itself */
	enum { UNKNOWN, TENSOR, LIST, OPTIONAL } form;
	enum ht_dtype dtype; /* TENSOR */
	struct kind *of;     /* LIST, OPTIONAL */
};

struct optionals {
	struct ht_pass_context *c;
	struct ht_map by_value; /* kinds of variants */
	bool odd;               /* all are left alone */
};

/* ---- kinds ---- */

static struct kind *make_kind(const struct optionals *x, int form, struct kind *of)
{
	struct kind *k = HT_NEW(x->c->scratch, struct kind);

	*k = (struct kind){ .form = form, .of = of };
	return k;
}

static struct kind *tensor_kind(const struct optionals *x, enum ht_dtype t)
{
	struct kind *k = make_kind(x, t == HT_VARIANT ? UNKNOWN : TENSOR, NULL);

	k->dtype = t;
	return k;
}

bool ht_is_variant(struct ht_value v)
{
	return !v.port.n && v.index >= 0 && v.index < v.node->outs &&
	       ht_type_of(v)->dtype == HT_VARIANT;
}

static struct kind *known_kind(const struct optionals *x, struct ht_value v)
{
	return ht_by_value(&x->by_value, v);
}

static struct kind *kind_of(struct optionals *x, struct ht_value v)
{
	struct kind *k = known_kind(x, v);

	if (k)
		return k;
	if (!ht_is_variant(v))
		return tensor_kind(x, ht_type_of(v)->dtype);
	k = make_kind(x, UNKNOWN, NULL);
	ht_set_by_value(&x->by_value, x->c->scratch, v, k);
	return k;
}

/* The kind that stands for this one.  Chains become shorter on the way. */
static struct kind *standing(struct kind *k)
{
	while (k->same) {
		if (k->same->same)
			k->same = k->same->same;
		k = k->same;
	}
	return k;
}

static void are_same(struct optionals *x, struct kind *a, struct kind *b)
{
	for (;;) {
		a = standing(a);
		b = standing(b);
		if (a == b)
			return;
		if (a->form == UNKNOWN || b->form == UNKNOWN)
			break;
		x->odd = x->odd || a->form != b->form || a->dtype != b->dtype;
		b->same = a;
		if (x->odd || a->form == TENSOR)
			return;
		a = a->of;
		b = b->of;
	}
	if (a->form == UNKNOWN)
		a->same = b;
	else
		b->same = a;
}

/* The type of a value of the kind without optional tensors; those that never have a value are Boolean. */
static enum ht_dtype dtype_of(struct optionals *x, struct kind *k)
{
	bool optional = false;

	k = standing(k);
	for (int depth = 0; k->form == OPTIONAL; k = standing(k->of), optional = true)
		if (depth++ > MOST_DEPTH) {
			x->odd = true;
			return HT_VARIANT;
		}
	if (k->form == TENSOR)
		return k->dtype;
	return optional && k->form == UNKNOWN ? HT_BOOL : HT_VARIANT;
}

/* Whether the value is an optional tensor, or a list of these, or of lists of these. */
static bool is_changed(struct kind *k)
{
	k = standing(k);
	for (int depth = 0; k->form == LIST && depth < MOST_DEPTH; depth++)
		k = standing(k->of);
	return k->form == OPTIONAL;
}

/* ---- what nodes tell ---- */

static void is_list(struct optionals *x, struct ht_value list, struct kind *element)
{
	are_same(x, kind_of(x, list), make_kind(x, LIST, element));
}

static void is_optional(struct optionals *x, struct ht_value v, struct kind *component)
{
	are_same(x, kind_of(x, v), make_kind(x, OPTIONAL, component));
}

static void values_are_same(struct optionals *x, struct ht_value a, struct ht_value b)
{
	if (ht_is_variant(a) || ht_is_variant(b))
		are_same(x, kind_of(x, a), kind_of(x, b));
}

/* Whether the op is one of lists whose elements may be optional tensors. */
static bool tell_of_list(struct optionals *x, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
		is_list(x, ht_out(n, 0),
			tensor_kind(x, ht_attr_type(n, "element_dtype", HT_VARIANT)));
		return true;
	case HT_OP_TensorListPushBack:
		is_list(x, n->in[0], kind_of(x, n->in[1]));
		break;
	case HT_OP_TensorListSetItem:
		is_list(x, n->in[0], kind_of(x, n->in[2]));
		break;
	case HT_OP_TensorListGetItem:
		is_list(x, n->in[0], kind_of(x, ht_out(n, 0)));
		return true;
	case HT_OP_TensorListPopBack:
		is_list(x, n->in[0], kind_of(x, ht_out(n, 1)));
		break;
	case HT_OP_TensorListLength:
		return true;
	default:
		return false;
	}
	values_are_same(x, n->in[0], ht_out(n, 0));
	return true;
}

static bool tell_of_optional(struct optionals *x, struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_OptionalFromValue:
		x->odd = x->odd || n->ins != 1;
		if (n->ins == 1)
			is_optional(x, ht_out(n, 0), kind_of(x, n->in[0]));
		return true;
	case HT_OP_OptionalNone:
		is_optional(x, ht_out(n, 0), make_kind(x, UNKNOWN, NULL));
		return true;
	case HT_OP_OptionalGetValue:
		x->odd = x->odd || n->outs != 1;
		if (n->outs == 1)
			is_optional(x, n->in[0], kind_of(x, ht_out(n, 0)));
		return true;
	case HT_OP_OptionalHasValue:
		x->odd = true;
		return true;
	default:
		return false;
	}
}

static void find(struct optionals *x, struct ht_graph *g);

static void tell_of_body(struct optionals *x, struct ht_node *n, int k)
{
	const struct ht_bodies b = ht_control_bodies(n);
	int32_t i = ht_control_first(n);

	for (const struct ht_port *p = b.of[k]->args; p && i < n->ins; p = p->next, i++)
		values_are_same(x, n->in[i], p->value);
	i = 0;
	for (const struct ht_port *p = b.of[k]->rets; p && i < n->outs; p = p->next, i++)
		if (k || !ht_is(n, HT_LOOPS))
			values_are_same(x, ht_out(n, i), p->value);
	find(x, b.of[k]->body);
}

static bool hands_on(const struct ht_node *n)
{
	return ht_is(n, HT_FORWARDS) || n->op == HT_OP_ZerosLike;
}

static void tell(struct optionals *x, struct ht_node *n)
{
	if (tell_of_list(x, n) || tell_of_optional(x, n))
		return;
	if (ht_runs_own(n)) {
		for (int32_t i = 0; i < n->outs && ht_is(n, HT_LOOPS); i++)
			values_are_same(x, n->in[i], ht_out(n, i));
		tell_of_body(x, n, 0);
		tell_of_body(x, n, 1);
	} else if (hands_on(n)) {
		for (int32_t i = 0; i < n->outs && i < n->ins; i++)
			values_are_same(x, n->in[i], ht_out(n, i));
	}
}

static void find(struct optionals *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next)
		tell(x, n);
}

/* ---- what cannot be changed ---- */

static bool check_value(const struct optionals *x, struct ht_value v)
{
	struct kind *k = known_kind(x, v);

	return !k || !is_changed(k);
}

static bool can_take(const struct ht_node *n)
{
	switch (n->op) {
	case HT_OP_EmptyTensorList:
	case HT_OP_TensorListReserve:
	case HT_OP_TensorListPushBack:
	case HT_OP_TensorListPopBack:
	case HT_OP_TensorListSetItem:
	case HT_OP_TensorListGetItem:
	case HT_OP_TensorListLength:
	case HT_OP_OptionalFromValue:
	case HT_OP_OptionalNone:
	case HT_OP_OptionalGetValue:
		return true;
	default:
		return hands_on(n) || ht_is(n, HT_ARGUMENT) || ht_runs_own(n);
	}
}

/* Whether all nodes that take or give optional tensors can be changed. */
static bool check(const struct optionals *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);
		bool fits = can_take(n);

		for (int32_t i = 0; i < n->ins && !fits; i++)
			if (!check_value(x, n->in[i]))
				return false;
		for (int32_t i = 0; i < n->outs && !fits; i++)
			if (!check_value(x, ht_out(n, i)))
				return false;
		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			if (!check(x, b.of[k]->body))
				return false;
	}
	return true;
}

/* Likewise of the values that a graph gets and gives. */
static bool check_ports(const struct optionals *x, const struct ht_graph *g)
{
	const struct ht_port *all[] = { g->function ? g->function->args : NULL,
		g->function ? g->function->rets : NULL,
		!g->function && x->c->entry ? x->c->entry->outputs : NULL };

	for (size_t i = 0; i < HT_COUNT(all); i++)
		for (const struct ht_port *p = all[i]; p; p = p->next)
			if (!check_value(x, p->value))
				return false;
	return true;
}

/* ---- changes ---- */

static void set_types(struct optionals *x)
{
	for (size_t i = 0; i < x->by_value.count; i++) {
		enum ht_dtype t = dtype_of(x, x->by_value.entries[i].value);

		if (t != HT_VARIANT)
			*ht_type_of(ht_value_of_entry(&x->by_value, i)) =
				(struct ht_type){ t, HT_SHAPE_UNKNOWN };
	}
}

static void make_identity(struct ht_rw *r, struct ht_node *n)
{
	ht_rw_become(r, n, HT_OP_Identity, n->in, 1);
}

/* A list that is not there is an empty one. */
static void make_empty_list(struct optionals *x, struct ht_rw *r, struct ht_node *n)
{
	const struct kind *list = standing(standing(kind_of(x, ht_out(n, 0)))->of);
	struct ht_value in[] = { ht_rw_scalar(r, n, ht_rw_name_within(r, n, "shape"), HT_I32, -1),
		ht_rw_scalar(r, n, ht_rw_name_within(r, n, "limit"), HT_I32, -1) };

	ht_rw_become(r, n, HT_OP_EmptyTensorList, in, 2);
	ht_attr_set_type(
		n, "element_dtype", list->form == LIST ? dtype_of(x, list->of) : HT_VARIANT);
}

/* What never has a value is a scalar. */
static void make_fake(struct optionals *x, struct ht_rw *r, struct ht_node *n)
{
	bool never = standing(standing(kind_of(x, ht_out(n, 0)))->of)->form == UNKNOWN;

	ht_rw_become(r, n, HT_OP_FakeParam, NULL, 0);
	ht_attr_set_type(n, "dtype", n->out[0].dtype);
	ht_attr_set_shape(n, "shape", never ? HT_SHAPE_SCALAR : HT_SHAPE_UNKNOWN);
}

/* The elements of a list get the dtype of what they become.  Their stated shape, that of a variant, says nothing. */
static void change_list(struct ht_rw *r, struct ht_node *n, enum ht_dtype element)
{
	int32_t stated = n->op == HT_OP_TensorListGetItem   ? 2
			 : n->op == HT_OP_TensorListPopBack ? 1
							    : 0;
	enum ht_dtype t;

	ht_attr_set_type(n, "element_dtype", element);
	if (n->op == HT_OP_TensorListPushBack || n->op == HT_OP_TensorListSetItem)
		return;
	t = ht_type_of(n->in[stated])->dtype;
	ht_rw_set_in(r, n, stated, ht_rw_scalar(r, n, ht_rw_name_within(r, n, "shape"), t, -1));
}

static void change_op(struct optionals *x, struct ht_rw *r, struct ht_node *n)
{
	struct kind *list;

	switch (n->op) {
	case HT_OP_OptionalFromValue:
	case HT_OP_OptionalGetValue:
		make_identity(r, n);
		break;
	case HT_OP_OptionalNone:
		if (n->out[0].dtype == HT_VARIANT)
			make_empty_list(x, r, n);
		else
			make_fake(x, r, n);
		break;
	case HT_OP_TensorListLength:
		break;
	default:
		list = known_kind(x, n->ins && ht_is_variant(n->in[0]) ? n->in[0] : ht_out(n, 0));
		list = list ? standing(list) : NULL;
		while (list && list->form == OPTIONAL)
			list = standing(list->of);
		if (list && list->form == LIST && is_changed(list))
			change_list(r, n, dtype_of(x, list->of));
	}
}

/* Types of results are set already; attributes have to say the same. */
static void change_handing_on(struct optionals *x, struct ht_node *n)
{
	int32_t first = ht_is(n, HT_BRANCHES) ? ht_control_first(n) : 0;

	for (int32_t i = first; i < n->ins; i++)
		if (known_kind(x, n->in[i]))
			ht_carry_operand_type(n, i - first, *ht_type_of(n->in[i]));
	for (int32_t i = 0; i < n->outs; i++)
		if (known_kind(x, ht_out(n, i)))
			ht_carry_result_type(n, i, n->out[i]);
}

static void change(struct optionals *x, struct ht_graph *g)
{
	struct ht_rw_within within;
	struct ht_node **all;
	struct ht_rw r;
	size_t n;

	ht_rw_init_within(&r, &within, g, x->c);
	all = ht_rw_nodes(&r, &n);
	for (size_t i = 0; i < n; i++) {
		const struct ht_bodies b = ht_control_bodies(all[i]);

		if (!all[i]->graph)
			continue;
		for (int k = 0; k < 2 && ht_runs_own(all[i]); k++)
			change(x, b.of[k]->body);
		if (hands_on(all[i]) || ht_is(all[i], HT_ARGUMENT) || ht_runs_own(all[i]))
			change_handing_on(x, all[i]);
		else if (can_take(all[i]))
			change_op(x, &r, all[i]);
	}
}

/* ---- one OptionalNone for each use ---- */

static struct ht_value none_again(struct ht_node *from)
{
	struct ht_graph *g = from->graph;
	struct ht_node *copy = ht_node_new(g, from->type, ht_graph_free_name(g, from->name));

	ht_node_set_outs(copy, 1);
	copy->out[0] = from->out[0];
	ht_node_add_origin(copy, from);
	ht_node_move(copy, g->first);
	return ht_out(copy, 0);
}

/* One OptionalNone may stand for values of several types: each use gets one of its own.  Returns whether the graph, or a body that it runs,
 * has optional tensors. */
static bool separate(struct ht_graph *g)
{
	bool any = false;

	for (struct ht_port *p = g->function ? g->function->rets : NULL; p; p = p->next)
		if (p->value.node->op == HT_OP_OptionalNone)
			p->value = none_again(p->value.node);
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		any = any || n->op == HT_OP_OptionalFromValue || n->op == HT_OP_OptionalNone ||
		      n->op == HT_OP_OptionalGetValue;
		for (int32_t i = 0; i < n->ins; i++)
			if (n->in[i].node->op == HT_OP_OptionalNone)
				n->in[i] = none_again(n->in[i].node);
		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			any = separate(b.of[k]->body) || any;
	}
	return any;
}

/* ---- graphs ---- */

enum ht_status ht_optionals_to_tensors(struct ht_graph *g, struct ht_pass_context *c)
{
	struct optionals x = { .c = c };

	if (!separate(g))
		return HT_OK;
	ht_map_init(&x.by_value, c->scratch);
	x.odd = !ht_split_optionals(g, c);
	find(&x, g);
	for (size_t i = 0; i < x.by_value.count && !x.odd; i++)
		dtype_of(&x, x.by_value.entries[i].value);
	if (x.odd || !check(&x, g) || !check_ports(&x, g))
		return HT_OK;
	set_types(&x);
	change(&x, g);
	return ht_infer_types(g, c->diags);
}
