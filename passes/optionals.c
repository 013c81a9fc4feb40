/* optionals: optional tensors become tensors.
 *
 * The gradient of a branch takes what the branch computed on its way.  These values leave the branch as optional tensors: one side makes
 * them (OptionalFromValue), the other side has none (OptionalNone), and the gradient's branch on the first side reads them
 * (OptionalGetValue).  Lists may have optional tensors as elements, and optional tensors may be lists.
 *
 * An optional tensor becomes the tensor in it.  Where there is none, FakeParam takes its place, as in the graphs that TensorFlow makes for
 * XLA: a tensor that nothing reads.  ht_settle_fakes() makes it zeros of the shape that the other side's tensor has.
 *
 * Left alone, and refused by lowering: all optional tensors of a graph if one of them has several components, is asked whether it has a
 * value, or is taken by an op that is not named here. */
#include "passes/bounded.h"
#include "passes/carry.h"

#include <string.h>

enum {
	MOST_DEPTH = 32, /* of kinds: a list may be its own element */
	MOST_NESTED = 3  /* nodes between conditions and what these are computed of */
};

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
	struct ht_map caller;   /* the branch or loop that runs a body */
	bool odd;               /* all are left alone */
};

struct key {
	struct ht_node *node;
	int64_t index;
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

static bool is_variant(struct ht_value v)
{
	return !v.port.n && v.index >= 0 && v.index < v.node->outs &&
	       ht_type_of(v)->dtype == HT_VARIANT;
}

static struct kind *known_kind(const struct optionals *x, struct ht_value v)
{
	const struct key key = { v.node, v.index };

	return ht_map_get(&x->by_value, (struct ht_str){ (const char *)&key, sizeof key });
}

static struct kind *kind_of(struct optionals *x, struct ht_value v)
{
	struct kind *k = known_kind(x, v);
	struct key *key;

	if (k)
		return k;
	if (!is_variant(v))
		return tensor_kind(x, ht_type_of(v)->dtype);
	key = HT_NEW(x->c->scratch, struct key);
	*key = (struct key){ v.node, v.index };
	k = make_kind(x, UNKNOWN, NULL);
	ht_map_at(&x->by_value, (struct ht_str){ (const char *)key, sizeof *key })->value = k;
	return k;
}

static struct kind *standing(struct kind *k)
{
	while (k->same)
		k = k->same;
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
	if (is_variant(a) || is_variant(b))
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
		const struct key *v = (const void *)x->by_value.entries[i].key.p;
		enum ht_dtype t = dtype_of(x, x->by_value.entries[i].value);

		if (t != HT_VARIANT)
			v->node->out[v->index] = (struct ht_type){ t, HT_SHAPE_UNKNOWN };
	}
}

static void make_identity(struct ht_rw *r, struct ht_node *n)
{
	ht_rw_become(r, n, HT_OP_Identity, n->in, 1);
	ht_attr_set_type(n, "T", ht_type_of(n->in[0])->dtype);
}

static struct ht_str name_within(struct ht_rw *r, const struct ht_node *n, const char *what)
{
	return ht_str_printf(r->arena, "%.*s/%s", HT_STR_ARG(n->name), what);
}

