/* rewrite: the graph with its uses, and small questions that several passes ask. */
#include "passes/rewrite.h"

#include <math.h>
#include <string.h>

/* ---- uses ---- */

static struct ht_rw_use **uses_of(struct ht_rw *r, const struct ht_node *n)
{
	struct ht_rw_use **more;
	size_t cap = r->cap;

	if (n->id < r->cap)
		return &r->uses[n->id];
	while (cap <= n->id)
		cap = cap * 2 + 64;
	more = HT_NEW_ARRAY(r->arena, struct ht_rw_use *, cap);
	if (r->cap)
		memcpy(more, r->uses, r->cap * sizeof *more);
	r->uses = more;
	r->cap = cap;
	return &r->uses[n->id];
}

static struct ht_rw_use *first_use(const struct ht_rw *r, const struct ht_node *n)
{
	return n->id < r->cap ? r->uses[n->id] : NULL;
}

const struct ht_rw_use *ht_rw_first_use(const struct ht_rw *r, const struct ht_node *n)
{
	return first_use(r, n);
}

static void add_use(struct ht_rw *r, struct ht_node *of, struct ht_node *by, int32_t arg)
{
	struct ht_rw_use **list = uses_of(r, of), *use = HT_NEW(r->arena, struct ht_rw_use);

	*use = (struct ht_rw_use){ by, arg, *list };
	*list = use;
}

static void remove_use(struct ht_rw *r, struct ht_node *of, const struct ht_node *by, int32_t arg)
{
	struct ht_rw_use **p = uses_of(r, of);

	while (*p && ((*p)->node != by || (*p)->arg != arg))
		p = &(*p)->next;
	HT_CHECK(*p);
	*p = (*p)->next;
}

static void add_uses_of(struct ht_rw *r, struct ht_node *n)
{
	for (int32_t i = 0; i < n->controls; i++)
		add_use(r, n->control[i], n, -1);
	for (int32_t i = 0; i < n->ins; i++)
		add_use(r, n->in[i].node, n, i);
}

void ht_rw_init(struct ht_rw *r, struct ht_graph *g, struct ht_pass_context *c)
{
	*r = (struct ht_rw){ .g = g, .c = c, .arena = c->scratch, .cap = g->ids + g->ids / 4 + 16 };
	r->uses = HT_NEW_ARRAY(r->arena, struct ht_rw_use *, r->cap);
	for (struct ht_node *n = g->last; n; n = n->prev)
		add_uses_of(r, n);
}

struct ht_node **ht_rw_nodes(const struct ht_rw *r, size_t *n)
{
	struct ht_node **all = HT_NEW_ARRAY(r->arena, struct ht_node *, r->g->nodes);

	*n = 0;
	for (struct ht_node *i = r->g->first; i; i = i->next)
		all[(*n)++] = i;
	return all;
}

static int ports_with(const struct ht_port *p, const struct ht_node *n, int32_t index)
{
	int count = 0;

	for (; p; p = p->next)
		count += p->value.node == n && (index < 0 || p->value.index == index);
	return count;
}

/* Outputs that ask for result `index` of `n` (-1: any). */
static int output_uses(const struct ht_rw *r, const struct ht_node *n, int32_t index)
{
	int count = 0;

	for (const struct ht_entry *e = r->g->entries; e; e = e->next)
		count += ports_with(e->outputs, n, index);
	if (r->g->function)
		count += ports_with(r->g->function->rets, n, index) +
			 ports_with(r->g->function->control_rets, n, index);
	return count;
}

bool ht_rw_is_output(const struct ht_rw *r, struct ht_value v)
{
	return output_uses(r, v.node, v.index) > 0;
}

int ht_rw_uses(const struct ht_rw *r, struct ht_value v)
{
	int count = output_uses(r, v.node, v.index);

	for (const struct ht_rw_use *u = first_use(r, v.node); u; u = u->next)
		count += u->arg >= 0 && u->node->in[u->arg].index == v.index;
	return count;
}

int ht_rw_node_uses(const struct ht_rw *r, const struct ht_node *n)
{
	int count = output_uses(r, n, -1);

	for (const struct ht_rw_use *u = first_use(r, n); u; u = u->next)
		count++;
	return count;
}

struct ht_node *ht_rw_only_user(const struct ht_rw *r, struct ht_value v)
{
	struct ht_node *user = NULL;

