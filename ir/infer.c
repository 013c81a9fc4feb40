/* Inference of dtypes and shapes: the walk over a graph, and helpers of the rules.
 *
 * The dtypes of a node come from its signature, its shapes from the rule that its row names. Graphs
 * compute shapes, so the values of small integer tensors are inferred, too (infer_value.c). */
#include "ir/infer.h"

#include <string.h>

/* `notes`: the error is only noted. */
static enum ht_status HT_PRINTF(4, 0) report(const struct ht_infer *in, const struct ht_node *n,
	bool notes, const char *fmt, va_list args)
{
	struct ht_where at = {
		.path = in->g->library->path, .offset = -1, .node = n->name, .op = n->type
	};
	char text[512];

	vsnprintf(text, sizeof text, fmt, args);
	if (notes) {
		*in->fault = ht_str_printf(in->g->arena, "%s", text).p;
		return HT_E_INPUT;
	}
	if (in->g->function)
		return ht_error(in->d, HT_E_INPUT, at, "in function '%.*s': %s",
			HT_STR_ARG(in->g->function->name), text);
	return ht_error(in->d, HT_E_INPUT, at, "%s", text);
}

enum ht_status ht_infer_fail(
	const struct ht_infer *in, const struct ht_node *n, const char *fmt, ...)
{
	enum ht_status st;
	va_list args;

	va_start(args, fmt);
	st = report(in, n, in->may_not_run, fmt, args);
	va_end(args);
	return st;
}

enum ht_status ht_infer_refuse(
	const struct ht_infer *in, const struct ht_node *n, const char *fmt, ...)
{
	enum ht_status st;
	va_list args;

	va_start(args, fmt);
	st = report(in, n, false, fmt, args);
	va_end(args);
	return st;
}

/* NULL: a result of an opaque node, or one that has no type yet. */
static const struct ht_type *type_of(struct ht_value v)
{
	if (v.port.n || v.index < 0 || v.index >= v.node->outs)
		return NULL;
	return &v.node->out[v.index];
}

struct ht_shape ht_in_shape(const struct ht_node *n, int32_t i)
{
	const struct ht_type *t = type_of(n->in[i]);

	return t ? t->shape : HT_SHAPE_UNKNOWN;
}

enum ht_status ht_want_rank_of(
	struct ht_infer *in, const struct ht_node *n, int32_t i, int32_t least, int32_t most)
{
	struct ht_shape s = ht_in_shape(n, i);

	if (s.rank < 0 || (s.rank >= least && s.rank <= most))
		return HT_OK;
	if (least == most)
		return ht_infer_fail(in, n, "operand %d must have %d axes, its shape is %.*s",
			(int)i, (int)least, HT_STR_ARG(ht_shape_text(in, s)));
	return ht_infer_fail(in, n, "operand %d must have %d to %d axes, its shape is %.*s", (int)i,
		(int)least, (int)most, HT_STR_ARG(ht_shape_text(in, s)));
}

enum ht_status ht_want_rank(struct ht_infer *in, const struct ht_node *n, int32_t i, int32_t rank)
{
	return ht_want_rank_of(in, n, i, rank, rank);
}

struct ht_str ht_shape_text(const struct ht_infer *in, struct ht_shape s)
{
	struct ht_buf b;

	ht_buf_init(&b, in->g->arena);
	ht_shape_print(s, &b);
	return ht_buf_str(&b);
}

int64_t *ht_new_dims(struct ht_infer *in, int32_t rank)
{
	int64_t *d = HT_NEW_ARRAY(in->g->arena, int64_t, (size_t)rank);

	for (int32_t i = 0; i < rank; i++)
		d[i] = HT_DIM_UNKNOWN;
	return d;
}

int64_t ht_computed_dim(const struct ht_infer *in, const struct ht_node *n)
{
	int32_t size = ht_computed_size(in->g, n);
	const struct ht_open_size *s = size ? ht_size_at(in->g, size) : NULL;

	if (!s)
		return HT_DIM_UNKNOWN;
	return in->g->closed ? s->most : s->dim;
}