/* A list that is not there is an empty one. */
static void make_empty_list(struct optionals *x, struct ht_rw *r, struct ht_node *n)
{
	const struct kind *list = standing(standing(kind_of(x, ht_out(n, 0)))->of);
	struct ht_value in[] = { ht_rw_scalar(r, n, name_within(r, n, "shape"), HT_I32, -1),
		ht_rw_scalar(r, n, name_within(r, n, "limit"), HT_I32, -1) };

	ht_rw_become(r, n, HT_OP_EmptyTensorList, in, 2);
	ht_attr_set_type(
		n, "element_dtype", list->form == LIST ? dtype_of(x, list->of) : HT_VARIANT);
	ht_attr_set_type(n, "shape_type", HT_I32);
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
	ht_rw_set_in(r, n, stated, ht_rw_scalar(r, n, name_within(r, n, "shape"), t, -1));
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
		list = known_kind(x, n->ins && is_variant(n->in[0]) ? n->in[0] : ht_out(n, 0));
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

/* ---- results that both sides of a branch give ---- */

/*
 * TensorFlow puts a value of each side of a branch into one result, though these may have different types.  Such a result becomes two, one of
 * each side, and the other side has none.  The branch of the gradient has the same condition, so its first side reads the first one.
 */

/* A value and what stands for it if the branch with condition `when` ran its second side. */
struct pair {
	struct ht_value first, second, when;
};

/* The branch or loop that runs a body. */
static struct ht_node *caller_of(const struct optionals *x, const struct ht_graph *body)
{
	return ht_map_get(&x->caller, (struct ht_str){ (const char *)&body, sizeof body });
}

static void note_callers(struct optionals *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++) {
			struct ht_graph **key = HT_NEW(x->c->scratch, struct ht_graph *);

			*key = b.of[k]->body;
			ht_map_at(&x->caller, (struct ht_str){ (const char *)key, sizeof *key })
				->value = n;
			note_callers(x, *key);
		}
	}
}

static int32_t place_of(const struct ht_port *p, struct ht_value v)
{
	for (int32_t i = 0; p; p = p->next, i++)
		if (ht_value_eq(p->value, v))
			return i;
	return -1;
}

static struct ht_value forwarded(struct ht_value v)
{
	while (ht_is(v.node, HT_FORWARDS))
		v = v.node->in[v.index];
	return v;
}

static bool is_none(struct ht_value v)
{
	return forwarded(v).node->op == HT_OP_OptionalNone;
}

/* One step towards where a value comes from; false: there is none. */
static bool trace_back(const struct optionals *x, struct ht_value *v)
{
	struct ht_node *n = v->node;
	struct ht_bodies b;
	int32_t at;

	if (n->op == HT_OP_OptionalGetValue && n->outs == 1) {
		struct ht_value from = n->in[0];

		while (forwarded(from).node->op != HT_OP_OptionalFromValue) {
			from = forwarded(from);
			if (!trace_back(x, &from))
				return false;
		}
		*v = forwarded(from).node->in[0];
		return true;
	}
	if (ht_is(n, HT_ARGUMENT)) {
		struct ht_node *caller = caller_of(x, n->graph);

		at = n->graph->function ? place_of(n->graph->function->args, *v) : -1;
		if (!caller || at < 0 || ht_is(caller, HT_LOOPS))
			return false;
		*v = caller->in[ht_control_first(caller) + at];
		return true;
	}
	if (!ht_is(n, HT_BRANCHES) || !ht_runs_own(n))
		return false;
	b = ht_control_bodies(n);
	for (int k = 0; k < 2; k++)
		if (is_none(ht_port_at(b.of[k]->rets, v->index)->value)) {
			*v = ht_port_at(b.of[!k]->rets, v->index)->value;
			return true;
		}
	return false;
}

/* Where a value comes from: through calls of bodies, optional tensors, and the only side of a branch that has one. */
static struct ht_value origin(const struct optionals *x, struct ht_value v)
{
	do
		v = forwarded(v);
	while (trace_back(x, &v));
	return v;
}

/* Whether two values, as origin() gives them, are surely equal: one value, equal constants, or elementwise nodes of equal operands, as
 * conditions of the branches of a Case are. */