	if (ht_rw_uses(r, v) != 1)
		return NULL;
	for (const struct ht_rw_use *u = first_use(r, v.node); u; u = u->next)
		if (u->arg >= 0 && u->node->in[u->arg].index == v.index)
			user = u->node;
	return user;
}

bool ht_rw_plain(const struct ht_rw *r, const struct ht_node *n)
{
	if (n->controls)
		return false;
	for (const struct ht_rw_use *u = first_use(r, n); u; u = u->next)
		if (u->arg < 0)
			return false;
	return true;
}

/* ---- changes ---- */

static bool is_input(const struct ht_rw *r, const struct ht_node *n)
{
	for (const struct ht_entry *e = r->g->entries; e; e = e->next)
		if (ports_with(e->inputs, n, -1))
			return true;
	return false;
}

static bool may_go(const struct ht_rw *r, const struct ht_node *n)
{
	return n->graph && n->op != HT_OP_OPAQUE && !ht_op_info(n->op)->effects &&
	       n->op != HT_OP_Placeholder &&
	       (n->op != HT_OP_PlaceholderWithDefault || r->c->entry) && n->op != HT_OP__Arg &&
	       !first_use(r, n) && !output_uses(r, n, -1) && !is_input(r, n);
}

static void remove_node(struct ht_rw *r, struct ht_node *n)
{
	struct ht_attr *value;

	for (int32_t i = 0; i < n->ins; i++)
		remove_use(r, n->in[i].node, n, i);
	for (int32_t i = 0; i < n->controls; i++)
		remove_use(r, n->control[i], n, -1);
	value = n->op == HT_OP_Const ? ht_attr_find(n, "value") : NULL;
	if (value && value->value.kind == HT_ATTR_TENSOR)
		ht_tensor_drop(value->value.tensor);
	ht_node_remove(n);
	n->graph = NULL;
	r->changed = true;
}

void ht_rw_drop(struct ht_rw *r, struct ht_node *n)
{
	struct ht_node **stack;
	size_t count = 0, cap = 0;

	if (!may_go(r, n))
		return;
	stack = ht_grow(r->arena, NULL, count, &cap, sizeof *stack);
	stack[count++] = n;
	while (count) {
		n = stack[--count];
		if (!may_go(r, n))
			continue;
		remove_node(r, n);
		for (int32_t i = 0; i < n->ins + n->controls; i++) {
			stack = ht_grow(r->arena, stack, count, &cap, sizeof *stack);
			stack[count++] = i < n->ins ? n->in[i].node : n->control[i - n->ins];
		}
	}
}

void ht_rw_remove(struct ht_rw *r, struct ht_node *n)
{
	HT_CHECK(!first_use(r, n) && !output_uses(r, n, -1) && !is_input(r, n));
	remove_node(r, n);
	for (int32_t i = 0; i < n->ins; i++)
		ht_rw_drop(r, n->in[i].node);
}

struct ht_node *ht_rw_node(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, const struct ht_value *in, int32_t ins, struct ht_type type)
{
	struct ht_node *n = ht_node_new(r->g, ht_op_info(op)->name, ht_graph_free_name(r->g, name));

	ht_node_move(n, before);
	ht_node_set_ins(n, in, ins);
	ht_node_set_outs(n, 1);
	n->out[0].dtype = type.dtype;
	n->out[0].shape = ht_shape_make(r->g->arena, type.shape.rank, type.shape.dim);
	for (int32_t i = 0; i < ins; i++)
		add_use(r, in[i].node, n, i);
	if (before)
		ht_node_add_origin(n, before);
	r->changed = true;
	return n;
}

void ht_rw_absorb(struct ht_node *n, const struct ht_node *swallowed)
{
	/* Its own name counts too, once it has others. */
	if (!n->origin) {
		struct ht_str *own = HT_NEW(n->graph->arena, struct ht_str);

		*own = n->name;
		n->origin = own;
		n->origins = 1;
	}
	ht_node_add_origin(n, swallowed);
}

/* Patterns are small: the depth bounds the walk, also where paths meet again. */
static void absorb_operands(
	struct ht_node *n, const struct ht_node *of, struct ht_value x, int depth)
{
	for (int32_t i = 0; depth > 0 && i < of->ins; i++) {
		if (ht_value_eq(of->in[i], x) || ht_is_const(of->in[i]))
			continue;
		ht_rw_absorb(n, of->in[i].node);
		absorb_operands(n, of->in[i].node, x, depth - 1);
	}
}

