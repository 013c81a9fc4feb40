/* Finds the op that gives each variable its first value.
 *
 * A MetaGraphDef of TensorFlow 1 lists its variables, each with the op that initialises it, in
 * collections (tf.GraphKeys).  Otherwise it is the Assign that TensorFlow names after the
 * variable, or the only Assign that restores nothing. */
#include "frontend/bundle.h"

#include "frontend/graphdef.h"

struct initialisers {
	struct ht_graph *g;
	struct ht_map *of;
	struct ht_map by_node; /* by the variable's node instead of its name, while all are
			        * searched */
	struct ht_map unclear; /* variables with several such Assigns */
};

static bool is_any(const struct ht_node *n, const char *a, const char *b)
{
	return ht_str_is(n->type, a) || ht_str_is(n->type, b);
}

static struct ht_value through_identities(struct ht_value v)
{
	for (int i = 0; i < 8 && ht_is(v.node, HT_FORWARDS) && v.node->ins == 1; i++)
		v = v.node->in[0];
	return v;
}

/* The variable to which `n` assigns; NULL: none. */
static struct ht_node *assigned(const struct ht_node *n)
{
	struct ht_value v;

	if (!is_any(n, "Assign", "AssignVariableOp") || n->ins < 2)
		return NULL;
	v = through_identities(n->in[0]);
	return ht_is(v.node, HT_VARIABLE) ? v.node : NULL;
}

/* ---- collections ---- */

static struct ht_str node_of(struct ht_str tensor)
{
	if (ht_str_ends(tensor, ":0"))
		tensor.n -= 2;
	return tensor;
}

static void read_variable(void *self, const struct ht_pb_reader *list, struct ht_str bytes)
{
	struct initialisers *x = self;
	struct ht_pb_source src = *list->src;
	struct ht_str variable = HT_STR(""), op = HT_STR("");
	struct ht_node *v, *n;
	struct ht_pb_reader r;
	struct ht_pb_value f;

	src.p = (const uint8_t *)bytes.p;
	src.n = bytes.n;
	src.diags = NULL;
	r = ht_pb_open(&src, HT_PB_VariableDef);
	while (ht_pb_next(&r, &f)) {
		if (f.number == 1)
			variable = f.s;
		else if (f.number == 2)
			op = f.s;
	}
	v = ht_graph_node(x->g, node_of(variable));
	n = ht_graph_node(x->g, node_of(op));
	if (r.status == HT_OK && v && n && ht_is(v, HT_VARIABLE))
		ht_map_at(x->of, ht_variable_name(v))->value = n;
}

/* Calls `item` for each item of the collections for whose key `wanted` returns true, if their lists are of `kind`. */
struct collecting {
	bool (*wanted)(struct ht_str key);
	uint32_t kind; /* a field number of CollectionDef: 1 is node_list, 2 is bytes_list */
	void (*item)(void *self, const struct ht_pb_reader *list, struct ht_str bytes);
	void *self;
};

static void read_collection(const struct collecting *x, struct ht_pb_reader entry)
{
	struct ht_pb_reader collection, list;
	struct ht_pb_value v, w, b;
	struct ht_str key = HT_STR("");

	while (ht_pb_next(&entry, &v)) {
		if (v.number == 1)
			key = v.s;
		if (v.number != 2 || !x->wanted(key))
			continue;
		collection = ht_pb_enter(&entry, &v);
		while (ht_pb_next(&collection, &w)) {
			if (w.number != x->kind)
				continue;
			list = ht_pb_enter(&collection, &w);
			while (ht_pb_next(&list, &b))
				if (b.number == 1)
					x->item(x->self, &list, b.s);
		}
	}
}

static void read_collections(const struct ht_graph *g, const struct collecting *x)
{
	struct ht_pb_source src;
	struct ht_pb_reader meta;
	struct ht_pb_value v;

	if (!ht_container_metagraph(g, &src, &meta))
		return;
	while (ht_pb_next(&meta, &v))
		if (v.number == 4)
			read_collection(x, ht_pb_enter(&meta, &v));
}

static bool is_of_variables(struct ht_str key)
{
	return ht_str_ends(key, "variables") || ht_str_is(key, "global_step");
}

/* ---- the train op ---- */

struct train_op {
	const struct ht_graph *g;
	const struct ht_node *found;
	size_t count;
};

static bool is_train_op(struct ht_str key)
{
	return ht_str_is(key, "train_op");
}

static void take_train_op(void *self, const struct ht_pb_reader *list, struct ht_str bytes)
{
	struct train_op *x = self;
	const struct ht_node *n = ht_graph_node(x->g, node_of(bytes));

	(void)list;
	if (!n || n == x->found)
		return;
	x->found = n;
	x->count++;
}

struct ht_str ht_train_op(const struct ht_graph *g)
{
	struct train_op x = { .g = g };
	const struct collecting nodes = { is_train_op, 1, take_train_op, &x };

	read_collections(g, &nodes);
	return x.count == 1 ? x.found->name : HT_STR("");
}

/* ---- assignments ---- */

static bool is_named_after(const struct ht_node *n, const struct ht_node *variable)
{
	return n->name.n == variable->name.n + 7 && ht_str_starts(n->name, variable->name.p) &&
	       ht_str_ends(n->name, "/Assign");
}

static void read_assignments(struct initialisers *x)
{
	for (struct ht_node *n = x->g->first; n; n = n->next) {
		struct ht_node *v = assigned(n);
		struct ht_map_entry *e;

		if (!v || ht_map_get(x->of, ht_variable_name(v)) ||
			ht_str_is(through_identities(n->in[1]).node->type, "RestoreV2"))
			continue;
		e = ht_map_at(&x->by_node, ht_variable_name(v));
		if (e->value && !is_named_after(n, v)) {
			if (!is_named_after(e->value, v))
				ht_map_at(&x->unclear, ht_variable_name(v))->value = n;
			continue;
		}
		e->value = n;
	}
	for (size_t i = 0; i < x->by_node.count; i++) {
		struct ht_str name = x->by_node.entries[i].key;

		if (!ht_map_get(&x->unclear, name) ||
			ht_str_ends(
				((struct ht_node *)x->by_node.entries[i].value)->name, "/Assign"))
			ht_map_at(x->of, name)->value = x->by_node.entries[i].value;
	}
}

void ht_initialisers(struct ht_graph *g, struct ht_arena *a, struct ht_map *of)
{
	struct initialisers x = { .g = g, .of = of };

	ht_map_init(of, a);
	ht_map_init(&x.by_node, a);
	ht_map_init(&x.unclear, a);
	read_collections(g, &(struct collecting){ is_of_variables, 2, read_variable, &x });
	read_assignments(&x);
}