static bool are_equal(const struct optionals *x, struct ht_value a, struct ht_value b, int nested)
{
	const struct ht_tensor *s = ht_const_tensor(a), *t = ht_const_tensor(b);

	if (ht_value_eq(a, b))
		return true;
	if (s && t)
		return s->dtype == t->dtype && ht_shape_eq(s->shape, t->shape) && s->blob &&
		       t->blob && s->blob->n == t->blob->n &&
		       !memcmp(s->blob->p, t->blob->p, s->blob->n);
	if (!nested || a.node->op != b.node->op || !ht_is(a.node, HT_ELEMENTWISE | HT_CASTS) ||
		a.node->ins != b.node->ins || ht_type_of(a)->dtype != ht_type_of(b)->dtype)
		return false;
	for (int32_t i = 0; i < a.node->ins; i++)
		if (!are_equal(x, origin(x, a.node->in[i]), origin(x, b.node->in[i]), nested - 1))
			return false;
	return true;
}

static const struct ht_type variant_type = { HT_VARIANT, { 0, NULL } };

static struct ht_value add_none(struct ht_graph *g)
{
	struct ht_node *n =
		ht_node_new(g, HT_STR("OptionalNone"), ht_graph_free_name(g, HT_STR("none")));

	ht_node_set_outs(n, 1);
	n->out[0] = variant_type;
	ht_node_move(n, g->first);
	return ht_out(n, 0);
}

static void split_uses(struct optionals *x, struct ht_graph *g, struct pair p);

/* A node that does with the second value what `n` does with the first one. */
static void split_copy(struct optionals *x, struct ht_node *n, struct pair p)
{
	struct ht_graph *g = n->graph;
	struct ht_node *copy = ht_node_new(g, n->type, ht_graph_free_name(g, n->name));

	copy->attrs = ht_attrs_copy(n->attrs, NULL, g->arena);
	ht_node_set_ins(copy, &p.second, 1);
	ht_node_set_outs(copy, 1);
	copy->out[0] = n->out[0];
	ht_node_add_origin(copy, n);
	ht_node_move(copy, n);
	split_uses(x, g, (struct pair){ ht_out(n, 0), ht_out(copy, 0), p.when });
}

static void split_argument(struct optionals *x, struct ht_node *n, int32_t at, struct pair p)
{
	const struct ht_bodies b = ht_control_bodies(n);
	bool same = are_equal(x, origin(x, n->in[0]), p.when, MOST_NESTED);
	struct ht_rw_within within;
	struct ht_rw r;

	ht_rw_init_within(&r, &within, n->graph, x->c);
	ht_carry_operand(&r, n, p.second);
	for (int k = 0; k < 2; k++) {
		struct ht_value first = ht_port_at(b.of[k]->args, at)->value;
		struct ht_value second = ht_carry_argument(b.of[k], variant_type);

		if (!same)
			split_uses(x, b.of[k]->body, (struct pair){ first, second, p.when });
		else if (k)
			ht_replace_uses(b.of[k]->body, first, second);
	}
}

static void split_use(struct optionals *x, struct ht_node *n, int32_t arg, struct pair p)
{
	if (ht_is(n, HT_FORWARDS))
		split_uses(x, n->graph, (struct pair){ ht_out(n, arg), p.second, p.when });
	else if (n->op == HT_OP_OptionalFromValue && n->ins == 1 && n->outs == 1)
		split_copy(x, n, p);
	else if (n->op == HT_OP_OptionalGetValue && n->outs == 1 && is_variant(ht_out(n, 0)))
		split_copy(x, n, p);
	else if (ht_is(n, HT_BRANCHES) && ht_runs_own(n))
		split_argument(x, n, arg - ht_control_first(n), p);
	else
		x->odd = true;
}

/* Result `at` of a body, whose branch gets one more for the second value. */
static void split_result(
	struct optionals *x, const struct ht_graph *body, int32_t at, struct pair p)
{
	struct ht_node *n = caller_of(x, body);
	struct ht_bodies b;
	struct ht_value more;

	if (!n || !ht_is(n, HT_BRANCHES)) {
		x->odd = true;
		return;
	}
	b = ht_control_bodies(n);
	for (int k = 0; k < 2; k++)
		ht_carry_return(
			b.of[k], b.of[k]->body == body ? p.second : add_none(b.of[k]->body));
	more = ht_carry_result(n, variant_type);
	split_uses(x, n->graph, (struct pair){ ht_out(n, at), more, p.when });
}