void ht_rw_absorb_between(struct ht_node *n, struct ht_value x)
{
	absorb_operands(n, n, x, 12);
}

void ht_rw_copy_attr(struct ht_node *to, const struct ht_node *from, const char *name)
{
	const struct ht_attr *a = ht_attr_find(from, name);

	if (a)
		*ht_attr_set(to, name) = a->value;
}

struct ht_value ht_rw_const(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, struct ht_shape shape, struct ht_blob *blob)
{
	struct ht_node *n = ht_const_new(r->g, ht_graph_free_name(r->g, name), t, shape, blob);

	ht_node_move(n, before);
	r->changed = true;
	return ht_out(n, 0);
}

struct ht_blob *ht_rw_blob(struct ht_rw *r, size_t n)
{
	struct ht_blob *b = ht_blob_new(n);

	if (!b)
		ht_arena_fail(r->arena);
	return b;
}

struct ht_value ht_rw_const_ints(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	enum ht_dtype t, const int64_t *v, int64_t count)
{
	struct ht_blob *b = ht_rw_blob(r, (size_t)count * ht_dtype_info(t)->bytes);

	HT_CHECK(t == HT_I32 || t == HT_I64);
	for (int64_t i = 0; i < count; i++) {
		if (t == HT_I32)
			((int32_t *)(void *)(uintptr_t)b->p)[i] = (int32_t)v[i];
		else
			((int64_t *)(void *)(uintptr_t)b->p)[i] = v[i];
	}
	return ht_rw_const(r, before, name, t, (struct ht_shape){ 1, &count }, b);
}

struct ht_value ht_rw_const_float(
	struct ht_rw *r, struct ht_node *before, struct ht_str name, enum ht_dtype t, double value)
{
	struct ht_blob *b = ht_rw_blob(r, ht_dtype_info(t)->bytes);
	void *p = (void *)(uintptr_t)b->p;

	if (t == HT_F32)
		*(float *)p = (float)value;
	else if (t == HT_F64)
		*(double *)p = value;
	else if (t == HT_F16)
		*(uint16_t *)p = ht_f64_to_f16(value);
	else if (t == HT_BF16)
		*(uint16_t *)p = ht_f64_to_bf16(value);
	else
		HT_CHECK(!"a float type");
	return ht_rw_const(r, before, name, t, HT_SHAPE_SCALAR, b);
}

void ht_rw_set_ins(struct ht_rw *r, struct ht_node *n, const struct ht_value *in, int32_t ins)
{
	struct ht_value *old = n->in;
	int32_t olds = n->ins;

	for (int32_t i = 0; i < ins; i++)
		add_use(r, in[i].node, n, i);
	for (int32_t i = 0; i < olds; i++)
		remove_use(r, old[i].node, n, i);
	ht_node_set_ins(n, in, ins);
	for (int32_t i = 0; i < olds; i++)
		ht_rw_drop(r, old[i].node);
	r->changed = true;
}

void ht_rw_set_in(struct ht_rw *r, struct ht_node *n, int32_t i, struct ht_value v)
{
	struct ht_node *old = n->in[i].node;

	remove_use(r, old, n, i);
	n->in[i] = v;
	add_use(r, v.node, n, i);
	ht_rw_drop(r, old);
	r->changed = true;
}

void ht_rw_set_controls(
	struct ht_rw *r, struct ht_node *n, struct ht_node *const *control, int32_t count)
{
	for (int32_t i = 0; i < n->controls; i++)
		remove_use(r, n->control[i], n, -1);
	for (int32_t i = 0; i < count; i++)
		add_use(r, control[i], n, -1);
	ht_node_set_controls(n, control, count);
	r->changed = true;
}

void ht_rw_become(
	struct ht_rw *r, struct ht_node *n, enum ht_op op, const struct ht_value *in, int32_t ins)
{
	struct ht_attr **p = &n->attrs;

	while (*p) {
		if (ht_str_starts((*p)->name, "_"))
			p = &(*p)->next;
		else
			*p = (*p)->next;
	}
	ht_node_set_type(n, ht_op_info(op)->name);
	ht_rw_set_ins(r, n, in, ins);
}