void ht_set_shape(struct ht_node *n, int32_t result, int32_t rank, const int64_t *dim)
{
	n->out[result].shape = (struct ht_shape){ rank, dim };
}

int64_t ht_dim_add(int64_t a, int64_t b)
{
	int64_t r;

	return a < 0 || b < 0 || __builtin_add_overflow(a, b, &r) ? HT_DIM_UNKNOWN : r;
}

int64_t ht_dim_mul(struct ht_infer *in, int64_t a, int64_t b)
{
	if (a == 1)
		return b;
	if (b == 1)
		return a;
	return ht_dim_of_product(
		in->g, ht_size_product(ht_dim_product(in->g, a), ht_dim_product(in->g, b)));
}

int64_t ht_dim_div(struct ht_infer *in, int64_t a, int64_t b)
{
	return ht_dim_of_product(
		in->g, ht_size_quotient(ht_dim_product(in->g, a), ht_dim_product(in->g, b)));
}

bool ht_merge_dim(int64_t a, int64_t b, int64_t *r)
{
	*r = a;
	if (a == b || b == HT_DIM_UNKNOWN)
		return true;
	if (a == HT_DIM_UNKNOWN || (a < 0 && b >= 0)) {
		*r = b;
		return true;
	}
	return a < 0 || b < 0;
}

bool ht_merge_shape(struct ht_infer *in, struct ht_shape a, struct ht_shape b, struct ht_shape *r)
{
	int64_t *d;

	*r = a.rank < 0 ? b : a;
	if (a.rank < 0 || b.rank < 0 || ht_shape_eq(a, b))
		return true;
	if (a.rank != b.rank)
		return false;
	d = ht_new_dims(in, a.rank);
	for (int32_t i = 0; i < a.rank; i++)
		if (!ht_merge_dim(a.dim[i], b.dim[i], &d[i]))
			return false;
	r->dim = d;
	return true;
}

static bool broadcast_dim(int64_t a, int64_t b, int64_t *r)
{
	*r = a;
	if (a == b || b == 1)
		return true;
	*r = b;
	if (a == 1)
		return true;
	if (a >= 0 && b >= 0)
		return false;
	/* One dimension is a size above 1, or 0: the other is the same size, or 1. */
	*r = a >= 0 ? a : b >= 0 ? b : HT_DIM_UNKNOWN;
	return true;
}

bool ht_broadcast_shapes(
	struct ht_infer *in, struct ht_shape a, struct ht_shape b, struct ht_shape *r)
{
	int32_t rank = a.rank > b.rank ? a.rank : b.rank;
	int64_t *d;

	*r = HT_SHAPE_UNKNOWN;
	if (a.rank < 0 || b.rank < 0)
		return true;
	*r = a;
	if (ht_shape_eq(a, b))
		return true;
	d = ht_new_dims(in, rank);
	for (int32_t i = 0; i < rank; i++) {
		int32_t ia = i - (rank - a.rank), ib = i - (rank - b.rank);

		if (!broadcast_dim(ia < 0 ? 1 : a.dim[ia], ib < 0 ? 1 : b.dim[ib], &d[i]))
			return false;
	}
	*r = (struct ht_shape){ rank, d };
	return true;
}

bool ht_fix_axis(int64_t *axis, int32_t rank)
{
	if (*axis < -(int64_t)rank || *axis >= rank)
		return false;
	if (*axis < 0)
		*axis += rank;
	return true;
}

/* ---- values of operands ---- */

static const struct ht_elem unknown_elems[HT_MAX_KNOWN];

/* Tensors of `count` elements of which none is known share one record. */
static const struct ht_known *unknown_of(struct ht_infer *in, int64_t count)
{
	struct ht_known *k = &in->unknown[count];

	k->n = (int32_t)count;
	k->e = (struct ht_elem *)(uintptr_t)unknown_elems;
	return k;
}

static struct ht_known *new_known(struct ht_infer *in, int32_t n)
{
	struct ht_known *k = HT_NEW(in->scratch, struct ht_known);