static void split_uses(struct optionals *x, struct ht_graph *g, struct pair p)
{
	int32_t at = 0;

	for (struct ht_node *n = g->first; n && !x->odd; n = n->next)
		for (int32_t i = 0, ins = n->ins; i < ins && !x->odd; i++)
			if (ht_value_eq(n->in[i], p.first))
				split_use(x, n, i, p);
	for (const struct ht_port *ret = g->function ? g->function->rets : NULL; ret && !x->odd;
		ret = ret->next, at++)
		if (ht_value_eq(ret->value, p.first))
			split_result(x, g, at, p);
}

/* Whether both sides have a value, and these may be of different types. */
static bool is_shared(struct ht_value a, struct ht_value b)
{
	struct ht_node *x = forwarded(a).node, *y = forwarded(b).node;
	const struct ht_type *s, *t;

	if ((x->op != HT_OP_OptionalFromValue && y->op != HT_OP_OptionalFromValue) || is_none(a) ||
		is_none(b))
		return false;
	if (x->op != y->op || x->ins != 1 || y->ins != 1)
		return true;
	s = ht_type_of(x->in[0]);
	t = ht_type_of(y->in[0]);
	return s->dtype != t->dtype || s->dtype == HT_VARIANT || !ht_shape_is_told(s->shape) ||
	       !ht_shape_eq(s->shape, t->shape);
}

static void split_results(struct optionals *x, struct ht_node *n)
{
	const struct ht_bodies b = ht_control_bodies(n);
	int32_t outs = n->outs;

	for (int32_t i = 0; i < outs && !x->odd; i++) {
		struct ht_port *last = ht_port_at(b.of[1]->rets, i);
		struct ht_value second = last->value, first = ht_port_at(b.of[0]->rets, i)->value;

		if (is_none(first) && is_none(second))
			ht_replace_uses(n->graph, ht_out(n, i), add_none(n->graph));
		if (!is_variant(ht_out(n, i)) || !is_shared(first, second))
			continue;
		last->value = add_none(b.of[1]->body);
		ht_carry_return(b.of[0], add_none(b.of[0]->body));
		ht_carry_return(b.of[1], second);
		second = ht_carry_result(n, variant_type);
		split_uses(x, n->graph, (struct pair){ ht_out(n, i), second, origin(x, n->in[0]) });
	}
}

static void split(struct optionals *x, struct ht_graph *g)
{
	for (struct ht_node *n = g->first; n && !x->odd; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			split(x, b.of[k]->body);
		if (ht_is(n, HT_BRANCHES) && ht_runs_own(n))
			split_results(x, n);
	}
}

/* ---- graphs ---- */

enum ht_status ht_optionals_to_tensors(struct ht_graph *g, struct ht_pass_context *c)
{
	struct optionals x = { .c = c };

	if (!separate(g))
		return HT_OK;
	ht_map_init(&x.by_value, c->scratch);
	ht_map_init(&x.caller, c->scratch);
	note_callers(&x, g);
	split(&x, g);
	find(&x, g);
	for (size_t i = 0; i < x.by_value.count && !x.odd; i++)
		dtype_of(&x, x.by_value.entries[i].value);
	if (x.odd || !check(&x, g) || !check_ports(&x, g))
		return HT_OK;
	set_types(&x);
	change(&x, g);
	return ht_infer_types(g, c->diags);
}

/* ---- tensors that nothing reads ---- */

/* Whether a body, which has the dimension, computes a size that it depends on. */
static bool computes(const struct ht_graph *body, int64_t dim)
{
	const struct ht_size_expr e = ht_dim_of_sizes(body, dim);

	for (int i = 0; i < ht_size_count(&e); i++)
		if (ht_size_node(body, e.size[i]))
			return true;
	return false;
}