static void replace_ports(struct ht_port *p, struct ht_value from, struct ht_value to)
{
	for (; p; p = p->next)
		if (ht_value_eq(p->value, from))
			p->value = to;
}

static void move_uses(
	struct ht_rw *r, struct ht_value from, struct ht_value to, const struct ht_node *except)
{
	struct ht_rw_use **p = uses_of(r, from.node), *u, *moved = NULL;

	while ((u = *p)) {
		if (u->arg < 0 || u->node == except || u->node->in[u->arg].index != from.index) {
			p = &u->next;
			continue;
		}
		*p = u->next;
		u->next = moved;
		moved = u;
	}
	p = uses_of(r, to.node);
	while ((u = moved)) {
		moved = u->next;
		u->node->in[u->arg] = to;
		u->next = *p;
		*p = u;
	}
	for (struct ht_entry *e = r->g->entries; e; e = e->next)
		replace_ports(e->outputs, from, to);
	if (r->g->function)
		replace_ports(r->g->function->rets, from, to);
	r->changed = true;
}

void ht_rw_replace(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	HT_CHECK(!ht_value_eq(from, to));
	move_uses(r, from, to, NULL);
	ht_rw_drop(r, from.node);
}

void ht_rw_replace_behind(struct ht_rw *r, struct ht_value from, struct ht_value to)
{
	move_uses(r, from, to, to.node);
}

static void move_control_edges(struct ht_rw *r, struct ht_node *from, struct ht_node *to)
{
	struct ht_rw_use *u, *next;

	for (u = first_use(r, from); u; u = next) {
		next = u->next;
		if (u->arg >= 0)
			continue;
		for (int32_t i = 0; i < u->node->controls; i++) {
			if (u->node->control[i] != from)
				continue;
			u->node->control[i] = to;
			remove_use(r, from, u->node, -1);
			add_use(r, to, u->node, -1);
			break;
		}
	}
}

void ht_rw_replace_node(struct ht_rw *r, struct ht_node *n, struct ht_value to)
{
	move_control_edges(r, n, to.node);
	ht_rw_replace(r, ht_out(n, 0), to);
}

void ht_rw_take_place(struct ht_rw *r, struct ht_node *n, struct ht_value to)
{
	struct ht_str name = n->name;

	ht_rw_replace_node(r, n, to);
	/* It is still there when nothing used it, or when it is fed. */
	if (!n->graph)
		ht_node_rename(to.node, name);
}

/* ---- building ---- */

struct ht_shape ht_broadcast_shape(struct ht_arena *a, struct ht_shape x, struct ht_shape y)
{
	int64_t dim[HT_MAX_RANK];
	int32_t rank = x.rank > y.rank ? x.rank : y.rank;

	if (x.rank < 0 || y.rank < 0)
		return HT_SHAPE_UNKNOWN;
	for (int32_t i = 0; i < rank; i++) {
		int32_t ix = i - (rank - x.rank), iy = i - (rank - y.rank);
		int64_t dx = ix < 0 ? 1 : x.dim[ix], dy = iy < 0 ? 1 : y.dim[iy];

		if (dx == 1 || dx == dy)
			dim[i] = dy;
		else if (dy == 1 || dx >= 0)
			dim[i] = dx; /* where dy is not known it is dx or 1 */
		else
			dim[i] = dy >= 0 ? dy : HT_DIM_UNKNOWN;
	}
	return ht_shape_make(a, rank, dim);
}

struct ht_value ht_rw_binary(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a, struct ht_value b)
{
	struct ht_type type = { ht_type_of(a)->dtype,
		ht_broadcast_shape(r->arena, ht_type_of(a)->shape, ht_type_of(b)->shape) };
	struct ht_node *n = ht_rw_node(r, before, op, name, (struct ht_value[]){ a, b }, 2, type);

	ht_attr_set_type(n, "T", type.dtype);
	return ht_out(n, 0);
}

struct ht_value ht_rw_unary(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a)
{
	struct ht_node *n = ht_rw_node(r, before, op, name, &a, 1, *ht_type_of(a));

	ht_attr_set_type(n, "T", ht_type_of(a)->dtype);
	return ht_out(n, 0);
}

struct ht_value ht_rw_cast(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, enum ht_dtype to)
{
	struct ht_node *n = ht_rw_node(
		r, before, HT_OP_Cast, name, &a, 1, (struct ht_type){ to, ht_type_of(a)->shape });