	k->n = n;
	k->e = HT_NEW_ARRAY(in->scratch, struct ht_elem, (size_t)n);
	return k;
}

static void read_elem(enum ht_dtype t, const char *p, struct ht_elem *e)
{
	double d;
	float f;
	int32_t narrow;

	e->kind = t == HT_F32 || t == HT_F64 ? HT_ELEM_FLOAT : HT_ELEM_INT;
	switch (t) {
	case HT_F32:
		memcpy(&f, p, sizeof f);
		e->f = f;
		break;
	case HT_F64:
		memcpy(&d, p, sizeof d);
		e->f = d;
		break;
	case HT_I32:
		memcpy(&narrow, p, sizeof narrow);
		e->i = narrow;
		break;
	case HT_I64:
		memcpy(&e->i, p, sizeof e->i);
		break;
	default:
		e->kind = HT_ELEM_UNKNOWN;
	}
}

static const struct ht_known *read_const(struct ht_infer *in, struct ht_value v)
{
	const struct ht_tensor *t = ht_const_tensor(v);
	size_t size, count;
	struct ht_known *k;

	if (!t || t->shape.rank < 0 || t->shape.rank > 2)
		return NULL;
	size = ht_dtype_info(t->dtype)->bytes;
	count = size ? t->blob->n / size : 0;
	if (!size || count > HT_MAX_KNOWN || ht_shape_count(t->shape) != (int64_t)count)
		return NULL;
	k = new_known(in, (int32_t)count);
	for (size_t i = 0; i < count; i++)
		read_elem(t->dtype, (const char *)t->blob->p + i * size, &k->e[i]);
	return k;
}

const struct ht_known *ht_in_known(struct ht_infer *in, const struct ht_node *n, int32_t i)
{
	struct ht_value v = n->in[i];
	const struct ht_type *t = type_of(v);
	int64_t count;

	if (!t)
		return NULL;
	if (ht_is(v.node, HT_CONSTANT))
		return read_const(in, v);
	if (in->known[v.node->id] && in->known[v.node->id][v.index].e)
		return &in->known[v.node->id][v.index];
	count = ht_shape_count(t->shape);
	if (t->shape.rank > 2 || count < 0 || count > HT_MAX_KNOWN)
		return NULL;
	return unknown_of(in, count);
}

bool ht_in_nothing_known(const struct ht_infer *in, const struct ht_node *n, int32_t i)
{
	struct ht_value v = n->in[i];

	return !ht_is(v.node, HT_CONSTANT) &&
	       !(in->known[v.node->id] && in->known[v.node->id][v.index].e);
}

bool ht_in_int(struct ht_infer *in, const struct ht_node *n, int32_t i, int64_t *value)
{
	const struct ht_known *k = ht_in_known(in, n, i);

	if (!k || k->n != 1 || k->e[0].kind != HT_ELEM_INT)
		return false;
	*value = k->e[0].i;
	return true;
}

int64_t ht_elem_dim(const struct ht_elem *e)
{
	if (e->kind == HT_ELEM_DIM || (e->kind == HT_ELEM_INT && e->i >= 0))
		return e->i;
	return HT_DIM_UNKNOWN;
}

struct ht_shape ht_in_as_shape(struct ht_infer *in, const struct ht_node *n, int32_t i, bool *ok)
{
	const struct ht_known *k = ht_in_known(in, n, i);
	int64_t *d;

	*ok = true;
	if (!k)
		return HT_SHAPE_UNKNOWN;
	if (k->n > HT_MAX_RANK) {
		*ok = false;
		return HT_SHAPE_UNKNOWN;
	}
	d = ht_new_dims(in, k->n);
	for (int32_t j = 0; j < k->n; j++) {
		d[j] = ht_elem_dim(&k->e[j]);
		if (k->e[j].kind == HT_ELEM_INT && k->e[j].i < -1)
			*ok = false;
	}
	return (struct ht_shape){ k->n, d };
}

/* ---- the walk ---- */

