/* Checks the rules that hold for every graph, after import and after each pass.
 *
 * All violations are reported, not just the first. */
#include "ir/verify.h"

struct verify {
	struct ht_graph *g;
	const char *path;
	struct ht_arena *scratch;
	struct ht_diags *d;
	size_t *place; /* by node id: 1 + position in the list; 0: not in it */
	bool bad;
};

static void fail(struct verify *v, const struct ht_node *n, const char *fmt, ...) HT_PRINTF(3, 4);

static void fail(struct verify *v, const struct ht_node *n, const char *fmt, ...)
{
	struct ht_where at = { .path = v->path, .offset = -1 };
	char text[512];
	va_list args;

	if (n) {
		at.node = n->name;
		at.op = n->type;
	}
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	v->bad = true;
	if (v->g->function)
		ht_error(v->d, HT_E_INPUT, at, "in function '%.*s': %s",
			HT_STR_ARG(v->g->function->name), text);
	else
		ht_error(v->d, HT_E_INPUT, at, "%s", text);
}

static bool is_member(const struct verify *v, const struct ht_node *n)
{
	return n && n->graph == v->g && n->id < v->g->ids && v->place[n->id];
}

/* ---- the list and the names ---- */

static void check_list(struct verify *v)
{
	size_t count = 0;
	const struct ht_node *prev = NULL;

	for (const struct ht_node *n = v->g->first; n; prev = n, n = n->next) {
		HT_CHECK(n->graph == v->g && n->id < v->g->ids && n->prev == prev);
		HT_CHECK(!v->place[n->id]);
		v->place[n->id] = ++count;
	}
	HT_CHECK(v->g->last == prev && v->g->nodes == count);
}

static void check_name(struct verify *v, const struct ht_node *n)
{
	if (!n->name.n)
		fail(v, n, "has no name");
	else if (ht_graph_node(v->g, n->name) != n)
		fail(v, n, "another node has the same name");
	if (!n->type.n)
		fail(v, n, "has no op type");
}

/* ---- edges ---- */

static void check_value(struct verify *v, const struct ht_node *n, const char *what, int32_t i,
	struct ht_value value)
{
	int32_t results;

	if (!is_member(v, value.node)) {
		fail(v, n, "%s %d is not a node of the graph", what, (int)i);
		return;
	}
	results = ht_node_result_count(value.node);
	if (value.index < 0 || (results >= 0 && !value.port.n && value.index >= results))
		fail(v, n, "%s %d is result %d of '%.*s' (%.*s), which has %d", what, (int)i,
			(int)value.index, HT_STR_ARG(value.node->name),
			HT_STR_ARG(value.node->type), (int)results);
	else if (results < 0 && !value.port.n && value.index >= value.node->outs)
		fail(v, n, "%s %d is result %d of '%.*s', of which %d are kept", what, (int)i,
			(int)value.index, HT_STR_ARG(value.node->name), (int)value.node->outs);
}

static void check_edges(struct verify *v, const struct ht_node *n)
{
	for (int32_t i = 0; i < n->ins; i++) {
		const struct ht_node *from = n->in[i].node;

		check_value(v, n, "operand", i, n->in[i]);
		if (is_member(v, from) && v->place[from->id] >= v->place[n->id] &&
			!ht_closes_loop(from, n))
			fail(v, n, "stands before its operand '%.*s'", HT_STR_ARG(from->name));
	}
	for (int32_t i = 0; i < n->controls; i++) {
		const struct ht_node *from = n->control[i];

		if (!is_member(v, from))
			fail(v, n, "control input %d is not a node of the graph", (int)i);
		else if (v->place[from->id] >= v->place[n->id])
			fail(v, n, "stands before its control input '%.*s'",
				HT_STR_ARG(from->name));
	}
}

/* ---- against the op table ---- */

static enum ht_dtype without_ref(enum ht_dtype t)
{
	return t > HT_REF ? (enum ht_dtype)(t - HT_REF) : t;
}

