/* Rules of calls, branches and loops.
 *
 * If several nodes may run a function, only what holds for each of them is inferred: its results
 * have the shapes that its body gives by itself.  A function that one branch or loop alone runs
 * (ht_function.special) is inferred with this node: its arguments get the types of the operands.
 * infer_recursion.c has the rules of recursive functions. */
#include "ir/infer.h"

void ht_listed_shapes(struct ht_node *n, const char *name)
{
	const struct ht_attr *a = ht_attr_find(n, name);

	if (!a || a->value.kind != HT_ATTR_LIST || a->value.list.kind != HT_ATTR_SHAPE)
		return;
	for (int32_t i = 0; i < n->outs && (size_t)i < a->value.list.n; i++)
		n->out[i].shape = a->value.list.item[i].shape.shape;
}

const struct ht_type *ht_ret_type(const struct ht_port *ret)
{
	static const struct ht_type unknown = { HT_INVALID, { -1, NULL } };
	struct ht_value v = ret->value;

	return v.node && !v.port.n && v.index >= 0 && v.index < v.node->outs ? ht_type_of(v)
									     : &unknown;
}

enum ht_status ht_infer_call(struct ht_infer *in, struct ht_node *n)
{
	struct ht_function *f = ht_control_bodies(n).of[0];
	const struct ht_port *ret = f ? f->rets : NULL;

	if (f && f->result)
		return ht_infer_recursion(in, n, f);
	for (int32_t i = 0; i < n->outs && ret; i++, ret = ret->next)
		n->out[i].shape = ht_ret_type(ret)->shape;
	return HT_OK;
}

/* ---- functions of one branch or loop ---- */

static int32_t count_ports(const struct ht_port *p)
{
	int32_t n = 0;

	for (; p; p = p->next)
		n++;
	return n;
}

enum ht_status ht_check_ports(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f, int32_t rets)
{
	int32_t args = n->ins - ht_control_first(n);

	if (count_ports(f->args) == args && count_ports(f->rets) == rets)
		return HT_OK;
	return ht_infer_refuse(in, n,
		"passes %d operands and takes %d results; function '%.*s' has %d and %d", (int)args,
		(int)rets, HT_STR_ARG(f->name), (int)count_ports(f->args),
		(int)count_ports(f->rets));
}

/* Whether bodies use the table of symbolic dimensions of their program (symbol.c). */
static bool shares_symbols(const struct ht_infer *in)
{
	const struct ht_graph *library = in->g->library;

	return library->sizes && !library->closed;
}

/* The shape in another graph, which lacks the symbols of this one unless sizes are open. */
static struct ht_shape without_symbols(const struct ht_infer *in, struct ht_shape s)
{
	int64_t *d;

	if (s.rank <= 0 || shares_symbols(in))
		return s;
	d = HT_NEW_ARRAY(in->g->arena, int64_t, (size_t)s.rank);
	for (int32_t i = 0; i < s.rank; i++)
		d[i] = s.dim[i] < 0 ? HT_DIM_UNKNOWN : s.dim[i];
	return (struct ht_shape){ s.rank, d };
}

/* The types of the operands, by argument. */
struct ht_type *ht_passed_types(const struct ht_infer *in, const struct ht_node *n)
{
	int32_t first = ht_control_first(n), args = n->ins - first;
	struct ht_type *t = HT_NEW_ARRAY(in->scratch, struct ht_type, (size_t)args);

	for (int32_t i = 0; i < args; i++) {
		struct ht_value v = n->in[first + i];

		t[i] = !v.port.n && v.index < v.node->outs
			       ? *ht_type_of(v)
			       : (struct ht_type){ HT_INVALID, HT_SHAPE_UNKNOWN };
		t[i].shape = without_symbols(in, t[i].shape);
	}
	return t;
}

enum ht_status ht_set_arguments(struct ht_infer *in, const struct ht_node *n,
	const struct ht_function *f, const struct ht_type *type)
{
	int32_t i = 0;

	for (const struct ht_port *p = f->args; p; p = p->next, i++) {
		struct ht_node *arg = p->value.node;
		enum ht_dtype stated = ht_type_attr(arg, "T");

		if (stated != type[i].dtype)
			return ht_infer_refuse(in, n,
				"passes %s as argument '%.*s' of function '%.*s', which is %s",
				ht_dtype_info(type[i].dtype)->name, HT_STR_ARG(arg->name),
				HT_STR_ARG(f->name), ht_dtype_info(stated)->name);
		ht_node_set_outs(arg, 1);
		arg->out[0] = type[i];
		if (stated == HT_RESOURCE)
			ht_pass_handle_shape(arg, n->in[ht_control_first(n) + i]);
	}
	return HT_OK;
}

static enum ht_status infer_body(struct ht_infer *in, const struct ht_node *n,
	const struct ht_function *f, const struct ht_type *type, const struct ht_known *passed)
{
	struct ht_infer body = *in;

	HT_TRY(ht_set_arguments(in, n, f, type));
	body.passed = passed;
	return ht_infer_function(&body, f);
}