/* TF.js sometimes leaves type attributes out; the dtype of an operand of the same type replaces
 * them. */
static enum ht_dtype dtype_by_operands(
	const struct ht_node *n, const struct ht_op_info *info, int type_attr)
{
	int32_t first = 0, count;

	for (int i = 0; i < info->args; i++, first += count) {
		count = ht_formal_count(n, &info->arg[i]);
		if (info->arg[i].type_attr != type_attr || info->arg[i].type_list)
			continue;
		for (int32_t j = 0; j < count; j++) {
			const struct ht_type *t = type_of(n->in[first + j]);

			if (t && t->dtype != HT_INVALID)
				return t->dtype;
		}
	}
	return HT_INVALID;
}

static void set_dtypes(struct ht_node *n, const struct ht_op_info *info)
{
	int32_t at = 0, count;

	for (int i = 0; i < info->results; i++) {
		const struct ht_op_arg *r = &info->result[i];

		count = ht_formal_count(n, r);
		for (int32_t j = 0; j < count; j++, at++) {
			enum ht_dtype t = ht_formal_dtype(n, r, j);

			if (t == HT_INVALID && r->type_attr >= 0 && !r->type_list)
				t = dtype_by_operands(n, info, r->type_attr);
			n->out[at].dtype = t > HT_REF ? (enum ht_dtype)(t - HT_REF) : t;
		}
	}
}

static enum ht_status check_operands(struct ht_infer *in, const struct ht_node *n, int32_t args)
{
	if (n->ins != args)
		return ht_infer_refuse(
			in, n, "has %d operands, its type takes %d", (int)n->ins, (int)args);
	for (int32_t i = 0; i < n->ins; i++) {
		struct ht_value v = n->in[i];

		if (v.node->op != HT_OP_OPAQUE && !ht_closes_loop(v.node, n) &&
			(v.index < 0 || v.index >= v.node->outs))
			return ht_infer_refuse(in, n,
				"operand %d is result %d of '%.*s', which has %d", (int)i,
				(int)v.index, HT_STR_ARG(v.node->name), (int)v.node->outs);
	}
	return HT_OK;
}

/* Whether a node keeps the shape that it has: the user may state a placeholder's, and callers state
 * a function argument's. */
static bool keeps_shape(const struct ht_node *n)
{
	return ht_is(n, HT_FED);
}

static void forget_shapes(struct ht_node *n)
{
	for (int32_t i = 0; i < n->outs; i++)
		if (!keeps_shape(n))
			n->out[i].shape = HT_SHAPE_UNKNOWN;
}

/* Applies the rule of the node's op.  If the rule says that each run of the node fails, but none may run it, this is no error. */
static enum ht_status apply_rule(struct ht_infer *in, struct ht_node *n)
{
	const char *fault = NULL;
	enum ht_status st;

	in->fault = &fault;
	st = ht_op_info(n->op)->infer(in, n);
	in->fault = NULL;
	n->fault = fault;
	if (!fault)
		return st;
	forget_shapes(n);
	return HT_OK;
}

static enum ht_status infer_node(struct ht_infer *in, struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t args, results;

	if (n->op == HT_OP_OPAQUE)
		return HT_OK;
	args = ht_node_arg_count(n);
	results = ht_node_result_count(n);
	if (args < 0 || results < 0)
		return ht_infer_refuse(in, n,
			"an attribute that tells the number of operands or results is missing or wrong");
	HT_TRY(check_operands(in, n, args));
	ht_node_set_outs(n, results);
	set_dtypes(n, info);
	forget_shapes(n);
	HT_TRY(apply_rule(in, n));
	if (!n->fault)
		ht_infer_values(in, n);
	return HT_OK;
}

static struct ht_str key_of(const struct ht_graph *const *g)
{
	return (struct ht_str){ (const char *)g, sizeof *g };
}

static void keep_known(struct ht_infer *in)
{
	const struct ht_graph **key = HT_NEW(in->scratch, const struct ht_graph *);

	*key = in->g;
	ht_map_at(in->all, key_of(key))->value = in->known;
}

