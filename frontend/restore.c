/* Finds the tensor of the checkpoint that each variable gets.  The saver of a MetaGraphDef names
 * an op that restores all variables; its assignments determine the tensors.
 *
 * TensorFlow 1: Assign(variable, RestoreV2:i) nodes that the op waits for.  TensorFlow 2: a call
 * of a function that assigns to its arguments.  Names are not sufficient: Keras gives several
 * variables one name in the checkpoint's object graph, and gives the same variables other names
 * in the graph. */
#include "frontend/bundle.h"

#include "frontend/graphdef.h"
#include "frontend/slices.h"

struct restore {
	struct ht_graph *g;
	struct ht_arena *a;
	struct ht_map *keys; /* variable → struct ht_restored */
	bool *seen;          /* by node id */
};

bool ht_container_metagraph(
	const struct ht_graph *g, struct ht_pb_source *src, struct ht_pb_reader *meta)
{
	struct ht_pb_reader r;
	struct ht_pb_value v;
	const uint8_t *chosen;

	if (!g->container.n ||
		(g->source != HT_SOURCE_SAVEDMODEL && g->source != HT_SOURCE_METAGRAPH))
		return false;
	*src = (struct ht_pb_source){ .p = (const uint8_t *)g->container.p,
		.n = g->container.n,
		.translated = true,
		.depth = 16 };
	r = ht_pb_open(
		src, g->source == HT_SOURCE_SAVEDMODEL ? HT_PB_SavedModel : HT_PB_MetaGraphDef);
	*meta = r;
	if (g->source == HT_SOURCE_METAGRAPH)
		return true;
	chosen = ht_savedmodel_choose(r);
	while (ht_pb_next(&r, &v))
		if (v.at == chosen)
			*meta = ht_pb_enter(&r, &v);
	return chosen != NULL;
}

/* The saver of the message that the graph came in. */
static bool find_saver(const struct ht_graph *g, struct ht_pb_source *src, struct ht_str *op)
{
	struct ht_pb_reader r, meta;
	struct ht_pb_value v, w;

	if (!ht_container_metagraph(g, src, &meta))
		return false;
	*op = HT_STR("");
	while (ht_pb_next(&meta, &v)) {
		if (v.number != 3)
			continue;
		r = ht_pb_enter(&meta, &v);
		while (ht_pb_next(&r, &w))
			if (w.number == 3)
				*op = w.s;
	}
	return op->n != 0;
}

static bool is(const struct ht_node *n, const char *type)
{
	return ht_str_is(n->type, type);
}

static struct ht_value through_identities(struct ht_value v)
{
	for (int i = 0; i < 8 && is(v.node, "Identity") && v.node->ins; i++)
		v = v.node->in[0];
	return v;
}

/* String `i` of a constant; the last one stands for all behind it. */
static bool string_of(struct ht_value v, size_t i, struct ht_str *string)
{
	const struct ht_tensor *t;
	const struct ht_attr *value;

	v = through_identities(v);
	value = is(v.node, "Const") ? ht_attr_find(v.node, "value") : NULL;
	if (!value || value->value.kind != HT_ATTR_TENSOR)
		return false;
	t = value->value.tensor;
	if (!t->strings || !t->values)
		return false;
	*string = t->strings[i < t->values ? i : t->values - 1];
	return true;
}

/* What RestoreV2 restores its result `v` from: a tensor, or a slice of one.  False: `v` is no such result, or the tensor's name is not known. */
static bool restored_by(struct restore *r, struct ht_value v, struct ht_restored *of)
{
	struct ht_str spec;
	struct ht_slice s;

	v = through_identities(v);
	*of = (struct ht_restored){ 0 };
	if (!is(v.node, "RestoreV2") || v.node->ins < 3 ||
		!string_of(v.node->in[1], (size_t)v.index, &of->key))
		return false;
	if (!string_of(v.node->in[2], (size_t)v.index, &spec) || !spec.n)
		return true;
	if (ht_slice_of_spec(of->key, spec, &s)) {
		of->key = ht_slice_key(r->a, &s);
	} else {
		of->malformed = spec;
		of->node = v.node->name;
	}
	return true;
}

static void note(struct restore *r, const struct ht_node *variable, struct ht_value value)
{
	struct ht_str shared = ht_attr_str(variable, "shared_name", "");
	struct ht_restored of, *copy;

	if (!restored_by(r, value, &of))
		return;
	copy = HT_NEW(r->a, struct ht_restored);
	copy->key = ht_str_copy(r->a, of.key);
	copy->malformed = ht_str_copy(r->a, of.malformed);
	copy->node = ht_str_copy(r->a, of.node);
	ht_map_at(r->keys, ht_str_copy(r->a, shared.n ? shared : variable->name))->value = copy;
}

static bool assigns(const struct ht_node *n)
{
	return (is(n, "AssignVariableOp") || is(n, "Assign")) && n->ins >= 2;
}

/* Visits a call: the function's assignments to its arguments. */
static void walk_call(struct restore *r, const struct ht_node *call)
{
	const struct ht_attr *name = ht_attr_find(call, "f");
	const struct ht_function *f;
	struct ht_value v;
	int64_t index;

	if (!name || name->value.kind != HT_ATTR_FUNC)
		return;
	f = ht_graph_function(r->g, name->value.func->name);
	for (const struct ht_node *n = f ? f->body->first : NULL; n; n = n->next) {
		if (!assigns(n))
			continue;
		v = through_identities(n->in[0]);
		index = is(v.node, "_Arg") ? ht_attr_int(v.node, "index", -1) : -1;
		if (index >= 0 && index < call->ins)
			note(r, through_identities(call->in[index]).node, n->in[1]);
	}
}

/* Visits the nodes that the restoring op depends on, control edges included. */
static void walk(struct restore *r, struct ht_node *op)
{
	struct ht_node **stack = HT_NEW_ARRAY(r->a, struct ht_node *, r->g->nodes), *n;
	size_t count = 0;

	stack[count++] = op;
	r->seen[op->id] = true;
	while (count) {
		n = stack[--count];
		if (assigns(n))
			note(r, through_identities(n->in[0]).node, n->in[1]);
		walk_call(r, n);
		for (int32_t i = 0; i < n->ins + n->controls; i++) {
			struct ht_node *from = i < n->ins ? n->in[i].node : n->control[i - n->ins];

			if (!r->seen[from->id]) {
				r->seen[from->id] = true;
				stack[count++] = from;
			}
		}
	}
}

bool ht_restore_keys(struct ht_graph *g, struct ht_arena *a, struct ht_map *keys)
{
	struct restore r = { .g = g, .a = a, .keys = keys };
	struct ht_pb_source src;
	struct ht_str name;
	struct ht_node *op;

	if (!find_saver(g, &src, &name))
		return false;
	if (ht_str_ends(name, ":0"))
		name.n -= 2;
	op = ht_graph_node(g, name);
	if (!op)
		return false;
	r.seen = HT_NEW_ARRAY(a, bool, g->ids);
	walk(&r, op);
	return keys->count != 0;
}