	ht_attr_set_type(n, "SrcT", ht_type_of(a)->dtype);
	ht_attr_set_type(n, "DstT", to);
	return ht_out(n, 0);
}

struct ht_value ht_rw_reshape(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, struct ht_shape to)
{
	struct ht_str shape_name = ht_str_printf(r->arena, "%.*s/shape", HT_STR_ARG(name));
	struct ht_value shape = ht_rw_const_ints(r, before, shape_name, HT_I64, to.dim, to.rank);
	struct ht_node *n = ht_rw_node(r, before, HT_OP_Reshape, name,
		(struct ht_value[]){ a, shape }, 2, (struct ht_type){ ht_type_of(a)->dtype, to });

	ht_attr_set_type(n, "T", ht_type_of(a)->dtype);
	ht_attr_set_type(n, "Tshape", HT_I64);
	return ht_out(n, 0);
}

struct ht_value ht_rw_transpose(struct ht_rw *r, struct ht_node *before, struct ht_str name,
	struct ht_value a, const int64_t *perm)
{
	struct ht_str perm_name = ht_str_printf(r->arena, "%.*s/perm", HT_STR_ARG(name));
	struct ht_shape from = ht_type_of(a)->shape;
	struct ht_value p = ht_rw_const_ints(r, before, perm_name, HT_I32, perm, from.rank);
	int64_t dim[HT_MAX_RANK];
	struct ht_node *n;

	for (int32_t i = 0; i < from.rank; i++)
		dim[i] = from.dim[perm[i]];
	n = ht_rw_node(r, before, HT_OP_Transpose, name, (struct ht_value[]){ a, p }, 2,
		(struct ht_type){ ht_type_of(a)->dtype, { from.rank, dim } });
	ht_attr_set_type(n, "T", ht_type_of(a)->dtype);
	ht_attr_set_type(n, "Tperm", HT_I32);
	return ht_out(n, 0);
}

struct ht_value ht_rw_reduce(struct ht_rw *r, struct ht_node *before, enum ht_op op,
	struct ht_str name, struct ht_value a, const int64_t *axes, int64_t count, bool keep_dims)
{
	struct ht_str axes_name = ht_str_printf(r->arena, "%.*s/axes", HT_STR_ARG(name));
	struct ht_value in[2] = { a, ht_rw_const_ints(r, before, axes_name, HT_I32, axes, count) };
	struct ht_type t = *ht_type_of(a);
	bool reduced[HT_MAX_RANK] = { false };
	int64_t dim[HT_MAX_RANK];
	int32_t rank = 0;
	struct ht_node *n;

	for (int64_t i = 0; t.shape.rank >= 0 && i < count; i++)
		reduced[axes[i] < 0 ? axes[i] + t.shape.rank : axes[i]] = true;
	for (int32_t i = 0; i < t.shape.rank; i++)
		if (!reduced[i] || keep_dims)
			dim[rank++] = reduced[i] ? 1 : t.shape.dim[i];
	if (t.shape.rank >= 0)
		t.shape = (struct ht_shape){ rank, dim };
	n = ht_rw_node(r, before, op, name, in, 2, t);
	ht_attr_set_type(n, "T", t.dtype);
	ht_attr_set_type(n, "Tidx", HT_I32);
	ht_attr_set_bool(n, "keep_dims", keep_dims);
	return ht_out(n, 0);
}

/* ---- constants ---- */

bool ht_is_const(struct ht_value v)
{
	return v.node->op == HT_OP_Const;
}

static bool element(const struct ht_tensor *t, int64_t i, double *x)
{
	const void *p = t->blob->p;

	switch ((int)t->dtype) {
	case HT_F32:
		*x = ht_load_f32(p, i);
		return true;
	case HT_F64:
		*x = ht_load_f64(p, i);
		return true;
	case HT_F16:
		*x = ht_f16_to_f32(ht_load_u16(p, i));
		return true;
	case HT_BF16:
		*x = ht_bf16_to_f32(ht_load_u16(p, i));
		return true;
	case HT_I32:
		*x = ht_load_i32(p, i);
		return true;
	case HT_I64:
		*x = (double)ht_load_i64(p, i);
		return (int64_t)*x == ht_load_i64(p, i) && fabs(*x) < 0x1p53;
	default:
		return false;
	}
}

