/* Finds which object of a SavedModel's object graph each variable is.
 *
 * A function of TensorFlow 2 takes the variables that it captures as its last arguments, and the SavedModel lists the objects behind them
 * (SavedConcreteFunction.bound_inputs).  The object graph of the checkpoint has the same numbers.  Names are not sufficient: layers of a
 * class of the user have variables of one name, and the function of the saver may restore a copy of the variable by another name. */
#include "frontend/bundle.h"

#include "frontend/graphdef.h"

struct captures {
	struct ht_graph *g;
	struct ht_arena *a;
	struct ht_map *objects; /* variable → uint64_t */
};

/* The call passes object `id` as operand `i`. */
static void note(struct captures *x, const struct ht_node *call, int64_t i, uint64_t id)
{
	const struct ht_node *n = call->in[i].node;
	struct ht_map_entry *e;
	uint64_t *copy;

	if (!ht_is(n, HT_VARIABLE))
		return;
	e = ht_map_at(x->objects, ht_str_copy(x->a, ht_variable_name(n)));
	if (e->value)
		return;
	e->value = copy = HT_NEW(x->a, uint64_t);
	*copy = id;
}

static void note_call(struct captures *x, const struct ht_node *call, const uint64_t *id, size_t n)
{
	for (size_t i = 0; i < n && n <= (size_t)call->ins; i++)
		note(x, call, call->ins - (int64_t)n + (int64_t)i, id[i]);
}

/* The objects that function `f` captures. */
static void read_function(struct captures *x, struct ht_str f, struct ht_pb_reader r)
{
	struct ht_pb_value v;
	uint64_t *id = NULL, item;
	size_t n = 0, cap = 0;

	while (ht_pb_next(&r, &v))
		while (v.number == 2 && ht_pb_item(&r, &v, &item)) {
			id = ht_grow(x->a, id, n, &cap, sizeof *id);
			id[n++] = item;
		}
	for (const struct ht_node *c = n ? x->g->first : NULL; c; c = c->next) {
		const struct ht_attr *called = ht_attr_find(c, "f");

		if (called && called->value.kind == HT_ATTR_FUNC &&
			ht_str_eq(called->value.func->name, f))
			note_call(x, c, id, n);
	}
}

/* An entry of SavedObjectGraph.concrete_functions. */
static void read_entry(struct captures *x, struct ht_pb_reader r)
{
	struct ht_str name = HT_STR("");
	struct ht_pb_value v;

	while (ht_pb_next(&r, &v)) {
		if (v.number == 1)
			name = v.s;
		else if (v.number == 2)
			read_function(x, name, ht_pb_enter(&r, &v));
	}
}

void ht_captured_objects(struct ht_graph *g, struct ht_arena *a, struct ht_map *objects)
{
	struct captures x = { .g = g, .a = a, .objects = objects };
	struct ht_pb_source src;
	struct ht_pb_reader meta, r;
	struct ht_pb_value v, w;

	if (g->source != HT_SOURCE_SAVEDMODEL || !ht_container_metagraph(g, &src, &meta))
		return;
	while (ht_pb_next(&meta, &v)) {
		if (v.number != 7)
			continue;
		r = ht_pb_enter(&meta, &v);
		while (ht_pb_next(&r, &w))
			if (w.number == 2)
				read_entry(&x, ht_pb_enter(&r, &w));
	}
}