struct ht_known **ht_known_of(const struct ht_map *all, const struct ht_graph *g)
{
	return ht_map_get(all, key_of(&g));
}

/* Gives the arguments of a body the known elements of the operands. */
static void take_passed(struct ht_infer *in)
{
	const struct ht_port *p = in->passed ? in->g->function->args : NULL;

	for (int32_t i = 0; p; p = p->next, i++) {
		struct ht_known *k;

		if (!in->passed[i].e)
			continue;
		k = HT_NEW(in->scratch, struct ht_known);
		*k = in->passed[i];
		in->known[p->value.node->id] = k;
	}
	in->passed = NULL;
}

/* Whether the node is in a branch or a loop of TensorFlow 1, or behind one: it depends on a node of `framed`, by id, or begins one. */
static bool is_framed(const struct ht_node *n, const bool *framed)
{
	return ht_is(n, HT_SWITCHES | HT_DISPATCHES | HT_ENTERS) || ht_needs_marked(n, framed);
}

static enum ht_status infer_nodes(struct ht_infer *in)
{
	struct ht_graph *g = in->g;
	bool *framed = HT_NEW_ARRAY(in->scratch, bool, g->ids);

	in->known = HT_NEW_ARRAY(in->scratch, struct ht_known *, g->ids);
	if (in->all)
		keep_known(in);
	take_passed(in);
	/* Nodes read the values of loop back edges before these are set. */
	for (struct ht_node *n = g->first; n; n = n->next)
		if (ht_is(n, HT_ITERATES)) {
			ht_node_set_outs(n, 1);
			n->out[0].shape = HT_SHAPE_UNKNOWN;
		}
	for (struct ht_node *n = g->first; n; n = n->next) {
		framed[n->id] = is_framed(n, framed);
		in->may_not_run = g->function || framed[n->id];
		HT_TRY(infer_node(in, n));
	}
	return HT_OK;
}

static enum ht_status infer_graph(const struct ht_infer *of, struct ht_graph *g)
{
	struct ht_infer in = *of;

	in.g = g;
	return infer_nodes(&in);
}

enum ht_status ht_infer_function(const struct ht_infer *in, const struct ht_function *f)
{
	return infer_graph(in, f->body);
}

static struct ht_infer begin(struct ht_graph *g, struct ht_arena *scratch, struct ht_diags *d)
{
	return (struct ht_infer){ .g = g,
		.scratch = scratch,
		.d = d,
		.longer = HT_NEW(scratch, size_t),
		.unknown = HT_NEW_ARRAY(scratch, struct ht_known, HT_MAX_KNOWN + 1) };
}

static enum ht_status infer_all(struct ht_graph *g, struct ht_diags *d, bool hopeful)
{
	struct ht_infer in = begin(g, ht_arena_within(g->arena), d);
	enum ht_status st = HT_OK;

	in.hopeful = hopeful;
	for (struct ht_function *f = g->functions; f && st == HT_OK; f = f->next)
		st = infer_graph(&in, f->body);
	if (st == HT_OK)
		st = infer_graph(&in, g);
	ht_arena_release(in.scratch);
	return st;
}

enum ht_status ht_infer_known(
	struct ht_graph *g, struct ht_arena *a, struct ht_diags *d, struct ht_known ***known)
{
	struct ht_infer in = begin(g, a, d);
	HT_TRY(infer_nodes(&in));
	*known = in.known;
	return HT_OK;
}

enum ht_status ht_infer_all_known(struct ht_graph *g, struct ht_arena *a, struct ht_diags *d,
	bool hopeful, struct ht_map *all)
{
	struct ht_infer in = begin(g, a, d);

	ht_map_init(all, a);
	in.hopeful = hopeful;
	in.all = all;
	return infer_nodes(&in);
}

enum ht_status ht_infer_types(struct ht_graph *g, struct ht_diags *d)
{
	return infer_all(g, d, false);
}

enum ht_status ht_infer_types_hopefully(struct ht_graph *g, struct ht_diags *d)
{
	return infer_all(g, d, true);
}