bool ht_const_splat(struct ht_value v, double *x)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t bytes;

	if (!t || !t->blob || !t->blob->n || !element(t, 0, x))
		return false;
	bytes = ht_dtype_info(t->dtype)->bytes;
	return !memcmp(t->blob->p, (const char *)t->blob->p + bytes, t->blob->n - bytes);
}

bool ht_const_is(struct ht_value v, double x)
{
	double have;

	return ht_const_splat(v, &have) && have == x && signbit(have) == signbit(x);
}

const void *ht_const_f32(struct ht_value v, int64_t *n)
{
	const struct ht_tensor *t = ht_const_tensor(v);

	if (!t || t->dtype != HT_F32)
		return NULL;
	*n = (int64_t)(t->blob->n / sizeof(float));
	return t->blob->p;
}

bool ht_const_small_ints(struct ht_value v, int64_t *out, int max, int *count)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t n;

	if (!t || (t->dtype != HT_I32 && t->dtype != HT_I64))
		return false;
	n = t->blob->n / ht_dtype_info(t->dtype)->bytes;
	if (n > (size_t)max)
		return false;
	for (size_t i = 0; i < n; i++)
		out[i] = ht_tensor_int(t, i);
	*count = (int)n;
	return true;
}

bool ht_is_add(enum ht_op op)
{
	return op == HT_OP_Add || op == HT_OP_AddV2;
}

bool ht_match_with_const(struct ht_value v, enum ht_op op, double *c, struct ht_value *x)
{
	struct ht_node *n = v.node;

	if (n->op != op || n->ins != 2 || n->controls)
		return false;
	if (ht_const_splat(n->in[1], c)) {
		*x = n->in[0];
		return true;
	}
	*x = n->in[1];
	return ht_const_splat(n->in[0], c);
}

/* ---- products ---- */

static bool add_operand(const struct ht_rw *r, struct ht_value v, struct ht_product *p);

static bool add_product(const struct ht_rw *r, struct ht_node *n, struct ht_product *p)
{
	double c;

	if (p->nodes == (int)HT_COUNT(p->node) || n->controls)
		return false;
	p->node[p->nodes++] = n;
	if (n->op == HT_OP_Mul)
		return add_operand(r, n->in[0], p) && add_operand(r, n->in[1], p);
	if (n->op != HT_OP_RealDiv || !ht_const_splat(n->in[1], &c) || c == 0)
		return false;
	p->factor /= c;
	return add_operand(r, n->in[0], p);
}

static bool add_operand(const struct ht_rw *r, struct ht_value v, struct ht_product *p)
{
	struct ht_node *n = v.node;
	double c;

	if (ht_const_splat(v, &c)) {
		p->factor *= c;
		return true;
	}
	if (n->op == HT_OP_Mul && ht_rw_only_user(r, v) && !n->controls)
		return add_product(r, n, p);
	if (n->op == HT_OP_RealDiv && ht_rw_only_user(r, v) && ht_is_const(n->in[1]) &&
		ht_const_splat(n->in[1], &c))
		return add_product(r, n, p);
	if (p->count == HT_PRODUCT_MAX)
		return false;
	p->of[p->count++] = v;
	return true;
}

bool ht_rw_product(const struct ht_rw *r, struct ht_node *n, struct ht_product *p)
{
	*p = (struct ht_product){ .factor = 1 };
	return (n->op == HT_OP_Mul || n->op == HT_OP_RealDiv) && n->ins == 2 &&
	       add_product(r, n, p);
}

bool ht_rw_on(const struct ht_rw *r, enum ht_fusion_id id)
{
	return ht_fusion_on(r->c->fusions, id);
}

void ht_rw_hit(struct ht_rw *r, enum ht_fusion_id id)
{
	ht_fusion_hit(r->c->fusions, id);
}

void ht_rw_miss(const struct ht_rw *r, enum ht_fusion_id id, int met, const struct ht_node *n,
	const char *condition)
{
	ht_fusion_miss(r->c->fusions, id, met, n, condition);
}

enum ht_status ht_rw_each(struct ht_graph *g, struct ht_pass_context *c,
	void (*visit)(struct ht_rw *r, struct ht_node *n))
{
	struct ht_rw r;
	struct ht_node **all;
	size_t count;

	ht_rw_init(&r, g, c);
	all = ht_rw_nodes(&r, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i]->graph)
			visit(&r, all[i]);
	return HT_OK;
}