static bool allows(const struct ht_op_type_attr *a, const struct ht_node *n, enum ht_dtype t)
{
	if (a->allowed == ~UINT64_C(1)) /* any type, also those that this table lacks */
		return t != HT_INVALID;
	t = without_ref(t);
	if (t == HT_F64 && n->graph->library->wide && a->allowed >> HT_F32 & 1)
		return true;
	return (unsigned)t < HT_DTYPE_END && (a->allowed >> t & 1);
}

static void check_type_attr(
	struct verify *v, const struct ht_node *n, const struct ht_op_type_attr *t)
{
	const struct ht_attr *a;

	for (a = n->attrs; a; a = a->next)
		if (ht_str_eq(a->name, t->name))
			break;
	if (!a || a->value.kind == HT_ATTR_PLACEHOLDER || a->value.kind == HT_ATTR_LIST)
		return;
	if (a->value.kind != HT_ATTR_TYPE)
		fail(v, n, "attribute '%.*s' is no type", HT_STR_ARG(a->name));
	else if (!allows(t, n, a->value.type))
		fail(v, n, "attribute '%.*s' must not be %s", HT_STR_ARG(a->name),
			ht_dtype_info(a->value.type)->name);
}

static void check_attrs(struct verify *v, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);

	const struct ht_attr *twice = ht_attr_twice(n->attrs, v->scratch);

	if (twice)
		fail(v, n, "has attribute '%.*s' twice", HT_STR_ARG(twice->name));
	for (int i = 0; i < info->type_attrs; i++)
		check_type_attr(v, n, &info->type_attr[i]);
}

/* Attributes that a call of the function will set say nothing yet. */
static bool has_placeholder(const struct ht_node *n)
{
	for (const struct ht_attr *a = n->attrs; a; a = a->next)
		if (a->value.kind == HT_ATTR_PLACEHOLDER)
			return true;
	return false;
}

static void check_operand_types(struct verify *v, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t at = 0, count;

	for (int i = 0; i < info->args; i++) {
		count = ht_formal_count(n, &info->arg[i]);
		for (int32_t j = 0; j < count && at < n->ins; j++, at++) {
			struct ht_value in = n->in[at];
			enum ht_dtype want = without_ref(ht_formal_dtype(n, &info->arg[i], j)), has;

			if (!is_member(v, in.node) || in.port.n || in.index < 0 ||
				in.index >= in.node->outs)
				continue;
			has = without_ref(in.node->out[in.index].dtype);
			if (want != HT_INVALID && has != HT_INVALID && want != has)
				fail(v, n, "operand %d ('%.*s', from '%.*s') is %s, must be %s",
					(int)at, HT_STR_ARG(info->arg[i].name),
					HT_STR_ARG(in.node->name), ht_dtype_info(has)->name,
					ht_dtype_info(want)->name);
		}
	}
}

/* The stated type of a result is the one that the attributes give. */
static void check_result_types(struct verify *v, const struct ht_node *n)
{
	const struct ht_op_info *info = ht_op_info(n->op);
	int32_t at = 0, count;

	for (int i = 0; i < info->results; i++) {
		count = ht_formal_count(n, &info->result[i]);
		for (int32_t j = 0; j < count && at < n->outs; j++, at++) {
			enum ht_dtype want = without_ref(ht_formal_dtype(n, &info->result[i], j));
			enum ht_dtype has = without_ref(n->out[at].dtype);

			if (want != HT_INVALID && has != HT_INVALID && want != has)
				fail(v, n, "result %d ('%.*s') is %s, its attributes say %s",
					(int)at, HT_STR_ARG(info->result[i].name),
					ht_dtype_info(has)->name, ht_dtype_info(want)->name);
		}
	}
}