/* The shape for one side of a branch whose other side, `body`, gives a tensor of shape `s`.  If `all`, extents that only the run tells are
 * 0; otherwise the shape is unknown if there are such extents. */
static struct ht_shape shape_beside(const struct ht_graph *body, struct ht_shape s, bool all)
{
	int64_t dim[HT_MAX_RANK];

	for (int32_t i = 0; i < s.rank; i++) {
		bool told = s.dim[i] >= 0 ||
			    (ht_dim_is_open(body, s.dim[i]) && !computes(body, s.dim[i]));

		if (!told && !all)
			return HT_SHAPE_UNKNOWN;
		dim[i] = told ? s.dim[i] : 0;
	}
	return s.rank < 0 ? s : ht_shape_make(body->arena, s.rank, dim);
}

static void make_zeros(struct ht_rw *r, struct ht_node *n, struct ht_shape s)
{
	const struct ht_value in[] = { ht_dims_value(r, n, name_within(r, n, "shape"), HT_I64, s),
		ht_rw_scalar(r, n, name_within(r, n, "zero"), n->out[0].dtype, 0) };

	ht_rw_become(r, n, HT_OP_Fill, in, 2);
	ht_attr_set_type(n, "T", n->out[0].dtype);
	ht_attr_set_type(n, "index_type", HT_I64);
	n->out[0].shape = s;
}

static bool is_fake(const struct ht_node *n)
{
	enum ht_dtype t = n->op == HT_OP_FakeParam ? n->out[0].dtype : HT_INVALID;

	return t != HT_INVALID && t != HT_VARIANT && t != HT_RESOURCE;
}

/* The FakeParam that a result of a body is; NULL: it is something else. */
static struct ht_node *fake_result(const struct ht_port *ret)
{
	struct ht_value v = forwarded(ret->value);

	return is_fake(v.node) ? v.node : NULL;
}

static bool settle_branch(const struct ht_pass_context *c, const struct ht_node *n, bool all)
{
	const struct ht_bodies b = ht_control_bodies(n);
	struct ht_rw_within within;
	bool any = false;
	struct ht_rw r;

	for (int k = 0; k < 2; k++) {
		const struct ht_port *other = b.of[!k]->rets;

		ht_rw_init_within(&r, &within, b.of[k]->body, c);
		for (const struct ht_port *p = b.of[k]->rets; p && other;
			p = p->next, other = other->next) {
			struct ht_node *fake = fake_result(p);
			struct ht_shape s = HT_SHAPE_UNKNOWN;

			if (fake && !fake_result(other))
				s = shape_beside(
					b.of[!k]->body, ht_type_of(other->value)->shape, all);
			if (s.rank >= 0)
				make_zeros(&r, fake, s);
			any = any || s.rank >= 0;
		}
	}
	return any;
}

static bool settle(const struct ht_pass_context *c, struct ht_graph *g, bool all)
{
	struct ht_rw_within within;
	bool any = false;
	struct ht_rw r;

	ht_rw_init_within(&r, &within, g, c);
	for (struct ht_node *n = g->first; n; n = n->next) {
		const struct ht_bodies b = ht_control_bodies(n);

		if (is_fake(n) && ht_shape_known(n->out[0].shape)) {
			make_zeros(&r, n, n->out[0].shape);
			any = true;
		}
		for (int k = 0; k < 2 && ht_runs_own(n); k++)
			any = settle(c, b.of[k]->body, all) || any;
		if (ht_is(n, HT_BRANCHES) && ht_runs_own(n))
			any = settle_branch(c, n, all) || any;
	}
	return any;
}

enum ht_status ht_settle_fakes(struct ht_graph *g, struct ht_pass_context *c, bool all)
{
	return settle(c, g, all) ? ht_infer_types(g, c->diags) : HT_OK;
}