/* Whether argument i is the operand in every run of the functions. */
static bool is_operand(const struct ht_node *n, const struct ht_bodies *b, int32_t i)
{
	const struct ht_port *arg = b->of[1]->args, *ret = b->of[1]->rets;

	for (; ht_is(n, HT_LOOPS) && arg && ret && i > 0; i--) {
		arg = arg->next;
		ret = ret->next;
	}
	return !ht_is(n, HT_LOOPS) || (arg && ret && ht_value_eq(arg->value, ret->value));
}

/* The known elements of captured sizes, from which bodies compute shapes, by argument.  NULL: no
 * size is open. */
static const struct ht_known *passed_elements(
	struct ht_infer *in, const struct ht_node *n, const struct ht_bodies *b)
{
	int32_t first = ht_control_first(n), args = n->ins - first;
	struct ht_known *all;

	if (!shares_symbols(in))
		return NULL;
	all = HT_NEW_ARRAY(in->scratch, struct ht_known, (size_t)args);
	for (int32_t i = 0; i < args; i++) {
		const struct ht_known *k =
			ht_in_nothing_known(in, n, first + i) || !is_operand(n, b, i)
				? NULL
				: ht_in_known(in, n, first + i);

		if (k)
			all[i] = *k;
	}
	return all;
}

enum ht_status ht_check_results(
	struct ht_infer *in, const struct ht_node *n, const struct ht_function *f)
{
	const struct ht_port *ret = f->rets;

	for (int32_t i = 0; i < n->outs; i++, ret = ret->next)
		if (ht_ret_type(ret)->dtype != n->out[i].dtype)
			return ht_infer_refuse(in, n,
				"result '%.*s' of function '%.*s' is %s; it should be %s",
				HT_STR_ARG(ret->name), HT_STR_ARG(f->name),
				ht_dtype_info(ht_ret_type(ret)->dtype)->name,
				ht_dtype_info(n->out[i].dtype)->name);
	return HT_OK;
}

static bool are_its_own(const struct ht_bodies *b)
{
	return b->of[0] && b->of[1] && b->of[0]->special && b->of[1]->special;
}

/* ---- branches ---- */

static enum ht_status infer_both(struct ht_infer *in, struct ht_node *n, const struct ht_bodies *b)
{
	const struct ht_type *type = ht_passed_types(in, n);
	const struct ht_known *passed = passed_elements(in, n, b);

	for (int i = 0; i < 2; i++) {
		HT_TRY(ht_check_ports(in, n, b->of[i], n->outs));
		HT_TRY(infer_body(in, n, b->of[i], type, passed));
		HT_TRY(ht_check_results(in, n, b->of[i]));
	}
	return HT_OK;
}

/* ---- hope ---- */

/* Nodes that are looked at for one result of a body. */
enum { MOST_LOOKED_AT = 256 };

static bool may_become_known(struct ht_value v, int *left);

static bool may_become_known_within(struct ht_value v, int *left)
{
	struct ht_bodies b = ht_control_bodies(v.node);

	for (int k = ht_is(v.node, HT_LOOPS) ? 1 : 0; k < 2 && b.of[k]; k++) {
		const struct ht_port *ret = b.of[k]->rets;

		for (int32_t i = 0; ret && i < v.index; i++)
			ret = ret->next;
		if (!ret || may_become_known(ret->value, left))
			return true;
	}
	return false;
}

/* Whether `t` may be sizes, of which a node computes a shape. */
static bool may_be_sizes(const struct ht_type *t)
{
	return ht_is_index(t->dtype) && ht_shape_known(t->shape) && t->shape.rank <= 1 &&
	       ht_shape_count(t->shape) <= HT_MAX_RANK;
}

/* Whether unknown sizes of `v` may become known once lists are tensors: they follow from a list, from an argument whose sizes are unknown, or
 * from sizes that are an argument. */
static bool may_become_known(struct ht_value v, int *left)
{
	const struct ht_node *n = v.node;

	if (!n || v.port.n || v.index >= n->outs)
		return true;
	if (v.index < 0 || (ht_shape_is_told(ht_type_of(v)->shape) && !may_be_sizes(ht_type_of(v))))
		return false;
	if (--*left < 0 || ht_is(n, HT_ARGUMENT) || ht_type_of(v)->dtype == HT_VARIANT)
		return true;
	if (ht_runs_own(n))
		return may_become_known_within(v, left);
	for (int32_t i = 0; i < n->ins; i++)
		if (may_become_known(n->in[i], left))
			return true;
	return false;
}

/* Whether unknown sizes of a body's result may be assumed to be those that are known of it elsewhere. */
static bool may_hope(const struct ht_infer *in, const struct ht_port *ret)
{
	int left = MOST_LOOKED_AT;

	return in->hopeful &&
	       (ht_shape_is_told(ht_ret_type(ret)->shape) || may_become_known(ret->value, &left));
}