static void check_signature(struct verify *v, const struct ht_node *n)
{
	int32_t args, results;

	if (n->op == HT_OP_OPAQUE)
		return;
	HT_CHECK(ht_str_eq(ht_op_info(n->op)->name, n->type));
	args = ht_node_arg_count(n);
	results = ht_node_result_count(n);
	if (args < 0 || results < 0) {
		if (!has_placeholder(n))
			fail(v, n,
				"lacks an attribute that tells the number of operands or results");
		return;
	}
	if (n->ins != args)
		fail(v, n, "has %d operands, its type takes %d", (int)n->ins, (int)args);
	else
		check_operand_types(v, n);
	check_result_types(v, n);
}

/* Constants have the elements that their shape states. */
static void check_constant(struct verify *v, const struct ht_node *n)
{
	const struct ht_attr *a = ht_attr_find(n, "value");
	const struct ht_tensor *t;
	size_t size, bytes;
	int64_t count;

	if (!ht_is(n, HT_CONSTANT) || (a && a->value.kind == HT_ATTR_PLACEHOLDER))
		return;
	if (!a || a->value.kind != HT_ATTR_TENSOR) {
		fail(v, n, "has no tensor in attribute 'value'");
		return;
	}
	t = a->value.tensor;
	if (ht_attr_type(n, "dtype", t->dtype) != t->dtype)
		fail(v, n, "attribute 'dtype' is not the tensor's");
	size = ht_dtype_info(t->dtype)->bytes;
	count = ht_shape_count(t->shape);
	if (!t->blob || !size || count < 0)
		return;
	if (!ht_mul_size((size_t)count, size, &bytes) || bytes != t->blob->n)
		fail(v, n, "has %zu bytes, %lld elements of %s take another number", t->blob->n,
			(long long)count, ht_dtype_info(t->dtype)->name);
}

static void check_ports(struct verify *v, const char *what, const struct ht_port *p)
{
	for (int32_t i = 0; p; p = p->next, i++)
		if (p->value.index >= 0)
			check_value(v, NULL, what, i, p->value);
		else if (!is_member(v, p->value.node))
			fail(v, NULL, "%s '%.*s' is not a node of the graph", what,
				HT_STR_ARG(p->name));
}

static bool verify_graph(
	struct ht_graph *g, const char *path, struct ht_arena *scratch, struct ht_diags *d)
{
	struct verify v = { .g = g, .path = path, .scratch = scratch, .d = d };

	v.place = HT_NEW_ARRAY(scratch, size_t, g->ids);
	check_list(&v);
	for (const struct ht_node *n = g->first; n; n = n->next) {
		check_name(&v, n);
		check_edges(&v, n);
		check_attrs(&v, n);
		check_signature(&v, n);
		check_constant(&v, n);
	}
	for (const struct ht_entry *e = g->entries; e; e = e->next) {
		check_ports(&v, "entry input", e->inputs);
		check_ports(&v, "entry output", e->outputs);
		check_ports(&v, "entry target", e->targets);
	}
	if (g->function) {
		check_ports(&v, "function argument", g->function->args);
		check_ports(&v, "function result", g->function->rets);
		check_ports(&v, "function control result", g->function->control_rets);
	}
	return !v.bad;
}

/* A graph that passed and has not changed since passes again. */
static bool is_good(
	struct ht_graph *g, const char *path, struct ht_arena *scratch, struct ht_diags *d)
{
	uint64_t mark = ht_verify_mark(g);

	if (g->verified != mark)
		g->verified = verify_graph(g, path, scratch, d) ? mark : 0;
	return g->verified != 0;
}

enum ht_status ht_verify(struct ht_graph *g, struct ht_diags *d)
{
	struct ht_arena *scratch = ht_arena_within(g->arena);
	bool good = is_good(g, g->path, scratch, d);

	for (struct ht_function *f = g->functions; f; f = f->next)
		good = is_good(f->body, g->path, scratch, d) && good;
	ht_arena_release(scratch);
	return good ? HT_OK : HT_E_INPUT;
}