/* Whether a dimension of a body's result is known: as a number or, where sizes are open, by them. */
static bool is_told(const struct ht_infer *in, int64_t dim)
{
	return dim >= 0 || (shares_symbols(in) && ht_dim_is_open(in->g, dim));
}

/* Takes each dimension from the side that knows it. */
struct ht_shape ht_either_shape(struct ht_infer *in, struct ht_shape a, struct ht_shape b)
{
	int64_t *d;

	if (a.rank < 0 || b.rank < 0)
		return a.rank < 0 ? b : a;
	if (a.rank != b.rank)
		return HT_SHAPE_UNKNOWN;
	d = HT_NEW_ARRAY(in->g->arena, int64_t, (size_t)a.rank);
	for (int32_t i = 0; i < a.rank; i++) {
		d[i] = is_told(in, a.dim[i]) ? a.dim[i] : b.dim[i];
		if (is_told(in, b.dim[i]) && b.dim[i] != d[i])
			d[i] = HT_DIM_UNKNOWN;
	}
	return (struct ht_shape){ a.rank, d };
}

/* Whether a result of a body is one that nothing reads. */
static bool is_fake(const struct ht_port *ret)
{
	struct ht_value v = ret->value;

	while (v.node && !v.port.n && ht_is(v.node, HT_FORWARDS) && v.index >= 0 &&
		v.index < v.node->ins)
		v = v.node->in[v.index];
	return v.node && v.node->op == HT_OP_FakeParam;
}

static struct ht_shape join(struct ht_infer *in, const struct ht_port *ret,
	const struct ht_port *other, struct ht_shape stated)
{
	struct ht_shape a = ht_ret_type(ret)->shape, b = ht_ret_type(other)->shape;

	if ((may_hope(in, ret) && may_hope(in, other)) || is_fake(ret) || is_fake(other))
		return ht_either_shape(in, a, b);
	return a.rank >= 0 && ht_shape_eq(a, b) ? a : stated;
}

enum ht_status ht_infer_call_if(struct ht_infer *in, struct ht_node *n)
{
	struct ht_bodies body = ht_control_bodies(n);
	const struct ht_port *a = body.of[0] ? body.of[0]->rets : NULL,
			     *b = body.of[1] ? body.of[1]->rets : NULL;

	ht_listed_shapes(n, "output_shapes");
	if (are_its_own(&body))
		HT_TRY(infer_both(in, n, &body));
	for (int32_t i = 0; i < n->outs && a && b; i++, a = a->next, b = b->next)
		if (!ht_shape_known(n->out[i].shape))
			n->out[i].shape = join(in, a, b, n->out[i].shape);
	return HT_OK;
}

/* ---- loops ---- */

/* The shape of which `a` and `b` are both instances; false: it is `a`. */
bool ht_widen_shape(struct ht_infer *in, struct ht_shape *a, struct ht_shape b, bool hopeful)
{
	int64_t *d;
	bool changed = false;

	if (a->rank < 0 || (hopeful && b.rank < 0))
		return false;
	if (a->rank != b.rank) {
		*a = HT_SHAPE_UNKNOWN;
		return true;
	}
	d = HT_NEW_ARRAY(in->g->arena, int64_t, (size_t)a->rank);
	for (int32_t i = 0; i < a->rank; i++) {
		bool same = a->dim[i] == b.dim[i] || (hopeful && !is_told(in, b.dim[i]));

		d[i] = same ? a->dim[i] : HT_DIM_UNKNOWN;
		changed = changed || d[i] != a->dim[i];
	}
	a->dim = d;
	return changed;
}

/* Arguments get the shapes that hold in every iteration: a dimension is unknown if the result of an
 * iteration differs from the argument.  Shapes only become less known, so this ends. */
static enum ht_status infer_iterations(
	struct ht_infer *in, struct ht_node *n, const struct ht_bodies *b)
{
	struct ht_type *type = ht_passed_types(in, n);
	const struct ht_known *passed;
	bool again;

	HT_TRY(ht_check_ports(in, n, b->of[0], 1));
	HT_TRY(ht_check_ports(in, n, b->of[1], n->outs));
	passed = passed_elements(in, n, b);
	do {
		const struct ht_port *ret = b->of[1]->rets;

		HT_TRY(infer_body(in, n, b->of[1], type, passed));
		HT_TRY(ht_check_results(in, n, b->of[1]));
		again = false;
		for (int32_t i = 0; i < n->outs; i++, ret = ret->next)
			again = ht_widen_shape(in, &type[i].shape, ht_ret_type(ret)->shape,
					may_hope(in, ret)) ||
				again;
	} while (again);
	for (int32_t i = 0; i < n->outs; i++)
		if (!ht_shape_known(n->out[i].shape))
			n->out[i].shape = type[i].shape;
	return infer_body(in, n, b->of[0], type, passed);
}

enum ht_status ht_infer_call_while(struct ht_infer *in, struct ht_node *n)
{
	struct ht_bodies body = ht_control_bodies(n);

	ht_listed_shapes(n, "output_shapes");
	return are_its_own(&body) ? infer_iterations(in, n, &body) : HT_OK;
}
